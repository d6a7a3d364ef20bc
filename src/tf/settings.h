/* Owns: the configuration of the TF devices, which Python sets, and their attachment to virtual
 * IPUs.
 *
 * A device is attached at once, at its first use (on demand), or never. It is released when the
 * configuration is reset or the process ends. */
#ifndef TREMULA_TF_SETTINGS_H_
#define TREMULA_TF_SETTINGS_H_

#include "tensorflow.h"
#include "tremula/program.h"

/* When a device is attached, numbered like DeviceConnectionType. python/tremula/tables.py has a
 * copy of the enums of this header. */
typedef enum trm_tf_connection {
  TRM_TF_CONNECT_ALWAYS = 0,
  TRM_TF_CONNECT_ON_DEMAND = 1,
  TRM_TF_CONNECT_PRE_COMPILE = 2, /* units are compiled, runs give zeros */
  TRM_TF_CONNECT_NEVER = 3,       /* units are compiled, runs are refused */
} trm_tf_connection;

/* A program's processes (group.h), each with as many of the replicas, and which of them this is. */
typedef struct trm_tf_distribution {
  uint32_t num_processes; /* 0 and 1: this process is alone */
  uint32_t process;
} trm_tf_distribution;

/* A bit in addition to those of trm_synthetic: infeeds give zeros. */
enum { TRM_TF_SYNTHETIC_NULL_FEED = 32 };

enum { TRM_TF_INITIALIZER_SIZE = 64 };

/* The configuration with which a unit is compiled. It is taken at the first launch, because
 * programs may configure the system after they have built their graph. */
typedef struct trm_tf_snapshot {
  char *options;    /* lines KEY=VALUE for trm_compile */
  char *cache_path; /* folder of executables, or "" */
  trm_tf_connection connection;
  trm_tf_distribution distribution;
  uint64_t generation;
  uint64_t epoch; /* units of another epoch are compiled again */
} trm_tf_snapshot;

/* The snapshot for a TF device. Fails for a device that no configuration names. Without any
 * configuration device 0 gets one IPU, as in the original. */
trm_status trm_tf_settings_snapshot(int ordinal, trm_tf_snapshot *out, trm_error *error);
void trm_tf_snapshot_free(trm_tf_snapshot *snapshot);
/* A number that changes with every configuration and every epoch. */
uint64_t trm_tf_settings_generation(void);
/* Begins a new epoch for later snapshots. */
void trm_tf_settings_begin_epoch(void);

/* Call before every run on a device. Attaches the device at its first use, and waits for IPUs as
 * long as its request says. *out_runs is false if results are zeros instead (PRE_COMPILE). Fails if
 * running is refused, and with CANCELLED if the configuration is reset or Ctrl-C is pressed during
 * the wait. */
trm_status trm_tf_settings_before_run(int ordinal, bool *out_runs, trm_error *error);
/* Whether the devices are configured for pre-compilation, so that nothing runs. */
bool trm_tf_settings_only_compile(void);
/* The trm_synthetic bits in force; `initializer`, which may be NULL, gets the text of
 * --synthetic_data_initializer. */
uint32_t trm_tf_settings_synthetic(char initializer[TRM_TF_INITIALIZER_SIZE]);
/* The seed of the random custom calls, and a number that changes when it is set. */
uint64_t trm_tf_settings_seed(uint64_t *out_generation);

/* ---- For Python ---- */

/* A request to attach a TF device: to the ids, or else to `num_ipus` free IPUs. Field for field as
 * in python/tremula/tf/runtime/device/plugin.py. */
typedef struct trm_tf_attach_request {
  uint32_t num_ipus;
  uint32_t num_ids;
  const uint32_t *ids;
  /* On demand: how long to wait for IPUs that are taken, and the interval of tries. */
  uint32_t timeout_ms;
  uint32_t poll_ms;
} trm_tf_attach_request;

/* The configuration of a TF device. Field for field as in plugin.py. */
typedef struct trm_tf_device_settings {
  const char *options;
  const char *cache_path;
  int32_t connection;
  int32_t is_model;   /* nothing is attached, whatever the connection is */
  uint32_t synthetic; /* trm_synthetic bits, and TRM_TF_SYNTHETIC_NULL_FEED */
  const char *synthetic_initializer;
  trm_tf_attach_request attach;
  trm_tf_distribution distribution;
} trm_tf_device_settings;

/* Drops every configuration and releases the IPUs. */
TRM_TF_API void trm_tf_reset_configuration(void);
/* Asks Python to configure a device at its first use if nobody has: one IPU, and the flags. Returns
 * a status code, and the message of a failure. */
typedef int32_t (*trm_tf_first_use)(int32_t ordinal, char *message, uint64_t message_size);
TRM_TF_API void trm_tf_set_first_use(trm_tf_first_use callback);
/* Configures a TF device. Attaches it too, unless the configuration puts that off. */
TRM_TF_API int32_t trm_tf_configure(int32_t ordinal, const trm_tf_device_settings *settings,
                                    char *message, uint64_t message_size);
TRM_TF_API void trm_tf_set_seed(uint64_t seed);
/* The number of IPUs of the inventory's id `id`. Returns a status code and writes the message of a
 * failure; so does the next function. */
TRM_TF_API int32_t trm_tf_ipus_of_id(uint32_t id, uint32_t *out_count, char *message,
                                     uint64_t message_size);
/* The architecture of the inventory's IPUs, such as "ipu2". `out` has room for 16 bytes. */
TRM_TF_API int32_t trm_tf_architecture(char *out, char *message, uint64_t message_size);

#endif /* TREMULA_TF_SETTINGS_H_ */
