/* Owns: memory that is always live besides tensors: vertices, their fields, code, stacks, headers.
 * docs/cost_model.md, "Memory", has the formulas and their sources. */
#include <string.h>

#include "ipu/program/draft.h"
#include "ipu/target/target.h"

/* Bytes. * marks numbers from a memory report in Graphcore's guide, of a program of two additions
 * and a random seed on a GC2 (bench/fidelity/published.h). + marks numbers derived from assertions
 * in the tests of Graphcore's TensorFlow (docs/fidelity.md). */
enum {
  STACKS = 3168,          /* * a tile's */
  SMALL_STACKS = 320,     /* + in programs without poplin; later SDKs size stacks by vertex */
  CONTROL_ID_BYTES = 16,  /* a tile's ids of the host's sync */
  CONTROL_BASE = 662,     /* * control code of an empty program: start, host sync */
  STEP_CODE = 10,         /* + control code of a compute set: call, arguments, return */
  EXCHANGE_CALL_CODE = 6, /* + control code of an exchange */
  LOOP_CODE = 20,         /* + */
  CALL_CODE = LOOP_CODE,
  EXCHANGE_SETUP_CODE = 8, /* + exchange code: one exchange */
  MESSAGE_CODE = 4,        /* + exchange code: one message, sent or received */
  HOST_COPY_CODE = 144,    /* * */
  HOST_PACKET_HEADER = 4,  /* * */
  HOST_READ_PACKET = 512,  /* + data of the host with one header */
  HOST_WRITE_PACKET = 128, /* + data for the host with one header, sent by an instruction */
  GLOBAL_COPY_CODE = 144,
  GLOBAL_PACKET_HEADER = 4,
  COPY_DESCRIPTOR = 8, /* of a tile's part of a copy */
  COUNTER_BYTES = 4    /* * instrumentation of one compute set, on each of its tiles */
};

static trm_status add(trm_program_draft *draft, const char *name, trm_memory_category category,
                      uint32_t source, const trm_spread *bytes, trm_error *error) {
  const trm_new_variable wanted = {.name = name,
                                   .source = source,
                                   .category = category,
                                   .always_live = true,
                                   .mapping = trm_spread_mapping(bytes)};
  uint32_t variable;
  return wanted.mapping.kind == TRM_MAPPING_NONE
             ? TRM_OK
             : trm_program_add_variable(draft, &wanted, &variable, error);
}

/* The same on every tile of an IPU. */
static trm_status add_everywhere(trm_program_draft *draft, const char *name,
                                 trm_memory_category category, uint32_t ipu, int64_t bytes,
                                 trm_error *error) {
  const uint32_t tiles = trm_program_target_of(draft, ipu)->tiles_per_ipu;
  const trm_spread all = {.worst = bytes, .total = bytes * tiles, .tiles = tiles, .ipu = ipu};
  return add(draft, name, category, TRM_NO_INDEX, &all, error);
}

/* So many bytes on each tile that runs a compute set. */
static trm_status add_of_set(trm_program_draft *draft, const trm_program_compute_set *set,
                             trm_memory_category category, int64_t bytes, trm_error *error) {
  const trm_spread spread = {.worst = bytes,
                             .total = bytes * (int64_t)set->active_tiles,
                             .tiles = trm_program_target_of(draft, set->ipu)->tiles_per_ipu,
                             .ipu = set->ipu,
                             .first_tile = set->first_tile};
  return add(draft, set->name, category, set->source, &spread, error);
}

/* Sums over the compute sets and steps of one IPU. */
typedef struct ipu_sums {
  int64_t control, exchange, host_copies, global_copies;
  int64_t host_reads, host_writes; /* bytes of all tiles, once for each copy in the program */
  int64_t weights, updated;        /* bytes of weights, of those that change */
} ipu_sums;

typedef struct codelet {
  const char *name;
  uint32_t ipu, bytes;
  bool *is_on; /* by tile */
} codelet;

typedef VECTOR(codelet) codelets;

/* A program has dozens of codelets, so a walk through the list finds one. */
static trm_status note_codelet(trm_program_draft *draft, codelets *list,
                               const trm_vertex_group *group, const trm_program_compute_set *set,
                               trm_error *error) {
  const uint32_t tiles = trm_program_target_of(draft, set->ipu)->tiles_per_ipu;
  codelet *found = NULL;
  for (size_t c = 0; c < list->count && found == NULL; ++c) {
    codelet *known = &list->items[c];
    if (known->ipu == set->ipu && strcmp(known->name, group->codelet) == 0) found = known;
  }
  if (found == NULL) {
    if (list->count > 512) return TRM_OK; /* generated expressions: further ones count as known */
    const codelet made = {.name = group->codelet,
                          .ipu = set->ipu,
                          .bytes = group->code_bytes,
                          .is_on = ARENA_NEW(&draft->scratch, bool, tiles)};
    if (made.is_on == NULL || !VECTOR_PUSH(list, made)) FAIL_NO_MEMORY("codelets");
    found = &list->items[list->count - 1];
  }
  for (uint32_t k = 0; k < set->active_tiles && k < tiles; ++k) {
    found->is_on[(set->first_tile + k) % tiles] = true;
  }
  return TRM_OK;
}

/* Adds the code of a codelet: a variable for each run of tiles that have it. *total: its bytes. */
static trm_status add_codelet(trm_program_draft *draft, const codelet *one, bool is_counted,
                              int64_t *total, trm_error *error) {
  const uint32_t tiles = trm_program_target_of(draft, one->ipu)->tiles_per_ipu;
  for (uint32_t t = 0; t < tiles; ++t) {
    const uint32_t first = t;
    while (t < tiles && one->is_on[t]) ++t;
    const trm_spread run = {.worst = one->bytes,
                            .total = (int64_t)one->bytes * (t - first),
                            .tiles = tiles,
                            .ipu = one->ipu,
                            .first_tile = first};
    *total += run.total;
    if (!is_counted || t == first) continue;
    TRY(add(draft, one->name, TRM_CATEGORY_VERTEX_CODE, TRM_NO_INDEX, &run, error));
  }
  return TRM_OK;
}

static trm_status add_vertices(trm_program_draft *draft, codelets *list, trm_error *error) {
  for (size_t c = 0; c < draft->sets.all.count; ++c) {
    const trm_program_compute_set *set = &draft->sets.all.items[c];
    if (draft->program->options.instrument) {
      TRY(add_of_set(draft, set, TRM_CATEGORY_INSTRUMENTATION_RESULTS, COUNTER_BYTES, error));
    }
    if (set->shared_with != TRM_NO_INDEX) continue;
    TRY(add(draft, set->name, TRM_CATEGORY_VERTEX_INSTANCE_STATE, set->source, &set->state, error));
    TRY(add(draft, set->name, TRM_CATEGORY_VERTEX_FIELD_DATA, set->source, &set->arrays, error));
    for (uint32_t g = 0; g < set->num_groups; ++g) {
      const trm_vertex_group *group = &set->groups[g];
      TRY(note_codelet(draft, list, group, set, error));
      if (strncmp(group->codelet, "poplar_rt::", 11) != 0) continue;
      TRY(add_of_set(draft, set, TRM_CATEGORY_COPY_DESCRIPTOR, COPY_DESCRIPTOR, error));
    }
  }
  return TRM_OK;
}

/* Whether the exchange at step s belongs to an outlined compute set. */
static bool next_is_shared(const trm_program_draft *draft, size_t s) {
  if (s + 1 >= draft->steps.all.count) return false;
  const uint32_t set = draft->steps.all.items[s + 1].compute_set;
  return set != TRM_NO_INDEX && draft->sets.all.items[set].shared_with != TRM_NO_INDEX;
}

/* A copy from or to remote memory. Variables of one size are one buffer there
 * (merge_remote_buffers), so that one copy with an offset, which is called, serves all of them. */
typedef struct remote_copy {
  int32_t ipu;
  int64_t in, out;
} remote_copy;

typedef VECTOR(remote_copy) remote_copies;

/* Finds whether an earlier step is the same copy. A program has copies of few sizes. */
static trm_status note_remote_copy(remote_copies *list, const trm_program_step *step,
                                   bool *out_known, trm_error *error) {
  const remote_copy copy = {step->ipu, step->bytes_in_total, step->bytes_out_total};
  *out_known = false;
  if (!step->is_remote) return TRM_OK;
  for (size_t c = 0; c < list->count && !*out_known; ++c) {
    const remote_copy *one = &list->items[c];
    *out_known = one->ipu == copy.ipu && one->in == copy.in && one->out == copy.out;
  }
  if (!*out_known && !VECTOR_PUSH(list, copy)) FAIL_NO_MEMORY("remote copies");
  return TRM_OK;
}

/* Code of a step on the tile with the most of it, and on all tiles of one IPU; adds it to that
 * IPU's sums. `is_known`: the step calls an earlier one's copy. */
static void code_of(const trm_program_draft *draft, size_t s, bool is_known, ipu_sums *sum,
                    int64_t *out_worst, int64_t *out_total) {
  const trm_program_step *step = &draft->steps.all.items[s];
  const int64_t tiles = draft->target->tiles_per_ipu;
  int64_t everywhere = 0, worst = 0, active = 0;
  switch (step->type) {
    case TRM_STEP_TYPE_ON_TILE_EXECUTE: {
      const trm_program_compute_set *set = &draft->sets.all.items[step->compute_set];
      everywhere = set->shared_with == TRM_NO_INDEX ? STEP_CODE : STEP_CODE / 2;
      sum->control += everywhere;
      break;
    }
    case TRM_STEP_TYPE_DO_EXCHANGE:
      everywhere = EXCHANGE_CALL_CODE;
      sum->control += everywhere;
      if (next_is_shared(draft, s)) break; /* so is its code */
      worst = EXCHANGE_SETUP_CODE + MESSAGE_CODE * step->messages_worst;
      active = trm_most(1, step->active_tiles);
      sum->exchange += worst * active;
      break;
    case TRM_STEP_TYPE_GLOBAL_EXCHANGE:
    case TRM_STEP_TYPE_CROSS_REPLICA_COPY:
      everywhere = GLOBAL_COPY_CODE;
      ++sum->global_copies;
      break;
    case TRM_STEP_TYPE_STREAM_COPY_MID:
      if (is_known) {
        everywhere = CALL_CODE;
        sum->control += everywhere;
        break;
      }
      everywhere = HOST_COPY_CODE;
      ++sum->host_copies;
      sum->host_reads += step->bytes_in_total;
      sum->host_writes += step->bytes_out_total;
      break;
    case TRM_STEP_TYPE_REPEAT:
    case TRM_STEP_TYPE_REPEAT_WHILE:
    case TRM_STEP_TYPE_IF:
    case TRM_STEP_TYPE_SWITCH:
    case TRM_STEP_TYPE_CALL:
      everywhere = LOOP_CODE;
      sum->control += everywhere;
      break;
    default:
      if (s > 0) break; /* the root runs on every IPU */
      everywhere = CONTROL_BASE;
      sum->control += everywhere;
      break;
  }
  *out_worst = everywhere + worst;
  *out_total = everywhere * tiles + worst * active;
}

static trm_status gather_code(trm_program_draft *draft, ipu_sums *sums, remote_copies *copies,
                              trm_error *error) {
  for (size_t s = 0; s < draft->steps.all.count; ++s) {
    trm_program_step *step = &draft->steps.all.items[s];
    bool is_known;
    TRY(note_remote_copy(copies, step, &is_known, error));
    const uint32_t first = step->ipu < 0 ? 0 : (uint32_t)step->ipu;
    const uint32_t end = step->ipu < 0 ? draft->program->num_ipus : first + 1;
    for (uint32_t ipu = first; ipu < end; ++ipu) {
      int64_t worst, total;
      const int64_t exchanged = sums[ipu].exchange;
      code_of(draft, s, is_known, &sums[ipu], &worst, &total);
      if (!draft->program->options.compile_ipu_code) continue;
      trm_spread code = {.worst = worst,
                         .total = total,
                         .tiles = trm_program_target_of(draft, ipu)->tiles_per_ipu,
                         .ipu = ipu,
                         .first_tile = step->first_tile};
      if (ipu == first) step->code = code;
      code.total = sums[ipu].exchange - exchanged;
      code.worst = trm_ceil_divide(code.total, trm_most(1, step->active_tiles));
      TRY(add(draft, step->name, TRM_CATEGORY_INTERNAL_EXCHANGE_CODE, step->source, &code, error));
    }
  }
  return TRM_OK;
}

/* One copy sends all weights before the first run; another fetches those that change. */
static void gather_weights(const trm_program_draft *draft, ipu_sums *sums) {
  for (size_t v = 0; v < draft->values.variables.count; ++v) {
    const trm_program_variable *one = &draft->values.variables.items[v];
    if (!one->is_weight || one->is_remote) continue;
    sums[one->mapping.ipu].weights += one->total_bytes;
    if (one->is_updated) sums[one->mapping.ipu].updated += one->total_bytes;
  }
  for (uint32_t ipu = 0; ipu < draft->program->num_ipus; ++ipu) {
    ipu_sums *sum = &sums[ipu];
    sum->host_copies += (sum->weights > 0) + (sum->updated > 0);
    sum->host_reads += sum->weights;
    sum->host_writes += sum->updated;
  }
}

/* Packets for the bytes of one tile. */
static int64_t packets(const trm_program_draft *draft, int64_t bytes, int64_t packet) {
  return bytes / draft->target->tiles_per_ipu / packet;
}

/* Code of copies with the host on a tile. */
static int64_t host_code(const trm_program_draft *draft, const ipu_sums *sum) {
  return HOST_COPY_CODE * sum->host_copies +
         draft->target->instruction_bytes * packets(draft, sum->host_writes, HOST_WRITE_PACKET);
}

static int64_t host_headers(const trm_program_draft *draft, const ipu_sums *sum) {
  return HOST_PACKET_HEADER *
         (sum->host_copies + packets(draft, sum->host_reads, HOST_READ_PACKET) +
          packets(draft, sum->host_writes, HOST_WRITE_PACKET));
}

static int64_t stacks(const trm_program_draft *draft, const codelets *list, uint32_t ipu) {
  if (strcmp(draft->target->architecture, "ipu1") == 0) return STACKS;
  for (size_t c = 0; c < list->count; ++c) {
    const codelet *one = &list->items[c];
    if (one->ipu == ipu && strncmp(one->name, "poplin::", 8) == 0) return STACKS;
  }
  return SMALL_STACKS;
}

static trm_status add_code(trm_program_draft *draft, const ipu_sums *sum, const codelets *list,
                           uint32_t ipu, trm_error *error) {
  /* The sizes of stacks are known for compiled code only; the IPU Model has no stacks without it.
   */
  TRY(add_everywhere(draft, "stacks", TRM_CATEGORY_STACK, ipu, stacks(draft, list, ipu), error));
  TRY(add_everywhere(draft, "control code", TRM_CATEGORY_CONTROL_CODE, ipu, sum->control, error));
  TRY(add_everywhere(draft, "host exchange code", TRM_CATEGORY_HOST_EXCHANGE_CODE, ipu,
                     host_code(draft, sum), error));
  TRY(add_everywhere(draft, "global exchange code", TRM_CATEGORY_GLOBAL_EXCHANGE_CODE, ipu,
                     GLOBAL_COPY_CODE * sum->global_copies, error));
  return TRM_OK;
}

/* The bytes of all code but the vertices', over all tiles. */
static int64_t code_bytes(const trm_program_draft *draft, const ipu_sums *sum) {
  return sum->exchange +
         (int64_t)draft->target->tiles_per_ipu *
             (sum->control + host_code(draft, sum) + GLOBAL_COPY_CODE * sum->global_copies);
}

static trm_status add_ipu(trm_program_draft *draft, const ipu_sums *sum, const codelets *list,
                          uint32_t ipu, trm_error *error) {
  TRY(add_everywhere(draft, "sync ids", TRM_CATEGORY_CONTROL_ID, ipu, CONTROL_ID_BYTES, error));
  TRY(add_everywhere(draft, "host packet headers", TRM_CATEGORY_HOST_EXCHANGE_PACKET_HEADER, ipu,
                     host_headers(draft, sum), error));
  TRY(add_everywhere(draft, "global packet headers", TRM_CATEGORY_GLOBAL_EXCHANGE_PACKET_HEADER,
                     ipu, GLOBAL_PACKET_HEADER * sum->global_copies, error));
  return draft->program->options.compile_ipu_code ? add_code(draft, sum, list, ipu, error) : TRM_OK;
}

trm_status trm_program_add_always_live(trm_program_draft *draft, trm_error *error) {
  const uint32_t num_ipus = draft->program->num_ipus;
  ipu_sums *sums = ARENA_NEW(&draft->scratch, ipu_sums, num_ipus);
  CHECK_MEMORY(sums, "a program");
  codelets list = {0};
  remote_copies copies = {0};
  trm_status status = add_vertices(draft, &list, error);
  if (status == TRM_OK) status = gather_code(draft, sums, &copies, error);
  VECTOR_FREE(&copies);
  gather_weights(draft, sums);
  const bool is_counted = draft->program->options.compile_ipu_code;
  for (size_t c = 0; c < list.count && status == TRM_OK; ++c) {
    status =
        add_codelet(draft, &list.items[c], is_counted, &draft->program->totals.code_bytes, error);
  }
  for (uint32_t ipu = 0; ipu < num_ipus && status == TRM_OK; ++ipu) {
    draft->program->totals.code_bytes += code_bytes(draft, &sums[ipu]);
    status = add_ipu(draft, &sums[ipu], &list, ipu, error);
  }
  VECTOR_FREE(&list);
  TRY(status);
  if (!draft->program->options.compile_ipu_code) {
    TRY(trm_program_add_note(draft, "code and stacks are not counted "
                                    "(compile_ipu_code is off)"));
  }
  return TRM_OK;
}
