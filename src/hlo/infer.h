/* What the files of shape inference share (infer.c, infer_elementwise.c, infer_data.c,
 * infer_index.c, infer_reduce.c, infer_linear.c, infer_control.c). Each family's function returns
 * TRM_OK with *out_shape set, or says what is wrong; a message starts with the opcode. */
#ifndef TREMULA_HLO_INFER_H_
#define TREMULA_HLO_INFER_H_

#include "hlo/hlo.h"

typedef struct trm_inference {
  trm_module *module;
  const trm_computation *computation;
  const trm_instruction *instruction;
  trm_shape *out_shape;
  trm_error *error;
  char text[4][256]; /* shapes in messages */
  unsigned next_text;
} trm_inference;

/* Fails about the instruction in hand. */
#define BAD(c, ...) return trm_infer_fail((c), TRM_INVALID_ARGUMENT, __VA_ARGS__)
#define CHECK(c, condition, ...)           \
  do {                                     \
    if (!(condition)) BAD(c, __VA_ARGS__); \
  } while (0)

trm_status trm_infer_fail(trm_inference *c, trm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

static inline const trm_shape *trm_infer_operand(const trm_inference *c, uint32_t i) {
  return &c->computation->instructions[c->instruction->operands[i]].shape;
}
/* A shape for a message; four may be in use at once. */
const char *trm_infer_text(trm_inference *c, const trm_shape *shape);

/* Results. */
trm_status trm_infer_give(trm_inference *c, trm_dtype dtype, int32_t rank, const int64_t *dims);
trm_status trm_infer_give_same(trm_inference *c, const trm_shape *shape);
trm_status trm_infer_give_tuple(trm_inference *c, int32_t count, const trm_shape *elements);
/* The shape that the instruction states, which must be a sound array. */
trm_status trm_infer_give_stated(trm_inference *c);

/* Checks. */
trm_status trm_infer_check_arrays(trm_inference *c);
trm_status trm_infer_check_operands(trm_inference *c, uint32_t at_least);
trm_status trm_infer_check_distinct(trm_inference *c, const char *what, const trm_dims *dims,
                                    int64_t bound);
bool trm_infer_contains(const trm_dims *dims, int64_t value);
/* The computation called at `slot`; fails when there is none. */
trm_status trm_infer_called(trm_inference *c, uint32_t slot, const trm_computation **out_called);
const trm_shape *trm_infer_root(const trm_computation *computation);
/* Parameter i, or NULL. */
const trm_shape *trm_infer_parameter(const trm_computation *computation, uint32_t i);
/* A computation over scalars: `count` parameters of the types, cyclically. */
trm_status trm_infer_check_scalar_parameters(trm_inference *c, const trm_computation *called,
                                             const trm_dtype *types, uint32_t num_types,
                                             uint32_t count);
/* ... and one result of each type: a scalar, or a tuple of them. */
trm_status trm_infer_check_scalar_results(trm_inference *c, const trm_computation *called,
                                          const trm_dtype *types, uint32_t num_types);
/* The computation of a reduction, of two scalars of each type. `out_packed`: it gives its one
 * result in a tuple, and so does the reduction. */
trm_status trm_infer_check_combiner(trm_inference *c, const trm_dtype *types, uint32_t count,
                                    bool *out_packed);
/* The sizes that a window's positions have over `dims`. */
trm_status trm_infer_window(trm_inference *c, const trm_window *window, int32_t rank,
                            const int64_t *dims, int64_t *out_dims);

bool trm_dtype_is_floating(trm_dtype dtype);
bool trm_dtype_is_complex(trm_dtype dtype);
bool trm_dtype_is_integral(trm_dtype dtype); /* not pred */
bool trm_dtype_is_unsigned(trm_dtype dtype);

trm_status trm_infer_elementwise(trm_inference *c);
trm_status trm_infer_data(trm_inference *c);
trm_status trm_infer_gather(trm_inference *c);
trm_status trm_infer_scatter(trm_inference *c);
trm_status trm_infer_reduction(trm_inference *c);
trm_status trm_infer_linear(trm_inference *c);
trm_status trm_infer_control(trm_inference *c);

#endif /* TREMULA_HLO_INFER_H_ */
