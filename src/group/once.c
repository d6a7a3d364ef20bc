/* Owns: who makes a block for all, who waits for it, and the blocks that others may still want. */
#include "group/once.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/sized.h"
#include "base/wait.h"
#include "group/peers.h"
#include "tremula/log.h"

/* How often who waits looks whether it still should; bytes of a name, which becomes a part of a
 * collective's. */
enum { LOOK_MS = 100, MOST_NAME = 900 };

/* On instance 0. The n-th question of an instance for a name meets the n-th of the others. */
typedef struct job {
  struct job *next;
  char *name;
  uint32_t maker, id; /* the maker's question */
  bool is_made;
  trm_status status; /* why it could not be made */
  char *text;
  uint64_t bytes;
  bool *asked;       /* by instance */
  uint32_t *waiting; /* by instance: its question, 0: none */
} job;

/* Of a caller who waits; on its stack. */
typedef struct question {
  struct question *next;
  uint32_t id;
  bool has_turn, is_answered, is_maker;
  trm_status status;
  trm_error error;
  void *data;
  size_t bytes;
} question;

/* A block that this instance has made. */
typedef struct kept {
  struct kept *next;
  uint32_t id, num_requests; /* of other instances, that have not come */
  char *name;
  void *data;
  size_t bytes;
} kept;

static struct {
  pthread_mutex_t mutex; /* guards these: */
  pthread_cond_t changed;
  bool is_open;
  uint32_t rank, size, last_id;
  double stall_seconds;
  trm_once_ways ways;
  question *questions;
  kept *kept;
  /* Of the group's thread: */
  job *jobs;
} once = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static char *copy_text(const char *text) {
  const size_t bytes = strlen(text) + 1;
  char *copy = trm_allocate(bytes);
  if (copy != NULL) memcpy(copy, text, bytes);
  return copy;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* `text`: a name or why something failed; may be NULL. */
static trm_status post(uint32_t to, const trm_message *head, const char *text, trm_error *error) {
  const size_t length = text == NULL ? 0 : strlen(text);
  trm_message *message = trm_allocate_zeroed(1, sizeof *message + length + 1);
  CHECK_MEMORY(message, "a message to another instance");
  *message = *head;
  message->announcement.name_length = (uint32_t)length;
  if (length > 0) memcpy(message->rest, text, length);
  if (once.ways.post(to, message, sizeof *message + length + 1)) return TRM_OK;
  FAIL(UNAVAILABLE, "this instance has left the group");
}

/* ---- On instance 0 --------------------------------------------------------------------------- */

static void drop_job(job *one) {
  job **link = &once.jobs;
  while (*link != NULL && *link != one) link = &(*link)->next;
  if (*link != NULL) *link = one->next;
  trm_free(one->name);
  trm_free(one->text);
  trm_free(one->asked);
  trm_free(one->waiting);
  trm_free(one);
}

static bool has_been_asked_by_all(const job *one) {
  for (uint32_t i = 0; i < once.size; ++i) {
    if (!one->asked[i] && trm_peer_get_state(i) == PEER_HERE) return false;
  }
  return true;
}

static trm_status tell_turn(const job *one, uint32_t to, uint32_t id, trm_error *error) {
  const trm_message turn = {.type = MESSAGE_TURN,
                            .id = id,
                            .number = one->maker,
                            .status = one->status,
                            .bytes = one->bytes};
  TRY(post(to, &turn, one->status == TRM_OK ? one->name : one->text, error));
  if (to == one->maker || one->status != TRM_OK) return TRM_OK;
  return post(one->maker, &(trm_message){.type = MESSAGE_GIVE, .id = one->id, .number = to}, NULL,
              error);
}

static job *add_job(const char *name, uint32_t maker, uint32_t id) {
  job *one = trm_allocate_zeroed(1, sizeof *one);
  if (one == NULL) return NULL;
  one->name = copy_text(name);
  one->asked = trm_allocate_zeroed(once.size, sizeof *one->asked);
  one->waiting = trm_allocate_zeroed(once.size, sizeof *one->waiting);
  if (one->name == NULL || one->asked == NULL || one->waiting == NULL) {
    drop_job(one);
    return NULL;
  }
  one->maker = maker;
  one->id = id;
  job **link = &once.jobs;
  while (*link != NULL) link = &(*link)->next;
  return *link = one;
}

trm_status trm_once_take_question(uint32_t from, const trm_message *message, trm_error *error) {
  const char *name = trm_message_name(message);
  job *one = once.jobs;
  while (one != NULL && (one->asked[from] || strcmp(one->name, name) != 0)) one = one->next;
  const bool is_new = one == NULL;
  if (is_new) one = add_job(name, from, message->id);
  CHECK_MEMORY(one, "what an instance makes for all");
  one->asked[from] = true;
  if (!is_new && !one->is_made) {
    one->waiting[from] = message->id;
    return TRM_OK;
  }
  TRY(tell_turn(one, from, message->id, error));
  if (one->is_made && has_been_asked_by_all(one)) drop_job(one);
  return TRM_OK;
}

/* The first that waits makes it; nobody does: the next that asks. */
static trm_status pass_on(job *one, trm_error *error) {
  for (uint32_t i = 0; i < once.size; ++i) {
    if (one->waiting[i] == 0 || trm_peer_get_state(i) != PEER_HERE) continue;
    one->maker = i;
    one->id = one->waiting[i];
    one->waiting[i] = 0;
    return tell_turn(one, i, one->id, error);
  }
  drop_job(one);
  return TRM_OK;
}

trm_status trm_once_take_made(uint32_t from, const trm_message *message, trm_error *error) {
  job *one = once.jobs;
  while (one != NULL && (one->is_made || one->maker != from || one->id != message->id)) {
    one = one->next;
  }
  if (one == NULL) return TRM_OK;
  if (message->status == TRM_CANCELLED) return pass_on(one, error);
  one->is_made = true;
  one->status = message->status;
  one->bytes = message->bytes;
  if (one->status != TRM_OK) {
    one->text = copy_text(trm_message_name(message));
    CHECK_MEMORY(one->text, "a message");
  }
  for (uint32_t i = 0; i < once.size; ++i) {
    if (one->waiting[i] != 0) TRY(tell_turn(one, i, one->waiting[i], error));
    one->waiting[i] = 0;
  }
  if (has_been_asked_by_all(one)) drop_job(one);
  return TRM_OK;
}

/* ---- On all ---------------------------------------------------------------------------------- */

static question *find_question(uint32_t id) {
  question *one = once.questions;
  while (one != NULL && one->id != id) one = one->next;
  return one;
}

/* Call with the mutex locked. */
static void answer(question *one, trm_status status, const char *message) {
  one->is_answered = true;
  one->status = status;
  if (status != TRM_OK) trm_fail(&one->error, status, "%s", message);
  pthread_cond_broadcast(&once.changed);
}

/* The maker's part of it is to be broadcast with this name and among these two. */
static trm_status move(const char *name, uint32_t maker, uint32_t other, const void *data,
                       size_t bytes, trm_collective_done done, uint32_t id, trm_error *error) {
  char title[TRM_COLLECTIVE_NAME];
  snprintf(title, sizeof title, "%s for instance %u", name, other);
  const int64_t dims[1] = {(int64_t)bytes};
  const uint32_t both[2] = {maker < other ? maker : other, maker < other ? other : maker};
  trm_collective_request request = {.size = sizeof request};
  request.kind = TRM_COLLECTIVE_BROADCAST;
  request.root = maker;
  request.name = title;
  request.dtype = TRM_U8;
  request.rank = 1;
  request.dims = dims;
  request.input = data;
  request.participants = both;
  request.num_participants = 2;
  trm_operation *operation;
  TRY(trm_operation_create(&request, once.rank, once.size, &operation, error));
  operation->done = done;
  operation->user = (void *)(uintptr_t)id;
  if (once.ways.add(operation)) return TRM_OK;
  trm_operation_free(operation);
  FAIL(UNAVAILABLE, "this instance has left the group");
}

/* The block has come. Whoever asked for it may have given up. */
static void take_block(void *user, trm_status status, const char *message,
                       const trm_collective_result *result) {
  pthread_mutex_lock(&once.mutex);
  question *one = find_question((uint32_t)(uintptr_t)user);
  if (one != NULL && status == TRM_OK) {
    one->data = trm_allocate_aligned(result->bytes);
    one->bytes = result->bytes;
    if (one->data != NULL) memcpy(one->data, result->data, result->bytes);
    else status = TRM_UNAVAILABLE, message = "out of memory for what another instance has made";
  }
  if (one != NULL) answer(one, status, message);
  pthread_mutex_unlock(&once.mutex);
}

void trm_once_take_turn(const trm_message *message) {
  trm_error error;
  const bool is_maker = message->number == once.rank && message->status == TRM_OK;
  pthread_mutex_lock(&once.mutex);
  question *one = find_question(message->id);
  if (one != NULL) one->has_turn = true;
  if (one != NULL && is_maker) one->is_maker = true;
  const bool is_lost = one == NULL && is_maker;
  if (one != NULL && (is_maker || message->status != TRM_OK)) {
    answer(one, message->status, trm_message_name(message));
  }
  pthread_mutex_unlock(&once.mutex);
  if (is_lost) { /* the caller has given up: somebody else makes it */
    (void)post(0, &(trm_message){.type = MESSAGE_MADE, .id = message->id, .status = TRM_CANCELLED},
               NULL, &error);
  }
  if (is_maker || message->status != TRM_OK) return;
  const trm_status status = move(trm_message_name(message), message->number, once.rank, NULL,
                                 message->bytes, take_block, message->id, &error);
  if (status != TRM_OK) {
    take_block((void *)(uintptr_t)message->id, status, error.message, NULL);
  }
}

static void free_kept(kept *one) {
  if (one == NULL) return;
  trm_free(one->name);
  trm_free(one->data);
  trm_free(one);
}

static void has_given(void *user, trm_status status, const char *message,
                      const trm_collective_result *result) {
  (void)status, (void)message, (void)result;
  pthread_mutex_lock(&once.mutex);
  kept **link = &once.kept;
  while (*link != NULL && (*link)->id != (uint32_t)(uintptr_t)user) link = &(*link)->next;
  kept *one = *link;
  if (one != NULL && --one->num_requests > 0) one = NULL;
  if (one != NULL) *link = one->next;
  pthread_mutex_unlock(&once.mutex);
  free_kept(one);
}

void trm_once_take_request(const trm_message *message) {
  pthread_mutex_lock(&once.mutex);
  kept *one = once.kept;
  while (one != NULL && one->id != message->id) one = one->next;
  pthread_mutex_unlock(&once.mutex); /* it stays until its last request */
  trm_error error;
  if (one == NULL) return;
  if (move(one->name, once.rank, message->number, one->data, one->bytes, has_given, one->id,
           &error) != TRM_OK) {
    has_given((void *)(uintptr_t)one->id, TRM_UNAVAILABLE, "", NULL);
  }
}

void trm_once_lose(uint32_t rank) {
  if (rank == 0) {
    pthread_mutex_lock(&once.mutex);
    for (question *one = once.questions; one != NULL; one = one->next) {
      if (!one->has_turn) answer(one, TRM_UNAVAILABLE, "instance 0 is gone");
    }
    pthread_mutex_unlock(&once.mutex);
  }
  for (job *one = once.jobs, *next; one != NULL; one = next) {
    next = one->next;
    trm_error error;
    one->waiting[rank] = 0;
    if (one->is_made && (one->maker == rank || has_been_asked_by_all(one))) drop_job(one);
    else if (one->maker == rank) (void)pass_on(one, &error);
  }
}

void trm_once_begin(uint32_t rank, uint32_t size, double stall_seconds, const trm_once_ways *ways) {
  pthread_mutex_lock(&once.mutex);
  once.rank = rank;
  once.size = size;
  once.stall_seconds = stall_seconds;
  once.ways = *ways;
  once.is_open = true;
  pthread_mutex_unlock(&once.mutex);
}

void trm_once_end(void) {
  pthread_mutex_lock(&once.mutex);
  once.is_open = false;
  for (question *one = once.questions; one != NULL; one = one->next) {
    if (!one->is_answered) answer(one, TRM_UNAVAILABLE, "this instance has left the group");
  }
  while (once.kept != NULL) {
    kept *one = once.kept;
    once.kept = one->next;
    free_kept(one);
  }
  pthread_mutex_unlock(&once.mutex);
  while (once.jobs != NULL) drop_job(once.jobs);
}

/* ---- Callers --------------------------------------------------------------------------------- */

/* Adds the question and asks it. False: there is nobody to ask. */
static bool ask(const char *name, question *q) {
  trm_error error;
  pthread_mutex_lock(&once.mutex);
  const bool is_open = once.is_open && trm_peer_get_state(0) == PEER_HERE;
  if (is_open) {
    q->id = ++once.last_id;
    q->next = once.questions;
    once.questions = q;
  }
  pthread_mutex_unlock(&once.mutex);
  return is_open &&
         post(0, &(trm_message){.type = MESSAGE_ASK, .id = q->id}, name, &error) == TRM_OK;
}

static void forget(question *q) {
  pthread_mutex_lock(&once.mutex);
  question **link = &once.questions;
  while (*link != NULL && *link != q) link = &(*link)->next;
  if (*link != NULL) *link = q->next;
  pthread_mutex_unlock(&once.mutex);
}

static bool has_answer(question *q) {
  pthread_mutex_lock(&once.mutex);
  if (!q->is_answered) trm_cond_wait_briefly(&once.changed, &once.mutex, LOOK_MS);
  const bool is_answered = q->is_answered;
  pthread_mutex_unlock(&once.mutex);
  return is_answered;
}

static trm_status wait_for_answer(const char *name, question *q, const trm_group_maker *maker,
                                  trm_error *error) {
  const double begin = trm_now_ms();
  double warned = begin;
  while (!has_answer(q)) {
    if (maker->goes_on != NULL && !maker->goes_on(maker->user)) {
      FAIL(CANCELLED, "interrupted while another instance made '%s'", name);
    }
    const double now = trm_now_ms();
    if (now - warned < once.stall_seconds * 1000) continue;
    warned = now;
    trm_log(TRM_LOG_WARN, "GROUP", "instance %u has waited for %.0f s for another to make '%s'",
            once.rank, (now - begin) / 1000, name);
  }
  return TRM_OK;
}

static trm_status make_alone(const trm_group_maker *maker, trm_error *error) {
  void *data = NULL;
  size_t bytes;
  const trm_status status = maker->make(maker->user, &data, &bytes, error);
  trm_free(data);
  return status;
}

/* Takes over the data. */
static bool keep(const char *name, uint32_t id, void *data, size_t bytes) {
  kept *one = trm_allocate_zeroed(1, sizeof *one);
  char *copy = copy_text(name);
  pthread_mutex_lock(&once.mutex);
  const bool keeps = one != NULL && copy != NULL && once.is_open;
  if (keeps) {
    *one = (kept){once.kept, id, once.size - 1, copy, data, bytes};
    once.kept = one;
  }
  pthread_mutex_unlock(&once.mutex);
  if (keeps) return true;
  trm_free(one);
  trm_free(copy);
  trm_free(data);
  return false;
}

static trm_status make_for_all(const char *name, uint32_t id, const trm_group_maker *maker,
                               trm_error *error) {
  void *data = NULL;
  size_t bytes = 0;
  trm_error own = {0};
  const trm_status status = maker->make(maker->user, &data, &bytes, &own);
  trm_message made = {.type = MESSAGE_MADE, .id = id, .status = status, .bytes = bytes};
  if (status == TRM_OK && !keep(name, id, data, bytes)) made.status = TRM_CANCELLED;
  trm_error ignored;
  (void)post(0, &made, own.message, &ignored);
  return status == TRM_OK ? status : trm_fail(error, status, "%s", own.message);
}

trm_status trm_group_make_once(const char *name, const trm_group_maker *given, void **out_data,
                               size_t *out_size, trm_error *error) {
  trm_group_maker maker = {.size = sizeof maker};
  TRY(trm_sized_take(given, &maker, sizeof maker, "trm_group_maker", error));
  if (strlen(name) > MOST_NAME) FAIL(INVALID_ARGUMENT, "'%s' is a name of over 900 bytes", name);
  *out_data = NULL;
  *out_size = 0;
  question q = {0};
  if (!ask(name, &q)) {
    forget(&q);
    return make_alone(&maker, error);
  }
  const trm_status waited = wait_for_answer(name, &q, &maker, error);
  forget(&q);
  if (waited != TRM_OK) {
    trm_free(q.data);
    return waited;
  }
  if (q.is_maker) return make_for_all(name, q.id, &maker, error);
  if (q.status == TRM_UNAVAILABLE) return make_alone(&maker, error);
  if (q.status != TRM_OK) return trm_fail(error, q.status, "%s", q.error.message);
  *out_data = q.data;
  *out_size = q.bytes;
  return TRM_OK;
}
