/* Owns: I/O tiles, which every IPU reserves for the feeds of a loop: they transfer elements while
 * the other tiles compute (docs/cost_model.md, "I/O tiles").
 *
 * In iteration k of the loop the compute tiles work on element k; the I/O tiles load element k + 1
 * and send back the results of k - 1. The copies between the two kinds of tiles are part of
 * compute. */
#include <string.h>

#include "base/cycles.h"
#include "ipu/program/draft.h"
#include "ipu/target/target.h"

/* The direction of a feed; TRM_FEED_NONE: the instruction is no feed. */
static trm_feed_way way_of(const trm_instruction *instruction) {
  switch (trm_instruction_acts_as(instruction)) {
    case TRM_OP_INFEED: return TRM_FEED_IN;
    case TRM_OP_OUTFEED: return TRM_FEED_OUT;
    default: return TRM_FEED_NONE;
  }
}

void trm_io_tiles_find(trm_program_draft *draft) {
  const trm_program *program = draft->program;
  if (!program->options.place_ops_on_io_tiles) return;
  for (uint32_t ipu = 0; ipu < program->num_ipus; ++ipu) draft->io.keeps_tiles[ipu] = true;
  for (uint32_t c = 0; c < draft->module->num_computations; ++c) {
    const trm_computation *computation = &draft->module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (way_of(instruction) == TRM_FEED_NONE) continue;
      const int32_t ipu = trm_program_sharded_ipu(program, instruction->sharding);
      for (uint32_t k = 0; k < program->num_ipus; ++k) {
        if (ipu < 0 || (uint32_t)ipu == k) draft->io.keeps_tiles[k] = false;
      }
    }
  }
}

static int64_t bytes_of(const trm_tile_request *request, trm_feed_way way) {
  if (way == TRM_FEED_IN) return trm_tile_shape_bytes(&request->instruction->shape);
  int64_t bytes = 0;
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    bytes += trm_tile_shape_bytes(&request->operands[k].shape);
  }
  return bytes;
}

/* Whether I/O overlaps in this program: on one IPU, or in a grouped pipeline. */
static bool overlaps(const trm_program_draft *draft) {
  if (draft->walk.loops.count == 0) return false;
  if (draft->stages.nesting > 0) {
    return draft->stages.nesting >= 2 && draft->program->pipeline.schedule == TRM_PIPELINE_GROUPED;
  }
  return draft->program->num_ipus == 1;
}

trm_status trm_io_tiles_choose(trm_program_draft *draft, trm_tile_request *request,
                               trm_tile_options *own, trm_feed_way *out_way) {
  const trm_program_options *options = &draft->program->options;
  const trm_feed_way way = way_of(request->instruction);
  *out_way = TRM_FEED_NONE;
  if (way == TRM_FEED_NONE || options->io_tiles == 0 || !options->place_ops_on_io_tiles) {
    return TRM_OK;
  }
  if (!overlaps(draft)) {
    return trm_program_add_note(draft, "feeds are not placed on I/O tiles: that is done in loops "
                                       "on one IPU, and in grouped pipelines");
  }
  int64_t *used = &draft->io.bytes[request->ipu];
  const int64_t bytes = bytes_of(request, way);
  const double room = (double)options->io_tiles * draft->target->bytes_per_tile *
                      options->io_tile_memory_proportion;
  if ((double)(*used + bytes) > room) {
    return trm_program_add_note(
        draft,
        "feeds of %lld bytes are not placed on I/O tiles: %u of them have room for %.0f "
        "(io_tiles.available_memory_proportion %g)",
        (long long)*used + (long long)bytes, options->io_tiles, room,
        options->io_tile_memory_proportion);
  }
  *used += bytes;
  *own = *request->options;
  own->io_tiles = options->io_tiles;
  request->options = own;
  *out_way = way;
  return TRM_OK;
}

trm_status trm_io_tiles_place(trm_program_draft *draft, const trm_tile_request *request,
                              trm_feed_way way, uint32_t source, uint32_t first_step,
                              trm_error *error) {
  if (way == TRM_FEED_NONE || draft->finding) return TRM_OK;
  for (uint32_t s = first_step; s < draft->steps.all.count; ++s) {
    trm_program_step *step = &draft->steps.all.items[s];
    const bool streams = step->type == TRM_STEP_TYPE_STREAM_COPY_BEGIN ||
                         step->type == TRM_STEP_TYPE_STREAM_COPY_MID ||
                         step->type == TRM_STEP_TYPE_STREAM_COPY_END;
    if (streams) step->feed = way;
  }
  /* The I/O tiles hold its bytes as long as the loop runs. */
  const uint32_t io_tiles = draft->program->options.io_tiles;
  const int64_t bytes = bytes_of(request, way);
  trm_program_loop *loop = draft->walk.loops.items[draft->walk.loops.count - 1];
  const trm_new_variable wanted = {
      .name = way == TRM_FEED_IN ? "loaded ahead" : "on the way out",
      .source = source,
      .category = TRM_CATEGORY_HOST_MESSAGE,
      .mapping = trm_mapping_spread(draft->program->target, trm_ceil_divide(bytes, io_tiles), bytes,
                                    request->ipu, draft->target->tiles_per_ipu)};
  if (wanted.mapping.kind == TRM_MAPPING_NONE) return TRM_OK;
  uint32_t variable;
  TRY(trm_program_add_variable(draft, &wanted, &variable, error));
  draft->values.variables.items[variable].live.begin = loop->first_step;
  if (!VECTOR_PUSH(&loop->touched, variable)) FAIL_NO_MEMORY("a loop");
  return TRM_OK;
}

trm_io_iteration trm_io_iteration_of(const trm_program *program, uint32_t loop) {
  const trm_program_step *step = &program->steps[loop];
  trm_io_iteration iteration = {.compute = program->target->loop_iteration_cycles};
  for (uint32_t c = loop + 1; c < step->end; c = program->steps[c].end) {
    const trm_program_step *child = &program->steps[c];
    int64_t *into = child->feed == TRM_FEED_IN    ? &iteration.in
                    : child->feed == TRM_FEED_OUT ? &iteration.out
                                                  : &iteration.compute;
    *into = trm_add_cycles(*into, child->cycles);
  }
  return iteration;
}

double trm_io_loop_cycles(const trm_io_iteration *iteration, uint64_t iterations) {
  if (iterations < 2) {
    return (double)iterations *
           ((double)iteration->in + (double)iteration->compute + (double)iteration->out);
  }
  const int64_t first = trm_most(iteration->compute, iteration->in);
  const int64_t last = trm_most(iteration->compute, iteration->out);
  return (double)(iteration->in + first) +
         (double)(iterations - 2) *
             (double)trm_most(iteration->compute, iteration->in + iteration->out) +
         (double)(last + iteration->out);
}
