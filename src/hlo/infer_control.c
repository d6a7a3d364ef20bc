/* Owns: the shapes of opcodes that run computations or talk to others: control flow, collectives,
 * feeds, random numbers, tokens. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/infer.h"

static const trm_shape token = {.dtype = TRM_TOKEN};

static trm_status check_token(trm_inference *c, uint32_t i) {
  CHECK(c, trm_infer_operand(c, i)->dtype == TRM_TOKEN,
        "operand %" PRIu32 " must be a token, not %s", i,
        trm_infer_text(c, trm_infer_operand(c, i)));
  return TRM_OK;
}

/* The called computation takes exactly the operands from `first` on. */
static trm_status check_arguments(trm_inference *c, const trm_computation *called, uint32_t first,
                                  uint32_t count) {
  CHECK(c, called->num_parameters == count,
        "computation %s takes %" PRIu32 " parameters and is given %" PRIu32, called->name,
        called->num_parameters, count);
  for (uint32_t i = 0; i < count; ++i) {
    const trm_shape *parameter = trm_infer_parameter(called, i);
    const trm_shape *operand = trm_infer_operand(c, first + i);
    CHECK(c, parameter != NULL && trm_shape_equal(parameter, operand),
          "parameter %" PRIu32 " of computation %s is %s and is given %s", i, called->name,
          parameter == NULL ? "missing" : trm_infer_text(c, parameter), trm_infer_text(c, operand));
  }
  return TRM_OK;
}

static trm_status infer_while(trm_inference *c) {
  const trm_shape *state = trm_infer_operand(c, 0);
  const trm_computation *condition, *body;
  TRY(trm_infer_called(c, 0, &condition));
  TRY(trm_infer_called(c, 1, &body));
  TRY(check_arguments(c, condition, 0, 1));
  TRY(check_arguments(c, body, 0, 1));
  const trm_shape *goes_on = trm_infer_root(condition);
  CHECK(c, goes_on->dtype == TRM_PRED && goes_on->rank == 0,
        "the condition %s must return pred[], not %s", condition->name, trm_infer_text(c, goes_on));
  CHECK(c, trm_shape_equal(trm_infer_root(body), state),
        "the body %s must return %s, as it takes, not %s", body->name, trm_infer_text(c, state),
        trm_infer_text(c, trm_infer_root(body)));
  return trm_infer_give_same(c, state);
}

static trm_status infer_conditional(trm_inference *c) {
  const uint32_t branches = c->instruction->num_called;
  CHECK(c, branches >= 1 && c->instruction->num_operands == branches + 1,
        "has %" PRIu32 " branches and %" PRIu32
        " operands; it takes the choice and one operand a branch",
        branches, c->instruction->num_operands);
  const trm_shape *choice = trm_infer_operand(c, 0);
  CHECK(c,
        choice->rank == 0 &&
            ((choice->dtype == TRM_PRED && branches == 2) || choice->dtype == TRM_S32),
        "the choice must be s32[], or pred[] for two branches, not %s for %" PRIu32,
        trm_infer_text(c, choice), branches);
  const trm_shape *result = NULL;
  for (uint32_t i = 0; i < branches; ++i) {
    const trm_computation *branch;
    TRY(trm_infer_called(c, i, &branch));
    TRY(check_arguments(c, branch, i + 1, 1));
    const trm_shape *root = trm_infer_root(branch);
    CHECK(c, result == NULL || trm_shape_equal(root, result),
          "branch %" PRIu32 " returns %s and the first one %s", i, trm_infer_text(c, root),
          trm_infer_text(c, result));
    if (result == NULL) result = root;
  }
  return trm_infer_give_same(c, result);
}

static trm_status infer_call(trm_inference *c) {
  const trm_computation *called;
  TRY(trm_infer_called(c, 0, &called));
  TRY(check_arguments(c, called, 0, c->instruction->num_operands));
  return trm_infer_give_same(c, trm_infer_root(called));
}

static trm_status infer_map(trm_inference *c) {
  TRY(trm_infer_check_operands(c, 1));
  TRY(trm_infer_check_arrays(c));
  const uint32_t count = c->instruction->num_operands;
  const trm_shape *first = trm_infer_operand(c, 0);
  const trm_dims *dims = &c->instruction->dimensions;
  trm_error *error = c->error;
  trm_dtype *types = ARENA_NEW(&c->module->arena, trm_dtype, count);
  CHECK_MEMORY(types, "types");
  for (uint32_t i = 0; i < count; ++i) {
    CHECK(c, trm_shape_same_dims(trm_infer_operand(c, i), first),
          "the operands %s and %s differ in size", trm_infer_text(c, first),
          trm_infer_text(c, trm_infer_operand(c, i)));
    types[i] = trm_infer_operand(c, i)->dtype;
  }
  bool covers = dims->count == 0 || dims->count == first->rank;
  for (int32_t i = 0; i < dims->count && covers; ++i) covers = dims->items[i] == i;
  CHECK(c, covers, "must run over all dimensions of %s, in order", trm_infer_text(c, first));
  const trm_computation *called;
  TRY(trm_infer_called(c, 0, &called));
  TRY(trm_infer_check_scalar_parameters(c, called, types, count, count));
  const trm_shape *root = trm_infer_root(called);
  CHECK(c, trm_shape_is_scalar(root), "computation %s must return a scalar, not %s", called->name,
        trm_infer_text(c, root));
  return trm_infer_give(c, root->dtype, first->rank, first->dims);
}

static trm_status infer_custom_call(trm_inference *c) {
  trm_error *error = c->error;
  const trm_custom_call *call = c->instruction->custom_call;
  CHECK(c, call != NULL && call->target != NULL && call->target[0] != '\0', "has no target");
  TRY(trm_shape_check(&c->instruction->shape, error));
  return trm_infer_give_same(c, &c->instruction->shape);
}

/* ---- Collectives ---------------------------------------------------------------------------- */

static trm_status check_groups(trm_inference *c) {
  trm_error *error = c->error;
  int64_t count = 0;
  const trm_replica_groups *groups = &c->instruction->collective->replica_groups;
  for (int32_t i = 0; i < groups->count; ++i) {
    CHECK(c, groups->groups[i].count > 0, "replica group %d is empty", i);
    for (int32_t k = 0; k < groups->groups[i].count; ++k) {
      CHECK(c, groups->groups[i].items[k] >= 0, "replica group %d has a negative replica", i);
    }
    count += groups->groups[i].count;
  }
  if (count == 0 || c->instruction->opcode == TRM_OP_COLLECTIVE_BROADCAST) return TRM_OK;
  /* Each of 0 .. count - 1 just once. */
  bool *seen = ARENA_NEW(&c->module->arena, bool, (size_t)count);
  CHECK_MEMORY(seen, "replica groups");
  for (int32_t i = 0; i < groups->count; ++i) {
    for (int32_t k = 0; k < groups->groups[i].count; ++k) {
      const int64_t replica = groups->groups[i].items[k];
      CHECK(c, replica < count,
            "replica group %d names replica %" PRId64 ", but of 0 to %" PRId64
            " one is in no group",
            i, replica, replica);
      CHECK(c, !seen[replica], "replica %" PRId64 " is in its groups twice", replica);
      seen[replica] = true;
    }
  }
  return TRM_OK;
}

static int compare_numbers(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* A device sends to one other at most, and gets from one at most. */
static trm_status check_pairs(trm_inference *c) {
  trm_error *error = c->error;
  const trm_dims *pairs = &c->instruction->collective->source_target_pairs;
  const size_t count = (size_t)pairs->count / 2;
  int64_t *side = ARENA_NEW(&c->module->arena, int64_t, count + 1);
  CHECK_MEMORY(side, "source_target_pairs");
  for (size_t which = 0; which < 2; ++which) {
    for (size_t i = 0; i < count; ++i) side[i] = pairs->items[2 * i + which];
    qsort(side, count, sizeof *side, compare_numbers);
    for (size_t i = 0; i + 1 < count; ++i) {
      CHECK(c, side[i] != side[i + 1], "%" PRId64 " is a %s of two pairs", side[i],
            which == 0 ? "source" : "target");
    }
  }
  return TRM_OK;
}

/* The operands' shapes, in a tuple when there are several. */
static trm_status give_operands(trm_inference *c) {
  const uint32_t count = c->instruction->num_operands;
  if (count == 1) return trm_infer_give_same(c, trm_infer_operand(c, 0));
  trm_error *error = c->error;
  trm_shape *elements = ARENA_NEW(&c->module->arena, trm_shape, count);
  CHECK_MEMORY(elements, "a shape");
  for (uint32_t i = 0; i < count; ++i) elements[i] = *trm_infer_operand(c, i);
  return trm_infer_give_tuple(c, (int32_t)count, elements);
}

static trm_status check_reducer(trm_inference *c) {
  const trm_computation *reducer;
  TRY(trm_infer_called(c, 0, &reducer));
  const trm_shape *first = trm_infer_parameter(reducer, 0);
  CHECK(c, first != NULL && trm_shape_is_scalar(first), "computation %s must take scalars",
        reducer->name);
  TRY(trm_infer_check_scalar_parameters(c, reducer, &first->dtype, 1, 2));
  return trm_infer_check_scalar_results(c, reducer, &first->dtype, 1);
}

/* Along one dimension the result is a multiple of the operand (all-gather) or a part of it
 * (reduce-scatter); by how much only the number of replicas tells, so the stated size is taken. */
static trm_status infer_scaled(trm_inference *c, const trm_shape *stated, bool grows) {
  const uint32_t count = c->instruction->num_operands;
  const int64_t along = c->instruction->collective->dimension;
  CHECK(c,
        count == 1 ? trm_shape_is_array(stated)
                   : stated->dtype == TRM_TUPLE && stated->num_elements == (int32_t)count,
        "its result %s does not have an array for each operand", trm_infer_text(c, stated));
  for (uint32_t i = 0; i < count; ++i) {
    const trm_shape *operand = trm_infer_operand(c, i);
    const trm_shape *result = count == 1 ? stated : &stated->elements[i];
    bool fits = operand->dtype == result->dtype && operand->rank == result->rank && along >= 0 &&
                along < operand->rank;
    for (int32_t d = 0; fits && d < operand->rank; ++d) {
      const int64_t small = grows ? operand->dims[d] : result->dims[d];
      const int64_t large = grows ? result->dims[d] : operand->dims[d];
      fits = d == along ? (small == 0 ? large == 0 : large % small == 0) : small == large;
    }
    CHECK(c, fits, "the result %s does not fit the operand %s along dimension %" PRId64,
          trm_infer_text(c, result), trm_infer_text(c, operand), along);
  }
  return trm_infer_give_same(c, stated);
}

/* Operands: the rows that a replica sends, what the result is before, and for each part of rows
 * that it sends, in the order of the receivers: the first row, the number of rows, the first row in
 * the receiver's result; at last the numbers of rows that it receives. */
static trm_status infer_ragged_all_to_all(trm_inference *c) {
  const trm_shape *input = trm_infer_operand(c, 0), *output = trm_infer_operand(c, 1);
  const trm_replica_groups *groups = &c->instruction->collective->replica_groups;
  CHECK(c,
        input->dtype == output->dtype && input->rank == output->rank && input->rank >= 1 &&
            memcmp(input->dims + 1, output->dims + 1,
                   (size_t)(input->rank - 1) * sizeof *input->dims) == 0,
        "%s and %s must have rows of one shape", trm_infer_text(c, input),
        trm_infer_text(c, output));
  for (uint32_t i = 2; i < 6; ++i) {
    const trm_shape *parts = trm_infer_operand(c, i);
    CHECK(c, trm_dtype_is_integral(parts->dtype) && parts->rank >= 1,
          "operand %" PRIu32 " must be an array of integers, not %s", i, trm_infer_text(c, parts));
    CHECK(c, trm_shape_equal(parts, trm_infer_operand(c, 2)),
          "operands 2 and %" PRIu32 " must have one shape", i);
  }
  const int64_t parts = trm_shape_count(trm_infer_operand(c, 2));
  CHECK(c, groups->count == 0 || parts % groups->groups[0].count == 0,
        "has %" PRId64 " parts for groups of %d replicas", parts,
        groups->count == 0 ? 1 : groups->groups[0].count);
  return trm_infer_give_same(c, output);
}

static trm_status infer_all_to_all(trm_inference *c) {
  const trm_collective *collective = c->instruction->collective;
  if (!collective->has_dimension) { /* one operand a replica: the tuple form, also of one */
    const uint32_t count = c->instruction->num_operands;
    trm_error *error = c->error;
    trm_shape *elements = ARENA_NEW(&c->module->arena, trm_shape, count);
    CHECK_MEMORY(elements, "a shape");
    for (uint32_t i = 0; i < count; ++i) {
      elements[i] = *trm_infer_operand(c, i);
      CHECK(c, trm_shape_equal(&elements[i], &elements[0]), "all operands must have one shape");
    }
    return trm_infer_give_tuple(c, (int32_t)count, elements);
  }
  const trm_shape *operand = trm_infer_operand(c, 0);
  CHECK(c,
        c->instruction->num_operands == 1 && collective->dimension >= 0 &&
            collective->dimension < operand->rank,
        "takes one operand and one of its dimensions to split");
  const trm_replica_groups *groups = &collective->replica_groups;
  CHECK(c,
        groups->count == 0 || operand->dims[collective->dimension] % groups->groups[0].count == 0,
        "dimension %" PRId64 " of %s cannot be split in %d", collective->dimension,
        trm_infer_text(c, operand), groups->count == 0 ? 1 : groups->groups[0].count);
  return trm_infer_give_same(c, operand);
}

/* Checks the start of an asynchronous operation: a tuple of the operands (in a tuple of their own
 * if there are several, or if `always`), the result, and further elements. */
static trm_status check_started(trm_inference *c, bool always) {
  trm_error *error = c->error;
  const trm_shape *stated = &c->instruction->shape;
  const uint32_t count = c->instruction->num_operands;
  TRY(trm_shape_check(stated, error));
  CHECK(c, stated->dtype == TRM_TUPLE && stated->num_elements >= 2,
        "its result must be a tuple of operands and result, not %s", trm_infer_text(c, stated));
  const trm_shape *taken = &stated->elements[0];
  const bool packed = always || count != 1;
  bool fits = !packed || (taken->dtype == TRM_TUPLE && taken->num_elements == (int32_t)count);
  for (uint32_t i = 0; fits && i < count; ++i) {
    fits = trm_shape_equal(packed ? &taken->elements[i] : taken, trm_infer_operand(c, i));
  }
  CHECK(c, fits, "its result %s does not begin with its operand%s", trm_infer_text(c, stated),
        packed ? "s in a tuple" : "");
  for (int32_t i = 2; i < stated->num_elements; ++i) {
    CHECK(c, stated->elements[i].dtype != TRM_TUPLE && stated->elements[i].dtype != TRM_OPAQUE,
          "element %d of its result must be an array or a token, not %s", i,
          trm_infer_text(c, &stated->elements[i]));
  }
  return TRM_OK;
}

static trm_status infer_collective_start(trm_inference *c) {
  const trm_shape *stated = &c->instruction->shape;
  TRY(check_started(c, false));
  const trm_shape result = stated->elements[1];
  if (c->instruction->opcode == TRM_OP_ALL_GATHER_START) {
    TRY(infer_scaled(c, &result, true));
  } else {
    TRY(give_operands(c));
    CHECK(c, trm_shape_equal(&result, c->out_shape), "it sends %s and receives %s",
          trm_infer_text(c, c->out_shape), trm_infer_text(c, &result));
  }
  return trm_infer_give_same(c, stated);
}

/* The end of an asynchronous operation: one element of its start's tuple. */
static trm_status infer_done(trm_inference *c, int32_t element) {
  const trm_shape *started = trm_infer_operand(c, 0);
  CHECK(c, started->dtype == TRM_TUPLE && started->num_elements >= 2,
        "takes what its start returns, not %s", trm_infer_text(c, started));
  return trm_infer_give_same(c, &started->elements[element]);
}

static trm_status infer_collective(trm_inference *c) {
  switch (c->instruction->opcode) {
    case TRM_OP_ALL_REDUCE_DONE: return trm_infer_give_same(c, trm_infer_operand(c, 0));
    case TRM_OP_ALL_GATHER_DONE:
    case TRM_OP_COLLECTIVE_PERMUTE_DONE: return infer_done(c, 1);
    default: break;
  }
  TRY(trm_infer_check_operands(c, 1));
  TRY(trm_infer_check_arrays(c));
  CHECK(c, c->instruction->collective != NULL, "has no replica groups");
  TRY(check_groups(c));
  TRY(check_pairs(c));
  switch (c->instruction->opcode) {
    case TRM_OP_ALL_REDUCE:
    case TRM_OP_COLLECTIVE_REDUCE:
    case TRM_OP_ALL_REDUCE_START: TRY(check_reducer(c)); return give_operands(c);
    case TRM_OP_ALL_GATHER: return infer_scaled(c, &c->instruction->shape, true);
    case TRM_OP_REDUCE_SCATTER:
      TRY(check_reducer(c));
      return infer_scaled(c, &c->instruction->shape, false);
    case TRM_OP_ALL_TO_ALL: return infer_all_to_all(c);
    case TRM_OP_RAGGED_ALL_TO_ALL: return infer_ragged_all_to_all(c);
    case TRM_OP_ALL_GATHER_START:
    case TRM_OP_COLLECTIVE_PERMUTE_START: return infer_collective_start(c);
    default: return give_operands(c);
  }
}

/* ---- Asynchronous calls and copies ---------------------------------------------------------- */

static bool is_async(const trm_instruction *instruction) {
  return instruction->opcode == TRM_OP_ASYNC_START || instruction->opcode == TRM_OP_ASYNC_UPDATE;
}

static trm_status infer_async_start(trm_inference *c) {
  const trm_computation *called;
  TRY(trm_infer_called(c, 0, &called));
  TRY(check_arguments(c, called, 0, c->instruction->num_operands));
  TRY(check_started(c, true));
  const trm_shape *result = &c->instruction->shape.elements[1];
  CHECK(c, trm_shape_equal(result, trm_infer_root(called)), "computation %s returns %s, not %s",
        called->name, trm_infer_text(c, trm_infer_root(called)), trm_infer_text(c, result));
  return trm_infer_give_same(c, &c->instruction->shape);
}

/* An update or the end of an asynchronous call. */
static trm_status infer_async_next(trm_inference *c) {
  CHECK(c, c->instruction->num_operands == 1, "takes what async-start returns, and no more");
  const trm_instruction *start = &c->computation->instructions[c->instruction->operands[0]];
  CHECK(c, is_async(start), "takes what async-start or async-update returns, not %s",
        trm_opcode_name(start->opcode));
  while (start->opcode == TRM_OP_ASYNC_UPDATE && start->num_operands == 1) {
    start = &c->computation->instructions[start->operands[0]];
  }
  if (c->instruction->num_called > 0 && start->num_called > 0) {
    CHECK(c, c->instruction->called[0] == start->called[0],
          "calls another computation than its async-start %%%s", start->name);
  }
  if (c->instruction->opcode == TRM_OP_ASYNC_DONE) return infer_done(c, 1);
  return trm_infer_give_same(c, trm_infer_operand(c, 0));
}

static trm_status infer_copy_start(trm_inference *c) {
  trm_error *error = c->error;
  const trm_shape *stated = &c->instruction->shape, *operand = trm_infer_operand(c, 0);
  TRY(trm_shape_check(stated, error));
  CHECK(c,
        stated->dtype == TRM_TUPLE && stated->num_elements == 3 &&
            trm_shape_equal(&stated->elements[0], operand) &&
            trm_shape_equal(&stated->elements[1], operand) &&
            trm_shape_is_array(&stated->elements[2]),
        "its result must be (copy, operand, u32[]) of %s, not %s", trm_infer_text(c, operand),
        trm_infer_text(c, stated));
  return trm_infer_give_same(c, stated);
}

/* ---- Feeds, sends, receives ----------------------------------------------------------------- */

static trm_status infer_communication(trm_inference *c) {
  trm_error *error = c->error;
  const trm_shape *stated = &c->instruction->shape;
  trm_shape elements[3] = {{0}};
  switch (c->instruction->opcode) {
    case TRM_OP_CUSTOM_CALL: return infer_custom_call(c);
    case TRM_OP_INFEED:
      TRY(check_token(c, 0));
      TRY(trm_shape_check(stated, error));
      CHECK(c,
            stated->dtype == TRM_TUPLE && stated->num_elements == 2 &&
                stated->elements[1].dtype == TRM_TOKEN,
            "its result must be a tuple of data and a token, not %s", trm_infer_text(c, stated));
      return trm_infer_give_same(c, stated);
    case TRM_OP_OUTFEED: TRY(check_token(c, 1)); return trm_infer_give_same(c, &token);
    case TRM_OP_SEND:
      TRY(check_token(c, 1));
      elements[0] = *trm_infer_operand(c, 0);
      elements[1] = (trm_shape){.dtype = TRM_U32};
      elements[2] = token;
      return trm_infer_give_tuple(c, 3, elements);
    case TRM_OP_RECV:
      TRY(check_token(c, 0));
      TRY(trm_shape_check(stated, error));
      CHECK(c,
            stated->dtype == TRM_TUPLE && stated->num_elements == 3 &&
                stated->elements[1].dtype == TRM_U32 && stated->elements[2].dtype == TRM_TOKEN,
            "its result must be (data, u32[], token), not %s", trm_infer_text(c, stated));
      return trm_infer_give_same(c, stated);
    case TRM_OP_SEND_DONE:
    case TRM_OP_RECV_DONE: {
      const trm_shape *started = trm_infer_operand(c, 0);
      CHECK(c, started->dtype == TRM_TUPLE && started->num_elements == 3,
            "takes what send or recv returns, not %s", trm_infer_text(c, started));
      if (c->instruction->opcode == TRM_OP_SEND_DONE) return trm_infer_give_same(c, &token);
      elements[0] = started->elements[0];
      elements[1] = token;
      return trm_infer_give_tuple(c, 2, elements);
    }
    default: return trm_infer_fail(c, TRM_UNIMPLEMENTED, "is not supported");
  }
}

/* ---- Random numbers, tokens, the rest ------------------------------------------------------- */

static trm_status infer_rng(trm_inference *c) {
  const trm_shape *stated = &c->instruction->shape;
  CHECK(c, c->instruction->distribution == 1 || c->instruction->distribution == 2,
        "the distribution must be uniform or normal");
  /* XLA's compilers do not read the elements after these two, such as a state, either. */
  CHECK(c, c->instruction->num_operands >= 2,
        "takes two parameters of its distribution, not %" PRIu32, c->instruction->num_operands);
  TRY(trm_infer_give_stated(c));
  for (uint32_t i = 0; i < 2; ++i) {
    const trm_shape *operand = trm_infer_operand(c, i);
    CHECK(c, trm_shape_is_scalar(operand) && operand->dtype == stated->dtype,
          "operand %" PRIu32 " must be %s[], not %s", i, trm_dtype_name(stated->dtype),
          trm_infer_text(c, operand));
  }
  CHECK(c, c->instruction->distribution == 1 || trm_dtype_is_floating(stated->dtype),
        "a normal distribution needs floating point, not %s", trm_dtype_name(stated->dtype));
  return TRM_OK;
}

static trm_status infer_rng_bit_generator(trm_inference *c) {
  trm_error *error = c->error;
  const trm_shape *stated = &c->instruction->shape, *state = trm_infer_operand(c, 0);
  TRY(trm_shape_check(stated, error));
  CHECK(c, c->instruction->algorithm >= 0 && c->instruction->algorithm <= 2,
        "has the algorithm number %d, which is not known", c->instruction->algorithm);
  CHECK(c, state->dtype == TRM_U64 && state->rank <= 1, "the state must be u64 numbers, not %s",
        trm_infer_text(c, state));
  const bool has_state = stated->dtype == TRM_TUPLE && stated->num_elements == 2 &&
                         trm_shape_equal(&stated->elements[0], state);
  CHECK(c, trm_dtype_is_integral(has_state ? stated->elements[1].dtype : stated->dtype),
        "its result must be an array of integers, or a tuple of %s and such an array, not %s",
        trm_infer_text(c, state), trm_infer_text(c, stated));
  return trm_infer_give_same(c, stated);
}

static trm_status infer_other(trm_inference *c) {
  const int64_t two = 2;
  switch (c->instruction->opcode) {
    case TRM_OP_RNG: return infer_rng(c);
    case TRM_OP_RNG_BIT_GENERATOR: return infer_rng_bit_generator(c);
    case TRM_OP_RNG_GET_AND_UPDATE_STATE: return trm_infer_give(c, TRM_U64, 1, &two);
    case TRM_OP_AFTER_ALL:
      return trm_infer_give_same(c, &token); /* of arrays too: they are to be there */
    case TRM_OP_ASYNC_START: return infer_async_start(c);
    case TRM_OP_ASYNC_UPDATE:
    case TRM_OP_ASYNC_DONE: return infer_async_next(c);
    case TRM_OP_COPY_START: return infer_copy_start(c);
    case TRM_OP_COPY_DONE: return infer_done(c, 0);
    case TRM_OP_ADD_DEPENDENCY:
      TRY(check_token(c, 1));
      return trm_infer_give_same(c, trm_infer_operand(c, 0));
    case TRM_OP_OPT_BARRIER:
    case TRM_OP_DOMAIN: return trm_infer_give_same(c, trm_infer_operand(c, 0));
    case TRM_OP_GET_DIMENSION_SIZE: {
      const trm_shape *operand = trm_infer_operand(c, 0);
      CHECK(c,
            trm_shape_is_array(operand) && c->instruction->number >= 0 &&
                c->instruction->number < operand->rank,
            "dimension %" PRId64 " is not one of %s", c->instruction->number,
            trm_infer_text(c, operand));
      return trm_infer_give(c, TRM_S32, 0, NULL);
    }
    case TRM_OP_SET_DIMENSION_SIZE: {
      /* TensorFlow emits it with the size that the dimension has anyway (TopK, tensor lists), and
       * a static shape; one that may be smaller is stated as dynamic. */
      const trm_shape *operand = trm_infer_operand(c, 0), *size = trm_infer_operand(c, 1);
      CHECK(c,
            trm_shape_is_array(operand) && c->instruction->number >= 0 &&
                c->instruction->number < operand->rank,
            "dimension %" PRId64 " is not one of %s", c->instruction->number,
            trm_infer_text(c, operand));
      CHECK(c, size->dtype == TRM_S32 && size->rank == 0, "the size must be s32[], not %s",
            trm_infer_text(c, size));
      TRY(trm_infer_give_same(c, operand));
      c->out_shape->dynamic |= c->instruction->shape.dynamic;
      return TRM_OK;
    }
    default: return trm_infer_fail(c, TRM_UNIMPLEMENTED, "is not supported");
  }
}

trm_status trm_infer_control(trm_inference *c) {
  switch (c->instruction->opcode) {
    case TRM_OP_WHILE: return infer_while(c);
    case TRM_OP_CONDITIONAL: return infer_conditional(c);
    case TRM_OP_CALL:
    case TRM_OP_FUSION: return infer_call(c);
    case TRM_OP_MAP: return infer_map(c);
    default: break;
  }
  switch (trm_opcode_class_of(c->instruction->opcode)) {
    case TRM_CLASS_COLLECTIVE: return infer_collective(c);
    case TRM_CLASS_COMMUNICATION: return infer_communication(c);
    default: return infer_other(c);
  }
}
