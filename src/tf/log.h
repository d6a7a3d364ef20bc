/* Owns: log lines on standard error in TensorFlow's format, and the choice of TensorFlow's own
 * lines about the device that are suppressed.
 *
 * A line names its place in this code. Two lines that users of the original know by heart have the
 * place that they had there. */
#ifndef TREMULA_TF_LOG_H_
#define TREMULA_TF_LOG_H_

#include <stdbool.h>

#include "tensorflow.h"

#define TRM_TF_INFO(...) trm_tf_log_line('I', __FILE__, __LINE__, __VA_ARGS__)
#define TRM_TF_WARN(...) trm_tf_log_line('W', __FILE__, __LINE__, __VA_ARGS__)
/* Logs a line at a level of detail, from 1 on, if the environment asks for it: TF_CPP_VMODULE, as
 * in "poplar_compiler=1,poplar_*=2", or TF_CPP_MAX_VLOG_LEVEL. `module` is a name from the
 * original. */
#define TRM_TF_DETAIL(level, module, ...)                                   \
  do {                                                                      \
    if (trm_tf_log_is_verbose((level), (module))) TRM_TF_INFO(__VA_ARGS__); \
  } while (0)

__attribute__((format(printf, 4, 5))) void trm_tf_log_line(char severity, const char *file,
                                                           int line, const char *format, ...);
/* Logs a line with the file and line `place`, from the original or from Python. */
__attribute__((format(printf, 2, 3))) void trm_tf_log_at(const char *place, const char *format,
                                                         ...);
/* The lines that keep the original's place. */
#define TRM_TF_PLACE_ATTACHED "tensorflow/compiler/plugin/poplar/driver/executor.cc:660"
#define TRM_TF_PLACE_COMPILED "tensorflow/compiler/jit/xla_compilation_cache.cc:251"

bool trm_tf_log_is_verbose(int level, const char *module);

/* Suppresses the lines that TensorFlow 2.15 logs about the device in every session, and about XLA.
 * `version` is TensorFlow's or NULL. */
void trm_tf_log_quieten(const char *version);

/* ---- For Python ---- */

TRM_TF_API void trm_tf_log(const char *place, const char *text);

#endif /* TREMULA_TF_LOG_H_ */
