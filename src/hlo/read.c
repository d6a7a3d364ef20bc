/* Owns: reading a module from bytes or a file, text or proto by content. */
#include <string.h>

#include "base/file.h"
#include "hlo/hlo.h"

/* Behind white space, a byte-order mark and comments. */
static const char *skip_preamble(const char *at, const char *end) {
  if (end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
  while (at < end) {
    if (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') {
      ++at;
    } else if (end - at >= 2 && at[0] == '/' && at[1] == '/') {
      while (at < end && *at != '\n' && *at != '\r') ++at;
    } else if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
      for (at += 2; end - at >= 2 && !(at[0] == '*' && at[1] == '/');) ++at;
      at = end - at >= 2 ? at + 2 : end;
    } else {
      break;
    }
  }
  return at;
}

/* Only characters of ordinary texts in the first bytes. A proto begins with a tag below 0x20. */
static bool looks_like_text(const char *data, size_t size) {
  const size_t examined = size < 512 ? size : 512;
  for (size_t i = 0; i < examined; ++i) {
    const unsigned char c = (unsigned char)data[i];
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f) return false;
  }
  return true;
}

static trm_status parse(const char *data, size_t size, trm_module **out_module, trm_error *error) {
  static const char word[] = "HloModule";
  const char *end = data + size;
  const char *at = skip_preamble(data, end);
  const size_t length = sizeof word - 1;
  const bool named = (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
  if (named || (at < end && looks_like_text(data, size))) {
    const size_t mark = size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return trm_hlo_parse_text(data + mark, size - mark, out_module, error);
  }
  if (size == 0) FAIL(INVALID_ARGUMENT, "the input is empty; expected an HLO module");
  if (at == end) {
    FAIL(INVALID_ARGUMENT,
         "the input is a text that does not begin with 'HloModule', and holds nothing else");
  }
  return trm_hlo_parse_proto(data, size, out_module, error);
}

trm_status trm_module_read(const void *data, size_t size, const char *name, trm_module **out_module,
                           trm_error *error) {
  const char *called = name != NULL ? name : "a module";
  trm_module *module = NULL;
  if (size > (size_t)TRM_MAX_FILE_GIB << 30) {
    FAIL(INVALID_ARGUMENT, "%s has %zu bytes; modules are at most %d GiB", called, size,
         TRM_MAX_FILE_GIB);
  }
  TRY_NOTE(parse(data, size, &module, error), "while reading %s", called);
  const trm_status status = trm_module_verify(module, error);
  if (status != TRM_OK) {
    trm_module_free(module);
    return trm_note(error, status, "while reading %s", called);
  }
  *out_module = module;
  return TRM_OK;
}

trm_status trm_module_read_file(const char *path, trm_module **out_module, trm_error *error) {
  char *data;
  size_t size;
  TRY(trm_read_file(path, "modules", &data, &size, error));
  const trm_status status = trm_module_read(data, size, path, out_module, error);
  trm_free(data);
  return status;
}
