#!/usr/bin/env bash
# The demonstration of config/demo.yaml: two simulated engines, one ingress with its counts in
# memory, two tenants, and the live page. Everything listens on loopback and ends with Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${DEMO_PROFILE:-dev}
engines=(127.0.0.1:18001 127.0.0.1:18002)
proxy=http://127.0.0.1:8080
admin=http://127.0.0.1:9180

echo "Building (the first time takes some minutes) …"
cargo build --locked --profile "$profile" --package streamgate --package streamgate-loadtests --bins
target=$(cargo metadata --locked --no-deps --format-version 1 |
  sed -E 's/.*"target_directory":"([^"]*)".*/\1/')
directory=$profile
[[ $profile == dev ]] && directory=debug
bin=$target/$directory

pids=()
stop() {
  trap - EXIT
  # The ingress first: it drains while its engines still answer.
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}
trap stop EXIT
trap 'exit 0' INT TERM

"$bin/streamgate" serve --config config/demo.yaml &
pids+=($!)
for address in "${engines[@]}"; do
  "$bin/streamgate-loadtests" engine --listen "$address" --model demo &
  pids+=($!)
done

alive() {
  for pid in "${pids[@]}"; do
    kill -0 "$pid" 2>/dev/null || return 1
  done
}

# wait_for URL: until it answers 200, at most 20 s, or until something ended.
wait_for() {
  for _ in {1..200}; do
    curl -fsS -o /dev/null --max-time 1 "$1" 2>/dev/null && return
    if ! alive; then
      echo "A process ended before the demo was up; is one of its ports in use?" >&2
      exit 1
    fi
    sleep 0.1
  done
  echo "$1 did not answer within 20 s." >&2
  exit 1
}
for address in "${engines[@]}"; do
  wait_for "http://$address/health"
done
wait_for "$admin/readyz"

cat <<END

Streamgate is up.

  live page     $admin/
  API           $proxy/v1/…   (model: any name, such as demo)
  tenants       interactive   cap 4, waits in a queue   key sg-demo-interactive
                batch         cap 2, refused above it   key sg-demo-batch

One stream:

  curl -N $proxy/v1/chat/completions -H 'Authorization: Bearer sg-demo-interactive' \\
    -H 'Content-Type: application/json' \\
    -d '{"model":"demo","stream":true,"max_tokens":200,"messages":[{"role":"user","content":"Hello"}]}'

Five at once for a tenant with a cap of two (three are refused):

  for i in 1 2 3 4 5; do curl -s -o /dev/null -w '%{http_code}\n' $proxy/v1/completions \\
    -H 'Authorization: Bearer sg-demo-batch' -H 'Content-Type: application/json' \\
    -d '{"model":"demo","max_tokens":300,"prompt":"Hello"}' & done; wait

Ctrl-C ends it.
END

# Until one of them ends.
wait -n "${pids[@]}" || true
echo "A process of the demo ended; the rest is stopped." >&2
exit 1
