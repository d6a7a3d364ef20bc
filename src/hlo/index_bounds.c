/* Owns: below which number an integer input has to be, where the module's indexing tells. */
#include "hlo/hlo.h"

enum { MOST_DEPTH = 64 };

/* Of each instruction's leaves the bound that its users ask for; INT64_MAX: none. */
typedef struct bounds {
  const trm_module *module;
  const trm_computation *computation;
  int64_t **of;         /* by instruction */
  int64_t *all;         /* of what `of` points into */
  const int64_t *iotas; /* by parameter: what it counts, where it is an iota; NULL: none is */
} bounds;

static void narrow(int64_t *bound, int64_t most) {
  if (most >= 1 && most < *bound) *bound = most;
}

static void ask(bounds *b, trm_index i, int32_t leaf, int64_t most) {
  if (leaf < trm_shape_num_leaves(&b->computation->instructions[i].shape)) {
    narrow(&b->of[i][leaf], most);
  }
}

static bool bounds_create(const trm_module *module, const trm_computation *computation,
                          bounds *out) {
  size_t leaves = 0;
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    leaves += (size_t)trm_shape_num_leaves(&computation->instructions[i].shape);
  }
  *out = (bounds){.module = module,
                  .computation = computation,
                  .of = trm_allocate((computation->num_instructions + 1) * sizeof *out->of),
                  .all = trm_allocate((leaves + 1) * sizeof *out->all)};
  if (out->of == NULL || out->all == NULL) return false;
  for (size_t l = 0; l < leaves; ++l) out->all[l] = INT64_MAX;
  leaves = 0;
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    out->of[i] = out->all + leaves;
    leaves += (size_t)trm_shape_num_leaves(&computation->instructions[i].shape);
  }
  return true;
}

static void bounds_free(bounds *b) {
  trm_free(b->of);
  trm_free(b->all);
}

static const trm_instruction *operand_of(const bounds *b, const trm_instruction *user, uint32_t o) {
  return &b->computation->instructions[user->operands[o]];
}

/* The size of the dimension that an iota counts, through broadcasts of it; 0: it is no iota. */
static int64_t iota_size(const bounds *b, const trm_instruction *instruction) {
  while (instruction->opcode == TRM_OP_BROADCAST || instruction->opcode == TRM_OP_RESHAPE ||
         instruction->opcode == TRM_OP_CONVERT) {
    instruction = operand_of(b, instruction, 0);
  }
  if (instruction->opcode == TRM_OP_PARAMETER && b->iotas != NULL) {
    return b->iotas[instruction->number];
  }
  if (instruction->opcode != TRM_OP_IOTA || instruction->dimensions.count != 1) return 0;
  return instruction->shape.dims[instruction->dimensions.items[0]];
}

/* What an instruction asks of operands that are indices. */
static void ask_indices(bounds *b, const trm_instruction *at) {
  const trm_shape *data = at->num_operands > 0 ? &operand_of(b, at, 0)->shape : NULL;
  switch (at->opcode) {
    case TRM_OP_GATHER:
      for (int32_t d = 0; d < at->gather->start_index_map.count; ++d) {
        const int64_t dimension = at->gather->start_index_map.items[d];
        ask(b, at->operands[1], 0,
            data->dims[dimension] - at->gather->slice_sizes.items[dimension] + 1);
      }
      break;
    case TRM_OP_SCATTER:
      for (int32_t d = 0; d < at->scatter->scatter_dims_to_operand_dims.count; ++d) {
        ask(b, at->operands[at->num_operands / 2], 0,
            data->dims[at->scatter->scatter_dims_to_operand_dims.items[d]]);
      }
      break;
    case TRM_OP_DYNAMIC_SLICE:
      for (uint32_t o = 1; o < at->num_operands && o <= (uint32_t)data->rank; ++o) {
        ask(b, at->operands[o], 0, data->dims[o - 1] - at->shape.dims[o - 1] + 1);
      }
      break;
    case TRM_OP_DYNAMIC_UPDATE_SLICE:
      for (uint32_t o = 2; o < at->num_operands && o <= (uint32_t)data->rank + 1; ++o) {
        ask(b, at->operands[o], 0, data->dims[o - 2] - operand_of(b, at, 1)->shape.dims[o - 2] + 1);
      }
      break;
    case TRM_OP_COMPARE: /* one-hot */
      if (at->comparison != TRM_CMP_EQ) break;
      ask(b, at->operands[0], 0, iota_size(b, operand_of(b, at, 1)));
      ask(b, at->operands[1], 0, iota_size(b, operand_of(b, at, 0)));
      break;
    default: break;
  }
}

/* Where a computation is called: what it is given, and what is asked of its result. */
typedef struct call_site {
  uint32_t called, num_given;
  const trm_index *given;
  const int64_t *asked;
} call_site;

static bool bound_parameters(const trm_module *module, uint32_t index, const int64_t *iotas,
                             const int64_t *of_root, int depth, int64_t *const *of_parameters);

/* What is asked of the parameters of a called computation is asked of what they are given. */
static bool ask_called(bounds *b, call_site site, int depth) {
  if (b->module->computations[site.called].num_parameters != site.num_given) return true;
  int64_t **asked = trm_allocate((site.num_given + 1) * sizeof *asked);
  int64_t *iotas = trm_allocate((site.num_given + 1) * sizeof *iotas);
  for (uint32_t p = 0; asked != NULL && iotas != NULL && p < site.num_given; ++p) {
    asked[p] = b->of[site.given[p]];
    iotas[p] = iota_size(b, &b->computation->instructions[site.given[p]]);
  }
  const bool done = asked != NULL && iotas != NULL &&
                    bound_parameters(b->module, site.called, iotas, site.asked, depth + 1, asked);
  trm_free(asked);
  trm_free(iotas);
  return done;
}

/* Hands on what is asked of a result to the operands whose values it has. */
static bool hand_on(bounds *b, trm_index i, int depth) {
  const trm_instruction *at = &b->computation->instructions[i];
  const int64_t *asked = b->of[i];
  switch (at->opcode) {
    case TRM_OP_RESHAPE:
    case TRM_OP_TRANSPOSE:
    case TRM_OP_BROADCAST:
    case TRM_OP_COPY:
    case TRM_OP_BITCAST:
    case TRM_OP_CONVERT:
    case TRM_OP_SLICE:
    case TRM_OP_REVERSE:
    case TRM_OP_PAD:
    case TRM_OP_GATHER:
    case TRM_OP_DYNAMIC_SLICE: ask(b, at->operands[0], 0, asked[0]); break;
    case TRM_OP_CLAMP: ask(b, at->operands[1], 0, asked[0]); break;
    case TRM_OP_SELECT:
      ask(b, at->operands[1], 0, asked[0]);
      ask(b, at->operands[2], 0, asked[0]);
      break;
    case TRM_OP_CONCATENATE:
    case TRM_OP_MINIMUM:
    case TRM_OP_MAXIMUM:
    case TRM_OP_OPT_BARRIER:
    case TRM_OP_TUPLE: {
      int32_t leaf = 0;
      const bool is_tuple = trm_shape_num_leaves(&at->shape) != 1 || at->opcode == TRM_OP_TUPLE;
      for (uint32_t o = 0; o < at->num_operands; ++o) {
        const int32_t leaves = trm_shape_num_leaves(&operand_of(b, at, o)->shape);
        for (int32_t l = 0; l < leaves; ++l) {
          ask(b, at->operands[o], l, asked[is_tuple ? leaf++ : 0]);
        }
      }
      break;
    }
    case TRM_OP_GET_TUPLE_ELEMENT: {
      const int32_t first =
          trm_shape_leaf_offset(&operand_of(b, at, 0)->shape, (int32_t)at->number);
      for (int32_t l = 0; l < trm_shape_num_leaves(&at->shape); ++l) {
        ask(b, at->operands[0], first + l, asked[l]);
      }
      break;
    }
    case TRM_OP_CALL:
    case TRM_OP_FUSION:
      return ask_called(b, (call_site){at->called[0], at->num_operands, at->operands, asked},
                        depth);
    case TRM_OP_WHILE:
      return ask_called(b, (call_site){at->called[1], 1, at->operands, asked}, depth);
    case TRM_OP_CONDITIONAL:
      for (uint32_t c = 0; c < at->num_called && c + 1 < at->num_operands; ++c) {
        const call_site branch = {at->called[c], 1, &at->operands[c + 1], asked};
        if (!ask_called(b, branch, depth)) return false;
      }
      break;
    default: break;
  }
  return true;
}

/* Narrows the bounds of a computation's parameters; false when memory runs out. */
static bool bound_parameters(const trm_module *module, uint32_t index, const int64_t *iotas,
                             const int64_t *of_root, int depth, int64_t *const *of_parameters) {
  if (depth == MOST_DEPTH) return true;
  const trm_computation *computation = &module->computations[index];
  bounds b;
  bool done = bounds_create(module, computation, &b);
  b.iotas = iotas;
  if (done && of_root != NULL) {
    const int32_t leaves =
        trm_shape_num_leaves(&computation->instructions[computation->root].shape);
    for (int32_t l = 0; l < leaves; ++l) ask(&b, computation->root, l, of_root[l]);
  }
  for (trm_index i = computation->num_instructions; done && i-- > 0;) {
    ask_indices(&b, &computation->instructions[i]);
    done = hand_on(&b, i, depth);
  }
  for (uint32_t p = 0; done && p < computation->num_parameters; ++p) {
    const trm_index i = computation->parameters[p];
    const int32_t leaves = trm_shape_num_leaves(&computation->instructions[i].shape);
    for (int32_t l = 0; l < leaves; ++l) narrow(&of_parameters[p][l], b.of[i][l]);
  }
  bounds_free(&b);
  return done;
}

bool trm_module_bound_inputs(const trm_module *module, int64_t *out_bounds, size_t count) {
  const trm_computation *entry = &module->computations[module->entry];
  int64_t **of = trm_allocate((entry->num_parameters + 1) * sizeof *of);
  if (of == NULL) return false;
  size_t leaf = 0;
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    of[p] = out_bounds + leaf;
    leaf += (size_t)trm_shape_num_leaves(&entry->instructions[entry->parameters[p]].shape);
  }
  for (size_t l = 0; l < count; ++l) out_bounds[l] = INT64_MAX;
  const bool done = leaf == count && bound_parameters(module, module->entry, NULL, NULL, 0, of);
  trm_free(of);
  for (size_t l = 0; l < count; ++l) {
    if (out_bounds[l] == INT64_MAX) out_bounds[l] = 0;
  }
  return done;
}
