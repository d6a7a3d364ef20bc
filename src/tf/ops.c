/* The ops that the plugin adds to TensorFlow, and their kernels.
 *
 * Shapes: the C API cannot read a list of shapes, so inference says "unknown" and Python, which
 * knows better, sets them on the tensors. */
#include "ops.h"

#include <stdio.h>
#include <stdlib.h>

#include "variables.h"

enum { MAX_SPECS = 8 };

typedef struct op_spec {
  const char *name;
  const char *attributes[MAX_SPECS];
  const char *inputs[MAX_SPECS];
  const char *outputs[MAX_SPECS];
  const char *device;
  const char *host_memory[MAX_SPECS]; /* arguments that stay in host memory, for device kernels */
  create_kernel create;
  compute_kernel compute;
  delete_kernel delete;
} op_spec;

#define LAUNCH_ATTRIBUTES                                                                  \
  "Thost: list(type) >= 0", "Tdevice: list(type) >= 0", "module: string", "graph: string", \
      "feeds: list(string) = []", "variables: int = 0" /* of `device`, the last so many */
#define RESULT_ATTRIBUTES "Tresults: list(type) >= 0", "Tupdates: list(type) >= 0"

static const op_spec OPS[] = {
    {.name = "IpuLaunch",
     .attributes = {LAUNCH_ATTRIBUTES, RESULT_ATTRIBUTES},
     .inputs = {"host: Thost", "device: Tdevice"},
     .outputs = {"results: Tresults", "updates: Tupdates"},
     .device = "IPU",
     .host_memory = {"host", "results"},
     .create = launch_create,
     .compute = launch_compute,
     .delete = launch_delete},
    {.name = "IpuStart",
     .attributes = {LAUNCH_ATTRIBUTES},
     .inputs = {"host: Thost", "device: Tdevice"},
     .outputs = {"run: int64"},
     .device = "IPU",
     .host_memory = {"host", "run"},
     .create = launch_create,
     .compute = start_compute,
     .delete = launch_delete},
    {.name = "IpuReady",
     .inputs = {"run: int64"},
     .outputs = {"more: bool"},
     .device = "CPU",
     .compute = ready_compute},
    {.name = "IpuPush",
     .attributes = {"T: list(type) >= 1"},
     .inputs = {"run: int64", "elements: T"},
     .outputs = {"more: bool"},
     .device = "CPU",
     .compute = push_compute},
    {.name = "IpuEnd",
     .inputs = {"run: int64"},
     .outputs = {"more: bool"},
     .device = "CPU",
     .compute = end_compute},
    {.name = "IpuFinish",
     .attributes = {RESULT_ATTRIBUTES},
     .inputs = {"run: int64", "fed: bool"},
     .outputs = {"results: Tresults", "updates: Tupdates"},
     .device = "IPU",
     .host_memory = {"run", "fed", "results"},
     .compute = finish_compute},
    {.name = "IpuInfeedReset",
     /* remove: it must have been started; refusal, empty: why it cannot be started, because of its
      * elements' types or sizes, or nothing */
     .attributes = {"feed: string", "remove: bool", "refusal: string", "empty: string"},
     .device = "CPU",
     .create = reset_create,
     .compute = reset_compute,
     .delete = reset_delete},
    {.name = "IpuEffect", /* as XlaCustomCallV2, but TensorFlow must not take it away; it becomes
                           * part of a program (clusters_launch.py, staging.py) */
     .attributes = {"call_target_name: string", "backend_config: string", "T: list(type) >= 0",
                    "result_dtypes: list(type) >= 0 = []", "result_shapes: list(shape) = []"},
     .inputs = {"operands: T"},
     .outputs = {"results: result_dtypes"},
     .device = "IPU",
     .create = call_create,
     .compute = call_compute,
     .delete = free},
    {.name = "IpuRefuse", /* fails with the message and the status code */
     .attributes = {"message: string", "code: int"},
     .device = "CPU",
     .create = refuse_create,
     .compute = refuse_compute,
     .delete = refuse_delete},
    {.name = "IpuHostTableRegister",
     .attributes = {"table: string", "registers: bool"},
     .device = "CPU",
     .create = table_register_create,
     .compute = table_register_compute,
     .delete = table_node_delete},
    {.name = "IpuHostTableUse",
     .attributes = {"table: string", "T: type"},
     .inputs = {"value: T"},
     .outputs = {"shared: T"},
     .device = "CPU",
     .create = table_use_create,
     .compute = table_use_compute,
     .delete = table_node_delete},
    {.name = "IpuOutfeedDequeue",
     /* the shapes of the elements: their ranks, and all their dimensions in one list */
     .attributes = {"feed: string", "keep_last: bool", "dtypes: list(type) >= 1",
                    "ranks: list(int)", "dims: list(int)"},
     .outputs = {"elements: dtypes"},
     .device = "CPU",
     .create = dequeue_create,
     .compute = dequeue_compute,
     .delete = dequeue_delete},
    {.name = "IpuOutfeedDelete",
     .attributes = {"feed: string"},
     .device = "CPU",
     .create = outfeed_delete_create,
     .compute = outfeed_delete_compute,
     .delete = outfeed_delete_delete},
    {.name = "IpuEventTrace",
     .outputs = {"out: string"},
     .device = "CPU",
     .compute = event_trace_compute},
};

static void unknown_shapes(TF_ShapeInferenceContext *context, TF_Status *status) {
  TF_ShapeInferenceContextSetUnknownShape(context, status);
}

static void register_op(const op_spec *op, TF_Status *status) {
  TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder(op->name);
  for (int i = 0; i < MAX_SPECS && op->attributes[i]; ++i)
    TF_OpDefinitionBuilderAddAttr(builder, op->attributes[i]);
  for (int i = 0; i < MAX_SPECS && op->inputs[i]; ++i)
    TF_OpDefinitionBuilderAddInput(builder, op->inputs[i]);
  for (int i = 0; i < MAX_SPECS && op->outputs[i]; ++i)
    TF_OpDefinitionBuilderAddOutput(builder, op->outputs[i]);
  TF_OpDefinitionBuilderSetIsStateful(builder, true);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, unknown_shapes);
  TF_RegisterOpDefinition(builder, status);
}

static void register_kernel(const op_spec *op, TF_Status *status) {
  TF_KernelBuilder *builder =
      TF_NewKernelBuilder(op->name, op->device, op->create, op->compute, op->delete);
  for (int i = 0; i < MAX_SPECS && op->host_memory[i]; ++i)
    TF_KernelBuilder_HostMemory(builder, op->host_memory[i]);
  TF_RegisterKernelBuilder(op->name, builder, status);
}

void TF_InitKernel(void) {
  for (size_t i = 0; i < sizeof OPS / sizeof *OPS; ++i) {
    TF_Status *status = TF_NewStatus();
    register_op(&OPS[i], status);
    if (is_ok(status)) register_kernel(&OPS[i], status);
    /* TensorFlow gives no way to report a failure from here. */
    if (!is_ok(status)) fprintf(stderr, "tremula: %s: %s\n", OPS[i].name, TF_Message(status));
    TF_DeleteStatus(status);
  }
  TF_Status *status = TF_NewStatus();
  variables_register(status);
  if (!is_ok(status)) fprintf(stderr, "tremula: VarHandleOp: %s\n", TF_Message(status));
  TF_SetStatus(status, TF_OK, "");
  calls_register(status);
  if (!is_ok(status)) fprintf(stderr, "tremula: XlaCustomCallV2: %s\n", TF_Message(status));
  TF_DeleteStatus(status);
}
