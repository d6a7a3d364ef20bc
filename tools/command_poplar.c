/* Owns: tremula poplar. */
#include <getopt.h>

#include "tool.h"

static void print_help(void) {
  printf(
      "usage: tremula poplar --env | --prefix\n\n"
      "Says where the C++ headers of Poplar, the compiler popc and the libraries to link to lie,\n"
      "for custom operators in C++ (docs/custom_operators.md). Needs Python.\n\n"
      "  --env       variables of the environment: eval \"$(tremula poplar --env)\"\n"
      "  --prefix    the folder; sourcing enable.sh in it does the same\n");
}

int command_poplar(int argc, char **argv) {
  enum { OPTION_ENV = OPTION_OWN, OPTION_PREFIX };
  static const struct option longs[] = {
      {"env", no_argument, NULL, OPTION_ENV},
      {"prefix", no_argument, NULL, OPTION_PREFIX},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  char *words[] = {NULL, NULL};
  option_reader reader = {"poplar", ":h", longs, NULL, 0};
  int option;
  while ((option = next_option(&reader, argc, argv)) != -1) {
    switch (option) {
      case OPTION_ENV: words[0] = "--env"; break;
      case OPTION_PREFIX: words[0] = "--prefix"; break;
      case 'h': print_help(); return 0;
      default: return EXIT_USAGE;
    }
  }
  if (words[0] == NULL || optind != argc) {
    return complain_usage("poplar", "say --env or --prefix");
  }
  trm_error error = {0};
  const trm_status status = run_python("tremula.poplar.environment", words, &error);
  return status == TRM_OK ? 0 : complain(&error);
}
