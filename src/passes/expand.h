/* Opcodes that become others before all passes: loops and gathers. */
#ifndef TREMULA_PASSES_EXPAND_H_
#define TREMULA_PASSES_EXPAND_H_

#include "passes/edit.h"

/* A scan becomes a while loop over the elements of the scanned dimension. */
trm_status trm_expand_scan(trm_edit *edit, trm_index index, trm_error *error);
/* A shuffle becomes slices side by side (it has shifts) or a gather (it has indices). */
trm_status trm_expand_shuffle(trm_edit *edit, trm_index index, trm_error *error);

#endif /* TREMULA_PASSES_EXPAND_H_ */
