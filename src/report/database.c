/* Owns: talking to SQLite. */
#include "report/database.h"

#include <stdarg.h>

static trm_status complain(sqlite3 *database, const char *what, trm_error *error) {
  const char *path = sqlite3_db_filename(database, "main");
  return trm_fail(error, TRM_UNAVAILABLE, "cannot %s the profile %s: %s", what,
                  path != NULL ? path : "", sqlite3_errmsg(database));
}

trm_status trm_database_run(sqlite3 *database, const char *sql, trm_error *error) {
  if (sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK) return TRM_OK;
  return complain(database, "write", error);
}

trm_status trm_database_prepare(sqlite3 *database, const char *sql, sqlite3_stmt **out_statement,
                                trm_error *error) {
  if (sqlite3_prepare_v2(database, sql, -1, out_statement, NULL) == SQLITE_OK) return TRM_OK;
  return complain(database, "use", error);
}

trm_status trm_database_insert(sqlite3_stmt *statement, trm_error *error, const char *kinds, ...) {
  va_list args;
  va_start(args, kinds);
  int result = SQLITE_OK;
  for (int i = 0; kinds[i] != '\0' && result == SQLITE_OK; ++i) {
    switch (kinds[i]) {
      case 'i': result = sqlite3_bind_int64(statement, i + 1, va_arg(args, int64_t)); break;
      case 'f': result = sqlite3_bind_double(statement, i + 1, va_arg(args, double)); break;
      case 't':
        result =
            sqlite3_bind_text(statement, i + 1, va_arg(args, const char *), -1, SQLITE_TRANSIENT);
        break;
      default: result = sqlite3_bind_null(statement, i + 1); break;
    }
  }
  va_end(args);
  if (result == SQLITE_OK) result = sqlite3_step(statement);
  sqlite3_reset(statement);
  if (result == SQLITE_DONE || result == SQLITE_ROW) return TRM_OK;
  return complain(sqlite3_db_handle(statement), "write", error);
}
