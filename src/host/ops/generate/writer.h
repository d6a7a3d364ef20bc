/* The instructions of a generated loop, node by node, and which register holds which value.
 *
 * There are two sets of instructions. AVX-512, "wide", has 16 lanes, 32 vectors, registers for
 * masks, and constants that are broadcast while they are read. AVX2 with FMA and F16C has 8 lanes
 * and 16 vectors; its masks are vectors whose lanes are all ones or zeros, and running results stay
 * in memory. */
#ifndef TREMULA_HOST_OPS_GENERATE_WRITER_H_
#define TREMULA_HOST_OPS_GENERATE_WRITER_H_

#include "host/ops/generate/generator.h"

typedef enum trm_node_form {
  FORM_CONSTANT,
  FORM_LOAD,
  FORM_STORE,
  FORM_STORE_MASK,
  FORM_STORE_WORDS,
  FORM_STREAM_HALF,
  FORM_PREFETCH,
  FORM_INTO,
  FORM_BINARY,
  FORM_SWAPPED,
  FORM_UNARY,
  FORM_SHIFT,
  FORM_FMA,
  FORM_ROUND_HALF,
  FORM_COPY_SIGN,
  FORM_SELECT,
  FORM_DIVIDE_WHERE,
  FORM_MASKS
} trm_node_form;

/* What nodes.def says of a kind. */
typedef struct trm_node_traits {
  uint8_t operands;
  enum { RESULT_VECTOR, RESULT_MASK, RESULT_NONE } result;
  trm_node_form form;
  uint8_t map, prefix;
  uint16_t opcode;
  int immediate;
} trm_node_traits;
extern const trm_node_traits trm_node_kinds[NUM_NODE_KINDS];

/* [rdi + 8 slot] are the pointers, rsi the number of elements, rax the first of this iteration, rcx
 * for passing use; the other general registers hold pointers to arrays. */
enum { TRM_NUM_POINTERS = 11 };
extern const uint8_t trm_pointers[TRM_NUM_POINTERS];

typedef struct trm_writer {
  const trm_generator *g;
  trm_machine_code *code;
  uint32_t num_plain;  /* nodes; behind them stand those of several iterations together */
  uint32_t iterations; /* how many; 0: there are none */
  uint32_t lanes;      /* of a vector */
  trm_node *last;      /* by node: the last node that reads it; itself: none does */
  uint8_t *place;      /* by node: its register */
  uint8_t *nans;       /* by node, of running extremes: the mask of the lanes that had NaNs */
  bool *is_wanted;     /* by node */
  uint32_t slots[TRM_NUM_POINTERS], num_slots;
  uint32_t free_vectors, free_masks; /* bits by number */
  uint32_t temporaries;              /* vectors that hold a constant for one instruction */
  uint32_t running;                  /* vectors of running results; 0: the program has none */
  uint32_t kept_vectors, kept_masks; /* free ones after what is invariant was computed */
  uint32_t iteration;                /* of several that follow each other in the code */
  uint32_t streamed;                 /* bits by place in `slots` */
  bool streams;                      /* in the loop at hand */
  bool is_tail;                      /* wide: the lanes of mask 1; else one element */
  bool failed;
} trm_writer;

enum { TRM_TAIL_MASK = 1 };

/* How many iterations of the loop to schedule together; 0: none. */
uint32_t trm_schedule_iterations(const trm_generator *g);
/* Copies the nodes, and appends those of `iterations` iterations in an order in which more of them
 * can be computed at the same time: `reserved` registers are for each chain that has begun. False
 * where nothing is gained, or memory has run out. Free *out in any case. */
enum { TRM_LEAST_RESERVED = 3, TRM_MOST_RESERVED = 6 };
bool trm_schedule(const trm_generator *g, uint32_t iterations, uint32_t reserved,
                  trm_generator *out);

/* Vectors of the running results of a node of the kind. */
uint32_t trm_writer_num_running(const trm_writer *w, trm_node_kind kind);
/* Takes the lowest of the free registers; w->failed where there is none. */
uint32_t trm_writer_take(trm_writer *w, uint32_t *free);
/* The instructions of a node, with those that bring its operands to registers. */
void trm_write_node(trm_writer *w, trm_node node);
/* Begins all running results: sums with 0, extremes with the infinity that any number replaces. */
void trm_write_running_begin(trm_writer *w);
/* Leaves them where their slots point. */
void trm_write_running_end(trm_writer *w);

#endif /* TREMULA_HOST_OPS_GENERATE_WRITER_H_ */
