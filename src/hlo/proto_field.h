/* From the table of attributes to the fields of HloInstructionProto, by protobuf-c's descriptors.
 */
#ifndef TREMULA_HLO_PROTO_FIELD_H_
#define TREMULA_HLO_PROTO_FIELD_H_

#include "hlo/attributes.h"
#include "hlo/proto.h"

typedef struct trm_proto_field {
  const ProtobufCFieldDescriptor *outer[2]; /* the messages around the field, outermost first; NULL:
                                             * no further one */
  const ProtobufCFieldDescriptor *field;    /* NULL: the attribute has none */
} trm_proto_field;

const trm_proto_field *trm_proto_field_of(const trm_attribute *attribute);

/* What lies `offset` bytes into a message. */
static inline void *trm_proto_at(const void *message, size_t offset) {
  return (char *)(uintptr_t)message + offset;
}

/* Whether it is a list of numbers, such as dimensions. */
static inline bool trm_proto_is_numbers(const ProtobufCFieldDescriptor *field) {
  return field->label == PROTOBUF_C_LABEL_REPEATED && field->type != PROTOBUF_C_TYPE_MESSAGE;
}

#endif /* TREMULA_HLO_PROTO_FIELD_H_ */
