/* Declarations that the files of the command line share.
 *
 *   tremula.c       the subcommands, --help, --version
 *   command_*.c     one file for each subcommand
 *   arguments.c     NAME=VALUE, names of types, messages
 *   model.c         MODEL: a module, or a model that Python lowers to one
 *   names.c         the names of an executable's inputs and outputs
 *   run_data.c      the arrays and feeds of a run, from files and to files
 *   made_up.c       values of arrays that no file gives
 *   npy.c show.c    arrays as .npy files and as text */
#ifndef TREMULA_TOOLS_TOOL_H_
#define TREMULA_TOOLS_TOOL_H_

#include <getopt.h>
#include <stdio.h>

#include "npy.h"
#include "tremula/tremula.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* The subcommands. argv[0] is the subcommand's name; each returns the process's exit code. */
int command_compile(int argc, char **argv);
int command_run(int argc, char **argv);
int command_print(int argc, char **argv);
int command_ops(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_report(int argc, char **argv);
int command_trace(int argc, char **argv);
int command_view(int argc, char **argv);
int command_poplar(int argc, char **argv);
int command_check(int argc, char **argv);

/* ---- arguments.c ---------------------------------------------------------------------------- */

/* Prints "tremula: <message>" on stderr, as one line, or nothing for an empty message. Returns
 * EXIT_FAILED. */
int complain(const trm_error *error);
/* Prints a mistake in the command line and a hint at --help. Returns EXIT_USAGE. */
int complain_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets *error; returns `status`. */
trm_status fail(trm_error *error, trm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* The options of a command. */
typedef struct option_reader {
  const char *command;
  const char *letters; /* as getopt_long has them; missing values are ':' */
  const struct option *longs;
  const int *often; /* those whose value may be repeated, besides lowering's; 0 ends them */
  uint64_t given;   /* begins with 0 */
} option_reader;

/* The next option as getopt_long returns it; -1 after the last. '?' for one that is unknown, has no
 * value or one too many, or repeats its value: the complaint is printed. */
int next_option(option_reader *reader, int argc, char **argv);
/* The key of an option of the compiler that is set twice; else NULL. */
const char *set_again(const trm_option *options, size_t count);

/* Cuts "key=value" at its first '='. Returns the value, or NULL without a value or key. */
char *split_assignment(char *text);
/* Parses a number from 1 to `most`; false for anything else. */
bool parse_count(const char *text, long most, long *out_count);
/* Writes "f32[2,3]" into the buffer, and returns the buffer. */
const char *type_text(trm_dtype dtype, int32_t rank, const int64_t *dims, char *buffer,
                      size_t size);
enum { TYPE_TEXT_SIZE = 512 };

/* A growing list of pointers into argv, for options that may be repeated. */
typedef struct string_list {
  char **items;
  size_t count, capacity;
} string_list;
bool string_list_add(string_list *list, char *item);

/* The number of paths that are not timelines (.pvti); NULL ends the list. */
int count_profiles(char *const *paths);

/* ---- model.c -------------------------------------------------------------------------------- */

/* How to lower a SavedModel or a GraphDef. */
typedef struct lowering_options {
  const char *signature; /* NULL: serving_default */
  string_list feeds, fetches, shapes;
} lowering_options;

/* Values that getopt_long returns for these options: above the characters. */
enum { OPTION_SIGNATURE = 1000, OPTION_FEED, OPTION_FETCH, OPTION_SHAPE, OPTION_OWN };
#define LOWERING_LONG_OPTIONS                               \
  {"signature", required_argument, NULL, OPTION_SIGNATURE}, \
      {"feed", required_argument, NULL, OPTION_FEED},       \
      {"fetch", required_argument, NULL, OPTION_FETCH}, {   \
    "shape", required_argument, NULL, OPTION_SHAPE          \
  }
#define LOWERING_HELP                                                                             \
  "A SavedModel (needs Python with TensorFlow):\n"                                                \
  "  --signature NAME         the signature to take (serving_default)\n"                          \
  "A SavedModel, or a file of Keras', .keras or .h5:\n"                                           \
  "  --shape NAME=DIMS        the shape of an input that has unknown dimensions: x=1,224,224,3\n" \
  "A GraphDef, .pb or .pbtxt, frozen (needs Python with TensorFlow):\n"                           \
  "  --feed NAME[:TYPE[DIMS]] an input: x, or x:f32[1,28,28]; may be repeated\n"                  \
  "  --fetch NAME             an output; may be repeated\n"

/* Handles the option if it is one of these; *out_memory is false without memory. */
bool lowering_option(lowering_options *options, int option, char *value, bool *out_memory);
void lowering_options_free(lowering_options *options);

/* Whether Python lowers the model: a folder (SavedModel), a Keras file, a GraphDef. */
bool model_needs_python(const char *path, const lowering_options *options);
/* Fails for a file or folder of Tremula's that is no MODEL. */
trm_status model_refuse_others(const char *path, trm_error *error);
/* Reads MODEL, and lowers it if it is not a module. */
trm_status model_read(const char *path, const lowering_options *options, trm_module **out_module,
                      trm_error *error);
/* Runs `python -m module arguments...` (NULL ends the arguments) with the same output. */
trm_status run_python(const char *module, char *const *arguments, trm_error *error);
/* Whether the file begins like an executable. */
bool is_executable_file(const char *path);

/* ---- names.c -------------------------------------------------------------------------------- */

/* The users' names of inputs and outputs: the model's names if the executable has them. */
typedef struct interface_names {
  const char **inputs, **outputs;
  char (*numbered)[32];
  void *table; /* a json_t */
} interface_names;

bool interface_names_create(const trm_executable *executable, interface_names *out_names);
void interface_names_free(interface_names *names);
/* The number of the input with this name: a name in the model, a name in the program (whose number
 * may be left out if that is unique: "x" for "x.1"), or the number itself. -1: none. */
int64_t interface_find_input(const trm_executable *executable, const interface_names *names,
                             const char *name);

/* ---- made_up.c ------------------------------------------------------------------------------ */

/* Fills an array with random numbers: floats of the normal distribution, integers from 0 to below
 * `bound` (0: small ones). Equal states give equal numbers; *state advances. */
void make_up(npy_array *array, int64_t bound, uint64_t *state);

/* ---- run_data.c ----------------------------------------------------------------------------- */

/* The data of a run. */
typedef struct run_data {
  trm_executable *executable;
  interface_names names;
  npy_array *inputs, *outputs;
  size_t num_feeds;
  struct run_feed *feeds;
} run_data;

/* The contents of inputs and infeeds without a file. */
typedef enum missing_data { MISSING_IS_WRONG, MISSING_IS_ZERO, MISSING_IS_RANDOM } missing_data;

/* The sources of a run's data: "NAME=FILE" and "ID=FILE,FILE". The texts are cut into parts. */
typedef struct run_sources {
  const string_list *inputs, *infeeds;
  missing_data missing;
  uint64_t seed;
} run_sources;
trm_status run_data_create(trm_executable *executable, const run_sources *sources, run_data *data,
                           trm_error *error);
/* Makes the queues, binds them, and starts to push the elements. */
trm_status run_data_start_feeds(run_data *data, trm_engine *engine, trm_error *error);
/* Stops pushing, also before the end. */
void run_data_stop_feeds(run_data *data);
/* Writes outputs and the elements of outfeeds into `folder`, or to stdout if it is NULL. */
trm_status run_data_write(run_data *data, const char *folder, trm_error *error);
void run_data_free(run_data *data);

/* ---- show.c --------------------------------------------------------------------------------- */

/* Prints an array like NumPy, with the middle of a large one left out. */
void show_array(FILE *out, const npy_array *array);

#endif /* TREMULA_TOOLS_TOOL_H_ */
