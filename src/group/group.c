/* Owns: whether this process has joined, and how collectives begin. */
#include "tremula/group.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/place.h"
#include "base/sized.h"
#include "group/channel.h"
#include "group/mpi.h"
#include "group/operation.h"
#include "group/peers.h"
#include "group/progress.h"

static struct {
  pthread_mutex_t joining; /* held while joining and leaving */
  pthread_mutex_t mutex;   /* guards these: */
  bool has_place, is_joined, has_exit;
  trm_group_place place;
  pid_t process; /* who joined: a child of it has no thread of the group */
} self = {.joining = PTHREAD_MUTEX_INITIALIZER, .mutex = PTHREAD_MUTEX_INITIALIZER};

void trm_group_get_place(trm_group_place *out_place) {
  bool knows_local;
  pthread_mutex_lock(&self.mutex);
  if (self.has_place) {
    *out_place = self.place;
  } else {
    trm_place_read(out_place, &knows_local);
  }
  pthread_mutex_unlock(&self.mutex);
}

bool trm_group_is_joined(void) {
  pthread_mutex_lock(&self.mutex);
  const bool is_joined = self.is_joined;
  pthread_mutex_unlock(&self.mutex);
  return is_joined;
}

bool trm_group_has_threads(void) {
  trm_group_place place;
  trm_group_get_place(&place);
  return place.size == 1 || trm_mpi_has_threads();
}

/* ---- Joining and leaving --------------------------------------------------------------------- */

/* MPI ends only where nobody died, because it would wait for the dead. */
static void leave_at_exit(void) {
  if (self.process != getpid()) return;
  trm_group_leave();
  trm_group_place place;
  trm_group_get_place(&place);
  for (uint32_t i = 0; i < place.size && place.size > 1; ++i) {
    if (trm_peer_get_state(i) == PEER_ENDED) return;
  }
  trm_mpi_close();
}

static trm_status join(const trm_group_settings *s, trm_group_place *place, bool knows_local,
                       trm_error *error) {
  if (place->size == 1) return TRM_OK;
  TRY(trm_mpi_open(s->library, s->folder, place->launcher, place->size, error));
  TRY(trm_peers_meet(place, knows_local, error));
  const double stall_seconds = s->stall_seconds > 0 ? s->stall_seconds : 60;
  TRY(trm_channel_open(place->rank, place->size, stall_seconds, error));
  return trm_progress_start(place->rank, place->size, stall_seconds, error);
}

trm_status trm_group_join(const trm_group_settings *settings, trm_error *error) {
  trm_group_settings s = {.size = sizeof s};
  if (settings != NULL) {
    TRY(trm_sized_take(settings, &s, sizeof s, "trm_group_settings", error));
  }
  trm_status status = TRM_OK;
  pthread_mutex_lock(&self.joining);
  if (!trm_group_is_joined()) {
    bool knows_local;
    trm_group_place place;
    trm_place_read(&place, &knows_local);
    status = join(&s, &place, knows_local, error);
    pthread_mutex_lock(&self.mutex);
    if (status == TRM_OK) {
      self.place = place;
      self.is_joined = true;
      self.has_place = place.size > 1;
      self.process = getpid();
      if (!self.has_exit && place.size > 1) self.has_exit = atexit(leave_at_exit) == 0;
    }
    pthread_mutex_unlock(&self.mutex);
  }
  pthread_mutex_unlock(&self.joining);
  return status;
}

void trm_group_leave(void) {
  pthread_mutex_lock(&self.joining);
  if (trm_group_is_joined()) {
    trm_group_place place;
    trm_group_get_place(&place);
    if (place.size > 1 && self.process == getpid()) {
      trm_progress_stop();
      trm_channel_close();
    }
    pthread_mutex_lock(&self.mutex);
    self.is_joined = false;
    pthread_mutex_unlock(&self.mutex);
  }
  pthread_mutex_unlock(&self.joining);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* Of a single participant. */
static trm_status collect_alone(trm_operation *o, trm_error *error) {
  const int64_t rows = o->request.rank > 0 ? o->request.dims[0] : 1;
  bool done = false;
  TRY(trm_operation_begin(o, 0, 0, &rows, error));
  return trm_operation_advance(o, &done, error);
}

trm_status trm_group_start(const trm_collective_request *request, trm_collective_done done,
                           void *user, trm_error *error) {
  trm_collective_request own = {.size = sizeof own};
  TRY(trm_sized_take(request, &own, sizeof own, "trm_collective_request", error));
  if (!trm_group_is_joined()) {
    FAIL(FAILED_PRECONDITION, "collective '%s': this process has not joined the group",
         own.name == NULL ? "" : own.name);
  }
  trm_group_place place;
  trm_group_get_place(&place);
  trm_operation *operation = NULL;
  TRY(trm_operation_create(&own, place.rank, place.size, &operation, error));
  operation->done = done;
  operation->user = user;
  if (operation->request.num_participants > 1) {
    if (trm_progress_add(operation)) return TRM_OK;
    trm_operation_free(operation);
    FAIL(UNAVAILABLE, "collective '%s': this instance has left the group", own.name);
  }
  const trm_status status = collect_alone(operation, error);
  if (status == TRM_OK) done(user, TRM_OK, "", &operation->result);
  trm_operation_free(operation);
  return status;
}

typedef struct waiting {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool done;
  trm_status status;
  trm_error *error;
  trm_collective_result *result;
} waiting;

static void wake(void *user, trm_status status, const char *message,
                 const trm_collective_result *result) {
  waiting *w = user;
  pthread_mutex_lock(&w->mutex);
  w->status = status;
  if (status != TRM_OK) {
    trm_fail(w->error, status, "%s", message);
  } else {
    *w->result = *result;
    if (result->bytes > 0) {
      w->result->data = trm_allocate_aligned(result->bytes);
      if (w->result->data == NULL) {
        w->status = trm_fail(w->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a result");
      } else {
        memcpy(w->result->data, result->data, result->bytes);
      }
    }
  }
  w->done = true;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->mutex);
}

trm_status trm_group_collect(const trm_collective_request *request,
                             trm_collective_result *out_result, trm_error *error) {
  trm_collective_result result = {0};
  waiting w = {.mutex = PTHREAD_MUTEX_INITIALIZER,
               .changed = PTHREAD_COND_INITIALIZER,
               .error = error,
               .result = &result};
  TRY(trm_group_start(request, wake, &w, error));
  pthread_mutex_lock(&w.mutex);
  while (!w.done) pthread_cond_wait(&w.changed, &w.mutex);
  pthread_mutex_unlock(&w.mutex);
  if (w.status == TRM_OK) *out_result = result;
  return w.status;
}

void trm_collective_result_free(trm_collective_result *result) {
  trm_free(result->data);
  *result = (trm_collective_result){0};
}
