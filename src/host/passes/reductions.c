/* Owns: groups of reductions that read the same large arrays, which become one custom call
 * "tremula.reductions" that reads them once (host/ops/reduce/fast_reductions.c). An operand of a
 * reduction may be a product of two arrays, such as a square, that nothing else reads. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/reduce/reductions.h"
#include "passes/edit.h"
#include "passes/outline.h"
#include "passes/pass.h"

enum { MAX_MEMBERS = 8 };

typedef struct finder {
  trm_edit edit;
  uint32_t count;  /* instructions before the pass */
  trm_graph users; /* of each instruction, with control edges */
  bool *is_taken;
  int32_t cut; /* of the group at hand, 0: not known yet */
  trm_index members[MAX_MEMBERS];
  uint32_t num_members;
} finder;

static const trm_instruction *at(const finder *f, trm_index i) { return trm_edit_at(&f->edit, i); }

static trm_index first_user(const finder *f, trm_index i) {
  const size_t row = f->users.rows[i];
  return row < f->users.rows[i + 1] ? f->users.targets[row] : TRM_NO_INDEX;
}

static bool is_used_once(const finder *f, trm_index i) {
  return f->users.rows[i + 1] - f->users.rows[i] == 1 && i != trm_edit_computation(&f->edit)->root;
}

/* The arrays that a reduction reads: its operand, or those that are multiplied for it alone. */
static void arrays_of(const finder *f, trm_index reduce, trm_index out_arrays[2]) {
  const trm_index operand = at(f, reduce)->operands[0];
  const trm_instruction *o = at(f, operand);
  const bool is_product =
      o->opcode == TRM_OP_MULTIPLY && is_used_once(f, operand) && o->num_control_predecessors == 0;
  for (int k = 0; k < 2; ++k) out_arrays[k] = is_product ? o->operands[k] : operand;
}

static bool is_product(const finder *f, trm_index reduce) {
  trm_index arrays[2];
  arrays_of(f, reduce, arrays);
  return arrays[0] != at(f, reduce)->operands[0];
}

static bool fits_cut(const trm_instruction *reduce, const trm_shape *shape, int32_t cut) {
  int64_t rows, columns;
  return trm_reductions_cut(shape, &reduce->dimensions, cut, &rows, &columns) &&
         rows >= TRM_REDUCTIONS_LEAST_ROWS && columns >= TRM_REDUCTIONS_LEAST_COLUMNS &&
         columns <= TRM_REDUCTIONS_MOST_COLUMNS;
}

static bool is_candidate(const finder *f, trm_index i) {
  const trm_instruction *reduce = at(f, i);
  if (reduce->opcode != TRM_OP_REDUCE || reduce->num_operands != 2 || f->is_taken[i] ||
      reduce->num_control_predecessors > 0 || reduce->shape.dtype != TRM_F32)
    return false;
  const trm_shape *shape = &at(f, reduce->operands[0])->shape;
  return shape->dtype == TRM_F32 && trm_shape_bytes(shape) >= TRM_REDUCTIONS_LEAST_BYTES &&
         trm_reductions_combine_by(
             trm_computation_combiner(&f->edit.module->computations[reduce->called[0]]));
}

/* Whether what others need of the members comes after the last of them: then the call can stand
 * there, and no member needs another. */
static bool stands_together(const finder *f, trm_index last) {
  for (uint32_t m = 0; m < f->num_members; ++m) {
    if (first_user(f, f->members[m]) <= last) return false;
  }
  return true;
}

/* Whether reduction i reads an array that a member reads. */
static bool shares_array(const finder *f, trm_index i) {
  trm_index mine[2], theirs[2];
  arrays_of(f, i, mine);
  for (uint32_t m = 0; m < f->num_members; ++m) {
    arrays_of(f, f->members[m], theirs);
    if (mine[0] == theirs[0] || mine[0] == theirs[1] || mine[1] == theirs[0] ||
        mine[1] == theirs[1])
      return true;
  }
  return false;
}

static void try_member(finder *f, trm_index i) {
  const trm_instruction *reduce = at(f, i);
  const trm_shape *shape = &at(f, reduce->operands[0])->shape;
  const int32_t own = trm_reductions_cut_of(reduce, shape), cut = f->cut != 0 ? f->cut : own;
  if (f->num_members == MAX_MEMBERS || !fits_cut(reduce, shape, cut != 0 ? cut : 1) ||
      (f->num_members > 0 && (!shares_array(f, i) || !stands_together(f, i))))
    return;
  f->cut = cut;
  f->members[f->num_members++] = i;
}

/* ---- Making a call -------------------------------------------------------------------------- */

typedef struct body {
  finder *f;
  uint32_t computation;
  trm_index operands[3 * MAX_MEMBERS], inside[3 * MAX_MEMBERS];
  uint32_t num_operands;
} body;

/* The parameter for what is outside. */
static trm_status bring(body *b, trm_index outside, trm_index *out, trm_error *error) {
  for (uint32_t k = 0; k < b->num_operands; ++k) {
    if (b->operands[k] != outside) continue;
    *out = b->inside[k];
    return TRM_OK;
  }
  const trm_instruction parameter = {
      .opcode = TRM_OP_PARAMETER, .shape = at(b->f, outside)->shape, .number = b->num_operands};
  TRY(trm_computation_add(b->f->edit.module, b->computation, &parameter, out, error));
  b->inside[b->num_operands] = *out;
  b->operands[b->num_operands++] = outside;
  return TRM_OK;
}

static trm_status copy_reduce(body *b, trm_index i, trm_index *out, trm_error *error) {
  finder *f = b->f;
  trm_instruction reduce = *at(f, i);
  trm_index operands[2], arrays[2], inside[2];
  arrays_of(f, i, arrays);
  for (int k = 0; k < 2; ++k) TRY(bring(b, arrays[k], &inside[k], error));
  TRY(bring(b, reduce.operands[1], &operands[1], error));
  operands[0] = inside[0];
  if (is_product(f, i)) {
    trm_instruction product = *at(f, reduce.operands[0]);
    product.operands = inside;
    product.name = NULL;
    product.id = 0;
    TRY(trm_computation_add(f->edit.module, b->computation, &product, &operands[0], error));
  }
  reduce.operands = operands;
  reduce.name = NULL;
  reduce.id = 0;
  return trm_computation_add(f->edit.module, b->computation, &reduce, out, error);
}

static trm_status make_call(finder *f, trm_error *error) {
  trm_module *module = f->edit.module;
  const uint32_t count = f->num_members;
  body b = {.f = f};
  trm_index inside[MAX_MEMBERS];
  trm_shape shapes[MAX_MEMBERS], shape;
  TRY(trm_module_add_computation(module, NULL, &b.computation, error));
  for (uint32_t m = 0; m < count; ++m) {
    shapes[m] = at(f, f->members[m])->shape;
    TRY(copy_reduce(&b, f->members[m], &inside[m], error));
  }
  TRY(trm_outline_root(module, b.computation, count, inside, shapes, &shape, error));
  const trm_instruction made = {
      .shape = shape,
      .num_operands = b.num_operands,
      .operands = b.operands,
      .num_called = 1,
      .called = &b.computation,
      .frontend_attributes = at(f, f->members[count - 1])->frontend_attributes};
  for (uint32_t m = 0; m < count; ++m) f->is_taken[f->members[m]] = true;
  return trm_outline_custom_call(&f->edit, TRM_CALL_REDUCTIONS, made, f->members, count, error);
}

/* ---- One computation ------------------------------------------------------------------------ */

static trm_status find_groups(finder *f, trm_error *error) {
  for (trm_index i = 0; i < f->count; ++i) {
    f->num_members = 0;
    f->cut = 0;
    if (!is_candidate(f, i)) continue;
    try_member(f, i);
    for (trm_index k = i + 1; k < f->count && f->num_members > 0; ++k) {
      if (is_candidate(f, k)) try_member(f, k);
    }
    if (f->num_members > 1 || (f->num_members == 1 && is_product(f, i))) TRY(make_call(f, error));
  }
  return TRM_OK;
}

static trm_status group_computation(trm_module *module, uint32_t computation, const void *context,
                                    trm_error *error) {
  (void)context;
  finder f = {0};
  TRY(trm_edit_begin(&f.edit, module, computation, error));
  f.count = trm_edit_computation(&f.edit)->num_instructions;
  f.is_taken = trm_allocate_zeroed((size_t)f.count + 1, sizeof *f.is_taken);
  trm_status status = trm_edit_find_users(&f.edit, &f.users, error);
  if (f.is_taken == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for groups of reductions");
  }
  if (status == TRM_OK) status = find_groups(&f, error);
  trm_free(f.is_taken);
  trm_graph_free(&f.users);
  return trm_edit_end(&f.edit, status, error);
}

trm_status trm_pass_group_reductions(trm_module *module, trm_error *error) {
  return trm_edit_each_running(module, group_computation, NULL, error);
}
