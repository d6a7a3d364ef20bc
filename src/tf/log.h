/* Lines on standard error, in TensorFlow's log format. */
#ifndef TREMULA_TF_LOG_H_
#define TREMULA_TF_LOG_H_

#include <stdbool.h>

/* What the original logs from its file `source`, such as "poplar_compiler.cc:1973" (of its driver)
 * or "compiler/jit/xla_compilation_cache.cc:251" (of TensorFlow). */
__attribute__((format(printf, 2, 3))) void log_info(const char *source, const char *format, ...);
__attribute__((format(printf, 2, 3))) void log_warning(const char *source, const char *format, ...);
/* The same at a level of detail, 1 and more, that the environment asks for: TF_CPP_VMODULE, as in
 * "poplar_compiler=1,poplar_*=2", or TF_CPP_MAX_VLOG_LEVEL. */
__attribute__((format(printf, 3, 4))) void log_verbose(int level, const char *source,
                                                       const char *format, ...);
bool log_is_verbose(int level, const char *source);

#endif /* TREMULA_TF_LOG_H_ */
