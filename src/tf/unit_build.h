/* Owns: building a unit: an executable, compiled from a serialised module or read from the
 * executable cache, and an engine. */
#ifndef TREMULA_TF_UNIT_BUILD_H_
#define TREMULA_TF_UNIT_BUILD_H_

#include "events.h"
#include "feeds.h"
#include "host_calls.h"
#include "settings.h"
#include "tremula/report.h"
#include "units.h"

/* What a unit runs: the executable, its engine, and the state between its runs. */
typedef struct trm_tf_runnable {
  struct trm_tf_runnable *next; /* for lists */
  char *name;                   /* unique */
  trm_executable *executable;
  trm_engine *engine;
  trm_tf_host_calls *host_calls; /* NULL: none */
  trm_report *report;            /* the profile that runs are added to, or NULL */
  bool is_trivial;               /* it needs no device: trm_inspect_is_trivial() */
  size_t bytes;                  /* of memory, approximately */
  trm_tf_infeed *infeed;         /* the infeed in `feeds` */
  char *feeds;                   /* the feeds that the engine is connected with; NULL: none yet */
  uint64_t num_runs;
  trm_tf_event_report execution; /* the report of a run, for events */
  uint64_t seed_generation;
  /* The made-up values of inputs, if parameters are synthetic. */
  void **made_up;
  void *made_up_block;
  uint64_t made_up_generation;
  /* Room for the arguments of a run. */
  const void **inputs;
  uint64_t *versions, *output_versions;
} trm_tf_runnable;

/* Compiles the module, or reads the executable from the cache, and makes an engine. */
trm_status trm_tf_runnable_build(const trm_tf_code *code, int ordinal,
                                 const trm_tf_snapshot *settings, trm_tf_runnable **out,
                                 trm_error *error);
/* TensorFlow's version, such as "2.15.1"; NULL without TensorFlow. */
const char *trm_tf_tensorflow_version(void);
/* Also ends the profile. NULL is allowed. */
void trm_tf_runnable_free(trm_tf_runnable *runnable);

#endif /* TREMULA_TF_UNIT_BUILD_H_ */
