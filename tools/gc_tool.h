/* What gc-monitor, gc-info and gc-inventory share: reading the inventory with who has what, the
 * attributes of a device, and messages.
 *
 * They show the virtual IPUs of the inventory that TREMULA_INVENTORY names. What a virtual IPU has
 * not, such as a temperature, is "N/A". */
#ifndef TREMULA_TOOLS_GC_TOOL_H_
#define TREMULA_TOOLS_GC_TOOL_H_

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>

#include "tremula/device.h"

enum { GC_FAILED = 1, GC_USAGE = 2 };

/* The inventory and, for every IPU of it, who is attached. */
typedef struct gc_system {
  trm_inventory *inventory;
  trm_attachment *attachments;
  uint32_t num_ipus;
} gc_system;

/* False after a message on stderr. */
bool gc_system_open(const char *tool, gc_system *out_system);
void gc_system_close(gc_system *system);

/* One line "<tool>: <text>" on stderr, and for a mistake in the command line where help is. Return
 * GC_FAILED and GC_USAGE. */
int gc_fail(const char *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));
int gc_usage(const char *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What getopt_long could not take, named: `result` is what it returned, with an option string that
 * begins with ':'. Returns GC_USAGE. */
int gc_bad_option(const char *tool, int result, const struct option *options, char *const *argv);
/* Prints a JSON document of jansson's, whose reference it takes; NULL, which jansson gives when
 * memory runs out, is a failure. Returns 0, or what gc_fail returned. */
int gc_print_json(const char *tool, json_t *root);
/* Flushes stdout; GC_FAILED where that does not work, else 0. */
int gc_finish(const char *tool);

/* "9m4s", from a second of 1970 until now. */
void gc_elapsed(int64_t started, char *buffer, size_t size);
enum { GC_ELAPSED_SIZE = 48 };

/* The name of what an IPU is reached through: "Fabric" for one of an IPU-Machine, else "PCIe". */
const char *gc_target(const trm_ipu_info *ipu);

/* An attribute of a device: its key and value as text. */
typedef struct gc_attribute {
  char key[40];
  char value[160];
} gc_attribute;
enum { GC_MAX_ATTRIBUTES = 48 };
/* The attributes of an id, sorted as the original sorts them: id and target, then by name. Returns
 * how many there are; 0 for an unknown id. */
size_t gc_attributes(const gc_system *system, uint32_t id,
                     gc_attribute out_attributes[GC_MAX_ATTRIBUTES]);

/* A tool that shows everything there is, as text or, with --json, as JSON. */
typedef struct gc_listing {
  const char *tool;
  void (*print_help)(void);
  int (*print_text)(const gc_system *system); /* 0 or what gc_fail returned, as the next */
  int (*print_json)(const gc_system *system);
} gc_listing;
/* Its main. Returns the exit code. */
int gc_list(const gc_listing *listing, int argc, char **argv);

#endif /* TREMULA_TOOLS_GC_TOOL_H_ */
