/* Owns: the sources of an inventory: the environment, a preset, a file. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "device/inventory.h"

static const char default_preset[] = "mk2-16";
enum { MAX_FILE_BYTES = 4 << 20 };

static bool is_path(const char *name) {
  const size_t length = strlen(name);
  return strchr(name, '/') != NULL || (length > 5 && strcmp(name + length - 5, ".json") == 0);
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
    status = trm_read_regular(name, "inventory", MAX_FILE_BYTES, &data, &size, error);
    if (status == TRM_OK) status = trm_inventory_parse(data, size, name, out_inventory, error);
    trm_free(data);
  } else {
    const char *text = trm_preset_text(name);
    if (text == NULL) {
      status = trm_fail(error, TRM_NOT_FOUND,
                        "there is no inventory \"%s\". Use one of the presets mk2-16, m2000-2 and "
                        "c2-16, or the path of a JSON file (it must contain a '/' or end in "
                        ".json)",
                        name);
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
