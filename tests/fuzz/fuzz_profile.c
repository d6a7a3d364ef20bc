/* Fuzz target: profiles as `tremula report` reads them, one and compared with itself. SQLite reads
 * files only, so the input becomes one, in memory. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tremula/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void remove_file(void) { unlink(path); }

static int write_file(const uint8_t *data, size_t size) {
  if (path[0] == '\0') {
    snprintf(path, sizeof path, "/dev/shm/tremula-fuzz-%ld.pop", (long)getpid());
    atexit(remove_file);
  }
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return 0;
  const int written = write(file, data, size) == (ssize_t)size;
  close(file);
  return written;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!write_file(data, size)) return 0;
  char *text = NULL;
  if (trm_report_print(path, NULL, true, &text, NULL) != TRM_OK) return 0;
  trm_free(text);
  if (trm_report_print(path, path, false, &text, NULL) == TRM_OK) trm_free(text);
  return 0;
}
