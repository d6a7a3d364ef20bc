/* A folder for the locks of one test, and the default inventory. */
#ifndef TREMULA_TESTS_DEVICE_LOCKS_CASE_H_
#define TREMULA_TESTS_DEVICE_LOCKS_CASE_H_

#include <stdio.h>
#include <stdlib.h>

static char runtime_dir[64];

static inline int setup(void **state) {
  (void)state;
  snprintf(runtime_dir, sizeof runtime_dir, "/tmp/tremula-test-XXXXXX");
  if (mkdtemp(runtime_dir) == NULL) return -1;
  unsetenv("TREMULA_INVENTORY");
  return setenv("TREMULA_RUNTIME_DIR", runtime_dir, 1);
}

static inline int teardown(void **state) {
  (void)state;
  char command[32 + 2 * sizeof runtime_dir];
  snprintf(command, sizeof command, "chmod -R u+w %s && rm -rf %s", runtime_dir, runtime_dir);
  return system(command);
}

#endif /* TREMULA_TESTS_DEVICE_LOCKS_CASE_H_ */
