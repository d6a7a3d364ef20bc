/* The channel: what running programs send each other between instances. All use it in the same
 * order, one run at a time.
 *
 *     trm_channel_begin     every instance runs the same program
 *     trm_channel_trade     any number of times; each with some of the instances
 *     trm_channel_end       every instance is done, and knows whether another has failed
 *
 * An instance that fails goes to the end at once. Others learn it in the trade where they wait. */
#ifndef TREMULA_GROUP_CHANNEL_H_
#define TREMULA_GROUP_CHANNEL_H_

#include <stdatomic.h>

#include "group/mpi.h"

/* For an instance, and from it. Both sides know how much comes. */
typedef struct trm_parcel {
  uint32_t peer;
  const void *sent;
  void *received;
  size_t sent_bytes, received_bytes;
} trm_parcel;

/* progress.c: with the group. Every instance calls it. */
trm_status trm_channel_open(uint32_t rank, uint32_t size, double stall_seconds, trm_error *error);
void trm_channel_close(void);
/* Whether MPI may still read or write what was handed to trm_channel_trade, so that it must stay.
 */
bool trm_channel_is_broken(void);

/* Waits for all. Fails if one begins another program. `program` tells programs apart. */
trm_status trm_channel_begin(uint64_t program, const atomic_bool *cancelled, trm_error *error);
/* `what` must be equal on both sides. Returns when the parcels have come and what was sent may
 * change. */
trm_status trm_channel_trade(uint64_t what, const trm_parcel *parcels, uint32_t num,
                             const atomic_bool *cancelled, trm_error *error);
/* `status` and `message` are of this instance's run. Returns the run's status among all; where it
 * is another instance's failure, the error says which. Only after trm_channel_begin succeeded. */
trm_status trm_channel_end(trm_status status, const char *message, const atomic_bool *cancelled,
                           trm_error *error);

#endif /* TREMULA_GROUP_CHANNEL_H_ */
