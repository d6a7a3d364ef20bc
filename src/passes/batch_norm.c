/* Owns: batch-norm-inference as elementwise instructions, so that it fuses with what follows.
 *
 * y = (x - mean) * (scale * rsqrt(variance + epsilon)) + offset, in the operand's type; float16
 * data is normalised in float32 and rounded once, as the reference kernel does. */
#include "passes/edit.h"
#include "passes/pass.h"

/* A per-feature vector in float32. */
static trm_status as_float(trm_edit *e, trm_index like, trm_index operand, trm_index *out,
                           trm_error *error) {
  trm_shape shape = trm_edit_at(e, operand)->shape;
  *out = operand;
  if (shape.dtype == TRM_F32) return TRM_OK;
  shape.dtype = TRM_F32;
  shape.layout = NULL;
  return trm_edit_unary(e, like, TRM_OP_CONVERT, shape, operand, out, error);
}

static trm_status expand(trm_edit *e, trm_index i, trm_error *error) {
  const trm_instruction norm = *trm_edit_at(e, i);
  trm_index x = trm_edit_operand(e, i, 0), scale, offset, mean, variance;
  trm_shape full = norm.shape, vector = trm_edit_at(e, trm_edit_operand(e, i, 1))->shape;
  full.dtype = vector.dtype = TRM_F32;
  full.layout = vector.layout = NULL;
  TRY(as_float(e, i, x, &x, error));
  TRY(as_float(e, i, trm_edit_operand(e, i, 1), &scale, error));
  TRY(as_float(e, i, trm_edit_operand(e, i, 2), &offset, error));
  TRY(as_float(e, i, trm_edit_operand(e, i, 3), &mean, error));
  TRY(as_float(e, i, trm_edit_operand(e, i, 4), &variance, error));
  trm_index epsilon, factor;
  TRY(trm_edit_scalar(e, i, TRM_F32, (double)norm.epsilon, &epsilon, error));
  TRY(trm_edit_broadcast(e, i, vector, epsilon, 0, NULL, &epsilon, error));
  TRY(trm_edit_binary(e, i, TRM_OP_ADD, vector, variance, epsilon, &factor, error));
  TRY(trm_edit_unary(e, i, TRM_OP_RSQRT, vector, factor, &factor, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, vector, scale, factor, &factor, error));
  const int64_t feature[1] = {norm.number};
  trm_index y;
  TRY(trm_edit_broadcast(e, i, full, mean, 1, feature, &mean, error));
  TRY(trm_edit_broadcast(e, i, full, factor, 1, feature, &factor, error));
  TRY(trm_edit_broadcast(e, i, full, offset, 1, feature, &offset, error));
  TRY(trm_edit_binary(e, i, TRM_OP_SUBTRACT, full, x, mean, &y, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, full, y, factor, &y, error));
  TRY(trm_edit_binary(e, i, TRM_OP_ADD, full, y, offset, &y, error));
  if (norm.shape.dtype != TRM_F32) {
    TRY(trm_edit_unary(e, i, TRM_OP_CONVERT, norm.shape, y, &y, error));
  }
  trm_edit_replace(e, i, y);
  return TRM_OK;
}

trm_status trm_pass_expand_batch_norm(trm_module *module, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_edit edit;
    TRY(trm_edit_begin(&edit, module, c, error));
    trm_status status = TRM_OK;
    const uint32_t count = module->computations[c].num_instructions;
    for (trm_index i = 0; i < count && status == TRM_OK; ++i) {
      const trm_instruction *instruction = trm_edit_at(&edit, i);
      if (instruction->opcode != TRM_OP_BATCH_NORM_INFERENCE) continue;
      if (instruction->shape.dtype != TRM_F32 && instruction->shape.dtype != TRM_F16) continue;
      status = expand(&edit, i, error);
    }
    TRY(trm_edit_end(&edit, status, error));
  }
  return TRM_OK;
}
