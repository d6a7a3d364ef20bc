/* The functions by which Tremula calls an operator of a library: C functions, weak and visible,
 * which every object that includes poplar/Graph.hpp has. They make the C++ arguments, call the
 * user's function with the order of arguments of the library's custom_op_api_level, and let no
 * exception out. */
#pragma once

#include <exception>

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
template <class Call>
int32_t guarded(Call *call, void (*function)(Call *)) {
  trm_poplar_failure *const failure = &call->user.failure;
  if (call->user.api != nullptr) table_place() = call->user.api; /* metadata needs no table */
  try {
    function(call);
    return 0;
  } catch (const poplar_error &error) {
    failed(failure, TRM_POPLAR_THROWN_POPLAR, error.type.c_str(), error.what());
  } catch (const std::exception &error) {
    failed(failure, TRM_POPLAR_THROWN_STANDARD, "", error.what());
  } catch (...) {
    failed(failure, TRM_POPLAR_THROWN_OTHER, "", "");
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
template <class Result, class... Arguments>
Result invoke(const trm_poplar_user_call &user, Arguments... arguments) {
  typedef const std::string &Text;
  const std::string attributes(user.attributes, user.attributes_size), prefix = user.debug_prefix;
  return user.level < 2
             ? reinterpret_cast<Result (*)(Arguments..., Text)>(user.function)(arguments..., prefix)
             : reinterpret_cast<Result (*)(Arguments..., Text, Text)>(user.function)(
                   arguments..., attributes, prefix);
}

typedef const std::vector<Tensor> &Given;
typedef std::vector<Tensor> &Made;

inline void build(trm_poplar_build_call *call) {
  Graph graph = Graph::share(call->user.graph);
  std::vector<Tensor> outputs;
  program::Program result = invoke<program::Program, Graph &, Given, Made>(
      call->user, graph, tensors_of(graph.handle(), call->inputs, call->num_inputs), outputs);
  finish(call, outputs, result);
}

inline void grad(trm_poplar_build_call *call) {
  Graph graph = Graph::share(call->user.graph);
  std::vector<Tensor> outputs;
  program::Program result = invoke<program::Program, Graph &, int64_t, Given, Given, Given, Made>(
      call->user, graph, call->input_grad_index,
      tensors_of(graph.handle(), call->gradients, call->num_gradients),
      tensors_of(graph.handle(), call->fwd_inputs, call->num_fwd_inputs),
      tensors_of(graph.handle(), call->fwd_outputs, call->num_fwd_outputs), outputs);
  finish(call, outputs, result);
}

inline void metadata(trm_poplar_metadata_call *call) {
  typedef std::vector<int64_t> Numbers;
  typedef std::map<int64_t, int64_t> Aliases;
  typedef bool &Flag;
  typedef void (*Level1)(Numbers &, uint32_t &, Flag, Flag, uint32_t);
  typedef void (*Level3)(Numbers &, Aliases &, Flag, Flag, uint32_t);
  typedef void (*Level4)(Numbers &, Aliases &, Flag, Flag, Flag, uint32_t);
  typedef void (*Level5)(Numbers &, Numbers &, Aliases &, Flag, Flag, Flag, uint32_t);
  Numbers allocating, identical;
  Aliases aliases;
  uint32_t in_place = 0;
  Flag same = call->is_elementwise, pure = call->is_stateless, hashable = call->is_hashable;
  const uint32_t count = call->num_inputs;
  const int32_t level = call->user.level;
  void *const function = call->user.function;
  if (level < 3) {
    reinterpret_cast<Level1>(function)(allocating, in_place, same, pure, count);
    for (uint32_t i = 0; i < in_place; ++i) aliases[i] = i;
  } else if (level < 4) {
    reinterpret_cast<Level3>(function)(allocating, aliases, same, pure, count);
  } else if (level < 5) {
    reinterpret_cast<Level4>(function)(allocating, aliases, same, pure, hashable, count);
  } else {
    reinterpret_cast<Level5>(function)(allocating, identical, aliases, same, pure, hashable, count);
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
  Graph graph = Graph::share(call->user.graph);
  Tensor result = invoke<Tensor, Graph &, uint32_t, const Sizes &, Type>(
      call->user, graph, call->operand, Sizes(call->dims, call->dims + call->rank),
      type_of_number(call->dtype));
  call->out_tensor = result.leave();
}

} // namespace detail
} // namespace poplar

#define TREMULA_TRAMPOLINE(name, call_of)                                                      \
  int32_t trm_poplar_##name(call_of *call) __attribute__((weak, used, visibility("default"))); \
  int32_t trm_poplar_##name(call_of *call) {                                                   \
    return poplar::detail::guarded(call, poplar::detail::name);                                \
  }
extern "C" {
extern const uint32_t trm_poplar_header __attribute__((weak, visibility("default")));
const uint32_t trm_poplar_header = TRM_POPLAR_VERSION;

TREMULA_TRAMPOLINE(build, trm_poplar_build_call)
TREMULA_TRAMPOLINE(grad, trm_poplar_build_call)
TREMULA_TRAMPOLINE(metadata, trm_poplar_metadata_call)
TREMULA_TRAMPOLINE(allocator, trm_poplar_allocator_call)
}
#undef TREMULA_TRAMPOLINE
