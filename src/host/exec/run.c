/* Owns: running the steps of a replica, without any allocation. */
#include <string.h>

#include "host/exec/engine.h"
#include "host/schedule/float_check.h"
#include "timeline/mark.h"

/* The highest bit of a seed: every replica draws the same numbers. */
static const uint64_t identical_replicas = UINT64_C(1) << 63;

static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b + UINT64_C(0x9e3779b97f4a7c15) + (a << 6) + (a >> 2));
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* The seeds of a step: its replica's, and the one that all replicas share. */
typedef struct seeds {
  uint64_t own, shared;
} seeds;

static seeds mix_both(seeds s, uint64_t b) {
  const uint64_t own = mix(s.own, b);
  return (seeds){own, s.own == s.shared ? own : mix(s.shared, b)};
}

/* The state of one replica's run. */
typedef struct runner {
  trm_engine *engine;
  const trm_schedule *schedule;
  trm_replica *replica;
  trm_step_time *times; /* NULL: not measured */
  bool is_plain;        /* nothing more is to do for plain steps */
} runner;

static trm_status run_range(const runner *r, trm_step_range range, seeds seed, trm_error *error);

static inline bool is_stopped(const trm_engine *engine) {
  return atomic_load_explicit(&engine->cancelled, memory_order_relaxed) ||
         (engine->team != NULL && trm_team_is_stopped(engine->team));
}

bool trm_engine_is_stopped(const void *engine) { return is_stopped(engine); }

static trm_status check_cancelled(const runner *r, trm_error *error) {
  if (atomic_load_explicit(&r->engine->cancelled, memory_order_relaxed)) {
    FAIL(CANCELLED, "the run was cancelled");
  }
  if (r->engine->team != NULL && trm_team_is_stopped(r->engine->team)) {
    FAIL(CANCELLED, "another replica has failed");
  }
  return TRM_OK;
}

static trm_status note_step(const runner *r, const trm_step *step, trm_status status,
                            trm_error *error) {
  if (status == TRM_OK || status == TRM_CANCELLED || status == TRM_OUT_OF_RANGE) return status;
  char text[512];
  const trm_module *module = r->schedule->module;
  return trm_note(
      error, status, "while running %s",
      trm_instruction_text(module,
                           &module->computations[step->computation].instructions[step->instruction],
                           text, sizeof text));
}

/* What is done where the program looks at the results of its kernels. */
static trm_status look_at_results(const runner *r, const trm_step *step,
                                  const trm_kernel_call *call, trm_error *error) {
  const trm_module *module = r->schedule->module;
  const trm_computation *computation = &module->computations[step->computation];
  const trm_instruction *instruction = &computation->instructions[step->instruction];
  if (r->schedule->float_events != 0) {
    TRY(trm_float_check(module, computation, instruction, r->schedule->float_events, call->operands,
                        call->results, error));
  }
  if (step->limits_halves) {
    trm_limit_halves(module, computation, instruction, call->operands, call->results);
  }
  return TRM_OK;
}

static trm_status run_kernel(const runner *r, uint32_t i, seeds seed, trm_error *error) {
  const trm_step *step = &r->schedule->steps[i];
  trm_kernel_call *call = &r->replica->calls[i];
  call->seed = seed.own;
  call->shared_seed = seed.shared;
  const trm_status status = step->kernel->run(step->kernel, call, error);
  if (status != TRM_OK) return note_step(r, step, status, error);
  if (r->schedule->float_events == 0 && !step->limits_halves) return TRM_OK;
  return look_at_results(r, step, call, error);
}

static void run_view(const runner *r, const trm_step *step, const void *const *operands) {
  const trm_view *view = step->view;
  int64_t index;
  switch (view->index) {
    case TRM_S32: index = *(const int32_t *)operands[1]; break;
    case TRM_U32: index = *(const uint32_t *)operands[1]; break;
    default: index = *(const int64_t *)operands[1]; break;
  }
  if (index > view->last) index = view->last;
  if (index < 0) index = 0;
  const char *slice = (const char *)operands[0] + (size_t)index * view->stride;
  for (uint32_t u = 0; u < view->num_uses; ++u) r->replica->operands[view->uses[u]] = slice;
}

/* ---- Plain steps ---------------------------------------------------------------------------- */

static void run_copy(const runner *r, const trm_step *step, const trm_kernel_call *call) {
  const size_t bytes = r->schedule->slots[step->slots[0]].bytes;
  if (call->operands[0] != call->results[0] && bytes > 0)
    memcpy(call->results[0], call->operands[0], bytes);
}

/* The end of the plain steps that begin at range.begin. */
static uint32_t find_plain_end(const runner *r, trm_step_range range) {
  uint32_t end = range.begin;
  while (r->is_plain && end < range.end && r->schedule->steps[end].is_plain) ++end;
  return end;
}

/* Runs steps that are all plain: a loop of small ones spends most of its time here. */
static inline __attribute__((always_inline)) trm_status run_plain(const runner *r, uint32_t begin,
                                                                  uint32_t end, trm_error *error) {
  const trm_step *step = &r->schedule->steps[begin], *last = &r->schedule->steps[end];
  const trm_kernel_call *call = &r->replica->calls[begin];
  for (; step < last; ++step, ++call) {
    if (is_stopped(r->engine)) TRY(check_cancelled(r, error));
    if (step->kind == TRM_STEP_KERNEL) {
      const trm_status status = step->kernel->run(step->kernel, call, error);
      if (status != TRM_OK) return note_step(r, step, status, error);
    } else if (step->kind == TRM_STEP_VIEW) {
      run_view(r, step, call->operands);
    } else {
      run_copy(r, step, call);
    }
  }
  return TRM_OK;
}

static trm_status run_plain_while(const runner *r, const trm_step *step,
                                  const void *const *condition, trm_error *error) {
  const trm_step_range first = step->ranges[0], second = step->ranges[1];
  for (;;) {
    if (is_stopped(r->engine)) TRY(check_cancelled(r, error));
    TRY(run_plain(r, first.begin, first.end, error));
    if (!*(const bool *)*condition) return TRM_OK;
    TRY(run_plain(r, second.begin, second.end, error));
  }
}

/* ---- Control -------------------------------------------------------------------------------- */

/* `condition` is where the address of the condition's result stands. */
static trm_status run_while(const runner *r, const trm_step *step, const void *const *condition,
                            seeds seed, trm_error *error) {
  if (find_plain_end(r, step->ranges[0]) == step->ranges[0].end &&
      find_plain_end(r, step->ranges[1]) == step->ranges[1].end) {
    return run_plain_while(r, step, condition, error);
  }
  trm_residence *residence = r->replica->residence;
  for (uint64_t iteration = 0;; ++iteration) {
    TRY(check_cancelled(r, error));
    const seeds inner = mix_both(seed, iteration);
    TRY(run_range(r, step->ranges[0], inner, error));
    if (residence != NULL) TRY(trm_residence_bring_home(residence, step, error));
    if (!*(const bool *)*condition) return TRM_OK;
    TRY(run_range(r, step->ranges[1], inner, error));
  }
}

static uint32_t chosen_branch(const trm_step *step, const void *selector) {
  if (step->selector_is_pred) return *(const uint8_t *)selector != 0 ? 0 : 1;
  int32_t index;
  memcpy(&index, selector, sizeof index);
  return index < 0 || (uint32_t)index >= step->num_ranges ? step->num_ranges - 1 : (uint32_t)index;
}

/* ---- Feeds ---------------------------------------------------------------------------------- */

/* The replicas of this process meet, and the first one takes an element for each, in order. */
static trm_status take_elements(const runner *r, uint32_t i, trm_error *error) {
  const trm_step *step = &r->schedule->steps[i];
  trm_engine *engine = r->engine;
  trm_infeed *infeed = engine->infeeds[step->feed];
  if (infeed == NULL) {
    FAIL(FAILED_PRECONDITION, "the infeed '%s' is not bound to a queue",
         r->schedule->feeds[step->feed].id);
  }
  trm_exchange *exchange = r->replica->exchange;
  const trm_kernel_call *call = &r->replica->calls[i];
  if (exchange == NULL) return trm_infeed_pop(infeed, call->results, &engine->cancelled, error);
  TRY(exchange->meet(exchange, step, call, NULL, error));
  for (uint32_t k = 0; exchange->replica == exchange->first && k < exchange->num_here; ++k) {
    TRY(trm_infeed_pop(infeed, exchange->calls[exchange->first + k]->results, &engine->cancelled,
                       error));
  }
  return exchange->leave(exchange, error);
}

/* The replicas of this process meet, and the first one writes the elements of all, in order. */
static trm_status give_elements(const runner *r, uint32_t i, trm_error *error) {
  const trm_step *step = &r->schedule->steps[i];
  trm_engine *engine = r->engine;
  trm_outfeed *outfeed = engine->outfeeds[step->feed];
  if (outfeed == NULL) {
    FAIL(FAILED_PRECONDITION, "the outfeed '%s' is not bound to a queue",
         r->schedule->feeds[step->feed].id);
  }
  trm_exchange *exchange = r->replica->exchange;
  const trm_kernel_call *call = &r->replica->calls[i];
  if (exchange == NULL) return trm_outfeed_push(outfeed, &call, 1, error);
  TRY(exchange->meet(exchange, step, call, NULL, error));
  if (exchange->replica == exchange->first) {
    TRY(trm_outfeed_push(outfeed, exchange->calls + exchange->first, exchange->num_here, error));
  }
  return exchange->leave(exchange, error);
}

static trm_status run_feed(const runner *r, uint32_t i, bool takes, trm_error *error) {
  const trm_mark mark = trm_mark_begin(TRM_TIMELINE_DRIVERS, "%s %s", takes ? "infeed" : "outfeed",
                                       r->schedule->feeds[r->schedule->steps[i].feed].id);
  const trm_status status = takes ? take_elements(r, i, error) : give_elements(r, i, error);
  trm_mark_end(&mark);
  return status;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static trm_status run_step(const runner *r, uint32_t i, seeds seed, trm_error *error) {
  const trm_step *step = &r->schedule->steps[i];
  const void *const *operands = r->replica->calls[i].operands;
  switch (step->kind) {
    case TRM_STEP_KERNEL: return run_kernel(r, i, seed, error);
    case TRM_STEP_COPY: run_copy(r, step, &r->replica->calls[i]); return TRM_OK;
    case TRM_STEP_WHILE: return run_while(r, step, operands, seed, error);
    case TRM_STEP_VIEW: run_view(r, step, operands); return TRM_OK;
    case TRM_STEP_CONDITIONAL:
      return run_range(r, step->ranges[chosen_branch(step, operands[0])], seed, error);
    case TRM_STEP_INFEED:
    case TRM_STEP_OUTFEED: return run_feed(r, i, step->kind == TRM_STEP_INFEED, error);
    case TRM_STEP_HOST_CALL: {
      const uint32_t number = (uint32_t)(r->replica - r->engine->replicas);
      return note_step(r, step, trm_replica_call_host(r->engine, number, i, error), error);
    }
  }
  FAIL(INTERNAL, "a step has an unknown kind");
}

static const trm_instruction *instruction_of(const runner *r, const trm_step *step) {
  return &r->schedule->module->computations[step->computation].instructions[step->instruction];
}

/* Among one replica a reduction gives its operands back. */
static bool is_copy(const runner *r, const trm_step *step) {
  if (step->kind == TRM_STEP_COPY) return true;
  return step->kind == TRM_STEP_KERNEL && r->replica->exchange == NULL &&
         trm_instruction_acts_as(instruction_of(r, step)) == TRM_OP_ALL_REDUCE;
}

/* What the accelerator still computes for outfeeds: another element of the outfeed waits for the
 * one before, the host sees all of it when it is asked for something. */
static trm_status order_outfeeds(const runner *r, const trm_step *step, trm_error *error) {
  const trm_engine *engine = r->engine;
  trm_residence *residence = r->replica->residence;
  if (residence->pending == NULL) return TRM_OK;
  if (step->kind == TRM_STEP_OUTFEED) {
    return trm_residence_flush_outfeeds(residence, engine->outfeeds[step->feed], TRM_OK, error);
  }
  const bool blocks = step->kind == TRM_STEP_INFEED && engine->infeeds[step->feed] != NULL &&
                      trm_infeed_is_empty(engine->infeeds[step->feed]);
  const bool asks = step->kind == TRM_STEP_HOST_CALL ||
                    (step->kind == TRM_STEP_KERNEL &&
                     trm_instruction_has_side_effect(r->schedule->module, instruction_of(r, step)));
  return blocks || asks ? trm_residence_flush_outfeeds(residence, NULL, TRM_OK, error) : TRM_OK;
}

static bool may_defer(const runner *r, const trm_step *step) {
  return step->kind == TRM_STEP_OUTFEED && r->replica->exchange == NULL && r->times == NULL &&
         r->engine->outfeeds[step->feed] != NULL && step->num_operands <= TRM_MOST_PENDING;
}

/* The same where some values are on an accelerator. */
static trm_status run_resident(const runner *r, uint32_t i, seeds seed, trm_error *error) {
  const trm_step *step = &r->schedule->steps[i];
  trm_residence *residence = r->replica->residence;
  if (is_copy(r, step) && trm_residence_copy(residence, step)) return TRM_OK;
  if (trm_region_kernel_of(step->kernel) != NULL) {
    const trm_mark mark =
        trm_mark_begin(TRM_TIMELINE_DRIVERS, "%s", trm_accelerator_name(residence->accelerator));
    const trm_status status =
        trm_residence_run(residence, step, &r->replica->calls[i], r->times != NULL, error);
    trm_mark_end(&mark);
    return note_step(r, step, status, error);
  }
  TRY(order_outfeeds(r, step, error));
  if (may_defer(r, step)) {
    TRY(trm_residence_defer_outfeed(residence, r->engine->outfeeds[step->feed], step,
                                    r->replica->calls[i].operands, error));
    trm_residence_wrote(residence, step);
    return TRM_OK;
  }
  if (step->kind != TRM_STEP_WHILE) TRY(trm_residence_bring_home(residence, step, error));
  TRY(run_step(r, i, seed, error));
  trm_residence_wrote(residence, step);
  return TRM_OK;
}

static trm_status run_range(const runner *r, trm_step_range range, seeds seed, trm_error *error) {
  for (uint32_t i = range.begin; i < range.end; ++i) {
    const trm_step *step = &r->schedule->steps[i];
    const uint32_t plain_end = find_plain_end(r, (trm_step_range){i, range.end});
    if (plain_end > i) {
      TRY(run_plain(r, i, plain_end, error));
      i = plain_end - 1;
      continue;
    }
    TRY(check_cancelled(r, error));
    const uint64_t start = r->times != NULL ? trm_now() : 0;
    const seeds own = mix_both(seed, step->identity);
    TRY(r->replica->residence == NULL ? run_step(r, i, own, error)
                                      : run_resident(r, i, own, error));
    if (r->times != NULL) {
      r->times[i].nanoseconds += trm_now() - start;
      ++r->times[i].calls;
    }
    /* Skip the steps of a loop or conditional, which follow it. */
    if (step->num_ranges > 0) i = step->ranges[step->num_ranges - 1].end - 1;
  }
  return TRM_OK;
}

trm_status trm_replica_run(trm_engine *engine, uint32_t number, trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  trm_replica *replica = &engine->replicas[number];
  trm_step_time *times = number == 0 ? engine->times : NULL;
  const runner r = {engine, schedule, replica, times, times == NULL && replica->residence == NULL};
  const uint64_t shared = mix(engine->seed & ~identical_replicas, engine->runs);
  const uint32_t among_all = replica->exchange != NULL ? replica->exchange->replica : number;
  const bool own = among_all > 0 && (engine->seed & identical_replicas) == 0;
  const seeds seed = {own ? mix(shared, among_all) : shared, shared};
  const trm_step_range all = {0, schedule->num_steps};
  const trm_status status = run_range(&r, all, seed, error);
  if (r.replica->residence == NULL) return status;
  return trm_residence_end(r.replica->residence, status,
                           engine->stays + (number > 0 ? engine->executable->num_outputs : 0),
                           error);
}
