/* The log (tremula/log.h). */
#ifndef TREMULA_BASE_LOG_H_
#define TREMULA_BASE_LOG_H_

#include "tremula/log.h"

/* A level's name, in any case, to the level; false for what is none. */
bool trm_log_level_parse(const char *name, trm_log_level *out_level);

#endif /* TREMULA_BASE_LOG_H_ */
