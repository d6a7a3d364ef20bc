/* Owns: ragged-dot as a loop over blocks of rows.
 *
 * The rows of the left operand lie in groups, one behind the other, whose sizes are data. An
 * iteration of the loop multiplies at most BLOCK rows of one group, which one dynamic slice takes:
 * so the loop has about rows / BLOCK + groups iterations, and computes no product with another
 * group's matrix. Rows behind the last group give zeros. */
#include <string.h>

#include "passes/expand.h"
#include "passes/maker.h"

enum { BLOCK = 128 };

/* The arrays in the forms that the loop takes, for each `outer` element, on which the sizes of
 * groups may depend, of each `batch`:
 *   free mode:        left [outers, rows, summed], right [groups * batches, summed, columns],
 *                     result [outers, rows, columns]
 *   contracting mode: left [outers, rows, lines], right [outers, rows, columns],
 *                     result [groups * batches, lines, columns] */
typedef struct ragged_loop {
  trm_instruction dot;
  trm_ragged_mode mode;
  int64_t groups, outers, batches, rows, block;
  int64_t width; /* rows for each element of the ragged dimension */
  trm_shape left, right, sizes, result, state;
} ragged_loop;

/* The state of the loop: the number of the group of all outer elements, the row where it begins,
 * the next row, and the arrays. */
enum { GROUP, BEGIN, ROW, LEFT, RIGHT, SIZES, RESULT, STATE };

static const trm_shape number = {.dtype = TRM_S32};

/* ---- Forms of the arrays -------------------------------------------------------------------- */

/* Dimensions of an array in the order in which the loop takes them. */
typedef struct order {
  int64_t dims[TRM_MAX_RANK];
  int32_t count;
} order;

/* Adds dimensions that are not there yet to the order; their product. */
static int64_t append(order *o, const trm_shape *shape, const int64_t *dims, int32_t count) {
  int64_t product = 1;
  for (int32_t i = 0; i < count; ++i) {
    bool is_there = false;
    for (int32_t k = 0; k < o->count; ++k) is_there = is_there || o->dims[k] == dims[i];
    if (is_there) continue;
    o->dims[o->count++] = dims[i];
    product *= shape->dims[dims[i]];
  }
  return product;
}

/* The dimensions that are not in the order, but for those of `later`. */
static int64_t append_rest(order *o, const trm_shape *shape, const trm_dims *later) {
  int64_t product = 1;
  for (int64_t d = 0; d < shape->rank; ++d) {
    bool is_later = false;
    for (int32_t i = 0; i < later->count; ++i) is_later = is_later || later->items[i] == d;
    if (!is_later) product *= append(o, shape, &d, 1);
  }
  return product;
}

static trm_index arrange(trm_maker *m, trm_index x, const order *o, const int64_t sizes[3]) {
  const trm_shape from = trm_shape_at(m, x);
  int64_t dims[TRM_MAX_RANK];
  for (int32_t d = 0; d < from.rank; ++d) dims[d] = from.dims[o->dims[d]];
  const trm_index turned =
      trm_make(m, &(trm_instruction){.opcode = TRM_OP_TRANSPOSE,
                                     .shape = trm_make_shape(m, from.dtype, from.rank, dims),
                                     .num_operands = 1,
                                     .operands = &x,
                                     .dimensions = trm_keep_dims(m, from.rank, o->dims)});
  return trm_recast(m, TRM_OP_RESHAPE, trm_make_shape(m, from.dtype, 3, sizes), turned);
}

static trm_index arrange_left(trm_maker *m, ragged_loop *loop, const int64_t *outer,
                              int32_t num_outer) {
  static const trm_dims none = {0};
  const trm_dot *dot = loop->dot.dot;
  const trm_index x = loop->dot.operands[0];
  const trm_shape shape = trm_shape_at(m, x);
  order o = {.count = 0};
  loop->batches = append(&o, &shape, dot->lhs_batch.items, dot->lhs_batch.count);
  loop->outers = loop->batches * append(&o, &shape, outer, num_outer);
  loop->rows = append(&o, &shape, dot->lhs_ragged.items, 1);
  const bool is_free = loop->mode == TRM_RAGGED_FREE;
  const trm_dims *summed = &dot->lhs_contracting;
  loop->width =
      is_free ? append_rest(&o, &shape, summed) : append(&o, &shape, summed->items, summed->count);
  loop->rows *= loop->width;
  const int64_t inner = append_rest(&o, &shape, &none);
  return arrange(m, x, &o, (int64_t[]){loop->outers, loop->rows, inner});
}

static trm_index arrange_right(trm_maker *m, ragged_loop *loop) {
  static const trm_dims none = {0};
  const trm_dot *dot = loop->dot.dot;
  const trm_index x = loop->dot.operands[1];
  const trm_shape shape = trm_shape_at(m, x);
  order o = {.count = 0};
  append(&o, &shape, dot->rhs_group.items, dot->rhs_group.count);
  append(&o, &shape, dot->rhs_batch.items, dot->rhs_batch.count);
  const int64_t summed = append(&o, &shape, dot->rhs_contracting.items, dot->rhs_contracting.count);
  const int64_t columns = append_rest(&o, &shape, &none);
  if (loop->mode == TRM_RAGGED_FREE) {
    return arrange(m, x, &o, (int64_t[]){loop->groups * loop->batches, summed, columns});
  }
  return arrange(m, x, &o, (int64_t[]){loop->outers, loop->rows, columns});
}

/* Rows of each group, s32[outers * groups]: at least 0, and at most all. */
static trm_index arrange_sizes(trm_maker *m, const ragged_loop *loop) {
  const trm_shape stated = trm_shape_at(m, loop->dot.operands[2]);
  const trm_shape all = trm_make_shape(m, TRM_S32, 1, (int64_t[]){loop->outers * loop->groups});
  trm_index sizes = trm_convert(m, TRM_S64, loop->dot.operands[2]);
  const int64_t most = loop->width == 0 ? 0 : loop->rows / loop->width;
  sizes = trm_with(m, TRM_OP_MINIMUM, trm_with(m, TRM_OP_MAXIMUM, sizes, 0), (double)most);
  sizes = trm_with(m, TRM_OP_MULTIPLY, trm_convert(m, TRM_S32, sizes), (double)loop->width);
  if (stated.rank == 1) {
    static const int64_t last[] = {1};
    const trm_shape each = trm_make_shape(m, TRM_S32, 2, (int64_t[]){loop->outers, loop->groups});
    sizes = trm_broadcast(m, each, sizes, (trm_dims){1, (int64_t *)last});
  }
  return trm_recast(m, TRM_OP_RESHAPE, all, sizes);
}

/* ---- An iteration ---------------------------------------------------------------------------- */

/* `count` rows from `row` on of matrix `at`, of [matrices, rows, columns]. */
static trm_index take_rows(trm_maker *m, trm_index x, trm_index at, trm_index row, int64_t count) {
  const trm_shape from = trm_shape_at(m, x);
  const int64_t dims[] = {1, count, from.dims[2]};
  const trm_index taken = trm_make(
      m, &(trm_instruction){.opcode = TRM_OP_DYNAMIC_SLICE,
                            .shape = trm_make_shape(m, from.dtype, 3, dims),
                            .num_operands = 4,
                            .operands = (trm_index[]){x, at, row, trm_filled(m, number, 0)},
                            .sizes = trm_keep_dims(m, 3, dims)});
  return trm_recast(m, TRM_OP_RESHAPE, trm_make_shape(m, from.dtype, 2, dims + 1), taken);
}

static trm_index put_rows(trm_maker *m, trm_index x, trm_index rows, trm_index at, trm_index row) {
  const trm_shape whole = trm_shape_at(m, x), part = trm_shape_at(m, rows);
  const int64_t dims[] = {1, part.dims[0], part.dims[1]};
  rows = trm_recast(m, TRM_OP_RESHAPE, trm_make_shape(m, part.dtype, 3, dims), rows);
  return trm_make(
      m, &(trm_instruction){.opcode = TRM_OP_DYNAMIC_UPDATE_SLICE,
                            .shape = whole,
                            .num_operands = 5,
                            .operands = (trm_index[]){x, rows, at, row, trm_filled(m, number, 0)}});
}

/* The product of two matrices; dimension `summed` of the left one and 0 of the right one meet. */
static trm_index multiply(trm_maker *m, const ragged_loop *loop, trm_index x, trm_index y,
                          int64_t summed) {
  const int64_t first = 0;
  const trm_shape left = trm_shape_at(m, x), right = trm_shape_at(m, y);
  const trm_dot dims = {.lhs_contracting = trm_keep_dims(m, 1, &summed),
                        .rhs_contracting = trm_keep_dims(m, 1, &first)};
  const int64_t sizes[] = {left.dims[1 - summed], right.dims[1]};
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_DOT,
                                        .shape = trm_make_shape(m, loop->result.dtype, 2, sizes),
                                        .num_operands = 2,
                                        .operands = (trm_index[]){x, y},
                                        .dot = trm_keep(m, &dims, sizeof dims),
                                        .operand_precision = loop->dot.operand_precision,
                                        .algorithm = loop->dot.algorithm});
}

/* Rows of x where `inside`, pred[rows], else of y. */
static trm_index choose_rows(trm_maker *m, trm_index inside, trm_index x, trm_index y) {
  static const int64_t first[] = {0};
  const trm_shape wide = trm_shape_as(trm_shape_at(m, x), TRM_PRED);
  return trm_select(m, trm_broadcast(m, wide, inside, (trm_dims){1, (int64_t *)first}), x, y);
}

static trm_index compare(trm_maker *m, trm_index x, trm_comparison comparison, trm_index y) {
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_COMPARE,
                                        .shape = trm_shape_as(trm_shape_at(m, x), TRM_PRED),
                                        .num_operands = 2,
                                        .operands = (trm_index[]){x, y},
                                        .comparison = comparison});
}

/* Which rows of a block that begins at row `start` are from `low` on and below `high`. */
static trm_index find_inside(trm_maker *m, const ragged_loop *loop, trm_index start, trm_index low,
                             trm_index high) {
  static const int64_t first = 0;
  const trm_shape rows = trm_make_shape(m, TRM_S32, 1, &loop->block);
  const trm_index places = trm_make(
      m, &(trm_instruction){
             .opcode = TRM_OP_IOTA, .shape = rows, .dimensions = trm_keep_dims(m, 1, &first)});
  const trm_dims none = {0};
  const trm_index row = trm_binary(m, TRM_OP_ADD, places, trm_broadcast(m, rows, start, none));
  return trm_binary(m, TRM_OP_AND, compare(m, row, TRM_CMP_GE, trm_broadcast(m, rows, low, none)),
                    compare(m, row, TRM_CMP_LT, trm_broadcast(m, rows, high, none)));
}

/* The result after the rows from `low` to `high` of group `group` of all. */
static trm_index add_block(trm_maker *m, const ragged_loop *loop, const trm_index *state,
                           trm_index low, trm_index high) {
  const trm_index start = trm_with(m, TRM_OP_MINIMUM, low, (double)(loop->rows - loop->block));
  const trm_index inside = find_inside(m, loop, start, low, high);
  const trm_index outer = trm_with(m, TRM_OP_DIVIDE, state[GROUP], (double)loop->groups);
  const trm_index group = trm_with(m, TRM_OP_REMAINDER, state[GROUP], (double)loop->groups);
  const int64_t outers = loop->outers / loop->batches; /* of each batch */
  const trm_index batch = trm_with(m, TRM_OP_DIVIDE, outer, (double)outers);
  const trm_index matrix =
      trm_binary(m, TRM_OP_ADD, trm_with(m, TRM_OP_MULTIPLY, group, (double)loop->batches), batch);
  const trm_index zero = trm_filled(m, number, 0);
  const trm_index left = take_rows(m, state[LEFT], outer, start, loop->block);
  if (loop->mode == TRM_RAGGED_FREE) {
    const trm_index right = take_rows(m, state[RIGHT], matrix, zero, loop->right.dims[1]);
    const trm_index before = take_rows(m, state[RESULT], outer, start, loop->block);
    const trm_index after = choose_rows(m, inside, multiply(m, loop, left, right, 1), before);
    return put_rows(m, state[RESULT], after, outer, start);
  }
  const trm_index right = take_rows(m, state[RIGHT], outer, start, loop->block);
  const trm_index x = choose_rows(m, inside, left, trm_zeros(m, trm_shape_at(m, left)));
  const trm_index y = choose_rows(m, inside, right, trm_zeros(m, trm_shape_at(m, right)));
  const trm_index before = take_rows(m, state[RESULT], matrix, zero, loop->result.dims[1]);
  const trm_index after = trm_binary(m, TRM_OP_ADD, before, multiply(m, loop, x, y, 0));
  return put_rows(m, state[RESULT], after, matrix, zero);
}

static uint32_t make_body(trm_maker *outside, const ragged_loop *loop) {
  trm_subcomputation sub;
  trm_maker *m = trm_subcomputation_begin(outside, &sub, 1, &loop->state);
  trm_index state[STATE];
  for (int k = 0; k < STATE; ++k) state[k] = trm_element(m, 0, k);
  const trm_shape one = trm_make_shape(m, TRM_S32, 1, (int64_t[]){1});
  const trm_index size = trm_recast(
      m, TRM_OP_RESHAPE, number,
      trm_make(m, &(trm_instruction){.opcode = TRM_OP_DYNAMIC_SLICE,
                                     .shape = one,
                                     .num_operands = 2,
                                     .operands = (trm_index[]){state[SIZES], state[GROUP]},
                                     .sizes = trm_keep_dims(m, 1, one.dims)}));
  const trm_index end = trm_with(m, TRM_OP_MINIMUM, trm_binary(m, TRM_OP_ADD, state[BEGIN], size),
                                 (double)loop->rows);
  const trm_index high =
      trm_binary(m, TRM_OP_MINIMUM, trm_with(m, TRM_OP_ADD, state[ROW], (double)loop->block), end);
  state[RESULT] = add_block(m, loop, state, state[ROW], high);
  /* The next block, or the next group, or the first group of the next outer element. */
  const trm_index is_done = compare(m, high, TRM_CMP_GE, end);
  const trm_index next = trm_with(m, TRM_OP_ADD, state[GROUP], 1);
  const trm_index begins_anew =
      trm_compare(m, trm_with(m, TRM_OP_REMAINDER, next, (double)loop->groups), TRM_CMP_EQ, 0);
  const trm_index begin = trm_select(m, begins_anew, trm_filled(m, number, 0), end);
  state[GROUP] = trm_select(m, is_done, next, state[GROUP]);
  state[BEGIN] = trm_select(m, is_done, begin, state[BEGIN]);
  state[ROW] = trm_select(m, is_done, begin, high);
  return trm_subcomputation_end(outside, &sub, trm_tuple(m, loop->state, state));
}

static uint32_t make_condition(trm_maker *outside, const ragged_loop *loop) {
  trm_subcomputation sub;
  trm_maker *m = trm_subcomputation_begin(outside, &sub, 1, &loop->state);
  const double all = (double)(loop->outers * loop->groups);
  return trm_subcomputation_end(outside, &sub,
                                trm_compare(m, trm_element(m, 0, GROUP), TRM_CMP_LT, all));
}

/* ---- All ------------------------------------------------------------------------------------- */

/* Sums of several blocks are kept in float32 where the result is narrower. */
static trm_dtype type_of_sums(const ragged_loop *loop) {
  const trm_dtype stated = loop->dot.shape.dtype;
  const bool is_narrow = trm_dtype_kind(stated) == TRM_KIND_FLOAT && trm_dtype_size(stated) < 4;
  return is_narrow && loop->mode == TRM_RAGGED_CONTRACTING ? TRM_F32 : stated;
}

static trm_index expand(trm_maker *m, ragged_loop *loop, const int64_t *outer, int32_t num_outer) {
  trm_index first[STATE];
  first[LEFT] = arrange_left(m, loop, outer, num_outer);
  first[RIGHT] = arrange_right(m, loop);
  first[SIZES] = arrange_sizes(m, loop);
  loop->left = trm_shape_at(m, first[LEFT]);
  loop->right = trm_shape_at(m, first[RIGHT]);
  const bool is_free = loop->mode == TRM_RAGGED_FREE;
  loop->block = loop->rows < BLOCK ? loop->rows : BLOCK;
  if (m->status != TRM_OK) return 0;
  const int64_t dims[] = {is_free ? loop->outers : loop->groups * loop->batches,
                          is_free ? loop->rows : loop->left.dims[2], loop->right.dims[2]};
  loop->result = trm_make_shape(m, type_of_sums(loop), 3, dims);
  for (int k = GROUP; k <= ROW; ++k) first[k] = trm_filled(m, number, 0);
  first[RESULT] = trm_zeros(m, loop->result);
  const trm_shape shapes[] = {
      number, number, number, loop->left, loop->right, trm_shape_at(m, first[SIZES]), loop->result};
  loop->state = trm_make_tuple_shape(m, STATE, shapes);
  trm_index sums = first[RESULT];
  if (loop->rows * loop->outers * loop->groups != 0) {
    uint32_t called[] = {make_condition(m, loop), make_body(m, loop)};
    sums =
        trm_element(m, trm_while(m, loop->state, trm_tuple(m, loop->state, first), called), RESULT);
  }
  sums = trm_convert(m, loop->dot.shape.dtype, sums);
  return trm_recast(m, TRM_OP_RESHAPE, trm_shape_as(loop->dot.shape, loop->dot.shape.dtype), sums);
}

trm_status trm_expand_ragged_dot(trm_edit *edit, trm_index index, trm_error *error) {
  trm_maker maker = {.edit = edit, .like = index, .error = error};
  ragged_loop loop = {.dot = *trm_edit_at(edit, index)};
  const trm_shape left = trm_edit_at(edit, loop.dot.operands[0])->shape;
  const trm_shape sizes = trm_edit_at(edit, loop.dot.operands[2])->shape;
  int64_t outer[TRM_MAX_RANK];
  int32_t num_outer;
  trm_index result;
  loop.mode = trm_dot_ragged_mode(loop.dot.dot, left.rank, outer, &num_outer);
  loop.groups = sizes.dims[sizes.rank - 1];
  if (loop.mode == TRM_RAGGED_BATCH) { /* the products do not depend on the groups */
    loop.dot.opcode = TRM_OP_DOT;
    loop.dot.num_operands = 2;
    result = trm_make(&maker, &loop.dot);
  } else {
    result = expand(&maker, &loop, outer, num_outer);
  }
  if (maker.status == TRM_OK) trm_edit_replace(edit, index, result);
  return maker.status;
}
