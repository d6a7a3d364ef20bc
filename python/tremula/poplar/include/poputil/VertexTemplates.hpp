/* Names of vertices' templates: templateVertex("Rotate", HALF, true) is "Rotate<half,true>". */
#pragma once

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

inline std::string templateVertexParams(bool) { return ">"; }
template <class T, class... More>
std::string templateVertexParams(bool first, const T &argument, const More &...more) {
  return (first ? "<" : ",") + templateVertexParam(argument) + templateVertexParams(false, more...);
}

template <class... Arguments>
std::string templateVertex(const std::string &name, const Arguments &...arguments) {
  return sizeof...(arguments) == 0 ? name : name + templateVertexParams(true, arguments...);
}

} // namespace poputil
