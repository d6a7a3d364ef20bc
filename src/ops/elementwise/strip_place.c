/* Owns: where the values of a stage of a strip program live: the length of a strip, what is filled
 * once before the first, registers and their reuse, and operands that a result may overwrite. */
#include <string.h>

#include "ops/elementwise/strip_compile.h"

enum { STRIP_BYTES = 24 * 1024, LARGEST_STRIP = 2048, SMALLEST_STRIP = 64 };

typedef strip_compiler compiler;
typedef strip_target target;

/* Gives registers offsets in the thread's file, reusing those whose values are dead. Sizes are in
 * bytes an element; *out_total is their sum. */
static trm_status place_registers(compiler *c, uint32_t num_fills, uint32_t *units,
                                  uint32_t *out_total, trm_error *error) {
  const uint32_t num_slots = (uint32_t)c->slots.count, num_steps = (uint32_t)c->steps.count;
  uint32_t *last = ARENA_NEW(&c->scratch, uint32_t, num_slots + 1);
  uint32_t *free_units[4] = {0}, num_free[4] = {0};
  CHECK_MEMORY(last, "a strip program");
  for (int i = 0; i < 4; ++i) {
    free_units[i] = ARENA_NEW(&c->scratch, uint32_t, num_slots + 1);
    CHECK_MEMORY(free_units[i], "a strip program");
  }
  for (uint32_t s = 0; s < num_slots; ++s) units[s] = NO_SLOT;
  for (uint32_t i = 0; i < num_steps; ++i) {
    const strip_step *step = &c->steps.items[i];
    last[step->out] = i;
    if (step->function == NULL) continue;
    for (int k = 0; k < 3; ++k) last[step->in[k]] = i;
  }
  uint32_t total = 0;
  for (uint32_t i = 0; i < num_steps; ++i) {
    const strip_step *step = &c->steps.items[i];
    /* The operands that die here first: the result may take a place of the same size. */
    for (int k = 0; k < 3 && step->function != NULL; ++k) {
      const uint32_t s = step->in[k];
      const strip_slot *slot = &c->slots.items[s];
      if (slot->kind != SLOT_REGISTER || slot->keeps || last[s] != i || s == step->out ||
          units[s] == NO_SLOT || (k > 0 && s == step->in[0]) || (k > 1 && s == step->in[1]))
        continue;
      free_units[slot->log2_size][num_free[slot->log2_size]++] = units[s];
    }
    const strip_slot *out = &c->slots.items[step->out];
    if (out->kind != SLOT_REGISTER || units[step->out] != NO_SLOT) continue;
    if (i >= num_fills && num_free[out->log2_size] > 0) {
      units[step->out] = free_units[out->log2_size][--num_free[out->log2_size]];
    } else {
      units[step->out] = total;
      total += UINT32_C(1) << out->log2_size;
    }
  }
  *out_total = total;
  return TRM_OK;
}

/* Elements after which the access repeats itself; 0: it does not. */
static int64_t period_of(const strip_access *access, int64_t count) {
  if (count == 0) return 0;
  if (access->is_iota)
    return access->dims[1] > INT64_MAX / access->dims[0] ? 0 : access->dims[0] * access->dims[1];
  if (access->rank == 0) return 1;
  if (access->strides[0] != 0) return 0;
  return count / access->dims[0];
}

/* A strip that is a multiple of the periods found, where that keeps it long enough. */
static int64_t choose_strip(const compiler *c, int64_t count, int64_t wanted) {
  int64_t unit = 1;
  for (size_t i = 0; i < c->steps.count; ++i) {
    const strip_access *access = c->steps.items[i].access;
    const int64_t period = access == NULL ? 0 : period_of(access, count);
    if (period <= 1 || unit % period == 0) continue;
    if (period % unit == 0 && period <= wanted) unit = period;
  }
  return wanted / unit * unit;
}

/* Moves the loads that are the same for every strip, and what is computed from them alone, to the
 * front; returns how many there are. */
static trm_status split_fills(compiler *c, int64_t count, int64_t strip, uint32_t *out_num,
                              trm_error *error) {
  const size_t n = c->steps.count;
  strip_step *later = ARENA_NEW(&c->scratch, strip_step, n + 1);
  CHECK_MEMORY(later, "a strip program");
  size_t num_fills = 0, num_later = 0;
  for (size_t i = 0; i < n; ++i) {
    const strip_step step = c->steps.items[i];
    bool fills = c->slots.items[step.out].kind == SLOT_REGISTER;
    if (step.function == NULL) {
      const int64_t period = period_of(step.access, count);
      fills = fills && period > 0 && strip % period == 0;
    } else {
      for (int k = 0; k < 3; ++k) fills = fills && (c->slots.items[step.in[k]].keeps);
    }
    if (fills) {
      c->slots.items[step.out].keeps = true;
      c->steps.items[num_fills++] = step;
    } else {
      later[num_later++] = step;
    }
  }
  memcpy(c->steps.items + num_fills, later, num_later * sizeof *later);
  *out_num = (uint32_t)num_fills;
  return TRM_OK;
}

/* Operands that the result in a slot may overwrite: read only in order, and only up to the step
 * that writes. */
static void find_in_place(compiler *c, uint32_t result_slot, int64_t count) {
  const strip_slot *result = &c->slots.items[result_slot];
  size_t written = c->steps.count;
  for (size_t i = c->steps.count; i-- > 0;) {
    if (c->steps.items[i].out == result_slot) written = i;
  }
  for (uint32_t p = 0; p < c->computation->num_parameters && p < 32; ++p) {
    const trm_shape *shape = &strip_at(c, c->computation->parameters[p])->shape;
    bool allowed = trm_shape_count(shape) == count &&
                   trm_dtype_size(shape->dtype) == (size_t)1 << result->log2_size;
    for (size_t s = 0; s < c->slots.count && allowed; ++s) {
      const strip_slot *slot = &c->slots.items[s];
      if (slot->kind != SLOT_OPERAND || slot->source != p) continue;
      allowed = slot->moves && slot->base == 0;
      for (size_t i = written + 1; i < c->steps.count && allowed; ++i) {
        const strip_step *step = &c->steps.items[i];
        for (int k = 0; k < 3; ++k)
          if (step->function != NULL && step->in[k] == s) allowed = false;
      }
    }
    if (allowed) c->in_place_operands[result->source] |= UINT32_C(1) << p;
  }
}

/* Parameters that another stage reads too must stay as they are. */
static void forbid_in_place(compiler *c) {
  for (size_t s = 0; s < c->slots.count; ++s) {
    const strip_slot *slot = &c->slots.items[s];
    for (uint32_t r = 0; slot->kind == SLOT_OPERAND && slot->source < 32 && r < c->num_results; ++r)
      c->in_place_operands[r] &= ~(UINT32_C(1) << slot->source);
  }
}

/* Units become `strip` elements, in whole cache lines, and each some lines more: registers that are
 * a multiple of 4096 bytes apart get in each other's way in the first-level cache. */
static size_t register_offset(uint32_t units, int64_t strip) {
  return (size_t)units * (((size_t)strip + 63) / 64 * 64 + 64);
}

trm_status trm_strip_place_stage(compiler *c, const target *t, trm_error *error) {
  strip_stage stage = {.count = strip_count(c, t->roots[0]),
                       .num_slots = (uint32_t)c->slots.count,
                       .num_steps = (uint32_t)c->steps.count};
  uint32_t *units = ARENA_NEW(&c->scratch, uint32_t, stage.num_slots + 1);
  CHECK_MEMORY(units, "a strip program");
  uint32_t total = 0;
  forbid_in_place(c);
  for (uint32_t s = 0; !c->is_function && s < stage.num_slots; ++s)
    if (c->slots.items[s].kind == SLOT_RESULT) find_in_place(c, s, stage.count);
  TRY(place_registers(c, 0, units, &total, error));
  uint32_t touched = total; /* bytes an element, registers and arrays */
  for (uint32_t s = 0; s < stage.num_slots; ++s)
    if (c->slots.items[s].moves) touched += UINT32_C(1) << c->slots.items[s].log2_size;
  int64_t strip = STRIP_BYTES / (touched > 0 ? touched : 8) / SMALLEST_STRIP * SMALLEST_STRIP;
  strip = strip < SMALLEST_STRIP ? SMALLEST_STRIP : strip > LARGEST_STRIP ? LARGEST_STRIP : strip;
  if (!c->is_function) {
    strip = choose_strip(c, stage.count, strip);
    if (stage.count < strip) strip = stage.count > 0 ? stage.count : 1;
  }
  stage.strip = strip;
  TRY(split_fills(c, stage.count, strip, &stage.num_fills, error));
  c->steps.count = stage.num_fills + trm_strip_merge_pairs(c->ops, c->slots.items,
                                                           c->steps.items + stage.num_fills,
                                                           c->steps.count - stage.num_fills);
  stage.num_steps = (uint32_t)c->steps.count;
  TRY(place_registers(c, stage.num_fills, units, &total, error));
  const size_t pointers = (stage.num_slots * sizeof(void *) + 63) & ~(size_t)63;
  stage.bytes_per_element = 4 * stage.num_steps;
  for (uint32_t s = 0; s < stage.num_slots; ++s) {
    strip_slot *slot = &c->slots.items[s];
    if (slot->moves) stage.num_moving++, stage.bytes_per_element += (size_t)1 << slot->log2_size;
    if (slot->kind != SLOT_REGISTER || units[s] == NO_SLOT) continue;
    slot->offset = pointers + register_offset(units[s], strip);
  }
  stage.file_bytes = pointers + register_offset(total, strip);
  stage.num_steps -= stage.num_fills;
  stage.slots = trm_arena_copy(c->arena, c->slots.items, c->slots.count * sizeof(strip_slot));
  stage.fills = trm_arena_copy(c->arena, c->steps.items, c->steps.count * sizeof(strip_step));
  stage.moving = ARENA_NEW(c->arena, uint32_t, stage.num_moving + 1);
  CHECK_MEMORY(stage.slots, "a strip program");
  CHECK_MEMORY(stage.fills, "a strip program");
  CHECK_MEMORY(stage.moving, "a strip program");
  stage.steps = stage.fills + stage.num_fills;
  uint32_t moving = 0;
  for (uint32_t s = 0; s < stage.num_slots; ++s)
    if (stage.slots[s].moves) stage.moving[moving++] = s;
  if (!VECTOR_PUSH(&c->stages, stage)) FAIL_NO_MEMORY("a strip program");
  return TRM_OK;
}
