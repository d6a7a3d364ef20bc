/* What lies in the place of a lock file, of the locks' folder or of an inventory: a FIFO, a link, a
 * folder of others. Nothing hangs, nothing is written through, and the message says what to do. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tremula/device.h"

#include "locks_case.h"

static char folder[80], victim[80]; /* of the locks; what links point to */

static void make_folder(mode_t mode) {
  snprintf(folder, sizeof folder, "%s/mk2-16", runtime_dir);
  snprintf(victim, sizeof victim, "%s/victim", runtime_dir);
  assert_int_equal(mkdir(folder, 0700), 0);
  assert_int_equal(chmod(folder, mode), 0);
}

static void lay_fifo(const char *path) { assert_int_equal(mkfifo(path, 0600), 0); }
static void lay_folder(const char *path) { assert_int_equal(mkdir(path, 0700), 0); }
static void lay_link(const char *path) { assert_int_equal(symlink(victim, path), 0); }
static void lay_socket(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_true(strlen(path) < sizeof address.sun_path);
  strcpy(address.sun_path, path);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  close(fd);
}

static trm_status attach_one(trm_error *error) {
  trm_device *device = NULL;
  const trm_device_request request = {.name = "/device:IPU:0", .num_ipus = 1};
  const trm_status status = trm_device_attach(NULL, &request, &device, error);
  trm_device_release(device);
  return status;
}

static trm_status ask_all(trm_error *error) {
  static trm_attachment who[TRM_MAX_IPUS];
  trm_inventory *inventory = NULL;
  assert_int_equal(trm_inventory_load(NULL, &inventory, error), TRM_OK);
  const trm_status status = trm_inventory_attachments(inventory, who, error);
  trm_inventory_release(inventory);
  return status;
}

static void expect_says(const trm_error *error, const char *part) {
  if (strstr(error->message, part) == NULL) fail_msg("%s", error->message);
}

static void test_instead_of_a_lock(void **state) {
  (void)state;
  static void (*const lay[])(const char *) = {lay_fifo, lay_folder, lay_link, lay_socket};
  static const char *const names[] = {"selection.lock", "ipu-0.lock"};
  make_folder(0700);
  for (size_t n = 0; n < 2; ++n) {
    for (size_t i = 0; i < sizeof lay / sizeof *lay; ++i) {
      char path[96];
      trm_error error = {0};
      snprintf(path, sizeof path, "%s/%s", folder, names[n]);
      unlink(path);
      lay[i](path);
      assert_int_equal(attach_one(&error), TRM_FAILED_PRECONDITION);
      expect_says(&error, names[n]);
      expect_says(&error, "TREMULA_RUNTIME_DIR");
      if (n == 1) { /* gc-monitor asks for the IPUs' locks only */
        assert_int_equal(ask_all(&error), TRM_FAILED_PRECONDITION);
        expect_says(&error, names[n]);
      }
      assert_int_not_equal(access(victim, F_OK), 0);
      assert_int_equal(remove(path), 0);
      assert_int_equal(attach_one(&error), TRM_OK);
    }
  }
}

/* In a place that others share, a folder that they may write to, or that is theirs. */
static void test_folder_of_others(void **state) {
  (void)state;
  trm_error error = {0};
  assert_int_equal(chmod(runtime_dir, 01777), 0); /* as /tmp: the folder itself may be shared */
  make_folder(0777);
  assert_int_equal(attach_one(&error), TRM_FAILED_PRECONDITION);
  expect_says(&error, "mk2-16 is not this user's alone");
  expect_says(&error, "TREMULA_RUNTIME_DIR");
  assert_int_equal(ask_all(&error), TRM_FAILED_PRECONDITION);
  assert_int_equal(chmod(folder, 0700), 0);
  assert_int_equal(attach_one(&error), TRM_OK);
  if (geteuid() != 0 || chown(folder, 65534, (gid_t)-1) != 0) return;
  assert_int_equal(attach_one(&error), TRM_FAILED_PRECONDITION);
  expect_says(&error, "mk2-16 is not this user's alone");
  /* A lock of another user in a folder of ours. */
  assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
  char path[96];
  snprintf(path, sizeof path, "%s/ipu-0.lock", folder);
  assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
  assert_int_equal(attach_one(&error), TRM_FAILED_PRECONDITION);
  expect_says(&error, "ipu-0.lock");
}

static void test_instead_of_an_inventory(void **state) {
  (void)state;
  static void (*const lay[])(const char *) = {lay_fifo, lay_folder, lay_socket};
  for (size_t i = 0; i < sizeof lay / sizeof *lay; ++i) {
    char path[96];
    trm_inventory *inventory = NULL;
    trm_error error = {0};
    snprintf(path, sizeof path, "%s/lab%zu.json", runtime_dir, i);
    lay[i](path);
    assert_int_equal(trm_inventory_load(path, &inventory, &error), TRM_INVALID_ARGUMENT);
    expect_says(&error, path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_instead_of_a_lock, setup, teardown),
      cmocka_unit_test_setup_teardown(test_folder_of_others, setup, teardown),
      cmocka_unit_test_setup_teardown(test_instead_of_an_inventory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
