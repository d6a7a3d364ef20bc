/* Loading Tremula's library into a plain program, which has a main() of its own. */
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "Detail.hpp"

namespace poplar {
namespace detail {

/* Opens the table, unless Tremula has handed it over: from the library in TREMULA_LIBRARY_DIR, from
 * the one that was installed with this header, or from one that the linker finds. */
inline void open_table() {
  if (table_place() != nullptr) return;
  const std::string here = __FILE__, name = "libtremula.so.0";
  const std::string folder = here.substr(0, here.find_last_of('/'));
  std::vector<std::string> places;
  const char *const chosen = std::getenv("TREMULA_LIBRARY_DIR");
  if (chosen != nullptr && *chosen != '\0') places.push_back(std::string(chosen) + "/" + name);
  places.push_back(folder + "/../../../lib/" + name);       /* a wheel */
  places.push_back(folder + "/../../../../../lib/" + name); /* a prefix: share/tremula/poplar */
  places.push_back(name);
  std::string reasons;
  for (const std::string &place : places) {
    void *const library = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      reasons += std::string("\n  ") + dlerror();
      continue;
    }
    typedef const trm_poplar_api *(*Give)();
    const Give give = reinterpret_cast<Give>(dlsym(library, "trm_poplar_api_table"));
    const trm_poplar_api *const found = give == nullptr ? nullptr : give();
    if (found != nullptr && found->version >= TRM_POPLAR_VERSION) {
      table_place() = found;
      return;
    }
    reasons += "\n  " + place + " is older than the headers";
  }
  throw poplar_error("Tremula's library could not be opened: set TREMULA_LIBRARY_DIR" + reasons);
}

} // namespace detail
} // namespace poplar
