/* The thread that carries the collectives of an instance: it talks with the controller, moves the
 * data, and watches the others. */
#ifndef TREMULA_GROUP_PROGRESS_H_
#define TREMULA_GROUP_PROGRESS_H_

#include "group/operation.h"

/* The others have been met. */
trm_status trm_progress_start(uint32_t rank, uint32_t size, double stall_seconds, trm_error *error);
/* Takes over an operation. False: the thread is ending. */
bool trm_progress_add(trm_operation *operation);
/* Sends a message, which it takes over, from any thread. False: the thread is ending. */
bool trm_progress_post(uint32_t to, trm_message *message, size_t bytes);
/* Ends pending collectives, tells the others, waits for them, and ends the thread. */
void trm_progress_stop(void);

#endif /* TREMULA_GROUP_PROGRESS_H_ */
