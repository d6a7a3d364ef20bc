/* Owns: reading the attributes of one instruction of a HloModuleProto. Sizes are checked here, as
 * far as they protect what follows; whether they fit the opcode is the verifier's. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/groups.h"
#include "hlo/proto_field.h"

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

static trm_status read_dim_labels(trm_arena *arena,
                                  const Tremula__Hlo__ConvolutionDimensionNumbers *proto,
                                  trm_instruction *out, trm_error *error) {
  if (!trm_attribute_make_convolution(arena, out)) FAIL_NO_MEMORY("a convolution");
  trm_convolution *convolution = out->convolution;
  convolution->input_batch = proto->input_batch_dimension;
  convolution->input_feature = proto->input_feature_dimension;
  convolution->kernel_input_feature = proto->kernel_input_feature_dimension;
  convolution->kernel_output_feature = proto->kernel_output_feature_dimension;
  convolution->output_batch = proto->output_batch_dimension;
  convolution->output_feature = proto->output_feature_dimension;
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
  return TRM_OK;
}

static trm_status read_group_list(trm_arena *arena, Tremula__Hlo__ReplicaGroup *const *protos,
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

/* In the newest form that the proto has. */
static trm_status read_groups(trm_arena *arena, const instruction_proto *proto,
                              trm_replica_groups *out_groups, trm_error *error) {
  const Tremula__Hlo__CollectiveDeviceListProto *list = proto->collective_device_list;
  if (proto->mesh_axes_replica_group_list != NULL) {
    return read_mesh_groups(arena, proto->mesh_axes_replica_group_list, out_groups, error);
  }
  if (proto->iota_collective_device_list != NULL) {
    return read_iota_groups(arena, proto->iota_collective_device_list, out_groups, error);
  }
  if (list != NULL && list->iota_replica_group_list != NULL) {
    return read_iota_groups(arena, list->iota_replica_group_list, out_groups, error);
  }
  if (list != NULL && list->n_replica_groups > 0) {
    return read_group_list(arena, list->replica_groups, list->n_replica_groups, out_groups, error);
  }
  return read_group_list(arena, proto->replica_groups, proto->n_replica_groups, out_groups, error);
}

static trm_status read_pairs(trm_arena *arena, const instruction_proto *proto, trm_dims *out_pairs,
                             trm_error *error) {
  const size_t pairs = proto->n_source_target_pairs;
  if (pairs > INT32_MAX / 2) FAIL(INVALID_ARGUMENT, "it has too many source-target pairs");
  *out_pairs = (trm_dims){(int32_t)(2 * pairs), ARENA_NEW(arena, int64_t, 2 * pairs)};
  CHECK_MEMORY(out_pairs->items, "source-target pairs");
  for (size_t i = 0; i < pairs; ++i) {
    out_pairs->items[2 * i] = proto->source_target_pairs[i]->source;
    out_pairs->items[2 * i + 1] = proto->source_target_pairs[i]->target;
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

static trm_status read_spelled(trm_attribute_kind kind, const char *field, const char *text,
                               int *out_value, trm_error *error) {
  if (trm_attribute_value(kind, text, strlen(text), out_value)) return TRM_OK;
  FAIL(INVALID_ARGUMENT, "its %s \"%.100s\" is not known", field, text);
}

static trm_status read_comparison(const char *text, trm_instruction *out, trm_error *error) {
  int direction;
  TRY(read_spelled(KIND_COMPARISON, "comparison direction", text, &direction, error));
  out->comparison = (trm_comparison)direction;
  return TRM_OK;
}

/* An empty type follows from the operands' type. */
static trm_status read_comparison_type(const char *text, trm_instruction *out, trm_error *error) {
  int type = TRM_CMPTYPE_DEFAULT;
  if (text[0] != '\0') {
    TRY(read_spelled(KIND_COMPARISON_TYPE, "comparison type", text, &type, error));
  }
  out->comparison_type = (trm_comparison_type)type;
  return TRM_OK;
}

/* JAX from 0.12 on says the order beside or in the place of the type. */
static trm_status read_comparison_order(const char *text, trm_instruction *out, trm_error *error) {
  int order = TRM_CMPTYPE_DEFAULT;
  if (text[0] != '\0') {
    TRY(read_spelled(KIND_COMPARISON_ORDER, "comparison order", text, &order, error));
  }
  if (order == TRM_CMPTYPE_TOTALORDER &&
      (out->comparison_type == TRM_CMPTYPE_DEFAULT || out->comparison_type == TRM_CMPTYPE_FLOAT)) {
    out->comparison_type = TRM_CMPTYPE_TOTALORDER;
  }
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

/* ---- By the table ---------------------------------------------------------------------------- */

static trm_status read_text(trm_arena *arena, const ProtobufCFieldDescriptor *field,
                            const void *value, const char **out_text, trm_error *error) {
  if (field->type == PROTOBUF_C_TYPE_BYTES) {
    return read_bytes(arena, *(const ProtobufCBinaryData *)value, out_text, error);
  }
  return copy_string(arena, *(char *const *)value, out_text, error);
}

static trm_status read_precisions(trm_arena *arena, const int32_t *items, size_t count,
                                  trm_dims *out_dims, trm_error *error) {
  if (count > INT32_MAX) FAIL(INVALID_ARGUMENT, "it has too many precisions");
  *out_dims = (trm_dims){(int32_t)count, ARENA_NEW(arena, int64_t, count)};
  CHECK_MEMORY(out_dims->items, "precisions");
  for (size_t i = 0; i < count; ++i) out_dims->items[i] = items[i];
  return TRM_OK;
}

/* A value that is a list of numbers: `count` of them at `items`. */
static trm_status read_list(trm_arena *arena, trm_attribute_kind kind, const void *items,
                            size_t count, trm_instruction *out, void *place, trm_error *error) {
  const int64_t *numbers = items;
  switch (kind) {
    case KIND_ONE_DIM:
      if (count != 1) FAIL(INVALID_ARGUMENT, "it must name one dimension");
      *(int64_t *)place = numbers[0];
      return TRM_OK;
    case KIND_COLLECTIVE_DIM:
      out->collective->has_dimension = count > 0;
      if (count > 0) *(int64_t *)place = numbers[0];
      return TRM_OK;
    case KIND_PRECISIONS:
      return count == 0 ? TRM_OK : read_precisions(arena, items, count, place, error);
    default: return trm_proto_read_dims(arena, numbers, count, place, error);
  }
}

static trm_status read_dot_algorithm(int32_t number, void *place, trm_error *error) {
  if (trm_attribute_spelling(KIND_DOT_ALGORITHM, number) == NULL) {
    char known[512];
    FAIL(UNIMPLEMENTED,
         "its algorithm is number %" PRId32 ", which is not known; known from 0 on: %s", number,
         trm_attribute_spellings(KIND_DOT_ALGORITHM, known, sizeof known));
  }
  *(int32_t *)place = number;
  return TRM_OK;
}

/* `at` points to the field's value in the message. */
static trm_status read_value(trm_arena *arena, const instruction_proto *proto,
                             const Tremula__Hlo__StackFrameIndexProto *frames,
                             const trm_attribute *attribute, const ProtobufCFieldDescriptor *field,
                             const void *at, trm_instruction *out, void *place, trm_error *error) {
  switch (attribute->kind) {
    case KIND_NUMBER: *(int64_t *)place = *(const int64_t *)at; return TRM_OK;
    case KIND_COUNT:
      *(int64_t *)place = *(const int64_t *)at == 0 ? 1 : *(const int64_t *)at;
      return TRM_OK;
    case KIND_BOOLEAN: *(bool *)place = *(const protobuf_c_boolean *)at != 0; return TRM_OK;
    case KIND_FLOAT: *(float *)place = *(const float *)at; return TRM_OK;
    case KIND_NUMBER32:
    case KIND_DISTRIBUTION:
    case KIND_ALGORITHM:
    case KIND_FFT_TYPE:
    case KIND_TRANSPOSE:
    case KIND_API_VERSION: *(int32_t *)place = *(const int32_t *)at; return TRM_OK;
    case KIND_DOT_ALGORITHM: return read_dot_algorithm(*(const int32_t *)at, place, error);
    case KIND_WORD:
    case KIND_STRING: return read_text(arena, field, at, place, error);
    case KIND_COMPARISON: return read_comparison(*(char *const *)at, out, error);
    case KIND_COMPARISON_TYPE: return read_comparison_type(*(char *const *)at, out, error);
    case KIND_COMPARISON_ORDER: return read_comparison_order(*(char *const *)at, out, error);
    case KIND_SLICE: return read_slice(arena, proto, out, error);
    case KIND_PADDING: return read_padding(arena, proto, out, error);
    case KIND_GROUPS: return read_groups(arena, proto, place, error);
    case KIND_PAIRS: return read_pairs(arena, proto, place, error);
    case KIND_WINDOW: return read_window(arena, proto->window, place, error);
    case KIND_DIM_LABELS:
      return read_dim_labels(arena, proto->convolution_dimension_numbers, out, error);
    case KIND_TEXT: return trm_proto_sharding_text(arena, proto->sharding, place, error);
    case KIND_FRONTEND:
      return read_frontend_attributes(arena, proto->frontend_attributes, out, error);
    case KIND_METADATA: return read_metadata(arena, proto->metadata, frames, place, error);
    case KIND_BACKEND_CONFIG:
      out->backend_config_size = proto->backend_config.len;
      return read_bytes(arena, proto->backend_config, place, error);
    default: return TRM_OK; /* CONTROL and called computations: proto_read.c */
  }
}

static trm_status read_attribute(trm_arena *arena, const instruction_proto *proto,
                                 const Tremula__Hlo__StackFrameIndexProto *frames,
                                 const trm_attribute *attribute, bool required,
                                 trm_instruction *out, trm_error *error) {
  const trm_proto_field *f = trm_proto_field_of(attribute);
  if (f->field == NULL) return TRM_OK;
  const void *message = proto;
  for (int depth = 0; depth < 2 && f->outer[depth] != NULL && message != NULL; ++depth) {
    message = *(const void *const *)trm_proto_at(message, f->outer[depth]->offset);
  }
  const bool is_message = message != NULL && f->field->type == PROTOBUF_C_TYPE_MESSAGE &&
                          f->field->label != PROTOBUF_C_LABEL_REPEATED;
  const void *at = message == NULL ? NULL : trm_proto_at(message, f->field->offset);
  if (at == NULL || (is_message && *(const void *const *)at == NULL)) {
    if (!required) return TRM_OK;
    FAIL(INVALID_ARGUMENT, "it has no %s", (f->outer[0] != NULL ? f->outer[0] : f->field)->name);
  }
  /* A custom call has a convolution's numbers or has not. */
  void *place = attribute->kind == KIND_DIM_LABELS ? NULL : trm_attribute_place(attribute, out);
  if (place == NULL && attribute->kind != KIND_DIM_LABELS) return TRM_OK;
  if (trm_proto_is_numbers(f->field)) {
    return read_list(arena, attribute->kind, *(const void *const *)at,
                     *(const size_t *)trm_proto_at(message, f->field->quantifier_offset), out,
                     place, error);
  }
  return read_value(arena, proto, frames, attribute, f->field, at, out, place, error);
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
  if (out->opcode == TRM_OP_PARAMETER) out->number = proto->parameter_number;
  if (out->opcode == TRM_OP_CONSTANT) {
    if (proto->literal == NULL) FAIL(INVALID_ARGUMENT, "it has no literal");
    TRY(trm_proto_read_literal(arena, proto->literal, &out->literal, error));
  }
  if (!trm_attribute_make_blocks(arena, out)) FAIL_NO_MEMORY("attributes");
  const trm_attribute *attribute;
  bool required;
  for (int i = 0; (attribute = trm_attribute_of(out->opcode, i, &required)) != NULL; ++i) {
    TRY(read_attribute(arena, proto, frames, attribute, required, out, error));
  }
  if (out->collective != NULL && out->collective->channel_id <= 0) {
    out->collective->channel_id = proto->all_reduce_id; /* its name of old */
  }
  return TRM_OK;
}
