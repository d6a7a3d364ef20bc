/* Owns: modules in the DOT language. */
#include "hlo/dot.h"

#include "hlo/sharding.h"

enum { SHAPE_SIZE = 160, NUM_COLORS = 8 };

static const char *const colors_of_ipus[NUM_COLORS] = {
    "lightblue", "palegreen", "khaki", "plum", "salmon", "lightgrey", "orange", "aquamarine"};

/* Between quotes. */
static void append_quoted(const char *string, trm_text *text) {
  for (; *string != '\0'; ++string) {
    if (*string == '"' || *string == '\\') trm_text_append(text, "\\", 1);
    if (*string == '\n') trm_text_append(text, "\\n", 2);
    else trm_text_append(text, string, 1);
  }
}

static void append_node(const trm_module *module, uint32_t c, trm_index i, bool colors,
                        uint32_t place, trm_text *text) {
  const trm_computation *computation = &module->computations[c];
  const trm_instruction *instruction = &computation->instructions[i];
  char shape[SHAPE_SIZE];
  trm_text_format(text, "    n%u_%u [label=\"", c, i);
  if (place > 0) trm_text_format(text, "#%u ", place);
  append_quoted(instruction->name, text);
  trm_text_format(text, "\\n%s\\n%s", trm_opcode_name(instruction->opcode),
                  trm_shape_text(&instruction->shape, shape, sizeof shape));
  if (instruction->metadata.op_name != NULL) {
    trm_text_append(text, "\\n", 2);
    append_quoted(instruction->metadata.op_name, text);
  }
  trm_text_append(text, "\"", 1);
  if (i == computation->root) trm_text_format(text, ", peripheries=2");
  const int32_t device = colors ? trm_sharding_device(instruction->sharding) : -1;
  if (device >= 0) {
    trm_text_format(text, ", style=filled, fillcolor=%s", colors_of_ipus[device % NUM_COLORS]);
  }
  trm_text_append(text, "];\n", 3);
}

static void append_edges(const trm_module *module, uint32_t c, trm_index i, trm_text *text) {
  const trm_instruction *instruction = &module->computations[c].instructions[i];
  for (uint32_t o = 0; o < instruction->num_operands; ++o) {
    trm_text_format(text, "  n%u_%u -> n%u_%u;\n", c, instruction->operands[o], c, i);
  }
  for (uint32_t o = 0; o < instruction->num_control_predecessors; ++o) {
    trm_text_format(text, "  n%u_%u -> n%u_%u [style=dashed];\n", c,
                    instruction->control_predecessors[o], c, i);
  }
  for (uint32_t o = 0; o < instruction->num_called; ++o) {
    trm_text_format(text, "  n%u_%u -> n%u_%u [style=dotted];\n", instruction->called[o],
                    module->computations[instruction->called[o]].root, c, i);
  }
}

/* From each instruction to the next in order: places are 1, 2, ... without gaps. */
static void append_order(const trm_computation *computation, uint32_t c, const uint32_t *places,
                         trm_text *text) {
  trm_index *by_place =
      trm_allocate_zeroed((size_t)computation->num_instructions + 1, sizeof *by_place);
  if (by_place == NULL) {
    text->failed = true;
    return;
  }
  uint32_t count = 0;
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    if (places[i] == 0) continue;
    by_place[places[i] - 1] = i;
    ++count;
  }
  for (uint32_t k = 1; k < count; ++k) {
    trm_text_format(text, "  n%u_%u -> n%u_%u [color=grey, constraint=false];\n", c,
                    by_place[k - 1], c, by_place[k]);
  }
  trm_free(by_place);
}

void trm_hlo_print_dot(const trm_module *module, bool colors, const uint32_t *const *order,
                       trm_text *text) {
  trm_text_format(text, "digraph \"");
  append_quoted(module->name, text);
  trm_text_format(text, "\" {\n  node [shape=box];\n");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    trm_text_format(text, "  subgraph cluster_%u {\n    label=\"", c);
    append_quoted(computation->name, text);
    trm_text_format(text, "\";\n");
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      append_node(module, c, i, colors, order != NULL ? order[c][i] : 0, text);
    }
    trm_text_format(text, "  }\n");
  }
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) append_edges(module, c, i, text);
    if (order != NULL) append_order(computation, c, order[c], text);
  }
  trm_text_format(text, "}\n");
}

trm_status trm_module_print_dot(const trm_module *module, bool colors, char **out_text,
                                trm_error *error) {
  trm_text text = {0};
  trm_hlo_print_dot(module, colors, NULL, &text);
  if (text.failed) {
    trm_text_free(&text);
    FAIL_NO_MEMORY("a graph of the module");
  }
  *out_text = text.data;
  return TRM_OK;
}
