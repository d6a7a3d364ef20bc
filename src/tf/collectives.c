/* Owns: the ops of collectives among processes (tremula/group.h), on the CPU: HorovodAllreduce,
 * HorovodAllgather, HorovodBroadcast, PopdistAllReduce, PopdistAllGather, PopdistBroadcast.
 *
 * Their kernels are asynchronous: a collective that waits for other processes holds no thread of
 * TensorFlow. So the ops of a step may be reached in another order in each process.
 *
 * TensorFlow's interface hands a kernel the address of a C++ object that is gone when the kernel
 * returns (2.15 and 2.21), so it is moved. */
#include <pthread.h>
#include <string.h>

#include "cxx.h"
#include "ops.h"
#include "tremula/group.h"

/* ---- Who takes part ------------------------------------------------------------------------- */

static pthread_mutex_t participants_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t *participants; /* NULL: all */
static uint32_t num_participants;

int32_t trm_tf_set_participants(const uint32_t *ranks, uint32_t count, char *message,
                                uint64_t message_size) {
  trm_error error = {0};
  uint32_t *copy = count == 0 ? NULL : trm_allocate_zeroed(count, sizeof *copy);
  if (count > 0 && copy == NULL) {
    return trm_tf_reply(trm_fail(&error, TRM_RESOURCE_EXHAUSTED, "out of memory"), &error, message,
                        message_size);
  }
  if (count > 0) memcpy(copy, ranks, count * sizeof *copy);
  pthread_mutex_lock(&participants_lock);
  trm_free(participants);
  participants = copy;
  num_participants = count;
  pthread_mutex_unlock(&participants_lock);
  return TRM_OK;
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

typedef struct collective_node {
  char *name; /* by which the processes' collectives meet */
  trm_collective_kind kind;
  trm_collective_op op;
  uint32_t root;
  bool stacks; /* an all-gather along a new first dimension */
} collective_node;

void trm_tf_collective_delete(void *kernel) {
  collective_node *node = kernel;
  if (node == NULL) return;
  trm_free(node->name);
  trm_free(node);
}

static trm_status read_name(TF_OpKernelConstruction *construction, char **out_name,
                            trm_error *error) {
  size_t size;
  TRY(trm_tf_get_text(construction, "tensor_name", out_name, &size, error));
  if (size > 0) return TRM_OK;
  trm_free(*out_name);
  const TF_StringView name = TF_OpKernelConstruction_GetName(construction);
  *out_name = trm_tf_copy_bytes(name.data, name.len);
  CHECK_MEMORY(*out_name, "the name of a collective");
  return TRM_OK;
}

static trm_status create_collective(TF_OpKernelConstruction *construction, void **out_kernel,
                                    trm_error *error) {
  collective_node *node = *out_kernel = trm_allocate_zeroed(1, sizeof *node);
  CHECK_MEMORY(node, "a node");
  int64_t kind, op, root;
  TRY(read_name(construction, &node->name, error));
  TRY(trm_tf_get_number(construction, "kind", &kind, error));
  TRY(trm_tf_get_number(construction, "reduce_op", &op, error));
  TRY(trm_tf_get_number(construction, "root_rank", &root, error));
  node->kind = (trm_collective_kind)kind;
  node->op = (trm_collective_op)op;
  node->root = (uint32_t)root;
  return trm_tf_get_bool(construction, "stacks", &node->stacks, error);
}

TRM_TF_DEFINE_CREATE(collective, create_collective)

/* ---- Running -------------------------------------------------------------------------------- */

/* A collective in progress. */
typedef struct pending {
  TF_OpKernelContext *context;
  trm_tf_cxx_function done;
  TF_Tensor *input;
  int64_t dims[TRM_MAX_RANK];
  uint32_t *participants;
} pending;

/* Tells TensorFlow of the end. */
static void finish(pending *p, trm_status status, const trm_error *error) {
  if (status != TRM_OK) {
    TF_Status *call = TF_NewStatus();
    trm_tf_report(call, status, error);
    TF_OpKernelContext_Failure(p->context, call);
    TF_DeleteStatus(call);
  }
  trm_tf_cxx_function done = p->done;
  TF_DeleteTensor(p->input);
  trm_free(p->participants);
  trm_free(p);
  trm_tf_cxx_call_once(&done);
}

static void take_result(void *user, trm_status status, const char *message,
                        const trm_collective_result *result) {
  pending *p = user;
  trm_error error = {0};
  if (status == TRM_OK) {
    status = trm_tf_copy_output(p->context, 0, TF_TensorType(p->input), result->dims, result->rank,
                                result->data, result->bytes, &error);
  } else {
    trm_fail(&error, status, "%s", message);
  }
  finish(p, status, &error);
}

static trm_status copy_participants(pending *p, trm_collective_request *request, trm_error *error) {
  trm_status status = TRM_OK;
  pthread_mutex_lock(&participants_lock);
  if (num_participants > 0) {
    const size_t size = num_participants * sizeof *participants;
    request->participants = p->participants = trm_allocate(size);
    request->num_participants = num_participants;
    if (p->participants != NULL) memcpy(p->participants, participants, size);
    if (p->participants == NULL) status = TRM_RESOURCE_EXHAUSTED;
  }
  pthread_mutex_unlock(&participants_lock);
  if (status != TRM_OK) FAIL_NO_MEMORY("a collective");
  return TRM_OK;
}

static trm_status fill_request(const collective_node *node, pending *p,
                               trm_collective_request *request, trm_error *error) {
  request->kind = node->kind;
  request->op = node->op;
  request->root = node->root;
  request->name = node->name;
  request->dtype = trm_tf_dtype(TF_TensorType(p->input));
  request->rank = TF_NumDims(p->input) + node->stacks;
  request->dims = p->dims;
  request->input = TF_TensorData(p->input);
  if (request->dtype == TRM_INVALID_TYPE || request->rank > TRM_MAX_RANK) {
    FAIL(INVALID_ARGUMENT, "The collective '%s' cannot take such a tensor.", node->name);
  }
  p->dims[0] = 1;
  for (int d = node->stacks; d < request->rank; ++d) {
    p->dims[d] = TF_Dim(p->input, d - node->stacks);
  }
  return copy_participants(p, request, error);
}

static trm_status start(const collective_node *node, pending *p, trm_error *error) {
  trm_collective_request request = {.size = sizeof request};
  TF_Status *call = TF_NewStatus();
  TF_GetInput(p->context, 0, &p->input, call);
  TRY(trm_tf_end_call(call, error));
  TRY(fill_request(node, p, &request, error));
  return trm_group_start(&request, take_result, p, error);
}

void trm_tf_collective_compute(void *kernel, TF_OpKernelContext *context,
                               TF_AsyncOpKernelDoneCallback *done) {
  trm_error error = {0};
  pending *p = trm_allocate_zeroed(1, sizeof *p);
  if (p == NULL) {
    TF_Status *call = TF_NewStatus();
    TF_SetStatus(call, TF_RESOURCE_EXHAUSTED, "out of memory while starting a collective");
    TF_OpKernelContext_Failure(context, call);
    TF_DeleteStatus(call);
    TF_RunAsyncOpKernelDoneCallback(done);
    return;
  }
  p->context = context;
  p->done = trm_tf_cxx_take(done);
  const trm_status status = start(kernel, p, &error);
  if (status != TRM_OK) finish(p, status, &error);
}
