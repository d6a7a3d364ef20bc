/* Owns: computations of scalars, which reduce, sort, map, scatter and others apply to each element.
 * A computation is made a list of operations once; a run allocates nothing. */
#include "host/ops/reference.h"

/* The limit of operations: calls that double at each level must not fill the memory. */
#define MAX_OPERATIONS (1u << 20)

/* The slots of one value, by array leaf: `count` from `first` in the draft's list. */
typedef struct slot_range {
  uint32_t first, count;
} slot_range;

/* A computation that is being inlined. */
typedef struct frame {
  const trm_computation *computation;
  trm_index next;        /* the next instruction */
  slot_range *values;    /* by instruction */
  slot_range *arguments; /* by parameter */
} frame;

typedef struct evaluator_draft {
  const trm_module *module;
  trm_arena scratch;
  VECTOR(uint32_t) slots; /* lists of slots, into which slot_ranges point */
  VECTOR(trm_evaluator_operation) operations;
  VECTOR(uint32_t) constant_slots;
  VECTOR(trm_value) constants;
  VECTOR(frame) frames;
  uint32_t num_slots;
} evaluator_draft;

static trm_status push_slot(evaluator_draft *draft, uint32_t slot, trm_error *error) {
  if (!VECTOR_PUSH(&draft->slots, slot)) FAIL_NO_MEMORY("a scalar computation");
  return TRM_OK;
}

static trm_status push_frame(evaluator_draft *draft, uint32_t computation, slot_range *arguments,
                             trm_error *error) {
  if (draft->frames.count >= MAX_OPERATIONS) {
    FAIL(RESOURCE_EXHAUSTED, "the calls inside a scalar computation go too deep");
  }
  const trm_computation *callee = &draft->module->computations[computation];
  slot_range *values = ARENA_NEW(&draft->scratch, slot_range, callee->num_instructions + 1);
  CHECK_MEMORY(values, "a scalar computation");
  const frame new_frame = {callee, 0, values, arguments};
  if (!VECTOR_PUSH(&draft->frames, new_frame)) FAIL_NO_MEMORY("a scalar computation");
  return TRM_OK;
}

static bool is_call(trm_opcode opcode) {
  return opcode == TRM_OP_CALL || opcode == TRM_OP_FUSION || opcode == TRM_OP_MAP;
}

/* Whether the instruction passes a single element on unchanged. */
static bool is_identity(const trm_instruction *instruction) {
  switch (instruction->opcode) {
    case TRM_OP_COPY:
    case TRM_OP_RESHAPE:
    case TRM_OP_BITCAST:
    case TRM_OP_BROADCAST:
    case TRM_OP_TRANSPOSE:
    case TRM_OP_REVERSE:
    case TRM_OP_OPT_BARRIER: return instruction->num_operands == 1;
    default: return false;
  }
}

static trm_status add_constant(evaluator_draft *draft, trm_value value, slot_range *out_range,
                               trm_error *error) {
  const uint32_t slot = draft->num_slots++;
  if (!VECTOR_PUSH(&draft->constants, value) || !VECTOR_PUSH(&draft->constant_slots, slot)) {
    FAIL_NO_MEMORY("a scalar computation");
  }
  *out_range = (slot_range){(uint32_t)draft->slots.count, 1};
  return push_slot(draft, slot, error);
}

static trm_status add_operation(evaluator_draft *draft, const frame *f,
                                const trm_instruction *instruction, slot_range *out_range,
                                trm_error *error) {
  trm_evaluator_operation operation = {.result = draft->num_slots};
  TRY(trm_scalar_op_create(draft->module, f->computation, instruction, &operation.op, error));
  if (draft->operations.count >= MAX_OPERATIONS) {
    FAIL(RESOURCE_EXHAUSTED, "a scalar computation has more than %u operations", MAX_OPERATIONS);
  }
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    operation.operands[k] = draft->slots.items[f->values[instruction->operands[k]].first];
  }
  ++draft->num_slots;
  if (!VECTOR_PUSH(&draft->operations, operation)) FAIL_NO_MEMORY("a scalar computation");
  *out_range = (slot_range){(uint32_t)draft->slots.count, 1};
  return push_slot(draft, operation.result, error);
}

/* Adds one instruction of the innermost frame. A call pushes a frame, whose end finishes the
 * call. */
static trm_status add_instruction(evaluator_draft *draft, trm_error *error) {
  frame *f = &draft->frames.items[draft->frames.count - 1];
  const trm_index index = f->next;
  const trm_instruction *instruction = &f->computation->instructions[index];
  slot_range *value = &f->values[index];
  char text[512];
  const int32_t leaves = trm_shape_num_leaves(&instruction->shape);
  for (int32_t i = 0; i < leaves; ++i) {
    const trm_shape *leaf = trm_shape_leaf(&instruction->shape, i);
    if (trm_shape_count(leaf) != 1) {
      FAIL(UNIMPLEMENTED,
           "no kernel computes %s: inside a computation that is applied to each element, every "
           "value must be a scalar",
           trm_instruction_text(draft->module, instruction, text, sizeof text));
    }
  }
  ++f->next;
  switch (instruction->opcode) {
    case TRM_OP_PARAMETER: *value = f->arguments[instruction->number]; return TRM_OK;
    case TRM_OP_CONSTANT: {
      const trm_value constant =
          trm_value_load(instruction->shape.dtype, instruction->literal->leaves[0], 0);
      return add_constant(draft, constant, value, error);
    }
    case TRM_OP_IOTA: return add_constant(draft, (trm_value){{0}, 0.0}, value, error);
    case TRM_OP_TUPLE: {
      *value = (slot_range){(uint32_t)draft->slots.count, 0};
      for (uint32_t k = 0; k < instruction->num_operands; ++k) {
        const slot_range element = f->values[instruction->operands[k]];
        for (uint32_t i = 0; i < element.count; ++i) {
          TRY(push_slot(draft, draft->slots.items[element.first + i], error));
        }
        value->count += element.count;
      }
      return TRM_OK;
    }
    case TRM_OP_GET_TUPLE_ELEMENT: {
      const trm_index operand = instruction->operands[0];
      const int32_t offset = trm_shape_leaf_offset(&f->computation->instructions[operand].shape,
                                                   (int32_t)instruction->number);
      *value = (slot_range){f->values[operand].first + (uint32_t)offset, (uint32_t)leaves};
      return TRM_OK;
    }
    default: break;
  }
  if (is_identity(instruction)) {
    *value = f->values[instruction->operands[0]];
    return TRM_OK;
  }
  if (is_call(instruction->opcode)) {
    slot_range *arguments = ARENA_NEW(&draft->scratch, slot_range, instruction->num_operands + 1);
    CHECK_MEMORY(arguments, "a scalar computation");
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      arguments[k] = f->values[instruction->operands[k]];
    }
    return push_frame(draft, instruction->called[0], arguments, error);
  }
  return add_operation(draft, f, instruction, value, error);
}

static trm_status build(evaluator_draft *draft, uint32_t computation, slot_range *arguments,
                        slot_range *out_root, trm_error *error) {
  TRY(push_frame(draft, computation, arguments, error));
  while (true) {
    const frame *f = &draft->frames.items[draft->frames.count - 1];
    if (f->next < f->computation->num_instructions) {
      TRY(add_instruction(draft, error));
      continue;
    }
    const slot_range root = f->values[f->computation->root];
    --draft->frames.count;
    if (draft->frames.count == 0) {
      *out_root = root;
      return TRM_OK;
    }
    /* The caller's last instruction is the call that pushed the frame. */
    const frame *caller = &draft->frames.items[draft->frames.count - 1];
    caller->values[caller->next - 1] = root;
  }
}

static trm_status create(evaluator_draft *draft, uint32_t computation, trm_arena *arena,
                         trm_evaluator **out_evaluator, trm_error *error) {
  const trm_computation *c = &draft->module->computations[computation];
  trm_evaluator *e = ARENA_NEW(arena, trm_evaluator, 1);
  CHECK_MEMORY(e, "a scalar computation");
  slot_range *arguments = ARENA_NEW(&draft->scratch, slot_range, c->num_parameters + 1);
  CHECK_MEMORY(arguments, "a scalar computation");
  for (uint32_t p = 0; p < c->num_parameters; ++p) {
    const trm_shape *shape = &c->instructions[c->parameters[p]].shape;
    arguments[p] =
        (slot_range){(uint32_t)draft->slots.count, (uint32_t)trm_shape_num_leaves(shape)};
    for (uint32_t i = 0; i < arguments[p].count; ++i)
      TRY(push_slot(draft, draft->num_slots++, error));
  }
  e->num_parameters = draft->num_slots;
  e->parameter_types = ARENA_NEW(arena, trm_dtype, e->num_parameters + 1);
  CHECK_MEMORY(e->parameter_types, "a scalar computation");
  for (uint32_t p = 0, slot = 0; p < c->num_parameters; ++p) {
    const trm_shape *shape = &c->instructions[c->parameters[p]].shape;
    for (uint32_t i = 0; i < arguments[p].count; ++i) {
      e->parameter_types[slot++] = trm_shape_leaf(shape, (int32_t)i)->dtype;
    }
  }
  slot_range root;
  TRY(build(draft, computation, arguments, &root, error));

  e->num_slots = draft->num_slots;
  e->slot_bytes = (sizeof(trm_value) * e->num_slots + 63) / 64 * 64;
  e->num_operations = (uint32_t)draft->operations.count;
  e->num_constants = (uint32_t)draft->constants.count;
  e->num_results = root.count;
  e->operations = trm_arena_copy(arena, draft->operations.items,
                                 draft->operations.count * sizeof *draft->operations.items);
  e->constants = trm_arena_copy(arena, draft->constants.items,
                                draft->constants.count * sizeof *draft->constants.items);
  e->constant_slots =
      trm_arena_copy(arena, draft->constant_slots.items,
                     draft->constant_slots.count * sizeof *draft->constant_slots.items);
  e->results = ARENA_NEW(arena, uint32_t, root.count + 1);
  e->result_types = ARENA_NEW(arena, trm_dtype, root.count + 1);
  if ((e->num_operations > 0 && e->operations == NULL) ||
      (e->num_constants > 0 && e->constants == NULL) ||
      (e->num_constants > 0 && e->constant_slots == NULL) || e->results == NULL ||
      e->result_types == NULL) {
    FAIL_NO_MEMORY("a scalar computation");
  }
  for (uint32_t i = 0; i < root.count; ++i) {
    e->results[i] = draft->slots.items[root.first + i];
    e->result_types[i] = trm_shape_leaf(&c->instructions[c->root].shape, (int32_t)i)->dtype;
  }
  *out_evaluator = e;
  return TRM_OK;
}

trm_status trm_evaluator_create(const trm_module *module, uint32_t computation, trm_arena *arena,
                                trm_evaluator **out_evaluator, trm_error *error) {
  evaluator_draft draft = {.module = module};
  const trm_status status = create(&draft, computation, arena, out_evaluator, error);
  VECTOR_FREE(&draft.slots);
  VECTOR_FREE(&draft.operations);
  VECTOR_FREE(&draft.constants);
  VECTOR_FREE(&draft.constant_slots);
  VECTOR_FREE(&draft.frames);
  trm_arena_free(&draft.scratch);
  return status;
}

void trm_evaluator_prepare(const trm_evaluator *evaluator, trm_value *slots) {
  for (uint32_t i = 0; i < evaluator->num_constants; ++i) {
    slots[evaluator->constant_slots[i]] = evaluator->constants[i];
  }
}

void trm_evaluator_run(const trm_evaluator *evaluator, trm_value *slots) {
  for (uint32_t i = 0; i < evaluator->num_operations; ++i) {
    const trm_evaluator_operation *operation = &evaluator->operations[i];
    trm_value operands[3];
    for (int k = 0; k < 3; ++k) operands[k] = slots[operation->operands[k]];
    slots[operation->result] = trm_scalar_op_apply(&operation->op, operands);
  }
}

trm_opcode trm_evaluator_single_opcode(const trm_evaluator *evaluator) {
  if (evaluator->num_parameters != 2 || evaluator->num_results != 1 ||
      evaluator->num_operations != 1) {
    return TRM_NUM_OPCODES;
  }
  const trm_evaluator_operation *operation = &evaluator->operations[0];
  const bool takes_both = operation->operands[0] + operation->operands[1] == 1;
  if (trm_opcode_class_of(operation->op.opcode) != TRM_CLASS_BINARY || !takes_both ||
      operation->result != evaluator->results[0]) {
    return TRM_NUM_OPCODES;
  }
  return operation->op.opcode;
}

trm_status trm_reference_kernel_create(const trm_kernel_request *request, const char *name,
                                       trm_kernel_run_fn run, uint32_t num_called,
                                       trm_kernel *out_kernel, trm_error *error) {
  trm_reference_state *state = ARENA_NEW(request->arena, trm_reference_state, 1);
  CHECK_MEMORY(state, "a reference kernel");
  state->instruction = *request->instruction;
  state->shape = request->instruction->shape;
  state->num_operands = request->instruction->num_operands;
  state->operands = ARENA_NEW(request->arena, trm_shape, state->num_operands + 1);
  CHECK_MEMORY(state->operands, "a reference kernel");
  for (uint32_t i = 0; i < state->num_operands; ++i) {
    state->operands[i] = *trm_operand_shape(request, i);
  }
  size_t scratch = 0;
  for (uint32_t i = 0; i < num_called; ++i) {
    if (i >= request->instruction->num_called) {
      return trm_reference_refuse(request, "it calls no computation", error);
    }
    char text[512];
    TRY_NOTE(trm_evaluator_create(request->module, request->instruction->called[i], request->arena,
                                  &state->evaluators[i], error),
             "in the computation that %s applies",
             trm_instruction_text(request->module, request->instruction, text, sizeof text));
    scratch += state->evaluators[i]->slot_bytes;
  }
  memset(out_kernel, 0, sizeof *out_kernel);
  out_kernel->name = name;
  out_kernel->state = state;
  out_kernel->run = run;
  out_kernel->scratch_bytes = scratch;
  return TRM_OK;
}
