/* Lines on standard error, in TensorFlow's log format. */
#ifndef TREMULA_TF_LOG_H_
#define TREMULA_TF_LOG_H_

/* What the original logs from its file `source`, such as "poplar_compiler.cc:1973". */
__attribute__((format(printf, 2, 3))) void log_info(const char *source, const char *format, ...);
__attribute__((format(printf, 2, 3))) void log_warning(const char *source, const char *format, ...);

#endif /* TREMULA_TF_LOG_H_ */
