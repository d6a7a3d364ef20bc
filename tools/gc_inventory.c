/* Owns: `gc-inventory`: the attributes of every device, as text or as JSON. */
#include <jansson.h>

#include "gc_tool.h"

static const char tool[] = "gc-inventory";

static void print_help(void) {
  printf("usage: gc-inventory [-j]\n\n"
         "Shows the attributes of every virtual IPU.\n"
         "  -j, --json            as JSON: {\"devices\": [{...}]}, one object a single IPU\n"
         "  -a, --all-partitions  all partitions (an inventory has one)\n"
         "      --version         the version\n"
         "  -h, --help            this text\n\n"
         "TREMULA_INVENTORY chooses the inventory.\n"
         "The exit code is 0, 1 after a failure, or 2 after a mistake in the command line.\n");
}

static int print_json(const gc_system *system) {
  json_t *devices = json_array();
  for (uint32_t id = 0; id < system->num_ipus; ++id) {
    gc_attribute attributes[GC_MAX_ATTRIBUTES];
    const size_t count = gc_attributes(system, id, attributes);
    json_t *object = json_object();
    for (size_t i = 0; i < count; ++i) {
      json_object_set_new(object, attributes[i].key, json_string(attributes[i].value));
    }
    json_array_append_new(devices, object);
  }
  json_t *root =
      json_pack("{s:s, s:s, s:o}", "inventory", trm_inventory_name(system->inventory), "partition",
                trm_inventory_partition(system->inventory), "devices", devices);
  return gc_print_json(tool, root);
}

static int print_text(const gc_system *system) {
  printf("Device inventory: %s\n", trm_inventory_name(system->inventory));
  for (uint32_t id = 0; id < system->num_ipus; ++id) {
    gc_attribute attributes[GC_MAX_ATTRIBUTES];
    const size_t count = gc_attributes(system, id, attributes);
    printf("\nDevice %u:\n", id);
    for (size_t i = 0; i < count; ++i) {
      printf("  %s: %s\n", attributes[i].key, attributes[i].value);
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  const gc_listing listing = {tool, print_help, print_text, print_json};
  return gc_list(&listing, argc, argv);
}
