/* A program from nothing: three inputs, three additions, one result. */
#include <stdio.h>
#include <tremula/builder.h>

int main(void) {
  trm_error error;
  trm_builder *b = NULL;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  trm_engine *engine = NULL;

  /* The graph. A mistake in it is remembered, and trm_builder_build tells of it. */
  if (trm_builder_create("basic_graph", &b, &error) != TRM_OK) goto failed;
  const int64_t dims[] = {2};
  const trm_type pair = {TRM_F32, 1, dims};
  const trm_value x = trm_build_parameter(b, 0, pair, "a");
  const trm_value y = trm_build_parameter(b, 1, pair, "b");
  const trm_value z = trm_build_parameter(b, 2, pair, "c");
  const trm_value left = trm_build_binary(b, "add", x, y);
  const trm_value right = trm_build_binary(b, "add", x, z);
  const trm_value sum = trm_build_binary(b, "add", left, right);
  if (trm_builder_build(b, sum, &module, &error) != TRM_OK) goto failed;

  if (trm_compile(module, NULL, 0, &executable, &error) != TRM_OK) goto failed;
  if (trm_engine_create(executable, &engine, &error) != TRM_OK) goto failed;

  const float a_data[] = {1, 1}, b_data[] = {0, 1}, c_data[] = {1, 5};
  const void *inputs[] = {a_data, b_data, c_data};
  float result[2];
  void *outputs[] = {result};
  if (trm_engine_run(engine, inputs, NULL, outputs, &error) != TRM_OK) goto failed;
  printf("[%g %g]\n", (double)result[0], (double)result[1]);

  trm_engine_free(engine);
  trm_executable_free(executable);
  trm_module_free(module);
  trm_builder_free(b);
  return 0;

failed:
  fprintf(stderr, "basic_graph: %s\n", error.message);
  return 1;
}
