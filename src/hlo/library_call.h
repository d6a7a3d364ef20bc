/* The call of one of Poplar's libraries that an instruction stands for. The pass library-calls
 * states it, for the estimate of an IPU; printed text shows it as a comment. */
#ifndef TREMULA_HLO_LIBRARY_CALL_H_
#define TREMULA_HLO_LIBRARY_CALL_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"

/* The frontend attributes by which Python marks what a layer of Poplar's libraries computes. */
#define TRM_FUNCTION "popnn_function" /* a function that HLO has not: gelu */
#define TRM_SCOPE "popnn_scope"       /* the TensorFlow op */
#define TRM_WORD "popnn_word"         /* word, part and key of a trm_library_call */
#define TRM_PART "popnn_part"
#define TRM_KEY "popnn_key"
#define TRM_LAYER_OPTIONS "popnn_options" /* the layer's PoplarOptionFlags */

typedef enum trm_library_pattern {
  TRM_LIBRARY_NONE,
#define LIBRARY_CALL(id, word, part, vertices, flags, source) TRM_LIBRARY_##id,
#include "hlo/library_calls.def"
#undef LIBRARY_CALL
  TRM_NUM_LIBRARY_PATTERNS
} trm_library_pattern;

/* What every call of a pattern has; see trm_library_call. */
typedef struct trm_library_row {
  const char *word, *part, *vertices;
  bool is_shared, is_plain, in_expression;
} trm_library_row;
extern const trm_library_row trm_library_rows[TRM_NUM_LIBRARY_PATTERNS];

typedef struct trm_library_call {
  trm_library_pattern pattern;
  const char *scope; /* the TensorFlow op that names it, where that is not the instruction's own */
  const char *word;  /* in place of the HLO name: "fusion", "max-pool"; NULL: the HLO name stays */
  const char *part;  /* after the word: "maxPool5x5"; or NULL */
  const char *vertices; /* in place of the compute set's own name: "AddTo"; or NULL */
  const char *copies;   /* in names of its copies, what stands behind the op; or NULL */
  const char *key;  /* of a shared compute set: what must be equal beside the vertices; or NULL */
  uint32_t number;  /* behind the word, and one more: the first has 1; 0: none yet */
  uint32_t group;   /* calls of a group share the number behind the word; 0: none */
  bool joins;       /* its user's compute set computes it, in the same place */
  bool is_absorbed; /* another instruction's compute set computes it */
  bool is_shared;   /* equal compute sets are compiled once */
  bool is_plain;    /* the word has no number */
  bool in_half;     /* of a fusion: float32 is only inside, outside there are halves */
} trm_library_call;

/* Makes a call one of a pattern: sets what the row says, and keeps the rest. */
void trm_library_call_set(trm_library_call *call, trm_library_pattern pattern);
/* Whether a call says nothing. */
bool trm_library_call_is_empty(const trm_library_call *call);
/* word="relu",vertices="Nonlinearity",is="shared" */
void trm_library_call_print(const trm_library_call *call, trm_text *out);

#endif /* TREMULA_HLO_LIBRARY_CALL_H_ */
