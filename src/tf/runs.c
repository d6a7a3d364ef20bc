/* Owns: runs, each on a thread of its own, of units that read an infeed. */
#define _GNU_SOURCE
#include "runs.h"

#include <pthread.h>
#include <string.h>

#include "base/wait.h"
#include "interrupt.h"
#include "pool.h"

struct trm_tf_run {
  trm_tf_run *next; /* in the list of runs */
  int64_t id;
  int references; /* of the list, the thread, and callers of trm_tf_run_get */
  trm_tf_unit *unit;
  trm_tf_call call;
  char *name, *feeds; /* the call's */
  trm_tf_feed_use use;
  trm_tf_infeed *infeed;
  trm_tf_inputs inputs;
  TF_Tensor **taken;
  void **outputs; /* blocks of the pool; NULL once handed over */
  size_t num_outputs;
  trm_status status; /* the thread writes status and error before `done` */
  trm_error error;
  bool cancelled; /* the lock guards this and the next two */
  bool begun;     /* has locked its unit */
  bool done;
};

/* One lock for all runs, held briefly and never while a unit runs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static trm_tf_run *runs;
static int64_t last_id;

static void destroy(trm_tf_run *r) {
  trm_tf_feed_use_end(&r->use);
  trm_tf_unit_done(r->unit);
  trm_tf_inputs_free(&r->inputs);
  trm_free(r->taken);
  for (size_t i = 0; r->outputs && i < r->num_outputs; ++i) trm_tf_pool_release(r->outputs[i]);
  trm_free(r->outputs);
  trm_free(r->name);
  trm_free(r->feeds);
  trm_free(r);
}

void trm_tf_run_release(trm_tf_run *r) {
  pthread_mutex_lock(&lock);
  const bool last = --r->references == 0;
  pthread_mutex_unlock(&lock);
  if (last) destroy(r);
}

/* Removes the run from the list, if it is there. */
static void forget(trm_tf_run *r) {
  pthread_mutex_lock(&lock);
  trm_tf_run **link = &runs;
  while (*link && *link != r) link = &(*link)->next;
  const bool found = *link == r;
  if (found) *link = r->next;
  pthread_mutex_unlock(&lock);
  if (found) trm_tf_run_release(r);
}

static void run(trm_tf_run *r) {
  trm_tf_unit_lock(r->unit);
  pthread_mutex_lock(&lock);
  const bool cancelled = r->cancelled;
  r->begun = true;
  pthread_mutex_unlock(&lock);
  if (cancelled) {
    r->status = trm_fail(&r->error, TRM_CANCELLED, "The run was cancelled before it began.");
  } else r->status = trm_tf_unit_run(r->unit, &r->call, r->taken, r->outputs, &r->error);
  trm_tf_feed_use_end(&r->use);
  pthread_mutex_lock(&lock);
  r->done = true;
  trm_tf_unit_forget_cancel(r->unit); /* the cancellation was for this run */
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  trm_tf_unit_unlock(r->unit);
  trm_infeed_close(r->infeed->queue); /* lets threads that feed it return */
  trm_tf_run_release(r);
}

/* ---- Threads: one that has nothing to do waits a while, with the threads of its kernels --------- */

enum { IDLE_MS = 2000 };

typedef struct worker {
  struct worker *next; /* of those that wait */
  trm_tf_run *run;     /* what to do; NULL: nothing */
  pthread_cond_t given;
} worker;

static worker *idle_workers; /* under the lock */

/* Call with the lock held. */
static void take_off(const worker *w) {
  worker **link = &idle_workers;
  while (*link && *link != w) link = &(*link)->next;
  if (*link) *link = w->next;
}

/* Waits for a run; NULL: for too long. */
static trm_tf_run *next_run(worker *w) {
  const double until = trm_now_ms() + IDLE_MS;
  pthread_mutex_lock(&lock);
  w->run = NULL;
  w->next = idle_workers;
  idle_workers = w;
  while (w->run == NULL && trm_now_ms() < until) {
    trm_cond_wait_briefly(&w->given, &lock, 1 + (int)(until - trm_now_ms()));
  }
  if (w->run == NULL) take_off(w);
  trm_tf_run *given = w->run;
  pthread_mutex_unlock(&lock);
  return given;
}

static void *thread_main(void *argument) {
  worker w = {.run = argument};
  pthread_cond_init(&w.given, NULL);
  for (trm_tf_run *r = w.run; r != NULL; r = next_run(&w)) run(r);
  pthread_cond_destroy(&w.given);
  return NULL;
}

/* Has a thread run it; returns false if there is none. */
static bool hand_over(trm_tf_run *r) {
  pthread_mutex_lock(&lock);
  worker *w = idle_workers;
  if (w != NULL) {
    idle_workers = w->next;
    w->run = r;
    pthread_cond_signal(&w->given);
  }
  pthread_mutex_unlock(&lock);
  if (w != NULL) return true;
  pthread_t thread;
  if (pthread_create(&thread, NULL, thread_main, r) != 0) return false;
  pthread_detach(thread);
  return true;
}

/* Cancels the run, whether it has begun or not, and waits until it is done, at most so many
 * milliseconds (0: as long as it takes). Returns whether it is done. */
static bool cancel(trm_tf_run *r, int milliseconds) {
  const double until = trm_now_ms() + milliseconds;
  pthread_mutex_lock(&lock);
  r->cancelled = true;
  if (r->begun && !r->done) trm_tf_unit_cancel(r->unit);
  while (!r->done && (milliseconds == 0 || trm_now_ms() < until)) {
    if (milliseconds == 0) pthread_cond_wait(&changed, &lock);
    else trm_cond_wait_briefly(&changed, &lock, 1 + (int)(until - trm_now_ms()));
  }
  const bool done = r->done;
  pthread_mutex_unlock(&lock);
  return done;
}

/* A run, with a new reference: the one with that id, or, if `feed` is given, the one of that
 * infeed. NULL: none. */
static trm_tf_run *find(int64_t id, const trm_tf_infeed *feed) {
  pthread_mutex_lock(&lock);
  trm_tf_run *r = runs;
  while (r && (feed ? r->infeed != feed : r->id != id)) r = r->next;
  if (r) ++r->references;
  pthread_mutex_unlock(&lock);
  return r;
}

static trm_status allocate_outputs(trm_tf_run *r, trm_error *error) {
  r->num_outputs = trm_tf_unit_num_outputs(r->unit);
  r->outputs = trm_allocate_zeroed(r->num_outputs, sizeof *r->outputs);
  CHECK_MEMORY(r->outputs, "the results of a run");
  for (size_t i = 0; i < r->num_outputs; ++i) {
    r->outputs[i] = trm_tf_pool_allocate(trm_tf_unit_output(r->unit, i)->bytes);
    CHECK_MEMORY(r->outputs[i], "the results of a run");
  }
  return TRM_OK;
}

/* Finds the infeed, and makes everything else that the run needs. */
static trm_status prepare(trm_tf_run *r, const trm_tf_call *call, uint64_t *out_reads,
                          trm_error *error) {
  TRY(trm_tf_unit_find_infeed(r->unit, call, &r->infeed, out_reads, error));
  trm_tf_run *abandoned;
  while ((abandoned = find(0, r->infeed)) != NULL) {
    cancel(abandoned, 0);
    forget(abandoned);
    trm_tf_run_release(abandoned);
  }
  r->name = trm_tf_copy_text(call->name);
  r->feeds = trm_tf_copy_text(call->feeds);
  if (r->name == NULL || r->feeds == NULL) FAIL_NO_MEMORY("the names of a run");
  r->call = *call;
  r->call.name = r->name;
  r->call.feeds = r->feeds;
  return allocate_outputs(r, error);
}

trm_status trm_tf_run_start(trm_tf_unit *unit, const trm_tf_call *call, trm_tf_inputs *inputs,
                            TF_Tensor **taken, int64_t *out_id, trm_error *error) {
  trm_tf_run *r = trm_allocate_zeroed(1, sizeof *r);
  if (r == NULL) {
    trm_tf_unit_done(unit);
    trm_tf_inputs_free(inputs);
    trm_free(taken);
    FAIL_NO_MEMORY("a run");
  }
  r->unit = unit;
  r->inputs = *inputs;
  r->taken = taken;
  uint64_t num_reads = 0;
  const trm_status status = prepare(r, call, &num_reads, error);
  if (status != TRM_OK) {
    destroy(r);
    return status;
  }
  trm_tf_feed_use_begin(&r->use, r->feeds);
  r->references = 2;
  pthread_mutex_lock(&lock);
  *out_id = r->id = ++last_id;
  r->next = runs;
  runs = r;
  pthread_mutex_unlock(&lock);
  trm_infeed_expect(r->infeed->queue, num_reads);
  trm_infeed_open(r->infeed->queue);
  if (hand_over(r)) return TRM_OK;
  trm_infeed_close(r->infeed->queue);
  pthread_mutex_lock(&lock);
  r->done = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  forget(r);
  trm_tf_run_release(r);
  FAIL(RESOURCE_EXHAUSTED, "The host has no thread left to run a program on.");
}

/* Cancels the run. If it has begun, waits for its end, after which it writes to no outfeed. A run
 * that has not begun may have to wait for another run of its unit; it will not begin. */
static void stop(trm_tf_run *r) {
  pthread_mutex_lock(&lock);
  r->cancelled = true;
  if (r->begun && !r->done) {
    trm_tf_unit_cancel(r->unit);
    while (!r->done) pthread_cond_wait(&changed, &lock);
  }
  pthread_mutex_unlock(&lock);
}

void trm_tf_run_leave(void *data, size_t size, void *argument) {
  (void)size, (void)argument;
  trm_tf_run *r = find(*(const int64_t *)data, NULL);
  trm_free(data);
  if (r == NULL) return;
  stop(r);
  trm_tf_feed_use_end(&r->use);
  trm_tf_run_release(r);
}

trm_status trm_tf_run_get(int64_t id, trm_tf_run **out, trm_error *error) {
  *out = find(id, NULL);
  if (*out != NULL) return TRM_OK;
  FAIL(ABORTED,
       "The run of this program was cancelled, because another run with the same infeed was "
       "started.");
}

int32_t trm_tf_interrupted_feeds(void) {
  pthread_mutex_lock(&lock);
  bool found = false;
  for (const trm_tf_run *r = runs; r && !found; r = r->next) {
    found = r->done && r->status == TRM_CANCELLED;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

trm_tf_infeed *trm_tf_run_infeed(trm_tf_run *r) { return r->infeed; }

trm_status trm_tf_run_wait(trm_tf_run *r, trm_error *error) {
  pthread_mutex_lock(&lock);
  while (!r->done) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  forget(r);
  return r->status == TRM_OK ? TRM_OK : trm_fail(error, r->status, "%s", r->error.message);
}

size_t trm_tf_run_num_outputs(const trm_tf_run *r) { return r->num_outputs; }

static void release_output(void *data, size_t size, void *argument) {
  (void)size, (void)argument;
  trm_tf_pool_release(data);
}

TF_Tensor *trm_tf_run_take_output(trm_tf_run *r, size_t i) {
  const trm_tensor_info *info = trm_tf_unit_output(r->unit, i);
  void *block = r->outputs[i];
  r->outputs[i] = NULL;
  return TF_NewTensor(trm_tf_type(info->dtype), info->dims, info->rank, block, info->bytes,
                      release_output, NULL);
}

void trm_tf_forked(void) {
  pthread_mutex_init(&lock, NULL); /* the thread that held it does not exist in the child */
  pthread_cond_init(&changed, NULL);
  runs = NULL; /* their threads are not here: what they hold is never freed */
  idle_workers = NULL;
  trm_tf_interrupt_forked();
}

/* The first run of the list, with a new reference, or NULL. */
static trm_tf_run *first_run(void) {
  pthread_mutex_lock(&lock);
  trm_tf_run *r = runs;
  if (r) ++r->references; /* never released, because the process ends */
  pthread_mutex_unlock(&lock);
  return r;
}

/* A run that waits for data must end before the libraries are unloaded. A run that computes gets a
 * short time only, because the process is ending. */
__attribute__((destructor)) static void cancel_all(void) {
  enum { MOST_MS = 1000 };
  for (trm_tf_run *r = first_run(); r && cancel(r, MOST_MS); r = first_run()) forget(r);
}
