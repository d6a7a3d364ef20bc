/* Owns: printing arrays as text, like NumPy. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum {
  MOST_ELEMENTS = 1000, /* most elements of an array that is printed completely */
  EDGE = 3,             /* elements at each end of a dimension of a larger array */
  LINE = 79,
  ELEMENT_SIZE = 96
};

static float half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const float mantissa = (float)(bits & 1023);
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * ldexpf(mantissa, -24);
  return sign * ldexpf(mantissa + 1024, exponent - 25);
}

/* Writes a number with these digits, like NumPy: without an exponent if that is short, and with a
 * point, as in "3.", because "3" is an integer. */
static void show_digits(char *buffer, double value, int digits) {
  const double size = fabs(value);
  if (size >= 1e-4 && size < 1e16) {
    const int before = (int)floor(log10(size)) + 1;
    snprintf(buffer, ELEMENT_SIZE, "%.*f", digits > before ? digits - before : 0, value);
  } else {
    snprintf(buffer, ELEMENT_SIZE, "%.*g", digits, value);
  }
  if (isfinite(value) && strpbrk(buffer, ".e") == NULL) strcat(buffer, ".");
}

/* Writes a number with the fewest digits, at most `most`, that are within `tolerance` of it. */
static void show_double(char *buffer, double value, int most, double tolerance) {
  int digits = 1;
  for (; digits < most; ++digits) {
    snprintf(buffer, ELEMENT_SIZE, "%.*g", digits, value);
    if (fabs(strtod(buffer, NULL) - value) <= tolerance * fabs(value)) break;
  }
  show_digits(buffer, value, digits);
}

static void show_float(char *buffer, float value) {
  int digits = 1;
  for (; digits < 9; ++digits) {
    snprintf(buffer, ELEMENT_SIZE, "%.*g", digits, (double)value);
    if (strtof(buffer, NULL) == value) break;
  }
  show_digits(buffer, (double)value, digits);
}

static void show_complex(char *buffer, double real, double imaginary) {
  char i[ELEMENT_SIZE], r[ELEMENT_SIZE];
  show_double(r, real, 9, 1e-9);
  show_double(i, imaginary, 9, 1e-9);
  snprintf(buffer, ELEMENT_SIZE, "%.40s%s%.40sj", r, i[0] == '-' ? "" : "+", i);
}

static void show_element(char *buffer, trm_dtype dtype, const char *at) {
#define LOAD(type) \
  type value;      \
  memcpy(&value, at, sizeof value)
#define SHOW_INTEGER(id, type, format)                 \
  case TRM_##id: {                                     \
    LOAD(type);                                        \
    snprintf(buffer, ELEMENT_SIZE, "%" format, value); \
    return;                                            \
  }
  switch (dtype) {
    SHOW_INTEGER(S8, int8_t, PRId8)
    SHOW_INTEGER(S16, int16_t, PRId16)
    SHOW_INTEGER(S32, int32_t, PRId32)
    SHOW_INTEGER(S64, int64_t, PRId64)
    SHOW_INTEGER(U8, uint8_t, PRIu8)
    SHOW_INTEGER(U16, uint16_t, PRIu16)
    SHOW_INTEGER(U32, uint32_t, PRIu32)
    SHOW_INTEGER(U64, uint64_t, PRIu64)
    case TRM_PRED: snprintf(buffer, ELEMENT_SIZE, "%s", *at ? "True" : "False"); return;
    case TRM_F16: {
      LOAD(uint16_t);
      /* Half of the last of 11 bits, like NumPy. */
      show_double(buffer, (double)half_value(value), 5, 0x1p-12);
      return;
    }
    case TRM_BF16: {
      LOAD(uint16_t);
      const uint32_t bits = (uint32_t)value << 16;
      float wide;
      memcpy(&wide, &bits, sizeof wide);
      show_double(buffer, (double)wide, 4, 0x1p-9);
      return;
    }
    case TRM_F32: {
      LOAD(float);
      show_float(buffer, value);
      return;
    }
    case TRM_F64: {
      LOAD(double);
      show_double(buffer, value, 17, 0);
      return;
    }
    case TRM_C64: {
      LOAD(struct {
        float r;
        float i;
      });
      show_complex(buffer, (double)value.r, (double)value.i);
      return;
    }
    case TRM_C128: {
      LOAD(struct {
        double r;
        double i;
      });
      show_complex(buffer, value.r, value.i);
      return;
    }
    default: trm_element_text(dtype, at, buffer, ELEMENT_SIZE); return;
  }
#undef SHOW_INTEGER
#undef LOAD
}

/* A walk over the printed elements: in each dimension all, or the first and last EDGE. */
typedef struct walk {
  const npy_array *array;
  size_t element_bytes, strides[NPY_MAX_RANK];
  bool elided;
  int64_t index[NPY_MAX_RANK];
} walk;

static void walk_start(walk *w, const npy_array *array) {
  *w = (walk){.array = array, .element_bytes = trm_dtype_size(array->dtype)};
  size_t stride = w->element_bytes;
  for (int32_t d = array->rank - 1; d >= 0; --d) {
    w->strides[d] = stride;
    stride *= (size_t)array->dims[d];
  }
  w->elided = array->bytes / w->element_bytes > MOST_ELEMENTS;
}

static const char *walk_at(const walk *w) {
  const char *at = w->array->data;
  for (int32_t d = 0; d < w->array->rank; ++d) at += w->strides[d] * (size_t)w->index[d];
  return at;
}

static bool skips(const walk *w, int32_t d) { return w->elided && w->array->dims[d] > 2 * EDGE; }

/* Goes to the next element; false at the end. *out_dimension: the dimension that changed; *out_gap:
 * elements were left out. */
static bool walk_step(walk *w, int32_t *out_dimension, bool *out_gap) {
  for (int32_t d = w->array->rank - 1; d >= 0; --d) {
    ++w->index[d];
    *out_gap = skips(w, d) && w->index[d] == EDGE;
    if (*out_gap) w->index[d] = w->array->dims[d] - EDGE;
    if (w->index[d] < w->array->dims[d]) {
      *out_dimension = d;
      return true;
    }
    w->index[d] = 0;
  }
  return false;
}

static void repeat(FILE *out, char c, int32_t times) {
  for (int32_t i = 0; i < times; ++i) fputc(c, out);
}

/* Ends the line, separates larger blocks by blank lines, and indents the next line. */
static void break_line(FILE *out, int32_t rank, int32_t depth) {
  repeat(out, '\n', rank - depth);
  repeat(out, ' ', depth);
}

void show_array(FILE *out, const npy_array *array) {
  const int32_t rank = array->rank;
  char text[ELEMENT_SIZE];
  if (array->bytes == 0) {
    fprintf(out, "[]\n");
    return;
  }
  if (rank == 0) {
    show_element(text, array->dtype, array->data);
    fprintf(out, "%s\n", text);
    return;
  }
  walk w;
  int32_t moved;
  bool gap;
  int width = 0;
  walk_start(&w, array);
  do {
    show_element(text, array->dtype, walk_at(&w));
    const int length = (int)strlen(text);
    if (length > width) width = length;
  } while (walk_step(&w, &moved, &gap));

  walk_start(&w, array);
  repeat(out, '[', rank);
  int column = rank;
  for (;;) {
    show_element(text, array->dtype, walk_at(&w));
    column += fprintf(out, "%*s", width, text);
    if (!walk_step(&w, &moved, &gap)) break;
    if (moved < rank - 1) {
      const int32_t closed = rank - 1 - moved;
      repeat(out, ']', closed);
      break_line(out, rank, moved + 1);
      if (gap) {
        fputs("...", out);
        break_line(out, rank, moved + 1);
      }
      repeat(out, '[', closed);
      column = rank;
      continue;
    }
    if (gap) column += fprintf(out, " ...");
    if (column + 1 + width > LINE) {
      fputc('\n', out);
      repeat(out, ' ', rank);
      column = rank;
    } else {
      column += fprintf(out, " ");
    }
  }
  repeat(out, ']', rank);
  fputc('\n', out);
}
