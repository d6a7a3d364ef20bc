/* The micro-kernel of products with one instruction set, which vector_words_*.inc.h describe by
 * macros: sums of `rows` rows and WIDE columns (two vectors) that stay in registers. `rows` is a
 * constant: at most 14 with AVX-512, 6 with AVX2.
 *
 * The right side is a packed panel: for each product of a sum a line of WIDE columns. The left side
 * is packed as each user likes: a number is `row` floats behind that of the row before, and `step`
 * floats behind the one that is multiplied before. Sums have the order of the lines. */

INLINE void NAME(clear_tile)(FLOATS sums[][2], const int rows) {
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i) sums[i][0] = sums[i][1] = ZERO();
}

/* Adds the products of a column of the left side and the line (a, b) of the right side. */
INLINE void NAME(add_line)(FLOATS sums[][2], const int rows, const float *left, int64_t row,
                           FLOATS a, FLOATS b) {
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i) {
    const FLOATS v = SET1(left[i * row]);
    sums[i][0] = FMA(v, a, sums[i][0]);
    sums[i][1] = FMA(v, b, sums[i][1]);
  }
}

/* The same for `depth` lines of a packed panel. */
INLINE void NAME(add_lines)(FLOATS sums[][2], const int rows, const float *left, int64_t row,
                            int64_t step, const float *right, int64_t depth) {
  for (int64_t k = 0; k < depth; ++k, left += step, right += WIDE) {
    NAME(add_line)(sums, rows, left, row, LOAD(right), LOAD(right + LANES));
  }
}

/* Writes the first `columns` columns of the first `some` rows, which lie `line` floats apart; adds
 * them to what is there if `adds`. */
INLINE void NAME(store_tile)(FLOATS sums[][2], const int rows, int64_t some, int64_t columns,
                             bool adds, float *to, int64_t line) {
  const MASK masks[2] = {MASK_OF(columns), MASK_OF(columns - LANES)};
  const bool is_whole = columns >= WIDE;
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i, to += line) {
    if (i >= some) break;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      float *const at = to + half * LANES;
      FLOATS v = sums[i][half];
      if (adds) v = ADD(v, LOAD_SOME(masks[half], at));
      if (is_whole) STORE_ANYWHERE(at, v);
      else STORE_SOME(at, masks[half], v);
    }
  }
}

/* Packs `depth` lines of `columns` columns, which lie `stride` floats apart, and zeros after the
 * last column. */
INLINE void NAME(pack_lines)(const float *from, int64_t stride, int64_t depth, int64_t columns,
                             float *to) {
  const MASK low = MASK_OF(columns), high = MASK_OF(columns - LANES);
  for (int64_t k = 0; k < depth; ++k, from += stride, to += WIDE) {
    STORE(to, LOAD_SOME(low, from));
    STORE(to + LANES, LOAD_SOME(high, from + LANES));
  }
}
