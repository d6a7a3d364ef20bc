/* Owns: the table of attributes. */
#include "hlo/attributes.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
  NONE,
#define ATTRIBUTE(id, name, kind, owner, field, proto) id,
#define CALLED(id, name, kind, slot) id,
#include "hlo/attributes.def"
  NUM_ATTRIBUTES,
  REQUIRED_BIT = 0x80
};
_Static_assert((int)NUM_ATTRIBUTES < (int)REQUIRED_BIT, "an attribute and its bit fit a byte");
_Static_assert((int)NUM_ATTRIBUTES <= (int)TRM_MAX_ATTRIBUTES, "an attribute is below its bound");

static const trm_attribute attributes[NUM_ATTRIBUTES] = {
#define ATTRIBUTE(id, name, kind, owner, field, proto) \
  [id] = {name, proto, KIND_##kind, OWNER_##owner, offsetof(trm_##owner, field), id},
#define CALLED(id, name, kind, slot) [id] = {name, "", KIND_##kind, OWNER_called, slot, id},
#include "hlo/attributes.def"
};

enum { MAX_ACCEPTED = 12 };
#define REQUIRED(id) ((id) | REQUIRED_BIT)
static const uint8_t accepted[TRM_NUM_OPCODES][MAX_ACCEPTED] = {
#define ACCEPTS(opcode, ...) [TRM_OP_##opcode] = {__VA_ARGS__},
#include "hlo/attributes.def"
};

static const uint8_t universal[] = {SHARDING, FRONTEND_ATTRIBUTES, CONTROL_PREDECESSORS, METADATA,
                                    BACKEND_CONFIG};

static const char *const ignored[] = {
#define IGNORED(name, why) name,
#include "hlo/attributes.def"
};

static const struct spelling {
  trm_attribute_kind kind;
  int value;
  const char *text;
} spellings[] = {
#define SPELLING(set, value, text) {KIND_##set, value, text},
#include "hlo/attributes.def"
};

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

static bool equals(const char *known, const char *name, size_t length) {
  return strlen(known) == length && memcmp(known, name, length) == 0;
}

static int count_accepted(trm_opcode opcode) {
  int count = 0;
  while (count < MAX_ACCEPTED && accepted[opcode][count] != NONE) ++count;
  return count;
}

const trm_attribute *trm_attribute_of(trm_opcode opcode, int i, bool *out_required) {
  const int own = count_accepted(opcode);
  if (i >= own + COUNT_OF(universal)) return NULL;
  *out_required = i < own && (accepted[opcode][i] & REQUIRED_BIT) != 0;
  return &attributes[i < own ? accepted[opcode][i] & ~REQUIRED_BIT : universal[i - own]];
}

const trm_attribute *trm_attribute_find(trm_opcode opcode, const char *name, size_t length,
                                        int *out_i) {
  bool required;
  const trm_attribute *attribute;
  for (int i = 0; (attribute = trm_attribute_of(opcode, i, &required)) != NULL; ++i) {
    if (equals(attribute->name, name, length)) {
      *out_i = i;
      return attribute;
    }
  }
  return NULL;
}

bool trm_attribute_is_ignored(const char *name, size_t length) {
  for (int i = 0; i < COUNT_OF(ignored); ++i) {
    if (equals(ignored[i], name, length)) return true;
  }
  return false;
}

const char *trm_attribute_refusal(trm_opcode opcode, const char *name, size_t length) {
  static const struct {
    trm_opcode opcode;
    const char *name, *advice;
  } refused[] = {
#define REFUSED(opcode, name, advice) {TRM_OP_##opcode, name, advice},
#include "hlo/attributes.def"
  };
  for (int i = 0; i < COUNT_OF(refused); ++i) {
    if (refused[i].opcode == opcode && equals(refused[i].name, name, length)) {
      return refused[i].advice;
    }
  }
  return NULL;
}

void *trm_attribute_place(const trm_attribute *attribute, trm_instruction *instruction) {
  void *owner = NULL;
  switch (attribute->owner) {
    case OWNER_instruction: owner = instruction; break;
    case OWNER_convolution: owner = instruction->convolution; break;
    case OWNER_dot: owner = instruction->dot; break;
    case OWNER_gather: owner = instruction->gather; break;
    case OWNER_scatter: owner = instruction->scatter; break;
    case OWNER_collective: owner = instruction->collective; break;
    case OWNER_triangular_solve: owner = instruction->triangular_solve; break;
    case OWNER_custom_call: owner = instruction->custom_call; break;
    case OWNER_called: break;
  }
  return owner == NULL ? NULL : (char *)owner + attribute->place;
}

bool trm_attribute_make_convolution(trm_arena *arena, trm_instruction *instruction) {
  if (instruction->convolution != NULL) return true;
  trm_convolution *convolution = ARENA_NEW(arena, trm_convolution, 1);
  if (convolution == NULL) return false;
  convolution->feature_group_count = convolution->batch_group_count = 1;
  instruction->convolution = convolution;
  return true;
}

bool trm_attribute_make_blocks(trm_arena *arena, trm_instruction *instruction) {
#define MAKE(field, type) \
  ((instruction->field) != NULL || ((instruction->field) = ARENA_NEW(arena, type, 1)) != NULL)
  const int count = count_accepted(instruction->opcode);
  bool made = true;
  for (int i = 0; i < count && made; ++i) {
    switch (attributes[accepted[instruction->opcode][i] & ~REQUIRED_BIT].owner) {
      case OWNER_convolution:
        made = instruction->opcode == TRM_OP_CUSTOM_CALL ||
               trm_attribute_make_convolution(arena, instruction);
        break;
      case OWNER_dot: made = MAKE(dot, trm_dot); break;
      case OWNER_gather: made = MAKE(gather, trm_gather); break;
      case OWNER_scatter: made = MAKE(scatter, trm_scatter); break;
      case OWNER_collective: made = MAKE(collective, trm_collective); break;
      case OWNER_triangular_solve: made = MAKE(triangular_solve, trm_triangular_solve); break;
      case OWNER_custom_call: made = MAKE(custom_call, trm_custom_call); break;
      case OWNER_instruction:
      case OWNER_called: break;
    }
  }
  if (made &&
      (instruction->opcode == TRM_OP_CONVOLUTION || instruction->opcode == TRM_OP_REDUCE_WINDOW ||
       instruction->opcode == TRM_OP_SELECT_AND_SCATTER)) {
    made = MAKE(window, trm_window); /* of no dimensions, where the text has none */
  }
#undef MAKE
  return made;
}

const char *trm_attribute_spelling(trm_attribute_kind kind, int64_t value) {
  for (int i = 0; i < COUNT_OF(spellings); ++i) {
    if (spellings[i].kind == kind && spellings[i].value == value) return spellings[i].text;
  }
  return NULL;
}

bool trm_attribute_value(trm_attribute_kind kind, const char *text, size_t length, int *out_value) {
  for (int i = 0; i < COUNT_OF(spellings); ++i) {
    if (spellings[i].kind != kind) continue;
    if (equals(spellings[i].text, text, length) ||
        (kind == KIND_PRECISIONS && strlen(spellings[i].text) == length &&
         strncasecmp(spellings[i].text, text, length) == 0)) {
      *out_value = spellings[i].value;
      return true;
    }
  }
  return false;
}

const char *trm_attribute_spellings(trm_attribute_kind kind, char *buffer, size_t size) {
  size_t used = 0;
  buffer[0] = '\0';
  for (int i = 0; i < COUNT_OF(spellings); ++i) {
    if (spellings[i].kind != kind || used >= size) continue;
    used += (size_t)snprintf(buffer + used, size - used, "%s%s", used == 0 ? "" : ", ",
                             spellings[i].text);
  }
  return buffer;
}
