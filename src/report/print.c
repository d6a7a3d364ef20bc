/* Owns: printing a profile as text and as JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cycles.h"
#include "report/read.h"

enum { MOST_OPS = 25 };

const char *trm_profile_number(int64_t number, char buffer[32]) {
  char digits[24];
  const int length = snprintf(digits, sizeof digits, "%" PRIu64,
                              number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
  size_t used = 0;
  if (number < 0) buffer[used++] = '-';
  for (int d = 0; d < length; ++d) {
    if (d > 0 && (length - d) % 3 == 0) buffer[used++] = ' ';
    buffer[used++] = digits[d];
  }
  buffer[used] = '\0';
  return buffer;
}

/* Memory of an IPU is counted in KB of 1024 bytes and MB of 1000 KB: 1472 tiles of 624 KB are 918
 * MB. */
static double megabytes(int64_t bytes) { return (double)bytes / 1024000; }

static double share(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static int ascending(const void *a, const void *b) {
  const double l = *(const double *)a, r = *(const double *)b;
  return (l > r) - (l < r);
}

/* The median time of a run on the host, in seconds; 0: no run was recorded. */
static double host_seconds(const trm_profile *p) {
  if (p->runs.count == 0) return 0;
  double *seconds = trm_allocate_zeroed(p->runs.count, sizeof *seconds);
  if (seconds == NULL) return 0;
  for (size_t r = 0; r < p->runs.count; ++r) seconds[r] = p->runs.items[r].host_seconds;
  qsort(seconds, p->runs.count, sizeof *seconds, ascending);
  const double median = (seconds[(p->runs.count - 1) / 2] + seconds[p->runs.count / 2]) / 2;
  trm_free(seconds);
  return median;
}

static int64_t capacity(const trm_profile *p) {
  return p->bytes_per_tile * p->tiles_per_ipu * (p->ipus_per_replica > 0 ? p->ipus_per_replica : 1);
}

static double rate(const trm_profile *p, double seconds) {
  return (p->items_per_run > 0 ? p->items_per_run : 1) / seconds;
}

void trm_profile_summary(const trm_profile *p, trm_text *text) {
  char target[64] = {0};
  for (size_t i = 0; p->target[i] != '\0' && i + 1 < sizeof target; ++i) {
    target[i] =
        (char)(p->target[i] >= 'a' && p->target[i] <= 'z' ? p->target[i] - 32 : p->target[i]);
  }
  if (p->num_ipus == 1) trm_text_format(text, "on one %s: ", target);
  else trm_text_format(text, "on %" PRId64 " %s: ", p->num_ipus, target);
  if (p->cycles > 0) {
    trm_text_format(text, "%.4g %s/s, ", rate(p, (double)p->cycles / p->clock_frequency), p->item);
  }
  trm_text_format(text, "%.4g MB of %.0f, worst tile %.0f %%%s",
                  megabytes(p->memory_bytes_with_gaps), floor(megabytes(capacity(p))),
                  share(p->worst_tile_bytes, p->bytes_per_tile), p->fits ? "" : " (does not fit)");
  const double seconds = host_seconds(p);
  if (seconds == 0) return;
  trm_text_format(text, "; %s: %.4g %s/s", p->accelerator, rate(p, seconds), p->item);
}

/* The error bar of a figure: ", -4 to +15 % for convolutions like these". */
static void append_bar(int64_t figure, int64_t low, int64_t high, const char *like,
                       trm_text *text) {
  if (like == NULL || figure <= 0) return;
  const double each = 100.0 / (double)figure;
  trm_text_format(text, "%+.0f to %+.0f %% for %s like these", each * (double)(low - figure),
                  each * (double)(high - figure), like);
}

static void append_head(const trm_profile *p, trm_text *text) {
  trm_text_format(text, "Profile of %s%s%s%s%s, %s\n", p->module,
                  p->framework[0] != '\0' ? ", from " : "", p->framework,
                  p->framework_version[0] != '\0' ? " " : "", p->framework_version, p->timestamp);
  trm_text_format(text,
                  "Target: %s (%s), %" PRId64 " IPU%s in %" PRId64 " replica%s, %" PRId64
                  " tiles of %s bytes each, %.4g GHz\n",
                  p->target, p->architecture, p->num_ipus, p->num_ipus == 1 ? "" : "s",
                  p->num_replicas, p->num_replicas == 1 ? "" : "s", p->tiles_per_ipu,
                  GROUPED(p->bytes_per_tile), p->clock_frequency / 1e9);
  trm_text_format(text,
                  "Graph: %s programs, %s compute sets, %s vertices, %s edges, %s variables\n",
                  GROUPED(p->num_steps), GROUPED(p->num_compute_sets), GROUPED(p->num_vertices),
                  GROUPED(p->num_edges), GROUPED(p->num_variables));
  for (size_t n = 0; n < p->notes.count; ++n) {
    trm_text_format(text, "Note: %s\n", p->notes.items[n]);
  }
}

const char *trm_profile_verdict(const trm_profile *p) {
  return p->fits ? p->is_close ? "barely fits" : "fits" : "OUT OF MEMORY";
}

static void append_memory(const trm_profile *p, trm_text *text) {
  trm_text_format(text, "\nMemory: %s%s\n%-28s %16s %16s\n", p->fits ? "it " : "",
                  trm_profile_verdict(p), "bytes of all tiles", "always live", "at times");
  for (size_t c = 0; c < p->categories.count; ++c) {
    const trm_profile_category *one = &p->categories.items[c];
    trm_text_format(text, "  %-26s %16s %16s\n", one->name, GROUPED(one->always_live),
                    GROUPED(one->not_always_live));
  }
  if (!p->fits) {
    trm_text_format(text, "  %s tiles do not fit; the fullest lacks %s bytes\n",
                    GROUPED(p->tiles_over), GROUPED(p->bytes_over));
  }
  if (p->is_close) {
    trm_text_format(text, "  That is nearer to the limit than this estimate is exact.\n");
  }
  if (p->bytes_like != NULL) {
    trm_text_format(text, "  Error of these bytes: ");
    append_bar(p->worst_tile_bytes, p->worst_tile_bytes_low, p->worst_tile_bytes_high,
               p->bytes_like, text);
    trm_text_format(text, "\n");
  }
  trm_text_format(text, "%-28s %16s %16s %16s\n", "fullest tiles", "bytes", "always live", "gaps");
  for (size_t t = 0; t < p->tiles.count; ++t) {
    const trm_profile_tile *one = &p->tiles.items[t];
    trm_text_format(text, "  IPU %-4" PRId64 " tile %-12" PRId64 " %16s %16s %16s\n",
                    one->tile / p->tiles_per_ipu, one->tile % p->tiles_per_ipu, GROUPED(one->bytes),
                    GROUPED(one->always_live), GROUPED(one->gaps));
  }
}

enum { COLLECTIVES = 5, NUM_PARTS = TRM_PROFILE_PARTS };

void trm_profile_parts(const trm_profile *p, trm_profile_part out_parts[NUM_PARTS]) {
  const trm_profile_part all[NUM_PARTS] = {{"compute", p->compute_cycles},
                                           {"copies", p->copy_cycles},
                                           {"exchange", p->exchange_cycles},
                                           {"exchange between IPUs", p->global_exchange_cycles},
                                           {"transfers with the host", p->host_cycles},
                                           {"collectives", p->collective_cycles},
                                           {"sync", p->sync_cycles},
                                           {"control", p->control_cycles}};
  memcpy(out_parts, all, sizeof all);
}

static void append_cycles(const trm_profile *p, trm_text *text) {
  trm_profile_part parts[NUM_PARTS];
  trm_profile_parts(p, parts);
  trm_text_format(text, "\n%-28s %16s %7s  ", "Cycles of a run", GROUPED(p->cycles), "share");
  append_bar(p->cycles, p->cycles_low, p->cycles_high, p->cycles_like, text);
  trm_text_format(text, "\n");
  for (int i = 0; i < NUM_PARTS; ++i) {
    if (parts[i].cycles == 0) continue;
    trm_text_format(text, "  %-26s %16s %6.1f%%\n", parts[i].name, GROUPED(parts[i].cycles),
                    share(parts[i].cycles, p->cycles));
    if (i == COLLECTIVES && p->between_domains_cycles > 0) {
      trm_text_format(text, "    %-24s %16s %6.1f%%\n", "of them between domains",
                      GROUPED(p->between_domains_cycles),
                      share(p->between_domains_cycles, p->cycles));
    }
  }
  if (p->overlapped_cycles != 0) {
    trm_text_format(text, "  %-26s %16s %6.1f%%\n", "less what overlaps",
                    GROUPED(-p->overlapped_cycles), share(-p->overlapped_cycles, p->cycles));
  }
  if (p->runs.count == 0) return;
  int64_t wait = 0, load = 0, total = 0;
  double starved = 0, host = 0;
  for (size_t r = 0; r < p->runs.count; ++r) {
    wait = trm_add_cycles(wait, p->runs.items[r].wait_cycles);
    load = trm_add_cycles(load, p->runs.items[r].load_cycles);
    total = trm_add_cycles(total, p->runs.items[r].cycles);
    starved += p->runs.items[r].infeed_seconds;
    host += p->runs.items[r].host_seconds;
  }
  trm_text_format(text, "  %zu run%s recorded: waiting for the host %.1f %% of %s cycles\n",
                  p->runs.count, p->runs.count == 1 ? "" : "s", share(wait, total), GROUPED(total));
  if (load > 0) {
    trm_text_format(text, "  loading the program after another one: %.1f %% of them\n",
                    share(load, total));
  }
  if (starved > 0 && host > 0) {
    trm_text_format(text, "  on this host they waited for infeeds %.1f %% of %.3g s\n",
                    100 * starved / host, host);
  }
}

static void append_ops(const trm_profile *p, trm_text *text) {
  trm_text_format(text, "\n%16s %7s %12s  %s\n", "cycles", "share", "temporary", "op");
  for (size_t o = 0; o < p->ops.count && o < MOST_OPS; ++o) {
    const trm_profile_op *one = &p->ops.items[o];
    trm_text_format(text, "%16s %6.1f%% %12s  %s\n", GROUPED(one->cycles),
                    share(one->cycles, p->cycles), GROUPED(one->temporary_bytes), one->name);
    if (one->plan != NULL) trm_text_format(text, "%39s  %s\n", "", one->plan);
  }
  if (p->ops.count > MOST_OPS) {
    trm_text_format(text, "%16s and %zu more\n", "", p->ops.count - MOST_OPS);
  }
}

static char *json_of(const trm_profile *p) {
  trm_text summary = {0};
  trm_profile_summary(p, &summary);
  json_t *cycles = json_object(), *memory = json_object(), *ops = json_array(),
         *runs = json_array(), *tiles = json_array(), *notes = json_array();
  trm_profile_part parts[NUM_PARTS];
  trm_profile_parts(p, parts);
  for (int i = 0; i < NUM_PARTS; ++i) {
    json_object_set_new(cycles, parts[i].name, json_integer(parts[i].cycles));
  }
  for (size_t c = 0; c < p->categories.count; ++c) {
    const trm_profile_category *one = &p->categories.items[c];
    json_object_set_new(memory, one->name,
                        json_pack("{sIsI}", "always_live", (json_int_t)one->always_live,
                                  "not_always_live", (json_int_t)one->not_always_live));
  }
  for (size_t o = 0; o < p->ops.count; ++o) {
    const trm_profile_op *one = &p->ops.items[o];
    json_array_append_new(
        ops, json_pack("{sssssIsIsIss?}", "op", one->name, "layer", one->layer, "cycles",
                       (json_int_t)one->cycles, "flops", (json_int_t)one->flops, "temporary_bytes",
                       (json_int_t)one->temporary_bytes, "plan", one->plan));
  }
  for (size_t t = 0; t < p->tiles.count; ++t) {
    json_array_append_new(tiles, json_pack("{sIsI}", "tile", (json_int_t)p->tiles.items[t].tile,
                                           "bytes", (json_int_t)p->tiles.items[t].bytes));
  }
  for (size_t r = 0; r < p->runs.count; ++r) {
    const trm_profile_run *one = &p->runs.items[r];
    json_array_append_new(
        runs, json_pack("{sIsIsIsf}", "cycles", (json_int_t)one->cycles, "wait_cycles",
                        (json_int_t)one->wait_cycles, "load_cycles", (json_int_t)one->load_cycles,
                        "host_seconds", one->host_seconds));
  }
  for (size_t n = 0; n < p->notes.count; ++n) {
    json_array_append_new(notes, json_string(p->notes.items[n]));
  }
  json_object_set_new(cycles, "overlapped", json_integer(p->overlapped_cycles));
  json_t *all = json_pack(
      "{sssssssIsIsIsIsbsbsIsIsososososososs*}", "module", p->module, "timestamp", p->timestamp,
      "target", p->target, "num_ipus", (json_int_t)p->num_ipus, "num_replicas",
      (json_int_t)p->num_replicas, "bytes_per_tile", (json_int_t)p->bytes_per_tile, "cycles",
      (json_int_t)p->cycles, "fits", (int)p->fits, "is_close", (int)p->is_close, "worst_tile_bytes",
      (json_int_t)p->worst_tile_bytes, "memory_bytes", (json_int_t)p->memory_bytes_with_gaps,
      "cycles_by_part", cycles, "memory_by_category", memory, "fullest_tiles", tiles, "ops", ops,
      "runs", runs, "notes", notes, "summary", summary.data);
  json_object_set_new(all, "between_domains_cycles", json_integer(p->between_domains_cycles));
  if (all != NULL && p->cycles_like != NULL && p->bytes_like != NULL) {
    json_object_set_new(
        all, "error_bars",
        json_pack("{s{sIsIss}s{sIsIss}}", "cycles", "low", (json_int_t)p->cycles_low, "high",
                  (json_int_t)p->cycles_high, "like", p->cycles_like, "worst_tile_bytes", "low",
                  (json_int_t)p->worst_tile_bytes_low, "high", (json_int_t)p->worst_tile_bytes_high,
                  "like", p->bytes_like));
  }
  char *text = all != NULL ? json_dumps(all, JSON_INDENT(1)) : NULL;
  json_decref(all);
  trm_text_free(&summary);
  return text;
}

trm_status trm_profile_print(const trm_profile *p, bool json, char **out_text, trm_error *error) {
  return trm_profile_print_parts(p, json, true, true, out_text, error);
}

trm_status trm_profile_print_parts(const trm_profile *p, bool json, bool memory, bool cycles,
                                   char **out_text, trm_error *error) {
  trm_text text = {0};
  if (json) {
    char *object = json_of(p);
    if (object == NULL) FAIL(INVALID_ARGUMENT, "%s holds text that is not UTF-8", p->path);
    trm_text_format(&text, "%s\n", object);
    free(object);
  } else {
    append_head(p, &text);
    if (memory) append_memory(p, &text);
    if (cycles) append_cycles(p, &text);
    if (cycles) append_ops(p, &text);
    trm_text_append(&text, "\n", 1);
    trm_profile_summary(p, &text);
    trm_text_append(&text, "\n", 1);
  }
  if (text.failed) {
    trm_text_free(&text);
    FAIL_NO_MEMORY("a report");
  }
  *out_text = text.data;
  return TRM_OK;
}
