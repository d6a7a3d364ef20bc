/* Owns: inventories: where they come from (environment, preset, file) and what they answer. */
#include "device/inventory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char default_preset[] = "mk2-16";
enum { MAX_FILE_BYTES = 4 << 20 };

static bool is_path(const char *name) {
  const size_t length = strlen(name);
  return strchr(name, '/') != NULL || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

/* Reads a whole regular file; free *out_data with trm_free. */
static trm_status read_file(const char *path, char **out_data, size_t *out_size,
                            trm_error *error) {
  /* O_NONBLOCK: a FIFO must not hang the process; it is refused below. */
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return trm_fail(error, errno == ENOENT ? TRM_NOT_FOUND : TRM_INVALID_ARGUMENT,
                    "cannot open the inventory file %s: %s", path, strerror(errno));
  }
  trm_status status = TRM_OK;
  char *data = NULL;
  size_t used = 0;
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    FAIL_OR_GOTO(done, INVALID_ARGUMENT, "the inventory %s is not a regular file", path);
  }
  if (info.st_size > MAX_FILE_BYTES) {
    FAIL_OR_GOTO(done, INVALID_ARGUMENT,
                 "the inventory file %s has %lld bytes; at most %d are read", path,
                 (long long)info.st_size, MAX_FILE_BYTES);
  }
  const size_t size = (size_t)info.st_size;
  data = trm_allocate(size + 1);
  if (data == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while reading %s", path);
  while (used < size) {
    const ssize_t got = read(fd, data + used, size - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      FAIL_OR_GOTO(done, DATA_LOSS, "cannot read the inventory file %s: %s", path,
                   strerror(errno));
    }
    if (got == 0) break;
    used += (size_t)got;
  }
done:
  close(fd);
  if (status != TRM_OK) {
    trm_free(data);
    return status;
  }
  *out_data = data;
  *out_size = used;
  return TRM_OK;
}

trm_status trm_inventory_load(const char *name_or_path, trm_inventory **out_inventory,
                              trm_error *error) {
  const char *name = name_or_path;
  bool from_environment = false;
  if (name == NULL) {
    name = getenv("TREMULA_INVENTORY");
    from_environment = name != NULL && *name != '\0';
    if (!from_environment) name = default_preset;
  }
  const char *note = from_environment ? "from the environment variable TREMULA_INVENTORY" : NULL;
  trm_status status;
  if (is_path(name)) {
    char *data = NULL;
    size_t size = 0;
    status = read_file(name, &data, &size, error);
    if (status == TRM_OK) status = trm_inventory_parse(data, size, name, out_inventory, error);
    trm_free(data);
  } else {
    const char *text = trm_preset_text(name);
    if (text == NULL) {
      status = trm_fail(error, TRM_NOT_FOUND,
                        "there is no inventory \"%s\". Use one of the presets mk2-16, m2000-2 and "
                        "c2-16, or the path of a JSON file (it must contain a '/' or end in "
                        ".json)", name);
    } else {
      trm_inventory *inventory = NULL;
      status = trm_inventory_parse(text, strlen(text), name, &inventory, error);
      if (status == TRM_OK) {
        inventory->lock_folder = inventory->name;
        *out_inventory = inventory;
      }
    }
  }
  if (status != TRM_OK && note != NULL) return trm_note(error, status, "%s", note);
  return status;
}

void trm_inventory_retain(trm_inventory *inventory) {
  atomic_fetch_add_explicit(&inventory->references, 1, memory_order_relaxed);
}

void trm_inventory_release(trm_inventory *inventory) {
  if (inventory == NULL) return;
  if (atomic_fetch_sub_explicit(&inventory->references, 1, memory_order_acq_rel) != 1) return;
  trm_arena_free(&inventory->arena);
  trm_free(inventory);
}

const char *trm_inventory_name(const trm_inventory *inventory) { return inventory->name; }
const char *trm_inventory_partition(const trm_inventory *inventory) {
  return inventory->partition;
}

const trm_ipu_info *trm_inventory_ipu(const trm_inventory *inventory, uint32_t id) {
  return id < inventory->num_ipus ? &inventory->ipus[id] : NULL;
}
