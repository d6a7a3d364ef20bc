/* The queues of infeeds and outfeeds, by id. They live as long as the process, because what is in
 * a queue outlives a run. */
#ifndef TREMULA_TF_FEEDS_H_
#define TREMULA_TF_FEEDS_H_

#include <pthread.h>

#include "status.h"

typedef struct tf_infeed {
  struct tf_infeed *next;
  char *id;
  trm_infeed *queue;
  size_t num_elements;
  trm_tensor_info *elements;
  uint32_t num_replicas; /* that read it; 0: none has since it was deleted */
  pthread_mutex_t lock;  /* of the rest */
  uint64_t made_up;      /* 0: it gives the host's elements (synthetic.c) */
} tf_infeed;

/* The infeed `id`, made when it is first named, with room for as many elements for each replica as
 * were declared. */
bool infeed_get(const char *id, const trm_tensor_info *elements, size_t num_elements,
                uint32_t num_replicas, tf_infeed **out, TF_Status *status);
/* The infeed `id` or NULL. */
tf_infeed *infeed_find(const char *id);
/* Notes whether the infeed `id` has been started; returns whether it had been before. */
bool infeed_set_started(const char *id, bool started);
/* Programs of any number of replicas may read the infeed from now on. */
void infeed_forget_replicas(tf_infeed *feed);

/* The outfeed `id`, made when it is first named. `elements` are those of one replica. */
bool outfeed_get(const char *id, const trm_tensor_info *elements, size_t num_elements,
                 uint32_t num_replicas, bool keep_last, trm_outfeed **out, TF_Status *status);
/* The outfeed `id`, and how many replicas write to it; NULL if no program has named it yet. */
bool outfeed_find(const char *id, const trm_tensor_info *elements, size_t num_elements,
                  trm_outfeed **out, uint32_t *out_replicas, TF_Status *status);
/* Drops what the outfeed `id` holds. Fails if no program has named it yet. */
bool outfeed_delete(const char *id, TF_Status *status);
/* How often that was done. */
uint64_t outfeed_deletions(const char *id);
/* Whether Python has said that only the last element of outfeed `id` is kept. */
bool outfeed_keeps_last(const char *id);

/* A program names its feeds "0", "1", ..., so that programs that only differ in their feeds are
 * one. `names` has a line with the id of each; a feed of another name has that as its id.
 *
 * Connects every feed of the executable with the engine. *out_infeed is the infeed, or NULL. */
bool feeds_bind(const trm_executable *executable, trm_engine *engine, const char *names,
                tf_infeed **out_infeed, TF_Status *status);
/* The id that the feed or host call `name` of a program has among `names`, in `room`; or `name`. */
const char *feed_id(const char *name, const char *names, char *room, size_t size);
/* Only finds the infeed, and how many element tuples a run reads at least. */
bool feeds_find_infeed(const trm_executable *executable, uint32_t num_replicas, const char *names,
                       tf_infeed **out_infeed, uint64_t *out_reads, TF_Status *status);
/* A program that runs, and the lines of its feeds' ids, which must stay until feed_use_end. */
typedef struct feed_use {
  struct feed_use *next;
  const char *names;
  bool is_on;
} feed_use;

void feed_use_begin(feed_use *use, const char *names);
/* May be called again. */
void feed_use_end(feed_use *use);
/* Whether a program that runs has the feed `id`. */
bool feed_is_used(const char *id);

/* Whether the executable reads an infeed. */
bool feeds_has_infeed(const trm_executable *executable);

/* ---- For Python ---- */

/* Depth of the infeed's queue, told before its first run; and how many replicas it is made for, 0
 * if it does not say. */
TRM_TF_API void trm_tf_declare_infeed(const char *id, uint64_t depth, uint32_t replicas);
/* Whether the outfeed keeps only the last element; likewise. */
TRM_TF_API void trm_tf_declare_outfeed(const char *id, int32_t keep_last, uint32_t replicas);

#endif /* TREMULA_TF_FEEDS_H_ */
