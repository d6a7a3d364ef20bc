/* Owns: what the original calls the compute sets of an instruction, and which of them it makes.
 *
 * The original lowers HLO to calls of Poplar's libraries one by one, and brings some patterns of
 * instructions together first: x + a y, a sum with a factor, a filter's gradient with its
 * application, a pool with its division. Its compute sets are called after the TensorFlow op, the
 * HLO instruction or the pattern, and what the library calls them. Here the planned module is
 * searched for those patterns, across the borders of our own fusions, which are made for the host.
 * The patterns and the words are those that the original's tests of profiles show
 * (tests/data/compute_sets.json). */
#include <string.h>

#include "hlo/config.h"
#include "program/role_finder.h"

/* The original compiles an elementwise tree of at most this many elements as one expression. */
enum { EXPRESSION_ELEMENTS = 8 };

static const uint32_t none = TRM_NO_INDEX;

typedef trm_role_finder finder;

static bool is_float(const trm_instruction *i) {
  return i->shape.dtype == TRM_F16 || i->shape.dtype == TRM_F32 || i->shape.dtype == TRM_BF16;
}

static bool has_type(const trm_instruction *i, const char *type) {
  return i->metadata.op_type != NULL && strcmp(i->metadata.op_type, type) == 0;
}

/* ---- Scalars -------------------------------------------------------------------------------- */

typedef enum scalar_kind { NO_SCALAR, INPUT_SCALAR, CONSTANT_SCALAR } scalar_kind;

/* Whether a value is a scalar, or the broadcast of one. */
static scalar_kind scalar_of(const finder *f, uint32_t v) {
  const trm_instruction *i = at(f, v);
  if (i->opcode == TRM_OP_BROADCAST) {
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
  const trm_computation *called = &f->in.module->computations[i->called[0]];
  return called->instructions[called->root].opcode == TRM_OP_ADD;
}

/* x y with one of them a scalar, or x / constant: *out_value is the other. */
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

/* The compute set of its only user computes `v`. */
static void take_over(finder *f, uint32_t v, uint32_t by) {
  trm_tile_role *role = role_of(f, v);
  if (in_one_fusion(f, v, by)) role->joins = true;
  else role->is_absorbed = true;
}

/* A cast that widen-halves (src/passes/halves.c) has put around an instruction is part of it. */
static bool absorb_cast(finder *f, uint32_t v, uint32_t n) {
  const char *cast_op = at(f, v)->metadata.op_name, *op = at(f, n)->metadata.op_name;
  const bool is_same = (cast_op == NULL && op == NULL) || same_op(at(f, v), at(f, n));
  if (at(f, v)->opcode != TRM_OP_CONVERT || !is_same) return false;
  role_of(f, v)->is_absorbed = true;
  return true;
}

/* The cast of the scalar in v = scalar x value: popops takes scalars of either type. */
static void absorb_cast_of_scalar(finder *f, uint32_t v, uint32_t value) {
  for (uint32_t k = 0; k < 2; ++k) {
    uint32_t scalar = operand(f, v, k);
    if (scalar == value) continue;
    if (at(f, scalar)->opcode == TRM_OP_BROADCAST) scalar = operand(f, scalar, 0);
    if (at(f, scalar)->opcode == TRM_OP_CONVERT && trm_shape_count(&at(f, scalar)->shape) == 1 &&
        f->in.uses[scalar] <= 1 && is_float(at(f, operand(f, scalar, 0)))) {
      role_of(f, scalar)->is_absorbed = true;
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

/* a x + b y, x + b y and the like: popops::scaledAddTo. With a filter's gradient, or the sum of a
 * bias's, as y, these are one pattern with it. */
static trm_status find_scaled_sum(finder *f, uint32_t n, trm_error *error) {
  const trm_instruction *i = at(f, n);
  const bool subtracts = i->opcode == TRM_OP_SUBTRACT;
  if ((i->opcode != TRM_OP_ADD && !subtracts) || !is_float(i)) return TRM_OK;
  uint32_t values[2] = {none, none};
  scalar_kind kinds[2] = {NO_SCALAR, NO_SCALAR};
  for (uint32_t k = 0; k < 2; ++k) {
    const uint32_t v = operand(f, n, k);
    if (at(f, v)->opcode != TRM_OP_MULTIPLY || !is_used_once(f, v)) continue;
    kinds[k] = scaling_of(f, v, &values[k]);
    if (trm_shape_count(&at(f, v)->shape) == 1 ||
        at(f, values[k] == none ? v : values[k])->opcode == TRM_OP_BROADCAST) {
      kinds[k] = NO_SCALAR;
    }
    /* The other side must be an array too. */
    if (at(f, operand(f, n, 1 - k))->opcode == TRM_OP_BROADCAST &&
        !(kinds[k] != NO_SCALAR && draws_truncated(f, values[k]))) {
      kinds[k] = NO_SCALAR;
    }
  }
  if (kinds[0] == NO_SCALAR && kinds[1] == NO_SCALAR) return TRM_OK;
  trm_tile_role *role = role_of(f, n);
  if (role->word != NULL || role->is_absorbed) return TRM_OK;
  const uint32_t scaled = kinds[1] != NO_SCALAR ? 1 : 0;
  const uint32_t y = values[scaled];
  role->word = "fusion";
  role->number = ARENA_NEW(f->arena, uint32_t, 1);
  CHECK_MEMORY(role->number, "a program");
  if (kinds[1 - scaled] == NO_SCALAR && at(f, y)->opcode == TRM_OP_CONVOLUTION &&
      is_used_once(f, y)) {
    role->op = at(f, y);
    role->last = "AddTo";
    role->is_shared = true;
    *role_of(f, y) = (trm_tile_role){.word = "fusion", .number = role->number};
  } else if (kinds[1 - scaled] == NO_SCALAR && subtracts && is_sum(f, y) &&
             at(f, y)->shape.rank == 1 && is_used_once(f, y)) {
    *role_of(f, y) =
        (trm_tile_role){.op = i, .word = "fusion", .number = role->number, .is_shared = true};
    if (kinds[scaled] == CONSTANT_SCALAR) role->is_absorbed = true;
    role->last = "negate/Op/Negate";
  } else if (kinds[1 - scaled] == NO_SCALAR && adds_to_zeros(f, y) && is_used_once(f, y)) {
    /* The update adds to x itself, with the scale. */
    if (kinds[scaled] == CONSTANT_SCALAR || !subtracts) role->is_absorbed = true;
    role->last = "negate/Op/Negate";
  } else {
    role->word = kinds[0] == NO_SCALAR   ? "scaled-inplace-xb-y"
                 : kinds[1] == NO_SCALAR ? "scaled-inplace-ax-y"
                                         : "scaled-inplace-axb-y";
    role->last = "AddTo";
  }
  for (uint32_t k = 0; k < 2; ++k) {
    absorb_cast(f, kinds[k] != NO_SCALAR ? values[k] : operand(f, n, k), n);
    if (kinds[k] == NO_SCALAR) continue;
    absorb_cast_of_scalar(f, operand(f, n, k), values[k]);
    take_over(f, operand(f, n, k), n);
  }
  if (f->in.user[n] != none) absorb_cast(f, f->in.user[n], n);
  return TRM_OK;
}

/* An op that divides. A later pass of the original makes the factor, so it stays a product. */
static bool is_division(const trm_instruction *i) {
  return i->metadata.op_type != NULL && strstr(i->metadata.op_type, "Div") != NULL;
}

/* Sums of squares, sums with a factor, and halves that are summed as they are. */
static void find_reductions(finder *f, uint32_t n) {
  if (!is_sum(f, n)) return;
  trm_tile_role *role = role_of(f, n);
  uint32_t x = operand(f, n, 0);
  const trm_instruction *i = at(f, n);
  const bool is_taken = role->word != NULL;
  bool squares = false, halves = i->shape.dtype == TRM_F16 || at(f, x)->shape.dtype == TRM_F16;
  if (at(f, x)->opcode == TRM_OP_CONVERT && is_used_once(f, x)) {
    const uint32_t wide = x;
    x = operand(f, x, 0);
    halves = halves || at(f, x)->shape.dtype == TRM_F16;
    if (at(f, x)->opcode == TRM_OP_MULTIPLY && is_used_once(f, x) &&
        operand(f, x, 0) == operand(f, x, 1) && at(f, x)->shape.dtype == TRM_F16) {
      role_of(f, wide)->is_absorbed = true;
    } else if (at(f, x)->shape.dtype != TRM_F16 || at(f, wide)->shape.dtype == TRM_F16) {
      x = wide;
    }
  }
  if (!is_taken && is_float(at(f, x)) && at(f, x)->opcode == TRM_OP_MULTIPLY &&
      is_used_once(f, x) && operand(f, x, 0) == operand(f, x, 1)) {
    role_of(f, x)->is_absorbed = true;
    role->word = "fusion";
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
    scaled = n; /* of two scalars either may be the factor */
  }
  if (user->opcode == TRM_OP_CONVERT && user->shape.dtype == TRM_F16 && halves) {
    role_of(f, u)->is_absorbed = true;
  } else if (!is_taken && (scaled == n || scaling_of(f, u, &scaled) != NO_SCALAR) && scaled == n &&
             !is_division(user) && !(has_type(user, "Mean") && (squares || !halves))) {
    role->word = "fusion";
    role_of(f, u)->is_absorbed = true;
  }
}

/* popnn's non-linearities and their gradients. */
static void find_nonlinearity(finder *f, uint32_t n) {
  static const struct {
    const char *type, *word;
  } gradients[] = {
      {"ReluGrad", "relu-grad"}, {"SigmoidGrad", "sigmoid-grad"}, {"TanhGrad", "tanh-grad"}};
  const trm_instruction *i = at(f, n);
  trm_tile_role *role = role_of(f, n);
  if (role->word != NULL || role->joins || role->is_absorbed) return;
  for (size_t g = 0; g < sizeof gradients / sizeof *gradients; ++g) {
    if (!has_type(i, gradients[g].type)) continue;
    role->word = gradients[g].word;
    role->last = "NonLinearityGrad";
    if (is_used_once(f, n) && f->in.user[n] != none && same_op(i, at(f, f->in.user[n]))) {
      take_over(f, n, f->in.user[n]);
      role->is_absorbed = false; /* two fusions have it: two compute sets */
    }
    return;
  }
  if (i->opcode == TRM_OP_MAXIMUM && is_float(i) &&
      (is_zero(f, operand(f, n, 0)) || is_zero(f, operand(f, n, 1)))) {
    role->word = "relu";
    role->last = "Nonlinearity";
  } else if (i->opcode == TRM_OP_LOGISTIC) {
    role->word = "sigmoid";
    role->last = "Nonlinearity";
  }
}

/* The original fuses a binary or ternary instruction with a broadcast operand; a product of
 * a value with itself is a square, a division by a constant a product. */
static void find_binary(finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  trm_tile_role *role = role_of(f, n);
  if (role->word != NULL || !trm_opcode_is_elementwise(i->opcode) || i->num_operands < 2) return;
  if (i->opcode == TRM_OP_MULTIPLY && operand(f, n, 0) == operand(f, n, 1)) {
    role->word = "square";
    role->last = "Op/Square";
    return;
  }
  const bool by_constant = i->opcode == TRM_OP_DIVIDE && is_float(i) &&
                           scalar_of(f, operand(f, n, 1)) == CONSTANT_SCALAR;
  if (by_constant) role->last = "Op/Multiply";
  if (trm_shape_is_array(&i->shape) && i->shape.rank > 0) {
    for (uint32_t k = 0; k < i->num_operands; ++k) {
      const uint32_t v = operand(f, n, k);
      const trm_instruction *o = at(f, v);
      if (o->opcode == TRM_OP_BROADCAST || o->shape.rank < i->shape.rank ||
          trm_shape_count(&o->shape) < trm_shape_count(&i->shape)) {
        role->word = "fusion";
        return;
      }
    }
  }
  if (by_constant) role->word = "multiply";
}

/* Small trees: one expression, whose compute sets are called after its last instruction. */
static bool may_be_in_expression(const finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  const trm_tile_role *role = role_of(f, n);
  if (!trm_opcode_is_elementwise(i->opcode) || !trm_shape_is_array(&i->shape) ||
      trm_shape_count(&i->shape) > EXPRESSION_ELEMENTS || i->num_control_predecessors > 0 ||
      i->opcode == TRM_OP_BITCAST_CONVERT || role->joins || role->is_absorbed) {
    return false;
  }
  const bool is_norm = role->word != NULL && strncmp(role->word, "batch-norm", 10) == 0;
  if (is_norm || role->scope != NULL) return false;
  if (role->word != NULL && !role->is_plain && strcmp(role->word, "fusion") != 0 &&
      strcmp(role->word, "square") != 0) {
    return false;
  }
  return is_used_once(f, n) && (role->op == NULL || role->is_plain);
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
  trm_tile_role *role = role_of(f, n);
  const bool belongs = has_root && role_of(f, user)->is_plain; /* readers come first */
  if (!belongs && !(has_leaf && has_scalar)) return TRM_OK;
  if (belongs) {
    role->op = role_of(f, user)->op;
    role->word = role_of(f, user)->word;
  } else {
    role->op = i;
    role->word = trm_arena_format(f->arena, "%s/expression", i->name);
    CHECK_MEMORY(role->word, "a program");
  }
  role->is_plain = true;
  return TRM_OK;
}

/* Custom calls that draw random numbers: "rng.7" of "custom-call.7". */
static trm_status find_random(finder *f, uint32_t n, trm_error *error) {
  const trm_instruction *i = at(f, n);
  if (i->call_id != TRM_CALL_RANDOM) return TRM_OK;
  trm_tile_role *role = role_of(f, n);
  if (draws_truncated(f, n)) {
    role->word = "truncated-normal";
    return TRM_OK;
  }
  /* A factor and something added, both constants, are the numbers' standard deviation and mean. */
  const uint32_t u = f->in.user[n];
  uint32_t scaled = none;
  if (u != none && is_used_once(f, n) && scaling_of(f, u, &scaled) == CONSTANT_SCALAR &&
      scaled == n && is_used_once(f, u) && f->in.user[u] != none) {
    const trm_instruction *sum = at(f, f->in.user[u]);
    const bool first = operand(f, f->in.user[u], 0) == u;
    if (sum->opcode == TRM_OP_ADD && !role_of(f, f->in.user[u])->is_absorbed &&
        scalar_of(f, operand(f, f->in.user[u], first ? 1 : 0)) == CONSTANT_SCALAR) {
      role->word = "fusion";
      role_of(f, u)->is_absorbed = true;
      *role_of(f, f->in.user[u]) = (trm_tile_role){.is_absorbed = true};
      return TRM_OK;
    }
  }
  const char *number = strchr(i->name, '.');
  role->word = trm_arena_format(f->arena, "rng%s", number == NULL ? "" : number);
  CHECK_MEMORY(role->word, "a program");
  role->is_plain = true;
  return TRM_OK;
}

/* Instructions that have one pattern to themselves. */
static void find_single(finder *f, uint32_t n) {
  const trm_instruction *i = at(f, n);
  trm_tile_role *role = role_of(f, n);
  if (role->word != NULL) return;
  switch (i->opcode) {
    case TRM_OP_DOT: role->word = "dot"; break;
    case TRM_OP_GATHER:
      role->word = "multi-slice";
      role->prefix = "output/multiSlice";
      break;
    case TRM_OP_SCATTER: role->word = "multi-update-add"; break;
    default: break;
  }
}

/* ---- All of them ---------------------------------------------------------------------------- */

static trm_status prepare(finder *f, trm_arena *scratch, trm_error *error) {
  const trm_module *module = f->in.module;
  f->roles = ARENA_NEW(f->arena, trm_tile_role *, (size_t)module->num_computations + 1);
  f->is_kernel = ARENA_NEW(scratch, bool, (size_t)f->in.count + 1);
  if (f->roles == NULL || f->is_kernel == NULL) FAIL_NO_MEMORY("a program");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    f->roles[c] =
        ARENA_NEW(f->arena, trm_tile_role, (size_t)module->computations[c].num_instructions + 1);
    CHECK_MEMORY(f->roles[c], "a program");
  }
  return TRM_OK;
}

static trm_status find_all(finder *f, trm_error *error) {
  const uint32_t count = f->in.count;
  TRY(trm_program_find_layers(f, error));
  for (uint32_t n = 0; n < count; ++n) TRY(find_random(f, n, error));
  for (uint32_t n = 0; n < count; ++n) TRY(find_scaled_sum(f, n, error));
  for (uint32_t n = 0; n < count; ++n) find_reductions(f, n);
  TRY(trm_program_find_kernels(f, error));
  TRY(trm_program_find_norms(f, error));
  for (uint32_t n = 0; n < count; ++n) {
    find_nonlinearity(f, n);
    find_single(f, n);
    find_binary(f, n);
  }
  for (uint32_t n = count; n-- > 0;) TRY(find_expression(f, n, error));
  return TRM_OK;
}

trm_status trm_program_find_roles(const trm_module *module, trm_arena *arena,
                                  trm_tile_role ***out_roles, trm_error *error) {
  trm_arena scratch = {0};
  finder f = {.arena = arena};
  trm_status status = trm_role_values_find(module, &scratch, &f.in, error);
  if (status == TRM_OK) status = prepare(&f, &scratch, error);
  if (status == TRM_OK) status = find_all(&f, error);
  *out_roles = f.roles;
  trm_arena_free(&scratch);
  return status;
}
