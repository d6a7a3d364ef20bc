/* Replica groups: their short forms, iotas and axes of a mesh, and their equality. */
#ifndef TREMULA_HLO_GROUPS_H_
#define TREMULA_HLO_GROUPS_H_

#include "hlo/hlo.h"

enum { TRM_MAX_REPLICAS = 1 << 20 };

/* The numbers 0, 1, ... in the shape `dims`, transposed by `order` (NULL: as they are). Fails when
 * they are more than TRM_MAX_REPLICAS or `order` is no permutation. */
trm_status trm_iota_numbers(trm_arena *arena, const int64_t *dims, const int64_t *order,
                            int32_t rank, trm_dims *out_numbers, trm_error *error);

/* Whether the groups are the same, in the same order. */
bool trm_groups_equal(const trm_replica_groups *a, const trm_replica_groups *b);

/* Cuts the numbers into `count` groups of `size`. */
trm_status trm_groups_cut(trm_arena *arena, trm_dims numbers, int64_t count, int64_t size,
                          trm_replica_groups *out_groups, trm_error *error);

typedef struct trm_mesh_axis {
  int64_t axis;           /* of the mesh */
  int64_t pre_size, size; /* a part of it, behind pre_size positions; size 0: all of it */
} trm_mesh_axis;

/* The devices of a mesh of axes `sizes` that differ in the axes named only are a group. `devices`
 * has the mesh's devices in order; NULL: 0, 1, ... */
trm_status trm_groups_of_mesh(trm_arena *arena, const int64_t *sizes, int32_t rank,
                              const trm_dims *devices, const trm_mesh_axis *axes, int32_t num_axes,
                              trm_replica_groups *out_groups, trm_error *error);

#endif /* TREMULA_HLO_GROUPS_H_ */
