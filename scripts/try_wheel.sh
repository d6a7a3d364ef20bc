#!/usr/bin/env bash
# Tries the wheel of `make wheel` on a bare system: Debian 11 with Python and no compiler.
# Part of `make test-all`; needs root, for chroot.
source "$(dirname "$0")/common.sh"
wheel=$(echo build/portable/tremula-*-manylinux*.whl)
[ -e "$wheel" ] || die "there is no wheel in build/portable." "make wheel makes one."
[ "$(id -u)" -eq 0 ] || die "only root may try the wheel in a system of its own."
need_command mmdebstrap mmdebstrap
install_missing

root=$PWD/build/portable/bare
if [ ! -e "$root/usr/bin/python3" ]; then
  say "installing a bare Debian 11 with Python"
  rm -rf "$root"
  quietly bare mmdebstrap --variant=minbase --include=python3,python3-venv bullseye "$root" ||
    die "Debian 11 could not be installed. The lines above are mmdebstrap's."
fi
if [ -e "$root/usr/bin/gcc" ]; then die "the bare system has a compiler."; fi

# The host's pip downloads the packages for the bare system. It reads conditions such as "Python
# before 3.10" for the host's Python, so packages with such conditions are named here.
mkdir -p "$root/wheels"
.venv/bin/python -m pip download -q --dest "$root/wheels" --only-binary=:all: \
  --python-version 3.9 --platform manylinux2014_x86_64 tensorflow-cpu==2.15.1 tf_slim==1.1.0 \
  importlib-metadata zipp types-tensorflow ||
  die "pip could not fetch TensorFlow's wheels for Python 3.9."
cp "$wheel" examples/basic_graph.py "$root/wheels/"
# /proc is mounted while the command runs: the dynamic linker asks it where a program is.
inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ TF_CPP_MIN_LOG_LEVEL=1 ROOT="$root" \
    unshare --mount sh -c 'mount --bind /proc "$ROOT/proc" && exec chroot "$ROOT" "$@"' - "$@"
}

say "installing $(basename "$wheel") there"
rm -rf "$root/try"
inside python3 -m venv /try
quietly bare-pip inside /try/bin/pip install --no-index --find-links /wheels \
  tensorflow-cpu==2.15.1 "/wheels/$(basename "$wheel")" || die "pip could not install the wheel."
version=$(inside /try/bin/tremula --version)
result=$(inside /try/bin/python /wheels/basic_graph.py | tail -n 1)
say "tremula --version: $version; basic_graph.py: $result"
refusal=$(inside /try/bin/poprun --num-instances=2 --num-replicas=2 true 2>&1 || true)
case $refusal in
  *"pip install"*) say "without MPI: $refusal" ;;
  *) die "poprun without MPI does not say what to install: $refusal" ;;
esac
[ "$result" = "$(.venv/bin/python examples/basic_graph.py 2>/dev/null | tail -n 1)" ] ||
  die "the example prints something else than here."
