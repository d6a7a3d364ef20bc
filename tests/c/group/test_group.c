/* The group under a launcher: the test starts itself with mpirun, in several processes, once for
 * each scene. Without an mpirun those tests are skipped. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/place.h"
#include "base/wait.h"
#include "tremula/group.h"

#include "../launch.h"

/* ---- Scenes: what each process does ----------------------------------------------------------- */

static trm_collective_request request_of(trm_collective_kind kind, const char *name,
                                         trm_dtype dtype, int64_t count, int64_t dims[1],
                                         const void *input) {
  trm_collective_request request = {.size = sizeof request};
  dims[0] = count;
  request.kind = kind;
  request.name = name;
  request.dtype = dtype;
  request.rank = 1;
  request.dims = dims;
  request.input = input;
  return request;
}

static trm_collective_result collect(const trm_collective_request *request) {
  trm_collective_result result = {0};
  WANT(trm_group_collect(request, &result, &error) == TRM_OK);
  return result;
}

enum { MANY = 40, LENGTH = 1003 };

static void count_done(void *user, trm_status status, const char *message,
                       const trm_collective_result *result) {
  const float *sums = result->data;
  const uint32_t n = place.size;
  WANT(status == TRM_OK && *message == '\0' && result->bytes == LENGTH * sizeof(float));
  for (int i = 0; i < LENGTH; ++i) {
    WANT(sums[i] == (float)(n * (unsigned)i) + (float)(n * (n - 1) / 2));
  }
  __atomic_fetch_add((int *)user, 1, __ATOMIC_RELEASE);
}

/* Each process begins them from another one on. */
static void scene_orders(void) {
  int done = 0;
  float input[LENGTH];
  for (int i = 0; i < LENGTH; ++i) input[i] = (float)i + (float)place.rank;
  for (unsigned i = 0; i < MANY; ++i) {
    char name[32];
    int64_t dims[1];
    snprintf(name, sizeof name, "sum %u", (i + 7 * place.rank) % MANY);
    const trm_collective_request request =
        request_of(TRM_COLLECTIVE_ALL_REDUCE, name, TRM_F32, LENGTH, dims, input);
    WANT(trm_group_start(&request, count_done, &done, &error) == TRM_OK);
  }
  while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < MANY) trm_sleep_ms(1);
}

/* In another order than that of ranks the sum would be 0. */
static void scene_exactness(void) {
  int64_t dims[1];
  const float terms[] = {1e8F, -1e8F, 1};
  const float own[2] = {place.rank < 3 ? terms[place.rank] : 0, 1};
  trm_collective_request request =
      request_of(TRM_COLLECTIVE_ALL_REDUCE, "order", TRM_F32, 2, dims, own);
  trm_collective_result result = collect(&request);
  WANT(((float *)result.data)[0] == (place.size > 2 ? 1 : 0));
  WANT(((float *)result.data)[1] == (float)place.size);
  trm_collective_result_free(&result);
  /* 2048 + 1 is 2048 in float16; in float32 the ones add up. */
  const uint16_t half = trm_float_to_half(place.rank == 0 ? 2048 : 1);
  request = request_of(TRM_COLLECTIVE_ALL_REDUCE, "half", TRM_F16, 1, dims, &half);
  result = collect(&request);
  WANT(trm_half_to_float(*(uint16_t *)result.data) == (place.size > 2 ? 2050 : 2048));
  trm_collective_result_free(&result);
  const int32_t number = place.rank == 0 ? -1 : 0;
  request = request_of(TRM_COLLECTIVE_ALL_REDUCE, "mean", TRM_S32, 1, dims, &number);
  request.op = TRM_COLLECTIVE_MEAN;
  result = collect(&request);
  WANT(*(int32_t *)result.data == 0);
  trm_collective_result_free(&result);
}

static void scene_kinds(void) {
  int64_t dims[1];
  const uint8_t rows[4] = {(uint8_t)place.rank, 1, 2, 3};
  trm_collective_request request =
      request_of(TRM_COLLECTIVE_ALL_GATHER, "rows", TRM_U8, place.rank, dims, rows);
  trm_collective_result result = collect(&request); /* rank 0 gives none */
  WANT(result.dims[0] == place.size * (place.size - 1) / 2);
  WANT(((uint8_t *)result.data)[0] == 1 &&
       ((uint8_t *)result.data)[1] == (place.size > 2 ? 2 : ((uint8_t *)result.data)[1]));
  trm_collective_result_free(&result);
  request = request_of(TRM_COLLECTIVE_ALL_GATHER, "scalars", TRM_U8, 0, dims, rows);
  request.rank = 0;
  result = collect(&request);
  WANT(result.rank == 1 && result.dims[0] == place.size);
  for (unsigned i = 0; i < place.size; ++i) WANT(((uint8_t *)result.data)[i] == i);
  trm_collective_result_free(&result);
  request = request_of(TRM_COLLECTIVE_BROADCAST, "from 1", TRM_U8, 4, dims, rows);
  request.root = 1;
  result = collect(&request);
  WANT(memcmp(result.data, (uint8_t[]){1, 1, 2, 3}, 4) == 0);
  trm_collective_result_free(&result);
  request = request_of(TRM_COLLECTIVE_BARRIER, "barrier", TRM_U8, 0, dims, NULL);
  result = collect(&request);
  WANT(result.data == NULL);
}

/* The last two instances among themselves, with a name that all use at the same time. */
static void scene_subsets(void) {
  int64_t dims[1];
  const int64_t own = 1 + (int64_t)place.rank;
  const uint32_t few[] = {place.size - 2, place.size - 1};
  trm_collective_request request =
      request_of(TRM_COLLECTIVE_ALL_REDUCE, "x", TRM_S64, 1, dims, &own);
  trm_collective_result result;
  if (place.rank >= place.size - 2) {
    request.participants = few;
    request.num_participants = 2;
    result = collect(&request);
    WANT(*(int64_t *)result.data == 2 * (int64_t)place.size - 1);
    trm_collective_result_free(&result);
    request.participants = &few[place.rank - few[0]];
    request.num_participants = 1;
    result = collect(&request); /* alone */
    WANT(*(int64_t *)result.data == own);
    trm_collective_result_free(&result);
    request.participants = NULL;
  }
  result = collect(&request);
  WANT(*(int64_t *)result.data == place.size * (place.size + 1) / 2);
  trm_collective_result_free(&result);
}

/* All get the error, also those that come later, and the next collective of that name works. */
static void scene_mismatch(void) {
  int64_t dims[1];
  const float own[3] = {1, 2, 3};
  for (int kind = 0; kind < 3; ++kind) {
    trm_collective_request request =
        request_of((trm_collective_kind)kind, "wrong", TRM_F32, 3, dims, own);
    if (place.rank == 1) {
      request.dtype = kind == 0 ? TRM_S32 : TRM_F32;
      request.rank = kind == 1 ? 0 : 1;
      dims[0] = kind == 2 ? 2 : 3;
    }
    if (place.rank == place.size - 1) trm_sleep_ms(20);
    trm_collective_result result;
    WANT(trm_group_collect(&request, &result, &error) == TRM_UNKNOWN);
    WANT(strstr(error.message, "Tensor layouts did not match on all instances: 'wrong'") != NULL);
    WANT(strstr(error.message, "instance 1 (host ") != NULL);
    WANT(strstr(error.message, "f32[3]") != NULL);
  }
  trm_collective_request request =
      request_of(TRM_COLLECTIVE_ALL_REDUCE, "wrong", TRM_F32, 3, dims, own);
  trm_collective_result result = collect(&request);
  trm_collective_result_free(&result);
}

/* Instance 1 comes late: the log of instance 0, which the caller reads, says so. */
static void scene_stall(void) {
  int64_t dims[1];
  const float own = 1;
  if (place.rank == 1) trm_sleep_ms(1500);
  const trm_collective_request request =
      request_of(TRM_COLLECTIVE_ALL_REDUCE, "late", TRM_F32, 1, dims, &own);
  trm_collective_result result = collect(&request);
  trm_collective_result_free(&result);
}

static void want_loss(const char *text) {
  int64_t dims[1];
  const float own = 1;
  char who[128];
  const trm_collective_request request =
      request_of(TRM_COLLECTIVE_ALL_REDUCE, "never", TRM_F32, 1, dims, &own);
  trm_collective_result result;
  const double begin = trm_now_ms();
  WANT(trm_group_collect(&request, &result, &error) == TRM_UNAVAILABLE);
  WANT(trm_now_ms() - begin < 60000);
  /* Who asks late may hear of instance 0, which has failed and left by then. */
  WANT(strstr(error.message, trm_group_describe(1, who, sizeof who)) != NULL ||
       (place.rank > 1 && strstr(error.message, trm_group_describe(0, who, sizeof who)) != NULL));
  WANT(strstr(error.message, text) != NULL);
}

static void scene_left(void) {
  if (place.rank == 1) return;
  want_loss("has left the group");
  want_loss("has left the group"); /* before it is announced */
}

/* Leaves and joins again. That another has left may be known before the last answer of instance 0:
 * it fails nothing. */
static void scene_again(void) {
  for (int i = 0; i < 20; ++i) {
    scene_kinds();
    trm_group_leave();
    WANT(!trm_group_is_joined());
    WANT(trm_group_join(NULL, &error) == TRM_OK);
  }
}

/* Instance 1 is killed while the others wait. */
static void scene_death(void) {
  if (place.rank == 1) {
    trm_sleep_ms(200);
    raise(SIGKILL);
  }
  want_loss("ended without leaving the group");
  fprintf(stderr, "rank %u saw it\n", place.rank);
}

/* What each process makes: how often, and how it ends. */
typedef struct making {
  int32_t times;
  trm_status status;
  bool dies;
} making;

static trm_collective_result meet(const char *name, const int32_t *own) {
  int64_t dims[1];
  const trm_collective_request request =
      request_of(TRM_COLLECTIVE_ALL_REDUCE, name, TRM_S32, 1, dims, own);
  return collect(&request);
}

static trm_status make_block(void *user, void **out_data, size_t *out_size, trm_error *failure) {
  making *m = user;
  ++m->times;
  if (m->dies) {
    const int32_t zero = 0;
    meet("made", &zero);
    kill(getpid(), SIGKILL);
  }
  if (m->status != TRM_OK) return trm_fail(failure, m->status, "no block for %d", 7);
  *out_size = 3 << 20;
  *out_data = trm_allocate(*out_size);
  WANT(*out_data != NULL);
  memset(*out_data, 'x', *out_size);
  return TRM_OK;
}

static trm_status make_once(const char *name, making *m) {
  const trm_group_maker maker = {.size = sizeof maker, .user = m, .make = make_block};
  void *data;
  size_t size;
  const int32_t before = m->times;
  const trm_status status = trm_group_make_once(name, &maker, &data, &size, &error);
  if (status == TRM_OK && m->times == before) {
    WANT(size == 3 << 20 && ((char *)data)[0] == 'x' && ((char *)data)[size - 1] == 'x');
  } else {
    WANT(data == NULL);
  }
  trm_free(data);
  return status;
}

/* How often all have made it. */
static int32_t count_makers(making *m) {
  trm_collective_result sum = meet("times", &m->times);
  const int32_t times = *(int32_t *)sum.data;
  trm_collective_result_free(&sum);
  m->times = 0;
  return times;
}

static void scene_once(void) {
  making m = {0};
  for (int round = 0; round < 5; ++round) {
    WANT(make_once("program", &m) == TRM_OK && count_makers(&m) == 1);
  }
  /* One alone need not wait for the others, who come later. */
  if (place.rank == 1) WANT(make_once("alone", &m) == TRM_OK && m.times == 1);
  WANT(count_makers(&m) == 1);
  if (place.rank != 1) WANT(make_once("alone", &m) == TRM_OK);
  WANT(count_makers(&m) == 0);
  /* A failure is everybody's, but not that somebody gave up. */
  m.status = TRM_UNIMPLEMENTED;
  WANT(make_once("refused", &m) == TRM_UNIMPLEMENTED);
  WANT(strcmp(error.message, "no block for 7") == 0 && count_makers(&m) == 1);
  m.status = place.rank == 0 ? TRM_CANCELLED : TRM_OK;
  const trm_status status = make_once("given up", &m);
  WANT(status == (m.times == 1 ? m.status : TRM_OK));
  const int32_t makers = count_makers(&m);
  WANT(makers == 1 || makers == 2);
}

/* Rank 1 ends while it makes what the others wait for. */
static void scene_maker(void) {
  making m = {.dies = place.rank == 1};
  const int32_t zero = 0;
  if (place.rank != 1) meet("made", &zero);
  WANT(make_once("program", &m) == TRM_OK);
  fprintf(stderr, "rank %u has it\n", place.rank);
}

static const struct {
  const char *name;
  void (*play)(void);
} scenes[] = {{"orders", scene_orders},   {"exactness", scene_exactness}, {"kinds", scene_kinds},
              {"subsets", scene_subsets}, {"mismatch", scene_mismatch},   {"stall", scene_stall},
              {"left", scene_left},       {"again", scene_again},         {"death", scene_death},
              {"once", scene_once},       {"maker", scene_maker}};

/* `folder`: where the launcher's package keeps its libraries. */
static int play(const char *name, const char *folder) {
  const trm_group_settings settings = {.size = sizeof settings,
                                       .folder = folder,
                                       .stall_seconds = strcmp(name, "stall") == 0 ? 0.2 : 0};
  WANT(trm_group_join(&settings, &error) == TRM_OK);
  WANT(trm_group_join(&settings, &error) == TRM_OK);
  trm_group_get_place(&place);
  WANT(trm_group_has_threads());
  WANT(place.size > 1 && place.local_size == place.size && place.local_rank == place.rank);
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; ++i) {
    if (strcmp(scenes[i].name, name) == 0) scenes[i].play();
  }
  return 0; /* leaves */
}

/* ---- Tests ------------------------------------------------------------------------------------ */

#define SCENE(name, num)                                     \
  static void test_##name(void **state) {                    \
    (void)state;                                             \
    assert_int_equal(launch(#name, num, false, NULL, 0), 0); \
  }
SCENE(orders, 3)
SCENE(exactness, 3)
SCENE(kinds, 3)
SCENE(subsets, 3)
SCENE(mismatch, 3)
SCENE(left, 3)
SCENE(again, 3)
SCENE(once, 3)

static void test_stall(void **state) {
  (void)state;
  char output[20000] = "";
  assert_int_equal(launch("stall", 3, false, output, sizeof output), 0);
  assert_non_null(strstr(output, "all-reduce 'late' has waited for"));
  assert_non_null(strstr(output, "wait for instance 1 (host "));
  assert_non_null(strstr(output, "'late' has waited for 0 s on instance 2"));
}

static void test_death(void **state) {
  (void)state;
  char output[20000] = "";
  launch("death", 3, true, output, sizeof output);
  assert_non_null(strstr(output, "rank 0 saw it"));
  assert_non_null(strstr(output, "rank 2 saw it"));
}

static void test_maker(void **state) {
  (void)state;
  char output[20000] = "";
  launch("maker", 3, true, output, sizeof output);
  assert_non_null(strstr(output, "rank 0 has it"));
  assert_non_null(strstr(output, "rank 2 has it"));
}

/* ---- Without company --------------------------------------------------------------------------- */

static void test_alone(void **state) {
  (void)state;
  trm_error failure;
  int64_t dims[1];
  const int32_t own[2] = {3, -4};
  trm_collective_request request =
      request_of(TRM_COLLECTIVE_ALL_REDUCE, "x", TRM_S32, 2, dims, own);
  trm_collective_result result;
  assert_int_equal(trm_group_collect(&request, &result, &failure), TRM_FAILED_PRECONDITION);
  making m = {0};
  assert_int_equal(make_once("program", &m), TRM_OK); /* not joined */
  assert_int_equal(trm_group_join(NULL, &failure), TRM_OK);
  assert_int_equal(make_once("program", &m), TRM_OK);
  assert_int_equal(m.times, 2);
  for (int kind = 0; kind < 3; ++kind) {
    request.kind = (trm_collective_kind)kind;
    assert_int_equal(trm_group_collect(&request, &result, &failure), TRM_OK);
    assert_int_equal(result.bytes, sizeof own);
    assert_memory_equal(result.data, own, sizeof own);
    trm_collective_result_free(&result);
  }
  for (int64_t n = 0; n < 6; ++n) {
    trm_allocation_fail_after(n);
    const trm_status status = trm_group_collect(&request, &result, &failure);
    trm_allocation_fail_after(-1);
    if (status == TRM_OK) {
      trm_collective_result_free(&result);
    } else {
      assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
    }
  }
  trm_group_leave();
  assert_false(trm_group_is_joined());
}

static void want_refusal(const trm_collective_request *request, const char *text) {
  trm_error failure;
  trm_collective_result result;
  assert_int_equal(trm_group_collect(request, &result, &failure), TRM_INVALID_ARGUMENT);
  if (strstr(failure.message, text) == NULL) fail_msg("%s", failure.message);
}

static void test_refusals(void **state) {
  (void)state;
  trm_error failure;
  int64_t dims[1];
  const uint8_t own[2] = {0};
  assert_int_equal(trm_group_join(NULL, &failure), TRM_OK);
  trm_collective_request request =
      request_of(TRM_COLLECTIVE_ALL_REDUCE, "x", TRM_PRED, 2, dims, own);
  want_refusal(&request, "arrays of pred cannot be summed");
  request.dtype = TRM_TOKEN;
  want_refusal(&request, "token is no type of arrays");
  request.dtype = TRM_U8;
  dims[0] = -1;
  want_refusal(&request, "dimension 0 cannot be -1");
  dims[0] = 2;
  request.name = "";
  want_refusal(&request, "needs a name");
  request.name = "x";
  request.kind = TRM_COLLECTIVE_BROADCAST;
  request.root = 1;
  want_refusal(&request, "the root, instance 1, does not take part");
  const uint32_t few[] = {1};
  request.participants = few;
  request.num_participants = 1;
  want_refusal(&request, "participants must rise, and be less than 1");
  request.num_participants = 0;
  want_refusal(&request, "instance 0 does not take part");
  trm_group_leave();
}

/* A launcher's environment without the library. */
static void test_no_mpi(void **state) {
  (void)state;
  trm_error failure;
  setenv("PMI_RANK", "1", 1);
  setenv("PMI_SIZE", "2", 1);
  setenv("TREMULA_MPI_LIBRARY", "/nowhere/libmpi.so", 1);
  trm_group_get_place(&place);
  assert_int_equal(place.rank, 1);
  assert_int_equal(place.size, 2);
  assert_string_equal(place.launcher, "MPICH");
  assert_int_equal(trm_group_join(NULL, &failure), TRM_FAILED_PRECONDITION);
  assert_non_null(strstr(failure.message, "/nowhere/libmpi.so"));
  assert_false(trm_group_is_joined());
  unsetenv("TREMULA_MPI_LIBRARY");
  unsetenv("PMI_SIZE"); /* half of an environment is none */
  trm_group_get_place(&place);
  assert_int_equal(place.size, 1);
  unsetenv("PMI_RANK");
}

static void test_places(void **state) {
  (void)state;
  static const char *const names[] = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"};
  for (int i = 0; i < 3; ++i) setenv(names[i], i == 1 ? "4" : "3", 1);
  bool knows_local = true;
  trm_place_read(&place, &knows_local);
  assert_int_equal(place.rank, 3);
  assert_int_equal(place.size, 4);
  assert_string_equal(place.launcher, "Slurm");
  assert_false(knows_local); /* Slurm tells no size */
  unsetenv(names[1]);        /* a batch script, which is alone */
  trm_place_read(&place, &knows_local);
  assert_int_equal(place.size, 1);
  for (int i = 0; i < 3; ++i) unsetenv(names[i]);
}

int main(int argc, char **argv) {
  if (argc > 2) return play(argv[1], argv[2]);
  if (!launch_from(argv[0])) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_alone),    cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_no_mpi),   cmocka_unit_test(test_places),
      cmocka_unit_test(test_orders),   cmocka_unit_test(test_exactness),
      cmocka_unit_test(test_kinds),    cmocka_unit_test(test_subsets),
      cmocka_unit_test(test_mismatch), cmocka_unit_test(test_stall),
      cmocka_unit_test(test_left),     cmocka_unit_test(test_again),
      cmocka_unit_test(test_death),    cmocka_unit_test(test_once),
      cmocka_unit_test(test_maker)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
