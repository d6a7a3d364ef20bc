/* Whether other threads of the test sleep: the sign that one waits for something, or has ended. */
#ifndef TREMULA_TESTS_SLEEPING_H_
#define TREMULA_TESTS_SLEEPING_H_

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The letter of a thread's state in /proc: 'R' runs or could run. '\0': it has ended. */
static inline char thread_state(long thread) {
  char path[64], line[512] = "";
  snprintf(path, sizeof path, "/proc/self/task/%ld/stat", thread);
  FILE *file = fopen(path, "r");
  if (file == NULL) return '\0';
  const bool read = fgets(line, sizeof line, file) != NULL;
  fclose(file);
  const char *after_name = strrchr(line, ')');
  return read && after_name != NULL ? after_name[2] : '\0';
}

/* Waits until no thread but the caller's runs. */
static inline void wait_until_others_sleep(void) {
  for (bool running = true; running;) {
    running = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *one; tasks != NULL && (one = readdir(tasks)) != NULL;) {
      const long thread = strtol(one->d_name, NULL, 10);
      running =
          running || (thread > 0 && thread != syscall(SYS_gettid) && thread_state(thread) == 'R');
    }
    closedir(tasks);
    if (running) sched_yield();
  }
}

#endif /* TREMULA_TESTS_SLEEPING_H_ */
