#!/usr/bin/env bash
# make test, make test-all, make sanitize, make test-jax: the set-up of make demo, then the tests.
#   scripts/test.sh [quick|all|sanitize|jax]
source "$(dirname "$0")/common.sh"
mode=${1:-quick}

CLOSING=()
# run NAME COMMAND...: shows the output as it comes, and keeps its last line.
run() {
  local name=$1 log="$LOGS/$1.log" result=0
  shift
  say "$name"
  "$@" 2>&1 | tee "$log" || result=$?
  CLOSING+=("$name: $(grep -E 'tests passed|tests failed| (passed|failed|error|skipped)|^== .*: ' \
    "$log" | tail -n 1 | tr -d '=' | xargs)")
  if [ $result -ne 0 ]; then
    CLOSING+=("$name: FAILED (exit code $result)")
    FAILED=1
  fi
}
FAILED=0

# ---- Jobs beside the Python tests, which leave cores idle now and then ----
AHEAD=
NEWEST=
trap 'kill $AHEAD $NEWEST 2>/dev/null || true' EXIT

# build_ahead PRESET: begins a build that test_c needs later, on one core.
build_ahead() {
  (configure "$1" && exec nice -n 19 ninja -C "build/$1" -j 1) >"$LOGS/ahead-$1.log" 2>&1 &
  AHEAD=$!
}

# The newest TensorFlow has no Keras 2 of its own and needs Python 3.10.
wants_newest() {
  [ "$(tensorflow_version .venv)" != 2.21.0 ] &&
    .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 10))'
}

begin_newest() {
  (
    make_environment .venv-2.21 "$PYTHON"
    install_tensorflow .venv-2.21 new
    install_onednn .venv-2.21 onednn-cpu-gomp==2023.2.0
    install_packages .venv-2.21 test "pytest>=7" cbor2 pycapnp
    install_tremula .venv-2.21
    # A job in the background ignores SIGINT otherwise, and some tests send it.
    exec nice -n 10 env --default-signal=INT .venv-2.21/bin/python -m pytest -q -m smoke \
      -p no:cacheprovider
  ) >"$LOGS/newest.log" 2>&1 &
  NEWEST=$!
}

# Shows the output of the job, as if it had run now.
end_newest() {
  local result=0
  wait "$NEWEST" || result=$?
  NEWEST=
  run "Python smoke tests (TensorFlow 2.21.0)" bash -c 'cat "$0"; exit "$1"' \
    "$LOGS/newest.log" "$result"
}

# configure PRESET
configure() {
  cmake --preset "$1" -DTREMULA_PYTHON="$PWD/.venv/bin/python" \
    -DTREMULA_WERROR="${TREMULA_WERROR:-OFF}"
}

# test_c PRESET: builds and runs the C tests and the replays of the fuzzers.
test_c() {
  if [ -n "$AHEAD" ]; then
    wait "$AHEAD" || true # a failure shows again below
    AHEAD=
  fi
  quietly "configure-$1" configure "$1" || die "cmake failed for the preset $1."
  quietly "build-$1" cmake --build --preset "$1" || die "the build of the preset $1 failed."
  run "C tests ($1)" ctest --preset "$1" -j "$(nproc)"
}

# install_plugin ENVIRONMENT: a third party's PJRT plugin, which stands for an accelerator. Without
# it the tests of accelerators are skipped.
install_plugin() {
  (install_packages "$1" plugin --no-deps lammps-jax-pjrt-cpu==0.11.2) || true
}

# test_jax one|all: the tests of tremula.jax with the newest JAX, or everything with a range.
test_jax() {
  local version folder words=(-m "not long")
  if [ "$1" = all ]; then words=(); fi
  for version in $(jax_versions .venv/bin/python "$1"); do
    folder=.venv-jax-$version
    make_environment "$folder" "$PYTHON"
    install_jax "$folder" "$version"
    install_tremula "$folder"
    install_plugin "$folder"
    run "Python tests (JAX $version)" "$folder/bin/python" -m pytest -q -p no:cacheprovider \
      ${words[@]+"${words[@]}"} tests/python/jax
  done
}

WITH_SANITIZERS=0
if [ "$mode" != quick ] || [ "${TREMULA_SANITIZE_IN_TEST:-1}" = 1 ]; then WITH_SANITIZERS=1; fi

set_up
if [ "$mode" = jax ]; then
  test_jax all
  exit $FAILED
fi
need_library cmocka libcmocka-dev
need_command g++ g++
need_command ar binutils
install_missing

if [ "$mode" != sanitize ]; then
  install_packages .venv test "pytest>=7" pytest-xdist cbor2 pycapnp
  install_plugin .venv
  install_browser "$mode"
  install_packages .venv style clang-format==18.1.8 clang-tidy==18.1.8 ruff==0.17.6
  test_c release
  analyze=()
  if [ "$mode" = all ]; then analyze=(--analyze); fi
  run "Style" bash scripts/style.sh ${analyze[@]+"${analyze[@]}"}
  if [ $WITH_SANITIZERS = 1 ]; then build_ahead asan-ubsan; fi
  if wants_newest; then begin_newest; fi
  longs=(-m "not long")
  if [ "$mode" = all ]; then longs=(); fi
  run "Python tests (TensorFlow $(tensorflow_version .venv))" \
    .venv/bin/python -m pytest -q -n 2 --dist loadfile ${longs[@]+"${longs[@]}"}

  if [ "$mode" = all ]; then test_jax all; else test_jax one; fi
  if [ -n "$NEWEST" ]; then end_newest; fi
fi
if [ $WITH_SANITIZERS = 1 ]; then test_c asan-ubsan; fi
if [ "$mode" = all ]; then
  test_c tsan
  run "The wheel in a bare system" bash -c 'bash scripts/wheel.sh && bash scripts/try_wheel.sh'
fi

printf '\n'
for line in "${CLOSING[@]}"; do say "$line"; done
exit $FAILED
