/* The nodes that feed a program: IpuStart, IpuReady, IpuPush, IpuEnd, IpuFinish, IpuInfeedReset,
 * and IpuRefuse, which stands before one that cannot be run; and what refuses XlaCustomCallV2
 * outside of programs.
 *
 * IpuStart starts a run; a while loop on the CPU gets elements and pushes them; IpuFinish waits for
 * the results. IpuReady and IpuPush wait until the run wants another element, and say so: the loop
 * gets what the run is going to read and no more, because what follows in the dataset (an error, or
 * data that only the result of this run brings about) is not this run's affair. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "ops.h"
#include "runs.h"
#include "settings.h"
#include "tensors.h"

static void set_scalar(TF_OpKernelContext *context, TF_DataType type, const void *value,
                       size_t size, TF_Status *status) {
  TF_Tensor *tensor = TF_AllocateOutput(context, 0, type, NULL, 0, size, status);
  if (!is_ok(status)) return;
  memcpy(TF_TensorData(tensor), value, size);
  TF_DeleteTensor(tensor);
}

/* The number of a run, for the nodes of its step. It is freed when the step is over, however that
 * ended: then nobody feeds the run any more. */
static void set_run(TF_OpKernelContext *context, int64_t id, TF_Status *status) {
  enum { ALIGNMENT = 64 }; /* of TensorFlow's own: of others it keeps a copy only */
  int64_t *data = aligned_alloc(ALIGNMENT, ALIGNMENT);
  if (!data) {
    fail_memory(status);
    return;
  }
  *data = id;
  TF_Tensor *tensor = TF_NewTensor(TF_INT64, NULL, 0, data, sizeof id, run_leave, NULL);
  TF_SetOutput(context, 0, tensor, status);
  TF_DeleteTensor(tensor);
}

static void set_more(TF_OpKernelContext *context, bool more, TF_Status *status) {
  char value = more;
  set_scalar(context, TF_BOOL, &value, sizeof value, status);
}

/* Calls `act` with the inputs and with the run that the first of them names, if it is there. */
static void with_run(TF_OpKernelContext *context,
                     void (*act)(TF_OpKernelContext *, run *, const tf_inputs *, TF_Status *)) {
  TF_Status *status = TF_NewStatus();
  tf_inputs inputs;
  if (inputs_get(context, &inputs, status)) {
    int64_t id;
    memcpy(&id, TF_TensorData(inputs.tensors[0]), sizeof id);
    run *r = run_get(id, status);
    if (r) {
      act(context, r, &inputs, status);
      run_release(r);
    }
    inputs_free(&inputs);
  }
  finish(context, status);
}

void start_compute(void *kernel, TF_OpKernelContext *context) {
  TF_Status *status = TF_NewStatus();
  tf_inputs inputs;
  if (inputs_get(context, &inputs, status)) {
    TF_Tensor **taken = calloc((size_t)inputs.count + 1, sizeof *taken);
    tf_program *p = NULL;
    int64_t id = 0;
    bool ok = (taken || fail_memory(status)) &&
              launch_prepare(kernel, context, &inputs, taken, &p, status);
    const tf_call *call = call_site_call(kernel);
    if (ok && !program_is_fed(p))
      ok = fail(status, TF_INTERNAL, "A program without an infeed was started as one with it.");
    if (!ok) {
      if (p) program_done(p);
      free(taken);
      inputs_free(&inputs);
    } else if (run_start(p, call, &inputs, taken, &id, status)) {
      set_run(context, id, status);
    }
  }
  finish(context, status);
}

/* ---- Feeding ---- */

/* Pushes one element tuple. */
static bool push(tf_infeed *feed, TF_Tensor *const *elements, TF_Status *status) {
  const void **data = calloc(feed->num_elements + 1, sizeof *data);
  if (!data) return fail_memory(status);
  for (size_t i = 0; i < feed->num_elements; ++i) data[i] = TF_TensorData(elements[i]);
  trm_error error = {0};
  bool accepted;
  bool ok = trm_infeed_push(feed->queue, data, &accepted, &error) == TRM_OK;
  free(data);
  if (!ok) return fail_with(status, &error);
  return accepted || fail(status, TF_ABORTED,
                          "The infeed '%s' has no room for an element: several runs are fed from "
                          "its dataset at once.",
                          feed->id);
}

static void ready(TF_OpKernelContext *context, run *r, const tf_inputs *inputs, TF_Status *status) {
  (void)inputs;
  if (settings_synthetic(NULL) & (TF_SYNTHETIC_INFEED | TF_SYNTHETIC_NULL_FEED)) {
    set_more(context, false, status); /* the dataset is left alone */
    return;
  }
  set_more(context, trm_infeed_wanted(run_infeed(r)->queue), status);
}

void ready_compute(void *kernel, TF_OpKernelContext *context) {
  (void)kernel;
  with_run(context, ready);
}

static bool check_elements(const tf_infeed *feed, TF_Tensor *const *elements, size_t count,
                           TF_Status *status) {
  if (count != feed->num_elements)
    return fail(status, TF_INVALID_ARGUMENT,
                "The infeed '%s' takes %zu tensors and its dataset gave %zu.", feed->id,
                feed->num_elements, count);
  for (size_t i = 0; i < count; ++i)
    if (hlo_type(TF_TensorType(elements[i])) != feed->elements[i].dtype ||
        TF_TensorByteSize(elements[i]) != feed->elements[i].bytes)
      return fail(status, TF_INVALID_ARGUMENT,
                  "Tensor %zu of the infeed '%s' has another type or size than the dataset "
                  "announced: %zu bytes instead of %zu.",
                  i, feed->id, TF_TensorByteSize(elements[i]), feed->elements[i].bytes);
  return true;
}

static void push_next(TF_OpKernelContext *context, run *r, const tf_inputs *inputs,
                      TF_Status *status) {
  tf_infeed *feed = run_infeed(r);
  TF_Tensor **elements = inputs->tensors + 1;
  if (check_elements(feed, elements, (size_t)inputs->count - 1, status) &&
      push(feed, elements, status))
    set_more(context, trm_infeed_wanted(feed->queue), status);
}

void push_compute(void *kernel, TF_OpKernelContext *context) {
  (void)kernel;
  with_run(context, push_next);
}

static void end(TF_OpKernelContext *context, run *r, const tf_inputs *inputs, TF_Status *status) {
  (void)inputs;
  trm_infeed_end(run_infeed(r)->queue, TRM_OUT_OF_RANGE,
                 "Infeed dataset iterator out of range. Are you trying to dequeue more "
                 "elements than are in the dataset?");
  set_more(context, false, status);
}

void end_compute(void *kernel, TF_OpKernelContext *context) {
  (void)kernel;
  with_run(context, end);
}

static void take_results(TF_OpKernelContext *context, run *r, const tf_inputs *inputs,
                         TF_Status *status) {
  (void)inputs;
  if (run_num_outputs(r) != (size_t)TF_NumOutputs(context))
    fail(status, TF_INTERNAL, "The program has %zu results and its node %d outputs.",
         run_num_outputs(r), TF_NumOutputs(context));
  if (!run_wait(r, status)) return;
  for (size_t i = 0; is_ok(status) && i < run_num_outputs(r); ++i) {
    TF_Tensor *tensor = run_take_output(r, i);
    TF_SetOutput(context, (int)i, tensor, status);
    TF_DeleteTensor(tensor);
  }
}

void finish_compute(void *kernel, TF_OpKernelContext *context) {
  (void)kernel;
  with_run(context, take_results);
}

/* ---- Resetting ---- */

typedef struct reset {
  char *feed;
  char *refusal;
  char *empty;
  unsigned char remove;
} reset;

void reset_delete(void *kernel) {
  reset *r = kernel;
  if (!r) return;
  free(r->feed);
  free(r->refusal);
  free(r->empty);
  free(r);
}

void *reset_create(TF_OpKernelConstruction *construction) {
  TF_Status *status = TF_NewStatus();
  reset *r = calloc(1, sizeof *r);
  if (!r) {
    fail_memory(status);
    TF_OpKernelConstruction_Failure(construction, status);
  } else {
    r->feed = string_attribute(construction, "feed", NULL, status);
    if (is_ok(status)) r->refusal = string_attribute(construction, "refusal", NULL, status);
    if (is_ok(status)) r->empty = string_attribute(construction, "empty", NULL, status);
    if (is_ok(status))
      TF_OpKernelConstruction_GetAttrBool(construction, "remove", &r->remove, status);
    if (!is_ok(status)) TF_OpKernelConstruction_Failure(construction, status);
  }
  TF_DeleteStatus(status);
  return r;
}

void reset_compute(void *kernel, TF_OpKernelContext *context) {
  const reset *r = kernel;
  TF_Status *status = TF_NewStatus();
  if (r->refusal[0] != '\0') {
    fail(status, TF_FAILED_PRECONDITION, "%s", r->refusal);
  } else if (r->empty[0] != '\0') {
    fail(status, TF_INVALID_ARGUMENT, "%s", r->empty);
  } else if (r->remove && feed_is_used(r->feed)) {
    fail(status, TF_FAILED_PRECONDITION, "Cannot delete infeed with id='%s' while in use", r->feed);
  } else if (!infeed_set_started(r->feed, !r->remove) && r->remove) {
    fail(status, TF_NOT_FOUND,
         "Infeed with id='%s' has not been started: run the `initializer` of its IPUInfeedQueue "
         "before its `deleter`.",
         r->feed);
  }
  if (!is_ok(status)) TF_OpKernelContext_Failure(context, status);
  const bool failed = !is_ok(status);
  TF_DeleteStatus(status);
  tf_infeed *feed = failed ? NULL : infeed_find(r->feed);
  if (!feed) return; /* or no program has used it yet */
  trm_infeed_reset(feed->queue);
  infeed_forget_replicas(feed);
}

/* ---- Refusing ---- */

typedef struct refusal {
  char *message;
  int64_t code;
} refusal;

void *refuse_create(TF_OpKernelConstruction *construction) {
  TF_Status *status = TF_NewStatus();
  refusal *why = calloc(1, sizeof *why);
  if (why == NULL) {
    fail(status, TF_RESOURCE_EXHAUSTED, "out of memory for a node");
  } else {
    why->message = string_attribute(construction, "message", NULL, status);
    if (is_ok(status)) {
      TF_OpKernelConstruction_GetAttrInt64(construction, "code", &why->code, status);
    }
  }
  if (!is_ok(status)) TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return why;
}

void refuse_compute(void *kernel, TF_OpKernelContext *context) {
  const refusal *why = kernel;
  TF_Status *status = TF_NewStatus();
  fail(status, (TF_Code)why->code, "%s", why->message);
  TF_OpKernelContext_Failure(context, status);
  TF_DeleteStatus(status);
}

void refuse_delete(void *kernel) {
  refusal *why = kernel;
  if (why != NULL) free(why->message);
  free(why);
}

/* ---- Calls of ours outside of programs ---- */

/* XlaCustomCallV2 is what the IPU's own operations are built of; a CPU has no such operation. */
void *call_create(TF_OpKernelConstruction *construction) {
  const TF_StringView name = TF_OpKernelConstruction_GetName(construction);
  return strndup(name.data, name.len);
}

void call_compute(void *kernel, TF_OpKernelContext *context) {
  TF_Status *status = TF_NewStatus();
  fail(
      status, TF_FAILED_PRECONDITION,
      "Cannot return or take as an argument an opaque type in the entry computation: %s is an "
      "operation that only an IPU has, outside of a program. Put it in a function that "
      "ipu_compiler.compile gets, or in an ipu_scope, and leave the option use_plugin_optimizers on; "
      "or use TensorFlow's operation for it.",
      kernel ? (const char *)kernel : "a node");
  TF_OpKernelContext_Failure(context, status);
  TF_DeleteStatus(status);
}

void calls_register(TF_Status *status) {
  TF_KernelBuilder *builder =
      TF_NewKernelBuilder("XlaCustomCallV2", "CPU", call_create, call_compute, free);
  TF_RegisterKernelBuilder("TremulaCallOutside", builder, status);
}
