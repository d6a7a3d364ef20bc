/* Owns: the messages of running programs, and what an instance knows of the others' runs. */
#include "group/channel.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/wait.h"
#include "group/peers.h"
#include "tremula/log.h"

/* A larger block goes behind its head, in a message of its own. GIVE_UP_MS: for how long a run that
 * was cancelled waits for others to end theirs. */
enum { INLINE_BYTES = 8192, TAG = 1, GRACE_MS = 2000, GIVE_UP_MS = 10000 };

typedef enum head_kind { HEAD_BEGIN, HEAD_TRADE, HEAD_END } head_kind;

typedef struct head {
  head_kind kind;
  trm_status status; /* of a run that has ended */
  uint64_t what;     /* the program, or the trade */
  uint64_t bytes;    /* of the block, in `block` if it has room */
  char block[INLINE_BYTES];
} head;

/* The exchange with an instance. */
typedef struct line {
  head out, in;
  trm_transfer head_out, block_out, head_in, block_in;
  bool has_head_in, has_block_in; /* they are on their way, or here and not yet taken */
  bool has_ended;                 /* its run has: `in` is its last head */
  void *dropped;                  /* memory for a block that nobody wants */
  double gone_since;              /* ms; 0: it is here */
} line;

static struct {
  pthread_mutex_t running; /* held from the begin to the end of a run */
  trm_mpi_handle communicator;
  bool has_communicator, is_open, is_broken;
  uint32_t rank, size;
  double stall_seconds;
  line *lines;
} channel = {.running = PTHREAD_MUTEX_INITIALIZER};

/* ---- Opening -------------------------------------------------------------------------------- */

trm_status trm_channel_open(uint32_t rank, uint32_t size, double stall_seconds, trm_error *error) {
  if (!channel.has_communicator) {
    TRY(trm_mpi_duplicate_world(&channel.communicator, error));
    channel.has_communicator = true;
  }
  channel.lines = trm_allocate_zeroed(size, sizeof *channel.lines);
  CHECK_MEMORY(channel.lines, "the group");
  channel.rank = rank;
  channel.size = size;
  channel.stall_seconds = stall_seconds;
  channel.is_open = true;
  for (uint32_t i = 0; i < size; ++i) {
    line *l = &channel.lines[i];
    trm_transfer *const all[] = {&l->head_out, &l->block_out, &l->head_in, &l->block_in};
    for (int k = 0; k < 4; ++k) {
      *all[k] = (trm_transfer){.communicator = channel.communicator,
                               .peer = i,
                               .tag = TAG,
                               .sends = k < 2,
                               .done = true};
    }
  }
  return TRM_OK;
}

/* Not while a run is in it, which only a process that ends can leave behind. */
void trm_channel_close(void) {
  if (pthread_mutex_trylock(&channel.running) != 0) return;
  channel.is_open = false;
  if (!channel.is_broken) trm_free(channel.lines);
  channel.lines = NULL;
  pthread_mutex_unlock(&channel.running);
}

bool trm_channel_is_broken(void) { return channel.is_broken; }

/* ---- Heads ---------------------------------------------------------------------------------- */

static trm_status send_block(line *l, head_kind kind, trm_status status, uint64_t what,
                             const void *block, size_t bytes, trm_error *error) {
  l->out.kind = kind;
  l->out.status = status;
  l->out.what = what;
  l->out.bytes = bytes;
  const bool fits = bytes <= INLINE_BYTES;
  if (fits && bytes > 0) memcpy(l->out.block, block, bytes);
  l->head_out.data = (char *)&l->out;
  l->head_out.bytes = offsetof(head, block) + (fits ? bytes : 0);
  TRY(trm_transfer_begin(&l->head_out, error));
  if (fits) return TRM_OK;
  l->block_out.data = (char *)(uintptr_t)block; /* read only: transfers have one pointer */
  l->block_out.bytes = bytes;
  return trm_transfer_begin(&l->block_out, error);
}

static trm_status poll_sent(line *l, bool *out_done, trm_error *error) {
  TRY(trm_transfer_poll(&l->head_out, error));
  TRY(trm_transfer_poll(&l->block_out, error));
  *out_done = l->head_out.done && l->block_out.done;
  return TRM_OK;
}

/* Sets *out_here when the peer's next head has come. It stays until take_head. */
static trm_status poll_head(line *l, bool *out_here, trm_error *error) {
  if (!l->has_head_in) {
    l->head_in.data = (char *)&l->in;
    l->head_in.bytes = sizeof l->in;
    TRY(trm_transfer_begin(&l->head_in, error));
    l->has_head_in = true;
  }
  TRY(trm_transfer_poll(&l->head_in, error));
  *out_here = l->head_in.done;
  return TRM_OK;
}

/* Moves the block of the head that has come to `target`; sets *out_done when it is there. */
static trm_status poll_block(line *l, void *target, bool *out_done, trm_error *error) {
  if (l->in.bytes <= INLINE_BYTES) {
    if (l->in.bytes > 0) memcpy(target, l->in.block, l->in.bytes);
    l->has_head_in = false;
    *out_done = true;
    return TRM_OK;
  }
  if (!l->has_block_in) {
    l->block_in.data = target;
    l->block_in.bytes = l->in.bytes;
    TRY(trm_transfer_begin(&l->block_in, error));
    l->has_block_in = true;
  }
  TRY(trm_transfer_poll(&l->block_in, error));
  *out_done = l->block_in.done;
  if (l->block_in.done) l->has_block_in = l->has_head_in = false;
  return TRM_OK;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Answers take microseconds, if the other instance is at the same place; else it computes. */
static void rest(unsigned idle) {
  if (idle < 2000) {
    sched_yield();
  } else {
    nanosleep(&(struct timespec){0, idle < 4000 ? 20000 : 200000}, NULL);
  }
}

/* Fails if an instance is gone, after a while in which its last messages may come. */
static trm_status check_here(uint32_t peer, trm_error *error) {
  line *l = &channel.lines[peer];
  const trm_peer_state state = trm_peer_get_state(peer);
  if (state == PEER_HERE) return TRM_OK;
  const double now = trm_now_ms();
  if (l->gone_since == 0) l->gone_since = now;
  if (now - l->gone_since < GRACE_MS) return TRM_OK;
  char who[128];
  FAIL(UNAVAILABLE, "%s has %s while a program on all instances runs",
       trm_group_describe(peer, who, sizeof who),
       state == PEER_LEFT ? "left the group" : "ended without leaving the group");
}

/* The peer's head is not of what this instance waits for. */
static trm_status refuse_head(uint32_t peer, head_kind wanted, trm_error *error) {
  line *l = &channel.lines[peer];
  char who[128];
  trm_group_describe(peer, who, sizeof who);
  if (l->in.kind == HEAD_END && l->in.status != TRM_OK) {
    const int length = l->in.bytes < INLINE_BYTES ? (int)l->in.bytes : INLINE_BYTES;
    trm_fail(error, l->in.status, "%s has failed: %.*s", who, length, l->in.block);
    return l->in.status;
  }
  if (l->in.kind == HEAD_BEGIN || wanted == HEAD_BEGIN) {
    FAIL(FAILED_PRECONDITION,
         "%s runs another program than this instance: instances of a distributed program run the "
         "same programs in the same order",
         who);
  }
  FAIL(FAILED_PRECONDITION,
       "%s has reached another operation than the replicas of this instance, or its end, while "
       "they wait for it: every replica must take the same branches, and the same number of "
       "iterations of a loop, before a collective",
       who);
}

static void warn_of_stall(const trm_parcel *parcels, uint32_t num, const bool *done, double since,
                          double *warned) {
  const double now = trm_now_ms();
  if (now - *warned < channel.stall_seconds * 1000) return;
  *warned = now;
  for (uint32_t i = 0; i < num; ++i) {
    char who[128];
    if (done[i]) continue;
    trm_log(TRM_LOG_WARN, "GROUP", "the replicas of instance %u have waited for %.0f s for %s",
            channel.rank, (now - since) / 1000,
            trm_group_describe(parcels[i].peer, who, sizeof who));
  }
}

/* ---- Trading -------------------------------------------------------------------------------- */

/* One look at a parcel; sets *done when it is through. */
static trm_status advance(head_kind kind, uint64_t what, const trm_parcel *parcel, bool *done,
                          trm_error *error) {
  line *l = &channel.lines[parcel->peer];
  bool sent = false, here = false;
  TRY(poll_sent(l, &sent, error));
  if (*done) return TRM_OK;
  TRY(poll_head(l, &here, error));
  if (!here) return check_here(parcel->peer, error);
  if (l->in.kind != kind || l->in.what != what || l->in.bytes != parcel->received_bytes) {
    return refuse_head(parcel->peer, kind, error);
  }
  return poll_block(l, parcel->received, done, error);
}

static trm_status trade(head_kind kind, uint64_t what, const trm_parcel *parcels, uint32_t num,
                        const atomic_bool *cancelled, bool *done, trm_error *error) {
  for (uint32_t i = 0; i < num; ++i) {
    TRY(send_block(&channel.lines[parcels[i].peer], kind, TRM_OK, what, parcels[i].sent,
                   parcels[i].sent_bytes, error));
  }
  double since = 0, warned = 0;
  for (unsigned idle = 0;; ++idle) {
    bool all = true;
    for (uint32_t i = 0; i < num; ++i) {
      const line *l = &channel.lines[parcels[i].peer];
      TRY(advance(kind, what, &parcels[i], &done[i], error));
      all = all && done[i] && l->head_out.done && l->block_out.done;
    }
    if (all) return TRM_OK;
    if (atomic_load_explicit(cancelled, memory_order_relaxed)) {
      FAIL(CANCELLED, "the run was cancelled");
    }
    rest(idle);
    if (idle < 4000 || idle % 256 != 0) continue; /* looks at the clock */
    if (since == 0) since = warned = trm_now_ms();
    warn_of_stall(parcels, num, done, since, &warned);
  }
}

static trm_status trade_as(head_kind kind, uint64_t what, const trm_parcel *parcels, uint32_t num,
                           const atomic_bool *cancelled, trm_error *error) {
  bool *done = trm_allocate_zeroed(num, sizeof *done);
  CHECK_MEMORY(done, "an exchange between instances");
  const trm_status status = trade(kind, what, parcels, num, cancelled, done, error);
  trm_free(done);
  return status;
}

trm_status trm_channel_trade(uint64_t what, const trm_parcel *parcels, uint32_t num,
                             const atomic_bool *cancelled, trm_error *error) {
  return trade_as(HEAD_TRADE, what, parcels, num, cancelled, error);
}

/* ---- A run ---------------------------------------------------------------------------------- */

static trm_status check_open(trm_error *error) {
  if (!channel.is_open) {
    FAIL(FAILED_PRECONDITION,
         "the program runs on several instances, but this process has not joined their group");
  }
  if (channel.is_broken) {
    FAIL(UNAVAILABLE,
         "an earlier run ended while other instances were still in it; the group cannot run "
         "programs together any more");
  }
  return TRM_OK;
}

/* Reads the peer's messages up to the end of its run, and drops them. */
static trm_status drain(uint32_t peer, trm_error *error) {
  line *l = &channel.lines[peer];
  bool done = false;
  TRY(poll_sent(l, &done, error));
  for (;;) {
    bool here = false;
    TRY(poll_head(l, &here, error));
    if (!here) return check_here(peer, error);
    if (l->in.kind == HEAD_END) break;
    if (l->in.bytes > INLINE_BYTES && l->dropped == NULL && !l->has_block_in) {
      l->dropped = trm_allocate(l->in.bytes);
      CHECK_MEMORY(l->dropped, "an exchange between instances");
    }
    done = false;
    char small[INLINE_BYTES];
    TRY(poll_block(l, l->dropped != NULL ? l->dropped : small, &done, error));
    if (!done) return TRM_OK;
    trm_free(l->dropped);
    l->dropped = NULL;
  }
  l->has_ended = true;
  l->has_head_in = false;
  return TRM_OK;
}

static bool is_through(uint32_t peer) {
  const line *l = &channel.lines[peer];
  return peer == channel.rank || (l->has_ended && l->head_out.done && l->block_out.done);
}

/* Waits until all have ended their runs. A message that this instance still sends leaves first: the
 * peer drops it. */
static trm_status end_with_all(trm_status status, const char *message, const atomic_bool *cancelled,
                               trm_error *error) {
  const size_t bytes = status == TRM_OK ? 0 : strlen(message);
  bool *told = trm_allocate_zeroed(channel.size, sizeof *told);
  CHECK_MEMORY(told, "an exchange between instances");
  trm_status result = TRM_OK;
  double begin = 0;
  for (unsigned idle = 0; result == TRM_OK; ++idle) {
    bool all = true;
    for (uint32_t i = 0; i < channel.size && result == TRM_OK; ++i) {
      line *l = &channel.lines[i];
      if (told[i] && is_through(i)) continue;
      if (i == channel.rank) continue;
      all = false;
      if (!told[i] && l->head_out.done && l->block_out.done) {
        told[i] = true;
        result = send_block(l, HEAD_END, status, 0, message, bytes, error);
      }
      if (result == TRM_OK && !l->has_ended) result = drain(i, error);
      else if (result == TRM_OK) result = poll_sent(l, &(bool){false}, error);
    }
    if (all || result != TRM_OK) break;
    rest(idle);
    if (!atomic_load_explicit(cancelled, memory_order_relaxed) && status != TRM_CANCELLED) continue;
    if (begin == 0) begin = trm_now_ms();
    if (trm_now_ms() - begin > GIVE_UP_MS) {
      result = trm_fail(error, TRM_CANCELLED,
                        "the run was cancelled, and other instances have not ended theirs");
    }
  }
  trm_free(told);
  return result;
}

/* The failure of the lowest instance, but those that say why come before those that were told to
 * stop. */
static trm_status find_failure(trm_error *error) {
  for (int told = 0; told < 2; ++told) {
    for (uint32_t i = 0; i < channel.size; ++i) {
      const line *l = &channel.lines[i];
      if (i == channel.rank || l->in.status == TRM_OK) continue;
      if (told == 0 && l->in.status == TRM_CANCELLED) continue;
      return refuse_head(i, HEAD_TRADE, error);
    }
  }
  return TRM_OK;
}

trm_status trm_channel_end(trm_status status, const char *message, const atomic_bool *cancelled,
                           trm_error *error) {
  trm_error why;
  const trm_status ended = end_with_all(status, message, cancelled, &why);
  trm_status result = status;
  if (ended != TRM_OK) {
    channel.is_broken = true;
    if (status == TRM_OK) result = trm_fail(error, ended, "%s", why.message);
  } else if (status == TRM_OK) {
    result = find_failure(error);
  }
  pthread_mutex_unlock(&channel.running);
  return result;
}

trm_status trm_channel_begin(uint64_t program, const atomic_bool *cancelled, trm_error *error) {
  pthread_mutex_lock(&channel.running);
  trm_status status = check_open(error);
  trm_parcel *parcels = NULL;
  if (status == TRM_OK) {
    parcels = trm_allocate_zeroed(channel.size, sizeof *parcels);
    if (parcels == NULL) status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  }
  if (status != TRM_OK) {
    pthread_mutex_unlock(&channel.running);
    return status;
  }
  uint32_t num = 0;
  for (uint32_t i = 0; i < channel.size; ++i) {
    channel.lines[i].has_ended = false;
    channel.lines[i].gone_since = 0;
    if (i != channel.rank) parcels[num++].peer = i;
  }
  status = trade_as(HEAD_BEGIN, program, parcels, num, cancelled, error);
  trm_free(parcels);
  if (status == TRM_OK) return TRM_OK;
  trm_error copy = {0};
  if (error != NULL) copy = *error;
  return trm_channel_end(status, copy.message, cancelled, error);
}
