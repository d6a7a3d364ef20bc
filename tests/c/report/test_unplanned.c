/* An estimate that fails does not stop a program: the log tells what to report. */
#include <unistd.h>

#include "../run.h"
#include "compile/executable.h"
#include "ipu/program/program.h"
#include "tremula/report.h"

static const char text[] =
    "HloModule m\nENTRY e { x = f32[4,4] parameter(0)  y = f32[4,4] tanh(x)\n"
    "  u = f32[4,4] negate(x)  v = f32[4,4] abs(u)\n"
    "  ROOT z = f32[4,4] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n";
static char log_path[] = "/tmp/tremula-unplanned-XXXXXX";

/* An executable of which the estimate has a module with a cycle: tanh waits for the root. */
static trm_executable *compile_damaged(void) {
  trm_executable *executable = test_compile(text, &test_modes[0]);
  trm_module *module = executable->shared;
  trm_computation *entry = &module->computations[module->entry];
  trm_instruction *tanh = &entry->instructions[entry->instructions[entry->root].operands[0]];
  assert_int_equal(tanh->opcode, TRM_OP_TANH);
  tanh->control_predecessors = ARENA_NEW(&module->arena, trm_index, 1);
  assert_non_null(tanh->control_predecessors);
  tanh->control_predecessors[0] = entry->root;
  tanh->num_control_predecessors = 1;
  return executable;
}

static void test_a_fault_of_the_estimate_is_logged(void **state) {
  (void)state;
  trm_error error;
  trm_report *report = NULL;
  trm_executable *executable = compile_damaged();
  if (trm_report_create(executable, NULL, &report, &error) != TRM_OK) fail_msg("%s", error.message);
  assert_null(report);
  trm_program *program = NULL; /* who asks for the estimate gets the failure */
  assert_int_equal(trm_program_create_for_executable(executable, NULL, NULL, &program, &error),
                   TRM_UNKNOWN);
  trm_executable_free(executable);
  char line[4096] = "";
  FILE *log = fopen(log_path, "r");
  assert_non_null(log);
  assert_true(fread(line, 1, sizeof line - 1, log) > 0);
  fclose(log);
  assert_non_null(strstr(line, "The program is not planned for an IPU"));
  assert_non_null(strstr(line, "form a cycle"));
  assert_non_null(strstr(line, "Please report this line with the module"));
}

/* A wrong option stops the program, with or without other faults. */
static void test_a_wrong_option_is_an_error(void **state) {
  (void)state;
  trm_error error;
  trm_report *report = NULL;
  trm_executable *executable = compile_damaged();
  executable->options.estimate.matmul_memory_proportion = 2;
  assert_int_equal(trm_report_create(executable, NULL, &report, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "availableMemoryProportion of matmuls"));
  trm_executable_free(executable);
}

static int begin_log(void **state) {
  (void)state;
  const int file = mkstemp(log_path);
  return file < 0 || close(file) != 0 || setenv("POPLAR_LOG_DEST", log_path, 1) != 0;
}

static int remove_log(void **state) {
  (void)state;
  return unlink(log_path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_fault_of_the_estimate_is_logged),
                                     cmocka_unit_test(test_a_wrong_option_is_an_error)};
  return cmocka_run_group_tests_name("unplanned", tests, begin_log, remove_log);
}
