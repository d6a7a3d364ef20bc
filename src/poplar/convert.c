/* Owns: numbers of one type as another: constants, and values of fields. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "poplar/graph.h"

#define EACH_INTEGER(X) \
  X(PRED, uint8_t)      \
  X(S8, int8_t)         \
  X(S16, int16_t)       \
  X(S32, int32_t)       \
  X(S64, int64_t)       \
  X(U8, uint8_t)        \
  X(U16, uint16_t)      \
  X(U32, uint32_t)      \
  X(U64, uint64_t)

static bool is_float(int32_t dtype) {
  return dtype == TRM_F16 || dtype == TRM_F32 || dtype == TRM_F64;
}

/* An element of an integer type; unsigned ones of 64 bits keep their bits. */
static int64_t integer_of(int32_t dtype, const void *data, uint64_t element) {
  switch (dtype) {
#define CASE(id, type) \
  case TRM_##id: return (int64_t)((const type *)data)[element];
    EACH_INTEGER(CASE)
#undef CASE
    default: return 0;
  }
}

double trm_poplar_number(int32_t dtype, const void *data, uint64_t element) {
  switch (dtype) {
    case TRM_F16: return (double)trm_half_to_float(((const uint16_t *)data)[element]);
    case TRM_F32: return (double)((const float *)data)[element];
    case TRM_F64: return ((const double *)data)[element];
    case TRM_U64: return (double)((const uint64_t *)data)[element];
    default: return (double)integer_of(dtype, data, element);
  }
}

static void write_integer(int32_t dtype, void *data, uint64_t element, int64_t value) {
  if (dtype == TRM_PRED) value = value != 0;
  switch (dtype) {
#define CASE(id, type) \
  case TRM_##id: ((type *)data)[element] = (type)value; break;
    EACH_INTEGER(CASE)
#undef CASE
    default: break;
  }
}

/* A real number as an integer: towards zero; what no int64 holds becomes 0. */
static int64_t truncated(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : 0;
}

static void write_real(int32_t dtype, void *data, uint64_t element, double value) {
  switch (dtype) {
    case TRM_F16: ((uint16_t *)data)[element] = trm_float_to_half((float)value); break;
    case TRM_F32: ((float *)data)[element] = (float)value; break;
    case TRM_F64: ((double *)data)[element] = value; break;
    case TRM_PRED: ((uint8_t *)data)[element] = value != 0; break;
    default: write_integer(dtype, data, element, truncated(value));
  }
}

trm_status trm_poplar_convert(int32_t to, void *target, uint64_t count, int32_t from,
                              const void *source, uint64_t from_count, trm_poplar_error *error) {
  const size_t size = trm_dtype_size((trm_dtype)to);
  if (size == 0 || trm_dtype_size((trm_dtype)from) == 0) {
    THROW(TYPE, "numbers of type %s cannot be made of %s", trm_dtype_name((trm_dtype)to),
          trm_dtype_name((trm_dtype)from));
  }
  if (from_count != count && from_count != 1) {
    THROW_POPLAR("%llu values were given for %llu elements", (unsigned long long)from_count,
                 (unsigned long long)count);
  }
  if (to == from && from_count == count) {
    if (count > 0) memcpy(target, source, (size_t)count * size);
    return TRM_OK;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t e = from_count == 1 ? 0 : i;
    if (is_float(from) || is_float(to)) {
      write_real(to, target, i, trm_poplar_number(from, source, e));
    } else {
      write_integer(to, target, i, integer_of(from, source, e));
    }
  }
  return TRM_OK;
}
