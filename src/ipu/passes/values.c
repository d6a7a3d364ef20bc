/* Owns: finding the values of a module (values.h). */
#include "ipu/passes/values.h"

/* Whether an instruction has a border through which values are seen. */
static bool is_seen_through(const trm_instruction *i) {
  return i->num_called == 1 && (i->opcode == TRM_OP_FUSION || i->call_id == TRM_CALL_MULTI_CONV);
}

/* One step from instruction `n` towards its value; gives n itself if it is the value. */
static uint32_t step_back(const trm_values *v, uint32_t n) {
  const trm_instruction *i = trm_values_at(v, n);
  const uint32_t c = v->computation[n];
  switch (i->opcode) {
    case TRM_OP_RESHAPE:
    case TRM_OP_BITCAST:
    case TRM_OP_COPY: return v->base[c] + i->operands[0];
    case TRM_OP_BROADCAST: {
      const uint32_t from = v->base[c] + i->operands[0];
      return trm_shape_count(&trm_values_at(v, from)->shape) == trm_shape_count(&i->shape) ? from
                                                                                           : n;
    }
    case TRM_OP_PARAMETER: {
      const uint32_t caller = v->caller[c];
      if (caller == TRM_NO_INDEX || i->number < 0 ||
          i->number >= (int64_t)trm_values_at(v, caller)->num_operands) {
        return n;
      }
      return v->base[v->computation[caller]] + trm_values_at(v, caller)->operands[i->number];
    }
    case TRM_OP_FUSION: {
      const uint32_t body = i->called[0];
      const trm_computation *called = &v->module->computations[body];
      if (v->caller[body] != n || called->instructions[called->root].opcode == TRM_OP_TUPLE) {
        return n;
      }
      return v->base[body] + called->root;
    }
    case TRM_OP_GET_TUPLE_ELEMENT: {
      const uint32_t from = v->base[c] + i->operands[0];
      const trm_instruction *fusion = trm_values_at(v, from);
      if (!is_seen_through(fusion) || v->caller[fusion->called[0]] != from) return n;
      const trm_computation *called = &v->module->computations[fusion->called[0]];
      const trm_instruction *root = &called->instructions[called->root];
      if (root->opcode != TRM_OP_TUPLE || i->number < 0 ||
          i->number >= (int64_t)root->num_operands) {
        return n;
      }
      return v->base[fusion->called[0]] + root->operands[i->number];
    }
    default: return n;
  }
}

static void find_values(trm_values *v) {
  for (uint32_t n = 0; n < v->count; ++n) v->value[n] = TRM_NO_INDEX;
  for (uint32_t n = 0; n < v->count; ++n) {
    uint32_t last = n;
    while (v->value[last] == TRM_NO_INDEX) {
      const uint32_t next = step_back(v, last);
      if (next == last) v->value[last] = last;
      else last = next;
    }
    const uint32_t found = v->value[last];
    for (uint32_t m = n; v->value[m] == TRM_NO_INDEX;) { /* all steps on the way have this value */
      const uint32_t next = step_back(v, m);
      v->value[m] = found;
      m = next;
    }
  }
}

static void find_uses(trm_values *v) {
  for (uint32_t n = 0; n < v->count; ++n) v->user[n] = TRM_NO_INDEX;
  for (uint32_t n = 0; n < v->count; ++n) {
    const trm_instruction *i = trm_values_at(v, n);
    const uint32_t c = v->computation[n];
    const bool is_body = v->caller[c] != TRM_NO_INDEX;
    if (v->value[n] != n || is_seen_through(i) || (is_body && i->opcode == TRM_OP_TUPLE)) {
      continue;
    }
    const bool leaves = i->opcode == TRM_OP_TUPLE;
    for (uint32_t k = 0; k < i->num_operands; ++k) {
      const uint32_t read = trm_values_operand(v, n, k);
      ++v->uses[read];
      v->user[read] = n;
      if (leaves) v->is_output[read] = true;
    }
  }
  for (uint32_t c = 0; c < v->module->num_computations; ++c) {
    const trm_computation *computation = &v->module->computations[c];
    if (v->caller[c] != TRM_NO_INDEX || computation->num_instructions == 0) continue;
    const uint32_t root = v->value[v->base[c] + computation->root];
    ++v->uses[root];
    v->is_output[root] = true;
  }
  /* An instruction may read the tuple of a fusion of several results as a whole. All its values are
   * outputs. */
  for (uint32_t n = 0; n < v->count; ++n) {
    const trm_instruction *i = trm_values_at(v, n);
    if (i->opcode == TRM_OP_GET_TUPLE_ELEMENT || is_seen_through(i)) continue;
    for (uint32_t k = 0; k < i->num_operands; ++k) {
      const uint32_t from = v->base[v->computation[n]] + i->operands[k];
      if (!is_seen_through(trm_values_at(v, from)) || v->value[from] != from) continue;
      const trm_computation *called = &v->module->computations[trm_values_at(v, from)->called[0]];
      for (trm_index b = 0; b < called->num_instructions; ++b) {
        v->is_output[v->base[trm_values_at(v, from)->called[0]] + b] = true;
      }
    }
  }
}

static trm_status number_instructions(trm_values *v, trm_arena *arena, trm_error *error) {
  const trm_module *module = v->module;
  const size_t computations = (size_t)module->num_computations + 1;
  v->base = ARENA_NEW(arena, uint32_t, computations);
  v->caller = ARENA_NEW(arena, uint32_t, computations);
  uint32_t *callers = ARENA_NEW(arena, uint32_t, computations);
  if (v->base == NULL || v->caller == NULL || callers == NULL) FAIL_NO_MEMORY("values");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    v->base[c] = v->count;
    v->caller[c] = TRM_NO_INDEX;
    v->count += module->computations[c].num_instructions;
  }
  v->computation = ARENA_NEW(arena, uint32_t, (size_t)v->count + 1);
  CHECK_MEMORY(v->computation, "values");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      v->computation[v->base[c] + i] = c;
      for (uint32_t k = 0; k < instruction->num_called; ++k) {
        const uint32_t called = instruction->called[k];
        const bool is_one = is_seen_through(instruction) && callers[called] == 0;
        v->caller[called] = is_one ? v->base[c] + i : TRM_NO_INDEX;
        ++callers[called];
      }
    }
  }
  return TRM_OK;
}

trm_status trm_values_find(const trm_module *module, trm_arena *arena, trm_values *out_values,
                           trm_error *error) {
  trm_values v = {.module = module};
  TRY(number_instructions(&v, arena, error));
  const size_t room = (size_t)v.count + 1;
  v.value = ARENA_NEW(arena, uint32_t, room);
  v.uses = ARENA_NEW(arena, uint32_t, room);
  v.user = ARENA_NEW(arena, uint32_t, room);
  v.is_output = ARENA_NEW(arena, bool, room);
  if (v.value == NULL || v.uses == NULL || v.user == NULL || v.is_output == NULL) {
    FAIL_NO_MEMORY("values");
  }
  find_values(&v);
  find_uses(&v);
  *out_values = v;
  return TRM_OK;
}
