# What is installed, and where.
#   In a wheel (scikit-build-core): the libraries in tremula/lib, the tools in the environment's bin,
#   tremula.pth beside the package, so that `tensorflow.python.ipu` can be imported.
#   Otherwise (cmake --install): bin, lib and include of the prefix, for programs in C, which find
#   them by CMake's find_package(tremula) or by pkg-config (tests/package shows both);
#   share/tremula/poplar, for operators in C++, with an enable.sh.
#
# oneDNN lies in <environment>/lib, where pip puts it: four levels above tremula/lib.

get_property(directory_targets DIRECTORY tools PROPERTY BUILDSYSTEM_TARGETS)
set(TREMULA_TOOL_TARGETS)
foreach(target ${directory_targets})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    list(APPEND TREMULA_TOOL_TARGETS ${target})
  endif()
endforeach()

if(SKBUILD)
  if(NOT TARGET tremula_tf)
    message(FATAL_ERROR "TensorFlow's headers were not found, and a package without the TensorFlow "
      "plugin would be of no use. Install TensorFlow into the environment that builds and build "
      "in it: `make demo`, or `pip install --no-build-isolation .`")
  endif()
  # A wheel has no links, so it has libtremula by one name only: the one that programs load.
  set_target_properties(tremula PROPERTIES VERSION 0 INSTALL_RPATH "$ORIGIN:$ORIGIN/../../../..")
  set_target_properties(tremula_tf PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS tremula LIBRARY DESTINATION tremula/lib NAMELINK_SKIP)
  install(TARGETS tremula_tf LIBRARY DESTINATION tremula/lib)
  install(FILES ${CMAKE_SOURCE_DIR}/python/tremula.pth DESTINATION .)
  # What editors and type checkers know of the names that the import finder serves. Without -S an
  # older tremula of the environment would be loaded at the start.
  add_custom_target(tremula_stubs ALL COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/stubs
    COMMAND ${TREMULA_PYTHON} -I -S ${CMAKE_SOURCE_DIR}/scripts/stubs.py ${CMAKE_BINARY_DIR}/stubs
    VERBATIM)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/stubs/ DESTINATION .)
  set(operator_folder tremula/poplar)
  # The wheel is for every Python 3. A tool looks for the library in the Python of its environment.
  set(tool_rpath "$ORIGIN/../lib")
  foreach(minor RANGE 9 14)
    string(APPEND tool_rpath ":$ORIGIN/../lib/python3.${minor}/site-packages/tremula/lib")
  endforeach()
  if(TREMULA_TOOL_TARGETS)
    set_target_properties(${TREMULA_TOOL_TARGETS} PROPERTIES INSTALL_RPATH "${tool_rpath}")
    install(TARGETS ${TREMULA_TOOL_TARGETS} RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR})
  endif()
else()
  include(GNUInstallDirs)
  include(CMakePackageConfigHelpers)
  get_filename_component(onednn_folder "${ONEDNN_LIBRARY}" DIRECTORY)
  set_target_properties(tremula PROPERTIES INSTALL_RPATH "$ORIGIN:${onednn_folder}")
  set_target_properties(tremula_static PROPERTIES EXCLUDE_FROM_ALL OFF)
  install(TARGETS tremula EXPORT tremula-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS tremula_static EXPORT tremula-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/tremula DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tremula)
  install(EXPORT tremula-shared NAMESPACE tremula:: DESTINATION ${package_folder})
  install(EXPORT tremula-static NAMESPACE tremula:: DESTINATION ${package_folder})
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/tremula-config.cmake.in
    ${CMAKE_BINARY_DIR}/tremula-config.cmake INSTALL_DESTINATION ${package_folder})
  # Before version 1.0 a new minor version may change the interface.
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/tremula-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/tremula-config.cmake
    ${CMAKE_BINARY_DIR}/tremula-config-version.cmake DESTINATION ${package_folder})
  # Paths begin at the file's own folder, so that an installed folder can be moved.
  file(RELATIVE_PATH prefix_above_lib ${CMAKE_INSTALL_FULL_LIBDIR} ${CMAKE_INSTALL_PREFIX})
  configure_file(${CMAKE_SOURCE_DIR}/cmake/tremula.pc.in ${CMAKE_BINARY_DIR}/tremula.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/tremula.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  if(TARGET tremula_tf)
    install(TARGETS tremula_tf LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
  if(TREMULA_TOOL_TARGETS)
    set_target_properties(${TREMULA_TOOL_TARGETS} PROPERTIES
      INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS ${TREMULA_TOOL_TARGETS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  # What custom operators in C++ are compiled with. popc is Python, in a package of the same name as
  # the wheel's, so that it takes no other version.
  install(FILES ${CMAKE_SOURCE_DIR}/python/tremula/__init__.py
    DESTINATION ${CMAKE_INSTALL_DATADIR}/tremula)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/tremula/poplar USE_SOURCE_PERMISSIONS
    DESTINATION ${CMAKE_INSTALL_DATADIR}/tremula PATTERN __pycache__ EXCLUDE)
  set(operator_folder ${CMAKE_INSTALL_DATADIR}/tremula/poplar)
endif()
# Poplar's headers, which are in the package, are written over these.
foreach(header poplar.h poplar_api.def poplar_codelet.h poplar_op.def)
  install(FILES ${CMAKE_SOURCE_DIR}/include/tremula/${header}
    DESTINATION ${operator_folder}/include/tremula)
endforeach()
# Their libraries are empty archives: an operator finds all functions when Tremula calls it. In a
# tree of sources they are found in the build (python/tremula/poplar/paths.py).
set(empty_libraries ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/poplar)
file(MAKE_DIRECTORY ${empty_libraries})
foreach(name poputil popops poplin popnn popsparse poprand popfloat gcl)
  execute_process(COMMAND ${CMAKE_AR} rc ${empty_libraries}/lib${name}.a
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
# Programs with a main() open Tremula's library: before glibc 2.34 dlopen is in libdl.
file(WRITE ${empty_libraries}/libpoplar.a "INPUT(AS_NEEDED(-ldl))\n")
install(DIRECTORY ${empty_libraries}/ DESTINATION ${operator_folder}/lib)
