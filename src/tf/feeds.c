/* Owns: the queues of infeeds and outfeeds, by id. */
#define _POSIX_C_SOURCE 200809L
#include "feeds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"
#include "settings.h"

#define OTHER_OUTFEED                                                                             \
  "Outfeed with id='%s' already exists but with a different tensor shape or replication factor. " \
  "Consider changing the `feed_name` in IPUOutfeedQueue."

enum { DEFAULT_DEPTH = 3, MAX_DEPTH = 255, ID_SIZE = 1024 };

typedef struct outfeed {
  char *id;
  trm_outfeed *queue;
  uint32_t num_replicas;
  uint64_t deletions;
  size_t num_elements;
  trm_tensor_info *elements; /* of one replica */
} outfeed;

/* A feed's declaration by Python, before its first use. */
typedef struct declaration {
  char *id;
  size_t depth;
  uint32_t replicas; /* for how many replicas; 0: any number */
  bool keep_last;
  bool started; /* whether an infeed has been started since it was last deleted */
} declaration;

/* The lock guards the following lists. There are few feeds. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static VECTOR(trm_tf_infeed *) infeeds;
static VECTOR(outfeed *) outfeeds;
static VECTOR(declaration) declarations;
static trm_tf_feed_use *uses;
static pthread_cond_t use_ended = PTHREAD_COND_INITIALIZER;
enum { LEAVING_MS = 1000 }; /* how long a run of which the session has returned may take to leave */

/* ---- Declarations; find_declaration with the lock held --------------------------------------- */

static declaration *find_declaration(const char *id) {
  for (size_t i = 0; i < declarations.count; ++i) {
    if (strcmp(declarations.items[i].id, id) == 0) return &declarations.items[i];
  }
  return NULL;
}

/* Declares a feed; the last declaration counts. Without memory for it the defaults apply. */
static void declare(const char *id, size_t depth, bool keep_last, uint32_t replicas) {
  pthread_mutex_lock(&lock);
  declaration *d = find_declaration(id);
  if (d == NULL) {
    const declaration added = {.id = trm_tf_copy_text(id)};
    if (added.id != NULL && VECTOR_PUSH(&declarations, added)) {
      d = &declarations.items[declarations.count - 1];
    } else trm_free(added.id);
  }
  if (d != NULL) {
    *d = (declaration){.id = d->id, .depth = depth, .replicas = replicas, .keep_last = keep_last};
  }
  pthread_mutex_unlock(&lock);
}

void trm_tf_declare_infeed(const char *id, uint64_t depth, uint32_t replicas) {
  declare(id, depth, false, replicas);
}
void trm_tf_declare_outfeed(const char *id, int32_t keep_last, uint32_t replicas) {
  declare(id, DEFAULT_DEPTH, keep_last != 0, replicas);
}

/* Call with the lock held. */
static trm_status check_replicas(const char *kind, const char *id, uint32_t replicas,
                                 trm_error *error) {
  const declaration *declared = find_declaration(id);
  if (!declared || declared->replicas == 0 || declared->replicas == replicas) return TRM_OK;
  FAIL(FAILED_PRECONDITION,
       "Current program has been created with replication_factor %" PRIu32
       ", but its %s '%s' with replication_factor %" PRIu32 ".",
       replicas, kind, id, declared->replicas);
}

bool trm_tf_infeed_set_started(const char *id, bool started) {
  pthread_mutex_lock(&lock);
  declaration *declared = find_declaration(id);
  const bool before = declared != NULL && declared->started;
  if (declared != NULL) declared->started = started;
  pthread_mutex_unlock(&lock);
  return before;
}

/* ---- Elements ------------------------------------------------------------------------------- */

static bool same_elements(const trm_tensor_info *a, size_t num_a, const trm_tensor_info *b,
                          size_t num_b) {
  if (num_a != num_b) return false;
  for (size_t i = 0; i < num_a; ++i) {
    if (a[i].dtype != b[i].dtype || a[i].rank != b[i].rank ||
        memcmp(a[i].dims, b[i].dims, (size_t)a[i].rank * sizeof *a[i].dims) != 0) {
      return false;
    }
  }
  return true;
}

static trm_status copy_elements(const trm_tensor_info *elements, size_t count,
                                trm_tensor_info **out, trm_error *error) {
  *out = trm_allocate_zeroed(count, sizeof **out);
  CHECK_MEMORY(*out, "a feed");
  for (size_t i = 0; i < count; ++i) {
    (*out)[i] = elements[i];
    (*out)[i].name = "";
  }
  return TRM_OK;
}

/* Adds the dimension of replicas to the elements. */
static trm_status stack_elements(trm_tensor_info *elements, size_t count, uint32_t num_replicas,
                                 trm_error *error) {
  for (size_t i = 0; num_replicas > 1 && i < count; ++i) {
    trm_tensor_info *info = &elements[i];
    if (info->rank + 1 >= TRM_MAX_RANK || info->bytes > SIZE_MAX / num_replicas) {
      FAIL(INVALID_ARGUMENT, "Element %zu of an outfeed is too large.", i);
    }
    memmove(info->dims + 1, info->dims, (size_t)info->rank * sizeof *info->dims);
    info->dims[0] = num_replicas;
    ++info->rank;
    info->bytes *= num_replicas;
  }
  return TRM_OK;
}

/* ---- Infeeds; with the lock held up to infeed_get -------------------------------------------- */

static trm_tf_infeed *find_infeed(const char *id) {
  for (size_t i = 0; i < infeeds.count; ++i) {
    if (strcmp(infeeds.items[i]->id, id) == 0) return infeeds.items[i];
  }
  return NULL;
}

static trm_status fill_infeed(trm_tf_infeed *feed, const char *id, const trm_tensor_info *elements,
                              size_t num_elements, uint32_t num_replicas, trm_error *error) {
  const declaration *declared = find_declaration(id);
  const size_t depth = (declared ? declared->depth : DEFAULT_DEPTH) * num_replicas;
  feed->id = trm_tf_copy_text(id);
  CHECK_MEMORY(feed->id, "an infeed");
  feed->num_elements = num_elements;
  TRY(copy_elements(elements, num_elements, &feed->elements, error));
  TRY(trm_infeed_create(feed->elements, num_elements, depth < MAX_DEPTH ? depth : MAX_DEPTH,
                        &feed->queue, error));
  pthread_mutex_init(&feed->lock, NULL);
  return TRM_OK;
}

static trm_status make_infeed(const char *id, const trm_tensor_info *elements, size_t num_elements,
                              uint32_t num_replicas, trm_tf_infeed **out, trm_error *error) {
  if (!VECTOR_GROW(&infeeds)) FAIL_NO_MEMORY("an infeed");
  trm_tf_infeed *feed = trm_allocate_zeroed(1, sizeof *feed);
  CHECK_MEMORY(feed, "an infeed");
  const trm_status status = fill_infeed(feed, id, elements, num_elements, num_replicas, error);
  if (status == TRM_OK) {
    *out = infeeds.items[infeeds.count++] = feed;
    return TRM_OK;
  }
  trm_free(feed->id);
  trm_free(feed->elements);
  trm_free(feed);
  return status;
}

static trm_status find_or_make_infeed(const char *id, const trm_tensor_info *elements,
                                      size_t num_elements, uint32_t num_replicas,
                                      trm_tf_infeed **out, trm_error *error) {
  TRY(check_replicas("infeed", id, num_replicas, error));
  trm_tf_infeed *feed = find_infeed(id);
  if (feed == NULL) {
    TRY(make_infeed(id, elements, num_elements, num_replicas, &feed, error));
  } else if (!same_elements(feed->elements, feed->num_elements, elements, num_elements)) {
    FAIL(ALREADY_EXISTS,
         "Infeed with id='%s' already exists but with a different tensor shape. Consider changing "
         "the `feed_name` in IPUInfeedQueue.",
         id);
  } else if (feed->num_replicas != 0 && feed->num_replicas != num_replicas) {
    FAIL(FAILED_PRECONDITION,
         "Iterator for feed %s has already been setup with a replication factor of %" PRIu32
         " when it should have %" PRIu32
         ". Programs of different numbers of replicas cannot share an infeed: give each an "
         "IPUInfeedQueue of its own.",
         id, feed->num_replicas, num_replicas);
  }
  feed->num_replicas = num_replicas;
  *out = feed;
  return TRM_OK;
}

static trm_status infeed_get(const char *id, const trm_tensor_info *elements, size_t num_elements,
                             uint32_t num_replicas, trm_tf_infeed **out, trm_error *error) {
  pthread_mutex_lock(&lock);
  const trm_status status =
      find_or_make_infeed(id, elements, num_elements, num_replicas, out, error);
  pthread_mutex_unlock(&lock);
  return status;
}

trm_tf_infeed *trm_tf_infeed_find(const char *id) {
  pthread_mutex_lock(&lock);
  trm_tf_infeed *feed = find_infeed(id);
  pthread_mutex_unlock(&lock);
  return feed;
}

void trm_tf_infeed_forget_replicas(trm_tf_infeed *feed) {
  pthread_mutex_lock(&lock);
  feed->num_replicas = 0;
  pthread_mutex_unlock(&lock);
}

/* ---- Outfeeds; with the lock held up to outfeed_get ------------------------------------------ */

static outfeed *find_outfeed(const char *id) {
  for (size_t i = 0; i < outfeeds.count; ++i) {
    if (strcmp(outfeeds.items[i]->id, id) == 0) return outfeeds.items[i];
  }
  return NULL;
}

static trm_status check_elements(const outfeed *feed, const trm_tensor_info *elements,
                                 size_t num_elements, trm_error *error) {
  if (same_elements(feed->elements, feed->num_elements, elements, num_elements)) return TRM_OK;
  FAIL(FAILED_PRECONDITION, OTHER_OUTFEED, feed->id);
}

static trm_status create_queue(outfeed *feed, bool keep_last, trm_error *error) {
  trm_tensor_info *stacked;
  TRY(copy_elements(feed->elements, feed->num_elements, &stacked, error));
  trm_status status = stack_elements(stacked, feed->num_elements, feed->num_replicas, error);
  if (status == TRM_OK) {
    status = trm_outfeed_create(stacked, feed->num_elements, keep_last, &feed->queue, error);
  }
  trm_free(stacked);
  return status;
}

/* An outfeed that nobody reads needs room for one element only. */
static bool keeps_last(const char *id) {
  const declaration *declared = find_declaration(id);
  return (declared && declared->keep_last) ||
         (trm_tf_settings_synthetic(NULL) & TRM_SYNTHETIC_OUTFEED);
}

static trm_status fill_outfeed(outfeed *feed, const char *id, const trm_tensor_info *elements,
                               size_t num_elements, uint32_t num_replicas, trm_error *error) {
  feed->id = trm_tf_copy_text(id);
  CHECK_MEMORY(feed->id, "an outfeed");
  feed->num_replicas = num_replicas;
  feed->num_elements = num_elements;
  TRY(copy_elements(elements, num_elements, &feed->elements, error));
  return create_queue(feed, keeps_last(id), error);
}

static trm_status make_outfeed(const char *id, const trm_tensor_info *elements, size_t num_elements,
                               uint32_t num_replicas, outfeed **out, trm_error *error) {
  if (!VECTOR_GROW(&outfeeds)) FAIL_NO_MEMORY("an outfeed");
  outfeed *feed = trm_allocate_zeroed(1, sizeof *feed);
  CHECK_MEMORY(feed, "an outfeed");
  const trm_status status = fill_outfeed(feed, id, elements, num_elements, num_replicas, error);
  if (status == TRM_OK) {
    *out = outfeeds.items[outfeeds.count++] = feed;
    return TRM_OK;
  }
  trm_free(feed->id);
  trm_free(feed->elements);
  trm_free(feed);
  return status;
}

static trm_status find_or_make_outfeed(const char *id, const trm_tensor_info *elements,
                                       size_t num_elements, uint32_t num_replicas, outfeed **out,
                                       trm_error *error) {
  TRY(check_replicas("outfeed", id, num_replicas, error));
  *out = find_outfeed(id);
  if (*out == NULL) return make_outfeed(id, elements, num_elements, num_replicas, out, error);
  TRY(check_elements(*out, elements, num_elements, error));
  if ((*out)->num_replicas != num_replicas) FAIL(FAILED_PRECONDITION, OTHER_OUTFEED, id);
  return TRM_OK;
}

static trm_status outfeed_get(const char *id, const trm_tensor_info *elements, size_t num_elements,
                              uint32_t num_replicas, trm_outfeed **out, trm_error *error) {
  outfeed *feed;
  pthread_mutex_lock(&lock);
  const trm_status status =
      find_or_make_outfeed(id, elements, num_elements, num_replicas, &feed, error);
  if (status == TRM_OK) *out = feed->queue;
  pthread_mutex_unlock(&lock);
  return status;
}

trm_status trm_tf_outfeed_find(const char *id, const trm_tensor_info *elements, size_t num_elements,
                               trm_outfeed **out, uint32_t *out_replicas, trm_error *error) {
  pthread_mutex_lock(&lock);
  const outfeed *feed = find_outfeed(id);
  const trm_status status = feed ? check_elements(feed, elements, num_elements, error) : TRM_OK;
  *out = feed ? feed->queue : NULL;
  *out_replicas = feed ? feed->num_replicas : 1;
  pthread_mutex_unlock(&lock);
  return status;
}

trm_status trm_tf_outfeed_delete(const char *id, trm_error *error) {
  pthread_mutex_lock(&lock);
  outfeed *feed = find_outfeed(id);
  if (feed) ++feed->deletions;
  pthread_mutex_unlock(&lock);
  if (feed == NULL) {
    FAIL(NOT_FOUND,
         "Outfeed with id='%s' has not been written to: run the program that enqueues to it before "
         "its `deleter`.",
         id);
  }
  size_t count = 0;
  void **blocks = NULL;
  TRY(trm_outfeed_take(feed->queue, &count, &blocks, error));
  for (size_t i = 0; blocks && i < feed->num_elements; ++i) trm_free(blocks[i]);
  trm_free(blocks);
  return TRM_OK;
}

uint64_t trm_tf_outfeed_deletions(const char *id) {
  pthread_mutex_lock(&lock);
  const outfeed *feed = find_outfeed(id);
  const uint64_t deletions = feed ? feed->deletions : 0;
  pthread_mutex_unlock(&lock);
  return deletions;
}

/* ---- Names ---------------------------------------------------------------------------------- */

const char *trm_tf_feed_id(const char *name, const char *names, char *room, size_t size) {
  char *end = NULL;
  unsigned long number = strtoul(name, &end, 10);
  if (*name < '0' || *name > '9' || *end) return name;
  const char *line = names;
  while (*line && number--) {
    const char *next = strchr(line, '\n');
    line = next ? next + 1 : "";
  }
  const size_t length = strcspn(line, "\n");
  if (!length || length >= size) return name;
  memcpy(room, line, length);
  room[length] = '\0';
  return room;
}

bool trm_tf_feed_is_named(const char *names, const char *id) {
  const size_t length = strlen(id);
  for (const char *line = names; *line;) {
    const size_t end = strcspn(line, "\n");
    if (end == length && memcmp(line, id, length) == 0) return true;
    line += end + (line[end] != '\0');
  }
  return false;
}

void trm_tf_feed_use_begin(trm_tf_feed_use *use, const char *names) {
  pthread_mutex_lock(&lock);
  *use = (trm_tf_feed_use){uses, names, true};
  uses = use;
  pthread_mutex_unlock(&lock);
}

void trm_tf_feed_use_end(trm_tf_feed_use *use) {
  pthread_mutex_lock(&lock);
  trm_tf_feed_use **link = &uses;
  while (*link && *link != use) link = &(*link)->next;
  if (use->is_on && *link) *link = use->next;
  use->is_on = false;
  pthread_cond_broadcast(&use_ended);
  pthread_mutex_unlock(&lock);
}

/* With the lock held. */
static bool is_used(const char *id) {
  for (const trm_tf_feed_use *use = uses; use; use = use->next) {
    if (trm_tf_feed_is_named(use->names, id)) return true;
  }
  return false;
}

bool trm_tf_feed_is_used(const char *id) {
  const double until = trm_now_ms() + LEAVING_MS;
  pthread_mutex_lock(&lock);
  while (is_used(id) && trm_now_ms() < until) {
    trm_cond_wait_briefly(&use_ended, &lock, 1 + (int)(until - trm_now_ms()));
  }
  const bool result = is_used(id);
  pthread_mutex_unlock(&lock);
  return result;
}

/* ---- The feeds of an executable -------------------------------------------------------------- */

typedef struct feed {
  const char *name; /* NULL: there is none */
  char kind;        /* 'i' or 'o' */
  const trm_tensor_info *elements;
  size_t num_elements;
} feed;

static feed feed_of(const trm_executable *executable, size_t i) {
  feed f = {0};
  f.name = trm_executable_feed(executable, i, &f.kind, &f.elements, &f.num_elements);
  return f;
}

bool trm_tf_feeds_has_infeed(const trm_executable *executable) {
  feed f;
  for (size_t i = 0; (f = feed_of(executable, i)).name != NULL; ++i) {
    if (f.kind == 'i') return true;
  }
  return false;
}

trm_status trm_tf_feeds_find_infeed(const trm_executable *executable, uint32_t num_replicas,
                                    const char *names, trm_tf_infeed **out_infeed,
                                    uint64_t *out_reads, trm_error *error) {
  char room[ID_SIZE];
  feed f;
  for (size_t i = 0; (f = feed_of(executable, i)).name != NULL; ++i) {
    if (f.kind != 'i') continue;
    if (__builtin_mul_overflow(trm_executable_feed_uses(executable, i), num_replicas, out_reads)) {
      *out_reads = UINT64_MAX;
    }
    return infeed_get(trm_tf_feed_id(f.name, names, room, sizeof room), f.elements, f.num_elements,
                      num_replicas, out_infeed, error);
  }
  FAIL(INTERNAL, "The program reads no infeed.");
}

trm_status trm_tf_feeds_bind(const trm_executable *executable, trm_engine *engine,
                             const char *names, trm_tf_infeed **out_infeed, trm_error *error) {
  *out_infeed = NULL;
  const uint32_t replicas = trm_engine_num_replicas(engine);
  char room[ID_SIZE];
  feed f;
  for (size_t i = 0; (f = feed_of(executable, i)).name != NULL; ++i) {
    const char *id = trm_tf_feed_id(f.name, names, room, sizeof room);
    if (f.kind == 'o') {
      trm_outfeed *queue = NULL;
      TRY(outfeed_get(id, f.elements, f.num_elements, replicas, &queue, error));
      TRY(trm_engine_bind_outfeed(engine, f.name, queue, error));
      continue;
    }
    if (*out_infeed != NULL) {
      FAIL(UNIMPLEMENTED,
           "Currently multiple IPUInfeedQueue in the same program are not supported.");
    }
    TRY(infeed_get(id, f.elements, f.num_elements, replicas, out_infeed, error));
    TRY(trm_engine_bind_infeed(engine, f.name, (*out_infeed)->queue, error));
  }
  return TRM_OK;
}
