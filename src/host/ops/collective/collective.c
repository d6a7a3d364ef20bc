/* Owns: what a collective instruction means: its attributes or its custom call's configuration, its
 * groups, and the meeting of the replicas.
 *
 * Custom calls, and the members of their backend_config beside "group_size" (0: all replicas):
 *   tremula.all-reduce          {"op": "add" | "mul" | "min" | "max" | "logical_and" | "logical_or"
 *                                      | "square_add" | "local" | "mean"}
 *   tremula.all-gather          the result has one dimension more, the first
 *   tremula.all-to-all          {"split": dimension, "concat": dimension}
 *   tremula.reduce-scatter      {"op": ...}; arrays of rank 1, padded with zeros where they do not
 *                               divide
 *   tremula.replication-factor  s32[] */
#include "host/ops/collective/collective.h"

#include "hlo/config.h"

static const char *const combine_names[] = {
    "add", "mul", "min", "max", "logical_and", "logical_or", "square_add", "local", "mean"};

static trm_collective_state *state_of(const trm_kernel *kernel) {
  return (trm_collective_state *)kernel->state;
}

/* ---- Meeting -------------------------------------------------------------------------------- */

typedef struct meeting {
  uint32_t replica, num_replicas;
  const trm_kernel_call *const *calls;
  trm_members group;
} meeting;

static trm_status find_in_groups(const trm_replica_groups *groups, uint32_t replica,
                                 uint32_t num_replicas, trm_members *out, trm_error *error) {
  for (int32_t g = 0; g < groups->count; ++g) {
    const trm_dims *members = &groups->groups[g];
    for (int32_t i = 0; i < members->count; ++i) {
      if (members->items[i] >= num_replicas) {
        FAIL(
            INVALID_ARGUMENT,
            "replica group %d names replica %lld, but the program runs on %u; the option ipus says "
            "on how many",
            g, (long long)members->items[i], num_replicas);
      }
      if (members->items[i] != replica) continue;
      *out = (trm_members){members->items, 0, (uint32_t)members->count, (uint32_t)i};
    }
  }
  return TRM_OK;
}

static trm_status find_group(const void *of, uint32_t replica, uint32_t num_replicas,
                             trm_members *out, trm_error *error) {
  const trm_collective_state *state = of;
  *out = (trm_members){0};
  if (state->groups.count > 0) {
    return find_in_groups(&state->groups, replica, num_replicas, out, error);
  }
  const int64_t size = state->group_size > 0 ? state->group_size : num_replicas;
  if (num_replicas % size != 0) {
    FAIL(INVALID_ARGUMENT,
         "The replica group size (got %lld) does not evenly divide the total number of replicas "
         "(got %u)",
         (long long)size, num_replicas);
  }
  *out = (trm_members){NULL, replica / size * size, (uint32_t)size, (uint32_t)(replica % size)};
  return TRM_OK;
}

/* Of a collective-permute, whose pairs may name any replica: all. */
static trm_status find_all(const void *of, uint32_t replica, uint32_t num_replicas,
                           trm_members *out, trm_error *error) {
  (void)of, (void)error;
  *out = (trm_members){NULL, 0, num_replicas, replica};
  return TRM_OK;
}

/* The elements of an all-reduce that the member at `position` combines. They are whole cache lines,
 * so that no two replicas write to one line. */
static void find_share(int64_t count, uint32_t num, uint32_t position, int64_t *begin,
                       int64_t *end) {
  const int64_t lines = (count + 63) / 64;
  *begin = lines * position / num * 64;
  *end = lines * (position + 1) / num * 64;
  if (*begin > count) *begin = count;
  if (*end > count) *end = count;
}

static size_t operand_bytes(const void *of, uint32_t leaf) {
  return trm_shape_bytes(&((const trm_collective_state *)of)->base.operands[leaf]);
}

static void need_all(const void *of, uint32_t leaf, uint32_t count, uint32_t position,
                     size_t *begin, size_t *end) {
  (void)count, (void)position;
  *begin = 0;
  *end = operand_bytes(of, leaf);
}

static void need_share(const void *of, uint32_t leaf, uint32_t count, uint32_t position,
                       size_t *begin, size_t *end) {
  const trm_collective_state *state = of;
  const trm_shape *operand = &state->base.operands[leaf];
  const size_t size = trm_dtype_size(operand->dtype);
  int64_t from = 0, to = 0;
  if (state->combine != TRM_COMBINE_LOCAL) {
    find_share(trm_shape_count(operand), count, position, &from, &to);
  }
  *begin = (size_t)from * size;
  *end = (size_t)to * size;
}

/* Of a reduce-scatter along the first dimension. */
static void need_rows(const void *of, uint32_t leaf, uint32_t count, uint32_t position,
                      size_t *begin, size_t *end) {
  const trm_collective_state *state = of;
  const trm_shape *result = trm_shape_leaf(&state->base.shape, (int32_t)leaf);
  const size_t all = operand_bytes(of, leaf), shard = trm_shape_bytes(result);
  (void)count;
  *begin = state->combine == TRM_COMBINE_LOCAL || shard * position > all ? all : shard * position;
  *end = state->combine == TRM_COMBINE_LOCAL || all - *begin < shard ? all : *begin + shard;
}

/* Meets the other replicas. With a single replica *alone is the only call. */
static trm_status meet(const trm_kernel *kernel, const trm_kernel_call *call,
                       const trm_kernel_call **alone, meeting *m, trm_error *error) {
  trm_exchange *exchange = call->exchange;
  *alone = call;
  *m = (meeting){.num_replicas = 1, .calls = alone};
  if (exchange != NULL) {
    m->replica = exchange->replica;
    m->num_replicas = exchange->num_replicas;
  }
  const trm_sharing *sharing = &state_of(kernel)->sharing;
  TRY(sharing->find(state_of(kernel), m->replica, m->num_replicas, &m->group, error));
  if (exchange == NULL) return TRM_OK;
  TRY(exchange->meet(exchange, kernel, call, sharing, error));
  m->calls = exchange->calls;
  return TRM_OK;
}

static trm_status leave(const trm_kernel_call *call, trm_error *error) {
  return call->exchange == NULL ? TRM_OK : call->exchange->leave(call->exchange, error);
}

/* Fails for a group of the wrong size, which would read or write beyond an array. */
static trm_status check_group_count(const meeting *m, int64_t expected, trm_error *error) {
  if (m->group.count == expected) return TRM_OK;
  FAIL(INVALID_ARGUMENT,
       "it is made for groups of %lld replicas, but its groups have %u: the replication factor "
       "that it was given is not that of the program",
       (long long)expected, m->group.count);
}

/* ---- Running -------------------------------------------------------------------------------- */

enum { MAX_GROUP = 4096 };

/* Collects one leaf of the group's operands and, if `targets` is not NULL, results: those of this
 * process. Returns the number of these. */
static uint32_t collect(const meeting *m, uint32_t leaf, const void **sources, void **targets) {
  uint32_t num_targets = 0;
  for (uint32_t k = 0; k < m->group.count; ++k) {
    const trm_kernel_call *call = m->calls[trm_member(&m->group, k)];
    sources[k] = call->operands[leaf];
    if (targets != NULL && call->results != NULL) targets[num_targets++] = call->results[leaf];
  }
  return num_targets;
}

static trm_status check_group(const meeting *m, trm_error *error) {
  if (m->group.count > 0 && m->group.count <= MAX_GROUP) return TRM_OK;
  FAIL(INVALID_ARGUMENT,
       m->group.count == 0 ? "replica %u is in none of its replica groups"
                           : "replica %u is in a group of more than 4096 replicas",
       m->replica);
}

static trm_status meet_group(const trm_kernel *kernel, const trm_kernel_call *call,
                             const trm_kernel_call **alone, meeting *m, trm_error *error) {
  TRY(meet(kernel, call, alone, m, error));
  return check_group(m, error);
}

/* Whether the result of a group of one is its operand. */
static bool keeps_one(trm_combine combine) {
  return combine == TRM_COMBINE_ADD || combine == TRM_COMBINE_MUL || combine == TRM_COMBINE_MIN ||
         combine == TRM_COMBINE_MAX || combine == TRM_COMBINE_MEAN;
}

static trm_status run_all_reduce(const trm_kernel *kernel, const trm_kernel_call *call,
                                 trm_error *error) {
  const trm_collective_state *state = state_of(kernel);
  const trm_kernel_call *alone;
  meeting m;
  TRY(meet_group(kernel, call, &alone, &m, error));
  const void *sources[MAX_GROUP];
  void *targets[MAX_GROUP];
  for (uint32_t leaf = 0; leaf < state->base.num_operands; ++leaf) {
    const trm_shape *operand = &state->base.operands[leaf];
    const int64_t count = trm_shape_count(operand);
    if (state->combine == TRM_COMBINE_LOCAL) {
      if (count > 0 && call->results[leaf] != call->operands[leaf]) {
        memcpy(call->results[leaf], call->operands[leaf], trm_shape_bytes(operand));
      }
      continue;
    }
    const uint32_t num_targets = collect(&m, leaf, sources, targets);
    if (m.group.count == 1 && keeps_one(state->combine)) {
      if (targets[0] != sources[0]) memcpy(targets[0], sources[0], trm_shape_bytes(operand));
      continue;
    }
    const trm_combine_job job = {state,   operand->dtype, sources,      m.group.count,
                                 targets, num_targets,    call->scratch};
    int64_t begin, end;
    find_share(count, m.group.count, m.group.position, &begin, &end);
    if (begin < end) trm_combine_range(&job, begin, end, begin);
  }
  return leave(call, error);
}

static trm_status run_reduce_scatter(const trm_kernel *kernel, const trm_kernel_call *call,
                                     trm_error *error) {
  const trm_collective_state *state = state_of(kernel);
  const trm_kernel_call *alone;
  meeting m;
  TRY(meet_group(kernel, call, &alone, &m, error));
  const void *sources[MAX_GROUP];
  for (uint32_t leaf = 0; leaf < state->base.num_operands; ++leaf) {
    const trm_shape *operand = &state->base.operands[leaf];
    const trm_shape *result = trm_shape_leaf(&state->base.shape, (int32_t)leaf);
    const int64_t long_side = operand->dims[state->dimension];
    const int64_t short_side = result->dims[state->dimension];
    const int64_t n = m.group.count, p = m.group.position;
    /* Shards are padded, so that different numbers of replicas may have shards of equal size. */
    const bool fits = short_side == 0 || (long_side + n - 1) / n == short_side;
    TRY(check_group_count(&m, fits ? n : (long_side + short_side - 1) / short_side, error));
    collect(&m, leaf, sources, NULL);
    if (state->combine == TRM_COMBINE_LOCAL) sources[0] = call->operands[leaf];
    const trm_combine_job job = {state,
                                 operand->dtype,
                                 sources,
                                 state->combine == TRM_COMBINE_LOCAL ? 1 : m.group.count,
                                 &call->results[leaf],
                                 1,
                                 call->scratch};
    int64_t rows = 1, inner = 1;
    for (int32_t d = 0; d < state->dimension; ++d) rows *= operand->dims[d];
    for (int32_t d = state->dimension + 1; d < operand->rank; ++d) inner *= operand->dims[d];
    const int64_t low = p * short_side < long_side ? p * short_side : long_side;
    const int64_t high = low + short_side < long_side ? low + short_side : long_side;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t from = r * long_side * inner, to = r * short_side * inner;
      trm_combine_range(&job, from + low * inner, from + high * inner, to);
      const size_t size = trm_dtype_size(operand->dtype);
      const size_t padding = (size_t)((short_side - (high - low)) * inner) * size;
      if (padding == 0) continue;
      memset((char *)call->results[leaf] + (size_t)(to + (high - low) * inner) * size, 0, padding);
    }
  }
  return leave(call, error);
}

static trm_status run_all_gather(const trm_kernel *kernel, const trm_kernel_call *call,
                                 trm_error *error) {
  const trm_collective_state *state = state_of(kernel);
  const trm_kernel_call *alone;
  meeting m;
  TRY(meet_group(kernel, call, &alone, &m, error));
  for (uint32_t leaf = 0; leaf < state->base.num_operands; ++leaf) {
    const int64_t before = trm_shape_count(&state->base.operands[leaf]);
    const int64_t after = trm_shape_count(trm_shape_leaf(&state->base.shape, (int32_t)leaf));
    TRY(check_group_count(&m, before == 0 ? m.group.count : after / before, error));
    trm_collective_gather(state, &m.group, m.calls, call, leaf);
  }
  return leave(call, error);
}

static trm_status run_all_to_all(const trm_kernel *kernel, const trm_kernel_call *call,
                                 trm_error *error) {
  const trm_collective_state *state = state_of(kernel);
  const trm_kernel_call *alone;
  meeting m;
  TRY(meet_group(kernel, call, &alone, &m, error));
  if (state->split < 0) {
    TRY(check_group_count(&m, state->base.num_operands, error));
  } else {
    const trm_shape *operand = &state->base.operands[0], *result = &state->base.shape;
    const int64_t n = m.group.count;
    bool fits = operand->dims[state->split] % n == 0;
    for (int32_t d = 0; fits && d < operand->rank; ++d) {
      int64_t expected = operand->dims[d];
      if (d == state->split) expected /= n;
      if (d == state->concat) expected *= n;
      fits = result->dims[d] == expected;
    }
    if (!fits) {
      FAIL(INVALID_ARGUMENT,
           "its operand cannot be split in %u along dimension %d to give its "
           "result: the number of replicas that it was given is not that of the program",
           m.group.count, state->split);
    }
  }
  trm_collective_exchange_blocks(state, &m.group, m.calls, call);
  return leave(call, error);
}

static trm_status run_ragged_all_to_all(const trm_kernel *kernel, const trm_kernel_call *call,
                                        trm_error *error) {
  const trm_collective_state *state = state_of(kernel);
  const trm_kernel_call *alone;
  meeting m;
  TRY(meet_group(kernel, call, &alone, &m, error));
  const int64_t slices = trm_shape_count(&state->base.operands[2]);
  if (slices % m.group.count != 0) {
    FAIL(INVALID_ARGUMENT,
         "it has %lld slices, which %u replicas cannot share: the number of replicas that it was "
         "given is not that of the program",
         (long long)slices, m.group.count);
  }
  trm_collective_exchange_rows(state, &m.group, m.calls, call);
  return leave(call, error);
}

/* Copies the operand of replica `source`, or writes zeros. */
static trm_status take(const trm_collective_state *state, const meeting *m, int64_t source,
                       const trm_kernel_call *call, trm_error *error) {
  if (source >= m->num_replicas) {
    FAIL(INVALID_ARGUMENT,
         "it names replica %lld, but the program runs on %u; the option ipus says on how many",
         (long long)source, m->num_replicas);
  }
  for (uint32_t leaf = 0; leaf < state->base.num_operands; ++leaf) {
    const size_t bytes = trm_shape_bytes(&state->base.operands[leaf]);
    if (bytes == 0) continue;
    if (source < 0) memset(call->results[leaf], 0, bytes);
    else memcpy(call->results[leaf], m->calls[source]->operands[leaf], bytes);
  }
  return TRM_OK;
}

static trm_status run_permute(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  const trm_collective_state *state = state_of(kernel);
  const trm_kernel_call *alone;
  meeting m;
  TRY(meet(kernel, call, &alone, &m, error));
  int64_t source = -1;
  for (int32_t i = 0; i + 1 < state->pairs.count; i += 2) {
    if (state->pairs.items[i + 1] == m.replica) source = state->pairs.items[i];
  }
  TRY(take(state, &m, source, call, error));
  return leave(call, error);
}

static trm_status run_broadcast(const trm_kernel *kernel, const trm_kernel_call *call,
                                trm_error *error) {
  const trm_collective_state *state = state_of(kernel);
  const trm_kernel_call *alone;
  meeting m;
  TRY(meet(kernel, call, &alone, &m, error));
  const int64_t source = m.group.count > 0 ? (int64_t)trm_member(&m.group, 0) : -1;
  TRY(take(state, &m, source, call, error));
  return leave(call, error);
}

static trm_status run_replica_id(const trm_kernel *kernel, const trm_kernel_call *call,
                                 trm_error *error) {
  (void)kernel, (void)error;
  const uint32_t id = call->exchange != NULL ? call->exchange->replica : 0;
  memcpy(call->results[0], &id, sizeof id);
  return TRM_OK;
}

static trm_status run_replication_factor(const trm_kernel *kernel, const trm_kernel_call *call,
                                         trm_error *error) {
  (void)kernel, (void)error;
  const uint32_t factor = call->exchange != NULL ? call->exchange->num_replicas : 1;
  memcpy(call->results[0], &factor, sizeof factor);
  return TRM_OK;
}

/* ---- Creating ------------------------------------------------------------------------------- */

static trm_status read_member(trm_collective_state *state, const char *key, const json_t *value,
                              trm_error *error) {
  if (strcmp(key, "op") == 0 && json_is_string(value)) {
    for (int i = 0; i <= TRM_COMBINE_MEAN; ++i) {
      if (strcmp(combine_names[i], json_string_value(value)) != 0) continue;
      state->combine = (trm_combine)i;
      return TRM_OK;
    }
    FAIL(INVALID_ARGUMENT,
         "its 'op' is '%.40s', which is none of add, mul, min, max, logical_and, "
         "logical_or, square_add, local and mean",
         json_string_value(value));
  }
  const json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
  const bool is_group = strcmp(key, "group_size") == 0;
  if (number < 0 || number > (is_group ? MAX_GROUP : TRM_MAX_RANK)) {
    FAIL(INVALID_ARGUMENT, "its backend_config has no fitting number for '%.40s'", key);
  }
  if (is_group) state->group_size = number;
  else if (strcmp(key, "split") == 0) state->split = (int32_t)number;
  else if (strcmp(key, "concat") == 0) state->concat = (int32_t)number;
  else FAIL(INVALID_ARGUMENT, "its backend_config has the unknown key '%.40s'", key);
  return TRM_OK;
}

static trm_status read_config(const trm_instruction *instruction, trm_collective_state *state,
                              trm_error *error) {
  if (instruction->backend_config == NULL || instruction->backend_config_size == 0) return TRM_OK;
  json_error_t problem;
  json_t *config = trm_instruction_config(instruction, 0, &problem);
  trm_status status = TRM_OK;
  if (!json_is_object(config)) {
    status = trm_fail(error, TRM_INVALID_ARGUMENT, "its backend_config is not a JSON object: %s",
                      problem.text);
  }
  const char *key;
  json_t *value;
  json_object_foreach(config, key, value) {
    if (status == TRM_OK) status = read_member(state, key, value, error);
  }
  json_decref(config);
  return status;
}

/* The combination with a name that the computation is, or CALLED. */
static trm_combine combine_of(const trm_evaluator *evaluator) {
  switch (trm_evaluator_single_opcode(evaluator)) {
    case TRM_OP_ADD: return TRM_COMBINE_ADD;
    case TRM_OP_MAXIMUM: return TRM_COMBINE_MAX;
    case TRM_OP_MINIMUM: return TRM_COMBINE_MIN;
    default: return TRM_COMBINE_CALLED;
  }
}

static trm_status check_combine(const trm_collective_state *state, trm_error *error) {
  for (uint32_t i = 0; i < state->base.num_operands; ++i) {
    const trm_dtype dtype = state->base.operands[i].dtype;
    if (!trm_combine_fits(state->combine, dtype)) {
      FAIL(INVALID_ARGUMENT, "values of the type %s have no '%s'", trm_dtype_name(dtype),
           combine_names[state->combine]);
    }
    if (state->combine == TRM_COMBINE_CALLED &&
        state->base.evaluators[0]->parameter_types[0] != dtype) {
      FAIL(INVALID_ARGUMENT, "its computation takes %s, but operand %u is %s",
           trm_dtype_name(state->base.evaluators[0]->parameter_types[0]), i, trm_dtype_name(dtype));
    }
  }
  return TRM_OK;
}

/* Checks a custom call as the module's readers check HLO's own collectives. */
static trm_status check_custom_call(const trm_collective_state *state, trm_kernel_run_fn run,
                                    trm_error *error) {
  const trm_shape *result = &state->base.shape;
  if (run == run_replication_factor) {
    if (state->base.num_operands == 0 && result->dtype == TRM_S32 && result->rank == 0) {
      return TRM_OK;
    }
    FAIL(INVALID_ARGUMENT, "it takes nothing and gives s32[]");
  }
  const uint32_t count = state->base.num_operands;
  if (count == 0 || trm_shape_num_leaves(result) != (int32_t)count) {
    FAIL(INVALID_ARGUMENT,
         "it has %u operands and %d results; it takes one or more, and gives as "
         "many",
         count, trm_shape_num_leaves(result));
  }
  for (uint32_t i = 0; i < count; ++i) {
    const trm_shape *from = &state->base.operands[i], *to = trm_shape_leaf(result, (int32_t)i);
    bool fits = trm_shape_is_array(from) && from->dtype == to->dtype;
    if (run == run_all_reduce) fits = fits && trm_shape_equal(from, to);
    if (run == run_reduce_scatter) fits = fits && from->rank == 1 && to->rank == 1;
    if (run == run_all_gather) {
      fits = fits && to->rank == from->rank + 1;
      for (int32_t d = 0; fits && d < from->rank; ++d) fits = to->dims[d + 1] == from->dims[d];
    }
    if (run == run_all_to_all) {
      fits = fits && count == 1 && from->rank == to->rank && state->split >= 0 &&
             state->split < from->rank && state->concat >= 0 && state->concat < from->rank;
    }
    if (!fits) FAIL(INVALID_ARGUMENT, "its result %u does not fit its operand", i);
  }
  return TRM_OK;
}

typedef struct collective_kind {
  trm_opcode opcode;
  trm_call_id call; /* the custom call that does the same, or TRM_CALL_NONE */
  const char *name;
  trm_kernel_run_fn run;
} collective_kind;

static const collective_kind kinds[] = {
    {TRM_OP_ALL_GATHER, TRM_CALL_ALL_GATHER, "collective.all-gather", run_all_gather},
    {TRM_OP_ALL_REDUCE, TRM_CALL_ALL_REDUCE, "collective.all-reduce", run_all_reduce},
    {TRM_OP_ALL_TO_ALL, TRM_CALL_ALL_TO_ALL, "collective.all-to-all", run_all_to_all},
    {TRM_OP_COLLECTIVE_BROADCAST, TRM_CALL_NONE, "collective.broadcast", run_broadcast},
    {TRM_OP_COLLECTIVE_PERMUTE, TRM_CALL_NONE, "collective.permute", run_permute},
    {TRM_OP_RAGGED_ALL_TO_ALL, TRM_CALL_NONE, "collective.ragged-all-to-all",
     run_ragged_all_to_all},
    {TRM_OP_REDUCE_SCATTER, TRM_CALL_REDUCE_SCATTER, "collective.reduce-scatter",
     run_reduce_scatter},
    {TRM_OP_REPLICA_ID, TRM_CALL_NONE, "collective.replica-id", run_replica_id},
    {TRM_NUM_OPCODES, TRM_CALL_REPLICATION_FACTOR, "collective.replication-factor",
     run_replication_factor},
};

static const collective_kind *kind_of(const trm_instruction *instruction) {
  const bool custom = instruction->opcode == TRM_OP_CUSTOM_CALL;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    if (custom ? kinds[i].call == instruction->call_id : kinds[i].opcode == instruction->opcode) {
      return &kinds[i];
    }
  }
  return NULL;
}

static trm_status fill(const trm_instruction *instruction, const collective_kind *kind,
                       trm_collective_state *state, trm_error *error) {
  const trm_collective *collective = instruction->collective;
  state->split = state->concat = -1;
  const bool combines = kind->run == run_all_reduce || kind->run == run_reduce_scatter;
  state->combine = combines ? TRM_COMBINE_ADD : TRM_COMBINE_LOCAL;
  if (instruction->opcode == TRM_OP_CUSTOM_CALL) {
    TRY(read_config(instruction, state, error));
    TRY(check_custom_call(state, kind->run, error));
  } else if (collective != NULL) {
    state->groups = collective->replica_groups;
    state->pairs = collective->source_target_pairs;
    state->dimension = (int32_t)collective->dimension;
    if (collective->has_dimension) state->split = state->concat = (int32_t)collective->dimension;
    if (combines) state->combine = combine_of(state->base.evaluators[0]);
  }
  return check_combine(state, error);
}

/* What other processes must send. `identity`: the place of the instruction in the module. */
static void describe_sharing(const trm_kernel_request *request, const collective_kind *kind,
                             trm_collective_state *state) {
  const uint64_t computation = (uint64_t)(request->computation - request->module->computations);
  const uint64_t instruction =
      (uint64_t)(request->instruction - request->computation->instructions);
  const bool is_pairs = kind->run == run_permute;
  state->sharing = (trm_sharing){.state = state,
                                 .identity = computation << 32 | instruction,
                                 .num_leaves = state->base.num_operands,
                                 .bytes = operand_bytes,
                                 .find = is_pairs ? find_all : find_group,
                                 .need = need_all,
                                 .shares_results = kind->run == run_all_reduce};
  if (kind->run == run_all_reduce) state->sharing.need = need_share;
  if (kind->run == run_reduce_scatter && state->dimension == 0) state->sharing.need = need_rows;
}

trm_status trm_collective_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                 bool *out_supported, trm_error *error) {
  const collective_kind *kind = kind_of(request->instruction);
  if (kind == NULL) return trm_reference_refuse(request, "it is not a collective", error);
  const bool called = request->instruction->opcode != TRM_OP_CUSTOM_CALL &&
                      (kind->run == run_all_reduce || kind->run == run_reduce_scatter);
  trm_kernel kernel;
  TRY(trm_reference_kernel_create(request, kind->name, kind->run, called ? 1 : 0, &kernel, error));
  trm_collective_state *state = ARENA_NEW(request->arena, trm_collective_state, 1);
  CHECK_MEMORY(state, "a collective");
  state->base = *trm_reference_state_of(&kernel);
  char text[512];
  TRY_NOTE(fill(request->instruction, kind, state, error), "in %s",
           trm_instruction_text(request->module, request->instruction, text, sizeof text));
  describe_sharing(request, kind, state);
  kernel.state = state;
  if (kind->run == run_all_reduce && state->base.num_operands == 1) kernel.in_place_operands = 1;
  *out_kernel = kernel;
  *out_supported = true;
  return TRM_OK;
}
