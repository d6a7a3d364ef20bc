/* Owns: modules as HLO text, in XLA's long form; instructions in messages. */
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "hlo/attributes.h"
#include "hlo/hlo.h"
#include "hlo/library_call.h"
#include "hlo/literal.h"

static void append(trm_text *out, const char *text) { trm_text_append(out, text, strlen(text)); }

/* ---- Strings and names ---------------------------------------------------------------------- */

/* In quotes, with C escapes: bytes that are not printable ASCII as three octal digits. */
static void print_string(const char *text, size_t size, trm_text *out) {
  append(out, "\"");
  size_t plain = 0; /* the first byte that is not written yet */
  for (size_t i = 0; i < size; ++i) {
    const unsigned char c = (unsigned char)text[i];
    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') continue;
    trm_text_append(out, text + plain, i - plain);
    plain = i + 1;
    switch (c) {
      case '\n': append(out, "\\n"); break;
      case '\r': append(out, "\\r"); break;
      case '\t': append(out, "\\t"); break;
      case '"': append(out, "\\\""); break;
      case '\\': append(out, "\\\\"); break;
      default: trm_text_format(out, "\\%03o", c); break;
    }
  }
  trm_text_append(out, text + plain, size - plain);
  append(out, "\"");
}

static bool is_plain_name(const char *name) {
  if (*name == '\0') return false;
  for (; *name != '\0'; ++name) {
    const char c = *name;
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
          c == '.' || c == '-')) {
      return false;
    }
  }
  return true;
}

/* After the percent sign. XLA's names are plain; others are quoted, with '_' for the two characters
 * that quotes cannot hold. */
static void print_bare_name(const char *name, trm_text *out) {
  if (is_plain_name(name)) {
    append(out, name);
    return;
  }
  append(out, "\"");
  if (*name == '\0') append(out, "_");
  for (; *name != '\0'; ++name) {
    trm_text_append(out, *name == '"' || *name == '\\' ? "_" : name, 1);
  }
  append(out, "\"");
}

static void print_percent_name(const char *name, trm_text *out) {
  append(out, "%");
  print_bare_name(name, out);
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Where names have no percent sign unless they need it. */
static void print_name(const char *name, trm_text *out) {
  if (!is_letter(*name) || !is_plain_name(name)) append(out, "%");
  print_bare_name(name, out);
}

/* ---- Values of attributes ------------------------------------------------------------------- */

static void print_numbers(const trm_dims *dims, trm_text *out) {
  append(out, "{");
  for (int32_t i = 0; i < dims->count; ++i) {
    trm_text_format(out, "%s%" PRId64, i == 0 ? "" : ",", dims->items[i]);
  }
  append(out, "}");
}

static void print_slice(const trm_slice_dimension *slice, int32_t rank, trm_text *out) {
  append(out, "{");
  for (int32_t i = 0; i < rank; ++i) {
    trm_text_format(out, "%s[%" PRId64 ":%" PRId64, i == 0 ? "" : ", ", slice[i].start,
                    slice[i].limit);
    if (slice[i].stride != 1) trm_text_format(out, ":%" PRId64, slice[i].stride);
    append(out, "]");
  }
  append(out, "}");
}

static void print_padding(const trm_padding_dimension *padding, int32_t rank, trm_text *out) {
  for (int32_t i = 0; i < rank; ++i) {
    trm_text_format(out, "%s%" PRId64 "_%" PRId64, i == 0 ? "" : "x", padding[i].low,
                    padding[i].high);
    if (padding[i].interior != 0) trm_text_format(out, "_%" PRId64, padding[i].interior);
  }
}

static void print_window(const trm_window *window, trm_text *out) {
  bool stride = false, pad = false, base = false, dilation = false, reversal = false;
  const int32_t rank = window->rank;
  for (int32_t i = 0; i < rank; ++i) {
    const trm_window_dimension *d = &window->dims[i];
    stride = stride || d->stride != 1;
    pad = pad || d->padding_low != 0 || d->padding_high != 0;
    base = base || d->base_dilation != 1;
    dilation = dilation || d->window_dilation != 1;
    reversal = reversal || d->reversal;
  }
#define PRINT_FIELD(wanted, name, value)                                                           \
  if (wanted) {                                                                                    \
    for (int32_t i = 0; i < rank; ++i) {                                                           \
      trm_text_format(out, "%s%" PRId64, i == 0 ? name "=" : "x", (int64_t)window->dims[i].value); \
    }                                                                                              \
  }
  append(out, "{");
  PRINT_FIELD(true, "size", size)
  PRINT_FIELD(stride, " stride", stride)
  if (pad) {
    for (int32_t i = 0; i < rank; ++i) {
      trm_text_format(out, "%s%" PRId64 "_%" PRId64, i == 0 ? " pad=" : "x",
                      window->dims[i].padding_low, window->dims[i].padding_high);
    }
  }
  PRINT_FIELD(base, " lhs_dilate", base_dilation)
  PRINT_FIELD(dilation, " rhs_dilate", window_dilation)
  PRINT_FIELD(reversal, " rhs_reversal", reversal)
  append(out, "}");
#undef PRINT_FIELD
}

static void print_labels(const char *letters, int64_t first, int64_t second, const int64_t *spatial,
                         int32_t count, trm_text *out) {
  char labels[TRM_MAX_RANK + 1];
  int64_t last = -1;
  memset(labels, '?', sizeof labels);
#define PUT(position, letter)                         \
  if ((position) >= 0 && (position) < TRM_MAX_RANK) { \
    labels[position] = (char)(letter);                \
    if ((position) > last) last = (position);         \
  }
  PUT(first, letters[0])
  PUT(second, letters[1])
  for (int32_t i = 0; i < count; ++i) PUT(spatial[i], i < 10 ? '0' + i : '?')
#undef PUT
  trm_text_append(out, labels, (size_t)(last + 1));
}

static void print_dim_labels(const trm_convolution *c, trm_text *out) {
  print_labels("bf", c->input_batch, c->input_feature, c->input_spatial, c->spatial_rank, out);
  append(out, "_");
  print_labels("io", c->kernel_input_feature, c->kernel_output_feature, c->kernel_spatial,
               c->spatial_rank, out);
  append(out, "->");
  print_labels("bf", c->output_batch, c->output_feature, c->output_spatial, c->spatial_rank, out);
}

static void print_groups(const trm_replica_groups *groups, trm_text *out) {
  append(out, "{");
  for (int32_t i = 0; i < groups->count; ++i) {
    if (i > 0) append(out, ",");
    print_numbers(&groups->groups[i], out);
  }
  append(out, "}");
}

static void print_pairs(const trm_dims *pairs, trm_text *out) {
  append(out, "{");
  for (int32_t i = 0; i + 1 < pairs->count; i += 2) {
    trm_text_format(out, "%s{%" PRId64 ",%" PRId64 "}", i == 0 ? "" : ",", pairs->items[i],
                    pairs->items[i + 1]);
  }
  append(out, "}");
}

static void print_frontend(const char *const *list, trm_text *out) {
  append(out, "{");
  for (size_t i = 0; list[i] != NULL; i += 2) {
    if (i > 0) append(out, ",");
    if (is_plain_name(list[i]) && is_letter(*list[i])) {
      append(out, list[i]);
    } else {
      print_string(list[i], strlen(list[i]), out);
    }
    append(out, "=");
    print_string(list[i + 1], strlen(list[i + 1]), out);
  }
  append(out, "}");
}

static void print_metadata(const trm_metadata *metadata, trm_text *out) {
  const char *space = "";
  const struct {
    const char *name, *text;
  } texts[] = {{"op_type", metadata->op_type},
               {"op_name", metadata->op_name},
               {"source_file", metadata->source_file}};
  append(out, "{");
  for (int i = 0; i < 3; ++i) {
    if (texts[i].text == NULL || *texts[i].text == '\0') continue;
    trm_text_format(out, "%s%s=", space, texts[i].name);
    print_string(texts[i].text, strlen(texts[i].text), out);
    space = " ";
  }
  if (metadata->source_line != 0) {
    trm_text_format(out, "%ssource_line=%" PRId32, space, metadata->source_line);
  }
  append(out, "}");
}

static void print_precisions(const trm_dims *precisions, trm_text *out) {
  append(out, "{");
  for (int32_t i = 0; i < precisions->count; ++i) {
    const char *text = trm_attribute_spelling(KIND_PRECISIONS, precisions->items[i]);
    trm_text_format(out, "%s%s", i == 0 ? "" : ",", text != NULL ? text : "default");
  }
  append(out, "}");
}

static void print_references(const trm_module *module, const trm_computation *computation,
                             const trm_instruction *instruction, bool control, trm_text *out) {
  append(out, "{");
  const uint32_t count = control ? instruction->num_control_predecessors : instruction->num_called;
  for (uint32_t i = 0; i < count; ++i) {
    if (i > 0) append(out, ", ");
    print_percent_name(control
                           ? computation->instructions[instruction->control_predecessors[i]].name
                           : module->computations[instruction->called[i]].name,
                       out);
  }
  append(out, "}");
}

/* ---- Instructions --------------------------------------------------------------------------- */

/* Which of the ways to name its computations an instruction uses. */
static bool names_called(const trm_computation *computation, const trm_instruction *instruction,
                         const trm_attribute *attribute) {
  const bool is_list = attribute->kind == KIND_COMPUTATIONS;
  if (instruction->num_called <= attribute->place) return false;
  if (instruction->opcode == TRM_OP_CONDITIONAL) {
    if (instruction->num_operands == 0 || instruction->num_called != 2) return is_list;
    const bool is_predicate =
        computation->instructions[instruction->operands[0]].shape.dtype == TRM_PRED;
    return is_predicate ? !is_list : is_list;
  }
  if (instruction->opcode == TRM_OP_CUSTOM_CALL) return is_list == (instruction->num_called > 1);
  return true;
}

/* The comparison type that XLA does not print. */
static trm_comparison_type default_comparison(trm_dtype dtype) {
  switch (dtype) {
    case TRM_S8:
    case TRM_S16:
    case TRM_S32:
    case TRM_S64: return TRM_CMPTYPE_SIGNED;
    case TRM_PRED:
    case TRM_U8:
    case TRM_U16:
    case TRM_U32:
    case TRM_U64: return TRM_CMPTYPE_UNSIGNED;
    default: return TRM_CMPTYPE_FLOAT;
  }
}

/* What XLA's reader wants to see, also empty: the lists of a gather or scatter but those of
 * batches; and `largest`, which is true where a text has none. */
static bool is_always_printed(const trm_attribute *attribute) {
  const bool is_indexed = attribute->owner == OWNER_gather || attribute->owner == OWNER_scatter;
  return (is_indexed && attribute->kind == KIND_DIMS &&
          strstr(attribute->name, "batching") == NULL) ||
         strcmp(attribute->name, "largest") == 0;
}

/* Whether an optional attribute says anything. */
static bool is_set(const trm_attribute *attribute, const trm_instruction *instruction,
                   const void *place) {
  if (is_always_printed(attribute)) return true;
  switch (attribute->kind) {
    case KIND_BOOLEAN: return *(const bool *)place;
    case KIND_DIMS:
    case KIND_IOTA_DIM:
    case KIND_PAIRS:
    case KIND_PRECISIONS: return ((const trm_dims *)place)->count > 0;
    case KIND_NUMBER:
    case KIND_ONE_DIM: return *(const int64_t *)place != 0;
    case KIND_COUNT: return *(const int64_t *)place != 1;
    case KIND_COLLECTIVE_DIM: return instruction->collective->has_dimension;
    case KIND_GROUPS: return ((const trm_replica_groups *)place)->count > 0;
    case KIND_COMPARISON_ORDER: return false; /* the type says it */
    case KIND_COMPARISON_TYPE:
    case KIND_DOT_ALGORITHM:
    case KIND_API_VERSION: return *(const int *)place != 0;
    case KIND_WORD:
    case KIND_STRING:
    case KIND_TEXT:
    case KIND_LITERAL:
    case KIND_SLICE:
    case KIND_PADDING:
    case KIND_FRONTEND:
    case KIND_BACKEND_CONFIG: return *(const void *const *)place != NULL;
    case KIND_WINDOW:
      return instruction->window != NULL &&
             (instruction->window->rank > 0 || instruction->opcode == TRM_OP_CUSTOM_CALL);
    case KIND_CONTROL: return instruction->num_control_predecessors > 0;
    case KIND_METADATA: {
      const trm_metadata *m = place;
      return (m->op_type != NULL && *m->op_type != '\0') ||
             (m->op_name != NULL && *m->op_name != '\0') ||
             (m->source_file != NULL && *m->source_file != '\0') || m->source_line != 0;
    }
    default: return true;
  }
}

static void print_text_value(const trm_attribute *attribute, const void *place, trm_text *out) {
  const char *text = *(const char *const *)place;
  if (text == NULL) text = "";
  if (attribute->kind == KIND_STRING) {
    print_string(text, strlen(text), out);
  } else {
    append(out, text);
  }
}

static void print_value(const trm_module *module, const trm_computation *computation,
                        const trm_instruction *instruction, const trm_attribute *attribute,
                        const void *place, trm_text *out) {
  const int32_t rank = instruction->num_operands > 0
                           ? computation->instructions[instruction->operands[0]].shape.rank
                           : 0;
  switch (attribute->kind) {
    case KIND_COMPUTATION:
      print_percent_name(module->computations[instruction->called[attribute->place]].name, out);
      break;
    case KIND_COMPUTATIONS: print_references(module, computation, instruction, false, out); break;
    case KIND_CONTROL: print_references(module, computation, instruction, true, out); break;
    case KIND_DIMS: print_numbers(place, out); break;
    case KIND_ONE_DIM:
    case KIND_COLLECTIVE_DIM: trm_text_format(out, "{%" PRId64 "}", *(const int64_t *)place); break;
    case KIND_IOTA_DIM: {
      const trm_dims *dims = place;
      trm_text_format(out, "%" PRId64, dims->count > 0 ? dims->items[0] : 0);
      break;
    }
    case KIND_NUMBER:
    case KIND_COUNT: trm_text_format(out, "%" PRId64, *(const int64_t *)place); break;
    case KIND_NUMBER32: trm_text_format(out, "%" PRId32, *(const int32_t *)place); break;
    case KIND_BOOLEAN: append(out, *(const bool *)place ? "true" : "false"); break;
    case KIND_FLOAT: trm_literal_print_element(TRM_F32, place, out); break;
    case KIND_SLICE: print_slice(instruction->slice, rank, out); break;
    case KIND_PADDING: print_padding(instruction->padding, rank, out); break;
    case KIND_WINDOW: print_window(instruction->window, out); break;
    case KIND_DIM_LABELS: print_dim_labels(instruction->convolution, out); break;
    case KIND_GROUPS: print_groups(place, out); break;
    case KIND_PAIRS: print_pairs(place, out); break;
    case KIND_PRECISIONS: print_precisions(place, out); break;
    case KIND_WORD:
    case KIND_STRING:
    case KIND_TEXT: print_text_value(attribute, place, out); break;
    case KIND_LITERAL:
      trm_shape_print(&instruction->literal->shape, true, out);
      append(out, " ");
      trm_literal_print(instruction->literal, out);
      break;
    case KIND_FRONTEND: print_frontend(instruction->frontend_attributes, out); break;
    case KIND_METADATA: print_metadata(place, out); break;
    case KIND_BACKEND_CONFIG:
      print_string(instruction->backend_config, instruction->backend_config_size, out);
      break;
    case KIND_COMPARISON:
    case KIND_COMPARISON_TYPE:
    case KIND_COMPARISON_ORDER:
    case KIND_DISTRIBUTION:
    case KIND_ALGORITHM:
    case KIND_DOT_ALGORITHM:
    case KIND_FFT_TYPE:
    case KIND_TRANSPOSE:
    case KIND_API_VERSION: {
      const char *text = trm_attribute_spelling(attribute->kind, *(const int *)place);
      if (text != NULL) append(out, text);
      else trm_text_format(out, "%d", *(const int *)place);
      break;
    }
  }
}

static void print_attributes(const trm_module *module, const trm_computation *computation,
                             const trm_instruction *instruction, trm_text *out) {
  const trm_attribute *attribute;
  bool required;
  for (int i = 0; (attribute = trm_attribute_of(instruction->opcode, i, &required)) != NULL; ++i) {
    /* The place is only read. */
    const void *place = trm_attribute_place(attribute, (trm_instruction *)instruction);
    if (attribute->owner == OWNER_called) {
      if (!names_called(computation, instruction, attribute)) continue;
    } else if (place == NULL || (!required && !is_set(attribute, instruction, place))) {
      continue;
    }
    if (attribute->kind == KIND_WINDOW && instruction->window == NULL) continue;
    if (attribute->kind == KIND_COMPARISON_TYPE && instruction->num_operands > 0 &&
        instruction->comparison_type ==
            default_comparison(computation->instructions[instruction->operands[0]].shape.dtype)) {
      continue;
    }
    trm_text_format(out, ", %s=", attribute->name);
    print_value(module, computation, instruction, attribute, place, out);
  }
}

static void print_operands(const trm_computation *computation, const trm_instruction *instruction,
                           trm_text *out) {
  append(out, "(");
  if (instruction->opcode == TRM_OP_PARAMETER) {
    trm_text_format(out, "%" PRId64, instruction->number);
  } else if (instruction->opcode == TRM_OP_CONSTANT) {
    if (instruction->literal != NULL) trm_literal_print(instruction->literal, out);
  }
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    const trm_instruction *operand = &computation->instructions[instruction->operands[i]];
    if (i > 0) append(out, ", ");
    trm_shape_print(&operand->shape, true, out);
    append(out, " ");
    print_percent_name(operand->name, out);
  }
  append(out, ")");
}

static void print_computation(const trm_module *module, uint32_t index, trm_text *out) {
  const trm_computation *computation = &module->computations[index];
  if (index == module->entry) append(out, "ENTRY ");
  print_percent_name(computation->name, out);
  append(out, " (");
  for (uint32_t p = 0; p < computation->num_parameters; ++p) {
    if (computation->parameters[p] == TRM_NO_INDEX) continue;
    const trm_instruction *parameter = &computation->instructions[computation->parameters[p]];
    if (p > 0) append(out, ", ");
    print_name(parameter->name, out);
    append(out, ": ");
    trm_shape_print(&parameter->shape, false, out);
  }
  append(out, ") -> ");
  trm_shape_print(&computation->instructions[computation->root].shape, false, out);
  append(out, " {\n");
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    append(out, i == computation->root ? "  ROOT " : "  ");
    print_percent_name(instruction->name, out);
    append(out, " = ");
    trm_shape_print(&instruction->shape, true, out);
    trm_text_format(out, " %s", trm_opcode_name(instruction->opcode));
    print_operands(computation, instruction, out);
    print_attributes(module, computation, instruction, out);
    if (instruction->library_call != NULL) {
      append(out, " /*library: ");
      trm_library_call_print(instruction->library_call, out);
      append(out, "*/");
    }
    append(out, "\n");
  }
  append(out, "}\n");
}

/* ---- Modules -------------------------------------------------------------------------------- */

static void print_header(const trm_module *module, trm_text *out) {
  append(out, "HloModule ");
  print_name(module->name, out);
  if (module->is_scheduled) append(out, ", is_scheduled=true");
  if (module->num_aliases > 0) {
    append(out, ", input_output_alias={ ");
    for (uint32_t i = 0; i < module->num_aliases; ++i) {
      const trm_alias *alias = &module->aliases[i];
      if (i > 0) append(out, ", ");
      print_numbers(&alias->output_index, out);
      trm_text_format(out, ": (%" PRId64 ", ", alias->parameter_number);
      print_numbers(&alias->parameter_index, out);
      append(out, alias->must_alias ? ", must-alias)" : ", may-alias)");
    }
    append(out, " }");
  }
  const trm_computation *entry = &module->computations[module->entry];
  append(out, ", entry_computation_layout={(");
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    if (entry->parameters[p] == TRM_NO_INDEX) continue;
    if (p > 0) append(out, ", ");
    trm_shape_print(&entry->instructions[entry->parameters[p]].shape, true, out);
  }
  append(out, ")->");
  trm_shape_print(&entry->instructions[entry->root].shape, true, out);
  append(out, "}");
  if (module->frontend_side_table != NULL) {
    append(out, ", frontend_attributes={tremula_side_table=");
    print_string(module->frontend_side_table, strlen(module->frontend_side_table), out);
    append(out, "}");
  }
  append(out, "\n");
}

trm_status trm_module_print(const trm_module *module, char **out_text, trm_error *error) {
  trm_text text = {0};
  if (module->entry >= module->num_computations ||
      module->computations[module->entry].root == TRM_NO_INDEX) {
    FAIL(FAILED_PRECONDITION, "the module has no entry computation with a root");
  }
  /* Numbers are written as in C, independent of the process's locale. */
  const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c_locale == (locale_t)0) FAIL_NO_MEMORY("a text");
  const locale_t before = uselocale(c_locale);
  print_header(module, &text);
  for (uint32_t i = 0; i < module->num_computations; ++i) {
    append(&text, "\n");
    print_computation(module, i, &text);
  }
  uselocale(before);
  freelocale(c_locale);
  if (text.failed) {
    trm_text_free(&text);
    FAIL_NO_MEMORY("a text");
  }
  *out_text = text.data;
  return TRM_OK;
}

const char *trm_instruction_text(const trm_module *module, const trm_instruction *instruction,
                                 char *buffer, size_t size) {
  char shape[160];
  const trm_metadata *metadata = &instruction->metadata;
  const bool has_file = metadata->source_file != NULL && *metadata->source_file != '\0';
  const bool has_name = metadata->op_name != NULL && *metadata->op_name != '\0';
  (void)module;
  int used = snprintf(buffer, size, "%%%s = %s %s(...)",
                      instruction->name != NULL ? instruction->name : "?",
                      trm_shape_text(&instruction->shape, shape, sizeof shape),
                      trm_opcode_name(instruction->opcode));
  if (used < 0 || (size_t)used >= size || (!has_file && !has_name)) return buffer;
  char line[16] = "";
  if (has_file && metadata->source_line != 0) {
    snprintf(line, sizeof line, ":%" PRId32, metadata->source_line);
  }
  snprintf(buffer + used, size - (size_t)used, " (%s%s%s%s)", has_file ? metadata->source_file : "",
           line, has_file && has_name ? ", " : "", has_name ? metadata->op_name : "");
  return buffer;
}
