/* Owns: making plans (plan.h): the operations of a program, and the moves of copies and steps. */
#include "poplar/plan.h"

#include <stdlib.h>
#include <string.h>

#include "compile/executable.h"

/* Whether two tensors may have elements in common. */
static bool may_share(const trm_poplar_tensor *a, const trm_poplar_tensor *b) {
  if (a->num_runs * b->num_runs > 4096) return true;
  EACH_RUN(x, a) {
    EACH_RUN(y, b) {
      if (x->variable == y->variable) return true;
    }
  }
  return false;
}

static trm_poplar_run buffer_run(trm_poplar_plan *plan, const trm_poplar_tensor *tensor) {
  const int64_t offset = trm_poplar_plan_buffer(plan, trm_poplar_bytes(tensor));
  const int64_t size = (int64_t)trm_poplar_size(tensor);
  return (trm_poplar_run){trm_poplar_buffers(plan), 0, offset / size, tensor->elements, 1};
}

static trm_poplar_place place_of(const trm_poplar_run *run, const trm_poplar_tensor *tensor) {
  return (trm_poplar_place){run->variable, run->offset * (int64_t)trm_poplar_size(tensor)};
}

/* ---- Operations ----------------------------------------------------------------------------- */

static trm_status add(trm_poplar_plan *plan, const trm_poplar_program *program, size_t number,
                      trm_poplar_error *error) {
  const trm_poplar_operation one = {.kind = program->kind,
                                    .program = program,
                                    .number = (uint32_t)number,
                                    .next = (uint32_t)plan->operations.count + 1};
  if (plan->operations.count >= UINT32_MAX - 1 || !VECTOR_PUSH(&plan->operations, one)) {
    THROW_NO_MEMORY("a program");
  }
  return TRM_OK;
}

/* The place of a tensor's elements side by side; else of a buffer, to which a move takes them that
 * is added before. */
static trm_status gathered(trm_poplar_plan *plan, const trm_poplar_tensor *tensor,
                           trm_poplar_place *out_place, trm_poplar_error *error) {
  *out_place = (trm_poplar_place){trm_poplar_buffers(plan), 0};
  if (tensor->elements == 0) return TRM_OK;
  if (trm_poplar_tensor_is_contiguous(tensor)) {
    *out_place = place_of(tensor->runs, tensor);
    return TRM_OK;
  }
  const trm_poplar_run buffer = buffer_run(plan, tensor);
  *out_place = place_of(&buffer, tensor);
  return trm_poplar_plan_move(plan, tensor->runs, tensor->num_runs, &buffer, 1,
                              trm_poplar_size(tensor), error);
}

/* A copy: one move, or two by a buffer where source and destination may overlap. */
static trm_status plan_copy(trm_poplar_plan *plan, const trm_poplar_program *program,
                            trm_poplar_error *error) {
  const trm_poplar_tensor *from = program->tensors[0], *to = program->tensors[1];
  const size_t size = trm_poplar_size(from);
  const trm_poplar_run *runs = from->runs;
  trm_poplar_run buffer;
  uint64_t count = from->num_runs;
  if (from->elements == 0) return TRM_OK;
  if (may_share(from, to)) {
    buffer = buffer_run(plan, from);
    TRY(trm_poplar_plan_move(plan, runs, count, &buffer, 1, size, error));
    TRY(add(plan, program, plan->moves.count - 1, error));
    runs = &buffer;
    count = 1;
  }
  TRY(trm_poplar_plan_move(plan, runs, count, to->runs, to->num_runs, size, error));
  return add(plan, program, plan->moves.count - 1, error);
}

/* Whether the result can be written where it lies: no operand has a part of it only. */
static bool writes_in_place(const trm_poplar_step *step) {
  if (!trm_poplar_tensor_is_contiguous(step->result)) return false;
  for (uint32_t o = 0; o < step->num_operands; ++o) {
    const trm_poplar_tensor *operand = step->operands[o];
    if (!trm_poplar_tensor_is_contiguous(operand) || !may_share(operand, step->result)) continue;
    if (operand->runs->offset != step->result->runs->offset ||
        operand->elements != step->result->elements) {
      return false;
    }
  }
  return true;
}

static trm_status plan_step(trm_poplar_plan *plan, const trm_poplar_program *program,
                            trm_poplar_error *error) {
  const trm_poplar_step *step = plan->graph->core->steps.items[program->number];
  const trm_poplar_tensor *result = step->result;
  trm_poplar_step_plan made = {.step = (uint32_t)program->number,
                               .first_in = (uint32_t)plan->moves.count,
                               .has_out = !writes_in_place(step)};
  if (result->elements == 0) return TRM_OK;
  made.operands = ARENA_NEW(&plan->arena, trm_poplar_place, step->num_operands);
  if (made.operands == NULL) THROW_NO_MEMORY("a library step");
  for (uint32_t o = 0; o < step->num_operands; ++o) {
    TRY(gathered(plan, step->operands[o], &made.operands[o], error));
  }
  made.out = (uint32_t)plan->moves.count;
  made.num_in = made.out - made.first_in;
  made.result = place_of(result->runs, result);
  if (made.has_out) {
    const trm_poplar_run buffer = buffer_run(plan, result);
    made.result = place_of(&buffer, result);
    TRY(trm_poplar_plan_move(plan, &buffer, 1, result->runs, result->num_runs,
                             trm_poplar_size(result), error));
  }
  if (!VECTOR_PUSH(&plan->steps, made)) THROW_NO_MEMORY("a library step");
  return add(plan, program, plan->steps.count - 1, error);
}

static trm_status plan_program(trm_poplar_plan *plan, const trm_poplar_program *program,
                               uint32_t depth, trm_poplar_error *error);

/* A program with children, after its predicate if it has one. The predicate of a loop is read each
 * time, so it is not gathered: it is one element. */
static trm_status plan_control(trm_poplar_plan *plan, const trm_poplar_program *program,
                               uint32_t depth, trm_poplar_error *error) {
  const size_t number = plan->operations.count, count = program->children.count;
  TRY(add(plan, program, 0, error));
  uint32_t *ends = ARENA_NEW(&plan->arena, uint32_t, count);
  if (ends == NULL) THROW_NO_MEMORY("a program");
  for (size_t c = 0; c < count; ++c) {
    if (program->children.items[c] != NULL) {
      TRY(plan_program(plan, program->children.items[c], depth + 1, error));
    }
    ends[c] = (uint32_t)plan->operations.count;
  }
  trm_poplar_operation *operation = &plan->operations.items[number];
  operation->num_parts = (uint32_t)count;
  operation->ends = ends;
  operation->next = (uint32_t)plan->operations.count;
  const trm_poplar_tensor *predicate = program->tensors[0];
  if (predicate != NULL) operation->place = place_of(predicate->runs, predicate);
  return TRM_OK;
}

/* What needs the place of a tensor's elements side by side. */
static trm_status plan_print(trm_poplar_plan *plan, const trm_poplar_program *program,
                             trm_poplar_error *error) {
  const size_t move = plan->moves.count;
  trm_poplar_place place;
  TRY(gathered(plan, program->tensors[0], &place, error));
  TRY(add(plan, program, plan->moves.count > move ? move : UINT32_MAX, error));
  plan->operations.items[plan->operations.count - 1].place = place;
  return TRM_OK;
}

static trm_status plan_program(trm_poplar_plan *plan, const trm_poplar_program *program,
                               uint32_t depth, trm_poplar_error *error) {
  if (depth > 256) THROW_POPLAR("programs are nested more than 256 deep");
  switch (program->kind) {
    case TRM_POPLAR_SEQUENCE:
      VECTOR_EACH(trm_poplar_program *const, child, program->children) {
        if (*child != NULL) TRY(plan_program(plan, *child, depth + 1, error));
      }
      return TRM_OK;
    case TRM_POPLAR_EXECUTE:
      TRY(trm_poplar_plan_set(plan, (uint32_t)program->number, error));
      return add(plan, program, program->number, error);
    case TRM_POPLAR_COPY: return plan_copy(plan, program, error);
    case TRM_POPLAR_STEP: return plan_step(plan, program, error);
    case TRM_POPLAR_HOST:
    case TRM_POPLAR_PRINT: return plan_print(plan, program, error);
    case TRM_POPLAR_WRITE_UNDEF: return TRM_OK;
    default: return plan_control(plan, program, depth, error);
  }
}

/* ---- Plans ---------------------------------------------------------------------------------- */

static int compare_patches(const void *left, const void *right) {
  const trm_poplar_patch *a = left, *b = right;
  if (a->base != b->base) return a->base < b->base ? -1 : 1;
  return (a->place > b->place) - (a->place < b->place);
}

static trm_status sort_patches(trm_poplar_plan *plan, trm_poplar_error *error) {
  const uint32_t bases = plan->num_variables + 2;
  plan->first_patch = ARENA_NEW(&plan->arena, size_t, bases + 1u);
  if (plan->first_patch == NULL) THROW_NO_MEMORY("a plan");
  const size_t count = plan->patches.count;
  if (count > 0) qsort(plan->patches.items, count, sizeof *plan->patches.items, compare_patches);
  size_t at = 0;
  for (uint32_t b = 0; b <= bases; ++b) {
    while (at < count && plan->patches.items[at].base < b) ++at;
    plan->first_patch[b] = at;
  }
  return TRM_OK;
}

/* Gives variables of their own memory their places, and the block its size. */
static void place_variables(trm_poplar_plan *plan) {
  const trm_poplar_core *core = plan->graph->core;
  plan->buffers_begin = (plan->image_begin + plan->image.count + 63) & ~(size_t)63;
  size_t at = plan->buffers_begin + plan->buffer_bytes;
  for (uint32_t v = 0; v < plan->num_variables; ++v) {
    const trm_poplar_variable *variable = &core->variables.items[v];
    if (plan->places[v] == SIZE_MAX || variable->is_constant) {
      plan->places[v] = SIZE_MAX;
      continue;
    }
    plan->places[v] = at;
    const size_t bytes = (size_t)variable->elements * trm_dtype_size(variable->dtype);
    at += (bytes + 63) & ~(size_t)63;
  }
  plan->bytes = at + 64;
}

static trm_status make(trm_poplar_plan *plan, trm_poplar_error *error) {
  const trm_poplar_core *core = plan->graph->core;
  plan->num_variables = (uint32_t)core->variables.count;
  const size_t bases = (size_t)plan->num_variables + 2 + plan->num_inputs + plan->num_outputs;
  plan->image_begin = (TRM_POPLAR_BASES_BEGIN + bases * sizeof(void *) + 63) & ~(size_t)63;
  plan->sets = ARENA_NEW(&plan->arena, trm_poplar_set, core->compute_sets.count + 1);
  plan->places = ARENA_NEW(&plan->arena, size_t, plan->num_variables + 1u);
  plan->pools = ARENA_NEW(&plan->arena, trm_poplar_pool, core->steps.count + 1);
  if (plan->sets == NULL || plan->places == NULL || plan->pools == NULL) THROW_NO_MEMORY("a plan");
  if (plan->program != NULL) TRY(plan_program(plan, plan->program, 0, error));
  TRY(trm_poplar_plan_ports(plan, error));
  TRY(sort_patches(plan, error));
  place_variables(plan);
  return TRM_OK;
}

trm_status trm_poplar_plan_create(trm_poplar_graph *graph, trm_poplar_program *program,
                                  trm_poplar_tensor *const *inputs, uint32_t num_inputs,
                                  trm_poplar_tensor *const *outputs, uint32_t num_outputs,
                                  trm_poplar_plan **out_plan, trm_poplar_error *error) {
  trm_poplar_plan *plan = trm_allocate_zeroed(1, sizeof *plan);
  if (plan == NULL) THROW_NO_MEMORY("a plan");
  plan->graph = graph;
  plan->program = program;
  trm_poplar_graph_retain(graph);
  trm_poplar_program_retain(program);
  pthread_mutex_init(&plan->lock, NULL);
  plan->inputs = ARENA_NEW(&plan->arena, trm_poplar_tensor *, num_inputs + num_outputs + 1u);
  for (uint32_t i = 0; plan->inputs != NULL && i < num_inputs + num_outputs; ++i) {
    plan->inputs[i] = i < num_inputs ? inputs[i] : outputs[i - num_inputs];
    trm_poplar_tensor_retain(plan->inputs[i]);
  }
  plan->outputs = plan->inputs + num_inputs;
  plan->num_inputs = num_inputs;
  plan->num_outputs = num_outputs;
  const trm_status status = plan->inputs == NULL ? NO_MEMORY("a plan") : make(plan, error);
  if (status == TRM_OK) *out_plan = plan;
  else trm_poplar_plan_free(plan);
  return status;
}

void trm_poplar_plan_free(trm_poplar_plan *plan) {
  if (plan == NULL) return;
  for (size_t s = 0; plan->pools != NULL && s < plan->graph->core->steps.count; ++s) {
    for (size_t r = 0; r < plan->pools[s].free.count; ++r) {
      trm_poplar_runner_free(plan->pools[s].free.items[r]);
    }
    VECTOR_FREE(&plan->pools[s].free);
  }
  for (uint32_t i = 0; plan->inputs != NULL && i < plan->num_inputs + plan->num_outputs; ++i) {
    trm_poplar_tensor_release(plan->inputs[i]);
  }
  VECTOR_FREE(&plan->operations);
  VECTOR_FREE(&plan->moves);
  VECTOR_FREE(&plan->segments);
  VECTOR_FREE(&plan->calls);
  VECTOR_FREE(&plan->patches);
  VECTOR_FREE(&plan->steps);
  VECTOR_FREE(&plan->image);
  trm_poplar_program_release(plan->program);
  trm_poplar_graph_release(plan->graph);
  pthread_mutex_destroy(&plan->lock);
  trm_arena_free(&plan->arena);
  trm_free(plan);
}
