/* Owns: device memory. An IPU's memory is the host's, so a block is an aligned piece of it. */
#ifndef TREMULA_TF_POOL_H_
#define TREMULA_TF_POOL_H_

#include <stddef.h>
#include <stdint.h>

/* Blocks have this alignment, which suits TensorFlow and the kernels. */
#define TRM_TF_POOL_ALIGNMENT 64

/* A block of `size` bytes or more (also for 0), or NULL when memory has run out. */
void *trm_tf_pool_allocate(size_t size);
/* Gives a block back. NULL is allowed. */
void trm_tf_pool_release(void *block);
/* The generation of a block: a number that is unique for its contents. A block gets one when it is
 * allocated, and a new one when TensorFlow copies into it. 0 for memory outside of the pool.
 * Kernels recognise packed weights by it. */
uint64_t trm_tf_pool_generation(const void *block);
/* Gives the block a new generation, because its contents have changed. Memory outside of the pool
 * is ignored. */
void trm_tf_pool_touch(const void *block);

#endif /* TREMULA_TF_POOL_H_ */
