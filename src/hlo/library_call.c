/* Owns: the rows of library_calls.def, and the text of a call. */
#include "hlo/library_call.h"

#include <inttypes.h>

const trm_library_row trm_library_rows[TRM_NUM_LIBRARY_PATTERNS] = {
#define LIBRARY_CALL(id, word, part, vertices, flags, source) \
  [TRM_LIBRARY_##id] = {word,                                 \
                        part,                                 \
                        vertices,                             \
                        ((flags) & SHARED) != 0,              \
                        ((flags) & PLAIN) != 0,               \
                        ((flags) & EXPRESSION) != 0},
#include "hlo/library_calls.def"
#undef LIBRARY_CALL
};

void trm_library_call_set(trm_library_call *call, trm_library_pattern pattern) {
  const trm_library_row *row = &trm_library_rows[pattern];
  call->pattern = pattern;
  if (row->word != NULL) call->word = row->word;
  if (row->part != NULL) call->part = row->part;
  if (row->vertices != NULL) call->vertices = row->vertices;
  call->is_shared = call->is_shared || row->is_shared;
  call->is_plain = call->is_plain || row->is_plain;
}

bool trm_library_call_is_empty(const trm_library_call *call) {
  return call->pattern == TRM_LIBRARY_NONE && call->scope == NULL && call->copies == NULL &&
         call->vertices == NULL && call->group == 0 && !call->joins && !call->is_absorbed &&
         !call->in_half;
}

/* Adds KEY="VALUE" with a comma before all but the first. */
static void print_text(const char *key, const char *value, bool *is_first, trm_text *out) {
  if (value == NULL) return;
  trm_text_format(out, "%s%s=\"%s\"", *is_first ? "" : ",", key, value);
  *is_first = false;
}

static void print_number(const char *key, uint32_t value, bool *is_first, trm_text *out) {
  if (value == 0) return;
  trm_text_format(out, "%s%s=%" PRIu32, *is_first ? "" : ",", key, value);
  *is_first = false;
}

void trm_library_call_print(const trm_library_call *call, trm_text *out) {
  bool is_first = true;
  print_text("scope", call->scope, &is_first, out);
  print_text("word", call->word, &is_first, out);
  print_text("part", call->part, &is_first, out);
  print_text("vertices", call->vertices, &is_first, out);
  print_text("copies", call->copies, &is_first, out);
  print_text("key", call->key, &is_first, out);
  print_number("number", call->number, &is_first, out);
  print_number("group", call->group, &is_first, out);
  print_text("is", call->joins ? "joined" : NULL, &is_first, out);
  print_text("is", call->is_absorbed ? "absorbed" : NULL, &is_first, out);
  print_text("is", call->is_shared ? "shared" : NULL, &is_first, out);
  print_text("is", call->is_plain ? "plain" : NULL, &is_first, out);
  print_text("is", call->in_half ? "halves" : NULL, &is_first, out);
}
