/* Owns: machine code for runs of operations of strip code, so that what they compute stays in
 * registers (ops/generate). Where the CPU has no AVX2, the vector functions run as they are. */
#include <stdlib.h>
#include <string.h>

#include "host/ops/elementwise/strip_compile.h"
#include "host/ops/generate/generator.h"

typedef strip_compiler compiler;

/* ---- The nodes of an operation -------------------------------------------------------------- */

typedef trm_node (*unary_fn)(trm_generator *g, trm_node x);
typedef trm_node (*binary_fn)(trm_generator *g, trm_node x, trm_node y);

/* Functions of the table `op` that are one node. */
static const struct {
  trm_opcode opcode;
  trm_vector_type type;
  trm_node_kind kind;
} single_nodes[] = {
    {TRM_OP_ADD, TRM_V_F32, NODE_ADD},
    {TRM_OP_SUBTRACT, TRM_V_F32, NODE_SUBTRACT},
    {TRM_OP_MULTIPLY, TRM_V_F32, NODE_MULTIPLY},
    {TRM_OP_SQRT, TRM_V_F32, NODE_SQRT},
#define BOTH(opcode, kind) \
  {opcode, TRM_V_S32, kind}, { opcode, TRM_V_U32, kind }
    BOTH(TRM_OP_ADD, NODE_ADD_BITS),
    BOTH(TRM_OP_SUBTRACT, NODE_SUBTRACT_BITS),
    BOTH(TRM_OP_MULTIPLY, NODE_MULTIPLY_BITS),
    BOTH(TRM_OP_AND, NODE_AND_BITS),
    BOTH(TRM_OP_OR, NODE_OR_BITS),
    BOTH(TRM_OP_XOR, NODE_XOR_BITS),
    BOTH(TRM_OP_SHIFT_LEFT, NODE_SHIFT_LEFT),
    BOTH(TRM_OP_SHIFT_RIGHT_LOGICAL, NODE_SHIFT_RIGHT),
    BOTH(TRM_OP_SHIFT_RIGHT_ARITHMETIC, NODE_SHIFT_RIGHT_SIGNED),
#undef BOTH
    {TRM_OP_MAXIMUM, TRM_V_S32, NODE_LARGER_S32},
    {TRM_OP_MINIMUM, TRM_V_S32, NODE_SMALLER_S32},
    {TRM_OP_MAXIMUM, TRM_V_U32, NODE_LARGER_U32},
    {TRM_OP_MINIMUM, TRM_V_U32, NODE_SMALLER_U32},
    {TRM_OP_ABS, TRM_V_S32, NODE_ABS_S32},
    {TRM_OP_AND, TRM_V_PRED, NODE_AND_MASK},
    {TRM_OP_OR, TRM_V_PRED, NODE_OR_MASK},
    {TRM_OP_XOR, TRM_V_PRED, NODE_XOR_MASK},
    {TRM_OP_NOT, TRM_V_PRED, NODE_NOT_MASK},
};

/* Functions of float32 that are several nodes. */
static const struct {
  trm_opcode opcode;
  unary_fn unary;
  binary_fn binary;
} compositions[] = {
    {TRM_OP_ABS, trm_generate_abs, NULL},
    {TRM_OP_NEGATE, trm_generate_negate, NULL},
    {TRM_OP_SIGN, trm_generate_sign, NULL},
    {TRM_OP_ROUND_NEAREST_AFZ, trm_generate_round, NULL},
    {TRM_OP_RSQRT, trm_generate_rsqrt, NULL},
    {TRM_OP_IS_FINITE, trm_generate_is_finite, NULL},
    {TRM_OP_EXPONENTIAL, trm_generate_exp, NULL},
    {TRM_OP_EXPONENTIAL_MINUS_ONE, trm_generate_expm1, NULL},
    {TRM_OP_LOG, trm_generate_log, NULL},
    {TRM_OP_LOG_PLUS_ONE, trm_generate_log1p, NULL},
    {TRM_OP_TANH, trm_generate_tanh, NULL},
    {TRM_OP_LOGISTIC, trm_generate_logistic, NULL},
    {TRM_OP_ERF, trm_generate_erf, NULL},
    {TRM_OP_DIVIDE, NULL, trm_generate_divide},
    {TRM_OP_MAXIMUM, NULL, trm_generate_maximum},
    {TRM_OP_MINIMUM, NULL, trm_generate_minimum},
};

/* The run of operations that is being made into code. */
typedef struct run {
  compiler *c;
  uint32_t num_fills;
  trm_generator g;
  trm_node *values;  /* by slot: its node in this run, or TRM_NO_NODE */
  uint32_t *written; /* slots */
  uint32_t num_written;
  uint32_t *reads; /* slots of arrays, then (from the end) of scalars */
  uint32_t num_arrays, num_scalars;
} run;

static trm_node add_node(run *r, trm_node_kind kind, trm_node a, trm_node b, trm_node c,
                         uint32_t number) {
  return trm_generate(&r->g, kind, a, b, c, number);
}
static trm_node add_word(run *r, uint32_t bits) {
  return add_node(r, NODE_CONSTANT, TRM_NO_NODE, TRM_NO_NODE, TRM_NO_NODE, bits);
}

/* What strip_request asks to be brought ahead of the array that the node loads. */
static void add_prefetch(run *r, trm_node load, const strip_slot *slot) {
  const uint32_t *ahead = r->c->request->ahead;
  if (ahead != NULL && slot->kind == SLOT_OPERAND && slot->moves && ahead[slot->source] != 0)
    add_node(r, NODE_PREFETCH, load, TRM_NO_NODE, TRM_NO_NODE, ahead[slot->source]);
}

/* The node of what is in the slot; `load` says how it is read from memory. */
static trm_node value_of(run *r, uint32_t slot, trm_node_kind load) {
  if (r->values[slot] != TRM_NO_NODE) return r->values[slot];
  float constant;
  trm_node node;
  if (load == NODE_LOAD && trm_strip_find_constant(r->c, r->num_fills, slot, &constant)) {
    node = trm_generate_constant(&r->g, constant);
  } else if (load == NODE_LOAD && trm_strip_is_uniform(r->c, r->num_fills, slot)) {
    node = add_node(r, NODE_SCALAR, TRM_NO_NODE, TRM_NO_NODE, TRM_NO_NODE, slot);
    r->reads[r->c->slots.count - ++r->num_scalars] = slot;
  } else {
    node = add_node(r, load, TRM_NO_NODE, TRM_NO_NODE, TRM_NO_NODE, slot);
    r->reads[r->num_arrays++] = slot;
    add_prefetch(r, node, &r->c->slots.items[slot]);
  }
  r->values[slot] = node;
  return node;
}

static trm_node vector_of(run *r, uint32_t slot) { return value_of(r, slot, NODE_LOAD); }
static trm_node mask_of(run *r, uint32_t slot) {
  const trm_node node = value_of(r, slot, NODE_LOAD_MASK);
  if (r->g.failed || r->g.nodes.items[node].kind != NODE_LOAD_U8) return node;
  return add_node(r, NODE_COMPARE_U32, node, add_word(r, 0), TRM_NO_NODE, 4);
}
/* Bytes, or a mask that this run has made, as 32-bit integers. */
static trm_node bytes_of(run *r, uint32_t slot) {
  const trm_node node = value_of(r, slot, NODE_LOAD_U8);
  if (r->g.failed || r->g.nodes.items[node].kind == NODE_LOAD_U8) return node;
  const trm_node one = add_word(r, 1);
  return add_node(r, NODE_SELECT, node, one, add_word(r, 0), 0);
}

static bool find_single(run *r, const strip_operation *o, trm_node *out) {
  for (size_t i = 0; i < sizeof single_nodes / sizeof *single_nodes; ++i) {
    const trm_opcode opcode = single_nodes[i].opcode;
    const trm_vector_type type = single_nodes[i].type;
    if (o->function != r->c->ops->op[opcode][type]) continue;
    const trm_node_kind load = type == TRM_V_PRED ? NODE_LOAD_MASK : NODE_LOAD;
    const trm_node a = value_of(r, o->in[0], load);
    const trm_node b = trm_opcode_arity(opcode) > 1 ? value_of(r, o->in[1], load) : TRM_NO_NODE;
    *out = add_node(r, single_nodes[i].kind, a, b, TRM_NO_NODE, 0);
    return true;
  }
  return false;
}

static bool find_composition(run *r, const strip_operation *o, trm_node *out) {
  static const struct {
    trm_opcode opcode;
    uint32_t how;
  } whole[] = {{TRM_OP_ROUND_NEAREST_EVEN, 8}, {TRM_OP_FLOOR, 9}, {TRM_OP_CEIL, 10}};
  const trm_vector_ops *ops = r->c->ops;
  for (size_t i = 0; i < sizeof compositions / sizeof *compositions; ++i) {
    if (o->function != ops->op[compositions[i].opcode][TRM_V_F32]) continue;
    const trm_node x = vector_of(r, o->in[0]);
    *out = compositions[i].unary != NULL ? compositions[i].unary(&r->g, x)
                                         : compositions[i].binary(&r->g, x, vector_of(r, o->in[1]));
    return true;
  }
  for (size_t i = 0; i < sizeof whole / sizeof *whole; ++i) {
    if (o->function != ops->op[whole[i].opcode][TRM_V_F32]) continue;
    const trm_node x = vector_of(r, o->in[0]);
    *out = add_node(r, NODE_TO_WHOLE, x, TRM_NO_NODE, TRM_NO_NODE, whole[i].how);
    return true;
  }
  if (o->function != ops->op[TRM_OP_CLAMP][TRM_V_F32]) return false;
  const trm_node low = vector_of(r, o->in[0]), x = vector_of(r, o->in[1]);
  *out = trm_generate_clamp(&r->g, low, x, vector_of(r, o->in[2]));
  return true;
}

static bool find_compare(run *r, const strip_operation *o, trm_node *out) {
  static const struct {
    trm_vector_type type;
    trm_node_kind kind;
    uint8_t predicates[6]; /* by trm_comparison */
  } compares[] = {
#define PREDICATES(eq, ne, ge, gt, le, lt)                                                         \
  {                                                                                                \
    [TRM_CMP_EQ] = eq, [TRM_CMP_NE] = ne, [TRM_CMP_GE] = ge, [TRM_CMP_GT] = gt, [TRM_CMP_LE] = le, \
    [TRM_CMP_LT] = lt                                                                              \
  }
      {TRM_V_F32, NODE_COMPARE, PREDICATES(0, 4, 29, 30, 18, 17)},
      {TRM_V_S32, NODE_COMPARE_S32, PREDICATES(0, 4, 5, 6, 2, 1)},
      {TRM_V_U32, NODE_COMPARE_U32, PREDICATES(0, 4, 5, 6, 2, 1)},
#undef PREDICATES
  };
  for (size_t i = 0; i < sizeof compares / sizeof *compares; ++i) {
    for (int comparison = 0; comparison < 6; ++comparison) {
      if (o->function != r->c->ops->compare[comparison][compares[i].type]) continue;
      const trm_node a = vector_of(r, o->in[0]), b = vector_of(r, o->in[1]);
      *out = add_node(r, compares[i].kind, a, b, TRM_NO_NODE, compares[i].predicates[comparison]);
      return true;
    }
  }
  return false;
}

static bool find_convert(run *r, const strip_operation *o, trm_node *out) {
  const trm_vector_ops *ops = r->c->ops;
  const trm_vector_fn f = o->function;
  const trm_node none = TRM_NO_NODE;
  if (f == ops->convert[TRM_V_S32][TRM_V_F32]) {
    *out = add_node(r, NODE_S32_TO_FLOAT, vector_of(r, o->in[0]), none, none, 0);
  } else if (f == ops->convert[TRM_V_U32][TRM_V_F32]) {
    *out = add_node(r, NODE_U32_TO_FLOAT, vector_of(r, o->in[0]), none, none, 0);
  } else if (f == ops->wrap[0][TRM_V_S32]) {
    *out = add_node(r, NODE_FLOAT_TO_S32, vector_of(r, o->in[0]), none, none, 0);
  } else if (f == ops->convert[TRM_V_F32][TRM_V_S32]) {
    *out = trm_generate_saturated(&r->g, vector_of(r, o->in[0]));
  } else if (f == ops->convert[TRM_V_U8][TRM_V_F32]) { /* and of predicates, as those below */
    *out = add_node(r, NODE_S32_TO_FLOAT, bytes_of(r, o->in[0]), none, none, 0);
  } else if (f == ops->convert[TRM_V_U8][TRM_V_S32] || f == ops->convert[TRM_V_U8][TRM_V_U32]) {
    *out = bytes_of(r, o->in[0]);
  } else if (f == ops->convert[TRM_V_U16][TRM_V_S32] || f == ops->convert[TRM_V_U16][TRM_V_U32]) {
    *out = value_of(r, o->in[0], NODE_LOAD_U16);
  } else if (f == ops->convert[TRM_V_S32][TRM_V_U16] || f == ops->convert[TRM_V_U32][TRM_V_U16]) {
    *out = add_node(r, NODE_AND_BITS, vector_of(r, o->in[0]), add_word(r, 0xffff), none, 0);
  } else if (f == ops->convert[TRM_V_F32][TRM_V_PRED]) {
    *out = add_node(r, NODE_COMPARE, vector_of(r, o->in[0]), add_word(r, 0), none, 4);
  } else if (f == ops->half_to_float) {
    *out = value_of(r, o->in[0], NODE_LOAD_HALF);
  } else if (f == ops->round_half) {
    *out = add_node(r, NODE_ROUND_HALF, vector_of(r, o->in[0]), none, none, 0);
  } else if (f == ops->copy[2]) {
    *out = vector_of(r, o->in[0]);
  } else {
    return false;
  }
  return true;
}

/* Adds the operation to the run; false when there are no nodes for it. */
static bool add_operation(run *r, const strip_operation *o) {
  if (o->function == NULL || o->generated != NULL) return false;
  const trm_vector_ops *ops = r->c->ops;
  trm_node node;
  if (o->function == ops->select[2]) {
    const trm_node mask = mask_of(r, o->in[0]), yes = vector_of(r, o->in[1]);
    node = add_node(r, NODE_SELECT, mask, yes, vector_of(r, o->in[2]), 0);
  } else if (o->function == ops->float_to_half) {
    /* Nothing but the result's array has this type. */
    const trm_node_kind kind =
        r->c->slots.items[o->out].streams ? NODE_STREAM_HALF : NODE_STORE_HALF;
    add_node(r, kind, vector_of(r, o->in[0]), TRM_NO_NODE, TRM_NO_NODE, o->out);
    r->written[r->num_written++] = o->out;
    return true;
  } else if (!find_single(r, o, &node) && !find_composition(r, o, &node) &&
             !find_compare(r, o, &node) && !find_convert(r, o, &node)) {
    return false;
  }
  r->values[o->out] = node;
  r->written[r->num_written++] = o->out;
  return true;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

static trm_status begin_run(run *r, trm_error *error) {
  const size_t n = r->c->slots.count;
  r->g.nodes.count = 0;
  r->num_written = r->num_arrays = r->num_scalars = 0;
  if (r->values == NULL) {
    r->values = ARENA_NEW(&r->c->scratch, trm_node, n);
    r->reads = ARENA_NEW(&r->c->scratch, uint32_t, n);
    r->written = ARENA_NEW(&r->c->scratch, uint32_t, r->c->operations.count + 1);
    CHECK_MEMORY(r->values, "strip code");
    CHECK_MEMORY(r->reads, "strip code");
    CHECK_MEMORY(r->written, "strip code");
  }
  for (size_t i = 0; i < n; ++i) r->values[i] = TRM_NO_NODE;
  return TRM_OK;
}

static trm_node_kind store_kind(const compiler *c, const strip_slot *slot) {
  if (slot->kind == SLOT_RESULT && c->request->running != NULL) {
    switch (c->request->running[slot->source]) {
      case TRM_OP_ADD: return NODE_SUM_INTO;
      case TRM_OP_MAXIMUM: return NODE_MAXIMUM_INTO;
      case TRM_OP_MINIMUM: return NODE_MINIMUM_INTO;
      default: break;
    }
  }
  if (slot->log2_size == 0) return NODE_STORE_MASK;
  if (slot->log2_size == 1) return NODE_STORE_U16;
  return slot->streams ? NODE_STREAM : NODE_STORE;
}

/* Stores what others read; `end` is the operation after the run. Keeps the slots in r->written. */
static void add_stores(run *r, size_t end) {
  const compiler *c = r->c;
  const uint32_t num_written = r->num_written;
  r->num_written = 0;
  for (uint32_t i = 0; i < num_written; ++i) {
    const uint32_t slot = r->written[i];
    bool is_new = true;
    for (uint32_t k = 0; k < r->num_written; ++k) is_new = is_new && r->written[k] != slot;
    const bool is_read =
        trm_strip_is_read_later(c->operations.items, end, c->operations.count, slot);
    if (!is_new || (c->slots.items[slot].kind == SLOT_REGISTER && !is_read)) continue;
    r->written[r->num_written++] = slot;
    if (r->values[slot] == TRM_NO_NODE) continue; /* a half, which is stored */
    trm_node_kind kind = store_kind(c, &c->slots.items[slot]);
    if (kind == NODE_STREAM && is_read) kind = NODE_STORE;
    add_node(r, kind, r->values[slot], TRM_NO_NODE, TRM_NO_NODE, slot);
  }
}

static trm_status keep_run(run *r, trm_machine_code *code, strip_operation *out,
                           bool *out_generated, trm_error *error) {
  compiler *c = r->c;
  strip_generated *generated = ARENA_NEW(c->arena, strip_generated, 1);
  const uint32_t num_reads = r->num_arrays + r->num_scalars;
  uint32_t *slots = ARENA_NEW(c->arena, uint32_t, num_reads + r->num_written + 1);
  CHECK_MEMORY(generated, "strip code");
  CHECK_MEMORY(slots, "strip code");
  memcpy(slots, r->reads, r->num_arrays * sizeof *slots);
  memcpy(slots + r->num_arrays, r->reads + c->slots.count - r->num_scalars,
         r->num_scalars * sizeof *slots);
  memcpy(slots + num_reads, r->written, r->num_written * sizeof *slots);
  *generated = (strip_generated){.num_reads = num_reads,
                                 .num_arrays = r->num_arrays,
                                 .num_writes = r->num_written,
                                 .num_nodes = (uint32_t)r->g.nodes.count,
                                 .reads = slots,
                                 .writes = slots + num_reads};
  *out_generated = true;
  if (!c->only_counts) {
    strip_mapping mapping = {NULL, 0};
    mapping.memory = trm_code_map(code, &mapping.size);
    *out_generated = mapping.memory != NULL;
    if (mapping.memory == NULL) return TRM_OK;
    if (!VECTOR_PUSH(&c->mappings, mapping)) {
      trm_code_unmap(mapping.memory, mapping.size);
      FAIL_NO_MEMORY("strip code");
    }
    memcpy(&generated->function, &mapping.memory, sizeof generated->function);
  }
  *out = (strip_operation){.generated = generated, .out = slots[num_reads]};
  return TRM_OK;
}

/* Adds operations from `begin` on as long as they have nodes; *out_end is behind the last one. */
static trm_status fill_run(run *r, size_t begin, size_t end, size_t *out_end, trm_error *error) {
  TRY(begin_run(r, error));
  while (begin < end && add_operation(r, &r->c->operations.items[begin])) ++begin;
  *out_end = begin;
  return TRM_OK;
}

/* Appends operations [begin, end), which fill the run, at *kept, as one where that can be: else by
 * halves. */
static trm_status make_run(run *r, size_t begin, size_t end, size_t *kept, trm_error *error) {
  strip_operation *const operations = r->c->operations.items;
  add_stores(r, end);
  trm_machine_code code = {0};
  bool is_generated = false;
  strip_operation generated;
  trm_status status = TRM_OK;
  if (r->num_written > 0 && trm_generator_finish(&r->g, !r->c->only_counts, &code))
    status = keep_run(r, &code, &generated, &is_generated, error);
  trm_code_free(&code);
  if (status != TRM_OK) return status;
  if (is_generated) {
    operations[(*kept)++] = generated;
  } else if (end - begin == 1) {
    operations[(*kept)++] = operations[begin];
  } else {
    const size_t middle = begin + (end - begin) / 2;
    size_t filled;
    TRY(fill_run(r, begin, middle, &filled, error));
    TRY(make_run(r, begin, middle, kept, error));
    TRY(fill_run(r, middle, end, &filled, error));
    TRY(make_run(r, middle, end, kept, error));
  }
  return TRM_OK;
}

/* Loads first: a run may be longer then. They read nothing that the stage writes. */
static trm_status move_loads(compiler *c, uint32_t num_fills, trm_error *error) {
  strip_operation *later = ARENA_NEW(&c->scratch, strip_operation, c->operations.count + 1);
  CHECK_MEMORY(later, "strip code");
  size_t num_first = num_fills, num_later = 0;
  for (size_t i = num_fills; i < c->operations.count; ++i) {
    const strip_operation operation = c->operations.items[i];
    if (operation.function == NULL) c->operations.items[num_first++] = operation;
    else later[num_later++] = operation;
  }
  memcpy(c->operations.items + num_first, later, num_later * sizeof *later);
  return TRM_OK;
}

static bool is_wide(void) { return strcmp(trm_vector_ops_get()->name, "avx512") == 0; }

bool trm_strip_generates(void) {
  if (!is_wide() && strcmp(trm_vector_ops_get()->name, "avx2") != 0) return false;
  const char *asked = getenv("TREMULA_GENERATE");
  return asked == NULL || strcmp(asked, "0") != 0;
}

trm_status trm_strip_generate(strip_compiler *c, uint32_t num_fills, trm_error *error) {
  if (c->request->is_function || !trm_strip_generates()) return TRM_OK;
  TRY(move_loads(c, num_fills, error));
  run r = {.c = c, .num_fills = num_fills, .g = {.is_wide = is_wide()}};
  size_t kept = num_fills;
  trm_status status = TRM_OK;
  for (size_t begin = num_fills; begin < c->operations.count && status == TRM_OK;) {
    size_t end;
    TRY_OR_GOTO(fill_run(&r, begin, c->operations.count, &end, error), done);
    if (end == begin) {
      c->operations.items[kept++] = c->operations.items[begin++];
      continue;
    }
    status = make_run(&r, begin, end, &kept, error);
    begin = end;
  }
  c->operations.count = kept;
done:
  trm_generator_free(&r.g);
  return status;
}
