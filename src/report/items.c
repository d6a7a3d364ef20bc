/* Owns: how much data a run takes, for throughput: images where the elements have rank 4, samples
 * otherwise. A batch is the first dimension of the largest array that infeeds bring, or, without
 * any, of the largest input that is no weight. */
#include <string.h>

#include "report/write.h"

enum { MOST_DEPTH = 2 };

typedef struct batch {
  int64_t bytes, size;
  double executions;
  bool is_image;
} batch;

/* The leaves of what a feed or an input is: tuples within tuples, not more than that. */
static void consider(batch *best, const trm_shape *shape, int depth, double executions) {
  const bool is_tuple = shape->dtype == TRM_TUPLE;
  for (int32_t e = 0; is_tuple && depth > 0 && e < shape->num_elements; ++e) {
    consider(best, &shape->elements[e], depth - 1, executions);
  }
  if (is_tuple || shape->rank < 1) return;
  const int64_t bytes = trm_tile_shape_bytes(shape);
  if (bytes <= best->bytes) return;
  *best = (batch){bytes, shape->dims[0], executions, shape->rank == 4};
}

static const trm_instruction *instruction_of(const trm_program *p, uint32_t source) {
  if (source == TRM_NO_INDEX) return NULL;
  const trm_program_source *s = &p->sources[source];
  if (s->computation >= p->module->num_computations) return NULL;
  const trm_computation *computation = &p->module->computations[s->computation];
  if (s->instruction >= computation->num_instructions) return NULL;
  return &computation->instructions[s->instruction];
}

double trm_report_items(const trm_program *p, bool *out_images) {
  batch best = {0};
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (p->steps[s].type != TRM_STEP_TYPE_STREAM_COPY_MID) continue;
    const trm_instruction *i = instruction_of(p, p->steps[s].source);
    if (i == NULL || i->custom_call == NULL || i->custom_call->target == NULL ||
        strcmp(i->custom_call->target, "tremula.infeed") != 0) {
      continue;
    }
    consider(&best, &i->shape, MOST_DEPTH, p->steps[s].executions);
  }
  const bool fed = best.bytes > 0;
  for (uint32_t v = 0; !fed && v < p->num_variables; ++v) {
    if (!p->variables[v].is_input || p->variables[v].is_weight) continue;
    const trm_instruction *i = instruction_of(p, p->variables[v].source);
    batch one = {0};
    if (i != NULL) consider(&one, &i->shape, MOST_DEPTH, 1);
    if (one.bytes > best.bytes) best = one;
  }
  *out_images = best.is_image;
  return (double)best.size * best.executions * p->options.replicas;
}
