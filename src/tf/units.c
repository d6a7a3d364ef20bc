/* Owns: units (modules compiled for a TF device), their lives, and their runs. */
#define _GNU_SOURCE
#include "units.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "interrupt.h"
#include "observe.h"
#include "pool.h"
#include "synthetic.h"
#include "tremula/inspect.h"
#include "unit_build.h"

/* Units without a node are kept, in case the same graph is built again: at most this many, with
 * this many bytes together. The newest ones are kept whatever their size. */
enum { MOST_IDLE = 32, SURE_IDLE = 4, NUM_BUCKETS = 1024 };
static const size_t MOST_IDLE_BYTES = (size_t)1 << 30;

struct trm_tf_unit {
  XXH128_hash_t key;
  int ordinal;
  uint64_t number;          /* unique */
  pthread_mutex_t building; /* held while compiling */
  pthread_mutex_t running; /* held by a run. Finding the unit does not take it: a run that waits for
                              data would block the run that is to cancel it */
  /* The registry's lock guards the fields below. */
  unsigned holders, users;
  bool is_known;              /* it is in its bucket, so requests for an equal unit find it */
  trm_tf_unit *next;          /* the next unit in its bucket */
  trm_tf_unit *newer, *older; /* in the list of idle units, which have no holder and no user */
  /* NULL: not built yet, or freed. A user of the unit reads it without the lock. */
  trm_tf_runnable *runnable;
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static trm_tf_unit *buckets[NUM_BUCKETS];
static trm_tf_unit *newest_idle, *oldest_idle;
static size_t num_idle, idle_bytes;
static uint64_t last_number;
static atomic_uint_fast64_t num_built, num_kept;

uint64_t trm_tf_units_built(void) { return atomic_load(&num_built); }
uint64_t trm_tf_units_kept(void) { return atomic_load(&num_kept); }

/* The key of a unit: the program of the module, the configuration with Poplar's options for
 * profiles, and the ordinal, because each device has units of its own. */
static XXH128_hash_t key_of(const void *module, size_t size, int ordinal,
                            const trm_tf_snapshot *settings) {
  XXH3_state_t *state = XXH3_createState();
  if (!state) return (XXH128_hash_t){0, 0};
  XXH3_128bits_reset(state);
  uint64_t program[2];
  trm_inspect_hash(module, size, program);
  XXH3_128bits_update(state, program, sizeof program);
  XXH3_128bits_update(state, &ordinal, sizeof ordinal);
  XXH3_128bits_update(state, &settings->epoch, sizeof settings->epoch);
  XXH3_128bits_update(state, settings->options, strlen(settings->options));
  XXH3_128bits_update(state, &settings->distribution, sizeof settings->distribution);
  const char *engine_options = getenv("POPLAR_ENGINE_OPTIONS");
  if (engine_options) XXH3_128bits_update(state, engine_options, strlen(engine_options));
  XXH128_hash_t key = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return key;
}

/* ---- How long they live; with the registry's lock held ---- */

static trm_tf_unit **bucket_of(XXH128_hash_t key) { return &buckets[key.low64 % NUM_BUCKETS]; }

static size_t bytes_of(const trm_tf_unit *p) { return p->runnable ? p->runnable->bytes : 0; }

static bool is_idle(const trm_tf_unit *p) {
  return p->is_known && p->holders == 0 && p->users == 0;
}

static void enter_idle(trm_tf_unit *p) {
  p->newer = NULL;
  p->older = newest_idle;
  *(newest_idle ? &newest_idle->newer : &oldest_idle) = p;
  newest_idle = p;
  ++num_idle;
  idle_bytes += bytes_of(p);
}

static void leave_idle(trm_tf_unit *p) {
  *(p->newer ? &p->newer->older : &newest_idle) = p->older;
  *(p->older ? &p->older->newer : &oldest_idle) = p->newer;
  p->newer = p->older = NULL;
  --num_idle;
  idle_bytes -= bytes_of(p);
}

/* Removes a unit from its bucket. Not for idle units. */
static void forget(trm_tf_unit *p) {
  trm_tf_unit **link = bucket_of(p->key);
  while (*link != p) link = &(*link)->next;
  *link = p->next;
  p->is_known = false;
}

/* Releases a unit that is in no bucket, as far as it has no holder and no user: moves its runnable
 * to the list *gone, for trm_tf_runnable_free without the lock, and frees the unit itself. */
static void let_go(trm_tf_unit *p, trm_tf_runnable **gone) {
  if (p->users > 0) return;
  if (p->runnable) {
    p->runnable->next = *gone;
    *gone = p->runnable;
    p->runnable = NULL;
  }
  if (p->holders > 0) return;
  pthread_mutex_destroy(&p->building);
  pthread_mutex_destroy(&p->running);
  trm_free(p);
}

/* Updates a unit after a holder or a user has left. */
static void settle(trm_tf_unit *p, trm_tf_runnable **gone) {
  if (p->is_known && p->users == 0 && !p->runnable) forget(p); /* building it has failed */
  if (!p->is_known) {
    let_go(p, gone);
    return;
  }
  if (is_idle(p)) enter_idle(p);
  while (num_idle > MOST_IDLE || (num_idle > SURE_IDLE && idle_bytes > MOST_IDLE_BYTES)) {
    trm_tf_unit *oldest = oldest_idle;
    leave_idle(oldest);
    forget(oldest);
    let_go(oldest, gone);
  }
}

/* Call without the lock, because freeing engines waits for threads. */
static void free_all(trm_tf_runnable *gone) {
  while (gone) {
    trm_tf_runnable *next = gone->next;
    trm_tf_runnable_free(gone);
    atomic_fetch_sub(&num_kept, 1);
    gone = next;
  }
}

/* ---- For those who hold and use them ---- */

static trm_tf_unit *find(XXH128_hash_t key, int ordinal) {
  trm_tf_unit **bucket = bucket_of(key), *p = *bucket;
  while (p && !XXH128_isEqual(p->key, key)) p = p->next;
  if (p) {
    if (is_idle(p)) leave_idle(p);
  } else if ((p = trm_allocate_zeroed(1, sizeof *p))) {
    p->key = key;
    p->ordinal = ordinal;
    p->number = ++last_number;
    pthread_mutex_init(&p->building, NULL);
    pthread_mutex_init(&p->running, NULL);
    p->is_known = true;
    p->next = *bucket;
    *bucket = p;
  }
  if (p) p->holders++, p->users++;
  return p;
}

static trm_status build_once(trm_tf_unit *p, const trm_tf_code *code,
                             const trm_tf_snapshot *settings, trm_error *error) {
  trm_status status = TRM_OK;
  pthread_mutex_lock(&p->building);
  if (!p->runnable) {
    trm_tf_runnable *runnable = NULL;
    status = trm_tf_runnable_build(code, p->ordinal, settings, &runnable, error);
    if (status == TRM_OK) {
      atomic_fetch_add(&num_built, 1);
      atomic_fetch_add(&num_kept, 1);
    }
    pthread_mutex_lock(&registry_lock);
    p->runnable = runnable;
    pthread_mutex_unlock(&registry_lock);
  }
  pthread_mutex_unlock(&p->building);
  return status;
}

trm_status trm_tf_unit_get(const trm_tf_code *code, int ordinal, trm_tf_unit **out,
                           trm_error *error) {
  trm_tf_snapshot settings;
  *out = NULL;
  TRY(trm_tf_settings_snapshot(ordinal, &settings, error));
  const XXH128_hash_t key = key_of(code->module, code->size, ordinal, &settings);
  pthread_mutex_lock(&registry_lock);
  trm_tf_unit *p = find(key, ordinal);
  pthread_mutex_unlock(&registry_lock);
  trm_status status = p == NULL ? trm_fail(error, TRM_RESOURCE_EXHAUSTED,
                                           "out of memory while allocating a program")
                                : build_once(p, code, &settings, error);
  trm_tf_snapshot_free(&settings);
  if (status == TRM_OK) {
    *out = p;
  } else if (p != NULL) {
    trm_tf_unit_done(p);
    trm_tf_unit_drop(p);
  }
  return status;
}

bool trm_tf_unit_use(trm_tf_unit *p) {
  pthread_mutex_lock(&registry_lock);
  const bool is_known = p->is_known;
  if (is_known) ++p->users;
  pthread_mutex_unlock(&registry_lock);
  return is_known;
}

void trm_tf_unit_done(trm_tf_unit *p) {
  trm_tf_runnable *gone = NULL;
  pthread_mutex_lock(&registry_lock);
  --p->users;
  settle(p, &gone);
  pthread_mutex_unlock(&registry_lock);
  free_all(gone);
}

void trm_tf_unit_drop(trm_tf_unit *p) {
  if (!p) return;
  trm_tf_runnable *gone = NULL;
  pthread_mutex_lock(&registry_lock);
  --p->holders;
  settle(p, &gone);
  pthread_mutex_unlock(&registry_lock);
  free_all(gone);
}

void trm_tf_forget_units(void) {
  trm_tf_runnable *gone = NULL;
  trm_tf_settings_begin_epoch(); /* first, so that units built from now on stay */
  pthread_mutex_lock(&registry_lock);
  for (size_t i = 0; i < NUM_BUCKETS; ++i) {
    while (buckets[i]) {
      trm_tf_unit *p = buckets[i];
      if (is_idle(p)) leave_idle(p);
      forget(p);
      let_go(p, &gone);
    }
  }
  pthread_mutex_unlock(&registry_lock);
  free_all(gone);
}

/* ---- What they take and give ---- */

size_t trm_tf_unit_num_outputs(const trm_tf_unit *p) {
  return trm_executable_num_outputs(p->runnable->executable);
}

const trm_tensor_info *trm_tf_unit_output(const trm_tf_unit *p, size_t i) {
  return trm_executable_output(p->runnable->executable, i);
}

bool trm_tf_unit_is_fed(const trm_tf_unit *p) {
  return trm_tf_feeds_has_infeed(p->runnable->executable);
}

trm_status trm_tf_unit_find_infeed(const trm_tf_unit *p, const trm_tf_call *call,
                                   trm_tf_infeed **out_infeed, uint64_t *out_reads,
                                   trm_error *error) {
  return trm_tf_feeds_find_infeed(p->runnable->executable,
                                  trm_engine_num_replicas(p->runnable->engine), call->feeds,
                                  out_infeed, out_reads, error);
}

trm_status trm_tf_unit_check(const trm_tf_unit *p, TF_Tensor *const *tensors, size_t count,
                             trm_error *error) {
  const size_t num_inputs = trm_executable_num_inputs(p->runnable->executable);
  if (count != num_inputs) {
    FAIL(INVALID_ARGUMENT, "The program takes %zu inputs and was given %zu.", num_inputs, count);
  }
  for (size_t i = 0; i < count; ++i) {
    const trm_tensor_info *info = trm_executable_input(p->runnable->executable, i);
    const trm_dtype dtype = trm_tf_dtype(TF_TensorType(tensors[i]));
    bool same = dtype == info->dtype && TF_NumDims(tensors[i]) == info->rank;
    for (int d = 0; same && d < info->rank; ++d) same = TF_Dim(tensors[i], d) == info->dims[d];
    if (!same) {
      FAIL(
          INVALID_ARGUMENT,
          "Input %zu of the program has another shape or type than the one it was compiled for: it "
          "takes %zu bytes of %s and was given %zu bytes of %s. An IPU program is static.",
          i, info->bytes, trm_dtype_name(info->dtype), TF_TensorByteSize(tensors[i]),
          trm_dtype_name(dtype));
    }
  }
  return TRM_OK;
}

/* ---- Running ---- */

void trm_tf_unit_lock(trm_tf_unit *p) { pthread_mutex_lock(&p->running); }
void trm_tf_unit_unlock(trm_tf_unit *p) { pthread_mutex_unlock(&p->running); }
void trm_tf_unit_cancel(trm_tf_unit *p) { trm_engine_cancel(p->runnable->engine); }
void trm_tf_unit_forget_cancel(trm_tf_unit *p) { trm_engine_forget_cancel(p->runnable->engine); }

/* Replaces all inputs by made-up values, so that nothing moves to the device. */
static trm_status make_up_inputs(trm_tf_runnable *runnable, const char *initializer,
                                 trm_error *error) {
  const size_t count = trm_executable_num_inputs(runnable->executable);
  const uint64_t generation = trm_tf_settings_generation();
  if (runnable->made_up_generation != generation) {
    const trm_tensor_info **infos = trm_allocate_zeroed(count, sizeof *infos);
    CHECK_MEMORY(infos, "made-up inputs");
    for (size_t i = 0; i < count; ++i) infos[i] = trm_executable_input(runnable->executable, i);
    void *block = NULL;
    void **arrays = trm_tf_synthetic_create(infos, count, initializer, &block);
    trm_free(infos);
    CHECK_MEMORY(arrays, "made-up inputs");
    trm_free(runnable->made_up_block);
    trm_free(runnable->made_up);
    runnable->made_up = arrays;
    runnable->made_up_block = block;
    runnable->made_up_generation = generation;
  }
  for (size_t i = 0; i < count; ++i) {
    runnable->inputs[i] = runnable->made_up[i];
    runnable->versions[i] = UINT64_MAX - generation; /* differs from all numbers of the pool */
  }
  return TRM_OK;
}

/* Connects the engine with the call's feeds, unless it is connected. */
static trm_status connect(trm_tf_runnable *runnable, const trm_tf_call *call, trm_error *error) {
  if (runnable->feeds && strcmp(runnable->feeds, call->feeds) == 0) return TRM_OK;
  trm_free(runnable->feeds);
  runnable->feeds = NULL;
  TRY(trm_tf_feeds_bind(runnable->executable, runnable->engine, call->feeds, &runnable->infeed,
                        error));
  runnable->feeds = trm_tf_copy_text(call->feeds);
  CHECK_MEMORY(runnable->feeds, "the names of feeds");
  return TRM_OK;
}

/* Seeds the engine: each device draws other numbers. The highest bit is a mark for the engine. */
static void seed(trm_tf_runnable *runnable, int ordinal) {
  uint64_t generation;
  const uint64_t value = trm_tf_settings_seed(&generation);
  if (generation == runnable->seed_generation) return;
  trm_engine_set_seed(runnable->engine,
                      value ^ ((uint64_t)ordinal * UINT64_C(0x9e3779b97f4a7c15) >> 1));
  runnable->seed_generation = generation;
}

/* Sets the arguments of a run and the generations of their contents. The generation of an output
 * identifies it when it returns as a variable, if nothing has written to it since. Results of a
 * program have none: they are in the host's memory, which TensorFlow reads without asking for what
 * an accelerator has left there. Those of a single operation are in the device's. */
static trm_status set_arguments(trm_tf_runnable *runnable, const trm_tf_call *call,
                                TF_Tensor *const *tensors, void *const *outputs,
                                const char *made_up, trm_error *error) {
  const size_t count = trm_executable_num_inputs(runnable->executable);
  for (size_t i = 0; i < count; ++i) {
    runnable->inputs[i] = TF_TensorData(tensors[i]);
    runnable->versions[i] = trm_tf_pool_generation(runnable->inputs[i]);
  }
  if (made_up != NULL) TRY(make_up_inputs(runnable, made_up, error));
  for (size_t i = 0; i < trm_executable_num_outputs(runnable->executable); ++i) {
    const bool is_result = trm_executable_output_alias(runnable->executable, i) < 0;
    runnable->output_versions[i] =
        is_result && !call->is_one_op ? 0 : trm_tf_pool_generation(outputs[i]);
  }
  return TRM_OK;
}

trm_status trm_tf_unit_run(trm_tf_unit *p, const trm_tf_call *call, TF_Tensor *const *tensors,
                           void *const *outputs, trm_error *error) {
  trm_tf_runnable *runnable = p->runnable;
  bool runs;
  TRY(trm_tf_settings_before_run(p->ordinal, &runs, error));
  TRY(connect(runnable, call, error));
  if (!runs) {
    for (size_t i = 0; i < trm_tf_unit_num_outputs(p); ++i) {
      memset(outputs[i], 0, trm_tf_unit_output(p, i)->bytes);
    }
    return TRM_OK;
  }
  trm_tf_host_calls_name(runnable->host_calls, call->feeds);
  char initializer[TRM_TF_INITIALIZER_SIZE];
  const uint32_t synthetic = trm_tf_settings_synthetic(initializer);
  const bool moves = (synthetic & TRM_SYNTHETIC_PARAMETERS) == 0;
  if (runnable->infeed) TRY(trm_tf_synthetic_feed(runnable->infeed, error));
  if (!(synthetic & TRM_SYNTHETIC_SEED)) seed(runnable, p->ordinal);
  TRY(set_arguments(runnable, call, tensors, outputs, moves ? NULL : initializer, error));
  trm_tf_observation observation = {.runnable = runnable,
                                    .ordinal = p->ordinal,
                                    .unit = p->number,
                                    .node = call->name,
                                    .outputs = outputs,
                                    .num_variables = call->variables,
                                    .moves_inputs = moves};
  trm_tf_observe_begin(&observation);
  const unsigned interrupts = trm_tf_interrupt_count();
  TRY(trm_tf_interrupt_watch_run(runnable->engine, call->session, call->is_one_op, error));
  const trm_status status =
      trm_engine_run_replicated(runnable->engine, runnable->inputs, runnable->versions, outputs,
                                runnable->output_versions, error);
  trm_tf_interrupt_unwatch_run(runnable->engine);
  /* The cancellation was for this run. */
  if (trm_tf_interrupt_count() != interrupts) trm_engine_forget_cancel(runnable->engine);
  trm_tf_observe_end(&observation, status);
  return status;
}
