/* Owns: the instruction information of a compilation's events: {"ml_types": {NAME: NUMBER}}, the
 * part of training or inference of each convolution and matrix product, as the original numbers
 * them.
 *
 * The original compares operands. Of products with the same first operand, those that look like the
 * gradient of weights are weight updates, and the others are the forward pass. Of the rest, a
 * product with the second operand of a forward product is the backward pass, and any other is
 * inference. An ML_TYPE that the program sets wins. The gradient with respect to a convolution's
 * operand is two instructions of the forward pass where it can use the forward convolution with a
 * reversed kernel: one without groups. That of a multi_conv() with groups has a kernel of its own,
 * so it looks like inference. A forward pass that a pipeline recomputes counts twice: that of all
 * stages but the last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/marked_calls.h"
#include "ipu/passes/values.h"
#include "report/describe.h"

typedef enum ml_type { NONE, INFERENCE_FWD, TRAINING_FWD, TRAINING_BWD, TRAINING_WU } ml_type;

/* A convolution or a matrix product. */
typedef struct product {
  uint32_t n; /* its number; the numbers of its operands' sources */
  uint32_t first, second;
  bool is_update;   /* looks like the gradient of weights */
  bool is_reversed; /* a convolution with a reversed kernel, without groups of channels */
  bool is_strided;
  uint32_t multi_conv; /* the number of its scope, or TRM_NO_INDEX */
  bool is_gradient;
  bool is_grouped;
  ml_type type;
} product;

typedef VECTOR(product) product_list;

typedef struct finder {
  const trm_values *values;
  uint32_t *loops; /* by computation: the loop that calls it, or TRM_NO_INDEX */
} finder;

static bool swaps_two(const trm_instruction *i, const trm_instruction *from) {
  if (i->opcode == TRM_OP_TRANSPOSE) return true;
  return i->opcode == TRM_OP_RESHAPE && i->shape.rank == 2 && from->shape.rank == 2 &&
         i->shape.dims[0] == from->shape.dims[1] && i->shape.dims[1] == from->shape.dims[0];
}

/* The initial value of element `number` of a loop's state, for an instruction `v` of its body; `v`
 * itself where that is unknown. */
static uint32_t before_loop(const finder *f, uint32_t v, int64_t number) {
  const trm_values *values = f->values;
  const uint32_t loop = f->loops[values->computation[v]];
  if (loop == TRM_NO_INDEX) return v;
  const uint32_t start = trm_values_operand(values, loop, 0);
  const trm_instruction *tuple = trm_values_at(values, start);
  return tuple->opcode == TRM_OP_TUPLE && number >= 0 && number < (int64_t)tuple->num_operands
             ? trm_values_operand(values, start, (uint32_t)number)
             : v;
}

/* The value behind operand k without transposes, padding, slices and entries into loops. */
static uint32_t source_of(const finder *f, uint32_t n, uint32_t k) {
  uint32_t v = trm_values_operand(f->values, n, k);
  for (;;) {
    const trm_instruction *i = trm_values_at(f->values, v);
    uint32_t next = v;
    switch (i->opcode) {
      case TRM_OP_TRANSPOSE:
      case TRM_OP_REVERSE:
      case TRM_OP_PAD:
      case TRM_OP_SLICE: next = trm_values_operand(f->values, v, 0); break;
      case TRM_OP_GET_TUPLE_ELEMENT:
        if (trm_values_at(f->values, trm_values_operand(f->values, v, 0))->opcode ==
            TRM_OP_PARAMETER) {
          next = before_loop(f, v, i->number);
        }
        break;
      default: break;
    }
    if (next == v) return v;
    v = next;
  }
}

/* TensorFlow's gradients contain products with zeros, which the original drops. */
static bool is_zeros(const trm_values *values, uint32_t v) {
  const trm_instruction *i = trm_values_at(values, v);
  if (i->opcode != TRM_OP_BROADCAST) return false;
  i = trm_values_at(values, trm_values_operand(values, v, 0));
  const double zero = 0;
  return i->opcode == TRM_OP_CONSTANT && i->literal != NULL &&
         trm_shape_bytes(&i->shape) <= sizeof zero &&
         memcmp(i->literal->leaves[0], &zero, trm_shape_bytes(&i->shape)) == 0;
}

static bool type_contains(const trm_instruction *i, const char *word) {
  return i->metadata.op_type != NULL && strstr(i->metadata.op_type, word) != NULL;
}

static bool is_update(const trm_values *values, uint32_t n) {
  const trm_instruction *i = trm_values_at(values, n);
  if (i->opcode == TRM_OP_CONVOLUTION) {
    return i->convolution->input_batch != 0 || type_contains(i, "BackpropFilter");
  }
  const trm_computation *computation = &values->module->computations[values->computation[n]];
  const trm_instruction *left = &computation->instructions[i->operands[0]];
  const trm_dims *contracting = &i->dot->lhs_contracting;
  if (left->num_operands > 0 && swaps_two(left, &computation->instructions[left->operands[0]])) {
    return true;
  }
  if (contracting->count == 0) return true; /* the outer product of two vectors */
  return contracting->count == 1 && contracting->items[0] != left->shape.rank - 1;
}

static void look_at_convolution(const trm_values *values, product *p) {
  const trm_instruction *i = trm_values_at(values, p->n);
  p->is_reversed = type_contains(i, "BackpropInput");
  p->is_reversed |=
      trm_values_at(values, trm_values_operand(values, p->n, 1))->opcode == TRM_OP_REVERSE;
  for (int32_t d = 0; i->window != NULL && d < i->window->rank; ++d) {
    p->is_reversed |= i->window->dims[d].reversal;
    p->is_strided |= i->window->dims[d].stride != 1;
  }
  p->is_grouped = i->convolution->feature_group_count > 1;
  p->is_reversed &= !p->is_grouped;
}

/* Whether the list has an earlier product of the same multi_conv(), which counts once. */
static bool is_counted(const product_list *list, const product *p) {
  if (p->multi_conv == TRM_NO_INDEX) return false;
  for (const product *known = list->items; known < p; ++known) {
    if (known->multi_conv == p->multi_conv && known->is_gradient == p->is_gradient &&
        known->is_update == p->is_update) {
      return true;
    }
  }
  return false;
}

static trm_status find_loops(finder *f, trm_arena *arena, trm_error *error) {
  const trm_values *values = f->values;
  f->loops = ARENA_NEW(arena, uint32_t, (size_t)values->module->num_computations + 1);
  CHECK_MEMORY(f->loops, "the kinds of instructions");
  for (uint32_t c = 0; c < values->module->num_computations; ++c) f->loops[c] = TRM_NO_INDEX;
  for (uint32_t n = 0; n < values->count; ++n) {
    const trm_instruction *i = trm_values_at(values, n);
    for (uint32_t k = 0; i->opcode == TRM_OP_WHILE && k < i->num_called; ++k) {
      f->loops[i->called[k]] = n;
    }
  }
  return TRM_OK;
}

static trm_status find_products(const finder *f, product_list *list, trm_error *error) {
  const trm_values *values = f->values;
  trm_scopes scopes;
  TRY(trm_scopes_find(values->module, "multi_conv", &scopes, error));
  for (uint32_t n = 0; n < values->count; ++n) {
    const trm_instruction *i = trm_values_at(values, n);
    if (i->opcode != TRM_OP_CONVOLUTION && i->opcode != TRM_OP_DOT) continue;
    product p = {.n = n,
                 .first = source_of(f, n, 0),
                 .second = source_of(f, n, 1),
                 .is_update = is_update(values, n),
                 .multi_conv = TRM_NO_INDEX,
                 .type = INFERENCE_FWD};
    if (is_zeros(values, p.first) || is_zeros(values, p.second)) continue;
    if (i->opcode == TRM_OP_CONVOLUTION) {
      look_at_convolution(values, &p);
      p.multi_conv = trm_scope_of(&scopes, "multi_conv", i, &p.is_gradient);
    }
    if (!VECTOR_PUSH(list, p)) {
      VECTOR_FREE(&scopes);
      FAIL_NO_MEMORY("the kinds of instructions");
    }
  }
  VECTOR_FREE(&scopes);
  return TRM_OK;
}

/* The type that the program sets; NONE: nothing, or inference. */
static ml_type given_type(const trm_instruction *i) {
  static const char *const names[] = {"", "", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU"};
  const char *given = trm_instruction_frontend_attribute(i, "ML_TYPE");
  for (int t = TRAINING_FWD; given != NULL && t <= TRAINING_WU; ++t) {
    if (strcmp(given, names[t]) == 0) return (ml_type)t;
  }
  return NONE;
}

/* Bits by number of a value: which products read it. */
enum {
  READ_FIRST_BY_UPDATE = 1,
  READ_FIRST_BY_OTHER = 2,
  READ_SECOND_BY_FORWARD = 4,
  READ_SECOND_BY_STRIDED = 8
};

static void classify(const trm_values *values, product_list *list, uint8_t *bits) {
  for (size_t k = 0; k < list->count; ++k) {
    const product *p = &list->items[k];
    bits[p->first] |= p->is_update ? READ_FIRST_BY_UPDATE : READ_FIRST_BY_OTHER;
  }
  const uint8_t both = READ_FIRST_BY_UPDATE | READ_FIRST_BY_OTHER;
  for (size_t k = 0; k < list->count; ++k) {
    product *p = &list->items[k];
    if ((bits[p->first] & both) != both) continue;
    p->type = p->is_update ? TRAINING_WU : TRAINING_FWD;
    if (p->is_update) continue;
    bits[p->second] |= READ_SECOND_BY_FORWARD;
    if (p->is_strided) bits[p->second] |= READ_SECOND_BY_STRIDED;
  }
  for (size_t k = 0; k < list->count; ++k) {
    product *p = &list->items[k];
    const bool has_own_kernel = p->multi_conv != TRM_NO_INDEX && p->is_grouped;
    if (p->type == INFERENCE_FWD && bits[p->second] & READ_SECOND_BY_FORWARD && !has_own_kernel) {
      p->type = TRAINING_BWD;
    }
    const ml_type given = given_type(trm_values_at(values, p->n));
    if (given != NONE) p->type = given;
  }
}

/* `more` is a suffix of the name. */
static void put_type(const trm_instruction *i, const char *more, ml_type type, trm_stream *s) {
  const char *op = i->metadata.op_name;
  char name[1024];
  snprintf(name, sizeof name, "%.700s%s%.200s%s", op == NULL ? "" : op,
           op == NULL || *op == '\0' ? "" : "/", i->name, more);
  trm_stream_put_int(s, name, type);
}

/* Whether a pipeline computes an instruction of a forward stage again. */
static bool is_recomputed(const trm_program *program, const trm_instruction *i) {
  const char *stage = trm_instruction_fused_attribute(program->module, i, "pipeline_stage");
  return program->pipeline.present && program->pipeline.recomputation && stage != NULL &&
         strtoul(stage, NULL, 10) + 1 < program->pipeline.num_stages;
}

static void put_types(const trm_program *program, const trm_values *values,
                      const product_list *list, const uint8_t *bits, trm_stream *s) {
  trm_stream_object(s);
  trm_stream_key(s, "ml_types");
  trm_stream_object(s);
  for (size_t k = 0; k < list->count; ++k) {
    const product *p = &list->items[k];
    if (is_counted(list, p)) continue;
    const trm_instruction *i = trm_values_at(values, p->n);
    const bool is_turned = p->type == TRAINING_BWD && p->is_reversed &&
                           p->multi_conv == TRM_NO_INDEX &&
                           !(bits[p->second] & READ_SECOND_BY_STRIDED);
    if (is_turned) put_type(i, "/weights-transpose-chans-flip-x-y", TRAINING_FWD, s);
    put_type(i, "", is_turned ? TRAINING_FWD : p->type, s);
    if (p->type == TRAINING_FWD && is_recomputed(program, i)) {
      put_type(i, "/recomputed", TRAINING_FWD, s);
    }
  }
  trm_stream_end_object(s);
  trm_stream_end_object(s);
}

trm_status trm_describe_instructions(const trm_program *program, trm_stream *s, trm_error *error) {
  trm_arena arena = {0};
  trm_values values = {0};
  product_list list = {0};
  uint8_t *bits = NULL;
  trm_status status = trm_values_find(program->module, &arena, &values, error);
  finder f = {.values = &values};
  if (status == TRM_OK) status = find_loops(&f, &arena, error);
  if (status == TRM_OK) status = find_products(&f, &list, error);
  if (status == TRM_OK) {
    bits = trm_allocate_zeroed((size_t)values.count + 1, sizeof *bits);
    if (bits == NULL) status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for events");
  }
  if (status == TRM_OK) {
    classify(&values, &list, bits);
    put_types(program, &values, &list, bits, s);
  }
  trm_free(bits);
  VECTOR_FREE(&list);
  trm_arena_free(&arena);
  return status;
}
