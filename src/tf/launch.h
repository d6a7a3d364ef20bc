/* Owns: call sites, and running their units in a kernel.
 *
 * A call site is one node of a graph that runs units. The node has either a module, or a payload
 * that Python lowers when the shapes are known (a graph, or an op's NodeDef). A payload has one
 * variant for each set of shapes and constant values. */
#ifndef TREMULA_TF_LAUNCH_H_
#define TREMULA_TF_LAUNCH_H_

#include "units.h"

typedef enum trm_tf_call_kind {
  TRM_TF_CALL_MODULE = 'm', /* payload: a serialised HloModuleProto */
  TRM_TF_CALL_GRAPH = 'g',  /* payload: written by lowering.py */
  TRM_TF_CALL_NODE = 'n',   /* payload: a serialised NodeDef */
} trm_tf_call_kind;

typedef struct trm_tf_site trm_tf_site;

/* Makes a call site with copies of payload, name and feeds (trm_tf_call; NULL: none). It belongs to
 * the session for which the thread calls TensorFlow (trm_tf_session_enter). */
trm_status trm_tf_site_create(trm_tf_call_kind kind, const void *payload, size_t size,
                              TF_StringView name, const char *feeds, trm_tf_site **out,
                              trm_error *error);
/* The description of the call site for its units; lives as long as the site. */
const trm_tf_call *trm_tf_site_call(const trm_tf_site *site);
void trm_tf_site_free(trm_tf_site *site);

/* Finds the unit for these inputs on a TF device. The caller uses it and ends that with
 * trm_tf_unit_done. out_taken has room for num_inputs; it is false for inputs whose values have
 * become constants of the unit. */
trm_status trm_tf_site_find(trm_tf_site *site, TF_Tensor *const *inputs, int num_inputs,
                            int ordinal, trm_tf_unit **out_unit, bool *out_taken, trm_error *error);

/* Chooses the unit for a kernel's inputs (NULL after a failure). The caller uses it and ends that
 * with trm_tf_unit_done. `taken` has room for all inputs and gets the tensors that the unit takes.
 */
trm_status trm_tf_launch_prepare(trm_tf_site *site, TF_OpKernelContext *context,
                                 const trm_tf_inputs *inputs, TF_Tensor **taken,
                                 trm_tf_unit **out_unit, trm_error *error);

/* Runs the call site's unit on the kernel's inputs and sets its outputs: a trm_tf_compute. */
trm_status trm_tf_launch(void *site, TF_OpKernelContext *context, trm_error *error);

/* ---- For Python: lowering ---- */

typedef struct trm_tf_input {
  int32_t dtype; /* TF_DataType */
  int32_t rank;
  const int64_t *dims;
  const void *data;
  uint64_t bytes;
} trm_tf_input;

/* A request of C to Python. Python answers with one of the two reply functions before it returns.
 */
typedef struct trm_tf_request {
  int32_t kind; /* trm_tf_call_kind */
  int32_t num_inputs;
  const void *payload;
  uint64_t payload_size;
  const char *name; /* of the node */
  const trm_tf_input *inputs;
  void *reply; /* belongs to C */
} trm_tf_request;

typedef void (*trm_tf_lower)(const trm_tf_request *request);

TRM_TF_API void trm_tf_set_lower(trm_tf_lower lower);
/* The answer: a module, and for each input whether its value is a constant in the module
 * (constant[i] != 0). */
TRM_TF_API void trm_tf_reply_module(const trm_tf_request *request, const void *module,
                                    uint64_t size, const uint8_t *constant);
TRM_TF_API void trm_tf_reply_error(const trm_tf_request *request, int32_t code,
                                   const char *message);

#endif /* TREMULA_TF_LAUNCH_H_ */
