/* Owns: made-up data that replaces data from the host. */
#include "synthetic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values ---- */

static uint64_t next_bits(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* From 0 up to but not including 1. */
static double next_uniform(uint64_t *state) { return (double)(next_bits(state) >> 11) * 0x1p-53; }

typedef enum distribution { CONSTANT, UNIFORM, NORMAL } distribution;

static double next_value(distribution kind, double constant, bool is_integer, uint64_t *state) {
  if (kind == CONSTANT) return constant;
  if (kind == UNIFORM) {
    const double value = next_uniform(state);
    return is_integer ? floor(value * 2) : value;
  }
  const double radius = sqrt(-2 * log(1 - next_uniform(state)));
  const double value = radius * cos(6.283185307179586 * next_uniform(state));
  return is_integer ? nearbyint(value) : value;
}

/* Clamps values to the range of an integer type. */
static double clamp(double value, double least, double most) {
  return value < least ? least : value > most ? most : value;
}

#define STORE(type, least, most) \
  ((type *)data)[i] = (type)clamp(value, (double)(least), (double)(most))

static void store(void *data, size_t i, trm_dtype dtype, double value) {
  switch (dtype) {
    case TRM_F64: ((double *)data)[i] = value; break;
    case TRM_F32: ((float *)data)[i] = (float)value; break;
#ifdef __FLT16_MAX__
    case TRM_F16: ((_Float16 *)data)[i] = (_Float16)(float)value; break;
#endif
    case TRM_PRED: ((uint8_t *)data)[i] = value != 0; break;
    case TRM_S8: STORE(int8_t, INT8_MIN, INT8_MAX); break;
    case TRM_S16: STORE(int16_t, INT16_MIN, INT16_MAX); break;
    case TRM_S32: STORE(int32_t, INT32_MIN, INT32_MAX); break;
    case TRM_S64: STORE(int64_t, -0x1p62, 0x1p62); break;
    case TRM_U8: STORE(uint8_t, 0, UINT8_MAX); break;
    case TRM_U16: STORE(uint16_t, 0, UINT16_MAX); break;
    case TRM_U32: STORE(uint32_t, 0, UINT32_MAX); break;
    case TRM_U64: STORE(uint64_t, 0, 0x1p63); break;
    default: break; /* stays zero */
  }
}

void trm_tf_synthetic_fill(void *data, const trm_tensor_info *info, const char *initializer,
                           uint64_t stream) {
  memset(data, 0, info->bytes);
  if (!initializer[0]) return;
  distribution kind = CONSTANT;
  double constant = 0;
  if (strcmp(initializer, "uniform") == 0 || strcmp(initializer, "random") == 0) kind = UNIFORM;
  else if (strcmp(initializer, "normal") == 0) kind = NORMAL;
  else constant = strtod(initializer, NULL); /* Python has checked it */
  const trm_dtype dtype = info->dtype;
  const bool is_integer = dtype != TRM_F16 && dtype != TRM_F32 && dtype != TRM_F64;
  const bool is_unsigned = dtype == TRM_U8 || dtype == TRM_U16 || dtype == TRM_U32 ||
                           dtype == TRM_U64 || dtype == TRM_PRED;
  const size_t size = trm_dtype_size(dtype);
  uint64_t state = stream * 0x9e3779b97f4a7c15u;
  for (size_t i = 0; size && i < info->bytes / size; ++i) {
    const double value = next_value(kind, constant, is_integer, &state);
    store(data, i, dtype, is_unsigned ? fabs(value) : value);
  }
}

/* ---- Arrays ---- */

void **trm_tf_synthetic_create(const trm_tensor_info *const *infos, size_t count,
                               const char *initializer, void **out_block) {
  size_t total = 64;
  for (size_t i = 0; i < count; ++i) total += (infos[i]->bytes + 63) / 64 * 64;
  void **arrays = trm_allocate_zeroed(count, sizeof *arrays);
  char *block = trm_allocate_aligned(total);
  if (!arrays || !block) {
    trm_free(arrays);
    trm_free(block);
    return NULL;
  }
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    arrays[i] = block + at;
    trm_tf_synthetic_fill(arrays[i], infos[i], initializer, i + 1);
    at += (infos[i]->bytes + 63) / 64 * 64;
  }
  *out_block = block;
  return arrays;
}

/* ---- Infeeds ---- */

static trm_status make_up(trm_tf_infeed *feed, const char *initializer, trm_error *error) {
  const trm_tensor_info **infos = trm_allocate_zeroed(feed->num_elements, sizeof *infos);
  CHECK_MEMORY(infos, "made-up elements");
  for (size_t i = 0; i < feed->num_elements; ++i) infos[i] = &feed->elements[i];
  void *block = NULL;
  void **arrays = trm_tf_synthetic_create(infos, feed->num_elements, initializer, &block);
  trm_free(infos);
  CHECK_MEMORY(arrays, "made-up elements");
  const trm_status status = trm_infeed_repeat(feed->queue, (const void *const *)arrays, error);
  trm_free(block);
  trm_free(arrays);
  return status;
}

trm_status trm_tf_synthetic_feed(trm_tf_infeed *feed, trm_error *error) {
  char initializer[TRM_TF_INITIALIZER_SIZE];
  const uint32_t bits = trm_tf_settings_synthetic(initializer);
  const bool wanted = bits & (TRM_SYNTHETIC_INFEED | TRM_TF_SYNTHETIC_NULL_FEED);
  const uint64_t generation = wanted ? trm_tf_settings_generation() : 0;
  trm_status status = TRM_OK;
  pthread_mutex_lock(&feed->lock);
  if (feed->made_up != generation && wanted) {
    status = make_up(feed, bits & TRM_SYNTHETIC_INFEED ? initializer : "", error);
  } else if (feed->made_up != generation) status = trm_infeed_repeat(feed->queue, NULL, error);
  if (status == TRM_OK) feed->made_up = generation;
  pthread_mutex_unlock(&feed->lock);
  return status;
}
