/* What the calls of these headers throw. An exception that leaves Build becomes a TensorFlow error
 * with its text. */
#pragma once

#include <stdexcept>
#include <string>

namespace poplar {

/* The base of all. `type` is the kind's name, which the message of the TensorFlow error begins
 * with. */
class poplar_error : public std::runtime_error {
 public:
  explicit poplar_error(const std::string &text) : std::runtime_error(text), type("poplar_error") {}
  explicit poplar_error(const char *text) : std::runtime_error(text), type("poplar_error") {}
  poplar_error(const std::string &kind, const std::string &text)
      : std::runtime_error(text), type(kind) {}

  std::string type;
};

#define TREMULA_POPLAR_ERROR(NAME, BASE)                                         \
  class NAME : public BASE {                                                     \
   public:                                                                       \
    explicit NAME(const std::string &text) : BASE(std::string(#NAME), text) {}   \
    NAME(const std::string &kind, const std::string &text) : BASE(kind, text) {} \
  };
TREMULA_POPLAR_ERROR(runtime_error, poplar_error)
TREMULA_POPLAR_ERROR(application_runtime_error, runtime_error)
TREMULA_POPLAR_ERROR(file_load_error, poplar_error)
TREMULA_POPLAR_ERROR(missing_cycle_estimate, poplar_error)
TREMULA_POPLAR_ERROR(symbol_error, poplar_error)
TREMULA_POPLAR_ERROR(unknown_field, poplar_error)
TREMULA_POPLAR_ERROR(unknown_vertex_type, poplar_error)
TREMULA_POPLAR_ERROR(no_environment, poplar_error)
TREMULA_POPLAR_ERROR(parse_error, poplar_error)
TREMULA_POPLAR_ERROR(type_error, poplar_error)
TREMULA_POPLAR_ERROR(tile_mapping_error, poplar_error)
TREMULA_POPLAR_ERROR(graph_object_load_error, poplar_error)
TREMULA_POPLAR_ERROR(graph_object_creation_error, poplar_error)
TREMULA_POPLAR_ERROR(graph_program_compilation_error, poplar_error)
TREMULA_POPLAR_ERROR(graph_recursion_error, poplar_error)
TREMULA_POPLAR_ERROR(graph_connection_error, poplar_error)
TREMULA_POPLAR_ERROR(graph_cycle_error, poplar_error)
TREMULA_POPLAR_ERROR(graph_memory_allocation_error, poplar_error)
TREMULA_POPLAR_ERROR(control_program_error, poplar_error)
TREMULA_POPLAR_ERROR(invalid_option, poplar_error)
TREMULA_POPLAR_ERROR(invalid_tile_mapping, poplar_error)
TREMULA_POPLAR_ERROR(stream_connection_error, poplar_error)
TREMULA_POPLAR_ERROR(index_error, poplar_error)
TREMULA_POPLAR_ERROR(constant_error, poplar_error)
TREMULA_POPLAR_ERROR(overflow_error, poplar_error)
#undef TREMULA_POPLAR_ERROR

} // namespace poplar
