/* Owns: oneDNN's primitives as steps of a sequence, and oneDNN's engine and descriptors. */
#include "host/ops/products/onednn_steps.h"

#include <pthread.h>
#include <string.h>

static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;

static void create_engine(void) {
  if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) engine = NULL;
}

dnnl_engine_t trm_onednn_engine(void) {
  pthread_once(&engine_once, create_engine);
  return engine;
}

dnnl_primitive_attr_t trm_onednn_attributes(void) {
  dnnl_primitive_attr_t attributes = NULL;
  if (dnnl_primitive_attr_create(&attributes) != dnnl_success) return NULL;
  if (dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user) !=
      dnnl_success) {
    dnnl_primitive_attr_destroy(attributes);
    return NULL;
  }
  return attributes;
}

trm_status trm_onednn_status(dnnl_status_t status, const char *what, trm_error *error) {
  switch (status) {
    case dnnl_success: return TRM_OK;
    case dnnl_unimplemented:
    case dnnl_invalid_arguments: return TRM_UNIMPLEMENTED;
    case dnnl_out_of_memory: FAIL_NO_MEMORY(what);
    default: FAIL(INTERNAL, "oneDNN failed with status %d while %s", (int)status, what);
  }
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

static void destroy_descriptor(void *desc) { dnnl_memory_desc_destroy(desc); }

/* oneDNN counts blocks in 32-bit integers, and divides by zero for a dimension of 2^32. */
static bool is_in_range(int rank, const int64_t *dims) {
  for (int d = 0; d < rank; ++d) {
    if (dims[d] > INT32_MAX / 2) return false;
  }
  return rank <= DNNL_MAX_NDIMS;
}

trm_status trm_onednn_describe(trm_sequence *sequence, dnnl_data_type_t type, int rank,
                               const int64_t *dims, const int64_t *strides,
                               const_dnnl_memory_desc_t *out_desc, trm_error *error) {
  dnnl_dims_t own_dims = {0}, own_strides = {0};
  if (!is_in_range(rank, dims)) return TRM_UNIMPLEMENTED;
  memcpy(own_dims, dims, (size_t)rank * sizeof *dims);
  memcpy(own_strides, strides, (size_t)rank * sizeof *strides);
  dnnl_memory_desc_t desc = NULL;
  TRY_DNNL(dnnl_memory_desc_create_with_strides(&desc, rank, own_dims, type, own_strides),
           "describing memory");
  TRY(trm_sequence_own(sequence, desc, destroy_descriptor, error));
  *out_desc = desc;
  return TRM_OK;
}

trm_status trm_onednn_describe_any(trm_sequence *sequence, dnnl_data_type_t type, int rank,
                                   const int64_t *dims, const_dnnl_memory_desc_t *out_desc,
                                   trm_error *error) {
  dnnl_dims_t own_dims = {0};
  if (!is_in_range(rank, dims)) return TRM_UNIMPLEMENTED;
  memcpy(own_dims, dims, (size_t)rank * sizeof *dims);
  dnnl_memory_desc_t desc = NULL;
  TRY_DNNL(dnnl_memory_desc_create_with_tag(&desc, rank, own_dims, type, dnnl_format_tag_any),
           "describing memory");
  TRY(trm_sequence_own(sequence, desc, destroy_descriptor, error));
  *out_desc = desc;
  return TRM_OK;
}

/* ---- Primitives ------------------------------------------------------------------------------ */

typedef struct primitive {
  dnnl_primitive_t primitive;
  int num_arguments;
  int ids[TRM_STEP_MOST_PLACES];
  const_dnnl_memory_desc_t descs[TRM_STEP_MOST_PLACES]; /* the sequence's */
} primitive;

/* oneDNN's memory objects hold the pointers of a run. */
typedef struct context {
  dnnl_stream_t stream;
  int num_arguments;
  dnnl_exec_arg_t arguments[TRM_STEP_MOST_PLACES];
} context;

static void close_context(void *opened) {
  context *own = opened;
  if (own == NULL) return;
  for (int i = 0; i < own->num_arguments; ++i) dnnl_memory_destroy(own->arguments[i].memory);
  if (own->stream != NULL) dnnl_stream_destroy(own->stream);
  trm_free(own);
}

static trm_status fill_context(const primitive *data, context *own, trm_error *error) {
  TRY_DNNL(dnnl_stream_create(&own->stream, engine, dnnl_stream_default_flags),
           "creating a stream");
  for (; own->num_arguments < data->num_arguments; ++own->num_arguments) {
    dnnl_exec_arg_t *argument = &own->arguments[own->num_arguments];
    argument->arg = data->ids[own->num_arguments];
    TRY_DNNL(dnnl_memory_create(&argument->memory, data->descs[own->num_arguments], engine,
                                DNNL_MEMORY_NONE),
             "creating a memory object");
  }
  return TRM_OK;
}

static trm_status open_context(const void *data, void **out_context, trm_error *error) {
  context *own = trm_allocate_zeroed(1, sizeof *own);
  CHECK_MEMORY(own, "a oneDNN primitive");
  const trm_status status = fill_context(data, own, error);
  if (status == TRM_OK) *out_context = own;
  else close_context(own);
  return status;
}

static trm_status run_primitive(const void *data, void *opened, void *const *places,
                                trm_error *error) {
  const primitive *own = data;
  context *call = opened;
  for (int i = 0; i < call->num_arguments; ++i) {
    dnnl_memory_set_data_handle(call->arguments[i].memory, places[i]);
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(own->primitive, call->stream, call->num_arguments, call->arguments);
  if (status == dnnl_success) return TRM_OK;
  FAIL(INTERNAL, "oneDNN failed with status %d while running a kernel", (int)status);
}

static const trm_step_kind primitive_kind = {open_context, close_context, run_primitive};

static void destroy_primitive(void *thing) { dnnl_primitive_destroy(thing); }

/* The descriptors that a primitive's descriptor gives are destroyed with it. */
static trm_status add_argument(trm_sequence *sequence, primitive *own, int id,
                               const_dnnl_memory_desc_t desc, trm_error *error) {
  dnnl_memory_desc_t copy = NULL;
  TRY_DNNL(dnnl_memory_desc_clone(&copy, desc), "copying a descriptor");
  TRY(trm_sequence_own(sequence, copy, destroy_descriptor, error));
  own->ids[own->num_arguments] = id;
  own->descs[own->num_arguments++] = copy;
  return TRM_OK;
}

trm_status trm_onednn_add_primitive(trm_sequence *sequence, const_dnnl_primitive_desc_t desc,
                                    const trm_onednn_argument *arguments, int num_arguments,
                                    trm_error *error) {
  primitive *own = ARENA_NEW(trm_sequence_arena(sequence), primitive, 1);
  CHECK_MEMORY(own, "a oneDNN primitive");
  trm_place places[TRM_STEP_MOST_PLACES];
  for (int i = 0; i < num_arguments; ++i) {
    places[i] = arguments[i].place;
    TRY(add_argument(sequence, own, arguments[i].id, arguments[i].desc, error));
  }
  const_dnnl_memory_desc_t scratch =
      dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  const size_t bytes = scratch != NULL ? dnnl_memory_desc_get_size(scratch) : 0;
  if (bytes > 0) {
    places[num_arguments] = trm_sequence_scratch(sequence, bytes);
    TRY(add_argument(sequence, own, DNNL_ARG_SCRATCHPAD, scratch, error));
  }
  TRY_DNNL(dnnl_primitive_create(&own->primitive, desc), "creating a primitive");
  TRY(trm_sequence_own(sequence, own->primitive, destroy_primitive, error));
  return trm_sequence_add_step(sequence, &primitive_kind, own, places, own->num_arguments, error);
}

trm_status trm_onednn_add_reorder(trm_sequence *sequence, const_dnnl_memory_desc_t from_desc,
                                  trm_place from, const_dnnl_memory_desc_t to_desc, trm_place to,
                                  trm_error *error) {
  dnnl_primitive_attr_t attributes = trm_onednn_attributes();
  CHECK_MEMORY(attributes, "oneDNN attributes");
  dnnl_primitive_desc_t desc = NULL;
  dnnl_engine_t cpu = trm_onednn_engine(); /* this may be the first use */
  const dnnl_status_t created =
      dnnl_reorder_primitive_desc_create(&desc, from_desc, cpu, to_desc, cpu, attributes);
  dnnl_primitive_attr_destroy(attributes);
  TRY_DNNL(created, "creating a reorder");
  const trm_onednn_argument arguments[] = {{DNNL_ARG_FROM, from_desc, from},
                                           {DNNL_ARG_TO, to_desc, to}};
  const trm_status status = trm_onednn_add_primitive(sequence, desc, arguments, 2, error);
  dnnl_primitive_desc_destroy(desc);
  return status;
}
