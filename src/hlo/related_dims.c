/* Owns: which dimensions change together (related_dims.h).
 *
 * An addition of f32[8,4] says that dimension 0 of both operands and of the result are one size, a
 * product f32[8,4] x f32[4,2] that its result's dimension 0 is that of the left operand. Where an
 * instruction takes a dimension apart (a slice of half the batch), or is not known here, the
 * dimension has a divider, and nobody can tell what another size would mean. */
#include "hlo/related_dims.h"

#include <string.h>

#include "hlo/infer.h"

typedef struct place {
  trm_related_dims *r;
  uint32_t computation;
  trm_index index;
  const trm_instruction *o;
} place;

/* ---- The forest ------------------------------------------------------------------------------ */

uint32_t trm_related_dims_root(trm_related_dims *r, uint32_t dimension) {
  while (r->parent[dimension] != dimension) {
    r->parent[dimension] = r->parent[r->parent[dimension]];
    dimension = r->parent[dimension];
  }
  return dimension;
}

static void join(trm_related_dims *r, uint32_t a, uint32_t b) {
  r->parent[trm_related_dims_root(r, a)] = trm_related_dims_root(r, b);
}

static const trm_instruction *operand_at(const place *p, uint32_t k) {
  return &p->r->module->computations[p->computation].instructions[p->o->operands[k]];
}

static const trm_shape *operand_shape(const place *p, uint32_t k) {
  return &operand_at(p, k)->shape;
}

/* Dimension d of operand k, or of the result, which are arrays. */
static uint32_t of_operand(const place *p, uint32_t k, int64_t d) {
  return p->r->first[p->computation][p->o->operands[k]] + (uint32_t)d;
}

static uint32_t of_result(const place *p, int64_t d) {
  return p->r->first[p->computation][p->index] + (uint32_t)d;
}

/* Dimension d of leaf `leaf` of the result. */
static uint32_t of_leaf(const place *p, int32_t leaf, int64_t d) {
  uint32_t before = 0;
  for (int32_t l = 0; l < leaf; ++l) before += (uint32_t)trm_shape_leaf(&p->o->shape, l)->rank;
  return of_result(p, before + d);
}

static void divide(const place *p, uint32_t dimension) { p->r->divider[dimension] = p->o; }

static uint32_t num_dims(const trm_shape *shape) {
  uint32_t count = 0;
  const int32_t leaves = trm_shape_num_leaves(shape);
  for (int32_t l = 0; l < leaves; ++l) count += (uint32_t)trm_shape_leaf(shape, l)->rank;
  return count;
}

static void join_run(trm_related_dims *r, uint32_t a, uint32_t b, uint32_t count) {
  for (uint32_t d = 0; d < count; ++d) join(r, a + d, b + d);
}

/* All dimensions of operand k and of the result; a scalar operand has none. */
static void join_operand(const place *p, uint32_t k) {
  const uint32_t count = num_dims(operand_shape(p, k));
  if (count == num_dims(&p->o->shape)) join_run(p->r, of_operand(p, k, 0), of_result(p, 0), count);
}

/* ---- Computations that are called ------------------------------------------------------------ */

static void join_parameter(const place *p, uint32_t operand, uint32_t called, uint32_t number) {
  const trm_computation *computation = &p->r->module->computations[called];
  join_run(p->r, of_operand(p, operand, 0), p->r->first[called][computation->parameters[number]],
           num_dims(operand_shape(p, operand)));
}

static void join_root(const place *p, uint32_t called) {
  const trm_computation *computation = &p->r->module->computations[called];
  join_run(p->r, of_result(p, 0), p->r->first[called][computation->root], num_dims(&p->o->shape));
}

static void relate_control(const place *p) {
  const trm_instruction *o = p->o;
  switch (o->opcode) {
    case TRM_OP_WHILE:
      join_operand(p, 0);
      join_parameter(p, 0, o->called[0], 0);
      join_parameter(p, 0, o->called[1], 0);
      join_root(p, o->called[1]);
      break;
    case TRM_OP_CONDITIONAL:
      for (uint32_t b = 0; b < o->num_called; ++b) {
        join_parameter(p, b + 1, o->called[b], 0);
        join_root(p, o->called[b]);
      }
      break;
    case TRM_OP_MAP:
      for (uint32_t k = 0; k < o->num_operands; ++k) join_operand(p, k);
      break;
    default: /* call, fusion */
      for (uint32_t k = 0; k < o->num_operands; ++k) join_parameter(p, k, o->called[0], k);
      join_root(p, o->called[0]);
  }
}

static void relate_tuple(const place *p) {
  const trm_instruction *o = p->o;
  if (o->opcode == TRM_OP_GET_TUPLE_ELEMENT) {
    const trm_shape *tuple = operand_shape(p, 0);
    uint32_t before = 0;
    for (int64_t e = 0; e < o->number; ++e) before += num_dims(&tuple->elements[e]);
    join_run(p->r, of_operand(p, 0, before), of_result(p, 0), num_dims(&o->shape));
    return;
  }
  uint32_t at = 0;
  for (uint32_t k = 0; k < o->num_operands; ++k) {
    const uint32_t count = num_dims(operand_shape(p, k));
    join_run(p->r, of_operand(p, k, 0), of_result(p, at), count);
    at += count;
  }
}

/* ---- Moving elements ------------------------------------------------------------------------- */

/* The dimension of a group that changes with its product: the one of the batch's size or, where
 * none or several are, the outermost. The others have the reshape as divider. */
static uint32_t pick(const place *p, uint32_t first, const int64_t *dims, int32_t begin,
                     int32_t end) {
  int32_t picked = begin, found = 0;
  for (int32_t d = begin; d < end; ++d) {
    if (dims[d] == p->r->batch && found++ == 0) picked = d;
  }
  if (found > 1) picked = begin;
  for (int32_t d = begin; d < end; ++d) {
    if (d != picked && dims[d] != 1) divide(p, first + (uint32_t)d);
  }
  return first + (uint32_t)picked;
}

/* A reshape takes groups of dimensions to groups of equal products. */
static void relate_reshape(const place *p) {
  const trm_shape *from = operand_shape(p, 0), *to = &p->o->shape;
  for (int32_t f = 0, t = 0;;) {
    while (f < from->rank && from->dims[f] == 1) ++f;
    while (t < to->rank && to->dims[t] == 1) ++t;
    if (f >= from->rank || t >= to->rank) return;
    const int32_t first_from = f, first_to = t;
    int64_t left = from->dims[f++], right = to->dims[t++];
    while (left != right) {
      const bool grows_left = left < right;
      if (grows_left ? f == from->rank : t == to->rank) return; /* an array without elements */
      if (grows_left) left *= from->dims[f++];
      else right *= to->dims[t++];
    }
    join(p->r, pick(p, of_operand(p, 0, 0), from->dims, first_from, f),
         pick(p, of_result(p, 0), to->dims, first_to, t));
  }
}

static void relate_slice(const place *p) {
  for (int32_t d = 0; d < p->o->shape.rank; ++d) {
    const uint32_t from = of_operand(p, 0, d);
    const bool whole = p->o->shape.dims[d] == operand_shape(p, 0)->dims[d];
    if (whole) join(p->r, from, of_result(p, d));
    else divide(p, from);
  }
}

static void relate_update_slice(const place *p) {
  join_operand(p, 0);
  for (int32_t d = 0; d < p->o->shape.rank; ++d) {
    const bool whole = p->o->shape.dims[d] == operand_shape(p, 1)->dims[d];
    if (whole) join(p->r, of_operand(p, 1, d), of_result(p, d));
    else divide(p, of_result(p, d));
  }
}

static void relate_pad(const place *p) {
  for (int32_t d = 0; d < p->o->shape.rank; ++d) {
    const trm_padding_dimension *padding = &p->o->padding[d];
    const bool none = padding->low == 0 && padding->high == 0 && padding->interior == 0;
    if (none) join(p->r, of_operand(p, 0, d), of_result(p, d));
    else divide(p, of_operand(p, 0, d));
  }
}

static void relate_concatenate(const place *p) {
  for (uint32_t k = 0; k < p->o->num_operands; ++k) {
    for (int32_t d = 0; d < p->o->shape.rank; ++d) {
      if (d == p->o->dimensions.items[0]) divide(p, of_operand(p, k, d));
      else join(p->r, of_operand(p, k, d), of_result(p, d));
    }
  }
}

/* Joins the dimensions of an array of slices: those of `windows` with the dimensions of operand
 * `array` that are in neither of two lists, the others with those of the indices. `slices` is the
 * first dimension of the array of slices, whose sizes are `dims`. */
static void join_slices(const place *p, uint32_t slices, const int64_t *dims, int32_t rank,
                        const trm_dims *windows, uint32_t array, const trm_dims *left_out,
                        const trm_dims *batching, uint32_t indices, int64_t index_vector_dim) {
  int64_t window = 0, index = 0;
  for (int32_t d = 0; d < rank; ++d) {
    if (!trm_infer_contains(windows, d)) {
      if (index == index_vector_dim) ++index;
      join(p->r, of_operand(p, indices, index++), slices + (uint32_t)d);
      continue;
    }
    while (trm_infer_contains(left_out, window) || trm_infer_contains(batching, window)) ++window;
    const bool whole = dims[d] == operand_shape(p, array)->dims[window];
    if (whole) join(p->r, of_operand(p, array, window), slices + (uint32_t)d);
    else divide(p, of_operand(p, array, window));
    ++window;
  }
}

static void join_batching(const place *p, uint32_t array, const trm_dims *of_array,
                          uint32_t indices, const trm_dims *of_indices) {
  for (int32_t j = 0; j < of_array->count; ++j) {
    join(p->r, of_operand(p, array, of_array->items[j]),
         of_operand(p, indices, of_indices->items[j]));
  }
}

static void relate_gather(const place *p) {
  const trm_gather *g = p->o->gather;
  join_slices(p, of_result(p, 0), p->o->shape.dims, p->o->shape.rank, &g->offset_dims, 0,
              &g->collapsed_slice_dims, &g->operand_batching_dims, 1, g->index_vector_dim);
  join_batching(p, 0, &g->operand_batching_dims, 1, &g->start_indices_batching_dims);
}

static void relate_scatter(const place *p) {
  const trm_scatter *s = p->o->scatter;
  const uint32_t count = (p->o->num_operands - 1) / 2;
  for (uint32_t k = 0; k < count; ++k) {
    const trm_shape *updates = operand_shape(p, count + 1 + k);
    join_run(p->r, of_operand(p, k, 0), of_leaf(p, (int32_t)k, 0), num_dims(operand_shape(p, k)));
    join_slices(p, of_operand(p, count + 1 + k, 0), updates->dims, updates->rank,
                &s->update_window_dims, k, &s->inserted_window_dims, &s->input_batching_dims, count,
                s->index_vector_dim);
    join_batching(p, k, &s->input_batching_dims, count, &s->scatter_indices_batching_dims);
  }
}

static void relate_data(const place *p) {
  const trm_instruction *o = p->o;
  const trm_dims *dims = &o->dimensions;
  switch (o->opcode) {
    case TRM_OP_BROADCAST:
      for (int32_t d = 0; d < dims->count; ++d) {
        join(p->r, of_operand(p, 0, d), of_result(p, dims->items[d]));
      }
      break;
    case TRM_OP_TRANSPOSE:
      for (int32_t d = 0; d < dims->count; ++d) {
        join(p->r, of_operand(p, 0, dims->items[d]), of_result(p, d));
      }
      break;
    case TRM_OP_BITCAST:
    case TRM_OP_RESHAPE: relate_reshape(p); break;
    case TRM_OP_SLICE:
    case TRM_OP_DYNAMIC_SLICE: relate_slice(p); break;
    case TRM_OP_DYNAMIC_UPDATE_SLICE: relate_update_slice(p); break;
    case TRM_OP_PAD: relate_pad(p); break;
    case TRM_OP_CONCATENATE: relate_concatenate(p); break;
    case TRM_OP_GATHER: relate_gather(p); break;
    case TRM_OP_SCATTER: relate_scatter(p); break;
    default: join_operand(p, 0); /* copy, reverse, bitcast-convert of equal sizes */
  }
}

/* ---- Combining elements ---------------------------------------------------------------------- */

static void relate_reduce(const place *p) {
  const uint32_t count = p->o->num_operands / 2;
  for (uint32_t k = 0; k < count; ++k) {
    int32_t kept = 0;
    for (int32_t d = 0; d < operand_shape(p, k)->rank; ++d) {
      join(p->r, of_operand(p, k, d), of_operand(p, 0, d));
      if (trm_infer_contains(&p->o->dimensions, d)) continue;
      join(p->r, of_operand(p, k, d), of_leaf(p, (int32_t)k, kept++));
    }
  }
}

/* Joins two arrays in the dimensions over which a window does not move. */
static void join_unmoved(const place *p, uint32_t whole, uint32_t windows) {
  for (int32_t d = 0; d < p->o->window->rank; ++d) {
    const trm_window_dimension *w = &p->o->window->dims[d];
    const bool still = w->size == 1 && w->stride == 1 && w->padding_low == 0 &&
                       w->padding_high == 0 && w->base_dilation == 1;
    if (still) join(p->r, whole + (uint32_t)d, windows + (uint32_t)d);
    else divide(p, whole + (uint32_t)d);
  }
}

static void relate_norm(const place *p) {
  const bool grad = p->o->opcode == TRM_OP_BATCH_NORM_GRAD;
  const bool is_tuple = p->o->shape.dtype == TRM_TUPLE;
  const uint32_t rank = (uint32_t)operand_shape(p, 0)->rank;
  const uint32_t feature = of_operand(p, 0, p->o->number);
  join_run(p->r, of_operand(p, 0, 0), of_result(p, 0), rank);
  if (grad) join_run(p->r, of_operand(p, 4, 0), of_result(p, 0), rank);
  for (uint32_t k = 1; k < (grad ? 4 : p->o->num_operands); ++k) {
    join(p->r, of_operand(p, k, 0), feature);
  }
  for (int32_t l = 1; is_tuple && l < 3; ++l) join(p->r, of_leaf(p, l, 0), feature);
}

static void relate_sort(const place *p) {
  uint32_t at = 0;
  for (uint32_t k = 0; k < p->o->num_operands; ++k) {
    const uint32_t rank = num_dims(operand_shape(p, k));
    join_run(p->r, of_operand(p, k, 0), of_operand(p, 0, 0), rank);
    join_run(p->r, of_operand(p, k, 0), of_result(p, at), rank);
    at += rank;
  }
}

static void relate_dot(const place *p) {
  const trm_dot *dot = p->o->dot;
  const trm_dims *batch[] = {&dot->lhs_batch, &dot->rhs_batch};
  const trm_dims *contracting[] = {&dot->lhs_contracting, &dot->rhs_contracting};
  join_batching(p, 0, batch[0], 1, batch[1]);
  join_batching(p, 0, contracting[0], 1, contracting[1]);
  int64_t at = 0;
  for (int32_t b = 0; b < batch[0]->count; ++b) {
    join(p->r, of_operand(p, 0, batch[0]->items[b]), of_result(p, at++));
  }
  for (uint32_t k = 0; k < 2; ++k) {
    for (int32_t d = 0; d < operand_shape(p, k)->rank; ++d) {
      if (trm_infer_contains(batch[k], d) || trm_infer_contains(contracting[k], d)) continue;
      join(p->r, of_operand(p, k, d), of_result(p, at++));
    }
  }
}

static void relate_convolution(const place *p) {
  const trm_convolution *c = p->o->convolution;
  join(p->r, of_operand(p, 1, c->kernel_output_feature), of_result(p, c->output_feature));
  if (c->batch_group_count == 1) {
    join(p->r, of_operand(p, 0, c->input_batch), of_result(p, c->output_batch));
  } else {
    divide(p, of_operand(p, 0, c->input_batch));
  }
  if (c->feature_group_count == 1) {
    join(p->r, of_operand(p, 0, c->input_feature), of_operand(p, 1, c->kernel_input_feature));
  } else {
    divide(p, of_operand(p, 0, c->input_feature));
  }
  for (int32_t d = 0; d < c->spatial_rank; ++d) {
    divide(p, of_operand(p, 0, c->input_spatial[d]));
    divide(p, of_operand(p, 1, c->kernel_spatial[d]));
  }
}

/* ---- All ------------------------------------------------------------------------------------- */

static void relate_unknown(const place *p) {
  for (uint32_t k = 0; k < p->o->num_operands; ++k) {
    const uint32_t count = num_dims(operand_shape(p, k));
    for (uint32_t d = 0; d < count; ++d) divide(p, of_operand(p, k, d));
  }
  const uint32_t count = num_dims(&p->o->shape);
  for (uint32_t d = 0; d < count; ++d) divide(p, of_result(p, d));
}

static void relate_other(const place *p) {
  switch (p->o->opcode) {
    case TRM_OP_REDUCE: relate_reduce(p); break;
    case TRM_OP_SORT: relate_sort(p); break;
    case TRM_OP_DOT: relate_dot(p); break;
    case TRM_OP_CONVOLUTION: relate_convolution(p); break;
    case TRM_OP_BATCH_NORM_GRAD:
    case TRM_OP_BATCH_NORM_INFERENCE:
    case TRM_OP_BATCH_NORM_TRAINING: relate_norm(p); break;
    case TRM_OP_REDUCE_WINDOW:
      if (p->o->num_operands != 2) relate_unknown(p);
      else join_unmoved(p, of_operand(p, 0, 0), of_result(p, 0));
      break;
    case TRM_OP_SELECT_AND_SCATTER:
      join_operand(p, 0);
      join_unmoved(p, of_operand(p, 0, 0), of_operand(p, 1, 0));
      break;
    case TRM_OP_ALL_REDUCE:
    case TRM_OP_OPT_BARRIER: relate_tuple(p); break;
    case TRM_OP_CHOLESKY: join_operand(p, 0); break;
    case TRM_OP_RNG:
    case TRM_OP_RNG_BIT_GENERATOR:
    case TRM_OP_AFTER_ALL: break;
    default: relate_unknown(p);
  }
}

static void relate(const place *p) {
  if (trm_opcode_is_elementwise(p->o->opcode) || p->o->opcode == TRM_OP_REDUCE_PRECISION) {
    for (uint32_t k = 0; k < p->o->num_operands; ++k) join_operand(p, k);
    return;
  }
  switch (trm_opcode_class_of(p->o->opcode)) {
    case TRM_CLASS_SOURCE: break;
    case TRM_CLASS_CONTROL: relate_control(p); break;
    case TRM_CLASS_TUPLE: relate_tuple(p); break;
    case TRM_CLASS_DATA: relate_data(p); break;
    default: relate_other(p);
  }
}

static trm_status number_dims(trm_related_dims *r, trm_error *error) {
  const trm_module *module = r->module;
  r->first = ARENA_NEW(&r->arena, uint32_t *, (size_t)module->num_computations + 1);
  CHECK_MEMORY(r->first, "dimensions");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    r->first[c] = ARENA_NEW(&r->arena, uint32_t, (size_t)computation->num_instructions + 1);
    CHECK_MEMORY(r->first[c], "dimensions");
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      r->first[c][i] = r->count;
      r->count += num_dims(&computation->instructions[i].shape);
    }
  }
  r->parent = ARENA_NEW(&r->arena, uint32_t, (size_t)r->count + 1);
  r->divider = ARENA_NEW(&r->arena, const trm_instruction *, (size_t)r->count + 1);
  if (r->parent == NULL || r->divider == NULL) FAIL_NO_MEMORY("dimensions");
  for (uint32_t d = 0; d < r->count; ++d) r->parent[d] = d;
  return TRM_OK;
}

trm_status trm_related_dims_find(const trm_module *module, int64_t batch, trm_related_dims *out,
                                 trm_error *error) {
  *out = (trm_related_dims){.module = module, .batch = batch};
  TRY(number_dims(out, error));
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const place p = {out, c, i, &computation->instructions[i]};
      relate(&p);
    }
  }
  return TRM_OK;
}

void trm_related_dims_free(trm_related_dims *related) { trm_arena_free(&related->arena); }
