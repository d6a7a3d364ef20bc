/* Poplar's programs: the cost of a vertex, contiguous and gathered, and the speed of moves.
 *
 *   bench_poplar       prints a line for each */
#include <stdio.h>

#include "../../tests/c/poplar/poplar_case.h"
#include "host/ops/threads.h"

enum { TILES = 1472, EDGE = 8, RUNS = 2000, MOVED = 2048 };

typedef struct add_state {
  trm_codelet_span x, y;
  float *out;
} add_state;

static const char *run_add(void *state, uint32_t worker) {
  const add_state *s = state;
  const float *x = s->x.data, *y = s->y.data;
  (void)worker;
  for (uint64_t i = 0; i < s->x.size; ++i) s->out[i] = x[i] + y[i];
  return NULL;
}

#define FIELD(member, direction, outer)                                                            \
  {#member, offsetof(add_state, member), 0, TRM_CODELET_EDGES, direction, TRM_F32, 1, outer, 0, 8, \
   0}
static const trm_codelet_field fields[] = {
    FIELD(x, TRM_CODELET_INPUT, TRM_CODELET_SPAN),
    FIELD(y, TRM_CODELET_INPUT, TRM_CODELET_SPAN),
    FIELD(out, TRM_CODELET_OUTPUT, TRM_CODELET_POINTER),
};
static const trm_codelet_vertex codelet = {"Add", run_add, sizeof(add_state), 8, 1, 0, 3, fields};
static const trm_codelet_table codelets = {
    sizeof codelets, TRM_CODELET_VERSION, sizeof(trm_codelet_vertex), sizeof(trm_codelet_field), 1,
    &codelet};

/* The tensor's part of a tile: a row of a matrix, or a column of a transposed one. */
static trm_poplar_tensor *part_of(const trm_poplar_tensor *tensor, uint32_t tile, bool gathered) {
  trm_poplar_tensor *part = NULL;
  OK(api->tensor_slice(tensor, gathered ? 1 : 0, tile, tile + 1, &part, &failure));
  return part;
}

static void measure_vertices(bool gathered) {
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence(), *loop = new_sequence();
  trm_poplar_tensor *t[3];
  uint32_t set = 0;
  OK(trm_poplar_add_table(graph, &codelets, &failure));
  for (int i = 0; i < 3; ++i) {
    t[i] = new_variable(graph, TRM_F32, gathered ? EDGE : TILES, gathered ? TILES : EDGE, "t");
  }
  OK(api->add_compute_set(graph, "add", &set, &failure));
  for (uint32_t tile = 0; tile < TILES; ++tile) {
    const uint32_t vertex = add_vertex(graph, set, "Add", tile);
    for (int i = 0; i < 3; ++i) {
      trm_poplar_tensor *part = part_of(t[i], tile, gathered);
      OK(api->connect(graph, vertex, fields[i].name, -1, part, &failure));
      api->tensor_release(part);
    }
  }
  add_execute(graph, &sequence, set);
  add_control(NULL, &loop, TRM_POPLAR_REPEAT, NULL, RUNS, sequence, NULL);
  machine m = new_machine(graph, loop, t, 2, &t[2], 1);
  static float x[TILES * EDGE], out[TILES * EDGE];
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const uint64_t begin = trm_threads_clock();
    run_machine(&m, (const void *const[]){x, x}, (void *const[]){out});
    const uint64_t taken = trm_threads_clock() - begin;
    best = taken < best ? taken : best;
  }
  printf("%-28s %8.3f us a vertex\n", gathered ? "vertices, gathered edges" : "vertices",
         (double)best / 1e3 / RUNS / TILES);
  free_machine(&m);
  release_tensors(t, 3);
  api->program_release(loop);
  api->program_release(sequence);
  api->graph_release(graph);
}

static void measure_copy(bool transposed) {
  trm_poplar_graph *graph = new_graph();
  trm_poplar_program *sequence = new_sequence();
  trm_poplar_tensor *x = new_variable(graph, TRM_F32, MOVED, MOVED, "x"), *from = NULL;
  trm_poplar_tensor *y = new_variable(graph, TRM_F32, MOVED, MOVED, "y");
  const uint32_t order[] = {transposed ? 1 : 0, transposed ? 0 : 1};
  OK(api->tensor_dim_shuffle(x, order, 2, &from, &failure));
  add_copy(graph, &sequence, from, y);
  machine m = new_machine(graph, sequence, &x, 1, &y, 1);
  float *in = trm_allocate_block((size_t)MOVED * MOVED * 4);
  float *out = trm_allocate_block((size_t)MOVED * MOVED * 4);
  uint64_t best = UINT64_MAX, plain = UINT64_MAX;
  for (int i = 0; i < 10; ++i) {
    const uint64_t begin = trm_threads_clock();
    run_machine(&m, (const void *const[]){in}, (void *const[]){out});
    const uint64_t middle = trm_threads_clock();
    memcpy(out, in, (size_t)MOVED * MOVED * 4);
    const uint64_t end = trm_threads_clock();
    best = middle - begin < best ? middle - begin : best;
    plain = end - middle < plain ? end - middle : plain;
  }
  printf("%-28s %8.2f GB/s (memcpy %.2f)\n", transposed ? "copy, transposed" : "copy",
         2.0 * MOVED * MOVED * 4 / (double)best, 2.0 * MOVED * MOVED * 4 / (double)plain);
  trm_free_block(in, (size_t)MOVED * MOVED * 4);
  trm_free_block(out, (size_t)MOVED * MOVED * 4);
  free_machine(&m);
  release_tensors((trm_poplar_tensor *const[]){x, from, y}, 3);
  api->program_release(sequence);
  api->graph_release(graph);
}

int main(void) {
  for (int gathered = 0; gathered < 2; ++gathered) measure_vertices(gathered == 1);
  for (int transposed = 0; transposed < 2; ++transposed) measure_copy(transposed == 1);
  return 0;
}
