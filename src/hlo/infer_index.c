/* Owns: the shapes of gather and scatter. */
#include <inttypes.h>
#include <string.h>

#include "hlo/infer.h"

static trm_status check_sorted(trm_inference *c, const char *what, const trm_dims *dims,
                               int64_t bound) {
  TRY(trm_infer_check_distinct(c, what, dims, bound));
  for (int32_t i = 1; i < dims->count; ++i) {
    CHECK(c, dims->items[i - 1] < dims->items[i], "%s must be sorted", what);
  }
  return TRM_OK;
}

/* Start indices with the dimension that holds one index vector: a missing last one has size 1. */
typedef struct index_shape {
  int32_t rank;
  int64_t dims[TRM_MAX_RANK + 1];
  int64_t vector_dim;
} index_shape;

static trm_status expand_indices(trm_inference *c, const trm_shape *indices, int64_t vector_dim,
                                 index_shape *out) {
  CHECK(c, trm_dtype_is_integral(indices->dtype), "the indices must be integers, not %s",
        trm_infer_text(c, indices));
  CHECK(c, vector_dim >= 0 && vector_dim <= indices->rank,
        "index_vector_dim %" PRId64 " is not in 0..%d, the dimensions of the indices", vector_dim,
        indices->rank);
  out->rank = indices->rank;
  if (indices->rank > 0) {
    memcpy(out->dims, indices->dims, (size_t)indices->rank * sizeof *out->dims);
  }
  if (vector_dim == indices->rank) out->dims[out->rank++] = 1;
  out->vector_dim = vector_dim;
  return TRM_OK;
}

/* Dimensions of the operand and of the indices that run in parallel. */
static trm_status check_batching(trm_inference *c, const trm_shape *operand,
                                 const trm_dims *operand_dims, const index_shape *indices,
                                 const trm_dims *index_dims) {
  TRY(check_sorted(c, "the operand's batching dimensions", operand_dims, operand->rank));
  TRY(trm_infer_check_distinct(c, "the indices' batching dimensions", index_dims, indices->rank));
  CHECK(c, operand_dims->count == index_dims->count,
        "the operand has %d batching dimensions and the indices %d", operand_dims->count,
        index_dims->count);
  for (int32_t i = 0; i < operand_dims->count; ++i) {
    CHECK(c, index_dims->items[i] != indices->vector_dim,
          "index_vector_dim is a batching dimension");
    CHECK(c, operand->dims[operand_dims->items[i]] == indices->dims[index_dims->items[i]],
          "batching dimension %d has %" PRId64 " elements in the operand and %" PRId64
          " in the indices",
          i, operand->dims[operand_dims->items[i]], indices->dims[index_dims->items[i]]);
  }
  return TRM_OK;
}

/* Checks the dimensions of the operand that an index vector addresses. */
static trm_status check_index_map(trm_inference *c, const char *what, const trm_dims *map,
                                  const index_shape *indices, const trm_shape *operand,
                                  const trm_dims *batching) {
  TRY(trm_infer_check_distinct(c, what, map, operand->rank));
  CHECK(c, map->count == indices->dims[indices->vector_dim],
        "%s has %d dimensions and an index vector %" PRId64 " elements", what, map->count,
        indices->dims[indices->vector_dim]);
  for (int32_t i = 0; i < map->count; ++i) {
    CHECK(c, !trm_infer_contains(batching, map->items[i]),
          "%s names dimension %" PRId64 ", which is a batching dimension", what, map->items[i]);
  }
  return TRM_OK;
}

static trm_status check_disjoint(trm_inference *c, const char *what, const trm_dims *a,
                                 const trm_dims *batching) {
  for (int32_t i = 0; i < a->count; ++i) {
    CHECK(c, !trm_infer_contains(batching, a->items[i]),
          "%s names dimension %" PRId64 ", which is a batching dimension", what, a->items[i]);
  }
  return TRM_OK;
}

trm_status trm_infer_gather(trm_inference *c) {
  TRY(trm_infer_check_arrays(c));
  const trm_gather *g = c->instruction->gather;
  CHECK(c, g != NULL, "has no dimension numbers");
  const trm_shape *operand = trm_infer_operand(c, 0);
  index_shape indices;
  TRY(expand_indices(c, trm_infer_operand(c, 1), g->index_vector_dim, &indices));
  TRY(check_batching(c, operand, &g->operand_batching_dims, &indices,
                     &g->start_indices_batching_dims));
  TRY(check_sorted(c, "collapsed_slice_dims", &g->collapsed_slice_dims, operand->rank));
  TRY(check_disjoint(c, "collapsed_slice_dims", &g->collapsed_slice_dims,
                     &g->operand_batching_dims));
  TRY(check_index_map(c, "start_index_map", &g->start_index_map, &indices, operand,
                      &g->operand_batching_dims));
  CHECK(c, g->slice_sizes.count == operand->rank,
        "has %d slice sizes for an operand that has %d dimensions", g->slice_sizes.count,
        operand->rank);
  CHECK(c,
        g->offset_dims.count + g->collapsed_slice_dims.count + g->operand_batching_dims.count ==
            operand->rank,
        "offset_dims, collapsed_slice_dims and batching dimensions must add up to the %d "
        "dimensions of the operand",
        operand->rank);
  const int32_t rank = g->offset_dims.count + indices.rank - 1;
  CHECK(c, rank <= TRM_MAX_RANK, "the result has %d dimensions; at most %d are supported", rank,
        TRM_MAX_RANK);
  TRY(check_sorted(c, "offset_dims", &g->offset_dims, rank));
  int64_t window[TRM_MAX_RANK], out[TRM_MAX_RANK];
  int32_t num_window = 0;
  for (int32_t i = 0; i < operand->rank; ++i) {
    const int64_t size = g->slice_sizes.items[i];
    const bool dropped = trm_infer_contains(&g->collapsed_slice_dims, i) ||
                         trm_infer_contains(&g->operand_batching_dims, i);
    CHECK(c, size >= 0 && size <= operand->dims[i],
          "slice size %" PRId64 " does not fit dimension %d of %s", size, i,
          trm_infer_text(c, operand));
    CHECK(c, !dropped || size <= 1,
          "dimension %d is collapsed and must have the slice size 1, not %" PRId64, i, size);
    if (!dropped) window[num_window++] = size;
  }
  int32_t next_window = 0, next_index = 0;
  for (int32_t i = 0; i < rank; ++i) {
    if (trm_infer_contains(&g->offset_dims, i)) {
      out[i] = window[next_window++];
    } else {
      if (next_index == indices.vector_dim) ++next_index;
      out[i] = indices.dims[next_index++];
    }
  }
  return trm_infer_give(c, operand->dtype, rank, out);
}

static trm_status check_update(trm_inference *c, const trm_shape *operand,
                               const index_shape *indices, const trm_shape *update) {
  const trm_scatter *s = c->instruction->scatter;
  CHECK(c, update->dtype == operand->dtype, "the operand is %s and the update %s",
        trm_infer_text(c, operand), trm_infer_text(c, update));
  CHECK(c, update->rank == s->update_window_dims.count + indices->rank - 1,
        "the update %s must have %d dimensions", trm_infer_text(c, update),
        s->update_window_dims.count + indices->rank - 1);
  TRY(check_sorted(c, "update_window_dims", &s->update_window_dims, update->rank));
  int32_t next_operand = 0, next_index = 0;
  for (int32_t i = 0; i < update->rank; ++i) {
    if (trm_infer_contains(&s->update_window_dims, i)) {
      while (trm_infer_contains(&s->inserted_window_dims, next_operand) ||
             trm_infer_contains(&s->input_batching_dims, next_operand)) {
        ++next_operand;
      }
      CHECK(c, update->dims[i] <= operand->dims[next_operand],
            "dimension %d of the update %s is larger than dimension %d of the operand %s", i,
            trm_infer_text(c, update), next_operand, trm_infer_text(c, operand));
      ++next_operand;
    } else {
      if (next_index == indices->vector_dim) ++next_index;
      CHECK(c, update->dims[i] == indices->dims[next_index],
            "dimension %d of the update %s must have %" PRId64 " elements, as the indices", i,
            trm_infer_text(c, update), indices->dims[next_index]);
      ++next_index;
    }
  }
  return TRM_OK;
}

trm_status trm_infer_scatter(trm_inference *c) {
  TRY(trm_infer_check_arrays(c));
  const trm_scatter *s = c->instruction->scatter;
  const uint32_t total = c->instruction->num_operands;
  CHECK(c, s != NULL, "has no dimension numbers");
  CHECK(c, total >= 3 && total % 2 == 1,
        "takes operands, indices and as many updates, not %" PRIu32 " operands", total);
  const uint32_t count = total / 2;
  const trm_shape *first = trm_infer_operand(c, 0);
  index_shape indices;
  TRY(expand_indices(c, trm_infer_operand(c, count), s->index_vector_dim, &indices));
  TRY(check_batching(c, first, &s->input_batching_dims, &indices,
                     &s->scatter_indices_batching_dims));
  TRY(check_sorted(c, "inserted_window_dims", &s->inserted_window_dims, first->rank));
  TRY(check_disjoint(c, "inserted_window_dims", &s->inserted_window_dims, &s->input_batching_dims));
  TRY(check_index_map(c, "scatter_dims_to_operand_dims", &s->scatter_dims_to_operand_dims, &indices,
                      first, &s->input_batching_dims));
  CHECK(
      c,
      s->update_window_dims.count + s->inserted_window_dims.count + s->input_batching_dims.count ==
          first->rank,
      "update_window_dims, inserted_window_dims and batching dimensions must add up to the %d "
      "dimensions of the operand",
      first->rank);
  trm_error *error = c->error;
  trm_dtype *types = ARENA_NEW(&c->module->arena, trm_dtype, count);
  trm_shape *results = ARENA_NEW(&c->module->arena, trm_shape, count);
  if (types == NULL || results == NULL) FAIL_NO_MEMORY("a shape");
  for (uint32_t i = 0; i < count; ++i) {
    const trm_shape *operand = trm_infer_operand(c, i);
    CHECK(c, trm_shape_same_dims(operand, first), "the operands %s and %s differ in size",
          trm_infer_text(c, first), trm_infer_text(c, operand));
    TRY(check_update(c, operand, &indices, trm_infer_operand(c, count + 1 + i)));
    types[i] = operand->dtype;
    results[i] = *operand;
  }
  bool packed;
  TRY(trm_infer_check_combiner(c, types, count, &packed));
  return count == 1 && !packed ? trm_infer_give_same(c, first)
                               : trm_infer_give_tuple(c, (int32_t)count, results);
}
