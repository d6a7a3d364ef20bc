/* Kernels: how the host computes an instruction.
 *
 * Every op family (a folder here) has a reference kernel for each of its opcodes, in plain C, slow
 * and obviously right, which is the oracle of the tests. It has fast kernels where they pay. Both
 * have one calling convention. A kernel is created once, at compile or load time, for one
 * instruction with known shapes, and makes all decisions then. A run reads operands in place,
 * writes results, and allocates nothing.
 *
 * Values (docs/design/numerics.md): float16 and bfloat16 results are rounded after every HLO
 * instruction, also inside a fusion. dot, convolution, reduce, reduce-window and batch-norm
 * statistics accumulate in float32 and round once. Splitting work over threads never changes a
 * result.
 *
 * The engine itself runs tuple, get-tuple-element, parameter, constant, while, conditional, call,
 * opt-barrier, after-all, add-dependency, copies, feeds and host calls. All other instructions have
 * kernels. */
#ifndef TREMULA_HOST_OPS_KERNEL_H_
#define TREMULA_HOST_OPS_KERNEL_H_

#include "hlo/hlo.h"

typedef struct trm_kernel trm_kernel;
typedef struct trm_kernel_call trm_kernel_call;

/* The replicas of a group, and the place of one among them. */
typedef struct trm_members {
  const int64_t *list; /* NULL: `first` and its successors */
  int64_t first;
  uint32_t count, position;
} trm_members;

static inline uint32_t trm_member(const trm_members *members, uint32_t i) {
  return (uint32_t)(members->list != NULL ? members->list[i] : members->first + i);
}

/* What the replicas of a group need of each other, where some are in other processes. */
typedef struct trm_sharing {
  const void *state; /* of the functions below */
  uint64_t identity; /* tells meetings of a program apart; equal in all processes */
  uint32_t num_leaves;
  size_t (*bytes)(const void *state, uint32_t leaf); /* of an operand */
  /* The group of a replica. */
  trm_status (*find)(const void *state, uint32_t replica, uint32_t num_replicas,
                     trm_members *out_members, trm_error *error);
  /* The bytes of each member's operand that the member at `position` needs. */
  void (*need)(const void *state, uint32_t leaf, uint32_t count, uint32_t position,
               size_t *out_begin, size_t *out_end);
  /* Those are also the shard of the results that the member writes, for all members. */
  bool shares_results;
} trm_sharing;

/* How the replicas of a run meet. Between meet and leave every replica may read the operands of all
 * calls and write results of all calls, each place by one replica. After a meet or leave, every
 * replica sees what the others wrote before it. Both fail if a replica has failed, was cancelled or
 * ended its run, so that no replica waits without end.
 *
 * The replicas from `first` on, `num_here` of them, are in this process. The calls of the others
 * have the operands that `sharing` asks for, and no results. Without `sharing` only those of this
 * process meet, and only they have calls. */
typedef struct trm_exchange {
  uint32_t replica, num_replicas, first, num_here;
  const trm_kernel_call *const *calls; /* by replica, while they meet */
  /* Waits for all replicas. The meeting fails unless `what` is equal on all. */
  trm_status (*meet)(struct trm_exchange *exchange, const void *what, const trm_kernel_call *mine,
                     const trm_sharing *sharing, trm_error *error);
  trm_status (*leave)(struct trm_exchange *exchange, trm_error *error);
} trm_exchange;

/* The arguments of a run. */
struct trm_kernel_call {
  /* A pointer for each array leaf of every operand, in order. Arrays are dense, row-major, and
   * aligned for their type (to 64 bytes in buffers of the engine). Operands may be equal
   * pointers. */
  const void *const *operands;
  /* A number for each operand leaf: equal non-zero numbers in two calls of this kernel mean equal
   * bytes. 0: unknown. */
  const uint64_t *versions;
  /* A pointer for each array leaf of the result. It overlaps no operand, except that a result leaf
   * may be the buffer of an operand that in_place_operands or more_in_place names for it. */
  void *const *results;
  void *scratch; /* scratch_bytes, 64-byte aligned, contents undefined */
  /* persistent_bytes, 64-byte aligned, for each engine: zero at its first call, then kept from
   * call to call (packed weights). NULL for a kernel of a computation that another kernel runs. */
  void *persistent;
  uint64_t seed;          /* of random kernels: different for every run, iteration and replica */
  uint64_t shared_seed;   /* the same, but equal on all replicas */
  trm_exchange *exchange; /* NULL: a single replica */
  /* Whether the run was cancelled, or another replica has failed: a kernel that may run without end
   * asks now and then, and fails with TRM_CANCELLED. NULL: nothing stops the run. */
  bool (*is_stopped)(const void *engine);
  const void *engine;
};

struct trm_kernel {
  const char *name; /* such as "reference.dot", "onednn.convolution" */
  size_t scratch_bytes, persistent_bytes;
  uint32_t in_place_operands;    /* bit i: result leaf 0 may overwrite operand leaf i */
  const uint32_t *more_in_place; /* the same for result leaves from 1 on; NULL: none may */
  bool in_place_everywhere;      /* any result leaf may overwrite any operand leaf */
  void *state;                   /* in the request's arena, or released by destroy */
  trm_status (*run)(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error);
  void (*destroy)(trm_kernel *kernel); /* NULL: nothing to release */
};

/* The instruction that a kernel is created for. The module outlives the kernel. */
typedef struct trm_kernel_request {
  const trm_module *module;
  const trm_computation *computation;
  const trm_instruction *instruction;
  trm_arena *arena;   /* it lives as long as the kernel */
  bool is_in_loop;    /* the instruction runs many times in a run */
  bool keeps_nothing; /* the kernel may not keep anything between calls */
} trm_kernel_request;

/* Creates a kernel for the request. If a fast creator does not serve the instruction, it sets
 * *out_supported to false and returns TRM_OK. */
typedef trm_status (*trm_kernel_create_fn)(const trm_kernel_request *request,
                                           trm_kernel *out_kernel, bool *out_supported,
                                           trm_error *error);

/* Creates the first fast kernel that serves the instruction, else its reference kernel; with
 * reference_only always the latter. An instruction without a kernel fails with TRM_UNIMPLEMENTED;
 * the message has its name, its TensorFlow op and the user's source line. trm_kernel_destroy
 * releases the kernel. */
trm_status trm_kernel_create(const trm_kernel_request *request, bool reference_only,
                             trm_kernel *out_kernel, trm_error *error);
void trm_kernel_destroy(trm_kernel *kernel);
/* Computes an instruction of one array, once, with its reference kernel. */
trm_status trm_kernel_run_once(const trm_kernel_request *request, const void *const *operands,
                               void *result, trm_error *error);

/* The operand leaves, as bits, that a result leaf may overwrite. */
static inline uint32_t trm_kernel_in_place(const trm_kernel *kernel, uint32_t leaf) {
  if (leaf == 0) return kernel->in_place_operands;
  return kernel->more_in_place != NULL ? kernel->more_in_place[leaf - 1] : 0;
}
static inline bool trm_kernel_may_overwrite(const trm_kernel *kernel, uint32_t leaf,
                                            uint32_t operand) {
  return kernel->in_place_everywhere ||
         (operand < 32 && (trm_kernel_in_place(kernel, leaf) >> operand & 1) != 0);
}
/* Whether any kernel may serve this opcode (for documentation). */
bool trm_kernel_exists(trm_opcode opcode);

/* The shape of operand i. */
static inline const trm_shape *trm_operand_shape(const trm_kernel_request *request, uint32_t i) {
  return &request->computation->instructions[request->instruction->operands[i]].shape;
}

/* The creators of the families. registry.c maps opcodes to them. */
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

/* Elementwise instructions and kLoop fusions of them (elementwise/); for scalars the kernels of
 * fast_scalar.c. */
trm_status trm_fast_scalar_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_elementwise_create(const trm_kernel_request *, trm_kernel *, bool *,
                                       trm_error *);
/* Elementwise instructions with complex numbers (elementwise/complex_loops.c). */
trm_status trm_fast_complex_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_data_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_reduce_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_batch_norm_create(const trm_kernel_request *, trm_kernel *, bool *,
                                      trm_error *);
/* The custom calls "tremula.batch-norm-statistics" and "tremula.batch-norm-gradient-statistics"
 * (reduce/fast_batch_norm.c). */
trm_status trm_batch_norm_statistics_create(const trm_kernel_request *, trm_kernel *, bool *,
                                            trm_error *);
/* The custom call "tremula.assert" (host/assert.c). */
trm_status trm_assert_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.region" (host/region.c). */
trm_status trm_region_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.rows" (rows.c). */
trm_status trm_rows_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.reductions" (reduce/fast_reductions.c). */
trm_status trm_reductions_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.sums" (reduce/fused_sums.c). */
trm_status trm_sums_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.user-op", which a layer above serves: it has more kinds of user ops than
 * functions in C (calls/user_op.c). */
trm_status trm_user_op_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_c_user_op_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.round-half-stochastically" (random/round_half.c). */
trm_status trm_round_half_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* The custom call "tremula.dropout" (random/dropout.c). */
trm_status trm_dropout_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* Who computes a dot (products/dot_ways.c), and the way of those that oneDNN does not multiply. */
trm_status trm_fast_dot_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_dot_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
/* cholesky, triangular-solve, and the custom calls of factorisations (algebra/fast_algebra.c). */
trm_status trm_fast_algebra_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_fast_fft_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_convolution_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);

#endif /* TREMULA_HOST_OPS_KERNEL_H_ */
