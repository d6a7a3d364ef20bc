/* Owns: the checks on a whole module that no single instruction can make. */
#include <inttypes.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/names.h"

/* Operands and control predecessors come before their user. */
static trm_status check_order(const trm_computation *computation, trm_index index,
                              trm_error *error) {
  const trm_instruction *instruction = &computation->instructions[index];
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    if (instruction->operands[i] >= index) {
      FAIL(INVALID_ARGUMENT, "operand %" PRIu32 " does not come before it", i);
    }
  }
  for (uint32_t i = 0; i < instruction->num_control_predecessors; ++i) {
    if (instruction->control_predecessors[i] >= index) {
      FAIL(INVALID_ARGUMENT, "control predecessor %" PRIu32 " does not come before it", i);
    }
  }
  return TRM_OK;
}

static trm_status check_literal(const trm_instruction *instruction, trm_error *error) {
  const trm_literal *literal = instruction->literal;
  if (literal == NULL) return TRM_OK;
  if (literal->num_leaves != trm_shape_num_leaves(&literal->shape)) {
    FAIL(INVALID_ARGUMENT, "its literal has %d arrays where its shape has %d", literal->num_leaves,
         trm_shape_num_leaves(&literal->shape));
  }
  for (int32_t i = 0; i < literal->num_leaves; ++i) {
    if (literal->leaves[i] == NULL) FAIL(INVALID_ARGUMENT, "its literal has no bytes");
  }
  return TRM_OK;
}

/* `scratch` is the module with an arena of its own: inference allocates, the module is const. */
static trm_status check_instruction(trm_module *scratch, uint32_t c, trm_index index,
                                    trm_error *error) {
  const trm_computation *computation = &scratch->computations[c];
  const trm_instruction *instruction = &computation->instructions[index];
  trm_shape inferred;
  char stated_text[256], inferred_text[256];
  TRY(check_order(computation, index, error));
  for (uint32_t i = 0; i < instruction->num_called; ++i) {
    if (instruction->called[i] >= c) {
      FAIL(INVALID_ARGUMENT, "computation %" PRIu32 " that it calls does not come before %s",
           instruction->called[i], computation->name);
    }
  }
  TRY(trm_shape_check(&instruction->shape, error));
  TRY(check_literal(instruction, error));
  TRY(trm_infer_shape(scratch, computation, instruction, &inferred, error));
  if (!trm_shape_equal(&inferred, &instruction->shape)) {
    FAIL(INVALID_ARGUMENT, "its shape is stated as %s and follows as %s",
         trm_shape_text(&instruction->shape, stated_text, sizeof stated_text),
         trm_shape_text(&inferred, inferred_text, sizeof inferred_text));
  }
  if (instruction->opcode == TRM_OP_PARAMETER &&
      (instruction->number >= computation->num_parameters ||
       computation->parameters[instruction->number] != index)) {
    FAIL(INVALID_ARGUMENT, "its number %" PRId64 " is not its place among the parameters",
         instruction->number);
  }
  return TRM_OK;
}

static bool is_start(trm_opcode opcode) {
  return opcode == TRM_OP_ASYNC_START || opcode == TRM_OP_ASYNC_UPDATE ||
         opcode == TRM_OP_COPY_START;
}

/* What begins asynchronously ends, and once. */
static trm_status check_ends(const trm_module *module, const trm_computation *computation,
                             trm_arena *arena, trm_error *error) {
  bool any = false;
  for (trm_index i = 0; i < computation->num_instructions && !any; ++i) {
    any = is_start(computation->instructions[i].opcode);
  }
  if (!any) return TRM_OK;
  uint32_t *users = ARENA_NEW(arena, uint32_t, computation->num_instructions);
  CHECK_MEMORY(users, "numbers of users");
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *user = &computation->instructions[i];
    for (uint32_t k = 0; k < user->num_operands; ++k) ++users[user->operands[k]];
  }
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *start = &computation->instructions[i];
    if (!is_start(start->opcode) || users[i] == 1) continue;
    char text[512];
    FAIL(INVALID_ARGUMENT, "%s must have one user, which ends it, not %" PRIu32 " (%s)",
         trm_opcode_name(start->opcode), users[i],
         trm_instruction_text(module, start, text, sizeof text));
  }
  return TRM_OK;
}

static trm_status check_name(trm_names *names, const char *name, const char *what,
                             trm_error *error) {
  bool added = false;
  if (name == NULL || name[0] == '\0') FAIL(INVALID_ARGUMENT, "%s has no name", what);
  TRY(trm_names_add(names, name, &added, error));
  if (!added) FAIL(INVALID_ARGUMENT, "two %ss have the name %s", what, name);
  return TRM_OK;
}

static trm_status check_computation(trm_module *scratch, uint32_t c, trm_names *names,
                                    trm_error *error) {
  const trm_computation *computation = &scratch->computations[c];
  char text[512];
  if (computation->root >= computation->num_instructions) {
    FAIL(INVALID_ARGUMENT, "it has no root");
  }
  for (uint32_t p = 0; p < computation->num_parameters; ++p) {
    const trm_index index = computation->parameters[p];
    if (index >= computation->num_instructions ||
        computation->instructions[index].opcode != TRM_OP_PARAMETER) {
      FAIL(INVALID_ARGUMENT, "it has %" PRIu32 " parameters and no parameter %" PRIu32,
           computation->num_parameters, p);
    }
  }
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    TRY(check_name(names, instruction->name, "instruction", error));
    const trm_status status = check_instruction(scratch, c, i, error);
    if (status != TRM_OK) {
      return trm_note(error, status, "%s",
                      trm_instruction_text(scratch, instruction, text, sizeof text));
    }
  }
  return check_ends(scratch, computation, &scratch->arena, error);
}

/* The shape at a path of tuple indices, or NULL. */
static const trm_shape *shape_at(const trm_shape *shape, const trm_dims *path) {
  for (int32_t i = 0; i < path->count; ++i) {
    const int64_t index = path->items[i];
    if (shape->dtype != TRM_TUPLE || index < 0 || index >= shape->num_elements) return NULL;
    shape = &shape->elements[index];
  }
  return shape;
}

static trm_status check_alias(const trm_module *module, uint32_t n, trm_error *error) {
  const trm_computation *entry = &module->computations[module->entry];
  const trm_alias *alias = &module->aliases[n];
  const trm_shape *output = shape_at(&entry->instructions[entry->root].shape, &alias->output_index);
  if (output == NULL) FAIL(INVALID_ARGUMENT, "alias %" PRIu32 " names no output of the entry", n);
  if (alias->parameter_number < 0 || alias->parameter_number >= entry->num_parameters) {
    FAIL(INVALID_ARGUMENT, "alias %" PRIu32 " names parameter %" PRId64 "; the entry has %" PRIu32,
         n, alias->parameter_number, entry->num_parameters);
  }
  const trm_shape *input =
      shape_at(&entry->instructions[entry->parameters[alias->parameter_number]].shape,
               &alias->parameter_index);
  char input_text[256], output_text[256];
  if (input == NULL || !trm_shape_is_array(input) || !trm_shape_equal(input, output)) {
    FAIL(INVALID_ARGUMENT,
         "alias %" PRIu32 " makes an output %s of parameter %" PRId64 ", which is %s there", n,
         trm_shape_text(output, output_text, sizeof output_text), alias->parameter_number,
         input == NULL ? "nothing" : trm_shape_text(input, input_text, sizeof input_text));
  }
  return TRM_OK;
}

/* A leaf takes part in at most one alias on either side.. */
static trm_status check_aliases(const trm_module *module, trm_arena *arena, trm_error *error) {
  trm_names outputs = {0}, inputs = {0};
  trm_status status = TRM_OK;
  for (uint32_t n = 0; n < module->num_aliases; ++n) {
    const trm_alias *alias = &module->aliases[n];
    TRY_OR_GOTO(check_alias(module, n, error), done);
    trm_text output = {0}, input = {0};
    trm_text_format(&output, "o");
    trm_text_format(&input, "%" PRId64, alias->parameter_number);
    for (int32_t i = 0; i < alias->output_index.count; ++i) {
      trm_text_format(&output, ",%" PRId64, alias->output_index.items[i]);
    }
    for (int32_t i = 0; i < alias->parameter_index.count; ++i) {
      trm_text_format(&input, ",%" PRId64, alias->parameter_index.items[i]);
    }
    const char *output_key =
        output.failed ? NULL : trm_arena_string(arena, output.data, output.length);
    const char *input_key = input.failed ? NULL : trm_arena_string(arena, input.data, input.length);
    trm_text_free(&output);
    trm_text_free(&input);
    bool new_output = false, new_input = false;
    if (output_key == NULL || input_key == NULL) {
      FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while checking aliases");
    }
    TRY_OR_GOTO(trm_names_add(&outputs, output_key, &new_output, error), done);
    TRY_OR_GOTO(trm_names_add(&inputs, input_key, &new_input, error), done);
    if (!new_output || !new_input) {
      FAIL_OR_GOTO(done, INVALID_ARGUMENT, "alias %" PRIu32 " names %s that has an alias already",
                   n, new_output ? "a parameter" : "an output");
    }
  }
done:
  trm_names_free(&outputs);
  trm_names_free(&inputs);
  return status;
}

trm_status trm_module_verify(const trm_module *module, trm_error *error) {
  if (module->entry >= module->num_computations) {
    FAIL(INVALID_ARGUMENT, "the module has no entry computation");
  }
  trm_names computations = {0}, instructions = {0};
  trm_module scratch = *module;
  scratch.arena = (trm_arena){0};
  trm_status status = TRM_OK;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const char *name = module->computations[c].name;
    TRY_OR_GOTO(check_name(&computations, name, "computation", error), done);
    status = check_computation(&scratch, c, &instructions, error);
    if (status != TRM_OK) {
      trm_note(error, status, "in computation %s of module %s", name, module->name);
      goto done;
    }
    trm_arena_free(&scratch.arena);
  }
  status = check_aliases(module, &scratch.arena, error);
done:
  trm_arena_free(&scratch.arena);
  trm_names_free(&computations);
  trm_names_free(&instructions);
  return status;
}
