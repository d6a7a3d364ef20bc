/* Moving data on an IPU: exchanges between tiles, copies on a tile, and transfers of operands to
 * the tiles that read them. */
#ifndef TREMULA_IPU_TILE_EXCHANGE_H_
#define TREMULA_IPU_TILE_EXCHANGE_H_

#include "base/integers.h"
#include "ipu/tile/cost.h"

static inline int64_t trm_ceil_divide(int64_t a, int64_t b) { return a / b + (a % b > 0); }
static inline int64_t trm_most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Vertices that copy this many bytes on one tile: one for each worker, as long as each has a
 * vector. */
int64_t trm_copy_vertices(const trm_target *target, int64_t bytes);

/* Adds an exchange phase, or nothing when no byte moves. Totals are over all tiles. The received
 * bytes are messages that are live in this phase; the caller says so of the phases after it. */
trm_status trm_tile_add_exchange(const trm_tile_request *request, trm_tile_cost *cost,
                                 const char *name, int64_t in_worst, int64_t in_total,
                                 int64_t out_worst, int64_t messages, trm_error *error);
/* Adds a compute set of copy vertices on `tiles` tiles. The worst tile copies `worst` bytes in
 * runs. */
trm_status trm_tile_add_copy(const trm_tile_request *request, trm_tile_cost *cost, const char *name,
                             int64_t worst, int64_t total, int64_t run, uint32_t tiles,
                             trm_error *error);

/* The exchange that brings operands to a compute set whose result lies at `place`: summed up over
 * the operands, then added as one phase. */
typedef struct trm_tile_incoming {
  int64_t in_worst, in_total, out_worst, messages;
} trm_tile_incoming;
/* Adds an operand. Each tile needs the elements at the places of its share of `place`. Constants,
 * and elements that lie there already, cost nothing; a broadcast costs its distinct elements only.
 */
void trm_tile_incoming_add(trm_tile_incoming *incoming, const trm_tile_operand *operand,
                           const trm_mapping *place);
trm_status trm_tile_add_incoming(const trm_tile_request *request, trm_tile_cost *cost,
                                 const trm_tile_incoming *incoming, trm_error *error);

/* Brings a whole operand into another mapping: an exchange, then a copy if the elements arrive in
 * another order than the wanted one. Adds nothing if the operand lies there already. */
trm_status trm_tile_bring(const trm_tile_request *request, trm_tile_cost *cost,
                          const trm_tile_operand *operand, const trm_mapping *wanted,
                          trm_error *error);

/* Brings an operand that the instruction only reads: its copy is a temporary of all phases. */
trm_status trm_tile_bring_to_read(const trm_tile_request *request, trm_tile_cost *cost,
                                  const trm_tile_operand *operand, const trm_mapping *wanted,
                                  trm_error *error);

/* Adds a compute set of one codelet: `per_tile` vertices on each of `tiles` tiles. The slowest tile
 * takes `cycles`, the mean active tile cycles * evenness (0 to 1). */
trm_status trm_tile_add_compute(const trm_tile_request *request, trm_tile_cost *cost,
                                const char *name, const char *codelet, uint32_t tiles,
                                uint32_t per_tile, int64_t cycles, double evenness,
                                uint32_t edges_per_vertex, int64_t flops, trm_error *error);
/* The mean over the tiles in use of their elements, as a share of the fullest tile's. */
double trm_mapping_evenness(const trm_mapping *mapping);

#endif /* TREMULA_IPU_TILE_EXCHANGE_H_ */
