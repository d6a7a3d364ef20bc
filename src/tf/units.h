/* Owns: units: modules that have been compiled for a TF device.
 *
 * Nodes hold a unit, and whoever runs or asks it uses it meanwhile. What nobody holds or uses is
 * kept for a while, as the same graph may be built again. trm_tf_forget_units takes all of them:
 * each goes when its last user is done. */
#ifndef TREMULA_TF_UNITS_H_
#define TREMULA_TF_UNITS_H_

#include "settings.h"

typedef struct trm_tf_unit trm_tf_unit;

/* Who runs a unit: the name of a node, the ids of its feeds, one a line (trm_tf_feeds_bind), and
 * how many of the inputs, the last ones, are variables. */
typedef struct trm_tf_call {
  const char *name;
  const char *feeds;
  size_t variables;
  bool is_one_op;
  uint64_t session; /* whose node it is (trm_tf_interrupt_session); 0: not known */
} trm_tf_call;

/* The unit of a serialised module for a TF device under the present configuration: compiled, or
 * read from the executable cache, when it is first asked for. The caller holds and uses it. */
trm_status trm_tf_unit_get(const void *module, size_t size, int ordinal, trm_tf_unit **out,
                           trm_error *error);

/* Uses a unit that the caller holds; false if it has been forgotten: get it again. */
bool trm_tf_unit_use(trm_tf_unit *unit);
/* The end of that. */
void trm_tf_unit_done(trm_tf_unit *unit);
/* The end of holding it; NULL is allowed. */
void trm_tf_unit_drop(trm_tf_unit *unit);

/* ---- For those who use it ---- */

size_t trm_tf_unit_num_inputs(const trm_tf_unit *unit);
size_t trm_tf_unit_num_outputs(const trm_tf_unit *unit);
const trm_tensor_info *trm_tf_unit_output(const trm_tf_unit *unit, size_t i);

/* Checks that the tensors are what the unit takes, in number, types and sizes. */
trm_status trm_tf_unit_check(const trm_tf_unit *unit, TF_Tensor *const *tensors, size_t count,
                             trm_error *error);

/* An IPU runs one unit at a time: a run is between these two. */
void trm_tf_unit_lock(trm_tf_unit *unit);
void trm_tf_unit_unlock(trm_tf_unit *unit);
/* Computes; call with the unit locked. The outputs' memory is the caller's. */
trm_status trm_tf_unit_run(trm_tf_unit *unit, const trm_tf_call *call, TF_Tensor *const *tensors,
                           void *const *outputs, trm_error *error);
/* Asks a run in another thread to stop. Needs no lock, but a run that is going on: with none, it is
 * the next run that is stopped, unless trm_tf_unit_forget_cancel is called before. */
void trm_tf_unit_cancel(trm_tf_unit *unit);
void trm_tf_unit_forget_cancel(trm_tf_unit *unit);

/* Whether the unit reads an infeed; which one for a call, and how many element tuples at least.
 */
struct trm_tf_infeed;
bool trm_tf_unit_is_fed(const trm_tf_unit *unit);
trm_status trm_tf_unit_find_infeed(const trm_tf_unit *unit, const trm_tf_call *call,
                                   struct trm_tf_infeed **out_infeed, uint64_t *out_reads,
                                   trm_error *error);

/* ---- For Python ---- */

/* How many units this process has compiled, or read from the executable cache. */
TRM_TF_API uint64_t trm_tf_units_built(void);
/* How many of them are in memory. */
TRM_TF_API uint64_t trm_tf_units_kept(void);
/* Has every unit compiled again that runs from now on. */
TRM_TF_API void trm_tf_forget_units(void);

#endif /* TREMULA_TF_UNITS_H_ */
