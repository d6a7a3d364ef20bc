/* Tensors of one shape, as NumPy broadcasts them. */
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "../poplar/Tensor.hpp"
#include "exceptions.hpp"

namespace poputil {

/* Broadcasts the tensor to the shape. Throws poplibs_error if it does not fit. */
inline void broadcastToMatch(poplar::Tensor &tensor, const std::vector<std::size_t> &shape) {
  if (tensor.rank() > shape.size()) {
    throw poplibs_error("a tensor of shape " + tensor.shapeToString() +
                        " is broadcast to a shape of lower rank");
  }
  while (tensor.rank() < shape.size()) tensor = tensor.expand({0});
  for (unsigned i = 0; i < shape.size(); ++i) {
    if (tensor.dim(i) == shape[i]) continue;
    if (tensor.dim(i) != 1) {
      throw poplibs_error("a tensor of shape " + tensor.shapeToString() +
                          " is not broadcast to size " + std::to_string(shape[i]) +
                          " of dimension " + std::to_string(i));
    }
    tensor = tensor.broadcast(static_cast<unsigned>(shape[i]), i);
  }
}

/* Broadcasts both to the shape that they have together. */
inline void broadcastToMatch(poplar::Tensor &a, poplar::Tensor &b) {
  std::vector<std::size_t> x = a.shape(), y = b.shape();
  const std::size_t rank = std::max(x.size(), y.size());
  x.insert(x.begin(), rank - x.size(), 1);
  y.insert(y.begin(), rank - y.size(), 1);
  for (std::size_t i = 0; i < rank; ++i) x[i] = x[i] == 1 ? y[i] : x[i];
  broadcastToMatch(a, x);
  broadcastToMatch(b, x);
}

} // namespace poputil
