/* Owns: which function says what an opcode costs. Every opcode has a row; docs/cost_model.md has
 * the formulas' sources. */
#include "hlo/config.h"
#include "program/builder.h"

typedef trm_status (*cost_fn)(const trm_tile_request *, trm_tile_cost *, trm_error *);

typedef struct row {
  bool known;
  trm_cost_class class;
  cost_fn cost;
} row;

#define NONE {true, TRM_COST_NONE, NULL}
#define VIEW {true, TRM_COST_VIEW, NULL}
#define CONTROL {true, TRM_COST_CONTROL, NULL}
#define FAMILY(name) {true, TRM_COST_FAMILY, trm_tile_##name}
/* A view that becomes an array of its own when it has very many sources. */
#define VIEW_OR(name) {true, TRM_COST_VIEW, trm_tile_##name}

static const row rows[TRM_NUM_OPCODES] = {
    /* Names of values; what is known when compiling. */
    [TRM_OP_PARAMETER] = NONE,
    [TRM_OP_CONSTANT] = NONE,
    [TRM_OP_TUPLE] = NONE,
    [TRM_OP_GET_TUPLE_ELEMENT] = NONE,
    [TRM_OP_AFTER_ALL] = NONE,
    [TRM_OP_ADD_DEPENDENCY] = NONE,
    [TRM_OP_DOMAIN] = NONE,
    [TRM_OP_OPT_BARRIER] = NONE,
    [TRM_OP_COPY_START] = NONE,
    [TRM_OP_COPY_DONE] = NONE,
    [TRM_OP_ASYNC_START] = NONE,
    [TRM_OP_ASYNC_UPDATE] = NONE,
    [TRM_OP_ASYNC_DONE] = NONE,
    [TRM_OP_ALL_GATHER_DONE] = NONE,
    [TRM_OP_ALL_REDUCE_DONE] = NONE,
    [TRM_OP_COLLECTIVE_PERMUTE_DONE] = NONE,
    [TRM_OP_SEND_DONE] = NONE,
    [TRM_OP_RECV_DONE] = FAMILY(transfer),
    [TRM_OP_GET_DIMENSION_SIZE] = NONE,
    [TRM_OP_SET_DIMENSION_SIZE] = NONE,
    /* Views. */
    [TRM_OP_BITCAST] = VIEW,
    [TRM_OP_RESHAPE] = VIEW,
    [TRM_OP_BROADCAST] = VIEW,
    [TRM_OP_TRANSPOSE] = VIEW,
    [TRM_OP_SLICE] = VIEW,
    [TRM_OP_REVERSE] = VIEW,
    [TRM_OP_CONCATENATE] = VIEW_OR(concatenate),
    [TRM_OP_COPY] = VIEW,
    [TRM_OP_BITCAST_CONVERT] = VIEW,
    /* Control. */
    [TRM_OP_WHILE] = CONTROL,
    [TRM_OP_CONDITIONAL] = CONTROL,
    [TRM_OP_CALL] = CONTROL,
    /* Elementwise. */
    [TRM_OP_FUSION] = FAMILY(elementwise),
    [TRM_OP_MAP] = FAMILY(elementwise),
    [TRM_OP_ACOS] = FAMILY(elementwise),
    [TRM_OP_ACOSH] = FAMILY(elementwise),
    [TRM_OP_ASIN] = FAMILY(elementwise),
    [TRM_OP_ASINH] = FAMILY(elementwise),
    [TRM_OP_ATANH] = FAMILY(elementwise),
    [TRM_OP_COSH] = FAMILY(elementwise),
    [TRM_OP_SINH] = FAMILY(elementwise),
    [TRM_OP_ABS] = FAMILY(elementwise),
    [TRM_OP_ADD] = FAMILY(elementwise),
    [TRM_OP_AND] = FAMILY(elementwise),
    [TRM_OP_ATAN2] = FAMILY(elementwise),
    [TRM_OP_CBRT] = FAMILY(elementwise),
    [TRM_OP_CEIL] = FAMILY(elementwise),
    [TRM_OP_CLAMP] = FAMILY(elementwise),
    [TRM_OP_COMPARE] = FAMILY(elementwise),
    [TRM_OP_COMPLEX] = FAMILY(elementwise),
    [TRM_OP_CONVERT] = FAMILY(elementwise),
    [TRM_OP_COSINE] = FAMILY(elementwise),
    [TRM_OP_COUNT_LEADING_ZEROS] = FAMILY(elementwise),
    [TRM_OP_DIVIDE] = FAMILY(elementwise),
    [TRM_OP_ERF] = FAMILY(elementwise),
    [TRM_OP_EXPONENTIAL] = FAMILY(elementwise),
    [TRM_OP_EXPONENTIAL_MINUS_ONE] = FAMILY(elementwise),
    [TRM_OP_FLOOR] = FAMILY(elementwise),
    [TRM_OP_IMAG] = FAMILY(elementwise),
    [TRM_OP_IOTA] = FAMILY(elementwise),
    [TRM_OP_IS_FINITE] = FAMILY(elementwise),
    [TRM_OP_LOG] = FAMILY(elementwise),
    [TRM_OP_LOG_PLUS_ONE] = FAMILY(elementwise),
    [TRM_OP_LOGISTIC] = FAMILY(elementwise),
    [TRM_OP_MAXIMUM] = FAMILY(elementwise),
    [TRM_OP_MINIMUM] = FAMILY(elementwise),
    [TRM_OP_MULTIPLY] = FAMILY(elementwise),
    [TRM_OP_NEGATE] = FAMILY(elementwise),
    [TRM_OP_NOT] = FAMILY(elementwise),
    [TRM_OP_OR] = FAMILY(elementwise),
    [TRM_OP_PARTITION_ID] = FAMILY(elementwise),
    [TRM_OP_POPULATION_COUNT] = FAMILY(elementwise),
    [TRM_OP_POWER] = FAMILY(elementwise),
    [TRM_OP_REAL] = FAMILY(elementwise),
    [TRM_OP_REDUCE_PRECISION] = FAMILY(elementwise),
    [TRM_OP_REMAINDER] = FAMILY(elementwise),
    [TRM_OP_REPLICA_ID] = FAMILY(elementwise),
    [TRM_OP_ROUND_NEAREST_AFZ] = FAMILY(elementwise),
    [TRM_OP_ROUND_NEAREST_EVEN] = FAMILY(elementwise),
    [TRM_OP_RSQRT] = FAMILY(elementwise),
    [TRM_OP_SELECT] = FAMILY(elementwise),
    [TRM_OP_SHIFT_LEFT] = FAMILY(elementwise),
    [TRM_OP_SHIFT_RIGHT_ARITHMETIC] = FAMILY(elementwise),
    [TRM_OP_SHIFT_RIGHT_LOGICAL] = FAMILY(elementwise),
    [TRM_OP_SIGN] = FAMILY(elementwise),
    [TRM_OP_SINE] = FAMILY(elementwise),
    [TRM_OP_SQRT] = FAMILY(elementwise),
    [TRM_OP_STOCHASTIC_CONVERT] = FAMILY(elementwise),
    [TRM_OP_SUBTRACT] = FAMILY(elementwise),
    [TRM_OP_TAN] = FAMILY(elementwise),
    [TRM_OP_TANH] = FAMILY(elementwise),
    [TRM_OP_XOR] = FAMILY(elementwise),
    /* The others. */
    [TRM_OP_BATCH_NORM_GRAD] = FAMILY(batch_norm),
    [TRM_OP_BATCH_NORM_INFERENCE] = FAMILY(batch_norm),
    [TRM_OP_BATCH_NORM_TRAINING] = FAMILY(batch_norm),
    [TRM_OP_REDUCE] = FAMILY(reduce),
    [TRM_OP_REDUCE_WINDOW] = FAMILY(reduce_window),
    [TRM_OP_SELECT_AND_SCATTER] = FAMILY(select_and_scatter),
    [TRM_OP_SORT] = FAMILY(sort),
    [TRM_OP_TOPK] = FAMILY(sort),
    [TRM_OP_SCAN] = FAMILY(scan),
    [TRM_OP_CONVOLUTION] = FAMILY(convolution),
    [TRM_OP_DOT] = FAMILY(dot),
    [TRM_OP_RAGGED_DOT] = FAMILY(dot),
    [TRM_OP_SCALED_DOT] = FAMILY(dot),
    [TRM_OP_CHOLESKY] = FAMILY(algebra),
    [TRM_OP_TRIANGULAR_SOLVE] = FAMILY(algebra),
    [TRM_OP_FFT] = FAMILY(fft),
    [TRM_OP_DYNAMIC_SLICE] = FAMILY(slice),
    [TRM_OP_DYNAMIC_UPDATE_SLICE] = FAMILY(slice),
    [TRM_OP_GATHER] = FAMILY(gather),
    [TRM_OP_SCATTER] = FAMILY(scatter),
    [TRM_OP_PAD] = FAMILY(pad),
    [TRM_OP_DYNAMIC_RESHAPE] = FAMILY(copy),
    [TRM_OP_RNG] = FAMILY(random),
    [TRM_OP_RNG_BIT_GENERATOR] = FAMILY(random),
    [TRM_OP_RNG_GET_AND_UPDATE_STATE] = FAMILY(random),
    [TRM_OP_ALL_GATHER] = FAMILY(collective),
    [TRM_OP_ALL_GATHER_START] = FAMILY(collective),
    [TRM_OP_ALL_REDUCE] = FAMILY(collective),
    [TRM_OP_ALL_REDUCE_START] = FAMILY(collective),
    [TRM_OP_ALL_TO_ALL] = FAMILY(collective),
    [TRM_OP_COLLECTIVE_BROADCAST] = FAMILY(collective),
    [TRM_OP_COLLECTIVE_PERMUTE] = FAMILY(collective),
    [TRM_OP_COLLECTIVE_PERMUTE_START] = FAMILY(collective),
    [TRM_OP_RAGGED_ALL_TO_ALL] = FAMILY(collective),
    [TRM_OP_REDUCE_SCATTER] = FAMILY(collective),
    [TRM_OP_INFEED] = FAMILY(transfer),
    [TRM_OP_OUTFEED] = FAMILY(transfer),
    [TRM_OP_SEND] = FAMILY(transfer),
    [TRM_OP_RECV] = FAMILY(transfer),
    [TRM_OP_CUSTOM_CALL] = {true, TRM_COST_FAMILY, NULL},
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
    /* Types that are one type on an IPU. */
    const trm_dtype from = computation->instructions[instruction->operands[0]].shape.dtype;
    const trm_dtype to = instruction->shape.dtype;
    if (narrow_type(from) == narrow_type(to)) return TRM_COST_VIEW;
  }
  return rows[instruction->opcode].class;
}

static trm_status cost_unknown(const trm_tile_request *request, trm_tile_cost *cost,
                               trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  int64_t worst = 0, elements = 0;
  trm_tile_incoming incoming = {0};
  trm_mapping place = {.kind = TRM_MAPPING_NONE, .parts = 1};
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
  worst = trm_ceil_divide(elements, trm_most(1, place.parts));
  return trm_tile_add_compute(request, cost, "CustomOp", "custom", place.parts, 1, 200 + 8 * worst,
                              1.0, request->num_operands + cost->num_results, 0, error);
}

trm_status trm_program_cost(const trm_tile_request *request, trm_tile_cost *cost,
                            const char **out_note, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  *out_note = NULL;
  if (instruction->opcode != TRM_OP_CUSTOM_CALL) {
    return rows[instruction->opcode].cost(request, cost, error);
  }
  if (instruction->call_id == TRM_CALL_USER_OP &&
      trm_config_is(instruction, "callback", JSON_TRUE)) {
    return trm_tile_transfer(request, cost, error); /* a function of the host */
  }
  const cost_fn known = custom_rows[instruction->call_id];
  if (known != NULL) return known(request, cost, error);
  *out_note = "has no cost formula: it is counted as one pass over its operands and results";
  return cost_unknown(request, cost, error);
}

/* For the tests: whether an opcode has a row, and one that costs nothing only where it may. */

bool trm_program_opcode_is_known(trm_opcode opcode) {
  const row *r = &rows[opcode];
  return r->known &&
         (r->class != TRM_COST_FAMILY || r->cost != NULL || opcode == TRM_OP_CUSTOM_CALL);
}
