# What the project links: oneDNN (from PyPI, in the Python environment that builds), protobuf-c,
# xxHash, jansson, SQLite and libcbor from the distribution, OpenMP from the compiler.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(CBOR REQUIRED IMPORTED_TARGET libcbor)
find_program(PROTOC_C NAMES protoc-c REQUIRED)

# The Python that builds says where `pip install` put oneDNN and TensorFlow.
if(SKBUILD AND Python_EXECUTABLE)
  set(TREMULA_PYTHON ${Python_EXECUTABLE}) # the one that builds the wheel
endif()
if(NOT TREMULA_PYTHON)
  find_program(TREMULA_PYTHON NAMES python3 python HINTS ${CMAKE_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH)
  find_program(TREMULA_PYTHON NAMES python3 python)
endif()
execute_process(COMMAND ${TREMULA_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/find_packages.py
  OUTPUT_VARIABLE TREMULA_PACKAGES)
string(REGEX MATCH "^([^\n]*)\n([^\n]*)" TREMULA_PACKAGES "${TREMULA_PACKAGES}")
if(NOT TREMULA_ONEDNN_PREFIX)
  set(TREMULA_ONEDNN_PREFIX "${CMAKE_MATCH_1}")
endif()
if(NOT TREMULA_TF_INCLUDE)
  set(TREMULA_TF_INCLUDE "${CMAKE_MATCH_2}")
endif()
find_path(ONEDNN_INCLUDE oneapi/dnnl/dnnl.h HINTS ${TREMULA_ONEDNN_PREFIX}/include)
find_library(ONEDNN_LIBRARY dnnl HINTS ${TREMULA_ONEDNN_PREFIX}/lib)
if(NOT ONEDNN_INCLUDE OR NOT ONEDNN_LIBRARY)
  message(FATAL_ERROR "oneDNN was not found under ${TREMULA_ONEDNN_PREFIX}. Install it into the "
    "Python environment that builds (pip install onednn-devel-cpu-gomp==2023.2.0; `make demo` does), "
    "or set TREMULA_ONEDNN_PREFIX.")
endif()
add_library(tremula::onednn INTERFACE IMPORTED GLOBAL)
set_target_properties(tremula::onednn PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE} INTERFACE_LINK_LIBRARIES ${ONEDNN_LIBRARY})

# TensorFlow's package has the headers of its C API, for the plugin (src/tf), and PJRT's, for
# accelerators (src/host/accelerator). Neither is needed for the rest.
find_path(TREMULA_PJRT_INCLUDE xla/pjrt/c/pjrt_c_api.h HINTS "${TREMULA_TF_INCLUDE}" NO_CACHE)
