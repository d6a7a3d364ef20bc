/* Owns: the data of one collective: what goes to whom, and the result. */
#include "group/operation.h"

#include <string.h>

#include "base/memory.h"
#include "group/reduce.h"

/* ---- Requests -------------------------------------------------------------------------------- */

static size_t count_elements(const trm_collective_request *r) {
  size_t count = 1;
  for (int32_t i = 0; i < r->rank; ++i) count *= (size_t)r->dims[i];
  return count;
}

static size_t count_bytes(const trm_collective_request *r) {
  return r->kind == TRM_COLLECTIVE_BARRIER ? 0 : count_elements(r) * trm_dtype_size(r->dtype);
}

static trm_status check_array(const trm_collective_request *r, trm_error *error) {
  if (trm_dtype_size(r->dtype) == 0) {
    FAIL(INVALID_ARGUMENT, "collective '%s': %s is no type of arrays", r->name,
         trm_dtype_name(r->dtype));
  }
  if (r->rank < 0 || r->rank > TRM_MAX_RANK) {
    FAIL(INVALID_ARGUMENT, "collective '%s': an array has 0 to %d dimensions", r->name,
         TRM_MAX_RANK);
  }
  size_t bytes = trm_dtype_size(r->dtype);
  for (int32_t i = 0; i < r->rank; ++i) {
    if (r->dims[i] < 0 || !trm_multiply_sizes(bytes, (size_t)r->dims[i], &bytes)) {
      FAIL(INVALID_ARGUMENT, "collective '%s': dimension %d cannot be %lld", r->name, i,
           (long long)r->dims[i]);
    }
  }
  if (r->kind == TRM_COLLECTIVE_ALL_REDUCE && !trm_group_can_reduce(r->dtype)) {
    FAIL(INVALID_ARGUMENT, "collective '%s': arrays of %s cannot be summed", r->name,
         trm_dtype_name(r->dtype));
  }
  return TRM_OK;
}

static trm_status check(const trm_collective_request *r, uint32_t me, uint32_t size,
                        trm_error *error) {
  if (r->name == NULL || *r->name == '\0' || strlen(r->name) > TRM_COLLECTIVE_NAME) {
    FAIL(INVALID_ARGUMENT, "a collective needs a name of 1 to %d bytes", TRM_COLLECTIVE_NAME);
  }
  if ((unsigned)r->kind > TRM_COLLECTIVE_BARRIER || (unsigned)r->op > TRM_COLLECTIVE_MEAN) {
    FAIL(INVALID_ARGUMENT, "collective '%s': there is no such kind", r->name);
  }
  if (r->kind != TRM_COLLECTIVE_BARRIER) TRY(check_array(r, error));
  bool has_me = r->participants == NULL, has_root = r->participants == NULL && r->root < size;
  for (uint32_t i = 0; r->participants != NULL && i < r->num_participants; ++i) {
    const uint32_t one = r->participants[i];
    if (one >= size || (i > 0 && one <= r->participants[i - 1])) {
      FAIL(INVALID_ARGUMENT, "collective '%s': participants must rise, and be less than %u",
           r->name, size);
    }
    has_me = has_me || one == me;
    has_root = has_root || one == r->root;
  }
  if (!has_me) {
    FAIL(INVALID_ARGUMENT, "collective '%s': instance %u does not take part", r->name, me);
  }
  if (r->kind == TRM_COLLECTIVE_BROADCAST && !has_root) {
    FAIL(INVALID_ARGUMENT, "collective '%s': the root, instance %u, does not take part", r->name,
         r->root);
  }
  return TRM_OK;
}

trm_status trm_operation_create(const trm_collective_request *request, uint32_t me, uint32_t size,
                                trm_operation **out_operation, trm_error *error) {
  TRY(check(request, me, size, error));
  const uint32_t num = request->participants == NULL ? size : request->num_participants;
  const size_t length = strlen(request->name), list = num * sizeof(uint32_t);
  trm_operation *o = trm_allocate_zeroed(1, sizeof *o);
  CHECK_MEMORY(o, "a collective");
  o->announcement_bytes = sizeof *o->announcement + list + length + 1;
  o->announcement = trm_allocate_zeroed(1, o->announcement_bytes);
  if (o->announcement == NULL) {
    trm_free(o);
    FAIL_NO_MEMORY("a collective");
  }
  trm_announcement *a = &o->announcement->announcement;
  *a = (trm_announcement){.kind = request->kind,
                          .dtype = request->dtype,
                          .num_participants = num,
                          .name_length = (uint32_t)length};
  if (request->kind == TRM_COLLECTIVE_ALL_REDUCE) a->op = request->op;
  if (request->kind == TRM_COLLECTIVE_BROADCAST) a->root = request->root;
  if (request->kind != TRM_COLLECTIVE_BARRIER) a->rank = request->rank;
  if (a->rank > 0) memcpy(a->dims, request->dims, (size_t)a->rank * sizeof *a->dims);
  uint32_t *participants = (uint32_t *)(void *)o->announcement->rest;
  for (uint32_t i = 0; i < num; ++i) {
    participants[i] = request->participants == NULL ? i : request->participants[i];
    if (participants[i] == me) o->place = i;
  }
  memcpy(o->announcement->rest + list, request->name, length + 1);
  o->request = *request;
  o->request.rank = a->rank;
  o->request.dims = a->dims;
  o->request.participants = participants;
  o->request.num_participants = num;
  o->request.name = trm_message_name(o->announcement);
  *out_operation = o;
  return TRM_OK;
}

void trm_operation_free(trm_operation *operation) {
  if (operation == NULL) return;
  trm_free(operation->announcement);
  trm_free(operation->rows);
  trm_free(operation->transfers);
  trm_free(operation->gathered);
  trm_free(operation->result.data);
  trm_free(operation);
}

/* ---- Moving ---------------------------------------------------------------------------------- */

static trm_transfer *add_transfer(trm_operation *o, uint32_t place, bool sends, void *data,
                                  size_t bytes) {
  trm_transfer *t = &o->transfers[o->num_transfers];
  if (bytes == 0 || place == o->place) return NULL;
  t->peer = o->request.participants[place];
  t->sends = sends;
  t->data = data;
  t->bytes = bytes;
  ++o->num_transfers;
  return t;
}

static trm_status begin_transfers(trm_operation *o, trm_error *error) {
  for (size_t i = 0; i < o->num_transfers; ++i) TRY(trm_transfer_begin(&o->transfers[i], error));
  return TRM_OK;
}

/* The first element of a participant's share of an all-reduce. */
static size_t share(const trm_operation *o, uint32_t place) {
  const size_t count = count_elements(&o->request), num = o->request.num_participants;
  return count / num * place + (place < count % num ? place : count % num);
}

static void broadcast(trm_operation *o) {
  const size_t bytes = o->result.bytes;
  uint32_t root = 0;
  while (o->request.participants[root] != o->request.root) ++root;
  if (o->place != root) {
    add_transfer(o, root, false, o->result.data, bytes);
    return;
  }
  if (bytes > 0) memcpy(o->result.data, o->request.input, bytes);
  for (uint32_t i = 0; i < o->request.num_participants; ++i) {
    add_transfer(o, i, true, o->result.data, bytes);
  }
}

/* Gives a block of this instance, which lies in the result, to all others, and gets theirs. */
static void exchange_blocks(trm_operation *o, const size_t *starts) {
  char *data = o->result.data;
  for (uint32_t i = 0; i < o->request.num_participants; ++i) {
    add_transfer(o, i, true, data + starts[o->place], starts[o->place + 1] - starts[o->place]);
    add_transfer(o, i, false, data + starts[i], starts[i + 1] - starts[i]);
  }
}

static trm_status share_blocks(trm_operation *o, trm_error *error) {
  const uint32_t num = o->request.num_participants;
  const size_t size = trm_dtype_size(o->request.dtype);
  size_t *starts = trm_allocate_zeroed(num + 1, sizeof *starts);
  CHECK_MEMORY(starts, "a collective");
  const int64_t own_rows = o->request.rank > 0 ? o->request.dims[0] : 1;
  size_t row = size;
  for (int32_t i = 1; i < o->request.rank; ++i) row *= (size_t)o->request.dims[i];
  for (uint32_t i = 0; i <= num; ++i) {
    if (o->request.kind == TRM_COLLECTIVE_ALL_REDUCE) {
      starts[i] = share(o, i) * size;
    } else if (i > 0) {
      starts[i] = starts[i - 1] + (size_t)o->rows[i - 1] * row;
    }
  }
  if (o->request.kind == TRM_COLLECTIVE_ALL_GATHER && (size_t)own_rows * row > 0) {
    memcpy((char *)o->result.data + starts[o->place], o->request.input, (size_t)own_rows * row);
  }
  exchange_blocks(o, starts);
  trm_free(starts);
  return TRM_OK;
}

/* Collects all operands of this instance's share. */
static trm_status collect_share(trm_operation *o, trm_error *error) {
  const uint32_t num = o->request.num_participants;
  const size_t size = trm_dtype_size(o->request.dtype);
  const size_t own = (share(o, o->place + 1) - share(o, o->place)) * size;
  char *input = (char *)(uintptr_t)o->request.input; /* read only: transfers have one pointer */
  o->gathered = trm_allocate(own * num + 1);
  CHECK_MEMORY(o->gathered, "an all-reduce");
  if (own > 0) memcpy(o->gathered + own * o->place, input + share(o, o->place) * size, own);
  for (uint32_t i = 0; i < num; ++i) {
    add_transfer(o, i, true, input + share(o, i) * size, (share(o, i + 1) - share(o, i)) * size);
    add_transfer(o, i, false, o->gathered + own * i, own);
  }
  return TRM_OK;
}

static void combine_share(trm_operation *o) {
  const size_t start = share(o, o->place), count = share(o, o->place + 1) - start;
  trm_group_reduce(o->request.dtype, o->request.op, o->gathered, o->request.num_participants, count,
                   (char *)o->result.data + start * trm_dtype_size(o->request.dtype));
}

static trm_status allocate_result(trm_operation *o, trm_error *error) {
  o->result.rank = o->request.rank;
  memcpy(o->result.dims, o->request.dims, sizeof o->result.dims);
  o->result.bytes = count_bytes(&o->request);
  if (o->request.kind == TRM_COLLECTIVE_ALL_GATHER) {
    int64_t rows = 0;
    for (uint32_t i = 0; i < o->request.num_participants; ++i) rows += o->rows[i];
    if (o->request.rank == 0) o->result.rank = 1;
    o->result.dims[0] = rows;
    o->result.bytes = trm_dtype_size(o->request.dtype) * (size_t)rows;
    for (int32_t i = 1; i < o->request.rank; ++i) o->result.bytes *= (size_t)o->request.dims[i];
  }
  if (o->result.bytes == 0) return TRM_OK;
  o->result.data = trm_allocate_aligned(o->result.bytes);
  CHECK_MEMORY(o->result.data, "the result of a collective");
  return TRM_OK;
}

trm_status trm_operation_begin(trm_operation *o, trm_mpi_handle communicator, int tag,
                               const int64_t *rows, trm_error *error) {
  const uint32_t num = o->request.num_participants;
  o->rows = trm_allocate_zeroed(num, sizeof *o->rows);
  o->transfers = trm_allocate_zeroed((size_t)num * 2, sizeof *o->transfers);
  if (o->rows == NULL || o->transfers == NULL) FAIL_NO_MEMORY("a collective");
  for (uint32_t i = 0; i < num * 2; ++i) {
    o->transfers[i].communicator = communicator;
    o->transfers[i].tag = tag;
  }
  memcpy(o->rows, rows, num * sizeof *rows);
  o->is_moving = true;
  TRY(allocate_result(o, error));
  switch (o->request.kind) {
    case TRM_COLLECTIVE_ALL_REDUCE: TRY(collect_share(o, error)); break;
    case TRM_COLLECTIVE_ALL_GATHER: TRY(share_blocks(o, error)); break;
    case TRM_COLLECTIVE_BROADCAST: broadcast(o); break;
    case TRM_COLLECTIVE_BARRIER: break;
  }
  return begin_transfers(o, error);
}

trm_status trm_operation_advance(trm_operation *o, bool *out_done, trm_error *error) {
  for (;;) {
    bool done = true;
    for (size_t i = 0; i < o->num_transfers; ++i) {
      TRY(trm_transfer_poll(&o->transfers[i], error));
      done = done && o->transfers[i].done;
    }
    if (!done) return TRM_OK;
    if (o->request.kind != TRM_COLLECTIVE_ALL_REDUCE || o->step == 1) break;
    combine_share(o);
    o->step = 1;
    o->num_transfers = 0;
    TRY(share_blocks(o, error));
    TRY(begin_transfers(o, error));
  }
  *out_done = true;
  return TRM_OK;
}
