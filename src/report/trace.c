/* Owns: the execution trace in profile.pop.
 *
 * Runs of a program have the same steps, unless their inputs count loops. So the steps are written
 * once for each set of counts (table trace), and the views steps and steps_by_ipu show them for
 * every run (schema.h). The first iterations of a loop are written in
 * full; one row stands for the others. A step that runs beside a longer one (a pipeline's stage on
 * another IPU) states its cycles in cycles_overlapped: the sum over all rows of cycles less
 * cycles_overlapped is the cycles of the run. The first row is the wait for the host before the
 * run, the second the loading of the program. */
#include <stdio.h>

#include "base/cycles.h"
#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"
#include "report/database.h"
#include "report/write.h"

/* IO_ITERATIONS: for loops and stages with I/O tiles, whose overlap is a share of all of them. */
enum { ITERATIONS = 2, IO_ITERATIONS = 32, MOST_ROWS = 200000, MOST_SLOTS = 256 };

typedef struct tracer {
  const trm_program *program;
  sqlite3_stmt *insert;
  int64_t first_row, rows;
  int64_t clock;       /* cycles since the run began */
  bool is_hidden;      /* steps run beside longer ones */
  int64_t micro_batch; /* of a pipeline: the first mini-batch of a row; -1: none */
  const char *phase;   /* of a pipeline: "forward" or "backward"; else NULL */
} tracer;

/* A sequence of steps on the walk: one iteration of a loop, or a branch. */
typedef struct frame {
  uint32_t step;  /* the parent; TRM_NO_INDEX: the steps that the caller gave */
  uint32_t child; /* the next child */
  uint64_t iteration;
} frame;

static trm_status put(tracer *t, const char *type, int64_t program, int64_t set, int64_t ipu,
                      int64_t stage, int64_t iterations, int64_t cycles,
                      const trm_program_step *leaf, trm_error *error) {
  TRY(trm_database_insert(
      t->insert, error, "itiiiiiiiiiiiifit", t->first_row + t->rows++, type, program, set, ipu,
      stage, iterations, t->clock, cycles, t->is_hidden ? cycles : (int64_t)0,
      leaf != NULL ? leaf->sync_cycles : 0, leaf != NULL ? (int64_t)leaf->active_tiles : 0,
      leaf != NULL ? leaf->bytes_in_total : 0, leaf != NULL ? leaf->bytes_out_total : 0,
      leaf != NULL ? leaf->cycles_mean : 0.0, t->micro_batch, t->phase));
  t->clock = trm_add_cycles(t->clock, cycles);
  return TRM_OK;
}

/* Adds a row: `cycles` of a step, for one or for several iterations together. */
static trm_status add(tracer *t, uint32_t s, uint64_t iterations, int64_t cycles,
                      trm_error *error) {
  const trm_program_step *step = &t->program->steps[s];
  const bool leaf = iterations == 1 && step->cycles == cycles;
  const int64_t set = step->compute_set == TRM_NO_INDEX ? -1 : (int64_t)step->compute_set;
  return put(t, trm_program_step_type_name(step->type), s, set, step->ipu, step->stage,
             (int64_t)iterations, cycles, leaf ? step : NULL, error);
}

static bool has_branches(const trm_program_step *step) {
  return step->type == TRM_STEP_TYPE_IF || step->type == TRM_STEP_TYPE_SWITCH;
}

/* The cycles of one iteration of a step (*out_iteration) less the cycles of its children. */
static int64_t own_cycles(const trm_program *p, uint32_t s, int64_t *out_iteration) {
  const trm_program_step *step = &p->steps[s];
  int64_t sum = 0;
  for (uint32_t c = s + 1; c < step->end; c = p->steps[c].end) {
    if (!has_branches(step) || c == step->taken) sum = trm_add_cycles(sum, p->steps[c].cycles);
  }
  const int64_t iterations = step->repeat_count > 0 ? (int64_t)step->repeat_count : 1;
  *out_iteration = step->cycles / iterations;
  return *out_iteration - sum;
}

static trm_status begin_iteration(tracer *t, frame *f, trm_error *error) {
  const trm_program_step *step = &t->program->steps[f->step];
  int64_t iteration;
  const int64_t own = own_cycles(t->program, f->step, &iteration);
  f->child = has_branches(step) ? step->taken : f->step + 1;
  if (own <= 0) return TRM_OK; /* negative: the sums have reached their limit */
  return add(t, f->step, 1, own, error);
}

static trm_status trace_pipeline(tracer *t, trm_error *error);
static trm_status trace_io_loop(tracer *t, uint32_t loop, trm_error *error);

/* Whether streams of the loop run beside its computation. */
static bool has_io_tiles(const trm_program *p, uint32_t s) {
  const trm_program_step *step = &p->steps[s];
  if (step->type != TRM_STEP_TYPE_REPEAT && step->type != TRM_STEP_TYPE_REPEAT_WHILE) return false;
  const trm_io_iteration iteration = trm_io_iteration_of(p, s);
  return iteration.in + iteration.out > 0;
}

static bool is_pipeline(const trm_program *p, uint32_t s) {
  return p->pipeline.present && s > 0 && s == p->pipeline.loop_step;
}

/* Traces the steps [begin, end), which have one parent. */
static trm_status walk(tracer *t, uint32_t begin, uint32_t end, trm_error *error) {
  const trm_program *p = t->program;
  VECTOR(frame) stack = {0};
  trm_status status = TRM_OK;
  const frame range = {.step = TRM_NO_INDEX, .child = begin};
  if (!VECTOR_PUSH(&stack, range)) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
  while (stack.count > 0) {
    frame *top = &stack.items[stack.count - 1];
    const trm_program_step *parent = top->step == TRM_NO_INDEX ? NULL : &p->steps[top->step];
    if (top->child >= (parent != NULL ? parent->end : end)) {
      const uint64_t left = parent != NULL && parent->repeat_count > top->iteration
                                ? parent->repeat_count - top->iteration - 1
                                : 0;
      if (left > 0 && top->iteration + 1 < ITERATIONS) {
        ++top->iteration;
        TRY_OR_GOTO(begin_iteration(t, top, error), done);
        continue;
      }
      if (left > 0) {
        int64_t iteration;
        own_cycles(p, top->step, &iteration);
        TRY_OR_GOTO(add(t, top->step, left, trm_multiply_cycles(left, iteration), error), done);
      }
      --stack.count;
      continue;
    }
    const uint32_t c = top->child;
    const trm_program_step *child = &p->steps[c];
    top->child = parent != NULL && has_branches(parent) ? parent->end : child->end;
    if (child->repeat_count == 0) continue;
    if (child->end == c + 1 || t->rows > MOST_ROWS) {
      TRY_OR_GOTO(add(t, c, child->end == c + 1 ? 1 : child->repeat_count, child->cycles, error),
                  done);
      continue;
    }
    if (is_pipeline(p, c)) {
      TRY_OR_GOTO(trace_pipeline(t, error), done);
      continue;
    }
    if (has_io_tiles(p, c)) {
      TRY_OR_GOTO(trace_io_loop(t, c, error), done);
      continue;
    }
    frame inner = {.step = c};
    TRY_OR_GOTO(begin_iteration(t, &inner, error), done);
    if (!VECTOR_PUSH(&stack, inner)) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
  }
done:
  VECTOR_FREE(&stack);
  return status;
}

/* ---- I/O tiles ------------------------------------------------------------------------------ */

enum { COMPUTE = 1 << TRM_FEED_NONE, IN = 1 << TRM_FEED_IN, OUT = 1 << TRM_FEED_OUT };

/* Traces the children of a loop with these `ways`; in a pipeline, those of a stage (-1: all). */
static trm_status walk_ways(tracer *t, uint32_t loop, int ways, int64_t stage, trm_error *error) {
  const trm_program *p = t->program;
  const uint32_t end = p->steps[loop].end;
  uint32_t first = TRM_NO_INDEX; /* of consecutive children to trace */
  for (uint32_t c = loop + 1; c < end; c = p->steps[c].end) {
    const bool of_stage = stage < 0 || trm_pipeline_entry_of(p, c) == stage;
    if (of_stage && (ways >> p->steps[c].feed & 1) != 0) {
      if (first == TRM_NO_INDEX) first = c;
      continue;
    }
    if (first != TRM_NO_INDEX) TRY(walk(t, first, c, error));
    first = TRM_NO_INDEX;
  }
  return first == TRM_NO_INDEX ? TRM_OK : walk(t, first, end, error);
}

/* Streams and computation that run beside each other. */
typedef struct side_by_side {
  uint32_t loop;
  int streams;              /* the directions of the streams */
  int64_t stage, again;     /* of a pipeline: the stage, and the stage to recompute; -1: none */
  int64_t own, compute, io; /* cycles: of the loop itself, of the computation, of the streams */
} side_by_side;

/* The shorter of streams and computation overlaps with the longer. */
static trm_status trace_side_by_side(tracer *t, const side_by_side *o, trm_error *error) {
  const int64_t begin = t->clock;
  const bool was_hidden = t->is_hidden;
  t->is_hidden = was_hidden || o->io <= o->compute;
  TRY(walk_ways(t, o->loop, o->streams, o->stage, error));
  t->clock = begin;
  t->is_hidden = was_hidden || o->io > o->compute;
  if (o->own > 0) TRY(add(t, o->loop, 1, o->own, error));
  if (o->again >= 0) TRY(walk_ways(t, o->loop, COMPUTE, o->again, error));
  TRY(walk_ways(t, o->loop, COMPUTE, o->stage, error));
  t->clock = trm_add_cycles(begin, trm_most(o->io, o->compute));
  t->is_hidden = was_hidden;
  return TRM_OK;
}

/* A loop whose feeds go through I/O tiles: the first element comes in, iterations follow, the last
 * results go out. */
static trm_status trace_io_loop(tracer *t, uint32_t loop, trm_error *error) {
  const trm_io_iteration iteration = trm_io_iteration_of(t->program, loop);
  const uint64_t iterations = t->program->steps[loop].repeat_count;
  side_by_side o = {.loop = loop,
                    .stage = -1,
                    .again = -1,
                    .compute = iteration.compute,
                    .own = t->program->target->loop_iteration_cycles};
  TRY(walk_ways(t, loop, IN, -1, error));
  if (iterations > 1) {
    o.streams = IN, o.io = iteration.in;
    TRY(trace_side_by_side(t, &o, error));
  }
  o.streams = IN | OUT, o.io = iteration.in + iteration.out;
  uint64_t left = iterations > 2 ? iterations - 2 : 0;
  for (int shown = 0; shown < IO_ITERATIONS && left > 0 && t->rows < MOST_ROWS; ++shown, --left) {
    TRY(trace_side_by_side(t, &o, error));
  }
  if (left > 0) {
    TRY(add(t, loop, left, trm_multiply_cycles(left, trm_most(o.io, o.compute)), error));
  }
  o.streams = iterations > 1 ? OUT : 0, o.io = iterations > 1 ? iteration.out : 0;
  TRY(trace_side_by_side(t, &o, error));
  return walk_ways(t, loop, OUT, -1, error);
}

/* ---- Pipelines ------------------------------------------------------------------------------ */

/* The trace of a pipeline's loop over mini-batches. It has slots one after the other, in which
 * stages run side by side, each on its IPU (trm_pipeline_stride). Every slot takes as long as the
 * slowest IPU of any slot; a Sync fills the rest. */
typedef struct pipeline_trace {
  tracer *tracer;
  uint64_t stride;
  int64_t *busy; /* by IPU: cycles since the begin of the slot */
} pipeline_trace;

/* Traces mini-batch m in a stage: its steps, or one row for `count` mini-batches from m on. */
static trm_status trace_mini_batch(tracer *t, uint32_t entry, uint64_t m, uint64_t count,
                                   trm_error *error) {
  const trm_pipeline *pipeline = &t->program->pipeline;
  const trm_pipeline_stage *stage = &pipeline->stages[entry];
  const uint64_t shown = stage->io_cycles > 0 ? IO_ITERATIONS : ITERATIONS;
  if (m < shown && count == 1 && t->rows < MOST_ROWS) {
    const bool again = stage->is_backward && pipeline->recomputation;
    const side_by_side o = {.loop = pipeline->loop_step,
                            .streams = IN | OUT,
                            .stage = entry,
                            .again = again ? (int64_t)pipeline->num_entries - 1 - entry : -1,
                            .compute = stage->compute_cycles,
                            .io = stage->io_cycles};
    return trace_side_by_side(t, &o, error);
  }
  return put(t, "Call", pipeline->loop_step, -1, stage->ipu, entry, (int64_t)count,
             trm_multiply_cycles(count, stage->cycles), NULL, error);
}

static trm_status trace_stage(tracer *t, uint32_t entry, uint64_t m, uint64_t count,
                              trm_error *error) {
  t->micro_batch = (int64_t)m;
  t->phase = t->program->pipeline.stages[entry].is_backward ? "backward" : "forward";
  const trm_status status = trace_mini_batch(t, entry, m, count, error);
  t->micro_batch = -1, t->phase = NULL;
  return status;
}

/* The number of mini-batches on which an entry works in the slots [first, end); *out_first is the
 * first. */
static uint64_t mini_batches_in(const pipeline_trace *o, uint32_t entry, uint64_t first,
                                uint64_t end, uint64_t *out_first) {
  const uint64_t count = o->tracer->program->pipeline.mini_batches;
  const uint64_t from = first <= entry ? 0 : (first - entry + o->stride - 1) / o->stride;
  uint64_t to = end <= entry ? 0 : (end - entry + o->stride - 1) / o->stride;
  if (to > count) to = count;
  *out_first = from;
  return to > from ? to - from : 0;
}

static void add_busy(pipeline_trace *o, const trm_pipeline_stage *stage, uint64_t count) {
  int64_t *busy = &o->busy[stage->ipu];
  *busy = trm_add_cycles(*busy, trm_multiply_cycles(count, stage->cycles));
}

/* Traces the forward or the backward stages (`all`: both) in the slots [first, end), which take
 * `cycles`. The other IPUs overlap with the busiest one. */
static trm_status trace_slots(pipeline_trace *o, uint64_t first, uint64_t end, bool all,
                              bool backward, int64_t cycles, trm_error *error) {
  tracer *t = o->tracer;
  const trm_program *p = t->program;
  const trm_pipeline *pipeline = &p->pipeline;
  const int64_t begin = t->clock;
  uint32_t busiest = 0;
  for (uint32_t i = 0; i < p->num_ipus; ++i) o->busy[i] = 0;
  for (uint32_t e = 0; e < pipeline->num_entries; ++e) {
    const trm_pipeline_stage *stage = &pipeline->stages[e];
    uint64_t m;
    if (!all && stage->is_backward != backward) continue;
    const uint64_t count = mini_batches_in(o, e, first, end, &m);
    add_busy(o, stage, count);
    if (o->busy[stage->ipu] > o->busy[busiest]) busiest = stage->ipu;
  }
  const int64_t longest = o->busy[busiest];
  for (uint32_t i = 0; i < p->num_ipus; ++i) o->busy[i] = 0;
  for (uint32_t e = 0; e < pipeline->num_entries; ++e) {
    const trm_pipeline_stage *stage = &pipeline->stages[e];
    uint64_t m;
    if ((!all && stage->is_backward != backward) || stage->cycles == 0) continue;
    const uint64_t count = mini_batches_in(o, e, first, end, &m);
    if (count == 0) continue;
    t->clock = trm_add_cycles(begin, o->busy[stage->ipu]);
    t->is_hidden = stage->ipu != busiest;
    TRY(trace_stage(t, e, m, count, error));
    add_busy(o, stage, count);
  }
  t->is_hidden = false;
  t->clock = trm_add_cycles(begin, longest);
  if (cycles <= longest) return TRM_OK;
  return put(t, "Sync", pipeline->loop_step, -1, -1, -1, 1, cycles - longest, NULL, error);
}

/* Whether a forward, or a backward, stage works in a slot. */
static bool any_in(const pipeline_trace *o, bool backward, uint64_t slot) {
  const trm_pipeline *pipeline = &o->tracer->program->pipeline;
  for (uint32_t e = 0; e < pipeline->num_entries; ++e) {
    uint64_t m;
    if (pipeline->stages[e].is_backward != backward) continue;
    if (mini_batches_in(o, e, slot, slot + 1, &m) > 0) return true;
  }
  return false;
}

static trm_status trace_all_slots(pipeline_trace *o, trm_error *error) {
  tracer *t = o->tracer;
  const trm_pipeline *pipeline = &t->program->pipeline;
  const bool sequential = pipeline->schedule == TRM_PIPELINE_SEQUENTIAL;
  const uint64_t slots = pipeline->num_entries + o->stride * (pipeline->mini_batches - 1);
  uint64_t most = MOST_SLOTS;
  if (sequential && most < ITERATIONS * pipeline->num_entries)
    most = ITERATIONS * pipeline->num_entries;
  const int64_t end = trm_add_cycles(t->clock, pipeline->total_cycles);
  uint64_t slot = 0;
  for (; slot < slots && slot < most; ++slot) {
    if (sequential || o->stride == 2) {
      const int64_t cycles =
          sequential ? pipeline->stages[slot % o->stride].cycles : pipeline->round_cycles / 2;
      TRY(trace_slots(o, slot, slot + 1, true, false, cycles, error));
      continue;
    }
    for (int backward = 0; backward < 2; ++backward) {
      if (!any_in(o, backward, slot)) continue;
      TRY(trace_slots(o, slot, slot + 1, false, backward,
                      backward ? pipeline->backward_cycles : pipeline->forward_cycles, error));
    }
  }
  if (slot < slots) TRY(trace_slots(o, slot, slots, true, false, end - t->clock, error));
  return TRM_OK;
}

static trm_status trace_pipeline(tracer *t, trm_error *error) {
  const trm_program *p = t->program;
  if (p->pipeline.mini_batches == 0) return TRM_OK;
  pipeline_trace o = {.tracer = t,
                      .stride = trm_pipeline_stride(&p->pipeline),
                      .busy = trm_allocate_zeroed(p->num_ipus, sizeof *o.busy)};
  CHECK_MEMORY(o.busy, "the trace of a pipeline");
  const trm_status status = trace_all_slots(&o, error);
  trm_free(o.busy);
  return status;
}

/* ---- The tables ----------------------------------------------------------------------------- */

static trm_status trace(tracer *t, trm_error *error) {
  const trm_program *p = t->program;
  const trm_program_step load = {.bytes_in_total = p->totals.load_bytes,
                                 .active_tiles = p->tiles_per_ipu * p->num_ipus};
  TRY(put(t, "StreamCopyBegin", -1, -1, -1, -1, 1, 0, NULL, error));
  TRY(put(t, "StreamCopyMid", -2, -1, -1, -1, 1, 0, &load, error));
  return p->num_steps == 0 ? TRM_OK : walk(t, 0, p->steps[0].end, error);
}

trm_status trm_report_write_trace(const trm_program *program, int64_t first_row, sqlite3 *database,
                                  int64_t *out_end_row, trm_error *error) {
  tracer t = {.program = program, .first_row = first_row, .micro_batch = -1};
  TRY(trm_database_prepare(database, "INSERT INTO trace VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                           &t.insert, error));
  const trm_status status = trace(&t, error);
  sqlite3_finalize(t.insert);
  *out_end_row = t.first_row + t.rows;
  return status;
}
