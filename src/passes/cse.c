/* Owns: common subexpressions: equal instructions with equal operands become one. The pass serves
 * the opcodes whose attributes it compares. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "hlo/library_call.h"
#include "passes/edit.h"
#include "passes/pass.h"

static bool is_served(const trm_instruction *instruction) {
  if (instruction->num_control_predecessors > 0) return false;
  switch (instruction->opcode) {
    case TRM_OP_BROADCAST:
    case TRM_OP_BITCAST_CONVERT:
    case TRM_OP_CONCATENATE:
    case TRM_OP_DYNAMIC_SLICE:
    case TRM_OP_GET_TUPLE_ELEMENT:
    case TRM_OP_IOTA:
    case TRM_OP_RESHAPE:
    case TRM_OP_REVERSE:
    case TRM_OP_SLICE:
    case TRM_OP_TRANSPOSE: return true;
    case TRM_OP_CONSTANT: /* comparing a large constant costs more than it saves */
      return instruction->literal->num_leaves == 1 && trm_shape_bytes(&instruction->shape) <= 4096;
    default: return trm_opcode_is_elementwise(instruction->opcode);
  }
}

static uint64_t hash_of(const trm_instruction *instruction) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const int64_t head[6] = {(int64_t)instruction->opcode,     (int64_t)instruction->shape.dtype,
                           instruction->shape.rank,          instruction->number,
                           (int64_t)instruction->comparison, instruction->num_operands};
  XXH3_64bits_update(&state, head, sizeof head);
  if (instruction->shape.rank > 0) {
    XXH3_64bits_update(&state, instruction->shape.dims,
                       (size_t)instruction->shape.rank * sizeof(int64_t));
  }
  if (instruction->num_operands > 0) {
    XXH3_64bits_update(&state, instruction->operands,
                       instruction->num_operands * sizeof(trm_index));
  }
  if (instruction->opcode == TRM_OP_CONSTANT) {
    XXH3_64bits_update(&state, instruction->literal->leaves[0],
                       trm_shape_bytes(&instruction->shape));
  }
  return XXH3_64bits_digest(&state);
}

static bool is_rounded_alike(const trm_instruction *a, const trm_instruction *b) {
  const char *how_a = trm_instruction_frontend_attribute(a, "STOCHASTIC_ROUNDING");
  const char *how_b = trm_instruction_frontend_attribute(b, "STOCHASTIC_ROUNDING");
  return how_a == how_b || (how_a != NULL && how_b != NULL && strcmp(how_a, how_b) == 0);
}

static bool equal(const trm_computation *computation, const trm_instruction *a,
                  const trm_instruction *b) {
  if (a->opcode != b->opcode || a->num_operands != b->num_operands || a->number != b->number ||
      a->comparison != b->comparison || a->comparison_type != b->comparison_type ||
      a->exponent_bits != b->exponent_bits || a->mantissa_bits != b->mantissa_bits ||
      !trm_shape_equal(&a->shape, &b->shape) || !trm_dims_equal(&a->dimensions, &b->dimensions) ||
      !trm_dims_equal(&a->sizes, &b->sizes) || !is_rounded_alike(a, b) ||
      (a->sharding == NULL) != (b->sharding == NULL) ||
      (a->sharding != NULL && strcmp(a->sharding, b->sharding) != 0)) {
    return false;
  }
  if (a->num_operands > 0 &&
      memcmp(a->operands, b->operands, a->num_operands * sizeof *a->operands) != 0) {
    return false;
  }
  if (a->opcode == TRM_OP_SLICE) {
    const int32_t rank = computation->instructions[a->operands[0]].shape.rank;
    if (rank > 0 && memcmp(a->slice, b->slice, (size_t)rank * sizeof *a->slice) != 0) return false;
  }
  return a->opcode != TRM_OP_CONSTANT ||
         memcmp(a->literal->leaves[0], b->literal->leaves[0], trm_shape_bytes(&a->shape)) == 0;
}

/* A layer and its gradient compute some values alike. Lets the layer name what stays: its scope is
 * shorter, because TensorFlow builds gradients in a scope around the layer's. */
static void keep_name_of_layer(trm_instruction *stays, trm_instruction *goes) {
  const char *scope = trm_instruction_frontend_attribute(stays, TRM_SCOPE);
  const char *other = trm_instruction_frontend_attribute(goes, TRM_SCOPE);
  if (scope == NULL || other == NULL || strlen(other) >= strlen(scope)) return;
  stays->metadata = goes->metadata;
  stays->frontend_attributes = goes->frontend_attributes;
}

static trm_status merge_equal(trm_edit *edit, trm_error *error) {
  const uint32_t count = trm_edit_computation(edit)->num_instructions;
  size_t slots = 16;
  while (slots < (size_t)count * 2) slots *= 2;
  trm_index *table = trm_allocate(slots * sizeof *table);
  CHECK_MEMORY(table, "a hash table");
  memset(table, 0xff, slots * sizeof *table);
  for (trm_index i = 0; i < count; ++i) {
    trm_instruction *instruction = trm_edit_at(edit, i);
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      instruction->operands[k] = trm_edit_resolve(edit, instruction->operands[k]);
    }
    if (!is_served(instruction)) continue;
    size_t place = hash_of(instruction) & (slots - 1);
    while (table[place] != TRM_NO_INDEX &&
           !equal(trm_edit_computation(edit), trm_edit_at(edit, table[place]), instruction)) {
      place = (place + 1) & (slots - 1);
    }
    if (table[place] == TRM_NO_INDEX) {
      table[place] = i;
      continue;
    }
    keep_name_of_layer(trm_edit_at(edit, table[place]), instruction);
    trm_edit_replace(edit, i, table[place]);
  }
  trm_free(table);
  return TRM_OK;
}

trm_status trm_pass_common_subexpressions(trm_module *module, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_edit edit;
    TRY(trm_edit_begin(&edit, module, c, error));
    TRY(trm_edit_end(&edit, merge_equal(&edit, error), error));
  }
  return TRM_OK;
}
