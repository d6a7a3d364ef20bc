/* Owns: making a plan: the checks, the cache, the bounds of memory that are tried. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>

#include "ipu/plan/internal.h"
#include "ipu/target/target.h"

/* All that a plan depends on. It is hashed, so key_of sets its padding bytes to zero. */
typedef struct plan_key {
  uint64_t target, constraints;
  int64_t numbers[8 + 8 * TRM_PLAN_MAX_DIMS];
  double proportion;
} plan_key;

typedef struct plan_entry {
  plan_key key;
  trm_linear_plan plan;
} plan_entry;

struct trm_plan_cache {
  VECTOR(plan_entry *) entries;
  uint32_t *slots; /* an entry's number + 1; 0: empty. A power of two, at most half full */
  size_t num_slots;
  uint64_t hits, misses;
  pthread_mutex_t lock; /* over all members above; an entry does not change */
  atomic_uint references;
};

trm_plan_cache *trm_plan_cache_create(void) {
  trm_plan_cache *cache = trm_allocate_zeroed(1, sizeof *cache);
  if (cache == NULL) return NULL;
  pthread_mutex_init(&cache->lock, NULL);
  atomic_init(&cache->references, 1);
  return cache;
}

trm_plan_cache *trm_plan_cache_retain(trm_plan_cache *cache) {
  atomic_fetch_add(&cache->references, 1);
  return cache;
}

void trm_plan_cache_release(trm_plan_cache *cache) {
  if (cache == NULL || atomic_fetch_sub(&cache->references, 1) > 1) return;
  pthread_mutex_destroy(&cache->lock);
  for (size_t i = 0; i < cache->entries.count; ++i) trm_free(cache->entries.items[i]);
  VECTOR_FREE(&cache->entries);
  trm_free(cache->slots);
  trm_free(cache);
}

void trm_plan_cache_counts(const trm_plan_cache *cache, uint64_t *out_hits, uint64_t *out_misses) {
  *out_hits = cache->hits;
  *out_misses = cache->misses;
}

bool trm_plan_cache_exceeds(trm_plan_cache *cache, const trm_target *target, double proportion) {
  const double allowed = proportion * (double)target->bytes_per_tile;
  bool exceeds = false;
  pthread_mutex_lock(&cache->lock);
  for (size_t i = 0; i < cache->entries.count && !exceeds; ++i) {
    const plan_entry *o = cache->entries.items[i];
    exceeds = o->key.proportion > proportion && (o->plan.fit != TRM_FIT_TARGET || !o->plan.exact ||
                                                 (double)o->plan.temp_bytes > allowed);
  }
  pthread_mutex_unlock(&cache->lock);
  return exceeds;
}

static plan_key key_of(const trm_target *target, const trm_conv_params *canonical,
                       const trm_plan_options *options) {
  plan_key key;
  memset(&key, 0, sizeof key);
  key.target = target->hash;
  if (options->constraints != NULL && *options->constraints != '\0') {
    key.constraints = XXH3_64bits(options->constraints, strlen(options->constraints)) | 1;
  }
  key.proportion = options->available_memory_proportion;
  int64_t *n = key.numbers;
  *n++ = (int64_t)canonical->input_type << 32 | canonical->output_type;
  *n++ = canonical->groups;
  *n++ = canonical->batch;
  *n++ = canonical->in_channels;
  *n++ = canonical->out_channels;
  *n++ = canonical->num_dims | (int64_t)canonical->first_is_weights << 8;
  *n++ = (int64_t)options->partials_type << 32 | options->inter_tile_partials_type;
  *n++ = (int64_t)options->pass << 3 | options->use_128bit_conv_unit_load << 2 |
         options->enable_multi_stage_reduce << 1 | options->enable_fast_reduce;
  for (uint32_t d = 0; d < canonical->num_dims; ++d) {
    const trm_conv_dim *dim = &canonical->dims[d];
    const int64_t fields[8] = {dim->input,           dim->kernel,   dim->stride,
                               dim->pad_low,         dim->pad_high, dim->input_dilation,
                               dim->kernel_dilation, dim->outer};
    memcpy(n, fields, sizeof fields);
    n += 8;
  }
  return key;
}

static size_t slot_of(const trm_plan_cache *cache, const plan_key *key) {
  size_t slot = XXH3_64bits(key, sizeof *key) & (cache->num_slots - 1);
  while (cache->slots[slot] != 0 &&
         memcmp(&cache->entries.items[cache->slots[slot] - 1]->key, key, sizeof *key) != 0) {
    slot = (slot + 1) & (cache->num_slots - 1);
  }
  return slot;
}

/* The plan of this key, which stays as long as the cache; or NULL. */
static const trm_linear_plan *find(trm_plan_cache *cache, const plan_key *key) {
  const plan_entry *entry = NULL;
  pthread_mutex_lock(&cache->lock);
  if (cache->num_slots > 0) {
    const size_t slot = slot_of(cache, key);
    if (cache->slots[slot] != 0) entry = cache->entries.items[cache->slots[slot] - 1];
  }
  if (entry != NULL) ++cache->hits;
  else ++cache->misses;
  pthread_mutex_unlock(&cache->lock);
  return entry == NULL ? NULL : &entry->plan;
}

static trm_status insert_locked(trm_plan_cache *cache, const plan_key *key,
                                const trm_linear_plan *plan, trm_error *error) {
  if (2 * (cache->entries.count + 1) > cache->num_slots) {
    const size_t grown = cache->num_slots == 0 ? 64 : 2 * cache->num_slots;
    uint32_t *slots = trm_allocate_zeroed(grown, sizeof *slots);
    CHECK_MEMORY(slots, "a cache of plans");
    trm_free(cache->slots);
    cache->slots = slots;
    cache->num_slots = grown;
    for (size_t i = 0; i < cache->entries.count; ++i) {
      cache->slots[slot_of(cache, &cache->entries.items[i]->key)] = (uint32_t)i + 1;
    }
  }
  plan_entry *entry = trm_allocate(sizeof *entry);
  CHECK_MEMORY(entry, "a cache of plans");
  entry->key = *key;
  entry->plan = *plan;
  if (!VECTOR_PUSH(&cache->entries, entry)) {
    trm_free(entry);
    FAIL_NO_MEMORY("a cache of plans");
  }
  cache->slots[slot_of(cache, key)] = (uint32_t)cache->entries.count;
  return TRM_OK;
}

/* Two threads may have made the same plan: the later one replaces the earlier in the table. */
static trm_status insert(trm_plan_cache *cache, const plan_key *key, const trm_linear_plan *plan,
                         trm_error *error) {
  pthread_mutex_lock(&cache->lock);
  const trm_status status = insert_locked(cache, key, plan, error);
  pthread_mutex_unlock(&cache->lock);
  return status;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static trm_status check_options(const trm_plan_options *options, trm_error *error) {
  if (!(options->available_memory_proportion >= 0 && options->available_memory_proportion <= 1)) {
    FAIL(INVALID_ARGUMENT, "availableMemoryProportion is %g; it must be from 0 to 1",
         options->available_memory_proportion);
  }
  const trm_dtype types[] = {options->partials_type, options->inter_tile_partials_type};
  for (size_t i = 0; i < 2; ++i) {
    if (types[i] != TRM_F16 && types[i] != TRM_F32) {
      FAIL(INVALID_ARGUMENT, "partialsType is %s; it must be f16 (half) or f32 (float)",
           trm_dtype_name(types[i]));
    }
  }
  return TRM_OK;
}

static trm_status plan_new(const trm_target *target, const trm_conv_params *canonical,
                           const trm_plan_options *options, trm_linear_plan *out,
                           trm_error *error) {
  plan_constraints constraints;
  TRY(plan_constraints_parse(options->constraints, &constraints, error));
  memset(out, 0, sizeof *out);
  const int64_t tile = target->bytes_per_tile;
  const int64_t allowed = (int64_t)(options->available_memory_proportion * (double)tile);
  plan_result result, least;
  int64_t bound = allowed;
  out->fit = TRM_FIT_TARGET;
  TRY(plan_search(target, canonical, options, &constraints, bound, NULL, &result, error));
  out->candidates = result.candidates;
  if (!result.found) {
    /* The least bytes of any plan tell which doubled bound, up to two tiles, a plan can meet. */
    TRY(plan_search(target, canonical, options, &constraints, -1, NULL, &least, error));
    out->candidates += least.candidates;
    if (!least.found) {
      FAIL(INVALID_ARGUMENT, "no plan keeps the planConstraints %s", options->constraints);
    }
    while (bound > 0 && bound < 2 * tile && bound < least.choice.temp) {
      bound = plan_min(2 * bound, 2 * tile);
    }
    if (bound > 0 && bound >= least.choice.temp) {
      out->fit = TRM_FIT_RAISED;
      TRY(plan_search(target, canonical, options, &constraints, bound, &least.choice, &result,
                      error));
      out->candidates += result.candidates;
    } else {
      out->fit = TRM_FIT_LEAST;
      bound = 0;
      result = least;
    }
  }
  out->bytes_allowed = (uint64_t)allowed;
  out->fit_bound = (uint64_t)bound;
  plan_describe(&result.choice, canonical, out);
  out->exact = result.open_bound == UINT64_MAX;
  const uint64_t reached = out->fit == TRM_FIT_LEAST ? out->temp_bytes : out->cycles;
  out->lower_bound = result.open_bound < reached ? result.open_bound : reached;
  return TRM_OK;
}

trm_status trm_linear_plan_make(const trm_target *target, const trm_conv_params *params,
                                const trm_plan_options *options, trm_plan_cache *cache,
                                trm_linear_plan *out_plan, trm_error *error) {
  TRY(plan_check_params(params, error));
  TRY(check_options(options, error));
  const trm_conv_params canonical = plan_canonical(params);
  if (cache == NULL) {
    trm_linear_plan plan;
    TRY(plan_new(target, &canonical, options, &plan, error));
    *out_plan = plan;
    return TRM_OK;
  }
  const plan_key key = key_of(target, &canonical, options);
  const trm_linear_plan *known = find(cache, &key);
  if (known != NULL) {
    *out_plan = *known;
    return TRM_OK;
  }
  trm_linear_plan plan;
  TRY(plan_new(target, &canonical, options, &plan, error));
  TRY(insert(cache, &key, &plan, error));
  *out_plan = plan;
  return TRM_OK;
}
