/* Owns: the tables of Fourier transforms, and choosing the build of fourier.c for this CPU. */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/fourier/fourier.h"

enum {
  MAX_PRIME = 31,
  LONGEST_WHOLE = 4096, /* longer lines do not stay in the cache with their neighbours */
  SHORTEST_SPLIT = 64,
};

extern const trm_fourier_ops trm_fourier_ops_baseline;
#if defined(__x86_64__)
extern const trm_fourier_ops trm_fourier_ops_avx2, trm_fourier_ops_avx512;
#endif

void trm_fourier_run(const trm_fourier_pass *pass, bool is_double) {
  const trm_fourier_ops *ops = &trm_fourier_ops_baseline;
#if defined(__x86_64__)
  const char *name = trm_vector_ops_get()->name;
  if (strcmp(name, "avx512") == 0) ops = &trm_fourier_ops_avx512;
  else if (strcmp(name, "avx2") == 0) ops = &trm_fourier_ops_avx2;
#endif
  ops->run[is_double](pass);
}

/* exp(-2 pi i k / n), exact to the last place, because the angle is reduced to an eighth of a
 * turn. */
static double complex twiddle(int64_t k, int64_t n) {
  k %= n;
  const int64_t eighth = 8 * k / n;
  static const int quarters[8] = {0, 1, 1, 2, 2, 3, 3, 4}; /* the nearest quarter */
  const int64_t rest = 4 * k - quarters[eighth] * n;
  const double angle = 2 * 3.14159265358979323846 * (double)rest / (4 * (double)n);
  const double c = cos(angle), s = sin(angle);
  switch (quarters[eighth] % 4) {
    case 0: return CMPLX(c, -s);
    case 1: return CMPLX(-s, -c);
    case 2: return CMPLX(-c, s);
    default: return CMPLX(s, c);
  }
}

static void put(void *table, int64_t i, double complex value, bool is_double) {
  if (is_double) {
    ((double *)table)[2 * i] = creal(value), ((double *)table)[2 * i + 1] = cimag(value);
  } else {
    ((float *)table)[2 * i] = (float)creal(value);
    ((float *)table)[2 * i + 1] = (float)cimag(value);
  }
}

static void *new_table(trm_arena *arena, int64_t count, bool is_double) {
  return ARENA_NEW(arena, char, (size_t)count *(is_double ? 16 : 8) + 64);
}

/* The factors of n: 4 before 2, then odd primes. False where one is too large. */
static bool factor(trm_fourier_line *line) {
  int64_t n = line->n;
  static const int64_t tried[] = {4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, MAX_PRIME};
  for (size_t i = 0; i < sizeof tried / sizeof *tried; ++i) {
    for (; n % tried[i] == 0; n /= tried[i]) line->factors[line->num_factors++] = tried[i];
  }
  return n == 1;
}

static trm_fourier_line *create_line(trm_arena *arena, int64_t n, bool is_double);

/* The transform of the chirp's conjugate by the definition's fast form in double. */
static bool fill_spectrum(trm_arena *arena, trm_fourier_line *line, bool is_double) {
  const int64_t n = line->n, m = line->power->n;
  double *const values = ARENA_NEW(arena, double, (size_t)(2 * m));
  trm_fourier_plan plan = {.n = m, .first = create_line(arena, m, true)};
  if (values == NULL || plan.first == NULL) return false;
  for (int64_t j = 0; j < n; ++j) {
    const double complex z = conj(twiddle(j * j % (2 * n), 2 * n)) / (double)m;
    values[2 * j] = creal(z), values[2 * j + 1] = cimag(z);
    if (j == 0) continue;
    values[2 * (m - j)] = creal(z), values[2 * (m - j) + 1] = cimag(z);
  }
  void *const scratch = trm_allocate_aligned(trm_fourier_scratch(&plan, true, 1));
  if (scratch == NULL) return false;
  const trm_fourier_pass pass = {.plan = &plan,
                                 .in = values,
                                 .out = values,
                                 .lines = 1,
                                 .stride = 1,
                                 .in_block = m,
                                 .out_block = m,
                                 .threads = 1,
                                 .scratch = scratch};
  trm_fourier_run(&pass, true);
  trm_free(scratch);
  for (int64_t k = 0; k < m; ++k) {
    put(line->spectrum, k, CMPLX(values[2 * k], values[2 * k + 1]), is_double);
  }
  return true;
}

static bool fill_chirp(trm_arena *arena, trm_fourier_line *line, bool is_double) {
  const int64_t n = line->n;
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  line->power = create_line(arena, m, is_double);
  line->chirp = new_table(arena, n, is_double);
  line->spectrum = new_table(arena, m, is_double);
  if (line->power == NULL || line->chirp == NULL || line->spectrum == NULL) return false;
  for (int64_t j = 0; j < n; ++j) {
    put(line->chirp, j, twiddle(j * j % (2 * n), 2 * n), is_double);
  }
  return fill_spectrum(arena, line, is_double);
}

static trm_fourier_line *create_line(trm_arena *arena, int64_t n, bool is_double) {
  trm_fourier_line *line = ARENA_NEW(arena, trm_fourier_line, 1);
  if (line == NULL) return NULL;
  line->n = n;
  if (!factor(line)) {
    return n <= TRM_CHIRP_MOST && fill_chirp(arena, line, is_double) ? line : NULL;
  }
  line->twiddles = new_table(arena, 2 * n, is_double);
  if (line->twiddles == NULL) return NULL;
  int64_t remaining = n, at = 0;
  for (int64_t f = 0; f < line->num_factors; ++f) {
    const int64_t r = line->factors[f], m = remaining / r;
    for (int64_t p = 0; p < m; ++p) {
      for (int64_t j = 0; j < r; ++j)
        put(line->twiddles, at++, twiddle(p * j, remaining), is_double);
    }
    remaining = m;
  }
  return line;
}

trm_fourier_plan *trm_fourier_plan_create(trm_arena *arena, int64_t n, int64_t lines,
                                          bool is_double) {
  trm_fourier_plan *plan = ARENA_NEW(arena, trm_fourier_plan, 1);
  if (plan == NULL) return NULL;
  plan->n = n;
  int64_t first = 1;
  if (n > LONGEST_WHOLE || (lines < 8 && n >= SHORTEST_SPLIT)) {
    for (int64_t d = 2; d * d <= n; ++d) {
      if (n % d == 0) first = d;
    }
  }
  plan->is_split = first >= 8;
  plan->first = create_line(arena, plan->is_split ? first : n, is_double);
  if (plan->first == NULL || !plan->is_split) return plan->first == NULL ? NULL : plan;
  plan->second = create_line(arena, n / first, is_double);
  plan->twiddles = new_table(arena, n, is_double);
  if (plan->second == NULL || plan->twiddles == NULL) return NULL;
  for (int64_t k = 0; k < n; ++k) put(plan->twiddles, k, twiddle(k, n), is_double);
  return plan;
}

size_t trm_fourier_scratch(const trm_fourier_plan *plan, bool is_double, int threads) {
  int64_t room = 0;
  const trm_fourier_line *const lines[2] = {plan->first, plan->second};
  for (int i = 0; i < 2 && lines[i] != NULL; ++i) {
    const int64_t n = lines[i]->power != NULL ? lines[i]->power->n : lines[i]->n;
    if (n > room) room = n;
  }
  const size_t between = plan->is_split ? (size_t)plan->n * (is_double ? 16 : 8) : 0;
  return between + (size_t)(room * threads * 2 + 2) * 2 * TRM_FOURIER_VECTOR_BYTES;
}
