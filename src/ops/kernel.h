/* How the host computes an instruction: kernels.
 *
 * Every op family (a folder here) has a reference kernel for each of its opcodes, in plain C, slow
 * and obviously right, which is the oracle of the tests; and fast kernels where they pay. Both have
 * one calling convention. A kernel is created once, at compile or load time, for one instruction
 * with all its shapes known; what can be decided is decided then. A run reads operands in place,
 * writes results, and allocates nothing.
 *
 * Values (docs/design/numerics.md): float16 and bfloat16 results are rounded after every HLO
 * instruction, also inside a fusion; dot, convolution, reduce, reduce-window and batch-norm
 * statistics accumulate in float32 and round once. Splitting work over threads never changes a
 * result.
 *
 * The engine itself runs tuple, get-tuple-element, parameter, constant, while, conditional, call,
 * opt-barrier, after-all, add-dependency, copies, the feeds and host calls; all others come here.
 */
#ifndef TREMULA_OPS_KERNEL_H_
#define TREMULA_OPS_KERNEL_H_

#include "hlo/hlo.h"

typedef struct trm_kernel trm_kernel;
typedef struct trm_kernel_call trm_kernel_call;

/* How the replicas of a run meet. Between meet and part every replica may read the operands of all
 * calls and write results of all calls, each place by one replica; what a replica has written
 * before it meets or parts, all see after. Both fail when a replica has failed, has been cancelled
 * or will never come, so nobody waits for ever. */
typedef struct trm_exchange {
  uint32_t replica, num_replicas;
  const trm_kernel_call *const *calls; /* by replica; while they meet */
  /* Waits for all replicas; `what` is the same for all, or the meeting fails. */
  trm_status (*meet)(struct trm_exchange *exchange, const void *what, const trm_kernel_call *mine,
                     trm_error *error);
  trm_status (*part)(struct trm_exchange *exchange, trm_error *error);
} trm_exchange;

/* What a run hands to a kernel. */
struct trm_kernel_call {
  /* One pointer an array leaf of every operand, in order; dense, row-major, aligned for its type
   * (64 bytes where the engine owns the buffer). Operands may be equal pointers. */
  const void *const *operands;
  /* Contents numbers, one an operand leaf: equal non-zero numbers in two calls of this kernel mean
   * equal bytes. 0: unknown. */
  const uint64_t *versions;
  /* One pointer an array leaf of the result. Does not overlap operands, but a result leaf may be
   * the buffer of an operand that in_place_operands or more_in_place names for the leaf. */
  void *const *results;
  void *scratch;        /* scratch_bytes, 64-byte aligned, contents undefined */
  void *persistent;     /* persistent_bytes, 64-byte aligned, zero at the engine's first call, then
                           kept from call to call (packed weights); one an engine */
  uint64_t seed;        /* random kernels: differs for every run, iteration and replica */
  uint64_t shared_seed; /* the same, but equal on all replicas */
  trm_exchange *exchange; /* NULL: there is one replica */
};

struct trm_kernel {
  const char *name; /* such as "reference.dot", "onednn.convolution" */
  size_t scratch_bytes, persistent_bytes;
  uint32_t in_place_operands;    /* bit i: result leaf 0 may be written over operand leaf i */
  const uint32_t *more_in_place; /* the same of leaves 1 and up; NULL: none may */
  void *state;                   /* in the arena of the request, or released by destroy */
  trm_status (*run)(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error);
  void (*destroy)(trm_kernel *kernel); /* NULL: nothing to do */
};

/* What a kernel is created for. The module outlives the kernel. */
typedef struct trm_kernel_request {
  const trm_module *module;
  const trm_computation *computation;
  const trm_instruction *instruction;
  trm_arena *arena; /* lives as long as the kernel */
  bool is_in_loop;  /* the instruction runs many times in a run */
} trm_kernel_request;

/* Creates a kernel for the request. A fast creator that cannot serve the instruction sets
 * *out_supported to false and returns TRM_OK. */
typedef trm_status (*trm_kernel_create_fn)(const trm_kernel_request *request,
                                           trm_kernel *out_kernel, bool *out_supported,
                                           trm_error *error);

/* Chooses and creates: the first fast kernel that serves the instruction, else the reference
 * kernel; only the latter with reference_only. An instruction without any is refused with
 * TRM_UNIMPLEMENTED, by name and with the TensorFlow op and the user's source line. */
trm_status trm_kernel_create(const trm_kernel_request *request, bool reference_only,
                             trm_kernel *out_kernel, trm_error *error);
void trm_kernel_destroy(trm_kernel *kernel);

/* The operand leaves, as bits, over which a result leaf may be written. */
static inline uint32_t trm_kernel_in_place(const trm_kernel *kernel, uint32_t leaf) {
  if (leaf == 0) return kernel->in_place_operands;
  return kernel->more_in_place != NULL ? kernel->more_in_place[leaf - 1] : 0;
}
/* Whether any kernel may serve this opcode (documentation). */
bool trm_kernel_exists(trm_opcode opcode);

/* The shape of operand i. */
static inline const trm_shape *trm_operand_shape(const trm_kernel_request *request, uint32_t i) {
  return &request->computation->instructions[request->instruction->operands[i]].shape;
}

/* The families' creators; registry.c maps opcodes to them. */
trm_status trm_reference_elementwise_create(const trm_kernel_request *, trm_kernel *, bool *,
                                            trm_error *);
trm_status trm_reference_data_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_reference_reduce_create(const trm_kernel_request *, trm_kernel *, bool *,
                                       trm_error *);
trm_status trm_reference_batch_norm_create(const trm_kernel_request *, trm_kernel *, bool *,
                                           trm_error *);
trm_status trm_reference_dot_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_reference_convolution_create(const trm_kernel_request *, trm_kernel *, bool *,
                                            trm_error *);
trm_status trm_reference_random_create(const trm_kernel_request *, trm_kernel *, bool *,
                                       trm_error *);
/* Collectives and replica-id, and our custom calls for them (collective/). */
trm_status trm_collective_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);

/* Fast: elementwise instructions and kLoop fusions of them (elementwise/); of single numbers the
 * kernels of fast_scalar.c. */
trm_status trm_fast_scalar_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_elementwise_create(const trm_kernel_request *, trm_kernel *, bool *,
                                       trm_error *);
/* Those with complex numbers (elementwise/complex_loops.c). */
trm_status trm_fast_complex_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_data_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_reduce_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_batch_norm_create(const trm_kernel_request *, trm_kernel *, bool *,
                                      trm_error *);
/* The custom calls "tremula.batch-norm-statistics" and "tremula.batch-norm-gradient-statistics"
 * (reduce/batch_norm_fast.c). */
trm_status trm_batch_norm_statistics_create(const trm_kernel_request *, trm_kernel *, bool *,
                                            trm_error *);
/* The custom call "tremula.assert" (host/assert.c). */
trm_status trm_assert_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.region" (host/region.c). */
trm_status trm_region_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.rows" (rows.c). */
trm_status trm_rows_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.sums" (reduce/fused_sums.c). */
trm_status trm_sums_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.user-op" (host/user_op.c). */
trm_status trm_user_op_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.round-half-stochastically" (random/round_half.c). */
trm_status trm_round_half_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.dropout" (random/dropout.c). */
trm_status trm_dropout_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* dot of what oneDNN does not multiply (linear/fast_dot.c). */
trm_status trm_fast_dot_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_onednn_dot_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* cholesky, triangular-solve, and the custom calls of factorisations (linear/fast_algebra.c). */
trm_status trm_fast_algebra_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_fft_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_onednn_convolution_create(const trm_kernel_request *, trm_kernel *, bool *,
                                         trm_error *);

#endif /* TREMULA_OPS_KERNEL_H_ */
