/* Strip code: a computation of elementwise instructions, run a strip of elements at a time.
 *
 * The index space is cut in strips that stay in the first-level cache. With AVX-512, runs of
 * instructions become machine code (strip_generate.c); without, and for what has no code, each
 * instruction is one call of a vectorised loop (vector.h) over a strip, from and to strip
 * registers. Operands that are read in order are read where they are, results are written where
 * they belong; what is broadcast, sliced or reversed is gathered strip by strip, or once when every
 * strip sees the same.
 *
 * Serves pred, integers, f16 and f32; elementwise opcodes but those of complex numbers,
 * reduce-precision and stochastic-convert; constants, iota, broadcast, reshape, bitcast, copy,
 * slice, reverse, transpose; tuples of arrays as the root. A value that is broadcast, sliced,
 * reversed or transposed after it was computed is computed first, into scratch ("stages"). */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_STRIP_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_STRIP_H_

#include "host/ops/kernel.h"

/* Whether the instruction may be part of a kLoop fusion. */
bool trm_strip_supports(const trm_module *module, const trm_computation *computation,
                        const trm_instruction *instruction);

/* Whether rounding never changes a result of the opcode: it is a half, or a bfloat16, where the
 * operands are. */
bool trm_strip_is_exact(trm_opcode opcode);
/* Whether an opcode of one or two operands computes in float32 and rounds to a half. */
bool trm_strip_rounds(trm_opcode opcode);

typedef struct trm_strip_code trm_strip_code;

/* Compiles a whole computation of `module`: parameter i is operand i, an array; the root is an
 * array or a flat tuple of arrays. Sets *out_supported to false when the computation holds
 * something else. */
trm_status trm_strip_compile(const trm_module *module, const trm_computation *computation,
                             trm_arena *arena, trm_strip_code **out_code, bool *out_supported,
                             trm_error *error);
/* Frees the machine code, which is in no arena; functions and iota have none. */
void trm_strip_destroy(trm_strip_code *code);
size_t trm_strip_scratch_bytes(const trm_strip_code *code);
uint32_t trm_strip_in_place_operands(const trm_strip_code *code, uint32_t result);
void trm_strip_run(const trm_strip_code *code, const void *const *operands, void *const *results,
                   void *scratch);

/* Code whose arrays fit in one strip may find its pointers in a block of that many bytes that is
 * its own, zero at first; 0: it may not. The pointers are made again when an operand or a result is
 * at another place than in the last call. */
size_t trm_strip_kept_bytes(const trm_strip_code *code);
void trm_strip_run_kept(const trm_strip_code *code, const void *const *operands,
                        void *const *results, void *kept);

/* A computation of scalars (of reduce, sort, map, scatter), applied to many elements at once. */
typedef struct trm_function {
  trm_strip_code *code; /* the index space is `count` elements */
  uint32_t num_parameters, num_results;
  size_t scratch_bytes;
  trm_opcode single_opcode; /* TRM_NUM_OPCODES when it is none */
} trm_function;

/* Sets *out_supported to false for what strips cannot do; the reference kernels can. */
trm_status trm_function_compile(const trm_module *module, uint32_t computation, trm_arena *arena,
                                trm_function *out_function, bool *out_supported, trm_error *error);
/* args[i] and results[i] are dense arrays of `count` elements in the types of the parameters and
 * results; a result may be an argument's array when that is read by nothing after it. `scratch` is
 * scratch_bytes, 64-byte aligned, one a thread. */
void trm_function_apply(const trm_function *function, const void *const *args, void *const *results,
                        size_t count, void *scratch);
/* Whether the function is op(p0, p1) or op(p1, p0) of a commutative op: add, multiply, maximum,
 * minimum, and, or, xor. */
bool trm_function_single_opcode(const trm_function *function, trm_opcode *out_opcode);

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_STRIP_H_ */
