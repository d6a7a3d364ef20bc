/* Owns: the replica groups that iotas and axes of a mesh stand for. */
#include "hlo/groups.h"

#include <inttypes.h>

static trm_status count_numbers(const int64_t *dims, int32_t rank, int64_t *out_total,
                                trm_error *error) {
  int64_t total = 1;
  if (rank < 1 || rank > TRM_MAX_RANK) {
    FAIL(INVALID_ARGUMENT, "replica groups of %d dimensions; from 1 to %d are known", rank,
         TRM_MAX_RANK);
  }
  for (int32_t i = 0; i < rank; ++i) {
    if (dims[i] < 1 || dims[i] > TRM_MAX_REPLICAS || (total *= dims[i]) > TRM_MAX_REPLICAS) {
      FAIL(INVALID_ARGUMENT, "replica groups of none or more than %d replicas", TRM_MAX_REPLICAS);
    }
  }
  *out_total = total;
  return TRM_OK;
}

trm_status trm_iota_numbers(trm_arena *arena, const int64_t *dims, const int64_t *order,
                            int32_t rank, trm_dims *out_numbers, trm_error *error) {
  int64_t total, strides[TRM_MAX_RANK], sizes[TRM_MAX_RANK], walk[TRM_MAX_RANK];
  TRY(count_numbers(dims, rank, &total, error));
  for (int64_t i = rank - 1, stride = 1; i >= 0; stride *= dims[i--]) strides[i] = stride;
  uint32_t seen = 0;
  for (int32_t i = 0; i < rank; ++i) {
    const int64_t from = order != NULL ? order[i] : i;
    if (from < 0 || from >= rank || (seen >> from & 1) != 0) {
      FAIL(INVALID_ARGUMENT, "the transposition of an iota of replicas is not a permutation");
    }
    seen |= UINT32_C(1) << from;
    walk[i] = strides[from];
    sizes[i] = dims[from];
  }
  int64_t *numbers = ARENA_NEW(arena, int64_t, (size_t)total);
  CHECK_MEMORY(numbers, "replica groups");
  for (int64_t n = 0; n < total; ++n) {
    int64_t rest = n;
    for (int32_t d = rank - 1; d >= 0; rest /= sizes[d--]) numbers[n] += rest % sizes[d] * walk[d];
  }
  *out_numbers = (trm_dims){(int32_t)total, numbers};
  return TRM_OK;
}

bool trm_groups_equal(const trm_replica_groups *a, const trm_replica_groups *b) {
  bool equal = a->count == b->count;
  for (int32_t g = 0; equal && g < a->count; ++g) {
    equal = trm_dims_equal(&a->groups[g], &b->groups[g]);
  }
  return equal;
}

trm_status trm_groups_cut(trm_arena *arena, trm_dims numbers, int64_t count, int64_t size,
                          trm_replica_groups *out_groups, trm_error *error) {
  if (count < 1 || size < 1 || count > TRM_MAX_REPLICAS || size > TRM_MAX_REPLICAS ||
      count * size != numbers.count) {
    FAIL(INVALID_ARGUMENT, "%" PRId64 " replica groups of %" PRId64 " of %d replicas", count, size,
         numbers.count);
  }
  out_groups->groups = ARENA_NEW(arena, trm_dims, (size_t)count);
  CHECK_MEMORY(out_groups->groups, "replica groups");
  out_groups->count = (int32_t)count;
  for (int64_t g = 0; g < count; ++g) {
    out_groups->groups[g] = (trm_dims){(int32_t)size, numbers.items + g * size};
  }
  return TRM_OK;
}

/* Axes cut into sub-axes: the mesh of these, and which of them are named, in their order. */
typedef struct mesh_sub_axes {
  int64_t dims[TRM_MAX_RANK], order[TRM_MAX_RANK];
  bool is_named[TRM_MAX_RANK];
  int32_t rank;
} mesh_sub_axes;

static trm_status add_sub_axis(mesh_sub_axes *sub_axes, int64_t size, trm_error *error) {
  if (sub_axes->rank == TRM_MAX_RANK) {
    FAIL(INVALID_ARGUMENT, "replica groups over a mesh of more than %d axes and sub-axes",
         TRM_MAX_RANK);
  }
  sub_axes->dims[sub_axes->rank++] = size;
  return TRM_OK;
}

/* Cuts axis `a` where the sub-axes that are named begin and end, and notes where they are. */
static trm_status cut_axis(mesh_sub_axes *sub_axes, int64_t a, int64_t size,
                           const trm_mesh_axis *axes, int32_t num_axes, int32_t *places,
                           trm_error *error) {
  int64_t done = 1;
  while (done < size) {
    int64_t next = size; /* where the next named sub-axis begins */
    int32_t here = -1;
    for (int32_t i = 0; i < num_axes; ++i) {
      if (axes[i].axis != a) continue;
      const int64_t begin = axes[i].size == 0 ? 1 : axes[i].pre_size;
      if (begin == done) here = i;
      if (begin > done && begin < next) next = begin;
    }
    int64_t end = here < 0 || axes[here].size == 0 ? next : done * axes[here].size;
    if (end <= done || size % end != 0 || end % done != 0 || end > next) {
      FAIL(INVALID_ARGUMENT, "a sub-axis of a mesh's axis of %" PRId64 " does not divide it", size);
    }
    if (here >= 0) places[here] = sub_axes->rank;
    TRY(add_sub_axis(sub_axes, end / done, error));
    done = end;
  }
  return TRM_OK;
}

trm_status trm_groups_of_mesh(trm_arena *arena, const int64_t *sizes, int32_t rank,
                              const trm_dims *devices, const trm_mesh_axis *axes, int32_t num_axes,
                              trm_replica_groups *out_groups, trm_error *error) {
  int64_t total, group_size = 1;
  int32_t places[TRM_MAX_RANK], count = 0;
  mesh_sub_axes sub_axes = {0};
  trm_dims numbers;
  TRY(count_numbers(sizes, rank, &total, error));
  if (num_axes > TRM_MAX_RANK) FAIL(INVALID_ARGUMENT, "replica groups name %d axes", num_axes);
  for (int32_t i = 0; i < num_axes; ++i) {
    places[i] = -1; /* an axis of 1 is no sub-axis */
    if (axes[i].axis < 0 || axes[i].axis >= rank) {
      FAIL(INVALID_ARGUMENT, "replica groups name an axis that the mesh has not");
    }
  }
  for (int32_t a = 0; a < rank; ++a) {
    TRY(cut_axis(&sub_axes, a, sizes[a], axes, num_axes, places, error));
  }
  if (sub_axes.rank == 0) TRY(add_sub_axis(&sub_axes, 1, error));
  for (int32_t i = 0; i < num_axes; ++i) {
    if (places[i] >= 0) sub_axes.is_named[places[i]] = true;
  }
  for (int32_t p = 0; p < sub_axes.rank; ++p) {
    if (!sub_axes.is_named[p]) sub_axes.order[count++] = p;
  }
  for (int32_t i = 0; i < num_axes; ++i) {
    if (places[i] < 0) continue;
    sub_axes.order[count++] = places[i];
    group_size *= sub_axes.dims[places[i]];
  }
  if (count != sub_axes.rank) FAIL(INVALID_ARGUMENT, "replica groups name an axis twice");
  TRY(trm_iota_numbers(arena, sub_axes.dims, sub_axes.order, sub_axes.rank, &numbers, error));
  for (int32_t i = 0; devices != NULL && i < numbers.count; ++i) {
    if (devices->count != numbers.count) {
      FAIL(INVALID_ARGUMENT, "a mesh of %d devices names %d", numbers.count, devices->count);
    }
    numbers.items[i] = devices->items[numbers.items[i]];
  }
  return trm_groups_cut(arena, numbers, total / group_size, group_size, out_groups, error);
}
