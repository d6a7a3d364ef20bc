/* Owns: the queues of infeeds and outfeeds, by id. They live as long as the process, because what
 * is in a queue outlives a run. */
#ifndef TREMULA_TF_FEEDS_H_
#define TREMULA_TF_FEEDS_H_

#include <pthread.h>

#include "tensorflow.h"

typedef struct trm_tf_infeed {
  char *id;
  trm_infeed *queue;
  size_t num_elements;
  trm_tensor_info *elements;
  uint32_t num_replicas; /* that read it; 0: none has since it was deleted */
  pthread_mutex_t lock;  /* of the rest */
  uint64_t made_up;      /* 0: it gives the host's elements (synthetic.c) */
} trm_tf_infeed;

/* The infeed `id` or NULL. */
trm_tf_infeed *trm_tf_infeed_find(const char *id);
/* Notes whether the infeed `id` has been started; returns whether it had been before. */
bool trm_tf_infeed_set_started(const char *id, bool started);
/* Programs of any number of replicas may read the infeed from now on. */
void trm_tf_infeed_forget_replicas(trm_tf_infeed *feed);

/* The outfeed `id`, and how many replicas write to it; NULL if no program has named it yet. */
trm_status trm_tf_outfeed_find(const char *id, const trm_tensor_info *elements, size_t num_elements,
                               trm_outfeed **out, uint32_t *out_replicas, trm_error *error);
/* Drops what the outfeed `id` holds. Fails if no program has named it yet. */
trm_status trm_tf_outfeed_delete(const char *id, trm_error *error);
/* How often that was done. */
uint64_t trm_tf_outfeed_deletions(const char *id);

/* A program names its feeds "0", "1", ..., so that programs that only differ in their feeds are
 * one. `names` has a line with the id of each; a feed of another name has that as its id.
 *
 * Connects every feed of the executable with the engine: a queue is made when it is first named,
 * with room for as many elements for each replica as were declared. *out_infeed is the infeed, or
 * NULL. */
trm_status trm_tf_feeds_bind(const trm_executable *executable, trm_engine *engine,
                             const char *names, trm_tf_infeed **out_infeed, trm_error *error);
/* Only finds the infeed, and how many element tuples a run reads at least. */
trm_status trm_tf_feeds_find_infeed(const trm_executable *executable, uint32_t num_replicas,
                                    const char *names, trm_tf_infeed **out_infeed,
                                    uint64_t *out_reads, trm_error *error);
/* Whether the executable reads an infeed. */
bool trm_tf_feeds_has_infeed(const trm_executable *executable);
/* The id that the feed or host call `name` of a program has among `names`, in `room`; or `name`. */
const char *trm_tf_feed_id(const char *name, const char *names, char *room, size_t size);
/* Whether one of the lines of `names` is `id`. */
bool trm_tf_feed_is_named(const char *names, const char *id);

/* A program that runs, and the lines of its feeds' ids, which must stay until
 * trm_tf_feed_use_end. */
typedef struct trm_tf_feed_use {
  struct trm_tf_feed_use *next;
  const char *names;
  bool is_on;
} trm_tf_feed_use;

void trm_tf_feed_use_begin(trm_tf_feed_use *use, const char *names);
/* May be called again. */
void trm_tf_feed_use_end(trm_tf_feed_use *use);
/* Whether a program that runs has the feed `id`. */
bool trm_tf_feed_is_used(const char *id);

/* ---- For Python ---- */

/* Depth of the infeed's queue, told before its first run; and how many replicas it is made for, 0
 * if it does not say. */
TRM_TF_API void trm_tf_declare_infeed(const char *id, uint64_t depth, uint32_t replicas);
/* Whether the outfeed keeps only the last element; likewise. */
TRM_TF_API void trm_tf_declare_outfeed(const char *id, int32_t keep_last, uint32_t replicas);

#endif /* TREMULA_TF_FEEDS_H_ */
