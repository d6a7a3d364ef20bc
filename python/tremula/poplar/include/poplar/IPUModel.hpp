/* The IPU Model: a device by its size. */
#pragma once

#include <string>

#include "Device.hpp"

namespace poplar {

struct IPUModel {
  /* "ipu1", "ipu2" or "ipu21". */
  explicit IPUModel(const char *ipuVersion = "ipu2") : version(ipuVersion) {}

  Device createDevice() const {
    return Device(Target(TargetType::IPU_MODEL, version, numIPUs, tilesPerIPU));
  }

  std::string version;
  unsigned numIPUs = 1;
  unsigned tilesPerIPU = 0;    /* 0: all that the version has */
  bool compileIPUCode = false; /* vertices are code of the CPU */
};

} // namespace poplar
