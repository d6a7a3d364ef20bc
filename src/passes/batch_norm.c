/* Owns: batch-norm-inference and batch-norm-training as elementwise instructions, so that they fuse
 * with what follows them.
 *
 * y = (x - mean) * (scale * rsqrt(variance + epsilon)) + offset, in float32; float16 results are
 * rounded once, as the reference kernel does. The statistics of training stay one instruction, a
 * custom call whose kernel reads x once. */
#include <string.h>

#include "passes/edit.h"
#include "passes/pass.h"

/* The operand in float32. */
static trm_status as_float(trm_edit *e, trm_index like, trm_index operand, trm_index *out,
                           trm_error *error) {
  trm_shape shape = trm_edit_at(e, operand)->shape;
  *out = operand;
  if (shape.dtype == TRM_F32) return TRM_OK;
  shape.dtype = TRM_F32;
  shape.layout = NULL;
  return trm_edit_unary(e, like, TRM_OP_CONVERT, shape, operand, out, error);
}

/* From float32 to the type of a result. */
static trm_status as_result(trm_edit *e, trm_index like, const trm_shape *shape, trm_index *value,
                            trm_error *error) {
  if (shape->dtype == TRM_F32) return TRM_OK;
  return trm_edit_unary(e, like, TRM_OP_CONVERT, *shape, *value, value, error);
}

/* The normalised x, of the shape `result`; mean and variance are float32 vectors. */
static trm_status normalise(trm_edit *e, trm_index i, trm_shape result, trm_index mean,
                            trm_index variance, trm_index *out, trm_error *error) {
  const int64_t feature[1] = {trm_edit_at(e, i)->number};
  const float small = trm_edit_at(e, i)->epsilon;
  trm_shape full = result, vector = trm_edit_at(e, mean)->shape;
  full.dtype = TRM_F32;
  full.layout = vector.layout = NULL;
  trm_index x, scale, offset, epsilon, factor, y;
  TRY(as_float(e, i, trm_edit_operand(e, i, 0), &x, error));
  TRY(as_float(e, i, trm_edit_operand(e, i, 1), &scale, error));
  TRY(as_float(e, i, trm_edit_operand(e, i, 2), &offset, error));
  TRY(trm_edit_scalar(e, i, TRM_F32, (double)small, &epsilon, error));
  TRY(trm_edit_broadcast(e, i, vector, epsilon, 0, NULL, &epsilon, error));
  TRY(trm_edit_binary(e, i, TRM_OP_ADD, vector, variance, epsilon, &factor, error));
  TRY(trm_edit_unary(e, i, TRM_OP_RSQRT, vector, factor, &factor, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, vector, scale, factor, &factor, error));
  TRY(trm_edit_broadcast(e, i, full, mean, 1, feature, &mean, error));
  TRY(trm_edit_broadcast(e, i, full, factor, 1, feature, &factor, error));
  TRY(trm_edit_broadcast(e, i, full, offset, 1, feature, &offset, error));
  TRY(trm_edit_binary(e, i, TRM_OP_SUBTRACT, full, x, mean, &y, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, full, y, factor, &y, error));
  TRY(trm_edit_binary(e, i, TRM_OP_ADD, full, y, offset, &y, error));
  *out = y;
  return as_result(e, i, &result, out, error);
}

static trm_status expand_inference(trm_edit *e, trm_index i, trm_error *error) {
  trm_index mean, variance, y;
  TRY(as_float(e, i, trm_edit_operand(e, i, 3), &mean, error));
  TRY(as_float(e, i, trm_edit_operand(e, i, 4), &variance, error));
  TRY(normalise(e, i, trm_edit_at(e, i)->shape, mean, variance, &y, error));
  trm_edit_replace(e, i, y);
  return TRM_OK;
}

static trm_status expand_training(trm_edit *e, trm_index i, trm_error *error) {
  trm_arena *arena = &e->module->arena;
  const trm_instruction norm = *trm_edit_at(e, i);
  trm_shape vectors[2] = {norm.shape.elements[1], norm.shape.elements[2]}, pair;
  for (int k = 0; k < 2; ++k) vectors[k].dtype = TRM_F32, vectors[k].layout = NULL;
  trm_custom_call *call = ARENA_NEW(arena, trm_custom_call, 1);
  const char *config = trm_arena_format(arena, "{\"feature_index\":%d}", (int)norm.number);
  if (call == NULL || config == NULL || !trm_shape_make_tuple(arena, 2, vectors, &pair)) {
    FAIL_NO_MEMORY("a batch norm");
  }
  *call = (trm_custom_call){.target = "tremula.batch-norm-statistics"};
  trm_index x = trm_edit_operand(e, i, 0), statistics;
  const trm_instruction custom = {.opcode = TRM_OP_CUSTOM_CALL, .shape = pair, .num_operands = 1,
                                  .operands = &x, .custom_call = call, .backend_config = config,
                                  .backend_config_size = strlen(config)};
  TRY(trm_edit_add(e, i, custom, &statistics, error));
  trm_index results[3];
  for (int k = 0; k < 2; ++k) {
    const trm_instruction gte = {.opcode = TRM_OP_GET_TUPLE_ELEMENT, .shape = vectors[k],
                                 .num_operands = 1, .operands = &statistics, .number = k};
    TRY(trm_edit_add(e, i, gte, &results[k + 1], error));
  }
  TRY(normalise(e, i, norm.shape.elements[0], results[1], results[2], &results[0], error));
  for (int k = 1; k < 3; ++k) {
    TRY(as_result(e, i, &norm.shape.elements[k], &results[k], error));
  }
  const trm_instruction tuple = {.opcode = TRM_OP_TUPLE, .shape = norm.shape, .num_operands = 3,
                                 .operands = results};
  trm_index whole;
  TRY(trm_edit_add(e, i, tuple, &whole, error));
  trm_edit_replace(e, i, whole);
  return TRM_OK;
}

static bool is_served(const trm_edit *e, trm_index i) {
  const trm_instruction *instruction = trm_edit_at(e, i);
  if (instruction->num_control_predecessors > 0) return false;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_dtype dtype = trm_edit_at(e, trm_edit_operand(e, i, k))->shape.dtype;
    if (dtype != TRM_F32 && dtype != TRM_F16) return false;
  }
  return true;
}

trm_status trm_pass_expand_batch_norm(trm_module *module, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_edit edit;
    TRY(trm_edit_begin(&edit, module, c, error));
    trm_status status = TRM_OK;
    const uint32_t count = module->computations[c].num_instructions;
    for (trm_index i = 0; i < count && status == TRM_OK; ++i) {
      const trm_opcode opcode = trm_edit_at(&edit, i)->opcode;
      if (opcode != TRM_OP_BATCH_NORM_INFERENCE && opcode != TRM_OP_BATCH_NORM_TRAINING) continue;
      if (!is_served(&edit, i)) continue;
      status = opcode == TRM_OP_BATCH_NORM_INFERENCE ? expand_inference(&edit, i, error)
                                                     : expand_training(&edit, i, error);
    }
    TRY(trm_edit_end(&edit, status, error));
  }
  return TRM_OK;
}
