/* Kinds of machines. */
#ifndef TREMULA_POPLAR_TARGET_TYPE_HPP_
#define TREMULA_POPLAR_TARGET_TYPE_HPP_

#include <string>

namespace poplar {

/* Tremula computes on the CPU what it estimates for an IPU, as the IPU Model does. */
enum class TargetType { IPU, IPU_MODEL, CPU };

inline std::string toString(TargetType type) {
  return type == TargetType::IPU ? "IPU" : type == TargetType::CPU ? "CPU" : "IPU_MODEL";
}

}  // namespace poplar

#endif  // TREMULA_POPLAR_TARGET_TYPE_HPP_
