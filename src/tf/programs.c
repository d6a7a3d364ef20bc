/* Programs: modules that have been compiled for a TF device. */
#define _GNU_SOURCE
#include "programs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache.h"
#include "clock.h"
#include "cycles.h"
#include "events.h"
#include "feeds.h"
#include "host_calls.h"
#include "interrupt.h"
#include "log.h"
#include "pool.h"
#include "switches.h"
#include "synthetic.h"
#include "transfers.h"
#include "tremula/log.h"
#include "tremula/report.h"
#include "watch.h"

struct tf_program {
  tf_program *next;
  XXH128_hash_t key;
  int ordinal;
  char *name; /* no other program's */
  pthread_mutex_t building; /* held while compiling */
  pthread_mutex_t running;  /* held by a run; not asked for to find the program, or a run that
                               waits for data would block the one that is to cancel it */
  trm_executable *executable;
  trm_engine *engine;
  host_calls *host_calls; /* NULL: none */
  tf_infeed *infeed;   /* as `feeds` say */
  char *feeds;         /* that the engine is connected with; NULL: none yet */
  uint64_t num_runs;
  int64_t cycles;     /* of a run on an IPU, once asked for */
  trm_report *report; /* the profile that runs are added to, or NULL */
  event_report execution; /* the report of a run, for events */
  uint64_t seed_generation;
  /* The inputs' made-up values, where parameters are synthetic. */
  void **made_up;
  void *made_up_block;
  uint64_t made_up_generation;
  /* Room for the arguments of a run. */
  const void **inputs;
  uint64_t *versions, *output_versions;
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static tf_program *registry;
static atomic_uint_fast64_t num_built;

uint64_t trm_tf_programs_built(void) { return atomic_load(&num_built); }

/* Module and configuration; the ordinal too, because a device runs a program of its own. */
static XXH128_hash_t key_of(const void *module, size_t size, int ordinal,
                            const tf_snapshot *settings) {
  XXH3_state_t *state = XXH3_createState();
  if (!state) return (XXH128_hash_t){0, 0};
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, module, size);
  XXH3_128bits_update(state, &ordinal, sizeof ordinal);
  XXH3_128bits_update(state, &settings->epoch, sizeof settings->epoch);
  XXH3_128bits_update(state, settings->options, strlen(settings->options));
  XXH128_hash_t key = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return key;
}

/* ---- Compiling ---- */

/* The lines KEY=VALUE of `text`, which is cut up, as options. Returns how many there are. */
static size_t split_options(char *text, trm_option *options, size_t room) {
  size_t count = 0;
  char *rest = text;
  for (char *line = strtok_r(rest, "\n", &rest); line && count < room;
       line = strtok_r(rest, "\n", &rest)) {
    char *equals = strchr(line, '=');
    if (!equals) continue;
    *equals = '\0';
    options[count++] = (trm_option){line, equals + 1};
  }
  return count;
}

static bool compile(const void *module, size_t size, const char *options_text,
                    compile_watch *watch, trm_executable **out, TF_Status *status) {
  size_t lines = 1;
  for (const char *c = options_text; *c; c++) lines += *c == '\n';
  char *text = strdup(options_text);
  trm_option *options = calloc(lines, sizeof *options);
  trm_module *parsed = NULL;
  trm_error error = {0};
  bool ok = (text && options) || fail_memory(status);
  if (ok &&
      trm_module_read(module, size, "the module from TensorFlow", &parsed, &error) != TRM_OK)
    ok = fail_with(status, &error);
  if (ok) ok = watch_name(watch, trm_module_name(parsed)) || fail_memory(status);
  if (ok) {
    const size_t count = split_options(text, options, lines);
    watch_begin(watch, parsed);
    ok = trm_inspect_compile(parsed, options, count, watch_pass, watch, out, &error) == TRM_OK ||
         fail_with(status, &error);
  }
  trm_module_free(parsed);
  free(options);
  free(text);
  return ok;
}

/* A module may say that it holds what the cache could not tell from something else: the ops that
 * users bring mark their calls so. */
static bool is_cacheable(const void *module, size_t size) {
  static const char mark[] = "\"is_hashable\": false";
  return memmem(module, size, mark, sizeof mark - 1) == NULL;
}

static bool tell_loaded(const trm_executable *executable, const cache_entry *entry) {
  log_verbose(1, "poplar_compiler.cc:1585", "Loaded %s from %s", trm_executable_name(executable),
              entry->path);
  return true;
}

/* Reads the executable from the cache, or compiles it and, with a cache, writes it. */
static bool load_or_compile(const void *module, size_t size, const tf_snapshot *settings,
                            compile_watch *watch, trm_executable **out, TF_Status *status) {
  cache_entry entry;
  const bool only_compiles = settings->connection == TF_CONNECT_PRE_COMPILE;
  if (only_compiles && !settings->cache_path[0])
    return fail(status, TF_FAILED_PRECONDITION,
                "IPU devices have been configured for pre-compilation, however "
                "'executable_cache_path' in 'TF_POPLAR_FLAGS' has not been set. Set it, e.g. "
                "'TF_POPLAR_FLAGS=--executable_cache_path=/path/to/storage'.");
  if (settings->cache_path[0] && !is_cacheable(module, size)) {
    log_info("poplar_compiler.cc:1585",
             "Executable caching has been enabled, however the program being compiled contains "
             "custom user operations which cannot be safely serialized.");
    return compile(module, size, settings->options, watch, out, status);
  }
  if (!cache_find(settings, module, size, &entry))
    return compile(module, size, settings->options, watch, out, status);
  if (cache_load(&entry, false, out)) return tell_loaded(*out, &entry);
  interrupt_watch();
  const bool may_compile = cache_lock(&entry);
  interrupt_unwatch();
  if (!may_compile)
    return fail(status, TF_CANCELLED, "Interrupted while another process compiled this program.");
  bool ok = cache_load(&entry, true, out) && tell_loaded(*out, &entry);
  if (!ok && (ok = compile(module, size, settings->options, watch, out, status))) {
    const bool stored = cache_store(&entry, *out);
    if (only_compiles && stored)
      log_info("poplar_compiler.cc:1973", "A pre-compiled Poplar program has been saved to %s",
               entry.path);
    if (only_compiles && !stored) {
      trm_executable_free(*out);
      ok = fail(status, TF_INTERNAL, "The pre-compiled program could not be saved to %s.",
                entry.path);
    }
  }
  cache_unlock(&entry);
  return ok;
}

/* Writes into the cache what has been found out since the executable was compiled. */
static void store_again(const void *module, size_t size, const tf_snapshot *settings,
                        const trm_executable *executable) {
  cache_entry entry;
  if (settings->cache_path[0] && is_cacheable(module, size) &&
      cache_find(settings, module, size, &entry) && cache_lock(&entry)) {
    cache_store(&entry, executable);
    cache_unlock(&entry);
  }
}

static bool create_engine(const tf_program *p, trm_executable *executable, trm_engine **out_engine,
                          TF_Status *status) {
  trm_error error = {0};
  uint32_t replicas;
  if (trm_executable_num_replicas(executable, &replicas, &error) != TRM_OK)
    return fail_with(status, &error);
  if (!trm_executable_tells_replicas_apart(executable)) replicas = 1;
  if (trm_engine_create_replicated(executable, replicas, out_engine, &error) != TRM_OK)
    return fail_with(status, &error);
  trm_log(TRM_LOG_INFO, "ENGINE", "created an engine of %zu bytes%s for /device:IPU:%d",
          trm_executable_arena_bytes(executable) * replicas,
          replicas > 1 ? ", in replicas," : "", p->ordinal);
  return true;
}

/* TF_Version is in no library that the plugin is linked to, but in one that is loaded. */
static const char *tensorflow_version(void) {
  void *library = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
  const char *(*version)(void) = NULL;
  if (library) *(void **)&version = dlsym(library, "TF_Version");
  const char *text = version ? version() : NULL;
  if (library) dlclose(library);
  return text;
}

/* Once in a process. */
static void warn_of_traces(void) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  const char *options = getenv("PVTI_OPTIONS");
  if (options && options[0] && !atomic_flag_test_and_set(&said))
    log_warning("poplar_compiler.cc:1585",
                "PVTI_OPTIONS is set, but no traces for the System Analyser are written. "
                "POPLAR_ENGINE_OPTIONS='{\"autoReport.all\":\"true\"}' writes a profile, with the "
                "steps of a run.");
}

static bool build_watched(tf_program *p, const void *module, size_t size,
                          const tf_snapshot *settings, compile_watch *watch, TF_Status *status) {
  trm_executable *executable = NULL;
  trm_engine *engine = NULL;
  if (!load_or_compile(module, size, settings, watch, &executable, status)) return false;
  if (!watch_name(watch, trm_executable_name(executable))) {
    trm_executable_free(executable);
    return fail_memory(status);
  }
  warn_of_traces();
  watch_stage(watch, PROGRESS_PLANNING);
  const trm_report_framework framework = {"TensorFlow", tensorflow_version()};
  trm_report *report = NULL;
  trm_error error = {0};
  const bool was_judged = trm_executable_is_judged(executable);
  const trm_status reported = trm_report_create(executable, &framework, &report, &error);
  if (!was_judged && trm_executable_is_judged(executable))
    store_again(module, size, settings, executable);
  if (reported != TRM_OK) {
    trm_executable_free(executable);
    return fail_with(status, &error);
  }
  watch_stage(watch, PROGRESS_ENGINE);
  bool ok = create_engine(p, executable, &engine, status);
  host_calls *calls = NULL;
  ok = ok && host_calls_create(executable, engine, &calls, status);
  size_t num_inputs = ok ? trm_executable_num_inputs(executable) : 0;
  const void **inputs = calloc(num_inputs + 1, sizeof *inputs);
  uint64_t *versions = calloc(num_inputs + 1, sizeof *versions);
  uint64_t *output_versions =
      calloc(ok ? trm_executable_num_outputs(executable) + 1 : 1, sizeof *output_versions);
  ok = ok && ((inputs && versions && output_versions) || fail_memory(status));
  if (!ok) {
    free(inputs);
    free(versions);
    free(output_versions);
    host_calls_free(calls);
    if (engine) trm_engine_free(engine);
    trm_report_free(report);
    trm_executable_free(executable);
    return false;
  }
  p->report = report;
  p->executable = executable;
  p->engine = engine;
  p->host_calls = calls;
  atomic_fetch_add(&num_built, 1);
  p->inputs = inputs;
  p->versions = versions;
  p->output_versions = output_versions;
  return true;
}

/* Call with p->building held. */
static bool build(tf_program *p, const void *module, size_t size, const tf_snapshot *settings,
                  TF_Status *status) {
  compile_watch watch = {.ordinal = p->ordinal};
  const bool ok = build_watched(p, module, size, settings, &watch, status);
  watch_end(&watch, ok ? p->executable : NULL);
  if (ok) p->name = watch.name;
  else free(watch.name);
  return ok;
}

bool program_get(const void *module, size_t size, int ordinal, tf_program **out,
                 TF_Status *status) {
  tf_snapshot settings;
  if (!settings_snapshot(ordinal, &settings, status)) return false;
  XXH128_hash_t key = key_of(module, size, ordinal, &settings);
  pthread_mutex_lock(&registry_lock);
  tf_program *p = registry;
  while (p && !XXH128_isEqual(p->key, key)) p = p->next;
  if (!p && (p = calloc(1, sizeof *p))) {
    p->key = key;
    p->ordinal = ordinal;
    pthread_mutex_init(&p->building, NULL);
    pthread_mutex_init(&p->running, NULL);
    p->next = registry;
    registry = p;
  }
  pthread_mutex_unlock(&registry_lock);
  bool ok = p || fail_memory(status);
  if (ok) {
    pthread_mutex_lock(&p->building);
    ok = p->engine || build(p, module, size, &settings, status);
    pthread_mutex_unlock(&p->building);
  }
  snapshot_free(&settings);
  if (ok) *out = p;
  return ok;
}

/* ---- Running ---- */

size_t program_num_inputs(const tf_program *p) { return trm_executable_num_inputs(p->executable); }
size_t program_num_outputs(const tf_program *p) {
  return trm_executable_num_outputs(p->executable);
}

const trm_tensor_info *program_output(const tf_program *p, size_t i) {
  return trm_executable_output(p->executable, i);
}

bool program_is_fed(const tf_program *p) { return feeds_has_infeed(p->executable); }

bool program_find_infeed(const tf_program *p, const tf_call *call, tf_infeed **out_infeed,
                         TF_Status *status) {
  return feeds_find_infeed(p->executable, trm_engine_num_replicas(p->engine), call->feeds,
                           out_infeed, status);
}

bool program_check(const tf_program *p, TF_Tensor *const *tensors, size_t count,
                   TF_Status *status) {
  if (count != program_num_inputs(p))
    return fail(status, TF_INVALID_ARGUMENT, "The program takes %zu inputs and was given %zu.",
                program_num_inputs(p), count);
  for (size_t i = 0; i < count; i++) {
    const trm_tensor_info *info = trm_executable_input(p->executable, i);
    TF_DataType type = TF_TensorType(tensors[i]);
    bool same = hlo_type(type) == info->dtype && TF_NumDims(tensors[i]) == info->rank;
    for (int d = 0; same && d < info->rank; d++) same = TF_Dim(tensors[i], d) == info->dims[d];
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
void program_cancel(tf_program *p) { trm_engine_cancel(p->engine); }
void program_forget_cancel(tf_program *p) { trm_engine_forget_cancel(p->engine); }

/* Puts made-up values in the place of all inputs: nothing is moved to the device. */
static bool make_up_inputs(tf_program *p, const char *initializer, TF_Status *status) {
  const size_t count = program_num_inputs(p);
  const uint64_t generation = settings_generation();
  if (p->made_up_generation != generation) {
    const trm_tensor_info **infos = calloc(count + 1, sizeof *infos);
    if (!infos) return fail_memory(status);
    for (size_t i = 0; i < count; i++) infos[i] = trm_executable_input(p->executable, i);
    void *block = NULL;
    void **arrays = synthetic_create(infos, count, initializer, &block);
    free(infos);
    if (!arrays) return fail_memory(status);
    free(p->made_up_block);
    free(p->made_up);
    p->made_up = arrays;
    p->made_up_block = block;
    p->made_up_generation = generation;
  }
  for (size_t i = 0; i < count; i++) {
    p->inputs[i] = p->made_up[i];
    p->versions[i] = UINT64_MAX - generation; /* no number of the pool's */
  }
  return true;
}

/* Connects the engine with the call's feeds, unless it is. */
static bool connect(tf_program *p, const tf_call *call, TF_Status *status) {
  if (p->feeds && strcmp(p->feeds, call->feeds) == 0) return true;
  free(p->feeds);
  p->feeds = NULL;
  if (!feeds_bind(p->executable, p->engine, call->feeds, &p->infeed, status)) return false;
  p->feeds = strdup(call->feeds);
  return p->feeds || fail_memory(status);
}

/* Devices draw different numbers. The highest bit is a mark for the engine. */
static uint64_t seed_of_device(uint64_t seed, int ordinal) {
  return seed ^ ((uint64_t)ordinal * UINT64_C(0x9e3779b97f4a7c15) >> 1);
}

bool program_run(tf_program *p, const tf_call *call, TF_Tensor *const *tensors,
                 void *const *outputs, TF_Status *status) {
  bool runs;
  if (!settings_before_run(p->ordinal, &runs, status)) return false;
  if (!runs) {
    for (size_t i = 0; i < program_num_outputs(p); i++)
      memset(outputs[i], 0, program_output(p, i)->bytes);
    return true;
  }
  if (!connect(p, call, status)) return false;
  host_calls_name(p->host_calls, call->feeds);
  const double device_free = switches_free_since(p->ordinal);
  const bool is_switch = switches_note(p->ordinal, p, ++p->num_runs, call->name);
  char initializer[SYNTHETIC_INITIALIZER_SIZE];
  const uint32_t synthetic = settings_synthetic(initializer);
  if (p->infeed && !synthetic_feed(p->infeed, status)) return false;
  uint64_t seed_generation;
  uint64_t seed = settings_seed(&seed_generation);
  if (seed_generation != p->seed_generation && !(synthetic & TF_SYNTHETIC_SEED)) {
    trm_engine_set_seed(p->engine, seed_of_device(seed, p->ordinal));
    p->seed_generation = seed_generation;
  }
  size_t count = program_num_inputs(p);
  for (size_t i = 0; i < count; i++) {
    p->inputs[i] = TF_TensorData(tensors[i]);
    p->versions[i] = pool_generation(p->inputs[i]);
  }
  if (synthetic & TF_SYNTHETIC_PARAMETERS && !make_up_inputs(p, initializer, status)) return false;
  /* By these numbers the variables come back, if nobody has written to them since. */
  for (size_t i = 0; trm_engine_num_replicas(p->engine) > 1 && i < program_num_outputs(p); i++)
    p->output_versions[i] = pool_generation(outputs[i]);
  const size_t variables = call->variables < count ? call->variables : count;
  const transfer_run transfers = {p->ordinal, p,       p->name, p->executable,
                                  p->inputs,  outputs, count - variables};
  if (!(synthetic & TF_SYNTHETIC_PARAMETERS)) transfers_before_run(&transfers);
  log_verbose(1, "poplar_executor.cc:3200", "Executing %s on /device:IPU:%d", p->name, p->ordinal);
  trm_error error = {0};
  const double began = p->report ? clock_seconds() : 0;
  const double waited = p->report && p->infeed ? trm_infeed_waited(p->infeed->queue) : 0;
  const unsigned interrupts = interrupt_count();
  if (!interrupt_watch_run(p->engine, status)) return false;
  const trm_status result = trm_engine_run_replicated(p->engine, p->inputs, p->versions, outputs,
                                                      p->output_versions, &error);
  interrupt_unwatch_run(p->engine);
  if (interrupt_count() != interrupts) trm_engine_forget_cancel(p->engine); /* it was for this run */
  const double ended = clock_seconds();
  switches_set_free(p->ordinal, ended);
  if (result == TRM_OK) {
    const trm_report_times times = {
        .began = began, .ended = ended, .device_free = device_free, .is_switch = is_switch,
        .infeed_wait = p->report && p->infeed ? trm_infeed_waited(p->infeed->queue) - waited : 0};
    trm_report_run(p->report, &times);
    cycles_log(p->executable, &p->cycles);
    if (!(synthetic & TF_SYNTHETIC_PARAMETERS)) transfers_after_run(&transfers);
    events_execute(p->ordinal, p->name, p->executable, p->num_runs, &p->execution);
    return true;
  }
  return fail_with(status, &error);
}
