/* Owns: the structure of HLO text: modules, computations, instructions, shapes, names.
 *
 * The text is read once into pending instructions, whose operands are names. Then computations are
 * ordered callees first and the instructions of each operands first (both keep the text's order
 * where that is legal), and added to the module. */
#include "hlo/parse.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "hlo/literal.h"

enum { MAX_TUPLE_DEPTH = 60 };

typedef struct pending_computation {
  const char *name; /* a slice of the text */
  size_t length;
  uint32_t first, count; /* its instructions among all */
  uint32_t root;         /* of them; TRM_NO_INDEX: none was marked */
  const char *at;
  bool has_signature;
  uint32_t num_parameters; /* of the signature */
  const trm_shape *parameters;
  trm_shape result;
} pending_computation;

/* `custom-call-start` and the like: short for async-start of a computation of one instruction. */
typedef struct pending_async {
  uint32_t instruction;
  trm_pending_instruction wrapped;
} pending_async;

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

trm_status trm_parse_name(trm_parser *parser, const char *what, const char **out_name,
                          size_t *out_length) {
  trm_lexer *lexer = &parser->lexer;
  if (lexer->kind != TOKEN_NAME && lexer->kind != TOKEN_IDENTIFIER) {
    return trm_lexer_unexpected(lexer, what);
  }
  if (lexer->length == 0 || lexer->length > 65536 || memchr(lexer->token, 0, lexer->length)) {
    return trm_lexer_fail(lexer, lexer->token, "a name of %zu characters", lexer->length);
  }
  *out_name = lexer->token;
  *out_length = lexer->length;
  trm_lexer_next(lexer);
  return TRM_OK;
}

/* ---- Shapes --------------------------------------------------------------------------------- */

static bool find_dtype(const char *name, size_t length, trm_dtype *out_dtype) {
  static const struct {
    const char *name;
    trm_dtype dtype;
  } dtypes[] = {
#define TRM_DTYPE(id, number, text, bytes) {text, TRM_##id},
#include "tremula/dtype.def"
#undef TRM_DTYPE
  };
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) {
    if (dtypes[i].dtype != TRM_TUPLE && dtypes[i].dtype != TRM_INVALID_TYPE &&
        strlen(dtypes[i].name) == length && memcmp(dtypes[i].name, name, length) == 0) {
      *out_dtype = dtypes[i].dtype;
      return true;
    }
  }
  return false;
}

/* `{1,0:T(8,128)S(1)}`: the permutation is kept, tiles and memory spaces are not. */
static trm_status parse_layout(trm_parser *parser, trm_shape *shape) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  const char *where = lexer->token;
  int64_t layout[TRM_MAX_RANK];
  int32_t count = 0;
  bool is_row_major = true;
  trm_lexer_next(lexer);
  while (lexer->kind == TOKEN_NUMBER) {
    if (count == TRM_MAX_RANK) {
      return trm_lexer_fail(lexer, where, "a layout of more than %d dimensions", TRM_MAX_RANK);
    }
    TRY(trm_lexer_integer(lexer, &layout[count]));
    is_row_major = is_row_major && layout[count] == shape->rank - 1 - count;
    ++count;
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  if (trm_lexer_accept(lexer, ':')) {
    while (lexer->kind != '}') {
      if (lexer->kind == '(') {
        TRY(trm_lexer_skip_group(lexer, NULL, NULL));
      } else if (lexer->kind == TOKEN_IDENTIFIER || lexer->kind == '*' || lexer->kind == '#') {
        trm_lexer_next(lexer);
      } else {
        return trm_lexer_unexpected(lexer, "the end of a layout");
      }
    }
  }
  TRY(trm_lexer_expect(lexer, '}', "'}' of a layout"));
  if (count != shape->rank) {
    return trm_lexer_fail(lexer, where, "a layout of %d dimensions for a shape of %d", count,
                          shape->rank);
  }
  if (!is_row_major) {
    shape->layout = trm_arena_copy(&parser->module->arena, layout, (size_t)count * sizeof *layout);
    CHECK_MEMORY(shape->layout, "a layout");
  }
  return TRM_OK;
}

static trm_status parse_array_shape(trm_parser *parser, trm_shape *out_shape) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_dtype dtype;
  int64_t dims[TRM_MAX_RANK];
  int32_t rank = 0;
  if (lexer->kind != TOKEN_IDENTIFIER) {
    return trm_lexer_unexpected(lexer, "a shape such as f32[2,3]");
  }
  if (!find_dtype(lexer->token, lexer->length, &dtype)) {
    return trm_lexer_fail(lexer, lexer->token, "the element type '%.*s' is not supported",
                          SLICE_ARGS(lexer->token, lexer->length));
  }
  const bool is_array = dtype != TRM_TOKEN && dtype != TRM_OPAQUE;
  trm_lexer_next(lexer);
  TRY(trm_lexer_expect(lexer, '[', "'[' of a shape"));
  while (lexer->kind != ']') {
    if (lexer->kind == '<' || lexer->kind == '?') {
      return trm_lexer_fail(lexer, lexer->token,
                            "dynamic shapes are not supported: every dimension needs a fixed size");
    }
    if (rank == TRM_MAX_RANK || !is_array) {
      return trm_lexer_fail(lexer, lexer->token, "a shape has more than %d dimensions",
                            is_array ? TRM_MAX_RANK : 0);
    }
    TRY(trm_lexer_integer(lexer, &dims[rank++]));
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  TRY(trm_lexer_expect(lexer, ']', "']' of a shape"));
  if (!trm_shape_make(&parser->module->arena, dtype, rank, dims, out_shape)) {
    FAIL_NO_MEMORY("a shape");
  }
  if (lexer->kind == '{') {
    const char next = trm_lexer_peek(lexer);
    const bool touches = lexer->token == lexer->previous;
    if ((next >= '0' && next <= '9') || next == ':' || (next == '}' && touches)) {
      return parse_layout(parser, out_shape);
    }
  }
  return TRM_OK;
}

trm_status trm_parse_shape(trm_parser *parser, trm_shape *out_shape) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  const char *where = lexer->token;
  const size_t base = parser->shapes.count;
  size_t starts[MAX_TUPLE_DEPTH]; /* the first element of each open tuple */
  int depth = 0;
  trm_shape shape;
  for (;;) {
    bool complete = true;
    if (lexer->kind == '(') {
      if (depth == MAX_TUPLE_DEPTH) {
        return trm_lexer_fail(lexer, lexer->token, "tuples are nested more than %d deep",
                              MAX_TUPLE_DEPTH);
      }
      starts[depth++] = parser->shapes.count;
      trm_lexer_next(lexer);
      complete = lexer->kind == ')';
    } else {
      TRY(parse_array_shape(parser, &shape));
      if (depth == 0) break;
      if (!VECTOR_PUSH(&parser->shapes, shape)) FAIL_NO_MEMORY("a shape");
    }
    /* What follows a complete element: another, or the ends of tuples. */
    while (complete && depth > 0) {
      if (trm_lexer_accept(lexer, ',')) break;
      TRY(trm_lexer_expect(lexer, ')', "',' or ')' in a tuple's shape"));
      const size_t start = starts[--depth];
      const size_t count = parser->shapes.count - start;
      if (count > INT32_MAX ||
          !trm_shape_make_tuple(&parser->module->arena, (int32_t)count,
                                count > 0 ? parser->shapes.items + start : &shape, &shape)) {
        FAIL_NO_MEMORY("a shape");
      }
      parser->shapes.count = start;
      if (depth > 0 && !VECTOR_PUSH(&parser->shapes, shape)) FAIL_NO_MEMORY("a shape");
    }
    if (complete && depth == 0) break;
  }
  parser->shapes.count = base;
  trm_error reason;
  if (trm_shape_check(&shape, &reason) != TRM_OK) {
    return trm_lexer_fail(lexer, where, "%s", reason.message);
  }
  *out_shape = shape;
  return TRM_OK;
}

bool trm_parse_is_shape(const trm_parser *parser) {
  const trm_lexer *lexer = &parser->lexer;
  return lexer->kind == '(' ||
         (lexer->kind == TOKEN_IDENTIFIER && *lexer->at == '[');
}

/* ---- Instructions --------------------------------------------------------------------------- */

/* The state of reading a whole text. */
typedef struct reader {
  trm_parser parser;
  VECTOR(pending_computation) computations;
  VECTOR(trm_pending_instruction) instructions;
  VECTOR(pending_async) asyncs;
  uint32_t entry; /* of computations; TRM_NO_INDEX: not yet */
} reader;

static trm_status parse_operand(trm_parser *parser) {
  trm_error *error = parser->error;
  trm_reference reference = {0};
  size_t length;
  if (trm_parse_is_shape(parser)) {
    trm_shape *shape = ARENA_NEW(&parser->module->arena, trm_shape, 1);
    CHECK_MEMORY(shape, "a shape");
    TRY(trm_parse_shape(parser, shape));
    reference.shape = shape;
  }
  TRY(trm_parse_name(parser, "an operand", &reference.name, &length));
  reference.length = (uint32_t)length;
  if (!VECTOR_PUSH(&parser->operands, reference)) FAIL_NO_MEMORY("operands");
  return TRM_OK;
}

/* What stands between the parentheses behind the opcode. */
static trm_status parse_operands(trm_parser *parser, trm_pending_instruction *pending) {
  trm_lexer *lexer = &parser->lexer;
  trm_instruction *instruction = &pending->instruction;
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
  } else if (lexer->kind != ')') {
    do {
      TRY(parse_operand(parser));
      ++instruction->num_operands;
    } while (trm_lexer_accept(lexer, ','));
  }
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
static trm_status parse_opcode(trm_parser *parser, trm_opcode *out_opcode, trm_opcode *out_wrapped) {
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

static trm_status check_required(trm_parser *parser, const trm_pending_instruction *pending) {
  const trm_attribute *attribute;
  bool required;
  const trm_opcode opcode = pending->instruction.opcode;
  for (int i = 0; (attribute = trm_attribute_of(opcode, i, &required)) != NULL; ++i) {
    if (required && (pending->seen >> i & 1) == 0) {
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

/* `(operands...), attributes` for the opcode in *pending. */
static trm_status parse_call(trm_parser *parser, trm_pending_instruction *pending) {
  trm_error *error = parser->error;
  trm_instruction *instruction = &pending->instruction;
  pending->operands = parser->operands.count;
  pending->controls = parser->controls.count;
  pending->called = parser->called.count;
  pending->num_ranges = 0;
  if (!trm_attribute_make_blocks(&parser->module->arena, instruction)) {
    FAIL_NO_MEMORY("an instruction");
  }
  TRY(parse_operands(parser, pending));
  while (trm_lexer_accept(&parser->lexer, ',')) TRY(trm_parse_attribute(parser, pending));
  const int arity = trm_opcode_arity(instruction->opcode);
  if (arity >= 0 && (uint32_t)arity != instruction->num_operands) {
    return trm_lexer_fail(&parser->lexer, pending->at, "%s takes %d operand%s, not %" PRIu32,
                          trm_opcode_name(instruction->opcode), arity, arity == 1 ? "" : "s",
                          instruction->num_operands);
  }
  return check_required(parser, pending);
}

/* Attributes of `<opcode>-start` belong to the wrapped instruction, the operands to both. */
static trm_status parse_async(reader *r, trm_pending_instruction *pending, trm_opcode wrapped) {
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  if (pending->instruction.opcode != TRM_OP_ASYNC_START) {
    pending->operands = parser->operands.count;
    pending->controls = parser->controls.count;
    pending->called = parser->called.count;
    TRY(parse_operands(parser, pending));
    while (trm_lexer_accept(&parser->lexer, ',')) TRY(trm_parse_attribute(parser, pending));
    return TRM_OK;
  }
  const trm_shape *shape = &pending->instruction.shape;
  if (!pending->has_shape || shape->dtype != TRM_TUPLE || shape->num_elements < 2 ||
      shape->elements[0].dtype != TRM_TUPLE) {
    return trm_lexer_fail(&parser->lexer, pending->at,
                          "the shape of an asynchronous start is ((operands), result, ...)");
  }
  pending_async async = {(uint32_t)r->instructions.count, *pending};
  trm_pending_instruction *inner = &async.wrapped;
  inner->instruction.opcode = wrapped;
  inner->instruction.shape = shape->elements[1];
  TRY(parse_call(parser, inner));
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
  if (!VECTOR_PUSH(&r->asyncs, async)) FAIL_NO_MEMORY("an instruction");
  return TRM_OK;
}

/* `ROOT %name = f32[2] add(%a, %b), attributes` */
static trm_status parse_instruction(reader *r, pending_computation *computation) {
  trm_parser *parser = &r->parser;
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_pending_instruction pending = {0};
  trm_instruction *instruction = &pending.instruction;
  trm_opcode wrapped;
  const char *name;
  size_t length;
  const char next = trm_lexer_peek(lexer);
  const bool is_root = trm_lexer_is(lexer, "ROOT") && next != '=';
  if (is_root) {
    if (computation->root != TRM_NO_INDEX) {
      return trm_lexer_fail(lexer, lexer->token, "a second ROOT in computation %.*s",
                            SLICE_ARGS(computation->name, computation->length));
    }
    computation->root = computation->count;
    trm_lexer_next(lexer);
  }
  pending.at = lexer->token;
  TRY(trm_parse_name(parser, "an instruction or '}'", &name, &length));
  instruction->name = trm_arena_string(&parser->module->arena, name, length);
  CHECK_MEMORY(instruction->name, "a name");
  TRY(trm_lexer_expect(lexer, '=', "'='"));
  pending.has_shape = trm_parse_is_shape(parser);
  if (pending.has_shape) TRY(trm_parse_shape(parser, &instruction->shape));
  TRY(parse_opcode(parser, &instruction->opcode, &wrapped));
  if (!pending.has_shape &&
      (instruction->opcode == TRM_OP_CONSTANT || instruction->opcode == TRM_OP_PARAMETER ||
       trm_opcode_class_of(instruction->opcode) == TRM_CLASS_SOURCE)) {
    return trm_lexer_fail(lexer, pending.at, "%s needs its shape, as in `%.*s = f32[2] %s(...)`",
                          trm_opcode_name(instruction->opcode), SLICE_ARGS(name, length),
                          trm_opcode_name(instruction->opcode));
  }
  TRY_NOTE(wrapped == TRM_NUM_OPCODES ? parse_call(parser, &pending)
                                      : parse_async(r, &pending, wrapped),
           "while reading %%%s", instruction->name);
  if (r->instructions.count >= TRM_NO_INDEX / 4 || !VECTOR_PUSH(&r->instructions, pending)) {
    FAIL_NO_MEMORY("instructions");
  }
  ++computation->count;
  return TRM_OK;
}

/* ---- Computations and the header ------------------------------------------------------------ */

/* `(p: f32[2], q: (s32[], f32[])) -> f32[2]` */
static trm_status parse_signature(trm_parser *parser, pending_computation *computation) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  const size_t base = parser->shapes.count;
  TRY(trm_lexer_expect(lexer, '(', "'('"));
  if (lexer->kind != ')') {
    do {
      const char *name;
      size_t length;
      trm_shape shape;
      TRY(trm_parse_name(parser, "a parameter's name", &name, &length));
      TRY(trm_lexer_expect(lexer, ':', "':' and the parameter's shape"));
      TRY(trm_parse_shape(parser, &shape));
      if (!VECTOR_PUSH(&parser->shapes, shape)) FAIL_NO_MEMORY("a signature");
    } while (trm_lexer_accept(lexer, ','));
  }
  TRY(trm_lexer_expect(lexer, ')', "',' or ')'"));
  TRY(trm_lexer_expect(lexer, TOKEN_ARROW, "'->' and the result's shape"));
  TRY(trm_parse_shape(parser, &computation->result));
  computation->has_signature = true;
  computation->num_parameters = (uint32_t)(parser->shapes.count - base);
  computation->parameters =
      trm_arena_copy(&parser->module->arena, parser->shapes.items + base,
                     computation->num_parameters * sizeof(trm_shape));
  CHECK_MEMORY(computation->parameters, "a signature");
  parser->shapes.count = base;
  return TRM_OK;
}

static trm_status parse_computation(reader *r) {
  trm_parser *parser = &r->parser;
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  pending_computation computation = {.root = TRM_NO_INDEX,
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
  while (trm_lexer_accept(lexer, ',')) { /* execution_thread="main" */
    if (!trm_lexer_is(lexer, "execution_thread")) {
      return trm_lexer_unexpected(lexer, "execution_thread, a computation's only attribute,");
    }
    trm_lexer_next(lexer);
    TRY(trm_lexer_expect(lexer, '=', "'='"));
    TRY(trm_lexer_skip_value(lexer));
  }
  if (computation.count == 0) {
    return trm_lexer_fail(lexer, computation.at, "computation %.*s has no instructions",
                          SLICE_ARGS(computation.name, computation.length));
  }
  if (computation.root == TRM_NO_INDEX) computation.root = computation.count - 1;
  if (!VECTOR_PUSH(&r->computations, computation)) FAIL_NO_MEMORY("computations");
  return TRM_OK;
}

/* `{ {0}: (2, {}, may-alias), {1,0}: (3, {1}) }` */
static trm_status parse_aliases(trm_parser *parser) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_module *module = parser->module;
  VECTOR(trm_alias) aliases = {0};
  trm_status status = TRM_OK;
  TRY_OR_GOTO(trm_lexer_expect(lexer, '{', "'{'"), done);
  while (lexer->kind != '}') {
    trm_alias alias = {0};
    TRY_OR_GOTO(trm_parse_dims(parser, &alias.output_index), done);
    TRY_OR_GOTO(trm_lexer_expect(lexer, ':', "':'"), done);
    if (lexer->kind == TOKEN_NUMBER) {
      TRY_OR_GOTO(trm_lexer_integer(lexer, &alias.parameter_number), done);
    } else {
      TRY_OR_GOTO(trm_lexer_expect(lexer, '(', "'(' and a parameter's number"), done);
      TRY_OR_GOTO(trm_lexer_integer(lexer, &alias.parameter_number), done);
      TRY_OR_GOTO(trm_lexer_expect(lexer, ',', "','"), done);
      TRY_OR_GOTO(trm_parse_dims(parser, &alias.parameter_index), done);
      if (trm_lexer_accept(lexer, ',')) {
        alias.must_alias = trm_lexer_is(lexer, "must-alias");
        if (!alias.must_alias && !trm_lexer_is(lexer, "may-alias")) {
          status = trm_lexer_unexpected(lexer, "may-alias or must-alias");
          goto done;
        }
        trm_lexer_next(lexer);
      }
      TRY_OR_GOTO(trm_lexer_expect(lexer, ')', "')'"), done);
    }
    if (!VECTOR_PUSH(&aliases, alias)) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  TRY_OR_GOTO(trm_lexer_expect(lexer, '}', "'}'"), done);
  module->num_aliases = (uint32_t)aliases.count;
  module->aliases =
      trm_arena_copy(&module->arena, aliases.items, aliases.count * sizeof *aliases.items);
  if (module->aliases == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
done:
  VECTOR_FREE(&aliases);
  return status;
}

/* The layouts follow from the parameters; partitioning and fingerprints are another program's. */
static const char *const ignored_header[] = {
    "entry_computation_layout", "replica_count", "num_partitions", "buffer_donor",
    "allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output",
    "alias_passthrough_params", "spmd_output_sharding", "spmd_parameters_shardings",
    "use_auto_spmd_partitioning", "fdo_profile", "fingerprint", "execution_thread", "origin"};

static trm_status parse_header_attribute(trm_parser *parser) {
  trm_lexer *lexer = &parser->lexer;
  if (lexer->kind != TOKEN_IDENTIFIER) {
    return trm_lexer_unexpected(lexer, "an attribute of the module");
  }
  bool known = false;
  const char *name = lexer->token;
  const size_t length = lexer->length;
  const bool aliases = trm_lexer_is(lexer, "input_output_alias");
  const bool scheduled = trm_lexer_is(lexer, "is_scheduled");
  const bool frontend = trm_lexer_is(lexer, "frontend_attributes");
  for (size_t i = 0; i < sizeof ignored_header / sizeof *ignored_header && !known; ++i) {
    known = trm_lexer_is(lexer, ignored_header[i]);
  }
  if (!known && !aliases && !scheduled && !frontend) {
    return trm_lexer_fail(lexer, name, "a module has no attribute '%.*s' that Tremula knows",
                          SLICE_ARGS(name, length));
  }
  trm_lexer_next(lexer);
  TRY(trm_lexer_expect(lexer, '=', "'='"));
  if (aliases) return parse_aliases(parser);
  if (scheduled) return trm_lexer_boolean(lexer, &parser->module->is_scheduled);
  if (!frontend) return trm_lexer_skip_value(lexer);
  const char *const *list;
  TRY(trm_parse_frontend_attributes(parser, &list));
  for (; list != NULL && *list != NULL; list += 2) {
    if (strcmp(list[0], "tremula_side_table") == 0) parser->module->frontend_side_table = list[1];
  }
  return TRM_OK;
}

static trm_status parse_text(reader *r) {
  trm_parser *parser = &r->parser;
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  const char *name;
  size_t length;
  if (!trm_lexer_is(lexer, "HloModule")) {
    return trm_lexer_unexpected(lexer, "'HloModule', with which HLO text begins");
  }
  trm_lexer_next(lexer);
  if (lexer->kind == TOKEN_STRING) {
    TRY(trm_lexer_string(lexer, &parser->module->arena, &name, NULL));
    length = strlen(name);
  } else {
    TRY(trm_parse_name(parser, "the module's name", &name, &length));
  }
  parser->module->name = trm_arena_string(&parser->module->arena, name, length);
  CHECK_MEMORY(parser->module->name, "a name");
  while (trm_lexer_accept(lexer, ',')) TRY(parse_header_attribute(parser));
  TRY(trm_parse_frames(parser));
  while (lexer->kind != TOKEN_END) TRY(parse_computation(r));
  if (r->computations.count == 0) {
    return trm_lexer_fail(lexer, lexer->token, "the module has no computations");
  }
  if (r->entry == TRM_NO_INDEX) {
    return trm_lexer_fail(lexer, lexer->token, "no computation is marked ENTRY");
  }
  return TRM_OK;
}

/* Makes a computation of each wrapped instruction: parameters, and the instruction as root. */
static trm_status expand_asyncs(reader *r) {
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  trm_arena *arena = &parser->module->arena;
  for (size_t i = 0; i < r->asyncs.count; ++i) {
    pending_async *async = &r->asyncs.items[i];
    trm_pending_instruction *outer = &r->instructions.items[async->instruction];
    trm_instruction *wrapped = &async->wrapped.instruction;
    const uint32_t num_operands = wrapped->num_operands;
    pending_computation computation = {.first = (uint32_t)r->instructions.count,
                                       .count = num_operands + 1, .root = num_operands,
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
      trm_pending_instruction parameter = {.at = at, .has_shape = true};
      parameter.instruction.opcode = TRM_OP_PARAMETER;
      parameter.instruction.number = p;
      parameter.instruction.shape = operand_shapes.elements[p];
      parameter.instruction.name = trm_arena_format(arena, "%s.p%" PRIu32, name, p);
      CHECK_MEMORY(parameter.instruction.name, "a name");
      const trm_reference operand = {
          .name = parameter.instruction.name,
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

/* ---- Order ---------------------------------------------------------------------------------- */

/* Edges node -> its dependencies, in compressed rows. */
typedef struct graph {
  uint32_t count;
  size_t *rows;      /* count + 1 */
  uint32_t *targets;
} graph;

/* The nodes with dependencies first, otherwise in their own order; *out_cycle gets a node of a
 * cycle when there is one (TRM_NO_INDEX: none). */
static trm_status order_nodes(const graph *g, uint32_t *order, uint32_t *out_cycle,
                              trm_error *error) {
  enum { NEW, OPEN, DONE };
  trm_status status = TRM_OK;
  uint32_t count = 0, depth;
  uint8_t *state = trm_allocate_zeroed(g->count, sizeof *state);
  uint32_t *stack = trm_allocate_zeroed(g->count, sizeof *stack);
  size_t *next = trm_allocate_zeroed(g->count, sizeof *next);
  *out_cycle = TRM_NO_INDEX;
  if (state == NULL || stack == NULL || next == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while ordering a module");
  }
  for (uint32_t start = 0; start < g->count; ++start) {
    if (state[start] != NEW) continue;
    depth = 0;
    stack[depth++] = start;
    state[start] = OPEN;
    next[start] = g->rows[start];
    while (depth > 0) {
      const uint32_t node = stack[depth - 1];
      if (next[node] == g->rows[node + 1]) {
        state[node] = DONE;
        order[count++] = node;
        --depth;
        continue;
      }
      const uint32_t target = g->targets[next[node]++];
      if (state[target] == OPEN) {
        *out_cycle = target;
        goto done;
      }
      if (state[target] == NEW) {
        state[target] = OPEN;
        next[target] = g->rows[target];
        stack[depth++] = target;
      }
    }
  }
done:
  trm_free(state);
  trm_free(stack);
  trm_free(next);
  return status;
}

/* ---- Into the module ------------------------------------------------------------------------ */

/* The tables that building needs, for all computations and instructions. */
typedef struct builder {
  reader *r;
  const char **names;          /* the module's name of each instruction */
  name_table module_names;     /* instructions' names, with how often each was renamed */
  uint32_t *computation_index; /* pending computation -> in the module */
  uint32_t *called;            /* called reference -> pending computation */
} builder;

/* Instruction names must be unique in the module; the text has them unique in a computation. */
static trm_status unique_names(builder *b) {
  reader *r = b->r;
  trm_error *error = r->parser.error;
  const size_t count = r->instructions.count;
  if (!table_create(&b->module_names, count * 2)) FAIL_NO_MEMORY("names");
  b->names = trm_allocate_zeroed(count, sizeof *b->names);
  CHECK_MEMORY(b->names, "names");
  for (size_t i = 0; i < count; ++i) {
    const char *name = r->instructions.items[i].instruction.name;
    name_entry *entry = table_find(&b->module_names, name, strlen(name));
    if (entry->name != NULL) continue; /* named below, when all that are there are known */
    *entry = (name_entry){name, strlen(name), 1};
    b->names[i] = name;
  }
  for (size_t i = 0; i < count; ++i) {
    const char *taken = r->instructions.items[i].instruction.name;
    name_entry *original = table_find(&b->module_names, taken, strlen(taken));
    while (b->names[i] == NULL) {
      const char *name = trm_arena_format(&r->parser.module->arena, "%s.%" PRIu32, taken,
                                          ++original->value);
      CHECK_MEMORY(name, "names");
      name_entry *entry = table_find(&b->module_names, name, strlen(name));
      if (entry->name != NULL) continue;
      *entry = (name_entry){name, strlen(name), 1};
      b->names[i] = name;
    }
  }
  return TRM_OK;
}

static trm_status unknown_name(const reader *r, const trm_reference *reference, const char *what) {
  return trm_lexer_fail(&r->parser.lexer, reference->name, "no %s is called '%.*s'", what,
                        SLICE_ARGS(reference->name, reference->length));
}

/* Finds what every instruction calls; orders the computations callees first. */
static trm_status resolve_computations(builder *b, uint32_t *order) {
  reader *r = b->r;
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  const uint32_t count = (uint32_t)r->computations.count;
  name_table names = {0};
  graph g = {.count = count};
  trm_status status = TRM_OK;
  g.rows = trm_allocate_zeroed((size_t)count + 1, sizeof *g.rows);
  g.targets = trm_allocate_zeroed(parser->called.count, sizeof *g.targets);
  b->called = trm_allocate_zeroed(parser->called.count, sizeof *b->called);
  if (g.rows == NULL || g.targets == NULL || b->called == NULL || !table_create(&names, count)) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while reading computations");
  }
  for (uint32_t i = 0; i < count; ++i) {
    const pending_computation *computation = &r->computations.items[i];
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
    const pending_computation *computation = &r->computations.items[i];
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
  uint32_t cycle;
  TRY_OR_GOTO(order_nodes(&g, order, &cycle, error), done);
  if (cycle != TRM_NO_INDEX) {
    const pending_computation *computation = &r->computations.items[cycle];
    status = trm_lexer_fail(&parser->lexer, computation->at,
                            "computation %.*s calls itself, directly or through others; HLO has "
                            "no recursion",
                            SLICE_ARGS(computation->name, computation->length));
  }
done:
  table_free(&names);
  trm_free(g.rows);
  trm_free(g.targets);
  return status;
}

/* Finds the operands of one computation's instructions as indices in the text's order. */
static trm_status resolve_operands(builder *b, const pending_computation *computation, graph *g) {
  reader *r = b->r;
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
static trm_status fill_called(builder *b, const trm_pending_instruction *pending,
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
    instruction->called[reference->slot] =
        b->computation_index[b->called[pending->called + c]];
  }
  return TRM_OK;
}

static trm_status check_ranges(const reader *r, const trm_computation *computation,
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

static trm_status check_operand_shapes(const reader *r, const trm_computation *computation,
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

static trm_status add_instruction(builder *b, uint32_t target, trm_pending_instruction *pending,
                                  int64_t id, trm_index *operands, uint32_t num_operands) {
  reader *r = b->r;
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

static trm_status check_signature(const reader *r, const pending_computation *pending,
                                  const trm_computation *computation) {
  const trm_lexer *lexer = &r->parser.lexer;
  char said[160], found[160];
  for (uint32_t p = 0; p < computation->num_parameters; ++p) {
    if (computation->parameters[p] == TRM_NO_INDEX) {
      return trm_lexer_fail(lexer, pending->at,
                            "computation %s has a parameter %" PRIu32 " but none with number "
                            "%" PRIu32, computation->name, computation->num_parameters - 1, p);
    }
  }
  if (!pending->has_signature) return TRM_OK;
  if (pending->num_parameters != computation->num_parameters) {
    return trm_lexer_fail(lexer, pending->at,
                          "computation %s has %" PRIu32 " parameters, its signature %" PRIu32,
                          computation->name, computation->num_parameters, pending->num_parameters);
  }
  const trm_shape *result = &computation->instructions[computation->root].shape;
  if (!trm_shape_equal(&pending->result, result)) {
    return trm_lexer_fail(lexer, pending->at, "computation %s gives %s, its signature says %s",
                          computation->name, trm_shape_text(result, found, sizeof found),
                          trm_shape_text(&pending->result, said, sizeof said));
  }
  for (uint32_t p = 0; p < pending->num_parameters; ++p) {
    const trm_shape *shape = &computation->instructions[computation->parameters[p]].shape;
    if (!trm_shape_equal(&pending->parameters[p], shape)) {
      return trm_lexer_fail(lexer, pending->at,
                            "parameter %" PRIu32 " of computation %s is %s, its signature says %s",
                            p, computation->name, trm_shape_text(shape, found, sizeof found),
                            trm_shape_text(&pending->parameters[p], said, sizeof said));
    }
  }
  return TRM_OK;
}

static trm_status build_computation(builder *b, uint32_t index) {
  reader *r = b->r;
  trm_parser *parser = &r->parser;
  trm_error *error = parser->error;
  trm_module *module = parser->module;
  const pending_computation *computation = &r->computations.items[index];
  trm_status status = TRM_OK;
  size_t num_edges = 0;
  for (uint32_t i = 0; i < computation->count; ++i) {
    const trm_instruction *pending = &r->instructions.items[computation->first + i].instruction;
    num_edges += pending->num_operands + pending->num_control_predecessors;
  }
  graph g = {.count = computation->count};
  g.rows = trm_allocate_zeroed((size_t)g.count + 1, sizeof *g.rows);
  g.targets = trm_allocate_zeroed(num_edges, sizeof *g.targets);
  uint32_t *order = trm_allocate_zeroed(g.count, sizeof *order);
  uint32_t *position = trm_allocate_zeroed(g.count, sizeof *position);
  if (g.rows == NULL || g.targets == NULL || order == NULL || position == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while reading a computation");
  }
  TRY_OR_GOTO(resolve_operands(b, computation, &g), done);
  uint32_t cycle;
  TRY_OR_GOTO(order_nodes(&g, order, &cycle, error), done);
  if (cycle != TRM_NO_INDEX) {
    const trm_pending_instruction *pending = &r->instructions.items[computation->first + cycle];
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
  trm_free(g.rows);
  trm_free(g.targets);
  trm_free(order);
  trm_free(position);
  return status;
}

static trm_status build_module(builder *b) {
  reader *r = b->r;
  trm_module *module = r->parser.module;
  trm_error *error = r->parser.error;
  const uint32_t count = (uint32_t)r->computations.count;
  trm_status status = TRM_OK;
  uint32_t *order = trm_allocate_zeroed(count, sizeof *order);
  b->computation_index = trm_allocate_zeroed(count, sizeof *b->computation_index);
  if (order == NULL || b->computation_index == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while reading a module");
  }
  /* Computations take the ids behind the instructions'. */
  module->next_id = (int64_t)r->instructions.count + 1;
  TRY_OR_GOTO(resolve_computations(b, order), done);
  TRY_OR_GOTO(unique_names(b), done);
  for (uint32_t i = 0; i < count; ++i) {
    TRY_OR_GOTO(build_computation(b, order[i]), done);
  }
  module->entry = b->computation_index[r->entry];
  status = trm_module_compact(module, error);
done:
  trm_free(order);
  return status;
}

trm_status trm_hlo_parse_text(const char *text, size_t size, trm_module **out_module,
                              trm_error *error) {
  trm_error unused;
  if (error == NULL) error = &unused;
  reader r = {.entry = TRM_NO_INDEX};
  builder b = {.r = &r};
  trm_module *module = NULL;
  trm_status status = TRM_OK;
  /* Numbers are read as in C, whatever the process's locale. */
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
  TRY_OR_GOTO(build_module(&b), done);
  *out_module = module;
  module = NULL;
done:
  uselocale(before);
  freelocale(c_locale);
  trm_module_free(module);
  table_free(&b.module_names);
  trm_free(b.names);
  trm_free(b.computation_index);
  trm_free(b.called);
  VECTOR_FREE(&r.computations);
  VECTOR_FREE(&r.instructions);
  VECTOR_FREE(&r.asyncs);
  VECTOR_FREE(&r.parser.operands);
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
