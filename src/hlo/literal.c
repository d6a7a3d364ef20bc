/* Owns: the text of constants, both ways. Decimal text is rounded once, to the constant's type. */
#include "hlo/literal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

enum { MAX_NUMBER_LENGTH = 1100, MAX_DEPTH = 64 };

trm_status trm_literal_make(trm_arena *arena, const trm_shape *shape, trm_literal **out_literal,
                            trm_error *error) {
  trm_literal *literal = ARENA_NEW(arena, trm_literal, 1);
  CHECK_MEMORY(literal, "a constant");
  if (!trm_shape_copy(arena, shape, &literal->shape)) FAIL_NO_MEMORY("a constant");
  literal->num_leaves = trm_shape_num_leaves(shape);
  literal->leaves = ARENA_NEW(arena, const void *, (size_t)literal->num_leaves);
  CHECK_MEMORY(literal->leaves, "a constant");
  for (int32_t i = 0; i < literal->num_leaves; ++i) {
    literal->leaves[i] = trm_arena_allocate(arena, 1, trm_shape_bytes(trm_shape_leaf(shape, i)));
    CHECK_MEMORY(literal->leaves[i], "a constant");
  }
  *out_literal = literal;
  return TRM_OK;
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* A float from which rounding to a half or bfloat16 gives what rounding the double would: the
 * last bit is set when anything was cut off. */
static float round_to_odd(double value) {
  float result = (float)value;
  if (isnan(value) || isinf(value) || (double)result == value) return result;
  uint32_t bits;
  memcpy(&bits, &result, sizeof bits);
  if (fabs((double)result) > fabs(value)) --bits;
  bits |= 1;
  memcpy(&result, &bits, sizeof result);
  return result;
}

static trm_status range_error(const trm_lexer *lexer, trm_dtype dtype) {
  return trm_lexer_fail(lexer, lexer->token, "the value %.*s does not fit %s",
                        SLICE_ARGS(lexer->token, lexer->length), trm_dtype_name(dtype));
}

static bool is_nan_text(const char *text, size_t length) {
  if (length > 0 && *text == '-') ++text, --length;
  return length == 3 && memcmp(text, "nan", 3) == 0;
}

/* Behind `nan`: a payload, as in nan(0x7fc00001), is read over when its bits fit the type. */
static trm_status read_payload(trm_lexer *lexer, trm_dtype dtype) {
  if (lexer->kind != '(' || lexer->token != lexer->previous) return TRM_OK;
  const unsigned bits = dtype == TRM_F16 ? 10 : dtype == TRM_BF16 ? 7
                        : dtype == TRM_F32 || dtype == TRM_C64 ? 23 : 52;
  char buffer[32], *end;
  trm_lexer_next(lexer);
  const size_t length = lexer->length;
  if (lexer->kind != TOKEN_NUMBER || length >= sizeof buffer || *lexer->token == '-') {
    return trm_lexer_unexpected(lexer, "the payload of a NaN, such as 0x1");
  }
  memcpy(buffer, lexer->token, length);
  buffer[length] = '\0';
  errno = 0;
  const uint64_t payload = strtoull(buffer, &end, 16);
  if (end != buffer + length || errno != 0) {
    return trm_lexer_unexpected(lexer, "the payload of a NaN, such as 0x1");
  }
  if (payload == 0 || payload >> bits != 0) {
    return trm_lexer_fail(lexer, lexer->token, "a NaN of %s has no payload %s",
                          trm_dtype_name(dtype), buffer);
  }
  trm_lexer_next(lexer);
  return trm_lexer_expect(lexer, ')', "')' behind a payload");
}

/* Consumes a number; *out_float is rounded from the text to float, *out_double to double. */
static trm_status read_real(trm_lexer *lexer, trm_dtype dtype, float *out_float,
                            double *out_double) {
  if (lexer->kind != TOKEN_NUMBER && !trm_lexer_is(lexer, "nan") && !trm_lexer_is(lexer, "inf")) {
    return trm_lexer_unexpected(lexer, "a number");
  }
  if (is_nan_text(lexer->token, lexer->length)) {
    *out_float = NAN, *out_double = (double)NAN;
    trm_lexer_next(lexer);
    return read_payload(lexer, dtype);
  }
  char buffer[MAX_NUMBER_LENGTH + 1];
  if (lexer->length > MAX_NUMBER_LENGTH) {
    return trm_lexer_fail(lexer, lexer->token, "a number of %zu characters", lexer->length);
  }
  memcpy(buffer, lexer->token, lexer->length);
  buffer[lexer->length] = '\0';
  char *end;
  if (dtype == TRM_F32 || dtype == TRM_C64) {
    *out_float = strtof(buffer, &end);
    *out_double = (double)*out_float;
  } else {
    *out_double = strtod(buffer, &end);
    *out_float = round_to_odd(*out_double);
  }
  const char *word = buffer + (*buffer == '-' || *buffer == '+');
  const bool infinite = strcmp(word, "inf") == 0;
  const bool is_word = *word != '\0' && strchr("inIN", *word) != NULL; /* as "infinity" */
  if (end != buffer + lexer->length || (is_word && !infinite)) {
    return trm_lexer_unexpected(lexer, "a number");
  }
  if (!infinite && isinf(*out_double)) return range_error(lexer, dtype);
  if (!infinite && dtype == TRM_F16 && isinf(trm_half_to_float(trm_float_to_half(*out_float)))) {
    return range_error(lexer, dtype);
  }
  if (!infinite && dtype == TRM_BF16 &&
      (isinf(*out_float) || isinf(trm_bfloat16_to_float(trm_float_to_bfloat16(*out_float))))) {
    return range_error(lexer, dtype);
  }
  trm_lexer_next(lexer);
  return TRM_OK;
}

static trm_status read_integer(trm_lexer *lexer, trm_dtype dtype, void *out) {
  if (lexer->kind != TOKEN_NUMBER || lexer->length > 40) {
    return trm_lexer_unexpected(lexer, "an integer");
  }
  const char *at = lexer->token, *end = at + lexer->length;
  const bool negative = *at == '-';
  if (*at == '-' || *at == '+') ++at;
  const bool is_signed =
      dtype == TRM_S8 || dtype == TRM_S16 || dtype == TRM_S32 || dtype == TRM_S64;
  const unsigned bits = (unsigned)trm_dtype_size(dtype) * 8;
  const uint64_t most = UINT64_MAX >> (64 - bits) >> (is_signed ? 1 : 0);
  uint64_t value = 0;
  if (at == end) return trm_lexer_unexpected(lexer, "an integer");
  for (; at < end; ++at) {
    if (*at < '0' || *at > '9') return trm_lexer_unexpected(lexer, "an integer");
    if (__builtin_mul_overflow(value, 10u, &value) ||
        __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
      return range_error(lexer, dtype);
    }
  }
  /* A negative u64 is what the same bits are as s64: XLA's readers take it so. */
  const bool wraps = dtype == TRM_U64 && value <= UINT64_C(1) << 63;
  if (value > most + (negative && is_signed ? 1 : 0) ||
      (negative && !is_signed && value != 0 && !wraps)) {
    return range_error(lexer, dtype);
  }
  if (negative) value = 0 - value;
  switch (bits) { /* the low bytes, whatever the machine's byte order */
    case 8: { const uint8_t v = (uint8_t)value; memcpy(out, &v, sizeof v); break; }
    case 16: { const uint16_t v = (uint16_t)value; memcpy(out, &v, sizeof v); break; }
    case 32: { const uint32_t v = (uint32_t)value; memcpy(out, &v, sizeof v); break; }
    default: memcpy(out, &value, sizeof value); break;
  }
  trm_lexer_next(lexer);
  return TRM_OK;
}

static trm_status read_complex(trm_lexer *lexer, trm_dtype dtype, void *out) {
  float narrow[2];
  double wide[2];
  TRY(trm_lexer_expect(lexer, '(', "'(' of a complex number"));
  TRY(read_real(lexer, dtype, &narrow[0], &wide[0]));
  TRY(trm_lexer_expect(lexer, ',', "','"));
  TRY(read_real(lexer, dtype, &narrow[1], &wide[1]));
  TRY(trm_lexer_expect(lexer, ')', "')'"));
  memcpy(out, dtype == TRM_C64 ? (void *)narrow : (void *)wide, trm_dtype_size(dtype));
  return TRM_OK;
}

static trm_status read_element(trm_lexer *lexer, trm_dtype dtype, void *out) {
  float narrow;
  double wide;
  uint16_t half;
  bool truth;
  switch (dtype) {
    case TRM_PRED:
      TRY(trm_lexer_boolean(lexer, &truth));
      *(uint8_t *)out = truth;
      return TRM_OK;
    case TRM_C64:
    case TRM_C128:
      return read_complex(lexer, dtype, out);
    case TRM_F16:
    case TRM_BF16:
      TRY(read_real(lexer, dtype, &narrow, &wide));
      half = dtype == TRM_F16 ? trm_float_to_half(narrow) : trm_float_to_bfloat16(narrow);
      memcpy(out, &half, sizeof half);
      return TRM_OK;
    case TRM_F32:
      TRY(read_real(lexer, dtype, &narrow, &wide));
      memcpy(out, &narrow, sizeof narrow);
      return TRM_OK;
    case TRM_F64:
      TRY(read_real(lexer, dtype, &narrow, &wide));
      memcpy(out, &wide, sizeof wide);
      return TRM_OK;
    default:
      return read_integer(lexer, dtype, out);
  }
}

static trm_status elided(const trm_lexer *lexer) {
  return trm_lexer_fail(lexer, lexer->token,
                        "the values of this constant were left out ('{...}') when the text was "
                        "written; write it with print_large_constants "
                        "(XLA_FLAGS=--xla_dump_large_constants), or use the serialised "
                        "HloModuleProto (--xla_dump_hlo_as_proto), which has them");
}

static trm_status wrong_count(const trm_lexer *lexer, const trm_shape *shape, int32_t dimension,
                              int64_t seen) {
  char text[256];
  return trm_lexer_fail(lexer, lexer->token,
                        "a constant of shape %s has %s%" PRId64 " values along dimension %d",
                        trm_shape_text(shape, text, sizeof text),
                        seen > shape->dims[dimension] ? "more than " : "only ",
                        seen > shape->dims[dimension] ? shape->dims[dimension] : seen, dimension);
}

static trm_status read_elements(trm_lexer *lexer, const trm_shape *shape, char *out) {
  const size_t size = trm_dtype_size(shape->dtype);
  const bool empty = trm_shape_count(shape) == 0;
  int64_t seen[TRM_MAX_RANK] = {0};
  int32_t depth = 0; /* of open braces */
  bool wants_comma = false;
  do {
    if (lexer->kind == TOKEN_DOTS) return elided(lexer);
    if (lexer->kind == '}' && depth > 0) {
      if (seen[depth - 1] != shape->dims[depth - 1] && !(empty && seen[depth - 1] == 0)) {
        return wrong_count(lexer, shape, depth - 1, seen[depth - 1]);
      }
      --depth;
      wants_comma = true;
      trm_lexer_next(lexer);
      continue;
    }
    if (wants_comma) {
      TRY(trm_lexer_expect(lexer, ',', "',' or '}'"));
      wants_comma = false;
      continue;
    }
    if (depth > 0 && ++seen[depth - 1] > shape->dims[depth - 1]) {
      return wrong_count(lexer, shape, depth - 1, seen[depth - 1]);
    }
    if (depth < shape->rank) {
      TRY(trm_lexer_expect(lexer, '{', "'{'"));
      seen[depth++] = 0;
    } else {
      TRY(read_element(lexer, shape->dtype, out));
      out += size;
      wants_comma = true;
    }
  } while (depth > 0);
  return TRM_OK;
}

static trm_status read_leaf(trm_lexer *lexer, trm_arena *arena, const trm_shape *shape,
                            const void **out_leaf) {
  trm_error *error = lexer->error;
  if (lexer->kind == TOKEN_IDENTIFIER && trm_lexer_peek(lexer) == '[') {
    /* The shape again, as old versions print it. */
    if (!trm_lexer_is(lexer, trm_dtype_name(shape->dtype))) {
      return trm_lexer_fail(lexer, lexer->token, "the values are %.*s, the constant is %s",
                            SLICE_ARGS(lexer->token, lexer->length), trm_dtype_name(shape->dtype));
    }
    TRY(trm_lexer_skip_value(lexer));
  }
  if (!trm_shape_is_array(shape)) {
    return trm_lexer_fail(lexer, lexer->token, "a constant cannot be of type %s",
                          trm_dtype_name(shape->dtype));
  }
  /* No more memory than the text that is there can fill: each value takes two characters. */
  if (shape->rank > 0 && trm_lexer_peek(lexer) == '.') {
    trm_lexer_next(lexer);
    return lexer->kind == TOKEN_DOTS ? elided(lexer) : trm_lexer_unexpected(lexer, "a value");
  }
  if (trm_shape_count(shape) > (int64_t)(lexer->end - lexer->token)) {
    char text[256];
    return trm_lexer_fail(lexer, lexer->token, "too few values for a constant of shape %s",
                          trm_shape_text(shape, text, sizeof text));
  }
  void *leaf = trm_arena_allocate(arena, 1, trm_shape_bytes(shape));
  CHECK_MEMORY(leaf, "a constant");
  *out_leaf = leaf;
  return read_elements(lexer, shape, leaf);
}

trm_status trm_literal_parse(trm_lexer *lexer, trm_arena *arena, const trm_shape *shape,
                             const trm_literal **out_literal) {
  trm_error *error = lexer->error;
  trm_literal *literal = ARENA_NEW(arena, trm_literal, 1);
  CHECK_MEMORY(literal, "a constant");
  literal->shape = *shape;
  literal->num_leaves = trm_shape_num_leaves(shape);
  literal->leaves = ARENA_NEW(arena, const void *, (size_t)literal->num_leaves);
  CHECK_MEMORY(literal->leaves, "a constant");
  const trm_shape *stack[MAX_DEPTH + 1];
  int32_t next[MAX_DEPTH + 1];
  int depth = 0;
  int32_t leaf = 0;
  stack[0] = shape, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *top = stack[depth];
    if (top->dtype != TRM_TUPLE) {
      const void *bytes = NULL;
      TRY(read_leaf(lexer, arena, top, &bytes));
      literal->leaves[leaf++] = bytes;
      --depth;
      continue;
    }
    if (next[depth] == 0) TRY(trm_lexer_expect(lexer, '(', "'(' of a tuple"));
    if (next[depth] == top->num_elements) {
      TRY(trm_lexer_expect(lexer, ')', "')' of a tuple"));
      --depth;
      continue;
    }
    if (next[depth] > 0) TRY(trm_lexer_expect(lexer, ',', "',' between the elements of a tuple"));
    if (depth == MAX_DEPTH) return trm_lexer_unexpected(lexer, "a tuple that is nested less deep");
    stack[depth + 1] = &top->elements[next[depth]++];
    next[++depth] = 0;
  }
  *out_literal = literal;
  return TRM_OK;
}

/* ---- Printing ------------------------------------------------------------------------------- */

static void print_real(trm_dtype dtype, double value, trm_text *out) {
  char buffer[64];
  if (isnan(value)) {
    trm_text_append(out, "nan", 3);
    return;
  }
  if (isinf(value)) {
    trm_text_format(out, "%s", value < 0 ? "-inf" : "inf");
    return;
  }
  /* The fewest digits that always suffice to tell a short decimal, then as many as it takes. */
  const int first = dtype == TRM_F64 ? 15 : dtype == TRM_F32 ? 6 : dtype == TRM_F16 ? 3 : 2;
  const int last = dtype == TRM_F64 ? 17 : dtype == TRM_F32 ? 9 : dtype == TRM_F16 ? 5 : 4;
  for (int digits = first; digits <= last; ++digits) {
    snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    double back;
    if (dtype == TRM_F32) {
      back = (double)strtof(buffer, NULL);
    } else {
      back = strtod(buffer, NULL);
      if (dtype == TRM_F16) back = (double)trm_half_to_float(trm_float_to_half(round_to_odd(back)));
      if (dtype == TRM_BF16) {
        back = (double)trm_bfloat16_to_float(trm_float_to_bfloat16(round_to_odd(back)));
      }
    }
    if (back == value) break;
  }
  trm_text_append(out, buffer, strlen(buffer));
}

static int64_t read_signed(trm_dtype dtype, const void *element) {
  switch (dtype) {
    case TRM_S8: { int8_t v; memcpy(&v, element, sizeof v); return v; }
    case TRM_S16: { int16_t v; memcpy(&v, element, sizeof v); return v; }
    case TRM_S32: { int32_t v; memcpy(&v, element, sizeof v); return v; }
    default: { int64_t v; memcpy(&v, element, sizeof v); return v; }
  }
}

static uint64_t read_unsigned(trm_dtype dtype, const void *element) {
  switch (dtype) {
    case TRM_U8: { uint8_t v; memcpy(&v, element, sizeof v); return v; }
    case TRM_U16: { uint16_t v; memcpy(&v, element, sizeof v); return v; }
    case TRM_U32: { uint32_t v; memcpy(&v, element, sizeof v); return v; }
    default: { uint64_t v; memcpy(&v, element, sizeof v); return v; }
  }
}

void trm_literal_print_element(trm_dtype dtype, const void *element, trm_text *out_text) {
  float narrow[2];
  double wide[2];
  uint16_t half;
  switch (dtype) {
    case TRM_PRED:
      trm_text_format(out_text, "%s", *(const uint8_t *)element != 0 ? "true" : "false");
      break;
    case TRM_F16:
      memcpy(&half, element, sizeof half);
      print_real(dtype, (double)trm_half_to_float(half), out_text);
      break;
    case TRM_BF16:
      memcpy(&half, element, sizeof half);
      print_real(dtype, (double)trm_bfloat16_to_float(half), out_text);
      break;
    case TRM_F32:
      memcpy(narrow, element, sizeof *narrow);
      print_real(dtype, (double)narrow[0], out_text);
      break;
    case TRM_F64:
      memcpy(wide, element, sizeof *wide);
      print_real(dtype, wide[0], out_text);
      break;
    case TRM_C64:
    case TRM_C128:
      if (dtype == TRM_C64) {
        memcpy(narrow, element, sizeof narrow);
        wide[0] = (double)narrow[0], wide[1] = (double)narrow[1];
      } else {
        memcpy(wide, element, sizeof wide);
      }
      trm_text_append(out_text, "(", 1);
      print_real(dtype == TRM_C64 ? TRM_F32 : TRM_F64, wide[0], out_text);
      trm_text_append(out_text, ", ", 2);
      print_real(dtype == TRM_C64 ? TRM_F32 : TRM_F64, wide[1], out_text);
      trm_text_append(out_text, ")", 1);
      break;
    case TRM_S8:
    case TRM_S16:
    case TRM_S32:
    case TRM_S64:
      trm_text_format(out_text, "%" PRId64, read_signed(dtype, element));
      break;
    default:
      trm_text_format(out_text, "%" PRIu64, read_unsigned(dtype, element));
      break;
  }
}

static void print_leaf(const trm_shape *shape, const char *data, trm_text *out) {
  const int64_t count = trm_shape_count(shape);
  const size_t size = trm_dtype_size(shape->dtype);
  if (shape->rank == 0) {
    trm_literal_print_element(shape->dtype, data, out);
    return;
  }
  if (count == 0) {
    trm_text_append(out, "{}", 2);
    return;
  }
  int64_t index[TRM_MAX_RANK] = {0};
  int32_t opened = 0; /* braces that are open */
  for (int64_t i = 0; i < count; ++i, data += size) {
    if (i > 0) trm_text_append(out, ", ", 2);
    for (; opened < shape->rank; ++opened) {
      trm_text_append(out, "{ ", shape->rank > 1 ? 2 : 1); /* as XLA spaces them */
    }
    if (shape->dtype == TRM_PRED) {
      trm_text_append(out, *data != 0 ? "1" : "0", 1);
    } else {
      trm_literal_print_element(shape->dtype, data, out);
    }
    for (int32_t d = shape->rank - 1; d >= 0 && ++index[d] == shape->dims[d]; --d) {
      index[d] = 0;
      --opened;
      if (shape->rank > 1) trm_text_append(out, " ", 1);
      trm_text_append(out, "}", 1);
    }
  }
}

void trm_literal_print(const trm_literal *literal, trm_text *out_text) {
  const trm_shape *stack[MAX_DEPTH + 1];
  int32_t next[MAX_DEPTH + 1];
  int depth = 0;
  int32_t leaf = 0;
  stack[0] = &literal->shape, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *top = stack[depth];
    if (top->dtype != TRM_TUPLE || depth == MAX_DEPTH) {
      if (trm_shape_is_array(top)) print_leaf(top, literal->leaves[leaf++], out_text);
      --depth;
      continue;
    }
    if (next[depth] == 0) trm_text_append(out_text, "(", 1);
    if (next[depth] == top->num_elements) {
      trm_text_append(out_text, ")", 1);
      --depth;
      continue;
    }
    if (next[depth] > 0) trm_text_append(out_text, ", ", 2);
    stack[depth + 1] = &top->elements[next[depth]++];
    next[++depth] = 0;
  }
}
