/* Targets: descriptions of the machine that a program is planned for.
 *
 *     trm_target *target;
 *     trm_target_load("bow", &target, &error);     a preset, or a JSON file
 *     ... trm_target_tiles_per_ipu(target) ...
 *     trm_target_release(target);
 *
 * A target is data. Three descriptions come with the library: `mk1` (GC2), `mk2` (GC200) and `bow`;
 * a JSON file can describe others, whole or as changes to one of these (docs/targets.md says what
 * each key means, its unit, and where its value was found). Getters have the names that Poplar
 * gives to the same facts. Targets are immutable and counted; every function may be called from
 * any thread.
 *
 * Stability. A target is opaque. New facts come as new getters; the getters here stay as they are
 * until the soname changes.
 */
#ifndef TREMULA_TARGET_H_
#define TREMULA_TARGET_H_

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trm_target trm_target;

/* Loads a description: the name of a preset (also "ipu1", "ipu2", "ipu21", "bow-2000"), or the path
 * of a JSON file (a name that contains '/' or ends in ".json"). NULL: mk2. Fails for an unknown key
 * and for a value of the wrong kind or out of bounds; the message names it. Release the target with
 * trm_target_release. */
TRM_API trm_status trm_target_load(const char *name_or_path, trm_target **out_target,
                                   trm_error *error);
/* The same from JSON text. `source` names the text in messages; it may be NULL. */
TRM_API trm_status trm_target_parse(const void *data, size_t size, const char *source,
                                    trm_target **out_target, trm_error *error);
/* A copy with another number of IPUs and of tiles on each IPU (ipu_model.tiles_per_ipu); 0 keeps a
 * number. */
TRM_API trm_status trm_target_resize(const trm_target *target, uint32_t num_ipus,
                                     uint32_t tiles_per_ipu, trm_target **out_target,
                                     trm_error *error);
/* Targets are reference-counted. NULL may be released. */
TRM_API void trm_target_retain(trm_target *target);
TRM_API void trm_target_release(trm_target *target);

/* The i-th preset's name; NULL past the last. */
TRM_API const char *trm_target_preset(size_t i);
/* The name; the architecture: "ipu1", "ipu2", "ipu21" or what a file says; the system, such as
 * "M2000". */
TRM_API const char *trm_target_name(const trm_target *target);
TRM_API const char *trm_target_arch_string(const trm_target *target);
TRM_API const char *trm_target_system_string(const trm_target *target);
/* For caches: targets with equal numbers have equal hashes, whatever their names. */
TRM_API uint64_t trm_target_hash(const trm_target *target);

/* ---- Tiles and memory ------------------------------------------------------------------------ */

TRM_API uint32_t trm_target_num_ipus(const trm_target *target);
TRM_API uint32_t trm_target_tiles_per_ipu(const trm_target *target);
/* On all IPUs. */
TRM_API uint32_t trm_target_num_tiles(const trm_target *target);
/* Workers of a tile, without its supervisor. */
TRM_API uint32_t trm_target_num_worker_contexts(const trm_target *target);
TRM_API uint32_t trm_target_bytes_per_tile(const trm_target *target);
/* Bytes of all tiles of all IPUs. */
TRM_API uint64_t trm_target_memory_bytes(const trm_target *target);
/* Hz. */
TRM_API double trm_target_tile_clock_frequency(const trm_target *target);
/* Bits. */
TRM_API uint32_t trm_target_data_path_width(const trm_target *target);
/* Bytes of one instruction. */
TRM_API uint32_t trm_target_instruction_bytes(const trm_target *target);
/* The largest number of iterations of a hardware loop. */
TRM_API uint32_t trm_target_rpt_count_max(const trm_target *target);
/* The offsets, in bytes, of the memory elements of a tile. The array has *out_count entries and
 * lives as long as the target. */
TRM_API const uint32_t *trm_target_memory_element_offsets(const trm_target *target,
                                                          uint32_t *out_count);
/* The number of the first element of interleaved memory; without one, the number of elements. */
TRM_API uint32_t trm_target_interleaved_memory_element_index(const trm_target *target);
/* Elements of a type in a vector of the data path; 0 for a type that the target does not have. */
TRM_API uint32_t trm_target_vector_width(const trm_target *target, trm_dtype dtype);
/* Bytes of an element on the target, which keeps 64-bit integers in 32 bits; 0 for a type that the
 * target does not have. */
TRM_API uint32_t trm_target_type_size(const trm_target *target, trm_dtype dtype);

/* ---- Exchange, copies, sync ------------------------------------------------------------------ */

/* Bytes that a tile receives, and sends, in a cycle. */
TRM_API uint32_t trm_target_exchange_bytes_per_cycle(const trm_target *target);
/* Bytes that a tile copies in its own memory in a cycle. */
TRM_API uint32_t trm_target_memcpy_bytes_per_cycle(const trm_target *target);
/* Whether the tiles of a super-tile may receive the same data over both buses, at twice the
 * speed. */
TRM_API bool trm_target_supports_exchange_bus_sharing(const trm_target *target);
/* Tiles of a super-tile; 1 without sharing. */
TRM_API uint32_t trm_target_tiles_per_shared_exchange_bus(const trm_target *target);
/* Cycles of a sync within an IPU, for the tile nearest to the sync controller and for the farthest;
 * cycles of a sync of several IPUs. */
TRM_API uint32_t trm_target_min_ipu_sync_delay(const trm_target *target);
TRM_API uint32_t trm_target_max_ipu_sync_delay(const trm_target *target);
TRM_API uint32_t trm_target_global_sync_cycles(const trm_target *target);

/* ---- Convolution units ----------------------------------------------------------------------- */

/* Convolution units of a tile for inputs of type `input` and partial sums of type `partials`; 0:
 * none. */
TRM_API uint32_t trm_target_num_conv_units(const trm_target *target, trm_dtype input,
                                           trm_dtype partials);
/* Loads that fill a unit. This and the next two functions give 0 for a type that the units do not
 * take. */
TRM_API uint32_t trm_target_conv_unit_max_pipeline_depth(const trm_target *target, trm_dtype input);
/* Elements that a unit loads in a cycle. */
TRM_API uint32_t trm_target_conv_unit_input_load_elems_per_cycle(const trm_target *target,
                                                                 trm_dtype input);
/* Weights that a unit holds: elements loaded in a cycle times loads. */
TRM_API uint32_t trm_target_weights_per_conv_unit(const trm_target *target, trm_dtype input);
/* Bytes of weights that a tile loads into its units in a cycle. */
TRM_API uint32_t trm_target_conv_unit_coeff_load_bytes_per_cycle(const trm_target *target);

/* ---- Beyond the IPU -------------------------------------------------------------------------- */

/* Bytes a second from an IPU to its neighbour, one direction. */
TRM_API double trm_target_ipu_link_bytes_per_second(const trm_target *target);
/* IPUs of a card or machine, which IPU-links connect. */
TRM_API uint32_t trm_target_ipu_link_domain_size(const trm_target *target);
/* Bytes a second between host and IPU, one direction. */
TRM_API double trm_target_host_bytes_per_second(const trm_target *target);
/* The streaming memory of an IPU: bytes a second, bytes. */
TRM_API double trm_target_streaming_memory_bytes_per_second(const trm_target *target);
TRM_API double trm_target_streaming_memory_bytes(const trm_target *target);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_TARGET_H_ */
