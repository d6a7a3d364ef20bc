/* Moving data on an IPU: exchanges between tiles, copies on a tile, and what brings an operand to
 * where an instruction needs it. */
#ifndef TREMULA_TILE_EXCHANGE_H_
#define TREMULA_TILE_EXCHANGE_H_

#include "tile/cost.h"

static inline int64_t trm_ceil_divide(int64_t a, int64_t b) { return a / b + (a % b > 0); }
static inline int64_t trm_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t trm_most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Cycles of an exchange in which the worst tile receives and sends so much, sync left out. */
int64_t trm_exchange_cycles(const trm_target *target, int64_t bytes_in, int64_t bytes_out);
/* Cycles of copying on one tile, by all its workers, in runs of `run` bytes. */
int64_t trm_copy_cycles(const trm_target *target, int64_t bytes, int64_t run);
/* Vertices that copy so many bytes on one tile: one a worker, as far as there are vectors. */
int64_t trm_copy_vertices(const trm_target *target, int64_t bytes);

/* An exchange phase; adds nothing when no byte moves. Totals are of all tiles. The received bytes
 * are held as messages through this phase and `held` following ones (the caller's to add). */
trm_status trm_tile_add_exchange(const trm_tile_request *request, trm_tile_cost *cost,
                                 const char *name, int64_t in_worst, int64_t in_total,
                                 int64_t out_worst, int64_t messages, trm_error *error);
/* A compute set of copy vertices on `tiles` tiles, the worst copying `worst` bytes in runs. */
trm_status trm_tile_add_copy(const trm_tile_request *request, trm_tile_cost *cost, const char *name,
                             int64_t worst, int64_t total, int64_t run, uint32_t tiles,
                             trm_error *error);

/* What operands that lie elsewhere cost a compute set that works where `place` is: gathered over
 * operands, then one exchange. */
typedef struct trm_tile_incoming {
  int64_t in_worst, in_total, out_worst, messages;
} trm_tile_incoming;
/* Operand `operand`, of which each tile needs the elements that it has of `place`: nothing for
 * constants and for what is there already; a broadcast needs its few elements only. */
void trm_tile_incoming_add(trm_tile_incoming *incoming, const trm_tile_operand *operand,
                           const trm_mapping *place);
trm_status trm_tile_add_incoming(const trm_tile_request *request, trm_tile_cost *cost,
                                 const trm_tile_incoming *incoming, trm_error *error);

/* Brings a whole operand into another mapping: exchange, and a rearranging copy when its elements
 * do not lie in the order in which they are wanted. Adds nothing when it is there. */
trm_status trm_tile_bring(const trm_tile_request *request, trm_tile_cost *cost,
                          const trm_tile_operand *operand, const trm_mapping *wanted,
                          trm_error *error);

/* Shorthand for a compute set of one codelet: `per_tile` vertices on each of `tiles` tiles, the
 * slowest tile taking `cycles`, the mean active one cycles * evenness (0 to 1). */
trm_status trm_tile_add_compute(const trm_tile_request *request, trm_tile_cost *cost,
                                const char *name, const char *codelet, uint32_t tiles,
                                uint32_t per_tile, int64_t cycles, double evenness,
                                uint32_t edges_per_vertex, int64_t flops, trm_error *error);
/* Mean share of the fullest tile's elements, over the tiles in use. */
double trm_mapping_evenness(const trm_mapping *mapping);

#endif /* TREMULA_TILE_EXCHANGE_H_ */
