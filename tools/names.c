/* Owns: what the inputs and outputs of an executable are called.
 *
 * `tremula compile` leaves the model's own names in the module's side table, as
 * {"inputs": [...], "outputs": [...]}. An executable without them, or with ones that do not fit, has
 * the names of the program. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "inspect.h"
#include "tool.h"

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
      .table = text != NULL ? json_loads(text, 0, NULL) : NULL,
  };
  if (out_names->inputs == NULL || out_names->outputs == NULL) {
    interface_names_free(out_names);
    return false;
  }
  for (size_t i = 0; i < num_inputs; ++i) {
    const char *name = listed(out_names->table, "inputs", i, num_inputs);
    out_names->inputs[i] = name != NULL ? name : trm_executable_input(executable, i)->name;
  }
  for (size_t i = 0; i < num_outputs; ++i) {
    const char *name = listed(out_names->table, "outputs", i, num_outputs);
    out_names->outputs[i] = name != NULL ? name : trm_executable_output(executable, i)->name;
  }
  return true;
}

void interface_names_free(interface_names *names) {
  free(names->inputs);
  free(names->outputs);
  json_decref(names->table);
  *names = (interface_names){0};
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
  char *end;
  errno = 0;
  const unsigned long long index = strtoull(name, &end, 10);
  const bool is_number = errno == 0 && name[0] >= '0' && name[0] <= '9' && *end == '\0';
  return is_number && index < count ? (int64_t)index : -1;
}
