/* Owns: archive.a, an ar archive with a text member for each tile: a line "name bytes" for each
 * category of memory (docs/profile_format.md). */
#include <inttypes.h>
#include <stdio.h>

#include "base/file.h"
#include "report/write.h"

static void put_member(trm_text *out, const char *name, const trm_text *contents) {
  /* Date, owner and mode are constant, so that equal programs have equal archives. */
  trm_text_format(out, "%-16s%-12d%-6d%-6d%-8s%-10zu`\n", name, 0, 0, 0, "100644",
                  contents->length);
  trm_text_append(out, contents->data, contents->length);
  if (contents->length % 2 != 0) trm_text_append(out, "\n", 1);
}

static void put_tile(trm_text *out, const trm_program *p, uint32_t tile) {
  const trm_program_memory *m = &p->memory;
  const struct {
    const char *name;
    int64_t bytes;
  } rows[] = {{"ipu", tile / p->tiles_per_ipu},
              {"tile", tile % p->tiles_per_ipu},
              {"alwaysLive", m->always_live[tile]},
              {"notAlwaysLive", m->not_always_live[tile]},
              {"gaps", m->gaps[tile]},
              {"interleaved", m->interleaved[tile]},
              {"overflowed", m->overflowed[tile]}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    trm_text_format(out, "%s %" PRId64 "\n", rows[r].name, rows[r].bytes);
  }
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
    if (m->by_category[c][tile] == 0) continue;
    trm_text_format(out, "category.%s %" PRId64 "\n",
                    trm_memory_category_name((trm_memory_category)c), m->by_category[c][tile]);
  }
}

trm_status trm_report_write_archive(const trm_report_source *source, const char *path,
                                    trm_error *error) {
  trm_text text = {0}, member = {0};
  trm_text_format(&text, "!<arch>\n");
  for (uint32_t t = 0; t < source->program->memory.num_tiles; ++t) {
    char name[24];
    snprintf(name, sizeof name, "tile%u.mem/", t);
    member.length = 0;
    put_tile(&member, source->program, t);
    put_member(&text, name, &member);
  }
  trm_status status =
      text.failed || member.failed
          ? trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while making %s", path)
          : trm_write_file(path, text.data, text.length, error);
  trm_text_free(&text);
  trm_text_free(&member);
  return status;
}
