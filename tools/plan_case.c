/* Owns: tremula plan: the estimate of one case, which is a target, a number of IPUs, a batch size
 * and options. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static const char *const swept_keys[] = {
    "availableMemoryProportion", "convolutions.availableMemoryProportion",
    "matmuls.availableMemoryProportion", "slices.availableMemoryProportion"};

const char *plan_swept_key(size_t i) {
  return i < sizeof swept_keys / sizeof *swept_keys ? swept_keys[i] : NULL;
}

const char *plan_swept_option(const char *key) {
  if (strcmp(key, swept_keys[0]) == 0) return "available_memory_proportion";
  return strcmp(key, swept_keys[3]) == 0 ? "slice_memory_proportion" : "";
}

static trm_program_options options_of(const plan_model *model, const plan_request *request,
                                      double value) {
  trm_program_options options = {.size = sizeof options};
  trm_program_options_of(model->executable, &options);
  if (request->swept == NULL) return options;
  const bool all = strcmp(request->swept, swept_keys[0]) == 0;
  if (all || strcmp(request->swept, swept_keys[1]) == 0) options.conv_memory_proportion = value;
  if (all || strcmp(request->swept, swept_keys[2]) == 0) options.matmul_memory_proportion = value;
  if (strcmp(request->swept, swept_keys[3]) == 0) options.slice_memory_proportion = value;
  return options;
}

static trm_status set_problem(plan_case *one, const trm_error *error) {
  snprintf(one->problem, sizeof one->problem, "%.500s", error->message);
  return TRM_OK;
}

/* Estimates the program as it is, or cut into shards. *out_program NULL: the case has a problem. */
static trm_status plan(const plan_model *model, const trm_target *target, plan_case *one,
                       trm_program **out_program, trm_error *error) {
  const uint32_t shards = trm_executable_num_shards(model->executable);
  *out_program = NULL;
  if (one->ipus == 0) one->ipus = shards;
  if (one->ipus % shards != 0) {
    snprintf(one->problem, sizeof one->problem,
             "the model itself uses %u IPUs, so %ld must be a multiple of that", shards, one->ipus);
    return TRM_OK;
  }
  const bool split = shards == 1 && one->ipus > 1;
  const long each = split ? 1 : one->ipus / shards; /* replicas of an instance */
  one->options.replicas = (uint32_t)(each * one->instances);
  one->options.num_ipus = shards;
  trm_program *program;
  trm_status status =
      trm_program_create_for_executable(model->executable, target, &one->options, &program, error);
  if (status != TRM_OK || !split) {
    if (status == TRM_OK) *out_program = program;
    return status;
  }
  trm_error problem = {0};
  status = trm_program_create_split(program, (uint32_t)one->ipus, out_program, &problem);
  trm_program_free(program);
  if (status == TRM_FAILED_PRECONDITION) return set_problem(one, &problem);
  if (status != TRM_OK && error != NULL) *error = problem;
  return status;
}

/* Counts weights and constants of a model for which Python has noted no numbers. */
static void count_variables(const trm_program *program, plan_case *one) {
  int64_t count = 0, bytes = 0;
  trm_program_variable_info v = {.size = sizeof v};
  for (size_t i = 0; trm_program_variable_get(program, i, &v); ++i) {
    const bool constant = v.category == TRM_CATEGORY_CONSTANT && v.count > 1;
    if (v.is_input && !v.is_weight) one->inputs_bytes += v.total_bytes;
    if (!v.is_weight && !constant) continue;
    count += v.count;
    bytes += v.total_bytes;
  }
  if (one->parameters < 0) one->parameters = count, one->parameter_bytes = bytes;
}

static trm_status describe(const plan_model *model, const trm_target *target,
                           const trm_program *program, bool full, plan_case *one,
                           trm_error *error) {
  one->totals.size = sizeof one->totals;
  trm_program_get_totals(program, &one->totals);
  one->parameters = model->parameters;
  one->parameter_bytes = model->parameter_bytes;
  count_variables(program, one);
  trm_program_tile_info tile = {.size = sizeof tile};
  if (trm_program_tile_get(program, one->totals.worst_tile, &tile)) {
    one->always_live_worst_bytes = tile.always_live;
  }
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
    one->categories[c] = trm_program_category_bytes(program, (trm_memory_category)c);
  }
  double hz;
  if (trm_target_number(target, "tileClockFrequency", &hz)) {
    one->seconds = (double)one->totals.cycles / hz;
  }
  one->input = plan_model_input(model, program, NULL);
  snprintf(one->input_name, sizeof one->input_name, "%s",
           one->input.rank > 0 ? one->input.name : "");
  one->items = one->input.rank > 0 ? one->input.dims[0] * one->totals.replicas : 0;
  bool images;
  if (model->is_fed) one->items = (int64_t)trm_program_items(program, &images);
  if (one->seconds > 0) one->items_per_second = (double)one->items / one->seconds;
  one->bytes_total = one->totals.bytes_per_tile * one->totals.tiles_per_ipu * one->totals.num_ipus;
  return full ? trm_program_list_layers(program, sizeof *one->layers, &one->layers,
                                        &one->num_layers, error)
              : TRM_OK;
}

/* Says why a case that is shown in full does not fit, and what would help. */
static trm_status explain(plan_case *one, trm_error *error) {
  if (one->totals.fits) return TRM_OK;
  const trm_status status = trm_program_explain(one->program, false, &one->explanation, error);
  return status == TRM_OK ? plan_search(one->program, &one->search, error) : status;
}

/* Plans the case with the changes of --what-if, beside the case as it is. */
static trm_status plan_what_if(const plan_request *request, const plan_model *model,
                               const trm_target *machine, const plan_case *asked, plan_case *one,
                               trm_error *error) {
  const char *changes[PLAN_MAX_LIST];
  size_t count = 0;
  for (size_t w = 0; w < request->what_if.count; ++w) {
    const char *text = request->what_if.items[w];
    if (strncmp(text, "batch=", 6) != 0) changes[count++] = text;
  }
  *one = *asked;
  one->batch = model->batch;
  trm_program *program, *changed;
  trm_status status = plan(model, machine, one, &program, error);
  if (status != TRM_OK || program == NULL) return status;
  trm_error problem = {0};
  status = trm_program_create_changed(program, changes, count, &changed, &problem);
  trm_program_free(program);
  if (status == TRM_FAILED_PRECONDITION) return set_problem(one, &problem);
  if (status != TRM_OK) {
    return fail(error, status, "--what-if: %s", problem.message);
  }
  status = describe(model, machine, changed, true, one, error);
  one->program = changed;
  return status;
}

trm_status plan_case_run(const plan_request *request, const plan_model *model,
                         const plan_model *changed, size_t target, long ipus, long instances,
                         double value, bool full, plan_case *out_case, trm_error *error) {
  const trm_target *machine = request->machines[target];
  const plan_case asked = {.target = trm_target_string(machine, "name"),
                           .ipus = ipus,
                           .instances = instances,
                           .value = value,
                           .batch = model->batch,
                           .options = options_of(model, request, value)};
  *out_case = asked;
  trm_program *program;
  trm_status status = plan(model, machine, out_case, &program, error);
  if (status == TRM_OK && program == NULL) return TRM_OK; /* a problem */
  if (status == TRM_OK) {
    status = describe(model, machine, program, full, out_case, error);
    if (status == TRM_OK && full) out_case->program = program;
    else trm_program_free(program);
  }
  if (status == TRM_OK && full) status = explain(out_case, error);
  if (status == TRM_OK && request->what_if.count > 0) {
    out_case->what_if = calloc(1, sizeof *out_case->what_if);
    status = out_case->what_if == NULL
                 ? fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory")
                 : plan_what_if(request, changed, machine, &asked, out_case->what_if, error);
  }
  if (status != TRM_OK) plan_case_free(out_case);
  return status;
}

plan_ipu plan_ipu_of(const plan_case *one, uint32_t ipu) {
  plan_ipu found = {0};
  trm_program_tile_info tile = {.size = sizeof tile};
  const size_t tiles = one->totals.tiles_per_ipu;
  for (size_t t = 0; t < tiles; ++t) {
    if (!trm_program_tile_get(one->program, ipu * tiles + t, &tile)) break;
    const int64_t bytes = tile.always_live + tile.not_always_live + tile.gaps;
    if (bytes > found.worst_tile_bytes) found.worst_tile_bytes = bytes;
    found.bytes += bytes;
  }
  double cycles = 0;
  trm_program_step_info step = {.size = sizeof step};
  for (size_t s = 0; trm_program_step_get(one->program, s, &step); ++s) {
    const bool is_leaf = step.end == s + 1;
    if (is_leaf && step.ipu == (int32_t)ipu) cycles += step.executions * (double)step.cycles;
  }
  found.cycles = (int64_t)cycles;
  return found;
}

void plan_case_free(plan_case *one) {
  plan_case_free_details(one);
  json_decref(one->json);
  one->json = NULL;
}

void plan_case_free_details(plan_case *one) {
  if (one->what_if != NULL) plan_case_free(one->what_if);
  free(one->what_if);
  one->what_if = NULL;
  trm_program_free(one->program);
  trm_free(one->layers);
  trm_free(one->explanation);
  trm_program_search_free(one->search);
  one->search = NULL;
  one->program = NULL;
  one->layers = NULL;
  one->explanation = NULL;
}
