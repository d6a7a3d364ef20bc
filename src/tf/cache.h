/* Owns: the executable cache: a folder with a file for each result that is expensive to compute (an
 * executable or a lowered graph).
 *
 * A name is a hash of everything on which the contents depend, so a file with the name has the
 * right contents. Several processes may use a folder at once: one computes, the others wait and
 * read. A faulty file or folder costs a warning and the computation, but does not stop the program
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

/* Finds the entry of the file NAME + SUFFIX in `folder`, which is made if necessary, and of its
 * lock NAME + LOCK_SUFFIX. False, with a warning, if the path is too long. */
bool trm_tf_cache_find(const char *folder, const char *name, const char *suffix,
                       const char *lock_suffix, trm_tf_cache_entry *out);
bool trm_tf_cache_has(const trm_tf_cache_entry *entry);
/* Warns that the file is unusable and is written anew. */
void trm_tf_cache_tell_unusable(const trm_tf_cache_entry *entry, const char *reason);

/* Waits until no other process computes this result. Without a lock, as in a read-only folder,
 * several processes may compute the result. False: Ctrl-C ended the wait. */
bool trm_tf_cache_lock(trm_tf_cache_entry *entry);
void trm_tf_cache_unlock(trm_tf_cache_entry *entry);

/* Writes the contents to a new file at `path`. */
typedef trm_status trm_tf_cache_writer(const void *contents, const char *path, trm_error *error);
/* Writes the file completely or not at all. A failure is a warning, and false. */
bool trm_tf_cache_store(const trm_tf_cache_entry *entry, trm_tf_cache_writer *write,
                        const void *contents);

/* ---- For Python: files of bytes, <folder>/<name>.hlo ---- */

/* Opens an entry, which the caller closes. NULL: nothing can be cached there. */
TRM_TF_API trm_tf_cache_entry *trm_tf_cache_open(const char *folder, const char *name);
/* Unlocks and frees the entry, so that other processes read the file. */
TRM_TF_API void trm_tf_cache_close(trm_tf_cache_entry *entry);
/* The bytes of the file, or NULL if it does not exist or is damaged; with `warns`, damage is a
 * warning. Free them with trm_tf_cache_free_data(). */
TRM_TF_API void *trm_tf_cache_read(const trm_tf_cache_entry *entry, int32_t warns,
                                   uint64_t *out_size);
TRM_TF_API void trm_tf_cache_free_data(void *data);
/* trm_tf_cache_lock(): 0 after Ctrl-C. */
TRM_TF_API int32_t trm_tf_cache_enter(trm_tf_cache_entry *entry);
TRM_TF_API void trm_tf_cache_write(const trm_tf_cache_entry *entry, const void *data,
                                   uint64_t size);

#endif /* TREMULA_TF_CACHE_H_ */
