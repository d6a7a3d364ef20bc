/* Owns: tremula plan: the command line, the list of cases, the exit code. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "tremula/inspect.h"

/* Whether it is a compile option that does not affect the estimate. */
static bool is_refused(const char *key) {
  trm_inspect_option_row row;
  for (size_t i = 0; trm_inspect_option(i, &row); ++i) {
    if (strcmp(row.key, key) == 0) return !row.plans;
  }
  return false;
}

static void print_help(void) {
  printf(
      "usage: tremula plan MODEL [options]\n\n"
      "Estimates what MODEL needs on IPUs: whether it fits, memory, cycles. Nothing runs.\n\n"
      "  --target T[,T]...        " TRM_TARGET_PRESETS ", or a file with another machine; mk2\n"
      "                           if none is named\n"
      "  --ipus N[,N]...          how many IPUs; a model that is not sharded is cut into shards\n"
      "  --instances N[,N]...     how many processes, each with so many IPUs, share the replicas\n"
      "  --batch N[,N]...[,...]   batch sizes; a model that states its own is changed, if its\n"
      "                           shapes tell what follows from the batch; a last ... doubles the\n"
      "                           batch size until the model does not fit\n"
      "  --sweep KEY=LOW:HIGH[:STEP]\n"
      "                           plan with each value (step 0.1); keys:\n");
  for (size_t i = 0; plan_swept_key(i) != NULL; ++i) {
    printf("                             %s\n", plan_swept_key(i));
  }
  printf(
      "  --training sgd|momentum|adam\n"
      "                           plan a training step of a TensorFlow or Keras model\n"
      "  --what-if CHANGE         plan with a change beside the plan as it is; may be repeated:\n"
      "                           LAYER:half, LAYER:recompute, LAYER:amp=P, half, recompute,\n"
      "                           offload, amp=P, batch=N, memory=BYTES (of a tile), ipus=N\n"
      "  --json                   the answer as JSON\n"
      "  --html FILE              a page with the plans side by side, to open in a browser or to\n"
      "                           send (needs Python); every plan is in it in full\n"
      "  --option KEY=VALUE       an option of the compiler, see below; may be repeated\n" LOWERING_HELP
      "\nThe exit code is 0 if one of the cases fits, 3 if none does, 1 after a failure, or 2 after\n"
      "a mistake in the command line.\n\nOptions:\n");
  trm_inspect_option_row row;
  for (size_t i = 0; trm_inspect_option(i, &row); ++i) {
    if (row.plans) printf("  %s=%s\n      %s\n", row.key, row.default_value, row.help);
  }
}

/* ---- The command line ------------------------------------------------------------------------ */

/* Parses "1,2,4" or, with `out_on`, "1,2,4,...": increasing numbers from 1 on. */
static bool parse_counts(char *text, long most, long *items, size_t *out_count, bool *out_on) {
  size_t count = 0;
  char *save = NULL;
  for (char *part = strtok_r(text, ",", &save); part != NULL; part = strtok_r(NULL, ",", &save)) {
    const bool last = save == NULL || *save == '\0';
    if (out_on != NULL && strcmp(part, "...") == 0 && count > 0 && last) {
      *out_on = true;
      break;
    }
    if (count == PLAN_MAX_LIST || !parse_count(part, most, &items[count])) return false;
    if (count > 0 && items[count] <= items[count - 1]) return false;
    ++count;
  }
  *out_count = count;
  return count > 0;
}

static bool parse_number(const char *text, char end, double *out_number, const char **out_rest) {
  char *stop;
  errno = 0;
  *out_number = strtod(text, &stop);
  *out_rest = *stop == '\0' ? stop : stop + 1;
  return errno == 0 && stop != text && isfinite(*out_number) && (*stop == end || *stop == '\0');
}

/* Parses "0.1:0.9:0.2". Values are multiples of the step from the lowest on, so that they are
 * round. */
static const char *parse_range(const char *text, plan_request *request) {
  double low, high, step = 0.1;
  const char *rest = text;
  if (!parse_number(rest, ':', &low, &rest) || *rest == '\0' ||
      !parse_number(rest, ':', &high, &rest)) {
    return "wants KEY=LOW:HIGH or KEY=LOW:HIGH:STEP";
  }
  if (*rest != '\0' && (!parse_number(rest, '\0', &step, &rest) || *rest != '\0')) {
    return "wants KEY=LOW:HIGH:STEP, three numbers";
  }
  if (!(step > 0) || high < low) return "wants a range that goes up and a step above 0";
  if (low < 0 || high > 1) return "wants proportions, from 0 to 1";
  const double count = floor((high - low) / step + 1e-6) + 1;
  if (count > PLAN_MAX_LIST) return "has too many values: at most 256";
  for (size_t v = 0; v < (size_t)count; ++v) {
    request->values[v] = round((low + (double)v * step) * 1e9) / 1e9;
  }
  request->num_values = (size_t)count;
  return NULL;
}

static int parse_sweep(char *text, plan_request *request) {
  char *value = split_assignment(text);
  if (value == NULL) return complain_usage("plan", "--sweep wants KEY=LOW:HIGH, not '%s'", text);
  if (request->swept != NULL) return complain_usage("plan", "one --sweep at a time");
  size_t i = 0;
  while (plan_swept_key(i) != NULL && strcmp(plan_swept_key(i), text) != 0) ++i;
  request->swept = plan_swept_key(i);
  if (request->swept == NULL) {
    return complain_usage("plan", "--sweep: '%s' cannot be swept; %s and others can", text,
                          plan_swept_key(0));
  }
  const char *problem = parse_range(value, request);
  if (problem != NULL) return complain_usage("plan", "--sweep %s %s", text, problem);
  return -1;
}

static int add_option(char *text, plan_request *request) {
  char *value = split_assignment(text);
  if (value == NULL) return complain_usage("plan", "--option wants KEY=VALUE, not '%s'", text);
  if (strcmp(text, "target") == 0 || strcmp(text, "ipus") == 0) {
    return complain_usage("plan", "say --%s instead of --option %s=%s", text, text, value);
  }
  if (is_refused(text)) {
    return complain_usage("plan", "the option %s does not affect the estimate", text);
  }
  request->options[request->num_options++] = (trm_option){text, value};
  return -1;
}

static int add_targets(char *text, plan_request *request, bool *out_memory) {
  const size_t length = strlen(text);
  if (length == 0 || text[0] == ',' || text[length - 1] == ',' || strstr(text, ",,") != NULL) {
    return complain_usage("plan", "--target wants names such as mk1,mk2, not '%s'", text);
  }
  char *save = NULL;
  for (char *part = strtok_r(text, ",", &save); part != NULL; part = strtok_r(NULL, ",", &save)) {
    if (request->targets.count == PLAN_MAX_LIST) return complain_usage("plan", "too many targets");
    *out_memory = *out_memory && string_list_add(&request->targets, part);
  }
  return -1;
}

static int add_what_if(char *text, plan_request *request, bool *out_memory) {
  if (strncmp(text, "batch=", 6) == 0 && request->what_if_batch != 0) {
    return complain_usage("plan", "--what-if batch=N is given twice");
  }
  if (strncmp(text, "batch=", 6) == 0 && !parse_count(text + 6, 1 << 20, &request->what_if_batch)) {
    return complain_usage("plan", "--what-if batch=N wants a number from 1 on, not '%s'", text + 6);
  }
  if (request->what_if.count == PLAN_MAX_LIST) return complain_usage("plan", "too many changes");
  *out_memory = *out_memory && string_list_add(&request->what_if, text);
  return -1;
}

enum {
  OPTION_TARGET = OPTION_OWN,
  OPTION_IPUS,
  OPTION_INSTANCES,
  OPTION_OPTION,
  OPTION_BATCH,
  OPTION_SWEEP,
  OPTION_TRAINING,
  OPTION_WHAT_IF,
  OPTION_JSON,
  OPTION_HTML
};

/* Handles one option. Returns -1 to continue, otherwise the exit code. */
static int take(int option, plan_request *request, bool *memory) {
  if (lowering_option(&request->lowering, option, optarg, memory)) return -1;
  switch (option) {
    case 'h': print_help(); return 0;
    case OPTION_TARGET: return add_targets(optarg, request, memory);
    case OPTION_JSON: request->json = true; return -1;
    case OPTION_HTML: request->html = optarg; return -1;
    case OPTION_OPTION: return add_option(optarg, request);
    case OPTION_WHAT_IF: return add_what_if(optarg, request, memory);
    case OPTION_SWEEP: return parse_sweep(optarg, request);
    case OPTION_IPUS:
      if (parse_counts(optarg, 64, request->ipus, &request->num_ipus, NULL)) return -1;
      return complain_usage("plan", "--ipus wants numbers that rise from 1 to 64, such as 1,2,4");
    case OPTION_INSTANCES:
      if (parse_counts(optarg, 4096, request->instances, &request->num_instances, NULL)) return -1;
      return complain_usage("plan", "--instances wants numbers that rise from 1 to 4096, such as "
                                    "1,2,4");
    case OPTION_BATCH:
      if (parse_counts(optarg, 1 << 20, request->batches, &request->num_batches,
                       &request->batches_go_on)) {
        return -1;
      }
      return complain_usage("plan", "--batch wants numbers that rise from 1 on, such as 1,2,4 or "
                                    "1,2,4,...");
    case OPTION_TRAINING:
      request->training = optarg;
      if (strcmp(optarg, "sgd") == 0 || strcmp(optarg, "momentum") == 0 ||
          strcmp(optarg, "adam") == 0) {
        return -1;
      }
      return complain_usage("plan", "--training wants sgd, momentum or adam, not '%s'", optarg);
    default: return EXIT_USAGE;
  }
}

/* Refuses two options that set the same thing. */
static int check(const plan_request *request) {
  const char *again = set_again(request->options, request->num_options);
  if (again != NULL) return complain_usage("plan", "the option %s is set twice", again);
  for (size_t o = 0; o < request->num_options && request->swept != NULL; ++o) {
    const trm_option *option = &request->options[o];
    if (strstr(option->value, "availableMemoryProportion") != NULL ||
        strcmp(option->key, plan_swept_option(request->swept)) == 0) {
      return complain_usage("plan", "%s sets what --sweep changes: leave one of them out",
                            option->key);
    }
  }
  if (request->what_if.count > 0 &&
      (request->num_batches > 1 || request->batches_go_on || request->swept != NULL)) {
    return complain_usage("plan", "--what-if changes one plan: no --sweep and at most one --batch");
  }
  return -1;
}

static int parse(int argc, char **argv, plan_request *request) {
  static char mk2[] = "mk2";
  static const struct option longs[] = {
      {"target", required_argument, NULL, OPTION_TARGET},
      {"ipus", required_argument, NULL, OPTION_IPUS},
      {"instances", required_argument, NULL, OPTION_INSTANCES},
      {"option", required_argument, NULL, OPTION_OPTION},
      {"batch", required_argument, NULL, OPTION_BATCH},
      {"sweep", required_argument, NULL, OPTION_SWEEP},
      {"training", required_argument, NULL, OPTION_TRAINING},
      {"what-if", required_argument, NULL, OPTION_WHAT_IF},
      {"json", no_argument, NULL, OPTION_JSON},
      {"html", required_argument, NULL, OPTION_HTML},
      LOWERING_LONG_OPTIONS,
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  bool memory = (request->options = calloc((size_t)argc, sizeof *request->options)) != NULL;
  static const int often[] = {OPTION_TARGET, OPTION_OPTION, OPTION_WHAT_IF, OPTION_SWEEP, 0};
  option_reader reader = {"plan", ":h", longs, often, 0};
  int option, code = -1;
  while (memory && code < 0 && (option = next_option(&reader, argc, argv)) != -1) {
    code = take(option, request, &memory);
  }
  if (code >= 0) return code;
  if (memory && request->targets.count == 0) memory = string_list_add(&request->targets, mk2);
  if (!memory) {
    const trm_error error = {TRM_RESOURCE_EXHAUSTED, "out of memory"};
    return complain(&error);
  }
  if (optind >= argc) return complain_usage("plan", "say which MODEL to plan");
  if (argc - optind > 1) {
    return complain_usage("plan", "one model at a time: unexpected '%s'", argv[optind + 1]);
  }
  request->model = argv[optind];
  return check(request);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static trm_status load_targets(plan_request *request, trm_error *error) {
  for (size_t t = 0; t < request->targets.count; ++t) {
    const trm_status status =
        trm_target_load(request->targets.items[t], &request->machines[t], error);
    if (status != TRM_OK) return status;
  }
  return TRM_OK;
}

static trm_status grow(plan_answer *answer, trm_error *error) {
  plan_case *cases = realloc(answer->cases, (answer->num_cases + 1) * sizeof *cases);
  if (cases == NULL) return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  answer->cases = cases;
  return TRM_OK;
}

/* Runs a case, and adds it to the answer. */
static trm_status add_case(const plan_request *request, const plan_model *model, size_t target,
                           const plan_case *asked, bool full, plan_answer *answer, bool *out_fits,
                           trm_error *error) {
  trm_status status = grow(answer, error);
  if (status != TRM_OK) return status;
  plan_case *one = &answer->cases[answer->num_cases];
  const plan_model *changed = answer->changed.executable != NULL ? &answer->changed : model;
  status = plan_case_run(request, model, changed, target, asked->ipus, asked->instances,
                         asked->value, full, one, error);
  if (status != TRM_OK) return status;
  ++answer->num_cases;
  *out_fits |= one->totals.fits;
  if (!request->json && request->html == NULL) return TRM_OK;
  one->json = plan_case_json(answer, one);
  plan_case_free_details(one); /* programs of many cases would take much memory */
  return one->json != NULL ? TRM_OK
                           : fail(error, TRM_RESOURCE_EXHAUSTED,
                                  "out of memory, or a name is no "
                                  "UTF-8");
}

/* Runs all cases of one model. Those of one batch and value are shown in full, in a page all. */
static trm_status plan_model_cases(const plan_request *request, const plan_model *model,
                                   plan_answer *answer, bool *out_fits, trm_error *error) {
  const bool full = request->html != NULL || (request->num_batches <= 1 &&
                                              !request->batches_go_on && request->num_values <= 1);
  const size_t num_ipus = request->num_ipus > 0 ? request->num_ipus : 1;
  const size_t num_instances = request->num_instances > 0 ? request->num_instances : 1;
  const size_t num_values = request->num_values > 0 ? request->num_values : 1;
  *out_fits = false;
  for (size_t c = 0; c < request->targets.count * num_ipus * num_instances * num_values; ++c) {
    const size_t rest = c / num_values;
    const plan_case asked = {
        .ipus = request->ipus[rest / num_instances % num_ipus],
        .instances = request->num_instances > 0 ? request->instances[rest % num_instances] : 1,
        .value = request->values[c % num_values]};
    const trm_status status = add_case(request, model, rest / num_instances / num_ipus, &asked,
                                       full, answer, out_fits, error);
    if (status != TRM_OK) return status;
  }
  return TRM_OK;
}

static trm_status plan_all(plan_request *request, plan_answer *answer, trm_error *error) {
  trm_status status = load_targets(request, error);
  const size_t first = request->num_batches > 0 ? request->num_batches : 1;
  answer->models = calloc(PLAN_MAX_LIST, sizeof *answer->models);
  if (answer->models == NULL) status = fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  if (status == TRM_OK) {
    status =
        plan_models_read(request, request->batches, request->num_batches, answer->models, error);
  }
  if (status == TRM_OK) answer->num_models = first;
  if (status == TRM_OK && request->what_if_batch > 0) {
    status = plan_models_read(request, &request->what_if_batch, 1, &answer->changed, error);
  }
  if (status != TRM_OK) return status;
  bool fits = false;
  for (size_t m = 0; m < answer->num_models && status == TRM_OK; ++m) {
    status = plan_model_cases(request, &answer->models[m], answer, &fits, error);
    const long next = 2 * answer->models[m].batch;
    if (status != TRM_OK || m + 1 < answer->num_models || !request->batches_go_on || !fits ||
        m + 1 == PLAN_MAX_LIST || next > 1 << 20) {
      continue;
    }
    status = plan_models_read(request, &next, 1, &answer->models[m + 1], error);
    if (status == TRM_OK) ++answer->num_models;
  }
  return status;
}

static int answer_request(plan_request *request) {
  plan_answer answer = {.request = request};
  trm_error error = {0};
  trm_status status = plan_all(request, &answer, &error);
  int code = EXIT_FAILED;
  if (status == TRM_OK) {
    if (request->html != NULL) status = plan_write_page(&answer, &error);
    if (status == TRM_OK && request->json) status = plan_print_json(&answer, stdout, &error);
    if (status == TRM_OK && !request->json) plan_print_text(&answer);
    bool planned = false, fits = false;
    for (size_t c = 0; c < answer.num_cases; ++c) {
      planned |= answer.cases[c].problem[0] == '\0';
      fits |= answer.cases[c].totals.fits;
    }
    if (status == TRM_OK && !planned) {
      fail(&error, TRM_FAILED_PRECONDITION, "%s", answer.cases[0].problem);
      status = TRM_FAILED_PRECONDITION;
    }
    code = fits ? 0 : EXIT_DOES_NOT_FIT;
  }
  if (status != TRM_OK) code = complain(&error);
  for (size_t c = 0; c < answer.num_cases; ++c) plan_case_free(&answer.cases[c]);
  for (size_t m = 0; m < answer.num_models; ++m) plan_model_free(&answer.models[m]);
  plan_model_free(&answer.changed);
  free(answer.cases);
  free(answer.models);
  return code;
}

int command_plan(int argc, char **argv) {
  plan_request request = {0};
  int code = parse(argc, argv, &request);
  if (code < 0) code = answer_request(&request);
  for (size_t t = 0; t < request.targets.count; ++t) trm_target_release(request.machines[t]);
  free(request.targets.items);
  free(request.what_if.items);
  free(request.options);
  lowering_options_free(&request.lowering);
  return code;
}
