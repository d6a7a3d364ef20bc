/* A machine description, inside. Others read the members; only src/ipu/target writes them. */
#ifndef TREMULA_IPU_TARGET_TARGET_H_
#define TREMULA_IPU_TARGET_TARGET_H_

#include <stdatomic.h>

#include "base/memory.h"
#include "tremula/target.h"

enum { TRM_TARGET_MAX_ELEMENTS = 64 };

struct trm_target {
  atomic_uint_least32_t references;
  char name[65], architecture[17], system[65];
  uint64_t hash; /* of everything but the name */
#define COUNT uint32_t
#define REAL double
#define FLAG bool
#define OPTIONAL uint32_t
#define RATE double
#define TRM_FIELD(member, kind, key, least, most) kind member;
#include "ipu/target/fields.def"
#undef TRM_FIELD
#undef COUNT
#undef REAL
#undef FLAG
#undef OPTIONAL
#undef RATE
  /* Offsets in bytes of the memory elements of a tile, ascending, the first 0. */
  uint32_t num_elements;
  uint32_t element_offsets[TRM_TARGET_MAX_ELEMENTS];
};

/* Bytes of a tile below the interleaved region (all of them where there is none). */
uint32_t trm_target_non_interleaved_bytes(const trm_target *target);
/* The largest memory element in bytes. */
uint32_t trm_target_element_bytes(const trm_target *target);

/* A copy whose tiles have so many bytes. */
trm_status trm_target_with_memory(const trm_target *target, int64_t bytes_per_tile,
                                  trm_target **out_target, trm_error *error);

/* What an exchange within an IPU costs beside its bytes: the tiles sync (the slowest counts), then
 * messages are set up. */
static inline uint64_t trm_target_step_cycles(const trm_target *target) {
  return (uint64_t)target->max_sync_delay + target->exchange_phase_cycles;
}

/* A copy with the host of Poplar's IPU Model, which has no latency and one rate. */
trm_status trm_target_of_ipu_model(const trm_target *target, trm_target **out_target,
                                   trm_error *error);

/* Bytes a second that copies get of the links between IPUs. */
static inline double trm_target_link_rate(const trm_target *target) {
  return target->ipu_link_bytes_per_second * target->ipu_link_efficiency;
}

/* Cycles of a stream of so many bytes, which the IPU reads from the host or sends there. */
static inline double trm_target_host_cycles(const trm_target *target, bool reads, int64_t bytes) {
  const bool has_other_rate = !reads && target->host_out_bytes_per_second > 0;
  const double rate =
      has_other_rate ? target->host_out_bytes_per_second : target->host_bytes_per_second;
  return (target->host_latency_seconds + (double)bytes / rate) * target->clock_frequency;
}

/* The text of a preset (data/targets, compiled in); NULL past the last. */
typedef struct trm_target_text {
  const char *name, *text;
  size_t size;
} trm_target_text;
extern const trm_target_text trm_target_texts[];
extern const size_t trm_target_num_texts;

#endif /* TREMULA_IPU_TARGET_TARGET_H_ */
