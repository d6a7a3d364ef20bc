/* Owns: the configuration of the TF devices, as Python hands it over, and to which virtual IPUs
 * they are attached.
 *
 * A device is attached at once, when it is first used (on demand), or never. It lets go when the
 * configuration is reset or the process ends. */
#ifndef TREMULA_TF_SETTINGS_H_
#define TREMULA_TF_SETTINGS_H_

#include "tensorflow.h"
#include "tremula/program.h"

/* When a device is attached; the numbers are those of DeviceConnectionType. Python
 * has a copy of the numbers of this header's enums: python/tremula/tables.py. */
typedef enum trm_tf_connection {
  TRM_TF_CONNECT_ALWAYS = 0,
  TRM_TF_CONNECT_ON_DEMAND = 1,
  TRM_TF_CONNECT_PRE_COMPILE = 2, /* programs are compiled, runs give zeros */
  TRM_TF_CONNECT_NEVER = 3,       /* programs are compiled, runs are refused */
} trm_tf_connection;

/* A bit beside those of trm_synthetic: infeeds give zeros. */
enum { TRM_TF_SYNTHETIC_NULL_FEED = 32 };

enum { TRM_TF_INITIALIZER_SIZE = 64 };

/* What a program is compiled with. It is taken when a program is first launched, because programs
 * may configure the system after they have built their graph. */
typedef struct trm_tf_snapshot {
  char *options;    /* lines KEY=VALUE for trm_compile */
  char *cache_path; /* folder of compiled programs, or "" */
  trm_tf_connection connection;
  uint64_t generation;
  uint64_t epoch; /* programs of another one are compiled again */
} trm_tf_snapshot;

/* The snapshot for a TF device. Fails for a device that no configuration names. Where nothing at
 * all has been configured, device 0 gets one IPU, as in the original. */
trm_status trm_tf_settings_snapshot(int ordinal, trm_tf_snapshot *out, trm_error *error);
void trm_tf_snapshot_free(trm_tf_snapshot *snapshot);
/* Changes with every configuration and every epoch. */
uint64_t trm_tf_settings_generation(void);
/* Snapshots from now on are of another epoch. */
void trm_tf_settings_begin_epoch(void);

/* To be called before every run on a device: attaches it if it waits for its first use, for as long
 * as its request says. *out_runs is false where results are zeros instead (PRE_COMPILE). Fails
 * where running is refused, and with CANCELLED when the configuration is reset or Ctrl-C is pressed
 * while the device waits for IPUs. */
trm_status trm_tf_settings_before_run(int ordinal, bool *out_runs, trm_error *error);
/* Whether the devices are configured for pre-compilation: nothing is ever run. */
bool trm_tf_settings_only_compile(void);
/* The trm_synthetic bits in force; `initializer`, which may be NULL, gets the text of
 * --synthetic_data_initializer. */
uint32_t trm_tf_settings_synthetic(char initializer[TRM_TF_INITIALIZER_SIZE]);
/* The seed of the random custom calls, and a number that changes when it is set. */
uint64_t trm_tf_settings_seed(uint64_t *out_generation);

/* ---- For Python ---- */

/* What a TF device is to be attached to: to the ids, or, if there are none, to `num_ipus` free
 * IPUs. Field for field as in python/tremula/tf/runtime/device/plugin.py. */
typedef struct trm_tf_attach_request {
  uint32_t num_ipus;
  uint32_t num_ids;
  const uint32_t *ids;
  /* On demand: how long to try while the IPUs are taken, and how often. */
  uint32_t timeout_ms;
  uint32_t poll_ms;
} trm_tf_attach_request;

/* How a TF device is configured; likewise. */
typedef struct trm_tf_device_settings {
  const char *options;
  const char *cache_path;
  int32_t connection;
  int32_t is_model;   /* nothing is attached whatever the connection says */
  uint32_t synthetic; /* trm_synthetic bits, and TRM_TF_SYNTHETIC_NULL_FEED */
  const char *synthetic_initializer;
  trm_tf_attach_request attach;
} trm_tf_device_settings;

/* Forgets every configuration and lets go of the IPUs. */
TRM_TF_API void trm_tf_reset_configuration(void);
/* Has Python configure a device that is used without having been configured: one IPU, and the
 * flags. Returns a code, and with a failure a message. */
typedef int32_t (*trm_tf_first_use)(int32_t ordinal, char *message, uint64_t message_size);
TRM_TF_API void trm_tf_set_first_use(trm_tf_first_use callback);
/* Configures a TF device, and attaches it where that is to be done at once. */
TRM_TF_API int32_t trm_tf_configure(int32_t ordinal, const trm_tf_device_settings *settings,
                                    char *message, uint64_t message_size);
TRM_TF_API void trm_tf_set_seed(uint64_t seed);
/* How many IPUs the id `id` of the inventory stands for. Returns a status code and writes the
 * message of a failure; so does the next one. */
TRM_TF_API int32_t trm_tf_ipus_of_id(uint32_t id, uint32_t *out_count, char *message,
                                     uint64_t message_size);
/* The architecture of the inventory's IPUs, such as "ipu2". `out` has room for 16 bytes. */
TRM_TF_API int32_t trm_tf_architecture(char *out, char *message, uint64_t message_size);

#endif /* TREMULA_TF_SETTINGS_H_ */
