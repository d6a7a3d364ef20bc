/* Codelets: an elementwise instruction on an IPU by itself: its codelet and compute set, by
 * Poplar's names, and the cycles of an element. The numbers are in tile_table.def. */
#ifndef TREMULA_IPU_COSTS_CODELETS_H_
#define TREMULA_IPU_COSTS_CODELETS_H_

#include "hlo/hlo.h"

/* The value of TRM_FUNCTION that ipu/passes/popops.c recognises. Python marks the others. */
#define TRM_GELU_ERF "gelu-erf"

/* Groups of types for which codelets have the same cycles. */
typedef enum trm_codelet_kind {
  TRM_CODELET_HALF,
  TRM_CODELET_FLOAT,
  TRM_CODELET_INTEGER
} trm_codelet_kind;
trm_codelet_kind trm_codelet_kind_of(trm_dtype dtype);
/* The codelet's type of a value: "half", "unsigned int". */
const char *trm_codelet_type(trm_dtype dtype);

/* select(compare(x, 0), y, 0): the gradient of a ReLU, for which popnn has a codelet. */
bool trm_codelet_is_relu_gradient(const trm_computation *computation,
                                  const trm_instruction *instruction);

/* Worker cycles of an element of an elementwise instruction. `in_half`: float32 counts as float16,
 * and conversions between the two are free. */
double trm_codelet_cycles(const trm_computation *computation, const trm_instruction *instruction,
                          bool in_half);
/* The part of these cycles that remains where operands and results stay in registers, as inside a
 * generated expression. The rest loads and stores. */
double trm_codelet_cycles_inside(double cycles, trm_dtype dtype);
/* Floating-point operations of an element. */
int64_t trm_codelet_flops(const trm_instruction *instruction);

/* The vertices of an expression of `size` instructions that ends in this one. `scalar`: one of two
 * operands is a scalar. NULL when memory runs out. */
const char *trm_codelet_name(trm_arena *arena, const trm_computation *computation,
                             const trm_instruction *instruction, uint32_t size, uint32_t inputs,
                             bool scalar);
/* The name that popops gives to the compute set of one instruction: "Op/Add", "Cast". NULL when
 * memory runs out. */
const char *trm_codelet_compute_set(trm_arena *arena, const trm_instruction *instruction);

#endif /* TREMULA_IPU_COSTS_CODELETS_H_ */
