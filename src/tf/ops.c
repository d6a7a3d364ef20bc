/* Owns: the ops that the plugin adds to TensorFlow, kernels for TensorFlow's own ops, and kernels
 * that only report an error.
 *
 * The C API cannot read a list of shapes, so shape inference says "unknown", and Python sets the
 * shapes of the tensors. */
#include "ops.h"

#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "launch.h"
#include "tensorflow/c/kernels_experimental.h"

/* TensorFlow 2.21 does not export these. */
#pragma weak TF_AddNVariant
#pragma weak TF_ZerosLikeVariant

/* Defines the functions that TensorFlow calls for kernels of this file. */
#define STATIC_CREATE(name, function)                        \
  static void *name(TF_OpKernelConstruction *construction) { \
    return trm_tf_create_kernel(function, construction);     \
  }
#define STATIC_COMPUTE(name, function)                          \
  static void name(void *kernel, TF_OpKernelContext *context) { \
    trm_tf_compute_kernel(function, kernel, context);           \
  }

/* ---- Refusing ------------------------------------------------------------------------------- */

/* IpuRefuse stands before a node that cannot be run. */
typedef struct refusal {
  char *message;
  int64_t code;
} refusal;

static trm_status read_refusal(TF_OpKernelConstruction *construction, void **out_kernel,
                               trm_error *error) {
  refusal *why = *out_kernel = trm_allocate_zeroed(1, sizeof *why);
  CHECK_MEMORY(why, "a node");
  TRY(trm_tf_get_text(construction, "message", &why->message, NULL, error));
  return trm_tf_get_number(construction, "code", &why->code, error);
}

static trm_status refuse(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)context;
  const refusal *why = kernel;
  return trm_fail(error, (trm_status)why->code, "%s", why->message);
}

/* IpuRaise: the failure that a function in Python has given; the code 0 is none. */
static trm_status raise_given(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)kernel;
  trm_tf_inputs inputs = {0};
  TRY(trm_tf_get_inputs(context, &inputs, error));
  const int32_t code = *(const int32_t *)TF_TensorData(inputs.tensors[0]);
  if (code != 0) {
    trm_fail(error, (trm_status)code, "%.*s", (int)TF_TensorByteSize(inputs.tensors[1]),
             (const char *)TF_TensorData(inputs.tensors[1]));
  }
  trm_tf_inputs_free(&inputs);
  return (trm_status)code;
}

static void delete_refusal(void *kernel) {
  refusal *why = kernel;
  if (why != NULL) trm_free(why->message);
  trm_free(why);
}

/* The state of a kernel is its node's name. */
static trm_status copy_name(TF_OpKernelConstruction *construction, void **out_kernel,
                            trm_error *error) {
  const TF_StringView name = TF_OpKernelConstruction_GetName(construction);
  *out_kernel = trm_tf_copy_bytes(name.data, name.len);
  CHECK_MEMORY(*out_kernel, "a node");
  return TRM_OK;
}

/* The IPU's own operations are made of XlaCustomCallV2, which no CPU has. */
static trm_status refuse_call_outside(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)context;
  FAIL(FAILED_PRECONDITION,
       "Cannot return or take as an argument an opaque type in the entry computation: %s is an "
       "operation that only an IPU has, outside of a program. Put it in a function that "
       "ipu_compiler.compile gets, or in an ipu_scope, and leave the option use_plugin_optimizers "
       "on; or use TensorFlow's operation for it.",
       (const char *)kernel);
}

/* The graph optimiser replaces ops on variables (group_variables.py), unless it is off or there
 * is no graph. */
static trm_status refuse_on_variables(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)context;
  FAIL(UNIMPLEMENTED,
       "%s works on a variable of an IPU, which cannot be done by one operation alone: run it in a "
       "session or in a tf.function, and leave the option use_plugin_optimizers on.",
       (const char *)kernel);
}

STATIC_CREATE(create_refusal, read_refusal)
STATIC_COMPUTE(compute_refusal, refuse)
STATIC_COMPUTE(compute_raise, raise_given)
STATIC_CREATE(create_named, copy_name)
STATIC_COMPUTE(compute_call_outside, refuse_call_outside)
STATIC_COMPUTE(compute_on_variables, refuse_on_variables)

/* ---- Ops of TensorFlow's that are placed on the device without `compile`, one by one -----------
 *
 * Python hands over a KernelDef for each; the kernel keeps its NodeDef and has it lowered when it
 * sees the shapes of its inputs. */

static trm_status create_site(TF_OpKernelConstruction *construction, void **out_kernel,
                              trm_error *error) {
  TF_Status *call = TF_NewStatus();
  TF_Buffer *node = TF_OpKernelConstruction_GetNodeDef(construction, call);
  trm_tf_site *site = NULL;
  trm_status status = trm_tf_end_call(call, error);
  if (status == TRM_OK) {
    status = trm_tf_site_create(TRM_TF_CALL_NODE, node->data, node->length,
                                TF_OpKernelConstruction_GetName(construction), NULL, &site, error);
  }
  if (node != NULL) TF_DeleteBuffer(node);
  *out_kernel = site;
  return status;
}

STATIC_CREATE(create_node, create_site)

/* ---- Tensor lists: ops that TensorFlow takes apart for the device ----------------------------
 *
 * The functions that it calls with the tensors of a list own them. */

static void fill_zeros(TF_OpKernelContext *context, TF_Tensor *input, TF_Tensor *out) {
  (void)context;
  memset(TF_TensorData(out), 0, TF_TensorByteSize(out));
  TF_DeleteTensor(input);
  TF_DeleteTensor(out);
}

static void add(TF_OpKernelContext *context, TF_Tensor *a, TF_Tensor *b, TF_Tensor *out) {
  const size_t count = (size_t)TF_TensorElementCount(out);
  const void *x = TF_TensorData(a), *y = TF_TensorData(b);
  void *sum = TF_TensorData(out);
  trm_error error;
  trm_status fetched = trm_fetch_resident(x, &error); /* from an accelerator */
  if (fetched == TRM_OK) fetched = trm_fetch_resident(y, &error);
  trm_forget_resident(sum);
  if (fetched != TRM_OK) {
    TF_Status *status = TF_NewStatus();
    trm_tf_report(status, fetched, &error);
    TF_OpKernelContext_Failure(context, status);
    TF_DeleteStatus(status);
  } else if (TF_TensorType(out) == TF_FLOAT) {
    for (size_t i = 0; i < count; ++i) {
      ((float *)sum)[i] = ((const float *)x)[i] + ((const float *)y)[i];
    }
  } else if (TF_TensorType(out) == TF_HALF) {
    for (size_t i = 0; i < count; ++i) {
      ((uint16_t *)sum)[i] = trm_float_to_half(trm_half_to_float(((const uint16_t *)x)[i]) +
                                               trm_half_to_float(((const uint16_t *)y)[i]));
    }
  } else {
    TF_Status *status = TF_NewStatus();
    TF_SetStatus(status, TF_UNIMPLEMENTED,
                 "AddN of tensor lists on an IPU has the types float32 and float16.");
    TF_OpKernelContext_Failure(context, status);
    TF_DeleteStatus(status);
  }
  TF_DeleteTensor(a);
  TF_DeleteTensor(b);
  TF_DeleteTensor(out);
}

static trm_status zero_list(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)kernel;
  if (TF_ZerosLikeVariant == NULL) {
    FAIL(UNIMPLEMENTED, "This TensorFlow has no ZerosLike of tensor lists for an IPU.");
  }
  TF_Status *status = TF_NewStatus();
  TF_ZerosLikeVariant(context, fill_zeros, status);
  return trm_tf_end_call(status, error);
}

static trm_status add_lists(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)kernel;
  if (TF_AddNVariant == NULL) {
    FAIL(UNIMPLEMENTED, "This TensorFlow has no AddN of tensor lists for an IPU.");
  }
  TF_Status *status = TF_NewStatus();
  TF_AddNVariant(context, add, status);
  return trm_tf_end_call(status, error);
}

static void compute_zeros(void *kernel, TF_OpKernelContext *context) {
  if (TF_ExpectedOutputDataType(context, 0) == TF_VARIANT) {
    trm_tf_compute_kernel(zero_list, kernel, context);
  } else trm_tf_launch_compute(kernel, context);
}

static void compute_sum(void *kernel, TF_OpKernelContext *context) {
  if (TF_ExpectedOutputDataType(context, 0) == TF_VARIANT) {
    trm_tf_compute_kernel(add_lists, kernel, context);
  } else trm_tf_launch_compute(kernel, context);
}

typedef void compute_function(void *kernel, TF_OpKernelContext *context);

static compute_function *compute_of(const char *op) {
  if (strcmp(op, "ZerosLike") == 0) return compute_zeros;
  return strcmp(op, "AddN") == 0 ? compute_sum : trm_tf_launch_compute;
}

int32_t trm_tf_register_kernel(const char *op, const char *kernel_def, int32_t on_variables,
                               char *message, uint64_t message_size) {
  TF_KernelBuilder *builder =
      on_variables
          ? TF_NewKernelBuilder(op, "IPU", create_named, compute_on_variables, trm_free)
          : TF_NewKernelBuilder(op, "IPU", create_node, compute_of(op), trm_tf_launch_delete);
  trm_error error = {0};
  TF_Status *call = TF_NewStatus();
  TF_RegisterKernelBuilderWithKernelDef(kernel_def, op, builder, call);
  const trm_status status = trm_tf_end_call(call, &error);
  if (status != TRM_OK) snprintf(message, message_size, "%s: %s", op, error.message);
  return (int32_t)status;
}

/* ---- Ops of ours ---------------------------------------------------------------------------- */

enum { MAX_SPECS = 16 };

typedef struct op_spec {
  const char *name;
  const char *attributes[MAX_SPECS];
  const char *inputs[MAX_SPECS];
  const char *outputs[MAX_SPECS];
  const char *device;
  const char *host_memory[MAX_SPECS]; /* arguments that stay in host memory, for device kernels */
  void *(*create)(TF_OpKernelConstruction *construction);
  void (*compute)(void *kernel, TF_OpKernelContext *context);
  void (*compute_async)(void *kernel, TF_OpKernelContext *context,
                        TF_AsyncOpKernelDoneCallback *done); /* in place of `compute` */
  void (*delete)(void *kernel);
  bool is_pure; /* TensorFlow may drop it, and does not order it */
} op_spec;

#define LAUNCH_ATTRIBUTES                                                                  \
  "Thost: list(type) >= 0", "Tdevice: list(type) >= 0", "module: string", "graph: string", \
      "feeds: list(string) = []", "variables: int = 0" /* the last inputs of `device` */
#define RESULT_ATTRIBUTES "Tresults: list(type) >= 0", "Tupdates: list(type) >= 0"

/* kind: trm_collective_kind, as a default; reduce_op: trm_collective_op. tensor_name "": the node's
 * name. */
#define COLLECTIVE(op_name, kind, stacks, types)                                                \
  {.name = op_name,                                                                             \
   .attributes = {"T: " types, "kind: int = " kind, "reduce_op: int = 0", "root_rank: int = 0", \
                  "stacks: bool = " stacks, "tensor_name: string = ''"},                        \
   .inputs = {"tensor: T"},                                                                     \
   .outputs = {"result: T"},                                                                    \
   .device = "CPU",                                                                             \
   .create = trm_tf_collective_create,                                                          \
   .compute_async = trm_tf_collective_compute,                                                  \
   .delete = trm_tf_collective_delete}
#define NUMBERS "int8, uint8, int16, uint16, int32, uint32, int64, uint64, half, float"

#define IN_PROGRAMS_ONLY \
  .device = "IPU", .create = create_named, .compute = compute_call_outside, .delete = trm_free

static const op_spec OPS[] = {
    COLLECTIVE("HorovodAllreduce", "0", "false", "{int32, int64, half, float, double}"),
    COLLECTIVE("HorovodAllgather", "1", "false", "{bool, double, " NUMBERS "}"),
    COLLECTIVE("HorovodBroadcast", "2", "false", "{bool, double, " NUMBERS "}"),
    COLLECTIVE("PopdistAllReduce", "0", "false", "{" NUMBERS "}"),
    COLLECTIVE("PopdistAllGather", "1", "true", "{" NUMBERS "}"),
    COLLECTIVE("PopdistBroadcast", "2", "false", "{bool, double, " NUMBERS "}"),
    {.name = "IpuLaunch",
     .attributes = {LAUNCH_ATTRIBUTES, RESULT_ATTRIBUTES},
     .inputs = {"host: Thost", "device: Tdevice"},
     .outputs = {"results: Tresults", "updates: Tupdates"},
     .device = "IPU",
     .host_memory = {"host", "results"},
     .create = trm_tf_launch_create,
     .compute = trm_tf_launch_compute,
     .delete = trm_tf_launch_delete},
    {.name = "IpuStart",
     .attributes = {LAUNCH_ATTRIBUTES},
     .inputs = {"host: Thost", "device: Tdevice"},
     .outputs = {"run: int64"},
     .device = "IPU",
     .host_memory = {"host", "run"},
     .create = trm_tf_launch_create,
     .compute = trm_tf_start_compute,
     .delete = trm_tf_launch_delete},
    {.name = "IpuReady",
     .inputs = {"run: int64"},
     .outputs = {"more: bool"},
     .device = "CPU",
     .compute = trm_tf_ready_compute},
    {.name = "IpuPush",
     .attributes = {"T: list(type) >= 1"},
     .inputs = {"run: int64", "elements: T"},
     .outputs = {"more: bool"},
     .device = "CPU",
     .compute = trm_tf_push_compute},
    {.name = "IpuEnd",
     .inputs = {"run: int64"},
     .outputs = {"more: bool"},
     .device = "CPU",
     .compute = trm_tf_end_compute},
    {.name = "IpuFinish",
     .attributes = {RESULT_ATTRIBUTES},
     .inputs = {"run: int64", "fed: bool"},
     .outputs = {"results: Tresults", "updates: Tupdates"},
     .device = "IPU",
     .host_memory = {"run", "fed", "results"},
     .compute = trm_tf_finish_compute},
    {.name = "IpuInfeedReset",
     /* remove: the infeed must have been started; refusal, empty: the reason why it cannot be
      * started (types or sizes of its elements), or "" */
     .attributes = {"feed: string", "remove: bool", "refusal: string", "empty: string"},
     .device = "CPU",
     .create = trm_tf_reset_create,
     .compute = trm_tf_reset_compute,
     .delete = trm_tf_reset_delete},
    {.name = "IpuEffect", /* like XlaCustomCallV2, but TensorFlow must not remove it; it becomes
                             part of a unit (group_launch.py, staging.py) */
     .attributes = {"call_target_name: string", "backend_config: string", "T: list(type) >= 0",
                    "result_dtypes: list(type) >= 0 = []", "result_shapes: list(shape) = []"},
     .inputs = {"operands: T"},
     .outputs = {"results: result_dtypes"},
     IN_PROGRAMS_ONLY},
    /* Ops that programs look for by the original's names (op_types.py): as XlaCustomCallV2, While,
     * AssignAddVariableOp and IdentityN, which they are in a unit. */
    {.name = "IpuDropoutWithSeedAndReference",
     .attributes = {"call_target_name: string", "backend_config: string", "has_side_effect: bool",
                    "operand_dtypes: list(type) >= 0", "result_dtypes: list(type) >= 0",
                    "result_shapes: list(shape) >= 0"},
     .inputs = {"operands: operand_dtypes"},
     .outputs = {"results: result_dtypes"},
     .is_pure = true,
     IN_PROGRAMS_ONLY},
    {.name = "Pipeline",
     .attributes = {"T: list(type) >= 0", "cond: func", "body: func",
                    "output_shapes: list(shape) = []", "parallel_iterations: int = 10",
                    "to_apply: func", "batch_serialization_iterations: int >= 1",
                    "repeat_count: int >= 1", "schedule: int", "recomputation_mode: string",
                    "pipeline_poplar_config: string", "offload_activations: string",
                    "offload_gradient_accumulation_buffers: string",
                    "replicated_weight_sharding: string", "offload_weights: string"},
     .inputs = {"input: T"},
     .outputs = {"output: T"},
     IN_PROGRAMS_ONLY},
    {.name = "GradientAccumulatorAddWithScale",
     .attributes = {"dtype: type"},
     .inputs = {"resource: resource", "value: dtype"},
     IN_PROGRAMS_ONLY},
    {.name = "MultiConv",
     .attributes = {"Tin: list(type) >= 0", "Tout: list(type) >= 0",
                    "output_shapes: list(shape) >= 0", "option_flags: string"},
     .inputs = {"inputs: Tin"},
     .outputs = {"output: Tout"},
     .is_pure = true,
     IN_PROGRAMS_ONLY},
#define CALL(NAME, ...)                                                              \
  {.name = NAME,                                                                     \
   .attributes = {"to_apply: func", "Tin: list(type) >= 0", "Tout: list(type) >= 0", \
                  "output_shapes: list(shape) >= 0", __VA_ARGS__},                   \
   .inputs = {"inputs: Tin"},                                                        \
   .outputs = {"output: Tout"},                                                      \
   IN_PROGRAMS_ONLY}
    CALL("Function", "unique_sharding: bool", "keep_input_layouts: bool = true",
         "evaluate_as_constants: list(bool) >= 0"),
    CALL("PipelineStage", "stage_id: int >= 0"),
    CALL("PipelineStageBackward", "stage_id: int >= 0"),
    CALL("ResourceUpdate", "offload_weight_update_variables: string",
         "replicated_optimizer_state_sharding: string"),
#undef CALL
    {.name = "IpuRefuse", /* fails with the message and the status code */
     .attributes = {"message: string", "code: int"},
     .device = "CPU",
     .create = create_refusal,
     .compute = compute_refusal,
     .delete = delete_refusal},
    {.name = "IpuRaise", /* python_calls.py */
     .inputs = {"code: int32", "message: uint8"},
     .device = "CPU",
     .compute = compute_raise},
    {.name = "IpuHostTableRegister",
     .attributes = {"table: string", "registers: bool"},
     .device = "CPU",
     .create = trm_tf_table_register_create,
     .compute = trm_tf_table_register_compute,
     .delete = trm_tf_table_node_delete},
    {.name = "IpuHostTableUse",
     .attributes = {"table: string", "T: type"},
     .inputs = {"value: T"},
     .outputs = {"shared: T"},
     .device = "CPU",
     .create = trm_tf_table_use_create,
     .compute = trm_tf_table_use_compute,
     .delete = trm_tf_table_node_delete},
    {.name = "IpuOutfeedDequeue",
     /* the shapes of the elements: their ranks, and all their dimensions in one list */
     .attributes = {"feed: string", "keep_last: bool", "dtypes: list(type) >= 1",
                    "ranks: list(int)", "dims: list(int)"},
     .outputs = {"elements: dtypes"},
     .device = "CPU",
     .create = trm_tf_dequeue_create,
     .compute = trm_tf_dequeue_compute,
     .delete = trm_tf_dequeue_delete},
    {.name = "IpuOutfeedDelete",
     .attributes = {"feed: string"},
     .device = "CPU",
     .create = trm_tf_outfeed_delete_create,
     .compute = trm_tf_outfeed_delete_compute,
     .delete = trm_free},
    {.name = "IpuEventTrace",
     .outputs = {"out: string"},
     .device = "CPU",
     .compute = trm_tf_event_trace_compute},
};

static void unknown_shapes(TF_ShapeInferenceContext *context, TF_Status *status) {
  TF_ShapeInferenceContextSetUnknownShape(context, status);
}

static trm_status register_op(const op_spec *op, trm_error *error) {
  TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder(op->name);
  for (int i = 0; i < MAX_SPECS && op->attributes[i]; ++i) {
    TF_OpDefinitionBuilderAddAttr(builder, op->attributes[i]);
  }
  for (int i = 0; i < MAX_SPECS && op->inputs[i]; ++i) {
    TF_OpDefinitionBuilderAddInput(builder, op->inputs[i]);
  }
  for (int i = 0; i < MAX_SPECS && op->outputs[i]; ++i) {
    TF_OpDefinitionBuilderAddOutput(builder, op->outputs[i]);
  }
  TF_OpDefinitionBuilderSetIsStateful(builder, !op->is_pure);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, unknown_shapes);
  TF_Status *call = TF_NewStatus();
  TF_RegisterOpDefinition(builder, call);
  return trm_tf_end_call(call, error);
}

static trm_status register_kernel(const op_spec *op, trm_error *error) {
  TF_KernelBuilder *builder =
      op->compute_async != NULL
          ? TF_NewAsyncKernelBuilder(op->name, op->device, op->create, op->compute_async,
                                     op->delete)
          : TF_NewKernelBuilder(op->name, op->device, op->create, op->compute, op->delete);
  for (int i = 0; i < MAX_SPECS && op->host_memory[i]; ++i) {
    TF_KernelBuilder_HostMemory(builder, op->host_memory[i]);
  }
  TF_Status *call = TF_NewStatus();
  TF_RegisterKernelBuilder(op->name, builder, call);
  return trm_tf_end_call(call, error);
}

static trm_status register_call_outside(trm_error *error) {
  TF_KernelBuilder *builder =
      TF_NewKernelBuilder("XlaCustomCallV2", "CPU", create_named, compute_call_outside, trm_free);
  TF_Status *call = TF_NewStatus();
  TF_RegisterKernelBuilder("TremulaCallOutside", builder, call);
  return trm_tf_end_call(call, error);
}

/* TensorFlow gives no way to report a failure from TF_InitKernel. */
static void tell(const char *name, trm_status status, const trm_error *error) {
  if (status != TRM_OK) fprintf(stderr, "tremula: %s: %s\n", name, error->message);
}

void TF_InitKernel(void) {
  trm_error error = {0};
  for (size_t i = 0; i < sizeof OPS / sizeof *OPS; ++i) {
    trm_status status = register_op(&OPS[i], &error);
    if (status == TRM_OK) status = register_kernel(&OPS[i], &error);
    tell(OPS[i].name, status, &error);
  }
  tell("VarHandleOp", trm_tf_variables_register(&error), &error);
  tell("Assert", trm_tf_assertions_register(&error), &error);
  tell("XlaCustomCallV2", register_call_outside(&error), &error);
}
