/* Owns: tremula plan: plans side by side, as a table and as JSON: machines, and what if. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum { NAME_WIDTH = 34, MOST_ROWS = 40 };

typedef struct measure {
  const char *key, *name;
  double (*of)(const plan_case *one);
} measure;

#define TOTAL(member) \
  static double member##_of(const plan_case *one) { return (double)one->totals.member; }
TOTAL(worst_tile_bytes)
TOTAL(bytes_per_tile)
TOTAL(max_step_bytes)
TOTAL(always_live_bytes)
TOTAL(cycles)
TOTAL(compute_cycles)
TOTAL(copy_cycles)
TOTAL(exchange_cycles)
TOTAL(global_exchange_cycles)
TOTAL(host_cycles)
TOTAL(collective_cycles)
TOTAL(sync_cycles)
TOTAL(control_cycles)
TOTAL(overlapped_cycles)
#undef TOTAL

static double temporary_bytes_of(const plan_case *one) {
  return (double)(one->totals.max_step_bytes - one->totals.always_live_bytes);
}
static double microseconds_of(const plan_case *one) { return one->seconds * 1e6; }
static double items_of(const plan_case *one) { return (double)one->items; }
static double rate_of(const plan_case *one) { return one->items_per_second; }

static const measure measures[] = {
    {"worst_tile_bytes", "fullest tile, bytes", worst_tile_bytes_of},
    {"bytes_per_tile", "memory of a tile, bytes", bytes_per_tile_of},
    {"peak_bytes", "all tiles, bytes", max_step_bytes_of},
    {"always_live_bytes", "  always live", always_live_bytes_of},
    {"temporary_bytes", "  temporary", temporary_bytes_of},
    {"cycles", "cycles", cycles_of},
    {"compute", "  compute", compute_cycles_of},
    {"copy", "  copies on tiles", copy_cycles_of},
    {"exchange", "  exchange", exchange_cycles_of},
    {"global_exchange", "  between IPUs", global_exchange_cycles_of},
    {"host", "  host", host_cycles_of},
    {"collective", "  collectives", collective_cycles_of},
    {"sync", "  sync", sync_cycles_of},
    {"control", "  control", control_cycles_of},
    {"overlapped", "  less what overlaps", overlapped_cycles_of},
    {"microseconds", "microseconds", microseconds_of},
    {"items", "items", items_of},
    {"items_per_second", "items/s", rate_of},
};
enum { NUM_MEASURES = sizeof measures / sizeof *measures };

const plan_case *plan_first_planned(const plan_answer *answer) {
  for (size_t c = 0; c < answer->num_cases; ++c) {
    if (answer->cases[c].problem[0] == '\0') return &answer->cases[c];
  }
  return NULL;
}

/* ---- The table ------------------------------------------------------------------------------- */

static void print_values(const char *name, int length, const double *values, size_t count) {
  printf("  %-*.*s", NAME_WIDTH, length, name);
  for (size_t i = 0; i < count; ++i) printf(" %15s", PLAN_NUMBER((int64_t)(values[i] + 0.5)));
  if (count == 2) {
    printf(" %15s", PLAN_NUMBER((int64_t)(values[1] + 0.5) - (int64_t)(values[0] + 0.5)));
    if (values[0] > 0) printf(" %+8.1f %%", 100 * (values[1] - values[0]) / values[0]);
  }
  printf("\n");
}

static const trm_program_layer *find_layer(const plan_case *one, const char *name) {
  for (size_t l = 0; l < one->num_layers; ++l) {
    if (strcmp(one->layers[l].name, name) == 0) return &one->layers[l];
  }
  return NULL;
}

/* The layers of the first plan whose numbers differ, which are the ones to look at. */
static void print_layers(const plan_case *const *cases, size_t count) {
  size_t shown = 0, more = 0;
  for (size_t l = 0; l < cases[0]->num_layers; ++l) {
    const trm_program_layer *first = &cases[0]->layers[l];
    double cycles[PLAN_MAX_LIST], bytes[PLAN_MAX_LIST];
    bool differs = false;
    for (size_t i = 0; i < count; ++i) {
      const trm_program_layer *layer = find_layer(cases[i], first->name);
      cycles[i] = layer == NULL ? 0 : (double)layer->cycles;
      bytes[i] = layer == NULL ? 0 : (double)layer->worst_tile_bytes;
      differs |= cycles[i] != cycles[0] || bytes[i] != bytes[0];
    }
    if (!differs) continue;
    if (shown == MOST_ROWS) {
      ++more;
      continue;
    }
    if (shown++ == 0) printf("\n  Layers that differ: cycles, then bytes of the fullest tile\n");
    const char *name = first->name[0] == '\0' ? "(no layer)" : first->name;
    const size_t length = strlen(name);
    print_values(name + (length > NAME_WIDTH ? length - NAME_WIDTH : 0), NAME_WIDTH, cycles, count);
    print_values("", NAME_WIDTH, bytes, count);
  }
  if (more > 0) printf("  and %zu more (--json has all)\n", more);
}

void plan_print_side_by_side(const plan_case *const *cases, const char *const *heads,
                             size_t count) {
  printf("  %-*s", NAME_WIDTH, "");
  for (size_t i = 0; i < count; ++i) printf(" %15.15s", heads[i]);
  if (count == 2) printf(" %15s", "difference");
  printf("\n  %-*s", NAME_WIDTH, "fits");
  for (size_t i = 0; i < count; ++i) printf(" %15s", plan_verdict(cases[i]));
  printf("\n");
  for (size_t m = 0; m < NUM_MEASURES; ++m) {
    double values[PLAN_MAX_LIST];
    bool any = false;
    for (size_t i = 0; i < count; ++i) any |= (values[i] = measures[m].of(cases[i])) > 0;
    if (any) print_values(measures[m].name, NAME_WIDTH, values, count);
  }
}

void plan_print_targets(const plan_answer *answer) {
  const size_t targets = answer->request->targets.count;
  if (targets < 2 || answer->num_models != 1 || answer->num_cases % targets != 0) return;
  const size_t each = answer->num_cases / targets; /* cases of one machine come one after another */
  for (size_t c = 0; c < each; ++c) {
    const plan_case *cases[PLAN_MAX_LIST];
    const char *heads[PLAN_MAX_LIST];
    bool good = true;
    for (size_t t = 0; t < targets; ++t) {
      cases[t] = &answer->cases[t * each + c];
      heads[t] = cases[t]->target;
      good = good && cases[t]->program != NULL;
    }
    if (!good) continue;
    printf("\nSide by side, on %ld IPU%s\n", cases[0]->ipus, cases[0]->ipus == 1 ? "" : "s");
    plan_print_side_by_side(cases, heads, targets);
  }
}

void plan_print_what_if(const plan_answer *answer, const plan_case *one) {
  const string_list *what_if = &answer->request->what_if;
  const char *const heads[] = {"as it is", "what if"};
  if (one->what_if == NULL) return;
  printf("\nWhat if");
  for (size_t w = 0; w < what_if->count; ++w) {
    printf("%s %s", w == 0 ? "" : ",", what_if->items[w]);
  }
  printf("\n");
  if (one->what_if->problem[0] != '\0') {
    printf("  cannot be planned: %s\n", one->what_if->problem);
    return;
  }
  const plan_case *const both[] = {one, one->what_if};
  plan_print_side_by_side(both, heads, 2);
  print_layers(both, 2);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *values_of(const plan_case *one, const plan_case *less) {
  json_t *values = json_object();
  for (size_t m = 0; m < NUM_MEASURES; ++m) {
    const double value = measures[m].of(one) - (less == NULL ? 0 : measures[m].of(less));
    const bool whole = measures[m].of != rate_of && measures[m].of != microseconds_of;
    json_object_set_new(values, measures[m].key,
                        whole ? json_integer((json_int_t)value) : json_real(value));
  }
  return values;
}

json_t *plan_what_if_json(const plan_answer *answer, const plan_case *one) {
  const string_list *what_if = &answer->request->what_if;
  json_t *changes = json_array();
  for (size_t w = 0; w < what_if->count; ++w) {
    json_array_append_new(changes, json_string(what_if->items[w]));
  }
  const plan_case *changed = one->what_if;
  if (changed->problem[0] != '\0') {
    return json_pack("{s:o, s:s}", "changes", changes, "problem", changed->problem);
  }
  return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o}", "changes", changes, "fits",
                   (int)changed->totals.fits, "as_it_is", values_of(one, NULL), "changed",
                   values_of(changed, NULL), "difference", values_of(changed, one), "plan",
                   plan_case_json(answer, changed));
}

json_t *plan_targets_json(const plan_answer *answer) {
  json_t *list = json_array();
  for (size_t c = 0; c < answer->num_cases; ++c) {
    const plan_case *one = &answer->cases[c];
    if (one->problem[0] != '\0') continue;
    json_t *row = values_of(one, NULL);
    json_object_set_new(row, "target", json_string(one->target));
    json_object_set_new(row, "ipus", json_integer((json_int_t)one->ipus));
    if (one->batch > 0) json_object_set_new(row, "batch", json_integer((json_int_t)one->batch));
    json_object_set_new(row, "fits", json_boolean(one->totals.fits));
    json_array_append_new(list, row);
  }
  return list;
}
