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
#include <stdio.h>
#include <string.h>

#include "passes/maker.h"
#include "passes/pass.h"

/* Operand k of the batch norm as float32. */
static trm_index as_float(trm_maker *m, uint32_t k) {
  return trm_convert(m, TRM_F32, trm_edit_operand(m->edit, m->like, k));
}

/* A float32 value in the type of the result `shape`. */
static trm_index as_result(trm_maker *m, trm_shape shape, trm_index value) {
  return trm_convert(m, shape.dtype, value);
}

/* rsqrt(variance + epsilon) */
static trm_index inverse_deviation(trm_maker *m, trm_index variance) {
  const double epsilon = (double)trm_edit_at(m->edit, m->like)->epsilon;
  return trm_unary(m, TRM_OP_RSQRT, trm_with(m, TRM_OP_ADD, variance, epsilon));
}

/* A vector of features in the shape of x. */
static trm_index spread(trm_maker *m, trm_shape full, trm_index vector) {
  int64_t feature = trm_edit_at(m->edit, m->like)->number;
  return trm_broadcast(m, trm_shape_as(full, TRM_F32), vector, (trm_dims){1, &feature});
}

/* The normalised x, with the shape `result`. The mean and the variance are float32 vectors. */
static trm_index normalise(trm_maker *m, trm_shape result, trm_index mean, trm_index variance) {
  const trm_index x = as_float(m, 0), scale = as_float(m, 1), offset = as_float(m, 2);
  const trm_index factor = trm_binary(m, TRM_OP_MULTIPLY, scale, inverse_deviation(m, variance));
  const trm_index off = trm_binary(m, TRM_OP_SUBTRACT, x, spread(m, result, mean));
  const trm_index scaled = trm_binary(m, TRM_OP_MULTIPLY, off, spread(m, result, factor));
  const trm_index y = trm_binary(m, TRM_OP_ADD, scaled, spread(m, result, offset));
  return as_result(m, result, y);
}

static trm_index expand_inference(trm_maker *m, const trm_instruction *norm) {
  const trm_index mean = as_float(m, 3);
  return normalise(m, norm->shape, mean, as_float(m, 4));
}

static trm_index custom_call(trm_maker *m, trm_call_id id, trm_shape shape, const char *config,
                             const trm_index *operands, uint32_t num_operands) {
  const trm_custom_call call = {.target = trm_call_target(id)};
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_CUSTOM_CALL,
                                        .shape = shape,
                                        .num_operands = num_operands,
                                        .operands = (trm_index *)operands,
                                        .custom_call = trm_keep(m, &call, sizeof call),
                                        .backend_config = trm_keep(m, config, strlen(config) + 1),
                                        .backend_config_size = strlen(config),
                                        .sharding = trm_edit_at(m->edit, m->like)->sharding});
}

/* Two float32 vectors: the statistics of x, or the gradients of scale and offset. */
static void add_statistics(trm_maker *m, trm_call_id id, const char *config, uint32_t num_operands,
                           trm_index out_vectors[2]) {
  const trm_shape vector = trm_shape_as(trm_edit_at(m->edit, m->like)->shape.elements[1], TRM_F32);
  const trm_shape pair = trm_make_tuple_shape(m, 2, (trm_shape[]){vector, vector});
  trm_index operands[5];
  for (uint32_t k = 0; k < num_operands; ++k) operands[k] = trm_edit_operand(m->edit, m->like, k);
  const trm_index statistics = custom_call(m, id, pair, config, operands, num_operands);
  for (int k = 0; k < 2; ++k) out_vectors[k] = trm_element(m, statistics, k);
}

/* The mean of a float32 vector over the replicas of a group. */
static trm_index group_mean(trm_maker *m, uint32_t group, trm_index vector) {
  char config[64];
  snprintf(config, sizeof config, "{\"op\":\"mean\",\"group_size\":%u}", group);
  return custom_call(m, TRM_CALL_ALL_REDUCE, trm_shape_at(m, vector), config, &vector, 1);
}

/* The tuple of a batch norm, each element in its type. */
static trm_index tuple_of(trm_maker *m, const trm_instruction *norm, trm_index results[3]) {
  for (int k = 1; k < 3; ++k) results[k] = as_result(m, norm->shape.elements[k], results[k]);
  return trm_tuple(m, norm->shape, results);
}

/* `group`: the number of replicas that share the statistics. */
static trm_index expand_training(trm_maker *m, const trm_instruction *norm, uint32_t group) {
  char config[64];
  trm_index results[3];
  snprintf(config, sizeof config, "{\"feature_index\":%d}", (int)norm->number);
  add_statistics(m, TRM_CALL_BATCH_NORM_STATISTICS, config, 1, &results[1]);
  if (group > 1) {
    const trm_index mean = group_mean(m, group, results[1]);
    const trm_index off = trm_binary(m, TRM_OP_SUBTRACT, results[1], mean);
    const trm_index square = trm_binary(m, TRM_OP_MULTIPLY, off, off);
    results[2] = group_mean(m, group, trm_binary(m, TRM_OP_ADD, results[2], square));
    results[1] = mean;
  }
  results[0] = normalise(m, norm->shape.elements[0], results[1], results[2]);
  return tuple_of(m, norm, results);
}

/* The gradient of x: scale * r * (dy - m_offset - (x - mean) * r * m_scale). r is rsqrt(variance +
 * epsilon); m_offset and m_scale are the gradients of offset and scale, divided by the number of
 * elements of a feature. */
static trm_index gradient_of_x(trm_maker *m, const trm_instruction *norm, trm_index d_scale,
                               trm_index d_offset) {
  const trm_shape full = norm->shape.elements[0], vector = trm_shape_at(m, d_scale);
  const int64_t features = trm_shape_count(&vector);
  const int64_t numbers = features == 0 ? 1 : trm_shape_count(&full) / features;
  trm_index in[5];
  for (uint32_t k = 0; k < 5; ++k) in[k] = as_float(m, k);
  const trm_index x = in[0], scale = in[1], mean = in[2], variance = in[3], dy = in[4];
  const trm_index r = inverse_deviation(m, variance);
  const double share = 1 / (double)numbers;
  d_offset = trm_with(m, TRM_OP_MULTIPLY, d_offset, share);
  d_scale = trm_binary(m, TRM_OP_MULTIPLY, trm_with(m, TRM_OP_MULTIPLY, d_scale, share), r);
  const trm_index factor = trm_binary(m, TRM_OP_MULTIPLY, scale, r);
  const trm_index off = trm_binary(m, TRM_OP_SUBTRACT, x, spread(m, full, mean));
  const trm_index product = trm_binary(m, TRM_OP_MULTIPLY, off, spread(m, full, d_scale));
  trm_index dx = trm_binary(m, TRM_OP_SUBTRACT, dy, spread(m, full, d_offset));
  dx = trm_binary(m, TRM_OP_SUBTRACT, dx, product);
  return as_result(m, full, trm_binary(m, TRM_OP_MULTIPLY, dx, spread(m, full, factor)));
}

static trm_index expand_gradient(trm_maker *m, const trm_instruction *norm, uint32_t group) {
  char config[96];
  trm_index results[3];
  snprintf(config, sizeof config, "{\"feature_index\":%d,\"epsilon\":%.9g}", (int)norm->number,
           (double)norm->epsilon);
  add_statistics(m, TRM_CALL_BATCH_NORM_GRADIENT_STATISTICS, config, 5, &results[1]);
  const trm_index d_scale = group_mean(m, group, results[1]);
  results[0] = gradient_of_x(m, norm, d_scale, group_mean(m, group, results[2]));
  return tuple_of(m, norm, results);
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
  const trm_instruction norm = *trm_edit_at(e, i);
  trm_maker m = {.edit = e, .like = i, .error = error};
  trm_index made;
  switch (norm.opcode) {
    case TRM_OP_BATCH_NORM_INFERENCE: made = expand_inference(&m, &norm); break;
    case TRM_OP_BATCH_NORM_TRAINING: made = expand_training(&m, &norm, group); break;
    default: made = expand_gradient(&m, &norm, group); break;
  }
  trm_edit_replace(e, i, made);
  return m.status;
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
