/* Owns: appending steps, sharing compute sets, and naming both. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cycles.h"
#include "ipu/program/draft.h"
#include "ipu/target/target.h"

trm_status trm_program_add_note(trm_program_draft *draft, const char *format, ...) {
  trm_error *error = NULL;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (draft->finding) return TRM_OK;
  for (size_t n = 0; n < draft->notes.count && n < 64; ++n) {
    if (strcmp(draft->notes.items[n], text) == 0) return TRM_OK;
  }
  if (draft->notes.count >= 64) return TRM_OK;
  const char *copy = trm_arena_string(&draft->program->arena, text, strlen(text));
  if (copy == NULL || !VECTOR_PUSH(&draft->notes, copy)) FAIL_NO_MEMORY("notes");
  return TRM_OK;
}

trm_status trm_program_add_source(trm_program_draft *draft, uint32_t computation, trm_index i,
                                  uint32_t *out_source, trm_error *error) {
  const trm_instruction *instruction = &draft->module->computations[computation].instructions[i];
  const trm_metadata *metadata = &instruction->metadata;
  trm_program_source source = {.computation = computation,
                               .instruction = i,
                               .hlo_name = instruction->name,
                               .opcode = trm_opcode_name(instruction->opcode),
                               .op_name = metadata->op_name == NULL ? "" : metadata->op_name,
                               .op_type = metadata->op_type == NULL ? "" : metadata->op_type,
                               .layer = "",
                               .file = metadata->source_file,
                               .line = metadata->source_line};
  if (strcmp(source.op_name, "XLA_Args") == 0) source.op_name = ""; /* XLA's name for inputs */
  if (source.file != NULL && source.file[0] == '\0') source.file = NULL;
  const char *slash = strrchr(source.op_name, '/');
  if (slash != NULL) {
    source.layer =
        trm_arena_string(&draft->program->arena, source.op_name, (size_t)(slash - source.op_name));
    CHECK_MEMORY(source.layer, "a program");
  }
  *out_source = (uint32_t)draft->sources.count;
  if (!VECTOR_PUSH(&draft->sources, source)) FAIL_NO_MEMORY("a program");
  return TRM_OK;
}

static trm_status push(trm_program_draft *draft, const trm_program_step *step, uint32_t *out_step,
                       trm_error *error) {
  const uint32_t index = (uint32_t)draft->steps.count;
  if (index == TRM_NO_INDEX || !VECTOR_PUSH(&draft->steps, *step)) FAIL_NO_MEMORY("steps");
  trm_program_step *added = &draft->steps.items[index];
  added->parent = draft->parent;
  added->end = index + 1;
  *out_step = index;
  return TRM_OK;
}

trm_status trm_program_open(trm_program_draft *draft, trm_program_step_type type, const char *name,
                            uint32_t source, int32_t ipu, uint32_t *out_step, trm_error *error) {
  const trm_program_step step = {.type = type,
                                 .name = name,
                                 .source = source,
                                 .ipu = ipu,
                                 .stage = draft->stage,
                                 .repeat_count = 1,
                                 .compute_set = TRM_NO_INDEX,
                                 .taken = TRM_NO_INDEX};
  TRY(push(draft, &step, out_step, error));
  draft->parent = *out_step;
  return TRM_OK;
}

void trm_program_close(trm_program_draft *draft, uint32_t step) {
  draft->steps.items[step].end = (uint32_t)draft->steps.count;
  draft->parent = draft->steps.items[step].parent;
}

/* ---- Compute sets --------------------------------------------------------------------------- */

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

/* Convolutions with equal plans share vertices only if their shapes are equal too. */
static uint64_t mix_shapes(const trm_program_draft *draft, const trm_program_source *source,
                           const trm_instruction *instruction, uint64_t h) {
  const trm_computation *computation = &draft->module->computations[source->computation];
  if (instruction->opcode != TRM_OP_CONVOLUTION) return h;
  for (uint32_t k = 0; k <= instruction->num_operands; ++k) {
    const trm_shape *shape = k == 0
                                 ? &instruction->shape
                                 : &computation->instructions[instruction->operands[k - 1]].shape;
    for (int32_t d = 0; d < shape->rank; ++d) {
      h = trm_layout_combine(h, (uint64_t)shape->dims[d]);
    }
  }
  return h;
}

/* Whether the original compiles equal operations of this kind once: some kinds always, everything
 * in an outlined function, and everything in equal branches. *out_key: what else must be equal. */
static bool is_outlined(const trm_program_draft *draft, const trm_phase *phase, uint32_t source,
                        uint64_t *out_key) {
  *out_key = 0;
  if (!draft->program->options.outlining || source == TRM_NO_INDEX) return false;
  const trm_program_source *s = &draft->sources.items[source];
  const trm_instruction *whole =
      &draft->module->computations[s->computation].instructions[s->instruction];
  const trm_instruction *one = phase->of != NULL ? phase->of : whole;
  const trm_tile_role *role = phase->role;
  if (role == NULL && draft->roles != NULL) {
    role = &draft->roles[s->computation][s->instruction];
  }
  const char *opcode = trm_opcode_name(one->opcode);
  const bool is_always = strcmp(opcode, "convolution") == 0 || strcmp(opcode, "dot") == 0 ||
                         strncmp(opcode, "batch-norm", 10) == 0 ||
                         strcmp(opcode, "reduce-window") == 0 ||
                         strcmp(opcode, "select-and-scatter") == 0 ||
                         (strcmp(opcode, "custom-call") == 0 &&
                          !(one->custom_call != NULL && one->custom_call->has_side_effect));
  if (role != NULL && role->copies != NULL && phase->kind == TRM_PHASE_COPY) {
    *out_key = mix_text(1, role->copies);
    return true;
  }
  *out_key = mix_text(mix_text(1, opcode), phase->name);
  if (is_always) *out_key = mix_shapes(draft, s, one, *out_key);
  if (role != NULL) *out_key = mix_text(*out_key, role->key);
  if (is_always || (role != NULL && role->is_shared)) return true;
  const char *function = trm_instruction_frontend_attribute(one, "outlined_function");
  if (function == NULL && draft->branch == 0) return false;
  *out_key = trm_layout_combine(*out_key, draft->branch);
  if (function != NULL) *out_key = mix_text(*out_key, function);
  return true;
}

static trm_status grow_table(trm_program_draft *draft, trm_error *error) {
  const uint32_t capacity = draft->outline_capacity == 0 ? 1024 : draft->outline_capacity * 2;
  uint32_t *table = trm_allocate((size_t)capacity * sizeof *table);
  CHECK_MEMORY(table, "compute sets");
  memset(table, 0xff, (size_t)capacity * sizeof *table);
  for (uint32_t c = 0; c < draft->compute_sets.count; ++c) {
    if (draft->compute_sets.items[c].shared_with != TRM_NO_INDEX) continue;
    uint32_t slot = (uint32_t)draft->signatures.items[c] & (capacity - 1);
    while (table[slot] != TRM_NO_INDEX) slot = (slot + 1) & (capacity - 1);
    table[slot] = c;
  }
  trm_free(draft->outline_table);
  draft->outline_table = table;
  draft->outline_capacity = capacity;
  return TRM_OK;
}

/* Finds an equal compute set, or enters the new one and returns TRM_NO_INDEX. */
static trm_status share(trm_program_draft *draft, uint64_t signature, uint32_t index,
                        uint32_t *out_shared, trm_error *error) {
  *out_shared = TRM_NO_INDEX;
  if ((uint64_t)index * 2 >= draft->outline_capacity) TRY(grow_table(draft, error));
  const uint32_t mask = draft->outline_capacity - 1;
  uint32_t slot = (uint32_t)signature & mask;
  for (; draft->outline_table[slot] != TRM_NO_INDEX; slot = (slot + 1) & mask) {
    if (draft->signatures.items[draft->outline_table[slot]] == signature) {
      *out_shared = draft->outline_table[slot];
      return TRM_OK;
    }
  }
  draft->outline_table[slot] = index;
  return TRM_OK;
}

static trm_status add_compute_set(trm_program_draft *draft, const trm_phase *phase,
                                  const char *name, uint32_t source, uint32_t ipu,
                                  uint32_t *out_index, trm_error *error) {
  const uint32_t index = (uint32_t)draft->compute_sets.count;
  trm_program_compute_set set = {.name = name,
                                 .source = source,
                                 .ipu = ipu,
                                 .num_groups = phase->num_groups,
                                 .edges = phase->edges,
                                 .flops = phase->flops,
                                 .cycles = phase->cycles,
                                 .cycles_mean = phase->cycles_mean,
                                 .active_tiles = phase->active_tiles,
                                 .shared_with = TRM_NO_INDEX};
  int64_t state = 0;
  for (uint32_t g = 0; g < phase->num_groups; ++g) {
    set.groups[g] = phase->groups[g];
    set.vertices += phase->groups[g].count;
    state += phase->groups[g].count * phase->groups[g].state_bytes;
  }
  uint64_t key, signature = signature_of(phase, ipu);
  if (is_outlined(draft, phase, source, &key)) {
    if (key != 0) signature = trm_layout_combine(signature, key);
    TRY(share(draft, signature, index, &set.shared_with, error));
  }
  if (set.shared_with == TRM_NO_INDEX) {
    set.state =
        trm_mapping_spread(trm_program_target_of(draft, ipu),
                           trm_ceil_divide(state, trm_most(1, phase->active_tiles)), state, ipu, 0);
  }
  *out_index = index;
  if (!VECTOR_PUSH(&draft->compute_sets, set) || !VECTOR_PUSH(&draft->signatures, signature)) {
    FAIL_NO_MEMORY("compute sets");
  }
  return TRM_OK;
}

/* ---- Phases --------------------------------------------------------------------------------- */

static trm_program_step_type step_type(trm_phase_kind kind) {
  switch (kind) {
    case TRM_PHASE_COMPUTE:
    case TRM_PHASE_COPY: return TRM_STEP_TYPE_ON_TILE_EXECUTE;
    case TRM_PHASE_EXCHANGE: return TRM_STEP_TYPE_DO_EXCHANGE;
    case TRM_PHASE_GLOBAL_EXCHANGE: return TRM_STEP_TYPE_GLOBAL_EXCHANGE;
    case TRM_PHASE_CROSS_REPLICA: return TRM_STEP_TYPE_CROSS_REPLICA_COPY;
    case TRM_PHASE_SYNC: return TRM_STEP_TYPE_SYNC;
    default: return TRM_STEP_TYPE_STREAM_COPY_MID;
  }
}

static bool is_stream(trm_phase_kind kind) {
  return kind == TRM_PHASE_HOST_READ || kind == TRM_PHASE_HOST_WRITE ||
         kind == TRM_PHASE_REMOTE_READ || kind == TRM_PHASE_REMOTE_WRITE;
}

/* The delay of a sync, on the mean over tiles. */
static int64_t sync_delay(const trm_target *target) { return target->max_sync_delay; }

static trm_status add_temporary(trm_program_draft *draft, const trm_phase *phase, uint32_t source,
                                uint32_t ipu, uint32_t begin, uint32_t end, trm_error *error) {
  trm_memory_category category = TRM_CATEGORY_VARIABLE;
  if (phase->kind == TRM_PHASE_COPY) category = TRM_CATEGORY_REARRANGEMENT;
  else if (phase->kind == TRM_PHASE_GLOBAL_EXCHANGE || phase->kind == TRM_PHASE_CROSS_REPLICA)
    category = TRM_CATEGORY_GLOBAL_MESSAGE;
  else if (is_stream(phase->kind)) category = TRM_CATEGORY_HOST_MESSAGE;
  else if (phase->temporary_is_message) category = TRM_CATEGORY_MESSAGE;
  const trm_new_variable wanted = {
      .name = trm_memory_category_name(category),
      .source = source,
      .category = category,
      .mapping = trm_mapping_spread(trm_program_target_of(draft, ipu), phase->temporary_worst,
                                    phase->temporary_total, ipu, 0)};
  if (wanted.mapping.kind == TRM_MAPPING_NONE) return TRM_OK;
  uint32_t variable;
  TRY(trm_program_add_variable(draft, &wanted, &variable, error));
  draft->variables.items[variable].live = (trm_program_interval){begin, end};
  return TRM_OK;
}

/* Counts one more use of the word, which begins the name of a copy between IPUs. */
static trm_status count_word(trm_program_draft *draft, const char *word, uint32_t *out_count,
                             trm_error *error) {
  size_t w = 0;
  while (w < draft->words.count && strcmp(draft->words.items[w].word, word) != 0) ++w;
  if (w == draft->words.count && !VECTOR_PUSH(&draft->words, ((trm_word_count){word, 0}))) {
    FAIL_NO_MEMORY("names");
  }
  *out_count = ++draft->words.items[w].count;
  return TRM_OK;
}

/* The role's word with its number; the first one has no number. */
static trm_status word_of(trm_program_draft *draft, const trm_tile_role *role,
                          const char **out_word, trm_error *error) {
  trm_arena *arena = &draft->program->arena;
  *out_word = role->word;
  if (!role->is_plain && *role->number > 1) {
    *out_word = trm_arena_format(arena, "%s.%" PRIu32, role->word, *role->number - 1);
  }
  if (role->prefix != NULL && *out_word != NULL) {
    *out_word = trm_arena_format(arena, "%s/%s", *out_word, role->prefix);
  }
  CHECK_MEMORY(*out_word, "names");
  return TRM_OK;
}

/* The name of a step from its TensorFlow op and HLO instruction, as the original writes it:
 * "dense/MatMul/dot.1". */
static trm_status name_of_role(trm_program_draft *draft, const trm_program_source *s,
                               const trm_phase *phase, const trm_tile_role *role,
                               const char **out_name, trm_error *error) {
  trm_arena *arena = &draft->program->arena;
  const trm_instruction *op = phase->of;
  const char *op_name = role != NULL && role->scope != NULL          ? role->scope
                        : op == NULL || op->metadata.op_name == NULL ? s->op_name
                                                                     : op->metadata.op_name;
  const char *hlo = phase->of != NULL ? phase->of->name : s->hlo_name;
  /* An instruction without a TensorFlow op is called by its HLO name. */
  const bool has_word = role != NULL && role->word != NULL && op_name[0] != '\0';
  if (has_word) TRY(word_of(draft, role, &hlo, error));
  *out_name = op_name[0] == '\0' ? hlo : trm_arena_format(arena, "%s/%s", op_name, hlo);
  CHECK_MEMORY(*out_name, "names");
  return TRM_OK;
}

static trm_status phase_name(trm_program_draft *draft, uint32_t source, const trm_phase *phase,
                             const char **out_name, trm_error *error) {
  *out_name = phase->name;
  if (source == TRM_NO_INDEX) return TRM_OK;
  const trm_program_source *s = &draft->sources.items[source];
  trm_tile_role *role = phase->role;
  if (role == NULL && phase->of == NULL && draft->roles != NULL) {
    role = &draft->roles[s->computation][s->instruction];
  }
  const char *whose;
  TRY(name_of_role(draft, s, phase, role, &whose, error));
  if (phase->kind == TRM_PHASE_GLOBAL_EXCHANGE) {
    uint32_t count;
    TRY(count_word(draft, phase->name, &count, error));
    *out_name = trm_arena_format(&draft->program->arena, "Copy_%s_to_/%s.%" PRIu32 "/GlobalPre",
                                 whose, phase->name, count);
    CHECK_MEMORY(*out_name, "names");
    return TRM_OK;
  }
  if (phase->kind == TRM_PHASE_COPY && strcmp(phase->name, "inter-ipu-copy") == 0) {
    uint32_t count; /* that of the exchange before it */
    TRY(count_word(draft, "inter-ipu-copy/OnTileCopy", &count, error));
    *out_name = trm_arena_format(&draft->program->arena,
                                 "Copy_%s_to_/inter-ipu-copy.%" PRIu32 "/OnTileCopy", whose, count);
    CHECK_MEMORY(*out_name, "names");
    return TRM_OK;
  }
  if (phase->kind == TRM_PHASE_COPY && role != NULL && role->copies != NULL &&
      s->op_name[0] != '\0') {
    *out_name = trm_arena_format(&draft->program->arena, "%s/%s", s->op_name, role->copies);
    CHECK_MEMORY(*out_name, "names");
    return TRM_OK;
  }
  const bool computes = phase->kind == TRM_PHASE_COMPUTE;
  const char *last = computes && role != NULL && role->last != NULL ? role->last : phase->name;
  *out_name = phase->kind == TRM_PHASE_COPY
                  ? trm_arena_format(&draft->program->arena, "Copy_%s/%s/OnTileCopy", whose, last)
                  : trm_arena_format(&draft->program->arena, "%s/%s", whose, last);
  CHECK_MEMORY(*out_name, "names");
  return TRM_OK;
}

static trm_status add_phase(trm_program_draft *draft, const trm_phase *phase, uint32_t source,
                            uint32_t ipu, uint32_t *out_step, trm_error *error) {
  const char *name;
  TRY(phase_name(draft, source, phase, &name, error));
  trm_program_step step = {.type = step_type(phase->kind),
                           .name = name,
                           .source = source,
                           .compute_set = TRM_NO_INDEX,
                           .ipu = (int32_t)ipu,
                           .stage = draft->stage,
                           .repeat_count = 1,
                           .taken = TRM_NO_INDEX,
                           .sync_cycles = phase->sync_cycles,
                           .cycles_mean = phase->cycles_mean,
                           .active_tiles = phase->active_tiles,
                           .bytes_in_worst = phase->bytes_in_worst,
                           .bytes_in_total = phase->bytes_in_total,
                           .bytes_out_worst = phase->bytes_out_worst,
                           .bytes_out_total = phase->bytes_out_total,
                           .messages_worst = phase->messages_worst,
                           .flops = phase->flops};
  if (phase->kind == TRM_PHASE_EXCHANGE && step.sync_cycles == 0) {
    step.sync_cycles = sync_delay(draft->target);
  }
  step.cycles = trm_add_cycles(phase->cycles, step.sync_cycles);
  if (step.type == TRM_STEP_TYPE_ON_TILE_EXECUTE) {
    TRY(add_compute_set(draft, phase, name, source, ipu, &step.compute_set, error));
  }
  uint32_t edge;
  if (is_stream(phase->kind)) { /* tiles wait for the host at Begin and End */
    trm_program_step side = {.type = TRM_STEP_TYPE_STREAM_COPY_BEGIN,
                             .name = name,
                             .source = source,
                             .compute_set = TRM_NO_INDEX,
                             .ipu = (int32_t)ipu,
                             .stage = draft->stage,
                             .repeat_count = 1,
                             .taken = TRM_NO_INDEX,
                             .sync_cycles = step.sync_cycles / 2,
                             .cycles = step.sync_cycles / 2};
    TRY(push(draft, &side, &edge, error));
    step.cycles -= step.sync_cycles;
    const int64_t rest = step.sync_cycles - side.sync_cycles;
    step.sync_cycles = 0;
    TRY(push(draft, &step, out_step, error));
    side.type = TRM_STEP_TYPE_STREAM_COPY_END;
    side.sync_cycles = side.cycles = rest;
    TRY(push(draft, &side, &edge, error));
    return add_temporary(draft, phase, source, ipu, *out_step, *out_step + 1, error);
  }
  TRY(push(draft, &step, out_step, error));
  return TRM_OK;
}

/* Keeps the messages of an exchange alive until the compute set that reads them has run. */
static trm_status hold_temporaries(trm_program_draft *draft, const trm_tile_cost *cost,
                                   const uint32_t *step_of, uint32_t source, uint32_t ipu,
                                   trm_error *error) {
  for (size_t p = 0; p < cost->phases.count; ++p) {
    const trm_phase *phase = &cost->phases.items[p];
    if (is_stream(phase->kind) || (phase->temporary_worst <= 0 && phase->temporary_total <= 0)) {
      continue;
    }
    uint32_t end = step_of[p] + 1;
    if (phase->kind == TRM_PHASE_EXCHANGE && p + 1 < cost->phases.count) {
      const trm_phase *next = &cost->phases.items[p + 1];
      const bool reads = next->kind == TRM_PHASE_COMPUTE || next->kind == TRM_PHASE_COPY;
      if (reads && next->temporary_worst == 0) end = step_of[p + 1] + 1;
    }
    TRY(add_temporary(draft, phase, source, ipu, step_of[p], end, error));
  }
  if (cost->temporary_worst <= 0 && cost->temporary_total <= 0) return TRM_OK;
  const trm_phase whole = {.kind = TRM_PHASE_COMPUTE,
                           .temporary_worst = cost->temporary_worst,
                           .temporary_total = cost->temporary_total};
  return add_temporary(draft, &whole, source, ipu, step_of[0], step_of[cost->phases.count - 1] + 1,
                       error);
}

trm_status trm_program_add_cost(trm_program_draft *draft, const trm_tile_cost *cost,
                                uint32_t source, uint32_t ipu, uint32_t *out_first,
                                uint32_t *out_last, uint32_t *out_writes, trm_error *error) {
  const size_t count = cost->phases.count;
  *out_first = (uint32_t)draft->steps.count;
  *out_last = *out_first - 1;
  *out_writes = *out_first;
  if (count == 0) return TRM_OK;
  uint32_t *step_of = trm_arena_allocate(&draft->scratch, count, sizeof *step_of);
  CHECK_MEMORY(step_of, "steps");
  bool computes = false;
  for (size_t p = 0; p < count;) {
    const int64_t repeats = cost->phases.items[p].repeats;
    uint32_t loop = TRM_NO_INDEX;
    if (repeats > 1) { /* phases with equal counts form one loop */
      const char *name;
      const trm_phase turns = {.name = "Loop"};
      TRY(phase_name(draft, source, &turns, &name, error));
      TRY(trm_program_open(draft, TRM_STEP_TYPE_REPEAT, name, source, (int32_t)ipu, &loop, error));
      draft->steps.items[loop].repeat_count = (uint64_t)repeats;
    }
    for (; p < count && cost->phases.items[p].repeats == repeats; ++p) {
      const trm_phase *phase = &cost->phases.items[p];
      TRY(add_phase(draft, phase, source, ipu, &step_of[p], error));
      const bool is_compute = phase->kind == TRM_PHASE_COMPUTE || phase->kind == TRM_PHASE_COPY;
      if (is_compute && !computes) *out_writes = step_of[p];
      computes = computes || is_compute;
    }
    if (loop != TRM_NO_INDEX) trm_program_close(draft, loop);
  }
  *out_last = (uint32_t)draft->steps.count - 1;
  return hold_temporaries(draft, cost, step_of, source, ipu, error);
}

trm_status trm_program_add_phases(trm_program_draft *draft, const trm_phase *phases, size_t count,
                                  uint32_t source, uint32_t ipu, trm_error *error) {
  trm_tile_cost cost = {.arena = &draft->program->arena};
  trm_status status = TRM_OK;
  uint32_t first, last, writes;
  for (size_t p = 0; p < count && status == TRM_OK; ++p) {
    status = trm_tile_cost_add(&cost, &phases[p], error);
  }
  if (status == TRM_OK) {
    status = trm_program_add_cost(draft, &cost, source, ipu, &first, &last, &writes, error);
  }
  trm_tile_cost_free(&cost);
  return status;
}

trm_status trm_program_add_copies(trm_program_draft *draft, const char *what, uint32_t source,
                                  uint32_t ipu, int64_t worst, int64_t total, trm_error *error) {
  if (worst <= 0) return TRM_OK;
  trm_tile_cost cost = {.arena = &draft->program->arena};
  const trm_tile_request request = {.target = trm_program_target_of(draft, ipu)};
  trm_status status = trm_tile_add_copy(
      &request, &cost, what, worst, total, 8,
      (uint32_t)trm_least(trm_target_tiles_per_ipu(request.target), trm_ceil_divide(total, worst)),
      error);
  uint32_t first, last, writes;
  if (status == TRM_OK) {
    status = trm_program_add_cost(draft, &cost, source, ipu, &first, &last, &writes, error);
  }
  trm_tile_cost_free(&cost);
  return status;
}
