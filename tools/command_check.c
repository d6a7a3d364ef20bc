/* Owns: tremula check. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static void print_help(void) {
  printf(
      "usage: tremula check SCRIPT.py|FOLDER|MODEL... [--json | --sarif | --fix]\n"
      "       tremula check --run [--json | --sarif | --fix] SCRIPT.py [ARGUMENT...]\n\n"
      "Says what keeps a TensorFlow program from running on an IPU: file, line, why, and the change\n"
      "that mends it. Reads scripts, and the files of theirs that they import, and runs nothing.\n"
      "Of a MODEL (a SavedModel, a GraphDef, Keras' file, HLO) it says which operations, types and\n"
      "shapes an IPU cannot have. Needs Python, and TensorFlow for models.\n\n"
      "  --run      runs the script with its arguments, but trains and saves nothing, and looks at\n"
      "             its graphs too; answers how large it is, and how many IPUs it needs\n"
      "  --json     findings and answers as JSON\n"
      "  --sarif    as SARIF 2.1.0, for code hosts and editors\n"
      "  --fix      the mechanical changes as a unified diff: ... --fix | patch -p0\n\n"
      "A SavedModel or a file of Keras':\n"
      "  --shape NAME=DIMS   the shape of an input that has unknown dimensions: x=1,224,224,3\n"
      "  --signature NAME    the signature of a SavedModel to take (serving_default)\n\n"
      "# tremula: ignore[RULE] in a line turns a rule off there. The exit code is 0 if nothing but\n"
      "notes was found, 1 with errors or warnings, 2 after a mistake in the command line.\n");
}

/* Adds the arguments of tremula.tool.check; false without memory. */
static bool collect(string_list *list, char *output, bool run, const lowering_options *options,
                    char **paths) {
  bool fits = output == NULL || string_list_add(list, output);
  if (run) fits = fits && string_list_add(list, "--run");
  if (options->signature != NULL) {
    fits = fits && string_list_add(list, "--signature") &&
           string_list_add(list, (char *)options->signature);
  }
  for (size_t i = 0; i < options->shapes.count; ++i) {
    fits =
        fits && string_list_add(list, "--shape") && string_list_add(list, options->shapes.items[i]);
  }
  fits = fits && string_list_add(list, "--");
  for (; *paths != NULL; ++paths) fits = fits && string_list_add(list, *paths);
  return fits && string_list_add(list, NULL);
}

/* Whether --run stands before the script: what follows the script is the script's. */
static bool runs_script(int argc, char **argv) {
  for (int i = 1; i < argc && argv[i][0] == '-'; ++i) {
    if (strcmp(argv[i], "--run") == 0) return true;
  }
  return false;
}

int command_check(int argc, char **argv) {
  enum { OPTION_JSON = OPTION_OWN, OPTION_SARIF, OPTION_FIX, OPTION_RUN };
  static const struct option longs[] = {
      {"json", no_argument, NULL, OPTION_JSON},
      {"sarif", no_argument, NULL, OPTION_SARIF},
      {"fix", no_argument, NULL, OPTION_FIX},
      {"run", no_argument, NULL, OPTION_RUN},
      {"help", no_argument, NULL, 'h'},
      {"signature", required_argument, NULL, OPTION_SIGNATURE},
      {"shape", required_argument, NULL, OPTION_SHAPE},
      {NULL, 0, NULL, 0},
  };
  lowering_options options = {0};
  char *output = NULL, *given;
  bool fits = true, run = runs_script(argc, argv);
  option_reader reader = {"check", run ? "+:h" : ":h", longs, NULL, 0};
  int option, code = 0;
  while (code == 0 && (option = next_option(&reader, argc, argv)) != -1) {
    given = option == OPTION_JSON    ? "--json"
            : option == OPTION_SARIF ? "--sarif"
            : option == OPTION_FIX   ? "--fix"
                                     : NULL;
    if (given != NULL && output != NULL && output != given) {
      code = complain_usage("check", "%s or %s, not both", output, given);
    } else if (given != NULL) {
      output = given;
    } else if (option == OPTION_RUN) {
      if (!run) code = complain_usage("check", "write --run before the script");
    } else if (option == 'h') {
      print_help();
      return 0;
    } else if (!lowering_option(&options, option, optarg, &fits)) {
      code = EXIT_USAGE;
    }
  }
  if (code == 0 && argc == optind) {
    code = complain_usage("check", "say which script or MODEL to check");
  }
  const int last = run && optind < argc ? optind + 1 : argc;
  for (int i = optind; code == 0 && i < last; ++i) {
    if (access(argv[i], R_OK) != 0) code = complain_usage("check", "cannot read %s", argv[i]);
  }
  if (code == 0) {
    trm_error error = {0};
    string_list list = {0};
    fits = fits && collect(&list, output, run, &options, argv + optind);
    const trm_status status = fits ? run_python("tremula.tool.check", list.items, &error)
                                   : fail(&error, TRM_RESOURCE_EXHAUSTED, "out of memory");
    free(list.items);
    if (status != TRM_OK) code = complain(&error);
  }
  lowering_options_free(&options);
  return code;
}
