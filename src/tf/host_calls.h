/* Owns: functions of the host that a program calls while it runs: Python runs them, but for lookups
 * and updates of host embeddings, which are served here from their tables: rows in the host's
 * memory, which running programs look up and add to.
 *
 * A table is a variable's buffer, made for this: nobody else had a share in it before it was given
 * to the variable, so that what a program adds is what the next read of the variable sees, and the
 * table is never copied to or from a program. Host calls with ids that begin with "host_table/" are
 * answered here, without Python:
 *   host_table/lookup/<table>      (indices s32[n]) -> rows [n, width]
 *   host_table/update/<table>      (rows [n, width], indices s32[n]): rows are added
 *   host_table/accumulate/<table>  the same, but a program that has an "apply" call for the table
 *                                  keeps the rows until then
 *   host_table/apply/<table>       (): rows that were kept are added
 * <table> is a name, "#" and what makes it unique in the process.
 *
 * Additions are rounded to the table's type one by one, in the order of the calls, and of the rows
 * in a call. */
#ifndef TREMULA_TF_HOST_CALLS_H_
#define TREMULA_TF_HOST_CALLS_H_

#include "tensorflow.h"

typedef struct trm_tf_host_calls trm_tf_host_calls;

/* Connects all host calls of an executable with its engine; NULL in *out if it has none. */
trm_status trm_tf_host_calls_create(const trm_executable *executable, trm_engine *engine,
                                    trm_tf_host_calls **out, trm_error *error);
/* Says by which names the next run's calls go: a program calls its functions "0", "1", ... and
 * `names` has a line with the id of each (as trm_tf_feeds_bind). A run begins with this. */
void trm_tf_host_calls_name(trm_tf_host_calls *calls, const char *names);
void trm_tf_host_calls_free(trm_tf_host_calls *calls);

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
/* Programs may use the table from now on, or may not any more. */
TRM_TF_API void trm_tf_register_host_table(const char *table, int32_t registered);

#endif /* TREMULA_TF_HOST_CALLS_H_ */
