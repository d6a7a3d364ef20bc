/* Owns: copying a whole module into an arena of its own. */
#include <string.h>

#include "hlo/hlo.h"

/* Copies every attribute of an instruction into another arena. */
typedef struct copier {
  trm_arena *arena;
  bool is_light; /* shares what no pass writes into: texts, shapes, literals */
  bool failed;
} copier;

static void *copy_block(copier *c, const void *block, size_t size) {
  if (block == NULL) return NULL;
  void *copy = trm_arena_copy(c->arena, block, size);
  if (copy == NULL) c->failed = true;
  return copy;
}

static const char *copy_text(copier *c, const char *text) {
  return text == NULL || c->is_light ? text : copy_block(c, text, strlen(text) + 1);
}

static trm_dims copy_dims(copier *c, trm_dims dims) {
  dims.items = copy_block(c, dims.items, (size_t)dims.count * sizeof *dims.items);
  return dims;
}

static const trm_literal *copy_literal(copier *c, const trm_literal *literal) {
  if (literal == NULL || c->is_light) return literal;
  trm_literal *copy = copy_block(c, literal, sizeof *literal);
  if (copy == NULL) return NULL;
  if (!trm_shape_copy(c->arena, &literal->shape, &copy->shape)) c->failed = true;
  copy->elided = copy_block(c, literal->elided, (size_t)literal->num_leaves * sizeof(bool));
  copy->leaves = copy_block(c, literal->leaves, (size_t)literal->num_leaves * sizeof(void *));
  for (int32_t i = 0; i < literal->num_leaves && !c->failed; ++i) {
    copy->leaves[i] =
        copy_block(c, literal->leaves[i], trm_shape_bytes(trm_shape_leaf(&literal->shape, i)));
  }
  return copy;
}

static void copy_numbers(copier *c, trm_instruction *to) {
  if ((to->dot = copy_block(c, to->dot, sizeof *to->dot)) != NULL) {
    to->dot->lhs_batch = copy_dims(c, to->dot->lhs_batch);
    to->dot->rhs_batch = copy_dims(c, to->dot->rhs_batch);
    to->dot->lhs_contracting = copy_dims(c, to->dot->lhs_contracting);
    to->dot->rhs_contracting = copy_dims(c, to->dot->rhs_contracting);
    to->dot->lhs_ragged = copy_dims(c, to->dot->lhs_ragged);
    to->dot->rhs_group = copy_dims(c, to->dot->rhs_group);
  }
  trm_gather *gather = to->gather = copy_block(c, to->gather, sizeof *to->gather);
  if (gather != NULL) {
    gather->offset_dims = copy_dims(c, gather->offset_dims);
    gather->collapsed_slice_dims = copy_dims(c, gather->collapsed_slice_dims);
    gather->start_index_map = copy_dims(c, gather->start_index_map);
    gather->operand_batching_dims = copy_dims(c, gather->operand_batching_dims);
    gather->start_indices_batching_dims = copy_dims(c, gather->start_indices_batching_dims);
    gather->slice_sizes = copy_dims(c, gather->slice_sizes);
  }
  trm_scatter *scatter = to->scatter = copy_block(c, to->scatter, sizeof *to->scatter);
  if (scatter != NULL) {
    scatter->update_window_dims = copy_dims(c, scatter->update_window_dims);
    scatter->inserted_window_dims = copy_dims(c, scatter->inserted_window_dims);
    scatter->scatter_dims_to_operand_dims = copy_dims(c, scatter->scatter_dims_to_operand_dims);
    scatter->input_batching_dims = copy_dims(c, scatter->input_batching_dims);
    scatter->scatter_indices_batching_dims = copy_dims(c, scatter->scatter_indices_batching_dims);
  }
  trm_convolution *convolution = to->convolution =
      copy_block(c, to->convolution, sizeof *to->convolution);
  if (convolution != NULL) {
    const size_t bytes = (size_t)convolution->spatial_rank * sizeof(int64_t);
    convolution->input_spatial = copy_block(c, convolution->input_spatial, bytes);
    convolution->kernel_spatial = copy_block(c, convolution->kernel_spatial, bytes);
    convolution->output_spatial = copy_block(c, convolution->output_spatial, bytes);
  }
  trm_collective *collective = to->collective =
      copy_block(c, to->collective, sizeof *to->collective);
  if (collective != NULL) {
    trm_replica_groups *groups = &collective->replica_groups;
    groups->groups = copy_block(c, groups->groups, (size_t)groups->count * sizeof(trm_dims));
    for (int32_t i = 0; i < groups->count && !c->failed; ++i) {
      groups->groups[i] = copy_dims(c, groups->groups[i]);
    }
    collective->source_target_pairs = copy_dims(c, collective->source_target_pairs);
  }
}

static trm_instruction copy_instruction(copier *c, const trm_computation *computation,
                                        const trm_instruction *from) {
  trm_instruction to = *from;
  if (!c->is_light && !trm_shape_copy(c->arena, &from->shape, &to.shape)) c->failed = true;
  to.name = copy_text(c, from->name);
  to.operands = copy_block(c, from->operands, from->num_operands * sizeof *from->operands);
  to.called = copy_block(c, from->called, from->num_called * sizeof *from->called);
  to.control_predecessors =
      copy_block(c, from->control_predecessors,
                 from->num_control_predecessors * sizeof *from->control_predecessors);
  to.dimensions = copy_dims(c, from->dimensions);
  to.sizes = copy_dims(c, from->sizes);
  to.operand_precision = copy_dims(c, from->operand_precision);
  const int32_t rank =
      from->num_operands > 0 ? computation->instructions[from->operands[0]].shape.rank : 0;
  to.slice = copy_block(c, from->slice, (size_t)rank * sizeof *from->slice);
  to.padding = copy_block(c, from->padding, (size_t)rank * sizeof *from->padding);
  if ((to.window = copy_block(c, from->window, sizeof *from->window)) != NULL) {
    to.window->dims =
        copy_block(c, from->window->dims, (size_t)from->window->rank * sizeof *to.window->dims);
  }
  copy_numbers(c, &to);
  to.triangular_solve = copy_block(c, from->triangular_solve, sizeof *from->triangular_solve);
  if ((to.custom_call = copy_block(c, from->custom_call, sizeof *from->custom_call)) != NULL) {
    to.custom_call->target = copy_text(c, from->custom_call->target);
  }
  to.literal = copy_literal(c, from->literal);
  to.fusion_kind = copy_text(c, from->fusion_kind);
  to.backend_config = copy_block(c, from->backend_config, from->backend_config_size + 1);
  to.infeed_config = copy_text(c, from->infeed_config);
  to.sharding = copy_text(c, from->sharding);
  if (from->frontend_attributes != NULL && !c->is_light) {
    size_t count = 0;
    while (from->frontend_attributes[count] != NULL) ++count;
    const char **list = copy_block(c, from->frontend_attributes, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count && !c->failed; ++i) list[i] = copy_text(c, list[i]);
    to.frontend_attributes = list;
  }
  to.library_call = NULL;
  to.metadata.op_type = copy_text(c, from->metadata.op_type);
  to.metadata.op_name = copy_text(c, from->metadata.op_name);
  to.metadata.source_file = copy_text(c, from->metadata.source_file);
  return to;
}

static trm_status clone_module(const trm_module *module, bool is_light, trm_module **out_module,
                               trm_error *error) {
  trm_module *clone;
  TRY(trm_module_create(module->name, &clone, error));
  copier c = {&clone->arena, is_light, false};
  clone->entry = module->entry;
  clone->next_id = module->next_id;
  clone->replica_count = module->replica_count;
  clone->is_scheduled = module->is_scheduled;
  clone->half_overflow = module->half_overflow;
  clone->casts_wrap = module->casts_wrap;
  clone->frontend_side_table = copy_text(&c, module->frontend_side_table);
  clone->num_aliases = module->num_aliases;
  clone->aliases = copy_block(&c, module->aliases, module->num_aliases * sizeof *module->aliases);
  for (uint32_t i = 0; i < module->num_aliases && !c.failed; ++i) {
    clone->aliases[i].output_index = copy_dims(&c, module->aliases[i].output_index);
    clone->aliases[i].parameter_index = copy_dims(&c, module->aliases[i].parameter_index);
  }
  clone->num_computations = clone->capacity = module->num_computations;
  clone->computations =
      copy_block(&c, module->computations, module->num_computations * sizeof *module->computations);
  for (uint32_t i = 0; i < module->num_computations && !c.failed; ++i) {
    const trm_computation *from = &module->computations[i];
    trm_computation *to = &clone->computations[i];
    to->name = copy_text(&c, from->name);
    to->parameters =
        copy_block(&c, from->parameters, from->num_parameters * sizeof *from->parameters);
    to->capacity = from->num_instructions;
    to->instructions = ARENA_NEW(&clone->arena, trm_instruction, from->num_instructions);
    if (to->instructions == NULL) c.failed = true;
    for (trm_index k = 0; k < from->num_instructions && !c.failed; ++k) {
      to->instructions[k] = copy_instruction(&c, from, &from->instructions[k]);
    }
  }
  if (c.failed) {
    trm_module_free(clone);
    FAIL_NO_MEMORY("a copy of a module");
  }
  *out_module = clone;
  return TRM_OK;
}

trm_status trm_module_clone(const trm_module *module, trm_module **out_module, trm_error *error) {
  return clone_module(module, false, out_module, error);
}

trm_status trm_module_clone_lightly(const trm_module *module, trm_module **out_module,
                                    trm_error *error) {
  return clone_module(module, true, out_module, error);
}
