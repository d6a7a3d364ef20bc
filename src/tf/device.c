/* Owns: the device `IPU`: a PluggableDevice whose memory is the host's.
 *
 * All calls are synchronous, so streams and events have nothing to wait for. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "observe.h"
#include "pool.h"
#include "tensorflow.h"
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "unit_build.h"

/* The original has two devices on machines without IPUs. */
enum { DEFAULT_DEVICES = 2 };

/* The plugin must define these types. They have no contents. */
struct SP_Stream_st {
  char unused;
};
struct SP_Event_st {
  char unused;
};
struct SP_Timer_st {
  char unused;
};

static struct SP_Stream_st the_stream;
static struct SP_Event_st the_event;

static void ok(TF_Status *status) { TF_SetStatus(status, TF_OK, ""); }

/* ---- Memory ---- */

static void allocate(const SP_Device *device, uint64_t size, int64_t space,
                     SP_DeviceMemoryBase *memory) {
  (void)device, (void)space;
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = trm_tf_pool_allocate(size);
  memory->size = memory->opaque ? size : 0;
}

static void deallocate(const SP_Device *device, SP_DeviceMemoryBase *memory) {
  (void)device;
  trm_tf_pool_release(memory->opaque);
  memory->opaque = NULL;
  memory->size = 0;
}

static void *host_allocate(const SP_Device *device, uint64_t size) {
  (void)device;
  return trm_tf_pool_allocate(size);
}

static void host_deallocate(const SP_Device *device, void *memory) {
  (void)device;
  trm_tf_pool_release(memory);
}

static TF_Bool allocator_stats(const SP_Device *device, SP_AllocatorStats *stats) {
  (void)device, (void)stats;
  return false; /* TensorFlow reports no failure then */
}

/* TensorFlow takes these sizes as limits for its own allocator, which the device does not use. */
static TF_Bool memory_usage(const SP_Device *device, int64_t *free_bytes, int64_t *total_bytes) {
  (void)device;
  *free_bytes = *total_bytes = (int64_t)1 << 40;
  return true;
}

static void copy(void *to, const void *from, uint64_t size, TF_Status *status) {
  trm_error error;
  trm_status fetched = trm_fetch_resident(from, &error);           /* from an accelerator */
  if (fetched == TRM_OK) fetched = trm_fetch_resident(to, &error); /* of which this may be a part */
  if (fetched != TRM_OK) {
    trm_tf_report(status, fetched, &error);
    return;
  }
  trm_forget_resident(to);
  if (size) memcpy(to, from, size);
  trm_tf_pool_touch(to);
  ok(status);
}

static void copy_out(const SP_Device *device, void *host, const SP_DeviceMemoryBase *memory,
                     uint64_t size, TF_Status *status) {
  (void)device;
  trm_tf_observe_read(memory->opaque);
  copy(host, memory->opaque, size, status);
}

static void copy_in(const SP_Device *device, SP_DeviceMemoryBase *memory, const void *host,
                    uint64_t size, TF_Status *status) {
  (void)device;
  copy(memory->opaque, host, size, status);
}

static void copy_within(const SP_Device *device, SP_DeviceMemoryBase *to,
                        const SP_DeviceMemoryBase *from, uint64_t size, TF_Status *status) {
  (void)device;
  copy(to->opaque, from->opaque, size, status);
}

static void stream_copy_out(const SP_Device *device, SP_Stream stream, void *host,
                            const SP_DeviceMemoryBase *memory, uint64_t size, TF_Status *status) {
  (void)stream;
  copy_out(device, host, memory, size, status);
}

static void stream_copy_in(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *memory,
                           const void *host, uint64_t size, TF_Status *status) {
  (void)stream;
  copy_in(device, memory, host, size, status);
}

static void stream_copy_within(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *to,
                               const SP_DeviceMemoryBase *from, uint64_t size, TF_Status *status) {
  (void)stream;
  copy_within(device, to, from, size, status);
}

static void fill_byte(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *memory,
                      uint8_t pattern, uint64_t size, TF_Status *status) {
  (void)device, (void)stream;
  trm_forget_resident(memory->opaque);
  if (size) memset(memory->opaque, pattern, size);
  trm_tf_pool_touch(memory->opaque);
  ok(status);
}

static void fill_zero(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *memory,
                      uint64_t size, TF_Status *status) {
  fill_byte(device, stream, memory, 0, size, status);
}

static void fill_word(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *memory,
                      uint32_t pattern, uint64_t size, TF_Status *status) {
  (void)device, (void)stream;
  trm_forget_resident(memory->opaque);
  for (uint64_t at = 0; at + sizeof pattern <= size; at += sizeof pattern) {
    memcpy((char *)memory->opaque + at, &pattern, sizeof pattern);
  }
  trm_tf_pool_touch(memory->opaque);
  ok(status);
}

/* ---- Streams, events, timers ---- */

static void create_stream(const SP_Device *device, SP_Stream *out_stream, TF_Status *status) {
  (void)device;
  *out_stream = &the_stream;
  ok(status);
}

static void destroy_stream(const SP_Device *device, SP_Stream stream) {
  (void)device, (void)stream;
}

static void stream_dependency(const SP_Device *device, SP_Stream dependent, SP_Stream other,
                              TF_Status *status) {
  (void)device, (void)dependent, (void)other;
  ok(status);
}

static void stream_status(const SP_Device *device, SP_Stream stream, TF_Status *status) {
  (void)device, (void)stream;
  ok(status);
}

static void create_event(const SP_Device *device, SP_Event *out_event, TF_Status *status) {
  (void)device;
  *out_event = &the_event;
  ok(status);
}

static void destroy_event(const SP_Device *device, SP_Event event) { (void)device, (void)event; }

static SE_EventStatus event_status(const SP_Device *device, SP_Event event) {
  (void)device, (void)event;
  return SE_EVENT_COMPLETE;
}

static void record_event(const SP_Device *device, SP_Stream stream, SP_Event event,
                         TF_Status *status) {
  (void)device, (void)stream, (void)event;
  ok(status);
}

static void block_for_event(const SP_Device *device, SP_Event event, TF_Status *status) {
  (void)device, (void)event;
  ok(status);
}

static void synchronize(const SP_Device *device, TF_Status *status) {
  (void)device;
  ok(status);
}

static TF_Bool host_callback(const SP_Device *device, SP_Stream stream,
                             SE_StatusCallbackFn callback, void *argument) {
  (void)device, (void)stream;
  TF_Status *status = TF_NewStatus();
  callback(argument, status);
  bool succeeded = TF_GetCode(status) == TF_OK;
  TF_DeleteStatus(status);
  return succeeded;
}

static uint64_t nanoseconds(SP_Timer timer) {
  (void)timer;
  return 0;
}

/* ---- The platform ---- */

int trm_tf_num_devices(void) {
  const char *text = getenv("TREMULA_NUM_DEVICES");
  if (text == NULL || *text == '\0') return DEFAULT_DEVICES;
  char *end;
  const long count = strtol(text, &end, 10);
  return *end == '\0' && count >= 1 && count <= TRM_TF_MAX_DEVICES ? (int)count : 0;
}

static void device_count(const SP_Platform *platform, int *out_count, TF_Status *status) {
  (void)platform;
  *out_count = trm_tf_num_devices();
  ok(status);
  if (*out_count > 0) return;
  *out_count = DEFAULT_DEVICES;
  TF_SetStatus(status, TF_INVALID_ARGUMENT, "TREMULA_NUM_DEVICES must be a number from 1 to 64.");
}

static void create_device(const SP_Platform *platform, SE_CreateDeviceParams *params,
                          TF_Status *status) {
  (void)platform;
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->hardware_name = "virtual IPU";
  params->device->device_vendor = "Tremula";
  ok(status);
}

static void destroy_device(const SP_Platform *platform, SP_Device *device) {
  (void)platform, (void)device;
}

/* Any node will do. Without one TensorFlow logs two lines in each session. */
static int32_t numa_node(const SP_Device *device) {
  (void)device;
  return 0;
}

static void create_device_functions(const SP_Platform *platform, SE_CreateDeviceFnsParams *params,
                                    TF_Status *status) {
  (void)platform;
  params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
  params->device_fns->get_numa_node = numa_node;
  ok(status);
}

static void destroy_device_functions(const SP_Platform *platform, SP_DeviceFns *functions) {
  (void)platform, (void)functions;
}

static void create_executor(const SP_Platform *platform, SE_CreateStreamExecutorParams *params,
                            TF_Status *status) {
  (void)platform;
  *params->stream_executor = (SP_StreamExecutor){
      .struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE,
      .allocate = allocate,
      .deallocate = deallocate,
      .host_memory_allocate = host_allocate,
      .host_memory_deallocate = host_deallocate,
      .get_allocator_stats = allocator_stats,
      .device_memory_usage = memory_usage,
      .create_stream = create_stream,
      .destroy_stream = destroy_stream,
      .create_stream_dependency = stream_dependency,
      .get_stream_status = stream_status,
      .create_event = create_event,
      .destroy_event = destroy_event,
      .get_event_status = event_status,
      .record_event = record_event,
      .wait_for_event = record_event,
      .memcpy_dtoh = stream_copy_out,
      .memcpy_htod = stream_copy_in,
      .memcpy_dtod = stream_copy_within,
      .sync_memcpy_dtoh = copy_out,
      .sync_memcpy_htod = copy_in,
      .sync_memcpy_dtod = copy_within,
      .block_host_for_event = block_for_event,
      .block_host_until_done = stream_status,
      .synchronize_all_activity = synchronize,
      .host_callback = host_callback,
      .mem_zero = fill_zero,
      .memset = fill_byte,
      .memset32 = fill_word,
  };
  ok(status);
}

static void destroy_executor(const SP_Platform *platform, SP_StreamExecutor *executor) {
  (void)platform, (void)executor;
}

static void create_timer_functions(const SP_Platform *platform, SP_TimerFns *functions,
                                   TF_Status *status) {
  (void)platform;
  functions->nanoseconds = nanoseconds;
  ok(status);
}

static void destroy_timer_functions(const SP_Platform *platform, SP_TimerFns *functions) {
  (void)platform, (void)functions;
}

static void destroy_platform(SP_Platform *platform) { (void)platform; }
static void destroy_platform_functions(SP_PlatformFns *functions) { (void)functions; }

TRM_TF_API void SE_InitPlugin(SE_PlatformRegistrationParams *params, TF_Status *status);

void SE_InitPlugin(SE_PlatformRegistrationParams *params, TF_Status *status) {
  trm_tf_log_quieten(trm_tf_tensorflow_version());
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "POPLAR";
  params->platform->type = "IPU";
  params->platform->use_bfc_allocator = false; /* the pool tracks generations of blocks */
  SP_PlatformFns *functions = params->platform_fns;
  functions->get_device_count = device_count;
  functions->create_device = create_device;
  functions->destroy_device = destroy_device;
  functions->create_device_fns = create_device_functions;
  functions->destroy_device_fns = destroy_device_functions;
  functions->create_stream_executor = create_executor;
  functions->destroy_stream_executor = destroy_executor;
  functions->create_timer_fns = create_timer_functions;
  functions->destroy_timer_fns = destroy_timer_functions;
  params->destroy_platform = destroy_platform;
  params->destroy_platform_fns = destroy_platform_functions;
  ok(status);
}
