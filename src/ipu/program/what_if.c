/* Owns: the changes that somebody asks about (trm_program_create_changed): reading them, and saying
 * which layer is not there. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "ipu/program/change.h"
#include "ipu/program/draft.h"
#include "ipu/program/layers.h"

enum { MOST_NEAR = 3 };

typedef struct reader {
  const trm_program *program;
  trm_change change, possible;
  const char **half, **recompute; /* layers; room for one of each change, and NULL */
  size_t num_half, num_recompute;
  trm_layer_proportion *proportions;
  size_t num_proportions;
  trm_arena arena;
} reader;

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Whether there is a layer; `with_product`: and a convolution or a product in it. */
static bool has_layer(const trm_module *module, const char *layer, bool with_product) {
  const char *const layers[] = {layer, NULL};
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *o = &computation->instructions[i];
      if (with_product && !trm_opcode_is_product(o->opcode)) continue;
      if (trm_program_is_in_layers(o, layers)) return true;
    }
  }
  return false;
}

/* The names of the program's layers and of the scopes around them, as often as they come. */
static trm_status list_names(reader *r, const char ***out_names, size_t *out_count,
                             trm_error *error) {
  trm_program_layer *layers;
  size_t count, known = 0, most = 1;
  TRY(trm_program_list_layers(r->program, sizeof *layers, &layers, &count, error));
  for (size_t l = 0; l < count; ++l) {
    for (const char *at = layers[l].name; *at != '\0'; ++at) most += *at == '/';
    ++most;
  }
  const char **names = ARENA_NEW(&r->arena, const char *, most);
  bool good = names != NULL;
  for (size_t l = 0; l < count && good; ++l) {
    const char *name = layers[l].name;
    for (size_t length = 1; length <= strlen(name) && good; ++length) {
      if (name[length] != '/' && name[length] != '\0') continue;
      names[known] = trm_arena_string(&r->arena, name, length);
      good = names[known++] != NULL;
    }
  }
  trm_free(layers);
  if (!good) FAIL_NO_MEMORY("the names of layers");
  *out_names = names;
  *out_count = known;
  return TRM_OK;
}

static trm_status fail_unknown_change(const char *text, trm_error *error) {
  FAIL(INVALID_ARGUMENT,
       "\"%.80s\" is no change; there are half, recompute, offload, amp=P, LAYER:half, "
       "LAYER:recompute, LAYER:amp=P, memory=BYTES, ipus=N and, for tremula plan, batch=N",
       text);
}

/* Fails, and names the layers that are near or, if none is, the first. */
static trm_status fail_unknown(reader *r, const char *layer, trm_error *error) {
  const char **names, *near[MOST_NEAR] = {0};
  size_t count, found = 0;
  TRY(list_names(r, &names, &count, error));
  const bool is_near = trm_nearest_name(layer, names, count) != NULL;
  while (found < MOST_NEAR && count > 0) {
    const char *best = is_near ? trm_nearest_name(layer, names, count) : names[0];
    if (best == NULL) break;
    near[found++] = best;
    size_t kept = 0;
    for (size_t n = 0; n < count; ++n) {
      if (strcmp(names[n], best) != 0) names[kept++] = names[n];
    }
    count = kept;
  }
  trm_text list = {0};
  for (size_t n = 0; n < found; ++n) {
    trm_text_format(&list, "%s\"%.80s\"", n == 0 ? "" : ", ", near[n]);
  }
  const trm_status status = trm_fail(
      error, TRM_NOT_FOUND, "there is no layer \"%.80s\"; %s %s", layer,
      is_near ? "near names:" : "the first layers:", list.data != NULL ? list.data : "none");
  trm_text_free(&list);
  return status;
}

static trm_status check_proportion(const char *text, double *out_number, trm_error *error) {
  char *end;
  errno = 0;
  const double number = strtod(text, &end);
  if (errno != 0 || end == text || *end != '\0' || !(number > 0 && number <= 1)) {
    FAIL(INVALID_ARGUMENT, "amp wants a proportion above 0 and up to 1, not \"%.40s\"", text);
  }
  *out_number = number;
  return TRM_OK;
}

static trm_status take_layer(reader *r, const char *text, size_t length, const char *what,
                             trm_error *error) {
  const char *layer = trm_arena_string(&r->arena, text, length);
  CHECK_MEMORY(layer, "a change");
  if (!has_layer(r->program->module, layer, false)) return fail_unknown(r, layer, error);
  if (strcmp(what, "half") == 0) {
    r->half[r->num_half++] = layer;
  } else if (strcmp(what, "recompute") == 0) {
    if (r->program->pipeline.present) {
      FAIL(FAILED_PRECONDITION,
           "%s:recompute: the stages of a pipeline recompute all; say recompute", layer);
    }
    r->recompute[r->num_recompute++] = layer;
  } else if (strncmp(what, "amp=", 4) == 0) {
    double number;
    TRY(check_proportion(what + 4, &number, error));
    if (!has_layer(r->program->module, layer, true)) {
      FAIL(FAILED_PRECONDITION, "%s:%s: the layer has no convolution and no product", layer, what);
    }
    r->proportions[r->num_proportions++] = (trm_layer_proportion){layer, what + 4};
  } else {
    FAIL(INVALID_ARGUMENT, "a layer can be changed to half, recompute or amp=P, not to \"%.40s\"",
         what);
  }
  return TRM_OK;
}

/* ---- The whole program ----------------------------------------------------------------------- */

static trm_status take_number(reader *r, const char *text, trm_error *error) {
  const char *value = strchr(text, '=') + 1;
  char *end;
  errno = 0;
  const double number = strtod(value, &end);
  const bool good = errno == 0 && end != value && isfinite(number) && number >= 0;
  if (strncmp(text, "amp=", 4) == 0) {
    TRY(check_proportion(value, &r->change.proportion, error));
    r->change.is_exact = true;
  } else if (strncmp(text, "memory=", 7) == 0) {
    const double unit = strcmp(end, "KiB") == 0 ? 1024 : strcmp(end, "kB") == 0 ? 1000 : 1;
    if (!good || (*end != '\0' && unit == 1) || number * unit > 1 << 30) {
      FAIL(INVALID_ARGUMENT, "memory wants the bytes of a tile, such as 900KiB, not \"%.40s\"",
           value);
    }
    r->change.bytes_per_tile = (int64_t)(number * unit);
  } else if (strncmp(text, "ipus=", 5) == 0) {
    if (!good || *end != '\0' || number < 1 || number > 64 || number != floor(number)) {
      FAIL(INVALID_ARGUMENT, "ipus wants a number from 1 to 64, not \"%.40s\"", value);
    }
    r->change.shards = (uint32_t)number;
  } else {
    return fail_unknown_change(text, error);
  }
  return TRM_OK;
}

static trm_status take(reader *r, const char *text, trm_error *error) {
  const char *colon = strrchr(text, ':');
  const char *lacks = NULL;
  if (colon != NULL && colon > text) {
    return take_layer(r, text, (size_t)(colon - text), colon + 1, error);
  }
  if (strcmp(text, "half") == 0) {
    r->change.half = true;
    if (!r->possible.half) lacks = "no float32";
  } else if (strcmp(text, "recompute") == 0) {
    r->change.recompute = true;
    if (!r->possible.recompute) lacks = "allow_recompute already";
  } else if (strcmp(text, "offload") == 0) {
    r->change.offload = true;
    if (!r->possible.offload) lacks = "no optimizer state that it keeps on the IPU";
  } else if (strchr(text, '=') != NULL) {
    return take_number(r, text, error);
  } else {
    return fail_unknown_change(text, error);
  }
  if (lacks != NULL) FAIL(FAILED_PRECONDITION, "%s: the program has %s", text, lacks);
  return TRM_OK;
}

static trm_status create(reader *r, const char *const *changes, size_t count,
                         trm_program **out_program, trm_error *error) {
  r->half = ARENA_NEW(&r->arena, const char *, count + 1);
  r->recompute = ARENA_NEW(&r->arena, const char *, count + 1);
  r->proportions = ARENA_NEW(&r->arena, trm_layer_proportion, count + 1);
  if (r->half == NULL || r->recompute == NULL || r->proportions == NULL) FAIL_NO_MEMORY("changes");
  TRY(trm_change_find_possible(r->program, &r->possible, error));
  for (size_t c = 0; c < count; ++c) TRY(take(r, changes[c], error));
  if (r->num_half > 0) r->change.half_layers = r->half;
  if (r->num_recompute > 0) r->change.recompute_layers = r->recompute;
  r->change.layer_proportions = r->proportions;
  r->change.num_layer_proportions = r->num_proportions;
  if (r->change.shards > r->possible.shards) {
    FAIL(FAILED_PRECONDITION, "ipus=%u: the program can be cut into %u shards", r->change.shards,
         r->possible.shards);
  }
  TRY(trm_change_plan(r->program, &r->change, out_program, error));
  if (*out_program == NULL) FAIL(FAILED_PRECONDITION, "the program has too few layers");
  return TRM_OK;
}

trm_status trm_program_create_changed(const trm_program *program, const char *const *changes,
                                      size_t count, trm_program **out_program, trm_error *error) {
  reader r = {.program = program};
  const trm_status status = create(&r, changes, count, out_program, error);
  trm_arena_free(&r.arena);
  return status;
}
