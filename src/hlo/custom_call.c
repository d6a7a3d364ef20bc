/* Owns: the table of custom calls (custom_calls.def). */
#include <string.h>

#include "hlo/hlo.h"

typedef struct call_row {
  const char *target;
  trm_opcode like;
  trm_opcode_replicas replicas;
} call_row;

static const call_row table[TRM_NUM_CALLS] = {
    [TRM_CALL_NONE] = {"", TRM_OP_CUSTOM_CALL, TRM_REPLICAS_OWN},
#define CUSTOM_CALL(id, target, like, kernel, cost, replicas, events) \
  [TRM_CALL_##id] = {target, TRM_OP_##like, TRM_REPLICAS_##replicas},
#include "hlo/custom_calls.def"
#undef CUSTOM_CALL
};

static bool fits(const char *pattern, const char *target) {
  for (; *pattern != '\0'; ++pattern, ++target) {
    if (*pattern == '*') return true;
    const bool good =
        *pattern == '?' ? *target != '\0' && strchr("sdcz", *target) != NULL : *pattern == *target;
    if (!good) return false;
  }
  return *target == '\0';
}

trm_call_id trm_call_find(const char *target) {
  for (int id = TRM_CALL_NONE + 1; target != NULL && id < TRM_NUM_CALLS; ++id) {
    if (fits(table[id].target, target)) return (trm_call_id)id;
  }
  return TRM_CALL_NONE;
}

const char *trm_call_target(trm_call_id id) { return table[id].target; }

trm_opcode_replicas trm_call_replicas(trm_call_id id) { return table[id].replicas; }

trm_opcode trm_instruction_acts_as(const trm_instruction *instruction) {
  return instruction->opcode == TRM_OP_CUSTOM_CALL ? table[instruction->call_id].like
                                                   : instruction->opcode;
}
