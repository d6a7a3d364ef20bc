/* Owns: finding the floating-point events of an instruction from its results, and limiting float16
 * results.
 *
 * The flags of the CPU are of no use: vector kernels compute lanes that nobody reads, and library
 * functions raise flags on the way to exact results. So this file examines results. One fast pass
 * checks that they hold no NaN and no infinity. Otherwise an elementwise instruction is judged
 * element by element, and an instruction that combines elements by all of its operands. Float16
 * results that must not be infinite are treated in the same way. */
#include "host/schedule/float_check.h"

#include <math.h>
#include <stdatomic.h>

#include "host/ops/reference.h"
#include "host/ops/threads.h"

/* ---- The fast pass -------------------------------------------------------------------------- */

typedef struct array {
  trm_dtype dtype;
  const void *data;
  int64_t count;
} array;

typedef struct scan {
  array a;
  atomic_bool *found;
} scan;

static bool any_special_u16(const uint16_t *bits, int64_t count, uint16_t exponent) {
  unsigned special = 0;
  for (int64_t i = 0; i < count; ++i) special |= (unsigned)((bits[i] & exponent) == exponent);
  return special != 0;
}

static bool any_special_u32(const uint32_t *bits, int64_t count) {
  unsigned special = 0;
  for (int64_t i = 0; i < count; ++i) {
    special |= (unsigned)((bits[i] & UINT32_C(0x7f800000)) == UINT32_C(0x7f800000));
  }
  return special != 0;
}

static bool any_special_f64(const double *values, int64_t count) {
  unsigned special = 0;
  for (int64_t i = 0; i < count; ++i) special |= (unsigned)!isfinite(values[i]);
  return special != 0;
}

static void scan_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const scan *s = context;
  bool special = false;
  switch (s->a.dtype) {
    case TRM_F32:
      special = any_special_u32((const uint32_t *)s->a.data + begin, end - begin);
      break;
    case TRM_F16:
      special = any_special_u16((const uint16_t *)s->a.data + begin, end - begin, 0x7c00);
      break;
    case TRM_BF16:
      special = any_special_u16((const uint16_t *)s->a.data + begin, end - begin, 0x7f80);
      break;
    case TRM_F64: special = any_special_f64((const double *)s->a.data + begin, end - begin); break;
    default: /* floats of 8 bits and fewer */
      for (int64_t i = begin; i < end && !special; ++i) {
        special = !isfinite(trm_value_load(s->a.dtype, s->a.data, i).f);
      }
      break;
  }
  if (special) atomic_store_explicit(s->found, true, memory_order_relaxed);
}

/* Whether a real array holds a NaN or an infinity. */
static bool holds_special(array a) {
  if (trm_dtype_kind(a.dtype) != TRM_KIND_FLOAT) return false;
  atomic_bool found;
  atomic_init(&found, false);
  const scan s = {a, &found};
  const size_t bytes = (size_t)a.count * trm_dtype_size(a.dtype);
  trm_parallel_ranges(trm_threads_for(bytes), a.count, scan_range, &s);
  return atomic_load(&found);
}

static double element(array a, int64_t i) {
  const trm_value value = trm_value_load(a.dtype, a.data, i);
  switch (trm_dtype_kind(a.dtype)) {
    case TRM_KIND_FLOAT: return value.f;
    case TRM_KIND_SIGNED: return (double)value.s;
    default: return (double)value.u;
  }
}

/* ---- Elementwise ---------------------------------------------------------------------------- */

/* Whether the function has a pole at these operands, so that infinity is its exact value. */
static bool is_pole(trm_opcode opcode, double a, double b) {
  switch (opcode) {
    case TRM_OP_DIVIDE: return b == 0;
    case TRM_OP_LOG:
    case TRM_OP_RSQRT: return a == 0;
    case TRM_OP_LOG_PLUS_ONE: return a == -1;
    case TRM_OP_POWER: return a == 0;
    default: return false;
  }
}

/* Events of elements. A half is judged by its float32 value before rounding to `result`, because
 * overflow and poles may have made it NaN. */
static unsigned events_of_elements(const trm_scalar_op *op, array result, const array *operands,
                                   uint32_t num_operands) {
  unsigned events = 0;
  const trm_opcode opcode = op->opcode;
  for (int64_t i = 0; i < result.count; ++i) {
    double r = element(result, i);
    if (isfinite(r)) continue;
    trm_value values[3] = {{{0}, 0}};
    double floats[3] = {0};
    bool finite = true, nan = false;
    for (uint32_t k = 0; k < num_operands; ++k) {
      const int64_t at = operands[k].count == 1 ? 0 : i;
      values[k] = trm_value_load(operands[k].dtype, operands[k].data, at);
      floats[k] = element(operands[k], at);
      finite = finite && isfinite(floats[k]);
      nan = nan || isnan(floats[k]);
    }
    if (result.dtype == TRM_F16) {
      const bool is_nan = isnan(r);
      r = opcode == TRM_OP_CUSTOM_CALL ? floats[0] : trm_scalar_op_apply(op, values).f;
      if (isfinite(r)) events |= TRM_FLOAT_OVERFLOW | (is_nan ? TRM_FLOAT_INVALID : 0u);
    }
    if (isfinite(r)) continue;
    if (isnan(r)) {
      if (!nan) events |= TRM_FLOAT_INVALID;
    } else if (finite) {
      events |=
          is_pole(opcode, floats[0], floats[1]) ? TRM_FLOAT_DIVISION_BY_ZERO : TRM_FLOAT_OVERFLOW;
    }
  }
  return events;
}

/* Whether a float does not fit the integer type that it is converted to. */
static bool any_out_of_range(trm_dtype to, array from) {
  const bool is_wide = trm_dtype_bits(to) > 32 || to == TRM_U32;
  const double low = is_wide ? -0x1p63 : -0x1p31;
  const double high = to == TRM_U64 ? 0x1p64 : -low;
  for (int64_t i = 0; i < from.count; ++i) {
    const double value = element(from, i);
    if (!(trunc(value) >= low && value < high)) return true;
  }
  return false;
}

/* ---- Whole arrays --------------------------------------------------------------------------- */

typedef struct specials {
  bool nan, infinity;
} specials;

static specials specials_of(array a) {
  specials found = {false, false};
  if (!holds_special(a)) return found;
  for (int64_t i = 0; i < a.count && !(found.nan && found.infinity); ++i) {
    const double value = element(a, i);
    found.nan = found.nan || isnan(value);
    found.infinity = found.infinity || isinf(value);
  }
  return found;
}

/* Events of an instruction that combines elements. If an operand has a NaN, none can be found. If
 * all operands are finite, a NaN is the result of overflow in sums, or of a root of a negative
 * number. */
static unsigned events_of_arrays(trm_opcode opcode, array result, const array *operands,
                                 uint32_t num_operands) {
  specials in = {false, false};
  for (uint32_t k = 0; k < num_operands; ++k) {
    const specials s = specials_of(operands[k]);
    in.nan = in.nan || s.nan;
    in.infinity = in.infinity || s.infinity;
  }
  if (in.nan) return 0;
  const specials out = specials_of(result);
  unsigned events = out.nan ? TRM_FLOAT_INVALID : 0;
  if (in.infinity) return events;
  if (opcode == TRM_OP_CHOLESKY) return events;
  if (opcode == TRM_OP_TRIANGULAR_SOLVE) return events | TRM_FLOAT_DIVISION_BY_ZERO;
  return events | TRM_FLOAT_OVERFLOW;
}

enum { MAX_OPERANDS = 64 };

/* ---- Instructions --------------------------------------------------------------------------- */

typedef enum check_kind { CHECK_NOTHING, CHECK_ELEMENTS, CHECK_ARRAYS } check_kind;

static check_kind kind_of(const trm_instruction *instruction) {
  static const check_kind opcodes[TRM_NUM_OPCODES] = {
#define OPCODE(id, name, arity, class, calls, kernel, cost, effect, replicas, events) \
  [TRM_OP_##id] = CHECK_##events,
#include "hlo/opcodes.def"
#undef OPCODE
  };
  static const check_kind calls[TRM_NUM_CALLS] = {
#define CUSTOM_CALL(id, target, like, kernel, cost, replicas, events) \
  [TRM_CALL_##id] = CHECK_##events,
#include "hlo/custom_calls.def"
#undef CUSTOM_CALL
  };
  return instruction->opcode == TRM_OP_CUSTOM_CALL ? calls[instruction->call_id]
                                                   : opcodes[instruction->opcode];
}

/* Lists the array leaves of the operands, up to `room` of them, and returns their number. */
static uint32_t list_operands(const trm_computation *computation,
                              const trm_instruction *instruction, const void *const *data,
                              array *out_arrays, uint32_t room) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_shape *shape = &computation->instructions[instruction->operands[k]].shape;
    const int32_t leaves = trm_shape_num_leaves(shape);
    for (int32_t l = 0; l < leaves; ++l, ++count) {
      if (count >= room) continue;
      const trm_shape *leaf = trm_shape_leaf(shape, l);
      out_arrays[count] = (array){leaf->dtype, data[count], trm_shape_count(leaf)};
    }
  }
  return count;
}

static const char *event_text(unsigned events) {
  if (events & TRM_FLOAT_DIVISION_BY_ZERO) return "division by zero (FP_DIV0)";
  if (events & TRM_FLOAT_OVERFLOW) return "overflow (FP_OFLO)";
  return "invalid operation (FP_INV)";
}

trm_status trm_float_check(const trm_module *module, const trm_computation *computation,
                           const trm_instruction *instruction, unsigned events,
                           const void *const *operands, void *const *results, trm_error *error) {
  const check_kind kind = kind_of(instruction);
  if (kind == CHECK_NOTHING) return TRM_OK;
  unsigned happened = 0;
  array inputs[MAX_OPERANDS];
  uint32_t num_inputs = UINT32_MAX;
  if (instruction->opcode == TRM_OP_CONVERT && (events & TRM_FLOAT_INVALID) != 0 &&
      trm_kind_is_integer(trm_dtype_kind(instruction->shape.dtype))) {
    list_operands(computation, instruction, operands, inputs, MAX_OPERANDS);
    if (trm_dtype_kind(inputs[0].dtype) == TRM_KIND_FLOAT &&
        any_out_of_range(instruction->shape.dtype, inputs[0])) {
      happened = TRM_FLOAT_INVALID;
    }
  }
  trm_scalar_op op = {.opcode = instruction->opcode};
  if (kind == CHECK_ELEMENTS && instruction->shape.dtype == TRM_F16 &&
      instruction->opcode != TRM_OP_CUSTOM_CALL) {
    TRY(trm_scalar_op_create(module, computation, instruction, &op, error));
    op.to = TRM_F32;
  }
  const int32_t leaves = trm_shape_num_leaves(&instruction->shape);
  for (int32_t l = 0; l < leaves; ++l) {
    const trm_shape *leaf = trm_shape_leaf(&instruction->shape, l);
    const array result = {leaf->dtype, results[l], trm_shape_count(leaf)};
    if (!holds_special(result)) continue;
    if (num_inputs == UINT32_MAX) {
      num_inputs = list_operands(computation, instruction, operands, inputs, MAX_OPERANDS);
      if (num_inputs > MAX_OPERANDS) return TRM_OK; /* only collectives have so many arrays */
    }
    happened |= kind == CHECK_ELEMENTS
                    ? events_of_elements(&op, result, inputs, num_inputs)
                    : events_of_arrays(instruction->opcode, result, inputs, num_inputs);
  }
  if ((happened & events) == 0) return TRM_OK;
  char text[512];
  FAIL(INTERNAL,
       "[Poplar][Execute engine] application_runtime_error: [Recovery action: IPU_RESET] Tiles in "
       "excepted state: %s in %s. IPU will be reset the next time a program is executed.",
       event_text(happened & events), trm_instruction_text(module, instruction, text, sizeof text));
}

/* ---- Limits of halves ----------------------------------------------------------------------- */

bool trm_must_limit_halves(const trm_module *module, const trm_instruction *instruction) {
  if (module->half_overflow == TRM_HALF_INFINITY || kind_of(instruction) != CHECK_ARRAYS ||
      instruction->opcode == TRM_OP_FUSION) {
    return false;
  }
  const int32_t leaves = trm_shape_num_leaves(&instruction->shape);
  for (int32_t l = 0; l < leaves; ++l) {
    if (trm_shape_leaf(&instruction->shape, l)->dtype == TRM_F16) return true;
  }
  return false;
}

void trm_limit_halves(const trm_module *module, const trm_computation *computation,
                      const trm_instruction *instruction, const void *const *operands,
                      void *const *results) {
  const int32_t leaves = trm_shape_num_leaves(&instruction->shape);
  bool is_new = false; /* no operand is infinite */
  for (int32_t l = 0; l < leaves; ++l) {
    const trm_shape *leaf = trm_shape_leaf(&instruction->shape, l);
    const array result = {leaf->dtype, results[l], trm_shape_count(leaf)};
    if (leaf->dtype != TRM_F16 || !holds_special(result)) continue;
    if (!is_new) {
      array inputs[MAX_OPERANDS];
      const uint32_t count =
          list_operands(computation, instruction, operands, inputs, MAX_OPERANDS);
      for (uint32_t k = 0; k < count && k < MAX_OPERANDS; ++k) {
        if (specials_of(inputs[k]).infinity) return;
      }
      is_new = true;
    }
    uint16_t *halves = results[l];
    for (int64_t i = 0; i < result.count; ++i) {
      if ((halves[i] & 0x7fff) != 0x7c00) continue;
      halves[i] = module->half_overflow == TRM_HALF_NAN ? 0x7e00 : (uint16_t)(halves[i] - 1);
    }
  }
}
