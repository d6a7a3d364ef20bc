/* Owns: reduce, and the batch normalisations, on an IPU.
 *
 * A reduction works on the tiles of its operand: each tile makes a partial result of every output
 * of which it has elements. The tile of an output receives the partial results and reduces them, in
 * one stage for fewer than 16, in two below 125, else in three (docs/machine.md, "Exchange").
 * Formulas: docs/cost_model.md, "Reduce". */
#include <math.h>
#include <string.h>

#include "hlo/config.h"
#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

/* A reduction, by itself or as a part of another operation (the mean of a batch norm). */
typedef struct reduction {
  const char *name;      /* "Reduce", "Mean" */
  const char *operation; /* popops' name: ADD, MAX, ... */
  double op_cycles;      /* worker cycles of a vector's operation beside its loads; 1 */
  int64_t outputs;       /* of the reduction */
  uint32_t reduced;      /* bit d: dimension d of the operand is reduced */
  bool minor;         /* the reduced elements are contiguous in the array (the last dimensions) */
  trm_dtype partials; /* the type of partial sums */
  int64_t together;   /* reductions of this kind that share the compute sets; at least 1 */
} reduction;

/* The number of partial results on the fullest tile, and on average. */
typedef struct partial_results {
  int64_t worst;
  double mean;
} partial_results;

/* The outputs of a run of consecutive elements: all of the dimensions inside the run, some of the
 * one that it covers in part, and two of an outer one if it crosses a border. */
static partial_results results_of_run(const trm_shape *shape, uint32_t reduced, int64_t run) {
  partial_results results = {1, 1};
  int64_t inner = 1;
  int32_t d = shape->rank - 1;
  for (; d >= 0 && run >= inner * shape->dims[d]; --d) {
    inner *= shape->dims[d];
    if ((reduced >> d & 1) == 0) results.worst *= shape->dims[d];
  }
  results.mean = (double)results.worst;
  if (d < 0) return results;
  const int64_t size = shape->dims[d], span = inner * size;
  if ((reduced >> d & 1) == 0) {
    const int64_t steps = trm_ceil_divide(run, inner) + (run % inner != 0);
    results.mean *= fmin((double)size, (double)run / (double)inner + (run % inner != 0));
    results.worst *= trm_least(size, steps);
    return results;
  }
  while (--d >= 0 && shape->dims[d] == 1) continue;
  if (span % run != 0 && d >= 0 && (reduced >> d & 1) == 0) {
    results.worst *= 2;
    results.mean *= 1 + (double)run / (double)span;
  }
  return results;
}

/* The same of a piece of a plan's output, whose dimensions are groups, batch, fields and channels;
 * in a plan with swapped operands the channels come before the others. False: these are not the
 * dimensions of the array. */
static bool results_of_piece(const trm_mapping *m, const trm_shape *shape, uint32_t reduced,
                             bool swapped, int64_t *out_results) {
  int32_t order[TRM_MAPPING_RANK] = {0};
  const int32_t last = m->rank - 1;
  for (int32_t k = 1; k < m->rank; ++k) order[k] = !swapped ? k : k == 1 ? last : k - 1;
  int64_t results = 1;
  int32_t d = 0;
  for (int32_t k = 0; k < m->rank; ++k) {
    const int32_t cut = order[k];
    const int64_t here = trm_least(m->dims[cut], m->block_size[cut] * m->serial[cut]);
    int64_t size = 1, kept = 1;
    for (; d < shape->rank && size * shape->dims[d] <= m->dims[cut]; ++d) {
      size *= shape->dims[d];
      if ((reduced >> d & 1) == 0) kept *= shape->dims[d];
    }
    if (size != m->dims[cut]) return false;
    results *= kept == size ? here : trm_least(here, kept);
  }
  *out_results = results;
  return d == shape->rank;
}

/* The outputs to which the elements of each tile belong. */
static partial_results results_of_tiles(const trm_tile_operand *operand, const reduction *r) {
  const trm_mapping *m = &operand->mapping;
  const int64_t elements = trm_most(1, trm_least(m->worst, operand->source_count));
  const int64_t count = trm_shape_count(&operand->shape);
  partial_results results = {trm_least(elements, r->outputs), 0};
  int64_t piece = 0;
  if (m->kind == TRM_MAPPING_LINEAR && !operand->is_view && m->count == count) {
    results = results_of_run(&operand->shape, r->reduced, elements);
  } else if (m->kind == TRM_MAPPING_GRID && m->rank >= 2 && m->count == count &&
             (results_of_piece(m, &operand->shape, r->reduced, false, &piece) ||
              results_of_piece(m, &operand->shape, r->reduced, true, &piece))) {
    results.worst = piece;
  }
  results.worst = trm_least(results.worst, trm_least(elements, r->outputs));
  if (results.mean == 0 || results.mean > (double)results.worst) {
    results.mean = (double)results.worst;
  }
  return results;
}

/* Worker cycles of reducing `elements` to `outputs` on one tile. */
static int64_t stage_cycles(int64_t elements, int64_t outputs, trm_dtype type, bool minor,
                            double op_cycles, int64_t workers) {
  const int64_t width = trm_tile_vector_width(type);
  const int64_t depth = trm_ceil_divide(elements, trm_most(1, outputs));
  if (minor && depth > 1) {
    /* Contiguous rows: a row's vectors are loaded and added one after the other. If there are few
     * rows, the workers share them. */
    const int64_t rows = trm_ceil_divide(outputs, workers);
    const int64_t row = outputs < workers ? trm_ceil_divide(depth * outputs, workers) : depth;
    const double vectors = ceil((double)row / (double)width);
    return 33 + rows * (24 + (int64_t)(vectors * (1 + op_cycles)) + 8);
  }
  /* Strided: columns of a vector's width. */
  const int64_t columns = trm_ceil_divide(outputs, width);
  if (columns >= workers || depth < 2 * workers) {
    const double per_column = 5 + (double)depth * op_cycles + 1;
    return 16 + trm_ceil_divide(columns, workers) * (int64_t)ceil(per_column);
  }
  /* With fewer columns than workers, the workers share the rows and their results are added. */
  const double split = floor((double)workers / (double)columns);
  const double per_column = 5 + (double)depth / split * op_cycles + 1;
  return 16 + (int64_t)ceil(per_column) + 24 + (int64_t)(split * op_cycles);
}

static const char *word_of(trm_dtype type) {
  return trm_tile_dtype_bytes(type) == 2 ? "half" : type == TRM_F32 ? "float" : "int";
}

/* The names of the compute sets of a stage in popops. */
static const char *stage_name(trm_tile_cost *cost, const reduction *r, const char *stage) {
  if (r->name[0] == '\0') return trm_arena_format(cost->arena, "%s/Reduce", stage);
  return trm_arena_format(cost->arena, "%s/%s/Reduce", r->name, stage);
}

/* Adds the stages that exchange and reduce partial results: `all` of them on all tiles, `partials`
 * of an output, `partial_bytes` on the fullest tile. */
static trm_status add_final_stages(const trm_tile_request *request, trm_tile_cost *cost,
                                   const reduction *r, const char *codelet, int64_t all,
                                   int64_t partials, int64_t partial_bytes, trm_error *error) {
  const trm_target *target = request->target;
  const int64_t workers = target->num_worker_contexts, together = trm_most(1, r->together);
  const int64_t bytes = together * trm_tile_dtype_bytes(r->partials);
  const int stages = partials < 16 ? 1 : partials < 125 ? 2 : 3;
  const int64_t per_stage = (int64_t)ceil(pow((double)partials, 1.0 / stages));
  int64_t live = trm_most(all, r->outputs); /* partial results, all tiles */
  for (int s = 0; s < stages && partials > 1; ++s) {
    const bool last = s == stages - 1;
    const int64_t depth = last ? partials : trm_least(per_stage, partials);
    const int64_t after = trm_ceil_divide(partials, depth);
    const int64_t results = r->outputs * after;
    const trm_mapping place =
        trm_mapping_linear_grain(target, r->partials, results, trm_tile_vector_width(r->partials),
                                 4, request->ipu, request->next_tile);
    const int64_t in = place.worst * depth * bytes;
    TRY(trm_tile_add_exchange(
        request, cost, last ? "ReduceFinalStage/ExchangePre" : "ReduceStage1/ExchangePre", in,
        live * bytes, s == 0 ? partial_bytes : place.worst * bytes, depth + 1, error));
    TRY(trm_tile_add_compute(request, cost,
                             stage_name(cost, r,
                                        last     ? "ReduceFinalStage/IntermediateToOutput"
                                        : s == 0 ? "ReduceStage1/IntermediateToIntermediate"
                                                 : "ReduceStage2/IntermediateToIntermediate"),
                             codelet, place.regions, (uint32_t)together,
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
  return TRM_OK;
}

/* Adds the stages: partial results on each tile of the operand, then exchanges and final results.
 * *out_mapping: the mapping of the results. */
static trm_status add_reduction(const trm_tile_request *request, trm_tile_cost *cost,
                                const trm_tile_operand *operand, const reduction *r,
                                trm_dtype result_type, trm_mapping *out_mapping, trm_error *error) {
  const trm_target *target = request->target;
  const int64_t workers = target->num_worker_contexts;
  const trm_mapping *from = &operand->mapping;
  const trm_dtype type = operand->shape.dtype;
  const int64_t elements = trm_most(1, trm_least(from->worst, operand->source_count));
  const partial_results made = results_of_tiles(operand, r);
  const int64_t local = made.worst;
  const uint32_t tiles = from->regions == 0 ? 1 : from->regions;
  const int64_t all = (int64_t)ceil(made.mean * tiles);
  *out_mapping =
      trm_mapping_linear_grain(target, result_type, r->outputs, trm_tile_vector_width(result_type),
                               4, request->ipu, request->next_tile);
  const char *codelet = trm_arena_format(cost->arena, "popops::Reduce<ReduceOp::%s,%s,%s>",
                                         r->operation, word_of(type), word_of(r->partials));
  CHECK_MEMORY(codelet, "a cost");
  const double evenness = trm_mapping_evenness(from);
  const int64_t together = trm_most(1, r->together);
  const int64_t first =
      together * stage_cycles(elements, local, type, r->minor, r->op_cycles, workers);
  const int64_t flops = trm_shape_count(&operand->shape) * together;
  const int64_t partials = trm_ceil_divide(all, trm_most(1, r->outputs)); /* of an output */
  const bool done = partials <= 1; /* each tile has all elements of its outputs */
  TRY(trm_tile_add_compute(request, cost,
                           stage_name(cost, r,
                                      done ? "ReduceOnTile/InToOutputNoExchange"
                                           : "ReduceOnTile/InToIntermediateNoExchange"),
                           codelet, tiles, (uint32_t)together, workers * first + 11, evenness, 2,
                           flops, error));
  if (done) return TRM_OK;
  const int64_t bytes = together * trm_tile_dtype_bytes(r->partials);
  const int64_t partial_bytes = local * bytes;
  TRY(add_final_stages(request, cost, r, codelet, all, partials, partial_bytes, error));
  cost->temporary_worst = trm_most(cost->temporary_worst, partial_bytes);
  cost->temporary_total = trm_most(cost->temporary_total, all * bytes);
  return TRM_OK;
}

/* The operation of the called computation: one of popops, or a computation of its own. */
static void operation_of(const trm_computation *called, reduction *r) {
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
    r->op_cycles = 24 + 4.0 * operations; /* as in popops' C++ codelets */
  }
}

static uint32_t reduced_dimensions(const trm_dims *dimensions) {
  uint32_t reduced = 0;
  for (int32_t d = 0; d < dimensions->count; ++d) {
    if (dimensions->items[d] >= 0 && dimensions->items[d] < TRM_MAX_RANK) {
      reduced |= UINT32_C(1) << dimensions->items[d];
    }
  }
  return reduced;
}

/* Whether the reduced dimensions are the last ones. */
static bool reduces_minor(const trm_shape *shape, uint32_t reduced) {
  for (int32_t d = shape->rank - 1; d >= 0; --d) {
    if (shape->dims[d] != 1) return (reduced >> d & 1) != 0;
  }
  return true;
}

/* Sums of halves are floats; maxima of halves are halves. */
static trm_dtype partials_of(const reduction *r, trm_dtype type) {
  const bool chooses = strcmp(r->operation, "MAX") == 0 || strcmp(r->operation, "MIN") == 0;
  return type == TRM_F16 && !chooses ? TRM_F32 : type;
}

trm_status trm_tile_reduce(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  const uint32_t arrays = request->num_operands / 2;
  if (cost->num_results == 0 || arrays == 0) return TRM_OK;
  reduction r = {.name = "",
                 .outputs = trm_most(1, trm_shape_count(trm_shape_leaf(&instruction->shape, 0))),
                 .reduced = reduced_dimensions(&instruction->dimensions)};
  r.minor = reduces_minor(&request->operands[0].shape, r.reduced);
  operation_of(&request->module->computations[instruction->called[0]], &r);
  for (uint32_t k = 0; k < arrays && k < cost->num_results; ++k) {
    const trm_tile_operand *operand = &request->operands[k];
    if (trm_shape_count(&operand->shape) == 0) continue;
    const trm_dtype result = trm_shape_leaf(&instruction->shape, (int32_t)k)->dtype;
    if (trm_shape_count(&operand->shape) == r.outputs && operand->mapping.count == r.outputs) {
      /* Each output has one element, which stays on its tile. */
      cost->results[k].mapping = trm_mapping_like(&operand->mapping, result);
      if (operand->dies && !operand->is_view &&
          trm_tile_dtype_bytes(result) == trm_tile_dtype_bytes(operand->shape.dtype)) {
        cost->results[k].in_place = (int32_t)k;
      }
      continue;
    }
    r.partials = partials_of(&r, operand->shape.dtype);
    TRY(add_reduction(request, cost, operand, &r, result, &cost->results[k].mapping, error));
  }
  return TRM_OK;
}

/* ---- Batch normalisation -------------------------------------------------------------------- */

/* An elementwise pass over the large operand; only the numbers of a channel are exchanged. */
static trm_status add_pass(const trm_tile_request *request, trm_tile_cost *cost, const char *name,
                           const trm_mapping *place, int64_t channels, double cycles_per_element,
                           trm_dtype type, int64_t flops, trm_error *error) {
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t per_tile = trm_least(channels, place->worst) * trm_tile_dtype_bytes(type);
  TRY(trm_tile_add_exchange(request, cost, "ExchangePre", per_tile, per_tile * place->regions,
                            trm_least(channels * 4, 64), 1, error));
  const int64_t per_worker = trm_ceil_divide(trm_most(1, place->worst), workers);
  return trm_tile_add_compute(
      request, cost, name, "popops::BroadcastVectorInner<BinaryOpType::MULTIPLY>", place->regions,
      1, workers * (29 + (int64_t)(cycles_per_element * (double)per_worker + 0.5)) + 11,
      trm_mapping_evenness(place), 3, flops * place->count, error);
}

/* Of a batch norm, or of a custom call that the passes made of it. */
static int64_t feature_index(const trm_instruction *norm) {
  return norm->opcode == TRM_OP_CUSTOM_CALL ? trm_config_integer(norm, "feature_index", -1)
                                            : norm->number;
}

/* Sets the channels of operand 0 of a batch norm as outputs; all other dimensions are reduced. */
static int64_t set_features(const trm_tile_request *request, reduction *r) {
  const trm_shape *x = &request->operands[0].shape;
  const int64_t feature = feature_index(request->instruction);
  const bool in_rank = feature >= 0 && feature < x->rank;
  r->minor = in_rank && feature != x->rank - 1;
  r->reduced = UINT32_MAX & ~(in_rank ? UINT32_C(1) << feature : 0);
  return r->outputs = in_rank ? trm_most(1, x->dims[feature]) : 1;
}

/* Mean and inverse standard deviation of operand 0. */
static trm_status add_statistics(const trm_tile_request *request, trm_tile_cost *cost,
                                 trm_mapping *mean, trm_mapping *deviation, trm_error *error) {
  /* popnn computes sums and sums of squares in the same compute sets. */
  reduction r = {.name = "MeanAndPower",
                 .operation = "ADD",
                 .op_cycles = 1,
                 .partials = TRM_F32,
                 .together = 2};
  set_features(request, &r);
  TRY(add_reduction(request, cost, &request->operands[0], &r, TRM_F32, mean, error));
  *deviation = *mean;
  const int64_t workers = request->target->num_worker_contexts;
  return trm_tile_add_compute(
      request, cost, "VarToInvStdDev", "popops::UnaryOp1D<VARIANCE_TO_INV_STD_DEV,float>",
      deviation->regions, 1, workers * (17 + 6 * trm_ceil_divide(deviation->worst, workers)) + 11,
      1.0, 2, 2 * r.outputs, error);
}

/* The gradient; or its sums alone, for the custom call tremula.batch-norm-gradient-statistics. */
static trm_status add_gradient(const trm_tile_request *request, trm_tile_cost *cost,
                               trm_error *error) {
  const bool is_whole = request->instruction->opcode != TRM_OP_CUSTOM_CALL;
  const trm_tile_operand *x = &request->operands[0];
  const trm_tile_operand *gradient = &request->operands[request->num_operands - 1];
  const trm_dtype type = x->shape.dtype;
  const double vector = 3.0 / trm_tile_vector_width(type);
  const trm_mapping place = x->mapping;
  reduction r = {.name = "JointGammaBeta",
                 .operation = "ADD",
                 .op_cycles = 1,
                 .partials = TRM_F32,
                 .together = 2};
  const int64_t channels = set_features(request, &r);
  trm_mapping sums;
  trm_tile_incoming incoming = {0};
  trm_tile_incoming_add(&incoming, gradient, &place);
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  TRY(add_pass(request, cost, "Whiten", &place, channels, 2 * vector, type, 2, error));
  TRY(add_pass(request, cost, "GammaProduct", &place, 0, vector, type, 1, error));
  TRY(add_reduction(request, cost, x, &r, TRM_F32, &sums, error));
  if (is_whole) {
    TRY(add_pass(request, cost, "NormGrad", &place, channels, 4 * vector, type, 5, error));
  }
  /* The whitened operand and its product with the gradient. */
  const int64_t bytes = trm_tile_dtype_bytes(type);
  cost->temporary_worst += 2 * place.worst * bytes;
  cost->temporary_total += 2 * place.count * bytes;
  for (uint32_t k = 0; k < cost->num_results; ++k) {
    cost->results[k].mapping = is_whole && k == 0 ? place : sums;
  }
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
  reduction features = {0};
  const int64_t channels = set_features(request, &features);
  trm_mapping mean, deviation;
  switch (instruction->opcode) {
    case TRM_OP_CUSTOM_CALL: /* statistics alone */
      if (request->num_operands == 5) return add_gradient(request, cost, error);
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
    default: return add_gradient(request, cost, error);
  }
}
