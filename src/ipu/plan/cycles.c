/* Owns: cycles of the vertices of convolutions, reductions and copies. The constants are those of
 * poplibs' public estimators (docs/machine.md, "Cycles of vertices", names the files).
 * Worker cycles are multiplied by the number of worker contexts, since each issues in its turn. */
#include "ipu/plan/internal.h"

enum { WIDE_LOAD_BYTES = 16, SLIC_WINDOW = 4 };

static bool is_float(uint32_t bytes) { return bytes == 4; }

static uint64_t unsigned_of(int64_t n) { return n < 0 ? 0 : (uint64_t)n; }

/* The rows of a tile among its workers: rows are split where they do not divide, and the worst
 * worker has so many whole rows and a piece of one. */
typedef struct row_split {
  int64_t whole, rest_length;
} row_split;

static row_split split_rows(int64_t rows, int64_t length, int64_t workers) {
  const int64_t divisor = plan_greatest_common_divisor(workers, rows);
  const int64_t factor = workers / divisor; /* pieces of a row */
  const int64_t pieces = rows / divisor;    /* of a worker */
  return (row_split){pieces / factor, plan_ceil_div(pieces % factor * length, factor)};
}

bool plan_batch_is_row(const plan_problem *problem) {
  const uint32_t dims = problem->shape.num_dims;
  return dims > 0 && problem->shape.dims[dims - 1].outer;
}

/* ---- AMP ------------------------------------------------------------------------------------ */

/* A worker keeps registers from one call to the next, so that only its first call sets them up.
 * A vertex saves `call` in every call, `window` if it has a kernel, and a worker pays as much once;
 * of a pointwise vertex it pays `block` for each further block of input channels. */
typedef struct kept_registers {
  int64_t call, block, window;
} kept_registers;

static kept_registers registers_kept(const plan_problem *p) {
  const bool keeps = !is_float(p->in_bytes) && (is_float(p->partial_bytes) || p->units == 16);
  return (kept_registers){keeps ? 7 : 0, keeps ? 3 : 0, 9};
}

/* A worker of the pointwise vertex with r positions, all registers set up. Floats: the public
 * estimator has 46 + 8 (r - 3) from three positions on, which is less for three than for one;
 * measured matmuls have 38 + 8 r throughout (docs/fidelity.md). */
static int64_t pointwise_worker(const plan_problem *p, int64_t r, bool zeroing) {
  if (is_float(p->in_bytes)) {
    const int64_t zero = zeroing ? 2 + (p->units >= 16 ? 8 : 4) * r : 0;
    if (r == 0) return 24;
    return 38 + 8 * r + zero;
  }
  if (is_float(p->partial_bytes) || p->units >= 16) {
    const int64_t pass = zeroing ? 1 : 2;
    if (r == 0) return 20 + pass;
    if (r == 1) return 31 + pass;
    if (r == 2) return 40 + pass;
    return 36 + pass + 4 * (r - 3);
  }
  const int64_t zero = zeroing ? 2 + 2 * r : 0;
  if (r == 0) return 24;
  if (r == 1) return 39 + zero;
  if (r == 2) return 40 + zero;
  return 41 + zero + 4 * (r - 3);
}

/* A work item of the vertex with a kernel: n positions of a row. */
static int64_t window_item(const plan_problem *p, int64_t n) {
  if (is_float(p->in_bytes)) {
    return n == 0 ? 17 : n == 1 ? 33 : n == 2 ? 44 : 45 + 8 * (n - 3);
  }
  return n == 0 ? 17 : n == 1 ? 29 : n == 2 ? 33 : 34 + 4 * (n - 3);
}

static uint64_t pointwise_inner(const plan_problem *p, const plan_positions *at, bool zeroing) {
  const int64_t workers = p->target->num_worker_contexts;
  const int64_t most = plan_ceil_div(at->count, workers), least = at->count / workers;
  const int64_t kept = registers_kept(p).call;
  const int64_t a = workers * (pointwise_worker(p, most, zeroing) - kept);
  const int64_t b = least == 0 ? 0 : workers * (pointwise_worker(p, least, zeroing) - kept);
  return (uint64_t)plan_max(plan_max(a, b), plan_min(a, b) + 14);
}

/* So many rows of so many positions. */
static uint64_t amp_inner(const plan_problem *p, int64_t rows, int64_t length) {
  const int64_t workers = p->target->num_worker_contexts;
  const row_split split = split_rows(rows, length, workers);
  int64_t cycles = 17 + (is_float(p->partial_bytes) ? 0 : 1) - registers_kept(p).window;
  cycles += split.whole * (3 + window_item(p, length));
  if (split.rest_length > 0) cycles += 3 + window_item(p, split.rest_length);
  return (uint64_t)(workers * cycles + 9);
}

static uint64_t amp_load(const plan_problem *p) {
  const uint64_t bytes = (uint64_t)p->units *
                         (is_float(p->in_bytes) ? p->target->fp32_conv_unit_load_elements * 4
                                                : p->target->fp16_conv_unit_load_elements * 2) *
                         4;
  /* A filter of four rows is not loaded wide. */
  const bool wide = p->wide_load && p->filter_height != 4;
  const uint64_t rate = wide ? WIDE_LOAD_BYTES : p->target->conv_unit_coefficient_load_bytes;
  return (bytes + rate - 1) / rate;
}

/* The positions of a tile's block of the kernel, in dimensions from `first` on. */
static uint64_t kernel_positions(const plan_channels *c, uint32_t dims, uint32_t first) {
  uint64_t product = 1;
  for (uint32_t d = first; d < dims; ++d) product *= (uint64_t)c->tile_kernel[d];
  return product;
}

/* Setting partial results to zero, a block of output channels of a group at a time. The workers'
 * first call sets up registers. */
static uint64_t zero_cycles(const plan_problem *problem, int64_t elements, uint64_t blocks) {
  const int64_t workers = problem->target->num_worker_contexts;
  const int64_t vector = problem->target->data_path_width / 8 / problem->partial_bytes;
  const int64_t each = plan_ceil_div(plan_ceil_div(elements, workers), vector) + 5;
  const int64_t first = is_float(problem->partial_bytes) ? 9 : 10;
  return (uint64_t)(workers * first) + blocks * (uint64_t)(workers * each);
}

static uint64_t amp_partials(const plan_problem *p, const plan_channels *c, int64_t positions,
                             uint64_t inner, uint64_t inner_zero) {
  const uint64_t groups = (uint64_t)c->tile_groups;
  const uint64_t in = unsigned_of(c->tile_in / p->in_grain);
  const uint64_t out = unsigned_of(c->tile_out / p->out_grain);
  const uint64_t passes = (p->out_grain + p->units - 1) / p->units;
  const uint64_t load = amp_load(p);
  const uint64_t workers = p->target->num_worker_contexts;
  const kept_registers kept = registers_kept(p);
  if (p->pointwise) {
    const uint64_t first = (uint64_t)(kept.call + kept.block * (int64_t)(in * groups - 1));
    return 50 + workers * first +
           groups * (12 + (in - 1) * (16 + out * (19 + passes * (6 + load + inner))) + 11 +
                     out * (19 + passes * (7 + load + inner_zero)));
  }
  const uint32_t dims = p->shape.num_dims;
  const uint64_t height = p->filter_height;
  const bool has_rows = dims > 0 && p->shape.dims[0].outer;
  const uint64_t outer = has_rows ? (uint64_t)plan_ceil_div(c->tile_kernel[0], (int64_t)height) : 1;
  const uint64_t inner_positions = kernel_positions(c, dims, has_rows ? 1 : 0);
  const uint64_t extra = height == 1 ? 15 : height == 2 ? 46 : height == 4 ? 60 : 20 * height;
  const uint64_t block = outer * (14 + inner_positions * (12 + passes * (load + extra + 3))) +
                         outer * inner_positions * passes * inner;
  return 109 + workers * (uint64_t)kept.window + groups * (16 + in * (14 + out * (14 + block))) +
         zero_cycles(p, positions * p->out_grain, groups * out) + 23 * groups * out;
}

/* ---- SLIC ----------------------------------------------------------------------------------- */

static int64_t slic_row(const plan_problem *p, int64_t n, bool zeroing) {
  const bool float_partials = is_float(p->partial_bytes);
  const bool narrow = p->units < 16 && !float_partials;
  int64_t cycles;
  if (p->shape.dims[p->shape.num_dims - 1].stride == 1) {
    if (n < (narrow ? 6 : 5)) {
      cycles = zeroing ? 13 + (n > 1 ? n : 0) : n == 1 ? 13 : 14 + n;
    } else {
      cycles = 15 + n - 5 + (narrow && !zeroing ? 3 : 0);
    }
  } else {
    cycles = n < 3 ? 10 + (n == 1 ? 3 : 5) : 15 + 2 * (n - 3);
  }
  const int64_t passes = p->units >= 16 ? 1 : 2;
  return (narrow ? 9 : 10) + (zeroing ? 1 : 0) + (float_partials ? 3 : 0) +
         (cycles - (float_partials ? 1 : 0)) * passes;
}

static uint64_t slic_inner(const plan_problem *p, const plan_positions *at, bool zeroing) {
  const int64_t workers = p->target->num_worker_contexts;
  const int64_t length = at->tile_field[p->shape.num_dims - 1];
  const row_split split = split_rows(at->count / length, length, workers);
  const bool narrow = p->units < 16 && !is_float(p->partial_bytes);
  int64_t cycles = 17 + (p->group_grain > 4 ? 4 : 0);
  cycles += split.whole * slic_row(p, length, zeroing);
  if (split.rest_length > 0) cycles += slic_row(p, split.rest_length, zeroing);
  if (narrow) cycles += 2;
  /* Eight units of half partials leave two outputs, which one pass merges. */
  const int64_t merge = narrow && zeroing ? 2 + 2 * at->count : 0;
  return (uint64_t)(cycles * workers + merge);
}

static uint64_t slic_partials(const plan_problem *p, const plan_channels *c, uint64_t inner,
                              uint64_t inner_zero) {
  const uint32_t dims = p->shape.num_dims;
  const uint64_t groups = (uint64_t)(c->tile_groups / p->group_grain);
  uint64_t kernels = (uint64_t)plan_ceil_div(c->tile_kernel[dims - 1], SLIC_WINDOW);
  for (uint32_t d = 0; d + 1 < dims; ++d) kernels *= (uint64_t)c->tile_kernel[d];
  const uint64_t workers = p->target->num_worker_contexts;
  const bool narrow = p->units < 16 && !is_float(p->partial_bytes);
  uint64_t load = 16;
  if (p->in_grain == 4) {
    load += 18;
  } else {
    load += 21 + workers * (p->group_grain == 2 ? 12 : p->group_grain > 4 ? 11 : 10);
  }
  uint64_t body, per_group = narrow ? 12 : 15;
  const uint64_t strides = p->group_grain > 4 ? p->group_grain / 4 : 1;
  if (strides == 1) {
    body = load + (narrow ? 0 : 4) + 2 + 14;
  } else {
    body = (load + 21) * strides + 6 * (strides - 1) + 1 + 15;
    per_group += 8;
    inner *= strides;
    inner_zero *= strides;
  }
  return (narrow ? 25 : 28) + per_group * groups + 6 * (groups - 1) + 1 +
         groups * (body * kernels + 6 * (kernels - 1) + 1) +
         groups * (inner_zero + (kernels - 1) * inner);
}

/* ---- HMAC, VMAC, outer product --------------------------------------------------------------- */

/* The dot product of n channels, for all output channels of a grain. */
static int64_t dot_cycles(const plan_problem *p, int64_t n) {
  const int64_t wide = is_float(p->in_bytes) ? 2 : 4;
  int64_t width = wide;
  while (n % width != 0) width /= 2;
  const int64_t overhead = is_float(p->in_bytes) ? 7 : is_float(p->partial_bytes) ? 8 : 9;
  return overhead + (width < wide ? 1 : 0) + n / width * (width == wide ? 1 : 2);
}

static uint64_t hmac_inner(const plan_problem *p, int64_t rows, int64_t length) {
  const int64_t workers = p->target->num_worker_contexts;
  const row_split split = split_rows(rows, length, workers);
  /* Half partials take two output channels at once. */
  const int64_t outputs =
      is_float(p->partial_bytes) ? p->out_grain : plan_ceil_div(p->out_grain, 2);
  const int64_t position = 7 + outputs * dot_cycles(p, p->in_grain);
  int64_t cycles = 16;
  cycles += split.whole * (19 + length * position);
  if (split.rest_length > 0) cycles += 19 + split.rest_length * position;
  return (uint64_t)(workers * cycles);
}

static uint64_t hmac_partials(const plan_problem *p, const plan_channels *c, int64_t positions,
                              uint64_t inner) {
  const uint64_t in = (uint64_t)(c->tile_in / p->in_grain);
  const uint64_t out = (uint64_t)(c->tile_out / p->out_grain);
  const uint64_t workers = p->target->num_worker_contexts;
  const uint64_t kernels = kernel_positions(c, p->shape.num_dims, 0);
  const uint64_t overhead = is_float(p->in_bytes) ? 58 : 65;
  return overhead - (p->pointwise ? 10 : 0) +
         (uint64_t)c->tile_groups * (23 + in * (15 + out * (10 + kernels * inner + 16 * workers))) +
         zero_cycles(p, positions * p->out_grain, (uint64_t)c->tile_groups * out);
}

static uint64_t vmac_partials(const plan_problem *p, const plan_channels *c, int64_t positions) {
  const int64_t workers = p->target->num_worker_contexts;
  const uint32_t dims = p->shape.num_dims;
  const bool float_partials = is_float(p->partial_bytes);
  const int64_t width = c->tile_kernel[dims - 1];
  int64_t rows = positions; /* every output position, every row of the kernel */
  for (uint32_t d = 0; d + 1 < dims; ++d) rows *= c->tile_kernel[d];
  const row_split split = split_rows(rows, width, workers);
  const int64_t lanes = p->group_grain;
  const bool by_eight = lanes >= 8 && !float_partials;
  const int64_t item_overhead = by_eight ? 22 : float_partials ? 12 : 10;
  const int64_t repeat = by_eight ? lanes / 8 : 1;
  const int64_t step = lanes >= 8 ? 3 * (by_eight ? 1 : lanes / 8) : 2;
  int64_t cycles = (by_eight ? (lanes == 8 ? 13 : 25) : float_partials ? 19 : 18);
  cycles += repeat * split.whole * (item_overhead + 3 + step * (width - 1));
  if (split.rest_length > 0) {
    cycles += repeat * (item_overhead + 3 + step * (split.rest_length - 1));
  }
  const int64_t elements = positions * lanes;
  const int64_t zero = 4 + plan_ceil_div(elements, float_partials ? 2 : 4);
  const int64_t reduction = 9 + (float_partials ? 9 + 2 * (workers - 1) : 7 + (workers - 1)) *
                                    plan_ceil_div(elements, workers) / lanes;
  const int64_t groups = c->tile_groups / p->group_grain;
  /* A channel in and out at a time: the sums over input channels stay where they are. */
  return (uint64_t)(61 + 14 + 25 +
                    groups *
                        (32 + c->tile_out * (workers * zero + c->tile_in * (24 + workers * cycles) +
                                             workers * reduction)));
}

static uint64_t outer_product_partials(const plan_problem *p, const plan_channels *c,
                                       int64_t positions) {
  const int64_t workers = p->target->num_worker_contexts;
  const int64_t width = plan_ceil_div(positions, workers);
  const int64_t blocks = c->tile_out / p->out_grain * c->tile_groups, n = p->out_grain;
  int64_t cycles;
  if (is_float(p->in_bytes)) {
    cycles = 25 + blocks * (11 + width * (n >= 6 ? 6 + (n - 6) / 2 : 10 + 2 * n));
  } else {
    cycles = 25 + blocks * (10 + width * (n >= 12 ? 6 + (n - 12) / 4 : 10 + n * 5 / 2));
  }
  return (uint64_t)(workers * cycles);
}

/* ---- All methods ----------------------------------------------------------------------------- */

/* The worst of the first, the middle and the last block; large kernels are sampled. */
plan_busy plan_count_busy(const plan_problem *problem, uint32_t d, uint32_t split, int64_t field) {
  const trm_conv_dim *dim = &problem->shape.dims[d];
  const int64_t output = problem->output[d];
  const int64_t samples = plan_min(dim->kernel, PLAN_MAX_LENGTHS);
  const int64_t starts[3] = {0, (int64_t)(split / 2) * field, (int64_t)(split - 1) * field};
  plan_busy most = {0};
  int64_t most_sum = -1;
  for (int s = 0; s < (split > 2 ? 3 : (int)split); ++s) {
    const int64_t begin = s == 1 && split == 2 ? starts[2] : starts[s];
    plan_busy busy = {0};
    int64_t sum = 0;
    for (int64_t n = 0; n < samples; ++n) {
      const int64_t length = plan_busy_outputs(dim, begin, plan_min(field, output - begin),
                                               (2 * n + 1) * dim->kernel / (2 * samples));
      uint32_t i = 0;
      while (i < busy.count && busy.lengths[i] != length) ++i;
      if (i == busy.count) busy.lengths[busy.count++] = length;
      ++busy.times[i];
      sum += length;
    }
    if (sum > most_sum) most_sum = sum, most = busy;
  }
  return most;
}

static uint64_t window_inner(const plan_problem *p, int64_t rows, int64_t length) {
  return p->method == TRM_METHOD_AMP ? amp_inner(p, rows, length) : hmac_inner(p, rows, length);
}

/* Positions that meet only padding, or the zeros of an input dilation, are in no worker's list. */
static void window_cycles(const plan_problem *p, const plan_busy *const *busy, plan_positions *at) {
  const uint32_t dims = p->shape.num_dims;
  if (dims == 0) {
    at->inner = at->inner_dense = window_inner(p, 1, at->tile_batch);
    return;
  }
  const bool batch_is_row = plan_batch_is_row(p);
  int64_t rows = batch_is_row ? 1 : at->tile_batch;
  static const plan_busy single = {.count = 1, .lengths = {1}, .times = {1}};
  plan_busy counted[TRM_PLAN_MAX_DIMS];
  const plan_busy *of[TRM_PLAN_MAX_DIMS] = {&single, &single, &single};
  for (uint32_t d = 0; d < dims; ++d) {
    if (busy == NULL) counted[d] = plan_count_busy(p, d, at->field[d], at->tile_field[d]);
    of[d] = busy == NULL ? &counted[d] : busy[d];
    if (d + 1 < dims || batch_is_row) rows *= plan_ceil_div(at->tile_field[d], p->every[d]);
  }
  at->inner_dense = window_inner(
      p, rows,
      batch_is_row ? at->tile_batch : plan_ceil_div(at->tile_field[dims - 1], p->every[dims - 1]));
  const plan_busy *last = of[dims - 1], *first = dims > 1 ? of[0] : &single;
  const plan_busy *middle = dims == 3 ? of[1] : &single;
  uint64_t sum = 0, times = 0;
  for (uint32_t i = 0; i < first->count; ++i) {
    for (uint32_t j = 0; j < middle->count; ++j) {
      const int64_t above = first->lengths[i] * middle->lengths[j];
      for (uint32_t k = 0; k < last->count; ++k) {
        const uint64_t n = (uint64_t)(first->times[i] * middle->times[j] * last->times[k]);
        const int64_t here = last->lengths[k];
        const int64_t busy_rows = above * (batch_is_row ? here : at->tile_batch);
        const int64_t length = batch_is_row ? at->tile_batch : here;
        const bool idle = above == 0 || here == 0;
        sum += n * window_inner(p, idle ? 0 : busy_rows, idle ? 0 : length);
        times += n;
      }
    }
  }
  at->inner = (sum + times - 1) / times;
}

void plan_inner_cycles(const plan_problem *problem, const plan_busy *const *busy,
                       plan_positions *positions) {
  switch (problem->method) {
    case TRM_METHOD_AMP:
      if (problem->pointwise) {
        positions->inner = positions->inner_dense = pointwise_inner(problem, positions, false);
        positions->inner_zero = pointwise_inner(problem, positions, true);
        return;
      }
      window_cycles(problem, busy, positions);
      break;
    case TRM_METHOD_SLIC:
      positions->inner = positions->inner_dense = slic_inner(problem, positions, false);
      positions->inner_zero = slic_inner(problem, positions, true);
      return;
    case TRM_METHOD_HMAC: window_cycles(problem, busy, positions); break;
    /* Their cycles follow from the number of positions; that number is their lower bound. */
    case TRM_METHOD_VMAC:
    case TRM_METHOD_OUTER_PRODUCT:
      positions->inner = positions->inner_dense = (uint64_t)positions->count;
      break;
  }
  positions->inner_zero = positions->inner;
}

uint64_t plan_partial_cycles(const plan_problem *problem, const plan_channels *channels,
                             int64_t positions, uint64_t inner, uint64_t inner_zero) {
  switch (problem->method) {
    case TRM_METHOD_AMP: return amp_partials(problem, channels, positions, inner, inner_zero);
    case TRM_METHOD_SLIC: return slic_partials(problem, channels, inner, inner_zero);
    case TRM_METHOD_HMAC: return hmac_partials(problem, channels, positions, inner);
    case TRM_METHOD_VMAC: return vmac_partials(problem, channels, positions);
    case TRM_METHOD_OUTER_PRODUCT: break;
  }
  return outer_product_partials(problem, channels, positions);
}

/* ---- Sums of partial sums -------------------------------------------------------------------- */

uint32_t plan_reduce_stages(int64_t depth, bool multi_stage, int64_t remaining[3]) {
  if (depth <= 1) return 0;
  remaining[0] = remaining[1] = remaining[2] = 1;
  if (!multi_stage || depth < 16) return 1;
  if (depth < 125) {
    /* Two stages: what the first leaves, d, and its own depth, depth / d, about equal. */
    int64_t best = 2;
    for (int64_t d = 2; d <= depth; ++d) {
      const int64_t sum = plan_ceil_div(depth, d) + d;
      if (sum < plan_ceil_div(depth, best) + best) best = d;
      if (d * d > depth) break;
    }
    remaining[0] = plan_ceil_div(depth, plan_ceil_div(depth, best));
    return 2;
  }
  /* Three: about depth^(2/3), then depth^(1/3). */
  int64_t root = 2;
  while ((root + 1) * (root + 1) * (root + 1) <= depth) ++root;
  int64_t best_first = plan_ceil_div(depth, root), best_sum = INT64_MAX;
  for (int64_t a = root; a <= root + 1; ++a) {
    for (int64_t b = root; b <= root + 1; ++b) {
      const int64_t first = plan_ceil_div(depth, a), second = plan_ceil_div(first, b);
      if (a + b + second >= best_sum) continue;
      best_sum = a + b + second;
      best_first = first;
      remaining[1] = second;
    }
  }
  remaining[0] = best_first;
  return 3;
}

/* Elements that a loop of a reduction makes. */
static int64_t accumulators_of(const plan_problem *problem) {
  return is_float(problem->exchanged_bytes) ? 4 : 8;
}

bool plan_reduces_one_block(const plan_problem *problem, int64_t outputs, int64_t depth) {
  const trm_target *target = problem->target;
  const int64_t element = trm_target_element_bytes(target);
  const int64_t bytes = (depth - 1) * outputs * problem->exchanged_bytes;
  const int64_t block = plan_ceil_div(bytes, element) * element;
  return outputs % accumulators_of(problem) == 0 &&
         (problem->fast_reduce || block < (int64_t)target->bytes_per_tile / 16);
}

uint64_t plan_reduce_cycles(const plan_problem *problem, int64_t outputs, int64_t depth,
                            bool to_output) {
  const trm_target *target = problem->target;
  const int64_t workers = target->num_worker_contexts;
  const int64_t bytes = problem->exchanged_bytes;
  const bool float_in = is_float(problem->exchanged_bytes);
  const bool float_out = to_output ? is_float(problem->out_bytes) : float_in;
  const int64_t accumulators = accumulators_of(problem);
  const int64_t path = target->data_path_width / 8 / bytes;
  int64_t loops = outputs / accumulators;
  if (plan_reduces_one_block(problem, outputs, depth)) {
    const int64_t load = path * (problem->fast_reduce ? 2 : 1);
    const int64_t per_loop = plan_max(1, accumulators / load);
    const int64_t overhead = float_in ? (float_out ? 8 : 7) : (float_out ? 10 : 9);
    return (uint64_t)(33 + workers * (20 + plan_ceil_div(loops, workers) *
                                               (per_loop * (depth - 1) + overhead)));
  }
  for (int64_t bit = 1; bit < accumulators; bit *= 2) loops += (outputs & bit) != 0;
  int64_t cycles = 32, per_worker = loops / workers;
  if (loops % workers != 0) {
    if (outputs % accumulators != 0) {
      cycles += 2 * depth + (float_in ? 13 : 11);
    } else {
      ++per_worker;
    }
  }
  const int64_t per_loop = plan_max(1, accumulators / path) + 1;
  const int64_t overhead = float_in ? (float_out ? 7 : 6) : (float_out ? 9 : 8);
  return (uint64_t)(workers * (cycles + per_worker * (per_loop * depth + overhead)));
}

uint64_t plan_cast_cycles(const trm_target *target, int64_t elements, uint32_t from_bytes,
                          uint32_t to_bytes) {
  if (from_bytes == to_bytes || elements == 0) return 0;
  const int64_t workers = target->num_worker_contexts, path = target->data_path_width / 8;
  const int64_t each = plan_ceil_div(elements, workers);
  const int64_t load = plan_ceil_div(each, path / from_bytes);
  const int64_t store = plan_ceil_div(each, path / to_bytes);
  return (uint64_t)((plan_max(load, store) + 26) * workers);
}

uint64_t plan_add_cycles(const trm_target *target, int64_t elements, uint32_t bytes) {
  const int64_t workers = target->num_worker_contexts;
  const int64_t vectors =
      plan_ceil_div(plan_ceil_div(elements, workers), target->data_path_width / 8 / bytes);
  return (uint64_t)(workers * (15 + 6 + plan_max(vectors - 1, 0) * 3) + 57);
}

/* ---- Moving bytes ---------------------------------------------------------------------------- */

uint64_t plan_slice_cycles(const trm_target *target, int64_t bytes) {
  const int64_t workers = target->num_worker_contexts, path = target->data_path_width / 8;
  const int64_t copies = plan_ceil_div(plan_ceil_div(bytes, workers), path);
  return (uint64_t)(25 + workers * (39 + 24 + 2 * copies));
}

uint64_t plan_rearrange_cycles(const trm_target *target, int64_t bytes, uint32_t element_bytes,
                               bool vectors) {
  const int64_t rate = plan_min(target->memcpy_bytes_per_cycle, (int64_t)element_bytes);
  const int64_t weighed = vectors ? bytes * 5 / 4 : bytes * 5 / 3;
  return (uint64_t)plan_ceil_div(weighed, rate);
}

uint64_t plan_exchange_cycles(const trm_target *target, int64_t bytes, int64_t shared,
                              int64_t messages) {
  if (bytes + shared == 0) return 0;
  const int64_t rate = target->exchange_bytes_per_cycle;
  return (uint64_t)(plan_ceil_div(bytes, rate) +
                    plan_ceil_div(shared, rate * target->tiles_per_super_tile) +
                    messages * target->exchange_message_cycles);
}
