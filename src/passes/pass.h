/* The passes: each changes a module and leaves it valid. pipeline.c lists them in three tables, in
 * order: passes that the host and an IPU share, those for the host, which runs the module, and
 * those for an IPU, for which the module is only planned.
 *
 * Before the passes the module is as its reader made it. After the shared passes:
 *   - there is no call and no fusion; every while and conditional owns its computations;
 *   - tuples appear only around control flow and multiple results;
 *   - the order of the instructions is the order of execution.
 * After the host's tail, elementwise chains are kLoop fusions, which become strip programs
 * (fuse.c). After the IPU's tail, elementwise chains that lie in one place, and belong to one call
 * of an outlined function, are kLoop fusions. The last passes of the IPU's tail plan: they work on
 * a copy of the module, whose values get the types that an IPU keeps them in (narrow.c), and whose
 * instructions state their calls of Poplar's libraries (library.c). */
#ifndef TREMULA_PASSES_PASS_H_
#define TREMULA_PASSES_PASS_H_

#include "hlo/hlo.h"

typedef trm_status (*trm_pass_fn)(trm_module *module, trm_error *error);

/* synchronous.c: pairs of start and done (async-start, all-gather-start, copy-start ...) become one
 * operation; start indices in one array become scalars. */
trm_status trm_pass_synchronous(trm_module *module, trm_error *error);
/* inline.c: call and fusion instructions become their bodies; then each while and conditional gets
 * computations of its own. */
trm_status trm_pass_inline(trm_module *module, trm_error *error);
/* tuples.c: takes apart tuples that are made only to be taken apart. */
trm_status trm_pass_simplify_tuples(trm_module *module, trm_error *error);
/* dynamic.c: dimensions whose size is known only at run time become static, with the size of their
 * bound. Fails for instructions that cannot be computed in this way. */
trm_status trm_pass_dynamic(trm_module *module, trm_error *error);
/* simplify.c: algebraic identities that keep every bit of the result. */
trm_status trm_pass_simplify(trm_module *module, trm_error *error);
/* halves.c: keeps values in float32 where the original does, between float16 operands and a float16
 * result. */
trm_status trm_pass_widen_halves(trm_module *module, trm_error *error);
/* Which float16 results are rounded stochastically. IDENTICAL: those that are the same on all
 * replicas. */
typedef enum trm_stochastic {
  TRM_STOCHASTIC_NONE,
  TRM_STOCHASTIC_ALL,
  TRM_STOCHASTIC_IDENTICAL
} trm_stochastic;

typedef struct trm_rounding_settings {
  trm_stochastic stochastic;
  bool alike;        /* replicas draw the same random numbers for values that are the same on all */
  uint32_t replicas; /* that the program will run on; 0 means 1 */
} trm_rounding_settings;

/* round.c: makes the stochastic rounding of float16 results an instruction of its own, where the
 * settings say so. The frontend attribute STOCHASTIC_ROUNDING of an instruction overrides the
 * settings. */
trm_status trm_pass_round_halves(trm_module *module, const trm_rounding_settings *settings,
                                 trm_error *error);
/* fold.c: computes small constants. */
trm_status trm_pass_fold_constants(trm_module *module, trm_error *error);
/* cse.c: equal instructions become one. */
trm_status trm_pass_common_subexpressions(trm_module *module, trm_error *error);
/* batch_norm.c: batch norms for training, and their gradients, use the statistics of `group`
 * consecutive replicas. Fails if `group` does not divide `replicas`. */
trm_status trm_pass_distribute_batch_norm(trm_module *module, uint32_t group, uint32_t replicas,
                                          trm_error *error);
/* batch_norm.c: batch norms become elementwise instructions; gradients stay. */
trm_status trm_pass_expand_batch_norm(trm_module *module, trm_error *error);
/* top_k.c: sorts of which only the first places are read become topk. */
trm_status trm_pass_top_k(trm_module *module, trm_error *error);
/* expand_rare.c: maps of elementwise instructions become those instructions, and conversions
 * of complex numbers those of their parts. */
trm_status trm_pass_rare_forms(trm_module *module, trm_error *error);
/* hoist.c: moves instructions whose results do not change out of while loops. */
trm_status trm_pass_hoist(trm_module *module, trm_error *error);
typedef struct trm_accelerator_settings {
  const char *name; /* NULL: the environment chooses; "": none */
  bool fastest;     /* else float32 is computed in float32, unless the environment says otherwise */
  const char *cache; /* the folder for compiled regions (host/accelerator/files.h) */
} trm_accelerator_settings;

/* accelerate.c: if an accelerator is chosen (host/accelerator/accelerator.h), the instructions that
 * it can compute become calls of regions. Instructions that the CPU computes get the frontend
 * attribute TRM_STAYS with the reason. */
#define TRM_STAYS "on_cpu"
trm_status trm_pass_accelerate(trm_module *module, const trm_accelerator_settings *settings,
                               trm_error *error);
/* recompute_slices.c: slices of arrays that one loop fills, and another reads, are computed by that
 * of others, where that is cheap. */
trm_status trm_pass_recompute_slices(trm_module *module, trm_error *error);
/* drop_state.c: removes elements of a loop's state that only their own next values depend on. */
trm_status trm_pass_drop_state(trm_module *module, trm_error *error);
/* batch_products.c: a product with one slice of an array in each iteration of a loop becomes a
 * product with the whole array, which hoist.c moves out. */
trm_status trm_pass_batch_products(trm_module *module, trm_error *error);
/* defer_products.c: products that a loop sums up become one product after the loop. */
trm_status trm_pass_defer_products(trm_module *module, trm_error *error);
/* sink_slices.c: elementwise instructions of which only slices are read work on slices. */
trm_status trm_pass_sink_slices(trm_module *module, trm_error *error);
/* float_halves.c: float16 becomes float32, but where its bits are asked for or given. */
trm_status trm_pass_float_halves(trm_module *module, trm_error *error);
/* bfloat16.c: elementwise instructions and reductions of bfloat16 become float32, with rounding. */
trm_status trm_pass_widen_bfloat16(trm_module *module, trm_error *error);
/* norms.c: normalisations and their gradients read fewer arrays. */
trm_status trm_pass_lean_norms(trm_module *module, trm_error *error);
/* sums.c: the sum of a multiple of an array becomes a multiple of the array's sum. */
trm_status trm_pass_share_sums(trm_module *module, trm_error *error);
/* Up to how many bytes collectives become one; 0: none do. */
typedef struct trm_combining {
  int64_t sums, scatters, gathers;
} trm_combining;

/* collectives.c: collectives of one kind that do not need each other become one of several
 * arrays. */
trm_status trm_pass_combine_collectives(trm_module *module, const trm_combining *limits,
                                        trm_error *error);
/* fuse.c: elementwise chains become kLoop fusions for the host, also across shards. */
trm_status trm_pass_fuse(trm_module *module, trm_error *error);
/* The same for an IPU: a chain lies on the tiles of its largest operand, and values inside need no
 * array. Instructions on different IPUs stay apart. */
trm_status trm_pass_place_together(trm_module *module, trm_error *error);
/* rows.c: reductions of rows, and row by row work around them, become calls that take a block of
 * rows at a time. Runs after fuse. */
trm_status trm_pass_group_rows(trm_module *module, trm_error *error);
/* attention.c: products of batches before and after a group of rows, with it, take a block of rows
 * at a time. Runs after group-rows. */
trm_status trm_pass_join_attention(trm_module *module, trm_error *error);
/* fused_sums.c: sums of the columns of a fusion's results become one call with it: after fuse. */
trm_status trm_pass_fuse_sums(trm_module *module, trm_error *error);
/* reductions.c: reductions of the same arrays become a call that reads these once: after
 * group-rows, which serves those of rows. */
trm_status trm_pass_group_reductions(trm_module *module, trm_error *error);
/* popops.c: instructions that together are one function of popops become one: an erf, which has the
 * attribute TRM_GELU where it stands for a gelu of its operand. For an IPU only. */
trm_status trm_pass_popops_functions(trm_module *module, trm_error *error);
/* multi_conv.c: the convolutions of one multi_conv() become one custom call. For an IPU only. */
trm_status trm_pass_multi_conv(trm_module *module, trm_error *error);
/* calls.c: adds copies of the arguments and results of outlined functions: copy instructions with
 * the mark TRM_CALL_COPY, which are no views. */
#define TRM_CALL_COPY "call_copy"
trm_status trm_pass_outlined_calls(trm_module *module, trm_error *error);
/* calls.c, after fusing: readers of an argument, or of a result, of a call wait for all of them. */
trm_status trm_pass_order_calls(trm_module *module, trm_error *error);
/* narrow.c: gives values the types that an IPU keeps them in. Only shapes change, so the module can
 * be planned but not run. */
trm_status trm_pass_narrow(trm_module *module, trm_error *error);
/* How the estimate orders a computation's instructions (src/ipu/program/order.c). */
typedef enum trm_order_kind {
  TRM_ORDER_LEAST_MEMORY,
  TRM_ORDER_AS_WRITTEN,
  TRM_ORDER_DEPTH_FIRST
} trm_order_kind;

typedef struct trm_recomputation {
  trm_order_kind order;
  const char *const *layers; /* only what these compute (ends with NULL); NULL: everything */
  uint32_t values;           /* set by the pass: how many it computes again, and their bytes */
  int64_t bytes;
} trm_recomputation;

/* src/ipu/program/recompute.c: gives the late uses of cheap values second copies, which are
 * computed again. A module with a pipeline stays as it is: there the stages recompute. */
trm_status trm_pass_recompute(trm_module *module, trm_recomputation *recomputation,
                              trm_error *error);
/* library.c: states the calls of Poplar's libraries as attributes, for the estimate. */
trm_status trm_pass_library_calls(trm_module *module, trm_error *error);

/* names.c: makes names of instructions and computations unique. */
trm_status trm_pass_unique_names(trm_module *module, trm_error *error);

/* Called after each pass; NULL: no call. */
typedef trm_status (*trm_pass_observer)(const char *pass, const trm_module *module, void *context,
                                        trm_error *error);

typedef struct trm_pass_settings {
  bool optimise;          /* off: only the passes that the engine needs */
  bool keep_instructions; /* no fusing and folding, so that each result can be observed */
  const char *disabled;   /* names of optimising passes, separated by commas; NULL: none */
  bool float_halves; /* the host stores float16 as float32, and rounds nothing stochastically */
  trm_rounding_settings rounding;
  uint32_t batch_norm_group; /* replicas with common statistics; 0 or 1: none */
  trm_combining combining;   /* of the host */
  trm_accelerator_settings accelerator;
  trm_recomputation *recomputation; /* of the passes that plan; NULL: none */
} trm_pass_settings;

/* Runs the passes that host and IPU share, in order. */
trm_status trm_passes_run(trm_module *module, const trm_pass_settings *settings,
                          trm_pass_observer observer, void *context, trm_error *error);
/* Runs the host's tail, after the shared passes. */
trm_status trm_passes_run_host(trm_module *module, const trm_pass_settings *settings,
                               trm_pass_observer observer, void *context, trm_error *error);
/* Runs the IPU's tail, after the shared passes, but for the passes that plan. The host's settings
 * do not matter. */
trm_status trm_passes_run_ipu(trm_module *module, trm_pass_observer observer, void *context,
                              trm_error *error);
/* Runs the passes of the IPU's tail that plan. `recomputation`: NULL for none. */
trm_status trm_passes_run_planning(trm_module *module, trm_recomputation *recomputation,
                                   trm_pass_observer observer, void *context, trm_error *error);

typedef enum trm_pass_table { TRM_PASSES_SHARED, TRM_PASSES_HOST, TRM_PASSES_IPU } trm_pass_table;
/* The name of the i-th pass of a table, or NULL after the last. No two passes have one name. */
const char *trm_pass_name(trm_pass_table table, size_t i);

#endif /* TREMULA_PASSES_PASS_H_ */
