/* Owns: framework.json: who compiled, with which options, and the graph of HLO instructions. */
#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "report/write.h"

/* Sets a value that json_object_set_new takes; a NULL value is memory that ran out. */
static bool set(json_t *object, const char *key, json_t *value) {
  return value != NULL && json_object_set_new(object, key, value) == 0;
}

/* JSON's text must be UTF-8; names from files need not be. */
static json_t *text_of(const char *text) {
  if (text == NULL) return json_null();
  json_t *value = json_string(text);
  return value != NULL ? value : json_string("?");
}

static json_t *instruction_of(const trm_computation *computation,
                              const trm_instruction *instruction) {
  json_t *object = json_object(), *operands = json_array();
  bool good = object != NULL && operands != NULL;
  for (uint32_t o = 0; o < instruction->num_operands && good; ++o) {
    const trm_index operand = instruction->operands[o];
    good = json_array_append_new(operands, text_of(computation->instructions[operand].name)) == 0;
  }
  json_t *dims = json_array();
  good = good && dims != NULL;
  for (int32_t d = 0; d < instruction->shape.rank && good; ++d) {
    good = json_array_append_new(dims, json_integer(instruction->shape.dims[d])) == 0;
  }
  good = good && set(object, "name", text_of(instruction->name)) &&
         set(object, "opcode", text_of(trm_opcode_name(instruction->opcode))) &&
         set(object, "type", text_of(trm_dtype_name(instruction->shape.dtype))) &&
         set(object, "dimensions", json_incref(dims)) &&
         set(object, "operands", json_incref(operands)) &&
         set(object, "opName", text_of(instruction->metadata.op_name));
  json_decref(operands);
  json_decref(dims);
  if (good) return object;
  json_decref(object);
  return NULL;
}

static json_t *graph_of(const trm_module *module) {
  json_t *computations = json_array();
  for (uint32_t c = 0; c < module->num_computations && computations != NULL; ++c) {
    const trm_computation *computation = &module->computations[c];
    json_t *instructions = json_array();
    bool good = instructions != NULL;
    for (uint32_t i = 0; i < computation->num_instructions && good; ++i) {
      json_t *one = instruction_of(computation, &computation->instructions[i]);
      good = one != NULL && json_array_append_new(instructions, one) == 0;
    }
    json_t *object = json_object();
    good = good && set(object, "name", text_of(computation->name)) &&
           set(object, "entry", json_boolean(c == module->entry)) &&
           set(object, "instructions", json_incref(instructions)) &&
           json_array_append(computations, object) == 0;
    json_decref(instructions);
    json_decref(object);
    if (good) continue;
    json_decref(computations);
    computations = NULL;
  }
  return computations;
}

static json_t *options_of(const trm_report_source *s, bool engine) {
  json_t *object = json_object();
  bool good = object != NULL, plans;
  trm_report_option_row row = {.size = sizeof row};
  for (size_t o = 0; engine && good && trm_report_option(o, &row); ++o) {
    if (s->options->given[o]) good = set(object, row.key, text_of(s->options->texts[o]));
  }
  const trm_option_row *own;
  for (size_t o = 0; !engine && good && (own = trm_options_row(o, &plans)) != NULL; ++o) {
    good = set(object, own->key, text_of(s->executable->options.texts[o]));
  }
  if (good) return object;
  json_decref(object);
  return NULL;
}

trm_status trm_report_write_framework(const trm_report_source *s, const char *path,
                                      trm_error *error) {
  json_t *object = json_object();
  const bool good = object != NULL && set(object, "framework", text_of(s->framework)) &&
                    set(object, "version", text_of(s->framework_version)) &&
                    set(object, "tremula", text_of(TRM_VERSION_STRING)) &&
                    set(object, "module", text_of(s->program->module->name)) &&
                    set(object, "options", options_of(s, false)) &&
                    set(object, "engineOptions", options_of(s, true)) &&
                    set(object, "computations", graph_of(s->program->module));
  char *text = good ? json_dumps(object, JSON_INDENT(1)) : NULL;
  json_decref(object);
  if (text == NULL) FAIL(RESOURCE_EXHAUSTED, "out of memory while making %s", path);
  const trm_status status = trm_write_file(path, text, strlen(text), error);
  free(text);
  return status;
}
