/* Owns: PJRT, the C interface of the plugins: loading, devices, buffers, executables, errors.
 *
 * PJRT's rules (xla/pjrt/c/README.md): structs and the table of functions only grow within a major
 * version, and each says its size. So this code asks for version 0, for a table at least as long as
 * what it calls, and passes the sizes of the header that it was compiled with. */
#define _GNU_SOURCE
#include "accelerator/accelerator.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xla/pjrt/c/pjrt_c_api.h>
#include <xxhash.h>

#include "accelerator/find.h"
#include "base/memory.h"
#include "timeline/mark.h"
#include "tremula/log.h"

struct trm_accelerator {
  const PJRT_Api *api;
  PJRT_Client *client;
  PJRT_Device *device;
  int device_number; /* among the client's */
  char name[256];
};

struct trm_region {
  trm_region *next; /* of all regions that are compiled */
  int references;   /* under regions_lock */
  XXH128_hash_t key;
  trm_accelerator *accelerator;
  PJRT_LoadedExecutable *executable;
};

static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;
static trm_region *regions;

/* A struct of PJRT's with zeros behind it, and a pointer to it. A plugin that is newer than the
 * header refuses structs that are shorter than its own; members that the header does not know are
 * zero, which is the default of each. */
enum { NEWER_MEMBERS = 256 };
#define ARGS(type, name, ...)                                                  \
  struct name##_block {                                                        \
    type own;                                                                  \
    char newer[NEWER_MEMBERS];                                                 \
  } name##_block = {.own = {.struct_size = sizeof name##_block, __VA_ARGS__}}; \
  type *const name = &name##_block.own

/* ---- Errors --------------------------------------------------------------------------------- */

/* Takes PJRT's error, whose codes are those of trm_status. */
static trm_status take_error(const PJRT_Api *api, PJRT_Error *problem, const char *what,
                             trm_error *error) {
  if (problem == NULL) return TRM_OK;
  ARGS(PJRT_Error_Message_Args, message, .error = problem);
  api->PJRT_Error_Message(message);
  ARGS(PJRT_Error_GetCode_Args, code, .error = problem);
  PJRT_Error *other = api->PJRT_Error_GetCode(code);
  const trm_status status =
      other == NULL && code->code > 0 && code->code <= 15 ? (trm_status)code->code : TRM_UNKNOWN;
  trm_fail(error, status, "%s: %.*s", what, (int)message->message_size, message->message);
  ARGS(PJRT_Error_Destroy_Args, own, .error = problem);
  api->PJRT_Error_Destroy(own);
  if (other != NULL) {
    own->error = other;
    api->PJRT_Error_Destroy(own);
  }
  return status;
}

/* Waits for an event and releases it. */
static trm_status await(const PJRT_Api *api, PJRT_Event *event, const char *what,
                        trm_error *error) {
  if (event == NULL) return TRM_OK;
  ARGS(PJRT_Event_Await_Args, wait, .event = event);
  const trm_status status = take_error(api, api->PJRT_Event_Await(wait), what, error);
  ARGS(PJRT_Event_Destroy_Args, destroy, .event = event);
  take_error(api, api->PJRT_Event_Destroy(destroy), what, &(trm_error){0});
  return status;
}

/* ---- Plugins -------------------------------------------------------------------------------- */

static trm_status check_version(const PJRT_Api *api, const char *path, trm_error *error) {
  const int major = api->pjrt_api_version.major_version;
  const int minor = api->pjrt_api_version.minor_version;
  if (major != PJRT_API_MAJOR ||
      api->struct_size < PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Buffer_ToHostBuffer)) {
    FAIL(FAILED_PRECONDITION,
         "The accelerator's plugin %s has version %d.%d of the PJRT API; Tremula needs %d.%d or a "
         "later one of the same major version. Install another version of the plugin.",
         path, major, minor, PJRT_API_MAJOR, PJRT_API_MINOR);
  }
  return TRM_OK;
}

static trm_status load(const char *path, const PJRT_Api **out_api, trm_error *error) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    FAIL(
        NOT_FOUND,
        "The accelerator's plugin cannot be loaded: %s. TREMULA_ACCELERATOR is the path of a PJRT "
        "plugin, or a name such as cuda whose plugin is installed (pip install \"tremula[cuda]\").",
        dlerror());
  }
  const PJRT_Api *(*get)(void);
  void *symbol = dlsym(library, "GetPjrtApi");
  memcpy(&get, &symbol, sizeof get);
  const PJRT_Api *api = symbol != NULL ? get() : NULL;
  if (api == NULL) {
    dlclose(library);
    FAIL(INVALID_ARGUMENT, "%s is no PJRT plugin: it has no function GetPjrtApi.", path);
  }
  TRY(check_version(api, path, error));
  ARGS(PJRT_Plugin_Initialize_Args, initialize, .priv = NULL);
  TRY(take_error(api, api->PJRT_Plugin_Initialize(initialize), "the accelerator's plugin", error));
  *out_api = api;
  return TRM_OK;
}

static trm_status open_device(trm_accelerator *a, const char *wanted, trm_error *error) {
  char path[TRM_PLUGIN_PATH];
  int number;
  TRY(trm_plugin_find(wanted, path, &number, error));
  TRY(load(path, &a->api, error));
  ARGS(PJRT_Client_Create_Args, create, .priv = NULL);
  TRY(take_error(a->api, a->api->PJRT_Client_Create(create), "the accelerator", error));
  a->client = create->client;
  ARGS(PJRT_Client_PlatformName_Args, name, .client = a->client);
  TRY(take_error(a->api, a->api->PJRT_Client_PlatformName(name), "the accelerator", error));
  ARGS(PJRT_Client_AddressableDevices_Args, devices, .client = a->client);
  TRY(take_error(a->api, a->api->PJRT_Client_AddressableDevices(devices), "the accelerator",
                 error));
  if ((size_t)number >= devices->num_addressable_devices) {
    FAIL(NOT_FOUND, "TREMULA_ACCELERATOR names device %d of %s, which has %zu.", number, path,
         devices->num_addressable_devices);
  }
  a->device = devices->addressable_devices[number];
  a->device_number = number;
  snprintf(a->name, sizeof a->name, "%.*s:%d", (int)name->platform_name_size, name->platform_name,
           number);
  trm_log(TRM_LOG_INFO, "ACCELERATOR", "the accelerator is %s, by %s, PJRT %d.%d", a->name, path,
          a->api->pjrt_api_version.major_version, a->api->pjrt_api_version.minor_version);
  return TRM_OK;
}

trm_status trm_accelerator_get(trm_accelerator **out, trm_error *error) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static trm_accelerator device, *chosen;
  static trm_error why;
  static bool was_tried;
  *out = NULL;
  const char *wanted = getenv("TREMULA_ACCELERATOR");
  if (wanted == NULL || *wanted == '\0') return TRM_OK;
  pthread_mutex_lock(&lock);
  if (!was_tried) {
    was_tried = true;
    if (open_device(&device, wanted, &why) == TRM_OK) chosen = &device;
  }
  pthread_mutex_unlock(&lock);
  *out = chosen;
  return chosen != NULL ? TRM_OK : trm_fail(error, why.status, "%s", why.message);
}

const char *trm_accelerator_name(const trm_accelerator *accelerator) { return accelerator->name; }

/* ---- Arrays --------------------------------------------------------------------------------- */

static PJRT_Buffer_Type type_of(trm_dtype dtype) {
  switch (dtype) {
    case TRM_PRED: return PJRT_Buffer_Type_PRED;
    case TRM_S8: return PJRT_Buffer_Type_S8;
    case TRM_S16: return PJRT_Buffer_Type_S16;
    case TRM_S32: return PJRT_Buffer_Type_S32;
    case TRM_S64: return PJRT_Buffer_Type_S64;
    case TRM_U8: return PJRT_Buffer_Type_U8;
    case TRM_U16: return PJRT_Buffer_Type_U16;
    case TRM_U32: return PJRT_Buffer_Type_U32;
    case TRM_U64: return PJRT_Buffer_Type_U64;
    case TRM_F16: return PJRT_Buffer_Type_F16;
    case TRM_F32: return PJRT_Buffer_Type_F32;
    case TRM_F64: return PJRT_Buffer_Type_F64;
    case TRM_BF16: return PJRT_Buffer_Type_BF16;
    default: return PJRT_Buffer_Type_INVALID;
  }
}

bool trm_accelerator_has_type(trm_dtype dtype) {
  return type_of(dtype) != PJRT_Buffer_Type_INVALID;
}

static PJRT_Buffer *buffer_of(trm_device_array *array) { return (PJRT_Buffer *)array; }

trm_status trm_device_array_create(trm_accelerator *a, const trm_host_array *array,
                                   trm_device_array **out, trm_error *error) {
  ARGS(PJRT_Client_BufferFromHostBuffer_Args, args, .client = a->client, .data = array->data,
       .type = type_of(array->dtype), .dims = array->dims, .num_dims = (size_t)array->rank,
       .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
       .device = a->device);
  static const char what[] = "copying to the accelerator";
  TRY(take_error(a->api, a->api->PJRT_Client_BufferFromHostBuffer(args), what, error));
  const trm_status status = await(a->api, args->done_with_host_buffer, what, error);
  *out = (trm_device_array *)args->buffer;
  if (status != TRM_OK) trm_device_array_free(a, *out);
  return status;
}

void trm_device_array_free(trm_accelerator *a, trm_device_array *array) {
  if (array == NULL) return;
  ARGS(PJRT_Buffer_Destroy_Args, args, .buffer = buffer_of(array));
  take_error(a->api, a->api->PJRT_Buffer_Destroy(args), "an array", &(trm_error){0});
}

static trm_status copy_back(trm_accelerator *a, PJRT_Buffer *buffer, const trm_host_array *array,
                            PJRT_Event **out_event, trm_error *error) {
  int64_t order[32];
  if (array->rank > 32) FAIL(UNIMPLEMENTED, "an array of rank %d", array->rank);
  for (int32_t d = 0; d < array->rank; ++d) order[d] = array->rank - 1 - d;
  PJRT_Buffer_MemoryLayout layout = {
      .struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
      .tiled = {.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
                .minor_to_major = order,
                .minor_to_major_size = (size_t)array->rank},
      .type = PJRT_Buffer_MemoryLayout_Type_Tiled};
  ARGS(PJRT_Buffer_ToHostBuffer_Args, args, .src = buffer, .host_layout = &layout,
       .dst = array->data, .dst_size = array->bytes);
  TRY(take_error(a->api, a->api->PJRT_Buffer_ToHostBuffer(args), "copying from the accelerator",
                 error));
  *out_event = args->event;
  return TRM_OK;
}

/* ---- Regions -------------------------------------------------------------------------------- */

/* A CompileOptionsProto with one replica and one partition on device N:
 * executable_build_options (3) { device_ordinal (1), num_replicas (4), num_partitions (5) }. */
static size_t compile_options(const trm_accelerator *a, char out[16]) {
  const char text[] = {0x1a, 6, 0x08, (char)a->device_number, 0x20, 1, 0x28, 1};
  memcpy(out, text, sizeof text);
  return sizeof text;
}

static trm_status compile(trm_region *region, const void *module, size_t size, trm_error *error) {
  const trm_accelerator *a = region->accelerator;
  char options[16];
  ARGS(PJRT_Program, program, .code = (char *)(uintptr_t)module, .code_size = size, .format = "hlo",
       .format_size = 3);
  ARGS(PJRT_Client_Compile_Args, args, .client = a->client, .program = program,
       .compile_options = options, .compile_options_size = compile_options(a, options));
  const trm_mark mark = trm_mark_begin(TRM_TIMELINE_DRIVERS, "compile for %s", a->name);
  const trm_status status =
      take_error(a->api, a->api->PJRT_Client_Compile(args), "compiling for the accelerator", error);
  trm_mark_end(&mark);
  region->executable = args->executable;
  return status;
}

static trm_region *find(XXH128_hash_t key) {
  trm_region *region = regions;
  while (region != NULL && !XXH128_isEqual(region->key, key)) region = region->next;
  if (region != NULL) ++region->references;
  return region;
}

trm_status trm_region_compile(trm_accelerator *a, const void *module, size_t size, trm_region **out,
                              trm_error *error) {
  const XXH128_hash_t key = XXH3_128bits(module, size);
  pthread_mutex_lock(&regions_lock);
  *out = find(key);
  pthread_mutex_unlock(&regions_lock);
  if (*out != NULL) return TRM_OK;
  trm_region *region = trm_allocate_zeroed(1, sizeof *region);
  CHECK_MEMORY(region, "a region");
  *region = (trm_region){.references = 1, .key = key, .accelerator = a};
  const trm_status status = compile(region, module, size, error);
  if (status != TRM_OK) {
    trm_free(region);
    return status;
  }
  pthread_mutex_lock(&regions_lock);
  region->next = regions;
  regions = region;
  pthread_mutex_unlock(&regions_lock);
  *out = region;
  return TRM_OK;
}

void trm_region_key(const trm_region *region, char out_key[33]) {
  snprintf(out_key, 33, "%016llx%016llx", (unsigned long long)region->key.high64,
           (unsigned long long)region->key.low64);
}

trm_region *trm_region_take(const char *key) {
  char own[33];
  pthread_mutex_lock(&regions_lock);
  trm_region *region = regions;
  for (; region != NULL; region = region->next) {
    trm_region_key(region, own);
    if (strcmp(own, key) == 0) break;
  }
  pthread_mutex_unlock(&regions_lock);
  return region;
}

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
  ARGS(PJRT_LoadedExecutable_Destroy_Args, args, .executable = region->executable);
  take_error(api, api->PJRT_LoadedExecutable_Destroy(args), "a region", &(trm_error){0});
  trm_free(region);
}

trm_accelerator *trm_region_accelerator(const trm_region *region) { return region->accelerator; }

static trm_status copy_all_back(trm_accelerator *a, PJRT_Buffer **buffers,
                                const trm_host_array *results, size_t count, trm_error *error) {
  PJRT_Event **events = trm_allocate_zeroed(count + 1, sizeof *events);
  CHECK_MEMORY(events, "results of an accelerator");
  trm_status status = TRM_OK;
  for (size_t i = 0; i < count && status == TRM_OK; ++i) {
    status = copy_back(a, buffers[i], &results[i], &events[i], error);
  }
  for (size_t i = 0; i < count; ++i) {
    const trm_status copied = await(a->api, events[i], "copying from the accelerator",
                                    status == TRM_OK ? error : &(trm_error){0});
    if (status == TRM_OK) status = copied;
  }
  trm_free(events);
  return status;
}

trm_status trm_region_run(const trm_region *region, trm_device_array *const *operands,
                          size_t num_operands, const trm_host_array *results, size_t num_results,
                          trm_error *error) {
  trm_accelerator *a = region->accelerator;
  PJRT_Buffer **outputs = trm_allocate_zeroed(num_results + 1, sizeof *outputs);
  CHECK_MEMORY(outputs, "results of an accelerator");
  ARGS(PJRT_ExecuteOptions, options, .priv = NULL);
  PJRT_Buffer **arguments = (PJRT_Buffer **)(uintptr_t)operands;
  PJRT_Event *done = NULL;
  ARGS(PJRT_LoadedExecutable_Execute_Args, args, .executable = region->executable,
       .options = options, .argument_lists = &arguments, .num_devices = 1, .num_args = num_operands,
       .output_lists = &outputs, .device_complete_events = &done);
  static const char what[] = "running on the accelerator";
  trm_status status = take_error(a->api, a->api->PJRT_LoadedExecutable_Execute(args), what, error);
  if (status == TRM_OK) status = copy_all_back(a, outputs, results, num_results, error);
  const trm_status ended = await(a->api, done, what, status == TRM_OK ? error : &(trm_error){0});
  if (status == TRM_OK) status = ended;
  for (size_t i = 0; i < num_results; ++i) {
    trm_device_array_free(a, (trm_device_array *)outputs[i]);
  }
  trm_free(outputs);
  return status;
}
