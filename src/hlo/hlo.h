/* The IR: a module of computations of instructions, as HLO defines them.
 *
 * A module owns one arena, in which everything below lives. The instructions of a computation are
 * one array, and an instruction is identified by its index in it (trm_index). The array is in a
 * topological order: operands and control predecessors come before their users. After scheduling it
 * is the order of execution. Original ids and names are kept for printing and messages. Fields that
 * an opcode does not use are NULL or 0.
 *
 *   shape.c                        shapes: making, comparing, printing, counting
 *   opcodes.def opcode.c           properties of opcodes; names and sizes of element types
 *   custom_calls.def custom_call.c properties of the known custom calls
 *   config.c (config.h)            backend configurations of custom calls, as JSON
 *   attributes.def attributes.c    enums of attributes and their spellings
 *   module*.c names.c              modules, computations, instructions, and sets of their names
 *   literal.c                      the text of constants
 *   infer*.c (infer.h)             the result shape of every opcode
 *   verify.c                       the checks on a whole module
 *   read.c                         a module from bytes or a file, in text or proto form
 *   lexer.c parse*.c (parse.h)     the reader of HLO text
 *   print.c                        the writer of HLO text
 *   proto_*.c (proto.h)            the reader and writer of HloModuleProto
 *   lowered.c                      a module with notes of the framework that it comes from
 *   groups.c (groups.h)            replica groups in short forms
 *   loops.c (loops.h)              trip counts of loops, where they are known
 *   index_bounds.c                 bounds of inputs that are indices
 *   batch.c                        a module for another batch size
 *   related_dims.c (related_dims.h) which dimensions change together
 *   builder*.c (builder.h)         modules made by calls (tremula/builder.h) */
#ifndef TREMULA_HLO_HLO_H_
#define TREMULA_HLO_HLO_H_

#include "base/memory.h"
#include "base/status.h"

typedef uint32_t trm_index;
#define TRM_NO_INDEX UINT32_MAX

typedef enum trm_opcode {
#define OPCODE(id, ...) TRM_OP_##id,
#include "hlo/opcodes.def"
#undef OPCODE
  TRM_NUM_OPCODES
} trm_opcode;

typedef enum trm_opcode_class {
  TRM_CLASS_UNARY,
  TRM_CLASS_BINARY,
  TRM_CLASS_TERNARY,
  TRM_CLASS_DATA,
  TRM_CLASS_REDUCE,
  TRM_CLASS_LINEAR,
  TRM_CLASS_CONTROL,
  TRM_CLASS_TUPLE,
  TRM_CLASS_SOURCE,
  TRM_CLASS_COLLECTIVE,
  TRM_CLASS_COMMUNICATION,
  TRM_CLASS_OTHER
} trm_opcode_class;

/* On what the results of an opcode depend if there are several replicas (opcodes.def,
 * custom_calls.def). */
typedef enum trm_opcode_replicas {
  TRM_REPLICAS_PURE,
  TRM_REPLICAS_SAME,
  TRM_REPLICAS_GROUP,
  TRM_REPLICAS_OWN
} trm_opcode_replicas;

const char *trm_opcode_name(trm_opcode opcode);
/* Number of operands, or -1 when it varies. */
int trm_opcode_arity(trm_opcode opcode);
trm_opcode_class trm_opcode_class_of(trm_opcode opcode);
/* Number of computations that it calls, or -1 for any number. */
int trm_opcode_calls(trm_opcode opcode);
trm_opcode_replicas trm_opcode_replicas_of(trm_opcode opcode);
/* Returns false if no opcode has that name. */
bool trm_opcode_find(const char *name, size_t length, trm_opcode *out_opcode);
/* Elementwise: every operand has the result's dimensions (select and clamp may take scalars). */
bool trm_opcode_is_elementwise(trm_opcode opcode);
/* dot and convolution, which availableMemoryProportion is about. */
bool trm_opcode_is_product(trm_opcode opcode);

/* ---- Custom calls --------------------------------------------------------------------------- */

/* The rows of custom_calls.def. */
typedef enum trm_call_id {
  TRM_CALL_NONE, /* an unknown target, or an instruction that is no custom call */
#define CUSTOM_CALL(id, ...) TRM_CALL_##id,
#include "hlo/custom_calls.def"
#undef CUSTOM_CALL
  TRM_NUM_CALLS
} trm_call_id;

trm_call_id trm_call_find(const char *target);
/* The target of a row without `?` and `*`; "" for TRM_CALL_NONE. */
const char *trm_call_target(trm_call_id id);
trm_opcode_replicas trm_call_replicas(trm_call_id id);

/* Significant bits of an element: 4 for s4, which takes a byte; 8 for pred; 0 for a tuple. */
int trm_dtype_bits(trm_dtype dtype);

/* The kinds of element types (dtype.def). */
typedef enum trm_kind {
  TRM_KIND_NONE,
  TRM_KIND_PRED,
  TRM_KIND_SIGNED,
  TRM_KIND_UNSIGNED,
  TRM_KIND_FLOAT,
  TRM_KIND_COMPLEX
} trm_kind;

trm_kind trm_dtype_kind(trm_dtype dtype);
static inline bool trm_kind_is_integer(trm_kind kind) {
  return kind == TRM_KIND_SIGNED || kind == TRM_KIND_UNSIGNED;
}

/* Whether an elementwise opcode is defined for elements of a kind. */
bool trm_opcode_takes(trm_opcode opcode, trm_kind kind);

/* ---- Shapes --------------------------------------------------------------------------------- */

typedef struct trm_shape {
  trm_dtype dtype; /* TRM_TUPLE, TRM_TOKEN and TRM_OPAQUE are not arrays */
  int32_t rank;
  const int64_t *dims;   /* rank of them */
  const int64_t *layout; /* minor to major, rank of them; NULL: row-major. Only a hint */
  int32_t num_elements;  /* of a tuple */
  const struct trm_shape *elements;
  /* Bit d: dims[d] is a bound, and the size is known at run time only. Comparisons of shapes ignore
   * this; passes/dynamic.c makes all sizes static. */
  uint32_t dynamic;
  bool is_flat; /* a tuple whose elements are all known to be arrays: its leaves */
} trm_shape;

bool trm_shape_is_array(const trm_shape *shape);
bool trm_shape_is_scalar(const trm_shape *shape);
/* Number of elements of an array; 1 for a scalar. Verified shapes do not overflow. */
int64_t trm_shape_count(const trm_shape *shape);
/* Bytes of an array; 0 for tuples and tokens. */
size_t trm_shape_bytes(const trm_shape *shape);
/* Number of array leaves of a nested tuple, in order (a token has 0, an array 1). */
int32_t trm_shape_num_leaves(const trm_shape *shape);
/* The i-th array leaf, or NULL. */
const trm_shape *trm_shape_leaf(const trm_shape *shape, int32_t i);
/* The index of the first leaf of element `element` of a tuple. */
int32_t trm_shape_leaf_offset(const trm_shape *tuple, int32_t element);
/* An array for the public API, without a name. */
void trm_shape_describe(const trm_shape *shape, trm_tensor_info *out_info);
/* Equal types and dimensions (layouts do not count). */
bool trm_shape_equal(const trm_shape *a, const trm_shape *b);
/* Equal dimensions, whatever the type. */
bool trm_shape_same_dims(const trm_shape *a, const trm_shape *b);
/* Whether the layout, if any, is row-major; dimensions of size 1 may be anywhere. */
bool trm_shape_is_row_major(const trm_shape *shape);
/* An array shape with dims copied into the arena; false when memory runs out. */
bool trm_shape_make(trm_arena *arena, trm_dtype dtype, int32_t rank, const int64_t *dims,
                    trm_shape *out_shape);
/* A tuple of these elements, which must stay as they are. */
trm_shape trm_shape_of_tuple(int32_t count, const trm_shape *elements);
bool trm_shape_make_tuple(trm_arena *arena, int32_t count, const trm_shape *elements,
                          trm_shape *out_shape);
/* A deep copy. */
bool trm_shape_copy(trm_arena *arena, const trm_shape *shape, trm_shape *out_shape);
/* "f32[2,3]", "(s32[], f32[4])"; with layouts "f32[2,3]{1,0}" when asked. */
void trm_shape_print(const trm_shape *shape, bool with_layout, trm_text *out_text);
/* Prints into a fixed buffer, for messages, and returns the buffer. */
const char *trm_shape_text(const trm_shape *shape, char *buffer, size_t size);

/* ---- Attributes ----------------------------------------------------------------------------- */

typedef enum trm_comparison {
  TRM_CMP_EQ,
  TRM_CMP_NE,
  TRM_CMP_GE,
  TRM_CMP_GT,
  TRM_CMP_LE,
  TRM_CMP_LT
} trm_comparison;
/* FLOAT, TOTALORDER, SIGNED, UNSIGNED; DEFAULT follows from the operands' type. */
typedef enum trm_comparison_type {
  TRM_CMPTYPE_DEFAULT,
  TRM_CMPTYPE_FLOAT,
  TRM_CMPTYPE_TOTALORDER,
  TRM_CMPTYPE_SIGNED,
  TRM_CMPTYPE_UNSIGNED
} trm_comparison_type;

typedef struct trm_window_dimension {
  int64_t size, stride, padding_low, padding_high, window_dilation, base_dilation;
  bool reversal;
} trm_window_dimension;

typedef struct trm_window {
  int32_t rank;
  trm_window_dimension *dims;
} trm_window;

typedef struct trm_convolution {
  int64_t input_batch, input_feature, kernel_input_feature, kernel_output_feature, output_batch,
      output_feature;
  int32_t spatial_rank;
  int64_t *input_spatial, *kernel_spatial, *output_spatial; /* spatial_rank each */
  int64_t feature_group_count, batch_group_count;           /* at least 1 */
} trm_convolution;

/* A short list of dimension numbers. */
typedef struct trm_dims {
  int32_t count;
  int64_t *items;
} trm_dims;

bool trm_dims_equal(const trm_dims *a, const trm_dims *b);

/* The array leaf at a path of tuple indices; -1 if there is none. */
int64_t trm_shape_leaf_at(const trm_shape *shape, const trm_dims *path);

typedef struct trm_dot {
  trm_dims lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  trm_dims lhs_ragged, rhs_group; /* of ragged-dot */
} trm_dot;

/* Which dimension of the left operand of a ragged-dot lies in groups. */
typedef enum trm_ragged_mode {
  TRM_RAGGED_FREE,        /* [m,k] [g,k,n] [g] -> [m,n] */
  TRM_RAGGED_CONTRACTING, /* [m,k] [k,n] [g] -> [g,m,n] */
  TRM_RAGGED_BATCH        /* [b,m,k] [b,k,n] [g] -> [b,m,n]: a dot */
} trm_ragged_mode;

/* `out_outer`: the dimensions of the left operand for whose elements the groups may differ; room
 * for TRM_MAX_RANK. Call it for a ragged-dot that the verifier has seen. */
trm_ragged_mode trm_dot_ragged_mode(const trm_dot *dot, int32_t lhs_rank, int64_t *out_outer,
                                    int32_t *out_num_outer);

typedef struct trm_padding_dimension {
  int64_t low, high, interior; /* low and high may be negative */
} trm_padding_dimension;

typedef struct trm_slice_dimension {
  int64_t start, limit, stride;
} trm_slice_dimension;

typedef struct trm_gather {
  trm_dims offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims,
      start_indices_batching_dims;
  int64_t index_vector_dim;
  trm_dims slice_sizes;
  bool indices_are_sorted;
} trm_gather;

typedef struct trm_scatter {
  trm_dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims,
      input_batching_dims, scatter_indices_batching_dims;
  int64_t index_vector_dim;
  bool indices_are_sorted, unique_indices;
} trm_scatter;

typedef struct trm_replica_groups {
  int32_t count;
  trm_dims *groups;
} trm_replica_groups;

typedef struct trm_collective {
  trm_replica_groups replica_groups;
  int64_t channel_id; /* 0: none */
  bool use_global_device_ids, constrain_layout, has_dimension;
  bool is_host_transfer;        /* send, recv and their ends */
  int64_t dimension;            /* all_gather_dimension, scatter or split dimension */
  trm_dims source_target_pairs; /* flattened pairs */
} trm_collective;

typedef struct trm_triangular_solve {
  bool left_side, lower, unit_diagonal;
  int transpose_a; /* 1 NO_TRANSPOSE, 2 TRANSPOSE, 3 ADJOINT */
} trm_triangular_solve;

typedef struct trm_custom_call {
  const char *target;
  bool has_side_effect;
  int api_version; /* HLO's CustomCallApiVersion; 0 unspecified */
} trm_custom_call;

typedef struct trm_metadata {
  const char *op_type, *op_name, *source_file; /* NULL when absent */
  int32_t source_line;
} trm_metadata;

/* A constant's bytes: arrays dense and row-major, one block a leaf, leaves in order. */
typedef struct trm_literal {
  trm_shape shape;
  int32_t num_leaves;
  const void **leaves;
  /* NULL, or which leaves are `{...}` in the text and hold made-up values. */
  const bool *elided;
} trm_literal;

/* ---- Instructions --------------------------------------------------------------------------- */

typedef struct trm_instruction {
  trm_opcode opcode;
  uint32_t num_operands, num_control_predecessors, num_called;
  trm_shape shape;
  trm_index *operands;
  trm_index *control_predecessors;
  /* Indices into module->computations. reduce, map, sort, scatter, call, custom-call: to_apply;
   * fusion: calls; while: condition, body; conditional: the branches (true, false); reduce-window:
   * to_apply; select-and-scatter: select, scatter. */
  uint32_t *called;

  const char *name; /* without '%'; unique in the module */
  int64_t id;       /* the original id, or a new one; unique in the module */

  trm_dims dimensions; /* broadcast, concatenate, map, reduce, reverse, sort, transpose, iota */
  int64_t number;      /* parameter's number; get-tuple-element's index; batch-norm's feature_index;
                          get/set-dimension-size's dimension; topk's k; scan's carries */
  trm_comparison comparison;
  trm_comparison_type comparison_type;
  bool is_stable;                       /* sort, topk */
  bool lower;                           /* cholesky */
  bool largest;                         /* topk */
  bool is_reverse;                      /* scan */
  float epsilon;                        /* batch-norm */
  int32_t exponent_bits, mantissa_bits; /* reduce-precision */
  int32_t distribution;                 /* rng: HLO's RandomDistribution (1 uniform, 2 normal) */
  int32_t algorithm;                    /* rng-bit-generator: 0 default, 1 three-fry, 2 philox;
                                           dot: that of precision_config */
  int32_t fft_type;                     /* 0 FFT, 1 IFFT, 2 RFFT, 3 IRFFT */
  int64_t delta;                        /* rng-get-and-update-state */
  trm_dims sizes;                 /* dynamic_slice_sizes; fft_length; shuffle's shifts; slice_sizes
                                     live in gather */
  trm_slice_dimension *slice;     /* rank of the operand */
  trm_padding_dimension *padding; /* rank of the operand */
  trm_window *window;
  trm_convolution *convolution;
  trm_dot *dot;
  trm_gather *gather;
  trm_scatter *scatter;
  trm_collective *collective;
  trm_triangular_solve *triangular_solve;
  trm_custom_call *custom_call;
  trm_call_id call_id;        /* the row of the custom call's target; trm_computation_add sets it */
  const trm_literal *literal; /* constant; shuffle's indices */
  trm_dims operand_precision; /* precision_config: 0 default, 1 high, 2 highest */
  const char *fusion_kind;    /* "kLoop", "kInput", "kOutput", "kCustom" */
  const char *backend_config; /* bytes, possibly with NULs; one more NUL follows them */
  size_t backend_config_size;
  const char *infeed_config;                   /* infeed's or outfeed's */
  const char *sharding;                        /* as text, braces included; NULL: none */
  const char *const *frontend_attributes;      /* key, value, key, value, ..., NULL */
  const struct trm_library_call *library_call; /* hlo/library_call.h; NULL: none. A copy of the
                                                  module has none */
  trm_metadata metadata;
} trm_instruction;

typedef struct trm_computation {
  const char *name; /* without '%' */
  int64_t id;
  uint32_t num_instructions, capacity;
  trm_instruction *instructions; /* its address changes when it grows: keep indices, not pointers */
  trm_index root;
  uint32_t num_parameters;
  trm_index *parameters; /* by number */
  bool has_side_effect;  /* of its own or in a called computation; trm_module_compact updates it */
} trm_computation;

/* Output leaf (a path of tuple indices) -> parameter and path. */
typedef struct trm_alias {
  trm_dims output_index, parameter_index;
  int64_t parameter_number;
  bool must_alias;
} trm_alias;

/* The float16 result of an overflow, which is an operation with an infinite result and finite
 * operands: LARGEST, +-65504; NAN; or INFINITY, as in IEEE 754. At a pole, such as 1 / 0, the
 * result is NaN, except with INFINITY. */
typedef enum trm_half_overflow {
  TRM_HALF_INFINITY,
  TRM_HALF_LARGEST,
  TRM_HALF_NAN
} trm_half_overflow;

/* How the host stores float16: rounded after every instruction; or as float32, rounded where it
 * leaves the program (host/passes/float_halves.c). */
typedef enum trm_halves { TRM_HALVES_ROUNDED, TRM_HALVES_FLOAT } trm_halves;

/* What a float that an integer type cannot hold becomes: by SATURATE the nearest integer, and a NaN
 * 0, as in XLA; by WRAP as in TensorFlow's kernels and on an IPU (host/ops/reference.h). AUTO: WRAP
 * for programs of TensorFlow. */
typedef enum trm_casts { TRM_CASTS_AUTO, TRM_CASTS_SATURATE, TRM_CASTS_WRAP } trm_casts;

/* The number of algorithm=dot_f64_f64_f64 (attributes.def). */
enum { TRM_DOT_F64_F64_F64 = 12 };

/* How float16s are multiplied in dots and convolutions: as floats; as three or four products of
 * bfloat16 pieces; or rounded to bfloat16s (host/ops/products/half_products.h). */
typedef enum trm_half_products {
  TRM_HALF_PRODUCTS_AUTO,
  TRM_HALF_PRODUCTS_FLOAT,
  TRM_HALF_PRODUCTS_PIECES3,
  TRM_HALF_PRODUCTS_PIECES4,
  TRM_HALF_PRODUCTS_BFLOAT16
} trm_half_products;

struct trm_module {
  trm_arena arena;
  const char *name;
  uint32_t num_computations, capacity;
  trm_computation *computations; /* callees before callers */
  uint32_t entry;
  int64_t next_id;
  uint32_t num_aliases;
  trm_alias *aliases;
  uint32_t replica_count;          /* that the header of a text states, or 0; not printed */
  bool is_scheduled;               /* the order of instructions must be kept */
  trm_half_overflow half_overflow; /* compile options; text and proto do not have them */
  trm_half_products half_products;
  bool casts_wrap;
  const char *frontend_side_table; /* JSON: node id -> TensorFlow name, file, line, shard; NULL */
};

/* ---- Building and changing ------------------------------------------------------------------ */

trm_status trm_module_create(const char *name, trm_module **out_module, trm_error *error);
/* A deep copy in an arena of its own. */
trm_status trm_module_clone(const trm_module *module, trm_module **out_module, trm_error *error);
/* A copy in which the first dimension of an input leaf has another size, and with it all that
 * follow from it. Fails where the module does not say what another size would be. */
trm_status trm_module_with_batch(const trm_module *module, size_t input, int64_t batch,
                                 trm_module **out_module, trm_error *error);
/* A copy that shares texts, shapes and the numbers of constants with the module, which must outlive
 * it. */
trm_status trm_module_clone_lightly(const trm_module *module, trm_module **out_module,
                                    trm_error *error);

/* Appends an empty computation; the index is stable, the pointer is not. */
trm_status trm_module_add_computation(trm_module *module, const char *name, uint32_t *out_index,
                                      trm_error *error);
/* A copy of a computation (called computations are shared). */
trm_status trm_module_clone_computation(trm_module *module, uint32_t source, uint32_t *out_index,
                                        trm_error *error);

/* Makes room for `count` instructions in all, where a computation's size is known beforehand. */
trm_status trm_computation_reserve(trm_module *module, uint32_t computation, uint32_t count,
                                   trm_error *error);
/* Appends a copy of *prototype. The arena gets copies of operands, called computations and control
 * predecessors; attributes are shared. A NULL name is replaced by one made of the opcode, id 0 by
 * the next id. A parameter also enters the computation's table. */
trm_status trm_computation_add(trm_module *module, uint32_t computation,
                               const trm_instruction *prototype, trm_index *out_index,
                               trm_error *error);

/* The opcode of a computation that is op(p0, p1) or op(p1, p0) of its two parameters, for a
 * commutative op: add, multiply, maximum, minimum, and, or, xor. Else TRM_NUM_OPCODES. */
trm_opcode trm_computation_combiner(const trm_computation *computation);

/* Fills order[] with the instructions that `needed` marks (NULL: all) and all that they need:
 * operands and control predecessors first, otherwise in the order before. Fails on a cycle. */
trm_status trm_computation_order(const trm_computation *computation, const bool *needed,
                                 trm_index *order, uint32_t *out_count, trm_error *error);

/* How passes change a computation: they append instructions, note in replacement[i] which
 * instruction replaces i (TRM_NO_INDEX: none; the array covers all instructions, new ones too), and
 * call this function once. It redirects every operand, control predecessor and root, drops
 * instructions that nothing needs (side effects and parameters stay), and restores the topological
 * order, stable with respect to the order before. */
trm_status trm_computation_rewrite(trm_module *module, uint32_t computation,
                                   const trm_index *replacement, trm_error *error);

/* After instructions have moved: operands, control predecessors, parameters and the root follow,
 * from index i to position[i]. */
void trm_computation_renumber(trm_computation *computation, const trm_index *position);

/* Drops computations that the entry does not reach, and puts callees before callers. Fails on a
 * cyclic call graph. A legal order does not change. */
trm_status trm_module_compact(trm_module *module, trm_error *error);

/* The last step of every reader: compacts the module, and makes each side effect of a computation a
 * control predecessor of the next, so that passes keep their order. */
trm_status trm_module_settle(trm_module *module, trm_error *error);

/* Sets runs[c] for computations that run instruction by instruction: the entry, and the
 * computations of whiles and conditionals in those. runs has num_computations elements, all false
 * before. Callees must come before callers. */
void trm_module_mark_running(const trm_module *module, bool *runs);

/* Whether instructions name operations of TensorFlow. */
bool trm_module_is_of_tensorflow(const trm_module *module);

/* The opcode of the instruction; for a custom call, the opcode that custom_calls.def gives it. */
trm_opcode trm_instruction_acts_as(const trm_instruction *instruction);

/* For each of `count` leaves of the entry's parameters the number below which its elements have to
 * be to index what the module indexes with them, as far as that can be seen; 0: nothing is. False
 * when memory runs out, or for another count. */
bool trm_module_bound_inputs(const trm_module *module, int64_t *out_bounds, size_t count);

/* Whether the instruction must not be removed, duplicated or reordered with others of its kind. */
bool trm_instruction_has_side_effect(const trm_module *module, const trm_instruction *instruction);

/* Infers the shape from the opcode, attributes and operands of *instruction. Its own shape field is
 * read only where nothing else determines the shape (constants, parameters, broadcasts, reshapes).
 * An error says what is wrong with the instruction. */
trm_status trm_infer_shape(trm_module *module, const trm_computation *computation,
                           const trm_instruction *instruction, trm_shape *out_shape,
                           trm_error *error);

/* Checks the limits of shapes, as every reader does: rank <= TRM_MAX_RANK, dims >= 0, at most 2^40
 * bytes in each array, so that later arithmetic in int64 cannot overflow. */
trm_status trm_shape_check(const trm_shape *shape, trm_error *error);

/* Readers and writers of both forms (trm_module_read recognises the form). */
trm_status trm_hlo_parse_proto(const void *data, size_t size, trm_module **out_module,
                               trm_error *error);
/* Gives instructions and computations the ids that they would have after being written as a proto
 * and read. */
trm_status trm_hlo_settle_ids(trm_module *module, trm_error *error);
trm_status trm_hlo_parse_text(const char *text, size_t size, trm_module **out_module,
                              trm_error *error);

/* The value of a frontend attribute, or NULL. */
const char *trm_instruction_frontend_attribute(const trm_instruction *instruction, const char *key);
/* The same; for a fusion without it, the value at the first instruction of its body that has it. */
const char *trm_instruction_fused_attribute(const trm_module *module,
                                            const trm_instruction *instruction, const char *key);

/* "%name = f32[2] add(...) (model.py:41, dense/MatMul)": how messages name an instruction. */
const char *trm_instruction_text(const trm_module *module, const trm_instruction *instruction,
                                 char *buffer, size_t size);

#endif /* TREMULA_HLO_HLO_H_ */
