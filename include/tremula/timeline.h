/* The host's timeline: what the processes and threads of this machine do, for a viewer.
 *
 * A process records if the environment variable PVTI_OPTIONS asks for it, as in Poplar:
 *
 *     PVTI_OPTIONS='{"enable":"true","directory":"reports"}' python program.py
 *
 * writes reports/Tue_Nov_24_11:59:17_2020_GMT_4532.pvti, an SQLite database that
 * docs/profile_format.md describes. The library marks its passes, loads, runs and feeds. A program
 * adds its own marks with these functions or with Python's libpvti.
 *
 * No function fails. Without a timeline a call costs one comparison. A file that cannot be written
 * is one warning in the log. Every function may be called from any thread. After fork() a child
 * process writes its own file. Times are microseconds since 1970 (UTC).
 *
 * Stability. Names and units stay as they are until the soname changes. */
#ifndef TREMULA_TIMELINE_H_
#define TREMULA_TIMELINE_H_

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The channels of every process. A viewer sorts marks by channel. */
enum { TRM_TIMELINE_DRIVERS, TRM_TIMELINE_POPLAR, TRM_TIMELINE_FRAMEWORK };

/* Makes a channel. It is on if PVTI_OPTIONS names it or names no channels. -1: there are too
 * many. */
TRM_API int32_t trm_timeline_channel(const char *name);
/* Switches a channel on or off. Without a timeline it has no effect. */
TRM_API void trm_timeline_enable(int32_t channel, bool enable);
/* Whether the channel records marks now. */
TRM_API bool trm_timeline_records(int32_t channel);

/* Marks the time from begin to end on this thread; marks nest. An end without a begin is ignored.
 * An end also closes marks that began inside. Labels are copied. */
TRM_API void trm_timeline_begin(int32_t channel, const char *label);
TRM_API void trm_timeline_end(int32_t channel, const char *label);
/* Marks a moment. */
TRM_API void trm_timeline_event(int32_t channel, const char *label);

/* Makes a line of the diagram `graph`; _add adds a value at the current time. Without a timeline
 * the id is -1, which _add accepts. */
TRM_API int32_t trm_timeline_series(const char *graph, const char *series, const char *unit);
TRM_API void trm_timeline_add(int32_t series, double value);
/* A heat map counts the values between each two of the ascending edges, and ignores values
 * outside. */
TRM_API int32_t trm_timeline_heatmap(const char *name, const char *unit, const double *edges,
                                     size_t num_edges);
TRM_API void trm_timeline_count(int32_t heatmap, const double *values, size_t num_values);
/* A fact about the process. A later value of the same key replaces the earlier one. */
TRM_API void trm_timeline_metadata(const char *key, const char *value);

/* The path of the file, until the process ends; "" if nothing is recorded (yet). */
TRM_API const char *trm_timeline_file(void);
/* Writes the rest and ends the timeline. The end of the process does the same. */
TRM_API void trm_timeline_close(void);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_TIMELINE_H_ */
