/* The devices of this machine: for each number of IPUs there is one. */
#pragma once

#include <cstddef>
#include <vector>

#include "Device.hpp"

namespace poplar {

class DeviceManager {
 public:
  static DeviceManager createDeviceManager() { return DeviceManager(); }

  std::size_t getNumDevices() const { return 1; }
  std::vector<Device> getDevices() const { return getDevices(TargetType::IPU, 1); }
  std::vector<Device> getDevices(TargetType type, unsigned numIPUs) const {
    if (type == TargetType::CPU) return {Device::createCPUDevice()};
    return {Device(Target(type, "ipu2", numIPUs, 0))};
  }
  Device getDevice(unsigned id) const {
    const std::vector<Device> all = getDevices();
    if (id >= all.size()) throw poplar_error("there is no device " + std::to_string(id));
    return all[id];
  }
};

} // namespace poplar
