/* Owns: the pass library-calls: which calls of Poplar's libraries an IPU program makes for the
 * instructions of a module.
 *
 * The original lowers HLO instructions to library calls one by one, after it has combined some
 * patterns: x + a y, a sum with a factor, a filter's gradient with its application, a pool with its
 * division. The names of its compute sets come from the TensorFlow op, the HLO instruction or
 * pattern, and the library's own name. The pass searches a module for those patterns, through views
 * and fusions, and states each on its instruction. hlo/library_calls.def lists the patterns. */
#include <string.h>

#include "hlo/config.h"
#include "hlo/library_call.h"
#include "ipu/costs/codelets.h"
#include "ipu/passes/library.h"
#include "passes/pass.h"

static const uint32_t none = TRM_NO_INDEX;

typedef trm_library_finder finder;

static bool is_float(const trm_instruction *i) {
  return i->shape.dtype == TRM_F16 || i->shape.dtype == TRM_F32 || i->shape.dtype == TRM_BF16;
}

static bool has_type(const trm_instruction *i, const char *type) {
  return i->metadata.op_type != NULL && strcmp(i->metadata.op_type, type) == 0;
}

/* ---- Scalars -------------------------------------------------------------------------------- */

typedef enum scalar_kind { NO_SCALAR, INPUT_SCALAR, CONSTANT_SCALAR } scalar_kind;

/* Whether a value is a scalar, or a broadcast of one in one or more steps. */
static scalar_kind scalar_of(const finder *f, uint32_t v) {
  const trm_instruction *i = at(f, v);
  while (i->opcode == TRM_OP_BROADCAST) {
    v = operand(f, v, 0);
    i = at(f, v);
  }
  if (!trm_shape_is_array(&i->shape) || trm_shape_count(&i->shape) != 1) return NO_SCALAR;
  if (i->opcode == TRM_OP_CONVERT && at(f, operand(f, v, 0))->opcode == TRM_OP_CONSTANT) {
    return CONSTANT_SCALAR;
  }
  return i->opcode == TRM_OP_CONSTANT ? CONSTANT_SCALAR : INPUT_SCALAR;
}

static bool is_zero(const finder *f, uint32_t v) {
  const trm_instruction *i = at(f, v);
  if (i->opcode == TRM_OP_BROADCAST) i = at(f, operand(f, v, 0));
  if (i->opcode != TRM_OP_CONSTANT || i->literal == NULL || trm_shape_count(&i->shape) != 1) {
    return false;
  }
  static const uint8_t zeros[16];
  const size_t bytes = trm_shape_bytes(&i->shape);
  return bytes <= sizeof zeros && memcmp(i->literal->leaves[0], zeros, bytes) == 0;
}

static bool is_sum(const finder *f, uint32_t v) {
  const trm_instruction *i = at(f, v);
  if (i->opcode != TRM_OP_REDUCE || i->num_operands != 2) return false;
  /* A sum of single elements is a reshape. */
  if (trm_shape_count(&i->shape) == trm_shape_count(&at(f, operand(f, v, 0))->shape)) return false;
  const trm_computation *called = &f->in.module->computations[i->called[0]];
  return called->instructions[called->root].opcode == TRM_OP_ADD;
}

/* Whether v is x y, with one of them a scalar, or x / constant. *out_value: the other operand. */
static scalar_kind scaling_of(const finder *f, uint32_t v, uint32_t *out_value) {
  const trm_instruction *i = at(f, v);
  if (!is_float(i)) return NO_SCALAR;
  if (i->opcode == TRM_OP_DIVIDE) {
    *out_value = operand(f, v, 0);
    return scalar_of(f, operand(f, v, 1)) == CONSTANT_SCALAR ? CONSTANT_SCALAR : NO_SCALAR;
  }
  if (i->opcode != TRM_OP_MULTIPLY) return NO_SCALAR;
  for (uint32_t k = 2; k-- > 0;) {
    const uint32_t other = operand(f, v, 1 - k);
    const scalar_kind kind = scalar_of(f, operand(f, v, k));
    if (kind == NO_SCALAR || other == operand(f, v, k)) continue;
    *out_value = other;
    return kind;
  }
  return NO_SCALAR;
}

/* ---- Patterns ------------------------------------------------------------------------------- */

static bool in_one_fusion(const finder *f, uint32_t a, uint32_t b) {
  return f->in.computation[a] == f->in.computation[b] && f->in.caller[f->in.computation[a]] != none;
}

/* The compute set of `by`, the only user of `v`, computes `v`. */
static void take_over(finder *f, uint32_t v, uint32_t by) {
  trm_library_call *call = call_of(f, v);
  if (in_one_fusion(f, v, by)) call->joins = true;
  else call->is_absorbed = true;
}

/* A cast that widen-halves (src/passes/halves.c) has put around an instruction is part of the
 * instruction. */
static bool absorb_cast(finder *f, uint32_t v, uint32_t n) {
  const char *cast_op = at(f, v)->metadata.op_name, *op = at(f, n)->metadata.op_name;
  const bool is_same = (cast_op == NULL && op == NULL) || same_op(at(f, v), at(f, n));
  if (at(f, v)->opcode != TRM_OP_CONVERT || !is_same) return false;
  call_of(f, v)->is_absorbed = true;
  return true;
}

/* Absorbs the cast of the scalar in v = scalar x value, because popops takes scalars of either
 * type. */
static void absorb_cast_of_scalar(finder *f, uint32_t v, uint32_t value) {
  for (uint32_t k = 0; k < 2; ++k) {
    uint32_t scalar = operand(f, v, k);
    if (scalar == value) continue;
    if (at(f, scalar)->opcode == TRM_OP_BROADCAST) scalar = operand(f, scalar, 0);
    if (at(f, scalar)->opcode == TRM_OP_CONVERT && trm_shape_count(&at(f, scalar)->shape) == 1 &&
        f->in.uses[scalar] <= 1 && is_float(at(f, operand(f, scalar, 0)))) {
      call_of(f, scalar)->is_absorbed = true;
    }
  }
}

static bool draws_truncated(const finder *f, uint32_t v) {
  const trm_instruction *i = at(f, v);
  return i->call_id == TRM_CALL_RANDOM && trm_config_is_text(i, "distribution", "truncated_normal");
}

/* A scatter that adds to zeros. */
static bool adds_to_zeros(const finder *f, uint32_t v) {
  const trm_instruction *i = at(f, v);
  return i->opcode == TRM_OP_SCATTER && i->num_operands == 3 && is_zero(f, operand(f, v, 0));
}

static bool is_of_same_sum(const finder *f, uint32_t v, uint32_t n) {
  return v != none && at(f, v)->opcode == TRM_OP_ADD && same_op(at(f, v), at(f, n));
}

/* Whether n adds up two gradients of one value, and no more. A scaled one is scaled once more where
 * it is added, though others read it. */
static bool sums_two_gradients(const finder *f, uint32_t n) {
  return has_type(at(f, n), "AddN") && !is_of_same_sum(f, f->in.user[n], n) &&
         !is_of_same_sum(f, operand(f, n, 0), n) && !is_of_same_sum(f, operand(f, n, 1), n);
}

/* a x + b y, x + b y and the like: popops::scaledAddTo. Where y is a filter's gradient or the sum
 * of a bias's gradient, y and the sum are one pattern. */
static void find_scaled_sum(finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  const bool subtracts = i->opcode == TRM_OP_SUBTRACT;
  if ((i->opcode != TRM_OP_ADD && !subtracts) || !is_float(i)) return;
  uint32_t values[2] = {none, none};
  scalar_kind kinds[2] = {NO_SCALAR, NO_SCALAR};
  for (uint32_t k = 0; k < 2; ++k) {
    const uint32_t v = operand(f, n, k);
    if (at(f, v)->opcode != TRM_OP_MULTIPLY || is_found(f, v)) continue;
    if (!is_used_once(f, v) && !sums_two_gradients(f, n)) continue;
    kinds[k] = scaling_of(f, v, &values[k]);
    if (trm_shape_count(&at(f, v)->shape) == 1 ||
        at(f, values[k] == none ? v : values[k])->opcode == TRM_OP_BROADCAST) {
      kinds[k] = NO_SCALAR;
    }
    /* The other operand must be an array too. */
    if (at(f, operand(f, n, 1 - k))->opcode == TRM_OP_BROADCAST &&
        !(kinds[k] != NO_SCALAR && draws_truncated(f, values[k]))) {
      kinds[k] = NO_SCALAR;
    }
  }
  if (kinds[0] == NO_SCALAR && kinds[1] == NO_SCALAR) return;
  trm_library_call *call = call_of(f, n);
  if (is_found(f, n) || call->is_absorbed) return;
  const uint32_t scaled = kinds[1] != NO_SCALAR ? 1 : 0;
  const uint32_t y = values[scaled];
  const bool is_pattern = kinds[1 - scaled] == NO_SCALAR && is_used_once(f, operand(f, n, scaled));
  call->group = ++f->num_groups;
  if (is_pattern && at(f, y)->opcode == TRM_OP_CONVOLUTION && is_used_once(f, y) &&
      f->in.caller[f->in.computation[y]] == none) {
    trm_library_call_set(call, TRM_LIBRARY_FILTER_UPDATE);
    call->scope = at(f, y)->metadata.op_name;
    *call_of(f, y) = (trm_library_call){.group = call->group};
    trm_library_call_set(call_of(f, y), TRM_LIBRARY_FILTER_GRADIENT);
  } else if (is_pattern && subtracts && is_sum(f, y) && at(f, y)->shape.rank == 1 &&
             is_used_once(f, y)) {
    *call_of(f, y) = (trm_library_call){.scope = i->metadata.op_name, .group = call->group};
    trm_library_call_set(call_of(f, y), TRM_LIBRARY_BIAS_GRADIENT);
    if (kinds[scaled] == CONSTANT_SCALAR) call->is_absorbed = true;
    trm_library_call_set(call, TRM_LIBRARY_NEGATED_UPDATE);
  } else if (is_pattern && adds_to_zeros(f, y) && is_used_once(f, y)) {
    /* The update itself adds to x with the scale. */
    if (kinds[scaled] == CONSTANT_SCALAR || !subtracts) call->is_absorbed = true;
    trm_library_call_set(call, TRM_LIBRARY_NEGATED_UPDATE);
  } else {
    trm_library_call_set(call, kinds[0] == NO_SCALAR   ? TRM_LIBRARY_SCALED_B
                               : kinds[1] == NO_SCALAR ? TRM_LIBRARY_SCALED_A
                                                       : TRM_LIBRARY_SCALED_AB);
  }
  for (uint32_t k = 0; k < 2; ++k) {
    absorb_cast(f, kinds[k] != NO_SCALAR ? values[k] : operand(f, n, k), n);
    if (kinds[k] == NO_SCALAR || !is_used_once(f, operand(f, n, k))) continue;
    absorb_cast_of_scalar(f, operand(f, n, k), values[k]);
    take_over(f, operand(f, n, k), n);
  }
  if (f->in.user[n] != none) absorb_cast(f, f->in.user[n], n);
}

/* Whether the factor of a sum stays apart because the TensorFlow op divides: a later pass of the
 * original makes a product of the division. TensorFlow's Mean divides too. With a sum of halves it
 * is one pattern all the same ("Mean/fusion/Reduce" in casts_elimination_test.testReduceMean),
 * unless the sum is one already, of squares. */
static bool divides_later(const trm_instruction *i, bool sums_halves, bool sums_squares) {
  if (has_type(i, "Mean")) return sums_squares || !sums_halves;
  return i->metadata.op_type != NULL && strstr(i->metadata.op_type, "Div") != NULL;
}

/* Sums of squares, sums with a factor, and float16 sums. */
static void find_reductions(finder *f, uint32_t n) {
  if (!is_sum(f, n)) return;
  trm_library_call *call = call_of(f, n);
  uint32_t x = operand(f, n, 0);
  const trm_instruction *i = at(f, n);
  const bool is_taken = is_found(f, n);
  bool squares = false, halves = i->shape.dtype == TRM_F16 || at(f, x)->shape.dtype == TRM_F16;
  if (at(f, x)->opcode == TRM_OP_CONVERT && is_used_once(f, x)) {
    const uint32_t wide = x;
    x = operand(f, x, 0);
    halves = halves || at(f, x)->shape.dtype == TRM_F16;
    if (at(f, x)->opcode == TRM_OP_MULTIPLY && is_used_once(f, x) &&
        operand(f, x, 0) == operand(f, x, 1) && at(f, x)->shape.dtype == TRM_F16) {
      call_of(f, wide)->is_absorbed = true;
    } else if (at(f, x)->shape.dtype != TRM_F16 || at(f, wide)->shape.dtype == TRM_F16) {
      x = wide;
    }
  }
  if (!is_taken && is_float(at(f, x)) && at(f, x)->opcode == TRM_OP_MULTIPLY &&
      is_used_once(f, x) && operand(f, x, 0) == operand(f, x, 1)) {
    call_of(f, x)->is_absorbed = true;
    trm_library_call_set(call, TRM_LIBRARY_FUSION);
    squares = true;
    halves = absorb_cast(f, operand(f, x, 0), n) || halves;
  }
  if (!is_used_once(f, n)) return;
  const uint32_t u = f->in.user[n];
  if (u == none) return;
  const trm_instruction *user = at(f, u);
  uint32_t scaled = none;
  if (user->opcode == TRM_OP_MULTIPLY && operand(f, u, 1) == n &&
      scalar_of(f, operand(f, u, 0)) != NO_SCALAR && is_float(user)) {
    scaled = n; /* where both are scalars, either may be the factor */
  }
  if (user->opcode == TRM_OP_CONVERT && user->shape.dtype == TRM_F16 && halves) {
    call_of(f, u)->is_absorbed = true;
  } else if (!is_taken && (scaled == n || scaling_of(f, u, &scaled) != NO_SCALAR) && scaled == n &&
             !divides_later(user, halves, squares)) {
    trm_library_call_set(call, TRM_LIBRARY_FUSION);
    call_of(f, u)->is_absorbed = true;
  }
}

/* Non-linearities of popnn and their gradients. */
static void find_nonlinearity(finder *f, uint32_t n) {
  static const struct {
    const char *type;
    trm_library_pattern pattern;
  } gradients[] = {{"ReluGrad", TRM_LIBRARY_RELU_GRAD},
                   {"SigmoidGrad", TRM_LIBRARY_SIGMOID_GRAD},
                   {"TanhGrad", TRM_LIBRARY_TANH_GRAD}};
  const trm_instruction *i = at(f, n);
  trm_library_call *call = call_of(f, n);
  const char *function = trm_instruction_frontend_attribute(i, TRM_FUNCTION);
  if (is_found(f, n) || call->joins || call->is_absorbed) return;
  for (size_t g = 0; g < sizeof gradients / sizeof *gradients; ++g) {
    if (!has_type(i, gradients[g].type)) continue;
    trm_library_call_set(call, gradients[g].pattern);
    if (is_used_once(f, n) && f->in.user[n] != none && same_op(i, at(f, f->in.user[n]))) {
      take_over(f, n, f->in.user[n]);
      call->is_absorbed = false; /* in two fusions it is two compute sets, of one name */
      if (call->group == 0) call->group = ++f->num_groups;
      call_of(f, f->in.user[n])->group = call->group;
    }
    return;
  }
  if (i->opcode == TRM_OP_MAXIMUM && is_float(i) &&
      (is_zero(f, operand(f, n, 0)) || is_zero(f, operand(f, n, 1)))) {
    trm_library_call_set(call, TRM_LIBRARY_RELU);
  } else if (function != NULL && (i->opcode == TRM_OP_ERF || i->opcode == TRM_OP_MULTIPLY)) {
    const bool is_gradient = strstr(function, "-grad") != NULL;
    const bool is_of_popops = strcmp(function, TRM_GELU_ERF) == 0;
    call->scope = trm_instruction_frontend_attribute(i, TRM_SCOPE);
    if (!is_of_popops) call->word = function;
    trm_library_call_set(call, is_of_popops  ? TRM_LIBRARY_GELU
                               : is_gradient ? TRM_LIBRARY_ACTIVATION_GRAD
                                             : TRM_LIBRARY_ACTIVATION);
  } else if (i->opcode == TRM_OP_LOGISTIC) {
    trm_library_call_set(call, TRM_LIBRARY_SIGMOID);
  }
}

/* A broadcast to as many elements is a reshape. */
static bool is_broadcast(const finder *f, uint32_t v) {
  return at(f, v)->opcode == TRM_OP_BROADCAST &&
         trm_shape_count(&at(f, operand(f, v, 0))->shape) < trm_shape_count(&at(f, v)->shape);
}

/* The parts of a concatenation are added to slices of the other operand. Sums of gradients are none
 * by functional_ops_test.testFunctionTrainingConstants. */
static bool adds_slices(const finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  if (i->opcode != TRM_OP_ADD || has_type(i, "AddN")) return false;
  const uint32_t a = operand(f, n, 0), b = operand(f, n, 1);
  const bool first = at(f, a)->opcode == TRM_OP_CONCATENATE;
  return first != (at(f, b)->opcode == TRM_OP_CONCATENATE) && is_used_once(f, first ? a : b);
}

/* In the original, binary and ternary instructions with a broadcast operand are fusions, a product
 * of a value with itself is a square, and a division by a constant is a product. */
static void find_binary(finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  trm_library_call *call = call_of(f, n);
  if (is_found(f, n) || !trm_opcode_is_elementwise(i->opcode) || i->num_operands < 2) return;
  if (i->opcode == TRM_OP_MULTIPLY && operand(f, n, 0) == operand(f, n, 1)) {
    trm_library_call_set(call, TRM_LIBRARY_SQUARE);
    return;
  }
  if (adds_slices(f, n)) {
    trm_library_call_set(call, TRM_LIBRARY_SLICE_APPLY);
    return;
  }
  const bool by_constant = i->opcode == TRM_OP_DIVIDE && is_float(i) &&
                           scalar_of(f, operand(f, n, 1)) == CONSTANT_SCALAR;
  if (trm_shape_is_array(&i->shape) && i->shape.rank > 0) {
    for (uint32_t k = 0; k < i->num_operands; ++k) {
      const uint32_t v = operand(f, n, k);
      const trm_instruction *o = at(f, v);
      if (is_broadcast(f, v) || trm_shape_count(&o->shape) < trm_shape_count(&i->shape)) {
        trm_library_call_set(call, by_constant ? TRM_LIBRARY_DIVIDED_FUSION : TRM_LIBRARY_FUSION);
        return;
      }
    }
  }
  if (by_constant) trm_library_call_set(call, TRM_LIBRARY_MULTIPLY);
}

/* Small trees of elementwise instructions are one expression. Its compute sets have the name of the
 * last instruction. */
static bool may_be_in_expression(const finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  const trm_library_call *call = call_of(f, n);
  if (!trm_opcode_is_elementwise(i->opcode) || !trm_shape_is_array(&i->shape) ||
      trm_shape_count(&i->shape) > TRM_EXPRESSION_ELEMENTS || i->num_control_predecessors > 0 ||
      i->opcode == TRM_OP_BITCAST_CONVERT || call->joins || call->is_absorbed) {
    return false;
  }
  if (call->scope != NULL && call->pattern != TRM_LIBRARY_SMALL_EXPRESSION) return false;
  return is_used_once(f, n) && (!is_found(f, n) || trm_library_rows[call->pattern].in_expression);
}

static trm_status find_expression(finder *f, uint32_t n, trm_error *error) {
  if (!may_be_in_expression(f, n)) return TRM_OK;
  const uint32_t user = f->in.user[n];
  const bool has_root = user != none && may_be_in_expression(f, user);
  bool has_leaf = false, has_scalar = false;
  const trm_instruction *i = at(f, n);
  for (uint32_t k = 0; k < i->num_operands; ++k) {
    has_leaf = has_leaf || may_be_in_expression(f, operand(f, n, k));
    has_scalar = has_scalar || scalar_of(f, operand(f, n, k)) != NO_SCALAR;
  }
  trm_library_call *call = call_of(f, n);
  const bool belongs = /* readers come first */
      has_root && call_of(f, user)->pattern == TRM_LIBRARY_SMALL_EXPRESSION;
  if (!belongs && !(has_leaf && has_scalar)) return TRM_OK;
  if (belongs) {
    call->scope = call_of(f, user)->scope;
    call->word = call_of(f, user)->word;
  } else {
    call->scope = i->metadata.op_name;
    call->word = trm_arena_format(f->texts, "%s/expression", i->name);
    CHECK_MEMORY(call->word, "library calls");
  }
  trm_library_call_set(call, TRM_LIBRARY_SMALL_EXPRESSION);
  return TRM_OK;
}

/* Gives an instruction a word with the number that its own name has. */
static trm_status name_call(finder *f, uint32_t n, const char *word, trm_error *error) {
  trm_library_call *call = call_of(f, n);
  const char *number = strchr(at(f, n)->name, '.');
  call->word = trm_arena_format(f->texts, "%s%s", word, number == NULL ? "" : number);
  CHECK_MEMORY(call->word, "library calls");
  trm_library_call_set(call, TRM_LIBRARY_NAMED);
  return TRM_OK;
}

/* Custom calls that draw random numbers. */
static trm_status find_random(finder *f, uint32_t n, trm_error *error) {
  const trm_instruction *i = at(f, n);
  if (i->call_id != TRM_CALL_RANDOM) return TRM_OK;
  trm_library_call *call = call_of(f, n);
  if (draws_truncated(f, n)) {
    trm_library_call_set(call, TRM_LIBRARY_TRUNCATED_NORMAL);
    return TRM_OK;
  }
  /* A constant factor and a constant addend are the standard deviation and mean of the numbers. */
  const uint32_t u = f->in.user[n];
  uint32_t scaled = none;
  if (u != none && is_used_once(f, n) && scaling_of(f, u, &scaled) == CONSTANT_SCALAR &&
      scaled == n && is_used_once(f, u) && f->in.user[u] != none) {
    const trm_instruction *sum = at(f, f->in.user[u]);
    const bool first = operand(f, f->in.user[u], 0) == u;
    if (sum->opcode == TRM_OP_ADD && !call_of(f, f->in.user[u])->is_absorbed &&
        scalar_of(f, operand(f, f->in.user[u], first ? 1 : 0)) == CONSTANT_SCALAR) {
      trm_library_call_set(call, TRM_LIBRARY_FUSION);
      call_of(f, u)->is_absorbed = true;
      *call_of(f, f->in.user[u]) = (trm_library_call){.is_absorbed = true};
      return TRM_OK;
    }
  }
  return name_call(f, n, "rng", error);
}

/* Custom calls are called by what they do: "custom-call.7" becomes "all-reduce.7". */
static trm_status find_custom_call(finder *f, uint32_t n, trm_error *error) {
  static const char ours[] = "tremula.";
  const trm_instruction *i = at(f, n);
  if (i->opcode != TRM_OP_CUSTOM_CALL || i->custom_call == NULL || is_found(f, n) ||
      strncmp(i->custom_call->target, ours, strlen(ours)) != 0) {
    return TRM_OK;
  }
  if (i->call_id == TRM_CALL_MULTI_CONV) {
    call_of(f, n)->scope = trm_instruction_frontend_attribute(i, "multi_conv");
  }
  return name_call(f, n, i->custom_call->target + strlen(ours), error);
}

/* Instructions that are a pattern alone. */
static void find_single(finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  trm_library_call *call = call_of(f, n);
  if (is_found(f, n)) return;
  switch (i->opcode) {
    case TRM_OP_GATHER: trm_library_call_set(call, TRM_LIBRARY_MULTI_SLICE); break;
    case TRM_OP_SCATTER: trm_library_call_set(call, TRM_LIBRARY_MULTI_UPDATE_ADD); break;
    default: break;
  }
}

/* ---- Stating them --------------------------------------------------------------------------- */

static trm_status state_all(finder *f, trm_module *module, trm_error *error) {
  for (uint32_t n = 0; n < f->in.count; ++n) {
    const uint32_t c = f->in.computation[n];
    trm_instruction *instruction = &module->computations[c].instructions[n - f->in.base[c]];
    instruction->library_call = NULL;
    if (trm_library_call_is_empty(call_of(f, n))) continue;
    instruction->library_call = trm_arena_copy(f->texts, call_of(f, n), sizeof(trm_library_call));
    CHECK_MEMORY(instruction->library_call, "library calls");
  }
  return TRM_OK;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static trm_status find_all(finder *f, trm_error *error) {
  const uint32_t count = f->in.count;
  TRY(trm_library_find_layers(f, error));
  for (uint32_t n = 0; n < count; ++n) TRY(find_random(f, n, error));
  for (uint32_t n = 0; n < count; ++n) find_scaled_sum(f, n);
  for (uint32_t n = 0; n < count; ++n) find_reductions(f, n);
  TRY(trm_library_find_kernels(f, error));
  TRY(trm_library_find_norms(f, error));
  for (uint32_t n = 0; n < count; ++n) {
    find_nonlinearity(f, n);
    find_single(f, n);
    find_binary(f, n);
    TRY(find_custom_call(f, n, error));
  }
  for (uint32_t n = count; n-- > 0;) TRY(find_expression(f, n, error));
  trm_library_find_casts(f);
  return TRM_OK;
}

trm_status trm_pass_library_calls(trm_module *module, trm_error *error) {
  trm_arena arena = {0};
  finder f = {.arena = &arena, .texts = &module->arena};
  trm_status status = trm_values_find(module, &arena, &f.in, error);
  if (status == TRM_OK) {
    f.calls = ARENA_NEW(&arena, trm_library_call, (size_t)f.in.count + 1);
    f.is_kernel = ARENA_NEW(&arena, bool, (size_t)f.in.count + 1);
    if (f.calls == NULL || f.is_kernel == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for library calls");
    }
  }
  if (status == TRM_OK) status = find_all(&f, error);
  if (status == TRM_OK) status = state_all(&f, module, error);
  trm_arena_free(&arena);
  return status;
}
