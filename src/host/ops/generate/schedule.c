/* Owns: the order of the nodes of an iteration. A function such as exp is one chain of operations
 * that wait for each other, and a CPU looks only some dozens of instructions ahead. So the nodes of
 * several iterations, and of chains that do not depend on each other, take turns in the code, as
 * far as registers last. What is computed stays the same, to the bit. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/generate/writer.h"

enum {
  RATE = 3,           /* nodes that begin in a cycle */
  LATENCY = 4 * RATE, /* of arithmetic on floats, in nodes */
  SLOW = 12 * RATE,   /* of quotients and roots */
  FAST = RATE,        /* of bits */
  TEMPORARIES = 2,    /* registers for constants and copies */
};

/* Item t * n + node is a node in iteration t. */
typedef struct planner {
  const trm_generator *g;
  uint32_t n, iterations;
  bool *is_wanted;      /* by node */
  uint32_t *height;     /* by node: the time from its begin to the end of the iteration */
  trm_node *chain;      /* by node: the first node of its chain */
  uint32_t *size;       /* by node, of the first ones: nodes of the chain */
  uint32_t *unplaced;   /* by item, of the first ones: nodes that are not placed yet */
  uint32_t *values;     /* by item, of the first ones: values that are live */
  uint32_t *ready;      /* by item: when its value is there */
  uint32_t *readers;    /* by item: those that are not placed yet */
  trm_node *placed;     /* by item: its node in the result, or TRM_NO_NODE */
  trm_node *first;      /* by iteration: all nodes before it are placed, or of no use */
  trm_node first_write; /* of an iteration to an array; n: none */
  uint32_t live, limit; /* registers */
  uint32_t open;        /* chains that have begun and not ended */
  uint32_t reserved;    /* registers for each of them */
  uint32_t parked;      /* values of chains that have ended */
  uint32_t now;         /* in nodes */
  trm_generator *out;
} planner;

static const trm_node_data *data_of(const planner *p, trm_node node) {
  return &p->g->nodes.items[node];
}
static const trm_node_traits *kind_of(const planner *p, trm_node node) {
  return &trm_node_kinds[data_of(p, node)->kind];
}
static bool is_iterated(const planner *p, trm_node node) {
  return p->is_wanted[node] && !data_of(p, node)->is_invariant;
}
static bool is_load(const planner *p, trm_node node) { return kind_of(p, node)->form == FORM_LOAD; }
static bool is_placed(const planner *p, uint32_t iteration, trm_node node) {
  return p->placed[iteration * p->n + node] != TRM_NO_NODE;
}
/* Whether the node writes to an array, or to running results. */
static bool writes_array(const planner *p, trm_node node) {
  const trm_node_traits *kind = kind_of(p, node);
  return kind->result == RESULT_NONE && kind->form != FORM_PREFETCH && kind->form != FORM_INTO;
}

static uint32_t latency_of(const planner *p, trm_node node) {
  switch (data_of(p, node)->kind) {
    case NODE_DIVIDE:
    case NODE_DIVIDE_WHERE:
    case NODE_SQRT: return SLOW;
    case NODE_ADD:
    case NODE_SUBTRACT:
    case NODE_MULTIPLY:
    case NODE_FMA:
    case NODE_TO_WHOLE:
    case NODE_ROUND_HALF:
    case NODE_MULTIPLY_BITS:
    case NODE_S32_TO_FLOAT:
    case NODE_FLOAT_TO_S32: return LATENCY;
    default: return is_load(p, node) ? 0 : FAST;
  }
}

static void find_wanted(planner *p) {
  for (trm_node node = p->n; node-- > 0;) {
    const trm_node_traits *kind = kind_of(p, node);
    if (kind->result == RESULT_NONE) p->is_wanted[node] = true;
    if (!p->is_wanted[node]) continue;
    p->height[node] += latency_of(p, node);
    for (uint32_t k = 0; k < kind->operands; ++k) {
      const trm_node read = data_of(p, node)->operands[k];
      p->is_wanted[read] = true;
      if (p->height[read] < p->height[node]) p->height[read] = p->height[node];
      for (uint32_t t = 0; t < p->iterations; ++t) ++p->readers[t * p->n + read];
    }
  }
}

/* A chain begins where arrays are read or chains meet, and goes on as long as its nodes read no
 * other. */
static void find_chains(planner *p) {
  for (trm_node node = 0; node < p->n; ++node) {
    p->chain[node] = node;
    if (!is_iterated(p, node) || is_load(p, node)) continue;
    trm_node chain = TRM_NO_NODE;
    bool meets = false;
    for (uint32_t k = 0; k < kind_of(p, node)->operands; ++k) {
      const trm_node read = data_of(p, node)->operands[k];
      if (!is_iterated(p, read) || is_load(p, read)) continue;
      meets = meets || (chain != TRM_NO_NODE && chain != p->chain[read]);
      chain = p->chain[read];
    }
    if (chain != TRM_NO_NODE && !meets) p->chain[node] = chain;
    ++p->size[p->chain[node]];
  }
  for (uint32_t t = 0; t < p->iterations; ++t)
    memcpy(p->unplaced + t * p->n, p->size, p->n * sizeof *p->unplaced);
}

/* Writes to an array and reads of arrays keep their order in an iteration, since a result may be in
 * the place of an operand; running results are added to in the order of the iterations. */
static bool is_in_order(const planner *p, uint32_t iteration, trm_node node) {
  const bool into = kind_of(p, node)->form == FORM_INTO, writes = writes_array(p, node);
  if (!into && !writes && (!is_load(p, node) || node < p->first_write)) return true;
  for (trm_node before = 0; before < node; ++before) {
    if (!is_iterated(p, before) || is_placed(p, iteration, before)) continue;
    if (writes && is_load(p, before)) return false;
    if (is_load(p, node) && writes_array(p, before)) return false;
  }
  for (uint32_t t = 0; into && t < iteration; ++t) {
    if (!is_placed(p, t, node)) return false;
  }
  return true;
}

/* A node that may come next, with the loads that only it waits for. */
typedef struct candidate {
  uint32_t iteration;
  trm_node node;
  uint32_t begin; /* when its operands are there */
  int32_t taken;  /* registers, less those that it gives back */
  bool opens;     /* it begins a chain */
} candidate;

static bool find_candidate(const planner *p, uint32_t iteration, trm_node node, candidate *out) {
  const trm_node_traits *kind = kind_of(p, node);
  *out = (candidate){iteration, node, p->now, kind->result != RESULT_NONE,
                     kind->result != RESULT_NONE};
  for (uint32_t k = 0; k < kind->operands; ++k) {
    const trm_node read = data_of(p, node)->operands[k];
    if (data_of(p, read)->is_invariant) continue;
    const uint32_t item = iteration * p->n + read;
    bool is_first = true;
    uint32_t reads = 0;
    for (uint32_t j = 0; j < kind->operands; ++j) {
      if (data_of(p, node)->operands[j] != read) continue;
      is_first = is_first && j >= k;
      ++reads;
    }
    if (!is_first) continue;
    if (p->placed[item] != TRM_NO_NODE) {
      if (p->ready[item] > out->begin) out->begin = p->ready[item];
      if (p->readers[item] == reads) --out->taken;
      if (!is_load(p, read)) out->opens = false;
    } else if (is_load(p, read) && is_in_order(p, iteration, read)) {
      if (p->readers[item] > reads) ++out->taken;
    } else {
      return false;
    }
  }
  return is_in_order(p, iteration, node);
}

/* Whether there are registers for the node, and for what follows where it begins a chain. */
static bool fits(const planner *p, const candidate *c) {
  if (c->opens && p->open > 0 && p->reserved * (p->open + 1) + p->parked > p->limit) return false;
  return c->taken <= (int32_t)p->limit - (int32_t)p->live;
}

/* Those that fit come first, then those that may begin first, those of the longest way. */
static bool is_better(const planner *p, const candidate *a, const candidate *b) {
  const bool fits_a = fits(p, a), fits_b = fits(p, b);
  if (fits_a != fits_b) return fits_a;
  if (!fits_a) {
    if (a->opens != b->opens) return b->opens;
    if (a->taken != b->taken) return a->taken < b->taken;
    return p->height[a->node] < p->height[b->node];
  }
  if (a->begin != b->begin) return a->begin < b->begin;
  return p->height[a->node] > p->height[b->node];
}

/* Notes a value that begins or ends to be live. */
static void count_value(planner *p, uint32_t iteration, trm_node node, uint32_t change) {
  const uint32_t chain = iteration * p->n + p->chain[node];
  p->live += change;
  p->values[chain] += change;
  if (p->unplaced[chain] == 0) p->parked += change;
}

/* Notes a node of a chain. */
static void count_node(planner *p, uint32_t iteration, trm_node node) {
  const uint32_t chain = iteration * p->n + p->chain[node];
  if (p->unplaced[chain] == p->size[p->chain[node]]) ++p->open;
  if (--p->unplaced[chain] > 0) return;
  --p->open;
  p->parked += p->values[chain];
}

static void place(planner *p, uint32_t iteration, trm_node node, uint32_t begin) {
  const trm_node_traits *kind = kind_of(p, node);
  trm_node_data data = *data_of(p, node);
  data.iteration = (uint8_t)iteration;
  if (!is_load(p, node)) count_node(p, iteration, node);
  if (kind->result != RESULT_NONE) count_value(p, iteration, node, 1);
  for (uint32_t k = 0; k < kind->operands; ++k) {
    const trm_node read = data.operands[k];
    if (data_of(p, read)->is_invariant) continue;
    const uint32_t item = iteration * p->n + read;
    if (--p->readers[item] == 0) count_value(p, iteration, read, (uint32_t)-1);
    data.operands[k] = p->placed[item];
  }
  p->ready[iteration * p->n + node] = begin + latency_of(p, node);
  p->placed[iteration * p->n + node] = (trm_node)p->out->nodes.count;
  if (!VECTOR_PUSH(&p->out->nodes, data)) p->out->failed = true;
  ++p->now;
}

static void place_with_loads(planner *p, const candidate *c) {
  const trm_node_data *data = data_of(p, c->node);
  for (uint32_t k = 0; k < kind_of(p, c->node)->operands; ++k) {
    const trm_node read = data->operands[k];
    if (!data_of(p, read)->is_invariant && !is_placed(p, c->iteration, read))
      place(p, c->iteration, read, p->now);
  }
  place(p, c->iteration, c->node, c->begin);
}

static bool may_come(const planner *p, uint32_t iteration, trm_node node) {
  return is_iterated(p, node) && !is_load(p, node) && !is_placed(p, iteration, node);
}

static bool place_next(planner *p) {
  candidate best = {0};
  bool is_found = false;
  for (uint32_t t = 0; t < p->iterations; ++t) {
    while (p->first[t] < p->n && !may_come(p, t, p->first[t])) ++p->first[t];
    for (trm_node node = p->first[t]; node < p->n; ++node) {
      candidate c;
      if (!may_come(p, t, node)) continue;
      if (!find_candidate(p, t, node, &c) || (is_found && !is_better(p, &c, &best))) continue;
      best = c;
      is_found = true;
    }
  }
  if (is_found) place_with_loads(p, &best);
  return is_found;
}

static bool begin_planner(planner *p, trm_arena *arena) {
  const size_t items = (size_t)p->n * p->iterations;
  p->is_wanted = ARENA_NEW(arena, bool, p->n);
  p->height = ARENA_NEW(arena, uint32_t, p->n);
  p->chain = ARENA_NEW(arena, trm_node, p->n);
  p->size = ARENA_NEW(arena, uint32_t, p->n);
  p->unplaced = ARENA_NEW(arena, uint32_t, items);
  p->values = ARENA_NEW(arena, uint32_t, items);
  p->ready = ARENA_NEW(arena, uint32_t, items);
  p->readers = ARENA_NEW(arena, uint32_t, items);
  p->placed = ARENA_NEW(arena, trm_node, items);
  p->first = ARENA_NEW(arena, trm_node, p->iterations);
  if (p->is_wanted == NULL || p->height == NULL || p->chain == NULL || p->size == NULL ||
      p->unplaced == NULL || p->values == NULL || p->ready == NULL || p->readers == NULL ||
      p->placed == NULL || p->first == NULL)
    return false;
  for (size_t i = 0; i < items; ++i) p->placed[i] = TRM_NO_NODE;
  find_wanted(p);
  find_chains(p);
  while (p->first_write < p->n && !writes_array(p, p->first_write)) ++p->first_write;
  uint32_t kept = 0;
  for (trm_node node = 0; node < p->n; ++node) {
    kept += p->is_wanted[node] && data_of(p, node)->is_invariant &&
            kind_of(p, node)->form != FORM_CONSTANT;
    if (!VECTOR_PUSH(&p->out->nodes, *data_of(p, node))) return false;
  }
  p->limit = 16 - TEMPORARIES - (kept < 16 - TEMPORARIES ? kept : 16 - TEMPORARIES);
  return p->limit >= TRM_GENERATE_LEAST_REGISTERS;
}

uint32_t trm_schedule_iterations(const trm_generator *g) {
  uint32_t count = 0;
  for (trm_node node = 0; node < g->nodes.count; ++node)
    count += !g->nodes.items[node].is_invariant;
  const uint32_t iterations = count <= TRM_GENERATE_MOST_NODES ? 4 : 2;
  return g->is_wide || g->failed || count * iterations > TRM_GENERATE_MOST_ITEMS ? 0 : iterations;
}

bool trm_schedule(const trm_generator *g, uint32_t iterations, uint32_t reserved,
                  trm_generator *out) {
  planner p = {.g = g,
               .n = (uint32_t)g->nodes.count,
               .iterations = iterations,
               .reserved = reserved,
               .out = out};
  trm_arena arena = {0};
  *out = (trm_generator){.is_wide = g->is_wide};
  bool is_done = begin_planner(&p, &arena);
  while (is_done && place_next(&p)) {
  }
  for (uint32_t t = 0; is_done && t < iterations; ++t) {
    for (trm_node node = 0; node < p.n; ++node)
      if (is_iterated(&p, node) && !is_placed(&p, t, node)) is_done = false;
  }
  trm_arena_free(&arena);
  return is_done && !out->failed;
}
