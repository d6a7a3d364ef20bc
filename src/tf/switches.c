/* Noticing that a device changes from program to program at every step.
 *
 * An IPU holds one executable: another one has to be loaded before it can run. A program of the
 * user's that does one small thing on the IPU between its steps pays that at every step. */
#include "switches.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "attach.h"

enum { MAX_DEVICES = 16, NAME_SIZE = 128, ENOUGH = 10, USED_TO_IT = 3 };

typedef struct device {
  uint64_t program; /* 0: none */
  uint64_t num_runs;
  char name[NAME_SIZE];
  unsigned switches; /* one after the other, between programs that have run before */
  bool told;
  double free_since;
} device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static device devices[MAX_DEVICES];

static void tell(int ordinal, const device *d, const char *name) {
  char text[3 * NAME_SIZE + 512];
  snprintf(
      text, sizeof text,
      "/device:IPU:%d changes between programs at every step: '%s' and '%s' among them. An IPU "
      "loads another executable for each change, which takes longer than most steps. Put what "
      "is small, such as the global step, a counter or a metric, on the CPU (with "
      "tf.device('cpu')), or compile it together with the rest.",
      ordinal, d->name, name);
  attach_log(text);
}

bool switches_note(int ordinal, uint64_t program, uint64_t num_runs, const char *name) {
  if (ordinal < 0 || ordinal >= MAX_DEVICES) return false;
  pthread_mutex_lock(&lock);
  device *d = &devices[ordinal];
  const bool is_switch = d->program && d->program != program;
  if (is_switch && num_runs >= USED_TO_IT && d->num_runs >= USED_TO_IT) {
    if (++d->switches >= ENOUGH && !d->told) {
      d->told = true;
      tell(ordinal, d, name);
    }
  } else if (d->program == program && d->switches > 0) {
    --d->switches; /* several steps in a row are what it should be */
  }
  d->program = program;
  d->num_runs = num_runs;
  snprintf(d->name, sizeof d->name, "%s", name);
  pthread_mutex_unlock(&lock);
  return is_switch;
}

void switches_set_free(int ordinal, double seconds) {
  if (ordinal < 0 || ordinal >= MAX_DEVICES) return;
  pthread_mutex_lock(&lock);
  devices[ordinal].free_since = seconds;
  pthread_mutex_unlock(&lock);
}

double switches_free_since(int ordinal) {
  if (ordinal < 0 || ordinal >= MAX_DEVICES) return 0;
  pthread_mutex_lock(&lock);
  const double since = devices[ordinal].free_since;
  pthread_mutex_unlock(&lock);
  return since;
}
