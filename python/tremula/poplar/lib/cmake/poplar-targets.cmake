# Targets of the names that CMake projects link to, each with the folders of headers. There is
# nothing to link: an operator's library finds all functions when Tremula calls it.
get_filename_component(tremula_poplar_prefix "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(tremula_poplar_includes "${tremula_poplar_prefix}/include")
if(NOT EXISTS "${tremula_poplar_prefix}/include/tremula")
  list(APPEND tremula_poplar_includes "${tremula_poplar_prefix}/../../../include")
endif()
foreach(library poplar poputil popops poplin popnn popsparse poprand popfloat gcl)
  if(NOT TARGET ${library})
    add_library(${library} INTERFACE IMPORTED)
    set_target_properties(${library} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${tremula_poplar_includes}")
  endif()
  set(${library}_FOUND TRUE)
endforeach()
