/* Owns: checking the bytes of a HloModuleProto before protobuf-c unpacks them. protobuf-c recurses,
 * and keeps fields that it does not know without a word; this walk does not recurse, bounds the
 * depth, and refuses unknown fields. */
#include <inttypes.h>
#include <string.h>

#include "hlo/proto.h"

enum { MAX_DEPTH = 100 };

/* Fields of the descriptors of TensorFlow 2.15 to 2.21 and JAX 0.10 to 0.12 that hlo.proto leaves
 * out. An ignorable one does not change what a program computes; any other is an error when it is
 * set. */
typedef struct omitted {
  const char *message, *name;
  uint32_t number;
  bool ignorable;
} omitted;

static const omitted omitted_fields[] = {
    {"HloModuleProto", "dynamic_parameter_binding", 9, false},
    {"HloModuleProto", "cross_program_prefetches", 10, true},
    {"HloModuleProto", "is_dynamic", 11, true}, /* shapes tell, and are checked */
    {"HloModuleProto", "spmd_output_sharding", 12, true},
    {"HloModuleProto", "profile_info", 13, true},
    {"HloModuleProto", "spmd_parameters_shardings", 14, true},
    {"HloModuleProto", "device_assignment", 15, true}, /* devices are the engine's */
    {"HloModuleProto", "use_auto_spmd_partitioning", 16, true},
    {"HloModuleProto", "buffer_donor", 18, true},
    {"HloModuleProto", "original_value_recovery_table", 20, true},
    {"HloModuleProto", "device_type", 21, true},
    {"HloModuleProto", "payloads", 22, false}, /* configurations of instructions are in it */
    {"HloModuleProto", "pjrt_id", 23, true},
    {"HloModuleProto", "debug_attributes", 24, true},
    {"HloModuleProto", "backend_config", 25, true},
    {"HloComputationProto", "execution_thread", 8, true}, /* threads are the engine's */
    {"HloComputationProto", "backend_config", 9, true},
    {"HloInstructionProto", "domain_entry_sharding", 54, true},
    {"HloInstructionProto", "domain_exit_sharding", 55, true},
    {"HloInstructionProto", "operand_shapes_with_layout", 57, true},
    {"HloInstructionProto", "parameter_replication", 61, true},
    {"HloInstructionProto", "is_cross_program_prefetch", 73, true},
    {"HloInstructionProto", "output_operand_aliasing", 74, true},
    {"HloInstructionProto", "padding_type", 75, true},
    {"HloInstructionProto", "custom_call_schedule", 76, true},
    {"HloInstructionProto", "async_group_id", 78, true},
    {"HloInstructionProto", "async_execution_thread", 79, true},
    {"HloInstructionProto", "cross_program_prefetch_index", 80, true},
    {"HloInstructionProto", "statistics_viz", 82, true},
    {"HloInstructionProto", "original_value", 88, true},
    {"HloInstructionProto", "is_composite", 89, true},
    {"HloInstructionProto", "result_accuracy", 91, true},
    {"HloInstructionProto", "is_associative", 96, true},
    {"HloInstructionProto", "conv_kind", 97, true},
    {"HloInstructionProto", "sparsity_config", 98, false},
    {"HloInstructionProto", "backend_config_payload", 99, false},
    {"HloInstructionProto", "has_dynamic_root", 100, false},
    {"HloInstructionProto", "block_scaling_config", 101, false},
    {"HloInstructionProto", "shuffle_mode", 103, false},
    {"LayoutProto", "tiles", 6, true}, /* layouts are hints */
    {"LayoutProto", "element_size_in_bits", 7, true},
    {"LayoutProto", "memory_space", 8, true},
    {"LayoutProto", "dim_level_types", 9, true},
    {"LayoutProto", "physical_shape", 10, true},
    {"LayoutProto", "index_primitive_type", 11, true},
    {"LayoutProto", "pointer_primitive_type", 12, true},
    {"LayoutProto", "dim_unique", 13, true},
    {"LayoutProto", "dim_ordered", 14, true},
    {"LayoutProto", "dynamic_shape_metadata_prefix_bytes", 15, true},
    {"LayoutProto", "tail_padding_alignment_in_elements", 16, true},
    {"LayoutProto", "split_configs", 17, true},
    {"OpMetadata", "profile_type", 5, true},
    {"OpMetadata", "creation_pass_id", 6, true},
    {"OpMetadata", "logical_creation_pass_id", 7, true},
    {"OpMetadata", "size_of_generated_code_in_bytes", 8, true},
    {"OpMetadata", "size_of_memory_working_set_in_bytes", 9, true},
    {"OpMetadata", "profile_info", 10, true},
    {"OpMetadata", "deduplicated_name", 12, true},
    {"OpMetadata", "preserve_layout", 13, true},
    {"OpMetadata", "scheduling_name", 16, true},
    {"OpMetadata", "source_end_line", 17, true},
    {"OpMetadata", "source_column", 18, true},
    {"OpMetadata", "source_end_column", 19, true},
    {"OpMetadata", "metadata_payload", 20, true},
    {"LiteralProto", "sparse_indices", 14, false},
    {"LiteralProto", "dynamic_sizes", 34, false},
    {"LiteralProto", "f6e3m2fns", 35, false},
    {"LiteralProto", "f6e2m3fns", 36, false},
    {"OpSharding", "tile_shape", 2, true}, /* follows from the tile assignment */
    {"OpSharding", "metadata", 7, true},
    {"OpSharding", "is_shard_group", 11, true},
    {"OpSharding", "shard_group_id", 12, true},
    {"OpSharding", "shard_group_type", 13, true},
    {"NamedShardingProto", "metadata", 6, true},
    {"DimensionSharding", "is_closed", 2, true},
};

static bool read_varint(const uint8_t **cursor, const uint8_t *end, uint64_t *out_value);

/* Whether bytes are a message all of whose fields are 0 or such messages: writers leave these where
 * nothing is meant. Bytes that are no message say something. */
static bool says_nothing(const uint8_t *cursor, const uint8_t *end, int depth) {
  while (cursor < end) {
    uint64_t tag = 0, value = 0;
    if (depth == 0 || !read_varint(&cursor, end, &tag) || tag >> 3 == 0 ||
        !read_varint(&cursor, end, &value)) {
      return false;
    }
    if ((tag & 7) == 0 && value == 0) continue;
    if ((tag & 7) != 2 || value > (uint64_t)(end - cursor) ||
        !says_nothing(cursor, cursor + value, depth - 1)) {
      return false;
    }
    cursor += value;
  }
  return true;
}

/* `is_set`: the value is not 0 and not empty. */
static trm_status check_omitted(const char *message, uint32_t number, bool is_set,
                                trm_error *error) {
  for (size_t i = 0; i < sizeof omitted_fields / sizeof *omitted_fields; ++i) {
    const omitted *field = &omitted_fields[i];
    if (field->number != number || strcmp(field->message, message) != 0) continue;
    if (field->ignorable || !is_set) return TRM_OK;
    FAIL(UNIMPLEMENTED, "the module uses field %s (%" PRIu32 ") of %s, which is not supported",
         field->name, number, message);
  }
  FAIL(UNIMPLEMENTED,
       "the module uses field %" PRIu32 " of %s, which this version does not know; it was probably "
       "written by a TensorFlow newer than 2.21 or a JAX newer than 0.12",
       number, message);
}

static bool read_varint(const uint8_t **cursor, const uint8_t *end, uint64_t *out_value) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && *cursor < end; shift += 7) {
    const uint8_t byte = *(*cursor)++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *out_value = value;
      return true;
    }
  }
  return false;
}

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { FIRST_BYTES = 1 << 3 | WIRE_BYTES }; /* the tag of a message or text in field 1 */

static uint64_t wire_type_of(const ProtobufCFieldDescriptor *field) {
  switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return WIRE_32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return WIRE_64;
    default: return WIRE_VARINT;
  }
}

typedef struct frame {
  const ProtobufCMessageDescriptor *message;
  const uint8_t *end;
} frame;

/* Reads the value after a tag: *out_length bytes from *cursor on (0 for a varint, which is
 * consumed), and whether it is more than nothing. */
static bool read_value(const uint8_t **cursor, const uint8_t *end, uint64_t wire,
                       uint64_t *out_length, bool *out_is_set) {
  uint64_t value = 0;
  *out_length = 0;
  switch (wire) {
    case WIRE_VARINT:
      if (!read_varint(cursor, end, &value)) return false;
      *out_is_set = value != 0;
      return true;
    case WIRE_BYTES:
      if (!read_varint(cursor, end, &value)) return false;
      break;
    case WIRE_64: value = 8; break;
    case WIRE_32: value = 4; break;
    default: return false;
  }
  *out_length = value;
  *out_is_set = value != 0;
  return value <= (uint64_t)(end - *cursor);
}

void trm_proto_unwrap(const uint8_t **data, size_t *size) {
  while (*size > 0 && (*data)[0] == FIRST_BYTES) {
    const uint8_t *cursor = *data + 1, *const end = *data + *size;
    uint64_t length = 0;
    const bool is_read = read_varint(&cursor, end, &length) && length <= (uint64_t)(end - cursor);
    /* A module begins with the text of its name, or with another field. */
    if (!is_read || length == 0 || cursor[0] >= ' ') return;
    *data = cursor, *size = (size_t)length;
  }
}

trm_status trm_proto_scan(const uint8_t *data, size_t size, trm_error *error) {
  frame stack[MAX_DEPTH];
  const uint8_t *cursor = data;
  int depth = 0;
  stack[0] = (frame){&tremula__hlo__hlo_module_proto__descriptor, data + size};
  while (depth >= 0) {
    const frame top = stack[depth];
    const char *message = top.message->short_name;
    if (cursor == top.end) {
      --depth;
      continue;
    }
    const size_t offset = (size_t)(cursor - data);
    uint64_t tag = 0, length = 0;
    bool is_set = false;
    if (!read_varint(&cursor, top.end, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff ||
        !read_value(&cursor, top.end, tag & 7, &length, &is_set)) {
      FAIL(DATA_LOSS,
           "not a HloModuleProto, or cut short: byte %zu of %zu, in a %s, is not a field", offset,
           size, message);
    }
    const uint32_t number = (uint32_t)(tag >> 3);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(top.message, number);
    if (field == NULL) {
      if (is_set && (tag & 7) == 2) is_set = !says_nothing(cursor, cursor + length, 8);
      TRY(check_omitted(message, number, is_set, error));
      cursor += length;
      continue;
    }
    const uint64_t wanted = wire_type_of(field);
    const bool is_packed = field->label == PROTOBUF_C_LABEL_REPEATED && (tag & 7) == WIRE_BYTES;
    if ((tag & 7) != wanted && !is_packed) {
      FAIL(DATA_LOSS, "not a HloModuleProto: field %s of %s at byte %zu has the wrong type",
           field->name, message, offset);
    }
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
      cursor += length;
      continue;
    }
    if (depth + 1 == MAX_DEPTH) {
      FAIL(INVALID_ARGUMENT, "messages are nested more than %d deep, in a %s at byte %zu",
           MAX_DEPTH, message, offset);
    }
    stack[++depth] = (frame){field->descriptor, cursor + length};
  }
  return TRM_OK;
}

bool trm_proto_find_attributes(const uint8_t *data, size_t size, size_t *out_start, size_t *out_end,
                               size_t *out_length) {
  enum { ATTRIBUTES = 19 }; /* HloModuleProto.frontend_attributes */
  const uint8_t *cursor = data, *const end = data + size;
  while (cursor < end) {
    const size_t start = (size_t)(cursor - data);
    uint64_t tag = 0, length = 0;
    bool is_set = false;
    if (!read_varint(&cursor, end, &tag) || !read_value(&cursor, end, tag & 7, &length, &is_set))
      return false;
    cursor += length;
    if (tag != (ATTRIBUTES << 3 | WIRE_BYTES)) continue;
    *out_start = start, *out_end = (size_t)(cursor - data), *out_length = (size_t)length;
    return true;
  }
  return false;
}

static void *budget_allocate(void *data, size_t size) {
  trm_proto_budget *budget = data;
  if (size > budget->remaining) return NULL;
  budget->remaining -= size;
  return trm_allocate(size);
}

static void budget_free(void *data, void *block) {
  (void)data;
  trm_free(block);
}

void trm_proto_budget_start(trm_proto_budget *budget, size_t bytes) {
  budget->allocator =
      (ProtobufCAllocator){.alloc = budget_allocate, .free = budget_free, .allocator_data = budget};
  budget->remaining = bytes;
}
