/* Packing and multiplying panels with one instruction set, which panel_tiles.c describes by
 * macros. */

TARGET void NAME(pack_columns)(const float *from, int64_t stride, int64_t depth, int64_t columns,
                               float *to) {
  float lines[LANES * LANES] __attribute__((aligned(64)));
  int64_t done = 0;
  for (; done + LANES <= depth; done += LANES) {
    for (int64_t half = 0; half < WIDE; half += LANES) {
      const float *some = from + half * stride + done;
      float *turned = to + done * WIDE + half;
      if (half + LANES <= columns) {
        TRANSPOSE(some, stride, turned, WIDE);
        continue;
      }
      for (int64_t c = 0; c < LANES; ++c) {
        STORE(lines + c * LANES, half + c < columns ? LOAD_ANYWHERE(some + c * stride) : ZERO());
      }
      TRANSPOSE(lines, LANES, turned, WIDE);
    }
  }
  for (int64_t c = 0; c < WIDE; ++c) {
    for (int64_t k = done; k < depth; ++k) {
      to[k * WIDE + c] = c < columns ? from[c * stride + k] : 0.0f;
    }
  }
}

/* Writes a tile of sums as columns. */
INLINE void NAME(store_swapped)(const trm_panel_tile *t, FLOATS sums[TALL][2], float *out,
                                const int rows) {
  float lines[LANES * LANES] __attribute__((aligned(64)));
  float turned[LANES * LANES] __attribute__((aligned(64)));
  const MASK some = MASK_OF(rows);
  for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 14
    for (int i = 0; i < rows; ++i) STORE(lines + i * LANES, sums[i][half]);
    for (int i = rows; i < LANES; ++i) STORE(lines + i * LANES, ZERO());
    TRANSPOSE(lines, LANES, turned, LANES);
    for (int64_t c = 0; c < LANES && half * LANES + c < t->columns; ++c) {
      STORE_SOME(out + (half * LANES + c) * t->out_row, some, LOAD(turned + c * LANES));
    }
  }
}

TARGET void NAME(widen)(const uint16_t *from, int64_t count, float *to) {
  for (int64_t i = 0; i < count; i += LANES) {
    STORE_SOME(to + i, MASK_OF(count - i), LOAD_HALF(from + i, count - i));
  }
}

INLINE FLOATS NAME(load)(const trm_panel_tile *t, const void *line, int half, const form kind,
                         MASK some) {
  if (kind == HALF_PART || kind == HALF_WHOLE) {
    const int64_t remaining = kind == HALF_WHOLE ? LANES : t->columns - half * LANES;
    return LOAD_HALF((const uint16_t *)line + half * LANES, remaining);
  }
  const float *from = (const float *)line + half * LANES;
  return kind == PART ? LOAD_SOME(some, from) : LOAD_ANYWHERE(from);
}

INLINE void NAME(store)(const trm_panel_tile *t, int64_t at, int half, const form kind, MASK some,
                        FLOATS v) {
  if (kind == HALF_PART || kind == HALF_WHOLE) {
    const int64_t remaining = kind == HALF_WHOLE ? LANES : t->columns - half * LANES;
    STORE_HALF((uint16_t *)t->out + at + half * LANES, remaining, v);
  } else if (kind == PART) {
    STORE_SOME((float *)t->out + at + half * LANES, some, v);
  } else {
    STORE_ANYWHERE((float *)t->out + at + half * LANES, v);
  }
}

/* Rows from `row` on. Every `interval` iterations a line of the next panel is fetched,
 * from iteration `first` on. */
INLINE void NAME(multiply_rows)(const trm_panel_tile *t, int64_t row, int64_t first,
                                int64_t interval, const int rows, const form kind) {
  FLOATS sums[TALL][2];
  const MASK masks[2] = {MASK_OF(t->columns), MASK_OF(t->columns - LANES)};
  const int64_t size = kind == HALF_PART || kind == HALF_WHOLE ? 2 : 4, out = row * t->out_row;
  NAME(clear_tile)(sums, rows);
  if (kind <= WHOLE && t->adds) {
    const float *from = (const float *)t->out + out;
#pragma GCC unroll 14
    for (int i = 0; i < rows; ++i, from += t->out_row) {
      sums[i][0] = LOAD_SOME(masks[0], from);
      sums[i][1] = LOAD_SOME(masks[1], from + LANES);
    }
  }
  const char *rhs = t->rhs;
  const float *lhs = t->lhs + row * t->lhs_row;
  int64_t wait = first;
  for (int64_t k = 0; k < t->depth; ++k, rhs += t->rhs_line * size, lhs += t->lhs_inner) {
    if (wait-- == 0) {
      _mm_prefetch(rhs + t->next * size, _MM_HINT_T1);
      if (size == 4 && LANES == 16) _mm_prefetch(rhs + t->next * size + 64, _MM_HINT_T1);
      wait = interval;
    }
    NAME(add_line)
    (sums, rows, lhs, t->lhs_row, NAME(load)(t, rhs, 0, kind, masks[0]),
     NAME(load)(t, rhs, 1, kind, masks[1]));
  }
  if (kind == SWAPPED) {
    NAME(store_swapped)(t, sums, (float *)t->out + row, rows);
    return;
  }
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i) {
    NAME(store)(t, out + i * t->out_row, 0, kind, masks[0], sums[i][0]);
    NAME(store)(t, out + i * t->out_row, 1, kind, masks[1], sums[i][1]);
  }
}

/* A function for each number of rows: the sums are registers. */
#define ROWS(n)                                                                              \
  TARGET void NAME(rows_##n)(const trm_panel_tile *t, form kind, int64_t row, int64_t first, \
                             int64_t interval) {                                             \
    switch (kind) {                                                                          \
      case PART: NAME(multiply_rows)(t, row, first, interval, n, PART); break;               \
      case WHOLE: NAME(multiply_rows)(t, row, first, interval, n, WHOLE); break;             \
      case HALF_PART: NAME(multiply_rows)(t, row, first, interval, n, HALF_PART); break;     \
      case HALF_WHOLE: NAME(multiply_rows)(t, row, first, interval, n, HALF_WHOLE); break;   \
      case SWAPPED: NAME(multiply_rows)(t, row, first, interval, n, SWAPPED); break;         \
    }                                                                                        \
  }
EACH_ROWS(ROWS)
#undef ROWS

TARGET void NAME(multiply)(const trm_panel_tile *t, int64_t rows) {
#define ROWS(n) [n] = NAME(rows_##n),
  static void (*const each[])(const trm_panel_tile *, form, int64_t, int64_t,
                              int64_t) = {EACH_ROWS(ROWS)};
#undef ROWS
  const bool is_whole = t->columns >= WIDE;
  const form kind = t->is_swapped ? SWAPPED
                    : t->is_half  ? (is_whole ? HALF_WHOLE : HALF_PART)
                                  : (is_whole ? WHOLE : PART);
  const int64_t tiles = (rows + TALL - 1) / TALL;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t row = trm_range_begin(rows, i, tiles);
    each[trm_range_begin(rows, i + 1, tiles) - row](t, kind, row, t->next != 0 ? i : INT64_MAX,
                                                    tiles - 1);
  }
}
