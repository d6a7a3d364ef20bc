/* Compute sets, vertices and their fields, which belong to a graph. */
#pragma once

#include <cstdint>
#include <string>

#include "Detail.hpp"
#include "StringRef.hpp"

namespace poplar {

class ComputeSet {
 public:
  ComputeSet() : id_(0) {}
  ComputeSet(trm_poplar_graph *graph, uint32_t id)
      : graph_(detail::Counted<trm_poplar_graph>::share(graph)), id_(id) {}

  uint32_t getId() const { return id_; }
  trm_poplar_graph *graph() const { return graph_.get(); }

 private:
  detail::Counted<trm_poplar_graph> graph_;
  uint32_t id_;
};

/* A field of a vertex, v["field"], or an element of a field that is a list, v["field"][i]. */
class FieldRef {
 public:
  FieldRef(uint32_t vertex, std::string name, int64_t index = -1)
      : vertex_(vertex), name_(name), index_(index) {}
  FieldRef operator[](std::size_t index) const {
    return FieldRef(vertex_, name_, static_cast<int64_t>(index));
  }

  uint32_t vertex() const { return vertex_; }
  const char *name() const { return name_.c_str(); }
  int64_t index() const { return index_; }

 private:
  uint32_t vertex_;
  std::string name_;
  int64_t index_;
};

class VertexRef {
 public:
  VertexRef() : id_(0) {}
  explicit VertexRef(uint32_t id) : id_(id) {}
  FieldRef operator[](StringRef field) const { return FieldRef(id_, field); }
  uint32_t getId() const { return id_; }

 private:
  uint32_t id_;
};

} // namespace poplar
