# find_package(poputil): the targets of all of Poplar's libraries.
include(${CMAKE_CURRENT_LIST_DIR}/../poplar-targets.cmake)
