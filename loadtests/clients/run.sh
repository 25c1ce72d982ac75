#!/usr/bin/env bash
# Measures the same load with this repository's client and with aiperf, through Streamgate before
# a simulated engine in real time, and writes loadtests/results/clients/README.md: TTFT, TPOT
# and goodput side by side, and what each client makes of truncated streams. Takes 5 minutes, and
# once the installation of aiperf (1.2 GB, in target/aiperf-venv or $AIPERF_VENV).
#
#   loadtests/clients/run.sh [closed] [open] [truncated]     these parts only; default: all
set -euo pipefail
cd "$(dirname "$0")/../.."

here=loadtests/clients
out=loadtests/results/clients
venv=${AIPERF_VENV:-$PWD/target/aiperf-venv}
profile=${PROFILE:-release}
flags=(--locked --package streamgate --package streamgate-loadtests --bins)
[[ $profile == release ]] && flags+=(--release)
cargo build "${flags[@]}"
target=$(cargo metadata --locked --no-deps --format-version 1 |
  sed -E 's/.*"target_directory":"([^"]*)".*/\1/')
load=$target/$profile/streamgate-loadtests
read -ra priority <<<"${PRIORITY:-}"

if [[ ! -e $venv/ready ]]; then
  "${PYTHON:-python3}" -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --requirement "$here/requirements.txt"
  touch "$venv/ready"
fi

work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

"$venv/bin/python" "$here/make_tokenizer.py" "$work/tokenizer"

# Starts a process and waits until its log tells the address that matches a pattern.
started() { # LOG PATTERN
  for _ in $(seq 200); do
    sed -nE "s/.*$2.*/\1/p" "$1" | head -1 | grep . && return
    sleep 0.05
  done
  echo "not started: $(cat "$1")" >&2
  return 1
}
"${priority[@]}" "$load" engine --listen 127.0.0.1:0 >"$work/engine.log" 2>&1 &
pids+=($!)
engine=$(started "$work/engine.log" 'engine listening on ([0-9.:]+)')

export STREAMGATE_KEY=client-comparison-key
hash=$(printf %s "$STREAMGATE_KEY" | sha256sum | cut -d' ' -f1)
read -r port admin < <(python3 -c '
import socket
a, b = socket.socket(), socket.socket()
a.bind(("127.0.0.1", 0)); b.bind(("127.0.0.1", 0))
print(a.getsockname()[1], b.getsockname()[1])')
cat >"$work/streamgate.yaml" <<YAML
listen: {proxy: "127.0.0.1:$port", admin: "127.0.0.1:$admin"}
log: {level: warn}
pools:
  - name: sim
    models: ["*"]
    strategy: least-request
    endpoints: ["$engine"]
tenants:
  - {id: all, api_keys: ["sha256:$hash"], max_in_flight: 1000}
YAML
"${priority[@]}" "$target/$profile/streamgate" serve --config "$work/streamgate.yaml" >"$work/streamgate.log" 2>&1 &
pids+=($!)
for _ in $(seq 200); do
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
  kill -0 "${pids[-1]}" 2>/dev/null || { cat "$work/streamgate.log" >&2; exit 1; }
  sleep 0.05
done

# aiperf sends the very bodies that our own client sends, in the same order.
bodies() { # SCENARIO COUNT
  for ((i = 0; i < $2; i++)); do
    "$load" request "$here/$1.yaml" --phase load --index "$i"
    echo
  done >"$work/$1.jsonl"
}
own() { # SCENARIO BASE
  "${priority[@]}" "$load" run "$here/$1.yaml" --base "$2" --out "$out/$1${3:-}" --quiet
}
aiperf() { # NAME SCENARIO BASE OPTIONS…
  local name=$1 scenario=$2 base=$3
  shift 3
  # NVIDIA's tool: no model download, no interface, counts as the server tells them.
  "${priority[@]}" "$venv/bin/aiperf" profile --model sim --url "$base" --endpoint-type chat \
    --streaming --api-key "$STREAMGATE_KEY" --tokenizer "$work/tokenizer" \
    --use-server-token-count --input-file "$work/$scenario.jsonl" \
    --custom-dataset-type raw-payload --dataset-sampling-strategy sequential \
    --goodput "time_to_first_token:2000 inter_token_latency:150 request_latency:30000" \
    --ui none --artifact-dir "$work/$name" "$@" >"$work/$name.log" 2>&1 ||
    # It ends with an error when every request failed, as truncated ones through Streamgate do.
    grep -q "All .* inference request(s) failed" "$work/$name.log" ||
    { tail -30 "$work/$name.log" >&2; return 1; }
  mkdir -p "$out/aiperf"
  # Without what tells of the machine: folders, endpoints, the command line.
  "$venv/bin/python" - "$work/$name/profile_export_aiperf.json" "$out/aiperf/$name.json" <<'PY'
import json, sys
from pathlib import Path
told = json.loads(Path(sys.argv[1]).read_text()) if Path(sys.argv[1]).exists() else {}
kept = {k: v for k, v in told.items() if k not in ("input_config", "run_info", "telemetry_data")}
json.dump(kept, open(sys.argv[2], "w"), indent=1)
PY
  gzip -9nc "$work/$name/profile_export.jsonl" >"$out/aiperf/$name.jsonl.gz"
}

base=http://127.0.0.1:$port
parts=("$@")
((${#parts[@]})) || { parts=(closed open truncated); rm -rf "$out"; }
wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }
if wanted closed; then
  bodies closed 48
  own closed "$base"
  aiperf closed closed "$base" --concurrency 4 --request-count 48
fi
if wanted open; then
  bodies open 66
  own open "$base"
  aiperf open open "$base" --request-rate 1.1 --request-rate-mode constant --request-count 66
fi
# The next eight answers end properly after 20 events, without a terminal event and without usage:
# first straight from the engine, then through Streamgate, which does not let such a stream pass.
truncate() { curl --silent --fail --output /dev/null --request POST \
  "http://$engine/sim/next?end-after=20&times=8"; }
wanted truncated && bodies truncated 8
for way in direct streamgate; do
  wanted truncated || break
  to=$base
  [[ $way == direct ]] && to=http://$engine
  truncate
  own truncated "$to" "-$way"
  truncate
  aiperf "truncated-$way" truncated "$to" --concurrency 4 --request-count 8
done
python3 "$here/table.py" "$out" >"$out/README.md"
"$load" manifest "$out" >/dev/null
cat "$out/README.md"
