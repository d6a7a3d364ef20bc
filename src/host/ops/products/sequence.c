/* Owns: sequences of steps: building them, and running them without allocating. */
#include "host/ops/products/sequence.h"

#include <omp.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "host/ops/threads.h"

#define MAX_STEPS 32 /* three for each chunk of a gradient, and a few more */
#define NO_OPERAND UINT32_MAX
#define HEADER_BYTES 64 /* before a persistent block: the version that is packed there */

typedef struct step {
  const trm_step_kind *kind; /* NULL: a function or a worker, with places a, b, out, scratch */
  trm_step_function function;
  trm_step_worker worker;
  const void *data;
  bool is_packing;
  int chunk; /* trm_sequence_set_chunk; 0: none */
  int num_places;
  trm_place places[TRM_STEP_MOST_PLACES];
} step;

/* The contexts of one run: one for each step, NULL for functions and workers. */
typedef struct context {
  void *of_step[MAX_STEPS];
} context;

typedef struct owned {
  struct owned *next;
  void *thing;
  void (*destroy)(void *thing);
} owned;

struct trm_sequence {
  trm_arena *arena;
  owned *owned;
  size_t scratch_bytes, persistent_bytes;
  uint32_t packed_operand;
  bool is_packing;
  int chunk;
  int threads;
  int caller_threads; /* to restore when the kernel is built; then 0 */
  int num_steps;
  step steps[MAX_STEPS];
  atomic_flag is_busy; /* the context below is in use */
  context context;
};

/* ---- Building -------------------------------------------------------------------------------- */

static void restore_threads(trm_sequence *sequence) {
  if (sequence->caller_threads > 0) omp_set_num_threads(sequence->caller_threads);
  sequence->caller_threads = 0;
}

trm_status trm_sequence_create(const trm_kernel_request *request, double work,
                               trm_sequence **out_sequence, trm_error *error) {
  trm_sequence *sequence = ARENA_NEW(request->arena, trm_sequence, 1);
  CHECK_MEMORY(sequence, "a kernel");
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

void trm_sequence_rewind(trm_sequence *sequence) {
  sequence->num_steps = sequence->chunk = 0;
  sequence->scratch_bytes = sequence->persistent_bytes = 0;
  sequence->packed_operand = NO_OPERAND;
  sequence->is_packing = false;
}

double trm_sequence_work(double bytes, double operations) {
  return operations / 4 > bytes ? operations / 4 : bytes;
}

int trm_sequence_threads(const trm_sequence *sequence) { return sequence->threads; }

trm_arena *trm_sequence_arena(const trm_sequence *sequence) { return sequence->arena; }

trm_status trm_sequence_own(trm_sequence *sequence, void *thing, void (*destroy)(void *thing),
                            trm_error *error) {
  owned *entry = ARENA_NEW(sequence->arena, owned, 1);
  if (entry == NULL) destroy(thing);
  CHECK_MEMORY(entry, "a kernel");
  *entry = (owned){sequence->owned, thing, destroy};
  sequence->owned = entry;
  return TRM_OK;
}

static void close_contexts(const trm_sequence *sequence, context *own) {
  for (int i = 0; i < sequence->num_steps; ++i) {
    const step *each = &sequence->steps[i];
    if (each->kind != NULL) each->kind->close(own->of_step[i]);
  }
}

void trm_sequence_free(trm_sequence *sequence) {
  if (sequence == NULL) return;
  restore_threads(sequence);
  close_contexts(sequence, &sequence->context);
  for (owned *entry = sequence->owned; entry != NULL; entry = entry->next) {
    entry->destroy(entry->thing);
  }
}

trm_place trm_place_operand(uint32_t operand, size_t offset) {
  return (trm_place){TRM_SPACE_OPERAND, operand, offset};
}

trm_place trm_place_result(size_t offset) { return (trm_place){TRM_SPACE_RESULT, 0, offset}; }

static size_t round_up(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

trm_place trm_sequence_scratch(trm_sequence *sequence, size_t bytes) {
  const trm_place place = {TRM_SPACE_SCRATCH, 0, sequence->scratch_bytes};
  sequence->scratch_bytes += round_up(bytes);
  return place;
}

trm_place trm_sequence_persistent(trm_sequence *sequence, size_t bytes) {
  if (sequence->persistent_bytes == 0) sequence->persistent_bytes = HEADER_BYTES;
  const trm_place place = {TRM_SPACE_PERSISTENT, 0, sequence->persistent_bytes};
  sequence->persistent_bytes += round_up(bytes);
  return place;
}

bool trm_operand_may_repeat(const trm_kernel_request *request, uint32_t operand) {
  if (request->keeps_nothing) return false;
  const trm_index index = request->instruction->operands[operand];
  const trm_opcode opcode = request->computation->instructions[index].opcode;
  return opcode == TRM_OP_PARAMETER || opcode == TRM_OP_CONSTANT ||
         opcode == TRM_OP_GET_TUPLE_ELEMENT;
}

void trm_sequence_pack_begin(trm_sequence *sequence, uint32_t operand) {
  sequence->packed_operand = operand;
  sequence->is_packing = true;
}

void trm_sequence_pack_end(trm_sequence *sequence) { sequence->is_packing = false; }

void trm_sequence_set_chunk(trm_sequence *sequence, int chunk) {
  sequence->chunk = chunk;
  omp_set_num_threads(chunk > 0 ? 1 : sequence->threads);
}

static trm_status add(trm_sequence *sequence, const step *what, trm_error *error) {
  if (sequence->num_steps == MAX_STEPS) {
    FAIL(INTERNAL, "a kernel has more than %d steps", MAX_STEPS);
  }
  step *own = &sequence->steps[sequence->num_steps++];
  *own = *what;
  own->is_packing = sequence->is_packing;
  own->chunk = sequence->chunk;
  return TRM_OK;
}

trm_status trm_sequence_add_step(trm_sequence *sequence, const trm_step_kind *kind,
                                 const void *data, const trm_place *places, int num_places,
                                 trm_error *error) {
  step own = {.kind = kind, .data = data, .num_places = num_places};
  for (int i = 0; i < num_places; ++i) own.places[i] = places[i];
  return add(sequence, &own, error);
}

trm_status trm_sequence_add_function(trm_sequence *sequence, trm_step_function function,
                                     const void *data, trm_place a, trm_place b, trm_place out,
                                     trm_error *error) {
  const step own = {.function = function, .data = data, .num_places = 3, .places = {a, b, out}};
  return add(sequence, &own, error);
}

trm_status trm_sequence_add_worker(trm_sequence *sequence, trm_step_worker worker, const void *data,
                                   trm_place a, trm_place b, trm_place out, size_t scratch_bytes,
                                   trm_error *error) {
  const trm_place scratch = trm_sequence_scratch(sequence, scratch_bytes);
  const step own = {
      .worker = worker, .data = data, .num_places = 4, .places = {a, b, out, scratch}};
  return add(sequence, &own, error);
}

/* ---- Running --------------------------------------------------------------------------------- */

static trm_status open_contexts(const trm_sequence *sequence, context *own, trm_error *error) {
  for (int i = 0; i < sequence->num_steps; ++i) {
    const step *each = &sequence->steps[i];
    if (each->kind != NULL) TRY(each->kind->open(each->data, &own->of_step[i], error));
  }
  return TRM_OK;
}

static void *resolve(const trm_place *place, const trm_kernel_call *call) {
  switch (place->space) {
    case TRM_SPACE_OPERAND:
      return (char *)(uintptr_t)call->operands[place->operand] + place->offset;
    case TRM_SPACE_RESULT: return (char *)call->results[0] + place->offset;
    case TRM_SPACE_SCRATCH: return (char *)call->scratch + place->offset;
    case TRM_SPACE_PERSISTENT: return (char *)call->persistent + place->offset;
  }
  return NULL;
}

static trm_status run_step(const trm_sequence *sequence, context *own, int index,
                           const trm_kernel_call *call, trm_error *error) {
  const step *each = &sequence->steps[index];
  void *places[TRM_STEP_MOST_PLACES];
  for (int i = 0; i < each->num_places; ++i) places[i] = resolve(&each->places[i], call);
  if (each->kind != NULL) return each->kind->run(each->data, own->of_step[index], places, error);
  if (each->worker != NULL) each->worker(each->data, places[0], places[1], places[2], places[3]);
  else each->function(each->data, places[0], places[1], places[2]);
  return TRM_OK;
}

/* A run of the group whose steps are [first, last). */
typedef struct group_run {
  const trm_sequence *sequence;
  context *context;
  const trm_kernel_call *call;
  int first, last;
  atomic_int failure; /* a trm_status: the first step's that fails, which also writes *error */
  trm_error *error;
} group_run;

static void run_chunks(const void *argument, int64_t begin, int64_t end, int thread) {
  (void)thread;
  group_run *group = (group_run *)(uintptr_t)argument;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  for (int i = group->first; i < group->last; ++i) {
    const int chunk = group->sequence->steps[i].chunk;
    if (chunk <= begin || chunk > end) continue;
    trm_error own;
    const trm_status status = run_step(group->sequence, group->context, i, group->call, &own);
    int none = TRM_OK;
    if (status != TRM_OK && atomic_compare_exchange_strong(&group->failure, &none, (int)status) &&
        group->error != NULL) {
      *group->error = own;
    }
  }
  omp_set_num_threads(threads);
}

/* Runs the group that begins at step `first`; *out_last is the step after it. */
static trm_status run_group(const trm_sequence *sequence, context *own, int first,
                            const trm_kernel_call *call, int *out_last, trm_error *error) {
  int last = first;
  while (last < sequence->num_steps && sequence->steps[last].chunk > 0) ++last;
  group_run group = {sequence, own, call, first, last, TRM_OK, error};
  trm_parallel_ranges(sequence->threads, sequence->steps[last - 1].chunk, run_chunks, &group);
  *out_last = last;
  return (trm_status)atomic_load(&group.failure);
}

static trm_status run_steps(const trm_sequence *sequence, context *own, bool skip_packing,
                            const trm_kernel_call *call, trm_error *error) {
  for (int i = 0; i < sequence->num_steps;) {
    const step *each = &sequence->steps[i];
    if (each->chunk > 0) TRY(run_group(sequence, own, i, call, &i, error));
    else if (each->is_packing && skip_packing) ++i;
    else TRY(run_step(sequence, own, i++, call, error));
  }
  return TRM_OK;
}

static trm_status run_sequence(const trm_kernel *kernel, const trm_kernel_call *call,
                               trm_error *error) {
  trm_sequence *sequence = kernel->state;
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
    status = run_steps(sequence, &sequence->context, skip_packing, call, error);
    atomic_flag_clear_explicit(&sequence->is_busy, memory_order_release);
  } else { /* another engine runs this kernel now */
    context own = {0};
    status = open_contexts(sequence, &own, error);
    if (status == TRM_OK) status = run_steps(sequence, &own, skip_packing, call, error);
    close_contexts(sequence, &own);
  }
  omp_set_num_threads(caller_threads);
  if (sequence->packed_operand != NO_OPERAND && status == TRM_OK) {
    *(uint64_t *)call->persistent = version;
  }
  return status;
}

static void destroy_sequence(trm_kernel *kernel) {
  trm_sequence_free(kernel->state);
  kernel->state = NULL;
}

trm_status trm_sequence_finish(trm_sequence *sequence, const char *way, const char *what,
                               trm_half_products products, trm_kernel *out_kernel,
                               trm_error *error) {
  const char *full =
      trm_arena_format(sequence->arena, "%s.%s%s", way, what, trm_half_products_suffix(products));
  CHECK_MEMORY(full, "a kernel");
  TRY(open_contexts(sequence, &sequence->context, error));
  restore_threads(sequence);
  *out_kernel = (trm_kernel){.name = full,
                             .scratch_bytes = sequence->scratch_bytes,
                             .persistent_bytes = sequence->persistent_bytes,
                             .state = sequence,
                             .run = run_sequence,
                             .destroy = destroy_sequence};
  return TRM_OK;
}
