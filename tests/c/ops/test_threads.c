/* How work is split: what the deciding function says, that ranges cover the work, and that small
 * steps wake nobody. */
#include "../run.h"
#include "host/ops/threads.h"
#include "host/ops/waking.h"

static void test_all_or_one(void **state) {
  (void)state;
  static const int available[] = {1, 2, 3, 4, 8, 16, 32, 64, 256};
  for (size_t i = 0; i < sizeof available / sizeof *available; ++i) {
    const int all = available[i];
    int before = 1;
    for (size_t bytes = 1; bytes < (size_t)1 << 40; bytes += bytes / 8 + 1) {
      const int threads = trm_threads_choose(bytes, all);
      assert_true(threads == 1 || threads == all);
      assert_true(threads >= before); /* more work never has fewer threads */
      before = threads;
    }
    assert_int_equal(before, all);
    assert_int_equal(trm_threads_choose(0, all), 1);
    /* Twenty-five microseconds of work wake nobody, a millisecond wakes all. */
    assert_int_equal(trm_threads_choose(250 * 1024, all), 1);
    if (all <= 64) assert_int_equal(trm_threads_choose(10 << 20, all), all);
  }
}

/* Up to 16 cores the time of the model only falls when a core is added. */
static void test_one_more_core_is_never_slower(void **state) {
  (void)state;
  for (size_t bytes = 1024; bytes < (size_t)1 << 30; bytes += bytes / 16) {
    double before = (double)bytes;
    for (int all = 1; all <= 16; ++all) {
      const int threads = trm_threads_choose(bytes, all);
      const double waking = threads > 1 ? 20480.0 + 512.0 * threads : 0.0;
      const double time = (double)bytes / threads + waking;
      if (time > before) fail_msg("%zu bytes: %d threads are slower than fewer", bytes, all);
      before = time;
    }
  }
}

static void mark(const void *context, int64_t begin, int64_t end, int thread) {
  int *const *marks = context;
  for (int64_t i = begin; i < end; ++i) marks[0][i] += 1 + 100 * thread;
}

static void test_ranges_cover_the_work(void **state) {
  (void)state;
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  for (int threads = 1; threads <= 5; ++threads) {
    for (int64_t count = 0; count < 9; ++count) {
      int marks[9] = {0}, *where = marks;
      trm_parallel_ranges(threads, count, mark, &where);
      /* One part where waking the others has cost more than this. */
      const int64_t parts = marks[8 < count ? 8 : count - (count > 0)] < 100 ? 1
                            : count < threads                                ? count
                                                                             : threads;
      for (int64_t i = 0; i < 9; ++i) {
        int64_t part = 0;
        while (part < parts && i >= trm_range_begin(count, part + 1, parts)) ++part;
        assert_int_equal(marks[i], i < count ? 1 + 100 * part : 0);
      }
    }
  }
  omp_set_num_threads(before);
}

/* A machine that is made up: a clock, and what waking costs there by how the threads wait. */
typedef struct machine {
  trm_waking history;
  uint64_t now;
  uint64_t woken_at;
  double costs[TRM_NUM_WAITING];
} machine;

static void rest(machine *m, double nanoseconds) { m->now += (uint64_t)nanoseconds; }

/* Runs a step that takes so long alone, on two cores or one. Returns whether it woke the other. */
static bool run_step(machine *m, double alone, int cores) {
  const double share = alone / cores;
  const uint64_t begin = m->now, slept = begin - m->woken_at;
  const double cost = m->costs[slept < 50000 ? 0 : slept < 1000000 ? 1 : 2];
  const bool wakes = trm_waking_pays(&m->history, (uint64_t)(alone - share), begin);
  rest(m, wakes ? share + cost : alone);
  if (wakes) {
    m->woken_at = m->now;
    trm_waking_note(&m->history, (uint64_t)cost, begin, m->now);
  } else trm_waking_note_alone(&m->history, m->now);
  return wakes;
}

/* Whether waking pays follows from what it has cost, and is found out again. */
static void test_what_waking_costs(void **state) {
  (void)state;
  machine m = {.costs = {2e3, 2e3, 2e3}};
  for (int i = 0; i < 1000; ++i) run_step(&m, 20e3, 2);
  assert_true(run_step(&m, 20e3, 2));
  assert_false(run_step(&m, 2e3, 2));
  for (int k = 0; k < TRM_NUM_WAITING; ++k) m.costs[k] = 500e3; /* others have come */
  int woken = 0;
  for (int i = 0; i < 20000; ++i) woken += run_step(&m, 100e3, 2);
  assert_in_range(woken, 10, 400); /* it is tried again, but not often */
  assert_true(run_step(&m, 4e6, 2));
  for (int k = 0; k < TRM_NUM_WAITING; ++k) m.costs[k] = 2e3; /* they have gone */
  int refused = 0;
  while (refused < 10000 && !run_step(&m, 100e3, 2)) ++refused;
  assert_in_range(refused, 0, 5000);
  for (int i = 0; i < 2000; ++i) run_step(&m, 100e3, 2);
  for (int i = 0; i < 200; ++i) assert_true(run_step(&m, 100e3, 2));
}

/* After a rest one waking costs more than any step saves, and all steps that follow it profit: they
 * are woken. Where only one step comes between rests, nobody is. */
static void test_steps_that_follow_closely(void **state) {
  (void)state;
  machine m = {.costs = {3e3, 20e3, 150e3}};
  for (int turn = 0; turn < 100; ++turn) {
    rest(&m, 600e6);
    int woken = 0;
    for (int i = 0; i < 50; ++i) {
      woken += run_step(&m, 40e3, 2);
      rest(&m, 5e3);
    }
    if (turn >= 10) assert_in_range(woken, 48, 50);
  }
  int woken = 0;
  for (int turn = 0; turn < 1000; ++turn) {
    rest(&m, 10e6);
    woken += run_step(&m, 40e3, 2);
  }
  assert_in_range(woken, 0, 100);
}

/* A thread that loses its core now and then does not put the others to sleep. */
static void test_one_long_waking_says_little(void **state) {
  (void)state;
  machine m = {.costs = {3e3, 20e3, 150e3}};
  for (int i = 0; i < 1000; ++i) run_step(&m, 40e3, 2);
  for (int i = 0; i < 20; ++i) {
    m.costs[TRM_SPINNING] = 1e6;
    assert_true(run_step(&m, 40e3, 2));
    m.costs[TRM_SPINNING] = 3e3;
    for (int k = 0; k < 100; ++k) assert_true(run_step(&m, 40e3, 2));
  }
}

/* A step as the choosing functions see it: the bytes that it counts, and nanoseconds alone. */
typedef struct step {
  size_t bytes;
  double alone;
} step;

/* One turn of an LSTM of 256 units and a batch of 32, and a training step of 784-512-512-10 at
 * batch 32, as measured on one core of a Zen 4. */
static const step lstm[] = {{4194304, 160e3}, {400000, 31e3}, {262144, 8e3}, {64, 10}};
static const step mlp[] = {{6422528, 300e3}, {4194304, 190e3}, {4194304, 180e3}, {6422528, 260e3},
                           {4194304, 165e3}, {4816896, 58e3},  {3145728, 33e3},  {393216, 3e3},
                           {20480, 1e3},     {327680, 9e3},    {1280, 300}};

/* Nanoseconds of the last of many turns, on cores of which each woken one costs as said. */
static double turn_time(const step *steps, size_t count, int cores, double waking) {
  enum { TURNS = 3000, COUNTED = 1000 };
  const double cost = waking * (1 + 0.01 * cores);
  machine m = {.costs = {cost, cost, cost}};
  uint64_t begin = 0;
  for (int turn = 0; turn < TURNS; ++turn) {
    if (turn == TURNS - COUNTED) begin = m.now;
    for (size_t i = 0; i < count; ++i) {
      if (trm_threads_choose(steps[i].bytes, cores) > 1) run_step(&m, steps[i].alone, cores);
      else rest(&m, steps[i].alone);
    }
  }
  return (double)(m.now - begin) / COUNTED;
}

/* Whatever waking costs, a core more does not make the turns of a loop slower. */
static void check_turns(const char *name, const step *steps, size_t count) {
  static const double waking[] = {1e3, 5e3, 20e3, 60e3, 200e3, 800e3};
  for (size_t w = 0; w < sizeof waking / sizeof *waking; ++w) {
    const double alone = turn_time(steps, count, 1, waking[w]);
    double best = alone;
    for (int cores = 2; cores <= 16; ++cores) {
      const double time = turn_time(steps, count, cores, waking[w]);
      if (time > 1.05 * best) {
        fail_msg("%s: %.0f us a turn on %d cores, %.0f on fewer; waking costs %.0f us", name,
                 time / 1e3, cores, best / 1e3, waking[w] / 1e3);
      }
      if (time < best) best = time;
    }
    if (waking[w] <= 5e3) assert_true(best < alone / 3); /* and cheap ones are used */
  }
}

static void test_turns_of_loops(void **state) {
  (void)state;
  check_turns("LSTM", lstm, sizeof lstm / sizeof *lstm);
  check_turns("MLP", mlp, sizeof mlp / sizeof *mlp);
}

/* A loop of small products, reductions and elementwise steps. */
static const char chain[] =
    "HloModule m\n"
    "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
    "more { t = (s32[], f32[8,32], f32[32,32]) parameter(0)\n"
    "  i = s32[] get-tuple-element(t), index=0  n = s32[] constant(100)\n"
    "  ROOT c = pred[] compare(i, n), direction=LT }\n"
    "step { t = (s32[], f32[8,32], f32[32,32]) parameter(0)\n"
    "  i = s32[] get-tuple-element(t), index=0  x = f32[8,32] get-tuple-element(t), index=1\n"
    "  w = f32[32,32] get-tuple-element(t), index=2\n"
    "  y = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  z = f32[] constant(0)  s = f32[8] reduce(y, z), dimensions={1}, to_apply=add\n"
    "  b = f32[8,32] broadcast(s), dimensions={0}  u = f32[8,32] subtract(y, b)\n"
    "  v = f32[8,32] tanh(u)  q = f32[32,8] transpose(v), dimensions={1,0}\n"
    "  g = f32[32,32] dot(q, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  k = f32[32,32] add(w, g)  one = s32[] constant(1)  j = s32[] add(i, one)\n"
    "  ROOT r = (s32[], f32[8,32], f32[32,32]) tuple(j, v, k) }\n"
    "ENTRY e { x = f32[8,32] parameter(0)  w = f32[32,32] parameter(1)  z = s32[] constant(0)\n"
    "  t = (s32[], f32[8,32], f32[32,32]) tuple(z, x, w)\n"
    "  l = (s32[], f32[8,32], f32[32,32]) while(t), condition=more, body=step\n"
    "  ROOT y = f32[8,32] get-tuple-element(l), index=1 }\n";

static void test_small_steps_wake_nobody(void **state) {
  (void)state;
  static float x[8 * 32], w[32 * 32], y[8 * 32];
  const void *inputs[2] = {x, w};
  void *outputs[1] = {y};
  const int before = omp_get_max_threads();
  omp_set_num_threads(2);
  const uint64_t wakes = trm_threads_wakes();
  test_run_mode(chain, &test_modes[0], inputs, outputs);
  assert_int_equal(trm_threads_wakes(), wakes);
  omp_set_num_threads(before);
}

/* The counter counts: a large step wakes the others, where there are any. */
static void test_large_steps_wake(void **state) {
  (void)state;
  enum { LARGE = 1 << 23 }; /* so large that no cost of waking counts */
  static const char text[] =
      "HloModule m\nENTRY e { x = f32[8388608] parameter(0)  ROOT y = f32[8388608] negate(x) }\n";
  static float x[LARGE], y[LARGE];
  const void *inputs[1] = {x};
  void *outputs[1] = {y};
  const int before = omp_get_max_threads();
  omp_set_num_threads(2);
  const uint64_t wakes = trm_threads_wakes();
  test_run_mode(text, &test_modes[0], inputs, outputs);
  assert_true(trm_threads_limit() == 1 || trm_threads_wakes() > wakes);
  omp_set_num_threads(before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_or_one),
      cmocka_unit_test(test_one_more_core_is_never_slower),
      cmocka_unit_test(test_ranges_cover_the_work),
      cmocka_unit_test(test_what_waking_costs),
      cmocka_unit_test(test_steps_that_follow_closely),
      cmocka_unit_test(test_one_long_waking_says_little),
      cmocka_unit_test(test_turns_of_loops),
      cmocka_unit_test(test_small_steps_wake_nobody),
      cmocka_unit_test(test_large_steps_wake),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
