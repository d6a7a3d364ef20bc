/* Owns: profile.pop without its trace: target, programs, compute sets, variables, memory. */
#define _GNU_SOURCE
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "compile/executable.h"
#include "host/exec/residence.h"
#include "ipu/program/advice.h"
#include "ipu/target/target.h"
#include "report/database.h"
#include "report/schema.h"
#include "report/write.h"
#include "tremula/group.h"

/* An index, or -1 for TRM_NO_INDEX. */
static int64_t index_or_none(uint32_t index) { return index == TRM_NO_INDEX ? -1 : (int64_t)index; }

typedef struct row_writer {
  sqlite3 *database;
  sqlite3_stmt *statement;
} row_writer;

static trm_status begin(row_writer *rows, const char *sql, trm_error *error) {
  sqlite3_finalize(rows->statement);
  rows->statement = NULL;
  return trm_database_prepare(rows->database, sql, &rows->statement, error);
}
#define ROW(...) TRY(trm_database_insert(rows->statement, error, __VA_ARGS__))

/* This process among several. */
typedef struct instance {
  int64_t index, count;
  bool shares; /* one program has the replicas of all */
} instance;

/* The task of TF_CONFIG among the workers; false: there is none. */
static bool read_task(instance *out) {
  const char *text = getenv("TF_CONFIG");
  json_t *config = text != NULL ? json_loads(text, 0, NULL) : NULL;
  json_t *task = json_object_get(config, "task");
  out->count =
      (int64_t)json_array_size(json_object_get(json_object_get(config, "cluster"), "worker"));
  out->index = json_integer_value(json_object_get(task, "index"));
  out->shares = false;
  json_decref(config);
  return out->count > 0 && out->index >= 0 && out->index < out->count;
}

static instance find_instance(const trm_report_source *s) {
  if (s->num_processes > 1) return (instance){s->process, s->num_processes, true};
  instance found;
  if (read_task(&found)) return found;
  trm_group_place place;
  trm_group_get_place(&place);
  return (instance){place.rank, place.size, false};
}

/* Also a hash of the program, which does not depend on the target. */
static trm_status write_instance(const trm_report_source *s, row_writer *rows, trm_error *error) {
  const instance own = find_instance(s);
  const int64_t replicas = s->program->totals.replicas;
  char host[256] = "";
  if (gethostname(host, sizeof host) != 0) host[0] = '\0';
  host[sizeof host - 1] = '\0';
  ROW("ti", "instance", own.index);
  ROW("ti", "num_instances", own.count);
  ROW("ti", "replica_offset", own.index * (own.shares ? replicas / own.count : replicas));
  ROW("tt", "hostname", host);
  void *module; /* binary: a printed module would have every number of a frozen network */
  size_t size;
  TRY(trm_module_serialize(s->program->module, &module, &size, error));
  char hash[17];
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH3_64bits(module, size));
  trm_free(module);
  ROW("tt", "program_hash", hash);
  return TRM_OK;
}

static trm_status write_meta(const trm_report_source *s, row_writer *rows, trm_error *error) {
  TRY(begin(rows, "INSERT INTO meta VALUES(?,?)", error));
  ROW("ti", "format", (int64_t)TRM_PROFILE_FORMAT);
  ROW("tt", "producer", "Tremula " TRM_VERSION_STRING);
  ROW("tt", "timestamp", s->timestamp);
  ROW("tt", "module", s->program->module->name);
  ROW("tt", "framework", s->framework);
  ROW("tt", "framework_version", s->framework_version);
  ROW("tt", "debug_stream", s->debug.stream);
  ROW("tt", "debug_path", s->debug.path);
  const trm_region_kernel *region =
      s->executable != NULL ? trm_schedule_region(s->executable->schedule) : NULL;
  char named[320];
  if (region != NULL) {
    snprintf(named, sizeof named, "%s%s", trm_executable_accelerator(s->executable),
             region->precision);
    ROW("tt", "accelerator", named);
  }
  bool images;
  const double items = trm_program_items(s->program, &images);
  ROW("tt", "item", items == 0 ? "runs" : images ? "images" : "samples");
  ROW("tf", "items_per_run", items);
  ROW("ti", "debug_first", (int64_t)s->debug.first);
  TRY(write_instance(s, rows, error));
  for (int64_t n = 0; n < s->program->num_notes; ++n) {
    if (n == 0) TRY(begin(rows, "INSERT INTO notes VALUES(?,?)", error));
    ROW("it", n, s->program->notes[n]);
  }
  TRY(begin(rows, "INSERT INTO engine_options VALUES(?,?,?,?)", error));
  for (int o = 0; o < TRM_NUM_ENGINE_OPTIONS; ++o) {
    trm_report_option_row row = {.size = sizeof row};
    trm_report_option((size_t)o, &row);
    ROW("ttii", row.key, s->options->texts[o], (int64_t)s->options->given[o], (int64_t)row.acts);
  }
  return TRM_OK;
}

static trm_status write_target(const trm_report_source *s, row_writer *rows, trm_error *error) {
  const trm_target *target = s->program->target;
  const trm_program_totals *t = &s->program->totals;
  TRY(begin(rows, "INSERT INTO target VALUES(?,?)", error));
  ROW("tt", "type", s->is_model ? "IPU_MODEL" : "IPU");
  ROW("tt", "name", target->name);
  ROW("tt", "architecture", target->architecture);
  ROW("ti", "num_ipus", (int64_t)t->num_ipus * t->replicas);
  ROW("ti", "ipus_per_replica", (int64_t)t->num_ipus);
  ROW("ti", "num_replicas", (int64_t)t->replicas);
  ROW("ti", "tiles_per_ipu", (int64_t)t->tiles_per_ipu);
  ROW("ti", "num_tiles", (int64_t)t->num_ipus * t->replicas * t->tiles_per_ipu);
  ROW("ti", "bytes_per_tile", (int64_t)target->bytes_per_tile);
  ROW("ti", "bytes_per_ipu", (int64_t)target->bytes_per_tile * t->tiles_per_ipu);
  ROW("tf", "clock_frequency", target->clock_frequency);
  ROW("ti", "num_worker_contexts", (int64_t)target->num_worker_contexts);
  ROW("ti", "min_sync_delay", (int64_t)target->min_sync_delay);
  ROW("ti", "non_interleaved_bytes", (int64_t)trm_target_non_interleaved_bytes(target));
  if (target->floor_plan_columns > 0 && target->floor_plan_island_tiles > 0) {
    ROW("ti", "floor_plan_columns", (int64_t)target->floor_plan_columns);
    ROW("ti", "floor_plan_island_tiles", (int64_t)target->floor_plan_island_tiles);
  }
  TRY(begin(rows, "INSERT INTO ipus VALUES(?,?,?)", error));
  for (int64_t i = 0; i < t->num_ipus; ++i) {
    ROW("iii", i, i * t->tiles_per_ipu, (int64_t)t->tiles_per_ipu);
  }
  return TRM_OK;
}

static trm_status write_totals(const trm_report_source *s, row_writer *rows, trm_error *error) {
  const trm_program_totals *t = &s->program->totals;
  TRY(begin(rows, "INSERT INTO totals VALUES(?,?)", error));
#define TOTAL(name) ROW("ti", #name, (int64_t)t->name)
  TOTAL(fits);
  TOTAL(is_close);
  TOTAL(cycles);
  TOTAL(compute_cycles);
  TOTAL(copy_cycles);
  TOTAL(exchange_cycles);
  TOTAL(global_exchange_cycles);
  TOTAL(host_cycles);
  TOTAL(collective_cycles);
  TOTAL(sync_cycles);
  TOTAL(control_cycles);
  TOTAL(between_domains_cycles);
  TOTAL(overlapped_cycles);
  TOTAL(flops);
  TOTAL(memory_bytes);
  TOTAL(memory_bytes_with_gaps);
  TOTAL(always_live_bytes);
  TOTAL(max_step_bytes);
  TOTAL(worst_tile_bytes);
  TOTAL(worst_tile);
  TOTAL(worst_step);
  TOTAL(bytes_over);
  TOTAL(tiles_over);
  TOTAL(weights_bytes);
  TOTAL(remote_bytes);
  TOTAL(num_steps);
  TOTAL(num_compute_sets);
  TOTAL(num_variables);
  TOTAL(num_vertices);
  TOTAL(num_edges);
  TOTAL(host_bytes_in);
  TOTAL(host_bytes_out);
  TOTAL(code_bytes);
  TOTAL(load_bytes);
  TOTAL(load_cycles);
  TOTAL(cycles_low);
  TOTAL(cycles_high);
  TOTAL(worst_tile_bytes_low);
  TOTAL(worst_tile_bytes_high);
#undef TOTAL
  ROW("tt", "cycles_like", t->cycles_like);
  ROW("tt", "bytes_like", t->bytes_like);
  ROW("tf", "seconds", t->seconds);
  ROW("tf", "tile_balance", t->tile_balance);
  return TRM_OK;
}

static trm_status write_sources(const trm_report_source *s, row_writer *rows, trm_error *error) {
  const trm_program *p = s->program;
  TRY(begin(rows, "INSERT INTO sources VALUES(?,?,?,?,?,?,?,?,?,?,?,?)", error));
  const bool is_training = trm_report_is_training(p);
  for (int64_t i = 0; i < p->num_sources; ++i) {
    const trm_program_source *o = &p->sources[i];
    ROW("iittttttittt", i, s->debug.first == 0 ? 0 : (int64_t)s->debug.first + i, o->hlo_name,
        o->opcode, o->op_name, o->op_type, o->layer, o->file, (int64_t)o->line, o->plan, o->note,
        trm_report_role(o, is_training));
  }
  return TRM_OK;
}

static trm_status write_streams(const trm_report_streams *streams, row_writer *rows,
                                trm_error *error) {
  TRY(begin(rows, "INSERT INTO streams VALUES(?,?,?,?,?,?)", error));
  for (size_t i = 0; i < streams->list.count; ++i) {
    const trm_report_stream *o = &streams->list.items[i];
    ROW("itttif", (int64_t)i, o->name, o->kind, o->direction, index_or_none(o->source), o->bytes);
  }
  return TRM_OK;
}

static int64_t spread_bytes(const trm_spread *spread) {
  const trm_mapping mapping = trm_spread_mapping(spread);
  return trm_mapping_total_bytes(&mapping);
}

static trm_status write_steps(const trm_program *p, const trm_report_streams *streams,
                              row_writer *rows, trm_error *error) {
  TRY(begin(rows,
            "INSERT INTO programs VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,0,0)",
            error));
  for (int64_t i = 0; i < p->num_steps; ++i) {
    const trm_program_step *o = &p->steps[i];
    ROW("ittiiiiiiifiifiiiiiiiiiii", i, o->name, trm_program_step_type_name(o->type),
        index_or_none(o->parent), (int64_t)o->end, index_or_none(o->source),
        index_or_none(o->compute_set), (int64_t)o->ipu, (int64_t)o->stage, (int64_t)o->repeat_count,
        o->executions, o->cycles, o->sync_cycles, o->cycles_mean, (int64_t)o->active_tiles,
        o->bytes_in_total, o->bytes_in_worst, o->bytes_out_total, o->bytes_out_worst, o->flops,
        spread_bytes(&o->code), o->live_total, o->live_worst, (int64_t)o->live_worst_tile,
        streams->of_step[i]);
  }
  return TRM_OK;
}

static trm_status write_programs(const trm_report_source *s, row_writer *rows, trm_error *error) {
  trm_report_streams streams;
  TRY(trm_report_find_streams(s->program, &streams, error));
  trm_status status = write_steps(s->program, &streams, rows, error);
  if (status == TRM_OK) status = write_streams(&streams, rows, error);
  trm_report_free_streams(&streams);
  return status;
}

static trm_status write_compute_sets(const trm_report_source *s, row_writer *rows,
                                     trm_error *error) {
  const trm_program *p = s->program;
  TRY(begin(rows, "INSERT INTO compute_sets VALUES(?,?,?,?,?,?,?,?,?,?,?,0,0)", error));
  for (int64_t i = 0; i < p->num_compute_sets; ++i) {
    const trm_program_compute_set *o = &p->compute_sets[i];
    ROW("itiiiiiifii", i, o->name, index_or_none(o->source), (int64_t)o->ipu, o->vertices, o->edges,
        o->flops, o->cycles, o->cycles_mean, (int64_t)o->active_tiles,
        index_or_none(o->shared_with));
  }
  /* SQLite numbers the codelets; the index finds equal names. */
  TRY(trm_database_run(rows->database, "CREATE UNIQUE INDEX vertex_names ON vertex_types(name)",
                       error));
  TRY(begin(rows,
            "INSERT INTO vertex_types(name, code_bytes) VALUES(?,?) ON CONFLICT(name) DO "
            "UPDATE SET code_bytes = max(code_bytes, excluded.code_bytes)",
            error));
  for (uint32_t i = 0; i < p->num_compute_sets; ++i) {
    for (uint32_t g = 0; g < p->compute_sets[i].num_groups; ++g) {
      const trm_vertex_group *group = &p->compute_sets[i].groups[g];
      ROW("ti", group->codelet, (int64_t)group->code_bytes);
    }
  }
  TRY(begin(rows, "INSERT INTO vertices SELECT ?,id,?,?,? FROM vertex_types WHERE name = ?",
            error));
  for (int64_t i = 0; i < p->num_compute_sets; ++i) {
    for (uint32_t g = 0; g < p->compute_sets[i].num_groups; ++g) {
      const trm_vertex_group *group = &p->compute_sets[i].groups[g];
      ROW("iiiit", i, group->count, group->cycles, (int64_t)group->state_bytes, group->codelet);
    }
  }
  return TRM_OK;
}

static trm_status write_variables(const trm_report_source *s, row_writer *rows, trm_error *error) {
  const trm_program *p = s->program;
  TRY(begin(rows, "INSERT INTO variables VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", error));
  for (int64_t i = 0; i < p->num_variables; ++i) {
    const trm_program_variable *o = &p->variables[i];
    const uint32_t distribution = s->lowered.of_variable[i];
    ROW("ititiiiiiiiiiiiiii", i, o->name, index_or_none(o->source), trm_dtype_name(o->dtype),
        o->count, (int64_t)o->category, (int64_t)o->always_live, (int64_t)o->mapping.ipu,
        (int64_t)o->mapping.regions, o->worst_bytes,
        s->lowered.distributions.items.items[distribution].total, (int64_t)o->is_input,
        (int64_t)o->is_output, (int64_t)o->is_weight, (int64_t)o->interleaved,
        (int64_t)o->live.begin, (int64_t)o->live.end, (int64_t)distribution);
  }
  return TRM_OK;
}

static trm_status write_memory(const trm_report_source *s, row_writer *rows, trm_error *error) {
  const trm_program_memory *m = &s->program->memory;
  TRY(begin(rows, "INSERT INTO var_categories VALUES(?,?,?,?)", error));
  for (int64_t c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
    ROW("itii", c, trm_memory_category_name((trm_memory_category)c), (int64_t)m->is_always_live[c],
        (int64_t)trm_memory_may_interleave((trm_memory_category)c));
  }
  TRY(begin(rows, "INSERT INTO memory_by_tile VALUES(?,?,?,?,?,?,?,?,?,?)", error));
  for (int64_t t = 0; t < m->num_tiles; ++t) {
    const int64_t total = m->always_live[t] + m->not_always_live[t];
    ROW("iiiiiiiiii", t, t / s->program->tiles_per_ipu, total, total + m->gaps[t], m->gaps[t],
        m->always_live[t], m->not_always_live[t], m->interleaved[t], m->overflowed[t],
        (int64_t)m->peak_step[t]);
  }
  TRY(begin(rows, "INSERT INTO vars_info VALUES(?,?,?,?)", error));
  for (int64_t t = 0; t < m->num_tiles; ++t) {
    for (int64_t c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
      const int64_t always = s->lowered.always[c] == NULL ? 0 : s->lowered.always[c][t];
      const int64_t other = m->by_category[c][t] - always;
      if (always > 0) ROW("iiii", t, c, always, (int64_t)1);
      if (other > 0) ROW("iiii", t, c, other, (int64_t)0);
    }
  }
  return TRM_OK;
}

/* Writes the live bytes that are not always live, by IPU and step, where they change. */
static trm_status write_liveness(const trm_report_source *s, row_writer *rows, trm_error *error) {
  const trm_program *p = s->program;
  int64_t *changes = trm_allocate_zeroed((size_t)p->num_steps + 2, sizeof *changes);
  CHECK_MEMORY(changes, "liveness");
  trm_status status = begin(rows, "INSERT INTO liveness VALUES(?,?,?)", error);
  for (int64_t ipu = 0; ipu < p->num_ipus && status == TRM_OK; ++ipu) {
    memset(changes, 0, ((size_t)p->num_steps + 2) * sizeof *changes);
    for (uint32_t v = 0; v < p->num_variables; ++v) {
      const trm_program_variable *o = &p->variables[v];
      if (o->always_live || o->mapping.ipu != (uint32_t)ipu) continue;
      const int64_t bytes = s->lowered.distributions.items.items[s->lowered.of_variable[v]].total;
      changes[o->live.begin] += bytes;
      changes[o->live.end] -= bytes;
    }
    int64_t live = 0;
    for (int64_t step = 0; step < p->num_steps && status == TRM_OK; ++step) {
      live += changes[step];
      if (changes[step] == 0 && step > 0) continue;
      status = trm_database_insert(rows->statement, error, "iii", step, ipu, live);
    }
  }
  trm_free(changes);
  return status;
}

/* Writes advice on needing less memory, which takes further estimates: only when the program does
 * not fit, or the user asks for advice. */
static trm_status write_advice(const trm_report_source *s, row_writer *rows, trm_error *error) {
  if (s->program->totals.fits && !s->options->advice) return TRM_OK;
  TRY(begin(rows, "INSERT INTO advice VALUES(?,?,?,?,?,?,?)", error));
  trm_advice_list list = {0};
  trm_status status = trm_program_find_advice(s->program, &list, error);
  for (size_t i = 0; i < list.count && status == TRM_OK; ++i) {
    const trm_advice *o = &list.items[i];
    status = trm_database_insert(rows->statement, error, "itiiiii", (int64_t)i, o->text,
                                 o->worst_tile_bytes, o->saved, (int64_t)o->fits,
                                 (int64_t)o->num_ipus, o->cycles);
  }
  VECTOR_FREE(&list);
  return status;
}

static trm_status write_tables(trm_report_source *s, bool with_graph, row_writer *rows,
                               trm_error *error) {
  TRY(trm_database_run(rows->database, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN",
                       error));
  TRY(trm_database_run(rows->database, trm_report_schema, error));
  TRY(write_meta(s, rows, error));
  TRY(write_target(s, rows, error));
  TRY(write_totals(s, rows, error));
  TRY(write_sources(s, rows, error));
  TRY(write_programs(s, rows, error));
  TRY(write_compute_sets(s, rows, error));
  if (with_graph) {
    TRY(trm_report_write_tiles(s, rows->database, error));
    TRY(write_advice(s, rows, error));
    TRY(write_variables(s, rows, error));
    TRY(write_memory(s, rows, error));
    TRY(write_liveness(s, rows, error));
  }
  TRY(trm_report_write_trace(s->program, 0, rows->database, &s->num_rows, error));
  /* Later each run adds a row, and others may read the file meanwhile. */
  return trm_database_run(rows->database, "COMMIT; PRAGMA journal_mode = MEMORY", error);
}

trm_status trm_report_write_profile(trm_report_source *source, const char *path, bool with_graph,
                                    sqlite3 **out_database, trm_error *error) {
  row_writer rows = {0};
  trm_status status = TRM_OK;
  if (sqlite3_open_v2(path, &rows.database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
                      NULL) != SQLITE_OK) {
    status = trm_fail(error, TRM_UNAVAILABLE, "cannot make the profile %s: %s", path,
                      rows.database != NULL ? sqlite3_errmsg(rows.database) : "out of memory");
  }
  if (status == TRM_OK) status = write_tables(source, with_graph, &rows, error);
  sqlite3_finalize(rows.statement);
  if (status == TRM_OK) {
    *out_database = rows.database;
  } else {
    sqlite3_close(rows.database);
  }
  return status;
}
