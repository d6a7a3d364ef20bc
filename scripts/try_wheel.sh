#!/usr/bin/env bash
# Tries the wheel of `make wheel` on a bare system: Debian 11 with Python and no compiler. A system
# with a compiler makes an operator against Poplar's headers, which the bare one runs.
# Part of `make test-all`; needs root, for chroot.
source "$(dirname "$0")/common.sh"
wheel=$(echo build/portable/tremula-*-manylinux*.whl)
[ -e "$wheel" ] || die "there is no wheel in build/portable." "make wheel makes one."
[ "$(id -u)" -eq 0 ] || die "only root may try the wheel in a system of its own."
need_command mmdebstrap mmdebstrap
install_missing

root=$PWD/build/portable/bare
compiling=$PWD/build/portable/compiling
# make_system FOLDER PACKAGE...: Debian 11 with these packages.
make_system() {
  local folder=$1 IFS=,
  shift
  [ ! -e "$folder/usr/bin/python3" ] || return 0
  say "installing a bare Debian 11 with $*"
  rm -rf "$folder"
  quietly bare mmdebstrap --variant=minbase --include="$*" bullseye "$folder" ||
    die "Debian 11 could not be installed. The lines above are mmdebstrap's."
}
make_system "$root" python3 python3-venv
make_system "$compiling" python3 python3-venv g++
if [ -e "$root/usr/bin/gcc" ]; then die "the bare system has a compiler."; fi

# The host's pip downloads the packages for the bare system. It reads conditions such as "Python
# before 3.10" for the host's Python, so packages with such conditions are named here.
rm -rf "$root/try" "$compiling/try"
mkdir -p "$root/wheels" "$compiling/wheels"
.venv/bin/python -m pip download -q --dest "$root/wheels" --only-binary=:all: \
  --python-version 3.9 --platform manylinux2014_x86_64 tensorflow-cpu==2.15.1 tf_slim==1.1.0 \
  importlib-metadata zipp types-tensorflow pyelftools ||
  die "pip could not fetch TensorFlow's wheels for Python 3.9."
cp "$wheel" examples/basic_graph.py "$root/wheels/"
cp "$wheel" "$root"/wheels/numpy-*.whl "$root"/wheels/pyelftools-*.whl \
  tests/python/poplar/project/* tests/python/poplar/sources/plain*.cpp "$compiling/wheels/"
# within ROOT COMMAND...: /proc is mounted while the command runs: the dynamic linker asks it where
# a program is.
within() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ TF_CPP_MIN_LOG_LEVEL=1 \
    unshare --mount sh -c 'mount --bind /proc "$0/proc" && exec chroot "$0" "$@"' "$@"
}
inside() { within "$root" "$@"; }

say "installing $(basename "$wheel") there"
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

say "an operator in C++, and a plain program of Poplar's, on Debian 11 with g++"
within "$compiling" python3 -m venv /try
quietly compiling-pip within "$compiling" /try/bin/pip install --no-deps --no-index \
  --find-links /wheels numpy pyelftools "/wheels/$(basename "$wheel")" ||
  die "pip could not install the wheel beside a compiler."
quietly compiling within "$compiling" bash -euc '
  cd /wheels && source "$(/try/bin/tremula poplar --prefix)/enable.sh"
  g++ -std=c++11 -Wall -Wextra -Werror scale.cpp -shared -fpic -o libscale.so \
    -lpoplar -lpoputil -lpopops
  popc -O3 scale_codelet.cpp -o scale.gp
  popc plain_codelets.cpp -o plain.gp
  g++ plain.cpp -o plain -lpoplar -lpoplin -lpopops && ./plain plain.gp' ||
  die "the headers, popc or the libraries of the wheel do not work."
cp "$compiling"/wheels/{libscale.so,scale.gp} tests/python/poplar/project/scale_codelet.cpp \
  "$root/wheels/"
cat >"$root/wheels/operator.py" <<'END'
import sys
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
outputs = {"output_types": [tf.float32], "output_shapes": [tf.TensorShape([3])]}
def model():
    return ipu.custom_ops.precompiled_user_op(
        [tf.constant([1.0, 2.0, 3.0])], "/wheels/libscale.so", gp_path=sys.argv[1], outs=outputs)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    scaled, = ipu.ipu_compiler.compile(model)
with tf.Session() as session:
    print(session.run(scaled))
END
result=$(inside /try/bin/python /wheels/operator.py /wheels/scale.gp | tail -n 1)
[ "$result" = "[3.5 6.  8.5]" ] || die "the operator gives something else: $result"
refusal=$(inside /try/bin/python /wheels/operator.py /wheels/scale_codelet.cpp 2>&1 || true)
case $refusal in
  *"install the package g++"*) say "the operator: $result; without g++: ${refusal##*codelets in}" ;;
  *) die "codelets without g++ do not say what to install: $refusal" ;;
esac
