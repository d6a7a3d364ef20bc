/* Owns: elementwise expressions of popops (map and all that are made of it) as HLO. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/hlo.h"
#include "poplar/step.h"
#include "tremula/builder.h"

enum { MAX_NODES = 4096 };

/* What a node gives. A number takes its type from what is beside it. */
typedef struct term {
  trm_value value;
  int32_t dtype; /* TRM_INVALID_TYPE: of a number */
  bool is_constant;
  double number;
} term;

typedef struct expression {
  trm_builder *builder;
  const trm_poplar_node *nodes;
  term *terms;
  trm_value *parameters;
  const trm_poplar_tensor *const *tensors;
  uint64_t num_tensors;
  int32_t rank;
  int64_t dims[TRM_MAX_RANK]; /* of the result */
} expression;

static const char *const unary_opcodes[] = {
#define POPLAR_UNARY(ID, Class, function, opcode) opcode,
#include "tremula/poplar_op.def"
};
static const char *const binary_opcodes[] = {
#define POPLAR_BINARY(ID, Class, function, opcode) opcode,
#include "tremula/poplar_op.def"
};

/* ---- Leaves --------------------------------------------------------------------------------- */

static trm_axes dims_of(const expression *e) { return (trm_axes){e->dims, e->rank}; }

static trm_value scalar(expression *e, int32_t dtype, double number) {
  const trm_value one = trm_build_scalar(e->builder, (trm_dtype)dtype, number);
  return trm_build_broadcast(e->builder, one, dims_of(e), (trm_axes){NULL, 0});
}

/* The tensor's parameter, as large as the result. */
static trm_value expand(expression *e, uint64_t number) {
  const trm_poplar_tensor *tensor = e->tensors[number];
  const uint32_t skipped = (uint32_t)e->rank - tensor->rank;
  int64_t axes[TRM_MAX_RANK], kept[TRM_MAX_RANK];
  int32_t count = 0;
  for (uint32_t d = 0; d < tensor->rank; ++d) {
    const bool is_same = (int64_t)tensor->dims[d] == e->dims[d + skipped];
    if (!is_same) continue; /* of size 1 */
    axes[count] = d + skipped;
    kept[count++] = (int64_t)tensor->dims[d];
  }
  if (count == e->rank) return e->parameters[number];
  const trm_value squeezed =
      trm_build_reshape(e->builder, e->parameters[number], (trm_axes){kept, count});
  return trm_build_broadcast(e->builder, squeezed, dims_of(e), (trm_axes){axes, count});
}

/* Gives a number the type. */
static trm_value of_type(expression *e, const term *t, int32_t dtype) {
  return t->dtype == TRM_INVALID_TYPE ? scalar(e, dtype, t->number) : t->value;
}

/* ---- Inner nodes ---------------------------------------------------------------------------- */

/* Makes two operands one type. A constant follows what is computed. */
static trm_status agree(expression *e, term *a, term *b, trm_poplar_error *error) {
  if (a->dtype == TRM_INVALID_TYPE && b->dtype == TRM_INVALID_TYPE) a->dtype = TRM_F32;
  if (a->dtype == TRM_INVALID_TYPE || (a->is_constant && !b->is_constant)) {
    term *other = a;
    a = b;
    b = other;
  }
  if (b->dtype == TRM_INVALID_TYPE || (b->is_constant && b->dtype != a->dtype)) {
    b->value = scalar(e, a->dtype, b->number);
    b->dtype = a->dtype;
  }
  if (a->dtype != b->dtype) {
    THROW(LIBRARY, "operands of an elementwise expression are of types %s and %s: cast one",
          trm_dtype_name((trm_dtype)a->dtype), trm_dtype_name((trm_dtype)b->dtype));
  }
  return TRM_OK;
}

/* Computes a formula of the table, whose operands x and y lie on the stack at first. */
static trm_value compute(expression *e, const char *formula, const term *x, const term *y) {
  trm_value stack[8] = {x->value};
  int depth = 1, used;
  if (y != NULL) stack[depth++] = y->value;
  char word[64];
  for (; sscanf(formula, "%63s%n", word, &used) == 1; formula += used) {
    bool is_unary = false;
    for (uint32_t op = 0; op < TRM_POPLAR_NUM_UNARY; ++op) {
      is_unary = is_unary || strcmp(unary_opcodes[op], word) == 0;
    }
    trm_value *top = &stack[depth - 1];
    if (is_unary) *top = trm_build_unary(e->builder, word, *top);
    else if (strcmp(word, "x") == 0) stack[depth++] = x->value;
    else if (isdigit((unsigned char)word[0]))
      stack[depth++] = scalar(e, x->dtype, (double)strtol(word, NULL, 10));
    else if (strcmp(word, "inf") == 0) stack[depth++] = scalar(e, x->dtype, (double)INFINITY);
    else if (strcmp(word, "sqrt_half") == 0) stack[depth++] = scalar(e, x->dtype, sqrt(0.5));
    else if (isupper((unsigned char)word[0]))
      stack[--depth - 1] = trm_build_compare(e->builder, word, top[-1], *top);
    else stack[--depth - 1] = trm_build_binary(e->builder, word, top[-1], *top);
  }
  return stack[depth - 1];
}

static trm_status unary(expression *e, uint32_t op, term *x, term *out, trm_poplar_error *error) {
  if (op >= TRM_POPLAR_NUM_UNARY) THROW_POPLAR("the unary operation %u is not known", op);
  if (x->dtype == TRM_INVALID_TYPE) {
    x->value = of_type(e, x, TRM_F32);
    x->dtype = TRM_F32;
  }
  out->value = compute(e, unary_opcodes[op], x, NULL);
  const bool asks = op == TRM_POPLAR_UNARY_IS_FINITE || op == TRM_POPLAR_UNARY_IS_INF ||
                    op == TRM_POPLAR_UNARY_IS_NAN;
  out->dtype = asks ? TRM_PRED : x->dtype;
  return TRM_OK;
}

static trm_status binary(expression *e, uint32_t op, term *x, term *y, term *out,
                         trm_poplar_error *error) {
  if (op >= TRM_POPLAR_NUM_BINARY) THROW_POPLAR("the binary operation %u is not known", op);
  TRY(agree(e, x, y, error));
  out->value = compute(e, binary_opcodes[op], x, y);
  out->dtype = isupper((unsigned char)binary_opcodes[op][0]) ? TRM_PRED : x->dtype;
  return TRM_OK;
}

static trm_status ternary(expression *e, uint32_t op, term *x, term *y, term *z, term *out,
                          trm_poplar_error *error) {
  TRY(agree(e, x, y, error));
  if (op == TRM_POPLAR_TERNARY_CLAMP) {
    TRY(agree(e, x, z, error));
    out->value = trm_build_clamp(e->builder, y->value, x->value, z->value);
  } else if (op == TRM_POPLAR_TERNARY_SELECT) {
    const trm_value predicate = of_type(e, z, TRM_PRED);
    out->value = trm_build_select(e->builder, predicate, x->value, y->value);
  } else {
    THROW_POPLAR("the ternary operation %u is not known", op);
  }
  out->dtype = x->dtype;
  return TRM_OK;
}

static uint32_t operands_of(uint32_t kind) {
  return kind == TRM_POPLAR_NODE_UNARY || kind == TRM_POPLAR_NODE_CAST ? 1
         : kind == TRM_POPLAR_NODE_BINARY                              ? 2
         : kind == TRM_POPLAR_NODE_TERNARY                             ? 3
                                                                       : 0;
}

static trm_status node(expression *e, uint64_t n, trm_poplar_error *error) {
  const trm_poplar_node *given = &e->nodes[n];
  term *out = &e->terms[n], t[3] = {0};
  const uint32_t count = operands_of(given->kind);
  for (uint32_t i = 0; i < count; ++i) {
    if (given->operands[i] >= n) THROW_POPLAR("an expression's operand does not come before it");
    t[i] = e->terms[given->operands[i]];
  }
  switch ((trm_poplar_node_kind)given->kind) {
    case TRM_POPLAR_NODE_PLACEHOLDER:
      if (given->value.index >= e->num_tensors) {
        THROW_POPLAR("an expression with the placeholder _%llu of %llu tensors",
                     (unsigned long long)given->value.index + 1,
                     (unsigned long long)e->num_tensors);
      }
      out->value = expand(e, given->value.index);
      out->dtype = e->tensors[given->value.index]->dtype;
      return TRM_OK;
    case TRM_POPLAR_NODE_CONST:
    case TRM_POPLAR_NODE_NUMBER:
      out->is_constant = true;
      out->number = given->kind == TRM_POPLAR_NODE_NUMBER ||
                            trm_dtype_kind((trm_dtype)given->dtype) == TRM_KIND_FLOAT
                        ? given->value.real
                        : (double)given->value.integer;
      out->dtype = given->kind == TRM_POPLAR_NODE_CONST ? given->dtype : TRM_INVALID_TYPE;
      if (out->dtype != TRM_INVALID_TYPE) out->value = scalar(e, out->dtype, out->number);
      return TRM_OK;
    case TRM_POPLAR_NODE_UNARY: return unary(e, given->op, &t[0], out, error);
    case TRM_POPLAR_NODE_BINARY: return binary(e, given->op, &t[0], &t[1], out, error);
    case TRM_POPLAR_NODE_TERNARY: return ternary(e, given->op, &t[0], &t[1], &t[2], out, error);
    case TRM_POPLAR_NODE_CAST:
      out->value = t[0].dtype == TRM_INVALID_TYPE
                       ? scalar(e, given->dtype, t[0].number)
                       : trm_build_convert(e->builder, t[0].value, (trm_dtype)given->dtype);
      out->dtype = given->dtype;
      return TRM_OK;
  }
  THROW_POPLAR("an expression has a node of the unknown kind %u", given->kind);
}

/* ---- Shapes --------------------------------------------------------------------------------- */

/* Broadcasts another shape into the result's. */
static trm_status join(expression *e, const uint64_t *dims, uint32_t rank,
                       trm_poplar_error *error) {
  while (e->rank < (int32_t)rank) {
    memmove(e->dims + 1, e->dims, (size_t)e->rank * sizeof *e->dims);
    e->dims[0] = 1;
    ++e->rank;
  }
  for (uint32_t d = 0; d < rank; ++d) {
    int64_t *size = &e->dims[(uint32_t)e->rank - rank + d];
    if (*size == 1) *size = (int64_t)dims[d];
    if (dims[d] != 1 && (int64_t)dims[d] != *size) {
      THROW(LIBRARY, "an elementwise operand of shape %s cannot be broadcast to the others",
            DIMS_TEXT(dims, rank));
    }
  }
  return TRM_OK;
}

static trm_status shape_of(expression *e, const trm_poplar_tensor *result,
                           trm_poplar_error *error) {
  for (uint64_t t = 0; t < e->num_tensors; ++t) {
    if (e->tensors[t] == NULL) THROW_POPLAR("a null tensor in an elementwise expression");
    TRY(join(e, e->tensors[t]->dims, e->tensors[t]->rank, error));
  }
  if (result != NULL && e->num_tensors == 0) return join(e, result->dims, result->rank, error);
  bool fits = result == NULL || (int32_t)result->rank == e->rank;
  for (int32_t d = 0; result != NULL && fits && d < e->rank; ++d) {
    fits = (int64_t)result->dims[d] == e->dims[d];
  }
  if (!fits) {
    THROW(LIBRARY, "the result of an elementwise expression does not have the shape %s",
          SHAPE_TEXT(result));
  }
  return TRM_OK;
}

/* A variable for the result, on the tiles of the first operand of its shape. */
static trm_status make_result(trm_poplar_graph *graph, const expression *e, int32_t dtype,
                              const char *name, trm_poplar_tensor **out_tensor,
                              trm_poplar_error *error) {
  uint64_t dims[TRM_MAX_RANK], elements = 1;
  for (int32_t d = 0; d < e->rank; ++d) elements *= dims[d] = (uint64_t)e->dims[d];
  for (uint64_t t = 0; t < e->num_tensors; ++t) {
    if ((int32_t)e->tensors[t]->rank == e->rank && e->tensors[t]->elements == elements) {
      return trm_poplar_clone(graph, dtype, e->tensors[t], name, out_tensor, error);
    }
  }
  return trm_poplar_add_variable(graph, dtype, dims, (uint32_t)e->rank, TRM_POPLAR_PLACE_LINEAR,
                                 name, out_tensor, error);
}

/* ---- Making --------------------------------------------------------------------------------- */

/* Adds the nodes, and makes the step of the last. */
static trm_status build(trm_poplar_graph *graph, expression *e, uint64_t num_nodes,
                        trm_poplar_program **sequence, const char *name, trm_poplar_tensor **tensor,
                        trm_poplar_error *error) {
  for (uint64_t t = 0; t < e->num_tensors; ++t) {
    e->parameters[t] = trm_poplar_parameter(e->builder, (int64_t)t, e->tensors[t]);
  }
  for (uint64_t n = 0; n < num_nodes; ++n) TRY(node(e, n, error));
  const term *root = &e->terms[num_nodes - 1];
  trm_poplar_tensor *result = *tensor;
  const int32_t wanted = result != NULL ? (int32_t)result->dtype : TRM_F32;
  const trm_value value = of_type(e, root, wanted);
  const int32_t dtype = root->dtype == TRM_INVALID_TYPE ? wanted : root->dtype;
  if (result != NULL && dtype != (int32_t)result->dtype) {
    THROW(LIBRARY, "an elementwise expression of type %s has its result in a tensor of %s",
          trm_dtype_name((trm_dtype)dtype), trm_dtype_name(result->dtype));
  }
  if (result == NULL) TRY(make_result(graph, e, dtype, name, &result, error));
  trm_builder *builder = e->builder;
  e->builder = NULL;
  const trm_status status = trm_poplar_step_finish(
      graph, builder, value, e->tensors, (uint32_t)e->num_tensors, &result, name, sequence, error);
  if (status != TRM_OK && *tensor == NULL) trm_poplar_tensor_release(result);
  TRY(status);
  *tensor = result;
  return TRM_OK;
}

int32_t trm_poplar_step_map(trm_poplar_graph *graph, const trm_poplar_node *nodes,
                            uint64_t num_nodes, const trm_poplar_tensor *const *tensors,
                            uint64_t num_tensors, trm_poplar_program **sequence, const char *name,
                            trm_poplar_tensor **tensor, trm_poplar_error *error) {
  if (num_nodes == 0 || num_nodes > MAX_NODES || num_tensors > MAX_NODES) {
    THROW_POPLAR("an expression has 1 to %d nodes", MAX_NODES);
  }
  expression e = {.nodes = nodes, .tensors = tensors, .num_tensors = num_tensors};
  TRY(shape_of(&e, *tensor, error));
  if (*tensor != NULL) TRY(trm_poplar_check_written(graph, *tensor, "an elementwise step", error));
  TRY(trm_poplar_step_begin("popops.map", &e.builder, error));
  e.terms = trm_allocate_zeroed((size_t)num_nodes, sizeof *e.terms);
  e.parameters = trm_allocate_zeroed((size_t)num_tensors + 1, sizeof *e.parameters);
  const trm_status status = e.terms == NULL || e.parameters == NULL
                                ? NO_MEMORY("an expression")
                                : build(graph, &e, num_nodes, sequence, name, tensor, error);
  trm_builder_free(e.builder);
  trm_free(e.terms);
  trm_free(e.parameters);
  return status;
}
