# A CMake toolchain: builds for the C library of an older system, whose development files lie in the
# folder TREMULA_SYSROOT of the environment (scripts/wheel.sh makes it). The compiler is the host's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER gcc)
set(CMAKE_SYSROOT $ENV{TREMULA_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(folder ${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${folder}/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
# gcc looks beside itself, in the host's folders, before it looks into the sysroot.
set(link_flags "-B${folder} -L${folder} -L${CMAKE_SYSROOT}/lib/x86_64-linux-gnu")
string(APPEND link_flags " -Wl,-rpath-link,${folder}:${CMAKE_SYSROOT}/lib/x86_64-linux-gnu")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${link_flags}")
# libtremula was linked with --no-undefined, so a tool's link need not see the libraries that
# libtremula uses.
set(CMAKE_EXE_LINKER_FLAGS_INIT "${link_flags} -Wl,--allow-shlib-undefined")
