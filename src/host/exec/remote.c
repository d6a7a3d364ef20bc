/* Owns: packing operands and results of replicas into parcels, one for each other process, and the
 * memory that they come to.
 *
 * Both sides of a parcel walk through the same groups, leaves and members in the same order, so
 * that it needs no description. Groups come in the order of their least replica. */
#include "host/exec/remote.h"

#include <string.h>

#include "group/channel.h"

struct trm_remote {
  uint32_t num_processes, process, num_here, num_replicas, num_parcels;
  trm_parcel *parcels; /* by other process */
  size_t *room_out, *room_in;
  trm_kernel_call *copies; /* by replica; of other processes */
  const void **operands;   /* of these, one after the other */
  size_t num_operands;     /* room */
  char *memory;            /* of these operands */
  size_t memory_bytes;
  bool *seen;                 /* by replica: its group was walked through */
  const trm_sharing *sharing; /* of the current meeting */
  uint64_t meetings;          /* of this run; equal in all processes */
};

/* ---- Creating ------------------------------------------------------------------------------- */

trm_status trm_remote_create(uint32_t num_processes, uint32_t process, uint32_t num_here,
                             trm_remote **out_remote, trm_error *error) {
  trm_remote *r = trm_allocate_zeroed(1, sizeof *r);
  CHECK_MEMORY(r, "replicas");
  const uint32_t num_replicas = num_processes * num_here;
  r->num_processes = num_processes;
  r->process = process;
  r->num_here = num_here;
  r->num_replicas = num_replicas;
  r->parcels = trm_allocate_zeroed(num_processes, sizeof *r->parcels);
  r->room_out = trm_allocate_zeroed(num_processes, sizeof *r->room_out);
  r->room_in = trm_allocate_zeroed(num_processes, sizeof *r->room_in);
  r->copies = trm_allocate_zeroed(num_replicas, sizeof *r->copies);
  r->seen = trm_allocate_zeroed(num_replicas, sizeof *r->seen);
  if (r->parcels == NULL || r->room_out == NULL || r->room_in == NULL || r->copies == NULL ||
      r->seen == NULL) {
    trm_remote_free(r);
    FAIL_NO_MEMORY("replicas");
  }
  for (uint32_t p = 0; p < num_processes; ++p) {
    if (p != process) r->parcels[r->num_parcels++].peer = p;
  }
  *out_remote = r;
  return TRM_OK;
}

void trm_remote_free(trm_remote *r) {
  if (r == NULL) return;
  for (uint32_t i = 0; i < r->num_parcels && !trm_channel_is_broken(); ++i) {
    trm_free((void *)(uintptr_t)r->parcels[i].sent);
    trm_free(r->parcels[i].received);
  }
  trm_free(r->parcels);
  trm_free(r->room_out);
  trm_free(r->room_in);
  trm_free(r->copies);
  trm_free(r->operands);
  trm_free(r->memory);
  trm_free(r->seen);
  trm_free(r);
}

/* ---- Walking -------------------------------------------------------------------------------- */

/* Who owns a piece of a leaf, and where the piece is. */
typedef struct piece {
  uint32_t replica, leaf;
  size_t begin, bytes;
  const trm_members *members;
} piece;

/* What a walk does with each piece, at its place in the parcel; NULL: it only counts bytes. */
typedef void (*piece_fn)(trm_remote *remote, const trm_kernel_call *const *calls, const piece *p,
                         char *at);

static uint32_t process_of(const trm_remote *r, uint32_t replica) { return replica / r->num_here; }

/* The operands' bytes that the replicas of process `to` need: from the first to the last. */
static bool find_needed(const trm_remote *r, const trm_members *members, uint32_t leaf, uint32_t to,
                        size_t *out_begin, size_t *out_end) {
  bool any = false;
  for (uint32_t k = 0; k < members->count; ++k) {
    if (process_of(r, trm_member(members, k)) != to) continue;
    size_t begin, end;
    r->sharing->need(r->sharing->state, leaf, members->count, k, &begin, &end);
    if (begin >= end) continue;
    *out_begin = !any || begin < *out_begin ? begin : *out_begin;
    *out_end = !any || end > *out_end ? end : *out_end;
    any = true;
  }
  return any;
}

/* A walk through the parcel of process `from` for process `to`. */
typedef struct walker {
  trm_remote *remote;
  const trm_kernel_call *const *calls;
  uint32_t from, to;
  piece_fn use;
  char *parcel;
  size_t at;
} walker;

static void visit(walker *w, const piece *p) {
  if (w->use != NULL) w->use(w->remote, w->calls, p, w->parcel + w->at);
  w->at += p->bytes;
}

/* The operands of a group. */
static void walk_operands(walker *w, const trm_members *members) {
  const trm_remote *r = w->remote;
  for (uint32_t leaf = 0; leaf < r->sharing->num_leaves; ++leaf) {
    size_t begin = 0, end = 0;
    if (!find_needed(r, members, leaf, w->to, &begin, &end)) continue;
    for (uint32_t k = 0; k < members->count; ++k) {
      const uint32_t replica = trm_member(members, k);
      if (process_of(r, replica) != w->from) continue;
      visit(w, &(piece){replica, leaf, begin, end - begin, members});
    }
  }
}

/* The results of a group, if the process has members of it. */
static void walk_results(walker *w, const trm_members *members) {
  const trm_remote *r = w->remote;
  bool wants = false;
  for (uint32_t k = 0; k < members->count; ++k) {
    wants = wants || process_of(r, trm_member(members, k)) == w->to;
  }
  for (uint32_t leaf = 0; wants && leaf < r->sharing->num_leaves; ++leaf) {
    for (uint32_t k = 0; k < members->count; ++k) {
      const uint32_t replica = trm_member(members, k);
      size_t begin, end;
      r->sharing->need(r->sharing->state, leaf, members->count, k, &begin, &end);
      if (process_of(r, replica) != w->from || begin >= end) continue;
      visit(w, &(piece){replica, leaf, begin, end - begin, members});
    }
  }
}

typedef void (*walk_fn)(walker *, const trm_members *);

/* Walks through all groups. w->at becomes the size of the parcel. */
static trm_status walk(walker *w, walk_fn direction, piece_fn use, char *parcel, trm_error *error) {
  trm_remote *r = w->remote;
  w->use = use;
  w->parcel = parcel;
  w->at = 0;
  memset(r->seen, 0, r->num_replicas * sizeof *r->seen);
  for (uint32_t replica = 0; replica < r->num_replicas; ++replica) {
    if (r->seen[replica]) continue;
    trm_members members;
    TRY(r->sharing->find(r->sharing->state, replica, r->num_replicas, &members, error));
    for (uint32_t k = 0; k < members.count; ++k) {
      const uint32_t member = trm_member(&members, k);
      if (member < r->num_replicas) r->seen[member] = true;
    }
    direction(w, &members);
  }
  return TRM_OK;
}

/* ---- What is done with a piece -------------------------------------------------------------- */

static void pack_operand(trm_remote *r, const trm_kernel_call *const *calls, const piece *p,
                         char *at) {
  (void)r;
  memcpy(at, (const char *)calls[p->replica]->operands[p->leaf] + p->begin, p->bytes);
}

static void unpack_operand(trm_remote *r, const trm_kernel_call *const *calls, const piece *p,
                           char *at) {
  (void)calls;
  char *operand = (char *)(uintptr_t)r->copies[p->replica].operands[p->leaf];
  memcpy(operand + p->begin, at, p->bytes);
}

static void pack_result(trm_remote *r, const trm_kernel_call *const *calls, const piece *p,
                        char *at) {
  (void)r;
  memcpy(at, (const char *)calls[p->replica]->results[p->leaf] + p->begin, p->bytes);
}

/* All members of the group that are here get it. */
static void unpack_result(trm_remote *r, const trm_kernel_call *const *calls, const piece *p,
                          char *at) {
  for (uint32_t k = 0; k < p->members->count; ++k) {
    const uint32_t replica = trm_member(p->members, k);
    if (process_of(r, replica) != r->process) continue;
    memcpy((char *)calls[replica]->results[p->leaf] + p->begin, at, p->bytes);
  }
}

/* ---- Trading -------------------------------------------------------------------------------- */

static trm_status make_room(void **block, size_t *room, size_t bytes, trm_error *error) {
  if (bytes <= *room) return TRM_OK;
  trm_free(*block);
  *room = 0;
  *block = trm_allocate_aligned(bytes);
  CHECK_MEMORY(*block, "what replicas of several processes exchange");
  *room = bytes;
  return TRM_OK;
}

static trm_status trade(trm_remote *r, walk_fn direction, const trm_kernel_call *const *calls,
                        piece_fn pack, piece_fn unpack, uint64_t what, const atomic_bool *cancelled,
                        trm_error *error) {
  for (uint32_t i = 0; i < r->num_parcels; ++i) {
    trm_parcel *p = &r->parcels[i];
    walker out = {.remote = r, .calls = calls, .from = r->process, .to = p->peer};
    walker in = {.remote = r, .calls = calls, .from = p->peer, .to = r->process};
    TRY(walk(&out, direction, NULL, NULL, error));
    TRY(walk(&in, direction, NULL, NULL, error));
    void *sent = (void *)(uintptr_t)p->sent;
    const trm_status status = make_room(&sent, &r->room_out[i], out.at, error);
    p->sent = sent;
    if (status != TRM_OK) return status;
    TRY(make_room(&p->received, &r->room_in[i], in.at, error));
    TRY(walk(&out, direction, pack, sent, error));
    p->sent_bytes = out.at;
    p->received_bytes = in.at;
  }
  TRY(trm_channel_trade(what, r->parcels, r->num_parcels, cancelled, error));
  for (uint32_t i = 0; i < r->num_parcels; ++i) {
    const trm_parcel *p = &r->parcels[i];
    walker in = {.remote = r, .calls = calls, .from = p->peer, .to = r->process};
    TRY(walk(&in, direction, unpack, p->received, error));
  }
  return TRM_OK;
}

/* Whole cache lines. */
static size_t room_of(const trm_sharing *s, uint32_t leaf) {
  return (s->bytes(s->state, leaf) + 63) / 64 * 64;
}

/* Gives the operands of all replicas of other processes memory. Most is never touched where they
 * are needed in pieces only. */
static trm_status place_copies(trm_remote *r, trm_error *error) {
  const trm_sharing *s = r->sharing;
  size_t each = 0;
  for (uint32_t leaf = 0; leaf < s->num_leaves; ++leaf) {
    each += room_of(s, leaf);
  }
  const size_t num = (size_t)(r->num_replicas - r->num_here), pointers = num * s->num_leaves;
  if (pointers > r->num_operands) {
    trm_free(r->operands);
    r->operands = trm_allocate_zeroed(pointers, sizeof *r->operands);
    r->num_operands = r->operands == NULL ? 0 : pointers;
    CHECK_MEMORY(r->operands, "what replicas of several processes exchange");
  }
  void *memory = r->memory;
  const trm_status status = make_room(&memory, &r->memory_bytes, each * num, error);
  r->memory = memory;
  if (status != TRM_OK) return status;
  const void **operand = r->operands;
  char *at = r->memory;
  for (uint32_t replica = 0; replica < r->num_replicas; ++replica) {
    if (process_of(r, replica) == r->process) continue;
    r->copies[replica].operands = operand;
    for (uint32_t leaf = 0; leaf < s->num_leaves; ++leaf) {
      *operand++ = at;
      at += room_of(s, leaf);
    }
  }
  return TRM_OK;
}

void trm_remote_begin(trm_remote *remote) { remote->meetings = 0; }

trm_status trm_remote_meet(trm_remote *remote, const trm_sharing *sharing,
                           const trm_kernel_call **calls, const atomic_bool *cancelled,
                           trm_error *error) {
  remote->sharing = sharing;
  ++remote->meetings;
  TRY(place_copies(remote, error));
  for (uint32_t replica = 0; replica < remote->num_replicas; ++replica) {
    if (process_of(remote, replica) != remote->process) calls[replica] = &remote->copies[replica];
  }
  return trade(remote, walk_operands, calls, pack_operand, unpack_operand,
               sharing->identity * 2 + (remote->meetings << 20), cancelled, error);
}

trm_status trm_remote_leave(trm_remote *remote, const trm_kernel_call *const *calls,
                            const atomic_bool *cancelled, trm_error *error) {
  if (!remote->sharing->shares_results) return TRM_OK;
  return trade(remote, walk_results, calls, pack_result, unpack_result,
               remote->sharing->identity * 2 + 1 + (remote->meetings << 20), cancelled, error);
}
