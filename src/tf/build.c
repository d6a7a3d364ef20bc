/* Building a program. */
#define _GNU_SOURCE
#include "build.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "interrupt.h"
#include "log.h"
#include "tremula/inspect.h"
#include "tremula/log.h"
#include "watch.h"

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

static bool compile(const void *module, size_t size, const char *options_text, compile_watch *watch,
                    trm_executable **out, TF_Status *status) {
  size_t lines = 1;
  for (const char *c = options_text; *c; ++c) lines += *c == '\n';
  char *text = strdup(options_text);
  trm_option *options = calloc(lines, sizeof *options);
  trm_module *parsed = NULL;
  trm_error error = {0};
  bool ok = (text && options) || fail_memory(status);
  if (ok && trm_module_read(module, size, "the module from TensorFlow", &parsed, &error) != TRM_OK)
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
  if (settings->cache_path[0] && !trm_inspect_is_hashable(module, size)) {
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
      *out = NULL;
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
  if (settings->cache_path[0] && trm_inspect_is_hashable(module, size) &&
      cache_find(settings, module, size, &entry) && cache_lock(&entry)) {
    cache_store(&entry, executable);
    cache_unlock(&entry);
  }
}

static bool create_engine(tf_parts *parts, int ordinal, TF_Status *status) {
  trm_error error = {0};
  uint32_t replicas;
  const trm_executable *executable = parts->executable;
  if (trm_executable_num_replicas(executable, &replicas, &error) != TRM_OK)
    return fail_with(status, &error);
  if (!trm_executable_tells_replicas_apart(executable)) replicas = 1;
  if (trm_engine_create_replicated(parts->executable, replicas, &parts->engine, &error) != TRM_OK)
    return fail_with(status, &error);
  parts->bytes = trm_executable_arena_bytes(executable) * replicas;
  trm_log(TRM_LOG_INFO, "ENGINE", "created an engine of %zu bytes%s for /device:IPU:%d",
          parts->bytes, replicas > 1 ? ", in replicas," : "", ordinal);
  return true;
}

/* TF_Version is in no library that the plugin is linked to, but in one that is loaded. */
const char *tensorflow_version(void) {
  void *library = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
  const char *(*version)(void) = NULL;
  if (library) *(void **)&version = dlsym(library, "TF_Version");
  const char *text = version ? version() : NULL;
  if (library) dlclose(library);
  return text;
}

/* Writes a profile where one is asked for, of what has been compiled now: what comes out of the
 * cache had one when it was. Fails if the program does not fit. */
static trm_status report(tf_parts *parts, bool is_compiled, trm_error *error) {
  const trm_report_framework framework = {"TensorFlow", tensorflow_version()};
  parts->is_trivial = trm_inspect_is_trivial(trm_inspect_module(parts->executable));
  if (parts->is_trivial) return TRM_OK;
  if (!is_compiled) return trm_report_check(parts->executable, error);
  return trm_report_create(parts->executable, &framework, &parts->report, error);
}

static bool build(tf_parts *parts, const void *module, size_t size, const tf_snapshot *settings,
                  compile_watch *watch, TF_Status *status) {
  if (!load_or_compile(module, size, settings, watch, &parts->executable, status)) return false;
  if (!watch_name(watch, trm_executable_name(parts->executable))) return fail_memory(status);
  watch_stage(watch, PROGRESS_PLANNING);
  trm_error error = {0};
  const bool was_judged = trm_executable_is_judged(parts->executable);
  const trm_status reported = report(parts, watch->is_on, &error);
  if (!was_judged && trm_executable_is_judged(parts->executable))
    store_again(module, size, settings, parts->executable);
  if (reported != TRM_OK) return fail_with(status, &error);
  watch_stage(watch, PROGRESS_ENGINE);
  if (!create_engine(parts, watch->ordinal, status) ||
      !host_calls_create(parts->executable, parts->engine, &parts->host_calls, status))
    return false;
  const size_t num_inputs = trm_executable_num_inputs(parts->executable);
  const size_t num_outputs = trm_executable_num_outputs(parts->executable);
  parts->inputs = calloc(num_inputs + 1, sizeof *parts->inputs);
  parts->versions = calloc(num_inputs + 1, sizeof *parts->versions);
  parts->output_versions = calloc(num_outputs + 1, sizeof *parts->output_versions);
  return (parts->inputs && parts->versions && parts->output_versions) || fail_memory(status);
}

tf_parts *parts_build(const void *module, size_t size, int ordinal, const tf_snapshot *settings,
                      TF_Status *status) {
  tf_parts *parts = calloc(1, sizeof *parts);
  if (!parts) {
    fail_memory(status);
    return NULL;
  }
  compile_watch watch = {.ordinal = ordinal};
  const bool ok = build(parts, module, size, settings, &watch, status);
  watch_end(&watch, ok ? parts->executable : NULL);
  parts->name = watch.name;
  static atomic_bool has_told;
  if (ok && !atomic_exchange(&has_told, true))
    log_info("compiler/jit/xla_compilation_cache.cc:251",
             "Compiled cluster using XLA!  This line is logged at most once for the lifetime of "
             "the process.");
  if (ok) return parts;
  parts_free(parts);
  return NULL;
}

void parts_free(tf_parts *parts) {
  if (!parts) return;
  if (parts->engine) trm_engine_free(parts->engine); /* before what it calls and what it runs */
  host_calls_free(parts->host_calls);
  trm_report_free(parts->report);
  trm_executable_free(parts->executable);
  trm_free(parts->execution.data);
  free(parts->name);
  free(parts->feeds);
  free(parts->made_up);
  free(parts->made_up_block);
  free(parts->inputs);
  free(parts->versions);
  free(parts->output_versions);
  free(parts);
}
