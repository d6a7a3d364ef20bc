/* Owns: merging slots, and their offsets in the arena. */
#include <stdlib.h>
#include <string.h>

#include "host/schedule/schedule.h"

/* The slot that stands for all that were merged with `slot`. */
static uint32_t find_slot(trm_slot *slots, uint32_t slot) {
  while (slots[slot].parent != slot) {
    slots[slot].parent = slots[slots[slot].parent].parent;
    slot = slots[slot].parent;
  }
  return slot;
}

/* Whether a small array of a loop would lie where the caller wants the output. In the arena it
 * begins with a cache line, which each iteration gains from; to copy it once costs little. */
static bool is_better_copied(const trm_slot *output, const trm_slot *other) {
  enum { LINE = 64, SMALL = 4096 };
  return output->kind == TRM_SLOT_OUTPUT && !other->at_top && other->bytes > LINE &&
         other->bytes <= SMALL;
}

static bool may_merge_kinds(const trm_slot *a, const trm_slot *b) {
  if (a->bytes != b->bytes || a->bytes == 0) return false;
  if (is_better_copied(a, b) || is_better_copied(b, a)) return false;
  const bool one_arena = a->kind == TRM_SLOT_ARENA || b->kind == TRM_SLOT_ARENA;
  const bool writable = (a->kind == TRM_SLOT_ARENA || a->kind == TRM_SLOT_OUTPUT) &&
                        (b->kind == TRM_SLOT_ARENA || b->kind == TRM_SLOT_OUTPUT);
  return one_arena && writable;
}

static bool is_safe(const trm_slot *target, const trm_slot *source, const trm_coalesce *candidate) {
  switch (candidate->kind) {
    case TRM_COALESCE_COPY:
      return source->end == candidate->time && target->begin == candidate->time;
    case TRM_COALESCE_IN_PLACE: /* a kernel writes one result over an operand */
      return source->end == candidate->time && target->begin == candidate->time &&
             source->overwritten != candidate->time;
    case TRM_COALESCE_BRANCH:
      return source->end == candidate->time && source->begin > candidate->since;
    case TRM_COALESCE_LOOP_BACK:
      return source->end == candidate->time && source->begin > candidate->since &&
             (candidate->last_read < source->begin ||
              (candidate->last_read == source->begin && candidate->in_place_at == source->begin));
  }
  return false;
}

static void merge(trm_slot *slots, uint32_t target, uint32_t source) {
  trm_slot *t = &slots[target], *s = &slots[source];
  s->parent = target;
  if (s->begin < t->begin) t->begin = s->begin;
  if (s->end > t->end) t->end = s->end;
  if (s->overwritten > t->overwritten) t->overwritten = s->overwritten;
  if (s->kind == TRM_SLOT_OUTPUT) {
    t->kind = TRM_SLOT_OUTPUT;
    t->number = s->number;
  }
}

/* A free piece of the arena. */
typedef struct gap {
  size_t offset, bytes;
} gap;

typedef VECTOR(gap) gap_vector;

static bool release(gap_vector *gaps, size_t offset, size_t bytes) {
  size_t low = 0, high = gaps->count; /* the first gap after offset */
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (gaps->items[middle].offset < offset) low = middle + 1;
    else high = middle;
  }
  const bool joins_before =
      low > 0 && gaps->items[low - 1].offset + gaps->items[low - 1].bytes == offset;
  const bool joins_after = low < gaps->count && offset + bytes == gaps->items[low].offset;
  if (joins_before && joins_after) {
    gaps->items[low - 1].bytes += bytes + gaps->items[low].bytes;
    memmove(&gaps->items[low], &gaps->items[low + 1],
            (gaps->count - low - 1) * sizeof *gaps->items);
    --gaps->count;
  } else if (joins_before) {
    gaps->items[low - 1].bytes += bytes;
  } else if (joins_after) {
    gaps->items[low].offset = offset;
    gaps->items[low].bytes += bytes;
  } else {
    if (!VECTOR_PUSH(gaps, ((gap){0, 0}))) return false;
    memmove(&gaps->items[low + 1], &gaps->items[low],
            (gaps->count - 1 - low) * sizeof *gaps->items);
    gaps->items[low] = (gap){offset, bytes};
  }
  return true;
}

/* Takes the smallest gap that fits, or grows the arena. */
static size_t take(gap_vector *gaps, size_t bytes, size_t *arena_bytes) {
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < gaps->count; ++i) {
    if (gaps->items[i].bytes >= bytes &&
        (best == SIZE_MAX || gaps->items[i].bytes < gaps->items[best].bytes)) {
      best = i;
      if (gaps->items[i].bytes == bytes) break;
    }
  }
  if (best == SIZE_MAX) {
    const size_t last = gaps->count - 1;
    if (gaps->count > 0 && gaps->items[last].offset + gaps->items[last].bytes == *arena_bytes) {
      const size_t offset = gaps->items[last].offset;
      --gaps->count;
      *arena_bytes = offset + bytes;
      return offset;
    }
    const size_t offset = *arena_bytes;
    *arena_bytes += bytes;
    return offset;
  }
  const size_t offset = gaps->items[best].offset;
  gaps->items[best].offset += bytes;
  gaps->items[best].bytes -= bytes;
  if (gaps->items[best].bytes == 0) {
    memmove(&gaps->items[best], &gaps->items[best + 1],
            (gaps->count - best - 1) * sizeof *gaps->items);
    --gaps->count;
  }
  return offset;
}

typedef struct event {
  uint32_t time, slot;
} event;

static int compare_events(const void *a, const void *b) {
  const event *l = a, *r = b;
  if (l->time != r->time) return l->time < r->time ? -1 : 1;
  return l->slot < r->slot ? -1 : l->slot > r->slot;
}

static size_t rounded(size_t bytes) {
  return (bytes + 63) / 64 * 64 + (bytes >= 4096 ? 17 * 64 : 0);
}

/* Linear scan over time: a slot takes memory when it begins and gives it back after its end. */
static trm_status lay_out(trm_schedule *schedule, trm_error *error) {
  trm_status status = TRM_OK;
  gap_vector gaps = {0};
  uint32_t count = 0;
  event *begins = trm_allocate(((size_t)schedule->num_slots + 1) * sizeof *begins);
  event *ends = trm_allocate(((size_t)schedule->num_slots + 1) * sizeof *ends);
  if (begins == NULL || ends == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while assigning buffers");
  }
  for (uint32_t s = 0; s < schedule->num_slots; ++s) {
    const trm_slot *slot = &schedule->slots[s];
    if (slot->parent != s || slot->kind != TRM_SLOT_ARENA || slot->bytes == 0) continue;
    begins[count] = (event){slot->begin, s};
    ends[count++] = (event){slot->end, s};
  }
  qsort(begins, count, sizeof *begins, compare_events);
  qsort(ends, count, sizeof *ends, compare_events);
  uint32_t released = 0;
  for (uint32_t i = 0; i < count; ++i) {
    while (released < count && ends[released].time < begins[i].time) {
      const trm_slot *slot = &schedule->slots[ends[released++].slot];
      if (!release(&gaps, slot->offset, rounded(slot->bytes))) {
        FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while assigning buffers");
      }
    }
    trm_slot *slot = &schedule->slots[begins[i].slot];
    slot->offset = take(&gaps, rounded(slot->bytes), &schedule->arena_bytes);
  }
done:
  VECTOR_FREE(&gaps);
  trm_free(begins);
  trm_free(ends);
  return status;
}

static bool is_empty_copy(const trm_schedule *schedule, const trm_step *step) {
  const trm_slot *slots = schedule->slots;
  return step->kind == TRM_STEP_COPY &&
         (slots[step->slots[0]].bytes == 0 ||
          slots[step->slots[0]].parent == slots[step->slots[1]].parent);
}

/* The first contents of an array that a loop fills. */
static bool is_unread_broadcast(const trm_schedule *schedule, const trm_step *step,
                                const bool *is_read) {
  if (step->kind != TRM_STEP_KERNEL || step->num_results != 1) return false;
  const trm_slot *slot = &schedule->slots[schedule->slots[step->slots[step->num_operands]].parent];
  return !is_read[slot->parent] && slot->kind == TRM_SLOT_ARENA &&
         schedule->module->computations[step->computation].instructions[step->instruction].opcode ==
             TRM_OP_BROADCAST;
}

static trm_status drop_needless_steps(trm_schedule *schedule, trm_error *error) {
  trm_status status = TRM_OK;
  uint32_t *kept_before = trm_allocate(((size_t)schedule->num_steps + 1) * sizeof *kept_before);
  bool *is_read = trm_allocate_zeroed((size_t)schedule->num_slots + 1, sizeof *is_read);
  if (kept_before == NULL || is_read == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while planning steps");
  }
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const trm_step *step = &schedule->steps[i];
    for (uint32_t k = 0; k < step->num_operands; ++k)
      is_read[schedule->slots[step->slots[k]].parent] = true;
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const trm_step *step = &schedule->steps[i];
    kept_before[i] = kept;
    if (is_empty_copy(schedule, step) || is_unread_broadcast(schedule, step, is_read)) continue;
    schedule->steps[kept++] = *step;
  }
  kept_before[schedule->num_steps] = kept;
  for (uint32_t i = 0; i < kept; ++i) {
    for (uint32_t k = 0; k < schedule->steps[i].num_ranges; ++k) {
      trm_step_range *range = &schedule->steps[i].ranges[k];
      *range = (trm_step_range){kept_before[range->begin], kept_before[range->end]};
    }
  }
  schedule->num_steps = kept;
done:
  trm_free(kept_before);
  trm_free(is_read);
  return status;
}

trm_status trm_schedule_assign(trm_schedule *schedule, const trm_coalesce *candidates,
                               size_t num_candidates, trm_error *error) {
  /* Loop state comes before plain copies, because a copy of it costs every iteration. Branches come
   * before loop state: the result of a conditional begins inside the branch, and only merging shows
   * whether a loop still reads its state then. */
  static const int order[] = {TRM_COALESCE_BRANCH, TRM_COALESCE_LOOP_BACK, TRM_COALESCE_COPY,
                              TRM_COALESCE_IN_PLACE};
  for (size_t o = 0; o < sizeof order / sizeof *order; ++o) {
    for (size_t i = 0; i < num_candidates; ++i) {
      const trm_coalesce *candidate = &candidates[i];
      if ((int)candidate->kind != order[o]) continue;
      const uint32_t target = find_slot(schedule->slots, candidate->target);
      const uint32_t source = find_slot(schedule->slots, candidate->source);
      if (target == source) continue;
      if (may_merge_kinds(&schedule->slots[target], &schedule->slots[source]) &&
          is_safe(&schedule->slots[target], &schedule->slots[source], candidate)) {
        merge(schedule->slots, target, source);
        if (candidate->kind == TRM_COALESCE_IN_PLACE)
          schedule->slots[target].overwritten = candidate->time;
      }
    }
  }
  TRY(lay_out(schedule, error));
  /* The engine follows one parent only. */
  for (uint32_t s = 0; s < schedule->num_slots; ++s) {
    schedule->slots[s].parent = find_slot(schedule->slots, s);
  }
  TRY(drop_needless_steps(schedule, error));
  return trm_schedule_place_views(schedule, error);
}
