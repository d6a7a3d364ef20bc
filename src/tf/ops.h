/* Owns: what the plugin registers with TensorFlow: ops, kernels, and the graph optimiser.
 *
 * TensorFlow calls the optimiser for each graph that has nodes on the device, when they have been
 * placed: ops that are placed on the device without `compile` are put together into programs before
 * they run. Python does the work (runtime/clusters/clusters.py), because programs of unknown shapes
 * are lowered by Python anyway; where it has not been loaded, graphs stay as they are. */
#ifndef TREMULA_TF_OPS_H_
#define TREMULA_TF_OPS_H_

#include "tensorflow.h"

/* The kernels, each in the file of its subject. */
#define TRM_TF_DECLARE_CREATE(name) \
  void *trm_tf_##name##_create(TF_OpKernelConstruction *construction)
#define TRM_TF_DECLARE_COMPUTE(name) \
  void trm_tf_##name##_compute(void *kernel, TF_OpKernelContext *context)

/* launch.c */
TRM_TF_DECLARE_CREATE(launch);
TRM_TF_DECLARE_COMPUTE(launch);
void trm_tf_launch_delete(void *kernel);
/* feed_ops.c */
TRM_TF_DECLARE_COMPUTE(start);
TRM_TF_DECLARE_COMPUTE(ready);
TRM_TF_DECLARE_COMPUTE(push);
TRM_TF_DECLARE_COMPUTE(end);
TRM_TF_DECLARE_COMPUTE(finish);
TRM_TF_DECLARE_CREATE(reset);
TRM_TF_DECLARE_COMPUTE(reset);
void trm_tf_reset_delete(void *kernel);
TRM_TF_DECLARE_CREATE(dequeue);
TRM_TF_DECLARE_COMPUTE(dequeue);
void trm_tf_dequeue_delete(void *kernel);
TRM_TF_DECLARE_CREATE(outfeed_delete);
TRM_TF_DECLARE_COMPUTE(outfeed_delete);
/* host_calls.c */
TRM_TF_DECLARE_CREATE(table_register);
TRM_TF_DECLARE_COMPUTE(table_register);
TRM_TF_DECLARE_CREATE(table_use);
TRM_TF_DECLARE_COMPUTE(table_use);
void trm_tf_table_node_delete(void *kernel);
/* events.c */
TRM_TF_DECLARE_COMPUTE(event_trace);

/* variables.c: registers the device's kernel of VarHandleOp for int32. */
trm_status trm_tf_variables_register(trm_error *error);

/* ---- For Python ---- */

/* Registers a kernel of the device for `op`. `kernel_def` is a serialised KernelDef, which
 * TensorFlow takes as a string that ends with a NUL, so it must hold no zero byte. That of an
 * update of a variable only says that it cannot be run by itself. Returns a status code. */
TRM_TF_API int32_t trm_tf_register_kernel(const char *op, const char *kernel_def,
                                          int32_t on_variables, char *message,
                                          uint64_t message_size);

/* What the optimiser asks of Python. Python answers with trm_tf_reply_graph before it returns, or
 * not at all if the graph is to stay as it is. */
typedef struct trm_tf_optimize_request {
  const void *graph; /* a serialised GraphDef */
  uint64_t graph_size;
  /* Names of nodes that must stay, and of those among them that are fetched; the others may be fed.
   * Each is followed by a newline, which no name holds. */
  const char *preserved;
  uint64_t preserved_size;
  const char *fetched;
  uint64_t fetched_size;
  void *reply; /* ours */
} trm_tf_optimize_request;

typedef void (*trm_tf_optimize)(const trm_tf_optimize_request *request);

TRM_TF_API void trm_tf_set_optimize(trm_tf_optimize optimize);
/* The new graph, which is copied. */
TRM_TF_API void trm_tf_reply_graph(const trm_tf_optimize_request *request, const void *graph,
                                   uint64_t size);

/* Looked up by TensorFlow when the plugin is loaded. */
TRM_TF_API void TF_InitKernel(void);

#endif /* TREMULA_TF_OPS_H_ */
