/* MPI, loaded at run time. It is one for a process, so these functions have no object.
 *
 * Every call takes one lock, and none waits inside MPI but trm_mpi_open, trm_mpi_all_gather and
 * trm_mpi_close. So MPI_THREAD_SERIALIZED is enough. */
#ifndef TREMULA_GROUP_MPI_H_
#define TREMULA_GROUP_MPI_H_

#include <stdint.h>

#include "base/status.h"

/* Wide enough for the handles of all ABIs: pointers or int. */
typedef uintptr_t trm_mpi_handle;

/* Loads a library and starts MPI. Does nothing when it runs already. `launcher`: trm_group_place's;
 * `library` and `folder`: trm_group_settings'. */
trm_status trm_mpi_open(const char *library, const char *folder, const char *launcher,
                        uint32_t expected_size, trm_error *error);
void trm_mpi_close(void);
uint32_t trm_mpi_rank(void);
uint32_t trm_mpi_size(void);
bool trm_mpi_has_threads(void);

/* Every process calls these in the same order. */
trm_status trm_mpi_all_gather(const void *mine, int bytes, void *out_all, trm_error *error);
trm_status trm_mpi_duplicate_world(trm_mpi_handle *out_communicator, trm_error *error);

/* Whether a message with this tag has come, and from whom. */
trm_status trm_mpi_probe(trm_mpi_handle communicator, int tag, bool *out_found,
                         uint32_t *out_source, trm_error *error);

/* A block on its way to or from another process. It goes in pieces, because MPI counts with int.
 * Transfers with the same peer, tag and direction begin only when earlier ones are done. */
typedef struct trm_transfer {
  trm_mpi_handle communicator, request;
  char *data;
  size_t bytes, posted;
  uint32_t peer;
  int tag;
  bool sends, done;
} trm_transfer;

/* Fill in all but request, posted and done. The sent data must stay until the transfer is done. */
trm_status trm_transfer_begin(trm_transfer *transfer, trm_error *error);
/* Sets `done` when it is. Returns soon. */
trm_status trm_transfer_poll(trm_transfer *transfer, trm_error *error);

#endif /* TREMULA_GROUP_MPI_H_ */
