/* Owns: the values of HLO text that several files read: names, lists of numbers, frontend
 * attributes. */
#include <string.h>

#include "hlo/parse.h"

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

trm_status trm_parse_push_number(trm_parser *parser, int64_t value) {
  trm_error *error = parser->error;
  if (!VECTOR_PUSH(&parser->numbers, value)) FAIL_NO_MEMORY("a list");
  return TRM_OK;
}

/* The scratch numbers from `first` on, taken out. */
trm_status trm_parse_take_dims(trm_parser *parser, size_t first, trm_dims *out_dims) {
  trm_error *error = parser->error;
  const size_t count = parser->numbers.count - first;
  if (count > INT32_MAX) FAIL(INVALID_ARGUMENT, "a list of %zu numbers", count);
  int64_t *items = NULL;
  if (count > 0) {
    items = trm_arena_copy(&parser->module->arena, parser->numbers.items + first,
                           count * sizeof *items);
    CHECK_MEMORY(items, "a list");
  }
  parser->numbers.count = first;
  *out_dims = (trm_dims){(int32_t)count, items};
  return TRM_OK;
}

/* `open 1, 2, 3 close` onto the scratch numbers. */
trm_status trm_parse_push_numbers(trm_parser *parser, int open, int close) {
  trm_lexer *lexer = &parser->lexer;
  TRY(trm_lexer_expect(lexer, open, open == '{' ? "'{'" : open == '[' ? "'['" : "'('"));
  if (trm_lexer_accept(lexer, close)) return TRM_OK;
  do {
    int64_t value;
    TRY(trm_lexer_integer(lexer, &value));
    TRY(trm_parse_push_number(parser, value));
  } while (trm_lexer_accept(lexer, ','));
  return trm_lexer_expect(lexer, close, close == '}' ? "'}'" : close == ']' ? "']'" : "')'");
}

trm_status trm_parse_numbers(trm_parser *parser, int open, int close, trm_dims *out_dims) {
  const size_t first = parser->numbers.count;
  TRY(trm_parse_push_numbers(parser, open, close));
  return trm_parse_take_dims(parser, first, out_dims);
}

trm_status trm_parse_dims(trm_parser *parser, trm_dims *out_dims) {
  return trm_parse_numbers(parser, '{', '}', out_dims);
}

trm_status trm_parse_group_text(trm_parser *parser, const char **out_text, size_t *out_size) {
  trm_error *error = parser->error;
  const char *begin, *end;
  if (parser->lexer.kind != '{') return trm_lexer_unexpected(&parser->lexer, "'{'");
  TRY(trm_lexer_skip_group(&parser->lexer, &begin, &end));
  const size_t size = (size_t)(end - begin);
  if (out_size == NULL && memchr(begin, '\0', size) != NULL) {
    return trm_lexer_fail(&parser->lexer, begin, "a NUL byte in a text");
  }
  *out_text = trm_arena_string(&parser->module->arena, begin, size);
  CHECK_MEMORY(*out_text, "a text");
  if (out_size != NULL) *out_size = size;
  return TRM_OK;
}

trm_status trm_parse_word_text(trm_parser *parser, const char **out_text) {
  trm_error *error = parser->error;
  trm_lexer *lexer = &parser->lexer;
  if (lexer->kind != TOKEN_IDENTIFIER) return trm_lexer_unexpected(lexer, "a word");
  *out_text = trm_arena_string(&parser->module->arena, lexer->token, lexer->length);
  CHECK_MEMORY(*out_text, "a text");
  trm_lexer_next(lexer);
  return TRM_OK;
}

trm_status trm_parse_frontend_attributes(trm_parser *parser, const char *const **out_list) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_arena *arena = &parser->module->arena;
  VECTOR(const char *) list = {0};
  trm_status status = TRM_OK;
  TRY_OR_GOTO(trm_lexer_expect(lexer, '{', "'{'"), done);
  while (lexer->kind != '}') {
    const char *key, *value;
    if (lexer->kind == TOKEN_STRING) {
      TRY_OR_GOTO(trm_lexer_string(lexer, arena, &key, NULL), done);
    } else {
      TRY_OR_GOTO(trm_parse_word_text(parser, &key), done);
    }
    TRY_OR_GOTO(trm_lexer_expect(lexer, '=', "'='"), done);
    if (lexer->kind == '{') {
      TRY_OR_GOTO(trm_parse_group_text(parser, &value, NULL), done);
    } else {
      TRY_OR_GOTO(trm_lexer_string(lexer, arena, &value, NULL), done);
    }
    if (!VECTOR_PUSH(&list, key) || !VECTOR_PUSH(&list, value)) {
      FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while reading attributes");
    }
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  TRY_OR_GOTO(trm_lexer_expect(lexer, '}', "'}'"), done);
  if (list.count == 0) {
    *out_list = NULL;
    goto done;
  }
  const char **copy = ARENA_NEW(arena, const char *, list.count + 1);
  if (copy == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
  memcpy(copy, list.items, list.count * sizeof *copy);
  *out_list = copy;
done:
  VECTOR_FREE(&list);
  return status;
}
