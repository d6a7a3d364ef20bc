/* Owns: making a module of what the parser read.
 *
 * Names become indices. Computations are ordered callees first, the instructions of each operands
 * first; both keep the text's order where that is legal. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hlo/infer.h"
#include "hlo/names.h"
#include "hlo/order.h"
#include "hlo/parse.h"

/* ---- Names ---------------------------------------------------------------------------------- */

typedef struct name_entry {
  const char *name; /* NULL: free */
  size_t length;
  uint32_t value;
} name_entry;

typedef struct name_table {
  name_entry *entries;
  size_t mask; /* a power of two less one, at least twice the names */
} name_table;

static bool table_create(name_table *table, size_t names) {
  size_t size = 16;
  while (size < names * 2) size *= 2;
  table->entries = trm_allocate_zeroed(size, sizeof *table->entries);
  table->mask = size - 1;
  return table->entries != NULL;
}

static void table_free(name_table *table) { trm_free(table->entries); }

/* The entry of a name, or the free one where it belongs. */
static name_entry *table_find(const name_table *table, const char *name, size_t length) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < length; ++i) hash = (hash ^ (unsigned char)name[i]) * 1099511628211u;
  size_t slot = (size_t)(hash ^ hash >> 32) & table->mask;
  while (table->entries[slot].name != NULL &&
         (table->entries[slot].length != length ||
          memcmp(table->entries[slot].name, name, length) != 0)) {
    slot = (slot + 1) & table->mask;
  }
  return &table->entries[slot];
}

/* ---- Into the module ------------------------------------------------------------------------ */

/* The tables that building needs, for all computations and instructions. */
typedef struct parse_draft {
  trm_reader *r;
  const char **names;          /* the module's name of each instruction */
  trm_names module_names;      /* of instructions */
  uint32_t *computation_index; /* pending computation -> in the module */
  uint32_t *called;            /* called reference -> pending computation */
} parse_draft;

/* Instruction names must be unique in the module; the text has them unique in a computation. */
static trm_status unique_names(parse_draft *b) {
  trm_reader *r = b->r;
  trm_error *error = r->parser.error;
  const size_t count = r->instructions.count;
  b->names = trm_allocate_zeroed(count, sizeof *b->names);
  CHECK_MEMORY(b->names, "names");
  for (size_t i = 0; i < count; ++i) {
    const char *name = r->instructions.items[i].instruction.name;
    bool added;
    TRY(trm_names_add(&b->module_names, name, &added, error));
    if (added) b->names[i] = name;
  }
  for (size_t i = 0; i < count; ++i) { /* the others, when all that are there are known */
    if (b->names[i] != NULL) continue;
    b->names[i] = r->instructions.items[i].instruction.name;
    TRY(trm_names_make_unique(&b->module_names, &r->parser.module->arena, NULL, &b->names[i],
                              error));
  }
  return TRM_OK;
}

static trm_status unknown_name(const trm_reader *r, const trm_reference *reference,
                               const char *what) {
  return trm_lexer_fail(&r->parser.lexer, reference->name, "no %s is called '%.*s'", what,
                        SLICE_ARGS(reference->name, reference->length));
}

/* Finds the computations that every instruction calls, and orders callees first. */
static trm_status resolve_computations(parse_draft *b, uint32_t *order) {
  trm_reader *r = b->r;
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  const uint32_t count = (uint32_t)r->computations.count;
  name_table names = {0};
  trm_graph g;
  trm_status status = trm_graph_create(count, parser->called.count, &g, error);
  if (status != TRM_OK) goto done;
  b->called = trm_allocate_zeroed(parser->called.count, sizeof *b->called);
  if (b->called == NULL || !table_create(&names, count)) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while reading computations");
  }
  for (uint32_t i = 0; i < count; ++i) {
    const trm_pending_computation *computation = &r->computations.items[i];
    name_entry *entry = table_find(&names, computation->name, computation->length);
    if (entry->name != NULL) {
      status = trm_lexer_fail(&parser->lexer, computation->at, "a second computation called '%.*s'",
                              SLICE_ARGS(computation->name, computation->length));
      goto done;
    }
    *entry = (name_entry){computation->name, computation->length, i};
  }
  size_t edges = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const trm_pending_computation *computation = &r->computations.items[i];
    g.rows[i] = edges;
    for (uint32_t k = 0; k < computation->count; ++k) {
      const trm_pending_instruction *pending = &r->instructions.items[computation->first + k];
      for (uint32_t c = 0; c < pending->instruction.num_called; ++c) {
        const trm_reference *reference = &parser->called.items[pending->called + c];
        const name_entry *entry = table_find(&names, reference->name, reference->length);
        if (entry->name == NULL) {
          status = unknown_name(r, reference, "computation");
          goto done;
        }
        b->called[pending->called + c] = entry->value;
        g.targets[edges++] = entry->value;
      }
    }
  }
  g.rows[count] = edges;
  trm_cycle cycle;
  uint32_t ordered;
  TRY_OR_GOTO(trm_graph_order(&g, NULL, order, &ordered, &cycle, error), done);
  if (cycle.from != TRM_NO_INDEX) {
    const trm_pending_computation *computation = &r->computations.items[cycle.to];
    status = trm_lexer_fail(&parser->lexer, computation->at,
                            "computation %.*s calls itself, directly or through others; HLO has "
                            "no recursion",
                            SLICE_ARGS(computation->name, computation->length));
  }
done:
  table_free(&names);
  trm_graph_free(&g);
  return status;
}

/* Finds the operands of one computation's instructions as indices in the text's order. */
static trm_status resolve_operands(parse_draft *b, const trm_pending_computation *computation,
                                   trm_graph *g) {
  trm_reader *r = b->r;
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  trm_status status = TRM_OK;
  name_table names = {0};
  if (!table_create(&names, computation->count)) FAIL_NO_MEMORY("names");
  size_t edges = 0;
  for (uint32_t i = 0; i < computation->count; ++i) {
    const trm_pending_instruction *pending = &r->instructions.items[computation->first + i];
    const char *name = pending->instruction.name;
    name_entry *entry = table_find(&names, name, strlen(name));
    if (entry->name != NULL) {
      status = trm_lexer_fail(&parser->lexer, pending->at,
                              "a second instruction called '%s' in computation %.*s", name,
                              SLICE_ARGS(computation->name, computation->length));
      goto done;
    }
    *entry = (name_entry){name, strlen(name), i};
  }
  for (uint32_t i = 0; i < computation->count; ++i) {
    const trm_pending_instruction *pending = &r->instructions.items[computation->first + i];
    const uint32_t operands = pending->instruction.num_operands;
    const uint32_t total = operands + pending->instruction.num_control_predecessors;
    g->rows[i] = edges;
    for (uint32_t k = 0; k < total; ++k) {
      const trm_reference *reference =
          k < operands ? &parser->operands.items[pending->operands + k]
                       : &parser->controls.items[pending->controls + (k - operands)];
      const name_entry *entry = table_find(&names, reference->name, reference->length);
      if (entry->name == NULL) {
        status = unknown_name(r, reference, "instruction of this computation");
        goto done;
      }
      g->targets[edges++] = entry->value;
    }
  }
  g->rows[computation->count] = edges;
done:
  table_free(&names);
  return status;
}

/* Puts the called computations into their slots. */
static trm_status fill_called(parse_draft *b, const trm_pending_instruction *pending,
                              trm_instruction *instruction) {
  const trm_parser *parser = &b->r->parser;
  trm_error *error = parser->error;
  const uint32_t count = pending->instruction.num_called;
  instruction->called = ARENA_NEW(&parser->module->arena, uint32_t, count);
  CHECK_MEMORY(instruction->called, "called computations");
  for (uint32_t c = 0; c < count; ++c) instruction->called[c] = TRM_NO_INDEX;
  for (uint32_t c = 0; c < count; ++c) {
    const trm_reference *reference = &parser->called.items[pending->called + c];
    if (reference->slot >= count || instruction->called[reference->slot] != TRM_NO_INDEX) {
      return trm_lexer_fail(&parser->lexer, pending->at,
                            "%s names its computations in ways that exclude each other",
                            trm_opcode_name(instruction->opcode));
    }
    instruction->called[reference->slot] = b->computation_index[b->called[pending->called + c]];
  }
  return TRM_OK;
}

static trm_status check_ranges(const trm_reader *r, const trm_computation *computation,
                               const trm_pending_instruction *pending,
                               const trm_instruction *instruction) {
  if (instruction->slice == NULL && instruction->padding == NULL) return TRM_OK;
  const int32_t rank = computation->instructions[instruction->operands[0]].shape.rank;
  if (pending->num_ranges != rank) {
    return trm_lexer_fail(&r->parser.lexer, pending->at,
                          "%s has %d dimensions in its '%s', its operand has %d",
                          trm_opcode_name(instruction->opcode), pending->num_ranges,
                          instruction->slice != NULL ? "slice" : "padding", rank);
  }
  return TRM_OK;
}

static trm_status check_operand_shapes(const trm_reader *r, const trm_computation *computation,
                                       const trm_pending_instruction *pending,
                                       const trm_instruction *instruction) {
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_reference *reference = &r->parser.operands.items[pending->operands + k];
    const trm_instruction *operand = &computation->instructions[instruction->operands[k]];
    if (reference->shape != NULL && !trm_shape_equal(reference->shape, &operand->shape)) {
      char used[160], defined[160];
      return trm_lexer_fail(&r->parser.lexer, reference->name,
                            "the operand %%%s is used as %s but is %s", operand->name,
                            trm_shape_text(reference->shape, used, sizeof used),
                            trm_shape_text(&operand->shape, defined, sizeof defined));
    }
  }
  return TRM_OK;
}

/* Checks statements of the text that must agree with the operands. */
static trm_status check_claims(const trm_reader *r, const trm_computation *computation,
                               const trm_pending_instruction *pending,
                               const trm_instruction *instruction) {
  const trm_lexer *lexer = &r->parser.lexer;
  const uint32_t count = instruction->num_operands;
  if (instruction->opcode == TRM_OP_CONDITIONAL && count > 0) {
    int branches = 0;
    static const char name[] = "branch_computations";
    (void)trm_attribute_find(instruction->opcode, name, sizeof name - 1, &branches);
    const bool is_list = (pending->seen >> branches & 1) != 0;
    const bool is_predicate =
        computation->instructions[instruction->operands[0]].shape.dtype == TRM_PRED;
    if (is_list == is_predicate) {
      return trm_lexer_fail(lexer, pending->at,
                            is_list ? "a conditional on pred[] takes true_computation and "
                                      "false_computation, not branch_computations"
                                    : "a conditional on a number takes branch_computations, not "
                                      "true_computation and false_computation");
    }
  }
  if (instruction->opcode == TRM_OP_BROADCAST && count == 1 && instruction->dimensions.count == 0 &&
      computation->instructions[instruction->operands[0]].shape.rank > 0) {
    return trm_lexer_fail(lexer, pending->at, "broadcast lacks its attribute 'dimensions'");
  }
  if (pending->num_constraints == TRM_NO_INDEX) return TRM_OK;
  if (pending->num_constraints != count) {
    return trm_lexer_fail(lexer, pending->at,
                          "%s has %" PRIu32 " operands, and layouts for %" PRIu32,
                          trm_opcode_name(instruction->opcode), count, pending->num_constraints);
  }
  for (uint32_t k = 0; k < count; ++k) {
    const trm_shape *operand = &computation->instructions[instruction->operands[k]].shape;
    char said[160], found[160];
    if (!trm_shape_equal(operand, &pending->constraints[k])) {
      return trm_lexer_fail(lexer, pending->at, "operand %" PRIu32 " is %s, its layout is for %s",
                            k, trm_shape_text(operand, found, sizeof found),
                            trm_shape_text(&pending->constraints[k], said, sizeof said));
    }
  }
  return TRM_OK;
}

/* Checks that a `custom-call-done` ends a `custom-call-start`. */
static trm_status check_wrapped(const trm_reader *r, const trm_computation *computation,
                                const trm_pending_instruction *pending,
                                const trm_instruction *instruction) {
  if (!pending->has_wrapped || instruction->opcode == TRM_OP_ASYNC_START) return TRM_OK;
  const trm_instruction *start = instruction;
  while (start->num_operands == 1 &&
         (start == instruction || start->opcode == TRM_OP_ASYNC_UPDATE)) {
    start = &computation->instructions[start->operands[0]];
  }
  if (start->opcode != TRM_OP_ASYNC_START || start->num_called != 1) return TRM_OK; /* see infer */
  const trm_computation *called = &r->parser.module->computations[start->called[0]];
  const trm_opcode begun = called->instructions[called->root].opcode;
  if (begun == pending->wrapped) return TRM_OK;
  return trm_lexer_fail(&r->parser.lexer, pending->at, "%%%s began as %s and goes on as %s",
                        start->name, trm_opcode_name(begun), trm_opcode_name(pending->wrapped));
}

/* A scan without `num_carries`, as some versions of XLA print it: its last operands that are what
 * its computation takes are carries. */
static void count_carries(const trm_module *module, const trm_computation *computation,
                          const trm_pending_instruction *pending, trm_instruction *instruction) {
  int carries = 0;
  static const char name[] = "num_carries";
  if (instruction->opcode != TRM_OP_SCAN || instruction->num_called != 1) return;
  (void)trm_attribute_find(instruction->opcode, name, sizeof name - 1, &carries);
  if ((pending->seen >> carries & 1) != 0) return;
  const trm_computation *called = &module->computations[instruction->called[0]];
  for (uint32_t k = instruction->num_operands; k-- > 0; ++instruction->number) {
    const trm_shape *operand = &computation->instructions[instruction->operands[k]].shape;
    const trm_shape *taken = trm_infer_parameter(called, k);
    if (taken == NULL || !trm_shape_equal(operand, taken)) return;
  }
}

static trm_status add_instruction(parse_draft *b, uint32_t target, trm_pending_instruction *pending,
                                  int64_t id, trm_index *operands, uint32_t num_operands) {
  trm_reader *r = b->r;
  trm_module *module = r->parser.module;
  trm_error *error = r->parser.error;
  trm_computation *computation = &module->computations[target];
  trm_instruction *instruction = &pending->instruction;
  instruction->id = id;
  instruction->operands = operands;
  instruction->control_predecessors = operands + num_operands;
  TRY(fill_called(b, pending, instruction));
  TRY(check_ranges(r, computation, pending, instruction));
  TRY(check_operand_shapes(r, computation, pending, instruction));
  TRY(check_claims(r, computation, pending, instruction));
  TRY(check_wrapped(r, computation, pending, instruction));
  count_carries(module, computation, pending, instruction);
  trm_error reason;
  if (!pending->has_shape) {
    trm_shape shape;
    if (trm_infer_shape(module, computation, instruction, &shape, &reason) != TRM_OK) {
      return trm_lexer_fail(&r->parser.lexer, pending->at, "%s (while inferring the shape of %%%s)",
                            reason.message, instruction->name);
    }
    instruction->shape = shape;
    if (trm_shape_check(&instruction->shape, &reason) != TRM_OK) {
      return trm_lexer_fail(&r->parser.lexer, pending->at, "%s", reason.message);
    }
  }
  trm_index ignored;
  const trm_status status = trm_computation_add(module, target, instruction, &ignored, &reason);
  if (status == TRM_INVALID_ARGUMENT) {
    return trm_lexer_fail(&r->parser.lexer, pending->at, "%s", reason.message);
  }
  if (status != TRM_OK) return trm_fail(error, status, "%s", reason.message);
  return TRM_OK;
}

/* As in XLA: of a signature only the result is checked. */
static trm_status check_signature(const trm_reader *r, const trm_pending_computation *pending,
                                  const trm_computation *computation) {
  const trm_lexer *lexer = &r->parser.lexer;
  char said[160], found[160];
  for (uint32_t p = 0; p < computation->num_parameters; ++p) {
    if (computation->parameters[p] == TRM_NO_INDEX) {
      return trm_lexer_fail(lexer, pending->at,
                            "computation %s has a parameter %" PRIu32 " but none with number "
                            "%" PRIu32,
                            computation->name, computation->num_parameters - 1, p);
    }
  }
  if (!pending->has_signature) return TRM_OK;
  const trm_shape *result = &computation->instructions[computation->root].shape;
  if (!trm_shape_equal(&pending->result, result)) {
    return trm_lexer_fail(lexer, pending->at, "computation %s gives %s, its signature says %s",
                          computation->name, trm_shape_text(result, found, sizeof found),
                          trm_shape_text(&pending->result, said, sizeof said));
  }
  return TRM_OK;
}

static trm_status build_computation(parse_draft *b, uint32_t index) {
  trm_reader *r = b->r;
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  trm_module *module = parser->module;
  const trm_pending_computation *computation = &r->computations.items[index];
  if (computation->refusal.at != NULL) {
    trm_lexer_fail(&parser->lexer, computation->refusal.at, "%s", computation->refusal.message);
    return error->status = TRM_UNIMPLEMENTED;
  }
  size_t num_edges = 0;
  for (uint32_t i = 0; i < computation->count; ++i) {
    const trm_instruction *pending = &r->instructions.items[computation->first + i].instruction;
    num_edges += pending->num_operands + pending->num_control_predecessors;
  }
  trm_graph g;
  trm_status status = trm_graph_create(computation->count, num_edges, &g, error);
  uint32_t *order = trm_allocate_zeroed(g.count, sizeof *order);
  uint32_t *position = trm_allocate_zeroed(g.count, sizeof *position);
  if (status != TRM_OK) goto done;
  if (order == NULL || position == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while reading a computation");
  }
  TRY_OR_GOTO(resolve_operands(b, computation, &g), done);
  trm_cycle cycle;
  uint32_t ordered;
  TRY_OR_GOTO(trm_graph_order(&g, NULL, order, &ordered, &cycle, error), done);
  if (cycle.from != TRM_NO_INDEX) {
    const trm_pending_instruction *pending = &r->instructions.items[computation->first + cycle.to];
    status = trm_lexer_fail(&parser->lexer, pending->at, "%%%s depends on itself",
                            pending->instruction.name);
    goto done;
  }
  const char *name = trm_arena_string(&module->arena, computation->name, computation->length);
  if (name == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
  uint32_t target;
  TRY_OR_GOTO(trm_module_add_computation(module, name, &target, error), done);
  b->computation_index[index] = target;
  for (uint32_t i = 0; i < g.count; ++i) position[order[i]] = i;
  for (size_t e = 0; e < num_edges; ++e) g.targets[e] = position[g.targets[e]];
  for (uint32_t i = 0; i < g.count; ++i) {
    const uint32_t text_index = computation->first + order[i];
    trm_pending_instruction *pending = &r->instructions.items[text_index];
    pending->instruction.name = b->names[text_index];
    TRY_OR_GOTO(add_instruction(b, target, pending, (int64_t)text_index + 1,
                                g.targets + g.rows[order[i]], pending->instruction.num_operands),
                done);
  }
  module->computations[target].root = position[computation->root];
  status = check_signature(r, computation, &module->computations[target]);
done:
  trm_graph_free(&g);
  trm_free(order);
  trm_free(position);
  return status;
}

/* Marks the computations that the entry calls, and those that they call: the others stay out of
 * the module. `order` has callees first. */
static void mark_called(const parse_draft *b, const uint32_t *order, bool *is_called) {
  const trm_reader *r = b->r;
  is_called[r->entry] = true;
  for (size_t i = r->computations.count; i-- > 0;) {
    const trm_pending_computation *computation = &r->computations.items[order[i]];
    for (uint32_t k = 0; k < computation->count && is_called[order[i]]; ++k) {
      const trm_pending_instruction *pending = &r->instructions.items[computation->first + k];
      for (uint32_t c = 0; c < pending->instruction.num_called; ++c) {
        is_called[b->called[pending->called + c]] = true;
      }
    }
  }
}

trm_status trm_parse_build(trm_reader *r) {
  parse_draft state = {.r = r}, *b = &state;
  trm_module *module = r->parser.module;
  trm_error *error = r->parser.error;
  const uint32_t count = (uint32_t)r->computations.count;
  trm_status status = TRM_OK;
  uint32_t *order = trm_allocate_zeroed(count, sizeof *order);
  bool *is_called = trm_allocate_zeroed(count, sizeof *is_called);
  b->computation_index = trm_allocate_zeroed(count, sizeof *b->computation_index);
  if (order == NULL || is_called == NULL || b->computation_index == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while reading a module");
  }
  /* Computations take the ids behind the instructions'. */
  module->next_id = (int64_t)r->instructions.count + 1;
  TRY_OR_GOTO(resolve_computations(b, order), done);
  TRY_OR_GOTO(unique_names(b), done);
  mark_called(b, order, is_called);
  for (uint32_t i = 0; i < count; ++i) {
    if (is_called[order[i]]) TRY_OR_GOTO(build_computation(b, order[i]), done);
  }
  module->entry = b->computation_index[r->entry];
  status = trm_module_settle(module, error);
done:
  trm_free(order);
  trm_free(is_called);
  trm_names_free(&b->module_names);
  trm_free(b->names);
  trm_free(b->computation_index);
  trm_free(b->called);
  return status;
}
