#!/usr/bin/env bash
# Kills a replica that stands still: the outside watchdog of docs/quota.md, limit (a).
#
#   scripts/watchdog.sh PID ADMIN_ADDRESS [REPLICA_LEASE_SECONDS]
#
# Asks `/livez` ten times in a lease and sends SIGKILL once nothing was answered for 35 % of one. It must not stand still together with what it watches: run it outside of the container or the
# virtual machine if that is what may freeze. Ends with the process: 0 it ended by itself, 3 killed.
set -euo pipefail

if (($# < 2)); then
  echo "usage: $0 PID ADMIN_ADDRESS [REPLICA_LEASE_SECONDS]" >&2
  exit 2
fi
pid=$1 address=$2 lease=${3:-3}

# The time in milliseconds that has passed since the machine started: no step of the clock counts.
now() {
  local up rest
  read -r up rest </proc/uptime
  echo $((10#${up/./} * 10))
}

pause=$(awk -v lease="$lease" 'BEGIN { printf "%.3f", lease / 10 }')
patience=$(awk -v lease="$lease" 'BEGIN { printf "%d", lease * 350 }')

answered=$(now)
while kill -0 "$pid" 2>/dev/null; do
  asked=$(now)
  if curl --silent --output /dev/null --max-time "$pause" "http://$address/livez"; then
    answered=$asked
  fi
  if (($(now) - answered >= patience)); then
    kill -KILL "$pid" 2>/dev/null || true
    echo "watchdog: killed $pid, which did not answer for $(($(now) - answered)) ms" >&2
    exit 3
  fi
  sleep "$pause"
done
