/* Reserving: IPUs that only the process with the reservation's text can attach to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tremula/device.h"

#include "locks_case.h"

static int setup_without_reservation(void **state) {
  unsetenv("TREMULA_RESERVATION");
  return setup(state);
}

static trm_device *attach(uint32_t num_ipus, const char *reserve_for) {
  const trm_device_request request = {
      .name = "test", .num_ipus = num_ipus, .reserve_for = reserve_for};
  trm_device *device = NULL;
  trm_error error;
  if (trm_device_attach(NULL, &request, &device, &error) != TRM_OK) fail_msg("%s", error.message);
  return device;
}

static trm_status try_id(uint32_t id, trm_device **out_device, trm_error *error) {
  const trm_device_request request = {.name = "test", .ids = &id, .num_ids = 1};
  return trm_device_attach(NULL, &request, out_device, error);
}

static void test_only_the_owner_attaches(void **state) {
  (void)state;
  trm_error error = {0};
  trm_device *reserved = attach(4, "job-0"), *second = attach(4, "job-1"), *used = NULL;
  assert_int_equal(trm_device_id(reserved), 24);
  assert_int_equal(trm_device_id(second), 25);
  assert_int_equal(try_id(24, &used, &error), TRM_INTERNAL);
  assert_non_null(strstr(error.message, "taken: IPU 0 by process"));

  setenv("TREMULA_RESERVATION", "job-1", 1);
  assert_int_equal(try_id(24, &used, &error), TRM_INTERNAL);
  used = attach(4, NULL); /* its own first, although others are free */
  assert_int_equal(trm_device_id(used), 25);
  trm_device *other = attach(4, NULL); /* what is in use is not kept any more */
  assert_int_equal(trm_device_id(other), 26);
  trm_device_release(other);
  trm_device_release(used);
  used = attach(1, NULL); /* a part of what is reserved, again after it was used */
  assert_int_equal(trm_device_ipu(used, 0)->id, 0);
  trm_device_release(used);
  trm_device_release(reserved);
  trm_device_release(second);
}

/* Whoever uses the IPUs keeps them when the reservation goes; the records tell the two apart. */
static void test_use_outlives_the_reservation(void **state) {
  (void)state;
  trm_error error = {0};
  trm_inventory *inventory = NULL;
  trm_attachment who;
  assert_int_equal(trm_inventory_load(NULL, &inventory, NULL), TRM_OK);
  trm_device *reserved = attach(1, "job-0"), *used = NULL;
  assert_int_equal(trm_inventory_attachment(inventory, 0, &who, NULL), TRM_OK);
  assert_true(who.attached);
  assert_string_equal(who.reserved_for, "job-0");
  setenv("TREMULA_RESERVATION", "job-0", 1);
  assert_int_equal(try_id(0, &used, &error), TRM_OK);
  assert_int_equal(trm_inventory_attachment(inventory, 0, &who, NULL), TRM_OK);
  assert_string_equal(who.reserved_for, "");
  trm_device_release(used);
  assert_int_equal(trm_inventory_attachment(inventory, 0, &who, NULL), TRM_OK);
  assert_string_equal(who.reserved_for, "job-0"); /* its record is still there */
  assert_int_equal(try_id(0, &used, &error), TRM_OK);
  trm_device_release(reserved);
  unsetenv("TREMULA_RESERVATION");
  trm_device *third = NULL;
  assert_int_equal(try_id(0, &third, &error), TRM_INTERNAL);
  trm_device_release(used);
  assert_int_equal(try_id(0, &third, &error), TRM_OK);
  trm_device_release(third);
  trm_inventory_release(inventory);
}

/* All devices or none: what a failed call took first is free again. */
static void test_all_or_none(void **state) {
  (void)state;
  trm_error error = {0};
  trm_device *devices[3], *used = attach(8, NULL);
  const trm_device_request requests[3] = {{.name = "one", .num_ipus = 4, .reserve_for = "a"},
                                          {.name = "two", .num_ipus = 4, .reserve_for = "b"},
                                          {.name = "three", .num_ipus = 1, .reserve_for = "c"}};
  assert_int_equal(trm_device_attach_all(NULL, requests, 3, devices, &error), TRM_INTERNAL);
  assert_non_null(strstr(error.message, "three"));
  assert_null(devices[0]);
  assert_int_equal(trm_device_attach_all(NULL, requests, 2, devices, &error), TRM_OK);
  assert_int_equal(trm_device_id(devices[0]), 26);
  assert_int_equal(trm_device_id(devices[1]), 27);
  trm_device_release(devices[0]);
  trm_device_release(devices[1]);
  trm_device_release(used);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_only_the_owner_attaches, setup_without_reservation,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_use_outlives_the_reservation, setup_without_reservation,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_all_or_none, setup_without_reservation, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
