/* Owns: the reference kernel of "lapack_sgtsv_ffi" and the like: systems with a tridiagonal matrix,
 * by elimination with partial pivoting, in double.
 *
 * The operands are the diagonals dl, d, du, of n elements each, of which dl[0] and du[n - 1] do not
 * count, and the right sides [n, k]; all may have equal leading dimensions of a batch. The results
 * are the eliminated diagonals (dl: the second one above), the unknowns, and LAPACK's info. */
#include <complex.h>
#include <math.h>

#include "host/ops/products/reference_linear.h"
#include "host/ops/reference.h"

typedef double complex number;
enum { NUM_DIAGONALS = 3, NUM_ARRAYS = 4 };

static double one_norm(number z) { return fabs(creal(z)) + fabs(cimag(z)); }

/* Row i + 1 loses its element in column i. `below[i]` is that element, and becomes the second
 * element above the diagonal. Returns LAPACK's info: 0, or i + 1 for a pivot that is 0. */
static int64_t eliminate(int64_t n, int64_t k, number *below, number *d, number *du, number *b) {
  for (int64_t i = 0; i + 1 < n; ++i) {
    number *const row = &b[i * k], *const next = &b[(i + 1) * k];
    if (one_norm(d[i]) >= one_norm(below[i])) {
      if (d[i] == 0.0) return i + 1;
      const number factor = below[i] / d[i];
      d[i + 1] -= factor * du[i];
      for (int64_t j = 0; j < k; ++j) next[j] -= factor * row[j];
      below[i] = 0.0;
      continue;
    }
    const number factor = d[i] / below[i], diagonal = d[i + 1];
    d[i] = below[i];
    d[i + 1] = du[i] - factor * diagonal;
    below[i] = i + 2 < n ? du[i + 1] : 0.0;
    if (i + 2 < n) du[i + 1] = -factor * below[i];
    du[i] = diagonal;
    for (int64_t j = 0; j < k; ++j) {
      const number old = row[j];
      row[j] = next[j];
      next[j] = old - factor * next[j];
    }
  }
  return n > 0 && d[n - 1] == 0.0 ? n : 0;
}

static void substitute(int64_t n, int64_t k, const number *above, const number *d, const number *du,
                       number *b) {
  for (int64_t i = n; i-- > 0;) {
    for (int64_t j = 0; j < k; ++j) {
      number sum = b[i * k + j];
      if (i + 1 < n) sum -= du[i] * b[(i + 1) * k + j];
      if (i + 2 < n) sum -= above[i] * b[(i + 2) * k + j];
      b[i * k + j] = sum / d[i];
    }
  }
}

static trm_status run(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_shape *b = &state->operands[NUM_DIAGONALS];
  const trm_dtype dtype = b->dtype;
  const int64_t n = b->dims[b->rank - 2], k = b->dims[b->rank - 1];
  const int64_t systems = trm_shape_count(trm_shape_leaf(&state->shape, NUM_ARRAYS));
  number *part[NUM_ARRAYS];
  for (int a = 0; a < NUM_ARRAYS; ++a) part[a] = (number *)call->scratch + a * n;
  for (int64_t s = 0; s < systems; ++s) {
    for (int a = 0; a < NUM_ARRAYS; ++a) {
      const int64_t count = a == NUM_DIAGONALS ? n * k : n;
      for (int64_t i = 0; i < count; ++i) {
        const trm_value v = trm_value_load(dtype, call->operands[a], s * count + i);
        part[a][i] = CMPLX(v.f, v.imag);
      }
    }
    const int64_t info = eliminate(n, k, part[0] + 1, part[1], part[2], part[3]);
    if (info == 0) substitute(n, k, part[0] + 1, part[1], part[2], part[3]);
    for (int a = 0; a < NUM_ARRAYS; ++a) {
      const int64_t count = a == NUM_DIAGONALS ? n * k : n;
      for (int64_t i = 0; i < count; ++i) {
        trm_value_store(dtype, call->results[a], s * count + i,
                        (trm_value){{.f = creal(part[a][i])}, cimag(part[a][i])});
      }
    }
    trm_value_store(TRM_S32, call->results[NUM_ARRAYS], s, (trm_value){{.s = info}, 0.0});
  }
  return TRM_OK;
}

/* Whether a shape is the right sides', or a diagonal's, which has one dimension less. */
static bool fits(const trm_shape *shape, const trm_shape *b, int32_t fewer) {
  if (shape->dtype != b->dtype || shape->rank != b->rank - fewer) return false;
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (shape->dims[d] != b->dims[d]) return false;
  }
  return true;
}

trm_status trm_reference_tridiagonal_create(const trm_kernel_request *request,
                                            trm_kernel *out_kernel, bool *out_supported,
                                            trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *result = &instruction->shape;
  bool good =
      instruction->num_operands == NUM_ARRAYS && trm_shape_num_leaves(result) == NUM_ARRAYS + 1;
  const trm_shape *b = good ? trm_operand_shape(request, NUM_DIAGONALS) : NULL;
  *out_supported = true;
  if (good) {
    const trm_kind kind = trm_dtype_kind(b->dtype);
    const trm_shape *info = trm_shape_leaf(result, NUM_ARRAYS);
    good = (kind == TRM_KIND_FLOAT || kind == TRM_KIND_COMPLEX) && b->rank >= 2 &&
           info->dtype == TRM_S32 && info->rank == b->rank - 2;
  }
  for (int a = 0; a < NUM_ARRAYS && good; ++a) {
    const int32_t fewer = a == NUM_DIAGONALS ? 0 : 1;
    good = fits(trm_operand_shape(request, (uint32_t)a), b, fewer) &&
           fits(trm_shape_leaf(result, a), b, fewer);
  }
  if (!good) {
    return trm_reference_refuse(request, "it takes three diagonals [n] and right sides [n, k]",
                                error);
  }
  TRY(trm_reference_kernel_create(request, "reference.tridiagonal-solve", run, 0, out_kernel,
                                  error));
  out_kernel->scratch_bytes = (size_t)b->dims[b->rank - 2] *
                              (size_t)(NUM_DIAGONALS + b->dims[b->rank - 1]) * sizeof(number);
  return TRM_OK;
}
