/* Owns: choosing the chunks of a gradient of weights, and adding their sums. */
#include "host/ops/convolutions/gradient_chunks.h"

#include "base/limits.h"
#include "host/ops/threads.h"

enum { LANES = 16 }; /* channels */

/* The largest number of chunks, up to `most`, into which `count` divides equally, with at least
 * `least` units in each. A chunk consists of whole `unit`s. */
static int64_t equal_chunks(int64_t count, int64_t most, int64_t least, int64_t unit) {
  int64_t chunks = most;
  while (chunks > 1 && (count % (chunks * unit) != 0 || count / chunks < least)) --chunks;
  return chunks;
}

trm_gradient_chunks trm_gradient_chunks_choose(const trm_convolution_problem *p) {
  trm_gradient_chunks chunks = {1, 1, false};
  int64_t x = p->in_channels, y = p->out_channels, positions = 1, kernel = 1;
  for (int i = 0; i < p->spatial; ++i) {
    x *= p->x_size[i], positions *= p->y_size[i], kernel *= p->k_size[i];
  }
  y *= positions;
  const double operations =
      2.0 * (double)(p->batch * p->groups) * (double)y * (double)(p->in_channels * kernel);
  if (operations < TRM_ONEDNN_GRADIENT_LEAST_OPERATIONS) return chunks;
  const int64_t least = (TRM_GRADIENT_LEAST_SUMMED + positions - 1) / positions;
  chunks.images = equal_chunks(p->batch, TRM_GRADIENT_CHUNKS, least, 1);
  if (p->groups > 1) return chunks;
  chunks.slices_x = x < y;
  chunks.slices =
      equal_chunks(chunks.slices_x ? p->in_channels : p->out_channels,
                   TRM_GRADIENT_CHUNKS / chunks.images, TRM_ONEDNN_GRADIENT_LEAST_SLICE, LANES);
  return chunks;
}

typedef struct job {
  int64_t chunks, count;
  const float *from;
  float *to;
} job;

static void sum_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *own = context;
  for (int64_t chunk = 1; chunk < own->chunks; ++chunk) {
    const float *from = own->from + chunk * own->count;
    for (int64_t i = begin; i < end; ++i) own->to[i] += from[i];
  }
}

void trm_gradient_sum_run(const void *data, const void *a, const void *b, void *out) {
  (void)b;
  const trm_gradient_sum *sum = data;
  const job own = {sum->chunks, sum->count, a, out};
  const size_t bytes = (size_t)(sum->chunks * sum->count) * sizeof(float);
  trm_parallel_ranges(trm_threads_for(bytes), sum->count, sum_range, &own);
}
