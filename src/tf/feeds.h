/* Owns: the queues of infeeds and outfeeds, by id. They live as long as the process, because
 * elements stay in a queue between runs. */
#ifndef TREMULA_TF_FEEDS_H_
#define TREMULA_TF_FEEDS_H_

#include <pthread.h>

#include "tensorflow.h"

typedef struct trm_tf_infeed {
  char *id;
  trm_infeed *queue;
  size_t num_elements;
  trm_tensor_info *elements;
  uint32_t num_replicas; /* number of replicas that read it; 0: none since it was deleted */
  pthread_mutex_t lock;  /* guards the fields below */
  uint64_t
      made_up; /* the number of its made-up elements; 0: it has the host's elements (synthetic.c) */
} trm_tf_infeed;

/* The infeed `id` or NULL. */
trm_tf_infeed *trm_tf_infeed_find(const char *id);
/* Records whether the infeed `id` has been started, and returns whether it had been before. */
bool trm_tf_infeed_set_started(const char *id, bool started);
/* Lets units with any number of replicas read the infeed again. */
void trm_tf_infeed_forget_replicas(trm_tf_infeed *feed);

/* The outfeed `id`, and the number of replicas that write to it; NULL if no unit has named it yet.
 */
trm_status trm_tf_outfeed_find(const char *id, const trm_tensor_info *elements, size_t num_elements,
                               trm_outfeed **out, uint32_t *out_replicas, trm_error *error);
/* Drops the elements of the outfeed `id`. Fails if no unit has named it yet. */
trm_status trm_tf_outfeed_delete(const char *id, trm_error *error);
/* The number of such deletions. */
uint64_t trm_tf_outfeed_deletions(const char *id);

/* Connects every feed of the executable with the engine.
 *
 * A module calls its feeds "0", "1", ..., so that modules that differ only in their feeds are
 * equal. Line i of `names` is the id of feed "i"; a feed with another name has its name as id. A
 * queue is made when it is first named, with room for as many elements for each replica as were
 * declared. *out_infeed is the infeed, or NULL. */
trm_status trm_tf_feeds_bind(const trm_executable *executable, trm_engine *engine,
                             const char *names, trm_tf_infeed **out_infeed, trm_error *error);
/* Finds the infeed without connecting it, and the least number of element tuples that a run reads.
 */
trm_status trm_tf_feeds_find_infeed(const trm_executable *executable, uint32_t num_replicas,
                                    const char *names, trm_tf_infeed **out_infeed,
                                    uint64_t *out_reads, trm_error *error);
/* Whether the executable reads an infeed. */
bool trm_tf_feeds_has_infeed(const trm_executable *executable);
/* The id of the feed or host call `name`: its line of `names`, copied to `room`; or `name` itself.
 */
const char *trm_tf_feed_id(const char *name, const char *names, char *room, size_t size);
/* Whether one of the lines of `names` is `id`. */
bool trm_tf_feed_is_named(const char *names, const char *id);

/* The feeds of a running unit, as lines of ids. The lines must live until trm_tf_feed_use_end. */
typedef struct trm_tf_feed_use {
  struct trm_tf_feed_use *next;
  const char *names;
  bool is_on;
} trm_tf_feed_use;

void trm_tf_feed_use_begin(trm_tf_feed_use *use, const char *names);
/* May be called several times. */
void trm_tf_feed_use_end(trm_tf_feed_use *use);
/* Whether a running unit has the feed `id`. TensorFlow frees a failed run's tensors, with which the
 * run leaves, after the session has returned: waits a moment for that. */
bool trm_tf_feed_is_used(const char *id);

/* ---- For Python ---- */

/* Declares, before its first run, the depth of an infeed's queue and the number of replicas that it
 * is for (0: any). */
TRM_TF_API void trm_tf_declare_infeed(const char *id, uint64_t depth, uint32_t replicas);
/* Declares whether an outfeed keeps only the last element, likewise. */
TRM_TF_API void trm_tf_declare_outfeed(const char *id, int32_t keep_last, uint32_t replicas);

#endif /* TREMULA_TF_FEEDS_H_ */
