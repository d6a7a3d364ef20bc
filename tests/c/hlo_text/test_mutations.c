/* Damaged texts: any bytes whatever give a status; what is still taken prints to a fixed point. */
#include "files.h"

static uint64_t random_state;

static uint32_t random_below(uint32_t limit) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((random_state >> 33) % limit);
}

/* Returns whether the text was taken. */
static bool check_text(const char *data, size_t size) {
  trm_error error = {0};
  trm_module *module = NULL;
  if (trm_hlo_parse_text(data, size, &module, &error) != TRM_OK) {
    assert_null(module);
    assert_true(error.message[0] != '\0');
    return false;
  }
  (void)trm_module_verify(module, &error);
  char *text = print_ok(module);
  check_fixed_point(text);
  trm_free(text);
  trm_module_free(module);
  return true;
}

/* Only white space between the end of a computation and the cut: what is there is a module, whose
 * entry is its last computation. */
static bool ends_computation(const char *data, size_t length) {
  while (length > 0 && (data[length - 1] == ' ' || data[length - 1] == '\n')) --length;
  return length > 0 && data[length - 1] == '}';
}

static void test_truncated(void **state) {
  (void)state;
  static const char *const names[] = {"short_form", "async_sugar", "constants"};
  for (int f = 0; f < 3; ++f) {
    size_t size;
    char *data = load(names[f], &size);
    size_t end = size;
    while (end > 0 && data[end - 1] != '}') --end;
    for (size_t length = 0; length < end; ++length) {
      /* A block of exactly that size: the sanitizer sees a read past the end. */
      char *cut = malloc(length + 1);
      assert_non_null(cut);
      memcpy(cut, data, length);
      char *exact = realloc(cut, length == 0 ? 1 : length);
      assert_non_null(exact);
      if (check_text(exact, length) && !ends_computation(data, length)) {
        fail_msg("%s cut at %zu was taken", names[f], length);
      }
      free(exact);
    }
    free(data);
  }
}

static void test_mutated(void **state) {
  (void)state;
  static const char *const pieces[] = {
      "{",    "}",  "(", ")",       "[",       "]",          ",",  "=",     "%",   "\"",
      "-1",   "0",  "1", "f32[]",   "f32[2]",  "ROOT ",      "->", "/*",    "//",  "\\",
      "...",  "x",  "_", "{0}",     "{{0,1}}", "9999999999", "()", "nan",   "inf", "1e9",
      "pred", "<=", "?", "token[]", "tuple",   "to_apply=",  ":",  "{1,0}", "T",   "\n"};
  enum { NUM_PIECES = sizeof pieces / sizeof *pieces, ROUNDS = 400 };
  int taken = 0, total = 0;
  random_state = 20231121;
  for (int f = 0; f < NUM_VERIFIED + NUM_PARSED; ++f) {
    size_t size;
    char *data = load(file_name(f), &size);
    if (size > 8000) { /* the large ones add time, not kinds */
      free(data);
      continue;
    }
    char *mutant = malloc(size * 2 + 256);
    assert_non_null(mutant);
    for (int round = 0; round < ROUNDS; ++round, ++total) {
      size_t length = size;
      memcpy(mutant, data, size);
      const uint32_t changes = 1 + random_below(3);
      for (uint32_t k = 0; k < changes; ++k) {
        const size_t at = random_below((uint32_t)length);
        switch (random_below(4)) {
          case 0: mutant[at] = (char)random_below(256); break;
          case 1: { /* a piece put in */
            const char *piece = pieces[random_below(NUM_PIECES)];
            const size_t n = strlen(piece);
            memmove(mutant + at + n, mutant + at, length - at);
            memcpy(mutant + at, piece, n);
            length += n;
            break;
          }
          case 2: { /* a span taken out */
            size_t n = 1 + random_below(20);
            if (n > length - at) n = length - at;
            memmove(mutant + at, mutant + at + n, length - at - n);
            length -= n;
            break;
          }
          default: { /* a span copied over another */
            const size_t from = random_below((uint32_t)length);
            size_t n = 1 + random_below(40);
            if (n > length - at) n = length - at;
            if (n > length - from) n = length - from;
            memmove(mutant + at, mutant + from, n);
            break;
          }
        }
        if (length < 16) break;
      }
      taken += check_text(mutant, length);
    }
    free(mutant);
    free(data);
  }
  assert_true(total >= 3000);
  assert_true(taken > 0 && taken < total);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_truncated),
                                     cmocka_unit_test(test_mutated)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
