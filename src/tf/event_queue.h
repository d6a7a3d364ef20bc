/* Events that wait until somebody takes them, as bytes. */
#ifndef TREMULA_TF_EVENT_QUEUE_H_
#define TREMULA_TF_EVENT_QUEUE_H_

#include <stdbool.h>
#include <stddef.h>

typedef struct event {
  struct event *next;
  size_t size;
  unsigned char data[];
} event;

/* All of them, the oldest first. */
typedef struct event_list {
  event *first, **last;
  size_t count, bytes; /* with what keeping them takes */
} event_list;

/* Of all events together; what comes when they are more is dropped. */
enum { MOST_EVENT_BYTES = 256 << 20 };

/* An event for so many bytes, or NULL. */
event *event_create(size_t size);
/* Takes it over; NULL is an event for which there was no memory. Returns whether it is dropped, as
 * the first one since somebody took events. */
bool event_queue_add(event *added);
/* Everything that waits, which does not wait any more. */
event_list event_queue_take(void);
/* Puts back what was taken and could not be handed over, before what has come since. */
void event_queue_put_back(event_list *list);
void event_list_free(event_list *list);

#endif /* TREMULA_TF_EVENT_QUEUE_H_ */
