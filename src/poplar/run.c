/* Owns: running plans. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "host/ops/threads.h"
#include "poplar/plan.h"

/* The cheap operations that calling a vertex counts as, and those for each byte that it touches,
 * for the choice of threads: what a vertex computes is not known. */
enum { CALL_WORK = 2048, BYTE_WORK = 4 };

typedef struct run {
  trm_poplar_plan *plan;
  const trm_kernel_call *call;
  char *block;
  char **bases;
} run;

/* ---- Memory --------------------------------------------------------------------------------- */

static void apply_patches(const run *r, uint32_t base) {
  const trm_poplar_plan *plan = r->plan;
  for (size_t p = plan->first_patch[base]; p < plan->first_patch[base + 1]; ++p) {
    const trm_poplar_patch *patch = &plan->patches.items[p];
    char *address = r->bases[base] + patch->offset;
    memcpy(r->block + patch->place, &address, sizeof address);
  }
}

static void set_base(const run *r, uint32_t base, const void *address) {
  if (r->bases[base] == address) return;
  r->bases[base] = (char *)address;
  if (base < r->plan->num_variables + 2) apply_patches(r, base);
}

/* Fills a block that is zero. */
static void fill_block(const run *r) {
  const trm_poplar_plan *plan = r->plan;
  const trm_poplar_core *core = plan->graph->core;
  if (plan->image.count > 0) {
    memcpy(r->block + plan->image_begin, plan->image.items, plan->image.count);
  }
  for (uint32_t v = 0; v < plan->num_variables; ++v) {
    const trm_poplar_variable *variable = &core->variables.items[v];
    if (variable->is_constant) {
      set_base(r, v, variable->initial);
    } else if (plan->places[v] != SIZE_MAX) {
      set_base(r, v, r->block + plan->places[v]);
      const size_t size = trm_dtype_size(variable->dtype);
      if (variable->initial != NULL) {
        memcpy(r->bases[v], variable->initial, (size_t)variable->elements * size);
      }
    }
  }
  set_base(r, trm_poplar_block(plan), r->block);
  set_base(r, trm_poplar_buffers(plan), r->block + plan->buffers_begin);
}

static void take_inputs(const run *r, const void *const *inputs, void *const *outputs) {
  const trm_poplar_plan *plan = r->plan;
  for (uint32_t i = 0; i < plan->num_inputs; ++i) {
    const trm_poplar_port *port = &plan->input_ports[i];
    const size_t bytes = trm_poplar_bytes(plan->inputs[i]);
    if (bytes == 0) continue;
    if (port->variable == UINT32_MAX) {
      set_base(r, plan->num_variables + 2 + i, inputs[i]);
      trm_poplar_move_elements(plan, r->bases, port->move);
    } else if (!port->is_direct) {
      memcpy(r->bases[port->variable], inputs[i], bytes);
    } else if (port->output < 0) {
      set_base(r, port->variable, inputs[i]);
    } else {
      void *place = outputs[port->output];
      if (place != inputs[i]) memcpy(place, inputs[i], bytes);
      set_base(r, port->variable, place);
    }
  }
  for (uint32_t o = 0; o < plan->num_outputs; ++o) {
    const trm_poplar_port *port = &plan->output_ports[o];
    if (trm_poplar_bytes(plan->outputs[o]) == 0) continue;
    const uint32_t base =
        port->is_direct ? port->variable : plan->num_variables + 2 + plan->num_inputs + o;
    set_base(r, base, outputs[o]);
  }
}

static void give_outputs(const run *r) {
  const trm_poplar_plan *plan = r->plan;
  for (uint32_t o = 0; o < plan->num_outputs; ++o) {
    const trm_poplar_port *port = &plan->output_ports[o];
    if (trm_poplar_bytes(plan->outputs[o]) > 0 && !port->is_direct) {
      trm_poplar_move_elements(plan, r->bases, port->move);
    }
  }
}

/* ---- Compute sets --------------------------------------------------------------------------- */

/* A part of the calls, counted from the set's first, and what the first vertex that threw said. */
typedef struct set_work {
  const run *r;
  int64_t first;
  atomic_bool *has_thrown;
  trm_error *thrown;
} set_work;

static void note_thrown(const set_work *w, const trm_poplar_call *call, const char *what) {
  if (atomic_exchange(w->has_thrown, true)) return;
  trm_fail(w->thrown, TRM_UNKNOWN, "the vertex %s threw: %s", call->name, what);
}

static void run_vertices(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const set_work *w = context;
  const run *r = w->r;
  const trm_poplar_plan *plan = r->plan;
  for (int64_t c = w->first + begin; c < w->first + end; ++c) {
    const trm_poplar_call *call = &plan->calls.items[c];
    for (uint32_t m = 0; m < call->num_in; ++m) {
      trm_poplar_move_elements(plan, r->bases, call->first_in + m);
    }
    for (uint32_t worker = 0; worker < call->workers; ++worker) {
      const char *what = call->run(r->block + call->state, worker);
      if (what != NULL) {
        note_thrown(w, call, what);
        return;
      }
    }
    for (uint32_t m = 0; m < call->num_out; ++m) {
      trm_poplar_move_elements(plan, r->bases, call->first_out + m);
    }
  }
}

static trm_status execute(const run *r, uint32_t number, trm_error *error) {
  const trm_poplar_set *set = &r->plan->sets[number];
  atomic_bool has_thrown = false;
  const set_work w = {r, (int64_t)set->first, &has_thrown, error};
  const size_t work = (size_t)set->count * CALL_WORK + (size_t)set->bytes * BYTE_WORK;
  trm_parallel_ranges(set->count > 1 ? trm_threads_for(work) : 1, set->count, run_vertices, &w);
  return has_thrown ? TRM_UNKNOWN : TRM_OK;
}

/* ---- Library steps -------------------------------------------------------------------------- */

static trm_status take_runner(trm_poplar_plan *plan, uint32_t step, trm_poplar_runner **out_runner,
                              trm_error *error) {
  trm_poplar_pool *pool = &plan->pools[step];
  pthread_mutex_lock(&plan->lock);
  trm_poplar_runner *runner = pool->free.count > 0 ? pool->free.items[--pool->free.count] : NULL;
  pthread_mutex_unlock(&plan->lock);
  if (runner == NULL) {
    return trm_poplar_runner_create(plan->graph->core->steps.items[step], out_runner, error);
  }
  *out_runner = runner;
  return TRM_OK;
}

static void give_runner(trm_poplar_plan *plan, uint32_t step, trm_poplar_runner *runner) {
  pthread_mutex_lock(&plan->lock);
  const bool is_kept = VECTOR_PUSH(&plan->pools[step].free, runner);
  pthread_mutex_unlock(&plan->lock);
  if (!is_kept) trm_poplar_runner_free(runner);
}

enum { FEW_OPERANDS = 16 };

static trm_status run_step(const run *r, uint32_t number, trm_error *error) {
  trm_poplar_plan *plan = r->plan;
  const trm_poplar_step_plan *made = &plan->steps.items[number];
  const uint32_t count = plan->graph->core->steps.items[made->step]->num_operands;
  const void *few[FEW_OPERANDS], **operands = few;
  if (count > FEW_OPERANDS) operands = trm_allocate_zeroed(count, sizeof *operands);
  CHECK_MEMORY(operands, "a library step");
  for (uint32_t m = 0; m < made->num_in; ++m) {
    trm_poplar_move_elements(plan, r->bases, made->first_in + m);
  }
  for (uint32_t o = 0; o < count; ++o) {
    operands[o] = r->bases[made->operands[o].base] + made->operands[o].offset;
  }
  trm_poplar_runner *runner;
  trm_status status = take_runner(plan, made->step, &runner, error);
  if (status == TRM_OK) {
    void *result = r->bases[made->result.base] + made->result.offset;
    status = trm_poplar_runner_run(runner, operands, result, error);
    give_runner(plan, made->step, runner);
  }
  if (status == TRM_OK && made->has_out) trm_poplar_move_elements(plan, r->bases, made->out);
  if (operands != few) trm_free((void *)operands);
  return status;
}

/* ---- Programs ------------------------------------------------------------------------------- */

static void print_level(const trm_poplar_tensor *tensor, const char *data, uint32_t dim,
                        uint64_t *element) {
  char text[64];
  if (dim == tensor->rank) {
    const size_t size = trm_poplar_size(tensor);
    fputs(trm_element_text(tensor->dtype, data + *element * size, text, sizeof text), stderr);
    ++*element;
    return;
  }
  fputc('[', stderr);
  for (uint64_t i = 0; i < tensor->dims[dim]; ++i) {
    if (i > 0) fputs(dim + 1 == tensor->rank ? " " : "\n ", stderr);
    print_level(tensor, data, dim + 1, element);
  }
  fputc(']', stderr);
}

static void print(const run *r, const trm_poplar_operation *operation) {
  const trm_poplar_program *program = operation->program;
  if (operation->number != UINT32_MAX) {
    trm_poplar_move_elements(r->plan, r->bases, operation->number);
  }
  uint64_t element = 0;
  flockfile(stderr);
  if (program->text[0] != '\0') fprintf(stderr, "%s: ", program->text);
  print_level(program->tensors[0], r->bases[operation->place.base] + operation->place.offset, 0,
              &element);
  fputc('\n', stderr);
  funlockfile(stderr);
}

static trm_status serve_host(const run *r, const trm_poplar_operation *operation,
                             trm_error *error) {
  if (r->plan->serve == NULL) FAIL(FAILED_PRECONDITION, "a stream of an operator has no host");
  return r->plan->serve(r->plan, operation->program->number,
                        r->bases[operation->place.base] + operation->place.offset, error);
}

static int64_t read_predicate(const run *r, const trm_poplar_operation *operation) {
  const char *at = r->bases[operation->place.base] + operation->place.offset;
  int32_t value;
  if (operation->program->tensors[0]->dtype == TRM_PRED) return *at != 0;
  memcpy(&value, at, sizeof value);
  return operation->program->tensors[0]->dtype == TRM_U32 ? (int64_t)(uint32_t)value : value;
}

static trm_status run_range(const run *r, uint32_t begin, uint32_t end, trm_error *error);

/* Part p of an operation. */
static trm_status run_part_of(const run *r, uint32_t number, uint32_t p, trm_error *error) {
  const trm_poplar_operation *operation = &r->plan->operations.items[number];
  return run_range(r, p == 0 ? number + 1 : operation->ends[p - 1], operation->ends[p], error);
}

static trm_status check_stopped(const run *r, trm_error *error) {
  if (r->call->is_stopped != NULL && r->call->is_stopped(r->call->engine)) {
    FAIL(CANCELLED, "the run was cancelled");
  }
  return TRM_OK;
}

static trm_status run_control(const run *r, uint32_t number, trm_error *error) {
  const trm_poplar_operation *operation = &r->plan->operations.items[number];
  const trm_poplar_program *program = operation->program;
  uint32_t chosen = 0;
  switch (program->kind) {
    case TRM_POPLAR_IF:
      return run_part_of(r, number, read_predicate(r, operation) != 0 ? 0 : 1, error);
    case TRM_POPLAR_SWITCH: {
      const int64_t value = read_predicate(r, operation);
      while (chosen + 1 < operation->num_parts && program->cases.items[chosen] != value) ++chosen;
      return run_part_of(r, number, chosen, error);
    }
    case TRM_POPLAR_REPEAT:
      for (uint64_t i = 0; i < program->number; ++i) {
        TRY(check_stopped(r, error));
        TRY(run_part_of(r, number, 0, error));
      }
      return TRM_OK;
    default: /* WHILE */
      TRY(run_part_of(r, number, 0, error));
      while ((read_predicate(r, operation) != 0) == (program->number != 0)) {
        TRY(check_stopped(r, error));
        TRY(run_part_of(r, number, 1, error));
        TRY(run_part_of(r, number, 0, error));
      }
      return TRM_OK;
  }
}

static trm_status run_range(const run *r, uint32_t begin, uint32_t end, trm_error *error) {
  for (uint32_t o = begin; o < end; o = r->plan->operations.items[o].next) {
    const trm_poplar_operation *operation = &r->plan->operations.items[o];
    switch (operation->kind) {
      case TRM_POPLAR_EXECUTE: TRY(execute(r, operation->number, error)); break;
      case TRM_POPLAR_COPY: trm_poplar_move_elements(r->plan, r->bases, operation->number); break;
      case TRM_POPLAR_STEP: TRY(run_step(r, operation->number, error)); break;
      case TRM_POPLAR_PRINT: print(r, operation); break;
      case TRM_POPLAR_HOST: TRY(serve_host(r, operation, error)); break;
      default: TRY(run_control(r, o, error));
    }
  }
  return TRM_OK;
}

trm_status trm_poplar_run_plan(trm_poplar_plan *plan, const trm_kernel_call *call,
                               trm_error *error) {
  uint64_t *is_filled = call->persistent;
  char *block = call->persistent;
  const run r = {plan, call, block, (char **)(void *)(block + TRM_POPLAR_BASES_BEGIN)};
  if (*is_filled == 0) fill_block(&r);
  *is_filled = 1;
  take_inputs(&r, call->operands, call->results);
  TRY(run_range(&r, 0, (uint32_t)plan->operations.count, error));
  give_outputs(&r);
  return TRM_OK;
}
