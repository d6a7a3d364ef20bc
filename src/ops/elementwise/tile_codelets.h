/* What an elementwise instruction is on an IPU, whatever is around it: its codelet and compute set,
 * by Poplar's names, and what an element costs. The numbers are tile_table.def's. */
#ifndef TREMULA_OPS_ELEMENTWISE_TILE_CODELETS_H_
#define TREMULA_OPS_ELEMENTWISE_TILE_CODELETS_H_

#include "hlo/hlo.h"

/* Types that codelets have the same cycles for. */
typedef enum trm_codelet_kind {
  TRM_CODELET_HALF,
  TRM_CODELET_FLOAT,
  TRM_CODELET_INTEGER
} trm_codelet_kind;
trm_codelet_kind trm_codelet_kind_of(trm_dtype dtype);
/* "half", "unsigned int": the type that a codelet has for a value. */
const char *trm_codelet_type(trm_dtype dtype);

/* select(compare(x, 0), y, 0): the gradient of a ReLU, which popnn has a codelet for. */
bool trm_codelet_is_relu_gradient(const trm_computation *computation,
                                  const trm_instruction *instruction);

/* Worker cycles an element of an elementwise instruction. `in_half`: float32 stands for float16,
 * and conversions between the two for nothing. */
double trm_codelet_cycles(const trm_computation *computation, const trm_instruction *instruction,
                          bool in_half);
/* Of these cycles, those that are left where operands and results stay in registers, as inside a
 * generated expression: the others load and store. */
double trm_codelet_cycles_inside(double cycles, trm_dtype dtype);
/* Floating-point operations an element. */
int64_t trm_codelet_flops(const trm_instruction *instruction);

/* The vertices of an expression of `size` instructions that ends in this one. `scalar`: an operand
 * of two is one number. NULL when memory runs out. */
const char *trm_codelet_name(trm_arena *arena, const trm_computation *computation,
                             const trm_instruction *instruction, uint32_t size, uint32_t inputs,
                             bool scalar);
/* What popops calls the compute set of one instruction: "Op/Add", "Cast". NULL when memory runs
 * out. */
const char *trm_codelet_compute_set(trm_arena *arena, const trm_instruction *instruction);

#endif /* TREMULA_OPS_ELEMENTWISE_TILE_CODELETS_H_ */
