/* Owns: tremula view. */
#include <getopt.h>
#include <stdlib.h>

#include "tool.h"

static void print_help(void) {
  printf(
      "usage: tremula view DIR [DIR2 ...] [FILE.pvti ...] [--port N] [--open]\n\n"
      "Shows a profile, two side by side, or those of all instances of a program, in the browser:\n"
      "prints the address of a page that only this machine can reach, until Ctrl-C. Timelines\n"
      "of the host (PVTI_OPTIONS) become lanes above the IPU's; those of the same process beside a\n"
      "profile are found. Needs Python.\n\n"
      "  --port N    this port instead of a free one\n"
      "  --open      open the browser too\n\n"
      "For profiles on a remote machine, choose a port there and forward it:\n"
      "  there   tremula view DIR --port 8123\n"
      "  here    ssh -L 8123:127.0.0.1:8123 MACHINE    and open the printed address\n"
      "Or make one file with tremula report DIR --html OUT and copy it.\n");
}

int command_view(int argc, char **argv) {
  enum { OPTION_PORT = OPTION_OWN, OPTION_OPEN };
  static const struct option longs[] = {
      {"port", required_argument, NULL, OPTION_PORT},
      {"open", no_argument, NULL, OPTION_OPEN},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  bool opens = false;
  const char *port = "0";
  long number;
  option_reader reader = {"view", ":h", longs, NULL, 0};
  int option;
  while ((option = next_option(&reader, argc, argv)) != -1) {
    switch (option) {
      case OPTION_PORT: port = optarg; break;
      case OPTION_OPEN: opens = true; break;
      case 'h': print_help(); return 0;
      default: return EXIT_USAGE;
    }
    if (option == OPTION_PORT && !parse_count(port, 65535, &number)) {
      return complain_usage("view", "--port wants a number from 1 to 65535, not '%s'", port);
    }
  }
  if (argc == optind) return complain_usage("view", "name one or two profiles");
  trm_error error = {0};
  string_list list = {0};
  bool fits = string_list_add(&list, "serve") && string_list_add(&list, "--port") &&
              string_list_add(&list, (char *)port);
  if (opens) fits = fits && string_list_add(&list, "--open");
  fits = fits && string_list_add(&list, "--");
  for (char **path = argv + optind; *path != NULL; ++path) {
    fits = fits && string_list_add(&list, *path);
  }
  fits = fits && string_list_add(&list, NULL);
  const trm_status status = fits ? run_python("tremula.tool.view", list.items, &error)
                                 : fail(&error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  free(list.items);
  return status == TRM_OK ? 0 : complain(&error);
}
