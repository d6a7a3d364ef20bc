/* Sums agree, for every module of the tests' data, whole and with options; every opcode costs. */
#include <dirent.h>

#include "ipu/program/draft.h"
#include "program_case.h"

/* Some files hold what readers refuse (asynchronous collectives). */
static bool read_file(const char *path, trm_module **out_module) {
  trm_error error;
  const trm_status status = trm_module_read_file(path, out_module, &error);
  if (status != TRM_OK && status != TRM_UNIMPLEMENTED) fail_msg("%s", error.message);
  return status == TRM_OK;
}

static void check_file(const char *path, const char *machine, const trm_program_options *options) {
  trm_error error;
  trm_module *module = NULL;
  trm_target *target = NULL;
  trm_program *program = NULL;
  if (trm_target_load(machine, &target, &error) != TRM_OK) fail_msg("%s", error.message);
  if (!read_file(path, &module)) {
    trm_target_release(target);
    return;
  }
  /* As written: every opcode of the file is planned, not what the passes leave of it. */
  for (int optimised = 0; optimised < 2; ++optimised) {
    if (trm_program_create(module, optimised != 0, target, options, &program, &error) != TRM_OK) {
      if (optimised == 0) continue; /* the passes refuse some (asynchronous calls) */
      fail_msg("%s: %s", path, error.message);
    }
    check_sums(program);
    trm_program_free(program);
  }
  trm_module_free(module);
  trm_target_release(target);
}

static void test_files(void **state) {
  (void)state;
  trm_program_options options[2] = {trm_program_default_options(), trm_program_default_options()};
  options[1].compile_ipu_code = options[1].instrument = true;
  options[1].replicas = 4;
  options[1].io_tiles = 32;
  options[1].outlining = false;
  DIR *folder = opendir(TREMULA_TEST_DATA "/hlo");
  assert_non_null(folder);
  int files = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (strstr(entry->d_name, ".hlo") == NULL) continue;
    char path[1024];
    snprintf(path, sizeof path, TREMULA_TEST_DATA "/hlo/%s", entry->d_name);
    check_file(path, "mk2", &options[0]);
    check_file(path, "mk1", &options[1]);
    ++files;
  }
  closedir(folder);
  assert_true(files > 5);
}

/* Whatever a family's function is asked, it gives cycles: none is free by accident. */
static void test_no_family_is_silently_free(void **state) {
  (void)state;
  DIR *folder = opendir(TREMULA_TEST_DATA "/hlo");
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (strstr(entry->d_name, ".hlo") == NULL) continue;
    char path[1024];
    snprintf(path, sizeof path, TREMULA_TEST_DATA "/hlo/%s", entry->d_name);
    trm_error error;
    trm_module *module = NULL;
    trm_target *target = NULL;
    trm_program *p = NULL;
    if (!read_file(path, &module)) continue;
    assert_int_equal(trm_target_load(NULL, &target, &error), TRM_OK);
    assert_int_equal(trm_program_create(module, true, target, NULL, &p, &error), TRM_OK);
    bool *costs = calloc(p->num_sources + 1, sizeof *costs);
    assert_non_null(costs);
    for (uint32_t s = 0; s < p->num_steps; ++s) {
      if (p->steps[s].source != TRM_NO_INDEX && p->steps[s].cycles > 0) {
        costs[p->steps[s].source] = true;
      }
    }
    for (uint32_t s = 0; s < p->num_sources; ++s) {
      const trm_program_source *source = &p->sources[s];
      const trm_computation *computation = &module->computations[source->computation];
      const trm_instruction *instruction = &computation->instructions[source->instruction];
      int64_t elements = 0;
      for (int32_t l = 0; l < trm_shape_num_leaves(&instruction->shape); ++l) {
        elements += trm_shape_count(trm_shape_leaf(&instruction->shape, l));
      }
      if (elements > 0 && !costs[s] &&
          trm_program_cost_class(module, computation, instruction) == TRM_COST_FAMILY) {
        fail_msg("%s: %s of %s costs nothing", entry->d_name, source->opcode, source->hlo_name);
      }
    }
    free(costs);
    trm_program_free(p);
    trm_module_free(module);
    trm_target_release(target);
  }
  closedir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_no_family_is_silently_free),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
