/* Owns: adding up the cycles of steps with children, the executions, and the totals of a program.
 */
#include <string.h>

#include "base/cycles.h"
#include "ipu/program/draft.h"
#include "ipu/target/target.h"

static bool has_children(trm_program_step_type type) {
  switch (type) {
    case TRM_STEP_TYPE_SEQUENCE:
    case TRM_STEP_TYPE_REPEAT:
    case TRM_STEP_TYPE_REPEAT_WHILE:
    case TRM_STEP_TYPE_IF:
    case TRM_STEP_TYPE_SWITCH:
    case TRM_STEP_TYPE_CALL: return true;
    default: return false;
  }
}

/* Children come after their parents. */
static void add_up_cycles(trm_program *program) {
  const int64_t iteration = program->target->loop_iteration_cycles;
  for (uint32_t s = program->num_steps; s-- > 0;) {
    trm_program_step *step = &program->steps[s];
    if (!has_children(step->type)) continue;
    int64_t sum = 0, slowest = -1;
    for (uint32_t c = s + 1; c < step->end; c = program->steps[c].end) {
      sum = trm_add_cycles(sum, program->steps[c].cycles);
      if (program->steps[c].cycles > slowest) {
        slowest = program->steps[c].cycles;
        step->taken = c;
      }
    }
    const bool chooses = step->type == TRM_STEP_TYPE_IF || step->type == TRM_STEP_TYPE_SWITCH;
    if (chooses) {
      step->cycles = trm_add_cycles(iteration, trm_most(0, slowest));
      continue;
    }
    step->taken = TRM_NO_INDEX;
    const bool loops =
        step->type == TRM_STEP_TYPE_REPEAT || step->type == TRM_STEP_TYPE_REPEAT_WHILE;
    step->cycles =
        loops ? trm_multiply_cycles(step->repeat_count, trm_add_cycles(sum, iteration)) : sum;
    const int64_t in_order = step->cycles;
    if (program->pipeline.present && s == program->pipeline.loop_step && s > 0) {
      step->cycles = trm_pipeline_cycles(program);
    } else if (loops) {
      const trm_io_iteration io = trm_io_iteration_of(program, s);
      if (io.in + io.out > 0) {
        step->cycles = trm_limit_cycles(trm_io_loop_cycles(&io, step->repeat_count));
      }
    }
    step->overlapped_cycles = in_order - step->cycles;
  }
}

/* Parents come before their children. */
static void multiply_executions(trm_program *program) {
  for (uint32_t s = 0; s < program->num_steps; ++s) {
    trm_program_step *step = &program->steps[s];
    step->executions = 1;
    if (s == 0) continue;
    const trm_program_step *parent = &program->steps[step->parent];
    const bool chosen = parent->taken == TRM_NO_INDEX || parent->taken == s;
    step->executions = chosen ? parent->executions * (double)parent->repeat_count : 0;
  }
}

static void add_up_totals(trm_program *program) {
  trm_program_totals *t = &program->totals;
  double compute = 0, copy = 0, exchange = 0, global = 0, host = 0, collective = 0, sync = 0;
  double between = 0, control = 0, mean = 0, worst = 0, flops = 0, in = 0, out = 0, overlapped = 0;
  for (uint32_t s = 0; s < program->num_steps; ++s) {
    const trm_program_step *step = &program->steps[s];
    overlapped += step->executions * (double)step->overlapped_cycles;
    if (has_children(step->type)) {
      const bool plain = step->type == TRM_STEP_TYPE_SEQUENCE || step->type == TRM_STEP_TYPE_CALL;
      if (!plain) {
        control += step->executions * (double)step->repeat_count *
                   (double)program->target->loop_iteration_cycles;
      }
      continue;
    }
    const double work = step->executions * (double)(step->cycles - step->sync_cycles);
    sync += step->executions * (double)step->sync_cycles;
    flops += step->executions * (double)step->flops;
    switch (step->type) {
      case TRM_STEP_TYPE_ON_TILE_EXECUTE: {
        const trm_program_compute_set *set = &program->compute_sets[step->compute_set];
        const bool copies =
            set->num_groups > 0 && strncmp(set->groups[0].codelet, "poplar_rt::", 11) == 0;
        *(copies ? &copy : &compute) += work;
        mean += step->executions * step->cycles_mean;
        worst += work;
        break;
      }
      case TRM_STEP_TYPE_DO_EXCHANGE: exchange += work; break;
      case TRM_STEP_TYPE_GLOBAL_EXCHANGE: global += work; break;
      case TRM_STEP_TYPE_CROSS_REPLICA_COPY:
        collective += work;
        if (step->is_between_domains) between += work;
        break;
      case TRM_STEP_TYPE_STREAM_COPY_MID:
        host += work;
        in += step->executions * (double)step->bytes_in_total;
        out += step->executions * (double)step->bytes_out_total;
        break;
      default: control += work; break;
    }
  }
  t->cycles = program->num_steps > 0 ? program->steps[0].cycles : 0;
  t->compute_cycles = trm_limit_cycles(compute), t->copy_cycles = trm_limit_cycles(copy);
  t->exchange_cycles = trm_limit_cycles(exchange);
  t->global_exchange_cycles = trm_limit_cycles(global);
  t->host_cycles = trm_limit_cycles(host), t->collective_cycles = trm_limit_cycles(collective);
  t->between_domains_cycles = trm_limit_cycles(between);
  t->sync_cycles = trm_limit_cycles(sync), t->control_cycles = trm_limit_cycles(control);
  t->flops = trm_limit_cycles(flops);
  t->overlapped_cycles = trm_limit_cycles(overlapped);
  t->host_bytes_in = trm_limit_cycles(in), t->host_bytes_out = trm_limit_cycles(out);
  t->seconds = (double)t->cycles / program->target->clock_frequency;
  t->tile_balance = worst > 0 ? mean / worst : 1.0;
  t->num_steps = program->num_steps;
  t->num_variables = program->num_variables;
  for (uint32_t c = 0; c < program->num_compute_sets; ++c) {
    if (program->compute_sets[c].shared_with != TRM_NO_INDEX) continue;
    ++t->num_compute_sets;
    t->num_vertices += program->compute_sets[c].vertices;
    t->num_edges += program->compute_sets[c].edges;
  }
}

void trm_program_total(trm_program *program) {
  add_up_cycles(program);
  multiply_executions(program);
  add_up_totals(program);
}
