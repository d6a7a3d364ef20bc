/* Owns: the codelets of a graph: .gp files, and sources that popc compiles. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "poplar/graph.h"

extern char **environ;

enum { MAX_ARGUMENTS = 64 };

/* ---- Tables --------------------------------------------------------------------------------- */

static trm_status check_table(const trm_codelet_table *table, const char *path,
                              trm_poplar_error *error) {
  if (table == NULL) {
    THROW(FILE, "%s is no file of codelets that Tremula's popc made: compile the source again",
          path);
  }
  if (table->version != TRM_CODELET_VERSION || table->vertex_bytes != sizeof(trm_codelet_vertex) ||
      table->field_bytes != sizeof(trm_codelet_field)) {
    THROW(FILE, "%s was made by a popc of version %u, this is version %d: compile it again", path,
          table->version, TRM_CODELET_VERSION);
  }
  for (uint32_t v = 0; v < table->num_vertices; ++v) {
    const trm_codelet_vertex *vertex = &table->vertices[v];
    for (uint32_t f = 0; f < vertex->num_fields; ++f) {
      const trm_codelet_field *field = &vertex->fields[f];
      const size_t size = field->kind == TRM_CODELET_VALUE
                              ? field->count * trm_dtype_size((trm_dtype)field->dtype)
                          : field->outer == TRM_CODELET_SPAN ? sizeof(trm_codelet_span)
                                                             : sizeof(void *);
      if (field->kind < TRM_CODELET_VALUE || field->kind > TRM_CODELET_LISTS ||
          (trm_dtype_size((trm_dtype)field->dtype) == 0 && field->kind != TRM_CODELET_VALUE) ||
          field->width == 0 || field->offset > vertex->state_bytes ||
          size > vertex->state_bytes - field->offset) {
        THROW(FILE, "the vertex '%s' of %s has a field '%s' that does not fit it", vertex->name,
              path, field->name);
      }
    }
  }
  return TRM_OK;
}

trm_status trm_poplar_add_table(trm_poplar_graph *graph, const trm_codelet_table *table,
                                trm_poplar_error *error) {
  TRY(check_table(table, "a table of codelets", error));
  const trm_poplar_codelets one = {.table = table};
  if (!VECTOR_PUSH(&graph->core->codelets, one)) THROW_NO_MEMORY("codelets");
  return TRM_OK;
}

const trm_codelet_vertex *trm_poplar_find_codelet(const trm_poplar_core *core, const char *name) {
  VECTOR_EACH(const trm_poplar_codelets, one, core->codelets) {
    for (uint32_t v = 0; v < one->table->num_vertices; ++v) {
      if (strcmp(one->table->vertices[v].name, name) == 0) return &one->table->vertices[v];
    }
  }
  return NULL;
}

void trm_poplar_close_codelets(trm_poplar_codelets *codelets) {
  if (codelets->library != NULL) dlclose(codelets->library);
  trm_free(codelets->bytes);
}

static trm_status load(trm_poplar_core *core, const char *path, trm_poplar_error *error) {
  /* A name without a slash would be looked for in the linker's folders. */
  char *whole = realpath(path, NULL);
  trm_poplar_codelets one = {.library =
                                 dlopen(whole != NULL ? whole : path, RTLD_NOW | RTLD_LOCAL)};
  free(whole);
  if (one.library == NULL) {
    const char *reason = dlerror();
    THROW(FILE, "the codelets %s could not be loaded: %s", path, reason != NULL ? reason : "");
  }
  one.table = dlsym(one.library, "trm_poplar_codelets");
  trm_error inner;
  trm_status status = check_table(one.table, path, error);
  if (status == TRM_OK &&
      trm_read_file(path, "codelets", &one.bytes, &one.size, &inner) != TRM_OK) {
    status = trm_poplar_pass(error, &inner);
  }
  if (status == TRM_OK && !VECTOR_PUSH(&core->codelets, one)) {
    status = NO_MEMORY("codelets");
  }
  if (status != TRM_OK) trm_poplar_close_codelets(&one);
  return status;
}

/* ---- Sources -------------------------------------------------------------------------------- */

/* Runs popc with its output in a file; *out_code is its exit status. */
static trm_status run_popc(char *const *arguments, const char *log, int *out_code,
                           trm_poplar_error *error) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child;
  const int failed = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    THROW(FILE,
          "popc, which compiles codelets, could not be run (%s: %s): `tremula poplar --env` prints "
          "the settings with which it is found",
          arguments[0], strerror(failed));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) THROW(FILE, "popc was lost: %s", strerror(errno));
  }
  *out_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return TRM_OK;
}

/* Compiles a source to a .gp. The options are words with blanks between them. */
static trm_status compile(const char *source, const char *options, const char *gp, const char *log,
                          trm_poplar_error *error) {
  char *command = getenv("TREMULA_POPC");
  char *arguments[MAX_ARGUMENTS + 5] = {command != NULL && *command != '\0' ? command : "popc"};
  size_t count = 1;
  char *words = strdup(options == NULL ? "" : options), *rest = NULL;
  if (words == NULL) THROW_NO_MEMORY("the options of popc");
  for (char *word = strtok_r(words, " ", &rest); word != NULL && count < MAX_ARGUMENTS;
       word = strtok_r(NULL, " ", &rest)) {
    arguments[count++] = word;
  }
  arguments[count++] = "-o";
  arguments[count++] = (char *)gp;
  arguments[count++] = (char *)source;
  int code = 0;
  const trm_status status = run_popc(arguments, log, &code, error);
  free(words);
  TRY(status);
  if (code != 0) {
    char *said = NULL;
    size_t size = 0;
    trm_error inner;
    const trm_status read = trm_read_file(log, "messages", &said, &size, &inner);
    const size_t last = size < 1600 ? size : 1600;
    trm_poplar_fail(error, TRM_INVALID_ARGUMENT, TRM_POPLAR_ERROR_FILE,
                    "popc could not compile the codelets %s: %.*s", source, (int)last,
                    read == TRM_OK ? said + size - last : "");
    trm_free(said);
    return TRM_INVALID_ARGUMENT;
  }
  return TRM_OK;
}

/* Loads codelets by way of a folder of its own: a source, which is compiled; else the bytes of a
 * source (`is_text`), or of a .gp. */
static trm_status load_in_folder(trm_poplar_core *core, const char *source, bool is_text,
                                 const char *bytes, size_t bytes_size, const char *options,
                                 trm_poplar_error *error) {
  const char *temporary = getenv("TMPDIR");
  char folder[512], text[600], gp[600], log[600];
  snprintf(folder, sizeof folder, "%s/tremula-popc-XXXXXX",
           temporary != NULL && *temporary != '\0' ? temporary : "/tmp");
  if (mkdtemp(folder) == NULL) {
    THROW(FILE, "a folder for codelets could not be made: %s: %s", folder, strerror(errno));
  }
  snprintf(text, sizeof text, "%s/codelets.cpp", folder);
  snprintf(gp, sizeof gp, "%s/codelets.gp", folder);
  snprintf(log, sizeof log, "%s/log", folder);
  trm_status status = TRM_OK;
  if (source == NULL) {
    trm_error inner;
    if (trm_write_file(is_text ? text : gp, bytes, bytes_size, &inner) != TRM_OK) {
      status = trm_poplar_fail(error, inner.status, TRM_POPLAR_ERROR_FILE, "%s", inner.message);
    }
    if (is_text) source = text;
  }
  if (status == TRM_OK && source != NULL) status = compile(source, options, gp, log, error);
  if (status == TRM_OK) status = load(core, gp, error);
  (void)unlink(text);
  (void)unlink(gp);
  (void)unlink(log);
  (void)rmdir(folder);
  return status;
}

static bool ends_with(const char *path, const char *end) {
  const size_t length = strlen(path), size = strlen(end);
  return length >= size && strcmp(path + length - size, end) == 0;
}

int32_t trm_poplar_add_codelets(trm_poplar_graph *graph, const char *path, const char *text,
                                const char *options, trm_poplar_error *error) {
  trm_poplar_core *core = graph->core;
  if (path == NULL) return load_in_folder(core, NULL, true, text, strlen(text), options, error);
  for (size_t l = 0; l < core->loaded.count; ++l) {
    if (strcmp(core->loaded.items[l], path) == 0) return TRM_OK;
  }
  const char *name = trm_poplar_name(core, path);
  if (name == NULL || !VECTOR_PUSH(&core->loaded, name)) THROW_NO_MEMORY("codelets");
  --core->loaded.count; /* until they are there */
  if (access(path, R_OK) != 0) {
    THROW(FILE, "the codelets %s cannot be read: %s", path, strerror(errno));
  }
  if (ends_with(path, ".S") || ends_with(path, ".s")) {
    THROW(FILE,
          "the codelets %s are assembly of an IPU, which no other machine runs: give the C++ "
          "version of the vertices",
          path);
  }
  TRY(ends_with(path, ".gp") ? load(core, path, error)
                             : load_in_folder(core, path, true, NULL, 0, options, error));
  ++core->loaded.count;
  return TRM_OK;
}

trm_status trm_poplar_load_codelets(trm_poplar_core *core, const char *bytes, size_t size,
                                    trm_poplar_error *error) {
  return load_in_folder(core, NULL, false, bytes, size, NULL, error);
}
