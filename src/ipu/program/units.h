/* The units of a program: runs of consecutive forward instructions of one layer, with what belongs
 * to them (units.c). */
#ifndef TREMULA_IPU_PROGRAM_UNITS_H_
#define TREMULA_IPU_PROGRAM_UNITS_H_

#include "base/memory.h"
#include "ipu/program/state_updates.h"

enum { TRM_NO_UNIT = -1 };

/* A run of consecutive forward instructions of one layer: cuts are between units. */
typedef struct trm_unit {
  const char *layer;
  size_t layer_length;
  double crossing; /* bytes that a cut before this unit would send */
} trm_unit;

typedef struct trm_unit_map {
  const trm_program *program;
  const trm_module *module; /* the program's, or a changed copy */
  uint32_t computation, num_units;
  trm_unit *units;
  bool *is_backward;         /* by instruction */
  int32_t *unit_of;          /* by instruction */
  int32_t *last_reader;      /* by instruction: the last unit of the forward pass that reads it */
  bool *is_source;           /* by instruction: inputs, constants */
  bool *is_free;             /* by instruction: made of sources, in no layer */
  trm_state_updates updates; /* of the entry */
  bool *is_weight_update;    /* by instruction: behind the loop of a pipeline; of the entry */
  int32_t *last_units;       /* a hash table of the last unit of each layer; it has 2^n places */
  size_t num_places;
  trm_arena *arena;
} trm_unit_map;

/* Of the computation that is cut: the entry, or the body of a loop with most of the work. The
 * arrays live in the arena. */
trm_status trm_units_find(const trm_program *program, const trm_module *module, trm_arena *arena,
                          trm_unit_map *out, trm_error *error);

#endif /* TREMULA_IPU_PROGRAM_UNITS_H_ */
