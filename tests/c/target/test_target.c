/* Machine descriptions: presets, user files, refusals, sizes, hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipu/target/target.h"

static trm_target *load(const char *name) {
  trm_target *target = NULL;
  trm_error error;
  if (trm_target_load(name, &target, &error) != TRM_OK) fail_msg("%s", error.message);
  return target;
}

static trm_target *parse(const char *text) {
  trm_target *target = NULL;
  trm_error error;
  if (trm_target_parse(text, strlen(text), "test", &target, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  return target;
}

static double number(const trm_target *target, const char *key) {
  double value;
  if (!trm_target_number(target, key, &value)) fail_msg("there is no key %s", key);
  return value;
}

/* The text is refused, and the message has every one of the words. */
static void refuse(const char *text, const char *first, const char *second) {
  trm_target *target = NULL;
  trm_error error;
  assert_int_equal(trm_target_parse(text, strlen(text), "test", &target, &error),
                   TRM_INVALID_ARGUMENT);
  assert_null(target);
  if (strstr(error.message, first) == NULL || strstr(error.message, second) == NULL ||
      strstr(error.message, "test") == NULL) {
    fail_msg("\"%s\" should name \"%s\" and \"%s\"", error.message, first, second);
  }
}

/* Peak rates, memory and clocks that were published (docs/targets.md). */
static void test_presets(void **state) {
  (void)state;
  static const struct {
    const char *name, *arch;
    uint32_t tiles, bytes;
    double half_tflops, float_tflops, exchange_tbytes;
  } known[] = {
      {"bow", "ipu21", 1472, 638976, 348.6, 87.1, 10.9},
      {"mk1", "ipu1", 1216, 262144, 124.5, 31.1, 7.78},
      {"mk2", "ipu2", 1472, 638976, 250.6, 62.7, 7.83},
  };
  char all[64] = "";
  for (size_t i = 0; i < 3; ++i) {
    assert_string_equal(trm_target_preset(i), known[i].name);
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? ", " : "", known[i].name);
    trm_target *t = load(known[i].name);
    assert_string_equal(trm_target_string(t, "name"), known[i].name);
    assert_string_equal(trm_target_string(t, "architecture"), known[i].arch);
    assert_int_equal(number(t, "tilesPerIPU"), known[i].tiles);
    assert_int_equal(number(t, "memoryBytesPerTile"), known[i].bytes);
    assert_int_equal(number(t, "numWorkerContexts"), 6);
    /* A row of a conv unit costs four cycles for halves, eight for floats. */
    const double hz = number(t, "tileClockFrequency") * known[i].tiles / 1e12;
    const double half = 2 * hz * t->fp16_in_fp32_out_conv_units * t->fp16_conv_unit_load_elements *
                        t->fp16_conv_unit_pipeline_depth / 4;
    const double single = 2 * hz * t->fp32_in_fp32_out_conv_units *
                          t->fp32_conv_unit_load_elements * t->fp32_conv_unit_pipeline_depth / 8;
    assert_float_equal((float)half, (float)known[i].half_tflops, 0.1f);
    assert_float_equal((float)single, (float)known[i].float_tflops, 0.1f);
    const double exchange = hz * number(t, "exchangeBytesPerCycle");
    assert_float_equal((float)exchange, (float)known[i].exchange_tbytes, 0.1f);
    assert_int_equal(t->element_offsets[0], 0);
    assert_true(t->interleaved_element_index < t->num_elements);
    trm_target_release(t);
  }
  assert_null(trm_target_preset(3));
  assert_string_equal(all, TRM_TARGET_PRESETS);
  trm_target *standard = load(NULL), *other = load("ipu2");
  assert_string_equal(trm_target_string(standard, "name"), "mk2");
  assert_int_equal(standard->hash, other->hash);
  trm_target_release(standard);
  trm_target_release(other);
}

/* Every key has its own number: each of this machine differs from mk2's. */
static void test_keys(void **state) {
  (void)state;
  static const struct {
    const char *key, *text;
    double number;
  } keys[] = {{"instructionBytes", "6", 6},
              {"dataPathWidth", "128", 128},
              {"rptCountMax", "1000", 1000},
              {"memcpyBytesPerCycle", "12", 12},
              {"supportsExchangeBusSharing", "false", 0},
              {"tilesPerSuperTile", "4", 4},
              {"minIPUSyncDelay", "31", 31},
              {"maxIPUSyncDelay", "73", 73},
              {"globalSyncCycles", "501", 501},
              {"fp16ConvUnitMaxPipelineDepth", "5", 5},
              {"fp32ConvUnitMaxPipelineDepth", "3", 3},
              {"fp16ConvUnitInputLoadElemsPerCycle", "8", 8},
              {"convUnitCoeffLoadBytesPerCycle", "24", 24},
              {"ipuLinkBytesPerSecond", "1e9", 1e9},
              {"ipuLinkDomainSize", "7", 7},
              {"gwLinkBytesPerSecond", "5e9", 5e9},
              {"hostBytesPerSecond", "2e9", 2e9},
              {"streamingMemoryBytes", "4e9", 4e9}};
  trm_target *mk2 = load("mk2");
  for (size_t k = 0; k < sizeof keys / sizeof *keys; ++k) {
    char text[256];
    snprintf(text, sizeof text, "{\"base\": \"mk2\", \"name\": \"odd\", \"%s\": %s}", keys[k].key,
             keys[k].text);
    trm_target *t = parse(text);
    assert_true(number(t, keys[k].key) == keys[k].number);
    assert_true(number(mk2, keys[k].key) != keys[k].number);
    trm_target_release(t);
  }
  double ignored;
  assert_false(trm_target_number(mk2, "tilesPerIpu", &ignored));
  assert_false(trm_target_number(mk2, "name", &ignored));
  assert_null(trm_target_string(mk2, "tilesPerIPU"));
  trm_target_release(mk2);
  trm_target *t = parse("{\"base\": \"mk2\", \"name\": \"odd\", \"system\": \"S\"}");
  assert_string_equal(trm_target_string(t, "system"), "S");
  trm_target_release(t);
}

/* Streams have a rate each way; the IPU Model's host has one, and no latency. */
static void test_host(void **state) {
  (void)state;
  trm_target *t = parse("{\"base\": \"mk2\", \"name\": \"a\", \"hostBytesPerSecond\": 1e9,"
                        " \"hostOutBytesPerSecond\": 2e9, \"hostLatencySeconds\": 1e-3,"
                        " \"ipuModelHostBytesPerSecond\": 4e9, \"tileClockFrequency\": 1e9}");
  trm_target *model = NULL;
  trm_error error;
  assert_float_equal(trm_target_host_cycles(t, true, 1000), 1001000, 1e-6);
  assert_float_equal(trm_target_host_cycles(t, false, 1000), 1000500, 1e-6);
  assert_int_equal(trm_target_of_ipu_model(t, &model, &error), TRM_OK);
  assert_float_equal(trm_target_host_cycles(model, true, 1000), 250, 1e-6);
  assert_float_equal(trm_target_host_cycles(model, false, 1000), 250, 1e-6);
  trm_target_release(model);
  trm_target_release(t);
}

static void test_memory_elements(void **state) {
  (void)state;
  trm_target *t = load("bow");
  assert_int_equal(trm_target_non_interleaved_bytes(t), 0x34000);
  assert_int_equal(trm_target_element_bytes(t), 0x8000);
  trm_target_release(t);
  t = parse("{\"base\": \"mk2\", \"name\": \"flat\", \"memoryElementOffsets\": [0],"
            " \"interleavedMemoryElementIndex\": 1}");
  assert_int_equal(trm_target_non_interleaved_bytes(t), 638976);
  assert_int_equal(trm_target_element_bytes(t), 638976);
  trm_target_release(t);
}

static void test_changes_to_a_preset(void **state) {
  (void)state;
  trm_target *bow = load("bow");
  trm_target *mine = parse("{\"base\": \"bow\", \"name\": \"mine\", \"tilesPerIPU\": 100}");
  assert_string_equal(trm_target_string(mine, "name"), "mine");
  assert_int_equal(number(mine, "tilesPerIPU"), 100);
  assert_true(number(mine, "tileClockFrequency") == 1.85e9);
  assert_true(mine->hash != bow->hash);
  trm_target *renamed = parse("{\"name\": \"x\", \"base\": \"bow\"}");
  assert_int_equal(renamed->hash, bow->hash);
  trm_target_release(renamed);
  trm_target_release(mine);
  trm_target_release(bow);
}

static void test_resize(void **state) {
  (void)state;
  trm_target *mk2 = load("mk2"), *four = NULL, *same = NULL, *none = NULL;
  trm_error error;
  assert_int_equal(trm_target_resize(mk2, 4, 20, &four, &error), TRM_OK);
  assert_int_equal(number(four, "numIPUs"), 4);
  assert_int_equal(number(four, "tilesPerIPU"), 20);
  assert_true(four->hash != mk2->hash);
  assert_int_equal(trm_target_resize(mk2, 0, 0, &same, &error), TRM_OK);
  assert_int_equal(same->hash, mk2->hash);
  assert_int_equal(trm_target_resize(mk2, 1, 65537, &none, &error), TRM_INVALID_ARGUMENT);
  assert_int_equal(trm_target_resize(mk2, 1025, 1, &none, &error), TRM_INVALID_ARGUMENT);
  assert_null(none);
  trm_target_retain(mk2);
  trm_target_release(mk2);
  trm_target_release(mk2);
  trm_target_release(four);
  trm_target_release(same);
}

static void test_refused(void **state) {
  (void)state;
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"tilesPerIpu\": 4}", "tilesPerIpu", "tilesPerIPU");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"tilesPerIPU\": 0}", "tilesPerIPU", "from 1");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"tilesPerIPU\": 1.5}", "tilesPerIPU", "integer");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"tilesPerIPU\": \"4\"}", "tilesPerIPU", "integer");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"tileClockFrequency\": 3}", "tileClockFrequency",
         "number");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"supportsExchangeBusSharing\": 1}",
         "supportsExchangeBusSharing", "true or false");
  refuse("{\"base\": \"mk3\", \"name\": \"a\"}", "base", "mk1");
  refuse("{\"base\": \"mk2\"}", "name", "missing");
  refuse("{\"name\": \"a\"}", "missing", "base");
  refuse("{\"base\": \"mk2\", \"name\": \"\"}", "name", "printable");
  refuse("{\"base\": \"mk2\", \"name\": \"a\\u0007\"}", "name", "printable");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"memoryElementOffsets\": [0, 8, 8]}",
         "memoryElementOffsets", "entry 2");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"memoryElementOffsets\": [0, 700000]}",
         "memoryElementOffsets", "638976");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"memoryElementOffsets\": []}",
         "memoryElementOffsets", "1 to 64");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"minIPUSyncDelay\": 500}", "minIPUSyncDelay",
         "maxIPUSyncDelay");
  refuse("{\"base\": \"mk2\", \"name\": \"a\", \"dataPathWidth\": 65}", "dataPathWidth", "32");
  refuse("{\"base\": \"mk2\", \"base\": \"mk2\"}", "duplicate", "JSON");
  refuse("[]", "object", "object");
  refuse("{", "JSON", "1:");
  trm_target *target = NULL;
  trm_error error;
  assert_int_equal(trm_target_load("mk9", &target, &error), TRM_NOT_FOUND);
  assert_non_null(strstr(error.message, TRM_TARGET_PRESETS));
  assert_int_equal(trm_target_load("/no/such/file.json", &target, &error), TRM_NOT_FOUND);
  assert_null(target);
}

static void test_file(void **state) {
  (void)state;
  char path[] = "/tmp/tremula-target-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  static const char text[] = "{\"base\": \"mk1\", \"name\": \"of a file\", \"numIPUs\": 2}";
  assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
  close(fd);
  trm_target *t = load(path);
  assert_string_equal(trm_target_string(t, "name"), "of a file");
  assert_int_equal(number(t, "numIPUs"), 2);
  trm_target_release(t);
  unlink(path);
}

/* Memory that runs out at any point is an error and leaks nothing (under sanitizers). */
static void test_out_of_memory(void **state) {
  (void)state;
  static const char text[] = "{\"base\": \"mk1\", \"name\": \"a\"}";
  for (int64_t n = 0;; ++n) {
    trm_target *target = NULL;
    trm_error error;
    trm_allocation_fail_after(n);
    const trm_status status = trm_target_parse(text, sizeof text - 1, "test", &target, &error);
    trm_allocation_fail_after(-1);
    if (status == TRM_OK) {
      trm_target_release(target);
      assert_true(n > 0);
      return;
    }
    assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_presets),
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_host),
      cmocka_unit_test(test_memory_elements),
      cmocka_unit_test(test_changes_to_a_preset),
      cmocka_unit_test(test_resize),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_file),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
