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

#include "../../tests/c/ops/linear_case.h"

typedef struct layer {
  const char *name;
  int64_t size, in, out, kernel, stride, groups;
} layer;

static const layer layers[] = {
    {"resnet.conv1 7x7/2", 224, 3, 64, 7, 2, 1},
    {"resnet.conv2 1x1", 56, 64, 64, 1, 1, 1},
    {"resnet.conv2 3x3", 56, 64, 64, 3, 1, 1},
    {"resnet.conv2 1x1 up", 56, 64, 256, 1, 1, 1},
    {"resnet.conv3 1x1/2", 56, 256, 512, 1, 2, 1},
    {"resnet.conv3 3x3/2", 56, 128, 128, 3, 2, 1},
    {"resnet.conv3 3x3", 28, 128, 128, 3, 1, 1},
    {"resnet.conv3 1x1 up", 28, 128, 512, 1, 1, 1},
    {"resnet.conv4 3x3", 14, 256, 256, 3, 1, 1},
    {"resnet.conv4 1x1 up", 14, 256, 1024, 1, 1, 1},
    {"resnet.conv5 3x3", 7, 512, 512, 3, 1, 1},
    {"resnet.conv5 1x1 up", 7, 512, 2048, 1, 1, 1},
    {"resnext.conv2 g32 4", 56, 128, 128, 3, 1, 32},
    {"resnext.conv3 g32 8/2", 56, 256, 256, 3, 2, 32},
    {"resnext.conv3 g32 8", 28, 256, 256, 3, 1, 32},
    {"resnext.conv4 g32 16", 14, 512, 512, 3, 1, 32},
    {"resnext.conv5 g32 32", 7, 1024, 1024, 3, 1, 32},
    {"mobilenet.depthwise 112", 112, 32, 32, 3, 1, 32},
    {"mobilenet.depthwise 14", 14, 512, 512, 3, 1, 512},
};

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
  if (trm_onednn_convolution_create(&request, &kernel, &supported, &error) != TRM_OK) {
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
  for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i) {
    const layer *l = &layers[i];
    if (strstr(l->name, word) == NULL) continue;
    const int64_t k = l->kernel, s = l->stride, g = l->groups;
    const int64_t out = (l->size + s - 1) / s;
    const int64_t pad = (out - 1) * s + k - l->size, low = pad > 0 ? pad / 2 : 0;
    const int64_t high = pad > 0 ? pad - low : 0;
    const int64_t data_high = l->size - ((out - 1) * s + 1) - (k - 1 - low) + k - 1;
    const trm_window_dimension wf = {0, s, low, high, 1, 1, false};
    const trm_window_dimension wd = {0, 1, k - 1 - low, data_high, 1, s, true};
    const trm_window_dimension ww = {0, 1, low, pad - low, s, 1, false};
    const convolution_case forms[3] = {
        {l->name,
         "b01f_01io->b01f",
         {batch, l->size, l->size, l->in},
         {k, k, l->in / g, l->out},
         {wf, wf},
         g,
         1},
        {l->name,
         "b01f_01oi->b01f",
         {batch, out, out, l->out},
         {k, k, l->in, l->out / g},
         {wd, wd},
         g,
         1},
        {l->name,
         "f01b_i01o->01bf",
         {batch, l->size, l->size, l->in},
         {batch, out, out, l->out},
         {ww, ww},
         1,
         g},
    };
    const double work = 2.0 * (double)(batch * out * out * l->out * k * k * (l->in / g)) * 1e-9;
    printf("%-26s", l->name);
    for (int form = 0; form < 3; ++form) {
      const char *name;
      const double seconds = measure(&forms[form], dtype, &name);
      printf(" %12.0f %8.1f %4.0f%% ", seconds * 1e6, work / seconds, 100 * work / seconds / peak);
    }
    printf("\n");
  }
  return 0;
}
