/* What the files that write a profile share. */
#ifndef TREMULA_REPORT_WRITE_H_
#define TREMULA_REPORT_WRITE_H_

#include <sqlite3.h>

#include "exec/executable.h"
#include "report/lowered.h"
#include "report/options.h"
#include "tremula/report.h"

enum {
  TRM_REPORT_PATH = 4096,
  TRM_PROFILE_FORMAT = 2, /* of profile.pop */
  TRM_REPORT_FORMAT = 1   /* of debug.cbor and vars.capnp */
};

/* The contexts of debug.cbor of one executable: source s is `first + s`, and 0 is none. */
typedef struct trm_report_debug {
  uint64_t first;
  char stream[64];            /* names the process's debug.cbor */
  char path[TRM_REPORT_PATH]; /* absolute; "" when none is written */
} trm_report_debug;

typedef struct trm_report_source {
  const trm_executable *executable;
  const trm_program *program;
  const trm_engine_options *options;
  const char *framework, *framework_version; /* never NULL */
  char directory[TRM_REPORT_PATH];
  char timestamp[64];
  bool is_model;
  trm_lowered lowered;
  trm_report_debug debug;
} trm_report_source;

/* streams.c: what the stream copies of a program move; numbered in the order of their first copy.
 */
typedef struct trm_report_stream {
  char name[256];        /* of a feed the feed's, else the instruction's */
  const char *kind;      /* "infeed", "outfeed", "arguments", "results", "remote", "host" */
  const char *direction; /* "in" or "out" of the IPU */
  uint32_t source;       /* of the first copy, or TRM_NO_INDEX */
  double bytes;          /* of one run, all tiles of a replica */
} trm_report_stream;

typedef struct trm_report_streams {
  VECTOR(trm_report_stream) list;
  int64_t *of_step; /* by step: index in list, or -1 */
} trm_report_streams;

trm_status trm_report_find_streams(const trm_program *program, trm_report_streams *out_streams,
                                   trm_error *error);
void trm_report_free_streams(trm_report_streams *streams);
/* What a source is for: "forward", "backward", "update", in a program without gradients
 * "inference"; NULL where there is no TensorFlow op. */
bool trm_report_is_training(const trm_program *program);
const char *trm_report_role(const trm_program_source *source, bool is_training);

/* profile.c: the tables; `with_graph` those of programs, variables and memory. The database stays
 * open, in autocommit mode. */
trm_status trm_report_write_profile(const trm_report_source *source, const char *path,
                                    bool with_graph, sqlite3 **out_database, trm_error *error);
/* tiles.c: cycles, code and vertex state by tile, of the rows that are in the tables. */
trm_status trm_report_write_tiles(const trm_report_source *source, sqlite3 *database,
                                  trm_error *error);
/* trace.c: the steps of one run, and the views steps and steps_by_ipu over runs. */
trm_status trm_report_write_trace(const trm_report_source *source, sqlite3 *database,
                                  trm_error *error);
/* debug.c: appends this executable's contexts; fills in source->debug. */
trm_status trm_report_write_debug(trm_report_source *source, trm_error *error);
/* vars.c, archive.c, framework.c */
trm_status trm_report_write_vars(const trm_report_source *source, const char *path,
                                 trm_error *error);
trm_status trm_report_write_archive(const trm_report_source *source, const char *path,
                                    trm_error *error);
trm_status trm_report_write_framework(const trm_report_source *source, const char *path,
                                      trm_error *error);

#endif /* TREMULA_REPORT_WRITE_H_ */
