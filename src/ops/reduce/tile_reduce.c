/* Owns: reduce, and the batch normalisations, on an IPU.
 *
 * A reduction works where its operand lies: each tile makes a partial result of every output that
 * it has elements of; the partial results of an output are brought together on the output's tile
 * and reduced there, in one stage when there are fewer than 16, two below 125, else three
 * (machine_model 2.1). Formulas: docs/cost_model.md, "Reduce". */
#include "ops/reduce/tile_reduce.h"

#include <math.h>

#include "hlo/config.h"
#include "target/target.h"
#include "tile/exchange.h"

/* Results of one tile's elements: how many outputs it has a part in. */
static int64_t outputs_of_tile(const trm_tile_operand *operand, const trm_tile_reduction *r) {
  const trm_mapping *m = &operand->mapping;
  const int64_t elements = trm_most(1, trm_least(m->worst, operand->source_count));
  const int64_t count = trm_most(1, trm_shape_count(&operand->shape));
  const int64_t factor = trm_most(1, count / trm_most(1, r->outputs));
  if (m->kind == TRM_MAPPING_GRID && m->rank >= 2 && !r->minor) {
    /* A plan's output: channels are its last dimension, and groups its first. */
    const int32_t last = m->rank - 1;
    if (m->dims[0] * m->dims[last] == r->outputs) {
      const int64_t groups = trm_ceil_divide(m->dims[0], m->cuts[0]);
      const int64_t channels = m->part_size[last] * m->serial[last];
      return trm_least(elements, groups * trm_least(channels, m->dims[last]));
    }
  }
  if (r->minor && m->kind == TRM_MAPPING_LINEAR) {
    return trm_least(r->outputs, elements / factor + (elements % factor > 0) + (factor > 1));
  }
  return trm_least(elements, r->outputs);
}

/* Worker cycles of reducing `elements` to `outputs` on one tile. */
static int64_t stage_cycles(int64_t elements, int64_t outputs, trm_dtype type, bool minor,
                            double op_cycles, int64_t workers) {
  const int64_t width = trm_tile_vector_width(type);
  const int64_t depth = trm_ceil_divide(elements, trm_most(1, outputs));
  if (minor && depth > 1) {
    /* Contiguous rows: a row's vectors are loaded and added, one after the other; few rows are cut
     * between the workers. */
    const int64_t rows = trm_ceil_divide(outputs, workers);
    const int64_t row = outputs < workers
                            ? trm_ceil_divide(depth * outputs, workers)
                            : depth;
    const double vectors = ceil((double)row / (double)width);
    return 33 + rows * (24 + (int64_t)(vectors * (1 + op_cycles)) + 8);
  }
  /* Strided: columns of a vector's width. */
  const int64_t columns = trm_ceil_divide(outputs, width);
  if (columns >= workers || depth < 2 * workers) {
    const double per_column = 5 + (double)depth * op_cycles + 1;
    return 16 + trm_ceil_divide(columns, workers) * (int64_t)ceil(per_column);
  }
  /* Fewer columns than workers: rows are cut between them, and their results added. */
  const double split = floor((double)workers / (double)columns);
  const double per_column = 5 + (double)depth / split * op_cycles + 1;
  return 16 + (int64_t)ceil(per_column) + 24 + (int64_t)(split * op_cycles);
}

static const char *word_of(trm_dtype type) {
  return trm_tile_dtype_bytes(type) == 2 ? "half" : type == TRM_F32 ? "float" : "int";
}

/* As popops calls the compute sets of a stage. */
static const char *stage_name(trm_tile_cost *cost, const trm_tile_reduction *r,
                              const char *stage) {
  if (r->name[0] == '\0') return trm_arena_format(cost->arena, "%s/Reduce", stage);
  return trm_arena_format(cost->arena, "%s/%s/Reduce", r->name, stage);
}

trm_status trm_tile_add_reduction(const trm_tile_request *request, trm_tile_cost *cost,
                                  const trm_tile_operand *operand,
                                  const trm_tile_reduction *r, trm_dtype result_type,
                                  trm_mapping *out_mapping, trm_error *error) {
  const trm_target *target = request->target;
  const int64_t workers = target->num_worker_contexts;
  const trm_mapping *from = &operand->mapping;
  const trm_dtype type = operand->shape.dtype;
  const int64_t elements = trm_most(1, trm_least(from->worst, operand->source_count));
  const int64_t local = outputs_of_tile(operand, r);
  const uint32_t tiles = from->parts == 0 ? 1 : from->parts;
  *out_mapping = trm_mapping_linear_grain(target, result_type, r->outputs,
                                          trm_tile_vector_width(result_type), 4, request->ipu,
                                          request->next_tile);
  const char *codelet = trm_arena_format(cost->arena, "popops::Reduce<ReduceOp::%s,%s,%s>",
                                         r->operation, word_of(type), word_of(r->partials));
  CHECK_MEMORY(codelet, "a cost");
  const double evenness = trm_mapping_evenness(from);
  const int64_t together = trm_most(1, r->together);
  const int64_t first =
      together * stage_cycles(elements, local, type, r->minor, r->op_cycles, workers);
  const int64_t flops = trm_shape_count(&operand->shape) * together;
  int64_t partials = trm_ceil_divide(local * tiles, trm_most(1, r->outputs)); /* of an output */
  /* Each tile has all of its outputs to itself when there are no more partial results than a row
   * that is cut in two makes. */
  const bool done = partials <= 1 && local * tiles <= r->outputs + tiles;
  TRY(trm_tile_add_compute(request, cost,
                           stage_name(cost, r, done ? "ReduceOnTile/InToOutputNoExchange"
                                                    : "ReduceOnTile/InToIntermediateNoExchange"),
                           codelet, tiles, (uint32_t)together, workers * first + 11, evenness, 2,
                           flops, error));
  if (done) return TRM_OK;
  const int64_t bytes = together * trm_tile_dtype_bytes(r->partials);
  const int64_t held = local * bytes;
  const int stages = partials < 16 ? 1 : partials < 125 ? 2 : 3;
  const int64_t per_stage = (int64_t)ceil(pow((double)partials, 1.0 / stages));
  int64_t live = r->outputs * partials; /* partial results, all tiles */
  for (int s = 0; s < stages && partials > 1; ++s) {
    const bool last = s == stages - 1;
    const int64_t depth = last ? partials : trm_least(per_stage, partials);
    const int64_t after = trm_ceil_divide(partials, depth);
    const int64_t results = r->outputs * after;
    const trm_mapping place = trm_mapping_linear_grain(
        target, r->partials, results, trm_tile_vector_width(r->partials), 4, request->ipu,
        request->next_tile);
    const int64_t in = place.worst * depth * bytes;
    TRY(trm_tile_add_exchange(request, cost,
                              last ? "ReduceFinalStage/ExchangePre"
                                   : "ReduceStage1/ExchangePre",
                              in, live * bytes, s == 0 ? held : place.worst * bytes, depth + 1,
                              error));
    TRY(trm_tile_add_compute(request, cost,
                             stage_name(cost, r,
                                        last     ? "ReduceFinalStage/IntermediateToOutput"
                                        : s == 0 ? "ReduceStage1/IntermediateToIntermediate"
                                                 : "ReduceStage2/IntermediateToIntermediate"),
                             codelet, place.parts, (uint32_t)together,
                             workers * together *
                                     stage_cycles(place.worst * depth, place.worst, r->partials,
                                                  false, r->op_cycles, workers) +
                                 11,
                             trm_mapping_evenness(&place), (uint32_t)trm_least(depth, 1000) + 1,
                             results * depth * together, error));
    cost->phases.items[cost->phases.count - 1].temporary_worst = in;
    cost->phases.items[cost->phases.count - 1].temporary_total = live * bytes;
    cost->phases.items[cost->phases.count - 1].temporary_is_message = true;
    partials = after;
    live = results;
  }
  cost->temporary_worst = trm_most(cost->temporary_worst, held);
  cost->temporary_total = trm_most(cost->temporary_total, held * tiles);
  return TRM_OK;
}

/* What the called computation does: an operation that popops has, or one of its own. */
static void operation_of(const trm_computation *called, trm_tile_reduction *r) {
  r->op_cycles = 1;
  const trm_instruction *root = &called->instructions[called->root];
  uint32_t operations = 0;
  for (trm_index i = 0; i < called->num_instructions; ++i) {
    operations += trm_opcode_is_elementwise(called->instructions[i].opcode);
  }
  r->operation = NULL;
  if (operations == 1) {
    switch (root->opcode) {
      case TRM_OP_ADD: r->operation = "ADD"; break;
      case TRM_OP_MULTIPLY: r->operation = "MUL"; break;
      case TRM_OP_MAXIMUM: r->operation = "MAX"; break;
      case TRM_OP_MINIMUM: r->operation = "MIN"; break;
      case TRM_OP_AND: r->operation = "LOGICAL_AND", r->op_cycles = 24; break;
      case TRM_OP_OR: r->operation = "LOGICAL_OR", r->op_cycles = 24; break;
      default: break;
    }
  }
  if (r->operation == NULL) {
    r->operation = "CUSTOM";
    r->op_cycles = 24 + 4.0 * operations; /* as popops' C++ codelets */
  }
}

/* Whether the reduced dimensions are the last ones. */
static bool reduces_minor(const trm_shape *shape, const trm_dims *dimensions) {
  bool reduced[TRM_MAX_RANK] = {false};
  for (int32_t d = 0; d < dimensions->count; ++d) {
    if (dimensions->items[d] >= 0 && dimensions->items[d] < TRM_MAX_RANK) {
      reduced[dimensions->items[d]] = true;
    }
  }
  for (int32_t d = shape->rank - 1; d >= 0; --d) {
    if (shape->dims[d] != 1) return reduced[d];
  }
  return true;
}

static trm_dtype partials_of(trm_dtype type) { return type == TRM_F16 ? TRM_F32 : type; }

trm_status trm_tile_reduce(const trm_tile_request *request, trm_tile_cost *cost,
                           trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  const uint32_t arrays = request->num_operands / 2;
  if (cost->num_results == 0 || arrays == 0) return TRM_OK;
  trm_tile_reduction r = {
      .name = "",
      .outputs = trm_most(1, trm_shape_count(trm_shape_leaf(&instruction->shape, 0))),
      .minor = reduces_minor(&request->operands[0].shape, &instruction->dimensions)};
  operation_of(&request->module->computations[instruction->called[0]], &r);
  for (uint32_t k = 0; k < arrays && k < cost->num_results; ++k) {
    const trm_tile_operand *operand = &request->operands[k];
    if (trm_shape_count(&operand->shape) == 0) continue;
    const trm_dtype result = trm_shape_leaf(&instruction->shape, (int32_t)k)->dtype;
    r.partials = partials_of(operand->shape.dtype);
    TRY(trm_tile_add_reduction(request, cost, operand, &r, result, &cost->results[k].mapping,
                               error));
  }
  return TRM_OK;
}

/* ---- Batch normalisation -------------------------------------------------------------------- */

/* An elementwise pass over the large operand, and nothing moved but a channel's numbers. */
static trm_status add_pass(const trm_tile_request *request, trm_tile_cost *cost, const char *name,
                           const trm_mapping *place, int64_t channels, double cycles_per_element,
                           trm_dtype type, int64_t flops, trm_error *error) {
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t per_tile = trm_least(channels, place->worst) * trm_tile_dtype_bytes(type);
  TRY(trm_tile_add_exchange(request, cost, "ExchangePre", per_tile, per_tile * place->parts,
                            trm_least(channels * 4, 64), 1, error));
  const int64_t per_worker = trm_ceil_divide(trm_most(1, place->worst), workers);
  return trm_tile_add_compute(
      request, cost, name, "popops::BroadcastVectorInner<BinaryOpType::MULTIPLY>", place->parts, 1,
      workers * (29 + (int64_t)(cycles_per_element * (double)per_worker + 0.5)) + 11,
      trm_mapping_evenness(place), 3, flops * place->count, error);
}

/* Of an instruction, or of a custom call that it was taken apart into. */
static int64_t feature_index(const trm_instruction *norm) {
  if (norm->opcode != TRM_OP_CUSTOM_CALL) return norm->number;
  json_t *config = trm_instruction_config(norm, 0, NULL);
  const json_t *index = json_object_get(config, "feature_index");
  const int64_t feature = json_is_integer(index) ? json_integer_value(index) : -1;
  json_decref(config);
  return feature;
}

/* The channels of operand 0 of a batch norm, and whether its rows run across them. */
static int64_t feature_channels(const trm_tile_request *request, bool *out_minor) {
  const trm_shape *x = &request->operands[0].shape;
  const int64_t feature = feature_index(request->instruction);
  const bool in_rank = feature >= 0 && feature < x->rank;
  *out_minor = in_rank && feature != x->rank - 1;
  return in_rank ? trm_most(1, x->dims[feature]) : 1;
}

/* Mean and inverse standard deviation of operand 0. */
static trm_status add_statistics(const trm_tile_request *request, trm_tile_cost *cost,
                                 trm_mapping *mean, trm_mapping *deviation, trm_error *error) {
  /* Sums and sums of squares in the same compute sets, as popnn makes them. */
  trm_tile_reduction r = {.name = "MeanAndPower", .operation = "ADD", .op_cycles = 1,
                          .partials = TRM_F32, .together = 2};
  r.outputs = feature_channels(request, &r.minor);
  TRY(trm_tile_add_reduction(request, cost, &request->operands[0], &r, TRM_F32, mean, error));
  *deviation = *mean;
  const int64_t workers = request->target->num_worker_contexts;
  return trm_tile_add_compute(
      request, cost, "VarToInvStdDev", "popops::UnaryOp1D<VARIANCE_TO_INV_STD_DEV,float>",
      deviation->parts, 1, workers * (17 + 6 * trm_ceil_divide(deviation->worst, workers)) + 11,
      1.0, 2, 2 * r.outputs, error);
}

/* The custom call tremula.batch-norm-gradient-statistics. */
static trm_status add_gradient_statistics(const trm_tile_request *request, trm_tile_cost *cost,
                                          trm_error *error) {
  const trm_tile_operand *x = &request->operands[0], *gradient = &request->operands[4];
  const double vector = 3.0 / trm_tile_vector_width(x->shape.dtype);
  trm_tile_reduction r = {.name = "JointGammaBeta", .operation = "ADD", .op_cycles = 1,
                          .partials = TRM_F32, .together = 2};
  const int64_t channels = r.outputs = feature_channels(request, &r.minor);
  const trm_mapping place = x->mapping;
  trm_tile_incoming incoming = {0};
  trm_tile_incoming_add(&incoming, gradient, &place);
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  TRY(add_pass(request, cost, "Whiten", &place, channels, 2 * vector, x->shape.dtype, 2, error));
  TRY(add_pass(request, cost, "GammaProduct", &place, 0, vector, x->shape.dtype, 1, error));
  trm_mapping sums;
  TRY(trm_tile_add_reduction(request, cost, x, &r, TRM_F32, &sums, error));
  const int64_t bytes = trm_tile_dtype_bytes(x->shape.dtype);
  cost->temporary_worst += 2 * place.worst * bytes;
  cost->temporary_total += 2 * place.count * bytes;
  for (uint32_t k = 0; k < cost->num_results; ++k) cost->results[k].mapping = sums;
  return TRM_OK;
}

trm_status trm_tile_batch_norm(const trm_tile_request *request, trm_tile_cost *cost,
                               trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  if (request->num_operands == 0 || trm_shape_count(&request->operands[0].shape) == 0) {
    return TRM_OK;
  }
  const trm_tile_operand *x = &request->operands[0];
  const trm_dtype type = x->shape.dtype;
  const double vector = 3.0 / trm_tile_vector_width(type);
  const trm_mapping place = x->mapping;
  bool minor;
  const int64_t channels = feature_channels(request, &minor);
  trm_mapping mean, deviation;
  switch (instruction->opcode) {
    case TRM_OP_CUSTOM_CALL: /* statistics alone */
      if (request->num_operands == 5) return add_gradient_statistics(request, cost, error);
      TRY(add_statistics(request, cost, &mean, &deviation, error));
      if (cost->num_results >= 2) {
        cost->results[0].mapping = mean;
        cost->results[1].mapping = deviation;
      }
      return TRM_OK;
    case TRM_OP_BATCH_NORM_INFERENCE:
      cost->results[0].mapping = place;
      if (x->dies && !x->is_view) cost->results[0].in_place = 0;
      TRY(add_pass(request, cost, "Whiten", &place, channels, vector, type, 1, error));
      return add_pass(request, cost, "BatchNormalise", &place, channels, 2 * vector, type, 2,
                      error);
    case TRM_OP_BATCH_NORM_TRAINING:
      TRY(add_statistics(request, cost, &mean, &deviation, error));
      TRY(add_pass(request, cost, "Whiten", &place, channels, 2 * vector, type, 2, error));
      TRY(add_pass(request, cost, "BatchNormalise", &place, channels, 2 * vector, type, 2, error));
      cost->results[0].mapping = place;
      cost->results[1].mapping = mean;
      cost->results[2].mapping = deviation;
      return TRM_OK;
    default: { /* the gradient */
      const trm_tile_operand *gradient = &request->operands[request->num_operands - 1];
      trm_tile_incoming incoming = {0};
      trm_tile_incoming_add(&incoming, gradient, &place);
      TRY(trm_tile_add_incoming(request, cost, &incoming, error));
      TRY(add_pass(request, cost, "Whiten", &place, channels, 2 * vector, type, 2, error));
      TRY(add_pass(request, cost, "GammaProduct", &place, 0, vector, type, 1, error));
      const trm_tile_reduction r = {.name = "JointGammaBeta", .operation = "ADD", .op_cycles = 1,
                                    .outputs = channels, .partials = TRM_F32, .minor = minor,
                                    .together = 2};
      TRY(trm_tile_add_reduction(request, cost, x, &r, TRM_F32, &mean, error));
      deviation = mean;
      TRY(add_pass(request, cost, "NormGrad", &place, channels, 4 * vector, type, 5, error));
      /* The whitened operand and its product with the gradient. */
      const int64_t bytes = trm_tile_dtype_bytes(type);
      cost->temporary_worst += 2 * place.worst * bytes;
      cost->temporary_total += 2 * place.count * bytes;
      cost->results[0].mapping = place;
      if (cost->num_results >= 3) {
        cost->results[1].mapping = mean;
        cost->results[2].mapping = deviation;
      }
      return TRM_OK;
    }
  }
}
