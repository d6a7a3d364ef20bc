/* Attaching TF devices to virtual IPUs, and the log lines about it.
 *
 * A device is configured with a request. It is attached at once, when it is first used (on demand),
 * or never. It lets go when the configuration is reset or the process ends. */
#ifndef TREMULA_TF_ATTACH_H_
#define TREMULA_TF_ATTACH_H_

#include "status.h"

/* What a TF device is to be attached to: to the ids, or, if there are none, to `num_ipus` free
 * IPUs. Field for field as in python/tremula/tf/runtime/plugin.py. */
typedef struct trm_tf_attach_request {
  uint32_t num_ipus;
  uint32_t num_ids;
  const uint32_t *ids;
  /* On demand: how long to try while the IPUs are taken, and how often. */
  uint32_t timeout_ms;
  uint32_t poll_ms;
} trm_tf_attach_request;

/* Attaches /device:IPU:`ordinal`, which lets go of what it was attached to. Tries once. */
bool attach_now(int ordinal, const trm_tf_attach_request *request, TF_Status *status);
/* Keeps the request, for attach_ensure. Fails for what the inventory has not, and for ids that
 * another device of this process waits for or has. */
bool attach_later(int ordinal, const trm_tf_attach_request *request, TF_Status *status);
/* Attaches a device that waits for its first use, for as long as its request says; others return at
 * once. Fails with TF_CANCELLED when the configuration is reset or Ctrl-C is pressed
 * meanwhile. */
bool attach_ensure(int ordinal, TF_Status *status);
/* Lets go of every device and forgets the requests. */
void attach_release_all(void);
/* One line on standard error, in TensorFlow's log format. */
void attach_log(const char *text);

/* ---- For Python ---- */

TRM_TF_API void trm_tf_log(const char *text);
/* How many IPUs the id `id` of the inventory stands for. Returns a status code and writes the
 * message of a failure; so do the others. */
TRM_TF_API int32_t trm_tf_ipus_of_id(uint32_t id, uint32_t *out_count, char *message,
                                     uint64_t message_size);
/* The architecture of the inventory's IPUs, such as "ipu2". `out` has room for 16 bytes. */
TRM_TF_API int32_t trm_tf_architecture(char *out, char *message, uint64_t message_size);

#endif /* TREMULA_TF_ATTACH_H_ */
