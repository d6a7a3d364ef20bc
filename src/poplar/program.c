/* Owns: programs. */
#include "poplar/graph.h"

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

/* Adds a reference to the child; NULL does nothing when it runs. */
static trm_status add_child(trm_poplar_program *program, trm_poplar_program *child,
                            trm_poplar_error *error) {
  if (!VECTOR_PUSH(&program->children, child)) THROW_NO_MEMORY("a program");
  trm_poplar_program_retain(child);
  return TRM_OK;
}

static trm_status fill(trm_poplar_program *program, const trm_poplar_program_parts *parts,
                       trm_poplar_error *error) {
  const char *text = parts->text == NULL ? "" : parts->text;
  const size_t size = strlen(text) + 1;
  program->text = trm_allocate(size);
  if (program->text == NULL) THROW_NO_MEMORY("a program");
  memcpy(program->text, text, size);
  program->number = parts->number;
  for (int t = 0; t < 2; ++t) {
    program->tensors[t] = (trm_poplar_tensor *)parts->tensors[t];
    trm_poplar_tensor_retain(program->tensors[t]);
  }
  for (uint32_t c = 0; c < parts->num_children; ++c) {
    TRY(add_child(program, parts->children[c], error));
  }
  for (uint32_t c = 0; program->kind == TRM_POPLAR_SWITCH && c + 1 < parts->num_children; ++c) {
    const int32_t number = parts->cases != NULL ? parts->cases[c] : (int32_t)c;
    if (!VECTOR_PUSH(&program->cases, number)) THROW_NO_MEMORY("a program");
  }
  return TRM_OK;
}

static trm_status make(trm_poplar_program_kind kind, const trm_poplar_program_parts *parts,
                       trm_poplar_program **out_program, trm_poplar_error *error) {
  trm_poplar_program *program = trm_allocate_zeroed(1, sizeof *program);
  if (program == NULL) THROW_NO_MEMORY("a program");
  program->references = 1;
  program->kind = kind;
  const trm_status status = fill(program, parts, error);
  if (status == TRM_OK) *out_program = program;
  else trm_poplar_program_release(program);
  return status;
}

/* ---- Kinds ---------------------------------------------------------------------------------- */

/* What a kind needs: a name, if it has tensors[0], and children. */
typedef struct needs {
  const char *name;
  uint32_t children;
} needs;

static const needs kinds[] = {
    [TRM_POPLAR_COPY] = {"a Copy", 0},   [TRM_POPLAR_PRINT] = {"a PrintTensor", 0},
    [TRM_POPLAR_IF] = {"an If", 2},      [TRM_POPLAR_SWITCH] = {"a Switch", 1},
    [TRM_POPLAR_REPEAT] = {NULL, 1},     [TRM_POPLAR_WHILE] = {"a loop", 2},
    [TRM_POPLAR_HOST] = {"a stream", 0}, [TRM_POPLAR_WRITE_UNDEF] = {"a WriteUndef", 0},
};

static trm_status check_copy(const trm_poplar_graph *graph, const trm_poplar_tensor *source,
                             const trm_poplar_tensor *destination, trm_poplar_error *error) {
  if (destination == NULL) THROW_POPLAR("a Copy of a null tensor");
  if (source->elements != destination->elements || source->dtype != destination->dtype) {
    THROW_POPLAR("a Copy of a tensor of %s%s to one of %s%s", trm_dtype_name(source->dtype),
                 SHAPE_TEXT(source), trm_dtype_name(destination->dtype), SHAPE_TEXT(destination));
  }
  return trm_poplar_check_written(graph, destination, "a Copy", error);
}

/* Poplar takes predicates of BOOL and of integers. */
static trm_status check_predicate(const trm_poplar_tensor *tensor, const char *what,
                                  trm_poplar_error *error) {
  const bool fits = tensor->elements == 1 && (tensor->dtype == TRM_PRED ||
                                              tensor->dtype == TRM_S32 || tensor->dtype == TRM_U32);
  if (!fits) {
    THROW_POPLAR("the predicate of %s needs one element of type BOOL, INT or UNSIGNED_INT", what);
  }
  return TRM_OK;
}

int32_t trm_poplar_program_make(trm_poplar_graph *graph, int32_t kind,
                                const trm_poplar_program_parts *parts,
                                trm_poplar_program **out_program, trm_poplar_error *error) {
  trm_poplar_program_parts all = {.number = 0};
  if (parts != NULL) all = *parts;
  if (kind == TRM_POPLAR_EXECUTE && all.number >= graph->core->compute_sets.count) {
    THROW_POPLAR("the graph has no compute set %llu", (unsigned long long)all.number);
  }
  if (kind == TRM_POPLAR_HOST) {
    if (all.number >= graph->core->streams.count) {
      THROW_POPLAR("there is no stream %llu", (unsigned long long)all.number);
    }
    all.tensors[0] = graph->core->streams.items[all.number].elements;
  }
  if (kind < TRM_POPLAR_SEQUENCE || kind > TRM_POPLAR_HOST || kind == TRM_POPLAR_STEP ||
      all.num_children < kinds[kind].children) {
    THROW_POPLAR("there is no program of the kind %d with %u children", kind, all.num_children);
  }
  const char *name = kinds[kind].name;
  if (name != NULL && all.tensors[0] == NULL) THROW_POPLAR("%s of a null tensor", name);
  if (kind == TRM_POPLAR_COPY) TRY(check_copy(graph, all.tensors[0], all.tensors[1], error));
  if (name != NULL && kinds[kind].children > 0) {
    TRY(check_predicate(all.tensors[0], name, error));
  }
  return make((trm_poplar_program_kind)kind, &all, out_program, error);
}

/* ---- Sequences ------------------------------------------------------------------------------ */

int32_t trm_poplar_sequence_add(trm_poplar_program **sequence, trm_poplar_program *program,
                                trm_poplar_error *error) {
  trm_poplar_program *old = *sequence;
  if (old->kind != TRM_POPLAR_SEQUENCE) THROW_POPLAR("only a Sequence takes further programs");
  if (old->references == 1 && program != old) return add_child(old, program, error);
  const trm_poplar_program_parts parts = {.children = old->children.items,
                                          .num_children = (uint32_t)old->children.count};
  trm_poplar_program *copy;
  TRY(make(TRM_POPLAR_SEQUENCE, &parts, &copy, error));
  const trm_status status = add_child(copy, program, error);
  trm_poplar_program_release(status == TRM_OK ? old : copy);
  if (status == TRM_OK) *sequence = copy;
  return status;
}

trm_status trm_poplar_add_step(trm_poplar_program **sequence, uint64_t number, const char *name,
                               trm_poplar_error *error) {
  trm_poplar_program *step;
  const trm_poplar_program_parts parts = {.number = number, .text = name};
  TRY(make(TRM_POPLAR_STEP, &parts, &step, error));
  const trm_status status = trm_poplar_sequence_add(sequence, step, error);
  trm_poplar_program_release(step);
  return status;
}
