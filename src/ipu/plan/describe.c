/* Owns: describing a plan: its phases, the mapping of its operands. */
#include <math.h>
#include <string.h>

#include "ipu/plan/internal.h"

const char *trm_plan_method_name(trm_plan_method method) {
  static const char *const names[] = {"AMP", "SLIC", "HMAC", "VMAC", "OUTER_PRODUCT"};
  return names[method];
}

const char *trm_plan_fit_name(trm_plan_fit fit) {
  static const char *const names[] = {"target", "raised", "least"};
  return names[fit];
}

const char *trm_plan_step_name(trm_plan_step step) {
  static const char *const names[TRM_NUM_STEPS] = {
      "BroadcastInput", "Rearrange",  "DynamicSlice",  "Convolve", "CastPartials",
      "Reduce",         "AddInPlace", "DynamicUpdate", "Cast",     "RearrangeOutput"};
  return names[step];
}

/* ---- Vertices -------------------------------------------------------------------------------- */

static const char *type_pair(uint32_t in_bytes, uint32_t partial_bytes,
                             const char *const names[3]) {
  return in_bytes == 4 ? names[2] : partial_bytes == 4 ? names[1] : names[0];
}

static const char *vertex_name(const plan_problem *p) {
  static const char *const pointwise[] = {"poplin::ConvPartial1x1Out<half,half>",
                                          "poplin::ConvPartial1x1Out<half,float>",
                                          "poplin::ConvPartial1x1Out<float,float>"};
  static const char *const window[] = {"poplin::ConvPartialnx1<half,half>",
                                       "poplin::ConvPartialnx1<half,float>",
                                       "poplin::ConvPartialnx1<float,float>"};
  static const char *const slic[] = {"poplin::ConvPartial1x4SLIC<half,half>",
                                     "poplin::ConvPartial1x4SLIC<half,float>", ""};
  static const char *const horizontal[] = {"poplin::ConvPartialHorizontalMac<half,half>",
                                           "poplin::ConvPartialHorizontalMac<half,float>",
                                           "poplin::ConvPartialHorizontalMac<float,float>"};
  static const char *const vertical[] = {"poplin::ConvPartialVerticalMac<half,half>",
                                         "poplin::ConvPartialVerticalMac<half,float>", ""};
  static const char *const outer[] = {"poplin::OuterProduct<half>", "poplin::OuterProduct<half>",
                                      "poplin::OuterProduct<float>"};
  const uint32_t in = p->in_bytes, partial = p->partial_bytes;
  switch (p->method) {
    case TRM_METHOD_AMP: return type_pair(in, partial, p->pointwise ? pointwise : window);
    case TRM_METHOD_SLIC: return type_pair(in, partial, slic);
    case TRM_METHOD_HMAC: return type_pair(in, partial, horizontal);
    case TRM_METHOD_VMAC: return type_pair(in, partial, vertical);
    case TRM_METHOD_OUTER_PRODUCT: break;
  }
  return type_pair(in, partial, outer);
}

static const char *reduce_name(uint32_t from, uint32_t to) {
  if (from == 4) {
    return to == 4 ? "poplin::ReduceAdd<float,float>" : "poplin::ReduceAdd<float,half>";
  }
  return to == 4 ? "poplin::ReduceAdd<half,float>" : "poplin::ReduceAdd<half,half>";
}

/* ---- Phases ---------------------------------------------------------------------------------- */

typedef struct describer {
  const plan_choice *choice;
  const plan_cost *cost;
  trm_linear_plan *plan;
  uint32_t tiles;
} describer;

static trm_plan_phase *add_phase(describer *d, trm_plan_step step, const char *vertex,
                                 uint64_t times, uint64_t exchange, uint64_t compute) {
  const trm_target *target = d->choice->problem.target;
  trm_plan_phase *phase = &d->plan->phases[d->plan->num_phases++];
  phase->step = step;
  phase->vertex = vertex;
  phase->times = times;
  phase->exchange_cycles = exchange;
  phase->sync_cycles = exchange > 0 ? trm_target_step_cycles(target) : 0;
  phase->compute_cycles = compute > 0 ? compute + target->compute_set_cycles : 0;
  phase->tiles = d->tiles;
  return phase;
}

/* `each`: vertices on a tile; `edges`: regions that a vertex reads and writes. */
static void set_vertices(trm_plan_phase *phase, uint64_t each, uint64_t edges) {
  phase->vertices = each * phase->tiles;
  phase->edges = edges * phase->vertices;
}

/* The bytes that make a vertex of a further worker worth its while, which transposes: the least
 * that a linear mapping puts on a further tile. And bytes of a message. */
enum { LEAST_TRANSPOSED = 128, MESSAGE_BYTES = 128 };

/* A copy of `bytes` on each tile into another order. `exchanged`: bytes that all tiles receive. */
static void set_rearranged(const describer *d, trm_plan_phase *phase, int64_t bytes,
                           uint64_t exchanged) {
  phase->bytes_in = phase->bytes_out = (uint64_t)bytes;
  phase->bytes_exchanged = exchanged;
  phase->temp_bytes = 2 * (uint64_t)bytes;
  phase->messages = (uint64_t)plan_ceil_div(bytes, MESSAGE_BYTES);
  const int64_t workers = d->choice->problem.target->num_worker_contexts;
  set_vertices(phase, (uint64_t)plan_max(1, plan_min(workers, bytes / LEAST_TRANSPOSED)), 2);
}

static uint64_t distinct_sources(uint64_t bytes, uint64_t tiles) { return bytes == 0 ? 0 : tiles; }

static void describe_before(describer *d) {
  const plan_problem *p = &d->choice->problem;
  const plan_cost *cost = d->cost;
  if (cost->rearranged_bytes > 0) {
    trm_plan_phase *phase = add_phase(d, TRM_STEP_REARRANGE, NULL, (uint64_t)cost->rearranges,
                                      cost->rearrange_exchange, cost->rearrange_copy);
    set_rearranged(d, phase, cost->rearranged_bytes,
                   (uint64_t)(p->rearranged_operands / cost->rearranges));
  }
  if (cost->broadcast_exchange > 0) {
    trm_plan_phase *phase =
        add_phase(d, TRM_STEP_BROADCAST_INPUT, NULL, 1, cost->broadcast_exchange, 0);
    phase->bytes_in = (uint64_t)cost->received_inputs;
    phase->bytes_out = (uint64_t)plan_ceil_div(cost->input_bytes, d->choice->channels.out_parallel);
    phase->bytes_exchanged = phase->bytes_in * d->tiles;
    phase->temp_bytes = (uint64_t)cost->input_bytes;
    phase->messages = d->choice->channels.out_parallel + 1;
  }
}

/* Bytes of a vertex's lists of work for its workers. The lists for convolution units have rows of
 * outputs, an entry of three 2-byte numbers each, for each group of kernel positions that the units
 * do at once. Rows are cut if there are fewer than workers; where the batch is a row, each output
 * position is one (plan_batch_is_row). The list of the vertical method has an entry of four numbers
 * for each output position and row of the kernel. */
static uint64_t list_bytes(const describer *d, uint64_t kernels) {
  const plan_problem *p = &d->choice->problem;
  const plan_positions *at = &d->choice->positions;
  const uint64_t workers = p->target->num_worker_contexts;
  const uint32_t last = p->shape.num_dims > 0 ? p->shape.num_dims - 1 : 0;
  enum { ENTRY_BYTES = 6, VERTICAL_ENTRY_BYTES = 8, POINTER_BYTES = 4, WINDOW = 4 };
  uint64_t at_once = 1;
  switch (p->method) {
    case TRM_METHOD_OUTER_PRODUCT: return 0;
    case TRM_METHOD_VMAC:
      return workers * POINTER_BYTES +
             (uint64_t)at->count * kernels * VERTICAL_ENTRY_BYTES /
                 (uint64_t)plan_max(1, d->choice->channels.tile_kernel[last]);
    case TRM_METHOD_AMP:
      if (p->pointwise) return workers * ENTRY_BYTES;
      at_once = p->filter_height;
      break;
    case TRM_METHOD_SLIC: at_once = WINDOW; break;
    case TRM_METHOD_HMAC: break;
  }
  const bool batch_is_row = plan_batch_is_row(p);
  const uint32_t dims = batch_is_row ? last + 1 : last; /* of which each position has rows */
  double rows = batch_is_row ? 1 : (double)at->tile_batch * p->busy[last]; /* that meet an input */
  for (uint32_t i = 0; i < dims; ++i) rows *= (double)at->tile_field[i] * p->busy[i];
  const uint64_t lists = (kernels + at_once - 1) / at_once * workers;
  const double entries = ceil(rows / (double)workers) * (batch_is_row ? 1 : p->busy[last]);
  return lists * POINTER_BYTES + (uint64_t)((double)lists * entries) * ENTRY_BYTES;
}

static void describe_partials(describer *d) {
  const plan_problem *p = &d->choice->problem;
  const plan_channels *c = &d->choice->channels;
  const plan_positions *at = &d->choice->positions;
  const plan_cost *cost = d->cost;
  const uint64_t iterations = (uint64_t)cost->iterations;
  const uint64_t inputs = cost->broadcast ? 0 : (uint64_t)cost->received_inputs;
  const uint64_t weights = (uint64_t)cost->received_weights;
  if (cost->slice > 0) {
    trm_plan_phase *phase = add_phase(d, TRM_STEP_DYNAMIC_SLICE, "popops::DynamicSlice1d<float>",
                                      iterations, 0, cost->slice);
    phase->temp_bytes = (uint64_t)plan_ceil_div(cost->weight_bytes, at->split);
    phase->compute_cycles += p->target->loop_iteration_cycles; /* each iteration begins here */
    set_vertices(phase, 1, 3);
  }
  trm_plan_phase *phase =
      add_phase(d, TRM_STEP_PARTIALS, vertex_name(p), iterations, cost->exchange, cost->partials);
  phase->bytes_in = inputs + weights;
  phase->bytes_out =
      (inputs == 0 ? 0 : (uint64_t)plan_ceil_div(cost->input_bytes, c->out_parallel)) +
      (weights == 0 ? 0 : (uint64_t)plan_ceil_div(cost->weight_bytes, at->split));
  phase->bytes_exchanged = phase->bytes_in * d->tiles;
  /* A tile also sends its own piece of each, once to all that need it. */
  phase->messages = distinct_sources(inputs, c->out_parallel) +
                    distinct_sources(weights, plan_weight_senders(p, cost->weight_bytes, at)) +
                    (inputs > 0) + (weights > 0);
  phase->temp_bytes = (uint64_t)cost->convolve_bytes;
  if (iterations == 1 && cost->exchange > 0 && cost->rearranged_bytes > 0) {
    phase->exchange_temp_bytes =
        (uint64_t)(cost->rearranged_bytes + cost->input_bytes + cost->weight_bytes);
  }
  uint64_t kernels = 1;
  double busy = 1;
  for (uint32_t i = 0; i < p->shape.num_dims; ++i) {
    kernels *= (uint64_t)c->tile_kernel[i];
    busy *= p->busy[i];
  }
  const uint64_t groups = (uint64_t)(c->tile_groups / p->group_grain);
  const uint64_t in = (uint64_t)(c->tile_in / p->in_grain);
  const uint64_t out = (uint64_t)(c->tile_out / p->out_grain);
  const bool by_worker = p->method == TRM_METHOD_OUTER_PRODUCT;
  const uint64_t edges = groups * (in + in * out * kernels + out);
  set_vertices(phase, by_worker ? p->target->num_worker_contexts : 1, by_worker ? 2 + out : edges);
  phase->list_bytes = list_bytes(d, kernels);
  double macs = (double)c->tile_groups * (double)at->count * (double)c->tile_in *
                (double)c->tile_out * (double)kernels * busy;
  phase->flops = 2 * macs * d->tiles;
}

static void describe_reduce(describer *d) {
  const plan_problem *p = &d->choice->problem;
  const plan_cost *cost = d->cost;
  const bool sums_iterations = d->choice->channels.in_serial > 1;
  const uint64_t iterations = (uint64_t)cost->iterations;
  const uint64_t width = p->exchanged_bytes;
  if (cost->narrow > 0) {
    trm_plan_phase *phase =
        add_phase(d, TRM_STEP_NARROW, "popops::Cast1D<float,half>", iterations, 0, cost->narrow);
    phase->temp_bytes = (uint64_t)cost->partial_elements * (p->partial_bytes + width);
    set_vertices(phase, 1, 2);
  }
  uint64_t elements = (uint64_t)cost->partial_elements;
  for (uint32_t s = 0; s < cost->num_stages; ++s) {
    const plan_stage *stage = &cost->stages[s];
    const bool last = s + 1 == cost->num_stages && !sums_iterations;
    const uint32_t to = last ? p->out_bytes : p->exchanged_bytes;
    trm_plan_phase *phase = add_phase(d, TRM_STEP_REDUCE, reduce_name(p->exchanged_bytes, to),
                                      iterations, stage->exchange, stage->compute);
    phase->bytes_in = (uint64_t)stage->bytes;
    phase->bytes_out = (uint64_t)stage->bytes;
    phase->bytes_exchanged = phase->bytes_in * d->tiles;
    phase->messages = 2 * (uint64_t)(stage->depth - 1);
    phase->temp_bytes = elements * width + phase->bytes_in + (uint64_t)stage->outputs * to;
    /* The sums, the tile's own partial sums, and the others: one block, or one for each tile. */
    const bool one_block = plan_reduces_one_block(p, stage->outputs, stage->depth);
    set_vertices(phase, 1, one_block ? 3 : (uint64_t)stage->depth + 1);
    phase->flops = (double)(stage->depth - 1) * (double)stage->outputs * d->tiles;
    elements = (uint64_t)stage->outputs;
  }
}

static void describe_after(describer *d) {
  const plan_problem *p = &d->choice->problem;
  const plan_cost *cost = d->cost;
  const uint64_t iterations = (uint64_t)cost->iterations, outputs = (uint64_t)cost->outputs;
  const bool sums_iterations = d->choice->channels.in_serial > 1;
  if (cost->add > 0) {
    trm_plan_phase *phase =
        add_phase(d, TRM_STEP_ADD_IN_PLACE,
                  p->exchanged_bytes == 4 ? "popops::ScaledAddSupervisor<float,float,float>"
                                          : "popops::ScaledAddSupervisor<half,half,half>",
                  iterations, 0, cost->add);
    phase->temp_bytes = outputs * p->exchanged_bytes; /* beside the sum, which is live */
    phase->flops = (double)outputs * d->tiles;
    set_vertices(phase, 1, 3);
  }
  if (cost->cast > 0) {
    const uint32_t from = cost->num_stages == 0 ? p->partial_bytes : p->exchanged_bytes;
    trm_plan_phase *phase = add_phase(
        d, TRM_STEP_CAST, from == 4 ? "popops::Cast1D<float,half>" : "popops::Cast1D<half,float>",
        sums_iterations ? 1 : iterations, 0, cost->cast);
    phase->temp_bytes = outputs * (from + p->out_bytes);
    set_vertices(phase, 1, 2);
  }
  if (cost->update > 0) {
    trm_plan_phase *phase =
        add_phase(d, TRM_STEP_DYNAMIC_UPDATE, "popops::DynamicUpdateSlice1d<float>", iterations, 0,
                  cost->update);
    phase->temp_bytes = outputs * p->out_bytes;
    set_vertices(phase, 1, 3);
  }
  if (cost->output_rearranged_bytes > 0) {
    trm_plan_phase *phase =
        add_phase(d, TRM_STEP_REARRANGE_OUTPUT, NULL, 1, cost->output_exchange, cost->output_copy);
    set_rearranged(d, phase, cost->output_rearranged_bytes, (uint64_t)p->rearranged_output);
  }
}

/* ---- Mappings -------------------------------------------------------------------------------- */

/* The order in which cuts number the tiles, the fastest first: output channels, kernel, input
 * channels, field, batch, groups (of kernel and field the last dimension first). So neighbours,
 * which may share a bus, read the same inputs, and tiles with the same inputs, outputs or weights
 * follow each other. */
typedef struct tile_strides {
  uint32_t out, kernels, kernel[TRM_PLAN_MAX_DIMS], in, field[TRM_PLAN_MAX_DIMS], batch, groups;
} tile_strides;

static tile_strides strides_of(const plan_choice *choice) {
  tile_strides s;
  uint32_t stride = 1;
  const plan_channels *c = &choice->channels;
  const plan_positions *at = &choice->positions;
  s.out = stride;
  stride *= c->out_parallel;
  s.kernels = stride;
  for (uint32_t d = TRM_PLAN_MAX_DIMS; d-- > 0;) {
    s.kernel[d] = stride;
    stride *= c->kernel[d];
  }
  s.in = stride;
  stride *= c->in_parallel;
  for (uint32_t d = TRM_PLAN_MAX_DIMS; d-- > 0;) {
    s.field[d] = stride;
    stride *= at->field[d];
  }
  s.batch = stride;
  stride *= at->batch;
  s.groups = stride;
  return s;
}

static void add_cut(trm_plan_mapping *m, int64_t size, int64_t block, uint32_t serial,
                    uint32_t parallel, uint32_t stride) {
  m->cuts[m->num_cuts++] = (trm_plan_cut){size, block, serial, parallel, stride};
  m->tiles *= parallel;
}

static void describe_mappings(const describer *d) {
  const plan_choice *choice = d->choice;
  const plan_problem *p = &choice->problem;
  const plan_channels *c = &choice->channels;
  const plan_positions *at = &choice->positions;
  const tile_strides s = strides_of(choice);
  const trm_conv_params *shape = &p->shape;
  trm_plan_mapping in = {.grain = p->in_grain, .tiles = 1};
  trm_plan_mapping weights = {.grain = (int64_t)p->in_grain * p->out_grain, .tiles = 1};
  trm_plan_mapping out = {.grain = p->out_grain, .tiles = 1};

  add_cut(&in, shape->groups, c->tile_groups, 1, c->groups, s.groups);
  add_cut(&weights, shape->groups, c->tile_groups, 1, c->groups, s.groups);
  add_cut(&out, shape->groups, c->tile_groups, 1, c->groups, s.groups);
  add_cut(&in, shape->batch, at->tile_batch, 1, at->batch, s.batch);
  add_cut(&out, shape->batch, at->tile_batch, 1, at->batch, s.batch);
  uint32_t kernel_split = 1;
  for (uint32_t i = 0; i < shape->num_dims; ++i) {
    /* A tile holds the inputs where its outputs begin; it receives the overlap. */
    const int64_t block = plan_ceil_div(shape->dims[i].input, at->field[i]);
    add_cut(&in, shape->dims[i].input, block, 1, at->field[i], s.field[i]);
    add_cut(&weights, shape->dims[i].kernel, c->tile_kernel[i], 1, c->kernel[i], s.kernel[i]);
    add_cut(&out, p->output[i], at->tile_field[i], 1, at->field[i], s.field[i]);
    kernel_split *= c->kernel[i];
  }
  add_cut(&weights, shape->out_channels, c->tile_out, c->out_serial, c->out_parallel, s.out);
  add_cut(&in, shape->in_channels, c->tile_in, c->in_serial, c->in_parallel, s.in);
  add_cut(&weights, shape->in_channels, c->tile_in, c->in_serial, c->in_parallel, s.in);
  add_cut(&out, shape->out_channels, c->tile_out, c->out_serial, c->out_parallel, s.out);

  /* Data that several tiles read, or add to, is dealt to them. */
  in.share = c->out_parallel * kernel_split;
  in.share_stride = s.out;
  weights.share = at->split;
  weights.share_stride = s.field[TRM_PLAN_MAX_DIMS - 1];
  out.share = c->in_parallel * kernel_split;
  out.share_stride = s.kernels;
  in.tiles *= in.share;
  weights.tiles *= weights.share;
  out.tiles *= out.share;
  const bool exchanged = p->transform.swap_operands != shape->first_is_weights;
  d->plan->inputs = exchanged ? weights : in;
  d->plan->weights = exchanged ? in : weights;
  d->plan->outputs = out;
  d->plan->inputs_rearranged = exchanged ? p->weights_rearranged : p->inputs_rearranged;
  d->plan->weights_rearranged = exchanged ? p->inputs_rearranged : p->weights_rearranged;
  const uint64_t inputs =
      d->cost->received_inputs > 0 || choice->broadcast ? 0 : (uint64_t)d->cost->input_bytes;
  const uint64_t weights_here = d->cost->received_weights > 0 ? 0 : (uint64_t)d->cost->weight_bytes;
  d->plan->inputs_in_place = exchanged ? weights_here : inputs;
  d->plan->weights_in_place = exchanged ? inputs : weights_here;
  const trm_plan_step input_read = p->inputs_rearranged              ? TRM_STEP_REARRANGE
                                   : d->cost->broadcast_exchange > 0 ? TRM_STEP_BROADCAST_INPUT
                                                                     : TRM_STEP_PARTIALS;
  const trm_plan_step weight_read = p->weights_rearranged ? TRM_STEP_REARRANGE : TRM_STEP_PARTIALS;
  d->plan->inputs_last_read = exchanged ? weight_read : input_read;
  d->plan->weights_last_read = exchanged ? input_read : weight_read;
}

/* ---- All ------------------------------------------------------------------------------------- */

void plan_describe(const plan_choice *choice, const trm_conv_params *canonical,
                   trm_linear_plan *plan) {
  const plan_problem *p = &choice->problem;
  const plan_channels *c = &choice->channels;
  const plan_positions *at = &choice->positions;
  plan_cost cost;
  plan_cost_evaluate(p, c, at, choice->broadcast, &cost);
  plan->shape = *canonical;
  plan->transform = p->transform;
  plan->method = p->method;
  for (uint32_t d = 0; d < TRM_PLAN_MAX_DIMS; ++d) {
    plan->partition.field[d] = at->field[d];
    plan->partition.kernel[d] = c->kernel[d];
  }
  plan->partition.batch = at->batch;
  plan->partition.groups = c->groups;
  plan->partition.in_channels = c->in_parallel;
  plan->partition.in_channels_serial = c->in_serial;
  plan->partition.out_channels = c->out_parallel;
  plan->partition.out_channels_serial = c->out_serial;
  plan->conv_groups_per_group = p->group_grain;
  plan->in_channels_per_group = p->in_grain;
  plan->out_channels_per_group = p->out_grain;
  plan->conv_units = p->units;
  plan->partials_type = p->partial_bytes == 2 ? TRM_F16 : TRM_F32;
  plan->broadcast_input_before_loop = choice->broadcast;
  plan->tiles_used = at->split * c->groups * c->in_parallel * c->out_parallel * c->kernel[0] *
                     c->kernel[1] * c->kernel[2];

  describer d = {choice, &cost, plan, plan->tiles_used};
  describe_before(&d);
  describe_partials(&d);
  describe_reduce(&d);
  describe_after(&d);
  plan->cycles = cost.cycles;
  plan->temp_bytes = (uint64_t)cost.temp;
  plan->temp_bytes_total = plan->temp_bytes * plan->tiles_used;
  plan->flops = 2 * (double)canonical->groups * (double)canonical->batch *
                (double)canonical->in_channels * (double)canonical->out_channels;
  for (uint32_t i = 0; i < canonical->num_dims; ++i) {
    plan->flops *= (double)trm_conv_output_size(&canonical->dims[i]) *
                   (double)canonical->dims[i].kernel * plan_busy_share(&canonical->dims[i]);
  }
  for (uint32_t i = 0; i < plan->num_phases; ++i) {
    const bool is_in_loop = plan->phases[i].times > 1;
    if (is_in_loop) plan->phases[i].temp_bytes += (uint64_t)cost.live_bytes;
    plan->vertices += plan->phases[i].vertices;
    plan->edges += plan->phases[i].edges;
    plan->phases[i].temp_bytes_total = plan->phases[i].temp_bytes * plan->phases[i].tiles;
  }
  describe_mappings(&d);
}
