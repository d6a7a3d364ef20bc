/* A thin layer over SQLite: statuses with messages, and a row in one call. */
#ifndef TREMULA_REPORT_DATABASE_H_
#define TREMULA_REPORT_DATABASE_H_

#include <sqlite3.h>

#include "base/status.h"

/* Runs statements that give no rows. Messages of all functions name the file of the database. */
trm_status trm_database_run(sqlite3 *database, const char *sql, trm_error *error);
trm_status trm_database_prepare(sqlite3 *database, const char *sql, sqlite3_stmt **out_statement,
                                trm_error *error);
/* Binds the values and steps once. `kinds` has a letter for each value: i int64_t, f double, t text
 * (NULL for null), n null. */
trm_status trm_database_insert(sqlite3_stmt *statement, trm_error *error, const char *kinds, ...);

#endif /* TREMULA_REPORT_DATABASE_H_ */
