/* Owns: the .pvti file of a process. */
#define _GNU_SOURCE
#include "timeline/file.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/place.h"
#include "tremula/tremula.h"

static const char schema[] =
    "PRAGMA synchronous = OFF; BEGIN;"
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE processes(id INTEGER PRIMARY KEY, name TEXT);"
    "CREATE TABLE threads(id INTEGER PRIMARY KEY, process INTEGER, name TEXT);"
    "CREATE TABLE channels(id INTEGER PRIMARY KEY, name TEXT);"
    "CREATE TABLE events(id INTEGER PRIMARY KEY, thread INTEGER, channel INTEGER, parent INTEGER,"
    "  ts_us REAL, dur_us REAL, label TEXT);"
    "CREATE TABLE series(id INTEGER PRIMARY KEY, graph TEXT, name TEXT, unit TEXT);"
    "CREATE TABLE points(series INTEGER, ts_us REAL, value REAL);"
    "CREATE TABLE heatmaps(id INTEGER PRIMARY KEY, name TEXT, unit TEXT, edges TEXT);"
    "CREATE TABLE counts(heatmap INTEGER, ts_us REAL, counts TEXT);";

static trm_status fail(sqlite3 *database, const char *what, trm_error *error) {
  FAIL(UNAVAILABLE, "%s: %s", what, database != NULL ? sqlite3_errmsg(database) : "out of memory");
}

static trm_status run(sqlite3 *database, const char *sql, trm_error *error) {
  if (sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK) return TRM_OK;
  return fail(database, "the timeline cannot be written", error);
}

/* The program's name and arguments; of several instances, which one. */
static void command_line(char *out, size_t size) {
  FILE *file = fopen("/proc/self/cmdline", "r");
  size_t length = file != NULL ? fread(out, 1, size - 1, file) : 0;
  if (file != NULL) fclose(file);
  while (length > 0 && out[length - 1] == '\0') --length;
  for (size_t i = 0; i < length; ++i) {
    if (out[i] == '\0') out[i] = ' ';
  }
  trm_group_place place;
  bool knows_local;
  trm_place_read(&place, &knows_local);
  snprintf(out + length, size - length, place.size > 1 ? ", instance %u" : "", place.rank);
}

static trm_status begin(sqlite3 *database, trm_error *error) {
  TRY(run(database, schema, error));
  char command[1024];
  command_line(command, sizeof command);
  char *sql = sqlite3_mprintf(
      "INSERT INTO meta VALUES('format',1),('producer','Tremula " TRM_VERSION_STRING "');"
      "INSERT INTO processes VALUES(%d,%Q);COMMIT",
      (int)getpid(), command);
  if (sql == NULL) FAIL_NO_MEMORY("a timeline");
  const trm_status status = run(database, sql, error);
  sqlite3_free(sql);
  return status;
}

trm_status trm_timeline_file_create(const char *directory, sqlite3 **out_database,
                                    char out_path[TRM_TIMELINE_PATH], trm_error *error) {
  const char *folder = directory[0] == '\0' ? "." : directory;
  TRY_NOTE(trm_make_folders(folder, error), "PVTI_OPTIONS' directory");
  char date[64];
  struct tm parts;
  gmtime_r(&(time_t){time(NULL)}, &parts);
  strftime(date, sizeof date, "%a_%b_%d_%H:%M:%S_%Y_GMT", &parts);
  const int length = snprintf(out_path, TRM_TIMELINE_PATH, "%s%s%s_%d.pvti", folder,
                              folder[strlen(folder) - 1] == '/' ? "" : "/", date, (int)getpid());
  if (length >= TRM_TIMELINE_PATH) FAIL(INVALID_ARGUMENT, "PVTI_OPTIONS' directory is too long");
  unlink(out_path); /* of a process that had this number within the same second */
  sqlite3 *database = NULL;
  trm_status status = TRM_OK;
  if (sqlite3_open_v2(out_path, &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
      SQLITE_OK) {
    status = fail(database, out_path, error);
  }
  if (status == TRM_OK) status = begin(database, error);
  if (status != TRM_OK) {
    sqlite3_close(database);
    return status;
  }
  *out_database = database;
  return TRM_OK;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static const char *const inserts[TRM_TIMELINE_NUM_KINDS] = {
    [TRM_TIMELINE_MARK] = "INSERT INTO events VALUES(?1,?2,?3,?4,?5,nullif(?6,-1),?7)",
    [TRM_TIMELINE_POINT] = "INSERT INTO points VALUES(?1,?5,?6)",
    [TRM_TIMELINE_COUNTS] = "INSERT INTO counts VALUES(?1,?5,?7)",
    [TRM_TIMELINE_CHANNEL] = "INSERT INTO channels VALUES(?1,?7)",
    [TRM_TIMELINE_THREAD] = "INSERT OR REPLACE INTO threads VALUES(?1,?2,?7)",
    [TRM_TIMELINE_SERIES] = "INSERT INTO series VALUES(?1,?8,?7,?9)",
    [TRM_TIMELINE_HEATMAP] = "INSERT INTO heatmaps VALUES(?1,?7,?9,?8)",
    [TRM_TIMELINE_META] = "INSERT OR REPLACE INTO meta VALUES(?7,?8)"};

static bool insert(sqlite3_stmt *statement, const trm_timeline_row *row) {
  const int most = sqlite3_bind_parameter_count(statement);
  sqlite3_bind_int64(statement, 1, row->id);
  sqlite3_bind_int64(statement, 2, row->thread);
  sqlite3_bind_int64(statement, 3, row->channel);
  sqlite3_bind_int64(statement, 4, row->parent);
  sqlite3_bind_double(statement, 5, row->time);
  sqlite3_bind_double(statement, 6, row->duration);
  const char *const texts[] = {row->text, row->graph, row->unit};
  for (int t = 0; t < 3 && 7 + t <= most; ++t) {
    sqlite3_bind_text(statement, 7 + t, texts[t], -1, SQLITE_STATIC);
  }
  const bool good = sqlite3_step(statement) == SQLITE_DONE;
  sqlite3_reset(statement);
  return good;
}

trm_status trm_timeline_file_write(sqlite3 *database, trm_timeline_rows *rows, trm_error *error) {
  sqlite3_stmt *statements[TRM_TIMELINE_NUM_KINDS] = {NULL};
  trm_status status = run(database, "BEGIN", error);
  for (size_t i = 0; i < rows->list.count && status == TRM_OK; ++i) {
    const trm_timeline_row *row = &rows->list.items[i];
    sqlite3_stmt **statement = &statements[row->kind];
    const bool ready = *statement != NULL || sqlite3_prepare_v2(database, inserts[row->kind], -1,
                                                                statement, NULL) == SQLITE_OK;
    if (!ready || !insert(*statement, row)) {
      status = fail(database, "the timeline cannot be written", error);
    }
  }
  for (int k = 0; k < TRM_TIMELINE_NUM_KINDS; ++k) sqlite3_finalize(statements[k]);
  if (status == TRM_OK) status = run(database, "COMMIT", error);
  if (status != TRM_OK) sqlite3_exec(database, "ROLLBACK", NULL, NULL, NULL);
  trm_timeline_rows_free(rows);
  return status;
}

void trm_timeline_rows_free(trm_timeline_rows *rows) {
  for (size_t i = 0; i < rows->list.count; ++i) {
    trm_free(rows->list.items[i].text);
    trm_free(rows->list.items[i].graph);
    trm_free(rows->list.items[i].unit);
  }
  VECTOR_FREE(&rows->list);
}
