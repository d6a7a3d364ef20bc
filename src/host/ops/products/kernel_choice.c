/* Owns: kernels that choose between two versions in each run: for one thread or for all, packed or
 * plain. oneDNN fixes the number of threads when it creates a primitive, but only a run can tell
 * whether waking the other threads pays. */
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "host/ops/products/kernel_choice.h"
#include "host/ops/threads.h"

typedef struct choice {
  trm_kernel one, all;
  int threads;               /* of `all` */
  size_t packed_by_one;      /* bytes of the persistent block before the part of `all` */
  atomic_uint_fast64_t best; /* nanoseconds of a run on one thread; 0: none yet */
} choice;

static trm_status run_choice(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  choice *own = kernel->state;
  const uint64_t best = atomic_load_explicit(&own->best, memory_order_relaxed);
  const uint64_t share = best / (uint64_t)own->threads;
  const uint64_t begin = trm_threads_clock();
  const bool wakes = TRM_OPENMP_THREADS && best > 0 && !omp_in_parallel() &&
                     omp_get_max_threads() >= own->threads && trm_threads_pay(best - share, begin);
  const trm_kernel *chosen = wakes ? &own->all : &own->one;
  trm_kernel_call mine = *call;
  if (wakes && own->packed_by_one > 0)
    mine.persistent = (char *)mine.persistent + own->packed_by_one;
  TRY(chosen->run(chosen, &mine, error));
  const uint64_t end = trm_threads_clock(), took = end - begin;
  if (wakes) {
    trm_threads_note_cost(took > share ? took - share : 0, begin, end);
  } else {
    trm_threads_note_alone(end);
    if (best == 0 || took < best) atomic_store_explicit(&own->best, took, memory_order_relaxed);
  }
  return TRM_OK;
}

static void destroy_choice(trm_kernel *kernel) {
  choice *own = kernel->state;
  trm_kernel_destroy(&own->one);
  trm_kernel_destroy(&own->all);
  kernel->state = NULL;
}

trm_status trm_kernel_choose_threads(trm_arena *arena, const trm_kernel *one, const trm_kernel *all,
                                     int threads, bool same_packing, trm_kernel *out_kernel,
                                     trm_error *error) {
  choice *own = ARENA_NEW(arena, choice, 1);
  if (own == NULL) {
    trm_kernel unused[2] = {*one, *all};
    for (int i = 0; i < 2; ++i) trm_kernel_destroy(&unused[i]);
    FAIL_NO_MEMORY("a kernel");
  }
  own->one = *one;
  own->all = *all;
  own->threads = threads;
  own->packed_by_one = same_packing ? 0 : one->persistent_bytes;
  atomic_init(&own->best, 0);
  const bool is_larger = one->scratch_bytes > all->scratch_bytes;
  *out_kernel = (trm_kernel){.name = one->name,
                             .scratch_bytes = is_larger ? one->scratch_bytes : all->scratch_bytes,
                             .persistent_bytes = own->packed_by_one + all->persistent_bytes,
                             .state = own,
                             .run = run_choice,
                             .destroy = destroy_choice};
  return TRM_OK;
}

/* ---- Packed or plain ------------------------------------------------------------------------ */

typedef struct packed_choice {
  trm_kernel plain, packed;
  uint32_t operand;
} packed_choice;

static trm_status run_packed_choice(const trm_kernel *kernel, const trm_kernel_call *call,
                                    trm_error *error) {
  const packed_choice *own = kernel->state;
  const bool may_serve_again = call->versions != NULL && call->versions[own->operand] != 0;
  const trm_kernel *chosen = may_serve_again ? &own->packed : &own->plain;
  return chosen->run(chosen, call, error);
}

static void destroy_packed_choice(trm_kernel *kernel) {
  packed_choice *own = kernel->state;
  trm_kernel_destroy(&own->plain);
  trm_kernel_destroy(&own->packed);
  kernel->state = NULL;
}

trm_status trm_kernel_choose_packed(trm_arena *arena, const trm_kernel *plain,
                                    const trm_kernel *packed, uint32_t operand,
                                    trm_kernel *out_kernel, trm_error *error) {
  packed_choice *own = ARENA_NEW(arena, packed_choice, 1);
  if (own == NULL) {
    trm_kernel unused[2] = {*plain, *packed};
    for (int i = 0; i < 2; ++i) trm_kernel_destroy(&unused[i]);
    FAIL_NO_MEMORY("a kernel");
  }
  const bool are_alike = strcmp(plain->name, packed->name) == 0;
  const char *name =
      are_alike ? plain->name : trm_arena_format(arena, "%s|%s", plain->name, packed->name);
  *own = (packed_choice){*plain, *packed, operand};
  const bool is_larger = plain->scratch_bytes > packed->scratch_bytes;
  *out_kernel =
      (trm_kernel){.name = name != NULL ? name : plain->name,
                   .scratch_bytes = is_larger ? plain->scratch_bytes : packed->scratch_bytes,
                   .persistent_bytes = packed->persistent_bytes,
                   .state = own,
                   .run = run_packed_choice,
                   .destroy = destroy_packed_choice};
  return TRM_OK;
}
