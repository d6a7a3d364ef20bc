/* Owns: which register holds which value of a generated loop, and the instructions of its nodes. */
#include "ops/generate/generator.h"

typedef enum node_form {
  FORM_CONSTANT,
  FORM_LOAD,
  FORM_STORE,
  FORM_STORE_MASK,
  FORM_STREAM_HALF,
  FORM_PREFETCH,
  FORM_INTO,
  FORM_BINARY,
  FORM_SWAPPED,
  FORM_UNARY,
  FORM_SHIFT,
  FORM_FMA,
  FORM_ROUND_HALF,
  FORM_COPY_SIGN,
  FORM_SELECT,
  FORM_DIVIDE_WHERE,
  FORM_MASKS
} node_form;
typedef enum node_result { RESULT_VECTOR, RESULT_MASK, RESULT_NONE } node_result;

enum {
  NUMBER = -2,
  LANES = 16,
  UNROLLED = 4,
  TAIL = 1 /* the mask of the lanes of the last turn */
};

static const struct kind {
  uint8_t operands;
  node_result result;
  node_form form;
  uint8_t map, prefix;
  uint16_t opcode;
  int immediate;
} kinds[] = {
#define NODE(kind, operands, result, form, map, prefix, opcode, immediate) \
  [NODE_##kind] = {operands, RESULT_##result, FORM_##form, map, prefix, opcode, immediate},
#include "ops/generate/nodes.def"
#undef NODE
};

/* [rdi + 8 slot] are the pointers, rsi the number of elements, rax the first of this turn, rcx for
 * passing use; the other general registers hold pointers to arrays. */
static const uint8_t pointers[] = {RDX, R8, R9, R10, R11, RBX, RBP, R12, R13, R14, R15};
enum { NUM_POINTERS = sizeof pointers };

trm_node trm_generate(trm_generator *g, trm_node_kind kind, trm_node a, trm_node b, trm_node c,
                      uint32_t number) {
  trm_node_data node = {kind, {a, b, c}, number, false};
  node.is_invariant = kinds[kind].form != FORM_LOAD && kinds[kind].result != RESULT_NONE;
  for (uint32_t i = 0; i < kinds[kind].operands && !g->failed; ++i) {
    if (!g->nodes.items[node.operands[i]].is_invariant) node.is_invariant = false;
  }
  if (!VECTOR_PUSH(&g->nodes, node)) g->failed = true;
  return (trm_node)g->nodes.count - 1;
}

void trm_generator_free(trm_generator *g) { VECTOR_FREE(&g->nodes); }

typedef struct writer {
  const trm_generator *g;
  trm_machine_code *code;
  trm_node *last;  /* by node: the last node that reads it; itself: none does */
  uint8_t *place;  /* by node: its register */
  uint8_t *nans;   /* by node, of running extremes: the mask of the lanes that had NaNs */
  bool *is_wanted; /* by node */
  uint32_t slots[NUM_POINTERS], num_slots;
  uint32_t free_vectors, free_masks; /* bits by number */
  uint32_t temporaries;              /* vectors that hold a constant for one instruction */
  uint32_t running;                  /* vectors of running results; 0: the program has none */
  uint32_t kept_vectors, kept_masks; /* free ones after what is invariant was computed */
  uint32_t turn;                     /* of the UNROLLED ones, where there are running results */
  uint32_t streamed;                 /* bits by place in `slots` */
  bool streams;                      /* in the loop at hand */
  bool is_tail, failed;
} writer;

static const trm_node_data *node_at(const writer *w, trm_node node) {
  return &w->g->nodes.items[node];
}
static const struct kind *kind_of(const writer *w, trm_node node) {
  return &kinds[node_at(w, node)->kind];
}
static bool is_constant(const writer *w, trm_node node) {
  return kind_of(w, node)->form == FORM_CONSTANT;
}

static uint32_t take(writer *w, uint32_t *free) {
  if (*free == 0) {
    w->failed = true;
    return 0;
  }
  const uint32_t number = (uint32_t)__builtin_ctz(*free);
  *free &= *free - 1;
  return number;
}

static trm_code_operand in_register(uint32_t number) {
  return (trm_code_operand){OPERAND_REGISTER, number, 0, 0};
}

/* An operand that may be in memory. */
static trm_code_operand operand(writer *w, trm_node node) {
  const trm_node_data *data = node_at(w, node);
  if (data->kind == NODE_CONSTANT)
    return (trm_code_operand){OPERAND_POOL, trm_code_pool_word(w->code, data->number), 0, 0};
  if (data->kind == NODE_SCALAR) {
    trm_code_load_pointer(w->code, RCX, data->number);
    return (trm_code_operand){OPERAND_SCALAR, RCX, 0, 0};
  }
  return in_register(w->place[node]);
}

static trm_code_form form_of(uint8_t map, uint8_t prefix, uint8_t opcode) {
  return (trm_code_form){.map = map, .prefix = prefix, .opcode = opcode, .length = 2};
}

/* The vector register of an operand; a constant gets one for this instruction. */
static uint32_t vector_of(writer *w, trm_node node) {
  if (!is_constant(w, node)) return w->place[node];
  const uint32_t number = take(w, &w->free_vectors);
  w->temporaries |= UINT32_C(1) << number;
  trm_code_form broadcast = form_of(MAP_0F38, PREFIX_66, 0x18);
  broadcast.reads_one = true;
  trm_code_evex(w->code, broadcast, number, 0, operand(w, node), 0, false);
  return number;
}

/* Gives back what the node is the last to read, so that its result may take the place. */
static void release(writer *w, trm_node node) {
  w->free_vectors |= w->temporaries;
  w->temporaries = 0;
  for (uint32_t i = 0; i < kind_of(w, node)->operands; ++i) {
    const trm_node read = node_at(w, node)->operands[i];
    if (w->last[read] != node || is_constant(w, read)) continue;
    *(kind_of(w, read)->result == RESULT_MASK ? &w->free_masks : &w->free_vectors) |=
        UINT32_C(1) << w->place[read];
  }
}

static uint32_t place_result(writer *w, trm_node node) {
  const bool is_mask = kind_of(w, node)->result == RESULT_MASK;
  const uint32_t number = take(w, is_mask ? &w->free_masks : &w->free_vectors);
  w->place[node] = (uint8_t)number;
  return number;
}

/* Whether the instruction may overwrite the operand's register. */
static bool may_overwrite(const writer *w, trm_node node, trm_node read) {
  return is_constant(w, read) || w->last[read] == node;
}

static uint8_t pointer_of(const writer *w, uint32_t slot) {
  uint32_t k = 0;
  while (w->slots[k] != slot) ++k;
  return pointers[k];
}
static trm_code_operand array_of(const writer *w, uint32_t slot, uint8_t log2_size) {
  return (trm_code_operand){OPERAND_ARRAY, pointer_of(w, slot), log2_size, (uint8_t)w->turn};
}

static uint8_t log2_of(trm_node_kind kind) {
  switch (kind) {
    case NODE_LOAD_HALF:
    case NODE_STREAM_HALF:
    case NODE_STORE_HALF: return 1;
    case NODE_LOAD_U8:
    case NODE_LOAD_MASK:
    case NODE_STORE_MASK: return 0;
    default: return 2;
  }
}

static void write_load(writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const trm_code_operand from = array_of(w, data->number, log2_of(data->kind));
  const bool is_mask = data->kind == NODE_LOAD_MASK;
  const uint32_t to = is_mask ? take(w, &w->free_vectors) : place_result(w, node);
  trm_code_evex(w->code, form, to, 0, from, w->is_tail ? TAIL : 0, w->is_tail);
  if (!is_mask) return;
  trm_code_evex(w->code, form_of(MAP_0F38, PREFIX_66, 0x27), place_result(w, node), to,
                in_register(to), 0, false);
  w->free_vectors |= UINT32_C(1) << to;
}

static void write_store(writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t value = vector_of(w, data->operands[0]);
  if (data->kind == NODE_STREAM && (w->is_tail || !w->streams))
    form.opcode = (uint8_t)kinds[NODE_STORE].opcode;
  trm_code_evex(w->code, form, value, 0, array_of(w, data->number, log2_of(data->kind)),
                w->is_tail ? TAIL : 0, false);
}

static void write_half_stream(writer *w, trm_node node, trm_code_form form) {
  if (w->is_tail || !w->streams) {
    write_store(w, node, form);
    return;
  }
  const trm_node_data *data = node_at(w, node);
  const uint32_t value = vector_of(w, data->operands[0]), half = take(w, &w->free_vectors);
  trm_code_evex(w->code, form, value, 0, in_register(half), 0, false);
  trm_code_form stream = form_of(MAP_0F, PREFIX_NONE, (uint8_t)kinds[NODE_STREAM].opcode);
  stream.length = 1;
  trm_code_evex(w->code, stream, half, 0, array_of(w, data->number, 1), 0, false);
  w->free_vectors |= UINT32_C(1) << half;
}

static void write_prefetch(writer *w, trm_node node) {
  const trm_node_data *data = node_at(w, node), *load = node_at(w, data->operands[0]);
  const uint8_t log2_size = log2_of(load->kind);
  trm_code_prefetch(w->code, pointer_of(w, load->number), log2_size,
                    data->number + (w->turn * LANES << log2_size));
}

static void write_mask_store(writer *w, trm_node node) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t bytes = take(w, &w->free_vectors);
  const trm_code_operand ones = {OPERAND_POOL, trm_code_pool_word(w->code, 0x01010101), 0, 0};
  const trm_code_operand to = array_of(w, data->number, 0);
  trm_code_form form = {.map = MAP_0F38, .prefix = PREFIX_F3, .opcode = 0x28};
  trm_code_evex(w->code, form, bytes, 0, in_register(w->place[data->operands[0]]), 0, false);
  form = (trm_code_form){.map = MAP_0F, .prefix = PREFIX_66, .opcode = 0xdb};
  trm_code_evex(w->code, form, bytes, bytes, ones, 0, false);
  form = (trm_code_form){.map = MAP_0F, .prefix = PREFIX_F2, .opcode = 0x7f};
  trm_code_evex(w->code, form, bytes, 0, to, w->is_tail ? TAIL : 0, false);
  w->free_vectors |= UINT32_C(1) << bytes;
}

/* kandw and its like: VEX instructions of two bytes' prefix. */
static void write_mask_operation(writer *w, trm_node_kind kind, uint32_t to, uint32_t first,
                                 uint32_t last) {
  const uint32_t is_binary = kinds[kind].operands == 2 ? 4 : 0;
  CODE(w->code, 0xc5, (uint8_t)(0x80 | (~first & 15) << 3 | is_binary), (uint8_t)kinds[kind].opcode,
       (uint8_t)(0xc0 | to << 3 | last));
}

static uint32_t num_running(trm_node_kind kind) { return kind == NODE_SUM_INTO ? 4 : 2; }

/* The first vector is `place`, the others follow; they are taken before anything else is. */
static void write_into(writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t to = w->place[node] + w->turn % num_running(data->kind);
  const uint32_t value = vector_of(w, data->operands[0]);
  if (data->kind == NODE_SUM_INTO) {
    trm_code_evex(w->code, form, to, to, in_register(value), 0, false);
    return;
  }
  /* max gives its last operand where one is NaN or both are equal. */
  trm_code_form unordered = form_of(MAP_0F, PREFIX_NONE, 0xc2);
  unordered.has_immediate = true;
  unordered.immediate = 3;
  const uint32_t mask = take(w, &w->free_masks);
  trm_code_evex(w->code, unordered, mask, value, in_register(value), 0, false);
  trm_code_evex(w->code, form, to, value, in_register(to), 0, false);
  write_mask_operation(w, NODE_OR_MASK, w->nans[node], w->nans[node], mask);
  w->free_masks |= UINT32_C(1) << mask;
}

/* Begins all running results: sums with 0, extremes with the infinity that any number replaces. */
static void begin_running(writer *w) {
  trm_code_form broadcast = form_of(MAP_0F38, PREFIX_66, 0x18);
  broadcast.reads_one = true;
  for (trm_node node = 0; node < w->g->nodes.count; ++node) {
    if (kind_of(w, node)->form != FORM_INTO) continue;
    const trm_node_kind kind = node_at(w, node)->kind;
    const uint32_t first = kind == NODE_SUM_INTO       ? 0
                           : kind == NODE_MAXIMUM_INTO ? 0xff800000u
                                                       : 0x7f800000u;
    const trm_code_operand value = {OPERAND_POOL, trm_code_pool_word(w->code, first), 0, 0};
    const uint8_t nans = w->nans[node];
    if (nans != 0) write_mask_operation(w, NODE_XOR_MASK, nans, nans, nans);
    for (uint32_t k = 0; k < num_running(kind); ++k)
      trm_code_evex(w->code, broadcast, w->place[node] + k, 0, value, 0, false);
  }
}

static void store_running(writer *w) {
  trm_code_form broadcast = form_of(MAP_0F38, PREFIX_66, 0x18);
  broadcast.reads_one = true;
  const trm_code_operand nan = {OPERAND_POOL, trm_code_pool_word(w->code, 0x7fc00000), 0, 0};
  for (trm_node node = 0; node < w->g->nodes.count; ++node) {
    if (kind_of(w, node)->form != FORM_INTO) continue;
    trm_code_load_pointer(w->code, RCX, node_at(w, node)->number);
    for (uint32_t k = 0; k < num_running(node_at(w, node)->kind); ++k) {
      const uint32_t from = w->place[node] + k;
      const trm_code_operand at = {OPERAND_VECTOR, RCX, 0, (uint8_t)k};
      if (w->nans[node] != 0) trm_code_evex(w->code, broadcast, from, 0, nan, w->nans[node], false);
      trm_code_evex(w->code, form_of(MAP_0F, PREFIX_NONE, 0x11), from, 0, at, 0, false);
    }
  }
}

static bool is_commutative(trm_node_kind kind) {
  return kind == NODE_ADD || kind == NODE_MULTIPLY || kind == NODE_ADD_BITS ||
         kind == NODE_AND_BITS || kind == NODE_OR_BITS || kind == NODE_XOR_BITS ||
         kind == NODE_MULTIPLY_BITS;
}

static void write_binary(writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  trm_node a = data->operands[0], b = data->operands[1];
  const bool swaps = is_commutative(data->kind) && is_constant(w, a) && !is_constant(w, b);
  if (swaps || kinds[data->kind].form == FORM_SWAPPED) a = data->operands[1], b = data->operands[0];
  const uint32_t first = vector_of(w, a);
  const trm_code_operand last = operand(w, b);
  release(w, node);
  trm_code_evex(w->code, form, place_result(w, node), first, last, 0, false);
}

static void write_unary(writer *w, trm_node node, trm_code_form form) {
  const trm_code_operand last = operand(w, node_at(w, node)->operands[0]);
  release(w, node);
  trm_code_evex(w->code, form, place_result(w, node), 0, last, 0, false);
}

static void write_shift(writer *w, trm_node node, trm_code_form form) {
  const uint32_t from = vector_of(w, node_at(w, node)->operands[0]);
  release(w, node);
  /* The destination stands where others have their first source. */
  const uint32_t extension = (uint32_t)kind_of(w, node)->opcode >> 8;
  trm_code_evex(w->code, form, extension, place_result(w, node), in_register(from), 0, false);
}

/* The register of the operand, free to be overwritten: a copy where others read it. */
static uint32_t own(writer *w, trm_node node, trm_node read) {
  const uint32_t number = vector_of(w, read);
  if (may_overwrite(w, node, read)) return number;
  const uint32_t copy = take(w, &w->free_vectors);
  trm_code_evex(w->code, form_of(MAP_0F, PREFIX_NONE, 0x28), copy, 0, in_register(number), 0,
                false);
  w->temporaries |= UINT32_C(1) << copy;
  return copy;
}

static void keep_result(writer *w, trm_node node, uint32_t number) {
  release(w, node);
  w->free_vectors &= ~(UINT32_C(1) << number);
  w->place[node] = (uint8_t)number;
}

/* vfmadd213: to = first to + last; 231: to = first last + to; 132: to = to last + first. */
static void write_fma(writer *w, trm_node node, trm_code_form form) {
  enum { FMA132 = 0x98, FMA213 = 0xa8, FMA231 = 0xb8 };
  const trm_node_data *data = node_at(w, node);
  trm_node a = data->operands[0], b = data->operands[1];
  const trm_node c = data->operands[2];
  const bool dies_b = !is_constant(w, b) && may_overwrite(w, node, b);
  const bool dies_a = !is_constant(w, a) && may_overwrite(w, node, a);
  const bool in_sum = !is_constant(w, c) &&
                      (may_overwrite(w, node, c) || (!dies_a && !dies_b && !is_constant(w, a)));
  if (in_sum ? is_constant(w, a) : dies_b || (!dies_a && is_constant(w, b)))
    a = data->operands[1], b = data->operands[0];
  const uint32_t to = own(w, node, in_sum ? c : a);
  uint32_t first;
  trm_node last = b;
  if (in_sum) {
    first = vector_of(w, a);
    form.opcode = FMA231;
  } else if (is_constant(w, c)) {
    first = vector_of(w, b);
    last = c;
    form.opcode = FMA213;
  } else {
    first = w->place[c];
    form.opcode = FMA132;
  }
  trm_code_evex(w->code, form, to, first, operand(w, last), 0, false);
  keep_result(w, node, to);
}

static void write_round_half(writer *w, trm_node node, trm_code_form form) {
  const uint32_t from = vector_of(w, node_at(w, node)->operands[0]);
  release(w, node);
  const uint32_t to = place_result(w, node);
  trm_code_evex(w->code, form, from, 0, in_register(to), 0, false);
  trm_code_evex(w->code, form_of(MAP_0F38, PREFIX_66, 0x13), to, 0, in_register(to), 0, false);
}

static void write_copy_sign(writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t to = own(w, node, data->operands[0]);
  const uint32_t sign = vector_of(w, data->operands[1]);
  const trm_code_operand bit = {OPERAND_POOL, trm_code_pool_word(w->code, 0x80000000u), 0, 0};
  trm_code_evex(w->code, form, to, sign, bit, 0, false);
  keep_result(w, node, to);
}

static void write_select(writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t no = vector_of(w, data->operands[2]), mask = w->place[data->operands[0]];
  const trm_code_operand yes = operand(w, data->operands[1]);
  release(w, node);
  trm_code_evex(w->code, form, place_result(w, node), no, yes, mask, false);
}

static void write_divide_where(writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t mask = w->place[data->operands[0]];
  const uint32_t a = vector_of(w, data->operands[1]), b = vector_of(w, data->operands[2]);
  release(w, node);
  const uint32_t to = place_result(w, node);
  CODE(w->code, 0xc5, 0xf8, 0x98, (uint8_t)(0xc0 | mask << 3 | mask)); /* kortestw */
  CODE(w->code, 0x74, 6);                                              /* jz over the division */
  trm_code_evex(w->code, form, to, a, in_register(b), mask, true);
}

static void write_masks(writer *w, trm_node node) {
  const trm_node_data *data = node_at(w, node);
  const bool is_unary = kind_of(w, node)->operands == 1;
  const uint32_t first = is_unary ? 0 : w->place[data->operands[0]];
  const uint32_t last = w->place[data->operands[is_unary ? 0 : 1]];
  release(w, node);
  write_mask_operation(w, data->kind, place_result(w, node), first, last);
}

static void write_node(writer *w, trm_node node) {
  const struct kind *kind = kind_of(w, node);
  trm_code_form form = form_of(kind->map, kind->prefix, (uint8_t)kind->opcode);
  form.has_immediate = kind->immediate != -1;
  form.immediate =
      (uint8_t)(kind->immediate == NUMBER ? (int)node_at(w, node)->number : kind->immediate);
  switch (kind->form) {
    case FORM_CONSTANT: break;
    case FORM_LOAD: write_load(w, node, form); break;
    case FORM_STORE: write_store(w, node, form); break;
    case FORM_STORE_MASK: write_mask_store(w, node); break;
    case FORM_STREAM_HALF: write_half_stream(w, node, form); break;
    case FORM_PREFETCH: write_prefetch(w, node); break;
    case FORM_INTO: write_into(w, node, form); break;
    case FORM_BINARY:
    case FORM_SWAPPED: write_binary(w, node, form); break;
    case FORM_UNARY: write_unary(w, node, form); break;
    case FORM_SHIFT: write_shift(w, node, form); break;
    case FORM_FMA: write_fma(w, node, form); break;
    case FORM_ROUND_HALF: write_round_half(w, node, form); break;
    case FORM_COPY_SIGN: write_copy_sign(w, node, form); break;
    case FORM_SELECT: write_select(w, node, form); break;
    case FORM_DIVIDE_WHERE: write_divide_where(w, node, form); break;
    case FORM_MASKS: write_masks(w, node); break;
  }
  if (kind->result == RESULT_NONE) release(w, node);
}

/* What is invariant, before the loop; registers of what a turn reads stay taken. */
static void write_invariants(writer *w) {
  w->free_vectors = w->running < 32 ? UINT32_MAX << w->running : 0;
  w->free_masks = 0xfc; /* 0 is no mask, 1 is TAIL's */
  for (trm_node node = 0; node < w->g->nodes.count; ++node) {
    if (w->nans[node] != 0) w->nans[node] = (uint8_t)take(w, &w->free_masks);
  }
  w->temporaries = 0;
  for (trm_node node = 0; node < w->g->nodes.count && !w->failed; ++node) {
    if (w->is_wanted[node] && node_at(w, node)->is_invariant) write_node(w, node);
  }
  w->kept_vectors = w->free_vectors;
  w->kept_masks = w->free_masks;
}

static void write_turn(writer *w, bool is_tail) {
  w->is_tail = is_tail;
  w->free_vectors = w->kept_vectors;
  w->free_masks = w->kept_masks;
  for (trm_node node = 0; node < w->g->nodes.count && !w->failed; ++node) {
    if (w->is_wanted[node] && !node_at(w, node)->is_invariant) write_node(w, node);
  }
}

/* Who is read, and last by whom; and the arrays. */
static void look_through(writer *w) {
  const uint32_t n = (uint32_t)w->g->nodes.count;
  for (trm_node node = n; node-- > 0;) {
    const struct kind *kind = kind_of(w, node);
    if (kind->result == RESULT_NONE) w->is_wanted[node] = true;
    for (uint32_t i = 0; i < kind->operands && w->is_wanted[node]; ++i) {
      const trm_node read = node_at(w, node)->operands[i];
      if (!w->is_wanted[read]) w->last[read] = node;
      if (node_at(w, read)->is_invariant && !node_at(w, node)->is_invariant)
        w->last[read] = TRM_NO_NODE; /* each turn reads it */
      w->is_wanted[read] = true;
    }
  }
  for (trm_node node = 0; node < n; ++node) {
    const node_form form = kind_of(w, node)->form;
    const bool streams = node_at(w, node)->kind == NODE_STREAM || form == FORM_STREAM_HALF;
    if (!w->is_wanted[node] || (form != FORM_LOAD && form != FORM_STORE &&
                                form != FORM_STORE_MASK && form != FORM_STREAM_HALF))
      continue;
    uint32_t k = 0;
    while (k < w->num_slots && w->slots[k] != node_at(w, node)->number) ++k;
    if (k == NUM_POINTERS) {
      w->failed = true;
      return;
    }
    if (k == w->num_slots) w->slots[w->num_slots++] = node_at(w, node)->number;
    if (streams) w->streamed |= UINT32_C(1) << k;
  }
  for (trm_node node = 0; node < n; ++node) {
    if (kind_of(w, node)->form != FORM_INTO) continue;
    w->place[node] = (uint8_t)w->running;
    w->nans[node] = node_at(w, node)->kind != NODE_SUM_INTO; /* has one */
    w->running += num_running(node_at(w, node)->kind);
  }
}

/* Turns without a tail, UNROLLED of them at a time. */
static void write_unrolled(writer *w) {
  trm_machine_code *code = w->code;
  begin_running(w);
  CODE(code, 0x31, 0xc0); /* xor eax, eax */
  const size_t again = code->bytes.count;
  for (w->turn = 0; w->turn < UNROLLED; ++w->turn) write_turn(w, false);
  CODE(code, 0x48, 0x83, 0xc0, UNROLLED * LANES); /* add rax, 64 */
  CODE(code, 0x48, 0x39, 0xf0);                   /* cmp rax, rsi */
  CODE(code, 0x0f, 0x82);                         /* jb again */
  trm_code_land(code, trm_code_jump(code), again);
  store_running(w);
}

static void write_turns(writer *w) {
  trm_machine_code *code = w->code;
  CODE(code, 0x31, 0xc0); /* xor eax, eax */
  const size_t again = code->bytes.count;
  CODE(code, 0x48, 0x8d, 0x48, LANES); /* lea rcx, [rax + 16] */
  CODE(code, 0x48, 0x39, 0xf1);        /* cmp rcx, rsi */
  CODE(code, 0x0f, 0x87);              /* ja to the tail */
  const uint32_t to_tail = trm_code_jump(code);
  write_turn(w, false);
  CODE(code, 0x48, 0x83, 0xc0, LANES); /* add rax, 16 */
  CODE(code, 0xe9);                    /* jmp again */
  trm_code_land(code, trm_code_jump(code), again);
  trm_code_land(code, to_tail, code->bytes.count);
  CODE(code, 0x48, 0x29, 0xc6); /* sub rsi, rax */
  CODE(code, 0x0f, 0x84);       /* jz to the end */
  const uint32_t to_end = trm_code_jump(code);
  CODE(code, 0xb9, 0xff, 0xff, 0xff, 0xff); /* mov ecx, -1 */
  CODE(code, 0xc4, 0xe2, 0x48, 0xf5, 0xc9); /* bzhi ecx, ecx, esi */
  CODE(code, 0xc5, 0xf8, 0x92, 0xc9);       /* kmovw k1, ecx */
  write_turn(w, true);
  trm_code_land(code, to_end, code->bytes.count);
}

static void write_loop(writer *w, bool streams) {
  w->streams = streams;
  if (w->running > 0) write_unrolled(w);
  else write_turns(w);
}

/* Two loops, of which the first is for arrays at whole cache lines. */
static void write_streaming(writer *w) {
  trm_machine_code *code = w->code;
  CODE(code, 0x31, 0xc9); /* xor ecx, ecx */
  for (uint32_t k = 0; k < w->num_slots; ++k)
    if ((w->streamed >> k & 1) != 0) /* or ecx, pointer */
      CODE(code, (uint8_t)(0x40 | pointers[k] >> 3), 0x0b, (uint8_t)(0xc8 | (pointers[k] & 7)));
  CODE(code, 0xf6, 0xc1, 63); /* test cl, 63 */
  CODE(code, 0x0f, 0x85);     /* jnz to the second loop */
  const uint32_t to_second = trm_code_jump(code);
  write_loop(w, true);
  CODE(code, 0xe9); /* jmp to the end */
  const uint32_t to_end = trm_code_jump(code);
  trm_code_land(code, to_second, code->bytes.count);
  write_loop(w, false);
  trm_code_land(code, to_end, code->bytes.count);
}

static void write_function(writer *w) {
  trm_machine_code *code = w->code;
  CODE(code, 0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57); /* push */
  for (uint32_t k = 0; k < w->num_slots; ++k) trm_code_load_pointer(code, pointers[k], w->slots[k]);
  write_invariants(w);
  if (w->streamed != 0) write_streaming(w);
  else write_loop(w, false);
  CODE(code, 0xc5, 0xf8, 0x77);                                           /* vzeroupper */
  CODE(code, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b); /* pop */
  CODE(code, 0xc3);                                                       /* ret */
}

bool trm_generator_finish(const trm_generator *g, trm_machine_code *code) {
  const size_t n = g->nodes.count + 1;
  writer w = {.g = g, .code = code, .failed = g->failed};
  trm_arena arena = {0};
  w.last = ARENA_NEW(&arena, trm_node, n);
  w.place = ARENA_NEW(&arena, uint8_t, n);
  w.nans = ARENA_NEW(&arena, uint8_t, n);
  w.is_wanted = ARENA_NEW(&arena, bool, n);
  w.failed = w.failed || w.last == NULL || w.place == NULL || w.nans == NULL || w.is_wanted == NULL;
  if (!w.failed) look_through(&w);
  if (!w.failed) write_function(&w);
  trm_arena_free(&arena);
  return !w.failed && !code->failed;
}
