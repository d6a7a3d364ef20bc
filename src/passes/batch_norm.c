/* Owns: batch-norm-inference and batch-norm-training as elementwise instructions, so that they fuse
 * with the instructions after them.
 *
 * y = (x - mean) * (scale * rsqrt(variance + epsilon)) + offset, in float32. float16 results are
 * rounded once, as in the reference kernel. The statistics of training stay one instruction, a
 * custom call whose kernel reads x once.
 *
 * In a distributed batch norm a group of replicas, which all have the same number of elements,
 * shares its statistics: the mean of the replicas' means, and the mean of their variances around
 * that mean. The gradient of x uses the group's means of the gradients of scale and offset; the
 * gradients of scale and offset themselves stay those of each replica. */
#include <string.h>

#include "passes/edit.h"
#include "passes/pass.h"

/* The operand as float32. */
static trm_status as_float(trm_edit *e, trm_index like, trm_index operand, trm_index *out,
                           trm_error *error) {
  trm_shape shape = trm_edit_at(e, operand)->shape;
  *out = operand;
  if (shape.dtype == TRM_F32) return TRM_OK;
  shape.dtype = TRM_F32;
  shape.layout = NULL;
  return trm_edit_unary(e, like, TRM_OP_CONVERT, shape, operand, out, error);
}

/* A float32 value in the type of the result `shape`. */
static trm_status as_result(trm_edit *e, trm_index like, const trm_shape *shape, trm_index *value,
                            trm_error *error) {
  if (shape->dtype == TRM_F32) return TRM_OK;
  return trm_edit_unary(e, like, TRM_OP_CONVERT, *shape, *value, value, error);
}

/* The normalised x, with the shape `result`. The mean and the variance are float32 vectors. */
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

/* Adds a custom call with two float32 vectors as results, out_vectors. */
static trm_status add_statistics(trm_edit *e, trm_index i, const char *target, const char *config,
                                 const trm_index *operands, uint32_t num_operands,
                                 const trm_shape *vector, trm_index out_vectors[2],
                                 trm_error *error) {
  trm_arena *arena = &e->module->arena;
  trm_shape vectors[2] = {*vector, *vector}, pair;
  for (int k = 0; k < 2; ++k) vectors[k].dtype = TRM_F32, vectors[k].layout = NULL;
  trm_custom_call *call = ARENA_NEW(arena, trm_custom_call, 1);
  if (call == NULL || config == NULL || !trm_shape_make_tuple(arena, 2, vectors, &pair)) {
    FAIL_NO_MEMORY("a batch norm");
  }
  *call = (trm_custom_call){.target = target};
  trm_index statistics;
  const trm_instruction custom = {.opcode = TRM_OP_CUSTOM_CALL,
                                  .shape = pair,
                                  .num_operands = num_operands,
                                  .operands = (trm_index *)operands,
                                  .custom_call = call,
                                  .backend_config = config,
                                  .backend_config_size = strlen(config),
                                  .sharding = trm_edit_at(e, i)->sharding};
  TRY(trm_edit_add(e, i, custom, &statistics, error));
  for (int k = 0; k < 2; ++k) {
    const trm_instruction gte = {.opcode = TRM_OP_GET_TUPLE_ELEMENT,
                                 .shape = vectors[k],
                                 .num_operands = 1,
                                 .operands = &statistics,
                                 .number = k};
    TRY(trm_edit_add(e, i, gte, &out_vectors[k], error));
  }
  return TRM_OK;
}

/* The mean of a float32 vector over the replicas of a group. */
static trm_status group_mean(trm_edit *e, trm_index i, uint32_t group, trm_index vector,
                             trm_index *out, trm_error *error) {
  trm_arena *arena = &e->module->arena;
  trm_custom_call *call = ARENA_NEW(arena, trm_custom_call, 1);
  const char *config = trm_arena_format(arena, "{\"op\":\"mean\",\"group_size\":%u}", group);
  if (call == NULL || config == NULL) FAIL_NO_MEMORY("a batch norm");
  *call = (trm_custom_call){.target = trm_call_target(TRM_CALL_ALL_REDUCE)};
  const trm_instruction custom = {.opcode = TRM_OP_CUSTOM_CALL,
                                  .shape = trm_edit_at(e, vector)->shape,
                                  .num_operands = 1,
                                  .operands = &vector,
                                  .custom_call = call,
                                  .backend_config = config,
                                  .backend_config_size = strlen(config),
                                  .sharding = trm_edit_at(e, i)->sharding};
  return trm_edit_add(e, i, custom, out, error);
}

/* Replaces a batch norm by a tuple of `results`, each converted to its type. */
static trm_status replace_with(trm_edit *e, trm_index i, trm_index results[3], trm_error *error) {
  const trm_shape shape = trm_edit_at(e, i)->shape;
  for (int k = 1; k < 3; ++k) TRY(as_result(e, i, &shape.elements[k], &results[k], error));
  const trm_instruction tuple = {
      .opcode = TRM_OP_TUPLE, .shape = shape, .num_operands = 3, .operands = results};
  trm_index whole;
  TRY(trm_edit_add(e, i, tuple, &whole, error));
  trm_edit_replace(e, i, whole);
  return TRM_OK;
}

/* `group`: the number of replicas that share the statistics. */
static trm_status expand_training(trm_edit *e, trm_index i, uint32_t group, trm_error *error) {
  const trm_instruction norm = *trm_edit_at(e, i);
  const char *config =
      trm_arena_format(&e->module->arena, "{\"feature_index\":%d}", (int)norm.number);
  const trm_index x = trm_edit_operand(e, i, 0);
  trm_index results[3];
  TRY(add_statistics(e, i, trm_call_target(TRM_CALL_BATCH_NORM_STATISTICS), config, &x, 1,
                     &norm.shape.elements[1], &results[1], error));
  if (group > 1) {
    const trm_shape vector = trm_edit_at(e, results[1])->shape;
    trm_index mean, off;
    TRY(group_mean(e, i, group, results[1], &mean, error));
    TRY(trm_edit_binary(e, i, TRM_OP_SUBTRACT, vector, results[1], mean, &off, error));
    TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, vector, off, off, &off, error));
    TRY(trm_edit_binary(e, i, TRM_OP_ADD, vector, results[2], off, &off, error));
    TRY(group_mean(e, i, group, off, &results[2], error));
    results[1] = mean;
  }
  TRY(normalise(e, i, norm.shape.elements[0], results[1], results[2], &results[0], error));
  return replace_with(e, i, results, error);
}

/* The gradient of x: scale * r * (dy - m_offset - (x - mean) * r * m_scale). r is rsqrt(variance +
 * epsilon); m_offset and m_scale are the gradients of offset and scale, divided by the number of
 * elements of a feature. */
static trm_status gradient_of_x(trm_edit *e, trm_index i, trm_index d_scale, trm_index d_offset,
                                trm_index *out, trm_error *error) {
  const trm_instruction norm = *trm_edit_at(e, i);
  const int64_t feature[1] = {norm.number};
  trm_shape full = norm.shape.elements[0];
  const trm_shape vector = trm_edit_at(e, d_scale)->shape;
  full.dtype = TRM_F32;
  full.layout = NULL;
  const int64_t features = trm_shape_count(&vector);
  const int64_t numbers = features == 0 ? 1 : trm_shape_count(&full) / features;
  const double count = (double)numbers;
  trm_index in[5], share, factor, product;
  for (uint32_t k = 0; k < 5; ++k) {
    TRY(as_float(e, i, trm_edit_operand(e, i, k), &in[k], error));
  }
  const trm_index x = in[0], scale = in[1], mean = in[2], variance = in[3], dy = in[4];
  TRY(trm_edit_scalar(e, i, TRM_F32, (double)norm.epsilon, &factor, error));
  TRY(trm_edit_broadcast(e, i, vector, factor, 0, NULL, &factor, error));
  TRY(trm_edit_binary(e, i, TRM_OP_ADD, vector, variance, factor, &factor, error));
  TRY(trm_edit_unary(e, i, TRM_OP_RSQRT, vector, factor, &factor, error));
  TRY(trm_edit_scalar(e, i, TRM_F32, 1 / count, &share, error));
  TRY(trm_edit_broadcast(e, i, vector, share, 0, NULL, &share, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, vector, d_offset, share, &d_offset, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, vector, d_scale, share, &d_scale, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, vector, d_scale, factor, &d_scale, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, vector, scale, factor, &factor, error));
  trm_index wide[4] = {mean, d_offset, d_scale, factor};
  for (int k = 0; k < 4; ++k) {
    TRY(trm_edit_broadcast(e, i, full, wide[k], 1, feature, &wide[k], error));
  }
  TRY(trm_edit_binary(e, i, TRM_OP_SUBTRACT, full, x, wide[0], &product, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, full, product, wide[2], &product, error));
  TRY(trm_edit_binary(e, i, TRM_OP_SUBTRACT, full, dy, wide[1], out, error));
  TRY(trm_edit_binary(e, i, TRM_OP_SUBTRACT, full, *out, product, out, error));
  TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, full, *out, wide[3], out, error));
  return as_result(e, i, &norm.shape.elements[0], out, error);
}

static trm_status expand_gradient(trm_edit *e, trm_index i, uint32_t group, trm_error *error) {
  const trm_instruction norm = *trm_edit_at(e, i);
  const char *config =
      trm_arena_format(&e->module->arena, "{\"feature_index\":%d,\"epsilon\":%.9g}",
                       (int)norm.number, (double)norm.epsilon);
  trm_index operands[5], results[3], sums[2];
  for (uint32_t k = 0; k < 5; ++k) operands[k] = trm_edit_operand(e, i, k);
  TRY(add_statistics(e, i, trm_call_target(TRM_CALL_BATCH_NORM_GRADIENT_STATISTICS), config,
                     operands, 5, &norm.shape.elements[1], &results[1], error));
  for (int k = 0; k < 2; ++k) TRY(group_mean(e, i, group, results[k + 1], &sums[k], error));
  TRY(gradient_of_x(e, i, sums[0], sums[1], &results[0], error));
  return replace_with(e, i, results, error);
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

static trm_status expand(trm_edit *e, trm_index i, uint32_t group, trm_error *error) {
  switch (trm_edit_at(e, i)->opcode) {
    case TRM_OP_BATCH_NORM_INFERENCE: return expand_inference(e, i, error);
    case TRM_OP_BATCH_NORM_TRAINING: return expand_training(e, i, group, error);
    default: return expand_gradient(e, i, group, error);
  }
}

static trm_status refuse(const trm_instruction *norm, trm_error *error) {
  FAIL(UNIMPLEMENTED,
       "%s cannot have the statistics of several replicas: it is in neither float32 nor float16, "
       "or has control predecessors. Set "
       "norms.experimental.distributed_batch_norm_replica_group_size to 1",
       norm->name);
}

/* Which batch norms to expand, and how many replicas share their statistics. */
typedef struct expansion {
  bool (*is_wanted)(trm_opcode opcode);
  uint32_t group;
} expansion;

static trm_status expand_wanted(trm_edit *e, trm_index i, void *state, trm_error *error) {
  const expansion *wanted = state;
  if (!wanted->is_wanted(trm_edit_at(e, i)->opcode)) return TRM_OK;
  if (is_served(e, i)) return expand(e, i, wanted->group, error);
  return wanted->group > 1 ? refuse(trm_edit_at(e, i), error) : TRM_OK;
}

static trm_status expand_all(trm_module *module, bool (*is_wanted)(trm_opcode), uint32_t group,
                             trm_error *error) {
  return trm_edit_module(module, expand_wanted, &(expansion){is_wanted, group}, error);
}

static bool is_forward(trm_opcode opcode) {
  return opcode == TRM_OP_BATCH_NORM_INFERENCE || opcode == TRM_OP_BATCH_NORM_TRAINING;
}

static bool is_training(trm_opcode opcode) {
  return opcode == TRM_OP_BATCH_NORM_TRAINING || opcode == TRM_OP_BATCH_NORM_GRAD;
}

trm_status trm_pass_expand_batch_norm(trm_module *module, trm_error *error) {
  return expand_all(module, is_forward, 1, error);
}

static bool has_training(const trm_module *module) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      if (is_training(computation->instructions[i].opcode)) return true;
    }
  }
  return false;
}

trm_status trm_pass_distribute_batch_norm(trm_module *module, uint32_t group, uint32_t replicas,
                                          trm_error *error) {
  if (group <= 1 || replicas <= 1 || !has_training(module)) return TRM_OK;
  if (replicas % group != 0) {
    FAIL(INVALID_ARGUMENT,
         "The replica group size (got %u) does not evenly divide the total number of replicas (got "
         "%u): norms.experimental.distributed_batch_norm_replica_group_size",
         group, replicas);
  }
  return expand_all(module, is_training, group, error);
}
