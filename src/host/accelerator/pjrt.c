/* Owns: PJRT, the C interface of plugins: loading, devices, arrays, regions, errors. It is one
 * file, because PJRT's header defines constants that only one file may include.
 *
 * PJRT's rules: within a major version, structs and the table of functions only grow, and each
 * states its size (its CHANGELOG.md says what came when). So this code requires a major version,
 * and a table that reaches to the last function that it calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xla/pjrt/c/pjrt_c_api.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/memory.h"
#include "host/accelerator/accelerator.h"
#include "host/accelerator/files.h"
#include "timeline/mark.h"
#include "tremula/log.h"

struct trm_accelerator {
  trm_accelerator *next; /* in the list of all that were asked for */
  const char *wanted;
  trm_error why; /* the failure, where it cannot be used */
  trm_plugin_choice choice;
  const PJRT_Api *api;
  PJRT_Client *client;
  PJRT_Device *devices[TRM_MAX_ACCELERATORS];
  pid_t process; /* that opened it */
  char name[256];
  char identity[4096]; /* with the options, everything that compiled code depends on */
  char options[8];     /* a CompileOptionsProto */
  bool is_portable;    /* compiled code runs on any device, and is told on which */
};

/* Of February 2024. Plugins before 0.39 take no list of operands that must not be donated, and
 * those before some version between it and this one refuse structs that are longer than their own.
 */
enum { OLDEST_MINOR = 46 };

/* A PJRT struct followed by zeros, and a pointer to it. A plugin newer than the header refuses
 * structs that are shorter than its own. Members that the header does not know are then zero, the
 * default of each. */
enum { NEWER_MEMBERS = 256 };
#define ARGS(type, name, ...)                                                  \
  struct name##_block {                                                        \
    type own;                                                                  \
    char newer[NEWER_MEMBERS];                                                 \
  } name##_block = {.own = {.struct_size = sizeof name##_block, __VA_ARGS__}}; \
  type *const name = &name##_block.own

/* Calls PJRT_<function> of the plugin, whose functions the local variable `api` has. The last
 * arguments set members of the function's argument struct, to which `name` points afterwards. */
#define CALL(function, name, task, ...)            \
  ARGS(PJRT_##function##_Args, name, __VA_ARGS__); \
  TRY(take_error(api, api->PJRT_##function(name), &(task), error))

/* The same; ignores a failure. */
#define CALL_ANYWAY(function, ...)                                        \
  do {                                                                    \
    ARGS(PJRT_##function##_Args, args, __VA_ARGS__);                      \
    take_error(api, api->PJRT_##function(args), &other, &(trm_error){0}); \
  } while (0)

static const char origin[] = "ACCELERATOR";
static const char no_memory[] =
    ". The accelerator's memory has run out: make batches smaller, end other programs that use it, "
    "or run without TREMULA_ACCELERATOR.";
/* What fails, and what its message says to do. */
static const struct task {
  const char *name, *advice;
} opening = {"opening the accelerator",
             ". Look whether its driver is installed and other programs can use it, or run without "
             "TREMULA_ACCELERATOR."},
  running = {"running on the accelerator",
             ". Variables are as before the run: run again, or without TREMULA_ACCELERATOR."},
  home = {"copying from the accelerator", ". Try again, or without TREMULA_ACCELERATOR."},
  there = {"copying to the accelerator", ". Try again, or without TREMULA_ACCELERATOR."},
  compiling = {"compiling for the accelerator", ""}, other = {"the accelerator's plugin", ""};

/* The device of a replica. */
static uint32_t device_of(const trm_accelerator *a, uint32_t replica) {
  return replica % (uint32_t)a->choice.num_devices;
}

/* ---- Errors --------------------------------------------------------------------------------- */

static trm_status take_error(const PJRT_Api *api, PJRT_Error *problem, const struct task *task,
                             trm_error *error) {
  if (problem == NULL) return TRM_OK;
  ARGS(PJRT_Error_Message_Args, message, .error = problem);
  api->PJRT_Error_Message(message);
  ARGS(PJRT_Error_GetCode_Args, code, .error = problem);
  PJRT_Error *second = api->PJRT_Error_GetCode(code);
  const trm_status status =
      second == NULL && code->code > 0 && code->code <= 15 ? (trm_status)code->code : TRM_UNKNOWN;
  size_t length = message->message_size; /* some end their sentences, and ours goes on */
  while (length > 0 && strchr(". \n", message->message[length - 1]) != NULL) --length;
  trm_fail(error, status, "%s: %.*s%s", task->name, (int)length, message->message,
           status == TRM_RESOURCE_EXHAUSTED ? no_memory : task->advice);
  ARGS(PJRT_Error_Destroy_Args, own, .error = problem);
  api->PJRT_Error_Destroy(own);
  if (second != NULL) {
    own->error = second;
    api->PJRT_Error_Destroy(own);
  }
  return status;
}

static trm_status await(const PJRT_Api *api, PJRT_Event *event, const struct task *task,
                        trm_error *error) {
  if (event == NULL) return TRM_OK;
  ARGS(PJRT_Event_Await_Args, wait, .event = event);
  const trm_status status = take_error(api, api->PJRT_Event_Await(wait), task, error);
  CALL_ANYWAY(Event_Destroy, .event = event);
  return status;
}

/* ---- Plugins -------------------------------------------------------------------------------- */

static trm_status load(const char *path, const PJRT_Api **out_api, trm_error *error) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *why = dlerror(); /* of a file for another processor it says that there is none */
    FAIL(NOT_FOUND,
         "The accelerator's plugin cannot be loaded: %s%s. TREMULA_ACCELERATOR is the path of a "
         "PJRT plugin, or a name such as cuda whose plugin is installed (pip install "
         "\"tremula[cuda]\").",
         why,
         access(path, R_OK) == 0 && strstr(why, "No such file") != NULL
             ? " (the file is there, but is for another processor, or lacks a library)"
             : "");
  }
  const PJRT_Api *(*get)(void);
  void *symbol = dlsym(library, "GetPjrtApi");
  memcpy(&get, &symbol, sizeof get);
  const PJRT_Api *api = symbol != NULL ? get() : NULL;
  if (api == NULL) {
    dlclose(library);
    FAIL(INVALID_ARGUMENT, "%s is no PJRT plugin: it has no function GetPjrtApi.", path);
  }
  const int major = api->pjrt_api_version.major_version;
  const int minor = api->pjrt_api_version.minor_version;
  if (major != PJRT_API_MAJOR || minor < OLDEST_MINOR ||
      api->struct_size < PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Buffer_ToHostBuffer)) {
    FAIL(FAILED_PRECONDITION,
         "The accelerator's plugin %s has version %d.%d of the PJRT API; Tremula needs %d.%d or a "
         "later one of the same major version. Install another version of the plugin.",
         path, major, minor, PJRT_API_MAJOR, OLDEST_MINOR);
  }
  CALL(Plugin_Initialize, initialize, opening, );
  *out_api = api;
  return TRM_OK;
}

/* The options are those of one replica and one partition: executable_build_options (3) {
 * device_ordinal (1), num_replicas (4), num_partitions (5) }. Code runs on device 0, whatever the
 * ordinal; for others compile_portable_executable (4) takes its place. */
static trm_status choose_devices(trm_accelerator *a, trm_error *error) {
  static const char first[] = {0x1a, 6, 0x08, 0, 0x20, 1, 0x28, 1};
  static const char portable[] = {0x1a, 4, 0x20, 1, 0x28, 1, 0x20, 1};
  const PJRT_Api *api = a->api;
  CALL(Client_AddressableDevices, devices, opening, .client = a->client);
  for (size_t d = 0; d < a->choice.num_devices; ++d) {
    const int number = a->choice.devices[d];
    if ((size_t)number >= devices->num_addressable_devices) {
      FAIL(NOT_FOUND,
           "TREMULA_ACCELERATOR names device %d of %s, which has %zu devices; the first is 0.",
           number, a->choice.path, devices->num_addressable_devices);
    }
    a->devices[d] = devices->addressable_devices[number];
  }
  a->is_portable = a->choice.num_devices > 1 || a->choice.devices[0] != 0;
  memcpy(a->options, a->is_portable ? portable : first, sizeof a->options);
  return TRM_OK;
}

/* Sets the accelerator's name for messages, and its identity for compiled code. */
static trm_status name_it(trm_accelerator *a, trm_error *error) {
  const PJRT_Api *api = a->api;
  CALL(Client_PlatformName, name, opening, .client = a->client);
  CALL(Client_PlatformVersion, version, opening, .client = a->client);
  CALL(Device_GetDescription, about, opening, .device = a->devices[0]);
  CALL(DeviceDescription_Kind, kind, opening, .device_description = about->device_description);
  int used =
      snprintf(a->name, sizeof a->name, "%.*s", (int)name->platform_name_size, name->platform_name);
  for (size_t d = 0; d < a->choice.num_devices && used < (int)sizeof a->name; ++d) {
    used += snprintf(a->name + used, sizeof a->name - (size_t)used, "%c%d", d == 0 ? ':' : ',',
                     a->choice.devices[d]);
  }
  const char *flags = getenv("XLA_FLAGS"); /* XLA's compilers read it */
  snprintf(a->identity, sizeof a->identity, "%s|%.*s|%.*s|%d.%d|%s", a->name,
           (int)version->platform_version_size, version->platform_version,
           (int)kind->device_kind_size, kind->device_kind, api->pjrt_api_version.major_version,
           api->pjrt_api_version.minor_version, flags != NULL ? flags : "");
  return TRM_OK;
}

static trm_accelerator *all; /* the newest one first */

/* Accelerators of one plugin share a client, because its devices share memory. */
static trm_status open_accelerator(trm_accelerator *a, trm_error *error) {
  TRY(trm_plugin_find(a->wanted, &a->choice, error));
  for (const trm_accelerator *one = all; one != NULL && a->client == NULL; one = one->next) {
    if (strcmp(one->choice.path, a->choice.path) != 0) continue;
    a->api = one->api;
    a->client = one->client;
  }
  if (a->client == NULL) {
    TRY(load(a->choice.path, &a->api, error));
    ARGS(PJRT_Client_Create_Args, create, );
    TRY_NOTE(take_error(a->api, a->api->PJRT_Client_Create(create), &opening, error),
             "the plugin is %s", a->choice.path);
    a->client = create->client;
  }
  TRY(choose_devices(a, error));
  TRY(name_it(a, error));
  a->process = getpid();
  trm_log(TRM_LOG_INFO, origin, "the accelerator is %s, by %s, PJRT %d.%d", a->name, a->choice.path,
          a->api->pjrt_api_version.major_version, a->api->pjrt_api_version.minor_version);
  return TRM_OK;
}

static trm_accelerator *find_or_open(const char *wanted) {
  trm_accelerator *a = all;
  while (a != NULL && strcmp(a->wanted, wanted) != 0) a = a->next;
  if (a != NULL) return a;
  const size_t length = strlen(wanted) + 1;
  a = trm_allocate_zeroed(1, sizeof *a + length);
  if (a == NULL) return NULL;
  a->wanted = memcpy(a + 1, wanted, length);
  open_accelerator(a, &a->why);
  a->next = all;
  return all = a;
}

static bool is_forked(const trm_accelerator *a) { return a->process != getpid(); }

/* A plugin's threads are not in a process that was forked, so its functions would wait forever. */
static trm_status check_process(const trm_accelerator *a, trm_error *error) {
  if (!is_forked(a)) return TRM_OK;
  FAIL(FAILED_PRECONDITION,
       "%s belongs to the process that this one was forked from. Start the process anew (with "
       "multiprocessing: the method \"spawn\"), or fork before the first program is compiled.",
       a->name);
}

trm_status trm_accelerator_get(const char *wanted, trm_accelerator **out, trm_error *error) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  *out = NULL;
  if (wanted == NULL) wanted = getenv("TREMULA_ACCELERATOR");
  if (wanted == NULL || *wanted == '\0') return TRM_OK;
  pthread_mutex_lock(&lock);
  trm_accelerator *a = find_or_open(wanted);
  pthread_mutex_unlock(&lock);
  CHECK_MEMORY(a, "an accelerator");
  if (a->why.status != TRM_OK) return trm_fail(error, a->why.status, "%s", a->why.message);
  *out = a;
  return check_process(a, error);
}

const char *trm_accelerator_name(const trm_accelerator *accelerator) { return accelerator->name; }

/* ---- Arrays --------------------------------------------------------------------------------- */

struct trm_device_array {
  atomic_uint references;
  trm_accelerator *accelerator;
  uint32_t device;
  PJRT_Buffer *buffer;
  trm_shape shape;
  int64_t dims[]; /* of the shape */
};

static PJRT_Buffer_Type type_of(trm_dtype dtype) {
#define TYPE(name) [TRM_##name] = PJRT_Buffer_Type_##name
  static const PJRT_Buffer_Type types[] = {
      TYPE(PRED), TYPE(S8),  TYPE(S16), TYPE(S32), TYPE(S64),  TYPE(U8),  TYPE(U16), TYPE(U32),
      TYPE(U64),  TYPE(F16), TYPE(F32), TYPE(F64), TYPE(BF16), TYPE(C64), TYPE(C128)};
  /* INVALID is 0 */
  return dtype < sizeof types / sizeof *types ? types[dtype] : PJRT_Buffer_Type_INVALID;
}

bool trm_accelerator_has_type(trm_dtype dtype) {
  return type_of(dtype) != PJRT_Buffer_Type_INVALID;
}

static void destroy_buffer(const trm_accelerator *a, PJRT_Buffer *buffer) {
  const PJRT_Api *api = a->api;
  if (!is_forked(a)) CALL_ANYWAY(Buffer_Destroy, .buffer = buffer);
}

static trm_device_array *array_of(trm_accelerator *a, uint32_t replica, PJRT_Buffer *buffer,
                                  const trm_shape *shape) {
  const size_t dims = (size_t)shape->rank * sizeof *shape->dims;
  trm_device_array *array = trm_allocate(sizeof *array + dims);
  if (array == NULL) {
    destroy_buffer(a, buffer);
    return NULL;
  }
  atomic_init(&array->references, 1);
  array->accelerator = a;
  array->device = device_of(a, replica);
  array->buffer = buffer;
  array->shape = (trm_shape){.dtype = shape->dtype, .rank = shape->rank, .dims = array->dims};
  if (dims > 0) memcpy(array->dims, shape->dims, dims);
  return array;
}

/* The plugin has read the array when this returns. The transfer may overlap with computation. */
trm_status trm_device_array_create(trm_accelerator *a, uint32_t replica, const trm_shape *shape,
                                   const void *data, trm_device_array **out, trm_error *error) {
  const PJRT_Api *api = a->api;
  *out = NULL;
  TRY(check_process(a, error));
  CALL(Client_BufferFromHostBuffer, args, there, .client = a->client, .data = data,
       .type = type_of(shape->dtype), .dims = shape->dims, .num_dims = (size_t)shape->rank,
       .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
       .device = a->devices[device_of(a, replica)]);
  const trm_status status = await(api, args->done_with_host_buffer, &there, error);
  if (status != TRM_OK) {
    destroy_buffer(a, args->buffer);
    return status;
  }
  *out = array_of(a, replica, args->buffer, shape);
  CHECK_MEMORY(*out, "an accelerator's array");
  return TRM_OK;
}

trm_device_array *trm_device_array_retain(trm_device_array *array) {
  atomic_fetch_add(&array->references, 1);
  return array;
}

void trm_device_array_release(trm_device_array *array) {
  if (array == NULL || atomic_fetch_sub(&array->references, 1) != 1) return;
  destroy_buffer(array->accelerator, array->buffer);
  trm_free(array);
}

bool trm_device_array_fits(const trm_device_array *array, uint32_t replica,
                           const trm_shape *shape) {
  return array->device == device_of(array->accelerator, replica) &&
         trm_shape_equal(&array->shape, shape);
}

size_t trm_device_array_bytes(const trm_device_array *array) {
  return trm_shape_bytes(&array->shape);
}

trm_status trm_device_array_read(const trm_device_array *array, void *data, trm_error *error) {
  const PJRT_Api *api = array->accelerator->api;
  const int32_t rank = array->shape.rank;
  const size_t bytes = trm_device_array_bytes(array);
  int64_t order[TRM_MAX_RANK];
  TRY(check_process(array->accelerator, error));
  if (bytes == 0) return TRM_OK;
  for (int32_t d = 0; d < rank; ++d) order[d] = rank - 1 - d;
  PJRT_Buffer_MemoryLayout layout = {
      .struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
      .tiled = {.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
                .minor_to_major = order,
                .minor_to_major_size = (size_t)rank},
      .type = PJRT_Buffer_MemoryLayout_Type_Tiled};
  CALL(Buffer_ToHostBuffer, args, home, .src = array->buffer, .host_layout = &layout, .dst = data,
       .dst_size = bytes);
  return await(api, args->event, &home, error);
}

trm_status trm_device_event_await(trm_accelerator *a, trm_device_event *event, trm_error *error) {
  return await(a->api, event, &running, error);
}

/* ---- Regions -------------------------------------------------------------------------------- */

enum { MAX_CODE_GIB = 1 };

struct trm_region {
  trm_region *next; /* in the list of all compiled regions */
  int references;   /* guarded by regions_lock */
  char key[TRM_REGION_KEY];
  trm_accelerator *accelerator;
  PJRT_LoadedExecutable *executable;
  size_t num_updated;
  uint32_t updated[]; /* operands that results may overwrite */
};

static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;
static trm_region *regions;

/* Loads compiled code from the cache of files. */
static trm_status load_region(trm_region *region, const char *path, trm_error *error) {
  const PJRT_Api *api = region->accelerator->api;
  char *data;
  size_t size;
  TRY(trm_read_hashed(path, "accelerator's code", "", (size_t)MAX_CODE_GIB << 30, &data, &size,
                      error));
  ARGS(PJRT_Executable_DeserializeAndLoad_Args, args, .client = region->accelerator->client,
       .serialized_executable = data, .serialized_executable_size = size);
  const trm_status status =
      take_error(api, api->PJRT_Executable_DeserializeAndLoad(args), &other, error);
  trm_free(data);
  region->executable = args->loaded_executable;
  return status;
}

static trm_status store(const trm_region *region, const char *path, trm_error *error) {
  const PJRT_Api *api = region->accelerator->api;
  CALL(LoadedExecutable_GetExecutable, get, other, .loaded_executable = region->executable);
  ARGS(PJRT_Executable_Serialize_Args, bytes, .executable = get->executable);
  trm_status status = take_error(api, api->PJRT_Executable_Serialize(bytes), &other, error);
  if (status == TRM_OK) {
    status =
        trm_write_hashed(path, "", bytes->serialized_bytes, bytes->serialized_bytes_size, error);
    bytes->serialized_executable_deleter(bytes->serialized_executable);
  }
  CALL_ANYWAY(Executable_Destroy, .executable = get->executable);
  return status;
}

static trm_status compile(trm_region *region, void *code, size_t size, trm_error *error) {
  const trm_accelerator *a = region->accelerator;
  ARGS(PJRT_Program, program, .code = code, .code_size = size, .format = "hlo", .format_size = 3);
  ARGS(PJRT_Client_Compile_Args, args, .client = a->client, .program = program,
       .compile_options = a->options, .compile_options_size = sizeof a->options);
  const trm_mark mark = trm_mark_begin(TRM_TIMELINE_DRIVERS, "compile for %s", a->name);
  const trm_status status =
      take_error(a->api, a->api->PJRT_Client_Compile(args), &compiling, error);
  trm_mark_end(&mark);
  region->executable = args->executable;
  return status;
}

static trm_status load_or_compile(trm_region *region, const char *cache, void *code, size_t size,
                                  trm_error *error) {
  char path[TRM_PLUGIN_PATH];
  const char *name = region->accelerator->name;
  trm_error why;
  const bool has_file = trm_region_file_find(cache, region->key, path);
  trm_status status = has_file ? load_region(region, path, &why) : TRM_NOT_FOUND;
  if (status == TRM_OK) {
    trm_log(TRM_LOG_INFO, origin, "a region for %s was loaded from %s", name, path);
    return TRM_OK;
  }
  if (status != TRM_NOT_FOUND) {
    trm_log(TRM_LOG_WARN, origin, "for %s the file %s cannot be used and is made again: %s", name,
            path, why.message);
  }
  TRY(compile(region, code, size, error));
  trm_log(TRM_LOG_INFO, origin, "a region was compiled for %s", name);
  status = has_file ? store(region, path, &why) : TRM_OK;
  if (status != TRM_OK) { /* some plugins cannot serialise code */
    trm_log(status == TRM_UNIMPLEMENTED ? TRM_LOG_INFO : TRM_LOG_WARN, origin,
            "compiled code is not kept in %s: %s", path, why.message);
  }
  return TRM_OK;
}

/* The region with the key, after adding `more` references; NULL: there is none. */
static trm_region *find(const char *key, int more) {
  pthread_mutex_lock(&regions_lock);
  trm_region *region = regions;
  while (region != NULL && strcmp(region->key, key) != 0) region = region->next;
  if (region != NULL) region->references += more;
  pthread_mutex_unlock(&regions_lock);
  return region;
}

/* `code`: the module, serialised. */
static trm_status add_region(trm_accelerator *a, const trm_module *module, const char *cache,
                             const char *key, void *code, size_t size, trm_error *error) {
  trm_region *region =
      trm_allocate_zeroed(1, sizeof *region + module->num_aliases * sizeof *region->updated);
  CHECK_MEMORY(region, "a region");
  region->references = 1;
  memcpy(region->key, key, sizeof region->key);
  region->accelerator = a;
  region->num_updated = module->num_aliases;
  for (size_t u = 0; u < module->num_aliases; ++u) {
    region->updated[u] = (uint32_t)module->aliases[u].parameter_number;
  }
  const trm_status status = load_or_compile(region, cache, code, size, error);
  if (status != TRM_OK) {
    trm_free(region);
    return status;
  }
  pthread_mutex_lock(&regions_lock);
  region->next = regions;
  regions = region;
  pthread_mutex_unlock(&regions_lock);
  return TRM_OK;
}

trm_status trm_region_compile(trm_accelerator *a, const trm_module *module, const char *cache,
                              char out_key[TRM_REGION_KEY], trm_error *error) {
  void *code;
  size_t size;
  TRY(trm_module_serialize(module, &code, &size, error));
  const uint64_t seed = XXH3_64bits_withSeed(a->identity, strlen(a->identity),
                                             XXH3_64bits(a->options, sizeof a->options));
  const XXH128_hash_t hash = XXH3_128bits_withSeed(code, size, seed);
  snprintf(out_key, TRM_REGION_KEY, "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
  const bool is_there = find(out_key, 1) != NULL;
  const trm_status status =
      is_there ? TRM_OK : add_region(a, module, cache, out_key, code, size, error);
  trm_free(code);
  return status;
}

trm_region *trm_region_take(const char *key) { return find(key, 0); }

void trm_region_release(trm_region *region) {
  if (region == NULL) return;
  pthread_mutex_lock(&regions_lock);
  const bool last = --region->references == 0;
  trm_region **link = &regions;
  while (last && *link != region) link = &(*link)->next;
  if (last) *link = region->next;
  pthread_mutex_unlock(&regions_lock);
  if (!last) return;
  const PJRT_Api *api = region->accelerator->api;
  if (!is_forked(region->accelerator)) {
    CALL_ANYWAY(LoadedExecutable_Destroy, .executable = region->executable);
  }
  trm_free(region);
}

trm_accelerator *trm_region_accelerator(const trm_region *region) { return region->accelerator; }

/* ---- Running -------------------------------------------------------------------------------- */

trm_status trm_region_run(const trm_region *region, uint32_t replica, uint32_t num_operands,
                          const trm_shape *shape, trm_device_array **arrays,
                          trm_device_event **out_done, trm_error *error) {
  trm_accelerator *a = region->accelerator;
  const size_t in = num_operands, out = (size_t)shape->num_elements;
  size_t num_kept = 0;
  *out_done = NULL;
  TRY(check_process(a, error));
  PJRT_Buffer **buffers = trm_allocate_zeroed(in + out + 1, sizeof *buffers);
  int64_t *kept = trm_allocate(region->num_updated * sizeof *kept);
  trm_status status = TRM_OK;
  bool fits = buffers != NULL && kept != NULL;
  if (!fits) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for a region's run");
  for (size_t i = 0; i < in; ++i) buffers[i] = arrays[i]->buffer;
  for (size_t i = 0; i < region->num_updated; ++i) {
    const uint32_t operand = region->updated[i];
    if (atomic_load(&arrays[operand]->references) > 1) kept[num_kept++] = operand;
  }
  ARGS(PJRT_ExecuteOptions, options, .launch_id = 0);
  /* In newer headers the member after launch_id lists the operands that must not be donated. */
  char *behind =
      (char *)options +
      ((offsetof(PJRT_ExecuteOptions, launch_id) + sizeof options->launch_id + 7) & ~7ul);
  memcpy(behind, &kept, sizeof kept);
  memcpy(behind + sizeof kept, &num_kept, sizeof num_kept);
  PJRT_Buffer **results = buffers + in;
  ARGS(PJRT_LoadedExecutable_Execute_Args, args, .executable = region->executable,
       .options = options, .argument_lists = (void *)&buffers, .num_devices = 1, .num_args = in,
       .output_lists = &results, .device_complete_events = out_done,
       .execute_device = a->is_portable ? a->devices[device_of(a, replica)] : NULL);
  TRY_OR_GOTO(take_error(a->api, a->api->PJRT_LoadedExecutable_Execute(args), &running, error),
              done);
  for (size_t i = 0; i < out; ++i) {
    trm_device_array **array = &arrays[in + i];
    *array = array_of(a, replica, results[i], &shape->elements[i]);
    fits = fits && *array != NULL;
  }
  if (!fits) status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for arrays");
done:
  trm_free(buffers);
  trm_free(kept);
  return status;
}
