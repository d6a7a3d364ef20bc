/* Where to cut a row of units (split.c) so that the fullest part needs least, by a model of what
 * each range of units needs. The model comes from one plan of the whole, and learns from plans of
 * cuts. */
#ifndef TREMULA_IPU_PROGRAM_CUTS_H_
#define TREMULA_IPU_PROGRAM_CUTS_H_

#include "base/memory.h"
#include "ipu/program/program.h"

enum { TRM_MOST_PARTS = 64 };

/* A row of units, and where they are in a computation of the program's module. */
typedef struct trm_unit_row {
  uint32_t computation, num_units;
  const int32_t *unit_of; /* by instruction; negative: none */
  const double *crossing; /* by unit: bytes that a cut before it would send */
} trm_unit_row;

typedef struct trm_cut_model trm_cut_model;

/* The model lives in the arena. */
trm_status trm_cuts_create(const trm_program *program, const trm_unit_row *row, uint32_t num_parts,
                           trm_arena *arena, trm_cut_model **out_model, trm_error *error);
/* Sets cuts[p] to the first unit of part p. Of cuts that are nearly as even as possible it takes
 * those that send least. *out_bytes: of the fullest part's fullest tile, once the model has learnt;
 * before, of all its tiles. The row has at least as many units as there are parts. */
trm_status trm_cuts_choose(const trm_cut_model *model, uint32_t num_parts, uint32_t *cuts,
                           double *out_bytes, trm_error *error);
/* Corrects the model by the bytes of the fullest tile of each part of a planned cut. */
void trm_cuts_learn(trm_cut_model *model, uint32_t num_parts, const uint32_t *cuts,
                    const double *bytes);

#endif /* TREMULA_IPU_PROGRAM_CUTS_H_ */
