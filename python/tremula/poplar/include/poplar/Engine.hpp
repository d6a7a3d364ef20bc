/* Engine: the programs of a graph, which the host runs. */
#pragma once

#include <exception>
#include <istream>
#include <ostream>

#include "Graph.hpp"

namespace poplar {

/* The host's side of a stream: fetch() is called for each transfer, with the elements' place, and
 * then complete(). Nothing is prefetched. */
class StreamCallback {
 public:
  enum class Result { NotAvailable, Success };

  virtual ~StreamCallback() = default;
  virtual Result prefetch(void *) = 0;
  virtual void fetch(void *) = 0;
  virtual void complete() = 0;
  virtual void invalidatePrefetched() {}
};
class LegacyStreamCallback : public StreamCallback {
 public:
  Result prefetch(void *) final { return Result::NotAvailable; }
  void complete() final {}
};

/* What compileGraph() makes, of which an Engine is made. */
class Executable {
 public:
  Executable() = default;
  Executable(Executable &&) = default;
  Executable &operator=(Executable &&) = default;

  /* Writes the graph, its programs, and the code of its vertices. */
  void serialize(std::ostream &out) const {
    detail::Block<void> data;
    uint64_t size = 0;
    detail::call(detail::table().engine_save, engine(), data.out(), &size);
    out.write(reinterpret_cast<const char *>(&size), sizeof size);
    out.write(static_cast<const char *>(data.get()), static_cast<std::streamsize>(size));
    if (!out) throw poplar_error("the executable could not be written");
  }
  /* Reads what serialize() wrote, which is code, and is trusted. Throws file_load_error where it is
   * damaged, or of another version. */
  static Executable deserialize(std::istream &in) {
    uint64_t size = 0;
    in.read(reinterpret_cast<char *>(&size), sizeof size);
    std::string data;
    while (in && data.size() < size) {
      char part[4096];
      in.read(part,
              static_cast<std::streamsize>(std::min<uint64_t>(sizeof part, size - data.size())));
      data.append(part, static_cast<std::size_t>(in.gcount()));
    }
    detail::open_table();
    trm_poplar_engine *made = nullptr;
    detail::call(detail::table().engine_load, data.data(), data.size(), &made);
    return Executable(made);
  }

 private:
  friend class Engine;
  friend Executable compileGraph(const Graph &, ArrayRef<program::Program>, const OptionFlags &);
  explicit Executable(trm_poplar_engine *made)
      : held_(made, [](trm_poplar_engine *one) { detail::table().engine_release(one); }) {}
  trm_poplar_engine *engine() const {
    if (held_ == nullptr) throw poplar_error("an executable that is empty, or that an Engine has");
    return held_.get();
  }

  std::shared_ptr<trm_poplar_engine> held_;
};

/* Throws poplar_error where the graph has a mistake, such as vertices that write the same elements
 * at the same time. */
inline Executable compileGraph(const Graph &graph, ArrayRef<program::Program> programs,
                               const OptionFlags & = {}) {
  std::vector<trm_poplar_program *> handles;
  for (const program::Program &one : programs) handles.push_back(one.handle());
  trm_poplar_engine *made = nullptr;
  detail::call(detail::table().engine_create, graph.handle(), handles.data(), handles.size(),
               &made);
  return Executable(made);
}

class Engine {
 public:
  explicit Engine(Executable &&executable, const OptionFlags & = {})
      : held_(std::move(executable.held_)) {}
  /* Runs programs[i] as run(i). */
  Engine(const Graph &graph, ArrayRef<program::Program> programs, const OptionFlags & = {})
      : Engine(compileGraph(graph, programs)) {}
  Engine(const Graph &graph, const program::Program &program, const OptionFlags & = {})
      : Engine(graph, ArrayRef<program::Program>(&program, 1)) {}
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;
  Engine(Engine &&) = default;
  Engine &operator=(Engine &&) = default;

  /* The CPU is always ready. */
  void load(const Device &) {}
  void prepare(const Device &) {}
  void deploy() {}
  /* Throws what a stream's callback threw, and poplar_error for everything else that fails. */
  void run(unsigned program = 0, const std::string & = "") { run_or_access(program, nullptr); }
  void loadAndRun(const Device &device, unsigned program = 0) {
    load(device);
    run(program);
  }

  /* What the programs cost on an IPU, and how often they ran. The options showExecutionSteps and
   * showVarStorage, of the value "true", list steps and variables. */
  void printProfileSummary(std::ostream &stream, const OptionFlags &options = {}) {
    const auto shows = [&](const char *option) {
      return options.contains(option) && options.at(option) == "true";
    };
    detail::Block<char> text;
    detail::call(detail::table().engine_profile, held_.get(), shows("showExecutionSteps"),
                 shows("showVarStorage"), text.out());
    stream << text.get();
  }

  /* ---- Streams ---- */

  /* Transfers go through [begin, end) as a ring, each where the one before has ended. */
  void connectStream(StringRef handle, void *begin, void *end) {
    char *const first = static_cast<char *>(begin), *const last = static_cast<char *>(end);
    const std::shared_ptr<char *> at = std::make_shared<char *>(first);
    connect(handle, [first, last, at](char *elements, std::size_t bytes, bool to_device) {
      if (static_cast<std::size_t>(last - *at) < bytes) *at = first;
      if (static_cast<std::size_t>(last - *at) < bytes) {
        throw poplar_error("a stream's buffer is smaller than one transfer");
      }
      move(elements, *at, bytes, to_device);
      *at += bytes;
    });
  }
  /* All transfers have the same place. */
  void connectStream(StringRef handle, void *place) {
    connect(handle, [place](char *elements, std::size_t bytes, bool to_device) {
      move(elements, static_cast<char *>(place), bytes, to_device);
    });
  }
  void connectStreamToCallback(StringRef handle, std::function<void(void *)> callback) {
    connect(handle, [callback](char *elements, std::size_t, bool) { callback(elements); });
  }
  void connectStreamToCallback(StringRef handle, std::unique_ptr<StreamCallback> callback) {
    const std::shared_ptr<StreamCallback> shared = std::move(callback);
    connectStreamToCallback(handle, [shared](void *elements) {
      shared->fetch(elements);
      shared->complete();
    });
  }

  /* ---- Host reads and writes: Graph::createHostRead() and createHostWrite() ---- */

  void readTensor(StringRef handle, void *begin, void *end = nullptr) {
    access(handle, static_cast<char *>(begin), static_cast<char *>(end));
  }
  void writeTensor(StringRef handle, const void *begin, const void *end = nullptr) {
    readTensor(handle, const_cast<void *>(begin), const_cast<void *>(end));
  }

  /* ---- Row `repeat` of a remote buffer. Throws poplar_error without such a row. ---- */

  void copyFromRemoteBuffer(const std::string &handle, void *place, int repeat, unsigned = 0) {
    access_row(handle, "/read", place, repeat);
  }
  void copyToRemoteBuffer(const void *place, const std::string &handle, int repeat, unsigned = 0) {
    access_row(handle, "/write", const_cast<void *>(place), repeat);
  }

 private:
  typedef std::function<void(char *elements, std::size_t bytes, bool to_device)> Transfer;
  struct Connection {
    Transfer transfer;
    std::size_t bytes;
    bool to_device;
    std::shared_ptr<std::exception_ptr> thrown;
  };

  static void move(char *elements, char *place, std::size_t bytes, bool to_device) {
    if (bytes > 0) std::memcpy(to_device ? elements : place, to_device ? place : elements, bytes);
  }
  static int32_t transfer(void *user, void *elements) {
    const Connection &one = *static_cast<Connection *>(user);
    try {
      one.transfer(static_cast<char *>(elements), one.bytes, one.to_device);
      return 0;
    } catch (...) {
      *one.thrown = std::current_exception();
      return 1;
    }
  }
  static void drop(void *user) { delete static_cast<Connection *>(user); }

  /* Runs a program, or a host read or write; callbacks may throw. */
  void run_or_access(unsigned program, const char *handle) {
    *thrown_ = nullptr;
    detail::Failure failure;
    const int32_t status = detail::table().engine_run(held_.get(), program, handle, failure);
    if (status != 0 && *thrown_ != nullptr) std::rethrow_exception(*thrown_);
    failure.check(status);
  }
  /* Returns the bytes of a transfer. */
  std::size_t connect(const std::string &handle, Transfer by) {
    Connection *const made = new Connection{std::move(by), 0, false, thrown_};
    uint64_t bytes = 0;
    bool to_device = false;
    detail::call(detail::table().engine_connect, held_.get(), handle.c_str(), transfer, made, drop,
                 &bytes, &to_device);
    made->bytes = static_cast<std::size_t>(bytes);
    made->to_device = to_device;
    return made->bytes;
  }
  void access(const std::string &handle, char *begin, char *end) {
    const std::size_t bytes =
        connect(handle, [begin](char *elements, std::size_t size, bool to_device) {
          move(elements, begin, size, to_device);
        });
    if (end != nullptr && static_cast<std::size_t>(end - begin) != bytes) {
      throw poplar_error("'" + handle + "' has " + std::to_string(bytes) +
                         " bytes, but the host's array " + std::to_string(end - begin));
    }
    run_or_access(0, handle.c_str());
  }
  void access_row(const std::string &handle, const char *way, void *place, int repeat) {
    unsigned repeats = 0;
    readTensor(handle + "/repeats", &repeats);
    if (repeat < 0 || static_cast<unsigned>(repeat) >= repeats) {
      throw poplar_error("the remote buffer '" + handle + "' has no row " + std::to_string(repeat));
    }
    connectStream(handle + "/index", &repeat);
    readTensor(handle + way, place);
  }

  std::shared_ptr<trm_poplar_engine> held_;
  std::shared_ptr<std::exception_ptr> thrown_ = std::make_shared<std::exception_ptr>();
};

} // namespace poplar
