/* Owns: machine descriptions: their sources and accessors. */
#include "ipu/target/target.h"

#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "ipu/target/parse.h"

/* ---- Life ------------------------------------------------------------------------------------ */

trm_status trm_target_new(trm_target **out_target, trm_error *error) {
  trm_target *target = trm_allocate_zeroed(1, sizeof *target);
  CHECK_MEMORY(target, "a machine description");
  atomic_init(&target->references, 1);
  *out_target = target;
  return TRM_OK;
}

void trm_target_copy(trm_target *to, const trm_target *from) {
  const size_t start = offsetof(trm_target, name);
  memcpy((char *)to + start, (const char *)from + start, sizeof *to - start);
}

void trm_target_retain(trm_target *target) {
  atomic_fetch_add_explicit(&target->references, 1, memory_order_relaxed);
}

void trm_target_release(trm_target *target) {
  if (target == NULL) return;
  if (atomic_fetch_sub_explicit(&target->references, 1, memory_order_acq_rel) == 1) {
    trm_free(target);
  }
}

/* ---- Presets --------------------------------------------------------------------------------- */

const char *trm_target_preset(size_t i) {
  return i < trm_target_num_texts ? trm_target_texts[i].name : NULL;
}

const trm_target_text *trm_target_find_text(const char *name) {
  static const struct {
    const char *other, *name;
  } others[] = {{"ipu1", "mk1"},  {"gc2", "mk1"},   {"c2", "mk1"},    {"ipu2", "mk2"},
                {"gc200", "mk2"}, {"m2000", "mk2"}, {"ipu21", "bow"}, {"bow-2000", "bow"}};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    if (strcmp(name, others[i].other) == 0) name = others[i].name;
  }
  for (size_t i = 0; i < trm_target_num_texts; ++i) {
    if (strcasecmp(name, trm_target_texts[i].name) == 0) return &trm_target_texts[i];
  }
  return NULL;
}

/* ---- Answers --------------------------------------------------------------------------------- */

uint32_t trm_target_non_interleaved_bytes(const trm_target *target) {
  return target->interleaved_element_index < target->num_elements
             ? target->element_offsets[target->interleaved_element_index]
             : target->bytes_per_tile;
}

uint32_t trm_target_element_bytes(const trm_target *target) {
  uint32_t most = 0, end = target->bytes_per_tile;
  for (uint32_t i = target->num_elements; i-- > 0;) {
    const uint32_t bytes = end - target->element_offsets[i];
    if (bytes > most) most = bytes;
    end = target->element_offsets[i];
  }
  return most;
}
