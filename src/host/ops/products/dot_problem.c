/* Owns: restating HLO dots as products of matrices. Neighbouring dimensions that lie one after the
 * other in memory become one. */
#include "host/ops/products/dot_problem.h"

#include <string.h>

static int64_t stride_of(const trm_shape *shape, int64_t dimension) {
  int64_t stride = 1;
  for (int64_t i = dimension + 1; i < shape->rank; ++i) stride *= shape->dims[i];
  return stride;
}

static void push(trm_dot_extents *list, int64_t size, int64_t lhs_stride, int64_t rhs_stride) {
  if (size != 1) list->items[list->count++] = (trm_dot_extent){size, {lhs_stride, rhs_stride}};
}

void trm_dot_join(trm_dot_extents *list) {
  int32_t count = 0;
  for (int32_t i = 0; i < list->count; ++i) {
    const trm_dot_extent *next = &list->items[i];
    trm_dot_extent *last = count > 0 ? &list->items[count - 1] : NULL;
    if (last != NULL && last->stride[LHS] == next->stride[LHS] * next->size &&
        last->stride[RHS] == next->stride[RHS] * next->size) {
      last->size *= next->size;
      last->stride[LHS] = next->stride[LHS], last->stride[RHS] = next->stride[RHS];
    } else {
      list->items[count++] = *next;
    }
  }
  list->count = count;
}

void trm_dot_sort(trm_dot_extents *list, int side) {
  for (int32_t i = 1; i < list->count; ++i) {
    const trm_dot_extent moved = list->items[i];
    int32_t j = i;
    for (; j > 0 && list->items[j - 1].stride[side] < moved.stride[side]; --j) {
      list->items[j] = list->items[j - 1];
    }
    list->items[j] = moved;
  }
}

/* Sets the size of the list as one dimension, and its stride in one operand. False if the
 * dimensions do not lie one after the other there. */
static bool as_one(const trm_dot_extents *list, int side, int64_t *size, int64_t *stride) {
  *size = 1, *stride = 1;
  for (int32_t i = list->count - 1; i >= 0; --i) {
    const trm_dot_extent *each = &list->items[i];
    if (i == list->count - 1) *stride = each->stride[side];
    else if (each->stride[side] != *stride * *size) return false;
    *size *= each->size;
  }
  return true;
}

int64_t trm_dot_count(const trm_dot_extents *list) {
  int64_t count = 1;
  for (int32_t i = 0; i < list->count; ++i) count *= list->items[i].size;
  return count;
}

static bool contains(const trm_dims *dims, int64_t item) {
  for (int32_t i = 0; i < dims->count; ++i) {
    if (dims->items[i] == item) return true;
  }
  return false;
}

void trm_dot_restate(const trm_kernel_request *request, trm_dot_problem *p) {
  const trm_dot *dot = request->instruction->dot;
  const trm_shape *lhs = trm_operand_shape(request, 0), *rhs = trm_operand_shape(request, 1);
  memset(p, 0, sizeof *p);
  for (int32_t i = 0; i < dot->lhs_batch.count; ++i) {
    push(&p->batch, lhs->dims[dot->lhs_batch.items[i]], stride_of(lhs, dot->lhs_batch.items[i]),
         stride_of(rhs, dot->rhs_batch.items[i]));
  }
  for (int32_t i = 0; i < dot->lhs_contracting.count; ++i) {
    push(&p->inner, lhs->dims[dot->lhs_contracting.items[i]],
         stride_of(lhs, dot->lhs_contracting.items[i]),
         stride_of(rhs, dot->rhs_contracting.items[i]));
  }
  for (int32_t d = 0; d < lhs->rank; ++d) {
    if (contains(&dot->lhs_batch, d) || contains(&dot->lhs_contracting, d)) continue;
    push(&p->rows, lhs->dims[d], stride_of(lhs, d), 0);
  }
  for (int32_t d = 0; d < rhs->rank; ++d) {
    if (contains(&dot->rhs_batch, d) || contains(&dot->rhs_contracting, d)) continue;
    push(&p->columns, rhs->dims[d], 0, stride_of(rhs, d));
  }
  trm_dot_join(&p->batch);
  trm_dot_join(&p->rows);
  trm_dot_join(&p->columns);
}

void trm_dot_plan_matrix(const trm_dot_problem *p, int side, trm_dot_matrix *m) {
  const trm_dot_extents *free_list = side == LHS ? &p->rows : &p->columns;
  int64_t free_size, free_stride, inner_size, inner_stride;
  const bool free_is_one = as_one(free_list, side, &free_size, &free_stride);
  const bool inner_is_one = as_one(&p->inner, side, &inner_size, &inner_stride);
  free_size = trm_dot_count(free_list), inner_size = trm_dot_count(&p->inner);
  m->is_copied = !free_is_one || !inner_is_one;
  if (!m->is_copied) {
    /* One side must be contiguous; a dimension of size 1 may count as such. */
    if (free_size > 1 && inner_size > 1 && free_stride != 1 && inner_stride != 1) {
      m->is_copied = true;
    } else if (free_size == 1) {
      free_stride = inner_stride == 1 ? inner_size : 1;
    } else if (inner_size == 1) {
      inner_stride = free_stride == 1 ? free_size : 1;
    }
  }
  if (m->is_copied) { /* [batch, rows, inner] and [batch, inner, columns] */
    free_stride = side == LHS ? inner_size : 1;
    inner_stride = side == LHS ? 1 : free_size;
  }
  int64_t batch_stride = free_size * inner_size;
  for (int32_t i = p->batch.count - 1; i >= 0; --i) {
    m->batch_strides[i] = m->is_copied ? batch_stride : p->batch.items[i].stride[side];
    batch_stride *= p->batch.items[i].size;
  }
  m->row_stride = side == LHS ? free_stride : inner_stride;
  m->column_stride = side == LHS ? inner_stride : free_stride;
}
