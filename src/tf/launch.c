/* IpuLaunch: a compiled part of a graph, as one node.
 *
 * A list argument of a node is in host memory or in device memory as a whole, so there are two:
 * `host` for what comes from the CPU and `device` for variables, and neither is copied. The program
 * takes them in this order and gives results, then new values of variables, in that order too. */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

#include "feeds.h"
#include "ops.h"
#include "tensors.h"

/* The attribute `feeds` as lines; *out must be freed. */
static bool read_feeds(TF_OpKernelConstruction *construction, char **out, TF_Status *status) {
  int32_t count = 0;
  int32_t bytes = 0;
  TF_OpKernelConstruction_GetAttrSize(construction, "feeds", &count, &bytes, status);
  if (!is_ok(status)) return false;
  size_t num = count > 0 ? (size_t)count : 0;
  size_t size = bytes > 0 ? (size_t)bytes : 0;
  char **values = calloc(num + 1, sizeof *values);
  size_t *lengths = calloc(num + 1, sizeof *lengths);
  char *storage = malloc(size + 1);
  *out = calloc(1, size + num + 1);
  bool ok = (values && lengths && storage && *out) || fail_memory(status);
  if (ok && num)
    TF_OpKernelConstruction_GetAttrStringList(construction, "feeds", values, lengths, (int)num,
                                              storage, size, status);
  char *at = *out;
  for (size_t i = 0; ok && is_ok(status) && i < num; ++i) {
    memcpy(at, values[i], lengths[i]);
    at += lengths[i];
    *at++ = '\n';
  }
  free(values);
  free(lengths);
  free(storage);
  return ok && is_ok(status);
}

call_site *launch_site(TF_OpKernelConstruction *construction) {
  TF_Status *status = TF_NewStatus();
  char *module = NULL;
  char *graph = NULL;
  char *feeds = NULL;
  size_t module_size = 0;
  size_t graph_size = 0;
  int64_t variables = 0;
  call_site *site = NULL;
  TF_OpKernelConstruction_GetAttrInt64(construction, "variables", &variables, status);
  if (is_ok(status) && (module = string_attribute(construction, "module", &module_size, status)) &&
      (graph = string_attribute(construction, "graph", &graph_size, status)) &&
      read_feeds(construction, &feeds, status)) {
    TF_StringView name = TF_OpKernelConstruction_GetName(construction);
    site = module_size
               ? call_site_create(CALL_MODULE, module, module_size, name.data, name.len, feeds)
               : call_site_create(CALL_GRAPH, graph, graph_size, name.data, name.len, feeds);
    if (!site) fail_memory(status);
    else call_site_set_variables(site, variables > 0 ? (size_t)variables : 0);
  }
  free(module);
  free(graph);
  free(feeds);
  if (!is_ok(status)) TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return site;
}

bool launch_prepare(call_site *site, TF_OpKernelContext *context, const tf_inputs *inputs,
                    TF_Tensor **taken, tf_program **out_program, TF_Status *status) {
  bool *is_taken = calloc((size_t)inputs->count + 1, sizeof *is_taken);
  if (!is_taken) return fail_memory(status);
  bool ok = call_site_find(site, inputs->tensors, inputs->count, TF_GetDeviceId(context),
                           out_program, is_taken, status);
  size_t count = 0;
  for (int i = 0; ok && i < inputs->count; ++i)
    if (is_taken[i]) taken[count++] = inputs->tensors[i];
  free(is_taken);
  if (!ok) return false;
  if (!program_is_fed(*out_program) &&
      program_num_outputs(*out_program) != (size_t)TF_NumOutputs(context))
    ok = fail(status, TF_INTERNAL, "The program has %zu results and its node %d outputs.",
              program_num_outputs(*out_program), TF_NumOutputs(context));
  ok = ok && program_check(*out_program, taken, count, status);
  if (!ok) {
    program_done(*out_program);
    *out_program = NULL;
  }
  return ok;
}

/* Allocates the outputs, runs, and lets TensorFlow have them. */
static void run(tf_program *p, const tf_call *call, TF_Tensor *const *taken,
                TF_OpKernelContext *context, TF_Status *status) {
  size_t count = program_num_outputs(p);
  TF_Tensor **tensors = calloc(count + 1, sizeof *tensors);
  void **outputs = calloc(count + 1, sizeof *outputs);
  if (!tensors || !outputs) fail_memory(status);
  for (size_t i = 0; i < count && is_ok(status); ++i) {
    const trm_tensor_info *info = program_output(p, i);
    tensors[i] = TF_AllocateOutput(context, (int)i, tensor_type(info->dtype), info->dims,
                                   info->rank, info->bytes, status);
    if (is_ok(status)) outputs[i] = TF_TensorData(tensors[i]);
  }
  if (is_ok(status)) {
    feed_use use = {0};
    program_lock(p);
    if (call->feeds[0]) feed_use_begin(&use, call->feeds);
    program_run(p, call, taken, outputs, status);
    if (use.is_on) feed_use_end(&use);
    program_unlock(p);
  }
  for (size_t i = 0; tensors && i < count; ++i)
    if (tensors[i]) TF_DeleteTensor(tensors[i]);
  free(tensors);
  free(outputs);
}

void launch(call_site *site, TF_OpKernelContext *context, TF_Status *status) {
  tf_inputs inputs;
  if (!inputs_get(context, &inputs, status)) return;
  TF_Tensor **taken = calloc((size_t)inputs.count + 1, sizeof *taken);
  tf_program *p = NULL;
  if (!taken) fail_memory(status);
  else launch_prepare(site, context, &inputs, taken, &p, status);
  if (p) {
    run(p, call_site_call(site), taken, context, status);
    program_done(p);
  }
  free(taken);
  inputs_free(&inputs);
}

void *launch_create(TF_OpKernelConstruction *construction) { return launch_site(construction); }

void launch_compute(void *kernel, TF_OpKernelContext *context) {
  TF_Status *status = TF_NewStatus();
  launch(kernel, context, status);
  finish(context, status);
}

void launch_delete(void *kernel) { call_site_free(kernel); }
