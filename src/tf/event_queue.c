/* Events that wait until somebody takes them. */
#include "event_queue.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static event_list waiting = {.last = &waiting.first};
static size_t num_dropped;

event *event_create(size_t size) {
  event *e = malloc(sizeof *e + size);
  if (e) *e = (event){.next = NULL, .size = size};
  return e;
}

bool event_queue_add(event *added) {
  const size_t bytes = added ? sizeof *added + added->size : 0;
  bool is_first_loss = false;
  pthread_mutex_lock(&lock);
  const bool kept = added && waiting.bytes + bytes <= MOST_EVENT_BYTES;
  if (kept) {
    *waiting.last = added;
    waiting.last = &added->next;
    ++waiting.count;
    waiting.bytes += bytes;
  } else {
    is_first_loss = num_dropped++ == 0;
  }
  pthread_mutex_unlock(&lock);
  if (!kept) free(added);
  return is_first_loss;
}

event_list event_queue_take(void) {
  pthread_mutex_lock(&lock);
  event_list taken = waiting;
  if (!taken.first) taken.last = NULL;
  waiting = (event_list){.last = &waiting.first};
  num_dropped = 0;
  pthread_mutex_unlock(&lock);
  return taken;
}

void event_queue_put_back(event_list *list) {
  if (!list->first) return;
  pthread_mutex_lock(&lock);
  *list->last = waiting.first;
  if (!waiting.first) waiting.last = list->last;
  waiting.first = list->first;
  waiting.count += list->count;
  waiting.bytes += list->bytes;
  pthread_mutex_unlock(&lock);
  *list = (event_list){0};
}

void event_list_free(event_list *list) {
  while (list->first) {
    event *next = list->first->next;
    free(list->first);
    list->first = next;
  }
  *list = (event_list){0};
}
