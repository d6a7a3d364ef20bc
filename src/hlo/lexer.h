/* The tokens of HLO text, and errors that say line and column.
 *
 * A token is a slice of the text. A few values ("3x3", "0_1x0_1", "b01f_01io->b01f") are words of
 * another kind: trm_lexer_word reads the current token again as one. */
#ifndef TREMULA_HLO_LEXER_H_
#define TREMULA_HLO_LEXER_H_

#include "base/memory.h"
#include "base/status.h"

/* Punctuation is its own character. */
enum {
  TOKEN_END = 0,
  TOKEN_IDENTIFIER = 256, /* add, get-tuple-element, f32, Arg_0.1 */
  TOKEN_NAME,             /* %name or %"any text"; the slice is without the percent sign */
  TOKEN_NUMBER,           /* 12, -3, 1.5e-7, -inf, -nan */
  TOKEN_STRING,           /* the slice includes the quotes */
  TOKEN_ARROW,            /* -> */
  TOKEN_DOTS,             /* ... */
  TOKEN_BAD               /* lexer->problem says why */
};

typedef struct trm_lexer {
  const char *begin, *end; /* *end is a NUL */
  const char *at;          /* after the current token */
  const char *previous;    /* the end of the token before it */
  const char *token;       /* the current token's slice */
  size_t length;
  int kind;
  const char *problem;
  trm_error *error;
} trm_lexer;

/* `text[size]` must be a NUL. Reads the first token. */
void trm_lexer_start(trm_lexer *lexer, const char *text, size_t size, trm_error *error);
void trm_lexer_next(trm_lexer *lexer);
/* Makes the current token the longest run without white space, commas, brackets or quotes. */
void trm_lexer_word(trm_lexer *lexer);
/* The next character that is not white space or comment, after the current token. */
char trm_lexer_peek(const trm_lexer *lexer);
/* Moves on if the current token is of that kind. */
bool trm_lexer_accept(trm_lexer *lexer, int kind);
trm_status trm_lexer_expect(trm_lexer *lexer, int kind, const char *what);
bool trm_lexer_is(const trm_lexer *lexer, const char *identifier);
trm_status trm_lexer_integer(trm_lexer *lexer, int64_t *out_value);
/* true, false, 1 or 0. */
trm_status trm_lexer_boolean(trm_lexer *lexer, bool *out_value);
/* A quoted string without its escapes; a NUL follows it. `out_size` NULL: no NUL inside. */
trm_status trm_lexer_string(trm_lexer *lexer, trm_arena *arena, const char **out_text,
                            size_t *out_size);
/* Skips from an opening bracket to behind the one that closes it; *out_begin, *out_end (may be
 * NULL) are the text with its brackets. */
trm_status trm_lexer_skip_group(trm_lexer *lexer, const char **out_begin, const char **out_end);
/* Skips the value of an attribute: a group, or a token and the groups that touch it. */
trm_status trm_lexer_skip_value(trm_lexer *lexer);

/* Fails with "line L, column C: <message>". */
trm_status trm_lexer_fail(const trm_lexer *lexer, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
/* "expected <what>, found <the current token>". */
trm_status trm_lexer_unexpected(const trm_lexer *lexer, const char *what) __attribute__((cold));

/* A slice for "%.*s": cut so that messages stay short. */
#define SLICE_ARGS(text, length) ((length) > 80 ? 80 : (int)(length)), (text)

#endif /* TREMULA_HLO_LEXER_H_ */
