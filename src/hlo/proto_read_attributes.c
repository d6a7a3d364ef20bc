/* Owns: reading the attributes of one instruction of a HloModuleProto. Sizes are checked here, as
 * far as they protect what follows; whether they fit the opcode is the verifier's. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/groups.h"
#include "hlo/proto.h"

typedef Tremula__Hlo__HloInstructionProto instruction_proto;

static trm_status copy_string(trm_arena *arena, const char *text, const char **out_text,
                              trm_error *error) {
  *out_text = trm_arena_string(arena, text, strlen(text));
  CHECK_MEMORY(*out_text, "a text");
  return TRM_OK;
}

/* NULL when empty. */
static trm_status copy_optional(trm_arena *arena, const char *text, const char **out_text,
                                trm_error *error) {
  *out_text = NULL;
  return text[0] == '\0' ? TRM_OK : copy_string(arena, text, out_text, error);
}

trm_status trm_proto_read_dims(trm_arena *arena, const int64_t *items, size_t count,
                               trm_dims *out_dims, trm_error *error) {
  if (count > INT32_MAX) FAIL(INVALID_ARGUMENT, "a list has too many numbers");
  *out_dims = (trm_dims){.count = (int32_t)count};
  if (count == 0) return TRM_OK;
  out_dims->items = trm_arena_copy(arena, items, count * sizeof *items);
  CHECK_MEMORY(out_dims->items, "a list of numbers");
  return TRM_OK;
}

/* ---- Attributes ----------------------------------------------------------------------------- */

#define READ_DIMS(field, target) \
  TRY(trm_proto_read_dims(arena, proto->field, proto->n_##field, (target), error))
#define NEW_ATTRIBUTE(variable, type)         \
  type *variable = ARENA_NEW(arena, type, 1); \
  CHECK_MEMORY(variable, "an attribute")

static trm_status read_window(trm_arena *arena, const Tremula__Hlo__Window *proto,
                              trm_window **out_window, trm_error *error) {
  NEW_ATTRIBUTE(window, trm_window);
  if (proto->n_dimensions > TRM_MAX_RANK) {
    FAIL(INVALID_ARGUMENT, "its window has too many dimensions");
  }
  window->rank = (int32_t)proto->n_dimensions;
  window->dims = ARENA_NEW(arena, trm_window_dimension, proto->n_dimensions);
  CHECK_MEMORY(window->dims, "a window");
  for (size_t i = 0; i < proto->n_dimensions; ++i) {
    const Tremula__Hlo__WindowDimension *from = proto->dimensions[i];
    window->dims[i] = (trm_window_dimension){.size = from->size,
                                             .stride = from->stride,
                                             .padding_low = from->padding_low,
                                             .padding_high = from->padding_high,
                                             .window_dilation = from->window_dilation,
                                             .base_dilation = from->base_dilation,
                                             .reversal = from->window_reversal};
  }
  *out_window = window;
  return TRM_OK;
}

static trm_status read_convolution(trm_arena *arena, const instruction_proto *instruction,
                                   trm_convolution **out_convolution, trm_error *error) {
  const Tremula__Hlo__ConvolutionDimensionNumbers *proto =
      instruction->convolution_dimension_numbers;
  if (proto == NULL) return TRM_OK;
  NEW_ATTRIBUTE(convolution, trm_convolution);
  *convolution = (trm_convolution){
      .input_batch = proto->input_batch_dimension,
      .input_feature = proto->input_feature_dimension,
      .kernel_input_feature = proto->kernel_input_feature_dimension,
      .kernel_output_feature = proto->kernel_output_feature_dimension,
      .output_batch = proto->output_batch_dimension,
      .output_feature = proto->output_feature_dimension,
      .feature_group_count =
          instruction->feature_group_count == 0 ? 1 : instruction->feature_group_count,
      .batch_group_count =
          instruction->batch_group_count == 0 ? 1 : instruction->batch_group_count};
  trm_dims input, kernel, output;
  READ_DIMS(input_spatial_dimensions, &input);
  READ_DIMS(kernel_spatial_dimensions, &kernel);
  READ_DIMS(output_spatial_dimensions, &output);
  if (input.count != kernel.count || input.count != output.count || input.count > TRM_MAX_RANK) {
    FAIL(INVALID_ARGUMENT,
         "its convolution has %d input, %d kernel and %d output spatial dimensions", input.count,
         kernel.count, output.count);
  }
  convolution->spatial_rank = input.count;
  convolution->input_spatial = input.items;
  convolution->kernel_spatial = kernel.items;
  convolution->output_spatial = output.items;
  *out_convolution = convolution;
  return TRM_OK;
}

static trm_status read_dot(trm_arena *arena, const Tremula__Hlo__DotDimensionNumbers *proto,
                           trm_dot **out_dot, trm_error *error) {
  NEW_ATTRIBUTE(dot, trm_dot);
  *out_dot = dot;
  if (proto == NULL) return TRM_OK;
  READ_DIMS(lhs_batch_dimensions, &dot->lhs_batch);
  READ_DIMS(rhs_batch_dimensions, &dot->rhs_batch);
  READ_DIMS(lhs_contracting_dimensions, &dot->lhs_contracting);
  READ_DIMS(rhs_contracting_dimensions, &dot->rhs_contracting);
  return TRM_OK;
}

static trm_status read_gather(trm_arena *arena, const instruction_proto *instruction,
                              trm_gather **out_gather, trm_error *error) {
  const Tremula__Hlo__GatherDimensionNumbers *proto = instruction->gather_dimension_numbers;
  if (proto == NULL) return TRM_OK;
  NEW_ATTRIBUTE(gather, trm_gather);
  READ_DIMS(offset_dims, &gather->offset_dims);
  READ_DIMS(collapsed_slice_dims, &gather->collapsed_slice_dims);
  READ_DIMS(start_index_map, &gather->start_index_map);
  READ_DIMS(operand_batching_dims, &gather->operand_batching_dims);
  READ_DIMS(start_indices_batching_dims, &gather->start_indices_batching_dims);
  gather->index_vector_dim = proto->index_vector_dim;
  gather->indices_are_sorted = instruction->indices_are_sorted;
  *out_gather = gather;
  return trm_proto_read_dims(arena, instruction->gather_slice_sizes,
                             instruction->n_gather_slice_sizes, &gather->slice_sizes, error);
}

static trm_status read_scatter(trm_arena *arena, const instruction_proto *instruction,
                               trm_scatter **out_scatter, trm_error *error) {
  const Tremula__Hlo__ScatterDimensionNumbers *proto = instruction->scatter_dimension_numbers;
  if (proto == NULL) return TRM_OK;
  NEW_ATTRIBUTE(scatter, trm_scatter);
  READ_DIMS(update_window_dims, &scatter->update_window_dims);
  READ_DIMS(inserted_window_dims, &scatter->inserted_window_dims);
  READ_DIMS(scatter_dims_to_operand_dims, &scatter->scatter_dims_to_operand_dims);
  READ_DIMS(input_batching_dims, &scatter->input_batching_dims);
  READ_DIMS(scatter_indices_batching_dims, &scatter->scatter_indices_batching_dims);
  scatter->index_vector_dim = proto->index_vector_dim;
  scatter->indices_are_sorted = instruction->indices_are_sorted;
  scatter->unique_indices = instruction->unique_indices;
  *out_scatter = scatter;
  return TRM_OK;
}

static trm_status read_groups(trm_arena *arena, Tremula__Hlo__ReplicaGroup *const *protos,
                              size_t count, trm_replica_groups *out_groups, trm_error *error) {
  if (count > INT32_MAX) FAIL(INVALID_ARGUMENT, "it has too many replica groups");
  out_groups->count = (int32_t)count;
  out_groups->groups = ARENA_NEW(arena, trm_dims, count);
  CHECK_MEMORY(out_groups->groups, "replica groups");
  for (size_t i = 0; i < count; ++i) {
    TRY(trm_proto_read_dims(arena, protos[i]->replica_ids, protos[i]->n_replica_ids,
                            &out_groups->groups[i], error));
  }
  return TRM_OK;
}

/* The numbers 0, 1, ... reshaped to iota_reshape_dims, transposed, and cut into groups. */
static trm_status read_iota_groups(trm_arena *arena,
                                   const Tremula__Hlo__IotaReplicaGroupListProto *proto,
                                   trm_replica_groups *out_groups, trm_error *error) {
  const size_t rank = proto->n_iota_reshape_dims;
  int64_t order[TRM_MAX_RANK];
  trm_dims numbers;
  if (rank == 0 || rank > TRM_MAX_RANK || rank != proto->n_iota_transpose_perm) {
    FAIL(INVALID_ARGUMENT, "its iota_replica_group_list is inconsistent");
  }
  for (size_t i = 0; i < rank; ++i) order[i] = proto->iota_transpose_perm[i];
  TRY(trm_iota_numbers(arena, proto->iota_reshape_dims, order, (int32_t)rank, &numbers, error));
  return trm_groups_cut(arena, numbers, proto->num_replica_groups, proto->num_devices_per_group,
                        out_groups, error);
}

static trm_status read_mesh_groups(trm_arena *arena,
                                   const Tremula__Hlo__MeshAxesReplicaGroupListProto *proto,
                                   trm_replica_groups *out_groups, trm_error *error) {
  const Tremula__Hlo__MeshProto *mesh = proto->mesh;
  int64_t sizes[TRM_MAX_RANK];
  trm_mesh_axis axes[TRM_MAX_RANK];
  if (mesh == NULL || mesh->n_axes > TRM_MAX_RANK || proto->n_axes > TRM_MAX_RANK ||
      mesh->n_device_ids > TRM_MAX_REPLICAS) {
    FAIL(INVALID_ARGUMENT, "its mesh has no or more than %d axes", TRM_MAX_RANK);
  }
  for (size_t i = 0; i < mesh->n_axes; ++i) sizes[i] = mesh->axes[i]->size;
  for (size_t i = 0; i < proto->n_axes; ++i) {
    const Tremula__Hlo__AxisRefProto__SubAxis *part = proto->axes[i]->sub_axis_info;
    axes[i] = (trm_mesh_axis){.axis = proto->axes[i]->mesh_axis_index,
                              .pre_size = part == NULL ? 0 : part->pre_size,
                              .size = part == NULL ? 0 : part->size};
    if (part != NULL && (part->pre_size < 1 || part->size < 1)) {
      FAIL(INVALID_ARGUMENT, "a part of an axis of its mesh is smaller than 1");
    }
  }
  trm_dims devices = {(int32_t)mesh->n_device_ids, mesh->device_ids};
  const Tremula__Hlo__MeshProto__IotaTransform *iota = mesh->iota_transform;
  if (iota != NULL && iota->n_reshape_dims > 0) {
    if (iota->n_transpose_perm > 0 && iota->n_transpose_perm != iota->n_reshape_dims) {
      FAIL(INVALID_ARGUMENT, "the iota_transform of its mesh is inconsistent");
    }
    TRY(trm_iota_numbers(arena, iota->reshape_dims,
                         iota->n_transpose_perm > 0 ? iota->transpose_perm : NULL,
                         (int32_t)iota->n_reshape_dims, &devices, error));
  }
  return trm_groups_of_mesh(arena, sizes, (int32_t)mesh->n_axes,
                            devices.count > 0 ? &devices : NULL, axes, (int32_t)proto->n_axes,
                            out_groups, error);
}

static trm_status read_collective(trm_arena *arena, const instruction_proto *proto,
                                  trm_collective **out_collective, trm_error *error) {
  NEW_ATTRIBUTE(collective, trm_collective);
  *out_collective = collective;
  trm_replica_groups *groups = &collective->replica_groups;
  const Tremula__Hlo__CollectiveDeviceListProto *list = proto->collective_device_list;
  if (proto->mesh_axes_replica_group_list != NULL) {
    TRY(read_mesh_groups(arena, proto->mesh_axes_replica_group_list, groups, error));
  } else if (proto->iota_collective_device_list != NULL) {
    TRY(read_iota_groups(arena, proto->iota_collective_device_list, groups, error));
  } else if (list != NULL && list->iota_replica_group_list != NULL) {
    TRY(read_iota_groups(arena, list->iota_replica_group_list, groups, error));
  } else if (list != NULL && list->n_replica_groups > 0) {
    TRY(read_groups(arena, list->replica_groups, list->n_replica_groups, groups, error));
  } else {
    TRY(read_groups(arena, proto->replica_groups, proto->n_replica_groups, groups, error));
  }
  collective->channel_id = proto->channel_id > 0 ? proto->channel_id : proto->all_reduce_id;
  collective->use_global_device_ids = proto->use_global_device_ids;
  collective->constrain_layout = proto->constrain_layout;
  collective->is_host_transfer = proto->is_host_transfer;
  if (proto->n_dimensions > 0) {
    collective->has_dimension = true;
    collective->dimension = proto->dimensions[0];
  }
  const size_t pairs = proto->n_source_target_pairs;
  if (pairs > INT32_MAX / 2) FAIL(INVALID_ARGUMENT, "it has too many source-target pairs");
  collective->source_target_pairs.count = (int32_t)(2 * pairs);
  collective->source_target_pairs.items = ARENA_NEW(arena, int64_t, 2 * pairs);
  CHECK_MEMORY(collective->source_target_pairs.items, "source-target pairs");
  for (size_t i = 0; i < pairs; ++i) {
    collective->source_target_pairs.items[2 * i] = proto->source_target_pairs[i]->source;
    collective->source_target_pairs.items[2 * i + 1] = proto->source_target_pairs[i]->target;
  }
  return TRM_OK;
}

static trm_status read_slice(trm_arena *arena, const instruction_proto *proto, trm_instruction *out,
                             trm_error *error) {
  const size_t count = proto->n_slice_dimensions;
  out->slice = ARENA_NEW(arena, trm_slice_dimension, TRM_MAX_RANK);
  CHECK_MEMORY(out->slice, "slice dimensions");
  if (count > TRM_MAX_RANK || (int32_t)count != out->shape.rank) {
    FAIL(INVALID_ARGUMENT, "it has %zu slice dimensions and a result of %d", count,
         out->shape.rank);
  }
  for (size_t i = 0; i < count; ++i) {
    const Tremula__Hlo__HloInstructionProto__SliceDimensions *from = proto->slice_dimensions[i];
    out->slice[i] = (trm_slice_dimension){from->start, from->limit, from->stride};
  }
  return TRM_OK;
}

static trm_status read_padding(trm_arena *arena, const instruction_proto *proto,
                               trm_instruction *out, trm_error *error) {
  const size_t count = proto->padding_config == NULL ? 0 : proto->padding_config->n_dimensions;
  out->padding = ARENA_NEW(arena, trm_padding_dimension, TRM_MAX_RANK);
  CHECK_MEMORY(out->padding, "padding");
  if (count > TRM_MAX_RANK || (int32_t)count != out->shape.rank) {
    FAIL(INVALID_ARGUMENT, "its padding has %zu dimensions and its result %d", count,
         out->shape.rank);
  }
  for (size_t i = 0; i < count; ++i) {
    const Tremula__Hlo__PaddingConfig__PaddingConfigDimension *from =
        proto->padding_config->dimensions[i];
    out->padding[i] = (trm_padding_dimension){from->edge_padding_low, from->edge_padding_high,
                                              from->interior_padding};
  }
  return TRM_OK;
}

static trm_status find_name(const char *const *names, int count, const char *name, const char *what,
                            int *out_index, trm_error *error) {
  for (int i = 0; i < count; ++i) {
    if (strcmp(names[i], name) == 0) {
      *out_index = i;
      return TRM_OK;
    }
  }
  FAIL(INVALID_ARGUMENT, "its %s \"%.100s\" is not known", what, name);
}

static trm_status read_comparison(const instruction_proto *proto, trm_instruction *out,
                                  trm_error *error) {
  static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  static const char *const types[] = {"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
  int direction = 0, type = 0;
  TRY(find_name(directions, 6, proto->comparison_direction, "comparison direction", &direction,
                error));
  TRY(find_name(types, 5, proto->comparison_type, "comparison type", &type, error));
  out->comparison = (trm_comparison)direction;
  out->comparison_type = (trm_comparison_type)type;
  /* JAX from 0.12 on says the order beside or in the place of the type. */
  if (strcmp(proto->comparison_order, "TOTAL") == 0) {
    if (type == TRM_CMPTYPE_DEFAULT || type == TRM_CMPTYPE_FLOAT) {
      out->comparison_type = TRM_CMPTYPE_TOTALORDER;
    }
  } else if (proto->comparison_order[0] != '\0' &&
             strcmp(proto->comparison_order, "PARTIAL") != 0) {
    FAIL(INVALID_ARGUMENT, "its comparison order \"%.100s\" is not known", proto->comparison_order);
  }
  return TRM_OK;
}

static trm_status read_custom_call(trm_arena *arena, const instruction_proto *proto,
                                   trm_instruction *out, trm_error *error) {
  NEW_ATTRIBUTE(call, trm_custom_call);
  TRY(copy_string(arena, proto->custom_call_target, &call->target, error));
  call->has_side_effect = proto->custom_call_has_side_effect;
  call->api_version = proto->custom_call_api_version;
  out->custom_call = call;
  return TRM_OK;
}

static trm_status read_bytes(trm_arena *arena, ProtobufCBinaryData bytes, const char **out_text,
                             trm_error *error) {
  *out_text = NULL;
  if (bytes.len == 0) return TRM_OK;
  *out_text = trm_arena_string(arena, (const char *)bytes.data, bytes.len);
  CHECK_MEMORY(*out_text, "a configuration");
  return TRM_OK;
}

static trm_status first_dimension(const instruction_proto *proto, int64_t *out_value,
                                  trm_error *error) {
  if (proto->n_dimensions != 1) FAIL(INVALID_ARGUMENT, "it must name one dimension");
  *out_value = proto->dimensions[0];
  return TRM_OK;
}

/* What belongs to one opcode or a few. */
static trm_status read_own(trm_arena *arena, const instruction_proto *proto, trm_instruction *out,
                           trm_error *error) {
  switch (out->opcode) {
    case TRM_OP_BROADCAST:
    case TRM_OP_CONCATENATE:
    case TRM_OP_IOTA:
    case TRM_OP_MAP:
    case TRM_OP_REDUCE:
    case TRM_OP_REVERSE:
    case TRM_OP_SORT:
    case TRM_OP_TRANSPOSE:
    case TRM_OP_SCAN:
      READ_DIMS(dimensions, &out->dimensions);
      out->is_stable = out->opcode == TRM_OP_SORT && proto->is_stable;
      return TRM_OK;
    case TRM_OP_GET_DIMENSION_SIZE:
    case TRM_OP_SET_DIMENSION_SIZE: return first_dimension(proto, &out->number, error);
    case TRM_OP_PARAMETER: out->number = proto->parameter_number; return TRM_OK;
    case TRM_OP_GET_TUPLE_ELEMENT: out->number = proto->tuple_index; return TRM_OK;
    case TRM_OP_CONSTANT:
      if (proto->literal == NULL) FAIL(INVALID_ARGUMENT, "it has no literal");
      return trm_proto_read_literal(arena, proto->literal, &out->literal, error);
    case TRM_OP_COMPARE: return read_comparison(proto, out, error);
    case TRM_OP_SLICE: return read_slice(arena, proto, out, error);
    case TRM_OP_PAD: return read_padding(arena, proto, out, error);
    case TRM_OP_DYNAMIC_SLICE: READ_DIMS(dynamic_slice_sizes, &out->sizes); return TRM_OK;
    case TRM_OP_FFT:
      out->fft_type = proto->fft_type;
      READ_DIMS(fft_length, &out->sizes);
      return TRM_OK;
    case TRM_OP_DOT:
    case TRM_OP_RAGGED_DOT:
    case TRM_OP_SCALED_DOT: return read_dot(arena, proto->dot_dimension_numbers, &out->dot, error);
    case TRM_OP_CONVOLUTION: return read_convolution(arena, proto, &out->convolution, error);
    case TRM_OP_GATHER: return read_gather(arena, proto, &out->gather, error);
    case TRM_OP_SCATTER: return read_scatter(arena, proto, &out->scatter, error);
    case TRM_OP_BATCH_NORM_TRAINING:
    case TRM_OP_BATCH_NORM_INFERENCE:
    case TRM_OP_BATCH_NORM_GRAD:
      out->epsilon = proto->epsilon;
      out->number = proto->feature_index;
      return TRM_OK;
    case TRM_OP_REDUCE_PRECISION:
      out->exponent_bits = proto->exponent_bits;
      out->mantissa_bits = proto->mantissa_bits;
      return TRM_OK;
    case TRM_OP_RNG: out->distribution = proto->distribution; return TRM_OK;
    case TRM_OP_RNG_BIT_GENERATOR: out->algorithm = proto->rng_algorithm; return TRM_OK;
    case TRM_OP_RNG_GET_AND_UPDATE_STATE: out->delta = proto->delta; return TRM_OK;
    case TRM_OP_TOPK:
      out->number = proto->k;
      out->largest = proto->largest;
      out->is_stable = proto->is_stable;
      return TRM_OK;
    case TRM_OP_CHOLESKY:
      out->lower = proto->cholesky_options != NULL && proto->cholesky_options->lower;
      return TRM_OK;
    case TRM_OP_TRIANGULAR_SOLVE: {
      NEW_ATTRIBUTE(solve, trm_triangular_solve);
      const Tremula__Hlo__TriangularSolveOptions *from = proto->triangular_solve_options;
      if (from == NULL) FAIL(INVALID_ARGUMENT, "it has no triangular_solve_options");
      *solve = (trm_triangular_solve){.left_side = from->left_side,
                                      .lower = from->lower,
                                      .unit_diagonal = from->unit_diagonal,
                                      .transpose_a = from->transpose_a};
      out->triangular_solve = solve;
      return TRM_OK;
    }
    case TRM_OP_INFEED: return read_bytes(arena, proto->infeed_config, &out->infeed_config, error);
    case TRM_OP_OUTFEED:
      return read_bytes(arena, proto->outfeed_config, &out->infeed_config, error);
    case TRM_OP_FUSION: return copy_string(arena, proto->fusion_kind, &out->fusion_kind, error);
    case TRM_OP_CUSTOM_CALL:
      TRY(read_custom_call(arena, proto, out, error));
      return read_convolution(arena, proto, &out->convolution, error);
    case TRM_OP_SEND:
    case TRM_OP_SEND_DONE:
    case TRM_OP_RECV:
    case TRM_OP_RECV_DONE: return read_collective(arena, proto, &out->collective, error);
    default:
      if (trm_opcode_class_of(out->opcode) == TRM_CLASS_COLLECTIVE) {
        return read_collective(arena, proto, &out->collective, error);
      }
      return TRM_OK;
  }
}

static int compare_entries(const void *a, const void *b) {
  Tremula__Hlo__FrontendAttributes__MapEntry *const *left = a, *const *right = b;
  return strcmp((*left)->key, (*right)->key);
}

/* Sorted by key: the order of a map on the wire means nothing. */
static trm_status read_frontend_attributes(trm_arena *arena,
                                           const Tremula__Hlo__FrontendAttributes *proto,
                                           trm_instruction *out, trm_error *error) {
  if (proto == NULL || proto->n_map == 0) return TRM_OK;
  const size_t count = proto->n_map;
  const char **list = ARENA_NEW(arena, const char *, 2 * count + 1);
  Tremula__Hlo__FrontendAttributes__MapEntry **entries =
      trm_arena_copy(arena, proto->map, count * sizeof *entries);
  if (list == NULL || entries == NULL) FAIL_NO_MEMORY("frontend attributes");
  qsort(entries, count, sizeof *entries, compare_entries);
  for (size_t i = 0; i < count; ++i) {
    TRY(copy_string(arena, entries[i]->key, &list[2 * i], error));
    TRY(copy_string(arena, entries[i]->value, &list[2 * i + 1], error));
  }
  out->frontend_attributes = list;
  return TRM_OK;
}

static trm_status read_metadata(trm_arena *arena, const Tremula__Hlo__OpMetadata *proto,
                                const Tremula__Hlo__StackFrameIndexProto *frames, trm_metadata *out,
                                trm_error *error) {
  if (proto == NULL) return TRM_OK;
  TRY(copy_optional(arena, proto->op_type, &out->op_type, error));
  TRY(copy_optional(arena, proto->op_name, &out->op_name, error));
  TRY(copy_optional(arena, proto->source_file, &out->source_file, error));
  out->source_line = proto->source_line;
  /* Newer writers put file and line into a table of stack frames; ids count from 1. */
  if (out->source_file != NULL || frames == NULL || proto->stack_frame_id <= 0) return TRM_OK;
  const size_t frame = (size_t)proto->stack_frame_id - 1;
  if (frame >= frames->n_stack_frames) return TRM_OK;
  const int32_t location_id = frames->stack_frames[frame]->file_location_id;
  if (location_id <= 0 || (size_t)location_id > frames->n_file_locations) return TRM_OK;
  const Tremula__Hlo__StackFrameIndexProto__FileLocation *location =
      frames->file_locations[location_id - 1];
  if (location->file_name_id <= 0 || (size_t)location->file_name_id > frames->n_file_names) {
    return TRM_OK;
  }
  out->source_line = location->line;
  return copy_optional(arena, frames->file_names[location->file_name_id - 1], &out->source_file,
                       error);
}

trm_status trm_proto_read_instruction(trm_arena *arena, const instruction_proto *proto,
                                      const Tremula__Hlo__StackFrameIndexProto *frames,
                                      trm_instruction *out, trm_error *error) {
  *out = (trm_instruction){.id = proto->id};
  if (!trm_opcode_find(proto->opcode, strlen(proto->opcode), &out->opcode)) {
    FAIL(UNIMPLEMENTED, "the opcode \"%.100s\" is not known", proto->opcode);
  }
  if (proto->shape == NULL) FAIL(INVALID_ARGUMENT, "it has no shape");
  TRY(trm_proto_read_shape(arena, proto->shape, &out->shape, error));
  TRY(read_own(arena, proto, out, error));
  if (proto->window != NULL) TRY(read_window(arena, proto->window, &out->window, error));
  if (out->window == NULL &&
      (out->opcode == TRM_OP_REDUCE_WINDOW || out->opcode == TRM_OP_SELECT_AND_SCATTER)) {
    out->window = ARENA_NEW(arena, trm_window, 1); /* of a scalar */
    CHECK_MEMORY(out->window, "a window");
  }
  const Tremula__Hlo__PrecisionConfig *precision = proto->precision_config;
  if (precision != NULL && precision->n_operand_precision > 0) {
    const size_t count = precision->n_operand_precision;
    if (count > INT32_MAX) FAIL(INVALID_ARGUMENT, "it has too many precisions");
    out->operand_precision.count = (int32_t)count;
    out->operand_precision.items = ARENA_NEW(arena, int64_t, count);
    CHECK_MEMORY(out->operand_precision.items, "precisions");
    for (size_t i = 0; i < count; ++i) {
      out->operand_precision.items[i] = precision->operand_precision[i];
    }
  }
  TRY(read_bytes(arena, proto->backend_config, &out->backend_config, error));
  out->backend_config_size = proto->backend_config.len;
  if (proto->sharding != NULL) {
    TRY(trm_proto_sharding_text(arena, proto->sharding, &out->sharding, error));
  }
  TRY(read_frontend_attributes(arena, proto->frontend_attributes, out, error));
  return read_metadata(arena, proto->metadata, frames, &out->metadata, error);
}
