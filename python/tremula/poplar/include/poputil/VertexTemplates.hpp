/* Names of vertices' templates: templateVertex("Rotate", HALF, true) is "Rotate<half,true>". */
#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>

#include "../poplar/Type.hpp"

namespace poputil {

inline std::string templateVertexParam(const poplar::Type &type) { return type.toString(); }
inline std::string templateVertexParam(const std::string &text) { return text; }
inline std::string templateVertexParam(const char *text) { return text; }
inline std::string templateVertexParam(bool value) { return value ? "true" : "false"; }
template <class T>
typename std::enable_if<std::is_integral<T>::value, std::string>::type templateVertexParam(
    T value) {
  return std::to_string(value);
}

template <class... Arguments>
std::string templateVertex(const std::string &name, const Arguments &...arguments) {
  std::string result;
  for (const std::string &one :
       std::initializer_list<std::string>{templateVertexParam(arguments)...})
    result += (result.empty() ? "<" : ",") + one;
  return name + result + (result.empty() ? "" : ">");
}

} // namespace poputil
