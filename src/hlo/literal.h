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
/* Prints what trm_literal_parse reads back to the same bytes. */
void trm_literal_print(const trm_literal *literal, trm_text *out_text);
/* One element, as in a literal. */
void trm_literal_print_element(trm_dtype dtype, const void *element, trm_text *out_text);

#endif /* TREMULA_HLO_LITERAL_H_ */
