/* A fusion computed instruction by instruction: what a fused kernel must agree with. Every value
 * has a place of its own in the scratch buffer. */
#include "ops/reference.h"

typedef struct fusion_operation {
  trm_kernel kernel;
  uint32_t first_operand, num_operands; /* leaf numbers in operand_leaves */
  uint32_t first_result, num_results;   /* leaf numbers */
} fusion_operation;

typedef struct fusion_state {
  uint32_t num_operations, num_leaves, num_parameters, num_roots, num_constants, max_leaves;
  fusion_operation *operations;
  uint32_t *operand_leaves;
  size_t *offsets; /* of computed leaves in the scratch buffer; SIZE_MAX: not there */
  uint32_t *constant_leaves;
  const void **constants;
  uint32_t *roots;
  size_t *root_bytes;
  size_t tables_bytes, values_bytes; /* parts of the scratch; the operations' own comes last */
} fusion_state;

static size_t round_up(size_t size) { return (size + 63) / 64 * 64; }

static trm_status run_fusion(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  const fusion_state *state = (const fusion_state *)kernel->state;
  /* Tables first: where each leaf is, and the arguments of one operation. */
  const void **leaves = (const void **)call->scratch;
  const void **operands = leaves + state->num_leaves;
  void **results = (void **)(void *)(operands + state->max_leaves);
  uint64_t *versions = (uint64_t *)(void *)(results + state->max_leaves);
  char *const values = (char *)call->scratch + state->tables_bytes;
  for (uint32_t i = 0; i < state->num_leaves; ++i) {
    leaves[i] = state->offsets[i] == SIZE_MAX ? NULL : values + state->offsets[i];
  }
  for (uint32_t i = 0; i < state->num_parameters; ++i) leaves[i] = call->operands[i];
  for (uint32_t i = 0; i < state->num_constants; ++i) {
    leaves[state->constant_leaves[i]] = state->constants[i];
  }
  for (uint32_t s = 0; s < state->num_operations; ++s) {
    const fusion_operation *operation = &state->operations[s];
    for (uint32_t k = 0; k < operation->num_operands; ++k) {
      operands[k] = leaves[state->operand_leaves[operation->first_operand + k]];
      versions[k] = 0;
    }
    for (uint32_t k = 0; k < operation->num_results; ++k) {
      results[k] = values + state->offsets[operation->first_result + k];
    }
    const trm_kernel_call inner = {.operands = operands,
                                   .versions = versions,
                                   .results = results,
                                   .scratch = values + state->values_bytes,
                                   .seed = call->seed,
                                   .exchange = call->exchange};
    TRY(operation->kernel.run(&operation->kernel, &inner, error));
  }
  for (uint32_t i = 0; i < state->num_roots; ++i) {
    if (state->root_bytes[i] > 0) {
      memcpy(call->results[i], leaves[state->roots[i]], state->root_bytes[i]);
    }
  }
  return TRM_OK;
}

/* Leaves of one instruction: the leaf_numbers from `first`. Tuples share their elements'. */
typedef struct leaf_list {
  uint32_t first, count;
} leaf_list;

typedef struct fusion_draft {
  VECTOR(uint32_t) numbers;  /* lists of leaf numbers */
  VECTOR(uint32_t) operands; /* lists of leaf numbers, for the operations */
  VECTOR(size_t) offsets;    /* one a leaf */
  VECTOR(uint32_t) constant_leaves;
  VECTOR(const void *) constants;
  VECTOR(fusion_operation) operations;
  leaf_list *lists; /* one an instruction */
  size_t values_bytes, inner_scratch;
  uint32_t max_leaves;
} fusion_draft;

static trm_status new_leaves(fusion_draft *draft, const trm_shape *shape, bool is_computed,
                             leaf_list *out_list, trm_error *error) {
  const int32_t count = trm_shape_num_leaves(shape);
  *out_list = (leaf_list){(uint32_t)draft->numbers.count, (uint32_t)count};
  for (int32_t i = 0; i < count; ++i) {
    const size_t offset = is_computed ? draft->values_bytes : SIZE_MAX;
    if (is_computed) draft->values_bytes += round_up(trm_shape_bytes(trm_shape_leaf(shape, i)) + 1);
    const uint32_t number = (uint32_t)draft->offsets.count;
    if (!VECTOR_PUSH(&draft->numbers, number) || !VECTOR_PUSH(&draft->offsets, offset)) {
      FAIL_NO_MEMORY("a fusion");
    }
  }
  return TRM_OK;
}

static trm_status add_tuple(fusion_draft *draft, const trm_instruction *instruction,
                            leaf_list *out_list, trm_error *error) {
  *out_list = (leaf_list){(uint32_t)draft->numbers.count, 0};
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const leaf_list element = draft->lists[instruction->operands[k]];
    for (uint32_t i = 0; i < element.count; ++i) {
      const uint32_t number = draft->numbers.items[element.first + i];
      if (!VECTOR_PUSH(&draft->numbers, number)) FAIL_NO_MEMORY("a fusion");
    }
    out_list->count += element.count;
  }
  return TRM_OK;
}

static trm_status add_constant(fusion_draft *draft, const trm_instruction *instruction,
                               leaf_list *out_list, trm_error *error) {
  TRY(new_leaves(draft, &instruction->shape, false, out_list, error));
  for (uint32_t i = 0; i < out_list->count; ++i) {
    const uint32_t number = draft->numbers.items[out_list->first + i];
    const void *bytes = instruction->literal->leaves[i];
    if (!VECTOR_PUSH(&draft->constant_leaves, number) || !VECTOR_PUSH(&draft->constants, bytes)) {
      FAIL_NO_MEMORY("a fusion");
    }
  }
  return TRM_OK;
}

static trm_status add_operation(fusion_draft *draft, const trm_kernel_request *request,
                                leaf_list *out_list, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  fusion_operation operation = {.first_operand = (uint32_t)draft->operands.count};
  TRY(trm_kernel_create(request, true, &operation.kernel, error));
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const leaf_list operand = draft->lists[instruction->operands[k]];
    for (uint32_t i = 0; i < operand.count; ++i) {
      const uint32_t number = draft->numbers.items[operand.first + i];
      if (!VECTOR_PUSH(&draft->operands, number)) FAIL_NO_MEMORY("a fusion");
      ++operation.num_operands;
    }
  }
  TRY(new_leaves(draft, &instruction->shape, true, out_list, error));
  operation.first_result = out_list->count > 0 ? draft->numbers.items[out_list->first] : 0;
  operation.num_results = out_list->count;
  if (operation.num_operands > draft->max_leaves) draft->max_leaves = operation.num_operands;
  if (operation.num_results > draft->max_leaves) draft->max_leaves = operation.num_results;
  if (operation.kernel.scratch_bytes > draft->inner_scratch)
    draft->inner_scratch = operation.kernel.scratch_bytes;
  if (!VECTOR_PUSH(&draft->operations, operation)) FAIL_NO_MEMORY("a fusion");
  return TRM_OK;
}

static trm_status build(fusion_draft *draft, const trm_kernel_request *request,
                        const trm_computation *fused, uint32_t *out_num_parameters,
                        trm_error *error) {
  /* Parameters first, so that their leaves are those of the call. */
  for (uint32_t p = 0; p < fused->num_parameters; ++p) {
    const trm_index index = fused->parameters[p];
    TRY(new_leaves(draft, &fused->instructions[index].shape, false, &draft->lists[index], error));
  }
  *out_num_parameters = (uint32_t)draft->offsets.count;
  for (trm_index i = 0; i < fused->num_instructions; ++i) {
    const trm_instruction *instruction = &fused->instructions[i];
    leaf_list *list = &draft->lists[i];
    switch (instruction->opcode) {
      case TRM_OP_PARAMETER: break;
      case TRM_OP_CONSTANT: TRY(add_constant(draft, instruction, list, error)); break;
      case TRM_OP_TUPLE: TRY(add_tuple(draft, instruction, list, error)); break;
      case TRM_OP_OPT_BARRIER: *list = draft->lists[instruction->operands[0]]; break;
      case TRM_OP_GET_TUPLE_ELEMENT: {
        const trm_index operand = instruction->operands[0];
        const int32_t offset = trm_shape_leaf_offset(&fused->instructions[operand].shape,
                                                     (int32_t)instruction->number);
        *list = (leaf_list){draft->lists[operand].first + (uint32_t)offset,
                            (uint32_t)trm_shape_num_leaves(&instruction->shape)};
        break;
      }
      case TRM_OP_FUSION:
        return trm_reference_refuse(request, "it holds a fusion inside a fusion", error);
      default: {
        const trm_kernel_request inner = {request->module, fused, instruction, request->arena,
                                          request->is_in_loop};
        TRY(add_operation(draft, &inner, list, error));
      }
    }
  }
  return TRM_OK;
}

static trm_status finish(fusion_draft *draft, const trm_kernel_request *request,
                         const trm_computation *fused, fusion_state *state, trm_error *error) {
  trm_arena *const arena = request->arena;
  const leaf_list root = draft->lists[fused->root];
  state->num_operations = (uint32_t)draft->operations.count;
  state->num_leaves = (uint32_t)draft->offsets.count;
  state->num_constants = (uint32_t)draft->constants.count;
  state->num_roots = root.count;
  state->max_leaves = draft->max_leaves;
  state->operations = ARENA_NEW(arena, fusion_operation, draft->operations.count + 1);
  state->operand_leaves = ARENA_NEW(arena, uint32_t, draft->operands.count + 1);
  state->offsets = ARENA_NEW(arena, size_t, draft->offsets.count + 1);
  state->constant_leaves = ARENA_NEW(arena, uint32_t, draft->constants.count + 1);
  state->constants = ARENA_NEW(arena, const void *, draft->constants.count + 1);
  state->roots = ARENA_NEW(arena, uint32_t, root.count + 1);
  state->root_bytes = ARENA_NEW(arena, size_t, root.count + 1);
  if (state->operations == NULL || state->operand_leaves == NULL || state->offsets == NULL ||
      state->constant_leaves == NULL || state->constants == NULL || state->roots == NULL ||
      state->root_bytes == NULL) {
    FAIL_NO_MEMORY("a fusion");
  }
  for (size_t i = 0; i < draft->operations.count; ++i)
    state->operations[i] = draft->operations.items[i];
  for (size_t i = 0; i < draft->operands.count; ++i)
    state->operand_leaves[i] = draft->operands.items[i];
  for (size_t i = 0; i < draft->offsets.count; ++i) state->offsets[i] = draft->offsets.items[i];
  for (size_t i = 0; i < draft->constants.count; ++i) {
    state->constant_leaves[i] = draft->constant_leaves.items[i];
    state->constants[i] = draft->constants.items[i];
  }
  for (uint32_t i = 0; i < root.count; ++i) {
    state->roots[i] = draft->numbers.items[root.first + i];
    state->root_bytes[i] =
        trm_shape_bytes(trm_shape_leaf(&fused->instructions[fused->root].shape, (int32_t)i));
  }
  state->tables_bytes = round_up((state->num_leaves + 3 * (size_t)state->max_leaves) * 8);
  state->values_bytes = draft->values_bytes;
  return TRM_OK;
}

trm_status trm_reference_fusion_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                       bool *out_supported, trm_error *error) {
  *out_supported = true;
  const trm_computation *fused = &request->module->computations[request->instruction->called[0]];
  fusion_state *state = ARENA_NEW(request->arena, fusion_state, 1);
  CHECK_MEMORY(state, "a fusion");
  fusion_draft draft = {0};
  trm_status status;
  draft.lists = trm_allocate_zeroed(fused->num_instructions + 1, sizeof *draft.lists);
  if (draft.lists == NULL) FAIL_NO_MEMORY("a fusion");
  TRY_OR_GOTO(build(&draft, request, fused, &state->num_parameters, error), done);
  TRY_OR_GOTO(finish(&draft, request, fused, state, error), done);
  memset(out_kernel, 0, sizeof *out_kernel);
  out_kernel->name = "reference.fusion";
  out_kernel->state = state;
  out_kernel->run = run_fusion;
  out_kernel->scratch_bytes = state->tables_bytes + state->values_bytes + draft.inner_scratch;
done:
  trm_free(draft.lists);
  VECTOR_FREE(&draft.numbers);
  VECTOR_FREE(&draft.operands);
  VECTOR_FREE(&draft.offsets);
  VECTOR_FREE(&draft.constant_leaves);
  VECTOR_FREE(&draft.constants);
  VECTOR_FREE(&draft.operations);
  return status;
}
