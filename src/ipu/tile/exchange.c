/* Owns: what moving data on an IPU costs (exchange.h). Sources: docs/cost_model.md, "Exchange". */
#include "ipu/tile/exchange.h"

#include "ipu/target/target.h"

/* A message or a copy vertex moves this many channels of a channel-grouped array at once; and rows
 * that the pieces of two tiles have in common. */
enum { GROUP_ELEMENTS = 16, ROWS_OF_A_PIECE = 4 };

/* Cycles of an exchange in which the worst tile receives and sends this many bytes, without sync.
 * `messages`: those that it receives, and the one that it sends. */
static int64_t exchange_cycles(const trm_target *target, int64_t bytes_in, int64_t bytes_out,
                               int64_t messages) {
  const int64_t bytes = trm_most(bytes_in, bytes_out);
  return bytes <= 0 ? 0
                    : target->exchange_phase_cycles +
                          trm_ceil_divide(bytes, target->exchange_bytes_per_cycle) +
                          (messages - 1) * target->exchange_message_cycles;
}

/* Cycles of copying on one tile, by all its workers, in runs of `run` bytes. */
static int64_t copy_cycles(const trm_target *target, int64_t bytes, int64_t run) {
  const int64_t rate = trm_most(1, trm_least(run, target->memcpy_bytes_per_cycle));
  return bytes <= 0 ? 0 : target->copy_call_cycles + trm_ceil_divide(bytes, rate);
}

int64_t trm_copy_vertices(const trm_target *target, int64_t bytes) {
  const int64_t vectors = trm_ceil_divide(bytes, target->data_path_width / 8);
  return trm_most(1, trm_least(target->num_worker_contexts, vectors));
}

trm_status trm_tile_add_exchange(const trm_tile_request *request, trm_tile_cost *cost,
                                 const char *name, int64_t in_worst, int64_t in_total,
                                 int64_t out_worst, int64_t messages, trm_error *error) {
  if (in_worst <= 0 && out_worst <= 0) return TRM_OK;
  const uint32_t tiles = request->target->tiles_per_ipu;
  const int64_t total = trm_most(in_total, in_worst);
  const trm_phase phase = {
      .kind = TRM_PHASE_EXCHANGE,
      .name = name,
      .cycles = exchange_cycles(request->target, in_worst, out_worst, trm_most(1, messages)),
      .cycles_mean = (double)total / tiles / request->target->exchange_bytes_per_cycle,
      .active_tiles =
          in_worst <= 0 ? 1 : (uint32_t)trm_least(tiles, trm_ceil_divide(total, in_worst)),
      .bytes_in_worst = in_worst,
      .bytes_in_total = total,
      .bytes_out_worst = out_worst,
      .bytes_out_total = trm_least(total, out_worst * tiles),
      .messages_worst = trm_most(1, messages),
      .temporary_worst = in_worst,
      .temporary_total = total,
      .temporary_is_message = true,
  };
  return trm_tile_cost_add(cost, &phase, error);
}

trm_status trm_tile_add_copy(const trm_tile_request *request, trm_tile_cost *cost, const char *name,
                             int64_t worst, int64_t total, int64_t run, uint32_t tiles,
                             trm_error *error) {
  if (worst <= 0) return TRM_OK;
  const trm_target *target = request->target;
  const int64_t cycles = copy_cycles(target, worst, run);
  const int64_t each = trm_copy_vertices(target, worst);
  trm_phase phase = {
      .kind = TRM_PHASE_COPY,
      .name = name,
      .cycles = cycles,
      .cycles_mean = (double)cycles * (double)total / (double)worst / target->tiles_per_ipu,
      .active_tiles = tiles,
      .num_groups = 1,
      .edges = 2 * each * tiles,
  };
  phase.groups[0] = (trm_vertex_group){
      .codelet = run >= 8 ? "poplar_rt::LongMemcpy64Bit" : "poplar_rt::DstStridedCopyDA32",
      .count = each * tiles,
      .cycles = cycles,
      .state_bytes = 16,
      .code_bytes = 270};
  return trm_tile_cost_add(cost, &phase, error);
}

double trm_mapping_evenness(const trm_mapping *mapping) {
  if (mapping->worst <= 0 || mapping->regions == 0) return 1.0;
  const double mean = (double)mapping->count / mapping->regions;
  return mean >= (double)mapping->worst ? 1.0 : mean / (double)mapping->worst;
}

/* Messages that bring `elements` of an operand to one tile. Each tile that has some of them sends a
 * few rows; scattered elements need one message a run. */
static int64_t messages_of(const trm_tile_operand *operand, int64_t elements) {
  const int64_t sources = trm_least(elements, elements / trm_most(1, operand->mapping.worst) + 2);
  const int64_t run = trm_most(1, trm_least(operand->contiguous, GROUP_ELEMENTS));
  const int64_t rows = ROWS_OF_A_PIECE * (GROUP_ELEMENTS / run);
  return trm_least(sources * rows, trm_ceil_divide(elements, run));
}

/* A vector is repeated over an array: how many of its elements the fullest tile needs. If a plan
 * has cut the array (channels last, groups first), a tile needs only those of its channels. */
static int64_t needed_of_repeated(int64_t count, const trm_mapping *place) {
  int64_t needed = trm_least(count, place->worst);
  if (place->kind == TRM_MAPPING_GRID && place->rank >= 2) {
    const int32_t last = place->rank - 1;
    if (place->dims[0] * place->dims[last] == count) {
      const int64_t groups = trm_ceil_divide(place->dims[0], place->cuts[0]);
      const int64_t channels = place->block_size[last] * place->serial[last];
      needed = trm_least(needed, groups * trm_least(channels, place->dims[last]));
    }
  }
  return needed;
}

void trm_tile_incoming_add(trm_tile_incoming *incoming, const trm_tile_operand *operand,
                           const trm_mapping *place) {
  if (operand->is_constant && operand->source_count <= 1) return; /* in the vertex */
  if (operand->source_count == 0 || place->kind == TRM_MAPPING_NONE) return;
  const int64_t count = trm_shape_count(&operand->shape);
  const int64_t bytes = (int64_t)trm_tile_dtype_bytes(operand->shape.dtype);
  const bool repeated = operand->source_count < count;
  if (!repeated && trm_mapping_same_place(&operand->mapping, place)) return;
  /* Of an array a tile needs its share, of a broadcast every element at most once. */
  const int64_t worst = repeated ? needed_of_repeated(operand->source_count, place)
                                 : trm_least(operand->source_count, place->worst);
  const int64_t tiles = trm_most(1, place->regions);
  incoming->in_worst += worst * bytes;
  incoming->in_total += repeated ? worst * bytes * tiles : count * bytes;
  incoming->out_worst += trm_least(operand->mapping.worst, operand->source_count) * bytes;
  incoming->messages += messages_of(operand, worst);
}

trm_status trm_tile_add_incoming(const trm_tile_request *request, trm_tile_cost *cost,
                                 const trm_tile_incoming *incoming, trm_error *error) {
  return trm_tile_add_exchange(request, cost, "ExchangePre", incoming->in_worst, incoming->in_total,
                               incoming->out_worst, incoming->messages, error);
}

trm_status trm_tile_bring(const trm_tile_request *request, trm_tile_cost *cost,
                          const trm_tile_operand *operand, const trm_mapping *wanted,
                          trm_error *error) {
  if (wanted->kind == TRM_MAPPING_NONE) return TRM_OK;
  const int64_t count = trm_shape_count(&operand->shape);
  const bool repeated = operand->source_count < count;
  if (!repeated && !operand->is_view && trm_mapping_same_place(&operand->mapping, wanted)) {
    return TRM_OK;
  }
  trm_tile_incoming incoming = {0};
  trm_tile_incoming_add(&incoming, operand, wanted);
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  /* Messages arrive in the sender's order; a copy puts them in the reader's order. */
  const int64_t bytes = trm_tile_dtype_bytes(operand->shape.dtype);
  if (count <= 1 || operand->source_count <= 1) return TRM_OK;
  const int64_t run = trm_least(trm_most(1, operand->contiguous), GROUP_ELEMENTS) * bytes;
  return trm_tile_add_copy(request, cost, "OnTileCopy", wanted->worst * bytes, count * bytes, run,
                           wanted->regions, error);
}

trm_status trm_tile_bring_to_read(const trm_tile_request *request, trm_tile_cost *cost,
                                  const trm_tile_operand *operand, const trm_mapping *wanted,
                                  trm_error *error) {
  cost->temporary_worst += trm_mapping_worst_bytes(wanted);
  cost->temporary_total += trm_mapping_total_bytes(wanted);
  return trm_tile_bring(request, cost, operand, wanted, error);
}

trm_status trm_tile_add_compute(const trm_tile_request *request, trm_tile_cost *cost,
                                const char *name, const char *codelet, uint32_t tiles,
                                uint32_t per_tile, int64_t cycles, double evenness,
                                uint32_t edges_per_vertex, int64_t flops, trm_error *error) {
  if (tiles == 0 || cycles <= 0) return TRM_OK;
  const uint32_t all = request->target->tiles_per_ipu;
  if (tiles > all) tiles = all;
  trm_phase phase = {
      .kind = TRM_PHASE_COMPUTE,
      .name = name,
      .cycles = cycles + request->target->compute_set_cycles,
      .cycles_mean = (double)cycles * evenness * tiles / all,
      .active_tiles = tiles,
      .num_groups = 1,
      .edges = (int64_t)tiles * per_tile * edges_per_vertex,
      .flops = flops,
  };
  phase.groups[0] = (trm_vertex_group){.codelet = codelet,
                                       .count = (int64_t)tiles * per_tile,
                                       .cycles = cycles,
                                       .state_bytes = 8 + 4 * edges_per_vertex,
                                       .code_bytes = 200};
  return trm_tile_cost_add(cost, &phase, error);
}
