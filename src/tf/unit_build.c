/* Owns: building a unit. */
#define _GNU_SOURCE
#include "unit_build.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "cache.h"
#include "interrupt.h"
#include "log.h"
#include "tremula/group.h"
#include "tremula/inspect.h"
#include "tremula/log.h"
#include "watch.h"

/* ---- The executable cache ------------------------------------------------------------------- */

/* The search for the build id of the library at an address, because other code may compile
 * differently. */
typedef struct library_search {
  uintptr_t address;
  unsigned char id[64];
  size_t size;
} library_search;

static void read_notes(const char *notes, size_t size, library_search *search) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    memcpy(&header, notes, sizeof header);
    const size_t name = ((size_t)header.n_namesz + 3) & ~(size_t)3;
    const size_t length = ((size_t)header.n_descsz + 3) & ~(size_t)3;
    if (name > size - sizeof header || length > size - sizeof header - name) return;
    const char *value = notes + sizeof header + name;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_descsz <= sizeof search->id) {
      memcpy(search->id, value, header.n_descsz);
      search->size = header.n_descsz;
      return;
    }
    notes = value + length;
    size -= sizeof header + name + length;
  }
}

static int visit_library(struct dl_phdr_info *info, size_t info_size, void *context) {
  library_search *search = context;
  (void)info_size;
  bool has_address = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && search->address >= start &&
        search->address < start + part->p_memsz) {
      has_address = true;
    }
  }
  for (int i = 0; has_address && i < info->dlpi_phnum && !search->size; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type == PT_NOTE) {
      read_notes((const char *)(info->dlpi_addr + part->p_vaddr), part->p_memsz, search);
    }
  }
  return has_address;
}

static XXH128_hash_t key_of(const trm_tf_snapshot *settings, const void *module, size_t size) {
  library_search library = {.address = (uintptr_t)&trm_compile};
  dl_iterate_phdr(visit_library, &library);
  XXH3_state_t *state = XXH3_createState();
  if (!state) return (XXH128_hash_t){0, 0};
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, trm_version(), strlen(trm_version()) + 1);
  XXH3_128bits_update(state, library.id, library.size);
  XXH3_128bits_update(state, settings->options, strlen(settings->options) + 1);
  uint64_t program[2];
  trm_inspect_hash(module, size, program);
  XXH3_128bits_update(state, program, sizeof program);
  const XXH128_hash_t key = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return key;
}

enum { NAME_SIZE = 40 };

/* The hash covers the program, the options, and the exact build of libtremula. */
static void name_program(const trm_tf_snapshot *settings, const void *module, size_t size,
                         char out[NAME_SIZE]) {
  const XXH128_hash_t key = key_of(settings, module, size);
  snprintf(out, NAME_SIZE, "%016llx%016llx", (unsigned long long)key.high64,
           (unsigned long long)key.low64);
}

/* Finds the cache entry of a module, <hash>.poplar_exec; false if there is no cache. */
static bool find_entry(const trm_tf_snapshot *settings, const void *module, size_t size,
                       trm_tf_cache_entry *out) {
  if (!settings->cache_path[0]) return false;
  char name[NAME_SIZE];
  name_program(settings, module, size, name);
  return trm_tf_cache_find(settings->cache_path, name, ".poplar_exec", ".compile_lock", out);
}

/* Loads the executable; false if it does not exist or is damaged. With `warns`, damage is a
 * warning. */
static bool load(const trm_tf_cache_entry *entry, const trm_tf_snapshot *settings, bool warns,
                 trm_executable **out) {
  const trm_load_settings own = {.size = sizeof own, .region_cache = settings->cache_path};
  if (!trm_tf_cache_has(entry)) return false;
  trm_error error = {0};
  if (trm_executable_load_with(entry->path, &own, out, &error) != TRM_OK) {
    if (warns) trm_tf_cache_tell_unusable(entry, error.message);
    return false;
  }
  trm_log(TRM_LOG_INFO, "CACHE", "loaded the executable %s", entry->path);
  TRM_TF_DETAIL(1, "poplar_compiler", "Loaded %s from %s", trm_executable_name(*out), entry->path);
  return true;
}

static trm_status save(const void *executable, const char *path, trm_error *error) {
  return trm_executable_save(executable, path, error);
}

static bool store(const trm_tf_cache_entry *entry, const trm_executable *executable) {
  if (!trm_tf_cache_store(entry, save, executable)) return false;
  trm_log(TRM_LOG_INFO, "CACHE", "saved the executable %s", entry->path);
  return true;
}

/* ---- Compiling ------------------------------------------------------------------------------ */

/* Splits the lines KEY=VALUE of `text`, which it overwrites, into options. Returns their number. */
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

static trm_status compile_module(trm_module *module, const trm_tf_snapshot *settings,
                                 trm_tf_watch *watch, trm_executable **out, trm_error *error) {
  const char *options_text = settings->options;
  if (!trm_tf_watch_name(watch, trm_module_name(module))) FAIL_NO_MEMORY("the name of a program");
  size_t lines = 2; /* and the region cache */
  for (const char *c = options_text; *c; ++c) lines += *c == '\n';
  char *text = trm_tf_copy_text(options_text);
  trm_option *options = trm_allocate_zeroed(lines, sizeof *options);
  trm_status status = TRM_OK;
  if (text == NULL || options == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while allocating options");
  }
  trm_tf_watch_begin(watch, module);
  size_t num_options = split_options(text, options, lines - 1);
  options[num_options++] = (trm_option){"region_cache", settings->cache_path};
  status = trm_inspect_compile(module, options, num_options, trm_tf_watch_pass, watch, out, error);
done:
  trm_free(options);
  trm_free(text);
  return status;
}

static trm_status compile(const void *module, size_t size, const trm_tf_snapshot *settings,
                          trm_tf_watch *watch, trm_executable **out, trm_error *error) {
  trm_module *parsed;
  TRY(trm_module_read(module, size, "the module from TensorFlow", &parsed, error));
  const trm_status status = compile_module(parsed, settings, watch, out, error);
  trm_module_free(parsed);
  return status;
}

/* ---- One compilation for all instances ------------------------------------------------------- */

typedef struct shared_compilation {
  const void *module;
  size_t size;
  const trm_tf_snapshot *settings;
  trm_tf_watch *watch;
  trm_executable **out;
  unsigned interrupts; /* so far */
} shared_compilation;

static trm_status compile_for_all(void *user, void **out_data, size_t *out_size, trm_error *error) {
  const shared_compilation *c = user;
  TRY(compile(c->module, c->size, c->settings, c->watch, c->out, error));
  const trm_status status = trm_executable_serialize(*c->out, out_data, out_size, error);
  if (status == TRM_OK) return TRM_OK;
  trm_executable_free(*c->out);
  *c->out = NULL;
  return status;
}

static bool still_wants(void *user) {
  const shared_compilation *c = user;
  return !trm_tf_interrupt_is_due() && trm_tf_interrupt_count() == c->interrupts;
}

/* The first instance that needs the program compiles it, the others get the executable. A program
 * that needs the group joins it here instead of in create_engine; until then each compiles its own.
 */
static trm_status compile_once(shared_compilation *c, trm_error *error) {
  if (!trm_group_is_joined() && trm_inspect_tells_replicas_apart(c->module, c->size)) {
    TRY(trm_group_join(NULL, error));
  }
  char name[NAME_SIZE];
  name_program(c->settings, c->module, c->size, name);
  const trm_group_maker maker = {
      .size = sizeof maker, .user = c, .make = compile_for_all, .goes_on = still_wants};
  void *data;
  size_t size;
  trm_tf_interrupt_watch();
  c->interrupts = trm_tf_interrupt_count();
  const trm_status made = trm_group_make_once(name, &maker, &data, &size, error);
  trm_tf_interrupt_unwatch();
  if (made != TRM_OK || data == NULL) return made;
  const trm_status status = trm_executable_deserialize(data, size, c->out, error);
  trm_free(data);
  TRY(status);
  trm_log(TRM_LOG_INFO, "CACHE", "got the executable %s, which another instance compiled",
          trm_executable_name(*c->out));
  return TRM_OK;
}

/* Without a cache. */
static trm_status compile_here_or_there(const void *module, size_t size,
                                        const trm_tf_snapshot *settings, trm_tf_watch *watch,
                                        trm_executable **out, trm_error *error) {
  if (settings->distribution.num_processes > 1 && trm_inspect_is_hashable(module, size)) {
    shared_compilation c = {module, size, settings, watch, out, 0};
    return compile_once(&c, error);
  }
  return compile(module, size, settings, watch, out, error);
}

/* Call with the entry locked. */
static trm_status compile_and_store(const void *module, size_t size,
                                    const trm_tf_snapshot *settings,
                                    const trm_tf_cache_entry *entry, trm_tf_watch *watch,
                                    trm_executable **out, trm_error *error) {
  TRY(compile(module, size, settings, watch, out, error));
  const bool stored = store(entry, *out);
  if (settings->connection != TRM_TF_CONNECT_PRE_COMPILE) return TRM_OK;
  if (stored) {
    TRM_TF_INFO("A pre-compiled Poplar program has been saved to %s", entry->path);
    return TRM_OK;
  }
  trm_executable_free(*out);
  *out = NULL;
  FAIL(INTERNAL, "The pre-compiled program could not be saved to %s.", entry->path);
}

/* Reads the executable from the cache, or compiles it and stores it there. */
static trm_status load_or_compile(const void *module, size_t size, const trm_tf_snapshot *settings,
                                  trm_tf_watch *watch, trm_executable **out, trm_error *error) {
  trm_tf_cache_entry entry;
  const bool has_cache = settings->cache_path[0] != '\0';
  if (settings->connection == TRM_TF_CONNECT_PRE_COMPILE && !has_cache) {
    FAIL(FAILED_PRECONDITION,
         "IPU devices have been configured for pre-compilation, however 'executable_cache_path' in "
         "'TF_POPLAR_FLAGS' has not been set. Set it, e.g. "
         "'TF_POPLAR_FLAGS=--executable_cache_path=/path/to/storage'.");
  }
  const bool is_cached = has_cache && trm_inspect_is_hashable(module, size);
  if (has_cache && !is_cached && settings->connection == TRM_TF_CONNECT_PRE_COMPILE) {
    FAIL(FAILED_PRECONDITION,
         "IPU devices have been configured for pre-compilation, however the program being compiled "
         "contains custom user operations which cannot be safely pre-compiled.");
  }
  if (has_cache && !is_cached) {
    TRM_TF_INFO(
        "Executable caching has been enabled, however the program being compiled contains custom "
        "user operations which cannot be safely serialized.");
  }
  if (!is_cached || !find_entry(settings, module, size, &entry)) {
    return compile_here_or_there(module, size, settings, watch, out, error);
  }
  if (load(&entry, settings, false, out)) return TRM_OK;
  if (!trm_tf_cache_lock(&entry)) {
    FAIL(CANCELLED, "Interrupted while another process compiled this program.");
  }
  const trm_status status =
      load(&entry, settings, true, out)
          ? TRM_OK
          : compile_and_store(module, size, settings, &entry, watch, out, error);
  trm_tf_cache_unlock(&entry);
  return status;
}

/* Stores an executable again, with what has become known since it was compiled. */
static void store_again(const void *module, size_t size, const trm_tf_snapshot *settings,
                        const trm_executable *executable) {
  trm_tf_cache_entry entry;
  if (settings->cache_path[0] && trm_inspect_is_hashable(module, size) &&
      find_entry(settings, module, size, &entry) && trm_tf_cache_lock(&entry)) {
    store(&entry, executable);
    trm_tf_cache_unlock(&entry);
  }
}

/* ---- Units ---------------------------------------------------------------------------------- */

/* The replicas of this process, and joins the group of the others. */
static trm_status divide_replicas(const trm_tf_distribution *distribution, uint32_t replicas,
                                  trm_engine_settings *settings, trm_error *error) {
  const uint32_t count = distribution->num_processes;
  if (replicas % count != 0) {
    FAIL(INVALID_ARGUMENT, "%u processes cannot have equally many of %u replicas", count, replicas);
  }
  TRY(trm_group_join(NULL, error));
  settings->num_processes = count;
  settings->process = distribution->process;
  settings->num_replicas = replicas / count;
  TRM_TF_INFO(
      "Multi-replica distribution: process index %u, process count %u, global replication factor "
      "%u, local replication factor %u",
      distribution->process, count, replicas, settings->num_replicas);
  return TRM_OK;
}

static trm_status create_engine(trm_tf_runnable *runnable, int ordinal,
                                const trm_tf_distribution *distribution, trm_error *error) {
  uint32_t replicas;
  const trm_executable *executable = runnable->executable;
  TRY(trm_executable_num_replicas(executable, &replicas, error));
  if (!trm_executable_tells_replicas_apart(executable)) replicas = 1;
  trm_engine_settings settings = {.size = sizeof settings, .num_replicas = replicas};
  if (replicas > 1 && distribution->num_processes > 1) {
    TRY(divide_replicas(distribution, replicas, &settings, error));
    replicas = settings.num_replicas;
  }
  TRY(trm_engine_create_with(runnable->executable, &settings, &runnable->engine, error));
  trm_engine_keep_resident(runnable->engine, true); /* device.c fetches what TensorFlow reads */
  runnable->bytes = trm_executable_arena_bytes(executable) * replicas;
  trm_log(TRM_LOG_INFO, "ENGINE", "created an engine of %zu bytes%s for /device:IPU:%d",
          runnable->bytes, replicas > 1 ? ", in replicas," : "", ordinal);
  return TRM_OK;
}

/* TF_Version is in a library that the process has loaded but the plugin does not link. */
const char *trm_tf_tensorflow_version(void) {
  void *library = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
  const char *(*version)(void) = NULL;
  if (library) *(void **)&version = dlsym(library, "TF_Version");
  const char *text = version ? version() : NULL;
  if (library) dlclose(library);
  return text;
}

/* Sets runnable->inputs to the tensors of the first run, which count loops in the estimate; NULL
 * where one has not the size that the program takes. */
static void set_first_inputs(trm_tf_runnable *runnable, const trm_tf_code *code) {
  for (size_t i = 0; i < trm_executable_num_inputs(runnable->executable); ++i) {
    TF_Tensor *tensor = i < code->num_tensors ? code->tensors[i] : NULL;
    const bool fits = tensor != NULL && TF_TensorByteSize(tensor) ==
                                            trm_executable_input(runnable->executable, i)->bytes;
    runnable->inputs[i] = fits ? TF_TensorData(tensor) : NULL;
  }
}

/* Writes a profile, if one is wanted, of an executable that was compiled now, here or by another
 * instance; one from the cache had its profile then. Fails if the program does not fit. */
static trm_status report(trm_tf_runnable *runnable, const trm_tf_code *code,
                         const trm_tf_distribution *distribution, bool is_new, trm_error *error) {
  set_first_inputs(runnable, code);
  const trm_report_framework framework = {.size = sizeof framework,
                                          .name = "TensorFlow",
                                          .version = trm_tf_tensorflow_version(),
                                          .inputs = runnable->inputs,
                                          .num_processes = distribution->num_processes,
                                          .process = distribution->process};
  runnable->is_trivial = trm_inspect_is_trivial(trm_inspect_module(runnable->executable));
  if (runnable->is_trivial) return TRM_OK;
  if (!is_new) return trm_report_check(runnable->executable, error);
  return trm_report_create(runnable->executable, &framework, &runnable->report, error);
}

static trm_status allocate_arguments(trm_tf_runnable *runnable, trm_error *error) {
  const size_t num_inputs = trm_executable_num_inputs(runnable->executable);
  const size_t num_outputs = trm_executable_num_outputs(runnable->executable);
  runnable->inputs = trm_allocate_zeroed(num_inputs, sizeof *runnable->inputs);
  runnable->versions = trm_allocate_zeroed(num_inputs, sizeof *runnable->versions);
  runnable->output_versions = trm_allocate_zeroed(num_outputs, sizeof *runnable->output_versions);
  if (runnable->inputs == NULL || runnable->versions == NULL || runnable->output_versions == NULL) {
    FAIL_NO_MEMORY("the arguments of a program");
  }
  return TRM_OK;
}

static trm_status build(trm_tf_runnable *runnable, const trm_tf_code *code,
                        const trm_tf_snapshot *settings, trm_tf_watch *watch, trm_error *error) {
  TRY(load_or_compile(code->module, code->size, settings, watch, &runnable->executable, error));
  if (!trm_tf_watch_name(watch, trm_executable_name(runnable->executable))) {
    FAIL_NO_MEMORY("the name of a program");
  }
  TRY(allocate_arguments(runnable, error));
  trm_tf_watch_stage(watch, TRM_TF_STAGE_PLANNING);
  const bool was_judged = trm_executable_is_judged(runnable->executable);
  const bool is_new = watch->is_on || settings->cache_path[0] == '\0';
  const trm_status reported = report(runnable, code, &settings->distribution, is_new, error);
  if (!was_judged && trm_executable_is_judged(runnable->executable)) {
    store_again(code->module, code->size, settings, runnable->executable);
  }
  TRY(reported);
  trm_tf_watch_stage(watch, TRM_TF_STAGE_ENGINE);
  TRY(create_engine(runnable, watch->ordinal, &settings->distribution, error));
  return trm_tf_host_calls_create(runnable->executable, runnable->engine, &runnable->host_calls,
                                  error);
}

static void tell_compiled(void) {
  static atomic_bool has_told;
  if (atomic_exchange(&has_told, true)) return;
  trm_tf_log_at(TRM_TF_PLACE_COMPILED,
                "Compiled cluster using XLA!  This line is logged at most once for the lifetime of "
                "the process.");
}

trm_status trm_tf_runnable_build(const trm_tf_code *code, int ordinal,
                                 const trm_tf_snapshot *settings, trm_tf_runnable **out,
                                 trm_error *error) {
  trm_tf_runnable *runnable = trm_allocate_zeroed(1, sizeof *runnable);
  CHECK_MEMORY(runnable, "a program");
  trm_tf_watch watch = {.ordinal = ordinal};
  const trm_status status = build(runnable, code, settings, &watch, error);
  trm_tf_watch_end(&watch, status == TRM_OK ? runnable->executable : NULL);
  runnable->name = watch.name;
  if (status != TRM_OK) {
    trm_tf_runnable_free(runnable);
    return status;
  }
  tell_compiled();
  *out = runnable;
  return TRM_OK;
}

void trm_tf_runnable_free(trm_tf_runnable *runnable) {
  if (!runnable) return;
  if (runnable->engine)
    trm_engine_free(runnable->engine); /* before its host calls and its executable */
  trm_tf_host_calls_free(runnable->host_calls);
  trm_report_free(runnable->report);
  trm_executable_free(runnable->executable);
  trm_free(runnable->execution.data);
  trm_free(runnable->name);
  trm_free(runnable->feeds);
  trm_free(runnable->made_up);
  trm_free(runnable->made_up_block);
  trm_free(runnable->inputs);
  trm_free(runnable->versions);
  trm_free(runnable->output_versions);
  trm_free(runnable);
}
