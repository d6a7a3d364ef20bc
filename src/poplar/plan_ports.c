/* Owns: how the inputs and outputs of a run are variables: which of them are the caller's memory.
 *
 * An input that nothing writes is the caller's array. An input that the program writes and that is
 * an output as a whole is the output's array, to which the input is copied unless it lies there
 * already. An output is its variable if the program writes all of the variable before it reads any
 * of it, so that nothing is kept from run to run. Everything else is moved.
 *
 * An output that a library step writes may have the memory of an input that is not read later: then
 * a loop around the operator need not copy its state. */
#include <string.h>

#include "poplar/plan.h"

typedef enum first_use { UNTOUCHED, WRITTEN, OTHER } first_use;

typedef struct usage {
  first_use *first; /* by variable */
  bool *is_written; /* by variable: at all */
  uint64_t *counts; /* by variable: elements that a compute set writes */
  /* By variable, of operations that run once, counted from 1: the last that reads it, and the step
   * that writes it first (0: none). UINT32_MAX: one that may run again reads it. */
  uint32_t *last_read, *first_step;
  uint32_t now;
} usage;

static void read_tensor(usage *u, const trm_poplar_tensor *tensor, uint32_t time) {
  EACH_RUN(run, tensor) {
    if (u->first[run->variable] == UNTOUCHED) u->first[run->variable] = OTHER;
    if (u->last_read[run->variable] < time) u->last_read[run->variable] = time;
  }
}

/* A write of a tensor at once; `whole` : it may count as one of a whole variable. */
static void write_tensor(const trm_poplar_plan *plan, usage *u, const trm_poplar_tensor *tensor,
                         bool whole) {
  EACH_RUN(run, tensor) {
    const uint32_t variable = run->variable;
    u->is_written[variable] = true;
    if (u->first[variable] != UNTOUCHED) continue;
    const bool is_all = whole && tensor->num_runs == 1 &&
                        tensor->elements == plan->graph->core->variables.items[variable].elements;
    u->first[variable] = is_all ? WRITTEN : OTHER;
  }
}

static void use_set(const trm_poplar_plan *plan, usage *u, uint64_t number, bool whole) {
  const trm_poplar_core *core = plan->graph->core;
  const trm_poplar_compute_set *set = &core->compute_sets.items[number];
  for (int pass = 0; pass < 3; ++pass) { /* reads; counts of writes; the verdict on these */
    for (size_t v = 0; v < set->vertices.count; ++v) {
      const trm_poplar_vertex *vertex = &core->vertices.items[set->vertices.items[v]];
      VECTOR_EACH(const trm_poplar_binding, one, vertex->bindings) {
        const uint8_t direction = vertex->codelet->fields[one->field].direction;
        if (one->tensor == NULL) continue;
        if (pass == 0 && (direction & TRM_CODELET_INPUT) != 0) {
          read_tensor(u, one->tensor, whole ? u->now : UINT32_MAX);
        }
        EACH_RUN(run, one->tensor) {
          if (direction == TRM_CODELET_INPUT || pass == 0) continue;
          u->is_written[run->variable] = true;
          if (pass == 1) u->counts[run->variable] += run->length;
          if (pass == 1 || u->first[run->variable] != UNTOUCHED) continue;
          const bool is_all =
              whole && u->counts[run->variable] == core->variables.items[run->variable].elements;
          u->first[run->variable] = is_all ? WRITTEN : OTHER;
        }
      }
    }
  }
}

/* A step reads an element before it writes the result's at the same place. Another view of the
 * result's memory may be read too late, as if by the next operation. */
static void use_step(const trm_poplar_plan *plan, usage *u, const trm_poplar_step *step,
                     bool always) {
  const trm_poplar_tensor *result = step->result;
  for (uint32_t o = 0; o < step->num_operands; ++o) {
    const trm_poplar_tensor *operand = step->operands[o];
    const bool is_same = trm_poplar_whole_variable(plan->graph->core, operand) != NULL &&
                         operand->elements == result->elements;
    read_tensor(u, operand, always ? u->now + !is_same : UINT32_MAX);
  }
  const bool is_first =
      result->num_runs == 1 && u->first[result->runs->variable] == UNTOUCHED && always;
  write_tensor(plan, u, result, always);
  if (is_first) u->first_step[result->runs->variable] = u->now;
}

/* `always`: the program runs once in each run. */
static void use_program(const trm_poplar_plan *plan, usage *u, const trm_poplar_program *program,
                        bool always) {
  if (program == NULL) return;
  const uint32_t time = always ? ++u->now : UINT32_MAX;
  switch (program->kind) {
    case TRM_POPLAR_EXECUTE: use_set(plan, u, program->number, always); return;
    case TRM_POPLAR_COPY:
      read_tensor(u, program->tensors[0], time);
      write_tensor(plan, u, program->tensors[1], always);
      return;
    case TRM_POPLAR_STEP:
      use_step(plan, u, plan->graph->core->steps.items[program->number], always);
      return;
    case TRM_POPLAR_WRITE_UNDEF: return;
    case TRM_POPLAR_SEQUENCE: break;
    default:
      if (program->tensors[0] != NULL && program->kind != TRM_POPLAR_WHILE) {
        read_tensor(u, program->tensors[0], time);
      }
      always = false;
  }
  for (size_t c = 0; c < program->children.count; ++c) {
    use_program(plan, u, program->children.items[c], always);
  }
  if (program->kind == TRM_POPLAR_WHILE) read_tensor(u, program->tensors[0], UINT32_MAX);
}

/* The numbers of the places: SIZE_MAX for what has no memory of its own. */
static trm_status plan_input(trm_poplar_plan *plan, const usage *u, uint32_t i,
                             trm_poplar_error *error) {
  trm_poplar_port *port = &plan->input_ports[i];
  const trm_poplar_tensor *tensor = plan->inputs[i];
  port->variable = UINT32_MAX;
  port->output = -1;
  if (tensor->elements == 0) return TRM_OK;
  const trm_poplar_core *core = plan->graph->core;
  if (trm_poplar_whole_variable(core, tensor) == NULL) { /* laid out by an allocator, as a view */
    const trm_poplar_run from = {plan->num_variables + 2 + i, 0, 0, tensor->elements, 1};
    port->move = (uint32_t)plan->moves.count;
    return trm_poplar_plan_move(plan, &from, 1, tensor->runs, tensor->num_runs,
                                trm_poplar_size(tensor), error);
  }
  port->variable = tensor->runs->variable;
  port->is_direct = !u->is_written[port->variable];
  for (uint32_t o = 0; o < plan->num_outputs && !port->is_direct; ++o) {
    const trm_poplar_tensor *output = plan->outputs[o];
    if (trm_poplar_whole_variable(core, output) != &core->variables.items[port->variable] ||
        output->dtype != tensor->dtype) {
      continue;
    }
    port->output = (int32_t)o;
    port->is_direct = true;
    plan->output_ports[o].is_direct = true;
    plan->output_ports[o].variable = port->variable;
  }
  if (port->is_direct) plan->places[port->variable] = SIZE_MAX;
  return TRM_OK;
}

static trm_status plan_output(trm_poplar_plan *plan, usage *u, uint32_t o,
                              trm_poplar_error *error) {
  trm_poplar_port *port = &plan->output_ports[o];
  const trm_poplar_tensor *tensor = plan->outputs[o];
  if (port->is_direct || tensor->elements == 0) return TRM_OK;
  const uint32_t variable = tensor->runs->variable;
  const trm_poplar_variable *whole = trm_poplar_whole_variable(plan->graph->core, tensor);
  if (whole != NULL && u->first[variable] == WRITTEN && plan->places[variable] != SIZE_MAX &&
      whole->initial == NULL) {
    port->is_direct = true;
    port->variable = variable;
    plan->places[variable] = SIZE_MAX;
    return TRM_OK;
  }
  read_tensor(u, tensor, UINT32_MAX);
  const trm_poplar_run to = {plan->num_variables + 2 + plan->num_inputs + o, 0, 0, tensor->elements,
                             1};
  port->move = (uint32_t)plan->moves.count;
  return trm_poplar_plan_move(plan, tensor->runs, tensor->num_runs, &to, 1, trm_poplar_size(tensor),
                              error);
}

/* The inputs that nothing reads once the output's variable is written. */
static uint32_t inputs_under(const trm_poplar_plan *plan, const usage *u, uint32_t o) {
  const trm_poplar_port *output = &plan->output_ports[o];
  const trm_poplar_tensor *tensor = plan->outputs[o];
  const uint32_t step = output->is_direct ? u->first_step[output->variable] : 0;
  uint32_t found = 0;
  for (uint32_t i = 0; i < plan->num_inputs && i < 32 && step != 0; ++i) {
    const trm_poplar_port *input = &plan->input_ports[i];
    if (input->is_direct && input->output < 0 && plan->inputs[i]->dtype == tensor->dtype &&
        plan->inputs[i]->elements == tensor->elements && u->last_read[input->variable] <= step) {
      found |= (uint32_t)1 << i;
    }
  }
  return found;
}

trm_status trm_poplar_plan_ports(trm_poplar_plan *plan, trm_poplar_error *error) {
  const size_t count = plan->num_variables + 1u;
  plan->input_ports = ARENA_NEW(&plan->arena, trm_poplar_port, plan->num_inputs + 1u);
  plan->output_ports = ARENA_NEW(&plan->arena, trm_poplar_port, plan->num_outputs + 1u);
  usage u = {ARENA_NEW(&plan->arena, first_use, count), ARENA_NEW(&plan->arena, bool, count),
             ARENA_NEW(&plan->arena, uint64_t, count),  ARENA_NEW(&plan->arena, uint32_t, count),
             ARENA_NEW(&plan->arena, uint32_t, count),  0};
  if (plan->input_ports == NULL || plan->output_ports == NULL || u.first == NULL ||
      u.is_written == NULL || u.counts == NULL || u.last_read == NULL || u.first_step == NULL) {
    THROW_NO_MEMORY("a plan");
  }
  use_program(plan, &u, plan->program, true);
  for (uint32_t i = 0; i < plan->num_inputs; ++i) {
    TRY(plan_input(plan, &u, i, error));
  }
  for (uint32_t o = 0; o < plan->num_outputs; ++o) TRY(plan_output(plan, &u, o, error));
  for (uint32_t o = 0; o < plan->num_outputs; ++o) {
    plan->output_ports[o].over = inputs_under(plan, &u, o);
  }
  return TRM_OK;
}
