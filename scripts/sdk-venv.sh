#!/usr/bin/env bash
# Prepares the Python environment with the real client libraries of tests/sdk and prints the path
# of its interpreter; see venv.sh.
set -euo pipefail
exec "$(dirname "$0")/venv.sh" sdk "openai, anthropic, httpx"
