/* Owns: tremula plan: the answer as text. Equal inputs give equal text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum { MOST_LAYERS = 40, MOST_CATEGORIES = 8, NAME_WIDTH = 44 };

static const char *megabytes(int64_t bytes, char *buffer, size_t size) {
  snprintf(buffer, size, "%.1f", (double)bytes / 1e6);
  return buffer;
}
#define MB(bytes) megabytes((bytes), (char[32]){0}, 32)

const char *plan_grouped(int64_t number, char *buffer, size_t size) {
  char digits[24];
  const int length = snprintf(digits, sizeof digits, "%" PRId64, number < 0 ? -number : number);
  size_t used = 0;
  if (number < 0) buffer[used++] = '-';
  for (int d = 0; d < length && used + 2 < size; ++d) {
    if (d > 0 && (length - d) % 3 == 0) buffer[used++] = ' ';
    buffer[used++] = digits[d];
  }
  buffer[used] = '\0';
  return buffer;
}

/* A number with its sign and up to one digit behind the point, as web/src/base/format.js writes it:
 * what rounds to 0 has a plus. */
static const char *signed_of(double number, bool digit, char *buffer, size_t size) {
  const double positive = number < 0 ? -number : number;
  const int64_t tenths = (int64_t)(positive * (digit ? 10 : 1) + 0.5) * (digit ? 1 : 10);
  const int used =
      snprintf(buffer, size, "%c%" PRId64, number < 0 && tenths > 0 ? '-' : '+', tenths / 10);
  if (digit) snprintf(buffer + used, size - (size_t)used, ".%" PRId64, tenths % 10);
  return buffer;
}
#define SIGNED(number, digit) signed_of((number), (digit), (char[32]){0}, 32)

/* The error bar of a figure, "-4 to +15 %". */
static const char *bar_of(int64_t figure, int64_t low, int64_t high, char *buffer, size_t size) {
  const double each = figure > 0 ? 100.0 / (double)figure : 0;
  snprintf(buffer, size, "%s to %s %%", SIGNED(each * (double)(low - figure), false),
           SIGNED(each * (double)(high - figure), false));
  return buffer;
}
#define BAR(figure, low, high) bar_of((figure), (low), (high), (char[40]){0}, 40)
#define CYCLES_BAR(of) BAR((of)->cycles, (of)->cycles_low, (of)->cycles_high)
#define BYTES_BAR(of) \
  BAR((of)->worst_tile_bytes, (of)->worst_tile_bytes_low, (of)->worst_tile_bytes_high)

static double share(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static const char *rate(double items, char *buffer, size_t size) {
  if (items <= 0) snprintf(buffer, size, "-");
  else snprintf(buffer, size, items < 100 ? "%.2f" : "%.0f", items);
  return buffer;
}

const char *plan_verdict(const plan_case *one) {
  if (one->totals.fits) return one->totals.is_close ? "barely" : "yes";
  return one->totals.is_close ? "just not" : "no";
}

/* ---- The table of cases ---------------------------------------------------------------------- */

static void print_header(const plan_answer *answer) {
  const plan_request *request = answer->request;
  printf("%-12s %4s", "target", "IPUs");
  if (request->num_instances > 0) printf(" %9s", "instances");
  if (request->num_batches > 0) printf(" %7s", "batch");
  if (request->swept != NULL) printf(" %10s", "proportion");
  printf(" %-8s %11s %14s %14s %11s %13s %10s %11s  %s\n", "fits", "fullest", "all tiles",
         "always live", "temporary", "cycles", "ms", "items/s", "error of cycles, of bytes");
  printf("%-12s %4s", "", "");
  if (request->num_instances > 0) printf(" %9s", "");
  if (request->num_batches > 0) printf(" %7s", "");
  if (request->swept != NULL) printf(" %10s", "");
  printf(" %-8s %11s %14s %14s %11s %13s %10s %11s\n", "", "tile", "MB", "MB", "MB", "", "", "");
}

static void print_row(const plan_answer *answer, const plan_case *one) {
  const plan_request *request = answer->request;
  const trm_program_totals *t = &one->totals;
  printf("%-12s %4ld", one->target, one->ipus);
  if (request->num_instances > 0) printf(" %9ld", one->instances);
  if (request->num_batches > 0) printf(" %7ld", one->batch);
  if (request->swept != NULL) printf(" %10g", one->value);
  if (one->problem[0] != '\0') {
    printf(" %-8s %s\n", "-", one->problem);
    return;
  }
  char percent[32], milliseconds[32], items[32];
  snprintf(percent, sizeof percent, "%.1f %%", share(t->worst_tile_bytes, t->bytes_per_tile));
  snprintf(milliseconds, sizeof milliseconds, "%.3f", one->seconds * 1e3);
  printf(" %-8s %11s %14s %14s %11s %13" PRId64 " %10s %11s  %s, %s\n", plan_verdict(one), percent,
         MB(t->max_step_bytes), MB(t->always_live_bytes),
         MB(t->max_step_bytes - t->always_live_bytes), t->cycles, milliseconds,
         rate(one->items_per_second, items, sizeof items), CYCLES_BAR(t), BYTES_BAR(t));
}

/* ---- One case in full ------------------------------------------------------------------------ */

static int by_bytes(const void *a, const void *b) {
  const int64_t *l = a, *r = b;
  return l[1] != r[1] ? (l[1] < r[1]) - (l[1] > r[1]) : (l[0] > r[0]) - (l[0] < r[0]);
}

static void print_categories(const plan_case *one) {
  int64_t sorted[TRM_NUM_MEMORY_CATEGORIES][2], rest = 0;
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
    sorted[c][0] = c;
    sorted[c][1] = one->categories[c];
  }
  qsort(sorted, TRM_NUM_MEMORY_CATEGORIES, sizeof *sorted, by_bytes);
  printf("\nMemory by category, each tile at its own peak: %s MB of %s, and %s in gaps\n",
         MB(one->totals.memory_bytes), MB(one->bytes_total),
         MB(one->totals.memory_bytes_with_gaps - one->totals.memory_bytes));
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
    if (c >= MOST_CATEGORIES) {
      rest += sorted[c][1];
    } else if (sorted[c][1] > 0) {
      printf("  %-28s %10s MB %6.1f %%\n",
             trm_memory_category_name((trm_memory_category)sorted[c][0]), MB(sorted[c][1]),
             share(sorted[c][1], one->totals.memory_bytes));
    }
  }
  if (rest > 0) {
    printf("  %-28s %10s MB %6.1f %%\n", "others", MB(rest), share(rest, one->totals.memory_bytes));
  }
}

static void print_cycles(const plan_case *one) {
  const trm_program_totals *t = &one->totals;
  const struct {
    const char *name;
    int64_t cycles;
  } kinds[] = {{"compute", t->compute_cycles},   {"copies on tiles", t->copy_cycles},
               {"exchange", t->exchange_cycles}, {"between IPUs", t->global_exchange_cycles},
               {"host", t->host_cycles},         {"collectives", t->collective_cycles},
               {"sync", t->sync_cycles},         {"control", t->control_cycles}};
  printf("\nCycles of a run: %s, %s for %s like these; mean over tiles / fullest tile is %.2f\n",
         PLAN_NUMBER(t->cycles), CYCLES_BAR(t), t->cycles_like, t->tile_balance);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
    if (kinds[k].cycles == 0) continue;
    printf("  %-28s %13" PRId64 " %6.1f %%\n", kinds[k].name, kinds[k].cycles,
           share(kinds[k].cycles, t->cycles));
    if (strcmp(kinds[k].name, "collectives") == 0 && t->between_domains_cycles > 0) {
      printf("    %-26s %13" PRId64 " %6.1f %%\n", "of them between domains",
             t->between_domains_cycles, share(t->between_domains_cycles, t->cycles));
    }
  }
  if (t->overlapped_cycles > 0) {
    printf("  %-28s %13" PRId64 "\n", "less what overlaps", t->overlapped_cycles);
  }
}

static size_t depth_of(const char *name, size_t depth) {
  size_t length = 0;
  for (size_t components = 0; name[length] != '\0'; ++length) {
    if (name[length] == '/' && ++components == depth) break;
  }
  return length;
}

/* Merges consecutive layers whose first `depth` components are equal into rows. *out_rows has room
 * for all. Returns the number of rows. */
static size_t merge_layers(const plan_case *one, size_t depth, trm_program_layer *rows,
                           size_t *lengths) {
  size_t count = 0;
  for (size_t l = 0; l < one->num_layers; ++l) {
    const trm_program_layer *layer = &one->layers[l];
    const size_t length = depth_of(layer->name, depth);
    size_t r = 0;
    while (r < count && (lengths[r] != length || memcmp(rows[r].name, layer->name, length) != 0)) {
      ++r;
    }
    if (r == count) {
      if (count > MOST_LAYERS) return count; /* too many layers to print */
      lengths[count] = length;
      rows[count++] = *layer;
      continue;
    }
    rows[r].steps += layer->steps;
    rows[r].cycles += layer->cycles;
    rows[r].cycles_low += layer->cycles_low;
    rows[r].cycles_high += layer->cycles_high;
    rows[r].weights_bytes += layer->weights_bytes;
    rows[r].always_live_bytes += layer->always_live_bytes;
    if (layer->live_bytes > rows[r].live_bytes) rows[r].live_bytes = layer->live_bytes;
    if (layer->worst_tile_bytes > rows[r].worst_tile_bytes) {
      rows[r].worst_tile_bytes = layer->worst_tile_bytes;
    }
  }
  return count;
}

static void print_layers(const plan_case *one) {
  trm_program_layer rows[MOST_LAYERS + 1];
  size_t lengths[MOST_LAYERS + 1], depth = 16, count = merge_layers(one, depth, rows, lengths);
  while (count > MOST_LAYERS && depth > 1) count = merge_layers(one, --depth, rows, lengths);
  printf("\nBy layer%s\n  %-*s %13s %7s %10s %10s %10s %9s  %s\n",
         count > MOST_LAYERS ? " (the first; --json has all)" : "", NAME_WIDTH, "", "cycles", "",
         "weights", "always", "all live", "fullest", "error of");
  printf("  %-*s %13s %7s %10s %10s %10s %9s  %s\n", NAME_WIDTH, "", "", "", "MB", "live MB", "MB",
         "tile", "cycles");
  for (size_t r = 0; r < count && r < MOST_LAYERS; ++r) {
    char name[NAME_WIDTH + 1];
    const int length = lengths[r] > NAME_WIDTH ? NAME_WIDTH : (int)lengths[r];
    snprintf(name, sizeof name, "%.*s", length, rows[r].name);
    if (lengths[r] > NAME_WIDTH) memcpy(name, "...", 3);
    if (lengths[r] > NAME_WIDTH) {
      memcpy(name + 3, rows[r].name + lengths[r] - NAME_WIDTH + 3, NAME_WIDTH - 3);
    }
    printf("  %-*s %13" PRId64 " %5.1f %% %10s %10s %10s %7.1f %%  %s\n", NAME_WIDTH,
           lengths[r] == 0 ? "(no layer)" : name, rows[r].cycles,
           share(rows[r].cycles, one->totals.cycles + one->totals.overlapped_cycles),
           MB(rows[r].weights_bytes), MB(rows[r].always_live_bytes), MB(rows[r].live_bytes),
           share(rows[r].worst_tile_bytes, one->totals.bytes_per_tile),
           rows[r].cycles > 0 ? CYCLES_BAR(&rows[r]) : "");
  }
}

static void print_cuts(const plan_case *one) {
  trm_program_cut cut = {.size = sizeof cut};
  if (!trm_program_cut_get(one->program, 0, &cut)) return;
  printf("\nShards, cut so that they fit and the longest is short\n");
  for (size_t i = 0; trm_program_cut_get(one->program, i, &cut); ++i) {
    printf("  IPU %u begins with %s, after %s, and is sent %s MB\n", cut.ipu, cut.before, cut.after,
           MB(cut.bytes));
  }
  for (uint32_t ipu = 0; ipu < one->totals.num_ipus; ++ipu) {
    const plan_ipu o = plan_ipu_of(one, ipu);
    printf("  IPU %u needs %s MB, its fullest tile %.1f %%, and works for %s cycles\n", ipu,
           MB(o.bytes), share(o.worst_tile_bytes, one->totals.bytes_per_tile),
           PLAN_NUMBER(o.cycles));
  }
}

static void print_sections(const plan_case *one) {
  print_cuts(one);
  print_categories(one);
  print_cycles(one);
  print_layers(one);
  const char *note;
  for (size_t n = 0; (note = trm_program_note(one->program, n)) != NULL; ++n) {
    printf("%s  %s\n", n == 0 ? "\nNotes\n" : "", note);
  }
}

static double percent_more(int64_t now, int64_t before) {
  return before > 0 ? 100.0 * (double)(now - before) / (double)before : 0;
}

/* What would help: bytes saved on the fullest tile, cycles added. */
static void print_advice(const plan_case *one) {
  trm_program_advice a = {.size = sizeof a};
  if (!trm_program_advice_get(one->search, 0, &a)) {
    printf("Nothing that was tried needs less on the fullest tile.\n");
    return;
  }
  printf("\nWhat would help: bytes saved on the fullest tile, and what a run then takes\n");
  for (size_t i = 0; trm_program_advice_get(one->search, i, &a); ++i) {
    char cycles[32] = "";
    if (a.cycles > 0) {
      snprintf(cycles, sizeof cycles, "%s %% cycles",
               SIGNED(percent_more(a.cycles, one->totals.cycles), true));
    }
    printf("  %11s %16s  %-7s %s\n", PLAN_NUMBER(a.saved), cycles,
           !a.fits        ? ""
           : a.is_planned ? "fits"
                          : "may fit",
           a.text);
  }
}

/* The cuts of an answer, in the words of those who apply them. */
static void print_stages(const plan_case *one, size_t i, const trm_program_smallest *s) {
  trm_program_cut cut = {.size = sizeof cut};
  const bool pipeline = s->mini_batches > 0;
  for (size_t c = 0; trm_program_smallest_cut_get(one->search, i, c, &cut); ++c) {
    printf("  %s %zu begins with %s, after %s\n", pipeline ? "stage" : "shard", c + 1, cut.before,
           cut.after);
  }
  if (!pipeline) return;
  printf("  device_mapping=[");
  for (uint32_t ipu = 0; ipu < s->ipus; ++ipu) printf("%s%u", ipu == 0 ? "" : ", ", ipu);
  printf("], pipeline_schedule=PipelineSchedule.%s, gradient_accumulation_count=%u,\n"
         "  offload_weight_update_variables=%s\n",
         s->schedule, s->mini_batches, s->offloads ? "True" : "False");
}

/* One IPU or several. */
static void print_smallest(const plan_case *one) {
  trm_program_smallest s = {.size = sizeof s};
  for (size_t i = 0; trm_program_smallest_get(one->search, i, &s); ++i) {
    const bool pipeline = s.schedule[0] != '\0';
    printf("%sThe smallest number of IPUs, %s%s%s%s: ", i == 0 ? "\n" : "",
           pipeline ? "as a pipeline, " : "sharded", pipeline ? s.schedule : "",
           s.with[0] != '\0' ? " with " : "", s.with);
    if (s.ipus == 0) {
      printf("none of up to %u (on %u, the %s that begins with %s needs %.0f %% of a tile)\n",
             s.most_tried, s.nearest, pipeline ? "stage" : "shard",
             s.fullest[0] != '\0' ? s.fullest : "the first layer",
             share(s.worst_tile_bytes, one->totals.bytes_per_tile));
      continue;
    }
    printf("%u (%.1f %% of the fullest tile, %s %% cycles%s)\n", s.ipus,
           share(s.worst_tile_bytes, one->totals.bytes_per_tile),
           SIGNED(percent_more(s.cycles, one->totals.cycles), true),
           pipeline ? " a mini-batch" : "");
    print_stages(one, i, &s);
  }
  if (trm_program_search_stopped(one->search)) printf("The search was interrupted.\n");
}

static void print_full(const plan_answer *answer, const plan_case *one) {
  printf("\n%s, %ld IPU%s", one->target, one->ipus, one->ipus == 1 ? "" : "s");
  if (one->totals.replicas > 1) printf(" (%u replicas)", one->totals.replicas);
  if (one->batch > 0) printf(", batch %ld", one->batch);
  if (one->explanation != NULL) {
    printf("\n%s", one->explanation);
    print_advice(one);
    print_smallest(one);
    plan_print_what_if(answer, one);
    print_sections(one);
    return;
  }
  printf(": it fits%s. The fullest tile, %u of IPU %u, needs %s of %s bytes (%.1f %%),\n"
         "%s for %s like these.\n",
         one->totals.is_close ? ", but within the error" : "",
         one->totals.worst_tile % one->totals.tiles_per_ipu,
         one->totals.worst_tile / one->totals.tiles_per_ipu,
         PLAN_NUMBER(one->totals.worst_tile_bytes), PLAN_NUMBER(one->totals.bytes_per_tile),
         share(one->totals.worst_tile_bytes, one->totals.bytes_per_tile), BYTES_BAR(&one->totals),
         one->totals.bytes_like);
  plan_print_what_if(answer, one);
  print_sections(one);
}

/* ---- All ------------------------------------------------------------------------------------- */

static bool has_batches(const plan_answer *answer) {
  return answer->request->num_batches > 1 || answer->request->batches_go_on;
}

static void print_model(const plan_answer *answer) {
  const plan_case *one = plan_first_planned(answer);
  const plan_request *request = answer->request;
  printf("%s%s%s\n", request->model, request->training != NULL ? ", trained with " : "",
         request->training != NULL ? request->training : "");
  if (one != NULL) {
    printf("Model size: %s parameters, %s bytes (%s MB)\n", PLAN_NUMBER(one->parameters),
           PLAN_NUMBER(one->parameter_bytes), MB(one->parameter_bytes));
  }
  if (one != NULL && one->input.rank > 0) {
    char text[TYPE_TEXT_SIZE];
    const long long items = (long long)one->input.dims[0];
    printf("First input: %s %s", one->input_name,
           type_text(one->input.dtype, one->input.rank, one->input.dims, text, sizeof text));
    if (!answer->models[0].is_fed) printf(", so %lld item%s a run", items, items == 1 ? "" : "s");
    printf("%s\n", has_batches(answer) ? ", at the first batch size" : "");
  }
  printf("\n");
}

/* Prints the largest batch size that fits, by target and number of IPUs. */
static void print_largest(const plan_answer *answer) {
  if (!has_batches(answer)) return;
  printf("\n");
  for (size_t c = 0; c < answer->num_cases; ++c) {
    const plan_case *one = &answer->cases[c];
    bool first = true;
    for (size_t d = 0; d < c; ++d) {
      first =
          first && (answer->cases[d].target != one->target || answer->cases[d].ipus != one->ipus);
    }
    if (!first) continue;
    long largest = 0;
    for (size_t d = c; d < answer->num_cases; ++d) {
      const plan_case *other = &answer->cases[d];
      if (other->target == one->target && other->ipus == one->ipus && other->totals.fits &&
          other->batch > largest) {
        largest = other->batch;
      }
    }
    printf("The largest of these batch sizes that fits %s, %ld IPU%s: ", one->target, one->ipus,
           one->ipus == 1 ? "" : "s");
    if (largest > 0) printf("%ld\n", largest);
    else printf("none\n");
  }
}

void plan_print_text(const plan_answer *answer) {
  print_model(answer);
  print_header(answer);
  for (size_t c = 0; c < answer->num_cases; ++c) print_row(answer, &answer->cases[c]);
  print_largest(answer);
  plan_print_targets(answer);
  for (size_t c = 0; c < answer->num_cases; ++c) {
    if (answer->cases[c].program != NULL) print_full(answer, &answer->cases[c]);
  }
}
