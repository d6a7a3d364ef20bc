/* What the proto reader and writer share: the scan before unpacking, sharding's two forms, names.
 *
 *   proto_scan.c               bounds, depth and unknown fields, on the raw bytes
 *   proto_read.c               HloModuleProto -> module: computations, order, names
 *   proto_read_attributes.c    one instruction's attributes, by attributes.def
 *   proto_field.c              the field that keeps an attribute
 *   proto_read_values.c        shapes and literals
 *   proto_write.c              module -> HloModuleProto (proto_write.h)
 *   proto_write_attributes.c   one instruction's attributes, by attributes.def
 *   proto_write_values.c       shapes and literals
 *   proto_sharding.c           OpSharding <-> text */
#ifndef TREMULA_HLO_PROTO_H_
#define TREMULA_HLO_PROTO_H_

#include "hlo.pb-c.h"
#include "hlo/hlo.h"

/* Where the side table (trm_module.frontend_side_table) travels: in the module's frontend
 * attributes, under this key. */
#define TRM_PROTO_SIDE_TABLE_KEY "tremula.side_table"

/* XLA dumps modules in a HloProto, and runs in a HloSnapshot, which holds one: field 1 of each.
 * Sets *data and *size to the HloModuleProto inside, if there is one. */
void trm_proto_unwrap(const uint8_t **data, size_t *size);

/* Walks the bytes with the descriptors, without recursion: everything in bounds, messages nested at
 * most so deep that unpacking them recursively is safe, and no field that matters unread. */
trm_status trm_proto_scan(const uint8_t *data, size_t size, trm_error *error);

/* Finds the frontend attributes of a module: a field from *out_start to *out_end, whose value is
 * the last *out_length bytes. False if there are none, or the bytes are no message. */
bool trm_proto_find_attributes(const uint8_t *data, size_t size, size_t *out_start, size_t *out_end,
                               size_t *out_length);

/* An allocator for protobuf-c that hands out at most `remaining` bytes in all. */
typedef struct trm_proto_budget {
  ProtobufCAllocator allocator;
  size_t remaining;
} trm_proto_budget;
void trm_proto_budget_start(trm_proto_budget *budget, size_t bytes);

/* Everything of one instruction that does not name other instructions or computations. */
trm_status trm_proto_read_instruction(trm_arena *arena,
                                      const Tremula__Hlo__HloInstructionProto *proto,
                                      const Tremula__Hlo__StackFrameIndexProto *frames,
                                      trm_instruction *out_instruction, trm_error *error);
trm_status trm_proto_read_shape(trm_arena *arena, const Tremula__Hlo__ShapeProto *proto,
                                trm_shape *out_shape, trm_error *error);
trm_status trm_proto_read_literal(trm_arena *arena, const Tremula__Hlo__LiteralProto *proto,
                                  const trm_literal **out_literal, trm_error *error);
trm_status trm_proto_read_dims(trm_arena *arena, const int64_t *items, size_t count,
                               trm_dims *out_dims, trm_error *error);

/* Sharding as HLO text prints it, braces included. */
trm_status trm_proto_sharding_text(trm_arena *arena, const Tremula__Hlo__OpSharding *proto,
                                   const char **out_text, trm_error *error);
trm_status trm_proto_sharding_parse(trm_arena *arena, const char *text,
                                    Tremula__Hlo__OpSharding **out_proto, trm_error *error);

#endif /* TREMULA_HLO_PROTO_H_ */
