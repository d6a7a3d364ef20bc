/* Attaching TF devices to virtual IPUs, and the log lines about it. */
#define _POSIX_C_SOURCE 200809L
#include "attach.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

#include "tremula/device.h"

enum { MAX_DEVICES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trm_device *attached[MAX_DEVICES];

void attach_log(const char *text) {
  struct timeval now;
  struct tm local;
  char date[32];
  gettimeofday(&now, NULL);
  localtime_r(&now.tv_sec, &local);
  strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &local);
  fprintf(stderr, "%s.%06ld: I tensorflow/compiler/plugin/poplar/driver/executor.cc:660] %s\n",
          date, (long)now.tv_usec, text);
}

bool attach_device(int ordinal, uint32_t num_ipus, const uint32_t *ids, size_t num_ids,
                   uint32_t timeout_ms, uint32_t poll_ms, TF_Status *status) {
  if (ordinal < 0 || ordinal >= MAX_DEVICES)
    return fail(status, TF_INVALID_ARGUMENT, "There are %d TF devices at most.", MAX_DEVICES);
  char name[32];
  snprintf(name, sizeof name, "/device:IPU:%d", ordinal);
  trm_device_request request = {
      .name = name,
      .num_ipus = num_ids ? 0 : num_ipus,
      .ids = ids,
      .num_ids = num_ids,
      .timeout_ms = timeout_ms,
      .poll_ms = poll_ms,
  };
  trm_error error = {0};
  pthread_mutex_lock(&lock);
  trm_device_release(attached[ordinal]);
  attached[ordinal] = NULL;
  bool ok = trm_device_attach(NULL, &request, &attached[ordinal], &error) == TRM_OK ||
            fail_with(status, &error);
  if (ok) {
    char text[512];
    snprintf(text, sizeof text, "Device %s attached to %s", name,
             trm_device_description(attached[ordinal]));
    attach_log(text);
  }
  pthread_mutex_unlock(&lock);
  return ok;
}

void attach_release_all(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_DEVICES; i++) {
    trm_device_release(attached[i]);
    attached[i] = NULL;
  }
  pthread_mutex_unlock(&lock);
}

int32_t trm_tf_attach(int32_t ordinal, uint32_t num_ipus, const uint32_t *ids, uint64_t num_ids,
                      uint32_t timeout_ms, uint32_t poll_ms, char *message,
                      uint64_t message_size) {
  TF_Status *status = TF_NewStatus();
  attach_device(ordinal, num_ipus, ids, num_ids, timeout_ms, poll_ms, status);
  int32_t code = (int32_t)TF_GetCode(status);
  if (code != TF_OK) snprintf(message, message_size, "%s", TF_Message(status));
  TF_DeleteStatus(status);
  return code;
}

void trm_tf_log(const char *text) { attach_log(text); }
