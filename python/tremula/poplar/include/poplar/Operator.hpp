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

/* Calls the user's function: the arguments, from level 2 on the attributes, and the name. */
template <class Result, class Call, class... Arguments>
Result invoke(const Call &call, Arguments... arguments) {
  typedef const std::string &Text;
  const std::string attributes(call.attributes, call.attributes_size), prefix = call.debug_prefix;
  return call.level < 2
             ? reinterpret_cast<Result (*)(Arguments..., Text)>(call.function)(arguments..., prefix)
             : reinterpret_cast<Result (*)(Arguments..., Text, Text)>(call.function)(
                   arguments..., attributes, prefix);
}

typedef const std::vector<Tensor> &Given;
typedef std::vector<Tensor> &Made;

inline void build(trm_poplar_build_call *call) {
  Graph graph = Graph::share(call->graph);
  std::vector<Tensor> outputs;
  program::Program result = invoke<program::Program, trm_poplar_build_call, Graph &, Given, Made>(
      *call, graph, tensors_of(call->graph, call->inputs, call->num_inputs), outputs);
  finish(call, outputs, result);
}

inline void grad(trm_poplar_build_call *call) {
  Graph graph = Graph::share(call->graph);
  std::vector<Tensor> outputs;
  program::Program result =
      invoke<program::Program, trm_poplar_build_call, Graph &, int64_t, Given, Given, Given, Made>(
          *call, graph, call->input_grad_index,
          tensors_of(call->graph, call->gradients, call->num_gradients),
          tensors_of(call->graph, call->fwd_inputs, call->num_fwd_inputs),
          tensors_of(call->graph, call->fwd_outputs, call->num_fwd_outputs), outputs);
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
  Numbers inputs, outputs;
  for (const std::pair<const int64_t, int64_t> &one : aliases) {
    inputs.push_back(one.first);
    outputs.push_back(one.second);
  }
  const auto give = [call](const Numbers &from, int64_t *to) {
    std::copy_n(from.begin(), std::min<std::size_t>(from.size(), call->max_indices), to);
    return static_cast<uint32_t>(from.size());
  };
  call->num_allocating = give(allocating, call->allocating);
  call->num_replica_identical = give(identical, call->replica_identical);
  call->num_aliases = give(inputs, call->alias_inputs);
  give(outputs, call->alias_outputs);
}

inline void allocator(trm_poplar_allocator_call *call) {
  typedef std::vector<std::size_t> Sizes;
  Graph graph = Graph::share(call->graph);
  Tensor result = invoke<Tensor, trm_poplar_allocator_call, Graph &, uint32_t, const Sizes &, Type>(
      *call, graph, call->operand, Sizes(call->dims, call->dims + call->rank),
      type_of_number(call->dtype));
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
