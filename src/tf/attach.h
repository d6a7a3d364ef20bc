/* Attaching TF devices to virtual IPUs, and the log lines about it. */
#ifndef TREMULA_TF_ATTACH_H_
#define TREMULA_TF_ATTACH_H_

#include "status.h"

/* Attaches /device:IPU:`ordinal`, which lets go of what it was attached to: to the ids `ids`, or,
 * if there are none, to `num_ipus` free IPUs. Tries for `timeout_ms`, every `poll_ms`. Logs one
 * line. */
bool attach_device(int ordinal, uint32_t num_ipus, const uint32_t *ids, size_t num_ids,
                   uint32_t timeout_ms, uint32_t poll_ms, TF_Status *status);
/* Lets go of every device. */
void attach_release_all(void);
/* One line on standard error, in TensorFlow's log format. */
void attach_log(const char *text);

/* ---- For Python ---- */

/* attach_device; returns a status code and writes the message of a failure. */
TRM_TF_API int32_t trm_tf_attach(int32_t ordinal, uint32_t num_ipus, const uint32_t *ids,
                                 uint64_t num_ids, uint32_t timeout_ms, uint32_t poll_ms,
                                 char *message, uint64_t message_size);
TRM_TF_API void trm_tf_log(const char *text);

#endif /* TREMULA_TF_ATTACH_H_ */
