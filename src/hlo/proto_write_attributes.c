/* Owns: writing the attributes of one instruction as a proto. */
#include <string.h>

#include "hlo/proto_field.h"
#include "hlo/proto_write.h"

typedef Tremula__Hlo__HloInstructionProto instruction_proto;
typedef trm_proto_writer writer;

static trm_status write_window(writer *w, const trm_window *window, instruction_proto *proto,
                               trm_error *error) {
  const size_t rank = (size_t)window->rank;
  NEW_PROTO(w, out, Window, tremula__hlo__window);
  out->n_dimensions = rank;
  out->dimensions = ARENA_NEW(&w->arena, Tremula__Hlo__WindowDimension *, rank);
  CHECK_MEMORY(out->dimensions, "a window");
  for (size_t i = 0; i < rank; ++i) {
    const trm_window_dimension *from = &window->dims[i];
    NEW_PROTO(w, to, WindowDimension, tremula__hlo__window_dimension);
    to->size = from->size;
    to->stride = from->stride;
    to->padding_low = from->padding_low;
    to->padding_high = from->padding_high;
    to->window_dilation = from->window_dilation;
    to->base_dilation = from->base_dilation;
    to->window_reversal = from->reversal;
    out->dimensions[i] = to;
  }
  proto->window = out;
  return TRM_OK;
}

static trm_status write_dim_labels(writer *w, const trm_convolution *from, instruction_proto *proto,
                                   trm_error *error) {
  NEW_PROTO(w, to, ConvolutionDimensionNumbers, tremula__hlo__convolution_dimension_numbers);
  const size_t rank = (size_t)from->spatial_rank;
  to->input_batch_dimension = from->input_batch;
  to->input_feature_dimension = from->input_feature;
  to->kernel_input_feature_dimension = from->kernel_input_feature;
  to->kernel_output_feature_dimension = from->kernel_output_feature;
  to->output_batch_dimension = from->output_batch;
  to->output_feature_dimension = from->output_feature;
  to->n_input_spatial_dimensions = to->n_kernel_spatial_dimensions =
      to->n_output_spatial_dimensions = rank;
  to->input_spatial_dimensions = from->input_spatial;
  to->kernel_spatial_dimensions = from->kernel_spatial;
  to->output_spatial_dimensions = from->output_spatial;
  proto->convolution_dimension_numbers = to;
  return TRM_OK;
}

static trm_status write_groups(writer *w, const trm_replica_groups *from, instruction_proto *proto,
                               trm_error *error) {
  const size_t count = (size_t)from->count;
  proto->n_replica_groups = count;
  proto->replica_groups = ARENA_NEW(&w->arena, Tremula__Hlo__ReplicaGroup *, count);
  CHECK_MEMORY(proto->replica_groups, "replica groups");
  for (size_t i = 0; i < count; ++i) {
    NEW_PROTO(w, group, ReplicaGroup, tremula__hlo__replica_group);
    SET_DIMS(&from->groups[i], group, replica_ids);
    proto->replica_groups[i] = group;
  }
  return TRM_OK;
}

static trm_status write_pairs(writer *w, const trm_dims *from, instruction_proto *proto,
                              trm_error *error) {
  const size_t pairs = (size_t)from->count / 2;
  proto->n_source_target_pairs = pairs;
  proto->source_target_pairs = ARENA_NEW(&w->arena, Tremula__Hlo__SourceTarget *, pairs);
  CHECK_MEMORY(proto->source_target_pairs, "source-target pairs");
  for (size_t i = 0; i < pairs; ++i) {
    NEW_PROTO(w, pair, SourceTarget, tremula__hlo__source_target);
    pair->source = from->items[2 * i];
    pair->target = from->items[2 * i + 1];
    proto->source_target_pairs[i] = pair;
  }
  return TRM_OK;
}

static trm_status write_slice(writer *w, const trm_instruction *from, instruction_proto *proto,
                              trm_error *error) {
  const size_t rank = (size_t)from->shape.rank;
  proto->n_slice_dimensions = rank;
  proto->slice_dimensions =
      ARENA_NEW(&w->arena, Tremula__Hlo__HloInstructionProto__SliceDimensions *, rank);
  CHECK_MEMORY(proto->slice_dimensions, "a slice");
  for (size_t i = 0; i < rank; ++i) {
    NEW_PROTO(w, to, HloInstructionProto__SliceDimensions,
              tremula__hlo__hlo_instruction_proto__slice_dimensions);
    to->start = from->slice[i].start;
    to->limit = from->slice[i].limit;
    to->stride = from->slice[i].stride;
    proto->slice_dimensions[i] = to;
  }
  return TRM_OK;
}

static trm_status write_padding(writer *w, const trm_instruction *from, instruction_proto *proto,
                                trm_error *error) {
  const size_t rank = (size_t)from->shape.rank;
  NEW_PROTO(w, config, PaddingConfig, tremula__hlo__padding_config);
  config->n_dimensions = rank;
  config->dimensions =
      ARENA_NEW(&w->arena, Tremula__Hlo__PaddingConfig__PaddingConfigDimension *, rank);
  CHECK_MEMORY(config->dimensions, "padding");
  for (size_t i = 0; i < rank; ++i) {
    NEW_PROTO(w, to, PaddingConfig__PaddingConfigDimension,
              tremula__hlo__padding_config__padding_config_dimension);
    to->edge_padding_low = from->padding[i].low;
    to->edge_padding_high = from->padding[i].high;
    to->interior_padding = from->padding[i].interior;
    config->dimensions[i] = to;
  }
  proto->padding_config = config;
  return TRM_OK;
}

trm_status trm_proto_write_map(writer *w, const char *const *pairs,
                               Tremula__Hlo__FrontendAttributes **out_proto, trm_error *error) {
  size_t count = 0;
  while (pairs[2 * count] != NULL) ++count;
  NEW_PROTO(w, attributes, FrontendAttributes, tremula__hlo__frontend_attributes);
  attributes->n_map = count;
  attributes->map = ARENA_NEW(&w->arena, Tremula__Hlo__FrontendAttributes__MapEntry *, count);
  CHECK_MEMORY(attributes->map, "frontend attributes");
  for (size_t i = 0; i < count; ++i) {
    NEW_PROTO(w, entry, FrontendAttributes__MapEntry, tremula__hlo__frontend_attributes__map_entry);
    entry->key = trm_proto_borrow(pairs[2 * i]);
    entry->value = trm_proto_borrow(pairs[2 * i + 1]);
    attributes->map[i] = entry;
  }
  *out_proto = attributes;
  return TRM_OK;
}

static trm_status write_metadata(writer *w, const trm_metadata *from, instruction_proto *proto,
                                 trm_error *error) {
  NEW_PROTO(w, metadata, OpMetadata, tremula__hlo__op_metadata);
  metadata->op_type = trm_proto_borrow(from->op_type);
  metadata->op_name = trm_proto_borrow(from->op_name);
  metadata->source_file = trm_proto_borrow(from->source_file);
  metadata->source_line = from->source_line;
  proto->metadata = metadata;
  return TRM_OK;
}

/* ---- By the table ---------------------------------------------------------------------------- */

static void write_text(const ProtobufCFieldDescriptor *field, const char *text, void *at) {
  char *borrowed = trm_proto_borrow(text);
  if (field->type == PROTOBUF_C_TYPE_BYTES) {
    *(ProtobufCBinaryData *)at = (ProtobufCBinaryData){strlen(borrowed), (uint8_t *)borrowed};
  } else {
    *(char **)at = borrowed;
  }
}

/* Enums of the proto have 32 bits. */
static trm_status write_precisions(writer *w, const trm_dims *from, void *items, size_t *out_count,
                                   trm_error *error) {
  int32_t *copy = ARENA_NEW(&w->arena, int32_t, (size_t)from->count);
  CHECK_MEMORY(copy, "precisions");
  for (int32_t i = 0; i < from->count; ++i) copy[i] = (int32_t)from->items[i];
  *(int32_t **)items = copy;
  *out_count = (size_t)from->count;
  return TRM_OK;
}

static trm_status write_list(writer *w, trm_attribute_kind kind, const trm_instruction *from,
                             const void *place, void *items, size_t *out_count, trm_error *error) {
  switch (kind) {
    case KIND_COLLECTIVE_DIM:
      if (!from->collective->has_dimension) return TRM_OK;
      /* falls through */
    case KIND_ONE_DIM:
      *out_count = 1;
      *(const int64_t **)items = place;
      return TRM_OK;
    case KIND_PRECISIONS: return write_precisions(w, place, items, out_count, error);
    default: trm_proto_set_dims(place, out_count, items); return TRM_OK;
  }
}

/* `at` points to the field in its message. */
static trm_status write_value(writer *w, const trm_instruction *from,
                              const trm_attribute *attribute, const ProtobufCFieldDescriptor *field,
                              const void *place, void *at, instruction_proto *proto,
                              trm_error *error) {
  switch (attribute->kind) {
    case KIND_NUMBER:
    case KIND_COUNT: *(int64_t *)at = *(const int64_t *)place; return TRM_OK;
    case KIND_BOOLEAN: *(protobuf_c_boolean *)at = *(const bool *)place; return TRM_OK;
    case KIND_FLOAT: *(float *)at = *(const float *)place; return TRM_OK;
    case KIND_NUMBER32:
    case KIND_DISTRIBUTION:
    case KIND_ALGORITHM:
    case KIND_DOT_ALGORITHM:
    case KIND_FFT_TYPE:
    case KIND_TRANSPOSE:
    case KIND_API_VERSION: *(int32_t *)at = *(const int32_t *)place; return TRM_OK;
    case KIND_WORD:
    case KIND_STRING: write_text(field, *(const char *const *)place, at); return TRM_OK;
    case KIND_COMPARISON:
    case KIND_COMPARISON_TYPE:
      write_text(field, trm_attribute_spelling(attribute->kind, *(const int *)place), at);
      return TRM_OK;
    case KIND_SLICE: return write_slice(w, from, proto, error);
    case KIND_PADDING: return write_padding(w, from, proto, error);
    case KIND_GROUPS: return write_groups(w, place, proto, error);
    case KIND_PAIRS: return write_pairs(w, place, proto, error);
    case KIND_WINDOW: return write_window(w, from->window, proto, error);
    case KIND_DIM_LABELS: return write_dim_labels(w, from->convolution, proto, error);
    case KIND_TEXT: return trm_proto_sharding_parse(&w->arena, from->sharding, at, error);
    case KIND_FRONTEND: return trm_proto_write_map(w, from->frontend_attributes, at, error);
    case KIND_METADATA: return write_metadata(w, place, proto, error);
    case KIND_BACKEND_CONFIG:
      *(ProtobufCBinaryData *)at =
          (ProtobufCBinaryData){from->backend_config_size, (uint8_t *)from->backend_config};
      return TRM_OK;
    default: return TRM_OK; /* CONTROL and called computations: proto_write.c; ORDER: the type */
  }
}

/* Whether there is nothing to write: pointers that are NULL, and lists that a message would hold
 * alone. */
static bool is_absent(const trm_attribute *attribute, const void *place) {
  switch (attribute->kind) {
    case KIND_SLICE:
    case KIND_PADDING:
    case KIND_WINDOW:
    case KIND_TEXT:
    case KIND_FRONTEND:
    case KIND_BACKEND_CONFIG: return *(const void *const *)place == NULL;
    case KIND_PRECISIONS: return ((const trm_dims *)place)->count == 0;
    case KIND_DOT_ALGORITHM: return *(const int32_t *)place == 0;
    default: return false;
  }
}

static trm_status write_attribute(writer *w, const trm_instruction *from,
                                  const trm_attribute *attribute, instruction_proto *proto,
                                  trm_error *error) {
  const trm_proto_field *f = trm_proto_field_of(attribute);
  /* The place is only read. */
  const void *place = trm_attribute_place(attribute, (trm_instruction *)(uintptr_t)from);
  if (place == NULL || is_absent(attribute, place)) return TRM_OK;
  if (from->opcode == TRM_OP_SHUFFLE && f->field == NULL && attribute->kind != KIND_CONTROL) {
    FAIL(UNIMPLEMENTED, "protos of shuffles (%s) are not supported", from->name);
  }
  if (f->field == NULL) return TRM_OK;
  void *message = proto;
  for (int depth = 0; depth < 2 && f->outer[depth] != NULL; ++depth) {
    void **slot = trm_proto_at(message, f->outer[depth]->offset);
    const ProtobufCMessageDescriptor *type = f->outer[depth]->descriptor;
    if (*slot == NULL) {
      *slot = trm_arena_allocate(&w->arena, 1, type->sizeof_message);
      CHECK_MEMORY(*slot, "a proto");
      type->message_init(*slot);
    }
    message = *slot;
  }
  void *at = trm_proto_at(message, f->field->offset);
  if (trm_proto_is_numbers(f->field)) {
    return write_list(w, attribute->kind, from, place, at,
                      trm_proto_at(message, f->field->quantifier_offset), error);
  }
  return write_value(w, from, attribute, f->field, place, at, proto, error);
}

trm_status trm_proto_write_attributes(writer *w, const trm_instruction *from,
                                      instruction_proto *proto, trm_error *error) {
  const trm_attribute *attribute;
  bool required;
  if (from->opcode == TRM_OP_PARAMETER) proto->parameter_number = from->number;
  for (int i = 0; (attribute = trm_attribute_of(from->opcode, i, &required)) != NULL; ++i) {
    TRY(write_attribute(w, from, attribute, proto, error));
  }
  return TRM_OK;
}
