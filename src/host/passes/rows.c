/* Owns: groups of instructions that work row by row, such as a softmax or a layer norm. A group
 * becomes one custom call "tremula.rows" of a computation on a block of rows (host/ops/rows.c).
 *
 * The rows of a value are its leading dimensions; `rows` is their product. A value is needed by row
 * where row r of a result depends only on row r of the value. It is needed whole where each row
 * depends on all of it (a gain of a layer norm). A group begins with a reduce over the trailing
 * dimensions. It grows to producers and users whose results have the same number of rows, as long
 * as the users outside come after the group. Inside a group every value is needed by row. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/elementwise/strip.h"
#include "host/passes/row_needs.h"
#include "passes/edit.h"
#include "passes/outline.h"
#include "passes/pass.h"

enum {
  MAX_MEMBERS = 64,
  MAX_VALUES = 12 /* results; a group has at most twice as many operands */
};

typedef struct finder {
  trm_edit edit;
  trm_arena arena;
  uint32_t count;  /* instructions before the pass */
  trm_graph users; /* of each instruction, with control edges */
  bool *is_taken;  /* in a group already */
  bool *is_member; /* in the group that is being made */
  trm_index members[MAX_MEMBERS];
  uint32_t num_members;
  int64_t rows;
} finder;

/* What a row of instruction i needs of its operands. False: it cannot be computed by row. */
static bool needs_of(finder *f, trm_index i, trm_need *needs) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  const trm_instruction *o = &computation->instructions[i];
  const trm_shape *leaf = trm_shape_leaf(&o->shape, 0);
  if (leaf == NULL || trm_row_rank(leaf, f->rows) < 0 || o->num_operands > 2 * MAX_VALUES)
    return false;
  if (o->opcode != TRM_OP_FUSION) {
    const bool is_known =
        trm_opcode_is_elementwise(o->opcode) || o->opcode == TRM_OP_BITCAST_CONVERT
            ? trm_strip_supports(f->edit.module, computation, o)
            : o->opcode == TRM_OP_REDUCE || o->opcode == TRM_OP_RESHAPE ||
                  o->opcode == TRM_OP_BROADCAST;
    for (uint32_t k = 0; k < o->num_operands; ++k) {
      needs[k] = is_known ? trm_row_need(computation, o, k, f->rows) : TRM_NEED_NOTHING;
      if (needs[k] == TRM_NEED_NOTHING) return false;
    }
    return is_known && o->num_operands > 0;
  }
  if (o->fusion_kind == NULL || strcmp(o->fusion_kind, "kLoop") != 0) return false;
  const trm_computation *body = &f->edit.module->computations[o->called[0]];
  trm_need *inside = trm_allocate(body->num_instructions * sizeof *inside);
  if (inside == NULL) return false;
  const bool may = trm_row_needs_of_fusion(body, f->rows, inside);
  for (uint32_t k = 0; k < o->num_operands; ++k) {
    needs[k] = inside[body->parameters[k]] == TRM_NEED_ROW ? TRM_NEED_ROW : TRM_NEED_WHOLE;
  }
  trm_free(inside);
  return may;
}

/* ---- Groups --------------------------------------------------------------------------------- */

/* The instruction that computes the value of i: behind a get-tuple-element the tuple's. */
static trm_index source(const trm_computation *computation, trm_index i) {
  const trm_instruction *o = &computation->instructions[i];
  return o->opcode == TRM_OP_GET_TUPLE_ELEMENT ? o->operands[0] : i;
}

static bool has_control_edges(const finder *f, trm_index i) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  if (computation->instructions[i].num_control_predecessors > 0) return true;
  for (size_t e = f->users.rows[i]; e < f->users.rows[i + 1]; ++e) {
    const trm_instruction *user = &computation->instructions[f->users.targets[e]];
    bool is_operand = false;
    for (uint32_t k = 0; k < user->num_operands; ++k) is_operand |= user->operands[k] == i;
    if (!is_operand) return true;
  }
  return false;
}

/* Whether all users outside come after the last member. Then the call can take the place of that
 * member, and no cycle arises. */
static bool stands_together(const finder *f) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  trm_index last = 0;
  for (uint32_t m = 0; m < f->num_members; ++m) {
    const trm_index member = source(computation, f->members[m]);
    if (member > last) last = member;
  }
  for (uint32_t m = 0; m < f->num_members; ++m) {
    for (size_t e = f->users.rows[f->members[m]]; e < f->users.rows[f->members[m] + 1]; ++e) {
      const trm_index user = f->users.targets[e];
      if (!f->is_member[user] && user < last) return false;
    }
  }
  return true;
}

/* Whether i and the members need each other's values by row. */
static bool agrees(finder *f, trm_index i, const trm_need *needs) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  const trm_instruction *o = &computation->instructions[i];
  for (uint32_t k = 0; k < o->num_operands; ++k) {
    if (f->is_member[o->operands[k]] && needs[k] != TRM_NEED_ROW) return false;
  }
  for (uint32_t m = 0; m < f->num_members; ++m) {
    const trm_instruction *user = &computation->instructions[f->members[m]];
    if (user->opcode == TRM_OP_GET_TUPLE_ELEMENT) continue;
    trm_need of_user[2 * MAX_VALUES];
    bool is_known = false;
    for (uint32_t k = 0; k < user->num_operands; ++k) {
      if (source(computation, user->operands[k]) != i) continue;
      if (!is_known && !needs_of(f, f->members[m], of_user)) return false;
      is_known = true;
      if (of_user[k] != TRM_NEED_ROW) return false;
    }
  }
  return true;
}

/* Bytes of one row of all values that the group reads and writes by row. */
static size_t row_bytes(finder *f) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  size_t bytes = 0;
  for (uint32_t m = 0; m < f->num_members; ++m) {
    const trm_instruction *o = &computation->instructions[f->members[m]];
    if (o->opcode == TRM_OP_GET_TUPLE_ELEMENT) continue;
    for (int32_t l = 0; l < trm_shape_num_leaves(&o->shape); ++l) {
      bytes += trm_shape_bytes(trm_shape_leaf(&o->shape, l));
    }
    for (uint32_t k = 0; k < o->num_operands; ++k) {
      const trm_instruction *operand = &computation->instructions[o->operands[k]];
      const bool is_inside = f->is_member[source(computation, o->operands[k])];
      if (!is_inside && trm_row_rank(&operand->shape, f->rows) > 0) {
        bytes += trm_shape_bytes(&operand->shape);
      }
    }
  }
  return bytes / (size_t)f->rows;
}

static void drop_members(finder *f, uint32_t from) {
  for (uint32_t m = from; m < f->num_members; ++m) f->is_member[f->members[m]] = false;
  f->num_members = from;
}

static void add_member(finder *f, trm_index i) {
  f->is_member[i] = true;
  f->members[f->num_members++] = i;
}

/* Adds an instruction, with the elements of its tuple, if the group stays valid. */
static bool try_member(finder *f, trm_index i) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  const bool is_tuple = computation->instructions[i].shape.dtype == TRM_TUPLE;
  const uint32_t before = f->num_members;
  const size_t num_users = f->users.rows[i + 1] - f->users.rows[i];
  trm_need needs[2 * MAX_VALUES];
  if (f->is_member[i] || f->is_taken[i] || before + 1 + num_users * is_tuple > MAX_MEMBERS ||
      has_control_edges(f, i) || !needs_of(f, i, needs) || !agrees(f, i, needs) ||
      (is_tuple && i == computation->root))
    return false;
  add_member(f, i);
  for (size_t e = f->users.rows[i]; is_tuple && e < f->users.rows[i + 1]; ++e) {
    const trm_index element = f->users.targets[e];
    if (computation->instructions[element].opcode != TRM_OP_GET_TUPLE_ELEMENT ||
        has_control_edges(f, element)) {
      drop_members(f, before);
      return false;
    }
    if (!f->is_member[element]) add_member(f, element);
  }
  if (!stands_together(f) || row_bytes(f) > TRM_ROWS_MOST_BLOCK_BYTES) {
    drop_members(f, before);
    return false;
  }
  return true;
}

/* Adds producers of the values that the members read, and users of their results. */
static void grow(finder *f) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  for (uint32_t before = 0; before != f->num_members;) {
    before = f->num_members;
    for (uint32_t m = 0; m < f->num_members; ++m) {
      const trm_index member = f->members[m];
      const trm_instruction *o = &computation->instructions[member];
      for (uint32_t k = 0; k < o->num_operands; ++k) {
        try_member(f, source(computation, o->operands[k]));
      }
      for (size_t e = f->users.rows[member]; e < f->users.rows[member + 1]; ++e) {
        try_member(f, f->users.targets[e]);
      }
    }
  }
}

static bool is_used_outside(const finder *f, trm_index i) {
  if (i == trm_edit_computation(&f->edit)->root) return true;
  for (size_t e = f->users.rows[i]; e < f->users.rows[i + 1]; ++e) {
    if (!f->is_member[f->users.targets[e]]) return true;
  }
  return false;
}

/* A group saves a pass over memory if two members read or write more than one element a row. */
static bool is_worth_it(const finder *f) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  uint32_t passes = 0;
  for (uint32_t m = 0; m < f->num_members; ++m) {
    const trm_instruction *o = &computation->instructions[f->members[m]];
    int64_t most = 0;
    for (uint32_t k = 0; k <= o->num_operands; ++k) {
      const trm_shape *shape = k < o->num_operands
                                   ? &computation->instructions[o->operands[k]].shape
                                   : trm_shape_leaf(&o->shape, 0);
      const int64_t count = trm_shape_is_array(shape) ? trm_shape_count(shape) : 0;
      if (trm_row_rank(shape, f->rows) > 0 && count > most) most = count;
    }
    passes += most > f->rows && o->opcode != TRM_OP_RESHAPE && o->opcode != TRM_OP_BITCAST_CONVERT;
  }
  return passes >= 2;
}

/* ---- Making a call -------------------------------------------------------------------------- */

typedef struct maker {
  finder *f;
  uint32_t body;
  int64_t block; /* rows of a block */
  trm_index operands[MAX_MEMBERS * 2 * MAX_VALUES], results[MAX_MEMBERS];
  uint32_t num_operands, num_results;
  trm_index *inside; /* by instruction */
} maker;

/* The most rows of a block: those of one batch, where the group reads a product of batches, which
 * attention.c may join. */
static int64_t rows_of_batch(const finder *f) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  for (uint32_t m = 0; m < f->num_members; ++m) {
    const trm_instruction *o = &computation->instructions[f->members[m]];
    for (uint32_t k = 0; k < o->num_operands; ++k) {
      const trm_instruction *operand = &computation->instructions[o->operands[k]];
      const int32_t rank = trm_row_rank(&operand->shape, f->rows);
      if (operand->opcode == TRM_OP_DOT && operand->dot->lhs_batch.count > 0 && rank > 0) {
        return operand->shape.dims[rank - 1];
      }
    }
  }
  return f->rows;
}

/* The rows of a block: a divisor of all rows, if one is not much smaller than the limit. */
static int64_t block_rows(finder *f) {
  const size_t bytes = row_bytes(f);
  int64_t block = TRM_ROWS_MOST_BLOCK_BYTES / (int64_t)(bytes > 0 ? bytes : 1);
  if (block > f->rows / TRM_ROWS_LEAST_BLOCKS) block = f->rows / TRM_ROWS_LEAST_BLOCKS;
  if (block > rows_of_batch(f)) block = rows_of_batch(f);
  if (block < 1) block = 1;
  for (int64_t b = block; 2 * b > block; --b) {
    if (f->rows % b == 0) return b;
  }
  return block;
}

static trm_status block_shape(const maker *m, const trm_shape *shape, trm_shape *out,
                              trm_error *error) {
  trm_arena *arena = &m->f->edit.module->arena;
  const int32_t rank = trm_row_rank(shape, m->f->rows);
  if (rank < 0) FAIL(INTERNAL, "a group of rows has a value without rows");
  int64_t dims[TRM_MAX_RANK];
  dims[0] = m->block;
  for (int32_t d = rank; d < shape->rank; ++d) dims[d - rank + 1] = shape->dims[d];
  if (!trm_shape_make(arena, shape->dtype, shape->rank - rank + 1, dims, out)) {
    FAIL_NO_MEMORY("rows");
  }
  return TRM_OK;
}

/* Renumbers the dimensions after the rows, for one dimension of rows. `skipped`: leading dimensions
 * that are rows. */
static trm_status block_dimensions(const maker *m, trm_dims *dimensions, int32_t skipped,
                                   int32_t rank, trm_error *error) {
  const int32_t rest = dimensions->count - skipped;
  int64_t *items = ARENA_NEW(&m->f->edit.module->arena, int64_t, (size_t)rest + 2);
  CHECK_MEMORY(items, "rows");
  int32_t count = 0;
  if (skipped > 0) items[count++] = 0;
  for (int32_t i = 0; i < rest; ++i) items[count++] = dimensions->items[skipped + i] - rank + 1;
  *dimensions = (trm_dims){.count = count, .items = items};
  return TRM_OK;
}

static trm_status block_slices(const maker *m, trm_instruction *copy, int32_t rank,
                               trm_error *error) {
  const int32_t rest = copy->shape.rank - 1; /* dimensions after the rows */
  trm_slice_dimension *slice =
      ARENA_NEW(&m->f->edit.module->arena, trm_slice_dimension, (size_t)rest + 1);
  CHECK_MEMORY(slice, "rows");
  slice[0] = (trm_slice_dimension){0, m->block, 1};
  memcpy(slice + 1, copy->slice + rank, (size_t)rest * sizeof *slice);
  copy->slice = slice;
  return TRM_OK;
}

/* Makes `copy`, an instruction on all rows, one on a block. `operand`: the shape of its first
 * operand on all rows. */
static trm_status make_block(const maker *m, trm_instruction *copy, const trm_shape *operand,
                             trm_error *error) {
  const int64_t rows = m->f->rows;
  if (copy->shape.dtype == TRM_TUPLE) {
    trm_shape *leaves =
        ARENA_NEW(&m->f->edit.module->arena, trm_shape, (size_t)copy->shape.num_elements);
    CHECK_MEMORY(leaves, "rows");
    for (int32_t l = 0; l < copy->shape.num_elements; ++l) {
      TRY(block_shape(m, &copy->shape.elements[l], &leaves[l], error));
    }
    copy->shape.elements = leaves;
    return TRM_OK;
  }
  const int32_t rank = trm_row_rank(&copy->shape, rows);
  TRY(block_shape(m, &copy->shape, &copy->shape, error));
  switch (copy->opcode) {
    case TRM_OP_BROADCAST: {
      const bool by_row = copy->dimensions.count > 0 && copy->dimensions.items[0] < rank;
      return block_dimensions(m, &copy->dimensions, by_row ? trm_row_rank(operand, rows) : 0, rank,
                              error);
    }
    case TRM_OP_REDUCE:
    case TRM_OP_IOTA: return block_dimensions(m, &copy->dimensions, 0, rank, error);
    case TRM_OP_SLICE: return block_slices(m, copy, rank, error);
    default: return TRM_OK;
  }
}

/* Copies the computation of a fusion for a block. */
static trm_status block_fusion(const maker *m, uint32_t fused, uint32_t *out_body,
                               trm_error *error) {
  trm_module *module = m->f->edit.module;
  const uint32_t count = module->computations[fused].num_instructions;
  trm_arena arena = {0};
  trm_status status = TRM_OK;
  trm_need *needs = ARENA_NEW(&arena, trm_need, count);
  trm_index *inside = ARENA_NEW(&arena, trm_index, count);
  if (needs == NULL || inside == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
  trm_row_needs_of_fusion(&module->computations[fused], m->f->rows, needs);
  TRY_OR_GOTO(trm_module_add_computation(module, NULL, out_body, error), done);
  for (trm_index i = 0; i < count; ++i) {
    const trm_computation *from = &module->computations[fused];
    trm_instruction copy = from->instructions[i];
    if (needs[i] == TRM_NEED_ROW) {
      const trm_shape *operand =
          copy.num_operands > 0 ? &from->instructions[copy.operands[0]].shape : NULL;
      TRY_OR_GOTO(make_block(m, &copy, operand, error), done);
    }
    TRY_OR_GOTO(trm_outline_copy(module, *out_body, copy, inside, &inside[i], error), done);
  }
  module->computations[*out_body].root = inside[module->computations[fused].root];
done:
  trm_arena_free(&arena);
  return status;
}

/* Makes a parameter of an instruction outside; scalar constants are copied. */
static trm_status bring_operand(maker *m, trm_index outside, trm_need wanted, trm_error *error) {
  if (m->inside[outside] != TRM_NO_INDEX) return TRM_OK;
  const trm_instruction *o = trm_edit_at(&m->f->edit, outside);
  if (o->opcode == TRM_OP_CONSTANT && trm_shape_is_scalar(&o->shape)) {
    return trm_outline_copy(m->f->edit.module, m->body, *o, m->inside, &m->inside[outside], error);
  }
  trm_instruction parameter = {
      .opcode = TRM_OP_PARAMETER, .shape = o->shape, .number = m->num_operands};
  if (wanted == TRM_NEED_ROW) TRY(block_shape(m, &o->shape, &parameter.shape, error));
  m->operands[m->num_operands++] = outside;
  return trm_computation_add(m->f->edit.module, m->body, &parameter, &m->inside[outside], error);
}

static trm_status copy_member(maker *m, trm_index i, trm_error *error) {
  finder *f = m->f;
  trm_instruction copy = *trm_edit_at(&f->edit, i);
  if (copy.opcode != TRM_OP_GET_TUPLE_ELEMENT) {
    trm_need needs[2 * MAX_VALUES];
    if (!needs_of(f, i, needs)) FAIL(INTERNAL, "a member of a group of rows has none");
    for (uint32_t k = 0; k < copy.num_operands; ++k) {
      TRY(bring_operand(m, copy.operands[k], needs[k], error));
    }
  }
  const trm_shape operand = trm_edit_at(&f->edit, copy.operands[0])->shape;
  TRY(make_block(m, &copy, &operand, error));
  uint32_t body;
  if (copy.opcode == TRM_OP_FUSION) {
    TRY(block_fusion(m, copy.called[0], &body, error));
    copy.called = &body;
  }
  TRY(trm_outline_copy(f->edit.module, m->body, copy, m->inside, &m->inside[i], error));
  if (copy.shape.dtype != TRM_TUPLE && is_used_outside(f, i)) m->results[m->num_results++] = i;
  return TRM_OK;
}

static trm_status set_root(maker *m, trm_shape *out_shape, trm_error *error) {
  trm_module *module = m->f->edit.module;
  trm_index inside[MAX_MEMBERS] = {0};
  trm_shape whole[MAX_MEMBERS] = {{0}}, block[MAX_MEMBERS], shape;
  for (uint32_t r = 0; r < m->num_results; ++r) {
    inside[r] = m->inside[m->results[r]];
    whole[r] = trm_edit_at(&m->f->edit, m->results[r])->shape;
    block[r] = module->computations[m->body].instructions[inside[r]].shape;
  }
  module->computations[m->body].root = inside[0];
  *out_shape = whole[0];
  if (m->num_results == 1) return TRM_OK;
  if (!trm_shape_make_tuple(&module->arena, (int32_t)m->num_results, whole, out_shape)) {
    FAIL_NO_MEMORY("rows");
  }
  return trm_outline_root(module, m->body, m->num_results, inside, block, &shape, error);
}

static trm_status call_body(maker *m, trm_error *error) {
  trm_instruction call = {.num_operands = m->num_operands,
                          .operands = m->operands,
                          .num_called = 1,
                          .called = &m->body};
  TRY(set_root(m, &call.shape, error));
  return trm_outline_custom_call(&m->f->edit, TRM_CALL_ROWS, call, m->results, m->num_results,
                                 error);
}

static uint32_t count_results(const finder *f) {
  uint32_t results = 0;
  for (uint32_t m = 0; m < f->num_members; ++m) results += is_used_outside(f, f->members[m]);
  return results;
}

static trm_status make_call(finder *f, trm_error *error) {
  maker *m = ARENA_NEW(&f->arena, maker, 1);
  CHECK_MEMORY(m, "rows");
  *m = (maker){.f = f, .block = block_rows(f)};
  m->inside = ARENA_NEW(&f->arena, trm_index, (size_t)f->count + 1);
  CHECK_MEMORY(m->inside, "rows");
  memset(m->inside, 0xff, f->count * sizeof *m->inside);
  TRY(trm_module_add_computation(f->edit.module, NULL, &m->body, error));
  for (trm_index i = 0; i < f->count; ++i) {
    if (f->is_member[i]) TRY(copy_member(m, i, error));
  }
  return call_body(m, error);
}

/* ---- One computation ------------------------------------------------------------------------ */

/* Begins a group at a reduce over trailing dimensions. False: it is no such reduce, or too
 * small. */
static bool begin_group(finder *f, trm_index i) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  const trm_instruction *o = &computation->instructions[i];
  if (o->opcode != TRM_OP_REDUCE) return false;
  const trm_shape *operand = &computation->instructions[o->operands[0]].shape;
  int64_t first = operand->rank;
  for (int32_t k = 0; k < o->dimensions.count; ++k) {
    if (o->dimensions.items[k] < first) first = o->dimensions.items[k];
  }
  f->rows = 1;
  for (int32_t d = 0; d < first; ++d) f->rows *= operand->dims[d];
  f->num_members = 0;
  return f->rows > 1 && trm_shape_bytes(operand) >= TRM_ROWS_LEAST_BYTES && try_member(f, i);
}

static trm_status find_groups(finder *f, trm_error *error) {
  for (trm_index i = 0; i < f->count; ++i) {
    if (!begin_group(f, i)) continue;
    grow(f);
    if (is_worth_it(f) && count_results(f) > 0 && count_results(f) <= MAX_VALUES) {
      for (uint32_t m = 0; m < f->num_members; ++m) f->is_taken[f->members[m]] = true;
      TRY(make_call(f, error));
    }
    drop_members(f, 0);
  }
  return TRM_OK;
}

static trm_status group_computation(trm_module *module, uint32_t computation, const void *context,
                                    trm_error *error) {
  (void)context;
  finder f = {0};
  TRY(trm_edit_begin(&f.edit, module, computation, error));
  f.count = trm_edit_computation(&f.edit)->num_instructions;
  const size_t count = (size_t)f.count + 1;
  f.is_taken = ARENA_NEW(&f.arena, bool, count);
  f.is_member = ARENA_NEW(&f.arena, bool, count);
  trm_status status = trm_edit_find_users(&f.edit, &f.users, error);
  if (f.is_taken == NULL || f.is_member == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for groups of rows");
  }
  if (status == TRM_OK) status = find_groups(&f, error);
  status = trm_edit_end(&f.edit, status, error);
  trm_graph_free(&f.users);
  trm_arena_free(&f.arena);
  return status;
}

trm_status trm_pass_group_rows(trm_module *module, trm_error *error) {
  return trm_edit_each_running(module, group_computation, NULL, error);
}
