/* Owns: how Poplar names the compute sets of an instruction, and which of them exist: the calls
 * that the pass library-calls has stated, with the numbers of their words. */
#include <string.h>

#include "hlo/marked_calls.h"
#include "ipu/program/draft.h"

/* ---- Numbers -------------------------------------------------------------------------------- */

/* What calls of outlined functions have in common, in a hash table. */
typedef struct shared_number {
  uint64_t hash; /* 0: none */
  uint32_t count;
  uint32_t *number;
} shared_number;

typedef struct numbering {
  const trm_module *module;
  trm_arena *arena;
  trm_tile_role **roles;
  uint32_t **groups; /* the number of each group; NULL before its first call */
  uint32_t most_groups;
  trm_scopes calls;      /* of outlined functions */
  uint32_t *matches;     /* by call: the first equal one */
  shared_number *shared; /* mask + 1 entries, of which some are free */
  uint32_t mask;
  VECTOR(trm_word_count) words;
} numbering;

static uint64_t mix_text(uint64_t h, const char *text) {
  for (; text != NULL && *text != '\0'; ++text) h = trm_layout_combine(h, (uint8_t)*text);
  return trm_layout_combine(h, 0);
}

static shared_number *shared_at(numbering *n, uint64_t hash) {
  if (hash == 0) hash = 1;
  uint32_t slot = (uint32_t)hash & n->mask;
  while (n->shared[slot].hash != 0 && n->shared[slot].hash != hash) slot = (slot + 1) & n->mask;
  n->shared[slot].hash = hash;
  return &n->shared[slot];
}

/* Where the number of an instruction of an outlined function is: the k-th one of a word in each of
 * its equal calls has the same number, because the original has the function once. NULL: it is in
 * no such call. */
static uint32_t **shared_number_of(numbering *n, const trm_instruction *instruction,
                                   const char *word) {
  bool gradient = false;
  const uint32_t call = trm_scope_of(&n->calls, TRM_CALL_SCOPE, instruction, &gradient);
  if (call == TRM_NO_INDEX || n->matches[call] == TRM_NO_INDEX) return NULL;
  const uint64_t part = trm_layout_combine(mix_text(1, word), gradient ? 1 : 2);
  const uint32_t k = ++shared_at(n, trm_layout_combine(part, call))->count;
  return &shared_at(n, trm_layout_combine(trm_layout_combine(part, n->matches[call]), k))->number;
}

/* Counts one more use of the word. A program has a few dozen words. */
static trm_status count_word(numbering *n, const char *word, uint32_t *out_count,
                             trm_error *error) {
  size_t w = 0;
  while (w < n->words.count && strcmp(n->words.items[w].word, word) != 0) ++w;
  if (w == n->words.count && !VECTOR_PUSH(&n->words, ((trm_word_count){word, 0}))) {
    FAIL_NO_MEMORY("names");
  }
  *out_count = ++n->words.items[w].count;
  return TRM_OK;
}

/* Gives the role of instruction i its number: the stated one, that of its group or function, or the
 * next one of its word. */
static trm_status number_role(numbering *n, uint32_t c, trm_index i, bool joins, trm_error *error) {
  const trm_computation *computation = &n->module->computations[c];
  const trm_instruction *instruction = &computation->instructions[i];
  trm_tile_role *role = &n->roles[c][i];
  const trm_library_call *call = &role->call;
  if (call->word == NULL || call->is_plain || call->is_absorbed || call->joins != joins ||
      trm_program_cost_class(n->module, computation, instruction) != TRM_COST_FAMILY) {
    return TRM_OK;
  }
  const uint32_t stated = call->number, group = call->group;
  uint32_t *own = NULL;
  uint32_t **number = group > 0 && group <= n->most_groups ? &n->groups[group] : &own;
  if (*number == NULL) {
    uint32_t **shared = stated > 0 ? NULL : shared_number_of(n, instruction, call->word);
    if (shared != NULL) *number = *shared;
    if (*number == NULL) {
      *number = ARENA_NEW(n->arena, uint32_t, 1);
      CHECK_MEMORY(*number, "a program");
      **number = stated;
      if (stated == 0) TRY(count_word(n, call->word, *number, error));
    }
    if (shared != NULL) *shared = *number;
  }
  role->number = *number;
  return TRM_OK;
}

/* A fusion's instructions come where the fusion is. */
static trm_status number_computation(numbering *n, uint32_t c, bool joins, trm_error *error) {
  const trm_computation *computation = &n->module->computations[c];
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    if (instruction->opcode == TRM_OP_FUSION) {
      const uint32_t called = instruction->called[0];
      const trm_computation *body = &n->module->computations[called];
      for (trm_index b = 0; b < body->num_instructions; ++b) {
        TRY(number_role(n, called, b, joins, error));
      }
    }
    TRY(number_role(n, c, i, joins, error));
  }
  return TRM_OK;
}

/* Words have numbers in the order of the module, as the passes of the original that make them go
 * through it. Roles that join other compute sets come last, because few names have them. */
static trm_status number_roles(numbering *n, trm_error *error) {
  bool *is_body = ARENA_NEW(n->arena, bool, (size_t)n->module->num_computations + 1);
  CHECK_MEMORY(is_body, "a program");
  for (uint32_t c = 0; c < n->module->num_computations; ++c) {
    const trm_computation *computation = &n->module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (instruction->opcode == TRM_OP_FUSION) is_body[instruction->called[0]] = true;
    }
  }
  for (int joins = 0; joins < 2; ++joins) {
    for (uint32_t c = 0; c < n->module->num_computations; ++c) {
      if (!is_body[c]) TRY(number_computation(n, c, joins != 0, error));
    }
  }
  return TRM_OK;
}

/* `count`: the instructions of the module. */
static trm_status number_all(const trm_module *module, trm_arena *arena, trm_tile_role **roles,
                             uint32_t count, trm_error *error) {
  numbering n = {.module = module,
                 .arena = arena,
                 .roles = roles,
                 .groups = ARENA_NEW(arena, uint32_t *, (size_t)count + 1),
                 .most_groups = count,
                 .mask = 1};
  while (n.mask / 4 < count) n.mask = 2 * n.mask + 1;
  n.shared = trm_allocate_zeroed((size_t)n.mask + 1, sizeof *n.shared);
  trm_status status = TRM_OK;
  if (n.groups == NULL || n.shared == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for a program");
  }
  if (status == TRM_OK) status = trm_scopes_find(module, TRM_CALL_SCOPE, &n.calls, error);
  if (status == TRM_OK) {
    status = trm_scopes_match(module, &n.calls, TRM_CALL_SCOPE, &n.matches, error);
  }
  if (status == TRM_OK) status = number_roles(&n, error);
  trm_free(n.shared);
  trm_free(n.matches);
  VECTOR_FREE(&n.calls);
  VECTOR_FREE(&n.words);
  return status;
}

trm_status trm_program_read_roles(const trm_module *module, trm_arena *arena,
                                  trm_tile_role ***out_roles, trm_error *error) {
  uint32_t count = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    count += module->computations[c].num_instructions;
  }
  trm_tile_role **roles = ARENA_NEW(arena, trm_tile_role *, (size_t)module->num_computations + 1);
  CHECK_MEMORY(roles, "a program");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    roles[c] = ARENA_NEW(arena, trm_tile_role, (size_t)computation->num_instructions + 1);
    CHECK_MEMORY(roles[c], "a program");
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (instruction->library_call != NULL) roles[c][i].call = *instruction->library_call;
    }
  }
  *out_roles = roles;
  return number_all(module, arena, roles, count, error);
}
