/* The host's timeline: what the processes and threads of this machine do, for a viewer.
 *
 * A process records when the environment variable PVTI_OPTIONS asks for it, as in Poplar:
 *
 *     PVTI_OPTIONS='{"enable":"true","directory":"reports"}' python program.py
 *
 * writes reports/Tue_Nov_24_11:59:17_2020_GMT_4532.pvti, an SQLite database that
 * docs/profile_format.md describes. The library marks its passes, loads, runs and feeds; a program
 * adds marks of its own by these functions or by Python's libpvti.
 *
 * Nothing here fails: where no timeline is wanted a call costs a comparison, and a file that cannot
 * be written is one warning. Every function may be called from any thread, and after fork() a child
 * writes a file of its own. Times are microseconds since 1970 (UTC).
 *
 * Stability. Names and units stay as they are until the soname changes. */
#ifndef TREMULA_TIMELINE_H_
#define TREMULA_TIMELINE_H_

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The channels that every process has: marks are sorted by channel. */
enum { TRM_TIMELINE_DRIVERS, TRM_TIMELINE_POPLAR, TRM_TIMELINE_FRAMEWORK };

/* A new channel, on where PVTI_OPTIONS names it or names none. -1: there are too many. */
TRM_API int32_t trm_timeline_channel(const char *name);
/* Switches a channel on (where a timeline is wanted at all) or off. */
TRM_API void trm_timeline_enable(int32_t channel, bool enable);
/* Whether marks on the channel are recorded now. */
TRM_API bool trm_timeline_records(int32_t channel);

/* What happens on this thread from begin to end is a mark; marks nest. An end without its begin is
 * ignored; an end closes what began inside it. Labels are copied. */
TRM_API void trm_timeline_begin(int32_t channel, const char *label);
TRM_API void trm_timeline_end(int32_t channel, const char *label);
/* Marks a moment. */
TRM_API void trm_timeline_event(int32_t channel, const char *label);

/* A line of the diagram `graph`, and a number of it at this time. Without a timeline: -1, which
 * _add takes. */
TRM_API int32_t trm_timeline_series(const char *graph, const char *series, const char *unit);
TRM_API void trm_timeline_add(int32_t series, double value);
/* How many values lie between each two of the edges, which rise; values outside are not counted. */
TRM_API int32_t trm_timeline_heatmap(const char *name, const char *unit, const double *edges,
                                     size_t num_edges);
TRM_API void trm_timeline_count(int32_t heatmap, const double *values, size_t num_values);
/* A fact about the process. A later value of the same key replaces the former. */
TRM_API void trm_timeline_metadata(const char *key, const char *value);

/* The file's path; "" where nothing is recorded (yet). Lives until the process ends. */
TRM_API const char *trm_timeline_file(void);
/* Writes what is not written yet and ends the timeline; also done when the process exits. */
TRM_API void trm_timeline_close(void);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_TIMELINE_H_ */
