/* Owns: counter-based random bits (bits.h). */
#include "host/ops/random/bits.h"

#include <string.h>

void trm_philox(const uint32_t counter[4], uint64_t key, uint32_t out_bits[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = (uint64_t)c0 * UINT32_C(0xD2511F53);
    const uint64_t q = (uint64_t)c2 * UINT32_C(0xCD9E8D57);
    c0 = (uint32_t)(q >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)q;
    c2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p;
    k0 += UINT32_C(0x9E3779B9);
    k1 += UINT32_C(0xBB67AE85);
  }
  out_bits[0] = c0, out_bits[1] = c1, out_bits[2] = c2, out_bits[3] = c3;
}

void trm_philox_lanes(uint64_t first, uint64_t high, uint64_t key,
                      uint32_t out_words[TRM_PHILOX_WORDS]) {
  enum { LANES = TRM_PHILOX_LANES };
  uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
  for (uint32_t j = 0; j < LANES; ++j) {
    c0[j] = (uint32_t)(first + j);
    c1[j] = (uint32_t)((first + j) >> 32);
    c2[j] = (uint32_t)high;
    c3[j] = (uint32_t)(high >> 32);
  }
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < LANES; ++j) {
      const uint64_t p = (uint64_t)c0[j] * UINT32_C(0xD2511F53);
      const uint64_t q = (uint64_t)c2[j] * UINT32_C(0xCD9E8D57);
      c0[j] = (uint32_t)(q >> 32) ^ c1[j] ^ k0;
      c1[j] = (uint32_t)q;
      c2[j] = (uint32_t)(p >> 32) ^ c3[j] ^ k1;
      c3[j] = (uint32_t)p;
    }
    k0 += UINT32_C(0x9E3779B9);
    k1 += UINT32_C(0xBB67AE85);
  }
  for (int j = 0; j < LANES; ++j) {
    out_words[4 * j] = c0[j];
    out_words[4 * j + 1] = c1[j];
    out_words[4 * j + 2] = c2[j];
    out_words[4 * j + 3] = c3[j];
  }
}

void trm_threefry(const uint32_t counter[2], uint64_t key, uint32_t out_bits[2]) {
  static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ UINT32_C(0x1BD11BDA)};
  uint32_t x0 = counter[0] + keys[0], x1 = counter[1] + keys[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (int round = 0; round < 4; ++round) {
      const int rotation = rotations[group % 2][round];
      x0 += x1;
      x1 = (x1 << rotation | x1 >> (32 - rotation)) ^ x0;
    }
    x0 += keys[(group + 1) % 3];
    x1 += keys[(group + 2) % 3] + group + 1;
  }
  out_bits[0] = x0, out_bits[1] = x1;
}

/* The finaliser of SplitMix64: every bit of the input affects every bit of the output. */
static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

trm_random_stream trm_random_stream_make(const uint64_t *numbers, int count) {
  trm_random_stream stream = {UINT64_C(0x7472656D756C6131), UINT64_C(0x7472656D756C6132)};
  for (int i = 0; i < count; ++i) {
    stream.key = mix(stream.key ^ numbers[i]);
    stream.high = mix(stream.high + numbers[i]);
  }
  return stream;
}

trm_random_stream trm_random_stream_read(const void *words) {
  uint64_t word[TRM_STREAM_WORDS];
  memcpy(word, words, sizeof word);
  return (trm_random_stream){.key = word[0], .high = word[2]};
}

void trm_random_block(const trm_random_stream *stream, uint64_t index, uint32_t attempt,
                      uint32_t out_bits[4]) {
  const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32) | attempt << 16,
                               (uint32_t)stream->high, (uint32_t)(stream->high >> 32)};
  trm_philox(counter, stream->key, out_bits);
}

void trm_random_blocks(const trm_random_stream *stream, uint64_t first,
                       uint32_t out_words[TRM_PHILOX_WORDS]) {
  trm_philox_lanes(first, stream->high, stream->key, out_words);
}
