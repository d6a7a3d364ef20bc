/* Owns: the reference kernel of fft: one dimension after the other, in double. A line of n values
 * is divided by the prime factors of n (Cooley and Tukey, 1965); for a prime factor the definition
 * is summed. The transform runs over the last fft_length dimensions. */
#include "host/ops/reference.h"

#include <math.h>

enum { FFT, IFFT, RFFT, IRFFT };

/* State for lines of one length, in `scratch`, of 8 doubles for each value. */
typedef struct line_state {
  int64_t n;        /* the length of `twiddles`; 0: none yet */
  double *twiddles; /* cos and sin of 2 pi k / n, for each k below n */
  double *given;    /* the line: real and imaginary parts in turn */
  double *results;  /* its transform */
  double *terms;    /* what is put together: as many values as the factor */
} line_state;

static void prepare_twiddles(line_state *state, int64_t n) {
  if (state->n == n) return;
  state->n = n;
  for (int64_t k = 0; k < n; ++k) {
    const double angle = 2 * 3.14159265358979323846 * (double)k / (double)n;
    state->twiddles[2 * k] = cos(angle);
    state->twiddles[2 * k + 1] = sin(angle);
  }
}

/* (re, im) times the twiddle k; backwards where `sign` is -1. */
static inline void twiddle(const line_state *state, int64_t k, double sign, double *re,
                           double *im) {
  const double c = state->twiddles[2 * k], s = sign * state->twiddles[2 * k + 1];
  const double r = *re * c - *im * s, i = *re * s + *im * c;
  *re = r;
  *im = i;
}

/* The transforms of `factor` sub-sequences of m values each, which lie one after the other in
 * `out`, become that of all. */
static void put_together(const line_state *state, double *out, int64_t factor, int64_t m,
                         double sign) {
  const int64_t step = state->n / (factor * m); /* of twiddles that one value of all makes */
  double *const terms = state->terms;
  for (int64_t k = 0; k < m; ++k) {
    for (int64_t q = 0; q < factor; ++q) {
      terms[2 * q] = out[2 * (q * m + k)];
      terms[2 * q + 1] = out[2 * (q * m + k) + 1];
      twiddle(state, q * k * step, sign, &terms[2 * q], &terms[2 * q + 1]);
    }
    if (factor == 2) {
      out[2 * k] = terms[0] + terms[2];
      out[2 * k + 1] = terms[1] + terms[3];
      out[2 * (m + k)] = terms[0] - terms[2];
      out[2 * (m + k) + 1] = terms[1] - terms[3];
      continue;
    }
    for (int64_t r = 0; r < factor; ++r) {
      double re = 0.0, im = 0.0;
      int64_t at = 0; /* q r m step modulo n */
      for (int64_t q = 0; q < factor; ++q) {
        double a = terms[2 * q], b = terms[2 * q + 1];
        twiddle(state, at, sign, &a, &b);
        re += a;
        im += b;
        at += r * m * step;
        if (at >= state->n) at %= state->n;
      }
      out[2 * (r * m + k)] = re;
      out[2 * (r * m + k) + 1] = im;
    }
  }
}

static int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) return p;
  }
  return n;
}

/* The transform of every stride-th value from `in` on, n of them. As deep as n has factors. */
static void recurse(const line_state *state, const double *in, int64_t stride, double *out,
                    int64_t n, double sign) {
  if (n == 1) {
    out[0] = in[0];
    out[1] = in[1];
    return;
  }
  const int64_t factor = smallest_factor(n), m = n / factor;
  for (int64_t q = 0; q < factor; ++q) {
    recurse(state, in + 2 * q * stride, stride * factor, out + 2 * q * m, m, sign);
  }
  put_together(state, out, factor, m, sign);
}

/* Transforms the line of n values at `base` with `stride` in place. */
static void transform_line(double *re, double *im, int64_t base, int64_t stride, int64_t n,
                           bool is_inverse, line_state *state) {
  prepare_twiddles(state, n);
  for (int64_t k = 0; k < n; ++k) {
    state->given[2 * k] = re[base + k * stride];
    state->given[2 * k + 1] = im[base + k * stride];
  }
  recurse(state, state->given, 1, state->results, n, is_inverse ? 1 : -1);
  const double scale = is_inverse ? (double)n : 1;
  for (int64_t k = 0; k < n; ++k) {
    re[base + k * stride] = state->results[2 * k] / scale;
    im[base + k * stride] = state->results[2 * k + 1] / scale;
  }
}

/* One transform: `dims` are the fft_length dimensions of full size. */
static void transform(double *re, double *im, int32_t rank, const int64_t *dims, bool is_inverse,
                      line_state *state) {
  const int64_t count = trm_dims_count(rank, dims);
  int64_t stride = 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    const int64_t n = dims[d];
    for (int64_t i = 0; i < count / n; ++i) {
      transform_line(re, im, i / stride * stride * n + i % stride, stride, n, is_inverse, state);
    }
    stride *= n;
  }
}

static trm_status run_fft(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const int32_t type = state->instruction.fft_type;
  const trm_dims *lengths = &state->instruction.sizes;
  const int64_t full = trm_dims_count(lengths->count, lengths->items);
  if (full == 0 || trm_shape_count(&state->shape) == 0) return TRM_OK;
  double *const re = (double *)call->scratch, *const im = re + full, *const rest = im + full;
  int64_t longest = 0;
  for (int32_t d = 0; d < lengths->count; ++d) {
    if (lengths->items[d] > longest) longest = lengths->items[d];
  }
  line_state lines = {.twiddles = rest,
                      .given = rest + 2 * longest,
                      .results = rest + 4 * longest,
                      .terms = rest + 6 * longest};
  const int32_t last = lengths->count - 1;
  const int64_t n = lengths->items[last], half = n / 2 + 1;
  const int64_t input_last = type == IRFFT ? half : n, output_last = type == RFFT ? half : n;
  const int64_t rows = full / n;
  const trm_dtype from = state->operands[0].dtype, to = state->shape.dtype;
  const int64_t batches = trm_shape_count(&state->operands[0]) / (rows * input_last);
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t i = 0; i < full; ++i) re[i] = im[i] = 0.0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < input_last; ++i) {
        const trm_value value =
            trm_value_load(from, call->operands[0], (batch * rows + row) * input_last + i);
        re[row * n + i] = value.f;
        im[row * n + i] = value.imag;
      }
    }
    if (type == IRFFT) {
      /* Undo the other dimensions first; then each row is the half of a Hermitian line. */
      int64_t stride = n;
      for (int32_t d = last - 1; d >= 0; --d) {
        const int64_t size = lengths->items[d];
        for (int64_t i = 0; i < full / size; ++i) {
          transform_line(re, im, i / stride * stride * size + i % stride, stride, size, true,
                         &lines);
        }
        stride *= size;
      }
      for (int64_t row = 0; row < rows; ++row) {
        double *const r = re + row * n, *const m = im + row * n;
        m[0] = 0.0;
        if (n % 2 == 0) m[n / 2] = 0.0;
        for (int64_t i = half; i < n; ++i) r[i] = r[n - i], m[i] = -m[n - i];
        transform_line(r, m, 0, 1, n, true, &lines);
      }
    } else {
      transform(re, im, lengths->count, lengths->items, type == IFFT, &lines);
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < output_last; ++i) {
        trm_value_store(to, call->results[0], (batch * rows + row) * output_last + i,
                        (trm_value){{.f = re[row * n + i]}, im[row * n + i]});
      }
    }
  }
  return TRM_OK;
}

trm_status trm_reference_fft_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                    bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_dims *lengths = &instruction->sizes;
  const trm_shape *operand = trm_operand_shape(request, 0);
  *out_supported = true;
  int64_t longest = 0;
  if (lengths->count < 1 || lengths->count > operand->rank || instruction->fft_type < FFT ||
      instruction->fft_type > IRFFT) {
    return trm_reference_refuse(request, "its lengths do not fit its operand", error);
  }
  for (int32_t i = 0; i < lengths->count; ++i) {
    const bool is_last = i == lengths->count - 1;
    const int64_t n = lengths->items[i];
    const int64_t halved = is_last ? n / 2 + 1 : n;
    const int64_t in = instruction->fft_type == IRFFT ? halved : n;
    const int64_t out = instruction->fft_type == RFFT ? halved : n;
    const int32_t d = operand->rank - lengths->count + i;
    if (n > 0 && (operand->dims[d] != in || instruction->shape.dims[d] != out)) {
      return trm_reference_refuse(request, "its lengths do not fit its shapes", error);
    }
    if (n > longest) longest = n;
  }
  TRY(trm_reference_kernel_create(request, "reference.fft", run_fft, 0, out_kernel, error));
  const int64_t full = trm_dims_count(lengths->count, lengths->items);
  out_kernel->scratch_bytes = (size_t)(2 * full + 8 * longest) * sizeof(double);
  return TRM_OK;
}
