/* Owns: which field of HloInstructionProto keeps an attribute. */
#include "hlo/proto_field.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static trm_proto_field fields[TRM_MAX_ATTRIBUTES];

/* A row whose field is not in hlo.proto is a mistake of ours; the first module that is read or
 * written shows it. */
static const ProtobufCFieldDescriptor *field_named(const ProtobufCMessageDescriptor *message,
                                                   const char *name) {
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field_by_name(message, name);
  if (field == NULL) abort();
  return field;
}

static void find_field(const trm_attribute *attribute) {
  const ProtobufCMessageDescriptor *message = &tremula__hlo__hlo_instruction_proto__descriptor;
  trm_proto_field *field = &fields[attribute->number];
  const char *name = attribute->proto, *dot;
  if (*name == '\0' || field->field != NULL) return;
  for (int depth = 0; (dot = strchr(name, '.')) != NULL; ++depth) {
    char outer[64] = "";
    memcpy(outer, name, (size_t)(dot - name));
    field->outer[depth] = field_named(message, outer);
    message = field->outer[depth]->descriptor;
    name = dot + 1;
  }
  field->field = field_named(message, name);
}

static void find_fields(void) {
  for (int opcode = 0; opcode < TRM_NUM_OPCODES; ++opcode) {
    const trm_attribute *attribute;
    bool required;
    for (int i = 0; (attribute = trm_attribute_of((trm_opcode)opcode, i, &required)) != NULL; ++i) {
      find_field(attribute);
    }
  }
}

const trm_proto_field *trm_proto_field_of(const trm_attribute *attribute) {
  pthread_once(&once, find_fields);
  return &fields[attribute->number];
}
