/* Owns: where the values of a stage of strip code live: the length of a strip, what is filled
 * once before the first, registers and their reuse, and operands that a result may overwrite. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/elementwise/strip_compile.h"

enum {
  STRIP_BYTES = 24 * 1024,
  STRIP_GRAIN = 16 /* elements of a vector */
};

typedef strip_compiler compiler;
typedef strip_target target;

/* Places of dead values, by log2 of the size. */
typedef struct free_units {
  uint32_t *units[4], count[4];
} free_units;

/* Frees the registers of the operands that operation i is the last to read. */
static void free_operands(const compiler *c, const strip_operation *operation, uint32_t i,
                          const uint32_t *last, const uint32_t *units, free_units *out) {
  for (uint32_t k = 0; k < strip_num_reads(operation); ++k) {
    const uint32_t s = strip_read(operation, k);
    const strip_slot *slot = &c->slots.items[s];
    bool is_new = true;
    for (uint32_t before = 0; before < k; ++before)
      is_new = is_new && strip_read(operation, before) != s;
    if (slot->kind != SLOT_REGISTER || slot->keeps || last[s] != i || s == operation->out ||
        units[s] == NO_SLOT || !is_new)
      continue;
    out->units[slot->log2_size][out->count[slot->log2_size]++] = units[s];
  }
}

/* Gives registers offsets in the thread's file, reusing those whose values are dead. Sizes are in
 * bytes an element; *out_total is their sum. */
static trm_status place_registers(compiler *c, uint32_t num_fills, uint32_t *units,
                                  uint32_t *out_total, trm_error *error) {
  const uint32_t num_slots = (uint32_t)c->slots.count,
                 num_operations = (uint32_t)c->operations.count;
  uint32_t *last = ARENA_NEW(&c->scratch, uint32_t, num_slots + 1);
  free_units free_lists = {{NULL}, {0}};
  CHECK_MEMORY(last, "strip code");
  for (int i = 0; i < 4; ++i) {
    free_lists.units[i] = ARENA_NEW(&c->scratch, uint32_t, num_slots + 1);
    CHECK_MEMORY(free_lists.units[i], "strip code");
  }
  for (uint32_t s = 0; s < num_slots; ++s) units[s] = NO_SLOT;
  for (uint32_t i = 0; i < num_operations; ++i) {
    const strip_operation *operation = &c->operations.items[i];
    for (uint32_t k = 0; k < strip_num_writes(operation); ++k) last[strip_write(operation, k)] = i;
    for (uint32_t k = 0; k < strip_num_reads(operation); ++k) last[strip_read(operation, k)] = i;
  }
  uint32_t total = 0;
  for (uint32_t i = 0; i < num_operations; ++i) {
    const strip_operation *operation = &c->operations.items[i];
    /* A vector function's result may take the place of an operand that dies here. */
    if (operation->function != NULL) free_operands(c, operation, i, last, units, &free_lists);
    for (uint32_t k = 0; k < strip_num_writes(operation); ++k) {
      const uint32_t s = strip_write(operation, k);
      const strip_slot *out = &c->slots.items[s];
      if (out->kind != SLOT_REGISTER || out->is_scalar || units[s] != NO_SLOT) continue;
      if (i >= num_fills && free_lists.count[out->log2_size] > 0) {
        units[s] = free_lists.units[out->log2_size][--free_lists.count[out->log2_size]];
      } else {
        units[s] = total;
        total += UINT32_C(1) << out->log2_size;
      }
    }
    if (operation->generated != NULL) free_operands(c, operation, i, last, units, &free_lists);
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

/* Whether the elements of an iteration of the innermost dimension lie together in the source. */
static bool has_runs(const strip_access *access) {
  return access != NULL && !access->is_iota && access->rank > 1 &&
         access->strides[access->rank - 1] == 1;
}

/* A strip that is a multiple of the periods found, where that keeps it long enough, and a part of
 * the runs that are loaded, where it may be: then registers point to them. */
static int64_t choose_strip(const compiler *c, int64_t count, int64_t wanted) {
  int64_t unit = 1, run = 0;
  for (size_t i = 0; i < c->operations.count; ++i) {
    const strip_access *access = c->operations.items[i].access;
    const int64_t period = access == NULL ? 0 : period_of(access, count);
    if (has_runs(access)) run = access->dims[access->rank - 1];
    if (period <= 1 || unit % period == 0) continue;
    if (period % unit == 0 && period <= wanted) unit = period;
  }
  const int64_t strip = wanted / unit * unit;
  if (run == 0) return strip;
  for (int64_t parts = (run - 1) / strip + 1; run / parts >= TRM_STRIP_LEAST_ELEMENTS; ++parts) {
    const int64_t part = run / parts;
    if (run % parts == 0 && part % unit == 0 && part % STRIP_GRAIN == 0) return part;
  }
  return strip;
}

/* Finds the loads whose registers nothing else writes. */
static void find_pointing(compiler *c, uint32_t num_fills) {
  for (size_t i = num_fills; i < c->operations.count; ++i) {
    strip_operation *load = &c->operations.items[i];
    if (load->function != NULL || load->generated != NULL || !has_runs(load->access)) continue;
    load->points = c->slots.items[load->out].kind == SLOT_REGISTER;
    for (size_t k = 0; k < c->operations.count && load->points; ++k)
      for (uint32_t w = 0; w < strip_num_writes(&c->operations.items[k]); ++w)
        if (k != i && strip_write(&c->operations.items[k], w) == load->out) load->points = false;
  }
}

/* Moves the loads that are the same for every strip, and what is computed from them alone, to the
 * front; returns how many there are. */
static trm_status split_fills(compiler *c, int64_t count, int64_t strip, uint32_t *out_num,
                              trm_error *error) {
  const size_t n = c->operations.count;
  strip_operation *later = ARENA_NEW(&c->scratch, strip_operation, n + 1);
  CHECK_MEMORY(later, "strip code");
  size_t num_fills = 0, num_later = 0;
  for (size_t i = 0; i < n; ++i) {
    const strip_operation operation = c->operations.items[i];
    bool fills = c->slots.items[operation.out].kind == SLOT_REGISTER;
    if (operation.function == NULL) {
      const int64_t period = period_of(operation.access, count);
      fills = fills && period > 0 && strip % period == 0;
    } else {
      for (int k = 0; k < 3; ++k) fills = fills && (c->slots.items[operation.in[k]].keeps);
    }
    if (fills) {
      c->slots.items[operation.out].keeps = true;
      c->operations.items[num_fills++] = operation;
    } else {
      later[num_later++] = operation;
    }
  }
  memcpy(c->operations.items + num_fills, later, num_later * sizeof *later);
  *out_num = (uint32_t)num_fills;
  return TRM_OK;
}

/* Operands that the result in a slot may overwrite: read only in order, and only up to the
 * operation that writes. */
static void find_in_place(compiler *c, uint32_t result_slot, int64_t count) {
  const strip_slot *result = &c->slots.items[result_slot];
  size_t written = c->operations.count;
  for (size_t i = c->operations.count; i-- > 0;) {
    if (c->operations.items[i].out == result_slot) written = i;
  }
  for (uint32_t p = 0; p < c->computation->num_parameters && p < 32; ++p) {
    const trm_shape *shape = &strip_at(c, c->computation->parameters[p])->shape;
    bool allowed = trm_shape_count(shape) == count &&
                   trm_dtype_size(shape->dtype) == (size_t)1 << result->log2_size;
    for (size_t s = 0; s < c->slots.count && allowed; ++s) {
      const strip_slot *slot = &c->slots.items[s];
      if (slot->kind != SLOT_OPERAND || slot->source != p) continue;
      allowed = slot->moves && slot->base == 0;
      for (size_t i = written + 1; i < c->operations.count && allowed; ++i) {
        const strip_operation *operation = &c->operations.items[i];
        for (int k = 0; k < 3; ++k)
          if (operation->function != NULL && operation->in[k] == s) allowed = false;
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

/* Splits, merges and places for strips of that length; *out_units: bytes an element by slot. */
static trm_status place_steps(compiler *c, int64_t count, int64_t strip, uint32_t *out_fills,
                              uint32_t **out_units, uint32_t *out_total, trm_error *error) {
  TRY(split_fills(c, count, strip, out_fills, error));
  TRY(trm_strip_generate(c, *out_fills, error));
  TRY(trm_strip_merge_steps(c, out_fills, error));
  *out_units = ARENA_NEW(&c->scratch, uint32_t, c->slots.count + 1);
  CHECK_MEMORY(*out_units, "strip code");
  return place_registers(c, *out_fills, *out_units, out_total, error);
}

/* The length of a strip follows from the registers, and what is filled once from that length: so
 * the first of two rounds only counts. */
static trm_status find_strip(compiler *c, int64_t count, int64_t *out_strip, trm_error *error) {
  const size_t num_operations = c->operations.count, num_slots = c->slots.count;
  strip_operation *operations =
      trm_arena_copy(&c->scratch, c->operations.items, num_operations * sizeof *operations);
  CHECK_MEMORY(operations, "strip code");
  uint32_t num_fills, total, *units;
  c->only_counts = true;
  TRY(place_steps(c, count, TRM_STRIP_LEAST_ELEMENTS, &num_fills, &units, &total, error));
  c->only_counts = false;
  uint32_t touched = total; /* bytes an element, registers and arrays */
  for (uint32_t s = 0; s < num_slots; ++s)
    if (c->slots.items[s].moves) touched += UINT32_C(1) << c->slots.items[s].log2_size;
  int64_t strip = STRIP_BYTES / (touched > 0 ? touched : 8) / TRM_STRIP_LEAST_ELEMENTS *
                  TRM_STRIP_LEAST_ELEMENTS;
  strip = strip < TRM_STRIP_LEAST_ELEMENTS  ? TRM_STRIP_LEAST_ELEMENTS
          : strip > TRM_STRIP_MOST_ELEMENTS ? TRM_STRIP_MOST_ELEMENTS
                                            : strip;
  memcpy(c->operations.items, operations, num_operations * sizeof *operations);
  c->operations.count = num_operations;
  c->slots.count = num_slots;
  for (size_t s = 0; s < num_slots; ++s)
    c->slots.items[s].keeps = c->slots.items[s].is_scalar = false;
  if (!c->request->is_function) {
    strip = choose_strip(c, count, strip);
    if (count < strip) strip = count > 0 ? count : 1;
  }
  *out_strip = strip;
  return TRM_OK;
}

trm_status trm_strip_place_stage(compiler *c, const target *t, trm_error *error) {
  strip_stage stage = {.count = strip_count(c, t->roots[0])};
  forbid_in_place(c);
  for (uint32_t s = 0; !c->request->is_function && s < c->slots.count; ++s)
    if (c->slots.items[s].kind == SLOT_RESULT) find_in_place(c, s, stage.count);
  TRY(find_strip(c, stage.count, &stage.strip, error));
  const int64_t strip = stage.strip;
  uint32_t total, *units;
  TRY(place_steps(c, stage.count, strip, &stage.num_fills, &units, &total, error));
  find_pointing(c, stage.num_fills);
  stage.num_slots = (uint32_t)c->slots.count;
  stage.num_operations = (uint32_t)c->operations.count;
  const size_t pointers = (stage.num_slots * sizeof(void *) + 63) & ~(size_t)63;
  size_t scalar_bytes = 0;
  for (uint32_t i = 0; i < stage.num_operations; ++i) {
    const strip_generated *generated = c->operations.items[i].generated;
    stage.bytes_per_element += generated == NULL ? 4 : 4 + generated->num_nodes / 4;
  }
  for (uint32_t s = 0; s < stage.num_slots; ++s) {
    strip_slot *slot = &c->slots.items[s];
    if (slot->moves) stage.num_moving++, stage.bytes_per_element += (size_t)1 << slot->log2_size;
    stage.streams = stage.streams || slot->streams;
    if (slot->is_scalar) {
      slot->offset = pointers + scalar_bytes;
      scalar_bytes += 64;
    }
  }
  for (uint32_t s = 0; s < stage.num_slots; ++s) {
    strip_slot *slot = &c->slots.items[s];
    if (slot->kind != SLOT_REGISTER || slot->is_scalar || units[s] == NO_SLOT) continue;
    slot->offset = pointers + scalar_bytes + register_offset(units[s], strip);
  }
  stage.file_bytes = (pointers + scalar_bytes + register_offset(total, strip) + 63) & ~(size_t)63;
  stage.num_operations -= stage.num_fills;
  stage.slots = trm_arena_copy(c->arena, c->slots.items, c->slots.count * sizeof(strip_slot));
  stage.fills =
      trm_arena_copy(c->arena, c->operations.items, c->operations.count * sizeof(strip_operation));
  stage.moving = ARENA_NEW(c->arena, uint32_t, stage.num_moving + 1);
  CHECK_MEMORY(stage.slots, "strip code");
  CHECK_MEMORY(stage.fills, "strip code");
  CHECK_MEMORY(stage.moving, "strip code");
  stage.operations = stage.fills + stage.num_fills;
  uint32_t moving = 0;
  for (uint32_t s = 0; s < stage.num_slots; ++s)
    if (stage.slots[s].moves) stage.moving[moving++] = s;
  if (!VECTOR_PUSH(&c->stages, stage)) FAIL_NO_MEMORY("strip code");
  return TRM_OK;
}
