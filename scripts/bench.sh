#!/usr/bin/env bash
# make bench: the kernels' benchmarks in C, then the comparisons with the peers, bench/*.py.
#   scripts/bench.sh            everything
#   scripts/bench.sh league     Tremula beside JAX, PyTorch, ONNX Runtime, OpenVINO, TensorFlow, XLA
# ROWS, PEERS and THREADS (names and numbers with commas) choose a part of the league.
source "$(dirname "$0")/common.sh"
mode=${1:-all}

set_up

# ---- The league: an environment for each peer ------------------------------------------------------

# wants KIND NAME...: whether one of the names is among PEERS.
wants() {
  local name
  shift
  [ -n "${PEERS:-}" ] || return 0
  for name in "$@"; do
    case ",$PEERS," in *",$name,"*) return 0 ;; esac
  done
  return 1
}

install_torch() {
  if [ -e "$1/.tremula-torch" ]; then return; fi
  say "installing PyTorch into $1 (some 5 GB)"
  quietly pip-torch "$1/bin/python" -m pip install torch numpy ||
    die "pip could not install PyTorch." "PEERS=tremula,jax make bench leaves it out."
  touch "$1/.tremula-torch"
}

make_peers() {
  if wants jax tremula jax; then
    make_environment .venv-bench-jax "$PYTHON"
    install_jax .venv-bench-jax "$(jax_versions .venv/bin/python one)"
    install_tremula .venv-bench-jax
  fi
  if wants torch torch; then
    make_environment .venv-bench-torch "$PYTHON"
    install_torch .venv-bench-torch
  fi
  if wants onnx onnxruntime openvino; then
    make_environment .venv-bench-onnx "$PYTHON"
    install_packages .venv-bench-onnx onnx onnxruntime onnx openvino numpy
  fi
  if wants tf tf xla; then
    make_environment .venv-bench-tf "$PYTHON"
    install_tensorflow .venv-bench-tf
  fi
}

run_league() {
  make_peers
  printf '\n'
  say "bench/league.py"
  .venv/bin/python bench/league.py --rows "${ROWS:-}" --peers "${PEERS:-}" \
    --threads "${THREADS:-}" || die "bench/league.py failed."
}

if [ "$mode" = league ]; then
  run_league
  exit
fi

# ---- Everything ------------------------------------------------------------------------------------

need_library cmocka libcmocka-dev
install_missing
install_browser
quietly configure-release cmake --preset release -DTREMULA_PYTHON="$PWD/.venv/bin/python" ||
  die "cmake failed for the preset release."
quietly build-bench cmake --build --preset release --target benchmarks tremula_tool tremula_viewer ||
  die "the build of the benchmarks failed."
for benchmark in build/release/bin/bench_*; do
  printf '\n'
  say "$(basename "$benchmark")"
  "$benchmark" || die "$benchmark failed."
done
run_league
for script in bench/*.py; do
  python=.venv/bin/python
  case $script in
    bench/league.py) continue ;;
    bench/jax_functions.py) python=.venv-bench-jax/bin/python ;;
  esac
  [ -x "$python" ] || continue
  printf '\n'
  say "$script"
  "$python" "$script" || die "$script failed."
done
