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

#include "../../tests/c/ops/linear_case.h"

static const dot_case products[] = {
    {"lstm cell 1x64x256", 2, 2, {1, 64}, {64, 256}, "", "", "1", "0"},
    {"lstm cell 32x64x256", 2, 2, {32, 64}, {64, 256}, "", "", "1", "0"},
    {"lstm data gradient 1", 2, 2, {1, 256}, {64, 256}, "", "", "1", "1"},
    {"lstm data gradient 32", 2, 2, {32, 256}, {64, 256}, "", "", "1", "1"},
    {"lstm weight gradient 1", 2, 2, {1, 64}, {1, 256}, "", "", "0", "0"},
    {"lstm weight gradient 32", 2, 2, {32, 64}, {32, 256}, "", "", "0", "0"},
    {"tiny 4x4x4", 2, 2, {4, 4}, {4, 4}, "", "", "1", "0"},
    {"mlp 32x784x128", 2, 2, {32, 784}, {784, 128}, "", "", "1", "0"},
    {"mlp 32x784x256", 2, 2, {32, 784}, {784, 256}, "", "", "1", "0"},
    {"mlp weight gradient 784x32x256", 2, 2, {32, 784}, {32, 256}, "", "", "0", "0"},
    {"mlp 32x784x512", 2, 2, {32, 784}, {784, 512}, "", "", "1", "0"},
    {"mlp 32x512x512", 2, 2, {32, 512}, {512, 512}, "", "", "1", "0"},
    {"mlp data gradient 32x512x512", 2, 2, {32, 512}, {512, 512}, "", "", "1", "1"},
    {"mlp weight gradient 784x32x512", 2, 2, {32, 784}, {32, 512}, "", "", "0", "0"},
    {"policy 256x256x256", 2, 2, {256, 256}, {256, 256}, "", "", "1", "0"},
    {"policy data gradient 256", 2, 2, {256, 256}, {256, 256}, "", "", "1", "1"},
    {"policy weight gradient 256", 2, 2, {256, 256}, {256, 256}, "", "", "0", "0"},
    {"dense 100x768x768", 2, 2, {100, 768}, {768, 768}, "", "", "1", "0"},
    {"dense data gradient 100x768x768", 2, 2, {100, 768}, {768, 768}, "", "", "1", "1"},
    {"bert data gradient 768", 2, 2, {512, 768}, {768, 768}, "", "", "1", "1"},
    {"bert weight gradient 768", 2, 2, {512, 768}, {512, 768}, "", "", "0", "0"},
    {"mlp 32x128x10", 2, 2, {32, 128}, {128, 10}, "", "", "1", "0"},
    {"mlp data gradient 32x10x128", 2, 2, {32, 10}, {128, 10}, "", "", "1", "1"},
    {"mlp weight gradient 128x32x10", 2, 2, {32, 128}, {32, 10}, "", "", "0", "0"},
    {"fc 1x2048x1000", 2, 2, {1, 2048}, {2048, 1000}, "", "", "1", "0"},
    {"fc 8x2048x1000", 2, 2, {8, 2048}, {2048, 1000}, "", "", "1", "0"},
    {"fc data gradient 1", 2, 2, {1, 1000}, {2048, 1000}, "", "", "1", "1"},
    {"fc data gradient 8", 2, 2, {8, 1000}, {2048, 1000}, "", "", "1", "1"},
    {"fc weight gradient 8", 2, 2, {8, 2048}, {8, 1000}, "", "", "0", "0"},
    {"matrix and vector 1000x2048", 2, 1, {1000, 2048}, {2048}, "", "", "1", "0"},
    {"lstm 256 forward 32x256x1024", 2, 2, {32, 256}, {256, 1024}, "", "", "1", "0"},
    {"lstm 256 data gradient 32", 2, 2, {32, 1024}, {256, 1024}, "", "", "1", "1"},
    {"lstm 256 input 3200x256x1024", 2, 2, {3200, 256}, {256, 1024}, "", "", "1", "0"},
    {"bert 512x768x768", 2, 2, {512, 768}, {768, 768}, "", "", "1", "0"},
    {"bert 512x768x3072", 2, 2, {512, 768}, {768, 3072}, "", "", "1", "0"},
    {"bert 1024x768x3072", 2, 2, {1024, 768}, {768, 3072}, "", "", "1", "0"},
    {"bert 1024x3072x768", 2, 2, {1024, 3072}, {3072, 768}, "", "", "1", "0"},
    {"bert data gradient", 2, 2, {512, 3072}, {768, 3072}, "", "", "1", "1"},
    {"bert weight gradient", 2, 2, {512, 768}, {512, 3072}, "", "", "0", "0"},
    {"attention bhtd scores", 4, 4, {4, 12, 128, 64}, {4, 12, 128, 64}, "01", "01", "3", "3"},
    {"attention bhtd values", 4, 4, {4, 12, 128, 128}, {4, 12, 128, 64}, "01", "01", "3", "2"},
    {"attention bthd scores", 4, 4, {4, 128, 12, 64}, {4, 128, 12, 64}, "02", "02", "3", "3"},
    {"attention bthd values", 4, 4, {4, 12, 128, 128}, {4, 128, 12, 64}, "01", "02", "3", "1"},
    {"many 256 of 8x8x8", 3, 3, {256, 8, 8}, {256, 8, 8}, "0", "0", "2", "1"},
    {"bert weight gradient 1024", 2, 2, {1024, 768}, {1024, 3072}, "", "", "0", "0"},
    {"square 2048", 2, 2, {2048, 2048}, {2048, 2048}, "", "", "1", "0"},
    {"square 1024", 2, 2, {1024, 1024}, {1024, 1024}, "", "", "1", "0"},
};

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
  for (size_t i = 0; i < sizeof products / sizeof *products; ++i) {
    if (strstr(products[i].name, word) == NULL) continue;
    static linear_case c;
    linear_case_dot(&c, &products[i], dtype, dtype);
    c.module.half_products = half_products;
    linear_case_fill(&c, 1);
    trm_kernel_request request = linear_case_request(&c);
    request.is_in_loop = is_in_loop;
    trm_kernel kernel;
    bool supported = false;
    trm_error error;
    if (trm_onednn_dot_create(&request, &kernel, &supported, &error) != TRM_OK || !supported) {
      fprintf(stderr, "%s: no kernel\n", products[i].name);
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
        fprintf(stderr, "%s: %s\n", products[i].name, error.message);
        return 1;
      }
      best = fmin(best, now() - start);
    }
    const double work =
        2.0 * (double)trm_shape_count(&c.instructions[2].shape) * (double)c.contracted;
    printf("%-32s %10.2f %8.1f  %s\n", products[i].name, best * 1e6, work / best * 1e-9,
           kernel.name);
    linear_run_free(&run);
    trm_kernel_destroy(&kernel);
    linear_case_free(&c);
  }
  return 0;
}
