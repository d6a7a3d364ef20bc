/* Owns: what the plugin knows of TensorFlow's C++, for the few things that have no C API: types of
 * the Itanium C++ ABI with libstdc++, and where exported functions are.
 *
 * Whoever uses it does without where a function is missing, because no release of TensorFlow
 * promises to have it. */
#ifndef TREMULA_TF_CXX_H_
#define TREMULA_TF_CXX_H_

#include <stdbool.h>
#include <stddef.h>

/* std::string: `data` may be `local`. */
typedef struct trm_tf_cxx_string {
  const char *data;
  size_t size;
  char local[16];
} trm_tf_cxx_string;

/* std::vector of pointers, or of std::unique_ptr. */
typedef struct trm_tf_cxx_vector {
  void **begin, **end, **room;
} trm_tf_cxx_vector;

/* std::function<void()>. What it keeps in `local` may be moved byte by byte: libstdc++ puts only
 * such objects there. */
typedef struct trm_tf_cxx_function {
  void *local[2];
  bool (*manage)(void *local, const void *from, int operation); /* NULL: empty */
  void (*invoke)(const void *local);
} trm_tf_cxx_function;

/* Moves a function out of where C++ keeps it, which is empty then. */
trm_tf_cxx_function trm_tf_cxx_take(void *function);
/* Calls it, and destroys it. */
void trm_tf_cxx_call_once(trm_tf_cxx_function *function);

/* The function or object of this (mangled) name in TensorFlow's libraries, as far as the process
 * has loaded them; or NULL. */
void *trm_tf_find_symbol(const char *name);

#endif /* TREMULA_TF_CXX_H_ */
