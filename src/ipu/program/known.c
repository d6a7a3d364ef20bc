/* Owns: integers that are known of the run that an estimate is of: its inputs, and the scalars that
 * the program computes from them. Loops count by them.
 */
#include <string.h>

#include "hlo/infer.h"
#include "ipu/program/draft.h"
#include "passes/evaluate.h"

/* Whether an array is one integer or truth value. */
static bool is_number(const trm_shape *shape) {
  return trm_shape_is_array(shape) && trm_shape_count(shape) == 1 &&
         (trm_dtype_is_integral(shape->dtype) || shape->dtype == TRM_PRED) &&
         trm_dtype_size(shape->dtype) > 0;
}

static int64_t read(const trm_shape *shape, const void *data) {
  const size_t bytes = trm_dtype_size(shape->dtype);
  uint64_t number = 0;
  memcpy(&number, data, bytes);
  const int unused = (int)(64 - 8 * bytes);
  if (trm_dtype_is_unsigned(shape->dtype) || shape->dtype == TRM_PRED) return (int64_t)number;
  return (int64_t)(number << unused) >> unused;
}

/* The leaves of the inputs, one after the other. */
typedef struct leaf_walk {
  const trm_computation *entry;
  uint32_t parameter;
  int32_t leaf;
} leaf_walk;

/* The shape of the next leaf; NULL after the last. */
static const trm_shape *next_leaf(leaf_walk *w) {
  for (; w->parameter < w->entry->num_parameters; ++w->parameter, w->leaf = 0) {
    const trm_shape *shape = &w->entry->instructions[w->entry->parameters[w->parameter]].shape;
    if (w->leaf < trm_shape_num_leaves(shape)) return trm_shape_leaf(shape, w->leaf++);
  }
  return NULL;
}

/* Whether an input is a known integer. One that is on an accelerator comes to the host. */
static bool take(const trm_shape *shape, const void *input, int64_t *out) {
  if (input == NULL || !is_number(shape)) return false;
  if (trm_fetch_resident(input, &(trm_error){0}) != TRM_OK) return false;
  *out = read(shape, input);
  return true;
}

trm_status trm_program_take_inputs(trm_program *program, const trm_module *module,
                                   trm_error *error) {
  const void *const *inputs = program->options.inputs;
  if (inputs == NULL) return TRM_OK;
  size_t count = 0;
  leaf_walk w = {.entry = &module->computations[module->entry]};
  while (next_leaf(&w) != NULL) ++count;
  const void **taken = ARENA_NEW(&program->arena, const void *, count + 1);
  CHECK_MEMORY(taken, "the inputs of a program");
  program->options.inputs = taken;
  w = (leaf_walk){.entry = w.entry};
  for (size_t i = 0; i < count; ++i) {
    const trm_shape *shape = next_leaf(&w);
    int64_t number;
    if (!take(shape, inputs[i], &number)) continue;
    trm_known *known = ARENA_NEW(&program->arena, trm_known, 1);
    CHECK_MEMORY(known, "the inputs of a program");
    *known = (trm_known){number, UINT64_C(1) << i % 64};
    taken[i] = known;
  }
  return TRM_OK;
}

bool trm_program_suits(const trm_program *program, const void *const *inputs) {
  if (program->counted_by == 0 || inputs == NULL) return true;
  const void *const *taken = program->options.inputs;
  leaf_walk w = {.entry = &program->module->computations[program->module->entry]};
  const trm_shape *shape;
  for (size_t i = 0; (shape = next_leaf(&w)) != NULL; ++i) {
    int64_t number;
    if ((program->counted_by >> i % 64 & 1) == 0 || !take(shape, inputs[i], &number)) continue;
    const trm_known *known = taken != NULL ? taken[i] : NULL;
    if (known == NULL || known->number != number) return false;
  }
  return true;
}

/* Computes a scalar whose operands are known; *out_known stays NULL if one is not, or if there is
 * no kernel. */
static trm_status compute(trm_program_draft *draft, const trm_program_scope *scope,
                          const trm_instruction *instruction, const trm_known **out_known,
                          trm_error *error) {
  enum { MOST_OPERANDS = 16 };
  const void *operands[MOST_OPERANDS];
  uint64_t depends = 0;
  if (instruction->num_operands == 0 || instruction->num_operands > MOST_OPERANDS) return TRM_OK;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    if (!is_number(&trm_scope_at(draft, scope, operand)->shape)) return TRM_OK;
    const trm_known *one = scope->leaves[operand][0].known;
    if (one == NULL) return TRM_OK;
    operands[k] = &one->number;
    depends |= one->inputs;
  }
  trm_known *known = ARENA_NEW(&draft->scratch, trm_known, 1);
  CHECK_MEMORY(known, "a known number");
  trm_arena arena = {0};
  trm_error why = {0};
  const trm_status status =
      trm_evaluate(draft->module, &draft->module->computations[scope->computation], instruction,
                   &arena, operands, &known->number, &why);
  trm_arena_free(&arena);
  if (status == TRM_RESOURCE_EXHAUSTED) return trm_fail(error, status, "%s", why.message);
  if (status != TRM_OK) return TRM_OK;
  *known = (trm_known){read(&instruction->shape, &known->number), depends};
  *out_known = known;
  return TRM_OK;
}

trm_status trm_program_note_known(trm_program_draft *draft, const trm_program_scope *scope,
                                  trm_index i, trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  if (draft->program->options.inputs == NULL || !is_number(&instruction->shape)) return TRM_OK;
  trm_value *value = &scope->leaves[i][0];
  if (instruction->opcode == TRM_OP_CONSTANT && instruction->literal != NULL) {
    trm_known *known = ARENA_NEW(&draft->scratch, trm_known, 1);
    CHECK_MEMORY(known, "a known number");
    known->number = read(&instruction->shape, instruction->literal->leaves[0]);
    value->known = known;
    return TRM_OK;
  }
  if (!trm_opcode_is_elementwise(instruction->opcode) && instruction->opcode != TRM_OP_FUSION) {
    return TRM_OK;
  }
  value->known = NULL;
  return compute(draft, scope, instruction, &value->known, error);
}
