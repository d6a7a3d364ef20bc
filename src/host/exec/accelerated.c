/* Owns: what of a program an accelerator computes, and why the CPU computes the rest. */
#include <string.h>

#include "host/exec/engine.h"
#include "host/exec/residence.h"

const trm_region_kernel *trm_schedule_region(const trm_schedule *schedule) {
  const trm_region_kernel *region = NULL;
  for (uint32_t k = 0; k < schedule->num_kernels && region == NULL; ++k) {
    region = trm_region_kernel_of(schedule->kernels[k]);
  }
  return region;
}

static const char *name_of(const trm_region_kernel *region) {
  return trm_accelerator_name(trm_region_accelerator(region->compiled));
}

const char *trm_step_stays(const trm_schedule *schedule, const trm_step *step) {
  const trm_module *module = schedule->module;
  const trm_computation *c = &module->computations[step->computation];
  const trm_instruction *i = &c->instructions[step->instruction];
  while (trm_instruction_frontend_attribute(i, TRM_STAYS) == NULL && i->num_called > 0 &&
         (i->opcode == TRM_OP_FUSION || i->call_id == TRM_CALL_ROWS)) {
    c = &module->computations[i->called[0]];
    i = &c->instructions[c->root];
  }
  return trm_instruction_frontend_attribute(i, TRM_STAYS);
}

/* The steps on the CPU for one reason, which is that of `first`. */
static void print_reason(const trm_schedule *schedule, uint32_t first, trm_text *text) {
  const char *reason = trm_step_stays(schedule, &schedule->steps[first]);
  uint32_t count = 0;
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const char *other = trm_step_stays(schedule, &schedule->steps[i]);
    if (other == NULL || strcmp(other, reason) != 0) continue;
    if (i < first) return; /* it has been printed */
    ++count;
  }
  const trm_step *step = &schedule->steps[first];
  const trm_computation *c = &schedule->module->computations[step->computation];
  trm_text_format(text, "on the CPU: %u step%s, such as %s: %s\n", count, count == 1 ? "" : "s",
                  c->instructions[step->instruction].name, reason);
}

trm_status trm_engine_print_accelerator(const trm_engine *engine, char **out_text,
                                        trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  const trm_region_kernel *region = trm_schedule_region(schedule);
  uint32_t regions = 0;
  trm_text text = {0};
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    regions += trm_region_kernel_of(schedule->steps[i].kernel) != NULL;
  }
  trm_text_format(&text, "on %s%s: %u region%s\n",
                  region != NULL ? name_of(region) : "an accelerator",
                  region != NULL ? region->precision : "", regions, regions == 1 ? "" : "s");
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    if (trm_step_stays(schedule, &schedule->steps[i]) != NULL) print_reason(schedule, i, &text);
  }
  if (text.failed) {
    trm_text_free(&text);
    FAIL_NO_MEMORY("a list of steps");
  }
  *out_text = text.data;
  return TRM_OK;
}

const char *trm_executable_accelerator(const trm_executable *executable) {
  const trm_region_kernel *region = trm_schedule_region(executable->schedule);
  return region != NULL ? name_of(region) : NULL;
}
