/* Owns: `gc-monitor`: the IPUs, and the processes that are attached to them, as two tables or as
 * JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "gc_tool.h"

static const char tool[] = "gc-monitor";
enum { MAX_COLUMNS = 9, CELL_SIZE = 80 };

/* ---- Tables ---------------------------------------------------------------------------------- */

/* A heading over some columns. */
typedef struct span {
  const char *text;
  size_t columns;
} span;

/* A table. Columns are as wide as their contents; a rule precedes the first row of a board. */
typedef struct table {
  size_t num_columns, num_rows;
  const char *headings[MAX_COLUMNS];
  char (*cells)[MAX_COLUMNS][CELL_SIZE];
  bool *rules;
  size_t widths[MAX_COLUMNS];
} table;

static bool table_create(table *t, const char *const *headings, size_t max_rows) {
  *t = (table){0};
  for (; headings[t->num_columns] != NULL; ++t->num_columns) {
    t->headings[t->num_columns] = headings[t->num_columns];
    t->widths[t->num_columns] = strlen(headings[t->num_columns]);
  }
  t->cells = calloc(max_rows + 1, sizeof *t->cells);
  t->rules = calloc(max_rows + 1, sizeof *t->rules);
  return t->cells != NULL && t->rules != NULL;
}

static void table_free(table *t) {
  free(t->cells);
  free(t->rules);
}

static void table_add(table *t, const char *const *values, bool rule) {
  for (size_t c = 0; c < t->num_columns; ++c) {
    snprintf(t->cells[t->num_rows][c], CELL_SIZE, "%s", values[c]);
    const size_t length = strlen(t->cells[t->num_rows][c]);
    if (length > t->widths[c]) t->widths[c] = length;
  }
  t->rules[t->num_rows++] = rule;
}

/* Characters between the outer bars of `count` columns from `first` on. */
static size_t inner_width(const table *t, size_t first, size_t count) {
  size_t width = 3 * count - 1;
  for (size_t c = first; c < first + count; ++c) width += t->widths[c];
  return width;
}

static void print_rule(const table *t) {
  for (size_t c = 0; c < t->num_columns; ++c) {
    putchar('+');
    for (size_t i = 0; i < t->widths[c] + 2; ++i) putchar('-');
  }
  printf("+\n");
}

static void print_cell(const char *text, size_t width) {
  const size_t length = strlen(text), left = width > length ? (width - length) / 2 : 0;
  printf("|%*s%s%*s", (int)left, "", text, (int)(width > length + left ? width - length - left : 0),
         "");
}

/* Widens the last column for a long title. */
static void make_room(table *t, const span *spans) {
  size_t first = 0;
  for (; spans->columns > 0; ++spans) {
    const size_t has = inner_width(t, first, spans->columns), wants = strlen(spans->text) + 2;
    first += spans->columns;
    if (wants > has) t->widths[first - 1] += wants - has;
  }
}

static void print_spans(const table *t, const span *spans) {
  size_t first = 0;
  print_rule(t);
  for (; spans->columns > 0; ++spans) {
    print_cell(spans->text, inner_width(t, first, spans->columns));
    first += spans->columns;
  }
  printf("|\n");
}

static void table_print(table *t, const span *spans) {
  make_room(t, spans);
  print_spans(t, spans);
  print_rule(t);
  for (size_t c = 0; c < t->num_columns; ++c) print_cell(t->headings[c], t->widths[c] + 2);
  printf("|\n");
  print_rule(t);
  for (size_t r = 0; r < t->num_rows; ++r) {
    if (t->rules[r] && r > 0) print_rule(t);
    for (size_t c = 0; c < t->num_columns; ++c) print_cell(t->cells[r][c], t->widths[c] + 2);
    printf("|\n");
  }
  print_rule(t);
}

/* ---- The IPUs -------------------------------------------------------------------------------- */

/* Whether an IPU is on another board than the one before it. */
static bool begins_board(const gc_system *system, uint32_t id, uint32_t previous) {
  const trm_ipu_info *a = trm_inventory_ipu(system->inventory, previous);
  const trm_ipu_info *b = trm_inventory_ipu(system->inventory, id);
  return strcmp(a->serial, b->serial) != 0 || strcmp(a->host, b->host) != 0;
}

static bool print_ipus(const gc_system *system) {
  static const char *const machine_headings[] = {"IPU-M",          "Serial", "ICU FW",  "Type",
                                                 "Server version", "ID",     "PCIe ID", "Routing",
                                                 "GWSW",           NULL};
  static const char *const card_headings[] = {"Serial",  "ICU FW",  "Type",      "ID", "IPU#",
                                              "PCIe ID", "Routing", "NUMA node", NULL};
  const bool machines = trm_inventory_ipu(system->inventory, 0)->host[0] != '\0';
  table t;
  const bool ok = table_create(&t, machines ? machine_headings : card_headings, system->num_ipus);
  for (uint32_t i = 0; ok && i < system->num_ipus; ++i) {
    const trm_ipu_info *ipu = trm_inventory_ipu(system->inventory, i);
    char id[16], number[16], numa[16];
    snprintf(id, sizeof id, "%u", i);
    snprintf(number, sizeof number, "%u", ipu->number);
    snprintf(numa, sizeof numa, "%u", ipu->numa_node);
    const char *machine[] = {ipu->host,  ipu->serial,         ipu->firmware,
                             ipu->board, ipu->server_version, id,
                             number,     ipu->routing,        ipu->software};
    const char *card[] = {ipu->serial, ipu->firmware, ipu->board,   id,
                          number,      ipu->pci,      ipu->routing, numa};
    table_add(&t, machines ? machine : card, i > 0 && begins_board(system, i, i - 1));
  }
  if (ok) {
    char title[256];
    const char *partition = trm_inventory_partition(system->inventory);
    snprintf(title, sizeof title, "Partition: '%s' has %u reconfigurable IPUs",
             partition[0] != '\0' ? partition : trm_inventory_name(system->inventory),
             system->num_ipus);
    const span spans[] = {{tool, 1}, {title, t.num_columns - 1}, {NULL, 0}};
    table_print(&t, spans);
  }
  table_free(&t);
  return ok;
}

/* ---- The processes --------------------------------------------------------------------------- */

static bool print_processes(const gc_system *system) {
  static const char *const headings[] = {"PID",   "Command", "Time", "User",  "ID",
                                         "Clock", "Temp",    "Temp", "Power", NULL};
  table t;
  const bool ok = table_create(&t, headings, system->num_ipus);
  uint32_t previous = 0;
  for (uint32_t i = 0; ok && i < system->num_ipus; ++i) {
    const trm_attachment *attachment = &system->attachments[i];
    if (!attachment->attached) continue;
    char pid[32], elapsed[GC_ELAPSED_SIZE], id[16], clock_speed[32];
    snprintf(pid, sizeof pid, "%lld", (long long)attachment->pid);
    gc_elapsed(attachment->started, elapsed, sizeof elapsed);
    snprintf(id, sizeof id, "%u", i);
    snprintf(clock_speed, sizeof clock_speed, "%uMHz",
             trm_inventory_ipu(system->inventory, i)->clock_mhz);
    const char *values[] = {
        pid, attachment->command, elapsed, attachment->user, id, clock_speed, "N/A", "N/A", "N/A"};
    table_add(&t, values, t.num_rows > 0 && begins_board(system, i, previous));
    previous = i;
  }
  if (ok && t.num_rows > 0) {
    const span spans[] = {{"Attached processes", 4}, {"IPU", 3}, {"Board", 2}, {NULL, 0}};
    table_print(&t, spans);
  } else if (ok) {
    const span spans[] = {{"No attached processes", t.num_columns}, {NULL, 0}};
    make_room(&t, spans);
    print_spans(&t, spans);
    print_rule(&t);
  }
  table_free(&t);
  return ok;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* All values are text, like the original's attributes. */
static json_t *ipu_object(const gc_system *system, uint32_t id) {
  gc_attribute attributes[GC_MAX_ATTRIBUTES];
  const size_t count = gc_attributes(system, id, attributes);
  const trm_attachment *attachment = &system->attachments[id];
  json_t *object = json_object();
  for (size_t i = 0; object != NULL && i < count; ++i) {
    json_object_set_new(object, attributes[i].key, json_string(attributes[i].value));
  }
  char pid[32] = "N/A", elapsed[GC_ELAPSED_SIZE] = "N/A";
  if (attachment->attached) {
    snprintf(pid, sizeof pid, "%lld", (long long)attachment->pid);
    gc_elapsed(attachment->started, elapsed, sizeof elapsed);
  }
  json_object_set_new(object, "PID", json_string(pid));
  json_object_set_new(object, "time", json_string(elapsed));
  json_object_set_new(object, "attached to",
                      json_string(attachment->attached ? attachment->ids : "N/A"));
  return object;
}

static int print_json(const gc_system *system) {
  json_t *cards = json_array();
  json_t *ipus = NULL;
  for (uint32_t i = 0; i < system->num_ipus; ++i) {
    if (i == 0 || begins_board(system, i, i - 1)) {
      const trm_ipu_info *ipu = trm_inventory_ipu(system->inventory, i);
      ipus = json_array();
      json_array_append_new(cards, json_pack("{s:s, s:s, s:s, s:o}", "serial", ipu->serial, "type",
                                             ipu->board, "host", ipu->host, "ipus", ipus));
    }
    json_array_append_new(ipus, ipu_object(system, i));
  }
  json_t *root =
      json_pack("{s:s, s:s, s:i, s:o}", "partition", trm_inventory_partition(system->inventory),
                "inventory", trm_inventory_name(system->inventory), "reconfigurable IPUs",
                (int)system->num_ipus, "cards", cards);
  return gc_print_json(tool, root);
}

/* ---- The command line ------------------------------------------------------------------------ */

static void print_help(void) {
  printf("usage: gc-monitor [--json]\n\n"
         "Shows the virtual IPUs of this machine and which processes are attached to them.\n"
         "  -j, --json            the same as JSON\n"
         "  -a, --all-partitions  all partitions (an inventory has one)\n"
         "      --version         the version\n"
         "  -h, --help            this text\n\n"
         "Virtual IPUs have no temperature and no power: they are N/A.\n"
         "TREMULA_INVENTORY chooses the inventory, TREMULA_RUNTIME_DIR where the locks are.\n"
         "The exit code is 0, 1 after a failure, or 2 after a mistake in the command line.\n");
}

static int print_text(const gc_system *system) {
  const bool ok = print_ipus(system) && print_processes(system);
  return ok ? 0 : gc_fail(tool, "out of memory");
}

int main(int argc, char **argv) {
  const gc_listing listing = {tool, print_help, print_text, print_json};
  return gc_list(&listing, argc, argv);
}
