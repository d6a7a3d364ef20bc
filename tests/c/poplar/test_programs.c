/* Programs: copies, library steps, control, and how inputs and outputs are variables. */
#include "poplar_case.h"

#include <math.h>

static trm_poplar_node placeholder(uint64_t index) {
  return (trm_poplar_node){.kind = TRM_POPLAR_NODE_PLACEHOLDER, .value.index = index};
}
static trm_poplar_node number(double value) {
  return (trm_poplar_node){.kind = TRM_POPLAR_NODE_NUMBER, .value.real = value};
}
static trm_poplar_node binary(uint32_t op, uint32_t a, uint32_t b) {
  return (trm_poplar_node){.kind = TRM_POPLAR_NODE_BINARY, .op = op, .operands = {a, b}};
}

/* x * 2 + y, to a new variable or to *result. */
static void add_scaled(trm_poplar_graph *graph, trm_poplar_program **sequence,
                       const trm_poplar_tensor *x, const trm_poplar_tensor *y, double scale,
                       trm_poplar_tensor **result) {
  const trm_poplar_node nodes[] = {placeholder(0), number(scale),
                                   binary(TRM_POPLAR_BINARY_MULTIPLY, 0, 1), placeholder(1),
                                   binary(TRM_POPLAR_BINARY_ADD, 2, 3)};
  const trm_poplar_tensor *const operands[] = {x, y};
  OK(api->step_map(graph, nodes, 5, operands, 2, sequence, "scaled", result, &failure));
}

static void test_copy(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence();
  trm_poplar_tensor *x = new_variable(graph, TRM_S32, 3, 4, "x"), *turned = NULL, *backward = NULL;
  trm_poplar_tensor *y = new_variable(graph, TRM_S32, 4, 3, "y");
  const uint32_t swapped[] = {1, 0};
  OK(api->tensor_dim_shuffle(x, swapped, 2, &turned, &failure));
  OK(api->tensor_pick(y, -1, 0, &backward, &failure));
  add_copy(graph, &sequence, turned, y);
  add_copy(graph, &sequence, backward, y); /* overlaps itself */
  machine m = new_machine(graph, sequence, &x, 1, &y, 1);
  assert_true(m.plan->input_ports[0].is_direct);
  assert_true(m.plan->output_ports[0].is_direct);
  const int32_t data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const int32_t expected[12] = {3, 7, 11, 2, 6, 10, 1, 5, 9, 0, 4, 8};
  int32_t result[12];
  run_machine(&m, (const void *const[]){data}, (void *const[]){result});
  assert_memory_equal(result, expected, sizeof expected);
  free_machine(&m);
  release_tensors((trm_poplar_tensor *const[]){x, y, turned, backward}, 4);
  api->program_release(sequence);
  api->graph_release(graph);
}

/* A transposed copy of a size at which segments are read in groups and on all threads. */
static void test_large_copy(void **state) {
  (void)state;
  enum { ROWS = 700, COLUMNS = 333 };
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence();
  trm_poplar_tensor *x = new_variable(graph, TRM_F16, ROWS, COLUMNS, "x"), *turned = NULL;
  trm_poplar_tensor *y = new_variable(graph, TRM_F16, COLUMNS, ROWS, "y");
  const uint32_t swapped[] = {1, 0};
  OK(api->tensor_dim_shuffle(x, swapped, 2, &turned, &failure));
  add_copy(graph, &sequence, turned, y);
  machine m = new_machine(graph, sequence, &x, 1, &y, 1);
  static uint16_t data[ROWS * COLUMNS], result[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; ++i) data[i] = (uint16_t)(i * 7);
  run_machine(&m, (const void *const[]){data}, (void *const[]){result});
  for (int i = 0; i < ROWS; ++i) {
    for (int j = 0; j < COLUMNS; ++j) {
      assert_int_equal(result[j * ROWS + i], data[i * COLUMNS + j]);
    }
  }
  free_machine(&m);
  release_tensors((trm_poplar_tensor *const[]){x, y, turned}, 3);
  api->program_release(sequence);
  api->graph_release(graph);
}

/* Some columns of a matrix as the rows of another, and back, in elements of all sizes. */
static void test_columns(void **state) {
  (void)state;
  enum { ROWS = 70, COLUMNS = 40, SOME = 23 };
  static const int32_t dtypes[] = {TRM_U8, TRM_F16, TRM_F32, TRM_S64};
  static const uint64_t parts[][2] = {{0, 20}, {25, 26}, {22, 24}};
  static const uint32_t swapped[] = {1, 0};
  for (size_t k = 0; k < 4; ++k) {
    trm_poplar_graph *graph = new_graph();
    trm_poplar_program *sequence = new_sequence();
    trm_poplar_tensor *x = new_variable(graph, dtypes[k], ROWS, COLUMNS, "x");
    trm_poplar_tensor *y = new_variable(graph, dtypes[k], SOME, ROWS, "y");
    trm_poplar_tensor *z = new_variable(graph, dtypes[k], ROWS, COLUMNS, "z");
    for (int back = 0; back < 2; ++back) {
      trm_poplar_tensor *slices[3], *chosen, *turned;
      for (int p = 0; p < 3; ++p) {
        OK(api->tensor_slice(back == 1 ? z : x, 1, parts[p][0], parts[p][1], &slices[p], &failure));
      }
      OK(api->tensor_concat((const trm_poplar_tensor *const *)slices, 3, 1, &chosen, &failure));
      OK(api->tensor_dim_shuffle(chosen, swapped, 2, &turned, &failure));
      add_copy(graph, &sequence, back == 1 ? y : turned, back == 1 ? turned : y);
      release_tensors((trm_poplar_tensor *const[]){slices[0], slices[1], slices[2], chosen, turned},
                      5);
    }
    machine m = new_machine(graph, sequence, &x, 1, (trm_poplar_tensor *const[]){y, z}, 2);
    const size_t size = trm_dtype_size((trm_dtype)dtypes[k]);
    static uint8_t data[ROWS * COLUMNS * 8], rows[SOME * ROWS * 8], again[ROWS * COLUMNS * 8];
    for (size_t i = 0; i < ROWS * COLUMNS * size; ++i) data[i] = (uint8_t)(i * 41 >> 3);
    run_machine(&m, (const void *const[]){data}, (void *const[]){rows, again});
    size_t row = 0;
    for (int p = 0; p < 3; ++p) {
      for (uint64_t column = parts[p][0]; column < parts[p][1]; ++column, ++row) {
        for (size_t r = 0; r < ROWS; ++r) {
          const size_t at = (r * COLUMNS + column) * size;
          assert_memory_equal(&rows[(row * ROWS + r) * size], &data[at], size);
          assert_memory_equal(&again[at], &data[at], size);
        }
      }
    }
    free_machine(&m);
    release_tensors((trm_poplar_tensor *const[]){x, y, z}, 3);
    api->program_release(sequence);
    api->graph_release(graph);
  }
}

static void test_map(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence();
  trm_poplar_tensor *x = new_variable(graph, TRM_F32, 2, 3, "x");
  trm_poplar_tensor *row = new_variable(graph, TRM_F32, 3, 0, "row"), *z = NULL, *column = NULL;
  add_scaled(graph, &sequence, x, row, 2, &z); /* broadcasts */
  OK(api->tensor_slice(z, 1, 1, 2, &column, &failure));
  add_scaled(graph, &sequence, column, column, 1, &column); /* in place, not contiguous */
  trm_poplar_tensor *const inputs[] = {x, row};
  machine m = new_machine(graph, sequence, inputs, 2, &z, 1);
  const float a[6] = {1, 2, 3, 4, 5, 6}, b[3] = {10, 20, 30};
  const float expected[6] = {12, 48, 36, 18, 60, 42};
  float result[6];
  run_machine(&m, (const void *const[]){a, b}, (void *const[]){result});
  assert_memory_equal(result, expected, sizeof expected);
  free_machine(&m);
  release_tensors((trm_poplar_tensor *const[]){x, row, z, column}, 4);
  api->program_release(sequence);
  api->graph_release(graph);
}

/* Every operation of popops: one that is not composed rightly gives a mistake or another number. */
static void test_every_operation(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  for (uint32_t kind = 0; kind < 2; ++kind) {
    const uint32_t count = kind == 0 ? TRM_POPLAR_NUM_UNARY : TRM_POPLAR_NUM_BINARY;
    for (uint32_t op = 0; op < count; ++op) {
      const bool logical =
          kind == 0 ? op == TRM_POPLAR_UNARY_LOGICAL_NOT
                    : op == TRM_POPLAR_BINARY_LOGICAL_AND || op == TRM_POPLAR_BINARY_LOGICAL_OR;
      const bool integral =
          kind == 0
              ? op == TRM_POPLAR_UNARY_BITWISE_NOT || op == TRM_POPLAR_UNARY_POPCOUNT ||
                    op == TRM_POPLAR_UNARY_COUNT_LEADING_ZEROS
              : (op >= TRM_POPLAR_BINARY_BITWISE_AND && op <= TRM_POPLAR_BINARY_BITWISE_XOR) ||
                    (op >= TRM_POPLAR_BINARY_SHIFT_LEFT &&
                     op <= TRM_POPLAR_BINARY_SHIFT_RIGHT_SIGN_EXTEND);
      trm_poplar_program *sequence = new_sequence();
      trm_poplar_tensor *x = new_variable(graph,
                                          logical    ? TRM_PRED
                                          : integral ? TRM_S32
                                                     : TRM_F32,
                                          5, 0, "x");
      trm_poplar_tensor *z = NULL;
      const trm_poplar_node nodes[] = {
          placeholder(0),
          placeholder(0),
          {.kind = kind == 0 ? TRM_POPLAR_NODE_UNARY : TRM_POPLAR_NODE_BINARY,
           .op = op,
           .operands = {0, 1}}};
      const trm_poplar_tensor *const operand = x;
      OK(api->step_map(graph, nodes, 3, &operand, 1, &sequence, "op", &z, &failure));
      release_tensors((trm_poplar_tensor *const[]){x, z}, 2);
      api->program_release(sequence);
    }
  }
  api->graph_release(graph);
}

static float one_value(uint32_t kind, uint32_t op, float a, float b, float c) {
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence();
  trm_poplar_tensor *x[3], *z = NULL;
  for (int i = 0; i < 3; ++i) {
    const bool is_predicate = op == TRM_POPLAR_TERNARY_SELECT && i == 2 && kind == 4;
    x[i] = new_variable(graph, is_predicate ? TRM_PRED : TRM_F32, 1, 0, "x");
  }
  const trm_poplar_node nodes[] = {placeholder(0),
                                   placeholder(1),
                                   placeholder(2),
                                   {.kind = kind, .op = op, .operands = {0, 1, 2}}};
  OK(api->step_map(graph, nodes, 4, (const trm_poplar_tensor *const *)x, 3, &sequence, "op", &z,
                   &failure));
  machine m = new_machine(graph, sequence, x, 3, &z, 1);
  float result = 0;
  const uint8_t predicate = c != 0;
  const void *third = m.plan->inputs[2]->dtype == TRM_PRED ? (const void *)&predicate : &c;
  run_machine(&m, (const void *const[]){&a, &b, third}, (void *const[]){&result});
  if (m.plan->outputs[0]->dtype == TRM_PRED) {
    uint8_t asked;
    memcpy(&asked, &result, 1);
    result = asked;
  }
  free_machine(&m);
  release_tensors(x, 3);
  api->tensor_release(z);
  api->program_release(sequence);
  api->graph_release(graph);
  return result;
}

static void test_values(void **state) {
  (void)state;
#define UNARY(op, x) one_value(TRM_POPLAR_NODE_UNARY, TRM_POPLAR_UNARY_##op, x, 0, 0)
#define BINARY(op, x, y) one_value(TRM_POPLAR_NODE_BINARY, TRM_POPLAR_BINARY_##op, x, y, 0)
  assert_float_equal(UNARY(EXPONENT2, 3), 8, 1e-5);
  assert_float_equal(UNARY(GELU_ERF, 1), 0.8413447, 1e-5);
  assert_float_equal(UNARY(INVERSE, 4), 0.25, 1e-7);
  assert_float_equal(UNARY(IS_INF, -INFINITY), 1, 0);
  assert_float_equal(UNARY(IS_NAN, 1), 0, 0);
  assert_float_equal(UNARY(RELU, -3), 0, 0);
  assert_float_equal(UNARY(SQUARE, -3), 9, 0);
  assert_float_equal(UNARY(TRUNC, -2.7f), -2, 0);
  assert_float_equal(UNARY(TRUNC, 2.7f), 2, 0);
  assert_float_equal(UNARY(ROUND, 2.5f), 3, 0);
  assert_float_equal(UNARY(NEARBY_INT, 2.5f), 2, 0);
  assert_float_equal(BINARY(SUBTRACT, 5, 3), 2, 0);
  assert_float_equal(BINARY(GREATER_THAN, 5, 3), 1, 0);
  assert_float_equal(BINARY(LESS_THAN_EQUAL, 5, 3), 0, 0);
  assert_float_equal(BINARY(VARIANCE_TO_INV_STD_DEV, 3, 1), 0.5, 1e-6);
  assert_float_equal(BINARY(INV_STD_DEV_TO_VARIANCE, 0.5f, 1), 3, 1e-6);
  assert_float_equal(one_value(TRM_POPLAR_NODE_TERNARY, TRM_POPLAR_TERNARY_CLAMP, 9, 1, 4), 4, 0);
  assert_float_equal(one_value(TRM_POPLAR_NODE_TERNARY, TRM_POPLAR_TERNARY_SELECT, 9, 1, 1), 9, 0);
  assert_float_equal(one_value(TRM_POPLAR_NODE_TERNARY, TRM_POPLAR_TERNARY_SELECT, 9, 1, 0), 1, 0);
}

static void test_products(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence();
  trm_poplar_tensor *a = new_variable(graph, TRM_F32, 2, 3, "a");
  trm_poplar_tensor *b = new_variable(graph, TRM_F32, 3, 2, "b"), *z = NULL, *sum = NULL;
  OK(api->step_mat_mul(graph, a, b, TRM_F32, &sequence, "product", &z, &failure));
  const uint32_t dim = 1;
  OK(api->step_reduce(graph, z, TRM_F32, &dim, 1, TRM_POPLAR_REDUCE_MAX, NULL, false, &sequence,
                      "most", &sum, &failure));
  OK(api->step_reduce(graph, z, TRM_F32, &dim, 1, TRM_POPLAR_REDUCE_ADD, NULL, true, &sequence,
                      "sum", &sum, &failure));
  trm_poplar_tensor *const inputs[] = {a, b}, *const outputs[] = {z, sum};
  machine m = new_machine(graph, sequence, inputs, 2, outputs, 2);
  const float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {1, 0, 0, 1, 1, 1};
  float product[4], sums[2];
  run_machine(&m, (const void *const[]){x, y}, (void *const[]){product, sums});
  assert_memory_equal(product, ((float[]){4, 5, 10, 11}), sizeof product);
  assert_memory_equal(sums, ((float[]){14, 32}), sizeof sums);
  free_machine(&m);
  release_tensors((trm_poplar_tensor *const[]){a, b, z, sum}, 4);
  api->program_release(sequence);
  api->graph_release(graph);
}

/* A variable that the program reads before it writes it keeps its contents; others need none. */
static void test_state(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence();
  trm_poplar_tensor *x = new_variable(graph, TRM_F32, 4, 0, "x");
  trm_poplar_tensor *count = new_variable(graph, TRM_F32, 4, 0, "count");
  const float first = 5;
  OK(api->set_initial_tensor(graph, count, TRM_F32, &first, 1, &failure));
  add_scaled(graph, &sequence, x, count, 1, &count);
  machine m = new_machine(graph, sequence, &x, 1, &count, 1);
  assert_false(m.plan->output_ports[0].is_direct);
  const float data[4] = {1, 2, 3, 4};
  float result[4];
  for (int i = 0; i < 3; ++i) {
    run_machine(&m, (const void *const[]){data}, (void *const[]){result});
  }
  assert_memory_equal(result, ((float[]){8, 11, 14, 17}), sizeof result);
  free_machine(&m);
  release_tensors((trm_poplar_tensor *const[]){x, count}, 2);
  api->program_release(sequence);
  api->graph_release(graph);
}

/* An input that is written and returned is the output's memory, and the input does not change. */
/* z = x + 2 y may lie over both, unless another view of an input is read with it or later. */
static void test_outputs_over_inputs(void **state) {
  (void)state;
  enum { AT_ONCE, TURNED, AFTER_A_COPY, READ_LATER, NUM_CASES };
  const uint32_t over[NUM_CASES] = {3, 2, 0, 1};
  for (int c = 0; c < NUM_CASES; ++c) {
    trm_poplar_graph *graph = new_graph();
    trm_poplar_program *sequence = new_sequence();
    trm_poplar_tensor *x = new_variable(graph, TRM_F32, 4, 0, "x");
    trm_poplar_tensor *y = new_variable(graph, TRM_F32, 4, 0, "y");
    trm_poplar_tensor *z = new_variable(graph, TRM_F32, 4, 0, "z"), *turned = NULL;
    OK(api->tensor_pick(x, -1, 0, &turned, &failure));
    if (c == AFTER_A_COPY) add_copy(graph, &sequence, x, z);
    const trm_poplar_tensor *first = c == AFTER_A_COPY ? z : c == TURNED ? turned : x;
    add_scaled(graph, &sequence, y, first, 2, &z);
    if (c == READ_LATER) add_scaled(graph, &sequence, y, z, 2, &z);
    trm_poplar_tensor *const inputs[] = {x, y};
    machine m = new_machine(graph, sequence, inputs, 2, &z, 1);
    assert_int_equal(m.plan->output_ports[0].over, over[c]);
    for (int i = 0; i < 2; ++i) {
      float data[2][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
      if ((over[c] >> i & 1) == 0) continue;
      run_machine(&m, (const void *const[]){data[0], data[1]}, (void *const[]){data[i]});
      for (int k = 0; k < 4; ++k) {
        const float x_of = (float)(c == TURNED ? 4 - k : k + 1), y_of = 10.0f * (float)(k + 1);
        assert_true(data[i][k] == x_of + (c == READ_LATER ? 4 : 2) * y_of);
      }
    }
    free_machine(&m);
    release_tensors((trm_poplar_tensor *const[]){x, y, z, turned}, 4);
    api->program_release(sequence);
    api->graph_release(graph);
  }
}

static void test_in_place(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence();
  trm_poplar_tensor *x = new_variable(graph, TRM_F32, 4, 0, "x");
  add_scaled(graph, &sequence, x, x, 1, &x);
  machine m = new_machine(graph, sequence, &x, 1, &x, 1);
  assert_int_equal(m.plan->input_ports[0].output, 0);
  float data[4] = {1, 2, 3, 4}, result[4];
  run_machine(&m, (const void *const[]){data}, (void *const[]){result});
  assert_memory_equal(result, ((float[]){2, 4, 6, 8}), sizeof result);
  assert_memory_equal(data, ((float[]){1, 2, 3, 4}), sizeof data);
  run_machine(&m, (const void *const[]){data}, (void *const[]){data});
  assert_memory_equal(data, ((float[]){2, 4, 6, 8}), sizeof data);
  free_machine(&m);
  api->tensor_release(x);
  api->program_release(sequence);
  api->graph_release(graph);
}

/* count += 1 until it is not less than the limit; then if and repeat. */
static void test_control(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence(), *condition = new_sequence(),
                     *body = new_sequence();
  trm_poplar_program *twice = new_sequence(), *made = NULL;
  trm_poplar_tensor *limit = new_variable(graph, TRM_S32, 1, 0, "limit");
  trm_poplar_tensor *count = new_variable(graph, TRM_S32, 1, 0, "count");
  trm_poplar_tensor *goes = new_variable(graph, TRM_PRED, 1, 0, "goes");
  const trm_poplar_node one[] = {placeholder(0), number(1), binary(TRM_POPLAR_BINARY_ADD, 0, 1)};
  const trm_poplar_node less[] = {placeholder(0), placeholder(1),
                                  binary(TRM_POPLAR_BINARY_LESS_THAN, 0, 1)};
  const trm_poplar_node zero[] = {number(0)};
  const trm_poplar_tensor *const both[] = {count, limit};
  OK(api->step_map(graph, zero, 1, NULL, 0, &sequence, "zero", &count, &failure));
  OK(api->step_map(graph, less, 3, both, 2, &condition, "less", &goes, &failure));
  OK(api->step_map(graph, one, 3, both, 1, &body, "one", &count, &failure));
  add_control(graph, &sequence, TRM_POPLAR_WHILE, goes, true, condition, body);
  add_control(NULL, &twice, TRM_POPLAR_REPEAT, NULL, 2, body, NULL);
  /* The loop has ended: false. */
  add_control(graph, &sequence, TRM_POPLAR_IF, goes, 0, NULL, twice);
  const int32_t cases[] = {7, 9};
  trm_poplar_program *const bodies[] = {NULL, body, NULL};
  const trm_poplar_program_parts chosen = {
      .tensors = {count}, .children = bodies, .num_children = 3, .cases = cases};
  OK(api->program_make(graph, TRM_POPLAR_SWITCH, &chosen, &made, &failure));
  add(&sequence, made);
  machine m = new_machine(graph, sequence, &limit, 1, &count, 1);
  int32_t limits[] = {5, 7}, results[2];
  for (int i = 0; i < 2; ++i) {
    run_machine(&m, (const void *const[]){&limits[i]}, (void *const[]){&results[i]});
  }
  assert_int_equal(results[0], 7);
  assert_int_equal(results[1], 10);
  const trm_poplar_program_parts empty = {.num_children = 0};
  assert_int_not_equal(api->program_make(graph, TRM_POPLAR_IF, &empty, &made, &failure), 0);
  const trm_poplar_program_parts nothing = {.children = bodies, .num_children = 2};
  assert_int_not_equal(api->program_make(graph, TRM_POPLAR_IF, &nothing, &made, &failure), 0);
  assert_string_equal(failure.what, "an If of a null tensor");
  assert_int_not_equal(api->program_make(graph, TRM_POPLAR_STEP, &empty, &made, &failure), 0);
  assert_int_not_equal(api->program_make(graph, TRM_POPLAR_HOST, &empty, &made, &failure), 0);
  free_machine(&m);
  release_tensors((trm_poplar_tensor *const[]){limit, count, goes}, 3);
  trm_poplar_program *const programs[] = {sequence, condition, body, twice};
  for (int p = 0; p < 4; ++p) api->program_release(programs[p]);
  api->graph_release(graph);
}

/* What is added to a sequence later does not change where the sequence was used before. */
static void test_sequences_are_values(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *outer = new_sequence(), *inner = new_sequence();
  trm_poplar_tensor *x = new_variable(graph, TRM_F32, 2, 0, "x");
  OK(api->sequence_add(&outer, inner, &failure));
  add_scaled(graph, &inner, x, x, 1, &x);
  assert_int_equal(outer->children.items[0]->children.count, 0);
  assert_int_equal(inner->children.count, 1);
  OK(api->sequence_add(&inner, inner, &failure));
  assert_int_equal(inner->children.count, 2);
  api->tensor_release(x);
  api->program_release(outer);
  api->program_release(inner);
  api->graph_release(graph);
}

static void test_mistakes(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence(), *none = NULL;
  trm_poplar_tensor *x = new_variable(graph, TRM_F32, 2, 3, "x"), *z = NULL, *fixed = NULL;
  trm_poplar_tensor *y = new_variable(graph, TRM_S32, 2, 3, "y"), *wide = NULL;
  const trm_poplar_node sum[] = {placeholder(0), placeholder(1),
                                 binary(TRM_POPLAR_BINARY_ADD, 0, 1)};
  const trm_poplar_tensor *const mixed[] = {x, y};
  assert_int_not_equal(api->step_map(graph, sum, 3, mixed, 2, &sequence, "sum", &z, &failure), 0);
  assert_non_null(strstr(failure.what, "of types f32 and s32"));
  assert_int_equal(failure.kind, TRM_POPLAR_ERROR_LIBRARY);
  trm_poplar_program_parts copy = {.tensors = {x, y}};
  assert_int_not_equal(api->program_make(graph, TRM_POPLAR_COPY, &copy, &none, &failure), 0);
  assert_non_null(strstr(failure.what, "a Copy of a tensor of f32[2,3] to one of s32[2,3]"));
  const float value = 1;
  const uint64_t size = 4;
  OK(api->add_constant(graph, TRM_F32, &size, 1, TRM_F32, &value, 1, "fixed", &fixed, &failure));
  copy.tensors[0] = copy.tensors[1] = fixed;
  assert_int_not_equal(api->program_make(graph, TRM_POPLAR_COPY, &copy, &none, &failure), 0);
  assert_non_null(strstr(failure.what, "writes to the constant 'fixed'"));
  OK(api->tensor_broadcast(x, 2, 0, &wide, &failure));
  assert_int_not_equal(
      api->step_mat_mul(graph, x, wide, TRM_F32, &sequence, "product", &z, &failure), 0);
  assert_null(z);
  assert_null(none);
  release_tensors((trm_poplar_tensor *const[]){x, y, fixed, wide}, 4);
  api->program_release(sequence);
  api->graph_release(graph);
}

/* An engine, its run and its profile, when memory runs out at any allocation. */
static void test_engine_without_memory(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence();
  trm_poplar_tensor *x = new_variable(graph, TRM_F32, 2, 3, "x"), *y = NULL;
  add_scaled(graph, &sequence, x, x, 2, &y);
  add_copy(graph, &sequence, y, x);
  int32_t status = -1;
  for (int failures = 0; status != 0; ++failures) {
    trm_poplar_engine *engine = NULL, *loaded = NULL;
    char *text = NULL;
    void *saved = NULL;
    uint64_t size = 0;
    trm_allocation_fail_after(failures);
    status = api->engine_create(graph, &sequence, 1, &engine, &failure);
    if (status == 0) status = api->engine_run(engine, 0, NULL, &failure);
    if (status == 0) status = api->engine_profile(engine, true, true, &text, &failure);
    if (status == 0) status = api->engine_save(engine, &saved, &size, &failure);
    if (status == 0) status = api->engine_load(saved, size, &loaded, &failure);
    if (status == 0) status = api->engine_run(loaded, 0, NULL, &failure);
    trm_allocation_fail_after(-1);
    if (status != 0) assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
    if (status == 0) assert_non_null(strstr(text, "Program 0, run 1 times"));
    api->block_release(text);
    api->block_release(saved);
    api->engine_release(engine);
    api->engine_release(loaded);
  }
  release_tensors((trm_poplar_tensor *const[]){x, y}, 2);
  api->program_release(sequence);
  api->graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_copy),
      cmocka_unit_test(test_large_copy),
      cmocka_unit_test(test_columns),
      cmocka_unit_test(test_map),
      cmocka_unit_test(test_every_operation),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_state),
      cmocka_unit_test(test_outputs_over_inputs),
      cmocka_unit_test(test_in_place),
      cmocka_unit_test(test_control),
      cmocka_unit_test(test_sequences_are_values),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_engine_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
