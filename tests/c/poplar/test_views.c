/* Views of tensors: chains of views against a plain list of elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "poplar/views.h"

enum { CHAINS = 2000, LENGTH = 8, MOST = 4096 };

/* An array whose elements are numbers: variable * 1 000 000 + place. */
typedef struct model {
  uint32_t rank;
  uint64_t dims[TRM_MAX_RANK], count;
  int64_t elements[MOST];
} model;

static uint64_t seed;

static uint32_t below(uint32_t limit) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 33) % limit;
}

static void set_dims(model *m, const uint64_t *dims, uint32_t rank) {
  m->rank = rank;
  m->count = 1;
  for (uint32_t d = 0; d < rank; ++d) m->count *= m->dims[d] = dims[d];
}

/* m[d] of size `size`, whose index i is `from[i]` of before. */
static void pick(model *m, uint32_t dim, const uint64_t *from, uint64_t size) {
  const model old = *m;
  uint64_t inner = 1;
  for (uint32_t d = dim + 1; d < m->rank; ++d) inner *= m->dims[d];
  m->dims[dim] = size;
  m->count = 0;
  const uint64_t block = old.dims[dim] * inner;
  for (uint64_t o = 0; block > 0 && o < old.count / block; ++o) {
    for (uint64_t i = 0; i < size; ++i) {
      for (uint64_t e = 0; e < inner; ++e) {
        m->elements[m->count++] = old.elements[o * block + from[i] * inner + e];
      }
    }
  }
}

static void shuffle(model *m, const uint32_t *permutation) {
  const model old = *m;
  uint64_t steps[TRM_MAX_RANK], index[TRM_MAX_RANK] = {0}, step = 1;
  for (uint32_t d = m->rank; d-- > 0;) {
    steps[d] = step;
    step *= old.dims[d];
  }
  for (uint32_t d = 0; d < m->rank; ++d) m->dims[d] = old.dims[permutation[d]];
  for (uint64_t e = 0; e < m->count; ++e) {
    uint64_t place = 0;
    for (uint32_t d = 0; d < m->rank; ++d) place += index[d] * steps[permutation[d]];
    m->elements[e] = old.elements[place];
    for (uint32_t d = m->rank; d-- > 0;) {
      if (++index[d] < m->dims[d]) break;
      index[d] = 0;
    }
  }
}

static void compare(const trm_poplar_tensor *tensor, const model *m) {
  assert_int_equal(tensor->rank, m->rank);
  assert_int_equal(tensor->elements, m->count);
  for (uint32_t d = 0; d < m->rank; ++d) assert_int_equal(tensor->dims[d], m->dims[d]);
  uint64_t e = 0;
  for (uint64_t r = 0; r < tensor->num_runs; ++r) {
    const trm_poplar_run *run = &tensor->runs[r];
    assert_int_equal(run->begin, e);
    for (uint64_t i = 0; i < run->length; ++i, ++e) {
      assert_int_equal(run->variable * 1000000 + run->offset + (int64_t)i * run->stride,
                       m->elements[e]);
    }
  }
  assert_int_equal(e, m->count);
}

static void begin(uint32_t variable, trm_poplar_tensor **out_tensor, model *m) {
  uint64_t dims[4];
  const uint32_t rank = below(4) + 1;
  trm_poplar_error error;
  for (uint32_t d = 0; d < rank; ++d) dims[d] = below(5) + (below(20) != 0);
  set_dims(m, dims, rank);
  for (uint64_t e = 0; e < m->count; ++e) m->elements[e] = variable * 1000000 + (int64_t)e;
  assert_int_equal(trm_poplar_tensor_of(variable, TRM_F32, dims, rank, out_tensor, &error), TRM_OK);
}

/* Splits a dimension, or joins two: other sizes for the same elements. */
static int reshape(trm_poplar_tensor *t, model *m, trm_poplar_tensor **out, trm_poplar_error *e) {
  uint64_t dims[TRM_MAX_RANK];
  uint32_t rank = m->rank;
  const uint32_t d = below(rank);
  memcpy(dims, m->dims, sizeof dims);
  if (d + 1 < rank) {
    dims[d] *= dims[d + 1];
    memmove(dims + d + 1, dims + d + 2, (rank - d - 2) * sizeof *dims);
    --rank;
  } else {
    dims[rank++] = 1;
  }
  set_dims(m, dims, rank);
  return trm_poplar_tensor_reshape(t, dims, rank, out, e);
}

static int concat(trm_poplar_tensor *t, model *m, uint32_t d, trm_poplar_tensor **out,
                  trm_poplar_error *e) {
  uint64_t from[MOST];
  const uint64_t size = m->dims[d];
  trm_poplar_tensor *part = NULL;
  assert_int_equal(trm_poplar_tensor_slice(t, d, size / 2, size, &part, e), TRM_OK);
  const trm_poplar_tensor *const both[] = {part, t};
  for (uint64_t i = 0; i < size - size / 2; ++i) from[i] = size / 2 + i;
  for (uint64_t i = 0; i < size; ++i) from[size - size / 2 + i] = i;
  pick(m, d, from, 2 * size - size / 2);
  const int status = trm_poplar_tensor_concat(both, 2, d, out, e);
  trm_poplar_tensor_release(part);
  return status;
}

/* One view more, of both. */
static int step(trm_poplar_tensor *t, model *m, trm_poplar_tensor **out, trm_poplar_error *e) {
  const uint32_t d = below(m->rank);
  const uint64_t size = m->dims[d];
  uint64_t from[MOST];
  uint32_t permutation[TRM_MAX_RANK];
  switch (below(8)) {
    case 0: {
      const uint64_t first = below((uint32_t)size + 1);
      const uint64_t last = first + below((uint32_t)(size - first) + 1);
      for (uint64_t i = first; i < last; ++i) from[i - first] = i;
      pick(m, d, from, last - first);
      return trm_poplar_tensor_slice(t, d, first, last, out, e);
    }
    case 1:
      for (uint32_t i = 0; i < m->rank; ++i) permutation[i] = i;
      for (uint32_t i = m->rank; i > 1; --i) {
        const uint32_t other = below(i), swapped = permutation[i - 1];
        permutation[i - 1] = permutation[other];
        permutation[other] = swapped;
      }
      shuffle(m, permutation);
      return trm_poplar_tensor_dim_shuffle(t, permutation, m->rank, out, e);
    case 2: {
      const uint64_t times = 1 + below(3);
      for (uint64_t i = 0; i < times * size; ++i) from[i] = i % size;
      pick(m, d, from, times * size);
      return trm_poplar_tensor_broadcast(t, times, d, out, e);
    }
    case 3: return concat(t, m, d, out, e);
    case 4:
      for (uint64_t i = 0; i < size; ++i) from[i] = size - 1 - i;
      pick(m, d, from, size);
      return trm_poplar_tensor_pick(t, -1, d, out, e);
    case 5: {
      const uint64_t stride = 1 + below(3), left = (size + stride - 1) / stride;
      for (uint64_t i = 0; i < left; ++i) from[i] = i * stride;
      pick(m, d, from, left);
      return trm_poplar_tensor_pick(t, (int64_t)stride, d, out, e);
    }
    case 6:
      if (m->rank > 1 && m->dims[0] > 0) {
        const uint64_t index = below((uint32_t)m->dims[0]);
        pick(m, 0, &index, 1);
        uint64_t dims[TRM_MAX_RANK];
        memcpy(dims, m->dims + 1, sizeof dims - sizeof *dims);
        set_dims(m, dims, m->rank - 1);
        return trm_poplar_tensor_index(t, index, out, e);
      }
      return trm_poplar_tensor_reinterpret(t, TRM_F32, out, e);
    default: return reshape(t, m, out, e);
  }
}

static void test_chains(void **state) {
  (void)state;
  static model m;
  trm_poplar_error error;
  uint64_t longest = 0;
  for (uint32_t chain = 0; chain < CHAINS; ++chain) {
    seed = chain + 1;
    trm_poplar_tensor *t = NULL, *next = NULL;
    begin(chain % 7, &t, &m);
    for (int i = 0; i < LENGTH && m.count < MOST / 4 && m.rank < 8; ++i) {
      assert_int_equal(step(t, &m, &next, &error), TRM_OK);
      trm_poplar_tensor_release(t);
      t = next;
      compare(t, &m);
    }
    longest = t->elements > longest ? t->elements : longest;
    trm_poplar_tensor_release(t);
  }
  assert_true(longest > 500);
}

static trm_poplar_tensor *variable(uint64_t a, uint64_t b) {
  trm_poplar_error error;
  trm_poplar_tensor *tensor = NULL;
  const uint64_t dims[] = {a, b};
  assert_int_equal(trm_poplar_tensor_of(0, TRM_F32, dims, 2, &tensor, &error), TRM_OK);
  return tensor;
}

/* Views of large tensors stay small where they are regular. */
static void test_runs(void **state) {
  (void)state;
  trm_poplar_error error;
  trm_poplar_tensor *t = variable(1000, 300), *turned = NULL, *back = NULL, *wide = NULL;
  const uint32_t swapped[] = {1, 0};
  assert_int_equal(trm_poplar_tensor_dim_shuffle(t, swapped, 2, &turned, &error), TRM_OK);
  assert_int_equal(turned->num_runs, 300);
  assert_false(trm_poplar_tensor_is_contiguous(turned));
  assert_false(trm_poplar_tensor_contains_aliases(turned));
  assert_int_equal(trm_poplar_tensor_dim_shuffle(turned, swapped, 2, &back, &error), TRM_OK);
  assert_true(trm_poplar_tensor_is_equal(back, t));
  trm_poplar_tensor *one = NULL;
  assert_int_equal(trm_poplar_tensor_slice(t, 1, 0, 1, &one, &error), TRM_OK);
  assert_int_equal(one->num_runs, 1);
  assert_int_equal(trm_poplar_tensor_broadcast(one, 50, 1, &wide, &error), TRM_OK);
  assert_int_equal(wide->num_runs, 1000);
  assert_true(trm_poplar_tensor_contains_aliases(wide));
  trm_poplar_tensor_release(wide);
  trm_poplar_tensor_release(one);
  trm_poplar_tensor_release(back);
  trm_poplar_tensor_release(turned);
  trm_poplar_tensor_release(t);
}

static void test_mistakes(void **state) {
  (void)state;
  trm_poplar_error error;
  trm_poplar_tensor *t = variable(2, 3), *half = NULL, *none = NULL;
  const uint32_t twice[] = {0, 0};
  const uint64_t other[] = {7}, huge[] = {(uint64_t)1 << 32, (uint64_t)1 << 32};
  assert_int_equal(trm_poplar_tensor_slice(t, 1, 1, 4, &none, &error), TRM_INVALID_ARGUMENT);
  assert_int_equal(error.kind, TRM_POPLAR_ERROR_INDEX);
  assert_string_equal(error.what, "the slice [1, 4) of dimension 1 of a tensor of shape [2,3]");
  assert_int_not_equal(trm_poplar_tensor_slice(t, 2, 0, 0, &none, &error), TRM_OK);
  assert_int_not_equal(trm_poplar_tensor_index(t, 2, &none, &error), TRM_OK);
  assert_int_not_equal(trm_poplar_tensor_dim_shuffle(t, twice, 2, &none, &error), TRM_OK);
  assert_int_not_equal(trm_poplar_tensor_reshape(t, other, 1, &none, &error), TRM_OK);
  assert_non_null(strstr(error.what, "[2,3] cannot be reshaped to [7]"));
  assert_int_not_equal(trm_poplar_tensor_reshape(t, huge, 2, &none, &error), TRM_OK);
  assert_non_null(strstr(error.what, "too large"));
  assert_int_not_equal(trm_poplar_tensor_broadcast(t, UINT64_MAX, 0, &none, &error), TRM_OK);
  assert_int_not_equal(trm_poplar_tensor_pick(t, 0, 0, &none, &error), TRM_OK);
  assert_int_not_equal(trm_poplar_tensor_reinterpret(t, TRM_F16, &none, &error), TRM_OK);
  assert_int_equal(error.kind, TRM_POPLAR_ERROR_TYPE);
  assert_int_equal(trm_poplar_tensor_reinterpret(t, TRM_S32, &half, &error), TRM_OK);
  const trm_poplar_tensor *const both[] = {t, half};
  assert_int_not_equal(trm_poplar_tensor_concat(both, 2, 0, &none, &error), TRM_OK);
  assert_int_not_equal(trm_poplar_tensor_concat(both, 0, 0, &none, &error), TRM_OK);
  assert_null(none);
  trm_poplar_tensor_release(half);
  trm_poplar_tensor_release(t);
}

/* A view with more pieces than may be is refused, and says what helps. */
static void test_limit(void **state) {
  (void)state;
  trm_poplar_error error;
  trm_poplar_tensor *t = variable(2, 3), *many = NULL, *none = NULL;
  assert_int_equal(trm_poplar_tensor_broadcast(t, 1000000, 0, &many, &error), TRM_OK);
  assert_int_equal(trm_poplar_tensor_broadcast(many, 1000, 0, &none, &error),
                   TRM_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(error.what, "copy the tensor to a variable"));
  trm_poplar_tensor_release(many);
  trm_poplar_tensor_release(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chains),
      cmocka_unit_test(test_runs),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
