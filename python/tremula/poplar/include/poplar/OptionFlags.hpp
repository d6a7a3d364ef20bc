/* Options by name, which a call may use. */
#pragma once

#include <cctype>
#include <cstdio>
#include <initializer_list>
#include <istream>
#include <map>
#include <ostream>
#include <sstream>
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
  explicit FlatJson(std::istream &stream) : stream_(stream) {}

  void read(OptionFlags &flags) {
    for (char before = '{'; before == '{' || next() != '}'; before = ',') {
      take(before);
      if (before == '{' && next() == '}') break;
      const std::string name = quoted();
      take(':');
      flags.set(name, next() == '"' ? quoted() : bare());
    }
  }

 private:
  char next() {
    const int found = (stream_ >> std::ws).peek();
    if (found == EOF) throw parse_error("the JSON of options ends too early");
    return static_cast<char>(found);
  }
  void take(char wanted) {
    if (next() != wanted) {
      throw parse_error(std::string("the JSON of options has '") + next() + "' where '" + wanted +
                        "' is expected");
    }
    stream_.get();
  }
  std::string quoted() {
    std::string result;
    char one = 0;
    take('"');
    while (stream_.get(one) && one != '"') {
      if (one == '\\') stream_.get(one);
      result += one;
    }
    if (!stream_) next(); /* throws */
    return result;
  }
  std::string bare() {
    std::string result;
    for (int one = stream_.peek(); std::isalnum(one) || one == '.' || one == '-' || one == '+';
         one = stream_.peek()) {
      result += static_cast<char>(stream_.get());
    }
    if (result.empty()) throw parse_error("the JSON of options has a value that is no scalar");
    return result;
  }

  std::istream &stream_;
};

} // namespace detail

/* Sets the options of an object of JSON. Throws parse_error. */
inline void readJSON(std::istream &stream, OptionFlags &flags) {
  detail::FlatJson(stream).read(flags);
}
inline void readJSON(StringRef text, OptionFlags &flags) {
  std::istringstream stream(text);
  readJSON(stream, flags);
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
