/* Owns: the tokens of HLO text. */
#include "hlo/lexer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_name(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '-';
}

/* Skips white space and comments; stops at the start of a comment that does not end. */
static const char *skip_space(const char *at, const char *end) {
  while (at < end) {
    if (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') {
      ++at;
    } else if (at[0] == '/' && at[1] == '/') {
      while (at < end && *at != '\n' && *at != '\r') ++at;
    } else if (at[0] == '/' && at[1] == '*') {
      const char *close = at + 2;
      while (close + 1 < end && !(close[0] == '*' && close[1] == '/')) ++close;
      if (close + 1 >= end) return at;
      at = close + 2;
    } else {
      break;
    }
  }
  return at;
}

/* Behind the closing quote, or NULL. */
static const char *skip_string(const char *at, const char *end) {
  const char quote = *at;
  for (++at; at < end; ++at) {
    if (*at == quote) return at + 1;
    if (quote == '\'' && *at == '\n') return NULL; /* a lone apostrophe */
    if (*at == '\\') ++at;
  }
  return NULL;
}

static void set(trm_lexer *lexer, int kind, const char *token, const char *at) {
  lexer->kind = kind;
  lexer->token = token;
  lexer->length = (size_t)(at - token);
  lexer->at = at;
}

static void set_bad(trm_lexer *lexer, const char *token, const char *problem) {
  set(lexer, TOKEN_BAD, token, lexer->end);
  lexer->problem = problem;
}

static void read_name(trm_lexer *lexer, const char *at) {
  const char *token = at + 1;
  if (*token == '"') {
    const char *behind = skip_string(token, lexer->end);
    if (behind == NULL) {
      set_bad(lexer, token, "a quoted name does not end");
      return;
    }
    set(lexer, TOKEN_NAME, token + 1, behind - 1);
    lexer->at = behind;
    return;
  }
  const char *behind = token;
  while (is_name(*behind)) ++behind;
  if (behind == token) {
    set_bad(lexer, at, "a '%' without a name");
    return;
  }
  set(lexer, TOKEN_NAME, token, behind);
}

static void read_number(trm_lexer *lexer, const char *token) {
  const char *at = token + 1;
  while (is_letter(*at) || is_digit(*at) || *at == '_' || *at == '.' ||
         ((*at == '+' || *at == '-') && (at[-1] == 'e' || at[-1] == 'E') && is_digit(at[1]))) {
    ++at;
  }
  set(lexer, TOKEN_NUMBER, token, at);
}

void trm_lexer_next(trm_lexer *lexer) {
  lexer->previous = lexer->at;
  const char *at = skip_space(lexer->at, lexer->end);
  if (at[0] == '/' && at[1] == '*') {
    set_bad(lexer, at, "a comment does not end");
    return;
  }
  if (at >= lexer->end) {
    set(lexer, TOKEN_END, lexer->end, lexer->end);
    return;
  }
  const char c = *at;
  if (is_letter(c) || c == '_') {
    const char *behind = at + 1;
    while (is_name(*behind) && !(behind[0] == '-' && behind[1] == '>')) ++behind;
    set(lexer, TOKEN_IDENTIFIER, at, behind);
  } else if (c == '%') {
    read_name(lexer, at);
  } else if (c == '"' || (c == '\'' && skip_string(at, lexer->end) != NULL)) {
    const char *behind = skip_string(at, lexer->end);
    if (behind == NULL) {
      set_bad(lexer, at, "a string does not end");
    } else {
      set(lexer, TOKEN_STRING, at, behind);
    }
  } else if (c == '-' && at[1] == '>') {
    set(lexer, TOKEN_ARROW, at, at + 2);
  } else if (c == '.' && at[1] == '.' && at[2] == '.') {
    set(lexer, TOKEN_DOTS, at, at + 3);
  } else if (is_digit(c) || ((c == '-' || c == '+') && (is_name(at[1]))) ||
             (c == '.' && is_digit(at[1]))) {
    read_number(lexer, at);
  } else if (c != '\0' && strchr("(){}[],:=<>?*#@+-/", c) != NULL) {
    set(lexer, c, at, at + 1);
  } else {
    set_bad(lexer, at, "a character that HLO text does not have");
  }
}

void trm_lexer_start(trm_lexer *lexer, const char *text, size_t size, trm_error *error) {
  *lexer = (trm_lexer){.begin = text, .end = text + size, .at = text, .error = error};
  trm_lexer_next(lexer);
}

void trm_lexer_word(trm_lexer *lexer) {
  if (lexer->kind == TOKEN_END || lexer->kind == TOKEN_STRING) return;
  const char *at = lexer->token;
  while (at < lexer->end && *at > ' ' && strchr(",(){}[]\"", *at) == NULL) ++at;
  if (at > lexer->token) set(lexer, TOKEN_IDENTIFIER, lexer->token, at);
}

char trm_lexer_peek(const trm_lexer *lexer) {
  const char *at = skip_space(lexer->at, lexer->end);
  return *at;
}

bool trm_lexer_accept(trm_lexer *lexer, int kind) {
  if (lexer->kind != kind) return false;
  trm_lexer_next(lexer);
  return true;
}

bool trm_lexer_is(const trm_lexer *lexer, const char *identifier) {
  return lexer->kind == TOKEN_IDENTIFIER && strlen(identifier) == lexer->length &&
         memcmp(lexer->token, identifier, lexer->length) == 0;
}

/* ---- Errors --------------------------------------------------------------------------------- */

trm_status trm_lexer_fail(const trm_lexer *lexer, const char *where, const char *format, ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  int64_t line = 1;
  const char *start = lexer->begin;
  for (const char *at = lexer->begin; at < where; ++at) {
    if (*at == '\n') ++line, start = at + 1;
  }
  return trm_fail(lexer->error, TRM_INVALID_ARGUMENT, "line %" PRId64 ", column %td: %s", line,
                  where - start + 1, message);
}

trm_status trm_lexer_unexpected(const trm_lexer *lexer, const char *what) {
  if (lexer->kind == TOKEN_BAD) {
    return trm_lexer_fail(lexer, lexer->token, "%s (while expecting %s)", lexer->problem, what);
  }
  if (lexer->kind == TOKEN_END) {
    return trm_lexer_fail(lexer, lexer->token, "expected %s, found the end of the text", what);
  }
  return trm_lexer_fail(lexer, lexer->token, "expected %s, found '%.*s'", what,
                        SLICE_ARGS(lexer->token, lexer->length));
}

trm_status trm_lexer_expect(trm_lexer *lexer, int kind, const char *what) {
  if (lexer->kind != kind) return trm_lexer_unexpected(lexer, what);
  trm_lexer_next(lexer);
  return TRM_OK;
}

/* ---- Values --------------------------------------------------------------------------------- */

trm_status trm_lexer_integer(trm_lexer *lexer, int64_t *out_value) {
  if (lexer->kind != TOKEN_NUMBER) return trm_lexer_unexpected(lexer, "an integer");
  const char *at = lexer->token, *end = at + lexer->length;
  const bool negative = *at == '-';
  if (*at == '-' || *at == '+') ++at;
  if (at == end) return trm_lexer_unexpected(lexer, "an integer");
  int64_t value = 0; /* counted down: the negative range is the larger one */
  for (; at < end; ++at) {
    if (!is_digit(*at)) return trm_lexer_unexpected(lexer, "an integer");
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_sub_overflow(value, *at - '0', &value)) {
      return trm_lexer_fail(lexer, lexer->token, "%.*s does not fit a 64-bit integer",
                            SLICE_ARGS(lexer->token, lexer->length));
    }
  }
  if (!negative && __builtin_sub_overflow(0, value, &value)) {
    return trm_lexer_fail(lexer, lexer->token, "%.*s does not fit a 64-bit integer",
                          SLICE_ARGS(lexer->token, lexer->length));
  }
  *out_value = value;
  trm_lexer_next(lexer);
  return TRM_OK;
}

trm_status trm_lexer_boolean(trm_lexer *lexer, bool *out_value) {
  if (trm_lexer_is(lexer, "true")) {
    *out_value = true;
  } else if (trm_lexer_is(lexer, "false")) {
    *out_value = false;
  } else if (lexer->kind == TOKEN_NUMBER && lexer->length == 1 &&
             (*lexer->token == '0' || *lexer->token == '1')) {
    *out_value = *lexer->token == '1';
  } else {
    return trm_lexer_unexpected(lexer, "true or false");
  }
  trm_lexer_next(lexer);
  return TRM_OK;
}

static int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Reads the escape behind a backslash; returns the text behind it, or NULL. */
static const char *read_escape(const char *at, const char *end, char *out) {
  static const char letters[] = "abfnrtv\\'\"?/", values[] = "\a\b\f\n\r\t\v\\'\"?/";
  const char *letter = *at != '\0' ? strchr(letters, *at) : NULL;
  if (letter != NULL) {
    *out = values[letter - letters];
    return at + 1;
  }
  unsigned value = 0;
  int digits = 0;
  if (*at >= '0' && *at <= '7') {
    for (; digits < 3 && at < end && *at >= '0' && *at <= '7'; ++at, ++digits) {
      value = value * 8 + (unsigned)(*at - '0');
    }
  } else if (*at == 'x' || *at == 'X') {
    for (++at; at < end && hex_value(*at) >= 0 && value < 256; ++at, ++digits) {
      value = value * 16 + (unsigned)hex_value(*at);
    }
  }
  *out = (char)(unsigned char)value;
  return digits > 0 && value < 256 ? at : NULL;
}

trm_status trm_lexer_string(trm_lexer *lexer, trm_arena *arena, const char **out_text,
                            size_t *out_size) {
  if (lexer->kind != TOKEN_STRING) return trm_lexer_unexpected(lexer, "a quoted string");
  char *text = trm_arena_allocate(arena, 1, lexer->length);
  trm_error *error = lexer->error;
  CHECK_MEMORY(text, "a string");
  size_t size = 0;
  const char *end = lexer->token + lexer->length - 1;
  for (const char *at = lexer->token + 1; at < end;) {
    if (*at != '\\') {
      text[size++] = *at++;
      continue;
    }
    const char *behind = read_escape(at + 1, end, &text[size++]);
    if (behind == NULL) return trm_lexer_fail(lexer, at, "an unknown escape in a string");
    at = behind;
  }
  text[size] = '\0';
  if (out_size == NULL && memchr(text, '\0', size) != NULL) {
    return trm_lexer_fail(lexer, lexer->token, "a NUL byte in a string");
  }
  *out_text = text;
  if (out_size != NULL) *out_size = size;
  trm_lexer_next(lexer);
  return TRM_OK;
}

trm_status trm_lexer_skip_group(trm_lexer *lexer, const char **out_begin, const char **out_end) {
  const char *begin = lexer->token;
  int64_t depth = 0;
  do {
    const int kind = lexer->kind;
    if (kind == TOKEN_END) {
      return trm_lexer_fail(lexer, begin, "'%c' is not closed before the end of the text", *begin);
    }
    if (kind == TOKEN_BAD) {
      /* The skipped text may have characters that HLO text does not have elsewhere. */
      if (lexer->length == 0 || *lexer->token == '"' || *lexer->token == '/') {
        return trm_lexer_unexpected(lexer, "the end of a group");
      }
      lexer->at = lexer->token + 1;
    }
    if (kind == '(' || kind == '[' || kind == '{') ++depth;
    if (kind == ')' || kind == ']' || kind == '}') --depth;
    trm_lexer_next(lexer);
  } while (depth > 0);
  if (out_begin != NULL) *out_begin = begin;
  if (out_end != NULL) *out_end = lexer->previous;
  return TRM_OK;
}

trm_status trm_lexer_skip_value(trm_lexer *lexer) {
  const int first = lexer->kind;
  if (first == '(' || first == '[' || first == '{') {
    TRY(trm_lexer_skip_group(lexer, NULL, NULL));
  } else if (first == TOKEN_IDENTIFIER || first == TOKEN_NAME || first == TOKEN_NUMBER ||
             first == TOKEN_STRING) {
    trm_lexer_next(lexer);
  } else {
    return trm_lexer_unexpected(lexer, "a value");
  }
  while ((lexer->kind == '(' || lexer->kind == '[' || lexer->kind == '{') &&
         lexer->token == lexer->previous) {
    TRY(trm_lexer_skip_group(lexer, NULL, NULL));
  }
  return TRM_OK;
}
