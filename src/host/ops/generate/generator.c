/* Owns: the nodes of a generated loop, and its frame: what is computed before it, its iterations,
 * what comes after the last whole vector. */
#include <string.h>

#include "host/ops/generate/writer.h"

trm_node trm_generate(trm_generator *g, trm_node_kind kind, trm_node a, trm_node b, trm_node c,
                      uint32_t number) {
  trm_node narrow;
  if (!g->is_wide && trm_generate_narrow(g, kind, (trm_node[]){a, b, c}, number, &narrow))
    return narrow;
  const trm_node_traits *traits = &trm_node_kinds[kind];
  trm_node_data node = {.kind = kind, .operands = {a, b, c}, .number = number};
  node.is_invariant = traits->form != FORM_LOAD && traits->result != RESULT_NONE;
  for (uint32_t i = 0; i < traits->operands && !g->failed; ++i) {
    if (!g->nodes.items[node.operands[i]].is_invariant) node.is_invariant = false;
  }
  if (!VECTOR_PUSH(&g->nodes, node)) g->failed = true;
  return (trm_node)g->nodes.count - 1;
}

trm_node trm_generate_constant(trm_generator *g, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return trm_generate(g, NODE_CONSTANT, TRM_NO_NODE, TRM_NO_NODE, TRM_NO_NODE, bits);
}

void trm_generator_free(trm_generator *g) { VECTOR_FREE(&g->nodes); }

static const trm_node_data *node_at(const trm_writer *w, trm_node node) {
  return &w->g->nodes.items[node];
}
static const trm_node_traits *kind_of(const trm_writer *w, trm_node node) {
  return &trm_node_kinds[node_at(w, node)->kind];
}

/* What is invariant, before the loop; registers of what an iteration reads stay taken. */
static void write_invariants(trm_writer *w) {
  w->free_vectors = !w->g->is_wide ? 0xffff : w->running < 32 ? UINT32_MAX << w->running : 0;
  w->free_masks = 0xfc; /* 0 is no mask, 1 is the tail's */
  for (trm_node node = 0; node < w->num_plain; ++node) {
    if (w->nans[node] != 0) w->nans[node] = (uint8_t)trm_writer_take(w, &w->free_masks);
  }
  w->temporaries = 0;
  for (trm_node node = 0; node < w->num_plain && !w->failed; ++node) {
    if (w->is_wanted[node] && node_at(w, node)->is_invariant) trm_write_node(w, node);
  }
  w->kept_vectors = w->free_vectors;
  w->kept_masks = w->free_masks;
}

static void write_nodes(trm_writer *w, trm_node begin, trm_node end) {
  w->free_vectors = w->kept_vectors;
  w->free_masks = w->kept_masks;
  for (trm_node node = begin; node < end && !w->failed; ++node) {
    if (w->is_wanted[node] && !node_at(w, node)->is_invariant) trm_write_node(w, node);
  }
}
static void write_iteration(trm_writer *w, bool is_tail) {
  w->is_tail = is_tail;
  write_nodes(w, 0, w->num_plain);
}
/* The iterations that are scheduled together. */
static void write_iterations_together(trm_writer *w) {
  w->is_tail = false;
  write_nodes(w, w->num_plain, (trm_node)w->g->nodes.count);
}

/* Who is read, and last by whom; and the arrays. */
static void look_through(trm_writer *w) {
  const uint32_t n = (uint32_t)w->g->nodes.count;
  for (trm_node node = n; node-- > 0;) {
    const trm_node_traits *kind = kind_of(w, node);
    if (kind->result == RESULT_NONE) w->is_wanted[node] = true;
    for (uint32_t i = 0; i < kind->operands && w->is_wanted[node]; ++i) {
      const trm_node read = node_at(w, node)->operands[i];
      if (!w->is_wanted[read]) w->last[read] = node;
      if (node_at(w, read)->is_invariant && !node_at(w, node)->is_invariant)
        w->last[read] = TRM_NO_NODE; /* each iteration reads it */
      w->is_wanted[read] = true;
    }
  }
  for (trm_node node = 0; node < n; ++node) {
    const trm_node_form form = kind_of(w, node)->form;
    const bool streams = node_at(w, node)->kind == NODE_STREAM || form == FORM_STREAM_HALF;
    if (!w->is_wanted[node] ||
        (form != FORM_LOAD && form != FORM_STORE && form != FORM_STORE_MASK &&
         form != FORM_STORE_WORDS && form != FORM_STREAM_HALF))
      continue;
    uint32_t k = 0;
    while (k < w->num_slots && w->slots[k] != node_at(w, node)->number) ++k;
    if (k == TRM_NUM_POINTERS) {
      w->failed = true;
      return;
    }
    if (k == w->num_slots) w->slots[w->num_slots++] = node_at(w, node)->number;
    if (streams) w->streamed |= UINT32_C(1) << k;
  }
  for (trm_node node = 0; node < w->num_plain; ++node) {
    if (kind_of(w, node)->form != FORM_INTO) continue;
    w->place[node] = (uint8_t)w->running;
    w->nans[node] = w->g->is_wide && node_at(w, node)->kind != NODE_SUM_INTO; /* has one */
    w->running += trm_writer_num_running(w, node_at(w, node)->kind);
  }
}

/* Iterations without a tail, 64 elements at a time. */
static void write_unrolled(trm_writer *w) {
  enum { ELEMENTS = 64 };
  trm_machine_code *code = w->code;
  trm_write_running_begin(w);
  CODE(code, 0x31, 0xc0); /* xor eax, eax */
  const size_t again = code->bytes.count;
  for (w->iteration = 0; w->iteration < ELEMENTS / w->lanes;
       w->iteration += w->iterations > 0 ? w->iterations : 1) {
    if (w->iterations > 0) write_iterations_together(w);
    else write_iteration(w, false);
  }
  CODE(code, 0x48, 0x83, 0xc0, ELEMENTS); /* add rax, 64 */
  CODE(code, 0x48, 0x39, 0xf0);           /* cmp rax, rsi */
  CODE(code, 0x0f, 0x82);                 /* jb again */
  trm_code_land(code, trm_code_jump(code), again);
  w->free_vectors = w->kept_vectors;
  trm_write_running_end(w);
}

/* A loop over `step` elements an iteration, as long as there are so many. */
static void write_while(trm_writer *w, uint32_t step, bool is_tail, bool together) {
  trm_machine_code *code = w->code;
  const size_t again = code->bytes.count;
  CODE(code, 0x48, 0x8d, 0x48, (uint8_t)step); /* lea rcx, [rax + step] */
  CODE(code, 0x48, 0x39, 0xf1);                /* cmp rcx, rsi */
  CODE(code, 0x0f, 0x87);                      /* ja behind the loop */
  const uint32_t to_end = trm_code_jump(code);
  if (together) write_iterations_together(w);
  else write_iteration(w, is_tail);
  CODE(code, 0x48, 0x83, 0xc0, (uint8_t)step); /* add rax, step */
  CODE(code, 0xe9);                            /* jmp again */
  trm_code_land(code, trm_code_jump(code), again);
  trm_code_land(code, to_end, code->bytes.count);
}

/* An iteration for the last elements, under a mask. */
static void write_masked_iteration(trm_writer *w) {
  trm_machine_code *code = w->code;
  CODE(code, 0x48, 0x29, 0xc6); /* sub rsi, rax */
  CODE(code, 0x0f, 0x84);       /* jz to the end */
  const uint32_t to_end = trm_code_jump(code);
  CODE(code, 0xb9, 0xff, 0xff, 0xff, 0xff); /* mov ecx, -1 */
  CODE(code, 0xc4, 0xe2, 0x48, 0xf5, 0xc9); /* bzhi ecx, ecx, esi */
  CODE(code, 0xc5, 0xf8, 0x92, 0xc9);       /* kmovw k1, ecx */
  write_iteration(w, true);
  trm_code_land(code, to_end, code->bytes.count);
}

static void write_iterations(trm_writer *w) {
  CODE(w->code, 0x31, 0xc0); /* xor eax, eax */
  if (w->iterations > 0) write_while(w, w->iterations * w->lanes, false, true);
  write_while(w, w->lanes, false, false);
  if (w->g->is_wide) write_masked_iteration(w);
  else write_while(w, 1, true, false);
}

static void write_loop(trm_writer *w, bool streams) {
  w->streams = streams;
  if (w->running > 0) write_unrolled(w);
  else write_iterations(w);
}

/* Two loops, of which the first is for arrays at whole cache lines. */
static void write_streaming(trm_writer *w) {
  trm_machine_code *code = w->code;
  CODE(code, 0x31, 0xc9); /* xor ecx, ecx */
  for (uint32_t k = 0; k < w->num_slots; ++k)
    if ((w->streamed >> k & 1) != 0) /* or ecx, pointer */
      CODE(code, (uint8_t)(0x40 | trm_pointers[k] >> 3), 0x0b,
           (uint8_t)(0xc8 | (trm_pointers[k] & 7)));
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

/* Pushes, or pops, the caller's registers that hold pointers. */
static void write_saved(trm_writer *w, bool pops) {
  enum { NOT_SAVED = 5 }; /* the first of trm_pointers */
  for (uint32_t k = NOT_SAVED; k < w->num_slots; ++k) {
    const uint8_t number = trm_pointers[pops ? w->num_slots - 1 - (k - NOT_SAVED) : k];
    if (number >= R8) CODE(w->code, 0x41);
    CODE(w->code, (uint8_t)((pops ? 0x58 : 0x50) | (number & 7)));
  }
}

static void write_function(trm_writer *w) {
  trm_machine_code *code = w->code;
  write_saved(w, false);
  for (uint32_t k = 0; k < w->num_slots; ++k)
    trm_code_load_pointer(code, trm_pointers[k], w->slots[k]);
  write_invariants(w);
  if (w->streamed != 0) write_streaming(w);
  else write_loop(w, false);
  CODE(code, 0xc5, 0xf8, 0x77); /* vzeroupper */
  write_saved(w, true);
  CODE(code, 0xc3); /* ret */
}

/* The nodes behind the first num_plain are those of `iterations` iterations together. */
static bool write_all(const trm_generator *g, uint32_t num_plain, uint32_t iterations,
                      trm_machine_code *code) {
  const size_t n = g->nodes.count + 1;
  trm_writer w = {.g = g,
                  .code = code,
                  .num_plain = num_plain,
                  .iterations = iterations,
                  .lanes = g->is_wide ? 16 : 8,
                  .failed = g->failed};
  code->is_wide = g->is_wide;
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

bool trm_generator_finish(const trm_generator *g, bool schedules, trm_machine_code *code) {
  const uint32_t num_plain = (uint32_t)g->nodes.count;
  const uint32_t iterations = schedules ? trm_schedule_iterations(g) : 0;
  /* With fewer registers for each, more chains go together, but they may run out. */
  for (uint32_t reserved = TRM_LEAST_RESERVED; iterations > 0 && reserved <= TRM_MOST_RESERVED;
       ++reserved) {
    trm_generator scheduled;
    const bool is_done = trm_schedule(g, iterations, reserved, &scheduled) &&
                         write_all(&scheduled, num_plain, iterations, code);
    trm_generator_free(&scheduled);
    if (is_done) return true;
    trm_code_free(code);
    *code = (trm_machine_code){0};
  }
  return write_all(g, num_plain, 0, code);
}
