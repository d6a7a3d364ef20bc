/* Building a program in C.
 *
 * A builder makes a module instruction by instruction:
 *
 *     trm_builder *b;
 *     trm_builder_create("example", &b, &error);
 *     const int64_t dims[] = {2, 3};
 *     trm_value x = trm_build_parameter(b, 0, (trm_type){TRM_F32, 2, dims}, "x");
 *     trm_value y = trm_build_binary(b, "multiply", x, x);
 *     trm_builder_build(b, y, &module, &error);
 *     trm_builder_free(b);
 *
 * Errors. No trm_build_... function returns a status. Each infers the shape of its result at once.
 * The builder remembers the first mistake with the operation that made it; later calls do nothing,
 * and trm_builder_build reports the mistake. So a program needs no check on every line.
 *
 * Values. A trm_value names one result within its builder and is passed by value. It belongs to the
 * function that was open when it was made. Another function gets it as an argument.
 *
 * Functions. reduce, sort, while and others take functions. trm_builder_begin opens a function,
 * later instructions belong to it, and trm_builder_end closes it. Functions nest; they are not
 * recursive.
 *
 * Order. Instructions with side effects (feeds, custom calls that say so) run in the order in which
 * they were built.
 *
 * Opcodes have HLO's names ("add", "exponential", "shift-left"). Arguments are copied, so arrays
 * and strings need to live only as long as the call. One thread at a time may use a builder. */
#ifndef TREMULA_BUILDER_H_
#define TREMULA_BUILDER_H_

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trm_builder trm_builder;

/* A result, and a function. Both are handles that belong to one builder. */
typedef struct trm_value {
  uint32_t function, instruction;
} trm_value;

typedef struct trm_function {
  uint32_t index;
} trm_function;

/* The type of an array. */
typedef struct trm_type {
  trm_dtype dtype;
  int32_t rank;
  const int64_t *dims; /* NULL for a scalar */
} trm_type;

/* A list of dimensions, or of sizes. TRM_AXES(0, 2) and TRM_NO_AXES write one in place. */
typedef struct trm_axes {
  const int64_t *items;
  int32_t count;
} trm_axes;

#ifndef __cplusplus
#define TRM_AXES(...)                         \
  ((trm_axes){(const int64_t[]){__VA_ARGS__}, \
              (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))})
#define TRM_NO_AXES ((trm_axes){NULL, 0})
#endif

/* ---- Builders ------------------------------------------------------------------------------- */

/* Begins a program of that name. Free the builder with trm_builder_free. */
TRM_API trm_status trm_builder_create(const char *name, trm_builder **out_builder,
                                      trm_error *error);
/* Ends the program. `root` is its result (a tuple for several results). On success the caller owns
 * the module, which is verified. Otherwise reports the first mistake. Afterwards the builder can
 * only be freed. */
TRM_API trm_status trm_builder_build(trm_builder *builder, trm_value root, trm_module **out_module,
                                     trm_error *error);
TRM_API void trm_builder_free(trm_builder *builder);

/* TRM_OK, or the status of the first mistake. */
TRM_API trm_status trm_builder_status(const trm_builder *builder);
/* The type of an array value; false for tuples and after a mistake. The pointers in *out_info live
 * as long as the builder. */
TRM_API bool trm_builder_value_info(const trm_builder *builder, trm_value value,
                                    trm_tensor_info *out_info);

/* Properties of the instructions that are built later, until they are set again. */
/* The IPU of the instructions, in a model that is split over several; -1: none. */
TRM_API void trm_builder_set_device(trm_builder *builder, int64_t device);
/* The source of the instructions, for messages and reports. Each text may be NULL. */
TRM_API void trm_builder_set_source(trm_builder *builder, const char *op_type, const char *op_name,
                                    const char *file, int32_t line);
/* Makes parameter `parameter` of the program a variable that element `output` of the result
 * updates; -1: the result is no tuple. */
TRM_API void trm_builder_alias(trm_builder *builder, int64_t output, int64_t parameter);

/* ---- Functions ------------------------------------------------------------------------------ */

/* Opens a function, to which later instructions belong. */
TRM_API void trm_builder_begin(trm_builder *builder, const char *name);
/* Closes the function that was opened last. `root` is its result. */
TRM_API trm_function trm_builder_end(trm_builder *builder, trm_value root);
/* The function (a, b) -> opcode(a, b) of scalars, such as the sum or maximum of a reduce. */
TRM_API trm_function trm_builder_scalar_function(trm_builder *builder, const char *opcode,
                                                 trm_dtype dtype);

/* ---- Sources -------------------------------------------------------------------------------- */

/* Numbers count from 0 in each function. The name may be NULL. */
TRM_API trm_value trm_build_parameter(trm_builder *builder, int64_t number, trm_type type,
                                      const char *name);
/* A parameter with the shape of `value`, which may be a tuple and may belong to another
 * function. */
TRM_API trm_value trm_build_parameter_like(trm_builder *builder, int64_t number, trm_value value,
                                           const char *name);
/* Copies the dense, row-major elements from `data`, which has `size` bytes. */
TRM_API trm_value trm_build_constant(trm_builder *builder, trm_type type, const void *data,
                                     size_t size);
/* A scalar constant: `value`, converted to the type and rounded to the nearest. */
TRM_API trm_value trm_build_scalar(trm_builder *builder, trm_dtype dtype, double value);
/* 0, 1, 2, ... along `dimension`. */
TRM_API trm_value trm_build_iota(trm_builder *builder, trm_type type, int64_t dimension);
/* The number of the replica that computes, u32[], from 0. */
TRM_API trm_value trm_build_replica_id(trm_builder *builder);
/* Random bits; the result is (new state, array). algorithm: 0 default, 1 three-fry, 2 philox. */
TRM_API trm_value trm_build_rng_bit_generator(trm_builder *builder, trm_value state,
                                              int32_t algorithm, trm_type type);

/* ---- Elementwise ---------------------------------------------------------------------------- */

/* abs ceil cosine exponential floor is-finite log logistic negate not rsqrt sign sine sqrt tanh,
 * and every other opcode of one operand and no attributes. */
TRM_API trm_value trm_build_unary(trm_builder *builder, const char *opcode, trm_value operand);
/* add and atan2 divide maximum minimum multiply or power remainder shift-left subtract xor, ... */
TRM_API trm_value trm_build_binary(trm_builder *builder, const char *opcode, trm_value left,
                                   trm_value right);
/* direction: "EQ", "NE", "GE", "GT", "LE", "LT". */
TRM_API trm_value trm_build_compare(trm_builder *builder, const char *direction, trm_value left,
                                    trm_value right);
/* Each element of on_true where the predicate holds, else that of on_false. */
TRM_API trm_value trm_build_select(trm_builder *builder, trm_value predicate, trm_value on_true,
                                   trm_value on_false);
/* The operand, kept between low and high, which may be scalars. */
TRM_API trm_value trm_build_clamp(trm_builder *builder, trm_value low, trm_value operand,
                                  trm_value high);
/* The operand's numbers in another type. */
TRM_API trm_value trm_build_convert(trm_builder *builder, trm_value operand, trm_dtype dtype);
/* The operand's bits, read as another type. */
TRM_API trm_value trm_build_bitcast_convert(trm_builder *builder, trm_value operand,
                                            trm_dtype dtype);
/* The operand, rounded to so many bits, in its own type. */
TRM_API trm_value trm_build_reduce_precision(trm_builder *builder, trm_value operand,
                                             int32_t exponent_bits, int32_t mantissa_bits);
/* Applies the function to every element of the operands. */
TRM_API trm_value trm_build_map(trm_builder *builder, const trm_value *operands, size_t count,
                                trm_function function);

/* ---- Moving data ---------------------------------------------------------------------------- */

/* Dimension i of the operand becomes dimension axes[i] of the result, whose sizes are `sizes`. */
TRM_API trm_value trm_build_broadcast(trm_builder *builder, trm_value operand, trm_axes sizes,
                                      trm_axes axes);
/* The operand's elements in their order, with other dimensions. */
TRM_API trm_value trm_build_reshape(trm_builder *builder, trm_value operand, trm_axes sizes);
/* Dimension i of the result is dimension permutation[i] of the operand. */
TRM_API trm_value trm_build_transpose(trm_builder *builder, trm_value operand,
                                      trm_axes permutation);
/* Turns the order round along the axes. */
TRM_API trm_value trm_build_reverse(trm_builder *builder, trm_value operand, trm_axes axes);
/* Takes the elements from start to before limit, with a stride. strides TRM_NO_AXES: all 1. */
TRM_API trm_value trm_build_slice(trm_builder *builder, trm_value operand, trm_axes starts,
                                  trm_axes limits, trm_axes strides);
/* starts: an integer scalar for each dimension. */
TRM_API trm_value trm_build_dynamic_slice(trm_builder *builder, trm_value operand,
                                          const trm_value *starts, trm_axes sizes);
/* The operand with `update` in the place of the slice that begins at `starts`. */
TRM_API trm_value trm_build_dynamic_update_slice(trm_builder *builder, trm_value operand,
                                                 trm_value update, const trm_value *starts);
/* Joins the operands along an axis. */
TRM_API trm_value trm_build_concatenate(trm_builder *builder, const trm_value *operands,
                                        size_t count, int64_t axis);
/* Negative low or high crop the array. interior adds elements between elements; TRM_NO_AXES:
 * none. */
TRM_API trm_value trm_build_pad(trm_builder *builder, trm_value operand, trm_value value,
                                trm_axes low, trm_axes high, trm_axes interior);

/* The dimension numbers of gather and scatter are those of HLO
 * (openxla.org/xla/operation_semantics). */
typedef struct trm_gather_spec {
  trm_axes offset_dims, collapsed_slice_dims, start_index_map, slice_sizes;
  trm_axes operand_batching_dims, start_indices_batching_dims; /* may be empty */
  int64_t index_vector_dim;
  bool indices_are_sorted;
} trm_gather_spec;
/* Slices of the operand, which `indices` name. */
TRM_API trm_value trm_build_gather(trm_builder *builder, trm_value operand, trm_value indices,
                                   const trm_gather_spec *spec);

typedef struct trm_scatter_spec {
  trm_axes update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  trm_axes input_batching_dims, scatter_indices_batching_dims; /* may be empty */
  int64_t index_vector_dim;
  bool indices_are_sorted, unique_indices;
} trm_scatter_spec;
/* The operand, with `combine` of old and new elements in the slices that `indices` name. */
TRM_API trm_value trm_build_scatter(trm_builder *builder, trm_value operand, trm_value indices,
                                    trm_value updates, const trm_scatter_spec *spec,
                                    trm_function combine);

/* ---- Reductions and linear algebra ---------------------------------------------------------- */

/* Combines the elements along the axes, from `init` on, by a function of two scalars. */
TRM_API trm_value trm_build_reduce(trm_builder *builder, trm_value operand, trm_value init,
                                   trm_axes axes, trm_function combine);
/* Reduces `count` arrays together. `combine` takes count left and count right scalars, and returns
 * a tuple of count scalars. The result is a tuple of count arrays. */
TRM_API trm_value trm_build_reduce_many(trm_builder *builder, const trm_value *operands,
                                        const trm_value *inits, size_t count, trm_axes axes,
                                        trm_function combine);

/* One dimension of a window. Zero strides and dilations mean 1. */
typedef struct trm_window_spec {
  int64_t size, stride, padding_low, padding_high, window_dilation, base_dilation;
  bool reversal;
} trm_window_spec;
/* `windows` has one entry for each dimension of the operand. */
TRM_API trm_value trm_build_reduce_window(trm_builder *builder, trm_value operand, trm_value init,
                                          const trm_window_spec *window, trm_function combine);
/* `select` chooses an element in each window of the operand; `scatter` combines the elements of
 * `source` that go there, from `init` on. */
TRM_API trm_value trm_build_select_and_scatter(trm_builder *builder, trm_value operand,
                                               trm_value source, trm_value init,
                                               const trm_window_spec *window, trm_function select,
                                               trm_function scatter);
/* Sorts along an axis. `less` takes two scalars of each operand: (a0, b0, a1, b1, ...). With
 * several operands the result is a tuple. */
TRM_API trm_value trm_build_sort(trm_builder *builder, const trm_value *operands, size_t count,
                                 int64_t axis, bool is_stable, trm_function less);

/* dtype: the type of the result; TRM_INVALID_TYPE: the type of the operands. */
TRM_API trm_value trm_build_dot(trm_builder *builder, trm_value left, trm_value right,
                                trm_axes left_batch, trm_axes right_batch,
                                trm_axes left_contracting, trm_axes right_contracting,
                                trm_dtype dtype);
/* `labels` as in HLO text: "b01f_01io->b01f" (batch, feature, spatial dimensions 0, 1, ...; the
 * kernel's input and output features). The window has one entry for each spatial dimension. */
TRM_API trm_value trm_build_convolution(trm_builder *builder, trm_value input, trm_value kernel,
                                        const char *labels, const trm_window_spec *window,
                                        int64_t feature_groups, int64_t batch_groups,
                                        trm_dtype dtype);
/* The result is (normalised, mean, variance). */
TRM_API trm_value trm_build_batch_norm_training(trm_builder *builder, trm_value operand,
                                                trm_value scale, trm_value offset, float epsilon,
                                                int64_t feature_axis);
/* Normalises by the mean and the variance that are given. */
TRM_API trm_value trm_build_batch_norm_inference(trm_builder *builder, trm_value operand,
                                                 trm_value scale, trm_value offset, trm_value mean,
                                                 trm_value variance, float epsilon,
                                                 int64_t feature_axis);
/* The result is (gradients of operand, scale, offset). */
TRM_API trm_value trm_build_batch_norm_grad(trm_builder *builder, trm_value operand,
                                            trm_value scale, trm_value mean, trm_value variance,
                                            trm_value grad_output, float epsilon,
                                            int64_t feature_axis);

/* ---- Tuples, control flow, the outside ------------------------------------------------------ */

/* Several values as one. */
TRM_API trm_value trm_build_tuple(trm_builder *builder, const trm_value *elements, size_t count);
/* One value of a tuple, from 0. */
TRM_API trm_value trm_build_get_tuple_element(trm_builder *builder, trm_value tuple, int64_t index);
/* condition: state -> pred[]; body: state -> state. */
TRM_API trm_value trm_build_while(trm_builder *builder, trm_value state, trm_function condition,
                                  trm_function body);
/* choice: pred[] (branch 0 when true, 1 when false) or s32[] (out of range: the last branch). Each
 * branch takes its own operand. */
TRM_API trm_value trm_build_conditional(trm_builder *builder, trm_value choice,
                                        const trm_function *branches, const trm_value *operands,
                                        size_t count);
/* The result of a function for these arguments. */
TRM_API trm_value trm_build_call(trm_builder *builder, trm_function function,
                                 const trm_value *operands, size_t count);
/* Combines the operand over all replicas with `combine`, such as a sum. */
TRM_API trm_value trm_build_all_reduce(trm_builder *builder, trm_value operand,
                                       trm_function combine);
/* One type: the result is an array; several: a tuple. `config` may be NULL. Feeds are the targets
 * "tremula.infeed" and "tremula.outfeed" with the config {"feed":"<id>"}. */
TRM_API trm_value trm_build_custom_call(trm_builder *builder, const char *target,
                                        const trm_value *operands, size_t count,
                                        const trm_type *results, size_t num_results,
                                        bool has_side_effect, const char *config);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_BUILDER_H_ */
