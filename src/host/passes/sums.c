/* Owns: sums of an array and of its multiples over the same dimensions: sum(x * broadcast(c)) is
 * sum(x) * c where c does not vary over the summed dimensions, sum(-x) is -sum(x), and
 * sum(x - mean(x)) is sum(x) - n * mean(x): zero, up to the rounding of the mean. The gradient of a
 * batch norm has all these sums, so the pass saves passes over whole arrays. Floats are rounded
 * differently; so the pass serves float32 and the host only. */
#include <string.h>

#include "passes/edit.h"
#include "passes/pass.h"

/* Instructions between an array and its multiple. */
enum { MAX_STEPS = 5 };

typedef struct sums {
  uint32_t count;
  trm_index *of; /* by instruction: the first sum of it, or TRM_NO_INDEX */
} sums;

/* From an array to what it is a multiple of, or has its mean subtracted from. */
typedef struct step {
  trm_index factor; /* TRM_NO_INDEX: minus one */
  bool is_mean;
} step;

static bool is_sum(const trm_edit *e, trm_index i) {
  const trm_instruction *reduce = trm_edit_at(e, i);
  return reduce->opcode == TRM_OP_REDUCE && reduce->num_operands == 2 &&
         reduce->shape.dtype == TRM_F32 && reduce->num_control_predecessors == 0 &&
         reduce->sharding == NULL && trm_edit_is_constant(e, trm_edit_operand(e, i, 1), 0) &&
         trm_computation_combiner(&e->module->computations[reduce->called[0]]) == TRM_OP_ADD;
}

/* The place of dimension d among the dimensions that stay; -1 where it is summed. */
static int64_t place_of(const trm_dims *summed, int64_t d) {
  int64_t place = d;
  for (int32_t i = 0; i < summed->count; ++i) {
    if (summed->items[i] == d) return -1;
    place -= summed->items[i] < d;
  }
  return place;
}

/* Whether instruction i is a broadcast that does not vary over the summed dimensions. */
static bool is_factor(const trm_edit *e, trm_index i, const trm_dims *summed) {
  const trm_instruction *broadcast = trm_edit_at(e, i);
  if (broadcast->opcode != TRM_OP_BROADCAST) return false;
  for (int32_t k = 0; k < broadcast->dimensions.count; ++k) {
    if (place_of(summed, broadcast->dimensions.items[k]) < 0) return false;
  }
  return true;
}

/* How many elements a sum adds up. */
static double summed_count(const trm_edit *e, trm_index sum) {
  const trm_index operand = trm_edit_operand(e, sum, 0);
  return (double)trm_shape_count(&trm_edit_at(e, operand)->shape) /
         (double)trm_shape_count(&trm_edit_at(e, sum)->shape);
}

/* The sum of x over these dimensions, if it is there. */
static trm_index known_sum(const trm_edit *e, const sums *s, trm_index x, const trm_dims *summed) {
  const trm_index sum = x < s->count ? s->of[x] : TRM_NO_INDEX;
  if (sum == TRM_NO_INDEX || !trm_dims_equal(&trm_edit_at(e, sum)->dimensions, summed)) {
    return TRM_NO_INDEX;
  }
  return sum;
}

/* Whether the broadcast is of the mean that is made of the known sum of `x`. */
static bool is_mean(const trm_edit *e, const sums *s, trm_index broadcast, trm_index x,
                    const trm_dims *summed) {
  const trm_index sum = known_sum(e, s, x, summed);
  if (sum == TRM_NO_INDEX || !is_factor(e, broadcast, summed) ||
      trm_shape_count(&trm_edit_at(e, sum)->shape) == 0) {
    return false;
  }
  const trm_index mean = trm_edit_operand(e, broadcast, 0);
  const trm_dims kept = trm_edit_at(e, broadcast)->dimensions;
  for (int32_t k = 0; k < kept.count; ++k) {
    if (place_of(summed, kept.items[k]) != k) return false;
  }
  return kept.count == trm_edit_at(e, sum)->shape.rank &&
         trm_edit_at(e, mean)->opcode == TRM_OP_DIVIDE &&
         trm_edit_operand(e, mean, 0) == trm_edit_resolve(e, sum) &&
         trm_edit_is_constant(e, trm_edit_operand(e, mean, 1), summed_count(e, sum));
}

/* One step down from `i`. */
static bool step_down(const trm_edit *e, const sums *s, trm_index i, const trm_dims *summed,
                      trm_index *out_from, step *out) {
  const trm_instruction *instruction = trm_edit_at(e, i);
  *out = (step){.factor = TRM_NO_INDEX};
  if (instruction->num_control_predecessors > 0) return false;
  if (instruction->opcode == TRM_OP_NEGATE) {
    *out_from = trm_edit_operand(e, i, 0);
    return true;
  }
  if (instruction->opcode == TRM_OP_SUBTRACT) {
    *out_from = trm_edit_operand(e, i, 0);
    *out = (step){trm_edit_operand(e, i, 1), true};
    return is_mean(e, s, out->factor, *out_from, summed);
  }
  if (instruction->opcode != TRM_OP_MULTIPLY) return false;
  for (uint32_t k = 0; k < 2; ++k) {
    out->factor = trm_edit_operand(e, i, k);
    *out_from = trm_edit_operand(e, i, 1 - k);
    if (is_factor(e, out->factor, summed)) return true;
  }
  return false;
}

/* *sum one step up, for the sum of the array that the broadcast has the shape of. */
static trm_status step_up(trm_edit *e, trm_index like, const trm_dims *summed, step up,
                          trm_index *sum, trm_error *error) {
  const trm_shape shape = trm_edit_at(e, like)->shape;
  if (up.factor == TRM_NO_INDEX) {
    return trm_edit_unary(e, like, TRM_OP_NEGATE, shape, *sum, sum, error);
  }
  const trm_dims dimensions = trm_edit_at(e, up.factor)->dimensions;
  int64_t places[TRM_MAX_RANK];
  for (int32_t k = 0; k < dimensions.count; ++k) {
    places[k] = place_of(summed, dimensions.items[k]);
  }
  trm_index narrow, count;
  TRY(trm_edit_broadcast(e, like, shape, trm_edit_operand(e, up.factor, 0), dimensions.count,
                         places, &narrow, error));
  if (!up.is_mean) {
    return trm_edit_binary(e, like, TRM_OP_MULTIPLY, shape, *sum, narrow, sum, error);
  }
  TRY(trm_edit_scalar(e, like, TRM_F32, summed_count(e, like), &count, error));
  TRY(trm_edit_broadcast(e, like, shape, count, 0, NULL, &count, error));
  TRY(trm_edit_binary(e, like, TRM_OP_MULTIPLY, shape, narrow, count, &narrow, error));
  return trm_edit_binary(e, like, TRM_OP_SUBTRACT, shape, *sum, narrow, sum, error);
}

static trm_status share(trm_edit *e, trm_index i, void *state, trm_error *error) {
  const sums *s = state;
  if (!is_sum(e, i)) return TRM_OK;
  const trm_dims summed = trm_edit_at(e, i)->dimensions;
  step steps[MAX_STEPS];
  trm_index from = trm_edit_operand(e, i, 0), base = TRM_NO_INDEX;
  for (int count = 0; count <= MAX_STEPS; ++count) {
    trm_index sum = known_sum(e, s, from, &summed);
    if (sum != TRM_NO_INDEX && sum != i) {
      for (int k = count - 1; k >= 0; --k) TRY(step_up(e, i, &summed, steps[k], &sum, error));
      trm_edit_replace(e, i, sum);
      return TRM_OK;
    }
    if (count == MAX_STEPS || !step_down(e, s, from, &summed, &base, &steps[count])) break;
    from = base;
  }
  return TRM_OK;
}

trm_status trm_pass_share_sums(trm_module *module, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_edit e;
    TRY(trm_edit_begin(&e, module, c, error));
    const uint32_t count = trm_edit_computation(&e)->num_instructions;
    sums s = {count, trm_allocate((size_t)count * sizeof(trm_index))};
    trm_status status = TRM_OK;
    if (s.of == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while allocating sums");
    }
    for (trm_index i = 0; status == TRM_OK && i < count; ++i) s.of[i] = TRM_NO_INDEX;
    for (trm_index i = 0; status == TRM_OK && i < count; ++i) {
      const trm_index operand = is_sum(&e, i) ? trm_edit_operand(&e, i, 0) : TRM_NO_INDEX;
      if (operand != TRM_NO_INDEX && s.of[operand] == TRM_NO_INDEX) s.of[operand] = i;
    }
    for (trm_index i = 0; status == TRM_OK && i < count; ++i) status = share(&e, i, &s, error);
    trm_free(s.of);
    TRY(trm_edit_end(&e, status, error));
  }
  return TRM_OK;
}
