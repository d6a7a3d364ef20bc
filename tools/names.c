/* Owns: the names of an executable's inputs and outputs.
 *
 * `tremula compile` keeps the model's names in the module's side table, as {"inputs": [...],
 * "outputs": [...]}. Without such names of the right number, inputs have the names of the program's
 * parameters, and outputs are output0, output1, ..., because passes choose the names of results,
 * such as fusion.15. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"
#include "tremula/inspect.h"

/* The i-th string of the list `key`, if the list has `count` strings. */
static const char *listed(const json_t *table, const char *key, size_t i, size_t count) {
  const json_t *list = json_object_get(table, key);
  if (json_array_size(list) != count) return NULL;
  return json_string_value(json_array_get(list, i));
}

bool interface_names_create(const trm_executable *executable, interface_names *out_names) {
  const size_t num_inputs = trm_executable_num_inputs(executable);
  const size_t num_outputs = trm_executable_num_outputs(executable);
  const char *text = trm_inspect_side_table(executable);
  *out_names = (interface_names){
      .inputs = calloc(num_inputs + 1, sizeof *out_names->inputs),
      .outputs = calloc(num_outputs + 1, sizeof *out_names->outputs),
      .numbered = calloc(num_outputs + 1, sizeof *out_names->numbered),
      .table = text != NULL ? json_loads(text, 0, NULL) : NULL,
  };
  if (out_names->inputs == NULL || out_names->outputs == NULL || out_names->numbered == NULL) {
    interface_names_free(out_names);
    return false;
  }
  for (size_t i = 0; i < num_inputs; ++i) {
    const char *name = listed(out_names->table, "inputs", i, num_inputs);
    out_names->inputs[i] = name != NULL ? name : trm_executable_input(executable, i)->name;
  }
  for (size_t i = 0; i < num_outputs; ++i) {
    const char *name = listed(out_names->table, "outputs", i, num_outputs);
    snprintf(out_names->numbered[i], sizeof *out_names->numbered, "output%zu", i);
    out_names->outputs[i] = name != NULL ? name : out_names->numbered[i];
  }
  return true;
}

void interface_names_free(interface_names *names) {
  free(names->inputs);
  free(names->outputs);
  free(names->numbered);
  json_decref(names->table);
  *names = (interface_names){0};
}

/* Whether `name` is `full` without the number after its last dot: "x" of "x.1". */
static bool is_stem(const char *name, const char *full) {
  const size_t length = strlen(name);
  if (strncmp(name, full, length) != 0 || full[length] != '.') return false;
  const char *number = full + length + 1;
  return *number != '\0' && number[strspn(number, "0123456789")] == '\0';
}

int64_t interface_find_input(const trm_executable *executable, const interface_names *names,
                             const char *name) {
  const size_t count = trm_executable_num_inputs(executable);
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(names->inputs[i], name) == 0) return (int64_t)i;
  }
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(trm_executable_input(executable, i)->name, name) == 0) return (int64_t)i;
  }
  int64_t found = -1;
  size_t num_found = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!is_stem(name, trm_executable_input(executable, i)->name)) continue;
    found = (int64_t)i;
    ++num_found;
  }
  if (num_found == 1) return found;
  char *end;
  errno = 0;
  const unsigned long long index = strtoull(name, &end, 10);
  const bool is_number = errno == 0 && name[0] >= '0' && name[0] <= '9' && *end == '\0';
  return is_number && index < count ? (int64_t)index : -1;
}
