/* Owns: the pass multi-conv: the convolutions of one multi_conv() become one custom call of ours,
 * for an IPU, as they are one operation of poplin's there.
 *
 * Convolutions with the attribute "multi_conv" of one value, of one kind (forward, gradient of the
 * input, of the filter) and on one IPU are together, up to TRM_MULTI_CONV_MEMBERS. The call's
 * computation has a parameter for each of their operands. */
#include <string.h>

#include "hlo/marked_calls.h"
#include "ipu/tile/cost.h"
#include "passes/outline.h"
#include "passes/pass.h"

static const char key[] = "multi_conv";

typedef struct finder {
  trm_edit edit;
  trm_scopes scopes;
  uint32_t count;
  bool *is_taken, *is_reached; /* by instruction */
  trm_index *stack;
  trm_index members[TRM_MULTI_CONV_MEMBERS];
  uint32_t num_members;
} finder;

static const trm_instruction *at(const finder *f, trm_index i) { return trm_edit_at(&f->edit, i); }

/* 0: forward, 1: gradient of the input, 2: of the filter. */
static int kind_of(const trm_instruction *i) {
  const char *type = i->metadata.op_type == NULL ? "" : i->metadata.op_type;
  return strstr(type, "BackpropInput") != NULL ? 1 : strstr(type, "BackpropFilter") != NULL ? 2 : 0;
}

static bool are_together(const finder *f, trm_index a, trm_index b) {
  bool of_a, of_b;
  const trm_instruction *one = at(f, a), *other = at(f, b);
  return other->opcode == TRM_OP_CONVOLUTION && !f->is_taken[b] && kind_of(one) == kind_of(other) &&
         trm_scope_of(&f->scopes, key, one, &of_a) == trm_scope_of(&f->scopes, key, other, &of_b) &&
         of_a == of_b &&
         (one->sharding == other->sharding || (one->sharding != NULL && other->sharding != NULL &&
                                               strcmp(one->sharding, other->sharding) == 0));
}

/* Whether a member needs another one, directly or not. Instructions come after what they need. */
static bool is_circular(const finder *f) {
  memset(f->is_reached, 0, f->count * sizeof *f->is_reached);
  uint32_t depth = 0;
  for (uint32_t m = 0; m < f->num_members; ++m) f->stack[depth++] = f->members[m];
  for (uint32_t done = 0; done < depth; ++done) {
    const trm_instruction *i = at(f, f->stack[done]);
    for (uint32_t k = 0; k < i->num_operands + i->num_control_predecessors; ++k) {
      const trm_index need =
          k < i->num_operands ? i->operands[k] : i->control_predecessors[k - i->num_operands];
      if (f->is_reached[need]) continue;
      f->is_reached[need] = true;
      f->stack[depth++] = need;
    }
  }
  bool found = false;
  for (uint32_t m = 0; m < f->num_members; ++m) found |= f->is_reached[f->members[m]];
  return found;
}

static trm_status make_call(finder *f, trm_error *error) {
  trm_module *module = f->edit.module;
  const uint32_t count = f->num_members;
  trm_index operands[2 * TRM_MULTI_CONV_MEMBERS], inside[TRM_MULTI_CONV_MEMBERS];
  trm_shape shapes[TRM_MULTI_CONV_MEMBERS], shape;
  uint32_t body;
  TRY(trm_module_add_computation(module, NULL, &body, error));
  for (uint32_t m = 0; m < count; ++m) {
    trm_instruction convolution = *at(f, f->members[m]);
    trm_index own[2];
    for (uint32_t k = 0; k < 2; ++k) {
      operands[2 * m + k] = trm_edit_resolve(&f->edit, convolution.operands[k]);
      const trm_instruction parameter = {.opcode = TRM_OP_PARAMETER,
                                         .shape = at(f, operands[2 * m + k])->shape,
                                         .number = 2 * m + k};
      TRY(trm_computation_add(module, body, &parameter, &own[k], error));
    }
    shapes[m] = convolution.shape;
    convolution.operands = own;
    convolution.name = NULL;
    convolution.id = 0;
    convolution.num_control_predecessors = 0;
    TRY(trm_computation_add(module, body, &convolution, &inside[m], error));
    f->is_taken[f->members[m]] = true;
  }
  TRY(trm_outline_root(module, body, count, inside, shapes, &shape, error));
  const trm_instruction call = {.shape = shape,
                                .num_operands = 2 * count,
                                .operands = operands,
                                .num_called = 1,
                                .called = &body,
                                .sharding = at(f, f->members[0])->sharding,
                                .frontend_attributes = at(f, f->members[0])->frontend_attributes};
  return trm_outline_custom_call(&f->edit, TRM_CALL_MULTI_CONV, call, f->members, count, error);
}

static trm_status find_members(finder *f, trm_error *error) {
  for (trm_index i = 0; i < f->count; ++i) {
    bool gradient;
    if (at(f, i)->opcode != TRM_OP_CONVOLUTION || f->is_taken[i] ||
        trm_scope_of(&f->scopes, key, at(f, i), &gradient) == TRM_NO_INDEX) {
      continue;
    }
    f->num_members = 0;
    for (trm_index k = i; k < f->count && f->num_members < TRM_MULTI_CONV_MEMBERS; ++k) {
      if (are_together(f, i, k)) f->members[f->num_members++] = k;
    }
    if (f->num_members > 1 && !is_circular(f)) TRY(make_call(f, error));
  }
  return TRM_OK;
}

static trm_status edit_computation(trm_module *module, uint32_t computation, const void *scopes,
                                   trm_error *error) {
  finder f = {.scopes = *(const trm_scopes *)scopes};
  TRY(trm_edit_begin(&f.edit, module, computation, error));
  f.count = trm_edit_computation(&f.edit)->num_instructions;
  f.is_taken = trm_allocate_zeroed(2 * (size_t)f.count + 1, sizeof *f.is_taken);
  f.stack = trm_allocate(((size_t)f.count + TRM_MULTI_CONV_MEMBERS) * sizeof *f.stack);
  trm_status status = TRM_OK;
  if (f.is_taken == NULL || f.stack == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for multi_conv");
  } else {
    f.is_reached = f.is_taken + f.count;
    status = find_members(&f, error);
  }
  trm_free(f.is_taken);
  trm_free(f.stack);
  return trm_edit_end(&f.edit, status, error);
}

trm_status trm_pass_multi_conv(trm_module *module, trm_error *error) {
  trm_scopes scopes;
  TRY(trm_scopes_find(module, key, &scopes, error));
  trm_status status = TRM_OK;
  if (scopes.count > 0) status = trm_edit_each_running(module, edit_computation, &scopes, error);
  VECTOR_FREE(&scopes);
  return status;
}
