/* Owns: modules, computations and instructions: creating, cloning, rewriting, compacting. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/hlo.h"

trm_status trm_module_create(const char *name, trm_module **out_module, trm_error *error) {
  trm_module *module = trm_allocate_zeroed(1, sizeof *module);
  CHECK_MEMORY(module, "a module");
  module->next_id = 1;
  module->name = trm_arena_string(&module->arena, name, strlen(name));
  if (module->name == NULL) {
    trm_module_free(module);
    FAIL_NO_MEMORY("a module");
  }
  *out_module = module;
  return TRM_OK;
}

void trm_module_free(trm_module *module) {
  if (module == NULL) return;
  trm_arena_free(&module->arena);
  trm_free(module);
}

trm_status trm_module_add_computation(trm_module *module, const char *name, uint32_t *out_index,
                                      trm_error *error) {
  if (module->num_computations == module->capacity) {
    const uint32_t capacity = module->capacity < 8 ? 8 : module->capacity * 2;
    trm_computation *grown = ARENA_NEW(&module->arena, trm_computation, capacity);
    CHECK_MEMORY(grown, "computations");
    if (module->num_computations > 0) {
      memcpy(grown, module->computations, module->num_computations * sizeof *grown);
    }
    module->computations = grown;
    module->capacity = capacity;
  }
  const uint32_t index = module->num_computations;
  trm_computation *computation = &module->computations[index];
  *computation = (trm_computation){.root = TRM_NO_INDEX, .id = module->next_id++};
  computation->name = name != NULL
                          ? trm_arena_string(&module->arena, name, strlen(name))
                          : trm_arena_format(&module->arena, "computation.%" PRIu32, index);
  CHECK_MEMORY(computation->name, "a computation");
  module->num_computations++;
  *out_index = index;
  return TRM_OK;
}

static trm_status grow_instructions(trm_module *module, trm_computation *computation,
                                    trm_error *error) {
  if (computation->num_instructions < computation->capacity) return TRM_OK;
  if (computation->capacity > TRM_NO_INDEX / 4) {
    FAIL(RESOURCE_EXHAUSTED, "a computation has too many instructions");
  }
  const uint32_t capacity = computation->capacity < 16 ? 16 : computation->capacity * 2;
  trm_instruction *grown = ARENA_NEW(&module->arena, trm_instruction, capacity);
  CHECK_MEMORY(grown, "instructions");
  if (computation->num_instructions > 0) {
    memcpy(grown, computation->instructions, computation->num_instructions * sizeof *grown);
  }
  computation->instructions = grown;
  computation->capacity = capacity;
  return TRM_OK;
}

static uint32_t *copy_indices(trm_arena *arena, const uint32_t *items, uint32_t count) {
  return trm_arena_copy(arena, items, count * sizeof *items);
}

static trm_status enter_parameter(trm_module *module, trm_computation *computation, trm_index index,
                                  int64_t number, trm_error *error) {
  if (number < 0 || number >= TRM_NO_INDEX / 2) {
    FAIL(INVALID_ARGUMENT, "parameter number %" PRId64 " in computation %s is out of range", number,
         computation->name);
  }
  if (number >= computation->num_parameters) {
    /* Readers see parameters in any order; numbers that stay unfilled are the verifier's. */
    if (number > (int64_t)computation->num_instructions + (1 << 20)) {
      FAIL(INVALID_ARGUMENT, "parameter number %" PRId64 " in computation %s is out of range",
           number, computation->name);
    }
    const uint32_t count = (uint32_t)number + 1;
    const uint32_t rounded = count < 8 ? 8 : UINT32_C(1) << (32 - __builtin_clz(count - 1));
    const uint32_t before = computation->num_parameters;
    const uint32_t had = before == 0 ? 0
                         : before < 8 ? 8
                         : before == 1 ? 8
                                       : UINT32_C(1) << (32 - __builtin_clz(before - 1));
    if (rounded > had) {
      trm_index *grown = ARENA_NEW(&module->arena, trm_index, rounded);
      CHECK_MEMORY(grown, "parameters");
      if (before > 0) memcpy(grown, computation->parameters, before * sizeof *grown);
      computation->parameters = grown;
    }
    for (uint32_t i = before; i < count; ++i) computation->parameters[i] = TRM_NO_INDEX;
    computation->num_parameters = count;
  }
  if (computation->parameters[number] != TRM_NO_INDEX) {
    FAIL(INVALID_ARGUMENT, "computation %s has two parameters with the number %" PRId64,
         computation->name, number);
  }
  computation->parameters[number] = index;
  return TRM_OK;
}

trm_status trm_computation_add(trm_module *module, uint32_t computation_index,
                               const trm_instruction *prototype, trm_index *out_index,
                               trm_error *error) {
  trm_computation *computation = &module->computations[computation_index];
  TRY(grow_instructions(module, computation, error));
  const trm_index index = computation->num_instructions;
  trm_instruction *instruction = &computation->instructions[index];
  *instruction = *prototype;
  trm_arena *arena = &module->arena;
  instruction->operands = copy_indices(arena, prototype->operands, prototype->num_operands);
  instruction->called = copy_indices(arena, prototype->called, prototype->num_called);
  instruction->control_predecessors =
      copy_indices(arena, prototype->control_predecessors, prototype->num_control_predecessors);
  if (instruction->id == 0) instruction->id = module->next_id;
  if (instruction->id >= module->next_id && instruction->id < INT64_MAX) {
    module->next_id = instruction->id + 1;
  }
  if (instruction->name == NULL) {
    instruction->name = trm_arena_format(arena, "%s.%" PRId64, trm_opcode_name(prototype->opcode),
                                         instruction->id);
  }
  if (instruction->operands == NULL || instruction->called == NULL ||
      instruction->control_predecessors == NULL || instruction->name == NULL) {
    FAIL_NO_MEMORY("an instruction");
  }
  if (instruction->opcode == TRM_OP_PARAMETER) {
    TRY(enter_parameter(module, computation, index, instruction->number, error));
  }
  computation->num_instructions++;
  *out_index = index;
  return TRM_OK;
}

trm_status trm_module_clone_computation(trm_module *module, uint32_t source, uint32_t *out_index,
                                        trm_error *error) {
  uint32_t index;
  TRY(trm_module_add_computation(module, NULL, &index, error));
  trm_computation *clone = &module->computations[index];
  const trm_computation *original = &module->computations[source];
  clone->name = trm_arena_format(&module->arena, "%s.clone.%" PRIu32, original->name, index);
  CHECK_MEMORY(clone->name, "a computation");
  for (trm_index i = 0; i < original->num_instructions; ++i) {
    trm_instruction copy = original->instructions[i];
    trm_index ignored;
    copy.id = 0;
    copy.name = NULL;
    TRY(trm_computation_add(module, index, &copy, &ignored, error));
  }
  clone->root = original->root;
  *out_index = index;
  return TRM_OK;
}

bool trm_instruction_has_side_effect(const trm_module *module, const trm_instruction *instruction) {
  switch (instruction->opcode) {
    case TRM_OP_CUSTOM_CALL:
      return instruction->custom_call != NULL && instruction->custom_call->has_side_effect;
    case TRM_OP_INFEED:
    case TRM_OP_OUTFEED:
    case TRM_OP_SEND:
    case TRM_OP_SEND_DONE:
    case TRM_OP_RECV:
    case TRM_OP_RECV_DONE:
    case TRM_OP_RNG:
    case TRM_OP_RNG_GET_AND_UPDATE_STATE:
      return true;
    case TRM_OP_WHILE:
    case TRM_OP_CALL:
    case TRM_OP_CONDITIONAL:
    case TRM_OP_FUSION:
      for (uint32_t i = 0; i < instruction->num_called; ++i) {
        if (module->computations[instruction->called[i]].has_side_effect) return true;
      }
      return false;
    default:
      return false;
  }
}

/* ---- Rewriting ------------------------------------------------------------------------------ */

/* What stands for `index` at the end of the chain of replacements. */
static trm_index resolve(trm_index *replacement, trm_index index, uint32_t count) {
  trm_index end = index;
  uint32_t steps = 0;
  while (replacement[end] != TRM_NO_INDEX && replacement[end] != end) {
    end = replacement[end];
    if (++steps > count) return TRM_NO_INDEX;
  }
  while (replacement[index] != TRM_NO_INDEX && replacement[index] != end && index != end) {
    const trm_index next = replacement[index];
    replacement[index] = end;
    index = next;
  }
  return end;
}

typedef VECTOR(trm_index) index_vector;

/* Marks what the root, side effects and parameters need. A replaced instruction with a side effect
 * is not needed any more: its replacement is. */
static bool mark_needed(const trm_module *module, const trm_computation *computation,
                        const trm_index *replacement, bool *needed, index_vector *stack) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    const bool replaced = replacement[i] != TRM_NO_INDEX && replacement[i] != i;
    if (i == computation->root || instruction->opcode == TRM_OP_PARAMETER ||
        (!replaced && trm_instruction_has_side_effect(module, instruction))) {
      if (needed[i]) continue;
      needed[i] = true;
      if (!VECTOR_PUSH(stack, i)) return false;
      while (stack->count > 0) {
        const trm_instruction *top = &computation->instructions[stack->items[--stack->count]];
        for (uint32_t k = 0; k < top->num_operands + top->num_control_predecessors; ++k) {
          const trm_index used = k < top->num_operands
                                     ? top->operands[k]
                                     : top->control_predecessors[k - top->num_operands];
          if (needed[used]) continue;
          needed[used] = true;
          if (!VECTOR_PUSH(stack, used)) return false;
        }
      }
    }
  }
  return true;
}

static trm_index dependency(const trm_instruction *instruction, uint32_t k) {
  return k < instruction->num_operands
             ? instruction->operands[k]
             : instruction->control_predecessors[k - instruction->num_operands];
}

/* Fills order[] with the needed instructions, dependencies first, otherwise in the order before.
 * Returns their number, or TRM_NO_INDEX on a cycle; TRM_NO_INDEX - 1 without memory. */
static uint32_t order_needed(const trm_computation *computation, const bool *needed,
                             trm_index *order, trm_index *position, uint32_t *next_dependency,
                             index_vector *stack) {
  uint32_t count = 0;
  const trm_index waiting = TRM_NO_INDEX, open = TRM_NO_INDEX - 1;
  for (trm_index i = 0; i < computation->num_instructions; ++i) position[i] = waiting;
  for (trm_index start = 0; start < computation->num_instructions; ++start) {
    if (!needed[start] || position[start] != waiting) continue;
    if (!VECTOR_PUSH(stack, start)) return TRM_NO_INDEX - 1;
    position[start] = open;
    while (stack->count > 0) {
      const trm_index top = stack->items[stack->count - 1];
      const trm_instruction *instruction = &computation->instructions[top];
      const uint32_t total = instruction->num_operands + instruction->num_control_predecessors;
      if (next_dependency[top] == total) {
        position[top] = count;
        order[count++] = top;
        --stack->count;
        continue;
      }
      const trm_index used = dependency(instruction, next_dependency[top]++);
      if (position[used] == waiting) {
        if (!VECTOR_PUSH(stack, used)) return TRM_NO_INDEX - 1;
        position[used] = open;
      } else if (position[used] == open) {
        return TRM_NO_INDEX;
      }
    }
  }
  return count;
}

static bool copy_redirected(trm_arena *arena, trm_index **items, uint32_t *count,
                            trm_index *replacement, uint32_t total, bool unique, trm_index self) {
  if (*count == 0) return true;
  trm_index *copy = trm_arena_copy(arena, *items, *count * sizeof *copy);
  if (copy == NULL) return false;
  uint32_t kept = 0;
  for (uint32_t k = 0; k < *count; ++k) {
    const trm_index target = resolve(replacement, copy[k], total);
    if (target == TRM_NO_INDEX) return false;
    if (unique) {
      bool seen = target == self;
      for (uint32_t j = 0; j < kept; ++j) seen = seen || copy[j] == target;
      if (seen) continue;
    }
    copy[kept++] = target;
  }
  *items = copy;
  *count = kept;
  return true;
}

trm_status trm_computation_rewrite(trm_module *module, uint32_t computation_index,
                                   const trm_index *replacement, trm_error *error) {
  trm_computation *computation = &module->computations[computation_index];
  const uint32_t total = computation->num_instructions;
  trm_status status = TRM_OK;
  index_vector stack = {0};
  trm_instruction *kept = NULL;
  trm_index *chain = trm_allocate(total * sizeof *chain);
  bool *needed = trm_allocate_zeroed(total, sizeof *needed);
  trm_index *order = trm_allocate(total * sizeof *order);
  trm_index *position = trm_allocate(total * sizeof *position);
  uint32_t *next_dependency = trm_allocate_zeroed(total, sizeof *next_dependency);
  if (chain == NULL || needed == NULL || order == NULL || position == NULL ||
      next_dependency == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while rewriting a computation");
  }
  for (trm_index i = 0; i < total; ++i) {
    chain[i] = replacement != NULL ? replacement[i] : TRM_NO_INDEX;
  }
  computation->root = resolve(chain, computation->root, total);
  for (trm_index i = 0; i < total; ++i) {
    trm_instruction *instruction = &computation->instructions[i];
    if (computation->root == TRM_NO_INDEX ||
        !copy_redirected(&module->arena, &instruction->operands, &instruction->num_operands, chain,
                         total, false, i) ||
        !copy_redirected(&module->arena, &instruction->control_predecessors,
                         &instruction->num_control_predecessors, chain, total, true, i)) {
      FAIL_OR_GOTO(done, INTERNAL, "cannot redirect the operands of %%%s", instruction->name);
    }
  }
  if (!mark_needed(module, computation, chain, needed, &stack)) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while rewriting a computation");
  }
  const uint32_t count =
      order_needed(computation, needed, order, position, next_dependency, &stack);
  if (count == TRM_NO_INDEX) {
    FAIL_OR_GOTO(done, INVALID_ARGUMENT, "the instructions of computation %s form a cycle",
                 computation->name);
  }
  if (count == TRM_NO_INDEX - 1) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while rewriting a computation");
  }
  kept = trm_allocate((count + 1) * sizeof *kept);
  if (kept == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while rewriting");
  for (uint32_t i = 0; i < count; ++i) {
    kept[i] = computation->instructions[order[i]];
    for (uint32_t k = 0; k < kept[i].num_operands; ++k) {
      kept[i].operands[k] = position[kept[i].operands[k]];
    }
    for (uint32_t k = 0; k < kept[i].num_control_predecessors; ++k) {
      kept[i].control_predecessors[k] = position[kept[i].control_predecessors[k]];
    }
  }
  for (uint32_t p = 0; p < computation->num_parameters; ++p) {
    if (computation->parameters[p] != TRM_NO_INDEX) {
      computation->parameters[p] = position[computation->parameters[p]];
    }
  }
  computation->root = position[computation->root];
  memcpy(computation->instructions, kept, count * sizeof *kept);
  computation->num_instructions = count;
done:
  VECTOR_FREE(&stack);
  trm_free(kept);
  trm_free(chain);
  trm_free(needed);
  trm_free(order);
  trm_free(position);
  trm_free(next_dependency);
  return status;
}

/* ---- The call graph ------------------------------------------------------------------------- */

typedef struct call_visit {
  uint32_t computation;
  trm_index instruction; /* the next to look at */
  uint32_t called;       /* the next of its called computations */
} call_visit;

trm_status trm_module_compact(trm_module *module, trm_error *error) {
  const uint32_t total = module->num_computations;
  trm_status status = TRM_OK;
  VECTOR(call_visit) stack = {0};
  enum { WAITING, OPEN, DONE };
  uint8_t *state = trm_allocate_zeroed(total, sizeof *state);
  uint32_t *order = trm_allocate(total * sizeof *order);
  uint32_t *position = trm_allocate(total * sizeof *position);
  uint32_t count = 0;
  if (state == NULL || order == NULL || position == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while walking the call graph");
  }
  if (module->entry >= total) FAIL_OR_GOTO(done, INVALID_ARGUMENT, "the module has no entry");
  if (!VECTOR_PUSH(&stack, ((call_visit){module->entry, 0, 0}))) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while walking the call graph");
  }
  state[module->entry] = OPEN;
  while (stack.count > 0) {
    call_visit *top = &stack.items[stack.count - 1];
    trm_computation *computation = &module->computations[top->computation];
    if (top->instruction == computation->num_instructions) {
      bool side_effect = false;
      for (trm_index i = 0; i < computation->num_instructions && !side_effect; ++i) {
        side_effect = trm_instruction_has_side_effect(module, &computation->instructions[i]);
      }
      computation->has_side_effect = side_effect;
      state[top->computation] = DONE;
      position[top->computation] = count;
      order[count++] = top->computation;
      --stack.count;
      continue;
    }
    const trm_instruction *instruction = &computation->instructions[top->instruction];
    if (top->called == instruction->num_called) {
      ++top->instruction;
      top->called = 0;
      continue;
    }
    const uint32_t callee = instruction->called[top->called++];
    if (callee >= total) {
      FAIL_OR_GOTO(done, INVALID_ARGUMENT, "%%%s calls a computation that does not exist",
                   instruction->name);
    }
    if (state[callee] == OPEN) {
      FAIL_OR_GOTO(done, INVALID_ARGUMENT,
                   "the call graph is cyclic: %%%s in computation %s calls %s, which is already "
                   "being called; HLO has no recursion",
                   instruction->name, computation->name, module->computations[callee].name);
    }
    if (state[callee] == WAITING) {
      state[callee] = OPEN;
      if (!VECTOR_PUSH(&stack, ((call_visit){callee, 0, 0}))) {
        FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while walking the call graph");
      }
    }
  }
  trm_computation *kept = ARENA_NEW(&module->arena, trm_computation, count);
  if (kept == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
  for (uint32_t i = 0; i < count; ++i) {
    kept[i] = module->computations[order[i]];
    for (trm_index k = 0; k < kept[i].num_instructions; ++k) {
      trm_instruction *instruction = &kept[i].instructions[k];
      for (uint32_t c = 0; c < instruction->num_called; ++c) {
        instruction->called[c] = position[instruction->called[c]];
      }
    }
  }
  module->entry = position[module->entry];
  module->computations = kept;
  module->num_computations = module->capacity = count;
done:
  VECTOR_FREE(&stack);
  trm_free(state);
  trm_free(order);
  trm_free(position);
  return status;
}

/* ---- Cloning -------------------------------------------------------------------------------- */

/* Copies every attribute of an instruction into another arena. */
typedef struct copier {
  trm_arena *arena;
  bool failed;
} copier;

static void *copy_block(copier *c, const void *block, size_t size) {
  if (block == NULL) return NULL;
  void *copy = trm_arena_copy(c->arena, block, size);
  if (copy == NULL) c->failed = true;
  return copy;
}

static const char *copy_text(copier *c, const char *text) {
  return text == NULL ? NULL : copy_block(c, text, strlen(text) + 1);
}

static trm_dims copy_dims(copier *c, trm_dims dims) {
  dims.items = copy_block(c, dims.items, (size_t)dims.count * sizeof *dims.items);
  return dims;
}

static const trm_literal *copy_literal(copier *c, const trm_literal *literal) {
  if (literal == NULL) return NULL;
  trm_literal *copy = copy_block(c, literal, sizeof *literal);
  if (copy == NULL) return NULL;
  if (!trm_shape_copy(c->arena, &literal->shape, &copy->shape)) c->failed = true;
  copy->leaves = copy_block(c, literal->leaves, (size_t)literal->num_leaves * sizeof(void *));
  for (int32_t i = 0; i < literal->num_leaves && !c->failed; ++i) {
    copy->leaves[i] =
        copy_block(c, literal->leaves[i], trm_shape_bytes(trm_shape_leaf(&literal->shape, i)));
  }
  return copy;
}

static void copy_numbers(copier *c, trm_instruction *to) {
  if ((to->dot = copy_block(c, to->dot, sizeof *to->dot)) != NULL) {
    to->dot->lhs_batch = copy_dims(c, to->dot->lhs_batch);
    to->dot->rhs_batch = copy_dims(c, to->dot->rhs_batch);
    to->dot->lhs_contracting = copy_dims(c, to->dot->lhs_contracting);
    to->dot->rhs_contracting = copy_dims(c, to->dot->rhs_contracting);
  }
  trm_gather *gather = to->gather = copy_block(c, to->gather, sizeof *to->gather);
  if (gather != NULL) {
    gather->offset_dims = copy_dims(c, gather->offset_dims);
    gather->collapsed_slice_dims = copy_dims(c, gather->collapsed_slice_dims);
    gather->start_index_map = copy_dims(c, gather->start_index_map);
    gather->operand_batching_dims = copy_dims(c, gather->operand_batching_dims);
    gather->start_indices_batching_dims = copy_dims(c, gather->start_indices_batching_dims);
    gather->slice_sizes = copy_dims(c, gather->slice_sizes);
  }
  trm_scatter *scatter = to->scatter = copy_block(c, to->scatter, sizeof *to->scatter);
  if (scatter != NULL) {
    scatter->update_window_dims = copy_dims(c, scatter->update_window_dims);
    scatter->inserted_window_dims = copy_dims(c, scatter->inserted_window_dims);
    scatter->scatter_dims_to_operand_dims = copy_dims(c, scatter->scatter_dims_to_operand_dims);
    scatter->input_batching_dims = copy_dims(c, scatter->input_batching_dims);
    scatter->scatter_indices_batching_dims = copy_dims(c, scatter->scatter_indices_batching_dims);
  }
  trm_convolution *convolution = to->convolution =
      copy_block(c, to->convolution, sizeof *to->convolution);
  if (convolution != NULL) {
    const size_t bytes = (size_t)convolution->spatial_rank * sizeof(int64_t);
    convolution->input_spatial = copy_block(c, convolution->input_spatial, bytes);
    convolution->kernel_spatial = copy_block(c, convolution->kernel_spatial, bytes);
    convolution->output_spatial = copy_block(c, convolution->output_spatial, bytes);
  }
  trm_collective *collective = to->collective =
      copy_block(c, to->collective, sizeof *to->collective);
  if (collective != NULL) {
    trm_replica_groups *groups = &collective->replica_groups;
    groups->groups = copy_block(c, groups->groups, (size_t)groups->count * sizeof(trm_dims));
    for (int32_t i = 0; i < groups->count && !c->failed; ++i) {
      groups->groups[i] = copy_dims(c, groups->groups[i]);
    }
    collective->source_target_pairs = copy_dims(c, collective->source_target_pairs);
  }
}

static trm_instruction copy_instruction(copier *c, const trm_computation *computation,
                                        const trm_instruction *from) {
  trm_instruction to = *from;
  if (!trm_shape_copy(c->arena, &from->shape, &to.shape)) c->failed = true;
  to.name = copy_text(c, from->name);
  to.operands = copy_block(c, from->operands, from->num_operands * sizeof *from->operands);
  to.called = copy_block(c, from->called, from->num_called * sizeof *from->called);
  to.control_predecessors =
      copy_block(c, from->control_predecessors,
                 from->num_control_predecessors * sizeof *from->control_predecessors);
  to.dimensions = copy_dims(c, from->dimensions);
  to.sizes = copy_dims(c, from->sizes);
  to.operand_precision = copy_dims(c, from->operand_precision);
  const int32_t rank =
      from->num_operands > 0 ? computation->instructions[from->operands[0]].shape.rank : 0;
  to.slice = copy_block(c, from->slice, (size_t)rank * sizeof *from->slice);
  to.padding = copy_block(c, from->padding, (size_t)rank * sizeof *from->padding);
  if ((to.window = copy_block(c, from->window, sizeof *from->window)) != NULL) {
    to.window->dims =
        copy_block(c, from->window->dims, (size_t)from->window->rank * sizeof *to.window->dims);
  }
  copy_numbers(c, &to);
  to.triangular_solve = copy_block(c, from->triangular_solve, sizeof *from->triangular_solve);
  if ((to.custom_call = copy_block(c, from->custom_call, sizeof *from->custom_call)) != NULL) {
    to.custom_call->target = copy_text(c, from->custom_call->target);
  }
  to.literal = copy_literal(c, from->literal);
  to.fusion_kind = copy_text(c, from->fusion_kind);
  to.backend_config = copy_block(c, from->backend_config, from->backend_config_size + 1);
  to.infeed_config = copy_text(c, from->infeed_config);
  to.sharding = copy_text(c, from->sharding);
  if (from->frontend_attributes != NULL) {
    size_t count = 0;
    while (from->frontend_attributes[count] != NULL) ++count;
    const char **list = copy_block(c, from->frontend_attributes, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count && !c->failed; ++i) list[i] = copy_text(c, list[i]);
    to.frontend_attributes = list;
  }
  to.metadata.op_type = copy_text(c, from->metadata.op_type);
  to.metadata.op_name = copy_text(c, from->metadata.op_name);
  to.metadata.source_file = copy_text(c, from->metadata.source_file);
  return to;
}

trm_status trm_module_clone(const trm_module *module, trm_module **out_module, trm_error *error) {
  trm_module *clone;
  TRY(trm_module_create(module->name, &clone, error));
  copier c = {&clone->arena, false};
  clone->entry = module->entry;
  clone->next_id = module->next_id;
  clone->is_scheduled = module->is_scheduled;
  clone->frontend_side_table = copy_text(&c, module->frontend_side_table);
  clone->num_aliases = module->num_aliases;
  clone->aliases =
      copy_block(&c, module->aliases, module->num_aliases * sizeof *module->aliases);
  for (uint32_t i = 0; i < module->num_aliases && !c.failed; ++i) {
    clone->aliases[i].output_index = copy_dims(&c, module->aliases[i].output_index);
    clone->aliases[i].parameter_index = copy_dims(&c, module->aliases[i].parameter_index);
  }
  clone->num_computations = clone->capacity = module->num_computations;
  clone->computations = copy_block(&c, module->computations,
                                   module->num_computations * sizeof *module->computations);
  for (uint32_t i = 0; i < module->num_computations && !c.failed; ++i) {
    const trm_computation *from = &module->computations[i];
    trm_computation *to = &clone->computations[i];
    to->name = copy_text(&c, from->name);
    to->parameters =
        copy_block(&c, from->parameters, from->num_parameters * sizeof *from->parameters);
    to->capacity = from->num_instructions;
    to->instructions = ARENA_NEW(&clone->arena, trm_instruction, from->num_instructions);
    if (to->instructions == NULL) c.failed = true;
    for (trm_index k = 0; k < from->num_instructions && !c.failed; ++k) {
      to->instructions[k] = copy_instruction(&c, from, &from->instructions[k]);
    }
  }
  if (c.failed) {
    trm_module_free(clone);
    FAIL_NO_MEMORY("a copy of a module");
  }
  *out_module = clone;
  return TRM_OK;
}
