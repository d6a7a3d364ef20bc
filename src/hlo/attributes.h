/* The table of attributes (attributes.def), for the readers and writers of HLO text and protos. */
#ifndef TREMULA_HLO_ATTRIBUTES_H_
#define TREMULA_HLO_ATTRIBUTES_H_

#include "hlo/hlo.h"

typedef enum trm_attribute_kind {
  KIND_DIMS,
  KIND_ONE_DIM,
  KIND_COLLECTIVE_DIM,
  KIND_IOTA_DIM,
  KIND_NUMBER,
  KIND_NUMBER32,
  KIND_COUNT,
  KIND_BOOLEAN,
  KIND_FLOAT,
  KIND_SLICE,
  KIND_PADDING,
  KIND_WINDOW,
  KIND_DIM_LABELS,
  KIND_GROUPS,
  KIND_PAIRS,
  KIND_WORD,
  KIND_STRING,
  KIND_LITERAL, /* a shape and its values */
  KIND_TEXT,
  KIND_FRONTEND,
  KIND_CONTROL,
  KIND_METADATA,
  KIND_BACKEND_CONFIG,
  KIND_COMPUTATION,
  KIND_COMPUTATIONS,
  /* Spelled values: an int each, PRECISIONS a list of them. */
  KIND_COMPARISON,
  KIND_COMPARISON_TYPE,
  KIND_COMPARISON_ORDER,
  KIND_DISTRIBUTION,
  KIND_ALGORITHM,
  KIND_DOT_ALGORITHM,
  KIND_FFT_TYPE,
  KIND_TRANSPOSE,
  KIND_API_VERSION,
  KIND_PRECISIONS
} trm_attribute_kind;

typedef enum trm_attribute_owner {
  OWNER_instruction,
  OWNER_convolution,
  OWNER_dot,
  OWNER_gather,
  OWNER_scatter,
  OWNER_collective,
  OWNER_triangular_solve,
  OWNER_custom_call,
  OWNER_called
} trm_attribute_owner;

typedef struct trm_attribute {
  const char *name;
  const char *proto; /* "field" or "message.field" of HloInstructionProto, or "" */
  trm_attribute_kind kind;
  trm_attribute_owner owner;
  size_t place; /* offset in the owner; the slot of a called computation */
  int number;   /* below TRM_MAX_ATTRIBUTES */
} trm_attribute;
enum { TRM_MAX_ATTRIBUTES = 128 };

/* The attributes of an opcode, in the order of printing: *out_required tells whether it cannot be
 * left out. NULL past the last. */
const trm_attribute *trm_attribute_of(trm_opcode opcode, int i, bool *out_required);
/* The attribute of that name that the opcode takes, and its place in the order; or NULL. */
const trm_attribute *trm_attribute_find(trm_opcode opcode, const char *name, size_t length,
                                        int *out_i);
/* Whether the reader may skip the attribute without a loss. */
bool trm_attribute_is_ignored(const char *name, size_t length);
/* For a known attribute that Tremula does not support: the advice in the message. NULL for others.
 */
const char *trm_attribute_refusal(trm_opcode opcode, const char *name, size_t length);
/* A pointer to the value; NULL if the instruction has no such block. */
void *trm_attribute_place(const trm_attribute *attribute, trm_instruction *instruction);
/* Makes the blocks that every instruction of its opcode has; false when memory runs out. */
bool trm_attribute_make_blocks(trm_arena *arena, trm_instruction *instruction);
/* The convolution block of a custom call, which only some have. */
bool trm_attribute_make_convolution(trm_arena *arena, trm_instruction *instruction);

/* NULL for a value that has no spelling. */
const char *trm_attribute_spelling(trm_attribute_kind kind, int64_t value);
/* Words of precision may be in capitals. */
bool trm_attribute_value(trm_attribute_kind kind, const char *text, size_t length, int *out_value);
/* All spellings, for messages: "EQ, NE, ...". */
const char *trm_attribute_spellings(trm_attribute_kind kind, char *buffer, size_t size);

#endif /* TREMULA_HLO_ATTRIBUTES_H_ */
