/* The files of a profile: what each function needs, and the functions that write them. */
#ifndef TREMULA_REPORT_WRITE_H_
#define TREMULA_REPORT_WRITE_H_

#include <sqlite3.h>

#include "compile/executable.h"
#include "report/lowered.h"
#include "report/options.h"
#include "tremula/report.h"

enum {
  TRM_REPORT_PATH = 4096,
  TRM_PROFILE_FORMAT = 2, /* of profile.pop */
  TRM_REPORT_FORMAT = 1   /* of debug.cbor and vars.capnp */
};

/* The contexts of one executable in debug.cbor: source s has the id `first + s`; the id 0 is
 * none. */
typedef struct trm_report_debug {
  uint64_t first;
  char stream[64];            /* names the debug.cbor of this process */
  char path[TRM_REPORT_PATH]; /* absolute; "": none is written */
} trm_report_debug;

typedef struct trm_report_source {
  const trm_executable *executable;
  const trm_program *program;
  const trm_engine_options *options;
  const char *framework, *framework_version; /* never NULL */
  char directory[TRM_REPORT_PATH];
  char timestamp[64];
  uint32_t num_processes, process; /* trm_report_framework */
  bool is_model;
  trm_lowered lowered;
  trm_report_debug debug;
  int64_t num_rows; /* of the trace, once the profile is written */
} trm_report_source;

/* streams.c: a stream of a program. Streams are numbered in the order of their first copy. */
typedef struct trm_report_stream {
  char name[256];        /* the feed's name, else the instruction's */
  const char *kind;      /* "infeed", "outfeed", "arguments", "results", "remote", "host" */
  const char *direction; /* "in" or "out" of the IPU */
  uint32_t source;       /* of the first copy, or TRM_NO_INDEX */
  double bytes;          /* of one run, on all tiles of a replica */
} trm_report_stream;

typedef struct trm_report_streams {
  VECTOR(trm_report_stream) list;
  int64_t *of_step; /* by step: the number of its stream, or -1 */
} trm_report_streams;

trm_status trm_report_find_streams(const trm_program *program, trm_report_streams *out_streams,
                                   trm_error *error);
void trm_report_free_streams(trm_report_streams *streams);
/* trm_report_role: "forward", "backward" or "update"; "inference" in a program without gradients;
 * NULL for a source without a TensorFlow op. */
bool trm_report_is_training(const trm_program *program);
const char *trm_report_role(const trm_program_source *source, bool is_training);

/* profile.c: writes the tables, with_graph: also those of programs, variables and memory. The
 * caller closes the database, which is in autocommit mode. */
trm_status trm_report_write_profile(trm_report_source *source, const char *path, bool with_graph,
                                    sqlite3 **out_database, trm_error *error);
/* tiles.c: adds cycles, code and vertex state by tile to the rows of the tables. */
trm_status trm_report_write_tiles(const trm_report_source *source, sqlite3 *database,
                                  trm_error *error);
/* trace.c: writes the steps of one run, in the rows [first_row, *out_end_row). */
trm_status trm_report_write_trace(const trm_program *program, int64_t first_row, sqlite3 *database,
                                  int64_t *out_end_row, trm_error *error);
/* debug.c: appends the contexts of this executable, and sets source->debug. */
trm_status trm_report_write_debug(trm_report_source *source, trm_error *error);
/* vars.c, archive.c, framework.c */
trm_status trm_report_write_vars(const trm_report_source *source, const char *path,
                                 trm_error *error);
trm_status trm_report_write_archive(const trm_report_source *source, const char *path,
                                    trm_error *error);
trm_status trm_report_write_framework(const trm_report_source *source, const char *path,
                                      trm_error *error);

#endif /* TREMULA_REPORT_WRITE_H_ */
