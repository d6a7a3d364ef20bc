/* Owns: attaching a process to virtual IPUs: choosing them, holding them, letting them go. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "device/locks.h"
#include "tremula/log.h"
#include "tremula/timeline.h"

struct trm_device {
  atomic_uint_least32_t references;
  trm_inventory *inventory;
  uint32_t *ipus; /* in routing order */
  uint32_t num_ipus;
  int *locks;    /* a descriptor for each IPU; -1: not locked */
  int64_t id;    /* -1: several, or a group without an id */
  int folder;    /* locked shared: systemd-tmpfiles does not clean up under such a folder */
  trm_text text; /* "IPU: 0" */
  struct trm_device *next, *previous;
};

/* ---- The process's devices ----------------------------------------------------------------- */

/* A fork copies descriptors, and with them the locks would outlive this process. So the child
 * closes its copies, for which the process must know its devices: the one list that has to be
 * global. The mutex also keeps a fork out while locks are being taken. */
static pthread_mutex_t devices_mutex = PTHREAD_MUTEX_INITIALIZER;
static trm_device *devices;

static void close_locks(trm_device *device, bool unlock) {
  for (uint32_t i = 0; i < device->num_ipus; ++i) {
    if (device->locks[i] < 0) continue;
    if (unlock) {
      trm_lock_release(device->locks[i]);
    } else {
      close(device->locks[i]);
    }
    device->locks[i] = -1;
  }
  if (device->folder >= 0) {
    if (unlock) flock(device->folder, LOCK_UN);
    close(device->folder);
    device->folder = -1;
  }
}

static void before_fork(void) { pthread_mutex_lock(&devices_mutex); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&devices_mutex); }
static void after_fork_in_child(void) {
  for (trm_device *device = devices; device != NULL; device = device->next) {
    close_locks(device, false);
  }
  pthread_mutex_unlock(&devices_mutex);
}

static void watch_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- Choosing ------------------------------------------------------------------------------ */

typedef struct choice {
  trm_inventory *inventory;
  const trm_device_request *request;
  trm_attachment *states; /* of every IPU */
  uint32_t *ipus;         /* chosen; room for all */
  uint32_t count;
  int64_t id; /* that was chosen, or -1: several, or a group without an id */
} choice;

/* Whether the IPU is reserved for this process, and not in use; nothing can be reserved twice. */
static bool is_kept(const choice *c, const trm_attachment *state) {
  const char *own = getenv("TREMULA_RESERVATION");
  return state->attached && c->request->reserve_for == NULL && own != NULL && *own != '\0' &&
         strcmp(state->reserved_for, own) == 0;
}

static bool is_free(const choice *c, uint32_t ipu, bool kept_only) {
  const trm_attachment *state = &c->states[ipu];
  return is_kept(c, state) || (!kept_only && !state->attached);
}

static bool all_free(const choice *c, const uint32_t *ipus, uint32_t count, bool kept_only) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!is_free(c, ipus[i], kept_only)) return false;
  }
  return true;
}

static void take_members(choice *c, uint32_t id) {
  uint32_t count;
  const uint32_t *members = trm_inventory_members(c->inventory, id, &count);
  memcpy(c->ipus + c->count, members, count * sizeof *members);
  c->count += count;
}

/* Checks the parts of a request that do not depend on free IPUs. For ids it also fills in the
 * choice. */
static trm_status check_request(choice *c, trm_error *error) {
  const trm_device_request *request = c->request;
  const char *name = request->name == NULL ? "" : request->name;
  const uint32_t available = c->inventory->num_ipus;
  if (request->num_ids == 0) {
    if (request->num_ipus == 0) FAIL(INVALID_ARGUMENT, "a device needs at least one IPU");
    if (request->num_ipus > available) {
      FAIL(INVALID_ARGUMENT,
           "Unsupported number of IPUs requested - could not find an IPU device "
           "with %u IPUs for the TensorFlow virtual device %s. The inventory %s has %u. Use "
           "`gc-info -l` to list the devices; the environment variable TREMULA_INVENTORY chooses "
           "another inventory.",
           request->num_ipus, name, c->inventory->name, available);
    }
    return TRM_OK;
  }
  uint32_t total = 0;
  for (size_t i = 0; i < request->num_ids; ++i) {
    uint32_t count;
    const uint32_t *members = trm_inventory_members(c->inventory, request->ids[i], &count);
    if (members == NULL) {
      FAIL(INVALID_ARGUMENT,
           "No device matches the requested configuration for %s: the inventory "
           "%s has the ids 0 to %u, not %u. Use `gc-info -l` to list the devices.",
           *name == '\0' ? "a device" : name, c->inventory->name, c->inventory->num_ids - 1,
           request->ids[i]);
    }
    for (uint32_t m = 0; m < count; ++m) {
      /* The states serve as marks here: nothing has been asked yet. */
      if (c->states[members[m]].attached) {
        FAIL(INVALID_ARGUMENT, "the ids requested for %s name IPU %u twice",
             *name == '\0' ? "a device" : name, members[m]);
      }
      c->states[members[m]].attached = true;
    }
    total += count;
  }
  if (request->num_ipus != 0 && request->num_ipus != total) {
    FAIL(INVALID_ARGUMENT, "%u IPUs are requested for %s, but the ids name %u", request->num_ipus,
         *name == '\0' ? "a device" : name, total);
  }
  return TRM_OK;
}

/* Chooses free IPUs by `states`, or only among those that are kept for this process; leaves count 0
 * if none fit. */
static void choose(choice *c, bool kept_only) {
  const trm_device_request *request = c->request;
  c->count = 0;
  c->id = -1;
  if (request->num_ids > 0) {
    for (size_t i = 0; i < request->num_ids; ++i) take_members(c, request->ids[i]);
    if (request->num_ids == 1) c->id = request->ids[0];
    if (!all_free(c, c->ipus, c->count, false)) c->count = 0;
    return;
  }
  bool has_id = false;
  for (uint32_t id = 0; id < c->inventory->num_ids; ++id) {
    uint32_t count;
    const uint32_t *members = trm_inventory_members(c->inventory, id, &count);
    if (count != request->num_ipus) continue;
    has_id = true;
    if (!all_free(c, members, count, kept_only)) continue;
    take_members(c, id);
    c->id = id;
    return;
  }
  if (has_id) return;
  for (uint32_t i = 0; i < c->inventory->num_ipus && c->count < request->num_ipus; ++i) {
    if (is_free(c, i, kept_only)) c->ipus[c->count++] = i;
  }
  if (c->count < request->num_ipus) c->count = 0;
}

static trm_status fail_taken(const choice *c, trm_error *error) {
  const trm_device_request *request = c->request;
  uint32_t wanted = request->num_ipus;
  if (request->num_ids > 0) {
    wanted = 0;
    for (size_t i = 0; i < request->num_ids; ++i) {
      uint32_t count;
      trm_inventory_members(c->inventory, request->ids[i], &count);
      wanted += count;
    }
  }
  trm_text taken = {0};
  uint32_t num_free = 0;
  for (uint32_t i = 0; i < c->inventory->num_ipus; ++i) {
    const trm_attachment *state = &c->states[i];
    if (!state->attached) {
      ++num_free;
      continue;
    }
    if (taken.length > 1500) continue; /* an error's room is limited */
    trm_text_format(&taken, "%sIPU %u by process %lld (%s)", taken.length == 0 ? "" : ", ", i,
                    (long long)state->pid, state->command);
  }
  trm_fail(error, TRM_INTERNAL,
           "Could not find an available device%s%s. This device was expected to have %u IPU(s). "
           "%u of the %u IPUs of the inventory %s are free, but none that fit; taken: %s. "
           "`gc-monitor` shows who uses which IPU: wait for that process or end it, select other "
           "IPUs, or choose a larger inventory with the environment variable TREMULA_INVENTORY.",
           request->name == NULL ? "" : " for TensorFlow virtual device ",
           request->name == NULL ? "" : request->name, wanted, num_free, c->inventory->num_ipus,
           c->inventory->name, taken.data == NULL ? "?" : taken.data);
  trm_text_free(&taken);
  return TRM_INTERNAL;
}

/* ---- Attaching ----------------------------------------------------------------------------- */

static void device_free(trm_device *device) {
  close_locks(device, true);
  trm_inventory_release(device->inventory);
  trm_text_free(&device->text);
  trm_free(device->ipus);
  trm_free(device->locks);
  trm_free(device);
}

static trm_status device_new(const choice *c, trm_device **out_device, trm_error *error) {
  trm_device *device = trm_allocate_zeroed(1, sizeof *device);
  CHECK_MEMORY(device, "a device");
  device->folder = -1;
  device->id = c->id;
  device->ipus = trm_allocate_zeroed(c->count, sizeof *device->ipus);
  device->locks = trm_allocate_zeroed(c->count, sizeof *device->locks);
  if (device->ipus != NULL && device->locks != NULL) {
    device->num_ipus = c->count;
    memcpy(device->ipus, c->ipus, c->count * sizeof *c->ipus);
    for (uint32_t i = 0; i < c->count; ++i) device->locks[i] = -1;
    const trm_device_request *request = c->request;
    trm_text *text = &device->text;
    trm_text_format(text, c->count == 1 ? "IPU: " : "IPUs: ");
    if (c->id >= 0) {
      trm_text_format(text, "%lld", (long long)c->id);
    } else if (request->num_ids > 0) {
      for (size_t i = 0; i < request->num_ids; ++i) {
        trm_text_format(text, "%s%u", i == 0 ? "" : ",", request->ids[i]);
      }
    } else {
      for (uint32_t i = 0; i < c->count; ++i) {
        trm_text_format(text, "%s%u", i == 0 ? "" : ",", c->ipus[i]);
      }
    }
  }
  if (device->ipus == NULL || device->locks == NULL || device->text.failed) {
    device_free(device);
    FAIL_NO_MEMORY("a device");
  }
  trm_inventory_retain(c->inventory);
  device->inventory = c->inventory;
  atomic_init(&device->references, 1);
  *out_device = device;
  return TRM_OK;
}

/* Locks the chosen IPUs. All are known to be free and no other process may choose, so a lock that
 * is taken nevertheless is a file in use for something else. */
static trm_status lock_device(trm_device *device, const choice *c, int folder, trm_error *error) {
  const trm_device_request *request = c->request;
  trm_attachment who = {0};
  if (request->name != NULL) snprintf(who.device, sizeof who.device, "%s", request->name);
  snprintf(who.ids, sizeof who.ids, "%s", strchr(device->text.data, ' ') + 1);
  if (request->reserve_for != NULL) {
    snprintf(who.reserved_for, sizeof who.reserved_for, "%s", request->reserve_for);
  }
  for (uint32_t i = 0; i < device->num_ipus; ++i) {
    const trm_lock_range range = request->reserve_for != NULL          ? TRM_LOCK_RESERVATION
                                 : c->states[device->ipus[i]].attached ? TRM_LOCK_USE
                                                                       : TRM_LOCK_ALL;
    TRY(trm_lock_ipu(folder, device->ipus[i], range, &device->locks[i], error));
    if (device->locks[i] < 0) {
      FAIL(UNAVAILABLE, "the lock of IPU %u was taken meanwhile; try again", device->ipus[i]);
    }
    TRY(trm_lock_write_record(device->locks[i], range, &who, error));
  }
  device->folder = fcntl(folder, F_DUPFD_CLOEXEC, 0);
  if (device->folder >= 0) flock(device->folder, LOCK_SH | LOCK_NB); /* a courtesy: may fail */
  return TRM_OK;
}

/* One attempt, with the selection lock held; *out_device stays NULL when the IPUs are taken. */
static trm_status attempt(choice *c, int folder, trm_device **out_device, trm_error *error) {
  for (uint32_t i = 0; i < c->inventory->num_ipus; ++i) {
    TRY(trm_lock_query(folder, i, &c->states[i], error));
  }
  choose(c, true);
  if (c->count == 0) choose(c, false);
  if (c->count == 0) return TRM_OK;
  trm_device *device = NULL;
  TRY(device_new(c, &device, error));
  pthread_mutex_lock(&devices_mutex);
  const trm_status status = lock_device(device, c, folder, error);
  if (status == TRM_OK) {
    device->next = devices;
    if (devices != NULL) devices->previous = device;
    devices = device;
    *out_device = device;
  } else {
    device_free(device);
  }
  pthread_mutex_unlock(&devices_mutex);
  return status;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* One attempt for all requests, with the selection lock held. After a failure, and when IPUs are
 * taken, `c` has the request that it was. */
static trm_status attempt_all(choice *c, const trm_device_request *requests, size_t count,
                              int folder, trm_device **out_devices, trm_error *error) {
  int selection = -1;
  trm_status status = TRM_OK;
  TRY(trm_lock_selection(folder, &selection, error));
  for (size_t i = 0; i < count && status == TRM_OK; ++i) {
    c->request = &requests[i];
    status = attempt(c, folder, &out_devices[i], error);
    if (out_devices[i] == NULL) break;
  }
  if (count > 0 && out_devices[count - 1] == NULL) {
    for (size_t i = 0; i < count; ++i) {
      trm_device_release(out_devices[i]);
      out_devices[i] = NULL;
    }
  }
  trm_lock_release(selection);
  return status;
}

static trm_status attach_in_folder(choice *c, const trm_device_request *requests, size_t count,
                                   int folder, trm_device **out_devices, trm_error *error) {
  const int64_t deadline = now_ms() + requests->timeout_ms;
  const uint32_t poll = requests->poll_ms == 0 ? 100 : requests->poll_ms;
  for (;;) {
    TRY(attempt_all(c, requests, count, folder, out_devices, error));
    if (out_devices[count - 1] != NULL) return TRM_OK;
    const int64_t remaining = deadline - now_ms();
    if (remaining <= 0) return fail_taken(c, error);
    const int64_t wait = remaining < poll ? remaining : poll;
    nanosleep(&(struct timespec){.tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000}, NULL);
  }
}

static trm_status check(trm_inventory *inventory, const trm_device_request *request,
                        trm_error *error) {
  choice c = {.inventory = inventory, .request = request};
  c.states = trm_allocate_zeroed(inventory->num_ipus, sizeof *c.states);
  CHECK_MEMORY(c.states, "the states of IPUs");
  const trm_status status = check_request(&c, error);
  trm_free(c.states);
  return status;
}

trm_status trm_device_check(trm_inventory *inventory, const trm_device_request *request,
                            trm_error *error) {
  if (inventory != NULL) return check(inventory, request, error);
  trm_inventory *chosen = NULL;
  TRY(trm_inventory_load(NULL, &chosen, error));
  const trm_status status = check(chosen, request, error);
  trm_inventory_release(chosen);
  return status;
}

static trm_status attach_all(trm_inventory *inventory, const trm_device_request *requests,
                             size_t count, trm_device **out_devices, trm_error *error) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  choice c = {.inventory = inventory};
  c.states = trm_allocate_zeroed(inventory->num_ipus, sizeof *c.states);
  c.ipus = trm_allocate_zeroed(inventory->num_ipus, sizeof *c.ipus);
  trm_status status;
  int folder = -1;
  if (c.states == NULL || c.ipus == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while attaching to IPUs");
  }
  for (size_t i = 0; i < count; ++i) {
    c.request = &requests[i];
    TRY_OR_GOTO(check_request(&c, error), done);
    memset(c.states, 0, inventory->num_ipus * sizeof *c.states);
  }
  TRY_OR_GOTO(trm_lock_folder_open(inventory, true, &folder, error), done);
  status = attach_in_folder(&c, requests, count, folder, out_devices, error);
  close(folder);
  for (size_t i = 0; i < count && status == TRM_OK; ++i) {
    trm_log(TRM_LOG_INFO, "DEVICE", "%s attached to %s of the inventory %s",
            requests[i].name == NULL ? "a device" : requests[i].name, out_devices[i]->text.data,
            inventory->name);
    trm_timeline_event(TRM_TIMELINE_DRIVERS, "attach");
  }
done:
  trm_free(c.states);
  trm_free(c.ipus);
  return status;
}

trm_status trm_device_attach_all(trm_inventory *inventory, const trm_device_request *requests,
                                 size_t count, trm_device **out_devices, trm_error *error) {
  memset(out_devices, 0, count * sizeof(trm_device *));
  if (count == 0) return TRM_OK;
  if (inventory != NULL) return attach_all(inventory, requests, count, out_devices, error);
  trm_inventory *chosen = NULL;
  TRY(trm_inventory_load(NULL, &chosen, error));
  const trm_status status = attach_all(chosen, requests, count, out_devices, error);
  trm_inventory_release(chosen);
  return status;
}

trm_status trm_device_attach(trm_inventory *inventory, const trm_device_request *request,
                             trm_device **out_device, trm_error *error) {
  trm_device *device = NULL;
  TRY(trm_device_attach_all(inventory, request, 1, &device, error));
  *out_device = device;
  return TRM_OK;
}

void trm_device_retain(trm_device *device) {
  atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
}

void trm_device_release(trm_device *device) {
  if (device == NULL) return;
  if (atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) != 1) return;
  trm_timeline_event(TRM_TIMELINE_DRIVERS, "detach");
  pthread_mutex_lock(&devices_mutex);
  if (device->next != NULL) device->next->previous = device->previous;
  if (device->previous != NULL) device->previous->next = device->next;
  if (devices == device) devices = device->next;
  close_locks(device, true);
  pthread_mutex_unlock(&devices_mutex);
  device_free(device);
}

const char *trm_device_description(const trm_device *device) { return device->text.data; }
int64_t trm_device_id(const trm_device *device) { return device->id; }
uint32_t trm_device_num_ipus(const trm_device *device) { return device->num_ipus; }

const trm_ipu_info *trm_device_ipu(const trm_device *device, uint32_t i) {
  return i < device->num_ipus ? trm_inventory_ipu(device->inventory, device->ipus[i]) : NULL;
}
