/* Owns: finding TensorFlow's functions by name, and calling a std::function. */
#define _GNU_SOURCE
#include "cxx.h"

#include <dlfcn.h>

void *trm_tf_find_symbol(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (found != NULL) return found;
  /* A library that a process need not have, so the plugin does not link it. */
  void *library = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return NULL;
  found = dlsym(library, name);
  dlclose(library); /* it stays loaded, because TensorFlow loaded it before */
  return found;
}

trm_tf_cxx_function trm_tf_cxx_take(void *function) {
  trm_tf_cxx_function *from = function;
  const trm_tf_cxx_function taken = *from;
  from->manage = NULL;
  return taken;
}

void trm_tf_cxx_call_once(trm_tf_cxx_function *function) {
  enum { DESTROY = 3 }; /* std::__destroy_functor */
  function->invoke(function->local);
  if (function->manage != NULL) function->manage(function->local, function->local, DESTROY);
}
