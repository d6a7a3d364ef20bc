/* IpuOutfeedDequeue: what programs have written to an outfeed since the last time.
 *
 * With keep_last it gives the last element, again and again until there is a newer one.
 * IpuOutfeedDelete drops all that. */
#include <stdlib.h>
#include <string.h>

#include "feeds.h"
#include "ops.h"
#include "settings.h"
#include "tensors.h"

typedef struct dequeue {
  char *feed;
  bool keep_last;
  size_t num_elements;
  trm_tensor_info *elements;
  void **last; /* with keep_last: the last element tuple; its items are NULL before the first */
  uint64_t deletions; /* of the queue, when `last` was taken */
} dequeue;

/* An attribute that is a list; *out must be freed. */
static size_t list_length(TF_OpKernelConstruction *construction, const char *attribute,
                          TF_Status *status) {
  int32_t length = 0;
  int32_t bytes = 0;
  if (is_ok(status))
    TF_OpKernelConstruction_GetAttrSize(construction, attribute, &length, &bytes, status);
  return is_ok(status) && length > 0 ? (size_t)length : 0;
}

/* Reads the types and shapes of the elements. */
static void read_elements(TF_OpKernelConstruction *construction, dequeue *d, TF_Status *status) {
  size_t count = list_length(construction, "dtypes", status);
  size_t num_dims = list_length(construction, "dims", status);
  TF_DataType *types = calloc(count + 1, sizeof *types);
  int64_t *ranks = calloc(count + 1, sizeof *ranks);
  int64_t *dims = calloc(num_dims + 1, sizeof *dims);
  d->elements = calloc(count + 1, sizeof *d->elements);
  d->last = calloc(count + 1, sizeof *d->last);
  if (!types || !ranks || !dims || !d->elements || !d->last) fail_memory(status);
  if (is_ok(status))
    TF_OpKernelConstruction_GetAttrTypeList(construction, "dtypes", types, (int)count, status);
  if (is_ok(status))
    TF_OpKernelConstruction_GetAttrInt64List(construction, "ranks", ranks, (int)count, status);
  if (is_ok(status))
    TF_OpKernelConstruction_GetAttrInt64List(construction, "dims", dims, (int)num_dims, status);
  size_t at = 0;
  for (size_t i = 0; is_ok(status) && i < count; ++i) {
    trm_tensor_info *info = &d->elements[i];
    info->name = "";
    info->dtype = hlo_type(types[i]);
    info->bytes = trm_dtype_size(info->dtype);
    if (ranks[i] < 0 || ranks[i] >= TRM_MAX_RANK || (size_t)ranks[i] > num_dims - at) {
      fail(status, TF_INVALID_ARGUMENT, "The shapes of the outfeed are broken.");
      break;
    }
    info->rank = (int32_t)ranks[i];
    for (int32_t j = 0; j < info->rank; ++j) {
      info->dims[j] = dims[at++];
      info->bytes *= (size_t)info->dims[j];
    }
    d->num_elements = i + 1;
  }
  free(types);
  free(ranks);
  free(dims);
}

void *dequeue_create(TF_OpKernelConstruction *construction) {
  TF_Status *status = TF_NewStatus();
  dequeue *d = calloc(1, sizeof *d);
  if (!d) fail_memory(status);
  if (d) {
    d->feed = string_attribute(construction, "feed", NULL, status);
    unsigned char keep_last = 0;
    if (is_ok(status))
      TF_OpKernelConstruction_GetAttrBool(construction, "keep_last", &keep_last, status);
    d->keep_last = keep_last;
    if (is_ok(status)) read_elements(construction, d, status);
  }
  if (!is_ok(status)) TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return d;
}

void dequeue_delete(void *kernel) {
  dequeue *d = kernel;
  if (!d) return;
  for (size_t i = 0; i < d->num_elements; ++i) free(d->last[i]);
  free(d->last);
  free(d->elements);
  free(d->feed);
  free(d);
}

/* Sets output i to `count` arrays of the element, or to one without the leading dimension; several
 * replicas are a dimension too. */
static void set_output(TF_OpKernelContext *context, const dequeue *d, size_t i, const void *data,
                       size_t count, uint32_t replicas, TF_Status *status) {
  const trm_tensor_info *info = &d->elements[i];
  int64_t dims[TRM_MAX_RANK + 2];
  int rank = 0;
  if (!d->keep_last) dims[rank++] = (int64_t)count;
  if (replicas > 1) dims[rank++] = replicas;
  for (int32_t j = 0; j < info->rank; ++j) dims[rank++] = info->dims[j];
  size_t bytes = info->bytes * count * replicas;
  TF_Tensor *tensor =
      TF_AllocateOutput(context, (int)i, tensor_type(info->dtype), dims, rank, bytes, status);
  if (!is_ok(status)) return;
  if (bytes) memcpy(TF_TensorData(tensor), data, bytes);
  TF_DeleteTensor(tensor);
}

/* What stands for the results of programs that are compiled and not run: one element of zeros. */
static void set_zeros(TF_OpKernelContext *context, const dequeue *d, uint32_t replicas,
                      TF_Status *status) {
  for (size_t i = 0; is_ok(status) && i < d->num_elements; ++i) {
    void *zeros = calloc(d->elements[i].bytes + 1, replicas);
    if (zeros) set_output(context, d, i, zeros, 1, replicas, status);
    else fail_memory(status);
    free(zeros);
  }
}

/* Keeps the newest of `count` element tuples. A queue has the same number of replicas always. */
static void remember(dequeue *d, void *const *blocks, size_t count, uint32_t replicas,
                     TF_Status *status) {
  for (size_t i = 0; i < d->num_elements; ++i) {
    size_t bytes = d->elements[i].bytes * replicas;
    if (!d->last[i] && !(d->last[i] = malloc(bytes + 1))) {
      fail_memory(status);
      return;
    }
    if (bytes) memcpy(d->last[i], (const char *)blocks[i] + (count - 1) * bytes, bytes);
  }
}

/* Takes what there is: nothing as long as no program has named the queue. */
static bool take(const dequeue *d, size_t *out_count, void ***out_blocks, uint32_t *out_replicas,
                 TF_Status *status) {
  trm_error error = {0};
  trm_outfeed *queue = NULL;
  if (!outfeed_find(d->feed, d->elements, d->num_elements, &queue, out_replicas, status))
    return false;
  if (!queue || trm_outfeed_take(queue, out_count, out_blocks, &error) == TRM_OK) return true;
  return fail_with(status, &error);
}

void dequeue_compute(void *kernel, TF_OpKernelContext *context) {
  dequeue *d = kernel;
  TF_Status *status = TF_NewStatus();
  size_t count = 0;
  uint32_t replicas = 1;
  void **blocks = NULL;
  bool ok = take(d, &count, &blocks, &replicas, status);
  const bool is_synthetic = settings_synthetic(NULL) & TF_SYNTHETIC_OUTFEED;
  if (ok && is_synthetic && d->keep_last)
    ok = fail(status, TF_FAILED_PRECONDITION,
              "Trying to get the last value from an outfeed queue while outfeeds are synthetic: "
              "nothing leaves the device.");
  if (is_synthetic) count = 0;
  const uint64_t deletions = outfeed_deletions(d->feed);
  for (size_t i = 0; deletions != d->deletions && i < d->num_elements; ++i) {
    free(d->last[i]);
    d->last[i] = NULL;
  }
  d->deletions = deletions;
  if (ok && count == 0 && settings_only_compile()) {
    set_zeros(context, d, replicas, status);
  } else if (d->keep_last) {
    if (ok && count) remember(d, blocks, count, replicas, status);
    if (is_ok(status) && !d->last[0])
      fail(status, TF_FAILED_PRECONDITION,
           "Trying to get the last value from an outfeed queue before it was executed. Make sure "
           "that the enqueue operation is executed before dequeuing.");
    for (size_t i = 0; is_ok(status) && i < d->num_elements; ++i)
      set_output(context, d, i, d->last[i], 1, replicas, status);
  } else {
    for (size_t i = 0; is_ok(status) && i < d->num_elements; ++i)
      set_output(context, d, i, blocks ? blocks[i] : NULL, count, replicas, status);
  }
  for (size_t i = 0; blocks && i < d->num_elements; ++i) trm_free(blocks[i]);
  trm_free(blocks);
  finish(context, status);
}

/* ---- Deleting ---- */

void *outfeed_delete_create(TF_OpKernelConstruction *construction) {
  TF_Status *status = TF_NewStatus();
  char *feed = string_attribute(construction, "feed", NULL, status);
  if (!is_ok(status)) TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return feed;
}

void outfeed_delete_compute(void *kernel, TF_OpKernelContext *context) {
  const char *feed = kernel;
  TF_Status *status = TF_NewStatus();
  if (feed_is_used(feed))
    fail(status, TF_FAILED_PRECONDITION, "Cannot delete outfeed with id='%s' while in use", feed);
  else if (!settings_only_compile()) /* or no program has run, as was wanted */
    outfeed_delete(feed, status);
  finish(context, status);
}

void outfeed_delete_delete(void *kernel) { free(kernel); }
