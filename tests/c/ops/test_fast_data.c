/* Fast data movement against the reference kernels, on generated shapes. */
#include "fast_case.h"

static const trm_dtype types[] = {TRM_U8, TRM_F16, TRM_F32, TRM_S64};

static trm_dtype random_type(void) { return types[case_random_below(4)]; }

/* Dimensions with ones, zeros, odd and large ones. */
static int32_t random_dims(int64_t *dims, int32_t least) {
  static const int64_t choices[] = {1, 2, 3, 4, 7, 16, 33, 70};
  const int32_t rank = least + (int32_t)case_random_below(4);
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) {
    dims[d] = choices[case_random_below(8)];
    if (count * dims[d] > 60000) dims[d] = 1;
    count *= dims[d];
  }
  if (rank > 0 && case_random_below(30) == 0) dims[case_random_below(rank)] = 0;
  return rank;
}

static void check(fast_case *c, trm_instruction instruction, const char *what, int64_t seed) {
  char text[96];
  snprintf(text, sizeof text, "%s, seed %lld", what, (long long)seed);
  const trm_index index = case_add(c, c->computation, instruction);
  case_both(c, index, VALUES_WILD, 0, 0, false, text);
}

static void random_permutation(int64_t *out, int32_t n) {
  for (int32_t i = 0; i < n; ++i) out[i] = i;
  for (int32_t i = n - 1; i > 0; --i) {
    const int64_t k = case_random_below(i + 1), t = out[i];
    out[i] = out[k], out[k] = t;
  }
}

static void test_transpose(void **state) {
  (void)state;
  for (int64_t seed = 1; seed <= 300; ++seed) {
    case_random_state = (uint64_t)seed * 77777;
    fast_case c = case_create();
    int64_t dims[8], out[8], order[8];
    const int32_t rank = random_dims(dims, 1);
    const trm_dtype dtype = random_type();
    random_permutation(order, rank);
    for (int32_t d = 0; d < rank; ++d) out[d] = dims[order[d]];
    trm_index p = case_parameter(&c, c.computation, case_shape(&c, dtype, rank, dims));
    trm_instruction i = case_op(TRM_OP_TRANSPOSE, case_shape(&c, dtype, rank, out), 1, &p);
    i.dimensions = case_dims(&c, rank, order);
    check(&c, i, "transpose", seed);
    case_free(&c);
  }
}

/* Lines that are a multiple of 2 KB apart: whole blocks of cache lines, and what is left of them.
 */
static void test_crowded_transpose(void **state) {
  (void)state;
  static const trm_dtype dtypes[] = {TRM_S8, TRM_F16, TRM_F32, TRM_F64};
  static const int64_t shapes[][3] = {{131, 1, 2048}, {131, 16, 128}, {64, 128, 16}, {7, 1, 4096}};
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; ++t) {
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; ++k) {
      fast_case c = case_create();
      const int64_t order[3] = {2, 1, 0}, turned[3] = {shapes[k][2], shapes[k][1], shapes[k][0]};
      trm_index p = case_parameter(&c, c.computation, case_shape(&c, dtypes[t], 3, shapes[k]));
      trm_instruction i = case_op(TRM_OP_TRANSPOSE, case_shape(&c, dtypes[t], 3, turned), 1, &p);
      i.dimensions = case_dims(&c, 3, order);
      check(&c, i, "crowded transpose", (int64_t)k);
      case_free(&c);
    }
  }
}

static void test_broadcast(void **state) {
  (void)state;
  for (int64_t seed = 1; seed <= 200; ++seed) {
    case_random_state = (uint64_t)seed * 99991;
    fast_case c = case_create();
    int64_t out[8], dims[8], map[8];
    const int32_t rank = random_dims(out, 0);
    int32_t n = 0;
    for (int32_t d = 0; d < rank; ++d)
      if (case_random_below(2) == 0) map[n] = d, dims[n++] = out[d];
    const trm_dtype dtype = random_type();
    trm_index p = case_parameter(&c, c.computation, case_shape(&c, dtype, n, dims));
    trm_instruction i = case_op(TRM_OP_BROADCAST, case_shape(&c, dtype, rank, out), 1, &p);
    i.dimensions = case_dims(&c, n, map);
    check(&c, i, "broadcast", seed);
    case_free(&c);
  }
}

static void test_slice_reverse_pad(void **state) {
  (void)state;
  for (int64_t seed = 1; seed <= 300; ++seed) {
    case_random_state = (uint64_t)seed * 31337;
    fast_case c = case_create();
    int64_t dims[8], out[8], which[8];
    const int32_t rank = random_dims(dims, 1);
    const trm_dtype dtype = random_type();
    const trm_shape shape = case_shape(&c, dtype, rank, dims);
    trm_index p[2] = {case_parameter(&c, c.computation, shape),
                      case_parameter(&c, c.computation, case_shape(&c, dtype, 0, NULL))};
    trm_slice_dimension slice[8];
    trm_padding_dimension padding[8];
    int32_t n = 0;
    for (int32_t d = 0; d < rank; ++d) {
      slice[d].start = case_random_below(dims[d] + 1);
      slice[d].stride = case_random_below(3) + 1;
      slice[d].limit = slice[d].start + case_random_below(dims[d] - slice[d].start + 1);
      out[d] = (slice[d].limit - slice[d].start + slice[d].stride - 1) / slice[d].stride;
      if (case_random_below(2) == 0) which[n++] = d;
    }
    trm_instruction i = case_op(TRM_OP_SLICE, case_shape(&c, dtype, rank, out), 1, p);
    i.slice = slice;
    check(&c, i, "slice", seed);
    i = case_op(TRM_OP_REVERSE, shape, 1, p);
    i.dimensions = case_dims(&c, n, which);
    check(&c, i, "reverse", seed);
    int64_t count = 1;
    for (int32_t d = 0; d < rank; ++d) {
      padding[d].interior = case_random_below(4) == 0 ? case_random_below(3) : 0;
      padding[d].low = case_random_below(2) ? 0 : case_random_below(6) - 2;
      padding[d].high = case_random_below(2) ? 0 : case_random_below(6) - 2;
      const int64_t inner = dims[d] == 0 ? 0 : (dims[d] - 1) * padding[d].interior + dims[d];
      out[d] = padding[d].low + padding[d].high + inner;
      if (out[d] < 0) padding[d].low -= out[d], out[d] = 0;
      count *= out[d];
    }
    if (count < 400000) {
      i = case_op(TRM_OP_PAD, case_shape(&c, dtype, rank, out), 2, p);
      i.padding = padding;
      check(&c, i, "pad", seed);
    }
    case_free(&c);
  }
}

static void test_concatenate_iota_copy(void **state) {
  (void)state;
  for (int64_t seed = 1; seed <= 150; ++seed) {
    case_random_state = (uint64_t)seed * 4241;
    fast_case c = case_create();
    int64_t dims[8], out[8];
    const int32_t rank = random_dims(dims, 1);
    const trm_dtype dtype = random_type();
    const int64_t along = case_random_below(rank);
    memcpy(out, dims, sizeof out);
    out[along] = 0;
    trm_index p[4];
    const uint32_t n = (uint32_t)case_random_below(4) + 1;
    for (uint32_t k = 0; k < n; ++k) {
      dims[along] = case_random_below(9);
      out[along] += dims[along];
      p[k] = case_parameter(&c, c.computation, case_shape(&c, dtype, rank, dims));
    }
    const trm_shape shape = case_shape(&c, dtype, rank, out);
    trm_instruction i = case_op(TRM_OP_CONCATENATE, shape, n, p);
    i.dimensions = case_dims(&c, 1, &along);
    check(&c, i, "concatenate", seed);
    i = case_op(TRM_OP_IOTA, shape, 0, NULL);
    i.dimensions = case_dims(&c, 1, &along);
    check(&c, i, "iota", seed);
    int64_t flat = trm_shape_count(&shape);
    p[0] = case_parameter(&c, c.computation, shape);
    check(&c, case_op(TRM_OP_RESHAPE, case_shape(&c, dtype, 1, &flat), 1, p), "reshape", seed);
    check(&c, case_op(TRM_OP_COPY, shape, 1, p), "copy", seed);
    case_free(&c);
  }
}

static void test_dynamic_slices(void **state) {
  (void)state;
  static const trm_dtype index_types[] = {TRM_S32, TRM_S64, TRM_U32, TRM_S8, TRM_U64};
  for (int64_t seed = 1; seed <= 200; ++seed) {
    case_random_state = (uint64_t)seed * 1299709;
    fast_case c = case_create();
    int64_t dims[8], sizes[8];
    const int32_t rank = random_dims(dims, 1);
    const trm_dtype dtype = random_type(), index = index_types[case_random_below(5)];
    for (int32_t d = 0; d < rank; ++d) sizes[d] = dims[d] == 0 ? 0 : case_random_below(dims[d]) + 1;
    trm_index p[10];
    p[0] = case_parameter(&c, c.computation, case_shape(&c, dtype, rank, dims));
    const trm_shape small = case_shape(&c, dtype, rank, sizes);
    for (int32_t d = 0; d < rank; ++d)
      p[2 + d] = case_parameter(&c, c.computation, case_shape(&c, index, 0, NULL));
    p[1] = p[0];
    check(&c, case_op(TRM_OP_DYNAMIC_SLICE, small, (uint32_t)rank + 1, p + 1), "dynamic-slice",
          seed);
    p[1] = case_parameter(&c, c.computation, small);
    check(&c,
          case_op(TRM_OP_DYNAMIC_UPDATE_SLICE, case_shape(&c, dtype, rank, dims),
                  (uint32_t)rank + 2, p),
          "dynamic-update-slice", seed);
    case_free(&c);
  }
}

/* Random gathers and scatters: batch dimensions of the indices are mixed with the window's. */
static void run_indexed(int64_t seed) {
  case_random_state = (uint64_t)seed * 15485863;
  fast_case c = case_create();
  const trm_dtype dtype = random_type();
  const trm_dtype index_type = case_random_below(2) ? TRM_S32 : TRM_S8;
  int64_t dims[6], slice[6], map[6], collapsed[6], batching[1], indices_batching[1];
  const int32_t rank = (int32_t)case_random_below(3) + 1;
  for (int32_t d = 0; d < rank; ++d) dims[d] = case_random_below(12) + 1;
  if (case_random_below(3) == 0) dims[rank - 1] = 200;
  const bool batches = rank > 1 && case_random_below(3) == 0;
  int32_t num_map = 0, num_collapsed = 0, num_window = 0;
  int64_t window[6];
  for (int32_t d = 0; d < rank; ++d) {
    slice[d] = case_random_below(3) == 0 ? dims[d] : case_random_below(dims[d]) + 1;
    if (batches && d == 0) {
      slice[d] = 1;
      continue;
    }
    if (case_random_below(3) > 0) map[num_map++] = d;
    if (case_random_below(3) == 0) {
      slice[d] = 1;
      collapsed[num_collapsed++] = d;
    } else {
      window[num_window++] = slice[d];
    }
  }
  /* The indices: batch dimensions, then the vector (or none when it has one component). */
  int64_t index_dims[6], batch_dims[4];
  int32_t num_batch = (int32_t)case_random_below(2) + (batches ? 1 : 0);
  for (int32_t b = 0; b < num_batch; ++b) batch_dims[b] = case_random_below(9) + 1;
  if (batches) {
    batch_dims[0] = dims[0];
    batching[0] = indices_batching[0] = 0;
  }
  memcpy(index_dims, batch_dims, sizeof batch_dims);
  int32_t index_rank = num_batch;
  const bool implicit = num_map == 1 && case_random_below(2) == 0;
  if (!implicit) index_dims[index_rank++] = num_map;
  static const trm_opcode combiners[] = {TRM_OP_ADD, TRM_OP_MAXIMUM, TRM_OP_MULTIPLY,
                                         TRM_OP_PARAMETER};
  const trm_opcode combiner = combiners[case_random_below(4)];
  /* The other side: window dimensions at random places among the batch dimensions; behind them
   * where the order of the updates matters, which is then the same for both kernels. */
  const bool mixes = combiner == TRM_OP_ADD || combiner == TRM_OP_MAXIMUM;
  int64_t other[10], window_dims[6];
  int32_t other_rank = 0, w = 0, b = 0;
  while (w < num_window || b < num_batch) {
    if (w < num_window && (b == num_batch || (mixes && case_random_below(2) == 0))) {
      window_dims[w] = other_rank;
      other[other_rank++] = window[w++];
    } else {
      other[other_rank++] = batch_dims[b++];
    }
  }
  const trm_shape operand = case_shape(&c, dtype, rank, dims);
  const trm_shape others = case_shape(&c, dtype, other_rank, other);
  trm_index p[3] = {
      case_parameter(&c, c.computation, operand),
      case_parameter(&c, c.computation, case_shape(&c, index_type, index_rank, index_dims)),
      case_parameter(&c, c.computation, others)};
  trm_gather gather = {.offset_dims = {num_window, window_dims},
                       .collapsed_slice_dims = {num_collapsed, collapsed},
                       .start_index_map = {num_map, map},
                       .operand_batching_dims = {batches, batching},
                       .start_indices_batching_dims = {batches, indices_batching},
                       .index_vector_dim = num_batch,
                       .slice_sizes = {rank, slice}};
  trm_instruction i = case_op(TRM_OP_GATHER, others, 2, p);
  i.gather = &gather;
  char what[64];
  snprintf(what, sizeof what, "gather, seed %lld", (long long)seed);
  const trm_index g = case_add(&c, c.computation, i);
  case_both(&c, g, VALUES_TAME, 0, 0, false, what);
  trm_scatter scatter = {.update_window_dims = {num_window, window_dims},
                         .inserted_window_dims = {num_collapsed, collapsed},
                         .scatter_dims_to_operand_dims = {num_map, map},
                         .input_batching_dims = {batches, batching},
                         .scatter_indices_batching_dims = {batches, indices_batching},
                         .index_vector_dim = num_batch};
  uint32_t body = case_reducer(&c, combiner == TRM_OP_PARAMETER ? TRM_OP_ADD : combiner, dtype);
  if (combiner == TRM_OP_PARAMETER)
    c.module->computations[body].root = c.module->computations[body].parameters[1];
  i = case_op(TRM_OP_SCATTER, operand, 3, p);
  i.scatter = &scatter;
  i.num_called = 1;
  i.called = &body;
  snprintf(what, sizeof what, "scatter, seed %lld", (long long)seed);
  const trm_index s = case_add(&c, c.computation, i);
  case_both(&c, s, VALUES_WHOLE, 0, 0, false, what);
  case_free(&c);
}

static void test_gather_and_scatter(void **state) {
  (void)state;
  for (int64_t seed = 1; seed <= 1000; ++seed) run_indexed(seed);
}

/* Large enough for threads. */
static void test_large(void **state) {
  (void)state;
  fast_case c = case_create();
  const int64_t dims[2] = {1003, 517}, turned[2] = {517, 1003}, order[2] = {1, 0};
  trm_index p[3] = {case_parameter(&c, c.computation, case_shape(&c, TRM_F32, 2, dims))};
  trm_instruction i = case_op(TRM_OP_TRANSPOSE, case_shape(&c, TRM_F32, 2, turned), 1, p);
  i.dimensions = case_dims(&c, 2, order);
  check(&c, i, "large transpose", 0);
  const int64_t num[2] = {3000, 1}, out[2] = {3000, 517};
  p[1] = case_parameter(&c, c.computation, case_shape(&c, TRM_S8, 2, num));
  p[2] = case_parameter(&c, c.computation, case_shape(&c, TRM_F32, 2, out));
  int64_t one = 1, zero = 0, sizes[2] = {1, 517};
  trm_gather gather = {.offset_dims = {1, &one},
                       .collapsed_slice_dims = {1, &zero},
                       .start_index_map = {1, &zero},
                       .index_vector_dim = 1,
                       .slice_sizes = {2, sizes}};
  i = case_op(TRM_OP_GATHER, case_shape(&c, TRM_F32, 2, out), 2, p);
  i.gather = &gather;
  check(&c, i, "large gather", 0);
  trm_scatter scatter = {.update_window_dims = {1, &one},
                         .inserted_window_dims = {1, &zero},
                         .scatter_dims_to_operand_dims = {1, &zero},
                         .index_vector_dim = 1};
  uint32_t body = case_reducer(&c, TRM_OP_ADD, TRM_F32);
  i = case_op(TRM_OP_SCATTER, case_shape(&c, TRM_F32, 2, dims), 3, p);
  i.scatter = &scatter;
  i.num_called = 1;
  i.called = &body;
  check(&c, i, "large scatter", 0);
  case_free(&c);
}

/* Single elements at many places at a time, by indices of both signs and of every size. */
static void test_large_gathers(void **state) {
  (void)state;
  static const trm_dtype index_types[] = {TRM_S32, TRM_U32, TRM_U8};
  for (int64_t form = 0; form < 12; ++form) {
    fast_case c = case_create();
    const int64_t dims[2] = {200, 3}, num[2] = {70001, 1}, out[1] = {70001};
    const int64_t turned[2] = {1, 70001}, vector = form & 1 ? 0 : 1;
    int64_t both[2] = {0, 1}, second = form >> 1 & 1;
    trm_index p[2] = {
        case_parameter(&c, c.computation, case_shape(&c, types[form % 4], 2, dims)),
        case_parameter(&c, c.computation,
                       case_shape(&c, index_types[form / 4], 2, form & 1 ? turned : num))};
    int64_t sizes[2] = {1, 1};
    trm_gather gather = {.collapsed_slice_dims = {2, both},
                         .start_index_map = {1, &second},
                         .index_vector_dim = vector,
                         .slice_sizes = {2, sizes}};
    trm_instruction i = case_op(TRM_OP_GATHER, case_shape(&c, types[form % 4], 1, out), 2, p);
    i.gather = &gather;
    check(&c, i, "large gather of elements", form);
    case_free(&c);
  }
}

/* Rows that are written in several blocks, with and without gaps. */
static void test_long_pads(void **state) {
  (void)state;
  for (int64_t interior = 0; interior < 4; ++interior) {
    for (int64_t low = -3; low <= 8195; low += 1366) {
      fast_case c = case_create();
      const int64_t dims[2] = {3, 5003};
      trm_padding_dimension padding[2] = {{.low = 1, .high = 0, .interior = 1},
                                          {.low = low, .high = low % 7, .interior = interior}};
      const int64_t out[2] = {6, 5003 + 5002 * interior + low + low % 7};
      const trm_dtype dtype = (trm_dtype[]){TRM_U8, TRM_F16, TRM_F32, TRM_F64}[interior];
      trm_index p[2] = {case_parameter(&c, c.computation, case_shape(&c, dtype, 2, dims)),
                        case_parameter(&c, c.computation, case_shape(&c, dtype, 0, NULL))};
      trm_instruction i = case_op(TRM_OP_PAD, case_shape(&c, dtype, 2, out), 2, p);
      i.padding = padding;
      check(&c, i, "long pad", low);
      case_free(&c);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_transpose),
      cmocka_unit_test(test_crowded_transpose),
      cmocka_unit_test(test_long_pads),
      cmocka_unit_test(test_broadcast),
      cmocka_unit_test(test_large_gathers),
      cmocka_unit_test(test_slice_reverse_pad),
      cmocka_unit_test(test_concatenate_iota_copy),
      cmocka_unit_test(test_dynamic_slices),
      cmocka_unit_test(test_gather_and_scatter),
      cmocka_unit_test(test_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
