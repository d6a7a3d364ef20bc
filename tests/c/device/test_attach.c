/* Attaching: which ids are chosen, competing processes, killed ones, forks, threads, bad folders.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tremula/device.h"

#include "../sleeping.h"
#include "locks_case.h"

static trm_status try_attach(const char *preset, uint32_t num_ipus, trm_device **out,
                             trm_error *error) {
  trm_inventory *inventory = NULL;
  const trm_status loaded = trm_inventory_load(preset, &inventory, error);
  if (loaded != TRM_OK) return loaded;
  const trm_device_request request = {.name = "/device:IPU:0", .num_ipus = num_ipus};
  const trm_status status = trm_device_attach(inventory, &request, out, error);
  trm_inventory_release(inventory);
  return status;
}

static trm_device *attach(const char *preset, uint32_t num_ipus) {
  trm_device *device = NULL;
  trm_error error;
  if (try_attach(preset, num_ipus, &device, &error) != TRM_OK) fail_msg("%s", error.message);
  assert_int_equal(trm_device_num_ipus(device), num_ipus);
  return device;
}

static trm_status try_ids(const uint32_t *ids, size_t count, trm_device **out, trm_error *error) {
  const trm_device_request request = {.name = "/device:IPU:1", .ids = ids, .num_ids = count};
  return trm_device_attach(NULL, &request, out, error);
}

static void expect_ipus(const trm_device *device, const uint32_t *ipus, uint32_t count) {
  assert_int_equal(trm_device_num_ipus(device), count);
  for (uint32_t i = 0; i < count; ++i) {
    assert_int_equal(trm_device_ipu(device, i)->id, ipus[i]);
  }
  assert_null(trm_device_ipu(device, count));
}

/* The first ids in order, and what is next when they are taken. */
static void test_order(void **state) {
  (void)state;
  trm_device *devices[8];
  size_t n = 0;
  static const struct {
    uint32_t num_ipus;
    const char *description;
  } steps[] = {{1, "IPU: 0"}, {4, "IPUs: 24"}, {1, "IPU: 1"}, {2, "IPUs: 19"}, {8, "IPUs: 29"}};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
    devices[n] = attach(NULL, steps[i].num_ipus);
    assert_string_equal(trm_device_description(devices[n]), steps[i].description);
    ++n;
  }
  expect_ipus(devices[1], (const uint32_t[]){4, 5, 6, 7}, 4);
  trm_device *none = NULL;
  trm_error error;
  assert_int_equal(try_attach(NULL, 1, &none, &error), TRM_INTERNAL);
  assert_null(none);
  while (n > 0) trm_device_release(devices[--n]);
  devices[0] = attach(NULL, 16);
  assert_string_equal(trm_device_description(devices[0]), "IPUs: 30");
  trm_device_release(devices[0]);
}

static void test_ids(void **state) {
  (void)state;
  trm_device *device = NULL, *other = NULL;
  trm_error error;
  assert_int_equal(try_ids((const uint32_t[]){25}, 1, &device, &error), TRM_OK);
  assert_string_equal(trm_device_description(device), "IPUs: 25");
  expect_ipus(device, (const uint32_t[]){0, 1, 2, 3}, 4);
  assert_int_equal(try_ids((const uint32_t[]){3}, 1, &other, &error), TRM_INTERNAL);
  assert_int_equal(try_ids((const uint32_t[]){8, 16}, 2, &other, &error), TRM_OK);
  assert_string_equal(trm_device_description(other), "IPUs: 8,16");
  expect_ipus(other, (const uint32_t[]){8, 4, 5}, 3);
  trm_device_release(other);
  trm_device_release(device);

  assert_int_equal(try_ids((const uint32_t[]){31}, 1, &other, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(
      strstr(error.message, "No device matches the requested configuration for /device:IPU:1"));
  assert_int_equal(try_ids((const uint32_t[]){16, 4}, 2, &other, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "IPU 4 twice"));
  const trm_device_request both = {.num_ipus = 3, .ids = (const uint32_t[]){16}, .num_ids = 1};
  assert_int_equal(trm_device_attach(NULL, &both, &other, &error), TRM_INVALID_ARGUMENT);
}

static void test_sizes(void **state) {
  (void)state;
  trm_device *device = NULL;
  trm_error error;
  assert_int_equal(try_attach(NULL, 0, &device, &error), TRM_INVALID_ARGUMENT);
  assert_int_equal(try_attach(NULL, 17, &device, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "Unsupported number of IPUs requested - could not find an "
                                        "IPU device with 17 IPUs for the TensorFlow virtual device "
                                        "/device:IPU:0."));
  /* Sizes without an id: the first free IPUs. */
  trm_device *one = attach(NULL, 1);
  device = attach(NULL, 3);
  assert_string_equal(trm_device_description(device), "IPUs: 1,2,3");
  trm_device_release(device);
  trm_device_release(one);
  device = attach("m2000-2", 5);
  assert_string_equal(trm_device_description(device), "IPUs: 0,1,2,3,4");
  trm_device_release(device);
  device = attach("c2-16", 4);
  assert_string_equal(trm_device_description(device), "IPUs: 24");
  expect_ipus(device, (const uint32_t[]){5, 7, 4, 6}, 4);
  assert_string_equal(trm_device_ipu(device, 0)->pci, "0000:3e:00.0");
  trm_device_release(device);
}

/* ---- Other processes ----------------------------------------------------------------------- */

/* A child that attaches, says "y" or "n", and holds until its standard input ends. */
typedef struct holder {
  pid_t pid;
  int to, from;
} holder;

static holder start_holder(uint32_t num_ipus) {
  int to[2], from[2];
  assert_int_equal(pipe(to), 0);
  assert_int_equal(pipe(from), 0);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    close(to[1]);
    close(from[0]);
    trm_device *device = NULL;
    const bool attached = try_attach(NULL, num_ipus, &device, NULL) == TRM_OK;
    if (write(from[1], attached ? "y" : "n", 1) != 1) _exit(3);
    char end;
    while (read(to[0], &end, 1) > 0) continue;
    trm_device_release(device);
    _exit(attached ? 0 : 1);
  }
  close(to[0]);
  close(from[1]);
  return (holder){pid, to[1], from[0]};
}

static char answer_of(const holder *h) {
  char answer = '?';
  assert_int_equal(read(h->from, &answer, 1), 1);
  return answer;
}

static int stop_holder(holder *h, int signal_number) {
  if (signal_number != 0) kill(h->pid, signal_number);
  close(h->to);
  close(h->from);
  int status = 0;
  assert_int_equal(waitpid(h->pid, &status, 0), h->pid);
  return status;
}

/* Twelve processes want four IPUs each at the same time: exactly four get them. */
static void test_processes_compete(void **state) {
  (void)state;
  for (int round = 0; round < 5; ++round) {
    holder holders[12];
    for (int i = 0; i < 12; ++i) holders[i] = start_holder(4);
    int got = 0;
    for (int i = 0; i < 12; ++i) got += answer_of(&holders[i]) == 'y';
    assert_int_equal(got, 4);
    for (int i = 0; i < 12; ++i) stop_holder(&holders[i], SIGTERM);
  }
  trm_device_release(attach(NULL, 16));
}

static void test_killed_process_frees(void **state) {
  (void)state;
  holder h = start_holder(16);
  assert_int_equal(answer_of(&h), 'y');
  trm_device *device = NULL;
  trm_error error;
  assert_int_equal(try_attach(NULL, 4, &device, &error), TRM_INTERNAL);
  char expected[64];
  snprintf(expected, sizeof expected, "IPU 0 by process %d (", (int)h.pid);
  assert_non_null(strstr(error.message, expected));
  assert_non_null(strstr(error.message,
                         "Could not find an available device for TensorFlow virtual device "
                         "/device:IPU:0. This device was expected to have 4 IPU(s)."));
  trm_inventory *inventory = NULL;
  assert_int_equal(trm_inventory_load(NULL, &inventory, &error), TRM_OK);
  trm_attachment who;
  assert_int_equal(trm_inventory_attachment(inventory, 7, &who, &error), TRM_OK);
  assert_true(who.attached);
  assert_int_equal(who.pid, h.pid);
  assert_true(who.started > 1600000000 && who.started <= time(NULL));
  assert_string_equal(who.device, "/device:IPU:0");
  assert_string_equal(who.ids, "30");
  assert_true(who.command[0] != '\0' && who.user[0] != '\0');

  assert_true(WIFSIGNALED(stop_holder(&h, SIGKILL)));
  assert_int_equal(trm_inventory_attachment(inventory, 7, &who, &error), TRM_OK);
  assert_false(who.attached);
  assert_int_equal(who.pid, 0);
  assert_int_equal(trm_inventory_attachment(inventory, 16, &who, &error), TRM_INVALID_ARGUMENT);
  trm_inventory_release(inventory);
  trm_device_release(attach(NULL, 16));
}

/* A child that lives on does not keep what its parent had, nor does it have it. */
static void test_fork_does_not_inherit(void **state) {
  (void)state;
  int ready[2], to[2], from[2];
  assert_int_equal(pipe(ready), 0);
  assert_int_equal(pipe(to), 0);
  assert_int_equal(pipe(from), 0);
  const pid_t parent = fork();
  assert_true(parent >= 0);
  if (parent == 0) {
    trm_device *device = NULL;
    if (try_attach(NULL, 16, &device, NULL) != TRM_OK) _exit(1);
    if (fork() == 0) { /* the grandchild outlives its parent */
      close(to[1]);
      trm_device *second = NULL;
      const bool excluded = try_attach(NULL, 1, &second, NULL) == TRM_INTERNAL;
      trm_device_release(device); /* must not free the parent's IPUs */
      const bool still = try_attach(NULL, 1, &second, NULL) == TRM_INTERNAL;
      if (write(ready[1], excluded && still ? "y" : "n", 1) != 1) _exit(3);
      char end;
      while (read(to[0], &end, 1) > 0) continue;
      _exit(0);
    }
    char answer;
    if (read(ready[0], &answer, 1) != 1) _exit(2);
    if (write(from[1], &answer, 1) != 1) _exit(3);
    raise(SIGKILL);
  }
  close(to[0]);
  char answer = '?';
  assert_int_equal(read(from[0], &answer, 1), 1);
  assert_int_equal(answer, 'y');
  int status;
  assert_int_equal(waitpid(parent, &status, 0), parent);
  assert_true(WIFSIGNALED(status));
  trm_device_release(attach(NULL, 16)); /* although the grandchild lives */
  close(to[1]);
  close(ready[0]), close(ready[1]), close(from[0]), close(from[1]);
}

/* Nor does a program that is executed. */
static void test_exec_does_not_inherit(void **state) {
  (void)state;
  int to[2];
  assert_int_equal(pipe(to), 0);
  trm_device *device = attach(NULL, 16);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    dup2(to[0], 0);
    close(to[0]), close(to[1]);
    execlp("cat", "cat", (char *)NULL);
    _exit(127);
  }
  close(to[0]);
  trm_device_release(device);
  trm_device_release(attach(NULL, 16));
  close(to[1]);
  int status;
  waitpid(pid, &status, 0);
  assert_int_equal(status, 0);
}

static void *release_later(void *argument) {
  wait_until_others_sleep();
  trm_device_release(argument);
  return NULL;
}

static void test_waiting(void **state) {
  (void)state;
  trm_device *device = attach(NULL, 16), *second = NULL;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, release_later, device), 0);
  const trm_device_request request = {.num_ipus = 2, .timeout_ms = 20000, .poll_ms = 5};
  trm_error error;
  assert_int_equal(trm_device_attach(NULL, &request, &second, &error), TRM_OK);
  pthread_join(thread, NULL);
  const trm_device_request brief = {.num_ipus = 16, .timeout_ms = 30, .poll_ms = 10};
  assert_int_equal(trm_device_attach(NULL, &brief, &device, &error), TRM_INTERNAL);
  trm_device_release(second);
}

/* ---- Threads ------------------------------------------------------------------------------- */

typedef struct shared {
  trm_device *device;
  atomic_int wrong, got;
} shared;

static void *use_shared(void *argument) {
  shared *s = argument;
  for (int i = 0; i < 200; ++i) {
    trm_device_retain(s->device);
    if (strcmp(trm_device_description(s->device), "IPUs: 24") != 0) atomic_fetch_add(&s->wrong, 1);
    if (trm_device_ipu(s->device, 3)->id != 7) atomic_fetch_add(&s->wrong, 1);
    trm_device_release(s->device);
  }
  trm_device *own = NULL;
  if (try_attach(NULL, 4, &own, NULL) == TRM_OK) atomic_fetch_add(&s->got, 1);
  trm_device_release(own); /* NULL is allowed */
  return NULL;
}

static void test_threads_share(void **state) {
  (void)state;
  shared s = {.device = attach(NULL, 4)};
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, use_shared, &s), 0);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  assert_int_equal(s.wrong, 0);
  assert_true(s.got >= 3); /* three quads were free throughout */
  trm_device_release(s.device);
  trm_device_release(attach(NULL, 16));
}

/* ---- Folders ------------------------------------------------------------------------------- */

static void expect_refused(const char *folder, trm_status expected, const char *message) {
  setenv("TREMULA_RUNTIME_DIR", folder, 1);
  trm_device *device = NULL;
  trm_error error = {0};
  assert_int_equal(try_attach(NULL, 1, &device, &error), expected);
  if (strstr(error.message, message) == NULL) fail_msg("%s", error.message);
  assert_non_null(strstr(error.message, "TREMULA_RUNTIME_DIR"));
  setenv("TREMULA_RUNTIME_DIR", runtime_dir, 1);
}

static void test_folders(void **state) {
  (void)state;
  char path[160];
  snprintf(path, sizeof path, "%s/deep/er", runtime_dir); /* is made */
  setenv("TREMULA_RUNTIME_DIR", path, 1);
  trm_device_release(attach(NULL, 1));
  expect_refused("relative/path", TRM_INVALID_ARGUMENT, "absolute");
  expect_refused("/proc/nowhere", TRM_FAILED_PRECONDITION, "/proc/nowhere");
  snprintf(path, sizeof path, "%s/file", runtime_dir);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fclose(file);
  expect_refused(path, TRM_FAILED_PRECONDITION, "Not a directory");
  /* The folder of the inventory is a link that somebody else laid. */
  snprintf(path, sizeof path, "%s/linked", runtime_dir);
  assert_int_equal(mkdir(path, 0700), 0);
  char link[192];
  snprintf(link, sizeof link, "%s/mk2-16", path);
  assert_int_equal(symlink("/tmp", link), 0);
  expect_refused(path, TRM_FAILED_PRECONDITION, "mk2-16");
  if (geteuid() != 0) { /* root may write anywhere */
    snprintf(path, sizeof path, "%s/readonly", runtime_dir);
    assert_int_equal(mkdir(path, 0500), 0);
    expect_refused(path, TRM_FAILED_PRECONDITION, "Permission denied");
  }
  /* Asking makes nothing. */
  snprintf(path, sizeof path, "%s/untouched", runtime_dir);
  setenv("TREMULA_RUNTIME_DIR", path, 1);
  trm_inventory *inventory = NULL;
  trm_attachment who = {.attached = true};
  assert_int_equal(trm_inventory_load(NULL, &inventory, NULL), TRM_OK);
  assert_int_equal(trm_inventory_attachment(inventory, 0, &who, NULL), TRM_OK);
  assert_false(who.attached);
  assert_int_not_equal(access(path, F_OK), 0);
  trm_inventory_release(inventory);
  setenv("TREMULA_RUNTIME_DIR", runtime_dir, 1);
}

/* An unprivileged user with a folder that is not theirs (needs root to become one, and a system
 * that has that user: a container may have few, or a root that may not become another). */
static void test_foreign_folder(void **state) {
  (void)state;
  if (geteuid() != 0) skip();
  enum { NO_SUCH_USER = 77 };
  const uid_t some_user = 2000000000 + (uid_t)getpid(); /* other tests of ours have another */
  char home[48];
  snprintf(home, sizeof home, "/tmp/tremula-%u", (unsigned)some_user);
  rmdir(home);
  assert_int_equal(mkdir(home, 0777), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    char path[96];
    snprintf(path, sizeof path, "%s/mine", runtime_dir);
    if (mkdir(path, 0700) != 0 || chmod(runtime_dir, 0755) != 0) _exit(2);
    if (setuid(some_user) != 0) _exit(errno == EINVAL || errno == EPERM ? NO_SUCH_USER : 7);
    setenv("TREMULA_RUNTIME_DIR", path, 1);
    trm_device *device = NULL;
    trm_error error;
    if (try_attach(NULL, 1, &device, &error) != TRM_FAILED_PRECONDITION) _exit(3);
    if (strstr(error.message, "Permission denied") == NULL) _exit(4);
    /* The default folder of this user, made by another: refused. */
    unsetenv("TREMULA_RUNTIME_DIR");
    if (try_attach(NULL, 1, &device, &error) != TRM_FAILED_PRECONDITION) _exit(5);
    if (strstr(error.message, "not this user's alone") == NULL) _exit(6);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  rmdir(home);
  if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SUCH_USER) skip();
  assert_int_equal(status, 0);
}

/* A record that is damaged does not matter: the lock decides. */
static void test_damaged_record(void **state) {
  (void)state;
  trm_device *device = attach(NULL, 1);
  char path[128];
  snprintf(path, sizeof path, "%s/mk2-16/ipu-0.lock", runtime_dir);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("{\"pid\": ", file);
  fclose(file);
  trm_inventory *inventory = NULL;
  trm_attachment who;
  assert_int_equal(trm_inventory_load(NULL, &inventory, NULL), TRM_OK);
  assert_int_equal(trm_inventory_attachment(inventory, 0, &who, NULL), TRM_OK);
  assert_true(who.attached);
  assert_int_equal(who.pid, 0);
  trm_device_release(device);
  assert_int_equal(trm_inventory_attachment(inventory, 0, &who, NULL), TRM_OK);
  assert_false(who.attached);
  trm_inventory_release(inventory);
}

static void test_allocation_failures(void **state) {
  (void)state;
  for (int64_t n = 0;; ++n) {
    trm_device *device = NULL;
    trm_error error;
    trm_allocation_fail_after(n);
    const trm_status status = try_attach(NULL, 4, &device, &error);
    trm_allocation_fail_after(-1);
    if (status == TRM_OK) {
      assert_true(n > 5);
      trm_device_release(device);
      break;
    }
    assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
    trm_device_release(attach(NULL, 16)); /* the failed one has no lock */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_order, setup, teardown),
      cmocka_unit_test_setup_teardown(test_ids, setup, teardown),
      cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_processes_compete, setup, teardown),
      cmocka_unit_test_setup_teardown(test_killed_process_frees, setup, teardown),
      cmocka_unit_test_setup_teardown(test_fork_does_not_inherit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_exec_does_not_inherit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_waiting, setup, teardown),
      cmocka_unit_test_setup_teardown(test_threads_share, setup, teardown),
      cmocka_unit_test_setup_teardown(test_folders, setup, teardown),
      cmocka_unit_test_setup_teardown(test_foreign_folder, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damaged_record, setup, teardown),
      cmocka_unit_test_setup_teardown(test_allocation_failures, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
