/* Feeds, as the engine sees them (the public half is in tremula.h). */
#ifndef TREMULA_EXEC_FEEDS_H_
#define TREMULA_EXEC_FEEDS_H_

#include <stdatomic.h>

#include "ops/kernel.h"

trm_infeed *trm_infeed_retain(trm_infeed *infeed);
trm_outfeed *trm_outfeed_retain(trm_outfeed *outfeed);

/* Takes the next element tuple into results; blocks until there is one. Returns the producer's
 * status after the end, TRM_CANCELLED when *cancelled becomes true. */
trm_status trm_infeed_pop(trm_infeed *infeed, void *const *results, const atomic_bool *cancelled,
                          trm_error *error);
/* Copies the operands of the replicas' calls in: one element tuple, whole or not at all. */
trm_status trm_outfeed_push(trm_outfeed *outfeed, const trm_kernel_call *const *calls,
                            uint32_t num_replicas, trm_error *error);

/* TRM_FAILED_PRECONDITION with what differs, where a queue's elements are not the program's. With
 * several replicas an outfeed's have one dimension more, the first: the number of replicas. */
trm_status trm_infeed_check(const trm_infeed *infeed, const char *id,
                            const trm_tensor_info *elements, size_t count, trm_error *error);
trm_status trm_outfeed_check(const trm_outfeed *outfeed, const char *id,
                             const trm_tensor_info *elements, size_t count, uint32_t num_replicas,
                             trm_error *error);

#endif /* TREMULA_EXEC_FEEDS_H_ */
