/* Owns: collectives of several arrays. Sums over replicas that do not need each other, as those of
 * gradients, become one of up to so many bytes, and so do reduce-scatters and all-gathers. Then
 * replicas meet once, and processes send each other one message, for all of them:
 *
 *     a = f32[9] all-reduce(x)        t = (f32[9], f32[5]) all-reduce(x, y)
 *     b = f32[5] all-reduce(y)        a = get-tuple-element(t), index=0  b = ..., index=1
 *
 * Each element is combined as before, so the bits stay. */
#include <string.h>

#include "hlo/groups.h"
#include "passes/edit.h"
#include "passes/outline.h"
#include "passes/pass.h"

/* Groups are numbered from the end of the program. A group is needed by groups of lower numbers
 * only, so that no two groups wait for each other. Each collective is as late as it may be: nothing
 * but the end needs the gradients. */
typedef struct group {
  trm_index last; /* the last member; the others are like it */
  uint32_t count;
  int64_t bytes;
} group;

typedef struct finder {
  trm_edit edit;
  const trm_combining *limits;
  uint32_t count;   /* instructions before the pass */
  trm_graph users;  /* of each instruction */
  uint32_t *least;  /* by instruction: the first group that does not need it */
  uint32_t *inside; /* the group that it is in, or TRM_NO_INDEX */
  VECTOR(group) groups;
} finder;

static const trm_instruction *at(const finder *f, trm_index i) { return trm_edit_at(&f->edit, i); }

/* Up to how many bytes collectives of this kind are combined. */
static int64_t limit_of(const finder *f, const trm_instruction *i) {
  switch (trm_instruction_acts_as(i)) {
    case TRM_OP_ALL_REDUCE: return f->limits->sums;
    case TRM_OP_REDUCE_SCATTER: return f->limits->scatters;
    case TRM_OP_ALL_GATHER: return f->limits->gathers;
    default: return 0;
  }
}

static int64_t bytes_of(const finder *f, trm_index i) {
  return (int64_t)trm_shape_bytes(&at(f, at(f, i)->operands[0])->shape);
}

static bool is_candidate(const finder *f, trm_index i) {
  const trm_instruction *one = at(f, i);
  return limit_of(f, one) > 0 && one->num_operands == 1 && trm_shape_is_array(&one->shape) &&
         one->num_control_predecessors == 0 && bytes_of(f, i) <= limit_of(f, one) &&
         !trm_instruction_has_side_effect(f->edit.module, one);
}

static bool are_equal_texts(const char *a, const char *b) {
  return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool have_equal_groups(const trm_collective *a, const trm_collective *b) {
  if (a == NULL || b == NULL) return a == b;
  return a->dimension == b->dimension && a->use_global_device_ids == b->use_global_device_ids &&
         trm_groups_equal(&a->replica_groups, &b->replica_groups);
}

/* Whether both combine in the same way: by the same opcode, on elements of one type. */
static bool combine_alike(const finder *f, const trm_instruction *a, const trm_instruction *b) {
  if (a->num_called == 0 && b->num_called == 0) return true;
  if (a->num_called != 1 || b->num_called != 1 || a->shape.dtype != b->shape.dtype) return false;
  const trm_computation *all = f->edit.module->computations;
  const trm_opcode opcode = trm_computation_combiner(&all[a->called[0]]);
  return opcode != TRM_NUM_OPCODES && opcode == trm_computation_combiner(&all[b->called[0]]);
}

static bool are_alike(const finder *f, const trm_instruction *a, const trm_instruction *b) {
  return a->opcode == b->opcode && a->call_id == b->call_id && combine_alike(f, a, b) &&
         a->backend_config_size == b->backend_config_size &&
         (a->backend_config_size == 0 ||
          memcmp(a->backend_config, b->backend_config, a->backend_config_size) == 0) &&
         are_equal_texts(a->sharding, b->sharding) &&
         have_equal_groups(a->collective, b->collective);
}

static trm_status join_group(finder *f, trm_index i, trm_error *error) {
  const int64_t bytes = bytes_of(f, i), limit = limit_of(f, at(f, i));
  uint32_t g = f->least[i];
  while (g < f->groups.count && (f->groups.items[g].bytes > limit - bytes ||
                                 !are_alike(f, at(f, f->groups.items[g].last), at(f, i)))) {
    ++g;
  }
  if (g == f->groups.count && !VECTOR_PUSH(&f->groups, ((group){.last = i}))) {
    FAIL_NO_MEMORY("groups of collectives");
  }
  ++f->groups.items[g].count;
  f->groups.items[g].bytes += bytes;
  f->inside[i] = g;
  return TRM_OK;
}

static uint32_t find_least(const finder *f, trm_index i) {
  uint32_t least = 0;
  for (size_t k = f->users.rows[i]; k < f->users.rows[i + 1]; ++k) {
    const trm_index user = f->users.targets[k];
    const uint32_t own = f->inside[user] == TRM_NO_INDEX ? f->least[user] : f->inside[user] + 1;
    least = own > least ? own : least;
  }
  return least;
}

static trm_status make_collective(finder *f, uint32_t number, trm_error *error) {
  const group g = f->groups.items[number];
  trm_arena *arena = &f->edit.module->arena;
  trm_index *members = ARENA_NEW(arena, trm_index, g.count);
  trm_index *operands = ARENA_NEW(arena, trm_index, g.count);
  trm_shape *shapes = ARENA_NEW(arena, trm_shape, g.count);
  if (members == NULL || operands == NULL || shapes == NULL) FAIL_NO_MEMORY("a collective");
  uint32_t left = g.count;
  for (trm_index i = g.last + 1; i-- > 0 && left > 0;) {
    if (f->inside[i] != number) continue;
    members[--left] = i;
    operands[left] = at(f, i)->operands[0];
    shapes[left] = at(f, i)->shape;
  }
  trm_instruction made = *at(f, g.last);
  made.operands = operands;
  made.num_operands = g.count;
  if (!trm_shape_make_tuple(arena, (int32_t)g.count, shapes, &made.shape)) {
    FAIL_NO_MEMORY("a collective");
  }
  return trm_outline_call(&f->edit, &made, members, g.count, error);
}

static trm_status find_groups(finder *f, trm_error *error) {
  for (trm_index i = f->count; i-- > 0;) {
    f->least[i] = find_least(f, i);
    f->inside[i] = TRM_NO_INDEX;
    if (is_candidate(f, i)) TRY(join_group(f, i, error));
  }
  for (uint32_t g = 0; g < f->groups.count; ++g) {
    if (f->groups.items[g].count > 1) TRY(make_collective(f, g, error));
  }
  return TRM_OK;
}

static trm_status edit_computation(trm_module *module, uint32_t computation, const void *limits,
                                   trm_error *error) {
  finder f = {.limits = limits};
  TRY(trm_edit_begin(&f.edit, module, computation, error));
  f.count = trm_edit_computation(&f.edit)->num_instructions;
  f.least = trm_allocate(((size_t)f.count + 1) * sizeof *f.least);
  f.inside = trm_allocate(((size_t)f.count + 1) * sizeof *f.inside);
  trm_status status = trm_edit_find_users(&f.edit, &f.users, error);
  if (f.least == NULL || f.inside == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for groups of collectives");
  }
  if (status == TRM_OK) status = find_groups(&f, error);
  trm_graph_free(&f.users);
  trm_free(f.least);
  trm_free(f.inside);
  VECTOR_FREE(&f.groups);
  return trm_edit_end(&f.edit, status, error);
}

trm_status trm_pass_combine_collectives(trm_module *module, const trm_combining *limits,
                                        trm_error *error) {
  if (limits->sums == 0 && limits->scatters == 0 && limits->gathers == 0) return TRM_OK;
  return trm_edit_each_running(module, edit_computation, limits, error);
}
