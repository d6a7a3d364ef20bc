/* Programs: trees, as Poplar's program classes make them. A program that others refer to does not
 * change, so trees share parts. */
#ifndef TREMULA_POPLAR_PROGRAM_H_
#define TREMULA_POPLAR_PROGRAM_H_

#include "poplar/graph.h"

typedef enum trm_poplar_program_kind {
  TRM_POPLAR_SEQUENCE,
  TRM_POPLAR_EXECUTE,     /* the compute set `number` */
  TRM_POPLAR_COPY,        /* tensors[0] to tensors[1] */
  TRM_POPLAR_STEP,        /* the library step `number` */
  TRM_POPLAR_PRINT,       /* tensors[0], with `text` */
  TRM_POPLAR_IF,          /* tensors[0] ? children[0] : children[1] */
  TRM_POPLAR_SWITCH,      /* the child whose case is tensors[0], else the last */
  TRM_POPLAR_REPEAT,      /* children[0], `number` times */
  TRM_POPLAR_WHILE,       /* children[0], then while tensors[0] is `number`: children[1], [0] */
  TRM_POPLAR_WRITE_UNDEF, /* tensors[0] */
  TRM_POPLAR_HOST,        /* the host has the elements of the stream `number`, tensors[0] */
} trm_poplar_program_kind;

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
