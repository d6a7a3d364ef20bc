/* Owns: observing runs. */
#define _GNU_SOURCE
#include "observe.h"

#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/wait.h"
#include "events.h"
#include "log.h"
#include "pool.h"
#include "tremula/log.h"
#include "tremula/program.h"

/* ---- Programs that take turns ---------------------------------------------------------------
 *
 * An IPU holds one executable: another one has to be loaded before it can run. A program of the
 * user's that does one small thing on the IPU between its steps pays that at every step. */

enum { NAME_SIZE = 128, ENOUGH = 10, USED_TO_IT = 3 };

typedef struct turn {
  uint64_t unit; /* 0: none */
  uint64_t num_runs;
  char name[NAME_SIZE];
  unsigned switches; /* consecutive switches between units that have run before */
  bool told;
  double free_since; /* when the device's last run ended, in seconds; 0: never */
} turn;

static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static turn turns[TRM_TF_MAX_DEVICES];

/* The turn of a device; NULL for an ordinal that no configuration can have. */
static turn *turn_of(int ordinal) {
  return ordinal >= 0 && ordinal < TRM_TF_MAX_DEVICES ? &turns[ordinal] : NULL;
}

static void tell_of_turns(int ordinal, const char *one, const char *other) {
  TRM_TF_INFO(
      "/device:IPU:%d changes between programs at every step: '%s' and '%s' among them. An IPU "
      "loads another executable for each change, which takes longer than most steps. Put what "
      "is small, such as the global step, a counter or a metric, on the CPU (with "
      "tf.device('cpu')), or compile it together with the rest.",
      ordinal, one, other);
}

/* Whether the device ran another unit before. After several changes back and forth a line on
 * standard error reports them. */
static bool note_turn(turn *t, const trm_tf_observation *run) {
  const uint64_t num_runs = run->runnable->num_runs;
  const bool is_switch = t->unit && t->unit != run->unit;
  if (is_switch && num_runs >= USED_TO_IT && t->num_runs >= USED_TO_IT) {
    if (++t->switches >= ENOUGH && !t->told) {
      t->told = true;
      tell_of_turns(run->ordinal, t->name, run->node);
    }
  } else if (t->unit == run->unit && t->switches > 0) {
    --t->switches; /* several steps in a row on one unit are fine */
  }
  t->unit = run->unit;
  t->num_runs = num_runs;
  snprintf(t->name, sizeof t->name, "%s", run->node);
  return is_switch;
}

/* ---- Cycles --------------------------------------------------------------------------------- */

static atomic_int logs_cycles;

void trm_tf_log_cycles(int32_t wanted) { atomic_store(&logs_cycles, wanted); }

/* Logs "Cycle count: N" if that is wanted. N covers the whole run, because all tiles wait for each
 * other at every step. */
static void log_cycles(const trm_tf_runnable *runnable) {
  if (!atomic_load(&logs_cycles)) return;
  trm_program *program = NULL;
  trm_error error = {0};
  if (trm_program_create_for_run(runnable->executable, runnable->inputs, &program, &error) !=
      TRM_OK) {
    trm_log(TRM_LOG_WARN, "PROGRAM", "no cycle count: %s", error.message);
    return;
  }
  trm_program_totals totals = {.size = sizeof totals};
  trm_program_get_totals(program, &totals);
  trm_program_free(program);
  TRM_TF_INFO("Cycle count: %" PRId64, totals.cycles);
}

/* ---- What an IPU would load and move --------------------------------------------------------- */

enum { NONE = -1 };

/* A variable on a device. `output` is NONE until a unit gives it a new value. */
typedef struct resident {
  const void *block;
  uint64_t generation; /* of its contents, which change when the number does */
  size_t bytes;
  int64_t input, output; /* numbers of the unit's input and output */
} resident;

typedef struct device {
  uint64_t unit;   /* the loaded unit; 0: none */
  void *residents; /* a tree of them, by block */
  size_t count;
} device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the devices */
static device devices[TRM_TF_MAX_DEVICES];

/* {"tensors": [{"name": ..., "size": ...}, ...], "total_size": ...} */
typedef struct document {
  trm_text text;
  size_t count, total;
} document;

/* Adds a tensor, named by its number among the unit's inputs or outputs, and a leaf's number: 0. */
static void document_add(document *d, const char *prefix, int64_t number, size_t bytes) {
  trm_text_format(&d->text, "%s{\"name\":\"%s%lld.0\",\"size\":%zu}",
                  d->count++ ? "," : "{\"tensors\":[", prefix, (long long)number, bytes);
  d->total += bytes;
}

/* Records the event, if it has any tensor. */
static void document_close(document *d, int ordinal, bool to_device) {
  trm_text_format(&d->text, "],\"total_size\":%zu}", d->total);
  if (d->count && !d->text.failed) trm_tf_events_transfer(ordinal, to_device, d->text.data);
  trm_text_free(&d->text);
}

static int by_block(const void *a, const void *b) {
  const uintptr_t l = (uintptr_t)((const resident *)a)->block;
  const uintptr_t r = (uintptr_t)((const resident *)b)->block;
  return (l > r) - (l < r);
}

/* The variable in a block; NULL if there is none, or if its contents have changed. */
static resident *find(const device *dev, const void *block) {
  const resident wanted = {.block = block};
  resident *const *found = tfind(&wanted, &dev->residents, by_block);
  return found && (*found)->generation == trm_tf_pool_generation(block) ? *found : NULL;
}

/* A resident for the block, new or reused. NULL: out of memory. */
static resident *enter(device *dev, const void *block, size_t bytes) {
  const resident wanted = {.block = block,
                           .generation = trm_tf_pool_generation(block),
                           .bytes = bytes,
                           .input = NONE,
                           .output = NONE};
  resident *const *found = tfind(&wanted, &dev->residents, by_block);
  resident *r = found ? *found : trm_allocate(sizeof *r);
  if (!r) return NULL;
  *r = wanted;
  if (found) return r;
  if (tsearch(r, &dev->residents, by_block)) {
    ++dev->count;
    return r;
  }
  trm_free(r);
  return NULL;
}

static void forget(device *dev, const void *block) {
  const resident wanted = {.block = block};
  resident *const *found = tfind(&wanted, &dev->residents, by_block);
  if (!found) return;
  resident *r = *found;
  tdelete(&wanted, &dev->residents, by_block);
  trm_free(r);
  --dev->count;
}

typedef struct collection {
  resident **items;
  size_t count;
} collection;

static void collect(const void *node, VISIT visit, void *argument) {
  collection *c = argument;
  if (visit == postorder || visit == leaf) c->items[c->count++] = *(resident *const *)node;
}

static int by_output(const void *a, const void *b) {
  const int64_t l = (*(resident *const *)a)->output, r = (*(resident *const *)b)->output;
  return (l > r) - (l < r);
}

/* Moves all changed variables to the host, and leaves none on the device. */
static void bring_back(device *dev, int ordinal) {
  collection c = {trm_allocate_zeroed(dev->count, sizeof *c.items), 0};
  document d = {0};
  if (!c.items) return;
  twalk_r(dev->residents, collect, &c);
  qsort(c.items, c.count, sizeof *c.items, by_output);
  for (size_t i = 0; i < c.count; ++i) {
    if (c.items[i]->output != NONE) document_add(&d, "out_", c.items[i]->output, c.items[i]->bytes);
  }
  document_close(&d, ordinal, false);
  for (size_t i = 0; i < c.count; ++i) forget(dev, c.items[i]->block);
  trm_free(c.items);
}

/* The index of the first input that is a variable. */
static size_t first_variable(const trm_tf_observation *run) {
  const size_t count = trm_executable_num_inputs(run->runnable->executable);
  return run->num_variables < count ? count - run->num_variables : 0;
}

/* Whether a variable is not on the device, or not in the place where this unit has it. */
static bool wants_sending(const device *dev, const trm_tf_observation *run, size_t count) {
  for (size_t i = first_variable(run); i < count; ++i) {
    const resident *r = find(dev, run->runnable->inputs[i]);
    if (!r || r->input != (int64_t)i) return true;
  }
  return false;
}

static void send(device *dev, const trm_tf_observation *run, size_t count) {
  document d = {0};
  for (size_t i = first_variable(run); i < count; ++i) {
    const size_t bytes = trm_executable_input(run->runnable->executable, i)->bytes;
    resident *r = enter(dev, run->runnable->inputs[i], bytes);
    if (!r) break;
    r->input = (int64_t)i;
    document_add(&d, "", r->input, bytes);
  }
  document_close(&d, run->ordinal, true);
}

/* The device of a run; NULL if transfers are not recorded. */
static device *device_of(const trm_tf_observation *run) {
  if (!run->moves_inputs || !trm_tf_events_want(TRM_TF_EVENTS_TRANSFERS)) return NULL;
  return run->ordinal >= 0 && run->ordinal < TRM_TF_MAX_DEVICES ? &devices[run->ordinal] : NULL;
}

static void transfer_before(const trm_tf_observation *run) {
  device *dev = device_of(run);
  if (!dev) return;
  const size_t count = trm_executable_num_inputs(run->runnable->executable);
  pthread_mutex_lock(&lock);
  if (dev->unit != run->unit) {
    bring_back(dev, run->ordinal);
    dev->unit = run->unit;
    trm_tf_events_load_engine(run->ordinal, run->runnable->name);
  }
  if (wants_sending(dev, run, count)) send(dev, run, count);
  pthread_mutex_unlock(&lock);
}

static void transfer_after(const trm_tf_observation *run) {
  device *dev = device_of(run);
  if (!dev) return;
  const trm_executable *executable = run->runnable->executable;
  const size_t count = trm_executable_num_outputs(executable), first = first_variable(run);
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count; ++i) {
    const int64_t input = trm_executable_output_alias(executable, i);
    if (input < 0 || (size_t)input < first) continue;
    forget(dev, run->runnable->inputs[input]); /* the old value no longer belongs to a variable */
    resident *r = enter(dev, run->outputs[i], trm_executable_output(executable, i)->bytes);
    if (!r) break;
    r->input = input;
    r->output = (int64_t)i;
  }
  pthread_mutex_unlock(&lock);
}

void trm_tf_observe_read(const void *block) {
  if (!trm_tf_events_want(TRM_TF_EVENTS_TRANSFERS)) return;
  pthread_mutex_lock(&lock);
  for (int ordinal = 0; ordinal < TRM_TF_MAX_DEVICES; ++ordinal) {
    const resident *r = find(&devices[ordinal], block);
    if (r && r->output != NONE) bring_back(&devices[ordinal], ordinal);
  }
  pthread_mutex_unlock(&lock);
}

/* ---- A run ---------------------------------------------------------------------------------- */

static double seconds(void) { return trm_now_ms() / 1e3; }

/* The time that runs have waited for the infeed so far, if a profile needs it. */
static double infeed_wait(const trm_tf_runnable *runnable) {
  return runnable->report && runnable->infeed ? trm_infeed_waited(runnable->infeed->queue) : 0;
}

void trm_tf_observe_begin(trm_tf_observation *run) {
  trm_tf_runnable *runnable = run->runnable;
  ++runnable->num_runs;
  turn *t = turn_of(run->ordinal);
  if (t) {
    pthread_mutex_lock(&turns_lock);
    run->device_free = t->free_since;
    if (!runnable->is_trivial) run->is_switch = note_turn(t, run);
    pthread_mutex_unlock(&turns_lock);
  }
  if (runnable->is_trivial) { /* the host alone computes it */
    const size_t count = trm_executable_num_inputs(runnable->executable);
    for (size_t i = first_variable(run); i < count; ++i) trm_tf_observe_read(runnable->inputs[i]);
  } else {
    transfer_before(run);
    TRM_TF_DETAIL(1, "poplar_executor", "Executing %s on /device:IPU:%d", runnable->name,
                  run->ordinal);
  }
  run->infeed_wait = infeed_wait(runnable);
  run->began = seconds();
}

void trm_tf_observe_end(const trm_tf_observation *run, trm_status status) {
  trm_tf_runnable *runnable = run->runnable;
  const double ended = seconds();
  turn *t = turn_of(run->ordinal);
  if (t) {
    pthread_mutex_lock(&turns_lock);
    t->free_since = ended;
    pthread_mutex_unlock(&turns_lock);
  }
  if (status != TRM_OK || runnable->is_trivial) return;
  const trm_report_times times = {.size = sizeof times,
                                  .began = run->began,
                                  .ended = ended,
                                  .device_free = run->device_free,
                                  .is_switch = run->is_switch,
                                  .infeed_wait = infeed_wait(runnable) - run->infeed_wait,
                                  .inputs = runnable->inputs};
  trm_report_run(runnable->report, &times);
  log_cycles(runnable);
  transfer_after(run);
  trm_tf_events_execute(run->ordinal, runnable->name, runnable->executable, runnable->inputs,
                        runnable->num_runs, &runnable->execution);
}
