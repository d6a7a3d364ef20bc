/* Owns: the rounds of collectives on instance 0. */
#include "group/controller.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/wait.h"
#include "tremula/log.h"

/* A collective that some participants have announced. The n-th announcement of a name by an
 * instance goes to the first round of that name in which the instance is missing. */
typedef struct trm_round {
  struct trm_round *next;
  trm_message *first; /* a copy of the first announcement */
  uint32_t first_from, num_here;
  char *failure; /* why participants get no data; NULL: they do */
  double since, warned;
  /* For each participant: */
  bool *here;
  uint32_t *ids;
  int64_t *rows;
} trm_round;

static void free_round(trm_round *round) {
  if (round == NULL) return;
  trm_free(round->first);
  trm_free(round->failure);
  trm_free(round->here);
  trm_free(round->ids);
  trm_free(round->rows);
  trm_free(round);
}

static size_t announcement_bytes(const trm_message *m) {
  return sizeof *m + m->announcement.num_participants * sizeof(uint32_t) +
         m->announcement.name_length + 1;
}

static bool is_same_collective(const trm_message *a, const trm_message *b) {
  return a->announcement.num_participants == b->announcement.num_participants &&
         memcmp(trm_message_participants(a), trm_message_participants(b),
                a->announcement.num_participants * sizeof(uint32_t)) == 0 &&
         strcmp(trm_message_name(a), trm_message_name(b)) == 0;
}

/* The index of an instance among the participants, who include it. */
static uint32_t place_of(const trm_message *m, uint32_t rank) {
  uint32_t i = 0;
  while (trm_message_participants(m)[i] != rank) ++i;
  return i;
}

/* ---- Mismatches ------------------------------------------------------------------------------ */

static const char *const kinds[] = {"all-reduce", "all-gather", "broadcast", "barrier"};

/* Such as "all-reduce (sum) of f32[2,3]". */
static void describe(const trm_announcement *a, char *buffer, size_t size) {
  size_t used = (size_t)snprintf(buffer, size, "%s", kinds[a->kind]);
  if (a->kind == TRM_COLLECTIVE_ALL_REDUCE) {
    used += (size_t)snprintf(buffer + used, size - used, " (%s)",
                             a->op == TRM_COLLECTIVE_MEAN ? "mean" : "sum");
  } else if (a->kind == TRM_COLLECTIVE_BROADCAST) {
    used += (size_t)snprintf(buffer + used, size - used, " from instance %u", a->root);
  } else if (a->kind == TRM_COLLECTIVE_BARRIER) {
    return;
  }
  used += (size_t)snprintf(buffer + used, size - used, " of %s[", trm_dtype_name(a->dtype));
  for (int32_t i = 0; i < a->rank; ++i) {
    used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i > 0 ? "," : "",
                             (long long)a->dims[i]);
  }
  snprintf(buffer + used, size - used, "]");
}

static bool do_agree(const trm_announcement *a, const trm_announcement *b) {
  if (a->kind != b->kind) return false;
  if (a->kind == TRM_COLLECTIVE_BARRIER) return true;
  const int32_t first = a->kind == TRM_COLLECTIVE_ALL_GATHER && a->rank > 0 ? 1 : 0;
  return a->dtype == b->dtype && a->rank == b->rank && a->op == b->op && a->root == b->root &&
         memcmp(a->dims + first, b->dims + first, (size_t)(a->rank - first) * sizeof *a->dims) == 0;
}

static char *mismatch(const trm_round *round, const trm_message *message, uint32_t from) {
  char mine[512], theirs[512], me[128], them[128];
  describe(&round->first->announcement, mine, sizeof mine);
  describe(&message->announcement, theirs, sizeof theirs);
  trm_text text = {0};
  trm_text_format(&text,
                  "Tensor layouts did not match on all instances: '%.200s' is an %s on %s, and an "
                  "%s on %s",
                  trm_message_name(message), mine,
                  trm_group_describe(round->first_from, me, sizeof me), theirs,
                  trm_group_describe(from, them, sizeof them));
  return text.data;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static trm_round *find_round(trm_controller *controller, uint32_t from, const trm_message *message,
                             uint32_t *out_place) {
  trm_round **link = &controller->rounds;
  for (; *link != NULL; link = &(*link)->next) {
    if (!is_same_collective((*link)->first, message)) continue;
    *out_place = place_of(message, from);
    if (!(*link)->here[*out_place]) return *link;
  }
  const size_t num = message->announcement.num_participants, bytes = announcement_bytes(message);
  trm_round *round = trm_allocate_zeroed(1, sizeof *round);
  if (round == NULL) return NULL;
  round->first = trm_allocate(bytes);
  round->here = trm_allocate_zeroed(num, sizeof *round->here);
  round->ids = trm_allocate_zeroed(num, sizeof *round->ids);
  round->rows = trm_allocate_zeroed(num, sizeof *round->rows);
  if (round->first == NULL || round->here == NULL || round->ids == NULL || round->rows == NULL) {
    free_round(round);
    return NULL;
  }
  memcpy(round->first, message, bytes);
  round->first_from = from;
  round->since = round->warned = trm_now_ms();
  *out_place = place_of(message, from);
  return *link = round;
}

static trm_status answer(trm_controller *controller, const trm_round *round, uint32_t place,
                         trm_error *error) {
  const size_t num = round->first->announcement.num_participants;
  const size_t more =
      round->failure != NULL ? strlen(round->failure) + 1 : num * sizeof *round->rows;
  trm_message *message = trm_allocate_zeroed(1, sizeof *message + more);
  CHECK_MEMORY(message, "an answer to a collective");
  message->type = MESSAGE_ANSWER;
  message->id = round->ids[place];
  message->number = TAG_DATA + controller->last_number % (TAG_END - TAG_DATA);
  message->status = round->failure != NULL ? TRM_UNKNOWN : TRM_OK;
  memcpy(message->rest, round->failure != NULL ? (const void *)round->failure : round->rows, more);
  controller->answer(controller->user, trm_message_participants(round->first)[place], message,
                     sizeof *message + more);
  return TRM_OK;
}

static trm_status answer_all(trm_controller *controller, const trm_round *round, trm_error *error) {
  ++controller->last_number;
  for (uint32_t i = 0; i < round->first->announcement.num_participants; ++i) {
    if (round->here[i]) TRY(answer(controller, round, i, error));
  }
  return TRM_OK;
}

trm_status trm_controller_announce(trm_controller *controller, uint32_t from,
                                   const trm_message *message, trm_error *error) {
  uint32_t place = 0;
  trm_round *round = find_round(controller, from, message, &place);
  CHECK_MEMORY(round, "a collective's round");
  round->here[place] = true;
  round->ids[place] = message->id;
  round->rows[place] = message->announcement.rank > 0 ? message->announcement.dims[0] : 1;
  const bool is_last = ++round->num_here == message->announcement.num_participants;
  trm_status status = TRM_OK;
  if (round->failure != NULL) { /* those before have their answers */
    status = answer(controller, round, place, error);
  } else if (!do_agree(&round->first->announcement, &message->announcement)) {
    round->failure = mismatch(round, message, from);
    CHECK_MEMORY(round->failure, "a message");
    status = answer_all(controller, round, error);
  } else if (is_last) {
    status = answer_all(controller, round, error);
  }
  if (!is_last) return status;
  trm_round **link = &controller->rounds;
  while (*link != round) link = &(*link)->next;
  *link = round->next;
  free_round(round);
  return status;
}

/* ---- Stalls ---------------------------------------------------------------------------------- */

static void warn(const trm_round *round, double now) {
  trm_text here = {0}, missing = {0};
  char one[128];
  for (uint32_t i = 0; i < round->first->announcement.num_participants; ++i) {
    trm_text *text = round->here[i] ? &here : &missing;
    trm_text_format(text, "%s%s", text->length > 0 ? ", " : "",
                    trm_group_describe(trm_message_participants(round->first)[i], one, sizeof one));
  }
  if (here.data != NULL && missing.data != NULL) {
    trm_log(TRM_LOG_WARN, "GROUP", "%s '%s' has waited for %.0f s: %s wait for %s",
            kinds[round->first->announcement.kind], trm_message_name(round->first),
            (now - round->since) / 1000, here.data, missing.data);
  }
  trm_text_free(&here);
  trm_text_free(&missing);
}

void trm_controller_warn(trm_controller *controller, double stall_seconds) {
  const double now = trm_now_ms();
  for (trm_round *round = controller->rounds; round != NULL; round = round->next) {
    if (round->failure != NULL || now - round->warned < stall_seconds * 1000) continue;
    warn(round, now);
    round->warned = now;
  }
}

void trm_controller_clear(trm_controller *controller) {
  while (controller->rounds != NULL) {
    trm_round *round = controller->rounds;
    controller->rounds = round->next;
    free_round(round);
  }
}
