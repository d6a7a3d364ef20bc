/* Owns: constants, and reading their text (literal_print.c prints it). Decimal text is rounded
 * once, to the constant's type. */
#include "hlo/literal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/small_float.h"
#include "tremula/log.h"

enum { MAX_NUMBER_LENGTH = 1100, MAX_ELIDED_BYTES = 1 << 30 };

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

/* A float whose rounding to a half or bfloat16 equals that of the double: its last bit is set when
 * anything was cut off. */
float trm_literal_round_to_odd(double value) {
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

/* Bits of a NaN's payload, of a complex number's parts too; 0 where all NaNs are one. */
int trm_literal_fraction_bits(trm_dtype dtype) {
  switch (dtype) {
    case TRM_F16: return 10;
    case TRM_BF16: return 7;
    case TRM_F32:
    case TRM_C64: return 23;
    case TRM_F64:
    case TRM_C128: return 52;
    default: /* only those with infinities have NaNs that differ */
      return isinf(trm_small_float_decode(dtype, trm_small_float_encode(dtype, (double)INFINITY)))
                 ? trm_small_float_mantissa_bits(dtype)
                 : 0;
  }
}

/* Behind `nan`: a payload, as in nan(0x7fc01), whose bits must fit the type. *out_payload is for
 * the fraction of a double. */
static trm_status read_payload(trm_lexer *lexer, trm_dtype dtype, uint64_t *out_payload) {
  *out_payload = UINT64_C(1) << 51;
  if (lexer->kind != '(' || lexer->token != lexer->previous) return TRM_OK;
  const int bits = trm_literal_fraction_bits(dtype);
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
  *out_payload = payload << (52 - bits);
  trm_lexer_next(lexer);
  return trm_lexer_expect(lexer, ')', "')' behind a payload");
}

/* `nan` and `-nan`, with the bits that they name: conversions would quieten a signalling one. */
static trm_status read_nan(trm_lexer *lexer, trm_dtype dtype, float *out_float,
                           double *out_double) {
  uint64_t payload;
  const uint64_t negative = *lexer->token == '-';
  trm_lexer_next(lexer);
  TRY(read_payload(lexer, dtype, &payload));
  const uint64_t wide = negative << 63 | UINT64_C(0x7ff) << 52 | payload;
  const uint32_t narrow = (uint32_t)(negative << 31 | UINT32_C(0xff) << 23 | payload >> 29);
  memcpy(out_double, &wide, sizeof wide);
  memcpy(out_float, &narrow, sizeof narrow);
  return TRM_OK;
}

/* Consumes a number; *out_float is rounded from the text to float, *out_double to double. */
static trm_status read_real(trm_lexer *lexer, trm_dtype dtype, float *out_float,
                            double *out_double) {
  if (lexer->kind != TOKEN_NUMBER && !trm_lexer_is(lexer, "nan") && !trm_lexer_is(lexer, "inf")) {
    return trm_lexer_unexpected(lexer, "a number");
  }
  if (is_nan_text(lexer->token, lexer->length)) {
    return read_nan(lexer, dtype, out_float, out_double);
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
    *out_float = trm_literal_round_to_odd(*out_double);
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
  if (!infinite && trm_dtype_is_small_float(dtype)) {
    const double nearest =
        trm_small_float_decode(dtype, trm_small_float_encode(dtype, *out_double));
    if (!isfinite(nearest)) return range_error(lexer, dtype);
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
  const bool is_signed = trm_dtype_kind(dtype) == TRM_KIND_SIGNED;
  const unsigned bits = (unsigned)trm_dtype_bits(dtype);
  const uint64_t mask = UINT64_MAX >> (64 - bits), most = mask >> (is_signed ? 1 : 0);
  uint64_t value = 0;
  if (at == end) return trm_lexer_unexpected(lexer, "an integer");
  for (; at < end; ++at) {
    if (*at < '0' || *at > '9') return trm_lexer_unexpected(lexer, "an integer");
    if (__builtin_mul_overflow(value, 10u, &value) ||
        __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
      return range_error(lexer, dtype);
    }
  }
  /* A negative u64 has the bits of that s64, as in XLA's readers. */
  const bool wraps = dtype == TRM_U64 && value <= UINT64_C(1) << 63;
  if (value > most + (negative && is_signed ? 1 : 0) ||
      (negative && !is_signed && value != 0 && !wraps)) {
    return range_error(lexer, dtype);
  }
  if (negative) value = 0 - value;
  switch (bits) { /* the low bytes, whatever the machine's byte order */
    case 1:
    case 2:
    case 4:
    case 8: {
      const uint8_t v = (uint8_t)(value & mask);
      memcpy(out, &v, sizeof v);
      break;
    }
    case 16: {
      const uint16_t v = (uint16_t)value;
      memcpy(out, &v, sizeof v);
      break;
    }
    case 32: {
      const uint32_t v = (uint32_t)value;
      memcpy(out, &v, sizeof v);
      break;
    }
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

/* A float as a half or bfloat16; a NaN keeps its sign and payload. */
static uint16_t half_bits(trm_dtype dtype, float value) {
  if (!isnan(value)) {
    return dtype == TRM_F16 ? trm_float_to_half(value) : trm_float_to_bfloat16(value);
  }
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (dtype == TRM_BF16) return (uint16_t)(bits >> 16);
  return (uint16_t)((bits >> 16 & 0x8000u) | 0x7c00u | (bits >> 13 & 0x3ffu));
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
    case TRM_C128: return read_complex(lexer, dtype, out);
    case TRM_F16:
    case TRM_BF16:
      TRY(read_real(lexer, dtype, &narrow, &wide));
      half = half_bits(dtype, narrow);
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
    case TRM_F8E5M2:
    case TRM_F8E4M3FN:
    case TRM_F8E4M3B11FNUZ:
    case TRM_F8E5M2FNUZ:
    case TRM_F8E4M3FNUZ:
    case TRM_F8E4M3:
    case TRM_F8E3M4:
    case TRM_F4E2M1FN:
    case TRM_F8E8M0FNU:
      TRY(read_real(lexer, dtype, &narrow, &wide));
      *(uint8_t *)out = trm_small_float_encode(dtype, wide);
      return TRM_OK;
    default: return read_integer(lexer, dtype, out);
  }
}

/* Values in the place of those that were left out: random, the same for the same text, and other
 * ones for each constant, so that none is taken for equal to another. */
static void fill_elided(const trm_shape *shape, uint64_t seed, uint8_t *out) {
  const size_t size = trm_dtype_size(shape->dtype);
  const int64_t count = trm_shape_count(shape);
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (int64_t i = 0; i < count; ++i, out += size) {
    float parts[2];
    double wide[2];
    for (int k = 0; k < 2; ++k) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      wide[k] = (double)(state >> 40) * 0x1p-24 - 0.5;
      parts[k] = (float)wide[k];
    }
    switch (shape->dtype) {
      case TRM_F32: memcpy(out, parts, 4); break;
      case TRM_C64: memcpy(out, parts, 8); break;
      case TRM_F64: memcpy(out, wide, 8); break;
      case TRM_C128: memcpy(out, wide, 16); break;
      case TRM_F16:
      case TRM_BF16: {
        const uint16_t half = half_bits(shape->dtype, parts[0]);
        memcpy(out, &half, sizeof half);
        break;
      }
      default: /* 0 or 1, little-endian; the rest of the element is zeroed */
        *out = trm_dtype_is_small_float(shape->dtype)
                   ? trm_small_float_encode(shape->dtype, wide[0])
                   : (uint8_t)(state >> 63);
    }
  }
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

/* At `{...}`: how texts are printed that leave large constants out, and all tuples. */
static bool is_elided(const trm_lexer *lexer) {
  return lexer->kind == '{' && trm_lexer_peek(lexer) == '.';
}

static trm_status skip_dots(trm_lexer *lexer) {
  trm_lexer_next(lexer);
  if (lexer->kind != TOKEN_DOTS) return trm_lexer_unexpected(lexer, "a value");
  trm_lexer_next(lexer);
  return trm_lexer_expect(lexer, '}', "'}' behind '...'");
}

/* Values for a leaf that the text at `where` leaves out. */
static trm_status make_up(const trm_lexer *lexer, const char *where, int32_t leaf, trm_arena *arena,
                          const trm_shape *shape, const void **out_leaf) {
  trm_error *error = lexer->error;
  if (trm_shape_bytes(shape) > MAX_ELIDED_BYTES || arena->total > MAX_ELIDED_BYTES) {
    return trm_lexer_fail(lexer, where,
                          "the values of this constant were left out ('{...}') when the text was "
                          "written, and others that could stand for them would take more than 1 "
                          "GiB; use the serialised HloModuleProto, which has them");
  }
  void *bytes = trm_arena_allocate(arena, 1, trm_shape_bytes(shape));
  CHECK_MEMORY(bytes, "a constant");
  fill_elided(shape, (uint64_t)(where - lexer->begin) + ((uint64_t)leaf << 32), bytes);
  *out_leaf = bytes;
  return TRM_OK;
}

/* A delimiter of a tuple's elements; `hidden`: the text leaves out the whole tuple. */
static trm_status expect_of_tuple(trm_lexer *lexer, const char *hidden, int kind,
                                  const char *what) {
  return hidden != NULL ? TRM_OK : trm_lexer_expect(lexer, kind, what);
}

/* `f32[4] constant(0)`, one value for an array: as XLA reads it, the first element; the others are
 * 0. */
static trm_status read_first(trm_lexer *lexer, trm_arena *arena, const trm_shape *shape,
                             const void **out_leaf) {
  trm_error *error = lexer->error;
  char text[160];
  const char *where = lexer->token;
  const size_t length = lexer->length;
  if (trm_shape_bytes(shape) > MAX_ELIDED_BYTES || arena->total > MAX_ELIDED_BYTES) {
    return trm_lexer_fail(lexer, where, "one value for a constant of shape %s",
                          trm_shape_text(shape, text, sizeof text));
  }
  char *leaf = trm_arena_allocate(arena, 1, trm_shape_bytes(shape));
  CHECK_MEMORY(leaf, "a constant");
  *out_leaf = leaf;
  if (trm_shape_count(shape) == 0) return trm_lexer_skip_value(lexer);
  TRY(read_element(lexer, shape->dtype, leaf));
  const size_t size = trm_dtype_size(shape->dtype);
  bool is_zero = true;
  for (size_t i = 0; i < size; ++i) is_zero = is_zero && leaf[i] == 0;
  if (!is_zero && trm_shape_count(shape) > 1) {
    trm_log(TRM_LOG_WARN, "COMPILER",
            "A constant of shape %s has the one value %.*s in the text: as in XLA, that is its "
            "first element, and the others are 0. Write a broadcast of a scalar for an array of "
            "equal values",
            trm_shape_text(shape, text, sizeof text), SLICE_ARGS(where, length));
  }
  return TRM_OK;
}

/* `hidden`: where the text leaves out the tuple around the leaf, or NULL. */
static trm_status read_leaf(trm_lexer *lexer, trm_arena *arena, const trm_shape *shape,
                            const char *hidden, int32_t leaf_index, const void **out_leaf,
                            bool *out_elided) {
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
  if (hidden != NULL || is_elided(lexer)) {
    const char *where = hidden != NULL ? hidden : lexer->token;
    *out_elided = true;
    if (hidden == NULL) TRY(skip_dots(lexer));
    return make_up(lexer, where, leaf_index, arena, shape, out_leaf);
  }
  if (shape->rank > 0 && lexer->kind != '{') return read_first(lexer, arena, shape, out_leaf);
  /* No more memory than the text that is there can fill: each value takes two characters. */
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
  const trm_shape *stack[TRM_LITERAL_MAX_DEPTH + 1];
  int32_t next[TRM_LITERAL_MAX_DEPTH + 1];
  int depth = 0;
  int32_t leaf = 0;
  bool *elided = NULL;
  const char *hidden = shape->dtype == TRM_TUPLE && is_elided(lexer) ? lexer->token : NULL;
  if (hidden != NULL) TRY(skip_dots(lexer));
  stack[0] = shape, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *top = stack[depth];
    if (top->dtype != TRM_TUPLE) {
      const void *bytes = NULL;
      bool left_out = false;
      TRY(read_leaf(lexer, arena, top, hidden, leaf, &bytes, &left_out));
      if (left_out && elided == NULL) {
        elided = ARENA_NEW(arena, bool, (size_t)literal->num_leaves);
        CHECK_MEMORY(elided, "a constant");
        literal->elided = elided;
      }
      if (left_out) elided[leaf] = true;
      literal->leaves[leaf++] = bytes;
      --depth;
      continue;
    }
    if (next[depth] == 0) TRY(expect_of_tuple(lexer, hidden, '(', "'(' of a tuple"));
    if (next[depth] == top->num_elements) {
      TRY(expect_of_tuple(lexer, hidden, ')', "')' of a tuple"));
      --depth;
      continue;
    }
    if (next[depth] > 0) {
      TRY(expect_of_tuple(lexer, hidden, ',', "',' between the elements of a tuple"));
    }
    if (depth == TRM_LITERAL_MAX_DEPTH)
      return trm_lexer_unexpected(lexer, "a tuple that is nested less deep");
    stack[depth + 1] = &top->elements[next[depth]++];
    next[++depth] = 0;
  }
  *out_literal = literal;
  return TRM_OK;
}
