/* One program on four IPUs: three of them add two of the inputs each, the fourth adds these up.
 *
 * What is built after trm_builder_set_device belongs to that IPU; the module's text shows it. */
#include <stdio.h>
#include <tremula/builder.h>

static trm_status build(trm_module **out_module, trm_error *error) {
  trm_builder *b;
  trm_status status = trm_builder_create("sharded_graph", &b, error);
  if (status != TRM_OK) return status;
  const int64_t dims[] = {2};
  const trm_type pair = {TRM_F32, 1, dims};
  const char *const names[] = {"a", "b", "c"};
  trm_value inputs[3], sums[3];
  for (int i = 0; i < 3; ++i) inputs[i] = trm_build_parameter(b, i, pair, names[i]);

  static const int pairs[3][2] = {{0, 1}, {0, 2}, {1, 2}};
  for (int shard = 0; shard < 3; ++shard) {
    trm_builder_set_device(b, shard);
    sums[shard] = trm_build_binary(b, "add", inputs[pairs[shard][0]], inputs[pairs[shard][1]]);
  }
  trm_builder_set_device(b, 3);
  const trm_value two = trm_build_binary(b, "add", sums[0], sums[1]);
  const trm_value all = trm_build_binary(b, "add", two, sums[2]);
  status = trm_builder_build(b, all, out_module, error);
  trm_builder_free(b);
  return status;
}

int main(void) {
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  trm_engine *engine = NULL;
  char *text = NULL;
  const trm_option options[] = {{"ipus", "4"}};

  if (build(&module, &error) != TRM_OK) goto failed;
  if (trm_module_print(module, &text, &error) != TRM_OK) goto failed;
  printf("%s", text);
  if (trm_compile(module, options, 1, &executable, &error) != TRM_OK) goto failed;
  if (trm_engine_create(executable, &engine, &error) != TRM_OK) goto failed;

  const float a[] = {1, 1}, b[] = {0, 1}, c[] = {1, 5};
  const void *inputs[] = {a, b, c};
  float result[2];
  void *outputs[] = {result};
  if (trm_engine_run(engine, inputs, NULL, outputs, &error) != TRM_OK) goto failed;
  printf("[%g %g]\n", (double)result[0], (double)result[1]);

  trm_free(text);
  trm_engine_free(engine);
  trm_executable_free(executable);
  trm_module_free(module);
  return 0;

failed:
  fprintf(stderr, "sharded_graph: %s\n", error.message);
  return 1;
}
