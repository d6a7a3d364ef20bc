/* Owns: the tensor map: the values of each computation, with the number of their elements on each
 * tile. An instruction that only names or views another value has no memory, so it is not listed. A
 * value is an array, in the original's order:
 *
 *   [instruction, number of the leaf, shape, type, is constant, has aliases, elements,
 *    [[tile, elements], ...], name]
 *
 * The name is that of the TensorFlow op; the name of an argument is "XLA_Args/" and the name in the
 * program. A copy to another IPU is a value "inter-ipu-copy.1" and so on, because in the original
 * it is an instruction.
 *
 * As in the original, each stage of a pipeline has a computation of its own: values of stage 1 in
 * `body` are in "body_stage_1_". A stage without values has an empty one, "pipeline_stage_1_". An
 * outlined function that is called more than once has a computation, and its gradient another one.
 * They have the name of the first call's scope, "layer" and "layer_grad". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/marked_calls.h"
#include "report/describe.h"

enum { WORD = 4 };

/* Names of types in Poplar. */
static const char *type_name(trm_dtype dtype) {
  switch (dtype) {
    case TRM_F32: return "float";
    case TRM_F64: return "float";
    case TRM_F16: return "half";
    case TRM_PRED: return "bool";
    case TRM_S8: return "char";
    case TRM_U8: return "unsigned char";
    case TRM_S16: return "short";
    case TRM_U16: return "unsigned short";
    case TRM_S32:
    case TRM_S64: return "int";
    case TRM_U32:
    case TRM_U64: return "unsigned int";
    default: return trm_dtype_name(dtype);
  }
}

/* A result of an instruction. A computation that is walked several times has several. */
typedef struct value {
  uint32_t computation;
  int32_t stage; /* of a pipeline, from 0; -1: none */
  uint32_t call; /* 2 * the outlined function's call, + 1 in its gradient; or TRM_NO_INDEX */
  uint32_t instruction, leaf, variable;
  uint32_t copy; /* the number of a copy to another IPU, from 1; 0: none */
  const trm_shape *shape;
} value;

/* Calls come first. Values of one call are one group, in all computations. */
static int by_group(const value *l, const value *r) {
  if (l->call != r->call) return l->call < r->call ? -1 : 1;
  if (l->call != TRM_NO_INDEX) return 0;
  if (l->computation != r->computation) return l->computation < r->computation ? -1 : 1;
  return (l->stage > r->stage) - (l->stage < r->stage);
}

static int by_name(const void *a, const void *b) {
  const value *l = a, *r = b;
  const int order = by_group(l, r);
  if (order != 0) return order;
  if (l->computation != r->computation) return l->computation < r->computation ? -1 : 1;
  if (l->copy != r->copy) return l->copy < r->copy ? -1 : 1;
  if (l->instruction != r->instruction) return l->instruction < r->instruction ? -1 : 1;
  if (l->leaf != r->leaf) return l->leaf < r->leaf ? -1 : 1;
  return (l->variable > r->variable) - (l->variable < r->variable);
}

/* The stage that an instruction states, or -1. A backward stage has the number of its forward
 * stage. */
static int32_t stage_of(const trm_program *p, const trm_instruction *instruction) {
  if (!p->pipeline.present) return -1;
  const char *text = trm_instruction_fused_attribute(p->module, instruction, "pipeline_stage");
  if (text == NULL) return -1;
  const unsigned long number = strtoul(text, NULL, 10);
  return number < p->pipeline.num_stages ? (int32_t)number : -1;
}

static const char call_key[] = TRM_CALL_SCOPE;

/* The calls of outlined functions. */
typedef struct call_list {
  trm_scopes scopes;
  uint32_t *matches;
} call_list;

/* value.call of an instruction. The call of a fusion is that of its first instruction with one. */
static uint32_t call_of(const trm_program *p, const call_list *calls,
                        const trm_instruction *instruction) {
  bool is_gradient;
  uint32_t scope = trm_scope_of(&calls->scopes, call_key, instruction, &is_gradient);
  if (scope == TRM_NO_INDEX && instruction->opcode == TRM_OP_FUSION) {
    const trm_computation *body = &p->module->computations[instruction->called[0]];
    for (trm_index i = 0; i < body->num_instructions && scope == TRM_NO_INDEX; ++i) {
      scope = trm_scope_of(&calls->scopes, call_key, &body->instructions[i], &is_gradient);
    }
  }
  if (scope == TRM_NO_INDEX || calls->matches[scope] == TRM_NO_INDEX) return TRM_NO_INDEX;
  return 2 * calls->matches[scope] + is_gradient;
}

/* Whether a variable is a result of an instruction, and of which; other variables are code, buffers
 * or temporaries. */
static bool value_of(const trm_program *p, const call_list *calls, uint32_t variable, value *out) {
  const trm_program_variable *v = &p->variables[variable];
  if (v->source == TRM_NO_INDEX) return false;
  if (v->category != TRM_CATEGORY_VARIABLE && v->category != TRM_CATEGORY_CONSTANT) return false;
  const trm_program_source *source = &p->sources[v->source];
  const trm_instruction *instruction =
      &p->module->computations[source->computation].instructions[source->instruction];
  const trm_shape *shape = &instruction->shape;
  const trm_shape *leaf = v->copied;
  if (leaf == NULL) {
    if (v->leaf >= (uint32_t)trm_shape_num_leaves(shape)) return false;
    leaf = trm_shape_leaf(shape, (int32_t)v->leaf);
  }
  const int32_t stage = stage_of(p, instruction);
  const uint32_t call =
      calls->scopes.count == 0 || stage >= 0 ? TRM_NO_INDEX : call_of(p, calls, instruction);
  *out = (value){.computation = source->computation,
                 .stage = stage,
                 .call = call,
                 .instruction = source->instruction,
                 .leaf = v->leaf,
                 .variable = variable,
                 .shape = leaf};
  return trm_shape_is_array(leaf) && trm_shape_count(leaf) == v->count;
}

/* Writes the elements on each tile: the sum over the regions of the mapping on that tile. */
static void put_tiles(const trm_program *p, const trm_mapping *mapping, int64_t *elements,
                      trm_stream *s) {
  const uint32_t tiles = p->tiles_per_ipu;
  int64_t total = 0;
  memset(elements, 0, tiles * sizeof *elements);
  if (mapping->kind == TRM_MAPPING_SPREAD) {
    trm_mapping_add_bytes(mapping, 1, WORD, elements);
  } else if (mapping->kind != TRM_MAPPING_NONE) {
    for (uint32_t region = 0; region < mapping->regions; ++region) {
      elements[trm_mapping_tile(mapping, region) % tiles] +=
          trm_mapping_region_elements(mapping, region);
    }
  }
  for (uint32_t t = 0; t < tiles; ++t) total += elements[t];
  trm_stream_int(s, total);
  trm_stream_array(s);
  for (uint32_t t = 0; t < tiles; ++t) {
    if (elements[t] == 0) continue;
    trm_stream_array(s);
    trm_stream_int(s, (int64_t)mapping->ipu * tiles + t);
    trm_stream_int(s, elements[t]);
    trm_stream_end_array(s);
  }
  trm_stream_end_array(s);
}

static void put_value(const trm_program *p, const value *result, int64_t *elements, trm_stream *s) {
  const trm_program_variable *v = &p->variables[result->variable];
  const trm_program_source *source = &p->sources[v->source];
  char name[1024];
  snprintf(name, sizeof name, "inter-ipu-copy.%u", (unsigned)result->copy);
  trm_stream_array(s);
  trm_stream_string(s, result->copy > 0 ? name : source->hlo_name);
  trm_stream_int(s, v->leaf);
  trm_stream_array(s);
  for (int32_t d = 0; d < result->shape->rank; ++d) trm_stream_int(s, result->shape->dims[d]);
  trm_stream_end_array(s);
  trm_stream_string(s, type_name(v->dtype));
  trm_stream_int(s, strcmp(source->opcode, "constant") == 0);
  trm_stream_int(s, 0); /* each variable has its own memory */
  put_tiles(p, &v->mapping, elements, s);
  const bool is_argument = strcmp(source->opcode, "parameter") == 0 && v->is_input;
  const char *known = source->op_name[0] == '\0' ? source->hlo_name : source->op_name;
  snprintf(name, sizeof name, "%s%.1000s", is_argument ? "XLA_Args/" : "",
           is_argument ? known : source->op_name);
  trm_stream_string(s, name);
  trm_stream_end_array(s);
}

/* Writes the key of a group of values. */
static void put_group(const trm_program *p, const call_list *calls, const value *first,
                      trm_stream *s) {
  const char *computation = p->module->computations[first->computation].name;
  char name[256];
  if (first->call != TRM_NO_INDEX) {
    snprintf(name, sizeof name, "%.200s%s", calls->scopes.items[first->call / 2],
             first->call % 2 == 1 ? "_grad" : "");
    computation = name;
  } else if (first->stage >= 0) {
    snprintf(name, sizeof name, "%.200s_stage_%d_", computation, (int)first->stage);
    computation = name;
  }
  trm_stream_key(s, computation);
}

/* Writes an empty computation for each stage without values. */
static void put_empty_stages(const trm_program *p, const value *values, size_t count,
                             trm_stream *s) {
  for (uint32_t stage = 0; p->pipeline.present && stage < p->pipeline.num_stages; ++stage) {
    size_t i = 0;
    while (i < count && values[i].stage != (int32_t)stage) ++i;
    if (i < count) continue;
    char name[64];
    snprintf(name, sizeof name, "pipeline_stage_%u_", (unsigned)stage);
    trm_stream_key(s, name);
    trm_stream_array(s);
    trm_stream_end_array(s);
  }
}

static void put_mappings(const trm_program *p, const call_list *calls, value *values, size_t count,
                         int64_t *elements, trm_stream *s) {
  qsort(values, count, sizeof *values, by_name);
  trm_stream_object(s);
  trm_stream_key(s, "mappings");
  trm_stream_object(s);
  for (size_t i = 0; i < count; ++i) {
    const value *before = i > 0 ? &values[i - 1] : NULL;
    const bool same = before != NULL && by_group(before, &values[i]) == 0;
    if (same && before->copy == values[i].copy && before->computation == values[i].computation &&
        before->instruction == values[i].instruction && before->leaf == values[i].leaf) {
      continue;
    }
    if (!same && i > 0) trm_stream_end_array(s);
    if (!same) {
      put_group(p, calls, &values[i], s);
      trm_stream_array(s);
    }
    put_value(p, &values[i], elements, s);
  }
  if (count > 0) trm_stream_end_array(s);
  put_empty_stages(p, values, count, s);
  trm_stream_end_object(s);
  trm_stream_end_object(s);
}

trm_status trm_describe_tensor_map(const trm_program *p, trm_stream *s, trm_error *error) {
  call_list calls = {0};
  value *values = NULL;
  int64_t *elements = NULL;
  size_t count = 0;
  trm_status status = trm_scopes_find(p->module, call_key, &calls.scopes, error);
  if (status == TRM_OK) {
    status = trm_scopes_match(p->module, &calls.scopes, call_key, &calls.matches, error);
  }
  if (status == TRM_OK) {
    values = trm_allocate_zeroed((size_t)p->num_variables + 1, sizeof *values);
    elements = trm_allocate_zeroed((size_t)p->tiles_per_ipu + 1, sizeof *elements);
    if (values == NULL || elements == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for a tensor map");
    }
  }
  if (status == TRM_OK) {
    uint32_t copies = 0;
    for (uint32_t v = 0; v < p->num_variables; ++v) {
      if (!value_of(p, &calls, v, &values[count])) continue;
      if (p->variables[v].copied != NULL) values[count].copy = ++copies;
      ++count;
    }
    put_mappings(p, &calls, values, count, elements, s);
  }
  trm_free(values);
  trm_free(elements);
  trm_free(calls.matches);
  VECTOR_FREE(&calls.scopes);
  return status;
}
