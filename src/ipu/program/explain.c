/* Owns: the text that says why a program fits or does not. Its first three lines give the answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ipu/program/advice.h"
#include "ipu/program/draft.h"
#include "ipu/target/target.h"

enum { LARGEST = 5 };

/* Writes a number like "1 234 567" into the buffer, and returns the buffer. */
static const char *grouped(int64_t number, char *buffer, size_t size) {
  char digits[24];
  const int length = snprintf(digits, sizeof digits, "%" PRId64, number < 0 ? -number : number);
  size_t used = 0;
  if (number < 0 && size > 1) buffer[used++] = '-';
  for (int d = 0; d < length && used + 2 < size; ++d) {
    if (d > 0 && (length - d) % 3 == 0) buffer[used++] = ' ';
    buffer[used++] = digits[d];
  }
  buffer[used] = '\0';
  return buffer;
}
#define NUMBER(n) grouped((n), (char[32]){0}, 32)

static void append_place(const trm_program *program, uint32_t source, trm_text *text) {
  if (source == TRM_NO_INDEX) return;
  const trm_program_source *s = &program->sources[source];
  if (s->file != NULL) trm_text_format(text, " (%s:%d)", s->file, s->line);
}

static const char *source_name(const trm_program *program, uint32_t source, const char *fallback) {
  if (source == TRM_NO_INDEX) return fallback;
  const trm_program_source *s = &program->sources[source];
  return s->op_name[0] != '\0' ? s->op_name : s->hlo_name;
}

typedef struct largest {
  uint32_t variable;
  int64_t bytes; /* on the tile */
} largest;

/* Finds the largest variables of a tile at a step. */
static void find_largest(const trm_program *program, uint32_t tile, uint32_t step, largest *out,
                         uint32_t *out_count) {
  *out_count = 0;
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_program_variable *variable = &program->variables[v];
    if (*out_count == LARGEST && variable->worst_bytes <= out[LARGEST - 1].bytes) continue;
    const int64_t here = trm_program_bytes_on(program, variable, tile, step);
    if (here < 0) continue;
    uint32_t at = *out_count < LARGEST ? (*out_count)++ : LARGEST - 1;
    if (at == LARGEST - 1 && *out_count == LARGEST && out[at].bytes >= here && out[at].bytes > 0) {
      continue;
    }
    for (; at > 0 && out[at - 1].bytes < here; --at) out[at] = out[at - 1];
    out[at] = (largest){v, here};
  }
}

static double percent_from(int64_t end, int64_t figure) {
  return figure > 0 ? 100.0 * (double)(end - figure) / (double)figure : 0;
}

static void append_answer(const trm_program *program, trm_text *text) {
  const trm_program_totals *t = &program->totals;
  const trm_program_step *step = &program->steps[t->worst_step];
  const uint32_t ipu = t->worst_tile / program->tiles_per_ipu;
  const uint32_t tile = t->worst_tile % program->tiles_per_ipu;
  const double share = 100.0 * (double)t->worst_tile_bytes / (double)t->bytes_per_tile;
  if (t->fits) {
    trm_text_format(text, "It fits: the fullest tile, %u of IPU %u, needs %s of %s bytes (%.0f %%)",
                    tile, ipu, NUMBER(t->worst_tile_bytes), NUMBER(t->bytes_per_tile), share);
  } else {
    trm_text_format(text,
                    "Out of memory: tile %u of IPU %u needs %s bytes, %s more than the %s that it "
                    "has (%.0f %%)",
                    tile, ipu, NUMBER(t->worst_tile_bytes), NUMBER(t->bytes_over),
                    NUMBER(t->bytes_per_tile), share);
  }
  if (t->is_close) {
    trm_text_format(
        text, "; that is within the error of this estimate, %+.0f to %+.0f %% for %s like these",
        percent_from(t->worst_tile_bytes_low, t->worst_tile_bytes),
        percent_from(t->worst_tile_bytes_high, t->worst_tile_bytes), t->bytes_like);
  }
  trm_text_format(text, ".\nThe step that needs most is %s", step->name);
  append_place(program, step->source, text);
  if (t->fits) {
    trm_text_format(text, "; all tiles together hold %.1f MB of %.1f.\n",
                    (double)t->max_step_bytes / 1e6,
                    (double)t->bytes_per_tile * program->memory.num_tiles / 1e6);
  } else {
    trm_text_format(text, "; %u of %u tiles do not fit.\n", t->tiles_over,
                    program->memory.num_tiles);
  }
}

/* What is worked out is a bound: another tile or step may be the fullest then. */
static const char *outcome(const trm_advice *advice) {
  return advice->is_planned ? "it then fits" : "it may then fit";
}

static void append_best(const trm_program *program, const trm_advice_list *list, trm_text *text) {
  if (list->count > 0) {
    const trm_advice *best = &list->items[0];
    trm_text_format(text, "What would help most: %s, which %s %s bytes%s%s.\n", best->text,
                    best->is_planned ? "saves" : "may save up to", NUMBER(best->saved),
                    best->fits ? "; " : "",
                    best->fits ? outcome(best) : " and is not enough alone");
  } else if (!program->totals.fits) {
    trm_text_format(text, "Nothing that was tried needs less on the fullest tile.\n");
  }
}

static void append_details(const trm_program *program, trm_text *text) {
  const trm_program_totals *t = &program->totals;
  largest list[LARGEST] = {{0, 0}};
  uint32_t count;
  find_largest(program, t->worst_tile, t->worst_step, list, &count);
  const trm_program_memory *m = &program->memory;
  trm_text_format(text, "Of that tile: always live %s, live at this step %s, gaps %s bytes.\n",
                  NUMBER(m->always_live[t->worst_tile]), NUMBER(m->not_always_live[t->worst_tile]),
                  NUMBER(m->gaps[t->worst_tile]));
  trm_text_format(text, "The largest on that tile at that step:\n");
  for (uint32_t l = 0; l < count; ++l) {
    const trm_program_variable *v = &program->variables[list[l].variable];
    trm_text_format(text, "  %s bytes (%.1f MB on %u tiles)  %s", NUMBER(list[l].bytes),
                    (double)v->total_bytes / 1e6, v->mapping.regions,
                    v->is_input ? v->name : source_name(program, v->source, v->name));
    const bool tensor = v->category == TRM_CATEGORY_VARIABLE && strcmp(v->name, "variable") != 0;
    if (!tensor) {
      trm_text_format(text, ": %s",
                      v->category == TRM_CATEGORY_VARIABLE ? "temporaries"
                                                           : trm_memory_category_name(v->category));
    } else if (v->is_weight) {
      trm_text_format(text, ": a weight");
    }
    append_place(program, v->source, text);
    trm_text_append(text, "\n", 1);
  }
}

static void append_advice(const trm_advice_list *list, trm_text *text) {
  if (list->count == 0) return;
  trm_text_format(text, "What would help, with the bytes that it saves on the fullest tile:\n");
  for (size_t a = 0; a < list->count; ++a) {
    const trm_advice *advice = &list->items[a];
    trm_text_format(text, "  %s  %s%s%s\n", NUMBER(advice->saved), advice->text,
                    advice->fits ? "; " : "", advice->fits ? outcome(advice) : "");
  }
}

trm_status trm_program_explain(const trm_program *program, bool with_advice, char **out_text,
                               trm_error *error) {
  trm_text text = {0};
  trm_advice_list advice = {0};
  trm_status status = TRM_OK;
  if (with_advice) status = trm_program_find_advice(program, &advice, error);
  if (status == TRM_OK) {
    append_answer(program, &text);
    if (with_advice) append_best(program, &advice, &text);
    append_details(program, &text);
    append_advice(&advice, &text);
  }
  VECTOR_FREE(&advice);
  if (status == TRM_OK && text.failed) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while explaining");
  }
  if (status != TRM_OK) {
    trm_text_free(&text);
    return status;
  }
  *out_text = text.data;
  return TRM_OK;
}

trm_status trm_program_check_fits(const trm_program *program, trm_error *error) {
  if (program->totals.fits) return TRM_OK;
  char *text;
  TRY(trm_program_explain(program, true, &text, error));
  trm_fail(error, TRM_INTERNAL, "[Poplar][Compile engine] graph_memory_allocation_error: %s", text);
  trm_free(text);
  return TRM_INTERNAL;
}
