#!/usr/bin/env bash
# make bench: the kernels' benchmarks in C, then the comparisons with the peers, bench/*.py.
source "$(dirname "$0")/common.sh"

set_up
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
for script in bench/*.py; do
  [ -e "$script" ] || continue
  printf '\n'
  say "$script"
  .venv/bin/python "$script" || die "$script failed."
done
