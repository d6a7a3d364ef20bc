/* Owns: creating and freeing engines, their feeds, and the public functions. */
#include <string.h>

#include "base/float_mode.h"
#include "base/sized.h"
#include "group/channel.h"
#include "host/exec/engine.h"
#include "host/ops/reference.h"
#include "host/ops/threads.h"
#include "timeline/mark.h"
#include "tremula/group.h"

/* More than any machine has; memory is the actual limit. */
enum { MAX_REPLICAS = 4096 };

/* Among how many processes an engine runs, and which of them this is. */
typedef struct processes {
  uint32_t count, index;
} processes;

/* What processes must have in common to run a program together. */
static uint64_t identify(const trm_executable *executable) {
  const trm_schedule *schedule = executable->schedule;
  uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  for (const char *c = executable->module->name; *c != '\0'; ++c) {
    hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  }
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const trm_step *step = &schedule->steps[i];
    hash = (hash ^ step->identity ^ (uint64_t)step->kind << 56) * UINT64_C(0x100000001b3);
    for (uint32_t k = 0; k < step->num_operands + step->num_results; ++k) {
      hash = (hash ^ schedule->slots[step->slots[k]].bytes) * UINT64_C(0x100000001b3);
    }
  }
  return hash;
}

/* Whether replicas need anything of each other. Others have no reason to run at the same time. */
static bool has_collectives(const trm_module *module) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_opcode opcode = trm_instruction_acts_as(&computation->instructions[i]);
      if (trm_opcode_class_of(opcode) == TRM_CLASS_COLLECTIVE) return true;
    }
  }
  return false;
}

static trm_status create_team(trm_engine *engine, const processes *p, trm_error *error) {
  trm_team_place place = {.size = engine->num_replicas,
                          .first = p->index * engine->num_replicas,
                          .num_replicas = p->count * engine->num_replicas};
  if (place.num_replicas == 1) return TRM_OK;
  if (p->count > 1 && has_collectives(engine->executable->module)) {
    TRY(trm_remote_create(p->count, p->index, engine->num_replicas, &engine->remote, error));
    engine->program = identify(engine->executable);
    place.remote = engine->remote;
  }
  return trm_team_create(&place, &engine->cancelled, &engine->team, error);
}

static trm_status engine_allocate(trm_engine *engine, const processes *p, trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  engine->replicas = trm_allocate_zeroed(engine->num_replicas, sizeof *engine->replicas);
  engine->infeeds = trm_allocate_zeroed(schedule->num_feeds, sizeof *engine->infeeds);
  engine->outfeeds = trm_allocate_zeroed(schedule->num_feeds, sizeof *engine->outfeeds);
  engine->host_functions =
      trm_allocate_zeroed(schedule->num_host_calls, sizeof *engine->host_functions);
  engine->stays = trm_allocate_zeroed(2 * engine->executable->num_outputs + 1, sizeof(bool));
  if (engine->stays == NULL || engine->host_functions == NULL || engine->replicas == NULL ||
      engine->infeeds == NULL || engine->outfeeds == NULL) {
    FAIL_NO_MEMORY("an engine");
  }
  TRY(create_team(engine, p, error));
  TRY(trm_engine_create_edges(engine, error));
  for (uint32_t r = 0; r < engine->num_replicas; ++r) {
    TRY(trm_replica_create(engine, r, error));
  }
  return TRM_OK;
}

/* Takes over the reference to the executable, also on failure. */
static trm_status create(trm_executable *executable, uint32_t num_replicas, const processes *p,
                         trm_engine **out_engine, trm_error *error) {
  if (executable->is_only_planned) {
    trm_executable_free(executable);
    FAIL(FAILED_PRECONDITION, "the executable was compiled to be planned, and cannot run");
  }
  trm_engine *engine = trm_allocate_zeroed(1, sizeof *engine);
  if (engine == NULL) {
    trm_executable_free(executable);
    FAIL_NO_MEMORY("an engine");
  }
  engine->executable = executable;
  engine->num_replicas = num_replicas;
  atomic_init(&engine->cancelled, false);
  const trm_status status = engine_allocate(engine, p, error);
  if (status != TRM_OK) {
    trm_engine_free(engine);
    return status;
  }
  *out_engine = engine;
  return TRM_OK;
}

static trm_status check_replicas(uint32_t num_replicas, trm_error *error) {
  if (num_replicas < 1 || num_replicas > MAX_REPLICAS) {
    FAIL(INVALID_ARGUMENT, "an engine runs from 1 to %d replicas, not %u", MAX_REPLICAS,
         num_replicas);
  }
  return TRM_OK;
}

trm_status trm_engine_create_replicated(trm_executable *executable, uint32_t num_replicas,
                                        trm_engine **out_engine, trm_error *error) {
  TRY(check_replicas(num_replicas, error));
  return create(trm_executable_retain(executable), num_replicas, &(processes){1, 0}, out_engine,
                error);
}

static trm_status check_processes(const trm_engine_settings *settings, trm_error *error) {
  if (settings->num_processes <= 1) return TRM_OK;
  trm_group_place place;
  trm_group_get_place(&place);
  if (!trm_group_is_joined() || place.size != settings->num_processes ||
      place.rank != settings->process) {
    FAIL(FAILED_PRECONDITION,
         "the engine is for process %u of %u, but this process is instance %u of %u%s",
         settings->process, settings->num_processes, place.rank, place.size,
         trm_group_is_joined() ? "" : ", and has not joined their group");
  }
  if (settings->num_replicas > MAX_REPLICAS / settings->num_processes) {
    FAIL(INVALID_ARGUMENT, "%u processes with %u replicas each are more than %d replicas",
         settings->num_processes, settings->num_replicas, MAX_REPLICAS);
  }
  return TRM_OK;
}

trm_status trm_engine_create_with(trm_executable *executable, const trm_engine_settings *given,
                                  trm_engine **out_engine, trm_error *error) {
  trm_engine_settings settings = {.size = sizeof settings};
  TRY(trm_sized_take(given, &settings, sizeof settings, "trm_engine_settings", error));
  if (settings.num_replicas == 0) settings.num_replicas = 1;
  if (settings.num_processes == 0) settings.num_processes = 1;
  TRY(check_replicas(settings.num_replicas, error));
  TRY(check_processes(&settings, error));
  const trm_accelerator_settings accelerator = {.name = settings.accelerator,
                                                .fastest = settings.fastest};
  trm_executable *own;
  if (accelerator.name == NULL && !accelerator.fastest) own = trm_executable_retain(executable);
  else TRY(trm_executable_for(executable, &accelerator, &own, error));
  return create(own, settings.num_replicas, &(processes){settings.num_processes, settings.process},
                out_engine, error);
}

trm_status trm_engine_create(trm_executable *executable, trm_engine **out_engine,
                             trm_error *error) {
  return trm_engine_create_replicated(executable, 1, out_engine, error);
}

void trm_engine_free(trm_engine *engine) {
  if (engine == NULL) return;
  trm_team_free(engine->team);
  trm_remote_free(engine->remote);
  const uint32_t num_feeds = engine->executable->schedule->num_feeds;
  for (uint32_t f = 0; f < num_feeds; ++f) {
    if (engine->infeeds != NULL) trm_infeed_release(engine->infeeds[f]);
    if (engine->outfeeds != NULL) trm_outfeed_release(engine->outfeeds[f]);
  }
  for (uint32_t r = 0; engine->replicas != NULL && r < engine->num_replicas; ++r) {
    trm_replica_free(engine, &engine->replicas[r]);
  }
  trm_free(engine->replicas);
  trm_engine_free_edges(engine);
  trm_free(engine->infeeds);
  trm_free(engine->outfeeds);
  trm_free(engine->host_functions);
  trm_free(engine->stays);
  trm_free(engine->times);
  trm_executable_free(engine->executable);
  trm_free(engine);
}

uint32_t trm_engine_num_replicas(const trm_engine *engine) { return engine->num_replicas; }

void trm_engine_cancel(trm_engine *engine) { atomic_store(&engine->cancelled, true); }
void trm_engine_forget_cancel(trm_engine *engine) { atomic_store(&engine->cancelled, false); }

void trm_engine_set_seed(trm_engine *engine, uint64_t seed) {
  engine->seed = seed;
  engine->runs = 0;
}

/* ---- Feeds ---------------------------------------------------------------------------------- */

static trm_status find_feed(const trm_engine *engine, const char *id, char kind, uint32_t *out_feed,
                            trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  for (uint32_t f = 0; f < schedule->num_feeds; ++f) {
    if (schedule->feeds[f].kind == kind && strcmp(schedule->feeds[f].id, id) == 0) {
      *out_feed = f;
      return TRM_OK;
    }
  }
  FAIL(NOT_FOUND, "the program has no %s with the id '%s'", kind == 'i' ? "infeed" : "outfeed", id);
}

trm_status trm_engine_bind_infeed(trm_engine *engine, const char *id, trm_infeed *infeed,
                                  trm_error *error) {
  uint32_t feed;
  TRY(find_feed(engine, id, 'i', &feed, error));
  const trm_feed_info *info = &engine->executable->schedule->feeds[feed];
  TRY(trm_infeed_check(infeed, id, info->elements, info->num_elements, error));
  trm_infeed_retain(infeed);
  trm_infeed_release(engine->infeeds[feed]);
  engine->infeeds[feed] = infeed;
  return TRM_OK;
}

trm_status trm_engine_bind_outfeed(trm_engine *engine, const char *id, trm_outfeed *outfeed,
                                   trm_error *error) {
  uint32_t feed;
  TRY(find_feed(engine, id, 'o', &feed, error));
  const trm_feed_info *info = &engine->executable->schedule->feeds[feed];
  TRY(trm_outfeed_check(outfeed, id, info->elements, info->num_elements, engine->num_replicas,
                        error));
  trm_outfeed_retain(outfeed);
  trm_outfeed_release(engine->outfeeds[feed]);
  engine->outfeeds[feed] = outfeed;
  return TRM_OK;
}

/* ---- Running -------------------------------------------------------------------------------- */

static trm_status run_member(void *context, uint32_t number, trm_error *error) {
  return trm_replica_run(context, number, error);
}

/* Which outputs may stay on an accelerator. Integers never do: TensorFlow has kernels of its own
 * that count with them in the host's memory. Nor do floats that the caller gets as halves. Of other
 * replicas the engine reads all itself. */
static void choose_resident(trm_engine *engine, const uint64_t *output_versions) {
  const size_t count = engine->executable->num_outputs;
  for (size_t o = 0; o < count; ++o) {
    engine->stays[o] = engine->keeps_resident && output_versions != NULL &&
                       output_versions[o] != 0 && !engine->executable->float_outputs[o] &&
                       trm_dtype_kind(engine->executable->outputs[o].dtype) == TRM_KIND_FLOAT;
    engine->stays[count + o] = true;
  }
}

static trm_status run_replicas(trm_engine *engine, trm_error *error) {
  if (engine->team == NULL) return trm_replica_run(engine, 0, error);
  return trm_team_run(engine->team, run_member, engine, error);
}

/* All processes begin and end together, with the same status. */
static trm_status run_with_others(trm_engine *engine, trm_error *error) {
  if (engine->remote == NULL) return run_replicas(engine, error);
  TRY(trm_channel_begin(engine->program, &engine->cancelled, error));
  trm_remote_begin(engine->remote);
  trm_error own = {0};
  const trm_status status = run_replicas(engine, &own);
  if (status != TRM_OK) trm_fail(error, status, "%s", own.message);
  return trm_channel_end(status, own.message, &engine->cancelled, error);
}

static trm_status run_all(trm_engine *engine, const void *const *inputs, const uint64_t *versions,
                          void *const *outputs, const uint64_t *output_versions, trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  if (atomic_exchange(&engine->cancelled, false)) FAIL(CANCELLED, "the run was cancelled");
  ++engine->runs;
  choose_resident(engine, output_versions);
  for (uint32_t r = 0; r < engine->num_replicas; ++r) {
    TRY(trm_replica_locate(engine, r, inputs, versions, outputs, error));
  }
  for (uint32_t f = 0; f < schedule->num_feeds; ++f) {
    if (engine->infeeds[f] != NULL) trm_infeed_open(engine->infeeds[f]);
  }
  const unsigned mode = trm_float_mode_set();
  const trm_status status = run_with_others(engine, error);
  trm_float_mode_restore(mode);
  for (uint32_t f = 0; f < schedule->num_feeds; ++f) {
    if (engine->infeeds[f] != NULL) trm_infeed_close(engine->infeeds[f]);
  }
  if (status == TRM_OK) trm_engine_narrow_outputs(engine, outputs);
  for (uint32_t r = 0; r < engine->num_replicas; ++r) {
    trm_replica_keep_outputs(engine, r, status == TRM_OK ? output_versions : NULL);
  }
  /* A cancellation that came too late was meant for this run, not for the next one. */
  trm_engine_forget_cancel(engine);
  return status;
}

trm_status trm_engine_run_replicated(trm_engine *engine, const void *const *inputs,
                                     const uint64_t *versions, void *const *outputs,
                                     const uint64_t *output_versions, trm_error *error) {
  const trm_mark mark =
      trm_mark_begin(TRM_TIMELINE_POPLAR, "Engine::run %s", engine->executable->module->name);
  trm_threads_share();
  const trm_status status = run_all(engine, inputs, versions, outputs, output_versions, error);
  trm_mark_end(&mark);
  return status;
}

trm_status trm_engine_run_call(const trm_engine_call *call) {
  return trm_engine_run_replicated(call->engine, call->inputs, call->versions, call->outputs,
                                   call->output_versions, call->error);
}

trm_status trm_engine_run(trm_engine *engine, const void *const *inputs, const uint64_t *versions,
                          void *const *outputs, trm_error *error) {
  return trm_engine_run_replicated(engine, inputs, versions, outputs, NULL, error);
}

void trm_engine_keep_resident(trm_engine *engine, bool on) { engine->keeps_resident = on; }
