/* Collectives between IPU-Link domains: rings in each domain, and one between them over GW-Links.
 * Numbers are worked out by hand for domains of two of mk2's IPUs: 54.4e9 bytes a second inside,
 * 3.125e9 between, 1.33e9 cycles a second. */
#include <unistd.h>

#include "program_case.h"

#define SUM "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"

enum { INSIDE_MEGABYTE = 24449, BETWEEN_MEGABYTE = 425600 };

/* Each step is rounded up. */
static void assert_near(int64_t cycles, int64_t wanted) {
  if (llabs(cycles - wanted) > 8) assert_int_equal(cycles, wanted);
}

static trm_program *plan_sum(const char *groups, uint32_t replicas, uint32_t ipus) {
  char text[512];
  snprintf(text, sizeof text,
           "HloModule m\n" SUM "ENTRY e { x = f32[1000000] parameter(0)\n"
           "ROOT r = f32[1000000] all-reduce(x), replica_groups={%s}, to_apply=sum }",
           groups);
  trm_program_options options = trm_program_default_options();
  options.replicas = replicas;
  options.num_ipus = ipus;
  trm_program *program = make_program(text, "./mk2-domains.json", &options);
  check_sums(program);
  return program;
}

/* Four megabytes are reduced; each ring's share moves steps times. */
static void check(const char *groups, uint32_t replicas, uint32_t ipus, int64_t inside,
                  int64_t between) {
  trm_program *program = plan_sum(groups, replicas, ipus);
  assert_near(program->totals.between_domains_cycles, between);
  assert_near(program->totals.collective_cycles - between, inside);
  trm_program_free(program);
}

static void test_all_reduce(void **unused) {
  (void)unused;
  check("", 2, 1, 2 * 48898, 0); /* two steps of two megabytes */
  /* The same in each domain, and two steps of one megabyte between the two. */
  check("", 4, 1, 2 * 48898, 2 * BETWEEN_MEGABYTE);
  check("{0,1},{2,3}", 4, 1, 2 * 48898, 0);
  check("{0,2},{1,3}", 4, 1, 0, 2 * 2 * BETWEEN_MEGABYTE);
  check("", 2, 2, 0, 2 * 2 * BETWEEN_MEGABYTE); /* a replica fills a domain */
}

static void check_collective(const char *line, int64_t inside, int64_t between) {
  char text[512];
  snprintf(text, sizeof text, "HloModule m\n" SUM "ENTRY e { x = f32[1000000] parameter(0)\n%s }",
           line);
  trm_program_options options = trm_program_default_options();
  options.replicas = 4;
  trm_program *program = make_program(text, "./mk2-domains.json", &options);
  assert_near(program->totals.between_domains_cycles, between);
  assert_near(program->totals.collective_cycles - between, inside);
  trm_program_free(program);
}

static void test_others(void **unused) {
  (void)unused;
  check_collective("ROOT r = f32[4000000] all-gather(x), dimensions={0}", 8 * INSIDE_MEGABYTE,
                   4 * BETWEEN_MEGABYTE);
  check_collective("ROOT r = f32[250000] reduce-scatter(x), dimensions={0}, to_apply=sum", 48898,
                   BETWEEN_MEGABYTE);
  check_collective("ROOT r = f32[1000000] all-to-all(x), dimensions={0}", INSIDE_MEGABYTE,
                   2 * BETWEEN_MEGABYTE);
  check_collective("ROOT r = f32[1000000] collective-permute(x),"
                   " source_target_pairs={{0,1},{1,2},{2,3},{3,0}}",
                   0, 4 * BETWEEN_MEGABYTE);
}

/* poprun's --num-ilds reaches the estimate of an executable. */
static int64_t between_in_environment(const char *options, trm_status wanted) {
  const trm_option ipus = {"ipus", "4"};
  static const char text[] = "HloModule m\n" SUM "ENTRY e { x = f32[1000000] parameter(0)\n"
                             "ROOT r = f32[1000000] all-reduce(x), to_apply=sum }";
  trm_executable *executable;
  trm_program *program;
  trm_error error = {0};
  setenv("POPLAR_TARGET_OPTIONS", options, 1);
  trm_module *module;
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error), TRM_OK);
  assert_int_equal(trm_compile(module, &ipus, 1, &executable, &error), TRM_OK);
  trm_module_free(module);
  const trm_status status =
      trm_program_create_for_executable(executable, NULL, NULL, &program, &error);
  unsetenv("POPLAR_TARGET_OPTIONS");
  assert_int_equal(status, wanted);
  int64_t cycles = -1;
  if (status == TRM_OK) {
    cycles = program->totals.between_domains_cycles;
    trm_program_free(program);
  } else {
    assert_non_null(strstr(error.message, "POPLAR_TARGET_OPTIONS"));
  }
  trm_executable_free(executable);
  return cycles;
}

static void test_environment(void **unused) {
  (void)unused;
  assert_near(between_in_environment("{\"ipuLinkTopology\":\"torus\"}", TRM_OK), 0);
  assert_near(between_in_environment("{\"ipuLinkDomainSize\":\"2\"}", TRM_OK),
              2 * BETWEEN_MEGABYTE);
  assert_near(between_in_environment("{\"ipuLinkDomainSize\":2}", TRM_OK), 2 * BETWEEN_MEGABYTE);
  between_in_environment("{\"ipuLinkDomainSize\":\"2x\"}", TRM_INVALID_ARGUMENT);
  between_in_environment("[", TRM_INVALID_ARGUMENT);
}

int main(void) {
  static const char machine[] =
      "{\"base\": \"mk2\", \"name\": \"mk2-domains\", \"ipuLinkDomainSize\": 2}";
  char folder[] = "/tmp/domainsXXXXXX";
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) return 1;
  FILE *file = fopen("mk2-domains.json", "w");
  if (file == NULL || fputs(machine, file) < 0 || fclose(file) != 0) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_reduce),
                                     cmocka_unit_test(test_others),
                                     cmocka_unit_test(test_environment)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink("mk2-domains.json");
  return rmdir(folder) != 0 || failed;
}
