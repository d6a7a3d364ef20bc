/* Owns: marks, numbers and facts of this process's timeline, until they are written.
 *
 * Rows wait in memory and go to the file (file.c) once a second, when there are many, and at the
 * end. Every thread has a stack of the marks that it has begun. */
#define _GNU_SOURCE
#include "tremula/timeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/wait.h"
#include "timeline/file.h"
#include "tremula/log.h"

enum { MOST_CHANNELS = 64, MOST_WAITING = 4096, WRITE_EVERY_MS = 1000, LABEL = 256 };

static trm_timeline_options options;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool is_on[MOST_CHANNELS]; /* read without the lock */
static pthread_key_t stack_key;

/* Under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *channel_names[MOST_CHANNELS];
static int32_t num_channels;
static trm_timeline_rows waiting;
static sqlite3 *database;
static char path[TRM_TIMELINE_PATH];
static bool has_ended;
static int64_t last_id, last_number; /* of marks; of series and heatmaps */
static double last_write_ms, first_us;
static unsigned generation; /* one more after each fork: threads introduce themselves again */

typedef struct open_mark {
  int64_t id;
  int32_t channel;
  double begin_us;
  char label[LABEL];
} open_mark;

typedef struct mark_stack {
  VECTOR(open_mark) list;
  int64_t thread;
  unsigned generation; /* in which the file knows the thread; 0: none */
} mark_stack;

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* ---- Rows; with the lock held --------------------------------------------------------------- */

static void give_up(const trm_error *why) {
  trm_log(TRM_LOG_WARN, "TIMELINE", "No timeline is written any more: %s", why->message);
  has_ended = true;
  trm_timeline_rows_free(&waiting);
}

static void write_waiting(void) {
  trm_error error;
  last_write_ms = trm_now_ms();
  if (has_ended || waiting.list.count == 0) return;
  if (database == NULL &&
      trm_timeline_file_create(options.directory, &database, path, &error) != TRM_OK) {
    give_up(&error);
    return;
  }
  if (trm_timeline_file_write(database, &waiting, &error) != TRM_OK) give_up(&error);
}

static char *copy(const char *text) { return text != NULL ? strdup(text) : NULL; }

/* Takes copies of the texts. */
static void add_row(const trm_timeline_row *row) {
  if (has_ended) return;
  trm_timeline_row own = *row;
  own.text = copy(row->text), own.graph = copy(row->graph), own.unit = copy(row->unit);
  if (!VECTOR_PUSH(&waiting.list, own)) {
    trm_error error;
    trm_fail(&error, TRM_RESOURCE_EXHAUSTED, "out of memory");
    give_up(&error);
    return;
  }
  const bool is_late = trm_now_ms() - last_write_ms > WRITE_EVERY_MS;
  if (waiting.list.count >= MOST_WAITING || is_late) write_waiting();
}

static bool is_in_time(double time) {
  if (first_us <= 0) first_us = time;
  return options.seconds <= 0 || time - first_us <= options.seconds * 1e6;
}

static void name_channel(int32_t channel) {
  add_row(&(trm_timeline_row){
      .kind = TRM_TIMELINE_CHANNEL, .id = channel, .text = channel_names[channel]});
}

/* ---- The begin and the end of the process --------------------------------------------------- */

static void free_stack(void *data) {
  mark_stack *stack = data;
  VECTOR_FREE(&stack->list);
  free(stack);
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&lock); }

/* The parent's file is the parent's: SQLite's handle is left alone, the child begins anew. */
static void after_fork_in_child(void) {
  trm_timeline_rows_free(&waiting);
  database = NULL;
  path[0] = '\0';
  first_us = 0;
  last_write_ms = trm_now_ms();
  ++generation;
  for (int32_t c = 0; c < num_channels && options.enable; ++c) name_channel(c);
  pthread_mutex_unlock(&lock);
}

static int32_t add_channel(const char *name) {
  if (num_channels == MOST_CHANNELS) return -1;
  const int32_t channel = num_channels++;
  channel_names[channel] = copy(name);
  atomic_store(&is_on[channel], trm_timeline_options_want(&options, name));
  if (options.enable) name_channel(channel);
  return channel;
}

static void start(void) {
  static const char *const names[] = {"Drivers", "Poplar", "Framework"};
  trm_timeline_options_read(getenv("PVTI_OPTIONS"), &options);
  generation = 1;
  last_write_ms = trm_now_ms();
  pthread_mutex_lock(&lock);
  for (size_t c = 0; c < sizeof names / sizeof *names; ++c) add_channel(names[c]);
  pthread_mutex_unlock(&lock);
  pthread_key_create(&stack_key, free_stack);
  if (!options.enable) return;
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  atexit(trm_timeline_close);
}

static void begin(void) { pthread_once(&once, start); }

/* ---- Channels ------------------------------------------------------------------------------- */

int32_t trm_timeline_channel(const char *name) {
  begin();
  pthread_mutex_lock(&lock);
  const int32_t channel = add_channel(name);
  pthread_mutex_unlock(&lock);
  return channel;
}

void trm_timeline_enable(int32_t channel, bool enable) {
  begin();
  if (channel < 0 || channel >= MOST_CHANNELS) return;
  atomic_store(&is_on[channel], enable && options.enable);
}

bool trm_timeline_records(int32_t channel) {
  begin();
  if (channel < 0 || channel >= MOST_CHANNELS) return false;
  return atomic_load_explicit(&is_on[channel], memory_order_relaxed);
}

/* ---- Marks ---------------------------------------------------------------------------------- */

/* This thread's stack; NULL when memory runs out. With the lock held. */
static mark_stack *stack_of_thread(void) {
  mark_stack *stack = pthread_getspecific(stack_key);
  if (stack == NULL) {
    stack = calloc(1, sizeof *stack);
    if (stack == NULL || pthread_setspecific(stack_key, stack) != 0) {
      free(stack);
      return NULL;
    }
  }
  if (stack->generation != generation) {
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    stack->generation = generation;
    stack->thread = gettid();
    add_row(&(trm_timeline_row){
        .kind = TRM_TIMELINE_THREAD, .id = stack->thread, .thread = getpid(), .text = name});
  }
  return stack;
}

void trm_timeline_begin(int32_t channel, const char *label) {
  if (!trm_timeline_records(channel)) return;
  open_mark mark = {.channel = channel, .begin_us = now_us()};
  snprintf(mark.label, sizeof mark.label, "%s", label);
  pthread_mutex_lock(&lock);
  mark_stack *stack = stack_of_thread();
  mark.id = ++last_id;
  if (stack != NULL) (void)VECTOR_PUSH(&stack->list, mark);
  pthread_mutex_unlock(&lock);
}

/* Writes the mark on top of the stack, which ends now. */
static void pop(mark_stack *stack, double end_us) {
  open_mark *mark = &stack->list.items[--stack->list.count];
  if (!is_in_time(mark->begin_us)) return;
  const size_t depth = stack->list.count;
  add_row(&(trm_timeline_row){.kind = TRM_TIMELINE_MARK,
                              .id = mark->id,
                              .thread = stack->thread,
                              .channel = mark->channel,
                              .parent = depth > 0 ? stack->list.items[depth - 1].id : 0,
                              .time = mark->begin_us,
                              .duration = end_us > mark->begin_us ? end_us - mark->begin_us : 0,
                              .text = mark->label});
}

void trm_timeline_end(int32_t channel, const char *label) {
  begin();
  if (!options.enable) return;
  const double end_us = now_us();
  char wanted[LABEL];
  snprintf(wanted, sizeof wanted, "%s", label);
  pthread_mutex_lock(&lock);
  mark_stack *stack = stack_of_thread();
  size_t at = stack != NULL ? stack->list.count : 0;
  while (at > 0 && (stack->list.items[at - 1].channel != channel ||
                    strcmp(stack->list.items[at - 1].label, wanted) != 0)) {
    --at;
  }
  while (at > 0 && stack->list.count >= at) pop(stack, end_us);
  pthread_mutex_unlock(&lock);
}

void trm_timeline_event(int32_t channel, const char *label) {
  if (!trm_timeline_records(channel)) return;
  const double time = now_us();
  pthread_mutex_lock(&lock);
  mark_stack *stack = stack_of_thread();
  if (stack != NULL && is_in_time(time)) {
    const size_t depth = stack->list.count;
    add_row(&(trm_timeline_row){.kind = TRM_TIMELINE_MARK,
                                .id = ++last_id,
                                .thread = stack->thread,
                                .channel = channel,
                                .parent = depth > 0 ? stack->list.items[depth - 1].id : 0,
                                .time = time,
                                .duration = -1,
                                .text = (char *)label});
  }
  pthread_mutex_unlock(&lock);
}

/* ---- Numbers and facts ---------------------------------------------------------------------- */

/* Adds a row whose texts are the caller's; `numbered` gives it the next number, which is returned.
 */
static int32_t add(trm_timeline_row row, bool numbered) {
  begin();
  if (!options.enable) return -1;
  const double time = now_us();
  pthread_mutex_lock(&lock);
  if (numbered) row.id = ++last_number;
  row.time = time;
  if (numbered || row.kind == TRM_TIMELINE_META || is_in_time(time)) add_row(&row);
  pthread_mutex_unlock(&lock);
  return (int32_t)row.id;
}

int32_t trm_timeline_series(const char *graph, const char *series, const char *unit) {
  return add((trm_timeline_row){.kind = TRM_TIMELINE_SERIES,
                                .text = (char *)series,
                                .graph = (char *)graph,
                                .unit = (char *)unit},
             true);
}

void trm_timeline_add(int32_t series, double value) {
  if (series < 0) return;
  add((trm_timeline_row){.kind = TRM_TIMELINE_POINT, .id = series, .duration = value}, false);
}

/* The edges of a heatmap are needed when values come. Never freed: a process has a few. */
typedef struct heatmap {
  struct heatmap *next;
  int32_t id;
  size_t num_edges;
  double edges[];
} heatmap;
static _Atomic(heatmap *) heatmaps;

static char *numbers_text(const double *numbers, size_t count) {
  trm_text text = {0};
  trm_text_format(&text, "[");
  for (size_t i = 0; i < count; ++i) {
    trm_text_format(&text, "%s%.17g", i == 0 ? "" : ",", numbers[i]);
  }
  trm_text_format(&text, "]");
  return text.data;
}

int32_t trm_timeline_heatmap(const char *name, const char *unit, const double *edges,
                             size_t num_edges) {
  begin();
  if (!options.enable) return -1;
  heatmap *made = malloc(sizeof *made + num_edges * sizeof *edges);
  char *text = numbers_text(edges, num_edges);
  if (made == NULL || text == NULL) {
    free(made);
    trm_free(text);
    return -1;
  }
  made->num_edges = num_edges;
  memcpy(made->edges, edges, num_edges * sizeof *edges);
  made->id = add(
      (trm_timeline_row){
          .kind = TRM_TIMELINE_HEATMAP, .text = (char *)name, .graph = text, .unit = (char *)unit},
      true);
  trm_free(text);
  made->next = atomic_load(&heatmaps);
  while (!atomic_compare_exchange_weak(&heatmaps, &made->next, made)) {
  }
  return made->id;
}

void trm_timeline_count(int32_t id, const double *values, size_t num_values) {
  const heatmap *h = atomic_load(&heatmaps);
  while (h != NULL && h->id != id) h = h->next;
  if (id < 0 || h == NULL || h->num_edges < 2) return;
  double *counts = calloc(h->num_edges - 1, sizeof *counts);
  if (counts == NULL) return;
  for (size_t v = 0; v < num_values; ++v) {
    for (size_t e = 0; e + 1 < h->num_edges; ++e) {
      if (values[v] >= h->edges[e] && values[v] < h->edges[e + 1]) ++counts[e];
    }
  }
  char *text = numbers_text(counts, h->num_edges - 1);
  add((trm_timeline_row){.kind = TRM_TIMELINE_COUNTS, .id = id, .text = text}, false);
  trm_free(text);
  free(counts);
}

void trm_timeline_metadata(const char *key, const char *value) {
  add((trm_timeline_row){.kind = TRM_TIMELINE_META, .text = (char *)key, .graph = (char *)value},
      false);
}

/* ---- The file ------------------------------------------------------------------------------- */

const char *trm_timeline_file(void) {
  begin();
  pthread_mutex_lock(&lock);
  if (options.enable) write_waiting(); /* so that there is one */
  pthread_mutex_unlock(&lock);
  return path;
}

void trm_timeline_close(void) {
  begin();
  if (!options.enable) return;
  const double end_us = now_us();
  pthread_mutex_lock(&lock);
  mark_stack *stack = pthread_getspecific(stack_key);
  while (stack != NULL && stack->generation == generation && stack->list.count > 0) {
    pop(stack, end_us);
  }
  write_waiting();
  has_ended = true;
  sqlite3_close(database);
  database = NULL;
  pthread_mutex_unlock(&lock);
}
