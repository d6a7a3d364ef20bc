/* Owns: programs (program.h). */
#include "poplar/program.h"

#include <string.h>

void trm_poplar_program_retain(trm_poplar_program *program) {
  if (program != NULL) ++program->references;
}

void trm_poplar_program_release(trm_poplar_program *program) {
  if (program == NULL || --program->references > 0) return;
  for (int t = 0; t < 2; ++t) trm_poplar_tensor_release(program->tensors[t]);
  for (size_t c = 0; c < program->children.count; ++c) {
    trm_poplar_program_release(program->children.items[c]);
  }
  VECTOR_FREE(&program->children);
  VECTOR_FREE(&program->cases);
  trm_free(program->text);
  trm_free(program);
}

/* A program with its tensors, which may be NULL, and a name. */
static trm_status make(trm_poplar_program_kind kind, const trm_poplar_tensor *first,
                       const trm_poplar_tensor *second, uint64_t number, const char *text,
                       trm_poplar_program **out_program, trm_poplar_error *error) {
  trm_poplar_program *program = trm_allocate_zeroed(1, sizeof *program);
  const size_t size = text == NULL ? 1 : strlen(text) + 1;
  char *own = trm_allocate(size);
  if (program == NULL || own == NULL) {
    trm_free(program);
    trm_free(own);
    THROW_NO_MEMORY("a program");
  }
  memcpy(own, text == NULL ? "" : text, size);
  program->references = 1;
  program->kind = kind;
  program->number = number;
  program->text = own;
  program->tensors[0] = (trm_poplar_tensor *)first;
  program->tensors[1] = (trm_poplar_tensor *)second;
  trm_poplar_tensor_retain(program->tensors[0]);
  trm_poplar_tensor_retain(program->tensors[1]);
  *out_program = program;
  return TRM_OK;
}

/* Adds a reference to the child; NULL does nothing when it runs. */
static trm_status add_child(trm_poplar_program *program, trm_poplar_program *child,
                            trm_poplar_error *error) {
  if (!VECTOR_PUSH(&program->children, child)) THROW_NO_MEMORY("a program");
  trm_poplar_program_retain(child);
  return TRM_OK;
}

/* Gives a program that was just made, unless `status` is a failure. */
static trm_status give(trm_status status, trm_poplar_program *program,
                       trm_poplar_program **out_program) {
  if (status == TRM_OK) *out_program = program;
  else trm_poplar_program_release(program);
  return status;
}

int32_t trm_poplar_program_sequence(trm_poplar_program **out_program, trm_poplar_error *error) {
  return make(TRM_POPLAR_SEQUENCE, NULL, NULL, 0, NULL, out_program, error);
}

int32_t trm_poplar_sequence_add(trm_poplar_program **sequence, trm_poplar_program *program,
                                trm_poplar_error *error) {
  trm_poplar_program *old = *sequence;
  if (old->kind != TRM_POPLAR_SEQUENCE) THROW_POPLAR("only a Sequence takes further programs");
  if (old->references == 1 && program != old) return add_child(old, program, error);
  trm_poplar_program *copy;
  TRY(trm_poplar_program_sequence(&copy, error));
  trm_status status = TRM_OK;
  for (size_t c = 0; c < old->children.count && status == TRM_OK; ++c) {
    status = add_child(copy, old->children.items[c], error);
  }
  if (status == TRM_OK) status = add_child(copy, program, error);
  TRY(give(status, copy, sequence));
  trm_poplar_program_release(old);
  return TRM_OK;
}

trm_status trm_poplar_add_step(trm_poplar_program **sequence, uint64_t number, const char *name,
                               trm_poplar_error *error) {
  trm_poplar_program *step;
  TRY(make(TRM_POPLAR_STEP, NULL, NULL, number, name, &step, error));
  const trm_status status = trm_poplar_sequence_add(sequence, step, error);
  trm_poplar_program_release(step);
  return status;
}

int32_t trm_poplar_program_execute(trm_poplar_graph *graph, uint32_t compute_set, const char *name,
                                   trm_poplar_program **out_program, trm_poplar_error *error) {
  if (compute_set >= graph->core->compute_sets.count) {
    THROW_POPLAR("the graph has no compute set %u", compute_set);
  }
  return make(TRM_POPLAR_EXECUTE, NULL, NULL, compute_set, name, out_program, error);
}

int32_t trm_poplar_program_copy(trm_poplar_graph *graph, const trm_poplar_tensor *source,
                                const trm_poplar_tensor *destination, bool dont_outline,
                                const char *name, trm_poplar_program **out_program,
                                trm_poplar_error *error) {
  (void)dont_outline; /* a wish on code, of which a copy has none here */
  if (source == NULL || destination == NULL) THROW_POPLAR("a Copy of a null tensor");
  char from[256], to[256];
  if (source->elements != destination->elements || source->dtype != destination->dtype) {
    THROW_POPLAR("a Copy of a tensor of %s%s to one of %s%s",
                 trm_dtype_name((trm_dtype)source->dtype),
                 trm_poplar_dims_text(source->dims, source->rank, from, sizeof from),
                 trm_dtype_name((trm_dtype)destination->dtype),
                 trm_poplar_dims_text(destination->dims, destination->rank, to, sizeof to));
  }
  TRY(trm_poplar_check_written(graph, destination, "a Copy", error));
  return make(TRM_POPLAR_COPY, source, destination, 0, name, out_program, error);
}

int32_t trm_poplar_program_print(trm_poplar_graph *graph, const char *title,
                                 const trm_poplar_tensor *tensor, trm_poplar_program **out_program,
                                 trm_poplar_error *error) {
  (void)graph;
  if (tensor == NULL) THROW_POPLAR("a PrintTensor of a null tensor");
  return make(TRM_POPLAR_PRINT, tensor, NULL, 0, title, out_program, error);
}

/* Poplar takes predicates of BOOL and of integers. */
static trm_status check_predicate(const trm_poplar_tensor *tensor, const char *what,
                                  trm_poplar_error *error) {
  const bool fits =
      tensor != NULL && tensor->elements == 1 &&
      (tensor->dtype == TRM_PRED || tensor->dtype == TRM_S32 || tensor->dtype == TRM_U32);
  if (!fits) THROW_POPLAR("%s needs one element of type BOOL, INT or UNSIGNED_INT", what);
  return TRM_OK;
}

/* A program that chooses or repeats others. */
static trm_status make_control(trm_poplar_program_kind kind, const trm_poplar_tensor *tensor,
                               uint64_t number, trm_poplar_program *const *children, size_t count,
                               trm_poplar_program **out_program, trm_poplar_error *error) {
  trm_poplar_program *program;
  TRY(make(kind, tensor, NULL, number, NULL, &program, error));
  trm_status status = TRM_OK;
  for (size_t c = 0; c < count && status == TRM_OK; ++c) {
    status = add_child(program, children[c], error);
  }
  return give(status, program, out_program);
}

int32_t trm_poplar_program_if(trm_poplar_graph *graph, const trm_poplar_tensor *predicate,
                              trm_poplar_program *on_true, trm_poplar_program *on_false,
                              trm_poplar_program **out_program, trm_poplar_error *error) {
  (void)graph;
  trm_poplar_program *const both[] = {on_true, on_false};
  TRY(check_predicate(predicate, "the predicate of an If", error));
  return make_control(TRM_POPLAR_IF, predicate, 0, both, 2, out_program, error);
}

int32_t trm_poplar_program_switch(trm_poplar_graph *graph, const trm_poplar_tensor *control,
                                  const int32_t *cases, trm_poplar_program *const *programs,
                                  uint64_t count, trm_poplar_program *otherwise,
                                  trm_poplar_program **out_program, trm_poplar_error *error) {
  (void)graph;
  trm_poplar_program *program;
  TRY(check_predicate(control, "the control of a Switch", error));
  TRY(make_control(TRM_POPLAR_SWITCH, control, 0, programs, (size_t)count, &program, error));
  trm_status status = add_child(program, otherwise, error);
  for (uint64_t c = 0; c < count && status == TRM_OK; ++c) {
    if (VECTOR_PUSH(&program->cases, cases[c])) continue;
    status = NO_MEMORY("a program");
  }
  return give(status, program, out_program);
}

int32_t trm_poplar_program_repeat(uint64_t count, trm_poplar_program *body,
                                  trm_poplar_program **out_program, trm_poplar_error *error) {
  return make_control(TRM_POPLAR_REPEAT, NULL, count, &body, 1, out_program, error);
}

int32_t trm_poplar_program_repeat_while(trm_poplar_graph *graph, bool value,
                                        trm_poplar_program *condition,
                                        const trm_poplar_tensor *predicate,
                                        trm_poplar_program *body, trm_poplar_program **out_program,
                                        trm_poplar_error *error) {
  (void)graph;
  trm_poplar_program *const both[] = {condition, body};
  TRY(check_predicate(predicate, "the predicate of a loop", error));
  return make_control(TRM_POPLAR_WHILE, predicate, value, both, 2, out_program, error);
}

int32_t trm_poplar_program_write_undef(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                       trm_poplar_program **out_program, trm_poplar_error *error) {
  (void)graph;
  if (tensor == NULL) THROW_POPLAR("a WriteUndef of a null tensor");
  return make(TRM_POPLAR_WRITE_UNDEF, tensor, NULL, 0, NULL, out_program, error);
}

int32_t trm_poplar_program_host(trm_poplar_graph *graph, uint32_t stream,
                                trm_poplar_program **out_program, trm_poplar_error *error) {
  const trm_poplar_core *core = graph->core;
  if (stream >= core->streams.count) THROW_POPLAR("there is no stream %u", stream);
  return make(TRM_POPLAR_HOST, core->streams.items[stream].elements, NULL, stream, NULL,
              out_program, error);
}
