/* Dots through oneDNN equal the reference for every arrangement of dimension numbers.
 *
 * The bound: float32 sums of K products of values in [-1, 1), in different orders, are asked to
 * agree within 4 sqrt(K) eps of the sum's root mean square, 4 K eps / 3, plus one last place of the
 * result's type. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <oneapi/dnnl/dnnl.h>
#include <cmocka.h>

#include "host/ops/products/half_products.h"
#include "host/ops/products/panel_product.h"
#include "host/ops/products/panel_tiles.h"
#include "host/ops/threads.h"
#include "linear_case.h"
#include "waking_cost.h"

static const dot_case cases[] = {
    {"plain", 2, 2, {8, 4}, {4, 8}, "", "", "1", "0"},
    {"rhs transposed", 2, 2, {8, 4}, {9, 4}, "", "", "1", "1"},
    {"lhs transposed", 2, 2, {4, 8}, {4, 9}, "", "", "0", "0"},
    {"both transposed", 2, 2, {4, 8}, {9, 4}, "", "", "0", "1"},
    {"one row", 2, 2, {1, 64}, {64, 256}, "", "", "1", "0"},
    {"one row, transposed", 2, 2, {1, 64}, {256, 64}, "", "", "1", "1"},
    {"one row, odd sizes", 2, 2, {1, 63}, {63, 77}, "", "", "1", "0"},
    {"one row, many columns", 2, 2, {1, 3}, {3, 1000}, "", "", "1", "0"},
    {"one row, few columns", 2, 2, {1, 40}, {40, 15}, "", "", "1", "0"},
    {"vector and transposed matrix", 2, 1, {37, 50}, {37}, "", "", "0", "0"},
    {"one column", 2, 2, {33, 64}, {64, 1}, "", "", "1", "0"},
    {"vector and matrix", 1, 2, {64}, {64, 33}, "", "", "0", "0"},
    {"matrix and vector", 2, 1, {33, 64}, {64}, "", "", "1", "0"},
    {"inner product", 1, 1, {100}, {100}, "", "", "0", "0"},
    {"outer product", 2, 2, {5, 1}, {1, 7}, "", "", "1", "0"},
    {"no contraction", 1, 1, {5}, {7}, "", "", "", ""},
    {"batch", 4, 4, {3, 2, 8, 4}, {3, 2, 4, 8}, "01", "01", "3", "2"},
    {"batch, transposed", 4, 4, {3, 2, 8, 4}, {3, 2, 8, 4}, "01", "01", "3", "3"},
    {"batch, lhs transposed", 4, 4, {3, 2, 8, 4}, {3, 2, 8, 5}, "01", "01", "2", "2"},
    {"bthd,bshd->bhts", 4, 4, {3, 5, 2, 8}, {3, 6, 2, 8}, "02", "02", "3", "3"},
    {"bhts,bshd->bhtd", 4, 4, {3, 2, 5, 6}, {3, 6, 2, 8}, "01", "02", "3", "1"},
    {"bhts,bthd->bhsd", 4, 4, {3, 2, 5, 6}, {3, 5, 2, 8}, "01", "02", "2", "1"},
    {"btd,dhk->bthk", 3, 3, {3, 5, 8}, {8, 2, 4}, "", "", "2", "0"},
    {"bthk,dhk->btd", 4, 3, {3, 5, 2, 4}, {8, 2, 4}, "", "", "23", "12"},
    {"bthk,btd->hkd", 4, 3, {3, 5, 2, 4}, {3, 5, 8}, "", "", "01", "01"},
    {"two contracted, crossed", 3, 3, {3, 5, 2}, {2, 5, 8}, "", "", "12", "10"},
    {"contracted outside in", 3, 3, {5, 3, 2}, {2, 7, 5}, "", "", "02", "20"},
    {"rows apart", 3, 2, {5, 6, 3}, {6, 4}, "", "", "1", "0"},
    {"columns apart", 2, 3, {5, 6}, {3, 6, 4}, "", "", "1", "1"},
    {"batch inside", 3, 3, {5, 6, 3}, {6, 4, 3}, "2", "2", "1", "0"},
    {"crossed batch", 4, 4, {3, 2, 5, 6}, {2, 3, 6, 4}, "01", "10", "3", "2"},
    {"larger", 2, 2, {65, 129}, {129, 130}, "", "", "1", "0"},
    {"tall", 2, 2, {300, 40}, {40, 10}, "", "", "1", "0"},
    {"long sums", 2, 2, {3, 5000}, {5000, 5}, "", "", "1", "0"},
    {"many small", 3, 3, {100, 3, 4}, {100, 4, 5}, "0", "0", "2", "1"},
    {"all ones", 2, 2, {1, 1}, {1, 1}, "", "", "1", "0"},
    {"five dimensions", 5, 5, {2, 3, 2, 3, 4}, {2, 3, 4, 2, 5}, "02", "03", "4", "2"},
};

/* A matrix and a vector: long lines, lines that are whole pages apart, heads of attention. */
static const dot_case vector_products[] = {
    {"one row, large", 2, 2, {1, 1030}, {1030, 1101}, "", "", "1", "0"},
    {"one row, lines a page apart", 2, 2, {1, 515}, {515, 2048}, "", "", "1", "0"},
    {"one row of more columns than a slab", 2, 2, {1, 19}, {19, 9007}, "", "", "1", "0"},
    {"large matrix and vector", 2, 1, {701, 1003}, {1003}, "", "", "1", "0"},
    {"bhd,bkhd->bhk", 3, 4, {2, 3, 72}, {2, 75, 3, 72}, "01", "02", "2", "3"},
    {"bhk,bkhd->bhd", 3, 4, {2, 3, 75}, {2, 75, 3, 72}, "01", "02", "2", "1"},
    {"batch of vectors on the right", 3, 2, {5, 40, 33}, {5, 33}, "0", "0", "2", "1"},
    {"batch inside", 3, 2, {40, 33, 5}, {33, 5}, "2", "1", "1", "0"},
};

/* Too large to be made for one thread too; lines that are whole pages apart. */
static const dot_case large_products[] = {
    {"packed in each run", 2, 2, {256, 256}, {256, 1024}, "", "", "1", "0"},
    {"its data gradient", 2, 2, {256, 1024}, {256, 1024}, "", "", "1", "1"},
    {"long sums", 2, 2, {40000, 48}, {40000, 48}, "", "", "0", "0"},
};

/* How halves are multiplied; what is left out of a product is added to the bound: 2^-16 of it with
 * three pieces; with bfloat16s 2^-8, which add up as the square root. */
static trm_half_products wanted = TRM_HALF_PRODUCTS_FLOAT;

static double tolerance(trm_dtype dtype, int64_t contracted, double value) {
  const double eps = dtype == TRM_F32 ? 0x1p-24 : dtype == TRM_F16 ? 0x1p-11 : 0x1p-8;
  const double left_out = wanted == TRM_HALF_PRODUCTS_PIECES3    ? (double)contracted * 0x1p-16
                          : wanted == TRM_HALF_PRODUCTS_BFLOAT16 ? sqrt((double)contracted) * 0x1p-7
                                                                 : 0;
  /* Four products are summed for each of floats. */
  const double summed = (double)contracted * (wanted == TRM_HALF_PRODUCTS_FLOAT ? 1 : 4);
  return 4.0 / 3 * summed * 0x1p-24 + 2 * eps * fabs(value) + left_out +
         (dtype == TRM_F16 ? 0x1p-24 : 0);
}

/* What the kernel's name says. */
static const char *suffix_of(trm_dtype dtype) {
  if (dtype == TRM_F32 || !trm_half_units_here().avx512) return "";
  return trm_half_products_suffix(
      dtype == TRM_BF16 && wanted != TRM_HALF_PRODUCTS_FLOAT ? TRM_HALF_PRODUCTS_BFLOAT16 : wanted);
}

static void check(const dot_case *from, trm_dtype dtype, trm_dtype result, uint32_t rounds) {
  linear_case c;
  linear_case_dot(&c, from, dtype, result);
  c.module.half_products = wanted;
  const trm_kernel_request request = linear_case_request(&c);
  trm_kernel reference, fast;
  trm_error error;
  bool supported = false;
  assert_int_equal(trm_reference_dot_create(&request, &reference, &supported, &error), TRM_OK);
  assert_true(supported);
  supported = false;
  const trm_status status = trm_dot_create(&request, &fast, &supported, &error);
  if (status != TRM_OK) fail_msg("%s: %s", from->name, error.message);
  if (!supported) fail_msg("%s: not taken by the fast path", from->name);
  assert_string_equal(strstr(fast.name, ".dot") + strlen(".dot"), suffix_of(dtype));

  const int64_t count = trm_shape_count(&c.instructions[2].shape);
  const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
  void *oracle = trm_allocate_aligned(bytes);
  linear_run slow_run, run;
  linear_run_create(&slow_run, &reference, &c, oracle);
  linear_run_create(&run, &fast, &c, c.data[2]);
  for (uint32_t round = 0; round < rounds; ++round) { /* versions: unknown, new, the same, newer */
    run.versions[1] = round == 0 ? 0 : round == 3 ? 8 : 7;
    if (round != 2) linear_case_fill(&c, round + 1);
    memset(c.data[2], 0xff, bytes);
    if (round != 2) assert_int_equal(reference.run(&reference, &slow_run.call, &error), TRM_OK);
    assert_int_equal(fast.run(&fast, &run.call, &error), TRM_OK);
    for (int64_t i = 0; i < count; ++i) {
      const double a = linear_case_value(result, c.data[2], i);
      const double b = linear_case_value(result, oracle, i);
      if (!(fabs(a - b) <= tolerance(result, c.contracted, b))) {
        fail_msg("%s (%s), round %d: element %lld is %.9g instead of %.9g", from->name,
                 trm_dtype_name(dtype), (int)round, (long long)i, a, b);
      }
    }
  }
  linear_run_free(&slow_run);
  linear_run_free(&run);
  trm_free(oracle);
  if (reference.destroy != NULL) reference.destroy(&reference);
  if (fast.destroy != NULL) fast.destroy(&fast);
  linear_case_free(&c);
}

static void check_all(trm_dtype dtype, trm_dtype result) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) check(&cases[i], dtype, result, 4);
  for (size_t i = 0; i < sizeof vector_products / sizeof *vector_products; ++i) {
    check(&vector_products[i], dtype, result, 2);
  }
}

static void float32_equals_the_reference(void **state) {
  (void)state;
  check_all(TRM_F32, TRM_F32);
  for (size_t i = 0; i < sizeof large_products / sizeof *large_products; ++i) {
    check(&large_products[i], TRM_F32, TRM_F32, 1);
  }
}

static void halves_round_once(void **state) {
  (void)state;
  check_all(TRM_F16, TRM_F16);
  check_all(TRM_F16, TRM_F32);
}

static void bfloat16_rounds_once(void **state) {
  (void)state;
  check_all(TRM_BF16, TRM_BF16);
  wanted = TRM_HALF_PRODUCTS_BFLOAT16;
  check_all(TRM_BF16, TRM_BF16);
  check_all(TRM_BF16, TRM_F32);
  wanted = TRM_HALF_PRODUCTS_FLOAT;
}

static void halves_are_multiplied_in_pieces(void **state) {
  (void)state;
  static const trm_half_products all[] = {TRM_HALF_PRODUCTS_PIECES3, TRM_HALF_PRODUCTS_PIECES4,
                                          TRM_HALF_PRODUCTS_BFLOAT16};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    wanted = all[i];
    check_all(TRM_F16, TRM_F16);
    check_all(TRM_F16, TRM_F32); /* with four pieces nothing is left out: the bound of floats */
  }
  wanted = TRM_HALF_PRODUCTS_FLOAT;
}

/* Each row of lhs meets each column of rhs, so all pairs of these are multiplied; the others are
 * numbers with lower pieces. */
static void infinities_and_nans_are_those_of_floats(void **state) {
  (void)state;
  static const uint16_t special[] = {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0,      0x8000,
                                     0x3c00, 0x3c01, 0xbfff, 0x0001, 0x83ff, 0x7bff};
  enum { COUNT = sizeof special / sizeof *special };
  static const dot_case pairs = {"pairs", 2, 2, {COUNT, 3}, {3, COUNT}, "", "", "1", "0"};
  static const trm_half_products all[] = {TRM_HALF_PRODUCTS_PIECES3, TRM_HALF_PRODUCTS_PIECES4};
  for (size_t k = 0; k < sizeof all / sizeof *all; ++k) {
    linear_case c;
    linear_case_dot(&c, &pairs, TRM_F16, TRM_F32);
    c.module.half_products = all[k];
    uint16_t *lhs = c.data[0], *rhs = c.data[1];
    for (int i = 0; i < COUNT; ++i) {
      lhs[i * 3] = rhs[i] = special[i];
      lhs[i * 3 + 1] = rhs[COUNT + i] = 0x3555;
      lhs[i * 3 + 2] = rhs[2 * COUNT + i] = 0;
    }
    const trm_kernel_request request = linear_case_request(&c);
    trm_kernel kernel;
    bool supported = false;
    trm_error error;
    assert_int_equal(trm_dot_create(&request, &kernel, &supported, &error), TRM_OK);
    assert_true(supported);
    linear_run run;
    linear_run_create(&run, &kernel, &c, c.data[2]);
    assert_int_equal(kernel.run(&kernel, &run.call, &error), TRM_OK);
    const float third = trm_half_to_float(0x3555);
    for (int i = 0; i < COUNT * COUNT; ++i) {
      const float a = trm_half_to_float(special[i / COUNT]);
      const float b = trm_half_to_float(special[i % COUNT]);
      const float sum = a * b + third * third, got = ((float *)c.data[2])[i];
      if (isfinite(sum) ? !(fabsf(got - sum) <= 0x1p-15f * fabsf(a * b) + 0x1p-16f)
          : isnan(sum)  ? !isnan(got)
                        : got != sum) {
        fail_msg("%g times %g plus %g is %g", (double)a, (double)b, (double)(third * third),
                 (double)got);
      }
    }
    linear_run_free(&run);
    trm_kernel_destroy(&kernel);
    linear_case_free(&c);
  }
}

/* In a loop: the same bits whether the weights are packed for this run or for those before. */
static void check_packed(const dot_case *from, bool *out_packs) {
  linear_case c;
  linear_case_dot(&c, from, TRM_F32, TRM_F32);
  trm_kernel_request request = linear_case_request(&c);
  request.is_in_loop = true;
  trm_kernel kernel;
  trm_error error;
  bool supported = false;
  assert_int_equal(trm_dot_create(&request, &kernel, &supported, &error), TRM_OK);
  assert_true(supported);
  *out_packs = kernel.persistent_bytes > 0;
  const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
  void *plain = trm_allocate_aligned(bytes);
  linear_run run;
  linear_run_create(&run, &kernel, &c, c.data[2]);
  for (uint32_t version = 7; version < 9; ++version) {
    linear_case_fill(&c, version);
    for (int round = 0; round < 4; ++round) {
      run.versions[1] = round == 0 ? 0 : version;
      memset(c.data[2], 0xff, bytes);
      assert_int_equal(kernel.run(&kernel, &run.call, &error), TRM_OK);
      if (round == 0) memcpy(plain, c.data[2], bytes);
      else assert_memory_equal(plain, c.data[2], bytes);
    }
  }
  linear_run_free(&run);
  trm_free(plain);
  if (kernel.destroy != NULL) kernel.destroy(&kernel);
  linear_case_free(&c);
}

/* Layers and their gradients, one with sums that oneDNN would cut for the threads. */
static const dot_case small_products[] = {
    {"forward", 2, 2, {32, 784}, {784, 256}, "", "", "1", "0"},
    {"weight gradient", 2, 2, {32, 784}, {32, 256}, "", "", "0", "0"},
    {"weight gradient, odd sizes", 2, 2, {33, 785}, {33, 251}, "", "", "0", "0"},
    {"forward, odd sizes", 2, 2, {37, 785}, {785, 251}, "", "", "1", "0"},
    {"data gradient, odd sizes", 2, 2, {45, 333}, {123, 333}, "", "", "1", "1"},
    {"few columns", 2, 2, {150, 700}, {700, 19}, "", "", "1", "0"},
    {"data gradient", 2, 2, {32, 512}, {784, 512}, "", "", "1", "1"},
    {"long sums", 2, 2, {4096, 64}, {4096, 64}, "", "", "0", "0"},
    {"batch", 3, 3, {8, 64, 128}, {8, 128, 64}, "0", "0", "2", "1"},
    {"long sums, transposed", 2, 2, {64, 5000}, {64, 5000}, "", "", "1", "1"},
    {"long sums of a batch", 3, 3, {2, 4096, 64}, {2, 4096, 64}, "0", "0", "1", "1"},
    {"several tiles", 2, 2, {400, 300}, {300, 500}, "", "", "1", "0"},
    {"lines a page apart", 2, 2, {32, 256}, {256, 1024}, "", "", "1", "0"},
    {"transposed product, odd sizes", 2, 2, {61, 133}, {77, 133}, "", "", "1", "1"},
    {"transposed product, both sides", 2, 2, {133, 62}, {77, 133}, "", "", "0", "1"},
    {"all packed", 2, 2, {200, 133}, {77, 133}, "", "", "1", "1"},
    {"rows by blocks", 2, 2, {1500, 1100}, {1100, 45}, "", "", "1", "0"},
    {"gradient of many rows", 2, 2, {133, 400}, {133, 77}, "", "", "0", "0"},
};
static void packed_weights_give_the_same_bits(void **state) {
  (void)state;
  int packed = 0;
  bool packs;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    check_packed(&cases[i], &packs);
    packed += packs;
  }
  for (size_t i = 0; i < sizeof small_products / sizeof *small_products; ++i) {
    check_packed(&small_products[i], &packs);
    packed += packs;
  }
  /* Without AVX-512 and AVX2 a product is cut in tiles of sgemm, which take the weights as they
   * are, unless their lines are whole pages apart. */
  const bool has_sgemm =
      (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core;
  const trm_panel_product panels = {32, 256, 784, 784, 1, 256, 1, false};
  assert_true(has_sgemm && !trm_panel_product_serves(&panels, true) ? packed == 1 : packed > 10);
}

/* A large product packs its right side into scratch, however it lies, where oneDNN multiplies. */
static void large_products_pack_in_each_run(void **state) {
  (void)state;
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  if ((isa & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core) skip(); /* tiles of sgemm */
  for (size_t i = 0; i < 2; ++i) {
    linear_case c;
    linear_case_dot(&c, &large_products[i], TRM_F32, TRM_F32);
    const trm_kernel_request request = linear_case_request(&c);
    trm_kernel kernel;
    trm_error error;
    bool supported = false;
    assert_int_equal(trm_dot_create(&request, &kernel, &supported, &error), TRM_OK);
    assert_true(supported);
    if (kernel.scratch_bytes < trm_shape_bytes(&c.instructions[1].shape))
      fail_msg("%s is not packed", large_products[i].name);
    if (kernel.destroy != NULL) kernel.destroy(&kernel);
    linear_case_free(&c);
  }
}

/* Runs the kernel where waking others pays, where it does not, and again; the results are equal. */
static void run_both_ways(const trm_kernel *kernel, linear_case *c, void *first) {
  const size_t bytes = trm_shape_bytes(&c->instructions[2].shape);
  for (int i = 0; i < 3; ++i) {
    set_waking_cost(i % 2 == 0 ? 0 : 1000000);
    linear_run run;
    trm_error error;
    linear_run_create(&run, kernel, c, c->data[2]);
    assert_int_equal(kernel->run(kernel, &run.call, &error), TRM_OK);
    linear_run_free(&run);
    if (i == 0) memcpy(first, c->data[2], bytes);
    assert_memory_equal(c->data[2], first, bytes);
  }
}

static void check_threads(const dot_case *product, trm_dtype dtype, trm_dtype result) {
  static const int counts[] = {1, 2, 3, 5, 8, 16};
  enum { COUNTS = sizeof counts / sizeof *counts };
  const int before = omp_get_max_threads();
  linear_case c;
  linear_case_dot(&c, product, dtype, result);
  c.module.half_products = wanted;
  linear_case_fill(&c, 1);
  const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
  char *results[COUNTS];
  for (int t = 0; t < COUNTS; ++t) {
    results[t] = malloc(bytes);
    omp_set_num_threads(counts[t]);
    const trm_kernel_request request = linear_case_request(&c);
    trm_kernel kernel;
    bool supported = false;
    trm_error error;
    assert_int_equal(trm_dot_create(&request, &kernel, &supported, &error), TRM_OK);
    assert_true(supported);
    run_both_ways(&kernel, &c, results[t]);
    assert_int_equal(omp_get_max_threads(), counts[t]);
    if (memcmp(results[0], results[t], bytes) != 0) {
      fail_msg("%s: %s to %s gives other bits with %d threads than with one", product->name,
               kernel.name, trm_dtype_name(result), counts[t]);
    }
    trm_kernel_destroy(&kernel);
  }
  for (int t = 0; t < COUNTS; ++t) free(results[t]);
  linear_case_free(&c);
  omp_set_num_threads(before);
}

static void threads_do_not_change_products(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof small_products / sizeof *small_products; ++i) {
    check_threads(&small_products[i], TRM_F32, TRM_F32);
  }
  for (size_t i = 0; i < sizeof large_products / sizeof *large_products; ++i) {
    check_threads(&large_products[i], TRM_F32, TRM_F32);
  }
  for (size_t i = 0; i < sizeof vector_products / sizeof *vector_products; ++i) {
    check_threads(&vector_products[i], TRM_F32, TRM_F32);
  }
}

/* Long sums, which oneDNN orders in another way on one thread if it rounds them to bfloat16. */
enum { ROWS = IS_SANITIZED ? 64 : 512 };
static const dot_case half_products[] = {
    {"layer of a transformer", 2, 2, {ROWS, 3072}, {3072, 768}, "", "", "1", "0"},
    {"data gradient", 2, 2, {128, 3072}, {768, 3072}, "", "", "1", "1"},
    {"weight gradient", 2, 2, {1536, 1000}, {1536, 64}, "", "", "0", "0"},
};

static void threads_do_not_change_products_of_halves(void **state) {
  (void)state;
  wanted = TRM_HALF_PRODUCTS_BFLOAT16;
  for (size_t i = 0; i < sizeof half_products / sizeof *half_products; ++i) {
    check_threads(&half_products[i], TRM_BF16, TRM_BF16);
    check_threads(&half_products[i], TRM_BF16, TRM_F32);
  }
  wanted = TRM_HALF_PRODUCTS_PIECES3;
  for (size_t i = 0; i < sizeof half_products / sizeof *half_products; ++i) {
    check_threads(&half_products[i], TRM_F16, TRM_F16);
  }
  wanted = TRM_HALF_PRODUCTS_FLOAT;
}

/* Few rows: panels are shared among the threads, and rows are cut only where there are fewer
 * panels, so that each thread reads its own chunk of the right side. Many rows: each thread has its
 * own. */
static void panels_are_shared(void **state) {
  (void)state;
  const trm_panel_tiles *tiles = trm_panel_tiles_get();
  if (tiles == NULL) skip();
  const trm_panel_product lstm = {32, 1024, 256, 256, 1, 1024, 1, false};
  for (int threads = 1; threads <= 32; ++threads) {
    assert_int_equal(trm_panel_product_row_chunks(&lstm, threads), 1);
  }
  const trm_panel_product narrow = {80, tiles->wide + 3, 700, 700, 1, tiles->wide + 3, 1, false};
  assert_int_equal(trm_panel_product_row_chunks(&narrow, 2), 1);
  assert_int_equal(trm_panel_product_row_chunks(&narrow, 8), 4);
  const int64_t most = (80 + tiles->tall - 1) / tiles->tall;
  assert_int_equal(trm_panel_product_row_chunks(&narrow, 256), most);
  if (!tiles->reads_lines) return;
  /* Blocks of rows and panels, of which each thread gets some. */
  const trm_panel_product square = {784, 512, 1024, 1024, 1, 512, 1, false};
  assert_int_equal(trm_panel_product_row_chunks(&square, 1), 8);
  assert_int_equal(trm_panel_product_row_chunks(&square, 16), 8);
  const trm_panel_product tall = {3200, 1024, 256, 256, 1, 1024, 1, false};
  assert_true(trm_panel_product_row_chunks(&tall, 16) >= 32);
  /* The transposed product has the columns as rows. */
  const trm_panel_product gradient = {32, 512, 512, 512, 1, 1, 512, false};
  assert_int_equal(trm_panel_product_row_chunks(&gradient, 16), 16);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(panels_are_shared),
      cmocka_unit_test(float32_equals_the_reference),
      cmocka_unit_test(halves_round_once),
      cmocka_unit_test(packed_weights_give_the_same_bits),
      cmocka_unit_test(large_products_pack_in_each_run),
      cmocka_unit_test(bfloat16_rounds_once),
      cmocka_unit_test(halves_are_multiplied_in_pieces),
      cmocka_unit_test(infinities_and_nans_are_those_of_floats),
      cmocka_unit_test(threads_do_not_change_products),
      cmocka_unit_test(threads_do_not_change_products_of_halves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
