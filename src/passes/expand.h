/* Opcodes that become others before all passes: loops, gathers, rare forms. */
#ifndef TREMULA_PASSES_EXPAND_H_
#define TREMULA_PASSES_EXPAND_H_

#include "passes/edit.h"

/* A scan becomes a while loop over the elements of the scanned dimension. */
trm_status trm_expand_scan(trm_edit *edit, trm_index index, trm_error *error);
/* A shuffle becomes slices side by side (it has shifts) or a gather (it has indices). */
trm_status trm_expand_shuffle(trm_edit *edit, trm_index index, trm_error *error);
/* A ragged-dot becomes a loop of dots, or a dot. */
trm_status trm_expand_ragged_dot(trm_edit *edit, trm_index index, trm_error *error);
/* expand_rare.c: a call of TopK becomes topk where its comparator orders values, else a sort. */
trm_status trm_expand_top_k_call(trm_edit *edit, trm_index index, trm_error *error);
/* Rounds up where the random bits are below the fraction. Integers of up to 32 bits only. */
trm_status trm_expand_stochastic_convert(trm_edit *edit, trm_index index, trm_error *error);
/* A reduction whose computation gives a tuple of one scalar becomes one that gives an array. */
trm_status trm_expand_packed(trm_edit *edit, trm_index index, trm_error *error);
/* Random bits without the next state become those with it. */
trm_status trm_expand_random_bits(trm_edit *edit, trm_index index, trm_error *error);
/* A bitcast keeps bytes, and a layout says how they lie; arrays are row-major afterwards. */
trm_status trm_expand_bitcast(trm_edit *edit, trm_index index, trm_error *error);

#endif /* TREMULA_PASSES_EXPAND_H_ */
