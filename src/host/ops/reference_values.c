/* Owns: values of any type, indices, and the state of reference kernels. */
#include "host/ops/reference.h"

#include <math.h>

#include "base/half.h"
#include "base/small_float.h"

/* Loads types of less than a byte, and floats of one byte. */
static void load_small(trm_dtype dtype, uint8_t bits, trm_value *value) {
  const int width = trm_dtype_bits(dtype);
  switch (trm_dtype_kind(dtype)) {
    case TRM_KIND_SIGNED:
      value->s = (int64_t)((uint64_t)bits << (64 - width)) >> (64 - width);
      break;
    case TRM_KIND_UNSIGNED: value->u = bits & ((1u << width) - 1); break;
    case TRM_KIND_FLOAT: value->f = trm_small_float_decode(dtype, bits); break;
    default: break;
  }
}

static uint8_t small_bits(trm_dtype dtype, trm_value value) {
  switch (trm_dtype_kind(dtype)) {
    case TRM_KIND_SIGNED:
    case TRM_KIND_UNSIGNED: return (uint8_t)(value.u & ((1u << trm_dtype_bits(dtype)) - 1));
    case TRM_KIND_FLOAT: return trm_small_float_encode(dtype, value.f);
    default: return 0;
  }
}

trm_value trm_value_load(trm_dtype dtype, const void *array, int64_t index) {
  trm_value value = {{0}, 0.0};
  switch (dtype) {
    case TRM_PRED: value.u = ((const uint8_t *)array)[index] != 0; break;
    case TRM_S8: value.s = ((const int8_t *)array)[index]; break;
    case TRM_S16: value.s = ((const int16_t *)array)[index]; break;
    case TRM_S32: value.s = ((const int32_t *)array)[index]; break;
    case TRM_S64: value.s = ((const int64_t *)array)[index]; break;
    case TRM_U8: value.u = ((const uint8_t *)array)[index]; break;
    case TRM_U16: value.u = ((const uint16_t *)array)[index]; break;
    case TRM_U32: value.u = ((const uint32_t *)array)[index]; break;
    case TRM_U64: value.u = ((const uint64_t *)array)[index]; break;
    case TRM_F16: value.f = (double)trm_half_to_float(((const uint16_t *)array)[index]); break;
    case TRM_BF16: value.f = (double)trm_bfloat16_to_float(((const uint16_t *)array)[index]); break;
    case TRM_F32: value.f = (double)((const float *)array)[index]; break;
    case TRM_F64: value.f = ((const double *)array)[index]; break;
    case TRM_C64:
      value.f = (double)((const float *)array)[2 * index];
      value.imag = (double)((const float *)array)[2 * index + 1];
      break;
    case TRM_C128:
      value.f = ((const double *)array)[2 * index];
      value.imag = ((const double *)array)[2 * index + 1];
      break;
    default: load_small(dtype, ((const uint8_t *)array)[index], &value); break;
  }
  return value;
}

void trm_value_store(trm_dtype dtype, void *array, int64_t index, trm_value value) {
  switch (dtype) {
    case TRM_PRED: ((uint8_t *)array)[index] = value.u != 0; break;
    case TRM_S8:
    case TRM_U8: ((uint8_t *)array)[index] = (uint8_t)value.u; break;
    case TRM_S16:
    case TRM_U16: ((uint16_t *)array)[index] = (uint16_t)value.u; break;
    case TRM_S32:
    case TRM_U32: ((uint32_t *)array)[index] = (uint32_t)value.u; break;
    case TRM_S64:
    case TRM_U64: ((uint64_t *)array)[index] = value.u; break;
    case TRM_F16: ((uint16_t *)array)[index] = trm_float_to_half((float)value.f); break;
    case TRM_BF16: ((uint16_t *)array)[index] = trm_float_to_bfloat16((float)value.f); break;
    case TRM_F32: ((float *)array)[index] = (float)value.f; break;
    case TRM_F64: ((double *)array)[index] = value.f; break;
    case TRM_C64:
      ((float *)array)[2 * index] = (float)value.f;
      ((float *)array)[2 * index + 1] = (float)value.imag;
      break;
    case TRM_C128:
      ((double *)array)[2 * index] = value.f;
      ((double *)array)[2 * index + 1] = value.imag;
      break;
    default: ((uint8_t *)array)[index] = small_bits(dtype, value); break;
  }
}

trm_value trm_value_round(trm_dtype dtype, trm_value value) {
  uint64_t element[2];
  trm_value_store(dtype, element, 0, value);
  return trm_value_load(dtype, element, 0);
}

uint64_t trm_value_bits(trm_dtype dtype, trm_value value) {
  uint64_t element[2] = {0, 0};
  trm_value_store(dtype, element, 0, value);
  return element[0];
}

/* Truncates towards zero to `bits` bits (32 or 64). A number out of range and NaN become the
 * smallest number. */
static int64_t float_to_integer(double value, int bits) {
  const double bound = ldexp(1.0, bits - 1);
  return (int64_t)(value >= -bound && value < bound ? value : -bound);
}

/* The conversion of x86 and TensorFlow's kernels: a small type keeps the low bits of an int32, an
 * unsigned type of 32 or 64 bits those of an int64. */
static int64_t wrap_signed(double value, int bits) {
  return float_to_integer(value, bits <= 32 ? 32 : 64);
}

static uint64_t wrap_unsigned(double value, int bits) {
  if (bits == 64 && value >= 0x1p63 && value < 0x1p64) return (uint64_t)value;
  return (uint64_t)float_to_integer(value, bits < 32 ? 32 : 64);
}

static int64_t saturate_signed(double value, int bits) {
  const double bound = ldexp(1.0, bits - 1);
  if (value >= bound) return (int64_t)(UINT64_MAX >> (65 - bits));
  return value != value ? 0 : float_to_integer(value, bits);
}

static uint64_t saturate_unsigned(double value, int bits) {
  if (value >= ldexp(1.0, bits)) return UINT64_MAX >> (64 - bits);
  return value > 0 ? (uint64_t)value : 0;
}

trm_value trm_value_convert(trm_dtype from, trm_dtype to, bool wraps, trm_value value) {
  const trm_kind from_kind = trm_dtype_kind(from), to_kind = trm_dtype_kind(to);
  const int bits = trm_dtype_bits(to);
  trm_value result = {{0}, 0.0};
  const bool from_float = from_kind == TRM_KIND_FLOAT || from_kind == TRM_KIND_COMPLEX;
  switch (to_kind) {
    case TRM_KIND_PRED:
      result.u = from_float ? value.f != 0.0 || value.imag != 0.0 : value.u != 0;
      return result;
    case TRM_KIND_SIGNED:
      if (!from_float) result = value;
      else result.s = wraps ? wrap_signed(value.f, bits) : saturate_signed(value.f, bits);
      break;
    case TRM_KIND_UNSIGNED:
      if (!from_float) result = value;
      else result.u = wraps ? wrap_unsigned(value.f, bits) : saturate_unsigned(value.f, bits);
      break;
    case TRM_KIND_FLOAT:
    case TRM_KIND_COMPLEX: {
      const bool is_double = to == TRM_F64 || to == TRM_C128;
      if (from_kind == TRM_KIND_SIGNED) {
        result.f = is_double ? (double)value.s : (double)(float)value.s;
      } else if (!from_float) {
        result.f = is_double ? (double)value.u : (double)(float)value.u;
      } else {
        result = value;
        if (to_kind == TRM_KIND_FLOAT) result.imag = 0.0;
      }
      break;
    }
    case TRM_KIND_NONE: break;
  }
  return trm_value_round(to, result);
}

void trm_odometer_init(trm_odometer *odometer, int32_t rank, const int64_t *dims) {
  odometer->rank = rank;
  for (int32_t d = 0; d < rank; ++d) odometer->dims[d] = dims[d];
  memset(odometer->index, 0, sizeof odometer->index);
}

void trm_odometer_next(trm_odometer *odometer) {
  for (int32_t d = odometer->rank - 1; d >= 0; --d) {
    if (++odometer->index[d] < odometer->dims[d]) return;
    odometer->index[d] = 0;
  }
}

int64_t trm_dims_count(int32_t rank, const int64_t *dims) {
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) count *= dims[d];
  return count;
}

void trm_shape_strides(const trm_shape *shape, int64_t strides[TRM_MAX_RANK]) {
  int64_t stride = 1;
  for (int32_t d = shape->rank - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= shape->dims[d];
  }
}

int64_t trm_linear_index(int32_t rank, const int64_t *strides, const int64_t *index) {
  int64_t linear = 0;
  for (int32_t d = 0; d < rank; ++d) linear += strides[d] * index[d];
  return linear;
}

bool trm_dims_contain(const trm_dims *dims, int64_t dimension) {
  for (int32_t i = 0; i < dims->count; ++i) {
    if (dims->items[i] == dimension) return true;
  }
  return false;
}

int32_t trm_dims_others(const trm_dims *dims, int32_t rank, int64_t out_others[TRM_MAX_RANK]) {
  int32_t count = 0;
  for (int32_t d = 0; d < rank; ++d) {
    if (!trm_dims_contain(dims, d)) out_others[count++] = d;
  }
  return count;
}

trm_status trm_reference_refuse(const trm_kernel_request *request, const char *reason,
                                trm_error *error) {
  char text[512];
  FAIL(UNIMPLEMENTED, "no kernel computes %s: %s",
       trm_instruction_text(request->module, request->instruction, text, sizeof text), reason);
}
