/* Mappings: what is expanded by tile adds up to what is stated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ipu/target/target.h"
#include "ipu/tile/mapping.h"

static trm_target *target;

static int setup(void **state) {
  (void)state;
  return trm_target_load("mk2", &target, NULL) == TRM_OK ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  trm_target_release(target);
  return 0;
}

/* Total, maximum and tiles in use of the expanded bytes. */
static void check(const trm_mapping *m, bool worst_is_exact) {
  int64_t *bytes = calloc(m->tiles, sizeof *bytes);
  assert_non_null(bytes);
  trm_mapping_add_bytes(m, 1, 1, bytes);
  int64_t total = 0, worst = 0, elements = 0;
  for (uint32_t t = 0; t < m->tiles; ++t) {
    assert_true(bytes[t] >= 0);
    total += bytes[t];
    worst = bytes[t] > worst ? bytes[t] : worst;
  }
  for (uint32_t p = 0; p < m->regions; ++p) elements += trm_mapping_region_elements(m, p);
  assert_int_equal(total, trm_mapping_total_bytes(m));
  assert_int_equal(elements, m->count);
  if (worst_is_exact) assert_int_equal(worst, trm_mapping_worst_bytes(m));
  else assert_true(worst <= trm_mapping_worst_bytes(m));
  /* What was added can be taken away, aligned or not. */
  trm_mapping_add_bytes(m, -1, 1, bytes);
  trm_mapping_add_bytes(m, 1, 8, bytes);
  int64_t aligned = 0;
  for (uint32_t t = 0; t < m->tiles; ++t) {
    assert_int_equal(bytes[t], trm_mapping_bytes_on(m, 8, t));
    assert_int_equal(bytes[t] % 8, 0);
    aligned += bytes[t];
  }
  assert_true(aligned >= total);
  free(bytes);
}

static void test_linear(void **state) {
  (void)state;
  srand(1);
  for (int i = 0; i < 300; ++i) {
    const int64_t count = 1 + rand() % (i < 100 ? 64 : 3000000);
    const trm_dtype types[] = {TRM_F32, TRM_F16, TRM_S64, TRM_PRED};
    trm_shape shape = {.dtype = types[i % 4], .rank = 1, .dims = &count};
    const trm_mapping m = trm_mapping_linear(target, &shape, 0, (uint32_t)rand() % 1472);
    check(&m, true);
    const int64_t bytes = count * trm_tile_dtype_bytes(shape.dtype);
    assert_int_equal(trm_mapping_total_bytes(&m), bytes);
    /* At least 128 bytes a tile (the last grain may be cut), or one tile. */
    assert_true(m.regions == 1 || bytes / m.regions >= 128 - 8);
    assert_true(m.regions <= target->tiles_per_ipu);
  }
}

/* poputil: 1472 x 32 floats take every tile, 32 each; one more takes no more tiles. */
static void test_linear_exactly(void **state) {
  (void)state;
  int64_t count = 1472 * 32;
  const trm_shape shape = {.dtype = TRM_F32, .rank = 1, .dims = &count};
  trm_mapping m = trm_mapping_linear(target, &shape, 0, 0);
  assert_int_equal(m.regions, 1472);
  assert_int_equal(m.worst, 32);
  count = 1472 * 32 + 2;
  m = trm_mapping_linear(target, &shape, 0, 0);
  assert_int_equal(m.worst, 34);
  count = 1;
  m = trm_mapping_linear(target, &shape, 0, 5);
  assert_int_equal(m.regions, 1);
  assert_int_equal(trm_mapping_tile(&m, 0), 5);
  count = 0;
  m = trm_mapping_linear(target, &shape, 0, 0);
  assert_int_equal(m.kind, TRM_MAPPING_NONE);
}

static void test_grid(void **state) {
  (void)state;
  srand(2);
  for (int i = 0; i < 300; ++i) {
    int64_t dims[4], grains[4];
    uint32_t cuts[4], regions = 1;
    for (int d = 0; d < 4; ++d) {
      dims[d] = 1 + rand() % 40;
      grains[d] = 1 + rand() % 4;
      cuts[d] = 1 + (uint32_t)rand() % 5;
      regions *= cuts[d];
    }
    const trm_mapping m =
        trm_mapping_grid(target, TRM_F16, 4, dims, cuts, grains, 0, (uint32_t)rand() % 1472);
    assert_int_equal(m.regions, regions);
    check(&m, true);
  }
}

/* A plan's cuts: serial blocks come to the same tile; a piece is dealt to several. */
static void test_grid_of_a_plan(void **state) {
  (void)state;
  trm_mapping m = {.rank = 2,
                   .dims = {10, 24},
                   .block_size = {3, 2},
                   .cuts = {2, 3},
                   .serial = {2, 4},
                   .strides = {6, 2},
                   .share = 2,
                   .share_stride = 1,
                   .grain = 4};
  trm_mapping_finish_grid(target, &m, TRM_F32, 0, 0);
  assert_int_equal(m.regions, 12);
  /* Rows of block 0: 3 (serial 0) + 3 (serial 1) = 6; columns 4 x 2 = 8: 48 elements, 24 each. */
  assert_int_equal(m.worst, 24);
  check(&m, true);
  assert_int_equal(trm_mapping_tile(&m, 0), 0);
  assert_int_equal(trm_mapping_tile(&m, 1), 1);
  assert_int_equal(trm_mapping_tile(&m, 6), 6);
  m.grain = 128; /* more than a piece: one of the two tiles has all of it */
  trm_mapping_finish_grid(target, &m, TRM_F32, 0, 0);
  assert_int_equal(m.worst, 48);
  check(&m, true);
}

static void test_spread(void **state) {
  (void)state;
  trm_mapping m = trm_mapping_spread(target, 100, 250, 0, 1471);
  check(&m, true);
  assert_int_equal(m.regions, 3);
  assert_int_equal(trm_mapping_tile(&m, 1), 0);      /* around the end */
  m = trm_mapping_spread(target, 1, 1472 * 5, 0, 0); /* more than fits: the worst is raised */
  assert_int_equal(m.worst, 5);
  check(&m, true);
  m = trm_mapping_spread(target, 0, 0, 0, 0);
  assert_int_equal(m.kind, TRM_MAPPING_NONE);
}

static void test_places(void **state) {
  (void)state;
  const int64_t dims[1] = {4096}, other[1] = {4098};
  const trm_shape shape = {.dtype = TRM_F32, .rank = 1, .dims = dims};
  const trm_shape half = {.dtype = TRM_F16, .rank = 1, .dims = dims};
  const trm_shape longer = {.dtype = TRM_F32, .rank = 1, .dims = other};
  const trm_mapping a = trm_mapping_linear(target, &shape, 0, 0);
  const trm_mapping same = trm_mapping_linear(target, &shape, 0, 0);
  const trm_mapping moved = trm_mapping_linear(target, &shape, 0, 1);
  const trm_mapping of_half = trm_mapping_linear(target, &half, 0, 0);
  const trm_mapping of_more = trm_mapping_linear(target, &longer, 0, 0);
  const trm_mapping like = trm_mapping_like(&a, TRM_F16);
  assert_true(trm_mapping_same_place(&a, &same));
  assert_false(trm_mapping_same_place(&a, &moved));
  assert_false(trm_mapping_same_place(&a, &of_half)); /* another grain: other cuts */
  assert_false(trm_mapping_same_place(&a, &of_more));
  assert_true(trm_mapping_same_place(&a, &like));
  assert_int_equal(trm_mapping_total_bytes(&like), 8192);
  assert_int_equal(trm_tile_dtype_bytes(TRM_S64), 4); /* 64-bit integers are 32-bit there */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_linear), cmocka_unit_test(test_linear_exactly),
      cmocka_unit_test(test_grid),   cmocka_unit_test(test_grid_of_a_plan),
      cmocka_unit_test(test_spread), cmocka_unit_test(test_places),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
