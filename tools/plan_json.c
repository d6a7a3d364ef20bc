/* Owns: tremula plan: the answer as JSON (docs/plan.md describes the keys). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum { LARGEST = 12 };

static json_t *integer(int64_t number) { return json_integer((json_int_t)number); }

static json_t *memory_of(const plan_case *one) {
  const trm_program_totals *t = &one->totals;
  json_t *categories = json_object();
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
    json_object_set_new(categories, trm_memory_category_name((trm_memory_category)c),
                        integer(one->categories[c]));
  }
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o}",
                   "bytes_of_machine", (json_int_t)one->bytes_total, "bytes_per_tile",
                   (json_int_t)t->bytes_per_tile, "peak_bytes", (json_int_t)t->max_step_bytes,
                   "always_live_bytes", (json_int_t)t->always_live_bytes, "temporary_bytes",
                   (json_int_t)(t->max_step_bytes - t->always_live_bytes),
                   "each_tile_at_its_peak_bytes", (json_int_t)t->memory_bytes, "gap_bytes",
                   (json_int_t)(t->memory_bytes_with_gaps - t->memory_bytes), "worst_tile",
                   (json_int_t)t->worst_tile, "worst_tile_bytes", (json_int_t)t->worst_tile_bytes,
                   "bytes_over", (json_int_t)t->bytes_over, "tiles_over", (json_int_t)t->tiles_over,
                   "worst_tile_bytes_low", (json_int_t)t->worst_tile_bytes_low,
                   "worst_tile_bytes_high", (json_int_t)t->worst_tile_bytes_high, "like",
                   t->bytes_like, "by_category", categories);
}

static json_t *cycles_of(const trm_program_totals *t) {
  return json_pack(
      "{s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "total",
      (json_int_t)t->cycles, "low", (json_int_t)t->cycles_low, "high", (json_int_t)t->cycles_high,
      "like", t->cycles_like, "compute", (json_int_t)t->compute_cycles, "copy",
      (json_int_t)t->copy_cycles, "exchange", (json_int_t)t->exchange_cycles, "global_exchange",
      (json_int_t)t->global_exchange_cycles, "host", (json_int_t)t->host_cycles, "collective",
      (json_int_t)t->collective_cycles, "between_domains", (json_int_t)t->between_domains_cycles,
      "sync", (json_int_t)t->sync_cycles, "control", (json_int_t)t->control_cycles, "overlapped",
      (json_int_t)t->overlapped_cycles);
}

static json_t *layers_of(const plan_case *one) {
  json_t *list = json_array();
  for (size_t l = 0; l < one->num_layers; ++l) {
    const trm_program_layer *layer = &one->layers[l];
    json_array_append_new(
        list,
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", layer->name,
                  "steps", (json_int_t)layer->steps, "cycles", (json_int_t)layer->cycles,
                  "cycles_low", (json_int_t)layer->cycles_low, "cycles_high",
                  (json_int_t)layer->cycles_high, "flops", (json_int_t)layer->flops,
                  "weights_bytes", (json_int_t)layer->weights_bytes, "always_live_bytes",
                  (json_int_t)layer->always_live_bytes, "live_bytes", (json_int_t)layer->live_bytes,
                  "worst_tile_bytes", (json_int_t)layer->worst_tile_bytes));
  }
  return list;
}

static json_t *cut_of(const trm_program_cut *cut) {
  return json_pack("{s:s, s:s, s:I, s:I}", "after", cut->after, "before", cut->before, "bytes",
                   (json_int_t)cut->bytes, "ipu", (json_int_t)cut->ipu);
}

/* What would make the case fit. */
static void add_search(const plan_case *one, json_t *object) {
  json_t *advice = json_array(), *smallest = json_array();
  trm_program_advice a = {.size = sizeof a};
  for (size_t i = 0; trm_program_advice_get(one->search, i, &a); ++i) {
    json_array_append_new(
        advice,
        json_pack("{s:s, s:b, s:b, s:I, s:I, s:I, s:o}", "change", a.text, "fits", (int)a.fits,
                  "planned", (int)a.is_planned, "ipus", (json_int_t)a.num_ipus, "saved_bytes",
                  (json_int_t)a.saved, "worst_tile_bytes", (json_int_t)a.worst_tile_bytes, "cycles",
                  a.cycles > 0 ? integer(a.cycles) : json_null()));
  }
  trm_program_smallest s = {.size = sizeof s};
  for (size_t i = 0; trm_program_smallest_get(one->search, i, &s); ++i) {
    json_t *cuts = json_array();
    trm_program_cut cut = {.size = sizeof cut};
    for (size_t c = 0; trm_program_smallest_cut_get(one->search, i, c, &cut); ++c) {
      json_array_append_new(cuts, cut_of(&cut));
    }
    json_array_append_new(
        smallest,
        json_pack("{s:s, s:o, s:I, s:o, s:I, s:I, s:s, s:o, s:o, s:o, s:o}", "with", s.with, "ipus",
                  s.ipus > 0 ? integer(s.ipus) : json_null(), "most_tried",
                  (json_int_t)s.most_tried, "nearest",
                  s.nearest > 0 ? integer(s.nearest) : json_null(), "worst_tile_bytes",
                  (json_int_t)s.worst_tile_bytes, "cycles", (json_int_t)s.cycles,
                  "fullest_shard_begins_with", s.fullest, "schedule",
                  s.mini_batches > 0 ? json_string(s.schedule) : json_null(), "mini_batches",
                  s.mini_batches > 0 ? integer(s.mini_batches) : json_null(),
                  "offload_weight_update_variables",
                  s.mini_batches > 0 ? json_boolean(s.offloads) : json_null(), "cuts", cuts));
  }
  json_object_set_new(object, "advice", advice);
  json_object_set_new(object, "smallest", smallest);
  json_object_set_new(object, "search_interrupted",
                      json_boolean(trm_program_search_stopped(one->search)));
}

/* Parts of the figures by kinds of op. */
static json_t *kinds_of(const plan_case *one) {
  json_t *list = json_array();
  trm_program_kind k = {.size = sizeof k};
  for (size_t i = 0; trm_program_kind_get(one->program, i, &k); ++i) {
    if (k.cycles == 0 && k.bytes == 0) continue;
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f}", "name", k.name, "cycles",
                        (json_int_t)k.cycles, "bytes", (json_int_t)k.bytes, "cycles_low",
                        k.cycles_low, "cycles_high", k.cycles_high, "bytes_low", k.bytes_low,
                        "bytes_high", k.bytes_high));
  }
  return list;
}

/* The largest variables that are alive when the fullest tile is fullest, on its IPU. */
static json_t *largest_of(const plan_case *one) {
  const trm_program_totals *t = &one->totals;
  trm_program_variable_info found[LARGEST], v = {.size = sizeof v};
  size_t count = 0;
  for (size_t i = 0; trm_program_variable_get(one->program, i, &v); ++i) {
    const bool is_live = v.always_live || (v.begin <= t->worst_step && t->worst_step < v.end);
    if (!is_live || v.ipu != t->worst_tile / t->tiles_per_ipu || v.worst_bytes == 0) continue;
    if (count == LARGEST && v.worst_bytes <= found[LARGEST - 1].worst_bytes) continue;
    size_t at = count < LARGEST ? count++ : LARGEST - 1;
    for (; at > 0 && found[at - 1].worst_bytes < v.worst_bytes; --at) found[at] = found[at - 1];
    found[at] = v;
  }
  json_t *list = json_array();
  for (size_t i = 0; i < count; ++i) {
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:I, s:I, s:I}", "name",
                        found[i].op_name[0] != '\0' ? found[i].op_name : found[i].name, "category",
                        trm_memory_category_name(found[i].category), "worst_bytes",
                        (json_int_t)found[i].worst_bytes, "total_bytes",
                        (json_int_t)found[i].total_bytes, "tiles", (json_int_t)found[i].tiles));
  }
  return list;
}

static json_t *each_ipu_of(const plan_case *one) {
  json_t *list = json_array();
  for (uint32_t ipu = 0; ipu < one->totals.num_ipus; ++ipu) {
    const plan_ipu o = plan_ipu_of(one, ipu);
    json_array_append_new(
        list, json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)o.bytes, "worst_tile_bytes",
                        (json_int_t)o.worst_tile_bytes, "cycles", (json_int_t)o.cycles));
  }
  return list;
}

/* Adds the details of a case that is shown in full. */
static void add_full(const plan_case *one, json_t *object) {
  json_t *cuts = json_array(), *notes = json_array();
  trm_program_cut cut = {.size = sizeof cut};
  const char *note;
  for (size_t i = 0; trm_program_cut_get(one->program, i, &cut); ++i) {
    json_array_append_new(cuts, cut_of(&cut));
  }
  for (size_t n = 0; (note = trm_program_note(one->program, n)) != NULL; ++n) {
    json_array_append_new(notes, json_string(note));
  }
  json_object_set_new(object, "cuts", cuts);
  json_object_set_new(object, "notes", notes);
  json_object_set_new(object, "layers", layers_of(one));
  json_object_set_new(object, "kinds", kinds_of(one));
  json_object_set_new(object, "largest", largest_of(one));
  json_object_set_new(object, "each_ipu", each_ipu_of(one));
  if (one->explanation != NULL) {
    json_object_set_new(object, "explanation", json_string(one->explanation));
    add_search(one, object);
  }
}

json_t *plan_case_json(const plan_answer *answer, const plan_case *one) {
  json_t *object = json_pack("{s:s, s:I}", "target", one->target, "ipus", (json_int_t)one->ipus);
  if (answer->request->num_instances > 0) {
    json_object_set_new(object, "instances", integer(one->instances));
  }
  if (one->batch > 0) json_object_set_new(object, "batch", integer(one->batch));
  if (answer->request->swept != NULL) {
    json_object_set_new(object, answer->request->swept, json_real(one->value));
  }
  if (one->problem[0] != '\0') {
    json_object_set_new(object, "problem", json_string(one->problem));
    return object;
  }
  const trm_program_totals *t = &one->totals;
  json_object_set_new(object, "fits", json_boolean(t->fits));
  json_object_set_new(object, "is_close", json_boolean(t->is_close));
  const int64_t end = t->fits ? t->worst_tile_bytes_high : t->worst_tile_bytes_low;
  json_object_set_new(
      object, "model_error",
      json_real(t->worst_tile_bytes > 0
                    ? fabs((double)(end - t->worst_tile_bytes)) / (double)t->worst_tile_bytes
                    : 0));
  json_object_set_new(object, "replicas", integer(t->replicas));
  json_object_set_new(object, "shards", integer(t->num_ipus));
  json_object_set_new(object, "tiles_per_ipu", integer(t->tiles_per_ipu));
  json_object_set_new(object, "memory", memory_of(one));
  json_object_set_new(object, "cycles", cycles_of(t));
  json_object_set_new(object, "tile_balance", json_real(t->tile_balance));
  json_object_set_new(object, "flops", integer(t->flops));
  json_object_set_new(object, "seconds", json_real(one->seconds));
  if (one->items > 0) {
    json_object_set_new(object, "items", integer(one->items));
    json_object_set_new(object, "items_per_second", json_real(one->items_per_second));
  }
  if (one->program != NULL) add_full(one, object);
  if (one->what_if != NULL) {
    json_object_set_new(object, "what_if", plan_what_if_json(answer, one));
  }
  return object;
}

static json_t *input_of(const plan_answer *answer) {
  const plan_case *one = plan_first_planned(answer);
  if (one == NULL || one->input.rank == 0) return json_null();
  json_t *dims = json_array();
  for (int32_t d = 0; d < one->input.rank; ++d) {
    json_array_append_new(dims, integer(one->input.dims[d]));
  }
  return json_pack("{s:s, s:s, s:o}", "name", one->input_name, "type",
                   trm_dtype_name(one->input.dtype), "shape", dims);
}

static json_t *parameters_of(const plan_answer *answer) {
  const plan_case *one = plan_first_planned(answer);
  if (one == NULL) return json_null();
  return json_pack("{s:I, s:I}", "count", (json_int_t)one->parameters, "bytes",
                   (json_int_t)one->parameter_bytes);
}

trm_status plan_print_json(const plan_answer *answer, FILE *out, trm_error *error) {
  const plan_request *request = answer->request;
  json_t *cases = json_array();
  bool fits = false;
  for (size_t c = 0; c < answer->num_cases; ++c) {
    fits |= answer->cases[c].totals.fits;
    json_array_append(cases, answer->cases[c].json);
  }
  json_t *root =
      json_pack("{s:i, s:s, s:b, s:o, s:o, s:o, s:o}", "format", 1, "model", request->model, "fits",
                (int)fits, "training",
                request->training != NULL ? json_string(request->training) : json_null(),
                "parameters", parameters_of(answer), "input", input_of(answer), "cases", cases);
  if (root != NULL && request->targets.count > 1) {
    json_object_set_new(root, "side_by_side", plan_targets_json(answer));
  }
  if (root == NULL) {
    return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory, or a name is no UTF-8");
  }
  const int failed = json_dumpf(root, out, JSON_INDENT(2));
  json_decref(root);
  if (failed != 0 || fputs("\n", out) < 0) return fail(error, TRM_UNAVAILABLE, "cannot write JSON");
  return TRM_OK;
}
