/* Owns: parsing and checking of compile options. */
#include "exec/options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "tremula/program.h"

typedef enum option_kind {
  KIND_BOOL,
  KIND_TEXT,
  KIND_COUNT,
  KIND_TILES,
  KIND_BYTES,
  KIND_PROPORTION,
  KIND_SHARE,
  KIND_ROUNDING,
  KIND_SELECTION,
  KIND_OVERFLOW,
  KIND_SYNTHETIC
} option_kind;

static const struct {
  const char *key, *value;
  option_kind kind;
  bool acts;
  const char *help;
} table[TRM_NUM_OPTIONS] = {
#define OPTION(key, value, kind, acts, help) {#key, value, KIND_##kind, acts, help},
#include "exec/options.def"
#undef OPTION
};

const char *trm_option_key(trm_option_id id) { return table[id].key; }
const char *trm_option_help(trm_option_id id) { return table[id].help; }
const char *trm_option_default(trm_option_id id) { return table[id].value; }
bool trm_option_acts(trm_option_id id) { return table[id].acts; }

trm_status trm_synthetic_parse(const char *list, uint32_t *out_bits, trm_error *error) {
  static const struct {
    const char *name;
    uint32_t bits;
  } rows[] = {{"parameters", TRM_SYNTHETIC_PARAMETERS},
              {"infeed", TRM_SYNTHETIC_INFEED},
              {"outfeed", TRM_SYNTHETIC_OUTFEED},
              {"hostembedding", TRM_SYNTHETIC_HOST_EMBEDDING},
              {"seed", 0}}; /* which takes no stream of its own */
  *out_bits = 0;
  for (const char *at = list; *at != '\0';) {
    const size_t length = strcspn(at, ",");
    size_t r = 0;
    while (r < sizeof rows / sizeof *rows &&
           (strlen(rows[r].name) != length || strncmp(rows[r].name, at, length) != 0)) {
      ++r;
    }
    if (r == sizeof rows / sizeof *rows) {
      FAIL(INVALID_ARGUMENT,
           "option synthetic_data names '%.*s'; it takes parameters, seed, "
           "infeed, outfeed and hostembedding",
           (int)length, at);
    }
    *out_bits |= rows[r].bits;
    at += length + (at[length] == ',');
  }
  return TRM_OK;
}

static trm_status check_value(trm_option_id id, const char *value, trm_error *error) {
  char *end;
  switch (table[id].kind) {
    case KIND_BOOL:
      if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
        FAIL(INVALID_ARGUMENT, "option %s must be true or false, not '%s'", table[id].key, value);
      }
      return TRM_OK;
    case KIND_COUNT:
    case KIND_TILES:
    case KIND_BYTES: {
      errno = 0;
      const long least = table[id].kind == KIND_COUNT ? 1 : 0;
      const long most = table[id].kind == KIND_BYTES ? LONG_MAX : 65536;
      const long count = strtol(value, &end, 10);
      if (errno != 0 || end == value || *end != '\0' || count < least || count > most) {
        FAIL(INVALID_ARGUMENT, "option %s must be a number from %ld to %ld, not '%s'",
             table[id].key, least, most, value);
      }
      return TRM_OK;
    }
    case KIND_PROPORTION:
    case KIND_SHARE: {
      errno = 0;
      const double proportion = strtod(value, &end);
      const bool bounded = table[id].kind == KIND_PROPORTION;
      if (errno != 0 || end == value || *end != '\0' || !(proportion >= 0) ||
          (bounded && proportion > 1)) {
        FAIL(INVALID_ARGUMENT, "option %s must be a number %s, not '%s'", table[id].key,
             bounded ? "from 0 to 1" : "from 0 on", value);
      }
      return TRM_OK;
    }
    case KIND_ROUNDING:
      if (strcmp(value, "off") != 0 && strcmp(value, "on") != 0 &&
          strcmp(value, "replica-identical") != 0) {
        FAIL(INVALID_ARGUMENT, "option %s must be off, on or replica-identical, not '%s'",
             table[id].key, value);
      }
      return TRM_OK;
    case KIND_SELECTION:
      if (!trm_selection_order_parse(value, NULL)) {
        FAIL(INVALID_ARGUMENT, "option %s must be auto, zigzag, snake or hoof, not '%s'",
             table[id].key, value);
      }
      return TRM_OK;
    case KIND_OVERFLOW:
      if (strcmp(value, "infinity") != 0 && strcmp(value, "largest") != 0 &&
          strcmp(value, "nan") != 0) {
        FAIL(INVALID_ARGUMENT, "option %s must be infinity, largest or nan, not '%s'",
             table[id].key, value);
      }
      return TRM_OK;
    case KIND_SYNTHETIC: {
      uint32_t bits;
      return trm_synthetic_parse(value, &bits, error);
    }
    case KIND_TEXT: return TRM_OK;
  }
  return TRM_OK;
}

trm_status trm_options_parse(trm_arena *arena, const trm_option *options, size_t num_options,
                             trm_options *out_options, trm_error *error) {
  for (int i = 0; i < TRM_NUM_OPTIONS; ++i) out_options->values[i] = table[i].value;
  for (size_t o = 0; o < num_options; ++o) {
    int found = -1;
    for (int i = 0; i < TRM_NUM_OPTIONS; ++i) {
      if (strcmp(options[o].key, table[i].key) == 0) found = i;
    }
    if (found < 0) {
      const char *names[TRM_NUM_OPTIONS];
      for (int i = 0; i < TRM_NUM_OPTIONS; ++i) names[i] = table[i].key;
      const char *nearest = trm_nearest_name(options[o].key, names, TRM_NUM_OPTIONS);
      FAIL(INVALID_ARGUMENT, "'%s' is not an option of the compiler%s%s%s", options[o].key,
           nearest != NULL ? ". Did you mean '" : "", nearest != NULL ? nearest : "",
           nearest != NULL ? "'?" : "");
    }
    TRY(check_value((trm_option_id)found, options[o].value, error));
    const char *copy = trm_arena_string(arena, options[o].value, strlen(options[o].value));
    CHECK_MEMORY(copy, "an option");
    out_options->values[found] = copy;
  }
  return TRM_OK;
}

bool trm_selection_order_parse(const char *text, trm_selection_order *out_order) {
  static const char *const names[] = {"auto", "zigzag", "snake", "hoof"};
  for (size_t o = 0; o < sizeof names / sizeof *names; ++o) {
    if (strcmp(text, names[o]) != 0) continue;
    if (out_order != NULL) *out_order = (trm_selection_order)o;
    return true;
  }
  return false;
}

bool trm_options_bool(const trm_options *options, trm_option_id id) {
  return strcmp(options->values[id], "true") == 0;
}
