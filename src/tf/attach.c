/* Attaching TF devices to virtual IPUs, and the log lines about it. */
#define _POSIX_C_SOURCE 200809L
#include "attach.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "interrupt.h"
#include "log.h"
#include "tremula/device.h"

enum { MAX_DEVICES = 64, SLICE_MS = 50 };

typedef struct slot {
  trm_device *device;            /* what it is attached to, or NULL */
  trm_tf_attach_request request; /* to be attached on demand: num_ipus or num_ids is not 0 */
  uint32_t *ids;                 /* of the request */
} slot;

/* `lock` guards the slots and is held for moments. Whoever attaches on demand holds the device's
 * `attaching` too, perhaps for minutes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t attaching[MAX_DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static slot slots[MAX_DEVICES];
static uint64_t resets; /* how often everything has been let go */

static void make_locks(void) {
  for (int i = 0; i < MAX_DEVICES; ++i) pthread_mutex_init(&attaching[i], NULL);
}

void attach_log(const char *text) { log_info("executor.cc:660", "%s", text); }

static void name_of(int ordinal, char name[32]) { snprintf(name, 32, "/device:IPU:%d", ordinal); }

static void log_attached(int ordinal, const trm_device *device) {
  char name[32];
  char text[512];
  name_of(ordinal, name);
  snprintf(text, sizeof text, "Device %s attached to %s", name, trm_device_description(device));
  attach_log(text);
}

static trm_device_request device_request(const char *name, const trm_tf_attach_request *request) {
  return (trm_device_request){.name = name,
                              .num_ipus = request->num_ids ? 0 : request->num_ipus,
                              .ids = request->ids,
                              .num_ids = request->num_ids};
}

/* Call with the lock held. */
static void empty(slot *s) {
  trm_device_release(s->device);
  free(s->ids);
  *s = (slot){0};
}

static bool check_ordinal(int ordinal, TF_Status *status) {
  pthread_once(&once, make_locks);
  return (ordinal >= 0 && ordinal < MAX_DEVICES) ||
         fail(status, TF_INVALID_ARGUMENT, "There are %d TF devices at most.", MAX_DEVICES);
}

bool attach_now(int ordinal, const trm_tf_attach_request *request, TF_Status *status) {
  if (!check_ordinal(ordinal, status)) return false;
  char name[32];
  name_of(ordinal, name);
  const trm_device_request wanted = device_request(name, request);
  trm_error error = {0};
  trm_device *device = NULL;
  pthread_mutex_lock(&lock);
  empty(&slots[ordinal]);
  bool ok =
      trm_device_attach(NULL, &wanted, &device, &error) == TRM_OK || fail_with(status, &error);
  if (ok) {
    slots[ordinal].device = device;
    log_attached(ordinal, device);
  }
  pthread_mutex_unlock(&lock);
  return ok;
}

/* ---- On demand ---- */

/* Marks the IPUs that ids name; false where one is marked already. */
static bool mark(const trm_inventory *inventory, const uint32_t *ids, uint32_t num_ids,
                 bool *marks) {
  bool is_new = true;
  for (uint32_t i = 0; i < num_ids; ++i) {
    uint32_t count;
    const uint32_t *members = trm_inventory_members(inventory, ids[i], &count);
    for (uint32_t m = 0; m < count; ++m) {
      if (marks[members[m]]) is_new = false;
      marks[members[m]] = true;
    }
  }
  return is_new;
}

/* How many IPUs a request is for. */
static uint64_t request_size(const trm_inventory *inventory, const trm_tf_attach_request *request) {
  uint64_t total = request->num_ids ? 0 : request->num_ipus;
  for (uint32_t i = 0; i < request->num_ids; ++i) {
    uint32_t count;
    trm_inventory_members(inventory, request->ids[i], &count);
    total += count;
  }
  return total;
}

/* A process must not wait for itself. Call with the lock held. */
static bool check_overlap(const trm_inventory *inventory, int ordinal,
                          const trm_tf_attach_request *request, TF_Status *status) {
  bool *marks = calloc(trm_inventory_num_ipus(inventory), sizeof *marks);
  if (!marks) return fail_memory(status);
  uint64_t total = request_size(inventory, request);
  for (int i = 0; i < MAX_DEVICES; ++i) {
    if (i == ordinal) continue;
    total += request_size(inventory, &slots[i].request);
    mark(inventory, slots[i].request.ids, slots[i].request.num_ids, marks);
    const uint32_t count = slots[i].device ? trm_device_num_ipus(slots[i].device) : 0;
    for (uint32_t m = 0; m < count; ++m) {
      const uint32_t id = trm_device_ipu(slots[i].device, m)->id;
      if (id < trm_inventory_num_ipus(inventory)) marks[id] = true;
    }
  }
  bool ok = mark(inventory, request->ids, request->num_ids, marks) ||
            fail(status, TF_INVALID_ARGUMENT,
                 "/device:IPU:%d is to have IPUs that another device of this process has too. The "
                 "ids in `select_ipus` must not share IPUs; `gc-info -l` lists their members.",
                 ordinal);
  if (ok && total > trm_inventory_num_ipus(inventory))
    ok = fail(status, TF_INVALID_ARGUMENT,
              "The devices of this process are to have %llu IPUs together, but the inventory %s "
              "has %u. The environment variable TREMULA_INVENTORY chooses another inventory.",
              (unsigned long long)total, trm_inventory_name(inventory),
              trm_inventory_num_ipus(inventory));
  free(marks);
  return ok;
}

bool attach_later(int ordinal, const trm_tf_attach_request *request, TF_Status *status) {
  if (!check_ordinal(ordinal, status)) return false;
  char name[32];
  name_of(ordinal, name);
  const trm_device_request wanted = device_request(name, request);
  trm_error error = {0};
  trm_inventory *inventory = NULL;
  if (trm_inventory_load(NULL, &inventory, &error) != TRM_OK ||
      trm_device_check(inventory, &wanted, &error) != TRM_OK) {
    trm_inventory_release(inventory);
    return fail_with(status, &error);
  }
  pthread_mutex_lock(&lock);
  slot *s = &slots[ordinal];
  empty(s);
  bool ok = check_overlap(inventory, ordinal, request, status);
  if (ok) {
    s->ids = calloc((size_t)request->num_ids + 1, sizeof *s->ids);
    ok = s->ids || fail_memory(status);
  }
  if (ok) {
    if (request->num_ids) memcpy(s->ids, request->ids, request->num_ids * sizeof *s->ids);
    s->request = *request;
    s->request.ids = s->ids;
  }
  pthread_mutex_unlock(&lock);
  trm_inventory_release(inventory);
  return ok;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_interrupted(unsigned interrupts_before) {
  return interrupt_count() != interrupts_before || interrupt_is_due();
}

/* Sleeps until `until`, or until the configuration is reset or Ctrl-C is pressed: then false. */
static bool sleep_until(int64_t until, uint64_t resets_before, unsigned interrupts_before) {
  for (;;) {
    pthread_mutex_lock(&lock);
    const bool same = resets == resets_before && !is_interrupted(interrupts_before);
    pthread_mutex_unlock(&lock);
    const int64_t left = until - now_ms();
    if (!same || left <= 0) return same;
    nanosleep(&(struct timespec){.tv_nsec = (left < SLICE_MS ? left : SLICE_MS) * 1000000}, NULL);
  }
}

static void log_waiting(int ordinal, const trm_tf_attach_request *request) {
  char text[256];
  snprintf(text, sizeof text,
           "/device:IPU:%d waits for IPUs that others have, for up to %u s; it tries every %u ms "
           "(gc-monitor shows who has them)",
           ordinal, request->timeout_ms / 1000, request->poll_ms);
  attach_log(text);
}

/* Call with attaching[ordinal] held. */
static bool attach_waiting(int ordinal, TF_Status *status) {
  char name[32];
  name_of(ordinal, name);
  slot *s = &slots[ordinal];
  const int64_t started = now_ms();
  const unsigned interrupts_before = interrupt_count();
  pthread_mutex_lock(&lock);
  const uint64_t resets_before = resets;
  pthread_mutex_unlock(&lock);
  for (bool waited = false;; waited = true) {
    trm_error error = {0};
    trm_status result = TRM_OK;
    trm_tf_attach_request request = {0};
    pthread_mutex_lock(&lock);
    const bool is_due =
        resets == resets_before && !s->device && (s->request.num_ipus || s->request.num_ids);
    if (is_due) {
      request = s->request;
      const trm_device_request wanted = device_request(name, &request);
      result = trm_device_attach(NULL, &wanted, &s->device, &error);
      if (result == TRM_OK) log_attached(ordinal, s->device);
    }
    const bool was_reset = resets != resets_before;
    pthread_mutex_unlock(&lock);
    if (was_reset) break;
    if (result == TRM_OK) return true;
    /* Only that they are taken can change by waiting. */
    if (result != TRM_INTERNAL && result != TRM_UNAVAILABLE) return fail_with(status, &error);
    const int64_t left = started + request.timeout_ms - now_ms();
    if (left <= 0) return fail_with(status, &error);
    if (!waited) log_waiting(ordinal, &request);
    if (!sleep_until(now_ms() + (left < request.poll_ms ? left : request.poll_ms), resets_before,
                     interrupts_before))
      break;
  }
  if (is_interrupted(interrupts_before))
    return fail(status, TF_CANCELLED, "/device:IPU:%d waited for IPUs and was interrupted.",
                ordinal);
  return fail(status, TF_CANCELLED,
              "/device:IPU:%d waited for IPUs while the IPU configuration was reset.", ordinal);
}

bool attach_ensure(int ordinal, TF_Status *status) {
  if (!check_ordinal(ordinal, status)) return false;
  pthread_mutex_lock(&lock);
  const slot *s = &slots[ordinal];
  const bool is_due = !s->device && (s->request.num_ipus || s->request.num_ids);
  pthread_mutex_unlock(&lock);
  if (!is_due) return true;
  pthread_mutex_lock(&attaching[ordinal]);
  interrupt_watch();
  const bool ok = attach_waiting(ordinal, status);
  interrupt_unwatch();
  pthread_mutex_unlock(&attaching[ordinal]);
  return ok;
}

void attach_release_all(void) {
  pthread_mutex_lock(&lock);
  ++resets;
  for (int i = 0; i < MAX_DEVICES; ++i) empty(&slots[i]);
  pthread_mutex_unlock(&lock);
}

/* ---- For Python ---- */

void trm_tf_log(const char *text) { attach_log(text); }

int32_t trm_tf_ipus_of_id(uint32_t id, uint32_t *out_count, char *message, uint64_t message_size) {
  trm_inventory *inventory = NULL;
  trm_error error = {0};
  trm_status result = trm_inventory_load(NULL, &inventory, &error);
  if (result == TRM_OK && !trm_inventory_members(inventory, id, out_count)) {
    result = TRM_INVALID_ARGUMENT;
    snprintf(error.message, sizeof error.message,
             "No device matches the requested configuration: there is no IPU or group of IPUs with "
             "the id %u; the inventory %s has the ids 0 to %u. `gc-info -l` lists them.",
             id, trm_inventory_name(inventory), trm_inventory_num_ids(inventory) - 1);
  }
  trm_inventory_release(inventory);
  if (result != TRM_OK) snprintf(message, message_size, "%s", error.message);
  return (int32_t)result;
}

int32_t trm_tf_architecture(char *out, char *message, uint64_t message_size) {
  trm_inventory *inventory = NULL;
  trm_error error = {0};
  const trm_status result = trm_inventory_load(NULL, &inventory, &error);
  if (result == TRM_OK) snprintf(out, 16, "%s", trm_inventory_ipu(inventory, 0)->architecture);
  else snprintf(message, message_size, "%s", error.message);
  trm_inventory_release(inventory);
  return (int32_t)result;
}
