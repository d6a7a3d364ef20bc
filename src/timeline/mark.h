/* A mark around code of the library; formats its label only where somebody records. */
#ifndef TREMULA_TIMELINE_MARK_H_
#define TREMULA_TIMELINE_MARK_H_

#include <stdarg.h>
#include <stdio.h>

#include "tremula/timeline.h"

typedef struct trm_mark {
  int32_t channel; /* -1: nobody records */
  char label[160];
} trm_mark;

__attribute__((format(printf, 2, 3))) static inline trm_mark trm_mark_begin(int32_t channel,
                                                                            const char *format,
                                                                            ...) {
  trm_mark mark;
  mark.channel = -1;
  if (!trm_timeline_records(channel)) return mark;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(mark.label, sizeof mark.label, format, arguments);
  va_end(arguments);
  mark.channel = channel;
  trm_timeline_begin(channel, mark.label);
  return mark;
}

static inline void trm_mark_end(const trm_mark *mark) {
  if (mark->channel >= 0) trm_timeline_end(mark->channel, mark->label);
}

#endif /* TREMULA_TIMELINE_MARK_H_ */
