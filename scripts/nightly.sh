#!/usr/bin/env bash
# Searches that take hours, for the night. Needs the set-up of `make test`, and clang.
#   scripts/nightly.sh [FUZZ_EXECUTIONS] [INTERRUPTS] [DAMAGED_PROFILES] [DAMAGED_FILES]
# Fuzz targets (scripts/fuzz.sh), random modules with calls of outlined functions through the passes
# for an IPU (a tenth of FUZZ_EXECUTIONS), Ctrl-C at random moments (scripts/interrupts.py), profiles
# damaged at random, through Python and through the analyser's page, and every write failing. Make a
# test or a file of a corpus of what fails.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${TREMULA_PYTHON:-.venv/bin/python}
failed=0
export TREMULA_LIBRARY_DIR=$PWD/build/release/lib PYTHONPATH=$PWD/python
TREMULA_DAMAGE_ROUNDS=${3:-20000} TREMULA_WRITES=10000 "$python" -m pytest -q \
  tests/python/tool/test_damaged_profiles.py tests/python/tool/test_failing_writes.py \
  tests/python/poplar/test_popc.py || failed=1
TREMULA_PAGE_ROUNDS=$((${4:-1000000} / 5)) "$python" -m pytest -q \
  tests/python/web/test_page.py -k refuse_damage || failed=1
"$python" scripts/interrupts.py "${2:-300}" "$RANDOM" || failed=1
"$python" scripts/interrupts.py "$((${2:-300} / 5))" "$RANDOM" --import || failed=1
TREMULA_RANDOM_CALLS=$((RANDOM * 100000)):$((${1:-1000000} / 10)) \
  build/release/bin/passes_test_random_calls || failed=1
bash scripts/fuzz.sh "${1:-1000000}" || failed=1
exit $failed
