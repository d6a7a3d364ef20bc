/* Owns: making kLoop fusions of elementwise instructions: for the host's strip programs, and for
 * chains that lie on the same tiles of an IPU.
 *
 * The walk goes from users to producers. An instruction joins the group of its users when all users
 * are in that group. It also joins, as one more result of the group, when the other users come
 * after the whole group; so no cycle arises. Broadcasts, iotas and scalar constants cost nothing
 * inside a fusion and are copied into each. On the host slices are too, and short chains over one
 * array that is in memory anyway, such as x - mean: reading x is as cheap as reading the
 * difference, which then is not written. A group of one instruction that absorbs nothing stays as
 * it is, and so do few single floats. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/elementwise/strip.h"
#include "passes/edit.h"
#include "passes/outline.h"
#include "passes/pass.h"

enum { MAX_RESULTS = 12 };

/* Limits of a group. */
typedef struct fuse_rules {
  bool by_shard;              /* instructions on different IPUs stay apart */
  bool is_host;               /* slices are read in place, short chains computed again */
  uint32_t members, operands; /* at most; an operand counts once for each member that reads it */
} fuse_rules;
/* On the host, the arrays between two fusions go through memory. */
static const fuse_rules for_host = {false, true, 256, 512}, for_ipu = {true, false, 96, 48};

static const uint32_t no_group = UINT32_MAX;

typedef struct group {
  trm_index last;  /* its last member: the place of the fusion */
  trm_index shape; /* a member; all members have its dimensions */
  uint32_t members, results, operands;
} group;

typedef struct fuser {
  trm_edit edit;
  fuse_rules rules;
  uint32_t count;     /* instructions before the pass */
  uint32_t *group_of; /* by instruction */
  bool *is_result;    /* by instruction: used outside its group */
  uint8_t *repeated;  /* by instruction: of a chain that is computed again, how many so far */
  VECTOR(group) groups;
  trm_graph users; /* with control edges, because a cycle may pass through one */
} fuser;

/* Whether a slice keeps long runs of consecutive elements. */
static bool is_run_slice(const trm_instruction *instruction) {
  const trm_shape *shape = &instruction->shape;
  for (int32_t d = 0; d < shape->rank; ++d)
    if (instruction->slice[d].stride != 1) return false;
  return shape->rank > 0 && shape->dims[shape->rank - 1] >= TRM_FUSE_LEAST_RUN;
}

/* Whether each fusion that reads the instruction gets a copy of it. */
static bool is_absorbed(const fuse_rules *rules, const trm_computation *computation,
                        const trm_instruction *instruction) {
  if (instruction->num_control_predecessors > 0) return false;
  switch (instruction->opcode) {
    case TRM_OP_BROADCAST:
      /* A fusion reads a broadcast that grows little as an array. */
      return trm_shape_count(&computation->instructions[instruction->operands[0]].shape) * 2 <=
             trm_shape_count(&instruction->shape);
    case TRM_OP_IOTA: return true;
    case TRM_OP_SLICE: return rules->is_host && is_run_slice(instruction);
    case TRM_OP_CONSTANT: return trm_shape_is_scalar(&instruction->shape);
    default: return false;
  }
}

/* Whether a number may be computed in a fusion on the host. Integers count iterations and name
 * places, which others have to find. */
static bool is_joining_number(const fuser *f, const trm_computation *computation,
                              const trm_instruction *instruction) {
  const bool compares = instruction->opcode == TRM_OP_COMPARE;
  const trm_shape *shape =
      compares ? &computation->instructions[instruction->operands[0]].shape : &instruction->shape;
  return f->rules.is_host && shape->dtype == TRM_F32;
}

/* On the host bits get another type without work, inside a fusion and outside. */
static bool is_bitcast(const fuser *f, const trm_instruction *instruction) {
  return f->rules.is_host && instruction->opcode == TRM_OP_BITCAST_CONVERT;
}

static bool is_member(const fuser *f, const trm_computation *computation, trm_index i) {
  const trm_instruction *instruction = &computation->instructions[i];
  return (trm_opcode_is_elementwise(instruction->opcode) || is_bitcast(f, instruction)) &&
         instruction->num_control_predecessors == 0 && trm_shape_is_array(&instruction->shape) &&
         (instruction->shape.rank > 0 || is_joining_number(f, computation, instruction)) &&
         trm_shape_count(&instruction->shape) > 0 &&
         trm_strip_supports(f->edit.module, computation, instruction);
}

/* The one array that a cheap instruction reads, besides what is absorbed; TRM_NO_INDEX: none, or
 * more than one. */
static trm_index array_of(const fuser *f, const trm_computation *computation, trm_index i) {
  const trm_instruction *instruction = &computation->instructions[i];
  trm_index array = TRM_NO_INDEX;
  switch (instruction->opcode) {
    case TRM_OP_ADD:
    case TRM_OP_MULTIPLY:
    case TRM_OP_NEGATE:
    case TRM_OP_SUBTRACT: break;
    default: return TRM_NO_INDEX;
  }
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    if (is_absorbed(&f->rules, computation, &computation->instructions[operand])) continue;
    if (array != TRM_NO_INDEX) return TRM_NO_INDEX;
    array = operand;
  }
  return array;
}

/* Whether the array stays where it is while it is read; a loop's state would be copied. */
static bool is_kept(const fuser *f, const trm_computation *computation, trm_index array) {
  const trm_opcode opcode = computation->instructions[array].opcode;
  return opcode != TRM_OP_PARAMETER && opcode != TRM_OP_GET_TUPLE_ELEMENT &&
         !is_member(f, computation, array);
}

/* Finds the chains that every fusion computes again: only fusions read them. */
static void find_repeated(fuser *f, const trm_computation *computation) {
  for (trm_index i = 0; f->rules.is_host && i < f->count; ++i) {
    const trm_index array =
        is_member(f, computation, i) ? array_of(f, computation, i) : TRM_NO_INDEX;
    if (array == TRM_NO_INDEX || i == computation->root) continue;
    const uint8_t before = f->repeated[array];
    bool is_read_by_fusions = true;
    for (size_t e = f->users.rows[i]; e < f->users.rows[i + 1]; ++e) {
      is_read_by_fusions &= is_member(f, computation, f->users.targets[e]);
    }
    if (is_read_by_fusions && before < TRM_FUSE_MOST_REPEATED &&
        (before > 0 || is_kept(f, computation, array))) {
      f->repeated[i] = (uint8_t)(before + 1);
    }
  }
}

static bool same_shard(const trm_instruction *a, const trm_instruction *b) {
  return a->sharding == b->sharding ||
         (a->sharding != NULL && b->sharding != NULL && strcmp(a->sharding, b->sharding) == 0);
}

/* Where the user of a value will stand. */
static trm_index place_of(const fuser *f, trm_index user) {
  const uint32_t g = f->group_of[user];
  return f->rules.is_host && g != no_group ? f->groups.items[g].last : user;
}

/* Whether `i` may join group `g`; *out_result: as a result, because some users are outside. */
static bool may_join(const fuser *f, const trm_computation *computation, trm_index i, uint32_t g,
                     bool *out_result) {
  const group *candidate = &f->groups.items[g];
  const trm_instruction *instruction = &computation->instructions[i];
  if (!trm_shape_same_dims(&instruction->shape,
                           &computation->instructions[candidate->shape].shape) ||
      (f->rules.by_shard &&
       !same_shard(instruction, &computation->instructions[candidate->shape])) ||
      candidate->members >= f->rules.members ||
      candidate->operands + instruction->num_operands > f->rules.operands) {
    return false;
  }
  if (i == computation->root) return false; /* a root is a whole value of its own */
  bool result = false;
  for (size_t e = f->users.rows[i + 1]; e-- > f->users.rows[i];) { /* the last user first */
    const trm_index user = f->users.targets[e];
    if (f->group_of[user] == g) continue;
    if (place_of(f, user) < candidate->last) return false;
    result = true;
  }
  if (result && (candidate->results >= MAX_RESULTS || is_bitcast(f, instruction))) return false;
  *out_result = result;
  return true;
}

static trm_status group_instruction(fuser *f, const trm_computation *computation, trm_index i,
                                    trm_error *error) {
  if (f->repeated[i] > 0 || !is_member(f, computation, i)) return TRM_OK;
  for (size_t e = f->users.rows[i + 1]; e-- > f->users.rows[i];) {
    const uint32_t g = f->group_of[f->users.targets[e]];
    bool result;
    if (g == no_group || !may_join(f, computation, i, g, &result)) continue;
    group *joined = &f->groups.items[g];
    f->group_of[i] = g;
    f->is_result[i] = result;
    ++joined->members;
    joined->results += result;
    joined->operands += computation->instructions[i].num_operands;
    return TRM_OK;
  }
  if (is_bitcast(f, &computation->instructions[i])) return TRM_OK;
  const group fresh = {.last = i,
                       .shape = i,
                       .members = 1,
                       .results = 1,
                       .operands = computation->instructions[i].num_operands};
  f->group_of[i] = (uint32_t)f->groups.count;
  f->is_result[i] = true;
  if (!VECTOR_PUSH(&f->groups, fresh)) FAIL_NO_MEMORY("fusions");
  return TRM_OK;
}

/* ---- Making a fusion ------------------------------------------------------------------------ */

typedef struct maker {
  fuser *f;
  uint32_t body;              /* the fusion's computation */
  VECTOR(trm_index) operands; /* instructions outside, by number of the parameter */
  trm_index *inside;          /* by instruction outside: its copy inside, or TRM_NO_INDEX */
  VECTOR(trm_index) touched;  /* entries of inside to reset */
} maker;

static trm_status note_inside(maker *m, trm_index outside, trm_index inside, trm_error *error) {
  m->inside[outside] = inside;
  if (!VECTOR_PUSH(&m->touched, outside)) FAIL_NO_MEMORY("a fusion");
  return TRM_OK;
}

static trm_status add_parameter(maker *m, trm_index outside, trm_error *error) {
  const trm_instruction parameter = {.opcode = TRM_OP_PARAMETER,
                                     .shape = trm_edit_at(&m->f->edit, outside)->shape,
                                     .number = (int64_t)m->operands.count};
  trm_index inside;
  TRY(trm_computation_add(m->f->edit.module, m->body, &parameter, &inside, error));
  if (!VECTOR_PUSH(&m->operands, outside)) FAIL_NO_MEMORY("a fusion");
  return note_inside(m, outside, inside, error);
}

static trm_status copy_inside(maker *m, trm_index outside, trm_error *error) {
  trm_index inside;
  TRY(trm_outline_copy(m->f->edit.module, m->body, *trm_edit_at(&m->f->edit, outside), m->inside,
                       &inside, error));
  return note_inside(m, outside, inside, error);
}

/* Brings in an operand of a member: as a parameter, or as a copy if it is absorbed. */
static trm_status bring_plain(maker *m, trm_index outside, trm_error *error) {
  if (m->inside[outside] != TRM_NO_INDEX) return TRM_OK;
  const trm_computation *computation = trm_edit_computation(&m->f->edit);
  if (!is_absorbed(&m->f->rules, computation, trm_edit_at(&m->f->edit, outside))) {
    return add_parameter(m, outside, error);
  }
  for (uint32_t k = 0; k < trm_edit_at(&m->f->edit, outside)->num_operands; ++k) {
    const trm_index inner = trm_edit_at(&m->f->edit, outside)->operands[k];
    if (m->inside[inner] != TRM_NO_INDEX) continue;
    computation = trm_edit_computation(&m->f->edit);
    const trm_instruction *instruction = &computation->instructions[inner];
    if (instruction->opcode == TRM_OP_CONSTANT && trm_shape_is_scalar(&instruction->shape)) {
      TRY(copy_inside(m, inner, error));
    } else {
      TRY(add_parameter(m, inner, error));
    }
  }
  return copy_inside(m, outside, error);
}

/* Brings in what a member reads: a parameter, or a copy of what is absorbed or computed again. */
static trm_status bring_operand(maker *m, trm_index outside, trm_error *error) {
  trm_index chain[TRM_FUSE_MOST_REPEATED];
  int length = 0;
  while (m->f->repeated[outside] > 0 && m->inside[outside] == TRM_NO_INDEX) {
    chain[length++] = outside;
    outside = array_of(m->f, trm_edit_computation(&m->f->edit), outside);
  }
  TRY(bring_plain(m, outside, error));
  while (length-- > 0) {
    const trm_index again = chain[length];
    for (uint32_t k = 0; k < trm_edit_at(&m->f->edit, again)->num_operands; ++k) {
      TRY(bring_plain(m, trm_edit_at(&m->f->edit, again)->operands[k], error));
    }
    TRY(copy_inside(m, again, error));
  }
  return TRM_OK;
}

static bool absorbs_anything(const fuser *f, trm_index i) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  const trm_instruction *instruction = &computation->instructions[i];
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_instruction *operand = &computation->instructions[instruction->operands[k]];
    if (f->repeated[instruction->operands[k]] > 0) return true;
    if (operand->opcode != TRM_OP_CONSTANT && is_absorbed(&f->rules, computation, operand))
      return true;
  }
  return false;
}

static trm_status finish_fusion(maker *m, const trm_index *members, uint32_t num_members,
                                trm_error *error) {
  fuser *f = m->f;
  trm_module *module = f->edit.module;
  trm_index results[MAX_RESULTS + 1], inside[MAX_RESULTS + 1];
  trm_shape shapes[MAX_RESULTS + 1];
  uint32_t count = 0;
  for (uint32_t i = 0; i < num_members; ++i) {
    if (!f->is_result[members[i]]) continue;
    results[count] = members[i];
    inside[count] = m->inside[members[i]];
    shapes[count++] = trm_edit_at(&f->edit, members[i])->shape;
  }
  if (count == 0) FAIL(INTERNAL, "a fusion has no result");
  trm_shape shape = shapes[0];
  module->computations[m->body].root = inside[0];
  if (count > 1) TRY(trm_outline_root(module, m->body, count, inside, shapes, &shape, error));
  const trm_instruction fusion = {.opcode = TRM_OP_FUSION,
                                  .shape = shape,
                                  .num_operands = (uint32_t)m->operands.count,
                                  .operands = m->operands.items,
                                  .num_called = 1,
                                  .called = &m->body,
                                  .fusion_kind = "kLoop"};
  return trm_outline_call(&f->edit, &fusion, results, count, error);
}

static trm_status make_fusion(maker *m, const trm_index *members, uint32_t num_members,
                              trm_error *error) {
  uint32_t count = num_members; /* what is absorbed or repeated comes in addition */
  for (uint32_t i = 0; i < num_members; ++i) {
    count += trm_edit_at(&m->f->edit, members[i])->num_operands;
  }
  TRY(trm_module_add_computation(m->f->edit.module, NULL, &m->body, error));
  TRY(trm_computation_reserve(m->f->edit.module, m->body, count, error));
  m->operands.count = 0;
  for (uint32_t i = 0; i < num_members; ++i) {
    for (uint32_t k = 0; k < trm_edit_at(&m->f->edit, members[i])->num_operands; ++k) {
      TRY(bring_operand(m, trm_edit_at(&m->f->edit, members[i])->operands[k], error));
    }
    TRY(copy_inside(m, members[i], error));
  }
  TRY(finish_fusion(m, members, num_members, error));
  for (size_t i = 0; i < m->touched.count; ++i) m->inside[m->touched.items[i]] = TRM_NO_INDEX;
  m->touched.count = 0;
  return TRM_OK;
}

static trm_status make_fusions(fuser *f, trm_error *error) {
  trm_status status = TRM_OK;
  maker m = {.f = f};
  const size_t num_groups = f->groups.count;
  uint32_t *start = trm_allocate_zeroed(num_groups + 1, sizeof *start);
  trm_index *members = trm_allocate((f->count + 1) * sizeof *members);
  m.inside = trm_allocate((f->count + 1) * sizeof *m.inside);
  if (start == NULL || members == NULL || m.inside == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while fusing");
  }
  memset(m.inside, 0xff, (f->count + 1) * sizeof *m.inside);
  /* Sorts the members by group; within a group they stay in order. */
  for (size_t g = 0; g < num_groups; ++g) start[g + 1] = start[g] + f->groups.items[g].members;
  for (trm_index i = 0; i < f->count; ++i) {
    if (f->group_of[i] != no_group) members[start[f->group_of[i]]++] = i;
  }
  for (size_t g = 0; g < num_groups; ++g) {
    const uint32_t count = f->groups.items[g].members;
    const trm_index *first = members + start[g] - count;
    const bool is_number = trm_edit_at(&f->edit, first[0])->shape.rank == 0;
    if (is_number ? count < TRM_FUSE_LEAST_NUMBERS : count == 1 && !absorbs_anything(f, first[0]))
      continue;
    TRY_OR_GOTO(make_fusion(&m, first, count, error), done);
  }
done:
  VECTOR_FREE(&m.operands);
  VECTOR_FREE(&m.touched);
  trm_free(m.inside);
  trm_free(start);
  trm_free(members);
  return status;
}

static trm_status fuse_computation(trm_module *module, uint32_t index, const void *rules,
                                   trm_error *error) {
  const trm_computation *computation = &module->computations[index];
  fuser f = {.count = computation->num_instructions, .rules = *(const fuse_rules *)rules};
  TRY(trm_edit_begin(&f.edit, module, index, error));
  trm_status status = TRM_OK;
  f.group_of = trm_allocate((f.count + 1) * sizeof *f.group_of);
  f.is_result = trm_allocate_zeroed((size_t)f.count + 1, sizeof *f.is_result);
  f.repeated = trm_allocate_zeroed((size_t)f.count + 1, sizeof *f.repeated);
  if (f.group_of == NULL || f.is_result == NULL || f.repeated == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while fusing");
  }
  memset(f.group_of, 0xff, (f.count + 1) * sizeof *f.group_of);
  TRY_OR_GOTO(trm_edit_find_users(&f.edit, &f.users, error), done);
  find_repeated(&f, computation);
  for (trm_index i = f.count; i-- > 0;) {
    TRY_OR_GOTO(group_instruction(&f, computation, i, error), done);
  }
  status = make_fusions(&f, error);
done:
  VECTOR_FREE(&f.groups);
  trm_free(f.group_of);
  trm_free(f.is_result);
  trm_free(f.repeated);
  trm_graph_free(&f.users);
  return trm_edit_end(&f.edit, status, error);
}

trm_status trm_pass_fuse(trm_module *module, trm_error *error) {
  return trm_edit_each_running(module, fuse_computation, &for_host, error);
}

trm_status trm_pass_place_together(trm_module *module, trm_error *error) {
  return trm_edit_each_running(module, fuse_computation, &for_ipu, error);
}
