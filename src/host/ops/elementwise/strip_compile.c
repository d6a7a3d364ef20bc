/* Compiles a computation into strip code (strip.h): which values are stages of their own, how
 * each leaf is read, and the operations. */
#include <stdlib.h>
#include <string.h>

#include "host/ops/elementwise/strip_compile.h"
#include "host/ops/stream.h"
#include "host/ops/threads.h"

typedef strip_compiler compiler;
typedef strip_target target;

/* ---- The compiler's state ------------------------------------------------------------------- */

/* In the linear order of its operand: nothing to do. */
static bool is_alias(const compiler *c, trm_index index) {
  const trm_instruction *instruction = strip_at(c, index);
  if (trm_strip_is_view(c->computation, instruction)) return true;
  if (!trm_strip_is_access(instruction)) return false;
  const trm_shape *from = &strip_at(c, instruction->operands[0])->shape, *to = &instruction->shape;
  if (trm_shape_count(from) != trm_shape_count(to)) return false;
  if (trm_shape_count(to) == 1 || instruction->opcode == TRM_OP_SLICE) return true;
  if (instruction->opcode != TRM_OP_BROADCAST && instruction->opcode != TRM_OP_TRANSPOSE)
    return false;
  /* The dimensions that are not 1 keep their order. */
  int64_t last = -1;
  for (int32_t d = 0; d < instruction->dimensions.count; ++d) {
    if (from->dims[d] == 1 && instruction->opcode == TRM_OP_BROADCAST) continue;
    if (instruction->opcode == TRM_OP_TRANSPOSE && to->dims[d] == 1) continue;
    if (instruction->dimensions.items[d] < last) return false;
    last = instruction->dimensions.items[d];
  }
  return true;
}

/* Asks for a stage that computes the value in full. */
static void stage_value(compiler *c, trm_index index) {
  if (c->is_staged[index]) return;
  c->is_staged[index] = true;
  c->temporary[index] = c->temporary_bytes;
  c->temporary_bytes += (trm_shape_bytes(&strip_at(c, index)->shape) + 63) & ~(size_t)63;
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* How the coordinates of an instruction follow from the index space's. */
typedef struct coordinates {
  int32_t from[TRM_MAX_RANK]; /* dimension of the index space, or -1 */
  int64_t start[TRM_MAX_RANK], step[TRM_MAX_RANK];
} coordinates;

static void through_access(const compiler *c, const trm_instruction *instruction,
                           coordinates *map) {
  const trm_shape *operand = &strip_at(c, instruction->operands[0])->shape;
  const coordinates old = *map;
  for (int32_t k = 0; k < operand->rank; ++k) {
    switch (instruction->opcode) {
      case TRM_OP_BROADCAST: {
        const int64_t d = instruction->dimensions.items[k];
        map->from[k] = old.from[d], map->start[k] = old.start[d], map->step[k] = old.step[d];
        break;
      }
      case TRM_OP_TRANSPOSE: {
        const int64_t d = instruction->dimensions.items[k];
        map->from[d] = old.from[k], map->start[d] = old.start[k], map->step[d] = old.step[k];
        break;
      }
      case TRM_OP_SLICE: {
        const trm_slice_dimension *s = &instruction->slice[k];
        map->start[k] = s->start + s->stride * old.start[k];
        map->step[k] = s->stride * old.step[k];
        break;
      }
      default: /* reverse */
        for (int32_t i = 0; i < instruction->dimensions.count; ++i) {
          if (instruction->dimensions.items[i] != k) continue;
          map->start[k] = operand->dims[k] - 1 - old.start[k];
          map->step[k] = -old.step[k];
        }
        break;
    }
  }
}

/* A reshape that only adds or drops dimensions of 1: true, and the map is the operand's. */
static bool through_reshape(const trm_shape *from, const trm_shape *operand, coordinates *map) {
  const coordinates old = *map;
  int32_t d = 0;
  for (int32_t k = 0; k < operand->rank; ++k) {
    if (operand->dims[k] == 1) {
      map->from[k] = -1, map->start[k] = 0, map->step[k] = 0;
      continue;
    }
    while (d < from->rank && from->dims[d] == 1) ++d;
    if (d == from->rank || from->dims[d] != operand->dims[k]) {
      *map = old;
      return false;
    }
    map->from[k] = old.from[d], map->start[k] = old.start[d], map->step[k] = old.step[d];
    ++d;
  }
  return true;
}

static uint32_t add_slot(compiler *c, strip_slot slot) {
  if (!VECTOR_PUSH(&c->slots, slot)) return NO_SLOT;
  return (uint32_t)c->slots.count - 1;
}
static uint32_t add_register(compiler *c, uint8_t log2_size) {
  return add_slot(c, (strip_slot){.kind = SLOT_REGISTER, .log2_size = log2_size});
}
static trm_status add_operation(compiler *c, trm_vector_fn function, const strip_access *access,
                                uint32_t out, uint32_t a, uint32_t b, uint32_t d,
                                trm_error *error) {
  const strip_operation operation = {function, access, out, {a, b, d}, 0, NULL, false};
  if (out == NO_SLOT || !VECTOR_PUSH(&c->operations, operation)) FAIL_NO_MEMORY("strip code");
  return TRM_OK;
}

/* The array behind a leaf or a staged value, as a slot at its start. */
static strip_slot source_slot(const compiler *c, trm_index index) {
  const trm_instruction *instruction = strip_at(c, index);
  strip_slot slot = {.log2_size = trm_strip_log2_of_size(trm_dtype_size(instruction->shape.dtype))};
  if (instruction->opcode == TRM_OP_PARAMETER) {
    slot.kind = SLOT_OPERAND;
    slot.source = (uint32_t)instruction->number;
  } else if (instruction->opcode == TRM_OP_CONSTANT) {
    slot.kind = SLOT_CONSTANT;
    slot.data = instruction->literal->leaves[0];
  } else {
    slot.kind = SLOT_TEMPORARY;
    slot.offset = c->temporary[index];
  }
  return slot;
}

static bool is_leaf(trm_opcode opcode) {
  return opcode == TRM_OP_PARAMETER || opcode == TRM_OP_CONSTANT;
}

/* Follows views and accesses from `index` down to an array in memory, staging what was computed,
 * and describes how its elements are read in the order of `index`; returns that array. */
static trm_index resolve_access(compiler *c, trm_index index, strip_access *access) {
  const trm_shape *space = &strip_at(c, index)->shape;
  coordinates map = {{0}, {0}, {0}};
  for (int32_t d = 0; d < space->rank; ++d) map.from[d] = d, map.step[d] = 1;
  trm_index current = index;
  bool is_flat = false; /* past a reshape: only the linear index is known */
  int64_t base = 0, strides[TRM_MAX_RANK] = {0};
  for (;;) {
    const trm_instruction *instruction = strip_at(c, current);
    const bool reads = is_leaf(instruction->opcode) || (c->is_staged[current] && current != index);
    const bool view = trm_strip_is_view(c->computation, instruction);
    if (!reads && trm_strip_is_access(instruction) && !is_flat) {
      through_access(c, instruction, &map);
      current = instruction->operands[0];
      continue;
    }
    if (!is_flat && (reads || !view ||
                     !through_reshape(&instruction->shape,
                                      &strip_at(c, instruction->operands[0])->shape, &map))) {
      int64_t stride = 1;
      for (int32_t k = instruction->shape.rank - 1; k >= 0; --k) {
        base += map.start[k] * stride;
        if (map.from[k] >= 0) strides[map.from[k]] += map.step[k] * stride;
        stride *= instruction->shape.dims[k];
      }
      is_flat = true;
    }
    if (reads) break;
    if (!view) {
      stage_value(c, current);
      break;
    }
    current = instruction->operands[0];
  }
  /* Collapse: drop dimensions of 1, merge neighbours that run on. */
  *access = (strip_access){.base = base};
  for (int32_t d = 0; d < space->rank; ++d) {
    if (space->dims[d] == 1) continue;
    const int32_t last = access->rank - 1;
    if (last >= 0 && access->strides[last] == strides[d] * space->dims[d]) {
      access->dims[last] *= space->dims[d];
      access->strides[last] = strides[d];
    } else {
      access->dims[access->rank] = space->dims[d];
      access->strides[access->rank++] = strides[d];
    }
  }
  if (access->rank == 1 && access->strides[0] == 0) access->rank = 0;
  return current;
}

/* Emits the reading of `index`, whose array is `source`, into a register (or in place). */
static trm_status emit_read(compiler *c, trm_index index, trm_index source,
                            const strip_access *access, trm_error *error) {
  const trm_dtype dtype = strip_at(c, source)->shape.dtype;
  const int64_t count = strip_count(c, index);
  strip_slot raw = source_slot(c, source);
  const bool is_linear =
      (access->rank == 0 && count == 1) || (access->rank == 1 && access->strides[0] == 1);
  uint32_t slot;
  if (is_linear) {
    raw.moves = true;
    raw.base = access->base;
    slot = add_slot(c, raw);
  } else {
    strip_access *kept = trm_arena_copy(c->arena, access, sizeof *access);
    CHECK_MEMORY(kept, "strip code");
    kept->source = add_slot(c, raw);
    if (kept->source == NO_SLOT) FAIL_NO_MEMORY("strip code");
    slot = add_register(c, raw.log2_size);
    TRY(add_operation(c, NULL, kept, slot, 0, 0, 0, error));
  }
  if (slot == NO_SLOT) FAIL_NO_MEMORY("strip code");
  if (dtype == TRM_F16) {
    const uint32_t half = slot;
    slot = add_register(c, 2);
    TRY(add_operation(c, c->ops->half_to_float, NULL, slot, half, half, half, error));
  }
  c->value_slot[index] = slot;
  return TRM_OK;
}

static trm_status emit_iota(compiler *c, trm_index index, trm_error *error) {
  const trm_instruction *instruction = strip_at(c, index);
  const trm_shape *shape = &instruction->shape;
  strip_access *access = ARENA_NEW(c->arena, strip_access, 1);
  CHECK_MEMORY(access, "strip code");
  const int64_t dimension = instruction->dimensions.items[0];
  access->is_iota = true;
  access->rank = 2;
  access->dims[0] = shape->dims[dimension];
  access->dims[1] = 1;
  for (int64_t d = dimension + 1; d < shape->rank; ++d) access->dims[1] *= shape->dims[d];
  uint32_t slot = add_register(c, 3);
  access->source = slot;
  TRY(add_operation(c, NULL, access, slot, 0, 0, 0, error));
  if (trm_strip_register_type(shape->dtype) != TRM_V_S64) {
    const uint32_t wide = slot;
    slot = add_register(c, trm_strip_register_log2(shape->dtype));
    TRY(add_operation(c, c->ops->convert[TRM_V_S64][trm_strip_register_type(shape->dtype)], NULL,
                      slot, wide, wide, wide, error));
  }
  if (shape->dtype == TRM_F16) {
    TRY(add_operation(c, c->ops->round_half, NULL, slot, slot, slot, slot, error));
  }
  c->value_slot[index] = slot;
  return TRM_OK;
}

/* ---- Computing ------------------------------------------------------------------------------ */

/* What a half result is where it overflows and at poles; `out` is not rounded yet. */
static trm_status emit_half_limit(compiler *c, trm_opcode opcode, uint32_t out, uint32_t a,
                                  uint32_t b, trm_error *error) {
  const trm_vector_fn limit = c->ops->half_limit[c->request->half_overflow];
  if (limit == NULL) return TRM_OK;
  switch (opcode) {
    case TRM_OP_DIVIDE:
    case TRM_OP_LOG:
    case TRM_OP_LOG_PLUS_ONE:
    case TRM_OP_RSQRT: TRY(add_operation(c, c->ops->half_pole, NULL, out, out, a, b, error)); break;
    case TRM_OP_POWER:
    case TRM_OP_EXPONENTIAL:
    case TRM_OP_EXPONENTIAL_MINUS_ONE:
      TRY(add_operation(c, c->ops->half_large, NULL, out, out, a, b, error));
      break;
    default: break;
  }
  return add_operation(c, limit, NULL, out, out, out, out, error);
}

static trm_status emit_elementwise(compiler *c, trm_index index, bool skip_rounding,
                                   trm_error *error) {
  const trm_instruction *instruction = strip_at(c, index);
  const trm_opcode opcode = instruction->opcode;
  const trm_dtype to = instruction->shape.dtype;
  uint32_t in[3];
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t k = i < instruction->num_operands ? i : 0;
    in[i] = c->value_slot[instruction->operands[k]];
  }
  const trm_dtype from = strip_at(c, instruction->operands[0])->shape.dtype;
  if (opcode == TRM_OP_CONVERT && trm_strip_register_type(from) == trm_strip_register_type(to) &&
      (to != TRM_F16 || from == TRM_F16)) {
    c->value_slot[index] = in[0];
    return TRM_OK;
  }
  trm_vector_fn function =
      trm_strip_find_function(c->ops, c->computation, instruction, c->request->casts_wrap);
  bool rounds = to == TRM_F16 && !trm_strip_is_exact(opcode) && !skip_rounding;
  bool overflows = to == TRM_F16 && !trm_strip_is_exact(opcode);
  if (opcode == TRM_OP_CONVERT && from == TRM_F32 && to == TRM_F16) {
    const trm_vector_fn limit = c->ops->half_limit[c->request->half_overflow];
    if (skip_rounding && limit == NULL) {
      c->value_slot[index] = in[0];
      return TRM_OK;
    }
    function = limit != NULL ? limit : c->ops->round_half;
    rounds = rounds && limit != NULL;
    overflows = false;
  }
  const uint32_t out = add_register(c, trm_strip_register_log2(to));
  TRY(add_operation(c, function, NULL, out, in[0], in[1], in[2], error));
  if (overflows) TRY(emit_half_limit(c, opcode, out, in[0], in[1], error));
  if (rounds) TRY(add_operation(c, c->ops->round_half, NULL, out, out, out, out, error));
  c->value_slot[index] = out;
  return TRM_OK;
}

/* ---- Stages --------------------------------------------------------------------------------- */

static int compare_indices(const void *a, const void *b) {
  const trm_index x = *(const trm_index *)a, y = *(const trm_index *)b;
  return (x > y) - (x < y);
}

/* Finds what the roots need in their index space: c->members, ascending. */
static trm_status find_members(compiler *c, const target *t, trm_error *error) {
  const uint32_t stage = ++c->num_stages;
  const int64_t count = strip_count(c, t->roots[0]);
  c->members.count = c->stack.count = 0;
  for (uint32_t r = 0; r < t->num_roots; ++r) {
    if (!VECTOR_PUSH(&c->stack, t->roots[r])) FAIL_NO_MEMORY("strip code");
  }
  while (c->stack.count > 0) {
    const trm_index index = c->stack.items[--c->stack.count];
    if (c->mark[index] == stage) continue;
    c->mark[index] = stage;
    c->uses[index] = 0;
    if (!VECTOR_PUSH(&c->members, index)) FAIL_NO_MEMORY("strip code");
    const trm_instruction *instruction = strip_at(c, index);
    if (is_leaf(instruction->opcode) || instruction->opcode == TRM_OP_IOTA ||
        (trm_strip_is_access(instruction) && !is_alias(c, index)))
      continue;
    for (uint32_t i = 0; i < instruction->num_operands; ++i) {
      const trm_index operand = instruction->operands[i];
      if (strip_count(c, operand) != count) continue; /* a scalar for all */
      if (!VECTOR_PUSH(&c->stack, operand)) FAIL_NO_MEMORY("strip code");
    }
  }
  qsort(c->members.items, c->members.count, sizeof *c->members.items, compare_indices);
  for (size_t i = 0; i < c->members.count; ++i) {
    const trm_instruction *instruction = strip_at(c, c->members.items[i]);
    for (uint32_t k = 0; k < instruction->num_operands; ++k) c->uses[instruction->operands[k]]++;
  }
  return TRM_OK;
}

/* A scalar operand of select or clamp, or a scalar that was computed. */
static trm_status emit_scalar(compiler *c, trm_index index, trm_error *error) {
  strip_access access;
  trm_index source = index;
  while (!is_leaf(strip_at(c, source)->opcode) && is_alias(c, source))
    source = strip_at(c, source)->operands[0];
  if (!is_leaf(strip_at(c, source)->opcode)) stage_value(c, source);
  access = (strip_access){0};
  strip_slot raw = source_slot(c, source);
  strip_access *kept = trm_arena_copy(c->arena, &access, sizeof access);
  CHECK_MEMORY(kept, "strip code");
  kept->source = add_slot(c, raw);
  if (kept->source == NO_SLOT) FAIL_NO_MEMORY("strip code");
  uint32_t slot = add_register(c, raw.log2_size);
  TRY(add_operation(c, NULL, kept, slot, 0, 0, 0, error));
  if (strip_at(c, source)->shape.dtype == TRM_F16) {
    const uint32_t half = slot;
    slot = add_register(c, 2);
    TRY(add_operation(c, c->ops->half_to_float, NULL, slot, half, half, half, error));
  }
  c->value_slot[index] = slot;
  return TRM_OK;
}

static trm_status emit_member(compiler *c, const target *t, trm_index index, trm_error *error) {
  const trm_instruction *instruction = strip_at(c, index);
  const int64_t count = strip_count(c, t->roots[0]);
  strip_access access = {0};
  if (is_leaf(instruction->opcode)) {
    if (c->request->is_function && instruction->opcode == TRM_OP_CONSTANT) {
      return emit_scalar(c, index, error);
    }
    access.rank = 1, access.dims[0] = count, access.strides[0] = 1;
    return emit_read(c, index, index, &access, error);
  }
  if (instruction->opcode == TRM_OP_IOTA) return emit_iota(c, index, error);
  if (is_alias(c, index)) {
    c->value_slot[index] = c->value_slot[instruction->operands[0]];
    return TRM_OK;
  }
  if (trm_strip_is_access(instruction)) {
    const trm_index source = resolve_access(c, index, &access);
    return emit_read(c, index, source, &access, error);
  }
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    if (strip_count(c, instruction->operands[i]) != count)
      TRY(emit_scalar(c, instruction->operands[i], error));
  }
  bool skip_rounding = c->uses[index] == 0;
  return emit_elementwise(c, index, skip_rounding, error);
}

/* Whether the result is written past the caches. */
static bool is_streamed(const compiler *c, const strip_slot *result, int64_t count) {
  if (result->kind != SLOT_RESULT || c->request->is_function) return false;
  if (c->request->streams != NULL) return c->request->streams[result->source];
  return ((size_t)count << result->log2_size) >= TRM_STREAM_LEAST_BYTES;
}

/* Stores the roots. */
static trm_status emit_roots(compiler *c, const target *t, trm_error *error) {
  for (uint32_t r = 0; r < t->num_roots; ++r) {
    const trm_dtype dtype = strip_at(c, t->roots[r])->shape.dtype;
    strip_slot place = {.kind = SLOT_RESULT,
                        .moves = true,
                        .source = t->results[r],
                        .log2_size = trm_strip_log2_of_size(trm_dtype_size(dtype))};
    if (t->results[r] == NO_SLOT) {
      place.kind = SLOT_TEMPORARY;
      place.offset = c->temporary[t->roots[r]];
    }
    place.streams = is_streamed(c, &place, strip_count(c, t->roots[r]));
    uint32_t slot = c->value_slot[t->roots[r]];
    const strip_slot *value = &c->slots.items[slot];
    if (dtype != TRM_F16 && value->kind == SLOT_REGISTER) {
      c->slots.items[slot] = place; /* computed where it belongs */
    } else {
      const uint32_t from = slot;
      slot = add_slot(c, place);
      TRY(add_operation(c, dtype == TRM_F16 ? c->ops->float_to_half : c->ops->copy[place.log2_size],
                        NULL, slot, from, from, from, error));
    }
  }
  return TRM_OK;
}

static trm_status compile_stage(compiler *c, const target *t, trm_error *error) {
  c->slots.count = c->operations.count = 0;
  TRY(find_members(c, t, error));
  for (size_t i = 0; i < c->members.count; ++i) TRY(emit_member(c, t, c->members.items[i], error));
  TRY(emit_roots(c, t, error));
  return trm_strip_place_stage(c, t, error);
}

/* The results, grouped by element count: each group is one stage. */
static trm_status add_root_targets(compiler *c, trm_error *error) {
  const trm_instruction *root = strip_at(c, c->computation->root);
  const bool is_tuple = root->opcode == TRM_OP_TUPLE;
  const uint32_t num = is_tuple ? root->num_operands : 1;
  c->num_results = num;
  c->in_place_operands = ARENA_NEW(c->arena, uint32_t, num);
  CHECK_MEMORY(c->in_place_operands, "strip code");
  bool *done = ARENA_NEW(&c->scratch, bool, num + 1);
  CHECK_MEMORY(done, "strip code");
  for (uint32_t i = 0; i < num; ++i) {
    if (done[i]) continue;
    target t = {ARENA_NEW(&c->scratch, trm_index, num), ARENA_NEW(&c->scratch, uint32_t, num), 0};
    CHECK_MEMORY(t.roots, "strip code");
    CHECK_MEMORY(t.results, "strip code");
    const int64_t count = strip_count(c, is_tuple ? root->operands[i] : c->computation->root);
    for (uint32_t k = i; k < num; ++k) {
      const trm_index index = is_tuple ? root->operands[k] : c->computation->root;
      if (done[k] || strip_count(c, index) != count) continue;
      done[k] = true;
      t.roots[t.num_roots] = index;
      t.results[t.num_roots++] = k;
    }
    if (!VECTOR_PUSH(&c->targets, t)) FAIL_NO_MEMORY("strip code");
  }
  return TRM_OK;
}

static bool is_supported(const compiler *c) {
  const trm_computation *computation = c->computation;
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = strip_at(c, i);
    if (i == computation->root && instruction->opcode == TRM_OP_TUPLE &&
        instruction->num_operands > 0) {
      for (uint32_t k = 0; k < instruction->num_operands; ++k)
        if (!trm_shape_is_array(&strip_at(c, instruction->operands[k])->shape)) return false;
      continue;
    }
    if (!trm_strip_supports(NULL, computation, instruction)) return false;
    if (c->request->is_function && trm_shape_count(&instruction->shape) != 1) return false;
  }
  return computation->num_instructions > 0;
}

static trm_status compile_all(compiler *c, trm_strip_code **out_code, trm_error *error) {
  const uint32_t n = c->computation->num_instructions;
  c->is_staged = ARENA_NEW(&c->scratch, bool, n);
  c->temporary = ARENA_NEW(&c->scratch, size_t, n);
  c->mark = ARENA_NEW(&c->scratch, uint32_t, n);
  c->value_slot = ARENA_NEW(&c->scratch, uint32_t, n);
  c->uses = ARENA_NEW(&c->scratch, uint32_t, n);
  trm_strip_code *code = ARENA_NEW(c->arena, trm_strip_code, 1);
  CHECK_MEMORY(c->is_staged, "strip code");
  CHECK_MEMORY(c->temporary, "strip code");
  CHECK_MEMORY(c->mark, "strip code");
  CHECK_MEMORY(c->value_slot, "strip code");
  CHECK_MEMORY(c->uses, "strip code");
  CHECK_MEMORY(code, "strip code");
  TRY(add_root_targets(c, error));
  for (size_t i = 0; i < c->targets.count; ++i) TRY(compile_stage(c, &c->targets.items[i], error));
  /* A stage reads staged values that come before its own: so descending, and run in reverse. */
  for (trm_index i = n; i-- > 0;) {
    if (!c->is_staged[i]) continue;
    uint32_t result = NO_SLOT;
    const target t = {&i, &result, 1};
    TRY(compile_stage(c, &t, error));
  }
  code->ops = c->ops;
  code->num_stages = (uint32_t)c->stages.count;
  code->stages = ARENA_NEW(c->arena, strip_stage, c->stages.count + 1);
  CHECK_MEMORY(code->stages, "strip code");
  code->temporary_bytes = c->temporary_bytes;
  code->max_threads = 1;
  code->num_operands = c->computation->num_parameters;
  code->num_results = c->num_results;
  code->known_bytes =
      (((size_t)code->num_operands + code->num_results) * sizeof(void *) + 63) & ~(size_t)63;
  code->in_place_operands = c->in_place_operands;
  code->mappings =
      trm_arena_copy(c->arena, c->mappings.items, c->mappings.count * sizeof(strip_mapping));
  CHECK_MEMORY(code->mappings, "strip code");
  code->num_mappings = (uint32_t)c->mappings.count;
  for (uint32_t i = 0; i < code->num_stages; ++i) {
    code->stages[i] = c->stages.items[code->num_stages - 1 - i];
    const size_t bytes = code->stages[i].file_bytes;
    if (bytes > code->file_bytes) code->file_bytes = bytes;
    const size_t work = (size_t)code->stages[i].count * code->stages[i].bytes_per_element;
    const int threads = trm_threads_choose(work, trm_threads_limit());
    if (!c->request->is_function && threads > code->max_threads) code->max_threads = threads;
  }
  const strip_stage *first = code->stages;
  if (code->num_stages == 1 && first->num_fills == 0 && first->num_operations == 1 &&
      first->operations->generated != NULL)
    code->only = first->operations->generated->function;
  *out_code = code;
  return TRM_OK;
}

/* What strip_request asks for where results are running ones. */
static bool is_single(const trm_strip_code *code) {
  if (code->num_stages != 1 || code->stages[0].num_operations != 1 ||
      code->stages[0].operations[0].generated == NULL)
    return false;
  const strip_stage *stage = &code->stages[0];
  for (uint32_t i = 0; i < stage->num_fills; ++i) {
    const strip_operation *fill = &stage->fills[i];
    if (fill->function != NULL || fill->access->is_iota || fill->access->rank != 0 ||
        !stage->slots[fill->out].is_scalar)
      return false;
  }
  return true;
}

trm_status trm_strip_compile_any(const strip_request *request, trm_arena *arena,
                                 trm_strip_code **out_code, bool *out_supported, trm_error *error) {
  compiler c = {.request = request,
                .computation = request->computation,
                .ops = trm_vector_ops_get(),
                .arena = arena};
  *out_supported = is_supported(&c);
  if (!*out_supported) return TRM_OK;
  const trm_status status = compile_all(&c, out_code, error);
  for (size_t i = 0; status != TRM_OK && i < c.mappings.count; ++i)
    trm_code_unmap(c.mappings.items[i].memory, c.mappings.items[i].size);
  VECTOR_FREE(&c.mappings);
  VECTOR_FREE(&c.targets);
  VECTOR_FREE(&c.stages);
  VECTOR_FREE(&c.members);
  VECTOR_FREE(&c.stack);
  VECTOR_FREE(&c.slots);
  VECTOR_FREE(&c.operations);
  trm_arena_free(&c.scratch);
  if (status == TRM_OK && request->running != NULL && !is_single(*out_code)) {
    trm_strip_destroy(*out_code);
    *out_supported = false;
  }
  return status;
}

trm_status trm_strip_compile(const trm_module *module, const trm_computation *computation,
                             trm_arena *arena, trm_strip_code **out_code, bool *out_supported,
                             trm_error *error) {
  const strip_request request = {.computation = computation,
                                 .half_overflow = module->half_overflow,
                                 .casts_wrap = module->casts_wrap};
  return trm_strip_compile_any(&request, arena, out_code, out_supported, error);
}

trm_status trm_function_compile(const trm_module *module, uint32_t computation, trm_arena *arena,
                                trm_function *out_function, bool *out_supported, trm_error *error) {
  const trm_computation *body = &module->computations[computation];
  trm_function function = {.num_parameters = body->num_parameters};
  const strip_request request = {.computation = body,
                                 .is_function = true,
                                 .half_overflow = TRM_HALF_INFINITY,
                                 .casts_wrap = module->casts_wrap};
  TRY(trm_strip_compile_any(&request, arena, &function.code, out_supported, error));
  if (!*out_supported) return TRM_OK;
  const trm_shape *shape = &body->instructions[body->root].shape;
  function.num_results = shape->dtype == TRM_TUPLE ? (uint32_t)shape->num_elements : 1;
  function.scratch_bytes = function.code->temporary_bytes + function.code->file_bytes;
  function.single_opcode = trm_computation_combiner(body);
  *out_function = function;
  return TRM_OK;
}
