/* Owns: what the fast kernels of reductions share: addresses, the function of an opcode. */
#include "host/ops/reduce/fast_reduce.h"

int64_t trm_reduce_offset(int32_t rank, const int64_t *dims, const int64_t *strides,
                          int64_t index) {
  int64_t offset = 0;
  for (int32_t d = rank - 1; d > 0; --d) {
    offset += index % dims[d] * strides[d];
    index /= dims[d];
  }
  return rank > 0 ? offset + index * strides[0] : 0;
}

trm_vector_fn trm_reduce_vector_fn(trm_opcode opcode, trm_dtype dtype) {
  static const struct {
    trm_dtype dtype;
    trm_vector_type type;
  } types[] = {{TRM_PRED, TRM_V_PRED}, {TRM_S8, TRM_V_S8},   {TRM_S16, TRM_V_S16},
               {TRM_S32, TRM_V_S32},   {TRM_S64, TRM_V_S64}, {TRM_U8, TRM_V_U8},
               {TRM_U16, TRM_V_U16},   {TRM_U32, TRM_V_U32}, {TRM_U64, TRM_V_U64},
               {TRM_F32, TRM_V_F32},   {TRM_F64, TRM_V_F64}};
  if (opcode == TRM_NUM_OPCODES) return NULL;
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (types[i].dtype == dtype) return trm_vector_ops_get()->op[opcode][types[i].type];
  }
  return NULL;
}
