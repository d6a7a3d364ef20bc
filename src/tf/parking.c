/* Element tuples that wait for the next run. */
#include "parking.h"

#include <stdlib.h>

bool parking_add(tf_infeed *feed, TF_Tensor **tensors, TF_Status *status) {
  const size_t count = feed->num_elements;
  parked_element *element = calloc(1, sizeof *element + count * sizeof *element->tensors);
  if (!element) return fail_memory(status);
  element->count = count;
  for (size_t i = 0; i < count; i++) {
    element->tensors[i] = tensors[i];
    tensors[i] = NULL;
  }
  pthread_mutex_lock(&feed->lock);
  element->resets = feed->resets;
  parked_element **link = &feed->parked;
  while (*link) link = &(*link)->next;
  *link = element;
  pthread_mutex_unlock(&feed->lock);
  return true;
}

parked_element *parking_take(tf_infeed *feed) {
  pthread_mutex_lock(&feed->lock);
  parked_element *element = feed->parked;
  if (element) feed->parked = element->next;
  pthread_mutex_unlock(&feed->lock);
  return element;
}

void parking_put_back(tf_infeed *feed, parked_element *element) {
  pthread_mutex_lock(&feed->lock);
  const bool is_wanted = element->resets == feed->resets;
  if (is_wanted) {
    element->next = feed->parked;
    feed->parked = element;
  }
  pthread_mutex_unlock(&feed->lock);
  if (!is_wanted) parked_free(element);
}

void parking_reset(tf_infeed *feed) {
  pthread_mutex_lock(&feed->lock);
  parked_element *all = feed->parked;
  feed->parked = NULL;
  feed->resets++;
  pthread_mutex_unlock(&feed->lock);
  while (all) {
    parked_element *next = all->next;
    parked_free(all);
    all = next;
  }
}

void parked_free(parked_element *element) {
  for (size_t i = 0; i < element->count; i++) TF_DeleteTensor(element->tensors[i]);
  free(element);
}
