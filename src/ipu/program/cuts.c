/* Owns: what a range of units would need on an IPU of its own, and the best cuts by that.
 *
 * What always lives there (the inputs that the range reads first, the state of its vertices) is a
 * sum over its units. What lives besides is a sum too, at one step. Each unit has some moments, its
 * fullest steps, and a range needs the most that is live of its units at their moments. Arrays that
 * come from earlier units (activations) or later ones (gradients) have copies there: those from
 * earlier ones depend on where the range begins alone, the others on where it ends. So the bytes of
 * [begin, end) at a moment are until[end] - from[begin]. Cycles are sums over the units, and what
 * their copies take. In a long row neighbours are joined into blocks. */
#include "ipu/program/cuts.h"

#include <math.h>
#include <string.h>

#include "base/integers.h"
#include "ipu/program/draft.h"
#include "ipu/target/target.h"

enum { MOMENTS = 3, BISECTIONS = 24, MOST_LOOKS = 20000000, MOST_BLOCKS = 1200, LANES = 16 };
/* Bytes within it are as good, so that cycles count. */
static const double SLACK = 1.02;
/* Cycles within it are as good, and cuts that send least count. */
static const double CYCLES_SLACK = 1.005;

struct trm_cut_model {
  uint32_t num_blocks, num_units;
  uint32_t *first; /* unit of each block, and num_units behind the last */
  /* By block: bytes that a cut before it would send forward, and backward. */
  double *arriving, *returning;
  double cycles_per_byte; /* of what arrives */
  bool trains, recomputes, takes_turns;
  double *forward, *backward; /* [b]: cycles of the blocks before b */
  double *always;             /* [b]: bytes of the blocks before b */
  float *live;                /* [b][block * MOMENTS + moment]: of block b - 1 */
  float *earlier, *later; /* [b][...]: copies in a range that begins with b, that ends before b */
  float *from, *until;    /* [b][...]: sums of `live` before b, less `earlier`, with `later` */
};

/* ---- What a range needs ---------------------------------------------------------------------- */

static size_t width(const trm_cut_model *m) { return (size_t)m->num_blocks * MOMENTS; }

static float greater(float a, float b) { return a > b ? a : b; }

/* The bytes of the blocks [begin, end). */
static double needs(const trm_cut_model *m, uint32_t begin, uint32_t end) {
  const float *before = m->from + begin * width(m), *after = m->until + end * width(m);
  const size_t last = (size_t)end * MOMENTS;
  size_t i = (size_t)begin * MOMENTS;
  float most[LANES] = {0}; /* side by side, as a compiler does not make them of one */
  for (; i + LANES <= last; i += LANES) {
    for (size_t k = 0; k < LANES; ++k) most[k] = greater(after[i + k] - before[i + k], most[k]);
  }
  for (; i < last; ++i) most[0] = greater(after[i] - before[i], most[0]);
  for (size_t k = 1; k < LANES; ++k) most[0] = greater(most[k], most[0]);
  return m->always[end] - m->always[begin] + (double)most[0];
}

/* The cycles of the blocks [begin, end), when so many bytes come back from later ones. */
static double lasts_with(const trm_cut_model *m, uint32_t begin, uint32_t end, double returning) {
  const double copies = m->arriving[begin] * m->cycles_per_byte;
  const double forward = m->forward[end] - m->forward[begin] + copies;
  if (!m->trains) return forward;
  double backward = m->backward[end] - m->backward[begin] + returning * m->cycles_per_byte;
  if (m->recomputes) backward += forward;
  return m->takes_turns ? 2 * fmax(forward, backward) : forward + backward;
}

static double lasts(const trm_cut_model *m, uint32_t begin, uint32_t end) {
  return lasts_with(m, begin, end, m->returning[end]);
}

/* ---- The model ------------------------------------------------------------------------------- */

/* The instruction of the row's computation that a step is for: its own or, inside of a called
 * computation, the call around it. Negative: none. */
static int64_t instruction_of_step(const trm_program *program, const trm_unit_row *row,
                                   uint32_t step) {
  for (; step != TRM_NO_INDEX && step < program->num_steps; step = program->steps[step].parent) {
    const uint32_t source = program->steps[step].source;
    if (source == TRM_NO_INDEX) continue;
    const trm_program_source *o = &program->sources[source];
    if (o->computation == row->computation) return o->instruction;
  }
  return -1;
}

static int32_t unit_of_step(const trm_program *program, const trm_unit_row *row, uint32_t step) {
  const int64_t instruction = instruction_of_step(program, row, step);
  return instruction < 0 ? -1 : row->unit_of[instruction];
}

static int32_t unit_of_variable(const trm_program *program, const trm_unit_row *row,
                                const trm_program_variable *variable) {
  if (variable->source != TRM_NO_INDEX) {
    const trm_program_source *o = &program->sources[variable->source];
    if (o->computation == row->computation && row->unit_of[o->instruction] >= 0) {
      return row->unit_of[o->instruction];
    }
  }
  return unit_of_step(program, row, variable->live.begin);
}

/* All tiles' bytes if each held as much of an array as its fullest does; of an array on few tiles,
 * beside which others lie, its bytes. */
static double weight_of(const trm_program *program, const trm_program_variable *o) {
  const bool is_wide = 2 * (uint64_t)o->mapping.regions >= program->tiles_per_ipu;
  return (double)(is_wide ? o->worst_bytes * program->tiles_per_ipu : o->total_bytes);
}

/* The least and the greatest unit that reads the result of an instruction, or views of it. */
typedef struct readers {
  int32_t least, most;
} readers;

static bool is_view(const trm_instruction *o) {
  return o->opcode == TRM_OP_GET_TUPLE_ELEMENT || o->opcode == TRM_OP_RESHAPE ||
         o->opcode == TRM_OP_BITCAST;
}

static void join_readers(readers *to, int32_t least, int32_t most) {
  if (least < to->least) to->least = least;
  if (most > to->most) to->most = most;
}

static void find_readers(const trm_computation *computation, const int32_t *unit_of,
                         readers *found) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    found[i] = (readers){unit_of[i] < 0 ? INT32_MAX : unit_of[i], unit_of[i]};
  }
  for (trm_index i = computation->num_instructions; i-- > 0;) {
    const trm_instruction *o = &computation->instructions[i];
    if (unit_of[i] < 0) continue;
    for (uint32_t k = 0; k < o->num_operands; ++k) {
      readers *of_operand = &found[o->operands[k]];
      if (is_view(o)) join_readers(of_operand, found[i].least, found[i].most);
      else join_readers(of_operand, unit_of[i], unit_of[i]);
    }
  }
}

/* Adds the bytes of every input to the block of its first reader. */
static trm_status add_inputs(const trm_program *program, const trm_unit_row *row,
                             const uint32_t *block_of, trm_arena *arena, trm_cut_model *m,
                             trm_error *error) {
  const trm_computation *computation = &program->module->computations[row->computation];
  bool *seen = ARENA_NEW(arena, bool, (size_t)computation->num_instructions + 1);
  CHECK_MEMORY(seen, "cuts");
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    if (row->unit_of[i] < 0) continue;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_index operand = instruction->operands[k];
      const bool is_tuple = computation->instructions[operand].opcode == TRM_OP_TUPLE;
      if (is_tuple || row->unit_of[operand] >= 0 || seen[operand]) continue;
      seen[operand] = true;
      m->always[block_of[row->unit_of[i]] + 1] +=
          (double)trm_tile_shape_bytes(&computation->instructions[operand].shape);
    }
  }
  return TRM_OK;
}

/* Adds the cycles of every step to its block, and the bytes of its vertices and code. What brings
 * an input is in the block of its first reader. */
static trm_status add_steps(const trm_program *program, const trm_unit_row *row,
                            const uint32_t *block_of, const readers *found, trm_arena *arena,
                            trm_cut_model *m, trm_error *error) {
  bool *seen = ARENA_NEW(arena, bool, (size_t)program->num_compute_sets + 1);
  CHECK_MEMORY(seen, "cuts");
  for (uint32_t s = 0; s < program->num_steps; ++s) {
    const trm_program_step *step = &program->steps[s];
    const int64_t of_row = instruction_of_step(program, row, s);
    if (of_row < 0 || found[of_row].most < 0) continue;
    const uint32_t block =
        block_of[row->unit_of[of_row] < 0 ? found[of_row].least : row->unit_of[of_row]];
    m->always[block + 1] += (double)step->code.total;
    if (step->compute_set != TRM_NO_INDEX && !seen[step->compute_set]) {
      const trm_program_compute_set *set = &program->compute_sets[step->compute_set];
      seen[step->compute_set] = true;
      m->always[block + 1] += (double)(set->state.total + set->arrays.total);
    }
    const bool is_leaf = step->end == s + 1;
    if (!is_leaf || (row->is_untimed != NULL && row->is_untimed[of_row])) continue;
    const double cycles = step->executions * (double)step->cycles;
    const bool is_backward = row->is_backward[of_row];
    (is_backward ? m->backward : m->forward)[block + 1] += cycles;
    m->trains |= is_backward;
  }
  return TRM_OK;
}

/* Adds the cycles of steps of the whole program, which copy its data from the host, to the blocks
 * that read the data first. */
static void add_streams(const trm_program *program, const trm_unit_row *row,
                        const uint32_t *block_of, const readers *found, trm_cut_model *m) {
  double cycles = 0, bytes = 0;
  for (uint32_t s = 0; s < program->num_steps; ++s) {
    const trm_program_step *step = &program->steps[s];
    const bool copies = step->type == TRM_STEP_TYPE_STREAM_COPY_MID && step->source == TRM_NO_INDEX;
    if (copies) cycles += step->executions * (double)step->cycles;
  }
  for (int adds = 0; adds < 2; ++adds) {
    for (uint32_t v = 0; v < program->num_variables; ++v) {
      const trm_program_variable *o = &program->variables[v];
      if (!o->is_input || o->is_weight || o->source == TRM_NO_INDEX) continue;
      const trm_program_source *source = &program->sources[o->source];
      if (source->computation != row->computation || found[source->instruction].most < 0) continue;
      if (adds == 0) bytes += (double)o->total_bytes;
      else
        m->forward[block_of[found[source->instruction].least] + 1] +=
            cycles * (double)o->total_bytes / bytes;
    }
  }
}

/* Makes sums of what the blocks have. */
static void add_up_blocks(trm_cut_model *m) {
  double *const all[] = {m->always, m->forward, m->backward};
  for (size_t k = 0; k < sizeof all / sizeof *all; ++k) {
    for (uint32_t b = 0; b < m->num_blocks; ++b) all[k][b + 1] += all[k][b];
  }
}

/* Adds `bytes`, which live from step `begin` to `end`, to the moments of the blocks that a copy of
 * an array of block `of` is for: those up to `most` in ranges that begin behind `of`, those down to
 * `least` in ranges that end before it. */
static void add_copies(trm_cut_model *m, const uint32_t *step, trm_program_interval live,
                       uint32_t of, uint32_t least, uint32_t most, float bytes) {
  for (uint32_t begin = of + 1; begin <= most; ++begin) {
    for (size_t at = (size_t)begin * MOMENTS; at < width(m); ++at) {
      const bool lives = live.begin <= step[at] && step[at] < live.end;
      if (lives) m->earlier[begin * width(m) + at] += bytes;
    }
  }
  for (uint32_t end = least + 1; end <= of; ++end) {
    for (size_t at = 0; at < (size_t)end * MOMENTS; ++at) {
      const bool lives = live.begin <= step[at] && step[at] < live.end;
      if (lives) m->later[end * width(m) + at] += bytes;
    }
  }
}

/* Adds up what later blocks send to earlier ones. */
static void add_returning(const trm_computation *computation, const trm_unit_row *row,
                          const uint32_t *block_of, const readers *found, trm_cut_model *m) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    if (row->unit_of[i] < 0 || is_view(&computation->instructions[i])) continue;
    const uint32_t of = block_of[row->unit_of[i]], least = block_of[found[i].least];
    if (least >= of) continue;
    const double bytes = (double)trm_tile_shape_bytes(&computation->instructions[i].shape);
    m->returning[least + 1] += bytes;
    m->returning[of + 1] -= bytes;
  }
  for (uint32_t b = 1; b <= m->num_blocks; ++b) m->returning[b] += m->returning[b - 1];
  m->returning[m->num_blocks] = 0;
}

static void add_all_copies(const trm_program *program, const trm_unit_row *row,
                           const uint32_t *block_of, const readers *found, const uint32_t *step,
                           trm_cut_model *m) {
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_program_variable *o = &program->variables[v];
    const bool is_array = !o->always_live && o->dtype != TRM_U8 && o->source != TRM_NO_INDEX;
    if (!is_array || o->mapping.kind == TRM_MAPPING_NONE) continue;
    const trm_program_source *source = &program->sources[o->source];
    if (source->computation != row->computation || row->unit_of[source->instruction] < 0) continue;
    const readers *by = &found[source->instruction];
    add_copies(m, step, o->live, block_of[row->unit_of[source->instruction]], block_of[by->least],
               block_of[by->most], (float)weight_of(program, o));
  }
}

/* Sums up what the model knows of each block. */
static void add_up(trm_cut_model *m) {
  const size_t row = width(m);
  for (size_t i = 0; i < row; ++i) m->from[i] = m->until[i] = 0;
  for (uint32_t b = 1; b <= m->num_blocks; ++b) {
    for (size_t i = 0; i < row; ++i) {
      m->from[b * row + i] = m->from[(b - 1) * row + i] + m->live[b * row + i];
    }
  }
  for (size_t i = 0; i < row * (m->num_blocks + (size_t)1); ++i) {
    m->until[i] = m->from[i] + m->later[i];
    m->from[i] -= m->earlier[i];
  }
}

/* The steps of the program with what begins and ends at each, and its fullest moments so far. */
typedef struct moments {
  const trm_program *program;
  int32_t *block_of_variable, *block_of_step; /* negative: none */
  uint32_t *begins, *ends; /* by step: a variable and, in `next_*`, those after it */
  uint32_t *next_begin, *next_end;
  double *live; /* by block, at the present step */
  double total;
  uint32_t *step; /* [block * MOMENTS + moment] */
  double *most;
} moments;

/* The fullest step before the middle of the program (forward) and behind it, and the one at which
 * most of the block itself is live. */
static void note_moment(moments *s, size_t block, uint32_t step) {
  const bool early = 2 * step < s->program->num_steps;
  const double bytes[MOMENTS] = {early ? s->total : 0, early ? 0 : s->total, s->live[block]};
  for (size_t k = 0; k < MOMENTS; ++k) {
    if (bytes[k] <= s->most[block * MOMENTS + k]) continue;
    s->most[block * MOMENTS + k] = bytes[k];
    s->step[block * MOMENTS + k] = step;
  }
}

static void record_moment(const moments *s, size_t block, uint32_t step, trm_cut_model *m) {
  for (size_t at = block * MOMENTS; at < (block + 1) * MOMENTS; ++at) {
    if (s->step[at] != step || s->most[at] <= 0) continue;
    for (uint32_t b = 0; b < m->num_blocks; ++b)
      m->live[(b + 1) * width(m) + at] = (float)s->live[b];
  }
}

static void add_live(moments *s, const uint32_t *next, uint32_t first, double sign) {
  for (uint32_t v = first; v != TRM_NO_INDEX; v = next[v]) {
    const double bytes = sign * weight_of(s->program, &s->program->variables[v]);
    s->live[s->block_of_variable[v]] += bytes;
    s->total += bytes;
  }
}

/* Goes through the steps: first to find each block's fullest, then to record what lives there. */
static void go_through(moments *s, bool record, trm_cut_model *m) {
  for (uint32_t step = 0; step < s->program->num_steps; ++step) {
    add_live(s, s->next_end, s->ends[step], -1);
    add_live(s, s->next_begin, s->begins[step], 1);
    if (s->block_of_step[step] < 0) continue;
    if (record) record_moment(s, (size_t)s->block_of_step[step], step, m);
    else note_moment(s, (size_t)s->block_of_step[step], step);
  }
}

static trm_status add_live_bytes(const trm_program *program, const trm_unit_row *row,
                                 const uint32_t *block_of, const readers *found, trm_arena *arena,
                                 trm_cut_model *m, trm_error *error) {
  const size_t steps = (size_t)program->num_steps + 1, variables = program->num_variables + 1u;
  moments s = {.program = program,
               .block_of_variable = ARENA_NEW(arena, int32_t, variables),
               .block_of_step = ARENA_NEW(arena, int32_t, steps),
               .begins = ARENA_NEW(arena, uint32_t, steps),
               .ends = ARENA_NEW(arena, uint32_t, steps),
               .next_begin = ARENA_NEW(arena, uint32_t, variables),
               .next_end = ARENA_NEW(arena, uint32_t, variables),
               .live = ARENA_NEW(arena, double, m->num_blocks),
               .step = ARENA_NEW(arena, uint32_t, width(m)),
               .most = ARENA_NEW(arena, double, width(m))};
  float **tables[] = {&m->live, &m->earlier, &m->later, &m->from, &m->until};
  bool good = true;
  for (size_t t = 0; t < sizeof tables / sizeof *tables; ++t) {
    *tables[t] = ARENA_NEW(arena, float, (m->num_blocks + (size_t)1) * width(m));
    good = good && *tables[t] != NULL;
  }
  if (!good || s.block_of_variable == NULL || s.block_of_step == NULL || s.begins == NULL ||
      s.ends == NULL || s.next_begin == NULL || s.next_end == NULL || s.live == NULL ||
      s.step == NULL || s.most == NULL) {
    FAIL_NO_MEMORY("cuts");
  }
  for (uint32_t t = 0; t < steps; ++t) {
    const int32_t unit = unit_of_step(program, row, t);
    s.block_of_step[t] = unit < 0 ? -1 : (int32_t)block_of[unit];
    s.begins[t] = s.ends[t] = TRM_NO_INDEX;
  }
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_program_variable *variable = &program->variables[v];
    const int32_t unit = unit_of_variable(program, row, variable);
    if (unit < 0 || variable->always_live || variable->mapping.kind == TRM_MAPPING_NONE) continue;
    const uint32_t end = (uint32_t)trm_least(variable->live.end, program->num_steps);
    s.block_of_variable[v] = (int32_t)block_of[unit];
    s.next_begin[v] = s.begins[variable->live.begin];
    s.begins[variable->live.begin] = v;
    s.next_end[v] = s.ends[end];
    s.ends[end] = v;
  }
  go_through(&s, false, m);
  memset(s.live, 0, m->num_blocks * sizeof *s.live);
  go_through(&s, true, m);
  add_all_copies(program, row, block_of, found, s.step, m);
  add_up(m);
  return TRM_OK;
}

trm_status trm_cuts_create(const trm_program *program, const trm_unit_row *row, uint32_t num_parts,
                           trm_arena *arena, trm_cut_model **out_model, trm_error *error) {
  trm_cut_model *m = ARENA_NEW(arena, trm_cut_model, 1);
  uint32_t *block_of = ARENA_NEW(arena, uint32_t, (size_t)row->num_units + 1);
  if (m == NULL || block_of == NULL) FAIL_NO_MEMORY("cuts");
  /* As many blocks as trm_cuts_choose goes through in no time where parts are nearly even. Where
   * parts of any length are good, MOST_BLOCKS bounds it. */
  const double most = fmin(cbrt(MOST_LOOKS * (double)num_parts * (double)num_parts), MOST_BLOCKS);
  m->num_units = row->num_units;
  m->num_blocks = (double)row->num_units <= most ? row->num_units : (uint32_t)most;
  m->first = ARENA_NEW(arena, uint32_t, (size_t)m->num_blocks + 1);
  m->arriving = ARENA_NEW(arena, double, (size_t)m->num_blocks + 1);
  m->returning = ARENA_NEW(arena, double, (size_t)m->num_blocks + 2);
  m->always = ARENA_NEW(arena, double, (size_t)m->num_blocks + 1);
  m->forward = ARENA_NEW(arena, double, (size_t)m->num_blocks + 1);
  m->backward = ARENA_NEW(arena, double, (size_t)m->num_blocks + 1);
  if (m->first == NULL || m->arriving == NULL || m->returning == NULL || m->always == NULL ||
      m->forward == NULL || m->backward == NULL) {
    FAIL_NO_MEMORY("cuts");
  }
  const trm_target *target = program->target;
  const double rate = trm_target_link_rate(target);
  m->cycles_per_byte = rate > 0 ? target->clock_frequency / rate : 0;
  m->recomputes = row->recomputes;
  m->takes_turns = row->takes_turns;
  for (uint32_t b = 0; b <= m->num_blocks; ++b) {
    m->first[b] = (uint32_t)((uint64_t)b * row->num_units / m->num_blocks);
    m->arriving[b] = b == 0 || b == m->num_blocks ? 0 : row->crossing[m->first[b]];
  }
  for (uint32_t b = 0; b < m->num_blocks; ++b) {
    for (uint32_t u = m->first[b]; u < m->first[b + 1]; ++u) block_of[u] = b;
  }
  const trm_computation *computation = &program->module->computations[row->computation];
  readers *found = ARENA_NEW(arena, readers, (size_t)computation->num_instructions + 1);
  CHECK_MEMORY(found, "cuts");
  find_readers(computation, row->unit_of, found);
  TRY(add_inputs(program, row, block_of, arena, m, error));
  TRY(add_steps(program, row, block_of, found, arena, m, error));
  add_streams(program, row, block_of, found, m);
  add_up_blocks(m);
  add_returning(computation, row, block_of, found, m);
  TRY(add_live_bytes(program, row, block_of, found, arena, m, error));
  const uint32_t whole = 0;
  const trm_cut_needs known = {.bytes = (double)program->totals.worst_tile_bytes,
                               .cycles = lasts(m, 0, m->num_blocks)};
  trm_cuts_learn(m, 1, &whole, &known);
  *out_model = m;
  return TRM_OK;
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* How many parts of at most `limit` bytes the row needs, if each takes what it can. */
static uint32_t parts_of(const trm_cut_model *m, double limit) {
  uint32_t parts = 0;
  for (uint32_t begin = 0; begin < m->num_blocks; ++parts) {
    uint32_t end = begin + 1;
    while (end < m->num_blocks && needs(m, begin, end + 1) <= limit) ++end;
    if (end == begin + 1 && needs(m, begin, end) > limit) return UINT32_MAX;
    begin = end;
  }
  return parts;
}

/* The least bytes of the fullest of so many parts. */
static double least_limit(const trm_cut_model *m, uint32_t num_parts) {
  double low = 0, high = needs(m, 0, m->num_blocks);
  for (int i = 0; i < BISECTIONS; ++i) {
    const double middle = (low + high) / 2;
    if (parts_of(m, middle) <= num_parts) high = middle;
    else low = middle;
  }
  return high;
}

/* The cheapest way to cut the blocks before each end into so many parts. */
typedef struct way {
  double cost;    /* bytes that its cuts send, and a little for parts that are not even */
  uint32_t begin; /* of its last part */
} way;

/* Cuts into parts within limits; false: there is no such cut. cuts[p] is a block. */
static bool choose_within(const trm_cut_model *m, const trm_cut_needs *limit, uint32_t num_parts,
                          way *ways, uint32_t *cuts) {
  const size_t ends = (size_t)m->num_blocks + 1;
  for (size_t i = 0; i < ends * (num_parts + (size_t)1); ++i) ways[i].cost = INFINITY;
  ways[0].cost = 0;
  for (uint32_t begin = 0; begin < m->num_blocks; ++begin) {
    for (uint32_t end = begin + 1; end <= m->num_blocks; ++end) {
      if (lasts_with(m, begin, end, 0) > limit->cycles) break;
      if (lasts(m, begin, end) > limit->cycles) continue;
      const double bytes = needs(m, begin, end);
      if (bytes > limit->bytes) break;
      const double cost = m->arriving[begin] + bytes / limit->bytes * bytes / 1e3;
      for (uint32_t p = 0; p < num_parts; ++p) {
        way *to = &ways[(p + 1) * ends + end];
        const double sum = ways[p * ends + begin].cost + cost;
        if (sum < to->cost) *to = (way){sum, begin};
      }
    }
  }
  uint32_t end = m->num_blocks;
  if (isinf(ways[num_parts * ends + end].cost)) return false;
  for (uint32_t p = num_parts; p > 0; --p) cuts[p - 1] = end = ways[p * ends + end].begin;
  return true;
}

/* Cuts into parts of at most `bytes`, whose longest is about as short as possible: cycles that are
 * too few for any cut grow until they are enough, then shrink. */
static bool choose_shortest(const trm_cut_model *m, double bytes, uint32_t num_parts, way *ways,
                            uint32_t *cuts) {
  double sent = 0;
  for (uint32_t b = 0; b < m->num_blocks; ++b) sent += m->arriving[b] + m->returning[b];
  const double all = lasts(m, 0, m->num_blocks);
  const double most = all + 4 * sent * m->cycles_per_byte + 1; /* of any part */
  trm_cut_needs limit = {bytes, all / num_parts * CYCLES_SLACK};
  double low = all / num_parts, step = CYCLES_SLACK;
  while (!choose_within(m, &limit, num_parts, ways, cuts)) {
    if (limit.cycles > most) return false;
    low = limit.cycles;
    step *= step;
    limit.cycles = low * step + 1;
  }
  double high = limit.cycles;
  while (high > CYCLES_SLACK * low + 1) {
    limit.cycles = sqrt(low * high);
    if (choose_within(m, &limit, num_parts, ways, cuts)) high = limit.cycles;
    else low = limit.cycles;
  }
  limit.cycles = high;
  return choose_within(m, &limit, num_parts, ways, cuts);
}

trm_status trm_cuts_choose(const trm_cut_model *m, uint32_t num_parts, double room, uint32_t *cuts,
                           trm_cut_needs *out_needs, trm_error *error) {
  way *ways =
      trm_allocate_zeroed((m->num_blocks + (size_t)1) * (num_parts + (size_t)1), sizeof *ways);
  CHECK_MEMORY(ways, "cuts");
  double limit = room;
  if (parts_of(m, room) > num_parts) limit = fmax(room, least_limit(m, num_parts) * SLACK);
  while (!choose_shortest(m, limit, num_parts, ways, cuts)) limit *= SLACK;
  trm_free(ways);
  *out_needs = (trm_cut_needs){0, 0};
  for (uint32_t p = 0; p < num_parts; ++p) {
    const uint32_t end = p + 1 < num_parts ? cuts[p + 1] : m->num_blocks;
    out_needs->bytes = fmax(out_needs->bytes, needs(m, cuts[p], end));
    out_needs->cycles = fmax(out_needs->cycles, lasts(m, cuts[p], end));
    cuts[p] = m->first[cuts[p]];
  }
  return TRM_OK;
}

static double ratio(double planned, double promised) {
  return promised > 0 ? planned / promised : 1;
}

/* Scales what each block adds to sums; `ends` and `scales` are of parts. */
static void scale_sums(double *sums, uint32_t num_parts, const uint32_t *ends,
                       const double *scales) {
  double before = 0;
  for (uint32_t p = 0, b = 0; p < num_parts; ++p) {
    for (; b < ends[p]; ++b) {
      const double own = sums[b + 1] - before;
      before = sums[b + 1];
      sums[b + 1] = sums[b] + scales[p] * own;
    }
  }
}

void trm_cuts_learn(trm_cut_model *m, uint32_t num_parts, const uint32_t *cuts,
                    const trm_cut_needs *parts) {
  uint32_t ends[TRM_MOST_PARTS] = {0};
  double of_bytes[TRM_MOST_PARTS] = {0}, of_cycles[TRM_MOST_PARTS] = {0};
  for (uint32_t p = 0, begin = 0; p < num_parts; begin = ends[p++]) {
    uint32_t end = begin;
    while (end < m->num_blocks && (p + 1 == num_parts || m->first[end] < cuts[p + 1])) ++end;
    ends[p] = end;
    of_bytes[p] = ratio(parts[p].bytes, needs(m, begin, end));
    of_cycles[p] = ratio(parts[p].cycles, lasts(m, begin, end));
  }
  scale_sums(m->always, num_parts, ends, of_bytes);
  scale_sums(m->forward, num_parts, ends, of_cycles);
  scale_sums(m->backward, num_parts, ends, of_cycles);
  const size_t row = width(m);
  for (uint32_t p = 0, b = 0; p < num_parts; ++p) {
    for (; b < ends[p]; ++b) {
      for (size_t i = 0; i < row; ++i) {
        m->live[(b + 1) * row + i] *= (float)of_bytes[p];
        m->later[(b + 1) * row + i] *= (float)of_bytes[p];
        m->earlier[b * row + i] *= (float)of_bytes[p];
      }
    }
  }
  add_up(m);
}
