/* Options by name: a row of a table says the key, the kind of value and the member of a struct that
 * keeps the value. Text becomes a typed value here, once, and nowhere else.
 *
 * A table is a .def file. Its owner declares the struct with OPTION_TYPE_<kind> and the rows with
 * OPTION_KIND_<kind>, so that both follow from the same line. */
#ifndef TREMULA_BASE_OPTION_H_
#define TREMULA_BASE_OPTION_H_

#include "base/status.h"

typedef enum trm_option_kind {
  OPTION_KIND_FLAG,       /* true or false */
  OPTION_KIND_TEXT,       /* any */
  OPTION_KIND_COUNT,      /* from 1 to 65536 */
  OPTION_KIND_TILES,      /* from 0 to 65536 */
  OPTION_KIND_NUMBER,     /* from 0 to 10^9 */
  OPTION_KIND_BYTES,      /* from 0 on */
  OPTION_KIND_PROPORTION, /* from 0 to 1 */
  OPTION_KIND_SHARE,      /* from 0 on */
  OPTION_KIND_WORD,       /* one of the option's words */
  OPTION_KIND_WORDS       /* a comma-separated list of them; their bits */
} trm_option_kind;

/* WORD names the enum that it gives: WORD(trm_stochastic). */
#define OPTION_KIND_WORD(type) OPTION_KIND_WORD
#define OPTION_TYPE_FLAG bool
#define OPTION_TYPE_TEXT const char *
#define OPTION_TYPE_COUNT uint32_t
#define OPTION_TYPE_TILES uint32_t
#define OPTION_TYPE_NUMBER uint32_t
#define OPTION_TYPE_BYTES int64_t
#define OPTION_TYPE_PROPORTION double
#define OPTION_TYPE_SHARE double
#define OPTION_TYPE_WORD(type) type
#define OPTION_TYPE_WORDS uint32_t

typedef struct trm_option_row {
  const char *key, *value; /* the default, as text */
  trm_option_kind kind;
  size_t place; /* of the member */
  const char *help;
} trm_option_row;

/* A word that an option takes, and the value or the bits that it stands for. */
typedef struct trm_option_word {
  const char *key, *word;
  int value;
} trm_option_word;

typedef struct trm_option_table {
  const trm_option_row *rows;
  const trm_option_word *words;
  int num_rows, num_words;
} trm_option_table;

/* The row with that key; -1: there is none, and *out_nearest is the nearest key, or NULL. */
int trm_option_find(const trm_option_table *table, const char *key, const char **out_nearest);
/* Parses `text` into the member of `options`, which keeps the pointer of an OPTION_KIND_TEXT. False
 * for a value that does not fit. */
bool trm_option_set(const trm_option_table *table, int row, const char *text, void *options);
/* Sets every member to its default. */
void trm_option_set_defaults(const trm_option_table *table, void *options);
/* For messages: what a value must be, such as "true or false". Returns the buffer. */
enum { OPTION_EXPECTED_SIZE = 160 };
const char *trm_option_expected(const trm_option_table *table, int row,
                                char buffer[OPTION_EXPECTED_SIZE]);

#endif /* TREMULA_BASE_OPTION_H_ */
