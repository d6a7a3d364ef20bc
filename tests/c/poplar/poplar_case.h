/* For tests of Poplar programs: a graph, and a program of it that runs with arrays. */
#ifndef TREMULA_TESTS_POPLAR_CASE_H_
#define TREMULA_TESTS_POPLAR_CASE_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "poplar/api.h"
#include "poplar/plan.h"

static const trm_poplar_api *api;
static trm_poplar_error failure;

/* Fails the test with the message. */
#define OK(call)                                   \
  do {                                             \
    if ((call) != 0) fail_msg("%s", failure.what); \
  } while (0)

static inline trm_poplar_graph *new_graph(void) {
  trm_poplar_graph *graph = NULL;
  api = trm_poplar_api_table();
  OK(trm_poplar_graph_create("mk2", 1, 0, &graph, &failure));
  return graph;
}

static inline trm_poplar_tensor *new_variable(trm_poplar_graph *graph, int32_t dtype, uint64_t a,
                                              uint64_t b, const char *name) {
  trm_poplar_tensor *tensor = NULL;
  const uint64_t dims[] = {a, b};
  OK(api->add_variable(graph, dtype, dims, b > 0 ? 2 : 1, TRM_POPLAR_PLACE_LINEAR, name, &tensor,
                       &failure));
  return tensor;
}

static inline trm_poplar_program *new_sequence(void) {
  trm_poplar_program *program = NULL;
  OK(api->program_make(NULL, TRM_POPLAR_SEQUENCE, NULL, &program, &failure));
  return program;
}

/* Adds a program, and releases it. */
static inline void add(trm_poplar_program **sequence, trm_poplar_program *program) {
  OK(api->sequence_add(sequence, program, &failure));
  api->program_release(program);
}

/* Adds a program that chooses or repeats others. */
static inline void add_control(trm_poplar_graph *graph, trm_poplar_program **sequence, int32_t kind,
                               trm_poplar_tensor *predicate, uint64_t number,
                               trm_poplar_program *first, trm_poplar_program *second) {
  trm_poplar_program *made = NULL, *const children[] = {first, second};
  const trm_poplar_program_parts parts = {
      .tensors = {predicate}, .number = number, .children = children, .num_children = 2};
  OK(api->program_make(graph, kind, &parts, &made, &failure));
  add(sequence, made);
}

static inline void add_copy(trm_poplar_graph *graph, trm_poplar_program **sequence,
                            const trm_poplar_tensor *from, const trm_poplar_tensor *to) {
  trm_poplar_program *copy = NULL;
  const trm_poplar_program_parts parts = {.tensors = {from, to}, .text = "copy"};
  OK(api->program_make(graph, TRM_POPLAR_COPY, &parts, &copy, &failure));
  add(sequence, copy);
}

static inline void add_execute(trm_poplar_graph *graph, trm_poplar_program **sequence,
                               uint32_t compute_set) {
  trm_poplar_program *program = NULL;
  const trm_poplar_program_parts parts = {.number = compute_set, .text = "execute"};
  OK(api->program_make(graph, TRM_POPLAR_EXECUTE, &parts, &program, &failure));
  add(sequence, program);
}

/* A vertex on a tile. */
static inline uint32_t add_vertex(trm_poplar_graph *graph, uint32_t compute_set, const char *name,
                                  uint32_t tile) {
  uint32_t vertex = 0;
  OK(api->add_vertex(graph, compute_set, name, &vertex, &failure));
  OK(api->set_vertex_tile(graph, vertex, tile, &failure));
  return vertex;
}

/* A plan and its memory. */
typedef struct machine {
  trm_poplar_plan *plan;
  void *block;
} machine;

static inline machine new_machine(trm_poplar_graph *graph, trm_poplar_program *program,
                                  trm_poplar_tensor *const *inputs, uint32_t num_inputs,
                                  trm_poplar_tensor *const *outputs, uint32_t num_outputs) {
  machine m = {0};
  OK(trm_poplar_plan_create(graph, program, inputs, num_inputs, outputs, num_outputs, &m.plan,
                            &failure));
  m.block = trm_allocate_block(m.plan->bytes);
  assert_non_null(m.block);
  return m;
}

static inline void run_machine(const machine *m, const void *const *inputs, void *const *outputs) {
  trm_error error;
  const trm_kernel_call call = {.operands = inputs, .results = outputs, .persistent = m->block};
  if (trm_poplar_run_plan(m->plan, &call, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
}

static inline void free_machine(machine *m) {
  trm_free_block(m->block, m->plan->bytes);
  trm_poplar_plan_free(m->plan);
}

static inline void release_tensors(trm_poplar_tensor *const *tensors, size_t count) {
  for (size_t t = 0; t < count; ++t) api->tensor_release(tensors[t]);
}

#endif /* TREMULA_TESTS_POPLAR_CASE_H_ */
