/* Owns: sequences of oneDNN primitives: building them, and running them without allocating. */
#include "host/ops/products/onednn_sequence.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "host/ops/threads.h"

#define MAX_OPERATIONS 32 /* three for each part of a gradient, and a few more */
#define MAX_ARGUMENTS 6
#define MAX_DESCRIPTORS 160
#define NO_OPERAND UINT32_MAX
#define HEADER_BYTES 64 /* before a persistent block: the version that is packed there */

typedef struct operation {
  dnnl_primitive_t primitive; /* NULL: a function or a worker */
  trm_onednn_function function;
  trm_onednn_worker worker;
  const void *data;
  bool is_packing;
  int part; /* trm_onednn_set_part; 0: none */
  int num_arguments;
  trm_onednn_argument
      arguments[MAX_ARGUMENTS]; /* with descriptors of its own; of a function: a, b, out, scratch */
} operation;

/* The state of one run: oneDNN's memory objects hold its pointers. */
typedef struct context {
  dnnl_stream_t stream;
  dnnl_exec_arg_t arguments[MAX_OPERATIONS][MAX_ARGUMENTS];
} context;

struct trm_onednn_sequence {
  trm_arena *arena;
  size_t scratch_bytes, persistent_bytes;
  uint32_t packed_operand;
  bool is_packing;
  int part;
  int threads;
  int caller_threads; /* to restore when the kernel is built; then 0 */
  int num_operations, num_descriptors;
  operation operations[MAX_OPERATIONS];
  dnnl_memory_desc_t descriptors[MAX_DESCRIPTORS];
  atomic_flag is_busy; /* the context below is in use */
  context context;
};

/* ---- oneDNN itself --------------------------------------------------------------------------- */

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

/* ---- Building -------------------------------------------------------------------------------- */

static void restore_threads(trm_onednn_sequence *sequence) {
  if (sequence->caller_threads > 0) omp_set_num_threads(sequence->caller_threads);
  sequence->caller_threads = 0;
}

trm_status trm_onednn_sequence_create(const trm_kernel_request *request, double work,
                                      trm_onednn_sequence **out_sequence, trm_error *error) {
  if (trm_onednn_engine() == NULL) return TRM_UNIMPLEMENTED;
  trm_onednn_sequence *sequence = ARENA_NEW(request->arena, trm_onednn_sequence, 1);
  CHECK_MEMORY(sequence, "a oneDNN kernel");
  sequence->arena = request->arena;
  sequence->packed_operand = NO_OPERAND;
  atomic_flag_clear(&sequence->is_busy);
  sequence->threads =
      trm_threads_choose(work < 0x1p60 ? (size_t)work : (size_t)1 << 60, trm_threads_available());
  sequence->caller_threads = omp_get_max_threads();
  omp_set_num_threads(sequence->threads);
  *out_sequence = sequence;
  return TRM_OK;
}

static void release_context(const trm_onednn_sequence *sequence, context *own) {
  for (int i = 0; i < sequence->num_operations; ++i) {
    for (int j = 0; j < sequence->operations[i].num_arguments; ++j) {
      if (own->arguments[i][j].memory != NULL) dnnl_memory_destroy(own->arguments[i][j].memory);
    }
  }
  if (own->stream != NULL) dnnl_stream_destroy(own->stream);
}

int trm_onednn_sequence_threads(const trm_onednn_sequence *sequence) { return sequence->threads; }

void trm_onednn_sequence_free(trm_onednn_sequence *sequence) {
  if (sequence == NULL) return;
  restore_threads(sequence);
  release_context(sequence, &sequence->context);
  for (int i = 0; i < sequence->num_operations; ++i) {
    operation *own = &sequence->operations[i];
    if (own->primitive != NULL) dnnl_primitive_destroy(own->primitive);
  }
  for (int i = 0; i < sequence->num_descriptors; ++i) {
    dnnl_memory_desc_destroy(sequence->descriptors[i]);
  }
}

trm_onednn_place trm_onednn_operand(uint32_t operand, size_t offset) {
  return (trm_onednn_place){TRM_ONEDNN_OPERAND, operand, offset};
}

trm_onednn_place trm_onednn_result(size_t offset) {
  return (trm_onednn_place){TRM_ONEDNN_RESULT, 0, offset};
}

static size_t round_up(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

trm_onednn_place trm_onednn_scratch(trm_onednn_sequence *sequence, size_t bytes) {
  const trm_onednn_place place = {TRM_ONEDNN_SCRATCH, 0, sequence->scratch_bytes};
  sequence->scratch_bytes += round_up(bytes);
  return place;
}

trm_onednn_place trm_onednn_persistent(trm_onednn_sequence *sequence, size_t bytes) {
  if (sequence->persistent_bytes == 0) sequence->persistent_bytes = HEADER_BYTES;
  const trm_onednn_place place = {TRM_ONEDNN_PERSISTENT, 0, sequence->persistent_bytes};
  sequence->persistent_bytes += round_up(bytes);
  return place;
}

bool trm_onednn_may_repeat(const trm_kernel_request *request, uint32_t operand) {
  if (request->keeps_nothing) return false;
  const trm_index index = request->instruction->operands[operand];
  const trm_opcode opcode = request->computation->instructions[index].opcode;
  return opcode == TRM_OP_PARAMETER || opcode == TRM_OP_CONSTANT ||
         opcode == TRM_OP_GET_TUPLE_ELEMENT;
}

void trm_onednn_pack_begin(trm_onednn_sequence *sequence, uint32_t operand) {
  sequence->packed_operand = operand;
  sequence->is_packing = true;
}

void trm_onednn_pack_end(trm_onednn_sequence *sequence) { sequence->is_packing = false; }

void trm_onednn_set_part(trm_onednn_sequence *sequence, int part) {
  sequence->part = part;
  omp_set_num_threads(part > 0 ? 1 : sequence->threads);
}

static trm_status keep_descriptor(trm_onednn_sequence *sequence, dnnl_memory_desc_t desc,
                                  trm_error *error) {
  if (sequence->num_descriptors == MAX_DESCRIPTORS) {
    dnnl_memory_desc_destroy(desc);
    FAIL(INTERNAL, "a oneDNN kernel has more than %d memory descriptors", MAX_DESCRIPTORS);
  }
  sequence->descriptors[sequence->num_descriptors++] = desc;
  return TRM_OK;
}

/* oneDNN counts blocks in 32-bit integers, and divides by zero for a dimension of 2^32. */
static bool is_in_range(int rank, const int64_t *dims) {
  for (int d = 0; d < rank; ++d) {
    if (dims[d] > INT32_MAX / 2) return false;
  }
  return rank <= DNNL_MAX_NDIMS;
}

trm_status trm_onednn_describe(trm_onednn_sequence *sequence, dnnl_data_type_t type, int rank,
                               const int64_t *dims, const int64_t *strides,
                               const_dnnl_memory_desc_t *out_desc, trm_error *error) {
  dnnl_dims_t own_dims = {0}, own_strides = {0};
  if (!is_in_range(rank, dims)) return TRM_UNIMPLEMENTED;
  memcpy(own_dims, dims, (size_t)rank * sizeof *dims);
  memcpy(own_strides, strides, (size_t)rank * sizeof *strides);
  dnnl_memory_desc_t desc = NULL;
  TRY_DNNL(dnnl_memory_desc_create_with_strides(&desc, rank, own_dims, type, own_strides),
           "describing memory");
  TRY(keep_descriptor(sequence, desc, error));
  *out_desc = desc;
  return TRM_OK;
}

trm_status trm_onednn_describe_any(trm_onednn_sequence *sequence, dnnl_data_type_t type, int rank,
                                   const int64_t *dims, const_dnnl_memory_desc_t *out_desc,
                                   trm_error *error) {
  dnnl_dims_t own_dims = {0};
  if (!is_in_range(rank, dims)) return TRM_UNIMPLEMENTED;
  memcpy(own_dims, dims, (size_t)rank * sizeof *dims);
  dnnl_memory_desc_t desc = NULL;
  TRY_DNNL(dnnl_memory_desc_create_with_tag(&desc, rank, own_dims, type, dnnl_format_tag_any),
           "describing memory");
  TRY(keep_descriptor(sequence, desc, error));
  *out_desc = desc;
  return TRM_OK;
}

static trm_status new_operation(trm_onednn_sequence *sequence, operation **out_operation,
                                trm_error *error) {
  if (sequence->num_operations == MAX_OPERATIONS) {
    FAIL(INTERNAL, "a oneDNN kernel has more than %d operations", MAX_OPERATIONS);
  }
  operation *own = &sequence->operations[sequence->num_operations++];
  own->is_packing = sequence->is_packing;
  own->part = sequence->part;
  *out_operation = own;
  return TRM_OK;
}

trm_status trm_onednn_add_primitive(trm_onednn_sequence *sequence, const_dnnl_primitive_desc_t desc,
                                    const trm_onednn_argument *arguments, int num_arguments,
                                    trm_error *error) {
  operation *own = NULL;
  TRY(new_operation(sequence, &own, error));
  for (int i = 0; i < num_arguments; ++i) own->arguments[i] = arguments[i];
  /* The descriptors that *desc gives are destroyed with it. */
  for (int i = 0; i < num_arguments; ++i) {
    dnnl_memory_desc_t copy = NULL;
    TRY_DNNL(dnnl_memory_desc_clone(&copy, arguments[i].desc), "copying a descriptor");
    TRY(keep_descriptor(sequence, copy, error));
    own->arguments[i].desc = copy;
  }
  own->num_arguments = num_arguments;
  const_dnnl_memory_desc_t scratch =
      dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  const size_t bytes = scratch != NULL ? dnnl_memory_desc_get_size(scratch) : 0;
  if (bytes > 0) {
    dnnl_memory_desc_t copy = NULL;
    TRY_DNNL(dnnl_memory_desc_clone(&copy, scratch), "copying a descriptor");
    TRY(keep_descriptor(sequence, copy, error));
    own->arguments[own->num_arguments++] =
        (trm_onednn_argument){DNNL_ARG_SCRATCHPAD, copy, trm_onednn_scratch(sequence, bytes)};
  }
  TRY_DNNL(dnnl_primitive_create(&own->primitive, desc), "creating a primitive");
  return TRM_OK;
}

trm_status trm_onednn_add_reorder(trm_onednn_sequence *sequence, const_dnnl_memory_desc_t from_desc,
                                  trm_onednn_place from, const_dnnl_memory_desc_t to_desc,
                                  trm_onednn_place to, trm_error *error) {
  dnnl_primitive_attr_t attributes = trm_onednn_attributes();
  CHECK_MEMORY(attributes, "oneDNN attributes");
  dnnl_primitive_desc_t desc = NULL;
  const dnnl_status_t created =
      dnnl_reorder_primitive_desc_create(&desc, from_desc, engine, to_desc, engine, attributes);
  dnnl_primitive_attr_destroy(attributes);
  TRY_DNNL(created, "creating a reorder");
  const trm_onednn_argument arguments[] = {{DNNL_ARG_FROM, from_desc, from},
                                           {DNNL_ARG_TO, to_desc, to}};
  const trm_status status = trm_onednn_add_primitive(sequence, desc, arguments, 2, error);
  dnnl_primitive_desc_destroy(desc);
  return status;
}

trm_status trm_onednn_add_function(trm_onednn_sequence *sequence, trm_onednn_function function,
                                   const void *data, trm_onednn_place a, trm_onednn_place b,
                                   trm_onednn_place out, trm_error *error) {
  operation *own = NULL;
  TRY(new_operation(sequence, &own, error));
  own->function = function;
  own->data = data;
  own->arguments[0].place = a;
  own->arguments[1].place = b;
  own->arguments[2].place = out;
  return TRM_OK;
}

trm_status trm_onednn_add_worker(trm_onednn_sequence *sequence, trm_onednn_worker worker,
                                 const void *data, trm_onednn_place a, trm_onednn_place b,
                                 trm_onednn_place out, size_t scratch_bytes, trm_error *error) {
  TRY(trm_onednn_add_function(sequence, NULL, data, a, b, out, error));
  operation *own = &sequence->operations[sequence->num_operations - 1];
  own->worker = worker;
  own->arguments[3].place = trm_onednn_scratch(sequence, scratch_bytes);
  return TRM_OK;
}

/* ---- Operations of our own ------------------------------------------------------------------ */

typedef struct conversion {
  trm_dtype dtype;
  int64_t count;
} conversion;

static void run_widen(const void *data, const void *a, const void *b, void *out) {
  (void)b;
  const conversion *own = data;
  trm_onednn_widen(own->dtype, a, out, own->count);
}

static void run_narrow(const void *data, const void *a, const void *b, void *out) {
  (void)b;
  const conversion *own = data;
  trm_onednn_narrow(own->dtype, a, out, own->count);
}

trm_status trm_onednn_add_widen(trm_onednn_sequence *sequence, trm_dtype dtype, int64_t count,
                                bool is_kept, trm_onednn_place *place, trm_error *error) {
  if (dtype == TRM_F32) return TRM_OK;
  conversion *own = ARENA_NEW(sequence->arena, conversion, 1);
  CHECK_MEMORY(own, "a oneDNN kernel");
  *own = (conversion){dtype, count};
  const size_t bytes = (size_t)count * sizeof(float);
  const trm_onednn_place to =
      is_kept ? trm_onednn_persistent(sequence, bytes) : trm_onednn_scratch(sequence, bytes);
  TRY(trm_onednn_add_function(sequence, run_widen, own, *place, *place, to, error));
  *place = to;
  return TRM_OK;
}

trm_status trm_onednn_add_narrow(trm_onednn_sequence *sequence, trm_dtype dtype, int64_t count,
                                 trm_onednn_place from, trm_error *error) {
  conversion *own = ARENA_NEW(sequence->arena, conversion, 1);
  CHECK_MEMORY(own, "a oneDNN kernel");
  *own = (conversion){dtype, count};
  return trm_onednn_add_function(sequence, run_narrow, own, from, from, trm_onednn_result(0),
                                 error);
}

trm_status trm_onednn_add_split(trm_onednn_sequence *sequence, const trm_half_split *split,
                                bool is_kept, trm_onednn_place *place, trm_error *error) {
  const trm_half_split *own = trm_arena_copy(sequence->arena, split, sizeof *split);
  CHECK_MEMORY(own, "a oneDNN kernel");
  const size_t bytes = (size_t)trm_half_split_count(split) * sizeof(uint16_t);
  const trm_onednn_place to =
      is_kept ? trm_onednn_persistent(sequence, bytes) : trm_onednn_scratch(sequence, bytes);
  TRY(trm_onednn_add_function(sequence, trm_half_split_run, own, *place, *place, to, error));
  *place = to;
  return TRM_OK;
}

static void run_copy(const void *data, const void *a, const void *b, void *out) {
  (void)b;
  const trm_onednn_copy *own = data;
  const float *from = (const float *)a + own->from_start;
  float *to = out;
  int64_t index[TRM_ONEDNN_COPY_RANK] = {0};
  const int32_t last = own->rank - 1;
  const int64_t count = own->dims[last];
  const int64_t from_stride = own->from_strides[last], to_stride = own->to_strides[last];
  for (;;) {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
    int32_t d = last - 1;
    for (; d >= 0; --d) {
      from += own->from_strides[d];
      to += own->to_strides[d];
      if (++index[d] < own->dims[d]) break;
      from -= own->from_strides[d] * own->dims[d];
      to -= own->to_strides[d] * own->dims[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

trm_status trm_onednn_add_copy(trm_onednn_sequence *sequence, const trm_onednn_copy *copy,
                               trm_onednn_place from, trm_onednn_place to, trm_error *error) {
  const trm_onednn_copy *own = trm_arena_copy(sequence->arena, copy, sizeof *copy);
  CHECK_MEMORY(own, "a oneDNN kernel");
  return trm_onednn_add_function(sequence, run_copy, own, from, from, to, error);
}

/* ---- Running --------------------------------------------------------------------------------- */

static trm_status make_context(const trm_onednn_sequence *sequence, context *own,
                               trm_error *error) {
  TRY_DNNL(dnnl_stream_create(&own->stream, engine, dnnl_stream_default_flags),
           "creating a stream");
  for (int i = 0; i < sequence->num_operations; ++i) {
    const operation *each = &sequence->operations[i];
    for (int j = 0; j < each->num_arguments; ++j) {
      own->arguments[i][j].arg = each->arguments[j].id;
      TRY_DNNL(dnnl_memory_create(&own->arguments[i][j].memory, each->arguments[j].desc, engine,
                                  DNNL_MEMORY_NONE),
               "creating a memory object");
    }
  }
  return TRM_OK;
}

static void *resolve(const trm_onednn_place *place, const trm_kernel_call *call) {
  switch (place->space) {
    case TRM_ONEDNN_OPERAND:
      return (char *)(uintptr_t)call->operands[place->operand] + place->offset;
    case TRM_ONEDNN_RESULT: return (char *)call->results[0] + place->offset;
    case TRM_ONEDNN_SCRATCH: return (char *)call->scratch + place->offset;
    case TRM_ONEDNN_PERSISTENT: return (char *)call->persistent + place->offset;
  }
  return NULL;
}

static dnnl_status_t run_operation(const trm_onednn_sequence *sequence, context *own, int index,
                                   const trm_kernel_call *call) {
  const operation *each = &sequence->operations[index];
  if (each->primitive == NULL) {
    void *places[4];
    for (int j = 0; j < 4; ++j) places[j] = resolve(&each->arguments[j].place, call);
    if (each->worker != NULL) {
      each->worker(each->data, places[0], places[1], places[2], places[3]);
    } else {
      each->function(each->data, places[0], places[1], places[2]);
    }
    return dnnl_success;
  }
  for (int j = 0; j < each->num_arguments; ++j) {
    dnnl_memory_set_data_handle(own->arguments[index][j].memory,
                                resolve(&each->arguments[j].place, call));
  }
  return dnnl_primitive_execute(each->primitive, own->stream, each->num_arguments,
                                own->arguments[index]);
}

/* A run of the group whose operations are [first, last). */
typedef struct group_run {
  const trm_onednn_sequence *sequence;
  context *context;
  const trm_kernel_call *call;
  int first, last;
  atomic_int failure; /* a dnnl_status_t */
} group_run;

static void run_parts(const void *argument, int64_t begin, int64_t end, int thread) {
  (void)thread;
  group_run *group = (group_run *)(uintptr_t)argument;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  for (int i = group->first; i < group->last; ++i) {
    const int part = group->sequence->operations[i].part;
    if (part <= begin || part > end) continue;
    const dnnl_status_t status = run_operation(group->sequence, group->context, i, group->call);
    if (status != dnnl_success) atomic_store(&group->failure, (int)status);
  }
  omp_set_num_threads(threads);
}

/* Runs the group that begins at operation `first`; *out_last is the operation after it. */
static dnnl_status_t run_group(const trm_onednn_sequence *sequence, context *own, int first,
                               const trm_kernel_call *call, int *out_last) {
  int last = first;
  while (last < sequence->num_operations && sequence->operations[last].part > 0) ++last;
  group_run group = {sequence, own, call, first, last, dnnl_success};
  trm_parallel_ranges(sequence->threads, sequence->operations[last - 1].part, run_parts, &group);
  *out_last = last;
  return (dnnl_status_t)atomic_load(&group.failure);
}

static trm_status run_operations(const trm_onednn_sequence *sequence, context *own,
                                 bool skip_packing, const trm_kernel_call *call, trm_error *error) {
  for (int i = 0; i < sequence->num_operations;) {
    const operation *each = &sequence->operations[i];
    dnnl_status_t executed = dnnl_success;
    if (each->part > 0) executed = run_group(sequence, own, i, call, &i);
    else if (each->is_packing && skip_packing) ++i;
    else executed = run_operation(sequence, own, i++, call);
    if (executed != dnnl_success) {
      FAIL(INTERNAL, "oneDNN failed with status %d while running a kernel", (int)executed);
    }
  }
  return TRM_OK;
}

static trm_status run_program(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  trm_onednn_sequence *sequence = kernel->state;
  uint64_t version = 0;
  bool skip_packing = false;
  if (sequence->packed_operand != NO_OPERAND) {
    if (call->versions != NULL) version = call->versions[sequence->packed_operand];
    skip_packing = version != 0 && *(const uint64_t *)call->persistent == version;
    *(uint64_t *)call->persistent = 0; /* stays if the run fails */
  }
  const int caller_threads = omp_get_max_threads();
  if (sequence->threads < caller_threads) omp_set_num_threads(sequence->threads);
  else if (sequence->threads > 1) trm_threads_note_wake();
  trm_status status;
  if (!atomic_flag_test_and_set_explicit(&sequence->is_busy, memory_order_acquire)) {
    status = run_operations(sequence, &sequence->context, skip_packing, call, error);
    atomic_flag_clear_explicit(&sequence->is_busy, memory_order_release);
  } else { /* another engine runs this kernel now */
    context own = {0};
    status = make_context(sequence, &own, error);
    if (status == TRM_OK) status = run_operations(sequence, &own, skip_packing, call, error);
    release_context(sequence, &own);
  }
  omp_set_num_threads(caller_threads);
  if (sequence->packed_operand != NO_OPERAND && status == TRM_OK) {
    *(uint64_t *)call->persistent = version;
  }
  return status;
}

static void destroy_program(trm_kernel *kernel) {
  trm_onednn_sequence_free(kernel->state);
  kernel->state = NULL;
}

trm_status trm_onednn_sequence_finish(trm_onednn_sequence *sequence, const char *way,
                                      const char *what, trm_half_products products,
                                      trm_kernel *out_kernel, trm_error *error) {
  const char *full =
      trm_arena_format(sequence->arena, "%s.%s%s", way, what, trm_half_products_suffix(products));
  CHECK_MEMORY(full, "a oneDNN kernel");
  TRY(make_context(sequence, &sequence->context, error));
  restore_threads(sequence);
  *out_kernel = (trm_kernel){.name = full,
                             .scratch_bytes = sequence->scratch_bytes,
                             .persistent_bytes = sequence->persistent_bytes,
                             .state = sequence,
                             .run = run_program,
                             .destroy = destroy_program};
  return TRM_OK;
}
