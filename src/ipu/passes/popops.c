/* Owns: the pass popops-functions: elementwise instructions that together are one function of
 * popops become one instruction, for an IPU.
 *
 *   erf       TensorFlow's bridge writes the op Erf as a polynomial
 *   gelu-erf  x / 2 (1 + erf(x / sqrt(2))), where nothing else reads a value on the way
 *   marked    what Python builds as one function of popnn, with the attribute TRM_FUNCTION: gelu,
 *             swish and their gradients
 *
 * HLO has no opcodes for the last two. As the module is only planned, the instruction is an erf, or
 * of two operands a product, with the attribute TRM_FUNCTION.
 *
 * The original has instructions of its own for these. A sum with 0 goes, as in XLA's simplifier;
 * for the host it stays, because -0.0 + 0.0 is 0.0. */
#include <math.h>
#include <string.h>

#include "hlo/library_call.h"
#include "ipu/costs/codelets.h"
#include "passes/edit.h"
#include "passes/pass.h"

typedef struct finder {
  const uint32_t *uses;   /* by instruction, as it was before the edit */
  const uint32_t *inside; /* those of the same op Erf, or marked function */
} finder;

/* ---- erf ------------------------------------------------------------------------------------ */

enum { MOST_PARTS = 64 }; /* of an op Erf; the bridge writes about 30 */

static bool are_of_one_erf(const trm_instruction *a, const trm_instruction *b) {
  const trm_metadata *of_a = &a->metadata, *of_b = &b->metadata;
  return of_a->op_type != NULL && strcmp(of_a->op_type, "Erf") == 0 && of_a->op_name != NULL &&
         of_b->op_name != NULL && strcmp(of_a->op_name, of_b->op_name) == 0;
}

/* The one array that an op Erf with the result i computes with; TRM_NO_INDEX: not one, or others
 * read a value on the way. */
static trm_index argument_of_erf(const trm_edit *e, const finder *f, trm_index i) {
  const trm_instruction *root = trm_edit_at(e, i);
  trm_index parts[MOST_PARTS] = {i}, argument = TRM_NO_INDEX;
  uint32_t count = 1;
  for (uint32_t p = 0; p < count; ++p) {
    const trm_instruction *part = trm_edit_at(e, parts[p]);
    if (!trm_opcode_is_elementwise(part->opcode)) return TRM_NO_INDEX;
    for (uint32_t k = 0; k < part->num_operands; ++k) {
      const trm_index operand = part->operands[k];
      double number;
      bool is_known = trm_edit_number(e, operand, &number);
      if (!is_known && !are_of_one_erf(root, trm_edit_at(e, operand))) {
        if (argument != TRM_NO_INDEX && argument != operand) return TRM_NO_INDEX;
        argument = operand;
        is_known = true;
      }
      for (uint32_t q = 0; q < count && !is_known; ++q) is_known = parts[q] == operand;
      if (is_known) continue;
      if (count == MOST_PARTS || f->uses[operand] != f->inside[operand]) return TRM_NO_INDEX;
      parts[count++] = operand;
    }
  }
  return count > 1 ? argument : TRM_NO_INDEX;
}

static trm_status make_erf(trm_edit *e, trm_index i, void *state, trm_error *error) {
  const finder *f = state;
  const trm_instruction *root = trm_edit_at(e, i);
  if (!are_of_one_erf(root, root) || f->inside[i] != 0) return TRM_OK;
  const trm_index argument = argument_of_erf(e, f, i);
  if (argument == TRM_NO_INDEX ||
      !trm_shape_same_dims(&trm_edit_at(e, argument)->shape, &root->shape)) {
    return TRM_OK;
  }
  trm_index erf;
  trm_instruction prototype = *root;
  prototype.opcode = TRM_OP_ERF;
  prototype.num_operands = 1;
  prototype.operands = (trm_index[]){trm_edit_resolve(e, argument)};
  TRY(trm_edit_add(e, i, prototype, &erf, error));
  trm_edit_replace(e, i, erf);
  return TRM_OK;
}

/* ---- gelu ----------------------------------------------------------------------------------- */

enum { MOST_FACTORS = 8 };

/* A product: a number times arrays. */
typedef struct product {
  double number;
  trm_index arrays[MOST_FACTORS];
  uint32_t count;
} product;

/* Whether i is read once, so that it may become part of its reader. */
static bool is_part(const finder *f, trm_index i) { return f->uses[i] == 1; }

/* The factors of i, which are at most two arrays. */
static bool find_factors(const trm_edit *e, const finder *f, trm_index i, product *out) {
  trm_index stack[MOST_FACTORS] = {i};
  uint32_t count = 1;
  *out = (product){.number = 1};
  while (count > 0) {
    const trm_index n = stack[--count];
    const trm_instruction *factor = trm_edit_at(e, n);
    double number;
    if (trm_edit_number(e, n, &number)) {
      out->number *= number;
    } else if (factor->opcode == TRM_OP_MULTIPLY && (n == i || is_part(f, n))) {
      if (count + 2 > MOST_FACTORS) return false;
      stack[count++] = factor->operands[0];
      stack[count++] = factor->operands[1];
    } else if (factor->opcode == TRM_OP_DIVIDE && (n == i || is_part(f, n)) &&
               trm_edit_number(e, factor->operands[1], &number)) {
      out->number /= number;
      stack[count++] = factor->operands[0];
    } else {
      if (out->count == 2) return false;
      out->arrays[out->count++] = n;
    }
  }
  return true;
}

static bool is_near(double a, double b) { return fabs(a - b) < 1e-3; }

/* Whether i is 1 + erf(x / sqrt(2)). */
static bool is_one_and_erf(const trm_edit *e, const finder *f, trm_index i, trm_index x) {
  const trm_instruction *sum = trm_edit_at(e, i);
  if (sum->opcode != TRM_OP_ADD || !is_part(f, i)) return false;
  const bool is_first = trm_edit_is_constant(e, sum->operands[0], 1);
  const trm_index erf = sum->operands[is_first ? 1 : 0];
  product inside;
  return (is_first || trm_edit_is_constant(e, sum->operands[1], 1)) &&
         trm_edit_at(e, erf)->opcode == TRM_OP_ERF && is_part(f, erf) &&
         is_part(f, trm_edit_at(e, erf)->operands[0]) &&
         find_factors(e, f, trm_edit_at(e, erf)->operands[0], &inside) && inside.count == 1 &&
         inside.arrays[0] == x && is_near(inside.number, sqrt(0.5));
}

/* The attributes of an instruction, and TRM_FUNCTION. */
static trm_status mark_gelu(trm_edit *e, trm_instruction *gelu, trm_error *error) {
  const char *const *old = gelu->frontend_attributes;
  uint32_t count = 0;
  while (old != NULL && old[count] != NULL) ++count;
  const char **all = ARENA_NEW(&e->module->arena, const char *, (size_t)count + 3);
  CHECK_MEMORY(all, "attributes");
  for (uint32_t k = 0; k < count; ++k) all[k] = old[k];
  all[count] = TRM_FUNCTION;
  all[count + 1] = TRM_GELU_ERF;
  gelu->frontend_attributes = all;
  return TRM_OK;
}

static trm_status make_gelu(trm_edit *e, trm_index i, void *state, trm_error *error) {
  const finder *f = state;
  product all;
  if (trm_edit_at(e, i)->opcode != TRM_OP_MULTIPLY && trm_edit_at(e, i)->opcode != TRM_OP_DIVIDE) {
    return TRM_OK;
  }
  if (!find_factors(e, f, i, &all) || all.count != 2 || !is_near(all.number, 0.5)) return TRM_OK;
  const uint32_t k = is_one_and_erf(e, f, all.arrays[0], all.arrays[1])   ? 1
                     : is_one_and_erf(e, f, all.arrays[1], all.arrays[0]) ? 0
                                                                          : 2;
  if (k == 2) return TRM_OK;
  const trm_instruction *root = trm_edit_at(e, i);
  trm_index gelu;
  trm_instruction prototype = *root;
  prototype.opcode = TRM_OP_ERF;
  prototype.num_operands = 1;
  prototype.operands = (trm_index[]){trm_edit_resolve(e, all.arrays[k])};
  TRY(mark_gelu(e, &prototype, error));
  TRY(trm_edit_add(e, i, prototype, &gelu, error));
  trm_edit_replace(e, i, gelu);
  return TRM_OK;
}

/* ---- Marked functions ------------------------------------------------------------------------ */

static const char *function_of(const trm_instruction *i) {
  return trm_instruction_frontend_attribute(i, TRM_FUNCTION);
}

/* Whether b may be a part of the function that a belongs to: of the same one, or of the one whose
 * gradient a belongs to, with which it shares parts. */
static bool are_of_function(const trm_instruction *a, const trm_instruction *b) {
  const char *of_a = function_of(a), *of_b = function_of(b);
  if (of_a == NULL || of_b == NULL) return false;
  const size_t length = strlen(of_b);
  if (strncmp(of_a, of_b, length) == 0 && strcmp(of_a + length, "-grad") == 0) return true;
  const char *scope_a = trm_instruction_frontend_attribute(a, TRM_SCOPE);
  const char *scope_b = trm_instruction_frontend_attribute(b, TRM_SCOPE);
  return scope_a != NULL && scope_b != NULL && strcmp(scope_a, scope_b) == 0;
}

/* The arrays that the marked function with the result i reads. The parts may have other readers.
 * Returns their number; 0: it is none. */
static uint32_t arguments_of_function(const trm_edit *e, trm_index i, trm_index arguments[2]) {
  trm_index parts[MOST_PARTS] = {i};
  uint32_t count = 1, found = 0;
  for (uint32_t p = 0; p < count; ++p) {
    const trm_instruction *part = trm_edit_at(e, parts[p]);
    if (!trm_opcode_is_elementwise(part->opcode)) return 0;
    for (uint32_t k = 0; k < part->num_operands; ++k) {
      trm_index operand = part->operands[k];
      double number;
      bool is_known = trm_edit_number(e, operand, &number);
      const bool is_part = are_of_function(trm_edit_at(e, i), trm_edit_at(e, operand)) &&
                           trm_edit_resolve(e, operand) == operand;
      if (!is_known && !is_part) {
        const trm_instruction *o = trm_edit_at(e, operand);
        if (o->opcode == TRM_OP_CONVERT) operand = o->operands[0];
        for (uint32_t a = 0; a < found; ++a) is_known |= arguments[a] == operand;
        if (is_known) continue;
        if (found == 2) return 0;
        arguments[found++] = operand;
        is_known = true;
      }
      for (uint32_t q = 0; q < count && !is_known; ++q) is_known = parts[q] == operand;
      if (is_known) continue;
      if (count == MOST_PARTS) return 0;
      parts[count++] = operand;
    }
  }
  return count > 2 ? found : 0; /* a cast is shared with others, too */
}

/* An instruction that something outside of its marked function reads is the function's result. */
static trm_status make_function(trm_edit *e, trm_index i, void *state, trm_error *error) {
  const finder *f = state;
  if (function_of(trm_edit_at(e, i)) == NULL || f->uses[i] == f->inside[i]) return TRM_OK;
  trm_index arguments[2];
  const uint32_t count = arguments_of_function(e, i, arguments);
  const trm_shape *shape = &trm_edit_at(e, i)->shape;
  for (uint32_t a = 0; a < count; ++a) {
    if (!trm_shape_same_dims(&trm_edit_at(e, arguments[a])->shape, shape)) return TRM_OK;
    arguments[a] = trm_edit_resolve(e, arguments[a]);
  }
  if (count == 0) return TRM_OK;
  trm_index made;
  trm_instruction prototype = *trm_edit_at(e, i);
  prototype.opcode = count == 1 ? TRM_OP_ERF : TRM_OP_MULTIPLY;
  prototype.num_operands = count;
  prototype.operands = arguments;
  TRY(trm_edit_add(e, i, prototype, &made, error));
  trm_edit_replace(e, i, made);
  return TRM_OK;
}

/* ---- Sums with zero ------------------------------------------------------------------------- */

static trm_status drop_zero(trm_edit *e, trm_index i, void *state, trm_error *error) {
  (void)state, (void)error;
  if (trm_edit_at(e, i)->opcode != TRM_OP_ADD || trm_edit_at(e, i)->num_control_predecessors > 0) {
    return TRM_OK;
  }
  const trm_index left = trm_edit_operand(e, i, 0), right = trm_edit_operand(e, i, 1);
  if (trm_edit_is_constant(e, right, 0)) trm_edit_replace(e, i, left);
  else if (trm_edit_is_constant(e, left, 0)) trm_edit_replace(e, i, right);
  return TRM_OK;
}

/* ---- All ------------------------------------------------------------------------------------ */

/* `is_inside`: whether the first, which reads the second, is a part of what it computes. */
static trm_status edit_computation(trm_module *module, uint32_t index, trm_rewrite rewrite,
                                   bool (*is_inside)(const trm_instruction *,
                                                     const trm_instruction *),
                                   trm_error *error) {
  const trm_computation *computation = &module->computations[index];
  const size_t count = computation->num_instructions;
  uint32_t *uses = trm_allocate_zeroed(2 * count + 1, sizeof *uses);
  CHECK_MEMORY(uses, "functions of popops");
  uint32_t *inside = uses + count;
  ++uses[computation->root];
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_index operand = instruction->operands[k];
      ++uses[operand];
      inside[operand] += is_inside(instruction, &computation->instructions[operand]);
    }
    for (uint32_t k = 0; k < instruction->num_control_predecessors; ++k) {
      ++uses[instruction->control_predecessors[k]];
    }
  }
  finder f = {.uses = uses, .inside = inside};
  const trm_status status = trm_edit_instructions(module, index, rewrite, &f, error);
  trm_free(uses);
  return status;
}

trm_status trm_pass_popops_functions(trm_module *module, trm_error *error) {
  const uint32_t count = module->num_computations;
  for (uint32_t c = 0; c < count; ++c) {
    TRY(trm_edit_instructions(module, c, drop_zero, NULL, error));
    TRY(edit_computation(module, c, make_erf, are_of_one_erf, error));
    TRY(edit_computation(module, c, make_gelu, are_of_one_erf, error));
    TRY(edit_computation(module, c, make_function, are_of_function, error));
  }
  return TRM_OK;
}
