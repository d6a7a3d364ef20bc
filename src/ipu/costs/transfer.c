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

static double link_rate(const trm_target *target) {
  return target->ipu_link_bytes_per_second * target->ipu_link_efficiency;
}

static trm_status add_transfer(const trm_tile_request *request, trm_tile_cost *cost,
                               trm_phase_kind kind, const char *name, int64_t cycles, int64_t bytes,
                               bool in, trm_error *error) {
  const uint32_t tiles = request->target->tiles_per_ipu;
  /* The host reads and writes the memory of tiles directly, without a buffer. */
  const bool held = kind == TRM_PHASE_GLOBAL_EXCHANGE || kind == TRM_PHASE_CROSS_REPLICA;
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
      .temporary_worst = held ? trm_ceil_divide(bytes, tiles) : 0,
      .temporary_total = held ? bytes : 0,
      .temporary_is_message = held,
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

/* A ring: in each step every replica sends a share to the next. `rounds` of (R - 1) steps;
 * `reduces`: the receiver adds the share. */
static trm_status add_ring(const trm_tile_request *request, trm_tile_cost *cost, const char *name,
                           int64_t bytes, int64_t replicas, int64_t rounds, bool reduces,
                           trm_error *error) {
  const trm_target *target = request->target;
  if (replicas <= 1 || bytes == 0) {
    /* A group of one copies its operand. */
    return trm_tile_add_copy(request, cost, name, trm_ceil_divide(bytes, target->tiles_per_ipu),
                             bytes, 8, target->tiles_per_ipu, error);
  }
  const int64_t share = trm_ceil_divide(bytes, replicas);
  const int64_t steps = replicas - 1;
  TRY(add_transfer(request, cost, TRM_PHASE_CROSS_REPLICA, name,
                   cycles_of(target, (double)share, link_rate(target)), share, true, error));
  cost->phases.items[cost->phases.count - 1].repeats = steps * rounds;
  if (!reduces) return TRM_OK;
  const int64_t worst = trm_ceil_divide(share / 4 + 1, target->tiles_per_ipu);
  const int64_t workers = target->num_worker_contexts;
  TRY(trm_tile_add_compute(request, cost, rounds == 1 ? "ReduceScatter/Add" : "AllReduceAdd",
                           "popops::BinaryOp1DInPlace<ADD,float>", target->tiles_per_ipu, 1,
                           workers * (58 + trm_ceil_divide(worst, workers) * 2) + 11, 1.0, 2,
                           share / 4, error));
  cost->phases.items[cost->phases.count - 1].repeats = steps;
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
        return add_ring(request, cost, "AllReduce", bytes, replicas, 2, true, error);
      }
      return add_ring(request, cost, "ReduceScatter", bytes, replicas, 1, true, error);
    case TRM_OP_REDUCE_SCATTER:
      return add_ring(request, cost, "ReduceScatter", bytes, replicas, 1, true, error);
    case TRM_OP_ALL_GATHER:
    case TRM_OP_ALL_GATHER_START:
      return add_ring(request, cost, "AllGather", bytes * replicas, replicas, 1, false, error);
    case TRM_OP_ALL_TO_ALL:
    case TRM_OP_RAGGED_ALL_TO_ALL:
      return add_ring(request, cost, "AllToAll", bytes, replicas, 1, false, error);
    default: /* broadcast, permute */
      if (replicas <= 1) {
        return add_ring(request, cost, "CrossReplicaCopy", bytes, 1, 1, false, error);
      }
      return add_transfer(request, cost, TRM_PHASE_CROSS_REPLICA, "CrossReplicaCopy",
                          cycles_of(request->target, (double)bytes, link_rate(request->target)),
                          bytes, true, error);
  }
}

trm_status trm_tile_gather_shards(const trm_tile_request *request, trm_tile_cost *cost,
                                  int64_t bytes, trm_error *error) {
  return add_ring(request, cost, "AllGather", bytes, request->shards, 1, false, error);
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
  const double latency = target->host_latency_seconds * target->clock_frequency;
  return add_transfer(
      request, cost, reads ? TRM_PHASE_HOST_READ : TRM_PHASE_HOST_WRITE,
      reads ? "StreamCopyHostToDevice" : "StreamCopyDeviceToHost",
      (int64_t)latency + cycles_of(target, (double)bytes, target->host_bytes_per_second), bytes,
      reads, error);
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
