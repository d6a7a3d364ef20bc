/* Blocks that one instance makes for all, such as compiled programs (trm_group_make_once).
 *
 *     who asks         instance 0                       who makes
 *     ASK ->           the first that asks: it makes
 *                      <- TURN, with its own number
 *                                                       MADE ->
 *                      <- TURN, with the maker's number; GIVE ->
 *     <------------- a broadcast between the two ------------->
 *
 * The functions below are called by the group's thread. */
#ifndef TREMULA_GROUP_ONCE_H_
#define TREMULA_GROUP_ONCE_H_

#include "group/operation.h"

/* Of the group's thread (progress.h), which calls this file and not the reverse. */
typedef struct trm_once_ways {
  bool (*post)(uint32_t to, trm_message *message, size_t bytes);
  bool (*add)(trm_operation *operation);
} trm_once_ways;

void trm_once_begin(uint32_t rank, uint32_t size, double stall_seconds, const trm_once_ways *ways);
/* Those that wait make their blocks themselves. */
void trm_once_end(void);

/* On instance 0. */
trm_status trm_once_take_question(uint32_t from, const trm_message *message, trm_error *error);
trm_status trm_once_take_made(uint32_t from, const trm_message *message, trm_error *error);
/* On all. */
void trm_once_take_turn(const trm_message *message);
void trm_once_take_request(const trm_message *message);
/* An instance has left or ended. */
void trm_once_lose(uint32_t rank);

#endif /* TREMULA_GROUP_ONCE_H_ */
