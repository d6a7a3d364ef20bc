/* Owns: the shapes of opcodes that move elements, make them or sort them into tuples. */
#include <inttypes.h>
#include <string.h>

#include "hlo/infer.h"

static trm_status infer_broadcast(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0), *stated = &c->instruction->shape;
  const trm_dims *dims = &c->instruction->dimensions;
  TRY(trm_infer_give_stated(c));
  CHECK(c, stated->dtype == operand->dtype, "changes the element type from %s to %s",
        trm_dtype_name(operand->dtype), trm_dtype_name(stated->dtype));
  CHECK(c, dims->count == operand->rank, "names %d dimensions for an operand that has %d",
        dims->count, operand->rank);
  TRY(trm_infer_check_distinct(c, "dimensions", dims, stated->rank));
  for (int32_t i = 0; i < operand->rank; ++i) {
    CHECK(c, operand->dims[i] == stated->dims[dims->items[i]],
          "dimension %d of operand %s becomes dimension %" PRId64
          " of %s; their sizes must be equal",
          i, trm_infer_text(c, operand), dims->items[i], trm_infer_text(c, stated));
  }
  return TRM_OK;
}

static trm_status infer_reshape(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0), *stated = &c->instruction->shape;
  TRY(trm_infer_give_stated(c));
  CHECK(c, stated->dtype == operand->dtype && trm_shape_count(stated) == trm_shape_count(operand),
        "%s cannot become %s: type and number of elements must stay", trm_infer_text(c, operand),
        trm_infer_text(c, stated));
  return TRM_OK;
}

/* A reshape whose operands behind the first say the sizes of the result. */
static trm_status infer_dynamic_reshape(trm_inference *c) {
  const uint32_t sizes = c->instruction->num_operands - 1;
  TRY(infer_reshape(c));
  CHECK(c, (int32_t)sizes == c->out_shape->rank, "has %" PRIu32 " sizes for %s", sizes,
        trm_infer_text(c, c->out_shape));
  for (uint32_t i = 1; i <= sizes; ++i) {
    const trm_shape *size = trm_infer_operand(c, i);
    CHECK(c, trm_shape_is_scalar(size) && trm_dtype_is_integral(size->dtype),
          "operand %" PRIu32 " must be an integer, not %s", i, trm_infer_text(c, size));
  }
  return TRM_OK;
}

static trm_status infer_bitcast(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0), *stated = &c->instruction->shape;
  TRY(trm_infer_give_stated(c));
  CHECK(c, trm_shape_bytes(stated) == trm_shape_bytes(operand),
        "%s cannot be seen as %s: they differ in bytes", trm_infer_text(c, operand),
        trm_infer_text(c, stated));
  return TRM_OK;
}

/* A wider element comes from, or goes to, a last dimension of narrow ones. */
static trm_status infer_bitcast_convert(trm_inference *c) {
  const trm_shape *from = trm_infer_operand(c, 0);
  const trm_dtype to = c->instruction->shape.dtype;
  const int64_t old_size = (int64_t)trm_dtype_bits(from->dtype);
  const int64_t new_size = (int64_t)trm_dtype_bits(to);
  CHECK(c, new_size > 0, "the element type to convert to is not stated");
  CHECK(c, trm_dtype_is_complex(from->dtype) == trm_dtype_is_complex(to),
        "cannot convert between complex and real: %s to %s", trm_dtype_name(from->dtype),
        trm_dtype_name(to));
  CHECK(c, (from->dtype == TRM_PRED) == (to == TRM_PRED), "cannot convert %s to %s",
        trm_dtype_name(from->dtype), trm_dtype_name(to));
  int64_t dims[TRM_MAX_RANK + 1];
  int32_t rank = from->rank;
  if (rank > 0) memcpy(dims, from->dims, (size_t)rank * sizeof *dims);
  if (new_size < old_size) {
    dims[rank++] = old_size / new_size;
  } else if (new_size > old_size) {
    CHECK(c, rank > 0 && dims[rank - 1] == new_size / old_size,
          "the last dimension of %s must have %" PRId64 " elements to make one %s",
          trm_infer_text(c, from), new_size / old_size, trm_dtype_name(to));
    --rank;
  }
  return trm_infer_give(c, to, rank, dims);
}

static trm_status infer_transpose(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0);
  const trm_dims *dims = &c->instruction->dimensions;
  int64_t out[TRM_MAX_RANK];
  CHECK(c, dims->count == operand->rank, "permutes %d dimensions of an operand that has %d",
        dims->count, operand->rank);
  TRY(trm_infer_check_distinct(c, "dimensions", dims, operand->rank));
  for (int32_t i = 0; i < operand->rank; ++i) out[i] = operand->dims[dims->items[i]];
  return trm_infer_give(c, operand->dtype, operand->rank, out);
}

static trm_status infer_slice(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0);
  int64_t out[TRM_MAX_RANK];
  CHECK(c, c->instruction->slice != NULL, "has no slice attribute");
  CHECK(c,
        !trm_shape_is_array(&c->instruction->shape) || c->instruction->shape.rank == operand->rank,
        "operand %s and result %s must have equally many dimensions", trm_infer_text(c, operand),
        trm_infer_text(c, &c->instruction->shape));
  for (int32_t i = 0; i < operand->rank; ++i) {
    const trm_slice_dimension *s = &c->instruction->slice[i];
    CHECK(c, s->start >= 0 && s->start <= s->limit && s->limit <= operand->dims[i],
          "takes [%" PRId64 ":%" PRId64 "] of dimension %d of %s", s->start, s->limit, i,
          trm_infer_text(c, operand));
    CHECK(c, s->stride >= 1, "the stride of dimension %d is %" PRId64 "; it must be at least 1", i,
          s->stride);
    out[i] = s->limit == s->start ? 0 : (s->limit - s->start - 1) / s->stride + 1;
  }
  return trm_infer_give(c, operand->dtype, operand->rank, out);
}

/* Start indices: one integer scalar a dimension, all of one type; in old modules one array. */
static trm_status check_start_indices(trm_inference *c, uint32_t first, int32_t rank) {
  if (c->instruction->num_operands == first + 1 && trm_infer_operand(c, first)->rank == 1) {
    const trm_shape *indices = trm_infer_operand(c, first);
    CHECK(c, indices->dims[0] == rank && trm_dtype_is_integral(indices->dtype),
          "the start indices must be %d integers, not %s", rank, trm_infer_text(c, indices));
    return TRM_OK;
  }
  CHECK(c, c->instruction->num_operands == first + (uint32_t)rank,
        "takes %d start indices, one a dimension, not %" PRIu32, rank,
        c->instruction->num_operands - first);
  for (uint32_t i = first; i < c->instruction->num_operands; ++i) {
    const trm_shape *index = trm_infer_operand(c, i);
    CHECK(c, index->rank == 0 && trm_dtype_is_integral(index->dtype),
          "start index %" PRIu32 " must be an integer scalar, not %s", i - first,
          trm_infer_text(c, index));
    CHECK(c, index->dtype == trm_infer_operand(c, first)->dtype,
          "all start indices must have one type");
  }
  return TRM_OK;
}

static trm_status infer_dynamic_slice(trm_inference *c) {
  TRY(trm_infer_check_operands(c, 1));
  const trm_shape *operand = trm_infer_operand(c, 0);
  const trm_dims *sizes = &c->instruction->sizes;
  TRY(check_start_indices(c, 1, operand->rank));
  CHECK(c, sizes->count == operand->rank,
        "has %d slice sizes for an operand that has %d dimensions", sizes->count, operand->rank);
  for (int32_t i = 0; i < operand->rank; ++i) {
    CHECK(c, sizes->items[i] >= 0 && sizes->items[i] <= operand->dims[i],
          "takes %" PRId64 " elements of dimension %d of %s", sizes->items[i], i,
          trm_infer_text(c, operand));
  }
  return trm_infer_give(c, operand->dtype, operand->rank, sizes->items);
}

static trm_status infer_dynamic_update_slice(trm_inference *c) {
  TRY(trm_infer_check_operands(c, 2));
  const trm_shape *operand = trm_infer_operand(c, 0), *update = trm_infer_operand(c, 1);
  CHECK(c, update->dtype == operand->dtype && update->rank == operand->rank,
        "the update %s does not fit the operand %s", trm_infer_text(c, update),
        trm_infer_text(c, operand));
  for (int32_t i = 0; i < operand->rank; ++i) {
    CHECK(c, update->dims[i] <= operand->dims[i], "the update %s is larger than the operand %s",
          trm_infer_text(c, update), trm_infer_text(c, operand));
  }
  TRY(check_start_indices(c, 2, operand->rank));
  return trm_infer_give_same(c, operand);
}

static trm_status infer_concatenate(trm_inference *c) {
  TRY(trm_infer_check_operands(c, 1));
  const trm_shape *first = trm_infer_operand(c, 0);
  const trm_dims *dims = &c->instruction->dimensions;
  CHECK(c, dims->count == 1, "names %d dimensions; it takes one", dims->count);
  const int64_t along = dims->items[0];
  CHECK(c, along >= 0 && along < first->rank, "dimension %" PRId64 " is not one of %s", along,
        trm_infer_text(c, first));
  int64_t out[TRM_MAX_RANK];
  memcpy(out, first->dims, (size_t)first->rank * sizeof *out);
  for (uint32_t i = 1; i < c->instruction->num_operands; ++i) {
    const trm_shape *next = trm_infer_operand(c, i);
    bool fits = next->dtype == first->dtype && next->rank == first->rank;
    for (int32_t d = 0; fits && d < first->rank; ++d) {
      fits = d == along || next->dims[d] == first->dims[d];
    }
    CHECK(c, fits, "%s and %s differ in more than dimension %" PRId64, trm_infer_text(c, first),
          trm_infer_text(c, next), along);
    CHECK(c, !__builtin_add_overflow(out[along], next->dims[along], &out[along]),
          "the result is too large");
  }
  return trm_infer_give(c, first->dtype, first->rank, out);
}

static trm_status infer_pad(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0), *value = trm_infer_operand(c, 1);
  const int64_t limit = (int64_t)1 << 40;
  int64_t out[TRM_MAX_RANK];
  CHECK(c, value->rank == 0 && value->dtype == operand->dtype,
        "the padding value must be %s[], not %s", trm_dtype_name(operand->dtype),
        trm_infer_text(c, value));
  CHECK(c, c->instruction->padding != NULL, "has no padding attribute");
  CHECK(c,
        !trm_shape_is_array(&c->instruction->shape) || c->instruction->shape.rank == operand->rank,
        "operand %s and result %s must have equally many dimensions", trm_infer_text(c, operand),
        trm_infer_text(c, &c->instruction->shape));
  for (int32_t i = 0; i < operand->rank; ++i) {
    const trm_padding_dimension *p = &c->instruction->padding[i];
    int64_t between = 0;
    CHECK(c, p->interior >= 0, "the interior padding of dimension %d is negative", i);
    CHECK(c,
          p->low > -limit && p->low < limit && p->high > -limit && p->high < limit &&
              !__builtin_mul_overflow(operand->dims[i] > 0 ? operand->dims[i] - 1 : 0, p->interior,
                                      &between) &&
              between < limit,
          "the padding of dimension %d is too large", i);
    out[i] = operand->dims[i] + between + p->low + p->high;
    CHECK(c, out[i] >= 0, "dimension %d of %s would get the size %" PRId64, i,
          trm_infer_text(c, operand), out[i]);
  }
  return trm_infer_give(c, operand->dtype, operand->rank, out);
}

static trm_status infer_iota(trm_inference *c) {
  const trm_shape *stated = &c->instruction->shape;
  const trm_dims *dims = &c->instruction->dimensions;
  TRY(trm_infer_give_stated(c));
  CHECK(c, stated->dtype != TRM_PRED, "is not defined for element type pred");
  CHECK(c, dims->count == 1 && dims->items[0] >= 0 && dims->items[0] < stated->rank,
        "must name one dimension of its result %s", trm_infer_text(c, stated));
  return TRM_OK;
}

static trm_status infer_constant(trm_inference *c) {
  const trm_literal *literal = c->instruction->literal;
  const trm_shape *stated = &c->instruction->shape;
  CHECK(c, literal != NULL, "has no literal");
  CHECK(c, stated->dtype == TRM_INVALID_TYPE || trm_shape_equal(stated, &literal->shape),
        "its literal is %s and its shape %s", trm_infer_text(c, &literal->shape),
        trm_infer_text(c, stated));
  return trm_infer_give_same(c, &literal->shape);
}

static trm_status infer_tuple(trm_inference *c) {
  trm_error *error = c->error;
  const uint32_t count = c->instruction->num_operands;
  CHECK(c, count <= INT32_MAX / 2, "has too many elements");
  trm_shape *elements = ARENA_NEW(&c->module->arena, trm_shape, count);
  CHECK_MEMORY(elements, "a shape");
  for (uint32_t i = 0; i < count; ++i) elements[i] = *trm_infer_operand(c, i);
  const trm_shape shape = trm_shape_of_tuple((int32_t)count, elements);
  TRY(trm_shape_check(&shape, error));
  return trm_infer_give_same(c, &shape);
}

static trm_status infer_get_tuple_element(trm_inference *c) {
  const trm_shape *tuple = trm_infer_operand(c, 0);
  const int64_t index = c->instruction->number;
  CHECK(c, tuple->dtype == TRM_TUPLE, "the operand must be a tuple, not %s",
        trm_infer_text(c, tuple));
  CHECK(c, index >= 0 && index < tuple->num_elements,
        "element %" PRId64 " of a tuple that has %d does not exist", index, tuple->num_elements);
  return trm_infer_give_same(c, &tuple->elements[index]);
}

/* Either a shift for each dimension that it names, or indices: literals of the operand's sizes (or
 * 1) with a place along each such dimension. */
static trm_status infer_shuffle(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0);
  const trm_dims *dims = &c->instruction->dimensions;
  const trm_literal *indices = c->instruction->literal;
  TRY(trm_infer_check_distinct(c, "dimensions", dims, operand->rank));
  CHECK(c, (indices == NULL) == (c->instruction->sizes.count > 0) || dims->count == 0,
        "takes shifts or indices");
  if (indices == NULL) {
    CHECK(c, c->instruction->sizes.count == dims->count, "has %d shifts for %d dimensions",
          c->instruction->sizes.count, dims->count);
    return trm_infer_give_same(c, operand);
  }
  const trm_shape *from = &indices->shape;
  bool fits = from->rank == operand->rank + (from->rank == operand->rank ? 0 : 1) &&
              (trm_dtype_kind(from->dtype) == TRM_KIND_SIGNED ||
               trm_dtype_kind(from->dtype) == TRM_KIND_UNSIGNED);
  for (int32_t d = 0; fits && d < operand->rank; ++d) {
    fits = from->dims[d] == 1 || from->dims[d] == operand->dims[d];
  }
  fits = fits && dims->count == (from->rank > operand->rank ? from->dims[operand->rank] : 1);
  CHECK(c, fits, "the indices %s do not fit the operand %s and %d dimensions",
        trm_infer_text(c, from), trm_infer_text(c, operand), dims->count);
  return trm_infer_give_same(c, operand);
}

static trm_status infer_parameter(trm_inference *c) {
  trm_error *error = c->error;
  const trm_shape *stated = &c->instruction->shape;
  CHECK(c, c->instruction->number >= 0, "its number is negative");
  TRY(trm_shape_check(stated, error));
  return trm_infer_give_same(c, stated);
}

trm_status trm_infer_data(trm_inference *c) {
  switch (c->instruction->opcode) {
    case TRM_OP_TUPLE: return infer_tuple(c);
    case TRM_OP_GET_TUPLE_ELEMENT: return infer_get_tuple_element(c);
    case TRM_OP_COPY: /* of a tuple too */ return trm_infer_give_same(c, trm_infer_operand(c, 0));
    case TRM_OP_PARAMETER: return infer_parameter(c);
    case TRM_OP_CONSTANT: return infer_constant(c);
    case TRM_OP_IOTA: return infer_iota(c);
    case TRM_OP_PARTITION_ID:
    case TRM_OP_REPLICA_ID: return trm_infer_give(c, TRM_U32, 0, NULL);
    default: break;
  }
  TRY(trm_infer_check_arrays(c));
  switch (c->instruction->opcode) {
    case TRM_OP_BROADCAST: return infer_broadcast(c);
    case TRM_OP_RESHAPE: return infer_reshape(c);
    case TRM_OP_DYNAMIC_RESHAPE: return infer_dynamic_reshape(c);
    case TRM_OP_BITCAST: return infer_bitcast(c);
    case TRM_OP_BITCAST_CONVERT: return infer_bitcast_convert(c);
    case TRM_OP_TRANSPOSE: return infer_transpose(c);
    case TRM_OP_SLICE: return infer_slice(c);
    case TRM_OP_DYNAMIC_SLICE: return infer_dynamic_slice(c);
    case TRM_OP_DYNAMIC_UPDATE_SLICE: return infer_dynamic_update_slice(c);
    case TRM_OP_CONCATENATE: return infer_concatenate(c);
    case TRM_OP_PAD: return infer_pad(c);
    case TRM_OP_SHUFFLE: return infer_shuffle(c);
    case TRM_OP_REVERSE:
      TRY(trm_infer_check_distinct(c, "dimensions", &c->instruction->dimensions,
                                   trm_infer_operand(c, 0)->rank));
      return trm_infer_give_same(c, trm_infer_operand(c, 0));
    default:
      return trm_infer_fail(c, TRM_UNIMPLEMENTED,
                            "is not supported: all shapes must be known at compile time");
  }
}
