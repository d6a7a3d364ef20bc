/* Functions of the host that a program calls while it runs: Python runs them, but for the lookups
 * and updates of host embeddings (host_tables.h). */
#ifndef TREMULA_TF_HOST_CALLS_H_
#define TREMULA_TF_HOST_CALLS_H_

#include "status.h"

typedef struct host_calls host_calls;

/* Connects all host calls of an executable with its engine; NULL in *out if it has none. */
bool host_calls_create(const trm_executable *executable, trm_engine *engine, host_calls **out,
                       TF_Status *status);
/* Says by which names the next run's calls go: a program calls its functions "0", "1", ... and
 * `names` has a line with the id of each (as feeds_bind). A run begins with this. */
void host_calls_name(host_calls *calls, const char *names);
void host_calls_free(host_calls *calls);

/* ---- For Python ---- */

typedef struct trm_tf_host_array {
  int32_t dtype; /* TF_DataType */
  int32_t rank;
  const int64_t *dims;
  void *data; /* not to be written for inputs */
  uint64_t bytes;
} trm_tf_host_array;

/* A call. Python fills in all outputs, or calls trm_tf_host_error before it returns. */
typedef struct trm_tf_host_request {
  const char *id;
  uint32_t replica;
  int32_t num_inputs, num_outputs;
  const trm_tf_host_array *inputs, *outputs;
  void *reply; /* ours */
} trm_tf_host_request;

typedef void (*trm_tf_host_function)(const trm_tf_host_request *request);

TRM_TF_API void trm_tf_set_host_function(trm_tf_host_function function);
TRM_TF_API void trm_tf_host_error(const trm_tf_host_request *request, int32_t code,
                                  const char *message);

#endif /* TREMULA_TF_HOST_CALLS_H_ */
