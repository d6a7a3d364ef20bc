/* Engines over several processes: the same bits as in one process, and what ends a run on all. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include "base/wait.h"
#include "group/peers.h"
#include "host/ops/threads.h"

#include "../run.h"

#include "../launch.h"

enum { REPLICAS = 4, MOST_BYTES = 1 << 20 };

/* ---- Programs -------------------------------------------------------------------------------- */

#define ADD(type)                                                                  \
  "add { a = " type "[] parameter(0)  b = " type "[] parameter(1)  ROOT s = " type \
  "[] add(a, b) }\n"
#define RANDOM(number)                                                                       \
  "custom-call(), custom_call_target=\"tremula.random\", custom_call_has_side_effect=true, " \
  "backend_config=\"{\\\"distribution\\\":\\\"uniform\\\",\\\"seed\\\":0,\\\"seed2\\\":0,"   \
  "\\\"id\\\":" number "}\"\n"
/* Other numbers on each replica, whose sums depend on the order. */
#define ENTRY(dims) "ENTRY e { x = f32[" dims "] " RANDOM("3")
#define CUSTOM_OF(target, operand, config)                                                         \
  "custom-call(" operand "), custom_call_target=\"tremula." target "\", backend_config=\"{" config \
  "}\"\n"
#define CUSTOM(target, config) CUSTOM_OF(target, "x", config) "}\n"
/* Sums that do not need each other, and one that needs them. */
#define GRADIENTS                                                                                 \
  "HloModule gradients\n" ADD("f32") ENTRY(                                                       \
      "256") "  w = f32[64] slice(x), slice={[0:64]}  v = f32[128] slice(x), slice={[100:228]}\n" \
             "  a = f32[256] all-reduce(x), replica_groups={}, to_apply=add\n"                    \
             "  b = f32[64] all-reduce(w), replica_groups={}, to_apply=add\n"                     \
             "  c = f32[128] all-reduce(v), replica_groups={}, to_apply=add\n"                    \
             "  d = f32[448] concatenate(a, b, c), dimensions={0}\n"                              \
             "  ROOT y = f32[448] all-reduce(d), replica_groups={}, to_apply=add }\n"

#define SCATTERED(name, type, operand) \
  "  " name " = " type " " CUSTOM_OF("reduce-scatter", operand, "\\\"op\\\":\\\"add\\\"")
#define GATHERED(name, type, operand) "  " name " = " type " " CUSTOM_OF("all-gather", operand, "")
/* Two reduce-scatters and two all-gathers. */
#define PIECES                                                                                   \
  "HloModule parts\n" ENTRY("4099") "  z = f32[9] " RANDOM("4") SCATTERED("a", "f32[1025]", "x") \
      SCATTERED("b", "f32[3]", "z") GATHERED("c", "f32[4,4099]", "x")                            \
          GATHERED("d", "f32[4,9]",                                                              \
                   "z") "  e = f32[36] reshape(d)  f = f32[16396] reshape(c)\n"                  \
                        "  ROOT y = f32[17460] concatenate(a, b, e, f), dimensions={0} }\n"

static const char *const programs[] = {
    /* Many elements, of which each process sums a share. */
    "HloModule sum\n" ADD("f32")
        ENTRY("40001") "  ROOT y = f32[40001] all-reduce(x), replica_groups={}, to_apply=add }\n",
    "HloModule halves\n" ADD("f16")
        ENTRY("1003") "  h = f16[1003] convert(x)\n"
                      "  ROOT y = f16[1003] all-reduce(h), replica_groups={}, to_apply=add }\n",
    /* Groups over processes, inside of one, and in another order. */
    "HloModule crossing\n" ADD("f32") ENTRY(
        "300") "  ROOT y = f32[300] all-reduce(x), replica_groups={{0,3},{2,1}}, to_apply=add }\n",
    "HloModule near\n" ADD("f32") ENTRY(
        "300") "  ROOT y = f32[300] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add }\n",
    "HloModule mixed\n" ADD("f32") ENTRY(
        "777") "  ROOT y = f32[777] all-reduce(x), replica_groups={{2,0,3,1}}, to_apply=add }\n",
    "HloModule tuple\n" ADD("f32") ENTRY(
        "70") "  z = f32[] constant(1)\n"
              "  t = (f32[70], f32[]) all-reduce(x, z), replica_groups={}, to_apply=add\n"
              "  a = f32[70] get-tuple-element(t), index=0  b = f32[] get-tuple-element(t), index=1\n"
              "  c = f32[70] broadcast(b), dimensions={}  ROOT y = f32[70] multiply(a, c) }\n",
    "HloModule mean\n" ENTRY("100") "  ROOT y = f32[100] " CUSTOM("all-reduce",
                                                                  "\\\"op\\\":\\\"mean\\\""),
    "HloModule local\n" ENTRY("100") "  ROOT y = f32[100] " CUSTOM("all-reduce",
                                                                   "\\\"op\\\":\\\"local\\\""),
    "HloModule pairs\n" ENTRY("100") "  ROOT y = f32[100] " CUSTOM(
        "all-reduce", "\\\"op\\\":\\\"add\\\",\\\"group_size\\\":2"),
    "HloModule gather\n" ENTRY(
        "2,3") "  ROOT y = f32[2,12] all-gather(x), replica_groups={}, dimensions={1} }\n",
    "HloModule stack\n" ENTRY("5000") "  ROOT y = f32[4,5000] " CUSTOM("all-gather", ""),
    "HloModule scatter\n" ADD("f32") ENTRY(
        "2,8") "  ROOT y = f32[2,2] reduce-scatter(x), replica_groups={}, dimensions={1}, to_apply=add }\n",
    "HloModule padded\n" ENTRY("4099") "  ROOT y = f32[1025] " CUSTOM("reduce-scatter",
                                                                      "\\\"op\\\":\\\"add\\\""),
    "HloModule exchange\n" ENTRY(
        "8,2") "  ROOT y = f32[8,2] all-to-all(x), replica_groups={}, dimensions={0} }\n",
    "HloModule permute\n" ENTRY(
        "9") "  ROOT y = f32[9] collective-permute(x), source_target_pairs={{0,1},{1,2},{3,0}} }\n",
    "HloModule broadcast\n" ENTRY(
        "9") "  ROOT y = f32[9] collective-broadcast(x), replica_groups={{1,3},{2,0}} }\n",
    "HloModule numbers\nENTRY e { a = u32[] replica-id()  b = s32[] custom-call(), "
    "custom_call_target=\"tremula.replication-factor\"\n"
    "  c = u32[] convert(b)  d = u32[1] reshape(a)  e = u32[1] reshape(c)\n"
    "  ROOT y = u32[2] concatenate(d, e), dimensions={0} }\n",
    /* Collectives of several arrays, where they are combined. */
    GRADIENTS,
    PIECES,
    /* A sum in each turn of a loop. */
    "HloModule loop\n" ADD(
        "f32") "body { s = (s32[], f32[50]) parameter(0)  n = s32[] get-tuple-element(s), index=0\n"
               "  v = f32[50] get-tuple-element(s), index=1  r = f32[50] " RANDOM(
                   "5") "  w = f32[50] add(v, r)  o = f32[50] all-reduce(w), replica_groups={}, to_apply=add\n"
                        "  one = s32[] constant(1)  m = s32[] add(n, one)  ROOT t = (s32[], f32[50]) tuple(m, o) }\n"
                        "test { s = (s32[], f32[50]) parameter(0)  n = s32[] get-tuple-element(s), index=0\n"
                        "  e = s32[] constant(10)  ROOT c = pred[] compare(n, e), direction=LT }\n"
                        "ENTRY e { n = s32[] constant(0)  x = f32[50] " RANDOM(
                            "3") "  s = (s32[], f32[50]) tuple(n, x)  w = (s32[], f32[50]) while(s), condition=test, body=body\n"
                                 "  ROOT y = f32[50] get-tuple-element(w), index=1 }\n",
};

/* `combined`: bytes up to which collectives of each kind become one. */
static trm_executable *compile_combined(const char *text, const char *combined) {
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  const trm_option options[] = {{"ipus", "4"},
                                {"combined_sums", combined},
                                {"combined_scatters", combined},
                                {"combined_gathers", combined}};
  WANT(trm_module_read(text, strlen(text), "test", &module, &error) == TRM_OK);
  WANT(trm_compile(module, options, 4, &executable, &error) == TRM_OK);
  trm_module_free(module);
  return executable;
}

static trm_executable *compile(const char *text) { return compile_combined(text, "0"); }

/* The engine of this process. */
static trm_engine *create(trm_executable *executable, uint32_t num_here) {
  trm_engine *engine = NULL;
  const trm_engine_settings settings = {.size = sizeof settings,
                                        .num_replicas = num_here,
                                        .num_processes = place.size,
                                        .process = place.rank};
  WANT(trm_engine_create_with(executable, &settings, &engine, &error) == TRM_OK);
  return engine;
}

/* ---- Scenes ---------------------------------------------------------------------------------- */

/* Every program gives the bits of four replicas in one process, in several runs. */
static void scene_bits(void) {
  static char own[MOST_BYTES], all[MOST_BYTES];
  void *own_outputs[] = {own}, *all_outputs[] = {all};
  const uint32_t num_here = REPLICAS / place.size, first = place.rank * num_here;
  for (size_t p = 0; p < sizeof programs / sizeof *programs; ++p) {
    trm_executable *executable = compile_combined(programs[p], "1000000");
    trm_executable *plain = compile(programs[p]);
    trm_engine *reference = NULL, *engine = create(executable, num_here);
    WANT(trm_engine_create_replicated(plain, REPLICAS, &reference, &error) == TRM_OK);
    const size_t bytes = trm_executable_output(executable, 0)->bytes;
    WANT(bytes <= MOST_BYTES);
    trm_engine_set_seed(engine, 42);
    trm_engine_set_seed(reference, 42);
    for (int run = 0; run < 3; ++run) {
      memset(own, 0x55, bytes);
      WANT(trm_engine_run(engine, NULL, NULL, own_outputs, &error) == TRM_OK);
      WANT(trm_engine_run(reference, NULL, NULL, all_outputs, &error) == TRM_OK);
      for (uint32_t r = 0; r < num_here; ++r) {
        const void *got = r == 0 ? own : trm_engine_output(engine, r, 0);
        const void *wanted = first + r == 0 ? all : trm_engine_output(reference, first + r, 0);
        if (memcmp(got, wanted, bytes) != 0) {
          fprintf(stderr, "%.20s: replica %u differs\n", programs[p], first + r);
          _exit(1);
        }
      }
    }
    trm_engine_free(engine);
    trm_engine_free(reference);
    trm_executable_free(executable);
    trm_executable_free(plain);
  }
}

static void want_failure(const char *text, trm_status status, const char *words) {
  static char result[MOST_BYTES];
  void *outputs[] = {result};
  trm_executable *executable = compile(text);
  trm_engine *engine = create(executable, REPLICAS / place.size);
  WANT(trm_engine_run(engine, NULL, NULL, outputs, &error) == status);
  WANT(strstr(error.message, words) != NULL);
  trm_engine_free(engine);
  trm_executable_free(executable);
}

/* What a run sends: docs/distributed.md. Of each other process, a begin, operands, results, an end;
 * a message has 24 bytes before its data, which follow in a message of their own if they are many.
 */
static void want_traffic(const char *text, const char *combined, uint64_t data_bytes,
                         uint64_t messages, uint64_t heads) {
  static char result[MOST_BYTES];
  void *outputs[] = {result};
  trm_group_traffic before, after;
  trm_executable *executable = compile_combined(text, combined);
  trm_engine *engine = create(executable, REPLICAS / place.size);
  const uint64_t others = place.size - 1;
  trm_group_get_traffic(&before);
  WANT(trm_engine_run(engine, NULL, NULL, outputs, &error) == TRM_OK);
  trm_group_get_traffic(&after);
  WANT(after.messages_sent - before.messages_sent == others * messages);
  WANT(after.bytes_sent - before.bytes_sent == others * heads * 24 + data_bytes);
  trm_engine_free(engine);
  trm_executable_free(executable);
}

/* Instances combine whole lines of 64 elements: GRADIENTS has arrays of 4, 1, 2 and 7 lines. */
static uint64_t gradients_bytes(void) {
  static const uint32_t lines[] = {4, 1, 2, 7};
  const uint32_t each = REPLICAS / place.size;
  uint64_t bytes = 0;
  for (int a = 0; a < 4; ++a) {
    const uint32_t first = lines[a] * each * place.rank / REPLICAS;
    const uint32_t last = lines[a] * each * (place.rank + 1) / REPLICAS;
    bytes += (uint64_t)(lines[a] - (last - first)) * each * 256; /* operands for the others */
    bytes += (uint64_t)(last - first) * (place.size - 1) * 256;  /* results */
  }
  return bytes;
}

/* An all-reduce of B bytes sends R / n * (n - 1) / n * B of operands and (n - 1) / n * B of
 * results. */
static void scene_traffic(void) {
  const uint64_t n = place.size, each = REPLICAS / n;
  want_traffic(
      "HloModule many\n" ADD("f32")
          ENTRY("25600") "  ROOT y = f32[25600] all-reduce(x), replica_groups={}, to_apply=add }\n",
      "0", (each + 1) * (n - 1) * 102400 / n, 6, 4);
  want_traffic("HloModule few\n" ADD("f32") ENTRY(
                   "256") "  ROOT y = f32[256] all-reduce(x), replica_groups={}, to_apply=add }\n",
               "0", (each + 1) * (n - 1) * 1024 / n, 4, 4);
  /* Four sums, of which three become one: two messages less for each of two. */
  want_traffic(GRADIENTS, "0", gradients_bytes(), 10, 10);
  want_traffic(GRADIENTS, "1792", gradients_bytes(), 6, 6);
  want_traffic(GRADIENTS, "1280", gradients_bytes(), 8, 8); /* 1024 + 256 bytes, and 512 */
}

/* The other process has another program; after that both run one. */
static void scene_programs(void) {
  want_failure(programs[place.rank], TRM_FAILED_PRECONDITION, "runs another program");
  scene_bits();
}

/* Replica 3 ends with an error, in the middle of a run; the others wait for it. Then all go on. */
static void scene_failure(void) {
  const char *text = "HloModule failing\n" ADD(
      "f32") "ENTRY e { id = u32[] replica-id()  three = u32[] constant(3)\n"
             "  p = pred[] compare(id, three), direction=NE\n"
             "  a = () custom-call(p), custom_call_target=\"tremula.assert\", "
             "custom_call_has_side_effect=true, backend_config=\"{\\\"message\\\":\\\"replica three\\\"}\"\n"
             "  f = f32[] convert(id)\n"
             "  g = f32[20000] broadcast(f), dimensions={}\n"
             "  ROOT y = f32[20000] all-reduce(g), replica_groups={}, to_apply=add }\n";
  for (int i = 0; i < 3; ++i) want_failure(text, TRM_INTERNAL, "replica three");
  WANT(place.rank == 1 || strstr(error.message, "instance 1 (host ") != NULL);
  scene_bits();
}

/* Replicas of one process take another branch. */
static void scene_branches(void) {
  const char *text = "HloModule branches\n" ADD(
      "f32") "one { x = f32[] parameter(0)  ROOT y = f32[] all-reduce(x), replica_groups={}, to_apply=add }\n"
             "two { x = f32[] parameter(0)  ROOT y = f32[] add(x, x) }\n"
             "ENTRY e { id = u32[] replica-id()  two = u32[] constant(2)  x = f32[] constant(1)\n"
             "  p = pred[] compare(id, two), direction=LT\n"
             "  ROOT y = f32[] conditional(p, x, x), true_computation=one, false_computation=two }\n";
  static float result;
  void *outputs[] = {&result};
  trm_executable *executable = compile(text);
  trm_engine *engine = create(executable, REPLICAS / place.size);
  WANT(trm_engine_run(engine, NULL, NULL, outputs, &error) == TRM_FAILED_PRECONDITION);
  WANT(strstr(error.message, "has reached another operation") != NULL);
  trm_engine_free(engine);
  trm_executable_free(executable);
  scene_bits();
}

static const char forever[] = "HloModule forever\n" ADD(
    "f32") "body { v = f32[50] parameter(0)\n"
           "  ROOT o = f32[50] all-reduce(v), replica_groups={}, to_apply=add }\n"
           "test { v = f32[50] parameter(0)  ROOT c = pred[] constant(true) }\n"
           "ENTRY e { x = f32[50] " RANDOM(
               "3") "  ROOT w = f32[50] while(x), condition=test, body=body }\n";

static void *cancel_later(void *engine) {
  trm_sleep_ms(200);
  trm_engine_cancel(engine);
  return NULL;
}

/* One process cancels a run, which ends on all. */
static void scene_cancel(void) {
  static float result[50];
  void *outputs[] = {result};
  trm_executable *executable = compile(forever);
  trm_engine *engine = create(executable, REPLICAS / place.size);
  pthread_t thread;
  if (place.rank == 1) WANT(pthread_create(&thread, NULL, cancel_later, engine) == 0);
  WANT(trm_engine_run(engine, NULL, NULL, outputs, &error) == TRM_CANCELLED);
  if (place.rank == 1) pthread_join(thread, NULL);
  trm_engine_free(engine);
  trm_executable_free(executable);
  scene_bits();
}

static void *die_later(void *nothing) {
  trm_sleep_ms(200);
  raise(SIGKILL);
  return nothing;
}

/* One process is killed in a run, which ends on the others. */
static void scene_death(void) {
  pthread_t thread;
  if (place.rank == 1) WANT(pthread_create(&thread, NULL, die_later, NULL) == 0);
  char who[128];
  want_failure(forever, TRM_UNAVAILABLE, trm_group_describe(1, who, sizeof who));
  fprintf(stderr, "rank %u saw it\n", place.rank);
}

static int bound_among; /* cores that the processes of a scene were bound to, one each */

/* As a launcher does, before the process knows the others. */
static void bind_to_a_core(void) {
  cpu_set_t may, one;
  CPU_ZERO(&one);
  WANT(sched_getaffinity(0, sizeof may, &may) == 0);
  bound_among = CPU_COUNT(&may);
  uint32_t left = place.rank % (uint32_t)bound_among;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET((size_t)core, &may) && left-- == 0) CPU_SET((size_t)core, &one);
  }
  WANT(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* Where no launcher has bound them, instances share the cores evenly. */
static void scene_cores(void) {
  uint32_t before;
  const int all = omp_get_num_procs(), size = (int)place.size, rank = (int)place.rank;
  WANT(trm_peers_num_sharing_cores(&before) == place.size && before == place.rank);
  const int part = (rank + 1) * all / size - rank * all / size;
  WANT(trm_threads_cores() == (part > 0 ? part : 1));
  scene_bits();
  WANT(getenv("OMP_NUM_THREADS") != NULL || omp_get_max_threads() == trm_threads_cores());
}

/* Instances that are bound to cores of their own have these, and those on one core share it. */
static void scene_bound(void) {
  uint32_t before;
  const uint32_t all = (uint32_t)bound_among, shared = (place.size + all - 1) / all;
  const uint32_t sharing = trm_peers_num_sharing_cores(&before);
  WANT(sharing <= shared && sharing >= place.size / all && before == place.rank / all);
  WANT(trm_threads_cores() == 1);
  scene_bits();
}

static const struct {
  const char *name;
  void (*play)(void);
} scenes[] = {
    {"bits", scene_bits},         {"programs", scene_programs}, {"traffic", scene_traffic},
    {"cores", scene_cores},       {"bound", scene_bound},       {"failure", scene_failure},
    {"branches", scene_branches}, {"cancel", scene_cancel},     {"death", scene_death}};

static int play(const char *name, const char *folder) {
  const trm_group_settings settings = {.size = sizeof settings, .folder = folder};
  trm_group_get_place(&place);
  if (strcmp(name, "bound") == 0) bind_to_a_core();
  WANT(trm_group_join(&settings, &error) == TRM_OK);
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; ++i) {
    if (strcmp(scenes[i].name, name) == 0) scenes[i].play();
  }
  return 0;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

#define TEST(test, scene, num)                               \
  static void test(void **state) {                           \
    (void)state;                                             \
    assert_int_equal(launch(scene, num, false, NULL, 0), 0); \
  }
TEST(test_two_by_two, "bits", 2)
TEST(test_four_by_one, "bits", 4)
TEST(test_one_by_four, "bits", 1)
TEST(test_traffic, "traffic", 2)
TEST(test_traffic_of_four, "traffic", 4)
TEST(test_cores, "cores", 2)
TEST(test_bound, "bound", 2)
TEST(test_other_programs, "programs", 2)
TEST(test_failure, "failure", 2)
TEST(test_branches, "branches", 2)
TEST(test_cancel, "cancel", 2)

static void test_death(void **state) {
  (void)state;
  char output[20000] = "";
  launch("death", 4, true, output, sizeof output);
  assert_non_null(strstr(output, "rank 0 saw it"));
  assert_non_null(strstr(output, "rank 3 saw it"));
}

/* Without a group there are no other processes. */
static void test_no_group(void **state) {
  (void)state;
  trm_executable *executable = test_compile(programs[0], &test_modes[0]);
  trm_engine *engine = NULL;
  trm_error failure;
  trm_engine_settings settings = {.size = sizeof settings, .num_replicas = 2, .num_processes = 2};
  assert_int_equal(trm_engine_create_with(executable, &settings, &engine, &failure),
                   TRM_FAILED_PRECONDITION);
  assert_non_null(
      strstr(failure.message, "for process 0 of 2, but this process is instance 0 of 1"));
  settings.num_processes = 1;
  assert_int_equal(trm_engine_create_with(executable, &settings, &engine, &failure), TRM_OK);
  assert_int_equal(trm_engine_num_replicas(engine), 2);
  trm_engine_free(engine);
  trm_executable_free(executable);
}

int main(int argc, char **argv) {
  if (argc > 2) return play(argv[1], argv[2]);
  if (!launch_from(argv[0])) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_group),       cmocka_unit_test(test_two_by_two),
      cmocka_unit_test(test_four_by_one),    cmocka_unit_test(test_one_by_four),
      cmocka_unit_test(test_traffic),        cmocka_unit_test(test_traffic_of_four),
      cmocka_unit_test(test_cores),          cmocka_unit_test(test_bound),
      cmocka_unit_test(test_other_programs), cmocka_unit_test(test_failure),
      cmocka_unit_test(test_branches),       cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_death)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
