/* What compiled strip code is made of: written by strip_compile.c and strip_place.c, run by
 * strip.c. */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_STRIP_CODE_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_STRIP_CODE_H_

#include "host/ops/elementwise/strip.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/generate/generator.h"

typedef enum strip_slot_kind {
  SLOT_REGISTER, /* in the thread's file, at `offset` */
  SLOT_OPERAND,
  SLOT_RESULT,   /* index `source` */
  SLOT_CONSTANT, /* at `data` */
  SLOT_TEMPORARY /* a stage's result, at `offset` of the scratch */
} strip_slot_kind;

/* A place that operations read and write; a run keeps one pointer for each. */
typedef struct strip_slot {
  strip_slot_kind kind;
  bool moves;     /* advances with the strips; otherwise points to the start */
  bool keeps;     /* a register that is filled once, before the first strip */
  bool is_scalar; /* and of which only the first element is read */
  bool streams;   /* a result that is written past the caches */
  uint8_t log2_size;
  uint32_t source;
  int64_t base; /* elements from the start of the array, where it moves */
  const void *data;
  size_t offset;
} strip_slot;

/* How an operation loads what is not in order: element i of the index space, decoded over dims, is
 * at base + sum of index * stride. With is_iota the value is index[0] itself (as S64). */
typedef struct strip_access {
  uint32_t source; /* slot */
  int32_t rank;
  bool is_iota;
  int64_t base, dims[TRM_MAX_RANK], strides[TRM_MAX_RANK];
} strip_access;

/* Whether runs of operations become machine code: on this CPU, unless TREMULA_GENERATE is 0. */
bool trm_strip_generates(void);

/* A run of operations that was made into machine code. */
typedef struct strip_generated {
  trm_generated_fn function;
  uint32_t num_reads, num_arrays, num_writes, num_nodes;
  const uint32_t *reads; /* slots: num_arrays arrays, then scalars */
  const uint32_t *writes;
} strip_generated;

typedef struct strip_operation {
  trm_vector_fn function; /* NULL: load by access, or generated */
  const strip_access *access;
  uint32_t out, in[3];
  uint8_t scalars;                  /* TRM_SCALAR_ bits */
  const strip_generated *generated; /* instead of all of the above but `out` */
  bool points;                      /* a load whose register may point to the source */
} strip_operation;

/* Memory that holds machine code. */
typedef struct strip_mapping {
  void *memory;
  size_t size;
} strip_mapping;

typedef struct strip_stage {
  int64_t count, strip; /* elements of the index space and of one strip */
  uint32_t num_slots, num_fills, num_operations, num_moving;
  strip_slot *slots;
  uint32_t *moving;            /* slots that move */
  strip_operation *fills;      /* once a thread */
  strip_operation *operations; /* each strip */
  size_t file_bytes;           /* of one thread: the pointers, then the registers */
  size_t bytes_per_element;    /* read, written and worked on: to choose the number of threads */
  bool streams;                /* a slot does */
} strip_stage;

struct trm_strip_code {
  const trm_vector_ops *ops;
  uint32_t num_stages;
  strip_stage *stages;                /* in order of running */
  trm_generated_fn only;              /* all that the code does; NULL: it does more */
  size_t temporary_bytes, file_bytes; /* the largest stage's */
  int max_threads;
  uint32_t num_operands, num_results;
  size_t known_bytes;          /* of their addresses, in whole cache lines */
  uint32_t *in_place_operands; /* by result */
  uint32_t num_mappings;
  strip_mapping *mappings;
};

typedef struct strip_request {
  const trm_computation *computation;
  bool is_function; /* parameters and results are arrays of any length instead of scalars */
  /* NULL, or by result: add, maximum or minimum where the result is 64 (of the extremes 32) running
   * results over the elements (SUM_INTO of host/ops/generate/nodes.def), else TRM_NUM_OPCODES. Then
   * the code is one stage of one generated operation, or it is not supported. */
  const trm_opcode *running;
  /* With `running`. By result: whether it is written past the caches. By parameter: how many bytes
   * behind those that are read others are brought to the second cache; 0: none. */
  const bool *streams;
  const uint32_t *ahead;
  trm_half_overflow half_overflow;
  bool casts_wrap;
} strip_request;
trm_status trm_strip_compile_any(const strip_request *request, trm_arena *arena,
                                 trm_strip_code **out_code, bool *out_supported, trm_error *error);

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_STRIP_CODE_H_ */
