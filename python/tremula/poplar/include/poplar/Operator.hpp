/* The functions by which Tremula calls an operator of a library: C functions, weak and visible,
 * which every object that includes poplar/Graph.hpp has. They make the C++ arguments, call the
 * user's function with the order of arguments of the library's custom_op_api_level, and let no
 * exception out. */
#pragma once

#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "Graph.hpp"

namespace poplar {
namespace detail {

inline std::vector<Tensor> tensors_of(trm_poplar_graph *graph, trm_poplar_tensor *const *handles,
                                      uint32_t count) {
  std::vector<Tensor> result;
  for (uint32_t i = 0; i < count; ++i) {
    if (handles[i] != nullptr) retain(handles[i]);
    result.push_back(Tensor(graph, handles[i]));
  }
  return result;
}

inline void failed(trm_poplar_failure *failure, trm_poplar_thrown thrown, const char *type,
                   const char *what) {
  failure->thrown = thrown;
  std::snprintf(failure->type, sizeof failure->type, "%s", type);
  std::snprintf(failure->what, sizeof failure->what, "%s", what);
}

/* Runs the function, and writes what it throws to the call. */
template <class Call, class Function>
int32_t guarded(Call *call, Function function) {
  if (call->api != nullptr) table_place() = call->api; /* metadata needs no table */
  try {
    function();
    return 0;
  } catch (const poplar_error &error) {
    failed(&call->failure, TRM_POPLAR_THROWN_POPLAR, error.type.c_str(), error.what());
  } catch (const std::exception &error) {
    failed(&call->failure, TRM_POPLAR_THROWN_STANDARD, "", error.what());
  } catch (...) {
    failed(&call->failure, TRM_POPLAR_THROWN_OTHER, "", "");
  }
  return 13;
}

inline void finish(trm_poplar_build_call *call, std::vector<Tensor> &outputs,
                   program::Program &program) {
  call->num_outputs = static_cast<uint32_t>(outputs.size());
  for (uint32_t i = 0; i < call->num_outputs && i < call->max_outputs; ++i) {
    call->out_outputs[i] = outputs[i].leave();
  }
  call->out_program = program.leave();
}

inline void build(trm_poplar_build_call *call) {
  typedef std::vector<Tensor> Tensors;
  typedef program::Program (*Level1)(Graph &, const Tensors &, Tensors &, const std::string &);
  typedef program::Program (*Level2)(Graph &, const Tensors &, Tensors &, const std::string &,
                                     const std::string &);
  Graph graph = Graph::share(call->graph);
  const Tensors inputs = tensors_of(call->graph, call->inputs, call->num_inputs);
  const std::string attributes(call->attributes, call->attributes_size);
  const std::string prefix = call->debug_prefix;
  Tensors outputs;
  program::Program result =
      call->level < 2
          ? reinterpret_cast<Level1>(call->function)(graph, inputs, outputs, prefix)
          : reinterpret_cast<Level2>(call->function)(graph, inputs, outputs, attributes, prefix);
  finish(call, outputs, result);
}

inline void grad(trm_poplar_build_call *call) {
  typedef std::vector<Tensor> Tensors;
  typedef program::Program (*Level1)(Graph &, int64_t, const Tensors &, const Tensors &,
                                     const Tensors &, Tensors &, const std::string &);
  typedef program::Program (*Level2)(Graph &, int64_t, const Tensors &, const Tensors &,
                                     const Tensors &, Tensors &, const std::string &,
                                     const std::string &);
  Graph graph = Graph::share(call->graph);
  const Tensors gradients = tensors_of(call->graph, call->gradients, call->num_gradients);
  const Tensors inputs = tensors_of(call->graph, call->fwd_inputs, call->num_fwd_inputs);
  const Tensors forward = tensors_of(call->graph, call->fwd_outputs, call->num_fwd_outputs);
  const std::string attributes(call->attributes, call->attributes_size);
  const std::string prefix = call->debug_prefix;
  Tensors outputs;
  program::Program result =
      call->level < 2
          ? reinterpret_cast<Level1>(call->function)(graph, call->input_grad_index, gradients,
                                                     inputs, forward, outputs, prefix)
          : reinterpret_cast<Level2>(call->function)(graph, call->input_grad_index, gradients,
                                                     inputs, forward, outputs, attributes, prefix);
  finish(call, outputs, result);
}

inline void metadata(trm_poplar_metadata_call *call) {
  typedef std::vector<int64_t> Numbers;
  typedef std::map<int64_t, int64_t> Aliases;
  typedef void (*Level1)(Numbers &, uint32_t &, bool &, bool &, uint32_t);
  typedef void (*Level3)(Numbers &, Aliases &, bool &, bool &, uint32_t);
  typedef void (*Level4)(Numbers &, Aliases &, bool &, bool &, bool &, uint32_t);
  typedef void (*Level5)(Numbers &, Numbers &, Aliases &, bool &, bool &, bool &, uint32_t);
  Numbers allocating, identical;
  Aliases aliases;
  uint32_t in_place = 0;
  bool &elementwise = call->is_elementwise, &stateless = call->is_stateless;
  bool &hashable = call->is_hashable;
  const uint32_t count = call->num_inputs;
  if (call->level < 3) {
    reinterpret_cast<Level1>(call->function)(allocating, in_place, elementwise, stateless, count);
    for (uint32_t i = 0; i < in_place; ++i) aliases[i] = i;
  } else if (call->level < 4) {
    reinterpret_cast<Level3>(call->function)(allocating, aliases, elementwise, stateless, count);
  } else if (call->level < 5) {
    reinterpret_cast<Level4>(call->function)(allocating, aliases, elementwise, stateless, hashable,
                                             count);
  } else {
    reinterpret_cast<Level5>(call->function)(allocating, identical, aliases, elementwise, stateless,
                                             hashable, count);
  }
  call->num_allocating = static_cast<uint32_t>(allocating.size());
  for (uint32_t i = 0; i < call->num_allocating && i < call->max_indices; ++i) {
    call->allocating[i] = allocating[i];
  }
  call->num_replica_identical = static_cast<uint32_t>(identical.size());
  for (uint32_t i = 0; i < call->num_replica_identical && i < call->max_indices; ++i) {
    call->replica_identical[i] = identical[i];
  }
  call->num_aliases = static_cast<uint32_t>(aliases.size());
  uint32_t at = 0;
  for (const std::pair<const int64_t, int64_t> &one : aliases) {
    if (at >= call->max_indices) break;
    call->alias_inputs[at] = one.first;
    call->alias_outputs[at++] = one.second;
  }
}

inline void allocator(trm_poplar_allocator_call *call) {
  typedef std::vector<std::size_t> Sizes;
  typedef Tensor (*Level1)(Graph &, uint32_t, const Sizes &, Type, const std::string &);
  typedef Tensor (*Level2)(Graph &, uint32_t, const Sizes &, Type, const std::string &,
                           const std::string &);
  Graph graph = Graph::share(call->graph);
  const Sizes shape(call->dims, call->dims + call->rank);
  const Type type = type_of_number(call->dtype);
  const std::string attributes(call->attributes, call->attributes_size);
  const std::string prefix = call->debug_prefix;
  Tensor result = call->level < 2 ? reinterpret_cast<Level1>(call->function)(graph, call->operand,
                                                                             shape, type, prefix)
                                  : reinterpret_cast<Level2>(call->function)(
                                        graph, call->operand, shape, type, attributes, prefix);
  call->out_tensor = result.leave();
}

} // namespace detail
} // namespace poplar

#define TREMULA_TRAMPOLINE __attribute__((weak, used, visibility("default")))
extern "C" {
extern const uint32_t trm_poplar_header __attribute__((weak, visibility("default")));
const uint32_t trm_poplar_header = TRM_POPLAR_VERSION;

int32_t trm_poplar_build(trm_poplar_build_call *call) TREMULA_TRAMPOLINE;
int32_t trm_poplar_grad(trm_poplar_build_call *call) TREMULA_TRAMPOLINE;
int32_t trm_poplar_metadata(trm_poplar_metadata_call *call) TREMULA_TRAMPOLINE;
int32_t trm_poplar_allocator(trm_poplar_allocator_call *call) TREMULA_TRAMPOLINE;

int32_t trm_poplar_build(trm_poplar_build_call *call) {
  return poplar::detail::guarded(call, [call] { poplar::detail::build(call); });
}
int32_t trm_poplar_grad(trm_poplar_build_call *call) {
  return poplar::detail::guarded(call, [call] { poplar::detail::grad(call); });
}
int32_t trm_poplar_metadata(trm_poplar_metadata_call *call) {
  return poplar::detail::guarded(call, [call] { poplar::detail::metadata(call); });
}
int32_t trm_poplar_allocator(trm_poplar_allocator_call *call) {
  return poplar::detail::guarded(call, [call] { poplar::detail::allocator(call); });
}
}
#undef TREMULA_TRAMPOLINE
