/* The blocked product of dense.c, for one type: T, and NAME(x) for its functions.
 *
 * A panel of b, as wide as a vector, stays in the first-level cache while rows of a pass over it;
 * sums of up to DEPTH products are kept in registers, six rows at a time. The order of a sum
 * depends on its length only. */

typedef T NAME(vector) __attribute__((vector_size(VECTOR_BYTES)));
enum { NAME(WIDTH) = VECTOR_BYTES / sizeof(T) };

static void NAME(pack_left)(const T *a, int64_t rows, int64_t columns, int64_t count, int64_t depth,
                            T *out) {
  for (int64_t r = 0; r < ROWS; ++r) {
    if (r >= count) {
      for (int64_t p = 0; p < depth; ++p) out[p * ROWS + r] = 0;
    } else if (columns == 1) {
      for (int64_t p = 0; p < depth; ++p) out[p * ROWS + r] = a[r * rows + p];
    } else {
      for (int64_t p = 0; p < depth; ++p) out[p * ROWS + r] = a[r * rows + p * columns];
    }
  }
}

static void NAME(pack_right)(const T *b, int64_t rows, int64_t columns, int64_t count,
                             int64_t depth, T *out) {
  enum { W = NAME(WIDTH) };
  for (int64_t p = 0; p < depth; ++p) {
    if (columns == 1 && count == W) {
      memcpy(out + p * W, b + p * rows, VECTOR_BYTES);
      continue;
    }
    for (int64_t j = 0; j < W; ++j) out[p * W + j] = j < count ? b[p * rows + j * columns] : 0;
  }
}

/* `count` x `width` of c get ROWS x WIDTH sums of `depth` products. */
static void NAME(tile)(const T *a, const T *b, int64_t depth, bool subtracts, T *c, int64_t stride,
                       int64_t count, int64_t width) {
  enum { W = NAME(WIDTH) };
  NAME(vector) sums[ROWS];
#pragma GCC unroll 6
  for (int r = 0; r < ROWS; ++r) sums[r] = (NAME(vector)){0};
  for (int64_t p = 0; p < depth; ++p) {
    NAME(vector) right;
    memcpy(&right, b + p * W, sizeof right);
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; ++r) sums[r] += a[p * ROWS + r] * right;
  }
  T parts[ROWS * W];
#pragma GCC unroll 6
  for (int r = 0; r < ROWS; ++r) memcpy(parts + r * W, &sums[r], sizeof sums[r]);
  for (int64_t r = 0; r < count; ++r) {
    T *const to = c + r * stride;
    const T *const sum = parts + r * W;
    if (width == W && subtracts) {
      for (int64_t j = 0; j < W; ++j) to[j] -= sum[j];
    } else if (width == W) {
      for (int64_t j = 0; j < W; ++j) to[j] += sum[j];
    } else {
      for (int64_t j = 0; j < width; ++j) to[j] = subtracts ? to[j] - sum[j] : to[j] + sum[j];
    }
  }
}

static void NAME(multiply)(const trm_dense_product *p) {
  enum { W = NAME(WIDTH) };
  T right[PANELS * DEPTH * W] __attribute__((aligned(64)));
  T left[DEPTH * ROWS] __attribute__((aligned(64)));
  const T *const a = p->a.data, *const b = p->b.data;
  T *const c = p->c;
  for (int64_t j0 = 0; j0 < p->n; j0 += PANELS * W) {
    const int64_t n = trm_least(p->n - j0, PANELS * W);
    for (int64_t p0 = 0; p0 < p->k; p0 += DEPTH) {
      const int64_t depth = trm_least(p->k - p0, DEPTH);
      for (int64_t j = 0; j < n; j += W) {
        NAME(pack_right)
        (b + p0 * p->b.rows + (j0 + j) * p->b.columns, p->b.rows, p->b.columns, trm_least(n - j, W),
         depth, right + j * DEPTH);
      }
      for (int64_t i = 0; i < p->m; i += ROWS) {
        const int64_t count = trm_least(p->m - i, ROWS);
        NAME(pack_left)
        (a + i * p->a.rows + p0 * p->a.columns, p->a.rows, p->a.columns, count, depth, left);
        for (int64_t j = 0; j < n; j += W) {
          NAME(tile)
          (left, right + j * DEPTH, depth, p->subtracts, c + i * p->stride + j0 + j, p->stride,
           count, trm_least(n - j, W));
        }
      }
    }
  }
}
