/* The file of a timeline: rows that wait, and the database that they go to. */
#ifndef TREMULA_TIMELINE_FILE_H_
#define TREMULA_TIMELINE_FILE_H_

#include <sqlite3.h>

#include "base/memory.h"
#include "base/status.h"
#include "timeline/options.h"

typedef enum trm_timeline_row_kind {
  TRM_TIMELINE_MARK,    /* id, thread, channel, parent, time, duration (-1: a moment), text */
  TRM_TIMELINE_POINT,   /* id of the series, time, duration is the value */
  TRM_TIMELINE_COUNTS,  /* id of the heatmap, time, text is a JSON array */
  TRM_TIMELINE_CHANNEL, /* id, text */
  TRM_TIMELINE_THREAD,  /* id, text */
  TRM_TIMELINE_SERIES,  /* id, text, graph, unit */
  TRM_TIMELINE_HEATMAP, /* id, text, graph is a JSON array of the edges, unit */
  TRM_TIMELINE_META,    /* text is the key, graph the value */
  TRM_TIMELINE_NUM_KINDS
} trm_timeline_row_kind;

typedef struct trm_timeline_row {
  trm_timeline_row_kind kind;
  int64_t id, thread, parent;
  int32_t channel;
  double time, duration;     /* microseconds */
  char *text, *graph, *unit; /* the row's own; NULL: none */
} trm_timeline_row;

typedef struct trm_timeline_rows {
  VECTOR(trm_timeline_row) list;
} trm_timeline_rows;

/* Makes <directory>/<date>_<pid>.pvti with its tables. */
trm_status trm_timeline_file_create(const char *directory, sqlite3 **out_database,
                                    char out_path[TRM_TIMELINE_PATH], trm_error *error);
/* Writes the rows in one transaction; they are freed, also when that fails. */
trm_status trm_timeline_file_write(sqlite3 *database, trm_timeline_rows *rows, trm_error *error);
void trm_timeline_rows_free(trm_timeline_rows *rows);

#endif /* TREMULA_TIMELINE_FILE_H_ */
