/* Owns: library steps, and running them by the engine's kernels. */
#include "poplar/step.h"

#include <string.h>

#include "compile/executable.h"

/* ---- Making --------------------------------------------------------------------------------- */

void trm_poplar_step_free(trm_poplar_step *step) {
  if (step == NULL) return;
  for (uint32_t o = 0; o < step->num_operands; ++o) trm_poplar_tensor_release(step->operands[o]);
  trm_poplar_tensor_release(step->result);
  trm_executable_free(step->executable);
  trm_free(step->operands);
  trm_free(step);
}

trm_status trm_poplar_step_for_cpu(trm_executable **executable, trm_error *error) {
  const trm_accelerator_settings cpu = {.name = ""};
  trm_executable *given = *executable;
  if (trm_executable_accelerator(given) == NULL) return TRM_OK;
  *executable = NULL;
  const trm_status status = trm_executable_for(given, &cpu, executable, error);
  trm_executable_free(given);
  return status;
}

trm_status trm_poplar_step_add(trm_poplar_graph *graph, trm_module *module,
                               const trm_poplar_tensor *const *operands, uint32_t num_operands,
                               trm_poplar_tensor *result, const char *name,
                               trm_poplar_program **sequence, trm_poplar_error *error) {
  trm_poplar_core *core = graph->core;
  trm_error inner;
  trm_poplar_step *step = trm_allocate_zeroed(1, sizeof *step);
  if (step != NULL) {
    step->name = trm_poplar_name(core, name);
    step->operands = trm_allocate_zeroed(num_operands + 1u, sizeof *step->operands);
  }
  if (step == NULL || step->name == NULL || step->operands == NULL) {
    trm_poplar_step_free(step);
    THROW_NO_MEMORY("a library step");
  }
  for (uint32_t o = 0; o < num_operands; ++o) {
    step->operands[o] = (trm_poplar_tensor *)operands[o];
    trm_poplar_tensor_retain(step->operands[o]);
  }
  step->num_operands = num_operands;
  step->result = result;
  trm_poplar_tensor_retain(result);
  const trm_option options[] = {{"casts", "wrap"}};
  trm_status compiled = trm_compile(module, options, 1, &step->executable, &inner);
  if (compiled == TRM_OK) compiled = trm_poplar_step_for_cpu(&step->executable, &inner);
  if (compiled != TRM_OK || !VECTOR_PUSH(&core->steps, step)) {
    trm_poplar_step_free(step);
    if (compiled != TRM_OK) return trm_poplar_pass(error, &inner);
    THROW_NO_MEMORY("a library step");
  }
  return trm_poplar_add_step(sequence, core->steps.count - 1, name, error);
}

/* ---- Running -------------------------------------------------------------------------------- */

struct trm_poplar_runner {
  const trm_poplar_step *step;
  /* A schedule of one kernel is run here; else the engine is. */
  const trm_step *only;
  const void **operands; /* of the kernel */
  uint64_t *versions;
  void *scratch, *persistent;
  uint32_t places; /* bits: the step's operands that the result may overwrite */
  trm_engine *engine;
  void *spare; /* the engine's result where it would overwrite an operand */
};

/* An operand of a step, or behind those a result. */
static const trm_slot *slot_of(const trm_schedule *schedule, const trm_step *step, uint32_t k) {
  return &schedule->slots[schedule->slots[step->slots[k]].parent];
}

/* The kernel of a schedule that has nothing else: its operands are inputs and constants, and its
 * result is the output. */
static const trm_step *only_kernel(const trm_schedule *schedule) {
  if (schedule->num_steps != 1 || schedule->num_feeds + schedule->num_host_calls > 0) return NULL;
  const trm_step *step = &schedule->steps[0];
  if (step->kind != TRM_STEP_KERNEL || step->num_results != 1 || step->limits_halves) return NULL;
  for (uint32_t o = 0; o < step->num_operands; ++o) {
    const trm_slot_kind kind = slot_of(schedule, step, o)->kind;
    if (kind != TRM_SLOT_INPUT && kind != TRM_SLOT_CONSTANT) return NULL;
  }
  return slot_of(schedule, step, step->num_operands)->kind == TRM_SLOT_OUTPUT ? step : NULL;
}

/* The step's operands that the kernel's result may overwrite. */
static uint32_t places_of(const trm_schedule *schedule, const trm_step *step) {
  uint32_t may = 0, not = 0;
  for (uint32_t o = 0; o < step->num_operands; ++o) {
    const trm_slot *slot = slot_of(schedule, step, o);
    if (slot->kind != TRM_SLOT_INPUT || slot->number >= 32) continue;
    if (trm_kernel_may_overwrite(step->kernel, 0, o)) may |= (uint32_t)1 << slot->number;
    else not |= (uint32_t)1 << slot->number;
  }
  return may & ~not ;
}

void trm_poplar_runner_free(trm_poplar_runner *runner) {
  if (runner == NULL) return;
  trm_engine_free(runner->engine);
  trm_free((void *)runner->operands);
  trm_free(runner->versions);
  trm_free(runner->scratch);
  trm_free(runner->persistent);
  trm_free(runner->spare);
  trm_free(runner);
}

static trm_status prepare(trm_poplar_runner *runner, trm_error *error) {
  trm_executable *executable = runner->step->executable;
  const trm_schedule *schedule = executable->schedule;
  runner->spare = trm_allocate_aligned(trm_executable_output(executable, 0)->bytes + 1);
  CHECK_MEMORY(runner->spare, "a library step");
  runner->only = executable->has_floats ? NULL : only_kernel(schedule);
  if (runner->only == NULL) return trm_engine_create(executable, &runner->engine, error);
  const trm_kernel *kernel = runner->only->kernel;
  const uint32_t count = runner->only->num_operands;
  runner->places = places_of(schedule, runner->only);
  runner->operands = trm_allocate_zeroed(count + 1u, sizeof *runner->operands);
  runner->versions = trm_allocate_zeroed(count + 1u, sizeof *runner->versions);
  runner->scratch = trm_allocate_aligned(kernel->scratch_bytes + 1);
  runner->persistent = trm_allocate_aligned(kernel->persistent_bytes + 1);
  if (runner->operands == NULL || runner->versions == NULL || runner->scratch == NULL ||
      runner->persistent == NULL) {
    FAIL_NO_MEMORY("a library step");
  }
  memset(runner->persistent, 0, kernel->persistent_bytes);
  return TRM_OK;
}

trm_status trm_poplar_runner_create(const trm_poplar_step *step, trm_poplar_runner **out_runner,
                                    trm_error *error) {
  trm_poplar_runner *runner = trm_allocate_zeroed(1, sizeof *runner);
  CHECK_MEMORY(runner, "a library step");
  runner->step = step;
  const trm_status status = prepare(runner, error);
  if (status == TRM_OK) *out_runner = runner;
  else trm_poplar_runner_free(runner);
  return status;
}

/* The number of operands that begin at the result, as bits. */
static uint32_t overwritten(const trm_poplar_runner *runner, const void *const *operands,
                            const void *result) {
  uint32_t found = 0;
  for (uint32_t o = 0; o < runner->step->num_operands; ++o) {
    if (operands[o] == result) found |= (uint32_t)1 << (o < 31 ? o : 31);
  }
  return found;
}

trm_status trm_poplar_runner_run(trm_poplar_runner *runner, const void *const *operands,
                                 void *result, trm_error *error) {
  const uint32_t places = overwritten(runner, operands, result);
  void *target = (places & ~runner->places) != 0 ? runner->spare : result;
  if (runner->only == NULL) {
    TRY(trm_engine_run(runner->engine, operands, NULL, &target, error));
  } else {
    const trm_schedule *schedule = runner->step->executable->schedule;
    for (uint32_t o = 0; o < runner->only->num_operands; ++o) {
      const trm_slot *slot = slot_of(schedule, runner->only, o);
      runner->operands[o] = slot->kind == TRM_SLOT_INPUT ? operands[slot->number] : slot->constant;
    }
    const trm_kernel_call call = {.operands = runner->operands,
                                  .versions = runner->versions,
                                  .results = &target,
                                  .scratch = runner->scratch,
                                  .persistent = runner->persistent};
    TRY(runner->only->kernel->run(runner->only->kernel, &call, error));
  }
  if (target != result) {
    memcpy(result, target, trm_executable_output(runner->step->executable, 0)->bytes);
  }
  return TRM_OK;
}
