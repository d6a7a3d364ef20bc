/* Owns: vars.capnp, a Cap'n Proto message of one segment (data/schema/vars.capnp).
 *
 * All sizes are known in advance, so one pass gives the objects their places: the root, the list of
 * distributions, the list of variables, then runs and names in order. */
#include <string.h>

#include "base/file.h"
#include "report/write.h"

enum {
  /* Words of data and pointers in each struct, as `capnp compile` lays them out. */
  ROOT_DATA = 2,
  ROOT_POINTERS = 2,
  DISTRIBUTION_DATA = 1,
  DISTRIBUTION_POINTERS = 1,
  RUN_DATA = 2,
  VARIABLE_DATA = 3,
  VARIABLE_POINTERS = 1
};

typedef struct message {
  uint64_t *words; /* of the segment */
  size_t used;
} message;

static void put_u32(uint64_t *data, size_t index, uint32_t value) {
  data[index / 2] |= (uint64_t)value << (index % 2 * 32);
}

/* Writes at word `at` a pointer to a struct at word `target`. */
static void point_to_struct(message *m, size_t at, size_t target, unsigned data,
                            unsigned pointers) {
  const uint32_t offset = (uint32_t)(target - at - 1) << 2;
  m->words[at] = offset | (uint64_t)data << 32 | (uint64_t)pointers << 48;
}

/* Makes room for a list of structs, with a pointer at word `at`. Gives the word of its first
 * element. */
static size_t add_structs(message *m, size_t at, size_t count, unsigned data, unsigned pointers) {
  const size_t tag = m->used;
  const size_t words = count * (data + pointers);
  const uint32_t offset = (uint32_t)(tag - at - 1) << 2 | 1;
  m->words[at] = offset | (uint64_t)(words << 3 | 7) << 32; /* 7: a list of structs */
  m->words[tag] = (uint32_t)count << 2 | (uint64_t)data << 32 | (uint64_t)pointers << 48;
  m->used = tag + 1 + words;
  return tag + 1;
}

static size_t text_words(const char *text) { return (strlen(text) + 8) / 8; }

static void add_text(message *m, size_t at, const char *text) {
  const size_t size = strlen(text) + 1;
  const uint32_t offset = (uint32_t)(m->used - at - 1) << 2 | 1;
  m->words[at] = offset | (uint64_t)(size << 3 | 2) << 32; /* 2: a list of bytes */
  memcpy(&m->words[m->used], text, size);
  m->used += text_words(text);
}

static size_t count_words(const trm_report_source *s) {
  const trm_distributions *d = &s->lowered.distributions;
  size_t words = 1 + ROOT_DATA + ROOT_POINTERS + 2;
  words += d->items.count * (DISTRIBUTION_DATA + DISTRIBUTION_POINTERS + 1);
  words += d->runs.count * RUN_DATA;
  for (uint32_t v = 0; v < s->program->num_variables; ++v) {
    words += VARIABLE_DATA + VARIABLE_POINTERS + text_words(s->program->variables[v].name);
  }
  return words;
}

static void put_distributions(message *m, size_t list, const trm_distributions *d) {
  for (size_t i = 0; i < d->items.count; ++i) {
    const trm_distribution *o = &d->items.items[i];
    const size_t at = list + i * (DISTRIBUTION_DATA + DISTRIBUTION_POINTERS);
    m->words[at] = (uint64_t)o->total;
    const size_t runs = add_structs(m, at + 1, o->num_runs, RUN_DATA, 0);
    for (uint32_t r = 0; r < o->num_runs; ++r) {
      const trm_tile_run *run = &d->runs.items[o->first_run + r];
      uint64_t *data = &m->words[runs + r * RUN_DATA];
      put_u32(data, 0, run->first_tile);
      put_u32(data, 1, run->num_tiles);
      data[1] = (uint64_t)run->value;
    }
  }
}

static void put_variables(message *m, size_t list, const trm_report_source *s) {
  for (size_t v = 0; v < s->program->num_variables; ++v) {
    const trm_program_variable *o = &s->program->variables[v];
    const size_t at = list + v * (VARIABLE_DATA + VARIABLE_POINTERS);
    uint64_t *data = &m->words[at];
    if (s->debug.first != 0 && o->source != TRM_NO_INDEX) data[0] = s->debug.first + o->source;
    put_u32(data, 2, s->lowered.of_variable[v]);
    if (!o->always_live) {
      put_u32(data, 3, o->live.begin);
      put_u32(data, 4, o->live.end);
    }
    put_u32(data, 5, (uint32_t)o->category | (uint32_t)o->always_live << 16);
    add_text(m, at + VARIABLE_DATA, o->name);
  }
}

trm_status trm_report_write_vars(const trm_report_source *s, const char *path, trm_error *error) {
  const size_t words = count_words(s);
  if (words >= (size_t)1 << 28) {
    FAIL(RESOURCE_EXHAUSTED, "the program has too many variables for the file %s", path);
  }
  uint64_t *file = trm_allocate_zeroed(words + 1, sizeof *file);
  CHECK_MEMORY(file, "lowered variables");
  file[0] = (uint64_t)words << 32; /* one segment, then its size */
  message m = {.words = file + 1, .used = 1 + ROOT_DATA + ROOT_POINTERS};
  point_to_struct(&m, 0, 1, ROOT_DATA, ROOT_POINTERS);
  put_u32(m.words + 1, 0, TRM_REPORT_FORMAT);
  put_u32(m.words + 1, 1, s->program->num_ipus);
  put_u32(m.words + 1, 2, s->program->tiles_per_ipu);
  const size_t distributions = add_structs(&m, 1 + ROOT_DATA, s->lowered.distributions.items.count,
                                           DISTRIBUTION_DATA, DISTRIBUTION_POINTERS);
  const size_t variables =
      add_structs(&m, 2 + ROOT_DATA, s->program->num_variables, VARIABLE_DATA, VARIABLE_POINTERS);
  put_distributions(&m, distributions, &s->lowered.distributions);
  put_variables(&m, variables, s);
  trm_status status = TRM_OK;
  if (m.used != words) {
    status = trm_fail(error, TRM_INTERNAL, "vars.capnp: %zu words were counted and %zu written",
                      words, m.used);
  }
  if (status == TRM_OK) status = trm_write_file(path, file, (words + 1) * sizeof *file, error);
  trm_free(file);
  return status;
}
