/* Owns: writing shapes and literals as protos. Neither recurses. */
#include "hlo/proto_write.h"

typedef Tremula__Hlo__ShapeProto shape_proto;
typedef trm_proto_writer writer;

static trm_status write_array_shape(writer *w, const trm_shape *shape, shape_proto *proto,
                                    trm_error *error) {
  proto->element_type = (int32_t)shape->dtype;
  if (!trm_shape_is_array(shape)) return TRM_OK;
  const size_t rank = (size_t)shape->rank;
  NEW_PROTO(w, layout, LayoutProto, tremula__hlo__layout_proto);
  int64_t *minor_to_major = ARENA_NEW(&w->arena, int64_t, rank);
  proto->is_dynamic_dimension = ARENA_NEW(&w->arena, protobuf_c_boolean, rank);
  if (minor_to_major == NULL || proto->is_dynamic_dimension == NULL) FAIL_NO_MEMORY("a shape");
  for (size_t i = 0; i < rank; ++i) {
    minor_to_major[i] =
        shape->layout != NULL && !w->plain_layouts ? shape->layout[i] : (int64_t)(rank - 1 - i);
    proto->is_dynamic_dimension[i] = (shape->dynamic >> i & 1) != 0;
  }
  proto->n_dimensions = proto->n_is_dynamic_dimension = rank;
  proto->dimensions = (int64_t *)shape->dims;
  layout->n_minor_to_major = rank;
  layout->minor_to_major = minor_to_major;
  proto->layout = layout;
  return TRM_OK;
}

enum { MAX_DEPTH = 64 }; /* what trm_shape_check lets through */

trm_status trm_proto_write_shape(writer *w, const trm_shape *shape, shape_proto **out_proto,
                                 trm_error *error) {
  const trm_shape *shapes[MAX_DEPTH + 1];
  shape_proto *protos[MAX_DEPTH + 1];
  int32_t next[MAX_DEPTH + 1];
  int depth = 0;
  NEW_PROTO(w, root, ShapeProto, tremula__hlo__shape_proto);
  shapes[0] = shape, protos[0] = root, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *top = shapes[depth];
    shape_proto *proto = protos[depth];
    if (top->dtype != TRM_TUPLE) {
      TRY(write_array_shape(w, top, proto, error));
      --depth;
      continue;
    }
    if (next[depth] == 0) {
      proto->element_type = TRM_TUPLE;
      proto->n_tuple_shapes = (size_t)top->num_elements;
      proto->tuple_shapes = ARENA_NEW(&w->arena, shape_proto *, (size_t)top->num_elements);
      CHECK_MEMORY(proto->tuple_shapes, "a shape");
    }
    if (next[depth] == top->num_elements) {
      --depth;
      continue;
    }
    if (depth == MAX_DEPTH) FAIL(INVALID_ARGUMENT, "tuples are nested too deep");
    NEW_PROTO(w, element, ShapeProto, tremula__hlo__shape_proto);
    proto->tuple_shapes[next[depth]] = element;
    shapes[depth + 1] = &top->elements[next[depth]++];
    protos[depth + 1] = element;
    next[++depth] = 0;
  }
  *out_proto = root;
  return TRM_OK;
}

static trm_status write_values(writer *w, const trm_shape *shape, const void *bytes,
                               Tremula__Hlo__LiteralProto *proto, trm_error *error) {
  const size_t count = (size_t)trm_shape_count(shape);
  const ProtobufCBinaryData raw = {trm_shape_bytes(shape), (uint8_t *)bytes};
#define WORDS(dtype, field, type, parts) \
  case dtype:                            \
    proto->n_##field = count * (parts);  \
    proto->field = (type *)bytes;        \
    return TRM_OK;
#define BYTES(dtype, field) \
  case dtype: proto->field = raw; return TRM_OK;
  switch (shape->dtype) {
    WORDS(TRM_S32, s32s, int32_t, 1)
    WORDS(TRM_U32, u32s, uint32_t, 1)
    WORDS(TRM_S64, s64s, int64_t, 1)
    WORDS(TRM_U64, u64s, uint64_t, 1)
    WORDS(TRM_F32, f32s, float, 1)
    WORDS(TRM_F64, f64s, double, 1)
    WORDS(TRM_C64, c64s, float, 2)
    WORDS(TRM_C128, c128s, double, 2)
    BYTES(TRM_S8, s8s)
    BYTES(TRM_U8, u8s)
    BYTES(TRM_S16, s16s)
    BYTES(TRM_U16, u16s)
    BYTES(TRM_F16, f16s)
    BYTES(TRM_BF16, bf16s)
    BYTES(TRM_S4, s4s)
    BYTES(TRM_U4, u4s)
    BYTES(TRM_S2, s2s)
    BYTES(TRM_U2, u2s)
    BYTES(TRM_S1, s1s)
    BYTES(TRM_U1, u1s)
    BYTES(TRM_F8E5M2, f8e5m2s)
    BYTES(TRM_F8E4M3FN, f8e4m3fns)
    BYTES(TRM_F8E4M3B11FNUZ, f8e4m3b11fnuzs)
    BYTES(TRM_F8E5M2FNUZ, f8e5m2fnuzs)
    BYTES(TRM_F8E4M3FNUZ, f8e4m3fnuzs)
    BYTES(TRM_F8E4M3, f8e4m3s)
    BYTES(TRM_F8E3M4, f8e3m4s)
    BYTES(TRM_F4E2M1FN, f4e2m1fns)
    BYTES(TRM_F8E8M0FNU, f8e8m0fnus)
    case TRM_PRED:
      proto->n_preds = count;
      proto->preds = ARENA_NEW(&w->arena, protobuf_c_boolean, count);
      CHECK_MEMORY(proto->preds, "a literal");
      for (size_t i = 0; i < count; ++i) proto->preds[i] = ((const uint8_t *)bytes)[i] != 0;
      return TRM_OK;
    default: FAIL(INVALID_ARGUMENT, "a literal cannot hold %s", trm_dtype_name(shape->dtype));
  }
#undef WORDS
#undef BYTES
}

trm_status trm_proto_write_literal(writer *w, const trm_literal *literal,
                                   Tremula__Hlo__LiteralProto **out_proto, trm_error *error) {
  const trm_shape *shapes[MAX_DEPTH + 1];
  Tremula__Hlo__LiteralProto *protos[MAX_DEPTH + 1];
  int32_t next[MAX_DEPTH + 1];
  int depth = 0;
  int32_t leaf = 0;
  NEW_PROTO(w, root, LiteralProto, tremula__hlo__literal_proto);
  shapes[0] = &literal->shape, protos[0] = root, next[0] = 0;
  while (depth >= 0) {
    const trm_shape *shape = shapes[depth];
    Tremula__Hlo__LiteralProto *proto = protos[depth];
    if (shape->dtype != TRM_TUPLE) {
      if (leaf == literal->num_leaves) FAIL(INVALID_ARGUMENT, "a literal has too few arrays");
      TRY(trm_proto_write_shape(w, shape, &proto->shape, error));
      TRY(write_values(w, shape, literal->leaves[leaf++], proto, error));
      --depth;
      continue;
    }
    if (next[depth] == 0) {
      TRY(trm_proto_write_shape(w, shape, &proto->shape, error));
      proto->n_tuple_literals = (size_t)shape->num_elements;
      proto->tuple_literals =
          ARENA_NEW(&w->arena, Tremula__Hlo__LiteralProto *, (size_t)shape->num_elements);
      CHECK_MEMORY(proto->tuple_literals, "a literal");
    }
    if (next[depth] == shape->num_elements) {
      --depth;
      continue;
    }
    if (depth == MAX_DEPTH) FAIL(INVALID_ARGUMENT, "tuples are nested too deep");
    NEW_PROTO(w, element, LiteralProto, tremula__hlo__literal_proto);
    proto->tuple_literals[next[depth]] = element;
    shapes[depth + 1] = &shape->elements[next[depth]++];
    protos[depth + 1] = element;
    next[++depth] = 0;
  }
  *out_proto = root;
  return TRM_OK;
}
