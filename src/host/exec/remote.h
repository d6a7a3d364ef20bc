/* The replicas of a run that are in other processes: what they need of those here, and the
 * reverse. */
#ifndef TREMULA_HOST_EXEC_REMOTE_H_
#define TREMULA_HOST_EXEC_REMOTE_H_

#include <stdatomic.h>

#include "host/ops/kernel.h"

/* Every process has as many replicas as the others. */
typedef struct trm_remote trm_remote;

/* Replicas process * num_here to (process + 1) * num_here - 1 are here. */
trm_status trm_remote_create(uint32_t num_processes, uint32_t process, uint32_t num_here,
                             trm_remote **out_remote, trm_error *error);
void trm_remote_free(trm_remote *remote);

/* A run begins. */
void trm_remote_begin(trm_remote *remote);
/* calls: of all replicas; sets those of other processes, whose operands have come. Called by one
 * thread, while the replicas here wait in meet. */
trm_status trm_remote_meet(trm_remote *remote, const trm_sharing *sharing,
                           const trm_kernel_call **calls, const atomic_bool *cancelled,
                           trm_error *error);
/* The same in leave: gives and takes what replicas wrote for others. */
trm_status trm_remote_leave(trm_remote *remote, const trm_kernel_call *const *calls,
                            const atomic_bool *cancelled, trm_error *error);

#endif /* TREMULA_HOST_EXEC_REMOTE_H_ */
