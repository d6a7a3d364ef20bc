/* Classes of tiles, and the bytes of mappings by class. A program has thousands of tiles, of which
 * most hold the same bytes of every variable; and many variables, but few kinds of places. */
#ifndef TREMULA_IPU_PROGRAM_EXPANSIONS_H_
#define TREMULA_IPU_PROGRAM_EXPANSIONS_H_

#include "ipu/program/program.h"
#include "ipu/tile/mapping.h"

/* Of the bytes of a piece, and with the gap behind it. */
enum { TRM_BYTES_ALIGNMENT = 4, TRM_GAP_ALIGNMENT = 8 };

/* Tiles of one IPU that hold equally many bytes of every variable form a class. */
typedef struct trm_tile_classes {
  uint32_t tiles, num_ipus; /* tiles of an IPU */
  uint32_t *first;          /* by IPU: its first class; behind the last: the number of classes */
  uint32_t *class_of;       /* by tile of all IPUs */
  uint32_t *tile;           /* by class: its first tile, of all IPUs; rises in an IPU */
  uint32_t *size;           /* by class: its tiles */
} trm_tile_classes;

/* Everything is in the arena. */
trm_status trm_tile_classes_find(const trm_program *program, trm_arena *arena,
                                 trm_tile_classes *out_classes, trm_error *error);

enum { TRM_NUM_EXPANSIONS = 2048 };

typedef struct trm_expansion {
  trm_mapping mapping;
  uint32_t alignment; /* 0: the slot is empty */
  uint32_t room;      /* of `bytes` */
  int64_t *bytes;     /* by class of the IPU */
} trm_expansion;

/* Zeros but for the classes: nothing is kept yet. */
typedef struct trm_expansions {
  const trm_tile_classes *classes;
  int64_t *by_tile; /* of an IPU; all 0 between calls */
  trm_expansion slots[TRM_NUM_EXPANSIONS];
  trm_arena arena;
} trm_expansions;

/* Adds the bytes of a mapping, in one of the two alignments, to `by_class`, which has all IPUs'
 * classes. */
void trm_expansions_add(trm_expansions *expansions, const trm_mapping *mapping, int sign,
                        uint32_t alignment, int64_t *by_class);
void trm_expansions_free(trm_expansions *expansions);

#endif /* TREMULA_IPU_PROGRAM_EXPANSIONS_H_ */
