/* --log_cycle_count. */
#include "cycles.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "attach.h"
#include "tremula/log.h"
#include "tremula/program.h"

static atomic_int is_wanted;

void trm_tf_log_cycles(int32_t wanted) { atomic_store(&is_wanted, wanted); }

void cycles_log(trm_executable *executable, int64_t *cycles) {
  if (!atomic_load(&is_wanted)) return;
  if (*cycles == 0) {
    trm_program *program = NULL;
    trm_error error = {0};
    if (trm_program_create_for_executable(executable, NULL, NULL, &program, &error) != TRM_OK) {
      trm_log(TRM_LOG_WARN, "PROGRAM", "no cycle count: %s", error.message);
      return;
    }
    *cycles = trm_program_get_totals(program).cycles;
    trm_program_free(program);
  }
  char text[64];
  snprintf(text, sizeof text, "Cycle count: %" PRId64, *cycles);
  attach_log(text);
}
