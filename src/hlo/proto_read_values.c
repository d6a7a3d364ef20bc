/* Owns: reading the shapes and literals of a HloModuleProto. */
#include <inttypes.h>
#include <string.h>

#include "hlo/proto.h"

typedef Tremula__Hlo__ShapeProto shape_proto;
typedef Tremula__Hlo__LiteralProto literal_proto;

enum { MAX_DEPTH = 100 }; /* the limit of trm_proto_scan */

enum { BUFFER_TYPE = 34 }; /* the memory of an array: to us the array */

/* ---- Shapes --------------------------------------------------------------------------------- */

static trm_status read_array_shape(trm_arena *arena, const shape_proto *proto, trm_shape *out_shape,
                                   trm_error *error) {
  if (proto->n_dimensions > TRM_MAX_RANK) {
    FAIL(INVALID_ARGUMENT, "a shape has %zu dimensions; at most %d are supported",
         proto->n_dimensions, TRM_MAX_RANK);
  }
  if (proto->n_tuple_shapes > 0) FAIL(INVALID_ARGUMENT, "a shape that is no tuple has elements");
  if (!trm_shape_make(arena, (trm_dtype)proto->element_type, (int32_t)proto->n_dimensions,
                      proto->dimensions, out_shape)) {
    FAIL_NO_MEMORY("a shape");
  }
  for (size_t i = 0; i < proto->n_is_dynamic_dimension && i < proto->n_dimensions; ++i) {
    if (proto->is_dynamic_dimension[i]) out_shape->dynamic |= UINT32_C(1) << i;
  }
  const Tremula__Hlo__LayoutProto *layout = proto->layout;
  if (layout == NULL || layout->n_minor_to_major == 0) return TRM_OK;
  if (layout->n_minor_to_major != proto->n_dimensions) {
    FAIL(INVALID_ARGUMENT, "a layout has %zu dimensions and its shape %zu",
         layout->n_minor_to_major, proto->n_dimensions);
  }
  bool is_default = true;
  for (size_t i = 0; i < proto->n_dimensions; ++i) {
    is_default = is_default && layout->minor_to_major[i] == (int64_t)(proto->n_dimensions - 1 - i);
  }
  if (is_default) return TRM_OK;
  out_shape->layout = trm_arena_copy(arena, layout->minor_to_major,
                                     proto->n_dimensions * sizeof *layout->minor_to_major);
  CHECK_MEMORY(out_shape->layout, "a layout");
  return TRM_OK;
}

trm_status trm_proto_read_shape(trm_arena *arena, const shape_proto *proto, trm_shape *out_shape,
                                trm_error *error) {
  const shape_proto *protos[MAX_DEPTH + 1];
  trm_shape *tuples[MAX_DEPTH + 1], *elements[MAX_DEPTH + 1];
  size_t next[MAX_DEPTH + 1];
  int depth = 0;
  trm_shape root = {0};
  trm_shape *target = &root;
  const shape_proto *source = proto;
  for (;;) {
    for (int i = 0;
         i < MAX_DEPTH && source->element_type == BUFFER_TYPE && source->n_tuple_shapes == 1; ++i) {
      source = source->tuple_shapes[0];
    }
    if (source->element_type == TRM_TUPLE && depth < MAX_DEPTH) {
      const size_t count = source->n_tuple_shapes;
      if (count > INT32_MAX) FAIL(INVALID_ARGUMENT, "a tuple has too many elements");
      trm_shape *items = ARENA_NEW(arena, trm_shape, count);
      CHECK_MEMORY(items, "a shape");
      protos[depth] = source, tuples[depth] = target, elements[depth] = items, next[depth] = 0;
      ++depth;
    } else {
      TRY(read_array_shape(arena, source, target, error));
    }
    while (depth > 0 && next[depth - 1] == protos[depth - 1]->n_tuple_shapes) {
      --depth;
      *tuples[depth] = trm_shape_of_tuple((int32_t)next[depth], elements[depth]);
    }
    if (depth == 0) break;
    source = protos[depth - 1]->tuple_shapes[next[depth - 1]];
    target = &elements[depth - 1][next[depth - 1]++];
  }
  TRY(trm_shape_check(&root, error));
  *out_shape = root;
  return TRM_OK;
}

/* ---- Literals ------------------------------------------------------------------------------- */

/* The place of a literal's bytes, and the number and size of its elements. */
typedef struct values {
  const void *data;
  size_t count, stride; /* stride: bytes in the proto; may be wider than the element */
} values;

static values literal_values(const literal_proto *proto, trm_dtype dtype) {
#define BYTES(field, size) ((values){proto->field.data, proto->field.len / (size), (size)})
#define WORDS(field) ((values){proto->field, proto->n_##field, sizeof *proto->field})
  switch (dtype) {
    case TRM_PRED: return WORDS(preds);
    case TRM_S8: return BYTES(s8s, 1);
    case TRM_U8: return BYTES(u8s, 1);
    case TRM_S16: return BYTES(s16s, 2);
    case TRM_U16: return BYTES(u16s, 2);
    case TRM_F16: return BYTES(f16s, 2);
    case TRM_BF16: return BYTES(bf16s, 2);
    case TRM_S32: return WORDS(s32s);
    case TRM_U32: return WORDS(u32s);
    case TRM_F32: return WORDS(f32s);
    case TRM_S64: return WORDS(s64s);
    case TRM_U64: return WORDS(u64s);
    case TRM_F64: return WORDS(f64s);
    case TRM_C64: return (values){proto->c64s, proto->n_c64s / 2, 8};
    case TRM_C128: return (values){proto->c128s, proto->n_c128s / 2, 16};
    case TRM_S4: return BYTES(s4s, 1);
    case TRM_U4: return BYTES(u4s, 1);
    case TRM_S2: return BYTES(s2s, 1);
    case TRM_U2: return BYTES(u2s, 1);
    case TRM_S1: return BYTES(s1s, 1);
    case TRM_U1: return BYTES(u1s, 1);
    case TRM_F8E5M2: return BYTES(f8e5m2s, 1);
    case TRM_F8E4M3FN: return BYTES(f8e4m3fns, 1);
    case TRM_F8E4M3B11FNUZ: return BYTES(f8e4m3b11fnuzs, 1);
    case TRM_F8E5M2FNUZ: return BYTES(f8e5m2fnuzs, 1);
    case TRM_F8E4M3FNUZ: return BYTES(f8e4m3fnuzs, 1);
    case TRM_F8E4M3: return BYTES(f8e4m3s, 1);
    case TRM_F8E3M4: return BYTES(f8e3m4s, 1);
    case TRM_F4E2M1FN: return BYTES(f4e2m1fns, 1);
    case TRM_F8E8M0FNU: return BYTES(f8e8m0fnus, 1);
    default: return (values){0};
  }
#undef BYTES
#undef WORDS
}

/* Copies elements that a layout orders otherwise into row-major order. */
static void copy_from_layout(const trm_shape *shape, const uint8_t *from, size_t stride,
                             size_t element, uint8_t *to) {
  const int64_t count = trm_shape_count(shape);
  int64_t index[TRM_MAX_RANK] = {0}, step[TRM_MAX_RANK] = {0};
  int64_t product = 1;
  for (int32_t i = 0; i < shape->rank; ++i) {
    const int64_t dim = shape->layout != NULL ? shape->layout[i] : shape->rank - 1 - i;
    step[dim] = product;
    product *= shape->dims[dim];
  }
  int64_t source = 0;
  for (int64_t n = 0; n < count; ++n) {
    memcpy(to + (size_t)n * element, from + (size_t)source * stride, element);
    for (int32_t d = shape->rank - 1; d >= 0; --d) {
      source += step[d];
      if (++index[d] < shape->dims[d]) break;
      source -= step[d] * shape->dims[d];
      index[d] = 0;
    }
  }
}

static trm_status read_array_literal(trm_arena *arena, const literal_proto *proto,
                                     const trm_shape *shape, const void **out_bytes,
                                     trm_error *error) {
  const values source = literal_values(proto, shape->dtype);
  const size_t element = trm_dtype_size(shape->dtype);
  if ((int64_t)source.count != trm_shape_count(shape)) {
    char text[256];
    FAIL(INVALID_ARGUMENT, "its literal has %zu values where %s has %" PRId64, source.count,
         trm_shape_text(shape, text, sizeof text), trm_shape_count(shape));
  }
  uint8_t *bytes = trm_arena_allocate(arena, source.count, element);
  CHECK_MEMORY(bytes, "a literal");
  if (source.count == 0) {
    /* nothing to copy */
  } else if (shape->layout == NULL && source.stride == element) {
    memcpy(bytes, source.data, source.count * element);
  } else if (shape->dtype == TRM_PRED) {
    const protobuf_c_boolean *flags = source.data;
    uint8_t *narrow = trm_arena_allocate(arena, source.count, 1);
    CHECK_MEMORY(narrow, "a literal");
    for (size_t i = 0; i < source.count; ++i) narrow[i] = flags[i] != 0;
    copy_from_layout(shape, narrow, 1, 1, bytes);
  } else {
    copy_from_layout(shape, source.data, source.stride, element, bytes);
  }
  *out_bytes = bytes;
  return TRM_OK;
}

trm_status trm_proto_read_literal(trm_arena *arena, const literal_proto *proto,
                                  const trm_literal **out_literal, trm_error *error) {
  if (proto->shape == NULL) FAIL(INVALID_ARGUMENT, "its literal has no shape");
  trm_literal *literal = ARENA_NEW(arena, trm_literal, 1);
  CHECK_MEMORY(literal, "a literal");
  TRY(trm_proto_read_shape(arena, proto->shape, &literal->shape, error));
  const int32_t leaves = trm_shape_num_leaves(&literal->shape);
  literal->leaves = ARENA_NEW(arena, const void *, (size_t)leaves);
  CHECK_MEMORY(literal->leaves, "a literal");
  const literal_proto *protos[MAX_DEPTH + 1];
  const trm_shape *shapes[MAX_DEPTH + 1];
  int32_t next[MAX_DEPTH + 1];
  int depth = 0;
  protos[0] = proto, shapes[0] = &literal->shape, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *shape = shapes[depth];
    const literal_proto *top = protos[depth];
    if (shape->dtype != TRM_TUPLE) {
      if (!trm_shape_is_array(shape)) FAIL(INVALID_ARGUMENT, "a literal cannot hold a token");
      TRY(read_array_literal(arena, top, shape, &literal->leaves[literal->num_leaves], error));
      ++literal->num_leaves;
      --depth;
      continue;
    }
    if (top->n_tuple_literals != (size_t)shape->num_elements) {
      FAIL(INVALID_ARGUMENT, "its literal has %zu elements where its shape has %d",
           top->n_tuple_literals, shape->num_elements);
    }
    if (next[depth] == shape->num_elements) {
      --depth;
      continue;
    }
    protos[depth + 1] = top->tuple_literals[next[depth]];
    shapes[depth + 1] = &shape->elements[next[depth]++];
    next[++depth] = 0;
  }
  *out_literal = literal;
  return TRM_OK;
}
