/* Owns: the shapes of dot, convolution, and linear algebra. */
#include <inttypes.h>
#include <string.h>

#include "hlo/infer.h"

/* Dot and convolution may state another result type than the operands', of the same kind, or floats
 * for integers; without one the result has the operands': the float's, or the wider's. */
static trm_status choose_result_type(trm_inference *c, trm_dtype *out_dtype) {
  const trm_dtype left = trm_infer_operand(c, 0)->dtype, right = trm_infer_operand(c, 1)->dtype;
  const trm_dtype stated = c->instruction->shape.dtype;
  const bool alike = trm_dtype_is_floating(left) == trm_dtype_is_floating(right);
  const bool takes_left =
      alike ? trm_dtype_size(left) >= trm_dtype_size(right) : trm_dtype_is_floating(left);
  const trm_dtype wider = takes_left ? left : right;
  CHECK(c,
        left == right || ((trm_dtype_is_floating(left) || trm_dtype_is_integral(left)) &&
                          (trm_dtype_is_floating(right) || trm_dtype_is_integral(right))),
        "cannot multiply %s by %s", trm_dtype_name(left), trm_dtype_name(right));
  *out_dtype = stated == TRM_INVALID_TYPE ? wider : stated;
  CHECK(c,
        *out_dtype == wider || (trm_dtype_is_floating(wider) && trm_dtype_is_floating(stated)) ||
            (trm_dtype_is_integral(wider) &&
             (trm_dtype_is_integral(stated) || trm_dtype_is_floating(stated))) ||
            (trm_dtype_is_complex(wider) && trm_dtype_is_complex(stated)),
        "products of %s cannot be summed as %s", trm_dtype_name(wider), trm_dtype_name(stated));
  return TRM_OK;
}

/* Whoever asks for sums in float64 has operands of float64: others are added up in float32. */
static trm_status check_algorithm(trm_inference *c) {
  if (c->instruction->algorithm != TRM_DOT_F64_F64_F64) return TRM_OK;
  for (uint32_t i = 0; i < 2; ++i) {
    const trm_dtype dtype = trm_infer_operand(c, i)->dtype;
    CHECK(c, dtype == TRM_F64 || dtype == TRM_C128,
          "has algorithm=dot_f64_f64_f64, and operand %" PRIu32 " is %s: convert it to f64", i,
          trm_dtype_name(dtype));
  }
  return TRM_OK;
}

static trm_status check_paired(trm_inference *c, const char *what, const trm_dims *lhs,
                               const trm_dims *rhs) {
  const trm_shape *left = trm_infer_operand(c, 0), *right = trm_infer_operand(c, 1);
  CHECK(c, lhs->count == rhs->count, "has %d %s dimensions on the left and %d on the right",
        lhs->count, what, rhs->count);
  TRY(trm_infer_check_distinct(c, "the left side", lhs, left->rank));
  TRY(trm_infer_check_distinct(c, "the right side", rhs, right->rank));
  for (int32_t i = 0; i < lhs->count; ++i) {
    CHECK(c, left->dims[lhs->items[i]] == right->dims[rhs->items[i]],
          "%s dimension %" PRId64 " of %s and %" PRId64 " of %s must have equal sizes", what,
          lhs->items[i], trm_infer_text(c, left), rhs->items[i], trm_infer_text(c, right));
  }
  return TRM_OK;
}

static trm_status check_apart(trm_inference *c, const trm_dims *batch,
                              const trm_dims *contracting) {
  for (int32_t i = 0; i < batch->count; ++i) {
    CHECK(c, !trm_infer_contains(contracting, batch->items[i]),
          "dimension %" PRId64 " is both a batch and a contracting dimension", batch->items[i]);
  }
  return TRM_OK;
}

static int32_t add_free(const trm_shape *shape, const trm_dims *batch, const trm_dims *contracting,
                        int64_t *out, int32_t rank) {
  for (int32_t i = 0; i < shape->rank; ++i) {
    if (!trm_infer_contains(batch, i) && !trm_infer_contains(contracting, i)) {
      out[rank++] = shape->dims[i];
    }
  }
  return rank;
}

/* Gives the shape of a dot behind the dimensions `out`, of which there are `rank`. */
static trm_status give_products(trm_inference *c, trm_dtype dtype, const trm_dims *right_summed,
                                int64_t *out, int32_t rank) {
  const trm_dot *dot = c->instruction->dot;
  const trm_shape *left = trm_infer_operand(c, 0), *right = trm_infer_operand(c, 1);
  TRY(check_paired(c, "batch", &dot->lhs_batch, &dot->rhs_batch));
  TRY(check_paired(c, "contracting", &dot->lhs_contracting, &dot->rhs_contracting));
  TRY(check_apart(c, &dot->lhs_batch, &dot->lhs_contracting));
  TRY(check_apart(c, &dot->rhs_batch, &dot->rhs_contracting));
  for (int32_t i = 0; i < dot->lhs_batch.count; ++i) {
    out[rank++] = left->dims[dot->lhs_batch.items[i]];
  }
  rank = add_free(left, &dot->lhs_batch, &dot->lhs_contracting, out, rank);
  rank = add_free(right, &dot->rhs_batch, right_summed, out, rank);
  return trm_infer_give(c, dtype, rank, out);
}

static trm_status infer_dot(trm_inference *c, trm_dtype dtype) {
  int64_t out[2 * TRM_MAX_RANK];
  CHECK(c, c->instruction->dot != NULL, "has no dimension numbers");
  return give_products(c, dtype, &c->instruction->dot->rhs_contracting, out, 0);
}

trm_ragged_mode trm_dot_ragged_mode(const trm_dot *dot, int32_t lhs_rank, int64_t *out_outer,
                                    int32_t *out_num_outer) {
  const int64_t ragged = dot->lhs_ragged.items[0];
  const bool in_batch = trm_infer_contains(&dot->lhs_batch, ragged);
  const bool is_summed = trm_infer_contains(&dot->lhs_contracting, ragged);
  int32_t count = 0;
  for (int32_t i = 0; i < dot->lhs_batch.count && dot->lhs_batch.items[i] != ragged; ++i) {
    out_outer[count++] = dot->lhs_batch.items[i];
  }
  for (int32_t i = 0; is_summed && dot->lhs_contracting.items[i] != ragged; ++i) {
    out_outer[count++] = dot->lhs_contracting.items[i];
  }
  for (int32_t d = 0; !in_batch && !is_summed && d < ragged && d < lhs_rank; ++d) {
    if (!trm_infer_contains(&dot->lhs_batch, d) && !trm_infer_contains(&dot->lhs_contracting, d)) {
      out_outer[count++] = d;
    }
  }
  *out_num_outer = count;
  return in_batch ? TRM_RAGGED_BATCH : is_summed ? TRM_RAGGED_CONTRACTING : TRM_RAGGED_FREE;
}

/* The sizes of groups are for all outer elements, or for each of them. */
static trm_status check_group_sizes(trm_inference *c, const int64_t *outer, int32_t num_outer) {
  const trm_shape *left = trm_infer_operand(c, 0), *sizes = trm_infer_operand(c, 2);
  CHECK(c, trm_dtype_is_integral(sizes->dtype), "takes sizes of groups as integers, not %s",
        trm_infer_text(c, sizes));
  bool fits = sizes->rank == 1 || sizes->rank == num_outer + 1;
  for (int32_t i = 0; fits && i < sizes->rank - 1; ++i) {
    fits = sizes->dims[i] == left->dims[outer[i]];
  }
  CHECK(c, fits,
        "takes sizes of groups in one dimension, or with the %d dimensions of %s outside of "
        "the ragged one before it, not %s",
        num_outer, trm_infer_text(c, left), trm_infer_text(c, sizes));
  return TRM_OK;
}

static trm_status infer_ragged_dot(trm_inference *c, trm_dtype dtype) {
  const trm_dot *dot = c->instruction->dot;
  const trm_shape *left = trm_infer_operand(c, 0), *right = trm_infer_operand(c, 1);
  const trm_shape *sizes = trm_infer_operand(c, 2);
  int64_t out[2 * TRM_MAX_RANK + 1], outer[TRM_MAX_RANK], summed[TRM_MAX_RANK + 1];
  int32_t num_outer;
  CHECK(c, dot != NULL && dot->lhs_ragged.count == 1, "needs one dimension in lhs_ragged_dims");
  TRY(trm_infer_check_distinct(c, "the left side", &dot->lhs_ragged, left->rank));
  TRY(trm_infer_check_distinct(c, "the left side", &dot->lhs_batch, left->rank));
  TRY(trm_infer_check_distinct(c, "the left side", &dot->lhs_contracting, left->rank));
  const trm_ragged_mode mode = trm_dot_ragged_mode(dot, left->rank, outer, &num_outer);
  TRY(check_group_sizes(c, outer, num_outer));
  const int64_t groups = out[0] = sizes->dims[sizes->rank - 1];
  if (mode != TRM_RAGGED_FREE) {
    CHECK(c, dot->rhs_group.count == 0,
          "takes rhs_group_dims only where the ragged dimension is neither a batch nor a "
          "contracting one");
    return give_products(c, dtype, &dot->rhs_contracting, out, mode == TRM_RAGGED_CONTRACTING);
  }
  CHECK(c, dot->rhs_group.count == 1, "needs one dimension in rhs_group_dims");
  TRY(trm_infer_check_distinct(c, "the right side", &dot->rhs_group, right->rank));
  TRY(trm_infer_check_distinct(c, "the right side", &dot->rhs_contracting, right->rank));
  TRY(check_apart(c, &dot->rhs_group, &dot->rhs_contracting));
  TRY(check_apart(c, &dot->rhs_group, &dot->rhs_batch));
  CHECK(c, right->dims[dot->rhs_group.items[0]] == groups,
        "has %" PRId64 " sizes of groups, and %s has %" PRId64 " groups", groups,
        trm_infer_text(c, right), right->dims[dot->rhs_group.items[0]]);
  const int32_t count = dot->rhs_contracting.count;
  for (int32_t i = 0; i < count; ++i) summed[i] = dot->rhs_contracting.items[i];
  summed[count] = dot->rhs_group.items[0];
  return give_products(c, dtype, &(trm_dims){count + 1, summed}, out, 0);
}

/* Operands 2 and 3 scale blocks of 0 and 1: the sizes of an operand are multiples of its scale's.
 */
static trm_status infer_scaled_dot(trm_inference *c) {
  const trm_shape *stated = &c->instruction->shape;
  for (uint32_t i = 0; i < 4; ++i) {
    CHECK(c, trm_dtype_is_floating(trm_infer_operand(c, i)->dtype),
          "operand %" PRIu32 " must be of floating point, not %s", i,
          trm_infer_text(c, trm_infer_operand(c, i)));
  }
  for (uint32_t i = 0; i < 2; ++i) {
    const trm_shape *operand = trm_infer_operand(c, i), *scale = trm_infer_operand(c, i + 2);
    CHECK(c, scale->rank == operand->rank,
          "operand %" PRIu32 " is %s, its scale %s: they need as "
          "many dimensions",
          i, trm_infer_text(c, operand), trm_infer_text(c, scale));
    for (int32_t d = 0; d < operand->rank; ++d) {
      CHECK(c, scale->dims[d] > 0 && operand->dims[d] % scale->dims[d] == 0,
            "dimension %d of operand %" PRIu32 ", %s, is no multiple of its scale's, %s", d, i,
            trm_infer_text(c, operand), trm_infer_text(c, scale));
    }
  }
  CHECK(c, stated->dtype == TRM_INVALID_TYPE || trm_dtype_is_floating(stated->dtype),
        "gives floating point, not %s", trm_dtype_name(stated->dtype));
  return infer_dot(c, stated->dtype == TRM_INVALID_TYPE ? TRM_BF16 : stated->dtype);
}

/* Checks that batch, feature and spatial dimensions are all dimensions, once each. */
static trm_status check_labels(trm_inference *c, const char *what, int32_t rank, int64_t first,
                               int64_t second, const int64_t *spatial, int32_t num_spatial) {
  int64_t labels[TRM_MAX_RANK];
  CHECK(c, rank == num_spatial + 2 && rank <= TRM_MAX_RANK,
        "the %s has %d dimensions where its labels have %d", what, rank, num_spatial + 2);
  labels[0] = first, labels[1] = second;
  for (int32_t i = 0; i < num_spatial; ++i) labels[2 + i] = spatial[i];
  const trm_dims dims = {rank, labels};
  return trm_infer_check_distinct(c, what, &dims, rank);
}

static trm_status infer_convolution(trm_inference *c) {
  const trm_convolution *n = c->instruction->convolution;
  const trm_shape *input = trm_infer_operand(c, 0), *kernel = trm_infer_operand(c, 1);
  trm_dtype dtype;
  CHECK(c, n != NULL, "has no dimension numbers");
  const int32_t spatial = n->spatial_rank;
  TRY(check_labels(c, "input", input->rank, n->input_batch, n->input_feature, n->input_spatial,
                   spatial));
  TRY(check_labels(c, "kernel", kernel->rank, n->kernel_input_feature, n->kernel_output_feature,
                   n->kernel_spatial, spatial));
  TRY(check_labels(c, "output", spatial + 2, n->output_batch, n->output_feature, n->output_spatial,
                   spatial));
  TRY(choose_result_type(c, &dtype));
  const int64_t feature_groups = n->feature_group_count, batch_groups = n->batch_group_count;
  const int64_t batch = input->dims[n->input_batch], features = input->dims[n->input_feature];
  const int64_t kernel_in = kernel->dims[n->kernel_input_feature];
  const int64_t kernel_out = kernel->dims[n->kernel_output_feature];
  CHECK(c, feature_groups >= 1 && batch_groups >= 1 && (feature_groups == 1 || batch_groups == 1),
        "feature_group_count %" PRId64 " and batch_group_count %" PRId64
        " must be at least 1, and one of them 1",
        feature_groups, batch_groups);
  CHECK(c, features % feature_groups == 0 && features / feature_groups == kernel_in,
        "the input %s has %" PRId64 " features in %" PRId64 " groups; the kernel %s takes %" PRId64,
        trm_infer_text(c, input), features, feature_groups, trm_infer_text(c, kernel), kernel_in);
  CHECK(c, kernel_out % feature_groups == 0 && kernel_out % batch_groups == 0,
        "the %" PRId64 " output features of the kernel are not a multiple of the group count",
        kernel_out);
  CHECK(c, batch % batch_groups == 0,
        "the batch of %" PRId64 " is not a multiple of %" PRId64 ", the batch_group_count", batch,
        batch_groups);
  int64_t base[TRM_MAX_RANK], positions[TRM_MAX_RANK], out[TRM_MAX_RANK];
  for (int32_t i = 0; i < spatial; ++i) {
    base[i] = input->dims[n->input_spatial[i]];
  }
  TRY(trm_infer_window(c, c->instruction->window, spatial, base, positions));
  for (int32_t i = 0; i < spatial; ++i) {
    const int64_t size = kernel->dims[n->kernel_spatial[i]];
    CHECK(c, c->instruction->window->dims[i].size == size,
          "dimension %d of its window has size %" PRId64 " and the kernel %s has %" PRId64, i,
          c->instruction->window->dims[i].size, trm_infer_text(c, kernel), size);
    out[n->output_spatial[i]] = positions[i];
  }
  out[n->output_batch] = batch / batch_groups;
  out[n->output_feature] = kernel_out;
  return trm_infer_give(c, dtype, spatial + 2, out);
}

static trm_status check_square(trm_inference *c, const trm_shape *a) {
  CHECK(c, trm_dtype_is_floating(a->dtype) || trm_dtype_is_complex(a->dtype),
        "is not defined for element type %s", trm_dtype_name(a->dtype));
  CHECK(c, a->rank >= 2 && a->dims[a->rank - 1] == a->dims[a->rank - 2],
        "takes square matrices, not %s", trm_infer_text(c, a));
  return TRM_OK;
}

static trm_status infer_triangular_solve(trm_inference *c) {
  const trm_triangular_solve *solve = c->instruction->triangular_solve;
  const trm_shape *a = trm_infer_operand(c, 0), *b = trm_infer_operand(c, 1);
  CHECK(c, solve != NULL && solve->transpose_a >= 1 && solve->transpose_a <= 3,
        "does not say whether to transpose");
  TRY(check_square(c, a));
  CHECK(c,
        b->dtype == a->dtype && b->rank == a->rank &&
            memcmp(a->dims, b->dims, (size_t)(a->rank - 2) * sizeof *a->dims) == 0 &&
            b->dims[b->rank - (solve->left_side ? 2 : 1)] == a->dims[a->rank - 1],
        "%s and %s do not fit", trm_infer_text(c, a), trm_infer_text(c, b));
  return trm_infer_give_same(c, b);
}

static trm_status infer_fft(trm_inference *c) {
  enum { FFT, IFFT, RFFT, IRFFT };
  const trm_shape *operand = trm_infer_operand(c, 0);
  const trm_dims *length = &c->instruction->sizes;
  const int32_t type = c->instruction->fft_type;
  CHECK(c, type >= FFT && type <= IRFFT, "has the type number %d, which is not known", type);
  CHECK(c, length->count >= 1 && length->count <= 3 && length->count <= operand->rank,
        "fft_length has %d dimensions, for the operand %s", length->count,
        trm_infer_text(c, operand));
  const bool takes_real = type == RFFT;
  CHECK(c,
        takes_real ? operand->dtype == TRM_F32 || operand->dtype == TRM_F64
                   : trm_dtype_is_complex(operand->dtype),
        "this kind takes %s numbers, not %s", takes_real ? "real" : "complex",
        trm_infer_text(c, operand));
  int64_t out[TRM_MAX_RANK];
  memcpy(out, operand->dims, (size_t)operand->rank * sizeof *out);
  const int32_t first = operand->rank - length->count;
  for (int32_t i = 0; i < length->count; ++i) {
    const int64_t size = length->items[i];
    CHECK(c, size >= 0 && size < (int64_t)1 << 40, "fft_length has the size %" PRId64, size);
    const bool is_halved = i == length->count - 1 && (type == RFFT || type == IRFFT);
    const int64_t half = size == 0 ? 0 : size / 2 + 1;
    const int64_t wanted = is_halved && type == IRFFT ? half : size;
    CHECK(c, out[first + i] == wanted,
          "fft_length %" PRId64 " needs %" PRId64 " elements in dimension %d of %s", size, wanted,
          first + i, trm_infer_text(c, operand));
    if (is_halved) out[first + i] = type == RFFT ? half : size;
  }
  const trm_dtype in = operand->dtype;
  const trm_dtype dtype = type == RFFT    ? (in == TRM_F32 ? TRM_C64 : TRM_C128)
                          : type == IRFFT ? (in == TRM_C64 ? TRM_F32 : TRM_F64)
                                          : in;
  return trm_infer_give(c, dtype, operand->rank, out);
}

trm_status trm_infer_linear(trm_inference *c) {
  TRY(trm_infer_check_arrays(c));
  TRY(check_algorithm(c));
  switch (c->instruction->opcode) {
    case TRM_OP_DOT: {
      trm_dtype dtype;
      TRY(choose_result_type(c, &dtype));
      return infer_dot(c, dtype);
    }
    case TRM_OP_RAGGED_DOT: {
      trm_dtype dtype;
      TRY(choose_result_type(c, &dtype));
      return infer_ragged_dot(c, dtype);
    }
    case TRM_OP_SCALED_DOT: return infer_scaled_dot(c);
    case TRM_OP_CONVOLUTION: return infer_convolution(c);
    case TRM_OP_CHOLESKY:
      TRY(check_square(c, trm_infer_operand(c, 0)));
      return trm_infer_give_same(c, trm_infer_operand(c, 0));
    case TRM_OP_TRIANGULAR_SOLVE: return infer_triangular_solve(c);
    case TRM_OP_FFT: return infer_fft(c);
    default: return trm_infer_fail(c, TRM_UNIMPLEMENTED, "is not supported");
  }
}
