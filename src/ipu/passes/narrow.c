/* Owns: finding float32 values that an IPU keeps in float16.
 *
 * XLA widens float16 before a normalisation or a sum, and the module for the host keeps the wide
 * values, which costs little there. The vertices of an IPU read float16 and compute in float32
 * inside (popnn's norms, popops::reduce, popops::map), and the original drops such casts. This pass
 * gives two kinds of values a float16 shape: a widened value whose readers all take float16, and
 * the result of a normalisation of such a value. It runs on the estimate's copy of the module, of
 * which only the shapes are read. */
#include <string.h>

#include "passes/pass.h"

enum { MAX_LEAVES = 64 };

typedef struct narrower {
  trm_module *module;
  trm_computation *computation;
  const uint32_t *callers; /* by computation */
  uint64_t *may;           /* by instruction: the leaves whose readers all take float16 */
  uint64_t *is_narrow;     /* by instruction: the leaves that become float16 */
} narrower;

static bool is_norm(const trm_instruction *instruction) {
  switch (trm_instruction_acts_as(instruction)) {
    case TRM_OP_BATCH_NORM_TRAINING:
    case TRM_OP_BATCH_NORM_GRAD:
    case TRM_OP_BATCH_NORM_INFERENCE: return true;
    default: return false;
  }
}

/* Whether an operand has full size: the normalised array or its gradient. The custom call for the
 * statistics of a gradient has five operands. */
static bool is_norm_data(const trm_instruction *norm, uint32_t operand) {
  const bool is_gradient = norm->opcode == TRM_OP_BATCH_NORM_GRAD ||
                           (norm->opcode == TRM_OP_CUSTOM_CALL && norm->num_operands == 5);
  return operand == 0 || (is_gradient && operand == 4);
}

static bool is_view(trm_opcode opcode) {
  switch (opcode) {
    case TRM_OP_BITCAST:
    case TRM_OP_RESHAPE:
    case TRM_OP_BROADCAST:
    case TRM_OP_TRANSPOSE:
    case TRM_OP_SLICE:
    case TRM_OP_REVERSE:
    case TRM_OP_COPY: return true;
    default: return false;
  }
}

/* Whether reader u takes float16 as its operand k. A view does when its own readers do. */
static bool takes_halves(const narrower *n, trm_index u, uint32_t k) {
  const trm_instruction *reader = &n->computation->instructions[u];
  if (is_norm(reader)) return is_norm_data(reader, k);
  switch (reader->opcode) {
    case TRM_OP_REDUCE: { /* a maximum of float16 is float16, and the original widens before it */
      const trm_computation *sum = &n->module->computations[reader->called[0]];
      return k < reader->num_operands / 2 &&
             (reader->shape.dtype == TRM_F16 || sum->instructions[sum->root].opcode == TRM_OP_ADD);
    }
    case TRM_OP_FUSION: return n->callers[reader->called[0]] == 1;
    case TRM_OP_CONVERT: return true;
    default: return is_view(reader->opcode) && (n->may[u] & 1) != 0;
  }
}

static void find_tolerant(const narrower *n) {
  const trm_computation *c = n->computation;
  for (trm_index i = 0; i < c->num_instructions; ++i) n->may[i] = UINT64_MAX;
  n->may[c->root] = 0;
  for (trm_index u = c->num_instructions; u-- > 0;) {
    const trm_instruction *reader = &c->instructions[u];
    for (uint32_t k = 0; k < reader->num_operands; ++k) {
      const trm_index operand = reader->operands[k];
      if (reader->opcode == TRM_OP_GET_TUPLE_ELEMENT) {
        const int32_t leaf =
            trm_shape_leaf_offset(&c->instructions[operand].shape, (int32_t)reader->number);
        if (leaf >= MAX_LEAVES || (n->may[u] & 1) == 0) {
          n->may[operand] &= leaf >= MAX_LEAVES ? 0 : ~(UINT64_C(1) << leaf);
        }
      } else if (!takes_halves(n, u, k)) {
        n->may[operand] = 0;
      }
    }
  }
}

static bool is_half(const narrower *n, trm_index i) {
  return n->computation->instructions[i].shape.dtype == TRM_F16 || (n->is_narrow[i] & 1) != 0;
}

/* Whether a value is a widened float16 or the square of one; popops::reduce can square its
 * operand. */
static bool is_widened(const trm_computation *c, const trm_instruction *value) {
  if (value->shape.dtype != TRM_F32) return false;
  if (value->opcode == TRM_OP_MULTIPLY && value->operands[0] == value->operands[1]) {
    value = &c->instructions[value->operands[0]];
  }
  return value->opcode == TRM_OP_CONVERT &&
         c->instructions[value->operands[0]].shape.dtype == TRM_F16;
}

/* The leaves of a fusion that its body widens at the end. */
static uint64_t widened_leaves(const narrower *n, const trm_instruction *fusion) {
  const trm_computation *body = &n->module->computations[fusion->called[0]];
  if (n->callers[fusion->called[0]] != 1) return 0;
  const trm_instruction *root = &body->instructions[body->root];
  const bool several = root->opcode == TRM_OP_TUPLE;
  uint64_t leaves = 0;
  for (uint32_t l = 0; l < (several ? root->num_operands : 1) && l < MAX_LEAVES; ++l) {
    const trm_instruction *result = several ? &body->instructions[root->operands[l]] : root;
    if (is_widened(body, result)) leaves |= UINT64_C(1) << l;
  }
  return leaves;
}

static uint64_t narrow_leaves(const narrower *n, trm_index i) {
  const trm_computation *c = n->computation;
  const trm_instruction *instruction = &c->instructions[i];
  if (n->may[i] == 0) return 0;
  if (is_norm(instruction)) {
    if (instruction->opcode == TRM_OP_CUSTOM_CALL) return 0;
    if (!is_half(n, instruction->operands[0])) return 0;
    if (instruction->opcode == TRM_OP_BATCH_NORM_GRAD && !is_half(n, instruction->operands[4])) {
      return 0;
    }
    return n->may[i] & 1;
  }
  switch (instruction->opcode) {
    case TRM_OP_FUSION: return n->may[i] & widened_leaves(n, instruction);
    case TRM_OP_CONVERT:
      return instruction->shape.dtype == TRM_F32 && is_half(n, instruction->operands[0])
                 ? n->may[i] & 1
                 : 0;
    case TRM_OP_MULTIPLY: return is_widened(c, instruction) ? n->may[i] & 1 : 0;
    case TRM_OP_GET_TUPLE_ELEMENT: {
      const int32_t leaf = trm_shape_leaf_offset(&c->instructions[instruction->operands[0]].shape,
                                                 (int32_t)instruction->number);
      return leaf < MAX_LEAVES ? n->is_narrow[instruction->operands[0]] >> leaf & 1 : 0;
    }
    default:
      return is_view(instruction->opcode) && instruction->num_operands == 1
                 ? n->is_narrow[instruction->operands[0]] & 1
                 : 0;
  }
}

/* Sets the leaves of a shape to float16; a tuple must not be nested. */
static trm_status narrow_shape(narrower *n, trm_shape *shape, uint64_t leaves, trm_error *error) {
  if (shape->dtype == TRM_F32 && (leaves & 1) != 0) shape->dtype = TRM_F16;
  if (shape->dtype != TRM_TUPLE) return TRM_OK;
  trm_shape *elements = ARENA_NEW(&n->module->arena, trm_shape, (size_t)shape->num_elements + 1);
  CHECK_MEMORY(elements, "narrow values");
  for (int32_t e = 0; e < shape->num_elements; ++e) {
    elements[e] = shape->elements[e];
    const bool narrow = e < MAX_LEAVES && (leaves >> e & 1) != 0;
    if (narrow && elements[e].dtype == TRM_F32) elements[e].dtype = TRM_F16;
  }
  shape->elements = elements;
  return TRM_OK;
}

/* Sets the shapes in a fusion's body: parameters follow the operands, results follow the fusion's
 * leaves. */
static trm_status narrow_body(narrower *n, trm_index i, trm_error *error) {
  const trm_instruction *fusion = &n->computation->instructions[i];
  trm_computation *body = &n->module->computations[fusion->called[0]];
  if (n->callers[fusion->called[0]] != 1) return TRM_OK;
  for (uint32_t k = 0; k < fusion->num_operands && k < body->num_parameters; ++k) {
    if ((n->is_narrow[fusion->operands[k]] & 1) == 0) continue;
    trm_instruction *parameter = &body->instructions[body->parameters[k]];
    if (parameter->shape.dtype == TRM_F32) parameter->shape.dtype = TRM_F16;
  }
  if (n->is_narrow[i] == 0) return TRM_OK;
  trm_instruction *root = &body->instructions[body->root];
  if (root->opcode != TRM_OP_TUPLE) return narrow_shape(n, &root->shape, n->is_narrow[i], error);
  for (uint32_t l = 0; l < root->num_operands && l < MAX_LEAVES; ++l) {
    if ((n->is_narrow[i] >> l & 1) == 0) continue;
    TRY(narrow_shape(n, &body->instructions[root->operands[l]].shape, 1, error));
  }
  return narrow_shape(n, &root->shape, n->is_narrow[i], error);
}

static trm_status narrow_computation(narrower *n, trm_arena *scratch, trm_error *error) {
  const uint32_t count = n->computation->num_instructions;
  n->may = ARENA_NEW(scratch, uint64_t, (size_t)count + 1);
  n->is_narrow = ARENA_NEW(scratch, uint64_t, (size_t)count + 1);
  if (n->may == NULL || n->is_narrow == NULL) FAIL_NO_MEMORY("narrow values");
  find_tolerant(n);
  for (trm_index i = 0; i < count; ++i) n->is_narrow[i] = narrow_leaves(n, i);
  for (trm_index i = 0; i < count; ++i) {
    trm_instruction *instruction = &n->computation->instructions[i];
    if (n->is_narrow[i] != 0) {
      TRY(narrow_shape(n, &instruction->shape, n->is_narrow[i], error));
    }
    if (instruction->opcode == TRM_OP_FUSION) TRY(narrow_body(n, i, error));
  }
  return TRM_OK;
}

trm_status trm_pass_narrow(trm_module *module, trm_error *error) {
  trm_arena scratch = {0};
  trm_status status = TRM_OK;
  uint32_t *callers = ARENA_NEW(&scratch, uint32_t, (size_t)module->num_computations + 1);
  bool *is_walked = ARENA_NEW(&scratch, bool, (size_t)module->num_computations + 1);
  if (callers == NULL || is_walked == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while planning");
  }
  is_walked[module->entry] = true;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      const bool control = instruction->opcode == TRM_OP_WHILE ||
                           instruction->opcode == TRM_OP_CONDITIONAL ||
                           instruction->opcode == TRM_OP_CALL;
      for (uint32_t k = 0; k < instruction->num_called; ++k) {
        ++callers[instruction->called[k]];
        if (control) is_walked[instruction->called[k]] = true;
      }
    }
  }
  for (uint32_t c = 0; c < module->num_computations && status == TRM_OK; ++c) {
    if (!is_walked[c]) continue;
    narrower n = {.module = module, .computation = &module->computations[c], .callers = callers};
    status = narrow_computation(&n, &scratch, error);
  }
done:
  trm_arena_free(&scratch);
  return status;
}
