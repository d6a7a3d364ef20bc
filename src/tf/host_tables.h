/* The tables of host embeddings: rows in the host's memory, which running programs look up and add
 * to.
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
#ifndef TREMULA_TF_HOST_TABLES_H_
#define TREMULA_TF_HOST_TABLES_H_

#include "status.h"

/* Rows that one program keeps until it applies them, by table and replica. */
typedef struct host_sums host_sums;

/* One host call: its arrays, and whose they are. */
typedef struct host_table_call {
  const char *id;
  bool applies_later; /* the program has an "apply" call for the table */
  uint32_t replica;
  size_t num_inputs, num_outputs;
  const trm_tensor_info *inputs, *outputs;
  const void *const *in;
  void *const *out;
  host_sums **sums; /* of the program; *sums is NULL at first */
} host_table_call;

/* Whether the id of a host call is one of the above. */
bool host_table_is_named(const char *id);
/* The id of the "apply" call that goes with an "accumulate" call, in `room`. */
const char *host_table_apply_id(const char *id, char *room, size_t size);
trm_status host_table_run(const host_table_call *call, trm_error *error);
/* Drops all rows that are kept: a run begins with none. */
void host_sums_clear(host_sums *sums);
void host_sums_free(host_sums *sums);

/* ---- For Python ---- */

/* Programs may use the table from now on, or may not any more. */
TRM_TF_API void trm_tf_register_host_table(const char *table, int32_t registered);

#endif /* TREMULA_TF_HOST_TABLES_H_ */
