/* Owns: order by need, depth first without recursion. */
#include "hlo/order.h"

trm_status trm_graph_create(uint32_t count, size_t edges, trm_graph *out_graph, trm_error *error) {
  *out_graph = (trm_graph){.count = count};
  out_graph->rows = trm_allocate_zeroed((size_t)count + 1, sizeof *out_graph->rows);
  out_graph->targets = trm_allocate_zeroed(edges, sizeof *out_graph->targets);
  if (out_graph->rows == NULL || out_graph->targets == NULL) FAIL_NO_MEMORY("a graph");
  return TRM_OK;
}

void trm_graph_free(trm_graph *graph) {
  trm_free(graph->rows);
  trm_free(graph->targets);
}

trm_status trm_graph_order(const trm_graph *g, const bool *wanted, uint32_t *order,
                           uint32_t *out_count, trm_cycle *out_cycle, trm_error *error) {
  enum { NEW, OPEN, DONE };
  trm_status status = TRM_OK;
  uint32_t count = 0, depth;
  uint8_t *state = trm_allocate_zeroed(g->count, sizeof *state);
  uint32_t *stack = trm_allocate_zeroed(g->count, sizeof *stack);
  size_t *next = trm_allocate_zeroed(g->count, sizeof *next);
  *out_cycle = (trm_cycle){TRM_NO_INDEX, TRM_NO_INDEX};
  if (state == NULL || stack == NULL || next == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while ordering a module");
  }
  for (uint32_t start = 0; start < g->count; ++start) {
    if (state[start] != NEW || (wanted != NULL && !wanted[start])) continue;
    depth = 0;
    stack[depth++] = start;
    state[start] = OPEN;
    next[start] = g->rows[start];
    while (depth > 0) {
      const uint32_t node = stack[depth - 1];
      if (next[node] == g->rows[node + 1]) {
        state[node] = DONE;
        order[count++] = node;
        --depth;
        continue;
      }
      const uint32_t target = g->targets[next[node]++];
      if (state[target] == OPEN) {
        *out_cycle = (trm_cycle){node, target};
        goto done;
      }
      if (state[target] == NEW) {
        state[target] = OPEN;
        next[target] = g->rows[target];
        stack[depth++] = target;
      }
    }
  }
  *out_count = count;
done:
  trm_free(state);
  trm_free(stack);
  trm_free(next);
  return status;
}
