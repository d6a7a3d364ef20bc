/* Owns: views of tensors (views.h). */
#include "poplar/views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *trm_poplar_dims_text(const uint64_t *dims, uint32_t rank, char *buffer, size_t size) {
  size_t used = (size_t)snprintf(buffer, size, "[");
  for (uint32_t d = 0; d < rank && used < size; ++d) {
    used += (size_t)snprintf(buffer + used, size - used, d == 0 ? "%llu" : ",%llu",
                             (unsigned long long)dims[d]);
  }
  if (used < size) snprintf(buffer + used, size - used, "]");
  return buffer;
}

/* ---- Making --------------------------------------------------------------------------------- */

/* A list of runs while it is made. */
typedef struct list {
  VECTOR(trm_poplar_run) runs;
  uint64_t elements;
  bool failed; /* no memory, or too many runs */
} list;

/* Whether b continues a; then a takes b in. */
static bool merge(trm_poplar_run *a, const trm_poplar_run *b) {
  if (a->variable != b->variable) return false;
  const int64_t gap = b->offset - (a->offset + (int64_t)(a->length - 1) * a->stride);
  if (a->length > 1 && gap != a->stride) return false;
  if (b->length > 1 && gap != b->stride) return false;
  a->stride = gap;
  a->length += b->length;
  return true;
}

static void append(list *l, uint32_t variable, int64_t offset, uint64_t length, int64_t stride) {
  if (length == 0 || l->failed) return;
  const trm_poplar_run run = {variable, l->elements, offset, length, length == 1 ? 1 : stride};
  l->elements += length;
  if (l->runs.count > 0 && merge(&l->runs.items[l->runs.count - 1], &run)) return;
  l->failed = l->runs.count >= TRM_POPLAR_MAX_RUNS || !VECTOR_PUSH(&l->runs, run);
}

uint64_t trm_poplar_run_at(const trm_poplar_tensor *tensor, uint64_t position) {
  uint64_t low = 0, high = tensor->num_runs;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    if (tensor->runs[middle].begin <= position) low = middle;
    else high = middle;
  }
  return low;
}

/* Appends the elements [begin, begin + count) of a tensor. *hint is a run, where the search
 * begins. */
static void append_part(list *l, const trm_poplar_tensor *tensor, uint64_t begin, uint64_t count,
                        uint64_t *hint) {
  if (count == 0) return;
  uint64_t r = *hint;
  const trm_poplar_run *runs = tensor->runs;
  if (begin < runs[r].begin || begin >= runs[r].begin + runs[r].length) {
    const bool is_next = r + 1 < tensor->num_runs && begin >= runs[r + 1].begin &&
                         begin < runs[r + 1].begin + runs[r + 1].length;
    r = is_next ? r + 1 : trm_poplar_run_at(tensor, begin);
  }
  while (true) {
    const uint64_t skipped = begin - runs[r].begin, rest = runs[r].length - skipped;
    const uint64_t taken = count < rest ? count : rest;
    append(l, runs[r].variable, runs[r].offset + (int64_t)skipped * runs[r].stride, taken,
           runs[r].stride);
    count -= taken;
    begin += taken;
    if (count == 0) break;
    ++r;
  }
  *hint = r;
}

static trm_status check_dims(const uint64_t *dims, uint32_t rank, uint64_t *out_elements,
                             trm_poplar_error *error) {
  if (rank > TRM_MAX_RANK) {
    THROW_POPLAR("a tensor of rank %u: at most %d dimensions are possible", rank, TRM_MAX_RANK);
  }
  uint64_t elements = 1;
  bool overflows = false;
  for (uint32_t d = 0; d < rank; ++d) {
    overflows = __builtin_mul_overflow(elements, dims[d], &elements) || overflows;
  }
  if (overflows || elements > (uint64_t)1 << 40) {
    THROW_POPLAR("a tensor of shape %s is too large: at most 2^40 elements are possible",
                 DIMS_TEXT(dims, rank));
  }
  *out_elements = elements;
  return TRM_OK;
}

trm_status trm_poplar_tensor_make(int32_t dtype, const uint64_t *dims, uint32_t rank,
                                  const trm_poplar_run *runs, uint64_t num_runs,
                                  trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  uint64_t elements;
  TRY(check_dims(dims, rank, &elements, error));
  trm_poplar_tensor *tensor =
      trm_allocate(sizeof *tensor + (size_t)num_runs * sizeof(trm_poplar_run));
  if (tensor == NULL) THROW_NO_MEMORY("a tensor");
  *tensor = (trm_poplar_tensor){.references = 1,
                                .dtype = dtype,
                                .rank = rank,
                                .elements = elements,
                                .num_runs = num_runs,
                                .runs = (trm_poplar_run *)(tensor + 1)};
  if (rank > 0) memcpy(tensor->dims, dims, rank * sizeof *dims);
  if (runs != NULL) memcpy(tensor->runs, runs, (size_t)num_runs * sizeof *runs);
  *out_tensor = tensor;
  return TRM_OK;
}

/* Ends a list: a tensor of its runs. */
static trm_status finish(list *l, int32_t dtype, const uint64_t *dims, uint32_t rank,
                         trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  trm_status status = TRM_OK;
  if (l->failed && l->runs.count >= TRM_POPLAR_MAX_RUNS) {
    status = trm_poplar_fail(error, TRM_RESOURCE_EXHAUSTED, TRM_POPLAR_ERROR,
                             "a view of shape %s has more than %llu pieces: copy the tensor to a "
                             "variable of its own before it is cut up further",
                             DIMS_TEXT(dims, rank), (unsigned long long)TRM_POPLAR_MAX_RUNS);
  } else if (l->failed) {
    status = NO_MEMORY("a view");
  } else {
    status =
        trm_poplar_tensor_make(dtype, dims, rank, l->runs.items, l->runs.count, out_tensor, error);
  }
  VECTOR_FREE(&l->runs);
  return status;
}

trm_status trm_poplar_tensor_of(uint32_t variable, int32_t dtype, const uint64_t *dims,
                                uint32_t rank, trm_poplar_tensor **out_tensor,
                                trm_poplar_error *error) {
  const trm_poplar_run run = {variable, 0, 0, 0, 1};
  TRY(trm_poplar_tensor_make(dtype, dims, rank, &run, 1, out_tensor, error));
  (*out_tensor)->runs->length = (*out_tensor)->elements;
  (*out_tensor)->num_runs = (*out_tensor)->elements > 0;
  return TRM_OK;
}

void trm_poplar_tensor_retain(trm_poplar_tensor *tensor) {
  if (tensor != NULL) ++tensor->references;
}

void trm_poplar_tensor_release(trm_poplar_tensor *tensor) {
  if (tensor != NULL && --tensor->references == 0) trm_free(tensor);
}

void trm_poplar_tensor_describe(const trm_poplar_tensor *tensor, trm_poplar_tensor_info *out_info) {
  *out_info = (trm_poplar_tensor_info){tensor->dtype, tensor->rank, tensor->dims, tensor->elements};
}

/* ---- Views ---------------------------------------------------------------------------------- */

static trm_status check_dim(const trm_poplar_tensor *tensor, uint32_t dim,
                            trm_poplar_error *error) {
  if (dim >= tensor->rank) {
    THROW(INDEX, "dimension %u of a tensor of shape %s", dim, SHAPE_TEXT(tensor));
  }
  return TRM_OK;
}

/* The elements of an index of dimension dim, and how often the dimensions before it repeat. */
static void blocks_of(const trm_poplar_tensor *tensor, uint32_t dim, uint64_t *outer,
                      uint64_t *inner) {
  *outer = *inner = 1;
  for (uint32_t d = 0; d < tensor->rank; ++d) {
    if (d < dim) *outer *= tensor->dims[d];
    if (d > dim) *inner *= tensor->dims[d];
  }
}

/* The same with another size of a dimension. */
static trm_status finish_with(list *l, const trm_poplar_tensor *tensor, uint32_t dim, uint64_t size,
                              trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  uint64_t dims[TRM_MAX_RANK];
  memcpy(dims, tensor->dims, sizeof dims);
  dims[dim] = size;
  return finish(l, tensor->dtype, dims, tensor->rank, out_tensor, error);
}

/* The indices first, first + step, ... of a dimension, `size` of them. */
static trm_status pick(const trm_poplar_tensor *tensor, uint32_t dim, uint64_t first, int64_t step,
                       uint64_t size, trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  uint64_t outer, inner, hint = 0;
  blocks_of(tensor, dim, &outer, &inner);
  list l = {0};
  const uint64_t block = step == 1 ? size * inner : inner;
  for (uint64_t o = 0; o < outer && inner > 0 && !l.failed; ++o) {
    for (uint64_t i = 0; i < (step == 1 ? 1 : size) && !l.failed; ++i) {
      const uint64_t index = first + (uint64_t)((int64_t)i * step);
      append_part(&l, tensor, (o * tensor->dims[dim] + index) * inner, block, &hint);
    }
  }
  return finish_with(&l, tensor, dim, size, out_tensor, error);
}

int32_t trm_poplar_tensor_slice(const trm_poplar_tensor *tensor, uint32_t dim, uint64_t begin,
                                uint64_t end, trm_poplar_tensor **out_tensor,
                                trm_poplar_error *error) {
  TRY(check_dim(tensor, dim, error));
  if (begin > end || end > tensor->dims[dim]) {
    THROW(INDEX, "the slice [%llu, %llu) of dimension %u of a tensor of shape %s",
          (unsigned long long)begin, (unsigned long long)end, dim, SHAPE_TEXT(tensor));
  }
  return pick(tensor, dim, begin, 1, end - begin, out_tensor, error);
}

int32_t trm_poplar_tensor_index(const trm_poplar_tensor *tensor, uint64_t index,
                                trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  TRY(check_dim(tensor, 0, error));
  if (index >= tensor->dims[0]) {
    THROW(INDEX, "element %llu of a tensor of shape %s", (unsigned long long)index,
          SHAPE_TEXT(tensor));
  }
  const uint64_t inner = tensor->elements / tensor->dims[0];
  list l = {0};
  uint64_t hint = 0;
  append_part(&l, tensor, index * inner, inner, &hint);
  return finish(&l, tensor->dtype, tensor->dims + 1, tensor->rank - 1, out_tensor, error);
}

int32_t trm_poplar_tensor_reshape(const trm_poplar_tensor *tensor, const uint64_t *dims,
                                  uint32_t rank, trm_poplar_tensor **out_tensor,
                                  trm_poplar_error *error) {
  uint64_t elements;
  TRY(check_dims(dims, rank, &elements, error));
  if (elements != tensor->elements) {
    THROW_POPLAR("a tensor of shape %s cannot be reshaped to %s, which has another number of "
                 "elements",
                 SHAPE_TEXT(tensor), DIMS_TEXT(dims, rank));
  }
  return trm_poplar_tensor_make(tensor->dtype, dims, rank, tensor->runs, tensor->num_runs,
                                out_tensor, error);
}

/* Appends `count` elements from `begin` on, `step` apart. */
static void append_strided(list *l, const trm_poplar_tensor *tensor, uint64_t begin, uint64_t step,
                           uint64_t count, uint64_t *hint) {
  if (step == 1) {
    append_part(l, tensor, begin, count, hint);
  } else if (tensor->num_runs == 1) {
    const trm_poplar_run *run = tensor->runs;
    append(l, run->variable, run->offset + (int64_t)begin * run->stride, count,
           (int64_t)step * run->stride);
  } else {
    for (uint64_t i = 0; i < count && !l->failed; ++i) {
      append_part(l, tensor, begin + i * step, 1, hint);
    }
  }
}

uint32_t trm_poplar_first_wrong(const uint32_t *numbers, uint32_t count, uint32_t limit) {
  uint32_t seen = 0, i = 0;
  for (; i < count && numbers[i] < limit && (seen >> numbers[i] & 1) == 0; ++i) {
    seen |= (uint32_t)1 << numbers[i];
  }
  return i;
}

int32_t trm_poplar_tensor_dim_shuffle(const trm_poplar_tensor *tensor, const uint32_t *permutation,
                                      uint32_t rank, trm_poplar_tensor **out_tensor,
                                      trm_poplar_error *error) {
  if (rank != tensor->rank || trm_poplar_first_wrong(permutation, rank, rank) < rank) {
    THROW_POPLAR("dimShuffle needs each of the %u dimensions of its tensor once", tensor->rank);
  }
  uint64_t steps[TRM_MAX_RANK], dims[TRM_MAX_RANK] = {0}, from[TRM_MAX_RANK] = {0};
  uint64_t step = 1;
  for (uint32_t d = rank; d-- > 0;) {
    steps[d] = step;
    step *= tensor->dims[d];
  }
  for (uint32_t d = 0; d < rank; ++d) {
    dims[d] = tensor->dims[permutation[d]];
    from[d] = steps[permutation[d]];
  }
  /* The last dimensions that lie as one, with `row` elements `row_step` apart. */
  uint64_t row = 1, row_step = 1;
  uint32_t rows = rank;
  for (; rows > 0; --rows) {
    const uint32_t d = rows - 1;
    if (dims[d] == 1) continue;
    if (row == 1) row_step = from[d];
    else if (from[d] != row * row_step) break;
    row *= dims[d];
  }
  list l = {0};
  uint64_t index[TRM_MAX_RANK] = {0}, begin = 0, hint = 0;
  for (uint64_t left = row == 0 ? 0 : tensor->elements / row; left > 0 && !l.failed; --left) {
    append_strided(&l, tensor, begin, row_step, row, &hint);
    for (uint32_t d = rows; d-- > 0;) {
      begin += from[d];
      if (++index[d] < dims[d]) break;
      begin -= index[d] * from[d];
      index[d] = 0;
    }
  }
  return finish(&l, tensor->dtype, dims, rank, out_tensor, error);
}

int32_t trm_poplar_tensor_broadcast(const trm_poplar_tensor *tensor, uint64_t times, uint32_t dim,
                                    trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  TRY(check_dim(tensor, dim, error));
  uint64_t outer, inner, hint = 0;
  blocks_of(tensor, dim, &outer, &inner);
  const uint64_t block = tensor->dims[dim] * inner;
  uint64_t size;
  if (__builtin_mul_overflow(times, tensor->dims[dim], &size)) size = UINT64_MAX;
  uint64_t dims[TRM_MAX_RANK], elements;
  memcpy(dims, tensor->dims, sizeof dims);
  dims[dim] = size;
  TRY(check_dims(dims, tensor->rank, &elements, error));
  list l = {0};
  for (uint64_t o = 0; o < outer && block > 0 && !l.failed; ++o) {
    if (block == 1) {
      const trm_poplar_run *run = &tensor->runs[trm_poplar_run_at(tensor, o)];
      append(&l, run->variable, run->offset + (int64_t)(o - run->begin) * run->stride, times, 0);
      continue;
    }
    for (uint64_t t = 0; t < times && !l.failed; ++t) {
      append_part(&l, tensor, o * block, block, &hint);
    }
  }
  return finish(&l, tensor->dtype, dims, tensor->rank, out_tensor, error);
}

/* Whether the tensors can be joined; *out_size gets the size of the joined dimension. */
static trm_status check_concat(const trm_poplar_tensor *const *tensors, uint64_t count,
                               uint32_t dim, uint64_t *out_size, trm_poplar_error *error) {
  if (count == 0) THROW_POPLAR("concat of no tensors");
  TRY(check_dim(tensors[0], dim, error));
  *out_size = 0;
  for (uint64_t i = 0; i < count; ++i) {
    bool fits = tensors[i]->rank == tensors[0]->rank && tensors[i]->dtype == tensors[0]->dtype;
    for (uint32_t d = 0; d < tensors[0]->rank && fits; ++d) {
      fits = d == dim || tensors[i]->dims[d] == tensors[0]->dims[d];
    }
    if (!fits) {
      THROW_POPLAR(
          "concat along dimension %u of tensors that differ elsewhere: %s of shape %s and %s of "
          "shape %s",
          dim, trm_dtype_name(tensors[0]->dtype), SHAPE_TEXT(tensors[0]),
          trm_dtype_name(tensors[i]->dtype), SHAPE_TEXT(tensors[i]));
    }
    *out_size += tensors[i]->dims[dim];
  }
  return TRM_OK;
}

int32_t trm_poplar_tensor_concat(const trm_poplar_tensor *const *tensors, uint64_t count,
                                 uint32_t dim, trm_poplar_tensor **out_tensor,
                                 trm_poplar_error *error) {
  uint64_t size, outer, inner;
  TRY(check_concat(tensors, count, dim, &size, error));
  uint64_t *hints = trm_allocate_zeroed((size_t)count, sizeof *hints);
  if (hints == NULL) THROW_NO_MEMORY("a concatenation");
  blocks_of(tensors[0], dim, &outer, &inner);
  list l = {0};
  for (uint64_t o = 0; o < outer && !l.failed; ++o) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t block = tensors[i]->dims[dim] * inner;
      append_part(&l, tensors[i], o * block, block, &hints[i]);
    }
  }
  trm_free(hints);
  return finish_with(&l, tensors[0], dim, size, out_tensor, error);
}

int32_t trm_poplar_tensor_pick(const trm_poplar_tensor *tensor, int64_t stride, uint32_t dim,
                               trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  TRY(check_dim(tensor, dim, error));
  if (stride == 0 || stride == INT64_MIN) THROW_POPLAR("subSample needs a stride of at least 1");
  const uint64_t size = tensor->dims[dim], step = (uint64_t)(stride < 0 ? -stride : stride);
  return pick(tensor, dim, stride < 0 ? size - 1 : 0, stride, size / step + (size % step != 0),
              out_tensor, error);
}

int32_t trm_poplar_tensor_reinterpret(const trm_poplar_tensor *tensor, int32_t dtype,
                                      trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  if (trm_dtype_size((trm_dtype)dtype) != trm_poplar_size(tensor)) {
    THROW(TYPE, "a tensor of %s cannot be reinterpreted as %s, which has another size",
          trm_dtype_name(tensor->dtype), trm_dtype_name((trm_dtype)dtype));
  }
  return trm_poplar_tensor_make(dtype, tensor->dims, tensor->rank, tensor->runs, tensor->num_runs,
                                out_tensor, error);
}

/* ---- Questions ------------------------------------------------------------------------------ */

bool trm_poplar_tensor_is_contiguous(const trm_poplar_tensor *tensor) {
  return tensor->num_runs == 0 || (tensor->num_runs == 1 && tensor->runs->stride == 1);
}

int trm_poplar_compare_intervals(const void *left, const void *right) {
  const trm_poplar_interval *a = left, *b = right;
  if (a->tile != b->tile) return a->tile < b->tile ? -1 : 1;
  return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Each element is an interval here, and its variable stands for the tile. */
bool trm_poplar_tensor_contains_aliases(const trm_poplar_tensor *tensor) {
  for (uint64_t r = 0; r < tensor->num_runs; ++r) {
    if (tensor->runs[r].stride == 0 && tensor->runs[r].length > 1) return true;
  }
  if (tensor->num_runs <= 1) return false;
  trm_poplar_interval *all = trm_allocate((size_t)tensor->elements * sizeof *all);
  if (all == NULL) return true;
  uint64_t count = 0;
  EACH_RUN(run, tensor) {
    for (uint64_t i = 0; i < run->length; ++i) {
      const uint64_t at = (uint64_t)(run->offset + (int64_t)i * run->stride);
      all[count++] = (trm_poplar_interval){at, at + 1, run->variable};
    }
  }
  qsort(all, (size_t)count, sizeof *all, trm_poplar_compare_intervals);
  bool found = false;
  for (uint64_t i = 1; i < count && !found; ++i)
    found = trm_poplar_compare_intervals(&all[i - 1], &all[i]) == 0;
  trm_free(all);
  return found;
}

bool trm_poplar_tensor_is_equal(const trm_poplar_tensor *a, const trm_poplar_tensor *b) {
  if (a == b) return true;
  if (a == NULL || b == NULL || a->dtype != b->dtype || a->rank != b->rank ||
      a->num_runs != b->num_runs || memcmp(a->dims, b->dims, sizeof a->dims) != 0) {
    return false;
  }
  for (uint64_t r = 0; r < a->num_runs; ++r) {
    const trm_poplar_run *x = &a->runs[r], *y = &b->runs[r];
    if (x->variable != y->variable || x->offset != y->offset || x->length != y->length ||
        x->stride != y->stride) {
      return false;
    }
  }
  return true;
}

int32_t trm_poplar_tensor_regions(const trm_poplar_tensor *tensor,
                                  trm_poplar_interval **out_intervals, uint64_t *out_count,
                                  trm_poplar_error *error) {
  VECTOR(trm_poplar_interval) regions = {0};
  bool failed = false;
  EACH_RUN(run, tensor) {
    const uint64_t step = run->stride == 1 ? run->length : 1;
    for (uint64_t i = 0; i < run->length && !failed; i += step) {
      const trm_poplar_interval one = {run->begin + i, run->begin + i + step, 0};
      failed = !VECTOR_PUSH(&regions, one);
    }
  }
  if (failed) {
    VECTOR_FREE(&regions);
    THROW_NO_MEMORY("the regions of a tensor");
  }
  *out_intervals = regions.items;
  *out_count = regions.count;
  return TRM_OK;
}
