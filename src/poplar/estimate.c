/* Owns: what a user op costs on an IPU. A Poplar operator: its compute sets, copies and library
 * steps, one after the other, with the tiles that its graph states.
 *
 * A tile shares its vertices out to six workers, which take turns: it takes six times the cycles of
 * the fullest worker. Edges and copies move the bytes that do not lie on their tile. A library step
 * takes what the estimate of its module says. docs/custom_operators.md has the formulas. */
#include <string.h>

#include "base/integers.h"
#include "hlo/config.h"
#include "ipu/tile/exchange.h"
#include "poplar/build.h"
#include "poplar/profile.h"
#include "tremula/program.h"

/* The cycles of a vertex that nothing estimates: those of a call, and a load, an operation and a
 * store with their loop for each element. */
enum { WORKERS = 6, DEFAULT_CALL = 20, DEFAULT_ELEMENT = 4 };

typedef struct estimate {
  const trm_tile_request *request;
  trm_tile_cost *cost;
  const trm_poplar_plan *plan;
  const trm_poplar_core *core;
  uint32_t tiles;
  int64_t repeats;               /* of the loops around */
  int64_t *in, *out, *messages;  /* by tile, of the exchange that is summed up */
  int64_t *loads, *next, *bytes; /* by worker of a tile; by tile: its next worker; its memory */
  uint64_t unknown;              /* vertices without an estimate */
  bool has_open_loop, has_branches;
} estimate;

/* ---- Exchange ------------------------------------------------------------------------------- */

static void move(estimate *e, uint32_t from, uint32_t to, int64_t bytes) {
  if (from == to || from == TRM_POPLAR_NO_TILE || to == TRM_POPLAR_NO_TILE) return;
  e->out[from] += bytes;
  e->in[to] += bytes;
  ++e->messages[to];
}

/* Adds the exchange that was summed up, and begins another. */
static trm_status add_exchange(estimate *e, const char *name, trm_error *error) {
  int64_t in_worst = 0, out_worst = 0, total = 0, messages = 0;
  for (uint32_t t = 0; t < e->tiles; ++t) {
    in_worst = trm_most(in_worst, e->in[t]);
    out_worst = trm_most(out_worst, e->out[t]);
    messages = trm_most(messages, e->messages[t]);
    total += e->in[t];
    e->in[t] = e->out[t] = e->messages[t] = 0;
  }
  const size_t before = e->cost->phases.count;
  TRY(trm_tile_add_exchange(e->request, e->cost, name, in_worst, total, out_worst, messages,
                            error));
  if (e->cost->phases.count > before) e->cost->phases.items[before].repeats = e->repeats;
  return TRM_OK;
}

/* The elements of a run on one tile from element i on; *out_tile is that. */
static uint64_t piece_of(const trm_poplar_core *core, const trm_poplar_run *run, uint64_t i,
                         uint32_t *out_tile) {
  const uint64_t at = (uint64_t)(run->offset + (int64_t)i * run->stride);
  uint64_t end;
  *out_tile = trm_poplar_tile_at(&core->variables.items[run->variable], at, &end);
  const uint64_t left = run->length - i;
  return run->stride == 1 && end - at < left ? end - at : run->stride == 1 ? left : 1;
}

/* An edge of a vertex on a tile. */
static void move_edge(estimate *e, const trm_poplar_tensor *tensor, uint32_t tile, bool is_output) {
  const int64_t size = (int64_t)trm_tile_dtype_bytes(tensor->dtype);
  EACH_RUN(run, tensor) {
    for (uint64_t i = 0, taken; i < run->length; i += taken) {
      uint32_t other;
      taken = piece_of(e->core, run, i, &other);
      move(e, is_output ? tile : other, is_output ? other : tile, (int64_t)taken * size);
    }
  }
}

static trm_status add_copy(estimate *e, const trm_poplar_program *program, trm_error *error) {
  const trm_poplar_tensor *from = program->tensors[0], *to = program->tensors[1];
  const int64_t size = (int64_t)trm_tile_dtype_bytes(from->dtype);
  uint64_t f = 0, t = 0, in_from = 0, in_to = 0;
  while (f < from->num_runs && t < to->num_runs) {
    uint32_t source, target;
    const uint64_t left = piece_of(e->core, &from->runs[f], in_from, &source);
    const uint64_t room = piece_of(e->core, &to->runs[t], in_to, &target);
    const uint64_t taken = left < room ? left : room;
    move(e, source, target, (int64_t)taken * size);
    in_from += taken;
    in_to += taken;
    if (in_from == from->runs[f].length) ++f, in_from = 0;
    if (in_to == to->runs[t].length) ++t, in_to = 0;
  }
  return add_exchange(e, "Copy", error);
}

/* ---- Compute sets --------------------------------------------------------------------------- */

/* The cycles of a worker for a vertex, and its operations. */
static uint64_t cycles_of(estimate *e, const trm_poplar_vertex *vertex, uint64_t *out_flops) {
  uint64_t cycles;
  if (trm_poplar_estimate_vertex(e->core, vertex, &cycles, out_flops)) return cycles;
  uint64_t elements = 0;
  VECTOR_EACH(const trm_poplar_binding, one, vertex->bindings) {
    if (one->tensor != NULL && one->tensor->elements > elements) elements = one->tensor->elements;
  }
  ++e->unknown;
  return DEFAULT_CALL + DEFAULT_ELEMENT * elements;
}

static uint32_t state_bytes(const trm_codelet_vertex *codelet) {
  uint32_t bytes = 0;
  for (uint32_t f = 0; f < codelet->num_fields; ++f) bytes += codelet->fields[f].ipu_bytes;
  return (bytes + 3) & ~3u;
}

/* Counts a vertex in the phase's groups; the last one takes all that have no group. */
static void count_vertex(trm_phase *phase, const trm_codelet_vertex *codelet, trm_arena *arena) {
  uint32_t g = 0;
  while (g < phase->num_groups && strcmp(phase->groups[g].codelet, codelet->name) != 0) ++g;
  if (g == phase->num_groups && g < TRM_MAX_VERTEX_GROUPS) {
    const char *name = trm_arena_format(arena, "%s", codelet->name);
    phase->groups[g] = (trm_vertex_group){.codelet = name != NULL ? name : "custom",
                                          .state_bytes = state_bytes(codelet),
                                          .code_bytes = codelet->code_bytes};
    ++phase->num_groups;
  }
  if (g == TRM_MAX_VERTEX_GROUPS) --g;
  ++phase->groups[g].count;
}

/* Gives the cycles of a vertex to a worker of its tile, or to all. */
static void load(estimate *e, const trm_poplar_vertex *vertex, uint64_t cycles) {
  int64_t *loads = &e->loads[(size_t)vertex->tile * WORKERS];
  const int64_t taken = cycles < INT64_MAX / 64 ? (int64_t)cycles : INT64_MAX / 64;
  for (uint32_t w = 0; w < WORKERS && vertex->codelet->workers > 1; ++w) loads[w] += taken;
  if (vertex->codelet->workers <= 1) loads[e->next[vertex->tile]++ % WORKERS] += taken;
}

/* The cycles of the slowest tile and of all; begins other loads. */
static void sum_loads(estimate *e, trm_phase *phase) {
  double all = 0;
  for (uint32_t t = 0; t < e->tiles; ++t) {
    int64_t worst = 0;
    for (uint32_t w = 0; w < WORKERS; ++w) {
      worst = trm_most(worst, e->loads[(size_t)t * WORKERS + w]);
      e->loads[(size_t)t * WORKERS + w] = 0;
    }
    phase->active_tiles += worst > 0;
    phase->cycles = trm_most(phase->cycles, worst * WORKERS);
    all += (double)worst * WORKERS;
    e->next[t] = 0;
  }
  phase->cycles_mean = all / e->tiles;
  for (uint32_t g = 0; g < phase->num_groups; ++g) phase->groups[g].cycles = phase->cycles;
}

static void move_edges(estimate *e, const trm_poplar_compute_set *set, bool outputs,
                       int64_t *edges) {
  for (size_t v = 0; v < set->vertices.count; ++v) {
    const trm_poplar_vertex *vertex = &e->core->vertices.items[set->vertices.items[v]];
    VECTOR_EACH(const trm_poplar_binding, one, vertex->bindings) {
      const uint8_t direction = vertex->codelet->fields[one->field].direction;
      const uint8_t wanted = outputs ? TRM_CODELET_OUTPUT : TRM_CODELET_INPUT;
      if (one->tensor == NULL) continue;
      *edges += !outputs;
      if ((direction & wanted) != 0) move_edge(e, one->tensor, vertex->tile, outputs);
    }
  }
}

static trm_status add_set(estimate *e, uint64_t number, trm_error *error) {
  const trm_poplar_compute_set *set = &e->core->compute_sets.items[number];
  const char *prefix = e->request->instruction->name, *name = set->name;
  const size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) == 0 && name[length] == '/') name += length + 1;
  name = trm_arena_format(e->cost->arena, "%s", name);
  CHECK_MEMORY(name, "a cost");
  trm_phase phase = {.kind = TRM_PHASE_COMPUTE, .name = name, .repeats = e->repeats};
  move_edges(e, set, false, &phase.edges);
  TRY(add_exchange(e, "ExchangePre", error));
  for (size_t v = 0; v < set->vertices.count; ++v) {
    const trm_poplar_vertex *vertex = &e->core->vertices.items[set->vertices.items[v]];
    uint64_t flops;
    load(e, vertex, cycles_of(e, vertex, &flops));
    phase.flops += (int64_t)flops;
    count_vertex(&phase, vertex->codelet, e->cost->arena);
  }
  sum_loads(e, &phase);
  TRY(trm_tile_cost_add(e->cost, &phase, error));
  move_edges(e, set, true, &phase.edges);
  return add_exchange(e, "ExchangePost", error);
}

/* ---- Library steps -------------------------------------------------------------------------- */

static trm_status add_step(estimate *e, const trm_poplar_program *program, trm_error *error) {
  const trm_poplar_step *step = e->core->steps.items[program->number];
  trm_program *inner;
  trm_program_totals totals = {.size = sizeof totals};
  TRY(trm_program_create_for_executable(step->executable, e->request->target, NULL, &inner, error));
  (void)trm_program_get_totals(inner, &totals);
  trm_program_free(inner);
  const char *codelet =
      trm_arena_format(e->cost->arena, "%s", trm_executable_name(step->executable));
  const char *last = strrchr(step->name, '/');
  last = last == NULL ? step->name : last + 1;
  const char *name = *last == '\0' ? codelet : trm_arena_format(e->cost->arena, "%s", last);
  if (name == NULL || codelet == NULL) FAIL_NO_MEMORY("a cost");
  const trm_phase exchange = {.kind = TRM_PHASE_EXCHANGE,
                              .name = name,
                              .repeats = e->repeats,
                              .cycles = totals.exchange_cycles,
                              .active_tiles = e->tiles};
  trm_phase compute = {.kind = TRM_PHASE_COMPUTE,
                       .name = name,
                       .repeats = e->repeats,
                       .cycles = totals.compute_cycles + totals.copy_cycles,
                       .flops = totals.flops,
                       .edges = totals.num_edges,
                       .active_tiles = e->tiles,
                       .num_groups = 1};
  compute.cycles_mean = (double)compute.cycles * totals.tile_balance;
  compute.groups[0] = (trm_vertex_group){
      .codelet = codelet, .count = totals.num_vertices, .cycles = compute.cycles};
  if (exchange.cycles > 0) TRY(trm_tile_cost_add(e->cost, &exchange, error));
  return trm_tile_cost_add(e->cost, &compute, error);
}

/* ---- Programs ------------------------------------------------------------------------------- */

static trm_status add_program(estimate *e, const trm_poplar_program *program, trm_error *error) {
  if (program == NULL) return TRM_OK;
  const int64_t around = e->repeats;
  switch (program->kind) {
    case TRM_POPLAR_EXECUTE: return add_set(e, program->number, error);
    case TRM_POPLAR_COPY: return add_copy(e, program, error);
    case TRM_POPLAR_STEP: return add_step(e, program, error);
    case TRM_POPLAR_REPEAT:
      if (program->number == 0) return TRM_OK;
      if (program->number < (uint64_t)(INT64_MAX / 1024 / around)) {
        e->repeats *= (int64_t)program->number;
      }
      break;
    case TRM_POPLAR_WHILE: e->has_open_loop = true; break;
    case TRM_POPLAR_IF:
    case TRM_POPLAR_SWITCH: e->has_branches = true; break;
    default: break;
  }
  for (size_t c = 0; c < program->children.count; ++c) {
    TRY(add_program(e, program->children.items[c], error));
  }
  e->repeats = around;
  return TRM_OK;
}

/* The memory of the graph's own variables, while the operation runs. */
static void add_memory(estimate *e) {
  for (uint32_t v = 0; v < e->plan->num_variables; ++v) {
    const trm_poplar_variable *variable = &e->core->variables.items[v];
    if (e->plan->places[v] == SIZE_MAX && !variable->is_constant)
      continue; /* an operand, a result */
    const int64_t size = (int64_t)trm_tile_dtype_bytes(variable->dtype);
    VECTOR_EACH(const trm_poplar_placed, one, variable->places) {
      e->bytes[one->tile] += (int64_t)(one->end - one->begin) * size;
    }
  }
  for (uint32_t t = 0; t < e->tiles; ++t) {
    e->cost->temporary_worst = trm_most(e->cost->temporary_worst, e->bytes[t]);
    e->cost->temporary_total += e->bytes[t];
  }
}

static trm_status write_note(estimate *e, trm_error *error) {
  if (e->unknown == 0 && !e->has_open_loop && !e->has_branches) return TRM_OK;
  char vertices[160];
  snprintf(vertices, sizeof vertices,
           " %llu vertices have no estimate: each counts as %d cycles and %d for each element of "
           "its largest edge;",
           (unsigned long long)e->unknown, DEFAULT_CALL, DEFAULT_ELEMENT);
  e->cost->note =
      trm_arena_format(e->cost->arena, "%s%s%s", e->unknown > 0 ? vertices : "",
                       e->has_open_loop ? " a loop whose end is computed counts once;" : "",
                       e->has_branches ? " all branches of a condition are counted;" : "");
  CHECK_MEMORY(e->cost->note, "a cost");
  return TRM_OK;
}

trm_status trm_poplar_estimate(const trm_tile_request *request, const trm_poplar_plan *plan,
                               const trm_poplar_program *program, trm_tile_cost *cost,
                               trm_error *error) {
  const trm_poplar_core *core = plan->graph->core;
  const uint32_t tiles = core->num_ipus * core->tiles_per_ipu;
  estimate e = {
      .request = request, .cost = cost, .plan = plan, .core = core, .tiles = tiles, .repeats = 1};
  e.in = ARENA_NEW(cost->arena, int64_t, (size_t)tiles * (5 + WORKERS));
  CHECK_MEMORY(e.in, "a cost");
  e.out = e.in + tiles;
  e.messages = e.out + tiles;
  e.next = e.messages + tiles;
  e.bytes = e.next + tiles;
  e.loads = e.bytes + tiles;
  TRY(add_program(&e, program, error));
  add_memory(&e);
  return write_note(&e, error);
}

static trm_status estimate_operator(const trm_tile_request *request, const trm_poplar_plan *plan,
                                    trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  for (uint32_t i = 0; i < plan->num_inputs; ++i) {
    const int32_t output = plan->input_ports[i].output;
    if (output >= 0 && (uint32_t)output < cost->num_results && i < request->num_operands) {
      cost->results[output].in_place = (int32_t)i;
      cost->results[output].mapping = request->operands[i].mapping;
    }
  }
  TRY(trm_poplar_estimate(request, plan, plan->program, cost, error));
  if (cost->note == NULL) return TRM_OK;
  cost->note = trm_arena_format(cost->arena, "is a Poplar operator:%s", cost->note);
  CHECK_MEMORY(cost->note, "a cost");
  return TRM_OK;
}

trm_status trm_tile_user_op(const trm_tile_request *request, trm_tile_cost *cost,
                            trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  if (trm_config_is(instruction, "callback", JSON_TRUE)) {
    return trm_tile_transfer(request, cost, error); /* calls a function of the host */
  }
  if (!trm_poplar_is_operator(instruction)) return TRM_OK; /* nothing is known of it */
  trm_poplar_built *built;
  TRY(trm_poplar_built_take(request->module, request->computation, instruction, &built, error));
  const trm_status status = estimate_operator(request, built->plan, cost, error);
  trm_poplar_built_release(built);
  return status;
}
