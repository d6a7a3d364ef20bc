/* Owns: the search for the nearest name. */
#include "base/nearest.h"

#include <string.h>

enum { MAX_WORD = 63 };

static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  size_t row[MAX_WORD + 1];
  for (size_t j = 0; j <= b_length; ++j) row[j] = j;
  for (size_t i = 1; i <= a_length; ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b_length; ++j) {
      const size_t above = row[j];
      size_t best = diagonal + (a[i - 1] != b[j - 1]);
      if (above + 1 < best) best = above + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = above;
      row[j] = best;
    }
  }
  return row[b_length];
}

const char *trm_nearest_name(const char *word, const char *const *names, size_t count) {
  const size_t length = strlen(word);
  if (length > MAX_WORD) return NULL;
  const char *best = NULL;
  size_t best_distance = length / 2 + 2;
  for (size_t i = 0; i < count; ++i) {
    const size_t other = strlen(names[i]);
    if (other > MAX_WORD) continue;
    const size_t distance = edit_distance(word, length, names[i], other);
    if (distance < best_distance) {
      best_distance = distance;
      best = names[i];
    }
  }
  return best;
}
