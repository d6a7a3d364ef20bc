/* Reference kernel of fft: the sums as they are defined, one dimension after the other, in double.
 * The transform runs over the last fft_length dimensions. */
#include "ops/reference.h"

#include <math.h>

enum { FFT, IFFT, RFFT, IRFFT };

/* Transforms the line of n values at `base` with `stride` in place. */
static void transform_line(double *re, double *im, int64_t base, int64_t stride, int64_t n,
                           bool is_inverse, double *line) {
  const double pi = 3.14159265358979323846;
  for (int64_t k = 0; k < n; ++k) {
    double sum_re = 0.0, sum_im = 0.0;
    for (int64_t j = 0; j < n; ++j) {
      /* j * k modulo n: the angle stays small and exact. */
      const int64_t turns = (int64_t)((__uint128_t)j * (__uint128_t)k % (__uint128_t)n);
      const double angle = (is_inverse ? 2.0 : -2.0) * pi * (double)turns / (double)n;
      const double c = cos(angle), s = sin(angle);
      const double a = re[base + j * stride], b = im[base + j * stride];
      sum_re += a * c - b * s;
      sum_im += a * s + b * c;
    }
    line[2 * k] = is_inverse ? sum_re / (double)n : sum_re;
    line[2 * k + 1] = is_inverse ? sum_im / (double)n : sum_im;
  }
  for (int64_t k = 0; k < n; ++k) {
    re[base + k * stride] = line[2 * k];
    im[base + k * stride] = line[2 * k + 1];
  }
}

/* One transform: `dims` are the fft_length dimensions of full size. */
static void transform(double *re, double *im, int32_t rank, const int64_t *dims, bool is_inverse,
                      double *line) {
  const int64_t count = trm_dims_count(rank, dims);
  int64_t stride = 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    const int64_t n = dims[d];
    for (int64_t i = 0; i < count / n; ++i) {
      transform_line(re, im, i / stride * stride * n + i % stride, stride, n, is_inverse, line);
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
  double *const re = (double *)call->scratch, *const im = re + full, *const line = im + full;
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
          transform_line(re, im, i / stride * stride * size + i % stride, stride, size, true, line);
        }
        stride *= size;
      }
      for (int64_t row = 0; row < rows; ++row) {
        double *const r = re + row * n, *const m = im + row * n;
        m[0] = 0.0;
        if (n % 2 == 0) m[n / 2] = 0.0;
        for (int64_t i = half; i < n; ++i) r[i] = r[n - i], m[i] = -m[n - i];
        transform_line(r, m, 0, 1, n, true, line);
      }
    } else {
      transform(re, im, lengths->count, lengths->items, type == IFFT, line);
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
  out_kernel->scratch_bytes = (size_t)(2 * full + 2 * longest) * sizeof(double);
  return TRM_OK;
}
