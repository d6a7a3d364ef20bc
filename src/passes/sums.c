/* Owns: sums of an array and of its multiples over the same dimensions: sum(x * broadcast(c)) is
 * sum(x) * c where c does not vary over the summed dimensions, and sum(-x) is -sum(x). The gradient
 * of a batch norm has both sums, so this saves a pass over the whole array. Floats are rounded
 * differently; so the pass serves float32 and the host only. */

#include "passes/edit.h"
#include "passes/pass.h"

/* Multiplications and negations between the array and its multiple. */
enum { MOST_FACTORS = 4 };

typedef struct sums {
  trm_index *of; /* by instruction: the first sum of it, or TRM_NO_INDEX */
} sums;

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

/* Whether `i` is *out_from times *out_factor, a broadcast; TRM_NO_INDEX: times minus one. */
static bool step_down(const trm_edit *e, trm_index i, const trm_dims *summed, trm_index *out_from,
                      trm_index *out_factor) {
  const trm_instruction *instruction = trm_edit_at(e, i);
  *out_factor = TRM_NO_INDEX;
  if (instruction->num_control_predecessors > 0) return false;
  if (instruction->opcode == TRM_OP_NEGATE) {
    *out_from = trm_edit_operand(e, i, 0);
    return true;
  }
  if (instruction->opcode != TRM_OP_MULTIPLY) return false;
  for (uint32_t k = 0; k < 2; ++k) {
    *out_factor = trm_edit_operand(e, i, k);
    *out_from = trm_edit_operand(e, i, 1 - k);
    if (is_factor(e, *out_factor, summed)) return true;
  }
  return false;
}

/* *sum becomes *sum * factor; `factor` is a broadcast to the shape before the sum. */
static trm_status add_product(trm_edit *e, trm_index like, const trm_dims *summed, trm_index factor,
                              trm_index *sum, trm_error *error) {
  const trm_shape shape = trm_edit_at(e, like)->shape;
  if (factor == TRM_NO_INDEX) {
    return trm_edit_unary(e, like, TRM_OP_NEGATE, shape, *sum, sum, error);
  }
  const trm_dims dimensions = trm_edit_at(e, factor)->dimensions;
  int64_t places[TRM_MAX_RANK];
  for (int32_t k = 0; k < dimensions.count; ++k) {
    places[k] = place_of(summed, dimensions.items[k]);
  }
  trm_index narrow;
  TRY(trm_edit_broadcast(e, like, shape, trm_edit_operand(e, factor, 0), dimensions.count, places,
                         &narrow, error));
  return trm_edit_binary(e, like, TRM_OP_MULTIPLY, shape, *sum, narrow, sum, error);
}

static trm_status share(trm_edit *e, trm_index i, void *state, trm_error *error) {
  const sums *s = state;
  if (!is_sum(e, i)) return TRM_OK;
  const trm_dims summed = trm_edit_at(e, i)->dimensions;
  trm_index factors[MOST_FACTORS], from = trm_edit_operand(e, i, 0), base = TRM_NO_INDEX;
  for (int count = 0; count <= MOST_FACTORS; ++count) {
    trm_index sum = s->of[from];
    if (sum != TRM_NO_INDEX && sum != i &&
        trm_dims_equal(&trm_edit_at(e, sum)->dimensions, &summed)) {
      for (int k = count - 1; k >= 0; --k) {
        TRY(add_product(e, i, &summed, factors[k], &sum, error));
      }
      trm_edit_replace(e, i, sum);
      return TRM_OK;
    }
    if (count == MOST_FACTORS || !step_down(e, from, &summed, &base, &factors[count])) break;
    from = base;
  }
  return TRM_OK;
}

trm_status trm_pass_share_sums(trm_module *module, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_edit e;
    TRY(trm_edit_begin(&e, module, c, error));
    const uint32_t count = trm_edit_computation(&e)->num_instructions;
    sums s = {.of = trm_allocate((size_t)count * sizeof(trm_index))};
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
