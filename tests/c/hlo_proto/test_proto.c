/* Reading and writing HloModuleProto: modules of both TensorFlows, hostile bytes, order of side
 * effects, sizes and depths, and memory that runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hlo.pb-c.h"
#include "hlo/hlo.h"
#include "hlo/proto.h"

static const char *const files[] = {"conv_bn_215",  "conv_bn_221",     "effects_215",
                                    "effects_221",  "indexing_215",    "indexing_221",
                                    "lstm_215",     "lstm_221",        "sharding_215",
                                    "sharding_221", "transformer_215", "transformer_221"};

static uint8_t *load(const char *name, size_t *out_size) {
  char path[512];
  snprintf(path, sizeof path, "%s/proto/%s.pb", TREMULA_TEST_DATA, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) fail_msg("cannot open %s", path);
  fseek(file, 0, SEEK_END);
  *out_size = (size_t)ftell(file);
  rewind(file);
  uint8_t *data = malloc(*out_size);
  assert_int_equal(fread(data, 1, *out_size, file), *out_size);
  fclose(file);
  return data;
}

static void expect_ok(trm_status status, const trm_error *error, const char *what) {
  if (status != TRM_OK) fail_msg("%s: %s: %s", what, trm_status_name(status), error->message);
}

static trm_module *read_ok(const void *data, size_t size, const char *what) {
  trm_error error;
  trm_module *module = NULL;
  expect_ok(trm_hlo_parse_proto(data, size, &module, &error), &error, what);
  expect_ok(trm_module_verify(module, &error), &error, what);
  return module;
}

static void expect_refused(const void *data, size_t size, const char *message) {
  trm_error error = {0};
  trm_module *module = NULL;
  const trm_status status = trm_hlo_parse_proto(data, size, &module, &error);
  assert_int_not_equal(status, TRM_OK);
  assert_null(module);
  if (strstr(error.message, message) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", error.message, message);
  }
}

/* ---- Real modules --------------------------------------------------------------------------- */

static void test_round_trip(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    size_t size, again_size;
    void *again;
    trm_error error;
    char *text, *again_text;
    uint8_t *data = load(files[i], &size);
    trm_module *module = read_ok(data, size, files[i]);
    expect_ok(trm_module_serialize(module, &again, &again_size, &error), &error, files[i]);
    trm_module *copy = read_ok(again, again_size, files[i]);
    expect_ok(trm_module_print(module, &text, &error), &error, files[i]);
    expect_ok(trm_module_print(copy, &again_text, &error), &error, files[i]);
    assert_string_equal(text, again_text);
    trm_free(text);
    trm_free(again_text);
    trm_free(again);
    trm_module_free(copy);
    trm_module_free(module);
    free(data);
  }
}

/* Follows the control edges of the side effects of a computation and writes down their feeds. */
static void feeds_in_order(const trm_module *module, const trm_computation *computation,
                           char *out) {
  trm_index last = TRM_NO_INDEX;
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    if (!trm_instruction_has_side_effect(module, instruction)) continue;
    if (last == TRM_NO_INDEX) {
      assert_int_equal(instruction->num_control_predecessors, 0);
    } else {
      assert_int_equal(instruction->num_control_predecessors, 1);
      assert_int_equal(instruction->control_predecessors[0], last);
    }
    last = i;
    *out++ = instruction->opcode == TRM_OP_CUSTOM_CALL ? instruction->backend_config[9] : 'W';
  }
  *out = '\0';
}

static void test_side_effects_are_chained(void **state) {
  (void)state;
  const char *const names[] = {"effects_215", "effects_221"};
  for (int n = 0; n < 2; ++n) {
    size_t size;
    uint8_t *data = load(names[n], &size);
    trm_module *module = read_ok(data, size, names[n]);
    char feeds[16];
    bool saw_body = false;
    feeds_in_order(module, &module->computations[module->entry], feeds);
    assert_string_equal(feeds, "0W1");
    for (uint32_t c = 0; c < module->num_computations; ++c) {
      if (c == module->entry || !module->computations[c].has_side_effect) continue;
      feeds_in_order(module, &module->computations[c], feeds);
      assert_string_equal(feeds, "abcd");
      saw_body = true;
    }
    assert_true(saw_body);
    trm_module_free(module);
    free(data);
  }
}

static void test_attributes_are_read(void **state) {
  (void)state;
  size_t size;
  uint8_t *data = load("sharding_215", &size);
  trm_module *module = read_ok(data, size, "sharding_215");
  bool saw_sharding = false, saw_attributes = false, saw_source = false;
  const trm_computation *entry = &module->computations[module->entry];
  for (trm_index i = 0; i < entry->num_instructions; ++i) {
    const trm_instruction *instruction = &entry->instructions[i];
    if (instruction->sharding != NULL && strcmp(instruction->sharding, "{maximal device=1}") == 0) {
      saw_sharding = true;
    }
    const char *const *attributes = instruction->frontend_attributes;
    if (attributes != NULL) { /* sorted by key */
      assert_string_equal(attributes[0], "part");
      assert_string_equal(attributes[1], "y");
      assert_string_equal(attributes[2], "scope");
      saw_attributes = true;
    }
    if (instruction->metadata.source_file != NULL && instruction->metadata.source_line > 0) {
      saw_source = true;
    }
  }
  assert_true(saw_sharding && saw_attributes && saw_source);
  trm_module_free(module);
  free(data);
}

/* ---- Hostile bytes -------------------------------------------------------------------------- */

/* Whatever the bytes: a status. What parses is verified, and what verifies can be written. */
static void try_bytes(const uint8_t *data, size_t size) {
  trm_error error;
  trm_module *module;
  if (trm_hlo_parse_proto(data, size, &module, &error) != TRM_OK) return;
  if (trm_module_verify(module, &error) == TRM_OK) {
    void *again;
    size_t again_size;
    expect_ok(trm_module_serialize(module, &again, &again_size, &error), &error, "mutated");
    trm_free(again);
  }
  trm_module_free(module);
}

static void test_truncation(void **state) {
  (void)state;
  size_t size;
  uint8_t *data = load("effects_221", &size);
  for (size_t n = 0; n < size; ++n) {
    uint8_t *exact = malloc(n + 1); /* so that a sanitizer sees reads past the end */
    memcpy(exact, data, n);
    uint8_t *trimmed = realloc(exact, n == 0 ? 1 : n);
    try_bytes(trimmed, n);
    free(trimmed);
  }
  free(data);
}

static uint64_t next_random(uint64_t *random) {
  *random ^= *random << 13;
  *random ^= *random >> 7;
  *random ^= *random << 17;
  return *random;
}

static void test_mutations(void **state) {
  (void)state;
  const char *const names[] = {"effects_215", "effects_221"};
  uint64_t random = 88172645463325252u;
  for (int n = 0; n < 2; ++n) {
    size_t size;
    uint8_t *data = load(names[n], &size);
    uint8_t *mutant = malloc(size);
    for (int round = 0; round < 2500; ++round) {
      memcpy(mutant, data, size);
      const uint64_t changes = 1 + next_random(&random) % 4;
      for (uint64_t k = 0; k < changes; ++k) {
        const uint64_t r = next_random(&random);
        uint8_t *at = &mutant[r % size];
        const unsigned flipped = *at ^ (1u << ((r >> 50) & 7));
        *at = (uint8_t)((r >> 60) % 2 == 0 ? flipped : (r >> 40) & 0xff);
      }
      try_bytes(mutant, size);
    }
    free(mutant);
    free(data);
  }
}

static void test_unknown_fields(void **state) {
  (void)state;
  const uint8_t unknown_number[] = {0xd8, 0x07, 0x01}; /* 123: 1 */
  /* 3 { 2 { 100: 1 } } */
  const uint8_t root[] = {0x1a, 0x05, 0x12, 0x03, 0xa0, 0x06, 0x01};
  const uint8_t is_dynamic[] = {0x58, 0x01}; /* 11: 1, ignorable */
  /* 3 { 2 { 98 {} } }, as JAX 0.10 writes for every dot; with 98 { 1 {} }; with 98 { 1 { 1: 2 } }
   */
  const uint8_t no_sparsity[] = {0x1a, 0x05, 0x12, 0x03, 0x92, 0x06, 0x00};
  const uint8_t empty_sparsity[] = {0x1a, 0x07, 0x12, 0x05, 0x92, 0x06, 0x02, 0x0a, 0x00};
  const uint8_t sparsity[] = {0x1a, 0x09, 0x12, 0x07, 0x92, 0x06, 0x04, 0x0a, 0x02, 0x08, 0x02};
  /* 3 { 2 { 2: "compare" 3 { 2: 1 } 63: "LT" 102: "X" } } */
  const uint8_t order[] = "\x1a\x18\x12\x16\x12\x07"
                          "compare"
                          "\x1a\x02\x10\x01\xfa\x03\x02LT\xb2\x06\x01X";
  const uint8_t group[] = {0x0b, 0x0c};
  expect_refused(unknown_number, sizeof unknown_number, "field 123 of HloModuleProto");
  expect_refused(root, sizeof root, "has_dynamic_root (100) of HloInstructionProto");
  expect_refused(is_dynamic, sizeof is_dynamic, "no computation with the id of its entry");
  expect_refused(no_sparsity, sizeof no_sparsity, "the opcode \"\" is not known");
  expect_refused(empty_sparsity, sizeof empty_sparsity, "the opcode \"\" is not known");
  expect_refused(sparsity, sizeof sparsity, "sparsity_config (98) of HloInstructionProto");
  expect_refused(order, sizeof order - 1, "comparison order \"X\" is not known");
  expect_refused(group, sizeof group, "not a HloModuleProto");
  expect_refused("HloModule m", 11, "HloModuleProto"); /* 'H' is field 9, which has a name */
  expect_refused("", 0, "empty");
}

static void test_deep_nesting(void **state) {
  (void)state;
  /* host_program_shape { result { tuple_shapes { tuple_shapes { ... } } } }, 5 000 levels. */
  enum { LEVELS = 5000 };
  uint8_t *data = malloc(4 * LEVELS + 16), *at = data + 4 * LEVELS + 16, *end = at;
  for (int level = 0; level <= LEVELS + 1; ++level) {
    size_t inner = (size_t)(end - at);
    uint8_t length[4];
    int bytes = 0;
    do {
      length[bytes++] = (uint8_t)((inner & 0x7f) | (inner > 0x7f ? 0x80u : 0u));
      inner >>= 7;
    } while (inner > 0);
    at -= bytes;
    memcpy(at, length, (size_t)bytes);
    *--at = level > LEVELS ? 0x22 : level == LEVELS ? 0x12 : 0x22; /* fields 4, 2, 4 */
  }
  expect_refused(at, (size_t)(end - at), "nested more than");
  free(data);
}

/* ---- Modules made here ---------------------------------------------------------------------- */

typedef Tremula__Hlo__HloInstructionProto instruction_proto;
typedef Tremula__Hlo__HloComputationProto computation_proto;
typedef Tremula__Hlo__HloModuleProto module_proto;
typedef Tremula__Hlo__ShapeProto shape_proto;

static int64_t four = 4;

static shape_proto vector_shape(void) {
  shape_proto shape = TREMULA__HLO__SHAPE_PROTO__INIT;
  shape.element_type = TRM_F32;
  shape.n_dimensions = 1;
  shape.dimensions = &four;
  return shape;
}

static instruction_proto make(const char *opcode, int64_t id, shape_proto *shape,
                              int64_t *operand_ids, size_t count) {
  instruction_proto proto = TREMULA__HLO__HLO_INSTRUCTION_PROTO__INIT;
  proto.name = (char *)"x";
  proto.opcode = (char *)opcode;
  proto.id = id;
  proto.shape = shape;
  proto.operand_ids = operand_ids;
  proto.n_operand_ids = count;
  return proto;
}

static uint8_t *pack(computation_proto **computations, size_t count, int64_t entry,
                     size_t *out_size) {
  module_proto module = TREMULA__HLO__HLO_MODULE_PROTO__INIT;
  module.name = (char *)"made";
  module.computations = computations;
  module.n_computations = count;
  module.entry_computation_id = entry;
  *out_size = tremula__hlo__hlo_module_proto__get_packed_size(&module);
  uint8_t *data = malloc(*out_size);
  tremula__hlo__hlo_module_proto__pack(&module, data);
  return data;
}

/* One computation of these instructions. */
static uint8_t *pack_one(instruction_proto *instructions, size_t count, int64_t root,
                         size_t *out_size) {
  computation_proto computation = TREMULA__HLO__HLO_COMPUTATION_PROTO__INIT;
  computation_proto *computations[] = {&computation};
  instruction_proto **pointers = malloc(count * sizeof *pointers);
  for (size_t i = 0; i < count; ++i) pointers[i] = &instructions[i];
  computation.name = (char *)"main";
  computation.id = 1;
  computation.root_id = root;
  computation.instructions = pointers;
  computation.n_instructions = count;
  uint8_t *data = pack(computations, 1, 1, out_size);
  free(pointers);
  return data;
}

/* The two below take minutes, and so run into ctest's limit, where something is not O(n log n). */

static void test_long_chain(void **state) {
  (void)state;
  enum { LENGTH = 100000 };
  shape_proto shape = vector_shape();
  instruction_proto *instructions = malloc(LENGTH * sizeof *instructions);
  int64_t *operands = malloc(LENGTH * sizeof *operands);
  for (int64_t i = 0; i < LENGTH; ++i) {
    operands[i] = i; /* the one before: ids are the place + 1 */
    /* In the file from last to first: the order of the text means nothing. */
    instructions[LENGTH - 1 - i] =
        make(i == 0 ? "parameter" : "negate", i + 1, &shape, &operands[i], i == 0 ? 0 : 1);
  }
  size_t size;
  uint8_t *data = pack_one(instructions, LENGTH, LENGTH, &size);
  trm_module *module = read_ok(data, size, "a chain");
  const trm_computation *entry = &module->computations[module->entry];
  assert_int_equal(entry->num_instructions, LENGTH);
  assert_int_equal(entry->root, LENGTH - 1);
  assert_int_equal(entry->instructions[LENGTH - 1].operands[0], LENGTH - 2);
  trm_module_free(module);
  free(data);
  free(operands);
  free(instructions);
}

static void test_deep_calls(void **state) {
  (void)state;
  enum { DEPTH = 10000 };
  shape_proto shape = vector_shape();
  computation_proto *computations = malloc(DEPTH * sizeof *computations);
  computation_proto **list = malloc(DEPTH * sizeof *list);
  instruction_proto *instructions = malloc(2 * DEPTH * sizeof *instructions);
  instruction_proto **pointers = malloc(2 * DEPTH * sizeof *pointers);
  int64_t *numbers = malloc(2 * DEPTH * sizeof *numbers);
  for (int64_t d = 0; d < DEPTH; ++d) { /* callers first, which the reader must turn round */
    numbers[2 * d] = 2 * d + 1;         /* the operand */
    numbers[2 * d + 1] = d + 2;         /* the callee */
    instructions[2 * d] = make("parameter", 2 * d + 1, &shape, NULL, 0);
    instructions[2 * d + 1] =
        make(d == DEPTH - 1 ? "negate" : "call", 2 * d + 2, &shape, &numbers[2 * d], 1);
    if (d < DEPTH - 1) {
      instructions[2 * d + 1].called_computation_ids = &numbers[2 * d + 1];
      instructions[2 * d + 1].n_called_computation_ids = 1;
    }
    pointers[2 * d] = &instructions[2 * d];
    pointers[2 * d + 1] = &instructions[2 * d + 1];
    computations[d] = (computation_proto)TREMULA__HLO__HLO_COMPUTATION_PROTO__INIT;
    computations[d].name = (char *)"f";
    computations[d].id = d + 1;
    computations[d].root_id = 2 * d + 2;
    computations[d].instructions = &pointers[2 * d];
    computations[d].n_instructions = 2;
    list[d] = &computations[d];
  }
  size_t size;
  uint8_t *data = pack(list, DEPTH, 1, &size);
  trm_module *module = read_ok(data, size, "deep calls");
  assert_int_equal(module->num_computations, DEPTH);
  assert_int_equal(module->entry, DEPTH - 1);
  trm_module_free(module);
  free(data);
  /* The last calls the first: a cycle. */
  const int64_t one = 1;
  instructions[2 * DEPTH - 1].opcode = (char *)"call";
  instructions[2 * DEPTH - 1].called_computation_ids = (int64_t *)&one;
  instructions[2 * DEPTH - 1].n_called_computation_ids = 1;
  data = pack(list, DEPTH, 1, &size);
  expect_refused(data, size, "the call graph is cyclic");
  free(data);
  free(numbers);
  free(pointers);
  free(instructions);
  free(list);
  free(computations);
}

static void test_refusals(void **state) {
  (void)state;
  shape_proto shape = vector_shape();
  int64_t one = 1, two = 2, nine = 9, huge[] = {(int64_t)1 << 30, (int64_t)1 << 30};
  size_t size;
  uint8_t *data;
  instruction_proto cycle[] = {make("negate", 1, &shape, &two, 1),
                               make("negate", 2, &shape, &one, 1)};
  data = pack_one(cycle, 2, 2, &size);
  expect_refused(data, size, "form a cycle");
  free(data);
  instruction_proto missing[] = {make("negate", 1, &shape, &nine, 1)};
  data = pack_one(missing, 1, 1, &size);
  expect_refused(data, size, "uses the instruction with id 9, which does not exist");
  free(data);
  instruction_proto twice[] = {make("parameter", 1, &shape, NULL, 0),
                               make("parameter", 1, &shape, NULL, 0)};
  data = pack_one(twice, 2, 1, &size);
  expect_refused(data, size, "two instructions of computation main have the id 1");
  free(data);
  instruction_proto negative[] = {make("parameter", -5, &shape, NULL, 0)};
  data = pack_one(negative, 1, -5, &size);
  expect_refused(data, size, "cannot be negative");
  free(data);
  instruction_proto number[] = {make("parameter", 1, &shape, NULL, 0)};
  number[0].parameter_number = (int64_t)1 << 40;
  data = pack_one(number, 1, 1, &size);
  expect_refused(data, size, "parameter number 1099511627776 is out of range");
  free(data);
  instruction_proto opcode[] = {make("frobnicate", 1, &shape, NULL, 0)};
  data = pack_one(opcode, 1, 1, &size);
  expect_refused(data, size, "the opcode \"frobnicate\" is not known");
  free(data);
  instruction_proto root[] = {make("parameter", 1, &shape, NULL, 0)};
  data = pack_one(root, 1, 7, &size);
  expect_refused(data, size, "the id of its root, 7");
  free(data);
  shape_proto large = vector_shape();
  large.n_dimensions = 2;
  large.dimensions = huge;
  instruction_proto too_large[] = {make("parameter", 1, &large, NULL, 0)};
  data = pack_one(too_large, 1, 1, &size);
  expect_refused(data, size, "larger than 2^40 bytes");
  free(data);
  shape_proto dynamic = vector_shape();
  protobuf_c_boolean yes = 1;
  dynamic.n_is_dynamic_dimension = 1;
  dynamic.is_dynamic_dimension = &yes;
  instruction_proto is_dynamic[] = {make("parameter", 1, &dynamic, NULL, 0)};
  data = pack_one(is_dynamic, 1, 1, &size);
  trm_module *bounded = NULL;
  trm_error error;
  assert_int_equal(trm_hlo_parse_proto(data, size, &bounded, &error), TRM_OK);
  assert_int_equal(bounded->computations[0].instructions[0].shape.dynamic, 1);
  trm_module_free(bounded);
  free(data);
  Tremula__Hlo__LiteralProto literal = TREMULA__HLO__LITERAL_PROTO__INIT;
  float values[] = {1, 2, 3};
  literal.shape = &shape;
  literal.f32s = values;
  literal.n_f32s = 3;
  instruction_proto constant[] = {make("constant", 1, &shape, NULL, 0)};
  constant[0].literal = &literal;
  data = pack_one(constant, 1, 1, &size);
  expect_refused(data, size, "its literal has 3 values where f32[4] has 4");
  free(data);
}

static void test_algorithm_of_a_dot(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT d = f32[] dot(a, a), "
      "lhs_contracting_dims={0}, rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32_x9\n}\n";
  trm_error error = {0};
  trm_module *module = NULL, *again;
  void *data;
  size_t size;
  expect_ok(trm_module_read(text, strlen(text), "text", &module, &error), &error, "text");
  expect_ok(trm_module_serialize(module, &data, &size, &error), &error, "text");
  again = read_ok(data, size, "algorithm");
  const trm_computation *entry = &again->computations[again->entry];
  assert_int_equal(entry->instructions[entry->root].algorithm, 13);
  trm_module_free(again);
  trm_module_free(module);
  trm_free(data);

  shape_proto shape = vector_shape();
  int64_t zero = 0, operands[] = {1, 1};
  Tremula__Hlo__DotDimensionNumbers numbers = TREMULA__HLO__DOT_DIMENSION_NUMBERS__INIT;
  numbers.n_lhs_contracting_dimensions = numbers.n_rhs_contracting_dimensions = 1;
  numbers.lhs_contracting_dimensions = numbers.rhs_contracting_dimensions = &zero;
  Tremula__Hlo__PrecisionConfig precision = TREMULA__HLO__PRECISION_CONFIG__INIT;
  precision.algorithm = 99;
  shape_proto scalar = vector_shape();
  scalar.n_dimensions = 0;
  instruction_proto dot[] = {make("parameter", 1, &shape, NULL, 0),
                             make("dot", 2, &scalar, operands, 2)};
  dot[1].dot_dimension_numbers = &numbers;
  dot[1].precision_config = &precision;
  uint8_t *bytes = pack_one(dot, 2, 2, &size);
  expect_refused(bytes, size,
                 "its algorithm is number 99, which is not known; known from 0 on: unset, dot_any");
  free(bytes);
}

static void test_literal_layout(void **state) {
  (void)state;
  /* [[1, 2, 3], [4, 5, 6]] stored column by column. */
  int64_t dims[] = {2, 3}, layout_dims[] = {0, 1};
  int32_t stored[] = {1, 4, 2, 5, 3, 6};
  Tremula__Hlo__LayoutProto layout = TREMULA__HLO__LAYOUT_PROTO__INIT;
  shape_proto shape = TREMULA__HLO__SHAPE_PROTO__INIT;
  Tremula__Hlo__LiteralProto literal = TREMULA__HLO__LITERAL_PROTO__INIT;
  layout.minor_to_major = layout_dims;
  layout.n_minor_to_major = 2;
  shape.element_type = TRM_S32;
  shape.dimensions = dims;
  shape.n_dimensions = 2;
  shape.layout = &layout;
  literal.shape = &shape;
  literal.s32s = stored;
  literal.n_s32s = 6;
  instruction_proto constant[] = {make("constant", 1, &shape, NULL, 0)};
  constant[0].literal = &literal;
  size_t size;
  uint8_t *data = pack_one(constant, 1, 1, &size);
  trm_module *module = read_ok(data, size, "a literal with a layout");
  const int32_t expected[] = {1, 2, 3, 4, 5, 6};
  assert_memory_equal(module->computations[0].instructions[0].literal->leaves[0], expected,
                      sizeof expected);
  trm_error error;
  void *again;
  size_t again_size;
  expect_ok(trm_module_serialize(module, &again, &again_size, &error), &error, "layout");
  trm_module *copy = read_ok(again, again_size, "a literal with a layout, again");
  const trm_instruction *back = &copy->computations[0].instructions[0];
  assert_memory_equal(back->literal->leaves[0], expected, sizeof expected);
  assert_int_equal(back->shape.layout[0], 0); /* the hint is kept */
  trm_module_free(copy);
  trm_free(again);
  trm_module_free(module);
  free(data);
}

static void test_names(void **state) {
  (void)state;
  shape_proto shape = vector_shape();
  int64_t one = 1, two = 2;
  instruction_proto list[] = {make("parameter", 1, &shape, NULL, 0),
                              make("negate", 2, &shape, &one, 1),
                              make("negate", 3, &shape, &two, 1)};
  list[0].name = (char *)"a b/c";
  list[1].name = (char *)"a_b_c";
  list[2].name = (char *)"";
  size_t size;
  uint8_t *data = pack_one(list, 3, 3, &size);
  trm_module *module = read_ok(data, size, "names"); /* the verifier wants them to differ */
  assert_string_equal(module->computations[0].instructions[0].name, "a_b_c");
  assert_string_equal(module->computations[0].instructions[2].name, "negate");
  trm_module_free(module);
  free(data);
}

/* What 2.21 may write in newer forms: replica groups as an iota, sources as stack frames. */
static void test_newer_forms(void **state) {
  (void)state;
  shape_proto shape = vector_shape();
  int64_t one = 1, reshape[] = {2, 2};
  int32_t transpose[] = {1, 0};
  Tremula__Hlo__IotaReplicaGroupListProto iota = TREMULA__HLO__IOTA_REPLICA_GROUP_LIST_PROTO__INIT;
  iota.num_replica_groups = iota.num_devices_per_group = 2;
  iota.n_iota_reshape_dims = iota.n_iota_transpose_perm = 2;
  iota.iota_reshape_dims = reshape;
  iota.iota_transpose_perm = transpose;
  instruction_proto list[] = {make("parameter", 1, &shape, NULL, 0),
                              make("collective-broadcast", 2, &shape, &one, 1)};
  list[1].iota_collective_device_list = &iota;
  size_t size;
  uint8_t *data = pack_one(list, 2, 2, &size);
  trm_module *module = read_ok(data, size, "iota groups");
  const trm_replica_groups *groups =
      &module->computations[0].instructions[1].collective->replica_groups;
  const int64_t first[] = {0, 2}, second[] = {1, 3};
  assert_int_equal(groups->count, 2);
  assert_memory_equal(groups->groups[0].items, first, sizeof first);
  assert_memory_equal(groups->groups[1].items, second, sizeof second);
  trm_module_free(module);
  free(data);
  transpose[1] = 1;
  data = pack_one(list, 2, 2, &size);
  expect_refused(data, size, "not a permutation");
  free(data);

  char *files_list[] = {(char *)"model.py"};
  Tremula__Hlo__StackFrameIndexProto__FileLocation location =
      TREMULA__HLO__STACK_FRAME_INDEX_PROTO__FILE_LOCATION__INIT;
  Tremula__Hlo__StackFrameIndexProto__FileLocation *locations[] = {&location};
  Tremula__Hlo__StackFrameIndexProto__StackFrame frame =
      TREMULA__HLO__STACK_FRAME_INDEX_PROTO__STACK_FRAME__INIT;
  Tremula__Hlo__StackFrameIndexProto__StackFrame *frames[] = {&frame};
  Tremula__Hlo__StackFrameIndexProto index = TREMULA__HLO__STACK_FRAME_INDEX_PROTO__INIT;
  Tremula__Hlo__OpMetadata metadata = TREMULA__HLO__OP_METADATA__INIT;
  instruction_proto *pointers[] = {&list[0]};
  computation_proto computation = TREMULA__HLO__HLO_COMPUTATION_PROTO__INIT;
  computation_proto *computations[] = {&computation};
  module_proto proto = TREMULA__HLO__HLO_MODULE_PROTO__INIT;
  location.file_name_id = frame.file_location_id = metadata.stack_frame_id = 1;
  location.line = 41;
  index.file_names = files_list;
  index.file_locations = locations;
  index.stack_frames = frames;
  index.n_file_names = index.n_file_locations = index.n_stack_frames = 1;
  list[0].metadata = &metadata;
  computation.name = (char *)"main";
  computation.id = proto.entry_computation_id = computation.root_id = 1;
  computation.instructions = pointers;
  computation.n_instructions = 1;
  proto.computations = computations;
  proto.n_computations = 1;
  proto.stack_frame_index = &index;
  size = tremula__hlo__hlo_module_proto__get_packed_size(&proto);
  data = malloc(size);
  tremula__hlo__hlo_module_proto__pack(&proto, data);
  module = read_ok(data, size, "stack frames");
  assert_string_equal(module->computations[0].instructions[0].metadata.source_file, "model.py");
  assert_int_equal(module->computations[0].instructions[0].metadata.source_line, 41);
  trm_module_free(module);
  free(data);
}

/* A scheduled module keeps its order although the ids say otherwise; ids from 0 on are fine. */
static void test_schedule(void **state) {
  (void)state;
  shape_proto shape = vector_shape();
  int64_t zero = 0, order[] = {0, 2, 1};
  instruction_proto list[] = {make("parameter", 0, &shape, NULL, 0),
                              make("negate", 1, &shape, &zero, 1),
                              make("abs", 2, &shape, &zero, 1)};
  instruction_proto *pointers[] = {&list[0], &list[1], &list[2]};
  computation_proto computation = TREMULA__HLO__HLO_COMPUTATION_PROTO__INIT;
  computation_proto *computations[] = {&computation};
  Tremula__Hlo__HloScheduleProto__InstructionSequence sequence =
      TREMULA__HLO__HLO_SCHEDULE_PROTO__INSTRUCTION_SEQUENCE__INIT;
  Tremula__Hlo__HloScheduleProto__SequencesEntry entry =
      TREMULA__HLO__HLO_SCHEDULE_PROTO__SEQUENCES_ENTRY__INIT;
  Tremula__Hlo__HloScheduleProto__SequencesEntry *entries[] = {&entry};
  Tremula__Hlo__HloScheduleProto schedule = TREMULA__HLO__HLO_SCHEDULE_PROTO__INIT;
  module_proto proto = TREMULA__HLO__HLO_MODULE_PROTO__INIT;
  computation.name = (char *)"main";
  computation.instructions = pointers;
  computation.n_instructions = 3;
  computation.root_id = 1;
  sequence.instruction_ids = order;
  sequence.n_instruction_ids = 3;
  entry.value = &sequence;
  schedule.sequences = entries;
  schedule.n_sequences = 1;
  proto.computations = computations;
  proto.n_computations = 1;
  proto.schedule = &schedule;
  size_t size = tremula__hlo__hlo_module_proto__get_packed_size(&proto), again_size;
  uint8_t *data = malloc(size);
  tremula__hlo__hlo_module_proto__pack(&proto, data);
  trm_module *module = read_ok(data, size, "a schedule");
  assert_true(module->is_scheduled);
  assert_int_equal(module->computations[0].instructions[1].opcode, TRM_OP_ABS);
  trm_error error;
  void *again;
  expect_ok(trm_module_serialize(module, &again, &again_size, &error), &error, "a schedule");
  trm_module *copy = read_ok(again, again_size, "a schedule, again");
  assert_true(copy->is_scheduled);
  assert_int_equal(copy->computations[0].instructions[1].opcode, TRM_OP_ABS);
  trm_module_free(copy);
  trm_free(again);
  trm_module_free(module);
  free(data);
  order[2] = 2;
  data = malloc(size);
  tremula__hlo__hlo_module_proto__pack(&proto, data);
  expect_refused(data, size, "the schedule of computation main is wrong at instruction 2");
  free(data);
}

static const char *const shardings[] = {
    "{replicated}",
    "{manual}",
    "{unknown}",
    "{maximal device=3}",
    "{devices=[2,1]0,1}",
    "{devices=[2,2]<=[4]}",
    "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
    "{devices=[2,1,2]0,1,2,3 last_tile_dims={manual, replicated}}",
    "{{maximal device=1}, {replicated}, {{manual}, {unknown}}, {}}",
    "{}"};

static void test_sharding(void **state) {
  (void)state;
  shape_proto shape = vector_shape();
  for (size_t i = 0; i < sizeof shardings / sizeof *shardings; ++i) {
    instruction_proto list[] = {make("parameter", 1, &shape, NULL, 0)};
    size_t size, again_size;
    trm_error error;
    void *again;
    uint8_t *data = pack_one(list, 1, 1, &size);
    trm_module *module = read_ok(data, size, "sharding");
    module->computations[0].instructions[0].sharding = shardings[i];
    expect_ok(trm_module_serialize(module, &again, &again_size, &error), &error, shardings[i]);
    trm_module *copy = read_ok(again, again_size, shardings[i]);
    assert_string_equal(copy->computations[0].instructions[0].sharding, shardings[i]);
    module->computations[0].instructions[0].sharding = "{maximal device=}";
    assert_int_equal(trm_module_serialize(module, &again, &again_size, &error),
                     TRM_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "device=NUMBER"));
    trm_module_free(copy);
    trm_module_free(module);
    trm_free(again);
    free(data);
  }
}

/* What axes of a mesh cut is a note for partitioners. */
static const char *const mesh_shardings[][2] = {
    {"{mesh[a=2,b=4], replicated}", "{replicated}"},
    {"{mesh[a=2,b=4], manual, metadata={{op_name=\"}\"}}}", "{manual}"},
    {"{mesh[a=2], unreduced}", "{unreduced}"},
    {"{mesh[a=2,b=4], [{a}, {b, ?}]}", "{unknown}"},
    {"{mesh[a=2,b=4], device_ids=([4,2]T(1,0)), [{b:(2)2}], replicated={a}, unreduced={b:(1)2}}",
     "{unknown}"},
    {"{mesh['x]'=2], device_ids=(1,0), [{'x]'}]}", "{unknown}"},
    {"{maximal_mesh[device_id=5]}", "{maximal device=5}"},
    {"{{mesh[a=2], [{a}]}, {maximal device=1}}", "{{unknown}, {maximal device=1}}"}};
static const char *const bad_mesh_shardings[] = {"{mesh[a=2, replicated}", "{mesh[a=2], [{a}}",
                                                 "{mesh[a=2], cut}", "{maximal_mesh[device_id=1}"};

static void test_sharding_of_a_mesh(void **state) {
  (void)state;
  trm_arena arena = {0};
  Tremula__Hlo__OpSharding *proto;
  const char *text;
  trm_error error;
  for (size_t i = 0; i < sizeof mesh_shardings / sizeof *mesh_shardings; ++i) {
    const char *const *pair = mesh_shardings[i];
    expect_ok(trm_proto_sharding_parse(&arena, pair[0], &proto, &error), &error, pair[0]);
    expect_ok(trm_proto_sharding_text(&arena, proto, &text, &error), &error, pair[0]);
    assert_string_equal(text, pair[1]);
  }
  for (size_t i = 0; i < sizeof bad_mesh_shardings / sizeof *bad_mesh_shardings; ++i) {
    assert_int_equal(trm_proto_sharding_parse(&arena, bad_mesh_shardings[i], &proto, &error),
                     TRM_INVALID_ARGUMENT);
  }
  trm_arena_free(&arena);
}

/* The proto's own form, which newer versions of XLA write. */
static void test_named_sharding(void **state) {
  (void)state;
  Tremula__Hlo__MeshProto__MeshAxis axis = TREMULA__HLO__MESH_PROTO__MESH_AXIS__INIT;
  Tremula__Hlo__MeshProto__MeshAxis *axes[] = {&axis, &axis};
  Tremula__Hlo__AxisRefProto first = TREMULA__HLO__AXIS_REF_PROTO__INIT, second = first;
  Tremula__Hlo__AxisRefProto *both[] = {&first, &second};
  Tremula__Hlo__AxisRefProto__SubAxis part = TREMULA__HLO__AXIS_REF_PROTO__SUB_AXIS__INIT;
  Tremula__Hlo__MeshProto mesh = TREMULA__HLO__MESH_PROTO__INIT;
  Tremula__Hlo__NamedShardingProto__DimensionSharding cut =
      TREMULA__HLO__NAMED_SHARDING_PROTO__DIMENSION_SHARDING__INIT;
  Tremula__Hlo__NamedShardingProto__DimensionSharding *cuts[] = {&cut};
  Tremula__Hlo__NamedShardingProto named = TREMULA__HLO__NAMED_SHARDING_PROTO__INIT;
  Tremula__Hlo__OpSharding sharding = TREMULA__HLO__OP_SHARDING__INIT;
  int64_t device = 3;
  trm_arena arena = {0};
  const char *text;
  trm_error error;
#define EXPECT(expected)                                                                  \
  expect_ok(trm_proto_sharding_text(&arena, &sharding, &text, &error), &error, expected); \
  assert_string_equal(text, expected)
  sharding.named_sharding = &named;
  EXPECT("{unknown}"); /* no mesh */
  named.mesh = &mesh;
  EXPECT("{replicated}");
  mesh.n_device_ids = 1, mesh.device_ids = &device;
  EXPECT("{maximal device=3}");
  mesh.n_axes = 2, mesh.axes = axes, mesh.n_device_ids = 0;
  named.n_dim_shardings = 1, named.dim_shardings = cuts;
  EXPECT("{replicated}");
  named.manual_axes = both, named.n_manual_axes = 2;
  EXPECT("{manual}");
  second.sub_axis_info = &part;
  EXPECT("{unknown}");
  second.sub_axis_info = NULL, named.n_manual_axes = 0;
  named.unreduced_axes = both, named.n_unreduced_axes = 2;
  EXPECT("{unreduced}");
  named.n_unreduced_axes = 0;
  cut.n_axes = 1, cut.axes = both;
  EXPECT("{unknown}");
#undef EXPECT
  trm_arena_free(&arena);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void test_allocation_failure(void **state) {
  (void)state;
  size_t size;
  uint8_t *data = load("effects_215", &size);
  bool finished = false;
  for (int64_t n = 0; !finished; ++n) {
    trm_error error = {0};
    trm_module *module = NULL;
    void *again = NULL;
    size_t again_size;
    trm_allocation_fail_after(n);
    trm_status status = trm_hlo_parse_proto(data, size, &module, &error);
    if (status == TRM_OK) status = trm_module_verify(module, &error);
    if (status == TRM_OK) status = trm_module_serialize(module, &again, &again_size, &error);
    trm_allocation_fail_after(-1);
    if (status != TRM_OK) {
      assert_true(status == TRM_RESOURCE_EXHAUSTED || status == TRM_DATA_LOSS);
      assert_non_null(strstr(error.message, "memory"));
      assert_null(again);
    }
    finished = status == TRM_OK;
    trm_free(again);
    trm_module_free(module);
    assert_true(n < 100000);
  }
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_side_effects_are_chained),
      cmocka_unit_test(test_attributes_are_read),
      cmocka_unit_test(test_algorithm_of_a_dot),
      cmocka_unit_test(test_truncation),
      cmocka_unit_test(test_mutations),
      cmocka_unit_test(test_unknown_fields),
      cmocka_unit_test(test_deep_nesting),
      cmocka_unit_test(test_long_chain),
      cmocka_unit_test(test_deep_calls),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_literal_layout),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_newer_forms),
      cmocka_unit_test(test_schedule),
      cmocka_unit_test(test_sharding),
      cmocka_unit_test(test_sharding_of_a_mesh),
      cmocka_unit_test(test_named_sharding),
      cmocka_unit_test(test_allocation_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
