/* Asking: whether an inventory has a device, and who is attached to all of its IPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tremula/device.h"

#include "locks_case.h"

static trm_status check(uint32_t num_ipus, const uint32_t *ids, size_t num_ids, trm_error *error) {
  const trm_device_request request = {
      .name = "/device:IPU:0", .num_ipus = num_ipus, .ids = ids, .num_ids = num_ids};
  return trm_device_check(NULL, &request, error);
}

static void test_check_does_not_attach(void **state) {
  (void)state;
  trm_error error;
  const uint32_t all = 30, both[] = {24, 4}, none = 31;
  assert_int_equal(check(16, NULL, 0, &error), TRM_OK);
  assert_int_equal(check(0, &all, 1, &error), TRM_OK);
  assert_int_equal(access(runtime_dir, R_OK), 0);
  char folder[128];
  snprintf(folder, sizeof folder, "%s/mk2-16", runtime_dir);
  assert_int_equal(access(folder, F_OK), -1); /* nothing was made */
  assert_int_equal(check(17, NULL, 0, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "Unsupported number of IPUs requested"));
  assert_int_equal(check(0, both, 2, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "IPU 4 twice"));
  assert_int_equal(check(0, &none, 1, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "No device matches the requested configuration"));
}

static void test_check_without_memory(void **state) {
  (void)state;
  for (int64_t n = 0; n < 200; ++n) {
    trm_error error = {0};
    trm_allocation_fail_after(n);
    const trm_status status = check(1, NULL, 0, &error);
    trm_allocation_fail_after(-1);
    if (status == TRM_OK) return;
    assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
  }
  fail_msg("it never succeeded");
}

static void test_attachments_of_all(void **state) {
  (void)state;
  trm_error error;
  trm_inventory *inventory = NULL;
  assert_int_equal(trm_inventory_load("m2000-2", &inventory, &error), TRM_OK);
  trm_attachment attachments[8];
  memset(attachments, 0xff, sizeof attachments);
  assert_int_equal(trm_inventory_attachments(inventory, attachments, &error), TRM_OK);
  for (int i = 0; i < 8; ++i) assert_false(attachments[i].attached); /* no folder yet */
  const uint32_t id = 9;                                             /* IPUs 2 and 3 */
  const trm_device_request request = {.name = "/device:IPU:1", .ids = &id, .num_ids = 1};
  trm_device *device = NULL;
  assert_int_equal(trm_device_attach(inventory, &request, &device, &error), TRM_OK);
  assert_int_equal(trm_inventory_attachments(inventory, attachments, &error), TRM_OK);
  for (int i = 0; i < 8; ++i) assert_int_equal(attachments[i].attached, i == 2 || i == 3);
  assert_int_equal(attachments[3].pid, getpid());
  assert_string_equal(attachments[3].device, "/device:IPU:1");
  assert_string_equal(attachments[3].ids, "9");
  trm_device_release(device);
  assert_int_equal(trm_inventory_attachments(inventory, attachments, &error), TRM_OK);
  for (int i = 0; i < 8; ++i) assert_false(attachments[i].attached);
  trm_inventory_release(inventory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_check_does_not_attach, setup, teardown),
      cmocka_unit_test_setup_teardown(test_check_without_memory, setup, teardown),
      cmocka_unit_test_setup_teardown(test_attachments_of_all, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
