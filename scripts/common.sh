# Functions that the scripts share: saying what happens, and setting up a machine. Sourced by bash.
#
# All may be run again: they leave alone what is installed already.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
LOGS=build/logs
mkdir -p "$LOGS"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf '== [%4ds] %s\n' "$SECONDS" "$*"; }
die() {
  printf '\nmake: %s\n' "$1" >&2
  shift
  if [ $# -gt 0 ]; then printf '      %s\n' "$@" >&2; fi
  exit 1
}

# quietly NAME COMMAND...: writes the output to a file, and shows the end of it after a failure.
quietly() {
  local log="$LOGS/$1.log"
  shift
  "$@" >"$log" 2>&1 && return 0
  printf '\n---- the last lines of %s\n' "$log" >&2
  tail -n 25 "$log" >&2
  return 1
}

# ---- Packages of the system -----------------------------------------------------------------

MISSING=()
need_command() { command -v "$1" >/dev/null 2>&1 || MISSING+=("$2"); }
need_library() {
  if ! command -v pkg-config >/dev/null 2>&1 || ! pkg-config --exists "$1"; then
    MISSING+=("$2")
  fi
}

# update_apt [sudo]: once in a run.
update_apt() {
  [ -z "${APT_IS_NEW:-}" ] || return 0
  APT_IS_NEW=1
  quietly apt-update "$@" apt-get update
}

install_missing() {
  [ ${#MISSING[@]} -gt 0 ] || return 0
  local root=()
  say "installing with apt: ${MISSING[*]}"
  if ! command -v apt-get >/dev/null 2>&1; then
    die "this system has no apt, and some packages are missing." \
      "Install what Debian calls: ${MISSING[*]}" "and run make again."
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      root=(sudo)
    else
      die "some packages are missing, and this user may not install them. As root, run:" \
        "apt-get install ${MISSING[*]}" "and then make again."
    fi
  fi
  update_apt ${root[@]+"${root[@]}"} ||
    say "apt-get update failed (no network?); trying with what apt knows"
  quietly apt-install ${root[@]+"${root[@]}"} env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends -o APT::Keep-Downloaded-Packages=false \
    "${MISSING[@]}" ||
    die "apt-get could not install: ${MISSING[*]}" \
      "Is there a network (or a proxy to set)? The lines above are apt's own."
  MISSING=()
}

need_build_packages() {
  need_command gcc gcc
  need_command cmake cmake
  need_command ninja ninja-build
  need_command pkg-config pkg-config
  need_command protoc-c protobuf-c-compiler
  need_library libprotobuf-c libprotobuf-c-dev
  need_library libxxhash libxxhash-dev
  need_library jansson libjansson-dev
  need_library sqlite3 libsqlite3-dev
  need_library libcbor libcbor-dev
  if ! printf '#include <stdlib.h>\n' | gcc -E - >/dev/null 2>&1; then MISSING+=(libc6-dev); fi
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  [ "$(printf '%s\n' 3.22 "$version" | sort -V | head -n1)" = 3.22 ] ||
    die "cmake $version is too old: 3.22 is needed (Debian 12 and Ubuntu 22.04 have it)."
}

# ---- Python ---------------------------------------------------------------------------------

python_fits() {
  "$1" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

# Sets PYTHON. 3.9 to 3.11 first: they have the TensorFlow with which everything works.
choose_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    python_fits "$PYTHON" || die "PYTHON=$PYTHON is not a Python from 3.9 to 3.13."
    return
  fi
  for candidate in python3.11 python3.10 python3.9 python3 python3.12 python3.13; do
    if python_fits "$candidate"; then
      PYTHON=$candidate
      return
    fi
  done
  return 1
}

find_python() {
  if ! choose_python; then
    if command -v python3 >/dev/null 2>&1; then
      die "no Python from 3.9 to 3.13 was found; TensorFlow has none for $(python3 -V 2>&1)." \
        "Install one and run: make demo PYTHON=/path/to/python3.11"
    fi
    MISSING+=(python3 python3-venv)
    install_missing
    choose_python || die "the system's $(python3 -V 2>&1) is not from 3.9 to 3.13." \
      "Install such a Python and run: make demo PYTHON=/path/to/python3.11"
  fi
  if ! "$PYTHON" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    MISSING+=("$("$PYTHON" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")
  fi
}

# make_environment FOLDER PYTHON
make_environment() {
  if "$1/bin/python" -m pip --version >/dev/null 2>&1; then return; fi
  say "making the Python environment $1 with $("$2" -V 2>&1)"
  rm -rf "$1"
  quietly venv "$2" -m venv "$1" ||
    die "$2 -m venv failed." "On Debian and Ubuntu the package python3-venv has what it needs."
  # uv reads no configuration of pip, so it would not find an index of one's own.
  if [ "$1" = .venv ] && ! .venv/bin/python -m pip config list | grep index >/dev/null; then
    quietly uv .venv/bin/python -m pip install uv==0.13.9 || true # pip installs then
  fi
}

# uv installs in a third of pip's processor time. What several environments have, it stores once.
UV=$PWD/.venv/bin/uv
export UV_CACHE_DIR=${UV_CACHE_DIR:-$PWD/build/uv} UV_PYTHON_DOWNLOADS=never
# uv leaves it to Python to write compiled files, which also the processes of the tests need.
unset PYTHONDONTWRITEBYTECODE

# pip_install FOLDER ARGUMENT...: by uv, or where that fails by pip.
pip_install() {
  local python=$1/bin/python
  shift
  if [ ! -x "$UV" ] || ! "$UV" pip install --python "$python" "$@"; then
    "$python" -m pip install "$@"
  fi
}

# install_packages FOLDER NAME PACKAGE...: once for each list of packages.
install_packages() {
  local folder=$1 stamp=$1/.tremula-$2 name=$2
  shift 2
  if [ "$(cat "$stamp" 2>/dev/null)" = "$*" ]; then return; fi
  say "installing with pip into $folder: $*"
  quietly "pip-$name" pip_install "$folder" "$@" ||
    die "pip could not install: $*" \
      "Is there a network (or a proxy, or an index of your own, to set)? The lines above are pip's."
  printf '%s' "$*" >"$stamp"
}

# install_tensorflow FOLDER [old|new]: by default, the one that fits the environment's Python.
install_tensorflow() {
  local which=${2:-}
  if [ -z "$which" ]; then
    which=$("$1/bin/python" -c 'import sys; print("old" if sys.version_info < (3, 12) else "new")')
  fi
  if [ "$which" = old ]; then
    install_packages "$1" tensorflow tensorflow-cpu==2.15.1
  else
    install_packages "$1" tensorflow tensorflow-cpu==2.21.0
    # Its only requirement is TensorFlow, by a name that would install a second copy of 600 MB.
    install_packages "$1" keras --no-deps tf_keras==2.21.0
  fi
  # The later home of tf.contrib.layers, for old programs.
  install_packages "$1" slim --no-deps tf_slim==1.1.0
}

# jax_versions PYTHON one|all: the newest JAX that goes with a Python, or the range that is tested.
jax_versions() {
  local newest=0.10.2 range="0.4.30 0.5.3"
  case $("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])') in
    3.9) newest=0.4.30 range= ;;
    3.10) newest=0.6.2 ;;
    3.11) range="$range 0.7.2" ;;
    3.12) newest=0.12.0.1 range="$range 0.7.2 0.10.2" ;;
    3.13) newest=0.12.0.1 range="0.5.3 0.7.2 0.10.2" ;;
  esac
  if [ "$2" = all ]; then echo $range $newest; else echo $newest; fi
}

# install_jax FOLDER VERSION
install_jax() {
  install_packages "$1" jax "jax[cpu]==$2" "pytest>=7"
  install_onednn "$1" onednn-cpu-gomp==2023.2.0
}

# oneDNN's wheel has its library of 54 MB three times, because a wheel has no links.
install_onednn() {
  local lib=$1/lib
  shift
  install_packages "${lib%/lib}" onednn "$@"
  if [ ! "$lib/libdnnl.so" -ef "$lib/libdnnl.so.3" ]; then
    ln -f "$lib"/libdnnl.so.3.* "$lib/libdnnl.so.3"
    ln -f "$lib/libdnnl.so.3" "$lib/libdnnl.so"
  fi
}

tensorflow_version() {
  "$1/bin/python" -c 'from importlib.metadata import version; print(version("tensorflow-cpu"))'
}

# ---- What only the tests use --------------------------------------------------------------

# try_packages PACKAGE...: installs packages of the system where that is possible.
try_packages() {
  local root=()
  if ! command -v apt-get >/dev/null 2>&1; then return 1; fi
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || return 1
    root=(sudo -n)
  fi
  say "installing with apt: $*"
  update_apt ${root[@]+"${root[@]}"} 2>/dev/null || true
  quietly apt-browser ${root[@]+"${root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends -o APT::Keep-Downloaded-Packages=false "$@" 2>/dev/null
}

# Compiles what the wheel and the preset release have in common once, where there is a ccache. The
# builds have the same files and options but for their folders.
use_ccache() {
  command -v ccache >/dev/null 2>&1 || try_packages ccache || return 0
  export CC=${CC:-gcc} CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_DIR=${CCACHE_DIR:-$PWD/build/ccache}
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
}

# Installs Debian's chromium, playwright, which drives it, and the tools that check accessibility
# and types. A test that misses one of them is skipped, and says so. "all": also Firefox, and
# puppeteer, which drives it.
install_browser() {
  local folder=build/web wanted="axe-core@4.14.1 typescript@7.0.2"
  if [ "${1:-}" = all ]; then
    wanted="$wanted puppeteer-core@24.43.1"
    command -v firefox-esr >/dev/null 2>&1 || try_packages firefox-esr ||
      say "no firefox-esr: the analyser is not tried in Firefox"
  fi
  if ! command -v chromium >/dev/null 2>&1 && ! try_packages chromium; then
    [ -z "${TREMULA_BROWSER:-}" ] || die "no chromium, which TREMULA_BROWSER asks for."
    say "no chromium: the tests of the analyser and of the site in a browser are skipped"
  fi
  install_packages .venv browser playwright==1.65.2
  if ! command -v npm >/dev/null 2>&1; then
    say "no npm: types and accessibility of the analyser are not checked"
  elif [ "$(cat "$folder/.installed" 2>/dev/null)" != "$wanted" ]; then
    mkdir -p "$folder"
    # shellcheck disable=SC2086
    # A registry that does not answer holds npm for ever.
    if quietly npm timeout 300 npm install --no-audit --no-fund --prefix "$folder" $wanted; then
      printf '%s' "$wanted" >"$folder/.installed"
    else
      say "npm could not install $wanted: what needs them is skipped"
    fi
  fi
}

# ---- Tremula itself -------------------------------------------------------------------------

SOURCES=(CMakeLists.txt pyproject.toml LICENSE cmake src include tools python web
  scripts/inline_viewer.py scripts/stubs.py scripts/stub_types.pyi)

# Builds the wheel when a source is newer than the last one. Sets WHEEL.
build_wheel() {
  local stamp=build/dist/.built
  if [ ! -e "$stamp" ] || [ -n "$(find "${SOURCES[@]}" -newer "$stamp" \
    -not -name '*.pyc' -not -name __pycache__ -print -quit)" ]; then
    say "building Tremula"
    mkdir -p build/dist
    rm -f build/dist/*.whl
    touch "$stamp.new"
    CMAKE_ARGS="${CMAKE_ARGS:-} -DTREMULA_WERROR=${TREMULA_WERROR:-OFF}" \
      quietly build .venv/bin/python -m pip wheel --no-build-isolation --no-deps --no-cache-dir \
      --wheel-dir build/dist . || die "the build failed." "All of it is in $LOGS/build.log."
    mv "$stamp.new" "$stamp"
  fi
  WHEEL=$(echo build/dist/tremula-*.whl)
}

# install_tremula FOLDER
install_tremula() {
  local stamp=$1/.tremula-installed
  install_packages "$1" pyelftools pyelftools==0.33 "types-tensorflow>=2.17"
  if [ "$stamp" -nt "$WHEEL" ]; then return; fi
  say "installing Tremula into $1"
  quietly install pip_install "$1" --no-deps --force-reinstall "$WHEEL" ||
    die "the installation failed."
  touch "$stamp"
}

# What of the set-up comes before TensorFlow: the system's packages, and .venv.
begin_set_up() {
  [ "$(uname -sm)" = "Linux x86_64" ] ||
    die "make sets up Linux on x86-64 only; this is $(uname -sm)." \
      "The library builds elsewhere too, by hand: see CONTRIBUTING.md."
  find_python
  need_build_packages
  install_missing
  check_cmake
  make_environment .venv "$PYTHON"
}

# The set-up with which everything begins: .venv with TensorFlow and Tremula.
set_up() {
  begin_set_up
  install_tensorflow .venv
  install_onednn .venv onednn-devel-cpu-gomp==2023.2.0
  install_packages .venv build "scikit-build-core>=0.10"
  say "Python $(.venv/bin/python -c 'import platform; print(platform.python_version())')," \
    "TensorFlow $(tensorflow_version .venv)"
  build_wheel
  install_tremula .venv
}
