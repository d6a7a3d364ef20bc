/* Owns: device memory. An IPU's memory is the host's, so a block is an aligned piece of it. */
#ifndef TREMULA_TF_POOL_H_
#define TREMULA_TF_POOL_H_

#include <stddef.h>
#include <stdint.h>

/* Blocks are aligned to this many bytes, which is what TensorFlow and our kernels like best. */
#define TRM_TF_POOL_ALIGNMENT 64

/* A block of `size` bytes or more (also for 0), or NULL when memory has run out. */
void *trm_tf_pool_allocate(size_t size);
/* Gives a block back. NULL is allowed. */
void trm_tf_pool_release(void *block);
/* A number that no other content of device memory has had: a block gets one when it is handed out
 * and another when TensorFlow copies into it. 0 for memory that is not a block of the pool. With
 * it packed weights are recognised. */
uint64_t trm_tf_pool_generation(const void *block);
/* Says that the block's contents have changed. Memory that is not ours is ignored. */
void trm_tf_pool_touch(const void *block);

#endif /* TREMULA_TF_POOL_H_ */
