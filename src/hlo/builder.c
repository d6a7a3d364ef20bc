/* Owns: builders: beginning and ending functions, the first mistake, adding an instruction. What
 * the entries of the interface for each opcode need is in builder.h. */
#include "hlo/builder.h"

#include <inttypes.h>
#include <string.h>

static const trm_function no_function = {TRM_NO_INDEX};

/* ---- Mistakes ------------------------------------------------------------------------------- */

/* Keeps the failure of a function that was called with &b->first; true if there is none. */
static bool keep(trm_builder *b, trm_status status, const char *what) {
  if (status == TRM_OK) return true;
  b->first.status = status;
  if (what != NULL) trm_note(&b->first, status, "while building %s", what);
  return false;
}

void trm_builder_no_memory(trm_builder *b) {
  if (trm_builder_is_fine(b)) {
    b->first.status =
        trm_fail(&b->first, TRM_RESOURCE_EXHAUSTED, "out of memory while building a program");
  }
}

static trm_open_function *current(trm_builder *b) { return &b->open.items[b->open.count - 1]; }

trm_dims trm_builder_axes(trm_builder *b, trm_axes axes) {
  trm_dims dims = {0};
  if (!trm_builder_is_fine(b) || axes.count <= 0) return dims;
  if (axes.count > TRM_MAX_RANK) {
    MISTAKE(b, "a list of %d dimensions; at most %d are supported", axes.count, TRM_MAX_RANK);
    return dims;
  }
  dims.items =
      trm_arena_copy(&b->module->arena, axes.items, (size_t)axes.count * sizeof *axes.items);
  if (dims.items == NULL) {
    trm_builder_no_memory(b);
  } else {
    dims.count = axes.count;
  }
  return dims;
}

const char *trm_builder_text(trm_builder *b, const char *text) {
  if (!trm_builder_is_fine(b) || text == NULL) return NULL;
  const char *copy = trm_arena_string(&b->module->arena, text, strlen(text));
  if (copy == NULL) trm_builder_no_memory(b);
  return copy;
}

trm_shape trm_builder_shape(trm_builder *b, trm_type type) {
  trm_shape shape = {0};
  if (!trm_builder_is_fine(b)) return shape;
  const trm_shape given = {.dtype = type.dtype, .rank = type.rank, .dims = type.dims};
  if (type.rank > 0 && type.dims == NULL) {
    MISTAKE(b, "a type of %d dimensions has no sizes", type.rank);
  } else if (!trm_shape_is_array(&given)) {
    MISTAKE(b, "a type must be an array's, not %s", trm_dtype_name(type.dtype));
  } else if (keep(b, trm_shape_check(&given, &b->first), NULL) &&
             !trm_shape_make(&b->module->arena, type.dtype, type.rank, type.dims, &shape)) {
    trm_builder_no_memory(b);
  }
  return shape;
}

const trm_shape *trm_builder_shape_of(const trm_builder *b, trm_value value) {
  if (b->module == NULL || value.function >= b->module->num_computations) return NULL;
  const trm_computation *computation = &b->module->computations[value.function];
  if (value.instruction >= computation->num_instructions) return NULL;
  return &computation->instructions[value.instruction].shape;
}

/* ---- Adding --------------------------------------------------------------------------------- */

trm_value trm_builder_add(trm_builder *b, trm_instruction *instruction, const trm_value *operands,
                          size_t count) {
  const char *opcode = trm_opcode_name(instruction->opcode);
  if (!trm_builder_is_fine(b)) return trm_no_value;
  trm_open_function *function = current(b);
  const trm_computation *computation = &b->module->computations[function->computation];
  if (count > UINT32_MAX / 4) {
    MISTAKE(b, "%s has too many operands", opcode);
    return trm_no_value;
  }
  trm_index *indices = trm_allocate(count * sizeof *indices);
  if (indices == NULL) {
    trm_builder_no_memory(b);
    return trm_no_value;
  }
  for (size_t i = 0; i < count && trm_builder_is_fine(b); ++i) {
    indices[i] = operands[i].instruction;
    if (trm_builder_shape_of(b, operands[i]) == NULL) {
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
  if (trm_builder_is_fine(b) &&
      keep(b, trm_infer_shape(b->module, computation, instruction, &shape, &b->first),
           b->metadata.op_name != NULL ? b->metadata.op_name : opcode)) {
    instruction->shape = shape;
    const bool has_effect = trm_instruction_has_side_effect(b->module, instruction);
    if (has_effect && function->last_effect != TRM_NO_INDEX) {
      instruction->control_predecessors = &function->last_effect;
      instruction->num_control_predecessors = 1;
    }
    const trm_status added =
        trm_computation_add(b->module, function->computation, instruction, &index, &b->first);
    if (keep(b, added, opcode) && has_effect) {
      function->last_effect = index;
      b->module->computations[function->computation].has_side_effect = true;
    }
  }
  trm_free(indices);
  return trm_builder_is_fine(b) ? (trm_value){function->computation, index} : trm_no_value;
}

void trm_builder_call(trm_builder *b, trm_instruction *instruction, uint32_t *indices,
                      const trm_function *functions, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    indices[i] = functions[i].index;
    if (!trm_builder_is_fine(b)) continue;
    if (functions[i].index >= b->module->num_computations ||
        b->module->computations[functions[i].index].root == TRM_NO_INDEX) {
      MISTAKE(b, "%s: function %zu is not a finished function of this builder",
              trm_opcode_name(instruction->opcode), i);
    }
  }
  instruction->called = indices;
  instruction->num_called = (uint32_t)count;
}

bool trm_builder_find_opcode(trm_builder *b, const char *name, trm_opcode *out_opcode) {
  if (!trm_builder_is_fine(b)) return false;
  if (name == NULL || !trm_opcode_find(name, strlen(name), out_opcode)) {
    MISTAKE(b, "\"%s\" is not an opcode of HLO", name == NULL ? "" : name);
  }
  return trm_builder_is_fine(b);
}

/* ---- Builders ------------------------------------------------------------------------------- */

trm_status trm_builder_create(const char *name, trm_builder **out_builder, trm_error *error) {
  trm_builder *b = trm_allocate_zeroed(1, sizeof *b);
  CHECK_MEMORY(b, "a builder");
  uint32_t entry = 0;
  trm_status status = trm_module_create(name == NULL ? "module" : name, &b->module, error);
  if (status == TRM_OK) status = trm_module_add_computation(b->module, "main", &entry, error);
  if (status == TRM_OK && !VECTOR_PUSH(&b->open, ((trm_open_function){entry, TRM_NO_INDEX}))) {
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
  const trm_shape *shape =
      trm_builder_is_fine(builder) ? trm_builder_shape_of(builder, value) : NULL;
  if (shape == NULL || !trm_shape_is_array(shape)) return false;
  *out_info = (trm_tensor_info){
      .name = builder->module->computations[value.function].instructions[value.instruction].name,
      .dtype = shape->dtype,
      .rank = shape->rank,
      .bytes = trm_shape_bytes(shape)};
  for (int32_t i = 0; i < shape->rank; ++i) out_info->dims[i] = shape->dims[i];
  return true;
}

void trm_builder_set_device(trm_builder *builder, int64_t device) {
  if (!trm_builder_is_fine(builder)) return;
  builder->sharding = NULL;
  if (device < 0) return;
  builder->sharding =
      trm_arena_format(&builder->module->arena, "{maximal device=%" PRId64 "}", device);
  if (builder->sharding == NULL) trm_builder_no_memory(builder);
}

void trm_builder_set_source(trm_builder *builder, const char *op_type, const char *op_name,
                            const char *file, int32_t line) {
  builder->metadata = (trm_metadata){.op_type = trm_builder_text(builder, op_type),
                                     .op_name = trm_builder_text(builder, op_name),
                                     .source_file = trm_builder_text(builder, file),
                                     .source_line = line};
}

void trm_builder_alias(trm_builder *builder, int64_t output, int64_t parameter) {
  trm_alias alias = {.parameter_number = parameter};
  if (output >= 0) alias.output_index = trm_builder_axes(builder, (trm_axes){&output, 1});
  if (trm_builder_is_fine(builder) && !VECTOR_PUSH(&builder->aliases, alias)) {
    trm_builder_no_memory(builder);
  }
}

/* The result of the innermost function. */
static bool set_root(trm_builder *b, trm_value root) {
  if (!trm_builder_is_fine(b)) return false;
  trm_computation *computation = &b->module->computations[current(b)->computation];
  if (root.function != current(b)->computation || trm_builder_shape_of(b, root) == NULL) {
    MISTAKE(b, "the result of function %s is not one of its values", computation->name);
    return false;
  }
  computation->root = root.instruction;
  return true;
}

void trm_builder_begin(trm_builder *builder, const char *name) {
  if (!trm_builder_is_fine(builder)) return;
  uint32_t index = 0;
  /* The index keeps names of functions apart. */
  const char *unique =
      trm_arena_format(&builder->module->arena, "%s.%" PRIu32, name == NULL ? "function" : name,
                       builder->module->num_computations);
  if (unique == NULL) {
    trm_builder_no_memory(builder);
  } else if (keep(builder,
                  trm_module_add_computation(builder->module, unique, &index, &builder->first),
                  "a function") &&
             !VECTOR_PUSH(&builder->open, ((trm_open_function){index, TRM_NO_INDEX}))) {
    trm_builder_no_memory(builder);
  }
}

trm_function trm_builder_end(trm_builder *builder, trm_value root) {
  if (trm_builder_is_fine(builder) && builder->open.count == 1) {
    MISTAKE(builder, "trm_builder_end without trm_builder_begin");
  }
  if (!set_root(builder, root)) return no_function;
  return (trm_function){builder->open.items[--builder->open.count].computation};
}

trm_status trm_builder_build(trm_builder *builder, trm_value root, trm_module **out_module,
                             trm_error *error) {
  trm_builder *b = builder;
  if (trm_builder_is_fine(b) && b->open.count > 1) {
    MISTAKE(b, "function %s was begun and not ended",
            b->module->computations[current(b)->computation].name);
  }
  trm_module *module = b->module;
  if (set_root(b, root)) {
    module->num_aliases = (uint32_t)b->aliases.count;
    module->aliases = trm_arena_copy(&b->module->arena, b->aliases.items,
                                     b->aliases.count * sizeof *b->aliases.items);
    if (module->aliases == NULL) trm_builder_no_memory(b);
  }
  if (trm_builder_is_fine(b)) keep(b, trm_module_compact(module, &b->first), NULL);
  if (trm_builder_is_fine(b)) keep(b, trm_module_verify(module, &b->first), NULL);
  if (!trm_builder_is_fine(b)) return trm_fail(error, b->first.status, "%s", b->first.message);
  b->module = NULL;
  b->first.status = trm_fail(&b->first, TRM_FAILED_PRECONDITION, "the builder has built already");
  *out_module = module;
  return TRM_OK;
}
