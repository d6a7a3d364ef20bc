/* Counter-based random bits: Philox 4x32-10 and ThreeFry 2x32-20 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011). */
#ifndef TREMULA_HOST_OPS_RANDOM_BITS_H_
#define TREMULA_HOST_OPS_RANDOM_BITS_H_

#include <stdint.h>

/* Gives the 128 bits of block `counter`. */
void trm_philox(const uint32_t counter[4], uint64_t key, uint32_t out_bits[4]);
/* Gives the words of TRM_PHILOX_LANES blocks. The lower halves of their counters are `first`,
 * `first` + 1, ...; the upper half is `high`. */
enum { TRM_PHILOX_LANES = 16, TRM_PHILOX_WORDS = 4 * TRM_PHILOX_LANES };
void trm_philox_lanes(uint64_t first, uint64_t high, uint64_t key,
                      uint32_t out_words[TRM_PHILOX_WORDS]);
/* Gives the 64 bits of block `counter`. */
void trm_threefry(const uint32_t counter[2], uint64_t key, uint32_t out_bits[2]);

/* A stream of blocks, made from a few numbers (seeds, ids): equal numbers give equal bits. */
typedef struct trm_random_stream {
  uint64_t key, high; /* Philox key, and the counter's upper half */
} trm_random_stream;

trm_random_stream trm_random_stream_make(const uint64_t *numbers, int count);
/* The stream that a tremula.random-stream gives: three words of 64 bits, as rng-bit-generator wants
 * them: the key, 0 for the number of the first block, and the counter's upper half. */
enum { TRM_STREAM_WORDS = 3 };
trm_random_stream trm_random_stream_read(const void *words);
/* Block `index` (below 2^48), variant `attempt`. */
void trm_random_block(const trm_random_stream *stream, uint64_t index, uint32_t attempt,
                      uint32_t out_bits[4]);
/* TRM_PHILOX_LANES blocks from `first` on, attempt 0. */
void trm_random_blocks(const trm_random_stream *stream, uint64_t first,
                       uint32_t out_words[TRM_PHILOX_WORDS]);

#endif /* TREMULA_HOST_OPS_RANDOM_BITS_H_ */
