/* Options by name, which a call may use. */
#pragma once

#include <cctype>
#include <initializer_list>
#include <istream>
#include <iterator>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "StringRef.hpp"
#include "exceptions.hpp"

namespace poplar {

class OptionFlags {
 public:
  typedef std::pair<const std::string, std::string> OptionFlag;
  typedef std::map<std::string, std::string>::const_iterator iterator;
  typedef std::initializer_list<OptionFlag> initializer_list;

  OptionFlags() = default;
  OptionFlags(initializer_list flags) : flags_(flags) {}

  /* Sets options; what was set before is replaced. */
  void set(StringRef name, StringRef value) { flags_[name] = value.cloneAsString(); }
  void set(initializer_list flags) {
    for (const OptionFlag &flag : flags) flags_[flag.first] = flag.second;
  }
  /* Throws poplar_error for an option that is not set. */
  const std::string &at(StringRef name) const {
    const iterator found = flags_.find(name);
    if (found == flags_.end()) throw poplar_error("the option '" + name + "' is not set");
    return found->second;
  }
  bool contains(StringRef name) const { return flags_.count(name) != 0; }
  void clear() { flags_.clear(); }
  iterator begin() const { return flags_.begin(); }
  iterator end() const { return flags_.end(); }
  friend bool operator==(const OptionFlags &a, const OptionFlags &b) {
    return a.flags_ == b.flags_;
  }

 private:
  std::map<std::string, std::string> flags_;
};

typedef OptionFlags::OptionFlag OptionFlag;

namespace detail {

/* Reads one object of JSON whose values are texts, numbers, true and false. */
class FlatJson {
 public:
  explicit FlatJson(const std::string &text) : text_(text), at_(0) {}

  void read(OptionFlags &flags) {
    take('{');
    if (next() == '}') return;
    for (;;) {
      const std::string name = quoted();
      take(':');
      flags.set(name, next() == '"' ? quoted() : bare());
      if (next() == '}') return;
      take(',');
    }
  }

 private:
  char next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    if (at_ == text_.size()) throw parse_error("the JSON of options ends too early");
    return text_[at_];
  }
  void take(char wanted) {
    if (next() != wanted) {
      throw parse_error(std::string("the JSON of options has '") + text_[at_] + "' where '" +
                        wanted + "' is expected");
    }
    ++at_;
  }
  std::string quoted() {
    std::string result;
    take('"');
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      result += text_[at_++];
    }
    take('"');
    return result;
  }
  std::string bare() {
    std::string result;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+')) {
      result += text_[at_++];
    }
    if (result.empty()) throw parse_error("the JSON of options has a value that is no scalar");
    return result;
  }

  const std::string &text_;
  std::size_t at_;
};

} // namespace detail

/* Sets the options of an object of JSON. Throws parse_error. */
inline void readJSON(StringRef text, OptionFlags &flags) {
  const std::string copy = text;
  detail::FlatJson(copy).read(flags);
}

inline void readJSON(std::istream &stream, OptionFlags &flags) {
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  readJSON(StringRef(text), flags);
}

inline std::ostream &operator<<(std::ostream &stream, const OptionFlags &flags) {
  const char *before = "{";
  for (const OptionFlag &flag : flags) {
    stream << before << "\"" << flag.first << "\":\"" << flag.second << "\"";
    before = ",";
  }
  return stream << (before[0] == '{' ? "{}" : "}");
}

} // namespace poplar
