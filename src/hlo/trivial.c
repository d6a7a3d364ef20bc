/* Owns: telling programs that need no device from others. */
#include "hlo/hlo.h"
#include "tremula/inspect.h"

static bool is_constant(const trm_computation *c, trm_index i) {
  return c->instructions[i].opcode == TRM_OP_CONSTANT;
}

static bool is_parameter(const trm_computation *c, trm_index i) {
  return c->instructions[i].opcode == TRM_OP_PARAMETER;
}

/* Whether this is true of all results. */
static bool all_results(const trm_computation *c,
                        bool (*is_so)(const trm_computation *c, trm_index i)) {
  const trm_instruction *root = &c->instructions[c->root];
  if (root->opcode != TRM_OP_TUPLE) return is_so(c, c->root);
  for (uint32_t o = 0; o < root->num_operands; ++o) {
    if (!is_so(c, root->operands[o])) return false;
  }
  return true;
}

/* Whether a computation, and fusions in it, make scalars of scalars. */
static bool is_scalar(const trm_module *module, const trm_computation *c) {
  for (trm_index i = 0; i < c->num_instructions; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    if (instruction->opcode == TRM_OP_TUPLE) {
      if (i != c->root) return false;
      continue;
    }
    if (instruction->opcode == TRM_OP_FUSION) { /* fusions are not nested */
      const trm_computation *fused = &module->computations[instruction->called[0]];
      if (fused == c || !is_scalar(module, fused)) return false;
      continue;
    }
    if (!trm_shape_is_scalar(&instruction->shape) ||
        (instruction->opcode != TRM_OP_CONSTANT && instruction->opcode != TRM_OP_PARAMETER &&
         !trm_opcode_is_elementwise(instruction->opcode))) {
      return false;
    }
  }
  return true;
}

bool trm_inspect_is_trivial(const trm_module *module) {
  const trm_computation *entry = &module->computations[module->entry];
  return !entry->has_side_effect && (all_results(entry, is_constant) ||
                                     all_results(entry, is_parameter) || is_scalar(module, entry));
}
