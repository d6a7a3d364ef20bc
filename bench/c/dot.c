/* Benchmark: HLO dots as TensorFlow emits them, through the kernels that the engine would use: RNN
 * cells, dense layers and their gradients, attention.
 *
 *   bench_dot [--half[=PRODUCTS]] [--loop] [WORD]     only products whose name contains WORD
 *
 * PRODUCTS: float, pieces3, pieces4 or bfloat16. --loop: as in a loop that does not change the
 * right side. Prints the best time of several and GFLOP/s. */
#include <math.h>
#include <omp.h>
#include <time.h>

#include "../../tests/c/ops/product_cases.h"

static trm_half_products half_products;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  trm_dtype dtype = TRM_F32;
  const char *word = "";
  bool is_in_loop = false;
  for (int i = 1; i < argc; ++i) {
    if (linear_case_halves(argv[i], &half_products)) dtype = TRM_F16;
    else if (strcmp(argv[i], "--loop") == 0) is_in_loop = true;
    else if (argv[i][0] != '-') word = argv[i];
    else {
      fprintf(stderr, "usage: %s [--half[=PRODUCTS]] [--loop] [WORD]\n", argv[0]);
      return 2;
    }
  }
  printf("%s, %d threads\n%-32s %10s %8s  kernel\n", trm_dtype_name(dtype), omp_get_max_threads(),
         "product", "us", "GFLOP/s");
  for (size_t i = 0; i < NUM_PRODUCT_CASES; ++i) {
    if (strstr(product_cases[i].name, word) == NULL) continue;
    static linear_case c;
    linear_case_dot(&c, &product_cases[i], dtype, dtype);
    c.module.half_products = half_products;
    linear_case_fill(&c, 1);
    trm_kernel_request request = linear_case_request(&c);
    request.is_in_loop = is_in_loop;
    trm_kernel kernel;
    bool supported = false;
    trm_error error;
    if (trm_dot_create(&request, &kernel, &supported, &error) != TRM_OK || !supported) {
      fprintf(stderr, "%s: no kernel\n", product_cases[i].name);
      return 1;
    }
    linear_run run;
    linear_run_create(&run, &kernel, &c, c.data[2]);
    run.versions[1] = 1;
    double best = 1e9;
    const double begin = now();
    for (int r = 0; r < 5 || (now() - begin < 0.4 && r < 20000); ++r) {
      const double start = now();
      if (kernel.run(&kernel, &run.call, &error) != TRM_OK) {
        fprintf(stderr, "%s: %s\n", product_cases[i].name, error.message);
        return 1;
      }
      best = fmin(best, now() - start);
    }
    const double work =
        2.0 * (double)trm_shape_count(&c.instructions[2].shape) * (double)c.contracted;
    printf("%-32s %10.2f %8.1f  %s\n", product_cases[i].name, best * 1e6, work / best * 1e-9,
           kernel.name);
    linear_run_free(&run);
    trm_kernel_destroy(&kernel);
    linear_case_free(&c);
  }
  return 0;
}
