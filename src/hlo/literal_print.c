/* Owns: printing constants, so that reading the text gives the same bytes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/small_float.h"
#include "hlo/literal.h"

/* A NaN of a type whose fraction is `width` bits: the quiet one of no payload is just "nan". */
static void print_nan(uint64_t bits, int width, bool negative, trm_text *out) {
  const uint64_t payload = bits & ((UINT64_C(1) << width) - 1);
  trm_text_format(out, "%snan", negative ? "-" : "");
  if (payload != UINT64_C(1) << (width - 1)) trm_text_format(out, "(0x%" PRIx64 ")", payload);
}

static void print_real(trm_dtype dtype, double value, trm_text *out) {
  char buffer[64];
  if (isinf(value)) {
    trm_text_format(out, "%s", value < 0 ? "-inf" : "inf");
    return;
  }
  /* The fewest digits that always suffice to tell a short decimal, then as many as it takes. */
  const bool is_small = trm_dtype_is_small_float(dtype);
  const int first = dtype == TRM_F64               ? 15
                    : dtype == TRM_F32 || is_small ? 6
                    : dtype == TRM_F16             ? 3
                                                   : 2;
  const int last = dtype == TRM_F64               ? 17
                   : dtype == TRM_F32 || is_small ? 9
                   : dtype == TRM_F16             ? 5
                                                  : 4;
  for (int digits = first; digits <= last; ++digits) {
    snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    double back;
    if (dtype == TRM_F32) {
      back = (double)strtof(buffer, NULL);
    } else {
      back = strtod(buffer, NULL);
      if (dtype == TRM_F16)
        back = (double)trm_half_to_float(trm_float_to_half(trm_literal_round_to_odd(back)));
      if (dtype == TRM_BF16) {
        back = (double)trm_bfloat16_to_float(trm_float_to_bfloat16(trm_literal_round_to_odd(back)));
      }
      if (is_small) back = trm_small_float_decode(dtype, trm_small_float_encode(dtype, back));
    }
    if (back == value) break;
  }
  trm_text_append(out, buffer, strlen(buffer));
}

static void print_integer(trm_dtype dtype, const void *element, trm_text *out) {
  const int unused = 64 - trm_dtype_bits(dtype);
  uint64_t bits = 0;
  memcpy(&bits, element, trm_dtype_size(dtype)); /* the least byte comes first */
  bits <<= unused;
  if (trm_dtype_kind(dtype) == TRM_KIND_SIGNED) {
    trm_text_format(out, "%" PRId64, (int64_t)bits >> unused);
  } else {
    trm_text_format(out, "%" PRIu64, bits >> unused);
  }
}

static void print_float(float value, trm_text *out) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (isnan(value)) {
    print_nan(bits, 23, signbit(value) != 0, out);
  } else {
    print_real(TRM_F32, (double)value, out);
  }
}

static void print_double(double value, trm_text *out) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (isnan(value)) {
    print_nan(bits, 52, signbit(value) != 0, out);
  } else {
    print_real(TRM_F64, value, out);
  }
}

static void print_half(trm_dtype dtype, uint16_t half, trm_text *out) {
  const float value = dtype == TRM_F16 ? trm_half_to_float(half) : trm_bfloat16_to_float(half);
  if (isnan(value)) {
    print_nan(half, trm_literal_fraction_bits(dtype), half >> 15 != 0, out);
  } else {
    print_real(dtype, (double)value, out);
  }
}

static void print_small(trm_dtype dtype, uint8_t bits, trm_text *out) {
  const double value = trm_small_float_decode(dtype, bits);
  if (isnan(value)) {
    trm_text_format(out, "%snan", signbit(value) ? "-" : "");
  } else {
    print_real(dtype, value, out);
  }
}

void trm_literal_print_element(trm_dtype dtype, const void *element, trm_text *out_text) {
  float narrow;
  double wide;
  uint16_t half;
  if (trm_dtype_is_small_float(dtype)) {
    print_small(dtype, *(const uint8_t *)element, out_text);
    return;
  }
  switch (dtype) {
    case TRM_PRED:
      trm_text_format(out_text, "%s", *(const uint8_t *)element != 0 ? "true" : "false");
      break;
    case TRM_F16:
    case TRM_BF16:
      memcpy(&half, element, sizeof half);
      print_half(dtype, half, out_text);
      break;
    case TRM_F32:
      memcpy(&narrow, element, sizeof narrow);
      print_float(narrow, out_text);
      break;
    case TRM_F64:
      memcpy(&wide, element, sizeof wide);
      print_double(wide, out_text);
      break;
    case TRM_C64:
    case TRM_C128: {
      const trm_dtype part = dtype == TRM_C64 ? TRM_F32 : TRM_F64;
      trm_text_append(out_text, "(", 1);
      trm_literal_print_element(part, element, out_text);
      trm_text_append(out_text, ", ", 2);
      trm_literal_print_element(part, (const char *)element + trm_dtype_size(part), out_text);
      trm_text_append(out_text, ")", 1);
      break;
    }
    default: print_integer(dtype, element, out_text); break;
  }
}

const char *trm_element_text(trm_dtype dtype, const void *element, char *buffer, size_t size) {
  trm_text text = {0};
  if (trm_dtype_size(dtype) > 0) trm_literal_print_element(dtype, element, &text);
  snprintf(buffer, size, "%s", text.data != NULL ? text.data : "?");
  trm_text_free(&text);
  return buffer;
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
  const trm_shape *stack[TRM_LITERAL_MAX_DEPTH + 1];
  int32_t next[TRM_LITERAL_MAX_DEPTH + 1];
  int depth = 0;
  int32_t leaf = 0;
  stack[0] = &literal->shape, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *top = stack[depth];
    if (top->dtype != TRM_TUPLE || depth == TRM_LITERAL_MAX_DEPTH) {
      if (trm_shape_is_array(top)) {
        if (literal->elided != NULL && literal->elided[leaf]) {
          trm_text_append(out_text, "{...}", 5);
        } else {
          print_leaf(top, literal->leaves[leaf], out_text);
        }
        ++leaf;
      }
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
