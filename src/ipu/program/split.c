/* Owns: cutting a program into shards, one for each IPU, which fit and of which none takes long.
 *
 * The computation with most of the work (the entry, or the body of a loop) is cut between layers
 * into runs of consecutive layers (units.c). The plan of the whole program tells what each run
 * would need (cuts.c). The best cut by that is estimated, what every IPU then needs corrects the
 * model, and where that promises a better cut, it is estimated too. The best cut is kept. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "ipu/program/change.h"
#include "ipu/program/cuts.h"
#include "ipu/program/draft.h"
#include "ipu/program/make_pipeline.h"
#include "ipu/program/units.h"
#include "ipu/target/target.h"
#include "passes/pass.h"

enum { MAX_SHARDS = TRM_MOST_PARTS, ROUNDS = 6, MOVES = 6, FEW_ROUNDS = 2 };
static const double A_HUNDREDTH = .01, A_TENTH = .1;
static const double SURE = .97; /* the model of cuts errs by some percent */

typedef struct splitter {
  const trm_program *program;
  const trm_module *module; /* the program's, or a changed copy */
  const trm_program_options *options;
  uint32_t num_shards;
  const trm_change *briefly; /* stop after a few estimates, or at the first that fits, or at once */
  const trm_change *pipeline; /* the shards are stages of this; NULL: of no pipeline */
  trm_unit_map row;
  trm_cut_model *model;
  double room; /* bytes of a fullest tile that fits, with the error of the estimate */
  trm_arena arena;
} splitter;

/* ---- Cuts ----------------------------------------------------------------------------------- */

static int32_t shard_of(const splitter *s, const uint32_t *cuts, trm_index i) {
  if (s->row.unit_of[i] == TRM_NO_UNIT) return -1;
  uint32_t shard = 0;
  while (shard + 1 < s->num_shards && cuts[shard + 1] <= (uint32_t)s->row.unit_of[i]) ++shard;
  return (int32_t)shard;
}

static trm_status place_shards(const splitter *s, const uint32_t *cuts, trm_module *module,
                               trm_error *error) {
  static const size_t room = 40;
  trm_computation *computation = &module->computations[s->row.computation];
  char *texts = ARENA_NEW(&module->arena, char, s->num_shards *room);
  CHECK_MEMORY(texts, "shards");
  for (uint32_t p = 0; p < s->num_shards; ++p) {
    snprintf(texts + p * room, room, "{maximal device=%u}", p);
  }
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const int32_t shard = shard_of(s, cuts, i);
    if (shard >= 0) computation->instructions[i].sharding = texts + (size_t)shard * room;
  }
  return TRM_OK;
}

static trm_status place_stages(const splitter *s, const uint32_t *cuts, trm_module *module,
                               uint32_t *out_states, trm_error *error) {
  const uint32_t count = module->computations[s->row.computation].num_instructions;
  int32_t *stages = ARENA_NEW(&module->arena, int32_t, (size_t)count + 1);
  CHECK_MEMORY(stages, "stages");
  for (trm_index i = 0; i < count; ++i) stages[i] = shard_of(s, cuts, i);
  trm_pipeline_request request = {.num_stages = s->num_shards,
                                  .mini_batches = s->pipeline->mini_batches,
                                  .schedule = s->pipeline->schedule,
                                  .offload = s->pipeline->offload,
                                  .stage = stages,
                                  .is_backward = s->row.is_backward,
                                  .is_update = s->row.is_weight_update,
                                  .updates = &s->row.updates};
  TRY(trm_program_make_pipeline(module, &request, error));
  *out_states = request.states;
  return TRM_OK;
}

static trm_status estimate_cuts(const splitter *s, const uint32_t *cuts, trm_program **out_program,
                                trm_error *error) {
  trm_module *module;
  TRY(trm_module_clone(s->module, &module, error));
  trm_program_options options = *s->options;
  uint32_t states = 0;
  trm_status status = s->pipeline == NULL ? place_shards(s, cuts, module, error)
                                          : place_stages(s, cuts, module, &states, error);
  options.num_ipus = s->num_shards;
  if (s->pipeline != NULL) options.inputs = NULL; /* others than the program's */
  if (status == TRM_OK) {
    status = trm_program_create_again(s->program, module, &options, out_program, error);
  }
  if (status == TRM_OK) {
    (*out_program)->owned_module = module;
    (*out_program)->updated_states = states;
  } else {
    trm_module_free(module);
  }
  return status;
}

static trm_status make_model(splitter *s, trm_error *error) {
  const trm_program_totals *totals = &s->program->totals;
  double *crossing = ARENA_NEW(&s->arena, double, (size_t)s->row.num_units + 1);
  CHECK_MEMORY(crossing, "shards");
  for (uint32_t u = 0; u < s->row.num_units; ++u) crossing[u] = s->row.units[u].crossing;
  s->room = (double)totals->bytes_per_tile * (double)totals->worst_tile_bytes /
            (double)trm_most(1, totals->worst_tile_bytes_high);
  const trm_unit_row row = {
      .computation = s->row.computation,
      .num_units = s->row.num_units,
      .unit_of = s->row.unit_of,
      .is_backward = s->row.is_backward,
      .is_untimed = s->pipeline == NULL ? NULL : s->row.is_weight_update,
      .crossing = crossing,
      .recomputes = s->pipeline != NULL && s->options->recompute,
      .takes_turns = s->pipeline != NULL && strcmp(s->pipeline->schedule, "Interleaved") == 0};
  return trm_cuts_create(s->program, &row, s->num_shards, &s->arena, &s->model, error);
}

/* The fullest tile of each IPU, and the cycles of its steps or, where the parts are stages, of its
 * stages. *out_cycles: the most of them; of stages those of a round. */
static void measure_parts(const splitter *s, const trm_program *program, trm_cut_needs *out,
                          double *out_cycles) {
  const trm_program_memory *m = &program->memory;
  const trm_pipeline *pipeline = &program->pipeline;
  const bool of_stages = s->pipeline != NULL && pipeline->present;
  trm_cut_needs by_ipu[MAX_SHARDS] = {{0, 0}};
  for (uint32_t t = 0; t < m->num_tiles; ++t) {
    const double bytes = (double)(m->always_live[t] + m->not_always_live[t] + m->gaps[t]);
    double *most = &by_ipu[t / program->tiles_per_ipu].bytes;
    if (bytes > *most) *most = bytes;
  }
  for (uint32_t i = 0; i < program->num_steps && !of_stages; ++i) {
    const trm_program_step *step = &program->steps[i];
    if (step->end != i + 1 || step->ipu < 0) continue;
    by_ipu[step->ipu].cycles += step->executions * (double)step->cycles;
  }
  *out_cycles = of_stages ? (double)pipeline->round_cycles : 0;
  for (uint32_t p = 0; p < s->num_shards; ++p) {
    out[p] = by_ipu[trm_program_ipu_of_shard(program, p)];
    if (!of_stages) *out_cycles = fmax(*out_cycles, out[p].cycles);
  }
  for (uint32_t e = 0; of_stages && e < pipeline->num_entries; ++e) {
    const uint32_t p = e < s->num_shards ? e : 2 * s->num_shards - 1 - e;
    out[p].cycles += (double)pipeline->stages[e].cycles;
  }
}

static trm_status note_cuts(const splitter *s, const uint32_t *cuts, trm_program *program,
                            trm_error *error) {
  trm_arena *arena = &program->arena;
  program->num_cuts = s->num_shards - 1;
  program->cuts = ARENA_NEW(arena, trm_program_cut, (size_t)program->num_cuts + 1);
  CHECK_MEMORY(program->cuts, "shards");
  for (uint32_t c = 0; c < program->num_cuts; ++c) {
    const trm_unit *after = &s->row.units[cuts[c + 1]], *before = after - 1;
    program->cuts[c] =
        (trm_program_cut){.before = trm_arena_string(arena, after->layer, after->layer_length),
                          .after = trm_arena_string(arena, before->layer, before->layer_length),
                          .bytes = (int64_t)after->crossing,
                          .ipu = trm_program_ipu_of_shard(program, c + 1)};
    if (program->cuts[c].before == NULL || program->cuts[c].after == NULL) {
      FAIL_NO_MEMORY("shards");
    }
  }
  return TRM_OK;
}

/* The results of the search so far. */
typedef struct found_cuts {
  trm_program *best;
  uint32_t best_cuts[MAX_SHARDS];
  trm_cut_needs best_parts[MAX_SHARDS];
  trm_cut_needs best_needs;
  uint32_t tried[ROUNDS + MOVES][MAX_SHARDS];
  uint32_t num_tried;
} found_cuts;

/* Whether cuts are better by more than such a share: of their bytes beyond the room or, where both
 * have as many, of their cycles. */
static bool is_better(const splitter *s, const found_cuts *found, trm_cut_needs needs,
                      double share) {
  if (found->best == NULL) return true;
  const double before = fmax(s->room, found->best_needs.bytes), now = fmax(s->room, needs.bytes);
  if (now < (1 - share) * before) return true;
  return now <= before && needs.cycles < (1 - share) * found->best_needs.cycles;
}

/* Estimates the program with these cuts and keeps it if it is the best one. *out_better: it is the
 * first, or better by a hundredth. */
static trm_status try_cuts(const splitter *s, const uint32_t *cuts, found_cuts *found,
                           bool *out_better, trm_error *error) {
  *out_better = false;
  for (uint32_t r = 0; r < found->num_tried; ++r) {
    if (memcmp(found->tried[r], cuts, s->num_shards * sizeof *cuts) == 0) return TRM_OK;
  }
  memcpy(found->tried[found->num_tried++], cuts, s->num_shards * sizeof *cuts);
  trm_program *program;
  TRY(estimate_cuts(s, cuts, &program, error));
  trm_cut_needs parts[MAX_SHARDS], needs = {.bytes = (double)program->totals.worst_tile_bytes};
  measure_parts(s, program, parts, &needs.cycles);
  trm_cuts_learn(s->model, s->num_shards, cuts, parts);
  *out_better = is_better(s, found, needs, A_HUNDREDTH);
  if (is_better(s, found, needs, 0)) {
    trm_program_free(found->best);
    found->best = program;
    found->best_needs = needs;
    memcpy(found->best_cuts, cuts, s->num_shards * sizeof *cuts);
    memcpy(found->best_parts, parts, sizeof parts);
  } else {
    trm_program_free(program);
  }
  return TRM_OK;
}

/* Moves a unit of the fullest shard, or of the longest if all fit, to a neighbour, first to the one
 * with more room. */
static trm_status move_a_unit(const splitter *s, found_cuts *found, bool *out_better,
                              trm_error *error) {
  const bool fits = found->best_needs.bytes <= s->room;
  double amounts[MAX_SHARDS];
  uint32_t most = 0;
  for (uint32_t p = 0; p < s->num_shards; ++p) {
    amounts[p] = fits ? found->best_parts[p].cycles : found->best_parts[p].bytes;
    if (amounts[p] > amounts[most]) most = p;
  }
  const bool has_before = most > 0, has_after = most + 1 < s->num_shards;
  const bool before_first = !has_after || (has_before && amounts[most - 1] < amounts[most + 1]);
  *out_better = false;
  for (int side = 0; side < 2 && !*out_better; ++side) {
    const bool before = (side == 0) == before_first;
    if (before ? !has_before : !has_after) continue;
    uint32_t cuts[MAX_SHARDS];
    memcpy(cuts, found->best_cuts, s->num_shards * sizeof *cuts);
    const uint32_t end = has_after ? cuts[most + 1] : s->row.num_units;
    if (end - cuts[most] < 2) continue;
    if (before) {
      ++cuts[most];
    } else {
      --cuts[most + 1];
    }
    TRY(try_cuts(s, cuts, found, out_better, error));
  }
  return TRM_OK;
}

/* Whether better cuts would not change a brief answer: shards fit, whose cycles add up, or the
 * program is far from fitting. */
static bool is_settled(const splitter *s, const trm_program_totals *totals) {
  if (totals->fits) return s->pipeline == NULL;
  return totals->worst_tile_bytes > totals->bytes_per_tile * 3 / 2;
}

static trm_status search(splitter *s, trm_program **out_program, trm_error *error) {
  found_cuts *found = ARENA_NEW(&s->arena, found_cuts, 1);
  CHECK_MEMORY(found, "shards");
  trm_status status = TRM_OK;
  const bool once = s->briefly != NULL && s->briefly->first_cut;
  const int rounds = once ? 1 : s->num_shards > 2 ? FEW_ROUNDS : ROUNDS;
  bool better = true;
  for (int round = 0; round < rounds && better; ++round) {
    const bool brief = s->briefly != NULL && round > 0;
    if (brief && is_settled(s, &found->best->totals)) break;
    uint32_t cuts[MAX_SHARDS];
    trm_cut_needs promised;
    TRY_OR_GOTO(trm_cuts_choose(s->model, s->num_shards, s->room, cuts, &promised, error), failed);
    const double share = brief && found->best->totals.fits ? A_TENTH : A_HUNDREDTH;
    if (!is_better(s, found, promised, share)) break;
    TRY_OR_GOTO(try_cuts(s, cuts, found, &better, error), failed);
  }
  better = s->briefly == NULL && s->num_shards == 2;
  while (better && found->num_tried + 2 <= ROUNDS + MOVES) {
    TRY_OR_GOTO(move_a_unit(s, found, &better, error), failed);
  }
  TRY_OR_GOTO(note_cuts(s, found->best_cuts, found->best, error), failed);
  *out_program = found->best;
  return TRM_OK;
failed:
  trm_program_free(found->best);
  return status;
}

static trm_status create_split(const trm_program *program, const trm_module *module,
                               const trm_program_options *options, uint32_t num_shards,
                               const trm_change *briefly, trm_program **out_program,
                               trm_error *error) {
  if (num_shards < 2 || num_shards > MAX_SHARDS) {
    FAIL(INVALID_ARGUMENT, "a program can be cut into 2 to %d shards, not %u", MAX_SHARDS,
         num_shards);
  }
  if (program->num_ipus > 1) {
    FAIL(FAILED_PRECONDITION, "the program uses %u IPUs already, as its own shards say",
         program->num_ipus);
  }
  splitter s = {.program = program,
                .module = module,
                .options = options,
                .num_shards = num_shards,
                .briefly = briefly,
                .pipeline = briefly != NULL && briefly->mini_batches > 0 ? briefly : NULL};
  trm_status status;
  TRY_OR_GOTO(trm_units_find(program, s.module, &s.arena, &s.row, error), done);
  if (s.row.num_units < num_shards) {
    FAIL_OR_GOTO(
        done, FAILED_PRECONDITION,
        "the program has %u layer%s in a row, too few for %u shards (a layer is a scope of "
        "TensorFlow's op names)",
        s.row.num_units, s.row.num_units == 1 ? "" : "s", num_shards);
  }
  TRY_OR_GOTO(make_model(&s, error), done);
  status = search(&s, out_program, error);
done:
  trm_arena_free(&s.arena);
  return status;
}

trm_status trm_program_create_split(const trm_program *program, uint32_t num_shards,
                                    trm_program **out_program, trm_error *error) {
  return create_split(program, program->module, &program->options, num_shards, NULL, out_program,
                      error);
}

trm_status trm_program_create_split_briefly(const trm_program *program, const trm_module *module,
                                            const trm_program_options *options,
                                            const trm_change *change, trm_program **out_program,
                                            trm_error *error) {
  return create_split(program, module, options, change->shards, change, out_program, error);
}

trm_status trm_program_most_shards(const trm_program *program, uint32_t *out_count,
                                   trm_error *error) {
  *out_count = 1;
  if (program->num_ipus > 1) return TRM_OK;
  splitter s = {.program = program, .module = program->module};
  const trm_status status = trm_units_find(program, s.module, &s.arena, &s.row, error);
  *out_count = s.row.num_units < MAX_SHARDS ? s.row.num_units : MAX_SHARDS;
  trm_arena_free(&s.arena);
  return status;
}

static trm_status find_promising(splitter *s, uint32_t most, uint32_t *out_shards,
                                 double *out_bytes, trm_error *error) {
  const trm_program_totals *totals = &s->program->totals;
  const double tile = (double)totals->bytes_per_tile;
  uint32_t cuts[MAX_SHARDS] = {0}, shards = 2;
  while (2 * shards <= most && (double)totals->worst_tile_bytes / shards > tile) shards *= 2;
  s->num_shards = shards; /* fewer than even shards: hardly */
  TRY(trm_units_find(s->program, s->module, &s->arena, &s->row, error));
  TRY(make_model(s, error));
  *out_bytes = INFINITY;
  for (;; shards *= 2) {
    trm_cut_needs promised;
    TRY(trm_cuts_choose(s->model, shards, s->room, cuts, &promised, error));
    if (promised.bytes < SURE * *out_bytes) { /* else more shards hardly help */
      *out_shards = shards;
      *out_bytes = promised.bytes;
    }
    if (promised.bytes <= SURE * tile || 2 * shards > most) return TRM_OK;
  }
}

trm_status trm_program_promising_shards(const trm_program *program, uint32_t most,
                                        uint32_t *out_shards, double *out_bytes, trm_error *error) {
  splitter s = {.program = program, .module = program->module, .options = &program->options};
  const trm_status status = find_promising(&s, most, out_shards, out_bytes, error);
  trm_arena_free(&s.arena);
  return status;
}

bool trm_program_cut_get(const trm_program *program, size_t i, trm_program_cut *out_cut) {
  if (i >= program->num_cuts) return false;
  return TRM_GIVE(out_cut, program->cuts[i]);
}
