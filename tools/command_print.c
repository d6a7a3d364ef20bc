/* Owns: tremula print. */
#include <getopt.h>
#include <string.h>

#include "tool.h"

static void print_help(void) {
  printf(
      "usage: tremula print MODEL [options]\n\n"
      "Prints the HLO text of a model, or of the optimised module in an executable.\n\n" LOWERING_HELP);
}

static trm_status print(const char *path, const lowering_options *lowering, trm_error *error) {
  char *text = NULL;
  trm_status status;
  if (is_executable_file(path)) {
    if (lowering->signature != NULL ||
        lowering->shapes.count + lowering->feeds.count + lowering->fetches.count > 0) {
      return fail(error, TRM_INVALID_ARGUMENT,
                  "%s is an executable: --signature, --shape, --feed and --fetch are for models",
                  path);
    }
    trm_executable *executable;
    status = trm_executable_load(path, &executable, error);
    if (status != TRM_OK) return status;
    status = trm_executable_print(executable, &text, error);
    trm_executable_free(executable);
  } else {
    trm_module *module;
    status = model_read(path, lowering, &module, error);
    if (status != TRM_OK) return status;
    status = trm_module_print(module, &text, error);
    trm_module_free(module);
  }
  if (status == TRM_OK) fputs(text, stdout);
  trm_free(text);
  return status;
}

int command_print(int argc, char **argv) {
  static const struct option longs[] = {
      LOWERING_LONG_OPTIONS,
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  lowering_options lowering = {0};
  trm_error error = {0};
  option_reader reader = {"print", ":h", longs, NULL, 0};
  bool memory = true;
  int option, code = -1;
  while (code < 0 && memory && (option = next_option(&reader, argc, argv)) != -1) {
    if (lowering_option(&lowering, option, optarg, &memory)) continue;
    if (option == 'h') {
      print_help();
      code = 0;
    } else {
      code = EXIT_USAGE;
    }
  }
  if (code < 0 && !memory) {
    fail(&error, TRM_RESOURCE_EXHAUSTED, "out of memory");
    code = complain(&error);
  }
  if (code < 0 && argc - optind != 1) {
    code = complain_usage("print", "say which one MODEL to print");
  }
  if (code < 0) {
    code = print(argv[optind], &lowering, &error) == TRM_OK ? 0 : complain(&error);
  }
  lowering_options_free(&lowering);
  return code;
}
