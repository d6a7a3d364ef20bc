/* Owns: fast kernels of elementwise instructions on complex numbers: loops for frequent opcodes,
 * the reference's function for the others, on as many threads as the work is worth. All compute in
 * double and round once, as the reference kernel does. */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "host/ops/reference.h"
#include "host/ops/threads.h"

typedef struct complex_state complex_state;
typedef void (*loop)(const complex_state *state, const trm_kernel_call *call, int64_t begin,
                     int64_t end);

struct complex_state {
  loop run;
  trm_scalar_op op;
  trm_dtype types[3], result_type;
  uint32_t num_operands;
  int64_t steps[3];    /* 0: a scalar, which all elements use */
  int64_t count, cost; /* cost: of an element, in bytes */
};

static inline double complex at_f32(const void *array, int64_t i) {
  const float *const x = (const float *)array + 2 * i;
  return CMPLX((double)x[0], (double)x[1]);
}
static inline double complex at_f64(const void *array, int64_t i) {
  const double *const x = (const double *)array + 2 * i;
  return CMPLX(x[0], x[1]);
}

/* A loop that computes z, or a number x, from the operands a and b. */
#define LOOP(name, R, suffix, second, expression)                                      \
  static void name##_##suffix(const complex_state *state, const trm_kernel_call *call, \
                              int64_t begin, int64_t end) {                            \
    R *const out = call->results[0];                                                   \
    const void *const left = call->operands[0], *const right = call->operands[second]; \
    for (int64_t i = begin; i < end; ++i) {                                            \
      const double complex a = at_##suffix(left, i * state->steps[0]);                 \
      const double complex b = at_##suffix(right, i * state->steps[second]);           \
      const double complex z = (expression);                                           \
      (void)b;                                                                         \
      out[2 * i] = (R)creal(z);                                                        \
      out[2 * i + 1] = (R)cimag(z);                                                    \
    }                                                                                  \
  }
#define REAL_LOOP(name, R, suffix, expression)                                         \
  static void name##_##suffix(const complex_state *state, const trm_kernel_call *call, \
                              int64_t begin, int64_t end) {                            \
    R *const out = call->results[0];                                                   \
    for (int64_t i = begin; i < end; ++i) {                                            \
      const double complex a = at_##suffix(call->operands[0], i * state->steps[0]);    \
      out[i] = (R)(expression);                                                        \
    }                                                                                  \
  }
/* Joins two parts; `imaginary` reads the second operand at the index `j`. */
#define JOIN_LOOP(name, R, suffix, second, imaginary)                                  \
  static void name##_##suffix(const complex_state *state, const trm_kernel_call *call, \
                              int64_t begin, int64_t end) {                            \
    R *const out = call->results[0];                                                   \
    const R *const left = call->operands[0], *const right = call->operands[second];    \
    (void)right;                                                                       \
    for (int64_t i = begin; i < end; ++i) {                                            \
      const R im = (imaginary); /* read first: the result may be in its place */       \
      const R re = left[i * state->steps[0]];                                          \
      out[2 * i] = re;                                                                 \
      out[2 * i + 1] = im;                                                             \
    }                                                                                  \
  }

/* exp for operands whose result neither overflows nor needs infinities. */
static inline double complex exponential(double complex a) {
  const double x = creal(a), y = cimag(a);
  if (!(fabs(x) < 700.0) || !(fabs(y) < INFINITY) || y == 0.0) return cexp(a);
  const double size = exp(x);
  return CMPLX(size * cos(y), size * sin(y));
}
static inline double length_f32(double complex a) {
  const double x = creal(a), y = cimag(a), squares = x * x + y * y;
  return squares < INFINITY ? sqrt(squares) : cabs(a);
}
static inline double length_f64(double complex a) { return cabs(a); }

#define LOOPS(R, suffix)                                    \
  LOOP(add, R, suffix, 1, a + b)                            \
  LOOP(subtract, R, suffix, 1, a - b)                       \
  LOOP(multiply, R, suffix, 1, a *b)                        \
  LOOP(divide, R, suffix, 1, a / b)                         \
  LOOP(negate, R, suffix, 0, -a)                            \
  LOOP(exponentiate, R, suffix, 0, exponential(a))          \
  REAL_LOOP(size, R, suffix, length_##suffix(a))            \
  REAL_LOOP(real, R, suffix, creal(a))                      \
  REAL_LOOP(imaginary, R, suffix, cimag(a))                 \
  JOIN_LOOP(join, R, suffix, 1, right[i * state->steps[1]]) \
  JOIN_LOOP(widen, R, suffix, 0, 0)
LOOPS(float, f32)
LOOPS(double, f64)

static void any_other(const complex_state *state, const trm_kernel_call *call, int64_t begin,
                      int64_t end) {
  trm_value operands[3];
  for (int64_t i = begin; i < end; ++i) {
    for (uint32_t k = 0; k < state->num_operands; ++k) {
      operands[k] = trm_value_load(state->types[k], call->operands[k], i * state->steps[k]);
    }
    trm_value_store(state->result_type, call->results[0], i,
                    trm_scalar_op_apply(&state->op, operands));
  }
}

/* Copies bytes, so that a NaN keeps its bits. */
static void choose(const complex_state *state, const trm_kernel_call *call, int64_t begin,
                   int64_t end) {
  const size_t size = trm_dtype_size(state->result_type);
  const uint8_t *const chosen = call->operands[0];
  for (int64_t i = begin; i < end; ++i) {
    const int k = chosen[i * state->steps[0]] ? 1 : 2;
    trm_copy_element(size, call->results[0], i, call->operands[k], i * state->steps[k]);
  }
}

static bool is_complex(trm_dtype dtype) { return dtype == TRM_C64 || dtype == TRM_C128; }

/* The loop for complex operands and results of one size. */
static loop find_loop(trm_opcode opcode, bool is_double, bool from_complex) {
#define EITHER(name) (is_double ? name##_f64 : name##_f32)
  switch (opcode) {
    case TRM_OP_ADD: return EITHER(add);
    case TRM_OP_SUBTRACT: return EITHER(subtract);
    case TRM_OP_MULTIPLY: return EITHER(multiply);
    case TRM_OP_DIVIDE: return EITHER(divide);
    case TRM_OP_NEGATE: return EITHER(negate);
    case TRM_OP_EXPONENTIAL: return EITHER(exponentiate);
    case TRM_OP_ABS: return EITHER(size);
    case TRM_OP_REAL: return EITHER(real);
    case TRM_OP_IMAG: return EITHER(imaginary);
    case TRM_OP_COMPLEX: return EITHER(join);
    case TRM_OP_CONVERT: return from_complex ? any_other : EITHER(widen);
    case TRM_OP_SELECT: return choose;
    default: return any_other;
  }
#undef EITHER
}

typedef struct complex_run {
  const complex_state *state;
  const trm_kernel_call *call;
} complex_run;

static void run_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const complex_run *run = context;
  run->state->run(run->state, run->call, begin, end);
}

static trm_status run_complex(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  (void)error;
  const complex_state *state = kernel->state;
  const complex_run run = {state, call};
  trm_parallel_ranges(trm_threads_for((size_t)(state->count * state->cost)), state->count,
                      run_range, &run);
  return TRM_OK;
}

trm_status trm_fast_complex_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                   bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_dtype result = instruction->shape.dtype;
  trm_kernel reference;
  *out_supported = false;
  bool any = is_complex(result);
  for (uint32_t k = 0; k < instruction->num_operands && k < 3; ++k) {
    any |= is_complex(trm_operand_shape(request, k)->dtype);
  }
  if (!any || instruction->num_operands > 3 || !trm_complex_op_exists(instruction->opcode) ||
      instruction->opcode == TRM_OP_BITCAST_CONVERT || instruction->opcode == TRM_OP_MAP) {
    return TRM_OK;
  }
  /* The reference kernel checks the shapes, and states what may be written in place. */
  TRY(trm_reference_elementwise_create(request, &reference, out_supported, error));
  complex_state *state = ARENA_NEW(request->arena, complex_state, 1);
  CHECK_MEMORY(state, "an elementwise kernel");
  TRY(trm_scalar_op_create(request->module, request->computation, instruction, &state->op, error));
  state->num_operands = instruction->num_operands;
  state->result_type = result;
  state->count = trm_shape_count(&instruction->shape);
  bool are_equal = true; /* all numbers, real or complex, have one size */
  const bool is_double = result == TRM_C128 || result == TRM_F64;
  for (uint32_t k = 0; k < state->num_operands; ++k) {
    const trm_shape *shape = trm_operand_shape(request, k);
    state->types[k] = shape->dtype;
    state->steps[k] = shape->rank != 0;
    are_equal &= is_double ? shape->dtype == TRM_C128 || shape->dtype == TRM_F64
                           : shape->dtype == TRM_C64 || shape->dtype == TRM_F32;
  }
  state->run = are_equal || instruction->opcode == TRM_OP_SELECT
                   ? find_loop(instruction->opcode, is_double, is_complex(state->types[0]))
                   : any_other;
  state->cost = state->run == any_other || instruction->opcode == TRM_OP_EXPONENTIAL ? 512 : 32;
  *out_kernel = (trm_kernel){.name = "fast.complex",
                             .in_place_operands = reference.in_place_operands,
                             .state = state,
                             .run = run_complex};
  return TRM_OK;
}
