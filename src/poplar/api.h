/* The functions of trm_poplar_api, which tremula/poplar.h documents. */
#ifndef TREMULA_POPLAR_API_H_
#define TREMULA_POPLAR_API_H_

#include "tremula/poplar.h"
#include "tremula/tremula.h"

#define POPLAR_FUNCTION(member, function) __typeof__(*((const trm_poplar_api *)0)->member) function;
#include "poplar/api.def"

#endif /* TREMULA_POPLAR_API_H_ */
