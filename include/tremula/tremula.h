/* Tremula: a compiler and an engine for HLO programs, with the estimate of what an IPU would need.
 *
 * There are two ways to use this library.
 *
 *   1. Run a program that exists as a file. trm_module_read() takes a serialised HloModuleProto or
 *      XLA's HLO text, trm_compile() makes an executable of it, trm_engine_create() gives the
 *      executable memory, and trm_engine_run() computes.
 *   2. Build a program in C. trm_builder_create() and the trm_build_... functions (builder.h)
 *      make a module without any file; the rest is the same.
 *
 * This header has two layers. The simple one is all that the first way needs; the advanced one
 * follows below a line, and its parts need nothing of each other.
 *
 * Rules that hold for every function:
 *   - What can fail returns a trm_status and, last, takes a trm_error that the caller owns. The
 *     error may be NULL. It is written only on failure and never allocates.
 *   - Outputs come before the error and are called out_x. On failure they are left untouched.
 *   - Strings are UTF-8 and end with a NUL; sizes are in bytes; dimensions in elements.
 *   - Bytes from outside (files, protos, texts) are untrusted: any input whatever gives a status.
 *   - Arrays are dense and row-major (the last dimension runs fastest). Layouts in a module are
 *     hints that are kept and printed and nothing else.
 *   - Structs with a first member `size` grow at their end: the caller sets it to sizeof.
 *   - The functions and structs of tremula.h, builder.h, device.h and target.h stay as they are
 *     until the soname changes. program.h and report.h say which of theirs do. inspect.h is for
 *     the tools of the same build.
 *   - A module is used by one thread at a time. An executable is immutable and may be shared. An
 *     engine is run by one thread at a time; several engines may run at once.
 */
#ifndef TREMULA_TREMULA_H_
#define TREMULA_TREMULA_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(TRM_BUILD_SHARED)
#define TRM_API __attribute__((visibility("default")))
#else
#define TRM_API
#endif

#define TRM_VERSION_STRING "0.2.0"

/* The library's version, a static string such as "0.2.0". */
TRM_API const char *trm_version(void);
/* What Poplar's C++ headers call (poplar.h). */
TRM_API const struct trm_poplar_api *trm_poplar_api_table(void);

/* ============================================================================================
 * The simple layer: a program from a file is compiled, and computes.
 * ========================================================================================== */

/* ---- Status and errors --------------------------------------------------------------------- */

/* The codes are TensorFlow's (and so gRPC's), so that a failure reaches Python as the exception
 * that a TensorFlow user expects. status.def has them, and whose fault each is. */
typedef enum trm_status {
#define TRM_STATUS(name, code, whose) TRM_##name = code,
#include "tremula/status.def"
#undef TRM_STATUS
} trm_status;

#define TRM_ERROR_SIZE 4096

/* Filled on failure. The message says what is wrong, where, and what to do. It ends with a NUL and
 * is cut at TRM_ERROR_SIZE. */
typedef struct trm_error {
  trm_status status;
  char message[TRM_ERROR_SIZE];
} trm_error;

/* The name of a status, such as "InvalidArgument"; never NULL. */
TRM_API const char *trm_status_name(trm_status status);

/* Frees a block that a function of this library gave its caller (texts, serialised modules). NULL
 * is allowed. */
TRM_API void trm_free(void *block);

/* ---- Types --------------------------------------------------------------------------------- */

/* Element types, with the numbers of HLO's PrimitiveType, so that they can be read from a proto. */
typedef enum trm_dtype {
#define TRM_DTYPE(id, number, name, bytes, kind) TRM_##id = number,
#include "tremula/dtype.def"
#undef TRM_DTYPE
} trm_dtype;

/* HLO's name of a type, such as "f32"; "invalid" for an unknown number. */
TRM_API const char *trm_dtype_name(trm_dtype dtype);
/* Bytes of one element; 0 for tuples, tokens and opaque values. */
TRM_API size_t trm_dtype_size(trm_dtype dtype);
/* Writes one element of an array as HLO text: "-2.5", "nan", "true", "(1, 2)", cut to `size` bytes
 * with the NUL. Returns the buffer. */
TRM_API const char *trm_element_text(trm_dtype dtype, const void *element, char *buffer,
                                     size_t size);

#define TRM_MAX_RANK 16

/* An array of a program's interface. */
typedef struct trm_tensor_info {
  const char *name; /* owned by the object that gives the info; may be "" */
  trm_dtype dtype;
  int32_t rank;
  int64_t dims[TRM_MAX_RANK];
  size_t bytes;
} trm_tensor_info;

/* ---- Modules ------------------------------------------------------------------------------- */

typedef struct trm_module trm_module;

/* Reads a module: a serialised HloModuleProto, a HloProto or HloSnapshot that holds one, as XLA
 * dumps them, or XLA's HLO text; the contents tell which. `name` names the input in messages (a
 * file's name); it may be NULL. The module is verified. Free it with trm_module_free. */
TRM_API trm_status trm_module_read(const void *data, size_t size, const char *name,
                                   trm_module **out_module, trm_error *error);
/* The same for a file. */
TRM_API trm_status trm_module_read_file(const char *path, trm_module **out_module,
                                        trm_error *error);
/* Prints a module as HLO text that trm_module_read takes back. Free *out_text with trm_free. */
TRM_API trm_status trm_module_print(const trm_module *module, char **out_text, trm_error *error);
/* The name; it lives as long as the module. */
TRM_API const char *trm_module_name(const trm_module *module);
TRM_API void trm_module_free(trm_module *module);

/* ---- Compiling ----------------------------------------------------------------------------- */

typedef struct trm_executable trm_executable;

/* An option: a key and its value as text. `tremula compile --help` lists the keys. trm_compile
 * refuses an unknown key, naming the nearest one, and a value that does not fit. */
typedef struct trm_option {
  const char *key;
  const char *value;
} trm_option;

/* Compiles a module, which does not change and may be freed afterwards. Free the executable with
 * trm_executable_free. */
TRM_API trm_status trm_compile(const trm_module *module, const trm_option *options,
                               size_t num_options, trm_executable **out_executable,
                               trm_error *error);

TRM_API void trm_executable_free(trm_executable *executable);

/* The interface: the entry's parameters and results, with nested tuples flattened in order. The
 * pointers live as long as the executable; NULL for an index out of range. */
TRM_API size_t trm_executable_num_inputs(const trm_executable *executable);
TRM_API size_t trm_executable_num_outputs(const trm_executable *executable);
TRM_API const trm_tensor_info *trm_executable_input(const trm_executable *executable, size_t i);
TRM_API const trm_tensor_info *trm_executable_output(const trm_executable *executable, size_t i);
/* The module's name; lives as long as the executable. */
TRM_API const char *trm_executable_name(const trm_executable *executable);
/* ---- Running ------------------------------------------------------------------------------- */

typedef struct trm_engine trm_engine;
/* Gives an executable memory for runs. The engine keeps the executable alive. Free it with
 * trm_engine_free. */
TRM_API trm_status trm_engine_create(trm_executable *executable, trm_engine **out_engine,
                                     trm_error *error);
/* Computes once. inputs[i] and outputs[i] point to arrays as trm_executable_input and _output state
 * them, aligned for their type. Inputs are read in place and never written. Outputs must not
 * overlap inputs or each other. versions may be NULL. If versions[i] is not 0, it must change
 * whenever the contents of inputs[i] may have changed, which lets the engine keep packed weights.
 * Returns TRM_CANCELLED soon after trm_engine_cancel. */
TRM_API trm_status trm_engine_run(trm_engine *engine, const void *const *inputs,
                                  const uint64_t *versions, void *const *outputs, trm_error *error);
TRM_API void trm_engine_free(trm_engine *engine);

/* ============================================================================================
 * The advanced layer: programs of frameworks, saved executables, replicas, results on accelerators,
 * feeds, calls to the host. Each part needs the simple layer only.
 * ========================================================================================== */

/* ---- Modules of frameworks --------------------------------------------------------------- */

/* Reads a HloModuleProto that a framework has lowered from a graph. `notes` on the graph are a JSON
 * object, all of whose members are optional:
 *
 *   nodes        {id: {"name", "file" (or null), "line", "shard": [device], "attributes": {key:
 *                text}}}: what an instruction gets of the node whose id is the last such part of
 *                its op_name, a path; shard and attributes may be missing
 *   name         of the module and of its entry computation
 *   side_table   a text that travels with the module: JSON with "arguments", how many of the first
 *                parameters come with every run, and "inputs", what reports call the parameters
 *   first_state  the number of a parameter: it and those after it become zeros, and the results
 *                that are their new values by the module's aliases are dropped
 *   aliases      [[result, parameter]]: more results that are new values of parameters
 *
 * Fails also if the shape of a result depends on values. */
TRM_API trm_status trm_module_read_lowered(const void *data, size_t size, const char *notes,
                                           trm_module **out_module, trm_error *error);
/* The arrays of a module's result; nested tuples are flattened. The second function fills in
 * trm_module_num_outputs() elements of each: types and dimensions (names are ""), and the index of
 * the input that the output updates, or -1. */
TRM_API size_t trm_module_num_outputs(const trm_module *module);
TRM_API trm_status trm_module_outputs(const trm_module *module, trm_tensor_info *out_infos,
                                      int64_t *out_aliases, trm_error *error);
/* Prints a module as a graph in the DOT language, as trm_module_print; `colors`: each IPU that
 * shardings name has a colour. */
TRM_API trm_status trm_module_print_dot(const trm_module *module, bool colors, char **out_text,
                                        trm_error *error);
/* Serialises a module as an HloModuleProto. Free *out_data with trm_free. */
TRM_API trm_status trm_module_serialize(const trm_module *module, void **out_data, size_t *out_size,
                                        trm_error *error);
/* Checks a module: every operand, attribute and shape of every instruction. */
TRM_API trm_status trm_module_verify(const trm_module *module, trm_error *error);

/* ---- Executables ------------------------------------------------------------------------- */

/* An executable as bytes, with a magic number, a version, a length and a hash before its content
 * (docs/executable_format.md). Free *out_data with trm_free. */
TRM_API trm_status trm_executable_serialize(const trm_executable *executable, void **out_data,
                                            size_t *out_size, trm_error *error);
/* Reads what trm_executable_serialize wrote; data that are cut short or altered are refused. Free
 * *out_executable with trm_executable_free. */
TRM_API trm_status trm_executable_deserialize(const void *data, size_t size,
                                              trm_executable **out_executable, trm_error *error);
/* Writes an executable into a file. Replaces the file at once: a reader sees the old or the new
 * one, also while others save. */
TRM_API trm_status trm_executable_save(const trm_executable *executable, const char *path,
                                       trm_error *error);
/* Reads a file that trm_executable_save or `tremula compile` wrote, as
 * trm_executable_deserialize reads its data. */
TRM_API trm_status trm_executable_load(const char *path, trm_executable **out_executable,
                                       trm_error *error);
/* The settings of a load. Zeros are the defaults. */
typedef struct trm_load_settings {
  size_t size; /* sizeof(trm_load_settings) */
  /* The option `region_cache` of trm_compile, which no file keeps. */
  const char *region_cache;
} trm_load_settings;
/* The same with settings; NULL: the defaults. */
TRM_API trm_status trm_executable_load_with(const char *path, const trm_load_settings *settings,
                                            trm_executable **out_executable, trm_error *error);
/* The input that output i updates (a variable), or -1. */
TRM_API int64_t trm_executable_output_alias(const trm_executable *executable, size_t i);
/* The optimised, fused and scheduled module, as HLO text. Free with trm_free. */
TRM_API trm_status trm_executable_print(const trm_executable *executable, char **out_text,
                                        trm_error *error);
/* The number of IPUs of one replica: the highest IPU in the shardings of instructions, plus one,
 * rounded up to a power of two. */
TRM_API uint32_t trm_executable_num_shards(const trm_executable *executable);
/* The number of replicas on the program's IPUs (the option `ipus`): IPUs / shards. Fails with
 * TRM_INTERNAL if that is not a whole number. */
TRM_API trm_status trm_executable_num_replicas(const trm_executable *executable,
                                               uint32_t *out_replicas, trm_error *error);
/* Whether replicas may compute different values: the program has feeds, random numbers, collectives
 * or the replica's number. If not, one replica computes the values of all. */
TRM_API bool trm_executable_tells_replicas_apart(const trm_executable *executable);
/* Whether trm_report_create has found out if the program fits the target that it was compiled for.
 * The answer is saved with the executable. */
TRM_API bool trm_executable_is_judged(const trm_executable *executable);
/* The accelerator for which the executable was compiled, such as "cuda:0"; NULL: the CPU computes
 * everything. */
TRM_API const char *trm_executable_accelerator(const trm_executable *executable);
/* Bytes of the arena that a run needs, beside inputs and outputs. */
TRM_API size_t trm_executable_arena_bytes(const trm_executable *executable);

/* ---- Replicas and settings --------------------------------------------------------------- */

/* trm_engine_create with num_replicas replicas (1 to 4096). Each has its own memory and thread, and
 * a share of the caller's cores. replica-id gives its number. Collectives combine values in the
 * order of the replicas, so results do not depend on threads. All replicas read the same inputs. An
 * infeed gives its elements to replica 0, 1, ... in turn. An outfeed gets one element tuple of all
 * replicas a step: its elements have a first dimension of num_replicas before the program's own. If
 * one replica fails, the run of all ends. */
TRM_API trm_status trm_engine_create_replicated(trm_executable *executable, uint32_t num_replicas,
                                                trm_engine **out_engine, trm_error *error);
/* How an engine computes. */
typedef struct trm_engine_settings {
  size_t size;
  uint32_t num_replicas; /* as in trm_engine_create_replicated; 0: one */
  /* As in TREMULA_ACCELERATOR (docs/accelerators.md): "cuda", "cuda:0,1" or the path of a PJRT
   * plugin; "": the CPU. NULL: the environment's choice when the executable was made. */
  const char *accelerator;
  /* Use the accelerator's fastest arithmetic, such as TF32, for float32, as
   * TREMULA_ACCELERATOR_PRECISION=fastest does. Without an accelerator it has no effect. */
  bool fastest;
  /* The engines of so many processes run the program together, each with num_replicas of the
   * replicas: this one with those from process * num_replicas on. They have joined a group
   * (group.h), in which `process` is their rank. Infeeds, outfeeds and outputs are of the replicas
   * of this process. If the program has collectives, a run waits for the others at its begin and
   * its end. 0 and 1: alone. */
  uint32_t num_processes, process;
} trm_engine_settings;
/* trm_engine_create with settings. An engine whose settings name an accelerator compiles the
 * program for it, and fails if the accelerator cannot be used. The executable does not change. */
TRM_API trm_status trm_engine_create_with(trm_executable *executable,
                                          const trm_engine_settings *settings,
                                          trm_engine **out_engine, trm_error *error);
/* The number of the engine's replicas; in several processes, those of this one. */
TRM_API uint32_t trm_engine_num_replicas(const trm_engine *engine);
/* trm_engine_run, with variables kept on the replicas. outputs are those of replica 0. If output o
 * updates an input (trm_executable_output_alias) and output_versions[o] is not 0, every other
 * replica keeps its own new value. A later run whose input has that version reads the kept values,
 * unless the host has written the variable since, which changes the version. output_versions may be
 * NULL: all replicas read the input. */
TRM_API trm_status trm_engine_run_replicated(trm_engine *engine, const void *const *inputs,
                                             const uint64_t *versions, void *const *outputs,
                                             const uint64_t *output_versions, trm_error *error);
/* The arguments of trm_engine_run_replicated, for callers in other languages who run an engine
 * often and pay for each argument. The caller keeps everything that it points to. */
typedef struct trm_engine_call {
  trm_engine *engine;
  const void *const *inputs;
  const uint64_t *versions;
  void *const *outputs;
  const uint64_t *output_versions;
  trm_error *error;
} trm_engine_call;
/* trm_engine_run_replicated with these arguments. */
TRM_API trm_status trm_engine_run_call(const trm_engine_call *call);
/* Output i of the last run, which must have succeeded, on a replica other than 0. The engine owns
 * it until the next run. NULL for replica 0, whose outputs are the caller's, and for numbers out of
 * range. */
TRM_API const void *trm_engine_output(const trm_engine *engine, uint32_t replica, size_t i);
/* Sets the seed of the random custom calls (ipu.utils.reset_ipu_seed). */
TRM_API void trm_engine_set_seed(trm_engine *engine, uint64_t seed);

/* ---- Results that stay on an accelerator ------------------------------------------------- */

/* Lets runs keep results resident on the accelerator, if there is one (docs/accelerators.md):
 * floating-point outputs whose output_versions[o] is not 0. The memory of such an output has no
 * contents until trm_fetch_resident. A run that gets it as an input finds the contents, also in
 * other engines. Off by default. */
TRM_API void trm_engine_keep_resident(trm_engine *engine, bool on);
/* Copies contents that are resident on an accelerator to the memory at `place`, or to the array
 * that contains it. Call it before reading the memory. It costs little if nothing is resident. */
TRM_API trm_status trm_fetch_resident(const void *place, trm_error *error);
/* Drops the resident contents of `place`. Call it before writing or freeing the memory. */
TRM_API void trm_forget_resident(const void *place);

/* ---- Stopping a run ---------------------------------------------------------------------- */

/* Asks a run to stop. It may be called at any time, from any thread and from a signal handler. A
 * call is for one run: the current one, which consumes the call at its end even if the call came
 * too late to stop it. Without a current run it is for the next one, which fails with TRM_CANCELLED
 * before it computes anything. Several calls before a run consumes them count as one. */
TRM_API void trm_engine_cancel(trm_engine *engine);
/* Withdraws a trm_engine_cancel that no run has consumed. A thread that cancels repeatedly until a
 * run ends calls it afterwards, so that the last call does not stop the next run. Also for signal
 * handlers. */
TRM_API void trm_engine_forget_cancel(trm_engine *engine);

/* ---- Times ------------------------------------------------------------------------------- */

/* Measures the time of each instruction from now on. It costs nothing while it is off. */
TRM_API void trm_engine_time_steps(trm_engine *engine, bool on);
/* A table of the times so far, the slowest instruction first: milliseconds, calls, kernel,
 * instruction. After an empty line follow the sums by kernel, and, if more than a hundredth of the
 * time is spent in reference kernels, after another one a line that says so. Free *out_text with
 * trm_free. */
TRM_API trm_status trm_engine_print_times(const trm_engine *engine, char **out_text,
                                          trm_error *error);
/* Some lines on what the accelerator computes, and how many steps the CPU computes for each reason.
 * Free *out_text with trm_free. */
TRM_API trm_status trm_engine_print_accelerator(const trm_engine *engine, char **out_text,
                                                trm_error *error);

/* ---- Feeds --------------------------------------------------------------------------------- */

typedef struct trm_infeed trm_infeed;
typedef struct trm_outfeed trm_outfeed;

/* clang-format off */
/* An infeed is a queue between a thread that pushes and the thread that runs the engine:
 *
 *     producer                         both                       consumer
 *
 *                                      trm_infeed_create
 *                                                                 trm_engine_bind_infeed
 *                                                                 trm_infeed_expect   (1)
 *                                                                 trm_infeed_open     (2)
 *   ┌─ trm_infeed_wanted   (3)         ┌──────────────┐
 *   │  trm_infeed_push     ──tuple──►  │ depth tuples │ ──tuple──► trm_engine_run: a read takes the
 *   └─ while it is true                └──────────────┘            oldest, or waits for one
 *      trm_infeed_end      ──status──────────────────────status─► a read past the last tuple fails
 *                                                                 trm_infeed_close    (4)
 *      trm_infeed_reset                (5)
 *      trm_infeed_release                                         trm_infeed_release, by the engine
 *
 *   (1) How many tuples the next run reads; without the call, any number.
 *
 *   (2) The producer may begin. trm_engine_run opens the infeed itself too, while it runs: call
 *       this where the producer starts before the run.
 *
 *   (3) For a producer that must not take from its source what nobody reads. Another one calls only
 *       trm_infeed_push, which blocks while the queue is full and open.
 *
 *   (4) A producer that waits in wanted or push returns: false, or not accepted.
 *
 *   (5) Only while nobody pushes or runs: the next tuple is the first of a new sequence.
 *
 * An outfeed has two ends: the program writes, and trm_outfeed_take, on any thread and also while
 * the engine runs, takes what there is. It never blocks the program, and grows instead.
 *
 * A program reads from an infeed by custom-call "tremula.infeed" and writes to an outfeed
 * by "tremula.outfeed"; the backend_config of the call is {"feed":"<id>"}. Queues are bounded and
 * may be used from any thread; they are reference counted, an engine holds one of each bound. */
/* clang-format on */
TRM_API trm_status trm_infeed_create(const trm_tensor_info *elements, size_t num_elements,
                                     size_t depth, trm_infeed **out_infeed, trm_error *error);
/* Copies one element tuple into the queue. Blocks while the queue is full and open. If the queue is
 * full and not open, *out_accepted is false, and the caller keeps the element. trm_infeed_close
 * makes a blocked push return. */
TRM_API trm_status trm_infeed_push(trm_infeed *infeed, const void *const *elements,
                                   bool *out_accepted, trm_error *error);
/* States that no element follows. A read past the end fails with `status` and `message`
 * (TRM_OUT_OF_RANGE at the end of data, or the producer's own error). */
TRM_API void trm_infeed_end(trm_infeed *infeed, trm_status status, const char *message);
/* Empties the queue and forgets an end, like initialising an iterator again. */
TRM_API void trm_infeed_reset(trm_infeed *infeed);
/* Lets every read give a copy of this element tuple, while pushed ones wait. NULL: reads give the
 * pushed tuples again. */
TRM_API trm_status trm_infeed_repeat(trm_infeed *infeed, const void *const *elements,
                                     trm_error *error);
/* A run begins, or ends, to consume elements. Calls are counted: each open needs a close. */
TRM_API void trm_infeed_open(trm_infeed *infeed);
TRM_API void trm_infeed_close(trm_infeed *infeed);
/* States how many element tuples the next run reads at least (trm_executable_feed_uses, for each
 * replica). Without this call it may read any number. */
TRM_API void trm_infeed_expect(trm_infeed *infeed, uint64_t num_tuples);
/* For a producer that must not take more from its source than runs read. Waits until there is room
 * for an element tuple that the run is known to read or is waiting for. False: no run is open. */
TRM_API bool trm_infeed_wanted(trm_infeed *infeed);
/* The seconds for which reads have waited for elements, in total. */
TRM_API double trm_infeed_waited(trm_infeed *infeed);
/* NULL is allowed. */
TRM_API void trm_infeed_release(trm_infeed *infeed);

/* `keep_last`: the queue keeps only the last element tuple (IPUOutfeedMode.LAST). */
TRM_API trm_status trm_outfeed_create(const trm_tensor_info *elements, size_t num_elements,
                                      bool keep_last, trm_outfeed **out_outfeed, trm_error *error);
/* Takes all element tuples since the last call. *out_count is their number. (*out_blocks)[e]
 * holds *out_count arrays of element e one after the other. Free each block and the array with
 * trm_free. */
TRM_API trm_status trm_outfeed_take(trm_outfeed *outfeed, size_t *out_count, void ***out_blocks,
                                    trm_error *error);
/* NULL is allowed. */
TRM_API void trm_outfeed_release(trm_outfeed *outfeed);

/* Connects the feed `id` of a program to a queue. The element types must agree. */
TRM_API trm_status trm_engine_bind_infeed(trm_engine *engine, const char *id, trm_infeed *infeed,
                                          trm_error *error);
TRM_API trm_status trm_engine_bind_outfeed(trm_engine *engine, const char *id, trm_outfeed *outfeed,
                                           trm_error *error);
/* The feeds of a program. kind is 'i' or 'o'; elements has *out_num entries and lives as long as
 * the executable. NULL for i out of range. */
TRM_API const char *trm_executable_feed(const trm_executable *executable, size_t i, char *out_kind,
                                        const trm_tensor_info **out_elements, size_t *out_num);
/* The least number of times that a run reads or writes feed i on each replica; loops and branches
 * may depend on data. 0 for i out of range. */
TRM_API uint64_t trm_executable_feed_uses(const trm_executable *executable, size_t i);

/* ---- Calls to the host ---------------------------------------------------------------------- */

/* A program calls a function of the host by custom-call "tremula.host-call" with the backend_config
 * {"host_call":"<id>"}. The function gets the arrays of the operands, which it must not write, and
 * fills in those of the result, in the order of their leaves. The program goes on when it returns.
 * `replica` is the number of the calling replica. Replicas call from their own threads, at the same
 * time. With "together":true in the backend_config they call one after the other in their order,
 * while all wait. A status other than TRM_OK, with the message, ends the run. The function must not
 * run, free or change the engine; it may cancel it. */
typedef trm_status (*trm_host_function)(void *user, const void *const *inputs, void *const *outputs,
                                        uint32_t replica, trm_error *error);
/* Sets the function for all host calls with this id, from the next run on. NULL: none; a run that
 * comes to such a call fails with TRM_FAILED_PRECONDITION. TRM_NOT_FOUND if the program has no such
 * id. */
TRM_API trm_status trm_engine_set_host_function(trm_engine *engine, const char *id,
                                                trm_host_function function, void *user,
                                                trm_error *error);
/* The same for host call i only; TRM_OUT_OF_RANGE if there is none. */
TRM_API trm_status trm_engine_set_host_call(trm_engine *engine, size_t i,
                                            trm_host_function function, void *user,
                                            trm_error *error);
/* The id of host call i of a program; several may have the same id. inputs and outputs describe the
 * arrays and live as long as the executable. NULL for i out of range. */
TRM_API const char *trm_executable_host_call(const trm_executable *executable, size_t i,
                                             const trm_tensor_info **out_inputs,
                                             size_t *out_num_inputs,
                                             const trm_tensor_info **out_outputs,
                                             size_t *out_num_outputs);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_TREMULA_H_ */
