/* Engines as bytes: what an Executable is saved as. The bytes have the machine code of vertices,
 * and are trusted as a .gp file is. */
#ifndef TREMULA_POPLAR_SAVE_H_
#define TREMULA_POPLAR_SAVE_H_

#include "poplar/graph.h"

/* What an engine is made of. */
typedef struct trm_poplar_saved {
  trm_poplar_graph *graph;
  trm_poplar_program *program; /* a Switch: the programs, and then the accesses of the streams */
  trm_poplar_tensor *control;  /* of the Switch */
  uint32_t num_programs;
} trm_poplar_saved;

/* Free *out_data with trm_free. */
trm_status trm_poplar_save(const trm_poplar_saved *saved, void **out_data, uint64_t *out_size,
                           trm_poplar_error *error);
/* The caller gets the references. Fails if the bytes are damaged, or of another format. */
trm_status trm_poplar_read_saved(const void *data, uint64_t size, trm_poplar_saved *out_saved,
                                 trm_poplar_error *error);
void trm_poplar_saved_release(trm_poplar_saved *saved);

#endif /* TREMULA_POPLAR_SAVE_H_ */
