/* Programs: trees, as Poplar's program classes make them. A program that others refer to does not
 * change, so trees share parts. */
#ifndef TREMULA_POPLAR_PROGRAM_H_
#define TREMULA_POPLAR_PROGRAM_H_

#include "poplar/graph.h"

struct trm_poplar_program {
  uint32_t references;
  trm_poplar_program_kind kind;
  trm_poplar_tensor *tensors[2];
  VECTOR(trm_poplar_program *) children; /* NULL: nothing */
  VECTOR(int32_t) cases;
  uint64_t number;
  char *text; /* a name or a title */
};

/* Adds the library step `number` to a sequence. */
trm_status trm_poplar_add_step(trm_poplar_program **sequence, uint64_t number, const char *name,
                               trm_poplar_error *error);

#endif /* TREMULA_POPLAR_PROGRAM_H_ */
