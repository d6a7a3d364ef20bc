#!/usr/bin/env bash
# Runs the fuzz targets (tests/fuzz) with libFuzzer and the address and undefined-behaviour
# sanitizers; meant for the night.
#   scripts/fuzz.sh [EXECUTIONS] [TARGET...]
# EXECUTIONS: of each target (1 000 000); FUZZ_SECONDS=N ends a target earlier. Needs clang, its
# compiler-rt and OpenMP (on Debian: clang, libclang-rt-14-dev, libomp-14-dev). New inputs stay in
# build/fuzz/corpus/TARGET; an input that fails is in build/fuzz/findings/TARGET. Once the fault is
# mended, put that input into tests/fuzz/corpus/TARGET, which the tests replay. To make it smaller:
# build/fuzz/bin/fuzz_TARGET -minimize_crash=1 FILE
set -euo pipefail
cd "$(dirname "$0")/.."
executions=${1:-1000000}
shift || true
command -v clang >/dev/null || { echo "scripts/fuzz.sh: clang is missing" >&2; exit 1; }
python=${TREMULA_PYTHON:-$PWD/.venv/bin/python}
cmake --preset fuzz -DTREMULA_PYTHON="$python" >/dev/null
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    targets+=("${name#fuzz_}")
  done
fi
ninja -j "${JOBS:-$(nproc)}" -C build/fuzz "${targets[@]/#/fuzz_}" >build/fuzz/build.log ||
  { tail -n 30 build/fuzz/build.log; exit 1; }
failed=0
for target in "${targets[@]}"; do
  learnt=build/fuzz/corpus/$target findings=build/fuzz/findings/$target log=build/fuzz/$target.log
  mkdir -p "$learnt" "$findings"
  result=0
  # A timeout, or more memory than this, is a finding too. Leaks are looked for once, at the end.
  nice -n 19 "build/fuzz/bin/fuzz_$target" -runs="$executions" -timeout=60 -rss_limit_mb=4096 \
    -max_total_time="${FUZZ_SECONDS:-0}" -malloc_limit_mb=3072 -print_final_stats=1 \
    -artifact_prefix="$findings/" \
    "$learnt" "tests/fuzz/corpus/$target" >"$log" 2>&1 || result=$?
  done=$(grep -o 'number_of_executed_units: [0-9]*' "$log" | tail -n 1 | grep -o '[0-9]*$' || true)
  if [ $result -eq 0 ]; then
    echo "$target: ${done:-?} executions, no finding"
  else
    echo "$target: FAILED after ${done:-?} executions (exit code $result): $log"
    failed=1
  fi
done
exit $failed
