/* The configuration of the TF devices, as Python hands it over. */
#ifndef TREMULA_TF_SETTINGS_H_
#define TREMULA_TF_SETTINGS_H_

#include "status.h"

/* What a program is compiled with. It is taken when a program is first launched, because programs
 * may configure the system after they have built their graph. */
typedef struct tf_snapshot {
  char *options;    /* lines KEY=VALUE for trm_compile */
  char *cache_path; /* folder of compiled programs, or "" */
  uint64_t generation;
} tf_snapshot;

/* The snapshot for a TF device. Fails for a device that no configuration names. Where nothing at
 * all has been configured, device 0 gets one IPU, as in the original. */
bool settings_snapshot(int ordinal, tf_snapshot *out, TF_Status *status);
void snapshot_free(tf_snapshot *snapshot);
/* Changes with every configuration. */
uint64_t settings_generation(void);
/* The seed of the random custom calls, and a number that changes when it is set. */
uint64_t settings_seed(uint64_t *out_generation);

/* ---- For Python ---- */

/* Forgets every configuration and lets go of the IPUs. */
TRM_TF_API void trm_tf_reset_configuration(void);
/* Configures a TF device: `options` are lines KEY=VALUE, `cache_path` a folder or "". */
TRM_TF_API int32_t trm_tf_configure(int32_t ordinal, const char *options, const char *cache_path,
                                    char *message, uint64_t message_size);
TRM_TF_API void trm_tf_set_seed(uint64_t seed);

#endif /* TREMULA_TF_SETTINGS_H_ */
