/* Owns: the functions that the gc-* tools share (gc_tool.h). */
#include "gc_tool.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Prints one line without control characters. */
static void complain(const char *tool, const char *format, va_list args, const char *end) {
  char text[TRM_ERROR_SIZE];
  vsnprintf(text, sizeof text, format, args);
  for (char *c = text; *c != '\0'; ++c) {
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
  }
  fflush(stdout);
  fprintf(stderr, "%s: %s%s\n", tool, text, end);
}

int gc_fail(const char *tool, const char *format, ...) {
  va_list args;
  va_start(args, format);
  complain(tool, format, args, "");
  va_end(args);
  return GC_FAILED;
}

int gc_usage(const char *tool, const char *format, ...) {
  char end[64];
  va_list args;
  va_start(args, format);
  snprintf(end, sizeof end, " (see %s --help)", tool);
  complain(tool, format, args, end);
  va_end(args);
  return GC_USAGE;
}

int gc_print_json(const char *tool, json_t *root) {
  char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(2));
  json_decref(root);
  if (text == NULL) return gc_fail(tool, "the inventory cannot be written as JSON");
  puts(text);
  free(text);
  return 0;
}

int gc_bad_option(const char *tool, int result, const struct option *options, char *const *argv) {
  const char *word = argv[optind - 1];
  if (result == ':') return gc_usage(tool, "'%s' needs a value", word);
  for (; options->name != NULL; ++options) {
    if (optopt != 0 && options->val == optopt) {
      return gc_usage(tool, "'%s': no value goes there", word);
    }
  }
  if (optopt != 0) return gc_usage(tool, "'-%c' is not an option", optopt);
  return gc_usage(tool, "'%s' is not an option", word);
}

int gc_finish(const char *tool) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
  return gc_fail(tool, "cannot write to the standard output");
}

bool gc_system_open(const char *tool, gc_system *out_system) {
  trm_error error = {0};
  *out_system = (gc_system){0};
  if (trm_inventory_load(NULL, &out_system->inventory, &error) != TRM_OK) {
    gc_fail(tool, "%s", error.message);
    return false;
  }
  out_system->num_ipus = trm_inventory_num_ipus(out_system->inventory);
  out_system->attachments = calloc(out_system->num_ipus, sizeof *out_system->attachments);
  if (out_system->attachments == NULL) {
    gc_fail(tool, "out of memory");
  } else if (trm_inventory_attachments(out_system->inventory, out_system->attachments, &error) !=
             TRM_OK) {
    gc_fail(tool, "%s", error.message);
  } else {
    return true;
  }
  gc_system_close(out_system);
  return false;
}

void gc_system_close(gc_system *system) {
  trm_inventory_release(system->inventory);
  free(system->attachments);
  *system = (gc_system){0};
}

void gc_elapsed(int64_t started, char *buffer, size_t size) {
  const int64_t now = (int64_t)time(NULL);
  const int64_t seconds = now > started ? now - started : 0;
  const long long s = seconds % 60, m = seconds / 60 % 60, h = seconds / 3600 % 24,
                  d = seconds / 86400;
  if (d > 0) {
    snprintf(buffer, size, "%lldd%lldh%lldm%llds", d, h, m, s);
  } else if (h > 0) {
    snprintf(buffer, size, "%lldh%lldm%llds", h, m, s);
  } else if (m > 0) {
    snprintf(buffer, size, "%lldm%llds", m, s);
  } else {
    snprintf(buffer, size, "%llds", s);
  }
}

const char *gc_target(const trm_ipu_info *ipu) { return ipu->host[0] != '\0' ? "Fabric" : "PCIe"; }

/* ---- Attributes ------------------------------------------------------------------------------ */

typedef struct attribute_list {
  gc_attribute *items;
  size_t count;
} attribute_list;

__attribute__((format(printf, 3, 4))) static void add(attribute_list *list, const char *key,
                                                      const char *format, ...) {
  if (list->count == GC_MAX_ATTRIBUTES) return;
  gc_attribute *attribute = &list->items[list->count++];
  snprintf(attribute->key, sizeof attribute->key, "%s", key);
  va_list args;
  va_start(args, format);
  vsnprintf(attribute->value, sizeof attribute->value, format, args);
  va_end(args);
  if (attribute->value[0] == '\0') snprintf(attribute->value, sizeof attribute->value, "N/A");
}

static void add_unknown(attribute_list *list, const char *const *keys) {
  for (; *keys != NULL; ++keys) add(list, *keys, "N/A");
}

/* "2.4.4" -> 2, 4, 4; missing parts are N/A. */
static void add_firmware(attribute_list *list, const char *version) {
  static const char *const keys[] = {"firmware major version", "firmware minor version",
                                     "firmware patch version"};
  const char *rest = version;
  for (size_t i = 0; i < 3; ++i) {
    const int length = (int)strcspn(rest, ".");
    add(list, keys[i], "%.*s", length, rest);
    rest += length + (rest[length] == '.');
  }
  add(list, "firmware version", "%s", version);
}

static void add_process(attribute_list *list, const trm_attachment *attachment) {
  if (!attachment->attached) {
    static const char *const keys[] = {"process start time", "user executable", "user name",
                                       "user process id", NULL};
    add_unknown(list, keys);
    return;
  }
  char date[32] = "";
  const time_t started = (time_t)attachment->started;
  struct tm local;
  if (localtime_r(&started, &local) != NULL) strftime(date, sizeof date, "%F %T", &local);
  add(list, "process start time", "%s", date);
  add(list, "user executable", "%s", attachment->command);
  add(list, "user name", "%s", attachment->user);
  add(list, "user process id", "%lld", (long long)attachment->pid);
}

static void add_ipu(attribute_list *list, const gc_system *system, const trm_ipu_info *ipu) {
  static const char *const physical_1[] = {"average board temp", "average die temp", NULL};
  static const char *const physical_2[] = {"driver version", NULL};
  static const char *const physical_3[] = {
      "hexoatt active size (bytes)", "hexoatt total size (bytes)", "hexopt active size (bytes)",
      "hexopt total size (bytes)",   "icu bootloader version",     NULL};
  static const char *const physical_4[] = {"ipu error state",
                                           "ipu power",
                                           "ipu utilisation",
                                           "ipu utilisation (session)",
                                           "link correctable error count",
                                           "link correctable error count (session)",
                                           "link speed",
                                           "link width",
                                           NULL};
  static const char *const physical_5[] = {"parity error count threshold",
                                           "parity error threshold interval", "parity initialised",
                                           NULL};
  static const char *const physical_6[] = {"pcie physical slot", NULL};
  static const char *const physical_7[] = {"remote buffers supported", "sysfs file id",
                                           "total board power", NULL};
  add(list, "target", "%s", gc_target(ipu));
  add_unknown(list, physical_1);
  add(list, "board ipu index", "%u", ipu->number);
  add(list, "board serial number", "%s", ipu->serial);
  add(list, "board type", "%s", ipu->board);
  add(list, "board variant", "%s", ipu->board);
  add(list, "clock", "%uMHz", ipu->clock_mhz);
  add_unknown(list, physical_2);
  add_firmware(list, ipu->firmware);
  add_unknown(list, physical_3);
  add(list, "ipu architecture", "%s", ipu->architecture);
  add_unknown(list, physical_4);
  add(list, "numa node", "%u", ipu->numa_node);
  add_unknown(list, physical_5);
  add(list, "partition", "%s", trm_inventory_partition(system->inventory));
  add(list, "pci id", "%s", ipu->pci);
  add_unknown(list, physical_6);
  const trm_attachment *attachment = &system->attachments[ipu->id];
  add_process(list, attachment);
  add_unknown(list, physical_7);
  add(list, "virtual", "Tremula %s", trm_version());
}

/* Adds the attributes that are equal for all members. */
static void add_group(attribute_list *list, const gc_system *system, const uint32_t *members,
                      uint32_t count) {
  const trm_ipu_info *first = trm_inventory_ipu(system->inventory, members[0]);
  char ids[160] = "";
  for (uint32_t i = 0; i < count; ++i) {
    const size_t used = strlen(ids);
    snprintf(ids + used, sizeof ids - used, "%s%u", i == 0 ? "" : ",", members[i]);
  }
  add(list, "target", "Multi IPU");
  add(list, "ipu architecture", "%s", first->architecture);
  add(list, "ipu count", "%u", count);
  add(list, "ipu ids", "%s", ids);
  add(list, "partition", "%s", trm_inventory_partition(system->inventory));
  add(list, "virtual", "Tremula %s", trm_version());
}

size_t gc_attributes(const gc_system *system, uint32_t id,
                     gc_attribute out_attributes[GC_MAX_ATTRIBUTES]) {
  uint32_t count = 0;
  const uint32_t *members = trm_inventory_members(system->inventory, id, &count);
  attribute_list list = {out_attributes, 0};
  if (members == NULL) return 0;
  add(&list, "id", "%u", id);
  const trm_ipu_info *ipu = trm_inventory_ipu(system->inventory, id);
  if (ipu != NULL) {
    add_ipu(&list, system, ipu);
  } else {
    add_group(&list, system, members, count);
  }
  return list.count;
}

int gc_list(const gc_listing *listing, int argc, char **argv) {
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"all-partitions", no_argument, NULL, 'a'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  const char *tool = listing->tool;
  bool json = false;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":jah", options, NULL)) != -1;) {
    switch (option) {
      case 'j': json = true; break;
      case 'a': break;
      case 'v': printf("%s (Tremula) %s\n", tool, trm_version()); return gc_finish(tool);
      case 'h': listing->print_help(); return gc_finish(tool);
      default: return gc_bad_option(tool, option, options, argv);
    }
  }
  if (optind < argc) return gc_usage(tool, "unexpected argument '%s'", argv[optind]);
  gc_system system;
  if (!gc_system_open(tool, &system)) return GC_FAILED;
  const int code = json ? listing->print_json(&system) : listing->print_text(&system);
  gc_system_close(&system);
  return code != 0 ? code : gc_finish(tool);
}
