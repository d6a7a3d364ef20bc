/* The log (tremula/log.h). */
#ifndef TREMULA_BASE_LOG_H_
#define TREMULA_BASE_LOG_H_

#include "tremula/log.h"

/* Parses the name of a level, in any case; false for other texts. */
bool trm_log_level_parse(const char *name, trm_log_level *out_level);

#endif /* TREMULA_BASE_LOG_H_ */
