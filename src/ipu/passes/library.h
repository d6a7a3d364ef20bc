/* The search for calls of Poplar's libraries in library.c, library_layers.c and library_casts.c.
 * The pass library-calls states each on its instruction (hlo/library_call.h), and the estimate
 * reads them there (src/ipu/program/roles.c). */
#ifndef TREMULA_IPU_PASSES_LIBRARY_H_
#define TREMULA_IPU_PASSES_LIBRARY_H_

#include <string.h>

#include "hlo/library_call.h"
#include "ipu/passes/values.h"

/* Elementwise trees of at most this many elements are one expression in the original. */
enum { TRM_EXPRESSION_ELEMENTS = 8 };

typedef struct trm_library_finder {
  trm_values in;
  trm_arena *arena, *texts; /* of the search; of the module, for what is stated */
  trm_library_call *calls;  /* by number of an instruction */
  uint32_t num_groups;
  bool *is_kernel; /* by number of a value: a convolution uses the value as its kernel, unturned */
} trm_library_finder;

static inline const trm_instruction *at(const trm_library_finder *f, uint32_t n) {
  return trm_values_at(&f->in, n);
}

static inline uint32_t operand(const trm_library_finder *f, uint32_t n, uint32_t k) {
  return trm_values_operand(&f->in, n, k);
}

static inline trm_library_call *call_of(const trm_library_finder *f, uint32_t n) {
  return &f->calls[n];
}

/* Whether a pattern has been found for an instruction. */
static inline bool is_found(const trm_library_finder *f, uint32_t n) {
  return f->calls[n].pattern != TRM_LIBRARY_NONE;
}

static inline bool same_op(const trm_instruction *a, const trm_instruction *b) {
  return a->metadata.op_name != NULL && b->metadata.op_name != NULL &&
         strcmp(a->metadata.op_name, b->metadata.op_name) == 0;
}

static inline bool is_used_once(const trm_library_finder *f, uint32_t v) {
  return f->in.uses[v] == 1 && !f->in.is_output[v];
}

/* Finds marked layers and pools; called before the patterns of sums. */
trm_status trm_library_find_layers(trm_library_finder *f, trm_error *error);

/* Called after the patterns of sums: finds turned kernels, and the parts of fused batch norms. */
trm_status trm_library_find_kernels(trm_library_finder *f, trm_error *error);
trm_status trm_library_find_norms(trm_library_finder *f, trm_error *error);

/* Called last: finds conversions that vertices do not make. */
void trm_library_find_casts(trm_library_finder *f);

#endif /* TREMULA_IPU_PASSES_LIBRARY_H_ */
