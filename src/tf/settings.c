/* Owns: the configuration of the TF devices, and the virtual IPUs that are attached to them. */
#define _POSIX_C_SOURCE 200809L
#include "settings.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/wait.h"
#include "interrupt.h"
#include "log.h"
#include "tremula/device.h"

/* ---- Attaching ------------------------------------------------------------------------------ */

enum { SLICE_MS = 50 };

typedef struct slot {
  trm_device *device; /* the attached device, or NULL */
  trm_tf_attach_request
      request;   /* the request for an attachment on demand, if num_ipus or num_ids is not 0 */
  uint32_t *ids; /* the ids of the request */
} slot;

/* `slots_lock` guards the slots and is held briefly. A thread that attaches on demand also holds
 * the device's `attaching`, perhaps for minutes. */
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t attaching[TRM_TF_MAX_DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static slot slots[TRM_TF_MAX_DEVICES];
static uint64_t resets; /* number of resets of the configuration */

static void make_locks(void) {
  for (int i = 0; i < TRM_TF_MAX_DEVICES; ++i) pthread_mutex_init(&attaching[i], NULL);
}

static void name_of(int ordinal, char name[32]) { snprintf(name, 32, "/device:IPU:%d", ordinal); }

static void log_attached(int ordinal, const trm_device *device) {
  trm_tf_log_at(TRM_TF_PLACE_ATTACHED, "Device /device:IPU:%d attached to %s", ordinal,
                trm_device_description(device));
}

static trm_device_request device_request(const char *name, const trm_tf_attach_request *request) {
  return (trm_device_request){.name = name,
                              .num_ipus = request->num_ids ? 0 : request->num_ipus,
                              .ids = request->ids,
                              .num_ids = request->num_ids};
}

/* Whether the device attaches at its first use. Call this and the next function with the lock held.
 */
static bool is_due(const slot *s) {
  return s->device == NULL && (s->request.num_ipus > 0 || s->request.num_ids > 0);
}

static void empty(slot *s) {
  trm_device_release(s->device);
  trm_free(s->ids);
  *s = (slot){0};
}

static trm_status check_ordinal(int ordinal, trm_error *error) {
  pthread_once(&once, make_locks);
  if (ordinal >= 0 && ordinal < TRM_TF_MAX_DEVICES) return TRM_OK;
  FAIL(INVALID_ARGUMENT, "There are %d TF devices at most.", TRM_TF_MAX_DEVICES);
}

/* Attaches /device:IPU:`ordinal`, after it has released its former device. Tries once. */
static trm_status attach_now(int ordinal, const trm_tf_attach_request *request, trm_error *error) {
  TRY(check_ordinal(ordinal, error));
  char name[32];
  name_of(ordinal, name);
  const trm_device_request wanted = device_request(name, request);
  trm_device *device = NULL;
  pthread_mutex_lock(&slots_lock);
  empty(&slots[ordinal]);
  const trm_status status = trm_device_attach(NULL, &wanted, &device, error);
  if (status == TRM_OK) {
    slots[ordinal].device = device;
    log_attached(ordinal, device);
  }
  pthread_mutex_unlock(&slots_lock);
  return status;
}

/* ---- On demand ---- */

/* Marks the IPUs of the ids; false if one is already marked. */
static bool mark(const trm_inventory *inventory, const uint32_t *ids, uint32_t num_ids,
                 bool *marks) {
  bool is_new = true;
  for (uint32_t i = 0; i < num_ids; ++i) {
    uint32_t count;
    const uint32_t *members = trm_inventory_members(inventory, ids[i], &count);
    for (uint32_t m = 0; m < count; ++m) {
      if (marks[members[m]]) is_new = false;
      marks[members[m]] = true;
    }
  }
  return is_new;
}

/* The number of IPUs of a request. */
static uint64_t request_size(const trm_inventory *inventory, const trm_tf_attach_request *request) {
  uint64_t total = request->num_ids ? 0 : request->num_ipus;
  for (uint32_t i = 0; i < request->num_ids; ++i) {
    uint32_t count;
    trm_inventory_members(inventory, request->ids[i], &count);
    total += count;
  }
  return total;
}

/* Refuses a request for IPUs of the same process, which would wait for itself. Call with the lock
 * held. */
static trm_status check_overlap(const trm_inventory *inventory, int ordinal,
                                const trm_tf_attach_request *request, trm_error *error) {
  bool *marks = trm_allocate_zeroed(trm_inventory_num_ipus(inventory), sizeof *marks);
  CHECK_MEMORY(marks, "the IPUs of the inventory");
  uint64_t total = request_size(inventory, request);
  for (int i = 0; i < TRM_TF_MAX_DEVICES; ++i) {
    if (i == ordinal) continue;
    total += request_size(inventory, &slots[i].request);
    mark(inventory, slots[i].request.ids, slots[i].request.num_ids, marks);
    const uint32_t count = slots[i].device ? trm_device_num_ipus(slots[i].device) : 0;
    for (uint32_t m = 0; m < count; ++m) {
      const uint32_t id = trm_device_ipu(slots[i].device, m)->id;
      if (id < trm_inventory_num_ipus(inventory)) marks[id] = true;
    }
  }
  const bool is_apart = mark(inventory, request->ids, request->num_ids, marks);
  trm_free(marks);
  if (!is_apart) {
    FAIL(INVALID_ARGUMENT,
         "/device:IPU:%d is to have IPUs that another device of this process has too. The ids in "
         "`select_ipus` must not share IPUs; `gc-info -l` lists their members.",
         ordinal);
  }
  if (total > trm_inventory_num_ipus(inventory)) {
    FAIL(INVALID_ARGUMENT,
         "The devices of this process are to have %llu IPUs together, but the inventory %s has %u. "
         "The environment variable TREMULA_INVENTORY chooses another inventory.",
         (unsigned long long)total, trm_inventory_name(inventory),
         trm_inventory_num_ipus(inventory));
  }
  return TRM_OK;
}

/* Copies the request to the empty slot. Call with the lock held. */
static trm_status keep_request(slot *s, const trm_tf_attach_request *request, trm_error *error) {
  s->ids = trm_allocate_zeroed(request->num_ids, sizeof *s->ids);
  CHECK_MEMORY(s->ids, "the ids of a device");
  if (request->num_ids) memcpy(s->ids, request->ids, request->num_ids * sizeof *s->ids);
  s->request = *request;
  s->request.ids = s->ids;
  return TRM_OK;
}

/* Keeps the request until the device's first use. Fails for IPUs that the inventory does not have,
 * and for ids that another device of this process has or waits for. */
static trm_status attach_later(int ordinal, const trm_tf_attach_request *request,
                               trm_error *error) {
  TRY(check_ordinal(ordinal, error));
  char name[32];
  name_of(ordinal, name);
  const trm_device_request wanted = device_request(name, request);
  trm_inventory *inventory = NULL;
  TRY(trm_inventory_load(NULL, &inventory, error));
  trm_status status = trm_device_check(inventory, &wanted, error);
  if (status == TRM_OK) {
    pthread_mutex_lock(&slots_lock);
    empty(&slots[ordinal]);
    status = check_overlap(inventory, ordinal, request, error);
    if (status == TRM_OK) status = keep_request(&slots[ordinal], request, error);
    pthread_mutex_unlock(&slots_lock);
  }
  trm_inventory_release(inventory);
  return status;
}

static bool is_interrupted(unsigned interrupts_before) {
  return trm_tf_interrupt_count() != interrupts_before || trm_tf_interrupt_is_due();
}

/* Sleeps until `until`. False if the configuration is reset or Ctrl-C is pressed before. */
static bool sleep_until(double until, uint64_t resets_before, unsigned interrupts_before) {
  for (;;) {
    pthread_mutex_lock(&slots_lock);
    const bool same = resets == resets_before && !is_interrupted(interrupts_before);
    pthread_mutex_unlock(&slots_lock);
    const double left = until - trm_now_ms();
    if (!same || left <= 0) return same;
    trm_sleep_ms(left < SLICE_MS ? 1 + (int)left : SLICE_MS);
  }
}

/* Tries once to attach a device at its first use; TRM_OK also if it is attached already.
 * *out_is_reset: the configuration has changed. */
static trm_status try_to_attach(int ordinal, uint64_t resets_before, bool *out_is_reset,
                                trm_tf_attach_request *out_request, trm_error *error) {
  slot *s = &slots[ordinal];
  char name[32];
  name_of(ordinal, name);
  trm_status status = TRM_OK;
  pthread_mutex_lock(&slots_lock);
  *out_is_reset = resets != resets_before;
  if (!*out_is_reset && is_due(s)) {
    *out_request = s->request;
    const trm_device_request wanted = device_request(name, &s->request);
    status = trm_device_attach(NULL, &wanted, &s->device, error);
    if (status == TRM_OK) log_attached(ordinal, s->device);
  }
  pthread_mutex_unlock(&slots_lock);
  return status;
}

/* Call with attaching[ordinal] held. */
static trm_status attach_waiting(int ordinal, trm_error *error) {
  const double started = trm_now_ms();
  const unsigned interrupts_before = trm_tf_interrupt_count();
  pthread_mutex_lock(&slots_lock);
  const uint64_t resets_before = resets;
  pthread_mutex_unlock(&slots_lock);
  for (bool waited = false;; waited = true) {
    bool is_reset;
    trm_tf_attach_request request = {0};
    const trm_status status = try_to_attach(ordinal, resets_before, &is_reset, &request, error);
    if (is_reset) break;
    /* Waiting helps only if the IPUs are taken. */
    if (status != TRM_INTERNAL && status != TRM_UNAVAILABLE) return status;
    const double left = started + request.timeout_ms - trm_now_ms();
    if (left <= 0) return status;
    if (!waited) {
      TRM_TF_INFO(
          "/device:IPU:%d waits for IPUs that others have, for up to %u s; it tries every %u ms "
          "(gc-monitor shows who has them)",
          ordinal, request.timeout_ms / 1000, request.poll_ms);
    }
    const double pause = left < request.poll_ms ? left : request.poll_ms;
    if (!sleep_until(trm_now_ms() + pause, resets_before, interrupts_before)) break;
  }
  if (is_interrupted(interrupts_before)) {
    FAIL(CANCELLED, "/device:IPU:%d waited for IPUs and was interrupted.", ordinal);
  }
  FAIL(CANCELLED, "/device:IPU:%d waited for IPUs while the IPU configuration was reset.", ordinal);
}

/* Attaches a device at its first use; returns at once for other devices. */
static trm_status attach_on_use(int ordinal, trm_error *error) {
  TRY(check_ordinal(ordinal, error));
  pthread_mutex_lock(&slots_lock);
  const bool waits = is_due(&slots[ordinal]);
  pthread_mutex_unlock(&slots_lock);
  if (!waits) return TRM_OK;
  pthread_mutex_lock(&attaching[ordinal]);
  trm_tf_interrupt_watch();
  const trm_status status = attach_waiting(ordinal, error);
  trm_tf_interrupt_unwatch();
  pthread_mutex_unlock(&attaching[ordinal]);
  return status;
}

/* Releases every device and drops the requests. */
static void release_all(void) {
  pthread_mutex_lock(&slots_lock);
  ++resets;
  for (int i = 0; i < TRM_TF_MAX_DEVICES; ++i) empty(&slots[i]);
  pthread_mutex_unlock(&slots_lock);
}

/* ---- The configuration ---------------------------------------------------------------------- */

typedef struct device_settings {
  char *options; /* NULL: not configured */
  char *cache_path;
  trm_tf_connection connection;
  trm_tf_distribution distribution;
} device_settings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static device_settings devices[TRM_TF_MAX_DEVICES];
static bool configured;
static uint32_t synthetic;
static char synthetic_initializer[TRM_TF_INITIALIZER_SIZE];
static uint64_t generation = 1;
static uint64_t epoch;
static trm_tf_first_use first_use;
static pthread_mutex_t first_use_lock = PTHREAD_MUTEX_INITIALIZER; /* while Python configures */
static uint64_t seed;
static uint64_t seed_generation = 1;

static void log_unconfigured(void) {
  TRM_TF_INFO(
      "No IPU device was configured for /device:IPU:0, creating a device with a single IPU.");
}

/* Call with the lock held. */
static trm_status set(int ordinal, const char *options, const char *cache_path,
                      trm_tf_connection connection, trm_tf_distribution distribution,
                      trm_error *error) {
  const device_settings changed = {trm_tf_copy_text(options), trm_tf_copy_text(cache_path),
                                   connection, distribution};
  if (changed.options == NULL || changed.cache_path == NULL) {
    trm_free(changed.options);
    trm_free(changed.cache_path);
    FAIL_NO_MEMORY("the configuration of a device");
  }
  trm_free(devices[ordinal].options);
  trm_free(devices[ordinal].cache_path);
  devices[ordinal] = changed;
  configured = true;
  ++generation;
  return TRM_OK;
}

/* Whether this is the first use of a device that nobody has configured: the first device, or one
 * that the configuration does not name. */
static bool is_first_use(int ordinal) {
  pthread_mutex_lock(&lock);
  const bool is = ordinal >= 0 && ordinal < TRM_TF_MAX_DEVICES && !devices[ordinal].options &&
                  (ordinal == 0 || configured);
  pthread_mutex_unlock(&lock);
  return is;
}

/* Without Python, as with SavedModels in C++, trm_tf_settings_snapshot takes defaults. */
static trm_status configure_by_python(int ordinal, trm_error *error) {
  char message[TRM_ERROR_SIZE] = "";
  pthread_mutex_lock(&first_use_lock);
  pthread_mutex_lock(&lock);
  const trm_tf_first_use callback = devices[ordinal].options ? NULL : first_use;
  pthread_mutex_unlock(&lock);
  if (callback) log_unconfigured();
  const int32_t code = callback ? callback(ordinal, message, sizeof message) : TRM_OK;
  pthread_mutex_unlock(&first_use_lock);
  return code == TRM_OK ? TRM_OK : trm_fail(error, (trm_status)code, "%s", message);
}

void trm_tf_set_first_use(trm_tf_first_use callback) {
  pthread_mutex_lock(&lock);
  first_use = callback;
  pthread_mutex_unlock(&lock);
}

/* Call with the lock held. */
static trm_status take_snapshot(int ordinal, trm_tf_snapshot *out, trm_error *error) {
  if (!configured && ordinal == 0) {
    log_unconfigured();
    TRY(attach_now(0, &(trm_tf_attach_request){.num_ipus = 1}, error));
    TRY(set(0, "", "", TRM_TF_CONNECT_ALWAYS, (trm_tf_distribution){0}, error));
  }
  const bool is_known = ordinal >= 0 && ordinal < TRM_TF_MAX_DEVICES && devices[ordinal].options;
  if (!is_known && configured) {
    FAIL(FAILED_PRECONDITION,
         "Device ordinal %d not in device configuration list: the configuration names fewer "
         "devices than the program uses. Give IPUConfig.auto_select_ipus one number for each "
         "device, such as [1, 1].",
         ordinal);
  }
  if (!is_known) {
    FAIL(FAILED_PRECONDITION,
         "No device target has been configured for /device:IPU:%d. Did you configure the IPU "
         "devices by running `tensorflow.python.ipu.utils.configure_ipu_system(ipu_options)`?",
         ordinal);
  }
  *out = (trm_tf_snapshot){.options = trm_tf_copy_text(devices[ordinal].options),
                           .cache_path = trm_tf_copy_text(devices[ordinal].cache_path),
                           .connection = devices[ordinal].connection,
                           .distribution = devices[ordinal].distribution,
                           .generation = generation,
                           .epoch = epoch};
  if (out->options == NULL || out->cache_path == NULL) {
    FAIL_NO_MEMORY("the configuration of a device");
  }
  return TRM_OK;
}

trm_status trm_tf_settings_snapshot(int ordinal, trm_tf_snapshot *out, trm_error *error) {
  *out = (trm_tf_snapshot){0};
  if (is_first_use(ordinal)) TRY(configure_by_python(ordinal, error));
  pthread_mutex_lock(&lock);
  const trm_status status = take_snapshot(ordinal, out, error);
  pthread_mutex_unlock(&lock);
  if (status != TRM_OK) trm_tf_snapshot_free(out);
  return status;
}

void trm_tf_snapshot_free(trm_tf_snapshot *snapshot) {
  trm_free(snapshot->options);
  trm_free(snapshot->cache_path);
  snapshot->options = snapshot->cache_path = NULL;
}

uint64_t trm_tf_settings_generation(void) {
  pthread_mutex_lock(&lock);
  const uint64_t value = generation;
  pthread_mutex_unlock(&lock);
  return value;
}

trm_status trm_tf_settings_before_run(int ordinal, bool *out_runs, trm_error *error) {
  pthread_mutex_lock(&lock);
  const trm_tf_connection connection = ordinal >= 0 && ordinal < TRM_TF_MAX_DEVICES
                                           ? devices[ordinal].connection
                                           : TRM_TF_CONNECT_ALWAYS;
  pthread_mutex_unlock(&lock);
  *out_runs = connection != TRM_TF_CONNECT_PRE_COMPILE;
  if (connection == TRM_TF_CONNECT_NEVER) {
    FAIL(INVALID_ARGUMENT,
         "Trying to run an executable on a device that was configured for compilation only.");
  }
  return connection == TRM_TF_CONNECT_ON_DEMAND ? attach_on_use(ordinal, error) : TRM_OK;
}

bool trm_tf_settings_only_compile(void) {
  pthread_mutex_lock(&lock);
  const bool only = configured && devices[0].connection == TRM_TF_CONNECT_PRE_COMPILE;
  pthread_mutex_unlock(&lock);
  return only;
}

uint32_t trm_tf_settings_synthetic(char initializer[TRM_TF_INITIALIZER_SIZE]) {
  pthread_mutex_lock(&lock);
  const uint32_t value = synthetic;
  if (initializer) memcpy(initializer, synthetic_initializer, TRM_TF_INITIALIZER_SIZE);
  pthread_mutex_unlock(&lock);
  return value;
}

uint64_t trm_tf_settings_seed(uint64_t *out_generation) {
  pthread_mutex_lock(&lock);
  const uint64_t value = seed;
  *out_generation = seed_generation;
  pthread_mutex_unlock(&lock);
  return value;
}

void trm_tf_settings_begin_epoch(void) {
  pthread_mutex_lock(&lock);
  ++epoch;
  ++generation;
  pthread_mutex_unlock(&lock);
}

/* ---- For Python ----------------------------------------------------------------------------- */

void trm_tf_reset_configuration(void) {
  release_all();
  pthread_mutex_lock(&lock);
  for (int i = 0; i < TRM_TF_MAX_DEVICES; ++i) {
    trm_free(devices[i].options);
    trm_free(devices[i].cache_path);
    devices[i] = (device_settings){0};
  }
  configured = false;
  synthetic = 0;
  ++generation;
  pthread_mutex_unlock(&lock);
}

static trm_status configure(int ordinal, const trm_tf_device_settings *settings, trm_error *error) {
  TRY(check_ordinal(ordinal, error));
  if (settings->connection < TRM_TF_CONNECT_ALWAYS || settings->connection > TRM_TF_CONNECT_NEVER) {
    FAIL(INVALID_ARGUMENT, "There is no connection type %d.", settings->connection);
  }
  trm_tf_connection connection = (trm_tf_connection)settings->connection;
  const bool compiles_only =
      connection == TRM_TF_CONNECT_PRE_COMPILE || connection == TRM_TF_CONNECT_NEVER;
  if (settings->is_model && !compiles_only) connection = TRM_TF_CONNECT_ALWAYS;
  pthread_mutex_lock(&lock);
  const trm_status status = set(ordinal, settings->options, settings->cache_path, connection,
                                settings->distribution, error);
  synthetic = settings->synthetic;
  snprintf(synthetic_initializer, sizeof synthetic_initializer, "%s",
           settings->synthetic_initializer);
  pthread_mutex_unlock(&lock);
  TRY(status);
  if (settings->is_model || compiles_only) return TRM_OK;
  return connection == TRM_TF_CONNECT_ON_DEMAND ? attach_later(ordinal, &settings->attach, error)
                                                : attach_now(ordinal, &settings->attach, error);
}

int32_t trm_tf_configure(int32_t ordinal, const trm_tf_device_settings *settings, char *message,
                         uint64_t message_size) {
  trm_error error = {0};
  return trm_tf_reply(configure(ordinal, settings, &error), &error, message, message_size);
}

void trm_tf_set_seed(uint64_t new_seed) {
  pthread_mutex_lock(&lock);
  seed = new_seed;
  ++seed_generation;
  pthread_mutex_unlock(&lock);
}

static trm_status count_ipus(const trm_inventory *inventory, uint32_t id, uint32_t *out_count,
                             trm_error *error) {
  if (trm_inventory_members(inventory, id, out_count) != NULL) return TRM_OK;
  FAIL(INVALID_ARGUMENT,
       "No device matches the requested configuration: there is no IPU or group of IPUs with the "
       "id %u; the inventory %s has the ids 0 to %u. `gc-info -l` lists them.",
       id, trm_inventory_name(inventory), trm_inventory_num_ids(inventory) - 1);
}

int32_t trm_tf_ipus_of_id(uint32_t id, uint32_t *out_count, char *message, uint64_t message_size) {
  trm_inventory *inventory = NULL;
  trm_error error = {0};
  trm_status status = trm_inventory_load(NULL, &inventory, &error);
  if (status == TRM_OK) status = count_ipus(inventory, id, out_count, &error);
  trm_inventory_release(inventory);
  return trm_tf_reply(status, &error, message, message_size);
}

int32_t trm_tf_architecture(char *out, char *message, uint64_t message_size) {
  trm_inventory *inventory = NULL;
  trm_error error = {0};
  const trm_status status = trm_inventory_load(NULL, &inventory, &error);
  if (status == TRM_OK) snprintf(out, 16, "%s", trm_inventory_ipu(inventory, 0)->architecture);
  trm_inventory_release(inventory);
  return trm_tf_reply(status, &error, message, message_size);
}
