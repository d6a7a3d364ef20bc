/* Owns: the names of phases: the TensorFlow op, the HLO instruction or pattern with its number, the
 * library's own name. */
#include <inttypes.h>
#include <string.h>

#include "ipu/program/draft.h"

trm_status trm_program_count_word(trm_program_draft *draft, const char *word, uint32_t *out_count,
                                  trm_error *error) {
  size_t w = 0;
  while (w < draft->names.words.count && strcmp(draft->names.words.items[w].word, word) != 0) ++w;
  if (w == draft->names.words.count &&
      !VECTOR_PUSH(&draft->names.words, ((trm_word_count){word, 0}))) {
    FAIL_NO_MEMORY("names");
  }
  *out_count = ++draft->names.words.items[w].count;
  return TRM_OK;
}

/* The role's word with its number; the first one has no number. */
static trm_status word_of(trm_program_draft *draft, const trm_tile_role *role,
                          const char **out_word, trm_error *error) {
  *out_word = role->call.word;
  if (!role->call.is_plain && *role->number > 1) {
    *out_word =
        trm_arena_format(&draft->program->arena, "%s.%" PRIu32, role->call.word, *role->number - 1);
  }
  CHECK_MEMORY(*out_word, "names");
  return TRM_OK;
}

/* Equal layers of an IPU are calls of one function, which bears the name of the first. */
static trm_status name_of_layer(trm_program_draft *draft, const trm_library_call *call,
                                uint32_t ipu, const char **name, trm_error *error) {
  for (size_t l = 0; l < draft->names.layers.count; ++l) {
    const trm_named_layer *known = &draft->names.layers.items[l];
    if (known->ipu == ipu && strcmp(known->key, call->key) == 0 &&
        strcmp(known->word, call->word) == 0) {
      *name = known->name;
      return TRM_OK;
    }
  }
  const trm_named_layer layer = {call->word, call->key, ipu, *name};
  if (!VECTOR_PUSH(&draft->names.layers, layer)) FAIL_NO_MEMORY("names");
  return TRM_OK;
}

/* The name of a step from its TensorFlow op and HLO instruction, as the original writes it:
 * "dense/MatMul/dot.1". */
static trm_status name_of_role(trm_program_draft *draft, const trm_program_source *s,
                               const trm_phase *phase, const trm_tile_role *role, uint32_t ipu,
                               const char **out_name, trm_error *error) {
  trm_arena *arena = &draft->program->arena;
  const trm_instruction *op = phase->of;
  const char *op_name = role != NULL && role->call.scope != NULL     ? role->call.scope
                        : op == NULL || op->metadata.op_name == NULL ? s->op_name
                                                                     : op->metadata.op_name;
  const char *hlo = phase->of != NULL ? phase->of->name : s->hlo_name;
  /* An instruction without a TensorFlow op is called by its HLO name. */
  const bool has_word = role != NULL && role->call.word != NULL && op_name[0] != '\0';
  if (has_word) TRY(word_of(draft, role, &hlo, error));
  *out_name = op_name[0] == '\0' ? hlo : trm_arena_format(arena, "%s/%s", op_name, hlo);
  CHECK_MEMORY(*out_name, "names");
  if (!has_word) return TRM_OK;
  if (role->call.key != NULL && draft->program->options.outlining) {
    TRY(name_of_layer(draft, &role->call, ipu, out_name, error));
  }
  if (role->call.part != NULL) {
    *out_name = trm_arena_format(arena, "%s/%s", *out_name, role->call.part);
    CHECK_MEMORY(*out_name, "names");
  }
  return TRM_OK;
}

trm_status trm_program_phase_name(trm_program_draft *draft, uint32_t source, const trm_phase *phase,
                                  uint32_t ipu, const char **out_name, trm_error *error) {
  *out_name = phase->name;
  if (source == TRM_NO_INDEX) return TRM_OK;
  const trm_program_source *s = &draft->steps.sources.items[source];
  trm_tile_role *role = phase->role;
  if (role == NULL && phase->of == NULL && draft->roles != NULL) {
    role = &draft->roles[s->computation][s->instruction];
  }
  const char *whose;
  TRY(name_of_role(draft, s, phase, role, ipu, &whose, error));
  if (phase->kind == TRM_PHASE_GLOBAL_EXCHANGE) {
    uint32_t count;
    TRY(trm_program_count_word(draft, phase->name, &count, error));
    *out_name = trm_arena_format(&draft->program->arena, "Copy_%s_to_/%s.%" PRIu32 "/GlobalPre",
                                 whose, phase->name, count);
    CHECK_MEMORY(*out_name, "names");
    return TRM_OK;
  }
  if (phase->kind == TRM_PHASE_COPY && strcmp(phase->name, "inter-ipu-copy") == 0) {
    uint32_t count; /* that of the exchange before it */
    TRY(trm_program_count_word(draft, "inter-ipu-copy/OnTileCopy", &count, error));
    *out_name = trm_arena_format(&draft->program->arena,
                                 "Copy_%s_to_/inter-ipu-copy.%" PRIu32 "/OnTileCopy", whose, count);
    CHECK_MEMORY(*out_name, "names");
    return TRM_OK;
  }
  if (phase->kind == TRM_PHASE_COPY && role != NULL && role->call.copies != NULL &&
      s->op_name[0] != '\0') {
    *out_name = trm_arena_format(&draft->program->arena, "%s/%s", s->op_name, role->call.copies);
    CHECK_MEMORY(*out_name, "names");
    return TRM_OK;
  }
  const bool computes = phase->kind == TRM_PHASE_COMPUTE;
  const char *last =
      computes && role != NULL && role->call.vertices != NULL ? role->call.vertices : phase->name;
  *out_name = phase->kind == TRM_PHASE_COPY
                  ? trm_arena_format(&draft->program->arena, "Copy_%s/%s/OnTileCopy", whose, last)
                  : trm_arena_format(&draft->program->arena, "%s/%s", whose, last);
  CHECK_MEMORY(*out_name, "names");
  return TRM_OK;
}
