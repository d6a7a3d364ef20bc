/* Fuzz target: a module is read, compiled and run on zeros. What would need much memory is not run;
 * a run that takes long is cancelled. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "tremula/tremula.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 64 << 20, PATIENCE_MS = 200 };

typedef struct run {
  trm_engine *engine;
  void **inputs, **outputs;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int done;
} run;

static void *run_engine(void *argument) {
  run *r = argument;
  trm_error error;
  (void)trm_engine_run(r->engine, (const void *const *)r->inputs, NULL, r->outputs, &error);
  pthread_mutex_lock(&r->mutex);
  r->done = 1;
  pthread_cond_signal(&r->changed);
  pthread_mutex_unlock(&r->mutex);
  return NULL;
}

/* Runs in a thread of its own and cancels after a while. */
static void run_with_patience(run *r) {
  pthread_t thread;
  struct timespec until;
  if (pthread_create(&thread, NULL, run_engine, r) != 0) return;
  pthread_mutex_lock(&r->mutex);
  while (!r->done) {
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_sec += 1, until.tv_nsec -= 1000000000L;
    pthread_cond_timedwait(&r->changed, &r->mutex, &until);
    if (!r->done) trm_engine_cancel(r->engine);
  }
  pthread_mutex_unlock(&r->mutex);
  pthread_join(thread, NULL);
}

static int is_small(const trm_executable *executable) {
  size_t bytes = trm_executable_arena_bytes(executable);
  for (size_t i = 0; i < trm_executable_num_inputs(executable) && bytes <= MAX_BYTES; ++i) {
    bytes += trm_executable_input(executable, i)->bytes;
  }
  for (size_t i = 0; i < trm_executable_num_outputs(executable) && bytes <= MAX_BYTES; ++i) {
    bytes += trm_executable_output(executable, i)->bytes;
  }
  return bytes <= MAX_BYTES;
}

static void run_executable(trm_executable *executable) {
  const size_t inputs = trm_executable_num_inputs(executable);
  const size_t outputs = trm_executable_num_outputs(executable);
  run r = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  r.inputs = calloc(inputs + 1, sizeof *r.inputs);
  r.outputs = calloc(outputs + 1, sizeof *r.outputs);
  for (size_t i = 0; i < inputs; ++i) {
    r.inputs[i] = calloc(1, trm_executable_input(executable, i)->bytes + 1);
  }
  for (size_t i = 0; i < outputs; ++i) {
    r.outputs[i] = calloc(1, trm_executable_output(executable, i)->bytes + 1);
  }
  if (trm_engine_create(executable, &r.engine, NULL) == TRM_OK) run_with_patience(&r);
  trm_engine_free(r.engine);
  for (size_t i = 0; i < inputs; ++i) free(r.inputs[i]);
  for (size_t i = 0; i < outputs; ++i) free(r.outputs[i]);
  free(r.inputs);
  free(r.outputs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const trm_option modes[2] = {{"optimise", "true"}, {"reference", "true"}};
  trm_module *module = NULL;
  if (trm_module_read(data, size, "fuzz", &module, NULL) != TRM_OK) return 0;
  for (int m = 0; m < 2; ++m) {
    trm_executable *executable = NULL;
    if (trm_compile(module, &modes[m], 1, &executable, NULL) != TRM_OK) continue;
    if (is_small(executable)) run_executable(executable);
    trm_executable_free(executable);
  }
  trm_module_free(module);
  return 0;
}
