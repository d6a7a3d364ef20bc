/* Owns: dimensions whose size is known only at run time, up to a bound (`f32[<=8]`).
 *
 * An array has the size of its bound, and the actual size is a value of the program. Elementwise
 * instructions and moves pass the size on. Reductions and dots along such a dimension first replace
 * the elements beyond the size by the neutral element. A size begins at set-dimension-size,
 * dynamic-reshape or SliceToDynamic, and ends at get-dimension-size or PadToStatic. The pass
 * refuses everything else, because memory and steps of a program are fixed when it is compiled. */
#include <inttypes.h>
#include <string.h>

#include "passes/edit.h"
#include "passes/pass.h"

/* The values that hold the sizes of one array; TRM_NO_INDEX: the dimension is static. */
typedef struct size_row {
  trm_index of[TRM_MAX_RANK];
} size_row;

typedef struct tracker {
  const size_row **rows; /* by instruction of the original computation; NULL: its array is static */
} tracker;

static trm_status refuse(const trm_edit *edit, trm_index index, const char *why, trm_error *error) {
  char text[512];
  FAIL(UNIMPLEMENTED,
       "%s %s; sizes up to a bound can begin at set-dimension-size of a static array, go through "
       "elementwise instructions, moves, reductions and dots, and end at get-dimension-size or the "
       "custom call PadToStatic",
       trm_instruction_text(edit->module, trm_edit_at(edit, index), text, sizeof text), why);
}

static const size_row *row_of(const tracker *t, const trm_edit *edit, trm_index index, uint32_t k) {
  return t->rows[trm_edit_at(edit, index)->operands[k]];
}

/* A copy of the row `like`, or a row of static dimensions where `like` is NULL. */
static trm_status new_row(trm_edit *edit, const size_row *like, size_row **out_row,
                          trm_error *error) {
  size_row *row = ARENA_NEW(&edit->module->arena, size_row, 1);
  CHECK_MEMORY(row, "sizes");
  for (int d = 0; d < TRM_MAX_RANK; ++d) row->of[d] = like != NULL ? like->of[d] : TRM_NO_INDEX;
  *out_row = row;
  return TRM_OK;
}

static bool has_dynamic_leaf(const trm_shape *shape) {
  const int32_t leaves = trm_shape_num_leaves(shape);
  for (int32_t i = 0; i < leaves; ++i) {
    if (trm_shape_leaf(shape, i)->dynamic != 0) return true;
  }
  return false;
}

/* x with `fill` (a scalar) in place of the elements of dimension d beyond `size`. */
static trm_status mask(trm_edit *edit, trm_index like, trm_index x, int32_t d, trm_index size,
                       trm_index fill, trm_index *out, trm_error *error) {
  trm_shape shape = trm_edit_at(edit, x)->shape;
  shape.dynamic = 0;
  trm_shape places = {
      .dtype = trm_edit_at(edit, size)->shape.dtype, .rank = shape.rank, .dims = shape.dims};
  trm_shape truths = {.dtype = TRM_PRED, .rank = shape.rank, .dims = shape.dims};
  trm_index place, sizes, inside, fills;
  int64_t *dimension = trm_arena_copy(&edit->module->arena, &(int64_t){d}, sizeof(int64_t));
  trm_index *operands = ARENA_NEW(&edit->module->arena, trm_index, 3);
  CHECK_MEMORY(dimension, "a mask");
  CHECK_MEMORY(operands, "a mask");
  const trm_instruction iota = {
      .opcode = TRM_OP_IOTA, .shape = places, .dimensions = {1, dimension}};
  TRY(trm_edit_add(edit, like, iota, &place, error));
  TRY(trm_edit_broadcast(edit, like, places, size, 0, NULL, &sizes, error));
  TRY(trm_edit_binary(edit, like, TRM_OP_COMPARE, truths, place, sizes, &inside, error));
  trm_edit_at(edit, inside)->comparison = TRM_CMP_LT;
  TRY(trm_edit_broadcast(edit, like, shape, fill, 0, NULL, &fills, error));
  operands[0] = inside, operands[1] = x, operands[2] = fills;
  const trm_instruction select = {
      .opcode = TRM_OP_SELECT, .shape = shape, .num_operands = 3, .operands = operands};
  return trm_edit_add(edit, like, select, out, error);
}

/* Replaces operand k of the instruction, in a copy of its list of operands. */
static trm_status set_operand(trm_edit *edit, trm_index index, uint32_t k, trm_index value,
                              trm_error *error) {
  trm_instruction *instruction = trm_edit_at(edit, index);
  trm_index *operands = trm_arena_copy(&edit->module->arena, instruction->operands,
                                       instruction->num_operands * sizeof *instruction->operands);
  CHECK_MEMORY(operands, "operands");
  operands[k] = value;
  instruction->operands = operands;
  return TRM_OK;
}

static trm_status mask_operand(trm_edit *edit, trm_index index, uint32_t k, int32_t d,
                               trm_index size, trm_index fill, trm_error *error) {
  trm_index masked;
  TRY(mask(edit, index, trm_edit_operand(edit, index, k), d, size, fill, &masked, error));
  return set_operand(edit, index, k, masked, error);
}

/* ---- What takes sizes along ----------------------------------------------------------------- */

static trm_status merge_operands(tracker *t, trm_edit *edit, trm_index index, trm_error *error) {
  size_row *row;
  TRY(new_row(edit, NULL, &row, error));
  const uint32_t count = trm_edit_at(edit, index)->num_operands;
  for (uint32_t k = 0; k < count; ++k) {
    const size_row *operand = row_of(t, edit, index, k);
    for (int d = 0; operand != NULL && d < TRM_MAX_RANK; ++d) {
      if (row->of[d] == TRM_NO_INDEX) row->of[d] = operand->of[d];
    }
  }
  t->rows[index] = row;
  return TRM_OK;
}

/* The dimension of the result that is dimension d of the operand: the same number of elements
 * before it, and the same size. -1: there is none. */
static int32_t reshaped(const trm_shape *from, const trm_shape *to, int32_t d) {
  int64_t before = 1, other = 1;
  for (int32_t i = 0; i < d; ++i) before *= from->dims[i];
  for (int32_t i = 0; i < to->rank; ++i) {
    if (other == before && to->dims[i] == from->dims[d]) return i;
    other *= to->dims[i];
  }
  return -1;
}

static trm_status move(tracker *t, trm_edit *edit, trm_index index, trm_error *error) {
  const trm_instruction *instruction = trm_edit_at(edit, index);
  const size_row *from = row_of(t, edit, index, 0);
  const trm_shape *operand = &trm_edit_at(edit, instruction->operands[0])->shape;
  size_row *row;
  TRY(new_row(edit, NULL, &row, error));
  for (int32_t d = 0; d < operand->rank; ++d) {
    if (from->of[d] == TRM_NO_INDEX) continue;
    int32_t to = d;
    switch (instruction->opcode) {
      case TRM_OP_BROADCAST: to = (int32_t)instruction->dimensions.items[d]; break;
      case TRM_OP_TRANSPOSE:
        for (to = 0; instruction->dimensions.items[to] != d; ++to) continue;
        break;
      case TRM_OP_RESHAPE: to = reshaped(operand, &instruction->shape, d); break;
      case TRM_OP_SLICE: {
        const trm_slice_dimension *s = &instruction->slice[d];
        if (s->start != 0 || s->stride != 1 || s->limit != operand->dims[d]) to = -1;
        break;
      }
      default: break;
    }
    if (to < 0) return refuse(edit, index, "cuts or regroups a dynamic dimension", error);
    row->of[to] = from->of[d];
  }
  t->rows[index] = row;
  return TRM_OK;
}

static trm_status concatenate(tracker *t, trm_edit *edit, trm_index index, trm_error *error) {
  const int64_t along = trm_edit_at(edit, index)->dimensions.items[0];
  TRY(merge_operands(t, edit, index, error));
  if (t->rows[index]->of[along] == TRM_NO_INDEX) return TRM_OK;
  return refuse(edit, index, "joins arrays along a dynamic dimension", error);
}

/* ---- What combines elements ----------------------------------------------------------------- */

static trm_status reduce(tracker *t, trm_edit *edit, trm_index index, trm_error *error) {
  const uint32_t count = trm_edit_at(edit, index)->num_operands / 2;
  const trm_dims reduced = trm_edit_at(edit, index)->dimensions;
  const int32_t rank = trm_edit_at(edit, trm_edit_at(edit, index)->operands[0])->shape.rank;
  TRY(merge_operands(t, edit, index, error)); /* numbered by dimensions of the operands */
  const size_row *sizes = t->rows[index];
  size_row *row;
  TRY(new_row(edit, NULL, &row, error));
  int32_t kept = 0;
  bool any = false;
  for (int32_t d = 0; d < rank; ++d) {
    bool is_reduced = false;
    for (int32_t i = 0; i < reduced.count; ++i) is_reduced = is_reduced || reduced.items[i] == d;
    if (!is_reduced) {
      row->of[kept++] = sizes->of[d];
      any = any || sizes->of[d] != TRM_NO_INDEX;
    } else if (sizes->of[d] != TRM_NO_INDEX) {
      for (uint32_t k = 0; k < count; ++k) {
        TRY(mask_operand(edit, index, k, d, sizes->of[d], trm_edit_operand(edit, index, count + k),
                         error));
      }
    }
  }
  t->rows[index] = any ? row : NULL;
  if (any && count > 1) return refuse(edit, index, "gives several arrays of dynamic size", error);
  return TRM_OK;
}

static trm_status dot(tracker *t, trm_edit *edit, trm_index index, trm_error *error) {
  const trm_dot *dims = trm_edit_at(edit, index)->dot;
  size_row *row;
  TRY(new_row(edit, NULL, &row, error));
  int32_t place = dims->lhs_batch.count;
  bool any = false;
  const size_row *const rows[2] = {row_of(t, edit, index, 0), row_of(t, edit, index, 1)};
  for (uint32_t k = 0; k < 2; ++k) {
    const size_row *sizes = rows[k];
    const trm_index operand = trm_edit_operand(edit, index, k);
    const trm_dims *batch = k == 0 ? &dims->lhs_batch : &dims->rhs_batch;
    const trm_dims *contracting = k == 0 ? &dims->lhs_contracting : &dims->rhs_contracting;
    const int32_t rank = trm_edit_at(edit, operand)->shape.rank;
    for (int32_t d = 0; d < rank; ++d) {
      int32_t in_batch = -1, in_sum = -1;
      for (int32_t i = 0; i < batch->count; ++i) {
        if (batch->items[i] == d) in_batch = i;
      }
      for (int32_t i = 0; i < contracting->count; ++i) {
        if (contracting->items[i] == d) in_sum = i;
      }
      const int32_t to = in_batch >= 0 ? in_batch : in_sum >= 0 ? -1 : place++;
      if (sizes == NULL || sizes->of[d] == TRM_NO_INDEX) continue;
      if (to >= 0) {
        row->of[to] = sizes->of[d];
        any = true;
        continue;
      }
      /* Both operands: 0 times an element beyond the size could be NaN. */
      for (uint32_t side = 0; side < 2; ++side) {
        const trm_dims *sums = side == 0 ? &dims->lhs_contracting : &dims->rhs_contracting;
        trm_index zero;
        const trm_index x = trm_edit_operand(edit, index, side);
        TRY(trm_edit_scalar(edit, index, trm_edit_at(edit, x)->shape.dtype, 0, &zero, error));
        TRY(mask_operand(edit, index, side, (int32_t)sums->items[in_sum], sizes->of[d], zero,
                         error));
      }
    }
  }
  t->rows[index] = any ? row : NULL;
  return TRM_OK;
}

/* ---- Where sizes begin and end -------------------------------------------------------------- */

static trm_status set_size(tracker *t, trm_edit *edit, trm_index index, trm_error *error) {
  const int64_t d = trm_edit_at(edit, index)->number;
  if ((trm_edit_at(edit, index)->shape.dynamic >> d & 1) == 0) { /* the result is static */
    if (row_of(t, edit, index, 0) != NULL) {
      return refuse(edit, index, "makes an array static by set-dimension-size", error);
    }
    return TRM_OK;
  }
  size_row *row;
  TRY(new_row(edit, row_of(t, edit, index, 0), &row, error));
  row->of[d] = trm_edit_operand(edit, index, 1);
  t->rows[index] = row;
  trm_edit_replace(edit, index, trm_edit_operand(edit, index, 0));
  return TRM_OK;
}

/* A dynamic-reshape keeps the order of elements. Where only first dimensions are dynamic, that is
 * the order of the arrays at their bounds too. */
static trm_status reshape(tracker *t, trm_edit *edit, trm_index index, trm_error *error) {
  trm_instruction prototype = *trm_edit_at(edit, index);
  const size_row *from = row_of(t, edit, index, 0);
  size_row *row = NULL;
  trm_index result;
  for (int d = 1; from != NULL && d < TRM_MAX_RANK; ++d) {
    if (from->of[d] != TRM_NO_INDEX) {
      return refuse(edit, index, "reshapes an array of another dynamic dimension than the first",
                    error);
    }
  }
  if (prototype.shape.dynamic > 1 || (from != NULL && prototype.shape.dynamic == 0)) {
    return refuse(edit, index,
                  prototype.shape.dynamic == 0 ? "makes an array static by dynamic-reshape"
                                               : "makes another dimension dynamic than the first",
                  error);
  }
  if (prototype.shape.dynamic == 1) {
    TRY(new_row(edit, NULL, &row, error));
    row->of[0] = trm_edit_operand(edit, index, 1);
  }
  prototype.shape.dynamic = 0;
  t->rows[index] = row;
  TRY(trm_edit_unary(edit, index, TRM_OP_RESHAPE, prototype.shape, prototype.operands[0], &result,
                     error));
  trm_edit_replace(edit, index, result);
  return TRM_OK;
}

/* PadToStatic gives (array, size, size, ...): the array at its bound and the sizes of all
 * dimensions. */
static trm_status pad_to_static(tracker *t, trm_edit *edit, trm_index index, trm_error *error) {
  const trm_shape shape = trm_edit_at(edit, index)->shape;
  const size_row *sizes = row_of(t, edit, index, 0);
  const trm_index array = trm_edit_operand(edit, index, 0);
  const trm_shape *bound = &trm_edit_at(edit, array)->shape;
  const bool fits = shape.dtype == TRM_TUPLE && shape.num_elements == bound->rank + 1 &&
                    trm_shape_equal(&shape.elements[0], bound);
  if (!fits) return refuse(edit, index, "does not give (array, a size for each dimension)", error);
  const int32_t rank = bound->rank;
  trm_index *elements = ARENA_NEW(&edit->module->arena, trm_index, (size_t)rank + 1);
  CHECK_MEMORY(elements, "a tuple");
  elements[0] = array;
  for (int32_t d = 0; d < rank; ++d) {
    elements[d + 1] = sizes != NULL ? sizes->of[d] : TRM_NO_INDEX;
    if (elements[d + 1] == TRM_NO_INDEX) {
      TRY(trm_edit_scalar(edit, index, TRM_S32, (double)trm_edit_at(edit, array)->shape.dims[d],
                          &elements[d + 1], error));
    }
    const trm_shape *size = &trm_edit_at(edit, elements[d + 1])->shape;
    if (!trm_shape_equal(size, &shape.elements[d + 1])) {
      return refuse(edit, index, "does not give (array, a size for each dimension)", error);
    }
  }
  trm_index tuple;
  const trm_instruction prototype = {.opcode = TRM_OP_TUPLE,
                                     .shape = shape,
                                     .num_operands = (uint32_t)rank + 1,
                                     .operands = elements};
  TRY(trm_edit_add(edit, index, prototype, &tuple, error));
  trm_edit_replace(edit, index, tuple);
  return TRM_OK;
}

/* SliceToDynamic makes (array, size, size, ...) an array of these sizes. */
static trm_status slice_to_dynamic(tracker *t, trm_edit *edit, trm_index index, trm_error *error) {
  const trm_instruction *instruction = trm_edit_at(edit, index);
  const int32_t rank = instruction->shape.rank;
  if (instruction->num_operands != (uint32_t)rank + 1 ||
      !trm_shape_equal(&trm_edit_at(edit, instruction->operands[0])->shape, &instruction->shape)) {
    return refuse(edit, index, "does not take an array and a size for each dimension", error);
  }
  size_row *row;
  TRY(new_row(edit, NULL, &row, error));
  for (int32_t d = 0; d < rank; ++d) {
    if ((trm_edit_at(edit, index)->shape.dynamic >> d & 1) != 0) {
      row->of[d] = trm_edit_operand(edit, index, (uint32_t)d + 1);
    }
  }
  t->rows[index] = row;
  trm_edit_replace(edit, index, trm_edit_operand(edit, index, 0));
  return TRM_OK;
}

/* ---- All ------------------------------------------------------------------------------------ */

static trm_status rewrite(trm_edit *edit, trm_index index, void *state, trm_error *error) {
  tracker *t = state;
  const trm_instruction *instruction = trm_edit_at(edit, index);
  const trm_opcode opcode = instruction->opcode;
  if (opcode == TRM_OP_SET_DIMENSION_SIZE) return set_size(t, edit, index, error);
  if (opcode == TRM_OP_DYNAMIC_RESHAPE) return reshape(t, edit, index, error);
  if (instruction->call_id == TRM_CALL_PAD_TO_STATIC && instruction->num_operands == 1) {
    return pad_to_static(t, edit, index, error);
  }
  if (instruction->call_id == TRM_CALL_SLICE_TO_DYNAMIC && instruction->num_operands > 0) {
    return slice_to_dynamic(t, edit, index, error);
  }
  bool takes = false;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    takes = takes || row_of(t, edit, index, k) != NULL;
  }
  if (!takes) {
    if (!has_dynamic_leaf(&instruction->shape)) return TRM_OK;
    return refuse(edit, index, "has a dimension whose size nothing says", error);
  }
  trm_edit_at(edit, index)->shape.dynamic = 0;
  if (trm_opcode_is_elementwise(opcode)) return merge_operands(t, edit, index, error);
  switch (opcode) {
    case TRM_OP_GET_DIMENSION_SIZE: {
      const trm_index size = row_of(t, edit, index, 0)->of[instruction->number];
      if (size != TRM_NO_INDEX) trm_edit_replace(edit, index, size);
      return TRM_OK;
    }
    case TRM_OP_COPY:
    case TRM_OP_BROADCAST:
    case TRM_OP_TRANSPOSE:
    case TRM_OP_RESHAPE:
    case TRM_OP_SLICE: return move(t, edit, index, error);
    case TRM_OP_CONCATENATE: return concatenate(t, edit, index, error);
    case TRM_OP_REDUCE: return reduce(t, edit, index, error);
    case TRM_OP_DOT: return dot(t, edit, index, error);
    default: return refuse(edit, index, "takes an array of dynamic size", error);
  }
}

static bool is_dynamic(const trm_computation *computation) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    if (has_dynamic_leaf(&instruction->shape) || instruction->opcode == TRM_OP_DYNAMIC_RESHAPE ||
        instruction->call_id == TRM_CALL_PAD_TO_STATIC) {
      return true;
    }
  }
  return false;
}

static trm_status check_root(tracker *t, const trm_module *module, uint32_t c, trm_error *error) {
  const trm_computation *computation = &module->computations[c];
  if (t->rows[computation->root] == NULL) return TRM_OK;
  char text[512];
  FAIL(UNIMPLEMENTED,
       "%s is the result of the computation %s and of dynamic size; return the custom call "
       "PadToStatic of it, which gives the array at its bound and the sizes",
       trm_instruction_text(module, &computation->instructions[computation->root], text,
                            sizeof text),
       computation->name);
}

trm_status trm_pass_dynamic(trm_module *module, trm_error *error) {
  const uint32_t count = module->num_computations;
  for (uint32_t c = 0; c < count; ++c) {
    if (!is_dynamic(&module->computations[c])) continue;
    tracker t;
    t.rows = ARENA_NEW(&module->arena, const size_row *, module->computations[c].num_instructions);
    CHECK_MEMORY(t.rows, "sizes");
    trm_edit edit;
    TRY(trm_edit_begin(&edit, module, c, error));
    trm_status status = TRM_OK;
    const uint32_t instructions = module->computations[c].num_instructions;
    for (trm_index i = 0; i < instructions && status == TRM_OK; ++i) {
      status = rewrite(&edit, i, &t, error);
    }
    if (status == TRM_OK) status = check_root(&t, module, c, error);
    TRY(trm_edit_end(&edit, status, error));
  }
  return TRM_OK;
}
