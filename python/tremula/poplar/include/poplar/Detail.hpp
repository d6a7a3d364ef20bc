/* What the headers have in common: Tremula's table of functions, its failures as exceptions, and
 * holders of counted objects. Users need nothing of it. */
#pragma once

#include <tremula/poplar.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../poputil/exceptions.hpp"
#include "exceptions.hpp"

namespace poplar {
namespace detail {

inline const trm_poplar_api *&table_place() {
  static const trm_poplar_api *table = nullptr;
  return table;
}

/* The table, which Tremula hands over with each call of an operator. */
inline const trm_poplar_api &table() {
  const trm_poplar_api *found = table_place();
  if (found == nullptr) {
    throw poplar_error("Tremula has not called this library: a graph is built inside an operator");
  }
  return *found;
}

/* The failure that a call of the table fills in. */
class Failure {
 public:
  Failure() { error_.kind = 0, error_.what[0] = '\0'; }
  operator trm_poplar_error *() { return &error_; }

  /* Throws if the status is not 0. */
  void check(int32_t status) const {
    if (status == 0) return;
    const std::string text = error_.what;
    switch (error_.kind) {
      case TRM_POPLAR_ERROR_CONNECTION: throw graph_connection_error(text);
      case TRM_POPLAR_ERROR_CYCLE: throw graph_cycle_error(text);
      case TRM_POPLAR_ERROR_FILE: throw file_load_error(text);
      case TRM_POPLAR_ERROR_TYPE: throw type_error(text);
      case TRM_POPLAR_ERROR_TILE_MAPPING: throw invalid_tile_mapping(text);
      case TRM_POPLAR_ERROR_INDEX: throw index_error(text);
      case TRM_POPLAR_ERROR_NO_SUCH_FIELD: throw graph_object_load_error(text);
      case TRM_POPLAR_ERROR_LIBRARY: throw poputil::poplibs_error(text);
      default: throw poplar_error(text);
    }
  }

 private:
  trm_poplar_error error_;
};

/* Calls a function of the table, and throws its failure. */
template <class Function, class... Arguments>
void call(Function function, Arguments... arguments) {
  Failure failure;
  failure.check(function(arguments..., failure));
}

inline void retain(trm_poplar_graph *one) { table().graph_retain(one); }
inline void retain(trm_poplar_tensor *one) { table().tensor_retain(one); }
inline void retain(trm_poplar_program *one) { table().program_retain(one); }
inline void release(trm_poplar_graph *one) { table().graph_release(one); }
inline void release(trm_poplar_tensor *one) { table().tensor_release(one); }
inline void release(trm_poplar_program *one) { table().program_release(one); }

/* A reference to a counted object, or none. */
template <class T>
class Counted {
 public:
  Counted() : held_(nullptr) {}
  /* Takes the caller's reference over. */
  explicit Counted(T *taken) : held_(taken) {}
  Counted(const Counted &other) : held_(other.held_) {
    if (held_ != nullptr) retain(held_);
  }
  Counted(Counted &&other) noexcept : held_(other.held_) { other.held_ = nullptr; }
  Counted &operator=(Counted other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~Counted() {
    if (held_ != nullptr) release(held_);
  }
  static Counted share(T *one) {
    if (one != nullptr) retain(one);
    return Counted(one);
  }

  T *get() const { return held_; }
  /* The place itself, of none yet: for a function that gives a reference. */
  T **out() { return &held_; }
  /* Gives the reference to the caller. */
  T *leave() {
    T *const left = held_;
    held_ = nullptr;
    return left;
  }

 private:
  T *held_;
};

/* An array or a text that the table's functions made. */
template <class T>
class Block {
 public:
  Block() : first_(nullptr) {}
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  ~Block() {
    if (first_ != nullptr) table().block_release(first_);
  }
  T *get() const { return first_; }
  T **out() { return &first_; }

 private:
  T *first_;
};

/* Sizes as the table takes them. */
template <class Sizes>
std::vector<uint64_t> wide(const Sizes &sizes) {
  return std::vector<uint64_t>(sizes.begin(), sizes.end());
}

} // namespace detail
} // namespace poplar
