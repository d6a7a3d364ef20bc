/* Owns: what makes normalisations and their gradients read fewer arrays, for the host; every result
 * keeps its bits.
 *
 * A reshape of elementwise instructions over reshapes of what has its shape goes: JAX computes a
 * mean twice, once with and once without the summed dimensions, and the two are one afterwards. A
 * ReLU's gradient asks whether the ReLU's result, not its operand, is above zero: the operand need
 * not be kept. */
#include "passes/edit.h"
#include "passes/pass.h"

enum { MAX_OPERANDS = 3 };

typedef struct relu_table {
  uint32_t count;
  trm_index *of; /* by instruction: its maximum with zero, or TRM_NO_INDEX */
} relu_table;

static bool is_scalar_broadcast(const trm_edit *e, trm_index i) {
  const trm_instruction *broadcast = trm_edit_at(e, i);
  return broadcast->opcode == TRM_OP_BROADCAST && broadcast->dimensions.count == 0;
}

/* Operand `i` of what is reshaped to `shape`, as it is before the reshape; *is_free: it costs
 * nothing. TRM_NO_INDEX: it is not there. */
static trm_index before_reshape(const trm_edit *e, trm_index i, const trm_shape *shape,
                                bool *is_free) {
  *is_free = is_scalar_broadcast(e, i);
  if (*is_free) return i;
  if (trm_edit_at(e, i)->opcode != TRM_OP_RESHAPE) return TRM_NO_INDEX;
  const trm_index from = trm_edit_operand(e, i, 0);
  return trm_shape_same_dims(&trm_edit_at(e, from)->shape, shape) ? from : TRM_NO_INDEX;
}

static trm_status lift_reshape(trm_edit *e, trm_index i, trm_error *error) {
  const trm_index inner = trm_edit_operand(e, i, 0);
  const trm_shape shape = trm_edit_at(e, i)->shape;
  trm_instruction lifted = *trm_edit_at(e, inner);
  trm_index operands[MAX_OPERANDS];
  bool is_free[MAX_OPERANDS], is_reshaped = false;
  if (!trm_opcode_is_elementwise(lifted.opcode) || lifted.num_operands > MAX_OPERANDS ||
      lifted.num_control_predecessors > 0) {
    return TRM_OK;
  }
  for (uint32_t k = 0; k < lifted.num_operands; ++k) {
    operands[k] = before_reshape(e, trm_edit_operand(e, inner, k), &shape, &is_free[k]);
    if (operands[k] == TRM_NO_INDEX) return TRM_OK;
    is_reshaped |= !is_free[k];
  }
  if (!is_reshaped) return TRM_OK;
  for (uint32_t k = 0; k < lifted.num_operands; ++k) {
    if (!is_free[k]) continue;
    trm_shape wide = shape;
    wide.dtype = trm_edit_at(e, operands[k])->shape.dtype;
    TRY(trm_edit_broadcast(e, i, wide, trm_edit_operand(e, operands[k], 0), 0, NULL, &operands[k],
                           error));
  }
  lifted.operands = operands;
  lifted.shape = shape;
  trm_index made;
  TRY(trm_edit_add(e, i, lifted, &made, error));
  trm_edit_replace(e, i, made);
  return TRM_OK;
}

/* x > 0 as max(x, 0) > 0: the same for NaN, which is above nothing, and for zeros. */
static trm_status look_at_relu(trm_edit *e, trm_index i, const relu_table *relus,
                               trm_error *error) {
  trm_instruction above = *trm_edit_at(e, i);
  if (above.comparison != TRM_CMP_GT || above.comparison_type == TRM_CMPTYPE_TOTALORDER ||
      !trm_edit_is_constant(e, trm_edit_operand(e, i, 1), 0)) {
    return TRM_OK;
  }
  const trm_index x = trm_edit_operand(e, i, 0);
  const trm_index relu = x < relus->count ? relus->of[x] : TRM_NO_INDEX;
  if (relu == TRM_NO_INDEX) return TRM_OK;
  trm_index operands[2] = {relu, trm_edit_operand(e, i, 1)}, made;
  above.operands = operands;
  TRY(trm_edit_add(e, i, above, &made, error));
  trm_edit_replace(e, i, made);
  return TRM_OK;
}

static trm_status rewrite(trm_edit *e, trm_index i, const relu_table *relus, trm_error *error) {
  if (trm_edit_at(e, i)->num_control_predecessors > 0) return TRM_OK;
  switch (trm_edit_at(e, i)->opcode) {
    case TRM_OP_RESHAPE: return lift_reshape(e, i, error);
    case TRM_OP_COMPARE: return look_at_relu(e, i, relus, error);
    default: return TRM_OK;
  }
}

static void note_relu(const trm_edit *e, trm_index i, const relu_table *relus) {
  const trm_instruction *maximum = trm_edit_at(e, i);
  if (maximum->opcode != TRM_OP_MAXIMUM || maximum->num_control_predecessors > 0) return;
  for (uint32_t k = 0; k < 2; ++k) {
    if (trm_edit_is_constant(e, trm_edit_operand(e, i, k), 0)) {
      relus->of[trm_edit_operand(e, i, 1 - k)] = i;
    }
  }
}

static trm_status lean_computation(trm_edit *e, trm_error *error) {
  const uint32_t count = trm_edit_computation(e)->num_instructions;
  const relu_table relus = {count, trm_allocate(((size_t)count + 1) * sizeof(trm_index))};
  CHECK_MEMORY(relus.of, "the ReLUs of a computation");
  trm_status status = TRM_OK;
  for (trm_index i = 0; i < count; ++i) relus.of[i] = TRM_NO_INDEX;
  for (trm_index i = 0; i < count; ++i) note_relu(e, i, &relus);
  for (trm_index i = 0; status == TRM_OK && i < count; ++i) status = rewrite(e, i, &relus, error);
  trm_free(relus.of);
  return status;
}

trm_status trm_pass_lean_norms(trm_module *module, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_edit e;
    TRY(trm_edit_begin(&e, module, c, error));
    TRY(trm_edit_end(&e, lean_computation(&e, error), error));
  }
  return TRM_OK;
}
