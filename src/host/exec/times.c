/* Owns: the time that each step takes on this host. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/exec/engine.h"

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
  uint64_t nanoseconds, calls;
  uint32_t step;
  const char *kernel;
} timed_step;

static int slower_first(const void *a, const void *b) {
  const timed_step *l = a, *r = b;
  if (l->nanoseconds != r->nanoseconds) return l->nanoseconds < r->nanoseconds ? 1 : -1;
  return l->step < r->step ? -1 : 1;
}

static int by_kernel(const void *a, const void *b) {
  const timed_step *l = a, *r = b;
  return strcmp(l->kernel, r->kernel);
}

static const char *kernel_of(const trm_step *step) {
  static const char *const kinds[] = {"",       "copy",    "while",     "conditional",
                                      "infeed", "outfeed", "host call", "view"};
  return step->kind == TRM_STEP_KERNEL ? step->kernel->name : kinds[step->kind];
}

static double percent(uint64_t part, uint64_t whole) {
  return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

static void print_steps(const trm_schedule *schedule, const timed_step *times, uint32_t count,
                        trm_text *text) {
  trm_text_format(text, "%10s %8s  %-32s %s\n", "ms", "calls", "kernel", "instruction");
  for (uint32_t i = 0; i < count; ++i) {
    const trm_step *step = &schedule->steps[times[i].step];
    char instruction[512];
    const char *stays = trm_step_stays(schedule, step);
    trm_text_format(
        text, "%10.3f %8llu  %-32s %s%s%s\n", (double)times[i].nanoseconds * 1e-6,
        (unsigned long long)times[i].calls, times[i].kernel,
        trm_instruction_text(
            schedule->module,
            &schedule->module->computations[step->computation].instructions[step->instruction],
            instruction, sizeof instruction),
        stays != NULL ? "  on the CPU: " : "", stays != NULL ? stays : "");
  }
}

static bool is_reference(const char *kernel) { return strncmp(kernel, "reference.", 10) == 0; }

/* The sums by kernel, the largest first, and how much of the time is in reference code. `times` is
 * by kernel, and becomes the sums. */
static void print_sums(timed_step *times, uint32_t count, trm_text *text) {
  uint32_t sums = 0;
  uint64_t whole = 0, slow = 0;
  for (uint32_t i = 0; i < count; ++i) {
    whole += times[i].nanoseconds;
    if (is_reference(times[i].kernel)) slow += times[i].nanoseconds;
    if (sums > 0 && strcmp(times[sums - 1].kernel, times[i].kernel) == 0) {
      times[sums - 1].nanoseconds += times[i].nanoseconds;
      times[sums - 1].calls += times[i].calls;
    } else {
      times[sums++] = times[i];
    }
  }
  qsort(times, sums, sizeof *times, slower_first);
  trm_text_format(text, "\n%10s %8s %7s  %s\n", "ms", "calls", "share", "kernel");
  for (uint32_t i = 0; i < sums; ++i) {
    trm_text_format(text, "%10.3f %8llu %6.1f%%  %s\n", (double)times[i].nanoseconds * 1e-6,
                    (unsigned long long)times[i].calls, percent(times[i].nanoseconds, whole),
                    times[i].kernel);
  }
  trm_text_format(text, "%10.3f %8s %6.1f%%  all\n", (double)whole * 1e-6, "", 100.0);
  if (slow * 100 < whole || slow == 0) return; /* less than a hundredth */
  trm_text_format(text,
                  "\nslow: %.1f%% of the time is in reference code, for which no fast kernel "
                  "was found:",
                  percent(slow, whole));
  for (uint32_t i = 0; i < sums; ++i) {
    if (is_reference(times[i].kernel)) trm_text_format(text, " %s", times[i].kernel);
  }
  trm_text_format(text, "\n");
}

trm_status trm_engine_print_times(const trm_engine *engine, char **out_text, trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  if (engine->times == NULL) {
    FAIL(FAILED_PRECONDITION, "the engine does not measure: call trm_engine_time_steps first");
  }
  timed_step *times = trm_allocate((schedule->num_steps + 1) * sizeof *times);
  CHECK_MEMORY(times, "a table of times");
  uint32_t count = 0;
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const trm_step *step = &schedule->steps[i];
    if (step->kind == TRM_STEP_WHILE || step->kind == TRM_STEP_CONDITIONAL) continue;
    times[count++] =
        (timed_step){engine->times[i].nanoseconds, engine->times[i].calls, i, kernel_of(step)};
  }
  trm_text text = {0};
  qsort(times, count, sizeof *times, slower_first);
  print_steps(schedule, times, count, &text);
  qsort(times, count, sizeof *times, by_kernel);
  print_sums(times, count, &text);
  trm_free(times);
  if (text.failed) {
    trm_text_free(&text);
    FAIL_NO_MEMORY("a table of times");
  }
  *out_text = text.data;
  return TRM_OK;
}
