/* Owns: attention without its square matrix. A product of batches whose rows a call "tremula.rows"
 * turns into weights (a softmax, with scale and mask) for a second product becomes one such call:
 * its computation multiplies, weighs and multiplies a block of rows of one batch, so that their
 * scores stay in a cache. Dimensions of size 1 do not count. */
#include <string.h>

#include "base/limits.h"
#include "host/passes/row_needs.h"
#include "passes/edit.h"
#include "passes/outline.h"
#include "passes/pass.h"

enum { MAX_OPERANDS = 24 };

/* The dimensions of one operand of a product that are larger than 1. */
typedef struct side {
  trm_index array;
  int32_t batch_rank;
  int64_t batch[TRM_MAX_RANK], contracting, free;
} side;

typedef struct attention {
  trm_index scores, weights, output; /* dot, custom call, dot */
  uint32_t scores_operand;           /* of the custom call */
  side queries, keys, values, rows;  /* rows: the weights as an operand of the second product */
  bool is_swapped;                   /* the weights are the right operand */
  int32_t batch_rank;
  int64_t num_rows, num_keys; /* rows: of one batch */
  int64_t block;              /* rows of a block */
} attention;

/* Finds the dimensions; false: there is more, or less, than one contracted one and one other. */
static bool read_side(const trm_computation *computation, const trm_instruction *dot, uint32_t k,
                      side *out) {
  const trm_shape *shape = &computation->instructions[dot->operands[k]].shape;
  const trm_dims *batch = k == 0 ? &dot->dot->lhs_batch : &dot->dot->rhs_batch;
  const trm_dims *contracting = k == 0 ? &dot->dot->lhs_contracting : &dot->dot->rhs_contracting;
  *out = (side){.array = dot->operands[k], .contracting = -1, .free = -1};
  bool is_known[TRM_MAX_RANK] = {false};
  int32_t rank = 0;
  for (int32_t d = 0; d < shape->rank; ++d) rank += shape->dims[d] > 1;
  for (int32_t b = 0; b < batch->count; ++b) {
    is_known[batch->items[b]] = true;
    if (shape->dims[batch->items[b]] > 1) out->batch[out->batch_rank++] = batch->items[b];
  }
  for (int32_t c = 0; c < contracting->count; ++c) {
    is_known[contracting->items[c]] = true;
    if (shape->dims[contracting->items[c]] > 1) out->contracting = contracting->items[c];
  }
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (!is_known[d] && shape->dims[d] > 1) out->free = d;
  }
  return out->contracting >= 0 && out->free >= 0 && rank == out->batch_rank + 2;
}

/* The dimensions that are larger than 1, in order; gives their number. */
static int32_t squeeze(const trm_shape *shape, int64_t *dims) {
  int32_t rank = 0;
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (shape->dims[d] > 1) dims[rank++] = shape->dims[d];
  }
  return rank;
}

static bool are_alike(const trm_shape *a, const trm_shape *b) {
  int64_t dims[2][TRM_MAX_RANK];
  const int32_t rank = squeeze(a, dims[0]);
  return rank == squeeze(b, dims[1]) && memcmp(dims[0], dims[1], (size_t)rank * sizeof **dims) == 0;
}

static bool is_plain_dot(const trm_instruction *o) {
  return o->opcode == TRM_OP_DOT && o->num_control_predecessors == 0;
}

static bool has_one_user(const trm_computation *computation, const trm_graph *users, trm_index i) {
  return users->rows[i + 1] - users->rows[i] == 1 && i != computation->root;
}

/* Whether the instruction is a call that turns rows of a product into rows of weights. */
static bool read_weights(const trm_computation *computation, const trm_graph *users, trm_index i,
                         attention *a) {
  const trm_instruction *call = &computation->instructions[i];
  if (call->opcode != TRM_OP_CUSTOM_CALL || call->call_id != TRM_CALL_ROWS ||
      !trm_shape_is_array(&call->shape) || call->num_operands > MAX_OPERANDS ||
      call->num_control_predecessors > 0 || !has_one_user(computation, users, i)) {
    return false;
  }
  a->weights = i;
  for (uint32_t k = 0; k < call->num_operands; ++k) {
    const trm_instruction *dot = &computation->instructions[call->operands[k]];
    if (!is_plain_dot(dot) || !has_one_user(computation, users, call->operands[k]) ||
        !are_alike(&dot->shape, &call->shape)) {
      continue;
    }
    a->scores = call->operands[k];
    a->scores_operand = k;
    return read_side(computation, dot, 0, &a->queries) && read_side(computation, dot, 1, &a->keys);
  }
  return false;
}

/* Rows of a block: a divisor of the rows of a batch; 0: none is good, or the call's rows are not
 * those of the products. */
static int64_t choose_block(const trm_module *module, const trm_computation *computation,
                            const attention *a) {
  const trm_shape *scores = &computation->instructions[a->scores].shape;
  const trm_instruction *call = &computation->instructions[a->weights];
  const trm_computation *body = &module->computations[call->called[0]];
  const trm_shape *small = &body->instructions[body->root].shape;
  const int64_t row =
      a->num_keys * (int64_t)(trm_dtype_size(scores->dtype) + trm_dtype_size(call->shape.dtype));
  const trm_shape *part = &body->instructions[body->parameters[a->scores_operand]].shape;
  if (trm_shape_count(small) != small->dims[0] * a->num_keys ||
      trm_shape_count(part) != trm_shape_count(small)) {
    return 0;
  }
  int64_t least = small->dims[0]; /* the call of a block of rows is one of smaller blocks */
  if (least < TRM_ATTENTION_LEAST_ROWS)
    least = TRM_ATTENTION_LEAST_ROWS < a->num_rows ? TRM_ATTENTION_LEAST_ROWS : a->num_rows;
  int64_t block = trm_shape_count(scores) / a->num_keys / TRM_ATTENTION_LEAST_BLOCKS;
  if (block > TRM_ATTENTION_MOST_BLOCK_BYTES / row) block = TRM_ATTENTION_MOST_BLOCK_BYTES / row;
  if (block < least) block = least;
  for (; block >= least; --block) {
    if (a->num_rows % block == 0) return block;
  }
  return 0;
}

/* Whether product i is the second one of an attention. */
static bool find_attention(const trm_module *module, const trm_computation *computation,
                           const trm_graph *users, trm_index i, attention *a) {
  const trm_instruction *dot = &computation->instructions[i];
  if (!is_plain_dot(dot)) return false;
  *a = (attention){.output = i};
  for (uint32_t k = 0; k < 2; ++k) {
    if (!read_weights(computation, users, dot->operands[k], a)) continue;
    const trm_shape *shape = &computation->instructions[a->weights].shape;
    int64_t dims[TRM_MAX_RANK];
    const int32_t rank = squeeze(shape, dims);
    a->is_swapped = k == 1;
    if (rank < 3 || !read_side(computation, dot, k, &a->rows) ||
        !read_side(computation, dot, 1 - k, &a->values) ||
        trm_shape_bytes(shape) < TRM_ATTENTION_LEAST_BYTES) {
      return false;
    }
    a->batch_rank = rank - 2;
    a->num_rows = dims[rank - 2], a->num_keys = dims[rank - 1];
    /* The weights are [batch..., rows, keys]. */
    if (a->rows.contracting < a->rows.free) return false;
    for (int32_t b = 0; b < a->batch_rank; ++b) {
      if (a->rows.batch[b] > a->rows.free) return false;
    }
    a->block = choose_block(module, computation, a);
    return a->block > 0;
  }
  return false;
}

/* ---- Making the call ------------------------------------------------------------------------- */

static trm_status add_reshape(trm_edit *edit, trm_index like, trm_index x, int32_t rank,
                              const int64_t *dims, trm_index *out, trm_error *error) {
  trm_shape shape;
  const trm_shape from = trm_edit_at(edit, x)->shape;
  *out = x;
  if (rank == from.rank && memcmp(dims, from.dims, (size_t)rank * sizeof *dims) == 0) return TRM_OK;
  if (!trm_shape_make(&edit->module->arena, from.dtype, rank, dims, &shape)) {
    FAIL_NO_MEMORY("an attention");
  }
  return trm_edit_unary(edit, like, TRM_OP_RESHAPE, shape, x, out, error);
}

/* Appends a transpose to the `rank` dimensions, which are all that are larger than 1. */
static trm_status add_transpose(trm_edit *edit, trm_index like, trm_index x, int32_t rank,
                                const int64_t *dimensions, trm_index *out, trm_error *error) {
  const trm_shape from = trm_edit_at(edit, x)->shape;
  int64_t dims[TRM_MAX_RANK], squeezed[TRM_MAX_RANK];
  int64_t *places = ARENA_NEW(&edit->module->arena, int64_t, (size_t)rank + 1);
  CHECK_MEMORY(places, "an attention");
  bool moves = false;
  for (int32_t i = 0; i < rank; ++i) {
    dims[i] = from.dims[dimensions[i]];
    for (int64_t d = 0; d < dimensions[i]; ++d) places[i] += from.dims[d] > 1;
    moves |= places[i] != i;
  }
  TRY(add_reshape(edit, like, x, squeeze(&from, squeezed), squeezed, out, error));
  if (!moves) return TRM_OK;
  trm_instruction transpose = {
      .opcode = TRM_OP_TRANSPOSE, .num_operands = 1, .operands = out, .dimensions = {rank, places}};
  if (!trm_shape_make(&edit->module->arena, from.dtype, rank, dims, &transpose.shape)) {
    FAIL_NO_MEMORY("an attention");
  }
  return trm_edit_add(edit, like, transpose, out, error);
}

/* Moves the dimensions of an operand to [batch..., first, second]. */
static trm_status arrange(trm_edit *edit, trm_index like, const side *s, const int64_t *batch,
                          int64_t first, int64_t second, trm_index *out, trm_error *error) {
  int64_t dimensions[TRM_MAX_RANK];
  for (int32_t b = 0; b < s->batch_rank; ++b) dimensions[b] = batch[b];
  dimensions[s->batch_rank] = first, dimensions[s->batch_rank + 1] = second;
  return add_transpose(edit, like, s->array, s->batch_rank + 2, dimensions, out, error);
}

/* Adds the product of two matrices to the body. */
static trm_status add_product(trm_module *module, uint32_t body, const trm_instruction *like,
                              trm_index left, trm_index right, trm_index *out, trm_error *error) {
  const trm_instruction *all = module->computations[body].instructions;
  const int64_t dims[2] = {all[left].shape.dims[0], all[right].shape.dims[1]};
  static const int64_t numbers[2] = {0, 1};
  trm_index operands[2] = {left, right};
  trm_instruction product = *like;
  product.name = NULL, product.id = 0;
  product.operands = operands;
  product.dot = ARENA_NEW(&module->arena, trm_dot, 1);
  int64_t *items = trm_arena_copy(&module->arena, numbers, sizeof numbers);
  if (product.dot == NULL || items == NULL ||
      !trm_shape_make(&module->arena, like->shape.dtype, 2, dims, &product.shape)) {
    FAIL_NO_MEMORY("an attention");
  }
  product.dot->lhs_contracting = (trm_dims){1, items + 1};
  product.dot->rhs_contracting = (trm_dims){1, items};
  return trm_computation_add(module, body, &product, out, error);
}

/* Adds a parameter with the dimensions of an array from `leading` on, for one item of its batches,
 * and before them those of `block` rows, if it is not 0. */
static trm_status add_parameter(trm_module *module, uint32_t body, const trm_shape *whole,
                                int32_t leading, int64_t block, int64_t number, trm_index *out,
                                trm_error *error) {
  int64_t dims[TRM_MAX_RANK];
  int32_t rank = 0;
  if (block > 0) dims[rank++] = block;
  for (int32_t d = leading; d < whole->rank; ++d) dims[rank++] = whole->dims[d];
  trm_instruction parameter = {.opcode = TRM_OP_PARAMETER, .number = number};
  if (!trm_shape_make(&module->arena, whole->dtype, rank, dims, &parameter.shape)) {
    FAIL_NO_MEMORY("an attention");
  }
  return trm_computation_add(module, body, &parameter, out, error);
}

/* The call of the weights, for a block; its other operands become the last ones of the new call. */
static trm_status add_weights(trm_edit *edit, uint32_t body, const attention *a, trm_index scores,
                              trm_instruction *call, trm_index *out, trm_error *error) {
  trm_module *module = edit->module;
  trm_instruction weights = *trm_edit_at(edit, a->weights);
  const trm_computation *inner = &module->computations[weights.called[0]];
  const int64_t rows = trm_shape_count(&weights.shape) / a->num_keys;
  const int64_t dims[2] = {a->block, a->num_keys};
  trm_index operands[MAX_OPERANDS];
  for (uint32_t k = 0; k < weights.num_operands; ++k) {
    if (k == a->scores_operand) {
      operands[k] = scores;
      continue;
    }
    const trm_shape whole = trm_edit_at(edit, weights.operands[k])->shape;
    const trm_shape *part = &inner->instructions[inner->parameters[k]].shape;
    const bool is_whole = trm_shape_bytes(part) == trm_shape_bytes(&whole);
    const int32_t leading = is_whole ? 0 : trm_row_rank(&whole, rows);
    TRY(add_parameter(module, body, &whole, leading, is_whole ? 0 : a->block, call->num_operands,
                      &operands[k], error));
    call->operands[call->num_operands++] = weights.operands[k];
    inner = &module->computations[weights.called[0]];
  }
  weights.name = NULL, weights.id = 0;
  weights.operands = operands;
  if (!trm_shape_make(&module->arena, weights.shape.dtype, 2, dims, &weights.shape)) {
    FAIL_NO_MEMORY("an attention");
  }
  return trm_computation_add(module, body, &weights, out, error);
}

static trm_status make_body(trm_edit *edit, const attention *a, trm_instruction *call,
                            trm_error *error) {
  trm_module *module = edit->module;
  const trm_instruction scores = *trm_edit_at(edit, a->scores);
  const trm_instruction output = *trm_edit_at(edit, a->output);
  uint32_t body;
  trm_index parameters[3], product, weights;
  TRY(trm_module_add_computation(module, NULL, &body, error));
  for (int64_t k = 0; k < 3; ++k) {
    const trm_shape whole = trm_edit_at(edit, call->operands[k])->shape;
    TRY(add_parameter(module, body, &whole, a->batch_rank + (k == 0), k == 0 ? a->block : 0, k,
                      &parameters[k], error));
  }
  TRY(add_product(module, body, &scores, parameters[0], parameters[1], &product, error));
  TRY(add_weights(edit, body, a, product, call, &weights, error));
  TRY(add_product(module, body, &output, weights, parameters[2], &module->computations[body].root,
                  error));
  call->num_called = 1;
  call->called = trm_arena_copy(&module->arena, &body, sizeof body);
  CHECK_MEMORY(call->called, "an attention");
  return TRM_OK;
}

/* Which dimension of the weights' batch the b-th of the second product is. */
static int32_t place_in_batch(const attention *a, int32_t b) {
  int32_t place = 0;
  for (int32_t other = 0; other < a->batch_rank; ++other) {
    place += a->rows.batch[other] < a->rows.batch[b];
  }
  return place;
}

/* Puts the dimensions of the result, [batch..., rows, values], where those of the product are. */
static trm_status restore_output(trm_edit *edit, const attention *a, trm_index made,
                                 trm_error *error) {
  int64_t dimensions[TRM_MAX_RANK];
  const int32_t rank = a->batch_rank;
  for (int32_t b = 0; b < rank; ++b) dimensions[b] = place_in_batch(a, b);
  dimensions[rank] = rank + a->is_swapped, dimensions[rank + 1] = rank + !a->is_swapped;
  trm_index result;
  TRY(add_transpose(edit, a->output, made, rank + 2, dimensions, &result, error));
  const trm_shape shape = trm_edit_at(edit, a->output)->shape;
  TRY(add_reshape(edit, a->output, result, shape.rank, shape.dims, &result, error));
  trm_edit_replace(edit, a->output, result);
  return TRM_OK;
}

static trm_status make_attention(trm_edit *edit, const attention *a, trm_error *error) {
  const trm_index like = a->output;
  int64_t batch[TRM_MAX_RANK], dims[TRM_MAX_RANK];
  trm_index operands[3 + MAX_OPERANDS], made;
  TRY(arrange(edit, like, &a->queries, a->queries.batch, a->queries.free, a->queries.contracting,
              &operands[0], error));
  TRY(arrange(edit, like, &a->keys, a->keys.batch, a->keys.contracting, a->keys.free, &operands[1],
              error));
  for (int32_t b = 0; b < a->batch_rank; ++b) batch[place_in_batch(a, b)] = a->values.batch[b];
  TRY(arrange(edit, like, &a->values, batch, a->values.contracting, a->values.free, &operands[2],
              error));
  trm_instruction call = {.num_operands = 3, .operands = operands};
  TRY(make_body(edit, a, &call, error));
  const trm_shape values = trm_edit_at(edit, operands[2])->shape;
  memcpy(dims, values.dims, (size_t)values.rank * sizeof *dims);
  dims[a->batch_rank] = a->num_rows;
  if (!trm_shape_make(&edit->module->arena, trm_edit_at(edit, like)->shape.dtype, values.rank, dims,
                      &call.shape)) {
    FAIL_NO_MEMORY("an attention");
  }
  TRY(trm_outline_target(edit->module, TRM_CALL_ROWS, &call, error));
  TRY(trm_edit_add(edit, like, call, &made, error));
  return restore_output(edit, a, made, error);
}

static trm_status join_computation(trm_module *module, uint32_t computation, const void *context,
                                   trm_error *error) {
  (void)context;
  trm_edit edit = {0};
  TRY(trm_edit_begin(&edit, module, computation, error));
  const uint32_t count = trm_edit_computation(&edit)->num_instructions;
  trm_graph users = {0};
  trm_status status = trm_edit_find_users(&edit, &users, error);
  for (trm_index i = 0; i < count && status == TRM_OK; ++i) {
    attention a;
    if (!find_attention(module, trm_edit_computation(&edit), &users, i, &a)) continue;
    status = make_attention(&edit, &a, error);
  }
  status = trm_edit_end(&edit, status, error);
  trm_graph_free(&users);
  return status;
}

trm_status trm_pass_join_attention(trm_module *module, trm_error *error) {
  return trm_edit_each_running(module, join_computation, NULL, error);
}
