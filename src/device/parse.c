/* Owns: reading an inventory from JSON (the form is in docs/devices.md). The text is untrusted:
 * unknown keys, wrong types and values out of bounds are errors that name their place. */
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <xxhash.h>

#include "device/inventory.h"

enum { MAX_STRING = 255, MAX_NAME = 64 };

/* The context of all functions, for messages. */
typedef struct parser {
  const char *source;
  trm_inventory *inventory;
} parser;

static const struct {
  const char *key;
  size_t offset;
} string_fields[] =
    {
        {"architecture", offsetof(trm_ipu_info, architecture)},
        {"board", offsetof(trm_ipu_info, board)},
        {"host", offsetof(trm_ipu_info, host)},
        {"pci", offsetof(trm_ipu_info, pci)},
        {"serial", offsetof(trm_ipu_info, serial)},
        {"firmware", offsetof(trm_ipu_info, firmware)},
        {"software", offsetof(trm_ipu_info, software)},
        {"server_version", offsetof(trm_ipu_info, server_version)},
        {"routing", offsetof(trm_ipu_info, routing)},
},
  number_fields[] = {
      {"number", offsetof(trm_ipu_info, number)},
      {"clock_mhz", offsetof(trm_ipu_info, clock_mhz)},
      {"numa_node", offsetof(trm_ipu_info, numa_node)},
};
enum {
  NUM_STRINGS = sizeof string_fields / sizeof *string_fields,
  NUM_NUMBERS = sizeof number_fields / sizeof *number_fields
};

static const struct {
  const char *name, *board;
  uint32_t clock_mhz;
} architectures[] = {{"ipu1", "C2", 1600}, {"ipu2", "M2000", 1330}, {"ipu21", "BOW-2000", 1850}};

/* Printable text only: these strings end up in tables and file names. */
static trm_status take_string(parser *p, const json_t *value, const char *where, const char *key,
                              const char **out, trm_error *error) {
  if (!json_is_string(value)) {
    FAIL(INVALID_ARGUMENT, "%s: %s: \"%s\" must be a string", p->source, where, key);
  }
  const char *text = json_string_value(value);
  const size_t length = json_string_length(value);
  if (length > MAX_STRING) {
    FAIL(INVALID_ARGUMENT, "%s: %s: \"%s\" has %zu bytes; at most %d are allowed", p->source, where,
         key, length, MAX_STRING);
  }
  for (size_t i = 0; i < length; ++i) {
    if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
      FAIL(INVALID_ARGUMENT, "%s: %s: \"%s\" contains a control character", p->source, where, key);
    }
  }
  char *copy = trm_arena_string(&p->inventory->arena, text, length);
  CHECK_MEMORY(copy, "an inventory");
  *out = copy;
  return TRM_OK;
}

static trm_status take_number(parser *p, const json_t *value, const char *where, const char *key,
                              uint32_t maximum, uint32_t *out, trm_error *error) {
  if (!json_is_integer(value) || json_integer_value(value) < 0 ||
      json_integer_value(value) > (json_int_t)maximum) {
    FAIL(INVALID_ARGUMENT, "%s: %s: \"%s\" must be an integer from 0 to %u", p->source, where, key,
         maximum);
  }
  *out = (uint32_t)json_integer_value(value);
  return TRM_OK;
}

/* Reads the fields of one IPU, or the defaults; fields that do not occur stay. */
static trm_status take_ipu(parser *p, const json_t *object, const char *where, trm_ipu_info *ipu,
                           trm_error *error) {
  if (!json_is_object(object)) {
    FAIL(INVALID_ARGUMENT, "%s: %s must be an object", p->source, where);
  }
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    bool known = false;
    for (size_t i = 0; i < NUM_STRINGS && !known; ++i) {
      if (strcmp(key, string_fields[i].key) != 0) continue;
      const char **field = (const char **)(void *)((char *)ipu + string_fields[i].offset);
      TRY(take_string(p, value, where, key, field, error));
      known = true;
    }
    for (size_t i = 0; i < NUM_NUMBERS && !known; ++i) {
      if (strcmp(key, number_fields[i].key) != 0) continue;
      uint32_t *field = (uint32_t *)(void *)((char *)ipu + number_fields[i].offset);
      TRY(take_number(p, value, where, key, 1000000, field, error));
      known = true;
    }
    if (!known) {
      FAIL(INVALID_ARGUMENT,
           "%s: %s: unknown key \"%.80s\"; known are architecture, board, host, "
           "pci, serial, firmware, software, server_version, routing, number, clock_mhz and "
           "numa_node",
           p->source, where, key);
    }
  }
  return TRM_OK;
}

static trm_status complete_ipu(parser *p, const char *where, trm_ipu_info *ipu, trm_error *error) {
  if (ipu->architecture == NULL) {
    FAIL(INVALID_ARGUMENT,
         "%s: %s: \"architecture\" is missing (ipu1, ipu2 or ipu21), here and in "
         "\"defaults\"",
         p->source, where);
  }
  const size_t count = sizeof architectures / sizeof *architectures;
  size_t a = 0;
  while (a < count && strcmp(architectures[a].name, ipu->architecture) != 0) ++a;
  if (a == count) {
    FAIL(INVALID_ARGUMENT,
         "%s: %s: unknown architecture \"%s\"; known are ipu1 (MK1), ipu2 (MK2) "
         "and ipu21 (Bow)",
         p->source, where, ipu->architecture);
  }
  if (ipu->board == NULL) ipu->board = architectures[a].board;
  if (ipu->clock_mhz == 0) ipu->clock_mhz = architectures[a].clock_mhz;
  if (ipu->routing == NULL) ipu->routing = "DNC";
  for (size_t i = 0; i < NUM_STRINGS; ++i) {
    const char **field = (const char **)(void *)((char *)ipu + string_fields[i].offset);
    if (*field == NULL) *field = "";
  }
  return TRM_OK;
}

static trm_status take_ipus(parser *p, const json_t *root, trm_error *error) {
  trm_inventory *inventory = p->inventory;
  trm_ipu_info defaults = {0};
  const json_t *default_object = json_object_get(root, "defaults");
  if (default_object != NULL) TRY(take_ipu(p, default_object, "\"defaults\"", &defaults, error));
  const json_t *ipus = json_object_get(root, "ipus");
  if (!json_is_array(ipus)) {
    FAIL(INVALID_ARGUMENT, "%s: \"ipus\" must be an array with an object for each IPU", p->source);
  }
  const size_t count = json_array_size(ipus);
  if (count == 0) {
    FAIL(INVALID_ARGUMENT,
         "Target configuration failed: model disabled and no hardware IPU found. "
         "(Are you sure you enabled the Poplar driver ?) The inventory %s has no \"ipus\".",
         p->source);
  }
  if (count > TRM_MAX_IPUS) {
    FAIL(INVALID_ARGUMENT, "%s: \"ipus\" has %zu entries; %d are allowed", p->source, count,
         TRM_MAX_IPUS);
  }
  inventory->num_ipus = (uint32_t)count;
  inventory->ipus = ARENA_NEW(&inventory->arena, trm_ipu_info, count);
  CHECK_MEMORY(inventory->ipus, "an inventory");
  for (uint32_t i = 0; i < count; ++i) {
    char where[32];
    snprintf(where, sizeof where, "\"ipus\"[%u]", i);
    trm_ipu_info *ipu = &inventory->ipus[i];
    *ipu = defaults;
    ipu->id = i;
    if (json_object_get(default_object, "number") == NULL) ipu->number = i;
    TRY(take_ipu(p, json_array_get(ipus, i), where, ipu, error));
    TRY(complete_ipu(p, where, ipu, error));
    if (strcmp(ipu->architecture, inventory->ipus[0].architecture) != 0) {
      FAIL(INVALID_ARGUMENT,
           "%s: %s is of architecture %s and \"ipus\"[0] of %s; the IPUs of an "
           "inventory must agree",
           p->source, where, ipu->architecture, inventory->ipus[0].architecture);
    }
  }
  return TRM_OK;
}

static trm_status take_order(parser *p, const json_t *order, trm_error *error) {
  trm_inventory *inventory = p->inventory;
  const uint32_t count = inventory->num_ipus;
  inventory->order = ARENA_NEW(&inventory->arena, uint32_t, count);
  bool *seen = ARENA_NEW(&inventory->arena, bool, count);
  if (inventory->order == NULL || seen == NULL) FAIL_NO_MEMORY("an inventory");
  if (order == NULL) {
    for (uint32_t i = 0; i < count; ++i) inventory->order[i] = i;
    return TRM_OK;
  }
  if (!json_is_array(order) || json_array_size(order) != count) {
    FAIL(INVALID_ARGUMENT, "%s: \"order\" must be an array that names each of the %u IPUs once",
         p->source, count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    char where[32];
    snprintf(where, sizeof where, "entry %u", i);
    uint32_t id = 0;
    TRY(take_number(p, json_array_get(order, i), where, "order", count - 1, &id, error));
    if (seen[id]) {
      FAIL(INVALID_ARGUMENT, "%s: \"order\" names IPU %u twice", p->source, id);
    }
    seen[id] = true;
    inventory->order[i] = id;
  }
  return TRM_OK;
}

/* The name is a folder's name too. */
static trm_status check_name(const parser *p, const char *name, trm_error *error) {
  const size_t length = strlen(name);
  bool good = length > 0 && length <= MAX_NAME && name[0] != '.';
  for (size_t i = 0; i < length && good; ++i) {
    const char c = name[i];
    good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  }
  if (!good) {
    FAIL(INVALID_ARGUMENT,
         "%s: \"name\" must have 1 to %d letters, digits, '-', '_' or '.', and "
         "must not start with '.'",
         p->source, MAX_NAME);
  }
  return TRM_OK;
}

static trm_status parse_root(parser *p, const json_t *root, uint64_t hash, trm_error *error) {
  trm_inventory *inventory = p->inventory;
  if (!json_is_object(root)) FAIL(INVALID_ARGUMENT, "%s: must be a JSON object", p->source);
  static const char *const known[] = {"name", "partition", "defaults", "ipus", "order"};
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)root, key, value) {
    size_t i = 0;
    while (i < sizeof known / sizeof *known && strcmp(known[i], key) != 0) ++i;
    if (i == sizeof known / sizeof *known) {
      FAIL(INVALID_ARGUMENT,
           "%s: unknown key \"%.80s\"; known are name, partition, defaults, ipus "
           "and order",
           p->source, key);
    }
  }
  const json_t *name = json_object_get(root, "name");
  if (name == NULL) FAIL(INVALID_ARGUMENT, "%s: \"name\" is missing", p->source);
  TRY(take_string(p, name, "top level", "name", &inventory->name, error));
  TRY(check_name(p, inventory->name, error));
  const json_t *partition = json_object_get(root, "partition");
  inventory->partition = "";
  if (partition != NULL) {
    TRY(take_string(p, partition, "top level", "partition", &inventory->partition, error));
  }
  inventory->lock_folder =
      trm_arena_format(&inventory->arena, "%s-%08x", inventory->name, (unsigned)(hash & UINT_MAX));
  CHECK_MEMORY(inventory->lock_folder, "an inventory");
  TRY(take_ipus(p, root, error));
  TRY(take_order(p, json_object_get(root, "order"), error));
  return trm_inventory_number_ids(inventory, error);
}

trm_status trm_inventory_parse(const void *data, size_t size, const char *source,
                               trm_inventory **out_inventory, trm_error *error) {
  parser p = {.source = source == NULL ? "inventory" : source};
  json_error_t json_error;
  json_t *root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &json_error);
  if (root == NULL) {
    FAIL(INVALID_ARGUMENT, "%s:%d:%d: not valid JSON: %s", p.source, json_error.line,
         json_error.column, json_error.text);
  }
  p.inventory = trm_allocate_zeroed(1, sizeof *p.inventory);
  trm_status status;
  if (p.inventory == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while reading %s", p.source);
  } else {
    atomic_init(&p.inventory->references, 1);
    status = parse_root(&p, root, XXH3_64bits(data, size), error);
  }
  json_decref(root);
  if (status != TRM_OK) {
    trm_inventory_release(p.inventory);
    return status;
  }
  *out_inventory = p.inventory;
  return TRM_OK;
}
