/* Owns: tremula plan: the search for what would make a case fit, its progress and its end by
 * Ctrl-C. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "plan.h"

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
  (void)number;
  interrupted = 1;
}

static bool go_on(void *context, uint32_t plans) {
  (void)context;
  if (isatty(STDERR_FILENO)) {
    fprintf(stderr, "\rsearching what would help: %u plans (Ctrl-C: the best so far) ", plans);
  }
  return interrupted == 0;
}

trm_status plan_search(const trm_program *program, trm_program_search **out_search,
                       trm_error *error) {
  struct sigaction before, ours = {.sa_handler = interrupt};
  sigaction(SIGINT, &ours, &before);
  const trm_status status = trm_program_search_fit(program, go_on, NULL, out_search, error);
  sigaction(SIGINT, &before, NULL);
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%60s\r", "");
  return status;
}
