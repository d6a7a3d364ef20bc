/* Owns: building tuples, control flow, feeds and calls to the outside. */
#include <string.h>

#include "hlo/builder.h"

trm_value trm_build_tuple(trm_builder *builder, const trm_value *elements, size_t count) {
  trm_instruction instruction = {.opcode = TRM_OP_TUPLE};
  return trm_builder_add(builder, &instruction, elements, count);
}

trm_value trm_build_get_tuple_element(trm_builder *builder, trm_value tuple, int64_t index) {
  trm_instruction instruction = {.opcode = TRM_OP_GET_TUPLE_ELEMENT, .number = index};
  return trm_builder_add(builder, &instruction, &tuple, 1);
}

trm_value trm_build_while(trm_builder *builder, trm_value state, trm_function condition,
                          trm_function body) {
  trm_instruction instruction = {.opcode = TRM_OP_WHILE};
  const trm_function functions[] = {condition, body};
  uint32_t called[2];
  trm_builder_call(builder, &instruction, called, functions, 2);
  return trm_builder_add(builder, &instruction, &state, 1);
}

trm_value trm_build_conditional(trm_builder *builder, trm_value choice,
                                const trm_function *branches, const trm_value *operands,
                                size_t count) {
  trm_instruction instruction = {.opcode = TRM_OP_CONDITIONAL};
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  uint32_t *called = ARENA_NEW(&builder->module->arena, uint32_t, count);
  trm_value *all = ARENA_NEW(&builder->module->arena, trm_value, count + 1);
  if (called == NULL || all == NULL) {
    trm_builder_no_memory(builder);
    return trm_no_value;
  }
  all[0] = choice;
  if (count > 0) memcpy(all + 1, operands, count * sizeof *all);
  trm_builder_call(builder, &instruction, called, branches, count);
  return trm_builder_add(builder, &instruction, all, count + 1);
}

trm_value trm_build_call(trm_builder *builder, trm_function function, const trm_value *operands,
                         size_t count) {
  trm_instruction instruction = {.opcode = TRM_OP_CALL};
  uint32_t called[1];
  trm_builder_call(builder, &instruction, called, &function, 1);
  return trm_builder_add(builder, &instruction, operands, count);
}

trm_value trm_build_all_reduce(trm_builder *builder, trm_value operand, trm_function combine) {
  trm_instruction instruction = {.opcode = TRM_OP_ALL_REDUCE};
  uint32_t called[1];
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  instruction.collective = ARENA_NEW(&builder->module->arena, trm_collective, 1);
  if (instruction.collective == NULL) trm_builder_no_memory(builder);
  trm_builder_call(builder, &instruction, called, &combine, 1);
  return trm_builder_add(builder, &instruction, &operand, 1);
}

trm_value trm_build_custom_call(trm_builder *builder, const char *target, const trm_value *operands,
                                size_t count, const trm_type *results, size_t num_results,
                                bool has_side_effect, const char *config) {
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  trm_instruction instruction = {.opcode = TRM_OP_CUSTOM_CALL,
                                 .backend_config = trm_builder_text(builder, config),
                                 .backend_config_size = config == NULL ? 0 : strlen(config)};
  trm_custom_call *custom = ARENA_NEW(&builder->module->arena, trm_custom_call, 1);
  trm_shape *shapes = ARENA_NEW(&builder->module->arena, trm_shape, num_results);
  if (custom == NULL || shapes == NULL || num_results > INT32_MAX) {
    trm_builder_no_memory(builder);
    return trm_no_value;
  }
  *custom = (trm_custom_call){.target = trm_builder_text(builder, target == NULL ? "" : target),
                              .has_side_effect = has_side_effect};
  instruction.custom_call = custom;
  for (size_t i = 0; i < num_results; ++i) shapes[i] = trm_builder_shape(builder, results[i]);
  if (num_results == 1) {
    instruction.shape = shapes[0];
  } else if (trm_builder_is_fine(builder) &&
             !trm_shape_make_tuple(&builder->module->arena, (int32_t)num_results, shapes,
                                   &instruction.shape)) {
    trm_builder_no_memory(builder);
  }
  return trm_builder_add(builder, &instruction, operands, count);
}

trm_function trm_builder_scalar_function(trm_builder *builder, const char *opcode,
                                         trm_dtype dtype) {
  const trm_type scalar = {dtype, 0, NULL};
  trm_builder_begin(builder, opcode);
  const trm_value a = trm_build_parameter(builder, 0, scalar, NULL);
  const trm_value b = trm_build_parameter(builder, 1, scalar, NULL);
  return trm_builder_end(builder, trm_build_binary(builder, opcode, a, b));
}
