/* Transfers of variables, as an IPU would make them. */
#define _GNU_SOURCE
#include "transfers.h"

#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "events.h"
#include "pool.h"

enum { MAX_DEVICES = 64, NONE = -1 };

/* A variable on a device. `output` is NONE as long as no program has given it a new value. */
typedef struct resident {
  const void *block;
  uint64_t generation; /* of its contents: another one is something else */
  size_t bytes;
  int64_t input, output; /* numbers of the program's */
} resident;

typedef struct device {
  uint64_t program; /* what it has loaded; 0: nothing */
  void *residents;  /* a tree of them, by block */
  size_t count;
} device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static device devices[MAX_DEVICES];

/* ---- Documents ---- */

/* {"tensors": [{"name": ..., "size": ...}, ...], "total_size": ...} */
typedef struct document {
  char *text;
  size_t length;
  FILE *file;
  size_t count, total;
} document;

static bool document_open(document *d) {
  *d = (document){0};
  d->file = open_memstream(&d->text, &d->length);
  if (d->file) fputs("{\"tensors\":[", d->file);
  return d->file != NULL;
}

/* A tensor is known by its number among the program's inputs or outputs, and a leaf's: 0. */
static void document_add(document *d, const char *prefix, int64_t number, size_t bytes) {
  fprintf(d->file, "%s{\"name\":\"%s%lld.0\",\"size\":%zu}", d->count++ ? "," : "", prefix,
          (long long)number, bytes);
  d->total += bytes;
}

/* Records the event, if it is about anything. */
static void document_close(document *d, int ordinal, bool to_device) {
  fprintf(d->file, "],\"total_size\":%zu}", d->total);
  if (fclose(d->file) == 0 && d->text && d->count) events_transfer(ordinal, to_device, d->text);
  free(d->text);
}

/* ---- Residents ---- */

static int by_block(const void *a, const void *b) {
  const uintptr_t l = (uintptr_t)((const resident *)a)->block;
  const uintptr_t r = (uintptr_t)((const resident *)b)->block;
  return (l > r) - (l < r);
}

/* NULL if the block holds no variable, or not any more what it held. */
static resident *find(const device *dev, const void *block) {
  const resident wanted = {.block = block};
  resident *const *found = tfind(&wanted, &dev->residents, by_block);
  return found && (*found)->generation == pool_generation(block) ? *found : NULL;
}

/* A resident for the block, new or another one's. NULL when memory has run out. */
static resident *enter(device *dev, const void *block, size_t bytes) {
  const resident wanted = {.block = block,
                           .generation = pool_generation(block),
                           .bytes = bytes,
                           .input = NONE,
                           .output = NONE};
  resident *const *found = tfind(&wanted, &dev->residents, by_block);
  resident *r = found ? *found : malloc(sizeof *r);
  if (!r) return NULL;
  *r = wanted;
  if (found) return r;
  if (tsearch(r, &dev->residents, by_block)) {
    ++dev->count;
    return r;
  }
  free(r);
  return NULL;
}

static void forget(device *dev, const void *block) {
  const resident wanted = {.block = block};
  resident *const *found = tfind(&wanted, &dev->residents, by_block);
  if (!found) return;
  resident *r = *found;
  tdelete(&wanted, &dev->residents, by_block);
  free(r);
  --dev->count;
}

typedef struct collection {
  resident **items;
  size_t count;
} collection;

static void collect(const void *node, VISIT visit, void *argument) {
  collection *c = argument;
  if (visit == postorder || visit == leaf) c->items[c->count++] = *(resident *const *)node;
}

static int by_output(const void *a, const void *b) {
  const int64_t l = (*(resident *const *)a)->output, r = (*(resident *const *)b)->output;
  return (l > r) - (l < r);
}

/* Everything that programs have changed goes to the host, and nothing stays. */
static void bring_back(device *dev, int ordinal) {
  collection c = {calloc(dev->count + 1, sizeof *c.items), 0};
  document d;
  if (!c.items) return;
  twalk_r(dev->residents, collect, &c);
  qsort(c.items, c.count, sizeof *c.items, by_output);
  if (document_open(&d)) {
    for (size_t i = 0; i < c.count; ++i)
      if (c.items[i]->output != NONE)
        document_add(&d, "out_", c.items[i]->output, c.items[i]->bytes);
    document_close(&d, ordinal, false);
  }
  for (size_t i = 0; i < c.count; ++i) forget(dev, c.items[i]->block);
  free(c.items);
}

/* ---- Runs ---- */

/* Whether a variable is not on the device, or not where this program has it. */
static bool wants_sending(const device *dev, const transfer_run *run, size_t count) {
  for (size_t i = run->first_variable; i < count; ++i) {
    const resident *r = find(dev, run->inputs[i]);
    if (!r || r->input != (int64_t)i) return true;
  }
  return false;
}

static void send(device *dev, const transfer_run *run, size_t count) {
  document d;
  if (!document_open(&d)) return;
  for (size_t i = run->first_variable; i < count; ++i) {
    const size_t bytes = trm_executable_input(run->executable, i)->bytes;
    resident *r = enter(dev, run->inputs[i], bytes);
    if (!r) break;
    r->input = (int64_t)i;
    document_add(&d, "", r->input, bytes);
  }
  document_close(&d, run->ordinal, true);
}

static device *device_of(const transfer_run *run) {
  return run->ordinal >= 0 && run->ordinal < MAX_DEVICES ? &devices[run->ordinal] : NULL;
}

void transfers_before_run(const transfer_run *run) {
  if (!events_want(TF_EVENTS_TRANSFERS)) return;
  device *dev = device_of(run);
  if (!dev) return;
  const size_t count = trm_executable_num_inputs(run->executable);
  pthread_mutex_lock(&lock);
  if (dev->program != run->program) {
    bring_back(dev, run->ordinal);
    dev->program = run->program;
    events_load_engine(run->ordinal, run->name);
  }
  if (wants_sending(dev, run, count)) send(dev, run, count);
  pthread_mutex_unlock(&lock);
}

void transfers_after_run(const transfer_run *run) {
  if (!events_want(TF_EVENTS_TRANSFERS)) return;
  device *dev = device_of(run);
  if (!dev) return;
  const size_t count = trm_executable_num_outputs(run->executable);
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count; ++i) {
    const int64_t input = trm_executable_output_alias(run->executable, i);
    if (input < 0 || (size_t)input < run->first_variable) continue;
    forget(dev, run->inputs[input]); /* the old value is no variable's any more */
    resident *r = enter(dev, run->outputs[i], trm_executable_output(run->executable, i)->bytes);
    if (!r) break;
    r->input = input;
    r->output = (int64_t)i;
  }
  pthread_mutex_unlock(&lock);
}

void transfers_note_read(const void *block) {
  if (!events_want(TF_EVENTS_TRANSFERS)) return;
  pthread_mutex_lock(&lock);
  for (int ordinal = 0; ordinal < MAX_DEVICES; ++ordinal) {
    const resident *r = find(&devices[ordinal], block);
    if (r && r->output != NONE) bring_back(&devices[ordinal], ordinal);
  }
  pthread_mutex_unlock(&lock);
}
