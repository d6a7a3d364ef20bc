/* Owns: moving instructions whose results do not change out of while loops.
 *
 * An instruction of the body may move if its operands are constants or elements of the state that
 * the body hands on unchanged. It is computed once before the loop, and its result becomes one more
 * element of the state. An instruction that can fail or has side effects does not move, nor does
 * one that is not worth its memory: fusions make broadcasts and iotas at no cost. */
#include <string.h>

#include "passes/loop_state.h"
#include "passes/pass.h"

typedef struct loop {
  trm_module *module;
  uint32_t body;
  trm_index instruction; /* the while */
} loop;

static bool may_move(const trm_instruction *instruction) {
  if (instruction->num_control_predecessors > 0 || instruction->num_called > 0 ||
      !trm_shape_is_array(&instruction->shape)) {
    return false;
  }
  switch (instruction->opcode) {
    case TRM_OP_RESHAPE:
    case TRM_OP_TRANSPOSE:
    case TRM_OP_SLICE:
    case TRM_OP_REVERSE:
    case TRM_OP_PAD:
    case TRM_OP_CONCATENATE:
    case TRM_OP_DOT:
    case TRM_OP_CONVOLUTION:
    case TRM_OP_GATHER:
    case TRM_OP_DYNAMIC_SLICE:
    case TRM_OP_BROADCAST: return true;
    default: return trm_opcode_is_elementwise(instruction->opcode);
  }
}

static bool is_free_in_fusions(trm_opcode opcode) {
  return opcode == TRM_OP_BROADCAST || opcode == TRM_OP_RESHAPE;
}

/* Marks in moves[] the instructions that can move, and counts them. source[i]: the element of the
 * state that instruction i is and that the body hands on, else -1. */
static uint32_t find_moves(const trm_computation *body, const int64_t *source, bool *moves) {
  uint32_t count = 0;
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    const trm_instruction *instruction = &body->instructions[i];
    if (!may_move(instruction)) continue;
    bool invariant = true, constant = true;
    for (uint32_t k = 0; k < instruction->num_operands && invariant; ++k) {
      const trm_index operand = instruction->operands[k];
      const bool is_constant = body->instructions[operand].opcode == TRM_OP_CONSTANT;
      invariant = moves[operand] || source[operand] >= 0 || is_constant;
      constant = constant && is_constant;
    }
    /* An instruction of constants alone is small, or fold.c would have computed it. */
    moves[i] = invariant && instruction->num_operands > 0 && !constant;
    count += moves[i];
  }
  return count;
}

/* Marks the moving instructions that an instruction in the body still reads. */
static void find_results(const trm_computation *body, const bool *moves, bool *is_result) {
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    if (moves[i]) continue;
    const trm_instruction *instruction = &body->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      if (moves[instruction->operands[k]]) is_result[instruction->operands[k]] = true;
    }
  }
}

/* Copies the moving instructions before the loop, in the order of the body. */
static trm_status copy_out(const loop *l, trm_edit *edit, trm_index init, const int64_t *source,
                           const bool *moves, trm_index *outside, trm_error *error) {
  const uint32_t count = l->module->computations[l->body].num_instructions;
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction from = l->module->computations[l->body].instructions[i];
    if (!moves[i] && source[i] < 0 && from.opcode != TRM_OP_CONSTANT) continue;
    if (source[i] >= 0) {
      outside[i] = trm_edit_resolve(edit, trm_edit_at(edit, init)->operands[source[i]]);
      continue;
    }
    trm_instruction copy = from;
    copy.operands = ARENA_NEW(&l->module->arena, trm_index, from.num_operands);
    CHECK_MEMORY(copy.operands, "operands");
    for (uint32_t k = 0; k < from.num_operands; ++k) copy.operands[k] = outside[from.operands[k]];
    copy.num_control_predecessors = 0; /* a constant's are instructions of the body */
    TRY(trm_edit_add(edit, l->instruction, copy, &outside[i], error));
    trm_edit_at(edit, outside[i])->metadata = from.metadata;
  }
  return TRM_OK;
}

static trm_status hoist_moves(const loop *l, trm_edit *edit, const int64_t *source,
                              const bool *moves, const bool *is_result, trm_error *error) {
  trm_module *module = l->module;
  const uint32_t count = module->computations[l->body].num_instructions;
  const trm_index init = trm_edit_resolve(edit, trm_edit_at(edit, l->instruction)->operands[0]);
  trm_status status = TRM_OK;
  trm_index *outside = trm_allocate((count + 1) * sizeof *outside);
  trm_index *results = trm_allocate((count + 1) * sizeof *results);
  trm_index *operands = trm_allocate((count + 1) * sizeof *operands);
  trm_shape *shapes = trm_allocate((count + 1) * sizeof *shapes);
  uint32_t extra = 0;
  trm_edit inner = {0};
  if (outside == NULL || results == NULL || operands == NULL || shapes == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while hoisting");
  }
  TRY_OR_GOTO(copy_out(l, edit, init, source, moves, outside, error), done);
  for (trm_index i = 0; i < count; ++i) {
    if (!is_result[i]) continue;
    shapes[extra] = module->computations[l->body].instructions[i].shape;
    operands[extra] = outside[i];
    results[extra++] = i;
  }
  const int64_t before = trm_edit_at(edit, init)->shape.num_elements;
  TRY_OR_GOTO(trm_loop_grow(edit, l->instruction, shapes, operands, extra, error), done);
  TRY_OR_GOTO(trm_edit_begin(&inner, module, l->body, error), done);
  const trm_index parameter = module->computations[l->body].parameters[0];
  for (uint32_t r = 0; r < extra && status == TRM_OK; ++r) {
    status = trm_edit_element(&inner, results[r], parameter, before + r, &operands[r], error);
    if (status == TRM_OK) trm_edit_replace(&inner, results[r], operands[r]);
  }
  if (status == TRM_OK) {
    status = trm_loop_grow_result(module, l->body, shapes, operands, extra, error);
  }
  status = trm_edit_end(&inner, status, error);
done:
  trm_free(outside);
  trm_free(results);
  trm_free(operands);
  trm_free(shapes);
  return status;
}

static trm_status hoist_loop(const loop *l, trm_edit *edit, trm_error *error) {
  const trm_computation *body = &l->module->computations[l->body];
  const uint32_t count = body->num_instructions;
  trm_status status = TRM_OK;
  int64_t *source = trm_allocate(((size_t)count + 1) * sizeof *source);
  bool *moves = trm_allocate_zeroed((size_t)count + 1, sizeof *moves);
  bool *is_result = trm_allocate_zeroed((size_t)count + 1, sizeof *is_result);
  if (source == NULL || moves == NULL || is_result == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while hoisting");
  }
  if (!trm_find_sources(body, source) || find_moves(body, source, moves) == 0) goto done;
  find_results(body, moves, is_result);
  /* The state carries no broadcast or reshape, because fusions in the loop make them at no cost.
   * Moving instructions may still read the copy outside. */
  bool any = false;
  for (trm_index i = count; i-- > 0;) {
    if (is_result[i] && is_free_in_fusions(body->instructions[i].opcode)) {
      is_result[i] = false;
      const trm_index operand = body->instructions[i].operands[0];
      if (moves[operand]) is_result[operand] = true;
    }
    any = any || is_result[i];
  }
  if (any) status = hoist_moves(l, edit, source, moves, is_result, error);
done:
  trm_free(source);
  trm_free(moves);
  trm_free(is_result);
  return status;
}

static trm_status hoist(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  (void)state;
  const trm_instruction *instruction = trm_edit_at(edit, i);
  if (instruction->opcode != TRM_OP_WHILE || !trm_loop_may_grow(edit, i)) return TRM_OK;
  const loop l = {edit->module, instruction->called[1], i};
  return hoist_loop(&l, edit, error);
}

trm_status trm_pass_hoist(trm_module *module, trm_error *error) {
  /* Inner loops come first, so that an instruction can leave several loops. */
  return trm_edit_module(module, hoist, NULL, error);
}
