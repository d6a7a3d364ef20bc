/* Owns: programs: modules that have been compiled for a TF device.
 *
 * Nodes hold a program, and whoever runs or asks it uses it meanwhile. What nobody holds or uses is
 * kept for a while, as the same graph may be built again. trm_tf_forget_programs takes all of them:
 * each goes when its last user is done. */
#ifndef TREMULA_TF_PROGRAMS_H_
#define TREMULA_TF_PROGRAMS_H_

#include "settings.h"

typedef struct trm_tf_program trm_tf_program;

/* Who runs a program: the name of a node, the ids of its feeds, one a line (trm_tf_feeds_bind), and
 * how many of the inputs, the last ones, are variables. */
typedef struct trm_tf_call {
  const char *name;
  const char *feeds;
  size_t variables;
  bool is_one_op;
  uint64_t session; /* whose node it is (trm_tf_interrupt_session); 0: not known */
} trm_tf_call;

/* The program of a serialised module for a TF device under the present configuration: compiled, or
 * read from the executable cache, when it is first asked for. The caller holds and uses it. */
trm_status trm_tf_program_get(const void *module, size_t size, int ordinal, trm_tf_program **out,
                              trm_error *error);

/* Uses a program that the caller holds; false if it has been forgotten: get it again. */
bool trm_tf_program_use(trm_tf_program *program);
/* The end of that. */
void trm_tf_program_done(trm_tf_program *program);
/* The end of holding it; NULL is allowed. */
void trm_tf_program_drop(trm_tf_program *program);

/* ---- For those who use it ---- */

size_t trm_tf_program_num_inputs(const trm_tf_program *program);
size_t trm_tf_program_num_outputs(const trm_tf_program *program);
const trm_tensor_info *trm_tf_program_output(const trm_tf_program *program, size_t i);

/* Checks that the tensors are what the program takes, in number, types and sizes. */
trm_status trm_tf_program_check(const trm_tf_program *program, TF_Tensor *const *tensors,
                                size_t count, trm_error *error);

/* An IPU runs one program at a time: a run is between these two. */
void trm_tf_program_lock(trm_tf_program *program);
void trm_tf_program_unlock(trm_tf_program *program);
/* Computes; call with the program locked. The outputs' memory is the caller's. */
trm_status trm_tf_program_run(trm_tf_program *program, const trm_tf_call *call,
                              TF_Tensor *const *tensors, void *const *outputs, trm_error *error);
/* Asks a run in another thread to stop. Needs no lock, but a run that is going on: with none, it is
 * the next run that is stopped, unless trm_tf_program_forget_cancel is called before. */
void trm_tf_program_cancel(trm_tf_program *program);
void trm_tf_program_forget_cancel(trm_tf_program *program);

/* Whether the program reads an infeed; which one for a call, and how many element tuples at least.
 */
struct trm_tf_infeed;
bool trm_tf_program_is_fed(const trm_tf_program *program);
trm_status trm_tf_program_find_infeed(const trm_tf_program *program, const trm_tf_call *call,
                                      struct trm_tf_infeed **out_infeed, uint64_t *out_reads,
                                      trm_error *error);

/* ---- For Python ---- */

/* How many programs this process has compiled, or read from the executable cache. */
TRM_TF_API uint64_t trm_tf_programs_built(void);
/* How many of them are in memory. */
TRM_TF_API uint64_t trm_tf_programs_kept(void);
/* Has every program compiled again that runs from now on. */
TRM_TF_API void trm_tf_forget_programs(void);

#endif /* TREMULA_TF_PROGRAMS_H_ */
