/* What the estimator of a vertex can ask of it. */
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "Detail.hpp"
#include "StringRef.hpp"

namespace poplar {

class Target;

/* The contents of a field that setInitialValue() sets. */
template <class T>
using FieldData = std::vector<T>;

class IntrospectedField {
 public:
  IntrospectedField(trm_poplar_introspector *vertex, std::string name, int64_t index = -1)
      : vertex_(vertex), name_(name), index_(index) {}

  /* The number of elements. Throws graph_object_load_error without such a field. */
  std::size_t size() const {
    uint64_t result = 0;
    if (!detail::table().introspect_size(vertex_, name_.c_str(), index_, &result)) {
      throw graph_object_load_error("an estimator asks for the field " + name_ +
                                    ", which the vertex does not have");
    }
    return result;
  }
  std::size_t getSizeAtIndex(std::size_t i) const { return (*this)[i].size(); }
  IntrospectedField operator[](std::size_t i) const {
    return IntrospectedField(vertex_, name_, static_cast<int64_t>(i));
  }
  template <class T>
  FieldData<T> getInitialValues(const Target &) const {
    FieldData<T> values;
    double value;
    while (detail::table().introspect_value(vertex_, name_.c_str(), values.size(), &value)) {
      values.push_back(static_cast<T>(value));
    }
    return values;
  }
  template <class T>
  T getInitialValue(const Target &target) const {
    const FieldData<T> values = getInitialValues<T>(target);
    if (values.size() > 0) return values[0];
    throw graph_object_load_error("the field " + name_ + " has no initial value");
  }

 private:
  trm_poplar_introspector *vertex_;
  std::string name_;
  int64_t index_;
};

class VertexIntrospector {
 public:
  explicit VertexIntrospector(trm_poplar_introspector *vertex) : vertex_(vertex) {}
  IntrospectedField getFieldInfo(StringRef name) const { return IntrospectedField(vertex_, name); }
  unsigned getTile() const { return detail::table().introspect_tile(vertex_); }

 private:
  trm_poplar_introspector *vertex_;
};

} // namespace poplar
