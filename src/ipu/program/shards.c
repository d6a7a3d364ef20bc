/* Owns: the state of an optimizer that replicas share out: each keeps and updates a shard of it.
 *
 * An update asks for it with ",sharded" in its attribute "weight_update" (remote.c), and only what
 * is in remote memory is shared out. An elementwise instruction that uses such state computes a
 * shard of its elements. The all-reduce of a gradient that only such instructions use becomes a
 * reduce-scatter, and an all-gather follows each result, such as a weight, that others use whole.
 */
#include <string.h>

#include "ipu/program/draft.h"

/* The leaves of an instruction that the walk may not have reached; NULL: not known yet. */
static const trm_value *leaves_of(const trm_program_draft *draft, const trm_program_scope *scope,
                                  trm_index i) {
  if (scope->leaves[i] != NULL) return scope->leaves[i];
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  if (instruction->opcode == TRM_OP_PARAMETER) return scope->parameters[instruction->number];
  if (instruction->opcode != TRM_OP_GET_TUPLE_ELEMENT) return NULL;
  const trm_index tuple = instruction->operands[0];
  const trm_value *leaves = leaves_of(draft, scope, tuple);
  return leaves == NULL ? NULL
                        : leaves + trm_shape_leaf_offset(&trm_scope_at(draft, scope, tuple)->shape,
                                                         (int32_t)instruction->number);
}

/* Whether an instruction computes a shard of its elements on each replica. */
static bool is_shared_out(const trm_program_draft *draft, const trm_program_scope *scope,
                          trm_index i) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  const bool elementwise =
      instruction->opcode == TRM_OP_FUSION || trm_opcode_is_elementwise(instruction->opcode);
  if (!elementwise || !trm_remote_wants_shards(draft, instruction)) return false;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    const trm_value *leaves = leaves_of(draft, scope, operand);
    const int32_t count = trm_shape_num_leaves(&trm_scope_at(draft, scope, operand)->shape);
    for (int32_t l = 0; leaves != NULL && l < count; ++l) {
      if (leaves[l].variable != TRM_NO_INDEX &&
          draft->values.variables.items[leaves[l].variable].shards > 1) {
        return true;
      }
    }
  }
  return false;
}

/* Whether an instruction that computes all elements uses leaf `leaf` of instruction i. */
static bool is_used_whole(const trm_program_draft *draft, const trm_program_scope *scope,
                          trm_index i, int32_t leaf) {
  const trm_computation *c = &draft->module->computations[scope->computation];
  const trm_shape *shape = &c->instructions[i].shape;
  if (c->root == i) return true;
  for (trm_index j = 0; j < c->num_instructions; ++j) {
    const trm_instruction *user = &c->instructions[j];
    bool uses = false;
    for (uint32_t k = 0; k < user->num_operands; ++k) uses |= user->operands[k] == i;
    if (!uses) continue;
    if (user->opcode == TRM_OP_GET_TUPLE_ELEMENT && shape->dtype == TRM_TUPLE) {
      const int32_t first = trm_shape_leaf_offset(shape, (int32_t)user->number);
      const int32_t inside = leaf - first;
      if (inside >= 0 && inside < trm_shape_num_leaves(&user->shape) &&
          is_used_whole(draft, scope, j, inside)) {
        return true;
      }
    } else if (!is_shared_out(draft, scope, j)) {
      return true;
    }
  }
  return false;
}

uint32_t trm_shards_of(const trm_program_draft *draft, const trm_program_scope *scope, trm_index i,
                       const trm_tile_request *request) {
  if (draft->finding) return 0;
  const trm_instruction *instruction = request->instruction;
  const uint32_t replicas = draft->program->options.replicas;
  if (is_shared_out(draft, scope, i)) return replicas;
  if (trm_instruction_acts_as(instruction) != TRM_OP_ALL_REDUCE ||
      !trm_remote_wants_shards(draft, instruction) ||
      trm_tile_group_size(request) != (int64_t)replicas) {
    return 0;
  }
  const int32_t count = trm_shape_num_leaves(&instruction->shape);
  for (int32_t l = 0; l < count; ++l) {
    if (is_used_whole(draft, scope, i, l)) return 0;
  }
  return count > 0 ? replicas : 0;
}

trm_status trm_shards_gather(const trm_program_draft *draft, const trm_program_scope *scope,
                             trm_index i, const trm_tile_request *request, const trm_value *values,
                             trm_tile_cost *cost, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  if (request->shards <= 1 || !is_shared_out(draft, scope, i)) return TRM_OK;
  int64_t bytes = 0;
  for (int32_t l = 0; l < (int32_t)cost->num_results; ++l) {
    const trm_shape *shape = trm_shape_leaf(&instruction->shape, l);
    const int32_t in_place = cost->results[l].in_place;
    const bool remote = in_place >= 0 && values[in_place].variable != TRM_NO_INDEX
                            ? draft->values.variables.items[values[in_place].variable].is_remote
                            : trm_remote_is(draft, scope->computation, i, (uint32_t)l, shape);
    if (!remote && is_used_whole(draft, scope, i, l)) bytes += trm_tile_shape_bytes(shape);
  }
  return bytes == 0 ? TRM_OK : trm_tile_gather_shards(request, cost, bytes, error);
}
