/* A call site: one node of a graph that runs a program, and the programs it has needed so far.
 *
 * Either the node carries a module, or it carries something that Python lowers when the shapes are
 * known (a graph, or an op's NodeDef): then there is one variant for each set of shapes and of
 * values that had to be constant. */
#ifndef TREMULA_TF_CALL_H_
#define TREMULA_TF_CALL_H_

#include "programs.h"
#include "status.h"

typedef enum call_kind {
  CALL_MODULE = 'm', /* payload: a serialised HloModuleProto */
  CALL_GRAPH = 'g',  /* payload: what lowering.py wrote */
  CALL_NODE = 'n',   /* payload: a serialised NodeDef */
} call_kind;

typedef struct call_site call_site;

/* Copies payload, name and feeds (tf_call; NULL: none). It is of the session for which the thread
 * calls TensorFlow (trm_tf_session_enter). NULL when memory has run out. */
call_site *call_site_create(call_kind kind, const void *payload, size_t size, const char *name,
                            size_t name_size, const char *feeds);
/* How many of its inputs, the last ones, are variables; 0 before. */
void call_site_set_variables(call_site *site, size_t count);
/* What its programs are to know of it, as long as it lives. */
const tf_call *call_site_call(const call_site *site);
void call_site_free(call_site *site);

/* The program for these inputs on a TF device, which the caller uses (program_done), and which of
 * them it takes: out_taken, which has room for num_inputs, is false where the value has become part
 * of the program. */
bool call_site_find(call_site *site, TF_Tensor *const *inputs, int num_inputs, int ordinal,
                    tf_program **out_program, bool *out_taken, TF_Status *status);

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
  int32_t kind; /* call_kind */
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

#endif /* TREMULA_TF_CALL_H_ */
