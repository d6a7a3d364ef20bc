/* Owns: the sums of a program by layer, which is a scope of TensorFlow's op names. Gradients count
 * with the layer of their forward op, inputs and constants with the first layer that reads them. */
#include "ipu/program/layers.h"

#include <stdlib.h>
#include <string.h>

#include "base/cycles.h"
#include "base/sized.h"
#include "ipu/program/draft.h"

/* ---- Names ---------------------------------------------------------------------------------- */

/* TensorFlow's, in graphs and by tapes; JAX's, whose scopes are "transpose(jvp(layer))/dot". */
static const char symbolic[] = "gradients/", tape[] = "gradient_tape/", transposed[] = "transpose(";

/* The rest of the name after "gradients/", if that begins a component of the name; or NULL. */
static const char *after_component(const char *name, const char *component) {
  for (const char *at = name; (at = strstr(at, component)) != NULL; ++at) {
    if (at == name || at[-1] == '/') return at + strlen(component);
  }
  return NULL;
}

bool trm_program_is_gradient(const char *op_name) {
  return after_component(op_name, symbolic) != NULL || after_component(op_name, tape) != NULL ||
         after_component(op_name, transposed) != NULL;
}

const char *trm_program_forward_name(const char *op_name, size_t *out_length) {
  const char *name = after_component(op_name, symbolic);
  *out_length = 0;
  if (name != NULL) {
    for (const char *at = name; (at = strstr(at, "_grad")) != NULL; ++at) {
      if (at[5] == '/' || at[5] == '\0') {
        *out_length = (size_t)(at - name);
        break;
      }
    }
    return name;
  }
  name = after_component(op_name, tape);
  if (name == NULL) return op_name;
  const char *slash = strrchr(name, '/');
  if (slash != NULL) *out_length = (size_t)(slash - name);
  return name;
}

/* The name without the scopes of function calls, which SavedModels have: "PartitionedCall/a/b". */
static const char *without_calls(const char *name, size_t *length) {
  static const char *const calls[] = {"StatefulPartitionedCall", "PartitionedCall"};
  for (size_t c = 0; c < 2; ++c) {
    const size_t own = strlen(calls[c]);
    if (*length <= own || memcmp(name, calls[c], own) != 0) continue;
    size_t end = own;
    while (end < *length && (name[end] == '_' || (name[end] >= '0' && name[end] <= '9'))) ++end;
    if (end + 1 >= *length || name[end] != '/') continue;
    name += end + 1;
    *length -= end + 1;
    c = SIZE_MAX; /* there may be another scope */
  }
  return name;
}

const char *trm_program_layer_of(const char *op_name, size_t *out_length) {
  size_t length = 0;
  const char *name = trm_program_forward_name(op_name, &length);
  if (length == 0) name = op_name, length = strlen(op_name);
  const char *other = memchr(name, ';', length); /* an instruction of several ops */
  if (other != NULL) length = (size_t)(other - name);
  name = without_calls(name, &length);
  *out_length = length;
  while (length > 0 && name[length - 1] != '/') --length;
  if (length > 1) *out_length = length - 1;
  /* The scope of tf.tensordot, with which a dense layer multiplies more than matrices. */
  static const char inner[] = "/Tensordot";
  const size_t inside = sizeof inner - 1;
  if (*out_length > inside && memcmp(name + *out_length - inside, inner, inside) == 0) {
    *out_length -= inside;
  }
  return name;
}

/* The next component of a name between slashes, without what JAX wraps it in: "jit(...)" is none,
 * and "transpose(jvp(a))" is "a". Length 0: there is none. */
static size_t next_component(const char **at, const char *end, const char **out_component) {
  while (*at < end) {
    const char *component = *at;
    int depth = 0;
    while (*at < end && (**at != '/' || depth > 0)) {
      depth += **at == '(';
      depth -= **at == ')';
      ++*at;
    }
    const char *stop = *at;
    if (*at < end) ++*at;
    const bool is_function = (size_t)(stop - component) > 4 && (memcmp(component, "jit(", 4) == 0 ||
                                                                memcmp(component, "pjit", 4) == 0);
    if (is_function) continue;
    const char *open;
    while (stop > component && stop[-1] == ')' &&
           (open = memchr(component, '(', (size_t)(stop - component))) != NULL) {
      component = open + 1;
      --stop;
    }
    if (stop == component) continue;
    *out_component = component;
    return (size_t)(stop - component);
  }
  return 0;
}

bool trm_program_has_jax_scope(const char *layer, size_t length) {
  const char *component;
  const char *at = layer;
  return memchr(layer, '(', length) != NULL && next_component(&at, layer + length, &component) > 0;
}

bool trm_program_is_in_layer(const char *layer, size_t length, const char *outer) {
  const char *end = layer + length, *outer_end = outer + strlen(outer), *component, *wanted;
  size_t size, found = 0;
  while ((size = next_component(&outer, outer_end, &wanted)) > 0) {
    if (next_component(&layer, end, &component) != size || memcmp(component, wanted, size) != 0)
      return false;
    ++found;
  }
  return found > 0;
}

bool trm_program_is_in_layers(const trm_instruction *instruction, const char *const *layers) {
  const char *op_name = instruction->metadata.op_name;
  size_t length;
  const char *layer = trm_program_layer_of(
      op_name != NULL && op_name[0] != '\0' ? op_name : instruction->name, &length);
  for (size_t l = 0; layers[l] != NULL; ++l) {
    if (trm_program_is_in_layer(layer, length, layers[l])) return true;
  }
  return false;
}

/* ---- Who reads inputs ------------------------------------------------------------------------ */

typedef struct readers {
  const char ***first; /* [computation][instruction]: op name of the first reader; NULL: none */
  trm_arena arena;
} readers;

/* The readers, in the body of a loop, of each element of its parameter; NULL: out of memory. */
static const char **readers_in_loop(readers *r, const trm_module *module,
                                    const trm_instruction *loop) {
  const int64_t elements = loop->shape.dtype == TRM_TUPLE ? loop->shape.num_elements : 0;
  const char **found = ARENA_NEW(&r->arena, const char *, (size_t)elements + 1);
  if (found == NULL || loop->num_called < 2) return found;
  const uint32_t body = loop->called[1];
  const trm_computation *computation = &module->computations[body];
  for (trm_index i = 0; i < computation->num_instructions && r->first[body] != NULL; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    if (instruction->opcode != TRM_OP_GET_TUPLE_ELEMENT || instruction->number >= elements ||
        computation->instructions[instruction->operands[0]].opcode != TRM_OP_PARAMETER) {
      continue;
    }
    if (found[instruction->number] == NULL) found[instruction->number] = r->first[body][i];
  }
  return found;
}

/* Computations come after those that they call, and readers after the values that they read. */
static trm_status find_readers(readers *r, const trm_module *module, trm_error *error) {
  r->first = ARENA_NEW(&r->arena, const char **, (size_t)module->num_computations + 1);
  CHECK_MEMORY(r->first, "layers");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    const uint32_t count = computation->num_instructions;
    const char ***loops = ARENA_NEW(&r->arena, const char **, (size_t)count + 1); /* by tuple */
    r->first[c] = ARENA_NEW(&r->arena, const char *, (size_t)count + 1);
    if (r->first[c] == NULL || loops == NULL) FAIL_NO_MEMORY("layers");
    for (trm_index i = count; i-- > 0;) {
      const trm_instruction *instruction = &computation->instructions[i];
      const char *name = instruction->metadata.op_name;
      const bool named = name != NULL && name[0] != '\0';
      const bool is_tuple = instruction->opcode == TRM_OP_TUPLE;
      if (instruction->opcode == TRM_OP_WHILE) {
        loops[instruction->operands[0]] = readers_in_loop(r, module, instruction);
        CHECK_MEMORY(loops[instruction->operands[0]], "layers");
      }
      for (uint32_t k = 0; k < instruction->num_operands; ++k) {
        const char *reader = named && !is_tuple ? name : r->first[c][i];
        if (is_tuple && loops[i] != NULL) reader = loops[i][k];
        if (reader != NULL) r->first[c][instruction->operands[k]] = reader;
      }
    }
  }
  return TRM_OK;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

/* The contribution of one step or variable; entries of one layer are merged. */
typedef struct entry {
  trm_program_layer layer; /* its name has no terminating zero yet */
  size_t length;
  uint32_t order;
} entry;

typedef VECTOR(entry) entries;

static int by_name(const void *a, const void *b) {
  const entry *l = a, *r = b;
  const size_t length = l->length < r->length ? l->length : r->length;
  int order = memcmp(l->layer.name, r->layer.name, length);
  if (order == 0) order = (l->length > r->length) - (l->length < r->length);
  return order != 0 ? order : (l->order > r->order) - (l->order < r->order);
}

static int by_order(const void *a, const void *b) {
  const entry *l = a, *r = b;
  return (l->order > r->order) - (l->order < r->order);
}

static trm_status add(entries *list, const char *op_name, trm_program_layer layer, uint32_t order,
                      trm_error *error) {
  entry added = {.layer = layer, .order = order};
  added.layer.name = trm_program_layer_of(op_name, &added.length);
  if (!VECTOR_PUSH(list, added)) FAIL_NO_MEMORY("layers");
  return TRM_OK;
}

static const char *op_name_of(const trm_program *program, const readers *r, uint32_t source,
                              bool is_read_only, bool named) {
  if (source == TRM_NO_INDEX) return "";
  const trm_program_source *s = &program->sources[source];
  const char *reader = r->first[s->computation][s->instruction];
  if (is_read_only && reader != NULL) return reader;
  return named ? s->op_name : s->hlo_name;
}

static trm_status gather(const trm_program *program, const readers *r, entries *list,
                         trm_error *error) {
  bool named = false;
  for (uint32_t s = 0; s < program->num_sources; ++s) {
    named |= program->sources[s].op_name[0] != '\0';
  }
  for (uint32_t i = 0; i < program->num_steps; ++i) {
    const trm_program_step *step = &program->steps[i];
    if (step->end != i + 1) continue;
    const double cycles = (double)step->cycles * step->executions;
    const trm_error_kind kind = trm_error_kind_of_step(program, step);
    const trm_program_layer layer = {
        .steps = 1,
        .cycles = trm_limit_cycles(cycles + 0.5),
        .cycles_low = trm_error_cycles(kind, cycles, false),
        .cycles_high = trm_error_cycles(kind, cycles, true),
        .flops = trm_limit_cycles((double)step->flops * step->executions + 0.5),
        .live_bytes = step->executions > 0 ? step->live_total : 0,
        .worst_tile_bytes = step->executions > 0 ? step->live_worst : 0};
    TRY(add(list, op_name_of(program, r, step->source, false, named), layer, i, error));
  }
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_program_variable *variable = &program->variables[v];
    if (!variable->always_live) continue;
    const bool constant = variable->category == TRM_CATEGORY_CONSTANT;
    const bool weight = variable->is_weight || constant;
    const trm_program_layer layer = {.always_live_bytes = variable->total_bytes,
                                     .weights_bytes = weight ? variable->total_bytes : 0};
    TRY(add(list, op_name_of(program, r, variable->source, variable->is_input || constant, named),
            layer, program->num_steps + v, error));
  }
  return TRM_OK;
}

/* Merges entries with equal names, in the order of their first steps. */
static void merge(entries *list) {
  if (list->count == 0) return;
  qsort(list->items, list->count, sizeof *list->items, by_name);
  size_t kept = 0;
  for (size_t e = 0; e < list->count; ++e) {
    const entry *next = &list->items[e];
    entry *last = kept > 0 ? &list->items[kept - 1] : NULL;
    if (last == NULL || last->length != next->length ||
        memcmp(last->layer.name, next->layer.name, next->length) != 0) {
      list->items[kept++] = *next;
      continue;
    }
    trm_program_layer *into = &last->layer;
    const trm_program_layer *from = &next->layer;
    into->steps += from->steps;
    into->cycles = trm_add_cycles(into->cycles, from->cycles);
    into->cycles_low = trm_add_cycles(into->cycles_low, from->cycles_low);
    into->cycles_high = trm_add_cycles(into->cycles_high, from->cycles_high);
    into->flops = trm_add_cycles(into->flops, from->flops);
    into->always_live_bytes += from->always_live_bytes;
    into->weights_bytes += from->weights_bytes;
    if (from->live_bytes > into->live_bytes) into->live_bytes = from->live_bytes;
    if (from->worst_tile_bytes > into->worst_tile_bytes) {
      into->worst_tile_bytes = from->worst_tile_bytes;
    }
  }
  list->count = kept;
  qsort(list->items, list->count, sizeof *list->items, by_order);
}

/* Returns one block of memory: the layers, then their names. */
static trm_status hand_out(const entries *list, size_t layer_size, trm_program_layer **out_layers,
                           trm_error *error) {
  size_t characters = 0;
  for (size_t e = 0; e < list->count; ++e) characters += list->items[e].length + 1;
  char *block = trm_allocate_zeroed(list->count * layer_size + characters + 1, 1);
  CHECK_MEMORY(block, "layers");
  char *names = block + list->count * layer_size;
  for (size_t e = 0; e < list->count; ++e) {
    trm_program_layer layer = list->items[e].layer;
    char *place = block + e * layer_size;
    memcpy(names, layer.name, list->items[e].length);
    layer.name = names;
    memcpy(place, &layer_size, sizeof layer_size);
    (void)trm_sized_give(place, &layer, sizeof layer);
    names += list->items[e].length + 1;
  }
  *out_layers = (trm_program_layer *)(void *)block;
  return TRM_OK;
}

trm_status trm_program_list_layers(const trm_program *program, size_t layer_size,
                                   trm_program_layer **out_layers, size_t *out_count,
                                   trm_error *error) {
  if (layer_size <= sizeof(size_t) || layer_size % sizeof(size_t) != 0) {
    FAIL(INVALID_ARGUMENT, "layer_size is %zu; it must be sizeof(trm_program_layer)", layer_size);
  }
  readers r = {0};
  entries list = {0};
  trm_status status;
  TRY_OR_GOTO(find_readers(&r, program->module, error), done);
  TRY_OR_GOTO(gather(program, &r, &list, error), done);
  merge(&list);
  TRY_OR_GOTO(hand_out(&list, layer_size, out_layers, error), done);
  *out_count = list.count;
done:
  VECTOR_FREE(&list);
  trm_arena_free(&r.arena);
  return status;
}
