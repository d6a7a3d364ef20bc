/* The graph: variables with their tiles, compute sets, vertices.
 *
 *   views.c       tensors
 *   graph.c       graphs and compute sets
 *   variables.c   variables and constants
 *   mapping.c     their tiles
 *   convert.c     numbers of one type as another
 *   codelets.c    the vertices that can be added: .gp files, sources that popc compiles
 *   vertex.c      vertices and their fields
 *   program.c     programs
 *   expression.c  library steps: elementwise expressions as HLO
 *   library.c     products and reductions as HLO
 *   slices.c      slices at indices as HLO
 *   step.c        running a library step by Tremula's kernels
 *   plan*.c       a graph and a program as what runs: operations, vertices, inputs and outputs
 *   overlap.c     the check of a compute set
 *   moves.c       copies of elements
 *   run.c         running a plan
 *   engine.c      engines of plain programs, and their streams
 *   save.c        engines as bytes
 *   api.c         the table of functions
 *   build.c       what Build of a user's library made, once for each instruction
 *   adapter.c     the custom call tremula.user-op
 *   estimate.c    the same for an IPU
 *   profile.c     what a plain program costs on an IPU, as a text
 *
 * A virtual graph shares all that a graph has and sees some of its tiles. */
#ifndef TREMULA_POPLAR_GRAPH_H_
#define TREMULA_POPLAR_GRAPH_H_

#include <string.h>

#include "poplar/views.h"
#include "tremula/poplar_codelet.h"
#include "tremula/target.h"

#define TRM_POPLAR_NO_TILE UINT32_MAX

/* Elements of a variable on a tile. */
typedef struct trm_poplar_placed {
  uint64_t begin, end;
  uint32_t tile;
} trm_poplar_placed;

typedef struct trm_poplar_variable {
  const char *name;
  trm_dtype dtype;
  uint64_t elements;
  bool is_constant;
  void *initial; /* contents before the first run; NULL: zeros */
  /* By begin, without overlaps. */
  VECTOR(trm_poplar_placed) places;
} trm_poplar_variable;

/* A value or an edge of a vertex. */
typedef struct trm_poplar_binding {
  uint32_t field;
  int64_t index;             /* of an element of a LISTS field; -1: the field */
  trm_poplar_tensor *tensor; /* NULL: a value or a size */
  void *data;                /* of the field's type */
  uint64_t count;            /* elements of data; of a LISTS field without data its size */
} trm_poplar_binding;

typedef struct trm_poplar_vertex {
  const trm_codelet_vertex *codelet;
  uint32_t compute_set, tile;
  bool is_estimated; /* setPerfEstimate */
  uint64_t cycles, flops;
  VECTOR(trm_poplar_binding) bindings;
} trm_poplar_vertex;

typedef struct trm_poplar_compute_set {
  const char *name;
  VECTOR(uint32_t) vertices;
} trm_poplar_compute_set;

typedef struct trm_poplar_estimator {
  const char *codelet;
  trm_poplar_perf_estimator function;
  void *user;
  void (*release)(void *user);
} trm_poplar_estimator;

/* A .gp file that is loaded. */
typedef struct trm_poplar_codelets {
  void *library; /* NULL: the table is the caller's */
  const trm_codelet_table *table;
  char *bytes; /* of the file */
  size_t size;
} trm_poplar_codelets;

/* A stream between the host and the program, or a host read or write. */
typedef struct trm_poplar_stream {
  const char *handle;
  bool to_device;
  trm_poplar_tensor *elements; /* pass through this variable */
  trm_poplar_program *access;  /* of a host read or write; NULL: a stream */
} trm_poplar_stream;

/* A vertex, as a function of registerPerfEstimator sees it. */
struct trm_poplar_introspector {
  const trm_poplar_vertex *vertex;
};

/* What virtual graphs share. */
typedef struct trm_poplar_core {
  uint32_t references;
  trm_arena arena; /* names */
  trm_target *target;
  const char *target_name; /* that it was loaded by; "": the usual */
  uint32_t num_ipus, tiles_per_ipu;
  VECTOR(trm_poplar_variable) variables;
  VECTOR(trm_poplar_compute_set) compute_sets;
  VECTOR(trm_poplar_vertex) vertices;
  VECTOR(trm_poplar_estimator) estimators;
  VECTOR(trm_poplar_codelets) codelets;
  VECTOR(trm_poplar_stream) streams;
  VECTOR(const char *) loaded;            /* paths given to addCodelets */
  VECTOR(struct trm_poplar_step *) steps; /* library steps, by number */
} trm_poplar_core;

struct trm_poplar_graph {
  uint32_t references;
  trm_poplar_core *core;
  uint32_t num_tiles;
  uint32_t *tiles; /* of the core; NULL: all, in order */
};

/* A copy of a name, which may be NULL; NULL when memory runs out. */
static inline const char *trm_poplar_name(trm_poplar_core *core, const char *name) {
  return trm_arena_string(&core->arena, name == NULL ? "" : name, name == NULL ? 0 : strlen(name));
}

/* variables.c. The variable of a tensor that is the whole of one; else NULL. */
trm_poplar_variable *trm_poplar_whole_variable(const trm_poplar_core *core,
                                               const trm_poplar_tensor *tensor);
/* Fails unless the tensor's variables may be written. */
trm_status trm_poplar_check_written(const trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                    const char *what, trm_poplar_error *error);

/* mapping.c. The tile of an element; it has those up to *out_end too. */
uint32_t trm_poplar_tile_at(const trm_poplar_variable *variable, uint64_t offset,
                            uint64_t *out_end);

/* codelets.c. */
/* Vertices of a table that outlives the graph. */
trm_status trm_poplar_add_table(trm_poplar_graph *graph, const trm_codelet_table *table,
                                trm_poplar_error *error);
const trm_codelet_vertex *trm_poplar_find_codelet(const trm_poplar_core *core, const char *name);
/* Those of a .gp file with the bytes. */
trm_status trm_poplar_load_codelets(trm_poplar_core *core, const char *bytes, size_t size,
                                    trm_poplar_error *error);
void trm_poplar_close_codelets(trm_poplar_codelets *codelets);

/* vertex.c. */
void trm_poplar_vertex_free(trm_poplar_vertex *vertex);
/* The binding of a field, or NULL. */
const trm_poplar_binding *trm_poplar_bound(const trm_poplar_vertex *vertex, uint32_t field,
                                           int64_t index);
/* The elements of a LISTS field. */
uint64_t trm_poplar_list_size(const trm_poplar_vertex *vertex, uint32_t field);
/* What setPerfEstimate or a function of registerPerfEstimator says; false: nothing does. */
bool trm_poplar_estimate_vertex(const trm_poplar_core *core, const trm_poplar_vertex *vertex,
                                uint64_t *out_cycles, uint64_t *out_flops);
/* Fails if an edge of the vertex is not connected. */
trm_status trm_poplar_check_vertex(const trm_poplar_core *core, const trm_poplar_vertex *vertex,
                                   trm_poplar_error *error);

/* program.c. Programs are trees, as Poplar's program classes make them. A program that others refer
 * to does not change, so trees share parts. */
struct trm_poplar_program {
  uint32_t references;
  trm_poplar_program_kind kind;
  trm_poplar_tensor *tensors[2];
  VECTOR(trm_poplar_program *) children; /* NULL: nothing */
  VECTOR(int32_t) cases;
  uint64_t number;
  char *text; /* a name or a title */
};

/* Adds the library step `number` to a sequence. */
trm_status trm_poplar_add_step(trm_poplar_program **sequence, uint64_t number, const char *name,
                               trm_poplar_error *error);

/* convert.c. Converts `count` elements from one type to another; from_count 1 fills. */
trm_status trm_poplar_convert(int32_t to, void *target, uint64_t count, int32_t from,
                              const void *source, uint64_t from_count, trm_poplar_error *error);
/* An element as a double. */
double trm_poplar_number(int32_t dtype, const void *data, uint64_t element);

#endif /* TREMULA_POPLAR_GRAPH_H_ */
