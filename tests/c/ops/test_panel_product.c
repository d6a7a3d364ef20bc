/* Products of panels with sizes around the limits of panels, tiles and ways, in memory that ends at
 * a page that must not be touched; and dots and convolutions of one element that panels serve.
 *
 * The values are small integers, so that sums are exact and every order gives the same bits. */
#define _DEFAULT_SOURCE
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/ops/products/panel_product.h"
#include "host/ops/products/panel_tiles.h"
#include "host/ops/threads.h"
#include "linear_case.h"
#include "waking_cost.h"

static uint64_t random_state;

static uint64_t random_below(uint64_t limit) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (random_state >> 33) % limit;
}

/* A size near a limit, of at most `most`. */
static int64_t random_size(int64_t most) {
  static const int64_t limits[] = {
      1,   2,   5,   6,   7,   8,   12,  13,  14,  15,  16,  17,  23,   24,   25,   26,  27,
      28,  29,  31,  32,  33,  42,  43,  48,  58,  63,  64,  65,  84,   85,   97,   98,  99,
      112, 191, 192, 193, 195, 196, 197, 320, 321, 511, 512, 641, 1023, 1024, 1025, 2049};
  for (;;) {
    const int64_t size = limits[random_below(sizeof limits / sizeof *limits)];
    if (size <= most) return size;
  }
}

/* ---- The products themselves ----------------------------------------------------------------- */

/* Memory that ends at a page without access. */
typedef struct guarded {
  char *pages;
  size_t bytes;
  void *data;
} guarded;

static guarded guarded_create(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  guarded g = {.bytes = (bytes + page - 1) / page * page + page};
  g.pages = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.pages != MAP_FAILED);
  assert_int_equal(mprotect(g.pages + g.bytes - page, page, PROT_NONE), 0);
  g.data = g.pages + g.bytes - page - bytes;
  return g;
}

/* Scratch and packed panels, which are aligned. */
static guarded guarded_create_aligned(size_t bytes) {
  return guarded_create((bytes + 63) & ~(size_t)63);
}

static void guarded_free(guarded *g) { munmap(g->pages, g->bytes); }

static void fill(guarded *g, int64_t count, bool is_half, float *values) {
  for (int64_t i = 0; i < count; ++i) {
    values[i] = (float)random_below(9) - 4;
    if (is_half) ((uint16_t *)g->data)[i] = trm_float_to_half(values[i]);
    else ((float *)g->data)[i] = values[i];
  }
}

static void multiply_plainly(const trm_panel_product *p, const float *lhs, const float *rhs,
                             float *out) {
  for (int64_t r = 0; r < p->rows; ++r) {
    float *line = out + r * p->columns;
    memset(line, 0, (size_t)p->columns * sizeof *line);
    for (int64_t k = 0; k < p->inner; ++k) {
      const float v = lhs[r * p->lhs_row + k * p->lhs_inner];
      for (int64_t c = 0; c < p->columns; ++c) {
        line[c] += v * rhs[k * p->rhs_inner + c * p->rhs_column];
      }
    }
  }
}

static void check_result(const trm_panel_product *p, const void *out, const float *expected,
                         const char *what, uint64_t seed) {
  const trm_dtype dtype = p->is_half ? TRM_F16 : TRM_F32;
  for (int64_t i = 0; i < p->rows * p->columns; ++i) {
    const double value = linear_case_value(dtype, out, i);
    const double wanted = p->is_half ? (double)trm_half_to_float(trm_float_to_half(expected[i]))
                                     : (double)expected[i];
    if (value != wanted) {
      fail_msg("%s, seed %llu, %lld x %lld x %lld: element %lld is %g instead of %g", what,
               (unsigned long long)seed, (long long)p->rows, (long long)p->columns,
               (long long)p->inner, (long long)i, value, wanted);
    }
  }
}

static trm_panel_product random_product(bool reads_lines) {
  trm_panel_product p = {.rows = random_size(400), .columns = random_size(400)};
  p.inner = random_size(1 + 1000000 / (p.rows * p.columns));
  p.is_half = reads_lines && random_below(3) == 0;
  /* Only floats have lines with gaps. */
  const int64_t gap = p.is_half || random_below(2) == 0 ? 0 : (int64_t)random_below(20);
  const bool lhs_turned = !p.is_half && random_below(2) == 0;
  const bool rhs_turned = !p.is_half && random_below(2) == 0;
  p.lhs_row = lhs_turned ? 1 : p.inner + gap, p.lhs_inner = lhs_turned ? p.rows + gap : 1;
  p.rhs_inner = rhs_turned ? 1 : p.columns + gap, p.rhs_column = rhs_turned ? p.inner + gap : 1;
  return p;
}

static void check_product(uint64_t seed, const trm_panel_tiles *tiles) {
  random_state = seed * 0x9e3779b97f4a7c15u;
  const trm_panel_product p = random_product(tiles->reads_lines);
  const size_t size = p.is_half ? sizeof(uint16_t) : sizeof(float);
  const int64_t lhs_count = (p.rows - 1) * p.lhs_row + (p.inner - 1) * p.lhs_inner + 1;
  const int64_t rhs_count = (p.inner - 1) * p.rhs_inner + (p.columns - 1) * p.rhs_column + 1;
  const int64_t count = p.rows * p.columns;
  guarded lhs = guarded_create((size_t)lhs_count * size);
  guarded rhs = guarded_create((size_t)rhs_count * size);
  guarded out = guarded_create((size_t)count * size);
  guarded scratch = guarded_create_aligned(trm_panel_product_scratch_bytes(&p));
  float *values[3] = {malloc((size_t)lhs_count * sizeof(float)),
                      malloc((size_t)rhs_count * sizeof(float)),
                      malloc((size_t)count * sizeof(float))};
  fill(&lhs, lhs_count, p.is_half, values[0]);
  fill(&rhs, rhs_count, p.is_half, values[1]);
  multiply_plainly(&p, values[0], values[1], values[2]);
  for (int pays = 0; pays < 2; ++pays) {
    set_waking_cost(pays ? 0 : 1000000);
    memset(out.data, 0xff, (size_t)count * size);
    memset(scratch.data, 0xff, trm_panel_product_scratch_bytes(&p));
    trm_panel_product_run(&p, lhs.data, rhs.data, out.data, scratch.data);
    check_result(&p, out.data, values[2], "packed in the run", seed);
    if (p.is_half) continue;
    guarded packed = guarded_create_aligned(trm_panel_product_packed_bytes(&p));
    memset(packed.data, 0xff, trm_panel_product_packed_bytes(&p));
    memset(out.data, 0xff, (size_t)count * size);
    trm_panel_product_pack(&p, rhs.data, rhs.data, packed.data);
    trm_panel_product_run_packed(&p, lhs.data, packed.data, out.data);
    check_result(&p, out.data, values[2], "packed before", seed);
    guarded_free(&packed);
  }
  for (int i = 0; i < 3; ++i) free(values[i]);
  guarded_free(&lhs), guarded_free(&rhs), guarded_free(&out), guarded_free(&scratch);
}

static void products_stay_in_their_memory(void **state) {
  (void)state;
  const trm_panel_tiles *tiles = trm_panel_tiles_get();
  if (tiles == NULL) skip();
  for (uint64_t seed = 1; seed <= 300; ++seed) check_product(seed, tiles);
}

/* A panel multiplies the columns that it lacks, and each of its lines is packed. */
static void few_columns_are_left_to_others(void **state) {
  (void)state;
  const trm_panel_tiles *tiles = trm_panel_tiles_get();
  if (tiles == NULL) skip();
  const int64_t few = tiles->wide / 2;
  const trm_panel_product long_sums = {2, 2, 16384, 16384, 1, 1, 16384, false};
  const trm_panel_product plain = {40, few, 4096, 4096, 1, few, 1, false};
  const trm_panel_product turned = {40, few, 4096, 4096, 1, 1, 4096, false};
  const trm_panel_product wider = {40, few + 1, 4096, 4096, 1, few + 1, 1, false};
  for (int packs_once = 0; packs_once < 2; ++packs_once) {
    assert_false(trm_panel_product_serves(&long_sums, packs_once));
    assert_false(trm_panel_product_serves(&plain, packs_once));
    assert_false(trm_panel_product_serves(&turned, packs_once));
    assert_true(trm_panel_product_serves(&wider, packs_once));
  }
}

/* On a machine of many threads most have no task of a small product. */
static void scratch_is_for_threads_with_tasks(void **state) {
  (void)state;
  const trm_panel_tiles *tiles = trm_panel_tiles_get();
  if (tiles == NULL || !tiles->reads_lines) skip();
  const trm_panel_product halves = {3, 20, 2304, 2304, 1, 20, 1, true};
  assert_int_equal(trm_panel_product_scratch_bytes(&halves), 3 * 2304 * sizeof(float));
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static void fill_operand(linear_case *c, int which) {
  const trm_shape *shape = &c->instructions[which].shape;
  const int64_t count = trm_shape_count(shape);
  for (int64_t i = 0; i < count; ++i) {
    const float value = (float)random_below(9) - 4;
    if (shape->dtype == TRM_F32) ((float *)c->data[which])[i] = value;
    else ((uint16_t *)c->data[which])[i] = trm_float_to_half(value);
  }
}

typedef trm_status (*create_fn)(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error);

/* Four runs of a kernel and of the reference: weights of no version, of a new one, of the same one
 * and of the next one. False where the kernel leaves the case to the reference. */
static bool check_kernel(linear_case *c, bool is_in_loop, create_fn create_reference,
                         create_fn create, uint64_t seed) {
  c->module.half_products = TRM_HALF_PRODUCTS_FLOAT;
  trm_kernel_request request = linear_case_request(c);
  request.is_in_loop = is_in_loop;
  trm_kernel reference, fast;
  trm_error error;
  bool supported = false;
  assert_int_equal(create_reference(&request, &reference, &supported, &error), TRM_OK);
  assert_true(supported);
  assert_int_equal(create(&request, &fast, &supported, &error), TRM_OK);
  if (supported) {
    const trm_dtype dtype = c->instructions[2].shape.dtype;
    const int64_t count = trm_shape_count(&c->instructions[2].shape);
    const size_t bytes = trm_shape_bytes(&c->instructions[2].shape);
    void *oracle = trm_allocate_aligned(bytes);
    linear_run slow_run, run;
    linear_run_create(&slow_run, &reference, c, oracle);
    linear_run_create(&run, &fast, c, c->data[2]);
    for (uint64_t round = 0; round < 4; ++round) {
      run.versions[1] = round == 0 ? 0 : round == 3 ? 8 : 7;
      fill_operand(c, 0);
      if (round != 2) fill_operand(c, 1);
      memset(c->data[2], 0xff, bytes);
      assert_int_equal(reference.run(&reference, &slow_run.call, &error), TRM_OK);
      assert_int_equal(fast.run(&fast, &run.call, &error), TRM_OK);
      for (int64_t i = 0; i < count; ++i) {
        const double value = linear_case_value(dtype, c->data[2], i);
        const double wanted = linear_case_value(dtype, oracle, i);
        if (value != wanted) {
          fail_msg("seed %llu, %s, round %d: element %lld is %g instead of %g",
                   (unsigned long long)seed, trm_dtype_name(dtype), (int)round, (long long)i, value,
                   wanted);
        }
      }
    }
    linear_run_free(&slow_run);
    linear_run_free(&run);
    trm_free(oracle);
    trm_kernel_destroy(&fast);
  }
  trm_kernel_destroy(&reference);
  return supported;
}

static void random_dots_equal_the_reference(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
    const int64_t rows = random_size(400), columns = random_size(400);
    const int64_t inner = random_size(1 + 200000 / (rows * columns));
    const bool lhs_turned = random_below(2) == 0, rhs_turned = random_below(2) == 0;
    const dot_case shape = {.name = "random",
                            .lhs_rank = 2,
                            .rhs_rank = 2,
                            .lhs = {lhs_turned ? inner : rows, lhs_turned ? rows : inner},
                            .rhs = {rhs_turned ? columns : inner, rhs_turned ? inner : columns},
                            .lhs_contracting = lhs_turned ? "0" : "1",
                            .rhs_contracting = rhs_turned ? "1" : "0"};
    const trm_dtype dtype = random_below(2) == 0 ? TRM_F32 : TRM_F16;
    const trm_dtype result = random_below(4) == 0 ? TRM_F32 : dtype;
    linear_case c;
    linear_case_dot(&c, &shape, dtype, result);
    assert_true(
        check_kernel(&c, random_below(2) == 0, trm_reference_dot_create, trm_dot_create, seed));
    linear_case_free(&c);
  }
}

/* Also padding that moves the pixels without changing their number, strides that keep a single
 * one, reversed kernels and groups. */
static void random_convolutions_equal_the_reference(void **state) {
  (void)state;
  static const char *const labels[][4] = {
      {"b0f_0io->b0f", "b0f_0oi->b0f", "b0f_io0->b0f", "bf0_oi0->bf0"},
      {"b01f_01io->b01f", "b01f_01oi->b01f", "b01f_0io1->b01f", "bf01_oi01->bf01"},
      {"b012f_012io->b012f", "b012f_012oi->b012f", "0b12f_012io->b012f", "bf012_oi012->bf012"}};
  int served = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    random_state = seed * 0x9e3779b97f4a7c15u + 2;
    const int spatial = 1 + (int)random_below(3);
    const uint64_t form = random_below(8);
    convolution_case shape = {.name = "random", .labels = labels[spatial - 1][form < 4 ? form : 0]};
    const int64_t groups = random_below(6) == 0 ? 2 : 1;
    const int64_t in = random_size(300), out = groups * random_size(300 / groups);
    shape.feature_groups = groups;
    int64_t most = 1 + 200000 / (in * out);
    for (int i = 0, side = 0; shape.labels[i] != '_'; ++i) {
      const char label = shape.labels[i];
      shape.lhs[i] = label == 'f' ? in * groups : random_size(label == 'b' && most > 3 ? 3 : most);
      if (label != 'f') most = most / shape.lhs[i] > 0 ? most / shape.lhs[i] : 1;
      const char kernel = strchr(shape.labels, '_')[1 + i];
      shape.rhs[i] = kernel == 'i' ? in : kernel == 'o' ? out : 1;
      if (label < '0' || label > '2') continue;
      trm_window_dimension *w = &shape.window[side++];
      if (random_below(8) == 0) w->padding_low = 1, w->padding_high = -1;
      else if (random_below(8) == 0) w->padding_low = -1, w->padding_high = 1;
      else if (random_below(16) == 0) w->padding_low = 1;
      if (random_below(8) == 0) w->stride = 2;
      if (random_below(8) == 0) w->base_dilation = 2;
      w->window_dilation = 1 + (int64_t)random_below(3);
      w->reversal = random_below(4) == 0;
    }
    linear_case c;
    linear_case_convolution(&c, &shape, random_below(2) == 0 ? TRM_F32 : TRM_F16);
    served += check_kernel(&c, random_below(2) == 0, trm_reference_convolution_create,
                           trm_convolution_create, seed);
    linear_case_free(&c);
  }
  assert_true(served > 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_stay_in_their_memory),
      cmocka_unit_test(few_columns_are_left_to_others),
      cmocka_unit_test(scratch_is_for_threads_with_tasks),
      cmocka_unit_test(random_dots_equal_the_reference),
      cmocka_unit_test(random_convolutions_equal_the_reference),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
