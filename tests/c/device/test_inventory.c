/* Inventories: presets, the table of ids, the JSON form and what is refused. */
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

static trm_inventory *load(const char *name) {
  trm_inventory *inventory = NULL;
  trm_error error = {0};
  if (trm_inventory_load(name, &inventory, &error) != TRM_OK) fail_msg("%s", error.message);
  return inventory;
}

static void expect_members(const trm_inventory *inventory, uint32_t id, const char *expected) {
  uint32_t count;
  const uint32_t *members = trm_inventory_members(inventory, id, &count);
  char text[256] = "";
  for (uint32_t i = 0; i < count; ++i) {
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i == 0 ? "" : " ",
             members[i]);
  }
  assert_string_equal(text, expected);
}

static void test_mk2_16(void **state) {
  (void)state;
  trm_inventory *inventory = load("mk2-16");
  assert_int_equal(trm_inventory_num_ipus(inventory), 16);
  assert_int_equal(trm_inventory_num_ids(inventory), 31);
  for (uint32_t i = 0; i < 16; ++i) {
    char expected[8];
    snprintf(expected, sizeof expected, "%u", i);
    expect_members(inventory, i, expected);
    const trm_ipu_info *ipu = trm_inventory_ipu(inventory, i);
    assert_int_equal(ipu->id, i);
    assert_string_equal(ipu->architecture, "ipu2");
    assert_string_equal(ipu->board, "M2000");
    assert_int_equal(ipu->clock_mhz, 1330);
    assert_int_equal(ipu->number, 3 - i % 4);
    assert_string_equal(ipu->routing, "DNC");
    assert_string_equal(ipu->pci, "");
  }
  static const char *const groups[] = {"4 5",
                                       "6 7",
                                       "0 1",
                                       "2 3",
                                       "12 13",
                                       "14 15",
                                       "8 9",
                                       "10 11",
                                       "4 5 6 7",
                                       "0 1 2 3",
                                       "12 13 14 15",
                                       "8 9 10 11",
                                       "4 5 6 7 0 1 2 3",
                                       "12 13 14 15 8 9 10 11",
                                       "4 5 6 7 0 1 2 3 12 13 14 15 8 9 10 11"};
  for (uint32_t i = 0; i < 15; ++i) expect_members(inventory, 16 + i, groups[i]);
  expect_members(inventory, 31, "");
  uint32_t count;
  assert_null(trm_inventory_members(inventory, 31, &count));
  assert_null(trm_inventory_members(inventory, UINT32_MAX, &count));
  assert_null(trm_inventory_ipu(inventory, 16));
  trm_inventory_release(inventory);
}

static void test_c2_16(void **state) {
  (void)state;
  trm_inventory *inventory = load("c2-16");
  assert_int_equal(trm_inventory_num_ids(inventory), 31);
  static const char *const groups[] = {"5 7",
                                       "4 6",
                                       "3 1",
                                       "2 0",
                                       "13 15",
                                       "12 14",
                                       "9 11",
                                       "10 8",
                                       "5 7 4 6",
                                       "3 1 2 0",
                                       "13 15 12 14",
                                       "9 11 10 8",
                                       "5 7 4 6 3 1 2 0",
                                       "13 15 12 14 9 11 10 8",
                                       "5 7 4 6 3 1 2 0 13 15 12 14 9 11 10 8"};
  for (uint32_t i = 0; i < 15; ++i) expect_members(inventory, 16 + i, groups[i]);
  assert_string_equal(trm_inventory_ipu(inventory, 0)->pci, "0000:1a:00.0");
  assert_string_equal(trm_inventory_ipu(inventory, 15)->pci, "0000:bb:00.0");
  assert_string_equal(trm_inventory_ipu(inventory, 15)->architecture, "ipu1");
  assert_int_equal(trm_inventory_ipu(inventory, 15)->numa_node, 1);
  trm_inventory_release(inventory);
}

static void test_m2000_2(void **state) {
  (void)state;
  trm_inventory *inventory = load("m2000-2");
  assert_string_equal(trm_inventory_name(inventory), "m2000-2");
  assert_string_equal(trm_inventory_partition(inventory), "p_ipuof");
  assert_int_equal(trm_inventory_num_ids(inventory), 15);
  expect_members(inventory, 8, "0 1");
  expect_members(inventory, 11, "6 7");
  expect_members(inventory, 12, "0 1 2 3");
  expect_members(inventory, 13, "4 5 6 7");
  expect_members(inventory, 14, "0 1 2 3 4 5 6 7");
  const trm_ipu_info *ipu = trm_inventory_ipu(inventory, 2);
  assert_string_equal(ipu->host, "10.44.44.253");
  assert_string_equal(ipu->serial, "0001.0001.8204221");
  assert_string_equal(ipu->firmware, "2.1.3");
  assert_string_equal(ipu->server_version, "1.5.4");
  assert_int_equal(ipu->number, 1);
  trm_inventory_release(inventory);
}

/* Every preset that is listed loads, and the unknown one is refused by name. */
static void test_presets(void **state) {
  (void)state;
  size_t count = 0;
  for (const char *name; (name = trm_inventory_preset(count)) != NULL; ++count) {
    trm_inventory *inventory = load(name);
    assert_string_equal(trm_inventory_name(inventory), name);
    trm_inventory_release(inventory);
  }
  assert_int_equal(count, 3);
  trm_inventory *none = NULL;
  trm_error error;
  assert_int_equal(trm_inventory_load("mk3", &none, &error), TRM_NOT_FOUND);
  assert_non_null(strstr(error.message, "\"mk3\""));
  for (size_t i = 0; i < count; ++i) {
    assert_non_null(strstr(error.message, trm_inventory_preset(i)));
  }
  assert_null(none);
}

static trm_status parse(const char *text, trm_inventory **out, trm_error *error) {
  return trm_inventory_parse(text, strlen(text), "lab.json", out, error);
}

/* Sizes that are no power of two: blocks that are full, then all. */
static void test_other_sizes(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 70; ++n) {
    char text[2048] = "{\"name\":\"x\",\"defaults\":{\"architecture\":\"ipu21\"},\"ipus\":[{}";
    for (uint32_t i = 1; i < n; ++i) strcat(text, ",{}");
    strcat(text, "]}");
    trm_inventory *inventory = NULL;
    trm_error error;
    assert_int_equal(parse(text, &inventory, &error), TRM_OK);
    assert_int_equal(trm_inventory_num_ipus(inventory), n);
    uint32_t id = n, count;
    for (uint32_t size = 2; size <= n; size *= 2) {
      for (uint32_t start = 0; start + size <= n; start += size, ++id) {
        const uint32_t *members = trm_inventory_members(inventory, id, &count);
        assert_int_equal(count, size);
        for (uint32_t i = 0; i < size; ++i) assert_int_equal(members[i], start + i);
      }
    }
    const uint32_t last = trm_inventory_num_ids(inventory) - 1;
    trm_inventory_members(inventory, last, &count);
    assert_int_equal(count, n); /* all of them */
    assert_true(last == id || last + 1 == id);
    assert_int_equal(trm_inventory_ipu(inventory, n - 1)->clock_mhz, 1850);
    assert_string_equal(trm_inventory_ipu(inventory, n - 1)->board, "BOW-2000");
    trm_inventory_release(inventory);
  }
}

static const char good[] =
    "{\"name\": \"lab\", \"partition\": \"q\",\n"
    " \"defaults\": {\"architecture\": \"ipu2\", \"host\": \"a\", \"numa_node\": 1},\n"
    " \"order\": [2, 0, 1],\n"
    " \"ipus\": [{\"serial\": \"s\\u00e9\", \"clock_mhz\": 1500, \"number\": 7},\n"
    "          {\"board\": \"C600\", \"pci\": \"0000:01:00.0\"}, {\"host\": \"b\"}]}";

static void test_file_fields(void **state) {
  (void)state;
  trm_inventory *inventory = NULL;
  trm_error error = {0};
  if (parse(good, &inventory, &error) != TRM_OK) fail_msg("%s", error.message);
  assert_string_equal(trm_inventory_ipu(inventory, 0)->serial, "s\xc3\xa9");
  assert_int_equal(trm_inventory_ipu(inventory, 0)->clock_mhz, 1500);
  assert_int_equal(trm_inventory_ipu(inventory, 0)->number, 7);
  assert_int_equal(trm_inventory_ipu(inventory, 1)->number, 1);
  assert_string_equal(trm_inventory_ipu(inventory, 1)->board, "C600");
  assert_string_equal(trm_inventory_ipu(inventory, 1)->host, "a");
  assert_string_equal(trm_inventory_ipu(inventory, 2)->host, "b");
  assert_int_equal(trm_inventory_ipu(inventory, 2)->numa_node, 1);
  expect_members(inventory, 3, "2 0");
  expect_members(inventory, 4, "2 0 1");
  trm_inventory_release(inventory);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message; /* the message names the place and the fault */
  } cases[] = {
      {"", "not valid JSON"},
      {"[1]", "must be a JSON object"},
      {"{\"name\":\"x\",\"ipus\":[{}]", "lab.json:1:"},
      {"{\"name\":\"x\",\"name\":\"y\"}", "duplicate"},
      {"{\"ipus\":[{}]}", "\"name\" is missing"},
      {"{\"name\":5,\"ipus\":[{}]}", "\"name\" must be a string"},
      {"{\"name\":\"\",\"ipus\":[{}]}", "\"name\" must have 1 to 64"},
      {"{\"name\":\"a/b\",\"ipus\":[{}]}", "\"name\" must have 1 to 64"},
      {"{\"name\":\"..\",\"ipus\":[{}]}", "must not start with '.'"},
      {"{\"name\":\"x\",\"colour\":1}", "unknown key \"colour\""},
      {"{\"name\":\"x\"}", "\"ipus\" must be an array"},
      {"{\"name\":\"x\",\"ipus\":[]}", "model disabled and no hardware IPU found"},
      {"{\"name\":\"x\",\"ipus\":[3]}", "\"ipus\"[0] must be an object"},
      {"{\"name\":\"x\",\"ipus\":[{}]}", "\"ipus\"[0]: \"architecture\" is missing"},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu9\"}]}", "unknown architecture \"ipu9\""},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu2\"},{\"architecture\":\"ipu1\"}]}",
       "\"ipus\"[1] is of architecture ipu1"},
      {"{\"name\":\"x\",\"defaults\":[],\"ipus\":[{}]}", "\"defaults\" must be an object"},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu2\",\"colour\":1}]}",
       "\"ipus\"[0]: unknown key \"colour\""},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu2\",\"serial\":1}]}",
       "\"serial\" must be a string"},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu2\",\"serial\":\"\\u0007\"}]}",
       "control character"},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu2\",\"clock_mhz\":-1}]}",
       "\"clock_mhz\" must be an integer from 0"},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu2\",\"clock_mhz\":1.5}]}",
       "\"clock_mhz\" must be an integer"},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu2\"}],\"order\":[1]}",
       "\"order\" must be an integer from 0 to 0"},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu2\"}],\"order\":[]}",
       "names each of the 1 IPUs once"},
      {"{\"name\":\"x\",\"ipus\":[{\"architecture\":\"ipu2\"},{\"architecture\":\"ipu2\"}],"
       "\"order\":[1,1]}",
       "names IPU 1 twice"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    trm_inventory *inventory = NULL;
    trm_error error = {0};
    assert_int_equal(parse(cases[i].text, &inventory, &error), TRM_INVALID_ARGUMENT);
    assert_null(inventory);
    if (strstr(error.message, cases[i].message) == NULL) {
      fail_msg("%s\ngives: %s", cases[i].text, error.message);
    }
    assert_int_equal(parse(cases[i].text, &inventory, NULL), TRM_INVALID_ARGUMENT);
  }
}

static void test_too_many_and_too_long(void **state) {
  (void)state;
  trm_inventory *inventory = NULL;
  trm_error error;
  trm_text text = {0};
  trm_text_format(&text, "{\"name\":\"x\",\"defaults\":{\"architecture\":\"ipu2\"},\"ipus\":[{}");
  for (int i = 1; i <= TRM_MAX_IPUS; ++i) trm_text_format(&text, ",{}");
  trm_text_format(&text, "]}");
  assert_int_equal(parse(text.data, &inventory, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "1025 entries"));
  trm_text_free(&text);
  trm_text_format(&text, "{\"name\":\"x\",\"ipus\":[{\"host\":\"%0300d\"}]}", 0);
  assert_int_equal(parse(text.data, &inventory, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "300 bytes"));
  trm_text_free(&text);
  for (int i = 0; i < 100000; ++i) trm_text_append(&text, "[", 1);
  assert_int_equal(parse(text.data, &inventory, &error), TRM_INVALID_ARGUMENT);
  trm_text_free(&text);
}

/* Every prefix is refused; no mutation of a byte does harm, and what is accepted is in bounds. */
static void test_truncation_and_mutation(void **state) {
  (void)state;
  const size_t size = sizeof good - 1;
  trm_error error;
  for (size_t length = 0; length < size; ++length) {
    trm_inventory *inventory = NULL;
    char *copy = malloc(length == 0 ? 1 : length); /* exact, so that a sanitizer sees overruns */
    assert_non_null(copy);
    memcpy(copy, good, length);
    assert_int_equal(trm_inventory_parse(copy, length, NULL, &inventory, &error),
                     TRM_INVALID_ARGUMENT);
    free(copy);
  }
  static const unsigned char values[] = {0, '"', '{', ']', '-', '9', 'e', ',', 0x80, 0xff};
  uint32_t accepted = 0;
  for (size_t at = 0; at < size; ++at) {
    for (size_t v = 0; v < sizeof values; ++v) {
      char copy[sizeof good];
      memcpy(copy, good, size);
      copy[at] = (char)values[v];
      trm_inventory *inventory = NULL;
      const trm_status status = trm_inventory_parse(copy, size, "m", &inventory, &error);
      if (status != TRM_OK) {
        assert_int_equal(status, TRM_INVALID_ARGUMENT);
        assert_null(inventory);
        continue;
      }
      ++accepted;
      const uint32_t count = trm_inventory_num_ipus(inventory);
      assert_in_range(count, 1, 3);
      for (uint32_t id = 0; id < trm_inventory_num_ids(inventory); ++id) {
        uint32_t members;
        const uint32_t *list = trm_inventory_members(inventory, id, &members);
        for (uint32_t i = 0; i < members; ++i) assert_true(list[i] < count);
      }
      trm_inventory_release(inventory);
    }
  }
  assert_true(accepted > 0); /* a letter of a string may change */
}

static void test_allocation_failures(void **state) {
  (void)state;
  int64_t failures = 0;
  for (int64_t n = 0;; ++n) {
    trm_inventory *inventory = NULL;
    trm_error error;
    trm_allocation_fail_after(n);
    const trm_status status = parse(good, &inventory, &error);
    trm_allocation_fail_after(-1);
    if (status == TRM_OK) {
      trm_inventory_release(inventory);
      break;
    }
    assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
    assert_null(inventory);
    ++failures;
  }
  assert_true(failures >= 2);
}

static void test_environment_and_files(void **state) {
  (void)state;
  unsetenv("TREMULA_INVENTORY");
  trm_inventory *inventory = load(NULL);
  assert_string_equal(trm_inventory_name(inventory), "mk2-16");
  trm_inventory_release(inventory);
  setenv("TREMULA_INVENTORY", "", 1);
  inventory = load(NULL);
  assert_string_equal(trm_inventory_name(inventory), "mk2-16");
  trm_inventory_release(inventory);
  setenv("TREMULA_INVENTORY", "c2-16", 1);
  inventory = load(NULL);
  assert_string_equal(trm_inventory_name(inventory), "c2-16");
  trm_inventory_release(inventory);

  trm_error error;
  setenv("TREMULA_INVENTORY", "nowhere", 1);
  assert_int_equal(trm_inventory_load(NULL, &inventory, &error), TRM_NOT_FOUND);
  assert_non_null(strstr(error.message, "TREMULA_INVENTORY"));
  setenv("TREMULA_INVENTORY", "/nowhere/at/all.json", 1);
  assert_int_equal(trm_inventory_load(NULL, &inventory, &error), TRM_NOT_FOUND);
  assert_non_null(strstr(error.message, "/nowhere/at/all.json"));
  assert_int_equal(trm_inventory_load("/tmp", &inventory, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "not a regular file"));

  char path[] = "/tmp/tremula-inventory-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, good, sizeof good - 1), sizeof good - 1);
  close(fd);
  setenv("TREMULA_INVENTORY", path, 1);
  inventory = load(NULL);
  assert_string_equal(trm_inventory_name(inventory), "lab");
  trm_inventory_release(inventory);
  unlink(path);
  unsetenv("TREMULA_INVENTORY");
}

static void test_counted(void **state) {
  (void)state;
  trm_inventory *inventory = load("mk2-16");
  trm_inventory_retain(inventory);
  trm_inventory_release(inventory);
  assert_int_equal(trm_inventory_num_ipus(inventory), 16); /* a sanitizer sees a use after free */
  trm_inventory_release(inventory);
  trm_inventory_release(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mk2_16),
      cmocka_unit_test(test_c2_16),
      cmocka_unit_test(test_m2000_2),
      cmocka_unit_test(test_presets),
      cmocka_unit_test(test_other_sizes),
      cmocka_unit_test(test_file_fields),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_too_many_and_too_long),
      cmocka_unit_test(test_truncation_and_mutation),
      cmocka_unit_test(test_allocation_failures),
      cmocka_unit_test(test_environment_and_files),
      cmocka_unit_test(test_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
