/* Plans: a graph and a program, made ready to run.
 *
 * What runs has one block of memory for each replica, whose places the plan gives:
 *
 *     bases, states of vertices with their lists and constants, buffers, variables
 *
 * bases[v] is the address of variable v; two more are the block and its buffers, and then follow
 * the arrays of the caller. A variable that is an input or an output of the run is the caller's
 * memory where that can be (plan_ports.c). A vertex has the addresses of its edges in its state;
 * when a variable has moved, its patches are done again. An edge that is not contiguous has a
 * buffer, which is filled before the vertex runs and emptied after.
 *
 * A plan does not change; several replicas run it at once. */
#ifndef TREMULA_POPLAR_PLAN_H_
#define TREMULA_POPLAR_PLAN_H_

#include <pthread.h>

#include "host/ops/kernel.h"
#include "poplar/step.h"

/* The block begins with a word that is not zero once it is filled. */
#define TRM_POPLAR_BASES_BEGIN ((size_t)64)

/* `length` elements from one place to another; offsets and steps are in bytes. */
typedef struct trm_poplar_segment {
  uint32_t from, to; /* bases */
  int64_t from_offset, to_offset, from_step, to_step;
  uint64_t length;
} trm_poplar_segment;

typedef struct trm_poplar_move {
  size_t first;   /* segment */
  uint32_t count; /* of segments */
  uint32_t size;  /* of an element */
  uint64_t elements;
} trm_poplar_move;

typedef struct trm_poplar_patch {
  uint32_t base;
  int64_t offset; /* bytes from the base */
  size_t place;   /* in the block: gets the address */
} trm_poplar_patch;

/* A vertex that runs. */
typedef struct trm_poplar_call {
  trm_codelet_run run;
  const char *name;
  uint32_t workers;
  size_t state;                /* in the block */
  uint32_t first_in, num_in;   /* moves before */
  uint32_t first_out, num_out; /* moves after */
} trm_poplar_call;

typedef struct trm_poplar_set {
  bool is_planned;
  size_t first; /* call */
  uint32_t count;
  uint64_t bytes; /* that the vertices touch */
} trm_poplar_set;

/* A place in memory: bytes from a base. */
typedef struct trm_poplar_place {
  uint32_t base;
  int64_t offset;
} trm_poplar_place;

typedef struct trm_poplar_step_plan {
  uint32_t step;
  uint32_t first_in, num_in; /* moves before */
  trm_poplar_place *operands, result;
  bool has_out; /* the result is moved after */
  uint32_t out;
} trm_poplar_step_plan;

typedef struct trm_poplar_operation {
  trm_poplar_program_kind kind;
  const trm_poplar_program *program; /* the plan holds its root */
  uint32_t number;                   /* move, compute set, step plan */
  trm_poplar_place place;            /* of a predicate, or of what is printed */
  uint32_t next;                     /* operation after this one and its children */
  uint32_t num_parts;                /* children, each a range of operations */
  uint32_t *ends;                    /* of the parts; the first begins after this operation */
} trm_poplar_operation;

/* How an input or output of a run is a variable. */
typedef struct trm_poplar_port {
  uint32_t variable;
  bool is_direct; /* an input: the variable is the caller's array, or with `output` the output's;
                     an output: the variable is the caller's array */
  int32_t output; /* of an input that the program writes: the output that it becomes; -1: none */
  uint32_t move;  /* otherwise: to or from the variable */
  uint32_t over;  /* of an output: the inputs below 32 whose memory it may have, as bits */
} trm_poplar_port;

typedef struct trm_poplar_pool {
  VECTOR(trm_poplar_runner *) free;
} trm_poplar_pool;

typedef struct trm_poplar_plan {
  trm_arena arena;
  trm_poplar_graph *graph;
  trm_poplar_program *program;
  uint32_t num_inputs, num_outputs;
  trm_poplar_tensor **inputs, **outputs; /* one array */
  trm_poplar_port *input_ports, *output_ports;
  VECTOR(trm_poplar_operation) operations;
  VECTOR(trm_poplar_move) moves;
  VECTOR(trm_poplar_segment) segments;
  VECTOR(trm_poplar_call) calls;
  VECTOR(trm_poplar_patch) patches; /* by base */
  size_t *first_patch;              /* by base, and one more */
  VECTOR(trm_poplar_step_plan) steps;
  trm_poplar_set *sets;  /* by compute set */
  VECTOR(uint8_t) image; /* of the states */
  size_t *places;        /* of variables, in the block; SIZE_MAX: none */
  uint32_t num_variables;
  size_t image_begin, buffers_begin, bytes; /* of the block */
  size_t buffer_bytes;
  struct trm_poplar_engine *engine; /* of a plain program; NULL: of an operator */
  /* Lets the host read or write the elements of a stream. */
  trm_status (*serve)(const struct trm_poplar_plan *plan, uint64_t stream, void *elements,
                      trm_error *error);
  pthread_mutex_t lock;   /* guards the pools */
  trm_poplar_pool *pools; /* by library step */
} trm_poplar_plan;

/* Takes references to the graph, the program and the tensors. Inputs are whole variables. Fails
 * with the original's message if vertices of a compute set overlap. */
trm_status trm_poplar_plan_create(trm_poplar_graph *graph, trm_poplar_program *program,
                                  trm_poplar_tensor *const *inputs, uint32_t num_inputs,
                                  trm_poplar_tensor *const *outputs, uint32_t num_outputs,
                                  trm_poplar_plan **out_plan, trm_poplar_error *error);
void trm_poplar_plan_free(trm_poplar_plan *plan);
/* plan_vertices.c. */
trm_status trm_poplar_plan_set(trm_poplar_plan *plan, uint32_t set, trm_poplar_error *error);
/* plan_ports.c. */
trm_status trm_poplar_plan_ports(trm_poplar_plan *plan, trm_poplar_error *error);
/* overlap.c. Fails if a vertex writes what another one of the compute set reads or writes. */
trm_status trm_poplar_check_overlap(const trm_poplar_core *core, uint32_t set,
                                    trm_poplar_error *error);

/* moves.c. Plans a move of tensors of equal types and sizes: the last of the plan's moves. */
trm_status trm_poplar_plan_move(trm_poplar_plan *plan, const trm_poplar_run *from,
                                uint64_t num_from, const trm_poplar_run *to, uint64_t num_to,
                                size_t size, trm_poplar_error *error);
/* A buffer: its offset from the base trm_poplar_buffers(). */
int64_t trm_poplar_plan_buffer(trm_poplar_plan *plan, uint64_t bytes);
static inline uint32_t trm_poplar_block(const trm_poplar_plan *plan) { return plan->num_variables; }
static inline uint32_t trm_poplar_buffers(const trm_poplar_plan *plan) {
  return plan->num_variables + 1;
}
/* Moves elements between places relative to bases. */
void trm_poplar_move_elements(const trm_poplar_plan *plan, char *const *bases, uint32_t move);

/* run.c. Runs the plan: the call's persistent memory is the block. */
trm_status trm_poplar_run_plan(trm_poplar_plan *plan, const trm_kernel_call *call,
                               trm_error *error);

#endif /* TREMULA_POPLAR_PLAN_H_ */
