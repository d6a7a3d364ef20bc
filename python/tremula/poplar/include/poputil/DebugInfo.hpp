/* The context of one call of a library, with what it was called with. Profiles here have the names
 * alone, so the values are evaluated and not kept. */
#pragma once

#include <string>

#include "../poplar/DebugContext.hpp"
#include "../poplar/Tensor.hpp"

namespace poputil {

struct ArgMap {
  template <class... Arguments>
  explicit ArgMap(const Arguments &...) {}
};

#define DI_ARGS(...) ::poputil::ArgMap(__VA_ARGS__)
#define DI_KEY_ARGS(...) ::poputil::ArgMap(__VA_ARGS__)

class OpDebugInfo : public poplar::DebugInfo {
 public:
  OpDebugInfo(const poplar::DebugContext &context, std::string /*api*/)
      : poplar::DebugInfo(context, "poputil") {}
  void add(std::string, const ArgMap &) {}
};

class PoplibsOpDebugInfo : public OpDebugInfo {
 public:
  PoplibsOpDebugInfo(const poplar::DebugContext &context, const ArgMap & = ArgMap(),
                     const std::string &api = "")
      : OpDebugInfo(context, api) {}
  void addOutputs(const ArgMap &) {}
  void addOutput(const poplar::Tensor &) {}
};

} // namespace poputil
