/* Owns: framework.json: the framework that compiled, its options, and the graph of HLO
 * instructions. */
#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "report/write.h"

/* Like json_object_set_new. A NULL value means that memory ran out. */
static bool set(json_t *object, const char *key, json_t *value) {
  return value != NULL && json_object_set_new(object, key, value) == 0;
}

/* Makes a JSON text. JSON needs UTF-8, and names from files may be other bytes. */
static json_t *text_of(const char *text) {
  if (text == NULL) return json_null();
  json_t *value = json_string(text);
  return value != NULL ? value : json_string("?");
}

/* The names of the instructions `indices`; NULL: out of memory. */
static json_t *names_of(const trm_computation *computation, const trm_index *indices,
                        uint32_t count) {
  json_t *names = json_array();
  for (uint32_t k = 0; k < count && names != NULL; ++k) {
    if (json_array_append_new(names, text_of(computation->instructions[indices[k]].name)) != 0) {
      json_decref(names);
      names = NULL;
    }
  }
  return names;
}

/* Sets properties that few instructions have: control predecessors, called computations, a
 * sharding, the shape of a tuple. */
static bool set_rare(json_t *object, const trm_module *module, const trm_computation *computation,
                     const trm_instruction *instruction) {
  bool good = true;
  if (instruction->num_control_predecessors > 0) {
    good = set(object, "controlPredecessors",
               names_of(computation, instruction->control_predecessors,
                        instruction->num_control_predecessors));
  }
  if (instruction->num_called > 0 && good) {
    json_t *calls = json_array();
    good = set(object, "calls", calls);
    for (uint32_t k = 0; k < instruction->num_called && good; ++k) {
      good = json_array_append_new(calls,
                                   text_of(module->computations[instruction->called[k]].name)) == 0;
    }
  }
  if (instruction->sharding != NULL && good) {
    good = set(object, "sharding", text_of(instruction->sharding));
  }
  if (instruction->shape.dtype == TRM_TUPLE && good) {
    trm_text text = {0};
    trm_shape_print(&instruction->shape, false, &text);
    good = text.data != NULL && set(object, "shape", text_of(text.data));
    trm_text_free(&text);
  }
  return good;
}

/* The role of each instruction, which the program's sources state. */
typedef struct role_table {
  const char **roles; /* by the number of an instruction in the module */
  uint32_t *first;    /* by computation: the number of its first instruction */
} role_table;

static json_t *instruction_of(const trm_module *module, const trm_computation *computation,
                              const trm_instruction *instruction, const char *role) {
  json_t *object = json_object();
  json_t *operands = names_of(computation, instruction->operands, instruction->num_operands);
  bool good = object != NULL && operands != NULL;
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
         set(object, "opName", text_of(instruction->metadata.op_name)) &&
         (role == NULL || set(object, "role", text_of(role))) &&
         set_rare(object, module, computation, instruction);
  json_decref(operands);
  json_decref(dims);
  if (good) return object;
  json_decref(object);
  return NULL;
}

static bool find_roles(const trm_program *program, role_table *out) {
  const trm_module *module = program->module;
  uint32_t count = 0;
  out->first = trm_allocate_zeroed((size_t)module->num_computations + 1, sizeof *out->first);
  if (out->first == NULL) return false;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    out->first[c] = count;
    count += module->computations[c].num_instructions;
  }
  out->roles = trm_allocate_zeroed((size_t)count + 1, sizeof *out->roles);
  if (out->roles == NULL) return false;
  const bool is_training = trm_report_is_training(program);
  for (uint32_t s = 0; s < program->num_sources; ++s) {
    const trm_program_source *o = &program->sources[s];
    out->roles[out->first[o->computation] + o->instruction] = trm_report_role(o, is_training);
  }
  return true;
}

static json_t *graph_of(const trm_module *module, const role_table *table) {
  json_t *computations = json_array();
  for (uint32_t c = 0; c < module->num_computations && computations != NULL; ++c) {
    const trm_computation *computation = &module->computations[c];
    json_t *instructions = json_array();
    bool good = instructions != NULL;
    for (uint32_t i = 0; i < computation->num_instructions && good; ++i) {
      json_t *one = instruction_of(module, computation, &computation->instructions[i],
                                   table->roles[table->first[c] + i]);
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
  role_table table = {0};
  json_t *object = find_roles(s->program, &table) ? json_object() : NULL;
  const bool good = object != NULL && set(object, "framework", text_of(s->framework)) &&
                    set(object, "version", text_of(s->framework_version)) &&
                    set(object, "tremula", text_of(TRM_VERSION_STRING)) &&
                    set(object, "module", text_of(s->program->module->name)) &&
                    set(object, "options", options_of(s, false)) &&
                    set(object, "engineOptions", options_of(s, true)) &&
                    set(object, "computations", graph_of(s->program->module, &table));
  trm_free(table.roles);
  trm_free(table.first);
  char *text = good ? json_dumps(object, JSON_INDENT(1)) : NULL;
  json_decref(object);
  if (text == NULL) FAIL(RESOURCE_EXHAUSTED, "out of memory while making %s", path);
  const trm_status status = trm_write_file(path, text, strlen(text), error);
  free(text);
  return status;
}
