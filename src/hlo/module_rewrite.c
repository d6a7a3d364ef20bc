/* Owns: removing instructions that others replace or nothing uses, and computations that nothing
 * calls. Neither recurses. */
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/order.h"

/* ---- Rewriting ------------------------------------------------------------------------------ */

/* The last replacement of `index`, at the end of the chain. */
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

static uint32_t num_dependencies(const trm_instruction *instruction) {
  return instruction->num_operands + instruction->num_control_predecessors;
}

static trm_index dependency(const trm_instruction *instruction, uint32_t k) {
  return k < instruction->num_operands
             ? instruction->operands[k]
             : instruction->control_predecessors[k - instruction->num_operands];
}

trm_status trm_computation_order(const trm_computation *computation, const bool *needed,
                                 trm_index *order, uint32_t *out_count, trm_error *error) {
  const uint32_t total = computation->num_instructions;
  size_t edges = 0;
  for (trm_index i = 0; i < total; ++i) edges += num_dependencies(&computation->instructions[i]);
  trm_graph g;
  trm_cycle cycle = {TRM_NO_INDEX, TRM_NO_INDEX};
  trm_status status = trm_graph_create(total, edges, &g, error);
  edges = 0;
  for (trm_index i = 0; i < total && status == TRM_OK; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    const uint32_t count = num_dependencies(instruction);
    for (uint32_t k = 0; k < count; ++k) g.targets[edges++] = dependency(instruction, k);
    g.rows[i + 1] = edges;
  }
  if (status == TRM_OK) status = trm_graph_order(&g, needed, order, out_count, &cycle, error);
  trm_graph_free(&g);
  if (status != TRM_OK || cycle.from == TRM_NO_INDEX) return status;
  FAIL(INVALID_ARGUMENT, "the instructions of computation %s form a cycle", computation->name);
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

void trm_computation_renumber(trm_computation *computation, const trm_index *position) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    trm_instruction *instruction = &computation->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      instruction->operands[k] = position[instruction->operands[k]];
    }
    for (uint32_t k = 0; k < instruction->num_control_predecessors; ++k) {
      instruction->control_predecessors[k] = position[instruction->control_predecessors[k]];
    }
  }
  for (uint32_t p = 0; p < computation->num_parameters; ++p) {
    if (computation->parameters[p] == TRM_NO_INDEX) continue;
    computation->parameters[p] = position[computation->parameters[p]];
  }
  computation->root = position[computation->root];
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
  if (chain == NULL || needed == NULL || order == NULL || position == NULL) {
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
  uint32_t count;
  TRY_OR_GOTO(trm_computation_order(computation, needed, order, &count, error), done);
  for (trm_index i = 0; i < total; ++i) position[i] = TRM_NO_INDEX;
  for (uint32_t i = 0; i < count; ++i) position[order[i]] = i;
  kept = trm_allocate((count + 1) * sizeof *kept);
  if (kept == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while rewriting");
  for (uint32_t i = 0; i < count; ++i) kept[i] = computation->instructions[order[i]];
  memcpy(computation->instructions, kept, count * sizeof *kept);
  computation->num_instructions = count;
  trm_computation_renumber(computation, position);
done:
  VECTOR_FREE(&stack);
  trm_free(kept);
  trm_free(chain);
  trm_free(needed);
  trm_free(order);
  trm_free(position);
  return status;
}

/* ---- The call graph ------------------------------------------------------------------------- */

/* Which computations call which. */
static trm_status list_calls(const trm_module *module, trm_graph *out_calls, trm_error *error) {
  const uint32_t total = module->num_computations;
  size_t calls = 0;
  for (uint32_t c = 0; c < total; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      calls += computation->instructions[i].num_called;
    }
  }
  TRY(trm_graph_create(total, calls, out_calls, error));
  calls = 0;
  for (uint32_t c = 0; c < total; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      for (uint32_t k = 0; k < instruction->num_called; ++k) {
        if (instruction->called[k] >= total) {
          FAIL(INVALID_ARGUMENT, "%%%s calls a computation that does not exist", instruction->name);
        }
        out_calls->targets[calls++] = instruction->called[k];
      }
    }
    out_calls->rows[c + 1] = calls;
  }
  return TRM_OK;
}

/* Fills order[] with the computations that the entry reaches, callees before callers. */
static trm_status order_reached(const trm_module *module, uint32_t *order, uint32_t *out_count,
                                trm_error *error) {
  trm_graph calls = {0};
  trm_cycle cycle = {TRM_NO_INDEX, TRM_NO_INDEX};
  bool *wanted = trm_allocate_zeroed(module->num_computations, sizeof *wanted);
  CHECK_MEMORY(wanted, "the call graph");
  wanted[module->entry] = true;
  trm_status status = list_calls(module, &calls, error);
  if (status == TRM_OK) status = trm_graph_order(&calls, wanted, order, out_count, &cycle, error);
  trm_graph_free(&calls);
  trm_free(wanted);
  if (status != TRM_OK || cycle.from == TRM_NO_INDEX) return status;
  FAIL(INVALID_ARGUMENT,
       "the call graph is cyclic: computation %s calls %s, which calls it, directly or through "
       "others; HLO has no recursion",
       module->computations[cycle.from].name, module->computations[cycle.to].name);
}

static void note_side_effect(const trm_module *module, trm_computation *computation) {
  bool side_effect = false;
  for (trm_index i = 0; i < computation->num_instructions && !side_effect; ++i) {
    side_effect = trm_instruction_has_side_effect(module, &computation->instructions[i]);
  }
  computation->has_side_effect = side_effect;
}

/* Whether the computations that the entry reaches have callees before callers already: then
 * that order stays, so that a module which is written and read again is the same. */
static bool is_ordered(const trm_module *module, const bool *reached) {
  for (uint32_t i = 0; i < module->num_computations; ++i) {
    const trm_computation *computation = &module->computations[i];
    for (trm_index k = 0; k < computation->num_instructions && reached[i]; ++k) {
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
  bool *reached = trm_allocate_zeroed(total, sizeof *reached);
  uint32_t *order = trm_allocate(total * sizeof *order);
  uint32_t *position = trm_allocate(total * sizeof *position);
  uint32_t count = 0;
  if (reached == NULL || order == NULL || position == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while walking the call graph");
  }
  if (module->entry >= total) FAIL_OR_GOTO(done, INVALID_ARGUMENT, "the module has no entry");
  TRY_OR_GOTO(order_reached(module, order, &count, error), done);
  for (uint32_t i = 0; i < count; ++i) {
    note_side_effect(module, &module->computations[order[i]]); /* those of callees are known */
    reached[order[i]] = true;
  }
  if (is_ordered(module, reached)) {
    count = 0;
    for (uint32_t i = 0; i < total; ++i) {
      if (reached[i]) order[count++] = i;
    }
  }
  for (uint32_t i = 0; i < count; ++i) position[order[i]] = i;
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
  trm_free(reached);
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
