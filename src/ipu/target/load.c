/* Owns: the sources of a target: a preset, a file, another target. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "ipu/target/parse.h"

enum { MAX_FILE_BYTES = 1 << 20 };

trm_status trm_target_load(const char *name_or_path, trm_target **out_target, trm_error *error) {
  const char *name = name_or_path == NULL ? "mk2" : name_or_path;
  const size_t length = strlen(name);
  const bool is_path =
      strchr(name, '/') != NULL || (length > 5 && strcmp(name + length - 5, ".json") == 0);
  if (!is_path) {
    const trm_target_text *text = trm_target_find_text(name);
    if (text == NULL) {
      FAIL(NOT_FOUND,
           "there is no target \"%.80s\"; use " TRM_TARGET_PRESETS " or the path of a JSON file "
           "(it must contain a '/' or end in .json)",
           name);
    }
    return trm_target_parse(text->text, text->size, text->name, out_target, error);
  }
  char *data = NULL;
  size_t size = 0;
  TRY(trm_read_regular(name, "machine description", MAX_FILE_BYTES, &data, &size, error));
  const trm_status status = trm_target_parse(data, size, name, out_target, error);
  trm_free(data);
  return status;
}

trm_status trm_target_resize(const trm_target *target, uint32_t num_ipus, uint32_t tiles_per_ipu,
                             trm_target **out_target, trm_error *error) {
  if (num_ipus > 1024 || tiles_per_ipu > 65536) {
    FAIL(INVALID_ARGUMENT,
         "a target of %u IPUs with %u tiles each: at most 1024 and 65536 are "
         "allowed",
         num_ipus, tiles_per_ipu);
  }
  trm_target *copy = NULL;
  TRY(trm_target_new(&copy, error));
  trm_target_copy(copy, target);
  if (num_ipus > 0) copy->num_ipus = num_ipus;
  if (tiles_per_ipu > 0) copy->tiles_per_ipu = tiles_per_ipu;
  trm_target_rehash(copy);
  *out_target = copy;
  return TRM_OK;
}

trm_status trm_target_with_memory(const trm_target *target, int64_t bytes_per_tile,
                                  trm_target **out_target, trm_error *error) {
  if (bytes_per_tile < 4096 || bytes_per_tile > 1 << 30) {
    FAIL(INVALID_ARGUMENT, "a tile's memory is from 4096 to %d bytes, not %" PRId64, 1 << 30,
         bytes_per_tile);
  }
  trm_target *copy = NULL;
  TRY(trm_target_new(&copy, error));
  trm_target_copy(copy, target);
  copy->bytes_per_tile = (uint32_t)bytes_per_tile;
  while (copy->element_offsets[copy->num_elements - 1] >= copy->bytes_per_tile)
    --copy->num_elements;
  trm_target_rehash(copy);
  *out_target = copy;
  return TRM_OK;
}

trm_status trm_target_of_ipu_model(const trm_target *target, trm_target **out_target,
                                   trm_error *error) {
  trm_target *copy = NULL;
  TRY(trm_target_new(&copy, error));
  trm_target_copy(copy, target);
  copy->host_latency_seconds = 0;
  copy->host_out_bytes_per_second = 0;
  if (copy->model_host_bytes_per_second > 0) {
    copy->host_bytes_per_second = copy->model_host_bytes_per_second;
  }
  trm_target_rehash(copy);
  *out_target = copy;
  return TRM_OK;
}
