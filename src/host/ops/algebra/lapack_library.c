/* Owns: finding a LAPACK at run time, and calling it. Libraries stay open until the process ends.
 */
#define _GNU_SOURCE
#include "host/ops/algebra/lapack_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tremula/tremula.h"

enum { PATH_BYTES = 4096 };

/* OpenBLAS' wheels put "scipy_" before a name, and "64_" behind it where whole numbers are wide. */
static bool look_in(const char *library, const char *name, trm_lapack_routine *out) {
  static const struct {
    const char *form;
    bool is_wide;
  } forms[] = {{"%s_64_", true}, {"scipy_%s_64_", true}, {"%s_", false}, {"scipy_%s_", false}};
  void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle == NULL) return false;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, forms[i].form, name);
    void *address = dlsym(handle, symbol);
    if (address == NULL) continue;
    memcpy(&out->function, &address, sizeof address);
    out->is_wide = forms[i].is_wide;
    return true;
  }
  return false;
}

static bool look_in_named(const char *names, const char *name, trm_lapack_routine *out) {
  char *const copy = strdup(names), *rest = copy;
  bool found = false;
  for (char *library; !found && rest != NULL && (library = strsep(&rest, ":")) != NULL;) {
    found = *library != '\0' && look_in(library, name, out);
  }
  free(copy);
  return found;
}

/* Of the packages beside Tremula's: the library is site-packages/tremula/lib/libtremula.so. What
 * OpenBLAS is linked to comes first, because older wheels do not say where it is. */
static bool look_beside(const char *name, trm_lapack_routine *out) {
  Dl_info own;
  char pattern[PATH_BYTES];
  glob_t files;
  const char *slash =
      dladdr((void *)(uintptr_t)trm_version, &own) == 0 ? NULL : strrchr(own.dli_fname, '/');
  if (slash == NULL) return false;
  snprintf(pattern, sizeof pattern,
           "%.*s/../../{scipy,numpy}.libs/lib{quadmath,gfortran,*openblas}*",
           (int)(slash - own.dli_fname), own.dli_fname);
  if (glob(pattern, GLOB_BRACE, NULL, &files) != 0) return false;
  bool found = false;
  for (size_t i = 0; i < files.gl_pathc && !found; ++i) {
    found = look_in(files.gl_pathv[i], name, out);
  }
  globfree(&files);
  return found;
}

bool trm_lapack_find(const char *name, trm_lapack_routine *out_routine) {
  const char *const named = getenv("TREMULA_LAPACK");
  if (named != NULL && *named != '\0') return look_in_named(named, name, out_routine);
  return look_beside(name, out_routine) ||
         look_in_named("libopenblas.so.0:liblapack.so.3", name, out_routine);
}

typedef void any_routine(void *, void *, void *, void *, void *, void *, void *, void *, void *,
                         void *, void *, void *, void *, void *, void *, void *, void *, void *,
                         void *, void *);

void trm_lapack_call(const trm_lapack_routine *routine, void *const *arguments, int count) {
  void *a[TRM_LAPACK_ARGUMENTS];
  for (int i = 0; i < TRM_LAPACK_ARGUMENTS; ++i) {
    a[i] = i < count ? arguments[i] : (void *)(uintptr_t)1;
  }
  any_routine *const function = (any_routine *)routine->function;
  /* The caller removes arguments, so that more than the routine takes do no harm. */
  function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13],
           a[14], a[15], a[16], a[17], a[18], a[19]);
}
