/* Owns: engines as bytes (save.h).
 *
 * The same functions write and read: each gets the place of a value, whose bytes it appends, or
 * which it fills in. A header with a hash comes first; numbers are as the machine has them. */
#define XXH_INLINE_ALL
#include "poplar/save.h"

#include <string.h>
#include <xxhash.h>

#include "poplar/step.h"

static const char magic[8] = {'T', 'R', 'M', 'P', 'O', 'P', 'L', '\n'};
enum { FORMAT_VERSION = 1 };

typedef struct header {
  char magic[sizeof magic];
  uint64_t version, size, hash; /* of all that follows */
} header;

typedef struct archive {
  bool reads;
  trm_text written;
  const char *at, *end; /* still to be read */
  trm_poplar_core *core;
  trm_status status; /* the first failure, after which nothing happens */
  trm_poplar_error *error;
} archive;

/* ---- Values --------------------------------------------------------------------------------- */

static void fail(archive *a, trm_status status, const char *what) {
  if (a->status == TRM_OK) {
    a->status = trm_poplar_fail(a->error, status, TRM_POPLAR_ERROR, "%s", what);
  }
}

static void note(archive *a, trm_status status) {
  if (a->status == TRM_OK) a->status = status;
}

/* Whether so many bytes are there to be read. */
static bool has(archive *a, size_t size) {
  if ((size_t)(a->end - a->at) < size) fail(a, TRM_DATA_LOSS, "the executable is cut short");
  return a->status == TRM_OK;
}

static void bytes(archive *a, void *place, size_t size) {
  if (!a->reads) {
    trm_text_append(&a->written, place, size);
  } else if (has(a, size) && size > 0) {
    memcpy(place, a->at, size);
    a->at += size;
  }
}
#define VALUE(a, place) bytes(a, &(place), sizeof(place))

/* Whether something is there, when it is written. */
static bool flag(archive *a, bool is_there) {
  VALUE(a, is_there);
  return is_there && a->status == TRM_OK;
}

/* Memory of zeros for what is read. */
static void *room(archive *a, size_t count, size_t size) {
  void *made = has(a, count) ? trm_allocate_zeroed(count + 1, size) : NULL;
  if (made == NULL) fail(a, TRM_RESOURCE_EXHAUSTED, "out of memory while loading an executable");
  return made;
}

/* The number of items of a VECTOR, which are there and zero when they are read. */
static void items_of(archive *a, void **items, size_t *count, size_t *capacity, size_t size) {
  size_t wanted = *count;
  VALUE(a, wanted);
  if (!a->reads) return;
  *items = room(a, wanted, size);
  *count = *capacity = *items == NULL ? 0 : wanted;
}
#define ITEMS(a, v) items_of(a, (void **)&(v).items, &(v).count, &(v).capacity, sizeof *(v).items)
/* A VECTOR of plain values. */
#define VALUES(a, v)                                    \
  do {                                                  \
    ITEMS(a, v);                                        \
    bytes(a, (v).items, (v).count * sizeof *(v).items); \
  } while (0)

/* A block of bytes, of trm_allocate. */
static void block(archive *a, void **place, size_t *size) {
  VALUE(a, *size);
  if (a->reads) *place = room(a, *size, 1);
  if (a->status == TRM_OK) bytes(a, *place, *size);
}

/* A name of the graph's. */
static void name(archive *a, const char **place) {
  size_t size = a->reads ? 0 : strlen(*place);
  VALUE(a, size);
  if (!a->reads) {
    trm_text_append(&a->written, *place, size);
  } else if (has(a, size)) {
    *place = trm_arena_string(&a->core->arena, a->at, size);
    a->at += size;
    if (*place == NULL) fail(a, TRM_RESOURCE_EXHAUSTED, "out of memory while loading a name");
  }
}

static void tensor(archive *a, trm_poplar_tensor **place) {
  trm_poplar_tensor shape = {0};
  if (*place != NULL) shape = **place;
  if (!flag(a, *place != NULL)) return;
  VALUE(a, shape.dtype);
  VALUE(a, shape.rank);
  VALUE(a, shape.dims);
  VALUE(a, shape.num_runs);
  if (a->reads && has(a, shape.num_runs)) {
    note(a, trm_poplar_tensor_make(shape.dtype, shape.dims, shape.rank, NULL, shape.num_runs, place,
                                   a->error));
  }
  if (a->status == TRM_OK) bytes(a, (*place)->runs, shape.num_runs * sizeof *(*place)->runs);
}

/* ---- Programs ------------------------------------------------------------------------------- */

/* A program that several others have is written for each, as a plan has its operations. */
static void program(archive *a, trm_poplar_program **place) {
  if (!flag(a, *place != NULL)) return;
  if (a->reads) *place = room(a, 1, sizeof **place);
  trm_poplar_program *one = *place;
  if (one == NULL) return;
  if (a->reads) one->references = 1;
  size_t size = a->reads ? 0 : strlen(one->text) + 1;
  VALUE(a, one->kind);
  VALUE(a, one->number);
  block(a, (void **)&one->text, &size);
  for (int t = 0; t < 2; ++t) tensor(a, &one->tensors[t]);
  VALUES(a, one->cases);
  ITEMS(a, one->children);
  for (size_t c = 0; c < one->children.count; ++c) program(a, &one->children.items[c]);
}

/* ---- What a graph has ----------------------------------------------------------------------- */

static void variable(archive *a, trm_poplar_variable *one) {
  name(a, &one->name);
  VALUE(a, one->dtype);
  VALUE(a, one->elements);
  VALUE(a, one->is_constant);
  VALUES(a, one->places);
  size_t size = (size_t)one->elements * trm_dtype_size(one->dtype);
  if (flag(a, one->initial != NULL)) block(a, &one->initial, &size);
}

/* The machine code: loaded where a graph is read. */
static void codelets(archive *a, trm_poplar_codelets *one) {
  char *file = one->bytes;
  size_t size = one->size;
  if (!a->reads && file == NULL) fail(a, TRM_UNIMPLEMENTED, "codelets of no file are not saved");
  block(a, (void **)&file, &size);
  if (!a->reads) return;
  if (a->status == TRM_OK) note(a, trm_poplar_load_codelets(a->core, file, size, a->error));
  trm_free(file);
}

static void binding(archive *a, const trm_codelet_vertex *codelet, trm_poplar_binding *one) {
  VALUE(a, one->field);
  VALUE(a, one->index);
  VALUE(a, one->count);
  tensor(a, &one->tensor);
  if (!flag(a, one->data != NULL)) return;
  const trm_codelet_field *field = &codelet->fields[one->field];
  size_t size = one->count * trm_dtype_size((trm_dtype)field->dtype) * field->width;
  block(a, &one->data, &size);
}

/* A vertex keeps what its estimator says, which is a function of the program that made it. */
static void vertex(archive *a, trm_poplar_vertex *one) {
  trm_poplar_vertex known = *one;
  const char *codelet = a->reads ? NULL : one->codelet->name;
  name(a, &codelet);
  if (!a->reads) {
    known.is_estimated = trm_poplar_estimate_vertex(a->core, one, &known.cycles, &known.flops);
  }
  VALUE(a, known.compute_set);
  VALUE(a, known.tile);
  VALUE(a, known.is_estimated);
  VALUE(a, known.cycles);
  VALUE(a, known.flops);
  if (a->status != TRM_OK) return;
  if (a->reads) {
    known.codelet = trm_poplar_find_codelet(a->core, codelet);
    if (known.codelet == NULL) fail(a, TRM_DATA_LOSS, "the executable lacks a codelet");
    *one = known;
  }
  ITEMS(a, one->bindings);
  for (size_t b = 0; b < one->bindings.count && a->status == TRM_OK; ++b) {
    binding(a, one->codelet, &one->bindings.items[b]);
  }
}

static void compute_set(archive *a, trm_poplar_compute_set *one) {
  name(a, &one->name);
  VALUES(a, one->vertices);
}

static void step(archive *a, trm_poplar_step **place) {
  if (a->reads) *place = room(a, 1, sizeof **place);
  trm_poplar_step *one = *place;
  if (one == NULL) return;
  void *data = NULL;
  size_t size = 0;
  trm_error inner;
  trm_status status = TRM_OK;
  if (!a->reads) status = trm_executable_serialize(one->executable, &data, &size, &inner);
  if (status == TRM_OK) block(a, &data, &size);
  if (a->reads && a->status == TRM_OK) {
    status = trm_executable_deserialize(data, size, &one->executable, &inner);
    if (status == TRM_OK) status = trm_poplar_step_for_cpu(&one->executable, &inner);
  }
  trm_free(data);
  if (status != TRM_OK) note(a, trm_poplar_pass(a->error, &inner));
  name(a, &one->name);
  tensor(a, &one->result);
  uint32_t count = one->num_operands;
  VALUE(a, count);
  if (a->reads) one->operands = room(a, count, sizeof *one->operands);
  if (a->status != TRM_OK) return;
  one->num_operands = count;
  for (uint32_t o = 0; o < count; ++o) tensor(a, &one->operands[o]);
}

static void stream(archive *a, trm_poplar_stream *one) {
  name(a, &one->handle);
  VALUE(a, one->to_device);
  tensor(a, &one->elements);
}

#define EACH(a, function, v)                                          \
  do {                                                                \
    ITEMS(a, v);                                                      \
    for (size_t i = 0; i < (v).count && (a)->status == TRM_OK; ++i) { \
      function(a, &(v).items[i]);                                     \
    }                                                                 \
  } while (0)

static void contents(archive *a, trm_poplar_saved *saved) {
  trm_poplar_core *core = a->core;
  size_t files = core->codelets.count;
  VALUE(a, files);
  for (size_t f = 0; f < files && a->status == TRM_OK; ++f) {
    trm_poplar_codelets none = {0};
    codelets(a, a->reads ? &none : &core->codelets.items[f]);
  }
  EACH(a, variable, core->variables);
  EACH(a, compute_set, core->compute_sets);
  EACH(a, vertex, core->vertices);
  EACH(a, step, core->steps);
  EACH(a, stream, core->streams);
  VALUE(a, saved->num_programs);
  tensor(a, &saved->control);
  program(a, &saved->program);
}

/* ---- Saving and reading --------------------------------------------------------------------- */

trm_status trm_poplar_save(const trm_poplar_saved *saved, void **out_data, uint64_t *out_size,
                           trm_poplar_error *error) {
  archive a = {.core = saved->graph->core, .error = error};
  trm_poplar_saved all = *saved;
  header head = {.version = FORMAT_VERSION};
  memcpy(head.magic, magic, sizeof magic);
  VALUE(&a, head);
  name(&a, &a.core->target_name);
  VALUE(&a, a.core->num_ipus);
  VALUE(&a, a.core->tiles_per_ipu);
  contents(&a, &all);
  if (a.written.failed) fail(&a, TRM_RESOURCE_EXHAUSTED, "out of memory while saving");
  if (a.status != TRM_OK) {
    trm_text_free(&a.written);
    return a.status;
  }
  head.size = a.written.length - sizeof head;
  head.hash = XXH3_64bits(a.written.data + sizeof head, head.size);
  memcpy(a.written.data, &head, sizeof head);
  *out_data = a.written.data;
  *out_size = a.written.length;
  return TRM_OK;
}

/* Makes the graph, and reads what it has. */
static trm_status read_graph(archive *a, trm_poplar_saved *saved) {
  uint32_t ipus = 0, tiles = 0;
  trm_poplar_core names = {0}; /* for the name of the target */
  const char *target = NULL;
  a->core = &names;
  name(a, &target);
  VALUE(a, ipus);
  VALUE(a, tiles);
  if (a->status == TRM_OK) {
    note(a, trm_poplar_graph_create(*target == '\0' ? NULL : target, ipus, tiles, &saved->graph,
                                    a->error));
  }
  trm_arena_free(&names.arena);
  TRY(a->status);
  a->core = saved->graph->core;
  contents(a, saved);
  TRY(a->status);
  size_t child = saved->num_programs;
  VECTOR_EACH(trm_poplar_stream, one, a->core->streams) {
    if (child >= saved->program->children.count) break;
    one->access = saved->program->children.items[child++];
    trm_poplar_program_retain(one->access);
  }
  return TRM_OK;
}

trm_status trm_poplar_read_saved(const void *data, uint64_t size, trm_poplar_saved *out_saved,
                                 trm_poplar_error *error) {
  header head = {.version = 0};
  if (size >= sizeof head) memcpy(&head, data, sizeof head);
  if (memcmp(head.magic, magic, sizeof magic) != 0) {
    THROW(FILE, "this is no executable of Poplar's that Tremula saved");
  }
  if (head.version != FORMAT_VERSION) {
    THROW(FILE, "the executable has format %llu, this version reads %d: save it again",
          (unsigned long long)head.version, FORMAT_VERSION);
  }
  const char *payload = (const char *)data + sizeof head;
  if (head.size != size - sizeof head || XXH3_64bits(payload, head.size) != head.hash) {
    THROW(FILE, "the executable is damaged or cut short");
  }
  archive a = {.reads = true, .at = payload, .end = payload + head.size, .error = error};
  *out_saved = (trm_poplar_saved){0};
  const trm_status status = read_graph(&a, out_saved);
  if (status != TRM_OK) trm_poplar_saved_release(out_saved);
  return status;
}

void trm_poplar_saved_release(trm_poplar_saved *saved) {
  trm_poplar_program_release(saved->program);
  trm_poplar_tensor_release(saved->control);
  trm_poplar_graph_release(saved->graph);
}
