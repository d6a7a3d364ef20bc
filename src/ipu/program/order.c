/* Owns: the order of execution on an IPU.
 *
 * There are three candidates: the module's own order; depth first from the root, the operand with
 * the most bytes first; and a greedy order that always runs the instruction that frees most. The
 * order whose values hold the least memory at once is taken, as the original's CHOOSE_BEST does
 * with its own schedulers; POST_ORDER takes the second. Values are counted by instruction: views
 * keep the values behind them. An array that an instruction updates is given up by its last reader,
 * so that a new value that this reader makes takes its place.
 *
 * In a pipeline each candidate runs the stages one after the other, since a stage is a program of
 * its own. */
#include <stdlib.h>
#include <string.h>

#include "ipu/program/draft.h"

typedef struct graph {
  const trm_module *module;
  const trm_computation *computation;
  uint32_t count;
  int64_t *shape_bytes; /* of the instruction's result */
  int64_t *bytes;       /* the same; 0 for views and names */
  bool *passes;         /* its result is its operands, under another name or as a view */
  bool *is_updated;     /* an array that the computation is given and an instruction updates */
  trm_index *owner;     /* the instruction whose memory the value is */
  uint32_t *first_edge, *edge_user; /* users of i: edge_user[first_edge[i] .. first_edge[i + 1]) */
  uint32_t *scratch;                /* 4 x count */
  uint32_t *turn; /* by instruction: of its stage of a pipeline; NULL: there are no stages */
  bool *is_early; /* by instruction: it ran before its stage had its turn; NULL with `turn` */
} graph;

static uint32_t num_needs(const trm_instruction *instruction) {
  return instruction->num_operands + instruction->num_control_predecessors;
}

static trm_index need(const trm_instruction *instruction, uint32_t k) {
  return k < instruction->num_operands
             ? instruction->operands[k]
             : instruction->control_predecessors[k - instruction->num_operands];
}

static bool is_element(const trm_computation *c, trm_index i, const trm_update *update) {
  const trm_index parameter = c->parameters[update->parameter];
  const trm_instruction *instruction = &c->instructions[i];
  if (i == parameter) return trm_shape_is_array(&instruction->shape);
  return instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT && instruction->operands[0] == parameter &&
         trm_shape_is_array(&instruction->shape) &&
         trm_shape_leaf_offset(&c->instructions[parameter].shape, (int32_t)instruction->number) ==
             update->leaf;
}

/* Marks the arrays that elementwise instructions update: their operands, so that the new value can
 * take their place. */
static trm_status mark_updated(graph *g, trm_arena *arena, trm_error *error) {
  const trm_computation *c = g->computation;
  trm_updates updates;
  TRY(trm_program_find_updates(g->module, (uint32_t)(c - g->module->computations), arena, &updates,
                               error));
  for (uint32_t u = 0; u < updates.count; ++u) {
    const trm_instruction *by = &c->instructions[updates.items[u].by];
    if (by->opcode != TRM_OP_FUSION && !trm_opcode_is_elementwise(by->opcode)) continue;
    for (uint32_t k = 0; k < by->num_operands; ++k) {
      if (!is_element(c, by->operands[k], &updates.items[u])) continue;
      g->is_updated[by->operands[k]] = true;
      break;
    }
  }
  return TRM_OK;
}

static bool make_graph(graph *g, trm_arena *arena) {
  const trm_computation *c = g->computation;
  const size_t n = g->count;
  size_t edges = 0;
  for (trm_index i = 0; i < g->count; ++i) edges += num_needs(&c->instructions[i]);
  g->shape_bytes = ARENA_NEW(arena, int64_t, n + 1);
  g->bytes = ARENA_NEW(arena, int64_t, n + 1);
  g->passes = ARENA_NEW(arena, bool, n + 1);
  g->is_updated = ARENA_NEW(arena, bool, n + 1);
  g->owner = ARENA_NEW(arena, trm_index, n + 1);
  g->first_edge = ARENA_NEW(arena, uint32_t, n + 2);
  g->edge_user = ARENA_NEW(arena, uint32_t, edges + 1);
  g->scratch = ARENA_NEW(arena, uint32_t, 4 * (n + 1));
  trm_error ignored;
  if (g->shape_bytes == NULL || g->bytes == NULL || g->passes == NULL || g->is_updated == NULL ||
      g->owner == NULL || g->first_edge == NULL || g->edge_user == NULL || g->scratch == NULL ||
      mark_updated(g, arena, &ignored) != TRM_OK) {
    return false;
  }
  for (trm_index i = 0; i < g->count; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    const trm_cost_class class = trm_program_cost_class(g->module, c, instruction);
    g->passes[i] = class == TRM_COST_VIEW || class == TRM_COST_NONE;
    g->owner[i] = i;
    g->shape_bytes[i] = trm_tile_shape_bytes(&instruction->shape);
    if (g->is_updated[i]) g->bytes[i] = g->shape_bytes[i];
    if (instruction->opcode == TRM_OP_PARAMETER || instruction->opcode == TRM_OP_CONSTANT) {
      continue; /* always live */
    }
    if (!g->passes[i]) g->bytes[i] = g->shape_bytes[i];
    else if (instruction->num_operands == 1 && !g->is_updated[i])
      g->owner[i] = g->owner[instruction->operands[0]];
    for (uint32_t k = 0; k < num_needs(instruction); ++k) ++g->first_edge[need(instruction, k) + 1];
  }
  for (size_t i = 0; i < n; ++i) g->first_edge[i + 1] += g->first_edge[i];
  uint32_t *fill = g->scratch;
  memcpy(fill, g->first_edge, n * sizeof *fill);
  for (trm_index i = 0; i < g->count; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    if (instruction->opcode == TRM_OP_PARAMETER || instruction->opcode == TRM_OP_CONSTANT) continue;
    for (uint32_t k = 0; k < num_needs(instruction); ++k) {
      g->edge_user[fill[need(instruction, k)]++] = i;
    }
  }
  return true;
}

/* An instruction that moves: before the one that was at `before`, or into the stage whose turn
 * `before` is. Its own place was `position`. */
typedef struct moved {
  uint32_t before, position;
  trm_index instruction;
} moved;

static int compare_moved(const void *a, const void *b) {
  const moved *l = a, *r = b;
  if (l->before != r->before) return l->before < r->before ? -1 : 1;
  return (l->position > r->position) - (l->position < r->position);
}

/* ---- Stages --------------------------------------------------------------------------------- */

/* Finds the turns, none earlier than that of an operand. */
static bool find_turns(graph *g, trm_arena *arena) {
  if (!trm_module_has_pipeline(g->module)) return true;
  uint32_t *turn = ARENA_NEW(arena, uint32_t, (size_t)g->count + 1);
  g->is_early = ARENA_NEW(arena, bool, (size_t)g->count + 1);
  if (turn == NULL || g->is_early == NULL) return false;
  for (trm_index i = 0; i < g->count; ++i) {
    const trm_instruction *instruction = &g->computation->instructions[i];
    turn[i] = trm_pipeline_own_turn(g->module, g->computation, i);
    if (turn[i] > 0) g->turn = turn;
    for (uint32_t k = 0; k < num_needs(instruction); ++k) {
      if (turn[i] < turn[need(instruction, k)]) turn[i] = turn[need(instruction, k)];
    }
  }
  return true;
}

/* Puts the stages of an order one after the other, and marks what ran too early. */
static bool order_stages(const graph *g, trm_arena *arena, uint32_t *order) {
  if (g->turn == NULL) return true;
  moved *entries = ARENA_NEW(arena, moved, (size_t)g->count + 1);
  if (entries == NULL) return false;
  uint32_t next = UINT32_MAX; /* the first turn of all that follow */
  for (uint32_t p = g->count; p-- > 0;) {
    const uint32_t turn = g->turn[order[p]];
    g->is_early[order[p]] = turn > next;
    if (turn < next) next = turn;
    entries[p] = (moved){turn, p, order[p]};
  }
  qsort(entries, g->count, sizeof *entries, compare_moved);
  for (uint32_t p = 0; p < g->count; ++p) order[p] = entries[p].instruction;
  return true;
}

/* The most bytes that live values take at once. */
static int64_t peak_of(const graph *g, const uint32_t *order) {
  const trm_computation *c = g->computation;
  uint32_t *last = g->scratch, *first_dying = last + g->count;
  uint32_t *next_dying = first_dying + g->count;
  for (uint32_t p = 0; p < g->count; ++p) last[order[p]] = p;
  for (uint32_t p = g->count; p-- > 0;) {
    const trm_index i = order[p];
    const trm_instruction *instruction = &c->instructions[i];
    if (i == c->root) last[i] = g->count;
    const uint32_t until = g->passes[i] ? last[i] : p;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      uint32_t *operand = &last[instruction->operands[k]];
      if (*operand < until) *operand = until;
    }
  }
  memset(first_dying, 0xff, g->count * sizeof *first_dying);
  for (trm_index i = 0; i < g->count; ++i) {
    if (g->bytes[i] == 0 || last[i] >= g->count) continue;
    next_dying[i] = first_dying[last[i]];
    first_dying[last[i]] = i;
  }
  int64_t live = 0, peak = 0;
  for (trm_index i = 0; i < g->count; ++i) live += g->is_updated[i] ? g->bytes[i] : 0;
  for (uint32_t p = 0; p < g->count; ++p) {
    const trm_index i = order[p];
    int64_t freed = 0;
    for (uint32_t d = first_dying[p]; d != UINT32_MAX; d = next_dying[d]) freed += g->bytes[d];
    const bool in_place = c->instructions[i].opcode == TRM_OP_FUSION ||
                          trm_opcode_is_elementwise(c->instructions[i].opcode);
    const int64_t made = g->is_updated[i] ? 0 : g->bytes[i];
    const int64_t during = live + (in_place && freed >= made ? 0 : made);
    if (during > peak) peak = during;
    live += made - freed;
    if (live > peak) peak = live;
  }
  return peak;
}

/* ---- Depth first ---------------------------------------------------------------------------- */

static bool order_depth_first(const graph *g, trm_arena *arena, uint32_t *order) {
  const trm_computation *c = g->computation;
  uint32_t *stack = ARENA_NEW(arena, uint32_t, (size_t)g->count * 2 + 2);
  uint8_t *state = ARENA_NEW(arena, uint8_t, (size_t)g->count + 1);
  uint32_t *next = ARENA_NEW(arena, uint32_t, (size_t)g->count + 1);
  if (stack == NULL || state == NULL || next == NULL) return false;
  uint32_t done = 0;
  for (uint32_t start = 0; start <= g->count; ++start) {
    /* The root first, then instructions that it does not need (side effects). */
    const trm_index from = start == 0 ? c->root : start - 1;
    if (state[from] != 0) continue;
    uint32_t depth = 0;
    stack[depth++] = from;
    state[from] = 1;
    while (depth > 0) {
      const trm_index i = stack[depth - 1];
      const trm_instruction *instruction = &c->instructions[i];
      trm_index chosen = TRM_NO_INDEX;
      while (next[i] < num_needs(instruction) && chosen == TRM_NO_INDEX) {
        const trm_index operand = need(instruction, next[i]++);
        if (state[operand] == 0) chosen = operand;
      }
      if (chosen == TRM_NO_INDEX) {
        order[done++] = i;
        --depth;
      } else {
        state[chosen] = 1;
        stack[depth++] = chosen;
      }
    }
  }
  return done == g->count;
}

/* ---- Greedy --------------------------------------------------------------------------------- */

typedef struct heap_entry {
  int64_t growth; /* bytes taken less bytes freed */
  trm_index instruction;
} heap_entry;

static bool before(heap_entry a, heap_entry b) {
  return a.growth != b.growth ? a.growth < b.growth : a.instruction < b.instruction;
}

typedef struct heap {
  VECTOR(heap_entry) entries;
} heap;

static bool heap_push(heap *h, heap_entry entry) {
  if (!VECTOR_PUSH(&h->entries, entry)) return false;
  size_t i = h->entries.count - 1;
  for (; i > 0 && before(entry, h->entries.items[(i - 1) / 2]); i = (i - 1) / 2) {
    h->entries.items[i] = h->entries.items[(i - 1) / 2];
  }
  h->entries.items[i] = entry;
  return true;
}

static heap_entry heap_pop(heap *h) {
  const heap_entry top = h->entries.items[0];
  const heap_entry entry = h->entries.items[--h->entries.count];
  size_t i = 0;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= h->entries.count) break;
    if (child + 1 < h->entries.count &&
        before(h->entries.items[child + 1], h->entries.items[child])) {
      ++child;
    }
    if (!before(h->entries.items[child], entry)) break;
    h->entries.items[i] = h->entries.items[child];
    i = child;
  }
  if (h->entries.count > 0) h->entries.items[i] = entry;
  return top;
}

/* The growth if i ran now. `uses` counts the uses of owners that are still to come. */
static int64_t growth_of(const graph *g, const uint32_t *uses, trm_index i) {
  /* Runs at once: costs nothing and makes others ready. */
  if (g->passes[i] || g->is_updated[i]) return INT64_MIN;
  const trm_instruction *instruction = &g->computation->instructions[i];
  int64_t growth = g->bytes[i];
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index owner = g->owner[instruction->operands[k]];
    bool counted = false;
    uint32_t mine = 0;
    for (uint32_t j = 0; j < instruction->num_operands && instruction->num_operands < 64; ++j) {
      if (g->owner[instruction->operands[j]] != owner) continue;
      ++mine;
      counted = counted || j < k;
    }
    if (!counted && uses[owner] == mine) growth -= g->bytes[owner];
  }
  return growth;
}

static bool order_greedy(const graph *g, trm_arena *arena, uint32_t *order) {
  const trm_computation *c = g->computation;
  uint32_t *waits = ARENA_NEW(arena, uint32_t, (size_t)g->count + 1);
  uint32_t *uses = ARENA_NEW(arena, uint32_t, (size_t)g->count + 1);
  bool *ran = ARENA_NEW(arena, bool, (size_t)g->count + 1);
  if (waits == NULL || uses == NULL || ran == NULL) return false;
  for (trm_index i = 0; i < g->count; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    waits[i] = num_needs(instruction);
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const bool counts = !g->passes[i] || instruction->num_operands > 1;
      if (counts) ++uses[g->owner[instruction->operands[k]]];
    }
  }
  heap ready = {0};
  bool memory = true;
  uint32_t done = 0;
  for (trm_index i = 0; i < g->count && memory; ++i) {
    if (waits[i] == 0) memory = heap_push(&ready, (heap_entry){growth_of(g, uses, i), i});
  }
  while (ready.entries.count > 0 && memory) {
    const heap_entry top = heap_pop(&ready);
    if (ran[top.instruction]) continue;
    const int64_t growth = growth_of(g, uses, top.instruction);
    if (growth > top.growth) { /* its growth has increased since */
      memory = heap_push(&ready, (heap_entry){growth, top.instruction});
      continue;
    }
    const trm_index i = top.instruction;
    const trm_instruction *instruction = &c->instructions[i];
    ran[i] = true;
    order[done++] = i;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_index owner = g->owner[instruction->operands[k]];
      if (g->passes[i] && instruction->num_operands == 1) continue;
      if (--uses[owner] != 1) continue;
      /* The last user may be ready, and its growth has decreased. */
      for (uint32_t e = g->first_edge[owner]; e < g->first_edge[owner + 1] && memory; ++e) {
        const trm_index user = g->edge_user[e];
        if (!ran[user] && waits[user] == 0) {
          memory = heap_push(&ready, (heap_entry){growth_of(g, uses, user), user});
        }
      }
    }
    if (instruction->opcode == TRM_OP_PARAMETER && instruction->num_operands > 0) continue;
    for (uint32_t e = g->first_edge[i]; e < g->first_edge[i + 1] && memory; ++e) {
      const trm_index user = g->edge_user[e];
      if (--waits[user] == 0) {
        memory = heap_push(&ready, (heap_entry){growth_of(g, uses, user), user});
      }
    }
  }
  VECTOR_FREE(&ready.entries);
  return memory && done == g->count;
}

/* ---- Late ----------------------------------------------------------------------------------- */

enum { SMALL_SHARE = 16 };

/* Whether an instruction can wait for its first reader: its operands are small beside its result,
 * or it ran before its stage had its turn, and is not to be the first of that stage. Inputs,
 * transfers and control flow stay where they are; control edges keep random numbers in order. */
static bool can_wait(const graph *g, trm_index i, const bool *waits) {
  const trm_instruction *instruction = &g->computation->instructions[i];
  if (instruction->opcode == TRM_OP_PARAMETER || instruction->opcode == TRM_OP_CONSTANT ||
      i == g->computation->root) {
    return false;
  }
  if (g->turn != NULL && g->is_early[i]) return true;
  if (g->passes[i]) return instruction->num_operands == 1 && waits[instruction->operands[0]];
  const bool random = instruction->call_id == TRM_CALL_RANDOM;
  const bool plain = trm_opcode_is_elementwise(instruction->opcode) ||
                     instruction->opcode == TRM_OP_FUSION || instruction->opcode == TRM_OP_IOTA ||
                     instruction->opcode == TRM_OP_RNG ||
                     instruction->opcode == TRM_OP_RNG_BIT_GENERATOR;
  if (!random && !plain) return false;
  int64_t made_of = 0;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    made_of += g->shape_bytes[g->owner[instruction->operands[k]]];
  }
  return made_of * SMALL_SHARE <= g->bytes[i];
}

static bool order_late(const graph *g, trm_arena *arena, uint32_t *order) {
  moved *entries = ARENA_NEW(arena, moved, (size_t)g->count + 1);
  uint32_t *before = ARENA_NEW(arena, uint32_t, (size_t)g->count + 1);
  bool *waits = ARENA_NEW(arena, bool, (size_t)g->count + 1);
  if (entries == NULL || before == NULL || waits == NULL) return false;
  bool any = false;
  for (trm_index i = 0; i < g->count; ++i) { /* operands first */
    waits[i] = can_wait(g, i, waits);
    any = any || waits[i];
  }
  if (!any) return true;
  for (uint32_t p = g->count; p-- > 0;) { /* readers first */
    const trm_index i = order[p];
    uint32_t first = g->count;
    for (uint32_t e = g->first_edge[i]; waits[i] && e < g->first_edge[i + 1]; ++e) {
      if (before[g->edge_user[e]] < first) first = before[g->edge_user[e]];
    }
    before[i] = first < g->count && first > p ? first : p;
    entries[p] = (moved){before[i], p, i};
  }
  qsort(entries, g->count, sizeof *entries, compare_moved);
  for (uint32_t p = 0; p < g->count; ++p) order[p] = entries[p].instruction;
  return true;
}

trm_status trm_program_order(const trm_module *module, uint32_t computation, trm_order_kind kind,
                             trm_arena *arena, uint32_t **out_order, trm_error *error) {
  const trm_computation *c = &module->computations[computation];
  uint32_t *best = ARENA_NEW(arena, uint32_t, (size_t)c->num_instructions + 1);
  CHECK_MEMORY(best, "a schedule");
  for (uint32_t p = 0; p < c->num_instructions; ++p) best[p] = p;
  *out_order = best;
  if (kind == TRM_ORDER_AS_WRITTEN || module->is_scheduled || c->num_instructions < 3) {
    return TRM_OK;
  }
  trm_arena scratch = {0};
  graph g = {.module = module, .computation = c, .count = c->num_instructions};
  uint32_t *order = ARENA_NEW(&scratch, uint32_t, (size_t)g.count + 1);
  if (order == NULL || !make_graph(&g, &scratch) || !find_turns(&g, &scratch) ||
      !order_stages(&g, &scratch, best) || !order_late(&g, &scratch, best)) {
    trm_arena_free(&scratch);
    FAIL_NO_MEMORY("a schedule");
  }
  int64_t least = peak_of(&g, best);
  for (int candidate = 0; candidate < 2; ++candidate) {
    const bool made =
        candidate == 0 ? order_greedy(&g, &scratch, order) : order_depth_first(&g, &scratch, order);
    if (!made || !order_stages(&g, &scratch, order) || !order_late(&g, &scratch, order)) continue;
    const int64_t peak = peak_of(&g, order);
    const bool asked = kind == TRM_ORDER_DEPTH_FIRST && candidate == 1;
    if (peak < least || asked) {
      least = peak;
      memcpy(best, order, (size_t)g.count * sizeof *best);
    }
  }
  trm_arena_free(&scratch);
  return TRM_OK;
}
