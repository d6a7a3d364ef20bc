/* Owns: the command line `tremula` and its list of subcommands. */
#include <string.h>

#include "tool.h"

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *arguments, *help;
} commands[] = {
    {"compile", command_compile, "MODEL -o FILE", "compile a model to an executable"},
    {"run", command_run, "FILE [--input NAME=FILE.npy]...", "run an executable"},
    {"check", command_check, "SCRIPT.py|MODEL [--fix]", "say what keeps a program from an IPU"},
    {"plan", command_plan, "MODEL [--target T] [--ipus N]", "say what a model would need of IPUs"},
    {"print", command_print, "MODEL", "print a model or an executable as HLO text"},
    {"report", command_report, "DIR [DIR2] [--json | --html OUT]",
     "print a profile, or compare two"},
    {"view", command_view, "DIR [DIR2] [--open]", "show profiles in the browser"},
    {"trace", command_trace, "FILE.pvti|DIR... [-o FILE]", "export timelines for Perfetto"},
    {"poplar", command_poplar, "--env | --prefix", "where Poplar's headers and popc lie"},
    {"ops", command_ops, "[--hlo]", "list the ops of the IPU device, or of the compiler"},
};
enum { NUM_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void) {
  printf("usage: tremula COMMAND ...\n\n");
  for (size_t i = 0; i < NUM_COMMANDS; ++i) {
    printf("  tremula %-8s %-33s %s\n", commands[i].name, commands[i].arguments, commands[i].help);
  }
  printf(
      "\n"
      "  tremula COMMAND --help    what a command takes\n"
      "  tremula --version\n\n"
      "MODEL is a serialised HloModuleProto or XLA's HLO text, recognised by its content. Where\n"
      "Python with TensorFlow is installed, it may be a SavedModel, a GraphDef or Keras' file.\n"
      "The exit code is 0, 1 after a failure, or 2 after a mistake in the command line. For plan it\n"
      "is 3 if the model does not fit.\n"
      "TREMULA_PYTHON names the Python to use; otherwise it is the one beside this program, or\n"
      "the first python3 of PATH.\n");
}

/* The exit code, after what was printed is written. */
static int finish(int code) {
  if (fflush(stdout) == 0 || code != 0) return code;
  const trm_error error = {TRM_UNAVAILABLE, "cannot write to the standard output"};
  return complain(&error);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  if (name == NULL) {
    return complain_usage(
        "", "say what to do: compile, run, check, plan, print, report, view, trace, poplar "
            "or ops");
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help();
    return finish(0);
  }
  if (strcmp(name, "--version") == 0) {
    printf("tremula %s\n", trm_version());
    return finish(0);
  }
  for (size_t i = 0; i < NUM_COMMANDS; ++i) {
    if (strcmp(commands[i].name, name) != 0) continue;
    return finish(commands[i].run(argc - 1, argv + 1));
  }
  return complain_usage("", "'%s' is not a command", name);
}
