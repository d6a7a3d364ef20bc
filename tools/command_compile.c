/* Owns: tremula compile. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"
#include "tremula/inspect.h"
#include "tremula/report.h"

static void print_help(void) {
  printf(
      "usage: tremula compile MODEL -o FILE [options]\n\n"
      "  -o, --output FILE        the executable to write, by convention X.poplar_exec\n"
      "  --target T               " TRM_TARGET_PRESETS " or a file: short for --option target=T\n"
      "  --ipus N                 how many IPUs: short for --option ipus=N\n"
      "  --option KEY=VALUE       an option of the compiler, see below; may be repeated\n"
      "  --dump-after PASS        print the module after a pass, or after all; may be repeated,\n"
      "                           and -o may then be left out\n" LOWERING_HELP "\nOptions:\n");
  trm_inspect_option_row row;
  for (size_t i = 0; trm_inspect_option(i, &row); ++i) {
    printf("  %s=%s\n      %s\n", row.key, row.default_value, row.help);
  }
  trm_inspect_pass_row pass;
  printf("\nPasses:\n ");
  for (size_t i = 0; trm_inspect_pass(i, &pass); ++i) {
    if (!pass.plans) printf(" %s", pass.name);
  }
  printf("\n\nPasses of the estimate, after the shared ones, which end with unique-names:\n ");
  for (size_t i = 0; trm_inspect_pass(i, &pass); ++i) {
    if (pass.plans) printf(" %s", pass.name);
  }
  printf("\n");
}

typedef struct arguments {
  const char *model, *output;
  trm_option *options;
  size_t num_options;
  string_list dumps;
  lowering_options lowering;
} arguments;

static void arguments_free(arguments *a) {
  free(a->options);
  free(a->dumps.items);
  lowering_options_free(&a->lowering);
}

static bool is_pass(const char *name) {
  trm_inspect_pass_row pass;
  for (size_t i = 0; trm_inspect_pass(i, &pass); ++i) {
    if (strcmp(pass.name, name) == 0) return true;
  }
  return strcmp(name, "all") == 0;
}

/* Returns -1 to continue, otherwise the exit code. */
static int parse(int argc, char **argv, arguments *a) {
  enum { OPTION_TARGET = OPTION_OWN, OPTION_IPUS, OPTION_OPTION, OPTION_DUMP };
  static const struct option longs[] = {
      {"output", required_argument, NULL, 'o'},
      {"target", required_argument, NULL, OPTION_TARGET},
      {"ipus", required_argument, NULL, OPTION_IPUS},
      {"option", required_argument, NULL, OPTION_OPTION},
      {"dump-after", required_argument, NULL, OPTION_DUMP},
      LOWERING_LONG_OPTIONS,
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  bool memory = (a->options = calloc((size_t)argc, sizeof *a->options)) != NULL;
  static const int often[] = {OPTION_OPTION, OPTION_DUMP, 0};
  const char *again;
  option_reader reader = {"compile", ":o:h", longs, often, 0};
  int option;
  while (memory && (option = next_option(&reader, argc, argv)) != -1) {
    if (lowering_option(&a->lowering, option, optarg, &memory)) continue;
    char *value;
    switch (option) {
      case 'o': a->output = optarg; break;
      case 'h': print_help(); return 0;
      case OPTION_TARGET: a->options[a->num_options++] = (trm_option){"target", optarg}; break;
      case OPTION_IPUS: a->options[a->num_options++] = (trm_option){"ipus", optarg}; break;
      case OPTION_OPTION:
        if ((value = split_assignment(optarg)) == NULL) {
          return complain_usage("compile", "--option wants KEY=VALUE, not '%s'", optarg);
        }
        a->options[a->num_options++] = (trm_option){optarg, value};
        break;
      case OPTION_DUMP:
        if (!is_pass(optarg)) {
          return complain_usage("compile", "'%s' is not a pass", optarg);
        }
        memory = string_list_add(&a->dumps, optarg);
        break;
      default: return EXIT_USAGE;
    }
  }
  if (!memory) {
    const trm_error error = {TRM_RESOURCE_EXHAUSTED, "out of memory"};
    return complain(&error);
  }
  if ((again = set_again(a->options, a->num_options)) != NULL) {
    return complain_usage("compile", "the option %s is set twice", again);
  }
  if (optind >= argc) return complain_usage("compile", "say which MODEL to compile");
  if (argc - optind > 1) {
    return complain_usage("compile", "one model at a time: unexpected '%s'", argv[optind + 1]);
  }
  if (a->output == NULL && a->dumps.count == 0) {
    return complain_usage("compile", "say where to write the executable: -o FILE");
  }
  a->model = argv[optind];
  return -1;
}

static bool is_wanted(const string_list *wanted, const char *pass) {
  for (size_t i = 0; i < wanted->count; ++i) {
    if (strcmp(wanted->items[i], pass) == 0 || strcmp(wanted->items[i], "all") == 0) return true;
  }
  return false;
}

/* Prints the module after a pass as a comment and HLO text, which can be read again. */
static trm_status dump(const char *pass, const trm_module *module, void *context,
                       trm_error *error) {
  if (!is_wanted(context, pass)) return TRM_OK;
  char *text;
  const trm_status status = trm_module_print(module, &text, error);
  if (status != TRM_OK) return status;
  printf("// after %s\n%s\n", pass, text);
  trm_free(text);
  return TRM_OK;
}

/* Prints the module after the wanted passes of the estimate, if there are any. */
static trm_status dump_planning(string_list *wanted, const trm_executable *executable,
                                trm_error *error) {
  trm_inspect_pass_row pass;
  bool found = false;
  for (size_t i = 0; trm_inspect_pass(i, &pass); ++i) {
    found |= pass.plans && is_wanted(wanted, pass.name);
  }
  return found ? trm_inspect_planning(executable, dump, wanted, error) : TRM_OK;
}

/* If there are engine options: writes the profile of the estimate, and fails if the program does
 * not fit. */
static trm_status profile(const arguments *a, trm_executable *executable, trm_error *error) {
  bool wanted = getenv("POPLAR_ENGINE_OPTIONS") != NULL;
  for (size_t o = 0; o < a->num_options; ++o) {
    wanted |= strcmp(a->options[o].key, "engine_options") == 0;
  }
  if (!wanted) return TRM_OK;
  trm_report *report = NULL;
  const trm_status status = trm_report_create(executable, NULL, &report, error);
  trm_report_free(report);
  return status;
}

static trm_status compile(arguments *a, trm_error *error) {
  trm_module *module;
  trm_status status = model_read(a->model, &a->lowering, &module, error);
  if (status != TRM_OK) return status;
  trm_executable *executable;
  status = trm_inspect_compile(module, a->options, a->num_options, a->dumps.count > 0 ? dump : NULL,
                               &a->dumps, &executable, error);
  trm_module_free(module);
  if (status != TRM_OK) return status;
  status = dump_planning(&a->dumps, executable, error);
  if (status == TRM_OK) status = profile(a, executable, error);
  if (status == TRM_OK && a->output != NULL) {
    status = trm_executable_save(executable, a->output, error);
  }
  if (status == TRM_OK && a->output != NULL && a->dumps.count == 0) {
    const size_t inputs = trm_executable_num_inputs(executable);
    const size_t outputs = trm_executable_num_outputs(executable);
    printf("wrote %s: %zu input%s, %zu output%s, %zu bytes of memory beside them\n", a->output,
           inputs, inputs == 1 ? "" : "s", outputs, outputs == 1 ? "" : "s",
           trm_executable_arena_bytes(executable));
  }
  trm_executable_free(executable);
  return status;
}

int command_compile(int argc, char **argv) {
  arguments a = {0};
  trm_error error = {0};
  int code = parse(argc, argv, &a);
  if (code < 0) code = compile(&a, &error) == TRM_OK ? 0 : complain(&error);
  arguments_free(&a);
  return code;
}
