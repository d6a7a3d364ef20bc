/* Functions that gc-monitor, gc-info and gc-inventory share: reading the inventory and its users,
 * the attributes of a device, and messages.
 *
 * The tools show the virtual IPUs of the inventory that TREMULA_INVENTORY names. Attributes that a
 * virtual IPU does not have, such as a temperature, are "N/A". */
#ifndef TREMULA_TOOLS_GC_TOOL_H_
#define TREMULA_TOOLS_GC_TOOL_H_

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>

#include "tremula/device.h"

enum { GC_FAILED = 1, GC_USAGE = 2 };

/* The inventory, and the process attached to each of its IPUs. */
typedef struct gc_system {
  trm_inventory *inventory;
  trm_attachment *attachments;
  uint32_t num_ipus;
} gc_system;

/* Opens the system. False after a message on stderr. */
bool gc_system_open(const char *tool, gc_system *out_system);
void gc_system_close(gc_system *system);

/* Print one line "<tool>: <text>" on stderr; gc_usage adds a hint at --help. Return GC_FAILED and
 * GC_USAGE. */
int gc_fail(const char *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));
int gc_usage(const char *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports an option that getopt_long refused. `result` is what it returned, with an option string
 * that begins with ':'. Returns GC_USAGE. */
int gc_bad_option(const char *tool, int result, const struct option *options, char *const *argv);
/* Prints a JSON document and releases it. NULL, which jansson returns without memory, is a failure.
 * Returns 0, or the result of gc_fail. */
int gc_print_json(const char *tool, json_t *root);
/* Flushes stdout. Returns 0, or GC_FAILED. */
int gc_finish(const char *tool);

/* Writes the time since a second of 1970, such as "9m4s". */
void gc_elapsed(int64_t started, char *buffer, size_t size);
enum { GC_ELAPSED_SIZE = 48 };

/* The connection of an IPU: "Fabric" for one of an IPU-Machine, else "PCIe". */
const char *gc_target(const trm_ipu_info *ipu);

/* An attribute of a device: its key and value as text. */
typedef struct gc_attribute {
  char key[40];
  char value[160];
} gc_attribute;
enum { GC_MAX_ATTRIBUTES = 48 };
/* The attributes of an id in the original's order: id and target, then by name. Returns their
 * number; 0 for an unknown id. */
size_t gc_attributes(const gc_system *system, uint32_t id,
                     gc_attribute out_attributes[GC_MAX_ATTRIBUTES]);

/* A tool that lists everything, as text or, with --json, as JSON. */
typedef struct gc_listing {
  const char *tool;
  void (*print_help)(void);
  int (*print_text)(
      const gc_system *system); /* returns 0 or the result of gc_fail; so does the next */
  int (*print_json)(const gc_system *system);
} gc_listing;
/* The main function of such a tool. Returns the exit code. */
int gc_list(const gc_listing *listing, int argc, char **argv);

#endif /* TREMULA_TOOLS_GC_TOOL_H_ */
