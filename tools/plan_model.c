/* Owns: tremula plan: the executables to estimate. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan.h"
#include "tremula/inspect.h"

void plan_model_free(plan_model *model) {
  trm_executable_free(model->executable);
  model->executable = NULL;
}

/* Reads Python's notes about a model that it has lowered. */
static void read_side_table(plan_model *model) {
  const char *text = trm_inspect_side_table(model->executable);
  json_t *table = text == NULL ? NULL : json_loads(text, 0, NULL);
  const json_t *parameters = json_object_get(table, "parameters");
  if (parameters != NULL) {
    model->parameters = json_integer_value(json_object_get(parameters, "count"));
    model->parameter_bytes = json_integer_value(json_object_get(parameters, "bytes"));
  }
  model->has_own_batch = json_is_true(json_object_get(table, "has_own_batch"));
  json_decref(table);
}

/* Whether an infeed brings the data of a run. */
static bool has_infeed(const trm_executable *executable) {
  char kind;
  const trm_tensor_info *elements;
  size_t count;
  for (size_t f = 0; trm_executable_feed(executable, f, &kind, &elements, &count) != NULL; ++f) {
    for (size_t e = 0; kind == 'i' && e < count; ++e) {
      if (elements[e].rank > 0) return true;
    }
  }
  return false;
}

/* The largest array that an infeed brings, whose first dimension trm_program_items counts. */
static void find_fed(const trm_executable *executable, trm_tensor_info *out_input) {
  char kind;
  const trm_tensor_info *elements;
  size_t count, most = 0;
  const char *id;
  for (size_t f = 0; (id = trm_executable_feed(executable, f, &kind, &elements, &count)); ++f) {
    for (size_t e = 0; kind == 'i' && e < count; ++e) {
      size_t bytes = trm_dtype_size(elements[e].dtype);
      for (int32_t d = 0; d < elements[e].rank; ++d) bytes *= (size_t)elements[e].dims[d];
      if (elements[e].rank == 0 || bytes <= most) continue;
      *out_input = elements[e];
      if (elements[e].name == NULL || elements[e].name[0] == '\0') out_input->name = id;
      most = bytes;
    }
  }
}

static bool is_updated(const trm_executable *executable, size_t input) {
  for (size_t o = 0; o < trm_executable_num_outputs(executable); ++o) {
    if (trm_executable_output_alias(executable, o) == (int64_t)input) return true;
  }
  return false;
}

trm_tensor_info plan_model_input(const plan_model *model, const trm_program *program,
                                 size_t *out_index) {
  trm_tensor_info input = {.name = ""};
  if (model->is_fed) {
    find_fed(model->executable, &input);
    return input;
  }
  trm_program_variable_info v = {.size = sizeof v};
  const size_t count = trm_executable_num_inputs(model->executable);
  for (size_t i = 0, n = 0; n < count && trm_program_variable_get(program, i, &v); ++i) {
    if (!v.is_input) continue;
    const size_t own = n++;
    const trm_tensor_info *info = trm_executable_input(model->executable, own);
    if (info->rank == 0 || is_updated(model->executable, own)) continue;
    if (v.is_weight && input.rank > 0) continue; /* there is one already */
    input = *info;
    if (out_index != NULL) *out_index = own;
    input.name = v.op_name[0] != '\0' ? v.op_name : info->name;
    if (!v.is_weight) break;
  }
  return input;
}

static trm_status compile(const plan_request *request, const trm_module *module, long batch,
                          plan_model *out_model, trm_error *error) {
  *out_model = (plan_model){.batch = batch, .parameters = -1, .parameter_bytes = -1};
  const trm_status status = trm_inspect_compile_for_plan(
      module, request->options, request->num_options, &out_model->executable, error);
  if (status != TRM_OK) return status;
  read_side_table(out_model);
  out_model->is_fed = has_infeed(out_model->executable);
  return TRM_OK;
}

/* ---- Another batch --------------------------------------------------------------------------- */

static trm_status refuse_batch(const plan_request *request, long batch, const char *why,
                               trm_error *error) {
  return fail(error, TRM_INVALID_ARGUMENT,
              "a batch of %ld: the shapes of %s are fixed and do not tell what they would be then "
              "(%s). Lower the model once for each batch size",
              batch, request->model, why);
}

/* Gives a model that states its batch size another one. Which input brings the batch follows from a
 * plan, because weights do not. */
static trm_status change_batch(const plan_request *request, const trm_module *module, long batch,
                               plan_model *model, trm_error *error) {
  trm_program_options options = {.size = sizeof options};
  trm_program_options_of(model->executable, &options);
  trm_program *program;
  trm_status status = trm_program_create_for_executable(model->executable, request->machines[0],
                                                        &options, &program, error);
  if (status != TRM_OK) return status;
  size_t index = 0;
  trm_error why = {0};
  trm_module *changed;
  const trm_tensor_info input = plan_model_input(model, program, &index);
  trm_program_free(program);
  if (model->is_fed) return refuse_batch(request, batch, "an infeed brings it", error);
  if (input.rank == 0) return refuse_batch(request, batch, "no input brings it", error);
  if (trm_inspect_with_batch(module, index, batch, &changed, &why) != TRM_OK) {
    return refuse_batch(request, batch, why.message, error);
  }
  plan_model_free(model);
  status = compile(request, changed, batch, model, error);
  trm_module_free(changed);
  return status;
}

/* The model for a batch size; 0: for its own. */
static trm_status compile_for(const plan_request *request, const trm_module *module, bool is_hlo,
                              long batch, plan_model *out_model, trm_error *error) {
  trm_status status = compile(request, module, batch, out_model, error);
  if (status != TRM_OK || batch == 0 || !(is_hlo || out_model->has_own_batch)) return status;
  status = change_batch(request, module, batch, out_model, error);
  if (status != TRM_OK) plan_model_free(out_model);
  return status;
}

/* ---- Python --------------------------------------------------------------------------------- */

static trm_status add_lists(string_list *arguments, const plan_request *request, trm_error *error) {
  const lowering_options *lowering = &request->lowering;
  const struct {
    char *option;
    const string_list *values;
  } lists[] = {{"--feed", &lowering->feeds},
               {"--fetch", &lowering->fetches},
               {"--shape", &lowering->shapes}};
  bool fits = true;
  for (size_t l = 0; l < sizeof lists / sizeof *lists; ++l) {
    for (size_t i = 0; i < lists[l].values->count; ++i) {
      fits = fits && string_list_add(arguments, lists[l].option) &&
             string_list_add(arguments, lists[l].values->items[i]);
    }
  }
  if (lowering->signature != NULL) {
    fits = fits && string_list_add(arguments, "--signature") &&
           string_list_add(arguments, (char *)(uintptr_t)lowering->signature);
  }
  if (request->training != NULL) {
    fits = fits && string_list_add(arguments, "--training") &&
           string_list_add(arguments, (char *)(uintptr_t)request->training);
  }
  return fits ? TRM_OK : fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
}

static trm_status lower(const plan_request *request, const long *batches, size_t count,
                        const char *folder, trm_error *error) {
  char texts[PLAN_MAX_LIST][24];
  string_list arguments = {0};
  bool fits = string_list_add(&arguments, (char *)(uintptr_t)request->model) &&
              string_list_add(&arguments, "--folder") &&
              string_list_add(&arguments, (char *)(uintptr_t)folder);
  for (size_t b = 0; b < count; ++b) {
    snprintf(texts[b], sizeof texts[b], "%ld", batches[b]);
    fits = fits && string_list_add(&arguments, "--batch") && string_list_add(&arguments, texts[b]);
  }
  trm_status status = fits ? add_lists(&arguments, request, error)
                           : fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  if (status == TRM_OK && !string_list_add(&arguments, NULL)) {
    status = fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  }
  if (status == TRM_OK) status = run_python("tremula.tool.plan", arguments.items, error);
  free(arguments.items);
  return status;
}

trm_status plan_make_folder(char *folder, trm_error *error) {
  const char *parent = getenv("TMPDIR");
  snprintf(folder, PLAN_PATH_SIZE, "%s/tremula-plan-XXXXXX",
           parent != NULL && *parent != '\0' ? parent : "/tmp");
  if (mkdtemp(folder) != NULL) return TRM_OK;
  return fail(error, TRM_UNAVAILABLE, "cannot make a temporary folder %s: %s", folder,
              strerror(errno));
}

static trm_status read_lowered(const plan_request *request, const long *batches, size_t count,
                               plan_model *models, trm_error *error) {
  char folder[PLAN_PATH_SIZE], path[PLAN_PATH_SIZE + 32];
  trm_status status = plan_make_folder(folder, error);
  if (status != TRM_OK) return status;
  status = lower(request, batches, count, folder, error);
  size_t done = 0;
  for (size_t b = 0; b < (count > 0 ? count : 1); ++b) {
    const long batch = count > 0 ? batches[b] : 0;
    snprintf(path, sizeof path, "%s/%ld.hlo.pb", folder, batch);
    trm_module *module;
    if (status == TRM_OK) status = trm_module_read_file(path, &module, error);
    if (status == TRM_OK) {
      status = compile_for(request, module, false, batch, &models[b], error);
      trm_module_free(module);
      if (status == TRM_OK) ++done;
    }
    unlink(path);
  }
  rmdir(folder);
  for (size_t b = 0; status != TRM_OK && b < done; ++b) plan_model_free(&models[b]);
  return status;
}

trm_status plan_models_read(const plan_request *request, const long *batches, size_t count,
                            plan_model *models, trm_error *error) {
  if (model_refuse_others(request->model, error) != TRM_OK) return error->status;
  if (model_needs_python(request->model, &request->lowering)) {
    return read_lowered(request, batches, count, models, error);
  }
  if (request->training != NULL) {
    return fail(
        error, TRM_INVALID_ARGUMENT,
        "--training: %s is HLO, which has no gradients; give the TensorFlow or Keras model, or "
        "HLO of a training step",
        request->model);
  }
  trm_module *module;
  trm_status status = model_read(request->model, &request->lowering, &module, error);
  if (status != TRM_OK) return status;
  size_t done = 0;
  for (; done < (count > 0 ? count : 1) && status == TRM_OK; ++done) {
    status =
        compile_for(request, module, true, count > 0 ? batches[done] : 0, &models[done], error);
  }
  for (size_t b = 0; status != TRM_OK && b + 1 < done; ++b) plan_model_free(&models[b]);
  trm_module_free(module);
  return status;
}
