/* Random programs: optimised, as written, and by the reference kernels they give the same numbers.
 *
 * Programs are HLO text out of a seeded generator: graphs of elementwise and data instructions,
 * reductions, products, calls, loops and conditionals, with shared values, tuples, control edges
 * and several results. Arithmetic is on small integers (a bound is kept for every value, and what
 * grows is clamped), so that results are exact in any order of summation; what comes out of
 * transcendental functions is marked and compared within a tolerance. After every pass the module
 * is verified.
 *
 * TREMULA_RANDOM_PROGRAMS=first:count runs other seeds, for a longer search. */
#include <math.h>
#include <stdlib.h>

#include "../run.h"
#include "base/half.h"
#include "compile/executable.h"

enum { MAX_VALUES = 256, MAX_DIMS = 3, MAX_IO = 12, MAX_DEPTH = 3 };

/* ---- Numbers and text ----------------------------------------------------------------------- */

typedef struct random_source {
  uint64_t state;
} random_source;

static uint64_t next_random(random_source *r) {
  r->state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t x = r->state;
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static int below(random_source *r, int n) { return (int)(next_random(r) % (uint64_t)n); }
static bool chance(random_source *r, int percent) { return below(r, 100) < percent; }

typedef struct value {
  int id;
  trm_dtype dtype;
  int rank;
  int dims[MAX_DIMS];
  double bound; /* no element is larger in size */
  bool exact;
} value;

typedef struct generator {
  random_source random;
  trm_text program; /* finished computations */
  int next_id, next_computation;
} generator;

/* A computation that is being written. */
typedef struct body {
  generator *g;
  trm_text text;
  value values[MAX_VALUES];
  int count, depth;
} body;

static const char *dtype_text(trm_dtype dtype) { return trm_dtype_name(dtype); }

/* "f32[2,3]"; eight buffers, so that one printf may hold several. */
static const char *shape_text(const value *v) {
  static char buffers[8][64];
  static int next;
  char *buffer = buffers[next++ % 8];
  int used = sprintf(buffer, "%s[", dtype_text(v->dtype));
  for (int d = 0; d < v->rank; ++d) {
    used += sprintf(buffer + used, d > 0 ? ",%d" : "%d", v->dims[d]);
  }
  sprintf(buffer + used, "]");
  return buffer;
}

static const char *list_text(const int *items, int count) {
  static char buffers[8][64];
  static int next;
  char *buffer = buffers[next++ % 8];
  int used = 0;
  buffer[0] = '\0';
  for (int i = 0; i < count; ++i) {
    used += sprintf(buffer + used, i > 0 ? ",%d" : "%d", items[i]);
  }
  return buffer;
}

static int elements_of(const value *v) {
  int count = 1;
  for (int d = 0; d < v->rank; ++d) count *= v->dims[d];
  return count;
}

static bool same_dims(const value *a, const value *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static bool is_float(trm_dtype dtype) { return dtype == TRM_F32 || dtype == TRM_F16; }

/* Adds a value; the text of the line is "  v<id> = <shape> <right side>". */
static value add(body *b, value v, const char *format, ...) __attribute__((format(printf, 3, 4)));
static value add(body *b, value v, const char *format, ...) {
  char right[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(right, sizeof right, format, args);
  va_end(args);
  v.id = b->g->next_id++;
  trm_text_format(&b->text, "  v%d = %s %s", v.id, shape_text(&v), right);
  /* Control edges, to be kept and not to make cycles. */
  if (b->count > 0 && strstr(right, "parameter(") == NULL && chance(&b->g->random, 4)) {
    trm_text_format(&b->text, ", control-predecessors={v%d}",
                    b->values[below(&b->g->random, b->count)].id);
  }
  trm_text_format(&b->text, "\n");
  if (b->count < MAX_VALUES) b->values[b->count++] = v;
  return v;
}

static value scalar_constant(body *b, trm_dtype dtype, int number) {
  const value v = {.dtype = dtype, .bound = abs(number), .exact = true};
  if (dtype == TRM_PRED) return add(b, v, "constant(%s)", number != 0 ? "true" : "false");
  return add(b, v, "constant(%d)", number);
}

static value broadcast_scalar(body *b, value scalar, const value *like) {
  value v = *like;
  v.dtype = scalar.dtype;
  v.bound = scalar.bound;
  v.exact = scalar.exact;
  if (like->rank == 0) return scalar;
  return add(b, v, "broadcast(v%d), dimensions={}", scalar.id);
}

/* Keeps |v| <= limit by a clamp where the bound says that it could be larger. */
static value bounded(body *b, value v, int limit) {
  if (!is_float(v.dtype) || v.bound <= limit) return v;
  const value low = scalar_constant(b, v.dtype, -limit), high = scalar_constant(b, v.dtype, limit);
  value clamped = v;
  clamped.bound = limit;
  return add(b, clamped, "clamp(v%d, v%d, v%d)", low.id, v.id, high.id);
}

static value random_shape(generator *g) {
  static const trm_dtype types[] = {TRM_F32, TRM_F32, TRM_F32, TRM_S32, TRM_S32, TRM_F16, TRM_PRED};
  static const int sizes[] = {1, 2, 3, 4, 5, 8, 17};
  value v = {.dtype = types[below(&g->random, 7)], .rank = below(&g->random, MAX_DIMS + 1)};
  for (int d = 0; d < v.rank; ++d) v.dims[d] = sizes[below(&g->random, 7)];
  v.exact = true;
  v.bound = 4;
  return v;
}

static value fresh(body *b, value like) {
  random_source *r = &b->g->random;
  value v = like;
  v.exact = true;
  if (like.rank > 0 && like.dtype != TRM_PRED && chance(r, 30)) {
    v.bound = 8;
    return add(b, v, "iota(), iota_dimension=%d", below(r, like.rank));
  }
  const int number = like.dtype == TRM_PRED ? below(r, 2) : below(r, 5) - 1;
  return broadcast_scalar(b, scalar_constant(b, like.dtype, number), &like);
}

/* Any value with this type and these dimensions: one that exists, mostly, or a new one. */
static value find_like(body *b, value like) {
  random_source *r = &b->g->random;
  int candidates[MAX_VALUES], count = 0;
  for (int i = 0; i < b->count; ++i) {
    const value *v = &b->values[i];
    if (v->dtype == like.dtype && same_dims(v, &like)) candidates[count++] = i;
  }
  if (count == 0 || chance(r, 10)) return fresh(b, like);
  /* Mostly a late one: what nobody uses is dropped and tests nothing. */
  return b->values[candidates[chance(r, 60) ? count - 1 : below(r, count)]];
}

static value any_value(body *b) {
  if (b->count == 0) return fresh(b, random_shape(b->g));
  /* The later ones more often, so that chains grow. */
  const int n = b->count, recent = n > 6 ? 6 : n;
  return b->values[chance(&b->g->random, 60) ? n - 1 - below(&b->g->random, recent)
                                             : below(&b->g->random, n)];
}

/* A value of the wanted dtype and dimensions that is exact, by conversion where need be. */
static value exact_like(body *b, value like) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const value v = find_like(b, like);
    if (v.exact) return v;
  }
  return fresh(b, like);
}

/* ---- Instructions --------------------------------------------------------------------------- */

static value limit_for(body *b, value v) { return bounded(b, v, v.dtype == TRM_F16 ? 32 : 1024); }

static void make_unary(body *b) {
  random_source *r = &b->g->random;
  value v = any_value(b);
  if (v.dtype == TRM_PRED) {
    add(b, v, "not(v%d)", v.id);
  } else if (v.dtype == TRM_S32) {
    static const char *const names[] = {"negate", "abs",    "sign",
                                        "not",    "popcnt", "count-leading-zeros"};
    add(b, v, "%s(v%d)", names[below(r, 6)], v.id);
  } else if (chance(r, 70)) {
    static const char *const names[] = {"negate", "abs",  "sign",
                                        "floor",  "ceil", "round-nearest-even"};
    add(b, v, "%s(v%d)", names[below(r, v.exact ? 6 : 2)], v.id);
  } else {
    static const char *const names[] = {"tanh", "logistic", "cosine", "sine", "exponential"};
    value x = bounded(b, v, 8);
    const int which = below(r, 5);
    if (which == 4) x = bounded(b, x, 4);
    x.bound = which == 4 ? 64 : 1;
    x.exact = false;
    add(b, x, "%s(v%d)", names[which], x.id);
  }
}

static void make_binary(body *b) {
  random_source *r = &b->g->random;
  value x = any_value(b), y = find_like(b, x);
  if (chance(r, 20)) { /* identities for the simplifier */
    y = broadcast_scalar(b, scalar_constant(b, x.dtype, below(r, 2)), &x);
  }
  value v = x;
  v.exact = x.exact && y.exact;
  if (x.dtype == TRM_PRED) {
    static const char *const names[] = {"and", "or", "xor", "maximum", "minimum"};
    add(b, v, "%s(v%d, v%d)", names[below(r, 5)], x.id, y.id);
  } else if (x.dtype == TRM_S32) {
    static const char *const names[] = {"add",
                                        "subtract",
                                        "multiply",
                                        "maximum",
                                        "minimum",
                                        "and",
                                        "or",
                                        "xor",
                                        "shift-left",
                                        "shift-right-arithmetic",
                                        "shift-right-logical",
                                        "divide",
                                        "remainder"};
    add(b, v, "%s(v%d, v%d)", names[below(r, 13)], x.id, y.id);
  } else {
    static const char *const names[] = {"add", "subtract", "maximum", "minimum", "multiply"};
    const int which = below(r, 5);
    x = limit_for(b, x);
    y = limit_for(b, y);
    v.bound = which == 4          ? x.bound * y.bound
              : which < 2         ? x.bound + y.bound
              : x.bound > y.bound ? x.bound
                                  : y.bound;
    add(b, v, "%s(v%d, v%d)", names[which], x.id, y.id);
  }
}

static void make_power(body *b) {
  value x = any_value(b);
  if (!is_float(x.dtype)) return;
  x = bounded(b, x, 32);
  const value exponent =
      broadcast_scalar(b, scalar_constant(b, x.dtype, 1 + below(&b->g->random, 2)), &x);
  value v = x;
  v.bound = x.bound * x.bound + 1;
  v.exact = false; /* pow is not exact to the last bit everywhere */
  add(b, v, "power(v%d, v%d)", x.id, exponent.id);
}

static void make_choice(body *b) {
  random_source *r = &b->g->random;
  const value x = any_value(b), y = find_like(b, x);
  value p = x;
  p.dtype = TRM_PRED;
  if (x.exact && y.exact && chance(r, 60)) {
    static const char *const names[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    p.bound = 1;
    p.exact = true;
    p = add(b, p, "compare(v%d, v%d), direction=%s", x.id, y.id, names[below(r, 6)]);
  } else {
    p = exact_like(b, p);
  }
  value v = x;
  v.bound = x.bound > y.bound ? x.bound : y.bound;
  v.exact = x.exact && y.exact;
  add(b, v, "select(v%d, v%d, v%d)", p.id, x.id, y.id);
}

static void make_convert(body *b) {
  random_source *r = &b->g->random;
  value x = any_value(b);
  static const trm_dtype types[] = {TRM_F32, TRM_S32, TRM_F16, TRM_PRED, TRM_S8, TRM_U8, TRM_F32};
  value v = x;
  v.dtype = types[below(r, 7)];
  if (!x.exact && !is_float(v.dtype)) return;
  if (v.dtype == TRM_F16) {
    x = bounded(b, x, 1024);
    v.bound = x.bound;
    if (x.dtype == TRM_S32) return;
  }
  if (x.dtype == TRM_F32 && !is_float(v.dtype)) x = bounded(b, x, 100000);
  v = add(b, v, "convert(v%d)", x.id);
  if (v.dtype == TRM_S8 || v.dtype == TRM_U8) { /* through a byte and out again */
    value out = v;
    out.dtype = types[below(r, 2)];
    out.bound = 256;
    --b->count; /* nothing else is made of bytes */
    out = add(b, out, "convert(v%d)", v.id);
    if (chance(r, 30)) {
      value again = v;
      again.dtype = chance(r, 50) ? TRM_S8 : TRM_U8;
      again = add(b, again, "convert(v%d)", out.id);
      --b->count;
      out.dtype = TRM_S32;
      add(b, out, "convert(v%d)", again.id);
    }
  } else if (v.dtype == TRM_S32) {
    b->values[b->count - 1].bound = 1e9;
  } else if (x.dtype == TRM_S32 && v.dtype == TRM_F32) {
    /* A large integer is not exact in float32, but the same in every mode; it is cut at once. */
    b->values[b->count - 1].bound = 1e10;
    v.bound = 1e10;
    --b->count;
    bounded(b, v, 64);
  }
}

static void make_reshape(body *b) {
  random_source *r = &b->g->random;
  const value x = any_value(b);
  value v = x;
  switch (below(r, 3)) {
    case 0: /* flat */
      v.rank = 1;
      v.dims[0] = elements_of(&x);
      break;
    case 1: /* one more dimension */
      if (x.rank == MAX_DIMS) return;
      v.dims[v.rank++] = 1;
      break;
    default: /* split */
      if (x.rank != 1 || x.dims[0] % 2 != 0) return;
      v.rank = 2;
      v.dims[0] = 2;
      v.dims[1] = x.dims[0] / 2;
  }
  if (v.rank == 1 && v.dims[0] > 512) return;
  add(b, v, "reshape(v%d)", x.id);
}

static void make_transpose(body *b) {
  random_source *r = &b->g->random;
  const value x = any_value(b);
  if (x.rank < 2) return;
  int order[MAX_DIMS] = {0, 1, 2};
  for (int i = x.rank - 1; i > 0; --i) {
    const int j = below(r, i + 1), t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
  value v = x;
  for (int d = 0; d < x.rank; ++d) v.dims[d] = x.dims[order[d]];
  add(b, v, "transpose(v%d), dimensions={%s}", x.id, list_text(order, x.rank));
}

static void make_broadcast(body *b) {
  random_source *r = &b->g->random;
  const value x = any_value(b);
  if (x.rank == MAX_DIMS || elements_of(&x) > 64) return;
  value v = x;
  const int place = below(r, x.rank + 1);
  int dimensions[MAX_DIMS];
  v.rank = x.rank + 1;
  for (int d = 0, from = 0; d < v.rank; ++d) {
    if (d == place) {
      v.dims[d] = 1 + below(r, 5);
    } else {
      dimensions[from] = d;
      v.dims[d] = x.dims[from++];
    }
  }
  add(b, v, "broadcast(v%d), dimensions={%s}", x.id, list_text(dimensions, x.rank));
}

static void make_slice(body *b) {
  random_source *r = &b->g->random;
  const value x = any_value(b);
  if (x.rank == 0) return;
  value v = x;
  char text[128];
  int used = 0;
  for (int d = 0; d < x.rank; ++d) {
    const int start = x.dims[d] > 0 ? below(r, x.dims[d]) : 0;
    const int limit = start + (x.dims[d] > start ? 1 + below(r, x.dims[d] - start) : 0);
    const int stride = 1 + below(r, 2);
    v.dims[d] = (limit - start + stride - 1) / stride;
    used += sprintf(text + used, "%s[%d:%d:%d]", d > 0 ? "," : "", start, limit, stride);
  }
  add(b, v, "slice(v%d), slice={%s}", x.id, text);
}

static void make_pad(body *b) {
  random_source *r = &b->g->random;
  const value x = any_value(b);
  if (x.rank == 0 || elements_of(&x) > 128) return;
  value v = x;
  char text[128];
  int used = 0;
  for (int d = 0; d < x.rank; ++d) {
    int low = below(r, 3) - 1, high = below(r, 3) - 1;
    const int interior = below(r, 3) / 2;
    int size = x.dims[d] > 0 ? x.dims[d] + (x.dims[d] - 1) * interior : 0;
    if (size + low + high < 1) low = high = 1;
    v.dims[d] = size + low + high;
    used += sprintf(text + used, "%s%d_%d_%d", d > 0 ? "x" : "", low, high, interior);
  }
  const value filler = scalar_constant(b, x.dtype, below(r, 2));
  v.bound = x.bound + 1;
  add(b, v, "pad(v%d, v%d), padding=%s", x.id, filler.id, text);
}

static void make_concatenate(body *b) {
  random_source *r = &b->g->random;
  const value x = any_value(b), y = find_like(b, x), z = find_like(b, x);
  if (x.rank == 0 || elements_of(&x) > 96) return;
  const int d = below(r, x.rank);
  value v = x;
  v.exact = x.exact && y.exact && z.exact;
  v.bound = fmax(fmax(x.bound, y.bound), z.bound);
  if (chance(r, 50)) {
    v.dims[d] *= 2;
    v.exact = x.exact && y.exact;
    add(b, v, "concatenate(v%d, v%d), dimensions={%d}", x.id, y.id, d);
  } else {
    v.dims[d] *= 3;
    add(b, v, "concatenate(v%d, v%d, v%d), dimensions={%d}", x.id, y.id, z.id, d);
  }
}

static void make_reverse(body *b) {
  const value x = any_value(b);
  if (x.rank == 0) return;
  add(b, x, "reverse(v%d), dimensions={%d}", x.id, below(&b->g->random, x.rank));
}

static void reducer(generator *g, trm_dtype dtype, const char *name, int *out_number) {
  const char *type = dtype_text(dtype);
  *out_number = g->next_computation++;
  const int x = g->next_id, y = g->next_id + 1, z = g->next_id + 2;
  g->next_id += 3;
  trm_text_format(&g->program,
                  "c%d {\n  v%d = %s[] parameter(0)\n  v%d = %s[] parameter(1)\n"
                  "  ROOT v%d = %s[] %s(v%d, v%d)\n}\n",
                  *out_number, x, type, y, type, z, type, name, x, y);
}

static void make_reduce(body *b) {
  random_source *r = &b->g->random;
  value x = any_value(b);
  if (x.rank == 0 || !x.exact) return;
  const int which = below(r, 3);
  const char *name = x.dtype == TRM_PRED ? (which == 0 ? "and" : "or")
                     : which == 0        ? "add"
                     : which == 1        ? "maximum"
                                         : "minimum";
  const int start = x.dtype == TRM_PRED ? which == 0 : 0;
  if (x.dtype == TRM_F16) x = bounded(b, x, 8);
  if (x.dtype == TRM_F32) x = bounded(b, x, 4096);
  value v = x;
  v.rank = 0;
  int dimensions[MAX_DIMS], count = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (chance(r, 50)) dimensions[count++] = d;
    else v.dims[v.rank++] = x.dims[d];
  }
  v.bound = x.bound * (elements_of(&x) + 1.0);
  if (x.dtype == TRM_F16 && v.bound > 2048) return;
  int number;
  reducer(b->g, x.dtype, name, &number);
  const value init = scalar_constant(b, x.dtype, start);
  add(b, v, "reduce(v%d, v%d), dimensions={%s}, to_apply=c%d", x.id, init.id,
      list_text(dimensions, count), number);
}

static void make_dot(body *b) {
  random_source *r = &b->g->random;
  value x = any_value(b);
  if (!is_float(x.dtype) || !x.exact || x.rank < 1 || x.rank > 2) return;
  value y = x;
  y.rank = 2;
  y.dims[0] = x.dims[x.rank - 1];
  y.dims[1] = 1 + below(r, 5);
  y = exact_like(b, y);
  x = bounded(b, x, x.dtype == TRM_F16 ? 4 : 64);
  y = bounded(b, y, x.dtype == TRM_F16 ? 4 : 64);
  value v = x;
  v.dims[x.rank - 1] = y.dims[1];
  v.bound = x.bound * y.bound * y.dims[0];
  if (x.dtype == TRM_F16 && v.bound > 2048) return;
  add(b, v, "dot(v%d, v%d), lhs_contracting_dims={%d}, rhs_contracting_dims={0}", x.id, y.id,
      x.rank - 1);
}

static value index_value(body *b) {
  const value index = {.dtype = TRM_S32, .exact = true, .bound = 1e9};
  return exact_like(b, index);
}

static void make_dynamic(body *b) {
  random_source *r = &b->g->random;
  const value x = any_value(b);
  if (x.rank == 0) return;
  value piece = x;
  int starts[MAX_DIMS];
  char text[64];
  int used = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (x.dims[d] == 0) return;
    piece.dims[d] = chance(r, 20) ? x.dims[d] : 1 + below(r, x.dims[d]);
    starts[d] = index_value(b).id;
    used += sprintf(text + used, ", v%d", starts[d]);
  }
  if (chance(r, 40)) {
    add(b, piece, "dynamic-slice(v%d%s), dynamic_slice_sizes={%s}", x.id, text,
        list_text(piece.dims, x.rank));
  } else {
    piece = find_like(b, piece);
    value v = x;
    v.exact = x.exact && piece.exact;
    v.bound = fmax(x.bound, piece.bound);
    add(b, v, "dynamic-update-slice(v%d, v%d%s)", x.id, piece.id, text);
  }
}

static void make_tuple_round_trip(body *b) {
  random_source *r = &b->g->random;
  const value x = any_value(b), y = any_value(b);
  const int tuple = b->g->next_id++;
  trm_text_format(&b->text, "  v%d = (%s, %s) tuple(v%d, v%d)\n", tuple, shape_text(&x),
                  shape_text(&y), x.id, y.id);
  int from = tuple;
  if (chance(r, 30)) {
    from = b->g->next_id++;
    trm_text_format(&b->text, "  v%d = (%s, %s) opt-barrier(v%d)\n", from, shape_text(&x),
                    shape_text(&y), tuple);
  }
  if (chance(r, 50)) add(b, x, "get-tuple-element(v%d), index=0", from);
  else add(b, y, "get-tuple-element(v%d), index=1", from);
}

static void make_copy(body *b) {
  const value x = any_value(b);
  add(b, x, "copy(v%d)", x.id);
}

/* ---- Computations --------------------------------------------------------------------------- */

static void fill(body *b, int instructions);

static void begin(body *b, generator *g, int depth) {
  memset(b, 0, sizeof *b);
  b->g = g;
  b->depth = depth;
}

/* Ends a computation: its text moves to the program. */
static int finish(body *b, const char *root) {
  generator *g = b->g;
  const int number = g->next_computation++;
  trm_text_format(&g->program, "c%d {\n", number);
  trm_text_append(&g->program, b->text.data, b->text.length);
  trm_text_format(&g->program, "  ROOT v%d = %s\n}\n", g->next_id++, root);
  trm_text_free(&b->text);
  return number;
}

static const char *tuple_shape(const value *elements, int count, char *buffer) {
  int used = sprintf(buffer, "(");
  for (int i = 0; i < count; ++i) {
    used += sprintf(buffer + used, "%s%s", i > 0 ? ", " : "", shape_text(&elements[i]));
  }
  sprintf(buffer + used, ")");
  return buffer;
}

static const char *tuple_line(const value *elements, int count, char *buffer) {
  char shape[512];
  int used = sprintf(buffer, "%s tuple(", tuple_shape(elements, count, shape));
  for (int i = 0; i < count; ++i) {
    used += sprintf(buffer + used, "%sv%d", i > 0 ? ", " : "", elements[i].id);
  }
  sprintf(buffer + used, ")");
  return buffer;
}

/* A tuple parameter and its elements; returns its id. */
static int enter_tuple(body *b, const value *elements, int count) {
  char shape[512];
  const int parameter = b->g->next_id++;
  tuple_shape(elements, count, shape);
  trm_text_format(&b->text, "  v%d = %s parameter(0)\n", parameter, shape);
  for (int i = 0; i < count; ++i) {
    add(b, elements[i], "get-tuple-element(v%d), index=%d", parameter, i);
  }
  return parameter;
}

static void make_call(body *b) {
  random_source *r = &b->g->random;
  const int count = 1 + below(r, 2);
  value arguments[2];
  char text[128], root[256];
  int used = 0;
  body *inner = malloc(sizeof *inner);
  begin(inner, b->g, b->depth + 1);
  for (int i = 0; i < count; ++i) {
    arguments[i] = any_value(b);
    used += sprintf(text + used, "%sv%d", i > 0 ? ", " : "", arguments[i].id);
    add(inner, arguments[i], "parameter(%d)", i);
  }
  fill(inner, 2 + below(r, 5));
  const value result = any_value(inner);
  sprintf(root, "%s copy(v%d)", shape_text(&result), result.id);
  const int number = finish(inner, root);
  free(inner);
  add(b, result, "call(%s), to_apply=c%d", text, number);
}

enum { MAX_STATE = 7 };

static void make_while(body *b) {
  random_source *r = &b->g->random;
  value state[MAX_STATE], initial[MAX_STATE], back[MAX_STATE];
  char line[1024], shape[512];
  const int count = 2 + below(r, MAX_STATE - 1);
  state[0] = (value){.dtype = TRM_S32, .exact = true, .bound = 1e9};
  initial[0] = scalar_constant(b, TRM_S32, 0);
  for (int k = 1; k < count; ++k) {
    /* Often like the one before: then they can be swapped. */
    value v = k > 1 && chance(r, 50) ? find_like(b, initial[k - 1]) : any_value(b);
    if (!v.exact) v = fresh(b, v);
    initial[k] = bounded(b, v, 16);
    state[k] = initial[k];
  }
  for (int k = 1; k < count; ++k) {
    if (is_float(state[k].dtype)) state[k].bound = 16;
  }
  /* The condition: i < n, and sometimes something of the state. */
  body *inner = malloc(sizeof *inner);
  begin(inner, b->g, b->depth + 1);
  const int trips = below(r, 5);
  enter_tuple(inner, state, count);
  const int index = inner->values[0].id;
  const value limit = scalar_constant(inner, TRM_S32, trips);
  value go = {.dtype = TRM_PRED, .exact = true, .bound = 1};
  go = add(inner, go, "compare(v%d, v%d), direction=LT", index, limit.id);
  if (chance(r, 25)) {
    fill(inner, 3);
    const value also = {.dtype = TRM_PRED, .exact = true, .bound = 1};
    const value other = exact_like(inner, also);
    sprintf(line, "pred[] and(v%d, v%d)", go.id, other.id);
  } else {
    sprintf(line, "pred[] copy(v%d)", go.id);
  }
  const int condition = finish(inner, line);
  begin(inner, b->g, b->depth + 1);
  enter_tuple(inner, state, count);
  const int counter = inner->values[0].id;
  value elements[MAX_STATE];
  for (int k = 0; k < count; ++k) elements[k] = inner->values[k];
  fill(inner, 3 + below(r, 8));
  const value one = scalar_constant(inner, TRM_S32, 1);
  back[0] = add(inner, state[0], "add(v%d, v%d)", counter, one.id);
  for (int k = 1; k < count; ++k) {
    const int kind = below(r, 10);
    back[k] = elements[k]; /* handed on */
    if (kind < 2) {        /* swapped with another */
      const int other = 1 + below(r, count - 1);
      if (elements[other].dtype == state[k].dtype && same_dims(&elements[other], &state[k])) {
        back[k] = elements[other];
      }
    } else if (kind < 8) {
      back[k] = exact_like(inner, state[k]);
    }
    back[k] = bounded(inner, back[k], 16);
  }
  tuple_line(back, count, line);
  const int loop = finish(inner, line);
  free(inner);
  const int tuple = b->g->next_id++, result = b->g->next_id++;
  trm_text_format(&b->text, "  v%d = %s\n", tuple, tuple_line(initial, count, line));
  trm_text_format(&b->text, "  v%d = %s while(v%d), condition=c%d, body=c%d\n", result,
                  tuple_shape(state, count, shape), tuple, condition, loop);
  /* Not every element is used: dead ones. */
  for (int k = 0; k < count; ++k) {
    if (chance(r, 60)) add(b, state[k], "get-tuple-element(v%d), index=%d", result, k);
  }
}

static void make_conditional(body *b) {
  random_source *r = &b->g->random;
  const bool pred = chance(r, 50);
  const int branches = pred ? 2 : 1 + below(r, 3);
  const value want = {.dtype = pred ? TRM_PRED : TRM_S32, .exact = true};
  const value selector = exact_like(b, want);
  value results[3], operands[3];
  const int num_results = 1 + below(r, 3), num_operands = 1 + below(r, 3);
  for (int k = 0; k < num_results; ++k) results[k] = any_value(b);
  for (int k = 0; k < num_operands; ++k) operands[k] = any_value(b);
  for (int k = 0; k < num_results; ++k) {
    results[k].exact = true;
    results[k].bound = 32;
  }
  char line[1024], called[128], arguments[128], shape[512];
  int used_called = 0, used_arguments = 0;
  const int tuple = b->g->next_id++;
  trm_text_format(&b->text, "  v%d = %s\n", tuple, tuple_line(operands, num_operands, line));
  for (int i = 0; i < branches; ++i) {
    body *inner = malloc(sizeof *inner);
    begin(inner, b->g, b->depth + 1);
    enter_tuple(inner, operands, num_operands);
    fill(inner, below(r, 6));
    value back[3];
    for (int k = 0; k < num_results; ++k) {
      back[k] = bounded(inner, exact_like(inner, results[k]), 32);
    }
    tuple_line(back, num_results, line);
    const char *key = !pred ? "" : i == 0 ? "true_computation=" : "false_computation=";
    used_called +=
        sprintf(called + used_called, "%s%sc%d", i > 0 ? ", " : "", key, finish(inner, line));
    used_arguments += sprintf(arguments + used_arguments, ", v%d", tuple);
    free(inner);
  }
  const int result = b->g->next_id++;
  trm_text_format(&b->text, "  v%d = %s conditional(v%d%s), %s%s%s\n", result,
                  tuple_shape(results, num_results, shape), selector.id, arguments,
                  pred ? "" : "branch_computations={", called, pred ? "" : "}");
  for (int k = 0; k < num_results; ++k) {
    add(b, results[k], "get-tuple-element(v%d), index=%d", result, k);
  }
}

static void fill(body *b, int instructions) {
  typedef void (*maker)(body *);
  static const maker plain[] = {make_unary,     make_unary,
                                make_binary,    make_binary,
                                make_binary,    make_binary,
                                make_choice,    make_convert,
                                make_reshape,   make_transpose,
                                make_broadcast, make_slice,
                                make_pad,       make_concatenate,
                                make_reverse,   make_reduce,
                                make_reduce,    make_dot,
                                make_dynamic,   make_dynamic,
                                make_dynamic,   make_tuple_round_trip,
                                make_copy,      make_power};
  static const maker nested[] = {make_call, make_while, make_while, make_conditional};
  enum { NUM_PLAIN = sizeof plain / sizeof *plain };
  for (int i = 0; i < instructions && b->count < MAX_VALUES - 40; ++i) {
    if (b->depth < MAX_DEPTH && chance(&b->g->random, 12)) nested[below(&b->g->random, 4)](b);
    else plain[below(&b->g->random, NUM_PLAIN)](b);
  }
}

typedef struct program {
  char *text;
  int num_outputs;
  bool exact[MAX_IO];
} program;

static program generate(uint64_t seed) {
  generator g = {.random = {seed * UINT64_C(0x2545f4914f6cdd1d)}};
  body *entry = malloc(sizeof *entry);
  program p = {0};
  g.next_id = 1;
  trm_text_format(&g.program, "HloModule random_%llu\n", (unsigned long long)seed);
  begin(entry, &g, 0);
  const int inputs = 1 + below(&g.random, 4);
  for (int i = 0; i < inputs; ++i) add(entry, random_shape(&g), "parameter(%d)", i);
  fill(entry, 8 + below(&g.random, 60));
  value outputs[MAX_IO];
  p.num_outputs = 1 + below(&g.random, 6);
  for (int o = 0; o < p.num_outputs; ++o) {
    outputs[o] = any_value(entry);
    p.exact[o] = outputs[o].exact;
  }
  char line[1024];
  tuple_line(outputs, p.num_outputs, line);
  trm_text_format(&g.program, "ENTRY main {\n");
  trm_text_append(&g.program, entry->text.data, entry->text.length);
  trm_text_format(&g.program, "  ROOT v%d = %s\n}\n", g.next_id++, line);
  trm_text_free(&entry->text);
  free(entry);
  p.text = g.program.data;
  return p;
}

/* ---- Running -------------------------------------------------------------------------------- */

static void fill_input(const trm_tensor_info *info, random_source *r, void *data) {
  const size_t size = trm_dtype_size(info->dtype);
  for (size_t i = 0; i < info->bytes / size; ++i) {
    const int number = info->dtype == TRM_PRED ? below(r, 2) : below(r, 9) - 4;
    const float real = (float)number;
    const uint16_t half = trm_float_to_half(real);
    const int32_t integer = number;
    const uint8_t byte = (uint8_t)number;
    const void *from = info->dtype == TRM_F32   ? (const void *)&real
                       : info->dtype == TRM_F16 ? (const void *)&half
                       : info->dtype == TRM_S32 ? (const void *)&integer
                                                : (const void *)&byte;
    memcpy((char *)data + i * size, from, size);
  }
}

static double element(const trm_tensor_info *info, const void *data, size_t i) {
  switch (info->dtype) {
    case TRM_F32: return (double)((const float *)data)[i];
    case TRM_F16: return (double)trm_half_to_float(((const uint16_t *)data)[i]);
    case TRM_S32: return (double)((const int32_t *)data)[i];
    default: return (double)((const uint8_t *)data)[i];
  }
}

/* What is handed to trm_compile_observed: the module must be valid after every pass. */
static trm_status verify_pass(const char *pass, const trm_module *module, void *context,
                              trm_error *error) {
  (void)context;
  const trm_status status = trm_module_verify(module, error);
  return status == TRM_OK ? TRM_OK : trm_note(error, status, "after %s", pass);
}

typedef struct outcome {
  void *outputs[3][MAX_IO]; /* by run */
} outcome;

static void complain(uint64_t seed, const program *p, const char *mode, const char *what) {
  fprintf(stderr, "%s\n", p->text);
  fail_msg("program %llu, %s: %s", (unsigned long long)seed, mode, what);
}

/* Three runs in one engine: with inputs, others, and the first again. */
static void run_all(uint64_t seed, const program *p, const char *mode, trm_executable *executable,
                    outcome *out) {
  trm_error error;
  trm_engine *engine = NULL;
  if (trm_engine_create(executable, &engine, &error) != TRM_OK) {
    complain(seed, p, mode, error.message);
  }
  const size_t inputs = trm_executable_num_inputs(executable);
  for (int run = 0; run < 3; ++run) {
    void *data[MAX_IO], *copies[MAX_IO];
    random_source r = {seed + 1000 * (uint64_t)(run % 2)};
    for (size_t i = 0; i < inputs; ++i) {
      const trm_tensor_info *info = trm_executable_input(executable, i);
      data[i] = malloc(info->bytes + 1);
      copies[i] = malloc(info->bytes + 1);
      fill_input(info, &r, data[i]);
      memcpy(copies[i], data[i], info->bytes);
    }
    for (int o = 0; o < p->num_outputs; ++o) {
      const size_t bytes = trm_executable_output(executable, (size_t)o)->bytes;
      out->outputs[run][o] = malloc(bytes + 1);
      memset(out->outputs[run][o], 0xab, bytes + 1);
    }
    if (trm_engine_run(engine, (const void *const *)data, NULL, out->outputs[run], &error) !=
        TRM_OK) {
      complain(seed, p, mode, error.message);
    }
    for (size_t i = 0; i < inputs; ++i) {
      if (memcmp(data[i], copies[i], trm_executable_input(executable, i)->bytes) != 0) {
        complain(seed, p, mode, "an input was written to");
      }
      free(data[i]);
      free(copies[i]);
    }
  }
  trm_engine_free(engine);
}

static void free_outcome(const program *p, outcome *out) {
  for (int run = 0; run < 3; ++run) {
    for (int o = 0; o < p->num_outputs; ++o) free(out->outputs[run][o]);
  }
}

static void compare(uint64_t seed, const program *p, const char *mode,
                    const trm_executable *executable, const outcome *expected,
                    const outcome *found) {
  for (int run = 0; run < 3; ++run) {
    for (int o = 0; o < p->num_outputs; ++o) {
      const trm_tensor_info *info = trm_executable_output(executable, (size_t)o);
      for (size_t i = 0; i < info->bytes / trm_dtype_size(info->dtype); ++i) {
        const double a = element(info, expected->outputs[run][o], i);
        const double b = element(info, found->outputs[run][o], i);
        const double tolerance =
            p->exact[o] ? 0 : (info->dtype == TRM_F16 ? 2e-2 : 1e-4) * (1 + fabs(a));
        if (fabs(a - b) <= tolerance || (isnan(a) && isnan(b)) || a == b) continue;
        char text[128];
        snprintf(text, sizeof text, "run %d, output %d, element %zu: %.9g instead of %.9g", run, o,
                 i, b, a);
        complain(seed, p, mode, text);
      }
    }
  }
}

static void check_program(uint64_t seed) {
  static const char *const modes[] = {"reference", "as written", "optimised", "saved and loaded"};
  static const trm_option options[] = {
      {"reference", "true"}, {"optimise", "false"}, {"optimise", "true"}, {"optimise", "true"}};
  program p = generate(seed);
  trm_error error;
  trm_module *module = NULL;
  outcome expected, found;
  if (trm_module_read(p.text, strlen(p.text), "random", &module, &error) != TRM_OK) {
    complain(seed, &p, "reading", error.message);
  }
  for (int m = 0; m < 4; ++m) {
    trm_executable *executable = NULL;
    if (trm_compile_observed(module, &options[m], 1, verify_pass, NULL, &executable, &error) !=
        TRM_OK) {
      complain(seed, &p, modes[m], error.message);
    }
    if (m == 3) {
      void *data;
      size_t size;
      if (trm_executable_serialize(executable, &data, &size, &error) != TRM_OK) {
        complain(seed, &p, modes[m], error.message);
      }
      trm_executable_free(executable);
      if (trm_executable_deserialize(data, size, &executable, &error) != TRM_OK) {
        complain(seed, &p, modes[m], error.message);
      }
      trm_free(data);
    }
    run_all(seed, &p, modes[m], executable, m == 0 ? &expected : &found);
    if (m > 0) {
      compare(seed, &p, modes[m], executable, &expected, &found);
      free_outcome(&p, &found);
    }
    trm_executable_free(executable);
  }
  free_outcome(&p, &expected);
  trm_module_free(module);
  trm_free(p.text);
}

static void test_random_programs(void **state) {
  (void)state;
  unsigned long long first = 1, count = 300;
  const char *range = getenv("TREMULA_RANDOM_PROGRAMS");
  if (range != NULL) sscanf(range, "%llu:%llu", &first, &count);
  for (unsigned long long i = 0; i < count; ++i) check_program(first + i);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};
  return cmocka_run_group_tests_name("random_programs", tests, NULL, NULL);
}
