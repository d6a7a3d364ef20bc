/* Owns: the builder: instructions are inferred and appended at once; the first mistake sticks. Long
 * because the interface is: past add(), a short function for each of its entries. */
#include "tremula/builder.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "hlo/hlo.h"
#include "hlo/infer.h" /* kinds of element types */

/* A function that is being built. */
typedef struct open_function {
  uint32_t computation;
  trm_index last_effect;
} open_function;

struct trm_builder {
  trm_module *module; /* NULL once built */
  VECTOR(open_function) open; /* the innermost last; the first is the entry */
  VECTOR(trm_alias) aliases;
  const char *sharding; /* of what is built next; in the module's arena, as the metadata */
  trm_metadata metadata;
  trm_error first; /* the first mistake */
};

static const trm_value no_value = {TRM_NO_INDEX, TRM_NO_INDEX};
static const trm_function no_function = {TRM_NO_INDEX};

/* ---- Mistakes ------------------------------------------------------------------------------- */

static bool is_fine(const trm_builder *b) { return b->first.status == TRM_OK; }

/* For use with functions that take an error: keeps the first. */
static bool keep(trm_builder *b, trm_status status, const char *what) {
  if (status == TRM_OK) return true;
  b->first.status = status;
  if (what != NULL) trm_note(&b->first, status, "while building %s", what);
  return false;
}

#define MISTAKE(b, ...)                                                                     \
  do {                                                                                      \
    if (is_fine(b)) {                                                                       \
      (b)->first.status = trm_fail(&(b)->first, TRM_INVALID_ARGUMENT, __VA_ARGS__);         \
    }                                                                                       \
  } while (0)

static void no_memory(trm_builder *b) {
  if (is_fine(b)) {
    b->first.status =
        trm_fail(&b->first, TRM_RESOURCE_EXHAUSTED, "out of memory while building a program");
  }
}

static trm_arena *arena_of(trm_builder *b) { return &b->module->arena; }

static open_function *current(trm_builder *b) { return &b->open.items[b->open.count - 1]; }

static trm_dims copy_axes(trm_builder *b, trm_axes axes) {
  trm_dims dims = {0};
  if (!is_fine(b) || axes.count <= 0) return dims;
  if (axes.count > TRM_MAX_RANK) {
    MISTAKE(b, "a list of %d dimensions; at most %d are supported", axes.count, TRM_MAX_RANK);
    return dims;
  }
  dims.items = trm_arena_copy(arena_of(b), axes.items, (size_t)axes.count * sizeof *axes.items);
  if (dims.items == NULL) {
    no_memory(b);
  } else {
    dims.count = axes.count;
  }
  return dims;
}

static const char *copy_text(trm_builder *b, const char *text) {
  if (!is_fine(b) || text == NULL) return NULL;
  const char *copy = trm_arena_string(arena_of(b), text, strlen(text));
  if (copy == NULL) no_memory(b);
  return copy;
}

static trm_shape make_shape(trm_builder *b, trm_type type) {
  trm_shape shape = {0};
  if (!is_fine(b)) return shape;
  const trm_shape given = {.dtype = type.dtype, .rank = type.rank, .dims = type.dims};
  if (type.rank > 0 && type.dims == NULL) {
    MISTAKE(b, "a type of %d dimensions has no sizes", type.rank);
  } else if (!trm_shape_is_array(&given)) {
    MISTAKE(b, "a type must be an array's, not %s", trm_dtype_name(type.dtype));
  } else if (keep(b, trm_shape_check(&given, &b->first), NULL) &&
             !trm_shape_make(arena_of(b), type.dtype, type.rank, type.dims, &shape)) {
    no_memory(b);
  }
  return shape;
}

static const trm_shape *shape_of(const trm_builder *b, trm_value value) {
  if (b->module == NULL || value.function >= b->module->num_computations) return NULL;
  const trm_computation *computation = &b->module->computations[value.function];
  if (value.instruction >= computation->num_instructions) return NULL;
  return &computation->instructions[value.instruction].shape;
}

/* ---- Adding --------------------------------------------------------------------------------- */

static trm_value add(trm_builder *b, trm_instruction *instruction, const trm_value *operands,
                     size_t count) {
  const char *opcode = trm_opcode_name(instruction->opcode);
  if (!is_fine(b)) return no_value;
  open_function *function = current(b);
  const trm_computation *computation = &b->module->computations[function->computation];
  if (count > UINT32_MAX / 4) {
    MISTAKE(b, "%s has too many operands", opcode);
    return no_value;
  }
  trm_index *indices = trm_allocate(count * sizeof *indices);
  if (indices == NULL) {
    no_memory(b);
    return no_value;
  }
  for (size_t i = 0; i < count && is_fine(b); ++i) {
    indices[i] = operands[i].instruction;
    if (shape_of(b, operands[i]) == NULL) {
      MISTAKE(b, "%s: operand %zu is not a value of this builder", opcode, i);
    } else if (operands[i].function != function->computation) {
      MISTAKE(b, "%s: operand %zu belongs to function %s and is used in %s; pass it as an argument",
              opcode, i, b->module->computations[operands[i].function].name, computation->name);
    }
  }
  instruction->operands = indices;
  instruction->num_operands = (uint32_t)count;
  instruction->sharding = b->sharding;
  instruction->metadata = b->metadata;
  trm_shape shape;
  trm_index index = TRM_NO_INDEX;
  if (is_fine(b) &&
      keep(b, trm_infer_shape(b->module, computation, instruction, &shape, &b->first),
           b->metadata.op_name != NULL ? b->metadata.op_name : opcode)) {
    instruction->shape = shape;
    const bool has_effect = trm_instruction_has_side_effect(b->module, instruction);
    if (has_effect && function->last_effect != TRM_NO_INDEX) {
      instruction->control_predecessors = &function->last_effect;
      instruction->num_control_predecessors = 1;
    }
    if (keep(b, trm_computation_add(b->module, function->computation, instruction, &index,
                                    &b->first), opcode) &&
        has_effect) {
      function->last_effect = index;
      b->module->computations[function->computation].has_side_effect = true;
    }
  }
  trm_free(indices);
  return is_fine(b) ? (trm_value){function->computation, index} : no_value;
}

/* Functions as the instruction's called computations; the array lives until add returns. */
static void call(trm_builder *b, trm_instruction *instruction, uint32_t *indices,
                 const trm_function *functions, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    indices[i] = functions[i].index;
    if (is_fine(b) && (functions[i].index >= b->module->num_computations ||
                       b->module->computations[functions[i].index].root == TRM_NO_INDEX)) {
      MISTAKE(b, "%s: function %zu is not a finished function of this builder",
              trm_opcode_name(instruction->opcode), i);
    }
  }
  instruction->called = indices;
  instruction->num_called = (uint32_t)count;
}

static bool find_opcode(trm_builder *b, const char *name, trm_opcode *out_opcode) {
  if (!is_fine(b)) return false;
  if (name == NULL || !trm_opcode_find(name, strlen(name), out_opcode)) {
    MISTAKE(b, "\"%s\" is not an opcode of HLO", name == NULL ? "" : name);
  }
  return is_fine(b);
}

/* ---- Builders ------------------------------------------------------------------------------- */

trm_status trm_builder_create(const char *name, trm_builder **out_builder, trm_error *error) {
  trm_builder *b = trm_allocate_zeroed(1, sizeof *b);
  CHECK_MEMORY(b, "a builder");
  uint32_t entry = 0;
  trm_status status = trm_module_create(name == NULL ? "module" : name, &b->module, error);
  if (status == TRM_OK) status = trm_module_add_computation(b->module, "main", &entry, error);
  if (status == TRM_OK && !VECTOR_PUSH(&b->open, ((open_function){entry, TRM_NO_INDEX}))) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while creating a builder");
  }
  if (status != TRM_OK) {
    trm_builder_free(b);
    return status;
  }
  b->module->entry = entry;
  *out_builder = b;
  return TRM_OK;
}

void trm_builder_free(trm_builder *builder) {
  if (builder == NULL) return;
  trm_module_free(builder->module);
  VECTOR_FREE(&builder->open);
  VECTOR_FREE(&builder->aliases);
  trm_free(builder);
}

trm_status trm_builder_status(const trm_builder *builder) { return builder->first.status; }

bool trm_builder_value_info(const trm_builder *builder, trm_value value,
                            trm_tensor_info *out_info) {
  const trm_shape *shape = is_fine(builder) ? shape_of(builder, value) : NULL;
  if (shape == NULL || !trm_shape_is_array(shape)) return false;
  *out_info = (trm_tensor_info){
      .name =
          builder->module->computations[value.function].instructions[value.instruction].name,
      .dtype = shape->dtype,
      .rank = shape->rank,
      .bytes = trm_shape_bytes(shape)};
  for (int32_t i = 0; i < shape->rank; ++i) out_info->dims[i] = shape->dims[i];
  return true;
}

void trm_builder_set_device(trm_builder *builder, int64_t device) {
  if (!is_fine(builder)) return;
  builder->sharding = NULL;
  if (device < 0) return;
  builder->sharding =
      trm_arena_format(arena_of(builder), "{maximal device=%" PRId64 "}", device);
  if (builder->sharding == NULL) no_memory(builder);
}

void trm_builder_set_source(trm_builder *builder, const char *op_type, const char *op_name,
                            const char *file, int32_t line) {
  builder->metadata = (trm_metadata){.op_type = copy_text(builder, op_type),
                                     .op_name = copy_text(builder, op_name),
                                     .source_file = copy_text(builder, file),
                                     .source_line = line};
}

void trm_builder_alias(trm_builder *builder, int64_t output, int64_t parameter) {
  trm_alias alias = {.parameter_number = parameter};
  if (output >= 0) alias.output_index = copy_axes(builder, (trm_axes){&output, 1});
  if (is_fine(builder) && !VECTOR_PUSH(&builder->aliases, alias)) no_memory(builder);
}

/* The result of the innermost function. */
static bool set_root(trm_builder *b, trm_value root) {
  if (!is_fine(b)) return false;
  trm_computation *computation = &b->module->computations[current(b)->computation];
  if (root.function != current(b)->computation || shape_of(b, root) == NULL) {
    MISTAKE(b, "the result of function %s is not one of its values", computation->name);
    return false;
  }
  computation->root = root.instruction;
  return true;
}

void trm_builder_begin(trm_builder *builder, const char *name) {
  if (!is_fine(builder)) return;
  uint32_t index = 0;
  /* The index keeps names of functions apart. */
  const char *unique =
      trm_arena_format(arena_of(builder), "%s.%" PRIu32, name == NULL ? "function" : name,
                       builder->module->num_computations);
  if (unique == NULL) {
    no_memory(builder);
  } else if (keep(builder,
                  trm_module_add_computation(builder->module, unique, &index, &builder->first),
                  "a function") &&
             !VECTOR_PUSH(&builder->open, ((open_function){index, TRM_NO_INDEX}))) {
    no_memory(builder);
  }
}

trm_function trm_builder_end(trm_builder *builder, trm_value root) {
  if (is_fine(builder) && builder->open.count == 1) {
    MISTAKE(builder, "trm_builder_end without trm_builder_begin");
  }
  if (!set_root(builder, root)) return no_function;
  return (trm_function){builder->open.items[--builder->open.count].computation};
}

trm_function trm_builder_scalar_function(trm_builder *builder, const char *opcode,
                                         trm_dtype dtype) {
  const trm_type scalar = {dtype, 0, NULL};
  trm_builder_begin(builder, opcode);
  const trm_value a = trm_build_parameter(builder, 0, scalar, NULL);
  const trm_value b = trm_build_parameter(builder, 1, scalar, NULL);
  return trm_builder_end(builder, trm_build_binary(builder, opcode, a, b));
}

trm_status trm_builder_build(trm_builder *builder, trm_value root, trm_module **out_module,
                             trm_error *error) {
  trm_builder *b = builder;
  if (is_fine(b) && b->open.count > 1) {
    MISTAKE(b, "function %s was begun and not ended",
            b->module->computations[current(b)->computation].name);
  }
  trm_module *module = b->module;
  if (set_root(b, root)) {
    module->num_aliases = (uint32_t)b->aliases.count;
    module->aliases = trm_arena_copy(arena_of(b), b->aliases.items,
                                     b->aliases.count * sizeof *b->aliases.items);
    if (module->aliases == NULL) no_memory(b);
  }
  if (is_fine(b)) keep(b, trm_module_compact(module, &b->first), NULL);
  if (is_fine(b)) keep(b, trm_module_verify(module, &b->first), NULL);
  if (!is_fine(b)) return trm_fail(error, b->first.status, "%s", b->first.message);
  b->module = NULL;
  b->first.status = trm_fail(&b->first, TRM_FAILED_PRECONDITION, "the builder has built already");
  *out_module = module;
  return TRM_OK;
}

/* ---- Sources -------------------------------------------------------------------------------- */

static trm_value add_parameter(trm_builder *b, int64_t number, trm_shape shape, const char *name) {
  trm_instruction instruction = {.opcode = TRM_OP_PARAMETER, .number = number, .shape = shape};
  if (is_fine(b) && name != NULL) {
    /* The id keeps names apart. */
    instruction.name = trm_arena_format(arena_of(b), "%s.%" PRId64, name, b->module->next_id);
    if (instruction.name == NULL) no_memory(b);
  }
  return add(b, &instruction, NULL, 0);
}

trm_value trm_build_parameter(trm_builder *builder, int64_t number, trm_type type,
                              const char *name) {
  return add_parameter(builder, number, make_shape(builder, type), name);
}

trm_value trm_build_parameter_like(trm_builder *builder, int64_t number, trm_value value,
                                   const char *name) {
  if (!is_fine(builder)) return no_value;
  const trm_shape *shape = shape_of(builder, value);
  if (shape == NULL) {
    MISTAKE(builder, "a parameter is to be like something that is not a value of this builder");
    return no_value;
  }
  return add_parameter(builder, number, *shape, name);
}

trm_value trm_build_constant(trm_builder *builder, trm_type type, const void *data, size_t size) {
  trm_instruction instruction = {.opcode = TRM_OP_CONSTANT};
  const trm_shape shape = make_shape(builder, type);
  if (!is_fine(builder)) return no_value;
  if (size != trm_shape_bytes(&shape) || (data == NULL && size > 0)) {
    char text[256];
    MISTAKE(builder, "constant: %s has %zu bytes, and %zu are given",
            trm_shape_text(&shape, text, sizeof text), trm_shape_bytes(&shape),
            data == NULL ? 0 : size);
    return no_value;
  }
  trm_literal *literal = ARENA_NEW(arena_of(builder), trm_literal, 1);
  const void **leaves = ARENA_NEW(arena_of(builder), const void *, 1);
  void *bytes = trm_arena_copy(arena_of(builder), data, size);
  if (literal == NULL || leaves == NULL || bytes == NULL) {
    no_memory(builder);
    return no_value;
  }
  leaves[0] = bytes;
  *literal = (trm_literal){.shape = shape, .num_leaves = 1, .leaves = leaves};
  instruction.literal = literal;
  return add(builder, &instruction, NULL, 0);
}

/* Rounds to the nearest and keeps within the type's range. */
static int64_t to_integer(double value, double low, double high) {
  const double rounded = rint(value);
  if (!(rounded > low)) return (int64_t)low; /* NaN too */
  return rounded >= high ? (int64_t)nextafter(high, 0) : (int64_t)rounded;
}

trm_value trm_build_scalar(trm_builder *builder, trm_dtype dtype, double value) {
  union {
    uint8_t bytes[16];
    int64_t s64;
    uint64_t u64;
    float f32;
    double f64;
    uint16_t u16;
  } data = {.bytes = {0}};
  const size_t size = trm_dtype_size(dtype);
  switch (dtype) {
    case TRM_PRED: data.bytes[0] = value != 0; break;
    case TRM_F16: data.u16 = trm_float_to_half((float)value); break;
    case TRM_BF16: data.u16 = trm_float_to_bfloat16((float)value); break;
    case TRM_F32:
    case TRM_C64: data.f32 = (float)value; break;
    case TRM_F64:
    case TRM_C128: data.f64 = value; break;
    case TRM_U64: data.u64 = value >= 0x1p63 ? (uint64_t)fmin(value, 0x1.fffffffffffffp63)
                                             : (uint64_t)to_integer(value, 0, 0x1p63); break;
    default:
      /* Little-endian: the low bytes are the narrower integer. */
      if (trm_dtype_is_unsigned(dtype)) {
        data.s64 = to_integer(value, 0, ldexp(1, (int)size * 8));
      } else if (trm_dtype_is_integral(dtype)) {
        data.s64 = to_integer(value, -ldexp(1, (int)size * 8 - 1), ldexp(1, (int)size * 8 - 1));
      } else {
        MISTAKE(builder, "a scalar cannot be of type %s", trm_dtype_name(dtype));
      }
  }
  return trm_build_constant(builder, (trm_type){dtype, 0, NULL}, &data, size);
}

trm_value trm_build_iota(trm_builder *builder, trm_type type, int64_t dimension) {
  trm_instruction instruction = {.opcode = TRM_OP_IOTA,
                                 .dimensions = copy_axes(builder, (trm_axes){&dimension, 1}),
                                 .shape = make_shape(builder, type)};
  return add(builder, &instruction, NULL, 0);
}

trm_value trm_build_replica_id(trm_builder *builder) {
  trm_instruction instruction = {.opcode = TRM_OP_REPLICA_ID};
  return add(builder, &instruction, NULL, 0);
}

trm_value trm_build_rng_bit_generator(trm_builder *builder, trm_value state, int32_t algorithm,
                                      trm_type type) {
  trm_instruction instruction = {.opcode = TRM_OP_RNG_BIT_GENERATOR, .algorithm = algorithm};
  const trm_shape array = make_shape(builder, type);
  const trm_shape *before = shape_of(builder, state);
  if (!is_fine(builder)) return no_value;
  if (before != NULL) {
    const trm_shape elements[2] = {*before, array};
    if (!trm_shape_make_tuple(arena_of(builder), 2, elements, &instruction.shape)) {
      no_memory(builder);
    }
  }
  return add(builder, &instruction, &state, 1);
}

/* ---- Elementwise ---------------------------------------------------------------------------- */

static trm_value add_elementwise(trm_builder *b, const char *opcode, const trm_value *operands,
                                 int count) {
  trm_instruction instruction = {0};
  if (!find_opcode(b, opcode, &instruction.opcode)) return no_value;
  if (trm_opcode_arity(instruction.opcode) != count || instruction.opcode == TRM_OP_COMPARE ||
      instruction.opcode == TRM_OP_CONVERT || instruction.opcode == TRM_OP_REDUCE_PRECISION ||
      instruction.opcode == TRM_OP_STOCHASTIC_CONVERT ||
      (!trm_opcode_is_elementwise(instruction.opcode) && instruction.opcode != TRM_OP_COPY &&
       instruction.opcode != TRM_OP_OPT_BARRIER)) {
    MISTAKE(b, "%s is not an opcode of %d operand%s without attributes", opcode, count,
            count == 1 ? "" : "s");
    return no_value;
  }
  return add(b, &instruction, operands, (size_t)count);
}

trm_value trm_build_unary(trm_builder *builder, const char *opcode, trm_value operand) {
  return add_elementwise(builder, opcode, &operand, 1);
}

trm_value trm_build_binary(trm_builder *builder, const char *opcode, trm_value left,
                           trm_value right) {
  const trm_value operands[] = {left, right};
  return add_elementwise(builder, opcode, operands, 2);
}

trm_value trm_build_compare(trm_builder *builder, const char *direction, trm_value left,
                            trm_value right) {
  static const char *const names[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  const trm_value operands[] = {left, right};
  for (int i = 0; i < 6; ++i) {
    if (direction == NULL || strcmp(direction, names[i]) != 0) continue;
    trm_instruction instruction = {.opcode = TRM_OP_COMPARE, .comparison = (trm_comparison)i};
    return add(builder, &instruction, operands, 2);
  }
  MISTAKE(builder, "compare: \"%s\" is not one of EQ, NE, GE, GT, LE, LT",
          direction == NULL ? "" : direction);
  return no_value;
}

trm_value trm_build_select(trm_builder *builder, trm_value predicate, trm_value on_true,
                           trm_value on_false) {
  const trm_value operands[] = {predicate, on_true, on_false};
  return add_elementwise(builder, "select", operands, 3);
}

trm_value trm_build_clamp(trm_builder *builder, trm_value low, trm_value operand, trm_value high) {
  const trm_value operands[] = {low, operand, high};
  return add_elementwise(builder, "clamp", operands, 3);
}

trm_value trm_build_convert(trm_builder *builder, trm_value operand, trm_dtype dtype) {
  trm_instruction instruction = {.opcode = TRM_OP_CONVERT, .shape.dtype = dtype};
  return add(builder, &instruction, &operand, 1);
}

trm_value trm_build_bitcast_convert(trm_builder *builder, trm_value operand, trm_dtype dtype) {
  trm_instruction instruction = {.opcode = TRM_OP_BITCAST_CONVERT, .shape.dtype = dtype};
  return add(builder, &instruction, &operand, 1);
}

trm_value trm_build_reduce_precision(trm_builder *builder, trm_value operand,
                                     int32_t exponent_bits, int32_t mantissa_bits) {
  trm_instruction instruction = {.opcode = TRM_OP_REDUCE_PRECISION,
                                 .exponent_bits = exponent_bits,
                                 .mantissa_bits = mantissa_bits};
  return add(builder, &instruction, &operand, 1);
}

trm_value trm_build_map(trm_builder *builder, const trm_value *operands, size_t count,
                        trm_function function) {
  static const int64_t all[TRM_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  uint32_t called[1];
  const trm_shape *shape = count > 0 ? shape_of(builder, operands[0]) : NULL;
  trm_instruction instruction = {
      .opcode = TRM_OP_MAP,
      .dimensions = copy_axes(builder, (trm_axes){all, shape == NULL ? 0 : shape->rank})};
  call(builder, &instruction, called, &function, 1);
  return add(builder, &instruction, operands, count);
}

/* ---- Moving data ---------------------------------------------------------------------------- */

static trm_shape resized(trm_builder *b, trm_value operand, trm_axes sizes) {
  const trm_shape *shape = shape_of(b, operand);
  if (shape == NULL) return (trm_shape){0};
  return make_shape(b, (trm_type){shape->dtype, sizes.count, sizes.items});
}

trm_value trm_build_broadcast(trm_builder *builder, trm_value operand, trm_axes sizes,
                              trm_axes axes) {
  trm_instruction instruction = {.opcode = TRM_OP_BROADCAST,
                                 .shape = resized(builder, operand, sizes),
                                 .dimensions = copy_axes(builder, axes)};
  return add(builder, &instruction, &operand, 1);
}

trm_value trm_build_reshape(trm_builder *builder, trm_value operand, trm_axes sizes) {
  trm_instruction instruction = {.opcode = TRM_OP_RESHAPE,
                                 .shape = resized(builder, operand, sizes)};
  return add(builder, &instruction, &operand, 1);
}

trm_value trm_build_transpose(trm_builder *builder, trm_value operand, trm_axes permutation) {
  trm_instruction instruction = {.opcode = TRM_OP_TRANSPOSE,
                                 .dimensions = copy_axes(builder, permutation)};
  return add(builder, &instruction, &operand, 1);
}

trm_value trm_build_reverse(trm_builder *builder, trm_value operand, trm_axes axes) {
  trm_instruction instruction = {.opcode = TRM_OP_REVERSE, .dimensions = copy_axes(builder, axes)};
  return add(builder, &instruction, &operand, 1);
}

/* Whether each list has an entry for each dimension of the operand; the last may be empty. */
static bool fit_rank(trm_builder *b, const char *opcode, trm_value operand, trm_axes first,
                     trm_axes second, trm_axes optional) {
  const trm_shape *shape = shape_of(b, operand);
  if (!is_fine(b)) return false;
  if (shape == NULL || !trm_shape_is_array(shape)) {
    MISTAKE(b, "%s: operand 0 is not an array of this builder", opcode);
  } else if (first.count != shape->rank || second.count != shape->rank ||
             (optional.count != 0 && optional.count != shape->rank)) {
    MISTAKE(b, "%s: every list must have %d entries, as the operand has dimensions", opcode,
            shape->rank);
  }
  return is_fine(b);
}

trm_value trm_build_slice(trm_builder *builder, trm_value operand, trm_axes starts,
                          trm_axes limits, trm_axes strides) {
  trm_instruction instruction = {.opcode = TRM_OP_SLICE};
  if (!fit_rank(builder, "slice", operand, starts, limits, strides)) return no_value;
  instruction.slice = ARENA_NEW(arena_of(builder), trm_slice_dimension, (size_t)starts.count);
  if (instruction.slice == NULL) {
    no_memory(builder);
    return no_value;
  }
  for (int32_t i = 0; i < starts.count; ++i) {
    instruction.slice[i] = (trm_slice_dimension){starts.items[i], limits.items[i],
                                                 strides.count == 0 ? 1 : strides.items[i]};
  }
  return add(builder, &instruction, &operand, 1);
}

/* `first` operands and then a start for each dimension of operand 0. */
static trm_value add_with_starts(trm_builder *b, trm_instruction *instruction,
                                 const trm_value *first, size_t count, const trm_value *starts) {
  trm_value operands[2 + TRM_MAX_RANK];
  const trm_shape *shape = shape_of(b, first[0]);
  const size_t rank = shape == NULL ? 0 : (size_t)shape->rank;
  memcpy(operands, first, count * sizeof *operands);
  if (rank > 0) memcpy(operands + count, starts, rank * sizeof *operands);
  return add(b, instruction, operands, count + rank);
}

trm_value trm_build_dynamic_slice(trm_builder *builder, trm_value operand, const trm_value *starts,
                                  trm_axes sizes) {
  trm_instruction instruction = {.opcode = TRM_OP_DYNAMIC_SLICE,
                                 .sizes = copy_axes(builder, sizes)};
  return add_with_starts(builder, &instruction, &operand, 1, starts);
}

trm_value trm_build_dynamic_update_slice(trm_builder *builder, trm_value operand, trm_value update,
                                         const trm_value *starts) {
  trm_instruction instruction = {.opcode = TRM_OP_DYNAMIC_UPDATE_SLICE};
  const trm_value first[] = {operand, update};
  return add_with_starts(builder, &instruction, first, 2, starts);
}

trm_value trm_build_concatenate(trm_builder *builder, const trm_value *operands, size_t count,
                                int64_t axis) {
  trm_instruction instruction = {.opcode = TRM_OP_CONCATENATE,
                                 .dimensions = copy_axes(builder, (trm_axes){&axis, 1})};
  return add(builder, &instruction, operands, count);
}

trm_value trm_build_pad(trm_builder *builder, trm_value operand, trm_value value, trm_axes low,
                        trm_axes high, trm_axes interior) {
  trm_instruction instruction = {.opcode = TRM_OP_PAD};
  const trm_value operands[] = {operand, value};
  if (!fit_rank(builder, "pad", operand, low, high, interior)) return no_value;
  instruction.padding = ARENA_NEW(arena_of(builder), trm_padding_dimension, (size_t)low.count);
  if (instruction.padding == NULL) {
    no_memory(builder);
    return no_value;
  }
  for (int32_t i = 0; i < low.count; ++i) {
    instruction.padding[i] = (trm_padding_dimension){
        low.items[i], high.items[i], interior.count == 0 ? 0 : interior.items[i]};
  }
  return add(builder, &instruction, operands, 2);
}

trm_value trm_build_gather(trm_builder *builder, trm_value operand, trm_value indices,
                           const trm_gather_spec *spec) {
  trm_gather gather = {
      .offset_dims = copy_axes(builder, spec->offset_dims),
      .collapsed_slice_dims = copy_axes(builder, spec->collapsed_slice_dims),
      .start_index_map = copy_axes(builder, spec->start_index_map),
      .operand_batching_dims = copy_axes(builder, spec->operand_batching_dims),
      .start_indices_batching_dims = copy_axes(builder, spec->start_indices_batching_dims),
      .index_vector_dim = spec->index_vector_dim,
      .slice_sizes = copy_axes(builder, spec->slice_sizes),
      .indices_are_sorted = spec->indices_are_sorted};
  const trm_value operands[] = {operand, indices};
  if (!is_fine(builder)) return no_value;
  trm_instruction instruction = {
      .opcode = TRM_OP_GATHER, .gather = trm_arena_copy(arena_of(builder), &gather, sizeof gather)};
  if (instruction.gather == NULL) no_memory(builder);
  return add(builder, &instruction, operands, 2);
}

trm_value trm_build_scatter(trm_builder *builder, trm_value operand, trm_value indices,
                            trm_value updates, const trm_scatter_spec *spec,
                            trm_function combine) {
  trm_scatter scatter = {
      .update_window_dims = copy_axes(builder, spec->update_window_dims),
      .inserted_window_dims = copy_axes(builder, spec->inserted_window_dims),
      .scatter_dims_to_operand_dims = copy_axes(builder, spec->scatter_dims_to_operand_dims),
      .input_batching_dims = copy_axes(builder, spec->input_batching_dims),
      .scatter_indices_batching_dims = copy_axes(builder, spec->scatter_indices_batching_dims),
      .index_vector_dim = spec->index_vector_dim,
      .indices_are_sorted = spec->indices_are_sorted,
      .unique_indices = spec->unique_indices};
  const trm_value operands[] = {operand, indices, updates};
  uint32_t called[1];
  if (!is_fine(builder)) return no_value;
  trm_instruction instruction = {
      .opcode = TRM_OP_SCATTER,
      .scatter = trm_arena_copy(arena_of(builder), &scatter, sizeof scatter)};
  if (instruction.scatter == NULL) no_memory(builder);
  call(builder, &instruction, called, &combine, 1);
  return add(builder, &instruction, operands, 3);
}

/* ---- Reductions ----------------------------------------------------------------------------- */

trm_value trm_build_reduce(trm_builder *builder, trm_value operand, trm_value init, trm_axes axes,
                           trm_function combine) {
  return trm_build_reduce_many(builder, &operand, &init, 1, axes, combine);
}

trm_value trm_build_reduce_many(trm_builder *builder, const trm_value *operands,
                                const trm_value *inits, size_t count, trm_axes axes,
                                trm_function combine) {
  trm_instruction instruction = {.opcode = TRM_OP_REDUCE, .dimensions = copy_axes(builder, axes)};
  uint32_t called[1];
  if (count > UINT32_MAX / 8) MISTAKE(builder, "reduce has too many operands");
  if (!is_fine(builder)) return no_value;
  trm_value *all = ARENA_NEW(arena_of(builder), trm_value, 2 * count);
  if (all == NULL) {
    no_memory(builder);
    return no_value;
  }
  for (size_t i = 0; i < count; ++i) all[i] = operands[i], all[count + i] = inits[i];
  call(builder, &instruction, called, &combine, 1);
  return add(builder, &instruction, all, 2 * count);
}

static trm_window *make_window(trm_builder *b, const trm_window_spec *spec, int32_t rank) {
  if (!is_fine(b)) return NULL;
  trm_window *window = ARENA_NEW(arena_of(b), trm_window, 1);
  trm_window_dimension *dims = ARENA_NEW(arena_of(b), trm_window_dimension, (size_t)rank);
  if (window == NULL || dims == NULL) {
    no_memory(b);
    return NULL;
  }
  for (int32_t i = 0; i < rank; ++i) {
    dims[i] = (trm_window_dimension){
        .size = spec[i].size,
        .stride = spec[i].stride == 0 ? 1 : spec[i].stride,
        .padding_low = spec[i].padding_low,
        .padding_high = spec[i].padding_high,
        .window_dilation = spec[i].window_dilation == 0 ? 1 : spec[i].window_dilation,
        .base_dilation = spec[i].base_dilation == 0 ? 1 : spec[i].base_dilation,
        .reversal = spec[i].reversal};
  }
  *window = (trm_window){rank, dims};
  return window;
}

static int32_t rank_of(const trm_builder *b, trm_value value) {
  const trm_shape *shape = shape_of(b, value);
  return shape == NULL ? 0 : shape->rank;
}

trm_value trm_build_reduce_window(trm_builder *builder, trm_value operand, trm_value init,
                                  const trm_window_spec *window, trm_function combine) {
  trm_instruction instruction = {
      .opcode = TRM_OP_REDUCE_WINDOW,
      .window = make_window(builder, window, rank_of(builder, operand))};
  const trm_value operands[] = {operand, init};
  uint32_t called[1];
  call(builder, &instruction, called, &combine, 1);
  return add(builder, &instruction, operands, 2);
}

trm_value trm_build_select_and_scatter(trm_builder *builder, trm_value operand, trm_value source,
                                       trm_value init, const trm_window_spec *window,
                                       trm_function select, trm_function scatter) {
  trm_instruction instruction = {
      .opcode = TRM_OP_SELECT_AND_SCATTER,
      .window = make_window(builder, window, rank_of(builder, operand))};
  const trm_value operands[] = {operand, source, init};
  const trm_function functions[] = {select, scatter};
  uint32_t called[2];
  call(builder, &instruction, called, functions, 2);
  return add(builder, &instruction, operands, 3);
}

trm_value trm_build_sort(trm_builder *builder, const trm_value *operands, size_t count,
                         int64_t axis, bool is_stable, trm_function less) {
  trm_instruction instruction = {.opcode = TRM_OP_SORT,
                                 .dimensions = copy_axes(builder, (trm_axes){&axis, 1}),
                                 .is_stable = is_stable};
  uint32_t called[1];
  call(builder, &instruction, called, &less, 1);
  return add(builder, &instruction, operands, count);
}

/* ---- Linear algebra ------------------------------------------------------------------------- */

trm_value trm_build_dot(trm_builder *builder, trm_value left, trm_value right, trm_axes left_batch,
                        trm_axes right_batch, trm_axes left_contracting,
                        trm_axes right_contracting, trm_dtype dtype) {
  trm_dot dot = {.lhs_batch = copy_axes(builder, left_batch),
                 .rhs_batch = copy_axes(builder, right_batch),
                 .lhs_contracting = copy_axes(builder, left_contracting),
                 .rhs_contracting = copy_axes(builder, right_contracting)};
  const trm_value operands[] = {left, right};
  if (!is_fine(builder)) return no_value;
  trm_instruction instruction = {.opcode = TRM_OP_DOT,
                                 .shape.dtype = dtype,
                                 .dot = trm_arena_copy(arena_of(builder), &dot, sizeof dot)};
  if (instruction.dot == NULL) no_memory(builder);
  return add(builder, &instruction, operands, 2);
}

/* Reads one part of "b01f_01io->b01f" up to `end`: letters name two dimensions, digits the spatial
 * ones. Returns where it stopped, or NULL. */
static const char *read_labels(const char *text, const char *end, const char letters[2],
                               int64_t *first, int64_t *second, int64_t *spatial,
                               int32_t *spatial_rank) {
  uint32_t seen = 0;
  int32_t digits = 0;
  int64_t position = 0;
  *first = *second = -1;
  for (; *text != '\0' && *text != *end; ++text, ++position) {
    if (*text == letters[0] && *first < 0) {
      *first = position;
    } else if (*text == letters[1] && *second < 0) {
      *second = position;
    } else if (*text >= '0' && *text <= '9' && (seen >> (*text - '0') & 1) == 0) {
      seen |= UINT32_C(1) << (*text - '0');
      spatial[*text - '0'] = position;
      ++digits;
    } else {
      return NULL;
    }
  }
  const bool complete = *first >= 0 && *second >= 0 && seen == (UINT32_C(1) << digits) - 1;
  if (!complete || (*spatial_rank >= 0 && digits != *spatial_rank) ||
      strncmp(text, end, strlen(end)) != 0) {
    return NULL;
  }
  *spatial_rank = digits;
  return text + strlen(end);
}

trm_value trm_build_convolution(trm_builder *builder, trm_value input, trm_value kernel,
                                const char *labels, const trm_window_spec *window,
                                int64_t feature_groups, int64_t batch_groups, trm_dtype dtype) {
  enum { MAX_SPATIAL = 10 };
  const trm_value operands[] = {input, kernel};
  if (!is_fine(builder)) return no_value;
  trm_convolution *n = ARENA_NEW(arena_of(builder), trm_convolution, 1);
  int64_t *spatial = ARENA_NEW(arena_of(builder), int64_t, 3 * MAX_SPATIAL);
  if (n == NULL || spatial == NULL) {
    no_memory(builder);
    return no_value;
  }
  *n = (trm_convolution){.spatial_rank = -1,
                         .input_spatial = spatial,
                         .kernel_spatial = spatial + MAX_SPATIAL,
                         .output_spatial = spatial + 2 * MAX_SPATIAL,
                         .feature_group_count = feature_groups,
                         .batch_group_count = batch_groups};
  const char *at = labels == NULL ? NULL
                                  : read_labels(labels, "_", "bf", &n->input_batch,
                                                &n->input_feature, n->input_spatial,
                                                &n->spatial_rank);
  if (at != NULL) {
    at = read_labels(at, "->", "io", &n->kernel_input_feature, &n->kernel_output_feature,
                     n->kernel_spatial, &n->spatial_rank);
  }
  if (at != NULL) {
    at = read_labels(at, "", "bf", &n->output_batch, &n->output_feature, n->output_spatial,
                     &n->spatial_rank);
  }
  if (at == NULL) {
    MISTAKE(builder, "convolution: the labels \"%s\" are not of the form b01f_01io->b01f",
            labels == NULL ? "" : labels);
    return no_value;
  }
  trm_instruction instruction = {.opcode = TRM_OP_CONVOLUTION,
                                 .shape.dtype = dtype,
                                 .convolution = n,
                                 .window = make_window(builder, window, n->spatial_rank)};
  return add(builder, &instruction, operands, 2);
}

static trm_value add_batch_norm(trm_builder *b, trm_opcode opcode, const trm_value *operands,
                                size_t count, float epsilon, int64_t feature_axis) {
  trm_instruction instruction = {.opcode = opcode, .epsilon = epsilon, .number = feature_axis};
  return add(b, &instruction, operands, count);
}

trm_value trm_build_batch_norm_training(trm_builder *builder, trm_value operand, trm_value scale,
                                        trm_value offset, float epsilon, int64_t feature_axis) {
  const trm_value operands[] = {operand, scale, offset};
  return add_batch_norm(builder, TRM_OP_BATCH_NORM_TRAINING, operands, 3, epsilon, feature_axis);
}

trm_value trm_build_batch_norm_inference(trm_builder *builder, trm_value operand, trm_value scale,
                                         trm_value offset, trm_value mean, trm_value variance,
                                         float epsilon, int64_t feature_axis) {
  const trm_value operands[] = {operand, scale, offset, mean, variance};
  return add_batch_norm(builder, TRM_OP_BATCH_NORM_INFERENCE, operands, 5, epsilon, feature_axis);
}

trm_value trm_build_batch_norm_grad(trm_builder *builder, trm_value operand, trm_value scale,
                                    trm_value mean, trm_value variance, trm_value grad_output,
                                    float epsilon, int64_t feature_axis) {
  const trm_value operands[] = {operand, scale, mean, variance, grad_output};
  return add_batch_norm(builder, TRM_OP_BATCH_NORM_GRAD, operands, 5, epsilon, feature_axis);
}

/* ---- Tuples, control flow, the outside ------------------------------------------------------ */

trm_value trm_build_tuple(trm_builder *builder, const trm_value *elements, size_t count) {
  trm_instruction instruction = {.opcode = TRM_OP_TUPLE};
  return add(builder, &instruction, elements, count);
}

trm_value trm_build_get_tuple_element(trm_builder *builder, trm_value tuple, int64_t index) {
  trm_instruction instruction = {.opcode = TRM_OP_GET_TUPLE_ELEMENT, .number = index};
  return add(builder, &instruction, &tuple, 1);
}

trm_value trm_build_while(trm_builder *builder, trm_value state, trm_function condition,
                          trm_function body) {
  trm_instruction instruction = {.opcode = TRM_OP_WHILE};
  const trm_function functions[] = {condition, body};
  uint32_t called[2];
  call(builder, &instruction, called, functions, 2);
  return add(builder, &instruction, &state, 1);
}

trm_value trm_build_conditional(trm_builder *builder, trm_value choice,
                                const trm_function *branches, const trm_value *operands,
                                size_t count) {
  trm_instruction instruction = {.opcode = TRM_OP_CONDITIONAL};
  if (!is_fine(builder)) return no_value;
  uint32_t *called = ARENA_NEW(arena_of(builder), uint32_t, count);
  trm_value *all = ARENA_NEW(arena_of(builder), trm_value, count + 1);
  if (called == NULL || all == NULL) {
    no_memory(builder);
    return no_value;
  }
  all[0] = choice;
  if (count > 0) memcpy(all + 1, operands, count * sizeof *all);
  call(builder, &instruction, called, branches, count);
  return add(builder, &instruction, all, count + 1);
}

trm_value trm_build_call(trm_builder *builder, trm_function function, const trm_value *operands,
                         size_t count) {
  trm_instruction instruction = {.opcode = TRM_OP_CALL};
  uint32_t called[1];
  call(builder, &instruction, called, &function, 1);
  return add(builder, &instruction, operands, count);
}

trm_value trm_build_all_reduce(trm_builder *builder, trm_value operand, trm_function combine) {
  trm_instruction instruction = {.opcode = TRM_OP_ALL_REDUCE};
  uint32_t called[1];
  if (!is_fine(builder)) return no_value;
  instruction.collective = ARENA_NEW(arena_of(builder), trm_collective, 1);
  if (instruction.collective == NULL) no_memory(builder);
  call(builder, &instruction, called, &combine, 1);
  return add(builder, &instruction, &operand, 1);
}

trm_value trm_build_custom_call(trm_builder *builder, const char *target,
                                const trm_value *operands, size_t count, const trm_type *results,
                                size_t num_results, bool has_side_effect, const char *config) {
  if (!is_fine(builder)) return no_value;
  trm_instruction instruction = {.opcode = TRM_OP_CUSTOM_CALL,
                                 .backend_config = copy_text(builder, config),
                                 .backend_config_size = config == NULL ? 0 : strlen(config)};
  trm_custom_call *custom = ARENA_NEW(arena_of(builder), trm_custom_call, 1);
  trm_shape *shapes = ARENA_NEW(arena_of(builder), trm_shape, num_results);
  if (custom == NULL || shapes == NULL || num_results > INT32_MAX) {
    no_memory(builder);
    return no_value;
  }
  *custom = (trm_custom_call){.target = copy_text(builder, target == NULL ? "" : target),
                              .has_side_effect = has_side_effect};
  instruction.custom_call = custom;
  for (size_t i = 0; i < num_results; ++i) shapes[i] = make_shape(builder, results[i]);
  if (num_results == 1) {
    instruction.shape = shapes[0];
  } else if (is_fine(builder) && !trm_shape_make_tuple(arena_of(builder), (int32_t)num_results,
                                                       shapes, &instruction.shape)) {
    no_memory(builder);
  }
  return add(builder, &instruction, operands, count);
}
