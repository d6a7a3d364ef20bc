/* Owns: cutting a program into shards, one for each IPU, which fit and of which none takes long.
 *
 * The computation with most of the work (the entry, or the body of a loop) is cut between layers
 * into runs of consecutive layers. Gradients go with their forward op, updates with their variable.
 * The plan of the whole program tells what each run would need (cuts.c). The best cut by that is
 * estimated, what every IPU then needs corrects the model, and where that promises a better cut, it
 * is estimated too. The best cut is kept. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "hlo/infer.h"
#include "ipu/program/change.h"
#include "ipu/program/cuts.h"
#include "ipu/program/draft.h"
#include "ipu/program/layers.h"
#include "ipu/program/make_pipeline.h"
#include "ipu/target/target.h"
#include "passes/pass.h"

enum { MAX_SHARDS = TRM_MOST_PARTS, ROUNDS = 6, MOVES = 6, FEW_ROUNDS = 2, NO_UNIT = -1 };
static const double A_HUNDREDTH = .01, A_TENTH = .1;
static const double SURE = .97; /* the model of cuts errs by some percent */

/* A run of consecutive forward instructions of one layer: cuts are between units. */
typedef struct unit {
  const char *layer;
  size_t layer_length;
  double crossing; /* bytes that a cut before this unit would send */
} unit;

typedef struct named_unit {
  const char *name;
  size_t length;
  int32_t unit;
} named_unit;

typedef struct splitter {
  const trm_program *program;
  const trm_module *module; /* the program's, or a changed copy */
  const trm_program_options *options;
  uint32_t computation, num_shards, num_units;
  const trm_change *briefly; /* stop after a few estimates, or at the first that fits, or at once */
  const trm_change *pipeline; /* the shards are stages of this; NULL: of no pipeline */
  bool *is_backward;          /* by instruction */
  int32_t *unit_of;           /* by instruction */
  int32_t *last_reader;       /* by instruction: the last unit of the forward pass that reads it */
  bool *is_source;            /* by instruction: inputs, constants */
  bool *is_free;              /* by instruction: made of sources, in no layer */
  trm_state_updates updates;  /* of the entry */
  bool *is_weight_update;     /* by instruction: behind the loop of a pipeline; of the entry */
  unit *units;
  trm_cut_model *model;
  double room;         /* bytes of a fullest tile that fits, with the error of the estimate */
  int32_t *last_units; /* a hash table of the last unit of each layer; it has 2^n places */
  size_t num_places;
  trm_arena arena;
} splitter;

/* ---- Units ---------------------------------------------------------------------------------- */

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
static trm_status find_crossings(splitter *s, trm_error *error) {
  const trm_computation *computation = &s->module->computations[s->computation];
  double *change = ARENA_NEW(&s->arena, double, (size_t)s->num_units + 2);
  int32_t *last = s->last_reader =
      ARENA_NEW(&s->arena, int32_t, (size_t)computation->num_instructions + 1);
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
    if (s->is_source[i] || s->unit_of[i] == NO_UNIT || last[i] <= s->unit_of[i]) continue;
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

static bool same_layer(const unit *u, const char *layer, size_t length) {
  return u->layer_length == length && memcmp(u->layer, layer, length) == 0;
}

/* The place of a layer in the table of last units. */
static int32_t *last_unit_of(const splitter *s, const char *layer, size_t length) {
  size_t at = 14695981039346656037u; /* FNV-1a */
  for (size_t c = 0; c < length; ++c) at = (at ^ (unsigned char)layer[c]) * 1099511628211u;
  for (at &= s->num_places - 1; s->last_units[at] != NO_UNIT; at = (at + 1) & (s->num_places - 1)) {
    if (same_layer(&s->units[s->last_units[at]], layer, length)) break;
  }
  return &s->last_units[at];
}

/* The last unit of the layer whose gradient JAX names "a/transpose(jvp(b))/c": that of "a/jvp(b)",
 * or of a scope around it. */
static trm_status unit_of_transposed(splitter *s, const char *name, int32_t *out_unit,
                                     trm_error *error) {
  static const char opening[] = "transpose(";
  *out_unit = NO_UNIT;
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
      trm_arena_format(&s->arena, "%.*s%.*s%s", (int)(begin - name), name,
                       (int)((size_t)(end - begin) - open), begin + open, end + 1);
  CHECK_MEMORY(forward, "shards");
  size_t length;
  const char *layer = trm_program_layer_of(forward, &length);
  while (length > 0 && *out_unit == NO_UNIT) {
    *out_unit = *last_unit_of(s, layer, length);
    while (length > 0 && layer[--length] != '/') continue;
  }
  return TRM_OK;
}

/* The last unit of the layer whose gradient a name says. */
static trm_status unit_of_layer(splitter *s, const char *name, int32_t *out_unit,
                                trm_error *error) {
  TRY(unit_of_transposed(s, name, out_unit, error));
  if (*out_unit != NO_UNIT || !trm_program_is_gradient(name)) return TRM_OK;
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
static bool is_variable(const splitter *s, trm_index i) {
  const trm_instruction *o = &s->module->computations[s->computation].instructions[i];
  return s->is_source[i] && o->opcode != TRM_OP_CONSTANT && trm_shape_count(&o->shape) > 1;
}

/* A layer's gradients are in its last unit as long as what they are made of is. */
static int32_t no_later_than_operands(const splitter *s, const trm_instruction *instruction,
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
  return found != NULL ? found->unit : NO_UNIT;
}

/* The unit of a fusion whose own name, such as that of a sum of gradients, tells none: of the last
 * of its instructions whose forward op or layer is known. */
static int32_t unit_of_fused(const splitter *s, const named_unit *names, uint32_t known,
                             const trm_instruction *fusion) {
  if (fusion->opcode != TRM_OP_FUSION || fusion->num_called == 0) return NO_UNIT;
  const trm_computation *body = &s->module->computations[fusion->called[0]];
  int32_t place = NO_UNIT;
  for (trm_index i = body->num_instructions; i-- > 0 && place == NO_UNIT;) {
    const char *text = name_of(&body->instructions[i]);
    if (!trm_program_is_gradient(text)) continue;
    size_t length;
    const char *layer = trm_program_layer_of(text, &length);
    place = unit_of_name(names, known, text);
    if (place == NO_UNIT && length > 0) place = *last_unit_of(s, layer, length);
  }
  return place;
}

/* The unit of a fusion that begins with a sum of gradients from later units. TensorFlow sums them
 * where the earliest of them is, and what passes have fused with the sum goes along: so a cut sends
 * one array, not each of them. What else it reads has to be there anyway. */
static int32_t unit_of_sum(const splitter *s, const trm_instruction *fusion, int32_t place) {
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
static trm_status place_backward(splitter *s, trm_error *error) {
  const trm_computation *computation = &s->module->computations[s->computation];
  const uint32_t count = computation->num_instructions;
  named_unit *names = ARENA_NEW(&s->arena, named_unit, (size_t)count + 1);
  int32_t *read_in =
      ARENA_NEW(&s->arena, int32_t, (size_t)count + 1); /* first unit that reads an input */
  if (names == NULL || read_in == NULL) FAIL_NO_MEMORY("shards");
  uint32_t known = 0;
  for (trm_index i = 0; i < count; ++i) read_in[i] = NO_UNIT;
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    if (s->unit_of[i] == NO_UNIT) continue;
    const char *name = name_of(instruction);
    if (name[0] != '\0') names[known++] = (named_unit){name, strlen(name), s->unit_of[i]};
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      int32_t *first = &read_in[instruction->operands[k]];
      if (s->is_source[instruction->operands[k]] && *first == NO_UNIT) *first = s->unit_of[i];
    }
  }
  if (known > 0) qsort(names, known, sizeof *names, compare_names);
  for (trm_index i = 0; i < count; ++i) {
    if (!s->is_backward[i]) continue;
    const trm_instruction *instruction = &computation->instructions[i];
    int32_t place = unit_of_name(names, known, name_of(instruction));
    if (place == NO_UNIT) place = unit_of_fused(s, names, known, instruction);
    bool is_placed = place != NO_UNIT;
    for (uint32_t k = 0; k < instruction->num_operands && !is_placed; ++k) {
      const trm_index operand = instruction->operands[k];
      if (is_variable(s, operand) && read_in[operand] != NO_UNIT && makes_arrays(instruction)) {
        place = read_in[operand];
        is_placed = true;
      } else if (s->unit_of[operand] > place) place = s->unit_of[operand];
    }
    if (!is_placed) {
      int32_t of_layer;
      TRY(unit_of_layer(s, name_of(instruction), &of_layer, error));
      if (of_layer != NO_UNIT) place = no_later_than_operands(s, instruction, of_layer);
    }
    if (instruction->opcode == TRM_OP_FUSION) place = unit_of_sum(s, instruction, place);
    s->unit_of[i] = place == NO_UNIT ? 0 : place;
  }
  return TRM_OK;
}

/* What is made of inputs alone outside of layers, such as the state of an optimizer as it decays,
 * goes with its first reader. */
static void place_free(splitter *s) {
  const trm_computation *computation = &s->module->computations[s->computation];
  for (trm_index i = computation->num_instructions; i-- > 0;) {
    const int32_t place = s->unit_of[i];
    const trm_instruction *instruction = &computation->instructions[i];
    if (s->is_free[i] && place == NO_UNIT) s->unit_of[i] = 0;
    if (place == NO_UNIT && !s->is_free[i]) continue;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      int32_t *of_operand = &s->unit_of[instruction->operands[k]];
      if (!s->is_free[instruction->operands[k]]) continue;
      if (*of_operand == NO_UNIT || s->unit_of[i] < *of_operand) *of_operand = s->unit_of[i];
    }
  }
}

/* Backward passes compute some things again from what the forward pass kept, and programs say them
 * at the end of all layers. They belong to the unit of their layer or, where they read a later one,
 * to that, unless it is the last of all: then the layer goes on in a unit of its own. */
static int32_t earlier_unit(const splitter *s, const trm_instruction *instruction,
                            int32_t of_layer) {
  int32_t latest = of_layer;
  if (of_layer == NO_UNIT) return NO_UNIT;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const int32_t of_operand = s->unit_of[instruction->operands[k]];
    if (of_operand > latest) latest = of_operand;
  }
  return latest == of_layer || latest + 1 < (int32_t)s->num_units ? latest : NO_UNIT;
}

static int32_t last_of_operands(const splitter *s, const trm_instruction *instruction) {
  int32_t last = NO_UNIT;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    if (s->unit_of[instruction->operands[k]] > last) last = s->unit_of[instruction->operands[k]];
  }
  return last;
}

/* Pipelines update weights behind the loop, and moving averages with each mini-batch: those are
 * made of what the forward pass computes. */
static void find_weight_updates(splitter *s) {
  const uint32_t count = s->module->computations[s->computation].num_instructions;
  bool trains = false;
  for (trm_index i = 0; i < count; ++i) trains |= s->is_backward[i];
  for (trm_index i = 0; i < count; ++i) {
    s->is_weight_update[i] =
        s->updates.is_update[i] && (s->is_backward[i] || s->updates.is_number[i] || !trains);
  }
}

static trm_status find_units(splitter *s, trm_error *error) {
  const trm_computation *computation = &s->module->computations[s->computation];
  const uint32_t count = computation->num_instructions;
  s->is_weight_update = ARENA_NEW(&s->arena, bool, (size_t)count + 1);
  CHECK_MEMORY(s->is_weight_update, "shards");
  if (s->computation == s->module->entry) {
    TRY(trm_state_updates_find(s->program, s->module, &s->arena, &s->updates, error));
  } else {
    s->updates.is_update = s->updates.is_number = ARENA_NEW(&s->arena, bool, (size_t)count + 1);
    CHECK_MEMORY(s->updates.is_update, "shards");
  }
  s->unit_of = ARENA_NEW(&s->arena, int32_t, (size_t)count + 1);
  s->is_source = ARENA_NEW(&s->arena, bool, (size_t)count + 1);
  s->units = ARENA_NEW(&s->arena, unit, (size_t)count + 1);
  s->is_backward = ARENA_NEW(&s->arena, bool, (size_t)count + 1);
  s->is_free = ARENA_NEW(&s->arena, bool, (size_t)count + 1);
  for (s->num_places = 16; s->num_places < 2 * (size_t)count; s->num_places *= 2) continue;
  s->last_units = ARENA_NEW(&s->arena, int32_t, s->num_places);
  if (s->unit_of == NULL || s->is_source == NULL || s->units == NULL || s->is_backward == NULL ||
      s->is_free == NULL || s->last_units == NULL) {
    FAIL_NO_MEMORY("shards");
  }
  for (size_t i = 0; i < s->num_places; ++i) s->last_units[i] = NO_UNIT;
  const bool needs_scope = has_jax_scopes(computation);
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    s->unit_of[i] = NO_UNIT;
    s->is_source[i] = is_input(instruction, computation);
    if (s->is_source[i] || instruction->opcode == TRM_OP_TUPLE) continue;
    s->is_backward[i] = trm_program_is_gradient(name_of(instruction));
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      s->is_backward[i] |= s->is_backward[instruction->operands[k]];
    }
    if (s->is_backward[i]) continue;
    if (s->updates.is_update[i]) {
      s->unit_of[i] = last_of_operands(s, instruction);
      s->is_free[i] = s->unit_of[i] == NO_UNIT;
      continue;
    }
    size_t length;
    const char *layer = trm_program_layer_of(name_of(instruction), &length);
    unit *last = s->num_units > 0 ? &s->units[s->num_units - 1] : NULL;
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
      if (place == NO_UNIT) {
        place = *of_layer = (int32_t)s->num_units++;
        s->units[place] = (unit){.layer = layer, .layer_length = length};
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

/* ---- Cuts ----------------------------------------------------------------------------------- */

static int32_t shard_of(const splitter *s, const uint32_t *cuts, trm_index i) {
  if (s->unit_of[i] == NO_UNIT) return -1;
  uint32_t shard = 0;
  while (shard + 1 < s->num_shards && cuts[shard + 1] <= (uint32_t)s->unit_of[i]) ++shard;
  return (int32_t)shard;
}

static trm_status place_shards(const splitter *s, const uint32_t *cuts, trm_module *module,
                               trm_error *error) {
  static const size_t room = 40;
  trm_computation *computation = &module->computations[s->computation];
  char *texts = ARENA_NEW(&module->arena, char, s->num_shards *room);
  CHECK_MEMORY(texts, "shards");
  for (uint32_t p = 0; p < s->num_shards; ++p) {
    snprintf(texts + p * room, room, "{maximal device=%u}", p);
  }
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const int32_t shard = shard_of(s, cuts, i);
    if (shard >= 0) computation->instructions[i].sharding = texts + (size_t)shard * room;
  }
  return TRM_OK;
}

static trm_status place_stages(const splitter *s, const uint32_t *cuts, trm_module *module,
                               uint32_t *out_states, trm_error *error) {
  const uint32_t count = module->computations[s->computation].num_instructions;
  int32_t *stages = ARENA_NEW(&module->arena, int32_t, (size_t)count + 1);
  CHECK_MEMORY(stages, "stages");
  for (trm_index i = 0; i < count; ++i) stages[i] = shard_of(s, cuts, i);
  trm_pipeline_request request = {.num_stages = s->num_shards,
                                  .mini_batches = s->pipeline->mini_batches,
                                  .schedule = s->pipeline->schedule,
                                  .offload = s->pipeline->offload,
                                  .stage = stages,
                                  .is_backward = s->is_backward,
                                  .is_update = s->is_weight_update,
                                  .updates = &s->updates};
  TRY(trm_program_make_pipeline(module, &request, error));
  *out_states = request.states;
  return TRM_OK;
}

static trm_status estimate_cuts(const splitter *s, const uint32_t *cuts, trm_program **out_program,
                                trm_error *error) {
  trm_module *module;
  TRY(trm_module_clone(s->module, &module, error));
  trm_program_options options = *s->options;
  uint32_t states = 0;
  trm_status status = s->pipeline == NULL ? place_shards(s, cuts, module, error)
                                          : place_stages(s, cuts, module, &states, error);
  options.num_ipus = s->num_shards;
  if (s->pipeline != NULL) options.inputs = NULL; /* others than the program's */
  if (status == TRM_OK) {
    status = trm_program_create_again(s->program, module, &options, out_program, error);
  }
  if (status == TRM_OK) {
    (*out_program)->owned_module = module;
    (*out_program)->updated_states = states;
  } else {
    trm_module_free(module);
  }
  return status;
}

static trm_status make_model(splitter *s, trm_error *error) {
  const trm_program_totals *totals = &s->program->totals;
  double *crossing = ARENA_NEW(&s->arena, double, (size_t)s->num_units + 1);
  CHECK_MEMORY(crossing, "shards");
  for (uint32_t u = 0; u < s->num_units; ++u) crossing[u] = s->units[u].crossing;
  s->room = (double)totals->bytes_per_tile * (double)totals->worst_tile_bytes /
            (double)trm_most(1, totals->worst_tile_bytes_high);
  const trm_unit_row row = {
      .computation = s->computation,
      .num_units = s->num_units,
      .unit_of = s->unit_of,
      .is_backward = s->is_backward,
      .is_untimed = s->pipeline == NULL ? NULL : s->is_weight_update,
      .crossing = crossing,
      .recomputes = s->pipeline != NULL && s->options->recompute,
      .takes_turns = s->pipeline != NULL && strcmp(s->pipeline->schedule, "Interleaved") == 0};
  return trm_cuts_create(s->program, &row, s->num_shards, &s->arena, &s->model, error);
}

/* The fullest tile of each IPU, and the cycles of its steps or, where the parts are stages, of its
 * stages. *out_cycles: the most of them; of stages those of a round. */
static void measure_parts(const splitter *s, const trm_program *program, trm_cut_needs *out,
                          double *out_cycles) {
  const trm_program_memory *m = &program->memory;
  const trm_pipeline *pipeline = &program->pipeline;
  const bool of_stages = s->pipeline != NULL && pipeline->present;
  trm_cut_needs by_ipu[MAX_SHARDS] = {{0, 0}};
  for (uint32_t t = 0; t < m->num_tiles; ++t) {
    const double bytes = (double)(m->always_live[t] + m->not_always_live[t] + m->gaps[t]);
    double *most = &by_ipu[t / program->tiles_per_ipu].bytes;
    if (bytes > *most) *most = bytes;
  }
  for (uint32_t i = 0; i < program->num_steps && !of_stages; ++i) {
    const trm_program_step *step = &program->steps[i];
    if (step->end != i + 1 || step->ipu < 0) continue;
    by_ipu[step->ipu].cycles += step->executions * (double)step->cycles;
  }
  *out_cycles = of_stages ? (double)pipeline->round_cycles : 0;
  for (uint32_t p = 0; p < s->num_shards; ++p) {
    out[p] = by_ipu[trm_program_ipu_of_shard(program, p)];
    if (!of_stages) *out_cycles = fmax(*out_cycles, out[p].cycles);
  }
  for (uint32_t e = 0; of_stages && e < pipeline->num_entries; ++e) {
    const uint32_t p = e < s->num_shards ? e : 2 * s->num_shards - 1 - e;
    out[p].cycles += (double)pipeline->stages[e].cycles;
  }
}

static trm_status note_cuts(const splitter *s, const uint32_t *cuts, trm_program *program,
                            trm_error *error) {
  trm_arena *arena = &program->arena;
  program->num_cuts = s->num_shards - 1;
  program->cuts = ARENA_NEW(arena, trm_program_cut, (size_t)program->num_cuts + 1);
  CHECK_MEMORY(program->cuts, "shards");
  for (uint32_t c = 0; c < program->num_cuts; ++c) {
    const unit *after = &s->units[cuts[c + 1]], *before = after - 1;
    program->cuts[c] =
        (trm_program_cut){.before = trm_arena_string(arena, after->layer, after->layer_length),
                          .after = trm_arena_string(arena, before->layer, before->layer_length),
                          .bytes = (int64_t)after->crossing,
                          .ipu = trm_program_ipu_of_shard(program, c + 1)};
    if (program->cuts[c].before == NULL || program->cuts[c].after == NULL) {
      FAIL_NO_MEMORY("shards");
    }
  }
  return TRM_OK;
}

/* The results of the search so far. */
typedef struct found_cuts {
  trm_program *best;
  uint32_t best_cuts[MAX_SHARDS];
  trm_cut_needs best_parts[MAX_SHARDS];
  trm_cut_needs best_needs;
  uint32_t tried[ROUNDS + MOVES][MAX_SHARDS];
  uint32_t num_tried;
} found_cuts;

/* Whether cuts are better by more than such a share: of their bytes beyond the room or, where both
 * have as many, of their cycles. */
static bool is_better(const splitter *s, const found_cuts *found, trm_cut_needs needs,
                      double share) {
  if (found->best == NULL) return true;
  const double before = fmax(s->room, found->best_needs.bytes), now = fmax(s->room, needs.bytes);
  if (now < (1 - share) * before) return true;
  return now <= before && needs.cycles < (1 - share) * found->best_needs.cycles;
}

/* Estimates the program with these cuts and keeps it if it is the best one. *out_better: it is the
 * first, or better by a hundredth. */
static trm_status try_cuts(const splitter *s, const uint32_t *cuts, found_cuts *found,
                           bool *out_better, trm_error *error) {
  *out_better = false;
  for (uint32_t r = 0; r < found->num_tried; ++r) {
    if (memcmp(found->tried[r], cuts, s->num_shards * sizeof *cuts) == 0) return TRM_OK;
  }
  memcpy(found->tried[found->num_tried++], cuts, s->num_shards * sizeof *cuts);
  trm_program *program;
  TRY(estimate_cuts(s, cuts, &program, error));
  trm_cut_needs parts[MAX_SHARDS], needs = {.bytes = (double)program->totals.worst_tile_bytes};
  measure_parts(s, program, parts, &needs.cycles);
  trm_cuts_learn(s->model, s->num_shards, cuts, parts);
  *out_better = is_better(s, found, needs, A_HUNDREDTH);
  if (is_better(s, found, needs, 0)) {
    trm_program_free(found->best);
    found->best = program;
    found->best_needs = needs;
    memcpy(found->best_cuts, cuts, s->num_shards * sizeof *cuts);
    memcpy(found->best_parts, parts, sizeof parts);
  } else {
    trm_program_free(program);
  }
  return TRM_OK;
}

/* Moves a unit of the fullest shard, or of the longest if all fit, to a neighbour, first to the one
 * with more room. */
static trm_status move_a_unit(const splitter *s, found_cuts *found, bool *out_better,
                              trm_error *error) {
  const bool fits = found->best_needs.bytes <= s->room;
  double amounts[MAX_SHARDS];
  uint32_t most = 0;
  for (uint32_t p = 0; p < s->num_shards; ++p) {
    amounts[p] = fits ? found->best_parts[p].cycles : found->best_parts[p].bytes;
    if (amounts[p] > amounts[most]) most = p;
  }
  const bool has_before = most > 0, has_after = most + 1 < s->num_shards;
  const bool before_first = !has_after || (has_before && amounts[most - 1] < amounts[most + 1]);
  *out_better = false;
  for (int side = 0; side < 2 && !*out_better; ++side) {
    const bool before = (side == 0) == before_first;
    if (before ? !has_before : !has_after) continue;
    uint32_t cuts[MAX_SHARDS];
    memcpy(cuts, found->best_cuts, s->num_shards * sizeof *cuts);
    const uint32_t end = has_after ? cuts[most + 1] : s->num_units;
    if (end - cuts[most] < 2) continue;
    if (before) {
      ++cuts[most];
    } else {
      --cuts[most + 1];
    }
    TRY(try_cuts(s, cuts, found, out_better, error));
  }
  return TRM_OK;
}

/* Whether better cuts would not change a brief answer: shards fit, whose cycles add up, or the
 * program is far from fitting. */
static bool is_settled(const splitter *s, const trm_program_totals *totals) {
  if (totals->fits) return s->pipeline == NULL;
  return totals->worst_tile_bytes > totals->bytes_per_tile * 3 / 2;
}

static trm_status search(splitter *s, trm_program **out_program, trm_error *error) {
  found_cuts *found = ARENA_NEW(&s->arena, found_cuts, 1);
  CHECK_MEMORY(found, "shards");
  trm_status status = TRM_OK;
  const bool once = s->briefly != NULL && s->briefly->first_cut;
  const int rounds = once ? 1 : s->num_shards > 2 ? FEW_ROUNDS : ROUNDS;
  bool better = true;
  for (int round = 0; round < rounds && better; ++round) {
    const bool brief = s->briefly != NULL && round > 0;
    if (brief && is_settled(s, &found->best->totals)) break;
    uint32_t cuts[MAX_SHARDS];
    trm_cut_needs promised;
    TRY_OR_GOTO(trm_cuts_choose(s->model, s->num_shards, s->room, cuts, &promised, error), failed);
    const double share = brief && found->best->totals.fits ? A_TENTH : A_HUNDREDTH;
    if (!is_better(s, found, promised, share)) break;
    TRY_OR_GOTO(try_cuts(s, cuts, found, &better, error), failed);
  }
  better = s->briefly == NULL && s->num_shards == 2;
  while (better && found->num_tried + 2 <= ROUNDS + MOVES) {
    TRY_OR_GOTO(move_a_unit(s, found, &better, error), failed);
  }
  TRY_OR_GOTO(note_cuts(s, found->best_cuts, found->best, error), failed);
  *out_program = found->best;
  return TRM_OK;
failed:
  trm_program_free(found->best);
  return status;
}

static trm_status create_split(const trm_program *program, const trm_module *module,
                               const trm_program_options *options, uint32_t num_shards,
                               const trm_change *briefly, trm_program **out_program,
                               trm_error *error) {
  if (num_shards < 2 || num_shards > MAX_SHARDS) {
    FAIL(INVALID_ARGUMENT, "a program can be cut into 2 to %d shards, not %u", MAX_SHARDS,
         num_shards);
  }
  if (program->num_ipus > 1) {
    FAIL(FAILED_PRECONDITION, "the program uses %u IPUs already, as its own shards say",
         program->num_ipus);
  }
  splitter s = {.program = program,
                .module = module,
                .options = options,
                .num_shards = num_shards,
                .briefly = briefly,
                .pipeline = briefly != NULL && briefly->mini_batches > 0 ? briefly : NULL,
                .computation = find_computation(module)};
  trm_status status;
  TRY_OR_GOTO(find_units(&s, error), done);
  if (s.num_units < num_shards) {
    FAIL_OR_GOTO(
        done, FAILED_PRECONDITION,
        "the program has %u layer%s in a row, too few for %u shards (a layer is a scope of "
        "TensorFlow's op names)",
        s.num_units, s.num_units == 1 ? "" : "s", num_shards);
  }
  TRY_OR_GOTO(make_model(&s, error), done);
  status = search(&s, out_program, error);
done:
  trm_arena_free(&s.arena);
  return status;
}

trm_status trm_program_create_split(const trm_program *program, uint32_t num_shards,
                                    trm_program **out_program, trm_error *error) {
  return create_split(program, program->module, &program->options, num_shards, NULL, out_program,
                      error);
}

trm_status trm_program_create_split_briefly(const trm_program *program, const trm_module *module,
                                            const trm_program_options *options,
                                            const trm_change *change, trm_program **out_program,
                                            trm_error *error) {
  return create_split(program, module, options, change->shards, change, out_program, error);
}

trm_status trm_program_most_shards(const trm_program *program, uint32_t *out_count,
                                   trm_error *error) {
  *out_count = 1;
  if (program->num_ipus > 1) return TRM_OK;
  splitter s = {.program = program,
                .module = program->module,
                .computation = find_computation(program->module)};
  const trm_status status = find_units(&s, error);
  *out_count = s.num_units < MAX_SHARDS ? s.num_units : MAX_SHARDS;
  trm_arena_free(&s.arena);
  return status;
}

static trm_status find_promising(splitter *s, uint32_t most, uint32_t *out_shards,
                                 double *out_bytes, trm_error *error) {
  const trm_program_totals *totals = &s->program->totals;
  const double tile = (double)totals->bytes_per_tile;
  uint32_t cuts[MAX_SHARDS] = {0}, shards = 2;
  while (2 * shards <= most && (double)totals->worst_tile_bytes / shards > tile) shards *= 2;
  s->num_shards = shards; /* fewer than even shards: hardly */
  TRY(find_units(s, error));
  TRY(make_model(s, error));
  *out_bytes = INFINITY;
  for (;; shards *= 2) {
    trm_cut_needs promised;
    TRY(trm_cuts_choose(s->model, shards, s->room, cuts, &promised, error));
    if (promised.bytes < SURE * *out_bytes) { /* else more shards hardly help */
      *out_shards = shards;
      *out_bytes = promised.bytes;
    }
    if (promised.bytes <= SURE * tile || 2 * shards > most) return TRM_OK;
  }
}

trm_status trm_program_promising_shards(const trm_program *program, uint32_t most,
                                        uint32_t *out_shards, double *out_bytes, trm_error *error) {
  splitter s = {.program = program,
                .module = program->module,
                .options = &program->options,
                .computation = find_computation(program->module)};
  const trm_status status = find_promising(&s, most, out_shards, out_bytes, error);
  trm_arena_free(&s.arena);
  return status;
}

bool trm_program_cut_get(const trm_program *program, size_t i, trm_program_cut *out_cut) {
  if (i >= program->num_cuts) return false;
  return TRM_GIVE(out_cut, program->cuts[i]);
}
