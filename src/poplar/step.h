/* Library steps: what a function of popops or poplin computes, as a small HLO module that
 * Tremula's compiler makes an executable of. So every step has the engine's own kernels, fused and
 * on all threads. Steps of equal modules share an executable. */
#ifndef TREMULA_POPLAR_STEP_H_
#define TREMULA_POPLAR_STEP_H_

#include "poplar/graph.h"

typedef struct trm_poplar_step {
  const char *name;
  trm_executable *executable; /* operands are its inputs, the result is its only output */
  uint32_t num_operands;
  trm_poplar_tensor **operands;
  trm_poplar_tensor *result;
} trm_poplar_step;

void trm_poplar_step_free(trm_poplar_step *step);
/* Makes a step of a module, which it frees, and adds it to a sequence. */
trm_status trm_poplar_step_add(trm_poplar_graph *graph, trm_module *module,
                               const trm_poplar_tensor *const *operands, uint32_t num_operands,
                               trm_poplar_tensor *result, const char *name,
                               trm_poplar_program **sequence, trm_poplar_error *error);

/* expression.c, library.c: the functions of trm_poplar_api. */
int32_t trm_poplar_step_map(trm_poplar_graph *graph, const trm_poplar_node *nodes,
                            uint64_t num_nodes, const trm_poplar_tensor *const *tensors,
                            uint64_t num_tensors, trm_poplar_program **sequence, const char *name,
                            trm_poplar_tensor **tensor, trm_poplar_error *error);
int32_t trm_poplar_step_mat_mul(trm_poplar_graph *graph, const trm_poplar_tensor *left,
                                const trm_poplar_tensor *right, int32_t dtype,
                                trm_poplar_program **sequence, const char *name,
                                trm_poplar_tensor **out_tensor, trm_poplar_error *error);
int32_t trm_poplar_mat_mul_input(trm_poplar_graph *graph, int32_t dtype, const uint64_t *left_dims,
                                 const uint64_t *right_dims, uint32_t rank, bool is_left,
                                 const char *name, trm_poplar_tensor **out_tensor,
                                 trm_poplar_error *error);
int32_t trm_poplar_step_reduce(trm_poplar_graph *graph, const trm_poplar_tensor *operand,
                               int32_t dtype, const uint32_t *dims, uint32_t num_dims,
                               int32_t reduction, const trm_poplar_tensor *scale, bool update,
                               trm_poplar_program **sequence, const char *name,
                               trm_poplar_tensor **tensor, trm_poplar_error *error);

/* Running. A runner computes a step for one caller at a time. */
typedef struct trm_poplar_runner trm_poplar_runner;
trm_status trm_poplar_runner_create(const trm_poplar_step *step, trm_poplar_runner **out_runner,
                                    trm_error *error);
/* result may be an operand's address: computed in place where the kernel can. */
trm_status trm_poplar_runner_run(trm_poplar_runner *runner, const void *const *operands,
                                 void *result, trm_error *error);
void trm_poplar_runner_free(trm_poplar_runner *runner);

#endif /* TREMULA_POPLAR_STEP_H_ */
