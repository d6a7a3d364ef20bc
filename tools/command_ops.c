/* Owns: tremula ops. */
#include <getopt.h>

#include "tool.h"
#include "tremula/inspect.h"

static void print_help(void) {
  printf(
      "usage: tremula ops [--hlo]\n\n"
      "Lists the TensorFlow ops of the IPU device with the types of each (needs Python with\n"
      "TensorFlow).\n\n"
      "  --hlo    the HLO opcodes instead: operands, class, and whether a kernel computes them\n");
}

static void print_opcodes(void) {
  trm_inspect_opcode_row row;
  printf("%-28s %8s  %-14s %s\n", "opcode", "operands", "class", "kernel");
  for (size_t i = 0; trm_inspect_opcode(i, &row); ++i) {
    char arity[16] = "any";
    if (row.arity >= 0) snprintf(arity, sizeof arity, "%d", row.arity);
    printf("%-28s %8s  %-14s %s\n", row.name, arity, row.class_name, row.has_kernel ? "yes" : "-");
  }
}

int command_ops(int argc, char **argv) {
  static const struct option longs[] = {
      {"hlo", no_argument, NULL, OPTION_OWN},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  bool hlo = false;
  option_reader reader = {"ops", ":h", longs, NULL, 0};
  int option;
  while ((option = next_option(&reader, argc, argv)) != -1) {
    switch (option) {
      case OPTION_OWN: hlo = true; break;
      case 'h': print_help(); return 0;
      default: return EXIT_USAGE;
    }
  }
  if (optind < argc) return complain_usage("ops", "unexpected argument '%s'", argv[optind]);
  if (hlo) {
    print_opcodes();
    return 0;
  }
  trm_error error = {0};
  char *const none[] = {NULL};
  return run_python("tremula.tool.ops", none, &error) == TRM_OK ? 0 : complain(&error);
}
