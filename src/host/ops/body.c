/* Owns: running a computation instruction by instruction (body.h), and the reference kernel of
 * fusions, which does so with reference kernels. */
#include "host/ops/body.h"

#include "host/ops/reference.h"

typedef struct body_operation {
  trm_kernel kernel;
  uint32_t first_operand, num_operands; /* leaf numbers in operand_leaves */
  uint32_t first_result, num_results;   /* leaf numbers */
} body_operation;

struct trm_body {
  uint32_t num_operations, num_leaves, num_parameters, num_roots, num_constants, max_leaves;
  body_operation *operations;
  uint32_t *operand_leaves;
  size_t *offsets; /* by leaf: its place in the scratch; SIZE_MAX: it is the call's */
  uint32_t *constant_leaves;
  const void **constants;
  uint32_t *roots;
  size_t *root_bytes;
  size_t tables_bytes, values_bytes,
      inner_bytes; /* parts of the scratch; the last is that of the operations */
};

static size_t round_up(size_t size) { return (size + 63) / 64 * 64; }

size_t trm_body_scratch_bytes(const trm_body *body) {
  return body->tables_bytes + body->values_bytes + body->inner_bytes;
}

trm_status trm_body_run(const trm_body *body, const trm_kernel_call *call, trm_error *error) {
  /* The scratch begins with tables: the place of each leaf, and the arguments of one operation. */
  const void **leaves = (const void **)call->scratch;
  const void **operands = leaves + body->num_leaves;
  void **results = (void **)(void *)(operands + body->max_leaves);
  uint64_t *versions = (uint64_t *)(void *)(results + body->max_leaves);
  char *const values = (char *)call->scratch + body->tables_bytes;
  for (uint32_t i = 0; i < body->num_leaves; ++i) {
    leaves[i] = body->offsets[i] == SIZE_MAX ? NULL : values + body->offsets[i];
  }
  for (uint32_t i = 0; i < body->num_parameters; ++i) leaves[i] = call->operands[i];
  for (uint32_t i = 0; i < body->num_constants; ++i) {
    leaves[body->constant_leaves[i]] = body->constants[i];
  }
  for (uint32_t i = body->num_roots; i-- > 0;) { /* the first of results that are one value */
    if (body->offsets[body->roots[i]] != SIZE_MAX) leaves[body->roots[i]] = call->results[i];
  }
  for (uint32_t s = 0; s < body->num_operations; ++s) {
    const body_operation *operation = &body->operations[s];
    for (uint32_t k = 0; k < operation->num_operands; ++k) {
      operands[k] = leaves[body->operand_leaves[operation->first_operand + k]];
      versions[k] = 0;
    }
    for (uint32_t k = 0; k < operation->num_results; ++k) {
      results[k] = (void *)(uintptr_t)leaves[operation->first_result + k];
    }
    const trm_kernel_call inner = {.operands = operands,
                                   .versions = versions,
                                   .results = results,
                                   .scratch = values + body->values_bytes,
                                   .seed = call->seed,
                                   .exchange = call->exchange};
    TRY(operation->kernel.run(&operation->kernel, &inner, error));
  }
  for (uint32_t i = 0; i < body->num_roots; ++i) {
    if (body->root_bytes[i] > 0 && leaves[body->roots[i]] != call->results[i]) {
      memcpy(call->results[i], leaves[body->roots[i]], body->root_bytes[i]);
    }
  }
  return TRM_OK;
}

void trm_body_destroy(trm_body *body) {
  for (uint32_t s = 0; s < body->num_operations; ++s) {
    trm_kernel_destroy(&body->operations[s].kernel);
  }
}

/* Whether operation s, or a later one, reads the leaf. What s itself may overwrite does not
 * count. */
static bool is_read_from(const trm_body *body, uint32_t s, uint32_t leaf, uint32_t result) {
  for (uint32_t at = s; at < body->num_operations; ++at) {
    const body_operation *operation = &body->operations[at];
    for (uint32_t k = 0; k < operation->num_operands; ++k) {
      if (body->operand_leaves[operation->first_operand + k] != leaf) continue;
      const uint32_t allowed = at == s ? trm_kernel_in_place(&operation->kernel, result) : 0;
      if (k >= 32 || !(allowed >> k & 1)) return true;
    }
  }
  return false;
}

bool trm_body_in_place(const trm_body *body, uint32_t result, uint32_t operand) {
  const uint32_t leaf = body->roots[result];
  for (uint32_t i = 0; i < body->num_roots; ++i) {
    if (body->roots[i] == operand || (i != result && body->roots[i] == leaf)) return false;
  }
  for (uint32_t s = 0; s < body->num_operations; ++s) {
    const body_operation *operation = &body->operations[s];
    if (leaf < operation->first_result || leaf - operation->first_result >= operation->num_results)
      continue;
    /* An operation writes its results at the same time, so only a single one may overwrite. */
    return operation->num_results == 1 &&
           !is_read_from(body, s, operand, leaf - operation->first_result);
  }
  return false;
}

/* The leaves of one instruction: leaf numbers from `first`. A tuple shares those of its
 * elements. */
typedef struct leaf_list {
  uint32_t first, count;
} leaf_list;

typedef struct body_draft {
  VECTOR(uint32_t) numbers;  /* lists of leaf numbers */
  VECTOR(uint32_t) operands; /* lists of leaf numbers, for the operations */
  VECTOR(size_t) offsets;    /* by leaf */
  VECTOR(uint32_t) constant_leaves;
  VECTOR(const void *) constants;
  VECTOR(body_operation) operations;
  leaf_list *lists; /* by instruction */
  size_t values_bytes, inner_bytes;
  uint32_t max_leaves;
  bool reference_only;
} body_draft;

static trm_status new_leaves(body_draft *draft, const trm_shape *shape, bool is_computed,
                             leaf_list *out_list, trm_error *error) {
  const int32_t count = trm_shape_num_leaves(shape);
  *out_list = (leaf_list){(uint32_t)draft->numbers.count, (uint32_t)count};
  for (int32_t i = 0; i < count; ++i) {
    const size_t offset = is_computed ? draft->values_bytes : SIZE_MAX;
    if (is_computed) draft->values_bytes += round_up(trm_shape_bytes(trm_shape_leaf(shape, i)) + 1);
    const uint32_t number = (uint32_t)draft->offsets.count;
    if (!VECTOR_PUSH(&draft->numbers, number) || !VECTOR_PUSH(&draft->offsets, offset)) {
      FAIL_NO_MEMORY("a computation");
    }
  }
  return TRM_OK;
}

static trm_status add_tuple(body_draft *draft, const trm_instruction *instruction,
                            leaf_list *out_list, trm_error *error) {
  *out_list = (leaf_list){(uint32_t)draft->numbers.count, 0};
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const leaf_list element = draft->lists[instruction->operands[k]];
    for (uint32_t i = 0; i < element.count; ++i) {
      const uint32_t number = draft->numbers.items[element.first + i];
      if (!VECTOR_PUSH(&draft->numbers, number)) FAIL_NO_MEMORY("a computation");
    }
    out_list->count += element.count;
  }
  return TRM_OK;
}

static trm_status add_constant(body_draft *draft, const trm_instruction *instruction,
                               leaf_list *out_list, trm_error *error) {
  TRY(new_leaves(draft, &instruction->shape, false, out_list, error));
  for (uint32_t i = 0; i < out_list->count; ++i) {
    const uint32_t number = draft->numbers.items[out_list->first + i];
    const void *bytes = instruction->literal->leaves[i];
    if (!VECTOR_PUSH(&draft->constant_leaves, number) || !VECTOR_PUSH(&draft->constants, bytes)) {
      FAIL_NO_MEMORY("a computation");
    }
  }
  return TRM_OK;
}

static trm_status add_operation(body_draft *draft, const trm_kernel_request *request,
                                leaf_list *out_list, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  body_operation operation = {.first_operand = (uint32_t)draft->operands.count};
  TRY(trm_kernel_create(request, draft->reference_only, &operation.kernel, error));
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const leaf_list operand = draft->lists[instruction->operands[k]];
    for (uint32_t i = 0; i < operand.count; ++i) {
      const uint32_t number = draft->numbers.items[operand.first + i];
      if (!VECTOR_PUSH(&draft->operands, number)) FAIL_NO_MEMORY("a computation");
      ++operation.num_operands;
    }
  }
  TRY(new_leaves(draft, &instruction->shape, true, out_list, error));
  operation.first_result = out_list->count > 0 ? draft->numbers.items[out_list->first] : 0;
  operation.num_results = out_list->count;
  if (operation.num_operands > draft->max_leaves) draft->max_leaves = operation.num_operands;
  if (operation.num_results > draft->max_leaves) draft->max_leaves = operation.num_results;
  if (operation.kernel.scratch_bytes > draft->inner_bytes)
    draft->inner_bytes = operation.kernel.scratch_bytes;
  if (!VECTOR_PUSH(&draft->operations, operation)) FAIL_NO_MEMORY("a computation");
  return TRM_OK;
}

static trm_status build(body_draft *draft, const trm_kernel_request *request,
                        const trm_computation *fused, uint32_t *out_num_parameters,
                        trm_error *error) {
  /* Parameters come first, so that their leaves have the numbers of the call's operands. */
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
      default: {
        const trm_kernel_request inner = {.module = request->module,
                                          .computation = fused,
                                          .instruction = instruction,
                                          .arena = request->arena,
                                          .is_in_loop = request->is_in_loop,
                                          .keeps_nothing = true};
        TRY(add_operation(draft, &inner, list, error));
      }
    }
  }
  return TRM_OK;
}

static trm_status finish(body_draft *draft, const trm_kernel_request *request,
                         const trm_computation *fused, trm_body *body, trm_error *error) {
  trm_arena *const arena = request->arena;
  const leaf_list root = draft->lists[fused->root];
  body->num_operations = (uint32_t)draft->operations.count;
  body->num_leaves = (uint32_t)draft->offsets.count;
  body->num_constants = (uint32_t)draft->constants.count;
  body->num_roots = root.count;
  body->max_leaves = draft->max_leaves;
  body->operations = ARENA_NEW(arena, body_operation, draft->operations.count + 1);
  body->operand_leaves = ARENA_NEW(arena, uint32_t, draft->operands.count + 1);
  body->offsets = ARENA_NEW(arena, size_t, draft->offsets.count + 1);
  body->constant_leaves = ARENA_NEW(arena, uint32_t, draft->constants.count + 1);
  body->constants = ARENA_NEW(arena, const void *, draft->constants.count + 1);
  body->roots = ARENA_NEW(arena, uint32_t, root.count + 1);
  body->root_bytes = ARENA_NEW(arena, size_t, root.count + 1);
  if (body->operations == NULL || body->operand_leaves == NULL || body->offsets == NULL ||
      body->constant_leaves == NULL || body->constants == NULL || body->roots == NULL ||
      body->root_bytes == NULL) {
    FAIL_NO_MEMORY("a computation");
  }
  for (size_t i = 0; i < draft->operations.count; ++i)
    body->operations[i] = draft->operations.items[i];
  for (size_t i = 0; i < draft->operands.count; ++i)
    body->operand_leaves[i] = draft->operands.items[i];
  for (size_t i = 0; i < draft->offsets.count; ++i) body->offsets[i] = draft->offsets.items[i];
  for (size_t i = 0; i < draft->constants.count; ++i) {
    body->constant_leaves[i] = draft->constant_leaves.items[i];
    body->constants[i] = draft->constants.items[i];
  }
  for (uint32_t i = 0; i < root.count; ++i) {
    body->roots[i] = draft->numbers.items[root.first + i];
    body->root_bytes[i] =
        trm_shape_bytes(trm_shape_leaf(&fused->instructions[fused->root].shape, (int32_t)i));
  }
  body->tables_bytes = round_up((body->num_leaves + 3 * (size_t)body->max_leaves) * 8);
  body->values_bytes = draft->values_bytes;
  body->inner_bytes = draft->inner_bytes;
  return TRM_OK;
}

trm_status trm_body_create(const trm_kernel_request *request, const trm_computation *computation,
                           bool reference_only, trm_body **out_body, trm_error *error) {
  trm_body *body = ARENA_NEW(request->arena, trm_body, 1);
  CHECK_MEMORY(body, "a computation");
  body_draft draft = {.reference_only = reference_only};
  trm_status status;
  draft.lists = trm_allocate_zeroed(computation->num_instructions + 1, sizeof *draft.lists);
  if (draft.lists == NULL) FAIL_NO_MEMORY("a computation");
  TRY_OR_GOTO(build(&draft, request, computation, &body->num_parameters, error), done);
  TRY_OR_GOTO(finish(&draft, request, computation, body, error), done);
  *out_body = body;
done:
  if (status != TRM_OK) {
    for (size_t i = 0; i < draft.operations.count; ++i) {
      trm_kernel_destroy(&draft.operations.items[i].kernel);
    }
  }
  trm_free(draft.lists);
  VECTOR_FREE(&draft.numbers);
  VECTOR_FREE(&draft.operands);
  VECTOR_FREE(&draft.offsets);
  VECTOR_FREE(&draft.constant_leaves);
  VECTOR_FREE(&draft.constants);
  VECTOR_FREE(&draft.operations);
  return status;
}

static trm_status run_fusion(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  return trm_body_run(kernel->state, call, error);
}

static void destroy_fusion(trm_kernel *kernel) { trm_body_destroy(kernel->state); }

trm_status trm_reference_fusion_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                       bool *out_supported, trm_error *error) {
  *out_supported = true;
  trm_body *body;
  TRY(trm_body_create(request, &request->module->computations[request->instruction->called[0]],
                      true, &body, error));
  *out_kernel = (trm_kernel){.name = "reference.fusion",
                             .scratch_bytes = trm_body_scratch_bytes(body),
                             .state = body,
                             .run = run_fusion,
                             .destroy = destroy_fusion};
  return TRM_OK;
}
