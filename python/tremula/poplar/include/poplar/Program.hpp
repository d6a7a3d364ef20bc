/* Programs: what runs, and in which order. */
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "DataStream.hpp"
#include "DebugContext.hpp"
#include "Detail.hpp"
#include "GraphElements.hpp"
#include "Tensor.hpp"

namespace poplar {
namespace program {

class Program {
 public:
  /* Does nothing. */
  Program() = default;
  bool isEmpty() const { return held_.get() == nullptr; }

  /* For the headers: the place of the handle, and the reference, which the caller gets. */
  trm_poplar_program *handle() const { return held_.get(); }
  trm_poplar_program **place() { return held_.out(); }
  trm_poplar_program *leave() { return held_.leave(); }

 protected:
  typedef std::initializer_list<const Program *> Children;

  void make(trm_poplar_graph *graph, trm_poplar_program_kind kind,
            const trm_poplar_program_parts &parts) {
    detail::call(detail::table().program_make, graph, kind, &parts, place());
  }
  /* Of tensors, of which the second may be a null one. */
  void make(trm_poplar_program_kind kind, const Tensor &first, const Tensor &second,
            const std::string &text) {
    trm_poplar_program_parts parts = {};
    parts.tensors[0] = first.handle();
    parts.tensors[1] = second.handle();
    parts.text = text.c_str();
    make(first.graph(), kind, parts);
  }
  /* One that chooses or repeats others. */
  void make(trm_poplar_program_kind kind, const Tensor &predicate, uint64_t number,
            Children children) {
    std::vector<trm_poplar_program *> handles;
    for (const Program *one : children) handles.push_back(one->handle());
    trm_poplar_program_parts parts = {};
    parts.tensors[0] = predicate.handle();
    parts.number = number;
    parts.children = handles.data();
    parts.num_children = static_cast<uint32_t>(handles.size());
    make(predicate.graph(), kind, parts);
  }

  detail::Counted<trm_poplar_program> held_;
};

/* A program that Call runs, which Graph::addFunction() makes. */
class Function : public Program {
 public:
  explicit Function(const Program &program) : Program(program) {}
};

/* Programs one after the other. A program that is added is a copy: what is added to it later does
 * not count. */
class Sequence : public Program {
 public:
  Sequence() { make(nullptr, TRM_POPLAR_SEQUENCE, {}); }
  explicit Sequence(const DebugContext &) : Sequence() {}
  Sequence(std::initializer_list<Program> programs, const DebugContext & = {}) : Sequence() {
    for (const Program &one : programs) add(one);
  }
  Sequence(const std::vector<Program> &programs, const DebugContext & = {}) : Sequence() {
    for (const Program &one : programs) add(one);
  }
  explicit Sequence(const Program &only) : Sequence({only}) {}
  template <class... Programs>
  explicit Sequence(const Program &first, const Program &second, const Programs &...more)
      : Sequence({first, second, more...}) {}

  void add(const Program &program) {
    if (program.handle() == nullptr) return;
    detail::call(detail::table().sequence_add, place(), program.handle());
  }
};

/* The vertices of a compute set, all at the same time. */
class Execute : public Program {
 public:
  explicit Execute(ComputeSet set, const DebugContext &debug = {}) {
    const std::string name = debug.getPathName();
    trm_poplar_program_parts parts = {};
    parts.number = set.getId();
    parts.text = name.c_str();
    make(set.graph(), TRM_POPLAR_EXECUTE, parts);
  }
};

} // namespace program

namespace detail {

typedef std::vector<std::size_t> Sizes;

inline std::vector<uint32_t> checked(const Sizes &dims, const Sizes &sizes) {
  if (dims.size() != sizes.size()) throw poputil::poplibs_error("slices have a size a dimension");
  return std::vector<uint32_t>(dims.begin(), dims.end());
}

/* Slices of t at the rows of indices, and writing them: the steps of popops/DynamicSlice.hpp. */
inline Tensor slice(trm_poplar_graph *graph, const Tensor &t, const Tensor &indices, bool grouped,
                    const Sizes &dims, const Sizes &sizes, program::Sequence &program,
                    const DebugContext &debug) {
  const std::vector<uint32_t> numbers = checked(dims, sizes);
  const std::vector<uint64_t> all = wide(sizes);
  return made(graph, table().step_multi_slice, t.get(), indices.get(), grouped, numbers.data(),
              all.data(), numbers.size(), program.place(), debug.getPathName().c_str());
}
inline void update(trm_poplar_graph *graph, const Tensor &t, const Tensor &s, const Tensor &indices,
                   const Tensor &scale, trm_poplar_update how, bool grouped, const Sizes &dims,
                   const Sizes &sizes, program::Sequence &program, const DebugContext &debug) {
  const std::vector<uint32_t> numbers = checked(dims, sizes);
  const std::vector<uint64_t> all = wide(sizes);
  call(table().step_multi_update, graph, t.get(), s.get(), indices.get(), scale.handle(), how,
       grouped, numbers.data(), all.data(), numbers.size(), program.place(),
       debug.getPathName().c_str());
}

} // namespace detail

namespace program {

/* Copies elements; both tensors have the same number and type of them. */
class Copy : public Program {
 public:
  Copy(const Tensor &source, const Tensor &destination, bool /*dontOutline*/ = false,
       const DebugContext &debug = {}) {
    make(TRM_POPLAR_COPY, source, destination, debug.getPathName());
  }
  Copy(const Tensor &source, const Tensor &destination, const DebugContext &debug)
      : Copy(source, destination, false, debug) {}
  /* Between the host and a tensor: as many elements as the stream has. */
  Copy(const DataStream &stream, const Tensor &destination, bool /*optimiseMemory*/ = false,
       const DebugContext &debug = {}) {
    const Copy inner(stream.elements(), destination.flatten(), false, debug);
    join(stream, inner, true);
  }
  Copy(const Tensor &source, const DataStream &stream, bool /*optimiseMemory*/ = false,
       const DebugContext &debug = {}) {
    const Copy inner(source.flatten(), stream.elements(), false, debug);
    join(stream, inner, false);
  }
  /* Between a tensor and rows of a remote buffer: those that `offset` names, or the first ones. */
  Copy(const RemoteBuffer &buffer, const Tensor &destination, const DebugContext &debug = {})
      : Copy(first_rows(buffer, destination), destination.flatten(), false, debug) {}
  Copy(const Tensor &source, const RemoteBuffer &buffer, const DebugContext &debug = {})
      : Copy(source.flatten(), first_rows(buffer, source), false, debug) {}
  Copy(const RemoteBuffer &buffer, const Tensor &destination, const Tensor &offset,
       const DebugContext &debug = {}) {
    Sequence both;
    const Tensor index = offset.reshape({offset.numElements(), 1});
    const Tensor rows =
        detail::slice(buffer.rows().graph(), buffer.rows(), index, false, {0}, {1}, both, debug);
    both.add(Copy(rows.flatten(), destination.flatten(), false, debug));
    become(both);
  }
  Copy(const Tensor &source, const RemoteBuffer &buffer, const Tensor &offset,
       const DebugContext &debug = {}) {
    Sequence all;
    const std::size_t count = offset.numElements();
    const Tensor rows = source.reshape({count, 1, buffer.numElements()});
    detail::update(buffer.rows().graph(), buffer.rows(), rows, offset.reshape({count, 1}), Tensor(),
                   TRM_POPLAR_UPDATE_SET, false, {0}, {1}, all, debug);
    become(all);
  }

 private:
  void become(const Program &other) { *static_cast<Program *>(this) = other; }
  static Tensor first_rows(const RemoteBuffer &buffer, const Tensor &tensor) {
    return buffer.rows().flatten().slice(0, tensor.numElements());
  }
  /* The host's part before or after the copy. */
  void join(const DataStream &stream, const Program &copy, bool hostFirst) {
    make(TRM_POPLAR_HOST, stream.elements(), stream.id(), {});
    const Program host = *this;
    become(hostFirst ? Sequence(host, copy) : Sequence(copy, host));
  }
};

/* Prints the elements on stderr. */
class PrintTensor : public Program {
 public:
  explicit PrintTensor(const Tensor &tensor, const DebugContext &debug = {})
      : PrintTensor(StringRef(debug.getPathName()), tensor) {}
  PrintTensor(StringRef title, const Tensor &tensor, const DebugContext & = {}) {
    make(TRM_POPLAR_PRINT, tensor, Tensor(), title);
  }
};

/* The elements are not defined from here on. */
class WriteUndef : public Program {
 public:
  explicit WriteUndef(const Tensor &tensor, const DebugContext & = {}) {
    make(TRM_POPLAR_WRITE_UNDEF, tensor, Tensor(), "");
  }
};

/* One of two programs, by a scalar of type BOOL, INT or UNSIGNED_INT. */
class If : public Program {
 public:
  If(const Tensor &predicate, const Program &onTrue, const Program &onFalse,
     const DebugContext & = {}) {
    make(TRM_POPLAR_IF, predicate, 0, {&onTrue, &onFalse});
  }
};

/* One of many programs, by a scalar. */
class Switch : public Program {
 public:
  typedef std::vector<std::pair<std::int32_t, Program>> Cases;
  explicit Switch(const Tensor &control, const DebugContext & = {}) : Switch(control, Cases()) {}
  Switch(const Tensor &control, const Program &otherwise, const DebugContext & = {})
      : Switch(control, Cases(), otherwise) {}
  Switch(const Tensor &control, const Cases &cases, const DebugContext &debug = {})
      : Switch(control, cases, Program(), debug) {}
  Switch(const Tensor &control, const Cases &cases, const Program &otherwise,
         const DebugContext & = {})
      : control_(control), cases_(cases), otherwise_(otherwise) {
    choose();
  }
  Switch &add(std::int32_t number, const Program &program) {
    cases_.push_back({number, program});
    choose();
    return *this;
  }

 private:
  void choose() {
    std::vector<int32_t> numbers;
    std::vector<trm_poplar_program *> programs;
    for (const std::pair<std::int32_t, Program> &one : cases_) {
      numbers.push_back(one.first);
      programs.push_back(one.second.handle());
    }
    programs.push_back(otherwise_.handle());
    const trm_poplar_program_parts parts = {{control_.handle(), nullptr},
                                            0,
                                            nullptr,
                                            programs.data(),
                                            static_cast<uint32_t>(programs.size()),
                                            numbers.data()};
    held_ = {};
    make(control_.graph(), TRM_POPLAR_SWITCH, parts);
  }

  Tensor control_;
  Cases cases_;
  Program otherwise_;
};

class Repeat : public Program {
 public:
  Repeat(unsigned count, const Program &body, const DebugContext & = {}) {
    make(TRM_POPLAR_REPEAT, Tensor(), count, {&body});
  }
};

/* RepeatWhileTrue and RepeatWhileFalse run `condition`; while the predicate is true, or false,
 * `body` and `condition` again. */
#define TREMULA_REPEAT_WHILE(Name, value)                                        \
  class Name : public Program {                                                  \
   public:                                                                       \
    Name(const Program &condition, const Tensor &predicate, const Program &body, \
         const DebugContext & = {}) {                                            \
      make(TRM_POPLAR_WHILE, predicate, value, {&condition, &body});             \
    }                                                                            \
  };
TREMULA_REPEAT_WHILE(RepeatWhileTrue, true)
TREMULA_REPEAT_WHILE(RepeatWhileFalse, false)
#undef TREMULA_REPEAT_WHILE

/* The program of a function. */
class Call : public Program {
 public:
  explicit Call(const Function &function, const DebugContext & = {}) : Program(function) {}
};

} // namespace program
} // namespace poplar
