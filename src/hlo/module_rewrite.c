/* Owns: taking out of a module what is not needed: instructions that others replace or nothing
 * uses, computations that nothing calls. Neither recurses. */
#include <string.h>

#include "hlo/hlo.h"

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

/* Whether what the entry reaches (a state that is not 0) has callees before callers already: then
 * that order stays, so that a module which is written and read again is the same. */
static bool is_ordered(const trm_module *module, const uint8_t *state) {
  for (uint32_t i = 0; i < module->num_computations; ++i) {
    const trm_computation *computation = &module->computations[i];
    for (trm_index k = 0; k < computation->num_instructions && state[i] != 0; ++k) {
      const trm_instruction *instruction = &computation->instructions[k];
      for (uint32_t c = 0; c < instruction->num_called; ++c) {
        if (instruction->called[c] >= i) return false;
      }
    }
  }
  return true;
}

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
  if (is_ordered(module, state)) {
    count = 0;
    for (uint32_t i = 0; i < total; ++i) {
      if (state[i] != DONE) continue;
      position[i] = count;
      order[count++] = i;
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

/* ---- Side effects --------------------------------------------------------------------------- */

static bool has_predecessor(const trm_instruction *instruction, trm_index index) {
  for (uint32_t k = 0; k < instruction->num_control_predecessors; ++k) {
    if (instruction->control_predecessors[k] == index) return true;
  }
  return false;
}

static trm_status add_predecessor(trm_module *module, trm_instruction *instruction,
                                  trm_index before, trm_error *error) {
  const uint32_t count = instruction->num_control_predecessors;
  trm_index *list = ARENA_NEW(&module->arena, trm_index, count + 1);
  CHECK_MEMORY(list, "control predecessors");
  if (count > 0) memcpy(list, instruction->control_predecessors, count * sizeof *list);
  list[count] = before;
  instruction->control_predecessors = list;
  instruction->num_control_predecessors = count + 1;
  return TRM_OK;
}

trm_status trm_module_settle(trm_module *module, trm_error *error) {
  TRY(trm_module_compact(module, error));
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_computation *computation = &module->computations[c];
    trm_index last = TRM_NO_INDEX;
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      trm_instruction *instruction = &computation->instructions[i];
      if (!trm_instruction_has_side_effect(module, instruction)) continue;
      if (last != TRM_NO_INDEX && !has_predecessor(instruction, last)) {
        TRY(add_predecessor(module, instruction, last, error));
      }
      last = i;
    }
  }
  return TRM_OK;
}
