/* Programs: modules that have been compiled for a TF device.
 *
 * Nodes hold a program, and whoever runs or asks it uses it meanwhile. What nobody holds or uses is
 * kept for a while, as the same graph may be built again. trm_tf_forget_programs takes all of them:
 * each goes when its last user is done. */
#ifndef TREMULA_TF_PROGRAMS_H_
#define TREMULA_TF_PROGRAMS_H_

#include "settings.h"
#include "tensors.h"

typedef struct tf_program tf_program;

/* Who runs a program: the name of a node, the ids of its feeds, one a line (feeds_bind), and how
 * many of the inputs, the last ones, are variables. */
typedef struct tf_call {
  const char *name;
  const char *feeds;
  size_t variables;
  bool is_one_op;
  uint64_t session; /* whose node it is (interrupt_session); 0: not known */
} tf_call;

/* The program of a serialised module for a TF device under the present configuration: compiled, or
 * read from the executable cache, when it is first asked for. The caller holds and uses it. */
bool program_get(const void *module, size_t size, int ordinal, tf_program **out, TF_Status *status);

/* Uses a program that the caller holds; false if it has been forgotten: get it again. */
bool program_use(tf_program *program);
/* The end of that. */
void program_done(tf_program *program);
/* The end of holding it; NULL is allowed. */
void program_drop(tf_program *program);

/* ---- For those who use it ---- */

size_t program_num_inputs(const tf_program *program);
size_t program_num_outputs(const tf_program *program);
const trm_tensor_info *program_output(const tf_program *program, size_t i);

/* Checks that the tensors are what the program takes, in number, types and sizes. */
bool program_check(const tf_program *program, TF_Tensor *const *tensors, size_t count,
                   TF_Status *status);

/* An IPU runs one program at a time: a run is between these two. */
void program_lock(tf_program *program);
void program_unlock(tf_program *program);
/* Computes; call with the program locked. The outputs' memory is the caller's. */
bool program_run(tf_program *program, const tf_call *call, TF_Tensor *const *tensors,
                 void *const *outputs, TF_Status *status);
/* Asks a run in another thread to stop. Needs no lock, but a run that is going on: with none, it is
 * the next run that is stopped, unless program_forget_cancel is called before. */
void program_cancel(tf_program *program);
void program_forget_cancel(tf_program *program);

/* Whether the program reads an infeed; which one for a call, and how many element tuples at least.
 */
struct tf_infeed;
bool program_is_fed(const tf_program *program);
bool program_find_infeed(const tf_program *program, const tf_call *call,
                         struct tf_infeed **out_infeed, uint64_t *out_reads, TF_Status *status);

/* ---- For Python ---- */

/* How many programs this process has compiled, or read from the executable cache. */
TRM_TF_API uint64_t trm_tf_programs_built(void);
/* How many of them are in memory. */
TRM_TF_API uint64_t trm_tf_programs_kept(void);
/* Has every program compiled again that runs from now on. */
TRM_TF_API void trm_tf_forget_programs(void);

#endif /* TREMULA_TF_PROGRAMS_H_ */
