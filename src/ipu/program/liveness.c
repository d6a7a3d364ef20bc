/* Owns: memory by tile, category and step.
 *
 * Two sweeps go over the steps, add the variables that begin and subtract those that end. The first
 * sweep finds each tile's fullest step (gaps included) and the bytes of every step. The second
 * records what each tile holds at its own fullest step, by category; most variables live at none.
 * Tiles that hold the same of every variable are one class: the sweeps go by classes. Each variable
 * costs as many additions as its IPU has classes, and equal places are worked out once. */
#include <math.h>
#include <string.h>

#include "ipu/program/draft.h"
#include "ipu/program/expansions.h"
#include "ipu/target/target.h"

/* Makes an array of zeros in `arena`. */
#define MAKE(array, type, count)             \
  do {                                       \
    (array) = ARENA_NEW(arena, type, count); \
    CHECK_MEMORY(array, "memory by tile");   \
  } while (0)

typedef struct sweep {
  trm_program *program;
  const trm_tile_classes *classes;
  uint32_t num_classes;
  /* By class; `always` and `peak` with gaps, `by_category` without. */
  int64_t *live, *always, *peak, *not_always_live, *by_category[TRM_NUM_MEMORY_CATEGORIES];
  uint32_t *peak_step;
  int64_t *worst, *total; /* by IPU: the sum of live and always live */
  uint32_t *worst_tile;
  bool *changed; /* by IPU */
  trm_expansions *expansions;
  uint32_t *begins, *ends; /* variables that are not always live, by begin and by end */
  uint32_t count;
} sweep;

/* Sorts variables by their begin or end, by counting. */
static trm_status sort_by(const trm_program *program, bool by_end, uint32_t **out_sorted,
                          uint32_t *out_count, trm_arena *arena, trm_error *error) {
  const size_t times = (size_t)program->num_steps + 2;
  uint32_t *start, *sorted;
  MAKE(start, uint32_t, times + 1);
  MAKE(sorted, uint32_t, (size_t)program->num_variables + 1);
  uint32_t count = 0;
  for (int fill = 0; fill < 2; ++fill) {
    for (uint32_t v = 0; v < program->num_variables; ++v) {
      const trm_program_variable *variable = &program->variables[v];
      if (variable->always_live || variable->mapping.kind == TRM_MAPPING_NONE) continue;
      const uint32_t time = by_end ? variable->live.end : variable->live.begin;
      if (fill == 0) ++start[time + 1], ++count;
      else sorted[start[time]++] = v;
    }
    for (size_t t = 0; fill == 0 && t < times; ++t) start[t + 1] += start[t];
  }
  *out_sorted = sorted;
  *out_count = count;
  return TRM_OK;
}

static void add_variable(const sweep *s, const trm_program_variable *v, int sign,
                         uint32_t alignment, int64_t *by_class) {
  trm_expansions_add(s->expansions, &v->mapping, sign, alignment, by_class);
}

static void measure_ipu(sweep *s, uint32_t ipu) {
  const uint32_t first = s->classes->first[ipu], end = s->classes->first[ipu + 1];
  int64_t worst = -1, total = 0;
  for (uint32_t k = first; k < end; ++k) {
    const int64_t bytes = s->live[k] + s->always[k];
    total += bytes * s->classes->size[k];
    worst = bytes > worst ? bytes : worst;
  }
  uint32_t fullest = first; /* the first of several, whose first tile is the lowest */
  while (s->live[fullest] + s->always[fullest] != worst) ++fullest;
  s->worst[ipu] = worst;
  s->total[ipu] = total;
  s->worst_tile[ipu] = s->classes->tile[fullest];
}

/* Records new peaks of an IPU's tiles. */
static void note_peaks(sweep *s, uint32_t ipu, uint32_t step) {
  const uint32_t end = s->classes->first[ipu + 1];
  for (uint32_t k = s->classes->first[ipu]; k < end; ++k) {
    const bool more = s->live[k] > s->peak[k];
    s->peak[k] = more ? s->live[k] : s->peak[k];
    s->peak_step[k] = more ? step : s->peak_step[k];
  }
}

/* First sweep. */
static void find_peaks(sweep *s, int64_t *out_max_total) {
  trm_program *program = s->program;
  uint32_t begun = 0, ended = 0;
  *out_max_total = 0;
  for (uint32_t ipu = 0; ipu < program->num_ipus; ++ipu) measure_ipu(s, ipu);
  for (uint32_t step = 0; step < program->num_steps; ++step) {
    while (ended < s->count && program->variables[s->ends[ended]].live.end <= step) {
      const trm_program_variable *v = &program->variables[s->ends[ended++]];
      add_variable(s, v, -1, TRM_GAP_ALIGNMENT, s->live);
      s->changed[v->mapping.ipu] = true;
    }
    while (begun < s->count && program->variables[s->begins[begun]].live.begin <= step) {
      const trm_program_variable *v = &program->variables[s->begins[begun++]];
      add_variable(s, v, 1, TRM_GAP_ALIGNMENT, s->live);
      s->changed[v->mapping.ipu] = true;
    }
    int64_t total = 0, worst = -1;
    for (uint32_t ipu = 0; ipu < program->num_ipus; ++ipu) {
      if (s->changed[ipu]) {
        measure_ipu(s, ipu);
        note_peaks(s, ipu, step);
        s->changed[ipu] = false;
      }
      total += s->total[ipu];
      if (s->worst[ipu] <= worst) continue;
      worst = s->worst[ipu];
      program->steps[step].live_worst_tile = s->worst_tile[ipu];
    }
    program->steps[step].live_total = total;
    program->steps[step].live_worst = worst;
    if (total > *out_max_total) *out_max_total = total;
  }
}

/* Keeps, of sorted variables, those that live at the peak step of a tile. */
static uint32_t keep_at_peaks(const sweep *s, const uint32_t *peak_from, uint32_t *sorted) {
  uint32_t kept = 0;
  for (uint32_t k = 0; k < s->count; ++k) {
    const trm_program_interval live = s->program->variables[sorted[k]].live;
    if (live.begin > s->program->num_steps) continue;
    if (peak_from[live.begin] < live.end) sorted[kept++] = sorted[k];
  }
  return kept;
}

/* Second sweep: by category, at the tile's own peak step. */
static trm_status note_categories(sweep *s, trm_arena *arena, trm_error *error) {
  trm_program *program = s->program;
  const uint32_t all = s->num_classes;
  int64_t *live[TRM_NUM_MEMORY_CATEGORIES] = {NULL};
  const size_t steps = (size_t)program->num_steps + 1;
  uint32_t *first, *next; /* classes by peak step */
  uint32_t *peak_from;    /* by step: the first one from there on that is a tile's peak step */
  MAKE(first, uint32_t, steps);
  MAKE(next, uint32_t, (size_t)all + 1);
  MAKE(peak_from, uint32_t, steps);
  memset(first, 0xff, steps * sizeof *first);
  for (uint32_t k = 0; k < all; ++k) {
    next[k] = first[s->peak_step[k]];
    first[s->peak_step[k]] = k;
  }
  peak_from[program->num_steps] = UINT32_MAX;
  for (uint32_t step = program->num_steps; step-- > 0;) {
    peak_from[step] = first[step] == UINT32_MAX ? peak_from[step + 1] : step;
  }
  (void)keep_at_peaks(s, peak_from, s->begins);
  s->count = keep_at_peaks(s, peak_from, s->ends);
  uint32_t begun = 0, ended = 0;
  for (uint32_t step = 0; step < program->num_steps; ++step) {
    while (ended < s->count && program->variables[s->ends[ended]].live.end <= step) {
      const trm_program_variable *v = &program->variables[s->ends[ended++]];
      add_variable(s, v, -1, TRM_BYTES_ALIGNMENT, live[v->category]);
    }
    while (begun < s->count && program->variables[s->begins[begun]].live.begin <= step) {
      const trm_program_variable *v = &program->variables[s->begins[begun++]];
      if (live[v->category] == NULL) MAKE(live[v->category], int64_t, all);
      add_variable(s, v, 1, TRM_BYTES_ALIGNMENT, live[v->category]);
    }
    for (uint32_t k = first[step]; k != UINT32_MAX; k = next[k]) {
      for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
        if (live[c] == NULL || live[c][k] == 0) continue;
        s->by_category[c][k] += live[c][k];
        s->not_always_live[k] += live[c][k];
      }
    }
  }
  return TRM_OK;
}

static trm_status allocate_memory(trm_program *program, size_t all, trm_error *error) {
  trm_program_memory *memory = &program->memory;
  trm_arena *arena = &program->arena;
  memory->num_tiles = (uint32_t)all;
  MAKE(memory->always_live, int64_t, all);
  MAKE(memory->not_always_live, int64_t, all);
  MAKE(memory->gaps, int64_t, all);
  MAKE(memory->interleaved, int64_t, all);
  MAKE(memory->overflowed, int64_t, all);
  MAKE(memory->peak_step, uint32_t, all);
  MAKE(memory->is_always_live, bool, TRM_NUM_MEMORY_CATEGORIES);
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) MAKE(memory->by_category[c], int64_t, all);
  static const bool always[] = {
#define TRM_MEMORY_CATEGORY(id, name, always_live, help) always_live,
#include "tremula/memory_category.def"
#undef TRM_MEMORY_CATEGORY
  };
  memcpy(memory->is_always_live, always, sizeof always);
  return TRM_OK;
}

bool trm_memory_may_interleave(trm_memory_category category) {
  return category == TRM_CATEGORY_VARIABLE || category == TRM_CATEGORY_CONSTANT ||
         category == TRM_CATEGORY_MESSAGE || category == TRM_CATEGORY_HOST_MESSAGE ||
         category == TRM_CATEGORY_GLOBAL_MESSAGE || category == TRM_CATEGORY_REARRANGEMENT ||
         category == TRM_CATEGORY_OUTPUT_EDGE;
}

static void finish_tiles(trm_program *program, const int64_t *with_gaps, int64_t max_total) {
  trm_program_memory *memory = &program->memory;
  trm_program_totals *totals = &program->totals;
  const int64_t limit = program->target->bytes_per_tile;
  const int64_t room = limit - (int64_t)trm_target_non_interleaved_bytes(program->target);
  memory->worst_bytes = -1;
  memory->max_step_total = max_total;
  for (uint32_t t = 0; t < memory->num_tiles; ++t) {
    int64_t data = 0;
    for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
      if (trm_memory_may_interleave((trm_memory_category)c)) data += memory->by_category[c][t];
    }
    const int64_t bytes = memory->always_live[t] + memory->not_always_live[t];
    memory->gaps[t] = with_gaps[t] - bytes;
    memory->interleaved[t] = trm_least(trm_most(0, room), data);
    memory->overflowed[t] = trm_most(0, with_gaps[t] - limit);
    memory->total_bytes += bytes;
    memory->total_gaps += memory->gaps[t];
    totals->always_live_bytes += memory->always_live[t];
    totals->tiles_over += memory->overflowed[t] > 0;
    if (with_gaps[t] <= memory->worst_bytes) continue;
    memory->worst_bytes = with_gaps[t];
    memory->worst_tile = t;
    memory->worst_step = memory->peak_step[t];
  }
  totals->bytes_per_tile = limit;
  totals->memory_bytes = memory->total_bytes;
  totals->memory_bytes_with_gaps = memory->total_bytes + memory->total_gaps;
  totals->max_step_bytes = max_total;
  totals->worst_tile = memory->worst_tile;
  totals->worst_step = memory->worst_step;
  totals->worst_tile_bytes = trm_most(0, memory->worst_bytes);
  totals->bytes_over = trm_most(0, memory->worst_bytes - limit);
  totals->fits = totals->bytes_over == 0;
}

/* The cost of loading the program after another one: code and data come over the host's link. */
static void add_up_load(trm_program *program) {
  trm_program_totals *totals = &program->totals;
  const trm_target *target = program->target;
  totals->load_bytes =
      totals->always_live_bytes + (program->options.compile_ipu_code ? 0 : totals->code_bytes);
  const double seconds = (double)totals->load_bytes / target->host_load_bytes_per_second;
  totals->load_cycles =
      (int64_t)ceil(seconds * target->clock_frequency) + target->global_sync_cycles;
}

int64_t trm_program_bytes_on(const trm_program *program, const trm_program_variable *v,
                             uint32_t tile, uint32_t step) {
  const uint32_t tiles = program->tiles_per_ipu;
  const bool alive = v->always_live || (v->live.begin <= step && step < v->live.end);
  if (!alive || v->mapping.kind == TRM_MAPPING_NONE || v->mapping.ipu != tile / tiles) return -1;
  return trm_mapping_bytes_on(&v->mapping, TRM_BYTES_ALIGNMENT, tile % tiles);
}

/* Fixes the lives and places of variables, before tiles are compared. */
static void settle_variables(trm_program *program) {
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    trm_program_variable *variable = &program->variables[v];
    if (variable->live.end <= variable->live.begin) variable->live.end = variable->live.begin + 1;
    if (variable->is_remote) { /* its readers' arrays are variables of their own */
      variable->total_bytes = trm_ceil_divide(variable->total_bytes, trm_most(1, variable->shards));
      if (variable->is_input) program->totals.remote_bytes += variable->total_bytes;
      variable->mapping.kind = TRM_MAPPING_NONE;
    }
    if (variable->is_weight) program->totals.weights_bytes += variable->total_bytes;
  }
}

static trm_status begin_sweeps(sweep *s, trm_arena *arena, trm_error *error) {
  const size_t classes = s->num_classes, ipus = s->program->num_ipus;
  MAKE(s->live, int64_t, classes);
  MAKE(s->always, int64_t, classes);
  MAKE(s->peak, int64_t, classes);
  MAKE(s->peak_step, uint32_t, classes);
  MAKE(s->not_always_live, int64_t, classes);
  MAKE(s->worst, int64_t, ipus);
  MAKE(s->total, int64_t, ipus);
  MAKE(s->worst_tile, uint32_t, ipus);
  MAKE(s->changed, bool, ipus);
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) MAKE(s->by_category[c], int64_t, classes);
  TRY(sort_by(s->program, false, &s->begins, &s->count, arena, error));
  return sort_by(s->program, true, &s->ends, &s->count, arena, error);
}

static void add_always(sweep *s) {
  for (uint32_t v = 0; v < s->program->num_variables; ++v) {
    const trm_program_variable *variable = &s->program->variables[v];
    if (!variable->always_live) continue;
    add_variable(s, variable, 1, TRM_GAP_ALIGNMENT, s->always);
    add_variable(s, variable, 1, TRM_BYTES_ALIGNMENT, s->by_category[variable->category]);
  }
}

/* Gives every tile what its class has. `always_live` is not in the sweep: it is the rest. */
static void spread_to_tiles(const sweep *s, int64_t *with_gaps) {
  trm_program_memory *memory = &s->program->memory;
  for (uint32_t t = 0; t < memory->num_tiles; ++t) {
    const uint32_t k = s->classes->class_of[t];
    int64_t bytes = 0;
    for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
      memory->by_category[c][t] = s->by_category[c][k];
      bytes += s->by_category[c][k];
    }
    memory->not_always_live[t] = s->not_always_live[k];
    memory->always_live[t] = bytes - s->not_always_live[k];
    memory->peak_step[t] = s->peak_step[k];
    with_gaps[t] = s->peak[k] + s->always[k];
  }
}

static trm_status measure(trm_program *program, trm_expansions *expansions, trm_arena *arena,
                          trm_error *error) {
  const size_t all = (size_t)program->num_ipus * program->tiles_per_ipu;
  trm_tile_classes classes;
  TRY(allocate_memory(program, all, error));
  settle_variables(program);
  TRY(trm_tile_classes_find(program, arena, &classes, error));
  sweep s = {.program = program,
             .classes = &classes,
             .num_classes = classes.first[program->num_ipus],
             .expansions = expansions};
  expansions->classes = &classes;
  MAKE(expansions->by_tile, int64_t, program->tiles_per_ipu);
  int64_t *with_gaps;
  MAKE(with_gaps, int64_t, all);
  TRY(begin_sweeps(&s, arena, error));
  add_always(&s);
  int64_t max_total;
  find_peaks(&s, &max_total);
  TRY(note_categories(&s, arena, error));
  spread_to_tiles(&s, with_gaps);
  finish_tiles(program, with_gaps, max_total);
  add_up_load(program);
  return TRM_OK;
}

trm_status trm_program_measure(trm_program *program, trm_error *error) {
  trm_arena arena = {0};
  trm_expansions *expansions = ARENA_NEW(&arena, trm_expansions, 1);
  CHECK_MEMORY(expansions, "memory by tile");
  const trm_status status = measure(program, expansions, &arena, error);
  trm_expansions_free(expansions);
  trm_arena_free(&arena);
  return status;
}
