/* Reductions of dimensions. */
#pragma once

#include <cstddef>
#include <vector>

#include "../poplar/Graph.hpp"
#include "../poplar/Program.hpp"
#include "OperationDef.hpp"

namespace popops {

/* The operation; `scale`, a scalar tensor, multiplies the result, and with `update` the result is
 * added to what the output holds. */
struct ReduceParams {
  ReduceParams() = default;
  ReduceParams(popops::Operation op_, bool update_ = false) : op(op_), update(update_) {}
  ReduceParams(popops::Operation op_, bool update_, poplar::Tensor scale_)
      : op(op_), update(update_), useScale(true), scale(scale_) {}

  popops::Operation op = popops::Operation::ADD;
  bool update = false;
  bool useScale = false;
  poplar::Tensor scale;
};

namespace detail {

inline poplar::Tensor reduce_to(poplar::Graph &graph, const poplar::Tensor &operand,
                                const poplar::Type &type, const std::vector<std::size_t> &dims,
                                const ReduceParams &params, const poplar::Tensor &output,
                                poplar::program::Sequence &program,
                                const poplar::DebugContext &debug) {
  const std::vector<uint32_t> numbers(dims.begin(), dims.end());
  trm_poplar_tensor *result = output.handle();
  poplar::detail::call(poplar::detail::table().step_reduce, graph.handle(), operand.get(),
                       type.number(), numbers.data(), numbers.size(),
                       static_cast<int32_t>(params.op),
                       params.useScale ? params.scale.get() : nullptr, params.update,
                       program.place(), debug.getPathName().c_str(), &result);
  return output.valid() ? output : poplar::Tensor(graph.handle(), result);
}

} // namespace detail

/* The tensor without the dimensions `dims`. Throws poplibs_error for dimensions that it lacks and
 * for `update`, which needs an output. */
inline poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &operand,
                             const poplar::Type &type, const std::vector<std::size_t> &dims,
                             ReduceParams params, poplar::program::Sequence &program,
                             const poplar::DebugContext &debug = {},
                             const poplar::OptionFlags & = {}) {
  return detail::reduce_to(graph, operand, type, dims, params, poplar::Tensor(), program, debug);
}
inline poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &operand,
                             const std::vector<std::size_t> &dims, ReduceParams params,
                             poplar::program::Sequence &program,
                             const poplar::DebugContext &debug = {},
                             const poplar::OptionFlags & = {}) {
  return reduce(graph, operand, operand.elementType(), dims, params, program, debug);
}
/* The result goes to `output`, in its type. */
inline void reduceWithOutput(poplar::Graph &graph, const poplar::Tensor &operand,
                             const poplar::Tensor &output, const std::vector<std::size_t> &dims,
                             ReduceParams params, poplar::program::Sequence &program,
                             const poplar::DebugContext &debug = {},
                             const poplar::OptionFlags & = {}) {
  output.get();
  detail::reduce_to(graph, operand, output.elementType(), dims, params, output, program, debug);
}

} // namespace popops
