/* Owns: the values of attributes in HLO text, but for windows and labels of dimensions. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/literal.h"
#include "hlo/parse.h"
#include "hlo/proto.h"

/* ---- Lists ---------------------------------------------------------------------------------- */

static trm_status read_one_dim(trm_parser *parser, int64_t *out_dim) {
  const char *where = parser->lexer.token;
  trm_dims dims;
  TRY(trm_parse_dims(parser, &dims));
  if (dims.count != 1) {
    return trm_lexer_fail(&parser->lexer, where, "expected one dimension, found %d", dims.count);
  }
  *out_dim = dims.items[0];
  return TRM_OK;
}

/* `{[0:2:1], [1:3]}` */
static trm_status read_slice(trm_parser *parser, trm_pending_instruction *pending) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_slice_dimension ranges[TRM_MAX_RANK];
  int32_t count = 0;
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  while (lexer->kind == '[') {
    if (count == TRM_MAX_RANK) {
      return trm_lexer_fail(lexer, lexer->token, "more than %d dimensions", TRM_MAX_RANK);
    }
    trm_slice_dimension *range = &ranges[count++];
    range->stride = 1;
    trm_lexer_next(lexer);
    TRY(trm_lexer_integer(lexer, &range->start));
    TRY(trm_lexer_expect(lexer, ':', "':'"));
    TRY(trm_lexer_integer(lexer, &range->limit));
    if (trm_lexer_accept(lexer, ':')) TRY(trm_lexer_integer(lexer, &range->stride));
    TRY(trm_lexer_expect(lexer, ']', "']'"));
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  TRY(trm_lexer_expect(lexer, '}', "'}'"));
  pending->num_ranges = count;
  pending->instruction.slice =
      trm_arena_copy(&parser->module->arena, ranges, (size_t)count * sizeof *ranges);
  CHECK_MEMORY(pending->instruction.slice, "a slice");
  return TRM_OK;
}

/* `{{0,1},{1,0}}` as a flat list. */
static trm_status read_pairs(trm_parser *parser, trm_dims *out) {
  trm_lexer *lexer = &parser->lexer;
  const size_t first = parser->numbers.count;
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  while (lexer->kind == '{') {
    const size_t before = parser->numbers.count;
    const char *where = lexer->token;
    TRY(trm_parse_push_numbers(parser, '{', '}'));
    if (parser->numbers.count - before != 2) {
      return trm_lexer_fail(lexer, where, "expected a pair {source, target}");
    }
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  TRY(trm_lexer_expect(lexer, '}', "'}'"));
  return trm_parse_take_dims(parser, first, out);
}

/* ---- Texts ---------------------------------------------------------------------------------- */

/* As a proto gives it, which has no notes; one that OpSharding cannot say stays as it is. */
static trm_status read_sharding(trm_parser *parser, const char **out_text) {
  trm_arena *arena = &parser->module->arena;
  Tremula__Hlo__OpSharding *proto;
  trm_error reason;
  TRY(trm_parse_group_text(parser, out_text, NULL));
  if (trm_proto_sharding_parse(arena, *out_text, &proto, &reason) != TRM_OK) return TRM_OK;
  return trm_proto_sharding_text(arena, proto, out_text, parser->error);
}

static const char *const ignored_metadata[] = {"source_end_line",
                                               "source_column",
                                               "source_end_column",
                                               "profile_type",
                                               "profile_info",
                                               "deduplicated_name",
                                               "preserve_layout",
                                               "scheduling_name",
                                               "creation_pass_id",
                                               "logical_creation_pass_id",
                                               "size_of_generated_code_in_bytes",
                                               "size_of_memory_working_set_in_bytes",
                                               "xla_op_name"};

/* `{op_type="a" op_name="b" source_file="c" source_line=3}` */
static trm_status read_metadata(trm_parser *parser, trm_metadata *metadata) {
  trm_lexer *lexer = &parser->lexer;
  trm_arena *arena = &parser->module->arena;
  int64_t frame = 0;
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  while (lexer->kind != '}') {
    const char **text = trm_lexer_is(lexer, "op_type")       ? &metadata->op_type
                        : trm_lexer_is(lexer, "op_name")     ? &metadata->op_name
                        : trm_lexer_is(lexer, "source_file") ? &metadata->source_file
                                                             : NULL;
    const bool is_line = trm_lexer_is(lexer, "source_line");
    const bool is_frame = trm_lexer_is(lexer, "stack_frame_id");
    bool known = text != NULL || is_line || is_frame;
    for (size_t i = 0; i < sizeof ignored_metadata / sizeof *ignored_metadata && !known; ++i) {
      known = trm_lexer_is(lexer, ignored_metadata[i]);
    }
    if (!known) return trm_lexer_unexpected(lexer, "a field of metadata, such as op_name");
    trm_lexer_next(lexer);
    TRY(trm_lexer_expect(lexer, '=', "'='"));
    if (text != NULL) {
      TRY(trm_lexer_string(lexer, arena, text, NULL));
    } else if (is_line) {
      int64_t line;
      const char *where = lexer->token;
      TRY(trm_lexer_integer(lexer, &line));
      if (line < INT32_MIN || line > INT32_MAX) {
        return trm_lexer_fail(lexer, where, "source_line %" PRId64 " is out of range", line);
      }
      metadata->source_line = (int32_t)line;
    } else if (is_frame) {
      TRY(trm_lexer_integer(lexer, &frame));
    } else {
      TRY(trm_lexer_skip_value(lexer));
    }
    trm_lexer_accept(lexer, ',');
  }
  trm_lexer_next(lexer);
  trm_parse_resolve_frame(parser, frame, metadata);
  return TRM_OK;
}

/* ---- Names ---------------------------------------------------------------------------------- */

/* A computation in the place of its name: noted with a made-up name, and passed over. */
static trm_status push_inline(trm_parser *parser, trm_reference *reference) {
  trm_error *error = parser->error;
  trm_pending_inline found = {.lexer = parser->lexer};
  found.name = trm_arena_format(&parser->module->arena, "inline.%zu", parser->inlines.count);
  CHECK_MEMORY(found.name, "a name");
  TRY(trm_lexer_skip_group(&parser->lexer, NULL, NULL));
  if (!VECTOR_PUSH(&parser->inlines, found)) FAIL_NO_MEMORY("a computation");
  reference->name = found.name;
  reference->length = (uint32_t)strlen(found.name);
  return TRM_OK;
}

static trm_status push_reference(trm_parser *parser, trm_references *list, uint32_t slot,
                                 const char *what) {
  trm_error *error = parser->error;
  trm_reference reference = {.slot = slot};
  size_t length;
  if (list == &parser->called && parser->lexer.kind == '{') {
    TRY(push_inline(parser, &reference));
  } else {
    TRY(trm_parse_name(parser, what, &reference.name, &length));
    reference.length = (uint32_t)length;
  }
  if (!VECTOR_PUSH(list, reference)) FAIL_NO_MEMORY("a name");
  return TRM_OK;
}

/* `{%a, %b}`, or one name where a list of one is allowed. */
static trm_status read_references(trm_parser *parser, trm_references *list, uint32_t *count,
                                  const char *what) {
  trm_lexer *lexer = &parser->lexer;
  uint32_t slot = 0;
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  if (lexer->kind != '}') {
    do {
      TRY(push_reference(parser, list, slot++, what));
    } while (trm_lexer_accept(lexer, ','));
  }
  TRY(trm_lexer_expect(lexer, '}', "'}'"));
  *count += slot;
  return TRM_OK;
}

static trm_status read_spelled(trm_parser *parser, trm_attribute_kind kind, int *out_value) {
  trm_lexer *lexer = &parser->lexer;
  if (lexer->kind != TOKEN_IDENTIFIER ||
      !trm_attribute_value(kind, lexer->token, lexer->length, out_value)) {
    char choices[512], what[560];
    snprintf(what, sizeof what, "one of %s",
             trm_attribute_spellings(kind, choices, sizeof choices));
    return trm_lexer_unexpected(lexer, what);
  }
  trm_lexer_next(lexer);
  return TRM_OK;
}

static trm_status read_precisions(trm_parser *parser, trm_dims *out) {
  trm_lexer *lexer = &parser->lexer;
  const size_t first = parser->numbers.count;
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  while (lexer->kind != '}') {
    int value;
    TRY(read_spelled(parser, KIND_PRECISIONS, &value));
    TRY(trm_parse_push_number(parser, value));
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  TRY(trm_lexer_expect(lexer, '}', "'}'"));
  return trm_parse_take_dims(parser, first, out);
}

static trm_status read_float(trm_parser *parser, float *out_value) {
  trm_lexer *lexer = &parser->lexer;
  char buffer[64], *end;
  if (lexer->kind != TOKEN_NUMBER || lexer->length >= sizeof buffer) {
    return trm_lexer_unexpected(lexer, "a number");
  }
  memcpy(buffer, lexer->token, lexer->length);
  buffer[lexer->length] = '\0';
  *out_value = strtof(buffer, &end);
  if (*end != '\0') return trm_lexer_unexpected(lexer, "a number");
  trm_lexer_next(lexer);
  return TRM_OK;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static trm_status read_list_value(trm_parser *parser, const trm_attribute *attribute,
                                  trm_pending_instruction *pending, void *place) {
  trm_instruction *instruction = &pending->instruction;
  switch (attribute->kind) {
    case KIND_DIMS: return trm_parse_dims(parser, place);
    case KIND_ONE_DIM: return read_one_dim(parser, place);
    case KIND_COLLECTIVE_DIM:
      instruction->collective->has_dimension = true;
      return read_one_dim(parser, place);
    case KIND_IOTA_DIM: {
      const size_t first = parser->numbers.count;
      int64_t value;
      TRY(trm_lexer_integer(&parser->lexer, &value));
      TRY(trm_parse_push_number(parser, value));
      return trm_parse_take_dims(parser, first, place);
    }
    case KIND_SLICE: return read_slice(parser, pending);
    case KIND_PADDING: return trm_parse_padding(parser, pending);
    case KIND_WINDOW: return trm_parse_window(parser, place);
    case KIND_DIM_LABELS: return trm_parse_dim_labels(parser, instruction);
    case KIND_GROUPS: return trm_parse_groups(parser, place);
    case KIND_PAIRS: return read_pairs(parser, place);
    case KIND_PRECISIONS: return read_precisions(parser, place);
    default: return trm_lexer_unexpected(&parser->lexer, "another kind of value");
  }
}

static trm_status read_number(trm_parser *parser, const trm_attribute *attribute, void *place) {
  int64_t value;
  const char *where = parser->lexer.token;
  TRY(trm_lexer_integer(&parser->lexer, &value));
  if (attribute->kind == KIND_NUMBER32) {
    if (value < INT32_MIN || value > INT32_MAX) {
      return trm_lexer_fail(&parser->lexer, where, "%s is out of range", attribute->name);
    }
    *(int32_t *)place = (int32_t)value;
    return TRM_OK;
  }
  if (attribute->kind == KIND_COUNT && value < 1) {
    return trm_lexer_fail(&parser->lexer, where, "%s is %" PRId64 "; it must be at least 1",
                          attribute->name, value);
  }
  *(int64_t *)place = value;
  return TRM_OK;
}

/* `s32[2]{0} {1, 0}`. */
static trm_status read_literal(trm_parser *parser, const trm_literal **out_literal) {
  trm_shape shape;
  TRY(trm_parse_shape(parser, &shape));
  return trm_literal_parse(&parser->lexer, &parser->module->arena, &shape, out_literal);
}

static trm_status read_value(trm_parser *parser, const trm_attribute *attribute,
                             trm_pending_instruction *pending) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_arena *arena = &parser->module->arena;
  trm_instruction *instruction = &pending->instruction;
  if (attribute->owner == OWNER_convolution &&
      !trm_attribute_make_convolution(arena, instruction)) {
    FAIL_NO_MEMORY("a convolution");
  }
  void *place = trm_attribute_place(attribute, instruction);
  switch (attribute->kind) {
    case KIND_COMPUTATION:
      TRY(push_reference(parser, &parser->called, (uint32_t)attribute->place, "a computation"));
      ++instruction->num_called;
      return TRM_OK;
    case KIND_COMPUTATIONS:
      return read_references(parser, &parser->called, &instruction->num_called, "a computation");
    case KIND_CONTROL:
      return read_references(parser, &parser->controls, &instruction->num_control_predecessors,
                             "an instruction");
    case KIND_NUMBER:
    case KIND_NUMBER32:
    case KIND_COUNT: return read_number(parser, attribute, place);
    case KIND_BOOLEAN: return trm_lexer_boolean(lexer, place);
    case KIND_FLOAT: return read_float(parser, place);
    case KIND_WORD: return trm_parse_word_text(parser, place);
    case KIND_STRING: return trm_lexer_string(lexer, arena, place, NULL);
    case KIND_LITERAL: return read_literal(parser, place);
    case KIND_TEXT: return read_sharding(parser, place);
    case KIND_FRONTEND: return trm_parse_frontend_attributes(parser, place);
    case KIND_METADATA: return read_metadata(parser, place);
    case KIND_BACKEND_CONFIG:
      return lexer->kind == '{'
                 ? trm_parse_group_text(parser, place, &instruction->backend_config_size)
                 : trm_lexer_string(lexer, arena, place, &instruction->backend_config_size);
    case KIND_COMPARISON:
    case KIND_COMPARISON_TYPE:
    case KIND_COMPARISON_ORDER:
    case KIND_DISTRIBUTION:
    case KIND_ALGORITHM:
    case KIND_DOT_ALGORITHM:
    case KIND_FFT_TYPE:
    case KIND_TRANSPOSE:
    case KIND_API_VERSION: {
      int value;
      TRY(read_spelled(parser, attribute->kind, &value));
      memcpy(place, &value, sizeof value);
      return TRM_OK;
    }
    default: return read_list_value(parser, attribute, pending, place);
  }
}

/* `{f32[2]{0}, (f32[3]{0}, s32[])}`: layouts are hints, but what is said must fit the operands. */
static trm_status read_layout_constraints(trm_parser *parser, trm_pending_instruction *pending) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  VECTOR(trm_shape) shapes = {0};
  trm_status status = TRM_OK;
  TRY_OR_GOTO(trm_lexer_expect(lexer, '{', "'{'"), done);
  if (lexer->kind != '}') {
    do {
      trm_shape shape;
      TRY_OR_GOTO(trm_parse_shape(parser, &shape), done);
      if (!VECTOR_PUSH(&shapes, shape)) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
    } while (trm_lexer_accept(lexer, ','));
  }
  TRY_OR_GOTO(trm_lexer_expect(lexer, '}', "'}'"), done);
  pending->num_constraints = (uint32_t)shapes.count;
  pending->constraints =
      trm_arena_copy(&parser->module->arena, shapes.items, shapes.count * sizeof(trm_shape));
  if (pending->constraints == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
done:
  VECTOR_FREE(&shapes);
  return status;
}

/* `{mode=highest}` or `{tolerance={rtol=0.5, atol=1.0, ulps=2}}`: a wish for accuracy; read over,
 * as ours is full. */
static trm_status read_accuracy(trm_parser *parser) {
  trm_lexer *lexer = &parser->lexer;
  float ignored;
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  const bool is_mode = trm_lexer_is(lexer, "mode");
  if (!is_mode && !trm_lexer_is(lexer, "tolerance")) {
    return trm_lexer_unexpected(lexer, "mode or tolerance");
  }
  trm_lexer_next(lexer);
  TRY(trm_lexer_expect(lexer, '=', "'='"));
  if (is_mode) {
    int ignored_mode;
    TRY(read_spelled(parser, KIND_PRECISIONS, &ignored_mode));
    return trm_lexer_expect(lexer, '}', "'}'");
  }
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  while (lexer->kind != '}') {
    if (!trm_lexer_is(lexer, "rtol") && !trm_lexer_is(lexer, "atol") &&
        !trm_lexer_is(lexer, "ulps")) {
      return trm_lexer_unexpected(lexer, "rtol, atol or ulps");
    }
    trm_lexer_next(lexer);
    TRY(trm_lexer_expect(lexer, '=', "'='"));
    TRY(read_float(parser, &ignored));
    trm_lexer_accept(lexer, ',');
  }
  trm_lexer_next(lexer);
  return trm_lexer_expect(lexer, '}', "'}'");
}

/* `f32[2] {1, 2}` or `(f32[2] {1, 2}, s32[] 3)`: what a program of another's hands to its custom
 * call. Ours take none; a call that is not known is refused when it is compiled. */
static trm_status read_over_literal(trm_parser *parser) {
  trm_lexer *lexer = &parser->lexer;
  trm_shape shape;
  if (lexer->kind == '(') return trm_lexer_skip_group(lexer, NULL, NULL);
  TRY(trm_parse_shape(parser, &shape));
  if (lexer->kind == '{') return trm_lexer_skip_group(lexer, NULL, NULL);
  if (lexer->kind != TOKEN_NUMBER && lexer->kind != TOKEN_IDENTIFIER) {
    return trm_lexer_unexpected(lexer, "a value");
  }
  trm_lexer_next(lexer);
  return TRM_OK;
}

/* A value that asks for nothing is read over: false, 0, `{}`. Any other is refused when its
 * computation is built. */
static trm_status refuse_value(trm_parser *parser, const trm_pending_instruction *pending,
                               const char *name, size_t length, const char *advice) {
  trm_lexer *lexer = &parser->lexer;
  const bool is_nothing =
      trm_lexer_is(lexer, "false") ||
      (lexer->kind == TOKEN_NUMBER && lexer->length == 1 && *lexer->token == '0') ||
      (lexer->kind == '{' && trm_lexer_peek(lexer) == '}');
  if (!is_nothing) {
    char text[256];
    snprintf(text, sizeof text, "%s with '%.*s' is not supported; %s",
             trm_opcode_name(pending->instruction.opcode), SLICE_ARGS(name, length), advice);
    TRY(trm_parser_refuse(parser, pending->at, text));
  }
  return trm_lexer_skip_value(lexer);
}

trm_status trm_parse_attribute(trm_parser *parser, trm_pending_instruction *pending) {
  trm_lexer *lexer = &parser->lexer;
  const trm_opcode opcode = pending->instruction.opcode;
  if (lexer->kind != TOKEN_IDENTIFIER) return trm_lexer_unexpected(lexer, "an attribute");
  const char *name = lexer->token;
  const size_t length = lexer->length;
  int i = 0;
  const trm_attribute *attribute = trm_attribute_find(opcode, name, length, &i);
  const bool constrains =
      opcode == TRM_OP_CUSTOM_CALL && trm_lexer_is(lexer, "operand_layout_constraints");
  const bool is_accuracy =
      trm_opcode_class_of(opcode) == TRM_CLASS_UNARY && trm_lexer_is(lexer, "result_accuracy");
  const bool is_literal = opcode == TRM_OP_CUSTOM_CALL && trm_lexer_is(lexer, "literal");
  const char *refusal = trm_attribute_refusal(opcode, name, length);
  const bool is_read = constrains || is_accuracy || is_literal || refusal != NULL;
  if (attribute == NULL && !is_read && !trm_attribute_is_ignored(name, length)) {
    return trm_lexer_fail(lexer, name, "%s has no attribute '%.*s' that Tremula knows",
                          trm_opcode_name(opcode), SLICE_ARGS(name, length));
  }
  trm_lexer_next(lexer);
  TRY(trm_lexer_expect(lexer, '=', "'='"));
  if (constrains) return read_layout_constraints(parser, pending);
  if (is_accuracy) return read_accuracy(parser);
  if (is_literal) return read_over_literal(parser);
  if (refusal != NULL) return refuse_value(parser, pending, name, length, refusal);
  if (attribute == NULL) return trm_lexer_skip_value(lexer);
  if ((pending->seen >> i & 1) != 0) {
    return trm_lexer_fail(lexer, name, "the attribute '%s' appears twice", attribute->name);
  }
  pending->seen |= UINT64_C(1) << i;
  return read_value(parser, attribute, pending);
}
