/* Owns: the log of plans (POPLIBS_LOG_LEVEL): the plan of each operation and its cost. */
#include "base/cycles.h"
#include "ipu/program/draft.h"
#include "tremula/log.h"

static const char origin[] = "POPLIBS";

typedef struct price {
  int64_t cycles;    /* of one run */
  int64_t temporary; /* bytes of its worst tile: buffers, partials */
} price;

static bool is_planned(const trm_program_source *source) {
  return source->plan != NULL || source->note != NULL;
}

static price *add_up(const trm_program *p) {
  price *prices = trm_allocate_zeroed((size_t)p->num_sources + 1, sizeof *prices);
  if (prices == NULL) return NULL;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const trm_program_step *step = &p->steps[s];
    if (step->source == TRM_NO_INDEX || step->end != s + 1) continue;
    int64_t *cycles = &prices[step->source].cycles;
    *cycles = trm_add_cycles(*cycles, trm_limit_cycles((double)step->cycles * step->executions));
  }
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *variable = &p->variables[v];
    if (variable->source == TRM_NO_INDEX || variable->always_live ||
        variable->category == TRM_CATEGORY_VARIABLE) {
      continue;
    }
    prices[variable->source].temporary += variable->worst_bytes;
  }
  return prices;
}

static void log_steps(const trm_program *p) {
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const trm_program_step *step = &p->steps[s];
    if (step->end != s + 1) continue;
    trm_log(TRM_LOG_TRACE, origin, "%s %s: %lld cycles on %u tiles, %.10g times",
            trm_program_step_type_name(step->type), step->name, (long long)step->cycles,
            step->active_tiles, step->executions);
  }
}

void trm_program_log_plans(const trm_program *p) {
  if (!trm_log_enabled(TRM_LOG_INFO, origin)) return;
  price *prices = add_up(p);
  if (prices == NULL) return;
  for (uint32_t i = 0; i < p->num_sources; ++i) {
    const trm_program_source *source = &p->sources[i];
    const char *name = source->op_name[0] != '\0' ? source->op_name : source->hlo_name;
    if (source->plan != NULL) {
      trm_log(TRM_LOG_INFO, origin, "%s (%s): %s; %lld cycles, %lld temporary bytes on a tile",
              name, source->hlo_name, source->plan, (long long)prices[i].cycles,
              (long long)prices[i].temporary);
    }
    if (source->note != NULL) trm_log(TRM_LOG_INFO, origin, "%s: %s", name, source->note);
    if (!is_planned(source)) {
      trm_log(TRM_LOG_DEBUG, origin, "%s (%s): %lld cycles, %lld temporary bytes on a tile", name,
              source->hlo_name, (long long)prices[i].cycles, (long long)prices[i].temporary);
    }
  }
  trm_free(prices);
  if (trm_log_enabled(TRM_LOG_TRACE, origin)) log_steps(p);
  trm_log(TRM_LOG_INFO, origin, "planned %s: %lld cycles, %lld bytes on the fullest tile of %lld%s",
          p->module->name, (long long)p->totals.cycles, (long long)p->totals.worst_tile_bytes,
          (long long)p->totals.bytes_per_tile, p->totals.fits ? "" : ", which is too much");
}
