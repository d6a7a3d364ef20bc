/* The plugin's graph optimiser: ops that are placed on the device without `compile` are put
 * together into programs before they run.
 *
 * TensorFlow calls it for each graph that has nodes on the device, when they have been placed.
 * Python does the work (runtime/clusters.py), because programs of unknown shapes are lowered by
 * Python anyway; where it has not been loaded, graphs stay as they are. */
#ifndef TREMULA_TF_OPTIMIZER_H_
#define TREMULA_TF_OPTIMIZER_H_

#include "tensorflow.h"
#include "tensorflow/c/experimental/grappler/grappler.h"

/* What C asks of Python. Python answers with trm_tf_reply_graph before it returns, or not at all
 * if the graph is to stay as it is. */
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
TRM_TF_API void TF_InitGraph(TP_OptimizerRegistrationParams *params, TF_Status *status);

#endif /* TREMULA_TF_OPTIMIZER_H_ */
