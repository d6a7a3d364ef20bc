/* A pipeline made of a program that computes one batch (make_pipeline.c). */
#ifndef TREMULA_IPU_PROGRAM_MAKE_PIPELINE_H_
#define TREMULA_IPU_PROGRAM_MAKE_PIPELINE_H_

#include "ipu/program/state_updates.h"

typedef struct trm_pipeline_request {
  uint32_t num_stages;     /* stage s is on IPU s */
  uint32_t mini_batches;   /* of a weight update */
  const char *schedule;    /* "Grouped", "Interleaved", "Sequential" */
  bool offload;            /* optimizer state in remote memory */
  const int32_t *stage;    /* by instruction of the entry; -1: inputs, constants, the result */
  const bool *is_backward; /* by instruction of the entry */
  const bool *is_update; /* by instruction of the entry: it belongs to the update of the weights */
  const trm_state_updates *updates;
  uint32_t states; /* set: how many inputs the update of a weight replaces, 2 with momentum */
} trm_pipeline_request;

/* Whether the program can be one: the entry computes all of it, of inputs that are arrays. */
bool trm_program_can_be_pipeline(const trm_program *program, const trm_module *module);

/* Makes `module`, a copy of the program's, a pipeline: the entry's instructions become the body of
 * a loop over mini-batches, which the infeed brings. What updates weights stays behind the loop,
 * and works on sums of what the loop computes. */
trm_status trm_program_make_pipeline(trm_module *module, trm_pipeline_request *request,
                                     trm_error *error);

#endif /* TREMULA_IPU_PROGRAM_MAKE_PIPELINE_H_ */
