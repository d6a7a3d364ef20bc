/* Reductions of dimensions. */
#pragma once

#include "../poplar/Graph.hpp"
#include "OperationDef.hpp"

namespace popops {
TREMULA_NAMES

/* The operation; `scale`, a scalar tensor, multiplies the result, and with `update` the result is
 * added to what the output holds. */
struct ReduceParams {
  ReduceParams() = default;
  ReduceParams(popops::Operation op_, bool update_ = false) : op(op_), update(update_) {}
  ReduceParams(popops::Operation op_, bool update_, Tensor scale_)
      : op(op_), update(update_), useScale(true), scale(scale_) {}

  popops::Operation op = popops::Operation::ADD;
  bool update = false;
  bool useScale = false;
  Tensor scale;
};

namespace detail {

inline Tensor reduce_to(Graph &graph, const Tensor &operand, const Type &type,
                        const std::vector<std::size_t> &dims, const ReduceParams &params,
                        const Tensor &output, Sequence &program, const DebugContext &debug) {
  const std::vector<uint32_t> numbers(dims.begin(), dims.end());
  trm_poplar_tensor *result = output.handle();
  poplar::detail::call(poplar::detail::table().step_reduce, graph.handle(), operand.get(),
                       type.number(), numbers.data(), numbers.size(),
                       static_cast<int32_t>(params.op),
                       params.useScale ? params.scale.get() : nullptr, params.update,
                       program.place(), debug.getPathName().c_str(), &result);
  return output.valid() ? output : Tensor(graph.handle(), result);
}

} // namespace detail

/* The tensor without the dimensions `dims`. Throws poplibs_error for dimensions that it lacks and
 * for `update`, which needs an output. */
inline Tensor reduce(Graph &graph, const Tensor &operand, const Type &type,
                     const std::vector<std::size_t> &dims, ReduceParams params, Sequence &program,
                     const DebugContext &debug = {}, const OptionFlags & = {}) {
  return detail::reduce_to(graph, operand, type, dims, params, Tensor(), program, debug);
}
inline Tensor reduce(Graph &graph, const Tensor &operand, const std::vector<std::size_t> &dims,
                     ReduceParams params, Sequence &program, const DebugContext &debug = {},
                     const OptionFlags & = {}) {
  return reduce(graph, operand, operand.elementType(), dims, params, program, debug);
}
/* The result goes to `output`, in its type. */
inline void reduceWithOutput(Graph &graph, const Tensor &operand, const Tensor &output,
                             const std::vector<std::size_t> &dims, ReduceParams params,
                             Sequence &program, const DebugContext &debug = {},
                             const OptionFlags & = {}) {
  output.get();
  detail::reduce_to(graph, operand, output.elementType(), dims, params, output, program, debug);
}

} // namespace popops
