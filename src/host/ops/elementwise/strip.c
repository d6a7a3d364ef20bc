/* Runs strip code (strip.h). */
#include "host/ops/elementwise/strip.h"

#include <string.h>

#include "base/limits.h"
#include "host/ops/elementwise/strip_code.h"
#include "host/ops/stream.h"
#include "host/ops/threads.h"

typedef struct strip_run {
  const trm_vector_ops *ops;
  const strip_stage *stage;
  const void *const *operands;
  void *const *results;
  char *temporaries, *files;
  size_t file_bytes; /* from one thread's file to the next */
  int64_t count;
} strip_run;

static void load_iota(const strip_access *access, int64_t begin, int64_t n, int64_t *out) {
  const int64_t dim = access->dims[0], inner = access->dims[1];
  int64_t value = begin / inner % dim, rest = inner - begin % inner;
  for (int64_t i = 0; i < n;) {
    const int64_t run = rest < n - i ? rest : n - i;
    for (int64_t j = 0; j < run; ++j) out[i + j] = value;
    i += run;
    rest = inner;
    if (++value == dim) value = 0;
  }
}

/* The elements [begin, begin + n) of the index space: their place in the source, with `points` and
 * where they lie there together, else `out`, to which they are copied in runs along the innermost
 * dimension. */
static const char *load(const trm_vector_ops *ops, const strip_access *access, const char *source,
                        uint8_t log2_size, int64_t begin, int64_t n, bool points, char *out) {
  const int32_t rank = access->rank;
  if (access->is_iota) {
    load_iota(access, begin, n, (int64_t *)(void *)out);
    return out;
  }
  if (rank == 0) {
    ops->strided[log2_size](out, source + (access->base << log2_size), 0, (size_t)n);
    return out;
  }
  int64_t index[TRM_MAX_RANK], offset = access->base, rest = begin;
  for (int32_t d = rank - 1; d >= 0; --d) {
    index[d] = rest % access->dims[d];
    rest /= access->dims[d];
    offset += index[d] * access->strides[d];
  }
  const int64_t inner = access->dims[rank - 1], stride = access->strides[rank - 1];
  if (points && n <= inner - index[rank - 1]) return source + offset * ((int64_t)1 << log2_size);
  for (char *to = out;;) {
    int64_t run = inner - index[rank - 1];
    if (run > n) run = n;
    const char *from = source + offset * ((int64_t)1 << log2_size);
    if (stride == 1) memcpy(to, from, (size_t)run << log2_size);
    else ops->strided[log2_size](to, from, stride, (size_t)run);
    n -= run;
    if (n == 0) return out;
    to += (size_t)run << log2_size;
    offset -= index[rank - 1] * stride;
    index[rank - 1] = 0;
    for (int32_t d = rank - 2; d >= 0; --d) {
      offset += access->strides[d];
      if (++index[d] < access->dims[d]) break;
      offset -= access->dims[d] * access->strides[d];
      index[d] = 0;
    }
  }
}

/* Loads what the operation reads, or lets its register point there. */
static void run_load(const trm_vector_ops *ops, const strip_stage *stage,
                     const strip_operation *operation, void **slots, int64_t begin, int64_t n) {
  const strip_slot *slot = &stage->slots[operation->out];
  char *const out = operation->points ? (char *)slots + slot->offset : slots[operation->out];
  union {
    const char *in;
    void *out;
  } address; /* a register that points to its source is only read */
  address.in = load(ops, operation->access, slots[operation->access->source], slot->log2_size,
                    begin, n, operation->points, out);
  slots[operation->out] = address.out;
}

static void run_operations(const trm_vector_ops *ops, const strip_stage *stage,
                           const strip_operation *operations, uint32_t num_operations, void **slots,
                           int64_t begin, int64_t n) {
  for (uint32_t i = 0; i < num_operations; ++i) {
    const strip_operation *operation = &operations[i];
    if (operation->generated != NULL) {
      operation->generated->function(slots, (size_t)n);
    } else if (operation->function != NULL) {
      operation->function(slots[operation->out], slots[operation->in[0]], slots[operation->in[1]],
                          slots[operation->in[2]], (size_t)n);
    } else {
      run_load(ops, stage, operation, slots, begin, n);
    }
  }
}

static char *slot_address(const strip_run *run, const strip_slot *slot, char *file) {
  union {
    const void *in;
    char *out;
  } address; /* constants and operands are only read */
  switch (slot->kind) {
    case SLOT_REGISTER: return file + slot->offset;
    case SLOT_OPERAND: address.in = run->operands[slot->source]; break;
    case SLOT_RESULT: address.in = run->results[slot->source]; break;
    case SLOT_CONSTANT: address.in = slot->data; break;
    default: return run->temporaries + slot->offset;
  }
  return address.out;
}

/* Fills in the pointers at the start of the file, from element `start` of the index space on. */
static void place_slots(const strip_run *run, char *file, int64_t start) {
  const strip_stage *stage = run->stage;
  void **slots = (void **)(void *)file;
  for (uint32_t i = 0; i < stage->num_slots; ++i) {
    const strip_slot *slot = &stage->slots[i];
    char *address = slot_address(run, slot, file);
    if (slot->moves) address += (slot->base + start) * ((int64_t)1 << slot->log2_size);
    slots[i] = address;
  }
}

static void run_fills(const trm_vector_ops *ops, const strip_stage *stage, void **slots,
                      int64_t first) {
  for (uint32_t i = 0; i < stage->num_fills; ++i) {
    const bool is_scalar = stage->slots[stage->fills[i].out].is_scalar;
    run_operations(ops, stage, &stage->fills[i], 1, slots, 0, is_scalar ? 1 : first);
  }
}

static void run_strips(const void *context, int64_t begin, int64_t end, int thread) {
  const strip_run *run = context;
  const strip_stage *stage = run->stage;
  char *file = run->files + (size_t)thread * run->file_bytes;
  void **slots = (void **)(void *)file;
  const int64_t strip = stage->strip;
  place_slots(run, file, begin * strip);
  run_fills(run->ops, stage, slots, run->count < strip ? run->count : strip);
  for (int64_t s = begin; s < end; ++s) {
    const int64_t start = s * strip;
    const int64_t n = run->count - start < strip ? run->count - start : strip;
    run_operations(run->ops, stage, stage->operations, stage->num_operations, slots, start, n);
    for (uint32_t i = 0; i < stage->num_moving; ++i) {
      const uint32_t slot = stage->moving[i];
      slots[slot] = (char *)slots[slot] + ((size_t)strip << stage->slots[slot].log2_size);
    }
  }
  if (stage->streams) trm_stream_end();
}

void trm_strip_destroy(trm_strip_code *code) {
  for (uint32_t i = 0; i < code->num_mappings; ++i)
    trm_code_unmap(code->mappings[i].memory, code->mappings[i].size);
  code->num_mappings = 0;
}

size_t trm_strip_scratch_bytes(const trm_strip_code *code) {
  return code->temporary_bytes + code->file_bytes * (size_t)code->max_threads;
}

uint32_t trm_strip_in_place_operands(const trm_strip_code *code, uint32_t result) {
  return code->in_place_operands[result];
}

void trm_strip_run(const trm_strip_code *code, const void *const *operands, void *const *results,
                   void *scratch) {
  for (uint32_t i = 0; i < code->num_stages; ++i) {
    const strip_stage *stage = &code->stages[i];
    if (stage->count == 0) continue;
    const strip_run run = {code->ops,        stage,       operands,
                           results,          scratch,     (char *)scratch + code->temporary_bytes,
                           code->file_bytes, stage->count};
    int threads = trm_threads_for((size_t)stage->count * stage->bytes_per_element);
    if (threads > code->max_threads) threads = code->max_threads;
    trm_parallel_ranges(threads, (stage->count + stage->strip - 1) / stage->strip, run_strips,
                        &run);
  }
}

/* ---- Code of one strip ---------------------------------------------------------------------- */

/* The block begins with the addresses of operands and results; temporaries and the files of all
 * stages follow. */
size_t trm_strip_kept_bytes(const trm_strip_code *code) {
  size_t bytes = code->known_bytes + code->temporary_bytes;
  for (uint32_t i = 0; i < code->num_stages; ++i) {
    const strip_stage *stage = &code->stages[i];
    if (stage->count == 0 || stage->count > stage->strip) return 0;
    bytes += stage->file_bytes;
  }
  return bytes <= TRM_STRIP_MOST_KEPT ? bytes : 0;
}

/* Not inlined, nor is run_kept_stages: the usual call needs no frame. */
static __attribute__((noinline)) void place_kept(const trm_strip_code *code,
                                                 const void *const *operands, void *const *results,
                                                 char *kept) {
  const void **known = (const void **)(void *)kept;
  memcpy(known, operands, code->num_operands * sizeof *known);
  memcpy(known + code->num_operands, results, code->num_results * sizeof *known);
  char *temporaries = kept + code->known_bytes, *file = temporaries + code->temporary_bytes;
  for (uint32_t i = 0; i < code->num_stages; ++i) {
    const strip_stage *stage = &code->stages[i];
    const strip_run run = {code->ops, stage, operands, results, temporaries, file, 0, stage->count};
    place_slots(&run, file, 0);
    file += stage->file_bytes;
  }
}

static bool are_known(const trm_strip_code *code, const void *const *operands, void *const *results,
                      const void *const *known) {
  for (uint32_t i = 0; i < code->num_operands; ++i)
    if (operands[i] != *known++) return false;
  for (uint32_t i = 0; i < code->num_results; ++i)
    if (results[i] != *known++) return false;
  return true;
}

static __attribute__((noinline)) void run_kept_stages(const trm_strip_code *code, char *file) {
  for (uint32_t i = 0; i < code->num_stages; ++i) {
    const strip_stage *stage = &code->stages[i];
    void **slots = (void **)(void *)file;
    run_fills(code->ops, stage, slots, stage->count);
    run_operations(code->ops, stage, stage->operations, stage->num_operations, slots, 0,
                   stage->count);
    file += stage->file_bytes;
  }
}

void trm_strip_run_kept(const trm_strip_code *code, const void *const *operands,
                        void *const *results, void *kept) {
  if (!are_known(code, operands, results, kept)) place_kept(code, operands, results, kept);
  char *file = (char *)kept + code->known_bytes + code->temporary_bytes;
  if (code->only == NULL) run_kept_stages(code, file);
  else code->only((void *const *)(void *)file, (size_t)code->stages[0].count);
}

/* ---- Functions ------------------------------------------------------------------------------ */

void trm_function_apply(const trm_function *function, const void *const *args, void *const *results,
                        size_t count, void *scratch) {
  const trm_strip_code *code = function->code;
  for (uint32_t i = 0; i < code->num_stages; ++i) {
    const strip_stage *stage = &code->stages[i];
    const strip_run run = {code->ops,        stage,         args,
                           results,          scratch,       (char *)scratch + code->temporary_bytes,
                           code->file_bytes, (int64_t)count};
    if (count > 0) run_strips(&run, 0, ((int64_t)count + stage->strip - 1) / stage->strip, 0);
  }
}

bool trm_function_single_opcode(const trm_function *function, trm_opcode *out_opcode) {
  *out_opcode = function->single_opcode;
  return function->single_opcode != TRM_NUM_OPCODES;
}
