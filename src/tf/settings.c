/* The configuration of the TF devices, as Python hands it over. */
#define _POSIX_C_SOURCE 200809L
#include "settings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 64 };
static const char not_configured[] =
    "No IPU device was configured for /device:IPU:0, creating a device with a single IPU.";

typedef struct device_settings {
  char *options; /* NULL: not configured */
  char *cache_path;
  tf_connection connection;
} device_settings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static device_settings devices[MAX_DEVICES];
static bool configured;
static uint32_t synthetic;
static char synthetic_initializer[SYNTHETIC_INITIALIZER_SIZE];
static uint64_t generation = 1;
static uint64_t epoch;
static trm_tf_first_use first_use;
static pthread_mutex_t first_use_lock = PTHREAD_MUTEX_INITIALIZER; /* while Python configures */
static uint64_t seed;
static uint64_t seed_generation = 1;

/* Call with the lock held. */
static bool set(int ordinal, const char *options, const char *cache_path,
                tf_connection connection) {
  device_settings new_settings = {strdup(options), strdup(cache_path), connection};
  if (!new_settings.options || !new_settings.cache_path) {
    free(new_settings.options);
    free(new_settings.cache_path);
    return false;
  }
  free(devices[ordinal].options);
  free(devices[ordinal].cache_path);
  devices[ordinal] = new_settings;
  configured = true;
  ++generation;
  return true;
}

/* Whether nobody has configured what a device uses for the first time: the first device, or one
 * that a configuration does not name. */
static bool is_first_use(int ordinal) {
  pthread_mutex_lock(&lock);
  const bool is = ordinal >= 0 && ordinal < MAX_DEVICES && !devices[ordinal].options &&
                  (ordinal == 0 || configured);
  pthread_mutex_unlock(&lock);
  return is;
}

/* Without Python (SavedModels run without it) settings_snapshot does what it can. */
static bool configure_by_python(int ordinal, TF_Status *status) {
  char message[TRM_ERROR_SIZE] = "";
  pthread_mutex_lock(&first_use_lock);
  pthread_mutex_lock(&lock);
  const trm_tf_first_use callback = devices[ordinal].options ? NULL : first_use;
  pthread_mutex_unlock(&lock);
  if (callback) attach_log(not_configured);
  const int32_t code = callback ? callback(ordinal, message, sizeof message) : TF_OK;
  pthread_mutex_unlock(&first_use_lock);
  return code == TF_OK || fail(status, (TF_Code)code, "%s", message);
}

void trm_tf_set_first_use(trm_tf_first_use callback) {
  pthread_mutex_lock(&lock);
  first_use = callback;
  pthread_mutex_unlock(&lock);
}

bool settings_snapshot(int ordinal, tf_snapshot *out, TF_Status *status) {
  *out = (tf_snapshot){0};
  if (is_first_use(ordinal) && !configure_by_python(ordinal, status)) return false;
  bool ok = true;
  pthread_mutex_lock(&lock);
  if (!configured && ordinal == 0) {
    attach_log(not_configured);
    const trm_tf_attach_request one = {.num_ipus = 1};
    ok = attach_now(0, &one, status) && (set(0, "", "", TF_CONNECT_ALWAYS) || fail_memory(status));
  }
  if (ok && (ordinal < 0 || ordinal >= MAX_DEVICES || !devices[ordinal].options)) {
    ok = configured
             ? fail(status, TF_FAILED_PRECONDITION,
                    "Device ordinal %d not in device configuration list: the configuration names "
                    "fewer devices than the program uses. Give IPUConfig.auto_select_ipus one "
                    "number for each device, such as [1, 1].",
                    ordinal)
             : fail(status, TF_FAILED_PRECONDITION,
                    "No device target has been configured for /device:IPU:%d. Did you configure "
                    "the IPU devices by running "
                    "`tensorflow.python.ipu.utils.configure_ipu_system(ipu_options)`?",
                    ordinal);
  }
  if (ok) {
    out->options = strdup(devices[ordinal].options);
    out->cache_path = strdup(devices[ordinal].cache_path);
    out->connection = devices[ordinal].connection;
    out->generation = generation;
    out->epoch = epoch;
    ok = (out->options && out->cache_path) || fail_memory(status);
  }
  pthread_mutex_unlock(&lock);
  if (!ok) snapshot_free(out);
  return ok;
}

void snapshot_free(tf_snapshot *snapshot) {
  free(snapshot->options);
  free(snapshot->cache_path);
  snapshot->options = snapshot->cache_path = NULL;
}

uint64_t settings_generation(void) {
  pthread_mutex_lock(&lock);
  uint64_t value = generation;
  pthread_mutex_unlock(&lock);
  return value;
}

bool settings_before_run(int ordinal, bool *out_runs, TF_Status *status) {
  pthread_mutex_lock(&lock);
  const tf_connection connection =
      ordinal >= 0 && ordinal < MAX_DEVICES ? devices[ordinal].connection : TF_CONNECT_ALWAYS;
  pthread_mutex_unlock(&lock);
  *out_runs = connection != TF_CONNECT_PRE_COMPILE;
  if (connection == TF_CONNECT_NEVER)
    return fail(status, TF_INVALID_ARGUMENT,
                "Trying to run an executable on a device that was configured for compilation "
                "only.");
  return connection != TF_CONNECT_ON_DEMAND || attach_ensure(ordinal, status);
}

bool settings_only_compile(void) {
  pthread_mutex_lock(&lock);
  const bool only = configured && devices[0].connection == TF_CONNECT_PRE_COMPILE;
  pthread_mutex_unlock(&lock);
  return only;
}

uint32_t settings_synthetic(char initializer[SYNTHETIC_INITIALIZER_SIZE]) {
  pthread_mutex_lock(&lock);
  const uint32_t value = synthetic;
  if (initializer) memcpy(initializer, synthetic_initializer, SYNTHETIC_INITIALIZER_SIZE);
  pthread_mutex_unlock(&lock);
  return value;
}

uint64_t settings_seed(uint64_t *out_generation) {
  pthread_mutex_lock(&lock);
  uint64_t value = seed;
  *out_generation = seed_generation;
  pthread_mutex_unlock(&lock);
  return value;
}

void trm_tf_reset_configuration(void) {
  attach_release_all();
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_DEVICES; ++i) {
    free(devices[i].options);
    free(devices[i].cache_path);
    devices[i] = (device_settings){0};
  }
  configured = false;
  synthetic = 0;
  ++generation;
  pthread_mutex_unlock(&lock);
}

static bool configure(int ordinal, const trm_tf_device_settings *settings, TF_Status *status) {
  if (ordinal < 0 || ordinal >= MAX_DEVICES)
    return fail(status, TF_INVALID_ARGUMENT, "There are %d TF devices at most.", MAX_DEVICES);
  if (settings->connection < TF_CONNECT_ALWAYS || settings->connection > TF_CONNECT_NEVER)
    return fail(status, TF_INVALID_ARGUMENT, "There is no connection type %d.",
                settings->connection);
  tf_connection connection = (tf_connection)settings->connection;
  const bool compiles_only = connection == TF_CONNECT_PRE_COMPILE || connection == TF_CONNECT_NEVER;
  if (settings->is_model && !compiles_only) connection = TF_CONNECT_ALWAYS;
  pthread_mutex_lock(&lock);
  const bool ok = set(ordinal, settings->options, settings->cache_path, connection);
  synthetic = settings->synthetic;
  snprintf(synthetic_initializer, sizeof synthetic_initializer, "%s",
           settings->synthetic_initializer);
  pthread_mutex_unlock(&lock);
  if (!ok) return fail_memory(status);
  if (settings->is_model || compiles_only) return true;
  return connection == TF_CONNECT_ON_DEMAND ? attach_later(ordinal, &settings->attach, status)
                                            : attach_now(ordinal, &settings->attach, status);
}

int32_t trm_tf_configure(int32_t ordinal, const trm_tf_device_settings *settings, char *message,
                         uint64_t message_size) {
  TF_Status *status = TF_NewStatus();
  configure(ordinal, settings, status);
  const int32_t code = (int32_t)TF_GetCode(status);
  if (code != TF_OK) snprintf(message, message_size, "%s", TF_Message(status));
  TF_DeleteStatus(status);
  return code;
}

void trm_tf_set_seed(uint64_t new_seed) {
  pthread_mutex_lock(&lock);
  seed = new_seed;
  ++seed_generation;
  pthread_mutex_unlock(&lock);
}

void settings_begin_epoch(void) {
  pthread_mutex_lock(&lock);
  ++epoch;
  ++generation;
  pthread_mutex_unlock(&lock);
}
