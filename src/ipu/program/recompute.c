/* Owns: allow_recompute outside of pipelines: the backward pass recomputes cheap values of the
 * forward pass, which then need not be kept.
 *
 * A value is recomputed under three conditions. Elementwise code makes it (an activation function,
 * the scaling of a normalisation). Its uses fall into two groups with at least a twentieth of the
 * computation between them. And its operands are available for the second group anyway: inputs,
 * constants, values that are kept for their own sake (a convolution's result, which the
 * normalisation's gradient needs too), or values that can be kept in half its bytes (the operand of
 * an activation function whose gradient needs several powers). So no chain is recomputed from far
 * away: every other value of a chain of sums is kept.
 *
 * The second copy is an instruction of the module that is estimated, read by the second group of
 * uses; a control edge keeps it from running early. The module that the host runs does not change,
 * so no result changes. */
#include <stdlib.h>
#include <string.h>

#include "ipu/program/draft.h"
#include "ipu/program/layers.h"
#include "passes/edit.h"

enum { LEAST_BYTES = 4096, LEAST_GAP = 64, GAP_SHARE = 20, KEPT_SHARE = 2 };

typedef struct use {
  uint32_t position;
  trm_index reader;
  uint32_t operand;
} use;

typedef struct recomputer {
  trm_module *module;
  trm_computation *computation; /* its address changes when instructions are added */
  uint32_t index, count;        /* the computation; its number of instructions at first */
  const uint32_t *order;
  const char *const *layers; /* trm_recomputation's */
  uint32_t *position,
      *last;        /* by instruction: its position, and that of its last use, through views */
  trm_index *owner; /* the instruction whose memory the value is */
  bool *passes, *is_pinned, *is_again;
  uint32_t *first_use; /* uses of owner i: uses[first_use[i] .. first_use[i + 1]) */
  use *uses;
  trm_index *copy; /* copies of recomputed values and of views of them */
  trm_edit edit;
  int64_t bytes;
  uint32_t values;
} recomputer;

static int compare_uses(const void *a, const void *b) {
  const use *l = a, *r = b;
  return (l->position > r->position) - (l->position < r->position);
}

static trm_status find_uses(recomputer *r, trm_arena *arena, trm_error *error) {
  const trm_computation *c = r->computation;
  const size_t n = r->count;
  r->position = ARENA_NEW(arena, uint32_t, n + 1);
  r->last = ARENA_NEW(arena, uint32_t, n + 1);
  r->owner = ARENA_NEW(arena, trm_index, n + 1);
  r->passes = ARENA_NEW(arena, bool, n + 1);
  r->is_pinned = ARENA_NEW(arena, bool, n + 1);
  r->is_again = ARENA_NEW(arena, bool, n + 1);
  r->first_use = ARENA_NEW(arena, uint32_t, n + 2);
  r->copy = ARENA_NEW(arena, trm_index, n + 1);
  size_t edges = 0;
  for (trm_index i = 0; i < n; ++i) edges += c->instructions[i].num_operands;
  r->uses = ARENA_NEW(arena, use, edges + 1);
  uint32_t *fill = ARENA_NEW(arena, uint32_t, n + 1);
  if (r->position == NULL || r->last == NULL || r->owner == NULL || r->passes == NULL ||
      r->is_pinned == NULL || r->is_again == NULL || r->first_use == NULL || r->copy == NULL ||
      r->uses == NULL || fill == NULL) {
    FAIL_NO_MEMORY("recomputation");
  }
  for (uint32_t p = 0; p < n; ++p) r->position[r->order[p]] = p;
  for (trm_index i = 0; i < n; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    const trm_cost_class class = trm_program_cost_class(r->module, c, instruction);
    r->passes[i] = class == TRM_COST_VIEW || class == TRM_COST_NONE;
    const bool one = r->passes[i] && instruction->num_operands == 1;
    r->owner[i] = one ? r->owner[instruction->operands[0]] : i;
    r->copy[i] = TRM_NO_INDEX;
    for (uint32_t k = 0; k < instruction->num_operands && !one; ++k) {
      const trm_index owner = r->owner[instruction->operands[k]];
      ++r->first_use[owner + 1];
      if (r->passes[i]) r->is_pinned[owner] = true; /* a tuple, a concatenation: kept */
      if (r->last[owner] < r->position[i]) r->last[owner] = r->position[i];
    }
  }
  r->is_pinned[r->owner[c->root]] = true;
  for (size_t i = 0; i < n; ++i) r->first_use[i + 1] += r->first_use[i];
  memcpy(fill, r->first_use, n * sizeof *fill);
  for (trm_index i = 0; i < n; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    if (r->passes[i] && instruction->num_operands == 1) continue;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_index owner = r->owner[instruction->operands[k]];
      r->uses[fill[owner]++] = (use){r->position[i], i, k};
    }
  }
  for (trm_index i = 0; i < n; ++i) {
    const uint32_t uses = r->first_use[i + 1] - r->first_use[i];
    if (uses > 1) qsort(&r->uses[r->first_use[i]], uses, sizeof *r->uses, compare_uses);
  }
  return TRM_OK;
}

/* The first use after the widest gap, as an index of uses; TRM_NO_INDEX when no gap is wide. */
static uint32_t second_group(const recomputer *r, trm_index i) {
  const uint32_t least = r->count / GAP_SHARE > LEAST_GAP ? r->count / GAP_SHARE : LEAST_GAP;
  uint32_t before = r->position[i], widest = least, found = TRM_NO_INDEX;
  for (uint32_t u = r->first_use[i]; u < r->first_use[i + 1]; ++u) {
    if (r->uses[u].position - before > widest) {
      widest = r->uses[u].position - before;
      found = u;
    }
    before = r->uses[u].position;
  }
  return found;
}

/* Whether the operands of instruction i are available at a position, or can be kept in half of its
 * bytes. */
static bool is_made_of_what_is_there(const recomputer *r, trm_index i, uint32_t position) {
  const trm_instruction *instruction = &r->computation->instructions[i];
  int64_t kept = 0;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index owner = r->owner[instruction->operands[k]];
    const trm_instruction *operand = &r->computation->instructions[owner];
    if (operand->opcode == TRM_OP_PARAMETER || operand->opcode == TRM_OP_CONSTANT) continue;
    if (r->is_again[owner]) return false;
    if (r->is_pinned[owner] || r->last[owner] >= position) continue;
    kept += trm_tile_shape_bytes(&operand->shape);
  }
  return kept * KEPT_SHARE <= trm_tile_shape_bytes(&instruction->shape);
}

static bool is_cheap(const recomputer *r, trm_index i) {
  const trm_instruction *instruction = &r->computation->instructions[i];
  if (instruction->opcode != TRM_OP_FUSION && !trm_opcode_is_elementwise(instruction->opcode)) {
    return false;
  }
  return !r->passes[i] && !r->is_pinned[i] &&
         trm_tile_shape_bytes(&instruction->shape) >= LEAST_BYTES &&
         !trm_instruction_has_side_effect(r->module, instruction) &&
         (r->layers == NULL || trm_program_is_in_layers(instruction, r->layers));
}

/* The instruction for which the second copy waits: one that its first reader waits for too, else
 * the one that runs before that reader. */
static trm_index anchor_of(const recomputer *r, trm_index i, const use *first) {
  const trm_instruction *reader = &r->computation->instructions[first->reader];
  trm_index anchor = TRM_NO_INDEX;
  uint32_t latest = r->position[i];
  for (uint32_t k = 0; k < reader->num_operands; ++k) {
    if (reader->operands[k] >= r->count) continue; /* another copy */
    const trm_index owner = r->owner[reader->operands[k]];
    if (owner == i || r->position[owner] <= latest) continue;
    latest = r->position[owner];
    anchor = owner;
  }
  for (uint32_t p = first->position; anchor == TRM_NO_INDEX && p-- > r->position[i] + 1;) {
    if (!r->passes[r->order[p]]) anchor = r->order[p];
  }
  return anchor;
}

static trm_status add_copy(recomputer *r, trm_index i, trm_index anchor, trm_index *out_copy,
                           trm_error *error) {
  trm_instruction prototype = r->computation->instructions[i];
  trm_index *control =
      ARENA_NEW(&r->module->arena, trm_index, (size_t)prototype.num_control_predecessors + 1);
  CHECK_MEMORY(control, "recomputation");
  if (prototype.num_control_predecessors > 0) {
    memcpy(control, prototype.control_predecessors,
           prototype.num_control_predecessors * sizeof *control);
  }
  if (anchor != TRM_NO_INDEX) control[prototype.num_control_predecessors++] = anchor;
  prototype.control_predecessors = control;
  TRY(trm_edit_add(&r->edit, i, prototype, out_copy, error));
  r->computation = &r->module->computations[r->index];
  return TRM_OK;
}

/* Replaces operand k of a reader by the copy, and copies the views between them. */
static trm_status redirect(recomputer *r, trm_index reader, uint32_t k, trm_error *error) {
  trm_index at = r->computation->instructions[reader].operands[k];
  trm_index above = reader;
  uint32_t slot = k;
  /* Goes down the views. Each is copied once, and the copy becomes the operand of the view above.
   */
  while (r->copy[at] == TRM_NO_INDEX) {
    trm_index copy;
    TRY(add_copy(r, at, TRM_NO_INDEX, &copy, error));
    r->copy[at] = copy;
    r->computation->instructions[above].operands[slot] = copy;
    above = copy;
    slot = 0;
    at = r->computation->instructions[at].operands[0];
  }
  r->computation->instructions[above].operands[slot] = r->copy[at];
  return TRM_OK;
}

static trm_status compute_again(recomputer *r, trm_index i, uint32_t second, trm_error *error) {
  TRY(add_copy(r, i, anchor_of(r, i, &r->uses[second]), &r->copy[i], error));
  for (uint32_t u = second; u < r->first_use[i + 1]; ++u) {
    TRY(redirect(r, r->uses[u].reader, r->uses[u].operand, error));
  }
  ++r->values;
  r->bytes += trm_tile_shape_bytes(&r->computation->instructions[i].shape);
  return TRM_OK;
}

static trm_status recompute(recomputer *r, trm_arena *arena, trm_error *error) {
  TRY(find_uses(r, arena, error));
  uint32_t *second = ARENA_NEW(arena, uint32_t, (size_t)r->count + 1);
  CHECK_MEMORY(second, "recomputation");
  for (uint32_t p = 0; p < r->count; ++p) {
    const trm_index i = r->order[p];
    if (!is_cheap(r, i)) continue;
    second[i] = second_group(r, i);
    if (second[i] == TRM_NO_INDEX) continue;
    const uint32_t position = r->uses[second[i]].position;
    if (!is_made_of_what_is_there(r, i, position)) continue;
    r->is_again[i] = true;
    const trm_instruction *instruction = &r->computation->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      uint32_t *last = &r->last[r->owner[instruction->operands[k]]];
      if (*last < position) *last = position;
    }
  }
  TRY(trm_edit_begin(&r->edit, r->module, r->index, error));
  trm_status status = TRM_OK;
  for (trm_index i = 0; i < r->count && status == TRM_OK; ++i) {
    if (r->is_again[i]) status = compute_again(r, i, second[i], error);
  }
  return trm_edit_end(&r->edit, status, error);
}

trm_status trm_pass_recompute(trm_module *module, trm_recomputation *recomputation,
                              trm_error *error) {
  recomputation->values = 0;
  recomputation->bytes = 0;
  if (trm_module_has_pipeline(module)) return TRM_OK;
  trm_arena arena = {0};
  trm_status status = TRM_OK;
  bool *is_walked = ARENA_NEW(&arena, bool, (size_t)module->num_computations + 1);
  if (is_walked == NULL) status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  else trm_module_mark_running(module, is_walked);
  for (uint32_t c = module->num_computations; c-- > 0 && status == TRM_OK;) {
    if (!is_walked[c]) continue;
    recomputer r = {.module = module,
                    .computation = &module->computations[c],
                    .index = c,
                    .layers = recomputation->layers,
                    .count = module->computations[c].num_instructions};
    uint32_t *order;
    status = trm_program_order(module, c, recomputation->order, &arena, &order, error);
    r.order = order;
    if (status == TRM_OK) status = recompute(&r, &arena, error);
    recomputation->values += r.values;
    recomputation->bytes += r.bytes;
  }
  trm_arena_free(&arena);
  return status;
}
