/* Programs: what runs, and in which order. */
#ifndef TREMULA_POPLAR_PROGRAM_HPP_
#define TREMULA_POPLAR_PROGRAM_HPP_

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
  template <class... Programs>
  explicit Sequence(const Program &first, const Program &second, const Programs &...more) {
    make();
    for (const Program &one : {first, second, Program(more)...}) add(one);
  }

  void add(const Program &program) {
    if (program.handle() == nullptr) return;
    detail::Failure failure;
    failure.check(detail::table().sequence_add(place(), program.handle(), failure));
  }

 private:
  void make() {
    detail::Failure failure;
    failure.check(detail::table().program_sequence(place(), failure));
  }
};

/* The vertices of a compute set, all at the same time. */
class Execute : public Program {
 public:
  explicit Execute(ComputeSet set, const DebugContext &debug = {}) {
    detail::Failure failure;
    failure.check(detail::table().program_execute(set.graph(), set.getId(),
                                                  debug.getPathName().c_str(), place(), failure));
  }
};

/* Copies elements; both tensors have the same number and type of them. */
class Copy : public Program {
 public:
  Copy(const Tensor &source, const Tensor &destination, bool dontOutline = false,
       const DebugContext &debug = {}) {
    detail::Failure failure;
    failure.check(detail::table().program_copy(destination.graph(), source.get(), destination.get(),
                                               dontOutline, debug.getPathName().c_str(), place(),
                                               failure));
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

 private:
  /* The host's part before or after the copy. */
  void join(const DataStream &stream, const Program &copy, bool hostFirst) {
    Program host;
    Sequence both;
    detail::Failure failure;
    failure.check(detail::table().program_host(stream.elements().graph(), stream.id(), host.place(),
                                               failure));
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
    detail::Failure failure;
    failure.check(detail::table().program_print(tensor.graph(), text.c_str(), tensor.get(), place(),
                                                failure));
  }
};

/* The elements are not defined from here on. */
class WriteUndef : public Program {
 public:
  explicit WriteUndef(const Tensor &tensor, const DebugContext & = {}) {
    detail::Failure failure;
    failure.check(
        detail::table().program_write_undef(tensor.graph(), tensor.get(), place(), failure));
  }
};

/* One of two programs, by a scalar of type BOOL, INT or UNSIGNED_INT. */
class If : public Program {
 public:
  If(const Tensor &predicate, const Program &onTrue, const Program &onFalse,
     const DebugContext & = {}) {
    detail::Failure failure;
    failure.check(detail::table().program_if(predicate.graph(), predicate.get(), onTrue.handle(),
                                             onFalse.handle(), place(), failure));
  }
};

/* One of many programs, by a scalar. */
class Switch : public Program {
 public:
  Switch(const Tensor &control, const std::vector<std::pair<std::int32_t, Program>> &cases,
         const DebugContext &debug = {})
      : Switch(control, cases, Program(), debug) {}
  Switch(const Tensor &control, const std::vector<std::pair<std::int32_t, Program>> &cases,
         const Program &otherwise, const DebugContext & = {}) {
    std::vector<int32_t> numbers;
    std::vector<trm_poplar_program *> programs;
    for (const std::pair<std::int32_t, Program> &one : cases) {
      numbers.push_back(one.first);
      programs.push_back(one.second.handle());
    }
    detail::Failure failure;
    failure.check(detail::table().program_switch(control.graph(), control.get(), numbers.data(),
                                                 programs.data(), numbers.size(),
                                                 otherwise.handle(), place(), failure));
  }
};

class Repeat : public Program {
 public:
  Repeat(unsigned count, const Program &body, const DebugContext & = {}) {
    detail::Failure failure;
    failure.check(detail::table().program_repeat(count, body.handle(), place(), failure));
  }
};

/* Runs `condition`; while the predicate holds, `body` and `condition` again. */
class RepeatWhileTrue : public Program {
 public:
  RepeatWhileTrue(const Program &condition, const Tensor &predicate, const Program &body,
                  const DebugContext & = {}) {
    detail::Failure failure;
    failure.check(detail::table().program_repeat_while(predicate.graph(), true, condition.handle(),
                                                       predicate.get(), body.handle(), place(),
                                                       failure));
  }
};

class RepeatWhileFalse : public Program {
 public:
  RepeatWhileFalse(const Program &condition, const Tensor &predicate, const Program &body,
                   const DebugContext & = {}) {
    detail::Failure failure;
    failure.check(detail::table().program_repeat_while(predicate.graph(), false, condition.handle(),
                                                       predicate.get(), body.handle(), place(),
                                                       failure));
  }
};

} // namespace program
} // namespace poplar

#endif // TREMULA_POPLAR_PROGRAM_HPP_
