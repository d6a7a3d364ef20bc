/* Owns: windows, padding and labels of dimensions in HLO text: what is written in words of numbers
 * and letters. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/parse.h"

enum { MAX_SPATIAL = TRM_MAX_RANK - 2 };

/* ---- Words of numbers: 3x3, 0_1x0_1 --------------------------------------------------------- */

/* Reads the current word as groups of numbers, "a_b_cxd_e_f", into values[group * width + i];
 * *out_width gets the numbers of each group, between `least` and `most`. */
static trm_status read_word(trm_parser *parser, int least, int most, int64_t *values,
                            int32_t *out_groups, int *out_width) {
  trm_lexer *lexer = &parser->lexer;
  if (lexer->kind == TOKEN_END || lexer->kind == TOKEN_STRING || strchr(",}", *lexer->token)) {
    return trm_lexer_unexpected(lexer, "sizes such as 3x3");
  }
  trm_lexer_word(lexer);
  const char *at = lexer->token, *end = at + lexer->length;
  int32_t groups = 0;
  int width = 0, in_group = 0;
  while (at < end) {
    char *behind;
    errno = 0;
    const long long value = strtoll(at, &behind, 10);
    if (behind == at || behind > end || errno != 0 || groups == TRM_MAX_RANK || in_group == most) {
      return trm_lexer_unexpected(lexer, most == 1   ? "sizes such as 3x3"
                                         : most == 2 ? "padding such as 0_1x0_1"
                                                     : "padding such as 0_1_0x1_2_0");
    }
    values[groups * most + in_group++] = value;
    at = behind;
    if (at < end && *at == '_') {
      ++at;
      continue;
    }
    if (in_group < least || (groups > 0 && in_group != width && least == most)) {
      return trm_lexer_unexpected(lexer, "padding such as 0_1x0_1");
    }
    for (width = in_group; in_group < most; ++in_group) values[groups * most + in_group] = 0;
    ++groups;
    in_group = 0;
    if (at < end && *at == 'x' && at + 1 < end) {
      ++at;
    } else if (at < end) {
      return trm_lexer_unexpected(lexer, "sizes joined by 'x'");
    }
  }
  if (in_group > 0 || groups == 0) return trm_lexer_unexpected(lexer, "sizes such as 3x3");
  trm_lexer_next(lexer);
  *out_groups = groups;
  *out_width = width;
  return TRM_OK;
}

trm_status trm_parse_padding(trm_parser *parser, trm_pending_instruction *pending) {
  trm_error *error = parser->error;
  int64_t values[TRM_MAX_RANK * 3];
  trm_padding_dimension padding[TRM_MAX_RANK];
  int32_t count = 0;
  int width;
  /* A scalar's padding has no words: the text goes on with a comma or another line. */
  const int kind = parser->lexer.kind;
  if (kind == TOKEN_NUMBER) TRY(read_word(parser, 2, 3, values, &count, &width));
  for (int32_t i = 0; i < count; ++i) {
    padding[i] = (trm_padding_dimension){values[i * 3], values[i * 3 + 1], values[i * 3 + 2]};
  }
  pending->num_ranges = count;
  pending->instruction.padding =
      trm_arena_copy(&parser->module->arena, padding, (size_t)count * sizeof *padding);
  CHECK_MEMORY(pending->instruction.padding, "padding");
  return TRM_OK;
}

enum {
  FIELD_SIZE,
  FIELD_STRIDE,
  FIELD_PAD,
  FIELD_LHS_DILATE,
  FIELD_RHS_DILATE,
  FIELD_REVERSAL,
  NUM_FIELDS
};
static const char *const window_fields[NUM_FIELDS] = {"size",       "stride",     "pad",
                                                      "lhs_dilate", "rhs_dilate", "rhs_reversal"};

static void set_window_field(trm_window_dimension *dimension, int field, const int64_t *values) {
  switch (field) {
    case FIELD_SIZE: dimension->size = *values; break;
    case FIELD_STRIDE: dimension->stride = *values; break;
    case FIELD_PAD: dimension->padding_low = values[0], dimension->padding_high = values[1]; break;
    case FIELD_LHS_DILATE: dimension->base_dilation = *values; break;
    case FIELD_RHS_DILATE: dimension->window_dilation = *values; break;
    default: dimension->reversal = *values != 0; break;
  }
}

/* `{size=3x3 stride=2x2 pad=0_1x0_1 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x0}` */
trm_status trm_parse_window(trm_parser *parser, trm_window **out_window) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_window_dimension dims[TRM_MAX_RANK];
  int32_t rank = -1;
  unsigned seen = 0;
  for (int i = 0; i < TRM_MAX_RANK; ++i) {
    dims[i] =
        (trm_window_dimension){.size = 1, .stride = 1, .window_dilation = 1, .base_dilation = 1};
  }
  const char *where = lexer->token;
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  while (lexer->kind != '}') {
    int field = 0;
    while (field < NUM_FIELDS && !trm_lexer_is(lexer, window_fields[field])) ++field;
    if (field == NUM_FIELDS) {
      return trm_lexer_unexpected(
          lexer, "a window's size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal");
    }
    if ((seen >> field & 1) != 0) {
      return trm_lexer_fail(lexer, lexer->token, "%s appears twice", window_fields[field]);
    }
    seen |= 1u << field;
    trm_lexer_next(lexer);
    TRY(trm_lexer_expect(lexer, '=', "'='"));
    int64_t values[TRM_MAX_RANK * 2];
    int32_t count;
    int width;
    const int numbers = field == FIELD_PAD ? 2 : 1;
    const char *at = lexer->token;
    TRY(read_word(parser, numbers, numbers, values, &count, &width));
    if (rank >= 0 && count != rank) {
      return trm_lexer_fail(lexer, at, "%s has %d dimensions where the window has %d",
                            window_fields[field], count, rank);
    }
    rank = count;
    for (int32_t i = 0; i < count; ++i) set_window_field(&dims[i], field, &values[i * numbers]);
    trm_lexer_accept(lexer, ',');
  }
  if (rank >= 0 && (seen & 1u << FIELD_SIZE) == 0) {
    return trm_lexer_fail(lexer, where, "the window has no size");
  }
  trm_lexer_next(lexer);
  trm_window *window = ARENA_NEW(&parser->module->arena, trm_window, 1);
  CHECK_MEMORY(window, "a window");
  window->rank = rank < 0 ? 0 : rank;
  window->dims = trm_arena_copy(&parser->module->arena, dims, (size_t)window->rank * sizeof *dims);
  CHECK_MEMORY(window->dims, "a window");
  *out_window = window;
  return TRM_OK;
}

/* ---- dim_labels: b01f_01io->b01f ------------------------------------------------------------ */

/* One part of the labels: the positions of two letters and of the digits 0, 1, ... */
static trm_status read_labels(const trm_lexer *lexer, const char *text, size_t length,
                              const char letters[2], int64_t *first, int64_t *second,
                              int64_t *spatial, int32_t *out_count) {
  uint32_t seen = 0;
  int32_t count = 0;
  bool found[2] = {false, false};
  for (size_t i = 0; i < length; ++i) {
    const char c = text[i];
    if (i == TRM_MAX_RANK) {
      return trm_lexer_fail(lexer, text, "more than %d dimensions", TRM_MAX_RANK);
    }
    if (c == '?') continue;
    if ((c == letters[0] && !found[0]) || (c == letters[1] && !found[1])) {
      found[c == letters[1]] = true;
      *(c == letters[0] ? first : second) = (int64_t)i;
    } else if (c >= '0' && c <= '9' && (seen >> (c - '0') & 1) == 0) {
      seen |= 1u << (c - '0');
      spatial[c - '0'] = (int64_t)i;
      ++count;
    } else {
      return trm_lexer_fail(lexer, text + i,
                            "'%c' in dim_labels; each part has '%c', '%c' and the spatial "
                            "dimensions 0, 1, ... once, as in b01f_01io->b01f",
                            c, letters[0], letters[1]);
    }
  }
  if (!found[0] || !found[1] || seen != (1u << count) - 1) {
    return trm_lexer_fail(lexer, text,
                          "dim_labels '%.*s' lacks '%c', '%c' or a spatial dimension; expected "
                          "labels such as b01f_01io->b01f",
                          SLICE_ARGS(text, length), letters[0], letters[1]);
  }
  *out_count = count;
  return TRM_OK;
}

trm_status trm_parse_dim_labels(trm_parser *parser, trm_instruction *instruction) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_arena *arena = &parser->module->arena;
  if (!trm_attribute_make_convolution(arena, instruction)) FAIL_NO_MEMORY("a convolution");
  trm_convolution *c = instruction->convolution;
  trm_lexer_word(lexer);
  const char *text = lexer->token, *end = text + lexer->length;
  const char *kernel = memchr(text, '_', lexer->length);
  const char *arrow = memchr(text, '>', lexer->length);
  if (lexer->kind != TOKEN_IDENTIFIER || kernel == NULL || arrow == NULL || kernel + 1 >= arrow ||
      arrow[-1] != '-') {
    return trm_lexer_unexpected(lexer, "labels such as b01f_01io->b01f");
  }
  c->input_spatial = ARENA_NEW(arena, int64_t, MAX_SPATIAL);
  c->kernel_spatial = ARENA_NEW(arena, int64_t, MAX_SPATIAL);
  c->output_spatial = ARENA_NEW(arena, int64_t, MAX_SPATIAL);
  if (c->input_spatial == NULL || c->kernel_spatial == NULL || c->output_spatial == NULL) {
    FAIL_NO_MEMORY("a convolution");
  }
  int32_t kernel_rank, output_rank;
  TRY(read_labels(lexer, text, (size_t)(kernel - text), "bf", &c->input_batch, &c->input_feature,
                  c->input_spatial, &c->spatial_rank));
  TRY(read_labels(lexer, kernel + 1, (size_t)(arrow - 1 - (kernel + 1)), "io",
                  &c->kernel_input_feature, &c->kernel_output_feature, c->kernel_spatial,
                  &kernel_rank));
  TRY(read_labels(lexer, arrow + 1, (size_t)(end - (arrow + 1)), "bf", &c->output_batch,
                  &c->output_feature, c->output_spatial, &output_rank));
  if (kernel_rank != c->spatial_rank || output_rank != c->spatial_rank) {
    return trm_lexer_fail(lexer, text, "the parts of dim_labels differ in spatial dimensions");
  }
  trm_lexer_next(lexer);
  return TRM_OK;
}
