/* Runs on a thread of their own, of programs that read an infeed. */
#define _GNU_SOURCE /* pthread_cond_clockwait */
#include "runs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "interrupt.h"
#include "pool.h"

struct run {
  run *next; /* in the list of runs */
  int64_t id;
  int references; /* the list, the thread, and whoever has called run_get */
  tf_program *program;
  tf_call call;
  char *name, *feeds; /* the call's */
  feed_use use;
  tf_infeed *infeed;
  tf_inputs inputs;
  TF_Tensor **taken;
  void **outputs; /* blocks of the pool; NULL once handed over */
  size_t num_outputs;
  TF_Status *status;
  bool cancelled; /* under the lock, as the next two */
  bool begun;     /* has its program to itself */
  bool done;
};

/* One lock for all runs: it is held for moments only, never while a program runs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static run *runs;
static int64_t last_id;

static void destroy(run *r) {
  feed_use_end(&r->use);
  program_done(r->program);
  inputs_free(&r->inputs);
  free(r->taken);
  for (size_t i = 0; r->outputs && i < r->num_outputs; ++i) pool_release(r->outputs[i]);
  free(r->outputs);
  free(r->name);
  free(r->feeds);
  if (r->status) TF_DeleteStatus(r->status);
  free(r);
}

void run_release(run *r) {
  pthread_mutex_lock(&lock);
  bool last = --r->references == 0;
  pthread_mutex_unlock(&lock);
  if (last) destroy(r);
}

/* Takes the run off the list, if it is there. */
static void forget(run *r) {
  pthread_mutex_lock(&lock);
  run **link = &runs;
  while (*link && *link != r) link = &(*link)->next;
  bool found = *link == r;
  if (found) *link = r->next;
  pthread_mutex_unlock(&lock);
  if (found) run_release(r);
}

static void *thread_main(void *argument) {
  run *r = argument;
  program_lock(r->program);
  pthread_mutex_lock(&lock);
  bool cancelled = r->cancelled;
  r->begun = true;
  pthread_mutex_unlock(&lock);
  if (cancelled) fail(r->status, TF_CANCELLED, "The run was cancelled before it began.");
  else program_run(r->program, &r->call, r->taken, r->outputs, r->status);
  feed_use_end(&r->use);
  pthread_mutex_lock(&lock);
  r->done = true;
  program_forget_cancel(r->program); /* it was for this run */
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  program_unlock(r->program);
  trm_infeed_close(r->infeed->queue); /* lets whoever feeds it return */
  run_release(r);
  return NULL;
}

/* Cancels the run, whether it has begun or not, and waits until it is done, at most so many seconds
 * (0: as long as it takes). Returns whether it is done. */
static bool cancel(run *r, int seconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += seconds;
  pthread_mutex_lock(&lock);
  r->cancelled = true;
  if (r->begun && !r->done) program_cancel(r->program);
  int result = 0;
  while (!r->done && result != ETIMEDOUT)
    result = seconds > 0 ? pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &until)
                         : pthread_cond_wait(&changed, &lock);
  bool done = r->done;
  pthread_mutex_unlock(&lock);
  return done;
}

/* Any run of this infeed that is in the list, kept; NULL: there is none. */
static run *find_by_infeed(const tf_infeed *feed) {
  pthread_mutex_lock(&lock);
  run *r = runs;
  while (r && r->infeed != feed) r = r->next;
  if (r) ++r->references;
  pthread_mutex_unlock(&lock);
  return r;
}

static bool allocate_outputs(run *r, TF_Status *status) {
  r->num_outputs = program_num_outputs(r->program);
  r->outputs = calloc(r->num_outputs + 1, sizeof *r->outputs);
  if (!r->outputs) return fail_memory(status);
  for (size_t i = 0; i < r->num_outputs; ++i) {
    r->outputs[i] = pool_allocate(program_output(r->program, i)->bytes);
    if (!r->outputs[i]) return fail_memory(status);
  }
  return true;
}

bool run_start(tf_program *program, const tf_call *call, tf_inputs *inputs, TF_Tensor **taken,
               int64_t *out_id, TF_Status *status) {
  tf_infeed *infeed = NULL;
  uint64_t num_reads = 0;
  run *r = NULL;
  bool ok = program_find_infeed(program, call, &infeed, &num_reads, status);
  ok = ok && ((r = calloc(1, sizeof *r)) || fail_memory(status));
  if (!ok) {
    program_done(program);
    inputs_free(inputs);
    free(taken);
    return false;
  }
  run *left_over;
  while ((left_over = find_by_infeed(infeed))) {
    cancel(left_over, 0);
    forget(left_over);
    run_release(left_over);
  }
  r->program = program;
  r->infeed = infeed;
  r->inputs = *inputs;
  r->taken = taken;
  r->status = TF_NewStatus();
  r->name = strdup(call->name);
  r->feeds = strdup(call->feeds);
  r->call = (tf_call){r->name, r->feeds, call->variables, call->is_one_op, call->session};
  if (!r->name || !r->feeds) fail_memory(status);
  if (!is_ok(status) || !allocate_outputs(r, status)) {
    destroy(r);
    return false;
  }
  feed_use_begin(&r->use, r->feeds);
  r->references = 2;
  pthread_mutex_lock(&lock);
  *out_id = r->id = ++last_id;
  r->next = runs;
  runs = r;
  pthread_mutex_unlock(&lock);
  trm_infeed_expect(infeed->queue, num_reads);
  trm_infeed_open(infeed->queue);
  pthread_t thread;
  if (pthread_create(&thread, NULL, thread_main, r) == 0) {
    pthread_detach(thread);
    return true;
  }
  trm_infeed_close(infeed->queue);
  r->done = true;
  forget(r);
  run_release(r);
  return fail(status, TF_RESOURCE_EXHAUSTED, "The host has no thread left to run a program on.");
}

/* The run, kept, or NULL. */
static run *find(int64_t id) {
  pthread_mutex_lock(&lock);
  run *r = runs;
  while (r && r->id != id) r = r->next;
  if (r) ++r->references;
  pthread_mutex_unlock(&lock);
  return r;
}

void run_leave(void *data, size_t size, void *argument) {
  (void)size, (void)argument;
  run *r = find(*(const int64_t *)data);
  free(data);
  if (!r) return;
  feed_use_end(&r->use);
  run_release(r);
}

run *run_get(int64_t id, TF_Status *status) {
  run *r = find(id);
  if (!r)
    fail(status, TF_ABORTED,
         "The run of this program was cancelled, because another run with the same infeed was "
         "started.");
  return r;
}

int32_t trm_tf_interrupted_feeds(void) {
  pthread_mutex_lock(&lock);
  bool found = false;
  for (const run *r = runs; r && !found; r = r->next)
    found = r->done && TF_GetCode(r->status) == TF_CANCELLED;
  pthread_mutex_unlock(&lock);
  return found;
}

tf_infeed *run_infeed(run *r) { return r->infeed; }

bool run_wait(run *r, TF_Status *status) {
  pthread_mutex_lock(&lock);
  while (!r->done) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  forget(r);
  if (is_ok(r->status)) return true;
  TF_SetStatus(status, TF_GetCode(r->status), TF_Message(r->status));
  return false;
}

size_t run_num_outputs(const run *r) { return r->num_outputs; }

static void release_output(void *data, size_t size, void *argument) {
  (void)size, (void)argument;
  pool_release(data);
}

TF_Tensor *run_take_output(run *r, size_t i) {
  const trm_tensor_info *info = program_output(r->program, i);
  void *block = r->outputs[i];
  r->outputs[i] = NULL;
  return TF_NewTensor(tensor_type(info->dtype), info->dims, info->rank, block, info->bytes,
                      release_output, NULL);
}

void trm_tf_forked(void) {
  pthread_mutex_init(&lock, NULL); /* whoever held it is not here */
  pthread_cond_init(&changed, NULL);
  runs = NULL; /* their threads are not here: what they hold is never freed */
  interrupt_forked();
}

/* A run that waits for data must not outlive the libraries that it is in. One that computes is not
 * waited for long: the process is ending. */
__attribute__((destructor)) static void cancel_all(void) {
  enum { MOST_SECONDS = 1 };
  pthread_mutex_lock(&lock);
  run *r = runs;
  if (r) ++r->references; /* never given back: the process ends */
  pthread_mutex_unlock(&lock);
  while (r && cancel(r, MOST_SECONDS)) {
    forget(r);
    pthread_mutex_lock(&lock);
    r = runs;
    if (r) ++r->references;
    pthread_mutex_unlock(&lock);
  }
}
