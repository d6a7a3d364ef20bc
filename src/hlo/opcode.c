/* Owns: the opcode and dtype tables. */
#include <stdlib.h>
#include <string.h>

#include "hlo/hlo.h"

typedef enum opcode_effect { NO_EFFECT, EFFECT, CALLED } opcode_effect;

typedef struct opcode_row {
  const char *name;
  int arity;
  trm_opcode_class class;
  int calls;
  opcode_effect effect;
  trm_opcode_replicas replicas;
} opcode_row;

static const opcode_row table[TRM_NUM_OPCODES] = {
#define OPCODE(id, name, arity, class, calls, kernel, cost, effect, replicas, events) \
  {name, arity, TRM_CLASS_##class, calls, effect, TRM_REPLICAS_##replicas},
#include "hlo/opcodes.def"
#undef OPCODE
};

const char *trm_opcode_name(trm_opcode opcode) {
  return (unsigned)opcode < TRM_NUM_OPCODES ? table[opcode].name : "invalid";
}

int trm_opcode_arity(trm_opcode opcode) { return table[opcode].arity; }

trm_opcode_class trm_opcode_class_of(trm_opcode opcode) { return table[opcode].class; }

int trm_opcode_calls(trm_opcode opcode) { return table[opcode].calls; }

trm_opcode_replicas trm_opcode_replicas_of(trm_opcode opcode) { return table[opcode].replicas; }

bool trm_instruction_has_side_effect(const trm_module *module, const trm_instruction *instruction) {
  if (instruction->opcode == TRM_OP_CUSTOM_CALL) {
    return instruction->custom_call != NULL && instruction->custom_call->has_side_effect;
  }
  const opcode_effect effect = table[instruction->opcode].effect;
  if (effect != CALLED) return effect == EFFECT;
  for (uint32_t i = 0; i < instruction->num_called; ++i) {
    if (module->computations[instruction->called[i]].has_side_effect) return true;
  }
  return false;
}

bool trm_opcode_find(const char *name, size_t length, trm_opcode *out_opcode) {
  for (int i = 0; i < TRM_NUM_OPCODES; ++i) {
    if (strncmp(table[i].name, name, length) == 0 && table[i].name[length] == '\0') {
      *out_opcode = (trm_opcode)i;
      return true;
    }
  }
  return false;
}

bool trm_opcode_is_elementwise(trm_opcode opcode) {
  const trm_opcode_class class = table[opcode].class;
  return class == TRM_CLASS_UNARY || class == TRM_CLASS_BINARY || class == TRM_CLASS_TERNARY;
}

bool trm_opcode_is_product(trm_opcode opcode) {
  return opcode == TRM_OP_DOT || opcode == TRM_OP_CONVOLUTION;
}

bool trm_opcode_takes(trm_opcode opcode, trm_kind kind) {
  enum {
    PRED = 1 << TRM_KIND_PRED,
    INTEGERS = 1 << TRM_KIND_SIGNED | 1 << TRM_KIND_UNSIGNED,
    FLOATS = 1 << TRM_KIND_FLOAT,
    COMPLEX = 1 << TRM_KIND_COMPLEX,
    FRACTIONS = FLOATS | COMPLEX,
    BITS = PRED | INTEGERS,
    REALS = INTEGERS | FLOATS,
    ORDERED = PRED | REALS,
    NUMBERS = REALS | COMPLEX,
    ANY = PRED | NUMBERS
  };
  static const int types[TRM_NUM_OPCODES] = {
#define ELEMENTWISE(id, name, arity, class, events, types) [TRM_OP_##id] = types,
#define OPCODE(id, ...) [TRM_OP_##id] = ANY,
#include "hlo/opcodes.def"
#undef OPCODE
  };
  return (types[opcode] >> kind & 1) != 0;
}

const char *trm_dtype_name(trm_dtype dtype) {
  switch (dtype) {
#define TRM_DTYPE(id, number, name, bytes, kind) \
  case TRM_##id: return name;
#include "tremula/dtype.def"
#undef TRM_DTYPE
  }
  return "invalid";
}

int trm_dtype_bits(trm_dtype dtype) {
  switch (dtype) {
    case TRM_S1:
    case TRM_U1: return 1;
    case TRM_S2:
    case TRM_U2: return 2;
    case TRM_S4:
    case TRM_U4:
    case TRM_F4E2M1FN: return 4;
    default: return (int)trm_dtype_size(dtype) * 8;
  }
}

trm_kind trm_dtype_kind(trm_dtype dtype) {
  switch (dtype) {
#define TRM_DTYPE(id, number, name, bytes, kind) \
  case TRM_##id: return TRM_KIND_##kind;
#include "tremula/dtype.def"
#undef TRM_DTYPE
  }
  return TRM_KIND_NONE;
}

size_t trm_dtype_size(trm_dtype dtype) {
  switch (dtype) {
#define TRM_DTYPE(id, number, name, bytes, kind) \
  case TRM_##id: return bytes;
#include "tremula/dtype.def"
#undef TRM_DTYPE
  }
  return 0;
}
