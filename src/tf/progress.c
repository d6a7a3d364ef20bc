/* The progress bar.
 *
 * A thread draws it ten times a second, over itself. Of several compilations at once only the
 * oldest is drawn; another one that ends meanwhile is written above it. */
#define _GNU_SOURCE
#include "progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "tremula/log.h"

enum { WIDTH = 50, UPDATE_MS = 100, FEW_OPERATIONS = 5, LINE_SIZE = 256 };

/* The percents that each stage takes of the bar, as the original shares it out. */
static const unsigned percents[] = {2, 2, 36, 60, 0};
static const char *const texts[] = {"Step: Hlo Optimizations", "Step: Pre-Planning Operations",
                                    "Step: Graph Construction", "Step: Graph Compilation",
                                    "Compilation Finished"};

struct progress {
  progress *next;
  const char *name;
  struct timespec began;
  unsigned percent;
  progress_stage stage;
  bool ends;
  bool has_thread;
  pthread_t thread;
  pthread_cond_t changed;
};

static atomic_int mode = TF_PROGRESS_NEVER;
/* Guards the list and standard error; the oldest bar is first. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static progress *bars;

void trm_tf_show_progress(int32_t wanted) { atomic_store(&mode, wanted); }

static bool is_wanted(const trm_module *module) {
  static const char *const slow[] = {"all-reduce", "cholesky", "convolution", "custom-call",
                                     "dot",        "infeed",   "outfeed",     "triangular-solve"};
  switch (atomic_load(&mode)) {
    case TF_PROGRESS_ALWAYS: return true;
    case TF_PROGRESS_AUTO:
      return isatty(STDERR_FILENO) && !trm_log_enabled(TRM_LOG_INFO, "COMPILER") &&
             !log_is_verbose(1, "poplar_compiler.cc") &&
             trm_inspect_count(module, slow, sizeof slow / sizeof *slow) >= FEW_OPERATIONS;
    default: return false;
  }
}

/* ---- Drawing; with the lock held ---- */

static void write_text(const char *text) {
  fputs(text, stderr);
  fflush(stderr);
}

/* On a line of its own, over the bar of another one. */
static void write_head(const progress *bar, bool over) {
  char line[LINE_SIZE];
  snprintf(line, sizeof line, "%sCompiling module %.200s:\n", over ? "\33[2K" : "", bar->name);
  write_text(line);
}

static void draw(const progress *bar, const char *end) {
  char line[LINE_SIZE], filled[WIDTH + 1];
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long long tenths = ((long long)(now.tv_sec - bar->began.tv_sec) * 1000000000LL +
                            (now.tv_nsec - bar->began.tv_nsec)) /
                           100000000LL;
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
  progress *bar = argument;
  bool has_head = false;
  pthread_mutex_lock(&lock);
  while (!bar->ends) {
    if (bars == bar) {
      if (!has_head) write_head(bar, false);
      has_head = true;
      draw(bar, "\r");
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += UPDATE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_clockwait(&bar->changed, &lock, CLOCK_MONOTONIC, &until);
  }
  progress *oldest = bars;
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

progress *progress_begin(const char *name, const trm_module *module) {
  if (!is_wanted(module)) return NULL;
  progress *bar = calloc(1, sizeof *bar);
  if (!bar) return NULL;
  bar->name = name;
  clock_gettime(CLOCK_MONOTONIC, &bar->began);
  pthread_cond_init(&bar->changed, NULL);
  pthread_mutex_lock(&lock);
  progress **link = &bars;
  while (*link) link = &(*link)->next;
  *link = bar;
  pthread_mutex_unlock(&lock);
  bar->has_thread = pthread_create(&bar->thread, NULL, draw_on, bar) == 0;
  return bar;
}

void progress_update(progress *bar, progress_stage stage, size_t done, size_t total) {
  if (!bar) return;
  unsigned percent = 0;
  for (int s = 0; s < (int)stage; ++s) percent += percents[s];
  if (total) percent += (unsigned)(percents[stage] * done / total);
  pthread_mutex_lock(&lock);
  bar->stage = stage;
  bar->percent = percent;
  pthread_mutex_unlock(&lock);
}

void progress_end(progress *bar, bool finished) {
  if (!bar) return;
  if (finished) progress_update(bar, PROGRESS_FINISHED, 0, 0);
  pthread_mutex_lock(&lock);
  bar->ends = true;
  pthread_cond_signal(&bar->changed);
  pthread_mutex_unlock(&lock);
  if (bar->has_thread) pthread_join(bar->thread, NULL);
  pthread_mutex_lock(&lock);
  progress **link = &bars;
  while (*link != bar) link = &(*link)->next;
  *link = bar->next;
  pthread_mutex_unlock(&lock);
  pthread_cond_destroy(&bar->changed);
  free(bar);
}
