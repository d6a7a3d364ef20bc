/* Owns: reading how Poplar names the compute sets of an instruction, and which of them exist, from
 * what the pass library-calls has stated. */
#include <stdlib.h>
#include <string.h>

#include "passes/library.h"
#include "program/draft.h"

static bool has_word(const char *words, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = words; at != NULL && (at = strstr(at, word)) != NULL; at += length) {
    if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
  }
  return false;
}

static uint32_t number_of(const trm_instruction *instruction, const char *key) {
  const char *text = trm_instruction_frontend_attribute(instruction, key);
  return text == NULL ? 0 : (uint32_t)strtoul(text, NULL, 10);
}

/* Reads the number after the word, which the calls of a group share. `groups`: the number of each
 * group, or NULL before its first call. */
static trm_status read_number(const trm_instruction *instruction, trm_arena *arena,
                              uint32_t **groups, uint32_t most_groups, trm_tile_role *role,
                              trm_error *error) {
  const uint32_t number = number_of(instruction, TRM_LIBRARY_NUMBER);
  const uint32_t group = number_of(instruction, TRM_LIBRARY_GROUP);
  if (number == 0 && (group == 0 || group > most_groups)) return TRM_OK;
  if (number == 0) role->number = groups[group];
  if (role->number != NULL) return TRM_OK;
  role->number = ARENA_NEW(arena, uint32_t, 1);
  CHECK_MEMORY(role->number, "a program");
  *role->number = number;
  if (number == 0) groups[group] = role->number;
  return TRM_OK;
}

static trm_tile_role read_role(const trm_instruction *instruction) {
  trm_tile_role role = {0};
#define TEXT(field, attribute) \
  role.field = trm_instruction_frontend_attribute(instruction, attribute);
  TRM_LIBRARY_TEXTS
#undef TEXT
  const char *flags = trm_instruction_frontend_attribute(instruction, TRM_LIBRARY_IS);
#define FLAG(field, text) role.field = has_word(flags, text);
  TRM_LIBRARY_FLAGS
#undef FLAG
  return role;
}

trm_status trm_program_read_roles(const trm_module *module, trm_arena *arena,
                                  trm_tile_role ***out_roles, trm_error *error) {
  uint32_t count = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    count += module->computations[c].num_instructions;
  }
  trm_tile_role **roles = ARENA_NEW(arena, trm_tile_role *, (size_t)module->num_computations + 1);
  uint32_t **groups = ARENA_NEW(arena, uint32_t *, (size_t)count + 1);
  if (roles == NULL || groups == NULL) FAIL_NO_MEMORY("a program");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    roles[c] = ARENA_NEW(arena, trm_tile_role, (size_t)computation->num_instructions + 1);
    CHECK_MEMORY(roles[c], "a program");
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (instruction->frontend_attributes == NULL) continue;
      roles[c][i] = read_role(instruction);
      TRY(read_number(instruction, arena, groups, count, &roles[c][i], error));
    }
  }
  *out_roles = roles;
  return TRM_OK;
}
