/* Owns: tremula report. */
#include <getopt.h>

#include "tool.h"
#include "tremula/report.h"

static void print_help(void) {
  printf(
      "usage: tremula report DIR [DIR2] [--json] [--options]\n\n"
      "Prints a profile: memory, cycles, and the ops that take most; with DIR2, the two compared\n"
      "op by op. A profile is a directory tf_report__... or its profile.pop. Programs write one\n"
      "with POPLAR_ENGINE_OPTIONS='{\"autoReport.all\":\"true\"}'.\n\n"
      "  --json       as JSON\n"
      "  --options    list the known engine options instead, and which have an effect\n");
}

static void print_options(void) {
  trm_report_option_row row = {.size = sizeof row};
  for (size_t i = 0; trm_report_option(i, &row); ++i) {
    printf("  %s=%s\n", row.key, row.default_value);
    if (!row.acts) printf("      without effect%s%s\n", row.help[0] != '\0' ? ": " : "", row.help);
    else printf("      %s\n", row.help);
  }
}

int command_report(int argc, char **argv) {
  enum { OPTION_JSON = OPTION_OWN, OPTION_OPTIONS };
  static const struct option longs[] = {
      {"json", no_argument, NULL, OPTION_JSON},
      {"options", no_argument, NULL, OPTION_OPTIONS},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  bool json = false;
  int option;
  while ((option = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
    switch (option) {
      case OPTION_JSON: json = true; break;
      case OPTION_OPTIONS: print_options(); return 0;
      case 'h': print_help(); return 0;
      default: return complain_usage("report", "unknown option %s", argv[optind - 1]);
    }
  }
  const int count = argc - optind;
  if (count < 1 || count > 2) return complain_usage("report", "say which one or two profiles");
  trm_error error = {0};
  char *text;
  if (trm_report_print(argv[optind], count == 2 ? argv[optind + 1] : NULL, json, &text, &error) !=
      TRM_OK) {
    return complain(&error);
  }
  fputs(text, stdout);
  trm_free(text);
  return 0;
}
