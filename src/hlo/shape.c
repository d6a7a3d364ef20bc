/* Owns: shapes. Nested tuples are walked with a bounded stack: trm_shape_check limits the depth. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hlo/hlo.h"

enum { MAX_TUPLE_DEPTH = 64 };
static const int64_t max_array_bytes = (int64_t)1 << 40;
static const int64_t max_tuple_leaves = 1 << 24;

bool trm_shape_is_array(const trm_shape *shape) {
  return shape->dtype != TRM_TUPLE && shape->dtype != TRM_TOKEN && shape->dtype != TRM_OPAQUE &&
         shape->dtype != TRM_INVALID_TYPE;
}

bool trm_shape_is_scalar(const trm_shape *shape) {
  return trm_shape_is_array(shape) && shape->rank == 0;
}

int64_t trm_shape_count(const trm_shape *shape) {
  int64_t count = 1;
  for (int32_t i = 0; i < shape->rank; ++i) count *= shape->dims[i];
  return count;
}

size_t trm_shape_bytes(const trm_shape *shape) {
  if (!trm_shape_is_array(shape)) return 0;
  return (size_t)trm_shape_count(shape) * trm_dtype_size(shape->dtype);
}

/* A walk over a nested shape in order, without recursion. */
typedef struct walk {
  const trm_shape *stack[MAX_TUPLE_DEPTH + 1];
  int32_t next[MAX_TUPLE_DEPTH + 1];
  int depth; /* entries on the stack */
} walk;

static void walk_start(walk *w, const trm_shape *shape) {
  w->stack[0] = shape;
  w->next[0] = 0;
  w->depth = 1;
}

/* The next array leaf, or NULL. */
static const trm_shape *walk_leaf(walk *w) {
  while (w->depth > 0) {
    const trm_shape *top = w->stack[w->depth - 1];
    if (top->dtype != TRM_TUPLE) {
      --w->depth;
      if (trm_shape_is_array(top)) return top;
      continue;
    }
    if (w->next[w->depth - 1] == top->num_elements || w->depth > MAX_TUPLE_DEPTH) {
      --w->depth;
      continue;
    }
    w->stack[w->depth] = &top->elements[w->next[w->depth - 1]++];
    w->next[w->depth] = 0;
    ++w->depth;
  }
  return NULL;
}

int32_t trm_shape_num_leaves(const trm_shape *shape) {
  if (shape->dtype != TRM_TUPLE) return trm_shape_is_array(shape) ? 1 : 0;
  if (shape->is_flat) return shape->num_elements;
  walk w;
  int32_t count = 0;
  walk_start(&w, shape);
  while (walk_leaf(&w) != NULL) ++count;
  return count;
}

const trm_shape *trm_shape_leaf(const trm_shape *shape, int32_t i) {
  if (trm_shape_is_array(shape)) return i == 0 ? shape : NULL;
  if (shape->is_flat) return i >= 0 && i < shape->num_elements ? &shape->elements[i] : NULL;
  walk w;
  walk_start(&w, shape);
  const trm_shape *leaf = walk_leaf(&w);
  while (leaf != NULL && i-- > 0) leaf = walk_leaf(&w);
  return leaf;
}

int32_t trm_shape_leaf_offset(const trm_shape *tuple, int32_t element) {
  if (tuple->is_flat) return element;
  int32_t offset = 0;
  for (int32_t i = 0; i < element; ++i) offset += trm_shape_num_leaves(&tuple->elements[i]);
  return offset;
}

int64_t trm_shape_leaf_at(const trm_shape *shape, const trm_dims *path) {
  int64_t leaf = 0;
  for (int32_t i = 0; i < path->count; ++i) {
    const int64_t element = path->items[i];
    if (shape->dtype != TRM_TUPLE || element < 0 || element >= shape->num_elements) return -1;
    leaf += trm_shape_leaf_offset(shape, (int32_t)element);
    shape = &shape->elements[element];
  }
  return trm_shape_is_array(shape) ? leaf : -1;
}

void trm_shape_describe(const trm_shape *shape, trm_tensor_info *out_info) {
  *out_info = (trm_tensor_info){
      .name = "", .dtype = shape->dtype, .rank = shape->rank, .bytes = trm_shape_bytes(shape)};
  if (shape->rank > 0) {
    memcpy(out_info->dims, shape->dims, (size_t)shape->rank * sizeof *shape->dims);
  }
}

bool trm_dims_equal(const trm_dims *a, const trm_dims *b) {
  return a->count == b->count &&
         (a->count == 0 || memcmp(a->items, b->items, (size_t)a->count * sizeof *a->items) == 0);
}

bool trm_shape_same_dims(const trm_shape *a, const trm_shape *b) {
  return a->rank == b->rank &&
         (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

bool trm_shape_is_row_major(const trm_shape *shape) {
  int64_t last = INT64_MAX;
  if (shape->layout == NULL) return true;
  for (int32_t i = 0; i < shape->rank; ++i) {
    const int64_t d = shape->layout[i];
    if (d < 0 || d >= shape->rank) return false;
    if (shape->dims[d] == 1) continue;
    if (d > last) return false;
    last = d;
  }
  return true;
}

bool trm_shape_equal(const trm_shape *a, const trm_shape *b) {
  const trm_shape *left[MAX_TUPLE_DEPTH + 1], *right[MAX_TUPLE_DEPTH + 1];
  int32_t next[MAX_TUPLE_DEPTH + 1];
  int depth = 0;
  left[0] = a, right[0] = b, next[0] = -1;
  while (depth >= 0) {
    const trm_shape *l = left[depth], *r = right[depth];
    if (next[depth] < 0) {
      if (l->dtype != r->dtype || l->num_elements != r->num_elements) return false;
      if (!trm_shape_same_dims(l, r)) return false;
      next[depth] = 0;
    }
    if (l->dtype != TRM_TUPLE || next[depth] == l->num_elements || depth == MAX_TUPLE_DEPTH) {
      --depth;
      continue;
    }
    const int32_t i = next[depth]++;
    ++depth;
    left[depth] = &l->elements[i], right[depth] = &r->elements[i], next[depth] = -1;
  }
  return true;
}

bool trm_shape_make(trm_arena *arena, trm_dtype dtype, int32_t rank, const int64_t *dims,
                    trm_shape *out_shape) {
  int64_t *copy = NULL;
  if (rank > 0) {
    copy = trm_arena_copy(arena, dims, (size_t)rank * sizeof *dims);
    if (copy == NULL) return false;
  }
  *out_shape = (trm_shape){.dtype = dtype, .rank = rank, .dims = copy};
  return true;
}

trm_shape trm_shape_of_tuple(int32_t count, const trm_shape *elements) {
  int32_t arrays = 0;
  while (arrays < count && trm_shape_is_array(&elements[arrays])) ++arrays;
  return (trm_shape){
      .dtype = TRM_TUPLE, .num_elements = count, .elements = elements, .is_flat = arrays == count};
}

bool trm_shape_make_tuple(trm_arena *arena, int32_t count, const trm_shape *elements,
                          trm_shape *out_shape) {
  trm_shape *copy = trm_arena_copy(arena, elements, (size_t)count * sizeof *elements);
  if (copy == NULL) return false;
  *out_shape = trm_shape_of_tuple(count, copy);
  return true;
}

static bool copy_array(trm_arena *arena, const trm_shape *shape, trm_shape *out) {
  *out = *shape;
  const size_t bytes = (size_t)shape->rank * sizeof *shape->dims;
  if (shape->rank > 0) {
    if ((out->dims = trm_arena_copy(arena, shape->dims, bytes)) == NULL) return false;
    if (shape->layout != NULL &&
        (out->layout = trm_arena_copy(arena, shape->layout, bytes)) == NULL) {
      return false;
    }
  }
  if (shape->num_elements > 0) {
    out->elements = trm_arena_copy(arena, shape->elements,
                                   (size_t)shape->num_elements * sizeof *shape->elements);
    if (out->elements == NULL) return false;
  }
  return true;
}

bool trm_shape_copy(trm_arena *arena, const trm_shape *shape, trm_shape *out_shape) {
  trm_shape *stack[MAX_TUPLE_DEPTH + 1];
  int32_t next[MAX_TUPLE_DEPTH + 1];
  int depth = 0;
  if (!copy_array(arena, shape, out_shape)) return false;
  stack[0] = out_shape, next[0] = 0;
  while (depth >= 0) {
    if (next[depth] == stack[depth]->num_elements || depth == MAX_TUPLE_DEPTH) {
      --depth;
      continue;
    }
    trm_shape *element = (trm_shape *)&stack[depth]->elements[next[depth]++];
    const trm_shape original = *element;
    if (!copy_array(arena, &original, element)) return false;
    ++depth;
    stack[depth] = element, next[depth] = 0;
  }
  return true;
}

static void print_array(const trm_shape *shape, bool with_layout, trm_text *out) {
  trm_text_format(out, "%s[", trm_dtype_name(shape->dtype));
  for (int32_t i = 0; i < shape->rank; ++i) {
    trm_text_format(out, "%s%s%" PRId64, i == 0 ? "" : ",",
                    (shape->dynamic >> i & 1) != 0 ? "<=" : "", shape->dims[i]);
  }
  trm_text_append(out, "]", 1);
  if (!with_layout || shape->rank == 0) return;
  trm_text_append(out, "{", 1);
  for (int32_t i = 0; i < shape->rank; ++i) {
    const int64_t minor = shape->layout != NULL ? shape->layout[i] : shape->rank - 1 - i;
    trm_text_format(out, "%s%" PRId64, i == 0 ? "" : ",", minor);
  }
  trm_text_append(out, "}", 1);
}

void trm_shape_print(const trm_shape *shape, bool with_layout, trm_text *out_text) {
  const trm_shape *stack[MAX_TUPLE_DEPTH + 1];
  int32_t next[MAX_TUPLE_DEPTH + 1];
  int depth = 0;
  stack[0] = shape, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *top = stack[depth];
    if (top->dtype == TRM_TUPLE && depth < MAX_TUPLE_DEPTH) {
      if (next[depth] == 0) trm_text_append(out_text, "(", 1);
      if (next[depth] < top->num_elements) {
        if (next[depth] > 0) trm_text_append(out_text, ", ", 2);
        stack[depth + 1] = &top->elements[next[depth]++];
        next[++depth] = 0;
        continue;
      }
      trm_text_append(out_text, ")", 1);
    } else {
      print_array(top, with_layout && trm_shape_is_array(top), out_text);
    }
    --depth;
  }
}

const char *trm_shape_text(const trm_shape *shape, char *buffer, size_t size) {
  trm_text text = {0};
  trm_shape_print(shape, false, &text);
  snprintf(buffer, size, "%s", text.data != NULL ? text.data : "?");
  trm_text_free(&text);
  return buffer;
}

static trm_status check_array(const trm_shape *shape, trm_error *error) {
  if (shape->rank < 0 || shape->rank > TRM_MAX_RANK) {
    FAIL(INVALID_ARGUMENT, "a shape has %d dimensions; at most %d are supported", shape->rank,
         TRM_MAX_RANK);
  }
  int64_t bytes = (int64_t)trm_dtype_size(shape->dtype);
  int64_t product = 1; /* of the dimensions that are not 0 */
  for (int32_t i = 0; i < shape->rank; ++i) {
    const int64_t dim = shape->dims[i];
    if (dim < 0) {
      FAIL(INVALID_ARGUMENT, "dimension %d of a shape is %" PRId64 "; sizes cannot be negative", i,
           dim);
    }
    if (dim != 0 && (__builtin_mul_overflow(product, dim, &product) ||
                     product > max_array_bytes / (bytes > 0 ? bytes : 1))) {
      FAIL(INVALID_ARGUMENT, "an array of type %s is larger than 2^40 bytes",
           trm_dtype_name(shape->dtype));
    }
  }
  if (shape->layout != NULL) {
    uint32_t seen = 0;
    for (int32_t i = 0; i < shape->rank; ++i) {
      const int64_t dim = shape->layout[i];
      if (dim < 0 || dim >= shape->rank || (seen >> dim & 1) != 0) {
        FAIL(INVALID_ARGUMENT, "a layout is not a permutation of the dimensions");
      }
      seen |= (uint32_t)1 << dim;
    }
  }
  return TRM_OK;
}

trm_status trm_shape_check(const trm_shape *shape, trm_error *error) {
  const trm_shape *stack[MAX_TUPLE_DEPTH + 1];
  int32_t next[MAX_TUPLE_DEPTH + 1];
  int depth = 0;
  int64_t leaves = 0;
  stack[0] = shape, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *top = stack[depth];
    if (top->dtype == TRM_TUPLE && next[depth] < top->num_elements) {
      if (depth + 1 >= MAX_TUPLE_DEPTH) {
        FAIL(INVALID_ARGUMENT, "tuples are nested more than %d deep", MAX_TUPLE_DEPTH - 1);
      }
      if (++leaves > max_tuple_leaves) FAIL(INVALID_ARGUMENT, "a tuple has too many elements");
      stack[depth + 1] = &top->elements[next[depth]++];
      next[++depth] = 0;
      continue;
    }
    if (top->dtype == TRM_INVALID_TYPE || strcmp(trm_dtype_name(top->dtype), "invalid") == 0) {
      FAIL(INVALID_ARGUMENT, "a shape has the element type number %d, which is not supported",
           (int)top->dtype);
    }
    if (trm_shape_is_array(top)) TRY(check_array(top, error));
    --depth;
  }
  return TRM_OK;
}
