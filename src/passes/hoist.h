/* What hoist.c knows of a while, for passes that make something for it to move. */
#ifndef TREMULA_PASSES_HOIST_H_
#define TREMULA_PASSES_HOIST_H_

#include "passes/edit.h"

/* Whether the state of the while can grow: what does not change in the body leaves it. */
bool trm_hoist_is_possible(const trm_edit *edit, trm_index loop);
/* Elements of the state that the body hands on: source[i] is the element that instruction i of the
 * body is, or -1. False where the body's result is no tuple. */
bool trm_hoist_find_sources(const trm_computation *body, int64_t *source);

#endif /* TREMULA_PASSES_HOIST_H_ */
