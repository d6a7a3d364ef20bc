/* Kinds of machines. */
#pragma once

#include <string>

namespace poplar {

/* Tremula computes on the CPU what it estimates for an IPU, as the IPU Model does. */
enum class TargetType { IPU, IPU_MODEL, CPU };

inline std::string toString(TargetType type) {
  return type == TargetType::IPU ? "IPU" : type == TargetType::CPU ? "CPU" : "IPU_MODEL";
}

} // namespace poplar
