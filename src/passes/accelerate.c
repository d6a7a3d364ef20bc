/* Owns: cutting what runs into regions that an accelerator computes.
 *
 * A region is a set of instructions that touch nothing of the host: no feeds, host calls,
 * collectives, random numbers that the engine seeds, or custom calls other than those that become
 * plain HLO (lower.h). Level L of an instruction is the most times that a path to
 * it leaves the accelerator for the host and comes back; all instructions of a level are one
 * region, so that no region needs a result of its own through the host. A region becomes a custom
 * call "tremula.region" of a computation. Loops and conditionals that touch nothing of the host are
 * part of regions; of the others the bodies are cut. A region that is not worth the way there, or
 * that the accelerator's compiler refuses, stays with the CPU, and the log says why.
 *
 * Values between regions stay on the accelerator (exec/residence.h). So that the host need not wait
 * for it to know whether a loop goes on, the counters of such loops stay on the host. */
#include <stdlib.h>
#include <string.h>

#include "accelerator/accelerator.h"
#include "ops/reference.h"
#include "passes/edit.h"
#include "passes/lower.h"
#include "passes/pass.h"
#include "tremula/log.h"

enum { MOST_COUNTERS = 64 /* elements */ };
static const char origin[] = "ACCELERATOR";
static const char kernel_of_the_cpu[] = "a kernel of the CPU's computes it";

/* Elements, computed one by one, that are worth the way to an accelerator. */
static int64_t least_work(void) {
  const char *text = getenv("TREMULA_ACCELERATOR_LEAST");
  return text != NULL && *text != '\0' ? strtoll(text, NULL, 10) : 1 << 14;
}

typedef struct destination {
  trm_accelerator *accelerator;
  bool fastest;
} destination;

typedef struct cutter {
  trm_edit edit;
  const destination *on;
  const bool *is_pure;              /* by computation: all of it can be in a region */
  const trm_computation *condition; /* of the loop whose body this is; NULL: of none */
  uint32_t count;                   /* instructions before the cut */
  const char **reasons;             /* by instruction: why it is the CPU's; NULL: it need not be */
  int32_t *level;    /* of what fits: its region; of the others: of the regions before */
  bool *is_used;     /* by instruction: somebody outside its region reads it */
  trm_index *inside; /* by instruction, while a region is made: what stands for it */
  uint32_t num_regions;
} cutter;

static bool fits(const cutter *c, trm_index i) { return c->reasons[i] == NULL; }

/* ---- What can be in a region ---------------------------------------------------------------- */

static bool has_types(const trm_module *module, const trm_instruction *i) {
  const bool limits = module->half_overflow != TRM_HALF_INFINITY && !trm_can_limit_halves(i);
  for (int32_t l = 0; l < trm_shape_num_leaves(&i->shape); ++l) {
    const trm_shape *leaf = trm_shape_leaf(&i->shape, l);
    if (!trm_accelerator_has_type(leaf->dtype) || leaf->dynamic != 0) return false;
    if (limits && leaf->dtype == TRM_F16) return false;
  }
  return trm_shape_num_leaves(&i->shape) > 0;
}

/* Why an accelerator does not compute an opcode, or a custom call; NULL: it can. */
static const char *reason_of(const trm_instruction *i) {
  const trm_opcode opcode = trm_instruction_acts_as(i);
  const bool is_own = i->opcode == TRM_OP_CUSTOM_CALL;
  switch (trm_opcode_class_of(opcode)) {
    case TRM_CLASS_COLLECTIVE: return "replicas meet in it";
    case TRM_CLASS_COMMUNICATION:
      if (!is_own || opcode != i->opcode) return "the host takes part";
    default: break;
  }
  const bool is_other = trm_opcode_class_of(opcode) == TRM_CLASS_OTHER;
  if (trm_opcode_replicas_of(opcode) == TRM_REPLICAS_OWN) {
    return is_other ? "its random numbers are the CPU's" : "each replica has its own";
  }
  switch (opcode) {
    case TRM_OP_OPT_BARRIER: return NULL;
    case TRM_OP_STOCHASTIC_CONVERT:
    case TRM_OP_CHOLESKY:
    case TRM_OP_TRIANGULAR_SOLVE:
    case TRM_OP_FFT:
    case TRM_OP_TOPK:
    case TRM_OP_SCAN:
    case TRM_OP_RAGGED_DOT:
    case TRM_OP_SCALED_DOT:
    case TRM_OP_DYNAMIC_RESHAPE:
    case TRM_OP_FUSION: return kernel_of_the_cpu;
    default: break;
  }
  return is_own || is_other ? kernel_of_the_cpu : NULL;
}

static bool calls_pure(const trm_instruction *i, const bool *is_pure) {
  for (uint32_t k = 0; k < i->num_called; ++k) {
    if (!is_pure[i->called[k]]) return false;
  }
  return true;
}

/* Callees come before callers. */
static void find_pure(const trm_module *module, bool *is_pure) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    is_pure[c] = !computation->has_side_effect;
    for (trm_index i = 0; i < computation->num_instructions && is_pure[c]; ++i) {
      const trm_instruction *o = &computation->instructions[i];
      is_pure[c] = reason_of(o) == NULL && has_types(module, o) && calls_pure(o, is_pure);
    }
  }
}

static const char tuple_of_the_cpu[] = "it is of a tuple of the CPU's";
static bool is_tuple(const trm_instruction *i) { return i->shape.dtype == TRM_TUPLE; }

/* Tuples are only made for loops and conditionals of a region, and only taken apart: what does not
 * keep to that drops out, with what depends on it, until nothing changes. */
static void drop_tuples(cutter *c) {
  const trm_computation *computation = trm_edit_computation(&c->edit);
  for (bool changes = true; changes;) {
    changes = false;
    for (trm_index i = 0; i < c->count; ++i) {
      const trm_instruction *o = &computation->instructions[i];
      const char *reason = c->reasons[i];
      if (is_tuple(o) && i == computation->root) reason = tuple_of_the_cpu;
      for (uint32_t k = 0; k < o->num_operands; ++k) {
        const trm_index operand = o->operands[k];
        if (!is_tuple(&computation->instructions[operand])) continue;
        if (!fits(c, operand)) reason = tuple_of_the_cpu;
        if (reason != NULL && fits(c, operand) && o->opcode != TRM_OP_GET_TUPLE_ELEMENT) {
          c->reasons[operand] = tuple_of_the_cpu; /* somebody outside reads all of it */
          changes = true;
        }
      }
      changes |= reason != NULL && fits(c, i);
      if (fits(c, i)) c->reasons[i] = reason;
    }
  }
}

/* An element of what is in a region is in it too, whoever reads the element. */
static void find_levels(cutter *c) {
  const trm_computation *computation = trm_edit_computation(&c->edit);
  for (trm_index i = 0; i < c->count; ++i) {
    const trm_instruction *o = &computation->instructions[i];
    int32_t level = 0;
    for (uint32_t k = 0; k < o->num_operands + o->num_control_predecessors; ++k) {
      const trm_index before =
          k < o->num_operands ? o->operands[k] : o->control_predecessors[k - o->num_operands];
      const int32_t least = c->level[before] + (fits(c, before) && !fits(c, i));
      if (computation->instructions[before].opcode != TRM_OP_CONSTANT && least > level) {
        level = least;
      }
    }
    c->level[i] = level;
  }
}

/* What a region computes has no effects, so nothing of the host need come after it but what reads
 * it. */
static void drop_order(const cutter *c) {
  for (trm_index i = 0; i < c->count; ++i) {
    trm_instruction *o = trm_edit_at(&c->edit, i);
    uint32_t kept = 0;
    for (uint32_t k = 0; k < o->num_control_predecessors; ++k) {
      const trm_index before = o->control_predecessors[k];
      if (fits(c, i) || !fits(c, before)) o->control_predecessors[kept++] = before;
    }
    o->num_control_predecessors = kept;
  }
}

static bool is_constant(const cutter *c, trm_index i) {
  return trm_edit_computation(&c->edit)->instructions[i].opcode == TRM_OP_CONSTANT;
}

static bool is_member(const cutter *c, trm_index i, int32_t level) {
  return fits(c, i) && c->level[i] == level && !is_constant(c, i);
}

static void find_used(cutter *c) {
  const trm_computation *computation = trm_edit_computation(&c->edit);
  for (trm_index i = 0; i < c->count; ++i) {
    const trm_instruction *o = &computation->instructions[i];
    for (uint32_t k = 0; k < o->num_operands; ++k) {
      const trm_index operand = o->operands[k];
      if (!fits(c, i) || c->level[i] != c->level[operand]) c->is_used[operand] = true;
    }
  }
  c->is_used[computation->root] = true;
}

/* ---- Making regions ------------------------------------------------------------------------- */

static trm_status add_inside(cutter *c, uint32_t body, trm_index outside,
                             const trm_instruction *prototype, trm_error *error) {
  return trm_computation_add(c->edit.module, body, prototype, &c->inside[outside], error);
}

/* A copy of a member, or of a constant that a member reads. Floats are multiplied as floats. */
static trm_status copy_inside(cutter *c, uint32_t body, trm_index outside, trm_arena *arena,
                              trm_error *error) {
  trm_instruction copy = *trm_edit_at(&c->edit, outside);
  trm_index *operands = ARENA_NEW(arena, trm_index, (size_t)copy.num_operands + 1);
  CHECK_MEMORY(operands, "a region");
  for (uint32_t k = 0; k < copy.num_operands; ++k) operands[k] = c->inside[copy.operands[k]];
  copy.operands = operands;
  copy.name = NULL;
  copy.id = 0;
  copy.num_control_predecessors = 0;
  copy.sharding = NULL;
  static int64_t highest[] = {2, 2};
  if ((copy.opcode == TRM_OP_DOT || copy.opcode == TRM_OP_CONVOLUTION) && !c->on->fastest) {
    copy.operand_precision = (trm_dims){.count = 2, .items = highest};
  }
  return add_inside(c, body, outside, &copy, error);
}

/* ---- Counters ------------------------------------------------------------------------------- */

static bool is_small(const trm_instruction *i) {
  return trm_shape_is_array(&i->shape) && trm_shape_count(&i->shape) <= MOST_COUNTERS;
}

static bool may_count(const trm_computation *c, const trm_instruction *i) {
  const trm_kind kind = trm_dtype_kind(i->shape.dtype);
  bool may =
      is_small(i) && i->num_called == 0 && (trm_kind_is_integer(kind) || kind == TRM_KIND_PRED);
  for (uint32_t k = 0; k < i->num_operands; ++k) {
    may = may && is_small(&c->instructions[i->operands[k]]);
  }
  return may;
}

/* Takes out what computes the n-th part of the state out of small integers; *needs: the parts of
 * the state that it reads. Operands come before their users. */
static bool keep_counter(cutter *c, bool *reads, bool *needs, uint32_t n) {
  const trm_computation *body = trm_edit_computation(&c->edit);
  const trm_instruction *root = &body->instructions[body->root];
  bool changes = false;
  memset(reads, 0, c->count * sizeof *reads);
  reads[root->operands[n]] = true;
  for (trm_index i = root->operands[n] + 1; i-- > 0;) {
    const trm_instruction *o = &body->instructions[i];
    if (!reads[i]) continue;
    if (o->opcode == TRM_OP_GET_TUPLE_ELEMENT &&
        body->instructions[o->operands[0]].opcode == TRM_OP_PARAMETER) {
      changes = changes || !needs[o->number];
      needs[o->number] = true;
    } else if (fits(c, i) && may_count(body, o)) {
      c->reasons[i] = "the host counts with it";
      for (uint32_t k = 0; k < o->num_operands; ++k) reads[o->operands[k]] = true;
    }
  }
  return changes;
}

static trm_status keep_counters(cutter *c, trm_arena *arena, trm_error *error) {
  const trm_computation *body = trm_edit_computation(&c->edit), *condition = c->condition;
  const trm_instruction *root = &body->instructions[body->root];
  if (condition == NULL || root->opcode != TRM_OP_TUPLE) return TRM_OK;
  bool *needs = ARENA_NEW(arena, bool, (size_t)root->num_operands + 1);
  bool *reads = ARENA_NEW(arena, bool, (size_t)c->count + 1);
  if (needs == NULL || reads == NULL) FAIL_NO_MEMORY("regions");
  for (trm_index i = 0; i < condition->num_instructions; ++i) {
    const trm_instruction *o = &condition->instructions[i];
    if (o->opcode == TRM_OP_GET_TUPLE_ELEMENT &&
        condition->instructions[o->operands[0]].opcode == TRM_OP_PARAMETER) {
      needs[o->number] = true;
    }
  }
  for (bool changes = true; changes;) {
    changes = false;
    for (uint32_t n = 0; n < root->num_operands; ++n) {
      if (needs[n] && keep_counter(c, reads, needs, n)) changes = true;
    }
  }
  return TRM_OK;
}

typedef VECTOR(trm_index) index_list;

static trm_status bring_operands(cutter *c, uint32_t body, trm_index member, index_list *operands,
                                 trm_arena *arena, trm_error *error) {
  for (uint32_t k = 0; k < trm_edit_at(&c->edit, member)->num_operands; ++k) {
    const trm_index outside = trm_edit_at(&c->edit, member)->operands[k];
    if (c->inside[outside] != TRM_NO_INDEX) continue;
    if (is_constant(c, outside)) {
      TRY(copy_inside(c, body, outside, arena, error));
      continue;
    }
    const trm_instruction parameter = {.opcode = TRM_OP_PARAMETER,
                                       .shape = trm_edit_at(&c->edit, outside)->shape,
                                       .number = (int64_t)operands->count};
    TRY(add_inside(c, body, outside, &parameter, error));
    if (!VECTOR_PUSH(operands, outside)) FAIL_NO_MEMORY("a region");
  }
  return TRM_OK;
}

/* The root: a tuple of the results. */
static trm_status finish_body(cutter *c, uint32_t body, const index_list *results,
                              trm_shape *out_shape, trm_error *error) {
  trm_module *module = c->edit.module;
  const size_t count = results->count;
  trm_index *inside = ARENA_NEW(&module->arena, trm_index, count);
  trm_shape *shapes = ARENA_NEW(&module->arena, trm_shape, count);
  if (inside == NULL || shapes == NULL) FAIL_NO_MEMORY("a region");
  for (size_t r = 0; r < count; ++r) {
    inside[r] = c->inside[results->items[r]];
    shapes[r] = trm_edit_at(&c->edit, results->items[r])->shape;
    shapes[r].layout = NULL;
  }
  if (!trm_shape_make_tuple(&module->arena, (int32_t)count, shapes, out_shape)) {
    FAIL_NO_MEMORY("a region");
  }
  const trm_instruction tuple = {.opcode = TRM_OP_TUPLE,
                                 .shape = *out_shape,
                                 .num_operands = (uint32_t)count,
                                 .operands = inside};
  trm_index root;
  TRY(trm_computation_add(module, body, &tuple, &root, error));
  module->computations[body].root = root;
  return TRM_OK;
}

/* A region of a computation: its operands and results there, and what is made of it. */
typedef struct region_draft {
  uint32_t body, num_members;
  index_list operands, results;
  VECTOR(uint32_t) updated; /* operands that may be written over by results */
  trm_alias *aliases;
  trm_shape shape;
  char key[33];
} region_draft;

/* The next value of a part of a loop's state may lie where the last one did. */
static trm_status find_updates(const cutter *c, region_draft *r, trm_error *error) {
  trm_module *module = c->edit.module;
  const trm_computation *loop = trm_edit_computation(&c->edit);
  const trm_instruction *root = &loop->instructions[loop->root];
  if (c->condition == NULL || root->opcode != TRM_OP_TUPLE) return TRM_OK;
  r->aliases = ARENA_NEW(&module->arena, trm_alias, r->operands.count + 1);
  CHECK_MEMORY(r->aliases, "a region");
  for (uint32_t k = 0; k < r->operands.count; ++k) {
    const trm_instruction *o = &loop->instructions[r->operands.items[k]];
    if (o->opcode != TRM_OP_GET_TUPLE_ELEMENT || o->number >= root->num_operands ||
        loop->instructions[o->operands[0]].opcode != TRM_OP_PARAMETER) {
      continue;
    }
    size_t at = 0;
    while (at < r->results.count && r->results.items[at] != root->operands[o->number]) ++at;
    if (at == r->results.count) continue;
    int64_t *index = ARENA_NEW(&module->arena, int64_t, 1);
    if (index == NULL || !VECTOR_PUSH(&r->updated, k)) FAIL_NO_MEMORY("a region");
    *index = (int64_t)at;
    r->aliases[r->updated.count - 1] =
        (trm_alias){.output_index = {.count = 1, .items = index}, .parameter_number = k};
  }
  return TRM_OK;
}

static trm_status module_of(const trm_module *module, const region_draft *r, bool fastest,
                            void **out_data, size_t *out_size, trm_error *error) {
  trm_module *copy;
  TRY(trm_module_clone_lightly(module, &copy, error));
  copy->entry = r->body;
  copy->num_aliases = (uint32_t)r->updated.count;
  copy->aliases = r->aliases;
  copy->half_overflow = module->half_overflow;
  trm_status status = trm_lower(copy, r->body, error);
  if (status == TRM_OK && !fastest) status = trm_exact_halves(copy, r->body, error);
  if (status == TRM_OK) status = trm_module_compact(copy, error);
  if (status == TRM_OK) status = trm_module_serialize(copy, out_data, out_size, error);
  trm_module_free(copy);
  return status;
}

/* Whether the accelerator takes the region; what its compiler has made waits for the kernel. */
static trm_status try_region(cutter *c, region_draft *r, bool *out_taken, trm_error *error) {
  void *data;
  size_t size;
  trm_region *region;
  trm_error why;
  TRY(module_of(c->edit.module, r, c->on->fastest, &data, &size, error));
  const trm_region_source source = {data, size, r->updated.items, r->updated.count};
  const trm_status status = trm_region_compile(c->on->accelerator, &source, &region, &why);
  trm_free(data);
  *out_taken = status == TRM_OK;
  if (status == TRM_OK) {
    trm_region_key(region, r->key);
    trm_log(TRM_LOG_INFO, origin, "%u instructions of %s run on %s", r->num_members,
            trm_edit_computation(&c->edit)->name, trm_accelerator_name(c->on->accelerator));
  } else {
    trm_log(TRM_LOG_WARN, origin, "%u instructions of %s run on the CPU, not on %s: %s",
            r->num_members, trm_edit_computation(&c->edit)->name,
            trm_accelerator_name(c->on->accelerator), why.message);
  }
  return TRM_OK;
}

static trm_status call_region(cutter *c, const region_draft *r, trm_error *error) {
  const index_list *results = (const index_list *)&r->results;
  trm_custom_call *target = ARENA_NEW(&c->edit.module->arena, trm_custom_call, 1);
  char *config = trm_arena_format(&c->edit.module->arena, "{\"region\":\"%s\"}", r->key);
  if (target == NULL || config == NULL) FAIL_NO_MEMORY("a region");
  target->target = trm_call_target(TRM_CALL_REGION);
  const trm_instruction call = {.opcode = TRM_OP_CUSTOM_CALL,
                                .shape = r->shape,
                                .num_operands = (uint32_t)r->operands.count,
                                .operands = r->operands.items,
                                .num_called = 1,
                                .called = (uint32_t[]){r->body},
                                .custom_call = target,
                                .backend_config = config,
                                .backend_config_size = strlen(config)};
  trm_index made;
  TRY(trm_edit_add(&c->edit, results->items[results->count - 1], call, &made, error));
  for (size_t k = 0; k < results->count; ++k) {
    trm_index element;
    const trm_instruction gte = {.opcode = TRM_OP_GET_TUPLE_ELEMENT,
                                 .shape = r->shape.elements[k],
                                 .num_operands = 1,
                                 .operands = &made,
                                 .number = (int64_t)k};
    TRY(trm_edit_add(&c->edit, results->items[k], gte, &element, error));
    trm_edit_replace(&c->edit, results->items[k], element);
  }
  ++c->num_regions;
  return TRM_OK;
}

/* ---- One computation ------------------------------------------------------------------------ */

static bool is_heavy(trm_opcode opcode) {
  switch (opcode) {
    case TRM_OP_DOT:
    case TRM_OP_CONVOLUTION:
    case TRM_OP_WHILE:
    case TRM_OP_SORT:
    case TRM_OP_SELECT_AND_SCATTER:
    case TRM_OP_REDUCE_WINDOW: return true;
    default: return false;
  }
}

/* Whether the members of a level are worth moving: beside another region they are, because their
 * operands may be there. *out_members: how many there are. */
static bool is_worth(const cutter *c, int32_t level, uint32_t *out_members) {
  const trm_computation *computation = trm_edit_computation(&c->edit);
  const int64_t least = least_work();
  int64_t work = 0;
  *out_members = 0;
  for (trm_index i = 0; i < c->count; ++i) {
    if (!is_member(c, i, level)) continue;
    const trm_instruction *o = &computation->instructions[i];
    ++*out_members;
    if (is_heavy(o->opcode)) work += least;
    else if (trm_shape_is_array(&o->shape)) work += trm_shape_count(&o->shape);
  }
  return *out_members > 0 && (work >= least || c->num_regions > 0);
}

static void leave_level(cutter *c, int32_t level, const char *reason) {
  for (trm_index i = 0; i < c->count; ++i) {
    if (is_member(c, i, level)) c->reasons[i] = reason;
  }
}

static trm_status cut_level(cutter *c, int32_t level, trm_error *error) {
  region_draft r = {0};
  if (!is_worth(c, level, &r.num_members)) {
    leave_level(c, level, "it is too little work");
    return TRM_OK;
  }
  trm_arena arena = {0};
  bool taken = false;
  trm_status status = TRM_OK;
  memset(c->inside, 0xff, c->count * sizeof *c->inside);
  TRY_OR_GOTO(trm_module_add_computation(c->edit.module, NULL, &r.body, error), done);
  for (trm_index i = 0; i < c->count; ++i) {
    if (!is_member(c, i, level)) continue;
    TRY_OR_GOTO(bring_operands(c, r.body, i, &r.operands, &arena, error), done);
    TRY_OR_GOTO(copy_inside(c, r.body, i, &arena, error), done);
    const bool is_result = c->is_used[i] && trm_shape_is_array(&trm_edit_at(&c->edit, i)->shape);
    if (is_result && !VECTOR_PUSH(&r.results, i)) {
      FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for a region");
    }
  }
  if (r.results.count == 0) goto done;
  TRY_OR_GOTO(finish_body(c, r.body, &r.results, &r.shape, error), done);
  TRY_OR_GOTO(find_updates(c, &r, error), done);
  TRY_OR_GOTO(try_region(c, &r, &taken, error), done);
  if (taken) TRY_OR_GOTO(call_region(c, &r, error), done);
  else leave_level(c, level, "the accelerator's compiler refuses it");
done:
  VECTOR_FREE(&r.operands);
  VECTOR_FREE(&r.results);
  VECTOR_FREE(&r.updated);
  trm_arena_free(&arena);
  return status;
}

/* The attribute TRM_STAYS of what the CPU computes, and a line in the log for each reason. */
static trm_status note_reasons(cutter *c, trm_error *error) {
  trm_arena *arena = &c->edit.module->arena;
  for (trm_index i = 0; i < c->count; ++i) {
    const char *reason = c->reasons[i];
    uint32_t count = 0;
    for (trm_index k = i; k < c->count && reason != NULL; ++k) {
      trm_instruction *o = trm_edit_at(&c->edit, k);
      if (c->reasons[k] != reason) continue;
      c->reasons[k] = NULL;
      if (is_tuple(o) || o->opcode == TRM_OP_PARAMETER || is_constant(c, k)) continue;
      const char *const pair[] = {TRM_STAYS, reason, NULL};
      o->frontend_attributes = trm_arena_copy(arena, pair, sizeof pair);
      CHECK_MEMORY(o->frontend_attributes, "regions");
      ++count;
    }
    if (count == 0) continue;
    trm_log(TRM_LOG_INFO, origin, "%u instructions of %s stay on the CPU: %s", count,
            trm_edit_computation(&c->edit)->name, reason);
  }
  return TRM_OK;
}

static trm_status cut(cutter *c, trm_arena *arena, trm_error *error) {
  int32_t deepest = -1;
  for (trm_index i = 0; i < c->count; ++i) {
    const trm_instruction *o = &trm_edit_computation(&c->edit)->instructions[i];
    const trm_computation *own = trm_edit_computation(&c->edit);
    const bool lowers =
        o->num_operands > 0 && trm_can_lower(o, &own->instructions[o->operands[0]].shape);
    if (!has_types(c->edit.module, o)) c->reasons[i] = "it has a type of the CPU's";
    else if (!calls_pure(o, c->is_pure)) c->reasons[i] = "the CPU has a part in what it calls";
    else if (o->opcode == TRM_OP_PARAMETER) c->reasons[i] = "it is an input";
    else if (!lowers) c->reasons[i] = reason_of(o);
  }
  TRY(keep_counters(c, arena, error));
  drop_tuples(c);
  drop_order(c);
  find_levels(c);
  find_used(c);
  for (trm_index i = 0; i < c->count; ++i) {
    if (fits(c, i) && c->level[i] > deepest) deepest = c->level[i];
  }
  for (int32_t level = 0; level <= deepest; ++level) TRY(cut_level(c, level, error));
  return note_reasons(c, error);
}

typedef struct part {
  uint32_t computation, condition; /* TRM_NO_INDEX: it is no body of a loop */
} part;

static trm_status cut_computation(trm_module *module, part p, const bool *is_pure,
                                  const destination *on, trm_error *error) {
  cutter c = {.on = on, .is_pure = is_pure};
  trm_arena arena = {0};
  const trm_computation condition =
      p.condition != TRM_NO_INDEX ? module->computations[p.condition] : (trm_computation){0};
  if (p.condition != TRM_NO_INDEX) c.condition = &condition;
  TRY(trm_split_random(module, p.computation, error));
  TRY(trm_edit_begin(&c.edit, module, p.computation, error));
  c.count = trm_edit_computation(&c.edit)->num_instructions;
  const size_t count = (size_t)c.count + 1;
  c.reasons = ARENA_NEW(&arena, const char *, count);
  c.level = ARENA_NEW(&arena, int32_t, count);
  c.is_used = ARENA_NEW(&arena, bool, count);
  c.inside = ARENA_NEW(&arena, trm_index, count);
  trm_status status = TRM_OK;
  if (c.reasons == NULL || c.level == NULL || c.is_used == NULL || c.inside == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for regions");
  } else {
    status = cut(&c, &arena, error);
  }
  status = trm_edit_end(&c.edit, status, error);
  trm_arena_free(&arena);
  return status;
}

/* The bodies and branches that are left. The condition of a loop is a comparison: the CPU's. */
static trm_status cut_all(trm_module *module, const bool *is_pure, const destination *on,
                          trm_error *error) {
  VECTOR(part) left = {0};
  trm_status status = TRM_OK;
  if (!VECTOR_PUSH(&left, ((part){module->entry, TRM_NO_INDEX}))) FAIL_NO_MEMORY("regions");
  while (left.count > 0 && status == TRM_OK) {
    const part c = left.items[--left.count];
    status = cut_computation(module, c, is_pure, on, error);
    if (status != TRM_OK) break;
    const trm_computation *computation = &module->computations[c.computation];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *o = &computation->instructions[i];
      const bool is_while = o->opcode == TRM_OP_WHILE;
      if (!is_while && o->opcode != TRM_OP_CONDITIONAL) continue;
      for (uint32_t k = is_while; k < o->num_called && status == TRM_OK; ++k) {
        const part next = {o->called[k], is_while ? o->called[0] : TRM_NO_INDEX};
        if (VECTOR_PUSH(&left, next)) continue;
        status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for regions");
      }
    }
  }
  VECTOR_FREE(&left);
  return status;
}

/* What the environment says where the caller says nothing. */
static trm_status wants_fastest(const trm_accelerator_settings *settings, bool *out,
                                trm_error *error) {
  const char *text = getenv("TREMULA_ACCELERATOR_PRECISION");
  *out = settings->fastest;
  if (text == NULL || *text == '\0' || strcmp(text, "exact") == 0) return TRM_OK;
  if (strcmp(text, "fastest") != 0) {
    FAIL(INVALID_ARGUMENT, "TREMULA_ACCELERATOR_PRECISION is exact or fastest, not '%s'", text);
  }
  *out = true;
  return TRM_OK;
}

trm_status trm_pass_accelerate(trm_module *module, const trm_accelerator_settings *settings,
                               trm_error *error) {
  destination on;
  TRY(trm_accelerator_get(settings->name, &on.accelerator, error));
  if (on.accelerator == NULL) return TRM_OK;
  TRY(wants_fastest(settings, &on.fastest, error));
  if (on.fastest) {
    trm_log(TRM_LOG_INFO, origin, "%s computes with the precision that is fastest there",
            trm_accelerator_name(on.accelerator));
  }
  bool *is_pure = trm_allocate_zeroed((size_t)module->num_computations + 1, sizeof *is_pure);
  CHECK_MEMORY(is_pure, "regions");
  find_pure(module, is_pure);
  trm_status status = cut_all(module, is_pure, &on, error);
  trm_free(is_pure);
  return status == TRM_OK ? trm_module_compact(module, error) : status;
}
