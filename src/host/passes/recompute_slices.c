/* Owns: arrays that one loop fills slice by slice and another loop reads slice by slice, where a
 * slice is cheap to compute of slices of the other arrays: 1 - s, or s (1 - s), of a gate s that is
 * kept too. The second loop computes such a slice, and the first need not keep it (drop_state.c).
 * JAX keeps for the gradient of an LSTM five arrays of this kind, of twelve. The bits are the same.
 *
 * A slice of one array stands for slices of the others at any index: the first loop fills all of
 * them at the same indices. */
#include <string.h>

#include "base/limits.h"
#include "passes/loop_state.h"
#include "passes/pass.h"

enum { MAX_NODES = 8 };

/* An array that the first loop fills, an element of its state. */
typedef struct filled {
  trm_index value, index; /* of the first body: what is written where */
  trm_index taken;        /* by the second loop's first values */
  int64_t place;          /* in the second loop's state; -1: not only there */
  bool is_needed, goes;   /* others are computed of it; it is computed of others */
} filled;

typedef struct finder {
  trm_edit *edit;
  trm_index first, second; /* loops */
  trm_index init;          /* the second one's first values */
  trm_known_loop known;    /* the first one */
  bool *fixed;             /* by instruction of the second body */
  filled *items;           /* by element of the first loop's state */
  int64_t count;
} finder;

static const trm_computation *body_of(const finder *f, trm_index loop) {
  return &f->edit->module->computations[trm_edit_at(f->edit, loop)->called[1]];
}

/* ---- What the second loop reads ------------------------------------------------------------- */

/* Whether instruction i of the second body reads `slice`, a dynamic-slice, only to drop the first
 * dimension. */
static bool only_drops(const finder *f, trm_index slice) {
  const trm_computation *body = body_of(f, f->second);
  for (trm_index i = slice + 1; i < body->num_instructions; ++i) {
    const trm_instruction *user = &body->instructions[i];
    trm_loop_slice found;
    for (uint32_t k = 0; k < user->num_operands; ++k) {
      if (user->operands[k] != slice) continue;
      if (user->opcode != TRM_OP_RESHAPE || !trm_find_loop_slice(body, f->fixed, i, &found) ||
          !found.drops)
        return false;
    }
    for (uint32_t k = 0; k < user->num_control_predecessors; ++k) {
      if (user->control_predecessors[k] == slice) return false;
    }
  }
  return true;
}

/* Whether the second body hands the element on, and else only takes slices of it. */
static bool reads_slices(const finder *f, int64_t place) {
  const trm_computation *body = body_of(f, f->second);
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    const trm_instruction *user = &body->instructions[i];
    for (uint32_t k = 0; k < user->num_operands; ++k) {
      const trm_instruction *element = &body->instructions[user->operands[k]];
      if (element->opcode != TRM_OP_GET_TUPLE_ELEMENT || element->number != place ||
          element->operands[0] != body->parameters[0])
        continue;
      const bool is_slice = user->opcode == TRM_OP_DYNAMIC_SLICE && k == 0 && only_drops(f, i);
      if (!f->fixed[user->operands[k]] || !(is_slice || (i == body->root && k == place))) {
        return false;
      }
    }
  }
  return true;
}

/* Finds the one place where an element of the first loop goes to: the second loop's state. */
static void find_place(const finder *f, int64_t element, filled *out) {
  const trm_computation *c = trm_edit_computation(f->edit);
  out->place = -1;
  for (trm_index i = f->first + 1; i < c->num_instructions; ++i) {
    const trm_instruction *user = &c->instructions[i];
    for (uint32_t k = 0; k < user->num_operands + user->num_control_predecessors; ++k) {
      const trm_index used = k < user->num_operands
                                 ? user->operands[k]
                                 : user->control_predecessors[k - user->num_operands];
      const trm_instruction *taken = &c->instructions[used];
      if (taken->opcode != TRM_OP_GET_TUPLE_ELEMENT || taken->operands[0] != f->first ||
          taken->number != element)
        continue;
      const bool is_only = out->place < 0 && i == f->init && k < user->num_operands;
      out->place = is_only ? k : INT64_MAX;
      out->taken = used;
    }
    /* What leaves the second loop leaves it as it was. */
    if (user->opcode == TRM_OP_GET_TUPLE_ELEMENT && user->operands[0] == f->second &&
        user->number == out->place)
      out->place = INT64_MAX;
  }
  if (out->place == INT64_MAX || out->place < 0 || !reads_slices(f, out->place) ||
      trm_count_readers(&f->edit->module->computations[trm_edit_at(f->edit, f->second)->called[0]],
                        out->place) > 0)
    out->place = -1;
}

/* Whether `shape` is that of the slice without the first dimension, which is 1. */
static bool is_slice_dropped(const trm_shape *slice, const trm_shape *shape) {
  return slice->dtype == TRM_F32 && shape->rank == slice->rank - 1 &&
         memcmp(slice->dims + 1, shape->dims, (size_t)shape->rank * sizeof *shape->dims) == 0;
}

static void find_filled(const finder *f, int64_t element, filled *out) {
  const trm_computation *body = body_of(f, f->first);
  const trm_shape *state = &trm_edit_at(f->edit, f->first)->shape;
  *out = (filled){.value = TRM_NO_INDEX, .place = -1};
  if (!trm_loop_fills(&f->known.loop, trm_shape_leaf_offset(state, (int32_t)element),
                      f->known.iterations))
    return;
  const trm_index root = body->instructions[body->root].operands[element];
  const trm_instruction *update = &body->instructions[root];
  const trm_instruction *slice = &body->instructions[update->operands[1]];
  if (slice->opcode != TRM_OP_RESHAPE ||
      !is_slice_dropped(&slice->shape, &body->instructions[slice->operands[0]].shape))
    return;
  out->value = slice->operands[0];
  out->index = update->operands[2];
  find_place(f, element, out);
}

/* ---- What a slice is computed of ------------------------------------------------------------- */

typedef struct tree {
  trm_index nodes[MAX_NODES]; /* of the first body, in its order, leaves too */
  uint32_t count;
} tree;

/* The element that keeps a value of the first body, or -1. */
static int64_t keeper(const finder *f, trm_index value, const filled *other) {
  for (int64_t k = 0; k < f->count; ++k) {
    const filled *one = &f->items[k];
    if (one != other && one->value == value && one->index == other->index && one->place >= 0 &&
        !one->goes)
      return k;
  }
  return -1;
}

static bool is_cheap(trm_opcode opcode) {
  return opcode == TRM_OP_ADD || opcode == TRM_OP_SUBTRACT || opcode == TRM_OP_MULTIPLY ||
         opcode == TRM_OP_NEGATE || opcode == TRM_OP_MAXIMUM || opcode == TRM_OP_MINIMUM;
}

static bool is_number(const trm_computation *body, const trm_instruction *o) {
  return o->opcode == TRM_OP_BROADCAST &&
         body->instructions[o->operands[0]].opcode == TRM_OP_CONSTANT &&
         trm_shape_is_scalar(&body->instructions[o->operands[0]].shape);
}

/* Puts a node in its order; false: there is no room. */
static bool add_node(tree *t, trm_index node) {
  uint32_t at = t->count;
  while (at > 0 && t->nodes[at - 1] > node) --at;
  if (at > 0 && t->nodes[at - 1] == node) return true;
  if (t->count == MAX_NODES) return false;
  memmove(t->nodes + at + 1, t->nodes + at, (t->count - at) * sizeof *t->nodes);
  t->nodes[at] = node;
  ++t->count;
  return true;
}

/* What a filled array's slices are computed of; false: it must be kept. */
static bool find_tree(const finder *f, const filled *one, tree *t) {
  const trm_computation *body = body_of(f, f->first);
  uint32_t operations = 0, leaves = 0;
  t->count = 0;
  add_node(t, one->value);
  /* From users to operands, which come before them: what is added lies below `at`. */
  for (uint32_t at = t->count; at-- > 0;) {
    const trm_instruction *o = &body->instructions[t->nodes[at]];
    if (keeper(f, t->nodes[at], one) >= 0) {
      ++leaves;
      continue;
    }
    if (o->opcode == TRM_OP_CONSTANT || is_number(body, o)) continue;
    if (!is_cheap(o->opcode) || o->num_control_predecessors > 0 || o->shape.dtype != TRM_F32 ||
        ++operations > TRM_RECOMPUTE_MOST_OPERATIONS)
      return false;
    const uint32_t before = t->count;
    for (uint32_t k = 0; k < o->num_operands; ++k) {
      if (!add_node(t, o->operands[k])) return false;
    }
    at += t->count - before;
  }
  return leaves > 0;
}

/* ---- Rewriting ------------------------------------------------------------------------------ */

/* The slice of another element at the place of `slice`, without the first dimension. */
static trm_status add_slice(trm_edit *edit, trm_index slice, int64_t place, trm_shape shape,
                            trm_index *out, trm_error *error) {
  trm_instruction other = *trm_edit_at(edit, slice);
  const trm_index parameter = trm_edit_computation(edit)->parameters[0];
  trm_index operands[TRM_MAX_RANK + 1];
  memcpy(operands, other.operands, other.num_operands * sizeof *operands);
  TRY(trm_edit_element(edit, slice, parameter, place, &operands[0], error));
  other.operands = operands;
  TRY(trm_edit_add(edit, slice, other, out, error));
  return trm_edit_unary(edit, slice, TRM_OP_RESHAPE, shape, *out, out, error);
}

/* Computes what instruction i of the second body, a slice, is. */
static trm_status replace_slice(const finder *f, const filled *one, const tree *t, trm_edit *edit,
                                trm_index i, trm_error *error) {
  const trm_computation *from = body_of(f, f->first);
  const trm_index slice = trm_edit_at(edit, i)->operands[0];
  trm_index made[MAX_NODES];
  for (uint32_t n = 0; n < t->count; ++n) {
    trm_instruction node = from->instructions[t->nodes[n]];
    const int64_t kept = keeper(f, t->nodes[n], one);
    if (kept >= 0) {
      TRY(add_slice(edit, slice, f->items[kept].place, node.shape, &made[n], error));
      continue;
    }
    trm_index operands[2] = {0};
    if (is_number(from, &node)) {
      const trm_instruction number = from->instructions[node.operands[0]];
      TRY(trm_edit_add(edit, i, number, &operands[0], error));
    }
    for (uint32_t k = 0; k < node.num_operands && node.opcode != TRM_OP_BROADCAST; ++k) {
      for (uint32_t m = 0; m < n; ++m) {
        if (t->nodes[m] == node.operands[k]) operands[k] = made[m];
      }
    }
    node.operands = operands;
    TRY(trm_edit_add(edit, i, node, &made[n], error));
  }
  trm_edit_replace(edit, i, made[t->count - 1]);
  return TRM_OK;
}

static trm_status replace_slices(const finder *f, const filled *one, const tree *t,
                                 trm_error *error) {
  trm_module *module = f->edit->module;
  trm_edit edit;
  TRY(trm_edit_begin(&edit, module, trm_edit_at(f->edit, f->second)->called[1], error));
  const uint32_t count = trm_edit_computation(&edit)->num_instructions;
  trm_status status = TRM_OK;
  for (trm_index i = 0; i < count && status == TRM_OK; ++i) {
    const trm_instruction *o = trm_edit_at(&edit, i);
    if (o->opcode != TRM_OP_RESHAPE) continue;
    const trm_instruction *slice = trm_edit_at(&edit, o->operands[0]);
    if (slice->opcode != TRM_OP_DYNAMIC_SLICE) continue;
    const trm_instruction *array = trm_edit_at(&edit, slice->operands[0]);
    const bool is_it = array->opcode == TRM_OP_GET_TUPLE_ELEMENT && array->number == one->place &&
                       array->operands[0] == trm_edit_computation(&edit)->parameters[0];
    if (is_it) status = replace_slice(f, one, t, &edit, i, error);
  }
  return trm_edit_end(&edit, status, error);
}

/* The second loop gets another array of the same shape, which it has anyway, in the place of one
 * that it does not read any more. */
static trm_status forget(finder *f, const filled *one, trm_index other, trm_error *error) {
  trm_module *module = f->edit->module;
  trm_instruction *init = trm_edit_at(f->edit, f->init);
  trm_index *operands =
      trm_arena_copy(&module->arena, init->operands, init->num_operands * sizeof *operands);
  CHECK_MEMORY(operands, "a loop");
  operands[one->place] = other;
  init->operands = operands;
  f->edit->changed = true;
  return TRM_OK;
}

static trm_status recompute(finder *f, trm_error *error) {
  for (int64_t k = 0; k < f->count; ++k) find_filled(f, k, &f->items[k]);
  for (int64_t k = 0; k < f->count; ++k) {
    filled *one = &f->items[k];
    tree t;
    if (one->place < 0 || one->is_needed || !find_tree(f, one, &t)) continue;
    trm_index other = TRM_NO_INDEX;
    for (uint32_t n = 0; n < t.count; ++n) {
      const int64_t kept = keeper(f, t.nodes[n], one);
      if (kept < 0) continue;
      f->items[kept].is_needed = true;
      other = f->items[kept].taken;
    }
    TRY(replace_slices(f, one, &t, error));
    TRY(forget(f, one, other, error));
    one->goes = true;
  }
  return TRM_OK;
}

/* Whether the instruction is used once in its computation. */
static bool is_used_once(const trm_computation *c, trm_index index) {
  uint32_t uses = c->root == index;
  for (trm_index i = index + 1; i < c->num_instructions; ++i) {
    const trm_instruction *user = &c->instructions[i];
    for (uint32_t k = 0; k < user->num_operands; ++k) uses += user->operands[k] == index;
    for (uint32_t k = 0; k < user->num_control_predecessors; ++k)
      uses += user->control_predecessors[k] == index;
  }
  return uses == 1;
}

static trm_status recompute_between(finder *f, trm_error *error) {
  trm_arena arena = {0};
  f->count = trm_edit_at(f->edit, f->first)->shape.num_elements;
  f->items = ARENA_NEW(&arena, filled, (size_t)f->count + 1);
  f->fixed = ARENA_NEW(&arena, bool, (size_t)body_of(f, f->second)->num_instructions + 1);
  trm_status status = trm_known_loop_make(f->edit, f->first, &f->known, error);
  if (status == TRM_OK && (f->items == NULL || f->fixed == NULL)) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for a loop");
  }
  if (status == TRM_OK && f->known.is_exact && f->known.iterations > 0 &&
      trm_find_fixed(body_of(f, f->second), f->fixed)) {
    status = recompute(f, error);
  }
  trm_known_loop_free(&f->known);
  trm_arena_free(&arena);
  return status;
}

static bool is_loop(const trm_edit *edit, trm_index i) {
  return trm_edit_at(edit, i)->opcode == TRM_OP_WHILE && trm_loop_may_grow(edit, i);
}

/* For each loop whose state has elements of an earlier one. */
static trm_status recompute_in_loop(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  (void)state;
  if (!is_loop(edit, i)) return TRM_OK;
  finder f = {.edit = edit, .second = i, .init = trm_edit_at(edit, i)->operands[0]};
  if (trm_edit_at(edit, f.init)->opcode != TRM_OP_TUPLE ||
      !is_used_once(trm_edit_computation(edit), f.init))
    return TRM_OK;
  trm_index last = TRM_NO_INDEX;
  for (uint32_t k = 0; k < trm_edit_at(edit, f.init)->num_operands; ++k) {
    const trm_instruction *taken = trm_edit_at(edit, trm_edit_at(edit, f.init)->operands[k]);
    if (taken->opcode != TRM_OP_GET_TUPLE_ELEMENT || taken->operands[0] == last) continue;
    last = taken->operands[0];
    f.first = last;
    if (is_loop(edit, f.first)) TRY(recompute_between(&f, error));
  }
  return TRM_OK;
}

trm_status trm_pass_recompute_slices(trm_module *module, trm_error *error) {
  return trm_edit_module(module, recompute_in_loop, NULL, error);
}
