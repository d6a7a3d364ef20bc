/* Owns: the time that each step takes on this host. */
#include <stdlib.h>
#include <time.h>

#include "exec/engine.h"

uint64_t trm_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void trm_engine_time_steps(trm_engine *engine, bool on) {
  trm_free(engine->times);
  engine->times =
      on ? trm_allocate_zeroed(engine->executable->schedule->num_steps + 1, sizeof *engine->times)
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
  const trm_schedule *schedule = engine->executable->schedule;
  if (engine->times == NULL) {
    FAIL(FAILED_PRECONDITION, "the engine does not measure: call trm_engine_time_steps first");
  }
  timed_step *order = trm_allocate((schedule->num_steps + 1) * sizeof *order);
  CHECK_MEMORY(order, "a table of times");
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    order[i] = (timed_step){engine->times[i].nanoseconds, i};
  }
  qsort(order, schedule->num_steps, sizeof *order, slower_first);
  trm_text text = {0};
  trm_text_format(&text, "%10s %8s  %-32s %s\n", "ms", "calls", "kernel", "instruction");
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const trm_step *step = &schedule->steps[order[i].step];
    if (step->kind == TRM_STEP_WHILE || step->kind == TRM_STEP_CONDITIONAL) continue;
    static const char *const kinds[] = {"", "copy", "while", "conditional", "infeed", "outfeed"};
    char instruction[512];
    trm_text_format(
        &text, "%10.3f %8llu  %-32s %s\n", (double)order[i].nanoseconds * 1e-6,
        (unsigned long long)engine->times[order[i].step].calls,
        step->kind == TRM_STEP_KERNEL ? step->kernel->name : kinds[step->kind],
        trm_instruction_text(
            schedule->module,
            &schedule->module->computations[step->computation].instructions[step->instruction],
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
