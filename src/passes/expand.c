/* Owns: scan as a while loop, shuffle as slices or a gather. */
#include "passes/expand.h"

#include <string.h>

#include "hlo/literal.h"
#include "passes/maker.h"

/* ---- Scan ----------------------------------------------------------------------------------- */

/* The state of the loop is a tuple: the number of the iteration, the carries, the inputs and the
 * outputs.
 */
typedef struct scan_loop {
  trm_instruction scan;
  trm_shape state;
  uint32_t carries, inputs, outputs;
  int64_t along, size; /* the scanned dimension and its size */
} scan_loop;

static const trm_shape number = {.dtype = TRM_S32};

/* A slice of one along the scanned dimension. */
static trm_shape element_shape(trm_maker *m, const scan_loop *loop, trm_shape whole) {
  int64_t dims[TRM_MAX_RANK];
  memcpy(dims, whole.dims, (size_t)whole.rank * sizeof *dims);
  dims[loop->along] = 1;
  return trm_make_shape(m, whole.dtype, whole.rank, dims);
}

/* The start of an iteration's slice of an array: `at` along the scanned dimension, else 0. */
static void element_start(trm_maker *m, const scan_loop *loop, trm_shape whole, trm_index at,
                          trm_index *out_starts) {
  const trm_index zero = trm_filled(m, number, 0);
  for (int32_t d = 0; d < whole.rank; ++d) out_starts[d] = d == loop->along ? at : zero;
}

static trm_index take_element(trm_maker *m, const scan_loop *loop, trm_index array, trm_index at,
                              trm_shape element) {
  const trm_shape whole = trm_edit_at(m->edit, array)->shape, one = element_shape(m, loop, whole);
  trm_index operands[1 + TRM_MAX_RANK] = {array};
  element_start(m, loop, whole, at, operands + 1);
  const trm_index slice =
      trm_make(m, &(trm_instruction){.opcode = TRM_OP_DYNAMIC_SLICE,
                                     .shape = one,
                                     .num_operands = 1 + (uint32_t)whole.rank,
                                     .operands = operands,
                                     .sizes = trm_keep_dims(m, one.rank, one.dims)});
  return trm_recast(m, TRM_OP_RESHAPE, element, slice);
}

static trm_index put_element(trm_maker *m, const scan_loop *loop, trm_index array, trm_index at,
                             trm_index element) {
  const trm_shape whole = trm_edit_at(m->edit, array)->shape;
  trm_index operands[2 + TRM_MAX_RANK] = {array};
  operands[1] = trm_recast(m, TRM_OP_RESHAPE, element_shape(m, loop, whole), element);
  element_start(m, loop, whole, at, operands + 2);
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_DYNAMIC_UPDATE_SLICE,
                                        .shape = whole,
                                        .num_operands = 2 + (uint32_t)whole.rank,
                                        .operands = operands});
}

static uint32_t make_condition(trm_maker *outer, const scan_loop *loop) {
  trm_subcomputation sub;
  trm_maker *m = trm_subcomputation_begin(outer, &sub, 1, &loop->state);
  const trm_index iteration = trm_element(m, 0, 0);
  return trm_subcomputation_end(outer, &sub,
                                trm_compare(m, iteration, TRM_CMP_LT, (double)loop->size));
}

static uint32_t make_body(trm_maker *outer, const scan_loop *loop, trm_index *elements) {
  trm_module *module = outer->edit->module;
  const trm_computation *combiner = &module->computations[loop->scan.called[0]];
  const trm_shape result = combiner->instructions[combiner->root].shape;
  const uint32_t inputs = 1 + loop->carries, outputs = inputs + loop->inputs;
  trm_subcomputation sub;
  trm_maker *m = trm_subcomputation_begin(outer, &sub, 1, &loop->state);
  for (int32_t k = 0; k < loop->state.num_elements; ++k) {
    elements[k] = trm_element(m, 0, k);
  }
  trm_index at = elements[0];
  if (loop->scan.is_reverse) {
    const trm_index last = trm_filled(m, number, (double)(loop->size - 1));
    at = trm_binary(m, TRM_OP_SUBTRACT, last, at);
  }
  trm_index *operands = elements + loop->state.num_elements; /* of the call */
  for (uint32_t k = 0; k < loop->inputs && m->status == TRM_OK; ++k) {
    combiner = &module->computations[loop->scan.called[0]];
    operands[k] = take_element(m, loop, elements[inputs + k], at,
                               combiner->instructions[combiner->parameters[k]].shape);
  }
  memcpy(operands + loop->inputs, elements + 1, loop->carries * sizeof *operands);
  const trm_index call = trm_make(m, &(trm_instruction){.opcode = TRM_OP_CALL,
                                                        .shape = result,
                                                        .num_operands = loop->scan.num_operands,
                                                        .operands = operands,
                                                        .num_called = 1,
                                                        .called = loop->scan.called});
  for (uint32_t k = 0; k < loop->outputs && m->status == TRM_OK; ++k) {
    elements[outputs + k] =
        put_element(m, loop, elements[outputs + k], at, trm_element(m, call, k));
  }
  for (uint32_t k = 0; k < loop->carries && m->status == TRM_OK; ++k) {
    elements[1 + k] = trm_element(m, call, loop->outputs + k);
  }
  elements[0] = trm_binary(m, TRM_OP_ADD, elements[0], trm_filled(m, number, 1));
  return trm_subcomputation_end(outer, &sub, trm_tuple(m, loop->state, elements));
}

/* `shapes` and `elements` are scratch, two for each element of the state. */
static void expand_scan(trm_maker *m, scan_loop *loop, trm_shape *shapes, trm_index *elements) {
  const trm_instruction *scan = &loop->scan;
  const uint32_t inputs = 1 + loop->carries, outputs = inputs + loop->inputs;
  const uint32_t count = outputs + loop->outputs;
  shapes[0] = number;
  for (uint32_t k = 0; k < scan->num_operands; ++k) { /* the inputs come first, in the scan */
    const uint32_t place = k < loop->inputs ? inputs + k : 1 + k - loop->inputs;
    shapes[place] = trm_edit_at(m->edit, scan->operands[k])->shape;
  }
  for (uint32_t k = 0; k < loop->outputs; ++k) {
    shapes[outputs + k] = trm_shape_as(scan->shape.elements[k], scan->shape.elements[k].dtype);
  }
  loop->state = trm_make_tuple_shape(m, (int32_t)count, shapes);
  uint32_t called[] = {make_condition(m, loop), make_body(m, loop, elements)};
  elements[0] = trm_filled(m, number, 0);
  for (uint32_t k = 0; k < scan->num_operands; ++k) {
    elements[k < loop->inputs ? inputs + k : 1 + k - loop->inputs] = scan->operands[k];
  }
  for (uint32_t k = 0; k < loop->outputs; ++k)
    elements[outputs + k] = trm_zeros(m, shapes[outputs + k]);
  const trm_index begin = trm_tuple(m, loop->state, elements);
  const trm_index end = trm_while(m, loop->state, begin, called);
  for (uint32_t k = 0; k < loop->outputs + loop->carries; ++k) {
    elements[k] = trm_element(m, end, k < loop->outputs ? outputs + k : 1 + k - loop->outputs);
  }
  const trm_index result = trm_tuple(m, scan->shape, elements);
  if (m->status == TRM_OK) trm_edit_replace(m->edit, m->like, result);
}

trm_status trm_expand_scan(trm_edit *edit, trm_index index, trm_error *error) {
  trm_maker maker = {.edit = edit, .like = index, .error = error};
  scan_loop loop = {.scan = *trm_edit_at(edit, index)};
  loop.carries = (uint32_t)loop.scan.number;
  loop.inputs = loop.scan.num_operands - loop.carries;
  loop.outputs = (uint32_t)loop.scan.shape.num_elements - loop.carries;
  loop.along = loop.scan.dimensions.items[0];
  loop.size = trm_edit_at(edit, loop.scan.operands[0])->shape.dims[loop.along];
  const size_t count = 1 + (size_t)loop.scan.num_operands + loop.outputs;
  trm_shape *shapes = ARENA_NEW(&edit->module->arena, trm_shape, count);
  trm_index *elements = ARENA_NEW(&edit->module->arena, trm_index, 2 * count);
  if (shapes == NULL || elements == NULL) FAIL_NO_MEMORY("a scan");
  expand_scan(&maker, &loop, shapes, elements);
  return maker.status;
}

/* ---- Shuffle -------------------------------------------------------------------------------- */

static trm_index slice_along(trm_maker *m, trm_index whole, int64_t along, int64_t start,
                             int64_t limit) {
  const trm_shape from = trm_edit_at(m->edit, whole)->shape;
  int64_t dims[TRM_MAX_RANK];
  trm_slice_dimension ranges[TRM_MAX_RANK];
  for (int32_t d = 0; d < from.rank; ++d) {
    ranges[d] = (trm_slice_dimension){0, from.dims[d], 1};
    dims[d] = from.dims[d];
  }
  ranges[along] = (trm_slice_dimension){start, limit, 1};
  dims[along] = limit - start;
  trm_slice_dimension *slice =
      trm_arena_copy(&m->edit->module->arena, ranges, (size_t)from.rank * sizeof *ranges);
  if (m->status == TRM_OK && slice == NULL) {
    m->status = trm_fail(m->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a slice");
  }
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_SLICE,
                                        .shape = trm_make_shape(m, from.dtype, from.rank, dims),
                                        .num_operands = 1,
                                        .operands = &whole,
                                        .slice = slice});
}

/* Element i of the result is element i + shift of the operand, around the end. */
static trm_index rotate(trm_maker *m, trm_index x, const trm_instruction *shuffle) {
  for (int32_t k = 0; k < shuffle->sizes.count && m->status == TRM_OK; ++k) {
    const trm_shape shape = trm_edit_at(m->edit, x)->shape;
    const int64_t along = shuffle->dimensions.items[k], size = shape.dims[along];
    const int64_t shift = size == 0 ? 0 : (shuffle->sizes.items[k] % size + size) % size;
    if (shift == 0) continue;
    const trm_index slices[] = {slice_along(m, x, along, shift, size),
                                slice_along(m, x, along, 0, shift)};
    x = trm_make(m, &(trm_instruction){.opcode = TRM_OP_CONCATENATE,
                                       .shape = trm_shape_as(shape, shape.dtype),
                                       .num_operands = 2,
                                       .operands = (trm_index *)slices,
                                       .dimensions = trm_keep_dims(m, 1, &along)});
  }
  return x;
}

static int64_t integer_at(const trm_literal *literal, int64_t index) {
  const char *bytes = literal->leaves[0];
  const size_t size = trm_dtype_size(literal->shape.dtype);
  int64_t value = 0; /* little-endian */
  memcpy(&value, bytes + (size_t)index * size, size);
  if (trm_dtype_kind(literal->shape.dtype) == TRM_KIND_SIGNED && size < sizeof value) {
    const int unused = (int)(8 * (sizeof value - size));
    value = (int64_t)((uint64_t)value << unused) >> unused;
  }
  return value;
}

/* Where each element of the result comes from: a place in all dimensions. Along dimensions that the
 * shuffle does not name an element keeps its place. The indices have one of the result's sizes or 1
 * along each dimension, and behind these the places along the named dimensions. */
static void fill_places(const trm_instruction *shuffle, trm_shape shape, int32_t *out_places) {
  const trm_shape *from = &shuffle->literal->shape;
  const int32_t named = shuffle->dimensions.count;
  int64_t place[TRM_MAX_RANK] = {0};
  for (int64_t i = trm_shape_count(&shape); i > 0; --i) {
    int64_t first = 0;
    for (int32_t d = 0; d < shape.rank; ++d) {
      first = first * from->dims[d] + (from->dims[d] == 1 ? 0 : place[d]);
      out_places[d] = (int32_t)place[d];
    }
    for (int32_t k = 0; k < named; ++k) {
      out_places[shuffle->dimensions.items[k]] =
          (int32_t)integer_at(shuffle->literal, first * named + k);
    }
    out_places += shape.rank;
    for (int32_t d = shape.rank; d-- > 0 && ++place[d] == shape.dims[d];) place[d] = 0;
  }
}

static trm_index permute(trm_maker *m, trm_index x, const trm_instruction *shuffle) {
  trm_arena *arena = &m->edit->module->arena;
  const trm_shape shape = trm_edit_at(m->edit, x)->shape;
  int64_t dims[TRM_MAX_RANK + 1], all[TRM_MAX_RANK], ones[TRM_MAX_RANK];
  for (int32_t d = 0; d < shape.rank; ++d) dims[d] = shape.dims[d], all[d] = d, ones[d] = 1;
  if (m->status == TRM_OK && shape.rank == TRM_MAX_RANK) {
    m->status = trm_fail(m->error, TRM_UNIMPLEMENTED, "a shuffle in %d dimensions", TRM_MAX_RANK);
  }
  if (m->status != TRM_OK) return x;
  dims[shape.rank] = shape.rank;
  const trm_shape places_shape = trm_make_shape(m, TRM_S32, shape.rank + 1, dims);
  trm_literal *places = NULL;
  if (m->status == TRM_OK) m->status = trm_literal_make(arena, &places_shape, &places, m->error);
  trm_gather *gather = ARENA_NEW(arena, trm_gather, 1);
  if (m->status == TRM_OK && gather == NULL) {
    m->status = trm_fail(m->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a gather");
  }
  if (m->status != TRM_OK) return x;
  fill_places(shuffle, shape, (int32_t *)places->leaves[0]);
  gather->collapsed_slice_dims = trm_keep_dims(m, shape.rank, all);
  gather->start_index_map = gather->collapsed_slice_dims;
  gather->index_vector_dim = shape.rank;
  gather->slice_sizes = trm_keep_dims(m, shape.rank, ones);
  const trm_index from = trm_make(
      m, &(trm_instruction){.opcode = TRM_OP_CONSTANT, .shape = places_shape, .literal = places});
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_GATHER,
                                        .shape = trm_shape_as(shape, shape.dtype),
                                        .num_operands = 2,
                                        .operands = (trm_index[]){x, from},
                                        .gather = gather});
}

trm_status trm_expand_shuffle(trm_edit *edit, trm_index index, trm_error *error) {
  trm_maker maker = {.edit = edit, .like = index, .error = error};
  const trm_instruction shuffle = *trm_edit_at(edit, index);
  const trm_index x = shuffle.operands[0];
  const trm_index result =
      shuffle.literal != NULL ? permute(&maker, x, &shuffle) : rotate(&maker, x, &shuffle);
  if (maker.status == TRM_OK) trm_edit_replace(edit, index, result);
  return maker.status;
}
