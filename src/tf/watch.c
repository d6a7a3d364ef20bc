/* Owns: watching a compilation: its name, log lines, the progress bar. */
#define _GNU_SOURCE
#include "watch.h"

#include <ctype.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/place.h"
#include "base/wait.h"
#include "events.h"
#include "log.h"
#include "tremula/inspect.h"
#include "tremula/log.h"

/* ---- Names ---------------------------------------------------------------------------------- */

enum { MOST_LENGTH = 128 };

/* A used name. */
typedef struct name_count {
  char name[MOST_LENGTH + 12];
  unsigned count; /* number of requests for it */
} name_count;

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static void *counts; /* a tree of name_counts */

static int by_name(const void *a, const void *b) {
  return strcmp(((const name_count *)a)->name, ((const name_count *)b)->name);
}

/* Takes the name, or the next one with a number if it is used. NULL: out of memory. */
static const char *take_name(const name_count *wanted) {
  name_count *const *found = tfind(wanted, &counts, by_name);
  name_count numbered = *wanted;
  while (found && tfind(&numbered, &counts, by_name)) {
    snprintf(numbered.name, sizeof numbered.name, "%s_%u", wanted->name, ++(*found)->count);
  }
  name_count *one = trm_allocate(sizeof *one);
  if (!one) return NULL;
  *one = numbered;
  if (tsearch(one, &counts, by_name)) return one->name;
  trm_free(one);
  return NULL;
}

char *trm_tf_claim_name(const char *module) {
  name_count wanted = {.count = 1};
  for (size_t i = 0; module[i] && i + 1 < MOST_LENGTH; ++i) {
    const unsigned char c = (unsigned char)module[i];
    const bool fits = isalnum(c) || c == '_' || c == '-' || (c == '.' && i > 0);
    wanted.name[i] = fits ? (char)c : '_';
  }
  pthread_mutex_lock(&names_lock);
  const char *taken = take_name(&wanted);
  pthread_mutex_unlock(&names_lock);
  return taken ? trm_tf_copy_text(taken) : NULL; /* used names stay */
}

/* ---- The progress bar -------------------------------------------------------------------------
 *
 * A thread draws it ten times a second, over itself. Of several compilations at once only the
 * oldest is drawn; another one that ends meanwhile is written above it. */

enum { WIDTH = 50, UPDATE_MS = 100, FEW_OPERATIONS = 5, LINE_SIZE = 256 };

/* The percents of each stage in the bar, as in the original. */
static const unsigned percents[] = {2, 2, 36, 60, 0};
static const char *const texts[] = {"Step: Hlo Optimizations", "Step: Pre-Planning Operations",
                                    "Step: Graph Construction", "Step: Graph Compilation",
                                    "Compilation Finished"};

struct trm_tf_progress {
  trm_tf_progress *next;
  const char *name;
  double began; /* in milliseconds */
  unsigned percent;
  trm_tf_stage stage;
  bool ends;
  bool has_thread;
  pthread_t thread;
  pthread_cond_t changed;
};

static atomic_int mode = TRM_TF_PROGRESS_NEVER;
/* Guards the list and standard error; the oldest bar is first. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trm_tf_progress *bars;

void trm_tf_show_progress(int32_t wanted) { atomic_store(&mode, wanted); }

/* Of several instances, only the first shows a bar. */
static bool is_wanted(const trm_module *module) {
  static const char *const slow[] = {"all-reduce", "cholesky", "convolution", "custom-call",
                                     "dot",        "infeed",   "outfeed",     "triangular-solve"};
  trm_group_place place;
  bool knows_local;
  trm_place_read(&place, &knows_local);
  if (place.rank > 0) return false;
  switch (atomic_load(&mode)) {
    case TRM_TF_PROGRESS_ALWAYS: return true;
    case TRM_TF_PROGRESS_AUTO:
      return isatty(STDERR_FILENO) && !trm_log_enabled(TRM_LOG_INFO, "COMPILER") &&
             !trm_tf_log_is_verbose(1, "poplar_compiler") &&
             trm_inspect_count(module, slow, sizeof slow / sizeof *slow) >= FEW_OPERATIONS;
    default: return false;
  }
}

/* ---- Drawing; with the lock held ---- */

static void write_text(const char *text) {
  fputs(text, stderr);
  fflush(stderr);
}

/* Writes the head on a line of its own, over the bar of another compilation. */
static void write_head(const trm_tf_progress *bar, bool over) {
  char line[LINE_SIZE];
  snprintf(line, sizeof line, "%sCompiling module %.200s:\n", over ? "\33[2K" : "", bar->name);
  write_text(line);
}

static void draw(const trm_tf_progress *bar, const char *end) {
  char line[LINE_SIZE], filled[WIDTH + 1];
  const long long tenths = (long long)((trm_now_ms() - bar->began) / 100);
  const unsigned length = bar->percent * WIDTH / 100;
  memset(filled, ' ', WIDTH);
  memset(filled, '#', length);
  filled[WIDTH] = '\0';
  snprintf(line, sizeof line, "\33[2K[%s] %u%% %s [Elapsed: %02lld:%02lld:%02lld.%lld]%s", filled,
           bar->percent, texts[bar->stage], tenths / 36000, tenths / 600 % 60, tenths / 10 % 60,
           tenths % 10, end);
  write_text(line);
}

static void *draw_on(void *argument) {
  trm_tf_progress *bar = argument;
  bool has_head = false;
  pthread_mutex_lock(&lock);
  while (!bar->ends) {
    if (bars == bar) {
      if (!has_head) write_head(bar, false);
      has_head = true;
      draw(bar, "\r");
    }
    trm_cond_wait_briefly(&bar->changed, &lock, UPDATE_MS);
  }
  trm_tf_progress *oldest = bars;
  if (!has_head) write_head(bar, oldest != bar);
  draw(bar, "\n");
  if (oldest != bar) {
    write_head(oldest, false);
    draw(oldest, "\r");
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* ---- A compilation ---- */

/* Begins a bar; NULL: none is shown. `name` must live as long as the bar. */
static trm_tf_progress *progress_begin(const char *name, const trm_module *module) {
  if (!is_wanted(module)) return NULL;
  trm_tf_progress *bar = trm_allocate_zeroed(1, sizeof *bar);
  if (!bar) return NULL;
  bar->name = name;
  bar->began = trm_now_ms();
  pthread_cond_init(&bar->changed, NULL);
  pthread_mutex_lock(&lock);
  trm_tf_progress **link = &bars;
  while (*link) link = &(*link)->next;
  *link = bar;
  pthread_mutex_unlock(&lock);
  bar->has_thread = pthread_create(&bar->thread, NULL, draw_on, bar) == 0;
  return bar;
}

static void progress_update(trm_tf_progress *bar, trm_tf_stage stage, size_t done, size_t total) {
  if (!bar) return;
  unsigned percent = 0;
  for (int s = 0; s < (int)stage; ++s) percent += percents[s];
  if (total) percent += (unsigned)(percents[stage] * done / total);
  pthread_mutex_lock(&lock);
  bar->stage = stage;
  bar->percent = percent;
  pthread_mutex_unlock(&lock);
}

static void progress_end(trm_tf_progress *bar, bool finished) {
  if (!bar) return;
  if (finished) progress_update(bar, TRM_TF_STAGE_FINISHED, 0, 0);
  pthread_mutex_lock(&lock);
  bar->ends = true;
  pthread_cond_signal(&bar->changed);
  pthread_mutex_unlock(&lock);
  if (bar->has_thread) pthread_join(bar->thread, NULL);
  pthread_mutex_lock(&lock);
  trm_tf_progress **link = &bars;
  while (*link != bar) link = &(*link)->next;
  *link = bar->next;
  pthread_mutex_unlock(&lock);
  pthread_cond_destroy(&bar->changed);
  trm_free(bar);
}

/* ---- Watching ------------------------------------------------------------------------------- */

bool trm_tf_watch_name(trm_tf_watch *watch, const char *module) {
  if (!watch->name) watch->name = trm_tf_claim_name(module);
  return watch->name != NULL;
}

void trm_tf_watch_begin(trm_tf_watch *watch, const trm_module *module) {
  watch->is_on = true;
  watch->began = trm_now_ms();
  TRM_TF_DETAIL(1, "poplar_compiler", "Begin XLA compilation: %s for ordinal %d", watch->name,
                watch->ordinal);
  watch->bar = progress_begin(watch->name, module);
  trm_tf_dumps_begin(&watch->dumps, watch->name, module);
}

trm_status trm_tf_watch_pass(const char *pass, const trm_module *module, void *context,
                             trm_error *error) {
  (void)error;
  trm_tf_watch *watch = context;
  trm_inspect_pass_row row = {0};
  size_t total = 0;
  while (trm_inspect_pass(total, &row) && !row.plans) ++total;
  trm_tf_dumps_pass(&watch->dumps, pass, module);
  progress_update(watch->bar, TRM_TF_STAGE_PASSES, ++watch->passes, total);
  (void)trm_inspect_pass(total - 1, &row);
  if (strcmp(pass, row.name) != 0) return TRM_OK;
  TRM_TF_DETAIL(1, "poplar_compiler", "End XLA compilation: %s", watch->name);
  watch->has_events = !trm_inspect_is_trivial(module);
  if (watch->has_events) trm_tf_events_compile_begin(watch->ordinal, watch->name);
  progress_update(watch->bar, TRM_TF_STAGE_KERNELS, 0, 0);
  return TRM_OK;
}

void trm_tf_watch_stage(trm_tf_watch *watch, trm_tf_stage stage) {
  if (!watch->is_on) return;
  if (stage == TRM_TF_STAGE_ENGINE) {
    TRM_TF_DETAIL(1, "poplar_compiler", "Begin compiling Poplar engine %s", watch->name);
  }
  progress_update(watch->bar, stage, 0, 0);
}

/* Writes the schedule and the tensor map, if they are wanted. */
static void dump_estimate(const trm_tf_watch *watch, trm_executable *executable) {
  if (!trm_tf_dumps_want_estimate()) return;
  trm_program *program = NULL;
  trm_error error = {0};
  if (trm_program_create_for_executable(executable, NULL, NULL, &program, &error) == TRM_OK) {
    trm_tf_dumps_estimate(&watch->dumps, executable, program);
  } else {
    trm_log(TRM_LOG_WARN, "COMPILER", "no tensor map and no schedule of %s: %s", watch->name,
            error.message);
  }
  trm_program_free(program);
}

void trm_tf_watch_end(trm_tf_watch *watch, trm_executable *executable) {
  if (!watch->is_on) return;
  watch->is_on = false;
  const double took = trm_now_ms() - watch->began;
  if (executable) {
    TRM_TF_DETAIL(1, "poplar_compiler", "End compiling Poplar engine.");
    dump_estimate(watch, executable);
    if (watch->has_events) {
      trm_tf_events_compile_end(watch->ordinal, watch->name, executable, took / 1e3);
    }
  }
  progress_end(watch->bar, executable != NULL);
  watch->bar = NULL;
  trm_tf_dumps_end(&watch->dumps);
}
