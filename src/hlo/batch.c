/* Owns: a module for another batch size. The dimensions that change together with the batch
 * (related_dims.c) are scaled, for example f32[8,4] to f32[16,4] and a product's f32[8*20,4] to
 * f32[16*20,4]. Numbers that the program has computed from its batch, such as the 1/8 of a mean,
 * stay. Arrays of constants are repeated. */
#include <inttypes.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/related_dims.h"

typedef struct scaler {
  trm_module *module;
  trm_related_dims related; /* of the module as it was, whose dimensions have the same numbers */
  uint32_t root;            /* of the batch */
  int64_t from, to;
} scaler;

static bool is_scaled(scaler *s, uint32_t dimension) {
  return trm_related_dims_root(&s->related, dimension) == s->root;
}

static trm_status scale_shape(scaler *s, trm_shape *shape, uint32_t *dimension, trm_error *error) {
  trm_arena *arena = &s->module->arena;
  if (shape->dtype == TRM_TUPLE && shape->num_elements > 0) {
    trm_shape *elements =
        trm_arena_copy(arena, shape->elements, (size_t)shape->num_elements * sizeof *elements);
    CHECK_MEMORY(elements, "another batch");
    for (int32_t e = 0; e < shape->num_elements; ++e) {
      TRY(scale_shape(s, &elements[e], dimension, error));
    }
    shape->elements = elements;
  }
  if (!trm_shape_is_array(shape) || shape->rank == 0) return TRM_OK;
  int64_t *dims = trm_arena_copy(arena, shape->dims, (size_t)shape->rank * sizeof *dims);
  CHECK_MEMORY(dims, "another batch");
  for (int32_t d = 0; d < shape->rank; ++d, ++*dimension) {
    if (!is_scaled(s, *dimension)) continue;
    if (dims[d] % s->from != 0) {
      FAIL(INVALID_ARGUMENT, "a dimension of %" PRId64 " follows from it", dims[d]);
    }
    dims[d] = dims[d] / s->from * s->to;
  }
  shape->dims = dims;
  return TRM_OK;
}

/* Repeats the bytes of a constant until its new shape is full. */
static trm_status scale_literal(scaler *s, trm_instruction *o, trm_error *error) {
  const trm_literal *old = o->literal;
  if (old == NULL || o->opcode != TRM_OP_CONSTANT || !trm_shape_is_array(&o->shape)) return TRM_OK;
  const size_t before = trm_shape_bytes(&old->shape), after = trm_shape_bytes(&o->shape);
  if (before == after) return TRM_OK;
  char *bytes = trm_arena_allocate(&s->module->arena, after + 1, 1);
  trm_literal *literal = trm_arena_copy(&s->module->arena, old, sizeof *old);
  const void **leaves = ARENA_NEW(&s->module->arena, const void *, 1);
  if (bytes == NULL || literal == NULL || leaves == NULL) FAIL_NO_MEMORY("another batch");
  for (size_t at = 0; at < after && before > 0; at += before) {
    memcpy(bytes + at, old->leaves[0], after - at < before ? after - at : before);
  }
  leaves[0] = bytes;
  literal->leaves = leaves;
  literal->shape = o->shape;
  o->literal = literal;
  return TRM_OK;
}

/* Sizes of slices that are whole dimensions of operand 0. */
static trm_status scale_slices(scaler *s, uint32_t c, trm_instruction *o, trm_error *error) {
  const trm_dims *old = o->opcode == TRM_OP_GATHER          ? &o->gather->slice_sizes
                        : o->opcode == TRM_OP_DYNAMIC_SLICE ? &o->sizes
                                                            : NULL;
  if (old == NULL && o->opcode != TRM_OP_SLICE) return TRM_OK;
  trm_arena *arena = &s->module->arena;
  const trm_shape *shape = &s->module->computations[c].instructions[o->operands[0]].shape;
  const uint32_t first = s->related.first[c][o->operands[0]];
  trm_gather *gather = o->gather == NULL ? NULL : trm_arena_copy(arena, o->gather, sizeof *gather);
  int64_t *sizes =
      old == NULL ? NULL : trm_arena_copy(arena, old->items, (size_t)old->count * sizeof *sizes);
  trm_slice_dimension *slice =
      o->slice == NULL ? NULL
                       : trm_arena_copy(arena, o->slice, (size_t)shape->rank * sizeof *slice);
  if ((old != NULL && sizes == NULL) || (o->gather != NULL && gather == NULL) ||
      (o->slice != NULL && slice == NULL)) {
    FAIL_NO_MEMORY("another batch");
  }
  for (int32_t d = 0; d < shape->rank; ++d) { /* the operand has its new shape already */
    if (!is_scaled(s, first + (uint32_t)d)) continue;
    const int64_t before = shape->dims[d] / s->to * s->from;
    if (slice != NULL && slice[d].limit == before) slice[d].limit = shape->dims[d];
    if (sizes != NULL && sizes[d] == before) sizes[d] = shape->dims[d];
  }
  if (slice != NULL) o->slice = slice;
  if (o->opcode == TRM_OP_DYNAMIC_SLICE) o->sizes.items = sizes;
  if (gather == NULL) return TRM_OK;
  gather->slice_sizes.items = sizes;
  o->gather = gather;
  return TRM_OK;
}

static trm_status scale_module(scaler *s, trm_error *error) {
  for (uint32_t d = 0; d < s->related.count; ++d) {
    if (s->related.divider[d] == NULL || !is_scaled(s, d)) continue;
    char text[256];
    FAIL(INVALID_ARGUMENT, "%s works on a part of it, or in another way that is not known",
         trm_instruction_text(s->module, s->related.divider[d], text, sizeof text));
  }
  for (uint32_t c = 0; c < s->module->num_computations; ++c) {
    trm_computation *computation = &s->module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      trm_instruction *o = &computation->instructions[i];
      uint32_t dimension = s->related.first[c][i];
      TRY(scale_shape(s, &o->shape, &dimension, error));
      TRY(scale_literal(s, o, error));
      TRY(scale_slices(s, c, o, error));
    }
  }
  return trm_module_verify(s->module, error);
}

static trm_status scale(scaler *s, const trm_module *module, size_t input, int64_t batch,
                        trm_error *error) {
  const trm_computation *entry = &module->computations[module->entry];
  size_t leaf = input;
  uint32_t p = 0;
  int32_t leaves = 0;
  for (; p < entry->num_parameters; ++p, leaf -= (size_t)leaves) {
    leaves = trm_shape_num_leaves(&entry->instructions[entry->parameters[p]].shape);
    if (leaf < (size_t)leaves) break;
  }
  const trm_shape *shape =
      p == entry->num_parameters
          ? NULL
          : trm_shape_leaf(&entry->instructions[entry->parameters[p]].shape, (int32_t)leaf);
  if (shape == NULL || shape->rank == 0) FAIL(INVALID_ARGUMENT, "there is no such input");
  s->from = shape->dims[0];
  s->to = batch;
  if (s->from < 2) {
    FAIL(INVALID_ARGUMENT, "a batch of %" PRId64 " cannot be told from other sizes", s->from);
  }
  TRY(trm_related_dims_find(module, s->from, &s->related, error));
  uint32_t first = s->related.first[module->entry][entry->parameters[p]];
  for (int32_t l = 0; l < (int32_t)leaf; ++l) {
    first += (uint32_t)trm_shape_leaf(&entry->instructions[entry->parameters[p]].shape, l)->rank;
  }
  s->root = trm_related_dims_root(&s->related, first);
  return scale_module(s, error);
}

trm_status trm_module_with_batch(const trm_module *module, size_t input, int64_t batch,
                                 trm_module **out_module, trm_error *error) {
  scaler s = {0};
  TRY(trm_module_clone(module, &s.module, error));
  const trm_status status = scale(&s, module, input, batch, error);
  trm_related_dims_free(&s.related);
  if (status != TRM_OK) {
    trm_module_free(s.module);
    return status;
  }
  *out_module = s.module;
  return TRM_OK;
}
