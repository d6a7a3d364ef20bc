/* Owns: finding TensorFlow's functions by name. */
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
