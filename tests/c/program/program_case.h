/* What tests of programs share: planning HLO text. */
#ifndef TREMULA_TESTS_PROGRAM_PLAN_CASE_H_
#define TREMULA_TESTS_PROGRAM_PLAN_CASE_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/program/program.h"
#include "ipu/target/target.h"

/* Plans HLO text (through the passes) for a preset; any failure is the test's. */
static inline trm_program *make_program(const char *text, const char *machine,
                                        const trm_program_options *options) {
  trm_error error;
  trm_module *module = NULL;
  trm_target *target = NULL;
  trm_program *program = NULL;
  if (trm_target_load(machine, &target, &error) != TRM_OK) fail_msg("%s", error.message);
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK) {
    fail_msg("does not parse: %s", error.message);
  }
  if (trm_program_create(module, false, target, options, &program, &error) != TRM_OK) {
    fail_msg("is not planned: %s", error.message);
  }
  trm_module_free(module);
  trm_target_release(target);
  return program;
}

/* The sums that hold for every program. */
static inline void check_sums(const trm_program *p) {
  const trm_program_totals *t = &p->totals;
  /* Steps: a sequence is its children; a loop its turns; the root the run. */
  const int64_t turn = p->target->loop_iteration_cycles;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const trm_program_step *step = &p->steps[s];
    assert_true(step->end > s && step->end <= p->num_steps);
    int64_t sum = 0, most = 0;
    for (uint32_t c = s + 1; c < step->end; c = p->steps[c].end) {
      assert_int_equal(p->steps[c].parent, s);
      sum += p->steps[c].cycles;
      if (p->steps[c].cycles > most) most = p->steps[c].cycles;
    }
    switch (step->type) {
      case TRM_STEP_TYPE_SEQUENCE:
      case TRM_STEP_TYPE_CALL: assert_int_equal(step->cycles, sum); break;
      case TRM_STEP_TYPE_REPEAT:
      case TRM_STEP_TYPE_REPEAT_WHILE:
        if (p->pipeline.present && s == p->pipeline.loop_step) {
          assert_int_equal(step->cycles, p->pipeline.total_cycles);
          break;
        }
        assert_int_equal(step->cycles + step->overlapped_cycles,
                         (int64_t)step->repeat_count * (sum + turn));
        break;
      case TRM_STEP_TYPE_IF:
      case TRM_STEP_TYPE_SWITCH: assert_int_equal(step->cycles, turn + most); break;
      default:
        assert_int_equal(step->end, s + 1);
        assert_true(step->cycles >= step->sync_cycles);
        break;
    }
  }
  assert_int_equal(p->steps[0].cycles, t->cycles);
  assert_int_equal(t->cycles + t->overlapped_cycles,
                   t->compute_cycles + t->copy_cycles + t->exchange_cycles +
                       t->global_exchange_cycles + t->host_cycles + t->collective_cycles +
                       t->sync_cycles + t->control_cycles);
  /* Tiles: categories add up; so do totals. */
  const trm_program_memory *m = &p->memory;
  assert_int_equal(m->num_tiles, p->num_ipus * p->tiles_per_ipu);
  int64_t total = 0, always = 0, by_category = 0, worst = 0;
  uint32_t over = 0;
  for (uint32_t tile = 0; tile < m->num_tiles; ++tile) {
    int64_t sum = 0, fixed = 0;
    for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
      sum += m->by_category[c][tile];
      if (m->is_always_live[c]) fixed += m->by_category[c][tile];
    }
    assert_int_equal(sum, m->always_live[tile] + m->not_always_live[tile]);
    assert_true(fixed <= m->always_live[tile]);
    assert_true(m->gaps[tile] >= 0 && m->gaps[tile] < 4 * (int64_t)p->num_variables + 8);
    const int64_t bytes = sum + m->gaps[tile];
    total += sum;
    always += m->always_live[tile];
    if (bytes > worst) worst = bytes;
    assert_int_equal(m->overflowed[tile],
                     bytes > t->bytes_per_tile ? bytes - t->bytes_per_tile : 0);
    over += bytes > t->bytes_per_tile;
    assert_true(m->interleaved[tile] <= sum);
  }
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
    by_category += trm_program_category_bytes(p, (trm_memory_category)c);
  }
  assert_int_equal(total, t->memory_bytes);
  assert_int_equal(by_category, t->memory_bytes);
  assert_int_equal(always, t->always_live_bytes);
  assert_int_equal(worst, t->worst_tile_bytes);
  assert_int_equal(over, t->tiles_over);
  assert_true(t->fits == (over == 0));
  /* Liveness: the fullest step of the fullest tile is the peak, and the sums of all tiles. */
  int64_t peak = 0, most_total = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (p->steps[s].live_worst > peak) peak = p->steps[s].live_worst;
    if (p->steps[s].live_total > most_total) most_total = p->steps[s].live_total;
  }
  assert_int_equal(peak, t->worst_tile_bytes);
  assert_int_equal(p->steps[t->worst_step].live_worst, peak);
  assert_int_equal(most_total, t->max_step_bytes);
  /* Variables: the stated bytes are those that the tiles have, and lives are within the program. */
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *variable = &p->variables[v];
    assert_true(variable->always_live ||
                (variable->live.begin < variable->live.end && variable->live.end <= p->num_steps));
    assert_true(variable->worst_bytes <= variable->total_bytes);
  }
}

/* The first step whose name contains `text`; NULL: none. */
static inline const trm_program_step *find_step(const trm_program *p, const char *text) {
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (strstr(p->steps[s].name, text) != NULL) return &p->steps[s];
  }
  return NULL;
}

static inline uint32_t count_steps(const trm_program *p, trm_program_step_type type) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) count += p->steps[s].type == type;
  return count;
}

#endif /* TREMULA_TESTS_PROGRAM_PLAN_CASE_H_ */
