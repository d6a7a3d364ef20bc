/* Where to cut a row of units (split.c) so that the longest part is short and the fullest one fits,
 * by a model of what each range of units needs. The model comes from one plan of the whole, and
 * learns from plans of cuts. */
#ifndef TREMULA_IPU_PROGRAM_CUTS_H_
#define TREMULA_IPU_PROGRAM_CUTS_H_

#include "base/memory.h"
#include "ipu/program/program.h"

enum { TRM_MOST_PARTS = 64 };

/* A row of units, and where they are in a computation of the program's module. */
typedef struct trm_unit_row {
  uint32_t computation, num_units;
  const int32_t *unit_of;  /* by instruction; negative: none */
  const bool *is_backward; /* by instruction */
  const bool *is_untimed;  /* by instruction: its cycles do not count; NULL: all count */
  const double *crossing;  /* by unit: bytes that a cut before it would send */
  bool recomputes;         /* backward passes compute the forward pass again */
  bool takes_turns;        /* a round has twice the longer one of both passes, not their sum */
} trm_unit_row;

typedef struct trm_cut_model trm_cut_model;

/* Of the fullest part, and of the longest. */
typedef struct trm_cut_needs {
  double bytes, cycles;
} trm_cut_needs;

/* The model lives in the arena. Its bytes are those of the program's fullest tile. */
trm_status trm_cuts_create(const trm_program *program, const trm_unit_row *row, uint32_t num_parts,
                           trm_arena *arena, trm_cut_model **out_model, trm_error *error);
/* Sets cuts[p] to the first unit of part p. Of cuts whose fullest part needs at most `room` bytes
 * it takes those whose longest part is about as short as possible; where there are none, the bytes
 * are about as few as possible. Of these it takes those that send least. *out_needs: what the model
 * promises. The row has at least as many units as there are parts. */
trm_status trm_cuts_choose(const trm_cut_model *model, uint32_t num_parts, double room,
                           uint32_t *cuts, trm_cut_needs *out_needs, trm_error *error);
/* Corrects the model by the bytes of the fullest tile, and by the cycles, of each part of a planned
 * cut. */
void trm_cuts_learn(trm_cut_model *model, uint32_t num_parts, const uint32_t *cuts,
                    const trm_cut_needs *parts);

#endif /* TREMULA_IPU_PROGRAM_CUTS_H_ */
