/* Owns: the group's thread, the collectives on their way, and the messages. */
#include "group/progress.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/wait.h"
#include "group/controller.h"
#include "group/once.h"
#include "group/peers.h"
#include "tremula/log.h"

/* Milliseconds between looks at processes and stalls, and for which data of an instance that is
 * gone may still arrive. */
enum { WATCH_MS = 50, GRACE_MS = 2000 };

/* A message on its way to another instance, or to this one. */
typedef struct letter {
  struct letter *next;
  trm_transfer transfer;
  trm_message *message;
} letter;

static struct {
  pthread_t thread;
  pthread_mutex_t mutex; /* guards these: */
  pthread_cond_t changed;
  trm_operation *fresh; /* not yet seen by the thread, the newest first */
  letter *posted;       /* the same, the oldest first; with peer and bytes */
  bool runs, leaving;
  /* Of the thread: */
  uint32_t rank, size, last_id;
  double stall_seconds, watched;
  trm_mpi_handle communicator;
  bool has_communicator, has_told;
  trm_operation *operations;
  letter *sent, *to_self;
  trm_message *buffer; /* for what comes */
  size_t buffer_bytes;
  trm_controller controller;
} group = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- Ending a collective --------------------------------------------------------------------- */

static bool has_transfers_left(const trm_operation *o) {
  for (size_t i = 0; i < o->num_transfers; ++i) {
    if (!o->transfers[i].done) return true;
  }
  return false;
}

/* Takes an operation off the list and tells its caller. MPI may still write to the memory of
 * transfers that are not done, so that memory stays. */
static void finish(trm_operation *operation, trm_status status, const char *message) {
  trm_operation **link = &group.operations;
  while (*link != operation) link = &(*link)->next;
  *link = operation->next;
  operation->done(operation->user, status, message, status == TRM_OK ? &operation->result : NULL);
  if (status == TRM_OK || !has_transfers_left(operation)) trm_operation_free(operation);
}

static void finish_all(trm_status status, const char *message) {
  while (group.operations != NULL) finish(group.operations, status, message);
}

/* A participant that is gone, or -1. One that has ended is why others left. */
static int64_t find_gone(const trm_operation *o) {
  int64_t gone = -1;
  for (uint32_t i = 0; i < o->request.num_participants; ++i) {
    const uint32_t rank = o->request.participants[i];
    const trm_peer_state state = trm_peer_get_state(rank);
    if (state == PEER_ENDED) return rank;
    if (state == PEER_LEFT && gone < 0) gone = rank;
  }
  return gone;
}

/* Fails an operation if a participant is gone. Where both had announced it, its data, or the answer
 * of instance 0, may still be on their way: `has_grace`. */
static void fail_if_gone(trm_operation *o, bool has_grace) {
  const int64_t rank = find_gone(o);
  if (rank < 0) return;
  const double now = trm_now_ms();
  if (has_grace && o->deadline == 0) o->deadline = now + GRACE_MS;
  if (has_grace && now < o->deadline) return;
  const bool has_left = trm_peer_get_state((uint32_t)rank) == PEER_LEFT;
  char who[128], text[TRM_ERROR_SIZE];
  snprintf(text, sizeof text, "collective '%.1024s': %s has %s, and the others cannot go on",
           o->request.name, trm_group_describe((uint32_t)rank, who, sizeof who),
           has_left ? "left the group" : "ended without leaving the group");
  finish(o, TRM_UNAVAILABLE, text);
}

static void fail_those_gone(void) {
  for (trm_operation *o = group.operations, *next; o != NULL; o = next) {
    next = o->next;
    fail_if_gone(o, true);
  }
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Takes over the message. */
static trm_status send(uint32_t to, trm_message *message, size_t bytes, trm_error *error) {
  letter *one = trm_allocate_zeroed(1, sizeof *one);
  if (one == NULL) {
    trm_free(message);
    FAIL_NO_MEMORY("a message to another instance");
  }
  one->message = message;
  letter **link = to == group.rank ? &group.to_self : &group.sent;
  while (*link != NULL) link = &(*link)->next;
  *link = one;
  if (to == group.rank) return TRM_OK;
  one->transfer = (trm_transfer){.communicator = group.communicator,
                                 .data = (char *)message,
                                 .bytes = bytes,
                                 .peer = to,
                                 .tag = TAG_MESSAGE,
                                 .sends = true};
  return trm_transfer_begin(&one->transfer, error);
}

static void log_failure(trm_status status, const trm_error *error) {
  if (status != TRM_OK) trm_log(TRM_LOG_ERR, "GROUP", "%s", error->message);
}

static void send_answer(void *user, uint32_t to, trm_message *message, size_t bytes) {
  (void)user;
  trm_error error;
  log_failure(send(to, message, bytes, &error), &error);
}

static void tell_all(trm_message_type type, uint32_t number) {
  for (uint32_t i = 0; i < group.size; ++i) {
    if (i == group.rank || trm_peer_get_state(i) == PEER_ENDED) continue;
    trm_message *message = trm_allocate_zeroed(1, sizeof *message);
    if (message == NULL) return;
    message->type = type;
    message->number = number;
    send_answer(NULL, i, message, sizeof *message);
  }
}

static void drop_sent(void) {
  for (letter **link = &group.sent; *link != NULL;) {
    letter *one = *link;
    trm_error error;
    if (trm_transfer_poll(&one->transfer, &error) != TRM_OK || one->transfer.done) {
      *link = one->next;
      trm_free(one->message);
      trm_free(one);
    } else {
      link = &one->next;
    }
  }
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static void lose(uint32_t rank, trm_peer_state state) {
  if (!trm_peer_set_state(rank, state)) return;
  if (state == PEER_ENDED) {
    char who[128];
    trm_log(TRM_LOG_ERR, "GROUP", "%s has ended without leaving the group",
            trm_group_describe(rank, who, sizeof who));
  }
  fail_those_gone();
  trm_once_lose(rank);
}

static void take_answer(const trm_message *message) {
  trm_operation *o = group.operations;
  while (o != NULL && o->id != message->id) o = o->next;
  if (o == NULL) return; /* it has failed */
  if (message->status != TRM_OK) {
    finish(o, message->status, message->rest);
    return;
  }
  trm_error error;
  const trm_status status =
      trm_operation_begin(o, group.communicator, (int)message->number,
                          (const int64_t *)(const void *)message->rest, &error);
  if (status != TRM_OK) finish(o, status, error.message);
}

static void take(uint32_t from, const trm_message *message) {
  trm_error error;
  switch (message->type) {
    case MESSAGE_ANNOUNCE:
      log_failure(trm_controller_announce(&group.controller, from, message, &error), &error);
      break;
    case MESSAGE_ANSWER: take_answer(message); break;
    case MESSAGE_LEFT: lose(from, PEER_LEFT); break;
    case MESSAGE_ENDED: lose(message->number, PEER_ENDED); break;
    case MESSAGE_ASK: log_failure(trm_once_take_question(from, message, &error), &error); break;
    case MESSAGE_MADE: log_failure(trm_once_take_made(from, message, &error), &error); break;
    case MESSAGE_TURN: trm_once_take_turn(message); break;
    case MESSAGE_GIVE: trm_once_take_request(message); break;
  }
}

static trm_status receive(bool *out_busy, trm_error *error) {
  while (group.to_self != NULL) {
    letter *one = group.to_self;
    group.to_self = one->next;
    take(group.rank, one->message);
    trm_free(one->message);
    trm_free(one);
    *out_busy = true;
  }
  for (;;) {
    bool found = false;
    uint32_t from = 0;
    TRY(trm_mpi_probe(group.communicator, TAG_MESSAGE, &found, &from, error));
    if (!found) return TRM_OK;
    trm_transfer transfer = {.communicator = group.communicator,
                             .data = (char *)group.buffer,
                             .bytes = group.buffer_bytes,
                             .peer = from,
                             .tag = TAG_MESSAGE};
    TRY(trm_transfer_begin(&transfer, error));
    while (!transfer.done) TRY(trm_transfer_poll(&transfer, error));
    take(from, group.buffer);
    *out_busy = true;
  }
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void announce(trm_operation *o) {
  o->id = o->announcement->id = ++group.last_id;
  o->announcement->type = MESSAGE_ANNOUNCE;
  o->since = o->warned = trm_now_ms();
  o->next = group.operations;
  group.operations = o;
  if (find_gone(o) >= 0) {
    fail_if_gone(o, false);
    return;
  }
  trm_message *copy = trm_allocate(o->announcement_bytes);
  trm_error error = {0};
  trm_status status = TRM_RESOURCE_EXHAUSTED;
  if (copy == NULL) {
    trm_fail(&error, status, "out of memory while announcing a collective");
  } else {
    memcpy(copy, o->announcement, o->announcement_bytes);
    status = send(0, copy, o->announcement_bytes, &error);
  }
  if (status != TRM_OK) finish(o, status, error.message);
}

/* In the order in which they were begun. */
static bool announce_fresh(void) {
  pthread_mutex_lock(&group.mutex);
  trm_operation *fresh = group.fresh, *first = NULL;
  group.fresh = NULL;
  pthread_mutex_unlock(&group.mutex);
  while (fresh != NULL) {
    trm_operation *next = fresh->next;
    fresh->next = first;
    first = fresh;
    fresh = next;
  }
  const bool any = first != NULL;
  while (first != NULL) {
    trm_operation *next = first->next;
    announce(first);
    first = next;
  }
  return any;
}

static bool send_posted(void) {
  pthread_mutex_lock(&group.mutex);
  letter *posted = group.posted;
  group.posted = NULL;
  pthread_mutex_unlock(&group.mutex);
  const bool any = posted != NULL;
  while (posted != NULL) {
    letter *next = posted->next;
    send_answer(NULL, posted->transfer.peer, posted->message, posted->transfer.bytes);
    trm_free(posted);
    posted = next;
  }
  return any;
}

static bool advance(void) {
  bool busy = false;
  for (trm_operation *o = group.operations, *next; o != NULL; o = next) {
    next = o->next;
    if (!o->is_moving) continue;
    busy = true;
    bool done = false;
    trm_error error;
    const trm_status status = trm_operation_advance(o, &done, &error);
    if (status != TRM_OK || done) finish(o, status, status == TRM_OK ? "" : error.message);
  }
  return busy;
}

/* Instance 0 knows who is missing; the others say that they wait, for who looks at their log. */
static void warn_of_stalls(double now) {
  if (group.rank == 0) trm_controller_warn(&group.controller, group.stall_seconds);
  for (trm_operation *o = group.operations; group.rank != 0 && o != NULL; o = o->next) {
    if (o->is_moving || now - o->warned < group.stall_seconds * 1000) continue;
    trm_log(TRM_LOG_WARN, "GROUP",
            "'%s' has waited for %.0f s on instance %u: the log of instance 0 says for whom",
            o->request.name, (now - o->since) / 1000, group.rank);
    o->warned = now;
  }
}

static void watch(void) {
  const double now = trm_now_ms();
  if (now - group.watched < WATCH_MS) return;
  group.watched = now;
  for (int64_t rank = trm_peers_find_ended(); rank >= 0; rank = trm_peers_find_ended()) {
    lose((uint32_t)rank, PEER_ENDED);
    tell_all(MESSAGE_ENDED, (uint32_t)rank);
  }
  fail_those_gone();
  warn_of_stalls(now);
}

/* Whether this instance may go: it has told all, and all have told it. */
static bool is_over(void) {
  for (uint32_t i = 0; i < group.size; ++i) {
    if (i != group.rank && trm_peer_get_state(i) == PEER_HERE) return false;
  }
  for (const letter *one = group.sent; one != NULL; one = one->next) {
    if (trm_peer_get_state(one->transfer.peer) != PEER_ENDED) return false;
  }
  return true;
}

/* Data that others wait for are sent first. */
static bool leave(void) {
  pthread_mutex_lock(&group.mutex);
  const bool leaving = group.leaving;
  pthread_mutex_unlock(&group.mutex);
  if (!leaving) return false;
  for (const trm_operation *o = group.operations; o != NULL && !group.has_told; o = o->next) {
    if (o->is_moving) return false;
  }
  if (!group.has_told) {
    finish_all(TRM_UNAVAILABLE, "this instance has left the group");
    tell_all(MESSAGE_LEFT, 0);
    group.has_told = true;
  }
  return is_over();
}

/* Polls at first, because answers come within microseconds, then sleeps longer and longer. Without
 * a collective on its way only others' messages wait for the thread. */
static void rest(unsigned idle) {
  if (group.operations != NULL && idle < 100) {
    sched_yield();
  } else if (group.operations != NULL) {
    const long microseconds = idle < 600 ? idle - 80 : 500;
    nanosleep(&(struct timespec){0, microseconds * 1000}, NULL);
  } else {
    pthread_mutex_lock(&group.mutex);
    if (group.fresh == NULL && group.posted == NULL)
      trm_cond_wait_briefly(&group.changed, &group.mutex, 1);
    pthread_mutex_unlock(&group.mutex);
  }
}

static void *thread_main(void *argument) {
  (void)argument;
  unsigned idle = 0;
  bool has_failed = false;
  while (!leave()) {
    trm_error error;
    bool busy = announce_fresh();
    busy = send_posted() || busy;
    const trm_status status = receive(&busy, &error);
    if (status != TRM_OK) {
      if (!has_failed) log_failure(status, &error);
      has_failed = true;
      finish_all(status, error.message);
    }
    busy = advance() || busy;
    drop_sent();
    watch();
    idle = busy ? 0 : idle + 1;
    rest(idle);
  }
  return NULL;
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

trm_status trm_progress_start(uint32_t rank, uint32_t size, double stall_seconds,
                              trm_error *error) {
  if (!group.has_communicator) TRY(trm_mpi_duplicate_world(&group.communicator, error));
  group.has_communicator = true;
  group.rank = rank;
  group.size = size;
  group.stall_seconds = stall_seconds;
  group.has_told = group.leaving = false;
  group.controller = (trm_controller){.answer = send_answer};
  group.buffer_bytes = sizeof *group.buffer + TRM_COLLECTIVE_NAME + 1 + size * sizeof(int64_t);
  if (group.buffer_bytes < TRM_ERROR_SIZE * 2) group.buffer_bytes = TRM_ERROR_SIZE * 2;
  group.buffer = trm_allocate(group.buffer_bytes);
  CHECK_MEMORY(group.buffer, "messages of the group");
  trm_once_begin(rank, size, stall_seconds, &(trm_once_ways){trm_progress_post, trm_progress_add});
  group.runs = pthread_create(&group.thread, NULL, thread_main, NULL) == 0;
  if (!group.runs) {
    trm_free(group.buffer);
    FAIL(RESOURCE_EXHAUSTED, "the host has no thread left for the group");
  }
  return TRM_OK;
}

bool trm_progress_add(trm_operation *operation) {
  pthread_mutex_lock(&group.mutex);
  const bool runs = group.runs && !group.leaving;
  if (runs) {
    operation->next = group.fresh;
    group.fresh = operation;
    pthread_cond_signal(&group.changed);
  }
  pthread_mutex_unlock(&group.mutex);
  return runs;
}

bool trm_progress_post(uint32_t to, trm_message *message, size_t bytes) {
  letter *one = trm_allocate_zeroed(1, sizeof *one);
  pthread_mutex_lock(&group.mutex);
  const bool runs = one != NULL && group.runs && !group.leaving;
  if (runs) {
    *one = (letter){.message = message, .transfer = {.peer = to, .bytes = bytes}};
    letter **link = &group.posted;
    while (*link != NULL) link = &(*link)->next;
    *link = one;
    pthread_cond_signal(&group.changed);
  }
  pthread_mutex_unlock(&group.mutex);
  if (runs) return true;
  trm_free(one);
  trm_free(message);
  return false;
}

void trm_progress_stop(void) {
  pthread_mutex_lock(&group.mutex);
  group.leaving = true;
  pthread_cond_signal(&group.changed);
  pthread_mutex_unlock(&group.mutex);
  pthread_join(group.thread, NULL);
  pthread_mutex_lock(&group.mutex);
  group.runs = false;
  pthread_mutex_unlock(&group.mutex);
  trm_controller_clear(&group.controller);
  trm_once_end();
  while (group.posted != NULL) {
    letter *one = group.posted;
    group.posted = one->next;
    trm_free(one->message);
    trm_free(one);
  }
  trm_free(group.buffer);
  group.buffer = NULL;
}
