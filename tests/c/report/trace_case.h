/* What tests of traces share: writing one into memory, asking it, what holds for all. */
#ifndef TREMULA_TESTS_REPORT_TRACE_CASE_H_
#define TREMULA_TESTS_REPORT_TRACE_CASE_H_

#include "../program/program_case.h"
#include "report/database.h"
#include "report/schema.h"
#include "report/write.h"

static inline sqlite3 *trace_of(const trm_program *p) {
  sqlite3 *database;
  trm_error error;
  assert_int_equal(sqlite3_open(":memory:", &database), SQLITE_OK);
  assert_int_equal(trm_database_run(database, trm_report_schema, &error), TRM_OK);
  int64_t end_row;
  if (trm_report_write_trace(p, 0, database, &end_row, &error) != TRM_OK)
    fail_msg("%s", error.message);
  return database;
}

/* The one number that a query gives; `n` is the query's parameter, where it has one. */
static inline int64_t number(sqlite3 *database, const char *query, int64_t n) {
  sqlite3_stmt *row;
  if (sqlite3_prepare_v2(database, query, -1, &row, NULL) != SQLITE_OK) {
    fail_msg("%s: %s", query, sqlite3_errmsg(database));
  }
  if (sqlite3_bind_parameter_count(row) > 0) sqlite3_bind_int64(row, 1, n);
  assert_int_equal(sqlite3_step(row), SQLITE_ROW);
  const int64_t value = sqlite3_column_int64(row, 0);
  sqlite3_finalize(row);
  return value;
}

/* What holds for every trace. */
static inline void check_trace(const trm_program *p, sqlite3 *database) {
  assert_int_equal(number(database, "SELECT sum(cycles - cycles_overlapped) FROM trace", 0),
                   p->totals.cycles);
  assert_int_equal(number(database, "SELECT max(cycles_base + cycles) FROM trace", 0),
                   p->totals.cycles);
  assert_int_equal(number(database,
                          "SELECT count(*) FROM trace WHERE cycles < 0"
                          " OR cycles_overlapped < 0 OR cycles_overlapped > cycles",
                          0),
                   0);
}

/* An IPU does one thing at a time, where no I/O tiles work beside the others. */
static inline void check_turns(sqlite3 *database) {
  assert_int_equal(number(database,
                          "SELECT count(*) FROM (SELECT cycles_base + cycles AS end_cycles,"
                          " lead(cycles_base) OVER (PARTITION BY ipu ORDER BY cycles_base, id)"
                          " AS next_cycles FROM trace WHERE ipu >= 0 AND cycles > 0)"
                          " WHERE end_cycles > next_cycles",
                          0),
                   0);
}

#endif /* TREMULA_TESTS_REPORT_TRACE_CASE_H_ */
