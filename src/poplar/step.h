/* Library steps: what a function of popops or poplin computes, as a small HLO module that
 * Tremula's compiler makes an executable of. So every step has the engine's own kernels, fused and
 * on all threads. Steps of equal modules share an executable. */
#ifndef TREMULA_POPLAR_STEP_H_
#define TREMULA_POPLAR_STEP_H_

#include "poplar/graph.h"
#include "tremula/builder.h"

typedef struct trm_poplar_step {
  const char *name;
  trm_executable *executable; /* operands are its inputs, the result is its only output */
  uint32_t num_operands;
  trm_poplar_tensor **operands;
  trm_poplar_tensor *result;
} trm_poplar_step;

void trm_poplar_step_free(trm_poplar_step *step);
/* Makes an executable one for the CPU, where the operands and the result of a step are. On failure
 * it is NULL. */
trm_status trm_poplar_step_for_cpu(trm_executable **executable, trm_error *error);
/* Makes a step of a module, and adds it to a sequence. */
trm_status trm_poplar_step_add(trm_poplar_graph *graph, trm_module *module,
                               const trm_poplar_tensor *const *operands, uint32_t num_operands,
                               trm_poplar_tensor *result, const char *name,
                               trm_poplar_program **sequence, trm_poplar_error *error);

/* library.c. A parameter of a builder's module for a tensor. */
trm_value trm_poplar_parameter(trm_builder *builder, int64_t number,
                               const trm_poplar_tensor *tensor);
/* A value times a scale, the parameter `number`, in a type. */
trm_value trm_poplar_scaled(trm_builder *builder, trm_value value, int64_t number,
                            const trm_poplar_tensor *scale, trm_dtype dtype);
/* Begins a module. trm_poplar_step_finish frees the builder. */
trm_status trm_poplar_step_begin(const char *name, trm_builder **out_builder,
                                 trm_poplar_error *error);
/* Ends the module, and makes the step. *result NULL: with a new variable. */
trm_status trm_poplar_step_finish(trm_poplar_graph *graph, trm_builder *builder, trm_value root,
                                  const trm_poplar_tensor *const *operands, uint32_t num_operands,
                                  trm_poplar_tensor **result, const char *name,
                                  trm_poplar_program **sequence, trm_poplar_error *error);

/* Running. A runner computes a step for one caller at a time. */
typedef struct trm_poplar_runner trm_poplar_runner;
trm_status trm_poplar_runner_create(const trm_poplar_step *step, trm_poplar_runner **out_runner,
                                    trm_error *error);
/* result may be an operand's address: computed in place where the kernel can. */
trm_status trm_poplar_runner_run(trm_poplar_runner *runner, const void *const *operands,
                                 void *result, trm_error *error);
void trm_poplar_runner_free(trm_poplar_runner *runner);

#endif /* TREMULA_POPLAR_STEP_H_ */
