/* A program is compiled once and kept in a file: basic_graph's, for run_executable to run.
 *
 *     compiled_graph [FILE] */
#include <stdio.h>
#include <tremula/builder.h>

static trm_status build(trm_module **out_module, trm_error *error) {
  trm_builder *b;
  trm_status status = trm_builder_create("compiled_graph", &b, error);
  if (status != TRM_OK) return status;
  const int64_t dims[] = {2};
  const trm_type pair = {TRM_F32, 1, dims};
  const char *const names[] = {"a", "b", "c"};
  trm_value inputs[3];
  for (int i = 0; i < 3; ++i) inputs[i] = trm_build_parameter(b, i, pair, names[i]);
  const trm_value left = trm_build_binary(b, "add", inputs[0], inputs[1]);
  const trm_value right = trm_build_binary(b, "add", inputs[0], inputs[2]);
  status = trm_builder_build(b, trm_build_binary(b, "add", left, right), out_module, error);
  trm_builder_free(b);
  return status;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "compiled_graph.poplar_exec";
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  char *text = NULL;
  const trm_option options[] = {{"target", "mk2"}, {"ipus", "1"}};

  if (build(&module, &error) != TRM_OK) goto failed;
  if (trm_compile(module, options, 2, &executable, &error) != TRM_OK) goto failed;
  if (trm_executable_save(executable, path, &error) != TRM_OK) goto failed;
  if (trm_executable_print(executable, &text, &error) != TRM_OK) goto failed;
  printf("%s", text);
  printf("wrote %s: %zu inputs, %zu output\n", path, trm_executable_num_inputs(executable),
         trm_executable_num_outputs(executable));

  trm_free(text);
  trm_executable_free(executable);
  trm_module_free(module);
  return 0;

failed:
  fprintf(stderr, "compiled_graph: %s\n", error.message);
  return 1;
}
