/* Owns: shapes in HLO text. Nested tuples are read with a stack of their own. */
#include "hlo/parse.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_TUPLE_DEPTH = 60 };

static bool find_dtype(const char *name, size_t length, trm_dtype *out_dtype) {
  static const struct {
    const char *name;
    trm_dtype dtype;
  } dtypes[] = {
#define TRM_DTYPE(id, number, text, bytes, kind) {text, TRM_##id},
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

/* `D(D,C)`: dense, compressed, singleton or hybrid levels; only dense ones are arrays of ours.
 * `P(...)` is how a sparse array lies in memory. */
static trm_status parse_level_types(trm_lexer *lexer) {
  if (trm_lexer_is(lexer, "P")) {
    return trm_lexer_fail(lexer, lexer->token, "sparse arrays are not supported");
  }
  trm_lexer_next(lexer);
  TRY(trm_lexer_expect(lexer, '(', "'('"));
  do {
    if (trm_lexer_is(lexer, "C") || trm_lexer_is(lexer, "S") || trm_lexer_is(lexer, "H")) {
      return trm_lexer_fail(lexer, lexer->token, "sparse arrays are not supported");
    }
    if (!trm_lexer_is(lexer, "D")) return trm_lexer_unexpected(lexer, "D, C, S or H");
    trm_lexer_next(lexer);
    if (*lexer->token == '+' || *lexer->token == '~') { /* not unique, not ordered */
      return trm_lexer_fail(lexer, lexer->token, "sparse arrays are not supported");
    }
  } while (trm_lexer_accept(lexer, ','));
  return trm_lexer_expect(lexer, ')', "')'");
}

trm_status trm_parser_refuse(trm_parser *parser, const char *at, const char *message) {
  trm_error *error = parser->error;
  if (parser->refusal.at != NULL) return TRM_OK;
  parser->refusal.message = trm_arena_string(&parser->module->arena, message, strlen(message));
  CHECK_MEMORY(parser->refusal.message, "a message");
  parser->refusal.at = at;
  return TRM_OK;
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
      if (trm_lexer_is(lexer, "D") || trm_lexer_is(lexer, "P")) {
        TRY(parse_level_types(lexer));
      } else if (lexer->kind == '(') {
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
  uint32_t dynamic = 0;
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
    if (rank == TRM_MAX_RANK || !is_array) {
      return trm_lexer_fail(lexer, lexer->token, "a shape has more than %d dimensions",
                            is_array ? TRM_MAX_RANK : 0);
    }
    if (trm_lexer_accept(lexer, '<')) {
      TRY(trm_lexer_expect(lexer, '=', "'<=' before a bound"));
      dynamic |= UINT32_C(1) << rank;
    }
    if (lexer->kind == '?') {
      TRY(trm_parser_refuse(parser, lexer->token,
                            "a dimension without a bound is not supported; write a size, or a "
                            "bound as in f32[<=8]"));
      dims[rank++] = 1;
      trm_lexer_next(lexer);
    } else {
      TRY(trm_lexer_integer(lexer, &dims[rank++]));
    }
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  TRY(trm_lexer_expect(lexer, ']', "']' of a shape"));
  if (!trm_shape_make(&parser->module->arena, dtype, rank, dims, out_shape)) {
    FAIL_NO_MEMORY("a shape");
  }
  out_shape->dynamic = dynamic;
  if (lexer->kind == '{') {
    const char next = trm_lexer_peek(lexer);
    const bool touches = lexer->token == lexer->previous;
    if ((next >= '0' && next <= '9') || next == ':' || (next == '}' && touches)) {
      return parse_layout(parser, out_shape);
    }
  }
  return TRM_OK;
}

/* `b(f32[2])` is the memory of an array: to us the array. */
static bool is_buffer(const trm_lexer *lexer) {
  return trm_lexer_is(lexer, "b") && *lexer->at == '(';
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
      const bool buffer = is_buffer(lexer);
      if (buffer) {
        trm_lexer_next(lexer);
        trm_lexer_next(lexer);
      }
      TRY(parse_array_shape(parser, &shape));
      if (buffer) TRY(trm_lexer_expect(lexer, ')', "')' of a buffer's shape"));
      if (depth == 0) break;
      if (!VECTOR_PUSH(&parser->shapes, shape)) FAIL_NO_MEMORY("a shape");
    }
    /* After a complete element comes another one, or the ends of tuples. */
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
  return lexer->kind == '(' || is_buffer(lexer) ||
         (lexer->kind == TOKEN_IDENTIFIER && *lexer->at == '[');
}
