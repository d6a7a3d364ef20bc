/* I/O tiles: IPUs with feeds keep some of their tiles for these, the others compute on all of
 * theirs; a copy between IPUs lies where its readers want it. */
#include "program_case.h"

enum { TILES = 1216, IO_TILES = 32 };

static trm_program *plan(const char *text, bool place) {
  trm_program_options options = {.size = sizeof options};
  trm_program_options_init(&options);
  options.tiles_per_ipu = TILES;
  options.io_tiles = IO_TILES;
  options.place_ops_on_io_tiles = place;
  trm_program *p = make_program(text, "mk2", &options);
  check_sums(p);
  return p;
}

/* The tiles of a variable that an instruction (a copy: its reader) makes on an IPU. */
static uint32_t tiles_of(const trm_program *p, const char *name, uint32_t ipu, bool copied) {
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *variable = &p->variables[v];
    if (variable->source == TRM_NO_INDEX || variable->mapping.ipu != ipu ||
        (variable->copied != NULL) != copied || variable->count != (int64_t)TILES * TILES) {
      continue;
    }
    if (strcmp(p->sources[variable->source].hlo_name, name) == 0) return variable->mapping.regions;
  }
  fail_msg("%s has no variable", name);
  return 0;
}

#define HEAD "HloModule m\nENTRY e { x = f32[1216,1216] parameter(0)\n"
#define DOT(name, operand, ipu, root)                                                     \
  root name " = f32[1216,1216] dot(" operand ", " operand "), lhs_contracting_dims={1}, " \
            "rhs_contracting_dims={0}, sharding={maximal device=" ipu "}\n"
#define FEED                                                           \
  "t = token[] after-all()\ni = (f32[1216,1216], token[]) infeed(t), " \
  "sharding={maximal device=0}\n"                                      \
  "y = f32[1216,1216] get-tuple-element(i), index=0, sharding={maximal device=0}\n"

static void test_infeed(void **state) {
  (void)state;
  trm_program *p = plan(HEAD FEED DOT("a", "y", "0", "") DOT("b", "a", "1", "ROOT ") "}", true);
  assert_true(tiles_of(p, "a", 0, false) <= TILES - IO_TILES);
  assert_in_range(tiles_of(p, "b", 1, true), TILES - IO_TILES + 1, TILES);
  assert_in_range(tiles_of(p, "b", 1, false), TILES - IO_TILES + 1, TILES);
  trm_program_free(p);
}

/* The first walk copies a parameter of IPU 1, because it does not know yet where the parameter
 * lies; the second does not. The copies after it have their own readers' wishes all the same. */
static void test_copy_after_a_parameter(void **state) {
  (void)state;
  trm_program *p = plan(
      HEAD FEED "w = f32[8,8] parameter(1)\nv = f32[8,8] dot(w, w), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}, sharding={maximal device=1}\n" DOT("a", "y", "0", "")
                    DOT("b", "a", "1", "") "ROOT r = (f32[8,8], f32[1216,1216]) tuple(v, b) }",
      true);
  assert_in_range(tiles_of(p, "b", 1, true), TILES - IO_TILES + 1, TILES);
  trm_program_free(p);
}

/* Of the input itself, too. */
static void test_infeed_of_two(void **state) {
  (void)state;
  trm_program *p =
      plan(HEAD FEED DOT("a", "y", "0", "")
               DOT("b", "y", "1", "") "ROOT r = (f32[1216,1216], f32[1216,1216]) tuple(a, b) }",
           true);
  assert_true(tiles_of(p, "a", 0, false) <= TILES - IO_TILES);
  assert_in_range(tiles_of(p, "b", 1, true), TILES - IO_TILES + 1, TILES);
  trm_program_free(p);
}

static void test_outfeed(void **state) {
  (void)state;
  trm_program *p =
      plan(HEAD DOT("a", "x", "0", "")
               DOT("b", "a", "1", "") "t = token[] after-all()\nROOT o = token[] outfeed(b, t), "
                                      "outfeed_shape=f32[1216,1216], sharding={maximal device=1} }",
           true);
  assert_in_range(tiles_of(p, "a", 0, false), TILES - IO_TILES + 1, TILES);
  assert_true(tiles_of(p, "b", 1, true) < TILES - IO_TILES);
  assert_true(tiles_of(p, "b", 1, false) < TILES - IO_TILES);
  trm_program_free(p);
}

/* Tiles that are kept for I/O, but not for feeds, are kept on every IPU. */
static void test_no_placing(void **state) {
  (void)state;
  trm_program *p = plan(HEAD FEED DOT("a", "y", "0", "") DOT("b", "a", "1", "ROOT ") "}", false);
  assert_true(tiles_of(p, "a", 0, false) <= TILES - IO_TILES);
  assert_true(tiles_of(p, "b", 1, false) <= TILES - IO_TILES);
  trm_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_infeed), cmocka_unit_test(test_copy_after_a_parameter),
      cmocka_unit_test(test_infeed_of_two), cmocka_unit_test(test_outfeed),
      cmocka_unit_test(test_no_placing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
