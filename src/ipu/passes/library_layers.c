/* Owns: finding the layers of popnn (library.h): normalisations, recurrences, pools and
 * convolutions, which the module has in parts. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hlo/library_call.h"
#include "ipu/passes/library.h"
#include "ipu/tile/mapping.h"

typedef trm_library_finder finder;

static const uint32_t none = TRM_NO_INDEX;

/* ---- Marks ---------------------------------------------------------------------------------- */

/* Whether n is a number of a layer that its compiler knows: it is computed from constants and from
 * the number of replicas. Operands come first. */
static bool is_known(const finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  if (i->call_id == TRM_CALL_REPLICATION_FACTOR) return true;
  if (!trm_opcode_is_elementwise(i->opcode) || !trm_shape_is_scalar(&i->shape)) return false;
  for (uint32_t k = 0; k < i->num_operands; ++k) {
    const uint32_t v = operand(f, n, k);
    if (at(f, v)->opcode != TRM_OP_CONSTANT && !call_of(f, v)->is_absorbed) return false;
  }
  return true;
}

/* The parts of a marked layer carry its word, its op and the name of the part as attributes. */
static void find_marked(finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  const char *word = trm_instruction_frontend_attribute(i, TRM_WORD);
  if (word == NULL) return;
  *call_of(f, n) = (trm_library_call){.scope = trm_instruction_frontend_attribute(i, TRM_SCOPE),
                                      .word = word,
                                      .part = trm_instruction_frontend_attribute(i, TRM_PART),
                                      .key = trm_instruction_frontend_attribute(i, TRM_KEY)};
  trm_library_call_set(call_of(f, n), TRM_LIBRARY_MARKED);
  call_of(f, n)->is_absorbed = is_known(f, n);
}

/* "maxPool5x5": the sizes of a window without the batch and the channels. */
static const char *pool_name(trm_arena *arena, const char *kind, const trm_window *window) {
  char sizes[128] = "";
  int used = 0;
  const int32_t rank = window->rank;
  const bool last =
      rank > 2 && window->dims[rank - 1].size == 1 && window->dims[rank - 1].stride == 1;
  for (int32_t d = rank > 2 ? 1 : 0; d < rank && used < 100; ++d) {
    if (rank > 2 && d == (last ? rank - 1 : 1)) continue;
    used += snprintf(sizes + used, sizeof sizes - (size_t)used, "%s%" PRId64, used == 0 ? "" : "x",
                     window->dims[d].size);
  }
  return trm_arena_format(arena, "%s%s", kind, sizes);
}

static trm_status find_pool(finder *f, uint32_t n, trm_error *error) {
  const trm_instruction *i = at(f, n);
  const bool gradient = i->opcode == TRM_OP_SELECT_AND_SCATTER;
  if ((i->opcode != TRM_OP_REDUCE_WINDOW && !gradient) || i->window == NULL) return TRM_OK;
  const bool mean = i->metadata.op_type != NULL && strstr(i->metadata.op_type, "AvgPool") != NULL;
  const bool backwards = gradient || (mean && strstr(i->metadata.op_type, "Grad") != NULL);
  const trm_computation *called = &f->in.module->computations[i->called[0]];
  const bool max = gradient || called->instructions[called->root].opcode == TRM_OP_MAXIMUM;
  if (!max && !mean) return TRM_OK;
  trm_library_call *call = call_of(f, n);
  trm_library_call_set(call, max ? backwards ? TRM_LIBRARY_MAX_POOL_GRAD : TRM_LIBRARY_MAX_POOL
                             : backwards ? TRM_LIBRARY_AVG_POOL_GRAD
                                         : TRM_LIBRARY_AVG_POOL);
  call->part = pool_name(f->texts, max ? "maxPool" : "avgPool", i->window);
  CHECK_MEMORY(call->part, "library calls");
  if (!mean) return TRM_OK;
  call->group = ++f->num_groups;
  /* The padding before and the division after belong to the pool. */
  const uint32_t before = operand(f, n, 0), after = f->in.user[n];
  if (same_op(at(f, before), i) && !is_found(f, before)) *call_of(f, before) = *call;
  if (after != none && same_op(at(f, after), i)) *call_of(f, after) = *call;
  return TRM_OK;
}

/* The kernel of a convolution before it is reversed, transposed or converted. */
static uint32_t kernel_of(const finder *f, uint32_t n) {
  uint32_t v = operand(f, n, 1);
  for (;;) {
    const trm_opcode opcode = at(f, v)->opcode;
    if (opcode != TRM_OP_REVERSE && opcode != TRM_OP_TRANSPOSE && opcode != TRM_OP_CONVERT) {
      return v;
    }
    v = operand(f, v, 0);
  }
}

static bool is_grouped(const trm_instruction *i) {
  return i->convolution != NULL && i->convolution->feature_group_count > 1;
}

/* Finds convolutions with a reversed kernel: gradients with respect to the operand. Where the
 * module also has the convolution with the plain kernel, the original reverses the kernel and calls
 * that convolution, unless there are groups of channels, which the reversal would mix. */
static void find_reversed(finder *f, uint32_t n, bool forward) {
  const trm_instruction *i = at(f, n);
  if (i->opcode != TRM_OP_CONVOLUTION) return;
  bool reversed =
      i->metadata.op_type != NULL && strstr(i->metadata.op_type, "BackpropInput") != NULL;
  for (int32_t d = 0; i->window != NULL && d < i->window->rank; ++d) {
    reversed |= i->window->dims[d].reversal;
  }
  reversed |= at(f, operand(f, n, 1))->opcode == TRM_OP_REVERSE;
  if (reversed == forward) return;
  const uint32_t kernel = kernel_of(f, n);
  if (forward) {
    f->is_kernel[kernel] = true;
    return;
  }
  trm_library_call *call = call_of(f, n);
  if (f->is_kernel[kernel] && !is_grouped(i)) {
    call->copies = "weights-transpose-chans-flip-x-y/WeightsTransposeChansFlipXY/WeightsTranspose";
  } else if (!is_found(f, n)) {
    trm_library_call_set(call, TRM_LIBRARY_CONV_WITH_REVERSE);
  }
}

/* Vertices transpose the reversed kernel of a grouped convolution. */
static trm_status find_transposed(finder *f, uint32_t n, trm_error *error) {
  const trm_instruction *i = at(f, n);
  trm_library_call *call = call_of(f, n);
  if (call->pattern != TRM_LIBRARY_CONV_WITH_REVERSE || i->window == NULL || !is_grouped(i)) {
    return TRM_OK;
  }
  call->copies = pool_name(f->texts, "conv-with-reverse/Conv_", i->window);
  if (call->copies != NULL) {
    call->copies = trm_arena_format(f->texts, "%s/WeightsTranspose", call->copies);
  }
  CHECK_MEMORY(call->copies, "library calls");
  return TRM_OK;
}

/* ---- Normalisations ------------------------------------------------------------------------- */

static bool is_statistics(const trm_instruction *i) {
  return i->call_id == TRM_CALL_BATCH_NORM_STATISTICS ||
         i->call_id == TRM_CALL_BATCH_NORM_GRADIENT_STATISTICS;
}

static bool is_of_norm(const trm_instruction *i) {
  const char *type = i->metadata.op_type;
  return (trm_opcode_is_elementwise(i->opcode) || is_statistics(i)) && type != NULL &&
         i->metadata.op_name != NULL && strncmp(type, "FusedBatchNorm", 14) == 0 &&
         strstr(type, "Grad") == NULL;
}

/* Whether n is of a normalisation, or gives one of them a value for each channel. */
static bool reads_for_norm(const trm_library_finder *f, uint32_t n) {
  const uint32_t user = f->in.user[n];
  return is_of_norm(at(f, n)) || (at(f, n)->opcode == TRM_OP_BROADCAST && is_used_once(f, n) &&
                                  user != none && is_of_norm(at(f, user)));
}

/* Finds conversions of float16 parameters of normalisations: popnn reads float16 parameters. Others
 * may only give them out, as a fetched FusedBatchNorm does with all its results. */
static trm_status find_casts_for_norms(trm_library_finder *f, trm_error *error) {
  uint32_t *reads = ARENA_NEW(f->arena, uint32_t, (size_t)f->in.count + 1);
  bool *is_read = ARENA_NEW(f->arena, bool, (size_t)f->in.count + 1);
  if (reads == NULL || is_read == NULL) FAIL_NO_MEMORY("library calls");
  for (uint32_t n = 0; n < f->in.count; ++n) {
    const trm_instruction *reader = at(f, n);
    const bool gives_out =
        reader->opcode == TRM_OP_TUPLE && f->in.caller[f->in.computation[n]] == none;
    const bool is_for_norm = reads_for_norm(f, n);
    if (f->in.value[n] != n || (!gives_out && !is_for_norm)) continue;
    for (uint32_t k = 0; k < reader->num_operands; ++k) {
      const uint32_t v = operand(f, n, k);
      is_read[v] |= is_for_norm;
      ++reads[v];
    }
  }
  for (uint32_t n = 0; n < f->in.count; ++n) {
    const trm_instruction *i = at(f, n);
    if (i->opcode == TRM_OP_CONVERT && i->shape.rank <= 1 && is_read[n] &&
        reads[n] == f->in.uses[n] && at(f, operand(f, n, 0))->shape.dtype == TRM_F16) {
      call_of(f, n)->is_absorbed = true;
    }
  }
  return TRM_OK;
}

typedef struct norm {
  const char *op;
  bool is_training, reads_halves;
  uint32_t number;      /* of all its parts, from .1 on: the bridge numbers what it makes */
  const trm_shape *all; /* of its input */
  const char *key;
} norm;

/* The entry of an op in a hash table of `mask` + 1 entries. */
static norm *norm_of(norm *norms, uint32_t mask, const char *op) {
  uint64_t hash = 1;
  for (const char *c = op; *c != '\0'; ++c) hash = trm_layout_combine(hash, (uint8_t)*c);
  uint32_t slot = (uint32_t)hash & mask;
  while (norms[slot].op != NULL && strcmp(norms[slot].op, op) != 0) slot = (slot + 1) & mask;
  norms[slot].op = op;
  return &norms[slot];
}

/* Notes what all parts of each normalisation say of it. */
static void look_at_norms(const trm_library_finder *f, norm *norms, uint32_t mask) {
  for (uint32_t n = 0; n < f->in.count; ++n) {
    if (!is_of_norm(at(f, n))) continue;
    norm *of = norm_of(norms, mask, at(f, n)->metadata.op_name);
    of->is_training |= is_statistics(at(f, n));
    const trm_shape *shape = &at(f, n)->shape;
    of->reads_halves |=
        at(f, n)->opcode == TRM_OP_CONVERT &&
        (shape->dtype == TRM_F16 || at(f, operand(f, n, 0))->shape.dtype == TRM_F16);
    if (!trm_shape_is_array(shape)) continue;
    const int64_t more = of->all == NULL ? 1 : trm_shape_count(shape) - trm_shape_count(of->all);
    if (more > 0 || (more == 0 && shape->rank > of->all->rank)) of->all = shape;
  }
}

/* States the call of which instruction n is a part. popnn reads and writes float16 itself. */
static trm_status state_norm(trm_library_finder *f, uint32_t n, norm *of, uint32_t *counts,
                             trm_error *error) {
  trm_library_call *call = call_of(f, n);
  if (at(f, n)->opcode == TRM_OP_CONVERT) call->is_absorbed = true;
  if (is_found(f, n) || call->is_absorbed) return TRM_OK;
  if (of->number == 0) {
    of->number = 2 + counts[of->is_training]++;
    if (of->all != NULL) {
      char text[256];
      of->key = trm_arena_format(f->texts, "%s%s", of->reads_halves ? "half " : "",
                                 trm_shape_text(of->all, text, sizeof text));
      CHECK_MEMORY(of->key, "library calls");
    }
  }
  trm_library_call_set(
      call, of->is_training ? TRM_LIBRARY_BATCH_NORM_TRAINING : TRM_LIBRARY_BATCH_NORM_INFERENCE);
  call->key = of->key;
  call->number = of->number;
  return TRM_OK;
}

/* The parts of a fused batch norm are one normalisation in the original: of training where the op
 * computes statistics. */
trm_status trm_library_find_norms(trm_library_finder *f, trm_error *error) {
  uint32_t parts = 0, mask = 1, counts[2] = {0};
  for (uint32_t n = 0; n < f->in.count; ++n) parts += is_of_norm(at(f, n));
  if (parts == 0) return TRM_OK;
  TRY(find_casts_for_norms(f, error));
  while (mask < 2 * parts) mask = 2 * mask + 1;
  norm *norms = trm_allocate_zeroed((size_t)mask + 1, sizeof *norms);
  CHECK_MEMORY(norms, "library calls");
  look_at_norms(f, norms, mask);
  trm_status status = TRM_OK;
  for (uint32_t n = 0; n < f->in.count && status == TRM_OK; ++n) {
    if (!is_of_norm(at(f, n))) continue;
    status = state_norm(f, n, norm_of(norms, mask, at(f, n)->metadata.op_name), counts, error);
  }
  trm_free(norms);
  return status;
}

trm_status trm_library_find_layers(trm_library_finder *f, trm_error *error) {
  for (uint32_t n = 0; n < f->in.count; ++n) find_marked(f, n);
  for (uint32_t n = 0; n < f->in.count; ++n) TRY(find_pool(f, n, error));
  return TRM_OK;
}

trm_status trm_library_find_kernels(trm_library_finder *f, trm_error *error) {
  for (uint32_t n = 0; n < f->in.count; ++n) find_reversed(f, n, true);
  for (uint32_t n = 0; n < f->in.count; ++n) find_reversed(f, n, false);
  for (uint32_t n = 0; n < f->in.count; ++n) TRY(find_transposed(f, n, error));
  return TRM_OK;
}
