/* Ops that are placed on the device without `compile`, one by one.
 *
 * Python hands over a KernelDef for each; the kernel keeps its NodeDef and has it lowered when it
 * sees the shapes of its inputs. */
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "launch.h"

static void *create(TF_OpKernelConstruction *construction) {
  TF_Status *status = TF_NewStatus();
  call_site *site = NULL;
  TF_Buffer *node = TF_OpKernelConstruction_GetNodeDef(construction, status);
  if (is_ok(status)) {
    TF_StringView name = TF_OpKernelConstruction_GetName(construction);
    site = call_site_create(CALL_NODE, node->data, node->length, name.data, name.len, NULL);
    if (!site) fail_memory(status);
  }
  if (node) TF_DeleteBuffer(node);
  if (!is_ok(status)) TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return site;
}

static void compute(void *kernel, TF_OpKernelContext *context) {
  TF_Status *status = TF_NewStatus();
  launch(kernel, context, status);
  finish(context, status);
}

static void delete(void *kernel) { call_site_free(kernel); }

/* ---- Ops on variables: the graph optimiser has put others in their place
 * (clusters_variables.py), unless it is off or there is no graph. ---- */

static void *create_on_variables(TF_OpKernelConstruction *construction) {
  TF_StringView name = TF_OpKernelConstruction_GetName(construction);
  return strndup(name.data, name.len);
}

static void refuse_on_variables(void *kernel, TF_OpKernelContext *context) {
  TF_Status *status = TF_NewStatus();
  fail(status, TF_UNIMPLEMENTED,
       "%s works on a variable of an IPU, which cannot be done by one operation alone: run it in a "
       "session or in a tf.function, and leave the option use_plugin_optimizers on.",
       kernel ? (const char *)kernel : "An operation");
  finish(context, status);
}

int32_t trm_tf_register_kernel(const char *op, const char *kernel_def, int32_t on_variables,
                               char *message, uint64_t message_size) {
  TF_Status *status = TF_NewStatus();
  TF_KernelBuilder *builder =
      on_variables ? TF_NewKernelBuilder(op, "IPU", create_on_variables, refuse_on_variables, free)
                   : TF_NewKernelBuilder(op, "IPU", create, compute, delete);
  TF_RegisterKernelBuilderWithKernelDef(kernel_def, op, builder, status);
  int32_t code = (int32_t)TF_GetCode(status);
  if (code != TF_OK) snprintf(message, message_size, "%s: %s", op, TF_Message(status));
  TF_DeleteStatus(status);
  return code;
}
