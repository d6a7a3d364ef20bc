/* Owns: reading MODEL, with the help of Python for TensorFlow models. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

extern char **environ;

/* The exit code of tremula.tool.* after they have printed a message. */
enum { PYTHON_HAS_COMPLAINED = 3 };

bool lowering_option(lowering_options *options, int option, char *value, bool *out_memory) {
  switch (option) {
    case OPTION_SIGNATURE: options->signature = value; return true;
    case OPTION_FEED: *out_memory = string_list_add(&options->feeds, value); return true;
    case OPTION_FETCH: *out_memory = string_list_add(&options->fetches, value); return true;
    case OPTION_SHAPE: *out_memory = string_list_add(&options->shapes, value); return true;
    default: return false;
  }
}

void lowering_options_free(lowering_options *options) {
  free(options->feeds.items);
  free(options->fetches.items);
  free(options->shapes.items);
}

/* ---- Python --------------------------------------------------------------------------------- */

/* Finds Python: TREMULA_PYTHON, or the one beside this program, or the first python3 of PATH. A
 * wheel for any system has the program in
 * <environment>/lib/python3.N/site-packages/tremula.scripts. */
static void find_python(char *path, size_t size) {
  static const char *const places[] = {"python", "../../../../bin/python"};
  const char *chosen = getenv("TREMULA_PYTHON");
  if (chosen != NULL && *chosen != '\0') {
    snprintf(path, size, "%s", chosen);
    return;
  }
  const ssize_t length = readlink("/proc/self/exe", path, size - 32);
  path[length > 0 ? length : 0] = '\0';
  char *slash = strrchr(path, '/');
  for (size_t p = 0; slash != NULL && p < sizeof places / sizeof *places; ++p) {
    strcpy(slash + 1, places[p]);
    if (access(path, X_OK) == 0) return;
  }
  snprintf(path, size, "python3");
}

/* Signals that end the command. Python would print where Ctrl-C met it, so it ignores Ctrl-C and is
 * ended from here; the command then takes away its temporary files, and ends of the signal. */
static const int endings[] = {SIGINT, SIGTERM, SIGHUP};
enum { NUM_ENDINGS = sizeof endings / sizeof *endings };
static volatile sig_atomic_t python, ended_by;

static void end_python(int number) {
  ended_by = number;
  if (python > 0) kill(python, SIGTERM);
}

static void end_of_signal(void) {
  if (ended_by == 0) return;
  signal(ended_by, SIG_DFL);
  raise(ended_by);
}

/* Runs Python and waits for it. Returns why it cannot be run, else 0. A signal that comes before
 * Python's number is known waits until it is. */
static int spawn(const char *path, char **argv, int *out_state) {
  struct sigaction before[NUM_ENDINGS];
  const struct sigaction ignore = {.sa_handler = SIG_IGN}, ours = {.sa_handler = end_python};
  static bool is_known;
  if (!is_known) is_known = atexit(end_of_signal) == 0;
  posix_spawnattr_t attributes;
  const int unusable = posix_spawnattr_init(&attributes);
  if (unusable != 0) return unusable;
  sigset_t blocked, mask;
  sigemptyset(&blocked);
  for (int i = 0; i < NUM_ENDINGS; ++i) sigaddset(&blocked, endings[i]);
  sigprocmask(SIG_BLOCK, &blocked, &mask);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  sigaction(SIGINT, &ignore, &before[0]);
  pid_t child = 0;
  const int problem = posix_spawnp(&child, path, NULL, &attributes, argv, environ);
  sigaction(SIGINT, &before[0], NULL);
  posix_spawnattr_destroy(&attributes);
  for (int i = 0; i < NUM_ENDINGS; ++i) {
    sigaction(endings[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(endings[i], &ours, NULL);
  }
  python = child;
  sigprocmask(SIG_SETMASK, &mask, NULL);
  while (problem == 0 && waitpid(child, out_state, 0) < 0 && errno == EINTR) continue;
  python = 0;
  for (int i = 0; i < NUM_ENDINGS; ++i) sigaction(endings[i], &before[i], NULL);
  return problem;
}

trm_status run_python(const char *module, char *const *arguments, trm_error *error) {
  char path[4096];
  find_python(path, sizeof path);
  size_t count = 0;
  while (arguments[count] != NULL) ++count;
  char **argv = calloc(count + 4, sizeof *argv);
  if (argv == NULL) return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  argv[0] = path;
  argv[1] = "-m";
  argv[2] = (char *)module;
  memcpy(argv + 3, arguments, count * sizeof *argv);
  fflush(stdout);
  int state = 0;
  const int problem = spawn(path, argv, &state);
  free(argv);
  if (problem != 0) {
    return fail(error, TRM_NOT_FOUND,
                "cannot run %s: %s. Set TREMULA_PYTHON to a Python that has Tremula and TensorFlow",
                path, strerror(problem));
  }
  if (ended_by != 0) return fail(error, TRM_CANCELLED, "%s", "");
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return TRM_OK;
  if (WIFEXITED(state) && WEXITSTATUS(state) == PYTHON_HAS_COMPLAINED) {
    return fail(error, TRM_INVALID_ARGUMENT, "%s", ""); /* Python has printed a message */
  }
  return fail(error, TRM_FAILED_PRECONDITION,
              "'%s -m %s' did not work (%s %d; its own message is above). Set TREMULA_PYTHON to a "
              "Python that has Tremula and TensorFlow",
              path, module, WIFSIGNALED(state) ? "signal" : "exit code",
              WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
}

/* ---- Lowering ------------------------------------------------------------------------------- */

static trm_status lower(const char *path, bool is_folder, const lowering_options *options,
                        trm_module **out_module, trm_error *error) {
  const char *folder = getenv("TMPDIR");
  char lowered[4096];
  snprintf(lowered, sizeof lowered, "%s/tremula-XXXXXX.hlo.pb",
           folder != NULL && *folder != '\0' ? folder : "/tmp");
  const int file = mkstemps(lowered, (int)strlen(".hlo.pb"));
  if (file < 0) {
    return fail(error, TRM_UNAVAILABLE, "cannot make a temporary file %s: %s", lowered,
                strerror(errno));
  }
  close(file);

  string_list arguments = {0};
  bool fits = string_list_add(&arguments, (char *)path) &&
              string_list_add(&arguments, "--output") && string_list_add(&arguments, lowered);
  if (is_folder) {
    fits = fits && string_list_add(&arguments, "--signature") &&
           string_list_add(&arguments, (char *)(options->signature != NULL ? options->signature
                                                                           : "serving_default"));
  }
  const struct {
    char *option;
    const string_list *values;
  } lists[] = {
      {"--feed", &options->feeds}, {"--fetch", &options->fetches}, {"--shape", &options->shapes}};
  for (size_t l = 0; l < sizeof lists / sizeof *lists; ++l) {
    for (size_t i = 0; i < lists[l].values->count; ++i) {
      fits = fits && string_list_add(&arguments, lists[l].option) &&
             string_list_add(&arguments, lists[l].values->items[i]);
    }
  }
  fits = fits && string_list_add(&arguments, NULL);
  trm_status status = fits ? run_python("tremula.tool.lower", arguments.items, error)
                           : fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  if (status == TRM_OK) status = trm_module_read_file(lowered, out_module, error);
  unlink(lowered);
  free(arguments.items);
  return status;
}

/* ---- Texts of several modules --------------------------------------------------------------- */

/* The number behind the last colon of a path that is no file itself, where a file is before it;
 * 0: none. */
static long number_of(const char *path, char *file, size_t size) {
  const char *colon = strrchr(path, ':');
  long number;
  if (colon == NULL || access(path, F_OK) == 0 || !parse_count(colon + 1, INT32_MAX, &number) ||
      (size_t)(colon - path) >= size) {
    return 0;
  }
  snprintf(file, size, "%.*s", (int)(colon - path), path);
  return access(file, F_OK) == 0 ? number : 0;
}

/* Blanks all modules but one, so that messages name the lines of the file. Returns how many there
 * are. */
static long keep_module(char *text, long number) {
  static const char separator[] = "// -----";
  long at = 1;
  for (char *line = text; *line != '\0';) {
    const size_t length = strcspn(line, "\n");
    const bool separates = strncmp(line, separator, strlen(separator)) == 0;
    if (separates) ++at;
    if (at != number || separates) memset(line, ' ', length);
    line += length + (line[length] == '\n');
  }
  return at;
}

static trm_status read_numbered(const char *file, long number, trm_module **out_module,
                                trm_error *error) {
  FILE *stream = fopen(file, "rb");
  char *text = NULL;
  size_t room = 0;
  if (stream == NULL) {
    return fail(error, TRM_UNAVAILABLE, "cannot read %s: %s", file, strerror(errno));
  }
  const ssize_t size = getdelim(&text, &room, '\0', stream);
  const bool is_text = size < 0 || text[size - 1] != '\0';
  fclose(stream);
  const long count = size < 0 ? 0 : keep_module(text, number);
  trm_status status;
  if (!is_text || count < number) {
    status = fail(error, TRM_INVALID_ARGUMENT,
                  "%s has no module %ld: its lines '// -----' make %ld of it", file, number, count);
  } else {
    status = trm_module_read(text, (size_t)size, file, out_module, error);
  }
  free(text);
  return status;
}

/* ---- Models --------------------------------------------------------------------------------- */

/* Whether a regular file begins with these bytes, at most 16. */
static bool begins_like(const char *path, const char *bytes, size_t count) {
  char start[16];
  struct stat status;
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return false; /* no pipe */
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  const size_t got = fread(start, 1, count, file);
  fclose(file);
  return got == count && memcmp(start, bytes, count) == 0;
}

/* Whether the path has the suffix of a Keras file. */
static bool is_keras(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot != NULL &&
         (strcmp(dot, ".keras") == 0 || strcmp(dot, ".h5") == 0 || strcmp(dot, ".hdf5") == 0);
}

static bool is_folder_at(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool model_needs_python(const char *path, const lowering_options *options) {
  return is_folder_at(path) || is_keras(path) || options->feeds.count > 0 ||
         options->fetches.count > 0;
}

/* Whether a file that is no HLO is StableHLO: MLIR as text, its byte code, or a file of jax.export,
 * which has that code inside. */
static bool is_stablehlo(const char *path) {
  char head[1 << 16];
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  const size_t got = fread(head, 1, sizeof head, file);
  fclose(file);
  return memmem(head, got, "stablehlo.", 10) != NULL || memmem(head, got, "func.func", 9) != NULL ||
         memmem(head, got, "StableHLO_v", 11) != NULL;
}

trm_status model_refuse_others(const char *path, trm_error *error) {
  char pop[4096];
  snprintf(pop, sizeof pop, "%s/profile.pop", path);
  if (is_executable_file(path)) {
    return fail(error, TRM_INVALID_ARGUMENT,
                "%s is an executable, compiled already: name the MODEL that it was made of", path);
  }
  if (access(pop, F_OK) == 0 || begins_like(path, "SQLite format 3", 15)) {
    return fail(error, TRM_INVALID_ARGUMENT,
                "%s is a profile or a timeline: tremula report, view and trace read these", path);
  }
  return TRM_OK;
}

trm_status model_read(const char *path, const lowering_options *options, trm_module **out_module,
                      trm_error *error) {
  if (model_refuse_others(path, error) != TRM_OK) return error->status;
  const bool is_folder = is_folder_at(path);
  const bool is_graph = options->feeds.count > 0 || options->fetches.count > 0;
  if (is_folder && is_graph) {
    return fail(
        error, TRM_INVALID_ARGUMENT,
        "%s is a SavedModel, because it is a folder: give --signature; --feed and --fetch are "
        "for GraphDefs",
        path);
  }
  if (is_graph && is_keras(path)) {
    return fail(
        error, TRM_INVALID_ARGUMENT,
        "%s is a Keras model, which has its own inputs and outputs; --feed and --fetch are for "
        "GraphDefs",
        path);
  }
  if (is_graph && options->fetches.count == 0) {
    return fail(error, TRM_INVALID_ARGUMENT,
                "%s: a GraphDef needs --fetch NAME, the output to "
                "compute",
                path);
  }
  if (!is_folder && options->signature != NULL) {
    return fail(error, TRM_INVALID_ARGUMENT,
                "--signature is for a SavedModel, which is a folder; %s is not one", path);
  }
  const bool needs_python = model_needs_python(path, options);
  if (!needs_python && options->shapes.count > 0) {
    return fail(error, TRM_INVALID_ARGUMENT,
                "--shape is for TensorFlow and Keras models; with a GraphDef give --fetch too");
  }
  if (needs_python) return lower(path, is_folder, options, out_module, error);
  char file[4096];
  const long number = number_of(path, file, sizeof file);
  const trm_status status = number > 0 ? read_numbered(file, number, out_module, error)
                                       : trm_module_read_file(path, out_module, error);
  if (status != TRM_OK && is_stablehlo(path)) {
    return fail(error, TRM_INVALID_ARGUMENT,
                "%s is StableHLO, of which JAX makes HLO: write "
                "jax.jit(f).lower(...).compiler_ir('hlo').as_serialized_hlo_module_proto() to a "
                "file, or plan the function with tremula.jax.compile(f, ...).plan()",
                path);
  }
  const char *dot = strrchr(path, '.');
  if (status != TRM_OK && status != TRM_NOT_FOUND && error != NULL && dot != NULL &&
      (strcmp(dot, ".pb") == 0 || strcmp(dot, ".pbtxt") == 0)) {
    const size_t length = strlen(error->message);
    snprintf(error->message + length, sizeof error->message - length,
             ". If it is a GraphDef, name its outputs with --fetch");
  }
  return status;
}

bool is_executable_file(const char *path) { return begins_like(path, "TRMEXEC\n", 8); }
