/* Poplar's headers over Tremula: the functions that the inline C++ headers (poplar/, popops/, ...)
 * call, and the functions in a user's library that Tremula calls.
 *
 * Nobody else needs this header. The C++ headers make classes of it: poplar::Graph holds a
 * trm_poplar_graph, poplar::Tensor a trm_poplar_tensor, poplar::program::Program a
 * trm_poplar_program.
 *
 * Ownership. Graphs, tensors and programs are counted: a function that gives one gives a reference
 * (out_x), which the caller releases. Arguments are never taken over. NULL is the null Tensor, and
 * may be released. A graph outlives its tensors: whoever holds a tensor holds its graph. Counting
 * is for one thread at a time.
 *
 * Compute sets, vertices and virtual graphs belong to their graph. Tensors and programs never
 * change, except that sequence_add changes the sequence that its caller alone refers to.
 *
 * Failures. A function that can fail returns 0 or one of TensorFlow's status codes, and writes the
 * error (never NULL); outputs are untouched then. The C++ headers throw error->what by its kind.
 *
 * Types are the numbers of tremula/dtype.def: BOOL 1 (pred), CHAR and SIGNED_CHAR 2, SHORT 3, INT
 * 4, LONGLONG 5, UNSIGNED_CHAR 6, UNSIGNED_SHORT 7, UNSIGNED_INT 8, UNSIGNED_LONGLONG 9, HALF 10,
 * FLOAT 11. Names (debug names) may be NULL. The file is C11 and C++11. */
#ifndef TREMULA_POPLAR_H_
#define TREMULA_POPLAR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header that a library was compiled with. Later versions of the table have
 * more members at the end; `size` tells which there are. */
#define TRM_POPLAR_VERSION 2

typedef struct trm_poplar_graph trm_poplar_graph;
typedef struct trm_poplar_tensor trm_poplar_tensor;
typedef struct trm_poplar_program trm_poplar_program;
typedef struct trm_poplar_introspector trm_poplar_introspector;
typedef struct trm_poplar_engine trm_poplar_engine;

/* The class of the exception that a failure is. */
typedef enum trm_poplar_error_kind {
  TRM_POPLAR_ERROR = 0,               /* poplar::poplar_error */
  TRM_POPLAR_ERROR_CONNECTION = 1,    /* poplar::graph_connection_error */
  TRM_POPLAR_ERROR_CYCLE = 2,         /* poplar::graph_cycle_error */
  TRM_POPLAR_ERROR_FILE = 3,          /* poplar::file_load_error */
  TRM_POPLAR_ERROR_TYPE = 4,          /* poplar::type_error */
  TRM_POPLAR_ERROR_TILE_MAPPING = 5,  /* poplar::invalid_tile_mapping */
  TRM_POPLAR_ERROR_INDEX = 6,         /* poplar::index_error */
  TRM_POPLAR_ERROR_NO_SUCH_FIELD = 7, /* poplar::graph_object_load_error */
  TRM_POPLAR_ERROR_LIBRARY = 8        /* poputil::poplibs_error: of library steps */
} trm_poplar_error_kind;

typedef struct trm_poplar_error {
  uint32_t kind;
  char what[2044]; /* a C string */
} trm_poplar_error;

/* Elements [begin, end) of a flattened tensor, and their tile. */
typedef struct trm_poplar_interval {
  uint64_t begin, end;
  uint32_t tile;
} trm_poplar_interval;

typedef struct trm_poplar_tensor_info {
  int32_t dtype;
  uint32_t rank;
  const uint64_t *dims; /* live as long as the tensor */
  uint64_t elements;
} trm_poplar_tensor_info;

/* A node of an expression; operands are nodes before it. */
typedef enum trm_poplar_node_kind {
  TRM_POPLAR_NODE_PLACEHOLDER = 0, /* tensor number `value.index`, from 0: expr::_1 is 0 */
  TRM_POPLAR_NODE_CONST = 1,       /* a number of type dtype: value.real of floats, else
                                      value.integer */
  TRM_POPLAR_NODE_UNARY = 2,       /* `op` is a trm_poplar_unary */
  TRM_POPLAR_NODE_BINARY = 3,
  TRM_POPLAR_NODE_TERNARY = 4,
  TRM_POPLAR_NODE_CAST = 5, /* to dtype */
  /* A number of no type of its own, such as a literal 2 or 0.5 in an expression or the scale of
   * scaledAddTo(..., float): it takes the type of the operand beside it. value.real. */
  TRM_POPLAR_NODE_NUMBER = 6
} trm_poplar_node_kind;

typedef struct trm_poplar_node {
  uint32_t kind, op;
  int32_t dtype;
  uint32_t operands[3];
  union {
    double real;
    int64_t integer;
    uint64_t index;
  } value;
} trm_poplar_node;

/* The numbers of tremula/poplar_op.def, each kind from 0. */
typedef enum trm_poplar_unary {
#define POPLAR_UNARY(ID, Class, function) TRM_POPLAR_UNARY_##ID,
#include "tremula/poplar_op.def"
  TRM_POPLAR_NUM_UNARY
} trm_poplar_unary;
typedef enum trm_poplar_binary {
#define POPLAR_BINARY(ID, Class, function) TRM_POPLAR_BINARY_##ID,
#include "tremula/poplar_op.def"
  TRM_POPLAR_NUM_BINARY
} trm_poplar_binary;
typedef enum trm_poplar_ternary {
#define POPLAR_TERNARY(ID, Class, function) TRM_POPLAR_TERNARY_##ID,
#include "tremula/poplar_op.def"
  TRM_POPLAR_NUM_TERNARY
} trm_poplar_ternary;

/* popops::Operation. */
typedef enum trm_poplar_reduction {
  TRM_POPLAR_REDUCE_ADD = 0,
  TRM_POPLAR_REDUCE_MUL = 1,
  TRM_POPLAR_REDUCE_MIN = 2,
  TRM_POPLAR_REDUCE_MAX = 3,
  TRM_POPLAR_REDUCE_LOGICAL_AND = 4,
  TRM_POPLAR_REDUCE_LOGICAL_OR = 5,
  TRM_POPLAR_REDUCE_SQUARE_ADD = 6,
  TRM_POPLAR_REDUCE_LOG_ADD = 7
} trm_poplar_reduction;

/* What step_multi_update does with a slice. */
typedef enum trm_poplar_update {
  TRM_POPLAR_UPDATE_SET = 0,
  TRM_POPLAR_UPDATE_ADD = 1,
  TRM_POPLAR_UPDATE_MAX = 2
} trm_poplar_update;

/* Of add_variable and clone: who maps the new variable. */
typedef enum trm_poplar_placing {
  TRM_POPLAR_PLACE_NONE = 0,  /* the caller will */
  TRM_POPLAR_PLACE_LINEAR = 1 /* VariableMappingMethod::LINEAR */
} trm_poplar_placing;

/* registerPerfEstimator: fills in cycles and flops, and returns 0; it throws nothing. */
typedef int32_t (*trm_poplar_perf_estimator)(void *user, trm_poplar_introspector *vertex,
                                             uint64_t *out_cycles, uint64_t *out_flops);

/* Reads or writes the elements of a stream, each time that a program copies to or from it. Returns
 * 0, or another number if it failed; it throws nothing. */
typedef int32_t (*trm_poplar_host_function)(void *user, void *elements);

typedef struct trm_poplar_api {
  uint32_t size;    /* of this struct, in bytes */
  uint32_t version; /* TRM_POPLAR_VERSION */

  /* ---- Counting. release(NULL) does nothing. `release_block` frees arrays and texts. ---- */
  void (*graph_retain)(trm_poplar_graph *graph);
  void (*graph_release)(trm_poplar_graph *graph);
  void (*tensor_retain)(trm_poplar_tensor *tensor);
  void (*tensor_release)(trm_poplar_tensor *tensor);
  void (*program_retain)(trm_poplar_program *program);
  void (*program_release)(trm_poplar_program *program);
  void (*block_release)(void *block);

  /* ---- Graph ---- */
  /* A fact of the graph's target, by key: "numIPUs", "tilesPerIPU", "numTiles" (of this graph,
   * which may be virtual), "numWorkerContexts", "bytesPerTile", "tileClockFrequency"; false: there
   * is no such fact. */
  bool (*graph_target)(const trm_poplar_graph *graph, const char *key, double *out_number);
  /* A graph of the parent's tiles tiles[0..num_tiles): tile i of it is the parent's tiles[i]. Its
   * tensors and the parent's are the same. */
  int32_t (*graph_virtual)(trm_poplar_graph *parent, const uint32_t *tiles, uint32_t num_tiles,
                           trm_poplar_graph **out_graph, trm_poplar_error *error);
  int32_t (*add_variable)(trm_poplar_graph *graph, int32_t dtype, const uint64_t *dims,
                          uint32_t rank, int32_t placing, const char *name,
                          trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  /* data: `elements` numbers of data_dtype, which are converted to dtype; 1 element fills the
   * constant. */
  int32_t (*add_constant)(trm_poplar_graph *graph, int32_t dtype, const uint64_t *dims,
                          uint32_t rank, int32_t data_dtype, const void *data, uint64_t elements,
                          const char *name, trm_poplar_tensor **out_tensor,
                          trm_poplar_error *error);
  /* A new variable with the tensor's shape and tiles. */
  int32_t (*clone)(trm_poplar_graph *graph, int32_t dtype, const trm_poplar_tensor *tensor,
                   const char *name, trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  /* The contents of variables before the first run; data as in add_constant. */
  int32_t (*set_initial_tensor)(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                int32_t data_dtype, const void *data, uint64_t elements,
                                trm_poplar_error *error);
  /* Intervals are of the flattened tensor; they need not cover it. */
  int32_t (*set_tile_mapping)(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                              const trm_poplar_interval *intervals, uint64_t count,
                              trm_poplar_error *error);
  /* By tile, then begin; free *out_intervals with block_release. Fails with INVALID_TILE_MAPPING if
   * an element has no tile and `complete`. */
  int32_t (*get_tile_mapping)(const trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                              bool complete, trm_poplar_interval **out_intervals,
                              uint64_t *out_count, trm_poplar_error *error);
  /* poputil::mapTensorLinearly: at least min_elements on a tile, in multiples of grain; 0: the
   * defaults. */
  int32_t (*map_linearly)(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                          uint64_t min_elements, uint64_t grain, uint32_t first_tile,
                          trm_poplar_error *error);
  int32_t (*add_compute_set)(trm_poplar_graph *graph, const char *name, uint32_t *out_compute_set,
                             trm_poplar_error *error);
  /* A .gp, or a C++ source, which popc compiles with `options`. */
  int32_t (*add_codelets)(trm_poplar_graph *graph, const char *path, const char *options,
                          trm_poplar_error *error);
  /* The same of a source's text. */
  int32_t (*add_codelets_text)(trm_poplar_graph *graph, const char *text, const char *options,
                               trm_poplar_error *error);

  /* ---- Vertices. `index`: of an element of a LISTS field, v["f"][index]; -1: the field ---- */
  int32_t (*add_vertex)(trm_poplar_graph *graph, uint32_t compute_set, const char *codelet,
                        uint32_t *out_vertex, trm_poplar_error *error);
  int32_t (*connect)(trm_poplar_graph *graph, uint32_t vertex, const char *field, int64_t index,
                     const trm_poplar_tensor *tensor, trm_poplar_error *error);
  /* Each tensor is an element of a LISTS field; of an EDGES field they are one after the other. */
  int32_t (*connect_list)(trm_poplar_graph *graph, uint32_t vertex, const char *field,
                          const trm_poplar_tensor *const *tensors, uint64_t count,
                          trm_poplar_error *error);
  int32_t (*set_field_size)(trm_poplar_graph *graph, uint32_t vertex, const char *field,
                            int64_t index, uint64_t size, trm_poplar_error *error);
  /* Converts from dtype to the field's type. HALF data are halves. */
  int32_t (*set_initial_value)(trm_poplar_graph *graph, uint32_t vertex, const char *field,
                               int64_t index, int32_t dtype, const void *data, uint64_t elements,
                               trm_poplar_error *error);
  int32_t (*set_vertex_tile)(trm_poplar_graph *graph, uint32_t vertex, uint32_t tile,
                             trm_poplar_error *error);
  int32_t (*set_perf_estimate)(trm_poplar_graph *graph, uint32_t vertex, uint64_t cycles,
                               uint64_t flops, trm_poplar_error *error);
  /* The graph calls release(user) once, also on failure. */
  int32_t (*register_perf_estimator)(trm_poplar_graph *graph, const char *codelet,
                                     trm_poplar_perf_estimator estimator, void *user,
                                     void (*release)(void *user), trm_poplar_error *error);
  /* Of a vertex that is estimated: its tile, the elements of a field (`index` as above; of a LISTS
   * field with index -1 the number of its elements), and the contents of a VALUE or VALUES field
   * as doubles. false: there is no such field, element or content. */
  uint32_t (*introspect_tile)(const trm_poplar_introspector *vertex);
  bool (*introspect_size)(const trm_poplar_introspector *vertex, const char *field, int64_t index,
                          uint64_t *out_elements);
  bool (*introspect_value)(const trm_poplar_introspector *vertex, const char *field,
                           uint64_t element, double *out_value);

  /* ---- Tensors: all but the last two are views ---- */
  void (*tensor_info)(const trm_poplar_tensor *tensor, trm_poplar_tensor_info *out_info);
  int32_t (*tensor_slice)(const trm_poplar_tensor *tensor, uint32_t dim, uint64_t begin,
                          uint64_t end, trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  /* tensor[i]: without its first dimension. */
  int32_t (*tensor_index)(const trm_poplar_tensor *tensor, uint64_t index,
                          trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  int32_t (*tensor_reshape)(const trm_poplar_tensor *tensor, const uint64_t *dims, uint32_t rank,
                            trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  /* Dimension i of the result is dimension permutation[i]. */
  int32_t (*tensor_dim_shuffle)(const trm_poplar_tensor *tensor, const uint32_t *permutation,
                                uint32_t rank, trm_poplar_tensor **out_tensor,
                                trm_poplar_error *error);
  /* `times` copies one after the other along the dimension. */
  int32_t (*tensor_broadcast)(const trm_poplar_tensor *tensor, uint64_t times, uint32_t dim,
                              trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  int32_t (*tensor_concat)(const trm_poplar_tensor *const *tensors, uint64_t count, uint32_t dim,
                           trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  int32_t (*tensor_reverse)(const trm_poplar_tensor *tensor, uint32_t dim,
                            trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  /* Every stride-th element along the dimension, from the first on. */
  int32_t (*tensor_sub_sample)(const trm_poplar_tensor *tensor, uint64_t stride, uint32_t dim,
                               trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  /* The bits as another type of the same size. */
  int32_t (*tensor_reinterpret)(const trm_poplar_tensor *tensor, int32_t dtype,
                                trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  bool (*tensor_is_contiguous)(const trm_poplar_tensor *tensor);
  bool (*tensor_contains_aliases)(const trm_poplar_tensor *tensor);
  bool (*tensor_contains_constant)(const trm_poplar_graph *graph, const trm_poplar_tensor *tensor);
  /* The same shape, type and elements. */
  bool (*tensor_is_equal)(const trm_poplar_tensor *a, const trm_poplar_tensor *b);
  /* Intervals of the flattened tensor (their `tile` is 0), each contiguous in a variable; free with
   * block_release. */
  int32_t (*tensor_regions)(const trm_poplar_tensor *tensor, trm_poplar_interval **out_intervals,
                            uint64_t *out_count, trm_poplar_error *error);
  /* Names, shape and variables; free with block_release. */
  int32_t (*tensor_text)(const trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                         char **out_text, trm_poplar_error *error);

  /* ---- Programs ---- */
  int32_t (*program_sequence)(trm_poplar_program **out_program, trm_poplar_error *error);
  /* Adds to *sequence, which becomes a copy of its own first if others refer to it too: what others
   * hold does not change. */
  int32_t (*sequence_add)(trm_poplar_program **sequence, trm_poplar_program *program,
                          trm_poplar_error *error);
  int32_t (*program_execute)(trm_poplar_graph *graph, uint32_t compute_set, const char *name,
                             trm_poplar_program **out_program, trm_poplar_error *error);
  int32_t (*program_copy)(trm_poplar_graph *graph, const trm_poplar_tensor *source,
                          const trm_poplar_tensor *destination, bool dont_outline, const char *name,
                          trm_poplar_program **out_program, trm_poplar_error *error);
  int32_t (*program_print)(trm_poplar_graph *graph, const char *title,
                           const trm_poplar_tensor *tensor, trm_poplar_program **out_program,
                           trm_poplar_error *error);
  /* NULL programs do nothing. */
  int32_t (*program_if)(trm_poplar_graph *graph, const trm_poplar_tensor *predicate,
                        trm_poplar_program *on_true, trm_poplar_program *on_false,
                        trm_poplar_program **out_program, trm_poplar_error *error);
  int32_t (*program_switch)(trm_poplar_graph *graph, const trm_poplar_tensor *control,
                            const int32_t *cases, trm_poplar_program *const *programs,
                            uint64_t count, trm_poplar_program *otherwise,
                            trm_poplar_program **out_program, trm_poplar_error *error);
  int32_t (*program_repeat)(uint64_t count, trm_poplar_program *body,
                            trm_poplar_program **out_program, trm_poplar_error *error);
  /* Runs the condition; while the predicate is `value`, the body and the condition again. */
  int32_t (*program_repeat_while)(trm_poplar_graph *graph, bool value,
                                  trm_poplar_program *condition, const trm_poplar_tensor *predicate,
                                  trm_poplar_program *body, trm_poplar_program **out_program,
                                  trm_poplar_error *error);
  int32_t (*program_write_undef)(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                 trm_poplar_program **out_program, trm_poplar_error *error);

  /* ---- Library steps: added to *sequence as by sequence_add ---- */
  /* popops::map and everything elementwise: the last node is the result. Tensors broadcast against
   * each other as in NumPy. *tensor NULL: gives a new variable with the tiles of the first operand
   * of that shape; else the result goes to that tensor, which may be an operand (in place, fill,
   * zero, cast with output). */
  int32_t (*step_map)(trm_poplar_graph *graph, const trm_poplar_node *nodes, uint64_t num_nodes,
                      const trm_poplar_tensor *const *tensors, uint64_t num_tensors,
                      trm_poplar_program **sequence, const char *name, trm_poplar_tensor **tensor,
                      trm_poplar_error *error);
  /* [m,k] x [k,n], or [g,m,k] x [g,k,n]; dtype: of the result. */
  int32_t (*step_mat_mul)(trm_poplar_graph *graph, const trm_poplar_tensor *left,
                          const trm_poplar_tensor *right, int32_t dtype,
                          trm_poplar_program **sequence, const char *name,
                          trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  /* The left or right side of a matMul of these shapes, as a new variable. */
  int32_t (*mat_mul_input)(trm_poplar_graph *graph, int32_t dtype, const uint64_t *left_dims,
                           const uint64_t *right_dims, uint32_t rank, bool is_left,
                           const char *name, trm_poplar_tensor **out_tensor,
                           trm_poplar_error *error);
  /* popops::reduce; dtype: of the result. scale: a scalar tensor, or NULL. *tensor as in step_map;
   * with `update` the reduction is added to it. */
  int32_t (*step_reduce)(trm_poplar_graph *graph, const trm_poplar_tensor *operand, int32_t dtype,
                         const uint32_t *dims, uint32_t num_dims, int32_t reduction,
                         const trm_poplar_tensor *scale, bool update, trm_poplar_program **sequence,
                         const char *name, trm_poplar_tensor **tensor, trm_poplar_error *error);

  /* ---- Of version 2 ---- */
  /* Slices of `sizes` elements in dimensions `dims` of a tensor, at the rows of indices
   * [slice, dimension]: [slice, ...]. grouped: all have one more dimension before them, which
   * `dims` do not count. */
  int32_t (*step_multi_slice)(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                              const trm_poplar_tensor *indices, bool grouped, const uint32_t *dims,
                              const uint64_t *sizes, uint32_t num_dims,
                              trm_poplar_program **sequence, const char *name,
                              trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  /* Writes such slices. scale: a scalar that multiplies them, or NULL. */
  int32_t (*step_multi_update)(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                               const trm_poplar_tensor *slices, const trm_poplar_tensor *indices,
                               const trm_poplar_tensor *scale, int32_t update, bool grouped,
                               const uint32_t *dims, const uint64_t *sizes, uint32_t num_dims,
                               trm_poplar_program **sequence, const char *name,
                               trm_poplar_error *error);

  /* ---- Plain programs: of version 2 ---- */
  /* target: "mk2" and so on, NULL: the usual; tiles_per_ipu 0: all. */
  int32_t (*graph_create)(const char *target, uint32_t num_ipus, uint32_t tiles_per_ipu,
                          trm_poplar_graph **out_graph, trm_poplar_error *error);
  /* A stream of the host's, by its handle, and the variable that its elements pass through. */
  int32_t (*add_stream)(trm_poplar_graph *graph, const char *handle, int32_t dtype,
                        uint64_t elements, bool to_device, uint32_t *out_stream,
                        trm_poplar_tensor **out_tensor, trm_poplar_error *error);
  /* Lets the host read or write those elements. */
  int32_t (*program_host)(trm_poplar_graph *graph, uint32_t stream,
                          trm_poplar_program **out_program, trm_poplar_error *error);
  /* Makes the stream a host read or write, which engine_access does by this program. */
  int32_t (*set_access)(trm_poplar_graph *graph, uint32_t stream, trm_poplar_program *program,
                        trm_poplar_error *error);
  /* An engine has the variables of the graph, and runs the programs by their numbers. */
  int32_t (*engine_create)(trm_poplar_graph *graph, trm_poplar_program *const *programs,
                           uint32_t count, trm_poplar_engine **out_engine, trm_poplar_error *error);
  void (*engine_release)(trm_poplar_engine *engine);
  /* What one transfer of a stream is. */
  int32_t (*engine_stream)(const trm_poplar_engine *engine, const char *handle, uint64_t *out_bytes,
                           bool *out_to_device, trm_poplar_error *error);
  /* In place of what was connected. The engine calls release(user) once, also on failure. */
  int32_t (*engine_connect)(trm_poplar_engine *engine, const char *handle,
                            trm_poplar_host_function function, void *user,
                            void (*release)(void *user), trm_poplar_error *error);
  int32_t (*engine_run)(trm_poplar_engine *engine, uint32_t program, trm_poplar_error *error);
  int32_t (*engine_access)(trm_poplar_engine *engine, const char *handle, trm_poplar_error *error);
} trm_poplar_api;

/* ---- What Tremula calls in a library of operators ------------------------------------------- */

/* poplar/Graph.hpp emits these weak symbols with default visibility into every object that includes
 * it. Each gets the address of the user's function, which has C linkage, builds the C++ arguments,
 * calls with the arguments in the order of `level` (custom_op_api_level of the library), catches
 * everything, and returns 0, or nonzero with the failure in the call. */
#define TRM_POPLAR_SYMBOL_HEADER "trm_poplar_header"       /* const uint32_t: TRM_POPLAR_VERSION */
#define TRM_POPLAR_SYMBOL_BUILD "trm_poplar_build"         /* trm_poplar_build_function */
#define TRM_POPLAR_SYMBOL_GRAD "trm_poplar_grad"           /* trm_poplar_build_function */
#define TRM_POPLAR_SYMBOL_METADATA "trm_poplar_metadata"   /* trm_poplar_metadata_function */
#define TRM_POPLAR_SYMBOL_ALLOCATOR "trm_poplar_allocator" /* trm_poplar_allocator_function */

/* What left the user's function. */
typedef enum trm_poplar_thrown {
  TRM_POPLAR_THROWN_NOTHING = 0,
  TRM_POPLAR_THROWN_POPLAR = 1,   /* poplar::poplar_error or a class derived from it */
  TRM_POPLAR_THROWN_STANDARD = 2, /* another std::exception */
  TRM_POPLAR_THROWN_OTHER = 3     /* something else; `what` is "" */
} trm_poplar_thrown;

typedef struct trm_poplar_failure {
  uint32_t thrown;
  char type[124];  /* of a Poplar error, its class: "poplar_error" */
  char what[2048]; /* cut there */
} trm_poplar_failure;

/* A call of Build or Build_grad. */
typedef struct trm_poplar_build_call {
  uint32_t size; /* of this struct */
  int32_t level; /* custom_op_api_level: 1 to 5 */
  const trm_poplar_api *api;
  void *function; /* the user's */
  trm_poplar_graph *graph;
  const char *attributes; /* may contain NULs, and ends with one more */
  uint64_t attributes_size;
  const char *debug_prefix;
  uint32_t num_inputs; /* of Build; 0 of a gradient */
  trm_poplar_tensor *const *inputs;
  /* Of a gradient. */
  int64_t input_grad_index;
  uint32_t num_gradients, num_fwd_outputs, num_fwd_inputs;
  trm_poplar_tensor *const *gradients, *const *fwd_outputs, *const *fwd_inputs;
  /* Results: out_outputs has room for max_outputs; more are dropped, but counted. Each is a
   * reference, or NULL for a null Tensor. */
  uint32_t max_outputs, num_outputs;
  trm_poplar_tensor **out_outputs;
  trm_poplar_program *out_program; /* a reference */
  trm_poplar_failure failure;
} trm_poplar_build_call;
typedef int32_t (*trm_poplar_build_function)(trm_poplar_build_call *call);

typedef struct trm_poplar_metadata_call {
  uint32_t size;
  int32_t level;
  const trm_poplar_api *api;
  void *function; /* NAME_metadata or NAME_grad_metadata */
  uint32_t num_inputs;
  /* Results; their defaults are set by the caller. The arrays have room for max_indices; what does
   * not fit is dropped, but counted. */
  uint32_t max_indices, num_allocating, num_replica_identical, num_aliases;
  int64_t *allocating, *replica_identical;
  int64_t *alias_inputs, *alias_outputs; /* input alias_inputs[i] is output alias_outputs[i] */
  bool is_elementwise, is_stateless, is_hashable;
  trm_poplar_failure failure;
} trm_poplar_metadata_call;
typedef int32_t (*trm_poplar_metadata_function)(trm_poplar_metadata_call *call);

typedef struct trm_poplar_allocator_call {
  uint32_t size;
  int32_t level;
  const trm_poplar_api *api;
  void *function; /* NAME_allocator */
  trm_poplar_graph *graph;
  uint32_t operand;
  int32_t dtype;
  uint32_t rank;
  const uint64_t *dims;
  const char *attributes;
  uint64_t attributes_size;
  const char *debug_prefix;
  trm_poplar_tensor *out_tensor; /* a reference, or NULL for a null Tensor */
  trm_poplar_failure failure;
} trm_poplar_allocator_call;
typedef int32_t (*trm_poplar_allocator_function)(trm_poplar_allocator_call *call);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_POPLAR_H_ */
