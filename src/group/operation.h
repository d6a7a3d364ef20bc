/* Collectives on their way, on one instance. */
#ifndef TREMULA_GROUP_OPERATION_H_
#define TREMULA_GROUP_OPERATION_H_

#include "group/message.h"
#include "group/mpi.h"

typedef struct trm_operation {
  struct trm_operation *next;
  uint32_t id;
  trm_collective_request request; /* its pointers but `input` are to `announcement` */
  trm_message *announcement;
  size_t announcement_bytes;
  uint32_t place; /* of this instance among the participants */
  trm_collective_done done;
  void *user;
  double since, warned;
  double deadline; /* ms; 0: none. When a participant is gone, and its data may be on its way. */

  bool is_moving;
  int step;      /* of the data's movement */
  int64_t *rows; /* sizes of dimension 0 on each participant */
  trm_transfer *transfers;
  size_t num_transfers;
  char *gathered; /* all participants' operands of this instance's share of an all-reduce */
  trm_collective_result result;
} trm_operation;

/* Checks a request of instance `me` of `size`, and copies what it points to but the input. */
trm_status trm_operation_create(const trm_collective_request *request, uint32_t me, uint32_t size,
                                trm_operation **out_operation, trm_error *error);
void trm_operation_free(trm_operation *operation);

/* Begins to move the data; tag: the same on all, and of no other collective on its way. */
trm_status trm_operation_begin(trm_operation *operation, trm_mpi_handle communicator, int tag,
                               const int64_t *rows, trm_error *error);
/* Goes on; sets *out_done when the result is there. */
trm_status trm_operation_advance(trm_operation *operation, bool *out_done, trm_error *error);

#endif /* TREMULA_GROUP_OPERATION_H_ */
