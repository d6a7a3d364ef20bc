/* Who computes which dot and which convolution, on each set of instructions: tests/data/ways has a
 * file for each, and a line for each shape. A line changes when a limit or an order changes;
 * `TREMULA_WRITE_WAYS=FOLDER ops_test_ways` writes the file anew. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "host/ops/convolutions/convolution_draft.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/products/dot_draft.h"
#include "product_cases.h"

/* Forms that the benchmarks do not have: sizes around limits, operands that are copied first. */
static const dot_case more_products[] = {
    {"rows 23, transposed", 2, 2, {23, 512}, {512, 512}, "", "", "1", "1"},
    {"rows 31", 2, 2, {31, 512}, {512, 512}, "", "", "1", "0"},
    {"rows 32", 2, 2, {32, 512}, {512, 512}, "", "", "1", "0"},
    {"rows 193", 2, 2, {193, 512}, {512, 512}, "", "", "1", "0"},
    {"columns 16", 2, 2, {64, 512}, {512, 16}, "", "", "1", "0"},
    {"columns 17", 2, 2, {64, 512}, {512, 17}, "", "", "1", "0"},
    {"short sums 15", 2, 2, {64, 15}, {15, 512}, "", "", "1", "0"},
    {"page lines", 2, 2, {200, 256}, {256, 1024}, "", "", "1", "0"},
    {"right side of 2^21", 2, 2, {64, 2048}, {2048, 1024}, "", "", "1", "0"},
    {"right side over 2^21", 2, 2, {64, 2048}, {2048, 1056}, "", "", "1", "0"},
    {"long sums, transposed", 2, 2, {1024, 300}, {1024, 300}, "", "", "0", "0"},
    {"long sums 1025, transposed", 2, 2, {2100, 600}, {2100, 1200}, "", "", "0", "0"},
    {"copied left", 3, 2, {8, 64, 16}, {16, 8}, "", "", "02", "10"},
    {"copied right", 3, 3, {64, 8, 12}, {8, 50, 12}, "", "", "12", "02"},
    {"batch of vectors", 3, 2, {12, 128, 64}, {12, 64}, "0", "0", "2", "1"},
    {"vector of 8 outputs", 1, 2, {512}, {512, 8}, "", "", "0", "0"},
    {"outer product", 1, 1, {300}, {500}, "", "", "", ""},
};

static const layer_case_row more_layers[] = {
    {"resnet.conv2 1x1 down", 56, 256, 64, 1, 1, 1},
    {"resnet.conv3 1x1 down", 28, 512, 128, 1, 1, 1},
    {"resnet.conv4 1x1 down", 14, 1024, 256, 1, 1, 1},
    {"resnet.conv5 1x1 down", 7, 2048, 512, 1, 1, 1},
    {"resnext.conv2 1x1", 56, 64, 128, 1, 1, 1},
    {"few channels 3x3", 28, 8, 8, 3, 1, 1},
    {"odd channels 3x3", 28, 20, 36, 3, 1, 1},
    {"few tiles 3x3", 4, 64, 64, 3, 1, 1},
};

static const trm_dtype dtypes[] = {TRM_F32, TRM_F16, TRM_BF16};

/* The file of this CPU, as its instructions are limited; NULL: none was written. */
static const char *file_of_cpu(void) {
  const trm_half_units units = trm_half_units_here();
  const char *vectors = trm_vector_ops_get()->name;
  if (strcmp(vectors, "avx2") == 0) return units.avx512 ? NULL : "avx2";
  if (strcmp(vectors, "avx512") != 0 || !units.avx512) return NULL;
  return units.amx_bfloat16 ? "amx" : units.avx512_bfloat16 ? "avx512_bf16" : "avx512";
}

/* Appends the kernel that `create` finds for a type, or "-". */
static void write_kernel(linear_case *c, bool is_in_loop, trm_kernel_create_fn create, FILE *to) {
  trm_kernel_request request = linear_case_request(c);
  request.is_in_loop = is_in_loop;
  trm_kernel kernel;
  bool supported = false;
  trm_error error;
  if (create(&request, &kernel, &supported, &error) != TRM_OK) fail_msg("%s", error.message);
  fprintf(to, ", %s%s %s", trm_dtype_name(c->instructions[0].shape.dtype),
          is_in_loop ? " in a loop" : "", supported ? kernel.name : "-");
  if (supported) trm_kernel_destroy(&kernel);
  linear_case_free(c);
}

static void write_dot(const dot_case *from, FILE *to) {
  linear_case c;
  fprintf(to, "%s", from->name);
  for (int i = 0; i < 3; ++i) {
    linear_case_dot(&c, from, dtypes[i], dtypes[i]);
    write_kernel(&c, false, trm_dot_create, to);
  }
  linear_case_dot(&c, from, TRM_F32, TRM_F32);
  write_kernel(&c, true, trm_dot_create, to);
  fprintf(to, "\n");
}

static void write_layer(const layer_case_row *layer, FILE *to) {
  static const char *const forms[] = {"", " data gradient", " weight gradient"};
  for (int form = 0; form < 3; ++form) {
    const convolution_case from = layer_case(layer, 8, form);
    fprintf(to, "%s%s", from.name, forms[form]);
    for (int i = 0; i < 3; ++i) {
      linear_case c;
      linear_case_convolution(&c, &from, dtypes[i]);
      write_kernel(&c, false, trm_convolution_create, to);
    }
    fprintf(to, "\n");
  }
}

static void test_ways(void **state) {
  (void)state;
  const char *file = file_of_cpu(), *folder = getenv("TREMULA_WRITE_WAYS");
  if (file == NULL) skip();
  char *got = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&got, &size);
  assert_non_null(to);
  for (size_t i = 0; i < NUM_PRODUCT_CASES; ++i) write_dot(&product_cases[i], to);
  for (size_t i = 0; i < sizeof more_products / sizeof *more_products; ++i) {
    write_dot(&more_products[i], to);
  }
  for (size_t i = 0; i < NUM_LAYER_CASES; ++i) write_layer(&layer_cases[i], to);
  for (size_t i = 0; i < sizeof more_layers / sizeof *more_layers; ++i) {
    write_layer(&more_layers[i], to);
  }
  assert_int_equal(fclose(to), 0);
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s.txt", folder ? folder : TREMULA_TEST_DATA "/ways", file);
  FILE *golden = fopen(path, folder ? "w" : "r");
  if (golden == NULL) fail_msg("%s cannot be opened", path);
  if (folder != NULL) {
    assert_int_equal(fwrite(got, 1, size, golden), size);
  } else {
    char wanted[512];
    for (char *line = got; *line != '\0'; line += strcspn(line, "\n") + 1) {
      assert_non_null(fgets(wanted, sizeof wanted, golden));
      const size_t length = strcspn(line, "\n") + 1;
      if (strncmp(line, wanted, length) != 0 || wanted[length] != '\0') {
        fail_msg("%.*s where %s has %s", (int)length - 1, line, path, wanted);
      }
    }
    assert_null(fgets(wanted, sizeof wanted, golden));
  }
  assert_int_equal(fclose(golden), 0);
  free(got);
}

static void test_tables_are_by_cost(void **state) {
  (void)state;
  for (size_t i = 0; i < trm_num_dot_ways; ++i) {
    const trm_dot_way *way = &trm_dot_ways[i];
    assert_true((way->add != NULL) != (way->create != NULL));
    assert_true(i == 0 || way[-1].cost <= way->cost);
  }
  for (size_t i = 0; i < trm_num_convolution_ways; ++i) {
    const trm_convolution_way *way = &trm_convolution_ways[i];
    assert_true((way->add != NULL) != (way->create != NULL));
    assert_true(i == 0 || way[-1].cost <= way->cost);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ways),
                                     cmocka_unit_test(test_tables_are_by_cost)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
