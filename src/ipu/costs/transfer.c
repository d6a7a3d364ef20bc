/* Owns: transfers that leave an IPU: collectives between replicas, feeds and other streams of the
 * host. Formulas: docs/cost_model.md, "Collectives, links, host". */
#include <math.h>
#include <string.h>

#include "hlo/config.h"
#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"
#include "tremula/program.h"

static int64_t cycles_of(const trm_target *target, double bytes, double bytes_per_second) {
  return bytes_per_second <= 0 ? 0
                               : (int64_t)ceil(bytes / bytes_per_second * target->clock_frequency);
}

static trm_status add_transfer(const trm_tile_request *request, trm_tile_cost *cost,
                               trm_phase_kind kind, const char *name, int64_t cycles, int64_t bytes,
                               bool in, trm_error *error) {
  const uint32_t tiles = request->target->tiles_per_ipu;
  /* The host reads and writes the memory of tiles directly, without a buffer. */
  const bool is_buffered = kind == TRM_PHASE_GLOBAL_EXCHANGE || kind == TRM_PHASE_CROSS_REPLICA;
  const trm_phase phase = {
      .kind = kind,
      .name = name,
      .cycles = cycles,
      .sync_cycles = request->target->global_sync_cycles,
      .cycles_mean = (double)cycles,
      .active_tiles = tiles,
      .bytes_in_worst = in ? trm_ceil_divide(bytes, tiles) : 0,
      .bytes_in_total = in ? bytes : 0,
      .bytes_out_worst = in && kind != TRM_PHASE_CROSS_REPLICA ? 0 : trm_ceil_divide(bytes, tiles),
      .bytes_out_total = in && kind != TRM_PHASE_CROSS_REPLICA ? 0 : bytes,
      .messages_worst = 1,
      .temporary_worst = is_buffered ? trm_ceil_divide(bytes, tiles) : 0,
      .temporary_total = is_buffered ? bytes : 0,
      .temporary_is_message = is_buffered,
  };
  return trm_tile_cost_add(cost, &phase, error);
}

int64_t trm_tile_group_size(const trm_tile_request *request) {
  const trm_collective *c = request->instruction->collective;
  int64_t size = request->options->replicas;
  const int64_t stated = trm_config_integer(request->instruction, "group_size", 0);
  if (stated > 0) size = trm_least(trm_most(1, size), stated);
  if (c != NULL && c->replica_groups.count > 0 && c->replica_groups.groups[0].count > 0) {
    size = trm_least(trm_most(1, size), c->replica_groups.groups[0].count);
  }
  return trm_most(1, size);
}

/* Where a group's replicas are: in how many IPU-Link domains, and how many of them in each. */
typedef struct places {
  int64_t domains, inside;
} places;

/* Replicas follow each other on the machine's IPUs. A group's members lie evenly in domains. */
static places find_places(const trm_tile_request *request, int64_t group) {
  const trm_target *target = request->target;
  const trm_collective *c = request->instruction->collective;
  const int64_t ipus = trm_most(1, request->options->replica_ipus);
  const int64_t replicas = trm_most(1, target->ipu_link_domain_size / ipus); /* of a domain */
  if (target->gw_link_bytes_per_second <= 0) return (places){1, group};
  const trm_dims *stated =
      c != NULL && c->replica_groups.count > 0 && c->replica_groups.groups[0].count == group
          ? &c->replica_groups.groups[0]
          : NULL;
  int64_t domains = 1;
  for (int64_t k = 1; k < group; ++k) {
    const int64_t before = stated != NULL ? stated->items[k - 1] : k - 1;
    domains += (stated != NULL ? stated->items[k] : k) / replicas != before / replicas;
  }
  return (places){domains, trm_ceil_divide(group, domains)};
}

/* A ring: in each step every replica sends a share to the next. `rounds` of (R - 1) steps;
 * `reduces`: the receiver adds the share; `between`: over GW-Links. */
typedef struct ring {
  const char *name;
  int64_t bytes, replicas, rounds;
  bool reduces, between;
} ring;

static trm_status add_ring(const trm_tile_request *request, trm_tile_cost *cost, const ring *r,
                           trm_error *error) {
  const trm_target *target = request->target;
  if (r->replicas <= 1 || r->bytes == 0) return TRM_OK;
  const int64_t share = trm_ceil_divide(r->bytes, r->replicas);
  const int64_t steps = r->replicas - 1;
  const double rate = r->between ? target->gw_link_bytes_per_second : trm_target_link_rate(target);
  TRY(add_transfer(request, cost, TRM_PHASE_CROSS_REPLICA, r->name,
                   cycles_of(target, (double)share, rate), share, true, error));
  trm_phase *phase = &cost->phases.items[cost->phases.count - 1];
  phase->repeats = steps * r->rounds;
  phase->is_between_domains = r->between;
  if (!r->reduces) return TRM_OK;
  const int64_t worst = trm_ceil_divide(share / 4 + 1, target->tiles_per_ipu);
  const int64_t workers = target->num_worker_contexts;
  TRY(trm_tile_add_compute(request, cost, r->rounds == 1 ? "ReduceScatter/Add" : "AllReduceAdd",
                           "popops::BinaryOp1DInPlace<ADD,float>", target->tiles_per_ipu, 1,
                           workers * (58 + trm_ceil_divide(worst, workers) * 2) + 11, 1.0, 2,
                           share / 4, error));
  cost->phases.items[cost->phases.count - 1].repeats = steps;
  return TRM_OK;
}

/* A ring in each domain, and one between the domains for each share of these. */
static trm_status add_rings(const trm_tile_request *request, trm_tile_cost *cost, const ring *whole,
                            trm_error *error) {
  if (whole->replicas <= 1 || whole->bytes == 0) {
    /* A group of one copies its operand. */
    const uint32_t tiles = request->target->tiles_per_ipu;
    return trm_tile_add_copy(request, cost, whole->name, trm_ceil_divide(whole->bytes, tiles),
                             whole->bytes, 8, tiles, error);
  }
  const places at = find_places(request, whole->replicas);
  ring inside = *whole, outside = *whole;
  inside.replicas = at.inside;
  outside.replicas = at.domains;
  outside.bytes = trm_ceil_divide(whole->bytes, at.inside);
  outside.between = true;
  TRY(add_ring(request, cost, &inside, error));
  return add_ring(request, cost, &outside, error);
}

/* Each replica sends every other one a share of its own: first what stays in the domain. */
static trm_status add_all_to_all(const trm_tile_request *request, trm_tile_cost *cost,
                                 int64_t bytes, int64_t replicas, trm_error *error) {
  const places at = find_places(request, replicas);
  ring inside = {"AllToAll", bytes, replicas, 1, false, false};
  if (at.domains <= 1) return add_rings(request, cost, &inside, error);
  inside.bytes = trm_ceil_divide(bytes, at.domains);
  inside.replicas = at.inside;
  const ring outside = {"AllToAll", bytes, at.domains, 1, false, true};
  TRY(add_ring(request, cost, &inside, error));
  return add_ring(request, cost, &outside, error);
}

/* Whole operands go from replica to replica. */
static trm_status add_permute(const trm_tile_request *request, trm_tile_cost *cost, int64_t bytes,
                              int64_t replicas, trm_error *error) {
  const trm_target *target = request->target;
  const bool between = find_places(request, replicas).domains > 1;
  const double rate = between ? target->gw_link_bytes_per_second : trm_target_link_rate(target);
  TRY(add_transfer(request, cost, TRM_PHASE_CROSS_REPLICA, "CrossReplicaCopy",
                   cycles_of(target, (double)bytes, rate), bytes, true, error));
  cost->phases.items[cost->phases.count - 1].is_between_domains = between;
  return TRM_OK;
}

trm_status trm_tile_collective(const trm_tile_request *request, trm_tile_cost *cost,
                               trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  const int64_t replicas = trm_tile_group_size(request);
  int64_t bytes = 0;
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    bytes += trm_tile_shape_bytes(&request->operands[k].shape);
  }
  switch (trm_instruction_acts_as(instruction)) {
    case TRM_OP_CUSTOM_CALL: /* the replication factor, a constant */
      return trm_tile_add_compute(request, cost, "Fill", "popops::Fill<int>", 1, 1, 37, 1.0, 1, 0,
                                  error);
    case TRM_OP_ALL_REDUCE:
    case TRM_OP_ALL_REDUCE_START:
      for (uint32_t k = 0; k < request->num_operands && k < cost->num_results; ++k) {
        const trm_tile_operand *operand = &request->operands[k];
        if (operand->is_view || operand->mapping.kind == TRM_MAPPING_NONE) continue;
        cost->results[k].mapping = operand->mapping;
        if (operand->dies) cost->results[k].in_place = (int32_t)k;
      }
      if (request->shards <= 1) {
        return add_rings(request, cost, &(ring){"AllReduce", bytes, replicas, 2, true, false},
                         error);
      }
      return add_rings(request, cost, &(ring){"ReduceScatter", bytes, replicas, 1, true, false},
                       error);
    case TRM_OP_REDUCE_SCATTER:
      return add_rings(request, cost, &(ring){"ReduceScatter", bytes, replicas, 1, true, false},
                       error);
    case TRM_OP_ALL_GATHER:
    case TRM_OP_ALL_GATHER_START:
      return add_rings(request, cost,
                       &(ring){"AllGather", bytes * replicas, replicas, 1, false, false}, error);
    case TRM_OP_ALL_TO_ALL:
    case TRM_OP_RAGGED_ALL_TO_ALL: return add_all_to_all(request, cost, bytes, replicas, error);
    default: /* broadcast, permute */
      if (replicas <= 1) {
        return add_rings(request, cost, &(ring){"CrossReplicaCopy", bytes, 1, 1, false, false},
                         error);
      }
      return add_permute(request, cost, bytes, replicas, error);
  }
}

trm_status trm_tile_gather_shards(const trm_tile_request *request, trm_tile_cost *cost,
                                  int64_t bytes, trm_error *error) {
  return add_rings(request, cost, &(ring){"AllGather", bytes, request->shards, 1, false, false},
                   error);
}

static int64_t operand_bytes(const trm_tile_request *request) {
  int64_t bytes = 0;
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    bytes += trm_tile_shape_bytes(&request->operands[k].shape);
  }
  return bytes;
}

static trm_status add_host(const trm_tile_request *request, trm_tile_cost *cost, bool reads,
                           int64_t bytes, trm_error *error) {
  const trm_target *target = request->target;
  return add_transfer(request, cost, reads ? TRM_PHASE_HOST_READ : TRM_PHASE_HOST_WRITE,
                      reads ? "StreamCopyHostToDevice" : "StreamCopyDeviceToHost",
                      (int64_t)ceil(trm_target_host_cycles(target, reads, bytes)), bytes, reads,
                      error);
}

/* A copy between the I/O tiles and the others. The I/O tiles are fewer, so they decide the time. */
static trm_status add_io_copy(const trm_tile_request *request, trm_tile_cost *cost, bool reads,
                              int64_t bytes, trm_error *error) {
  const trm_target *target = request->target;
  const int64_t on_io = trm_ceil_divide(bytes, request->options->io_tiles);
  const int64_t on_others = trm_ceil_divide(bytes, target->tiles_per_ipu);
  const trm_phase phase = {
      .kind = TRM_PHASE_EXCHANGE,
      .name = reads ? "CopyFromIoTiles" : "CopyToIoTiles",
      .cycles = (int64_t)target->exchange_phase_cycles +
                trm_ceil_divide(trm_most(on_io, on_others), target->exchange_bytes_per_cycle),
      .cycles_mean = (double)on_others / target->exchange_bytes_per_cycle,
      .active_tiles = target->tiles_per_ipu,
      .bytes_in_worst = reads ? on_others : on_io,
      .bytes_in_total = bytes,
      .bytes_out_worst = reads ? on_io : on_others,
      .bytes_out_total = bytes,
      .messages_worst = trm_ceil_divide(target->tiles_per_ipu, request->options->io_tiles)};
  return trm_tile_cost_add(cost, &phase, error);
}

/* A feed through the I/O tiles. The program counts their memory (ipu/program/io_tiles.c). */
static trm_status add_io_feed(const trm_tile_request *request, trm_tile_cost *cost, bool reads,
                              int64_t bytes, trm_error *error) {
  if (!reads) TRY(add_io_copy(request, cost, reads, bytes, error));
  TRY(add_host(request, cost, reads, bytes, error));
  return reads ? add_io_copy(request, cost, reads, bytes, error) : TRM_OK;
}

/* Whether the data of a feed, or of a host embedding's table, is synthetic. */
static bool is_synthetic(const trm_tile_request *request) {
  const trm_instruction *instruction = request->instruction;
  const uint32_t bits = request->options->synthetic;
  switch (trm_instruction_acts_as(instruction)) {
    case TRM_OP_INFEED: return (bits & TRM_SYNTHETIC_INFEED) != 0;
    case TRM_OP_OUTFEED: return (bits & TRM_SYNTHETIC_OUTFEED) != 0;
    default:
      return (bits & TRM_SYNTHETIC_HOST_EMBEDDING) != 0 &&
             instruction->call_id == TRM_CALL_HOST_CALL &&
             trm_config_is(instruction, "table", JSON_TRUE);
  }
}

/* Feeds, sends and receives: one copy for all arrays of an element. A host call sends its operands
 * and waits for its results. */
trm_status trm_tile_transfer(const trm_tile_request *request, trm_tile_cost *cost,
                             trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  const trm_opcode opcode = trm_instruction_acts_as(instruction);
  if (is_synthetic(request)) return TRM_OK;
  const bool calls = opcode == TRM_OP_CUSTOM_CALL;
  const bool reads = opcode == TRM_OP_INFEED || opcode == TRM_OP_RECV || opcode == TRM_OP_RECV_DONE;
  const int64_t in = trm_tile_shape_bytes(&instruction->shape), out = operand_bytes(request);
  if (calls) {
    if (out > 0) TRY(add_host(request, cost, false, out, error));
    return add_host(request, cost, true, in, error);
  }
  if (request->options->io_tiles > 0) {
    return add_io_feed(request, cost, reads, reads ? in : out, error);
  }
  return add_host(request, cost, reads, reads ? in : out, error);
}
