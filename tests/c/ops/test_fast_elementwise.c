/* Fast elementwise kernels and kLoop fusions against the reference kernels. */
#include "fast_case.h"

#include "hlo/literal.h"
#include "host/ops/elementwise/strip.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/reference.h"

static const trm_dtype all_types[] = {TRM_PRED, TRM_S8,  TRM_S16, TRM_S32, TRM_S64, TRM_U8,
                                      TRM_U16,  TRM_U32, TRM_U64, TRM_F16, TRM_F32, TRM_F64};
enum { NUM_TYPES = sizeof all_types / sizeof *all_types };
/* Single numbers have kernels of their own: many of them. */
static const int64_t counts[] = {1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,    1,    1,   1,
                                 1, 1, 1, 1, 1, 1, 0, 3, 17, 64, 1000, 2049, 5003};
enum { NUM_COUNTS = sizeof counts / sizeof *counts };

static double tolerance(trm_opcode opcode) {
  switch (opcode) {
    case TRM_OP_ERF:
    case TRM_OP_EXPONENTIAL_MINUS_ONE:
    case TRM_OP_LOG_PLUS_ONE:
    case TRM_OP_RSQRT: return 2;
    case TRM_OP_LOGISTIC:
    case TRM_OP_TANH: return 3;
    case TRM_OP_ACOS:
    case TRM_OP_ACOSH:
    case TRM_OP_ASIN:
    case TRM_OP_ASINH:
    case TRM_OP_ATANH:
    case TRM_OP_COSH:
    case TRM_OP_SINH:
    case TRM_OP_ATAN2:
    case TRM_OP_CBRT:
    case TRM_OP_COSINE:
    case TRM_OP_EXPONENTIAL:
    case TRM_OP_LOG:
    case TRM_OP_POWER:
    case TRM_OP_SINE:
    case TRM_OP_TAN: return 1;
    default: return 0;
  }
}

static bool is_for_floats(trm_opcode opcode) {
  return tolerance(opcode) > 0 || opcode == TRM_OP_CEIL || opcode == TRM_OP_FLOOR ||
         opcode == TRM_OP_ROUND_NEAREST_AFZ || opcode == TRM_OP_ROUND_NEAREST_EVEN ||
         opcode == TRM_OP_SQRT || opcode == TRM_OP_IS_FINITE;
}

static void test_every_opcode(void **state) {
  (void)state;
  int served = 0;
  for (int o = 0; o < TRM_NUM_OPCODES; ++o) {
    const trm_opcode opcode = (trm_opcode)o;
    if (!trm_opcode_is_elementwise(opcode) || opcode == TRM_OP_CONVERT ||
        opcode == TRM_OP_STOCHASTIC_CONVERT || opcode == TRM_OP_REDUCE_PRECISION)
      continue;
    for (int t = 0; t < NUM_TYPES; ++t) {
      if (!trm_opcode_takes(opcode, trm_dtype_kind(all_types[t]))) continue;
      for (int n = 0; n < NUM_COUNTS; ++n) {
        for (int comparison = 0; comparison < (opcode == TRM_OP_COMPARE ? 12 : 1); ++comparison) {
          fast_case c = case_create();
          const trm_shape shape = case_shape(&c, all_types[t], 1, &counts[n]);
          const trm_shape pred = case_shape(&c, TRM_PRED, 1, &counts[n]);
          const bool gives_pred = opcode == TRM_OP_COMPARE || opcode == TRM_OP_IS_FINITE;
          trm_index p[3];
          const int arity = trm_opcode_arity(opcode);
          for (int i = 0; i < arity; ++i)
            p[i] =
                case_parameter(&c, c.computation, opcode == TRM_OP_SELECT && i == 0 ? pred : shape);
          trm_instruction instruction =
              case_op(opcode, gives_pred ? pred : shape, (uint32_t)arity, p);
          instruction.comparison = (trm_comparison)(comparison % 6);
          if (comparison >= 6) instruction.comparison_type = TRM_CMPTYPE_TOTALORDER;
          const trm_index index = case_add(&c, c.computation, instruction);
          const trm_computation *entry = &c.module->computations[c.computation];
          if (trm_strip_supports(c.module, entry, &entry->instructions[index])) {
            char what[128];
            snprintf(what, sizeof what, "%s of %s, %lld", trm_opcode_name(opcode),
                     trm_dtype_name(all_types[t]), (long long)counts[n]);
            case_both(&c, index, VALUES_WILD, tolerance(opcode), 0, false, what);
            ++served;
          } else if ((all_types[t] == TRM_F32 || all_types[t] == TRM_F64) &&
                     (is_for_floats(opcode) || opcode == TRM_OP_ADD)) {
            fail_msg("%s of %s is not served", trm_opcode_name(opcode),
                     trm_dtype_name(all_types[t]));
          }
          case_free(&c);
        }
      }
    }
  }
  assert_true(served > 1500);
}

static void test_converts(void **state) {
  (void)state;
  for (int from = 0; from < NUM_TYPES; ++from) {
    for (int to = 0; to < NUM_TYPES; ++to) {
      fast_case c = case_create();
      const int64_t n = 4001;
      trm_index p = case_parameter(&c, c.computation, case_shape(&c, all_types[from], 1, &n));
      const trm_index index = case_add(
          &c, c.computation, case_op(TRM_OP_CONVERT, case_shape(&c, all_types[to], 1, &n), 1, &p));
      char what[64];
      snprintf(what, sizeof what, "%s to %s", trm_dtype_name(all_types[from]),
               trm_dtype_name(all_types[to]));
      /* A half is rounded once, not by way of float32. */
      if (all_types[from] == TRM_F64 && all_types[to] == TRM_F16)
        assert_false(
            trm_strip_supports(c.module, &c.module->computations[c.computation],
                               &c.module->computations[c.computation].instructions[index]));
      else case_both(&c, index, VALUES_WILD, 0, 0, false, what);
      case_free(&c);
    }
  }
}

/* Scalars in select and clamp serve every element. */
static void test_scalar_operands(void **state) {
  (void)state;
  const int64_t n = 777;
  fast_case c = case_create();
  const trm_shape array = case_shape(&c, TRM_F16, 1, &n), scalar = case_shape(&c, TRM_F16, 0, NULL);
  const trm_shape pred = case_shape(&c, TRM_PRED, 0, NULL);
  trm_index clamp[3] = {case_parameter(&c, c.computation, scalar),
                        case_parameter(&c, c.computation, array),
                        case_parameter(&c, c.computation, scalar)};
  trm_index select[3] = {case_parameter(&c, c.computation, pred),
                         case_parameter(&c, c.computation, array),
                         case_parameter(&c, c.computation, array)};
  const trm_index a = case_add(&c, c.computation, case_op(TRM_OP_CLAMP, array, 3, clamp));
  const trm_index b = case_add(&c, c.computation, case_op(TRM_OP_SELECT, array, 3, select));
  for (int i = 0; i < 4; ++i) {
    case_both(&c, a, VALUES_WILD, 0, 0, false, "clamp by scalars");
    case_both(&c, b, VALUES_WILD, 0, 0, false, "select by a scalar");
  }
  case_free(&c);
}

/* ---- Fusions -------------------------------------------------------------------------------- */

static trm_shape random_shape(fast_case *c, trm_dtype dtype) {
  int64_t dims[4];
  const int32_t rank = (int32_t)case_random_below(4) + 1;
  for (int32_t d = 0; d < rank; ++d) {
    static const int64_t choices[] = {1, 1, 2, 3, 5, 8, 17, 64};
    dims[d] = choices[case_random_below(8)];
  }
  if (case_random_below(40) == 0) dims[0] = 0;
  if (case_random_below(8) == 0) dims[rank - 1] = 700;
  /* Hundreds of strips are enough: the reference is slow. */
  for (int32_t d = 0; d < rank && trm_dims_count(rank, dims) > 200000; ++d) dims[d] = 1;
  return case_shape(c, dtype, rank, dims);
}

static bool same_dims(const trm_shape *a, const trm_shape *b) { return trm_shape_same_dims(a, b); }

/* Adds one random instruction that works on values so far. */
static void add_random(fast_case *c, uint32_t body, trm_dtype dtype) {
  trm_computation *computation = &c->module->computations[body];
  trm_index a = (trm_index)case_random_below(computation->num_instructions);
  const trm_shape shape = computation->instructions[a].shape;
  if (shape.dtype == TRM_PRED) return;
  switch (case_random_below(9)) {
    case 0: { /* broadcast */
      int64_t dims[TRM_MAX_RANK], map[TRM_MAX_RANK];
      int32_t rank = 0;
      for (int32_t d = 0; d < shape.rank; ++d) {
        if (case_random_below(3) == 0) dims[rank++] = case_random_below(4) + 1;
        map[d] = rank;
        dims[rank++] = shape.dims[d];
      }
      if (case_random_below(2) == 0) dims[rank++] = case_random_below(70) + 1;
      if (rank > 8 || trm_dims_count(rank, dims) > 20000) return;
      trm_instruction i = case_op(TRM_OP_BROADCAST, case_shape(c, dtype, rank, dims), 1, &a);
      i.dimensions = case_dims(c, shape.rank, map);
      case_add(c, body, i);
      return;
    }
    case 1: { /* transpose by rotation */
      if (shape.rank < 2) return;
      int64_t dims[TRM_MAX_RANK], map[TRM_MAX_RANK];
      const int64_t by = case_random_below(shape.rank);
      for (int32_t d = 0; d < shape.rank; ++d) {
        map[d] = (d + by) % shape.rank;
        dims[d] = shape.dims[map[d]];
      }
      trm_instruction i = case_op(TRM_OP_TRANSPOSE, case_shape(c, dtype, shape.rank, dims), 1, &a);
      i.dimensions = case_dims(c, shape.rank, map);
      case_add(c, body, i);
      return;
    }
    case 2: { /* slice */
      int64_t dims[TRM_MAX_RANK];
      trm_slice_dimension *slice =
          ARENA_NEW(&c->module->arena, trm_slice_dimension, (size_t)shape.rank + 1);
      for (int32_t d = 0; d < shape.rank; ++d) {
        if (shape.dims[d] == 0) return;
        slice[d].start = case_random_below(shape.dims[d]);
        slice[d].stride = case_random_below(3) + 1;
        slice[d].limit = slice[d].start + 1 + case_random_below(shape.dims[d] - slice[d].start);
        dims[d] = (slice[d].limit - slice[d].start + slice[d].stride - 1) / slice[d].stride;
      }
      trm_instruction i = case_op(TRM_OP_SLICE, case_shape(c, dtype, shape.rank, dims), 1, &a);
      i.slice = slice;
      case_add(c, body, i);
      return;
    }
    case 3: { /* reverse */
      int64_t which[TRM_MAX_RANK];
      int32_t count = 0;
      for (int32_t d = 0; d < shape.rank; ++d)
        if (case_random_below(2) == 0) which[count++] = d;
      trm_instruction i = case_op(TRM_OP_REVERSE, shape, 1, &a);
      i.dimensions = case_dims(c, count, which);
      case_add(c, body, i);
      return;
    }
    case 4: { /* reshape: flat, or with a dimension of 1 */
      int64_t dims[TRM_MAX_RANK + 1] = {trm_shape_count(&shape)};
      int32_t rank = 1;
      if (case_random_below(2) == 0 && shape.rank < 8) {
        rank = 0;
        for (int32_t d = 0; d < shape.rank; ++d) {
          if (case_random_below(2) == 0) dims[rank++] = 1;
          dims[rank++] = shape.dims[d];
        }
      }
      case_add(c, body, case_op(TRM_OP_RESHAPE, case_shape(c, dtype, rank, dims), 1, &a));
      return;
    }
    case 5: { /* iota */
      if (shape.rank == 0) return;
      trm_instruction i = case_op(TRM_OP_IOTA, shape, 0, NULL);
      const int64_t d = case_random_below(shape.rank);
      i.dimensions = case_dims(c, 1, &d);
      case_add(c, body, i);
      return;
    }
    case 6: { /* compare and select */
      trm_index three[3] = {0, a, a};
      for (trm_index k = 0; k < computation->num_instructions; ++k)
        if (same_dims(&computation->instructions[k].shape, &shape) &&
            computation->instructions[k].shape.dtype == dtype && case_random_below(2) == 0)
          three[2] = k;
      trm_instruction compare =
          case_op(TRM_OP_COMPARE, case_shape(c, TRM_PRED, shape.rank, shape.dims), 2, three + 1);
      compare.comparison = (trm_comparison)case_random_below(6);
      three[0] = case_add(c, body, compare);
      case_add(c, body, case_op(TRM_OP_SELECT, shape, 3, three));
      return;
    }
    default: { /* arithmetic */
      static const trm_opcode binary[] = {TRM_OP_ADD, TRM_OP_SUBTRACT, TRM_OP_MULTIPLY,
                                          TRM_OP_MAXIMUM, TRM_OP_MINIMUM};
      trm_index two[2] = {a, a};
      for (trm_index k = 0; k < computation->num_instructions; ++k)
        if (same_dims(&computation->instructions[k].shape, &shape) &&
            computation->instructions[k].shape.dtype == dtype && case_random_below(2) == 0)
          two[1] = k;
      if (case_random_below(3) == 0)
        case_add(c, body,
                 case_op(case_random_below(2) ? TRM_OP_NEGATE : TRM_OP_ABS, shape, 1, two));
      else case_add(c, body, case_op(binary[case_random_below(5)], shape, 2, two));
      return;
    }
  }
}

static void run_random_fusion(uint64_t seed) {
  static const trm_dtype types[] = {TRM_F32, TRM_F16, TRM_S32, TRM_U8};
  case_random_state = seed * 0x9e3779b97f4a7c15u + 1;
  (void)case_random();
  fast_case c = case_create();
  trm_error error = {0};
  uint32_t body;
  const trm_dtype dtype = types[case_random_below(4)];
  case_check(trm_module_add_computation(c.module, "body", &body, &error), &error);
  trm_index operands[4];
  const uint32_t num = (uint32_t)case_random_below(3) + 1;
  for (uint32_t i = 0; i < num; ++i) {
    const trm_shape shape = random_shape(&c, dtype);
    operands[i] = case_parameter(&c, c.computation, shape);
    case_parameter(&c, body, shape);
  }
  const int64_t steps = case_random_below(14) + 1;
  for (int64_t i = 0; i < steps; ++i) add_random(&c, body, dtype);
  trm_computation *computation = &c.module->computations[body];
  trm_shape shape = computation->instructions[computation->num_instructions - 1].shape;
  if (case_random_below(2) == 0) {
    trm_index roots[3];
    trm_shape shapes[3];
    const uint32_t num_roots = (uint32_t)case_random_below(3) + 1;
    for (uint32_t i = 0; i < num_roots; ++i) {
      roots[i] = (trm_index)case_random_below(computation->num_instructions);
      shapes[i] = computation->instructions[roots[i]].shape;
    }
    assert_true(trm_shape_make_tuple(&c.module->arena, (int32_t)num_roots, shapes, &shape));
    case_add(&c, body, case_op(TRM_OP_TUPLE, shape, num_roots, roots));
  }
  trm_instruction fusion = case_op(TRM_OP_FUSION, shape, num, operands);
  fusion.fusion_kind = "kLoop";
  fusion.num_called = 1;
  fusion.called = &body;
  const trm_index index = case_add(&c, c.computation, fusion);
  char what[64];
  snprintf(what, sizeof what, "fusion of seed %llu", (unsigned long long)seed);
  case_both(&c, index, VALUES_WILD, 0, 0, false, what);
  case_free(&c);
}

static void test_random_fusions(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 400; ++seed) run_random_fusion(seed);
}

/* A scalar for all elements: a constant or a parameter. */
static trm_index add_scalar(fast_case *c, uint32_t body, trm_shape shape, trm_index *operands,
                            uint32_t *num_operands) {
  const trm_shape scalar = case_shape(c, TRM_F32, 0, NULL);
  trm_index index;
  if (case_random_below(3) == 0 && *num_operands < 4) {
    operands[(*num_operands)++] = case_parameter(c, c->computation, scalar);
    index = case_parameter(c, body, scalar);
  } else {
    static const float choices[] = {0.0f, -0.0f, 1.0f, -1.5f, 0.3f, 7.0f, INFINITY, NAN};
    trm_error error;
    trm_instruction constant = case_op(TRM_OP_CONSTANT, scalar, 0, NULL);
    trm_literal *literal;
    case_check(trm_literal_make(&c->module->arena, &scalar, &literal, &error), &error);
    literal->leaves[0] = &choices[case_random_below(8)];
    constant.literal = literal;
    index = case_add(c, body, constant);
  }
  return case_add(c, body, case_op(TRM_OP_BROADCAST, shape, 1, &index));
}

/* Chains of arithmetic with scalars, and polynomials in either order of the operands. */
static void run_scalar_chain(uint64_t seed) {
  static const trm_opcode binary[] = {TRM_OP_ADD,    TRM_OP_SUBTRACT, TRM_OP_MULTIPLY,
                                      TRM_OP_DIVIDE, TRM_OP_MAXIMUM,  TRM_OP_MINIMUM};
  case_random_state = seed * 0x9e3779b97f4a7c15u + 7;
  (void)case_random();
  fast_case c = case_create();
  trm_error error = {0};
  uint32_t body, num_operands = 2;
  const int64_t n = counts[case_random_below(NUM_COUNTS)];
  const trm_shape shape = case_shape(&c, TRM_F32, 1, &n);
  case_check(trm_module_add_computation(c.module, "body", &body, &error), &error);
  trm_index operands[4], arrays[2];
  for (int i = 0; i < 2; ++i) {
    operands[i] = case_parameter(&c, c.computation, shape);
    arrays[i] = case_parameter(&c, body, shape);
  }
  trm_index value = arrays[0];
  for (int64_t steps = case_random_below(8) + 1; steps-- > 0;) {
    const trm_index other = case_random_below(3) == 0
                                ? arrays[1]
                                : add_scalar(&c, body, shape, operands, &num_operands);
    const bool swaps = case_random_below(2) == 0;
    trm_index two[2] = {swaps ? other : value, swaps ? value : other};
    switch (case_random_below(4)) {
      case 0: /* value z + scalar, several times */
        if (case_random_below(2) == 0) value = other;
        for (int64_t degree = case_random_below(5) + 1; degree-- > 0;) {
          trm_index factors[2] = {swaps ? arrays[1] : value, swaps ? value : arrays[1]};
          const trm_index product = case_add(&c, body, case_op(TRM_OP_MULTIPLY, shape, 2, factors));
          const trm_index scalar = add_scalar(&c, body, shape, operands, &num_operands);
          trm_index terms[2] = {swaps ? scalar : product, swaps ? product : scalar};
          value = case_add(&c, body, case_op(TRM_OP_ADD, shape, 2, terms));
        }
        break;
      case 1: {
        trm_index three[3] = {add_scalar(&c, body, shape, operands, &num_operands), value, other};
        value = case_add(&c, body, case_op(TRM_OP_CLAMP, shape, 3, three));
        break;
      }
      default:
        value = case_add(&c, body, case_op(binary[case_random_below(6)], shape, 2, two));
        break;
    }
  }
  /* The root is no scalar: an array is in it. */
  trm_index last[2] = {value, arrays[1]};
  case_add(&c, body, case_op(TRM_OP_SUBTRACT, shape, 2, last));
  trm_instruction fusion = case_op(TRM_OP_FUSION, shape, num_operands, operands);
  fusion.fusion_kind = "kLoop";
  fusion.num_called = 1;
  fusion.called = &body;
  const trm_index index = case_add(&c, c.computation, fusion);
  char what[64];
  snprintf(what, sizeof what, "chain of seed %llu", (unsigned long long)seed);
  case_both(&c, index, VALUES_WILD, 0, 0, false, what);
  case_free(&c);
}

static void test_scalar_chains(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 1500; ++seed) run_scalar_chain(seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_opcode),    cmocka_unit_test(test_converts),
      cmocka_unit_test(test_scalar_operands), cmocka_unit_test(test_random_fusions),
      cmocka_unit_test(test_scalar_chains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
