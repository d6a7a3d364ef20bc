/* What the tools and the plugin use beyond the rest of the API: passes, options, opcodes, files.
 * Unstable: for those of the same build only. */
#ifndef TREMULA_INSPECT_H_
#define TREMULA_INSPECT_H_

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Told of the module after each pass. A status other than TRM_OK ends the compilation with it. */
typedef trm_status (*trm_inspect_observer)(const char *pass, const trm_module *module,
                                           void *context, trm_error *error);
TRM_API trm_status trm_inspect_compile(const trm_module *module, const trm_option *options,
                                       size_t num_options, trm_inspect_observer observer,
                                       void *context, trm_executable **out_executable,
                                       trm_error *error);
/* The i-th pass; NULL for i out of range. */
TRM_API const char *trm_inspect_pass(size_t i);

typedef struct trm_inspect_option_row {
  const char *key, *default_value, *help;
  bool plans; /* false: it has no part in what `tremula plan` says */
} trm_inspect_option_row;
/* false for i out of range. */
TRM_API bool trm_inspect_option(size_t i, trm_inspect_option_row *out_row);

typedef struct trm_inspect_opcode_row {
  const char *name, *class_name;
  int arity;       /* -1: varies */
  bool has_kernel; /* false: passes remove it, the engine itself does it, or it cannot run */
} trm_inspect_opcode_row;
TRM_API bool trm_inspect_opcode(size_t i, trm_inspect_opcode_row *out_row);

/* How many instructions of the module have one of these opcodes, by their names. */
TRM_API uint64_t trm_inspect_count(const trm_module *module, const char *const *opcodes,
                                   size_t num_opcodes);

/* Whether the program of a module's bytes can be told from others by these bytes: no user's op in
 * it says {"is_hashable":false}. What cannot be read is for the compiler to refuse: true. */
TRM_API bool trm_inspect_is_hashable(const void *data, size_t size);

/* Writes `head` (head_size bytes, may be 0) and then `data` into a file that then takes the place
 * of `path` at once: nobody sees half of it, what lies there (a link, a FIFO) is not written
 * through, and on failure nothing is left. */
TRM_API trm_status trm_inspect_replace_file(const char *path, const void *head, size_t head_size,
                                            const void *data, size_t size, trm_error *error);

/* Whether a program that has been optimised needs no device, and so has no profile and no events:
 * without side effects, all its results are constants, or all are inputs, or it makes scalars of
 * scalars, elementwise. */
TRM_API bool trm_inspect_is_trivial(const trm_module *module);
/* The module that an executable runs. */
TRM_API const trm_module *trm_inspect_module(const trm_executable *executable);

/* For each input the number below which its elements have to be to index what the program indexes
 * with them; 0: none is seen. False when memory runs out. */
TRM_API bool trm_inspect_input_bounds(const trm_executable *executable, int64_t *out_bounds);

/* The JSON that travels with a module; NULL: none. */
TRM_API const char *trm_inspect_side_table(const trm_executable *executable);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_INSPECT_H_ */
