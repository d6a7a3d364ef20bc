/* Shapes of every opcode, and what is said about wrong ones. Each case is HLO text; the verifier
 * infers every shape and compares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hlo/hlo.h"

/* Functions that cases call. */
static const char prelude[] =
    "HloModule m\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
    "add_s32 { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }\n"
    "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }\n"
    "less { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)"
    " ROOT r = pred[] compare(a, b), direction=LT }\n"
    "both { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = s32[] parameter(3)"
    " e = f32[] add(a, c) f = s32[] add(b, d) ROOT r = (f32[], s32[]) tuple(e, f) }\n"
    "cond { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0"
    " n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }\n"
    "body { ROOT s = (s32[], f32[4]) parameter(0) }\n"
    "cond4 { s = f32[4] parameter(0) ROOT r = s32[] constant(1) }\n"
    "neg { a = f32[4] parameter(0) ROOT r = f32[4] negate(a) }\n"
    "twice { a = f32[4] parameter(0) ROOT r = f32[4] add(a, a) }\n"
    "len2 { a = f32[4] parameter(0) ROOT r = f32[2] slice(a), slice={[0:2]} }\n"
    "square { a = f32[] parameter(0) ROOT r = f32[] multiply(a, a) }\n";

/* Values that cases use. */
static const char values[] =
    " f = f32[] parameter(0) f4 = f32[4] parameter(1) f23 = f32[2,3] parameter(2)"
    " f34 = f32[3,4] parameter(3) h4 = f16[4] parameter(4) s = s32[] parameter(5)"
    " s4 = s32[4] parameter(6) p = pred[] parameter(7) p4 = pred[4] parameter(8)"
    " u4 = u32[4] parameter(9) c4 = c64[4] parameter(10) x = f32[2,8,8,3] parameter(11)"
    " k = f32[3,3,3,16] parameter(12) g4 = f32[5] parameter(13) m = f32[3,3] parameter(14)"
    " t = (s32[], f32[4]) parameter(15) tok = token[] parameter(16) u2 = u64[2] parameter(17)"
    " s31 = s32[3,1] parameter(18) f3 = f32[3] parameter(19) s64 = s64[] parameter(20) ";

typedef struct test_case {
  const char *instruction; /* "SHAPE opcode(operands), attributes" */
  const char *message;     /* what the refusal must say; NULL: it is right */
} test_case;

#define CONV "dim_labels=b01f_01io->b01f"
static const test_case cases[] = {
    /* elementwise */
    {"f32[4] exponential(f4)", NULL},
    {"s32[4] exponential(s4)", "exponential: is not defined for element type s32"},
    {"pred[4] is-finite(f4)", NULL},
    {"f32[4] abs(c4)", NULL},
    {"c64[4] abs(c4)", "its shape is stated as c64[4] and follows as f32[4]"},
    {"f32[4] add(f4, f4)", NULL},
    {"f32[4] add(f4, g4)", "add: operands differ: f32[4] and f32[5]"},
    {"f32[4] add(f4, h4)", "add: operands differ: f32[4] and f16[4]"},
    {"f32[5] add(f4, f4)", "its shape is stated as f32[5] and follows as f32[4]"},
    {"pred[4] subtract(p4, p4)", "subtract: is not defined for element type pred"},
    {"pred[4] and(p4, p4)", NULL},
    {"f32[4] and(f4, f4)", "and: is not defined for element type f32"},
    {"u32[4] shift-left(u4, u4)", NULL},
    {"pred[4] compare(c4, c4), direction=LT", "complex numbers have no order"},
    {"pred[4] compare(c4, c4), direction=EQ", NULL},
    {"c64[4] complex(f4, f4)", NULL},
    {"c64[4] complex(h4, h4)", "takes f32 or f64 parts, not f16"},
    {"f32[4] select(p, f4, f4)", NULL},
    {"f32[4] select(p4, f4, f4)", NULL},
    {"f32[5] select(p4, g4, g4)", "the predicate must be pred[] or a pred of the values' size"},
    {"f32[4] clamp(f, f4, f)", NULL},
    {"f32[4] clamp(f, f4, g4)", "a bound must be a scalar or an array like the operand f32[4]"},
    {"f16[4] convert(f4)", NULL},
    {"f32[4] convert(c4)", "cannot convert c64 to f32"},
    {"f16[4,2] bitcast-convert(f4)", NULL},
    {"f16[4] bitcast-convert(f4)", "follows as f16[4,2]"},
    {"f32[4] reduce-precision(f4), exponent_bits=0, mantissa_bits=3", "at least 1 exponent bit"},
    {"f32[4] negate(t)", "operand 0 must be an array, not (s32[], f32[4])"},
    /* data */
    {"f32[2,3,4] broadcast(f34), dimensions={1,2}", NULL},
    {"f32[2,4,3] broadcast(f34), dimensions={1,2}", "their sizes must be equal"},
    {"f32[2,3,4] broadcast(f34), dimensions={1,1}", "names dimension 1 twice"},
    {"f32[2,3] broadcast(f), dimensions={0}", "names 1 dimensions for an operand that has 0"},
    {"f32[6] reshape(f23)", NULL},
    {"f32[7] reshape(f23)", "f32[2,3] cannot become f32[7]"},
    {"f32[3,2] transpose(f23), dimensions={1,0}", NULL},
    {"f32[3,2] transpose(f23), dimensions={1,2}", "names dimension 2, which is not in 0..1"},
    {"f32[1,2] slice(f23), slice={[0:1], [0:3:2]}", NULL},
    {"f32[1,2] slice(f23), slice={[0:1], [2:4]}", "takes [2:4] of dimension 1 of f32[2,3]"},
    {"f32[1,2] dynamic-slice(f23, s, s), dynamic_slice_sizes={1,2}", NULL},
    {"f32[1,2] dynamic-slice(f23, s), dynamic_slice_sizes={1,2}", "takes 2 start indices"},
    {"f32[1,2] dynamic-slice(f23, s, s64), dynamic_slice_sizes={1,2}", "must have one type"},
    {"f32[1,9] dynamic-slice(f23, s, s), dynamic_slice_sizes={1,9}", "takes 9 elements"},
    {"f32[4] dynamic-update-slice(f4, f4, s)", NULL},
    {"f32[4] dynamic-update-slice(f4, g4, s)", "the update f32[5] is larger than"},
    {"f32[9] concatenate(f4, g4), dimensions={0}", NULL},
    {"f32[9] concatenate(f4, h4), dimensions={0}", "differ in more than dimension 0"},
    {"f32[8] pad(f4, f), padding=-1_2_1", NULL},
    {"f32[8] pad(f4, s), padding=-1_2_1", "the padding value must be f32[], not s32[]"},
    {"f32[8] pad(f4, f), padding=-9_2_0", "would get the size -3"},
    {"f32[4] reverse(f4), dimensions={1}", "names dimension 1, which is not in 0..0"},
    {"s32[2,3] iota(), iota_dimension=1", NULL},
    {"s32[2,3] iota(), iota_dimension=2", "must name one dimension"},
    {"f32[4] get-tuple-element(t), index=1", NULL},
    {"f32[4] get-tuple-element(t), index=2", "element 2 of a tuple that has 2 does not exist"},
    {"f32[4] get-tuple-element(f4), index=0", "the operand must be a tuple"},
    {"(f32[], (s32[], f32[4])) tuple(f, t)", NULL},
    {"u32[] replica-id()", NULL},
    /* gather, scatter */
    {"f32[3,4] gather(f34, s31), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},"
     " index_vector_dim=1, slice_sizes={1,4}",
     NULL},
    {"f32[3,4] gather(f34, s31), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},"
     " index_vector_dim=1, slice_sizes={2,4}",
     "must have the slice size 1, not 2"},
    {"f32[3,4] gather(f34, s31), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},"
     " index_vector_dim=1, slice_sizes={1,5}",
     "slice size 5 does not fit dimension 1"},
    {"f32[3,4] gather(f34, s31), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1},"
     " index_vector_dim=1, slice_sizes={1,4}",
     "has 2 dimensions and an index vector 1 elements"},
    {"f32[3,4] gather(f34, f3), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},"
     " index_vector_dim=1, slice_sizes={1,4}",
     "the indices must be integers"},
    {"f32[3,4] scatter(f34, s31, f34), update_window_dims={1}, inserted_window_dims={0},"
     " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     NULL},
    {"f32[3,4] scatter(f34, s31, m), update_window_dims={1}, inserted_window_dims={0},"
     " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_s32",
     "of computation add_s32 must be f32[], not s32[]"},
    {"f32[3,4] scatter(f34, s31, f23), update_window_dims={1}, inserted_window_dims={0},"
     " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     "must have 3 elements, as the indices"},
    /* reductions */
    {"f32[2] reduce(f23, f), dimensions={1}, to_apply=add", NULL},
    {"f32[3] reduce(f23, f), dimensions={1}, to_apply=add", "follows as f32[2]"},
    {"f32[2] reduce(f23, s), dimensions={1}, to_apply=add", "must be f32[], not s32[]"},
    {"f32[2] reduce(f23, f), dimensions={2}, to_apply=add", "names dimension 2"},
    {"f32[2] reduce(f23, f), dimensions={1}, to_apply=add_s32",
     "parameter 0 of computation add_s32"},
    {"(f32[], s32[]) reduce(f4, s4, f, s), dimensions={0}, to_apply=both", NULL},
    {"f32[2,4,4,3] reduce-window(x, f), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add", NULL},
    {"f32[2,3] reduce-window(f23, f), window={size=2}, to_apply=add",
     "its window has 1 dimensions where there are 2"},
    {"f32[4] select-and-scatter(f4, f3, f), window={size=2}, select=ge, scatter=add", NULL},
    {"f32[4] select-and-scatter(f4, f4, f), window={size=2}, select=ge, scatter=add",
     "the window has the positions f32[3]"},
    {"(f32[4], s32[4]) sort(f4, s4), dimensions={0}, to_apply=less", NULL},
    {"f32[4] sort(f4), dimensions={0}, to_apply=less", "must take 2 parameters, not 4"},
    {"(f32[2,3], f32[3], f32[3]) batch-norm-training(f23, f3, f3), epsilon=0.1, feature_index=1",
     NULL},
    {"(f32[2,3], f32[3], f32[3]) batch-norm-training(f23, f4, f3), epsilon=0.1, feature_index=1",
     "operand 1 must be f32[3], not f32[4]"},
    {"(f32[2], s32[2]) topk(f4), k=2", NULL},
    {"(f32[9], s32[9]) topk(f4), k=9", "cannot take 9 elements"},
    /* dot, convolution */
    {"f32[2,4] dot(f23, f34), lhs_contracting_dims={1}, rhs_contracting_dims={0}", NULL},
    {"f16[2,4] dot(f23, f34), lhs_contracting_dims={1}, rhs_contracting_dims={0}", NULL},
    {"f32[2,4] dot(f23, f34), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
     "algorithm=dot_tf32_tf32_f32_x3",
     NULL},
    {"f64[2,4] dot(f23, f34), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
     "algorithm=dot_f64_f64_f64",
     "dot: has algorithm=dot_f64_f64_f64, and operand 0 is f32: convert it to f64"},
    {"s32[2,4] dot(f23, f34), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "products of f32 cannot be summed as s32"},
    {"f32[2,3] dot(f23, f34), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
     "must have equal sizes"},
    {"f32[2,8,8,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, " CONV, NULL},
    {"f32[2,6,6,16] convolution(x, k), window={size=3x3}, " CONV, NULL},
    {"f32[2,8,8,16] convolution(x, k), window={size=2x3 pad=1_1x1_1}, " CONV,
     "has size 2 and the kernel f32[3,3,3,16] has 3"},
    {"f32[2,8,8,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, feature_group_count=3, " CONV,
     "has 3 features in 3 groups; the kernel f32[3,3,3,16] takes 3"},
    {"f32[3,3] cholesky(m), lower=true", NULL},
    {"f32[3,4] cholesky(f34), lower=true", "takes square matrices, not f32[3,4]"},
    {"c64[3] fft(f4), fft_type=RFFT, fft_length={4}", NULL},
    {"c64[4] fft(f4), fft_type=FFT, fft_length={4}", "takes complex numbers, not f32[4]"},
    /* control */
    {"(s32[], f32[4]) while(t), condition=cond, body=body", NULL},
    {"f32[4] while(f4), condition=cond4, body=neg", "must return pred[], not s32[]"},
    {"f32[4] while(f4), condition=cond, body=neg",
     "of computation cond is (s32[], f32[4]) and is given"},
    {"f32[4] conditional(p, f4, f4), true_computation=neg, false_computation=twice", NULL},
    {"f32[4] conditional(s, f4, f4), branch_computations={neg, twice}", NULL},
    {"f32[4] conditional(p, f4, f4), true_computation=neg, false_computation=len2",
     "branch 1 returns f32[2] and the first one f32[4]"},
    {"f32[4] conditional(f, f4, f4), branch_computations={neg, twice}", "the choice must be"},
    {"f32[4] call(f4), to_apply=neg", NULL},
    {"f32[4] call(g4), to_apply=neg", "is f32[4] and is given f32[5]"},
    {"f32[4] fusion(f4), kind=kLoop, calls=neg", NULL},
    {"f32[4] map(f4), dimensions={0}, to_apply=square", NULL},
    {"f32[4] map(f4, f4), dimensions={0}, to_apply=square", "must take 2 parameters, not 1"},
    /* the rest */
    {"f32[4] all-reduce(f4), replica_groups={}, to_apply=add", NULL},
    {"f32[8] all-gather(f4), replica_groups={{0,1}}, dimensions={0}", NULL},
    {"f32[7] all-gather(f4), replica_groups={{0,1}}, dimensions={0}", "does not fit the operand"},
    {"f32[2] reduce-scatter(f4), replica_groups={{0,1}}, dimensions={0}, to_apply=add", NULL},
    {"((f32[4]), token[]) infeed(tok)", NULL},
    {"((f32[4]), token[]) infeed(f4)", "operand 0 must be a token"},
    {"token[] outfeed(f4, tok)", NULL},
    {"f32[4] rng(f, f), distribution=rng_uniform", NULL},
    {"f32[4] rng(s, s), distribution=rng_uniform", "operand 0 must be f32[], not s32[]"},
    {"(u64[2], u32[5]) rng-bit-generator(u2), algorithm=rng_philox", NULL},
    {"(u64[2], f32[5]) rng-bit-generator(u2), algorithm=rng_philox", "an array of integers"},
    {"f32[4] opt-barrier(f4)", NULL},
    {"s32[] get-dimension-size(f4), dimensions={0}", NULL},
    {"f32[4] set-dimension-size(f4, s), dimensions={0}", NULL},
    {"f32[4] custom-call(f4), custom_call_target=\"any\"", NULL},
};

static void test_cases(void **state) {
  (void)state;
  int failures = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const test_case *c = &cases[i];
    char text[8192];
    const int length = snprintf(text, sizeof text, "%sENTRY main {%s ROOT result = %s }\n", prelude,
                                values, c->instruction);
    trm_error error = {0};
    trm_module *module = NULL;
    trm_status status = trm_hlo_parse_text(text, (size_t)length, &module, &error);
    if (status == TRM_OK) status = trm_module_verify(module, &error);
    if (c->message == NULL && status != TRM_OK) {
      print_error("%s\n  refused: %s\n", c->instruction, error.message);
      ++failures;
    }
    if (c->message != NULL && (status == TRM_OK || strstr(error.message, c->message) == NULL)) {
      print_error("%s\n  must say \"%s\"\n  and says \"%s\"\n", c->instruction, c->message,
                  status == TRM_OK ? "fine" : error.message);
      ++failures;
    }
    trm_module_free(module);
  }
  assert_int_equal(failures, 0);
}

/* ---- Whole modules -------------------------------------------------------------------------- */

static trm_module *parse(const char *text) {
  trm_error error = {0};
  trm_module *module = NULL;
  if (trm_hlo_parse_text(text, strlen(text), &module, &error) != TRM_OK)
    fail_msg("%s", error.message);
  return module;
}

static void expect_refused(const trm_module *module, const char *message) {
  trm_error error = {0};
  assert_int_equal(trm_module_verify(module, &error), TRM_INVALID_ARGUMENT);
  if (strstr(error.message, message) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", error.message, message);
  }
}

static void test_structure(void **state) {
  (void)state;
  trm_module *module =
      parse("HloModule m\n neg { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }\n"
            "ENTRY main { c = f32[4] parameter(0) d = f32[4] call(c), to_apply=neg"
            " ROOT e = f32[4] add(c, d) }");
  trm_error error;
  trm_computation *entry = &module->computations[module->entry];
  assert_int_equal(trm_module_verify(module, &error), TRM_OK);
  trm_instruction *add = &entry->instructions[entry->root];
  const trm_index before = add->operands[1];
  add->operands[1] = entry->root;
  expect_refused(module, "operand 1 does not come before it");
  add->operands[1] = before;
  uint32_t callee = 0;
  add->called = &callee;
  add->num_called = 1;
  expect_refused(module, "calls 1 computations; it must call 0");
  add->num_called = 0;
  const char *name = add->name;
  add->name = entry->instructions[0].name;
  expect_refused(module, "two instructions have the name c");
  add->name = name;
  trm_index self = entry->root;
  add->control_predecessors = &self;
  add->num_control_predecessors = 1;
  expect_refused(module, "control predecessor 0 does not come before it");
  add->num_control_predecessors = 0;
  const trm_index root = entry->root;
  entry->root = 99;
  expect_refused(module, "has no root");
  entry->root = root;
  entry->num_parameters = 0;
  expect_refused(module, "its number 0 is not its place among the parameters");
  entry->num_parameters = 1;
  entry->instructions[before].called[0] = module->entry;
  expect_refused(module, "does not come before main");
  entry->instructions[before].called[0] = module->entry == 0 ? 1 : 0;
  int64_t zero = 0;
  trm_alias aliases[2] = {{.parameter_number = 0}, {.parameter_number = 0}};
  module->aliases = aliases;
  module->num_aliases = 1;
  assert_int_equal(trm_module_verify(module, &error), TRM_OK);
  module->num_aliases = 2;
  expect_refused(module, "has an alias already");
  module->num_aliases = 1;
  aliases[0].parameter_number = 3;
  expect_refused(module, "names parameter 3; the entry has 1");
  aliases[0].parameter_number = 0;
  aliases[0].output_index = (trm_dims){1, &zero};
  expect_refused(module, "names no output");
  module->num_aliases = 0;
  module->entry = 7;
  expect_refused(module, "has no entry");
  trm_module_free(module);
}

/* The arrays in tuples of arrays, and in tuples that have tuples and tokens between. */
static void test_leaves(void **state) {
  (void)state;
  trm_shape flat[] = {{.dtype = TRM_F32}, {.dtype = TRM_S32}, {.dtype = TRM_PRED}};
  const trm_shape inner = {.dtype = TRM_TUPLE, .num_elements = 3, .elements = flat};
  assert_int_equal(trm_shape_num_leaves(&inner), 3);
  for (int32_t i = 0; i < 3; ++i) assert_ptr_equal(trm_shape_leaf(&inner, i), &flat[i]);
  assert_null(trm_shape_leaf(&inner, 3));
  trm_shape mixed[] = {{.dtype = TRM_F16}, {.dtype = TRM_TOKEN}, inner, {.dtype = TRM_U8}};
  const trm_shape outer = {.dtype = TRM_TUPLE, .num_elements = 4, .elements = mixed};
  const trm_shape *leaves[] = {&mixed[0], &flat[0], &flat[1], &flat[2], &mixed[3], NULL};
  assert_int_equal(trm_shape_num_leaves(&outer), 5);
  for (int32_t i = 0; i < 6; ++i) assert_ptr_equal(trm_shape_leaf(&outer, i), leaves[i]);
  assert_int_equal(trm_shape_leaf_offset(&outer, 3), 4);
  assert_int_equal(trm_shape_num_leaves(&mixed[1]), 0);
  const trm_shape empty = {.dtype = TRM_TUPLE};
  assert_int_equal(trm_shape_num_leaves(&empty), 0);
  assert_null(trm_shape_leaf(&empty, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_structure),
                                     cmocka_unit_test(test_leaves)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
