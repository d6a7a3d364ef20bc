/* Appending chains of instructions in an edit. After the first failure every function does nothing,
 * so the caller checks `status` once, at the end. */
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
trm_index trm_unary(trm_maker *maker, trm_opcode opcode, trm_shape shape, trm_index x);
trm_index trm_binary(trm_maker *maker, trm_opcode opcode, trm_shape shape, trm_index x,
                     trm_index y);
trm_index trm_ternary(trm_maker *maker, trm_opcode opcode, trm_shape shape, trm_index x,
                      trm_index y, trm_index z);
trm_index trm_compare(trm_maker *maker, trm_index x, trm_comparison comparison, trm_index y);
/* A broadcast of x, whose dimensions become the dimensions `along`. */
trm_index trm_broadcast(trm_maker *maker, trm_shape shape, trm_index x, trm_dims along);
/* An array of one repeated number. */
trm_index trm_filled(trm_maker *maker, trm_shape shape, double number);
/* A tuple, and the k-th element of one of that shape. */
trm_index trm_tuple(trm_maker *maker, trm_shape shape, const trm_index *elements);
trm_index trm_element(trm_maker *maker, trm_shape shape, trm_index tuple, int64_t k);

trm_shape trm_make_shape(trm_maker *maker, trm_dtype dtype, int32_t rank, const int64_t *dims);
trm_shape trm_make_tuple_shape(trm_maker *maker, int32_t count, const trm_shape *elements);
/* The same dimensions with another type and the default layout. */
trm_shape trm_shape_as(trm_shape shape, trm_dtype dtype);
/* Copies `items` into the module's arena. */
trm_dims trm_make_dims(trm_maker *maker, int32_t count, const int64_t *items);

/* Another computation of the module, for a loop or a reduction: its instructions 0, 1, ... are the
 * parameters. What fails in it has failed outside too, when it has ended. */
typedef struct trm_part {
  trm_maker maker;
  trm_edit edit;
} trm_part;
trm_maker *trm_part_begin(trm_maker *outer, trm_part *part, uint32_t count,
                          const trm_shape *parameters);
uint32_t trm_part_end(trm_maker *outer, trm_part *part, trm_index root);

#endif /* TREMULA_PASSES_MAKER_H_ */
