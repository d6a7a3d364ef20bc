/* What instances tell each other beside the data of collectives. All run the same program on
 * machines of the same byte order, so that a message is a struct and what follows it. */
#ifndef TREMULA_GROUP_MESSAGE_H_
#define TREMULA_GROUP_MESSAGE_H_

#include "tremula/group.h"

typedef enum trm_message_type {
  MESSAGE_ANNOUNCE, /* to instance 0: the sender has reached a collective; an announcement */
  MESSAGE_ANSWER,   /* from instance 0: begin, or fail; an answer */
  MESSAGE_LEFT,     /* to all: the sender has left */
  MESSAGE_ENDED,    /* to all: the sender has seen that instance `number` ended */
  /* once.h; `id` is that of a question of the instance that asks or makes, a text follows: */
  MESSAGE_ASK,  /* to instance 0: the name of a block */
  MESSAGE_MADE, /* to instance 0: the block is there, or why it cannot be made */
  MESSAGE_TURN, /* from instance 0: instance `number` makes it, or has it under this name */
  MESSAGE_GIVE  /* from instance 0: instance `number` wants it */
} trm_message_type;

/* What an instance says of a collective; name and participants follow. */
typedef struct trm_announcement {
  trm_collective_kind kind;
  trm_collective_op op;
  trm_dtype dtype;
  uint32_t root, num_participants, name_length;
  int32_t rank;
  int64_t dims[TRM_MAX_RANK];
} trm_announcement;

typedef struct trm_message {
  trm_message_type type;
  uint32_t id;     /* the announcing instance's number of the operation */
  uint32_t number; /* answer: the tag of the data; ended: the instance */
  trm_status status;
  uint64_t bytes; /* of a block */
  trm_announcement announcement;
  /* Of an announcement: uint32_t participants[], then the name. Of an answer: int64_t rows[], the
   * sizes of dimension 0 on each participant, or after a failure the text with its NUL. */
  char rest[];
} trm_message;

/* Tags of MPI: all messages have the first, the data of collectives one of the others. */
enum { TAG_MESSAGE = 0, TAG_DATA = 1, TAG_END = 32767 };

static inline const uint32_t *trm_message_participants(const trm_message *message) {
  return (const uint32_t *)(const void *)message->rest;
}
static inline const char *trm_message_name(const trm_message *message) {
  return message->rest + message->announcement.num_participants * sizeof(uint32_t);
}

#endif /* TREMULA_GROUP_MESSAGE_H_ */
