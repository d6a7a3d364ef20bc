/* Owns: engines: memory for an executable, and running it.
 *
 * Every pointer that a step needs stands in a table from the start; a run fills in where inputs and
 * outputs are and then only calls kernels. Nothing is allocated. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/float_mode.h"
#include "exec/executable.h"
#include "exec/feeds.h"

struct trm_engine {
  trm_executable *executable;
  char *arena, *persistent;
  void **pointers;         /* by slot */
  const void **operands;   /* for each step, one after the other */
  void **results;
  uint64_t *versions;      /* for each operand */
  uint32_t *first_operand; /* by step */
  uint32_t *first_result;
  trm_infeed **infeeds;    /* by feed; NULL: not bound */
  trm_outfeed **outfeeds;
  uint64_t seed, runs; /* runs since the seed was set */
  uint64_t contents;   /* a number for what this run computes; never used twice */
  atomic_bool cancelled;
  struct step_time {
    uint64_t nanoseconds, calls;
  } *times; /* by step; NULL: not measured */
};

static trm_status engine_allocate(trm_engine *engine, trm_error *error) {
  const trm_plan *plan = engine->executable->plan;
  size_t num_operands = 0, num_results = 0;
  for (uint32_t i = 0; i < plan->num_steps; ++i) {
    num_operands += plan->steps[i].num_operands;
    num_results += plan->steps[i].num_results;
  }
  engine->arena = trm_allocate_aligned(plan->arena_bytes);
  engine->persistent = trm_allocate_aligned(plan->persistent_bytes);
  engine->pointers = trm_allocate_zeroed(plan->num_slots, sizeof *engine->pointers);
  engine->operands = trm_allocate_zeroed(num_operands, sizeof *engine->operands);
  engine->results = trm_allocate_zeroed(num_results, sizeof *engine->results);
  engine->versions = trm_allocate_zeroed(num_operands, sizeof *engine->versions);
  engine->first_operand = trm_allocate_zeroed(plan->num_steps, sizeof *engine->first_operand);
  engine->first_result = trm_allocate_zeroed(plan->num_steps, sizeof *engine->first_result);
  engine->infeeds = trm_allocate_zeroed(plan->num_feeds, sizeof *engine->infeeds);
  engine->outfeeds = trm_allocate_zeroed(plan->num_feeds, sizeof *engine->outfeeds);
  if (engine->arena == NULL || engine->persistent == NULL) {
    FAIL(RESOURCE_EXHAUSTED,
         "out of memory: the program needs %zu bytes for its values and %zu for packed weights",
         plan->arena_bytes, plan->persistent_bytes);
  }
  if (engine->pointers == NULL || engine->operands == NULL || engine->results == NULL ||
      engine->versions == NULL || engine->first_operand == NULL || engine->first_result == NULL ||
      engine->infeeds == NULL || engine->outfeeds == NULL) {
    FAIL_NO_MEMORY("an engine");
  }
  memset(engine->persistent, 0, plan->persistent_bytes);
  uint32_t operands = 0, results = 0;
  for (uint32_t i = 0; i < plan->num_steps; ++i) {
    engine->first_operand[i] = operands;
    engine->first_result[i] = results;
    operands += plan->steps[i].num_operands;
    results += plan->steps[i].num_results;
  }
  return TRM_OK;
}

trm_status trm_engine_create(trm_executable *executable, trm_engine **out_engine,
                             trm_error *error) {
  trm_engine *engine = trm_allocate_zeroed(1, sizeof *engine);
  CHECK_MEMORY(engine, "an engine");
  engine->executable = trm_executable_retain(executable);
  atomic_init(&engine->cancelled, false);
  const trm_status status = engine_allocate(engine, error);
  if (status != TRM_OK) {
    trm_engine_free(engine);
    return status;
  }
  *out_engine = engine;
  return TRM_OK;
}

void trm_engine_free(trm_engine *engine) {
  if (engine == NULL) return;
  const uint32_t num_feeds = engine->executable->plan->num_feeds;
  for (uint32_t f = 0; f < num_feeds; ++f) {
    if (engine->infeeds != NULL) trm_infeed_release(engine->infeeds[f]);
    if (engine->outfeeds != NULL) trm_outfeed_release(engine->outfeeds[f]);
  }
  trm_free(engine->arena);
  trm_free(engine->persistent);
  trm_free(engine->pointers);
  trm_free(engine->operands);
  trm_free(engine->results);
  trm_free(engine->versions);
  trm_free(engine->first_operand);
  trm_free(engine->first_result);
  trm_free(engine->infeeds);
  trm_free(engine->outfeeds);
  trm_free(engine->times);
  trm_executable_free(engine->executable);
  trm_free(engine);
}

void trm_engine_cancel(trm_engine *engine) { atomic_store(&engine->cancelled, true); }
void trm_engine_forget_cancel(trm_engine *engine) { atomic_store(&engine->cancelled, false); }

void trm_engine_set_seed(trm_engine *engine, uint64_t seed) {
  engine->seed = seed;
  engine->runs = 0;
}

/* ---- Feeds ---------------------------------------------------------------------------------- */

static trm_status find_feed(const trm_engine *engine, const char *id, char kind, uint32_t *out_feed,
                            trm_error *error) {
  const trm_plan *plan = engine->executable->plan;
  for (uint32_t f = 0; f < plan->num_feeds; ++f) {
    if (plan->feeds[f].kind == kind && strcmp(plan->feeds[f].id, id) == 0) {
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
  const trm_feed_info *info = &engine->executable->plan->feeds[feed];
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
  const trm_feed_info *info = &engine->executable->plan->feeds[feed];
  TRY(trm_outfeed_check(outfeed, id, info->elements, info->num_elements, error));
  trm_outfeed_retain(outfeed);
  trm_outfeed_release(engine->outfeeds[feed]);
  engine->outfeeds[feed] = outfeed;
  return TRM_OK;
}

/* ---- Times ---------------------------------------------------------------------------------- */

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void trm_engine_time_steps(trm_engine *engine, bool on) {
  trm_free(engine->times);
  engine->times = on ? trm_allocate_zeroed(engine->executable->plan->num_steps + 1,
                                           sizeof *engine->times)
                     : NULL;
}

typedef struct timed_step {
  uint64_t nanoseconds;
  uint32_t step;
} timed_step;

static int slower_first(const void *a, const void *b) {
  const timed_step *l = a, *r = b;
  if (l->nanoseconds != r->nanoseconds) return l->nanoseconds < r->nanoseconds ? 1 : -1;
  return l->step < r->step ? -1 : 1;
}

trm_status trm_engine_print_times(const trm_engine *engine, char **out_text, trm_error *error) {
  const trm_plan *plan = engine->executable->plan;
  if (engine->times == NULL) {
    FAIL(FAILED_PRECONDITION, "the engine does not measure: call trm_engine_time_steps first");
  }
  timed_step *order = trm_allocate((plan->num_steps + 1) * sizeof *order);
  CHECK_MEMORY(order, "a table of times");
  for (uint32_t i = 0; i < plan->num_steps; ++i) {
    order[i] = (timed_step){engine->times[i].nanoseconds, i};
  }
  qsort(order, plan->num_steps, sizeof *order, slower_first);
  trm_text text = {0};
  trm_text_format(&text, "%10s %8s  %-32s %s\n", "ms", "calls", "kernel", "instruction");
  for (uint32_t i = 0; i < plan->num_steps; ++i) {
    const trm_step *step = &plan->steps[order[i].step];
    if (step->kind == TRM_STEP_WHILE || step->kind == TRM_STEP_CONDITIONAL) continue;
    static const char *const kinds[] = {"", "copy", "while", "conditional", "infeed", "outfeed"};
    char instruction[512];
    trm_text_format(
        &text, "%10.3f %8llu  %-32s %s\n", (double)order[i].nanoseconds * 1e-6,
        (unsigned long long)engine->times[order[i].step].calls,
        step->kind == TRM_STEP_KERNEL ? step->kernel->name : kinds[step->kind],
        trm_instruction_text(
            plan->module,
            &plan->module->computations[step->computation].instructions[step->instruction],
            instruction, sizeof instruction));
  }
  trm_free(order);
  if (text.failed) {
    trm_text_free(&text);
    FAIL_NO_MEMORY("a table of times");
  }
  *out_text = text.data;
  return TRM_OK;
}

/* ---- Running -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b + UINT64_C(0x9e3779b97f4a7c15) + (a << 6) + (a >> 2));
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Where every slot is, in this run. */
static void locate(trm_engine *engine, const void *const *inputs, const uint64_t *versions,
                   void *const *outputs) {
  const trm_plan *plan = engine->executable->plan;
  /* Own numbers have the high bit set, the caller's have not. */
  const uint64_t this_run = ++engine->contents | UINT64_C(1) << 63;
  for (uint32_t s = 0; s < plan->num_slots; ++s) {
    const trm_slot *slot = &plan->slots[plan->slots[s].parent];
    switch (slot->kind) {
      case TRM_SLOT_ARENA:
        engine->pointers[s] = engine->arena + slot->offset;
        break;
      case TRM_SLOT_INPUT:
        engine->pointers[s] = (void *)inputs[slot->number];
        break;
      case TRM_SLOT_OUTPUT:
        engine->pointers[s] = outputs[slot->number];
        break;
      case TRM_SLOT_CONSTANT:
        engine->pointers[s] = (void *)slot->constant;
        break;
    }
  }
  for (uint32_t i = 0; i < plan->num_steps; ++i) {
    const trm_step *step = &plan->steps[i];
    const void **operands = engine->operands + engine->first_operand[i];
    void **results = engine->results + engine->first_result[i];
    uint64_t *numbers = engine->versions + engine->first_operand[i];
    for (uint32_t k = 0; k < step->num_operands; ++k) {
      const trm_slot *slot = &plan->slots[step->slots[k]];
      operands[k] = engine->pointers[step->slots[k]];
      numbers[k] = 0;
      if (slot->kind == TRM_SLOT_CONSTANT) {
        numbers[k] = 1;
      } else if (slot->kind == TRM_SLOT_INPUT) {
        const uint64_t given = versions != NULL ? versions[slot->number] : 0;
        numbers[k] = given != 0 ? given & ~(UINT64_C(1) << 63) : this_run;
      } else if (slot->at_top) {
        numbers[k] = this_run;
      }
    }
    for (uint32_t k = 0; k < step->num_results; ++k) {
      results[k] = engine->pointers[step->slots[step->num_operands + k]];
    }
  }
}

static trm_status run_range(trm_engine *engine, trm_step_range range, uint64_t seed,
                            trm_error *error);

static trm_status note_step(const trm_engine *engine, const trm_step *step, trm_status status,
                            trm_error *error) {
  if (status == TRM_CANCELLED || status == TRM_OUT_OF_RANGE) return status;
  char text[512];
  const trm_module *module = engine->executable->plan->module;
  return trm_note(error, status, "while running %s",
                  trm_instruction_text(
                      module,
                      &module->computations[step->computation].instructions[step->instruction],
                      text, sizeof text));
}

static trm_status run_while(trm_engine *engine, const trm_step *step, const bool *condition,
                            uint64_t seed, trm_error *error) {
  for (uint64_t iteration = 0;; ++iteration) {
    if (atomic_load_explicit(&engine->cancelled, memory_order_relaxed)) {
      FAIL(CANCELLED, "the run was cancelled");
    }
    const uint64_t inner = mix(seed, iteration);
    TRY(run_range(engine, step->ranges[0], inner, error));
    if (!*condition) return TRM_OK;
    TRY(run_range(engine, step->ranges[1], inner, error));
  }
}

static uint32_t chosen_branch(const trm_step *step, const void *selector) {
  if (step->selector_is_pred) return *(const uint8_t *)selector != 0 ? 0 : 1;
  int32_t index;
  memcpy(&index, selector, sizeof index);
  return index < 0 || (uint32_t)index >= step->num_ranges ? step->num_ranges - 1 : (uint32_t)index;
}

static trm_status run_step(trm_engine *engine, uint32_t i, uint64_t seed, trm_error *error) {
  const trm_plan *plan = engine->executable->plan;
  const trm_step *step = &plan->steps[i];
  const void **operands = engine->operands + engine->first_operand[i];
  void **results = engine->results + engine->first_result[i];
  switch (step->kind) {
    case TRM_STEP_KERNEL: {
      const trm_kernel_call call = {
          .operands = operands,
          .versions = engine->versions + engine->first_operand[i],
          .results = results,
          .scratch = step->scratch != TRM_NO_INDEX ? engine->pointers[step->scratch] : NULL,
          .persistent = engine->persistent + step->persistent,
          .seed = seed};
      const trm_status status = step->kernel->run(step->kernel, &call, error);
      return status == TRM_OK ? TRM_OK : note_step(engine, step, status, error);
    }
    case TRM_STEP_COPY:
      if (operands[0] != results[0] && plan->slots[step->slots[0]].bytes > 0) {
        memcpy(results[0], operands[0], plan->slots[step->slots[0]].bytes);
      }
      return TRM_OK;
    case TRM_STEP_WHILE:
      return run_while(engine, step, operands[0], seed, error);
    case TRM_STEP_CONDITIONAL:
      return run_range(engine, step->ranges[chosen_branch(step, operands[0])], seed, error);
    case TRM_STEP_INFEED: {
      if (engine->infeeds[step->feed] == NULL) {
        FAIL(FAILED_PRECONDITION, "the infeed '%s' is not bound to a queue",
             plan->feeds[step->feed].id);
      }
      return trm_infeed_pop(engine->infeeds[step->feed], results, &engine->cancelled, error);
    }
    case TRM_STEP_OUTFEED:
      if (engine->outfeeds[step->feed] == NULL) {
        FAIL(FAILED_PRECONDITION, "the outfeed '%s' is not bound to a queue",
             plan->feeds[step->feed].id);
      }
      return trm_outfeed_push(engine->outfeeds[step->feed], operands, error);
  }
  FAIL(INTERNAL, "a step has an unknown kind");
}

static trm_status run_range(trm_engine *engine, trm_step_range range, uint64_t seed,
                            trm_error *error) {
  const trm_plan *plan = engine->executable->plan;
  for (uint32_t i = range.begin; i < range.end; ++i) {
    const trm_step *step = &plan->steps[i];
    if (atomic_load_explicit(&engine->cancelled, memory_order_relaxed)) {
      FAIL(CANCELLED, "the run was cancelled");
    }
    const uint64_t start = engine->times != NULL ? now() : 0;
    TRY(run_step(engine, i, mix(seed, i), error));
    if (engine->times != NULL) {
      engine->times[i].nanoseconds += now() - start;
      engine->times[i].calls++;
    }
    /* What a loop or conditional ran stands behind it. */
    if (step->num_ranges > 0) i = step->ranges[step->num_ranges - 1].end - 1;
  }
  return TRM_OK;
}

trm_status trm_engine_run(trm_engine *engine, const void *const *inputs, const uint64_t *versions,
                          void *const *outputs, trm_error *error) {
  const trm_plan *plan = engine->executable->plan;
  if (atomic_exchange(&engine->cancelled, false)) FAIL(CANCELLED, "the run was cancelled");
  engine->runs++;
  locate(engine, inputs, versions, outputs);
  for (uint32_t f = 0; f < plan->num_feeds; ++f) {
    if (engine->infeeds[f] != NULL) trm_infeed_open(engine->infeeds[f]);
  }
  const trm_step_range all = {0, plan->num_steps};
  const unsigned mode = trm_float_mode_set();
  const trm_status status = run_range(engine, all, mix(engine->seed, engine->runs), error);
  trm_float_mode_restore(mode);
  for (uint32_t f = 0; f < plan->num_feeds; ++f) {
    if (engine->infeeds[f] != NULL) trm_infeed_close(engine->infeeds[f]);
  }
  /* One that came too late to stop this run was meant for it all the same. */
  trm_engine_forget_cancel(engine);
  return status;
}
