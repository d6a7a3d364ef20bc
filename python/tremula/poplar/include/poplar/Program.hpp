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
  Sequence() { make(); }
  explicit Sequence(const DebugContext &) { make(); }
  Sequence(std::initializer_list<Program> programs, const DebugContext & = {}) {
    make();
    for (const Program &one : programs) add(one);
  }
  Sequence(const std::vector<Program> &programs, const DebugContext & = {}) {
    make();
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

 private:
  void make() { detail::call(detail::table().program_sequence, place()); }
};

/* The vertices of a compute set, all at the same time. */
class Execute : public Program {
 public:
  explicit Execute(ComputeSet set, const DebugContext &debug = {}) {
    detail::call(detail::table().program_execute, set.graph(), set.getId(),
                 debug.getPathName().c_str(), place());
  }
};

/* Copies elements; both tensors have the same number and type of them. */
class Copy : public Program {
 public:
  Copy(const Tensor &source, const Tensor &destination, bool dontOutline = false,
       const DebugContext &debug = {}) {
    detail::call(detail::table().program_copy, destination.graph(), source.get(), destination.get(),
                 dontOutline, debug.getPathName().c_str(), place());
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
    const uint32_t dim = 0;
    const uint64_t size = 1;
    const Tensor index = offset.reshape({offset.numElements(), 1});
    Sequence both;
    const Tensor rows =
        detail::made(buffer.rows().graph(), detail::table().step_multi_slice, buffer.rows().get(),
                     index.get(), false, &dim, &size, 1, both.place(), debug.getPathName().c_str());
    both.add(Copy(rows.flatten(), destination.flatten(), false, debug));
    held_ = detail::Counted<trm_poplar_program>(both.leave());
  }
  Copy(const Tensor &source, const RemoteBuffer &buffer, const Tensor &offset,
       const DebugContext &debug = {}) {
    const uint32_t dim = 0;
    const uint64_t size = 1;
    const std::size_t count = offset.numElements();
    const Tensor index = offset.reshape({count, 1});
    const Tensor rows = source.reshape({count, 1, buffer.numElements()});
    Sequence update;
    detail::call(detail::table().step_multi_update, buffer.rows().graph(), buffer.rows().get(),
                 rows.get(), index.get(), nullptr, TRM_POPLAR_UPDATE_SET, false, &dim, &size, 1,
                 update.place(), debug.getPathName().c_str());
    held_ = detail::Counted<trm_poplar_program>(update.leave());
  }

 private:
  static Tensor first_rows(const RemoteBuffer &buffer, const Tensor &tensor) {
    return buffer.rows().flatten().slice(0, tensor.numElements());
  }
  /* The host's part before or after the copy. */
  void join(const DataStream &stream, const Program &copy, bool hostFirst) {
    Program host;
    Sequence both;
    detail::call(detail::table().program_host, stream.elements().graph(), stream.id(),
                 host.place());
    both.add(hostFirst ? host : copy);
    both.add(hostFirst ? copy : host);
    held_ = detail::Counted<trm_poplar_program>(both.leave());
  }
};

/* Prints the elements on stderr. */
class PrintTensor : public Program {
 public:
  explicit PrintTensor(const Tensor &tensor, const DebugContext &debug = {})
      : PrintTensor(StringRef(debug.getPathName()), tensor) {}
  PrintTensor(StringRef title, const Tensor &tensor, const DebugContext & = {}) {
    const std::string text = title;
    detail::call(detail::table().program_print, tensor.graph(), text.c_str(), tensor.get(),
                 place());
  }
};

/* The elements are not defined from here on. */
class WriteUndef : public Program {
 public:
  explicit WriteUndef(const Tensor &tensor, const DebugContext & = {}) {
    detail::call(detail::table().program_write_undef, tensor.graph(), tensor.get(), place());
  }
};

/* One of two programs, by a scalar of type BOOL, INT or UNSIGNED_INT. */
class If : public Program {
 public:
  If(const Tensor &predicate, const Program &onTrue, const Program &onFalse,
     const DebugContext & = {}) {
    detail::call(detail::table().program_if, predicate.graph(), predicate.get(), onTrue.handle(),
                 onFalse.handle(), place());
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
    make();
  }
  Switch &add(std::int32_t number, const Program &program) {
    cases_.push_back({number, program});
    make();
    return *this;
  }

 private:
  void make() {
    std::vector<int32_t> numbers;
    std::vector<trm_poplar_program *> programs;
    for (const std::pair<std::int32_t, Program> &one : cases_) {
      numbers.push_back(one.first);
      programs.push_back(one.second.handle());
    }
    held_ = {};
    detail::call(detail::table().program_switch, control_.graph(), control_.get(), numbers.data(),
                 programs.data(), numbers.size(), otherwise_.handle(), place());
  }

  Tensor control_;
  Cases cases_;
  Program otherwise_;
};

class Repeat : public Program {
 public:
  Repeat(unsigned count, const Program &body, const DebugContext & = {}) {
    detail::call(detail::table().program_repeat, count, body.handle(), place());
  }
};

/* Runs `condition`; while the predicate holds, `body` and `condition` again. */
class RepeatWhileTrue : public Program {
 public:
  RepeatWhileTrue(const Program &condition, const Tensor &predicate, const Program &body,
                  const DebugContext & = {}) {
    detail::call(detail::table().program_repeat_while, predicate.graph(), true, condition.handle(),
                 predicate.get(), body.handle(), place());
  }
};

class RepeatWhileFalse : public Program {
 public:
  RepeatWhileFalse(const Program &condition, const Tensor &predicate, const Program &body,
                   const DebugContext & = {}) {
    detail::call(detail::table().program_repeat_while, predicate.graph(), false, condition.handle(),
                 predicate.get(), body.handle(), place());
  }
};

/* The program of a function. */
class Call : public Program {
 public:
  explicit Call(const Function &function, const DebugContext & = {}) : Program(function) {}
};

} // namespace program
} // namespace poplar
