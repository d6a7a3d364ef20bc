/* The functions of trm_poplar_api: trm_poplar_ and the member's name. */
#ifndef TREMULA_POPLAR_API_H_
#define TREMULA_POPLAR_API_H_

#include "tremula/poplar.h"
#include "tremula/tremula.h"

#define POPLAR_CALL(member, ...) int32_t trm_poplar_##member(__VA_ARGS__, trm_poplar_error *error);
#define POPLAR_PLAIN(result, member, ...) result trm_poplar_##member(__VA_ARGS__);
#include "tremula/poplar_api.def"

#endif /* TREMULA_POPLAR_API_H_ */
