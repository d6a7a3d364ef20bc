/* Owns: pipelines: the stage of a step, how stages overlap, and what they keep.
 *
 * The module computes one mini-batch after the other, all stages in order. A pipeline changes the
 * times: the stages of different mini-batches run at once, each on its IPU. So the loop takes fewer
 * cycles, and the values that a forward stage leaves for its backward stage exist for several
 * mini-batches. program.h (trm_pipeline) has the formulas. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cycles.h"
#include "ipu/program/draft.h"
#include "ipu/program/plan_options.h"

bool trm_module_has_pipeline(const trm_module *module) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (instruction->opcode == TRM_OP_WHILE &&
          trm_instruction_frontend_attribute(instruction, "pipeline") != NULL) {
        return true;
      }
    }
  }
  return false;
}

static trm_pipeline_schedule schedule_named(const char *name) {
  if (name != NULL && strcmp(name, "Interleaved") == 0) return TRM_PIPELINE_INTERLEAVED;
  if (name != NULL && strcmp(name, "Sequential") == 0) return TRM_PIPELINE_SEQUENTIAL;
  return TRM_PIPELINE_GROUPED;
}

/* The IPU of a stage; the first one for a stage on several. */
static uint32_t device_at(const json_t *mapping, uint32_t stage, const trm_program *program) {
  const json_t *device = json_array_get(mapping, stage);
  if (json_is_array(device)) device = json_array_get(device, 0);
  const json_int_t number =
      json_is_integer(device) ? json_integer_value(device) : (json_int_t)stage;
  const bool good = number >= 0 && number < (json_int_t)program->num_ipus;
  return good ? trm_program_ipu_of_shard(program, (uint32_t)number) : 0;
}

/* Reads one kind of options of one stage, on top of the program's. */
static trm_status read_plan_options(trm_program_draft *draft, const json_t *options,
                                    const char *key, const struct trm_plan_options *base,
                                    const struct trm_plan_options **out, trm_error *error) {
  const json_t *object = json_object_get(options, key);
  *out = base;
  if (object == NULL || json_is_null(object) || json_object_size(object) == 0) return TRM_OK;
  trm_arena *arena = &draft->program->arena;
  trm_plan_options *own = ARENA_NEW(arena, trm_plan_options, 1);
  CHECK_MEMORY(own, "a pipeline");
  *own = *base;
  *out = own;
  const trm_status status =
      trm_program_add_plan_options(object, "a pipeline's stage", arena, own, error);
  draft->program->refuses_option |= status != TRM_OK;
  return status;
}

/* "options": {"forward": [a stage's, ...], "backward": [...], "update": {...}}. */
static trm_status read_stage_options(trm_program_draft *draft, const json_t *options,
                                     trm_error *error) {
  const trm_pipeline *pipeline = &draft->program->pipeline;
  draft->stages.options = NULL;
  if (!json_is_object(options)) return TRM_OK;
  trm_tile_options *all =
      ARENA_NEW(&draft->program->arena, trm_tile_options, (size_t)pipeline->num_entries + 1);
  CHECK_MEMORY(all, "a pipeline");
  for (uint32_t e = 0; e <= pipeline->num_entries; ++e) {
    const bool update = e == pipeline->num_entries, backward = e >= pipeline->num_stages;
    const uint32_t s = backward ? 2 * pipeline->num_stages - 1 - e : e;
    const json_t *own =
        update ? json_object_get(options, "update")
               : json_array_get(json_object_get(options, backward ? "backward" : "forward"), s);
    all[e] = draft->tile_options;
    TRY(read_plan_options(draft, own, "convolution_options", draft->tile_options.convolution,
                          &all[e].convolution, error));
    TRY(read_plan_options(draft, own, "matmul_options", draft->tile_options.matmul, &all[e].matmul,
                          error));
    const json_t *slices = json_object_get(own, "slice_options");
    const char *proportion =
        json_string_value(json_object_get(slices, "availableMemoryProportion"));
    if (proportion != NULL) all[e].slice_memory_proportion = strtod(proportion, NULL);
  }
  draft->stages.options = all;
  return TRM_OK;
}

static trm_status read_description(trm_program_draft *draft, const json_t *json, bool *out_good,
                                   trm_error *error) {
  trm_pipeline *pipeline = &draft->program->pipeline;
  const json_int_t stages = json_integer_value(json_object_get(json, "stages"));
  *out_good = stages >= 1 && stages <= 1024;
  if (!*out_good) return TRM_OK;
  pipeline->present = true;
  pipeline->num_stages = (uint32_t)stages;
  pipeline->is_training = json_is_true(json_object_get(json, "training"));
  pipeline->schedule = schedule_named(json_string_value(json_object_get(json, "schedule")));
  pipeline->recomputation = draft->program->options.recompute && pipeline->is_training;
  pipeline->num_entries = pipeline->num_stages * (pipeline->is_training ? 2 : 1);
  pipeline->stages = ARENA_NEW(&draft->program->arena, trm_pipeline_stage, pipeline->num_entries);
  CHECK_MEMORY(pipeline->stages, "a pipeline");
  const json_t *mapping = json_object_get(json, "device_mapping");
  for (uint32_t e = 0; e < pipeline->num_entries; ++e) {
    trm_pipeline_stage *stage = &pipeline->stages[e];
    const bool backward = e >= pipeline->num_stages;
    const uint32_t s = backward ? 2 * pipeline->num_stages - 1 - e : e;
    stage->ipu = device_at(mapping, s, draft->program);
    stage->is_backward = backward;
    stage->stash_depth = 1;
    if (backward || !pipeline->is_training) continue;
    if (pipeline->schedule == TRM_PIPELINE_GROUPED) {
      stage->stash_depth = 2 * (pipeline->num_stages - 1 - s) + 1;
    } else if (pipeline->schedule == TRM_PIPELINE_INTERLEAVED) {
      stage->stash_depth = pipeline->num_stages - s;
    }
  }
  const char *mode = json_string_value(json_object_get(json, "recomputation_mode"));
  const bool at_once = mode != NULL && strcmp(mode, "RecomputeThenBackpropagate") == 0;
  draft->stages.checkpoints = NULL;
  if (pipeline->recomputation && !at_once) {
    draft->stages.checkpoints = ARENA_NEW(&draft->scratch, uint32_t, pipeline->num_stages);
    CHECK_MEMORY(draft->stages.checkpoints, "a pipeline");
  }
  TRY(read_stage_options(draft, json_object_get(json, "options"), error));
  const json_t *memory = json_object_get(json, "memory");
  draft->stages.remote.weights = json_is_true(json_object_get(memory, "offload_weights"));
  draft->stages.remote.sums =
      json_is_true(json_object_get(memory, "offload_gradient_accumulation_buffers"));
  draft->stages.remote.activations = json_is_true(json_object_get(memory, "offload_activations"));
  const char *key;
  const json_t *value;
  json_object_foreach((json_t *)(uintptr_t)memory, key, value) {
    if (!json_is_true(value) || strncmp(key, "replicated_", 11) != 0) continue;
    TRY(trm_program_add_note(draft,
                             "the pipeline's %s is not modelled: every replica is counted "
                             "with all of what it shares",
                             key));
  }
  return TRM_OK;
}

trm_status trm_pipeline_begin(trm_program_draft *draft, const trm_instruction *loop,
                              bool *out_is_pipeline, trm_error *error) {
  *out_is_pipeline = false;
  const char *text = trm_instruction_frontend_attribute(loop, "pipeline");
  if (text == NULL || draft->stages.nesting > 0) return TRM_OK;
  json_t *json = json_loads(text, 0, NULL);
  bool good = false;
  trm_status status = TRM_OK;
  if (json_is_object(json)) status = read_description(draft, json, &good, error);
  json_decref(json);
  TRY(status);
  if (!good) {
    return trm_program_add_note(draft, "the description of a pipeline is not understood: its "
                                       "stages are counted one after the other");
  }
  *out_is_pipeline = true;
  return TRM_OK;
}

/* Whether a backward stage reads a value of a forward stage. */
static bool is_stashed(const trm_pipeline *pipeline, const trm_stage_use *use) {
  return pipeline->is_training && use->made_in >= 0 &&
         (uint32_t)use->made_in < pipeline->num_stages &&
         use->last_in >= (int32_t)pipeline->num_stages;
}

/* ---- What the stages keep ------------------------------------------------------------------- */

/* A value that comes into a stage, from another stage or a feed, is kept even when the rest is
 * recomputed; so is a checkpoint, from which the stage computes again. */
static bool comes_from_outside(const trm_program_draft *draft, uint32_t v) {
  const trm_program_variable *variable = &draft->values.variables.items[v];
  if (draft->values.stage_uses.items[v].comes_in || variable->source == TRM_NO_INDEX) return true;
  const trm_program_source *source = &draft->steps.sources.items[variable->source];
  const trm_instruction *instruction =
      &draft->module->computations[source->computation].instructions[source->instruction];
  return trm_instruction_acts_as(instruction) == TRM_OP_INFEED;
}

static trm_status add_stash(trm_program_draft *draft, uint32_t v, uint32_t depth, uint32_t begin,
                            uint32_t end, trm_error *error) {
  if (depth <= 1 || draft->stages.remote.activations) return TRM_OK;
  const trm_program_variable *variable = &draft->values.variables.items[v];
  trm_new_variable wanted = {
      .source = variable->source, .mapping = variable->mapping, .category = TRM_CATEGORY_VARIABLE};
  wanted.name = trm_arena_format(&draft->program->arena, "stash of %s", variable->name);
  CHECK_MEMORY(wanted.name, "a pipeline");
  wanted.mapping.element_bytes *= depth - 1;
  uint32_t stash;
  TRY(trm_program_add_variable(draft, &wanted, &stash, error));
  draft->values.variables.items[stash].live = (trm_program_interval){begin, end};
  return TRM_OK;
}

/* Where the values of each segment of a stage exist again. */
typedef struct segments {
  uint32_t *first_of; /* by stage: its first segment in `begin`; one more stage: their number */
  uint32_t *begin;    /* by segment: a step */
} segments;

/* The last segment begins with the backward stage, each earlier one where the backward stage first
 * reads a value of it. */
static trm_status find_segments(trm_program_draft *draft, uint32_t loop_step, segments *out,
                                trm_error *error) {
  const trm_pipeline *pipeline = &draft->program->pipeline;
  out->first_of = ARENA_NEW(&draft->scratch, uint32_t, pipeline->num_stages + 1);
  CHECK_MEMORY(out->first_of, "a pipeline");
  for (uint32_t s = 0; s < pipeline->num_stages; ++s) {
    const uint32_t more = draft->stages.checkpoints == NULL ? 0 : draft->stages.checkpoints[s];
    out->first_of[s + 1] = out->first_of[s] + more + 1;
  }
  const uint32_t count = out->first_of[pipeline->num_stages];
  out->begin = ARENA_NEW(&draft->scratch, uint32_t, (size_t)count + 1);
  CHECK_MEMORY(out->begin, "a pipeline");
  for (uint32_t k = 0; k < count; ++k) out->begin[k] = TRM_NO_INDEX;
  for (size_t v = 0; v < draft->values.stage_uses.count && v < draft->values.variables.count; ++v) {
    const trm_stage_use *use = &draft->values.stage_uses.items[v];
    if (!is_stashed(pipeline, use) || comes_from_outside(draft, (uint32_t)v)) continue;
    uint32_t *begin = &out->begin[out->first_of[use->made_in] + use->segment];
    if (*begin > use->backward_begin) *begin = use->backward_begin;
  }
  for (uint32_t k = (uint32_t)draft->steps.all.count; k-- > loop_step;) {
    const int32_t stage = draft->steps.all.items[k].stage;
    if (stage < (int32_t)pipeline->num_stages) continue;
    out->begin[out->first_of[2 * pipeline->num_stages - (uint32_t)stage] - 1] = k;
  }
  return TRM_OK;
}

trm_status trm_pipeline_end(trm_program_draft *draft, uint32_t loop_step, uint64_t iterations,
                            trm_error *error) {
  trm_pipeline *pipeline = &draft->program->pipeline;
  const uint32_t end = (uint32_t)draft->steps.all.count;
  pipeline->loop_step = loop_step;
  pipeline->mini_batches = iterations;
  segments found = {0};
  if (pipeline->recomputation) TRY(find_segments(draft, loop_step, &found, error));
  const size_t count = draft->values.stage_uses.count;
  for (uint32_t v = 0; v < count && v < draft->values.variables.count; ++v) {
    const trm_stage_use use = draft->values.stage_uses.items[v];
    if (!is_stashed(pipeline, &use) || draft->values.variables.items[v].always_live) continue;
    trm_pipeline_stage *stage = &pipeline->stages[use.made_in];
    if (pipeline->recomputation && !comes_from_outside(draft, v)) {
      trm_program_variable again = draft->values.variables.items[v];
      const uint32_t first = found.begin[found.first_of[use.made_in] + use.segment];
      if (use.forward_end >= first || again.live.end <= first) continue;
      draft->values.variables.items[v].live.end = use.forward_end;
      const trm_new_variable wanted = {.name = again.name,
                                       .source = again.source,
                                       .mapping = again.mapping,
                                       .category = again.category};
      uint32_t second;
      TRY(trm_program_add_variable(draft, &wanted, &second, error));
      draft->values.variables.items[second].live = (trm_program_interval){first, again.live.end};
      continue;
    }
    stage->stash_bytes += draft->values.variables.items[v].total_bytes;
    TRY(add_stash(draft, v, stage->stash_depth, loop_step, end, error));
  }
  return TRM_OK;
}

/* A step without a stage of its own (an inner loop) has the stage of its first child. */
uint32_t trm_pipeline_entry_of(const trm_program *program, uint32_t step) {
  int32_t stage = -1;
  for (uint32_t s = step; s < program->steps[step].end && stage < 0; ++s) {
    stage = program->steps[s].stage;
  }
  return stage < 0 || (uint32_t)stage >= program->pipeline.num_entries ? 0 : (uint32_t)stage;
}

uint64_t trm_pipeline_stride(const trm_pipeline *pipeline) {
  if (pipeline->schedule == TRM_PIPELINE_SEQUENTIAL) return pipeline->num_entries;
  return pipeline->schedule == TRM_PIPELINE_INTERLEAVED && pipeline->is_training ? 2 : 1;
}

/* Sums up the cycles of each stage in one iteration of the loop. */
static void measure_stages(trm_program *program) {
  trm_pipeline *pipeline = &program->pipeline;
  const trm_program_step *loop = &program->steps[pipeline->loop_step];
  for (uint32_t e = 0; e < pipeline->num_entries; ++e) {
    pipeline->stages[e].compute_cycles = pipeline->stages[e].io_cycles = 0;
  }
  for (uint32_t c = pipeline->loop_step + 1; c < loop->end; c = program->steps[c].end) {
    trm_pipeline_stage *stage = &pipeline->stages[trm_pipeline_entry_of(program, c)];
    const bool streams = program->steps[c].feed != TRM_FEED_NONE;
    int64_t *into = streams ? &stage->io_cycles : &stage->compute_cycles;
    *into = trm_add_cycles(*into, program->steps[c].cycles);
  }
  for (uint32_t s = 0; pipeline->recomputation && s < pipeline->num_stages; ++s) {
    int64_t *again = &pipeline->stages[2 * pipeline->num_stages - 1 - s].compute_cycles;
    *again = trm_add_cycles(*again, pipeline->stages[s].compute_cycles);
  }
  for (uint32_t e = 0; e < pipeline->num_entries; ++e) {
    trm_pipeline_stage *stage = &pipeline->stages[e];
    stage->cycles = trm_most(stage->compute_cycles, stage->io_cycles);
  }
}

/* The most cycles of the stages of one IPU, forward or backward. */
static int64_t slowest_ipu(const trm_program *program, bool backward) {
  const trm_pipeline *pipeline = &program->pipeline;
  int64_t slowest = 0;
  for (uint32_t e = 0; e < pipeline->num_entries; ++e) {
    int64_t sum = 0;
    for (uint32_t o = 0; o < pipeline->num_entries; ++o) {
      const trm_pipeline_stage *other = &pipeline->stages[o];
      if (other->is_backward == backward && other->ipu == pipeline->stages[e].ipu) {
        sum = trm_add_cycles(sum, other->cycles);
      }
    }
    slowest = trm_most(slowest, sum);
  }
  return slowest;
}

/* The most cycles of an IPU in every second slot of an interleaved pipeline. With one stage on each
 * IPU this is its forward or its backward stage. */
static int64_t slowest_half_round(const trm_program *program) {
  const trm_pipeline *pipeline = &program->pipeline;
  int64_t slowest = 0;
  for (uint32_t e = 0; e < pipeline->num_entries; ++e) {
    int64_t sum = 0;
    for (uint32_t o = e % 2; o < pipeline->num_entries; o += 2) {
      if (pipeline->stages[o].ipu == pipeline->stages[e].ipu) {
        sum = trm_add_cycles(sum, pipeline->stages[o].cycles);
      }
    }
    slowest = trm_most(slowest, sum);
  }
  return slowest;
}

int64_t trm_pipeline_cycles(trm_program *program) {
  trm_pipeline *pipeline = &program->pipeline;
  measure_stages(program);
  const double stages = pipeline->num_stages, batches = (double)pipeline->mini_batches;
  const int64_t forward = slowest_ipu(program, false), backward = slowest_ipu(program, true);
  pipeline->forward_cycles = forward;
  pipeline->backward_cycles = backward;
  double sum = 0;
  for (uint32_t e = 0; e < pipeline->num_entries; ++e) sum += (double)pipeline->stages[e].cycles;
  double rounds = batches + stages - 1;
  pipeline->work_cycles = trm_limit_cycles(batches * sum);
  if (pipeline->schedule == TRM_PIPELINE_SEQUENTIAL) {
    pipeline->round_cycles = trm_limit_cycles(sum);
    rounds = batches;
  } else if (pipeline->schedule == TRM_PIPELINE_INTERLEAVED && pipeline->is_training) {
    pipeline->round_cycles =
        trm_multiply_cycles(2, trm_most(trm_most(forward, backward), slowest_half_round(program)));
  } else {
    pipeline->round_cycles = trm_add_cycles(forward, backward);
  }
  if (batches < 1) rounds = 0;
  pipeline->total_cycles = trm_limit_cycles(rounds * (double)pipeline->round_cycles);
  pipeline->ramp_cycles = trm_limit_cycles((rounds - batches) * (double)pipeline->round_cycles);
  return pipeline->total_cycles;
}
