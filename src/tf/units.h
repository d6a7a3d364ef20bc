/* Owns: units. A unit is a module that has been compiled for a TF device, with an engine: what a
 * user calls a program.
 *
 * Nodes hold units; a run or a query uses one. A unit without holder or user is kept for a while,
 * because the same graph may be built again. trm_tf_forget_units drops all units, each at the end
 * of its last use. */
#ifndef TREMULA_TF_UNITS_H_
#define TREMULA_TF_UNITS_H_

#include "settings.h"

typedef struct trm_tf_unit trm_tf_unit;

/* The caller of a unit: the name of a node, the ids of its feeds, one a line (trm_tf_feeds_bind),
 * and the number of variables, which are the last inputs. */
typedef struct trm_tf_call {
  const char *name;
  const char *feeds;
  size_t variables;
  bool is_one_op;
  uint64_t session; /* the session of the node (trm_tf_interrupt_session); 0: unknown */
} trm_tf_call;

/* A serialised module, and the tensors that the unit is to run with first. */
typedef struct trm_tf_code {
  const void *module;
  size_t size;
  TF_Tensor *const *tensors;
  size_t num_tensors;
} trm_tf_code;

/* Gets the unit of a module for a TF device under the current configuration. It is compiled, or
 * read from the executable cache, at the first call. The caller holds and uses it. */
trm_status trm_tf_unit_get(const trm_tf_code *code, int ordinal, trm_tf_unit **out,
                           trm_error *error);

/* Begins the use of a unit that the caller holds; false if the unit has been dropped: get it again.
 */
bool trm_tf_unit_use(trm_tf_unit *unit);
/* Ends the use. */
void trm_tf_unit_done(trm_tf_unit *unit);
/* Ends holding it; NULL is allowed. */
void trm_tf_unit_drop(trm_tf_unit *unit);

/* ---- For those who use it ---- */

size_t trm_tf_unit_num_outputs(const trm_tf_unit *unit);
const trm_tensor_info *trm_tf_unit_output(const trm_tf_unit *unit, size_t i);

/* Checks the number, types and sizes of the tensors. */
trm_status trm_tf_unit_check(const trm_tf_unit *unit, TF_Tensor *const *tensors, size_t count,
                             trm_error *error);

/* An IPU runs one unit at a time: lock it before a run, and unlock it after. */
void trm_tf_unit_lock(trm_tf_unit *unit);
void trm_tf_unit_unlock(trm_tf_unit *unit);
/* Runs the unit, which must be locked. The caller owns the memory of the outputs. */
trm_status trm_tf_unit_run(trm_tf_unit *unit, const trm_tf_call *call, TF_Tensor *const *tensors,
                           void *const *outputs, trm_error *error);
/* Cancels a run in another thread, without the lock. If none is in progress, the next run is
 * cancelled, unless trm_tf_unit_forget_cancel is called before. */
void trm_tf_unit_cancel(trm_tf_unit *unit);
void trm_tf_unit_forget_cancel(trm_tf_unit *unit);

/* Whether the unit reads an infeed; the infeed for a call, and the least number of element tuples
 * that a run reads. */
struct trm_tf_infeed;
bool trm_tf_unit_is_fed(const trm_tf_unit *unit);
trm_status trm_tf_unit_find_infeed(const trm_tf_unit *unit, const trm_tf_call *call,
                                   struct trm_tf_infeed **out_infeed, uint64_t *out_reads,
                                   trm_error *error);

/* ---- For Python ---- */

/* The number of units that this process has compiled, or read from the executable cache. */
TRM_TF_API uint64_t trm_tf_units_built(void);
/* The number of units in memory. */
TRM_TF_API uint64_t trm_tf_units_kept(void);
/* Drops all units, so that later runs compile again. */
TRM_TF_API void trm_tf_forget_units(void);

#endif /* TREMULA_TF_UNITS_H_ */
