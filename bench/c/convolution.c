/* Benchmark: the convolutions of ResNet-50 and ResNeXt-50 and -101, forward and both gradients, as
 * HLO instructions through the kernels that the engine would use.
 *
 *   bench_convolution [--half[=PRODUCTS]] [--batch N] [WORD]     only layers whose name contains
 * WORD
 *
 * PRODUCTS: float, pieces3, pieces4 or bfloat16. Prints the best time of several, GFLOP/s of the
 * multiplications that the layer asks for, and what that is of the machine's peak (measured:
 * independent FMAs of the widest vectors, all threads). */
#include <math.h>
#include <omp.h>
#include <time.h>

#include "../../tests/c/ops/product_cases.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef float lanes __attribute__((vector_size(64)));

#if defined(__x86_64__)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), noinline,
               optimize("fp-contract=fast")))
#endif
static float
multiply_add(int64_t rounds) {
  lanes sums[24];
  for (int i = 0; i < 24; ++i) sums[i] = (lanes){0} + (float)i;
  const lanes a = (lanes){0} + 0.5f, b = (lanes){0} + 0.25f;
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) sums[i] = sums[i] * a + b;
  }
  float total = 0;
  for (int i = 0; i < 24; ++i) total += sums[i][0];
  return total;
}

static double peak_gflops(void) {
  double best = 1e9;
  volatile float sink = 0;
  const int threads = omp_get_max_threads();
  for (int i = 0; i < 10; ++i) {
    const double start = now();
#pragma omp parallel
    {
      const float value = multiply_add(1000000);
#pragma omp critical
      sink += value;
    }
    best = fmin(best, now() - start);
  }
  return 1e6 * 24 * 16 * 2 * threads / best * 1e-9;
}

/* The best time of one kind of propagation in seconds; the kernel's name in *out_name. */
static trm_half_products half_products;

static double measure(const convolution_case *from, trm_dtype dtype, const char **out_name) {
  static linear_case c;
  linear_case_convolution(&c, from, dtype);
  c.module.half_products = half_products;
  linear_case_fill(&c, 1);
  const trm_kernel_request request = linear_case_request(&c);
  trm_kernel kernel;
  bool supported = false;
  trm_error error;
  if (trm_convolution_create(&request, &kernel, &supported, &error) != TRM_OK) {
    fprintf(stderr, "%s: %s\n", from->name, error.message);
    exit(1);
  }
  double best = NAN;
  *out_name = "-";
  if (supported) {
    *out_name = kernel.name;
    linear_run run;
    linear_run_create(&run, &kernel, &c, c.data[2]);
    run.versions[1] = 1;
    best = 1e9;
    const double begin = now();
    for (int i = 0; i < 5 || (now() - begin < 1.0 && i < 2000); ++i) {
      const double start = now();
      if (kernel.run(&kernel, &run.call, &error) != TRM_OK) exit(1);
      best = fmin(best, now() - start);
    }
    linear_run_free(&run);
    trm_kernel_destroy(&kernel);
  }
  linear_case_free(&c);
  return best;
}

int main(int argc, char **argv) {
  trm_dtype dtype = TRM_F32;
  int64_t batch = 8;
  const char *word = "";
  for (int i = 1; i < argc; ++i) {
    if (linear_case_halves(argv[i], &half_products)) dtype = TRM_F16;
    else if (strcmp(argv[i], "--batch") == 0 && i + 1 < argc) batch = atoll(argv[++i]);
    else if (argv[i][0] != '-') word = argv[i];
    else {
      fprintf(stderr, "usage: %s [--half[=PRODUCTS]] [--batch N] [WORD]\n", argv[0]);
      return 2;
    }
  }
  if (batch < 1) {
    fprintf(stderr, "--batch wants a number of at least 1\n");
    return 2;
  }
  const double peak = peak_gflops();
  printf("%s, batch %lld, %d threads, peak %.0f GFLOP/s\n", trm_dtype_name(dtype), (long long)batch,
         omp_get_max_threads(), peak);
  printf("%-26s %28s %28s %28s\n", "layer", "forward us  GFLOP/s  peak", "data us  GFLOP/s  peak",
         "weights us  GFLOP/s  peak");
  for (size_t i = 0; i < NUM_LAYER_CASES; ++i) {
    const layer_case_row *l = &layer_cases[i];
    if (strstr(l->name, word) == NULL) continue;
    const int64_t out = (l->size + l->stride - 1) / l->stride;
    const double work =
        2.0 * 1e-9 *
        (double)(batch * out * out * l->out * l->kernel * l->kernel * (l->in / l->groups));
    printf("%-26s", l->name);
    for (int form = 0; form < 3; ++form) {
      const char *name;
      const convolution_case from = layer_case(l, batch, form);
      const double seconds = measure(&from, dtype, &name);
      printf(" %12.0f %8.1f %4.0f%% ", seconds * 1e6, work / seconds, 100 * work / seconds / peak);
    }
    printf("\n");
  }
  return 0;
}
