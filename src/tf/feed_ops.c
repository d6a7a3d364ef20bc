/* Owns: the ops of feeds: IpuStart, IpuReady, IpuPush, IpuEnd, IpuFinish, IpuInfeedReset;
 * IpuOutfeedDequeue, IpuOutfeedDelete.
 *
 * IpuStart starts a run. A while loop on the CPU takes elements from the dataset and pushes them,
 * and IpuFinish waits for the results. IpuReady and IpuPush wait until the run either wants another
 * element or ends, and return which. So the loop takes only the elements that the run reads: a
 * later element may be an error, or may depend on the result of this run. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>

#include "feeds.h"
#include "launch.h"
#include "ops.h"
#include "runs.h"
#include "settings.h"

/* ---- Starting ------------------------------------------------------------------------------- */

/* Outputs the number of a run, for the nodes of its step. TensorFlow frees the tensor at the end of
 * the step, also after a failure; nothing feeds the run after that. */
static trm_status set_run(TF_OpKernelContext *context, int64_t id, trm_error *error) {
  int64_t *data = trm_allocate_aligned(sizeof *data); /* TensorFlow copies unaligned memory */
  CHECK_MEMORY(data, "the number of a run");
  *data = id;
  TF_Tensor *tensor = TF_NewTensor(TF_INT64, NULL, 0, data, sizeof id, trm_tf_run_leave, NULL);
  const trm_status status = trm_tf_set_output(context, 0, tensor, error);
  TF_DeleteTensor(tensor);
  return status;
}

/* Finds the unit for the inputs; *out_taken gets those that it takes. */
static trm_status prepare(trm_tf_site *site, TF_OpKernelContext *context,
                          const trm_tf_inputs *inputs, TF_Tensor ***out_taken,
                          trm_tf_unit **out_unit, trm_error *error) {
  *out_taken = trm_allocate_zeroed((size_t)inputs->count, sizeof **out_taken);
  CHECK_MEMORY(*out_taken, "the inputs of a node");
  TRY(trm_tf_launch_prepare(site, context, inputs, *out_taken, out_unit, error));
  if (trm_tf_unit_is_fed(*out_unit)) return TRM_OK;
  trm_tf_unit_done(*out_unit);
  FAIL(INTERNAL, "A program without an infeed was started as one with it.");
}

static trm_status start(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  trm_tf_inputs inputs;
  TF_Tensor **taken = NULL;
  trm_tf_unit *p = NULL;
  int64_t id = 0;
  TRY(trm_tf_get_inputs(context, &inputs, error));
  const trm_status status = prepare(kernel, context, &inputs, &taken, &p, error);
  if (status != TRM_OK) {
    trm_free(taken);
    trm_tf_inputs_free(&inputs);
    return status;
  }
  TRY(trm_tf_run_start(p, trm_tf_site_call(kernel), &inputs, taken, &id, error));
  return set_run(context, id, error);
}

/* ---- Feeding -------------------------------------------------------------------------------- */

/* A node of a step, its run, and its inputs; the first input is the number of the run. */
typedef struct step {
  TF_OpKernelContext *context;
  trm_tf_run *run;
  const trm_tf_inputs *inputs;
} step;

static trm_status with_run(TF_OpKernelContext *context,
                           trm_status (*act)(const step *, trm_error *), trm_error *error) {
  trm_tf_inputs inputs;
  TRY(trm_tf_get_inputs(context, &inputs, error));
  int64_t id;
  memcpy(&id, TF_TensorData(inputs.tensors[0]), sizeof id);
  step s = {.context = context, .inputs = &inputs};
  trm_status status = trm_tf_run_get(id, &s.run, error);
  if (status == TRM_OK) {
    status = act(&s, error);
    trm_tf_run_release(s.run);
  }
  trm_tf_inputs_free(&inputs);
  return status;
}

static trm_status set_more(const step *s, bool more, trm_error *error) {
  const char value = more;
  return trm_tf_copy_output(s->context, 0, TF_BOOL, NULL, 0, &value, sizeof value, error);
}

static trm_status is_wanted(const step *s, trm_error *error) {
  /* With made-up elements nothing reads the dataset. */
  const bool is_made_up =
      trm_tf_settings_synthetic(NULL) & (TRM_SYNTHETIC_INFEED | TRM_TF_SYNTHETIC_NULL_FEED);
  return set_more(s, !is_made_up && trm_infeed_wanted(trm_tf_run_infeed(s->run)->queue), error);
}

static trm_status check_elements(const trm_tf_infeed *feed, TF_Tensor *const *elements,
                                 size_t count, trm_error *error) {
  if (count != feed->num_elements) {
    FAIL(INVALID_ARGUMENT, "The infeed '%s' takes %zu tensors and its dataset gave %zu.", feed->id,
         feed->num_elements, count);
  }
  for (size_t i = 0; i < count; ++i) {
    if (trm_tf_dtype(TF_TensorType(elements[i])) != feed->elements[i].dtype ||
        TF_TensorByteSize(elements[i]) != feed->elements[i].bytes) {
      FAIL(INVALID_ARGUMENT,
           "Tensor %zu of the infeed '%s' has another type or size than the dataset announced: %zu "
           "bytes instead of %zu.",
           i, feed->id, TF_TensorByteSize(elements[i]), feed->elements[i].bytes);
    }
  }
  return TRM_OK;
}

/* Pushes one element tuple. */
static trm_status push_tuple(const trm_tf_infeed *feed, TF_Tensor *const *elements,
                             trm_error *error) {
  const void **data = trm_allocate_zeroed(feed->num_elements, sizeof *data);
  CHECK_MEMORY(data, "an element of an infeed");
  for (size_t i = 0; i < feed->num_elements; ++i) data[i] = TF_TensorData(elements[i]);
  bool accepted = false;
  const trm_status status = trm_infeed_push(feed->queue, data, &accepted, error);
  trm_free(data);
  TRY(status);
  if (accepted) return TRM_OK;
  FAIL(ABORTED,
       "The infeed '%s' has no room for an element: several runs are fed from its dataset at once.",
       feed->id);
}

static trm_status push_next(const step *s, trm_error *error) {
  const trm_tf_infeed *feed = trm_tf_run_infeed(s->run);
  TF_Tensor *const *elements = s->inputs->tensors + 1;
  TRY(check_elements(feed, elements, (size_t)s->inputs->count - 1, error));
  TRY(push_tuple(feed, elements, error));
  return set_more(s, trm_infeed_wanted(feed->queue), error);
}

static trm_status end_data(const step *s, trm_error *error) {
  trm_infeed_end(trm_tf_run_infeed(s->run)->queue, TRM_OUT_OF_RANGE,
                 "Infeed dataset iterator out of range. Are you trying to dequeue more "
                 "elements than are in the dataset?");
  return set_more(s, false, error);
}

static trm_status take_results(const step *s, trm_error *error) {
  const size_t count = trm_tf_run_num_outputs(s->run);
  TRY(trm_tf_run_wait(s->run, error));
  if (count != (size_t)TF_NumOutputs(s->context)) {
    FAIL(INTERNAL, "The program has %zu results and its node %d outputs.", count,
         TF_NumOutputs(s->context));
  }
  for (size_t i = 0; i < count; ++i) {
    TF_Tensor *tensor = trm_tf_run_take_output(s->run, i);
    const trm_status status = trm_tf_set_output(s->context, (int)i, tensor, error);
    TF_DeleteTensor(tensor);
    TRY(status);
  }
  return TRM_OK;
}

static trm_status ready(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)kernel;
  return with_run(context, is_wanted, error);
}

static trm_status push(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)kernel;
  return with_run(context, push_next, error);
}

static trm_status end(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)kernel;
  return with_run(context, end_data, error);
}

static trm_status finish(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)kernel;
  return with_run(context, take_results, error);
}

TRM_TF_DEFINE_COMPUTE(start, start)
TRM_TF_DEFINE_COMPUTE(ready, ready)
TRM_TF_DEFINE_COMPUTE(push, push)
TRM_TF_DEFINE_COMPUTE(end, end)
TRM_TF_DEFINE_COMPUTE(finish, finish)

/* ---- Resetting an infeed -------------------------------------------------------------------- */

typedef struct reset_node {
  char *feed;
  char *refusal;
  char *empty;
  bool remove;
} reset_node;

void trm_tf_reset_delete(void *kernel) {
  reset_node *node = kernel;
  if (node == NULL) return;
  trm_free(node->feed);
  trm_free(node->refusal);
  trm_free(node->empty);
  trm_free(node);
}

static trm_status create_reset(TF_OpKernelConstruction *construction, void **out_kernel,
                               trm_error *error) {
  reset_node *node = *out_kernel = trm_allocate_zeroed(1, sizeof *node);
  CHECK_MEMORY(node, "a node");
  TRY(trm_tf_get_text(construction, "feed", &node->feed, NULL, error));
  TRY(trm_tf_get_text(construction, "refusal", &node->refusal, NULL, error));
  TRY(trm_tf_get_text(construction, "empty", &node->empty, NULL, error));
  return trm_tf_get_bool(construction, "remove", &node->remove, error);
}

static trm_status reset(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)context;
  const reset_node *node = kernel;
  if (node->refusal[0] != '\0') FAIL(FAILED_PRECONDITION, "%s", node->refusal);
  if (node->empty[0] != '\0') FAIL(INVALID_ARGUMENT, "%s", node->empty);
  if (node->remove && trm_tf_feed_is_used(node->feed)) {
    FAIL(FAILED_PRECONDITION, "Cannot delete infeed with id='%s' while in use", node->feed);
  }
  if (!trm_tf_infeed_set_started(node->feed, !node->remove) && node->remove) {
    FAIL(NOT_FOUND,
         "Infeed with id='%s' has not been started: run the `initializer` of its IPUInfeedQueue "
         "before its `deleter`.",
         node->feed);
  }
  trm_tf_infeed *feed = trm_tf_infeed_find(node->feed);
  if (feed == NULL) return TRM_OK; /* no unit has used the feed yet */
  trm_infeed_reset(feed->queue);
  trm_tf_infeed_forget_replicas(feed);
  return TRM_OK;
}

TRM_TF_DEFINE_CREATE(reset, create_reset)
TRM_TF_DEFINE_COMPUTE(reset, reset)

/* ---- Taking from an outfeed: what units have written to it since the last time -------------
 *
 * With keep_last the node gives the last element, again and again until there is a newer one. */

typedef struct dequeue_node {
  char *feed;
  bool keep_last;
  size_t num_elements;
  trm_tensor_info *elements;
  void **last; /* with keep_last: the last element tuple; its entries are NULL before the first */
  uint64_t deletions; /* deletions of the queue at the time of `last` */
} dequeue_node;

static trm_status set_shape(trm_tensor_info *info, trm_dtype dtype, int64_t rank,
                            const int64_t *dims, size_t num_dims, trm_error *error) {
  if (rank < 0 || rank >= TRM_MAX_RANK || (size_t)rank > num_dims) {
    FAIL(INVALID_ARGUMENT, "The shapes of the outfeed are broken.");
  }
  *info = (trm_tensor_info){.name = "", .dtype = dtype, .rank = (int32_t)rank};
  info->bytes = trm_dtype_size(dtype);
  for (int32_t j = 0; j < info->rank; ++j) {
    info->dims[j] = dims[j];
    info->bytes *= (size_t)dims[j];
  }
  return TRM_OK;
}

/* Reads the types and shapes of the elements. */
static trm_status read_elements(TF_OpKernelConstruction *construction, dequeue_node *d,
                                trm_error *error) {
  size_t count, num_dims, unused;
  TRY(trm_tf_get_list_size(construction, "dtypes", &count, &unused, error));
  TRY(trm_tf_get_list_size(construction, "dims", &num_dims, &unused, error));
  TF_DataType *types = trm_allocate_zeroed(count, sizeof *types);
  int64_t *ranks = trm_allocate_zeroed(count, sizeof *ranks);
  int64_t *dims = trm_allocate_zeroed(num_dims, sizeof *dims);
  d->elements = trm_allocate_zeroed(count, sizeof *d->elements);
  d->last = trm_allocate_zeroed(count, sizeof *d->last);
  trm_status status = TRM_OK;
  if (!types || !ranks || !dims || !d->elements || !d->last) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while allocating an outfeed");
  }
  TF_Status *call = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrTypeList(construction, "dtypes", types, (int)count, call);
  if (TF_GetCode(call) == TF_OK) {
    TF_OpKernelConstruction_GetAttrInt64List(construction, "ranks", ranks, (int)count, call);
  }
  if (TF_GetCode(call) == TF_OK) {
    TF_OpKernelConstruction_GetAttrInt64List(construction, "dims", dims, (int)num_dims, call);
  }
  TRY_OR_GOTO(trm_tf_end_call(call, error), done);
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    TRY_OR_GOTO(set_shape(&d->elements[i], trm_tf_dtype(types[i]), ranks[i], dims + at,
                          num_dims - at, error),
                done);
    at += (size_t)ranks[i];
    d->num_elements = i + 1;
  }
done:
  trm_free(types);
  trm_free(ranks);
  trm_free(dims);
  return status;
}

static trm_status create_dequeue(TF_OpKernelConstruction *construction, void **out_kernel,
                                 trm_error *error) {
  dequeue_node *d = *out_kernel = trm_allocate_zeroed(1, sizeof *d);
  CHECK_MEMORY(d, "a node");
  TRY(trm_tf_get_text(construction, "feed", &d->feed, NULL, error));
  TRY(trm_tf_get_bool(construction, "keep_last", &d->keep_last, error));
  return read_elements(construction, d, error);
}

void trm_tf_dequeue_delete(void *kernel) {
  dequeue_node *d = kernel;
  if (d == NULL) return;
  for (size_t i = 0; i < d->num_elements; ++i) trm_free(d->last[i]);
  trm_free(d->last);
  trm_free(d->elements);
  trm_free(d->feed);
  trm_free(d);
}

/* Elements taken from the queue: `count` tuples for each of the replicas. */
typedef struct taken {
  size_t count;
  uint32_t replicas;
  void **blocks; /* one block for each element, NULL when it is handed on; NULL: none */
} taken;

/* The bytes of element i of all tuples. */
static size_t taken_bytes(const dequeue_node *d, const taken *t, size_t i) {
  return d->elements[i].bytes * t->count * t->replicas;
}

/* Sets output i to `count` arrays of the element, or to one array without the leading dimension.
 * Several replicas add a dimension. */
static trm_status set_output(TF_OpKernelContext *context, const dequeue_node *d, size_t i,
                             const void *data, size_t count, uint32_t replicas, trm_error *error) {
  const trm_tensor_info *info = &d->elements[i];
  int64_t dims[TRM_MAX_RANK + 2];
  int rank = 0;
  if (!d->keep_last) dims[rank++] = (int64_t)count;
  if (replicas > 1) dims[rank++] = replicas;
  for (int32_t j = 0; j < info->rank; ++j) dims[rank++] = info->dims[j];
  return trm_tf_copy_output(context, (int)i, trm_tf_type(info->dtype), dims, rank, data,
                            info->bytes * count * replicas, error);
}

/* Outputs one element of zeros, in place of results, if units are compiled but not run. */
static trm_status give_zeros(TF_OpKernelContext *context, const dequeue_node *d, uint32_t replicas,
                             trm_error *error) {
  for (size_t i = 0; i < d->num_elements; ++i) {
    void *zeros = trm_allocate_zeroed(d->elements[i].bytes, replicas);
    CHECK_MEMORY(zeros, "an element of an outfeed");
    const trm_status status = set_output(context, d, i, zeros, 1, replicas, error);
    trm_free(zeros);
    TRY(status);
  }
  return TRM_OK;
}

/* Keeps the newest element tuple, for which a queue that keeps the last has a block. */
static void remember(dequeue_node *d, taken *t) {
  for (size_t i = 0; i < d->num_elements; ++i) {
    const size_t bytes = taken_bytes(d, t, i) / t->count;
    char *block = t->blocks[i];
    if (t->count > 1) memmove(block, block + (t->count - 1) * bytes, bytes);
    trm_free(d->last[i]);
    d->last[i] = t->blocks[i];
    t->blocks[i] = NULL;
  }
}

static trm_status give_last(TF_OpKernelContext *context, dequeue_node *d, taken *t,
                            trm_error *error) {
  if (t->count > 0) remember(d, t);
  if (d->last[0] == NULL) {
    FAIL(
        FAILED_PRECONDITION,
        "Trying to get the last value from an outfeed queue before it was executed. Make sure that "
        "the enqueue operation is executed before dequeuing.");
  }
  for (size_t i = 0; i < d->num_elements; ++i) {
    TRY(set_output(context, d, i, d->last[i], 1, t->replicas, error));
  }
  return TRM_OK;
}

/* Each block is free as soon as it is copied, so that the elements are there once. */
static trm_status give(TF_OpKernelContext *context, dequeue_node *d, taken *t, trm_error *error) {
  if (t->count == 0 && trm_tf_settings_only_compile()) {
    return give_zeros(context, d, t->replicas, error);
  }
  if (d->keep_last) return give_last(context, d, t, error);
  for (size_t i = 0; i < d->num_elements; ++i) {
    TRY(set_output(context, d, i, t->blocks ? t->blocks[i] : NULL, t->count, t->replicas, error));
    if (t->blocks == NULL) continue;
    trm_free_pages(t->blocks[i], taken_bytes(d, t, i));
    t->blocks[i] = NULL;
  }
  return TRM_OK;
}

static void forget_last(dequeue_node *d) {
  const uint64_t deletions = trm_tf_outfeed_deletions(d->feed);
  for (size_t i = 0; deletions != d->deletions && i < d->num_elements; ++i) {
    trm_free(d->last[i]);
    d->last[i] = NULL;
  }
  d->deletions = deletions;
}

/* Outputs the elements in the queue, which does not exist until a unit has named it. */
static trm_status dequeue(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  dequeue_node *d = kernel;
  trm_outfeed *queue = NULL;
  taken t = {.replicas = 1};
  TRY(trm_tf_outfeed_find(d->feed, d->elements, d->num_elements, &queue, &t.replicas, error));
  if (queue != NULL) TRY(trm_outfeed_take(queue, &t.count, &t.blocks, error));
  forget_last(d);
  trm_status status = TRM_OK;
  if (trm_tf_settings_synthetic(NULL) & TRM_SYNTHETIC_OUTFEED) {
    t.count = 0;
    if (d->keep_last) {
      FAIL_OR_GOTO(done, FAILED_PRECONDITION,
                   "Trying to get the last value from an outfeed queue when using synthethic data. "
                   "This is not supported.");
    }
  }
  status = give(context, d, &t, error);
done:
  for (size_t i = 0; t.blocks && i < d->num_elements; ++i) trm_free(t.blocks[i]);
  trm_free(t.blocks);
  return status;
}

TRM_TF_DEFINE_CREATE(dequeue, create_dequeue)
TRM_TF_DEFINE_COMPUTE(dequeue, dequeue)

static trm_status create_outfeed_delete(TF_OpKernelConstruction *construction, void **out_kernel,
                                        trm_error *error) {
  char *feed = NULL;
  TRY(trm_tf_get_text(construction, "feed", &feed, NULL, error));
  *out_kernel = feed;
  return TRM_OK;
}

static trm_status delete_outfeed(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)context;
  const char *feed = kernel;
  if (trm_tf_feed_is_used(feed)) {
    FAIL(FAILED_PRECONDITION, "Cannot delete outfeed with id='%s' while in use", feed);
  }
  if (trm_tf_settings_only_compile()) return TRM_OK; /* in this mode no unit runs */
  return trm_tf_outfeed_delete(feed, error);
}

TRM_TF_DEFINE_CREATE(outfeed_delete, create_outfeed_delete)
TRM_TF_DEFINE_COMPUTE(outfeed_delete, delete_outfeed)
