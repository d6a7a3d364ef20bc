/* Owns: Fourier transforms of lines (fourier.h). The file is compiled once for each instruction
 * set, with TRM_ISA as its name; fourier_plan.c chooses one. */
#include "host/ops/fourier/fourier.h"
#include "base/integers.h"

#include <math.h>
#include <string.h>

#include "host/ops/threads.h"

/* The bytes of a register, because GCC splits wider vectors badly. Results do not depend on it. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define PI 3.14159265358979323846
enum { MAX_PRIME = 31, AT_ONCE = 8 };

static void run_chunks(int threads, int64_t values, int64_t count, trm_range_fn function,
                       const void *context) {
  const int worth = threads <= 1 ? 1 : trm_threads_for((size_t)values * 48);
  trm_parallel_ranges(worth < threads ? worth : threads, count, function, context);
}

#define CONCATENATE_(a, b) a##b
#define CONCATENATE(a, b) CONCATENATE_(a, b)

#define T float
#define NAME(x) CONCATENATE(x, _f32)
#include "host/ops/fourier/fourier_lines.inc.h"
#undef T
#undef NAME
#define T double
#define NAME(x) CONCATENATE(x, _f64)
#include "host/ops/fourier/fourier_lines.inc.h"

extern const trm_fourier_ops CONCATENATE(trm_fourier_ops_, TRM_ISA);
const trm_fourier_ops CONCATENATE(trm_fourier_ops_, TRM_ISA) = {.run = {run_f32, run_f64}};
