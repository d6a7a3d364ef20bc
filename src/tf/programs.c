/* Programs: modules that have been compiled for a TF device. */
#define _GNU_SOURCE
#include "programs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "build.h"
#include "clock.h"
#include "cycles.h"
#include "interrupt.h"
#include "log.h"
#include "pool.h"
#include "switches.h"
#include "synthetic.h"
#include "transfers.h"

/* Of programs that no node has any more, in case that the same graph is built again: so many at
 * most, and of this many bytes together, but the newest ones whatever their size. */
enum { MOST_IDLE = 32, SURE_IDLE = 4, NUM_BUCKETS = 1024 };
static const size_t MOST_IDLE_BYTES = (size_t)1 << 30;

struct tf_program {
  XXH128_hash_t key;
  int ordinal;
  uint64_t number;          /* no other program's */
  pthread_mutex_t building; /* held while compiling */
  pthread_mutex_t running;  /* held by a run; not asked for to find the program, or a run that
                               waits for data would block the one that is to cancel it */
  /* The rest under the registry's lock. */
  unsigned holders, users;
  bool is_known;             /* it is in its bucket: who wants such a program gets this one */
  tf_program *next;          /* in its bucket */
  tf_program *newer, *older; /* among the idle ones, which have no holder and no user */
  /* NULL: not built yet, or gone. Who uses the program reads it without the lock. */
  tf_parts *parts;
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static tf_program *buckets[NUM_BUCKETS];
static tf_program *newest_idle, *oldest_idle;
static size_t num_idle, idle_bytes;
static uint64_t last_number;
static atomic_uint_fast64_t num_built, num_kept;

uint64_t trm_tf_programs_built(void) { return atomic_load(&num_built); }
uint64_t trm_tf_programs_kept(void) { return atomic_load(&num_kept); }

/* Module and configuration, to which Poplar's options for profiles belong; the ordinal too, because
 * a device runs a program of its own. */
static XXH128_hash_t key_of(const void *module, size_t size, int ordinal,
                            const tf_snapshot *settings) {
  XXH3_state_t *state = XXH3_createState();
  if (!state) return (XXH128_hash_t){0, 0};
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, module, size);
  XXH3_128bits_update(state, &ordinal, sizeof ordinal);
  XXH3_128bits_update(state, &settings->epoch, sizeof settings->epoch);
  XXH3_128bits_update(state, settings->options, strlen(settings->options));
  const char *engine_options = getenv("POPLAR_ENGINE_OPTIONS");
  if (engine_options) XXH3_128bits_update(state, engine_options, strlen(engine_options));
  XXH128_hash_t key = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return key;
}

/* ---- How long they live; with the registry's lock held ---- */

static tf_program **bucket_of(XXH128_hash_t key) { return &buckets[key.low64 % NUM_BUCKETS]; }

static size_t bytes_of(const tf_program *p) { return p->parts ? p->parts->bytes : 0; }

static bool is_idle(const tf_program *p) { return p->is_known && p->holders == 0 && p->users == 0; }

static void enter_idle(tf_program *p) {
  p->newer = NULL;
  p->older = newest_idle;
  *(newest_idle ? &newest_idle->newer : &oldest_idle) = p;
  newest_idle = p;
  ++num_idle;
  idle_bytes += bytes_of(p);
}

static void leave_idle(tf_program *p) {
  *(p->newer ? &p->newer->older : &newest_idle) = p->older;
  *(p->older ? &p->older->newer : &oldest_idle) = p->newer;
  p->newer = p->older = NULL;
  --num_idle;
  idle_bytes -= bytes_of(p);
}

/* Nobody finds it any more. Not for idle ones. */
static void forget(tf_program *p) {
  tf_program **link = bucket_of(p->key);
  while (*link != p) link = &(*link)->next;
  *link = p->next;
  p->is_known = false;
}

/* Lets go of what nobody needs of a program that is not known: its parts onto the list *gone, for
 * parts_free once the lock is free, and the program itself. */
static void let_go(tf_program *p, tf_parts **gone) {
  if (p->users > 0) return;
  if (p->parts) {
    p->parts->next = *gone;
    *gone = p->parts;
    p->parts = NULL;
  }
  if (p->holders > 0) return;
  pthread_mutex_destroy(&p->building);
  pthread_mutex_destroy(&p->running);
  free(p);
}

/* After a holder or a user has left. */
static void settle(tf_program *p, tf_parts **gone) {
  if (p->is_known && p->users == 0 && !p->parts) forget(p); /* it could not be built */
  if (!p->is_known) {
    let_go(p, gone);
    return;
  }
  if (is_idle(p)) enter_idle(p);
  while (num_idle > MOST_IDLE || (num_idle > SURE_IDLE && idle_bytes > MOST_IDLE_BYTES)) {
    tf_program *oldest = oldest_idle;
    leave_idle(oldest);
    forget(oldest);
    let_go(oldest, gone);
  }
}

/* Call without the lock: engines end threads. */
static void free_all(tf_parts *gone) {
  while (gone) {
    tf_parts *next = gone->next;
    parts_free(gone);
    atomic_fetch_sub(&num_kept, 1);
    gone = next;
  }
}

/* ---- For those who hold and use them ---- */

static tf_program *find(XXH128_hash_t key, int ordinal) {
  tf_program **bucket = bucket_of(key), *p = *bucket;
  while (p && !XXH128_isEqual(p->key, key)) p = p->next;
  if (p) {
    if (is_idle(p)) leave_idle(p);
  } else if ((p = calloc(1, sizeof *p))) {
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

static bool build_once(tf_program *p, const void *module, size_t size, const tf_snapshot *settings,
                       TF_Status *status) {
  pthread_mutex_lock(&p->building);
  if (!p->parts) {
    tf_parts *parts = parts_build(module, size, p->ordinal, settings, status);
    if (parts) {
      atomic_fetch_add(&num_built, 1);
      atomic_fetch_add(&num_kept, 1);
    }
    pthread_mutex_lock(&registry_lock);
    p->parts = parts;
    pthread_mutex_unlock(&registry_lock);
  }
  const bool ok = p->parts != NULL;
  pthread_mutex_unlock(&p->building);
  return ok;
}

bool program_get(const void *module, size_t size, int ordinal, tf_program **out,
                 TF_Status *status) {
  tf_snapshot settings;
  *out = NULL;
  if (!settings_snapshot(ordinal, &settings, status)) return false;
  const XXH128_hash_t key = key_of(module, size, ordinal, &settings);
  pthread_mutex_lock(&registry_lock);
  tf_program *p = find(key, ordinal);
  pthread_mutex_unlock(&registry_lock);
  bool ok = p || fail_memory(status);
  if (ok && !build_once(p, module, size, &settings, status)) {
    ok = false;
    program_done(p);
    program_drop(p);
  }
  snapshot_free(&settings);
  if (ok) *out = p;
  return ok;
}

bool program_use(tf_program *p) {
  pthread_mutex_lock(&registry_lock);
  const bool is_known = p->is_known;
  if (is_known) ++p->users;
  pthread_mutex_unlock(&registry_lock);
  return is_known;
}

void program_done(tf_program *p) {
  tf_parts *gone = NULL;
  pthread_mutex_lock(&registry_lock);
  --p->users;
  settle(p, &gone);
  pthread_mutex_unlock(&registry_lock);
  free_all(gone);
}

void program_drop(tf_program *p) {
  if (!p) return;
  tf_parts *gone = NULL;
  pthread_mutex_lock(&registry_lock);
  --p->holders;
  settle(p, &gone);
  pthread_mutex_unlock(&registry_lock);
  free_all(gone);
}

void trm_tf_forget_programs(void) {
  tf_parts *gone = NULL;
  settings_begin_epoch(); /* first: what is built from now on is not forgotten */
  pthread_mutex_lock(&registry_lock);
  for (size_t i = 0; i < NUM_BUCKETS; ++i) {
    while (buckets[i]) {
      tf_program *p = buckets[i];
      if (is_idle(p)) leave_idle(p);
      forget(p);
      let_go(p, &gone);
    }
  }
  pthread_mutex_unlock(&registry_lock);
  free_all(gone);
}

/* ---- Running ---- */

size_t program_num_inputs(const tf_program *p) {
  return trm_executable_num_inputs(p->parts->executable);
}
size_t program_num_outputs(const tf_program *p) {
  return trm_executable_num_outputs(p->parts->executable);
}

const trm_tensor_info *program_output(const tf_program *p, size_t i) {
  return trm_executable_output(p->parts->executable, i);
}

bool program_is_fed(const tf_program *p) { return feeds_has_infeed(p->parts->executable); }

bool program_find_infeed(const tf_program *p, const tf_call *call, tf_infeed **out_infeed,
                         uint64_t *out_reads, TF_Status *status) {
  return feeds_find_infeed(p->parts->executable, trm_engine_num_replicas(p->parts->engine),
                           call->feeds, out_infeed, out_reads, status);
}

bool program_check(const tf_program *p, TF_Tensor *const *tensors, size_t count,
                   TF_Status *status) {
  if (count != program_num_inputs(p))
    return fail(status, TF_INVALID_ARGUMENT, "The program takes %zu inputs and was given %zu.",
                program_num_inputs(p), count);
  for (size_t i = 0; i < count; ++i) {
    const trm_tensor_info *info = trm_executable_input(p->parts->executable, i);
    TF_DataType type = TF_TensorType(tensors[i]);
    bool same = hlo_type(type) == info->dtype && TF_NumDims(tensors[i]) == info->rank;
    for (int d = 0; same && d < info->rank; ++d) same = TF_Dim(tensors[i], d) == info->dims[d];
    if (!same)
      return fail(status, TF_INVALID_ARGUMENT,
                  "Input %zu of the program has another shape or type than the one it was compiled "
                  "for: it takes %zu bytes of %s and was given %zu bytes of %s. An IPU program is "
                  "static.",
                  i, info->bytes, trm_dtype_name(info->dtype), TF_TensorByteSize(tensors[i]),
                  trm_dtype_name(hlo_type(type)));
  }
  return true;
}

void program_lock(tf_program *p) { pthread_mutex_lock(&p->running); }
void program_unlock(tf_program *p) { pthread_mutex_unlock(&p->running); }
void program_cancel(tf_program *p) { trm_engine_cancel(p->parts->engine); }
void program_forget_cancel(tf_program *p) { trm_engine_forget_cancel(p->parts->engine); }

/* Puts made-up values in the place of all inputs: nothing is moved to the device. */
static bool make_up_inputs(tf_program *p, const char *initializer, TF_Status *status) {
  tf_parts *parts = p->parts;
  const size_t count = program_num_inputs(p);
  const uint64_t generation = settings_generation();
  if (parts->made_up_generation != generation) {
    const trm_tensor_info **infos = calloc(count + 1, sizeof *infos);
    if (!infos) return fail_memory(status);
    for (size_t i = 0; i < count; ++i) infos[i] = trm_executable_input(parts->executable, i);
    void *block = NULL;
    void **arrays = synthetic_create(infos, count, initializer, &block);
    free(infos);
    if (!arrays) return fail_memory(status);
    free(parts->made_up_block);
    free(parts->made_up);
    parts->made_up = arrays;
    parts->made_up_block = block;
    parts->made_up_generation = generation;
  }
  for (size_t i = 0; i < count; ++i) {
    parts->inputs[i] = parts->made_up[i];
    parts->versions[i] = UINT64_MAX - generation; /* no number of the pool's */
  }
  return true;
}

/* Connects the engine with the call's feeds, unless it is. */
static bool connect(tf_parts *parts, const tf_call *call, TF_Status *status) {
  if (parts->feeds && strcmp(parts->feeds, call->feeds) == 0) return true;
  free(parts->feeds);
  parts->feeds = NULL;
  if (!feeds_bind(parts->executable, parts->engine, call->feeds, &parts->infeed, status))
    return false;
  parts->feeds = strdup(call->feeds);
  return parts->feeds || fail_memory(status);
}

/* Devices draw different numbers. The highest bit is a mark for the engine. */
static uint64_t seed_of_device(uint64_t seed, int ordinal) {
  return seed ^ ((uint64_t)ordinal * UINT64_C(0x9e3779b97f4a7c15) >> 1);
}

bool program_run(tf_program *p, const tf_call *call, TF_Tensor *const *tensors,
                 void *const *outputs, TF_Status *status) {
  tf_parts *parts = p->parts;
  bool runs;
  if (!settings_before_run(p->ordinal, &runs, status)) return false;
  if (!runs) {
    for (size_t i = 0; i < program_num_outputs(p); ++i)
      memset(outputs[i], 0, program_output(p, i)->bytes);
    return true;
  }
  if (!connect(parts, call, status)) return false;
  host_calls_name(parts->host_calls, call->feeds);
  const double device_free = switches_free_since(p->ordinal);
  ++parts->num_runs;
  const bool is_switch =
      !parts->is_trivial && switches_note(p->ordinal, p->number, parts->num_runs, call->name);
  char initializer[SYNTHETIC_INITIALIZER_SIZE];
  const uint32_t synthetic = settings_synthetic(initializer);
  if (parts->infeed && !synthetic_feed(parts->infeed, status)) return false;
  uint64_t seed_generation;
  uint64_t seed = settings_seed(&seed_generation);
  if (seed_generation != parts->seed_generation && !(synthetic & TF_SYNTHETIC_SEED)) {
    trm_engine_set_seed(parts->engine, seed_of_device(seed, p->ordinal));
    parts->seed_generation = seed_generation;
  }
  size_t count = program_num_inputs(p);
  for (size_t i = 0; i < count; ++i) {
    parts->inputs[i] = TF_TensorData(tensors[i]);
    parts->versions[i] = pool_generation(parts->inputs[i]);
  }
  if (synthetic & TF_SYNTHETIC_PARAMETERS && !make_up_inputs(p, initializer, status)) return false;
  /* By these numbers the variables come back, if nobody has written to them since. */
  const size_t replicated = trm_engine_num_replicas(parts->engine) > 1 ? program_num_outputs(p) : 0;
  for (size_t i = 0; i < replicated; ++i) parts->output_versions[i] = pool_generation(outputs[i]);
  const size_t variables = call->variables < count ? call->variables : count;
  const transfer_run transfers = {p->ordinal,    p->number, parts->name,      parts->executable,
                                  parts->inputs, outputs,   count - variables};
  const bool transfers_any = !(synthetic & TF_SYNTHETIC_PARAMETERS) && !parts->is_trivial;
  if (transfers_any) transfers_before_run(&transfers);
  if (parts->is_trivial) /* the host computes it */
    for (size_t i = count - variables; i < count; ++i) transfers_note_read(parts->inputs[i]);
  else
    log_verbose(1, "poplar_executor.cc:3200", "Executing %s on /device:IPU:%d", parts->name,
                p->ordinal);
  trm_error error = {0};
  const double began = parts->report ? clock_seconds() : 0;
  trm_infeed *timed = parts->report && parts->infeed ? parts->infeed->queue : NULL;
  const double waited = timed ? trm_infeed_waited(timed) : 0;
  const unsigned interrupts = interrupt_count();
  if (!interrupt_watch_run(parts->engine, call->session, call->is_one_op, status)) return false;
  const trm_status result = trm_engine_run_replicated(parts->engine, parts->inputs, parts->versions,
                                                      outputs, parts->output_versions, &error);
  interrupt_unwatch_run(parts->engine);
  /* It was for this run. */
  if (interrupt_count() != interrupts) trm_engine_forget_cancel(parts->engine);
  const double ended = clock_seconds();
  switches_set_free(p->ordinal, ended);
  if (result == TRM_OK) {
    const trm_report_times times = {.began = began,
                                    .ended = ended,
                                    .device_free = device_free,
                                    .is_switch = is_switch,
                                    .infeed_wait = timed ? trm_infeed_waited(timed) - waited : 0};
    if (parts->is_trivial) return true;
    trm_report_run(parts->report, &times);
    cycles_log(parts->executable, &parts->cycles);
    if (transfers_any) transfers_after_run(&transfers);
    events_execute(p->ordinal, parts->name, parts->executable, parts->num_runs, &parts->execution);
    return true;
  }
  return fail_with(status, &error);
}
