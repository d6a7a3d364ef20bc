/* Poplar's words for the types that vertices of slices move. */
#ifndef TREMULA_IPU_COSTS_DATA_H_
#define TREMULA_IPU_COSTS_DATA_H_

#include "hlo/hlo.h"

/* "char", "half", "float" or "int", by the size of an element; static. */
const char *trm_tile_type_word(trm_dtype dtype);

#endif /* TREMULA_IPU_COSTS_DATA_H_ */
