/* Owns: cycles, code and vertex state by tile in profile.pop.
 *
 * The estimate knows the worst tile's cycles, the mean, and the number of active tiles. Which tiles
 * are active, and how their cycles differ, is derived from the result that the program writes. If
 * the result lies on as many tiles as are active, a tile's cycles are
 *     worst - k (most bytes of the result on a tile - its bytes there),
 * with k such that the mean holds. Otherwise the first tile takes the worst, and the other active
 * tiles share the rest. docs/profile_format.md tells readers so. */
#include <math.h>
#include <string.h>

#include "ipu/tile/exchange.h"
#include "report/database.h"
#include "report/distributions.h"
#include "report/write.h"

typedef struct by_tile {
  const trm_program *program;
  trm_distributions cycles, bytes;
  uint32_t *results; /* by source: the variable with its result, or TRM_NO_INDEX */
  int64_t *result;   /* by tile of an IPU: bytes of the result */
  int64_t *values;   /* by tile of an IPU */
} by_tile;

static trm_status begin(by_tile *b, const trm_program *program, trm_error *error) {
  *b = (by_tile){.program = program};
  b->results = trm_allocate_zeroed((size_t)program->num_sources + 1, sizeof *b->results);
  b->result = trm_allocate_zeroed(program->tiles_per_ipu, sizeof *b->result);
  b->values = trm_allocate_zeroed(program->tiles_per_ipu, sizeof *b->values);
  if (b->results == NULL || b->result == NULL || b->values == NULL)
    FAIL_NO_MEMORY("cycles by tile");
  for (uint32_t s = 0; s < program->num_sources; ++s) b->results[s] = TRM_NO_INDEX;
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_program_variable *o = &program->variables[v];
    if (o->source == TRM_NO_INDEX || o->category != TRM_CATEGORY_VARIABLE) continue;
    uint32_t *known = &b->results[o->source];
    if (*known == TRM_NO_INDEX) *known = v;
  }
  return TRM_OK;
}

static void end(by_tile *b) {
  trm_distributions_free(&b->cycles);
  trm_distributions_free(&b->bytes);
  trm_free(b->results);
  trm_free(b->result);
  trm_free(b->values);
}

/* Gives the first active tile the worst, and each other one an equal share of the rest of `sum`. */
static void share_rest(int64_t *values, uint32_t tiles, int64_t worst, int64_t sum,
                       uint32_t active) {
  int64_t each = active > 1 ? trm_most(0, sum - worst) / (active - 1) : 0;
  if (each > worst) each = worst;
  for (uint32_t t = 0, done = 0; t < tiles; ++t) {
    if (values[t] == 0 || done == active) {
      values[t] = 0;
      continue;
    }
    values[t] = done++ == 0 ? worst : each;
  }
}

/* Derives cycles from the bytes of the result. False: the result lies on another number of
 * tiles. */
static bool follow_result(by_tile *b, uint32_t source, int64_t worst, int64_t sum,
                          uint32_t active) {
  const trm_program *p = b->program;
  const uint32_t v = source == TRM_NO_INDEX ? TRM_NO_INDEX : b->results[source];
  if (v == TRM_NO_INDEX || p->variables[v].mapping.kind == TRM_MAPPING_NONE) return false;
  const uint32_t tiles = p->tiles_per_ipu;
  memset(b->result, 0, tiles * sizeof *b->result);
  trm_mapping_add_bytes(&p->variables[v].mapping, 1, 4, b->result);
  int64_t most = 0, less = 0;
  uint32_t used = 0;
  for (uint32_t t = 0; t < tiles; ++t) {
    if (b->result[t] > most) most = b->result[t];
    used += b->result[t] > 0;
  }
  if (used != active) return false;
  for (uint32_t t = 0; t < tiles; ++t) {
    b->values[t] = b->result[t] > 0;
    if (b->result[t] > 0) less += most - b->result[t];
  }
  const double missing = (double)worst * active - (double)sum;
  const double k = less > 0 ? missing / (double)less : 0;
  if (missing > active && (less == 0 || k * (double)most > (double)worst)) {
    share_rest(b->values, tiles, worst, sum, active);
    return true;
  }
  for (uint32_t t = 0; t < tiles; ++t) {
    if (b->result[t] == 0) continue;
    b->values[t] = worst - (int64_t)llround(k * (double)(most - b->result[t]));
  }
  return true;
}

static trm_status add_cycles(by_tile *b, uint32_t source, uint32_t ipu, int64_t worst, double mean,
                             uint32_t active, uint32_t *out_index, trm_error *error) {
  const uint32_t tiles = b->program->tiles_per_ipu;
  const double total = mean * tiles;
  const int64_t sum = total < 9e18 ? llround(total) : INT64_MAX;
  if (active > tiles) active = tiles;
  if (worst <= 0 || active == 0) {
    return trm_distributions_add(&b->cycles, b->values, 0, 0, out_index, error);
  }
  if (!follow_result(b, source, worst, sum, active)) {
    for (uint32_t t = 0; t < tiles; ++t) b->values[t] = 1;
    share_rest(b->values, tiles, worst, sum, active);
  }
  return trm_distributions_add(&b->cycles, b->values, tiles, ipu * tiles, out_index, error);
}

static trm_status add_bytes(by_tile *b, const trm_spread *spread, uint32_t *out_index,
                            trm_error *error) {
  const uint32_t tiles = b->program->tiles_per_ipu;
  const trm_mapping mapping = trm_spread_mapping(spread);
  if (mapping.kind == TRM_MAPPING_NONE) {
    return trm_distributions_add(&b->bytes, b->values, 0, 0, out_index, error);
  }
  memset(b->values, 0, tiles * sizeof *b->values);
  trm_mapping_add_bytes(&mapping, 1, 4, b->values);
  return trm_distributions_add(&b->bytes, b->values, tiles, spread->ipu * tiles, out_index, error);
}

static trm_status write_runs(const trm_distributions *d, sqlite3 *database, const char *sql,
                             trm_error *error) {
  sqlite3_stmt *insert;
  TRY(trm_database_prepare(database, sql, &insert, error));
  trm_status status = TRM_OK;
  for (size_t i = 0; i < d->items.count; ++i) {
    const trm_distribution *o = &d->items.items[i];
    for (uint32_t r = 0; r < o->num_runs && status == TRM_OK; ++r) {
      const trm_tile_run *run = &d->runs.items[o->first_run + r];
      status = trm_database_insert(insert, error, "iiii", (int64_t)i, (int64_t)run->first_tile,
                                   (int64_t)run->num_tiles, run->value);
    }
  }
  sqlite3_finalize(insert);
  return status;
}

static trm_status update(sqlite3_stmt *statement, int64_t id, uint32_t cycles, uint32_t bytes,
                         trm_error *error) {
  return trm_database_insert(statement, error, "iii", (int64_t)cycles, (int64_t)bytes, id);
}

/* The cycles of a compute set are those of its program. */
static trm_status write_compute_sets(by_tile *b, sqlite3_stmt *statement, uint32_t *of_set,
                                     trm_error *error) {
  const trm_program *p = b->program;
  for (uint32_t i = 0; i < p->num_compute_sets; ++i) {
    const trm_program_compute_set *o = &p->compute_sets[i];
    uint32_t state;
    TRY(add_cycles(b, o->source, o->ipu, o->cycles, o->cycles_mean, o->active_tiles, &of_set[i],
                   error));
    TRY(add_bytes(b, &o->state, &state, error));
    TRY(update(statement, i, of_set[i], state, error));
  }
  return TRM_OK;
}

static bool is_leaf(const trm_program *p, uint32_t s) { return p->steps[s].end == s + 1; }

static trm_status write_programs(by_tile *b, sqlite3_stmt *statement, const uint32_t *of_set,
                                 trm_error *error) {
  const trm_program *p = b->program;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const trm_program_step *o = &p->steps[s];
    uint32_t cycles = 0, code;
    if (o->compute_set != TRM_NO_INDEX) {
      cycles = of_set[o->compute_set];
    } else if (is_leaf(p, s)) {
      TRY(add_cycles(b, o->source, o->ipu < 0 ? 0 : (uint32_t)o->ipu, o->cycles - o->sync_cycles,
                     o->cycles_mean, o->active_tiles, &cycles, error));
    }
    TRY(add_bytes(b, &o->code, &code, error));
    TRY(update(statement, s, cycles, code, error));
  }
  return TRM_OK;
}

static trm_status write(by_tile *b, sqlite3 *database, trm_error *error) {
  uint32_t *of_set = trm_allocate_zeroed((size_t)b->program->num_compute_sets + 1, sizeof *of_set);
  sqlite3_stmt *statement = NULL;
  trm_status status = TRM_OK;
  if (of_set == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for cycles by tile");
  TRY_OR_GOTO(trm_database_prepare(database,
                                   "UPDATE compute_sets SET tile_cycles = ?, state_by_tile = ?"
                                   " WHERE compute_set = ?",
                                   &statement, error),
              done);
  TRY_OR_GOTO(write_compute_sets(b, statement, of_set, error), done);
  sqlite3_finalize(statement);
  statement = NULL;
  TRY_OR_GOTO(trm_database_prepare(
                  database, "UPDATE programs SET tile_cycles = ?, code_by_tile = ? WHERE id = ?",
                  &statement, error),
              done);
  TRY_OR_GOTO(write_programs(b, statement, of_set, error), done);
  TRY_OR_GOTO(write_runs(&b->cycles, database, "INSERT INTO tile_cycles VALUES(?,?,?,?)", error),
              done);
  TRY_OR_GOTO(write_runs(&b->bytes, database, "INSERT INTO tile_bytes VALUES(?,?,?,?)", error),
              done);
done:
  sqlite3_finalize(statement);
  trm_free(of_set);
  return status;
}

trm_status trm_report_write_tiles(const trm_report_source *source, sqlite3 *database,
                                  trm_error *error) {
  by_tile b;
  trm_status status = begin(&b, source->program, error);
  if (status == TRM_OK) status = write(&b, database, error);
  end(&b);
  return status;
}
