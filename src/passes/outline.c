/* Owns: outlining of instructions (outline.h). */
#include "passes/outline.h"

trm_status trm_outline_copy(trm_module *module, uint32_t body, trm_instruction copy,
                            const trm_index *inside, trm_index *out_index, trm_error *error) {
  trm_index *operands = trm_allocate(((size_t)copy.num_operands + 1) * sizeof *operands);
  CHECK_MEMORY(operands, "an instruction");
  for (uint32_t k = 0; k < copy.num_operands; ++k) operands[k] = inside[copy.operands[k]];
  copy.operands = operands;
  copy.name = NULL;
  copy.id = 0;
  copy.num_control_predecessors = 0;
  const trm_status status = trm_computation_add(module, body, &copy, out_index, error);
  trm_free(operands);
  return status;
}

trm_status trm_outline_root(trm_module *module, uint32_t body, uint32_t count,
                            const trm_index *inside, const trm_shape *shapes, trm_shape *out_shape,
                            trm_error *error) {
  if (!trm_shape_make_tuple(&module->arena, (int32_t)count, shapes, out_shape)) {
    FAIL_NO_MEMORY("the results of a computation");
  }
  const trm_instruction tuple = {.opcode = TRM_OP_TUPLE,
                                 .shape = *out_shape,
                                 .num_operands = count,
                                 .operands = (trm_index *)(uintptr_t)inside};
  return trm_computation_add(module, body, &tuple, &module->computations[body].root, error);
}

trm_status trm_outline_call(trm_edit *edit, const trm_instruction *call, const trm_index *results,
                            uint32_t count, trm_error *error) {
  trm_index made;
  TRY(trm_edit_add(edit, results[count - 1], *call, &made, error));
  for (uint32_t r = 0; r < count; ++r) {
    trm_index result = made;
    if (call->shape.dtype == TRM_TUPLE) {
      TRY(trm_edit_element(edit, results[r], made, r, &result, error));
    }
    trm_edit_replace(edit, results[r], result);
  }
  return TRM_OK;
}

trm_status trm_outline_target(trm_module *module, trm_call_id id, trm_instruction *call,
                              trm_error *error) {
  call->opcode = TRM_OP_CUSTOM_CALL;
  call->custom_call = ARENA_NEW(&module->arena, trm_custom_call, 1);
  CHECK_MEMORY(call->custom_call, "a custom call");
  call->custom_call->target = trm_call_target(id);
  return TRM_OK;
}

trm_status trm_outline_custom_call(trm_edit *edit, trm_call_id id, trm_instruction call,
                                   const trm_index *results, uint32_t count, trm_error *error) {
  TRY(trm_outline_target(edit->module, id, &call, error));
  return trm_outline_call(edit, &call, results, count, error);
}
