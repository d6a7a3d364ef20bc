/* Fast sort against the reference kernel. */
#include "fast_case.h"

#include "hlo/literal.h"

static void test_sort(void **state) {
  (void)state;
  static const trm_dtype types[] = {TRM_F32, TRM_F16, TRM_S32, TRM_U8, TRM_S64, TRM_U64, TRM_PRED};
  static const int64_t lengths[] = {1, 2, 15, 16, 17, 100, 1000, 3001};
  for (int64_t seed = 1; seed <= 200; ++seed) {
    case_random_state = (uint64_t)seed * 86028121;
    fast_case c = case_create();
    trm_error error = {0};
    int64_t dims[3] = {case_random_below(4) + 1, 1, case_random_below(3) + 1};
    const int64_t dimension = case_random_below(3);
    dims[dimension] = lengths[case_random_below(8)];
    const uint32_t n = (uint32_t)case_random_below(3) + 1;
    uint32_t body;
    case_check(trm_module_add_computation(c.module, NULL, &body, &error), &error);
    trm_index p[3], q[6];
    trm_shape shapes[3], tuple;
    for (uint32_t k = 0; k < n; ++k) {
      const trm_dtype dtype = types[case_random_below(7)];
      shapes[k] = case_shape(&c, dtype, 3, dims);
      p[k] = case_parameter(&c, c.computation, shapes[k]);
      q[2 * k] = case_parameter(&c, body, case_shape(&c, dtype, 0, NULL));
      q[2 * k + 1] = case_parameter(&c, body, case_shape(&c, dtype, 0, NULL));
    }
    assert_true(trm_shape_make_tuple(&c.module->arena, (int32_t)n, shapes, &tuple));
    const uint32_t key = (uint32_t)case_random_below(n);
    trm_index two[2] = {q[2 * key], q[2 * key + 1]};
    if (case_random_below(4) == 0) two[0] = q[2 * key + 1], two[1] = q[2 * key];
    trm_instruction compare = case_op(TRM_OP_COMPARE, case_shape(&c, TRM_PRED, 0, NULL), 2, two);
    compare.comparison = case_random_below(2) ? TRM_CMP_LT : TRM_CMP_GT;
    compare.comparison_type = case_random_below(2) ? TRM_CMPTYPE_DEFAULT : TRM_CMPTYPE_TOTALORDER;
    case_add(&c, body, compare);
    trm_instruction i = case_op(TRM_OP_SORT, n == 1 ? shapes[0] : tuple, n, p);
    i.dimensions = case_dims(&c, 1, &dimension);
    i.num_called = 1;
    i.called = &body;
    const trm_index index = case_add(&c, c.computation, i);
    char what[64];
    snprintf(what, sizeof what, "sort, seed %lld", (long long)seed);
    case_both(&c, index, seed % 2 ? VALUES_WILD : VALUES_WHOLE, 0, 0, false, what);
    case_free(&c);
  }
}

static trm_index add_select(fast_case *c, uint32_t body, trm_shape shape, trm_index which,
                            trm_index yes, trm_index no) {
  trm_index three[3] = {which, yes, no};
  return case_add(c, body, case_op(TRM_OP_SELECT, shape, 3, three));
}

static trm_index add_compare(fast_case *c, uint32_t body, trm_index a, trm_index b,
                             trm_comparison comparison, trm_comparison_type type) {
  trm_index two[2] = {a, b};
  trm_instruction i = case_op(TRM_OP_COMPARE, case_shape(c, TRM_PRED, 0, NULL), 2, two);
  i.comparison = comparison;
  i.comparison_type = type;
  return case_add(c, body, i);
}

static trm_index add_constant(fast_case *c, uint32_t body, trm_shape shape, double value) {
  trm_instruction i = case_op(TRM_OP_CONSTANT, shape, 0, NULL);
  trm_literal *literal;
  trm_error error = {0};
  case_check(trm_literal_make(&c->module->arena, &shape, &literal, &error), &error);
  const float number = (float)value;
  const int32_t whole = shape.dtype == TRM_S32 ? (int32_t)value : 0;
  memcpy((void *)literal->leaves[0], shape.dtype == TRM_S32 ? (const void *)&whole : &number, 4);
  i.literal = literal;
  return case_add(c, body, i);
}

/* One zero and one NaN, as JAX compares floats. */
static trm_index add_canonical(fast_case *c, uint32_t body, trm_shape shape, trm_index x) {
  const trm_index zero = add_constant(c, body, shape, 0.0);
  const trm_index nan = add_constant(c, body, shape, NAN);
  const trm_index is_zero = add_compare(c, body, x, zero, TRM_CMP_EQ, TRM_CMPTYPE_DEFAULT);
  const trm_index is_nan = add_compare(c, body, x, x, TRM_CMP_NE, TRM_CMPTYPE_DEFAULT);
  return add_select(c, body, shape, is_nan, nan, add_select(c, body, shape, is_zero, zero, x));
}

/* A function of each element: bits in the order of the numbers (TensorFlow), or the distance. */
static trm_index add_function(fast_case *c, uint32_t body, trm_shape shape, trm_index x,
                              bool is_bits) {
  if (!is_bits) return case_add(c, body, case_op(TRM_OP_ABS, shape, 1, &x));
  const trm_shape whole = case_shape(c, TRM_S32, 0, NULL);
  const trm_index bits = case_add(c, body, case_op(TRM_OP_BITCAST_CONVERT, whole, 1, &x));
  const trm_index zero = add_constant(c, body, whole, 0),
                  all = add_constant(c, body, whole, INT32_MAX);
  trm_index two[2] = {bits, all};
  const trm_index flipped = case_add(c, body, case_op(TRM_OP_XOR, whole, 2, two));
  return add_select(c, body, whole,
                    add_compare(c, body, bits, zero, TRM_CMP_LT, TRM_CMPTYPE_DEFAULT), flipped,
                    bits);
}

/* Comparators of JAX and TensorFlow with one and two keys, and one that has no keys. */
static void test_comparators(void **state) {
  (void)state;
  static const int64_t lengths[] = {1, 2, 17, 300, 600, 2500, 40000};
  for (int64_t seed = 1; seed <= 120; ++seed) {
    case_random_state = (uint64_t)seed * 67867979;
    fast_case c = case_create();
    trm_error error = {0};
    const int64_t length = lengths[case_random_below(seed % 20 == 0 ? 7 : 6)];
    int64_t dims[2] = {case_random_below(3) + 1, length};
    const int64_t dimension = 1;
    uint32_t body;
    case_check(trm_module_add_computation(c.module, NULL, &body, &error), &error);
    const trm_shape scalar = case_shape(&c, TRM_F32, 0, NULL),
                    array = case_shape(&c, TRM_F32, 2, dims);
    trm_index p[2], q[4], key[2][2];
    for (int k = 0; k < 2; ++k) p[k] = case_parameter(&c, c.computation, array);
    for (int k = 0; k < 4; ++k) q[k] = case_parameter(&c, body, scalar);
    const int64_t kind = case_random_below(4);
    for (int k = 0; k < 2; ++k) {
      for (int side = 0; side < 2; ++side) {
        const trm_index x = q[2 * k + side];
        key[k][side] = kind == 0   ? add_canonical(&c, body, scalar, x)
                       : kind == 1 ? x
                                   : add_function(&c, body, scalar, x, kind == 2);
      }
    }
    const trm_comparison_type type = kind == 2 ? TRM_CMPTYPE_DEFAULT : TRM_CMPTYPE_TOTALORDER;
    const trm_comparison less = case_random_below(2) ? TRM_CMP_LT : TRM_CMP_GT;
    trm_index root = add_compare(&c, body, key[0][0], key[0][1], less, type);
    const int64_t shape = case_random_below(3);
    if (shape > 0) { /* then the second */
      const trm_index tie = add_compare(&c, body, key[0][0], key[0][1], TRM_CMP_EQ, type);
      const trm_index next = add_compare(&c, body, key[1][0], key[1][1], TRM_CMP_LT, type);
      if (shape == 1) {
        trm_index both[2] = {tie, next}, either[2] = {root, 0};
        either[1] =
            case_add(&c, body, case_op(TRM_OP_AND, case_shape(&c, TRM_PRED, 0, NULL), 2, both));
        root = case_add(&c, body, case_op(TRM_OP_OR, case_shape(&c, TRM_PRED, 0, NULL), 2, either));
      } else { /* the same, as no order of keys is recognised: it is merged */
        root = add_select(&c, body, case_shape(&c, TRM_PRED, 0, NULL), tie, next, root);
      }
    }
    if (case_random_below(2)) { /* as TensorFlow wraps it */
      const trm_shape one = case_shape(&c, TRM_PRED, 0, NULL);
      trm_instruction i = case_op(TRM_OP_CONSTANT, one, 0, NULL);
      trm_literal *yes;
      case_check(trm_literal_make(&c.module->arena, &one, &yes, &error), &error);
      *(uint8_t *)yes->leaves[0] = 1;
      i.literal = yes;
      const trm_index constant = case_add(&c, body, i);
      const trm_index all =
          case_add(&c, body, case_op(TRM_OP_BROADCAST, one, 1, (trm_index *)&constant));
      root = add_select(&c, body, one, all, root, all);
    }
    c.module->computations[body].root = root;
    trm_shape shapes[2] = {array, array}, tuple;
    assert_true(trm_shape_make_tuple(&c.module->arena, 2, shapes, &tuple));
    trm_instruction i = case_op(TRM_OP_SORT, tuple, 2, p);
    i.dimensions = case_dims(&c, 1, &dimension);
    i.num_called = 1;
    i.called = &body;
    const trm_index index = case_add(&c, c.computation, i);
    char what[64];
    snprintf(what, sizeof what, "comparator %lld of form %lld, seed %lld", (long long)kind,
             (long long)shape, (long long)seed);
    case_both(&c, index, kind == 3 || seed % 2 == 0 ? VALUES_WHOLE : VALUES_WILD, 0, 0, false,
              what);
    case_free(&c);
  }
}

static void test_topk(void **state) {
  (void)state;
  static const trm_dtype types[] = {TRM_F32, TRM_F16, TRM_S32, TRM_U8, TRM_U32};
  for (int64_t seed = 1; seed <= 60; ++seed) {
    case_random_state = (uint64_t)seed * 49979687;
    fast_case c = case_create();
    const trm_dtype dtype = types[case_random_below(5)];
    const int64_t n = case_random_below(seed % 10 == 0 ? 9000 : 300) + 1;
    const int64_t from[2] = {case_random_below(3) + 1, n};
    const int64_t to[2] = {from[0], case_random_below(n) + 1};
    const trm_index p = case_parameter(&c, c.computation, case_shape(&c, dtype, 2, from));
    trm_shape shapes[2] = {case_shape(&c, dtype, 2, to), case_shape(&c, TRM_S32, 2, to)}, tuple;
    assert_true(trm_shape_make_tuple(&c.module->arena, 2, shapes, &tuple));
    trm_instruction i = case_op(TRM_OP_TOPK, tuple, 1, (trm_index *)&p);
    i.number = to[1];
    i.largest = case_random_below(2) != 0;
    const trm_index index = case_add(&c, c.computation, i);
    char what[64];
    snprintf(what, sizeof what, "topk, seed %lld", (long long)seed);
    case_both(&c, index, seed % 2 ? VALUES_WILD : VALUES_WHOLE, 0, 0, false, what);
    case_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sort),
      cmocka_unit_test(test_comparators),
      cmocka_unit_test(test_topk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
