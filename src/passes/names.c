/* Owns: making names unique in the module, as the verifier requires.
 *
 * An instruction that a pass adds is named after its opcode and id, and the module may have that
 * name already. The later instruction is renamed. The parameters and the root of the entry come
 * first, because they are the program's interface. */
#include "hlo/names.h"
#include "passes/pass.h"

static trm_status make_unique(trm_module *module, trm_names *names, const char **name,
                              trm_error *error) {
  return trm_names_make_unique(names, &module->arena, &module->next_id, name, error);
}

static trm_status name_instructions(trm_module *module, trm_names *names, trm_error *error) {
  const trm_computation *entry = &module->computations[module->entry];
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    TRY(make_unique(module, names, &entry->instructions[entry->parameters[p]].name, error));
  }
  if (entry->instructions[entry->root].opcode != TRM_OP_PARAMETER) {
    TRY(make_unique(module, names, &entry->instructions[entry->root].name, error));
  }
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      trm_instruction *instruction = &computation->instructions[i];
      const bool is_interface = i == computation->root || instruction->opcode == TRM_OP_PARAMETER;
      if (c == module->entry && is_interface) continue;
      TRY(make_unique(module, names, &instruction->name, error));
    }
  }
  return TRM_OK;
}

trm_status trm_pass_unique_names(trm_module *module, trm_error *error) {
  trm_names names = {0};
  trm_status status = TRM_OK;
  TRY_OR_GOTO(make_unique(module, &names, &module->computations[module->entry].name, error), done);
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    if (c == module->entry) continue;
    TRY_OR_GOTO(make_unique(module, &names, &module->computations[c].name, error), done);
  }
  trm_names_free(&names);
  status = name_instructions(module, &names, error);
done:
  trm_names_free(&names);
  return status;
}
