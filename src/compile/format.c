/* Owns: the file format of executables (docs/executable_format.md).
 *
 * The file holds the module after the passes that host and IPU share, and the options. Kernels and
 * packed weights depend on the CPU, so loading makes them anew. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/sized.h"
#include "compile/executable.h"
#include "timeline/mark.h"

/* All numbers are little-endian. */
static const char magic[8] = {'T', 'R', 'M', 'E', 'X', 'E', 'C', '\n'};
enum {
  FORMAT_VERSION = 3,
  HEADER_BYTES = 8 + 4 + 4 + 8 + 8,
  FLAG_FITS = 1,  /* at most one of the two flags is set */
  FLAG_MISFIT = 2 /* the payload has the message */
};

static void put(unsigned char *to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= (uint64_t)from[i] << 8 * i;
  return value;
}

static void append_number(trm_text *text, uint64_t value, int bytes) {
  unsigned char data[8];
  put(data, value, bytes);
  trm_text_append(text, (const char *)data, (size_t)bytes);
}

static void append_string(trm_text *text, const char *string) {
  append_number(text, strlen(string), 4);
  trm_text_append(text, string, strlen(string));
}

trm_status trm_executable_serialize(const trm_executable *executable, void **out_data,
                                    size_t *out_size, trm_error *error) {
  void *proto;
  size_t proto_size;
  TRY(trm_module_serialize(executable->shared, &proto, &proto_size, error));
  trm_text payload = {0};
  append_number(&payload, TRM_NUM_OPTIONS, 4);
  for (int i = 0; i < TRM_NUM_OPTIONS; ++i) {
    bool plans;
    append_string(&payload, trm_options_row((size_t)i, &plans)->key);
    /* the region cache is this machine's */
    append_string(&payload, i == TRM_OPTION_region_cache ? "" : executable->options.texts[i]);
  }
  if (executable->misfit != NULL) append_string(&payload, executable->misfit);
  append_number(&payload, proto_size, 8);
  trm_text_append(&payload, proto, proto_size);
  trm_free(proto);
  trm_text file = {0};
  trm_text_append(&file, magic, sizeof magic);
  append_number(&file, FORMAT_VERSION, 4);
  append_number(&file,
                executable->misfit != NULL ? FLAG_MISFIT
                : executable->known_to_fit ? FLAG_FITS
                                           : 0,
                4);
  append_number(&file, payload.length, 8);
  append_number(&file, payload.failed ? 0 : XXH3_64bits(payload.data, payload.length), 8);
  trm_text_append(&file, payload.data, payload.length);
  const bool failed = payload.failed || file.failed;
  trm_text_free(&payload);
  if (failed) {
    trm_text_free(&file);
    FAIL_NO_MEMORY("a serialised executable");
  }
  *out_data = file.data;
  *out_size = file.length;
  return TRM_OK;
}

/* The unread rest of the payload. */
typedef struct reader {
  const unsigned char *at, *end;
} reader;

static trm_status read_number(reader *r, int bytes, uint64_t *out_value, trm_error *error) {
  if (r->end - r->at < bytes) FAIL(DATA_LOSS, "the executable is cut short");
  *out_value = get(r->at, bytes);
  r->at += bytes;
  return TRM_OK;
}

static trm_status read_string(reader *r, trm_arena *arena, const char **out_text,
                              trm_error *error) {
  uint64_t length;
  TRY(read_number(r, 4, &length, error));
  if ((uint64_t)(r->end - r->at) < length) FAIL(DATA_LOSS, "the executable is cut short");
  *out_text = trm_arena_string(arena, (const char *)r->at, (size_t)length);
  CHECK_MEMORY(*out_text, "an executable");
  r->at += length;
  return TRM_OK;
}

static trm_status read_payload(reader *r, uint64_t flags, const char *region_cache,
                               trm_arena *scratch, trm_executable **out_executable,
                               trm_error *error) {
  uint64_t num_options, proto_size;
  const char *misfit = NULL;
  TRY(read_number(r, 4, &num_options, error));
  if (num_options > 1024) {
    FAIL(DATA_LOSS, "the executable has %llu options", (unsigned long long)num_options);
  }
  trm_option *options = ARENA_NEW(scratch, trm_option, num_options + 1);
  CHECK_MEMORY(options, "options");
  for (uint64_t i = 0; i < num_options; ++i) {
    TRY(read_string(r, scratch, &options[i].key, error));
    TRY(read_string(r, scratch, &options[i].value, error));
  }
  if (region_cache != NULL) {
    options[num_options++] = (trm_option){"region_cache", region_cache};
  }
  if ((flags & FLAG_MISFIT) != 0) TRY(read_string(r, scratch, &misfit, error));
  TRY(read_number(r, 8, &proto_size, error));
  if ((uint64_t)(r->end - r->at) != proto_size) FAIL(DATA_LOSS, "the executable is cut short");
  trm_module *module;
  TRY(trm_hlo_parse_proto(r->at, (size_t)proto_size, &module, error));
  const trm_status status = trm_module_verify(module, error);
  if (status != TRM_OK) {
    trm_module_free(module);
    return status;
  }
  TRY(trm_executable_from_shared(module, options, (size_t)num_options, out_executable, error));
  (*out_executable)->known_to_fit = (flags & FLAG_FITS) != 0;
  if (misfit == NULL) return TRM_OK;
  (*out_executable)->misfit = trm_arena_string(&(*out_executable)->arena, misfit, strlen(misfit));
  if ((*out_executable)->misfit != NULL) return TRM_OK;
  trm_executable_free(*out_executable);
  FAIL_NO_MEMORY("an executable");
}

/* `region_cache` may be NULL. */
static trm_status deserialize(const void *data, size_t size, const char *region_cache,
                              trm_executable **out_executable, trm_error *error) {
  const unsigned char *bytes = data;
  if (size < HEADER_BYTES || memcmp(bytes, magic, sizeof magic) != 0) {
    FAIL(DATA_LOSS, "this is not a Tremula executable, or it is cut short: its first bytes are not "
                    "those of an executable");
  }
  const uint64_t version = get(bytes + 8, 4), length = get(bytes + 16, 8);
  if (version != FORMAT_VERSION) {
    FAIL(FAILED_PRECONDITION,
         "the executable has format version %llu; this library reads version "
         "%d. Compile it again",
         (unsigned long long)version, FORMAT_VERSION);
  }
  const uint64_t flags = get(bytes + 12, 4);
  if (flags > FLAG_MISFIT) FAIL(DATA_LOSS, "the executable has unknown flags");
  if (length != size - HEADER_BYTES) {
    FAIL(DATA_LOSS,
         "the executable is cut short or has bytes after its end: its header says %llu bytes, "
         "and there are %zu",
         (unsigned long long)length, size - HEADER_BYTES);
  }
  if (XXH3_64bits(bytes + HEADER_BYTES, (size_t)length) != get(bytes + 24, 8)) {
    FAIL(DATA_LOSS, "the executable is damaged: its contents do not match its hash");
  }
  reader r = {bytes + HEADER_BYTES, bytes + size};
  trm_arena scratch = {0};
  const trm_status status = read_payload(&r, flags, region_cache, &scratch, out_executable, error);
  trm_arena_free(&scratch);
  return status;
}

trm_status trm_executable_deserialize(const void *data, size_t size,
                                      trm_executable **out_executable, trm_error *error) {
  return deserialize(data, size, NULL, out_executable, error);
}

trm_status trm_executable_save(const trm_executable *executable, const char *path,
                               trm_error *error) {
  void *data;
  size_t size;
  TRY(trm_executable_serialize(executable, &data, &size, error));
  const trm_status status = trm_write_file(path, data, size, error);
  trm_free(data);
  return status;
}

trm_status trm_executable_load(const char *path, trm_executable **out_executable,
                               trm_error *error) {
  return trm_executable_load_with(path, NULL, out_executable, error);
}

trm_status trm_executable_load_with(const char *path, const trm_load_settings *given,
                                    trm_executable **out_executable, trm_error *error) {
  trm_load_settings settings = {.size = sizeof settings};
  if (given != NULL) {
    TRY(trm_sized_take(given, &settings, sizeof settings, "trm_load_settings", error));
  }
  char *data;
  size_t size;
  TRY(trm_read_regular(path, "executable", (size_t)TRM_MAX_FILE_GIB << 30, &data, &size, error));
  const trm_mark mark = trm_mark_begin(TRM_TIMELINE_POPLAR, "load executable");
  const trm_status status = deserialize(data, size, settings.region_cache, out_executable, error);
  trm_mark_end(&mark);
  trm_free(data);
  return status == TRM_OK ? TRM_OK : trm_note(error, status, "while loading %s", path);
}
