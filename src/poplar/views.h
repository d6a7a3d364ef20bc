/* Tensors: views of variables.
 *
 * A tensor is a shape and a list of runs, which are the elements in flattened order: run r has
 * r.length elements of the variable r.variable at r.offset, r.offset + r.stride, ... A broadcast
 * has the stride 0, a reversed one a negative stride. Neighbouring runs are merged where they fit.
 * A tensor never changes. */
#ifndef TREMULA_POPLAR_VIEWS_H_
#define TREMULA_POPLAR_VIEWS_H_

#include "poplar/api.h"

/* Runs of a tensor: beyond it a view takes more memory than the data. */
#define TRM_POPLAR_MAX_RUNS ((uint64_t)1 << 24)

typedef struct trm_poplar_run {
  uint32_t variable;
  uint64_t begin;  /* of the run in the flattened tensor */
  int64_t offset;  /* in the variable, in elements */
  uint64_t length; /* at least 1 */
  int64_t stride;  /* 1 for a single element */
} trm_poplar_run;

struct trm_poplar_tensor {
  uint32_t references;
  trm_dtype dtype;
  uint32_t rank;
  uint64_t dims[TRM_MAX_RANK];
  uint64_t elements, num_runs;
  trm_poplar_run *runs; /* behind the struct */
};

#define EACH_RUN(run, tensor) \
  for (const trm_poplar_run *run = (tensor)->runs; run < (tensor)->runs + (tensor)->num_runs; ++run)

/* The size of an element, and of all. */
static inline size_t trm_poplar_size(const trm_poplar_tensor *tensor) {
  return trm_dtype_size(tensor->dtype);
}
static inline size_t trm_poplar_bytes(const trm_poplar_tensor *tensor) {
  return (size_t)tensor->elements * trm_poplar_size(tensor);
}

/* A tensor of a copy of the runs; NULL: of runs that the caller fills in. */
trm_status trm_poplar_tensor_make(int32_t dtype, const uint64_t *dims, uint32_t rank,
                                  const trm_poplar_run *runs, uint64_t num_runs,
                                  trm_poplar_tensor **out_tensor, trm_poplar_error *error);
/* The whole of a variable. */
trm_status trm_poplar_tensor_of(uint32_t variable, int32_t dtype, const uint64_t *dims,
                                uint32_t rank, trm_poplar_tensor **out_tensor,
                                trm_poplar_error *error);

/* By tile, then begin: for qsort. */
int trm_poplar_compare_intervals(const void *left, const void *right);
/* The place of the first number that is not below the limit, or is there before; count: none is. */
uint32_t trm_poplar_first_wrong(const uint32_t *numbers, uint32_t count, uint32_t limit);
/* The number of the run with the element at `position`, which the tensor has. */
uint64_t trm_poplar_run_at(const trm_poplar_tensor *tensor, uint64_t position);
/* "[2,3]", cut to size. The macros' texts live as long as the block around them. */
const char *trm_poplar_dims_text(const uint64_t *dims, uint32_t rank, char *buffer, size_t size);
#define DIMS_TEXT(dims, rank) trm_poplar_dims_text((dims), (rank), (char[256]){0}, 256)
#define SHAPE_TEXT(tensor) DIMS_TEXT((tensor)->dims, (tensor)->rank)

#endif /* TREMULA_POPLAR_VIEWS_H_ */
