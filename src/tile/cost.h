/* What one HLO instruction is on an IPU: phases, places of the results, temporaries.
 *
 * Every op family has functions `trm_tile_<family>` (src/ops/<family>/tile_*.c) that fill a
 * trm_tile_cost for an instruction whose operands' places are known. Nothing is enumerated by
 * vertex or by tile: a phase states how many vertices of a codelet it has, the cycles of the worst
 * and of the mean tile, and the bytes that tiles receive and send.
 *
 * The order of phases is the order of execution. A phase of kind COMPUTE is a compute set; EXCHANGE
 * is what moves data between tiles before or after one; COPY is a compute set of copy vertices
 * (Poplar lowers on-tile copies to those). Cycles of a phase do not include sync: the program adds
 * the target's sync delay to each EXCHANGE (src/program/steps.c).
 *
 * Formulas and their sources: docs/cost_model.md. */
#ifndef TREMULA_TILE_COST_H_
#define TREMULA_TILE_COST_H_

#include "tile/mapping.h"

/* ---- Phases --------------------------------------------------------------------------------- */

typedef enum trm_phase_kind {
  TRM_PHASE_COMPUTE,         /* OnTileExecute of vertices that compute */
  TRM_PHASE_COPY,            /* OnTileExecute of copy vertices: rearrangement, regrouping */
  TRM_PHASE_EXCHANGE,        /* DoExchange within the IPU */
  TRM_PHASE_GLOBAL_EXCHANGE, /* between IPUs of one replica */
  TRM_PHASE_CROSS_REPLICA,   /* a collective between replicas */
  TRM_PHASE_HOST_READ,       /* StreamCopy host -> IPU */
  TRM_PHASE_HOST_WRITE,      /* StreamCopy IPU -> host */
  TRM_PHASE_REMOTE_READ,     /* streaming memory -> IPU */
  TRM_PHASE_REMOTE_WRITE,    /* IPU -> streaming memory */
  TRM_PHASE_SYNC,
  TRM_NUM_PHASE_KINDS
} trm_phase_kind;

/* Vertices of one codelet in a compute set. */
typedef struct trm_vertex_group {
  const char *codelet;  /* Poplar's name, "popops::BinaryOp1D<ADD,float>"; in the cost's arena */
  int64_t count;        /* vertices, over all tiles */
  int64_t cycles;       /* of the slowest, a whole tile's: supervisor cycles */
  uint32_t state_bytes; /* of one vertex: struct, edge pointers; always live */
  uint32_t code_bytes;  /* of the codelet on a tile that has it */
} trm_vertex_group;

enum { TRM_MAX_VERTEX_GROUPS = 3 };

/* What the original calls the compute sets of an instruction, and which of them there are, where
 * that is not one of the instruction's own name (src/program/roles.c). */
typedef struct trm_tile_role {
  const char *scope;  /* the TensorFlow op that names them, where it is not the instruction's */
  const char *word;   /* in place of the HLO name: "fusion", "max-pool"; NULL: the HLO name */
  const char *prefix; /* after that: "maxPool5x5"; or NULL */
  const char *last;   /* in place of the compute set's own name: "AddTo"; or NULL */
  const char *copies; /* of its copies, what stands behind the op; or NULL */
  uint32_t *number;   /* behind the word, and one more; 0: none was given yet. Roles of one pattern
                         share it; NULL: nobody does, and there is none yet */
  bool joins;         /* its user's compute set computes it, in the same fusion */
  bool is_absorbed;   /* another instruction's compute set computes it */
  const char *key;    /* of what is shared, what must be equal beside the vertices; or NULL */
  bool is_shared;     /* equal ones are compiled once */
  bool is_plain;      /* the word has no number */
  bool in_half;       /* of a fusion: what comes in and goes out is float16 */
} trm_tile_role;

typedef struct trm_phase {
  trm_phase_kind kind;
  /* The instruction of a fusion's body that it is of, and its role; NULL: of the whole one. */
  const struct trm_instruction *of;
  struct trm_tile_role *role;
  /* The last part of Poplar's name: "Convolve", "ExchangePre"; static or in the arena. */
  const char *name;
  int64_t repeats;     /* runs this often in a row (serial splits); at least 1 */
  int64_t cycles;      /* one run, the worst tile */
  int64_t sync_cycles; /* one run, beside `cycles`; 0: the program adds the target's delay to
                          an EXCHANGE, and none to others */
  double cycles_mean;  /* one run, mean over all tiles of the IPU (idle ones count 0) */
  uint32_t active_tiles;
  int64_t bytes_in_worst, bytes_in_total; /* one run; EXCHANGE and transfers */
  int64_t bytes_out_worst, bytes_out_total;
  int64_t messages_worst; /* fragments that the worst tile sends and receives: exchange code */
  uint32_t num_groups;
  trm_vertex_group groups[TRM_MAX_VERTEX_GROUPS];
  int64_t edges;                            /* all vertices */
  int64_t flops;                            /* one run, all tiles */
  int64_t temporary_worst, temporary_total; /* bytes held during this phase only, beside
                                               operands, results and the cost's own temporaries */
  /* category `message`, else `variable` (COMPUTE) or `rearrangement` (COPY) */
  bool temporary_is_message;
} trm_phase;

/* ---- Requests ------------------------------------------------------------------------------- */

/* Where an operand (one array leaf) is. A view is an array that is no variable of its own: its
 * elements are elements of a variable in another order, or some of them, or repeated. */
typedef struct trm_tile_operand {
  trm_shape shape;      /* as the instruction sees it */
  trm_mapping mapping;  /* of the variable behind it; its layout is that of the view */
  int64_t source_count; /* distinct elements behind it: fewer than the shape's for a broadcast */
  int64_t contiguous;   /* elements in a row in the variable, on average: 1 for a transposed
                           matrix, the whole count for a plain array */
  bool is_view;         /* transposed, sliced, broadcast or put together of several */
  bool is_constant;     /* known when compiling */
  bool is_movable;      /* nothing computes it: it can be allocated where a wish says */
  const void *scalar;   /* the constant's bytes when it is (a broadcast of) a scalar, else NULL */
  /* its variable is not needed after this instruction, and may be written */
  bool dies;
} trm_tile_operand;

/* Planner options, as config options and per-op attributes set them. */
typedef struct trm_tile_options {
  const struct trm_plan_options *convolution, *matmul; /* ops/linear/plan.h */
  double slice_memory_proportion;
  uint32_t solve_block, factor_block; /* of triangular solves, of factorisations; 0: poplin's own */
  uint32_t replicas;                  /* for collectives */
  uint32_t io_tiles;                  /* that a feed goes through; 0: none */
  uint32_t synthetic; /* what is not moved between host and IPU: bits of trm_synthetic */
} trm_tile_options;

typedef struct trm_tile_request {
  const trm_target *target;
  const trm_tile_options *options;
  const trm_module *module;
  const trm_computation *computation;
  const trm_instruction *instruction;
  uint32_t num_operands; /* array leaves of all operands, in order */
  const trm_tile_operand *operands;
  uint32_t ipu;
  uint32_t next_tile;           /* where a linear mapping begins, so that small arrays spread */
  struct trm_plan_cache *plans; /* ops/linear/plan.h; may be NULL */
  trm_tile_role *const *roles;  /* by computation, instruction; or NULL */
} trm_tile_request;

/* ---- Results -------------------------------------------------------------------------------- */

typedef struct trm_tile_result {
  trm_mapping mapping;
  int32_t in_place; /* operand leaf whose variable it is written into; -1: a variable of its own */
} trm_tile_result;

/* Where the plan would like an operand to be: what the allocation of an input or weight follows,
 * and what costs a rearrangement when it is elsewhere. */
typedef enum trm_wish_kind { /* the more demanding wins */
                             TRM_WISH_NONE,
                             TRM_WISH_FOLLOW,     /* to lie where another operand lies */
                             TRM_WISH_ACTIVATION, /* what a convolution or matmul reads */
                             TRM_WISH_TABLE,      /* what is sliced */
                             TRM_WISH_WEIGHTS /* what a convolution's or matmul's vertices hold */
} trm_wish_kind;

typedef struct trm_tile_wish {
  uint32_t operand;
  trm_mapping mapping;
  trm_wish_kind kind;
} trm_tile_wish;

typedef struct trm_tile_cost {
  trm_arena *arena;                         /* the caller's: names and phases live there */
  VECTOR(trm_phase) phases;                 /* freed by trm_tile_cost_free */
  uint32_t num_results;                     /* array leaves of the instruction's shape */
  trm_tile_result *results;                 /* in the arena */
  int64_t temporary_worst, temporary_total; /* bytes held over the whole instruction */
  uint32_t num_wishes;
  trm_tile_wish wishes[4];
  const char *plan; /* one line of text on what was chosen, or NULL; in the arena */
  const char *note; /* a fallback that the user must hear of, or NULL */
} trm_tile_cost;

void trm_tile_cost_free(trm_tile_cost *cost);
/* Appends a phase with repeats 1 and all else as given. */
trm_status trm_tile_cost_add(trm_tile_cost *cost, const trm_phase *phase, trm_error *error);
/* Allocates results, with the default (linear, no in place). */
trm_status trm_tile_cost_begin(trm_tile_cost *cost, const trm_tile_request *request,
                               trm_error *error);

/* ---- The families --------------------------------------------------------------------------- */

/* Elementwise instructions, kLoop fusions of them, convert, iota, map. */
trm_status trm_tile_elementwise(const trm_tile_request *request, trm_tile_cost *cost,
                                trm_error *error);
trm_status trm_tile_reduce(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_reduce_window(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_select_and_scatter(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_batch_norm(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_sort(const trm_tile_request *, trm_tile_cost *, trm_error *); /* and topk */
trm_status trm_tile_scan(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_slice(const trm_tile_request *, trm_tile_cost *, trm_error *); /* dynamic */
trm_status trm_tile_gather(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_scatter(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_pad(const trm_tile_request *, trm_tile_cost *, trm_error *);
/* A view made an array of its own: copies, dynamic-reshape. */
trm_status trm_tile_copy(const trm_tile_request *, trm_tile_cost *, trm_error *);
/* A concatenation that is written, for it has too many sources to be looked up in. */
trm_status trm_tile_concatenate(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_random(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_convolution(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_dot(const trm_tile_request *, trm_tile_cost *, trm_error *);
/* cholesky, triangular-solve, QR */
trm_status trm_tile_algebra(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_fft(const trm_tile_request *, trm_tile_cost *, trm_error *);
/* Collectives between replicas, sends and receives, feeds, remote buffers. */
trm_status trm_tile_collective(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_transfer(const trm_tile_request *, trm_tile_cost *, trm_error *);

#endif /* TREMULA_TILE_COST_H_ */
