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
  TRM_POPLAR_WHILE,       /* children[0], then while tensors[0] is `value`: children[1], [0] */
  TRM_POPLAR_WRITE_UNDEF, /* tensors[0] */
} trm_poplar_program_kind;

struct trm_poplar_program {
  uint32_t references;
  trm_poplar_program_kind kind;
  trm_poplar_tensor *tensors[2];
  VECTOR(trm_poplar_program *) children; /* NULL: nothing */
  VECTOR(int32_t) cases;
  uint64_t number;
  bool value;
  char *text; /* a name or a title */
};

void trm_poplar_program_retain(trm_poplar_program *program);
void trm_poplar_program_release(trm_poplar_program *program);
int32_t trm_poplar_program_sequence(trm_poplar_program **out_program, trm_poplar_error *error);
int32_t trm_poplar_sequence_add(trm_poplar_program **sequence, trm_poplar_program *program,
                                trm_poplar_error *error);
int32_t trm_poplar_program_execute(trm_poplar_graph *graph, uint32_t compute_set, const char *name,
                                   trm_poplar_program **out_program, trm_poplar_error *error);
int32_t trm_poplar_program_copy(trm_poplar_graph *graph, const trm_poplar_tensor *source,
                                const trm_poplar_tensor *destination, bool dont_outline,
                                const char *name, trm_poplar_program **out_program,
                                trm_poplar_error *error);
int32_t trm_poplar_program_print(trm_poplar_graph *graph, const char *title,
                                 const trm_poplar_tensor *tensor, trm_poplar_program **out_program,
                                 trm_poplar_error *error);
int32_t trm_poplar_program_if(trm_poplar_graph *graph, const trm_poplar_tensor *predicate,
                              trm_poplar_program *on_true, trm_poplar_program *on_false,
                              trm_poplar_program **out_program, trm_poplar_error *error);
int32_t trm_poplar_program_switch(trm_poplar_graph *graph, const trm_poplar_tensor *control,
                                  const int32_t *cases, trm_poplar_program *const *programs,
                                  uint64_t count, trm_poplar_program *otherwise,
                                  trm_poplar_program **out_program, trm_poplar_error *error);
int32_t trm_poplar_program_repeat(uint64_t count, trm_poplar_program *body,
                                  trm_poplar_program **out_program, trm_poplar_error *error);
int32_t trm_poplar_program_repeat_while(trm_poplar_graph *graph, bool value,
                                        trm_poplar_program *condition,
                                        const trm_poplar_tensor *predicate,
                                        trm_poplar_program *body, trm_poplar_program **out_program,
                                        trm_poplar_error *error);
int32_t trm_poplar_program_write_undef(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                       trm_poplar_program **out_program, trm_poplar_error *error);
/* Adds the library step `number` to a sequence. */
trm_status trm_poplar_add_step(trm_poplar_program **sequence, uint64_t number, const char *name,
                               trm_poplar_error *error);

#endif /* TREMULA_POPLAR_PROGRAM_H_ */
