/* What PVTI_OPTIONS asks for. */
#ifndef TREMULA_TIMELINE_OPTIONS_H_
#define TREMULA_TIMELINE_OPTIONS_H_

#include <jansson.h>
#include <stdbool.h>

enum { TRM_TIMELINE_PATH = 4096 };

typedef struct trm_timeline_options {
  bool enable;
  char directory[TRM_TIMELINE_PATH];
  json_t *channels; /* names; NULL: all. Never released: the options live as long as the process */
  double seconds;   /* from the first mark on; 0: no end */
} trm_timeline_options;

/* A text that cannot be read asks for a timeline of everything, as in Poplar; NULL and "" for
 * none. */
void trm_timeline_options_read(const char *text, trm_timeline_options *out_options);
bool trm_timeline_options_want(const trm_timeline_options *options, const char *channel);

#endif /* TREMULA_TIMELINE_OPTIONS_H_ */
