/* The transforms of fourier.c for one type: T, and NAME(x) for its functions. */

typedef T NAME(vector) __attribute__((vector_size(VECTOR_BYTES)));
enum { NAME(WIDTH) = VECTOR_BYTES / sizeof(T) };

/* A value of each line. */
typedef struct NAME(value) {
  NAME(vector) re, im;
} NAME(value);

#define VALUE NAME(value)
#define ADD(a, b) ((VALUE){(a).re + (b).re, (a).im + (b).im})
#define SUBTRACT(a, b) ((VALUE){(a).re - (b).re, (a).im - (b).im})
/* a times c + i s */
#define TWIDDLE(a, c, s) ((VALUE){(a).re * (c) - (a).im * (s), (a).re * (s) + (a).im * (c)})

/* One step for a factor r: values p + k m of a line become r p + j, each in turn for `stride`
 * values that lie side by side (Stockham). */
static void NAME(step_2)(const VALUE *x, VALUE *y, const T *twiddles, int64_t m, int64_t stride) {
  for (int64_t p = 0; p < m; ++p, twiddles += 4) {
    for (int64_t q = 0; q < stride; ++q) {
      const VALUE a = x[q + stride * p], b = x[q + stride * (p + m)];
      const VALUE difference = SUBTRACT(a, b);
      y[q + stride * 2 * p] = ADD(a, b);
      y[q + stride * (2 * p + 1)] = TWIDDLE(difference, twiddles[2], twiddles[3]);
    }
  }
}

static void NAME(step_4)(const VALUE *x, VALUE *y, const T *twiddles, int64_t m, int64_t stride) {
  for (int64_t p = 0; p < m; ++p, twiddles += 8) {
    for (int64_t q = 0; q < stride; ++q) {
      const VALUE *const from = x + q + stride * p;
      const VALUE a = from[0], b = from[stride * m], c = from[stride * 2 * m],
                  d = from[stride * 3 * m];
      const VALUE ac = ADD(a, c), bd = ADD(b, d), a_c = SUBTRACT(a, c), b_d = SUBTRACT(b, d);
      const VALUE two = SUBTRACT(ac, bd);
      const VALUE one = {a_c.re + b_d.im, a_c.im - b_d.re};
      const VALUE three = {a_c.re - b_d.im, a_c.im + b_d.re};
      VALUE *const to = y + q + stride * 4 * p;
      to[0] = ADD(ac, bd);
      to[stride] = TWIDDLE(one, twiddles[2], twiddles[3]);
      to[2 * stride] = TWIDDLE(two, twiddles[4], twiddles[5]);
      to[3 * stride] = TWIDDLE(three, twiddles[6], twiddles[7]);
    }
  }
}

/* Any odd factor: values k and r - k are put together, which halves the products. */
static void NAME(step_odd)(const VALUE *x, VALUE *y, const T *twiddles, int64_t m, int64_t stride,
                           int64_t r) {
  T cosines[MAX_PRIME], sines[MAX_PRIME];
  for (int64_t k = 0; k < r; ++k) {
    cosines[k] = (T)cos(2 * PI * (double)k / (double)r);
    sines[k] = (T)sin(2 * PI * (double)k / (double)r);
  }
  for (int64_t p = 0; p < m; ++p, twiddles += 2 * r) {
    for (int64_t q = 0; q < stride; ++q) {
      VALUE sums[MAX_PRIME / 2 + 1], differences[MAX_PRIME / 2 + 1];
      const VALUE zero = x[q + stride * p];
      VALUE all = zero;
      for (int64_t k = 1; k <= r / 2; ++k) {
        const VALUE a = x[q + stride * (p + k * m)], b = x[q + stride * (p + (r - k) * m)];
        sums[k] = ADD(a, b);
        differences[k] = SUBTRACT(a, b);
        all = ADD(all, sums[k]);
      }
      VALUE *const to = y + q + stride * r * p;
      to[0] = all;
      for (int64_t j = 1; j <= r / 2; ++j) {
        VALUE even = zero, odd = {{0}, {0}};
        for (int64_t k = 1; k <= r / 2; ++k) {
          const T c = cosines[j * k % r], s = sines[j * k % r];
          even.re += sums[k].re * c, even.im += sums[k].im * c;
          odd.re += differences[k].im * s, odd.im -= differences[k].re * s;
        }
        const VALUE low = ADD(even, odd), high = SUBTRACT(even, odd);
        const int64_t other = r - j;
        to[j * stride] = TWIDDLE(low, twiddles[2 * j], twiddles[2 * j + 1]);
        to[other * stride] = TWIDDLE(high, twiddles[2 * other], twiddles[2 * other + 1]);
      }
    }
  }
}

/* Transforms line->n values in x; `spare` has room for as many. Returns where they are: x or
 * spare. */
static VALUE *NAME(transform_factors)(const trm_fourier_line *line, VALUE *x, VALUE *spare) {
  const T *twiddles = line->twiddles;
  int64_t m = line->n, stride = 1;
  for (int64_t f = 0; f < line->num_factors; ++f) {
    const int64_t r = line->factors[f];
    m /= r;
    if (r == 2) NAME(step_2)(x, spare, twiddles, m, stride);
    else if (r == 4) NAME(step_4)(x, spare, twiddles, m, stride);
    else NAME(step_odd)(x, spare, twiddles, m, stride, r);
    twiddles += 2 * m * r;
    stride *= r;
    VALUE *const t = x;
    x = spare, spare = t;
  }
  return x;
}

static VALUE *NAME(transform)(const trm_fourier_line *line, VALUE *x, VALUE *spare) {
  if (line->power == NULL) return NAME(transform_factors)(line, x, spare);
  const int64_t n = line->n, m = line->power->n;
  const T *const chirp = line->chirp, *const spectrum = line->spectrum;
  for (int64_t j = 0; j < n; ++j) x[j] = TWIDDLE(x[j], chirp[2 * j], chirp[2 * j + 1]);
  memset(x + n, 0, (size_t)(m - n) * sizeof *x);
  VALUE *y = NAME(transform_factors)(line->power, x, spare);
  VALUE *const other = y == x ? spare : x;
  for (int64_t k = 0; k < m; ++k) { /* real and imaginary parts change places: backwards */
    const VALUE product = TWIDDLE(y[k], spectrum[2 * k], spectrum[2 * k + 1]);
    y[k] = (VALUE){product.im, product.re};
  }
  y = NAME(transform_factors)(line->power, y, other);
  for (int64_t k = 0; k < n; ++k) {
    const VALUE turned = {y[k].im, y[k].re};
    y[k] = TWIDDLE(turned, chirp[2 * k], chirp[2 * k + 1]);
  }
  return y;
}

/* ---- Lines in arrays ------------------------------------------------------------------------ */

/* The lines that are in a vector: lane l is element e + l * step of the line at offsets[l]. */
typedef struct NAME(group) {
  int64_t count; /* lanes in use */
  int64_t in[NAME(WIDTH)], out[NAME(WIDTH)], step;
} NAME(group);

static void NAME(load)(const trm_fourier_pass *pass, const NAME(group) * group, int64_t e,
                       VALUE *value) {
  enum { W = NAME(WIDTH) };
  T re[W] = {0}, im[W] = {0};
  const T *const in = pass->in;
  const int64_t n = pass->plan->n;
  for (int64_t l = 0; l < group->count; ++l, e += group->step) {
    const bool is_mirrored = pass->in_kind == TRM_FOURIER_HALF && e > n / 2;
    const int64_t at = group->in[l] + (is_mirrored ? n - e : e) * pass->stride;
    if (pass->in_kind == TRM_FOURIER_REAL) {
      re[l] = in[at];
      continue;
    }
    re[l] = in[2 * at];
    im[l] = is_mirrored ? -in[2 * at + 1] : in[2 * at + 1];
    if (pass->in_kind == TRM_FOURIER_HALF && (e == 0 || 2 * e == n)) im[l] = 0;
  }
  memcpy(pass->is_inverse ? &value->im : &value->re, re, sizeof re);
  memcpy(pass->is_inverse ? &value->re : &value->im, im, sizeof im);
}

static void NAME(store)(const trm_fourier_pass *pass, const NAME(group) * group, int64_t e,
                        const VALUE *value) {
  enum { W = NAME(WIDTH) };
  T re[W], im[W], *const out = pass->out;
  const int64_t n = pass->plan->n, end = pass->out_kind == TRM_FOURIER_HALF ? n / 2 + 1 : n;
  memcpy(re, pass->is_inverse ? &value->im : &value->re, sizeof re);
  memcpy(im, pass->is_inverse ? &value->re : &value->im, sizeof im);
  for (int64_t l = 0; l < group->count && e < end; ++l, e += group->step) {
    const int64_t at = group->out[l] + e * pass->stride;
    if (pass->out_kind == TRM_FOURIER_REAL) {
      out[at] = re[l];
      continue;
    }
    out[2 * at] = re[l];
    out[2 * at + 1] = im[l];
  }
}

static int64_t NAME(room)(const trm_fourier_line *line) {
  return line->power != NULL ? line->power->n : line->n;
}

/* Whole complex lines, a few values of each at a time: what load and store do, sooner. */
static void NAME(load_lines)(const trm_fourier_pass *pass, const NAME(group) * group, VALUE *x) {
  enum { W = NAME(WIDTH) };
  const int64_t n = pass->plan->n, step = 2 * pass->stride;
  if (group->count < W) memset(x, 0, (size_t)n * sizeof *x);
  for (int64_t first = 0; first < n; first += AT_ONCE) {
    const int64_t end = trm_least(n, first + AT_ONCE);
    for (int64_t l = 0; l < group->count; ++l) {
      const T *const from = (const T *)pass->in + 2 * group->in[l];
      T *const to = (T *)x + l;
      const int64_t re = pass->is_inverse ? W : 0, im = W - re;
      for (int64_t e = first; e < end; ++e) {
        to[2 * W * e + re] = from[e * step];
        to[2 * W * e + im] = from[e * step + 1];
      }
    }
  }
}

static void NAME(store_lines)(const trm_fourier_pass *pass, const NAME(group) * group,
                              const VALUE *y) {
  enum { W = NAME(WIDTH) };
  const int64_t n = pass->plan->n, step = 2 * pass->stride;
  for (int64_t first = 0; first < n; first += AT_ONCE) {
    const int64_t end = trm_least(n, first + AT_ONCE);
    for (int64_t l = 0; l < group->count; ++l) {
      T *const to = (T *)pass->out + 2 * group->out[l];
      const T *const from = (const T *)y + l;
      const int64_t re = pass->is_inverse ? W : 0, im = W - re;
      for (int64_t e = first; e < end; ++e) {
        to[e * step] = from[2 * W * e + re];
        to[e * step + 1] = from[2 * W * e + im];
      }
    }
  }
}

/* An inverse transform is divided by n. */
static void NAME(scale)(const trm_fourier_pass *pass, VALUE *y, int64_t count) {
  const T n = (T)pass->plan->n;
  for (int64_t e = 0; e < count && pass->is_inverse; ++e) y[e].re /= n, y[e].im /= n;
}

/* Groups of lines, each transformed whole. */
static void NAME(whole_range)(const void *context, int64_t begin, int64_t end, int thread) {
  const trm_fourier_pass *pass = context;
  enum { W = NAME(WIDTH) };
  const trm_fourier_line *line = pass->plan->first;
  const int64_t n = line->n, room = NAME(room)(line);
  VALUE *const x = (VALUE *)pass->scratch + thread * 2 * room, *const spare = x + room;
  for (int64_t g = begin; g < end; ++g) {
    NAME(group) group = {.count = trm_least(W, pass->lines - g * W)};
    for (int64_t l = 0; l < group.count; ++l) {
      const int64_t i = g * W + l, outer = i / pass->stride, inner = i % pass->stride;
      group.in[l] = outer * pass->in_block + inner, group.out[l] = outer * pass->out_block + inner;
    }
    if (pass->in_kind == TRM_FOURIER_COMPLEX) {
      NAME(load_lines)(pass, &group, x);
    } else {
      for (int64_t e = 0; e < n; ++e) NAME(load)(pass, &group, e, &x[e]);
    }
    VALUE *const y = NAME(transform)(line, x, spare);
    NAME(scale)(pass, y, n);
    if (pass->out_kind == TRM_FOURIER_COMPLEX) {
      NAME(store_lines)(pass, &group, y);
    } else {
      for (int64_t e = 0; e < n; ++e) NAME(store)(pass, &group, e, &y[e]);
    }
  }
}

/* One line of n1 n2: elements j1 n2 + j2 become k1 + n1 k2. */
typedef struct NAME(split) {
  const trm_fourier_pass *pass;
  int64_t in, out;
  T *between;     /* [n1, n2] */
  VALUE *scratch; /* behind it */
} NAME(split);

static void NAME(first_range)(const void *context, int64_t begin, int64_t end, int thread) {
  const NAME(split) *s = context;
  enum { W = NAME(WIDTH) };
  const trm_fourier_line *line = s->pass->plan->first;
  const int64_t n1 = line->n, n2 = s->pass->plan->second->n, room = NAME(room)(line);
  const T *const twiddles = s->pass->plan->twiddles;
  VALUE *const x = s->scratch + thread * 2 * room, *const spare = x + room;
  for (int64_t g = begin; g < end; ++g) {
    NAME(group) group = {.count = trm_least(W, n2 - g * W), .step = 1};
    for (int64_t l = 0; l < group.count; ++l) group.in[l] = s->in;
    for (int64_t j = 0; j < n1; ++j) NAME(load)(s->pass, &group, j * n2 + g * W, &x[j]);
    const VALUE *const y = NAME(transform)(line, x, spare);
    for (int64_t k = 0; k < n1; ++k) {
      T re[W], im[W];
      memcpy(re, &y[k].re, sizeof re);
      memcpy(im, &y[k].im, sizeof im);
      for (int64_t l = 0; l < group.count; ++l) {
        const int64_t j = g * W + l;
        const T c = twiddles[2 * (j * k)], t = twiddles[2 * (j * k) + 1];
        T *const to = s->between + 2 * (k * n2 + j);
        to[0] = re[l] * c - im[l] * t;
        to[1] = re[l] * t + im[l] * c;
      }
    }
  }
}

static void NAME(second_range)(const void *context, int64_t begin, int64_t end, int thread) {
  const NAME(split) *s = context;
  enum { W = NAME(WIDTH) };
  const trm_fourier_line *line = s->pass->plan->second;
  const int64_t n1 = s->pass->plan->first->n, n2 = line->n, room = NAME(room)(line);
  VALUE *const x = s->scratch + thread * 2 * room, *const spare = x + room;
  for (int64_t g = begin; g < end; ++g) {
    NAME(group) group = {.count = trm_least(W, n1 - g * W), .step = 1};
    for (int64_t l = 0; l < group.count; ++l) group.out[l] = s->out;
    for (int64_t j = 0; j < n2; ++j) {
      T re[W] = {0}, im[W] = {0};
      for (int64_t l = 0; l < group.count; ++l) {
        const T *const from = s->between + 2 * ((g * W + l) * n2 + j);
        re[l] = from[0], im[l] = from[1];
      }
      memcpy(&x[j].re, re, sizeof re);
      memcpy(&x[j].im, im, sizeof im);
    }
    VALUE *const y = NAME(transform)(line, x, spare);
    NAME(scale)(s->pass, y, n2);
    for (int64_t k = 0; k < n2; ++k) NAME(store)(s->pass, &group, n1 * k + g * W, &y[k]);
  }
}

static void NAME(run)(const trm_fourier_pass *pass) {
  enum { W = NAME(WIDTH) };
  const trm_fourier_plan *plan = pass->plan;
  const int64_t n = plan->n;
  if (!plan->is_split) {
    run_chunks(pass->threads, pass->lines * n, (pass->lines + W - 1) / W, NAME(whole_range), pass);
    return;
  }
  const int64_t n1 = plan->first->n, n2 = plan->second->n;
  NAME(split) s = {.pass = pass, .between = pass->scratch};
  s.scratch = (VALUE *)pass->scratch + (2 * n + 2 * W - 1) / (2 * W);
  for (int64_t i = 0; i < pass->lines; ++i) {
    const int64_t outer = i / pass->stride, inner = i % pass->stride;
    s.in = outer * pass->in_block + inner, s.out = outer * pass->out_block + inner;
    run_chunks(pass->threads, n, (n2 + W - 1) / W, NAME(first_range), &s);
    run_chunks(pass->threads, n, (n1 + W - 1) / W, NAME(second_range), &s);
  }
}

#undef VALUE
#undef ADD
#undef SUBTRACT
#undef TWIDDLE
