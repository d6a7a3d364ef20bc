/* Owns: machine descriptions: their sources and accessors. */
#include "ipu/target/target.h"

#include <string.h>

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
                {"gc200", "mk2"}, {"m2000", "mk2"}, {"ipu21", "bow"}, {"bow-2000", "bow"},
                {"MK1", "mk1"},   {"MK2", "mk2"},   {"BOW", "bow"},   {"Bow", "bow"}};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    if (strcmp(name, others[i].other) == 0) name = others[i].name;
  }
  for (size_t i = 0; i < trm_target_num_texts; ++i) {
    if (strcmp(name, trm_target_texts[i].name) == 0) return &trm_target_texts[i];
  }
  return NULL;
}

/* ---- Answers --------------------------------------------------------------------------------- */

#define GETTER(type, getter, member) \
  type trm_target_##getter(const trm_target *target) { return target->member; }
GETTER(const char *, name, name)
GETTER(const char *, arch_string, architecture)
GETTER(const char *, system_string, system)
GETTER(uint64_t, hash, hash)
GETTER(uint32_t, num_ipus, num_ipus)
GETTER(uint32_t, tiles_per_ipu, tiles_per_ipu)
GETTER(uint32_t, num_worker_contexts, num_worker_contexts)
GETTER(uint32_t, bytes_per_tile, bytes_per_tile)
GETTER(double, tile_clock_frequency, clock_frequency)
GETTER(uint32_t, data_path_width, data_path_width)
GETTER(uint32_t, instruction_bytes, instruction_bytes)
GETTER(uint32_t, rpt_count_max, rpt_count_max)
GETTER(uint32_t, interleaved_memory_element_index, interleaved_element_index)
GETTER(uint32_t, exchange_bytes_per_cycle, exchange_bytes_per_cycle)
GETTER(uint32_t, memcpy_bytes_per_cycle, memcpy_bytes_per_cycle)
GETTER(bool, supports_exchange_bus_sharing, supports_bus_sharing)
GETTER(uint32_t, min_ipu_sync_delay, min_sync_delay)
GETTER(uint32_t, max_ipu_sync_delay, max_sync_delay)
GETTER(uint32_t, global_sync_cycles, global_sync_cycles)
GETTER(uint32_t, conv_unit_coeff_load_bytes_per_cycle, conv_unit_coefficient_load_bytes)
GETTER(double, ipu_link_bytes_per_second, ipu_link_bytes_per_second)
GETTER(uint32_t, ipu_link_domain_size, ipu_link_domain_size)
GETTER(double, host_bytes_per_second, host_bytes_per_second)
GETTER(double, streaming_memory_bytes_per_second, streaming_bytes_per_second)
GETTER(double, streaming_memory_bytes, streaming_bytes)

uint32_t trm_target_num_tiles(const trm_target *target) {
  return target->num_ipus * target->tiles_per_ipu; /* at most 2^26 */
}

uint64_t trm_target_memory_bytes(const trm_target *target) {
  return (uint64_t)trm_target_num_tiles(target) * target->bytes_per_tile;
}

const uint32_t *trm_target_memory_element_offsets(const trm_target *target, uint32_t *out_count) {
  *out_count = target->num_elements;
  return target->element_offsets;
}

uint32_t trm_target_type_size(const trm_target *target, trm_dtype dtype) {
  (void)target;
  const size_t size = trm_dtype_size(dtype);
  switch (dtype) {
    case TRM_S64:
    case TRM_U64: return 4;
    case TRM_F64:
    case TRM_C64:
    case TRM_C128: return 0;
    default: return (uint32_t)size;
  }
}

uint32_t trm_target_vector_width(const trm_target *target, trm_dtype dtype) {
  const uint32_t size = trm_target_type_size(target, dtype);
  return size == 0 ? 0 : target->data_path_width / 8 / size;
}

uint32_t trm_target_tiles_per_shared_exchange_bus(const trm_target *target) {
  return target->supports_bus_sharing ? target->tiles_per_super_tile : 1;
}

uint32_t trm_target_num_conv_units(const trm_target *target, trm_dtype input, trm_dtype partials) {
  if (input == TRM_F32 && partials == TRM_F32) return target->fp32_in_fp32_out_conv_units;
  if (input == TRM_F16 && partials == TRM_F32) return target->fp16_in_fp32_out_conv_units;
  if (input == TRM_F16 && partials == TRM_F16) return target->fp16_in_fp16_out_conv_units;
  return 0;
}

uint32_t trm_target_conv_unit_max_pipeline_depth(const trm_target *target, trm_dtype input) {
  switch (input) {
    case TRM_F32: return target->fp32_conv_unit_pipeline_depth;
    case TRM_F16: return target->fp16_conv_unit_pipeline_depth;
    default: return 0;
  }
}

uint32_t trm_target_conv_unit_input_load_elems_per_cycle(const trm_target *target,
                                                         trm_dtype input) {
  switch (input) {
    case TRM_F32: return target->fp32_conv_unit_load_elements;
    case TRM_F16: return target->fp16_conv_unit_load_elements;
    default: return 0;
  }
}

uint32_t trm_target_weights_per_conv_unit(const trm_target *target, trm_dtype input) {
  return trm_target_conv_unit_input_load_elems_per_cycle(target, input) *
         trm_target_conv_unit_max_pipeline_depth(target, input);
}

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
