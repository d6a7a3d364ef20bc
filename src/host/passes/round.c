/* Owns: making the stochastic rounding of float16 results an instruction of its own.
 *
 * The instruction computes in float32, as its kernel does anyway, and the custom call
 * "tremula.round-half-stochastically" rounds. Without this pass results are rounded to nearest. The
 * settings may round only the values that are the same on all replicas, or round those alike on all
 * replicas. Reductions other than plain sums and products, scatters, and batch norms that are one
 * instruction keep rounding to nearest. The pass is the host's: on an IPU rounding is a mode. */
#include <string.h>

#include "host/ops/elementwise/strip.h"
#include "passes/edit.h"
#include "passes/identical.h"
#include "passes/pass.h"

typedef struct rounding {
  bool stochastic;
  bool alike; /* all replicas draw the same random numbers */
} rounding;

static rounding rounding_of(const trm_instruction *instruction, rounding all) {
  const char *wanted = trm_instruction_frontend_attribute(instruction, "STOCHASTIC_ROUNDING");
  if (wanted == NULL) return all;
  if (strcmp(wanted, "THREESTATE_ON") == 0) all.stochastic = true;
  if (strcmp(wanted, "THREESTATE_OFF") == 0) all.stochastic = false;
  return all;
}

/* Whether a computation is x + y or x * y of two float16 scalars. */
static bool is_sum_or_product(const trm_computation *body) {
  const trm_opcode opcode = trm_computation_combiner(body);
  return (opcode == TRM_OP_ADD || opcode == TRM_OP_MULTIPLY) &&
         body->instructions[body->root].shape.dtype == TRM_F16;
}

static bool is_exact_source(trm_dtype dtype) {
  return dtype == TRM_PRED || dtype == TRM_S8 || dtype == TRM_U8 || dtype == TRM_F16;
}

/* Whether an instruction rounds to float16 and this pass can split its rounding off. */
static bool is_served(const trm_edit *e, trm_index i) {
  const trm_instruction *instruction = trm_edit_at(e, i);
  if (instruction->shape.dtype != TRM_F16 || instruction->num_control_predecessors > 0) {
    return false;
  }
  switch (instruction->opcode) {
    case TRM_OP_CONVERT:
      return !is_exact_source(trm_edit_at(e, instruction->operands[0])->shape.dtype);
    case TRM_OP_DOT:
    case TRM_OP_CONVOLUTION: return true;
    case TRM_OP_REDUCE:
    case TRM_OP_REDUCE_WINDOW:
      return instruction->num_operands == 2 &&
             is_sum_or_product(&e->module->computations[instruction->called[0]]);
    default: return trm_strip_rounds(instruction->opcode);
  }
}

static trm_status take_apart(trm_edit *e, trm_index i, rounding how, trm_error *error) {
  trm_index operand, rounded;
  if (trm_edit_at(e, i)->opcode == TRM_OP_CONVERT) {
    TRY(trm_edit_convert(e, i, TRM_F32, trm_edit_operand(e, i, 0), &operand, error));
  } else {
    const trm_index operands[2] = {trm_edit_operand(e, i, 0), trm_edit_at(e, i)->num_operands > 1
                                                                  ? trm_edit_operand(e, i, 1)
                                                                  : 0};
    TRY(trm_edit_widen(e, i, operands, &operand, error));
  }
  trm_custom_call *call = ARENA_NEW(&e->module->arena, trm_custom_call, 1);
  CHECK_MEMORY(call, "a rounding");
  *call = (trm_custom_call){.target = trm_call_target(TRM_CALL_ROUND_HALF)};
  const char *config = how.alike ? "{\"alike\":true}" : "{}";
  const trm_instruction custom = {.opcode = TRM_OP_CUSTOM_CALL,
                                  .shape = trm_edit_at(e, i)->shape,
                                  .num_operands = 1,
                                  .operands = &operand,
                                  .custom_call = call,
                                  .backend_config = config,
                                  .backend_config_size = strlen(config),
                                  .sharding = trm_edit_at(e, i)->sharding};
  TRY(trm_edit_add(e, i, custom, &rounded, error));
  trm_edit_replace(e, i, rounded);
  return TRM_OK;
}

/* Decides on the roundings of a module. */
typedef struct rounder {
  const trm_rounding_settings *settings;
  trm_identical identical;
} rounder;

static trm_status round_instruction(trm_edit *e, trm_index i, void *state, trm_error *error) {
  const rounder *r = state;
  const trm_rounding_settings *settings = r->settings;
  if (!is_served(e, i)) return TRM_OK;
  const bool same =
      r->identical.first != NULL && trm_is_identical(&r->identical, e->computation, i);
  const rounding all = {.stochastic = settings->stochastic == TRM_STOCHASTIC_ALL ||
                                      (settings->stochastic == TRM_STOCHASTIC_IDENTICAL && same)};
  rounding how = rounding_of(trm_edit_at(e, i), all);
  how.alike = how.stochastic && same;
  return how.stochastic ? take_apart(e, i, how, error) : TRM_OK;
}

static trm_status round_all(trm_module *module, const trm_rounding_settings *settings,
                            const bool *runs, trm_arena *arena, trm_error *error) {
  const uint32_t count = module->num_computations;
  rounder r = {.settings = settings};
  if (settings->stochastic == TRM_STOCHASTIC_IDENTICAL || settings->alike) {
    TRY(trm_find_identical(module, runs, settings->replicas, arena, &r.identical, error));
  }
  for (uint32_t c = 0; c < count; ++c) {
    if (runs[c]) TRY(trm_edit_instructions(module, c, round_instruction, &r, error));
  }
  return TRM_OK;
}

trm_status trm_pass_round_halves(trm_module *module, const trm_rounding_settings *settings,
                                 trm_error *error) {
  const uint32_t count = module->num_computations;
  bool *runs = trm_allocate_zeroed(count, sizeof *runs);
  CHECK_MEMORY(runs, "a pass");
  trm_module_mark_running(module, runs); /* not the scalar functions of reductions */
  trm_arena arena = {0};
  const trm_status status = round_all(module, settings, runs, &arena, error);
  trm_arena_free(&arena);
  trm_free(runs);
  TRY(status);
  return module->num_computations == count ? TRM_OK : trm_module_compact(module, error);
}
