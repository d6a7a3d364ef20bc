/* Owns: cutting a program into regions that an accelerator computes.
 *
 * A region is a set of instructions that need nothing of the host: no feeds, host calls,
 * collectives, or custom calls other than those that become plain HLO (lower.h). The level of an
 * instruction is the largest number of times that a path to it leaves the accelerator for the host
 * and comes back. All instructions of a level are one region, so no region waits for one of its own
 * results to pass through the host. A region becomes a custom call "tremula.region" of a
 * computation. A loop or conditional that needs nothing of the host is part of a region; the bodies
 * of other loops and conditionals are cut in the same way. The log says why an instruction stays
 * with the CPU.
 *
 * Values between regions stay on the accelerator (host/exec/residence.h). The counters of a loop
 * that the host runs stay on the host, so the host knows whether the loop goes on without waiting
 * for the accelerator. */
#include <stdlib.h>
#include <string.h>

#include "hlo/loops.h"
#include "host/accelerator/accelerator.h"
#include "host/ops/calls/region.h"
#include "host/ops/reference.h"
#include "passes/edit.h"
#include "passes/lower.h"
#include "passes/maker.h"
#include "passes/outline.h"
#include "passes/pass.h"
#include "tremula/log.h"

enum { MAX_COUNTERS = 64 /* elements */, PHILOX = 2 /* of HLO's random algorithms */ };
static const char origin[] = "ACCELERATOR";
static const char kernel_of_the_cpu[] = "a kernel of the CPU computes it";

/* What the pass knows of an instruction. */
typedef struct place {
  const char *reason; /* why the CPU computes it; NULL: it can be in a region */
  int32_t level;      /* the number of its region; on the CPU: of regions that come before it */
  bool is_used;       /* an instruction outside its region reads it */
} place;

typedef struct cutter {
  trm_edit edit;
  trm_arena arena;
  trm_accelerator *accelerator;
  bool fastest;
  const char *cache;   /* the folder for compiled regions */
  const bool *is_pure; /* by computation: no instruction needs the host */
  uint32_t condition;  /* of the loop whose body this is, or TRM_NO_INDEX */
  uint32_t count;      /* instructions before the cut */
  place *at;           /* by instruction */
  trm_index *inside;   /* by instruction: its copy in the region that is being made */
  uint32_t num_regions;
} cutter;

static bool fits(const cutter *c, trm_index i) { return c->at[i].reason == NULL; }

/* ---- What can be in a region ---------------------------------------------------------------- */

static bool has_types(const trm_module *module, const trm_computation *c,
                      const trm_instruction *i) {
  const bool limits = module->half_overflow != TRM_HALF_INFINITY && !trm_can_limit_halves(i);
  for (uint32_t k = 0; k <= i->num_operands; ++k) {
    const bool is_result = k == i->num_operands;
    const trm_shape *shape = is_result ? &i->shape : &c->instructions[i->operands[k]].shape;
    for (int32_t l = 0; l < trm_shape_num_leaves(shape); ++l) {
      const trm_shape *leaf = trm_shape_leaf(shape, l);
      if (!trm_accelerator_has_type(leaf->dtype) || leaf->dynamic != 0) return false;
      if (is_result && limits && leaf->dtype == TRM_F16) return false;
    }
  }
  return trm_shape_num_leaves(&i->shape) > 0;
}

/* Opcodes that compilers refuse, or for which they have bits of their own. */
static const bool is_kernel[TRM_NUM_OPCODES] = {
    [TRM_OP_STOCHASTIC_CONVERT] = true, [TRM_OP_SCAN] = true,
    [TRM_OP_RAGGED_DOT] = true,         [TRM_OP_SCALED_DOT] = true,
    [TRM_OP_DYNAMIC_RESHAPE] = true,    [TRM_OP_FUSION] = true};

/* Custom calls that XLA's compilers expand for every accelerator. (The eigenvectors of its "Eigh"
 * have other signs than the CPU's.) */
static const bool is_expanded[TRM_NUM_CALLS] = {
    [TRM_CALL_QR] = true, [TRM_CALL_HOUSEHOLDER] = true};

/* Why an accelerator does not compute an opcode or a custom call; NULL: it can. */
static const char *reason_of(const trm_instruction *i) {
  const trm_opcode opcode = trm_instruction_acts_as(i);
  const bool is_own = i->opcode == TRM_OP_CUSTOM_CALL;
  switch (trm_opcode_class_of(opcode)) {
    case TRM_CLASS_COLLECTIVE: return "it exchanges data between replicas";
    case TRM_CLASS_COMMUNICATION:
      if (!is_own || opcode != i->opcode) return "it exchanges data with the host";
    default: break;
  }
  const bool is_other = trm_opcode_class_of(opcode) == TRM_CLASS_OTHER;
  if (trm_opcode_replicas_of(opcode) == TRM_REPLICAS_OWN) {
    return is_other ? "the CPU draws its random numbers" : "its value is different on each replica";
  }
  if (opcode == TRM_OP_OPT_BARRIER || opcode == TRM_OP_RNG_BIT_GENERATOR) return NULL;
  if (is_expanded[i->call_id]) return NULL;
  return is_own || is_other || is_kernel[opcode] ? kernel_of_the_cpu : NULL;
}

static bool calls_pure(const trm_instruction *i, const bool *is_pure) {
  for (uint32_t k = 0; k < i->num_called; ++k) {
    if (!is_pure[i->called[k]]) return false;
  }
  return true;
}

static const char *reason_here(const trm_module *module, const trm_computation *computation,
                               const trm_instruction *i, const bool *is_pure) {
  const char *stays = trm_instruction_frontend_attribute(i, TRM_STAYS);
  if (stays != NULL) return stays;
  if (!has_types(module, computation, i)) return "only the CPU has its type";
  if (trm_can_lower(computation, i)) return NULL;
  return calls_pure(i, is_pure) ? reason_of(i) : "it calls instructions that stay on the CPU";
}

/* Computations are in the order callees, then callers. */
static void find_pure(const trm_module *module, bool *is_pure) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    is_pure[c] = !computation->has_side_effect;
    for (trm_index i = 0; i < computation->num_instructions && is_pure[c]; ++i) {
      is_pure[c] = reason_here(module, computation, &computation->instructions[i], is_pure) == NULL;
    }
  }
}

static const char tuple_of_the_cpu[] = "it belongs to a tuple of the CPU";
static bool is_tuple(const trm_instruction *i) { return i->shape.dtype == TRM_TUPLE; }

/* A tuple in a region may only be made for a loop or conditional of the region, and only be taken
 * apart. An instruction that breaks this rule leaves the region, and with it the instructions that
 * depend on it; this repeats until nothing changes. */
static void drop_tuples(cutter *c) {
  const trm_computation *computation = trm_edit_computation(&c->edit);
  for (bool changes = true; changes;) {
    changes = false;
    for (trm_index i = 0; i < c->count; ++i) {
      const trm_instruction *o = &computation->instructions[i];
      const char *reason = c->at[i].reason;
      if (is_tuple(o) && i == computation->root) reason = tuple_of_the_cpu;
      for (uint32_t k = 0; k < o->num_operands; ++k) {
        const trm_index operand = o->operands[k];
        if (!is_tuple(&computation->instructions[operand])) continue;
        if (!fits(c, operand)) reason = tuple_of_the_cpu;
        if (reason != NULL && fits(c, operand) && o->opcode != TRM_OP_GET_TUPLE_ELEMENT) {
          c->at[operand].reason = tuple_of_the_cpu; /* a reader outside needs the whole tuple */
          changes = true;
        }
      }
      changes |= reason != NULL && fits(c, i);
      if (fits(c, i)) c->at[i].reason = reason;
    }
  }
}

/* A region has no side effects, so an instruction on the host need not wait for one except to read
 * its results. */
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
  return fits(c, i) && c->at[i].level == level && !is_constant(c, i);
}

/* Also finds what is used outside its region. An element of a tuple in a region is in the region
 * too, wherever its readers are. Gives the number of levels; -1 where a tuple leaves the regions,
 * because a loop or conditional reads it at a later level. */
static int32_t find_levels(cutter *c) {
  int32_t count = 0;
  for (trm_index i = 0; i < c->count; ++i) {
    const trm_instruction *o = trm_edit_at(&c->edit, i);
    int32_t level = 0;
    for (uint32_t k = 0; k < o->num_operands + o->num_control_predecessors; ++k) {
      const trm_index before =
          k < o->num_operands ? o->operands[k] : o->control_predecessors[k - o->num_operands];
      const int32_t least = c->at[before].level + (fits(c, before) && !fits(c, i));
      if (!is_constant(c, before) && least > level) level = least;
    }
    c->at[i].level = level;
    if (fits(c, i) && level >= count) count = level + 1;
    for (uint32_t k = 0; k < o->num_operands; ++k) {
      place *operand = &c->at[o->operands[k]];
      if (fits(c, i) && operand->level == level) continue;
      operand->is_used = true;
      if (!fits(c, i) || !is_tuple(trm_edit_at(&c->edit, o->operands[k]))) continue;
      c->at[i].reason = operand->reason = tuple_of_the_cpu;
      return -1;
    }
  }
  c->at[trm_edit_computation(&c->edit)->root].is_used = true;
  return count;
}

/* ---- Counters ------------------------------------------------------------------------------- */

static const char counts_iterations[] = "the host needs it to count iterations of a loop";

static bool is_small(const trm_instruction *i) {
  return trm_shape_is_array(&i->shape) && trm_shape_count(&i->shape) <= MAX_COUNTERS;
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

/* Keeps on the host a small integer from which the body computes what the condition reads. */
static bool keep_counter(void *context, trm_index i) {
  cutter *c = context;
  const trm_computation *body = trm_edit_computation(&c->edit);
  const bool counts = may_count(body, &body->instructions[i]) && fits(c, i);
  if (counts) c->at[i].reason = counts_iterations;
  return counts || c->at[i].reason == counts_iterations;
}

/* Whether the computation is a loop's body that makes a new state. */
static bool is_body(const cutter *c) {
  const trm_computation *body = trm_edit_computation(&c->edit);
  return c->condition != TRM_NO_INDEX && body->instructions[body->root].opcode == TRM_OP_TUPLE;
}

static trm_status keep_counters(cutter *c, trm_error *error) {
  const trm_computation *body = trm_edit_computation(&c->edit);
  if (!is_body(c)) return TRM_OK;
  const trm_computation *condition = &c->edit.module->computations[c->condition];
  bool *needs = ARENA_NEW(&c->arena, bool, (size_t)body->instructions[body->root].num_operands + 1);
  bool *reads = ARENA_NEW(&c->arena, bool, (size_t)c->count + 1);
  if (needs == NULL || reads == NULL) FAIL_NO_MEMORY("regions");
  for (trm_index i = 0; i < condition->num_instructions; ++i) {
    const int64_t element = trm_state_element(condition, &condition->instructions[i]);
    if (element >= 0) needs[element] = true;
  }
  trm_loop_find_needed(body, reads, needs, keep_counter, c);
  return TRM_OK;
}

/* ---- Making regions ------------------------------------------------------------------------- */

/* A region of a computation: its operands and results in that computation, and the call that is
 * made of them. */
typedef struct region_draft {
  int32_t level;
  uint32_t body, num_members, num_operands, num_results, num_aliases;
  trm_index *operands, *results, *inside; /* inside: the results' copies */
  trm_alias *aliases;                     /* operands that results may overwrite */
  int64_t *places;                        /* of results in the tuple */
  trm_shape *shapes, shape;               /* of the results, and the tuple of them */
  char key[TRM_REGION_KEY];               /* of its code; "": the accelerator has none */
} region_draft;

/* Brings an instruction into the region: a member or a constant as a copy, others as a parameter.
 * float32 is multiplied as float32 unless the settings say "fastest". */
static trm_status bring(cutter *c, region_draft *r, trm_index outside, trm_error *error) {
  static int64_t highest[] = {2, 2};
  trm_instruction copy = *trm_edit_at(&c->edit, outside);
  if (c->inside[outside] != TRM_NO_INDEX) return TRM_OK;
  if (!is_member(c, outside, r->level) && !is_constant(c, outside)) {
    copy = (trm_instruction){
        .opcode = TRM_OP_PARAMETER, .shape = copy.shape, .number = r->num_operands};
    r->operands[r->num_operands++] = outside;
  }
  for (uint32_t k = 0; k < copy.num_operands; ++k) {
    TRY(bring(c, r, copy.operands[k], error)); /* a member that is read is inside already */
  }
  copy.sharding = NULL;
  if (copy.opcode == TRM_OP_RNG_BIT_GENERATOR && copy.algorithm == 0) copy.algorithm = PHILOX;
  if (trm_opcode_is_product(copy.opcode)) {
    copy.algorithm = 0; /* no compiler has all of them; the precision decides */
    if (!c->fastest) copy.operand_precision = (trm_dims){.count = 2, .items = highest};
  }
  return trm_outline_copy(c->edit.module, r->body, copy, c->inside, &c->inside[outside], error);
}

/* Brings the members of a level inside; the root is a tuple of the results. */
static trm_status make_body(cutter *c, region_draft *r, trm_error *error) {
  TRY(trm_module_add_computation(c->edit.module, NULL, &r->body, error));
  memset(c->inside, 0xff, c->count * sizeof *c->inside);
  for (trm_index i = 0; i < c->count; ++i) {
    if (!is_member(c, i, r->level)) continue;
    ++r->num_members;
    TRY(bring(c, r, i, error));
    const trm_shape shape = trm_edit_at(&c->edit, i)->shape;
    if (!c->at[i].is_used || !trm_shape_is_array(&shape)) continue;
    r->inside[r->num_results] = c->inside[i];
    r->shapes[r->num_results] = trm_shape_as(shape, shape.dtype);
    r->results[r->num_results++] = i;
  }
  return trm_outline_root(c->edit.module, r->body, r->num_results, r->inside, r->shapes, &r->shape,
                          error);
}

/* Finds operands that results may overwrite: an element of a loop's state and its next value. */
static void find_updates(const cutter *c, region_draft *r) {
  const trm_computation *loop = trm_edit_computation(&c->edit);
  const trm_instruction *root = &loop->instructions[loop->root];
  for (uint32_t at = 0; at < r->num_results && is_body(c); ++at) {
    uint32_t k = 0;
    for (; k < r->num_operands; ++k) {
      const int64_t element = trm_state_element(loop, &loop->instructions[r->operands[k]]);
      if (element >= 0 && root->operands[element] == r->results[at]) break;
    }
    if (k == r->num_operands) continue;
    r->places[at] = at;
    r->aliases[r->num_aliases++] =
        (trm_alias){.output_index = {.count = 1, .items = &r->places[at]}, .parameter_number = k};
  }
}

/* Names by position, so that equal regions of two programs, or of a program and of its executable
 * file, have the same bytes: they are compiled once. */
static trm_status name_by_position(trm_module *module, trm_error *error) {
  uint32_t number = 0;
  module->name = "region";
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_computation *computation = &module->computations[c];
    computation->name = trm_arena_format(&module->arena, "computation.%u", c);
    CHECK_MEMORY(computation->name, "names");
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      trm_instruction *one = &computation->instructions[i];
      one->name = trm_arena_format(&module->arena, "%s.%u", trm_opcode_name(one->opcode), ++number);
      CHECK_MEMORY(one->name, "names");
    }
  }
  return TRM_OK;
}

/* Compiles the region. Where the accelerator's compiler refuses, the log says why. */
static trm_status compile(const cutter *c, region_draft *r, trm_error *error) {
  trm_module *copy;
  TRY(trm_module_clone_lightly(c->edit.module, &copy, error));
  copy->entry = r->body;
  copy->num_aliases = r->num_aliases;
  copy->aliases = r->aliases;
  copy->is_scheduled = false; /* XLA's passes end the process where a module has a schedule */
  trm_status status = trm_lower(copy, r->body, error);
  if (status == TRM_OK && !c->fastest) status = trm_exact_halves(copy, r->body, error);
  if (status == TRM_OK) status = trm_module_compact(copy, error);
  if (status == TRM_OK) status = name_by_position(copy, error);
  if (status == TRM_OK) {
    trm_error why = {0};
    /* Where an id is missing, the module is written with numbers from 1 on. XLA's passes have
     * arrays as long as the largest id, and JAX gives ids beyond 2^32. */
    copy->computations[copy->entry].id = 0;
    const bool is_taken =
        trm_region_compile(c->accelerator, copy, c->cache, r->key, &why) == TRM_OK;
    if (!is_taken) r->key[0] = '\0';
    trm_log(is_taken ? TRM_LOG_INFO : TRM_LOG_WARN, origin,
            "%u instruction%s of %s will run on %s%s%s%s", r->num_members,
            r->num_members == 1 ? "" : "s", trm_edit_computation(&c->edit)->name,
            is_taken ? "" : "the CPU, not on ", trm_accelerator_name(c->accelerator),
            is_taken ? "" : ": ", why.message);
  }
  trm_module_free(copy);
  return status;
}

static trm_status call_region(cutter *c, const region_draft *r, trm_error *error) {
  char *config = trm_arena_format(&c->edit.module->arena, "%s%s", r->key,
                                  c->fastest ? " at its fastest precision" : "");
  CHECK_MEMORY(config, "a region");
  const trm_instruction call = {.shape = r->shape,
                                .num_operands = r->num_operands,
                                .operands = r->operands,
                                .num_called = 1,
                                .called = (uint32_t[]){r->body},
                                .backend_config = config,
                                .backend_config_size = strlen(config)};
  ++c->num_regions;
  return trm_outline_custom_call(&c->edit, TRM_CALL_REGION, call, r->results, r->num_results,
                                 error);
}

/* ---- One computation ------------------------------------------------------------------------ */

static const bool is_heavy[TRM_NUM_OPCODES] = {
    [TRM_OP_DOT] = true,      [TRM_OP_CONVOLUTION] = true,
    [TRM_OP_WHILE] = true,    [TRM_OP_SORT] = true,
    [TRM_OP_TOPK] = true,     [TRM_OP_SELECT_AND_SCATTER] = true,
    [TRM_OP_FFT] = true,      [TRM_OP_REDUCE_WINDOW] = true,
    [TRM_OP_CHOLESKY] = true, [TRM_OP_TRIANGULAR_SOLVE] = true};

/* Whether a level has enough work to move. Beside another region every level has, because its
 * operands may already be on the accelerator. Work is counted in elements of results. */
static bool is_worth(const cutter *c, int32_t level) {
  const char *text = getenv("TREMULA_ACCELERATOR_LEAST");
  const int64_t least = text != NULL && *text != '\0' ? strtoll(text, NULL, 10) : 1 << 14;
  const trm_computation *computation = trm_edit_computation(&c->edit);
  int64_t work = 0;
  for (trm_index i = 0; i < c->count; ++i) {
    if (!is_member(c, i, level)) continue;
    const trm_instruction *o = &computation->instructions[i];
    if (is_heavy[o->opcode] || is_expanded[o->call_id]) work += least;
    else if (trm_shape_is_array(&o->shape)) work += trm_shape_count(&o->shape);
  }
  return work >= least || c->num_regions > 0;
}

static void leave_level(cutter *c, int32_t level, const char *reason) {
  for (trm_index i = 0; i < c->count; ++i) {
    if (is_member(c, i, level)) c->at[i].reason = reason;
  }
}

static trm_status cut_level(cutter *c, int32_t level, trm_error *error) {
  const size_t most = (size_t)c->count + 1;
  region_draft r = {.level = level};
  if (!is_worth(c, level)) {
    leave_level(c, level, "it is too little work to move");
    return TRM_OK;
  }
  r.operands = ARENA_NEW(&c->arena, trm_index, 3 * most);
  r.shapes = ARENA_NEW(&c->arena, trm_shape, most);
  r.aliases = ARENA_NEW(&c->arena, trm_alias, most);
  r.places = ARENA_NEW(&c->arena, int64_t, most);
  if (r.operands == NULL || r.shapes == NULL || r.aliases == NULL || r.places == NULL) {
    FAIL_NO_MEMORY("a region");
  }
  r.results = r.operands + most;
  r.inside = r.results + most;
  TRY(make_body(c, &r, error));
  if (r.num_results == 0) return TRM_OK;
  find_updates(c, &r);
  TRY(compile(c, &r, error));
  if (r.key[0] != '\0') return call_region(c, &r, error);
  leave_level(c, level, "the accelerator's compiler refuses it");
  return TRM_OK;
}

/* Sets the attribute TRM_STAYS on instructions that the CPU computes, and logs each reason once. */
static trm_status note_reasons(cutter *c, trm_error *error) {
  trm_arena *arena = &c->edit.module->arena;
  for (trm_index i = 0; i < c->count; ++i) {
    const char *reason = c->at[i].reason;
    uint32_t count = 0;
    for (trm_index k = i; k < c->count && reason != NULL; ++k) {
      trm_instruction *o = trm_edit_at(&c->edit, k);
      if (c->at[k].reason != reason) continue;
      c->at[k].reason = NULL;
      if (o->opcode == TRM_OP_PARAMETER || o->opcode == TRM_OP_GET_TUPLE_ELEMENT) continue;
      if (is_constant(c, k) || (is_tuple(o) && o->opcode != TRM_OP_CUSTOM_CALL)) continue;
      const char *const pair[] = {TRM_STAYS, reason, NULL};
      o->frontend_attributes = trm_arena_copy(arena, pair, sizeof pair);
      CHECK_MEMORY(o->frontend_attributes, "regions");
      ++count;
    }
    if (count == 0) continue;
    trm_log(TRM_LOG_INFO, origin, "%u instruction%s of %s will stay on the CPU: %s", count,
            count == 1 ? "" : "s", trm_edit_computation(&c->edit)->name, reason);
  }
  return TRM_OK;
}

static trm_status cut(cutter *c, trm_error *error) {
  c->count = trm_edit_computation(&c->edit)->num_instructions;
  c->at = ARENA_NEW(&c->arena, place, (size_t)c->count + 1);
  c->inside = ARENA_NEW(&c->arena, trm_index, (size_t)c->count + 1);
  if (c->at == NULL || c->inside == NULL) FAIL_NO_MEMORY("regions");
  for (trm_index i = 0; i < c->count; ++i) {
    const trm_instruction *o = &trm_edit_computation(&c->edit)->instructions[i];
    c->at[i].reason = reason_here(c->edit.module, trm_edit_computation(&c->edit), o, c->is_pure);
    if (o->opcode == TRM_OP_PARAMETER) c->at[i].reason = "it is an input";
  }
  TRY(keep_counters(c, error));
  int32_t levels;
  do {
    drop_tuples(c);
    drop_order(c);
    levels = find_levels(c);
  } while (levels < 0);
  for (int32_t level = 0; level < levels; ++level) TRY(cut_level(c, level, error));
  return note_reasons(c, error);
}

/* Cuts a computation, then the bodies and branches that stay outside regions. `condition` is the
 * condition of the loop whose body the computation is, or TRM_NO_INDEX. The CPU computes
 * conditions. */
static trm_status cut_computation(const cutter *like, uint32_t computation, uint32_t condition,
                                  trm_error *error) {
  trm_module *module = like->edit.module;
  cutter c = *like;
  c.condition = condition;
  TRY(trm_split_random(module, computation, error));
  TRY(trm_edit_begin(&c.edit, module, computation, error));
  const trm_status status = trm_edit_end(&c.edit, cut(&c, error), error);
  trm_arena_free(&c.arena);
  TRY(status);
  for (trm_index i = 0; i < module->computations[computation].num_instructions; ++i) {
    const trm_instruction o = module->computations[computation].instructions[i];
    const bool is_while = o.opcode == TRM_OP_WHILE;
    for (uint32_t k = is_while; k < o.num_called; ++k) {
      if (!is_while && o.opcode != TRM_OP_CONDITIONAL) break;
      TRY(cut_computation(like, o.called[k], is_while ? o.called[0] : TRM_NO_INDEX, error));
    }
  }
  return TRM_OK;
}

trm_status trm_pass_accelerate(trm_module *module, const trm_accelerator_settings *settings,
                               trm_error *error) {
  const char *precision = getenv("TREMULA_ACCELERATOR_PRECISION");
  cutter all = {.edit = {.module = module}, .fastest = settings->fastest, .cache = settings->cache};
  TRY(trm_accelerator_get(settings->name, &all.accelerator, error));
  if (all.accelerator == NULL) return TRM_OK;
  if (precision == NULL || *precision == '\0') precision = "exact";
  if (strcmp(precision, "fastest") == 0) all.fastest = true;
  else if (strcmp(precision, "exact") != 0) {
    FAIL(INVALID_ARGUMENT, "TREMULA_ACCELERATOR_PRECISION is '%s'; it must be exact or fastest",
         precision);
  }
  if (all.fastest) {
    trm_log(TRM_LOG_INFO, origin, "%s computes with its fastest precision",
            trm_accelerator_name(all.accelerator));
  }
  bool *is_pure = ARENA_NEW(&module->arena, bool, (size_t)module->num_computations + 1);
  CHECK_MEMORY(is_pure, "regions");
  find_pure(module, is_pure);
  all.is_pure = is_pure;
  TRY(cut_computation(&all, module->entry, TRM_NO_INDEX, error));
  return trm_module_compact(module, error);
}
