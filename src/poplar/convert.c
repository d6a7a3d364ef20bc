/* Owns: numbers of one type as another: constants, and values of fields. */
#include "host/ops/reference.h"
#include "poplar/graph.h"

double trm_poplar_number(int32_t dtype, const void *data, uint64_t element) {
  const trm_value value = trm_value_load((trm_dtype)dtype, data, (int64_t)element);
  return trm_value_convert((trm_dtype)dtype, TRM_F64, false, value).f;
}

trm_status trm_poplar_convert(int32_t to, void *target, uint64_t count, int32_t from,
                              const void *source, uint64_t from_count, trm_poplar_error *error) {
  const trm_dtype type = (trm_dtype)to, given = (trm_dtype)from;
  const size_t size = trm_dtype_size(type);
  if (size == 0 || trm_dtype_size(given) == 0) {
    THROW(TYPE, "numbers of type %s cannot be made of %s", trm_dtype_name(type),
          trm_dtype_name(given));
  }
  if (from_count != count && from_count != 1) {
    THROW_POPLAR("%llu values were given for %llu elements", (unsigned long long)from_count,
                 (unsigned long long)count);
  }
  if (to == from && from_count == count) {
    if (count > 0) memcpy(target, source, (size_t)count * size);
    return TRM_OK;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const trm_value value = trm_value_load(given, source, from_count == 1 ? 0 : (int64_t)i);
    trm_value_store(type, target, (int64_t)i, trm_value_convert(given, type, false, value));
  }
  return TRM_OK;
}
