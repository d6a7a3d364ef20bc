/* The executable cache: a folder with one file a program, <hash>.poplar_exec.
 *
 * The hash is over the module, the options, and the very build of libtremula; so a file that is
 * found is the right one. Several processes may use a folder at once: one compiles a program, the
 * others wait and load it. Whatever is wrong with a file or the folder costs a warning and a
 * compilation, never the program (docs/cache.md). */
#ifndef TREMULA_TF_CACHE_H_
#define TREMULA_TF_CACHE_H_

#include "settings.h"

/* A program's place in the cache. */
typedef struct cache_entry {
  char path[4096]; /* of the file */
  char lock_path[4096];
  int lock; /* the descriptor of the lock file while locked, or -1 */
} cache_entry;

/* The entry of a module; false where there is no cache or the module is not to be cached. Makes the
 * folder. */
bool cache_find(const tf_snapshot *settings, const void *module, size_t size, cache_entry *entry);
/* Loads the executable; false when it is not there or not sound. `warns`: the latter is told. */
bool cache_load(const cache_entry *entry, bool warns, trm_executable **out);
/* Waits until no other process compiles this program. Without a lock, as in a folder that cannot be
 * written, the program is merely compiled more than once. False: Ctrl-C was pressed
 * meanwhile (call it between interrupt_watch and interrupt_unwatch). */
bool cache_lock(cache_entry *entry);
/* Writes the executable: whole or not at all. A failure is a warning, and false. */
bool cache_store(const cache_entry *entry, const trm_executable *executable);
void cache_unlock(cache_entry *entry);

#endif /* TREMULA_TF_CACHE_H_ */
