/* Targets: descriptions of the machine that a program is planned for.
 *
 *     trm_target *target;
 *     trm_target_load("bow", &target, &error);     a preset, or a JSON file
 *     trm_target_number(target, "tilesPerIPU", &tiles);
 *     trm_target_release(target);
 *
 * A target is data. Three descriptions come with the library: `mk1` (GC2), `mk2` (GC200) and `bow`;
 * a JSON file can describe others, whole or as changes to one of these (docs/targets.md says what
 * each key means, its unit, and where its value was found). Targets are immutable and counted;
 * every function may be called from any thread.
 *
 * Stability. A target is opaque. New facts come as new keys.
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

/* The names of the presets, for messages: the files of data/targets. */
#define TRM_TARGET_PRESETS "bow, mk1, mk2"
/* The i-th preset's name; NULL past the last. */
TRM_API const char *trm_target_preset(size_t i);
/* The fact that a key of the description states (docs/targets.md lists the keys, their units and
 * sources): a number, where true is 1; or the text of "name", "architecture" or "system", which
 * lives as long as the target. false and NULL: there is no such key, or it has no number, no text.
 */
TRM_API bool trm_target_number(const trm_target *target, const char *key, double *out_number);
TRM_API const char *trm_target_string(const trm_target *target, const char *key);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_TARGET_H_ */
