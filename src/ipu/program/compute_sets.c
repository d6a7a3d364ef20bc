/* Owns: compute sets: which of them are equal, so that the original compiles them once. */
#include <string.h>

#include "ipu/program/draft.h"
#include "ipu/target/target.h"

static uint64_t signature_of(const trm_phase *phase, uint32_t ipu) {
  uint64_t h = trm_layout_combine(ipu + 1, (uint64_t)phase->cycles);
  h = trm_layout_combine(h, ((uint64_t)phase->active_tiles << 32) ^ (uint64_t)phase->edges);
  for (uint32_t g = 0; g < phase->num_groups; ++g) {
    const trm_vertex_group *group = &phase->groups[g];
    h = trm_layout_combine(h, (uint64_t)group->count);
    h = trm_layout_combine(h, group->state_bytes);
    for (const char *c = group->codelet; *c != '\0'; ++c) h = trm_layout_combine(h, (uint64_t)*c);
  }
  return h;
}

static uint64_t mix_text(uint64_t h, const char *text) {
  for (; text != NULL && *text != '\0'; ++text) h = trm_layout_combine(h, (uint8_t)*text);
  return h;
}

/* Operations with equal plans share vertices only if their arrays are equal too. */
static uint64_t mix_shapes(const trm_program_draft *draft, const trm_program_source *source,
                           const trm_instruction *instruction, uint64_t h) {
  const trm_computation *computation = &draft->module->computations[source->computation];
  for (uint32_t k = 0; k <= instruction->num_operands; ++k) {
    const trm_shape *shape = k == 0
                                 ? &instruction->shape
                                 : &computation->instructions[instruction->operands[k - 1]].shape;
    h = trm_layout_combine(h, (uint64_t)shape->dtype);
    for (int32_t d = 0; d < shape->rank; ++d) {
      h = trm_layout_combine(h, (uint64_t)shape->dims[d]);
    }
  }
  return h;
}

/* Kinds of operations that the original compiles once wherever they are equal. */
static bool is_always_outlined(const trm_instruction *instruction) {
  switch (instruction->opcode) {
    case TRM_OP_BATCH_NORM_GRAD:
    case TRM_OP_BATCH_NORM_INFERENCE:
    case TRM_OP_BATCH_NORM_TRAINING:
    case TRM_OP_CONVOLUTION:
    case TRM_OP_DOT:
    case TRM_OP_REDUCE_WINDOW:
    case TRM_OP_SELECT_AND_SCATTER: return true;
    case TRM_OP_CUSTOM_CALL:
      return instruction->custom_call == NULL || !instruction->custom_call->has_side_effect;
    default: return false;
  }
}

/* Whether the original compiles equal operations of this kind once: some kinds always, everything
 * in an outlined function, and everything in equal branches. *out_key: what else must be equal. */
static bool is_outlined(const trm_program_draft *draft, const trm_phase *phase, uint32_t source,
                        uint64_t *out_key) {
  *out_key = 0;
  if (!draft->program->options.outlining || source == TRM_NO_INDEX) return false;
  const trm_program_source *s = &draft->steps.sources.items[source];
  const trm_instruction *whole =
      &draft->module->computations[s->computation].instructions[s->instruction];
  const trm_instruction *one = phase->of != NULL ? phase->of : whole;
  const trm_tile_role *role = phase->role;
  if (role == NULL && draft->roles != NULL) {
    role = &draft->roles[s->computation][s->instruction];
  }
  if (role != NULL && role->call.copies != NULL && phase->kind == TRM_PHASE_COPY) {
    *out_key = mix_text(1, role->call.copies);
    return true;
  }
  const bool is_always = is_always_outlined(one);
  *out_key = mix_text(trm_layout_combine(1, (uint64_t)one->opcode), phase->name);
  if (is_always) *out_key = mix_shapes(draft, s, one, *out_key);
  if (role != NULL) *out_key = mix_text(*out_key, role->call.key);
  /* Each part of a layer has compute sets of its own. */
  if (role != NULL && role->call.key != NULL) *out_key = mix_text(*out_key, role->call.part);
  if (is_always || (role != NULL && role->call.is_shared)) return true;
  const char *function = trm_instruction_frontend_attribute(one, "outlined_function");
  if (function == NULL && draft->sets.branch == 0) return false;
  *out_key = trm_layout_combine(*out_key, draft->sets.branch);
  if (function != NULL) *out_key = mix_text(*out_key, function);
  return true;
}

static trm_status grow_table(trm_program_draft *draft, trm_error *error) {
  const uint32_t capacity = draft->sets.capacity == 0 ? 1024 : draft->sets.capacity * 2;
  uint32_t *table = trm_allocate((size_t)capacity * sizeof *table);
  CHECK_MEMORY(table, "compute sets");
  memset(table, 0xff, (size_t)capacity * sizeof *table);
  for (uint32_t c = 0; c < draft->sets.all.count; ++c) {
    if (draft->sets.signatures.items[c] == 0) continue;
    uint32_t slot = (uint32_t)draft->sets.signatures.items[c] & (capacity - 1);
    while (table[slot] != TRM_NO_INDEX) slot = (slot + 1) & (capacity - 1);
    table[slot] = c;
  }
  trm_free(draft->sets.table);
  draft->sets.table = table;
  draft->sets.capacity = capacity;
  return TRM_OK;
}

/* Finds an equal compute set, or enters the new one and returns TRM_NO_INDEX. */
static trm_status share(trm_program_draft *draft, uint64_t signature, uint32_t index,
                        uint32_t *out_shared, trm_error *error) {
  *out_shared = TRM_NO_INDEX;
  if ((uint64_t)index * 2 >= draft->sets.capacity) TRY(grow_table(draft, error));
  const uint32_t mask = draft->sets.capacity - 1;
  uint32_t slot = (uint32_t)signature & mask;
  for (; draft->sets.table[slot] != TRM_NO_INDEX; slot = (slot + 1) & mask) {
    if (draft->sets.signatures.items[draft->sets.table[slot]] == signature) {
      *out_shared = draft->sets.table[slot];
      return TRM_OK;
    }
  }
  draft->sets.table[slot] = index;
  return TRM_OK;
}

trm_status trm_program_add_compute_set(trm_program_draft *draft, const trm_phase *phase,
                                       const char *name, uint32_t source, uint32_t ipu,
                                       uint32_t *out_index, trm_error *error) {
  const uint32_t index = (uint32_t)draft->sets.all.count;
  trm_program_compute_set set = {.name = name,
                                 .source = source,
                                 .ipu = ipu,
                                 .num_groups = phase->num_groups,
                                 .edges = phase->edges,
                                 .flops = phase->flops,
                                 .cycles = phase->cycles,
                                 .cycles_mean = phase->cycles_mean,
                                 .active_tiles = phase->active_tiles,
                                 .first_tile = phase->first_tile,
                                 .shared_with = TRM_NO_INDEX};
  int64_t state = 0, arrays = 0;
  for (uint32_t g = 0; g < phase->num_groups; ++g) {
    set.groups[g] = phase->groups[g];
    set.vertices += phase->groups[g].count;
    arrays += phase->groups[g].count * phase->groups[g].array_bytes;
    state += phase->groups[g].count * phase->groups[g].state_bytes;
  }
  uint64_t key, signature = 0;
  if (is_outlined(draft, phase, source, &key)) {
    signature = signature_of(phase, ipu);
    if (key != 0) signature = trm_layout_combine(signature, key);
    TRY(share(draft, signature, index, &set.shared_with, error));
    if (set.shared_with != TRM_NO_INDEX) signature = 0;
  }
  if (set.shared_with == TRM_NO_INDEX) {
    const int64_t tiles = trm_most(1, phase->active_tiles);
    state -= arrays;
    set.state = (trm_spread){.worst = trm_ceil_divide(state, tiles),
                             .total = state,
                             .tiles = trm_program_target_of(draft, ipu)->tiles_per_ipu,
                             .ipu = ipu,
                             .first_tile = phase->first_tile};
    set.arrays = set.state;
    set.arrays.worst = trm_ceil_divide(arrays, tiles);
    set.arrays.total = arrays;
  }
  *out_index = index;
  if (!VECTOR_PUSH(&draft->sets.all, set) || !VECTOR_PUSH(&draft->sets.signatures, signature)) {
    FAIL_NO_MEMORY("compute sets");
  }
  return TRM_OK;
}
