/* Rotations of the rows of a matrix for dense.c, for one type: T, and NAME(x).
 *
 * The implicit QR steps work on two diagonals and note their rotations. Many of these are then
 * applied to one strip of columns after the other: a strip stays in the cache. */
#include "host/ops/algebra/dense_reflect.inc.h"

enum { NAME(STRIP) = 2 * VECTOR_BYTES / sizeof(T) };

/* Strips of columns, each row after row: element (i, j) of n rows. */
static inline T *NAME(strip_at)(T *strips, int64_t n, int64_t i, int64_t j) {
  return strips + (j / NAME(STRIP) * n + i) * NAME(STRIP) + j % NAME(STRIP);
}

static int64_t NAME(strips)(int64_t columns) { return (columns + NAME(STRIP) - 1) / NAME(STRIP); }

/* Of n rows: each sweep rotates a row with the next one, that one with the one behind it ... */
typedef struct NAME(sweeps) {
  T *strips; /* NULL: nothing is wanted */
  int64_t n, columns;
  int threads;
  int64_t num_sweeps, num_rotations;
  int64_t first[SWEEPS], step[SWEEPS], count[SWEEPS];
  T *cosines, *sines; /* room for SWEEPS * n */
} NAME(sweeps);

static void NAME(rotate_range)(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const NAME(sweeps) *s = context;
  enum { W = NAME(STRIP) };
  for (int64_t strip = begin; strip < end; ++strip) {
    T *const z = s->strips + strip * s->n * W;
    const T *c = s->cosines, *sine = s->sines;
    for (int64_t k = 0; k < s->num_sweeps; ++k) {
      T *row = z + s->first[k] * W;
      const int64_t step = s->step[k] * W;
      NAME(vector) carried[2];
      memcpy(carried, row, sizeof carried);
      for (int64_t i = 0; i < s->count[k]; ++i, ++c, ++sine, row += step) {
        NAME(vector) next[2], done[2];
        memcpy(next, row + step, sizeof next);
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
          done[h] = *c * carried[h] + *sine * next[h];
          carried[h] = *c * next[h] - *sine * carried[h];
        }
        memcpy(row, done, sizeof done);
      }
      memcpy(row, carried, sizeof carried);
    }
  }
}

static void NAME(flush)(NAME(sweeps) * s) {
  const int64_t strips = NAME(strips)(s->columns);
  run_chunks(s->threads, 4 * s->num_rotations * s->columns, strips, NAME(rotate_range), s);
  s->num_sweeps = s->num_rotations = 0;
}

static void NAME(begin_sweep)(NAME(sweeps) * s, int64_t first, int64_t step) {
  if (s->strips == NULL) return;
  if (s->num_sweeps == SWEEPS) NAME(flush)(s);
  s->first[s->num_sweeps] = first;
  s->step[s->num_sweeps] = step;
  s->count[s->num_sweeps++] = 0;
}

/* The carried row becomes c * it + s * the next one, the next one c * it - s * the carried one. */
static void NAME(add_rotation)(NAME(sweeps) * s, double c, double sine) {
  if (s->strips == NULL) return;
  ++s->count[s->num_sweeps - 1];
  s->cosines[s->num_rotations] = (T)c;
  s->sines[s->num_rotations++] = (T)sine;
}
