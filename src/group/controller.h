/* The controller on instance 0: a collective begins when all its participants have announced it. */
#ifndef TREMULA_GROUP_CONTROLLER_H_
#define TREMULA_GROUP_CONTROLLER_H_

#include "group/message.h"

/* Sends a message to an instance; takes it over. */
typedef void (*trm_answer_fn)(void *user, uint32_t to, trm_message *message, size_t bytes);

typedef struct trm_controller {
  struct trm_round *rounds; /* collectives that some have announced, the oldest first */
  uint32_t last_number;
  trm_answer_fn answer;
  void *user;
} trm_controller;

trm_status trm_controller_announce(trm_controller *controller, uint32_t from,
                                   const trm_message *message, trm_error *error);
/* Warns of each collective that waits since this many seconds, and again. */
void trm_controller_warn(trm_controller *controller, double stall_seconds);
/* Forgets all rounds. */
void trm_controller_clear(trm_controller *controller);

#endif /* TREMULA_GROUP_CONTROLLER_H_ */
