/* The cost of one HLO instruction on an IPU: phases, the places of the results, temporaries.
 *
 * Every op family has functions `trm_tile_<family>` (src/ipu/costs). Such a function
 * fills a trm_tile_cost for an instruction whose operands have known places. Costs do not list
 * vertices or tiles one by one: a phase says how many vertices of a codelet it has, the cycles of
 * the slowest tile and of the mean tile, and the bytes that tiles receive and send.
 *
 * Phases are in order of execution. A COMPUTE phase is a compute set. An EXCHANGE phase moves data
 * between tiles before or after a compute set. A COPY phase is a compute set of copy vertices, to
 * which Poplar lowers copies on a tile. The cycles of a phase leave out sync: the program adds the
 * target's sync delay to each EXCHANGE (src/ipu/program/steps.c).
 *
 * docs/cost_model.md has the formulas and their sources. */
#ifndef TREMULA_IPU_TILE_COST_H_
#define TREMULA_IPU_TILE_COST_H_

#include "hlo/library_call.h"
#include "ipu/tile/mapping.h"

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
  TRM_PHASE_SYNC
} trm_phase_kind;

/* Vertices of one codelet in a compute set. */
typedef struct trm_vertex_group {
  const char *codelet;  /* Poplar's name, "popops::BinaryOp1D<ADD,float>"; in the cost's arena */
  int64_t count;        /* vertices, over all tiles */
  int64_t cycles;       /* of the slowest tile, in supervisor cycles */
  uint32_t state_bytes; /* of one vertex: fields and edge pointers, which are always live */
  uint32_t array_bytes; /* of these, fields that are arrays: lists, pointers of vectors of edges */
  uint32_t code_bytes;  /* of the codelet, on each tile that uses it */
} trm_vertex_group;

enum { TRM_MAX_VERTEX_GROUPS = 3, TRM_MAX_FREED = 2 };

/* How Poplar's programs name the compute sets of an instruction, and whether it has any. Only
 * instructions whose compute sets do not have the instruction's own name have a role
 * (src/ipu/program/roles.c). */
typedef struct trm_tile_role {
  trm_library_call call;
  uint32_t *number; /* of a word that is not plain: the number after it, plus 1. The roles of one
                       pattern share a number */
} trm_tile_role;

typedef struct trm_phase {
  trm_phase_kind kind;
  /* In a fusion: the instruction of the body that this phase computes, and its role. NULL: the
   * phase computes all of it. */
  const struct trm_instruction *of;
  struct trm_tile_role *role;
  /* The last part of Poplar's name: "Convolve", "ExchangePre"; static or in the arena. */
  const char *name;
  int64_t repeats;     /* the phase runs this often in a row (serial splits); at least 1 */
  int64_t cycles;      /* one run, the worst tile */
  int64_t sync_cycles; /* of one run, in addition to `cycles`; 0: the program adds the target's
                          delay to an EXCHANGE, and none to other phases */
  double cycles_mean;  /* one run, mean over all tiles of the IPU (idle ones count 0) */
  uint32_t active_tiles, first_tile;      /* consecutive tiles: trm_tile_cost_place */
  int64_t bytes_in_worst, bytes_in_total; /* one run; EXCHANGE and transfers */
  int64_t bytes_out_worst, bytes_out_total;
  int64_t messages_worst; /* messages that the worst tile sends and receives; exchange code grows
                             with them */
  uint32_t num_groups;
  trm_vertex_group groups[TRM_MAX_VERTEX_GROUPS];
  int64_t edges;  /* all vertices */
  int64_t flops;  /* one run, all tiles */
  uint32_t frees; /* bit k: no phase after this one reads operand leaf k, k < TRM_MAX_FREED */
  int64_t temporary_worst, temporary_total; /* bytes that only this phase holds */
  /* category `message`, else `variable` (COMPUTE) or `rearrangement` (COPY) */
  bool temporary_is_message;
  bool is_between_domains; /* of a CROSS_REPLICA: over GW-Links */
} trm_phase;

/* ---- Requests ------------------------------------------------------------------------------- */

/* Where an operand (one array leaf) is. A view is an array without a variable of its own: its
 * elements are those of another variable in another order, a part of them, or repetitions of them.
 */
typedef struct trm_tile_operand {
  trm_shape shape;      /* as the instruction sees it */
  trm_mapping mapping;  /* of the variable behind the operand; the layout is the view's */
  int64_t source_count; /* distinct elements; a broadcast has fewer than its shape */
  int64_t contiguous;   /* mean number of consecutive elements in the variable: 1 for a transposed
                           matrix, the whole count for a plain array */
  bool is_view;         /* transposed, sliced, broadcast or concatenated */
  bool is_constant;     /* known when compiling */
  bool is_movable;      /* nothing computes the operand: it is allocated where a preference says */
  const void *scalar;   /* bytes of a scalar constant or its broadcast; else NULL */
  /* Nothing needs its variable after this instruction, so the instruction may overwrite it. */
  bool dies;
} trm_tile_operand;

/* Planner options, as config options and per-op attributes set them. */
typedef struct trm_tile_options {
  const struct trm_plan_options *convolution, *matmul; /* ipu/plan/plan.h */
  double slice_memory_proportion;
  uint32_t solve_block, factor_block; /* of triangular solves, of factorisations; 0: poplin's own */
  uint32_t replicas;                  /* for collectives */
  uint32_t replica_ipus;              /* IPUs of each; 0: one */
  uint32_t io_tiles;                  /* tiles that carry feeds; 0: none */
  uint32_t synthetic; /* transfers between host and IPU that are left out: bits of trm_synthetic */
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
  struct trm_plan_cache *plans; /* ipu/plan/plan.h; may be NULL */
  trm_tile_role *const *roles;  /* by computation, instruction; or NULL */
  uint32_t shards; /* replicas that share the elements: each computes 1/shards of an elementwise
                      instruction, and has 1/shards of an all-reduce's result. 0: not shared */
  /* By result leaf: the operand leaf whose new value it is, as of a weight; -1: none. Or NULL. */
  const int32_t *replaced;
} trm_tile_request;

/* ---- Results -------------------------------------------------------------------------------- */

typedef struct trm_tile_result {
  trm_mapping mapping;
  int32_t in_place; /* the operand leaf whose variable the result overwrites; -1: the result has a
                       variable of its own */
} trm_tile_result;

/* Where the plan of an instruction wants an operand, the most demanding kind last. Inputs and
 * weights are allocated where the most demanding preference says; an operand that lies elsewhere
 * costs a rearrangement. */
typedef enum trm_preference_kind {
  TRM_PREFERENCE_NONE,
  TRM_PREFERENCE_FOLLOW,     /* where another operand lies */
  TRM_PREFERENCE_ACTIVATION, /* data of a convolution or matmul */
  TRM_PREFERENCE_TABLE,      /* the table of a slice or a gather */
  TRM_PREFERENCE_WEIGHTS     /* weights that vertices of these hold */
} trm_preference_kind;

typedef struct trm_tile_preference {
  uint32_t operand;
  trm_mapping mapping;
  trm_preference_kind kind;
} trm_tile_preference;

enum { TRM_MULTI_CONV_MEMBERS = 8, TRM_MAX_PREFERENCES = 2 * TRM_MULTI_CONV_MEMBERS };

typedef struct trm_tile_cost {
  trm_arena *arena;         /* the caller's; names live in it */
  VECTOR(trm_phase) phases; /* freed by trm_tile_cost_free */
  uint32_t num_results;     /* array leaves of the instruction's shape */
  trm_tile_result *results; /* freed by trm_tile_cost_free */
  bool is_result_updated;   /* each iteration of the phases that repeat writes a part of it */
  int64_t temporary_worst, temporary_total; /* bytes that are live over the whole instruction */
  uint32_t num_preferences;
  trm_tile_preference preferences[TRM_MAX_PREFERENCES];
  const char *plan; /* one line of text about the chosen plan, or NULL; in the arena */
  const char *note; /* a message about a fallback, for the user, or NULL */
} trm_tile_cost;

void trm_tile_cost_free(trm_tile_cost *cost);
/* Appends a copy of the phase, with `repeats` 1. */
trm_status trm_tile_cost_add(trm_tile_cost *cost, const trm_phase *phase, trm_error *error);
/* Sets the first tile of each phase. Vertices are where an array is that lies on as many tiles: a
 * result, an operand; else they begin where the first result does. An exchange is where its data
 * are read. */
void trm_tile_cost_place(trm_tile_cost *cost, const trm_tile_request *request);
/* Allocates the results: each in a variable of its own, with a linear mapping. */
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
/* Copies, which make an array of a view, and dynamic-reshape. */
trm_status trm_tile_copy(const trm_tile_request *, trm_tile_cost *, trm_error *);
/* A concatenation of so many arrays that it is written out, instead of being a view. */
trm_status trm_tile_concatenate(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_random(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_convolution(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_multi_convolution(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_dot(const trm_tile_request *, trm_tile_cost *, trm_error *);
/* cholesky, triangular-solve, QR */
trm_status trm_tile_algebra(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_fft(const trm_tile_request *, trm_tile_cost *, trm_error *);
/* The number of replicas in a group of a collective. */
int64_t trm_tile_group_size(const trm_tile_request *request);
/* Adds the all-gather of an array of `bytes` of which each of request->shards replicas has a shard.
 */
trm_status trm_tile_gather_shards(const trm_tile_request *request, trm_tile_cost *cost,
                                  int64_t bytes, trm_error *error);
/* Collectives between replicas, sends and receives, feeds, remote buffers. */
trm_status trm_tile_collective(const trm_tile_request *, trm_tile_cost *, trm_error *);
trm_status trm_tile_transfer(const trm_tile_request *, trm_tile_cost *, trm_error *);
/* A layer above has it. Of an operation of which nothing is known it leaves cost->results NULL. */
trm_status trm_tile_user_op(const trm_tile_request *, trm_tile_cost *, trm_error *);

#endif /* TREMULA_IPU_TILE_COST_H_ */
