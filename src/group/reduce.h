/* Sums of instances' arrays in the order of their ranks. */
#ifndef TREMULA_GROUP_REDUCE_H_
#define TREMULA_GROUP_REDUCE_H_

#include "tremula/group.h"

bool trm_group_can_reduce(trm_dtype dtype);
/* operands: `num` blocks of `count` elements one after the other. */
void trm_group_reduce(trm_dtype dtype, trm_collective_op op, const void *operands, uint32_t num,
                      size_t count, void *out);

#endif /* TREMULA_GROUP_REDUCE_H_ */
