/* Owns: exporting timelines and profiles to Chrome's Trace Event Format, which Perfetto opens.
 *
 * The host's processes and threads are those of the .pvti file. Each IPU of a profile is a process,
 * and those of several instances are apart. Its steps begin where the host began the run, and a
 * cycle takes one period of the tile clock. A run begins after the previous one ends. */
#include <stdio.h>
#include <string.h>

#include "report/database.h"
#include "report/read.h"
#include "report/stream.h"
#include "tremula/report.h"

/* Larger than any process id of the host; and room for an instance's IPUs. */
enum { FIRST_IPU = 1 << 30, INSTANCE_IPUS = 1 << 16 };

typedef struct exporter {
  trm_stream stream;
  const char *path;
  sqlite3 *database;
  int64_t instance, num_instances; /* of the profile */
  bool has_rows;                   /* more than names */
} exporter;

static void begin(exporter *e, const char *phase, const char *name, int64_t process,
                  int64_t thread) {
  e->has_rows |= *phase != 'M';
  trm_stream_object(&e->stream);
  trm_stream_put_string(&e->stream, "ph", phase);
  trm_stream_put_string(&e->stream, "name", name);
  trm_stream_put_int(&e->stream, "pid", process);
  trm_stream_put_int(&e->stream, "tid", thread);
}

static void put_real(exporter *e, const char *key, double value) {
  trm_stream_key(&e->stream, key);
  trm_stream_real(&e->stream, value);
}

/* Names a process or thread. */
static void put_name(exporter *e, const char *what, int64_t process, int64_t thread,
                     const char *name) {
  begin(e, "M", what, process, thread);
  trm_stream_key(&e->stream, "args");
  trm_stream_object(&e->stream);
  trm_stream_put_string(&e->stream, "name", name);
  trm_stream_end_object(&e->stream);
  trm_stream_end_object(&e->stream);
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static const char *text_at(sqlite3_stmt *row, int column) {
  const char *text = (const char *)sqlite3_column_text(row, column);
  return text != NULL ? text : "";
}

static trm_status each(exporter *e, const char *sql, void (*take)(exporter *, sqlite3_stmt *),
                       trm_error *error) {
  sqlite3_stmt *rows;
  if (sqlite3_prepare_v2(e->database, sql, -1, &rows, NULL) != SQLITE_OK) {
    FAIL(INVALID_ARGUMENT, "%s is not a file that can be exported: %s", e->path,
         sqlite3_errmsg(e->database));
  }
  int result;
  while ((result = sqlite3_step(rows)) == SQLITE_ROW) take(e, rows);
  sqlite3_finalize(rows);
  if (result != SQLITE_DONE) {
    FAIL(INVALID_ARGUMENT, "%s cannot be read: %s", e->path, sqlite3_errmsg(e->database));
  }
  return TRM_OK;
}

static trm_status open_file(exporter *e, const char *path, trm_error *error) {
  e->path = path;
  if (sqlite3_open_v2(path, &e->database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) return TRM_OK;
  const trm_status status =
      trm_fail(error, TRM_NOT_FOUND, "cannot open %s: %s", path, sqlite3_errmsg(e->database));
  sqlite3_close(e->database);
  e->database = NULL;
  return status;
}

/* ---- The host ------------------------------------------------------------------------------- */

static void take_process(exporter *e, sqlite3_stmt *row) {
  put_name(e, "process_name", sqlite3_column_int64(row, 0), 0, text_at(row, 1));
}

static void take_thread(exporter *e, sqlite3_stmt *row) {
  put_name(e, "thread_name", sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
           text_at(row, 2));
}

static void take_event(exporter *e, sqlite3_stmt *row) {
  const bool is_moment = sqlite3_column_type(row, 4) == SQLITE_NULL;
  begin(e, is_moment ? "i" : "X", text_at(row, 2), sqlite3_column_int64(row, 0),
        sqlite3_column_int64(row, 1));
  put_real(e, "ts", sqlite3_column_double(row, 3));
  if (is_moment) trm_stream_put_string(&e->stream, "s", "t");
  else put_real(e, "dur", sqlite3_column_double(row, 4));
  trm_stream_put_string(&e->stream, "cat", text_at(row, 5));
  trm_stream_end_object(&e->stream);
}

static void take_point(exporter *e, sqlite3_stmt *row) {
  begin(e, "C", text_at(row, 1), sqlite3_column_int64(row, 0), 0);
  put_real(e, "ts", sqlite3_column_double(row, 3));
  trm_stream_key(&e->stream, "args");
  trm_stream_object(&e->stream);
  put_real(e, text_at(row, 2), sqlite3_column_double(row, 4));
  trm_stream_end_object(&e->stream);
  trm_stream_end_object(&e->stream);
}

static trm_status export_host(exporter *e, trm_error *error) {
  TRY(each(e, "SELECT id, name FROM processes", take_process, error));
  TRY(each(e, "SELECT process, id, name FROM threads WHERE name != ''", take_thread, error));
  TRY(each(e,
           "SELECT t.process, t.id, e.label, e.ts_us, e.dur_us, c.name FROM events e"
           " JOIN threads t ON t.id = e.thread JOIN channels c ON c.id = e.channel"
           " ORDER BY e.ts_us",
           take_event, error));
  return each(e,
              "SELECT p.id, s.graph, s.name, n.ts_us, n.value FROM points n"
              " JOIN series s ON s.id = n.series JOIN processes p ORDER BY n.ts_us",
              take_point, error);
}

/* ---- The IPUs ------------------------------------------------------------------------------- */

static void take_instance(exporter *e, sqlite3_stmt *row) {
  e->instance = sqlite3_column_int64(row, 0);
  e->num_instances = sqlite3_column_int64(row, 1);
}

static int64_t ipu_process(const exporter *e, int64_t ipu) {
  return FIRST_IPU + e->instance * INSTANCE_IPUS + ipu;
}

static void take_ipu(exporter *e, sqlite3_stmt *row) {
  const long long ipu = sqlite3_column_int64(row, 0);
  char name[64];
  if (e->num_instances > 1) {
    snprintf(name, sizeof name, "instance %lld, IPU %lld", (long long)e->instance, ipu);
  } else {
    snprintf(name, sizeof name, "IPU %lld", ipu);
  }
  put_name(e, "process_name", ipu_process(e, ipu), 0, name);
}

static void take_step(exporter *e, sqlite3_stmt *row) {
  begin(e, "X", text_at(row, 1), ipu_process(e, sqlite3_column_int64(row, 0)),
        sqlite3_column_int64(row, 5));
  put_real(e, "ts", sqlite3_column_double(row, 2));
  put_real(e, "dur", sqlite3_column_double(row, 3));
  trm_stream_put_string(&e->stream, "cat", text_at(row, 4));
  trm_stream_end_object(&e->stream);
}

/* A run's steps begin when the host began the run, or when the previous run ends, if that is later.
 * So a run begins at the maximum, over the runs up to it, of the run's own start plus the lengths
 * of the runs between. Steps that overlap with longer ones are on a second row of the IPU. */
static const char steps[] =
    "WITH clock AS (SELECT CAST(value AS REAL) / 1e6 AS mhz FROM target"
    "  WHERE key = 'clock_frequency'),"
    " origin AS (SELECT coalesce((SELECT value FROM meta WHERE key = 'first_run_us'), 0) AS us),"
    " at AS (SELECT r.id, (SELECT max(o.us + p.start_seconds * 1e6 +"
    "   (SELECT coalesce(sum(q.cycles - q.wait_cycles), 0) FROM runs q"
    "    WHERE q.id >= p.id AND q.id < r.id) / mhz) FROM runs p, origin o WHERE p.id <= r.id) AS us"
    "  FROM runs r, clock)"
    " SELECT s.ipu, coalesce(p.name, CASE t.program WHEN -2 THEN 'load' ELSE t.type END),"
    "  at.us + (s.cycles_base - r.cycles_base - r.wait_cycles) / mhz, s.cycles / mhz, t.type,"
    "  s.cycles_overlapped > 0"
    " FROM steps_by_ipu s JOIN steps t ON t.id = s.step_id JOIN runs r ON r.id = s.run"
    " JOIN at ON at.id = r.id, clock LEFT JOIN programs p ON p.id = t.program"
    " WHERE s.cycles > 0 AND t.program != -1";

static trm_status export_ipus(exporter *e, trm_error *error) {
  e->instance = 0, e->num_instances = 1; /* older profiles do not say */
  TRY(each(e,
           "SELECT max(value * (key = 'instance')), max(value * (key = 'num_instances')) FROM meta"
           " WHERE key IN ('instance', 'num_instances') HAVING count(*) = 2",
           take_instance, error));
  TRY(each(e, "SELECT id FROM ipus", take_ipu, error));
  return each(e, steps, take_step, error);
}

static trm_status export_file(exporter *e, const char *path, bool is_host, trm_arena *arena,
                              trm_error *error) {
  TRY(trm_profile_find(path, is_host ? "timeline" : "profile", arena, &path, error));
  TRY(open_file(e, path, error));
  const trm_status status = is_host ? export_host(e, error) : export_ipus(e, error);
  sqlite3_close(e->database);
  return status;
}

static trm_status export_all(exporter *e, const char *const *files, size_t num_files,
                             trm_error *error) {
  trm_status status = TRM_OK;
  trm_arena arena = {0};
  for (size_t f = 0; f < num_files && status == TRM_OK; ++f) {
    const size_t length = strlen(files[f]);
    const bool is_host = length > 5 && strcmp(files[f] + length - 5, ".pvti") == 0;
    status = export_file(e, files[f], is_host, &arena, error);
  }
  trm_arena_free(&arena);
  if (status == TRM_OK && num_files > 0 && !e->has_rows) {
    FAIL(FAILED_PRECONDITION,
         "%s has no run to export, as of a program that was only compiled: run it with"
         " POPLAR_ENGINE_OPTIONS='{\"autoReport.all\": \"true\"}'",
         files[0]);
  }
  return status;
}

trm_status trm_report_export(const char *const *files, size_t num_files, char **out_text,
                             trm_error *error) {
  exporter e = {0};
  trm_stream_open(&e.stream);
  trm_stream_object(&e.stream);
  trm_stream_put_string(&e.stream, "displayTimeUnit", "ms");
  trm_stream_key(&e.stream, "traceEvents");
  trm_stream_array(&e.stream);
  trm_status status = export_all(&e, files, num_files, error);
  trm_stream_end_array(&e.stream);
  trm_stream_end_object(&e.stream);
  if (status == TRM_OK) status = trm_stream_close(&e.stream, "a trace", error);
  if (status != TRM_OK) {
    trm_text_free(&e.stream.text);
    return status;
  }
  *out_text = e.stream.text.data;
  return TRM_OK;
}
