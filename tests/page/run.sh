#!/bin/sh
# Browser check of the live page: needs node, npm and a Chromium (CHROMIUM, default
# /usr/bin/chromium; Debian's package is `chromium`). Screenshots go to PAGE_SHOTS if it is set.
set -eu
cd "$(dirname "$0")"
[ -d node_modules/playwright-core ] || npm install --no-audit --no-fund --no-package-lock
cd ../..
exec cargo test --package streamgate --test operator page:: -- --ignored --nocapture
