/* Owns: the execution trace in profile.pop.
 *
 * Every run of a program has the same steps, so they are written once (table trace) and seen for
 * every run through the views steps and steps_by_ipu. The first turns of a loop are written out,
 * the others are one row that stands for all of them: the cycles of the rows add up to those of the
 * run. Row 0 is waiting for the host before the run. */
#include <stdio.h>

#include "report/database.h"
#include "report/write.h"

enum { TURNS = 2, MOST_ROWS = 200000 };

typedef struct tracer {
  const trm_program *program;
  sqlite3_stmt *insert;
  int64_t rows, cycles; /* so far */
} tracer;

/* A sequence that is being walked: of one turn of a loop, or of a branch. */
typedef struct frame {
  uint32_t step;  /* whose children are walked */
  uint32_t child; /* the next one */
  uint64_t turn;
} frame;

static trm_status add(tracer *t, const trm_program_step *step, int64_t id, const char *type,
                      uint64_t iterations, int64_t cycles, trm_error *error) {
  const bool leaf = iterations == 1 && step->cycles == cycles;
  const int64_t set = step->compute_set == TRM_NO_INDEX ? -1 : (int64_t)step->compute_set;
  TRY(trm_database_insert(
      t->insert, error, "itiiiiiiiiiif", ++t->rows, type, id, set, (int64_t)step->ipu,
      (int64_t)iterations, t->cycles, cycles, leaf ? step->sync_cycles : 0,
      leaf ? (int64_t)step->active_tiles : 0, leaf ? step->bytes_in_total : 0,
      leaf ? step->bytes_out_total : 0, leaf ? step->cycles_mean : 0.0));
  t->cycles += cycles;
  return TRM_OK;
}

/* What a step takes beside the children that are counted. */
static int64_t own_cycles(const trm_program *p, uint32_t s, int64_t *out_turn) {
  const trm_program_step *step = &p->steps[s];
  const bool branches = step->type == TRM_STEP_TYPE_IF || step->type == TRM_STEP_TYPE_SWITCH;
  int64_t sum = 0;
  for (uint32_t c = s + 1; c < step->end; c = p->steps[c].end) {
    if (!branches || c == step->taken) sum += p->steps[c].cycles;
  }
  const int64_t turns = step->repeat_count > 0 ? (int64_t)step->repeat_count : 1;
  *out_turn = step->cycles / turns;
  return *out_turn - sum;
}

static trm_status begin_turn(tracer *t, frame *f, trm_error *error) {
  const trm_program *p = t->program;
  const trm_program_step *step = &p->steps[f->step];
  int64_t turn;
  const int64_t own = own_cycles(p, f->step, &turn);
  const bool branches = step->type == TRM_STEP_TYPE_IF || step->type == TRM_STEP_TYPE_SWITCH;
  f->child = branches ? step->taken : f->step + 1;
  if (own == 0) return TRM_OK;
  return add(t, step, f->step, trm_program_step_type_name(step->type), 1, own, error);
}

static trm_status walk(tracer *t, trm_error *error) {
  const trm_program *p = t->program;
  VECTOR(frame) stack = {0};
  trm_status status = TRM_OK;
  frame root = {0};
  if (p->num_steps == 0) return TRM_OK;
  TRY_OR_GOTO(begin_turn(t, &root, error), done);
  if (!VECTOR_PUSH(&stack, root)) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
  while (stack.count > 0) {
    frame *top = &stack.items[stack.count - 1];
    const trm_program_step *parent = &p->steps[top->step];
    const bool branches =
        parent->type == TRM_STEP_TYPE_IF || parent->type == TRM_STEP_TYPE_SWITCH;
    if (top->child >= parent->end) {
      const uint64_t left = parent->repeat_count > top->turn ? parent->repeat_count - top->turn - 1
                                                             : 0;
      if (left > 0 && top->turn + 1 < TURNS) {
        ++top->turn;
        TRY_OR_GOTO(begin_turn(t, top, error), done);
        continue;
      }
      int64_t turn;
      own_cycles(p, top->step, &turn);
      if (left > 0) {
        TRY_OR_GOTO(add(t, parent, top->step, trm_program_step_type_name(parent->type), left,
                        turn * (int64_t)left, error), done);
      }
      --stack.count;
      continue;
    }
    const uint32_t c = top->child;
    const trm_program_step *child = &p->steps[c];
    top->child = branches ? parent->end : child->end;
    if (child->repeat_count == 0) continue;
    if (child->end == c + 1 || t->rows > MOST_ROWS) {
      TRY_OR_GOTO(add(t, child, c, trm_program_step_type_name(child->type),
                      child->end == c + 1 ? 1 : child->repeat_count, child->cycles, error), done);
      continue;
    }
    frame inner = {.step = c};
    TRY_OR_GOTO(begin_turn(t, &inner, error), done);
    if (!VECTOR_PUSH(&stack, inner)) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
  }
done:
  VECTOR_FREE(&stack);
  return status;
}

trm_status trm_report_write_trace(const trm_report_source *source, sqlite3 *database,
                                  trm_error *error) {
  tracer t = {.program = source->program};
  TRY(trm_database_prepare(database, "INSERT INTO trace VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)",
                           &t.insert, error));
  trm_status status = trm_database_insert(t.insert, error, "itiiiiiiiiiif", (int64_t)0,
                                          "StreamCopyBegin", (int64_t)-1, (int64_t)-1, (int64_t)-1,
                                          (int64_t)1, (int64_t)0, (int64_t)0, (int64_t)0,
                                          (int64_t)0, (int64_t)0, (int64_t)0, 0.0);
  if (status == TRM_OK) status = walk(&t, error);
  sqlite3_finalize(t.insert);
  TRY(status);
  char sql[2048];
  const long long rows = (long long)t.rows + 1;
  snprintf(sql, sizeof sql,
           "CREATE VIEW steps AS SELECT runs.id * %lld + trace.id AS id, trace.type AS type,"
           " trace.program AS program, trace.compute_set AS compute_set, runs.id AS run,"
           " trace.iterations AS iterations FROM runs JOIN trace;"
           "CREATE VIEW steps_by_ipu AS SELECT runs.id * %lld + trace.id AS step_id,"
           " ipus.id AS ipu, CASE trace.id WHEN 0 THEN runs.wait_cycles ELSE trace.cycles END"
           " AS cycles, trace.active_tiles AS active_tiles,"
           " runs.cycles_base + CASE trace.id WHEN 0 THEN 0 ELSE runs.wait_cycles +"
           " trace.cycles_base END AS cycles_base,"
           " 0 AS active_cycles_from_min, 0 AS active_cycles_from_max,"
           " CAST(trace.cycles_mean AS INTEGER) AS active_cycles_to_min,"
           " CASE trace.id WHEN 0 THEN runs.wait_cycles ELSE trace.cycles - trace.sync_cycles END"
           " AS active_cycles_to_max, trace.data_in AS data_in, trace.data_out AS data_out,"
           " trace.sync_cycles AS sync_cycles, runs.id AS run"
           " FROM runs JOIN trace JOIN ipus ON trace.ipu = -1 OR trace.ipu = ipus.id;"
           "INSERT INTO meta VALUES('trace_rows', %lld)",
           rows, rows, rows);
  return trm_database_run(database, sql, error);
}
