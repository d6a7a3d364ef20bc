/* Calls of Poplar's libraries, and the search for them in library.c, library_layers.c and
 * library_casts.c.
 *
 * The pass library-calls states each call as frontend attributes "library_...", which the estimate
 * reads (src/ipu/program/roles.c). */
#ifndef TREMULA_IPU_PASSES_LIBRARY_H_
#define TREMULA_IPU_PASSES_LIBRARY_H_

#include <string.h>

#include "ipu/passes/values.h"

/* The texts of a call: TEXT(field, attribute). */
#define TRM_LIBRARY_TEXTS                                                                     \
  TEXT(scope, "library_scope")   /* the TensorFlow op that names it, where that is not the    \
                                    instruction's own */                                      \
  TEXT(word, "library_word")     /* in place of the HLO name: "fusion", "max-pool" */         \
  TEXT(prefix, "library_part")   /* after that: "maxPool5x5" */                               \
  TEXT(last, "library_vertices") /* in place of the compute set's own name: "AddTo" */        \
  TEXT(copies, "library_copies") /* of its copies, what stands behind the op */               \
  TEXT(key, "library_key")       /* of what is shared, what must be equal beside the vertices \
                                  */
/* The flags, words of "library_is" with blanks between them: FLAG(field, word). */
#define TRM_LIBRARY_FLAGS                                                                   \
  FLAG(joins, "joined")         /* its user's compute set computes it, in the same place */ \
  FLAG(is_absorbed, "absorbed") /* another instruction's compute set computes it */         \
  FLAG(is_shared, "shared")     /* equal ones are compiled once */                          \
  FLAG(is_plain, "plain")       /* the word has no number */                                \
  FLAG(in_half, "halves")       /* of a fusion: float32 is only inside, outside there are halves */
#define TRM_LIBRARY_NUMBER "library_number" /* behind the word, and one more: the first has 1 */
#define TRM_LIBRARY_GROUP "library_group"   /* calls of a group share the number behind the word */
#define TRM_LIBRARY_IS "library_is"

/* Elementwise trees of at most this many elements are one expression in the original. */
enum { TRM_EXPRESSION_ELEMENTS = 8 };

typedef struct trm_library_call {
#define TEXT(field, attribute) const char *field;
  TRM_LIBRARY_TEXTS
#undef TEXT
#define FLAG(field, text) bool field;
  TRM_LIBRARY_FLAGS
#undef FLAG
  const trm_instruction *op; /* its TensorFlow op gives the scope */
  uint32_t number, group;    /* 0: none */
} trm_library_call;

typedef struct trm_library_finder {
  trm_values in;
  trm_arena *arena;
  trm_library_call *calls; /* by number of an instruction */
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
