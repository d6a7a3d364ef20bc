/* Modules as graphs in the DOT language. */
#ifndef TREMULA_HLO_DOT_H_
#define TREMULA_HLO_DOT_H_

#include "hlo/hlo.h"

/* A cluster for each computation, a node for each instruction, edges from operands to users, dashed
 * ones for control, dotted ones to what is called. With `colors` nodes have a colour for each IPU
 * of their shardings. `order` may be NULL; otherwise order[computation][instruction] is 0 or the
 * instruction's place in the order of execution, which is then part of its label, and a grey edge
 * goes from each to the next. */
void trm_hlo_print_dot(const trm_module *module, bool colors, const uint32_t *const *order,
                       trm_text *text);

#endif /* TREMULA_HLO_DOT_H_ */
