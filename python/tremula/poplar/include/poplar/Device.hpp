/* Devices: each is the CPU, which computes what is estimated for an IPU. */
#pragma once

#include "Target.hpp"

namespace poplar {

class Device {
 public:
  Device() = default;
  explicit Device(Target target, unsigned id = 0) : target_(std::move(target)), id_(id) {}

  static Device createCPUDevice() { return Device(Target::createCPUTarget()); }

  const Target &getTarget() const { return target_; }
  unsigned getId() const { return id_; }
  /* Nobody else can have it. */
  bool attach() const { return true; }
  void detach() const {}

 private:
  Target target_;
  unsigned id_ = 0;
};

} // namespace poplar
