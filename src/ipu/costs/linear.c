/* Owns: convolution and dot on an IPU: the phases of the planner's plan (plan.h).
 *
 * A step of the plan becomes an exchange and a compute set. An operand with another mapping than
 * the plan's is fetched in the plan's first exchange, which then moves more data. If the elements
 * of the operand are scattered (a transposed view), they are first copied into order
 * ("preRegroup"), by vertices that transpose where the operand is turned. Operands that the plan
 * rearranges anyway are fetched by that rearrangement. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "hlo/library_call.h"
#include "ipu/costs/linear.h"
#include "ipu/plan/plan.h"
#include "ipu/tile/exchange.h"

/* Runs of fewer bytes than this are copied into order before the vertices read them, and so is an
 * operand that lies elsewhere and that more tiles than this read (inViewMaxBroadcastDests and
 * weightViewMaxBroadcastDests of poplin's Convolution.cpp). */
enum { REGROUP_BYTES = 8, MOST_VIEWS = 7 };

/* Code of a codelet on a tile, bytes: docs/cost_model.md, "Memory". */
static uint32_t code_bytes(trm_plan_step step, trm_plan_method method) {
  if (step == TRM_STEP_PARTIALS) {
    switch (method) {
      case TRM_METHOD_AMP: return 1200;
      case TRM_METHOD_SLIC: return 1600;
      case TRM_METHOD_HMAC:
      case TRM_METHOD_VMAC: return 900;
      case TRM_METHOD_OUTER_PRODUCT: return 400;
    }
  }
  return step == TRM_STEP_REDUCE ? 600 : 270;
}

enum { MOST_STATE = 400000, MOST_SINGLE_EDGES = 3 };

/* A vertex is a struct of some fields and a pointer an edge, and lists of work. Arrays are the
 * lists, and the pointers of a convolution and of a sum of many blocks. */
static void set_vertex_bytes(const trm_plan_phase *step, uint64_t edges, trm_vertex_group *group) {
  const bool is_convolution = step->step == TRM_STEP_PARTIALS;
  const uint64_t fields = is_convolution ? 40 : 8, pointers = 4 * edges;
  const bool has_array = is_convolution || edges > MOST_SINGLE_EDGES;
  const uint64_t arrays = step->list_bytes + (has_array ? pointers : 0);
  const uint64_t all = fields + step->list_bytes + pointers;
  group->array_bytes = (uint32_t)trm_least(MOST_STATE, (int64_t)arrays);
  group->state_bytes = (uint32_t)trm_least(MOST_STATE, (int64_t)all);
}

static trm_mapping convert_mapping(const trm_tile_request *request, const trm_plan_mapping *from,
                                   trm_dtype dtype) {
  trm_mapping m = {.rank = (int32_t)from->num_cuts,
                   .share = from->share,
                   .share_stride = from->share_stride,
                   .grain = from->grain};
  for (uint32_t d = 0; d < from->num_cuts && d < TRM_MAPPING_RANK; ++d) {
    m.dims[d] = from->cuts[d].size;
    m.block_size[d] = from->cuts[d].block_size;
    m.cuts[d] = from->cuts[d].parallel;
    m.serial[d] = from->cuts[d].serial;
    m.strides[d] = from->cuts[d].tile_stride;
  }
  trm_mapping_finish_grid(request->target, &m, dtype, request->ipu, 0);
  return m;
}

/* poplin's name of a convolution: "Conv_3x3_stride2x2" by its kernel; a product is "Conv_1". */
static const char *convolution_name(trm_arena *arena, const trm_instruction *instruction) {
  const trm_window *window = instruction->window;
  if (instruction->opcode != TRM_OP_CONVOLUTION || window == NULL || window->rank == 0) {
    return "Conv_1";
  }
  char sizes[160] = "", strides[160] = "";
  int used = 0, stride_used = 0;
  bool strided = false;
  for (int32_t d = 0; d < window->rank && used < 130 && stride_used < 130; ++d) {
    const trm_window_dimension *dim = &window->dims[d];
    const char *times = d == 0 ? "" : "x";
    used += snprintf(sizes + used, sizeof sizes - (size_t)used, "%s%" PRId64, times, dim->size);
    stride_used += snprintf(strides + stride_used, sizeof strides - (size_t)stride_used,
                            "%s%" PRId64, times, dim->stride);
    strided |= dim->stride != 1;
  }
  return trm_arena_format(arena, "Conv_%s%s%s", sizes, strided ? "_stride" : "",
                          strided ? strides : "");
}

static int64_t exchange_bytes(const trm_plan_phase *step) {
  return step->exchange_temp_bytes > 0
             ? (int64_t)step->exchange_temp_bytes
             : trm_least((int64_t)step->bytes_in, (int64_t)step->temp_bytes);
}

static trm_plan_pass pass_of(const trm_instruction *instruction) {
  const char *type = instruction->metadata.op_type;
  if (instruction->opcode != TRM_OP_CONVOLUTION || type == NULL) return TRM_PASS_NONE;
  if (strstr(type, "BackpropInput") != NULL) return TRM_PASS_TRAINING_BWD;
  if (strstr(type, "BackpropFilter") != NULL) return TRM_PASS_TRAINING_WU;
  return TRM_PASS_NONE;
}

/* Phases of one step of the plan. */
static trm_status add_step(const trm_tile_request *request, trm_tile_cost *cost,
                           const trm_linear_plan *plan, const char *convolution,
                           const trm_plan_phase *step, trm_error *error) {
  const bool copies = step->vertex == NULL;
  const char *what = trm_plan_step_name(step->step);
  if (copies && step->step == TRM_STEP_REARRANGE) what = "actsRearranged";
  if (copies && step->step == TRM_STEP_REARRANGE_OUTPUT) what = "partials_to_result";
  const char *name = trm_arena_format(cost->arena, "%s/%s", convolution, what);
  CHECK_MEMORY(name, "a cost");
  const uint32_t all = request->target->tiles_per_ipu;
  const bool moves = step->exchange_cycles > 0 || step->bytes_in > 0 || step->bytes_out > 0;
  if (moves) {
    /* The planner counts no messages of what is rearranged: these come on top. */
    const uint64_t messages = copies && step->messages > 0 ? step->messages - 1 : 0;
    const trm_phase exchange = {
        .kind = TRM_PHASE_EXCHANGE,
        .name = name,
        .repeats = (int64_t)step->times,
        .cycles = (int64_t)(step->exchange_cycles +
                            messages * (uint64_t)request->target->exchange_message_cycles),
        .sync_cycles = (int64_t)step->sync_cycles,
        .cycles_mean =
            (double)step->bytes_exchanged / all / request->target->exchange_bytes_per_cycle,
        .active_tiles = step->tiles,
        .bytes_in_worst = (int64_t)step->bytes_in,
        .bytes_in_total = (int64_t)step->bytes_exchanged,
        .bytes_out_worst = (int64_t)step->bytes_out,
        .bytes_out_total =
            trm_least((int64_t)step->bytes_exchanged, (int64_t)step->bytes_out * step->tiles),
        .messages_worst = trm_most(1, (int64_t)step->messages),
        .temporary_worst = exchange_bytes(step),
        .temporary_total =
            step->exchange_temp_bytes > 0
                ? exchange_bytes(step) * step->tiles
                : trm_least((int64_t)step->bytes_exchanged, (int64_t)step->temp_bytes_total),
        .temporary_is_message = true,
    };
    TRY(trm_tile_cost_add(cost, &exchange, error));
  }
  if (step->compute_cycles == 0 && step->vertices == 0) return TRM_OK;
  /* The planner counts what a copy moves; that its vertices are called comes on top. */
  const int64_t cycles =
      (int64_t)step->compute_cycles + (copies ? request->target->copy_call_cycles : 0);
  trm_phase phase = {
      .kind = step->vertex == NULL ? TRM_PHASE_COPY : TRM_PHASE_COMPUTE,
      .name = name,
      .repeats = (int64_t)step->times,
      .cycles = cycles,
      .sync_cycles = moves ? 0 : (int64_t)step->sync_cycles,
      .cycles_mean = (double)cycles * step->tiles / all,
      .active_tiles = step->tiles,
      .num_groups = 1,
      .edges = (int64_t)step->edges,
      .flops = (int64_t)step->flops,
      .temporary_worst = (int64_t)step->temp_bytes,
      .temporary_total = (int64_t)step->temp_bytes_total,
  };
  const uint64_t edges = step->vertices == 0 ? 2 : step->edges / step->vertices;
  phase.groups[0] = (trm_vertex_group){
      .codelet = step->vertex == NULL
                     ? "poplar_rt::DstStridedCopyDA32"
                     : trm_arena_string(cost->arena, step->vertex, strlen(step->vertex)),
      .count = (int64_t)step->vertices,
      .cycles = cycles,
      .code_bytes = code_bytes(step->step, plan->method),
  };
  CHECK_MEMORY(phase.groups[0].codelet, "a cost");
  set_vertex_bytes(step, edges, &phase.groups[0]);
  return trm_tile_cost_add(cost, &phase, error);
}

trm_status trm_tile_plan_matmul(const trm_tile_request *request, trm_tile_cost *cost, int64_t batch,
                                int64_t m, int64_t k, int64_t n, trm_linear_plan **out_plan,
                                trm_error *error) {
  const trm_conv_params params = trm_conv_params_matmul(
      TRM_F32, TRM_F32, trm_most(1, batch), trm_most(1, m), trm_most(1, k), trm_most(1, n));
  const trm_plan_options options =
      request->options->matmul == NULL ? trm_plan_options_default() : *request->options->matmul;
  *out_plan = ARENA_NEW(cost->arena, trm_linear_plan, 1);
  CHECK_MEMORY(*out_plan, "a plan");
  return trm_linear_plan_make(request->target, &params, &options, request->plans, *out_plan, error);
}

trm_status trm_tile_add_plan(const trm_tile_request *request, trm_tile_cost *cost,
                             const trm_linear_plan *plan, const char *name, int64_t times,
                             trm_error *error) {
  const char *convolution = trm_arena_format(cost->arena, "%s/Conv_1", name);
  CHECK_MEMORY(convolution, "a cost");
  const size_t first = cost->phases.count;
  for (uint32_t s = 0; s < plan->num_phases; ++s) {
    TRY(add_step(request, cost, plan, convolution, &plan->phases[s], error));
  }
  for (size_t p = first; p < cost->phases.count; ++p) cost->phases.items[p].repeats *= times;
  return TRM_OK;
}

/* Whether the elements that a product sums are not contiguous in an operand with another mapping:
 * the last dimension is contiguous, but weights have their input channels last. */
static bool is_turned(const trm_tile_request *request, uint32_t k) {
  const trm_dot *dot = request->instruction->dot;
  const trm_tile_operand *operand = &request->operands[k];
  const trm_dims *summed = dot == NULL ? NULL
                           : k == 0    ? &dot->lhs_contracting
                                       : &dot->rhs_contracting;
  if (summed == NULL || summed->count != 1 || operand->shape.rank < 2) return false;
  if (operand->shape.dims[summed->items[0]] == 1) return false; /* one element has no order */
  const bool is_last = summed->items[0] == operand->shape.rank - 1;
  const bool is_weights = operand->is_movable && operand->mapping.kind == TRM_MAPPING_GRID;
  return is_last == (k == 1 && is_weights);
}

/* The fetched operands. */
typedef struct prepared {
  trm_tile_incoming incoming; /* with the first exchange */
  int64_t worst, total;  /* bytes of regrouped arrays, which live until the vertices have run */
  bool is_there[2];      /* the operand, or its regrouped copy, has the plan's mapping */
  int64_t read_in_place; /* bytes of a tile that the vertices read where they are */
  bool is_freed[2];      /* its regrouped copy takes its place before the plan begins */
} prepared;

/* Transposes the blocks of channels of a regrouped operand. A block has four vectors each way. */
static trm_status add_transpose(const trm_tile_request *request, trm_tile_cost *cost,
                                const trm_mapping *wanted, int64_t bytes, trm_error *error) {
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t vector = 8 / bytes, side = 4 * vector;
  const int64_t blocks = trm_ceil_divide(wanted->worst, side * side);
  const int64_t block = 18 + 4 * (12 + (bytes == 2 ? 4 : 3) * 2);
  return trm_tile_add_compute(request, cost, "preRegroup/Transpose", "popops::Transpose2d",
                              wanted->regions, 1,
                              7 + workers * (29 + trm_ceil_divide(blocks, workers) * block),
                              trm_mapping_evenness(wanted), 2, 0, error);
}

/* Adds the work for operand k if it does not have the plan's mapping. */
static trm_status fetch_operand(const trm_tile_request *request, trm_tile_cost *cost, uint32_t k,
                                const trm_mapping *wanted, prepared *p, trm_error *error) {
  const trm_tile_operand *operand = &request->operands[k];
  p->is_there[k] = !operand->is_view && trm_mapping_same_place(&operand->mapping, wanted);
  if (p->is_there[k]) return TRM_OK;
  const int64_t bytes = trm_tile_dtype_bytes(operand->shape.dtype);
  const int64_t run = trm_most(1, operand->contiguous) * bytes;
  const bool is_array = operand->source_count > 1 && wanted->worst > 0;
  const bool turns = is_array && is_turned(request, k);
  const bool regroups = turns || (is_array && run < REGROUP_BYTES);
  const bool moves_once = is_array && !regroups && wanted->share > MOST_VIEWS;
  trm_tile_incoming once = {0};
  trm_tile_incoming_add(moves_once || turns ? &once : &p->incoming, operand, wanted);
  if (!regroups && once.in_worst <= 0) return TRM_OK;
  p->is_there[k] = p->is_freed[k] = true;
  p->worst += wanted->worst * bytes;
  p->total += trm_mapping_total_bytes(wanted);
  if (moves_once) {
    TRY(trm_tile_add_exchange(request, cost, k == 0 ? "actsRearranged" : "weightsRearranged",
                              once.in_worst, once.in_total, once.out_worst, once.messages, error));
  } else {
    if (turns) {
      TRY(trm_tile_add_exchange(request, cost, "preRegroup/ExchangePre", once.in_worst,
                                once.in_total, once.out_worst, once.messages, error));
    }
    TRY(trm_tile_add_copy(request, cost, "preRegroup", wanted->worst * bytes,
                          trm_mapping_total_bytes(wanted), run, wanted->regions, error));
    if (turns) TRY(add_transpose(request, cost, wanted, bytes, error));
  }
  trm_phase *copy = &cost->phases.items[cost->phases.count - 1];
  copy->temporary_worst = wanted->worst * bytes;
  copy->temporary_total = trm_mapping_total_bytes(wanted);
  copy->frees = 1u << k;
  return TRM_OK;
}

static trm_status describe_plan(trm_tile_cost *cost, const trm_linear_plan *plan,
                                trm_error *error) {
  const trm_plan_partition *p = &plan->partition;
  char field[64] = "";
  int used = 0;
  for (uint32_t d = 0; d < plan->shape.num_dims && used < 48; ++d) {
    used += snprintf(field + used, sizeof field - (size_t)used, "%s%" PRIu32 "/%" PRIu32,
                     d == 0 ? ", field/kernel " : " x ", p->field[d], p->kernel[d]);
  }
  cost->plan = trm_arena_format(
      cost->arena,
      "%s on %" PRIu32 " tiles: groups %" PRIu32 ", batch %" PRIu32 "%s, out channels %" PRIu32
      " x %" PRIu32 " serially, in channels %" PRIu32 " x %" PRIu32 " serially; %" PRIu64
      " temporary bytes of %" PRIu64 " allowed",
      trm_plan_method_name(plan->method), plan->tiles_used, p->groups, p->batch, field,
      p->out_channels, p->out_channels_serial, p->in_channels, p->in_channels_serial,
      plan->temp_bytes, plan->bytes_allowed);
  CHECK_MEMORY(cost->plan, "a cost");
  if (plan->fit != TRM_FIT_TARGET) {
    cost->note =
        trm_arena_format(cost->arena,
                         "convolution planner unable to meet memory target: the least is %" PRIu64
                         " temporary bytes on a tile, allowed are %" PRIu64 " (%s)",
                         plan->temp_bytes, plan->bytes_allowed, trm_plan_fit_name(plan->fit));
    CHECK_MEMORY(cost->note, "a cost");
  }
  return TRM_OK;
}

/* The number of products in one element of the result. */
static int64_t depth_of(const trm_tile_request *request) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *lhs = &request->operands[0].shape, *rhs = &request->operands[1].shape;
  if (instruction->opcode == TRM_OP_CONVOLUTION && instruction->convolution != NULL) {
    const int64_t out = instruction->convolution->kernel_output_feature;
    const bool in_rank = out >= 0 && out < rhs->rank;
    return trm_most(1, trm_shape_count(rhs) / trm_most(1, in_rank ? rhs->dims[out] : 1));
  }
  int64_t depth = 1;
  const trm_dot *dot = instruction->dot;
  for (int32_t k = 0; dot != NULL && k < dot->lhs_contracting.count; ++k) {
    depth *= trm_most(1, lhs->dims[dot->lhs_contracting.items[k]]);
  }
  return depth;
}

/* Multiply-adds by scalar instructions: for types without convolution units (integers, and types
 * that an IPU lacks) and for shapes that the planner does not take. */
static trm_status cost_scalar(const trm_tile_request *request, trm_tile_cost *cost,
                              trm_error *error) {
  const trm_mapping *place = &cost->results[0].mapping;
  const int64_t depth = depth_of(request);
  trm_tile_incoming incoming = {0};
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    trm_tile_incoming_add(&incoming, &request->operands[k], place);
  }
  const int64_t bytes = trm_tile_dtype_bytes(request->operands[0].shape.dtype);
  const int64_t all =
      trm_shape_count(&request->operands[0].shape) + trm_shape_count(&request->operands[1].shape);
  incoming.in_worst = trm_most(incoming.in_worst, trm_least(all, place->worst * depth) * bytes);
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t cycles = workers * (30 + trm_ceil_divide(place->worst, workers) * depth * 14) + 11;
  return trm_tile_add_compute(request, cost, "Convolve", "popops::map_multiply_add", place->regions,
                              1, cycles, trm_mapping_evenness(place), 3, 2 * depth * place->count,
                              error);
}

/* The plan; *out_taken is false when the planner does not take the shape. */
static trm_status make_plan(const trm_tile_request *request, const trm_plan_options *options,
                            trm_tile_cost *cost, trm_linear_plan *plan, bool *out_taken,
                            trm_error *error) {
  trm_conv_params params;
  trm_error why;
  *out_taken = false;
  trm_status status =
      trm_conv_params_from_instruction(request->computation, request->instruction, &params, &why);
  if (status == TRM_OK) {
    if (params.output_type != TRM_F16 && params.output_type != TRM_F32) {
      params.output_type = params.input_type;
    }
    status = trm_linear_plan_make(request->target, &params, options, request->plans, plan, &why);
  }
  *out_taken = status == TRM_OK;
  if (status == TRM_OK) return TRM_OK;
  if (status == TRM_RESOURCE_EXHAUSTED || options->constraints != NULL) {
    return trm_fail(error, status, "%s", why.message);
  }
  cost->note = trm_arena_format(cost->arena,
                                "is not planned (%s): it is counted as scalar "
                                "multiply-adds",
                                why.message);
  CHECK_MEMORY(cost->note, "a cost");
  return TRM_OK;
}

/* Sets the options of a recurrent layer (JSON), which its products have. */
static trm_status set_layer_options(const char *json, trm_plan_options *options, trm_error *error) {
  static const char *const keys[] = {"partialsType", "availableMemoryProportion"};
  json_t *object = json_loads(json, 0, NULL);
  trm_status status = TRM_OK;
  for (size_t k = 0; k < sizeof keys / sizeof *keys && status == TRM_OK; ++k) {
    const json_t *value = json_object_get(object, keys[k]);
    char text[64];
    if (json_is_number(value)) {
      snprintf(text, sizeof text, "%.17g", json_number_value(value));
    } else if (json_is_string(value)) {
      snprintf(text, sizeof text, "%s", json_string_value(value));
    } else {
      continue;
    }
    status = trm_plan_option_set(options, keys[k], text, error);
  }
  json_decref(object);
  return status;
}

/* An option that scopes set for one op, by poplibs' name. */
static trm_status own_options(const trm_instruction *instruction, trm_plan_options *options,
                              trm_error *error) {
  static const char *const keys[][2] = {{"PARTIALS_TYPE", "partialsType"},
                                        {"availableMemoryProportion", "availableMemoryProportion"}};
  for (size_t k = 0; k < sizeof keys / sizeof *keys; ++k) {
    const char *value = trm_instruction_frontend_attribute(instruction, keys[k][0]);
    if (value != NULL) TRY(trm_plan_option_set(options, keys[k][1], value, error));
  }
  const char *layer = trm_instruction_frontend_attribute(instruction, TRM_LAYER_OPTIONS);
  return layer == NULL ? TRM_OK : set_layer_options(layer, options, error);
}

/* A result that is larger than the planned one (trm_linear_plan.shape) has zeros among the computed
 * elements. */
static trm_status add_zeros(const trm_tile_request *request, trm_tile_cost *cost,
                            trm_mapping *result, trm_error *error) {
  const trm_shape *shape = &request->instruction->shape;
  const int64_t all = trm_shape_count(shape), computed = result->count;
  if (computed >= all) return TRM_OK;
  enum { BATCH = 1 }; /* of a plan's outputs: groups, batch, fields, channels */
  if (all % computed == 0 && result->kind == TRM_MAPPING_GRID && result->rank > BATCH) {
    result->dims[BATCH] *= all / computed;
    result->block_size[BATCH] *= all / computed;
    trm_mapping_finish_grid(request->target, result, shape->dtype, request->ipu, 0);
  } else {
    *result = trm_mapping_linear(request->target, shape, request->ipu, 0);
  }
  const int64_t zeros = trm_ceil_divide(result->worst * (all - computed), all);
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t vectors = trm_ceil_divide(zeros, workers * trm_tile_vector_width(shape->dtype));
  return trm_tile_add_compute(request, cost, "Zero", "popops::Fill", result->regions, 1,
                              workers * (26 + vectors) + 11, trm_mapping_evenness(result), 1, 0,
                              error);
}

/* Says where the plan wants the operands, and fetches those that it does not rearrange. */
static trm_status fetch_operands(const trm_tile_request *request, trm_tile_cost *cost,
                                 const trm_linear_plan *plan, prepared *operands,
                                 trm_error *error) {
  const trm_plan_mapping *const planned[2] = {&plan->inputs, &plan->weights};
  const bool rearranged[2] = {plan->inputs_rearranged, plan->weights_rearranged};
  const uint64_t in_place[2] = {plan->inputs_in_place, plan->weights_in_place};
  for (uint32_t k = 0; k < 2; ++k) {
    const trm_shape *shape = &request->operands[k].shape;
    trm_mapping place = convert_mapping(request, planned[k], request->operands[0].shape.dtype);
    /* A rearranged operand may contain zeros or repeated elements, which the operand itself does
     * not. */
    if (rearranged[k] && place.count != trm_shape_count(shape)) {
      place = trm_mapping_linear(request->target, shape, request->ipu, 0);
    }
    if (!rearranged[k]) {
      TRY(fetch_operand(request, cost, k, &place, operands, error));
      operands->read_in_place += operands->is_there[k] ? (int64_t)in_place[k] : 0;
    }
    cost->preferences[cost->num_preferences++] =
        (trm_tile_preference){.operand = k,
                              .mapping = place,
                              .kind = k == 0 ? TRM_PREFERENCE_ACTIVATION : TRM_PREFERENCE_WEIGHTS};
  }
  return TRM_OK;
}

/* The operands that no step of the plan reads after this one. */
static uint32_t freed_by(const trm_linear_plan *plan, trm_plan_step step,
                         const prepared *operands) {
  const trm_plan_step last[2] = {plan->inputs_last_read, plan->weights_last_read};
  uint32_t freed = 0;
  for (uint32_t k = 0; k < 2; ++k) {
    if (last[k] == step && !operands->is_freed[k]) freed |= 1u << k;
  }
  return freed;
}

/* Adds the steps of the plan. */
static trm_status add_steps(const trm_tile_request *request, trm_tile_cost *cost,
                            const trm_linear_plan *plan, const prepared *operands,
                            trm_error *error) {
  const char *convolution = convolution_name(cost->arena, request->instruction);
  CHECK_MEMORY(convolution, "a cost");
  bool is_before = true; /* regrouped operands live until the vertices have run */
  for (uint32_t s = 0; s < plan->num_phases; ++s) {
    const trm_plan_step step = plan->phases[s].step;
    const size_t first = cost->phases.count;
    TRY(add_step(request, cost, plan, convolution, &plan->phases[s], error));
    if (cost->phases.count == first) continue;
    trm_phase *last = &cost->phases.items[cost->phases.count - 1];
    last->frees = freed_by(plan, step, operands);
    if (step == TRM_STEP_PARTIALS) {
      const int64_t there = operands->read_in_place;
      last->temporary_worst = trm_most(0, last->temporary_worst - there);
      last->temporary_total = trm_most(0, last->temporary_total - there * last->active_tiles);
    }
    for (size_t p = first; is_before && p < cost->phases.count; ++p) {
      cost->phases.items[p].temporary_worst += operands->worst;
      cost->phases.items[p].temporary_total += operands->total;
    }
    is_before = is_before && step != TRM_STEP_PARTIALS;
  }
  return TRM_OK;
}

/* Adds the fetched data to the first exchange among the phases from `first` on. Without one before
 * the first compute set, it has an exchange of its own. That comes before all else, because in a
 * loop every iteration would count it. */
static trm_status add_fetched(const trm_tile_request *request, trm_tile_cost *cost, size_t first,
                              const trm_tile_incoming *incoming, trm_error *error) {
  if (incoming->in_worst <= 0) return TRM_OK;
  for (size_t p = first; p < cost->phases.count; ++p) {
    trm_phase *phase = &cost->phases.items[p];
    if (phase->kind == TRM_PHASE_COMPUTE) break;
    if (phase->kind != TRM_PHASE_EXCHANGE || phase->repeats != 1) continue;
    phase->cycles +=
        trm_ceil_divide(incoming->in_worst, request->target->exchange_bytes_per_cycle) +
        incoming->messages * request->target->exchange_message_cycles;
    phase->bytes_in_worst += incoming->in_worst;
    phase->bytes_in_total += incoming->in_total;
    phase->bytes_out_worst += incoming->out_worst;
    phase->bytes_out_total += incoming->in_total;
    phase->messages_worst += incoming->messages;
    return TRM_OK;
  }
  TRY(trm_tile_add_incoming(request, cost, incoming, error));
  const trm_phase added = cost->phases.items[cost->phases.count - 1];
  memmove(&cost->phases.items[first + 1], &cost->phases.items[first],
          (cost->phases.count - 1 - first) * sizeof added);
  cost->phases.items[first] = added;
  return TRM_OK;
}

static trm_status cost_linear(const trm_tile_request *request, trm_tile_cost *cost,
                              const trm_plan_options *base, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  trm_mapping *result = &cost->results[0].mapping;
  if (result->kind == TRM_MAPPING_NONE || request->num_operands < 2) return TRM_OK;
  for (uint32_t k = 0; k < 2; ++k) {
    if (trm_shape_count(&request->operands[k].shape) == 0) { /* a sum of no products: zeros */
      return trm_tile_add_compute(request, cost, "Fill", "popops::Fill", result->regions, 1,
                                  26 + result->worst / 2, 1.0, 1, 0, error);
    }
  }
  const trm_dtype type = request->operands[0].shape.dtype;
  if ((type != TRM_F16 && type != TRM_F32) || request->operands[1].shape.dtype != type ||
      instruction->opcode == TRM_OP_RAGGED_DOT) {
    return cost_scalar(request, cost, error);
  }
  trm_plan_options options = base == NULL ? trm_plan_options_default() : *base;
  trm_linear_plan plan; /* 4 KB, of which the program keeps the text */
  if (options.pass == TRM_PASS_NONE) options.pass = pass_of(instruction);
  TRY(own_options(instruction, &options, error));
  bool taken;
  TRY(make_plan(request, &options, cost, &plan, &taken, error));
  if (!taken) return cost_scalar(request, cost, error);
  TRY(describe_plan(cost, &plan, error));
  prepared operands = {0};
  TRY(fetch_operands(request, cost, &plan, &operands, error));
  const size_t first = cost->phases.count;
  TRY(add_steps(request, cost, &plan, &operands, error));
  TRY(add_fetched(request, cost, first, &operands.incoming, error));
  *result = convert_mapping(request, &plan.outputs, instruction->shape.dtype);
  TRY(add_zeros(request, cost, result, error));
  cost->is_result_updated = plan.partition.out_channels_serial > 1;
  if (cost->phases.count > 0 && !cost->is_result_updated) {
    /* The last step holds the result, which is a variable of its own here. */
    trm_phase *last = &cost->phases.items[cost->phases.count - 1];
    last->temporary_worst = trm_most(0, last->temporary_worst - trm_mapping_worst_bytes(result));
    last->temporary_total = trm_most(0, last->temporary_total - trm_mapping_total_bytes(result));
  }
  return TRM_OK;
}

trm_status trm_tile_convolution(const trm_tile_request *request, trm_tile_cost *cost,
                                trm_error *error) {
  return cost_linear(request, cost, request->options->convolution, error);
}

trm_status trm_tile_dot(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  return cost_linear(request, cost, request->options->matmul, error);
}
