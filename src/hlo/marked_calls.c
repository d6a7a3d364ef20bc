/* Owns: which call of a marked function an instruction is of (marked_calls.h). */
#include "hlo/marked_calls.h"

#include <stdlib.h>
#include <string.h>

static uint32_t find(const trm_scopes *scopes, const char *scope) {
  for (size_t s = 0; s < scopes->count; ++s) {
    if (strcmp(scopes->items[s], scope) == 0) return (uint32_t)s;
  }
  return TRM_NO_INDEX;
}

trm_status trm_scopes_find(const trm_module *module, const char *key, trm_scopes *out_scopes,
                           trm_error *error) {
  *out_scopes = (trm_scopes){0};
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const char *scope = trm_instruction_frontend_attribute(&computation->instructions[i], key);
      if (scope == NULL || find(out_scopes, scope) != TRM_NO_INDEX) continue;
      if (!VECTOR_PUSH(out_scopes, scope)) {
        VECTOR_FREE(out_scopes);
        FAIL_NO_MEMORY("the calls of a function");
      }
    }
  }
  return TRM_OK;
}

uint32_t trm_scope_of(const trm_scopes *scopes, const char *key, const trm_instruction *instruction,
                      bool *out_is_gradient) {
  const char *scope = trm_instruction_frontend_attribute(instruction, key);
  const char *name = instruction->metadata.op_name;
  const char *gradients = name == NULL ? NULL : strstr(name, "gradients");
  *out_is_gradient = scope != NULL && gradients != NULL && strstr(scope, "gradients") == NULL;
  return scope == NULL ? TRM_NO_INDEX : find(scopes, scope);
}

/* ---- Equal calls ---------------------------------------------------------------------------- */

typedef struct scoped_hash {
  uint32_t scope;
  uint64_t hash; /* of an instruction; later of all of a scope's */
} scoped_hash;

typedef VECTOR(scoped_hash) scoped_hashes;

static uint64_t mix(uint64_t h, uint64_t value) {
  return (h ^ value) * UINT64_C(0x100000001b3) + (h >> 29);
}

/* What passes leave alone in one call and not in another does not tell calls apart. */
static bool is_telling(trm_opcode opcode) {
  switch (opcode) {
    case TRM_OP_PARAMETER:
    case TRM_OP_CONSTANT:
    case TRM_OP_BROADCAST:
    case TRM_OP_RESHAPE:
    case TRM_OP_BITCAST:
    case TRM_OP_COPY:
    case TRM_OP_CONVERT:
    case TRM_OP_TRANSPOSE:
    case TRM_OP_TUPLE:
    case TRM_OP_GET_TUPLE_ELEMENT:
    case TRM_OP_FUSION: return false;
    default: return true;
  }
}

static uint64_t hash_of(const trm_instruction *i) {
  uint64_t h = mix(1, i->shape.dtype);
  if (i->metadata.op_type == NULL) h = mix(h, (uint64_t)i->opcode);
  for (const char *c = i->metadata.op_type; c != NULL && *c != '\0'; ++c) h = mix(h, (uint8_t)*c);
  if (trm_shape_is_array(&i->shape)) {
    for (int32_t d = 0; d < i->shape.rank; ++d) h = mix(h, (uint64_t)i->shape.dims[d]);
  }
  return h;
}

static int by_scope(const void *a, const void *b) {
  const scoped_hash *l = a, *r = b;
  if (l->scope != r->scope) return l->scope < r->scope ? -1 : 1;
  return (l->hash > r->hash) - (l->hash < r->hash);
}

static trm_status hash_instructions(const trm_module *module, const trm_scopes *scopes,
                                    const char *key, scoped_hashes *hashes, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      bool is_gradient;
      const uint32_t scope = trm_scope_of(scopes, key, instruction, &is_gradient);
      if (scope == TRM_NO_INDEX || is_gradient || !is_telling(instruction->opcode)) continue;
      const scoped_hash one = {scope, hash_of(instruction)};
      if (!VECTOR_PUSH(hashes, one)) FAIL_NO_MEMORY("the calls of a function");
    }
  }
  return TRM_OK;
}

/* The hash of each scope's different instructions, whatever their order. */
static void hash_scopes(scoped_hashes *hashes, uint64_t *out_hashes) {
  if (hashes->count > 0) qsort(hashes->items, hashes->count, sizeof *hashes->items, by_scope);
  for (size_t h = 0; h < hashes->count; ++h) {
    const scoped_hash *one = &hashes->items[h];
    if (h > 0 && by_scope(one, one - 1) == 0) continue;
    out_hashes[one->scope] = mix(out_hashes[one->scope] + 1, one->hash);
  }
}

trm_status trm_scopes_match(const trm_module *module, const trm_scopes *scopes, const char *key,
                            uint32_t **out_matches, trm_error *error) {
  scoped_hashes hashes = {0};
  uint64_t *of_scope = trm_allocate_zeroed(scopes->count + 1, sizeof *of_scope);
  uint32_t *matches = trm_allocate_zeroed(scopes->count + 1, sizeof *matches);
  trm_status status = TRM_OK;
  if (of_scope == NULL || matches == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for the calls of a function");
  }
  if (status == TRM_OK) status = hash_instructions(module, scopes, key, &hashes, error);
  if (status == TRM_OK) {
    hash_scopes(&hashes, of_scope);
    for (size_t s = 0; s < scopes->count; ++s) matches[s] = TRM_NO_INDEX;
    for (uint32_t s = 0; s < scopes->count; ++s) {
      for (uint32_t first = 0; first < s && matches[s] == TRM_NO_INDEX; ++first) {
        if (of_scope[first] == of_scope[s]) matches[s] = matches[first] = first;
      }
    }
  }
  VECTOR_FREE(&hashes);
  trm_free(of_scope);
  if (status != TRM_OK) {
    trm_free(matches);
    matches = NULL;
  }
  *out_matches = matches;
  return status;
}
