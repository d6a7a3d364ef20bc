/* Owns: the copies at calls of outlined functions, for the estimate.
 *
 * The original compiles an outlined function once. A call copies its operands to the arguments of
 * the function, runs the function, and copies the results out. A function with a single call is
 * part of its caller. In the module calls are inline, and each instruction states the call that it
 * belongs to. This pass adds a copy where a value enters or leaves a call; fusions do not reach
 * across copies. After fusing, trm_pass_order_calls makes the readers of an argument wait for all
 * arguments, and the readers of a result for all results. Constants, and values that one stage of a
 * pipeline hands to the next, are not copied. */
#include <string.h>

#include "hlo/marked_calls.h"
#include "passes/edit.h"
#include "passes/pass.h"

typedef struct copier {
  trm_edit edit;
  const trm_scopes *scopes;
  uint32_t count; /* instructions before the pass */
  uint32_t *call; /* by instruction: its call, or TRM_NO_INDEX */
  trm_index *out; /* by instruction: its copy as a result of its call, or TRM_NO_INDEX */
  struct {
    uint32_t call;
    trm_index copy;
  } *in; /* by instruction: its copy as an argument, and the call that has it */
} copier;

static bool is_copied(const trm_instruction *instruction) {
  return instruction->opcode != TRM_OP_CONSTANT && trm_shape_is_array(&instruction->shape);
}

/* Whether the call `inner` is made by the function of the call `outer`. */
static bool is_inside(const copier *c, uint32_t inner, uint32_t outer) {
  if (inner == TRM_NO_INDEX || outer == TRM_NO_INDEX || inner % 2 != outer % 2) return false;
  const char *in = c->scopes->items[inner / 2], *out = c->scopes->items[outer / 2];
  const size_t length = strlen(out);
  return strncmp(in, out, length) == 0 && in[length] == '/';
}

/* Copies `operand` as an argument or a result (`what`) of a call. */
static trm_status add_copy(copier *c, trm_index like, trm_index operand, uint32_t call,
                           const char *what, trm_index *out_copy, trm_error *error) {
  trm_arena *arena = &c->edit.module->arena;
  const char **marks = ARENA_NEW(arena, const char *, 3);
  CHECK_MEMORY(marks, "calls");
  marks[0] = TRM_CALL_COPY;
  marks[1] = trm_arena_format(arena, "%s %u", what, call);
  CHECK_MEMORY(marks[1], "calls");
  const trm_instruction *reader = trm_edit_at(&c->edit, like);
  const trm_instruction prototype = {.opcode = TRM_OP_COPY,
                                     .shape = trm_edit_at(&c->edit, operand)->shape,
                                     .num_operands = 1,
                                     .operands = &operand,
                                     .sharding = reader->sharding,
                                     .frontend_attributes = marks};
  return trm_edit_add(&c->edit, like, prototype, out_copy, error);
}

/* Lets operand k of instruction i pass out of its own call and into the call of i. */
static trm_status redirect(copier *c, trm_index i, uint32_t k, trm_error *error) {
  const trm_index from = trm_edit_at(&c->edit, i)->operands[k];
  const uint32_t to_call = c->call[i], from_call = c->call[from];
  if (to_call == from_call || !is_copied(trm_edit_at(&c->edit, from))) return TRM_OK;
  trm_index value = from;
  if (from_call != TRM_NO_INDEX && !is_inside(c, to_call, from_call)) {
    if (c->out[from] == TRM_NO_INDEX) {
      TRY(add_copy(c, from, from, from_call, "result", &c->out[from], error));
    }
    value = c->out[from];
  }
  if (to_call != TRM_NO_INDEX && !is_inside(c, from_call, to_call)) {
    if (c->in[from].call != to_call) {
      TRY(add_copy(c, i, value, to_call, "argument", &c->in[from].copy, error));
      c->in[from].call = to_call;
    }
    value = c->in[from].copy;
  }
  trm_edit_at(&c->edit, i)->operands[k] = value;
  return TRM_OK;
}

/* The call that an instruction belongs to. In a pipeline the stages are the functions instead. */
static uint32_t call_of(const trm_instruction *instruction, const trm_scopes *scopes,
                        const uint32_t *matches) {
  bool is_gradient;
  const uint32_t scope = trm_scope_of(scopes, TRM_CALL_SCOPE, instruction, &is_gradient);
  if (scope == TRM_NO_INDEX || matches[scope] == TRM_NO_INDEX ||
      trm_instruction_frontend_attribute(instruction, "pipeline_stage") != NULL) {
    return TRM_NO_INDEX;
  }
  return 2 * scope + is_gradient;
}

static trm_status copy_in(trm_module *module, uint32_t computation, const trm_scopes *scopes,
                          const uint32_t *matches, trm_error *error) {
  const uint32_t count = module->computations[computation].num_instructions;
  copier c = {.count = count, .scopes = scopes};
  c.call = trm_allocate((count + 1) * sizeof *c.call);
  c.out = trm_allocate((count + 1) * sizeof *c.out);
  c.in = trm_allocate((count + 1) * sizeof *c.in);
  trm_status status = TRM_OK;
  if (c.call == NULL || c.out == NULL || c.in == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for calls");
  }
  if (status == TRM_OK) status = trm_edit_begin(&c.edit, module, computation, error);
  if (status == TRM_OK) {
    memset(c.out, 0xff, (count + 1) * sizeof *c.out);
    memset(c.in, 0xff, (count + 1) * sizeof *c.in);
    for (trm_index i = 0; i < count; ++i) {
      c.call[i] = call_of(trm_edit_at(&c.edit, i), scopes, matches);
    }
    for (trm_index i = 0; i < count && status == TRM_OK; ++i) {
      const uint32_t operands = trm_edit_at(&c.edit, i)->num_operands;
      for (uint32_t k = 0; k < operands && status == TRM_OK; ++k)
        status = redirect(&c, i, k, error);
    }
    status = trm_edit_end(&c.edit, status, error);
  }
  trm_free(c.call);
  trm_free(c.out);
  trm_free(c.in);
  return status;
}

/* Marks the computations that instructions of calls call: their instructions are inside the
 * call. */
static void mark_inside(const trm_module *module, const trm_scopes *scopes, bool *inside) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      bool is_gradient;
      if (trm_scope_of(scopes, TRM_CALL_SCOPE, instruction, &is_gradient) == TRM_NO_INDEX) continue;
      for (uint32_t k = 0; k < instruction->num_called; ++k) inside[instruction->called[k]] = true;
    }
  }
}

trm_status trm_pass_outlined_calls(trm_module *module, trm_error *error) {
  trm_scopes scopes;
  TRY(trm_scopes_find(module, TRM_CALL_SCOPE, &scopes, error));
  uint32_t *matches = NULL;
  bool *inside = NULL;
  trm_status status = TRM_OK;
  if (scopes.count > 1) {
    inside = trm_allocate_zeroed((size_t)module->num_computations + 1, sizeof *inside);
    if (inside == NULL) status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for calls");
    else status = trm_scopes_match(module, &scopes, TRM_CALL_SCOPE, &matches, error);
  }
  if (status == TRM_OK && matches != NULL) {
    mark_inside(module, &scopes, inside);
    for (uint32_t c = 0; c < module->num_computations && status == TRM_OK; ++c) {
      if (!inside[c]) status = copy_in(module, c, &scopes, matches, error);
    }
  }
  trm_free(matches);
  trm_free(inside);
  VECTOR_FREE(&scopes);
  return status;
}

/* ---- The order ------------------------------------------------------------------------------ */

/* The arguments, or the results, that a copy belongs to: "argument 3" for call 3; else NULL. */
static const char *group_of(const trm_instruction *instruction) {
  if (instruction->opcode != TRM_OP_COPY) return NULL;
  return trm_instruction_frontend_attribute(instruction, TRM_CALL_COPY);
}

typedef struct waits {
  trm_computation *computation;
  trm_arena *arena;
  trm_index *copies; /* the arguments, or the results, of one call */
  uint32_t count;
  trm_index *order;      /* instructions after all that they wait for */
  bool *reads, *follows; /* by instruction: reads one of the copies; depends on a reader */
} waits;

static bool is_operand(const trm_instruction *instruction, trm_index operand) {
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    if (instruction->operands[k] == operand) return true;
  }
  return false;
}

/* Marks what reads the copies, and what depends on that. Earlier groups may wait for instructions
 * with a later index, so the walk needs an order of its own. */
static trm_status mark_readers(waits *w, trm_error *error) {
  const trm_computation *c = w->computation;
  uint32_t count;
  TRY(trm_computation_order(c, NULL, w->order, &count, error));
  for (uint32_t at = 0; at < count; ++at) {
    const trm_index i = w->order[at];
    const trm_instruction *instruction = &c->instructions[i];
    w->reads[i] = w->follows[i] = false;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_index operand = instruction->operands[k];
      for (uint32_t a = 0; a < w->count; ++a) w->reads[i] |= operand == w->copies[a];
      w->follows[i] |= w->follows[operand];
    }
    for (uint32_t k = 0; k < instruction->num_control_predecessors; ++k) {
      w->follows[i] |= w->follows[instruction->control_predecessors[k]];
    }
    w->follows[i] |= w->reads[i];
  }
  return TRM_OK;
}

/* Makes each reader of one of the copies wait for the others, except for copies that depend on a
 * reader. */
static trm_status wait_for_copies(waits *w, trm_error *error) {
  trm_computation *c = w->computation;
  TRY(mark_readers(w, error));
  for (trm_index i = 0; i < c->num_instructions; ++i) {
    if (!w->reads[i]) continue;
    trm_instruction *reader = &c->instructions[i];
    uint32_t used = reader->num_control_predecessors;
    trm_index *control = ARENA_NEW(w->arena, trm_index, (size_t)used + w->count);
    CHECK_MEMORY(control, "calls");
    if (used > 0) memcpy(control, reader->control_predecessors, used * sizeof *control);
    for (uint32_t a = 0; a < w->count; ++a) {
      const trm_index copy = w->copies[a];
      if (!w->follows[copy] && !is_operand(reader, copy)) control[used++] = copy;
    }
    reader->control_predecessors = control;
    reader->num_control_predecessors = used;
  }
  return TRM_OK;
}

static trm_status order_calls(trm_module *module, uint32_t computation, waits *w,
                              trm_error *error) {
  trm_computation *c = w->computation = &module->computations[computation];
  trm_edit edit;
  TRY(trm_edit_begin(&edit, module, computation, error));
  trm_status status = TRM_OK;
  for (trm_index i = 0; i < c->num_instructions && status == TRM_OK; ++i) {
    const char *group = group_of(&c->instructions[i]);
    if (group == NULL) continue;
    w->count = 0;
    for (trm_index j = 0; j < c->num_instructions; ++j) {
      const char *of = group_of(&c->instructions[j]);
      if (of == NULL || strcmp(of, group) != 0) continue;
      if (j < i) break; /* an earlier pass of the loop did this group */
      w->copies[w->count++] = j;
    }
    if (w->count < 2) continue;
    status = wait_for_copies(w, error);
    edit.changed = true;
  }
  return trm_edit_end(&edit, status, error);
}

trm_status trm_pass_order_calls(trm_module *module, trm_error *error) {
  uint32_t most = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    if (module->computations[c].num_instructions > most) {
      most = module->computations[c].num_instructions;
    }
  }
  waits w = {.arena = &module->arena,
             .copies = trm_allocate(((size_t)most + 1) * sizeof(trm_index)),
             .order = trm_allocate(((size_t)most + 1) * sizeof(trm_index)),
             .reads = trm_allocate((size_t)most + 1),
             .follows = trm_allocate((size_t)most + 1)};
  trm_status status = TRM_OK;
  if (w.copies == NULL || w.order == NULL || w.reads == NULL || w.follows == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for calls");
  }
  for (uint32_t c = 0; c < module->num_computations && status == TRM_OK; ++c) {
    status = order_calls(module, c, &w, error);
  }
  trm_free(w.copies);
  trm_free(w.order);
  trm_free(w.reads);
  trm_free(w.follows);
  return status;
}
