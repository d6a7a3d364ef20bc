/* Owns: sums of a fusion's results over all dimensions but the last, which become one custom call
 * "tremula.sums" with the fusion (host/ops/reduce/fused_sums.c): after fuse. A block of rows is
 * computed and added up while it is in the cache, and a result that only sums read is in no array.
 * The statistics of a batch norm and both sums of its gradient are such. */
#include <string.h>

#include "base/limits.h"
#include "passes/edit.h"
#include "passes/outline.h"
#include "passes/pass.h"

enum {
  UNIT = 8,       /* rows that are added up together */
  MAX_LEAVES = 12 /* as of a fusion */
};

typedef struct finder {
  trm_edit edit;
  uint32_t count;
  bool *is_kept;    /* by instruction: read by more than sums of columns */
  trm_index *first; /* by fusion: its elements and sums, a list */
  trm_index *next;
} finder;

/* The fusion that computes the array i, and which of its results i is. */
static trm_index fusion_of(const finder *f, trm_index i, uint32_t *out_leaf) {
  const trm_instruction *at = trm_edit_at(&f->edit, i);
  *out_leaf = 0;
  if (at->opcode == TRM_OP_GET_TUPLE_ELEMENT && at->num_control_predecessors == 0) {
    *out_leaf = (uint32_t)at->number;
    i = at->operands[0];
    at = trm_edit_at(&f->edit, i);
    if (at->shape.dtype != TRM_TUPLE) return TRM_NO_INDEX;
  } else if (at->shape.dtype == TRM_TUPLE) {
    return TRM_NO_INDEX;
  }
  const bool is_loop = at->opcode == TRM_OP_FUSION && at->num_control_predecessors == 0 &&
                       at->fusion_kind != NULL && strcmp(at->fusion_kind, "kLoop") == 0;
  return is_loop ? i : TRM_NO_INDEX;
}

static bool is_column_sum(const finder *f, trm_index i) {
  const trm_instruction *reduce = trm_edit_at(&f->edit, i);
  if (reduce->opcode != TRM_OP_REDUCE || reduce->num_operands != 2 ||
      reduce->shape.dtype != TRM_F32 || reduce->shape.rank != 1 ||
      reduce->num_control_predecessors > 0 ||
      !trm_edit_is_constant(&f->edit, reduce->operands[1], 0) ||
      trm_computation_combiner(&f->edit.module->computations[reduce->called[0]]) != TRM_OP_ADD) {
    return false;
  }
  const trm_shape *from = &trm_edit_at(&f->edit, reduce->operands[0])->shape;
  for (int32_t d = 0; d < reduce->dimensions.count; ++d) {
    if (reduce->dimensions.items[d] == from->rank - 1) return false;
  }
  return from->dtype == TRM_F32 && from->rank > 1;
}

/* ---- The computation of a block ------------------------------------------------------------- */

typedef struct maker {
  finder *f;
  trm_index fusion;
  trm_shape whole; /* the shape of the fusion's arrays */
  int64_t rows, columns, block;
  uint32_t num_written, num_results;
  trm_index written[MAX_LEAVES]; /* by leaf: a slot of the call's results; TRM_NO_INDEX */
  trm_index summed[MAX_LEAVES];
  uint32_t leaf[2 * MAX_LEAVES]; /* by slot */
} maker;

static const trm_computation *fused_of(const maker *m) {
  const trm_edit *e = &m->f->edit;
  return &e->module->computations[trm_edit_at(e, m->fusion)->called[0]];
}

/* Whether instruction i of a fusion can be one of a block of rows. */
static bool is_by_row(const maker *m, const trm_instruction *i) {
  const bool is_whole = trm_shape_same_dims(&i->shape, &m->whole);
  switch (i->opcode) {
    case TRM_OP_PARAMETER: return is_whole || i->shape.rank <= 1;
    case TRM_OP_CONSTANT: return trm_shape_is_scalar(&i->shape);
    case TRM_OP_BROADCAST:
      return is_whole &&
             (i->dimensions.count == 0 ||
              (i->dimensions.count == 1 && i->dimensions.items[0] == m->whole.rank - 1));
    case TRM_OP_TUPLE: return true;
    default:
      return is_whole && i->num_operands <= MAX_LEAVES && trm_opcode_is_elementwise(i->opcode);
  }
}

/* Chooses the rows of a block; false: the fusion cannot be cut. */
static bool plan_blocks(maker *m) {
  const trm_computation *fused = fused_of(m);
  const trm_shape *first = trm_shape_leaf(&trm_edit_at(&m->f->edit, m->fusion)->shape, 0);
  m->whole = *first;
  if (first->rank < 2) return false;
  m->columns = first->dims[first->rank - 1];
  if (m->columns < TRM_SUMS_LEAST_COLUMNS || m->columns > TRM_SUMS_MOST_COLUMNS) return false;
  m->rows = trm_shape_count(first) / m->columns;
  if (trm_shape_bytes(first) < TRM_SUMS_LEAST_BYTES) return false;
  size_t bytes = 0;
  for (trm_index i = 0; i < fused->num_instructions; ++i) {
    const trm_instruction *at = &fused->instructions[i];
    if (!is_by_row(m, at)) return false;
    if (at->opcode == TRM_OP_PARAMETER && trm_shape_same_dims(&at->shape, &m->whole)) {
      bytes += trm_shape_bytes(&at->shape);
    }
  }
  if (bytes == 0) return false;
  for (uint32_t l = 0; l < MAX_LEAVES; ++l) {
    const bool is_there = m->written[l] != TRM_NO_INDEX || m->summed[l] != TRM_NO_INDEX;
    if (is_there) bytes += trm_shape_bytes(first);
  }
  const int64_t most = (int64_t)((size_t)TRM_SUMS_MOST_BLOCK_BYTES * (size_t)m->rows / bytes);
  for (int64_t b = most - most % UNIT; b >= UNIT && 4 * b >= most && m->block == 0; b -= UNIT) {
    if (m->rows % b == 0) m->block = b;
  }
  for (int64_t b = most; b > 0 && 4 * b >= most && m->block == 0; --b) {
    if (m->rows % b == 0) m->block = b;
  }
  return m->block > 0 && m->block < m->rows;
}

static trm_status block_shape(const maker *m, trm_shape *shape, trm_error *error) {
  const int64_t dims[2] = {m->block, m->columns};
  if (!trm_shape_same_dims(shape, &m->whole)) return TRM_OK;
  if (!trm_shape_make(&m->f->edit.module->arena, shape->dtype, 2, dims, shape)) {
    FAIL_NO_MEMORY("fused sums");
  }
  return TRM_OK;
}

/* Instruction i of the fusion, for a block. */
static trm_status add_block_instruction(const maker *m, uint32_t body, trm_index i,
                                        trm_index *inside, trm_error *error) {
  trm_module *module = m->f->edit.module;
  trm_instruction copy = fused_of(m)->instructions[i];
  trm_index operands[MAX_LEAVES];
  trm_shape leaves[MAX_LEAVES];
  const trm_index *original = copy.operands;
  for (uint32_t k = 0; k < copy.num_operands; ++k) operands[k] = inside[original[k]];
  copy.operands = operands;
  copy.name = NULL;
  copy.id = 0;
  if (copy.opcode == TRM_OP_BROADCAST && copy.dimensions.count == 1) {
    copy.dimensions.items = ARENA_NEW(&module->arena, int64_t, 1);
    CHECK_MEMORY(copy.dimensions.items, "fused sums");
    copy.dimensions.items[0] = 1;
  }
  if (copy.opcode == TRM_OP_TUPLE) {
    for (int32_t l = 0; l < copy.shape.num_elements; ++l) {
      leaves[l] = copy.shape.elements[l];
      TRY(block_shape(m, &leaves[l], error));
    }
    if (!trm_shape_make_tuple(&module->arena, copy.shape.num_elements, leaves, &copy.shape)) {
      FAIL_NO_MEMORY("fused sums");
    }
  } else {
    TRY(block_shape(m, &copy.shape, error));
  }
  return trm_computation_add(module, body, &copy, &inside[i], error);
}

static trm_status add_block_fusion(const maker *m, uint32_t *out_body, trm_error *error) {
  trm_module *module = m->f->edit.module;
  TRY(trm_module_add_computation(module, NULL, out_body, error));
  const uint32_t count = fused_of(m)->num_instructions;
  trm_index *inside = trm_allocate(count * sizeof *inside);
  CHECK_MEMORY(inside, "fused sums");
  trm_status status = TRM_OK;
  for (trm_index i = 0; status == TRM_OK && i < count; ++i) {
    status = add_block_instruction(m, *out_body, i, inside, error);
  }
  if (status == TRM_OK) module->computations[*out_body].root = inside[fused_of(m)->root];
  trm_free(inside);
  return status;
}

/* What the call computes of a block: the fusion, with its results in the order of the slots. */
static trm_status add_body(const maker *m, uint32_t *out_body, trm_error *error) {
  trm_module *module = m->f->edit.module;
  uint32_t fused;
  TRY(add_block_fusion(m, &fused, error));
  TRY(trm_module_add_computation(module, NULL, out_body, error));
  const uint32_t num_operands = trm_edit_at(&m->f->edit, m->fusion)->num_operands;
  trm_index *operands = ARENA_NEW(&module->arena, trm_index, num_operands + 1);
  CHECK_MEMORY(operands, "fused sums");
  for (uint32_t k = 0; k < num_operands; ++k) {
    const trm_computation *from = &module->computations[fused];
    const trm_instruction parameter = {.opcode = TRM_OP_PARAMETER,
                                       .shape = from->instructions[from->parameters[k]].shape,
                                       .number = k};
    TRY(trm_computation_add(module, *out_body, &parameter, &operands[k], error));
  }
  const trm_computation *inner = &module->computations[fused];
  const trm_shape shape = inner->instructions[inner->root].shape;
  const trm_instruction call = {.opcode = TRM_OP_FUSION,
                                .shape = shape,
                                .num_operands = num_operands,
                                .operands = operands,
                                .num_called = 1,
                                .called = &fused,
                                .fusion_kind = "kLoop"};
  trm_index made, of_leaf[MAX_LEAVES], results[2 * MAX_LEAVES];
  trm_shape shapes[2 * MAX_LEAVES], tuple;
  TRY(trm_computation_add(module, *out_body, &call, &made, error));
  of_leaf[0] = made;
  for (int32_t l = 0; shape.dtype == TRM_TUPLE && l < shape.num_elements; ++l) {
    const trm_instruction gte = {.opcode = TRM_OP_GET_TUPLE_ELEMENT,
                                 .shape = shape.elements[l],
                                 .num_operands = 1,
                                 .operands = &made,
                                 .number = l};
    TRY(trm_computation_add(module, *out_body, &gte, &of_leaf[l], error));
  }
  for (uint32_t r = 0; r < m->num_results; ++r) {
    results[r] = of_leaf[m->leaf[r]];
    shapes[r] = *trm_shape_leaf(&shape, (int32_t)m->leaf[r]);
  }
  if (!trm_shape_make_tuple(&module->arena, (int32_t)m->num_results, shapes, &tuple)) {
    FAIL_NO_MEMORY("fused sums");
  }
  const trm_instruction root = {
      .opcode = TRM_OP_TUPLE, .shape = tuple, .num_operands = m->num_results, .operands = results};
  return trm_computation_add(module, *out_body, &root, &module->computations[*out_body].root,
                             error);
}

/* ---- The call ------------------------------------------------------------------------------- */

/* Gives the results that others read, and the sums, their slots; false: there is nothing to fuse.
 */
static bool choose_slots(maker *m) {
  const finder *f = m->f;
  const trm_instruction *fusion = trm_edit_at(&f->edit, m->fusion);
  if (trm_shape_num_leaves(&fusion->shape) > MAX_LEAVES) return false;
  memset(m->written, 0xff, sizeof m->written);
  memset(m->summed, 0xff, sizeof m->summed);
  const bool is_tuple = fusion->shape.dtype == TRM_TUPLE;
  if (is_tuple && f->is_kept[m->fusion]) return false;
  if (!is_tuple && f->is_kept[m->fusion])
    m->written[0] = m->num_results, m->leaf[m->num_results++] = 0;
  for (trm_index i = f->first[m->fusion]; i != TRM_NO_INDEX; i = f->next[i]) {
    const trm_instruction *at = trm_edit_at(&f->edit, i);
    if (at->opcode != TRM_OP_GET_TUPLE_ELEMENT || !f->is_kept[i]) continue;
    if (m->written[at->number] != TRM_NO_INDEX) continue;
    m->written[at->number] = m->num_results, m->leaf[m->num_results++] = (uint32_t)at->number;
  }
  m->num_written = m->num_results;
  for (trm_index i = f->first[m->fusion]; i != TRM_NO_INDEX; i = f->next[i]) {
    const trm_instruction *at = trm_edit_at(&f->edit, i);
    if (at->opcode != TRM_OP_REDUCE) continue;
    uint32_t leaf;
    fusion_of(f, at->operands[0], &leaf);
    if (m->summed[leaf] != TRM_NO_INDEX) continue;
    m->summed[leaf] = m->num_results, m->leaf[m->num_results++] = leaf;
  }
  return m->num_results > m->num_written;
}

static trm_status add_element(const maker *m, trm_index call, trm_index old, trm_index slot,
                              trm_error *error) {
  trm_edit *e = &m->f->edit;
  trm_index element;
  TRY(trm_edit_element(e, old, call, slot, &element, error));
  trm_edit_replace(e, old, element);
  return TRM_OK;
}

static trm_status add_call(maker *m, trm_error *error) {
  trm_edit *e = &m->f->edit;
  uint32_t body;
  TRY(add_body(m, &body, error));
  trm_shape shapes[2 * MAX_LEAVES], shape;
  const int64_t vector[1] = {m->columns};
  bool good = true;
  for (uint32_t r = 0; r < m->num_results && good; ++r) {
    shapes[r] = *trm_shape_leaf(&trm_edit_at(e, m->fusion)->shape, (int32_t)m->leaf[r]);
    if (r < m->num_written) continue;
    good = trm_shape_make(&e->module->arena, TRM_F32, 1, vector, &shapes[r]);
  }
  if (!good || !trm_shape_make_tuple(&e->module->arena, (int32_t)m->num_results, shapes, &shape)) {
    FAIL_NO_MEMORY("fused sums");
  }
  trm_instruction call = {.shape = shape,
                          .num_operands = trm_edit_at(e, m->fusion)->num_operands,
                          .operands = trm_edit_at(e, m->fusion)->operands,
                          .num_called = 1,
                          .called = &body};
  TRY(trm_outline_target(e->module, TRM_CALL_SUMS, &call, error));
  trm_index made;
  TRY(trm_edit_add(e, m->fusion, call, &made, error));
  if (m->num_written > 0 && trm_edit_at(e, m->fusion)->shape.dtype != TRM_TUPLE) {
    TRY(add_element(m, made, m->fusion, m->written[0], error));
  }
  for (trm_index i = m->f->first[m->fusion]; i != TRM_NO_INDEX; i = m->f->next[i]) {
    const trm_instruction *at = trm_edit_at(e, i);
    if (at->opcode == TRM_OP_REDUCE) {
      uint32_t leaf;
      fusion_of(m->f, at->operands[0], &leaf);
      TRY(add_element(m, made, i, m->summed[leaf], error));
    } else if (m->f->is_kept[i]) {
      TRY(add_element(m, made, i, m->written[at->number], error));
    }
  }
  return TRM_OK;
}

/* ---- One computation ------------------------------------------------------------------------ */

/* Lists the elements and sums of each fusion, and marks what more than these read. */
static void list_uses(finder *f) {
  const trm_computation *computation = trm_edit_computation(&f->edit);
  memset(f->first, 0xff, f->count * sizeof *f->first);
  f->is_kept[computation->root] = true;
  for (trm_index i = 0; i < f->count; ++i) {
    const trm_instruction *at = &computation->instructions[i];
    for (uint32_t k = 0; k < at->num_control_predecessors; ++k) {
      f->is_kept[at->control_predecessors[k]] = true;
    }
    uint32_t leaf;
    const bool is_element = at->opcode == TRM_OP_GET_TUPLE_ELEMENT, is_sum = is_column_sum(f, i);
    const trm_index fusion = is_element ? fusion_of(f, i, &leaf)
                             : is_sum   ? fusion_of(f, at->operands[0], &leaf)
                                        : TRM_NO_INDEX;
    if (fusion != TRM_NO_INDEX) f->next[i] = f->first[fusion], f->first[fusion] = i;
    for (uint32_t k = fusion != TRM_NO_INDEX ? 1 : 0; k < at->num_operands; ++k) {
      f->is_kept[at->operands[k]] = true;
    }
  }
}

static trm_status fuse_sums_in(trm_module *module, uint32_t computation, const void *context,
                               trm_error *error) {
  (void)context;
  finder f = {0};
  TRY(trm_edit_begin(&f.edit, module, computation, error));
  f.count = trm_edit_computation(&f.edit)->num_instructions;
  f.is_kept = trm_allocate_zeroed((size_t)f.count + 1, sizeof *f.is_kept);
  f.first = trm_allocate(((size_t)f.count + 1) * sizeof *f.first);
  f.next = trm_allocate(((size_t)f.count + 1) * sizeof *f.next);
  trm_status status = TRM_OK;
  if (f.is_kept == NULL || f.first == NULL || f.next == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while fusing sums");
  }
  list_uses(&f);
  for (trm_index i = 0; i < f.count; ++i) {
    uint32_t leaf;
    maker m = {.f = &f, .fusion = i};
    const bool is_fusion =
        f.first[i] != TRM_NO_INDEX ||
        (trm_edit_at(&f.edit, i)->shape.dtype != TRM_TUPLE && fusion_of(&f, i, &leaf) == i);
    if (!is_fusion || !choose_slots(&m) || !plan_blocks(&m)) continue;
    TRY_OR_GOTO(add_call(&m, error), done);
  }
done:
  trm_free(f.is_kept);
  trm_free(f.first);
  trm_free(f.next);
  return trm_edit_end(&f.edit, status, error);
}

trm_status trm_pass_fuse_sums(trm_module *module, trm_error *error) {
  return trm_edit_each_running(module, fuse_sums_in, NULL, error);
}
