/* Owns: finding conversions that an IPU's vertices do not make (library.h).
 *
 * Our passes compute float16 normalisations and scaled sums in float32 for exactness. The vertices
 * of popnn and popops read and write float16. */
#include <string.h>

#include "ipu/costs/codelets.h"
#include "ipu/passes/library.h"

/* Whether the results of a fusion, and its operands of the same size, are float16. */
static bool is_half_outside(const trm_computation *computation, const trm_instruction *fusion) {
  const trm_shape *shape = &fusion->shape;
  const int32_t results = trm_shape_num_leaves(shape);
  if (results == 0) return false;
  for (int32_t l = 0; l < results; ++l) {
    if (trm_shape_leaf(shape, l)->dtype != TRM_F16) return false;
  }
  const int64_t count = trm_shape_count(trm_shape_leaf(shape, 0));
  for (uint32_t k = 0; k < fusion->num_operands; ++k) {
    const trm_shape *operand = &computation->instructions[fusion->operands[k]].shape;
    for (int32_t l = 0; l < trm_shape_num_leaves(operand); ++l) {
      const trm_shape *leaf = trm_shape_leaf(operand, l);
      if (leaf->dtype != TRM_F16 && trm_shape_count(leaf) >= count) return false;
    }
  }
  return true;
}

/* Whether a conversion does nothing on an IPU: between types that are equal there, or, with float16
 * outside (in_half), between floats. Small trees are expressions, which do convert. */
static bool is_no_conversion(const trm_computation *body, const trm_instruction *instruction,
                             bool in_half) {
  if (instruction->opcode != TRM_OP_CONVERT) return false;
  const trm_dtype to = instruction->shape.dtype;
  const trm_dtype from = body->instructions[instruction->operands[0]].shape.dtype;
  if (strcmp(trm_codelet_type(from), trm_codelet_type(to)) == 0) return true;
  return in_half && trm_shape_count(&instruction->shape) > TRM_EXPRESSION_ELEMENTS &&
         trm_codelet_kind_of(from) != TRM_CODELET_INTEGER &&
         trm_codelet_kind_of(to) != TRM_CODELET_INTEGER;
}

void trm_library_find_casts(trm_library_finder *f) {
  for (uint32_t n = 0; n < f->in.count; ++n) {
    const trm_instruction *fusion = at(f, n);
    if (fusion->opcode != TRM_OP_FUSION) continue;
    const trm_module *module = f->in.module;
    const trm_computation *body = &module->computations[fusion->called[0]];
    const bool in_half = is_half_outside(&module->computations[f->in.computation[n]], fusion);
    call_of(f, n)->in_half = in_half;
    for (trm_index i = 0; i < body->num_instructions; ++i) {
      if (!is_no_conversion(body, &body->instructions[i], in_half)) continue;
      call_of(f, f->in.base[fusion->called[0]] + i)->is_absorbed = true;
    }
  }
}
