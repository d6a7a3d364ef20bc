/* Element tuples that runs of an infeed got from its dataset and had no more use for: they wait for
 * the next run, in their order. */
#ifndef TREMULA_TF_PARKING_H_
#define TREMULA_TF_PARKING_H_

#include "feeds.h"

typedef struct parked_element {
  struct parked_element *next;
  uint64_t resets; /* of the infeed, when it was parked first */
  size_t count;
  TF_Tensor *tensors[];
} parked_element;

/* Parks a tuple, behind the others. Takes the tensors over and leaves NULLs, unless memory has run
 * out. */
bool parking_add(tf_infeed *feed, TF_Tensor **tensors, TF_Status *status);
/* The tuple that has waited longest, off the list; NULL: none. Free it or put it back. */
parked_element *parking_take(tf_infeed *feed);
/* Before the others again; frees it if the infeed has been reset meanwhile. */
void parking_put_back(tf_infeed *feed, parked_element *element);
/* The infeed begins anew. */
void parking_reset(tf_infeed *feed);
void parked_free(parked_element *element);

#endif /* TREMULA_TF_PARKING_H_ */
