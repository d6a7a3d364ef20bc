/* The group: the processes ("instances") that were started together, and collectives among them.
 *
 * MPI carries the messages. Its library is loaded when a process that has company joins, so that a
 * process alone needs none. An example, under `mpirun -np 2 ./program`:
 *
 *     TRY(trm_group_join(NULL, error));
 *     float mine[2] = {1, 2};
 *     const int64_t dims[1] = {2};
 *     trm_collective_request request = {sizeof request};
 *     request.kind = TRM_COLLECTIVE_ALL_REDUCE, request.name = "gradients";
 *     request.dtype = TRM_F32, request.rank = 1, request.dims = dims, request.input = mine;
 *     trm_collective_result result;
 *     TRY(trm_group_collect(&request, &result, error));  // {2, 4} on both
 *     trm_collective_result_free(&result);
 *     trm_group_leave();
 *
 * A collective is known by its name, which is the same on all instances that take part. They may
 * begin collectives in different orders. Where a name is used again, the n-th use on one instance
 * meets the n-th on the others. Any thread may begin one. */
#ifndef TREMULA_GROUP_H_
#define TREMULA_GROUP_H_

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Where this process stands ------------------------------------------------------------- */

/* Of one process: rank 0 of 1. */
typedef struct trm_group_place {
  uint32_t rank, size;             /* among all instances */
  uint32_t local_rank, local_size; /* among those of this host */
  const char *launcher;            /* "Open MPI", "MPICH", "PMIx" or "Slurm"; "": none */
} trm_group_place;

/* What the environment of the launcher says (OMPI_COMM_WORLD_*, PMIX_RANK, PMI_*, SLURM_*); after
 * trm_group_join, what MPI says. Loads nothing. */
TRM_API void trm_group_get_place(trm_group_place *out_place);

/* ---- Joining and leaving ------------------------------------------------------------------- */

typedef struct trm_group_settings {
  size_t size; /* sizeof(trm_group_settings) */
  /* MPI's library. NULL: the environment variable TREMULA_MPI_LIBRARY, or else the first that is
   * found in `folder`, in the launcher's folder or by the system's search. */
  const char *library;
  /* Where Python's packages put shared libraries (sys.prefix + "/lib"); may be NULL. */
  const char *folder;
  /* After so many seconds a collective that some instance has not reached is a warning in the log,
   * and again every so many seconds. 0: 60. */
  double stall_seconds;
} trm_group_settings;

/* Loads MPI, starts it unless somebody has already, and meets the other instances. Blocks until all
 * have joined. In a process without company, and when joined already, it does nothing. `settings`
 * may be NULL. TRM_FAILED_PRECONDITION: no MPI was found, or one that is not the launcher's; the
 * message says what to install. */
TRM_API trm_status trm_group_join(const trm_group_settings *settings, trm_error *error);
/* Waits until all instances leave, or have ended. Pending collectives fail, also on the others. A
 * process that ends leaves by itself. It may join again when all do. */
TRM_API void trm_group_leave(void);
/* Whether this process has joined. */
TRM_API bool trm_group_is_joined(void);
/* Whether MPI lets several threads call it; true without MPI. */
TRM_API bool trm_group_has_threads(void);
/* Describes an instance: "instance 1 (host vm, pid 4711)". Returns the buffer. */
TRM_API const char *trm_group_describe(uint32_t rank, char *buffer, size_t size);

/* What this process has sent to others since its start. MPI's own headers do not count. */
typedef struct trm_group_traffic {
  uint64_t bytes_sent, messages_sent;
} trm_group_traffic;
/* Fills in *out_traffic. */
TRM_API void trm_group_get_traffic(trm_group_traffic *out_traffic);

/* ---- Collectives --------------------------------------------------------------------------- */

typedef enum trm_collective_kind {
  TRM_COLLECTIVE_ALL_REDUCE, /* the combination of all instances' arrays */
  /* All instances' arrays one after the other along dimension 0, in which they may differ. A scalar
   * counts as an array of one element. */
  TRM_COLLECTIVE_ALL_GATHER,
  TRM_COLLECTIVE_BROADCAST, /* the array of instance `root` */
  TRM_COLLECTIVE_BARRIER    /* no array: all have come */
} trm_collective_kind;

typedef enum trm_collective_op {
  /* In the order of ranks, in the type; float16 and bfloat16 are summed in float32 and rounded
   * once. */
  TRM_COLLECTIVE_SUM,
  TRM_COLLECTIVE_MEAN /* the sum divided by the number of instances, in the type: 1 / 2 is 0 */
} trm_collective_op;

typedef struct trm_collective_request {
  size_t size; /* sizeof(trm_collective_request) */
  trm_collective_kind kind;
  trm_collective_op op; /* of an all-reduce */
  uint32_t root;        /* of a broadcast: an instance of the whole group */
  const char *name;     /* at most TRM_COLLECTIVE_NAME bytes */
  trm_dtype dtype;
  int32_t rank;
  const int64_t *dims;
  const void *input; /* must stay until the collective is done */
  /* Who takes part: ranks in rising order, this instance among them; NULL: all. The same name among
   * other participants is another collective. */
  const uint32_t *participants;
  uint32_t num_participants;
} trm_collective_request;

#define TRM_COLLECTIVE_NAME 1024

typedef struct trm_collective_result {
  void *data; /* NULL for a barrier and for no elements */
  size_t bytes;
  int32_t rank;
  int64_t dims[TRM_MAX_RANK];
} trm_collective_result;

/* Called once, on a thread of the group, or inside trm_group_start in a process without company.
 * `result` is valid during the call; NULL after a failure. It must not block. */
typedef void (*trm_collective_done)(void *user, trm_status status, const char *message,
                                    const trm_collective_result *result);

/* Begins a collective and returns. On failure `done` is not called. Failures that `done` gets:
 * TRM_UNKNOWN ("Tensor layouts did not match on all instances", with the name and two instances),
 * on every participant; TRM_UNAVAILABLE, when an instance has ended or left; it names it. */
TRM_API trm_status trm_group_start(const trm_collective_request *request, trm_collective_done done,
                                   void *user, trm_error *error);
/* The same, and waits. Free the result with trm_collective_result_free. */
TRM_API trm_status trm_group_collect(const trm_collective_request *request,
                                     trm_collective_result *out_result, trm_error *error);
TRM_API void trm_collective_result_free(trm_collective_result *result);

/* ---- What one instance makes for all --------------------------------------------------------- */

typedef struct trm_group_maker {
  size_t size; /* sizeof(trm_group_maker) */
  void *user;
  /* Makes the block, which trm_free frees. It must not use the group. */
  trm_status (*make)(void *user, void **out_data, size_t *out_size, trm_error *error);
  /* Asked now and then while another instance makes it; false: it is not wanted any more. May be
   * NULL. */
  bool (*goes_on)(void *user);
} trm_group_maker;

/* The first instance that asks for `name` makes the block, and then *out_data is NULL; the others
 * get it when they ask, and free it with trm_free. Nobody waits for an instance that has not asked.
 * Why the maker failed is everybody's failure, unless it was cancelled: then the next makes it. The
 * n-th question of one instance for a name meets the n-th of the others. In a process without
 * company or that has not joined, and where the maker has ended, it calls `make`. */
TRM_API trm_status trm_group_make_once(const char *name, const trm_group_maker *maker,
                                       void **out_data, size_t *out_size, trm_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_GROUP_H_ */
