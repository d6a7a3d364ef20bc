/* Owns: inlining calls and fusions, and giving each while and conditional computations of its own.
 *
 * Inlining goes from the entry down with an explicit stack, so each instruction is copied once
 * whatever the depth of the calls. Side effects stay in order: an instruction with a control edge
 * from a call waits for the last side effect inside the call. */
#include <string.h>

#include "passes/pass.h"

/* The limit of instructions after inlining, because nested calls can double the program at every
 * level. So many instructions take about a gigabyte. */
static const uint64_t max_instructions = UINT64_C(1) << 20;

typedef struct frame {
  uint32_t computation;
  trm_index next;
  trm_index call;    /* the call in the frame below */
  trm_index *map;    /* by instruction here: its copy in the result */
  trm_index *effect; /* by call here: the last side effect inside, in the result */
  trm_index last_effect;
  trm_index entered_after; /* an instruction that side effects here wait for, or TRM_NO_INDEX */
  const char *scope;       /* JAX's name of the call, which names inside leave out; or NULL */
} frame;

typedef VECTOR(frame) frame_vector;

static bool is_inlined(trm_opcode opcode) {
  return opcode == TRM_OP_CALL || opcode == TRM_OP_FUSION;
}

static bool needs_inlining(const trm_computation *computation) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    if (is_inlined(computation->instructions[i].opcode)) return true;
  }
  return false;
}

/* JAX names what a function computes without the scopes around the call: "max" for
 * "jit(step)/layer_0/jit(relu)/max". */
static trm_status name_in_scope(const char *scope, trm_arena *arena, const char **name,
                                trm_error *error) {
  if (scope == NULL || *name == NULL || **name == '\0' || strncmp(*name, "jit(", 4) == 0) {
    return TRM_OK;
  }
  *name = trm_arena_format(arena, "%s/%s", scope, *name);
  CHECK_MEMORY(*name, "a name");
  return TRM_OK;
}

static trm_status push_frame(const trm_module *module, frame_vector *stack, uint32_t computation,
                             trm_index call, trm_index entered_after, trm_error *error) {
  const uint32_t count = module->computations[computation].num_instructions;
  frame f = {.computation = computation,
             .call = call,
             .map = trm_allocate((count + 1) * sizeof(trm_index)),
             .effect = trm_allocate((count + 1) * sizeof(trm_index)),
             .last_effect = TRM_NO_INDEX,
             .entered_after = entered_after};
  if (f.map == NULL || f.effect == NULL || !VECTOR_PUSH(stack, f)) {
    trm_free(f.map);
    trm_free(f.effect);
    FAIL_NO_MEMORY("a call to inline");
  }
  memset(f.effect, 0xff, (count + 1) * sizeof(trm_index));
  return TRM_OK;
}

static void pop_frame(frame_vector *stack) {
  frame *top = &stack->items[--stack->count];
  trm_free(top->map);
  trm_free(top->effect);
}

/* Sets the control predecessors of `copy`: those of the instruction, as instructions of the
 * result. */
static trm_status translate_predecessors(const frame *top, const trm_instruction *instruction,
                                         bool side_effect, trm_arena *arena, trm_instruction *copy,
                                         trm_error *error) {
  const uint32_t count = instruction->num_control_predecessors;
  trm_index *list = ARENA_NEW(arena, trm_index, count + 1);
  CHECK_MEMORY(list, "control predecessors");
  uint32_t kept = 0;
  for (uint32_t k = 0; k < count; ++k) {
    const trm_index p = instruction->control_predecessors[k];
    list[kept++] = top->effect[p] != TRM_NO_INDEX ? top->effect[p] : top->map[p];
  }
  if (side_effect && top->entered_after != TRM_NO_INDEX) {
    list[kept++] = top->entered_after;
  }
  copy->control_predecessors = list;
  copy->num_control_predecessors = kept;
  return TRM_OK;
}

/* Copies one instruction of the top frame, or pushes a frame for a call. */
static trm_status inline_next(trm_module *module, uint32_t target, frame_vector *stack,
                              trm_error *error) {
  frame *top = &stack->items[stack->count - 1];
  const trm_index index = top->next++;
  const trm_instruction instruction = module->computations[top->computation].instructions[index];
  const bool side_effect = trm_instruction_has_side_effect(module, &instruction);
  if (is_inlined(instruction.opcode)) {
    trm_instruction entered = {0};
    TRY(translate_predecessors(top, &instruction, side_effect, &module->arena, &entered, error));
    trm_index after =
        entered.num_control_predecessors > 0 ? entered.control_predecessors[0] : TRM_NO_INDEX;
    if (side_effect && entered.num_control_predecessors > 1) { /* a token stands for all of them */
      entered.opcode = TRM_OP_AFTER_ALL;
      entered.shape.dtype = TRM_TOKEN;
      TRY(trm_computation_add(module, target, &entered, &after, error));
    }
    const char *name = instruction.metadata.op_name;
    TRY(name_in_scope(top->scope, &module->arena, &name, error));
    TRY(push_frame(module, stack, instruction.called[0], index, after, error));
    const bool is_jax = name != NULL && strncmp(name, "jit(", 4) == 0;
    stack->items[stack->count - 1].scope = is_jax ? name : NULL;
    return TRM_OK;
  }
  if (instruction.opcode == TRM_OP_PARAMETER && stack->count > 1) {
    const frame *below = &stack->items[stack->count - 2];
    const trm_instruction *call =
        &module->computations[below->computation].instructions[below->next - 1];
    top->map[index] = below->map[call->operands[instruction.number]];
    return TRM_OK;
  }
  trm_instruction copy = instruction;
  copy.operands = ARENA_NEW(&module->arena, trm_index, instruction.num_operands);
  CHECK_MEMORY(copy.operands, "operands");
  for (uint32_t k = 0; k < instruction.num_operands; ++k) {
    copy.operands[k] = top->map[instruction.operands[k]];
  }
  TRY(translate_predecessors(top, &instruction, side_effect, &module->arena, &copy, error));
  TRY(name_in_scope(top->scope, &module->arena, &copy.metadata.op_name, error));
  if (stack->count > 1) {
    copy.name = NULL;
    copy.id = 0;
  }
  TRY(trm_computation_add(module, target, &copy, &top->map[index], error));
  if (side_effect) top->last_effect = top->map[index];
  return TRM_OK;
}

static trm_status inline_computation(trm_module *module, uint32_t index, trm_error *error) {
  uint32_t target;
  TRY(trm_module_add_computation(module, module->computations[index].name, &target, error));
  frame_vector stack = {0};
  trm_status status = push_frame(module, &stack, index, 0, TRM_NO_INDEX, error);
  trm_index root = TRM_NO_INDEX;
  while (status == TRM_OK && stack.count > 0) {
    frame *top = &stack.items[stack.count - 1];
    const trm_computation *computation = &module->computations[top->computation];
    if (top->next < computation->num_instructions) {
      status = inline_next(module, target, &stack, error);
      continue;
    }
    root = top->map[computation->root];
    const trm_index call = top->call, last_effect = top->last_effect;
    pop_frame(&stack);
    if (stack.count == 0) break;
    frame *below = &stack.items[stack.count - 1];
    below->map[call] = root;
    below->effect[call] = last_effect;
    if (last_effect != TRM_NO_INDEX) below->last_effect = last_effect;
  }
  while (stack.count > 0) pop_frame(&stack);
  VECTOR_FREE(&stack);
  TRY(status);
  trm_computation *result = &module->computations[target];
  result->root = root;
  result->id = module->computations[index].id;
  result->has_side_effect = module->computations[index].has_side_effect;
  const trm_computation old = module->computations[index];
  module->computations[index] = *result;
  module->computations[target] = old; /* dropped by trm_module_compact if nothing calls it */
  return TRM_OK;
}

/* Gives every while and conditional computations that no other instruction calls. */
static trm_status unshare(trm_module *module, trm_error *error) {
  VECTOR(uint32_t) queue = {0};
  trm_status status = TRM_OK;
  uint32_t capacity = module->num_computations;
  bool *used = trm_allocate_zeroed(capacity, sizeof *used);
  if (used == NULL || !VECTOR_PUSH(&queue, module->entry)) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while flattening the call graph");
  }
  while (queue.count > 0) {
    const uint32_t caller = queue.items[--queue.count];
    for (trm_index i = 0; i < module->computations[caller].num_instructions; ++i) {
      const trm_opcode opcode = module->computations[caller].instructions[i].opcode;
      if (opcode != TRM_OP_WHILE && opcode != TRM_OP_CONDITIONAL) continue;
      for (uint32_t k = 0; k < module->computations[caller].instructions[i].num_called; ++k) {
        uint32_t callee = module->computations[caller].instructions[i].called[k];
        if (callee < capacity && !used[callee]) {
          used[callee] = true;
        } else {
          TRY_OR_GOTO(trm_module_clone_computation(module, callee, &callee, error), done);
          module->computations[caller].instructions[i].called[k] = callee;
        }
        if (!VECTOR_PUSH(&queue, callee)) {
          FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while flattening the call graph");
        }
      }
    }
  }
done:
  VECTOR_FREE(&queue);
  trm_free(used);
  return status;
}

/* Counts the instructions after inlining and unsharing before any are made. Callees come before
 * callers. */
static trm_status check_size(const trm_module *module, trm_error *error) {
  uint64_t *size = trm_allocate_zeroed(module->num_computations, sizeof *size);
  CHECK_MEMORY(size, "the call graph");
  uint32_t worst = module->entry;
  for (uint32_t c = 0; c < module->num_computations && size[worst] <= max_instructions; ++c) {
    const trm_computation *computation = &module->computations[c];
    size[c] = computation->num_instructions;
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (!is_inlined(instruction->opcode) && instruction->opcode != TRM_OP_WHILE &&
          instruction->opcode != TRM_OP_CONDITIONAL) {
        continue;
      }
      for (uint32_t k = 0; k < instruction->num_called && size[c] <= max_instructions; ++k) {
        size[c] += size[instruction->called[k]];
      }
    }
    if (size[c] > max_instructions) worst = c;
  }
  const bool fits = size[worst] <= max_instructions;
  trm_free(size);
  if (fits) return TRM_OK;
  FAIL(RESOURCE_EXHAUSTED,
       "inlining the calls of computation %s gives more than %llu instructions: each of the "
       "computations that it calls is copied for every call; call them less often, or in a loop",
       module->computations[worst].name, (unsigned long long)max_instructions);
}

trm_status trm_pass_inline(trm_module *module, trm_error *error) {
  TRY(trm_module_compact(module, error));
  TRY(check_size(module, error));
  const uint32_t count = module->num_computations;
  bool *wanted = trm_allocate_zeroed(count, sizeof *wanted);
  CHECK_MEMORY(wanted, "the call graph");
  /* Computations that are only called or fused disappear; the others are inlined into. */
  wanted[module->entry] = true;
  for (uint32_t c = 0; c < count; ++c) {
    for (trm_index i = 0; i < module->computations[c].num_instructions; ++i) {
      const trm_instruction *instruction = &module->computations[c].instructions[i];
      if (is_inlined(instruction->opcode)) continue;
      for (uint32_t k = 0; k < instruction->num_called; ++k) wanted[instruction->called[k]] = true;
    }
  }
  trm_status status = TRM_OK;
  /* Callers come first, so that callees are copied before they change. */
  for (uint32_t c = count; c-- > 0 && status == TRM_OK;) {
    if (wanted[c] && needs_inlining(&module->computations[c])) {
      status = inline_computation(module, c, error);
    }
  }
  trm_free(wanted);
  TRY(status);
  TRY(trm_module_compact(module, error));
  TRY(unshare(module, error));
  return trm_module_compact(module, error);
}
