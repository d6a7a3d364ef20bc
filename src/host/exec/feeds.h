/* The functions of feeds for the engine (tremula.h has the public ones). */
#ifndef TREMULA_HOST_EXEC_FEEDS_H_
#define TREMULA_HOST_EXEC_FEEDS_H_

#include <stdatomic.h>

#include "host/ops/kernel.h"

trm_infeed *trm_infeed_retain(trm_infeed *infeed);
trm_outfeed *trm_outfeed_retain(trm_outfeed *outfeed);

/* Copies the next element tuple into results; blocks until there is one. Returns the producer's
 * status after the end of the data, or TRM_CANCELLED when *cancelled becomes true. */
trm_status trm_infeed_pop(trm_infeed *infeed, void *const *results, const atomic_bool *cancelled,
                          trm_error *error);
/* Whether that would block now. */
bool trm_infeed_is_empty(trm_infeed *infeed);
/* Appends one element tuple, the operands of all replicas' calls; on failure nothing is appended.
 */
trm_status trm_outfeed_push(trm_outfeed *outfeed, const trm_kernel_call *const *calls,
                            uint32_t num_replicas, trm_error *error);

/* TRM_FAILED_PRECONDITION, with the difference as message, if the elements of a queue are not those
 * of the program. With several replicas the elements of an outfeed have one more dimension, in
 * front: the number of replicas. */
trm_status trm_infeed_check(const trm_infeed *infeed, const char *id,
                            const trm_tensor_info *elements, size_t count, trm_error *error);
trm_status trm_outfeed_check(const trm_outfeed *outfeed, const char *id,
                             const trm_tensor_info *elements, size_t count, uint32_t num_replicas,
                             trm_error *error);

#endif /* TREMULA_HOST_EXEC_FEEDS_H_ */
