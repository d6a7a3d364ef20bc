/* Owns: the structure of HLO text: the header, computations, instructions, operands.
 *
 * The text is read once into pending instructions, whose operands are names; parse_build.c makes
 * the module of them. */
#include "hlo/parse.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "hlo/literal.h"
#include "tremula/log.h"

/* ---- Instructions --------------------------------------------------------------------------- */

enum { MAX_NESTING = 64, MAX_SINGLE_OPERANDS = 1024 };

static trm_status parse_anonymous(trm_reader *r, trm_pending_computation *computation, int depth,
                                  const trm_shape *shape, trm_reference *reference);

/* The operand of a text of one instruction: a parameter, which needs its shape and may be without
 * a name. */
static trm_status add_parameter(trm_reader *r, trm_pending_computation *computation,
                                trm_reference *reference) {
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  trm_pending_instruction parameter = {
      .at = parser->lexer.token, .has_shape = true, .num_constraints = TRM_NO_INDEX};
  if (reference->shape == NULL) {
    return trm_lexer_fail(&parser->lexer, parser->lexer.token,
                          "an operand of a text of one instruction needs its shape");
  }
  if (parser->lexer.kind == ',' || parser->lexer.kind == ')') {
    reference->name =
        trm_arena_format(&parser->module->arena, "parameter.%" PRIu32, computation->count);
    CHECK_MEMORY(reference->name, "a name");
    reference->length = (uint32_t)strlen(reference->name);
  } else {
    size_t length;
    TRY(trm_parse_name(parser, "an operand", &reference->name, &length));
    reference->length = (uint32_t)length;
  }
  if (computation->count == MAX_SINGLE_OPERANDS) {
    return trm_lexer_fail(&parser->lexer, parameter.at,
                          "a text of one instruction has more than %d operands",
                          MAX_SINGLE_OPERANDS);
  }
  for (uint32_t i = 0; i < computation->count; ++i) {
    const char *known = r->instructions.items[computation->first + i].instruction.name;
    if (strlen(known) == reference->length &&
        memcmp(known, reference->name, reference->length) == 0) {
      return TRM_OK;
    }
  }
  parameter.instruction.opcode = TRM_OP_PARAMETER;
  parameter.instruction.number = computation->count;
  parameter.instruction.shape = *reference->shape;
  parameter.instruction.name =
      trm_arena_string(&parser->module->arena, reference->name, reference->length);
  CHECK_MEMORY(parameter.instruction.name, "a name");
  if (!VECTOR_PUSH(&r->instructions, parameter)) FAIL_NO_MEMORY("instructions");
  ++computation->count;
  return TRM_OK;
}

static trm_status push_instruction(trm_reader *r, trm_pending_computation *computation,
                                   const trm_pending_instruction *pending) {
  trm_error *error = r->parser.error;
  if (r->instructions.count >= TRM_NO_INDEX / 4 || !VECTOR_PUSH(&r->instructions, *pending)) {
    FAIL_NO_MEMORY("instructions");
  }
  ++computation->count;
  return TRM_OK;
}

/* `%x#1#0`: element 0 of element 1 of %x. Each `#` makes a get-tuple-element. */
static trm_status parse_elements(trm_reader *r, trm_pending_computation *computation,
                                 trm_reference *reference) {
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  while (trm_lexer_accept(&parser->lexer, '#')) {
    const trm_reference whole = {.name = reference->name, .length = reference->length};
    trm_pending_instruction element = {.at = parser->lexer.token,
                                       .operands = parser->operands.count,
                                       .controls = parser->controls.count,
                                       .called = parser->called.count,
                                       .num_constraints = TRM_NO_INDEX};
    element.instruction.opcode = TRM_OP_GET_TUPLE_ELEMENT;
    element.instruction.num_operands = 1;
    TRY(trm_lexer_integer(&parser->lexer, &element.instruction.number));
    reference->name = trm_arena_format(&parser->module->arena, "get-tuple-element.anon.%" PRIu32,
                                       computation->count);
    CHECK_MEMORY(reference->name, "a name");
    reference->length = (uint32_t)strlen(reference->name);
    element.instruction.name = reference->name;
    if (!VECTOR_PUSH(&parser->operands, whole)) FAIL_NO_MEMORY("operands");
    TRY(push_instruction(r, computation, &element));
  }
  return TRM_OK;
}

/* `%x`, `%x#0`, `f32[2] %x`, or an instruction: `f32[2] add(%x, %y)`, `add(%x, %y)`. */
static trm_status parse_operand(trm_reader *r, trm_pending_computation *computation, int depth) {
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  trm_reference reference = {0};
  size_t length;
  if (trm_parse_is_shape(parser)) {
    trm_shape *shape = ARENA_NEW(&parser->module->arena, trm_shape, 1);
    CHECK_MEMORY(shape, "a shape");
    TRY(trm_parse_shape(parser, shape));
    reference.shape = shape;
  }
  if (parser->lexer.kind == TOKEN_IDENTIFIER && trm_lexer_peek(&parser->lexer) == '(') {
    TRY(parse_anonymous(r, computation, depth + 1, reference.shape, &reference));
  } else if (r->is_single) {
    TRY(add_parameter(r, computation, &reference));
  } else {
    TRY(trm_parse_name(parser, "an operand", &reference.name, &length));
    reference.length = (uint32_t)length;
    TRY(parse_elements(r, computation, &reference));
  }
  if (!VECTOR_PUSH(&parser->open, reference)) FAIL_NO_MEMORY("operands");
  return TRM_OK;
}

/* What stands between the parentheses behind the opcode. Instructions among the operands have
 * operands too, so the references are brought together at the end. */
static trm_status parse_operands(trm_reader *r, trm_pending_computation *computation, int depth,
                                 trm_pending_instruction *pending) {
  trm_parser *parser = &r->parser;
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_instruction *instruction = &pending->instruction;
  const size_t base = parser->open.count;
  TRY(trm_lexer_expect(lexer, '(', "'(' and the operands"));
  if (instruction->opcode == TRM_OP_PARAMETER) {
    const char *where = lexer->token;
    TRY(trm_lexer_integer(lexer, &instruction->number));
    if (instruction->number < 0) {
      return trm_lexer_fail(lexer, where, "the parameter number %" PRId64 " is negative",
                            instruction->number);
    }
  } else if (instruction->opcode == TRM_OP_CONSTANT) {
    TRY(trm_literal_parse(lexer, &parser->module->arena, &instruction->shape,
                          &instruction->literal));
    if (instruction->literal->elided != NULL) ++r->num_elided;
  } else if (lexer->kind != ')') {
    do {
      TRY(parse_operand(r, computation, depth));
      ++instruction->num_operands;
    } while (trm_lexer_accept(lexer, ','));
  }
  pending->operands = parser->operands.count;
  for (size_t i = base; i < parser->open.count; ++i) {
    if (!VECTOR_PUSH(&parser->operands, parser->open.items[i])) FAIL_NO_MEMORY("operands");
  }
  parser->open.count = base;
  return trm_lexer_expect(lexer, ')', "',' or ')' among the operands");
}

static bool ends_with(const char *text, size_t length, const char *tail, size_t *out_rest) {
  const size_t tail_length = strlen(tail);
  if (length <= tail_length || memcmp(text + length - tail_length, tail, tail_length) != 0) {
    return false;
  }
  *out_rest = length - tail_length;
  return true;
}

/* The opcode; for `<opcode>-start`, `-update` and `-done` of an opcode without such forms the
 * async opcode, and the one it wraps. */
static trm_status parse_opcode(trm_parser *parser, trm_opcode *out_opcode,
                               trm_opcode *out_wrapped) {
  trm_lexer *lexer = &parser->lexer;
  const char *name = lexer->token;
  const size_t length = lexer->length;
  size_t rest;
  *out_wrapped = TRM_NUM_OPCODES;
  if (lexer->kind != TOKEN_IDENTIFIER) return trm_lexer_unexpected(lexer, "an opcode");
  if (trm_opcode_find(name, length, out_opcode)) {
    trm_lexer_next(lexer);
    return TRM_OK;
  }
  trm_opcode async = TRM_NUM_OPCODES;
  if (ends_with(name, length, "-start", &rest)) async = TRM_OP_ASYNC_START;
  if (ends_with(name, length, "-update", &rest)) async = TRM_OP_ASYNC_UPDATE;
  if (ends_with(name, length, "-done", &rest)) async = TRM_OP_ASYNC_DONE;
  if (async == TRM_NUM_OPCODES || !trm_opcode_find(name, rest, out_wrapped)) {
    return trm_lexer_fail(lexer, name, "unknown opcode '%.*s'", SLICE_ARGS(name, length));
  }
  *out_opcode = async;
  trm_lexer_next(lexer);
  return TRM_OK;
}

/* The opcodes whose shape follows from nothing else. */
static bool needs_shape(trm_opcode opcode) {
  switch (opcode) {
    case TRM_OP_ALL_GATHER:
    case TRM_OP_ALL_GATHER_START:
    case TRM_OP_ASYNC_START:
    case TRM_OP_BITCAST:
    case TRM_OP_BITCAST_CONVERT:
    case TRM_OP_BROADCAST:
    case TRM_OP_COLLECTIVE_PERMUTE_START:
    case TRM_OP_CONSTANT:
    case TRM_OP_CONVERT:
    case TRM_OP_COPY_START:
    case TRM_OP_CUSTOM_CALL:
    case TRM_OP_DYNAMIC_RESHAPE:
    case TRM_OP_INFEED:
    case TRM_OP_IOTA:
    case TRM_OP_PARAMETER:
    case TRM_OP_RECV:
    case TRM_OP_REDUCE_SCATTER:
    case TRM_OP_RESHAPE:
    case TRM_OP_RNG:
    case TRM_OP_RNG_BIT_GENERATOR:
    case TRM_OP_RNG_GET_AND_UPDATE_STATE:
    case TRM_OP_SCAN:
    case TRM_OP_STOCHASTIC_CONVERT: return true;
    default: return false;
  }
}

static trm_status check_has_shape(trm_parser *parser, const trm_pending_instruction *pending) {
  const trm_opcode opcode = pending->instruction.opcode;
  if (!pending->has_shape && needs_shape(opcode)) {
    return trm_lexer_fail(&parser->lexer, pending->at, "%s needs its shape, as in `f32[2] %s(...)`",
                          trm_opcode_name(opcode), trm_opcode_name(opcode));
  }
  return TRM_OK;
}

static trm_status check_required(trm_parser *parser, const trm_pending_instruction *pending) {
  const trm_attribute *attribute;
  bool required;
  const trm_opcode opcode = pending->instruction.opcode;
  for (int i = 0; (attribute = trm_attribute_of(opcode, i, &required)) != NULL; ++i) {
    /* A broadcast of a scalar has no dimensions to name; of another, inference says so. */
    if (required && (pending->seen >> i & 1) == 0 && opcode != TRM_OP_BROADCAST) {
      return trm_lexer_fail(&parser->lexer, pending->at, "%s lacks its attribute '%s'",
                            trm_opcode_name(opcode), attribute->name);
    }
  }
  if (opcode == TRM_OP_CONDITIONAL && pending->instruction.num_called == 0) {
    return trm_lexer_fail(&parser->lexer, pending->at,
                          "conditional lacks true_computation and false_computation, or "
                          "branch_computations");
  }
  return TRM_OK;
}

static trm_status parse_attributes(trm_parser *parser, trm_pending_instruction *pending) {
  pending->controls = parser->controls.count;
  pending->called = parser->called.count;
  while (trm_lexer_accept(&parser->lexer, ',')) TRY(trm_parse_attribute(parser, pending));
  return TRM_OK;
}

/* `(operands...), attributes` for the opcode in *pending; inside another instruction (a depth)
 * there are no attributes. */
static trm_status parse_call(trm_reader *r, trm_pending_computation *computation, int depth,
                             trm_pending_instruction *pending) {
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  trm_instruction *instruction = &pending->instruction;
  pending->num_ranges = 0;
  if (!trm_attribute_make_blocks(&parser->module->arena, instruction)) {
    FAIL_NO_MEMORY("an instruction");
  }
  instruction->largest = instruction->opcode == TRM_OP_TOPK; /* unless the text says otherwise */
  TRY(parse_operands(r, computation, depth, pending));
  if (depth == 0) TRY(parse_attributes(parser, pending));
  const int arity = trm_opcode_arity(instruction->opcode);
  if (arity >= 0 && (uint32_t)arity != instruction->num_operands) {
    return trm_lexer_fail(&parser->lexer, pending->at, "%s takes %d operand%s, not %" PRIu32,
                          trm_opcode_name(instruction->opcode), arity, arity == 1 ? "" : "s",
                          instruction->num_operands);
  }
  return check_required(parser, pending);
}

/* Attributes of `<opcode>-start` belong to the wrapped instruction, the operands to both. */
static trm_status parse_async(trm_reader *r, trm_pending_computation *computation,
                              trm_pending_instruction *pending, trm_opcode wrapped) {
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  pending->has_wrapped = true;
  pending->wrapped = wrapped;
  if (pending->instruction.opcode != TRM_OP_ASYNC_START) {
    TRY(parse_operands(r, computation, 0, pending));
    return parse_attributes(parser, pending);
  }
  const trm_shape *shape = &pending->instruction.shape;
  if (!pending->has_shape || shape->dtype != TRM_TUPLE || shape->num_elements < 2 ||
      shape->elements[0].dtype != TRM_TUPLE) {
    return trm_lexer_fail(&parser->lexer, pending->at,
                          "the shape of an asynchronous start is ((operands), result, ...)");
  }
  trm_pending_async async = {.wrapped = *pending};
  trm_pending_instruction *inner = &async.wrapped;
  inner->instruction.opcode = wrapped;
  inner->instruction.shape = shape->elements[1];
  TRY(parse_call(r, computation, 0, inner));
  if (inner->instruction.num_operands != (uint32_t)shape->elements[0].num_elements) {
    return trm_lexer_fail(&parser->lexer, pending->at,
                          "the shape of an asynchronous start names %d operands; it has %" PRIu32,
                          shape->elements[0].num_elements, inner->instruction.num_operands);
  }
  /* Order and origin are the start's. */
  trm_instruction *outer = &pending->instruction;
  outer->num_operands = inner->instruction.num_operands;
  outer->num_control_predecessors = inner->instruction.num_control_predecessors;
  outer->metadata = inner->instruction.metadata;
  inner->instruction.num_control_predecessors = 0;
  pending->operands = inner->operands;
  pending->controls = inner->controls;
  async.instruction = (uint32_t)r->instructions.count; /* behind those among its operands */
  if (!VECTOR_PUSH(&r->asyncs, async)) FAIL_NO_MEMORY("an instruction");
  return TRM_OK;
}

/* `add(%a, %b)` as an operand; `shape` stood before it, or is NULL. */
static trm_status parse_anonymous(trm_reader *r, trm_pending_computation *computation, int depth,
                                  const trm_shape *shape, trm_reference *reference) {
  trm_parser *parser = &r->parser;
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_opcode wrapped;
  trm_pending_instruction pending = {
      .at = lexer->token, .has_shape = shape != NULL, .num_constraints = TRM_NO_INDEX};
  if (depth > MAX_NESTING) {
    return trm_lexer_fail(lexer, lexer->token, "instructions are nested more than %d deep",
                          MAX_NESTING);
  }
  if (shape != NULL) pending.instruction.shape = *shape;
  TRY(parse_opcode(parser, &pending.instruction.opcode, &wrapped));
  if (wrapped != TRM_NUM_OPCODES) {
    return trm_lexer_fail(lexer, pending.at, "an asynchronous instruction needs a name");
  }
  TRY(check_has_shape(parser, &pending));
  TRY(parse_call(r, computation, depth, &pending));
  reference->shape = NULL; /* it is the instruction's */
  reference->name =
      trm_arena_format(&parser->module->arena, "%s.anon.%" PRIu32,
                       trm_opcode_name(pending.instruction.opcode), computation->count);
  CHECK_MEMORY(reference->name, "a name");
  reference->length = (uint32_t)strlen(reference->name);
  pending.instruction.name = reference->name;
  return push_instruction(r, computation, &pending);
}

/* `ROOT %name = f32[2] add(%a, %b), attributes`; the name may be missing in a text of one
 * instruction. */
static trm_status parse_instruction(trm_reader *r, trm_pending_computation *computation) {
  trm_parser *parser = &r->parser;
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_pending_instruction pending = {.num_constraints = TRM_NO_INDEX};
  trm_instruction *instruction = &pending.instruction;
  trm_opcode wrapped;
  const char *name = "root";
  size_t length = strlen(name);
  const char next = trm_lexer_peek(lexer);
  const bool is_root = trm_lexer_is(lexer, "ROOT") && next != '=';
  if (is_root) {
    if (computation->root != TRM_NO_INDEX) {
      return trm_lexer_fail(lexer, lexer->token, "a second ROOT in computation %.*s",
                            SLICE_ARGS(computation->name, computation->length));
    }
    trm_lexer_next(lexer);
  }
  pending.at = lexer->token;
  if (!r->is_single || !trm_parse_is_shape(parser)) {
    TRY(trm_parse_name(parser, "an instruction or '}'", &name, &length));
    TRY(trm_lexer_expect(lexer, '=', "'='"));
  }
  instruction->name = trm_arena_string(&parser->module->arena, name, length);
  CHECK_MEMORY(instruction->name, "a name");
  pending.has_shape = trm_parse_is_shape(parser);
  if (pending.has_shape) TRY(trm_parse_shape(parser, &instruction->shape));
  TRY(parse_opcode(parser, &instruction->opcode, &wrapped));
  TRY(check_has_shape(parser, &pending));
  TRY_NOTE(wrapped == TRM_NUM_OPCODES ? parse_call(r, computation, 0, &pending)
                                      : parse_async(r, computation, &pending, wrapped),
           "while reading %%%s", instruction->name);
  if (is_root) computation->root = computation->count;
  return push_instruction(r, computation, &pending);
}

/* ---- Computations and the header ------------------------------------------------------------ */

/* `(p: f32[2], q: (s32[], f32[])) -> f32[2]` */
static trm_status parse_signature(trm_parser *parser, trm_pending_computation *computation) {
  trm_lexer *lexer = &parser->lexer;
  TRY(trm_lexer_expect(lexer, '(', "'('"));
  if (lexer->kind != ')') {
    do {
      const char *name;
      size_t length;
      trm_shape shape;
      TRY(trm_parse_name(parser, "a parameter's name", &name, &length));
      TRY(trm_lexer_expect(lexer, ':', "':' and the parameter's shape"));
      TRY(trm_parse_shape(parser, &shape));
    } while (trm_lexer_accept(lexer, ','));
  }
  TRY(trm_lexer_expect(lexer, ')', "',' or ')'"));
  TRY(trm_lexer_expect(lexer, TOKEN_ARROW, "'->' and the result's shape"));
  TRY(trm_parse_shape(parser, &computation->result));
  computation->has_signature = true;
  return TRM_OK;
}

/* Behind the last instruction of a computation. */
static trm_status end_computation(trm_reader *r, trm_pending_computation *computation) {
  trm_error *error = r->parser.error;
  if (computation->count == 0) {
    return trm_lexer_fail(&r->parser.lexer, computation->at, "computation %.*s has no instructions",
                          SLICE_ARGS(computation->name, computation->length));
  }
  if (computation->root == TRM_NO_INDEX) computation->root = computation->count - 1;
  computation->refusal = r->parser.refusal;
  r->parser.refusal = (trm_refusal){NULL, NULL};
  if (!VECTOR_PUSH(&r->computations, *computation)) FAIL_NO_MEMORY("computations");
  return TRM_OK;
}

static trm_status parse_computation(trm_reader *r) {
  trm_parser *parser = &r->parser;
  trm_lexer *lexer = &parser->lexer;
  trm_pending_computation computation = {.root = TRM_NO_INDEX,
                                         .first = (uint32_t)r->instructions.count};
  if (trm_lexer_is(lexer, "ENTRY")) {
    if (r->entry != TRM_NO_INDEX) {
      return trm_lexer_fail(lexer, lexer->token, "a second ENTRY computation");
    }
    r->entry = (uint32_t)r->computations.count;
    trm_lexer_next(lexer);
  }
  computation.at = lexer->token;
  TRY(trm_parse_name(parser, "a computation", &computation.name, &computation.length));
  if (lexer->kind == '(') TRY(parse_signature(parser, &computation));
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  while (lexer->kind != '}') TRY(parse_instruction(r, &computation));
  trm_lexer_next(lexer);
  while (trm_lexer_accept(lexer, ',')) { /* the engine decides about threads and places */
    if (!trm_lexer_is(lexer, "execution_thread") && !trm_lexer_is(lexer, "backend_config")) {
      return trm_lexer_unexpected(lexer, "execution_thread or backend_config");
    }
    trm_lexer_next(lexer);
    TRY(trm_lexer_expect(lexer, '=', "'='"));
    TRY(trm_lexer_skip_value(lexer));
  }
  return end_computation(r, &computation);
}

/* The computations that stood in the place of their names; they may hold more of them. */
static trm_status parse_inlines(trm_reader *r) {
  trm_parser *parser = &r->parser;
  trm_lexer *lexer = &parser->lexer;
  for (size_t i = 0; i < parser->inlines.count; ++i) {
    *lexer = parser->inlines.items[i].lexer;
    trm_pending_computation computation = {.root = TRM_NO_INDEX,
                                           .first = (uint32_t)r->instructions.count,
                                           .at = lexer->token,
                                           .name = parser->inlines.items[i].name};
    computation.length = strlen(computation.name);
    TRY(trm_lexer_expect(lexer, '{', "'{'"));
    while (lexer->kind != '}') TRY(parse_instruction(r, &computation));
    TRY(end_computation(r, &computation));
  }
  return TRM_OK;
}

/* A text of one instruction, `%y = f32[2] add(f32[2] %x, f32[2] %x)`: an entry computation of it
 * and parameters. */
static trm_status parse_single(trm_reader *r) {
  trm_parser *parser = &r->parser;
  trm_pending_computation computation = {
      .root = TRM_NO_INDEX, .at = parser->lexer.token, .name = "entry", .length = strlen("entry")};
  r->is_single = true;
  r->entry = 0;
  TRY(parse_instruction(r, &computation));
  r->is_single = false;
  if (parser->lexer.kind != TOKEN_END) {
    return trm_lexer_unexpected(&parser->lexer,
                                "the end of a text of one instruction (several need a computation "
                                "around them)");
  }
  return end_computation(r, &computation);
}

/* A module; or computations, or one instruction, without a header. */
static trm_status parse_text(trm_reader *r) {
  trm_lexer *lexer = &r->parser.lexer;
  const bool is_named = lexer->kind == TOKEN_NAME || lexer->kind == TOKEN_IDENTIFIER;
  const char next = trm_lexer_peek(lexer);
  if (trm_lexer_is(lexer, "HloModule")) {
    TRY(trm_parse_header(&r->parser));
  } else if (trm_parse_is_shape(&r->parser) || (is_named && next == '=') ||
             (trm_lexer_is(lexer, "ROOT") && next != '{' && next != '(')) {
    TRY(parse_single(r));
  } else if (!trm_lexer_is(lexer, "ENTRY") && !(is_named && (next == '{' || next == '('))) {
    return trm_lexer_fail(lexer, lexer->token,
                          "the input is a text that does not begin with 'HloModule'; expected "
                          "XLA's HLO text or a serialised HloModuleProto");
  }
  if (*r->parser.module->name == '\0') r->parser.module->name = "module"; /* had no header */
  while (lexer->kind != TOKEN_END) {
    if (trm_lexer_is(lexer, "HloModule")) {
      return trm_lexer_fail(lexer, lexer->token,
                            "a second module begins; a text has one (where lines '// -----' part "
                            "modules, the command line takes FILE:2)");
    }
    TRY(parse_computation(r));
  }
  const size_t count = r->computations.count;
  if (count == 0) {
    return trm_lexer_fail(lexer, lexer->token, "the module has no computations");
  }
  if (r->entry == TRM_NO_INDEX) r->entry = (uint32_t)count - 1; /* as XLA: the last one */
  return parse_inlines(r);
}

/* Makes a computation of each wrapped instruction: parameters, and the instruction as root. */
static trm_status expand_asyncs(trm_reader *r) {
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  trm_arena *arena = &parser->module->arena;
  for (size_t i = 0; i < r->asyncs.count; ++i) {
    trm_pending_async *async = &r->asyncs.items[i];
    trm_pending_instruction *outer = &r->instructions.items[async->instruction];
    trm_instruction *wrapped = &async->wrapped.instruction;
    const uint32_t num_operands = wrapped->num_operands;
    trm_pending_computation computation = {.first = (uint32_t)r->instructions.count,
                                           .count = num_operands + 1,
                                           .root = num_operands,
                                           .at = outer->at};
    const char *name = trm_arena_format(arena, "%s.wrapped", outer->instruction.name);
    CHECK_MEMORY(name, "a name");
    computation.name = name;
    computation.length = strlen(name);
    const trm_reference called = {.name = name, .length = (uint32_t)computation.length};
    const char *at = outer->at;
    const trm_shape operand_shapes = outer->instruction.shape.elements[0];
    outer->instruction.num_called = 1;
    outer->called = parser->called.count;
    if (!VECTOR_PUSH(&parser->called, called)) FAIL_NO_MEMORY("a name");
    const size_t operands = parser->operands.count;
    for (uint32_t p = 0; p < num_operands; ++p) { /* `outer` may move from here on */
      trm_pending_instruction parameter = {
          .at = at, .has_shape = true, .num_constraints = TRM_NO_INDEX};
      parameter.instruction.opcode = TRM_OP_PARAMETER;
      parameter.instruction.number = p;
      parameter.instruction.shape = operand_shapes.elements[p];
      parameter.instruction.name = trm_arena_format(arena, "%s.p%" PRIu32, name, p);
      CHECK_MEMORY(parameter.instruction.name, "a name");
      const trm_reference operand = {.name = parameter.instruction.name,
                                     .length = (uint32_t)strlen(parameter.instruction.name)};
      if (!VECTOR_PUSH(&r->instructions, parameter) || !VECTOR_PUSH(&parser->operands, operand)) {
        FAIL_NO_MEMORY("instructions");
      }
    }
    async->wrapped.operands = operands;
    wrapped->name = trm_arena_format(arena, "%s.op", name);
    CHECK_MEMORY(wrapped->name, "a name");
    if (!VECTOR_PUSH(&r->instructions, async->wrapped) ||
        !VECTOR_PUSH(&r->computations, computation)) {
      FAIL_NO_MEMORY("instructions");
    }
  }
  return TRM_OK;
}

/* ---- The whole text ------------------------------------------------------------------------- */

trm_status trm_hlo_parse_text(const char *text, size_t size, trm_module **out_module,
                              trm_error *error) {
  trm_error unused;
  if (error == NULL) error = &unused;
  trm_reader r = {.entry = TRM_NO_INDEX};
  trm_module *module = NULL;
  trm_status status = TRM_OK;
  /* Numbers are read as in C, independent of the process's locale. */
  const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  char *copy = size < SIZE_MAX ? trm_allocate(size + 1) : NULL;
  if (copy == NULL || c_locale == (locale_t)0) {
    if (c_locale != (locale_t)0) freelocale(c_locale);
    trm_free(copy);
    FAIL_NO_MEMORY("a text");
  }
  const locale_t before = uselocale(c_locale);
  if (size > 0) memcpy(copy, text, size);
  copy[size] = '\0';
  TRY_OR_GOTO(trm_module_create("", &module, error), done);
  r.parser.module = module;
  r.parser.error = error;
  trm_lexer_start(&r.parser.lexer, copy, size, error);
  TRY_OR_GOTO(parse_text(&r), done);
  TRY_OR_GOTO(expand_asyncs(&r), done);
  TRY_OR_GOTO(trm_parse_build(&r), done);
  if (r.num_elided > 0) {
    trm_log(TRM_LOG_WARN, "COMPILER",
            "The text of the module %s leaves out the values of %u constant%s ('{...}'): random "
            "values stand for them, so its shapes, memory and cycles are right and its numbers "
            "are not. A text that was printed with print_large_constants "
            "(XLA_FLAGS=--xla_dump_large_constants) or the serialised HloModuleProto "
            "(--xla_dump_hlo_as_proto) has them",
            module->name, r.num_elided, r.num_elided == 1 ? "" : "s");
  }
  *out_module = module;
  module = NULL;
done:
  uselocale(before);
  freelocale(c_locale);
  trm_module_free(module);
  VECTOR_FREE(&r.computations);
  VECTOR_FREE(&r.instructions);
  VECTOR_FREE(&r.asyncs);
  VECTOR_FREE(&r.parser.operands);
  VECTOR_FREE(&r.parser.open);
  VECTOR_FREE(&r.parser.inlines);
  VECTOR_FREE(&r.parser.controls);
  VECTOR_FREE(&r.parser.called);
  VECTOR_FREE(&r.parser.numbers);
  VECTOR_FREE(&r.parser.shapes);
  VECTOR_FREE(&r.parser.files);
  VECTOR_FREE(&r.parser.locations);
  VECTOR_FREE(&r.parser.frames);
  trm_free(copy);
  return status;
}
