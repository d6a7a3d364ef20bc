/* Changes of a program, or of its options, and what the changed program would need (change.c). */
#ifndef TREMULA_IPU_PROGRAM_CHANGE_H_
#define TREMULA_IPU_PROGRAM_CHANGE_H_

#include <stdbool.h>
#include <stdint.h>

#include "ipu/program/program.h"

/* availableMemoryProportion of one layer's convolutions and products. */
typedef struct trm_layer_proportion {
  const char *layer, *proportion; /* the proportion as text */
} trm_layer_proportion;

/* Several changes at once. All zeros: none. */
typedef struct trm_change {
  double proportion;     /* availableMemoryProportion of convolutions and matmuls, where theirs is
                            larger; 0: as it is */
  bool half;             /* float16 instead of float32 */
  bool recompute;        /* allow_recompute */
  bool offload;          /* optimizer state in remote memory */
  uint32_t shards;       /* IPUs to cut the program over; 0: as it is */
  bool first_cut;        /* the first cuts into shards are enough: one plan */
  uint32_t mini_batches; /* of a weight update, if the shards are stages of a pipeline; 0: not */
  const char *schedule;  /* "Grouped", "Interleaved", "Sequential" */
  /* What somebody asks about besides (what_if.c); the search leaves these as they are. */
  bool is_exact;          /* the proportion counts where theirs is smaller, too */
  int64_t bytes_per_tile; /* 0: as it is */
  /* Names of layers, of which the last is NULL; NULL: none. */
  const char *const *half_layers, *const *recompute_layers;
  const trm_layer_proportion *layer_proportions; /* later ones count */
  size_t num_layer_proportions;
} trm_change;

enum { TRM_CHANGE_TEXT = 240 };

/* The change in words, for people. */
void trm_change_text(const trm_change *change, char text[TRM_CHANGE_TEXT]);

/* Which changes are changes at all: a program without float32 cannot be halved. Each member is set
 * to what may be tried, shards to the most. */
trm_status trm_change_find_possible(const trm_program *program, trm_change *out, trm_error *error);

/* Plans the changed program; trm_program_free *out_program, which is NULL if the program has too
 * few layers for so many shards. */
trm_status trm_change_plan(const trm_program *program, const trm_change *change,
                           trm_program **out_program, trm_error *error);

/* half_layers.c: float16 instead of float32, also in a tuple. */
trm_status trm_change_halve_shape(trm_shape *shape, trm_arena *arena, trm_error *error);
/* half_layers.c: computes some layers in float16, in a copy of the program's module. */
trm_status trm_change_halve_layers(trm_module *module, const trm_program *program,
                                   const char *const *layers, trm_error *error);

/* split.c: cuts `module`, which is `program`'s or a changed copy, for callers who only ask whether
 * it would fit: takes the first cuts that fit, or the best of a few. */
trm_status trm_program_create_split_briefly(const trm_program *program, const trm_module *module,
                                            const trm_program_options *options,
                                            const trm_change *change, trm_program **out_program,
                                            trm_error *error);
/* split.c: the least power of two of shards, up to `most`, of which the plan of the whole says that
 * the fullest would fit. *out_bytes: what its fullest tile would need. Where none would fit, these
 * are of the largest power of two. `most` is at least 2. */
trm_status trm_program_promising_shards(const trm_program *program, uint32_t most,
                                        uint32_t *out_shards, double *out_bytes, trm_error *error);
/* split.c: the most shards that a program can be cut into; 1 for one that states its shards. */
trm_status trm_program_most_shards(const trm_program *program, uint32_t *out_count,
                                   trm_error *error);

#endif /* TREMULA_IPU_PROGRAM_CHANGE_H_ */
