/* Owns: tremula report. */
#include <getopt.h>
#include <stdlib.h>

#include "tool.h"
#include "tremula/report.h"

static void print_help(void) {
  printf(
      "usage: tremula report DIR [DIR2 ...] [--json | --html OUT [--with-source] [FILE.pvti ...]]\n"
      "                      [--options]\n\n"
      "Prints a profile: memory, cycles, and the ops that take most; with DIR2, the two compared\n"
      "op by op. A profile is a directory tf_report__... or its profile.pop. Programs write one\n"
      "with POPLAR_ENGINE_OPTIONS='{\"autoReport.all\":\"true\"}'.\n\n"
      "  --json           as JSON\n"
      "  --html OUT       as a page of the analyser with the profiles inside, to open in a browser\n"
      "                   or to send (needs Python), and the host's timelines FILE.pvti over it;\n"
      "                   also of all instances of a program\n"
      "  --with-source    of --html: with the texts of the Python files that the profile names\n"
      "  --options        list the known engine options instead, and which have an effect\n");
}

static void print_options(void) {
  trm_report_option_row row = {.size = sizeof row};
  for (size_t i = 0; trm_report_option(i, &row); ++i) {
    printf("  %s=%s\n", row.key, row.default_value);
    if (!row.acts) printf("      without effect%s%s\n", row.help[0] != '\0' ? ": " : "", row.help);
    else printf("      %s\n", row.help);
  }
}

static int write_page(char **folders, const char *output, bool with_source) {
  trm_error error = {0};
  string_list list = {0};
  bool fits = string_list_add(&list, "page") && string_list_add(&list, "--output") &&
              string_list_add(&list, (char *)output);
  if (with_source) fits = fits && string_list_add(&list, "--with-source");
  fits = fits && string_list_add(&list, "--");
  for (char **folder = folders; *folder != NULL; ++folder) {
    fits = fits && string_list_add(&list, *folder);
  }
  fits = fits && string_list_add(&list, NULL);
  const trm_status status = fits ? run_python("tremula.tool.view", list.items, &error)
                                 : fail(&error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  free(list.items);
  return status == TRM_OK ? 0 : complain(&error);
}

int command_report(int argc, char **argv) {
  enum { OPTION_JSON = OPTION_OWN, OPTION_OPTIONS, OPTION_HTML, OPTION_SOURCE };
  static const struct option longs[] = {
      {"json", no_argument, NULL, OPTION_JSON},
      {"html", required_argument, NULL, OPTION_HTML},
      {"with-source", no_argument, NULL, OPTION_SOURCE},
      {"options", no_argument, NULL, OPTION_OPTIONS},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  bool json = false, with_source = false, options = false;
  const char *page = NULL;
  option_reader reader = {"report", ":h", longs, NULL, 0};
  int option;
  while ((option = next_option(&reader, argc, argv)) != -1) {
    switch (option) {
      case OPTION_JSON: json = true; break;
      case OPTION_HTML: page = optarg; break;
      case OPTION_SOURCE: with_source = true; break;
      case OPTION_OPTIONS: options = true; break;
      case 'h': print_help(); return 0;
      default: return EXIT_USAGE;
    }
  }
  const int count = argc - optind;
  const int profiles = count_profiles(argv + optind);
  if (options && (count > 0 || json || page != NULL || with_source)) {
    return complain_usage("report", "--options stands alone: it lists options, not a profile");
  }
  if (options) {
    print_options();
    return 0;
  }
  if (count < 1 || (profiles > 2 && page == NULL)) {
    return complain_usage("report", "name one or two profiles");
  }
  if (page == NULL && profiles != count) {
    return complain_usage("report",
                          "a timeline (.pvti) is for --html OUT; tremula trace prints it");
  }
  if (page != NULL && json) return complain_usage("report", "--json or --html, not both");
  if (with_source && page == NULL) {
    return complain_usage("report", "--with-source is for --html OUT");
  }
  if (page != NULL) return write_page(argv + optind, page, with_source);
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
