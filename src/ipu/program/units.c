/* Owns: the units of a program, between which it can be cut, and to which of them each instruction
 * belongs. Gradients go with their forward op, updates with their variable. */
#include "ipu/program/units.h"

#include <stdlib.h>
#include <string.h>

#include "hlo/infer.h"
#include "ipu/program/draft.h"
#include "ipu/program/layers.h"

typedef struct named_unit {
  const char *name;
  size_t length;
  int32_t unit;
} named_unit;

/* Finds the loop body with the most instructions, if it has most of its caller's. */
static uint32_t find_computation(const trm_module *module) {
  uint32_t found = module->entry;
  for (int depth = 0; depth < TRM_PROGRAM_MAX_DEPTH; ++depth) {
    const trm_computation *computation = &module->computations[found];
    uint32_t largest = found, count = computation->num_instructions;
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (instruction->opcode != TRM_OP_WHILE || instruction->num_called < 2) continue;
      const uint32_t inside = module->computations[instruction->called[1]].num_instructions;
      if (inside > count) largest = instruction->called[1], count = inside;
    }
    if (largest == found) break;
    found = largest;
  }
  return found;
}

static const char *name_of(const trm_instruction *instruction) {
  const char *name = instruction->metadata.op_name;
  return name == NULL || strcmp(name, "XLA_Args") == 0 ? "" : name;
}

/* Whether the module has JAX's scopes. There, what a function that JAX inlines computes has a name
 * without a scope, and belongs to the layer around it. */
static bool has_jax_scopes(const trm_computation *computation) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    if (strncmp(name_of(&computation->instructions[i]), "jit(", 4) == 0) return true;
  }
  return false;
}

static bool is_input(const trm_instruction *instruction, const trm_computation *computation) {
  if (instruction->opcode == TRM_OP_PARAMETER) return true;
  if (instruction->opcode == TRM_OP_CONSTANT) return true;
  return instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT &&
         computation->instructions[instruction->operands[0]].opcode == TRM_OP_PARAMETER;
}

/* Adds the bytes of each result to `crossing` of the units after its own, up to the last one that
 * reads it. */
static trm_status find_crossings(trm_unit_map *s, trm_error *error) {
  const trm_computation *computation = &s->module->computations[s->computation];
  double *change = ARENA_NEW(s->arena, double, (size_t)s->num_units + 2);
  int32_t *last = s->last_reader =
      ARENA_NEW(s->arena, int32_t, (size_t)computation->num_instructions + 1);
  if (change == NULL || last == NULL) FAIL_NO_MEMORY("shards");
  for (trm_index i = 0; i < computation->num_instructions; ++i) last[i] = s->unit_of[i];
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_index operand = instruction->operands[k];
      if (s->unit_of[i] > last[operand]) last[operand] = s->unit_of[i];
    }
  }
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    if (s->is_source[i] || s->unit_of[i] == TRM_NO_UNIT || last[i] <= s->unit_of[i]) continue;
    const double bytes = (double)trm_tile_shape_bytes(&computation->instructions[i].shape);
    change[s->unit_of[i] + 1] += bytes;
    change[last[i] + 1] -= bytes;
  }
  double sum = 0;
  for (uint32_t u = 0; u < s->num_units; ++u) s->units[u].crossing = sum += change[u];
  return TRM_OK;
}

static int compare_names(const void *a, const void *b) {
  const named_unit *l = a, *r = b;
  const size_t length = l->length < r->length ? l->length : r->length;
  const int order = memcmp(l->name, r->name, length);
  return order != 0 ? order : (l->length > r->length) - (l->length < r->length);
}

static bool same_layer(const trm_unit *u, const char *layer, size_t length) {
  return u->layer_length == length && memcmp(u->layer, layer, length) == 0;
}

/* The place of a layer in the table of last units. */
static int32_t *last_unit_of(const trm_unit_map *s, const char *layer, size_t length) {
  size_t at = 14695981039346656037u; /* FNV-1a */
  for (size_t c = 0; c < length; ++c) at = (at ^ (unsigned char)layer[c]) * 1099511628211u;
  for (at &= s->num_places - 1; s->last_units[at] != TRM_NO_UNIT;
       at = (at + 1) & (s->num_places - 1)) {
    if (same_layer(&s->units[s->last_units[at]], layer, length)) break;
  }
  return &s->last_units[at];
}

/* The last unit of the layer whose gradient JAX names "a/transpose(jvp(b))/c": that of "a/jvp(b)",
 * or of a scope around it. */
static trm_status unit_of_transposed(trm_unit_map *s, const char *name, int32_t *out_unit,
                                     trm_error *error) {
  static const char opening[] = "transpose(";
  *out_unit = TRM_NO_UNIT;
  const char *begin = strstr(name, opening), *end = begin;
  if (begin == NULL) return TRM_OK;
  int depth = 0;
  for (; *end != '\0'; ++end) {
    depth += *end == '(';
    if (*end == ')' && --depth == 0) break;
  }
  if (*end == '\0') return TRM_OK;
  const size_t open = sizeof opening - 1;
  const char *forward =
      trm_arena_format(s->arena, "%.*s%.*s%s", (int)(begin - name), name,
                       (int)((size_t)(end - begin) - open), begin + open, end + 1);
  CHECK_MEMORY(forward, "shards");
  size_t length;
  const char *layer = trm_program_layer_of(forward, &length);
  while (length > 0 && *out_unit == TRM_NO_UNIT) {
    *out_unit = *last_unit_of(s, layer, length);
    while (length > 0 && layer[--length] != '/') continue;
  }
  return TRM_OK;
}

/* The last unit of the layer whose gradient a name says. */
static trm_status unit_of_layer(trm_unit_map *s, const char *name, int32_t *out_unit,
                                trm_error *error) {
  TRY(unit_of_transposed(s, name, out_unit, error));
  if (*out_unit != TRM_NO_UNIT || !trm_program_is_gradient(name)) return TRM_OK;
  size_t length;
  const char *layer = trm_program_layer_of(name, &length);
  if (length > 0) *out_unit = *last_unit_of(s, layer, length);
  return TRM_OK;
}

/* Whether an instruction makes an array, or several as a fused update does, and not a number. */
static bool makes_arrays(const trm_instruction *o) {
  return !trm_shape_is_array(&o->shape) || trm_shape_count(&o->shape) > 1;
}

/* Whether an operand is an input that no other layer reads too, as constants and numbers may be. */
static bool is_variable(const trm_unit_map *s, trm_index i) {
  const trm_instruction *o = &s->module->computations[s->computation].instructions[i];
  return s->is_source[i] && o->opcode != TRM_OP_CONSTANT && trm_shape_count(&o->shape) > 1;
}

/* A layer's gradients are in its last unit as long as what they are made of is. */
static int32_t no_later_than_operands(const trm_unit_map *s, const trm_instruction *instruction,
                                      int32_t place) {
  const trm_computation *computation = &s->module->computations[s->computation];
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    const bool counts =
        s->is_backward[operand] && trm_shape_count(&computation->instructions[operand].shape) > 1;
    if (counts && s->unit_of[operand] < place) place = s->unit_of[operand];
  }
  return place;
}

static int32_t unit_of_name(const named_unit *names, uint32_t known, const char *text) {
  size_t length;
  const char *name = trm_program_forward_name(text, &length);
  const named_unit key = {name, length, 0};
  const named_unit *found =
      known > 0 && length > 0 ? bsearch(&key, names, known, sizeof *names, compare_names) : NULL;
  return found != NULL ? found->unit : TRM_NO_UNIT;
}

/* The unit of a fusion whose own name, such as that of a sum of gradients, tells none: of the last
 * of its instructions whose forward op or layer is known. */
static int32_t unit_of_fused(const trm_unit_map *s, const named_unit *names, uint32_t known,
                             const trm_instruction *fusion) {
  if (fusion->opcode != TRM_OP_FUSION || fusion->num_called == 0) return TRM_NO_UNIT;
  const trm_computation *body = &s->module->computations[fusion->called[0]];
  int32_t place = TRM_NO_UNIT;
  for (trm_index i = body->num_instructions; i-- > 0 && place == TRM_NO_UNIT;) {
    const char *text = name_of(&body->instructions[i]);
    if (!trm_program_is_gradient(text)) continue;
    size_t length;
    const char *layer = trm_program_layer_of(text, &length);
    place = unit_of_name(names, known, text);
    if (place == TRM_NO_UNIT && length > 0) place = *last_unit_of(s, layer, length);
  }
  return place;
}

/* The unit of a fusion that begins with a sum of gradients from later units. TensorFlow sums them
 * where the earliest of them is, and what passes have fused with the sum goes along: so a cut sends
 * one array, not each of them. What else it reads has to be there anyway. */
static int32_t unit_of_sum(const trm_unit_map *s, const trm_instruction *fusion, int32_t place) {
  const trm_computation *computation = &s->module->computations[s->computation];
  int32_t least = INT32_MAX;
  uint32_t gradients = 0;
  for (uint32_t k = 0; k < fusion->num_operands; ++k) {
    const trm_index operand = fusion->operands[k];
    if (!s->is_backward[operand]) continue;
    if (trm_shape_count(&computation->instructions[operand].shape) <= 1) continue;
    if (s->unit_of[operand] < least) least = s->unit_of[operand];
    ++gradients;
  }
  if (gradients < 2 || least <= place) return place;
  for (uint32_t k = 0; k < fusion->num_operands; ++k) {
    const trm_index operand = fusion->operands[k];
    const trm_instruction *o = &computation->instructions[operand];
    if (s->is_backward[operand] || o->opcode == TRM_OP_CONSTANT) continue;
    if (s->is_source[operand] || s->last_reader[operand] < least) return place;
  }
  return least;
}

/* Places gradients with the op of their name. Other backward instructions, such as updates, go with
 * the variable that they read, or else with the layer of their name or with their last operand. */
static trm_status place_backward(trm_unit_map *s, trm_error *error) {
  const trm_computation *computation = &s->module->computations[s->computation];
  const uint32_t count = computation->num_instructions;
  named_unit *names = ARENA_NEW(s->arena, named_unit, (size_t)count + 1);
  int32_t *read_in =
      ARENA_NEW(s->arena, int32_t, (size_t)count + 1); /* first unit that reads an input */
  if (names == NULL || read_in == NULL) FAIL_NO_MEMORY("shards");
  uint32_t known = 0;
  for (trm_index i = 0; i < count; ++i) read_in[i] = TRM_NO_UNIT;
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    if (s->unit_of[i] == TRM_NO_UNIT) continue;
    const char *name = name_of(instruction);
    if (name[0] != '\0') names[known++] = (named_unit){name, strlen(name), s->unit_of[i]};
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      int32_t *first = &read_in[instruction->operands[k]];
      if (s->is_source[instruction->operands[k]] && *first == TRM_NO_UNIT) *first = s->unit_of[i];
    }
  }
  if (known > 0) qsort(names, known, sizeof *names, compare_names);
  for (trm_index i = 0; i < count; ++i) {
    if (!s->is_backward[i]) continue;
    const trm_instruction *instruction = &computation->instructions[i];
    int32_t place = unit_of_name(names, known, name_of(instruction));
    if (place == TRM_NO_UNIT) place = unit_of_fused(s, names, known, instruction);
    bool is_placed = place != TRM_NO_UNIT;
    for (uint32_t k = 0; k < instruction->num_operands && !is_placed; ++k) {
      const trm_index operand = instruction->operands[k];
      if (is_variable(s, operand) && read_in[operand] != TRM_NO_UNIT && makes_arrays(instruction)) {
        place = read_in[operand];
        is_placed = true;
      } else if (s->unit_of[operand] > place) place = s->unit_of[operand];
    }
    if (!is_placed) {
      int32_t of_layer;
      TRY(unit_of_layer(s, name_of(instruction), &of_layer, error));
      if (of_layer != TRM_NO_UNIT) place = no_later_than_operands(s, instruction, of_layer);
    }
    if (instruction->opcode == TRM_OP_FUSION) place = unit_of_sum(s, instruction, place);
    s->unit_of[i] = place == TRM_NO_UNIT ? 0 : place;
  }
  return TRM_OK;
}

/* What is made of inputs alone outside of layers, such as the state of an optimizer as it decays,
 * goes with its first reader. */
static void place_free(trm_unit_map *s) {
  const trm_computation *computation = &s->module->computations[s->computation];
  for (trm_index i = computation->num_instructions; i-- > 0;) {
    const int32_t place = s->unit_of[i];
    const trm_instruction *instruction = &computation->instructions[i];
    if (s->is_free[i] && place == TRM_NO_UNIT) s->unit_of[i] = 0;
    if (place == TRM_NO_UNIT && !s->is_free[i]) continue;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      int32_t *of_operand = &s->unit_of[instruction->operands[k]];
      if (!s->is_free[instruction->operands[k]]) continue;
      if (*of_operand == TRM_NO_UNIT || s->unit_of[i] < *of_operand) *of_operand = s->unit_of[i];
    }
  }
}

/* Backward passes compute some things again from what the forward pass kept, and programs say them
 * at the end of all layers. They belong to the unit of their layer or, where they read a later one,
 * to that, unless it is the last of all: then the layer goes on in a unit of its own. */
static int32_t earlier_unit(const trm_unit_map *s, const trm_instruction *instruction,
                            int32_t of_layer) {
  int32_t latest = of_layer;
  if (of_layer == TRM_NO_UNIT) return TRM_NO_UNIT;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const int32_t of_operand = s->unit_of[instruction->operands[k]];
    if (of_operand > latest) latest = of_operand;
  }
  return latest == of_layer || latest + 1 < (int32_t)s->num_units ? latest : TRM_NO_UNIT;
}

static int32_t last_of_operands(const trm_unit_map *s, const trm_instruction *instruction) {
  int32_t last = TRM_NO_UNIT;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    if (s->unit_of[instruction->operands[k]] > last) last = s->unit_of[instruction->operands[k]];
  }
  return last;
}

/* Pipelines update weights behind the loop, and moving averages with each mini-batch: those are
 * made of what the forward pass computes. */
static void find_weight_updates(trm_unit_map *s) {
  const uint32_t count = s->module->computations[s->computation].num_instructions;
  bool trains = false;
  for (trm_index i = 0; i < count; ++i) trains |= s->is_backward[i];
  for (trm_index i = 0; i < count; ++i) {
    s->is_weight_update[i] =
        s->updates.is_update[i] && (s->is_backward[i] || s->updates.is_number[i] || !trains);
  }
}

static trm_status allocate(trm_unit_map *s, uint32_t count, trm_error *error) {
  s->is_weight_update = ARENA_NEW(s->arena, bool, (size_t)count + 1);
  CHECK_MEMORY(s->is_weight_update, "shards");
  if (s->computation == s->module->entry) {
    TRY(trm_state_updates_find(s->program, s->module, s->arena, &s->updates, error));
  } else {
    s->updates.is_update = s->updates.is_number = ARENA_NEW(s->arena, bool, (size_t)count + 1);
    CHECK_MEMORY(s->updates.is_update, "shards");
  }
  s->unit_of = ARENA_NEW(s->arena, int32_t, (size_t)count + 1);
  s->is_source = ARENA_NEW(s->arena, bool, (size_t)count + 1);
  s->units = ARENA_NEW(s->arena, trm_unit, (size_t)count + 1);
  s->is_backward = ARENA_NEW(s->arena, bool, (size_t)count + 1);
  s->is_free = ARENA_NEW(s->arena, bool, (size_t)count + 1);
  for (s->num_places = 16; s->num_places < 2 * (size_t)count; s->num_places *= 2) continue;
  s->last_units = ARENA_NEW(s->arena, int32_t, s->num_places);
  if (s->unit_of == NULL || s->is_source == NULL || s->units == NULL || s->is_backward == NULL ||
      s->is_free == NULL || s->last_units == NULL) {
    FAIL_NO_MEMORY("shards");
  }
  for (size_t i = 0; i < s->num_places; ++i) s->last_units[i] = TRM_NO_UNIT;
  return TRM_OK;
}

trm_status trm_units_find(const trm_program *program, const trm_module *module, trm_arena *arena,
                          trm_unit_map *s, trm_error *error) {
  *s = (trm_unit_map){.program = program,
                      .module = module,
                      .arena = arena,
                      .computation = find_computation(module)};
  const trm_computation *computation = &s->module->computations[s->computation];
  const uint32_t count = computation->num_instructions;
  TRY(allocate(s, count, error));
  const bool needs_scope = has_jax_scopes(computation);
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    s->unit_of[i] = TRM_NO_UNIT;
    s->is_source[i] = is_input(instruction, computation);
    if (s->is_source[i] || instruction->opcode == TRM_OP_TUPLE) continue;
    s->is_backward[i] = trm_program_is_gradient(name_of(instruction));
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      s->is_backward[i] |= s->is_backward[instruction->operands[k]];
    }
    if (s->is_backward[i]) continue;
    if (s->updates.is_update[i]) {
      s->unit_of[i] = last_of_operands(s, instruction);
      s->is_free[i] = s->unit_of[i] == TRM_NO_UNIT;
      continue;
    }
    size_t length;
    const char *layer = trm_program_layer_of(name_of(instruction), &length);
    trm_unit *last = s->num_units > 0 ? &s->units[s->num_units - 1] : NULL;
    const bool names = length > 0 && (!needs_scope || trm_program_has_jax_scope(layer, length));
    if (!names && instruction->num_operands > 0) {
      s->is_free[i] = true;
      for (uint32_t k = 0; k < instruction->num_operands; ++k) {
        const trm_index operand = instruction->operands[k];
        s->is_free[i] &= s->is_source[operand] || s->is_free[operand];
      }
      if (s->is_free[i]) continue;
    }
    if (last == NULL || (names && !same_layer(last, layer, length))) {
      int32_t *of_layer = last_unit_of(s, layer, length);
      int32_t place = earlier_unit(s, instruction, *of_layer);
      if (place == TRM_NO_UNIT) {
        place = *of_layer = (int32_t)s->num_units++;
        s->units[place] = (trm_unit){.layer = layer, .layer_length = length};
      }
      last = &s->units[place];
    }
    s->unit_of[i] = (int32_t)(last - s->units);
  }
  find_weight_updates(s);
  TRY(find_crossings(s, error));
  TRY(place_backward(s, error));
  place_free(s);
  return TRM_OK;
}
