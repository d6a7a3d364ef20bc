/* Owns: the amount of data that a run reads, for throughput. */
#include <string.h>

#include "ipu/program/draft.h"

/* The largest array so far that brings data into the program. */
typedef struct batch {
  int64_t bytes, size;
  double executions;
  bool is_image;
} batch;

static void consider(batch *best, const trm_shape *shape, double executions) {
  if (!trm_shape_is_array(shape)) return;
  const int64_t bytes = trm_tile_shape_bytes(shape);
  if (bytes <= best->bytes) return;
  *best = (batch){bytes, shape->rank > 0 ? shape->dims[0] : 1, executions, shape->rank == 4};
}

static const trm_instruction *instruction_of(const trm_program *p, uint32_t source) {
  if (source == TRM_NO_INDEX) return NULL;
  const trm_program_source *s = &p->sources[source];
  return &p->module->computations[s->computation].instructions[s->instruction];
}

double trm_program_items(const trm_program *p, bool *out_images) {
  batch best = {0};
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (p->steps[s].type != TRM_STEP_TYPE_STREAM_COPY_MID) continue;
    const trm_instruction *i = instruction_of(p, p->steps[s].source);
    if (i == NULL || trm_instruction_acts_as(i) != TRM_OP_INFEED) continue;
    const int32_t leaves = trm_shape_num_leaves(&i->shape);
    for (int32_t l = 0; l < leaves; ++l) {
      consider(&best, trm_shape_leaf(&i->shape, l), p->steps[s].executions);
    }
  }
  const bool fed = best.bytes > 0;
  for (uint32_t v = 0; !fed && v < p->num_variables; ++v) {
    const trm_program_variable *variable = &p->variables[v];
    if (!variable->is_input || variable->is_weight) continue;
    const trm_instruction *i = instruction_of(p, variable->source);
    const trm_shape *shape = i == NULL ? NULL : trm_shape_leaf(&i->shape, (int32_t)variable->leaf);
    if (shape != NULL && shape->rank > 0) consider(&best, shape, 1);
  }
  *out_images = best.is_image;
  return (double)best.size * best.executions * p->options.replicas;
}
