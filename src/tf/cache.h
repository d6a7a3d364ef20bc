/* Owns: the executable cache: a folder with a file for each result that is expensive to compute, a
 * compiled program or a lowered graph.
 *
 * A name is a hash of everything that the contents depend on, so a file that is found is the right
 * one. Several processes may use a folder at once: one computes, the others wait and read. A fault
 * of a file or of the folder costs a warning and the computation, never the program
 * (docs/cache.md). */
#ifndef TREMULA_TF_CACHE_H_
#define TREMULA_TF_CACHE_H_

#include "tensorflow.h"

enum { TRM_TF_CACHE_PATH_SIZE = 4096 };

/* The place of a result in the cache. */
typedef struct trm_tf_cache_entry {
  char path[TRM_TF_CACHE_PATH_SIZE]; /* of the file */
  char lock_path[TRM_TF_CACHE_PATH_SIZE];
  int lock; /* the descriptor of the lock file while locked, or -1 */
} trm_tf_cache_entry;

/* The entry of the file NAME + SUFFIX in `folder`, which is made, and of its lock NAME +
 * LOCK_SUFFIX. False, with a warning, when the path is too long. */
bool trm_tf_cache_find(const char *folder, const char *name, const char *suffix,
                       const char *lock_suffix, trm_tf_cache_entry *out);
bool trm_tf_cache_has(const trm_tf_cache_entry *entry);
/* Warns that the file is made again. */
void trm_tf_cache_tell_unusable(const trm_tf_cache_entry *entry, const char *reason);

/* Waits until no other process computes this result. Without a lock, as in a folder that cannot be
 * written, the result is merely computed more than once. False: Ctrl-C was pressed meanwhile. */
bool trm_tf_cache_lock(trm_tf_cache_entry *entry);
void trm_tf_cache_unlock(trm_tf_cache_entry *entry);

/* Writes the contents to a new file at `path`. */
typedef trm_status trm_tf_cache_writer(const void *contents, const char *path, trm_error *error);
/* Writes the file: whole or not at all. A failure is a warning, and false. */
bool trm_tf_cache_store(const trm_tf_cache_entry *entry, trm_tf_cache_writer *write,
                        const void *contents);

/* ---- For Python: files of bytes, <folder>/<name>.hlo ---- */

/* NULL: nothing can be cached there. The caller closes the entry. */
TRM_TF_API trm_tf_cache_entry *trm_tf_cache_open(const char *folder, const char *name);
/* Frees the entry, and lets other processes read what has been written. */
TRM_TF_API void trm_tf_cache_close(trm_tf_cache_entry *entry);
/* The bytes of the file, or NULL where there is none or it is damaged; `warns`: the latter is told.
 * The caller frees them with trm_tf_cache_free_data(). */
TRM_TF_API void *trm_tf_cache_read(const trm_tf_cache_entry *entry, int32_t warns,
                                   uint64_t *out_size);
TRM_TF_API void trm_tf_cache_free_data(void *data);
/* trm_tf_cache_lock(): 0 after Ctrl-C. */
TRM_TF_API int32_t trm_tf_cache_enter(trm_tf_cache_entry *entry);
TRM_TF_API void trm_tf_cache_write(const trm_tf_cache_entry *entry, const void *data,
                                   uint64_t size);

#endif /* TREMULA_TF_CACHE_H_ */
