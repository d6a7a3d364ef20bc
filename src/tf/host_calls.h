/* Owns: host calls: functions on the host that a running unit calls. Python runs most of them.
 * Calls with ids that begin with "host_table/" are lookups and updates of host embeddings; this
 * file answers them, without Python, from a table of rows in the host's memory:
 *   host_table/lookup/<table>      (indices s32[n]) -> rows [n, width]
 *   host_table/update/<table>      (rows [n, width], indices s32[n]): adds rows
 *   host_table/accumulate/<table>  the same, but a unit with an "apply" call for the table
 *   accumulates the rows until then
 *   host_table/apply/<table>       (): adds the accumulated rows
 * <table> is a name, "#" and a suffix that makes it unique in the process.
 *
 * A table is the buffer of a variable. No other tensor shared the buffer when the variable got it,
 * so the next read of the variable sees the rows that a unit adds, and the table is never copied to
 * or from a unit.
 *
 * Additions are rounded to the table's type one by one, in the order of the calls and of the rows
 * in a call. */
#ifndef TREMULA_TF_HOST_CALLS_H_
#define TREMULA_TF_HOST_CALLS_H_

#include "tensorflow.h"

typedef struct trm_tf_host_calls trm_tf_host_calls;

/* Connects all host calls of an executable with its engine; NULL in *out if it has none. */
trm_status trm_tf_host_calls_create(const trm_executable *executable, trm_engine *engine,
                                    trm_tf_host_calls **out, trm_error *error);
/* Sets the ids for the next run, before it begins. A module calls its host functions "0", "1", ...,
 * and `names` has a line with the id of each (as trm_tf_feeds_bind). */
void trm_tf_host_calls_name(trm_tf_host_calls *calls, const char *names);
void trm_tf_host_calls_free(trm_tf_host_calls *calls);

/* ---- For Python ---- */

typedef struct trm_tf_host_array {
  int32_t dtype; /* TF_DataType */
  int32_t rank;
  const int64_t *dims;
  void *data; /* read-only for inputs */
  uint64_t bytes;
} trm_tf_host_array;

/* A call. Python fills in all outputs, or calls trm_tf_host_error before it returns. */
typedef struct trm_tf_host_request {
  const char *id;
  uint32_t replica;
  int32_t num_inputs, num_outputs;
  const trm_tf_host_array *inputs, *outputs;
  void *reply; /* belongs to C */
} trm_tf_host_request;

typedef void (*trm_tf_host_function)(const trm_tf_host_request *request);

TRM_TF_API void trm_tf_set_host_function(trm_tf_host_function function);
TRM_TF_API void trm_tf_host_error(const trm_tf_host_request *request, int32_t code,
                                  const char *message);
/* Allows or forbids units to use the table. */
TRM_TF_API void trm_tf_register_host_table(const char *table, int32_t registered);

#endif /* TREMULA_TF_HOST_CALLS_H_ */
