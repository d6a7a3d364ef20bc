/* Poplar's headers over Tremula: the functions that the inline C++ headers (poplar/, popops/, ...)
 * call, and the functions in a user's library that Tremula calls.
 *
 * Programs in C do not need this header. The C++ headers make classes of it: poplar::Graph holds a
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
#define TRM_POPLAR_VERSION 1

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

/* What a program does, with what program_make takes. A child that is NULL does nothing. */
typedef enum trm_poplar_program_kind {
  TRM_POPLAR_SEQUENCE = 0,    /* its children, one after the other */
  TRM_POPLAR_EXECUTE = 1,     /* the compute set `number` */
  TRM_POPLAR_COPY = 2,        /* tensors[0] to tensors[1] */
  TRM_POPLAR_STEP = 3,        /* a library step, which the functions step_... make */
  TRM_POPLAR_PRINT = 4,       /* tensors[0], with `text` */
  TRM_POPLAR_IF = 5,          /* tensors[0] ? children[0] : children[1] */
  TRM_POPLAR_SWITCH = 6,      /* the child whose case is tensors[0], else the last */
  TRM_POPLAR_REPEAT = 7,      /* children[0], `number` times */
  TRM_POPLAR_WHILE = 8,       /* children[0]; as long as tensors[0] is `number` then, children[1]
                                 and children[0] again */
  TRM_POPLAR_WRITE_UNDEF = 9, /* tensors[0] */
  TRM_POPLAR_HOST = 10        /* the host reads or writes the elements of the stream `number` */
} trm_poplar_program_kind;

typedef struct trm_poplar_program_parts {
  const trm_poplar_tensor *tensors[2];
  uint64_t number;
  const char *text; /* a name or a title; may be NULL */
  trm_poplar_program *const *children;
  uint32_t num_children;
  const int32_t *cases; /* of all children but the last; NULL: 0, 1 ... */
} trm_poplar_program_parts;

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
#define POPLAR_UNARY(ID, Class, function, opcode) TRM_POPLAR_UNARY_##ID,
#include "tremula/poplar_op.def"
  TRM_POPLAR_NUM_UNARY
} trm_poplar_unary;
typedef enum trm_poplar_binary {
#define POPLAR_BINARY(ID, Class, function, opcode) TRM_POPLAR_BINARY_##ID,
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
#define POPLAR_CALL(member, ...) int32_t (*member)(__VA_ARGS__, trm_poplar_error * error);
#define POPLAR_PLAIN(result, member, ...) result (*member)(__VA_ARGS__);
#include "tremula/poplar_api.def"
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

/* A call of a function of the user's: what all have, and `failure` as a result. */
typedef struct trm_poplar_user_call {
  int32_t level; /* custom_op_api_level: 1 to 5 */
  const trm_poplar_api *api;
  void *function;          /* the user's */
  trm_poplar_graph *graph; /* metadata has neither it nor what follows */
  const char *attributes;  /* may contain NULs, and ends with one more */
  uint64_t attributes_size;
  const char *debug_prefix;
  trm_poplar_failure failure;
} trm_poplar_user_call;

/* A call of Build or Build_grad. */
typedef struct trm_poplar_build_call {
  trm_poplar_user_call user;
  uint32_t num_inputs; /* of Build; 0 of a gradient */
  trm_poplar_tensor *const *inputs;
  /* Of a gradient: the input that it is for (0 if one is for all inputs), and its operands. */
  int64_t input_grad_index;
  uint32_t num_gradients, num_fwd_outputs, num_fwd_inputs;
  trm_poplar_tensor *const *gradients, *const *fwd_outputs, *const *fwd_inputs;
  /* Results: out_outputs has room for max_outputs; more are dropped, but counted. Each is a
   * reference, or NULL for a null Tensor. */
  uint32_t max_outputs, num_outputs;
  trm_poplar_tensor **out_outputs;
  trm_poplar_program *out_program; /* a reference */
} trm_poplar_build_call;
typedef int32_t (*trm_poplar_build_function)(trm_poplar_build_call *call);

/* A call of NAME_metadata or NAME_grad_metadata. */
typedef struct trm_poplar_metadata_call {
  trm_poplar_user_call user;
  uint32_t num_inputs;
  /* Results; their defaults are set by the caller. The arrays have room for max_indices; what does
   * not fit is dropped, but counted. */
  uint32_t max_indices, num_allocating, num_replica_identical, num_aliases;
  int64_t *allocating, *replica_identical;
  int64_t *alias_inputs, *alias_outputs; /* input alias_inputs[i] is output alias_outputs[i] */
  bool is_elementwise, is_stateless, is_hashable;
} trm_poplar_metadata_call;
typedef int32_t (*trm_poplar_metadata_function)(trm_poplar_metadata_call *call);

/* A call of NAME_allocator. */
typedef struct trm_poplar_allocator_call {
  trm_poplar_user_call user;
  uint32_t operand;
  int32_t dtype;
  uint32_t rank;
  const uint64_t *dims;
  trm_poplar_tensor *out_tensor; /* a reference, or NULL for a null Tensor */
} trm_poplar_allocator_call;
typedef int32_t (*trm_poplar_allocator_function)(trm_poplar_allocator_call *call);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_POPLAR_H_ */
