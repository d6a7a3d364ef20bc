/* Owns: the kernel of LAPACK's routines in JAX's form, "lapack_spotrf_ffi" and the like: a letter
 * for the type (s, d, c, z), the routine, and its options in the configuration, as
 * {uplo = 76 : ui8}, where 76 is 'L'. A LAPACK that is found at run time computes them, one matrix
 * of a batch after the other, on as many threads as it takes itself. It has columns where HLO has
 * rows, so that matrices are transposed on the way in and out. */
#include "host/ops/algebra/lapack.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/ops/algebra/lapack_library.h"
#include "host/ops/reference.h"

/* Whole numbers are int64_t here. A LAPACK whose numbers have 32 bits reads their low half. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half comes first");

enum { MAX_ARRAYS = 6, CODES = 128 };

/* A row says which arrays a routine has and how it is called.
 *
 * An array, "tmn01": its type, its dimensions, the operand that it comes from and the result that
 * it becomes, '-' for none. Types: t of the matrix; r the same, real; i a whole number; p LAPACK's
 * pairs of real columns, complex in HLO. Dimensions: m, n, p, q, c from the shapes; k the lesser of
 * m and n; d is n - 1; u and v are what a singular value's vectors have room for.
 *
 * The call, one letter an argument: 0 to 5 an array; + makes it begin with its second element; L
 * the leading dimension of the array before; m n p q c sizes; E and O one, as whole number and as
 * element; U S T D J l r the letters of options; N the letter itself; W w the work and its size;
 * R Q the real work and its size, of complex matrices only; I i the same of whole numbers; B
 * booleans; Z nothing; x an info that HLO does not have. */
typedef struct routine {
  trm_call_id call;
  const char *name;
  const char *arrays[2], *arguments[2]; /* of real and complex matrices */
} routine;

#define SAME(arrays, arguments) \
  {arrays, arrays}, { arguments, arguments }
static const routine routines[] = {
    {TRM_CALL_LAPACK_POTRF, "potrf", SAME("tnn00 i-1", "Un0L1")},
    {TRM_CALL_LAPACK_GETRF, "getrf", SAME("tmn00 ik-1 i-2", "mn0L12")},
    {TRM_CALL_LAPACK_TRSM, "trsm", SAME("tnn0- tpq10", "SUTDpqO0L1L")},
    {TRM_CALL_LAPACK_GEQRF, "geqrf", SAME("tmn00 tk-1", "mn0L1Wwx")},
    {TRM_CALL_LAPACK_ORGQR, "orgqr", SAME("tmn00 tc1-", "mnc0L1Wwx")},
    {TRM_CALL_LAPACK_UNGQR, "ungqr", SAME("tmn00 tc1-", "mnc0L1Wwx")},
    {TRM_CALL_LAPACK_GESDD, "gesdd", SAME("tmn00 rk-1 tmu-2 tvn-3 i-4", "Jmn0L12L3LWwRI4")},
    {TRM_CALL_LAPACK_SYEVD, "syevd", SAME("tnn00 rn-1 i-2", "JUn0L1WwRQIi2")},
    {TRM_CALL_LAPACK_HEEVD, "heevd", SAME("tnn00 rn-1 i-2", "JUn0L1WwRQIi2")},
    {TRM_CALL_LAPACK_GEQP3, "geqp3", SAME("tmn00 in11 tk-2", "mn0L12WwRx")},
    {TRM_CALL_LAPACK_GEHRD, "gehrd", SAME("tnn00 td-1 i-2", "nEn0L1Ww2")},
    {TRM_CALL_LAPACK_SYTRD, "sytrd", SAME("tnn00 rn-1 rd-2 td-3 i-4", "Un0L123Ww4")},
    {TRM_CALL_LAPACK_HETRD, "hetrd", SAME("tnn00 rn-1 rd-2 td-3 i-4", "Un0L123Ww4")},
    {TRM_CALL_LAPACK_GEES,
     "gees",
     {"tnn00 tnn-1 tn-2 tn-3 i-4 i-5", "tnn00 tnn-1 tn-2 i-3 i-4"},
     {"JNZn0L4231LWwB5", "JNZn0L321LWwRB4"}},
    {TRM_CALL_LAPACK_GEEV,
     "geev",
     {"tnn0- tn-0 tn-1 pnn-2 pnn-3 i-4", "tnn0- tn-0 tnn-1 tnn-2 i-3"},
     {"lrn0L123L4LWw5", "lrn0L12L3LWwR4"}},
    {TRM_CALL_LAPACK_GTSV, "gtsv", SAME("tn00 tn11 tn22 tnq33 i-4", "nq0+123L4")},
};

typedef struct array {
  char type;
  int from, to;          /* an operand, a result; -1: none */
  int64_t rows, columns; /* of one matrix; a vector has one column */
  size_t size, offset;   /* of an element in LAPACK; of the array in the scratch */
} array;

typedef struct lapack_state {
  const routine *routine;
  const char *arguments;
  trm_lapack_routine code;
  trm_dtype dtype;
  bool is_complex;
  int num_arrays;
  array arrays[MAX_ARRAYS];
  int64_t batch, sizes[CODES]; /* by code; -1: not known */
  char options[CODES];
  int64_t work, real_work, whole_work;                /* elements */
  size_t work_at, real_work_at, whole_work_at, bytes; /* in the scratch */
} lapack_state;

/* ---- Shapes --------------------------------------------------------------------------------- */

uint8_t trm_lapack_option(const char *config, const char *name) {
  const char *at = config == NULL ? NULL : strstr(config, name);
  if (at == NULL) return 0;
  at += strlen(name);
  while (*at == ' ' || *at == '=' || *at == '"' || *at == ':') ++at;
  return (uint8_t)strtol(at, NULL, 10);
}

static void read_options(lapack_state *s, const char *config) {
  static const struct {
    char code;
    const char *name;
  } options[] = {{'U', "uplo"}, {'S', "side"},         {'T', "trans_x"},      {'D', "diag"},
                 {'J', "mode"}, {'l', "compute_left"}, {'r', "compute_right"}};
  for (size_t i = 0; i < sizeof options / sizeof *options; ++i) {
    s->options[(int)options[i].code] = (char)trm_lapack_option(config, options[i].name);
  }
  if (s->options['U'] == 0) s->options['U'] = 'L';
  s->options['N'] = 'N';
}

static trm_dtype real_of(trm_dtype dtype) {
  return dtype == TRM_C64 ? TRM_F32 : dtype == TRM_C128 ? TRM_F64 : dtype;
}

/* The type in HLO. */
static trm_dtype type_of(const lapack_state *s, char type) {
  if (type == 'i') return TRM_S32;
  if (type == 'r') return real_of(s->dtype);
  if (type == 'p') return s->dtype == TRM_F64 ? TRM_C128 : TRM_C64;
  return s->dtype;
}

/* Whether a shape is [batch, dims]. Sizes that are not known yet become those of the shape. */
static bool shape_fits(lapack_state *s, const trm_shape *shape, char type, const char *dims,
                       int rank) {
  if (shape == NULL || shape->dtype != type_of(s, type) || shape->rank < rank) return false;
  int64_t batch = 1;
  for (int32_t d = 0; d < shape->rank - rank; ++d) batch *= shape->dims[d];
  if (s->batch < 0) s->batch = batch;
  for (int d = 0; d < rank; ++d) {
    int64_t *const size = &s->sizes[(int)dims[d]];
    const int64_t given = shape->dims[shape->rank - rank + d];
    if (*size < 0) *size = given;
    if (*size != given) return false;
  }
  return batch == s->batch;
}

/* Sizes that follow from those of the operands; false where they do not fit the routine. */
static bool derive_sizes(lapack_state *s) {
  int64_t *const size = s->sizes, n = size['n'];
  if (size['m'] < 0) size['m'] = n;
  size['k'] = size['m'] < n ? size['m'] : n;
  size['d'] = n - 1;
  switch (s->routine->call) {
    case TRM_CALL_LAPACK_TRSM: return size[s->options['S'] == 'L' ? 'p' : 'q'] == n;
    case TRM_CALL_LAPACK_ORGQR:
    case TRM_CALL_LAPACK_UNGQR: return size['c'] <= n && n <= size['m'];
    case TRM_CALL_LAPACK_GEHRD:
    case TRM_CALL_LAPACK_SYTRD:
    case TRM_CALL_LAPACK_HETRD: return n > 0;
    default: return true;
  }
}

/* The shapes of the results say how many singular vectors there is room for. */
static bool vectors_fit(lapack_state *s) {
  const int64_t *const size = s->sizes;
  if (s->routine->call != TRM_CALL_LAPACK_GESDD) return true;
  const bool all = size['u'] == size['m'] && size['v'] == size['n'];
  if (s->options['J'] != 'N') s->options['J'] = all ? 'A' : 'S';
  return all || (size['u'] == size['k'] && size['v'] == size['k']);
}

/* Reads the row's arrays, those of operands before those of results. */
static bool read_arrays(const trm_kernel_request *request, lapack_state *s, const char *text) {
  const trm_instruction *instruction = request->instruction;
  uint32_t operands = 0;
  int32_t results = 0;
  memset(s->sizes, -1, sizeof s->sizes);
  s->batch = -1;
  for (int results_too = 0; results_too < 2; ++results_too) {
    const char *at = text;
    s->num_arrays = 0;
    while (*at != '\0') {
      const int length = (int)strcspn(at, " "), rank = length - 3;
      array *const a = &s->arrays[s->num_arrays++];
      a->type = at[0];
      a->from = at[length - 2] == '-' ? -1 : at[length - 2] - '0';
      a->to = at[length - 1] == '-' ? -1 : at[length - 1] - '0';
      if (!results_too && a->from >= 0) {
        ++operands;
        if ((uint32_t)a->from >= instruction->num_operands ||
            !shape_fits(s, trm_operand_shape(request, (uint32_t)a->from), a->type, at + 1, rank)) {
          return false;
        }
      } else if (results_too && a->to >= 0) {
        const trm_shape *shape = trm_shape_leaf(&instruction->shape, a->to);
        if (!shape_fits(s, shape, a->type, at + 1, rank)) return false;
        ++results;
      }
      a->rows = rank < 1 ? 1 : s->sizes[(int)at[1]];
      a->columns = rank < 2 ? 1 : s->sizes[(int)at[2]];
      at += length + (at[length] == ' ');
    }
    if (!results_too && !derive_sizes(s)) return false;
  }
  return vectors_fit(s) && operands == instruction->num_operands &&
         results == trm_shape_num_leaves(&instruction->shape);
}

static trm_status read_call(const trm_kernel_request *request, lapack_state *s, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  for (size_t i = 0; i < sizeof routines / sizeof *routines; ++i) {
    if (routines[i].call == instruction->call_id) s->routine = &routines[i];
  }
  if (s->routine == NULL) {
    return trm_reference_refuse(
        request,
        "of LAPACK's routines it knows potrf, getrf, trsm, geqrf, "
        "orgqr, ungqr, gesdd, syevd, heevd, geqp3, gehrd, sytrd, hetrd, gees, "
        "geev and gtsv, as lapack_spotrf_ffi",
        error);
  }
  if (instruction->num_operands == 0)
    return trm_reference_refuse(request, "it takes matrices", error);
  s->dtype = trm_operand_shape(request, 0)->dtype;
  s->is_complex = s->dtype == TRM_C64 || s->dtype == TRM_C128;
  if (!s->is_complex && s->dtype != TRM_F32 && s->dtype != TRM_F64) {
    return trm_reference_refuse(request, "it takes matrices of floats", error);
  }
  s->arguments = s->routine->arguments[s->is_complex];
  read_options(s, instruction->backend_config);
  if (!read_arrays(request, s, s->routine->arrays[s->is_complex])) {
    return trm_reference_refuse(request, "its shapes do not fit together", error);
  }
  return TRM_OK;
}

trm_status trm_lapack_check(const trm_kernel_request *request, trm_error *error) {
  lapack_state state = {0};
  return read_call(request, &state, error);
}

/* ---- The call ------------------------------------------------------------------------------- */

/* What the arguments of a call point to. */
typedef struct frame {
  int64_t numbers[TRM_LAPACK_ARGUMENTS];
  union {
    float f32[2];
    double f64[2];
  } one;
  int64_t info;
  void *arguments[TRM_LAPACK_ARGUMENTS];
  int count;
} frame;

static int64_t number_of(const lapack_state *s, char code, const array *last) {
  switch (code) {
    case 'L': return last->rows > 1 ? last->rows : 1;
    case 'E': return 1;
    case 'w': return s->work;
    case 'Q': return s->real_work;
    case 'i': return s->whole_work;
    default: return s->sizes[(int)code];
  }
}

/* Calls the routine with arrays in the scratch. */
static void call_routine(const lapack_state *s, char *scratch) {
  frame f = {.count = 0};
  const array *last = NULL;
  if (real_of(s->dtype) == TRM_F32) f.one.f32[0] = 1;
  else f.one.f64[0] = 1;
  for (const char *code = s->arguments; *code != '\0'; ++code) {
    void **const argument = &f.arguments[f.count];
    if (*code == '+') {
      f.arguments[f.count - 1] = (char *)f.arguments[f.count - 1] + last->size;
      continue;
    }
    if ((*code == 'R' || *code == 'Q') && !s->is_complex) continue;
    if (*code >= '0' && *code <= '9') {
      last = &s->arrays[*code - '0'];
      *argument = scratch + last->offset;
    } else if (strchr("USTDJlrN", *code) != NULL) {
      *argument = (void *)(uintptr_t)&s->options[(int)*code];
    } else if (*code == 'W') {
      *argument = scratch + s->work_at;
    } else if (*code == 'R') {
      *argument = scratch + s->real_work_at;
    } else if (*code == 'I' || *code == 'B') {
      *argument = scratch + s->whole_work_at;
    } else if (*code == 'O') {
      *argument = &f.one;
    } else if (*code == 'x') {
      *argument = &f.info;
    } else if (*code != 'Z') {
      f.numbers[f.count] = number_of(s, *code, last);
      *argument = &f.numbers[f.count];
    }
    ++f.count;
  }
  trm_lapack_call(&s->code, f.arguments, f.count);
}

/* ---- Arrays --------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void transpose(const char *from, int64_t rows,
                                                            int64_t columns, size_t size,
                                                            char *to) {
  enum { STEP = 16 };
  for (int64_t i0 = 0; i0 < rows; i0 += STEP) {
    for (int64_t j0 = 0; j0 < columns; j0 += STEP) {
      for (int64_t i = i0; i < rows && i < i0 + STEP; ++i) {
        for (int64_t j = j0; j < columns && j < j0 + STEP; ++j) {
          trm_copy_element(size, to, j * rows + i, from, i * columns + j);
        }
      }
    }
  }
}

static void transpose_sized(const char *from, int64_t rows, int64_t columns, size_t size,
                            char *to) {
  if (size == 4) transpose(from, rows, columns, 4, to);
  else if (size == 8) transpose(from, rows, columns, 8, to);
  else transpose(from, rows, columns, 16, to);
}

static void load(const lapack_state *s, const array *a, const char *from, char *to) {
  const int64_t count = a->rows * a->columns;
  if (a->type != 'i') {
    transpose_sized(from, a->rows, a->columns, a->size, to);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t number = ((const int32_t *)(const void *)from)[i];
    if (s->code.is_wide) ((int64_t *)(void *)to)[i] = number;
    else ((int32_t *)(void *)to)[i] = number;
  }
}

/* Real columns of eigenvectors become complex: where the eigenvalue is complex, two columns are the
 * parts of a vector, and the next vector is its conjugate. `imag`: the eigenvalues' parts. */
#define STORE_PAIRS(T)                                                          \
  static void store_pairs_##T(int64_t n, const T *imag, const T *from, T *to) { \
    for (int64_t j = 0; j < n; ++j) {                                           \
      const bool is_pair = imag[j] != 0 && j + 1 < n;                           \
      for (int64_t i = 0; i < n; ++i) {                                         \
        T *const out = to + 2 * (i * n + j);                                    \
        out[0] = from[j * n + i];                                               \
        out[1] = is_pair ? from[(j + 1) * n + i] : 0;                           \
        if (is_pair) out[2] = out[0], out[3] = -out[1];                         \
      }                                                                         \
      j += is_pair;                                                             \
    }                                                                           \
  }
STORE_PAIRS(float)
STORE_PAIRS(double)

static void store(const lapack_state *s, const array *a, const char *scratch, char *to) {
  const int64_t count = a->rows * a->columns;
  const char *const from = scratch + a->offset;
  if (a->type == 'p') {
    const void *const imag = scratch + s->arrays[2].offset;
    if (a->size == 4) store_pairs_float(a->rows, imag, (const void *)from, (void *)to);
    else store_pairs_double(a->rows, imag, (const void *)from, (void *)to);
  } else if (a->type != 'i') {
    transpose_sized(from, a->columns, a->rows, a->size, to);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      ((int32_t *)(void *)to)[i] = s->code.is_wide
                                       ? (int32_t)((const int64_t *)(const void *)from)[i]
                                       : ((const int32_t *)(const void *)from)[i];
    }
  }
}

/* ---- The kernel ----------------------------------------------------------------------------- */

static trm_status run(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const lapack_state *s = kernel->state;
  char *const scratch = call->scratch;
  for (int64_t b = 0; b < s->batch; ++b) {
    for (int i = 0; i < s->num_arrays; ++i) {
      const array *a = &s->arrays[i];
      const int64_t count = a->rows * a->columns;
      if (a->from < 0) { /* LAPACK leaves vectors that nobody asks for */
        memset(scratch + a->offset, 0, (size_t)count * a->size);
        continue;
      }
      const size_t size = trm_dtype_size(type_of(s, a->type));
      load(s, a, (const char *)call->operands[a->from] + (size_t)(b * count) * size,
           scratch + a->offset);
    }
    call_routine(s, scratch);
    for (int i = 0; i < s->num_arrays; ++i) {
      const array *a = &s->arrays[i];
      if (a->to < 0) continue;
      const size_t size = trm_dtype_size(type_of(s, a->type));
      store(s, a, scratch,
            (char *)call->results[a->to] + (size_t)(b * a->rows * a->columns) * size);
    }
  }
  return TRM_OK;
}

static size_t reserve(lapack_state *s, int64_t count, size_t size) {
  const size_t at = s->bytes;
  s->bytes += ((size_t)count * size + 127) & ~(size_t)63; /* one element more than there are */
  return at;
}

/* Places arrays in the scratch. The routine itself says how much work it needs. */
static trm_status place_arrays(lapack_state *s, trm_error *error) {
  const size_t real = trm_dtype_size(real_of(s->dtype));
  const int64_t k = s->sizes['k'], m = s->sizes['m'], n = s->sizes['n'];
  for (int i = 0; i < s->num_arrays; ++i) {
    array *const a = &s->arrays[i];
    a->size = a->type == 'i'   ? (s->code.is_wide ? sizeof(int64_t) : sizeof(int32_t))
              : a->type == 'r' ? real
                               : trm_dtype_size(s->dtype);
    a->offset = reserve(s, a->rows * a->columns, a->size);
  }
  s->real_work = k * (5 * k + 7) + 2 * k * (m + n) + 8; /* no less than any of LAPACK's formulas */
  s->whole_work = 8 * k + 8;
  s->real_work_at = reserve(s, s->real_work, real);
  s->whole_work_at = reserve(s, s->whole_work, sizeof(int64_t));
  s->work_at = reserve(s, 1, trm_dtype_size(s->dtype));
  if (strchr(s->arguments, 'w') == NULL) return TRM_OK;
  char *const scratch = trm_allocate_aligned(s->bytes);
  CHECK_MEMORY(scratch, "a factorisation");
  memset(scratch, 0, s->bytes);
  s->work = -1;
  call_routine(s, scratch);
  const void *const answer = scratch + s->work_at;
  const double wanted =
      real == sizeof(float) ? (double)*(const float *)answer : *(const double *)answer;
  trm_free(scratch);
  s->work = (int64_t)(wanted * (1 + 0x1p-20)) + 1; /* a float32 may have rounded it down */
  s->work_at = reserve(s, s->work, trm_dtype_size(s->dtype));
  return TRM_OK;
}

trm_status trm_lapack_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                             bool *out_supported, trm_error *error) {
  lapack_state *state = ARENA_NEW(request->arena, lapack_state, 1);
  CHECK_MEMORY(state, "a factorisation");
  *out_supported = true;
  TRY(read_call(request, state, error));
  char name[16];
  const char letter = state->dtype == TRM_F32   ? 's'
                      : state->dtype == TRM_F64 ? 'd'
                      : state->dtype == TRM_C64 ? 'c'
                                                : 'z';
  snprintf(name, sizeof name, "%c%s", letter, state->routine->name);
  if (!trm_lapack_find(name, &state->code)) {
    char reason[256];
    snprintf(
        reason, sizeof reason,
        "no LAPACK with %s was found. Install SciPy (pip install scipy) or the system's LAPACK "
        "(apt-get install libopenblas0), or set TREMULA_LAPACK to a library",
        name);
    return trm_reference_refuse(request, reason, error);
  }
  TRY(place_arrays(state, error));
  *out_kernel =
      (trm_kernel){.name = "lapack", .scratch_bytes = state->bytes, .state = state, .run = run};
  return TRM_OK;
}
