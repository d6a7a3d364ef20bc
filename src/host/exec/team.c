/* Owns: the threads of replicas, and their barrier. */
#include "host/exec/team.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>

#include "base/float_mode.h"
#include "base/wait.h"
#include "host/ops/threads.h"

/* How often a waiting member polls before it sleeps: some ten microseconds. */
enum { SPINS = 1000 };

typedef struct member {
  trm_exchange exchange; /* must be first: a pointer to it is a pointer to the member */
  uint32_t number;
  trm_team *team;
  pthread_t thread;
  bool has_thread;
} member;

struct trm_team {
  uint32_t size;
  trm_remote *remote; /* NULL: all replicas are here */
  const atomic_bool *cancelled;
  member *members;
  /* The calls of the members in the current meeting. They are copies, because a member that a
   * cancellation sends away drops its own while another member still reads it. `calls`, of all
   * replicas, points to them; the remote sets the others. */
  trm_kernel_call *copies;
  const trm_kernel_call **calls;
  const trm_sharing *sharing; /* of the current meeting; NULL: only members meet */
  pthread_mutex_t mutex;      /* guards the fields below */
  pthread_cond_t changed;
  bool ending;
  uint64_t run; /* number of the current run; threads wait for the next */
  trm_team_fn function;
  void *context;
  int threads_each;
  uint32_t arrived, finished; /* number of members at the barrier, at the end of the run */
  const void *what;    /* the step at which members have arrived; NULL: the end of a meeting */
  atomic_uint phase;   /* counts the barriers passed */
  atomic_bool stopped; /* a member has failed: `failure` says why */
  trm_error failure;
};

/* ---- Failing -------------------------------------------------------------------------------- */

/* Call with the mutex held. Only the first failure is kept. */
static void stop(trm_team *team, trm_status status, const char *message) {
  if (atomic_load(&team->stopped)) return;
  team->failure.status = status;
  snprintf(team->failure.message, sizeof team->failure.message, "%s", message);
  atomic_store(&team->stopped, true);
  pthread_cond_broadcast(&team->changed);
}

bool trm_team_is_stopped(const trm_team *team) {
  return atomic_load_explicit(&team->stopped, memory_order_relaxed);
}

static trm_status check(const trm_team *team, trm_error *error) {
  if (atomic_load(team->cancelled)) FAIL(CANCELLED, "the run was cancelled");
  if (atomic_load(&team->stopped)) FAIL(CANCELLED, "another replica has failed");
  return TRM_OK;
}

/* ---- The barrier ---------------------------------------------------------------------------- */

/* Polls for a change of the phase. Only for members that have a core each. */
static bool spin(const trm_team *team, unsigned phase) {
  if (team->size > (uint32_t)trm_threads_cores()) return false;
  for (int i = 0; i < SPINS; ++i) {
    if (atomic_load_explicit(&team->phase, memory_order_acquire) != phase) return true;
#if defined(__SSE__)
    __builtin_ia32_pause();
#endif
  }
  return false;
}

/* Call with the mutex held. A cancellation from a signal handler cannot take the mutex, so the wait
 * has a time limit. */
static void wait_a_while(trm_team *team) {
  trm_cond_wait_briefly(&team->changed, &team->mutex, 100);
}

static trm_status mismatch(uint32_t number, trm_error *error) {
  FAIL(FAILED_PRECONDITION,
       "replica %u has reached another operation than the other replicas, or its end, while they "
       "wait for it: every replica must take the same branches, and the same number of iterations "
       "of a loop, before a collective, an infeed or an outfeed",
       number);
}

/* What a member brings to the barrier. `call` and `sharing` are NULL at the end of a meeting. */
typedef struct arrival {
  const void *what;
  const trm_kernel_call *call;
  const trm_sharing *sharing;
} arrival;

/* Enters the barrier. *out_is_last: this member releases all. Call with the mutex held. */
static trm_status enter(trm_team *team, const member *m, const arrival *a, bool *out_is_last,
                        unsigned *out_phase, trm_error *error) {
  TRY(check(team, error));
  if (team->finished > 0 || (team->arrived > 0 && team->what != a->what)) {
    return mismatch(m->exchange.replica, error);
  }
  team->what = a->what;
  if (a->call != NULL) {
    team->copies[m->number] = *a->call;
    team->sharing = a->sharing;
  }
  *out_phase = atomic_load_explicit(&team->phase, memory_order_relaxed);
  *out_is_last = ++team->arrived == team->size;
  return TRM_OK;
}

/* While all members wait, their last one meets the replicas of other processes. */
static trm_status meet_others(trm_team *team, const arrival *a, trm_error *error) {
  if (team->remote == NULL || team->sharing == NULL) return TRM_OK;
  if (a->call == NULL) return trm_remote_leave(team->remote, team->calls, team->cancelled, error);
  return trm_remote_meet(team->remote, team->sharing, team->calls, team->cancelled, error);
}

static void release(trm_team *team, unsigned phase) {
  pthread_mutex_lock(&team->mutex);
  team->arrived = 0;
  atomic_store_explicit(&team->phase, phase + 1, memory_order_release);
  pthread_cond_broadcast(&team->changed);
  pthread_mutex_unlock(&team->mutex);
}

static trm_status pass_barrier(trm_exchange *exchange, const arrival *a, trm_error *error) {
  const member *m = (const member *)(const void *)exchange;
  trm_team *team = m->team;
  bool is_last = false;
  unsigned phase = 0;
  pthread_mutex_lock(&team->mutex);
  const trm_status entered = enter(team, m, a, &is_last, &phase, error);
  pthread_mutex_unlock(&team->mutex);
  if (entered != TRM_OK) return entered;
  if (is_last) {
    TRY(meet_others(team, a, error));
    release(team, phase);
    return TRM_OK;
  }
  if (spin(team, phase)) return TRM_OK;
  trm_status status = TRM_OK;
  pthread_mutex_lock(&team->mutex);
  while (atomic_load(&team->phase) == phase && status == TRM_OK) {
    status = check(team, error);
    if (status == TRM_OK) wait_a_while(team);
  }
  pthread_mutex_unlock(&team->mutex);
  return status;
}

static trm_status meet(trm_exchange *exchange, const void *what, const trm_kernel_call *mine,
                       const trm_sharing *sharing, trm_error *error) {
  return pass_barrier(exchange, &(arrival){what, mine, sharing}, error);
}

static trm_status leave(trm_exchange *exchange, trm_error *error) {
  return pass_barrier(exchange, &(arrival){NULL, NULL, NULL}, error);
}

trm_exchange *trm_team_exchange(trm_team *team, uint32_t number) {
  return &team->members[number].exchange;
}

/* ---- Running -------------------------------------------------------------------------------- */

static void run_member(trm_team *team, uint32_t number, trm_team_fn function, void *context) {
  trm_error error = {0};
  trm_status status = function(context, number, &error);
  pthread_mutex_lock(&team->mutex);
  if (status == TRM_OK && team->arrived > 0 && !atomic_load(&team->stopped)) {
    status = mismatch(team->members[number].exchange.replica, &error);
  }
  if (status != TRM_OK) stop(team, status, error.message);
  ++team->finished;
  pthread_cond_broadcast(&team->changed);
  pthread_mutex_unlock(&team->mutex);
}

static void *thread_main(void *argument) {
  const member *m = argument;
  trm_team *team = m->team;
  uint64_t done = 0;
  trm_float_mode_set();
  pthread_mutex_lock(&team->mutex);
  for (;;) {
    while (!team->ending && team->run == done) pthread_cond_wait(&team->changed, &team->mutex);
    if (team->ending) break;
    done = team->run;
    const trm_team_fn function = team->function;
    void *context = team->context;
    const int threads = team->threads_each;
    pthread_mutex_unlock(&team->mutex);
    omp_set_num_threads(threads);
    run_member(team, m->number, function, context);
    pthread_mutex_lock(&team->mutex);
  }
  pthread_mutex_unlock(&team->mutex);
  return NULL;
}

trm_status trm_team_run(trm_team *team, trm_team_fn function, void *context, trm_error *error) {
  const int threads = omp_get_max_threads();
  pthread_mutex_lock(&team->mutex);
  team->function = function;
  team->context = context;
  team->threads_each = threads / (int)team->size > 0 ? threads / (int)team->size : 1;
  team->arrived = team->finished = 0;
  atomic_store(&team->stopped, false);
  team->failure.status = TRM_OK;
  ++team->run;
  const int each = team->threads_each;
  pthread_cond_broadcast(&team->changed);
  pthread_mutex_unlock(&team->mutex);
  omp_set_num_threads(each);
  run_member(team, 0, function, context);
  omp_set_num_threads(threads);
  pthread_mutex_lock(&team->mutex);
  while (team->finished < team->size) pthread_cond_wait(&team->changed, &team->mutex);
  const trm_status status = team->failure.status;
  if (status != TRM_OK) trm_fail(error, status, "%s", team->failure.message);
  pthread_mutex_unlock(&team->mutex);
  return status;
}

/* ---- Creating ------------------------------------------------------------------------------- */

trm_status trm_team_create(const trm_team_place *place, const atomic_bool *cancelled,
                           trm_team **out_team, trm_error *error) {
  const uint32_t size = place->size, first = place->first, all = place->num_replicas;
  trm_team *team = trm_allocate_zeroed(1, sizeof *team);
  CHECK_MEMORY(team, "replicas");
  team->remote = place->remote;
  team->cancelled = cancelled;
  team->members = trm_allocate_zeroed(size, sizeof *team->members);
  team->copies = trm_allocate_zeroed(size, sizeof *team->copies);
  team->calls = trm_allocate_zeroed(all, sizeof *team->calls);
  pthread_mutex_init(&team->mutex, NULL);
  pthread_cond_init(&team->changed, NULL);
  atomic_init(&team->phase, 0);
  atomic_init(&team->stopped, false);
  if (team->members == NULL || team->copies == NULL || team->calls == NULL) {
    trm_team_free(team);
    FAIL_NO_MEMORY("replicas");
  }
  team->size = size;
  for (uint32_t i = 0; i < size; ++i) {
    team->calls[first + i] = &team->copies[i];
    team->members[i].exchange =
        (trm_exchange){first + i, all, first, size, team->calls, meet, leave};
    team->members[i].number = i;
    team->members[i].team = team;
  }
  for (uint32_t i = 1; i < size; ++i) {
    member *m = &team->members[i];
    m->has_thread = pthread_create(&m->thread, NULL, thread_main, m) == 0;
    if (m->has_thread) continue;
    trm_team_free(team);
    FAIL(RESOURCE_EXHAUSTED, "the host has no thread left for replica %u of %u", first + i, all);
  }
  *out_team = team;
  return TRM_OK;
}

void trm_team_free(trm_team *team) {
  if (team == NULL) return;
  pthread_mutex_lock(&team->mutex);
  team->ending = true;
  pthread_cond_broadcast(&team->changed);
  pthread_mutex_unlock(&team->mutex);
  for (uint32_t i = 1; i < team->size; ++i) {
    if (team->members[i].has_thread) pthread_join(team->members[i].thread, NULL);
  }
  pthread_cond_destroy(&team->changed);
  pthread_mutex_destroy(&team->mutex);
  trm_free(team->members);
  trm_free(team->copies);
  trm_free(team->calls);
  trm_free(team);
}
