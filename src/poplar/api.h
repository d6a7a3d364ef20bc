/* The table of functions that Poplar's headers call (tremula/poplar.h). */
#ifndef TREMULA_POPLAR_API_H_
#define TREMULA_POPLAR_API_H_

#include "tremula/poplar.h"

const trm_poplar_api *trm_poplar_api_table(void);

#endif /* TREMULA_POPLAR_API_H_ */
