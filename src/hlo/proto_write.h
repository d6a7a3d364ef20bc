/* What the parts of the proto writer share. Everything is made in the writer's arena. */
#ifndef TREMULA_HLO_PROTO_WRITE_H_
#define TREMULA_HLO_PROTO_WRITE_H_

#include "hlo/proto.h"

typedef struct trm_proto_writer {
  const trm_module *module;
  trm_arena arena;
  bool plain_layouts; /* shapes of literals: their bytes are row-major whatever the layout says */
  bool keep_ids;
  int64_t *first_id; /* without keep_ids: of each computation's instructions */
} trm_proto_writer;

#define NEW_PROTO(w, variable, type, prefix)                                        \
  Tremula__Hlo__##type *variable = ARENA_NEW(&(w)->arena, Tremula__Hlo__##type, 1); \
  CHECK_MEMORY(variable, "a proto");                                                \
  prefix##__init(variable)

static inline char *trm_proto_borrow(const char *text) { /* protobuf-c only reads it */
  return text == NULL ? (char *)protobuf_c_empty_string : (char *)text;
}

static inline void trm_proto_set_dims(const trm_dims *dims, size_t *out_count,
                                      int64_t **out_items) {
  *out_count = (size_t)dims->count;
  *out_items = dims->items;
}
#define SET_DIMS(dims, proto, field) \
  trm_proto_set_dims((dims), &(proto)->n_##field, &(proto)->field)

trm_status trm_proto_write_shape(trm_proto_writer *w, const trm_shape *shape,
                                 Tremula__Hlo__ShapeProto **out_proto, trm_error *error);
trm_status trm_proto_write_literal(trm_proto_writer *w, const trm_literal *literal,
                                   Tremula__Hlo__LiteralProto **out_proto, trm_error *error);
/* Frontend attributes: key, value, ..., NULL. */
trm_status trm_proto_write_map(trm_proto_writer *w, const char *const *pairs,
                               Tremula__Hlo__FrontendAttributes **out_proto, trm_error *error);
/* The attributes of an instruction, by the table (attributes.def). */
trm_status trm_proto_write_attributes(trm_proto_writer *w, const trm_instruction *from,
                                      Tremula__Hlo__HloInstructionProto *proto, trm_error *error);

#endif /* TREMULA_HLO_PROTO_WRITE_H_ */
