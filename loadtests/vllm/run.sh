#!/usr/bin/env bash
# A small load on a real vLLM behind Streamgate; the report goes to loadtests/results/vllm/.
#
# Opt-in, for it installs 1.2 GB once (6 minutes, 2.9 GB in target/vllm/venv or $VLLM_VENV). Needs
# gcc, libnuma1 and Python 3.10 or later. PROFILE=debug uses the debug build.
set -euo pipefail
cd "$(dirname "$0")/../.."

here=loadtests/vllm
venv=${VLLM_VENV:-$PWD/target/vllm/venv}
profile=${PROFILE:-release}
flags=(--locked --package streamgate --package streamgate-loadtests --bins)
[[ $profile == release ]] && flags+=(--release)
cargo build "${flags[@]}"
target=$(cargo metadata --locked --no-deps --format-version 1 |
  sed -E 's/.*"target_directory":"([^"]*)".*/\1/')
read -ra priority <<<"${PRIORITY:-}"

mkdir -p "$(dirname "$venv")"
INSTALL_ONLY=1 "$here/serve.sh" "$venv"

work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

# Ports for vLLM, the proxy and its administration.
read -r engine port admin < <(python3 -c '
import socket
held = [socket.socket() for _ in range(3)]
for s in held: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))')

# Waits until a URL answers, at most 180 s, as long as the process lives.
answers() { # URL PID LOG
  for _ in $(seq 360); do
    curl --silent --fail --output /dev/null "$1" && return
    kill -0 "$2" 2>/dev/null || break
    sleep 0.5
  done
  tail -40 "$3" >&2
  return 1
}

VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS=1 "$here/serve.sh" "$venv" "$engine" >"$work/vllm.log" 2>&1 &
pids+=($!)
echo "waiting for vLLM …"
answers "http://127.0.0.1:$engine/health" "${pids[0]}" "$work/vllm.log"

export STREAMGATE_KEY_A=real-engine-key-of-a STREAMGATE_KEY_B=real-engine-key-of-b
hash() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
cat >"$work/streamgate.yaml" <<YAML
listen: {proxy: "127.0.0.1:$port", admin: "127.0.0.1:$admin"}
log: {level: warn}
pools:
  - name: vllm
    models: ["*"]
    endpoints: ["127.0.0.1:$engine"]
tenants:
  - {id: A, api_keys: ["sha256:$(hash "$STREAMGATE_KEY_A")"], max_in_flight: 16}
  - {id: B, api_keys: ["sha256:$(hash "$STREAMGATE_KEY_B")"], max_in_flight: 2}
YAML
"${priority[@]}" "$target/$profile/streamgate" serve --config "$work/streamgate.yaml" \
  >"$work/streamgate.log" 2>&1 &
pids+=($!)
answers "http://127.0.0.1:$admin/metrics" "${pids[1]}" "$work/streamgate.log"

"${priority[@]}" "$target/$profile/streamgate-loadtests" run "$here/small.yaml" \
  --base "http://127.0.0.1:$port" --metrics "http://127.0.0.1:$engine/metrics" \
  --metrics "http://127.0.0.1:$admin/metrics" --strict --quiet
