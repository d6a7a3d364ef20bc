/* Owns: taking apart tuples that are made only to be taken apart. */
#include <string.h>

#include "passes/pass.h"

/* The value that a get-tuple-element takes from a tuple, or TRM_NO_INDEX. */
static trm_index element_of(const trm_computation *computation, const trm_instruction *gte) {
  const trm_instruction *tuple = &computation->instructions[gte->operands[0]];
  return tuple->opcode == TRM_OP_TUPLE ? tuple->operands[gte->number] : TRM_NO_INDEX;
}

/* tuple(gte(x, 0), gte(x, 1), ...) of all elements of x is x. */
static trm_index whole_tuple(const trm_computation *computation, const trm_instruction *tuple) {
  if (tuple->num_operands == 0) return TRM_NO_INDEX;
  trm_index whole = TRM_NO_INDEX;
  for (uint32_t k = 0; k < tuple->num_operands; ++k) {
    const trm_instruction *gte = &computation->instructions[tuple->operands[k]];
    if (gte->opcode != TRM_OP_GET_TUPLE_ELEMENT || gte->number != (int64_t)k) return TRM_NO_INDEX;
    if (whole != TRM_NO_INDEX && gte->operands[0] != whole) return TRM_NO_INDEX;
    whole = gte->operands[0];
  }
  return trm_shape_equal(&computation->instructions[whole].shape, &tuple->shape) ? whole
                                                                                 : TRM_NO_INDEX;
}

static trm_status simplify(trm_module *module, uint32_t c, trm_error *error) {
  trm_computation *computation = &module->computations[c];
  const uint32_t count = computation->num_instructions;
  trm_index *replacement = trm_allocate((count + 1) * sizeof *replacement);
  CHECK_MEMORY(replacement, "replacements");
  memset(replacement, 0xff, (count + 1) * sizeof *replacement);
  bool changed = false;
  for (trm_index i = 0; i < count; ++i) {
    trm_instruction *instruction = &computation->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_index target = replacement[instruction->operands[k]];
      if (target != TRM_NO_INDEX) instruction->operands[k] = target;
    }
    trm_index found = TRM_NO_INDEX;
    if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT) {
      found = element_of(computation, instruction);
    }
    /* A root stays a tuple, because the state of a loop is read from it. */
    if (instruction->opcode == TRM_OP_TUPLE && i != computation->root) {
      found = whole_tuple(computation, instruction);
    }
    if (found != TRM_NO_INDEX) {
      replacement[i] = found;
      changed = true;
    }
  }
  const trm_status status =
      changed ? trm_computation_rewrite(module, c, replacement, error) : TRM_OK;
  trm_free(replacement);
  return status;
}

trm_status trm_pass_simplify_tuples(trm_module *module, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) TRY(simplify(module, c, error));
  return TRM_OK;
}
