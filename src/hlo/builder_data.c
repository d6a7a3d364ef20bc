/* Owns: building instructions that move data. */
#include <string.h>

#include "hlo/builder.h"

static trm_shape resized(trm_builder *b, trm_value operand, trm_axes sizes) {
  const trm_shape *shape = trm_builder_shape_of(b, operand);
  if (shape == NULL) return (trm_shape){0};
  return trm_builder_shape(b, (trm_type){shape->dtype, sizes.count, sizes.items});
}

trm_value trm_build_broadcast(trm_builder *builder, trm_value operand, trm_axes sizes,
                              trm_axes axes) {
  trm_instruction instruction = {.opcode = TRM_OP_BROADCAST,
                                 .shape = resized(builder, operand, sizes),
                                 .dimensions = trm_builder_axes(builder, axes)};
  return trm_builder_add(builder, &instruction, &operand, 1);
}

trm_value trm_build_reshape(trm_builder *builder, trm_value operand, trm_axes sizes) {
  trm_instruction instruction = {.opcode = TRM_OP_RESHAPE,
                                 .shape = resized(builder, operand, sizes)};
  return trm_builder_add(builder, &instruction, &operand, 1);
}

trm_value trm_build_transpose(trm_builder *builder, trm_value operand, trm_axes permutation) {
  trm_instruction instruction = {.opcode = TRM_OP_TRANSPOSE,
                                 .dimensions = trm_builder_axes(builder, permutation)};
  return trm_builder_add(builder, &instruction, &operand, 1);
}

trm_value trm_build_reverse(trm_builder *builder, trm_value operand, trm_axes axes) {
  trm_instruction instruction = {.opcode = TRM_OP_REVERSE,
                                 .dimensions = trm_builder_axes(builder, axes)};
  return trm_builder_add(builder, &instruction, &operand, 1);
}

/* Whether each list has an entry for each dimension of the operand; the last may be empty. */
static bool fit_rank(trm_builder *b, const char *opcode, trm_value operand, trm_axes first,
                     trm_axes second, trm_axes optional) {
  const trm_shape *shape = trm_builder_shape_of(b, operand);
  if (!trm_builder_is_fine(b)) return false;
  if (shape == NULL || !trm_shape_is_array(shape)) {
    MISTAKE(b, "%s: operand 0 is not an array of this builder", opcode);
  } else if (first.count != shape->rank || second.count != shape->rank ||
             (optional.count != 0 && optional.count != shape->rank)) {
    MISTAKE(b, "%s: every list must have %d entries, as the operand has dimensions", opcode,
            shape->rank);
  }
  return trm_builder_is_fine(b);
}

trm_value trm_build_slice(trm_builder *builder, trm_value operand, trm_axes starts, trm_axes limits,
                          trm_axes strides) {
  trm_instruction instruction = {.opcode = TRM_OP_SLICE};
  if (!fit_rank(builder, "slice", operand, starts, limits, strides)) return trm_no_value;
  instruction.slice = ARENA_NEW(&builder->module->arena, trm_slice_dimension, (size_t)starts.count);
  if (instruction.slice == NULL) {
    trm_builder_no_memory(builder);
    return trm_no_value;
  }
  for (int32_t i = 0; i < starts.count; ++i) {
    instruction.slice[i] = (trm_slice_dimension){starts.items[i], limits.items[i],
                                                 strides.count == 0 ? 1 : strides.items[i]};
  }
  return trm_builder_add(builder, &instruction, &operand, 1);
}

/* `first` operands and then a start for each dimension of operand 0. */
static trm_value add_with_starts(trm_builder *b, trm_instruction *instruction,
                                 const trm_value *first, size_t count, const trm_value *starts) {
  trm_value operands[2 + TRM_MAX_RANK];
  const trm_shape *shape = trm_builder_shape_of(b, first[0]);
  const size_t rank = shape == NULL ? 0 : (size_t)shape->rank;
  memcpy(operands, first, count * sizeof *operands);
  if (rank > 0) memcpy(operands + count, starts, rank * sizeof *operands);
  return trm_builder_add(b, instruction, operands, count + rank);
}

trm_value trm_build_dynamic_slice(trm_builder *builder, trm_value operand, const trm_value *starts,
                                  trm_axes sizes) {
  trm_instruction instruction = {.opcode = TRM_OP_DYNAMIC_SLICE,
                                 .sizes = trm_builder_axes(builder, sizes)};
  return add_with_starts(builder, &instruction, &operand, 1, starts);
}

trm_value trm_build_dynamic_update_slice(trm_builder *builder, trm_value operand, trm_value update,
                                         const trm_value *starts) {
  trm_instruction instruction = {.opcode = TRM_OP_DYNAMIC_UPDATE_SLICE};
  const trm_value first[] = {operand, update};
  return add_with_starts(builder, &instruction, first, 2, starts);
}

trm_value trm_build_concatenate(trm_builder *builder, const trm_value *operands, size_t count,
                                int64_t axis) {
  trm_instruction instruction = {.opcode = TRM_OP_CONCATENATE,
                                 .dimensions = trm_builder_axes(builder, (trm_axes){&axis, 1})};
  return trm_builder_add(builder, &instruction, operands, count);
}

trm_value trm_build_pad(trm_builder *builder, trm_value operand, trm_value value, trm_axes low,
                        trm_axes high, trm_axes interior) {
  trm_instruction instruction = {.opcode = TRM_OP_PAD};
  const trm_value operands[] = {operand, value};
  if (!fit_rank(builder, "pad", operand, low, high, interior)) return trm_no_value;
  instruction.padding =
      ARENA_NEW(&builder->module->arena, trm_padding_dimension, (size_t)low.count);
  if (instruction.padding == NULL) {
    trm_builder_no_memory(builder);
    return trm_no_value;
  }
  for (int32_t i = 0; i < low.count; ++i) {
    instruction.padding[i] = (trm_padding_dimension){low.items[i], high.items[i],
                                                     interior.count == 0 ? 0 : interior.items[i]};
  }
  return trm_builder_add(builder, &instruction, operands, 2);
}

trm_value trm_build_gather(trm_builder *builder, trm_value operand, trm_value indices,
                           const trm_gather_spec *spec) {
  trm_gather gather = {
      .offset_dims = trm_builder_axes(builder, spec->offset_dims),
      .collapsed_slice_dims = trm_builder_axes(builder, spec->collapsed_slice_dims),
      .start_index_map = trm_builder_axes(builder, spec->start_index_map),
      .operand_batching_dims = trm_builder_axes(builder, spec->operand_batching_dims),
      .start_indices_batching_dims = trm_builder_axes(builder, spec->start_indices_batching_dims),
      .index_vector_dim = spec->index_vector_dim,
      .slice_sizes = trm_builder_axes(builder, spec->slice_sizes),
      .indices_are_sorted = spec->indices_are_sorted};
  const trm_value operands[] = {operand, indices};
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  trm_instruction instruction = {
      .opcode = TRM_OP_GATHER,
      .gather = trm_arena_copy(&builder->module->arena, &gather, sizeof gather)};
  if (instruction.gather == NULL) trm_builder_no_memory(builder);
  return trm_builder_add(builder, &instruction, operands, 2);
}

trm_value trm_build_scatter(trm_builder *builder, trm_value operand, trm_value indices,
                            trm_value updates, const trm_scatter_spec *spec, trm_function combine) {
  trm_scatter scatter = {
      .update_window_dims = trm_builder_axes(builder, spec->update_window_dims),
      .inserted_window_dims = trm_builder_axes(builder, spec->inserted_window_dims),
      .scatter_dims_to_operand_dims = trm_builder_axes(builder, spec->scatter_dims_to_operand_dims),
      .input_batching_dims = trm_builder_axes(builder, spec->input_batching_dims),
      .scatter_indices_batching_dims =
          trm_builder_axes(builder, spec->scatter_indices_batching_dims),
      .index_vector_dim = spec->index_vector_dim,
      .indices_are_sorted = spec->indices_are_sorted,
      .unique_indices = spec->unique_indices};
  const trm_value operands[] = {operand, indices, updates};
  uint32_t called[1];
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  trm_instruction instruction = {
      .opcode = TRM_OP_SCATTER,
      .scatter = trm_arena_copy(&builder->module->arena, &scatter, sizeof scatter)};
  if (instruction.scatter == NULL) trm_builder_no_memory(builder);
  trm_builder_call(builder, &instruction, called, &combine, 1);
  return trm_builder_add(builder, &instruction, operands, 3);
}
