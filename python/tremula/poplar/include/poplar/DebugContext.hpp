/* Names of what a graph is made of, as profiles show them: "outer/inner". */
#pragma once

#include <cstdint>
#include <string>

#include "StringRef.hpp"

namespace poplar {

typedef uint64_t DebugId;

struct SourceLocation {
  SourceLocation() = default;
  SourceLocation(StringRef function, StringRef file, unsigned number)
      : functionName(function), fileName(file), lineNumber(number) {}
  static SourceLocation Current() { return SourceLocation(); }

  std::string functionName, fileName;
  unsigned lineNumber = 0;
};

/* A name below another one. */
class DebugNameAndId {
 public:
  DebugNameAndId(std::string name = "", DebugId id = {}, std::string parent = "")
      : path_(join(parent, name)), id_(id) {}
  DebugNameAndId(const char *name) : path_(name), id_() {}
  DebugNameAndId(DebugId id, std::string parent = "") : path_(parent), id_(id) {}
  DebugNameAndId(const DebugNameAndId &parent, StringRef name)
      : path_(join(parent.path_, name)), id_(parent.id_) {}

  std::string getPathName() const { return path_; }
  DebugId getParentId() const { return id_; }

 private:
  static std::string join(const std::string &parent, const std::string &name) {
    return parent.empty() || name.empty() ? parent + name : parent + "/" + name;
  }

  std::string path_;
  DebugId id_;
};

class DebugContext {
 public:
  DebugContext(SourceLocation = {}) {}
  DebugContext(const char *name, SourceLocation = {}) : name_(name) {}
  DebugContext(StringRef name, SourceLocation = {}) : name_(name.cloneAsString()) {}
  DebugContext(std::string name, SourceLocation = {}) : name_(name) {}
  DebugContext(const DebugNameAndId &parent, StringRef name = {}, SourceLocation = {})
      : name_(parent, name) {}

  std::string getPathName() const { return name_.getPathName(); }
  operator DebugNameAndId() const { return name_; }

 private:
  DebugNameAndId name_;
};

/* The context of one call of a library. `layer` names the library. */
class DebugInfo {
 public:
  DebugInfo(const DebugContext &context, std::string /*layer*/) : name_(context) {}
  DebugId getId() const { return name_.getParentId(); }
  std::string getPathName() const { return name_.getPathName(); }
  operator DebugNameAndId() const { return name_; }

 private:
  DebugNameAndId name_;
};

} // namespace poplar
