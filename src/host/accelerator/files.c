/* Owns: finding the plugin of an accelerator, and the files of compiled regions (files.h). */
#define _GNU_SOURCE
#include "host/accelerator/files.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "host/accelerator/accelerator.h"
#include "tremula/tremula.h"

/* ---- Plugins -------------------------------------------------------------------------------- */

/* Finds the first plugin of the name in `folder`, at the places where packages of PyPI install
 * theirs. */
static bool look_in(const char *folder, const char *name, char out_path[TRM_PLUGIN_PATH]) {
  char pattern[2 * TRM_PLUGIN_PATH];
  glob_t files;
  snprintf(pattern, sizeof pattern,
           "%s/{jax_plugins/xla_%s*/xla_%s_plugin.so,jax_plugins/*%s*/*.so,jax_plugins/*/*_%s.so,"
           "*/pjrt_c_api_%s_plugin.so,lib%s/lib%s.so}",
           folder, name, name, name, name, name, name, name);
  if (glob(pattern, GLOB_BRACE, NULL, &files) != 0) return false;
  snprintf(out_path, TRM_PLUGIN_PATH, "%s", files.gl_pathv[0]);
  globfree(&files);
  return true;
}

static bool look_everywhere(const char *name, char out_path[TRM_PLUGIN_PATH]) {
  char folders[1 << 16], own[TRM_PLUGIN_PATH], *rest = folders;
  const char *given = getenv("TREMULA_PLUGIN_PATH");
  Dl_info library;
  snprintf(folders, sizeof folders, "%s", given != NULL ? given : "");
  for (char *folder; (folder = strsep(&rest, ":")) != NULL;) {
    if (*folder != '\0' && look_in(folder, name, out_path)) return true;
  }
  if (dladdr((void *)(uintptr_t)trm_version, &library) == 0) return false;
  const char *slash = strrchr(library.dli_fname, '/');
  if (slash == NULL) return false;
  /* the library is site-packages/tremula/lib/libtremula.so */
  snprintf(own, sizeof own, "%.*s/../..", (int)(slash - library.dli_fname), library.dli_fname);
  return look_in(own, name, out_path);
}

/* Parses device numbers such as "0,2". */
static bool read_devices(const char *text, trm_plugin_choice *out) {
  for (out->num_devices = 0; out->num_devices < TRM_MAX_ACCELERATORS;) {
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 3 || atoi(text) > TRM_MAX_DEVICE_NUMBER) return false;
    out->devices[out->num_devices++] = atoi(text);
    text += digits;
    if (*text == '\0') return true;
    if (*text++ != ',') return false;
  }
  return false;
}

trm_status trm_plugin_find(const char *wanted, trm_plugin_choice *out, trm_error *error) {
  char name[TRM_PLUGIN_PATH];
  *out = (trm_plugin_choice){.num_devices = 1};
  if (strlen(wanted) >= sizeof name) {
    FAIL(INVALID_ARGUMENT, "TREMULA_ACCELERATOR has more than %zu characters", sizeof name - 1);
  }
  snprintf(name, sizeof name, "%s", wanted);
  char *colon = strrchr(name, ':');
  if (colon != NULL) {
    if (!read_devices(colon + 1, out)) {
      FAIL(INVALID_ARGUMENT,
           "TREMULA_ACCELERATOR is '%s': after the colon must be the number of a device, as in "
           "cuda:0, or up to %d numbers separated by commas, each at most %d",
           wanted, TRM_MAX_ACCELERATORS, TRM_MAX_DEVICE_NUMBER);
    }
    *colon = '\0';
  }
  if (strchr(name, '/') != NULL) {
    snprintf(out->path, sizeof out->path, "%s", name);
    return TRM_OK;
  }
  if (name[0] != '\0' && strpbrk(name, "*?[{,") == NULL && look_everywhere(name, out->path)) {
    return TRM_OK;
  }
  FAIL(
      NOT_FOUND,
      "TREMULA_ACCELERATOR is '%s', but no PJRT plugin of that name is installed. Install one (for "
      "an NVIDIA GPU: pip install \"tremula[cuda]\"; for an AMD GPU: pip install jax-rocm7-plugin), "
      "or give the path of a plugin.",
      wanted);
}

/* ---- Compiled regions ----------------------------------------------------------------------- */

bool trm_region_file_find(const char *cache, const char *key, char out_path[TRM_PLUGIN_PATH]) {
  const char *own = getenv("TREMULA_ACCELERATOR_CACHE");
  const char *place = own != NULL && *own != '\0' ? own : cache != NULL ? cache : "";
  const int above = snprintf(out_path, TRM_PLUGIN_PATH, "%s/accelerated", place);
  const bool fits =
      *place != '\0' && above + (int)strlen("/.pjrt") + TRM_REGION_KEY < TRM_PLUGIN_PATH;
  if (!fits) return false;
  (void)trm_make_folders(out_path, &(trm_error){0}); /* writing the file reports a failure */
  snprintf(out_path + above, (size_t)(TRM_PLUGIN_PATH - above), "/%s.pjrt", key);
  return true;
}
