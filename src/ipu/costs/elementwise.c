/* Owns: elementwise instructions and fusions of them on an IPU.
 *
 * Each instruction is one compute set, also in a kLoop fusion, which states what lies in one place.
 * The original has one codelet for some patterns (popops::scaledAddTo, a ReLU's gradient), which
 * the roles of instructions state. There an instruction with one use, inside the fusion, joins its
 * user. A result lies on the tiles of the largest operand; other operands are exchanged first.
 * Formulas: docs/cost_model.md, "Elementwise". */
#include <math.h>

#include "ipu/costs/codelets.h"
#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

enum { MAX_LEAVES = 24 };

/* ---- Bodies --------------------------------------------------------------------------------- */

/* An elementwise computation as compute sets. A single instruction is its own body. */
typedef struct body {
  const trm_tile_request *request;
  trm_tile_cost *cost;
  const trm_computation *computation;
  uint32_t count;
  uint32_t *uses;     /* by instruction: uses inside */
  int32_t *result_of; /* leaf of the result, or -1 */
  double *cycles;     /* worker cycles of an element of the expression that ends there */
  uint16_t *size;     /* by instruction: the number of instructions in that expression */
  bool in_half;       /* operands and results are float16; float32 is only inside */
  int32_t written;    /* the operand leaf that may be overwritten; -1: none */
  /* Where values lie that overwrite no operand. */
  const trm_mapping *place;
  int64_t *flops;
} body;

static bool is_elementwise(const trm_instruction *instruction) {
  return trm_opcode_is_elementwise(instruction->opcode) || instruction->opcode == TRM_OP_IOTA;
}

/* The operand leaf behind an instruction of the body, through reshapes and slices; -1: none. */
static int32_t operand_leaf(const body *b, trm_index i) {
  for (;;) {
    const trm_instruction *instruction = &b->computation->instructions[i];
    if (instruction->opcode == TRM_OP_PARAMETER) return (int32_t)instruction->number;
    if (is_elementwise(instruction) || instruction->num_operands == 0 ||
        instruction->opcode == TRM_OP_TUPLE) {
      return -1;
    }
    i = instruction->operands[0];
  }
}

/* Whether the value is repeated rather than read as it is. */
static bool is_repeated(const body *b, trm_index i) {
  const trm_instruction *instruction = &b->computation->instructions[i];
  if (instruction->opcode == TRM_OP_BROADCAST) return true;
  if (instruction->opcode != TRM_OP_PARAMETER || instruction->number < 0 ||
      (uint32_t)instruction->number >= b->request->num_operands) {
    return instruction->opcode == TRM_OP_CONSTANT;
  }
  const trm_tile_operand *operand = &b->request->operands[instruction->number];
  return operand->source_count < trm_shape_count(&operand->shape);
}

static trm_tile_role *role_of(const body *b, trm_index i) {
  if (b->request->roles == NULL) return NULL;
  return &b->request->roles[b->computation - b->request->module->computations][i];
}

/* The role of the whole fusion. */
static const trm_tile_role *fusion_role(const trm_tile_request *request) {
  if (request->roles == NULL) return NULL;
  const ptrdiff_t i = request->instruction - request->computation->instructions;
  return &request->roles[request->computation - request->module->computations][i];
}

static bool joins_user(const body *b, trm_index i) {
  const trm_tile_role *role = role_of(b, i);
  return role != NULL && role->call.joins && b->uses[i] == 1 && b->result_of[i] < 0 &&
         b->size[i] < 24;
}

/* Whether another instruction's compute set computes the instruction. */
static bool is_absorbed(const body *b, trm_index i) {
  const trm_tile_role *role = role_of(b, i);
  return role != NULL && role->call.is_absorbed;
}

/* Whether an instruction is a conversion that no vertex makes: its value is its operand's. */
static bool is_no_conversion(const body *b, trm_index i) {
  return b->computation->instructions[i].opcode == TRM_OP_CONVERT && is_absorbed(b, i);
}

/* The type that a vertex computes an instruction in. */
static trm_dtype type_of(const body *b, trm_index i) {
  const trm_dtype dtype = b->computation->instructions[i].shape.dtype;
  return b->in_half && dtype == TRM_F32 ? TRM_F16 : dtype;
}

/* Whether the instruction is popops::scaledAddTo. */
static bool is_scaled_sum(const body *b, trm_index i) {
  const trm_tile_role *role = role_of(b, i);
  const trm_library_pattern pattern = role == NULL ? TRM_LIBRARY_NONE : role->call.pattern;
  return pattern == TRM_LIBRARY_SCALED_B || pattern == TRM_LIBRARY_SCALED_A ||
         pattern == TRM_LIBRARY_SCALED_AB || pattern == TRM_LIBRARY_FILTER_UPDATE;
}

typedef struct gathered {
  trm_index inputs[MAX_LEAVES];
  uint32_t num_inputs;
  bool too_many;
} gathered;

/* Collects the inputs of the expression that ends at `root`. */
static void gather(const body *b, trm_index root, gathered *out) {
  trm_index stack[64];
  uint32_t depth = 0;
  stack[depth++] = root;
  while (depth > 0) {
    const trm_index i = stack[--depth];
    const trm_instruction *instruction = &b->computation->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      trm_index operand = instruction->operands[k];
      const trm_instruction *o = &b->computation->instructions[operand];
      if (is_elementwise(o) && joins_user(b, operand) && depth < 64) {
        stack[depth++] = operand;
        continue;
      }
      while (is_no_conversion(b, operand)) {
        operand = b->computation->instructions[operand].operands[0];
      }
      bool known = false;
      for (uint32_t j = 0; j < out->num_inputs; ++j) known |= out->inputs[j] == operand;
      if (known) continue;
      if (out->num_inputs < MAX_LEAVES) out->inputs[out->num_inputs++] = operand;
      else out->too_many = true;
    }
  }
}

/* Of `count` elements, those that one replica computes. */
static int64_t elements_of(const trm_tile_request *request, int64_t count) {
  return trm_ceil_divide(count, trm_most(1, request->shards));
}

/* The operand leaf that the instruction's value overwrites; -1: none. */
static int32_t overwritten_by(const body *b, trm_index i) {
  return b->result_of[i] < 0 ? -1 : b->cost->results[b->result_of[i]].in_place;
}

/* Where the instruction's value lies: at the place of the operand that it overwrites. */
static const trm_mapping *place_of(const body *b, trm_index i) {
  const int32_t old = overwritten_by(b, i);
  return old < 0 ? b->place : &b->request->operands[old].mapping;
}

/* Adds what comes in of a value that another compute set of the body makes at another place. */
static void add_inner(const body *b, trm_index i, const trm_mapping *place,
                      trm_tile_incoming *incoming) {
  const trm_shape *shape = &b->computation->instructions[i].shape;
  const trm_mapping *from = place_of(b, i);
  if (trm_mapping_same_place(from, place) || from == place) return;
  const int64_t count = trm_shape_count(shape);
  const trm_tile_operand value = {.shape = *shape,
                                  .mapping = trm_mapping_like(from, shape->dtype),
                                  .source_count = count,
                                  .contiguous = count};
  trm_tile_incoming_add(incoming, &value, place);
}

/* Adds one compute set, with the exchange before it. */
static trm_status add_compute_set(body *b, trm_index root, trm_error *error) {
  const trm_target *target = b->request->target;
  const trm_instruction *instruction = &b->computation->instructions[root];
  const trm_mapping here = trm_mapping_like(place_of(b, root), instruction->shape.dtype);
  const trm_mapping *place = &here;
  gathered inputs = {.num_inputs = 0};
  gather(b, root, &inputs);
  trm_tile_incoming incoming = {0};
  uint32_t edges = 1;
  bool scalar = false, in_place = false;
  double loads = 0;
  const double width = trm_tile_vector_width(type_of(b, root));
  for (uint32_t k = 0; k < inputs.num_inputs; ++k) {
    const int32_t leaf = operand_leaf(b, inputs.inputs[k]);
    const trm_instruction *input = &b->computation->instructions[inputs.inputs[k]];
    const bool same_size =
        trm_tile_dtype_bytes(input->shape.dtype) == trm_tile_dtype_bytes(instruction->shape.dtype);
    in_place |=
        same_size && (is_elementwise(input)
                          ? b->uses[inputs.inputs[k]] == 1
                          : leaf >= 0 && (leaf == b->written || leaf == overwritten_by(b, root)));
    if (leaf >= 0 && (uint32_t)leaf < b->request->num_operands) {
      trm_tile_operand operand = b->request->operands[leaf];
      const bool repeated = is_repeated(b, inputs.inputs[k]);
      if (input->opcode == TRM_OP_BROADCAST) operand.shape = input->shape;
      trm_tile_incoming_add(&incoming, &operand, place);
      scalar |= repeated && operand.source_count == 1;
      edges += operand.is_constant && operand.source_count == 1 ? 0 : 1;
      loads += repeated && operand.source_count == 1 ? 0 : 1 / width;
    } else if (!is_repeated(b, inputs.inputs[k])) {
      if (is_elementwise(input)) add_inner(b, inputs.inputs[k], place, &incoming);
      ++edges;
      loads += 1 / width;
    } else {
      scalar = true;
    }
  }
  if (in_place && edges > 1) --edges; /* popops' in-place vertices have one pointer for both */
  TRY(trm_tile_add_incoming(b->request, b->cost, &incoming, error));
  const int64_t workers = target->num_worker_contexts;
  const int64_t elements = trm_most(1, elements_of(b->request, place->worst));
  const int64_t per_worker = trm_ceil_divide(elements, workers);
  int64_t worker, supervisor = 11;
  if (is_scaled_sum(b, root)) {
    const int64_t vectors = trm_most(1, (int64_t)ceil((double)per_worker / width));
    worker = 21 + 3 * (vectors - 1);
    supervisor = 57;
  } else if (b->size[root] > 1) {
    worker = 30 + (int64_t)((b->cycles[root] + loads + 1 / width) * (double)per_worker + 0.5);
  } else {
    const bool half = trm_codelet_kind_of(instruction->shape.dtype) == TRM_CODELET_HALF;
    const int64_t setup = instruction->num_operands >= 2
                              ? (half ? 26 : 29)
                              : 17 + (instruction->opcode == TRM_OP_CONVERT ? 20 : 0);
    worker = setup + (int64_t)(b->cycles[root] * (double)per_worker + 0.5);
  }
  const int64_t cycles = workers * worker + supervisor;
  const char *codelet = trm_codelet_name(b->cost->arena, b->computation, instruction, b->size[root],
                                         inputs.num_inputs, scalar);
  CHECK_MEMORY(codelet, "a cost");
  const char *name = trm_codelet_compute_set(b->cost->arena, instruction);
  CHECK_MEMORY(name, "a cost");
  return trm_tile_add_compute(
      b->request, b->cost, name, codelet, place->regions, 1, cycles, trm_mapping_evenness(place),
      edges, b->flops[root] * elements_of(b->request, trm_shape_count(&instruction->shape)), error);
}

/* Whether the result leaf may take the place of the operand leaf. */
static bool may_take_place(const trm_tile_request *request, uint32_t result, int32_t operand) {
  const trm_tile_operand *old = &request->operands[operand];
  const trm_dtype dtype = trm_shape_leaf(&request->instruction->shape, (int32_t)result)->dtype;
  return old->dies && !old->is_view && old->mapping.kind != TRM_MAPPING_NONE &&
         old->mapping.kind != TRM_MAPPING_SPREAD &&
         trm_tile_dtype_bytes(dtype) == trm_tile_dtype_bytes(old->shape.dtype);
}

/* Chooses the operand leaf whose mapping the values follow: one of full size; preferably one that
 * dies and has the result's type; preferably no view. -1: none. */
static int32_t choose_leader(const body *b, const trm_shape *result) {
  const trm_tile_request *request = b->request;
  const int64_t count = trm_shape_count(result);
  int32_t best = -1;
  int best_score = -1;
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    const trm_tile_operand *operand = &request->operands[k];
    if (trm_shape_count(&operand->shape) != count || operand->source_count < count ||
        operand->is_constant || operand->mapping.kind == TRM_MAPPING_NONE ||
        operand->mapping.kind == TRM_MAPPING_SPREAD) {
      continue;
    }
    const bool same_size =
        trm_tile_dtype_bytes(operand->shape.dtype) == trm_tile_dtype_bytes(result->dtype);
    const int score = (operand->dies && same_size && !operand->is_view ? 4 : 0) +
                      (operand->is_view ? 0 : 2) + (same_size ? 1 : 0);
    /* A view on few tiles would concentrate all work there. */
    const int64_t usual = trm_least(count / 32, operand->mapping.tiles);
    if (operand->is_view && (int64_t)operand->mapping.regions * 4 < usual) {
      continue;
    }
    if (score > best_score) best = (int32_t)k, best_score = score;
  }
  return best;
}

/* Of operands of full size, asks to allocate those that can move with the mapping of the first that
 * cannot, or else of the leader. */
static void preference_to_follow(const trm_tile_request *request, trm_tile_cost *cost,
                                 int32_t leader) {
  if (leader < 0) return;
  const int64_t count = trm_shape_count(&request->operands[leader].shape);
  uint32_t followed = (uint32_t)leader;
  for (int moving = 0; moving < 2; ++moving) {
    for (uint32_t k = 0; k < request->num_operands; ++k) {
      const trm_tile_operand *first = &request->operands[followed];
      const trm_tile_operand *other = &request->operands[k];
      if (other->is_view || other->is_constant || other->source_count < count ||
          other->mapping.layout == 0 || trm_shape_count(&other->shape) != count) {
        continue;
      }
      if (moving == 0 && first->is_movable && !other->is_movable) followed = k;
      if (moving == 0 || !other->is_movable || cost->num_preferences == TRM_MAX_PREFERENCES ||
          trm_mapping_same_place(&first->mapping, &other->mapping)) {
        continue;
      }
      cost->preferences[cost->num_preferences++] = (trm_tile_preference){
          .operand = k, .mapping = first->mapping, .kind = TRM_PREFERENCE_FOLLOW};
    }
  }
}

static trm_status allocate_body(body *b, trm_error *error) {
  trm_arena *arena = b->cost->arena;
  b->uses = ARENA_NEW(arena, uint32_t, b->count);
  b->result_of = ARENA_NEW(arena, int32_t, b->count);
  b->cycles = ARENA_NEW(arena, double, b->count);
  b->size = ARENA_NEW(arena, uint16_t, b->count);
  b->flops = ARENA_NEW(arena, int64_t, b->count);
  if (b->uses == NULL || b->result_of == NULL || b->cycles == NULL || b->size == NULL ||
      b->flops == NULL) {
    FAIL_NO_MEMORY("a cost");
  }
  return TRM_OK;
}

/* Counts the uses of instructions and marks results. */
static void look_at(body *b) {
  const trm_computation *c = b->computation;
  for (trm_index i = 0; i < b->count; ++i) b->result_of[i] = -1;
  for (trm_index i = 0; i < b->count; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) ++b->uses[instruction->operands[k]];
  }
  const trm_instruction *root = &c->instructions[c->root];
  if (root->opcode == TRM_OP_TUPLE) {
    for (uint32_t k = 0; k < root->num_operands; ++k) b->result_of[root->operands[k]] = (int32_t)k;
  } else {
    b->result_of[c->root] = 0;
  }
  for (trm_index i = b->count; i-- > 0;) { /* a value whose conversion nobody makes is the result */
    if (b->result_of[i] < 0 || !is_no_conversion(b, i)) continue;
    const trm_index made = c->instructions[i].operands[0];
    if (b->uses[made] == 1) b->result_of[made] = b->result_of[i];
  }
}

/* Whether instruction i has a compute set. */
static bool has_compute_set(const body *b, trm_index i) {
  const trm_instruction *instruction = &b->computation->instructions[i];
  return is_elementwise(instruction) && instruction->opcode != TRM_OP_IOTA && !joins_user(b, i) &&
         !is_absorbed(b, i) && (b->uses[i] > 0 || b->result_of[i] >= 0);
}

/* Bytes of an element of the values inside that are live beside the results, at their peak. A
 * value overwrites one of its operands that has no other use, and one value lies where a result
 * will be. */
static trm_status inner_bytes(const body *b, int64_t *out_bytes, trm_error *error) {
  int64_t live = 0, most = 0, widest = 0;
  uint32_t *unread = ARENA_NEW(b->cost->arena, uint32_t, b->count);
  CHECK_MEMORY(unread, "a cost");
  for (trm_index i = 0; i < b->count; ++i) unread[i] = b->uses[i];
  for (trm_index i = 0; i < b->count; ++i) {
    const trm_instruction *instruction = &b->computation->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_index operand = instruction->operands[k];
      if (--unread[operand] == 0 && has_compute_set(b, operand) && b->result_of[operand] < 0)
        --live;
    }
    if (!has_compute_set(b, i) || b->result_of[i] >= 0) continue;
    most = trm_most(most, ++live);
    widest = trm_most(widest, (int64_t)trm_tile_dtype_bytes(instruction->shape.dtype));
  }
  *out_bytes = widest * trm_least(2, trm_most(0, most - 1));
  return TRM_OK;
}

/* Whether a value behind the one of the result leaf reads the operand leaf. */
static bool is_read_behind(const body *b, uint32_t result, int32_t operand) {
  const trm_computation *c = b->computation;
  const trm_instruction *root = &c->instructions[c->root];
  const trm_index made = root->opcode == TRM_OP_TUPLE ? root->operands[result] : c->root;
  for (trm_index i = made + 1; i < b->count; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands && is_elementwise(instruction); ++k) {
      if (operand_leaf(b, instruction->operands[k]) == operand) return true;
    }
  }
  return false;
}

/* Gives the results their places. New values overwrite the operands that they replace, wherever
 * these lie. The others lie where the leader does, and one of them may overwrite a leader that
 * dies. */
static void place_results(const body *b) {
  const trm_tile_request *request = b->request;
  trm_tile_cost *cost = b->cost;
  const trm_shape *shape = &request->instruction->shape;
  int32_t overwritten = b->written;
  for (uint32_t l = 0; l < cost->num_results; ++l) {
    trm_tile_result *result = &cost->results[l];
    result->mapping = trm_mapping_like(b->place, trm_shape_leaf(shape, (int32_t)l)->dtype);
    const int32_t old = request->replaced == NULL ? -1 : request->replaced[l];
    if (old < 0 || !may_take_place(request, l, old)) continue;
    if (!is_read_behind(b, l, old)) {
      result->in_place = old;
      result->mapping = request->operands[old].mapping;
    }
    if (old == overwritten) overwritten = -1;
  }
  for (uint32_t l = 0; overwritten >= 0 && l < cost->num_results; ++l) {
    if (cost->results[l].in_place >= 0 || !may_take_place(request, l, overwritten)) continue;
    cost->results[l].in_place = overwritten;
    break;
  }
}

/* Counts the work of instruction i, with that of the operands that its compute set computes too. */
static void count_work(body *b, trm_index i) {
  const trm_instruction *instruction = &b->computation->instructions[i];
  b->size[i] = 1;
  b->cycles[i] = trm_codelet_cycles(b->computation, instruction, b->in_half);
  b->flops[i] = trm_codelet_flops(instruction);
  bool is_expression = false;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    if (!is_elementwise(&b->computation->instructions[operand]) || !joins_user(b, operand)) {
      continue;
    }
    b->size[i] = (uint16_t)(b->size[i] + b->size[operand]);
    b->flops[i] += b->flops[operand];
    const trm_dtype type = type_of(b, i);
    if (b->size[operand] == 1) {
      b->cycles[operand] = trm_codelet_cycles_inside(b->cycles[operand], type);
    }
    if (k == 0 && trm_codelet_is_relu_gradient(b->computation, instruction)) {
      b->cycles[operand] = 0;
    }
    if (!is_expression) b->cycles[i] = trm_codelet_cycles_inside(b->cycles[i], type);
    is_expression = true;
    b->cycles[i] += b->cycles[operand];
  }
}

static trm_status cost_fusion(const trm_tile_request *request, trm_tile_cost *cost,
                              trm_error *error) {
  body b = {.request = request,
            .cost = cost,
            .computation = &request->module->computations[request->instruction->called[0]]};
  b.count = b.computation->num_instructions;
  TRY(allocate_body(&b, error));
  look_at(&b);
  const trm_tile_role *role = fusion_role(request);
  b.in_half = role != NULL && role->call.in_half;
  trm_mapping place = cost->results[0].mapping;
  const int32_t leader = choose_leader(&b, trm_shape_leaf(&request->instruction->shape, 0));
  if (leader >= 0) place = request->operands[leader].mapping;
  preference_to_follow(request, cost, leader);
  const bool dies =
      leader >= 0 && request->operands[leader].dies && !request->operands[leader].is_view;
  b.written = dies ? leader : -1;
  b.place = &place;
  place_results(&b);
  for (trm_index i = 0; i < b.count; ++i) {
    const trm_instruction *instruction = &b.computation->instructions[i];
    if (!is_elementwise(instruction)) continue;
    count_work(&b, i);
    if (!has_compute_set(&b, i)) continue;
    const size_t first = cost->phases.count;
    TRY(add_compute_set(&b, i, error));
    for (size_t p = first; p < cost->phases.count; ++p) {
      cost->phases.items[p].of = instruction;
      cost->phases.items[p].role = role_of(&b, i);
    }
  }
  int64_t inner;
  TRY(inner_bytes(&b, &inner, error));
  cost->temporary_worst += inner * place.worst;
  cost->temporary_total += inner * place.count;
  return TRM_OK;
}

/* A single instruction: a body that is not a computation of its own. */
/* Cycles of a worker before its first element, for an instruction by itself. */
static int64_t setup_cycles(const trm_instruction *instruction, trm_codelet_kind kind,
                            bool scalar) {
  if (instruction->num_operands < 2) {
    return instruction->opcode == TRM_OP_EXPONENTIAL ? 33 : 17;
  }
  if (scalar) return 20;
  return kind == TRM_CODELET_HALF ? 26 : 29;
}

static trm_status cost_single(const trm_tile_request *request, trm_tile_cost *cost,
                              trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  body b = {.request = request, .cost = cost, .computation = request->computation, .count = 1};
  trm_mapping place = cost->results[0].mapping;
  const int32_t leader = choose_leader(&b, &instruction->shape);
  preference_to_follow(request, cost, leader);
  if (leader >= 0) {
    place = trm_mapping_like(&request->operands[leader].mapping, instruction->shape.dtype);
    cost->results[0].mapping = place;
    const trm_tile_operand *operand = &request->operands[leader];
    if (operand->dies && !operand->is_view &&
        trm_tile_dtype_bytes(operand->shape.dtype) ==
            trm_tile_dtype_bytes(instruction->shape.dtype)) {
      cost->results[0].in_place = leader;
    }
  }
  trm_tile_incoming incoming = {0};
  bool scalar = false;
  uint32_t edges = cost->results[0].in_place >= 0 ? 0 : 1; /* one pointer for both */
  const int64_t count = trm_shape_count(&instruction->shape);
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    const trm_tile_operand *operand = &request->operands[k];
    if ((int32_t)k != leader) trm_tile_incoming_add(&incoming, operand, &place);
    scalar |= operand->source_count == 1 && count > 1;
    edges += operand->is_constant && operand->source_count == 1 ? 0 : 1;
  }
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t per_worker =
      trm_ceil_divide(trm_most(1, elements_of(request, place.worst)), workers);
  const bool relu = instruction->opcode == TRM_OP_MAXIMUM && scalar;
  double per_element = trm_codelet_cycles(request->computation, instruction, false);
  const uint32_t width = trm_tile_vector_width(instruction->shape.dtype);
  const trm_codelet_kind kind = trm_codelet_kind_of(instruction->shape.dtype);
  if (relu && kind != TRM_CODELET_INTEGER) per_element = 2.0 / width;
  const int64_t setup = setup_cycles(instruction, kind, scalar);
  const int64_t cycles = workers * (setup + (int64_t)(per_element * (double)per_worker + 0.5)) + 11;
  const char *codelet =
      trm_codelet_name(cost->arena, request->computation, instruction, 1, 0, scalar);
  CHECK_MEMORY(codelet, "a cost");
  const char *name = trm_codelet_compute_set(cost->arena, instruction);
  CHECK_MEMORY(name, "a cost");
  if (relu) codelet = "popnn::NonLinearity1D<RELU>";
  return trm_tile_add_compute(request, cost, name, codelet, place.regions, 1, cycles,
                              trm_mapping_evenness(&place), edges,
                              trm_codelet_flops(instruction) * elements_of(request, count), error);
}

/* map: applies the called computation to every element; each of its instructions is an
 * expression. */
static trm_status cost_map(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  const trm_computation *called = &request->module->computations[request->instruction->called[0]];
  double cycles = 0;
  int64_t flops = 0;
  for (trm_index i = 0; i < called->num_instructions; ++i) {
    if (!is_elementwise(&called->instructions[i])) continue;
    cycles += trm_codelet_cycles(called, &called->instructions[i], false);
    flops += trm_codelet_flops(&called->instructions[i]);
  }
  body b = {.request = request, .cost = cost, .computation = called};
  const int32_t leader = choose_leader(&b, &request->instruction->shape);
  trm_mapping place = cost->results[0].mapping;
  if (leader >= 0) {
    place = trm_mapping_like(&request->operands[leader].mapping, request->instruction->shape.dtype);
  }
  cost->results[0].mapping = place;
  trm_tile_incoming incoming = {0};
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    if ((int32_t)k != leader) trm_tile_incoming_add(&incoming, &request->operands[k], &place);
  }
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t per_worker = trm_ceil_divide(trm_most(1, place.worst), workers);
  return trm_tile_add_compute(request, cost, "Op/Map", "popops::map", place.regions, 1,
                              workers * (30 + (int64_t)(cycles * (double)per_worker + 0.5)) + 11,
                              trm_mapping_evenness(&place), request->num_operands + 1,
                              flops * place.count, error);
}

trm_status trm_tile_elementwise(const trm_tile_request *request, trm_tile_cost *cost,
                                trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  if (cost->num_results == 0 || cost->results[0].mapping.kind == TRM_MAPPING_NONE) return TRM_OK;
  switch (request->instruction->opcode) {
    case TRM_OP_FUSION: return cost_fusion(request, cost, error);
    case TRM_OP_MAP: return cost_map(request, cost, error);
    default: return cost_single(request, cost, error);
  }
}
