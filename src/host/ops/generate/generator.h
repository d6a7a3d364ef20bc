/* Generates a loop over the elements of arrays in machine code, from the list of what it computes
 * for one element: values stay in registers, 16 lanes at a time with AVX-512, 8 with AVX2.
 *
 * A generator collects nodes in the order of computing. A node's value is a vector of float32 or of
 * 32-bit integers, or a mask of lanes; operands name nodes by number. */
#ifndef TREMULA_HOST_OPS_GENERATE_GENERATOR_H_
#define TREMULA_HOST_OPS_GENERATE_GENERATOR_H_

#include "host/ops/generate/machine_code.h"

typedef uint32_t trm_node;
enum { TRM_NO_NODE = UINT32_MAX };

typedef enum trm_node_kind {
#define NODE(kind, ...) NODE_##kind,
#include "host/ops/generate/nodes.def"
#undef NODE
  NUM_NODE_KINDS
} trm_node_kind;

typedef struct trm_node_data {
  trm_node_kind kind;
  trm_node operands[3];
  uint32_t number;   /* slot, bits of a constant, immediate of the instruction */
  bool is_invariant; /* the same for all elements: computed before the loop */
  uint8_t iteration; /* of those that are scheduled together (schedule.c) */
} trm_node_data;

typedef struct trm_generator {
  bool is_wide; /* for AVX-512, else for AVX2; set it before the first node is added */
  VECTOR(trm_node_data) nodes;
  bool failed; /* out of memory */
} trm_generator;

/* Adds a node; operands that its kind has not are not looked at. */
trm_node trm_generate(trm_generator *g, trm_node_kind kind, trm_node a, trm_node b, trm_node c,
                      uint32_t number);
trm_node trm_generate_constant(trm_generator *g, float value);
/* A kind that AVX2 has no instruction for, as nodes of other kinds; false where it has one. Called
 * by trm_generate. */
bool trm_generate_narrow(trm_generator *g, trm_node_kind kind, const trm_node *operands,
                         uint32_t number, trm_node *out);

/* Compositions. As the loops of vector.c do it, to the bit. */
trm_node trm_generate_divide(trm_generator *g, trm_node x, trm_node y);
trm_node trm_generate_maximum(trm_generator *g, trm_node x, trm_node y);
trm_node trm_generate_minimum(trm_generator *g, trm_node x, trm_node y);
trm_node trm_generate_clamp(trm_generator *g, trm_node low, trm_node x, trm_node high);
trm_node trm_generate_sign(trm_generator *g, trm_node x);
trm_node trm_generate_round(trm_generator *g, trm_node x);
trm_node trm_generate_rsqrt(trm_generator *g, trm_node x);
trm_node trm_generate_is_finite(trm_generator *g, trm_node x);
/* A float32 as int32: the nearest where it is beyond, 0 for a NaN. */
trm_node trm_generate_saturated(trm_generator *g, trm_node x);
trm_node trm_generate_abs(trm_generator *g, trm_node x);
trm_node trm_generate_negate(trm_generator *g, trm_node x);
/* vector_math_single.inc.h */
trm_node trm_generate_exp(trm_generator *g, trm_node x);
trm_node trm_generate_expm1(trm_generator *g, trm_node x);
trm_node trm_generate_log(trm_generator *g, trm_node x);
trm_node trm_generate_log1p(trm_generator *g, trm_node x);
trm_node trm_generate_tanh(trm_generator *g, trm_node x);
trm_node trm_generate_logistic(trm_generator *g, trm_node x);
trm_node trm_generate_erf(trm_generator *g, trm_node x);

/* The function that a generator's nodes become: reads and writes elements [0, n) of the arrays that
 * slots[] points to. With running results, n is a positive multiple of 64. */
typedef void (*trm_generated_fn)(void *const *slots, size_t n);

/* Writes the loop to `code`, which is empty. False where the nodes need more registers than there
 * are, or memory has run out; `code` is of no use then. `schedules`: nodes of several iterations
 * may be put in a better order, which takes longer and changes nothing of the above. */
bool trm_generator_finish(const trm_generator *g, bool schedules, trm_machine_code *code);
void trm_generator_free(trm_generator *g);

#endif /* TREMULA_HOST_OPS_GENERATE_GENERATOR_H_ */
