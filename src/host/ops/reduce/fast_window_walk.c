/* Owns: laying windows out and walking through them (fast_window.h). */
#include "host/ops/reduce/fast_window.h"

static bool is_trivial(const trm_window_dimension *w) {
  return w->size == 1 && w->stride == 1 && w->padding_low == 0 && w->padding_high == 0 &&
         w->base_dilation == 1;
}

void trm_window_layout(const trm_window *window, const trm_shape *in, const trm_shape *out,
                       window_layout *out_layout) {
  window_layout layout = {.rank = in->rank, .inner = 1, .positions = 1};
  while (layout.rank > 0 && is_trivial(&window->dims[layout.rank - 1]))
    layout.inner *= in->dims[--layout.rank];
  int64_t stride = layout.inner;
  for (int32_t d = layout.rank - 1; d >= 0; --d) {
    layout.window[d] = window->dims[d];
    layout.in_dims[d] = in->dims[d];
    layout.in_strides[d] = stride;
    layout.out_dims[d] = out->dims[d];
    layout.positions *= out->dims[d];
    stride *= in->dims[d];
  }
  *out_layout = layout;
}

/* The first k >= from whose element lies in the array along d, or -1. */
static int64_t find_inside(const window_walk *walk, int32_t d, int64_t from) {
  const trm_window_dimension *w = &walk->layout->window[d];
  const int64_t origin = walk->at[d] * w->stride - w->padding_low;
  const int64_t limit = (walk->layout->in_dims[d] - 1) * w->base_dilation;
  int64_t k = from;
  if (origin + k * w->window_dilation < 0) {
    k = (-origin + w->window_dilation - 1) / w->window_dilation;
  }
  for (; k < w->size; ++k) {
    const int64_t position = origin + k * w->window_dilation;
    if (position > limit) return -1;
    if (w->base_dilation == 1 || position % w->base_dilation == 0) return k;
  }
  return -1;
}

static void set(window_walk *walk, int32_t d, int64_t k) {
  const trm_window_dimension *w = &walk->layout->window[d];
  const int64_t position = walk->at[d] * w->stride - w->padding_low + k * w->window_dilation;
  walk->k[d] = k;
  walk->offsets[d + 1] =
      walk->offsets[d] + position / w->base_dilation * walk->layout->in_strides[d];
}

void trm_window_start(window_walk *walk, const window_layout *layout, int32_t rank,
                      int64_t position) {
  walk->layout = layout;
  walk->rank = rank;
  walk->is_empty = false;
  walk->offsets[0] = 0;
  for (int32_t d = rank - 1; d >= 0; --d) {
    walk->at[d] = position % layout->out_dims[d];
    position /= layout->out_dims[d];
  }
  for (int32_t d = 0; d < rank && !walk->is_empty; ++d) {
    const int64_t k = find_inside(walk, d, 0);
    if (k < 0) walk->is_empty = true;
    else set(walk, d, k);
  }
}

bool trm_window_next(window_walk *walk, int64_t *out_offset) {
  if (walk->is_empty) return false;
  *out_offset = walk->offsets[walk->rank];
  int32_t d = walk->rank - 1;
  for (; d >= 0; --d) {
    const int64_t k = find_inside(walk, d, walk->k[d] + 1);
    if (k < 0) continue;
    set(walk, d, k);
    break;
  }
  if (d < 0) {
    walk->is_empty = true; /* that was the last element */
    return true;
  }
  for (d++; d < walk->rank; ++d) set(walk, d, find_inside(walk, d, 0));
  return true;
}
