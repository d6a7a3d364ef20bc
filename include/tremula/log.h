/* The log: messages of the library about its work.
 *
 * POPLAR_LOG_LEVEL sets the level: OFF, ERR, WARN (the default), INFO, DEBUG or TRACE.
 * TF_POPLAR_VLOG_LEVEL 1, 2 and more count as INFO, DEBUG and TRACE; the higher of the two levels
 * holds. POPLIBS_LOG_LEVEL sets the level of the origin "POPLIBS", the planning of convolutions and
 * matrix products; its lines have PL in place of PO. POPLAR_LOG_DEST and POPLIBS_LOG_DEST set the
 * destination: stderr (the default), stdout, or a file, which is emptied first. All are read before
 * the first line is written. A line looks like
 *
 *     2026-11-21T13:44:44.123456Z PO:COMPILER 4711.4711 I: read the module step: 1234 instructions
 *
 * with the process and the thread before the letter of the level. Any thread may write. */
#ifndef TREMULA_LOG_H_
#define TREMULA_LOG_H_

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum trm_log_level {
  TRM_LOG_OFF,
  TRM_LOG_ERR,
  TRM_LOG_WARN,
  TRM_LOG_INFO,
  TRM_LOG_DEBUG,
  TRM_LOG_TRACE
} trm_log_level;

/* Whether lines of this level are written. Ask before computing something for a line. */
TRM_API bool trm_log_enabled(trm_log_level level, const char *origin);
/* Writes a line, cut at 4 KB. `origin` is a word in capitals, such as "COMPILER". */
TRM_API void trm_log(trm_log_level level, const char *origin, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_LOG_H_ */
