/* Owns: merging neighbouring operations of strip code, so that a chain makes fewer passes over the
 * first-level cache: machine code for runs of them (strip_generate.c); what it cannot do as pairs
 * of operations, polynomials with constant coefficients, and with scalars read as such. */
#include <string.h>

#include "host/ops/elementwise/strip_compile.h"

typedef strip_compiler compiler;

enum { MAX_DEGREE = 32 };

static bool is_f32(const trm_vector_ops *ops, trm_opcode opcode, trm_vector_fn function) {
  return function != NULL && function == ops->op[opcode][TRM_V_F32];
}

static bool find_first(const trm_vector_ops *ops, trm_vector_fn function, trm_pair_first *out) {
  if (is_f32(ops, TRM_OP_ADD, function)) *out = TRM_FIRST_ADD;
  else if (is_f32(ops, TRM_OP_SUBTRACT, function)) *out = TRM_FIRST_SUBTRACT;
  else if (is_f32(ops, TRM_OP_MULTIPLY, function)) *out = TRM_FIRST_MULTIPLY;
  else return false;
  return true;
}

/* `swapped`: the first operation's result is the second operation's second operand. */
static bool find_second(const trm_vector_ops *ops, trm_vector_fn function, bool swapped,
                        trm_pair_second *out) {
  if (is_f32(ops, TRM_OP_ADD, function)) *out = TRM_SECOND_ADD;
  else if (is_f32(ops, TRM_OP_MULTIPLY, function)) *out = TRM_SECOND_MULTIPLY;
  else if (is_f32(ops, TRM_OP_SUBTRACT, function)) {
    *out = swapped ? TRM_SECOND_SUBTRACT_FROM : TRM_SECOND_SUBTRACT;
  } else if (is_f32(ops, TRM_OP_MAXIMUM, function)) {
    *out = swapped ? TRM_SECOND_MAXIMUM_OF : TRM_SECOND_MAXIMUM;
  } else {
    return false;
  }
  return true;
}

static bool reads(const strip_operation *operation, uint32_t slot) {
  for (uint32_t k = 0; k < strip_num_reads(operation); ++k) {
    if (strip_read(operation, k) == slot) return true;
  }
  return false;
}

bool trm_strip_is_read_later(const strip_operation *operations, size_t begin, size_t end,
                             uint32_t slot) {
  for (size_t i = begin; i < end; ++i) {
    if (reads(&operations[i], slot)) return true;
    for (uint32_t k = 0; k < strip_num_writes(&operations[i]); ++k) {
      if (strip_write(&operations[i], k) == slot) return false;
    }
  }
  return false;
}

/* Whether the operation's result goes to the next operation alone. */
static bool feeds_next(const compiler *c, const strip_operation *operation,
                       const strip_operation *end) {
  const strip_operation *next = operation + 1;
  if (next >= end || next->generated != NULL ||
      c->slots.items[operation->out].kind != SLOT_REGISTER)
    return false;
  return next->out == operation->out ||
         !trm_strip_is_read_later(operation, 2, (size_t)(end - operation), operation->out);
}

static void merge_pairs(compiler *c, uint32_t num_fills) {
  const trm_vector_ops *ops = c->ops;
  strip_operation *operations = c->operations.items, *end = operations + c->operations.count;
  size_t kept = num_fills;
  for (strip_operation *at = operations + num_fills; at < end; ++at) {
    strip_operation operation = *at;
    trm_pair_first first;
    trm_pair_second second;
    if (feeds_next(c, at, end) && find_first(ops, operation.function, &first)) {
      const strip_operation *next = at + 1;
      const bool swapped = next->in[1] == operation.out;
      if ((next->in[0] == operation.out) != swapped &&
          find_second(ops, next->function, swapped, &second)) {
        const uint32_t other = next->in[swapped ? 0 : 1];
        operation = (strip_operation){ops->pair[first][second],
                                      NULL,
                                      next->out,
                                      {operation.in[0], operation.in[1], other},
                                      0,
                                      NULL,
                                      false};
        ++at;
      }
    }
    operations[kept++] = operation;
  }
  c->operations.count = kept;
}

bool trm_strip_find_constant(const compiler *c, uint32_t num_fills, uint32_t slot, float *out) {
  for (uint32_t i = 0; i < num_fills; ++i) {
    const strip_operation *fill = &c->operations.items[i];
    if (fill->out != slot || fill->function != NULL || fill->access->is_iota ||
        fill->access->rank != 0)
      continue;
    const strip_slot *source = &c->slots.items[fill->access->source];
    if (source->kind != SLOT_CONSTANT || source->log2_size != 2) return false;
    memcpy(out, (const float *)source->data + fill->access->base, sizeof *out);
    return true;
  }
  return false;
}

/* Whether the operation is value * z + constant, with the value in its first or second operand. */
static bool is_horner(const compiler *c, uint32_t num_fills, const strip_operation *operation,
                      uint32_t value, uint32_t z, float *out_constant) {
  return operation->function == c->ops->pair[TRM_FIRST_MULTIPLY][TRM_SECOND_ADD] &&
         operation->in[2] != value &&
         ((operation->in[0] == value && operation->in[1] == z) ||
          (operation->in[1] == value && operation->in[0] == z)) &&
         trm_strip_find_constant(c, num_fills, operation->in[2], out_constant);
}

/* How many operations from `at` on are a polynomial of slot `z` whose first operation multiplies
 * `value`. */
static uint32_t count_horner(const compiler *c, uint32_t num_fills, const strip_operation *at,
                             uint32_t value, uint32_t z, float *out_constants) {
  const strip_operation *const end = c->operations.items + c->operations.count;
  uint32_t count = 0;
  for (; count < MAX_DEGREE && is_horner(c, num_fills, at, value, z, &out_constants[count]); ++at) {
    ++count;
    if (!feeds_next(c, at, end) || at->out == z) break;
    value = at->out;
  }
  return count;
}

static trm_status merge_polynomials(compiler *c, uint32_t num_fills, trm_error *error) {
  size_t kept = num_fills;
  for (size_t i = num_fills; i < c->operations.count; ++i) {
    strip_operation operation = c->operations.items[i];
    float constants[MAX_DEGREE];
    uint32_t count = 0, value = operation.in[0], z = operation.in[1];
    for (int order = 0; order < 2 && count < 2 && operation.function != NULL; ++order) {
      value = operation.in[order], z = operation.in[1 - order];
      count = count_horner(c, num_fills, &c->operations.items[i], value, z, constants);
    }
    if (count >= 2) {
      trm_polynomial *polynomial =
          trm_arena_allocate(c->arena, 1, sizeof *polynomial + count * sizeof(float));
      CHECK_MEMORY(polynomial, "strip code");
      const bool starts = trm_strip_find_constant(c, num_fills, value, &polynomial->start);
      polynomial->starts = starts;
      polynomial->count = count;
      memcpy(polynomial->coefficients, constants, count * sizeof(float));
      const strip_slot data = {.kind = SLOT_CONSTANT, .log2_size = 2, .data = polynomial};
      if (!VECTOR_PUSH(&c->slots, data)) FAIL_NO_MEMORY("strip code");
      i += count - 1;
      operation = (strip_operation){c->ops->polynomial,
                                    NULL,
                                    c->operations.items[i].out,
                                    {starts ? z : value, z, (uint32_t)c->slots.count - 1},
                                    0,
                                    NULL,
                                    false};
    }
    c->operations.items[kept++] = operation;
  }
  c->operations.count = kept;
  return TRM_OK;
}

/* Fills that nothing reads any more. */
static uint32_t drop_fills(compiler *c, uint32_t num_fills) {
  strip_operation *const operations = c->operations.items;
  uint32_t dropped = 0;
  for (uint32_t i = num_fills; i-- > 0;) {
    bool is_read = false;
    for (size_t k = i + 1; k < c->operations.count && !is_read; ++k)
      is_read = reads(&operations[k], operations[i].out);
    if (is_read) continue;
    --c->operations.count;
    ++dropped;
    memmove(operations + i, operations + i + 1, (c->operations.count - i) * sizeof *operations);
  }
  return num_fills - dropped;
}

/* ---- Scalars -------------------------------------------------------------------------------- */

bool trm_strip_is_uniform(const compiler *c, uint32_t num_fills, uint32_t slot) {
  if (!c->slots.items[slot].keeps || c->slots.items[slot].log2_size != 2) return false;
  for (uint32_t i = 0; i < num_fills; ++i) {
    const strip_operation *fill = &c->operations.items[i];
    if (fill->out == slot)
      return fill->function == NULL && !fill->access->is_iota && fill->access->rank == 0;
  }
  return false;
}

static void use_single_scalar(const compiler *c, uint32_t num_fills, strip_operation *operation) {
  static const trm_opcode opcodes[] = {TRM_OP_ADD,    TRM_OP_SUBTRACT, TRM_OP_MULTIPLY,
                                       TRM_OP_DIVIDE, TRM_OP_MAXIMUM,  TRM_OP_MINIMUM};
  for (size_t k = 0; k < sizeof opcodes / sizeof *opcodes; ++k) {
    if (!is_f32(c->ops, opcodes[k], operation->function)) continue;
    for (uint32_t i = 0; i < 2; ++i) {
      if (!trm_strip_is_uniform(c, num_fills, operation->in[i]) ||
          operation->in[0] == operation->in[1])
        continue;
      operation->scalars = i == 0 ? TRM_SCALAR_A : TRM_SCALAR_B;
      operation->function = c->ops->scalar[operation->scalars][opcodes[k]];
      operation->in[2] = operation->in[1 - i]; /* which is not read */
      return;
    }
    return;
  }
  if (is_f32(c->ops, TRM_OP_CLAMP, operation->function) && operation->in[1] != operation->in[0] &&
      operation->in[1] != operation->in[2] &&
      trm_strip_is_uniform(c, num_fills, operation->in[0]) &&
      trm_strip_is_uniform(c, num_fills, operation->in[2])) {
    operation->scalars = TRM_SCALAR_A | TRM_SCALAR_C;
    operation->function = c->ops->scalar[operation->scalars][TRM_OP_CLAMP];
  }
}

static void use_pair_scalars(const compiler *c, uint32_t num_fills, strip_operation *operation) {
  for (int first = 0; first < TRM_NUM_FIRSTS; ++first) {
    for (int second = 0; second < TRM_NUM_SECONDS; ++second) {
      if (operation->function != c->ops->pair[first][second]) continue;
      if (first != TRM_FIRST_SUBTRACT && trm_strip_is_uniform(c, num_fills, operation->in[0])) {
        const uint32_t swapped = operation->in[0];
        operation->in[0] = operation->in[1];
        operation->in[1] = swapped;
      }
      if (trm_strip_is_uniform(c, num_fills, operation->in[1])) operation->scalars |= TRM_SCALAR_B;
      if (trm_strip_is_uniform(c, num_fills, operation->in[2])) operation->scalars |= TRM_SCALAR_C;
      if (operation->scalars != 0)
        operation->function = c->ops->scalar_pair[operation->scalars][first][second];
      return;
    }
  }
}

/* Steps read what is the same for all elements as a scalar; its register may shrink then. */
static void use_scalars(compiler *c, uint32_t num_fills) {
  for (uint32_t i = 0; i < num_fills; ++i) {
    const uint32_t slot = c->operations.items[i].out;
    c->slots.items[slot].is_scalar = trm_strip_is_uniform(c, num_fills, slot);
  }
  for (size_t i = 0; i < c->operations.count; ++i) {
    strip_operation *operation = &c->operations.items[i];
    const strip_generated *generated = operation->generated;
    for (uint32_t k = 0; generated != NULL && k < generated->num_arrays; ++k)
      c->slots.items[generated->reads[k]].is_scalar = false;
    if (operation->function == NULL) continue;
    if (i >= num_fills) {
      use_single_scalar(c, num_fills, operation);
      use_pair_scalars(c, num_fills, operation);
    }
    for (uint32_t k = 0; k < 3; ++k) {
      if ((operation->scalars >> k & 1) == 0) c->slots.items[operation->in[k]].is_scalar = false;
    }
  }
}

trm_status trm_strip_merge_steps(strip_compiler *c, uint32_t *num_fills, trm_error *error) {
  merge_pairs(c, *num_fills);
  TRY(merge_polynomials(c, *num_fills, error));
  *num_fills = drop_fills(c, *num_fills);
  use_scalars(c, *num_fills);
  return TRM_OK;
}
