/* Owns: what the plugin knows of TensorFlow's C++, for the few things that have no C API: types of
 * the Itanium C++ ABI with libstdc++, and where exported functions are.
 *
 * Whoever uses it does without where a function is missing, because no release of TensorFlow
 * promises to have it. */
#ifndef TREMULA_TF_CXX_H_
#define TREMULA_TF_CXX_H_

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

/* The function or object of this (mangled) name in TensorFlow's libraries, as far as the process
 * has loaded them; or NULL. */
void *trm_tf_find_symbol(const char *name);

#endif /* TREMULA_TF_CXX_H_ */
