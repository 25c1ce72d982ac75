#!/usr/bin/env bash
# Prepares the Python environment of tests/NAME/requirements.txt and prints the path of its
# interpreter.
#
#   scripts/venv.sh NAME MODULES     MODULES: what must load afterwards, such as "openai, httpx"
#
# The environment lives in target/NAME-venv and is made once: its stamp is a hash of the
# requirements and of the interpreter. PYTHON chooses another interpreter (3.10 or later).
set -euo pipefail
cd "$(dirname "$0")/.."

name=${1:?usage: $0 NAME MODULES}
modules=${2:?usage: $0 NAME MODULES}
requirements=tests/$name/requirements.txt
venv=$PWD/target/$name-venv
python=${PYTHON:-python3}
log=$PWD/target/$name-venv.log

fail() {
  echo "$name-venv: $1" >&2
  exit 1
}

command -v "$python" >/dev/null 2>&1 || fail "$python not found; install Python 3.10 or later."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
  fail "$("$python" --version) is too old; set PYTHON to an interpreter of 3.10 or later."

stamp=$({
  cat "$requirements"
  "$python" -c 'import sys; print(sys.version, sys.executable)'
} | sha256sum | cut -d' ' -f1)

ready() {
  [[ -x $venv/bin/python && -f $venv/stamp && $(<"$venv/stamp") == "$stamp" ]]
}

# Plain Debian has `venv` without the parts that put pip into it; the interpreter's own pip can
# install into the environment from outside.
make_venv() {
  rm -rf "$venv"
  if "$python" -m venv "$venv" && "$venv/bin/python" -m pip --version; then
    "$venv/bin/python" -m pip install --no-input -r "$requirements"
    return
  fi
  rm -rf "$venv"
  if "$python" -m venv --without-pip "$venv" && "$python" -m pip --version; then
    local site
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$python" -m pip install --no-input --target "$site" -r "$requirements"
    return
  fi
  rm -rf "$venv"
  "$python" -m virtualenv "$venv"
  "$venv/bin/python" -m pip install --no-input -r "$requirements"
}

if ! ready; then
  mkdir -p target
  # Two test runs at once must not build the same directory.
  exec 9>"target/$name-venv.lock"
  command -v flock >/dev/null 2>&1 && flock 9
  if ! ready; then
    echo "$name-venv: installing $requirements (once)" >&2
    if ! (set -e; make_venv) >"$log" 2>&1 </dev/null; then
      tail -n 15 "$log" >&2
      fail "could not install $requirements (log: $log). It needs python3-venv or pip, and a package index."
    fi
    "$venv/bin/python" -c "import $modules" 2>>"$log" || fail "$modules do not load (log: $log)."
    echo "$stamp" >"$venv/stamp"
  fi
fi
echo "$venv/bin/python"
