#!/usr/bin/env bash
# Makes sure that what `make demo` or `make test` needs beside Rust is there.
#
#   scripts/prerequisites.sh build|demo|test
#
# On Debian and its relatives, as root or with a sudo that asks for no password, what is missing
# is installed without a question. Elsewhere it is named, with the way to get it. When nothing is
# missing this takes a few milliseconds. STREAMGATE_NO_INSTALL=1 only ever names.
set -euo pipefail

purpose=${1:-}
case $purpose in
build | demo | test) ;;
*)
  echo "usage: $0 build|demo|test" >&2
  exit 2
  ;;
esac

missing=() # what, for people
packages=() # Debian's names

# need COMMAND PACKAGE WHY
need() {
  command -v "$1" >/dev/null 2>&1 && return
  missing+=("$1: $3")
  packages+=("$2")
}

find_missing() {
  missing=() packages=()
  need make make "runs the recipes"
  need cc gcc "C compiler, for zlib-ng, zstd and jemalloc"
  need cmake cmake "builds zlib-ng"
  if [[ $purpose == demo || $purpose == test ]]; then
    need curl curl "asks the started servers"
  fi
  if [[ $purpose == test ]]; then
    need redis-server redis-server "the quota store of the tests, on ports of their own"
    need python3 python3 "runs real client libraries against the ingress (3.10 or later)"
    # Either way scripts/sdk-venv.sh can make its environment.
    if ! python3 -c 'import venv, ensurepip' >/dev/null 2>&1 &&
      ! python3 -c 'import venv, pip' >/dev/null 2>&1; then
      missing+=("python3 venv module: keeps the client libraries apart")
      packages+=(python3-venv)
    fi
  fi
  # The linker may find a compiler whose headers are not installed.
  if command -v cc >/dev/null 2>&1 && ! echo '#include <stdlib.h>' | cc -E - >/dev/null 2>&1; then
    missing+=("C headers: the compiler has no stdlib.h")
    packages+=(libc6-dev)
  fi
}

say_missing() {
  echo "Missing for \`make $purpose\`:"
  printf '  - %s\n' "${missing[@]}"
} >&2

if ! command -v cargo >/dev/null 2>&1; then
  echo "Missing: the Rust toolchain (cargo). Get it from https://rustup.rs, then run this again." >&2
  exit 1
fi
find_missing
((${#missing[@]} == 0)) && exit 0
say_missing

as_root=()
if [[ $(id -u) != 0 ]]; then
  as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null 2>&1; then
  echo "Install them with your package manager (on Debian they are: ${packages[*]})." >&2
  exit 1
fi
if [[ ${STREAMGATE_NO_INSTALL:-} == 1 ]] || ! "${as_root[@]}" true 2>/dev/null; then
  echo "Install them:  sudo apt-get install --no-install-recommends ${packages[*]}" >&2
  exit 1
fi

echo "Installing: ${packages[*]}" >&2
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "${packages[@]}" </dev/null >&2
}
# The package lists of a fresh machine or image are often empty or old.
install || { "${as_root[@]}" apt-get update -qq </dev/null >&2 && install; }

find_missing
if ((${#missing[@]} > 0)); then
  echo "Still missing after the installation:" >&2
  printf '  - %s\n' "${missing[@]}" >&2
  exit 1
fi
