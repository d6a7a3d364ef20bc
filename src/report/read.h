/* A profile in memory, for the text report and the comparison. */
#ifndef TREMULA_REPORT_READ_H_
#define TREMULA_REPORT_READ_H_

#include "base/memory.h"
#include "tremula/report.h"

/* An op of the framework, or an HLO instruction without one, in one run. */
typedef struct trm_profile_op {
  const char *name, *layer, *plan; /* plan: of its first planned instruction; NULL: none */
  int64_t cycles, compute_cycles, flops;
  int64_t temporary_bytes; /* on the fullest tile: exchange buffers, rearrangements, partials */
} trm_profile_op;

typedef struct trm_profile_category {
  const char *name;
  int64_t always_live, not_always_live; /* the sums over tiles, each at its peak */
} trm_profile_category;

typedef struct trm_profile_tile {
  int64_t tile, bytes, gaps, always_live, not_always_live;
} trm_profile_tile;

typedef struct trm_profile_run {
  int64_t cycles, wait_cycles, load_cycles;
  double host_seconds, infeed_seconds;
} trm_profile_run;

typedef struct trm_profile {
  trm_arena arena;
  const char *path, *module, *framework, *framework_version, *timestamp, *accelerator, *target,
      *architecture, *item;             /* item: "images", "samples" */
  const char *cycles_like, *bytes_like; /* NULL: an older profile, which has no error bars */
  double clock_frequency, items_per_run;
  int64_t num_ipus, ipus_per_replica, num_replicas, tiles_per_ipu, bytes_per_tile;
  /* Totals, named as in trm_program_totals. */
  int64_t fits, is_close, cycles, compute_cycles, copy_cycles, exchange_cycles,
      global_exchange_cycles, host_cycles, collective_cycles, sync_cycles, control_cycles,
      between_domains_cycles, overlapped_cycles, flops, memory_bytes_with_gaps, worst_tile_bytes,
      worst_tile, bytes_over, tiles_over, num_steps, num_compute_sets, num_variables, num_vertices,
      num_edges, cycles_low, cycles_high, worst_tile_bytes_low, worst_tile_bytes_high;
  VECTOR(trm_profile_op) ops; /* most cycles first */
  VECTOR(trm_profile_category) categories;
  VECTOR(trm_profile_tile) tiles; /* the five fullest */
  VECTOR(trm_profile_run) runs;
  VECTOR(const char *) notes;
} trm_profile;

/* The database of a profile or of a timeline: `path`, or its profile.pop if it is a directory.
 * NOT_FOUND: there is none, and `what` names it; INVALID_ARGUMENT: it is no regular file. */
trm_status trm_profile_find(const char *path, const char *what, trm_arena *arena,
                            const char **out_file, trm_error *error);

/* Reads a profile. `path`: a directory or a profile.pop. NOT_FOUND: there is none;
 * INVALID_ARGUMENT: the file is no profile of this format, or damaged. trm_profile_free releases
 * the profile. */
trm_status trm_profile_read(const char *path, trm_profile *out_profile, trm_error *error);
void trm_profile_free(trm_profile *profile);

/* "fits", "barely fits" (nearer to the limit than the estimate is exact) or "OUT OF MEMORY". */
const char *trm_profile_verdict(const trm_profile *profile);

/* The parts of the cycles of a run, which add up to them and what overlaps. */
enum { TRM_PROFILE_PARTS = 8 };
typedef struct trm_profile_part {
  const char *name;
  int64_t cycles;
} trm_profile_part;
void trm_profile_parts(const trm_profile *profile, trm_profile_part out_parts[TRM_PROFILE_PARTS]);

/* Writes a number such as "1 234 567" into the buffer, and returns the buffer. */
const char *trm_profile_number(int64_t number, char buffer[32]);
#define GROUPED(n) trm_profile_number((n), (char[32]){0})

/* print.c, compare.c: the caller frees *out_text with trm_free. */
trm_status trm_profile_print(const trm_profile *profile, bool json, char **out_text,
                             trm_error *error);
/* Like trm_profile_print, with only the parts of the text on memory, on cycles, or both. JSON is
 * always complete. */
trm_status trm_profile_print_parts(const trm_profile *profile, bool json, bool memory, bool cycles,
                                   char **out_text, trm_error *error);
trm_status trm_profile_compare(const trm_profile *a, const trm_profile *b, bool json,
                               char **out_text, trm_error *error);
/* Appends a one-line summary, without a line end. */
void trm_profile_summary(const trm_profile *profile, trm_text *text);

#endif /* TREMULA_REPORT_READ_H_ */
