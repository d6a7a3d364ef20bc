/* Owns: the search for what makes a program fit: each change alone, changes together (those with
 * the fewest cycles first), and the smallest number of IPUs. All of it is planned. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cycles.h"
#include "base/sized.h"
#include "ipu/plan/plan.h"
#include "ipu/program/advice.h"
#include "ipu/program/cuts.h"
#include "ipu/program/draft.h"
#include "ipu/program/make_pipeline.h"

enum { MOST_SINGLES = 6, MOST_TOGETHER = 6, MOST_SMALLEST = 8, MINI_BATCHES = 2 };
enum { MOST_IN_PIPELINES = 20000 }; /* instructions: more take minutes */

/* A planned change: what it leaves of the fullest tile's bytes and of the cycles, as factors. */
typedef struct effect {
  trm_change change;
  double bytes, cycles;
} effect;

/* The fewest IPUs that fit with a change; `ipus` is 0 if none of those tried does. */
typedef struct fewest {
  char with[TRM_CHANGE_TEXT];
  uint32_t ipus, most_tried;
  uint32_t nearest; /* while none fits: the number whose fullest tile is least full */
  int64_t worst_tile_bytes, cycles; /* of `ipus`, or without one of `nearest` */
  char fullest[160];                /* the layer with which the fullest shard begins */
  uint32_t mini_batches;            /* of a pipeline; 0: of none */
  const char *schedule;
  bool offloads;
  trm_program_cut *cuts; /* ipus - 1 of them */
} fewest;

struct trm_program_search {
  trm_advice_list advice;
  fewest smallest[MOST_SMALLEST]; /* by sharding alone, with changes that keep the numbers, in
                                     float16; by pipelines */
  size_t num_smallest;
  trm_arena arena; /* of the cuts */
  bool stopped;
};

typedef struct searcher {
  const trm_program *program;
  trm_change possible;
  bool (*progress)(void *context, uint32_t plans);
  void *context;
  uint32_t plans;
  bool stopped;
  effect singles[MOST_SINGLES];
  size_t num_singles;
  char fullest[160];     /* of the last plan: the layer with which the fullest shard begins */
  trm_program_cut *cuts; /* of the last plan */
  trm_program_search *found;
} searcher;

/* ---- One plan -------------------------------------------------------------------------------- */

/* A copy of a plan's cuts, which live as long as the search. */
static trm_status keep_cuts(searcher *s, const trm_program *program, trm_error *error) {
  trm_arena *arena = &s->found->arena;
  s->cuts = ARENA_NEW(arena, trm_program_cut, (size_t)program->num_cuts + 1);
  CHECK_MEMORY(s->cuts, "cuts");
  for (uint32_t c = 0; c < program->num_cuts; ++c) {
    const trm_program_cut *cut = &program->cuts[c];
    s->cuts[c] =
        (trm_program_cut){.before = trm_arena_string(arena, cut->before, strlen(cut->before)),
                          .after = trm_arena_string(arena, cut->after, strlen(cut->after)),
                          .bytes = cut->bytes,
                          .ipu = cut->ipu};
    if (s->cuts[c].before == NULL || s->cuts[c].after == NULL) FAIL_NO_MEMORY("cuts");
  }
  return TRM_OK;
}

/* The most bytes of a tile with what the update of a pipeline needs besides when TensorFlow lowers
 * it: the sum of a gradient once as it is and once in the weight's place on the tiles, and new
 * values beside the old ones. Of the largest weight of each IPU, at a time when only what lives
 * beyond the loop over mini-batches is there. Pipelines of test_plan_stages.py's network, as they
 * were lowered, needed at most what this gives. */
static int64_t worst_with_update(const trm_program *pipeline) {
  const trm_program_memory *m = &pipeline->memory;
  const uint32_t loop_end = pipeline->steps[pipeline->pipeline.loop_step].end;
  int64_t largest[TRM_MOST_PARTS] = {0}, stays[TRM_MOST_PARTS] = {0};
  int64_t most = pipeline->totals.worst_tile_bytes;
  for (uint32_t v = 0; v < pipeline->num_variables; ++v) {
    const trm_program_variable *o = &pipeline->variables[v];
    if (o->mapping.kind == TRM_MAPPING_NONE) continue;
    const uint32_t ipu = o->mapping.ipu;
    if (o->is_weight) largest[ipu] = trm_most(largest[ipu], o->worst_bytes);
    if (!o->always_live && o->live.begin < loop_end && o->live.end > loop_end) {
      stays[ipu] += o->worst_bytes;
    }
  }
  for (uint32_t t = 0; t < m->num_tiles; ++t) {
    const uint32_t ipu = t / pipeline->tiles_per_ipu;
    const int64_t at_peak = m->peak_step[t] < loop_end ? stays[ipu] : m->not_always_live[t];
    const int64_t copies = (2 + (int64_t)pipeline->updated_states) * largest[ipu];
    most = trm_most(most, m->always_live[t] + m->gaps[t] + at_peak + copies);
  }
  return most;
}

/* Plans a change. *out_totals.size is 0 where there is no plan: the search was stopped, or the
 * program has too few layers. */
static trm_status plan(searcher *s, const trm_change *change, bool keep,
                       trm_program_totals *out_totals, trm_error *error) {
  memset(out_totals, 0, sizeof *out_totals);
  if (s->progress != NULL && !s->progress(s->context, s->plans)) s->stopped = true;
  if (s->stopped) return TRM_OK;
  trm_program *changed;
  TRY(trm_change_plan(s->program, change, &changed, error));
  ++s->plans;
  if (changed == NULL) return TRM_OK;
  *out_totals = changed->totals;
  if (changed->updated_states > 0) out_totals->worst_tile_bytes = worst_with_update(changed);
  out_totals->fits = out_totals->worst_tile_bytes <= out_totals->bytes_per_tile;
  out_totals->size = sizeof *out_totals;
  trm_status added = TRM_OK;
  if (keep) {
    added = trm_advice_add_planned(s->program, change, changed, &s->found->advice, error);
  }
  const uint32_t ipu = changed->totals.worst_tile / changed->tiles_per_ipu;
  s->fullest[0] = '\0';
  for (uint32_t c = 0; c < changed->num_cuts; ++c) {
    if (changed->cuts[c].ipu != ipu) continue;
    snprintf(s->fullest, sizeof s->fullest, "%s", changed->cuts[c].before);
  }
  if (added == TRM_OK && out_totals->fits) added = keep_cuts(s, changed, error);
  trm_program_free(changed);
  return added;
}

/* ---- Changes alone --------------------------------------------------------------------------- */

static trm_status try_single(searcher *s, trm_change change, bool *out_fits, trm_error *error) {
  trm_program_totals totals;
  TRY(plan(s, &change, true, &totals, error));
  *out_fits = totals.size > 0 && totals.fits;
  if (totals.size == 0 || s->num_singles == MOST_SINGLES) return TRM_OK;
  const trm_program_totals *before = &s->program->totals;
  const effect e = {change, (double)totals.worst_tile_bytes / (double)before->worst_tile_bytes,
                    (double)totals.cycles / (double)trm_most(1, before->cycles)};
  if (e.bytes < 1) s->singles[s->num_singles++] = e;
  return TRM_OK;
}

static trm_status try_singles(searcher *s, trm_error *error) {
  static const double proportions[] = {0.3, 0.1};
  bool fits = false;
  if (s->possible.half) TRY(try_single(s, (trm_change){.half = true}, &fits, error));
  if (s->possible.recompute) TRY(try_single(s, (trm_change){.recompute = true}, &fits, error));
  if (s->possible.offload) TRY(try_single(s, (trm_change){.offload = true}, &fits, error));
  fits = false;
  for (size_t p = 0; p < 2 && !fits; ++p) { /* the larger one, if that is enough */
    if (proportions[p] >= s->possible.proportion) continue;
    if (!trm_plan_cache_exceeds(s->program->plans, s->program->target, proportions[p])) continue;
    TRY(try_single(s, (trm_change){.proportion = proportions[p]}, &fits, error));
  }
  return TRM_OK;
}

/* ---- Changes together ------------------------------------------------------------------------ */

/* Both changes; false if they contradict one another, such as two proportions. */
static bool join(trm_change *to, const trm_change *from) {
  if (to->proportion > 0 && from->proportion > 0) return false;
  to->half |= from->half;
  to->recompute |= from->recompute;
  to->offload |= from->offload;
  to->proportion += from->proportion;
  return true;
}

static int by_cycles(const void *a, const void *b) {
  const effect *l = a, *r = b;
  return (l->cycles > r->cycles) - (l->cycles < r->cycles);
}

/* Predicts every combination by multiplying factors, and plans those that may fit until one does,
 * beginning with the fewest cycles. */
static trm_status try_together(searcher *s, trm_error *error) {
  effect all[1 << MOST_SINGLES];
  size_t count = 0;
  const double limit =
      (double)s->program->totals.bytes_per_tile / (double)s->program->totals.worst_tile_bytes;
  for (uint32_t set = 1; set < 1u << s->num_singles; ++set) {
    effect e = {.bytes = 1, .cycles = 1};
    bool good = (set & (set - 1)) != 0; /* more than one */
    for (size_t i = 0; i < s->num_singles && good; ++i) {
      if (!(set & 1u << i)) continue;
      good = join(&e.change, &s->singles[i].change);
      e.bytes *= s->singles[i].bytes;
      e.cycles *= s->singles[i].cycles;
    }
    if (good && e.bytes <= 1.15 * limit) all[count++] = e;
  }
  qsort(all, count, sizeof *all, by_cycles);
  for (size_t i = 0; i < count && i < MOST_TOGETHER; ++i) {
    trm_program_totals totals;
    TRY(plan(s, &all[i].change, true, &totals, error));
    if (totals.size > 0 && totals.fits) break;
  }
  return TRM_OK;
}

/* ---- The smallest number of IPUs ------------------------------------------------------------- */

/* Plans a change over `shards` IPUs. *out_fits is false too where there is no plan. */
static trm_status try_shards(searcher *s, trm_change change, uint32_t shards, fewest *best,
                             bool *out_fits, trm_error *error) {
  trm_program_totals totals;
  change.shards = shards;
  if (change.mini_batches > 0) change.mini_batches = MINI_BATCHES * shards;
  TRY(plan(s, &change, false, &totals, error));
  *out_fits = totals.size > 0 && totals.fits;
  if (totals.size == 0) return TRM_OK;
  if (shards > best->most_tried) best->most_tried = shards;
  if (*out_fits) best->ipus = shards;
  const bool is_nearest =
      best->ipus == 0 && (best->nearest == 0 || totals.worst_tile_bytes < best->worst_tile_bytes);
  if (*out_fits || is_nearest) {
    best->nearest = *out_fits ? 0 : shards;
    best->cycles = totals.cycles;
    best->worst_tile_bytes = totals.worst_tile_bytes;
    if (change.mini_batches > 0) best->cycles /= change.mini_batches;
    best->mini_batches = change.mini_batches;
    memcpy(best->fullest, s->fullest, sizeof best->fullest);
    best->cuts = *out_fits ? s->cuts : NULL;
  }
  return TRM_OK;
}

/* Finds the fewest shards that fit with a change: from `even`, which an even cut would need, up to
 * the most, then between the first that fits and the last that does not, or else `too_few`. Of
 * pipelines the most may need more than fewer do, as each stage keeps a batch for all later ones.
 */
static trm_status find_smallest(searcher *s, trm_change change, double even, uint32_t too_few,
                                trm_error *error) {
  const trm_program_totals *now = &s->program->totals;
  const uint32_t most = s->possible.shards;
  fewest best = {.schedule = change.schedule, .offloads = change.offload};
  if (s->found->num_smallest == MOST_SMALLEST) return TRM_OK;
  trm_change_text(&change, best.with);
  uint32_t low = 1, next = even < 2 ? 2 : even > most ? most : (uint32_t)even; /* low: too few */
  bool fits = false;
  for (int tried = 1; !s->stopped; ++tried) {
    TRY(try_shards(s, change, next, &best, &fits, error));
    if (fits || next == most) break;
    low = next;
    const bool grows = tried == 1 || change.mini_batches > 0;
    next = grows ? (uint32_t)trm_least(most, next + trm_most(1, next / 2)) : most;
  }
  if (fits && low == 1 && too_few > 1) low = too_few;
  while (fits && best.ipus - low > 1 && !s->stopped) {
    bool fits_too;
    next = low + (best.ipus - low) / 2;
    TRY(try_shards(s, change, next, &best, &fits_too, error));
    if (!fits_too) low = next;
  }
  if (best.most_tried > 0) s->found->smallest[s->found->num_smallest++] = best;
  if (best.ipus == 0) return TRM_OK;
  trm_advice advice = {.worst_tile_bytes = best.worst_tile_bytes,
                       .saved = now->worst_tile_bytes - best.worst_tile_bytes,
                       .fits = true,
                       .is_planned = true,
                       .num_ipus = best.ipus,
                       .cycles = best.cycles};
  change.shards = best.ipus;
  change.mini_batches = best.mini_batches;
  trm_change_text(&change, advice.text);
  if (!VECTOR_PUSH(&s->found->advice, advice)) FAIL_NO_MEMORY("advice");
  return TRM_OK;
}

/* Of a program that fills so many tiles. Fewer than an even cut: hardly. */
static trm_status find_shards(searcher *s, trm_change change, double tiles, trm_error *error) {
  const double even = fmin(s->possible.shards, fmax(2, ceil(tiles)));
  return find_smallest(s, change, even, even > 3 ? (uint32_t)even - 2 : 1, error);
}

/* By sharding alone, with all changes besides that help and keep the numbers, and in float16. Stops
 * where no fewer are possible. */
static trm_status try_shardings(searcher *s, trm_error *error) {
  const trm_program_totals *now = &s->program->totals;
  const double tiles = (double)now->worst_tile_bytes / (double)now->bytes_per_tile;
  if (s->possible.shards < 2) return TRM_OK;
  effect together = {.bytes = 1};
  TRY(find_shards(s, together.change, tiles, error));
  for (int halves = 0; halves < 2; ++halves) {
    const double before = together.bytes;
    for (size_t i = 0; i < s->num_singles; ++i) {
      const effect *e = &s->singles[i];
      if (e->change.half != (halves == 1) || e->bytes > 0.98) continue;
      if (join(&together.change, &e->change)) together.bytes *= e->bytes;
    }
    const size_t known = s->found->num_smallest;
    if (known > 0 && s->found->smallest[known - 1].ipus == 2) break;
    if (together.bytes < before) {
      TRY(find_shards(s, together.change, tiles * together.bytes, error));
    }
  }
  return TRM_OK;
}

/* The fewest IPUs among the answers so far; 0: there is none. */
static uint32_t fewest_so_far(const searcher *s) {
  uint32_t found = 0;
  for (size_t i = 0; i < s->found->num_smallest; ++i) {
    const uint32_t ipus = s->found->smallest[i].ipus;
    if (ipus > 0 && (found == 0 || ipus < found)) found = ipus;
  }
  return found;
}

/* Pipelines keep more than shards, so they begin with as many IPUs as those need, and are not tried
 * where no number of shards is enough. Each has what the one before has, and something more that
 * leaves room: fewer stashed batches, recomputation, optimizer state in remote memory. */
static trm_status try_pipelines(searcher *s, trm_error *error) {
  const trm_module *module = s->program->module;
  const uint32_t fewest_shards = fewest_so_far(s);
  const uint32_t size = module->computations[module->entry].num_instructions;
  if (size > MOST_IN_PIPELINES) return TRM_OK;
  if (fewest_shards == 0 || !trm_program_can_be_pipeline(s->program, module)) return TRM_OK;
  const bool trains = module->num_aliases > 0;
  trm_change change = {.mini_batches = MINI_BATCHES, .schedule = "Grouped"};
  uint32_t before = 0;
  for (int kind = 0; kind < (trains ? 4 : 1) && !s->stopped; ++kind) {
    if (kind == 1) change.recompute = true;
    if (kind == 2) change.schedule = "Interleaved";
    if (kind == 3) change.offload = true;
    if (kind == 3 && s->program->options.ipu_model) break; /* which has no remote memory */
    const size_t known = s->found->num_smallest;
    TRY(find_smallest(s, change, before > 0 ? before : fewest_shards,
                      fewest_shards > 3 ? fewest_shards - 2 : 1, error));
    if (s->found->num_smallest == known) break;
    const uint32_t ipus = s->found->smallest[known].ipus;
    if (before > 0 && ipus >= before) { /* it gains nothing */
      s->found->num_smallest = known;
      --s->found->advice.count;
    } else if (ipus > 0) {
      before = ipus;
    }
    if (before > 0 && before <= fewest_shards) break; /* none needs fewer */
  }
  return TRM_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

trm_status trm_program_search_fit(const trm_program *program,
                                  bool (*progress)(void *context, uint32_t plans), void *context,
                                  trm_program_search **out_search, trm_error *error) {
  trm_program_search *found = trm_allocate_zeroed(1, sizeof *found);
  CHECK_MEMORY(found, "a search");
  searcher s = {.program = program, .progress = progress, .context = context, .found = found};
  trm_status status = trm_change_find_possible(program, &s.possible, error);
  if (status == TRM_OK) status = try_singles(&s, error);
  if (status == TRM_OK) status = try_together(&s, error);
  if (status == TRM_OK) status = try_shardings(&s, error);
  if (status == TRM_OK) status = try_pipelines(&s, error);
  if (status == TRM_OK) status = trm_advice_add_batch(program, &found->advice, error);
  if (status != TRM_OK) {
    trm_program_search_free(found);
    return status;
  }
  trm_advice_sort(&found->advice);
  found->stopped = s.stopped;
  *out_search = found;
  return TRM_OK;
}

void trm_program_search_free(trm_program_search *search) {
  if (search == NULL) return;
  VECTOR_FREE(&search->advice);
  trm_arena_free(&search->arena);
  trm_free(search);
}

bool trm_program_search_stopped(const trm_program_search *search) { return search->stopped; }

bool trm_program_advice_get(const trm_program_search *search, size_t i,
                            trm_program_advice *out_advice) {
  if (i >= search->advice.count) return false;
  const trm_advice *o = &search->advice.items[i];
  const trm_program_advice advice = {.text = o->text,
                                     .fits = o->fits,
                                     .is_planned = o->is_planned,
                                     .num_ipus = o->num_ipus,
                                     .saved = o->saved,
                                     .worst_tile_bytes = o->worst_tile_bytes,
                                     .cycles = o->cycles};
  return TRM_GIVE(out_advice, advice);
}

bool trm_program_smallest_get(const trm_program_search *search, size_t i,
                              trm_program_smallest *out_smallest) {
  if (i >= search->num_smallest) return false;
  const fewest *o = &search->smallest[i];
  const trm_program_smallest answer = {.with = o->with,
                                       .ipus = o->ipus,
                                       .most_tried = o->most_tried,
                                       .worst_tile_bytes = o->worst_tile_bytes,
                                       .cycles = o->cycles,
                                       .fullest = o->fullest,
                                       .mini_batches = o->mini_batches,
                                       .schedule = o->mini_batches > 0 ? o->schedule : "",
                                       .offloads = o->mini_batches > 0 && o->offloads,
                                       .nearest = o->nearest};
  return TRM_GIVE(out_smallest, answer);
}

bool trm_program_smallest_cut_get(const trm_program_search *search, size_t i, size_t cut,
                                  trm_program_cut *out_cut) {
  if (i >= search->num_smallest) return false;
  const fewest *o = &search->smallest[i];
  if (o->ipus == 0 || cut + 1 >= o->ipus) return false;
  return TRM_GIVE(out_cut, o->cuts[cut]);
}
