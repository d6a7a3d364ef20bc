/* The queues of infeeds and outfeeds, by id. */
#define _POSIX_C_SOURCE 200809L
#include "feeds.h"

#include "settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OTHER_OUTFEED                                                                             \
  "Outfeed with id='%s' already exists but with a different tensor shape or replication factor. " \
  "Consider changing the `feed_name` in IPUOutfeedQueue."

enum { DEFAULT_DEPTH = 3, MAX_DEPTH = 255 };

typedef struct outfeed {
  struct outfeed *next;
  char *id;
  trm_outfeed *queue;
  uint32_t num_replicas;
  uint64_t deletions;
  size_t num_elements;
  trm_tensor_info *elements; /* of one replica */
} outfeed;

/* What Python has said of a feed before anybody used it. */
typedef struct declaration {
  struct declaration *next;
  char *id;
  size_t depth;
  uint32_t replicas; /* that it is made for; 0: as many as there are */
  bool keep_last;
  bool started; /* an infeed: since it was last deleted */
} declaration;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tf_infeed *infeeds;
static outfeed *outfeeds;
static declaration *declarations;
static feed_use *uses;

static declaration *find_declaration(const char *id) {
  for (declaration *d = declarations; d; d = d->next)
    if (strcmp(d->id, id) == 0) return d;
  return NULL;
}

/* What is said of an id last holds. */
static void declare(const char *id, size_t depth, bool keep_last, uint32_t replicas) {
  pthread_mutex_lock(&lock);
  declaration *d = find_declaration(id);
  if (!d && (d = calloc(1, sizeof *d))) {
    d->id = strdup(id);
    if (d->id) {
      d->next = declarations;
      declarations = d;
    } else { /* the defaults hold, then */
      free(d);
      d = NULL;
    }
  }
  if (d) *d = (declaration){d->next, d->id, depth, replicas, keep_last, false};
  pthread_mutex_unlock(&lock);
}

void trm_tf_declare_infeed(const char *id, uint64_t depth, uint32_t replicas) {
  declare(id, depth, false, replicas);
}
void trm_tf_declare_outfeed(const char *id, int32_t keep_last, uint32_t replicas) {
  declare(id, DEFAULT_DEPTH, keep_last != 0, replicas);
}

/* Call with the lock held. */
static bool fits_replicas(const char *kind, const char *id, uint32_t replicas, TF_Status *status) {
  const declaration *declared = find_declaration(id);
  if (!declared || declared->replicas == 0 || declared->replicas == replicas) return true;
  return fail(status, TF_FAILED_PRECONDITION,
              "Current program has been created with replication_factor %" PRIu32
              ", but its %s '%s' with replication_factor %" PRIu32 ".",
              replicas, kind, id, declared->replicas);
}

static bool same_elements(const trm_tensor_info *a, size_t num_a, const trm_tensor_info *b,
                          size_t num_b) {
  if (num_a != num_b) return false;
  for (size_t i = 0; i < num_a; ++i)
    if (a[i].dtype != b[i].dtype || a[i].rank != b[i].rank ||
        memcmp(a[i].dims, b[i].dims, (size_t)a[i].rank * sizeof *a[i].dims) != 0)
      return false;
  return true;
}

static trm_tensor_info *copy_elements(const trm_tensor_info *elements, size_t count) {
  trm_tensor_info *copy = calloc(count + 1, sizeof *copy);
  for (size_t i = 0; copy && i < count; ++i) {
    copy[i] = elements[i];
    copy[i].name = "";
  }
  return copy;
}

/* Call with the lock held. */
static tf_infeed *find_infeed(const char *id) {
  tf_infeed *feed = infeeds;
  while (feed && strcmp(feed->id, id) != 0) feed = feed->next;
  return feed;
}

static tf_infeed *make_infeed(const char *id, const trm_tensor_info *elements, size_t num_elements,
                              uint32_t num_replicas, TF_Status *status) {
  const declaration *declared = find_declaration(id);
  size_t depth = (declared ? declared->depth : DEFAULT_DEPTH) * num_replicas;
  trm_error error = {0};
  tf_infeed *feed = calloc(1, sizeof *feed);
  if (!feed || !(feed->id = strdup(id)) ||
      !(feed->elements = copy_elements(elements, num_elements))) {
    fail_memory(status);
  } else if (trm_infeed_create(feed->elements, num_elements, depth < MAX_DEPTH ? depth : MAX_DEPTH,
                               &feed->queue, &error) != TRM_OK) {
    fail_with(status, &error);
  }
  if (!is_ok(status)) {
    if (feed) {
      free(feed->id);
      free(feed->elements);
    }
    free(feed);
    return NULL;
  }
  pthread_mutex_init(&feed->lock, NULL);
  feed->num_elements = num_elements;
  feed->next = infeeds;
  return infeeds = feed;
}

bool infeed_get(const char *id, const trm_tensor_info *elements, size_t num_elements,
                uint32_t num_replicas, tf_infeed **out, TF_Status *status) {
  pthread_mutex_lock(&lock);
  tf_infeed *feed = find_infeed(id);
  if (!fits_replicas("infeed", id, num_replicas, status)) feed = NULL;
  else if (!feed) feed = make_infeed(id, elements, num_elements, num_replicas, status);
  else if (!same_elements(feed->elements, feed->num_elements, elements, num_elements))
    fail(status, TF_ALREADY_EXISTS,
         "Infeed with id='%s' already exists but with a different tensor shape. Consider changing "
         "the `feed_name` in IPUInfeedQueue.",
         id);
  else if (feed->num_replicas != 0 && feed->num_replicas != num_replicas)
    fail(status, TF_FAILED_PRECONDITION,
         "Iterator for feed %s has already been setup with a replication factor of %" PRIu32
         " when it should have %" PRIu32
         ". Programs of different numbers of replicas cannot share an infeed: give each an "
         "IPUInfeedQueue of its own.",
         id, feed->num_replicas, num_replicas);
  if (is_ok(status)) feed->num_replicas = num_replicas;
  pthread_mutex_unlock(&lock);
  if (is_ok(status)) *out = feed;
  return is_ok(status);
}

tf_infeed *infeed_find(const char *id) {
  pthread_mutex_lock(&lock);
  tf_infeed *feed = find_infeed(id);
  pthread_mutex_unlock(&lock);
  return feed;
}

void infeed_forget_replicas(tf_infeed *feed) {
  pthread_mutex_lock(&lock);
  feed->num_replicas = 0;
  pthread_mutex_unlock(&lock);
}

bool infeed_set_started(const char *id, bool started) {
  pthread_mutex_lock(&lock);
  declaration *declared = find_declaration(id);
  const bool before = declared != NULL && declared->started;
  if (declared != NULL) declared->started = started;
  pthread_mutex_unlock(&lock);
  return before;
}

/* The elements of all replicas together. */
static bool stack_elements(trm_tensor_info *elements, size_t count, uint32_t num_replicas,
                           TF_Status *status) {
  for (size_t i = 0; num_replicas > 1 && i < count; ++i) {
    trm_tensor_info *info = &elements[i];
    if (info->rank + 1 >= TRM_MAX_RANK || info->bytes > SIZE_MAX / num_replicas)
      return fail(status, TF_INVALID_ARGUMENT, "Element %zu of an outfeed is too large.", i);
    memmove(info->dims + 1, info->dims, (size_t)info->rank * sizeof *info->dims);
    info->dims[0] = num_replicas;
    ++info->rank;
    info->bytes *= num_replicas;
  }
  return true;
}

/* Call with the lock held. */
static outfeed *make_outfeed(const char *id, const trm_tensor_info *elements, size_t num_elements,
                             uint32_t num_replicas, bool keep_last, TF_Status *status) {
  trm_error error = {0};
  outfeed *feed = calloc(1, sizeof *feed);
  trm_tensor_info *stacked = copy_elements(elements, num_elements);
  bool ok = (feed && stacked && (feed->id = strdup(id)) &&
             (feed->elements = copy_elements(elements, num_elements))) ||
            fail_memory(status);
  ok = ok && stack_elements(stacked, num_elements, num_replicas, status);
  if (ok && trm_outfeed_create(stacked, num_elements, keep_last, &feed->queue, &error) != TRM_OK)
    ok = fail_with(status, &error);
  free(stacked);
  if (!ok) {
    if (feed) {
      free(feed->id);
      free(feed->elements);
    }
    free(feed);
    return NULL;
  }
  feed->num_replicas = num_replicas;
  feed->num_elements = num_elements;
  feed->next = outfeeds;
  return outfeeds = feed;
}

/* Call with the lock held. Fails where the elements are others. */
static outfeed *find_outfeed(const char *id, const trm_tensor_info *elements, size_t num_elements,
                             TF_Status *status) {
  outfeed *feed = outfeeds;
  while (feed && strcmp(feed->id, id) != 0) feed = feed->next;
  if (feed && !same_elements(feed->elements, feed->num_elements, elements, num_elements))
    fail(status, TF_FAILED_PRECONDITION, OTHER_OUTFEED, id);
  return feed;
}

bool outfeed_get(const char *id, const trm_tensor_info *elements, size_t num_elements,
                 uint32_t num_replicas, bool keep_last, trm_outfeed **out, TF_Status *status) {
  pthread_mutex_lock(&lock);
  outfeed *feed = NULL;
  if (fits_replicas("outfeed", id, num_replicas, status))
    feed = find_outfeed(id, elements, num_elements, status);
  if (!feed && is_ok(status))
    feed = make_outfeed(id, elements, num_elements, num_replicas, keep_last, status);
  else if (is_ok(status) && feed->num_replicas != num_replicas)
    fail(status, TF_FAILED_PRECONDITION, OTHER_OUTFEED, id);
  pthread_mutex_unlock(&lock);
  if (is_ok(status)) *out = feed->queue;
  return is_ok(status);
}

bool outfeed_find(const char *id, const trm_tensor_info *elements, size_t num_elements,
                  trm_outfeed **out, uint32_t *out_replicas, TF_Status *status) {
  pthread_mutex_lock(&lock);
  const outfeed *feed = find_outfeed(id, elements, num_elements, status);
  pthread_mutex_unlock(&lock);
  *out = feed ? feed->queue : NULL;
  *out_replicas = feed ? feed->num_replicas : 1;
  return is_ok(status);
}

/* Call with the lock held. */
static outfeed *outfeed_named(const char *id) {
  outfeed *feed = outfeeds;
  while (feed && strcmp(feed->id, id) != 0) feed = feed->next;
  return feed;
}

bool outfeed_delete(const char *id, TF_Status *status) {
  pthread_mutex_lock(&lock);
  outfeed *feed = outfeed_named(id);
  if (feed) ++feed->deletions;
  trm_outfeed *queue = feed ? feed->queue : NULL;
  const size_t num_elements = feed ? feed->num_elements : 0;
  pthread_mutex_unlock(&lock);
  if (!queue)
    return fail(status, TF_NOT_FOUND,
                "Outfeed with id='%s' has not been written to: run the program that enqueues to "
                "it before its `deleter`.",
                id);
  size_t count = 0;
  void **blocks = NULL;
  trm_error error = {0};
  if (trm_outfeed_take(queue, &count, &blocks, &error) != TRM_OK) return fail_with(status, &error);
  for (size_t i = 0; blocks && i < num_elements; ++i) trm_free(blocks[i]);
  trm_free(blocks);
  return true;
}

uint64_t outfeed_deletions(const char *id) {
  pthread_mutex_lock(&lock);
  const outfeed *feed = outfeed_named(id);
  const uint64_t deletions = feed ? feed->deletions : 0;
  pthread_mutex_unlock(&lock);
  return deletions;
}

bool outfeed_keeps_last(const char *id) {
  pthread_mutex_lock(&lock);
  const declaration *declared = find_declaration(id);
  bool keeps = declared && declared->keep_last;
  pthread_mutex_unlock(&lock);
  return keeps;
}

/* What nobody is to get needs no room for more than one element. */
static bool keeps_last(const char *id) {
  return outfeed_keeps_last(id) || settings_synthetic(NULL) & TF_SYNTHETIC_OUTFEED;
}

const char *feed_id(const char *name, const char *names, char *room, size_t size) {
  char *end = NULL;
  unsigned long number = strtoul(name, &end, 10);
  if (*name < '0' || *name > '9' || *end) return name;
  const char *line = names;
  while (*line && number--) {
    const char *next = strchr(line, '\n');
    line = next ? next + 1 : "";
  }
  size_t length = strcspn(line, "\n");
  if (!length || length >= size) return name;
  memcpy(room, line, length);
  room[length] = '\0';
  return room;
}

enum { ID_SIZE = 1024 };

void feed_use_begin(feed_use *use, const char *names) {
  pthread_mutex_lock(&lock);
  *use = (feed_use){uses, names, true};
  uses = use;
  pthread_mutex_unlock(&lock);
}

void feed_use_end(feed_use *use) {
  pthread_mutex_lock(&lock);
  feed_use **link = &uses;
  while (*link && *link != use) link = &(*link)->next;
  if (use->is_on && *link) *link = use->next;
  use->is_on = false;
  pthread_mutex_unlock(&lock);
}

/* Whether one of the lines of `names` is `id`. */
static bool has_line(const char *names, const char *id) {
  const size_t length = strlen(id);
  for (const char *line = names; *line;) {
    const size_t end = strcspn(line, "\n");
    if (end == length && memcmp(line, id, length) == 0) return true;
    line += end + (line[end] != '\0');
  }
  return false;
}

bool feed_is_used(const char *id) {
  pthread_mutex_lock(&lock);
  bool is_used = false;
  for (const feed_use *use = uses; use && !is_used; use = use->next)
    is_used = has_line(use->names, id);
  pthread_mutex_unlock(&lock);
  return is_used;
}

bool feeds_has_infeed(const trm_executable *executable) {
  char kind = 0;
  const trm_tensor_info *elements = NULL;
  size_t num_elements = 0;
  for (size_t i = 0; trm_executable_feed(executable, i, &kind, &elements, &num_elements); ++i)
    if (kind == 'i') return true;
  return false;
}

bool feeds_find_infeed(const trm_executable *executable, uint32_t num_replicas, const char *names,
                       tf_infeed **out_infeed, uint64_t *out_reads, TF_Status *status) {
  char kind = 0;
  const trm_tensor_info *elements = NULL;
  size_t num_elements = 0;
  const char *name = NULL;
  char room[ID_SIZE];
  for (size_t i = 0; (name = trm_executable_feed(executable, i, &kind, &elements, &num_elements));
       i++)
    if (kind == 'i') {
      if (__builtin_mul_overflow(trm_executable_feed_uses(executable, i), num_replicas, out_reads))
        *out_reads = UINT64_MAX;
      return infeed_get(feed_id(name, names, room, sizeof room), elements, num_elements,
                        num_replicas, out_infeed, status);
    }
  return fail(status, TF_INTERNAL, "The program reads no infeed.");
}

bool feeds_bind(const trm_executable *executable, trm_engine *engine, const char *names,
                tf_infeed **out_infeed, TF_Status *status) {
  *out_infeed = NULL;
  const uint32_t replicas = trm_engine_num_replicas(engine);
  char kind = 0;
  const trm_tensor_info *elements = NULL;
  size_t num_elements = 0;
  const char *name = NULL;
  char room[ID_SIZE];
  for (size_t i = 0; is_ok(status) &&
                     (name = trm_executable_feed(executable, i, &kind, &elements, &num_elements));
       i++) {
    const char *id = feed_id(name, names, room, sizeof room);
    trm_error error = {0};
    trm_outfeed *queue = NULL;
    if (kind == 'o') {
      if (outfeed_get(id, elements, num_elements, replicas, keeps_last(id), &queue, status) &&
          trm_engine_bind_outfeed(engine, name, queue, &error) != TRM_OK)
        fail_with(status, &error);
    } else if (*out_infeed) {
      fail(status, TF_UNIMPLEMENTED,
           "Currently multiple IPUInfeedQueue in the same program are not supported.");
    } else if (infeed_get(id, elements, num_elements, replicas, out_infeed, status) &&
               trm_engine_bind_infeed(engine, name, (*out_infeed)->queue, &error) != TRM_OK) {
      fail_with(status, &error);
    }
  }
  return is_ok(status);
}
