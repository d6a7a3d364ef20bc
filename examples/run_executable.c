/* Loads an executable, runs it once with inputs of all ones, and prints what single-precision
 * outputs come of it. `tremula run` does this with inputs from files.
 *
 *     run_executable FILE */
#include <stdio.h>
#include <stdlib.h>
#include <tremula/tremula.h>

/* Memory for one tensor. Floats are 1, everything else is 0. */
static void *make(const trm_tensor_info *info) {
  void *data = aligned_alloc(64, info->bytes / 64 * 64 + 64);
  if (data == NULL) exit(1);
  for (size_t i = 0; i < info->bytes; ++i) ((char *)data)[i] = 0;
  if (info->dtype == TRM_F32) {
    for (size_t i = 0; i < info->bytes / sizeof(float); ++i) ((float *)data)[i] = 1;
  }
  return data;
}

static void print(const trm_tensor_info *info, const void *data) {
  printf("%s: %s of rank %d, %zu bytes", info->name, trm_dtype_name(info->dtype), (int)info->rank,
         info->bytes);
  const size_t count = info->dtype == TRM_F32 ? info->bytes / sizeof(float) : 0;
  for (size_t i = 0; i < count && i < 8; ++i) printf(" %g", (double)((const float *)data)[i]);
  printf(count > 8 ? " ...\n" : "\n");
}

int main(int argc, char **argv) {
  trm_error error;
  trm_executable *executable = NULL;
  trm_engine *engine = NULL;
  if (argc != 2) {
    fprintf(stderr, "usage: run_executable FILE (compiled_graph writes one)\n");
    return 2;
  }
  if (trm_executable_load(argv[1], &executable, &error) != TRM_OK) goto failed;
  if (trm_engine_create(executable, &engine, &error) != TRM_OK) goto failed;

  const size_t num_inputs = trm_executable_num_inputs(executable);
  const size_t num_outputs = trm_executable_num_outputs(executable);
  void **inputs = calloc(num_inputs + 1, sizeof *inputs);
  void **outputs = calloc(num_outputs + 1, sizeof *outputs);
  if (inputs == NULL || outputs == NULL) return 1;
  for (size_t i = 0; i < num_inputs; ++i) inputs[i] = make(trm_executable_input(executable, i));
  for (size_t i = 0; i < num_outputs; ++i) outputs[i] = make(trm_executable_output(executable, i));
  if (trm_engine_run(engine, (const void *const *)inputs, NULL, outputs, &error) != TRM_OK) {
    goto failed;
  }
  for (size_t i = 0; i < num_outputs; ++i) print(trm_executable_output(executable, i), outputs[i]);

  for (size_t i = 0; i < num_inputs; ++i) free(inputs[i]);
  for (size_t i = 0; i < num_outputs; ++i) free(outputs[i]);
  free(inputs);
  free(outputs);
  trm_engine_free(engine);
  trm_executable_free(executable);
  return 0;

failed:
  fprintf(stderr, "run_executable: %s\n", error.message);
  return 1;
}
