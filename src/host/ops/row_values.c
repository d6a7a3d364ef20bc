/* Owns: reading a computation on rows as values and passes (row_values.h). */
#include "host/ops/row_values.h"

#include <string.h>

#include "host/ops/elementwise/strip.h"

typedef struct reader {
  const trm_kernel_request *request;
  const bool *is_whole;
  row_values *out;
} reader;

/* Values by instruction of one computation, one for each leaf. */
typedef struct scope {
  const trm_computation *computation;
  const uint32_t *arguments; /* values of the parameters; NULL: the body's own */
  uint32_t (*values)[ROW_MAX_RESULTS];
} scope;

static uint32_t add_value(reader *r, row_value value) {
  if (r->out->count == ROW_MAX_VALUES) return ROW_NO_VALUE;
  r->out->items[r->out->count] = value;
  return r->out->count++;
}

static uint32_t read_operand(reader *r, const trm_instruction *o) {
  const int64_t count = trm_shape_count(&o->shape);
  row_value value = {.kind = ROW_OPERAND, .dtype = o->shape.dtype, .number = (uint32_t)o->number};
  if (!trm_shape_is_array(&o->shape)) return ROW_NO_VALUE;
  if (r->is_whole[value.number]) {
    if (count != 1 && count != r->out->n) return ROW_NO_VALUE;
    value.extent = count == 1 ? EXTENT_ONE : EXTENT_VECTOR;
  } else {
    if (count != r->out->block && count != r->out->block * r->out->n) return ROW_NO_VALUE;
    value.extent = count == r->out->block ? EXTENT_ROWS : EXTENT_ALL;
  }
  return add_value(r, value);
}

/* Whether the broadcast repeats the operand as its extent says, and nothing else. */
static bool is_plain_broadcast(const reader *r, const trm_instruction *o, const trm_shape *operand,
                               row_extent extent) {
  const int32_t rank = operand->rank, to = o->shape.rank;
  const int64_t count = trm_shape_count(&o->shape);
  if (extent == EXTENT_ONE) return true;
  if (count == trm_shape_count(operand)) { /* dimensions of 1, in order */
    for (int32_t d = 1; d < rank; ++d)
      if (o->dimensions.items[d] <= o->dimensions.items[d - 1]) return false;
    return true;
  }
  if (count != r->out->block * r->out->n) return false;
  if (extent == EXTENT_ROWS)
    return rank == 1 && o->dimensions.items[0] == 0 && o->shape.dims[0] == r->out->block;
  if (extent != EXTENT_VECTOR) return false;
  for (int32_t d = 0; d < rank; ++d)
    if (o->dimensions.items[d] != to - rank + d) return false;
  return true;
}

static uint32_t read_elementwise(reader *r, const scope *s, trm_index index) {
  const trm_instruction *o = &s->computation->instructions[index];
  const int64_t count = trm_shape_count(&o->shape);
  row_value value = {.kind = ROW_OPERATION, .dtype = o->shape.dtype, .instruction = o};
  if ((!trm_opcode_is_elementwise(o->opcode) && o->opcode != TRM_OP_BITCAST_CONVERT) ||
      !trm_strip_supports(r->request->module, s->computation, o))
    return ROW_NO_VALUE;
  value.extent = count == r->out->block * r->out->n ? EXTENT_ALL : EXTENT_ROWS;
  if (value.extent == EXTENT_ROWS && count != r->out->block) return ROW_NO_VALUE;
  for (uint32_t k = 0; k < o->num_operands; ++k) {
    value.operands[k] = s->values[o->operands[k]][0];
    const row_value *operand = &r->out->items[value.operands[k]];
    if (operand->extent == EXTENT_ALL || operand->extent == EXTENT_VECTOR) {
      if (value.extent == EXTENT_ROWS) return ROW_NO_VALUE;
    }
    if (operand->extent >= EXTENT_ROWS && operand->pass > value.pass) value.pass = operand->pass;
  }
  return add_value(r, value);
}

static uint32_t read_reduction(reader *r, const scope *s, const trm_instruction *o) {
  const trm_module *module = r->request->module;
  if (o->num_operands != 2 || o->shape.dtype != TRM_F32 ||
      trm_shape_count(&o->shape) != r->out->block)
    return ROW_NO_VALUE;
  const uint32_t from = s->values[o->operands[0]][0], initial = s->values[o->operands[1]][0];
  const row_value *operand = &r->out->items[from];
  if (operand->extent != EXTENT_ALL || operand->dtype != TRM_F32 ||
      r->out->items[initial].kind != ROW_CONSTANT)
    return ROW_NO_VALUE;
  const trm_shape *shape = &s->computation->instructions[o->operands[0]].shape;
  for (int32_t d = 1; d < shape->rank; ++d)
    if (o->dimensions.count != shape->rank - 1 || o->dimensions.items[d - 1] != d)
      return ROW_NO_VALUE;
  row_value value = {.kind = ROW_REDUCTION,
                     .extent = EXTENT_ROWS,
                     .dtype = TRM_F32,
                     .instruction = o,
                     .operands = {from},
                     .pass = operand->pass + 1};
  value.reduction = trm_computation_combiner(&module->computations[o->called[0]]);
  if (value.reduction != TRM_OP_ADD && value.reduction != TRM_OP_MAXIMUM &&
      value.reduction != TRM_OP_MINIMUM)
    return ROW_NO_VALUE;
  memcpy(&value.initial, r->out->items[initial].instruction->literal->leaves[0],
         sizeof value.initial);
  return add_value(r, value);
}

static trm_status read_computation(reader *r, const trm_computation *computation,
                                   const uint32_t *arguments, uint32_t *out_results,
                                   uint32_t *out_num_results, bool *out_supported,
                                   trm_error *error);

static trm_status read_fusion(reader *r, const scope *s, trm_index index, bool *out_supported,
                              trm_error *error) {
  const trm_instruction *o = &s->computation->instructions[index];
  uint32_t arguments[ROW_MAX_RESULTS * 2], num_results;
  *out_supported = false;
  if (o->num_operands > ROW_MAX_RESULTS * 2) return TRM_OK;
  for (uint32_t k = 0; k < o->num_operands; ++k) arguments[k] = s->values[o->operands[k]][0];
  return read_computation(r, &r->request->module->computations[o->called[0]], arguments,
                          s->values[index], &num_results, out_supported, error);
}

/* Sets the values of the instruction; *out_supported: whether it has any. */
static trm_status read_instruction(reader *r, const scope *s, trm_index index, bool *out_supported,
                                   trm_error *error) {
  const trm_instruction *o = &s->computation->instructions[index];
  uint32_t *const values = s->values[index];
  values[0] = ROW_NO_VALUE;
  *out_supported = true;
  switch (o->opcode) {
    case TRM_OP_PARAMETER:
      values[0] = s->arguments != NULL ? s->arguments[o->number] : read_operand(r, o);
      break;
    case TRM_OP_CONSTANT:
      if (o->literal == NULL || trm_shape_count(&o->shape) != 1) break;
      values[0] = add_value(r, (row_value){.kind = ROW_CONSTANT,
                                           .extent = EXTENT_ONE,
                                           .dtype = o->shape.dtype,
                                           .instruction = o});
      break;
    case TRM_OP_RESHAPE:
    case TRM_OP_BITCAST: {
      const trm_shape *from = &s->computation->instructions[o->operands[0]].shape;
      if (from->dtype == o->shape.dtype && trm_shape_count(from) == trm_shape_count(&o->shape))
        values[0] = s->values[o->operands[0]][0];
      break;
    }
    case TRM_OP_BROADCAST: {
      const uint32_t from = s->values[o->operands[0]][0];
      if (is_plain_broadcast(r, o, &s->computation->instructions[o->operands[0]].shape,
                             r->out->items[from].extent))
        values[0] = from;
      break;
    }
    case TRM_OP_REDUCE: values[0] = read_reduction(r, s, o); break;
    case TRM_OP_FUSION: return read_fusion(r, s, index, out_supported, error);
    case TRM_OP_GET_TUPLE_ELEMENT: values[0] = s->values[o->operands[0]][o->number]; break;
    case TRM_OP_TUPLE:
      *out_supported = index == s->computation->root && o->num_operands <= ROW_MAX_RESULTS;
      for (uint32_t k = 0; *out_supported && k < o->num_operands; ++k)
        values[k] = s->values[o->operands[k]][0];
      return TRM_OK;
    default: values[0] = read_elementwise(r, s, index); break;
  }
  *out_supported = values[0] != ROW_NO_VALUE;
  return TRM_OK;
}

static trm_status read_computation(reader *r, const trm_computation *computation,
                                   const uint32_t *arguments, uint32_t *out_results,
                                   uint32_t *out_num_results, bool *out_supported,
                                   trm_error *error) {
  const size_t row = sizeof(uint32_t[ROW_MAX_RESULTS]);
  scope s = {.computation = computation, .arguments = arguments};
  s.values = trm_allocate_zeroed(computation->num_instructions + 1, row);
  CHECK_MEMORY(s.values, "rows");
  trm_status status = TRM_OK;
  *out_supported = true;
  for (trm_index i = 0; i < computation->num_instructions && *out_supported; ++i) {
    TRY_OR_GOTO(read_instruction(r, &s, i, out_supported, error), done);
  }
  const trm_shape *shape = &computation->instructions[computation->root].shape;
  *out_num_results = (uint32_t)trm_shape_num_leaves(shape);
  *out_supported = *out_supported && *out_num_results <= ROW_MAX_RESULTS;
  if (*out_supported)
    memcpy(out_results, s.values[computation->root], *out_num_results * sizeof *out_results);
done:
  trm_free(s.values);
  return status;
}

/* The elements of a row: those of the first reduction's operand. */
static int64_t find_row(const trm_computation *body, int64_t block) {
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    const trm_instruction *o = &body->instructions[i];
    if (o->opcode != TRM_OP_REDUCE) continue;
    return trm_shape_count(&body->instructions[o->operands[0]].shape) / block;
  }
  return 0;
}

trm_status trm_row_values_read(const trm_kernel_request *request, const trm_computation *body,
                               int64_t block, const bool *is_whole, row_values *out,
                               bool *out_supported, trm_error *error) {
  enum { MAX_ELEMENTS = 65536 }; /* a longer sum is made of pieces (fast_sum.c) */
  *out = (row_values){.block = block, .n = find_row(body, block)};
  *out_supported = out->n > 0 && out->n % 64 == 0 && out->n <= MAX_ELEMENTS;
  if (!*out_supported) return TRM_OK;
  reader r = {.request = request, .is_whole = is_whole, .out = out};
  TRY(read_computation(&r, body, NULL, out->results, &out->num_results, out_supported, error));
  if (!*out_supported) return TRM_OK;
  for (uint32_t v = 0; v < out->count; ++v) {
    const row_value *value = &out->items[v];
    const uint32_t after = value->pass + (value->extent == EXTENT_ALL ? 1 : 0);
    if (value->kind != ROW_CONSTANT && after > out->num_passes) out->num_passes = after;
  }
  *out_supported = out->num_passes > 0 && out->num_passes <= ROW_MAX_PASSES;
  for (uint32_t i = 0; i < out->num_results; ++i) { /* each computed here, and once a result */
    const row_value *value = &out->items[out->results[i]];
    if (value->kind != ROW_OPERATION && value->kind != ROW_REDUCTION) *out_supported = false;
    for (uint32_t k = 0; k < i; ++k)
      if (out->results[k] == out->results[i]) *out_supported = false;
  }
  return TRM_OK;
}
