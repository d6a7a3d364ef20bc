/* Owns: finding the keys that a sort's comparator compares, and keys as unsigned numbers of the
 * same order. */
#include "host/ops/reduce/sort_keys.h"

#include <math.h>
#include <string.h>

/* ---- Recognising ---------------------------------------------------------------------------- */

enum { MAX_DEPTH = 32, MAX_VISITS = 1 << 14 };

typedef struct comparator {
  const trm_module *module;
  const trm_computation *computation;
  trm_arena *arena;
  uint32_t *visits; /* their number is limited: a value with many uses is visited often */
} comparator;

static const trm_instruction *at(const comparator *c, trm_index index) {
  return &c->computation->instructions[index];
}

/* Whether b is a with every parameter 2k and 2k + 1 exchanged. */
static bool mirrors(const comparator *c, trm_index a, trm_index b, int depth) {
  const trm_instruction *x = at(c, a), *y = at(c, b);
  if (x->opcode != y->opcode || depth == MAX_DEPTH || ++*c->visits > MAX_VISITS ||
      x->num_operands != y->num_operands || x->shape.dtype != y->shape.dtype ||
      x->num_called != 0 || x->comparison != y->comparison ||
      x->comparison_type != y->comparison_type) {
    return false;
  }
  if (x->opcode == TRM_OP_PARAMETER) return (x->number ^ 1) == y->number;
  if (x->opcode == TRM_OP_CONSTANT) {
    return a == b || (trm_shape_is_scalar(&x->shape) && trm_shape_is_scalar(&y->shape) &&
                      memcmp(x->literal->leaves[0], y->literal->leaves[0],
                             trm_dtype_size(x->shape.dtype)) == 0);
  }
  if (!trm_opcode_is_elementwise(x->opcode) && x->opcode != TRM_OP_BITCAST_CONVERT) return false;
  for (uint32_t k = 0; k < x->num_operands; ++k) {
    if (!mirrors(c, x->operands[k], y->operands[k], depth + 1)) return false;
  }
  return true;
}

/* The only parameter on which a value depends; false: there are none or several. */
static bool find_parameter(const comparator *c, trm_index index, int depth, int64_t *number) {
  const trm_instruction *x = at(c, index);
  if (x->opcode == TRM_OP_CONSTANT) return true;
  if (x->opcode == TRM_OP_PARAMETER) {
    if (*number >= 0 && *number != x->number) return false;
    *number = x->number;
    return true;
  }
  for (uint32_t k = 0; k < x->num_operands; ++k) {
    if (depth == MAX_DEPTH || ++*c->visits > MAX_VISITS ||
        !find_parameter(c, x->operands[k], depth + 1, number)) {
      return false;
    }
  }
  return true;
}

static bool is_constant(const comparator *c, trm_index index, bool nan) {
  const trm_instruction *x = at(c, index);
  if (x->opcode != TRM_OP_CONSTANT || !trm_shape_is_scalar(&x->shape)) return false;
  uint64_t bits = 0;
  memcpy(&bits, x->literal->leaves[0], trm_dtype_size(x->shape.dtype));
  if (!nan) return bits == 0;
  switch (x->shape.dtype) {
    case TRM_F16: return bits == 0x7e00;
    case TRM_BF16: return bits == 0x7fc0;
    case TRM_F32: return bits == 0x7fc00000;
    default: return bits == UINT64_C(0x7ff8000000000000);
  }
}

static bool is_compare(const comparator *c, trm_index index, trm_comparison comparison) {
  const trm_instruction *x = at(c, index);
  return x->opcode == TRM_OP_COMPARE && x->comparison == comparison &&
         x->comparison_type != TRM_CMPTYPE_TOTALORDER;
}

/* select(x != x, nan, select(x == 0, 0, x)), x a parameter. */
static bool is_canonical(const comparator *c, trm_index index) {
  const trm_instruction *outer = at(c, index);
  if (outer->opcode != TRM_OP_SELECT) return false;
  const trm_instruction *inner = at(c, outer->operands[2]);
  if (inner->opcode != TRM_OP_SELECT) return false;
  const trm_index x = inner->operands[2];
  if (at(c, x)->opcode != TRM_OP_PARAMETER || !is_compare(c, outer->operands[0], TRM_CMP_NE) ||
      !is_compare(c, inner->operands[0], TRM_CMP_EQ)) {
    return false;
  }
  const trm_instruction *ne = at(c, outer->operands[0]), *eq = at(c, inner->operands[0]);
  return ne->operands[0] == x && ne->operands[1] == x && eq->operands[0] == x &&
         is_constant(c, eq->operands[1], false) && is_constant(c, outer->operands[1], true) &&
         is_constant(c, inner->operands[1], false);
}

/* Whether a value is a float's bits as a signed integer of the order of the floats, b < 0 ? b ^
 * most : b: XLA writes totalOrder so. `out_dtype` is the float's type. */
static bool is_total_order(const comparator *c, trm_index index, trm_dtype *out_dtype) {
  const trm_instruction *select = at(c, index);
  if (select->opcode != TRM_OP_SELECT || !is_compare(c, select->operands[0], TRM_CMP_LT)) {
    return false;
  }
  const trm_index bits = select->operands[2];
  const trm_instruction *less = at(c, select->operands[0]), *flip = at(c, select->operands[1]);
  const trm_instruction *seen = at(c, bits);
  if (flip->opcode != TRM_OP_XOR || seen->opcode != TRM_OP_BITCAST_CONVERT ||
      trm_dtype_kind(seen->shape.dtype) != TRM_KIND_SIGNED || less->operands[0] != bits ||
      !is_constant(c, less->operands[1], false)) {
    return false;
  }
  const trm_index most = flip->operands[flip->operands[0] == bits ? 1 : 0];
  const trm_instruction *from = at(c, seen->operands[0]), *mask = at(c, most);
  const size_t size = trm_dtype_size(seen->shape.dtype);
  if ((flip->operands[0] != bits && flip->operands[1] != bits) || mask->opcode != TRM_OP_CONSTANT ||
      !trm_shape_is_scalar(&mask->shape) || from->opcode != TRM_OP_PARAMETER ||
      trm_dtype_size(from->shape.dtype) != size ||
      trm_dtype_kind(from->shape.dtype) != TRM_KIND_FLOAT) {
    return false;
  }
  uint64_t number = 0;
  memcpy(&number, mask->literal->leaves[0], size);
  *out_dtype = from->shape.dtype;
  return number == UINT64_MAX >> (65 - 8 * size);
}

static bool is_key_type(trm_dtype dtype) {
  return (dtype >= TRM_PRED && dtype <= TRM_F64) || dtype == TRM_BF16;
}

/* The value behind broadcasts of scalars and selects by a constant, with which TensorFlow wraps its
 * comparators. */
static trm_index see_through(const comparator *c, trm_index index) {
  for (int depth = 0; depth < MAX_DEPTH; ++depth) {
    const trm_instruction *x = at(c, index);
    if (x->opcode == TRM_OP_BROADCAST || x->opcode == TRM_OP_COPY) {
      index = x->operands[0];
      continue;
    }
    if (x->opcode != TRM_OP_SELECT) return index;
    const trm_instruction *which = at(c, x->operands[0]);
    if (which->opcode == TRM_OP_BROADCAST) which = at(c, which->operands[0]);
    if (which->opcode != TRM_OP_CONSTANT) return index;
    index = x->operands[*(const uint8_t *)which->literal->leaves[0] != 0 ? 1 : 2];
  }
  return index;
}

/* The key of `less`, which is a < b or a > b, with b the mirror of a. */
static trm_status find_key(const comparator *c, trm_index less, sort_key *key, bool *out_found,
                           trm_error *error) {
  const trm_instruction *compare = at(c, less);
  *out_found = false;
  if (compare->opcode != TRM_OP_COMPARE ||
      (compare->comparison != TRM_CMP_LT && compare->comparison != TRM_CMP_GT)) {
    return TRM_OK;
  }
  const trm_index a = compare->operands[0];
  int64_t number = -1;
  if (!mirrors(c, a, compare->operands[1], 0) || !find_parameter(c, a, 0, &number) || number < 0 ||
      !is_key_type(at(c, a)->shape.dtype)) {
    return TRM_OK;
  }
  *key = (sort_key){.operand = (uint32_t)(number / 2),
                    .dtype = at(c, a)->shape.dtype,
                    .descends = (compare->comparison == TRM_CMP_GT) != (number % 2 == 1),
                    .is_total = compare->comparison_type == TRM_CMPTYPE_TOTALORDER};
  *out_found = true;
  if (at(c, a)->opcode == TRM_OP_PARAMETER) return TRM_OK;
  if (is_canonical(c, a) && key->is_total) {
    key->kind = SORT_KEY_CANONICAL;
    return TRM_OK;
  }
  if (is_total_order(c, a, &key->dtype) && is_key_type(key->dtype)) {
    key->is_total = true;
    return TRM_OK;
  }
  key->kind = SORT_KEY_FUNCTION;
  trm_computation *side = trm_arena_copy(c->arena, c->computation, sizeof *side);
  trm_module *module = trm_arena_copy(c->arena, c->module, sizeof *module);
  if (side == NULL || module == NULL) FAIL_NO_MEMORY("a sort");
  side->root = a;
  module->computations = side;
  module->num_computations = 1;
  return trm_function_compile(module, 0, c->arena, &key->function, out_found, error);
}

/* Whether `index` is a == b of the values that `less` compares. */
static bool is_tie(const comparator *c, trm_index index, trm_index less) {
  const trm_instruction *x = at(c, index), *y = at(c, less);
  if (x->opcode != TRM_OP_COMPARE || x->comparison != TRM_CMP_EQ ||
      x->comparison_type != y->comparison_type) {
    return false;
  }
  return (x->operands[0] == y->operands[0] && x->operands[1] == y->operands[1]) ||
         (x->operands[0] == y->operands[1] && x->operands[1] == y->operands[0]);
}

trm_status trm_sort_find_keys(const trm_module *module, uint32_t index, trm_arena *arena,
                              sort_keys *out_keys, trm_error *error) {
  uint32_t visits = 0;
  const comparator state = {module, &module->computations[index], arena, &visits}, *c = &state;
  trm_index rest = see_through(c, c->computation->root);
  out_keys->count = 0;
  /* less(first) or (tie(first) and rest) */
  for (uint32_t n = 0; n < SORT_MAX_KEYS; ++n) {
    const trm_instruction *root = at(c, rest);
    trm_index less = rest, next = TRM_NO_INDEX;
    for (int swap = 0; root->opcode == TRM_OP_OR && swap < 2 && next == TRM_NO_INDEX; ++swap) {
      const trm_index first = root->operands[swap], second = root->operands[1 - swap];
      const trm_instruction *both = at(c, second);
      if (at(c, first)->opcode != TRM_OP_COMPARE || both->opcode != TRM_OP_AND) continue;
      for (int side = 0; side < 2 && next == TRM_NO_INDEX; ++side) {
        if (!is_tie(c, both->operands[side], first)) continue;
        less = first;
        next = both->operands[1 - side];
      }
    }
    bool found;
    TRY(find_key(c, less, &out_keys->keys[n], &found, error));
    if (!found) return TRM_OK;
    if (next == TRM_NO_INDEX) {
      out_keys->count = n + 1;
      return TRM_OK;
    }
    rest = see_through(c, next);
  }
  return TRM_OK;
}

/* ---- Keys as numbers ------------------------------------------------------------------------ */

int trm_sort_key_bits(const sort_key *key) { return (int)trm_dtype_size(key->dtype) * 8; }

/* `top` is the sign; a float's magnitude above `infinity` is a NaN. */
static inline uint64_t order_float(uint64_t bits, uint64_t top, uint64_t infinity, bool canonical,
                                   bool total, bool *has_nan) {
  const uint64_t magnitude = bits & (top - 1);
  if (canonical || !total) {
    if (magnitude == 0) bits = 0;
    if (magnitude > infinity) {
      if (canonical) bits = infinity | (infinity & -infinity) >> 1; /* quiet and positive */
      else *has_nan = true;
    }
  }
  return (bits & top) != 0 ? ~bits & (2 * top - 1) : bits | top;
}

#define LOAD(T, EXPRESSION)                                                                  \
  do {                                                                                       \
    const T *const from = (const T *)operand + base;                                         \
    for (int64_t i = 0; i < n; ++i) {                                                        \
      const uint64_t x = (uint64_t)from[(places == NULL ? i : (int64_t)places[i]) * stride]; \
      out_keys[i] = (EXPRESSION) ^ flip;                                                     \
    }                                                                                        \
  } while (0)

bool trm_sort_load_keys(const sort_key *key, const void *operand, int64_t base, int64_t stride,
                        const uint32_t *places, int64_t n, uint64_t *out_keys) {
  const int bits = trm_sort_key_bits(key);
  const uint64_t all = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  const uint64_t top = UINT64_C(1) << (bits - 1), flip = key->descends ? all : 0;
  const bool canonical = key->kind == SORT_KEY_CANONICAL, total = key->is_total;
  bool has_nan = false;
#define FLOAT(T, infinity) \
  LOAD(T, order_float(x, top, UINT64_C(infinity), canonical, total, &has_nan))
  switch (key->dtype) {
    case TRM_PRED:
    case TRM_U8: LOAD(uint8_t, x); break;
    case TRM_U16: LOAD(uint16_t, x); break;
    case TRM_U32: LOAD(uint32_t, x); break;
    case TRM_U64: LOAD(uint64_t, x); break;
    case TRM_S8: LOAD(uint8_t, x ^ top); break;
    case TRM_S16: LOAD(uint16_t, x ^ top); break;
    case TRM_S32: LOAD(uint32_t, x ^ top); break;
    case TRM_S64: LOAD(uint64_t, x ^ top); break;
    case TRM_F16: FLOAT(uint16_t, 0x7c00); break;
    case TRM_BF16: FLOAT(uint16_t, 0x7f80); break;
    case TRM_F32: FLOAT(uint32_t, 0x7f800000); break;
    default:
      LOAD(uint64_t, order_float(x, UINT64_C(1) << 63, UINT64_C(0x7ff0000000000000), canonical,
                                 total, &has_nan));
      break;
  }
#undef FLOAT
  return has_nan;
}
