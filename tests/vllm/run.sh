#!/usr/bin/env bash
# Two real vLLM servers on the processor behind Streamgate: drained and replaced by the recipe of
# k8s/overlays/vllm, and what happens without it. `make test-vllm` calls this.
#
# Opt-in, for it installs 1.2 GB once (6 minutes, 2.9 GB in target/vllm/venv or $VLLM_VENV), shared
# with `make loadtest-vllm`. Needs gcc, libnuma1, Python 3.10 or later, and 6 GB of memory; takes
# about ten minutes. PROFILE=release uses the release build. Everything listens on loopback.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=${VLLM_VENV:-$PWD/target/vllm/venv}
streamgate=${STREAMGATE:-}
if [[ -z $streamgate ]]; then
  profile=${PROFILE:-debug}
  flags=(--locked --package streamgate --bins)
  [[ $profile == release ]] && flags+=(--release)
  cargo build "${flags[@]}"
  streamgate=$(cargo metadata --locked --no-deps --format-version 1 |
    sed -E 's/.*"target_directory":"([^"]*)".*/\1/')/$profile/streamgate
fi

# Larger than the smallest, so that streams last for seconds.
export LAYERS=4 HIDDEN=128 KV_BYTES=134217728
mkdir -p "$(dirname "$venv")"
INSTALL_ONLY=1 loadtests/vllm/serve.sh "$venv"

exec "$venv/bin/python" -B tests/vllm/rollout.py --streamgate "$streamgate" --venv "$venv"
