/* The passes: each changes a module and leaves it valid. pipeline.c reads as the compiler: passes
 * that all share, then one tail for the host, that runs the module, and one for an IPU, for which
 * it is planned.
 *
 * Before the passes the module is as its reader made it. After those that are shared:
 *   - no call and no fusion is left; every while and conditional owns its computations;
 *   - tuples appear only around control flow and multiple results;
 *   - the order of the instructions is the order of execution.
 * After the host's: elementwise chains are kLoop fusions, strip programs (fuse.c).
 * After the IPU's: elementwise chains that lie in one place, and are of one call of an outlined
 * function, are kLoop fusions. The estimate goes on
 * in a copy: values have the types that an IPU keeps them in (narrow.c), and instructions state
 * which calls of Poplar's libraries they are (library.c). */
#ifndef TREMULA_PASSES_PASS_H_
#define TREMULA_PASSES_PASS_H_

#include "hlo/hlo.h"

typedef trm_status (*trm_pass_fn)(trm_module *module, trm_error *error);

/* synchronous.c: what begins and ends apart (async-start, all-gather-start, copy-start ...) becomes
 * one operation; start indices in one array become scalars. */
trm_status trm_pass_synchronous(trm_module *module, trm_error *error);
/* inline.c: call and fusion instructions become their bodies; then each while and conditional gets
 * computations of its own. */
trm_status trm_pass_inline(trm_module *module, trm_error *error);
/* tuples.c: takes apart tuples that are made only to be taken apart. */
trm_status trm_pass_simplify_tuples(trm_module *module, trm_error *error);
/* dynamic.c: dimensions of a size that is known at run time only become static ones of their bound;
 * what cannot be computed so is refused. */
trm_status trm_pass_dynamic(trm_module *module, trm_error *error);
/* simplify.c: algebraic identities that keep every bit of the result. */
trm_status trm_pass_simplify(trm_module *module, trm_error *error);
/* halves.c: what the original computes in float32 between float16 operands and a float16 result. */
trm_status trm_pass_widen_halves(trm_module *module, trm_error *error);
/* Which float16 results are rounded at random; IDENTICAL: those that are the same on all replicas,
 * which round them alike. */
typedef enum trm_stochastic {
  TRM_STOCHASTIC_NONE,
  TRM_STOCHASTIC_ALL,
  TRM_STOCHASTIC_IDENTICAL
} trm_stochastic;

typedef struct trm_rounding_settings {
  trm_stochastic stochastic;
  bool alike;        /* what is the same on all replicas is rounded alike by all */
  uint32_t replicas; /* that the program will run on; 0 is 1 */
} trm_rounding_settings;

/* round.c: float16 results are rounded at random by instructions of their own: those that the
 * settings say, but what has the frontend attribute STOCHASTIC_ROUNDING as that says. */
trm_status trm_pass_round_halves(trm_module *module, const trm_rounding_settings *settings,
                                 trm_error *error);
/* fold.c: computes what is constant, when the result is small. */
trm_status trm_pass_fold_constants(trm_module *module, trm_error *error);
/* cse.c: equal instructions become one. */
trm_status trm_pass_common_subexpressions(trm_module *module, trm_error *error);
/* batch_norm.c: batch norms for training, and their gradients, get the statistics of `group`
 * replicas that follow each other, of `replicas`; fails where these are no multiple. */
trm_status trm_pass_distribute_batch_norm(trm_module *module, uint32_t group, uint32_t replicas,
                                          trm_error *error);
/* batch_norm.c: batch norms become elementwise instructions, but for gradients. */
trm_status trm_pass_expand_batch_norm(trm_module *module, trm_error *error);
/* top_k.c: sorts of which only the first places are read become topk. */
trm_status trm_pass_top_k(trm_module *module, trm_error *error);
/* hoist.c: moves out of while loops what does not change in them. */
trm_status trm_pass_hoist(trm_module *module, trm_error *error);
typedef struct trm_accelerator_settings {
  const char *name; /* NULL: what the environment chooses; "": none */
  bool fastest;     /* else float32 is float32, as far as the environment says nothing else */
} trm_accelerator_settings;

/* accelerate.c: what an accelerator can compute becomes calls of regions, if one is chosen
 * (accelerator/accelerator.h). What the CPU computes gets the frontend attribute TRM_STAYS, which
 * says why. */
#define TRM_STAYS "on_cpu"
trm_status trm_pass_accelerate(trm_module *module, const trm_accelerator_settings *settings,
                               trm_error *error);
/* drop_state.c: what loops compute for themselves alone goes. */
trm_status trm_pass_drop_state(trm_module *module, trm_error *error);
/* batch_products.c: products of one part of an array in each turn of a loop become one product of
 * the whole array, which hoist.c moves out. */
trm_status trm_pass_batch_products(trm_module *module, trm_error *error);
/* defer_products.c: products that a loop sums up become one product after the loop. */
trm_status trm_pass_defer_products(trm_module *module, trm_error *error);
/* sink_slices.c: elementwise instructions of which only slices are read work on slices. */
trm_status trm_pass_sink_slices(trm_module *module, trm_error *error);
/* bfloat16.c: elementwise instructions and reductions of bfloat16 become those of float32, rounded.
 */
trm_status trm_pass_widen_bfloat16(trm_module *module, trm_error *error);
/* norms.c: normalisations and their gradients read fewer arrays. */
trm_status trm_pass_lean_norms(trm_module *module, trm_error *error);
/* sums.c: the sum of a multiple of an array becomes a multiple of the array's sum. */
trm_status trm_pass_share_sums(trm_module *module, trm_error *error);
/* fuse.c: elementwise chains become kLoop fusions: for the host, across shards too. */
trm_status trm_pass_fuse(trm_module *module, trm_error *error);
/* The same for an IPU: a chain lies where its largest operand does, and what is only inside needs
 * no array. What is on different IPUs stays apart. */
trm_status trm_pass_place_together(trm_module *module, trm_error *error);
/* rows.c: what works row by row, and reduces rows, becomes a call that takes some rows at a time:
 * after fuse. */
trm_status trm_pass_group_rows(trm_module *module, trm_error *error);
/* fused_sums.c: sums of the columns of a fusion's results become one call with it: after fuse. */
trm_status trm_pass_fuse_sums(trm_module *module, trm_error *error);
/* calls.c: calls of outlined functions get copies of what goes in and comes out: copy instructions
 * with the mark TRM_CALL_COPY, which are no views. */
#define TRM_CALL_COPY "call_copy"
trm_status trm_pass_outlined_calls(trm_module *module, trm_error *error);
/* calls.c, after fusing: what reads an argument of a call, or a result, waits for all of them. */
trm_status trm_pass_order_calls(trm_module *module, trm_error *error);
/* narrow.c: gives values the types that an IPU keeps them in. Only shapes change: the module can be
 * planned then, not run. */
trm_status trm_pass_narrow(trm_module *module, trm_error *error);
/* library.c: states which calls of Poplar's libraries stand for instructions, for the estimate. */
trm_status trm_pass_library_calls(trm_module *module, trm_error *error);

/* names.c: names that two instructions or computations have are told apart. */
trm_status trm_pass_unique_names(trm_module *module, trm_error *error);

/* What trm_passes_run calls after each pass; NULL to leave out. */
typedef trm_status (*trm_pass_observer)(const char *pass, const trm_module *module, void *context,
                                        trm_error *error);

typedef struct trm_pass_settings {
  bool optimise;          /* off: only what the engine cannot do without */
  bool keep_instructions; /* neither fused nor computed beforehand: each result is to be seen */
  const char *disabled;   /* names of optimising passes with commas between them; NULL: none */
  trm_rounding_settings rounding;
  uint32_t batch_norm_group; /* of replicas with common statistics; 0, 1: none */
  trm_accelerator_settings accelerator;
} trm_pass_settings;

/* Those that host and IPU share, in order. */
trm_status trm_passes_run(trm_module *module, const trm_pass_settings *settings,
                          trm_pass_observer observer, void *context, trm_error *error);
/* The host's tail, after them. */
trm_status trm_passes_run_host(trm_module *module, const trm_pass_settings *settings,
                               trm_pass_observer observer, void *context, trm_error *error);
/* The IPU's tail, after them: whatever the settings of the host. */
trm_status trm_passes_run_ipu(trm_module *module, trm_error *error);
/* The name of the i-th pass that is shared or the host's, or NULL behind the last (documentation,
 * --dump-after). */
const char *trm_pass_name(size_t i);

#endif /* TREMULA_PASSES_PASS_H_ */
