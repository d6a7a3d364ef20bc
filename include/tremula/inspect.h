/* Further functions for the tools and the plugin: passes, options, opcodes, files. Not stable: only
 * for the tools and the plugin of the same build. */
#ifndef TREMULA_INSPECT_H_
#define TREMULA_INSPECT_H_

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gets the module after each pass. A status other than TRM_OK ends the compilation with that
 * status. */
typedef trm_status (*trm_inspect_observer)(const char *pass, const trm_module *module,
                                           void *context, trm_error *error);
/* trm_compile, which calls the observer. */
TRM_API trm_status trm_inspect_compile(const trm_module *module, const trm_option *options,
                                       size_t num_options, trm_inspect_observer observer,
                                       void *context, trm_executable **out_executable,
                                       trm_error *error);
/* trm_compile for the estimate alone: an executable that knows its inputs, outputs and feeds, and
 * that no engine runs. */
TRM_API trm_status trm_inspect_compile_for_plan(const trm_module *module, const trm_option *options,
                                                size_t num_options, trm_executable **out_executable,
                                                trm_error *error);
/* Runs the passes of the estimate for an IPU, which trm_inspect_compile does not run, and calls the
 * observer. */
TRM_API trm_status trm_inspect_planning(const trm_executable *executable,
                                        trm_inspect_observer observer, void *context,
                                        trm_error *error);

typedef struct trm_inspect_pass_row {
  const char *name;
  bool plans; /* trm_inspect_planning runs it, and trm_inspect_compile does not */
} trm_inspect_pass_row;
/* In the order in which they run; false for i out of range. */
TRM_API bool trm_inspect_pass(size_t i, trm_inspect_pass_row *out_row);

typedef struct trm_inspect_option_row {
  const char *key, *default_value, *help;
  bool plans; /* false: it does not affect `tremula plan` */
} trm_inspect_option_row;
/* Option number i of the compiler; false for i out of range. */
TRM_API bool trm_inspect_option(size_t i, trm_inspect_option_row *out_row);

typedef struct trm_inspect_opcode_row {
  const char *name, *class_name;
  int arity;       /* -1: varies */
  bool has_kernel; /* false: a pass removes it, the engine handles it, or it cannot run */
} trm_inspect_opcode_row;
/* The same of the opcodes of HLO. */
TRM_API bool trm_inspect_opcode(size_t i, trm_inspect_opcode_row *out_row);

/* The number of instructions of the module with one of these opcodes, given by name. */
TRM_API uint64_t trm_inspect_count(const trm_module *module, const char *const *opcodes,
                                   size_t num_opcodes);

/* Whether the bytes of a module identify its program: false if one of its user ops says
 * {"is_hashable":false}. True for bytes that cannot be read, which the compiler refuses. */
TRM_API bool trm_inspect_is_hashable(const void *data, size_t size);
/* trm_executable_tells_replicas_apart of a module before it is compiled; false for bytes that
 * cannot be read. */
TRM_API bool trm_inspect_tells_replicas_apart(const void *data, size_t size);

/* Hashes what identifies the program of a module: all its bytes but the names of its inputs in the
 * side table, which only label a profile. Bytes that cannot be read are hashed as they are. */
TRM_API void trm_inspect_hash(const void *data, size_t size, uint64_t out_hash[2]);

/* Writes `head` (head_size bytes, may be 0) and then `data` into a new file, which then replaces
 * `path` at once. No reader sees a part of it. A link or FIFO at `path` is replaced, not written
 * through. On failure nothing changes. */
TRM_API trm_status trm_inspect_replace_file(const char *path, const void *head, size_t head_size,
                                            const void *data, size_t size, trm_error *error);

/* Whether an optimised program needs no device, and so has no profile and no events: it has no side
 * effects, and all its results are constants, or all are inputs, or it only computes scalars from
 * scalars, elementwise. */
TRM_API bool trm_inspect_is_trivial(const trm_module *module);
/* The module that an executable runs. */
TRM_API const trm_module *trm_inspect_module(const trm_executable *executable);

/* For each input: the number below which its elements must be because the program uses them as
 * indices; 0: no such use is found. False when memory runs out. */
TRM_API bool trm_inspect_input_bounds(const trm_executable *executable, int64_t *out_bounds);

/* For "did you mean": the name with the fewest edits to `word`; NULL where none is near. */
TRM_API const char *trm_inspect_nearest(const char *word, const char *const *names, size_t count);

/* A copy of a module for another batch size, which is the first dimension of input leaf `input`.
 * INVALID_ARGUMENT where the module does not tell what another size would be. */
TRM_API trm_status trm_inspect_with_batch(const trm_module *module, size_t input, int64_t batch,
                                          trm_module **out_module, trm_error *error);
/* The JSON text that a framework has added to the module (trm_module_read_lowered); NULL: none. */
TRM_API const char *trm_inspect_side_table(const trm_executable *executable);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_INSPECT_H_ */
