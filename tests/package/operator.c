/* A program with an operator in C++ (docs/custom_operators.md), built here and read from HLO:
 *   operator LIBRARY CODELETS      prints the operator's results for 1 and 3, of both */
#include <stdio.h>
#include <tremula/builder.h>

static trm_status run(const trm_module *module, trm_error *error) {
  const float x[] = {1, 3};
  const void *inputs[] = {x};
  float result[2];
  void *outputs[] = {result};
  trm_executable *executable = NULL;
  trm_engine *engine = NULL;
  trm_status status = trm_compile(module, NULL, 0, &executable, error);
  if (status == TRM_OK) status = trm_engine_create(executable, &engine, error);
  if (status == TRM_OK) status = trm_engine_run(engine, inputs, NULL, outputs, error);
  if (status == TRM_OK) printf("[%g %g]", (double)result[0], (double)result[1]);
  trm_engine_free(engine);
  trm_executable_free(executable);
  return status;
}

int main(int argc, char **argv) {
  trm_error error;
  trm_builder *b = NULL;
  trm_module *built = NULL, *read = NULL;
  char config[4096], *text = NULL;
  if (argc != 3) return 2;
  snprintf(config, sizeof config,
           "{\"library\":\"%s\",\"op\":\"Build\",\"poplar\":true,\"gp_path\":\"%s\"}", argv[1],
           argv[2]);
  trm_status status = trm_builder_create("operator", &b, &error);
  if (status == TRM_OK) {
    const int64_t dims[] = {2};
    const trm_type pair = {TRM_F32, 1, dims};
    const trm_value x = trm_build_parameter(b, 0, pair, "x");
    const trm_value y = trm_build_custom_call(b, "tremula.user-op", &x, 1, &pair, 1, false, config);
    status = trm_builder_build(b, y, &built, &error);
  }
  if (status == TRM_OK) status = run(built, &error);
  if (status == TRM_OK) status = trm_module_print(built, &text, &error);
  if (status == TRM_OK) {
    size_t size = 0;
    while (text[size] != '\0') ++size;
    status = trm_module_read(text, size, "operator.hlo", &read, &error);
  }
  if (status == TRM_OK) status = run(read, &error);
  if (status != TRM_OK) fprintf(stderr, "operator: %s\n", error.message);
  trm_free(text);
  trm_module_free(read);
  trm_module_free(built);
  trm_builder_free(b);
  return status != TRM_OK;
}
