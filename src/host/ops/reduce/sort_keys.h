/* The keys that the comparator of a sort compares one after the other, as those of TensorFlow and
 * JAX do. */
#ifndef TREMULA_HOST_OPS_REDUCE_SORT_KEYS_H_
#define TREMULA_HOST_OPS_REDUCE_SORT_KEYS_H_

#include "host/ops/reduce/fast_reduce.h"

enum { SORT_MAX_KEYS = 4 };

typedef enum sort_key_kind {
  SORT_KEY_PLAIN,     /* the operand's elements */
  SORT_KEY_CANONICAL, /* with one zero and one NaN (JAX) */
  SORT_KEY_FUNCTION   /* the results of `function` on the operand's elements */
} sort_key_kind;

typedef struct sort_key {
  sort_key_kind kind;
  uint32_t operand;
  trm_dtype dtype; /* of the key */
  bool descends;
  bool is_total; /* floats by IEEE's totalOrder; otherwise NaNs have no order */
  trm_function function;
} sort_key;

typedef struct sort_keys {
  uint32_t count;               /* 0: the comparator does not compare keys */
  sort_key keys[SORT_MAX_KEYS]; /* the first one decides first */
} sort_keys;

/* Recognises p < q of one operand's two elements, or of the same function of each, and
 * lexicographic orders of such comparisons. */
trm_status trm_sort_find_keys(const trm_module *module, uint32_t comparator, trm_arena *arena,
                              sort_keys *out_keys, trm_error *error);

/* Writes n keys as numbers whose unsigned order is the order of the keys. Element i is at base +
 * (places == NULL ? i : places[i]) * stride. Returns whether a NaN without an order is among
 * them. */
bool trm_sort_load_keys(const sort_key *key, const void *operand, int64_t base, int64_t stride,
                        const uint32_t *places, int64_t n, uint64_t *out_keys);
/* The number of low bits that such a number uses. */
int trm_sort_key_bits(const sort_key *key);

/* Sorts distinct numbers; returns the array of the two that holds them. */
uint64_t *trm_sort_numbers(uint64_t *numbers, uint64_t *other, int64_t n);

#endif /* TREMULA_HOST_OPS_REDUCE_SORT_KEYS_H_ */
