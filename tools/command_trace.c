/* Owns: tremula trace. */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "tool.h"
#include "tremula/report.h"

static void print_help(void) {
  printf(
      "usage: tremula trace FILE.pvti|DIR... [-o OUT.json]\n\n"
      "Exports the host's timelines (.pvti files, written where PVTI_OPTIONS asks for them) and\n"
      "the runs of profiles (folders) as one trace in Chrome's JSON format, for Perfetto's UI or\n"
      "chrome://tracing. The IPUs' steps begin where the host began their run.\n\n"
      "  -o, --output FILE   where to write; otherwise the standard output\n");
}

static trm_status export_to(const char *const *files, size_t count, const char *path,
                            trm_error *error) {
  char *text;
  trm_status status = trm_report_export(files, count, &text, error);
  if (status != TRM_OK) return status;
  errno = 0;
  FILE *out = path != NULL ? fopen(path, "w") : stdout;
  const bool good = out != NULL && fputs(text, out) >= 0 && fputc('\n', out) != EOF;
  const bool closed = out == NULL || out == stdout || fclose(out) == 0;
  const int problem = errno;
  trm_free(text);
  if (good && closed) return TRM_OK;
  return fail(error, TRM_UNAVAILABLE, "cannot write %s: %s", path != NULL ? path : "the trace",
              strerror(problem));
}

int command_trace(int argc, char **argv) {
  static const struct option longs[] = {
      {"output", required_argument, NULL, 'o'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  const char *path = NULL;
  option_reader reader = {"trace", ":o:h", longs, NULL, 0};
  int option;
  while ((option = next_option(&reader, argc, argv)) != -1) {
    switch (option) {
      case 'o': path = optarg; break;
      case 'h': print_help(); return 0;
      default: return EXIT_USAGE;
    }
  }
  if (optind == argc)
    return complain_usage("trace", "say which .pvti files and profiles to export");
  trm_error error = {0};
  if (export_to((const char *const *)argv + optind, (size_t)(argc - optind), path, &error) ==
      TRM_OK) {
    return 0;
  }
  return complain(&error);
}
