/* Owns: reading profile.pop. A file from elsewhere is untrusted: whatever it holds gives a status.
 */
#include "report/read.h"

#include <string.h>
#include <sys/stat.h>

#include "report/database.h"
#include "report/write.h"

static const char *text_at(trm_arena *arena, sqlite3_stmt *row, int column) {
  const char *text = (const char *)sqlite3_column_text(row, column);
  if (text == NULL) return NULL;
  return trm_arena_string(arena, text, strlen(text));
}

static int64_t number_at(sqlite3_stmt *row, int column) {
  return sqlite3_column_int64(row, column);
}

/* Calls `take` for each row of a query. */
typedef bool (*take_row)(trm_profile *profile, sqlite3_stmt *row);

static trm_status each(trm_profile *p, sqlite3 *database, const char *sql, take_row take,
                       trm_error *error) {
  sqlite3_stmt *rows;
  if (sqlite3_prepare_v2(database, sql, -1, &rows, NULL) != SQLITE_OK) {
    FAIL(INVALID_ARGUMENT, "%s is no profile that can be read: %s", p->path,
         sqlite3_errmsg(database));
  }
  int result;
  bool memory = true;
  while (memory && (result = sqlite3_step(rows)) == SQLITE_ROW) memory = take(p, rows);
  sqlite3_finalize(rows);
  if (!memory) FAIL_NO_MEMORY("a profile");
  if (result != SQLITE_DONE) {
    FAIL(INVALID_ARGUMENT, "%s cannot be read: %s", p->path, sqlite3_errmsg(database));
  }
  return TRM_OK;
}

static bool take_value(trm_profile *p, sqlite3_stmt *row) {
  const char *key = (const char *)sqlite3_column_text(row, 0);
  if (key == NULL) return true;
#define NUMBER(member) \
  if (strcmp(key, #member) == 0) p->member = number_at(row, 1);
#define REAL(member) \
  if (strcmp(key, #member) == 0) p->member = sqlite3_column_double(row, 1);
#define TEXT(member, name) \
  if (strcmp(key, name) == 0 && (p->member = text_at(&p->arena, row, 1)) == NULL) return false;
  TEXT(module, "module")
  TEXT(framework, "framework")
  TEXT(framework_version, "framework_version")
  TEXT(timestamp, "timestamp")
  TEXT(item, "item")
  TEXT(target, "name")
  TEXT(architecture, "architecture")
  REAL(clock_frequency)
  REAL(items_per_run)
  NUMBER(num_ipus)
  NUMBER(ipus_per_replica)
  NUMBER(num_replicas)
  NUMBER(tiles_per_ipu)
  NUMBER(bytes_per_tile)
  NUMBER(fits)
  NUMBER(is_close)
  NUMBER(cycles)
  NUMBER(compute_cycles)
  NUMBER(copy_cycles)
  NUMBER(exchange_cycles)
  NUMBER(global_exchange_cycles)
  NUMBER(host_cycles)
  NUMBER(collective_cycles)
  NUMBER(sync_cycles)
  NUMBER(control_cycles)
  NUMBER(overlapped_cycles)
  NUMBER(flops)
  NUMBER(memory_bytes_with_gaps)
  NUMBER(worst_tile_bytes)
  NUMBER(worst_tile)
  NUMBER(bytes_over)
  NUMBER(tiles_over)
  NUMBER(num_steps)
  NUMBER(num_compute_sets)
  NUMBER(num_variables)
  NUMBER(num_vertices)
  NUMBER(num_edges)
#undef NUMBER
#undef REAL
#undef TEXT
  return true;
}

static bool take_op(trm_profile *p, sqlite3_stmt *row) {
  const trm_profile_op op = {.name = text_at(&p->arena, row, 0),
                             .layer = text_at(&p->arena, row, 1),
                             .plan = text_at(&p->arena, row, 2),
                             .cycles = number_at(row, 3),
                             .compute_cycles = number_at(row, 4),
                             .flops = number_at(row, 5),
                             .temporary_bytes = number_at(row, 6)};
  return op.name != NULL && op.layer != NULL && VECTOR_PUSH(&p->ops, op);
}

static bool take_category(trm_profile *p, sqlite3_stmt *row) {
  const trm_profile_category category = {text_at(&p->arena, row, 0), number_at(row, 1),
                                         number_at(row, 2)};
  return category.name != NULL && VECTOR_PUSH(&p->categories, category);
}

static bool take_tile(trm_profile *p, sqlite3_stmt *row) {
  const trm_profile_tile tile = {number_at(row, 0), number_at(row, 1), number_at(row, 2),
                                 number_at(row, 3), number_at(row, 4)};
  return VECTOR_PUSH(&p->tiles, tile);
}

static bool take_run(trm_profile *p, sqlite3_stmt *row) {
  const trm_profile_run run = {number_at(row, 0), number_at(row, 1), number_at(row, 2),
                               sqlite3_column_double(row, 3), sqlite3_column_double(row, 4)};
  return VECTOR_PUSH(&p->runs, run);
}

static bool take_note(trm_profile *p, sqlite3_stmt *row) {
  const char *note = text_at(&p->arena, row, 0);
  return note != NULL && VECTOR_PUSH(&p->notes, note);
}

/* Ops by cycles; of each, the most temporary bytes that one of its programs finds. A tensor is a
 * `variable` that has a name of its own. */
static const char ops_query[] =
    "WITH leaves AS (SELECT programs.*, coalesce(nullif(sources.op_name, ''), sources.hlo_name,"
    " programs.name) AS op, coalesce(sources.layer, '') AS layer, sources.plan AS plan"
    " FROM programs LEFT JOIN sources ON sources.id = programs.source"
    " WHERE programs.end = programs.id + 1),"
    " held AS (SELECT leaves.id AS id, sum(variables.worst_bytes) AS bytes FROM leaves"
    " JOIN variables ON variables.source = leaves.source AND leaves.source >= 0"
    " AND NOT variables.always_live AND variables.first_step <= leaves.id"
    " AND leaves.id < variables.end_step JOIN var_categories"
    " ON var_categories.id = variables.category"
    " WHERE NOT (var_categories.name = 'variable' AND variables.name <> 'variable')"
    " GROUP BY leaves.id)"
    " SELECT op, min(layer), max(plan), CAST(sum(cycles * executions) AS INTEGER),"
    " CAST(sum(CASE type WHEN 'OnTileExecute' THEN cycles * executions ELSE 0 END) AS INTEGER),"
    " CAST(sum(flops * executions) AS INTEGER), coalesce(max(held.bytes), 0)"
    " FROM leaves LEFT JOIN held ON held.id = leaves.id GROUP BY op ORDER BY 4 DESC, op";

static trm_status read_tables(trm_profile *p, sqlite3 *database, trm_error *error) {
  TRY(each(p, database,
           "SELECT key, value FROM meta UNION ALL SELECT key, value FROM target"
           " UNION ALL SELECT key, value FROM totals", take_value, error));
  if (p->bytes_per_tile <= 0 || p->tiles_per_ipu <= 0 || !(p->clock_frequency > 0)) {
    FAIL(INVALID_ARGUMENT, "%s does not say what its target is", p->path);
  }
  TRY(each(p, database, ops_query, take_op, error));
  TRY(each(p, database,
           "SELECT name, sum(CASE vars_info.always_live WHEN 1 THEN size_bytes ELSE 0 END),"
           " sum(CASE vars_info.always_live WHEN 1 THEN 0 ELSE size_bytes END) FROM vars_info"
           " JOIN var_categories ON var_categories.id = category GROUP BY category"
           " ORDER BY sum(size_bytes) DESC, name", take_category, error));
  TRY(each(p, database,
           "SELECT tile, total_including_gaps, gaps, always_live, not_always_live"
           " FROM memory_by_tile ORDER BY total_including_gaps DESC, tile LIMIT 5", take_tile,
           error));
  TRY(each(p, database, "SELECT text FROM notes ORDER BY id", take_note, error));
  return each(p, database, "SELECT cycles, wait_cycles, load_cycles, host_seconds,"
              " infeed_wait_seconds FROM runs ORDER BY id", take_run, error);
}

static trm_status check_format(const char *path, sqlite3 *database, trm_error *error) {
  sqlite3_stmt *row = NULL;
  int64_t format = -1;
  if (sqlite3_prepare_v2(database, "SELECT value FROM meta WHERE key = 'format'", -1, &row,
                         NULL) == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW) {
    format = number_at(row, 0);
  }
  sqlite3_finalize(row);
  if (format == TRM_PROFILE_FORMAT) return TRM_OK;
  if (format < 0) FAIL(INVALID_ARGUMENT, "%s is no profile that Tremula wrote", path);
  FAIL(INVALID_ARGUMENT, "%s has the format %lld; this Tremula reads format %d", path,
       (long long)format, TRM_PROFILE_FORMAT);
}

trm_status trm_profile_read(const char *path, trm_profile *out_profile, trm_error *error) {
  *out_profile = (trm_profile){.module = "", .framework = "", .framework_version = "",
                               .timestamp = "", .target = "", .architecture = "", .item = "runs"};
  struct stat info;
  if (stat(path, &info) != 0) FAIL(NOT_FOUND, "there is no profile %s", path);
  trm_profile *p = out_profile;
  p->path = S_ISDIR(info.st_mode) ? trm_arena_format(&p->arena, "%s/profile.pop", path)
                                  : trm_arena_format(&p->arena, "%s", path);
  CHECK_MEMORY(p->path, "a profile");
  sqlite3 *database = NULL;
  trm_status status = TRM_OK;
  if (stat(p->path, &info) != 0) {
    status = trm_fail(error, TRM_NOT_FOUND, "there is no profile.pop in %s", path);
  } else if (sqlite3_open_v2(p->path, &database, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
    status = trm_fail(error, TRM_UNAVAILABLE, "cannot open %s", p->path);
  }
  if (status == TRM_OK) status = check_format(p->path, database, error);
  if (status == TRM_OK) status = read_tables(p, database, error);
  sqlite3_close(database);
  if (status != TRM_OK) trm_profile_free(p);
  return status;
}

void trm_profile_free(trm_profile *profile) {
  VECTOR_FREE(&profile->ops);
  VECTOR_FREE(&profile->categories);
  VECTOR_FREE(&profile->tiles);
  VECTOR_FREE(&profile->runs);
  VECTOR_FREE(&profile->notes);
  trm_arena_free(&profile->arena);
}

trm_status trm_report_print(const char *directory, const char *other, bool json, char **out_text,
                            trm_error *error) {
  trm_profile a, b;
  TRY(trm_profile_read(directory, &a, error));
  trm_status status;
  if (other == NULL) {
    status = trm_profile_print(&a, json, out_text, error);
  } else {
    status = trm_profile_read(other, &b, error);
    if (status == TRM_OK) {
      status = trm_profile_compare(&a, &b, json, out_text, error);
      trm_profile_free(&b);
    }
  }
  trm_profile_free(&a);
  return status;
}
