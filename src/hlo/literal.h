/* Constants: their bytes and their text in HLO. */
#ifndef TREMULA_HLO_LITERAL_H_
#define TREMULA_HLO_LITERAL_H_

#include "hlo/hlo.h"
#include "hlo/lexer.h"

/* A zeroed literal of that shape (which is copied), 64-byte aligned leaves not promised. */
trm_status trm_literal_make(trm_arena *arena, const trm_shape *shape, trm_literal **out_literal,
                            trm_error *error);
/* Reads `{ {1, 2}, {3, 4} }`, `1.5`, `(1, {2, 3})`: the text of a value whose shape is known. */
trm_status trm_literal_parse(trm_lexer *lexer, trm_arena *arena, const trm_shape *shape,
                             const trm_literal **out_literal);
/* Prints text that trm_literal_parse reads back to the same bytes. */
void trm_literal_print(const trm_literal *literal, trm_text *out_text);
/* One element, as in a literal. */
void trm_literal_print_element(trm_dtype dtype, const void *element, trm_text *out_text);

/* ---- Between literal.c and literal_print.c ---- */

enum { TRM_LITERAL_MAX_DEPTH = 64 }; /* of nested tuples */
/* A float whose rounding to a half or bfloat16 equals that of the double: its last bit is set when
 * anything was cut off. */
float trm_literal_round_to_odd(double value);
/* Bits of the fraction of a type of floats. */
int trm_literal_fraction_bits(trm_dtype dtype);

#endif /* TREMULA_HLO_LITERAL_H_ */
