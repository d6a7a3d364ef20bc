/* What functions of PopLibs throw. It is not a poplar_error: TensorFlow shows its text alone. */
#pragma once

#include <stdexcept>
#include <string>

namespace poputil {

struct poplibs_error : std::runtime_error {
  std::string type;
  explicit poplibs_error(const std::string &text)
      : std::runtime_error(text), type("poplibs_error") {}
  explicit poplibs_error(const char *text) : std::runtime_error(text), type("poplibs_error") {}
};

} // namespace poputil
