/* Owns: writing a module as a HloModuleProto that XLA, and trm_hlo_parse_proto, read back.
 *
 * The proto has no order but that of the ids, so ids that do not ascend (passes reorder) are
 * replaced by new ones. Everything is built in one scratch arena and packed at once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/proto.h"

typedef Tremula__Hlo__HloInstructionProto instruction_proto;
typedef Tremula__Hlo__HloComputationProto computation_proto;
typedef Tremula__Hlo__ShapeProto shape_proto;

typedef struct writer {
  const trm_module *module;
  trm_arena arena;
  bool plain_layouts; /* shapes of literals: their bytes are row-major whatever the layout says */
  bool keep_ids;
  int64_t *first_id; /* without keep_ids: of each computation's instructions */
} writer;

#define NEW_PROTO(w, variable, type, prefix)                      \
  Tremula__Hlo__##type *variable = ARENA_NEW(&(w)->arena, Tremula__Hlo__##type, 1); \
  CHECK_MEMORY(variable, "a proto");                              \
  prefix##__init(variable)

static char *borrow(const char *text) { /* protobuf-c only reads it */
  return text == NULL ? (char *)protobuf_c_empty_string : (char *)text;
}

static void set_dims(const trm_dims *dims, size_t *out_count, int64_t **out_items) {
  *out_count = (size_t)dims->count;
  *out_items = dims->items;
}
#define SET_DIMS(dims, proto, field) set_dims((dims), &(proto)->n_##field, &(proto)->field)

/* ---- Ids ------------------------------------------------------------------------------------ */

static int compare_numbers(const void *a, const void *b) {
  const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return left < right ? -1 : left > right;
}

/* Sorts; tells whether all are positive and differ. */
static bool all_differ(int64_t *numbers, size_t count) {
  if (count > 1) qsort(numbers, count, sizeof *numbers, compare_numbers);
  bool fine = count == 0 || numbers[0] > 0;
  for (size_t i = 1; i < count && fine; ++i) fine = numbers[i] != numbers[i - 1];
  return fine;
}

static trm_status choose_ids(writer *w, trm_error *error) {
  const trm_module *module = w->module;
  size_t total = 0, count = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    total += module->computations[c].num_instructions;
  }
  w->first_id = ARENA_NEW(&w->arena, int64_t, module->num_computations);
  int64_t *ids = trm_allocate_zeroed(total + module->num_computations, sizeof *ids);
  if (w->first_id == NULL || ids == NULL) {
    trm_free(ids);
    FAIL_NO_MEMORY("ids");
  }
  w->keep_ids = true;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    w->first_id[c] = (int64_t)count + 1;
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      ids[count++] = computation->instructions[i].id;
      if (i > 0 && computation->instructions[i].id <= computation->instructions[i - 1].id) {
        w->keep_ids = false;
      }
    }
  }
  w->keep_ids = w->keep_ids && all_differ(ids, total);
  for (uint32_t c = 0; c < module->num_computations; ++c) ids[c] = module->computations[c].id;
  w->keep_ids = w->keep_ids && all_differ(ids, module->num_computations);
  trm_free(ids);
  return TRM_OK;
}

static int64_t instruction_id(const writer *w, uint32_t computation, trm_index index) {
  return w->keep_ids ? w->module->computations[computation].instructions[index].id
                     : w->first_id[computation] + index;
}

static int64_t computation_id(const writer *w, uint32_t computation) {
  return w->keep_ids ? w->module->computations[computation].id : (int64_t)computation + 1;
}

/* ---- Shapes and literals -------------------------------------------------------------------- */

static trm_status write_array_shape(writer *w, const trm_shape *shape, shape_proto *proto,
                                    trm_error *error) {
  proto->element_type = (int32_t)shape->dtype;
  if (!trm_shape_is_array(shape)) return TRM_OK;
  const size_t rank = (size_t)shape->rank;
  NEW_PROTO(w, layout, LayoutProto, tremula__hlo__layout_proto);
  int64_t *minor_to_major = ARENA_NEW(&w->arena, int64_t, rank);
  proto->is_dynamic_dimension = ARENA_NEW(&w->arena, protobuf_c_boolean, rank);
  if (minor_to_major == NULL || proto->is_dynamic_dimension == NULL) FAIL_NO_MEMORY("a shape");
  for (size_t i = 0; i < rank; ++i) {
    minor_to_major[i] = shape->layout != NULL && !w->plain_layouts ? shape->layout[i]
                                                                   : (int64_t)(rank - 1 - i);
  }
  proto->n_dimensions = proto->n_is_dynamic_dimension = rank;
  proto->dimensions = (int64_t *)shape->dims;
  layout->n_minor_to_major = rank;
  layout->minor_to_major = minor_to_major;
  proto->layout = layout;
  return TRM_OK;
}

enum { MAX_DEPTH = 64 }; /* what trm_shape_check lets through */

static trm_status write_shape(writer *w, const trm_shape *shape, shape_proto **out_proto,
                              trm_error *error) {
  const trm_shape *shapes[MAX_DEPTH + 1];
  shape_proto *protos[MAX_DEPTH + 1];
  int32_t next[MAX_DEPTH + 1];
  int depth = 0;
  NEW_PROTO(w, root, ShapeProto, tremula__hlo__shape_proto);
  shapes[0] = shape, protos[0] = root, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *top = shapes[depth];
    shape_proto *proto = protos[depth];
    if (top->dtype != TRM_TUPLE) {
      TRY(write_array_shape(w, top, proto, error));
      --depth;
      continue;
    }
    if (next[depth] == 0) {
      proto->element_type = TRM_TUPLE;
      proto->n_tuple_shapes = (size_t)top->num_elements;
      proto->tuple_shapes = ARENA_NEW(&w->arena, shape_proto *, (size_t)top->num_elements);
      CHECK_MEMORY(proto->tuple_shapes, "a shape");
    }
    if (next[depth] == top->num_elements) {
      --depth;
      continue;
    }
    if (depth == MAX_DEPTH) FAIL(INVALID_ARGUMENT, "tuples are nested too deep");
    NEW_PROTO(w, element, ShapeProto, tremula__hlo__shape_proto);
    proto->tuple_shapes[next[depth]] = element;
    shapes[depth + 1] = &top->elements[next[depth]++];
    protos[depth + 1] = element;
    next[++depth] = 0;
  }
  *out_proto = root;
  return TRM_OK;
}

static trm_status write_values(writer *w, const trm_shape *shape, const void *bytes,
                               Tremula__Hlo__LiteralProto *proto, trm_error *error) {
  const size_t count = (size_t)trm_shape_count(shape);
  const ProtobufCBinaryData raw = {trm_shape_bytes(shape), (uint8_t *)bytes};
#define WORDS(dtype, field, type, parts)  \
  case dtype:                             \
    proto->n_##field = count * (parts);   \
    proto->field = (type *)bytes;         \
    return TRM_OK;
#define BYTES(dtype, field)  \
  case dtype:                \
    proto->field = raw;      \
    return TRM_OK;
  switch (shape->dtype) {
    WORDS(TRM_S32, s32s, int32_t, 1)
    WORDS(TRM_U32, u32s, uint32_t, 1)
    WORDS(TRM_S64, s64s, int64_t, 1)
    WORDS(TRM_U64, u64s, uint64_t, 1)
    WORDS(TRM_F32, f32s, float, 1)
    WORDS(TRM_F64, f64s, double, 1)
    WORDS(TRM_C64, c64s, float, 2)
    WORDS(TRM_C128, c128s, double, 2)
    BYTES(TRM_S8, s8s)
    BYTES(TRM_U8, u8s)
    BYTES(TRM_S16, s16s)
    BYTES(TRM_U16, u16s)
    BYTES(TRM_F16, f16s)
    BYTES(TRM_BF16, bf16s)
    case TRM_PRED:
      proto->n_preds = count;
      proto->preds = ARENA_NEW(&w->arena, protobuf_c_boolean, count);
      CHECK_MEMORY(proto->preds, "a literal");
      for (size_t i = 0; i < count; ++i) proto->preds[i] = ((const uint8_t *)bytes)[i] != 0;
      return TRM_OK;
    default:
      FAIL(INVALID_ARGUMENT, "a literal cannot hold %s", trm_dtype_name(shape->dtype));
  }
#undef WORDS
#undef BYTES
}

static trm_status write_literal(writer *w, const trm_literal *literal,
                                Tremula__Hlo__LiteralProto **out_proto, trm_error *error) {
  const trm_shape *shapes[MAX_DEPTH + 1];
  Tremula__Hlo__LiteralProto *protos[MAX_DEPTH + 1];
  int32_t next[MAX_DEPTH + 1];
  int depth = 0;
  int32_t leaf = 0;
  NEW_PROTO(w, root, LiteralProto, tremula__hlo__literal_proto);
  shapes[0] = &literal->shape, protos[0] = root, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *shape = shapes[depth];
    Tremula__Hlo__LiteralProto *proto = protos[depth];
    if (shape->dtype != TRM_TUPLE) {
      if (leaf == literal->num_leaves) FAIL(INVALID_ARGUMENT, "a literal has too few arrays");
      TRY(write_shape(w, shape, &proto->shape, error));
      TRY(write_values(w, shape, literal->leaves[leaf++], proto, error));
      --depth;
      continue;
    }
    if (next[depth] == 0) {
      TRY(write_shape(w, shape, &proto->shape, error));
      proto->n_tuple_literals = (size_t)shape->num_elements;
      proto->tuple_literals =
          ARENA_NEW(&w->arena, Tremula__Hlo__LiteralProto *, (size_t)shape->num_elements);
      CHECK_MEMORY(proto->tuple_literals, "a literal");
    }
    if (next[depth] == shape->num_elements) {
      --depth;
      continue;
    }
    if (depth == MAX_DEPTH) FAIL(INVALID_ARGUMENT, "tuples are nested too deep");
    NEW_PROTO(w, element, LiteralProto, tremula__hlo__literal_proto);
    proto->tuple_literals[next[depth]] = element;
    shapes[depth + 1] = &shape->elements[next[depth]++];
    protos[depth + 1] = element;
    next[++depth] = 0;
  }
  *out_proto = root;
  return TRM_OK;
}

/* ---- Attributes ----------------------------------------------------------------------------- */

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
    case TRM_OP_PARAMETER:
      proto->parameter_number = from->number;
      return TRM_OK;
    case TRM_OP_GET_TUPLE_ELEMENT:
      proto->tuple_index = from->number;
      return TRM_OK;
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
      proto->comparison_direction = borrow(directions[from->comparison]);
      proto->comparison_type = borrow(types[from->comparison_type]);
      return TRM_OK;
    case TRM_OP_DYNAMIC_SLICE:
      SET_DIMS(&from->sizes, proto, dynamic_slice_sizes);
      return TRM_OK;
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
      proto->custom_call_target = borrow(from->custom_call->target);
      proto->custom_call_has_side_effect = from->custom_call->has_side_effect;
      proto->custom_call_api_version = from->custom_call->api_version;
      return TRM_OK;
    case TRM_OP_INFEED:
    case TRM_OP_OUTFEED: {
      ProtobufCBinaryData *config =
          from->opcode == TRM_OP_INFEED ? &proto->infeed_config : &proto->outfeed_config;
      config->data = (uint8_t *)borrow(from->infeed_config);
      config->len = strlen((const char *)config->data);
      return TRM_OK;
    }
    default:
      return TRM_OK;
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

static trm_status write_map(writer *w, const char *const *pairs,
                            Tremula__Hlo__FrontendAttributes **out_proto, trm_error *error) {
  size_t count = 0;
  while (pairs[2 * count] != NULL) ++count;
  NEW_PROTO(w, attributes, FrontendAttributes, tremula__hlo__frontend_attributes);
  attributes->n_map = count;
  attributes->map = ARENA_NEW(&w->arena, Tremula__Hlo__FrontendAttributes__MapEntry *, count);
  CHECK_MEMORY(attributes->map, "frontend attributes");
  for (size_t i = 0; i < count; ++i) {
    NEW_PROTO(w, entry, FrontendAttributes__MapEntry,
              tremula__hlo__frontend_attributes__map_entry);
    entry->key = borrow(pairs[2 * i]);
    entry->value = borrow(pairs[2 * i + 1]);
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
    TRY(write_map(w, from->frontend_attributes, &proto->frontend_attributes, error));
  }
  NEW_PROTO(w, metadata, OpMetadata, tremula__hlo__op_metadata);
  metadata->op_type = borrow(from->metadata.op_type);
  metadata->op_name = borrow(from->metadata.op_name);
  metadata->source_file = borrow(from->metadata.source_file);
  metadata->source_line = from->metadata.source_line;
  proto->metadata = metadata;
  return TRM_OK;
}

/* ---- Instructions and computations ---------------------------------------------------------- */

static trm_status write_references(writer *w, uint32_t c, const trm_instruction *from,
                                   instruction_proto *proto, trm_error *error) {
  proto->n_operand_ids = from->num_operands;
  proto->n_control_predecessor_ids = from->num_control_predecessors;
  proto->n_called_computation_ids = from->num_called;
  proto->operand_ids = ARENA_NEW(&w->arena, int64_t, from->num_operands);
  proto->control_predecessor_ids = ARENA_NEW(&w->arena, int64_t, from->num_control_predecessors);
  proto->called_computation_ids = ARENA_NEW(&w->arena, int64_t, from->num_called);
  if (proto->operand_ids == NULL || proto->control_predecessor_ids == NULL ||
      proto->called_computation_ids == NULL) {
    FAIL_NO_MEMORY("operands");
  }
  for (uint32_t i = 0; i < from->num_operands; ++i) {
    proto->operand_ids[i] = instruction_id(w, c, from->operands[i]);
  }
  for (uint32_t i = 0; i < from->num_control_predecessors; ++i) {
    proto->control_predecessor_ids[i] = instruction_id(w, c, from->control_predecessors[i]);
  }
  const bool is_while = from->opcode == TRM_OP_WHILE; /* the proto has the body first */
  for (uint32_t i = 0; i < from->num_called; ++i) {
    const uint32_t slot = is_while ? from->num_called - 1 - i : i;
    proto->called_computation_ids[i] = computation_id(w, from->called[slot]);
  }
  return TRM_OK;
}

static trm_status write_instruction(writer *w, uint32_t c, trm_index index,
                                    instruction_proto **out_proto, trm_error *error) {
  const trm_instruction *from = &w->module->computations[c].instructions[index];
  NEW_PROTO(w, proto, HloInstructionProto, tremula__hlo__hlo_instruction_proto);
  proto->name = borrow(from->name);
  proto->opcode = borrow(trm_opcode_name(from->opcode));
  proto->id = instruction_id(w, c, index);
  proto->exponent_bits = from->exponent_bits;
  proto->mantissa_bits = from->mantissa_bits;
  proto->distribution = from->distribution;
  proto->rng_algorithm = from->algorithm;
  proto->delta = from->delta;
  proto->is_stable = from->is_stable;
  proto->fusion_kind = borrow(from->fusion_kind);
  proto->backend_config.data = (uint8_t *)from->backend_config;
  proto->backend_config.len = from->backend_config_size;
  SET_DIMS(&from->dimensions, proto, dimensions);
  TRY(write_shape(w, &from->shape, &proto->shape, error));
  if (from->literal != NULL) {
    w->plain_layouts = true;
    TRY(write_literal(w, from->literal, &proto->literal, error));
    w->plain_layouts = false;
  }
  TRY(write_collective(w, from->collective, proto, error));
  TRY(write_own(w, from, proto, error));
  TRY(write_window(w, from->window, proto, error));
  TRY(write_dimension_numbers(w, from, proto, error));
  TRY(write_lists(w, from, proto, error));
  TRY(write_notes(w, from, proto, error));
  TRY(write_references(w, c, from, proto, error));
  *out_proto = proto;
  return TRM_OK;
}

static trm_status write_program_shape(writer *w, const trm_computation *computation,
                                      Tremula__Hlo__ProgramShapeProto **out_proto,
                                      trm_error *error) {
  NEW_PROTO(w, proto, ProgramShapeProto, tremula__hlo__program_shape_proto);
  const size_t count = computation->num_parameters;
  proto->n_parameters = proto->n_parameter_names = count;
  proto->parameters = ARENA_NEW(&w->arena, shape_proto *, count);
  proto->parameter_names = ARENA_NEW(&w->arena, char *, count);
  if (proto->parameters == NULL || proto->parameter_names == NULL) FAIL_NO_MEMORY("parameters");
  for (size_t i = 0; i < count; ++i) {
    const trm_instruction *parameter = &computation->instructions[computation->parameters[i]];
    TRY(write_shape(w, &parameter->shape, &proto->parameters[i], error));
    proto->parameter_names[i] = borrow(parameter->name);
  }
  TRY(write_shape(w, &computation->instructions[computation->root].shape, &proto->result, error));
  *out_proto = proto;
  return TRM_OK;
}

static trm_status write_computation(writer *w, uint32_t c, computation_proto **out_proto,
                                    trm_error *error) {
  const trm_computation *from = &w->module->computations[c];
  NEW_PROTO(w, proto, HloComputationProto, tremula__hlo__hlo_computation_proto);
  proto->name = borrow(from->name);
  proto->id = computation_id(w, c);
  proto->root_id = instruction_id(w, c, from->root);
  proto->n_instructions = from->num_instructions;
  proto->instructions = ARENA_NEW(&w->arena, instruction_proto *, from->num_instructions);
  CHECK_MEMORY(proto->instructions, "instructions");
  for (trm_index i = 0; i < from->num_instructions; ++i) {
    TRY_NOTE(write_instruction(w, c, i, &proto->instructions[i], error),
             "while writing %%%s of computation %s", from->instructions[i].name, from->name);
  }
  TRY(write_program_shape(w, from, &proto->program_shape, error));
  *out_proto = proto;
  return TRM_OK;
}

/* ---- The module ----------------------------------------------------------------------------- */

static trm_status write_aliases(writer *w, Tremula__Hlo__HloModuleProto *proto, trm_error *error) {
  const trm_module *module = w->module;
  if (module->num_aliases == 0) return TRM_OK;
  NEW_PROTO(w, aliases, HloInputOutputAliasProto, tremula__hlo__hlo_input_output_alias_proto);
  aliases->n_entries = module->num_aliases;
  aliases->entries = ARENA_NEW(&w->arena, Tremula__Hlo__HloInputOutputAliasProto__AliasEntryProto *,
                               module->num_aliases);
  CHECK_MEMORY(aliases->entries, "aliases");
  for (uint32_t i = 0; i < module->num_aliases; ++i) {
    const trm_alias *from = &module->aliases[i];
    NEW_PROTO(w, entry, HloInputOutputAliasProto__AliasEntryProto,
              tremula__hlo__hlo_input_output_alias_proto__alias_entry_proto);
    SET_DIMS(&from->output_index, entry, output_shape_index);
    SET_DIMS(&from->parameter_index, entry, parameter_shape_index);
    entry->parameter_number = from->parameter_number;
    entry->kind = from->must_alias ? 2 : 1;
    aliases->entries[i] = entry;
  }
  proto->input_output_alias = aliases;
  return TRM_OK;
}

static trm_status write_schedule(writer *w, Tremula__Hlo__HloModuleProto *proto,
                                 trm_error *error) {
  const trm_module *module = w->module;
  if (!module->is_scheduled) return TRM_OK;
  NEW_PROTO(w, schedule, HloScheduleProto, tremula__hlo__hlo_schedule_proto);
  schedule->n_sequences = module->num_computations;
  schedule->sequences = ARENA_NEW(&w->arena, Tremula__Hlo__HloScheduleProto__SequencesEntry *,
                                  module->num_computations);
  CHECK_MEMORY(schedule->sequences, "a schedule");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const uint32_t count = module->computations[c].num_instructions;
    NEW_PROTO(w, entry, HloScheduleProto__SequencesEntry,
              tremula__hlo__hlo_schedule_proto__sequences_entry);
    NEW_PROTO(w, sequence, HloScheduleProto__InstructionSequence,
              tremula__hlo__hlo_schedule_proto__instruction_sequence);
    sequence->n_instruction_ids = count;
    sequence->instruction_ids = ARENA_NEW(&w->arena, int64_t, count);
    CHECK_MEMORY(sequence->instruction_ids, "a schedule");
    for (trm_index i = 0; i < count; ++i) sequence->instruction_ids[i] = instruction_id(w, c, i);
    entry->key = computation_id(w, c);
    entry->value = sequence;
    schedule->sequences[c] = entry;
  }
  proto->schedule = schedule;
  return TRM_OK;
}

static trm_status write_module(writer *w, Tremula__Hlo__HloModuleProto *proto, trm_error *error) {
  const trm_module *module = w->module;
  if (module->entry >= module->num_computations) FAIL(INVALID_ARGUMENT, "the module has no entry");
  const trm_computation *entry = &module->computations[module->entry];
  TRY(choose_ids(w, error));
  proto->name = borrow(module->name);
  proto->id = 1;
  proto->entry_computation_name = borrow(entry->name);
  proto->entry_computation_id = computation_id(w, module->entry);
  proto->n_computations = module->num_computations;
  proto->computations = ARENA_NEW(&w->arena, computation_proto *, module->num_computations);
  CHECK_MEMORY(proto->computations, "computations");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    TRY(write_computation(w, c, &proto->computations[c], error));
  }
  TRY(write_program_shape(w, entry, &proto->host_program_shape, error));
  TRY(write_aliases(w, proto, error));
  if (module->frontend_side_table != NULL) {
    const char *const pairs[] = {TRM_PROTO_SIDE_TABLE_KEY, module->frontend_side_table, NULL};
    TRY(write_map(w, pairs, &proto->frontend_attributes, error));
  }
  return write_schedule(w, proto, error);
}

trm_status trm_module_serialize(const trm_module *module, void **out_data, size_t *out_size,
                                trm_error *error) {
  writer w = {.module = module};
  Tremula__Hlo__HloModuleProto proto;
  tremula__hlo__hlo_module_proto__init(&proto);
  trm_status status = write_module(&w, &proto, error);
  if (status == TRM_OK) {
    const size_t size = tremula__hlo__hlo_module_proto__get_packed_size(&proto);
    uint8_t *data = trm_allocate(size);
    if (data == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED,
                        "out of memory while serialising a module of %zu bytes", size);
    } else {
      tremula__hlo__hlo_module_proto__pack(&proto, data);
      *out_data = data;
      *out_size = size;
    }
  }
  trm_arena_free(&w.arena);
  return status;
}
