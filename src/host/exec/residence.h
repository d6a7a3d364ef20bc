/* Where the contents of a replica's values are: in the host's memory, on the accelerator, or both.
 *
 * For each slot of a schedule with regions (host/ops/calls/region.h) this is the slot's array on
 * the accelerator, if there is one, and whether the host's memory is stale. A region reads and
 * makes arrays only. A step of the host that reads a slot copies the array to the host first; one
 * that writes the slot drops the array. So a value that only regions read is never copied, and only
 * a reader of results waits for the accelerator. */
#ifndef TREMULA_HOST_EXEC_RESIDENCE_H_
#define TREMULA_HOST_EXEC_RESIDENCE_H_

#include "host/ops/calls/region.h"
#include "host/schedule/schedule.h"

enum {
  TRM_RUNS_AHEAD = 2,   /* regions that may be under way when the next one starts */
  TRM_MOST_PENDING = 64 /* arrays of an element that an outfeed gets later */
};

typedef struct trm_resident {
  trm_device_array *array; /* NULL: none */
  uint64_t version;        /* an input's, when it was copied; 0: unknown */
  bool is_stale;           /* the host's memory does not have the contents */
} trm_resident;

typedef struct trm_pending_element trm_pending_element; /* an element of an outfeed */

typedef struct trm_residence {
  const trm_schedule *schedule;
  trm_accelerator *accelerator;
  uint32_t replica;
  void *const *places;                         /* by slot: the host's memory in this run */
  trm_device_event *under_way[TRM_RUNS_AHEAD]; /* the oldest first; NULL: none */
  trm_pending_element *pending;                /* the oldest first */
  uint64_t arrays_up, bytes_up, arrays_down, bytes_down; /* in this run */
  trm_resident slots[];                                  /* by slot; of representatives only */
} trm_residence;

/* accelerated.c: one of the regions, which are all alike; NULL: there is none. */
const trm_region_kernel *trm_schedule_region(const trm_schedule *schedule);

/* NULL for a schedule without regions. */
trm_status trm_residence_create(const trm_schedule *schedule, uint32_t replica,
                                trm_residence **out_residence, trm_error *error);
void trm_residence_free(trm_residence *residence);

/* Before a run: places are the addresses of all slots, versions those of the inputs or NULL. */
trm_status trm_residence_begin(trm_residence *residence, void *const *places,
                               const uint64_t *versions, trm_error *error);
/* Before a step of the host: its operands come home. */
trm_status trm_residence_bring_home(trm_residence *residence, const trm_step *step,
                                    trm_error *error);
/* After a step of the host: its results are the host's. */
void trm_residence_wrote(trm_residence *residence, const trm_step *step);
/* A copy, of one array, of what is on the accelerator is the same array. False: the host has to
 * copy. */
bool trm_residence_copy(trm_residence *residence, const trm_step *step);
/* call: the step's. `waits`: for its end, to be timed. */
trm_status trm_residence_run(trm_residence *residence, const trm_step *step,
                             const trm_kernel_call *call, bool waits, trm_error *error);
/* pending_outfeeds.c: an element of an outfeed, of at most TRM_MOST_PENDING arrays, is given to it
 * later, so that the next element of a feed is copied while this one is computed. */
trm_status trm_residence_defer_outfeed(trm_residence *residence, trm_outfeed *outfeed,
                                       const trm_step *step, const void *const *operands,
                                       trm_error *error);
/* Waits for what is pending for an outfeed (NULL: for all), and gives it and what is older, also
 * after a failure (`status`). Gives the first failure. */
trm_status trm_residence_flush_outfeeds(trm_residence *residence, const trm_outfeed *outfeed,
                                        trm_status status, trm_error *error);
/* After a run: gives what is pending, also after a failure, and waits for all of it. Outputs come
 * home, but those with stays[number] stay, for trm_fetch_resident. */
trm_status trm_residence_end(trm_residence *residence, trm_status status, const bool *stays,
                             trm_error *error);

#endif /* TREMULA_HOST_EXEC_RESIDENCE_H_ */
