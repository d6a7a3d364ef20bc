/* Owns: the arithmetic of all-reduces between instances. */
#include "group/reduce.h"

#include "base/half.h"

#define SAME(value) (value)

/* TYPE: of an element in memory; SUM: of the sum, in which integers wrap; VALUE: what the sum
 * means; WIDE: in which a mean divides; LOAD and STORE: between memory and sum. */
#define REDUCE(NAME, TYPE, SUM, VALUE, WIDE, LOAD, STORE)                                       \
  static void reduce_##NAME(const TYPE *operands, bool mean, uint32_t num, size_t count,        \
                            TYPE *out) {                                                        \
    for (size_t i = 0; i < count; ++i) {                                                        \
      SUM sum = (SUM)LOAD(operands[i]);                                                         \
      for (uint32_t r = 1; r < num; ++r) sum = (SUM)(sum + (SUM)LOAD(operands[r * count + i])); \
      out[i] = (TYPE)STORE(mean ? (VALUE)((WIDE)(VALUE)sum / (WIDE)num) : (VALUE)sum);          \
    }                                                                                           \
  }

/* REDUCIBLE(dtype, the arguments of REDUCE) */
#define REDUCIBLES(REDUCIBLE)                                                              \
  REDUCIBLE(S8, s8, int8_t, uint8_t, int8_t, int64_t, SAME, SAME)                          \
  REDUCIBLE(S16, s16, int16_t, uint16_t, int16_t, int64_t, SAME, SAME)                     \
  REDUCIBLE(S32, s32, int32_t, uint32_t, int32_t, int64_t, SAME, SAME)                     \
  REDUCIBLE(S64, s64, int64_t, uint64_t, int64_t, int64_t, SAME, SAME)                     \
  REDUCIBLE(U8, u8, uint8_t, uint8_t, uint8_t, uint64_t, SAME, SAME)                       \
  REDUCIBLE(U16, u16, uint16_t, uint16_t, uint16_t, uint64_t, SAME, SAME)                  \
  REDUCIBLE(U32, u32, uint32_t, uint32_t, uint32_t, uint64_t, SAME, SAME)                  \
  REDUCIBLE(U64, u64, uint64_t, uint64_t, uint64_t, uint64_t, SAME, SAME)                  \
  REDUCIBLE(F16, f16, uint16_t, float, float, float, trm_half_to_float, trm_float_to_half) \
  REDUCIBLE(BF16, bf16, uint16_t, float, float, float, trm_bfloat16_to_float,              \
            trm_float_to_bfloat16)                                                         \
  REDUCIBLE(F32, f32, float, float, float, float, SAME, SAME)                              \
  REDUCIBLE(F64, f64, double, double, double, double, SAME, SAME)

#define DEFINE(dtype, ...) REDUCE(__VA_ARGS__)
REDUCIBLES(DEFINE)

bool trm_group_can_reduce(trm_dtype dtype) {
#define TEST(id, ...) \
  if (dtype == TRM_##id) return true;
  REDUCIBLES(TEST)
  return false;
}

void trm_group_reduce(trm_dtype dtype, trm_collective_op op, const void *operands, uint32_t num,
                      size_t count, void *out) {
  const bool mean = op == TRM_COLLECTIVE_MEAN;
#define CALL(id, name, ...) \
  if (dtype == TRM_##id) reduce_##name(operands, mean, num, count, out);
  REDUCIBLES(CALL)
}
