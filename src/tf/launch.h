/* Owns: call sites, and running their units inside a kernel.
 *
 * A call site is one node of a graph that runs a unit, and the units it has needed so far.
 * Either the node carries a module, or it carries something that Python lowers when the shapes are
 * known (a graph, or an op's NodeDef): then there is one variant for each set of shapes and of
 * values that had to be constant. */
#ifndef TREMULA_TF_LAUNCH_H_
#define TREMULA_TF_LAUNCH_H_

#include "units.h"

typedef enum trm_tf_call_kind {
  TRM_TF_CALL_MODULE = 'm', /* payload: a serialised HloModuleProto */
  TRM_TF_CALL_GRAPH = 'g',  /* payload: what lowering.py wrote */
  TRM_TF_CALL_NODE = 'n',   /* payload: a serialised NodeDef */
} trm_tf_call_kind;

typedef struct trm_tf_site trm_tf_site;

/* Copies payload, name and feeds (trm_tf_call; NULL: none). It is of the session for which the
 * thread calls TensorFlow (trm_tf_session_enter). */
trm_status trm_tf_site_create(trm_tf_call_kind kind, const void *payload, size_t size,
                              TF_StringView name, const char *feeds, trm_tf_site **out,
                              trm_error *error);
/* What its units are to know of it, as long as it lives. */
const trm_tf_call *trm_tf_site_call(const trm_tf_site *site);
void trm_tf_site_free(trm_tf_site *site);

/* The unit for these inputs on a TF device, which the caller uses (trm_tf_unit_done), and
 * which of them it takes: out_taken, which has room for num_inputs, is false where the value has
 * become part of the unit. */
trm_status trm_tf_site_find(trm_tf_site *site, TF_Tensor *const *inputs, int num_inputs,
                            int ordinal, trm_tf_unit **out_unit, bool *out_taken, trm_error *error);

/* Chooses the unit for a kernel's inputs, which the caller uses (trm_tf_unit_done; NULL after
 * a failure), and leaves in `taken`, which has room for as many, the tensors that it takes. */
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

/* What C asks of Python. Python answers with one of the two reply functions before it returns. */
typedef struct trm_tf_request {
  int32_t kind; /* trm_tf_call_kind */
  int32_t num_inputs;
  const void *payload;
  uint64_t payload_size;
  const char *name; /* of the node */
  const trm_tf_input *inputs;
  void *reply; /* ours */
} trm_tf_request;

typedef void (*trm_tf_lower)(const trm_tf_request *request);

TRM_TF_API void trm_tf_set_lower(trm_tf_lower lower);
/* The module, and for each input whether its value is part of the module (constant[i] != 0). */
TRM_TF_API void trm_tf_reply_module(const trm_tf_request *request, const void *module,
                                    uint64_t size, const uint8_t *constant);
TRM_TF_API void trm_tf_reply_error(const trm_tf_request *request, int32_t code,
                                   const char *message);

#endif /* TREMULA_TF_LAUNCH_H_ */
