/* Owns: finding the values that are the same on all replicas.
 *
 * The same are: inputs of the program, results of collectives of all replicas, values that the
 * program declares the same, and results computed from such values alone. Not the same are: results
 * of feeds, random numbers and custom calls. The leaves of a tuple count one by one. Loops and
 * branches make the analysis a fixed point: all values count as the same until one is found to
 * differ. After ROUNDS rounds the state of a loop that still changes counts as different, after
 * LAST_ROUND every value: that is always safe. */
#include "passes/identical.h"

#include <string.h>

#include "hlo/config.h"

enum { ROUNDS = 16, LAST_ROUND = 64 };

typedef struct analysis {
  const trm_module *module;
  uint32_t replicas, round;
  const uint32_t *const *first; /* by computation and instruction: its first leaf; and one more */
  const uint32_t *const *taken; /* of a get-tuple-element: the leaf at which it begins */
  bool *const *differs;         /* by computation and leaf */
  bool *diverges; /* by computation: replicas may run it a different number of times */
  bool changed;
} analysis;

static bool *leaves_of(const analysis *a, uint32_t c, trm_index i) {
  return a->differs[c] + a->first[c][i];
}

static uint32_t count_of(const analysis *a, uint32_t c, trm_index i) {
  return a->first[c][i + 1] - a->first[c][i];
}

static void raise(analysis *a, bool *leaf, bool differs) {
  if (!differs || *leaf) return;
  *leaf = true;
  a->changed = true;
}

static void raise_all(analysis *a, bool *leaves, uint32_t count, bool differ) {
  for (uint32_t l = 0; l < count; ++l) raise(a, &leaves[l], differ);
}

static void raise_each(analysis *a, bool *leaves, const bool *from, uint32_t count) {
  for (uint32_t l = 0; l < count; ++l) raise(a, &leaves[l], from[l]);
}

static bool any(const bool *leaves, uint32_t count) {
  return count > 0 && memchr(leaves, true, count) != NULL;
}

static bool operands_differ(const analysis *a, uint32_t c, const trm_instruction *instruction) {
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    if (any(leaves_of(a, c, operand), count_of(a, c, operand))) return true;
  }
  return false;
}

/* ---- Instructions --------------------------------------------------------------------------- */

/* Whether all replicas take part in a collective. */
static bool is_of_all(const analysis *a, const trm_collective *collective) {
  if (collective == NULL || collective->replica_groups.count == 0) return true;
  return collective->replica_groups.count == 1 &&
         (uint32_t)collective->replica_groups.groups[0].count == a->replicas;
}

static bool custom_call_differs(const analysis *a, const trm_instruction *call) {
  const trm_opcode_replicas replicas = trm_call_replicas(call->call_id);
  if (replicas == TRM_REPLICAS_SAME) return false;
  const int64_t size = trm_config_integer(call, "group_size", 0); /* 0: all replicas */
  return replicas != TRM_REPLICAS_GROUP || (size != 0 && size != a->replicas) ||
         trm_config_is_text(call, "op", "local");
}

static bool result_differs(const analysis *a, uint32_t c, const trm_instruction *instruction) {
  if (instruction->opcode == TRM_OP_CUSTOM_CALL) return custom_call_differs(a, instruction);
  if (instruction->opcode == TRM_OP_OPT_BARRIER && /* assume_equal_across_replicas() */
      trm_instruction_frontend_attribute(instruction, "ASSUME_EQUAL") != NULL) {
    return false;
  }
  switch (trm_opcode_replicas_of(instruction->opcode)) {
    case TRM_REPLICAS_GROUP: return !is_of_all(a, instruction->collective);
    case TRM_REPLICAS_OWN: return true;
    default: return operands_differ(a, c, instruction); /* a loop or branch sets parameters */
  }
}

/* ---- Control flow --------------------------------------------------------------------------- */

static void diverge(analysis *a, uint32_t c) {
  if (a->diverges[c]) return;
  a->diverges[c] = true;
  a->changed = true;
}

static bool *parameter_of(const analysis *a, uint32_t c) {
  const trm_computation *computation = &a->module->computations[c];
  return leaves_of(a, c, computation->parameters[0]);
}

static bool *root_of(const analysis *a, uint32_t c) {
  return leaves_of(a, c, a->module->computations[c].root);
}

static void visit_while(analysis *a, uint32_t c, trm_index i) {
  const trm_instruction *loop = &a->module->computations[c].instructions[i];
  const uint32_t condition = loop->called[0], body = loop->called[1];
  bool *state = leaves_of(a, c, i);
  const uint32_t count = count_of(a, c, i);
  const bool before = a->changed;
  a->changed = false;
  raise_each(a, state, leaves_of(a, c, loop->operands[0]), count);
  raise_each(a, state, root_of(a, body), count);
  if (*root_of(a, condition) || a->diverges[c]) {
    diverge(a, body);
    diverge(a, condition);
  }
  raise_all(a, state, count, a->diverges[body] || (a->changed && a->round >= ROUNDS));
  raise_each(a, parameter_of(a, body), state, count);
  raise_each(a, parameter_of(a, condition), state, count);
  a->changed = a->changed || before;
}

static void visit_conditional(analysis *a, uint32_t c, trm_index i) {
  const trm_instruction *choice = &a->module->computations[c].instructions[i];
  const bool differs = *leaves_of(a, c, choice->operands[0]) || a->diverges[c];
  for (uint32_t b = 0; b < choice->num_called; ++b) {
    const uint32_t branch = choice->called[b];
    const trm_index operand = choice->operands[b + 1];
    raise_each(a, parameter_of(a, branch), leaves_of(a, c, operand), count_of(a, c, operand));
    if (differs) diverge(a, branch);
    raise_each(a, leaves_of(a, c, i), root_of(a, branch), count_of(a, c, i));
  }
  raise_all(a, leaves_of(a, c, i), count_of(a, c, i), differs);
}

static void visit(analysis *a, uint32_t c, trm_index i) {
  const trm_instruction *instruction = &a->module->computations[c].instructions[i];
  bool *leaves = leaves_of(a, c, i);
  const uint32_t count = count_of(a, c, i);
  switch (instruction->opcode) {
    case TRM_OP_WHILE: visit_while(a, c, i); break;
    case TRM_OP_CONDITIONAL: visit_conditional(a, c, i); break;
    case TRM_OP_GET_TUPLE_ELEMENT:
      raise_each(a, leaves, leaves_of(a, c, instruction->operands[0]) + a->taken[c][i], count);
      break;
    case TRM_OP_TUPLE:
      for (uint32_t k = 0, at = 0; k < instruction->num_operands; ++k) {
        const trm_index operand = instruction->operands[k];
        raise_each(a, leaves + at, leaves_of(a, c, operand), count_of(a, c, operand));
        at += count_of(a, c, operand);
      }
      break;
    default: raise_all(a, leaves, count, result_differs(a, c, instruction)); break;
  }
  raise_all(a, leaves, count, a->diverges[c] || a->round >= LAST_ROUND);
}

/* ---- The whole ------------------------------------------------------------------------------ */

/* Numbers the leaves of the instructions of a computation. */
static trm_status lay_out(const trm_computation *computation, trm_arena *arena,
                          const uint32_t **out_first, const uint32_t **out_taken,
                          bool **out_differs, trm_error *error) {
  const uint32_t count = computation->num_instructions;
  uint32_t *first = ARENA_NEW(arena, uint32_t, (size_t)count + 1);
  uint32_t *taken = ARENA_NEW(arena, uint32_t, (size_t)count + 1);
  if (first == NULL || taken == NULL) FAIL_NO_MEMORY("a pass");
  uint32_t total = 0;
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    first[i] = total;
    taken[i] = 0;
    total += (uint32_t)trm_shape_num_leaves(&instruction->shape);
    if (instruction->opcode != TRM_OP_GET_TUPLE_ELEMENT) continue;
    const trm_shape *tuple = &computation->instructions[instruction->operands[0]].shape;
    taken[i] = (uint32_t)trm_shape_leaf_offset(tuple, (int32_t)instruction->number);
  }
  first[count] = total;
  *out_differs = ARENA_NEW(arena, bool, (size_t)total + 1);
  CHECK_MEMORY(*out_differs, "a pass");
  memset(*out_differs, 0, (size_t)total + 1);
  *out_first = first;
  *out_taken = taken;
  return TRM_OK;
}

trm_status trm_find_identical(const trm_module *module, const bool *runs, uint32_t replicas,
                              trm_arena *arena, trm_identical *out, trm_error *error) {
  const uint32_t count = module->num_computations;
  const uint32_t **first = ARENA_NEW(arena, const uint32_t *, count);
  const uint32_t **taken = ARENA_NEW(arena, const uint32_t *, count);
  bool **differs = ARENA_NEW(arena, bool *, count);
  bool *diverges = ARENA_NEW(arena, bool, count);
  if (first == NULL || taken == NULL || differs == NULL || diverges == NULL) {
    FAIL_NO_MEMORY("a pass");
  }
  for (uint32_t c = 0; c < count; ++c) {
    diverges[c] = false;
    TRY(lay_out(&module->computations[c], arena, &first[c], &taken[c], &differs[c], error));
  }
  analysis a = {.module = module,
                .replicas = replicas,
                .first = first,
                .taken = taken,
                .differs = differs,
                .diverges = diverges,
                .changed = replicas > 1};
  for (; a.changed; ++a.round) {
    a.changed = false;
    for (uint32_t c = count; c-- > 0;) { /* callers before callees */
      for (trm_index i = 0; runs[c] && i < module->computations[c].num_instructions; ++i) {
        visit(&a, c, i);
      }
    }
  }
  *out = (trm_identical){first, differs};
  return TRM_OK;
}
