/* Owns: reading profile.pop. The file is untrusted: any contents give a status. */
#include "report/read.h"

#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "report/database.h"
#include "report/schema.h"
#include "report/write.h"

/* Control characters, which could act on a terminal, and bytes that are not UTF-8 become question
 * marks. */
static const char *text_at(trm_arena *arena, sqlite3_stmt *row, int column) {
  const char *text = (const char *)sqlite3_column_text(row, column);
  if (text == NULL) return NULL;
  char *copy = trm_arena_string(arena, text, strlen(text));
  if (copy == NULL) return NULL;
  json_t *checked = json_string(copy); /* NULL if not UTF-8 */
  for (char *c = copy; *c != '\0'; ++c) {
    const unsigned char byte = (unsigned char)*c;
    if (byte < ' ' || byte == 0x7f || (byte >= 0x80 && checked == NULL)) *c = '?';
  }
  json_decref(checked);
  return copy;
}

/* No number of a sound profile is beyond 2^62. The limit keeps sums of a damaged profile from
 * overflowing. */
static int64_t number_at(sqlite3_stmt *row, int column) {
  const int64_t most = INT64_C(1) << 62, number = sqlite3_column_int64(row, column);
  return number > most ? most : number < -most ? -most : number;
}

typedef enum taken { TAKEN, NO_MEMORY, DAMAGED } taken;

/* Calls `take` for each row of a query. */
typedef taken (*take_row)(trm_profile *profile, sqlite3_stmt *row);

static trm_status each(trm_profile *p, sqlite3 *database, const char *sql, take_row take,
                       trm_error *error) {
  sqlite3_stmt *rows;
  if (sqlite3_prepare_v2(database, sql, -1, &rows, NULL) != SQLITE_OK) {
    FAIL(INVALID_ARGUMENT, "%s is no profile that can be read: %s", p->path,
         sqlite3_errmsg(database));
  }
  int result;
  taken is = TAKEN;
  while (is == TAKEN && (result = sqlite3_step(rows)) == SQLITE_ROW) is = take(p, rows);
  sqlite3_finalize(rows);
  if (is == NO_MEMORY) FAIL_NO_MEMORY("a profile");
  if (is == DAMAGED) FAIL(INVALID_ARGUMENT, "%s is damaged: a value is of a wrong kind", p->path);
  if (result != SQLITE_DONE) {
    FAIL(INVALID_ARGUMENT, "%s cannot be read: %s", p->path, sqlite3_errmsg(database));
  }
  return TRM_OK;
}

/* Values of meta, target and totals are of any kind. */
static taken take_value(trm_profile *p, sqlite3_stmt *row) {
  const char *key = (const char *)sqlite3_column_text(row, 0);
  const int kind = sqlite3_column_type(row, 1);
  if (key == NULL) return DAMAGED;
#define NUMBER(member)                          \
  if (strcmp(key, #member) == 0) {              \
    if (kind != SQLITE_INTEGER) return DAMAGED; \
    p->member = number_at(row, 1);              \
  }
#define REAL(member)                                                    \
  if (strcmp(key, #member) == 0) {                                      \
    if (kind != SQLITE_INTEGER && kind != SQLITE_FLOAT) return DAMAGED; \
    p->member = sqlite3_column_double(row, 1);                          \
  }
#define TEXT(member, name)                                                  \
  if (strcmp(key, name) == 0) {                                             \
    if (kind != SQLITE_TEXT) return DAMAGED;                                \
    if ((p->member = text_at(&p->arena, row, 1)) == NULL) return NO_MEMORY; \
  }
  TEXT(module, "module")
  TEXT(framework, "framework")
  TEXT(framework_version, "framework_version")
  TEXT(timestamp, "timestamp")
  TEXT(item, "item")
  TEXT(accelerator, "accelerator")
  TEXT(target, "name")
  TEXT(architecture, "architecture")
  TEXT(cycles_like, "cycles_like")
  TEXT(bytes_like, "bytes_like")
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
  NUMBER(between_domains_cycles)
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
  NUMBER(cycles_low)
  NUMBER(cycles_high)
  NUMBER(worst_tile_bytes_low)
  NUMBER(worst_tile_bytes_high)
#undef NUMBER
#undef REAL
#undef TEXT
  return TAKEN;
}

static taken take_op(trm_profile *p, sqlite3_stmt *row) {
  const trm_profile_op op = {.name = text_at(&p->arena, row, 0),
                             .layer = text_at(&p->arena, row, 1),
                             .plan = text_at(&p->arena, row, 2),
                             .cycles = number_at(row, 3),
                             .compute_cycles = number_at(row, 4),
                             .flops = number_at(row, 5),
                             .temporary_bytes = number_at(row, 6)};
  return op.name != NULL && op.layer != NULL && VECTOR_PUSH(&p->ops, op) ? TAKEN : NO_MEMORY;
}

static taken take_category(trm_profile *p, sqlite3_stmt *row) {
  const trm_profile_category category = {text_at(&p->arena, row, 0), number_at(row, 1),
                                         number_at(row, 2)};
  return category.name != NULL && VECTOR_PUSH(&p->categories, category) ? TAKEN : NO_MEMORY;
}

static taken take_tile(trm_profile *p, sqlite3_stmt *row) {
  const trm_profile_tile tile = {number_at(row, 0), number_at(row, 1), number_at(row, 2),
                                 number_at(row, 3), number_at(row, 4)};
  return VECTOR_PUSH(&p->tiles, tile) ? TAKEN : NO_MEMORY;
}

static taken take_run(trm_profile *p, sqlite3_stmt *row) {
  const trm_profile_run run = {number_at(row, 0), number_at(row, 1), number_at(row, 2),
                               sqlite3_column_double(row, 3), sqlite3_column_double(row, 4)};
  return VECTOR_PUSH(&p->runs, run) ? TAKEN : NO_MEMORY;
}

static taken take_note(trm_profile *p, sqlite3_stmt *row) {
  const char *note = text_at(&p->arena, row, 0);
  return note != NULL && VECTOR_PUSH(&p->notes, note) ? TAKEN : NO_MEMORY;
}

/* Ops by cycles, each with the most temporary bytes of one of its programs. A variable with a name
 * of its own is a tensor. */
static const char ops_query[] =
    "WITH leaves AS (SELECT programs.*, coalesce(nullif(sources.op_name, ''), sources.hlo_name,"
    " programs.name) AS op, coalesce(sources.layer, '') AS layer, sources.plan AS plan"
    " FROM programs LEFT JOIN sources ON sources.id = programs.source"
    " WHERE programs.end = programs.id + 1),"
    " temporaries AS (SELECT leaves.id AS id, sum(variables.worst_bytes) AS bytes FROM leaves"
    " JOIN variables ON variables.source = leaves.source AND leaves.source >= 0"
    " AND NOT variables.always_live AND variables.first_step <= leaves.id"
    " AND leaves.id < variables.end_step JOIN var_categories"
    " ON var_categories.id = variables.category"
    " WHERE NOT (var_categories.name = 'variable' AND variables.name <> 'variable')"
    " GROUP BY leaves.id)"
    " SELECT op, min(layer), max(plan), CAST(sum(cycles * executions) AS INTEGER),"
    " CAST(sum(CASE type WHEN 'OnTileExecute' THEN cycles * executions ELSE 0 END) AS INTEGER),"
    " CAST(sum(flops * executions) AS INTEGER), coalesce(max(temporaries.bytes), 0)"
    " FROM leaves LEFT JOIN temporaries ON temporaries.id = leaves.id"
    " GROUP BY op ORDER BY 4 DESC, op";

/* ---- Whether it is sound -------------------------------------------------------------------- */

enum { MOST_IPUS = 1 << 16, MOST_TILES = 1 << 16, MOST_TILE_BYTES = 1 << 30 };

/* Appends a condition that a value of a row has another kind than its column. Only `sources` may
 * have null texts. `columns`: the table's PRAGMA table_info. */
static void append_wrong_kinds(trm_text *sql, const char *table, sqlite3_stmt *columns) {
  const char *const texts = strcmp(table, "sources") == 0 ? "'text','null'" : "'text'";
  trm_text_format(sql, "SELECT 1 FROM %s WHERE 0", table);
  while (sqlite3_step(columns) == SQLITE_ROW) {
    const char *kind = (const char *)sqlite3_column_text(columns, 1);
    trm_text_format(sql, " OR typeof(\"%s\") NOT IN (%s)",
                    (const char *)sqlite3_column_text(columns, 0),
                    strcmp(kind, "TEXT") == 0   ? texts
                    : strcmp(kind, "REAL") == 0 ? "'real','integer'"
                                                : "'integer'");
  }
  trm_text_append(sql, " LIMIT 1", 8);
}

static trm_status check_kinds(const trm_profile *p, const char *table, sqlite3 *database,
                              trm_error *error) {
  trm_text sql = {0};
  sqlite3_stmt *columns = NULL, *rows = NULL;
  trm_text_format(&sql, "SELECT name, type FROM pragma_table_info('%s')", table);
  int result = sqlite3_prepare_v2(database, sql.data, -1, &columns, NULL);
  sql.length = 0;
  if (result == SQLITE_OK) append_wrong_kinds(&sql, table, columns);
  sqlite3_finalize(columns);
  if (result == SQLITE_OK && !sql.failed) {
    result = sqlite3_prepare_v2(database, sql.data, -1, &rows, NULL);
  }
  if (result == SQLITE_OK && !sql.failed) result = sqlite3_step(rows);
  sqlite3_finalize(rows);
  const bool failed = sql.failed;
  trm_text_free(&sql);
  if (failed) FAIL_NO_MEMORY("a profile");
  if (result == SQLITE_DONE) return TRM_OK;
  if (result == SQLITE_ROW) {
    FAIL(INVALID_ARGUMENT, "%s is damaged: the table %s has a value of a wrong kind", p->path,
         table);
  }
  FAIL(INVALID_ARGUMENT, "%s cannot be read: %s", p->path, sqlite3_errmsg(database));
}

static char *table_text(trm_arena *arena, sqlite3 *database, const char *table) {
  sqlite3_stmt *row = NULL;
  char *text = NULL;
  if (sqlite3_prepare_v2(database,
                         "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", -1,
                         &row, NULL) == SQLITE_OK &&
      sqlite3_bind_text(row, 1, table, -1, SQLITE_STATIC) == SQLITE_OK &&
      sqlite3_step(row) == SQLITE_ROW) {
    const char *found = (const char *)sqlite3_column_text(row, 0);
    if (found != NULL) text = trm_arena_string(arena, found, strlen(found));
  }
  sqlite3_finalize(row);
  return text;
}

/* Checks that the tables are those that Tremula makes: no views, no other columns. */
static trm_status check_tables(trm_profile *p, sqlite3 *database, trm_error *error) {
  static const char *const tables[] = {"meta",           "target",         "totals",   "notes",
                                       "var_categories", "sources",        "programs", "variables",
                                       "vars_info",      "memory_by_tile", "runs"};
  enum { FIRST_WITH_KINDS = 3 };
  sqlite3 *known = NULL;
  trm_status status = TRM_OK;
  if (sqlite3_open_v2(":memory:", &known, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
      sqlite3_exec(known, trm_report_schema, NULL, NULL, NULL) != SQLITE_OK) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for a profile");
  }
  for (size_t t = 0; t < sizeof tables / sizeof *tables && status == TRM_OK; ++t) {
    const char *wanted = table_text(&p->arena, known, tables[t]);
    const char *found = table_text(&p->arena, database, tables[t]);
    if (wanted == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for a profile");
    } else if (found == NULL || strcmp(found, wanted) != 0) {
      status = trm_fail(error, TRM_INVALID_ARGUMENT,
                        "%s is no profile that can be read: its table "
                        "%s is missing or has other columns",
                        p->path, tables[t]);
    } else if (t >= FIRST_WITH_KINDS) {
      status = check_kinds(p, tables[t], database, error);
    }
  }
  sqlite3_close(known);
  return status;
}

/* Reading a damaged tree of pages may never end. The limit, in WORK_STEPs of SQLite's instructions,
 * is more than any sound profile needs. */
enum { WORK_STEP = 1000 };

static int spend(void *context) {
  int64_t *left = context;
  return --*left < 0;
}

/* ---- Reading -------------------------------------------------------------------------------- */

static trm_status read_tables(trm_profile *p, sqlite3 *database, trm_error *error) {
  TRY(check_tables(p, database, error));
  TRY(each(p, database,
           "SELECT key, value FROM meta UNION ALL SELECT key, value FROM target"
           " UNION ALL SELECT key, value FROM totals",
           take_value, error));
  if (p->bytes_per_tile <= 0 || p->bytes_per_tile > MOST_TILE_BYTES || p->tiles_per_ipu <= 0 ||
      p->tiles_per_ipu > MOST_TILES || p->ipus_per_replica > MOST_IPUS ||
      !(p->clock_frequency > 0)) {
    FAIL(INVALID_ARGUMENT, "%s is damaged: it does not state its target", p->path);
  }
  TRY(each(p, database, ops_query, take_op, error));
  TRY(each(p, database,
           "SELECT name, sum(CASE vars_info.always_live WHEN 1 THEN size_bytes ELSE 0 END),"
           " sum(CASE vars_info.always_live WHEN 1 THEN 0 ELSE size_bytes END) FROM vars_info"
           " JOIN var_categories ON var_categories.id = category GROUP BY category"
           " ORDER BY sum(size_bytes) DESC, name",
           take_category, error));
  TRY(each(p, database,
           "SELECT tile, total_including_gaps, gaps, always_live, not_always_live"
           " FROM memory_by_tile ORDER BY total_including_gaps DESC, tile LIMIT 5",
           take_tile, error));
  TRY(each(p, database, "SELECT text FROM notes ORDER BY id", take_note, error));
  return each(p, database,
              "SELECT cycles, wait_cycles, load_cycles, host_seconds,"
              " infeed_wait_seconds FROM runs ORDER BY id",
              take_run, error);
}

static trm_status check_format(const char *path, sqlite3 *database, trm_error *error) {
  sqlite3_stmt *row = NULL;
  int64_t format = -1;
  if (sqlite3_prepare_v2(database, "SELECT value FROM meta WHERE key = 'format'", -1, &row, NULL) ==
          SQLITE_OK &&
      sqlite3_step(row) == SQLITE_ROW) {
    format = number_at(row, 0);
  }
  sqlite3_finalize(row);
  if (format == TRM_PROFILE_FORMAT) return TRM_OK;
  if (format < 0) FAIL(INVALID_ARGUMENT, "%s is no profile that Tremula wrote", path);
  FAIL(INVALID_ARGUMENT, "%s has the format %lld; this Tremula reads format %d", path,
       (long long)format, TRM_PROFILE_FORMAT);
}

trm_status trm_profile_find(const char *path, const char *what, trm_arena *arena,
                            const char **out_file, trm_error *error) {
  struct stat info;
  if (stat(path, &info) != 0) FAIL(NOT_FOUND, "there is no %s %s", what, path);
  const char *file = S_ISDIR(info.st_mode) ? trm_arena_format(arena, "%s/profile.pop", path)
                                           : trm_arena_format(arena, "%s", path);
  CHECK_MEMORY(file, "a profile");
  if (stat(file, &info) != 0) FAIL(NOT_FOUND, "there is no profile.pop in %s", path);
  /* SQLite would block on a FIFO. */
  if (!S_ISREG(info.st_mode)) FAIL(INVALID_ARGUMENT, "%s is not a regular file", file);
  *out_file = file;
  return TRM_OK;
}

static trm_status open_profile(trm_profile *p, const char *path, sqlite3 **out_database,
                               int64_t *out_work, trm_error *error) {
  TRY(trm_profile_find(path, "profile", &p->arena, &p->path, error));
  if (sqlite3_open_v2(p->path, out_database, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
    FAIL(UNAVAILABLE, "cannot open %s", p->path);
  struct stat info;
  *out_work = 1000000 + (stat(p->path, &info) == 0 ? info.st_size / 4 : 0);
  sqlite3_progress_handler(*out_database, WORK_STEP, spend, out_work);
  return TRM_OK;
}

trm_status trm_profile_read(const char *path, trm_profile *out_profile, trm_error *error) {
  *out_profile = (trm_profile){.module = "",
                               .framework = "",
                               .framework_version = "",
                               .timestamp = "",
                               .accelerator = "this CPU",
                               .target = "",
                               .architecture = "",
                               .item = "runs"};
  trm_profile *p = out_profile;
  sqlite3 *database = NULL;
  int64_t left = 0;
  trm_status status = open_profile(p, path, &database, &left, error);
  if (status == TRM_OK) status = check_format(p->path, database, error);
  if (status == TRM_OK) status = read_tables(p, database, error);
  if (left < 0) {
    status =
        trm_fail(error, TRM_INVALID_ARGUMENT, "%s is damaged: reading it does not end", p->path);
  }
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
