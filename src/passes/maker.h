/* Appending chains of instructions in an edit. After the first failure every function does nothing,
 * so the caller checks `status` once, at the end. Shapes have the default layout; a result has the
 * shape of the first operand where no other is given. */
#ifndef TREMULA_PASSES_MAKER_H_
#define TREMULA_PASSES_MAKER_H_

#include "passes/edit.h"

typedef struct trm_maker {
  trm_edit *edit;
  trm_index like; /* its metadata goes to all instructions */
  trm_status status;
  trm_error *error;
} trm_maker;

trm_index trm_make(trm_maker *maker, const trm_instruction *prototype);
trm_index trm_unary(trm_maker *maker, trm_opcode opcode, trm_index x);
trm_index trm_binary(trm_maker *maker, trm_opcode opcode, trm_index x, trm_index y);
/* The same with an array of one repeated number. */
trm_index trm_with(trm_maker *maker, trm_opcode opcode, trm_index x, double number);
trm_index trm_select(trm_maker *maker, trm_index which, trm_index yes, trm_index no);
trm_index trm_compare(trm_maker *maker, trm_index x, trm_comparison comparison, double number);
/* x itself where it has the type. */
trm_index trm_convert(trm_maker *maker, trm_dtype dtype, trm_index x);
/* A reshape or a bitcast-convert. */
trm_index trm_recast(trm_maker *maker, trm_opcode opcode, trm_shape shape, trm_index x);
/* A broadcast of x, whose dimensions become the dimensions `along`. */
trm_index trm_broadcast(trm_maker *maker, trm_shape shape, trm_index x, trm_dims along);
/* An array of one repeated number. */
trm_index trm_filled(trm_maker *maker, trm_shape shape, double number);
/* Zeros of any type. */
trm_index trm_zeros(trm_maker *maker, trm_shape shape);
/* Elements [from, to) of the last dimension. */
trm_index trm_slice_last(trm_maker *maker, trm_index x, int64_t from, int64_t to);
/* Adds up (TRM_OP_ADD), or finds the largest (TRM_OP_MAXIMUM) of elements that are not negative,
 * over all dimensions but `kept`; -1: over all. */
trm_index trm_reduce(trm_maker *maker, trm_opcode opcode, trm_index x, int32_t kept);
/* One-dimensional arrays of one type, one behind the other. */
trm_index trm_concatenate(trm_maker *maker, const trm_index *arrays, uint32_t count);
/* A while: `called` is its condition and its body. */
trm_index trm_while(trm_maker *maker, trm_shape state, trm_index first, uint32_t called[2]);
trm_index trm_tuple(trm_maker *maker, trm_shape shape, const trm_index *elements);
trm_index trm_element(trm_maker *maker, trm_index tuple, int64_t k);

trm_shape trm_shape_at(const trm_maker *maker, trm_index x);
trm_shape trm_make_shape(trm_maker *maker, trm_dtype dtype, int32_t rank, const int64_t *dims);
trm_shape trm_make_tuple_shape(trm_maker *maker, int32_t count, const trm_shape *elements);
/* The same dimensions with another type. */
trm_shape trm_shape_as(trm_shape shape, trm_dtype dtype);
/* A copy in the module's arena; NULL after a failure. */
void *trm_keep(trm_maker *maker, const void *data, size_t size);
trm_dims trm_keep_dims(trm_maker *maker, int32_t count, const int64_t *items);

/* Another computation of the module, for a loop or a reduction: its instructions 0, 1, ... are the
 * parameters. What fails in it has failed outside too, when it has ended. */
typedef struct trm_subcomputation {
  trm_maker maker;
  trm_edit edit;
} trm_subcomputation;
trm_maker *trm_subcomputation_begin(trm_maker *outer, trm_subcomputation *sub, uint32_t count,
                                    const trm_shape *parameters);
uint32_t trm_subcomputation_end(trm_maker *outer, trm_subcomputation *sub, trm_index root);

#endif /* TREMULA_PASSES_MAKER_H_ */
