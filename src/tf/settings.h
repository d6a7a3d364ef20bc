/* The configuration of the TF devices, as Python hands it over. */
#ifndef TREMULA_TF_SETTINGS_H_
#define TREMULA_TF_SETTINGS_H_

#include "attach.h"
#include "status.h"

/* When a device is attached; the numbers are those of DeviceConnectionType. */
typedef enum tf_connection {
  TF_CONNECT_ALWAYS = 0,
  TF_CONNECT_ON_DEMAND = 1,
  TF_CONNECT_PRE_COMPILE = 2, /* programs are compiled, runs give zeros */
  TF_CONNECT_NEVER = 3,       /* programs are compiled, runs are refused */
} tf_connection;

/* Which data is not moved between host and device; bits, in the order of flags.py. */
typedef enum tf_synthetic {
  TF_SYNTHETIC_INFEED = 1,
  TF_SYNTHETIC_OUTFEED = 2,
  TF_SYNTHETIC_SEED = 4,
  TF_SYNTHETIC_HOST_EMBEDDING = 8,
  TF_SYNTHETIC_PARAMETERS = 16,
  TF_SYNTHETIC_NULL_FEED = 32, /* infeeds give zeros */
} tf_synthetic;

enum { SYNTHETIC_INITIALIZER_SIZE = 64 };

/* What a program is compiled with. It is taken when a program is first launched, because programs
 * may configure the system after they have built their graph. */
typedef struct tf_snapshot {
  char *options;    /* lines KEY=VALUE for trm_compile */
  char *cache_path; /* folder of compiled programs, or "" */
  tf_connection connection;
  uint64_t generation;
  uint64_t epoch; /* programs of another one are compiled again */
} tf_snapshot;

/* The snapshot for a TF device. Fails for a device that no configuration names. Where nothing at
 * all has been configured, device 0 gets one IPU, as in the original. */
bool settings_snapshot(int ordinal, tf_snapshot *out, TF_Status *status);
void snapshot_free(tf_snapshot *snapshot);
/* Changes with every configuration and every epoch. */
uint64_t settings_generation(void);
/* Snapshots from now on are of another epoch. */
void settings_begin_epoch(void);

/* To be called before every run on a device: attaches it if it waits for its first use. *out_runs
 * is false where results are zeros instead (PRE_COMPILE). Fails where running is refused. */
bool settings_before_run(int ordinal, bool *out_runs, TF_Status *status);
/* Whether the devices are configured for pre-compilation: nothing is ever run. */
bool settings_only_compile(void);
/* The tf_synthetic bits in force; `initializer`, which may be NULL, gets the text of
 * --synthetic_data_initializer. */
uint32_t settings_synthetic(char initializer[SYNTHETIC_INITIALIZER_SIZE]);
/* The seed of the random custom calls, and a number that changes when it is set. */
uint64_t settings_seed(uint64_t *out_generation);

/* ---- For Python ---- */

/* How a TF device is configured; field for field as in python/tremula/tf/runtime/plugin.py. */
typedef struct trm_tf_device_settings {
  const char *options;
  const char *cache_path;
  int32_t connection;
  int32_t is_model;   /* nothing is attached whatever the connection says */
  uint32_t synthetic; /* tf_synthetic bits */
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

#endif /* TREMULA_TF_SETTINGS_H_ */
