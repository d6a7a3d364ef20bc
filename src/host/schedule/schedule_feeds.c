/* Owns: the steps of infeeds, outfeeds and host calls, and the lists of a program's feeds and host
 * calls, with steps or without. */
#include <string.h>

#include "hlo/config.h"
#include "host/schedule/schedule_build.h"

static bool same_elements(const trm_feed_info *feed, const trm_shape *shape,
                          uint32_t num_elements) {
  bool same = feed->num_elements == num_elements;
  for (uint32_t e = 0; same && e < num_elements; ++e) {
    trm_tensor_info info;
    trm_shape_describe(trm_shape_leaf(shape, (int32_t)e), &info);
    same = info.dtype == feed->elements[e].dtype && info.rank == feed->elements[e].rank &&
           memcmp(info.dims, feed->elements[e].dims, (size_t)info.rank * sizeof *info.dims) == 0;
  }
  return same;
}

/* Several instructions may read one infeed, in the order in which they run. */
static trm_status find_feed(trm_schedule_draft *draft, const char *id, char kind,
                            const trm_shape *shape, const trm_shape *const *operand_shapes,
                            uint32_t num_elements, uint32_t *out_feed, trm_error *error) {
  for (size_t f = 0; f < draft->feeds.count; ++f) {
    if (draft->feeds.items[f].kind == kind && strcmp(draft->feeds.items[f].id, id) == 0) {
      if (kind == 'o') {
        FAIL(FAILED_PRECONDITION, "the outfeed '%s' is enqueued twice in one program", id);
      }
      if (!same_elements(&draft->feeds.items[f], shape, num_elements)) {
        FAIL(FAILED_PRECONDITION, "the infeed '%s' is read as elements of different shapes", id);
      }
      *out_feed = (uint32_t)f;
      return TRM_OK;
    }
  }
  trm_feed_info info = {.kind = kind, .num_elements = num_elements};
  info.id = trm_arena_string(&draft->schedule->arena, id, strlen(id));
  info.elements = ARENA_NEW(&draft->schedule->arena, trm_tensor_info, num_elements);
  if (info.id == NULL || info.elements == NULL) FAIL_NO_MEMORY("a feed");
  for (uint32_t e = 0; e < num_elements; ++e) {
    trm_shape_describe(shape != NULL ? trm_shape_leaf(shape, (int32_t)e) : operand_shapes[e],
                       &info.elements[e]);
  }
  *out_feed = (uint32_t)draft->feeds.count;
  if (!VECTOR_PUSH(&draft->feeds, info)) FAIL_NO_MEMORY("a feed");
  return TRM_OK;
}

static void count_use(trm_schedule_draft *draft, uint32_t feed) {
  uint64_t *uses = &draft->feeds.items[feed].uses;
  if (__builtin_add_overflow(*uses, draft->runs, uses)) *uses = UINT64_MAX;
}

/* Reads the id from {"<key>":"id"}. */
static trm_status config_id(const trm_schedule_draft *draft, const trm_instruction *instruction,
                            const char *key, char *buffer, size_t size, trm_error *error) {
  char text[256];
  json_t *config = trm_instruction_config(instruction, 0, NULL);
  const char *id = json_string_value(json_object_get(config, key));
  const bool good = id != NULL && strlen(id) < size;
  if (good) memcpy(buffer, id, strlen(id) + 1);
  json_decref(config);
  if (!good) {
    FAIL(INVALID_ARGUMENT, "the backend_config of %s must be {\"%s\":\"<id>\"}",
         trm_instruction_text(draft->module, instruction, text, sizeof text), key);
  }
  return TRM_OK;
}

/* The id of a feed: the config of an HLO feed, or a field in the backend_config of a custom call.
 */
static trm_status feed_id(const trm_schedule_draft *draft, const trm_instruction *instruction,
                          char *buffer, size_t size, trm_error *error) {
  if (instruction->opcode != TRM_OP_INFEED && instruction->opcode != TRM_OP_OUTFEED) {
    return config_id(draft, instruction, "feed", buffer, size, error);
  }
  const char *config = instruction->infeed_config != NULL ? instruction->infeed_config : "";
  if (strlen(config) >= size) {
    FAIL(INVALID_ARGUMENT, "the config of an infeed or outfeed is longer than %zu bytes", size - 1);
  }
  memcpy(buffer, config, strlen(config) + 1);
  return TRM_OK;
}

trm_status trm_schedule_walk_infeed(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                    trm_error *error) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  char id[512];
  TRY(feed_id(draft, instruction, id, sizeof id, error));
  TRY(trm_schedule_new_leaves(draft, &instruction->shape, &s->leaves[i], error));
  const uint32_t count = (uint32_t)trm_shape_num_leaves(&instruction->shape);
  trm_step step = {.kind = TRM_STEP_INFEED,
                   .computation = s->computation,
                   .instruction = i,
                   .num_results = count,
                   .scratch = TRM_NO_INDEX};
  TRY(find_feed(draft, id, 'i', &instruction->shape, NULL, count, &step.feed, error));
  count_use(draft, step.feed);
  return trm_schedule_add_step(draft, step, NULL, s->leaves[i], NULL, error);
}

/* The shapes of the leaves of an instruction's operands. */
static trm_status operand_leaves(const trm_schedule_draft *draft,
                                 const trm_computation *computation,
                                 const trm_instruction *instruction, const trm_shape ***out_shapes,
                                 uint32_t *out_count, trm_error *error) {
  uint32_t count = 0;
  for (int fill = 0; fill < 2; ++fill) {
    if (fill) *out_shapes = ARENA_NEW(&draft->schedule->arena, const trm_shape *, count + 1);
    if (fill) CHECK_MEMORY(*out_shapes, "a feed");
    count = 0;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_shape *shape = &computation->instructions[instruction->operands[k]].shape;
      const int32_t leaves = trm_shape_num_leaves(shape);
      for (int32_t l = 0; l < leaves; ++l, ++count) {
        if (fill) (*out_shapes)[count] = trm_shape_leaf(shape, l);
      }
    }
  }
  *out_count = count;
  return TRM_OK;
}

trm_status trm_schedule_walk_outfeed(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                     trm_error *error) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  char id[512];
  TRY(feed_id(draft, instruction, id, sizeof id, error));
  const trm_computation *computation = &draft->module->computations[s->computation];
  uint32_t *operands, count;
  const trm_shape **shapes;
  TRY(trm_schedule_gather_operands(draft, s, i, 0, &operands, &count, error));
  TRY(operand_leaves(draft, computation, instruction, &shapes, &count, error));
  if (trm_shape_num_leaves(&instruction->shape) > 0) {
    char text[512];
    FAIL(INVALID_ARGUMENT, "%s is an outfeed and must give a token or an empty tuple",
         trm_instruction_text(draft->module, instruction, text, sizeof text));
  }
  TRY(trm_schedule_new_leaves(draft, &instruction->shape, &s->leaves[i], error));
  trm_step step = {.kind = TRM_STEP_OUTFEED,
                   .computation = s->computation,
                   .instruction = i,
                   .num_operands = count,
                   .scratch = TRM_NO_INDEX};
  TRY(find_feed(draft, id, 'o', NULL, shapes, count, &step.feed, error));
  count_use(draft, step.feed);
  return trm_schedule_add_step(draft, step, operands, NULL, NULL, error);
}

/* The leaves of the operands' shapes, one after the other. */
static void operand_infos(const trm_schedule_draft *draft, const trm_schedule_scope *s, trm_index i,
                          trm_tensor_info *infos) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  for (uint32_t k = 0, used = 0; k < instruction->num_operands; ++k) {
    const trm_shape *shape = &trm_schedule_at(draft, s, instruction->operands[k])->shape;
    const int32_t leaves = trm_shape_num_leaves(shape);
    for (int32_t l = 0; l < leaves; ++l)
      trm_shape_describe(trm_shape_leaf(shape, l), &infos[used++]);
  }
}

trm_status trm_schedule_walk_host_call(trm_schedule_draft *draft, trm_schedule_scope *s,
                                       trm_index i, trm_error *error) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  trm_arena *arena = &draft->schedule->arena;
  char id[512];
  TRY(config_id(draft, instruction, "host_call", id, sizeof id, error));
  uint32_t *operands;
  trm_host_call_info info = {.id = trm_arena_string(arena, id, strlen(id)),
                             .together = trm_config_is(instruction, "together", JSON_TRUE),
                             .num_outputs = (uint32_t)trm_shape_num_leaves(&instruction->shape)};
  TRY(trm_schedule_gather_operands(draft, s, i, 0, &operands, &info.num_inputs, error));
  info.inputs = ARENA_NEW(arena, trm_tensor_info, info.num_inputs);
  info.outputs = ARENA_NEW(arena, trm_tensor_info, info.num_outputs);
  if (info.id == NULL || info.inputs == NULL || info.outputs == NULL) FAIL_NO_MEMORY("a host call");
  operand_infos(draft, s, i, info.inputs);
  for (uint32_t l = 0; l < info.num_outputs; ++l) {
    trm_shape_describe(trm_shape_leaf(&instruction->shape, (int32_t)l), &info.outputs[l]);
  }
  TRY(trm_schedule_new_leaves(draft, &instruction->shape, &s->leaves[i], error));
  const trm_step step = {.kind = TRM_STEP_HOST_CALL,
                         .computation = s->computation,
                         .instruction = i,
                         .num_operands = info.num_inputs,
                         .num_results = info.num_outputs,
                         .scratch = TRM_NO_INDEX,
                         .feed = (uint32_t)draft->host_calls.count};
  if (!VECTOR_PUSH(&draft->host_calls, info)) FAIL_NO_MEMORY("a host call");
  return trm_schedule_add_step(draft, step, operands, s->leaves[i], NULL, error);
}

trm_status trm_schedule_list_feeds(trm_schedule_draft *draft, trm_error *error) {
  for (uint32_t c = 0; c < draft->module->num_computations; ++c) {
    const trm_computation *computation = &draft->module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *one = &computation->instructions[i];
      const trm_opcode opcode = trm_instruction_acts_as(one);
      if (opcode != TRM_OP_INFEED && opcode != TRM_OP_OUTFEED) continue;
      char id[512];
      uint32_t feed, count = (uint32_t)trm_shape_num_leaves(&one->shape);
      const trm_shape **shapes;
      TRY(feed_id(draft, one, id, sizeof id, error));
      if (opcode == TRM_OP_INFEED) {
        TRY(find_feed(draft, id, 'i', &one->shape, NULL, count, &feed, error));
      } else {
        TRY(operand_leaves(draft, computation, one, &shapes, &count, error));
        TRY(find_feed(draft, id, 'o', NULL, shapes, count, &feed, error));
      }
    }
  }
  return TRM_OK;
}
