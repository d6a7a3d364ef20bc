/* The host's timeline: marks that nest, threads, children of fork, numbers, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "timeline/options.h"
#include "tremula/timeline.h"

static char folder[64];

static int64_t number(const char *path, const char *query) {
  sqlite3 *database;
  sqlite3_stmt *row;
  assert_int_equal(sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
  if (sqlite3_prepare_v2(database, query, -1, &row, NULL) != SQLITE_OK) {
    fail_msg("%s: %s", query, sqlite3_errmsg(database));
  }
  assert_int_equal(sqlite3_step(row), SQLITE_ROW);
  const int64_t value = sqlite3_column_int64(row, 0);
  sqlite3_finalize(row);
  sqlite3_close(database);
  return value;
}

static void test_options(void **state) {
  (void)state;
  trm_timeline_options options;
  static const char *const off[] = {NULL,
                                    "",
                                    "{\"enable\":\"false\"}",
                                    "{\"enable\":false}",
                                    "{\"enable\":\"0\"}",
                                    "{\"enable\":0}"};
  for (size_t i = 0; i < sizeof off / sizeof *off; ++i) {
    trm_timeline_options_read(off[i], &options);
    assert_false(options.enable);
    assert_false(trm_timeline_options_want(&options, "Poplar"));
  }
  static const char *const all[] = {"on", "{}", "[1]", "{\"enable\":\"true\"}", "{enable"};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    trm_timeline_options_read(all[i], &options);
    assert_true(trm_timeline_options_want(&options, "Poplar"));
    assert_string_equal(options.directory, "");
  }
  trm_timeline_options_read(
      "{\"enable\":\"true\",\"directory\":\"a/b\",\"channels\":[\"Mine\",3],\"duration\":\"1.5\"}",
      &options);
  assert_true(trm_timeline_options_want(&options, "Mine"));
  assert_false(trm_timeline_options_want(&options, "Poplar"));
  assert_string_equal(options.directory, "a/b");
  assert_true(options.seconds == 1.5);
  json_decref(options.channels);
}

static void *other_thread(void *argument) {
  (void)argument;
  trm_timeline_begin(TRM_TIMELINE_DRIVERS, "elsewhere");
  trm_timeline_event(TRM_TIMELINE_DRIVERS, "moment");
  trm_timeline_end(TRM_TIMELINE_DRIVERS, "elsewhere");
  return NULL;
}

static void make_marks(void) {
  trm_timeline_begin(TRM_TIMELINE_POPLAR, "outer");
  trm_timeline_begin(TRM_TIMELINE_FRAMEWORK, "inner");
  trm_timeline_end(TRM_TIMELINE_FRAMEWORK, "inner");
  trm_timeline_begin(TRM_TIMELINE_FRAMEWORK, "left open");
  trm_timeline_end(TRM_TIMELINE_POPLAR, "never begun");
  trm_timeline_end(TRM_TIMELINE_POPLAR, "outer"); /* ends what is open in it */
}

static void test_marks(void **state) {
  (void)state;
  char path[4096];
  make_marks();
  pthread_t thread;
  pthread_create(&thread, NULL, other_thread, NULL);
  pthread_join(thread, NULL);
  const int32_t mine = trm_timeline_channel("Mine");
  trm_timeline_enable(mine, false);
  assert_false(trm_timeline_records(mine));
  trm_timeline_begin(mine, "not recorded");
  trm_timeline_end(mine, "not recorded");
  trm_timeline_enable(mine, true);
  trm_timeline_event(mine, "said \"so\"; DROP TABLE events");
  const int32_t series = trm_timeline_series("Loss", "Training", "nats");
  for (int i = 0; i < 5; ++i) trm_timeline_add(series, i / 2.0);
  const double edges[] = {0, 1, 2, 4}, values[] = {0.5, 1.5, 1.6, 3, 9, -1};
  trm_timeline_count(trm_timeline_heatmap("weights", "", edges, 4), values, 6);
  trm_timeline_metadata("model", "small");
  trm_timeline_metadata("model", "large");
  snprintf(path, sizeof path, "%s", trm_timeline_file());
  assert_true(strlen(path) > 5 && strcmp(path + strlen(path) - 5, ".pvti") == 0);
#define ONE(query) assert_int_equal(number(path, "SELECT count(*) FROM " query), 1)
  ONE("events WHERE label = 'outer' AND parent = 0 AND dur_us >= 0");
  ONE("events e JOIN events p ON p.id = e.parent WHERE e.label = 'inner' AND p.label = 'outer'"
      " AND e.ts_us >= p.ts_us AND e.ts_us + e.dur_us <= p.ts_us + p.dur_us");
  ONE("events e JOIN events p ON p.id = e.parent WHERE e.label = 'left open'"
      " AND p.label = 'outer'");
  assert_int_equal(number(path, "SELECT count(*) FROM events WHERE label LIKE '%never%'"
                                " OR label LIKE 'not%'"),
                   0);
  assert_int_equal(number(path, "SELECT count(DISTINCT thread) FROM events"), 2);
  ONE("events e JOIN events p ON p.id = e.parent WHERE e.label = 'moment' AND e.dur_us IS NULL"
      " AND p.label = 'elsewhere'");
  ONE("events e JOIN channels c ON c.id = e.channel WHERE c.name = 'Mine' AND label LIKE 'said%'");
  assert_int_equal(number(path, "SELECT count(*) FROM threads t JOIN processes p"
                                " ON p.id = t.process"),
                   2);
  assert_int_equal(number(path, "SELECT sum(value) FROM points p JOIN series s ON s.id = p.series"
                                " WHERE s.graph = 'Loss' AND s.unit = 'nats'"),
                   5);
  ONE("counts c JOIN heatmaps h ON h.id = c.heatmap WHERE counts = '[1,2,1]'"
      " AND edges = '[0,1,2,4]'");
  ONE("meta WHERE key = 'model' AND value = 'large'");
}

static void test_a_child_has_its_own_file(void **state) {
  (void)state;
  char path[4096], mine[4096];
  snprintf(mine, sizeof mine, "%s", trm_timeline_file());
  const int64_t before = number(mine, "SELECT count(*) FROM events");
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    make_marks();
    const char *own = trm_timeline_file();
    _exit(write(ends[1], own, strlen(own) + 1) > 0 ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  assert_true(read(ends[0], path, sizeof path) > 0);
  assert_string_not_equal(path, mine);
  assert_int_equal(number(path, "SELECT count(*) FROM events WHERE label = 'outer'"), 1);
  assert_int_equal(number(path, "SELECT count(*) FROM channels WHERE name = 'Mine'"), 1);
  assert_int_equal(number(path, "SELECT id FROM processes"), child);
  trm_timeline_file();
  assert_int_equal(number(mine, "SELECT count(*) FROM events"), before);
}

/* The end of the timeline; what comes after is dropped. */
static void test_close(void **state) {
  (void)state;
  char path[4096];
  snprintf(path, sizeof path, "%s", trm_timeline_file());
  trm_timeline_begin(TRM_TIMELINE_POPLAR, "until the end");
  trm_timeline_close();
  trm_timeline_event(TRM_TIMELINE_POPLAR, "too late");
  trm_timeline_close();
  assert_int_equal(number(path, "SELECT count(*) FROM events WHERE label = 'until the end'"), 1);
  assert_int_equal(number(path, "SELECT count(*) FROM events WHERE label = 'too late'"), 0);
  char journal[4200];
  struct stat left;
  snprintf(journal, sizeof journal, "%s-journal", path);
  assert_int_not_equal(stat(journal, &left), 0);
}

int main(void) {
  char options[128], command[96];
  snprintf(folder, sizeof folder, "/tmp/tremula-timeline-XXXXXX");
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(options, sizeof options, "{\"enable\":\"true\",\"directory\":\"%s/new\"}", folder);
  setenv("PVTI_OPTIONS", options, 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_options), cmocka_unit_test(test_marks),
                                     cmocka_unit_test(test_a_child_has_its_own_file),
                                     cmocka_unit_test(test_close)};
  const int failures = cmocka_run_group_tests(tests, NULL, NULL);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return failures + (system(command) != 0);
}
