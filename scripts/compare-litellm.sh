#!/usr/bin/env bash
# Runs scripts/compare/compare.py: Streamgate and LiteLLM with a Redis, on the same scripted faults.
# About ten minutes. Needs redis-server, redis-cli and Python 3.10 or later; the environment with
# LiteLLM is made once, in target/litellm-venv.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/compare/requirements.txt
venv=$PWD/target/litellm-venv
python=${PYTHON:-python3}

scripts/prerequisites.sh test
stamp=$({
  cat "$requirements"
  "$python" -c 'import sys; print(sys.version, sys.executable)'
} | sha256sum | cut -d' ' -f1)
if [[ ! -f $venv/stamp || $(<"$venv/stamp") != "$stamp" ]]; then
  echo "compare-litellm: installing LiteLLM (once)" >&2
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --no-input -r "$requirements"
  echo "$stamp" >"$venv/stamp"
fi
cargo build --release --locked -p streamgate -p streamgate-loadtests
exec "$venv/bin/python" scripts/compare/compare.py "$@"
