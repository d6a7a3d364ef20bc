/* Owns: the table from opcodes to the functions that know their costs. Every opcode has a row;
 * docs/cost_model.md has the sources of the formulas. */
#include "ipu/program/draft.h"
#include "passes/pass.h"

typedef trm_status (*cost_fn)(const trm_tile_request *, trm_tile_cost *, trm_error *);

typedef struct row {
  trm_cost_class class;
  cost_fn cost;
} row;

static const row rows[TRM_NUM_OPCODES] = {
#define COST(name) {TRM_COST_FAMILY, trm_tile_##name}
#define CALL_COST {TRM_COST_FAMILY, NULL}
#define COST_NONE {TRM_COST_NONE, NULL}
#define COST_CONTROL {TRM_COST_CONTROL, NULL}
#define COST_VIEW {TRM_COST_VIEW, NULL}
#define COST_VIEW_OR(name) {TRM_COST_VIEW, trm_tile_##name}
#define OPCODE(id, name, arity, class, calls, kernel, cost, effect, replicas, events) \
  [TRM_OP_##id] = cost,
#include "hlo/opcodes.def"
#undef OPCODE
#undef COST_VIEW_OR
#undef COST_VIEW
#undef COST_CONTROL
#undef COST_NONE
#undef CALL_COST
#undef COST
};

static const cost_fn custom_rows[TRM_NUM_CALLS] = {
#define COST(name) trm_tile_##name
#define NO_COST NULL
#define CUSTOM_CALL(id, target, like, kernel, cost, replicas, events) [TRM_CALL_##id] = cost,
#include "hlo/custom_calls.def"
#undef CUSTOM_CALL
#undef NO_COST
#undef COST
};

static trm_dtype narrow_type(trm_dtype dtype) {
  switch (dtype) {
    case TRM_S64: return TRM_S32;
    case TRM_U64: return TRM_U32;
    case TRM_F64: return TRM_F32;
    default: return dtype;
  }
}

trm_cost_class trm_program_cost_class(const trm_module *module, const trm_computation *computation,
                                      const trm_instruction *instruction) {
  (void)module;
  if (instruction->opcode == TRM_OP_CONVERT) {
    /* Conversions between types that are one type on an IPU. */
    const trm_dtype from = computation->instructions[instruction->operands[0]].shape.dtype;
    const trm_dtype to = instruction->shape.dtype;
    if (narrow_type(from) == narrow_type(to)) return TRM_COST_VIEW;
  }
  if (instruction->opcode == TRM_OP_COPY &&
      trm_instruction_frontend_attribute(instruction, TRM_CALL_COPY) != NULL) {
    return TRM_COST_FAMILY;
  }
  return rows[instruction->opcode].class;
}

static trm_status cost_unknown(const trm_tile_request *request, trm_tile_cost *cost,
                               trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  int64_t worst = 0, elements = 0;
  trm_tile_incoming incoming = {0};
  trm_mapping place = {.kind = TRM_MAPPING_NONE, .regions = 1};
  for (uint32_t l = 0; l < cost->num_results; ++l) {
    if (cost->results[l].mapping.count > place.count) place = cost->results[l].mapping;
    elements += cost->results[l].mapping.count;
  }
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    if (request->operands[k].mapping.count > place.count) place = request->operands[k].mapping;
    elements += trm_shape_count(&request->operands[k].shape);
    trm_tile_incoming_add(&incoming, &request->operands[k], &place);
  }
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  worst = trm_ceil_divide(elements, trm_most(1, place.regions));
  return trm_tile_add_compute(request, cost, "CustomOp", "custom", place.regions, 1,
                              200 + 8 * worst, 1.0, request->num_operands + cost->num_results, 0,
                              error);
}

trm_status trm_program_cost(const trm_tile_request *request, trm_tile_cost *cost,
                            const char **out_note, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  *out_note = NULL;
  if (instruction->opcode != TRM_OP_CUSTOM_CALL) {
    return rows[instruction->opcode].cost(request, cost, error);
  }
  const cost_fn known = custom_rows[instruction->call_id];
  if (known != NULL) TRY(known(request, cost, error));
  if (cost->results != NULL) return TRM_OK;
  *out_note = "has no cost formula: it is counted as one pass over its operands and results";
  return cost_unknown(request, cost, error);
}
