/* Owns: tremula run. */
#include <errno.h>
#include <getopt.h>
#include <omp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "tool.h"
#include "tremula/report.h"

static void print_help(void) {
  printf(
      "usage: tremula run FILE [options]\n\n"
      "FILE is an executable, or a MODEL that is compiled first (tremula compile).\n\n"
      "  --input NAME=FILE.npy    an input, by its name in the model, its name in the program, or\n"
      "                           its number from 0; repeat for each\n"
      "  --infeed ID=FILE[,FILE]  the elements of an infeed: a file for each array, whose first\n"
      "                           dimension counts the elements; repeat for each infeed\n"
      "  --random[=SEED]          make up the inputs and infeeds for which there is no file:\n"
      "                           floats of the normal distribution, small integers, indices\n"
      "                           within bounds\n"
      "  --zeros                  the same with zeros\n"
      "  --output DIR             write outputs and elements of outfeeds as DIR/NAME.npy;\n"
      "                           otherwise they are printed, unless inputs are made up\n"
      "  --repeat N               run N times and print the times; an output that updates an\n"
      "                           input is the input of the next run\n"
      "  --times                  print the time of every instruction, the sums by kernel, and\n"
      "                           what is slow\n"
      "  --threads N              compute with N threads\n"
      "  --accelerator NAME       compute on an accelerator: cuda, cuda:1 or the path of a PJRT\n"
      "                           plugin (TREMULA_ACCELERATOR; docs/accelerators.md); lists\n"
      "                           afterwards what the CPU computes, and why\n"
      "  --seed N                 the seed of the program's random numbers\n");
}

typedef struct arguments {
  const char *file, *output;
  string_list inputs, infeeds;
  long repeat;
  long threads; /* 0: as many as there are cores */
  const char *accelerator;
  bool is_timed, times, has_seed;
  uint64_t seed, random_seed;
  missing_data missing;
} arguments;

static bool parse_seed(const char *text, uint64_t *out_seed) {
  char *end;
  errno = 0;
  *out_seed = strtoull(text, &end, 10);
  return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

/* Sets how to fill inputs without a file. Returns -1 to continue, otherwise the exit code. */
static int set_missing(arguments *a, missing_data missing) {
  if (a->missing != MISSING_IS_WRONG && a->missing != missing) {
    return complain_usage("run", "--random and --zeros exclude each other: choose one");
  }
  a->missing = missing;
  return -1;
}

enum {
  OPTION_INPUT = OPTION_OWN,
  OPTION_INFEED,
  OPTION_REPEAT,
  OPTION_TIMES,
  OPTION_SEED,
  OPTION_RANDOM,
  OPTION_ZEROS,
  OPTION_THREADS,
  OPTION_ACCELERATOR
};
static const struct option longs[] = {
    {"input", required_argument, NULL, OPTION_INPUT},
    {"infeed", required_argument, NULL, OPTION_INFEED},
    {"output", required_argument, NULL, 'o'},
    {"repeat", required_argument, NULL, OPTION_REPEAT},
    {"times", no_argument, NULL, OPTION_TIMES},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"random", optional_argument, NULL, OPTION_RANDOM},
    {"zeros", no_argument, NULL, OPTION_ZEROS},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"accelerator", required_argument, NULL, OPTION_ACCELERATOR},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* Returns -1 to continue, otherwise the exit code. */
static int parse(int argc, char **argv, arguments *a) {
  static const int often[] = {OPTION_INPUT, OPTION_INFEED, OPTION_RANDOM, 0};
  option_reader reader = {"run", ":o:h", longs, often, 0};
  bool memory = true;
  int option, code = -1;
  while (memory && code < 0 && (option = next_option(&reader, argc, argv)) != -1) {
    switch (option) {
      case OPTION_INPUT: memory = string_list_add(&a->inputs, optarg); break;
      case OPTION_INFEED: memory = string_list_add(&a->infeeds, optarg); break;
      case 'o': a->output = optarg; break;
      case OPTION_REPEAT:
        if (!parse_count(optarg, 1000000000, &a->repeat)) {
          return complain_usage("run", "--repeat wants a number from 1 on, not '%s'", optarg);
        }
        a->is_timed = true;
        break;
      case OPTION_TIMES: a->times = true; break;
      case OPTION_SEED:
        if (!parse_seed(optarg, &a->seed)) {
          return complain_usage("run", "--seed wants a number from 0 on, not '%s'", optarg);
        }
        a->has_seed = true;
        break;
      case OPTION_RANDOM:
        if (optarg != NULL && !parse_seed(optarg, &a->random_seed)) {
          return complain_usage("run", "--random=SEED wants a number from 0 on, not '%s'", optarg);
        }
        code = set_missing(a, MISSING_IS_RANDOM);
        break;
      case OPTION_ZEROS: code = set_missing(a, MISSING_IS_ZERO); break;
      case OPTION_THREADS:
        if (!parse_count(optarg, 4096, &a->threads)) {
          return complain_usage("run", "--threads wants a number from 1 to 4096, not '%s'", optarg);
        }
        break;
      case OPTION_ACCELERATOR:
        a->accelerator = optarg;
        memory = setenv("TREMULA_ACCELERATOR", optarg, 1) == 0;
        break;
      case 'h': print_help(); return 0;
      default: return EXIT_USAGE;
    }
  }
  if (code >= 0) return code;
  if (!memory) {
    const trm_error error = {TRM_RESOURCE_EXHAUSTED, "out of memory"};
    return complain(&error);
  }
  if (argc - optind != 1) return complain_usage("run", "say which one executable or MODEL to run");
  a->file = argv[optind];
  return -1;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  const double l = *(const double *)a, r = *(const double *)b;
  return (l > r) - (l < r);
}

static void print_seconds(double *seconds, long count) {
  qsort(seconds, (size_t)count, sizeof *seconds, ascending);
  const double median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
  fprintf(stderr, "%ld run%s: the fastest %.3f ms, the median %.3f ms\n", count,
          count == 1 ? "" : "s", seconds[0] * 1e3, median * 1e3);
}

/* Swaps outputs that update an input with that input, for the next run. */
static void carry_over(run_data *data, uint64_t *versions, long run) {
  const size_t num_outputs = trm_executable_num_outputs(data->executable);
  for (size_t o = 0; o < num_outputs; ++o) {
    const int64_t i = trm_executable_output_alias(data->executable, o);
    if (i < 0) continue;
    void *updated = data->outputs[o].data;
    data->outputs[o].data = data->inputs[i].data;
    data->inputs[i].data = updated;
    versions[i] = (uint64_t)run + 1;
  }
}

static trm_status run_often(const arguments *a, run_data *data, trm_engine *engine,
                            trm_report *report, double *seconds, uint64_t *versions,
                            trm_error *error) {
  const size_t num_inputs = trm_executable_num_inputs(data->executable);
  const size_t num_outputs = trm_executable_num_outputs(data->executable);
  const void **inputs = calloc(num_inputs + 1, sizeof *inputs);
  void **outputs = calloc(num_outputs + 1, sizeof *outputs);
  trm_status status = inputs != NULL && outputs != NULL
                          ? TRM_OK
                          : fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  for (size_t i = 0; i < num_inputs; ++i) versions[i] = 1;
  for (long run = 0; run < a->repeat && status == TRM_OK; ++run) {
    if (run > 0) carry_over(data, versions, run);
    for (size_t i = 0; i < num_inputs; ++i) inputs[i] = data->inputs[i].data;
    for (size_t o = 0; o < num_outputs; ++o) outputs[o] = data->outputs[o].data;
    const double start = now();
    status = trm_engine_run(engine, inputs, versions, outputs, error);
    seconds[run] = now() - start;
    const trm_report_times times = {
        .size = sizeof times, .began = start, .ended = start + seconds[run], .inputs = inputs};
    if (status == TRM_OK) trm_report_run(report, &times);
  }
  free(inputs);
  free(outputs);
  return status;
}

typedef trm_status (*print_fn)(const trm_engine *engine, char **out_text, trm_error *error);

static trm_status print_text(print_fn print, const trm_engine *engine, trm_status status,
                             trm_error *error) {
  char *text;
  if (status == TRM_OK) status = print(engine, &text, error);
  if (status != TRM_OK) return status;
  fputs(text, stderr);
  trm_free(text);
  return TRM_OK;
}

static trm_status run_engine(const arguments *a, run_data *data, trm_engine *engine,
                             trm_report *report, trm_error *error) {
  double *seconds = calloc((size_t)a->repeat, sizeof *seconds);
  uint64_t *versions = calloc(trm_executable_num_inputs(data->executable) + 1, sizeof *versions);
  trm_status status = seconds != NULL && versions != NULL
                          ? run_data_start_feeds(data, engine, error)
                          : fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  if (status == TRM_OK) {
    if (a->has_seed) trm_engine_set_seed(engine, a->seed);
    trm_engine_time_steps(engine, a->times);
    status = run_often(a, data, engine, report, seconds, versions, error);
  }
  run_data_stop_feeds(data);
  if (status == TRM_OK && (a->missing == MISSING_IS_WRONG || a->output != NULL)) {
    status = run_data_write(data, a->output, error);
  }
  if (status == TRM_OK && a->is_timed) print_seconds(seconds, a->repeat);
  if (a->accelerator != NULL)
    status = print_text(trm_engine_print_accelerator, engine, status, error);
  if (a->times) status = print_text(trm_engine_print_times, engine, status, error);
  free(seconds);
  free(versions);
  return status;
}

/* The executable, or that of a model, with the compiler's defaults. */
static trm_status load(const char *path, trm_executable **out_executable, trm_error *error) {
  struct stat status_of;
  const bool is_special = stat(path, &status_of) == 0 && !S_ISREG(status_of.st_mode) &&
                          !S_ISDIR(status_of.st_mode); /* which the library refuses */
  if (is_special || is_executable_file(path)) {
    return trm_executable_load(path, out_executable, error);
  }
  const lowering_options lowering = {0};
  trm_module *module;
  trm_status status = model_read(path, &lowering, &module, error);
  if (status != TRM_OK) return status;
  status = trm_compile(module, NULL, 0, out_executable, error);
  trm_module_free(module);
  return status;
}

/* An engine with the replicas that the option `ipus` asks for, if they can tell. */
static trm_status create_engine(trm_executable *executable, trm_engine **out_engine,
                                trm_error *error) {
  uint32_t replicas = 1;
  if (trm_executable_tells_replicas_apart(executable)) {
    const trm_status status = trm_executable_num_replicas(executable, &replicas, error);
    if (status != TRM_OK) return status;
  }
  return trm_engine_create_replicated(executable, replicas, out_engine, error);
}

/* Begins a profile, if one is wanted, of runs whose first has these inputs. */
static trm_status begin_report(trm_executable *executable, const run_data *data,
                               trm_report **out_report, trm_error *error) {
  if (getenv("POPLAR_ENGINE_OPTIONS") == NULL) return TRM_OK;
  const size_t num_inputs = trm_executable_num_inputs(executable);
  const void **inputs = calloc(num_inputs + 1, sizeof *inputs);
  if (inputs == NULL) return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  for (size_t i = 0; i < num_inputs; ++i) inputs[i] = data->inputs[i].data;
  const trm_report_framework framework = {.size = sizeof framework, .inputs = inputs};
  const trm_status status = trm_report_create(executable, &framework, out_report, error);
  free(inputs);
  return status;
}

static trm_status run(const arguments *a, trm_error *error) {
  trm_executable *executable;
  if (a->threads > 0) omp_set_num_threads((int)a->threads);
  trm_status status = load(a->file, &executable, error);
  if (status != TRM_OK) return status;
  const run_sources sources = {&a->inputs, &a->infeeds, a->missing, a->random_seed};
  run_data data = {0};
  trm_engine *engine = NULL;
  trm_report *report = NULL;
  status = run_data_create(executable, &sources, &data, error);
  if (status == TRM_OK) status = create_engine(executable, &engine, error);
  if (status == TRM_OK) status = begin_report(executable, &data, &report, error);
  if (status == TRM_OK) status = run_engine(a, &data, engine, report, error);
  trm_report_free(report);
  if (engine != NULL) trm_engine_free(engine);
  run_data_free(&data);
  trm_executable_free(executable);
  return status;
}

int command_run(int argc, char **argv) {
  arguments a = {.repeat = 1};
  trm_error error = {0};
  int code = parse(argc, argv, &a);
  if (code < 0) code = run(&a, &error) == TRM_OK ? 0 : complain(&error);
  free(a.inputs.items);
  free(a.infeeds.items);
  return code;
}
