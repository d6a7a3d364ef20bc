/* Owns: nodes that AVX2 has no instruction for, as others. A mask is a vector there. */
#include "host/ops/generate/writer.h"

#define NONE TRM_NO_NODE

static trm_node one(trm_generator *g, trm_node_kind kind, trm_node a, uint32_t number) {
  return trm_generate(g, kind, a, NONE, NONE, number);
}
static trm_node two(trm_generator *g, trm_node_kind kind, trm_node a, trm_node b) {
  return trm_generate(g, kind, a, b, NONE, 0);
}
static trm_node word(trm_generator *g, uint32_t bits) {
  return trm_generate(g, NODE_CONSTANT, NONE, NONE, NONE, bits);
}
static trm_node not_of(trm_generator *g, trm_node mask) {
  return two(g, NODE_XOR_BITS, mask, word(g, UINT32_MAX));
}

/* By the predicates of nodes.def. */
static trm_node compare(trm_generator *g, trm_node a, trm_node b, uint32_t predicate) {
  switch (predicate) {
    case 0: return two(g, NODE_EQUAL_BITS, a, b);
    case 4: return not_of(g, two(g, NODE_EQUAL_BITS, a, b));
    case 1: return two(g, NODE_GREATER_S32, b, a);
    case 2: return not_of(g, two(g, NODE_GREATER_S32, a, b));
    case 5: return not_of(g, two(g, NODE_GREATER_S32, b, a));
    default: return two(g, NODE_GREATER_S32, a, b);
  }
}

/* Unsigned numbers compare as signed ones do whose first bit is turned. */
static trm_node turn_sign(trm_generator *g, trm_node a) {
  const trm_node_data *data = g->failed ? NULL : &g->nodes.items[a];
  if (data != NULL && data->kind == NODE_CONSTANT) return word(g, data->number ^ 0x80000000u);
  return two(g, NODE_XOR_BITS, a, word(g, 0x80000000u));
}
static trm_node compare_unsigned(trm_generator *g, trm_node a, trm_node b, uint32_t predicate) {
  if (predicate == 0 || predicate == 4) return compare(g, a, b, predicate);
  return compare(g, turn_sign(g, a), turn_sign(g, b), predicate);
}

/* Both halves are exact as floats; their sum is rounded once. */
static trm_node convert_unsigned(trm_generator *g, trm_node a) {
  const trm_node high = two(g, NODE_SHIFT_RIGHT, a, word(g, 16));
  const trm_node low = two(g, NODE_AND_BITS, a, word(g, 0xffff));
  return trm_generate(g, NODE_FMA, one(g, NODE_S32_TO_FLOAT, high, 0),
                      trm_generate_constant(g, 65536.0f), one(g, NODE_S32_TO_FLOAT, low, 0), 0);
}

/* The load that the node is made of. */
static trm_node find_load(const trm_generator *g, trm_node node) {
  while (!g->failed && trm_node_kinds[g->nodes.items[node].kind].form != FORM_LOAD)
    node = g->nodes.items[node].operands[0];
  return node;
}

bool trm_generate_narrow(trm_generator *g, trm_node_kind kind, const trm_node *operands,
                         uint32_t number, trm_node *out) {
  const trm_node a = operands[0], b = operands[1];
  switch (kind) {
    case NODE_LOAD_MASK:
      *out = two(g, NODE_GREATER_S32, one(g, NODE_LOAD_U8, NONE, number), word(g, 0));
      return true;
    case NODE_PREFETCH: {
      const trm_node load = find_load(g, a);
      if (load == a) return false;
      *out = one(g, NODE_PREFETCH, load, number);
      return true;
    }
    case NODE_COMPARE_S32: *out = compare(g, a, b, number); return true;
    case NODE_COMPARE_U32: *out = compare_unsigned(g, a, b, number); return true;
    case NODE_AND_MASK: *out = two(g, NODE_AND_BITS, a, b); return true;
    case NODE_OR_MASK: *out = two(g, NODE_OR_BITS, a, b); return true;
    case NODE_XOR_MASK: *out = two(g, NODE_XOR_BITS, a, b); return true;
    case NODE_NOT_MASK: *out = not_of(g, a); return true;
    case NODE_U32_TO_FLOAT: *out = convert_unsigned(g, a); return true;
    case NODE_COPY_SIGN:
      *out = two(g, NODE_OR_BITS, two(g, NODE_AND_BITS, a, word(g, 0x7fffffff)),
                 two(g, NODE_AND_BITS, b, word(g, 0x80000000u)));
      return true;
    default: return false;
  }
}
