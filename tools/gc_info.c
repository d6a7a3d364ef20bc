/* Owns: `gc-info`: the list of devices, and the attributes of one. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#include "gc_tool.h"

static const char tool[] = "gc-info";

static void print_help(void) {
  printf("usage: gc-info -l\n"
         "       gc-info -d ID [-i | --ipu-arch | --ipu-count | --tile-clock-speed]\n\n"
         "  -l, --list-devices      every id: single IPUs, then groups of them\n"
         "  -d, --device-id ID      the device that the options below are about\n"
         "  -i, --device-info       everything that is known of it\n"
         "      --ipu-arch          its architecture: ipu1, ipu2 or ipu21\n"
         "      --ipu-count         how many IPUs it has; without -d: how many there are\n"
         "      --tile-clock-speed  the clock of its tiles\n"
         "      --all-partitions    all partitions (an inventory has one)\n"
         "      --version           the version\n"
         "  -h, --help              this text\n\n"
         "TREMULA_INVENTORY chooses the inventory of virtual IPUs.\n"
         "The exit code is 0, 1 after a failure, or 2 after a mistake in the command line.\n");
}

/* Prints the place of an IPU: "IPU-M host: [10.1.5.10], IPU#: [3]", or its PCI address. */
static void print_place(const trm_ipu_info *ipu) {
  if (ipu->host[0] != '\0') {
    printf("IPU-M host: [%s], IPU#: [%u]\n", ipu->host, ipu->number);
  } else {
    printf("PCI Domain: [%s]\n", ipu->pci);
  }
}

static int list_devices(const gc_system *system) {
  const char *partition = trm_inventory_partition(system->inventory);
  printf("Graphcore device listing:\n\n");
  if (partition[0] != '\0') printf("Partition: %s [active]\n", partition);
  const uint32_t num_ids = trm_inventory_num_ids(system->inventory);
  for (uint32_t id = 0; id < num_ids; ++id) {
    const trm_ipu_info *ipu = trm_inventory_ipu(system->inventory, id);
    if (ipu != NULL) {
      printf("-+- Id: [%u], target: [%s], ", id, gc_target(ipu));
      print_place(ipu);
      continue;
    }
    uint32_t count;
    const uint32_t *members = trm_inventory_members(system->inventory, id, &count);
    printf("\n-+- Id: [%u], target: [Multi IPU]\n", id);
    for (uint32_t i = 0; i < count; ++i) {
      printf(" |--- Id: [%u], DNC Id: [%u], ", members[i], i);
      print_place(trm_inventory_ipu(system->inventory, members[i]));
    }
  }
  return 0;
}

static int print_info(const gc_system *system, uint32_t id) {
  gc_attribute attributes[GC_MAX_ATTRIBUTES];
  const size_t count = gc_attributes(system, id, attributes);
  printf("Device Info:\n");
  for (size_t i = 0; i < count; ++i) {
    printf("  %s: %s\n", attributes[i].key, attributes[i].value);
  }
  return 0;
}

enum { SHOW_NOTHING = 0, SHOW_INFO, SHOW_ARCHITECTURE = 1000, SHOW_COUNT, SHOW_CLOCK };

static int show(const gc_system *system, int what, bool has_id, uint32_t id) {
  uint32_t count;
  const uint32_t *members = trm_inventory_members(system->inventory, id, &count);
  if (has_id && members == NULL) {
    return gc_fail(tool,
                   "there is no device %u: the inventory %s has the ids 0 to %u "
                   "(gc-info -l lists them)",
                   id, trm_inventory_name(system->inventory),
                   trm_inventory_num_ids(system->inventory) - 1);
  }
  const trm_ipu_info *first = trm_inventory_ipu(system->inventory, members[0]);
  switch (what) {
    case SHOW_INFO: return print_info(system, id);
    case SHOW_ARCHITECTURE: printf("%s\n", first->architecture); return 0;
    case SHOW_CLOCK: printf("%uMHz\n", first->clock_mhz); return 0;
    default: printf("%u\n", has_id ? count : system->num_ipus); return 0;
  }
}

static bool parse_id(const char *text, uint32_t *out_id) {
  char *end;
  errno = 0;
  const unsigned long value = strtoul(text, &end, 10);
  if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || value > UINT32_MAX) {
    return false;
  }
  *out_id = (uint32_t)value;
  return true;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"list-devices", no_argument, NULL, 'l'},
                                          {"device-id", required_argument, NULL, 'd'},
                                          {"device-info", no_argument, NULL, 'i'},
                                          {"ipu-arch", no_argument, NULL, SHOW_ARCHITECTURE},
                                          {"ipu-count", no_argument, NULL, SHOW_COUNT},
                                          {"tile-clock-speed", no_argument, NULL, SHOW_CLOCK},
                                          {"all-partitions", no_argument, NULL, 'a'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  bool list = false, has_id = false;
  int what = SHOW_NOTHING;
  uint32_t id = 0;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":ld:iah", options, NULL)) != -1;) {
    switch (option) {
      case 'l': list = true; break;
      case 'd':
        has_id = true;
        if (!parse_id(optarg, &id)) return gc_usage(tool, "'%s' is not the id of a device", optarg);
        break;
      case 'i':
      case SHOW_ARCHITECTURE:
      case SHOW_COUNT:
      case SHOW_CLOCK: {
        const int wanted = option == 'i' ? SHOW_INFO : option;
        if (what != SHOW_NOTHING && what != wanted) {
          return gc_usage(tool, "ask for one thing at a time");
        }
        what = wanted;
        break;
      }
      case 'a': break;
      case 'v': printf("gc-info (Tremula) %s\n", trm_version()); return gc_finish(tool);
      case 'h': print_help(); return gc_finish(tool);
      default: return gc_bad_option(tool, option, options, argv);
    }
  }
  if (optind < argc) return gc_usage(tool, "unexpected argument '%s'", argv[optind]);
  if (list && (has_id || what != SHOW_NOTHING)) {
    return gc_usage(tool, "-l lists all devices; ask for one device without it");
  }
  if (!list && what == SHOW_NOTHING) return gc_usage(tool, "say what to show: -l, or -d ID -i");
  if (!list && what != SHOW_COUNT && !has_id) return gc_usage(tool, "say which device: -d ID");
  gc_system system;
  if (!gc_system_open(tool, &system)) return GC_FAILED;
  const int code = list ? list_devices(&system) : show(&system, what, has_id, id);
  gc_system_close(&system);
  return code != 0 ? code : gc_finish(tool);
}
