/* Owns: writing the attributes of one instruction as a proto. */
#include <string.h>

#include "hlo/proto_write.h"

typedef Tremula__Hlo__HloInstructionProto instruction_proto;
typedef trm_proto_writer writer;

static trm_status write_window(writer *w, const trm_window *window, instruction_proto *proto,
                               trm_error *error) {
  if (window == NULL) return TRM_OK;
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

static trm_status write_convolution(writer *w, const trm_convolution *from,
                                    instruction_proto *proto, trm_error *error) {
  if (from == NULL) return TRM_OK;
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
  proto->feature_group_count = from->feature_group_count;
  proto->batch_group_count = from->batch_group_count;
  return TRM_OK;
}

static trm_status write_dimension_numbers(writer *w, const trm_instruction *from,
                                          instruction_proto *proto, trm_error *error) {
  if (from->dot != NULL) {
    NEW_PROTO(w, dot, DotDimensionNumbers, tremula__hlo__dot_dimension_numbers);
    SET_DIMS(&from->dot->lhs_batch, dot, lhs_batch_dimensions);
    SET_DIMS(&from->dot->rhs_batch, dot, rhs_batch_dimensions);
    SET_DIMS(&from->dot->lhs_contracting, dot, lhs_contracting_dimensions);
    SET_DIMS(&from->dot->rhs_contracting, dot, rhs_contracting_dimensions);
    proto->dot_dimension_numbers = dot;
  }
  if (from->gather != NULL) {
    const trm_gather *g = from->gather;
    NEW_PROTO(w, gather, GatherDimensionNumbers, tremula__hlo__gather_dimension_numbers);
    SET_DIMS(&g->offset_dims, gather, offset_dims);
    SET_DIMS(&g->collapsed_slice_dims, gather, collapsed_slice_dims);
    SET_DIMS(&g->start_index_map, gather, start_index_map);
    SET_DIMS(&g->operand_batching_dims, gather, operand_batching_dims);
    SET_DIMS(&g->start_indices_batching_dims, gather, start_indices_batching_dims);
    SET_DIMS(&g->slice_sizes, proto, gather_slice_sizes);
    gather->index_vector_dim = g->index_vector_dim;
    proto->indices_are_sorted = g->indices_are_sorted;
    proto->gather_dimension_numbers = gather;
  }
  if (from->scatter != NULL) {
    const trm_scatter *s = from->scatter;
    NEW_PROTO(w, scatter, ScatterDimensionNumbers, tremula__hlo__scatter_dimension_numbers);
    SET_DIMS(&s->update_window_dims, scatter, update_window_dims);
    SET_DIMS(&s->inserted_window_dims, scatter, inserted_window_dims);
    SET_DIMS(&s->scatter_dims_to_operand_dims, scatter, scatter_dims_to_operand_dims);
    SET_DIMS(&s->input_batching_dims, scatter, input_batching_dims);
    SET_DIMS(&s->scatter_indices_batching_dims, scatter, scatter_indices_batching_dims);
    scatter->index_vector_dim = s->index_vector_dim;
    proto->indices_are_sorted = s->indices_are_sorted;
    proto->unique_indices = s->unique_indices;
    proto->scatter_dimension_numbers = scatter;
  }
  return write_convolution(w, from->convolution, proto, error);
}

static trm_status write_collective(writer *w, const trm_collective *from, instruction_proto *proto,
                                   trm_error *error) {
  if (from == NULL) return TRM_OK;
  const size_t groups = (size_t)from->replica_groups.count;
  proto->n_replica_groups = groups;
  proto->replica_groups = ARENA_NEW(&w->arena, Tremula__Hlo__ReplicaGroup *, groups);
  CHECK_MEMORY(proto->replica_groups, "replica groups");
  for (size_t i = 0; i < groups; ++i) {
    NEW_PROTO(w, group, ReplicaGroup, tremula__hlo__replica_group);
    SET_DIMS(&from->replica_groups.groups[i], group, replica_ids);
    proto->replica_groups[i] = group;
  }
  const size_t pairs = (size_t)from->source_target_pairs.count / 2;
  proto->n_source_target_pairs = pairs;
  proto->source_target_pairs = ARENA_NEW(&w->arena, Tremula__Hlo__SourceTarget *, pairs);
  CHECK_MEMORY(proto->source_target_pairs, "source-target pairs");
  for (size_t i = 0; i < pairs; ++i) {
    NEW_PROTO(w, pair, SourceTarget, tremula__hlo__source_target);
    pair->source = from->source_target_pairs.items[2 * i];
    pair->target = from->source_target_pairs.items[2 * i + 1];
    proto->source_target_pairs[i] = pair;
  }
  proto->channel_id = from->channel_id;
  proto->use_global_device_ids = from->use_global_device_ids;
  proto->constrain_layout = from->constrain_layout;
  proto->is_host_transfer = from->is_host_transfer;
  if (from->has_dimension) {
    proto->n_dimensions = 1;
    proto->dimensions = (int64_t *)&from->dimension;
  }
  return TRM_OK;
}

/* Attributes whose meaning depends on the opcode. */
static trm_status write_own(writer *w, const trm_instruction *from, instruction_proto *proto,
                            trm_error *error) {
  static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  static const char *const types[] = {"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
  switch (from->opcode) {
    case TRM_OP_PARAMETER: proto->parameter_number = from->number; return TRM_OK;
    case TRM_OP_GET_TUPLE_ELEMENT: proto->tuple_index = from->number; return TRM_OK;
    case TRM_OP_GET_DIMENSION_SIZE:
    case TRM_OP_SET_DIMENSION_SIZE:
      proto->n_dimensions = 1;
      proto->dimensions = (int64_t *)&from->number;
      return TRM_OK;
    case TRM_OP_BATCH_NORM_TRAINING:
    case TRM_OP_BATCH_NORM_INFERENCE:
    case TRM_OP_BATCH_NORM_GRAD:
      proto->feature_index = from->number;
      proto->epsilon = from->epsilon;
      return TRM_OK;
    case TRM_OP_TOPK:
      proto->k = from->number;
      proto->largest = from->largest;
      return TRM_OK;
    case TRM_OP_COMPARE:
      proto->comparison_direction = trm_proto_borrow(directions[from->comparison]);
      proto->comparison_type = trm_proto_borrow(types[from->comparison_type]);
      return TRM_OK;
    case TRM_OP_DYNAMIC_SLICE: SET_DIMS(&from->sizes, proto, dynamic_slice_sizes); return TRM_OK;
    case TRM_OP_FFT:
      proto->fft_type = from->fft_type;
      SET_DIMS(&from->sizes, proto, fft_length);
      return TRM_OK;
    case TRM_OP_CHOLESKY: {
      NEW_PROTO(w, options, CholeskyOptions, tremula__hlo__cholesky_options);
      options->lower = from->lower;
      proto->cholesky_options = options;
      return TRM_OK;
    }
    case TRM_OP_TRIANGULAR_SOLVE: {
      const trm_triangular_solve *solve = from->triangular_solve;
      NEW_PROTO(w, options, TriangularSolveOptions, tremula__hlo__triangular_solve_options);
      options->left_side = solve->left_side;
      options->lower = solve->lower;
      options->unit_diagonal = solve->unit_diagonal;
      options->transpose_a = solve->transpose_a;
      proto->triangular_solve_options = options;
      return TRM_OK;
    }
    case TRM_OP_CUSTOM_CALL:
      proto->custom_call_target = trm_proto_borrow(from->custom_call->target);
      proto->custom_call_has_side_effect = from->custom_call->has_side_effect;
      proto->custom_call_api_version = from->custom_call->api_version;
      return TRM_OK;
    case TRM_OP_INFEED:
    case TRM_OP_OUTFEED: {
      ProtobufCBinaryData *config =
          from->opcode == TRM_OP_INFEED ? &proto->infeed_config : &proto->outfeed_config;
      config->data = (uint8_t *)trm_proto_borrow(from->infeed_config);
      config->len = strlen((const char *)config->data);
      return TRM_OK;
    }
    default: return TRM_OK;
  }
}

static trm_status write_lists(writer *w, const trm_instruction *from, instruction_proto *proto,
                              trm_error *error) {
  if (from->slice != NULL) {
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
  }
  if (from->padding != NULL) {
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
  }
  if (from->operand_precision.count > 0) {
    const size_t count = (size_t)from->operand_precision.count;
    NEW_PROTO(w, precision, PrecisionConfig, tremula__hlo__precision_config);
    precision->n_operand_precision = count;
    precision->operand_precision = ARENA_NEW(&w->arena, int32_t, count);
    CHECK_MEMORY(precision->operand_precision, "precisions");
    for (size_t i = 0; i < count; ++i) {
      precision->operand_precision[i] = (int32_t)from->operand_precision.items[i];
    }
    proto->precision_config = precision;
  }
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

static trm_status write_notes(writer *w, const trm_instruction *from, instruction_proto *proto,
                              trm_error *error) {
  if (from->sharding != NULL) {
    TRY(trm_proto_sharding_parse(&w->arena, from->sharding, &proto->sharding, error));
  }
  if (from->frontend_attributes != NULL) {
    TRY(trm_proto_write_map(w, from->frontend_attributes, &proto->frontend_attributes, error));
  }
  NEW_PROTO(w, metadata, OpMetadata, tremula__hlo__op_metadata);
  metadata->op_type = trm_proto_borrow(from->metadata.op_type);
  metadata->op_name = trm_proto_borrow(from->metadata.op_name);
  metadata->source_file = trm_proto_borrow(from->metadata.source_file);
  metadata->source_line = from->metadata.source_line;
  proto->metadata = metadata;
  return TRM_OK;
}

trm_status trm_proto_write_attributes(writer *w, const trm_instruction *from,
                                      instruction_proto *proto, trm_error *error) {
  TRY(write_collective(w, from->collective, proto, error));
  TRY(write_own(w, from, proto, error));
  TRY(write_window(w, from->window, proto, error));
  TRY(write_dimension_numbers(w, from, proto, error));
  TRY(write_lists(w, from, proto, error));
  return write_notes(w, from, proto, error);
}
