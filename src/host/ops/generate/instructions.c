/* Owns: the registers of the values of a generated loop, and the instructions of its nodes. */
#include "host/ops/generate/writer.h"

/* nodes.def calls it so. */
enum { IMMEDIATE_NUMBER = -2 };
#define NUMBER IMMEDIATE_NUMBER
const trm_node_traits trm_node_kinds[NUM_NODE_KINDS] = {
#define NODE(kind, operands, result, form, map, prefix, opcode, immediate) \
  [NODE_##kind] = {operands, RESULT_##result, FORM_##form, map, prefix, opcode, immediate},
#include "host/ops/generate/nodes.def"
#undef NODE
};
#undef NUMBER

const uint8_t trm_pointers[TRM_NUM_POINTERS] = {RDX, R8,  R9,  R10, R11, RBX,
                                                RBP, R12, R13, R14, R15};

static bool is_wide(const trm_writer *w) { return w->g->is_wide; }
static const trm_node_data *node_at(const trm_writer *w, trm_node node) {
  return &w->g->nodes.items[node];
}
static const trm_node_traits *kind_of(const trm_writer *w, trm_node node) {
  return &trm_node_kinds[node_at(w, node)->kind];
}
static bool is_constant(const trm_writer *w, trm_node node) {
  return kind_of(w, node)->form == FORM_CONSTANT;
}
/* The free registers of the kind that the node's value needs. */
static uint32_t *free_for(trm_writer *w, trm_node node) {
  const bool is_mask = is_wide(w) && kind_of(w, node)->result == RESULT_MASK;
  return is_mask ? &w->free_masks : &w->free_vectors;
}

uint32_t trm_writer_take(trm_writer *w, uint32_t *free) {
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

static trm_code_form form_of(uint8_t map, uint8_t prefix, uint8_t opcode) {
  return (trm_code_form){.map = map, .prefix = prefix, .opcode = opcode};
}
static trm_code_form half_of(trm_code_form form) {
  form.part = 1;
  return form;
}
static trm_code_form with_immediate(trm_code_form form, uint32_t immediate) {
  form.has_immediate = true;
  form.immediate = (uint8_t)immediate;
  return form;
}
static trm_code_operand word_of(trm_writer *w, uint32_t word) {
  return (trm_code_operand){OPERAND_POOL, trm_code_pool_word(w->code, word), 0, 0};
}

static void write_move(trm_writer *w, uint32_t to, uint32_t from) {
  trm_code_vector(w->code, form_of(MAP_0F, PREFIX_NONE, 0x28), to, 0, in_register(from), 0, false);
}
static void write_store_to(trm_writer *w, uint32_t from, trm_code_operand at) {
  trm_code_vector(w->code, form_of(MAP_0F, PREFIX_NONE, 0x11), from, 0, at, 0, false);
}
/* The 32 bits of the operand in all lanes, or in those of the mask. */
static void write_broadcast(trm_writer *w, uint32_t to, trm_code_operand from, uint32_t mask) {
  trm_code_form form = form_of(MAP_0F38, PREFIX_66, 0x18);
  form.reads_one = true;
  trm_code_vector(w->code, form, to, 0, from, mask, false);
}

/* Where a constant is. */
static trm_code_operand memory_of(trm_writer *w, trm_node node) {
  const trm_node_data *data = node_at(w, node);
  if (data->kind == NODE_CONSTANT) return word_of(w, data->number);
  trm_code_load_pointer(w->code, RCX, data->number);
  return (trm_code_operand){OPERAND_SCALAR, RCX, 0, 0};
}

/* A vector for this instruction alone. */
static uint32_t take_temporary(trm_writer *w) {
  const uint32_t number = trm_writer_take(w, &w->free_vectors);
  w->temporaries |= UINT32_C(1) << number;
  return number;
}
/* The vector register of an operand; a constant gets one for this instruction. */
static uint32_t vector_of(trm_writer *w, trm_node node) {
  if (!is_constant(w, node)) return w->place[node];
  const uint32_t number = take_temporary(w);
  write_broadcast(w, number, memory_of(w, node), 0);
  return number;
}
/* An operand that may be in memory. */
static trm_code_operand operand(trm_writer *w, trm_node node) {
  const bool is_in_memory =
      is_constant(w, node) && (is_wide(w) || node_at(w, node)->kind == NODE_CONSTANT);
  return is_in_memory ? memory_of(w, node) : in_register(vector_of(w, node));
}

static void release_temporaries(trm_writer *w) {
  w->free_vectors |= w->temporaries;
  w->temporaries = 0;
}
/* Gives back what the node is the last to read, so that its result may take the place. */
static void release(trm_writer *w, trm_node node) {
  release_temporaries(w);
  for (uint32_t i = 0; i < kind_of(w, node)->operands; ++i) {
    const trm_node read = node_at(w, node)->operands[i];
    if (w->last[read] != node || is_constant(w, read)) continue;
    *free_for(w, read) |= UINT32_C(1) << w->place[read];
  }
}

static uint32_t place_result(trm_writer *w, trm_node node) {
  const uint32_t number = trm_writer_take(w, free_for(w, node));
  w->place[node] = (uint8_t)number;
  return number;
}

/* Whether the instruction may overwrite the operand's register. */
static bool may_overwrite(const trm_writer *w, trm_node node, trm_node read) {
  return is_constant(w, read) || w->last[read] == node;
}

static uint8_t pointer_of(const trm_writer *w, uint32_t slot) {
  uint32_t k = 0;
  while (w->slots[k] != slot) ++k;
  return trm_pointers[k];
}

static uint8_t log2_of(trm_node_kind kind) {
  switch (kind) {
    case NODE_LOAD_HALF:
    case NODE_LOAD_U16:
    case NODE_STORE_U16:
    case NODE_STREAM_HALF:
    case NODE_STORE_HALF: return 1;
    case NODE_LOAD_U8:
    case NODE_LOAD_MASK:
    case NODE_STORE_MASK: return 0;
    default: return 2;
  }
}

/* ---- Arrays --------------------------------------------------------------------------------- */

static trm_code_operand array_at(const trm_writer *w, trm_node node) {
  const trm_node_data *data = node_at(w, node);
  return (trm_code_operand){OPERAND_ARRAY, pointer_of(w, data->number), log2_of(data->kind),
                            (uint8_t)(w->iteration + data->iteration)};
}

/* One element without masks: a form of 32 bits has an instruction; smaller ones are inserted into
 * zeros, or extracted. */
static void write_load_one(trm_writer *w, trm_node node, trm_code_form form) {
  const trm_code_operand from = array_at(w, node);
  const uint32_t to = place_result(w, node);
  const trm_node_kind kind = node_at(w, node)->kind;
  if (kind == NODE_LOAD) {
    trm_code_vector(w->code, half_of(form_of(MAP_0F, PREFIX_F3, 0x10)), to, 0, from, 0, false);
    return;
  }
  trm_code_vector(w->code, form_of(MAP_0F, PREFIX_66, 0xef), to, to, in_register(to), 0, false);
  const trm_code_form insert = half_of(log2_of(kind) == 1 ? form_of(MAP_0F, PREFIX_66, 0xc4)
                                                          : form_of(MAP_0F3A, PREFIX_66, 0x20));
  trm_code_vector(w->code, with_immediate(insert, 0), to, to, from, 0, false);
  if (kind == NODE_LOAD_HALF) trm_code_vector(w->code, form, to, 0, in_register(to), 0, false);
}

static void write_load(trm_writer *w, trm_node node, trm_code_form form) {
  if (w->is_tail && !is_wide(w)) {
    write_load_one(w, node, form);
    return;
  }
  const trm_code_operand from = array_at(w, node);
  const bool is_mask = node_at(w, node)->kind == NODE_LOAD_MASK;
  const uint32_t to = is_mask ? trm_writer_take(w, &w->free_vectors) : place_result(w, node);
  trm_code_vector(w->code, form, to, 0, from, w->is_tail ? TRM_TAIL_MASK : 0, w->is_tail);
  if (!is_mask) return;
  trm_code_vector(w->code, form_of(MAP_0F38, PREFIX_66, 0x27), place_result(w, node), to,
                  in_register(to), 0, false);
  w->free_vectors |= UINT32_C(1) << to;
}

static void write_store_one(trm_writer *w, trm_node node, trm_code_form form, uint32_t value) {
  const trm_code_operand to = array_at(w, node);
  if (log2_of(node_at(w, node)->kind) == 2) {
    trm_code_vector(w->code, half_of(form_of(MAP_0F, PREFIX_F3, 0x11)), value, 0, to, 0, false);
    return;
  }
  const uint32_t half = take_temporary(w);
  trm_code_vector(w->code, form, value, 0, in_register(half), 0, false);
  const trm_code_form extract = half_of(form_of(MAP_0F3A, PREFIX_66, 0x15));
  trm_code_vector(w->code, with_immediate(extract, 0), half, 0, to, 0, false);
}

static void write_store(trm_writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t value = vector_of(w, data->operands[0]);
  if (w->is_tail && !is_wide(w)) {
    write_store_one(w, node, form, value);
    return;
  }
  if (data->kind == NODE_STREAM && (w->is_tail || !w->streams))
    form.opcode = (uint8_t)trm_node_kinds[NODE_STORE].opcode;
  trm_code_vector(w->code, form, value, 0, array_at(w, node), w->is_tail ? TRM_TAIL_MASK : 0,
                  false);
}

/* The low halves of 32-bit integers below 65536. AVX2: vextracti128, vpackusdw. */
static void write_words_store(trm_writer *w, trm_node node, trm_code_form form) {
  const uint32_t value = vector_of(w, node_at(w, node)->operands[0]);
  const trm_code_operand to = array_at(w, node);
  if (is_wide(w)) {
    trm_code_vector(w->code, form, value, 0, to, w->is_tail ? TRM_TAIL_MASK : 0, false);
  } else if (w->is_tail) {
    const trm_code_form extract = half_of(form_of(MAP_0F3A, PREFIX_66, 0x15));
    trm_code_vector(w->code, with_immediate(extract, 0), value, 0, to, 0, false);
  } else {
    const uint32_t words = take_temporary(w);
    const trm_code_form extract = with_immediate(form_of(MAP_0F3A, PREFIX_66, 0x39), 1);
    trm_code_vector(w->code, extract, value, 0, in_register(words), 0, false);
    const trm_code_form pack = half_of(form_of(MAP_0F38, PREFIX_66, 0x2b));
    trm_code_vector(w->code, pack, words, value, in_register(words), 0, false);
    trm_code_vector(w->code, half_of(form_of(MAP_0F, PREFIX_NONE, 0x11)), words, 0, to, 0, false);
  }
}

static void write_half_stream(trm_writer *w, trm_node node, trm_code_form form) {
  if (w->is_tail || !w->streams) {
    write_store(w, node, form);
    return;
  }
  const uint32_t value = vector_of(w, node_at(w, node)->operands[0]);
  const uint32_t half = take_temporary(w);
  trm_code_vector(w->code, form, value, 0, in_register(half), 0, false);
  const uint8_t stream = (uint8_t)trm_node_kinds[NODE_STREAM].opcode;
  trm_code_vector(w->code, half_of(form_of(MAP_0F, PREFIX_NONE, stream)), half, 0,
                  array_at(w, node), 0, false);
}

static void write_prefetch(trm_writer *w, trm_node node) {
  const trm_node_data *data = node_at(w, node), *load = node_at(w, data->operands[0]);
  const uint8_t log2_size = log2_of(load->kind);
  trm_code_prefetch(w->code, pointer_of(w, load->number), log2_size,
                    data->number + ((w->iteration + data->iteration) * w->lanes << log2_size));
}

/* The lanes of a mask as bytes. */
static void write_mask_bytes(trm_writer *w, uint32_t to, uint32_t mask) {
  if (is_wide(w)) {
    trm_code_form form = form_of(MAP_0F38, PREFIX_F3, 0x28);
    form.part = 2;
    trm_code_vector(w->code, form, to, 0, in_register(mask), 0, false);
  } else if (w->is_tail) {
    write_move(w, to, mask);
  } else { /* vextracti128, vpackssdw, vpacksswb */
    const trm_code_form extract = with_immediate(form_of(MAP_0F3A, PREFIX_66, 0x39), 1);
    trm_code_vector(w->code, extract, mask, 0, in_register(to), 0, false);
    const trm_code_form words = half_of(form_of(MAP_0F, PREFIX_66, 0x6b));
    trm_code_vector(w->code, words, to, mask, in_register(to), 0, false);
    const trm_code_form bytes = half_of(form_of(MAP_0F, PREFIX_66, 0x63));
    trm_code_vector(w->code, bytes, to, to, in_register(to), 0, false);
  }
}

static void write_mask_store(trm_writer *w, trm_node node) {
  const uint32_t bytes = take_temporary(w), part = is_wide(w) ? 2 : 1;
  write_mask_bytes(w, bytes, w->place[node_at(w, node)->operands[0]]);
  trm_code_form form = form_of(MAP_0F, PREFIX_66, 0xdb);
  form.part = (uint8_t)part;
  trm_code_vector(w->code, form, bytes, bytes, word_of(w, 0x01010101), 0, false);
  if (is_wide(w)) form = form_of(MAP_0F, PREFIX_F2, 0x7f);
  else if (w->is_tail) form = with_immediate(form_of(MAP_0F3A, PREFIX_66, 0x14), 0);
  else form = form_of(MAP_0F, PREFIX_66, 0xd6);
  form.part = (uint8_t)part;
  trm_code_vector(w->code, form, bytes, 0, array_at(w, node),
                  is_wide(w) && w->is_tail ? TRM_TAIL_MASK : 0, false);
}

/* ---- Running results ------------------------------------------------------------------------ */

/* kandw and its like: VEX instructions of two bytes' prefix. */
static void write_mask_operation(trm_writer *w, trm_node_kind kind, uint32_t to, uint32_t first,
                                 uint32_t last) {
  const uint32_t is_binary = trm_node_kinds[kind].operands == 2 ? 4 : 0;
  CODE(w->code, 0xc5, (uint8_t)(0x80 | (~first & 15) << 3 | is_binary),
       (uint8_t)trm_node_kinds[kind].opcode, (uint8_t)(0xc0 | to << 3 | last));
}

uint32_t trm_writer_num_running(const trm_writer *w, trm_node_kind kind) {
  return (kind == NODE_SUM_INTO ? 64 : 32) / w->lanes;
}

/* A mask, or a vector, of the lanes that are NaN. */
static void write_is_nan(trm_writer *w, uint32_t to, uint32_t value) {
  trm_code_vector(w->code, with_immediate(form_of(MAP_0F, PREFIX_NONE, 0xc2), 3), to, value,
                  in_register(value), 0, false);
}

/* The first vector of a node's running results in memory. */
static trm_code_operand running_at(trm_writer *w, trm_node node) {
  trm_code_load_pointer(w->code, RCX, node_at(w, node)->number);
  return (trm_code_operand){OPERAND_VECTOR, RCX, 0, 0};
}

/* In memory. Lanes of an extreme that had a NaN become all ones, which is one. */
static void write_into_memory(trm_writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t value = vector_of(w, data->operands[0]), to = take_temporary(w);
  trm_code_operand at = running_at(w, node);
  at.vectors = (uint8_t)((w->iteration + data->iteration) % trm_writer_num_running(w, data->kind));
  trm_code_vector(w->code, form, to, value, at, 0, false);
  if (data->kind != NODE_SUM_INTO) {
    const uint32_t nan = take_temporary(w);
    write_is_nan(w, nan, value);
    trm_code_vector(w->code, form_of(MAP_0F, PREFIX_NONE, 0x56), to, to, in_register(nan), 0,
                    false);
  }
  write_store_to(w, to, at);
}

/* The first vector is `place`, the others follow; they are taken before anything else is. */
static void write_into(trm_writer *w, trm_node node, trm_code_form form) {
  if (!is_wide(w)) {
    write_into_memory(w, node, form);
    return;
  }
  const trm_node_data *data = node_at(w, node);
  const uint32_t to = w->place[node] + w->iteration % trm_writer_num_running(w, data->kind);
  const uint32_t value = vector_of(w, data->operands[0]);
  if (data->kind == NODE_SUM_INTO) {
    trm_code_vector(w->code, form, to, to, in_register(value), 0, false);
    return;
  }
  /* max gives its last operand where one is NaN or both are equal. */
  const uint32_t mask = trm_writer_take(w, &w->free_masks);
  write_is_nan(w, mask, value);
  trm_code_vector(w->code, form, to, value, in_register(to), 0, false);
  write_mask_operation(w, NODE_OR_MASK, w->nans[node], w->nans[node], mask);
  w->free_masks |= UINT32_C(1) << mask;
}

static void begin_in_memory(trm_writer *w, trm_node node, trm_code_operand value) {
  const uint32_t temporary = take_temporary(w);
  write_broadcast(w, temporary, value, 0);
  trm_code_operand at = running_at(w, node);
  const uint32_t count = trm_writer_num_running(w, node_at(w, node)->kind);
  for (; at.vectors < count; ++at.vectors) write_store_to(w, temporary, at);
  release_temporaries(w);
}

void trm_write_running_begin(trm_writer *w) {
  for (trm_node node = 0; node < w->num_plain; ++node) {
    if (kind_of(w, node)->form != FORM_INTO) continue;
    const trm_node_kind kind = node_at(w, node)->kind;
    const uint32_t first = kind == NODE_SUM_INTO       ? 0
                           : kind == NODE_MAXIMUM_INTO ? 0xff800000u
                                                       : 0x7f800000u;
    const trm_code_operand value = word_of(w, first);
    const uint8_t nans = w->nans[node];
    if (nans != 0) write_mask_operation(w, NODE_XOR_MASK, nans, nans, nans);
    if (!is_wide(w)) begin_in_memory(w, node, value);
    for (uint32_t k = 0; is_wide(w) && k < trm_writer_num_running(w, kind); ++k)
      write_broadcast(w, w->place[node] + k, value, 0);
  }
}

/* A NaN of a running extreme in memory becomes the one that wide code gives. */
static void write_running_nan(trm_writer *w, trm_code_operand at) {
  const uint32_t value = take_temporary(w), nan = take_temporary(w);
  trm_code_vector(w->code, form_of(MAP_0F, PREFIX_NONE, 0x10), value, 0, at, 0, false);
  write_is_nan(w, nan, value);
  trm_code_vector(w->code, with_immediate(form_of(MAP_0F3A, PREFIX_66, 0x4a), nan << 4), value,
                  value, word_of(w, 0x7fc00000), 0, false);
  write_store_to(w, value, at);
  release_temporaries(w);
}

void trm_write_running_end(trm_writer *w) {
  for (trm_node node = 0; node < w->num_plain; ++node) {
    const trm_node_kind kind = node_at(w, node)->kind;
    if (kind_of(w, node)->form != FORM_INTO || (!is_wide(w) && kind == NODE_SUM_INTO)) continue;
    const uint32_t count = trm_writer_num_running(w, kind);
    trm_code_operand at = running_at(w, node);
    for (; at.vectors < count; ++at.vectors) {
      const uint32_t from = w->place[node] + at.vectors;
      if (!is_wide(w)) {
        write_running_nan(w, at);
        continue;
      }
      if (w->nans[node] != 0) write_broadcast(w, from, word_of(w, 0x7fc00000), w->nans[node]);
      write_store_to(w, from, at);
    }
  }
}

/* ---- Instructions by form ------------------------------------------------------------------- */

static bool is_commutative(trm_node_kind kind) {
  return kind == NODE_ADD || kind == NODE_MULTIPLY || kind == NODE_ADD_BITS ||
         kind == NODE_AND_BITS || kind == NODE_OR_BITS || kind == NODE_XOR_BITS ||
         kind == NODE_MULTIPLY_BITS;
}

static void write_binary(trm_writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  trm_node a = data->operands[0], b = data->operands[1];
  const bool swaps = is_commutative(data->kind) && is_constant(w, a) && !is_constant(w, b);
  if (swaps || trm_node_kinds[data->kind].form == FORM_SWAPPED)
    a = data->operands[1], b = data->operands[0];
  const uint32_t first = vector_of(w, a);
  const trm_code_operand last = operand(w, b);
  release(w, node);
  trm_code_vector(w->code, form, place_result(w, node), first, last, 0, false);
}

static void write_unary(trm_writer *w, trm_node node, trm_code_form form) {
  const trm_code_operand last = operand(w, node_at(w, node)->operands[0]);
  release(w, node);
  trm_code_vector(w->code, form, place_result(w, node), 0, last, 0, false);
}

static void write_shift(trm_writer *w, trm_node node, trm_code_form form) {
  const uint32_t from = vector_of(w, node_at(w, node)->operands[0]);
  release(w, node);
  /* The destination stands where others have their first source. */
  const uint32_t extension = (uint32_t)kind_of(w, node)->opcode >> 8;
  trm_code_vector(w->code, form, extension, place_result(w, node), in_register(from), 0, false);
}

/* The register of the operand, free to be overwritten: a copy where others read it. */
static uint32_t own(trm_writer *w, trm_node node, trm_node read) {
  const uint32_t number = vector_of(w, read);
  if (may_overwrite(w, node, read)) return number;
  const uint32_t copy = take_temporary(w);
  write_move(w, copy, number);
  return copy;
}

static void keep_result(trm_writer *w, trm_node node, uint32_t number) {
  release(w, node);
  w->free_vectors &= ~(UINT32_C(1) << number);
  w->place[node] = (uint8_t)number;
}

/* vfmadd213: to = first to + last; 231: to = first last + to; 132: to = to last + first. */
static void write_fma(trm_writer *w, trm_node node, trm_code_form form) {
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
  trm_code_vector(w->code, form, to, first, operand(w, last), 0, false);
  keep_result(w, node, to);
}

static void write_round_half(trm_writer *w, trm_node node, trm_code_form form) {
  const uint32_t from = vector_of(w, node_at(w, node)->operands[0]);
  release(w, node);
  const uint32_t to = place_result(w, node);
  trm_code_vector(w->code, form, from, 0, in_register(to), 0, false);
  trm_code_vector(w->code, form_of(MAP_0F38, PREFIX_66, 0x13), to, 0, in_register(to), 0, false);
}

static void write_copy_sign(trm_writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t to = own(w, node, data->operands[0]);
  const uint32_t sign = vector_of(w, data->operands[1]);
  trm_code_vector(w->code, form, to, sign, word_of(w, 0x80000000u), 0, false);
  keep_result(w, node, to);
}

static void write_select(trm_writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t no = vector_of(w, data->operands[2]), mask = w->place[data->operands[0]];
  const trm_code_operand yes = operand(w, data->operands[1]);
  release(w, node);
  if (!is_wide(w)) form = with_immediate(form_of(MAP_0F3A, PREFIX_66, 0x4a), mask << 4);
  trm_code_vector(w->code, form, place_result(w, node), no, yes, is_wide(w) ? mask : 0, false);
}

static void write_divide_where(trm_writer *w, trm_node node, trm_code_form form) {
  const trm_node_data *data = node_at(w, node);
  const uint32_t mask = w->place[data->operands[0]];
  const uint32_t a = vector_of(w, data->operands[1]), b = vector_of(w, data->operands[2]);
  release(w, node);
  const uint32_t to = place_result(w, node);
  CODE(w->code, 0xc5, 0xf8, 0x98, (uint8_t)(0xc0 | mask << 3 | mask)); /* kortestw */
  CODE(w->code, 0x74, 6);                                              /* jz over the division */
  trm_code_vector(w->code, form, to, a, in_register(b), mask, true);
}

static void write_masks(trm_writer *w, trm_node node) {
  const trm_node_data *data = node_at(w, node);
  const bool is_unary = kind_of(w, node)->operands == 1;
  const uint32_t first = is_unary ? 0 : w->place[data->operands[0]];
  const uint32_t last = w->place[data->operands[is_unary ? 0 : 1]];
  release(w, node);
  write_mask_operation(w, data->kind, place_result(w, node), first, last);
}

void trm_write_node(trm_writer *w, trm_node node) {
  const trm_node_traits *kind = kind_of(w, node);
  trm_code_form form = form_of(kind->map, kind->prefix, (uint8_t)kind->opcode);
  form.has_immediate = kind->immediate != -1;
  form.immediate = (uint8_t)(kind->immediate == IMMEDIATE_NUMBER ? (int)node_at(w, node)->number
                                                                 : kind->immediate);
  switch (kind->form) {
    case FORM_CONSTANT: break;
    case FORM_LOAD: write_load(w, node, form); break;
    case FORM_STORE: write_store(w, node, form); break;
    case FORM_STORE_MASK: write_mask_store(w, node); break;
    case FORM_STORE_WORDS: write_words_store(w, node, form); break;
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
