/* Owns: the options of poprun: the command line, configuration files, --help and --version. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "poprun.h"
#include "tremula/inspect.h"

enum { MOST = 65536, FIRST_OPTION = 1000 };

typedef enum option_kind { KIND_NUMBER, KIND_TEXT, KIND_LIST, KIND_SWITCH, KIND_VIPU } option_kind;

typedef struct option_row {
  const char *name, *help;
  option_kind kind;
  size_t place; /* of the member */
  long least;   /* of a number */
} option_row;

#define PLACE(member) offsetof(poprun_options, member)
static const option_row rows[] = {
#define NUMBER(member, name, value, least, help) {name, help, KIND_NUMBER, PLACE(member), least},
#define TEXT(member, name, value, help) {name, help, KIND_TEXT, PLACE(member), 0},
#define LIST(member, name, help) {name, help, KIND_LIST, PLACE(member), 0},
#define SWITCH(member, name, value, help) {name, help, KIND_SWITCH, PLACE(member), 0},
#define VIPU(member, name, help) {name, help, KIND_VIPU, PLACE(member), 0},
#include "poprun_options.def"
#undef NUMBER
#undef TEXT
#undef LIST
#undef SWITCH
#undef VIPU
};
enum { NUM_ROWS = sizeof rows / sizeof rows[0] };

static char *copy_text(const char *text) {
  char *copy = strdup(text);
  if (copy == NULL) exit(poprun_fail("out of memory"));
  return copy;
}

static void set_defaults(poprun_options *options) {
#define NUMBER(member, name, value, least, help) options->member = value;
#define TEXT(member, name, value, help) options->member = copy_text(value);
#define LIST(member, name, help)
#define SWITCH(member, name, value, help) options->member = value;
#define VIPU(member, name, help) options->member = copy_text("");
#include "poprun_options.def"
#undef NUMBER
#undef TEXT
#undef LIST
#undef SWITCH
#undef VIPU
}

static void *member_of(poprun_options *options, const option_row *row) {
  return (char *)options + row->place;
}

void poprun_free_options(poprun_options *options) {
  for (size_t i = 0; i < NUM_ROWS; ++i) {
    void *member = member_of(options, &rows[i]);
    if (rows[i].kind == KIND_LIST) words_free(member);
    if (rows[i].kind == KIND_TEXT || rows[i].kind == KIND_VIPU) free(*(char **)member);
  }
}

/* ---- Values --------------------------------------------------------------------------------- */

/* 1: yes, 0: no, -1: neither. */
static int parse_switch(const char *text) {
  static const char *const names[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
  for (int i = 0; i < (int)(sizeof names / sizeof names[0]); ++i) {
    if (strcasecmp(text, names[i]) == 0) return i % 2;
  }
  return -1;
}

static int set_option(poprun_options *options, const option_row *row, const char *text) {
  void *member = member_of(options, row);
  if (row->kind == KIND_NUMBER) {
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < row->least || value > MOST) {
      return poprun_usage("--%s: '%s' is not a number from %ld to %d", row->name, text, row->least,
                          MOST);
    }
    *(long *)member = value;
  } else if (row->kind == KIND_SWITCH) {
    const int value = parse_switch(text);
    if (value < 0) return poprun_usage("--%s: '%s' is not yes or no", row->name, text);
    *(bool *)member = value;
  } else if (row->kind == KIND_LIST) {
    if (!words_split(member, text)) {
      return poprun_usage("--%s: a quote in '%s' is not closed", row->name, text);
    }
  } else {
    free(*(char **)member);
    *(char **)member = copy_text(text);
  }
  return 0;
}

/* ---- Unknown options ------------------------------------------------------------------------ */

static int refuse_option(const char *name) {
  const char *names[NUM_ROWS];
  size_t num_begin = 0;
  const char *begin[2] = {0};
  const size_t length = strcspn(name, "=");
  for (size_t i = 0; i < NUM_ROWS; ++i) {
    names[i] = rows[i].name;
    if (strncmp(name, rows[i].name, length) != 0) continue;
    if (num_begin < 2) begin[num_begin] = rows[i].name;
    ++num_begin;
  }
  if (num_begin > 1 && length > 0) {
    return poprun_usage("'--%.*s' may be --%s or --%s: write more of the name", (int)length, name,
                        begin[0], begin[1]);
  }
  char word[128];
  snprintf(word, sizeof word, "%.*s", (int)length, name);
  const char *nearest = trm_inspect_nearest(word, names, NUM_ROWS);
  if (nearest == NULL) return poprun_usage("'--%s' is not an option", word);
  return poprun_usage("'--%s' is not an option; --%s is", word, nearest);
}

static const option_row *find_row(const char *name) {
  for (size_t i = 0; i < NUM_ROWS; ++i) {
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  }
  return NULL;
}

/* ---- Configuration files -------------------------------------------------------------------- */

static char *trim(char *text) {
  text += strspn(text, " \t\r\n");
  size_t length = strlen(text);
  while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL) --length;
  text[length] = '\0';
  return text;
}

static int import_line(poprun_options *options, const char *path, int number, char *line) {
  line = trim(line);
  if (*line == '\0' || *line == '#') return 0;
  char *equals = strchr(line, '=');
  if (equals == NULL) return poprun_fail("%s:%d: a line is 'name = value'", path, number);
  *equals = '\0';
  const char *name = trim(line);
  const option_row *row = find_row(name);
  if (row == NULL) {
    poprun_note("%s:%d: see the next line", path, number);
    return refuse_option(name);
  }
  return set_option(options, row, trim(equals + 1));
}

static int import_config(poprun_options *options, const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return poprun_fail("cannot read %s: %s", path, strerror(errno));
  char *line = NULL;
  size_t room = 0;
  int code = 0;
  for (int number = 1; code == 0 && getline(&line, &room, file) >= 0; ++number) {
    code = import_line(options, path, number, line);
  }
  free(line);
  fclose(file);
  return code;
}

static void print_words(FILE *file, const words *list) {
  for (size_t i = 0; i < list->count; ++i) {
    fputs(i > 0 ? " " : "", file);
    for (const char *c = list->items[i]; *c != '\0'; ++c) {
      if (strchr(" \t'\"\\", *c) != NULL) fputc('\\', file);
      fputc(*c, file);
    }
  }
}

static int export_config(poprun_options *options) {
  FILE *file = fopen(options->export_config, options->overwrite_config ? "w" : "wx");
  if (file == NULL) {
    return poprun_fail("cannot write %s: %s%s", options->export_config, strerror(errno),
                       errno == EEXIST ? " (--overwrite-config replaces it)" : "");
  }
  for (size_t i = 0; i < NUM_ROWS; ++i) {
    const void *member = member_of(options, &rows[i]);
    if (strstr(rows[i].name, "config") != NULL || strcmp(rows[i].name, "version-format") == 0 ||
        (rows[i].kind == KIND_NUMBER && *(const long *)member < rows[i].least)) {
      continue;
    }
    const bool is_text = rows[i].kind == KIND_TEXT || rows[i].kind == KIND_VIPU;
    if (is_text && **(char *const *)member == '\0') continue;
    fprintf(file, "%s = ", rows[i].name);
    switch (rows[i].kind) {
      case KIND_NUMBER: fprintf(file, "%ld", *(const long *)member); break;
      case KIND_SWITCH: fputs(*(const bool *)member ? "yes" : "no", file); break;
      case KIND_LIST: print_words(file, member); break;
      default: fputs(*(char *const *)member, file);
    }
    fputc('\n', file);
  }
  const bool is_written = !ferror(file);
  return (fclose(file) == 0 && is_written)
             ? 0
             : poprun_fail("cannot write %s: %s", options->export_config, strerror(errno));
}

/* ---- --help, --version ---------------------------------------------------------------------- */

static int print_help(void) {
  static const char *const values[] = {" N", " TEXT", " ARGUMENTS", "[=yes|no]", " TEXT"};
  printf("usage: poprun [option...] program [argument...]\n\n"
         "Starts a program several times, as the instances of one job that share the replicas of\n"
         "a model, and gives IPUs of the inventory to each. mpirun starts them\n"
         "(pip install 'tremula[mpi]').\n\n");
  bool is_vipu = false;
  for (size_t i = 0; i < NUM_ROWS; ++i) {
    if (rows[i].kind == KIND_VIPU && !is_vipu) {
      is_vipu = true;
      printf("\nAccepted; there is no V-IPU server, and the virtual inventory is used:\n");
    }
    char head[64];
    snprintf(head, sizeof head, "--%s%s", rows[i].name, values[rows[i].kind]);
    printf("  %-32s %s\n", head, rows[i].help);
  }
  printf("\n  -v, -vv                          log what happens, and the details\n"
         "      --version                    the version\n"
         "  -h, --help                       this text\n\n"
         "The exit code is 0 when all instances end with 0, else that of the first that failed;\n"
         "1 when they cannot be started, 2 after a mistake in the command line.\n");
  return 0;
}

static int print_version(const char *format) {
  if (strcmp(format, "text") == 0) {
    printf("poprun (Tremula) %s\n", trm_version());
  } else if (strcmp(format, "full-text") == 0) {
    printf("poprun (Tremula)\nversion: %s\n", trm_version());
  } else if (strcmp(format, "full-json") == 0) {
    printf("{\"name\": \"poprun\", \"package\": \"Tremula\", \"version\": \"%s\"}\n",
           trm_version());
  } else {
    return poprun_usage("--version-format: '%s' is not text, full-text or full-json", format);
  }
  return 0;
}

/* ---- The command line ----------------------------------------------------------------------- */

/* What the command line asks for besides the rows. */
typedef struct requests {
  int verbosity;
  bool help, version;
} requests;

static int take_option(poprun_options *options, requests *asked, int option, int argc,
                       char **argv) {
  switch (option) {
    case 'v': ++asked->verbosity; return 0;
    case 'V': asked->verbosity = 2; return 0;
    case 'h': asked->help = true; return 0;
    case 'r': asked->version = true; return 0;
    case 'H': return set_option(options, find_row("host"), optarg);
    case ':': return poprun_usage("'%s' needs a value", argv[optind - 1]);
    case '?':
      if (strncmp(argv[optind - 1], "--", 2) == 0) return refuse_option(argv[optind - 1] + 2);
      return poprun_usage("'-%c' is not an option", optopt);
    default: break;
  }
  const option_row *row = &rows[option - FIRST_OPTION];
  const char *value = optarg;
  if (row->kind == KIND_SWITCH && value == NULL) {
    /* The last word is the program: there is one called `true`. */
    const bool is_next = optind + 1 < argc && parse_switch(argv[optind]) >= 0;
    value = is_next ? argv[optind++] : "yes";
  }
  return set_option(options, row, value);
}

static int read_line(poprun_options *options, requests *asked, int argc, char **argv) {
  static const struct option others[] = {{"help", no_argument, NULL, 'h'},
                                         {"version", no_argument, NULL, 'r'},
                                         {"verbose", no_argument, NULL, 'v'},
                                         {"v", no_argument, NULL, 'v'},
                                         {"vv", no_argument, NULL, 'V'},
                                         {"hostfile", required_argument, NULL, 0},
                                         {NULL, 0, NULL, 0}};
  enum { NUM_OTHERS = sizeof others / sizeof others[0] };
  struct option known[NUM_ROWS + NUM_OTHERS];
  for (int i = 0; i < NUM_ROWS; ++i) {
    known[i] = (struct option){rows[i].name,
                               rows[i].kind == KIND_SWITCH ? optional_argument : required_argument,
                               NULL, FIRST_OPTION + i};
  }
  memcpy(known + NUM_ROWS, others, sizeof others);
  known[NUM_ROWS + 5].val = (int)(find_row("host-file") - rows) + FIRST_OPTION;
  opterr = 0;
  optind = 1;
  for (int option; (option = getopt_long(argc, argv, "+:vhH:", known, NULL)) != -1;) {
    const int code = take_option(options, asked, option, argc, argv);
    if (code != 0) return code;
  }
  options->program = argv + optind;
  return 0;
}

static int check_options(const poprun_options *options) {
  if (options->program[0] == NULL) return poprun_usage("which program?");
  if (options->num_replicas % options->num_instances != 0) {
    return poprun_usage("--num-replicas %ld cannot be divided evenly among --num-instances %ld",
                        options->num_replicas, options->num_instances);
  }
  if (options->only_output_from >= options->num_instances) {
    return poprun_usage("--only-output-from-instance %ld: the instances are 0 to %ld",
                        options->only_output_from, options->num_instances - 1);
  }
  if (options->host[0] != '\0' && options->host_file[0] != '\0') {
    return poprun_usage("--host and --host-file exclude each other");
  }
  if (options->process_placement[0] != '\0' &&
      strcmp(options->process_placement, "disabled") != 0) {
    return poprun_usage("--process-placement: '%s' is not known; 'disabled' is",
                        options->process_placement);
  }
  if (options->num_replicas % options->num_ilds != 0) {
    return poprun_usage("--num-replicas %ld cannot be divided evenly among --num-ilds %ld",
                        options->num_replicas, options->num_ilds);
  }
  return 0;
}

int poprun_read_options(poprun_options *options, int argc, char **argv) {
  requests asked = {0};
  set_defaults(options);
  int code = read_line(options, &asked, argc, argv);
  if (code == 0 && options->import_config[0] != '\0') {
    char *path = copy_text(options->import_config);
    poprun_free_options(options);
    *options = (poprun_options){0};
    asked = (requests){0};
    set_defaults(options);
    code = import_config(options, path);
    free(path);
    if (code == 0) code = read_line(options, &asked, argc, argv);
  }
  if (code != 0) return code;
  options->is_done = asked.help || asked.version;
  if (asked.help) return print_help();
  if (asked.version) return print_version(options->version_format);
  const char *level = getenv("POPRUN_LOG_LEVEL");
  if (level != NULL && strcasecmp(level, "INFO") == 0 && asked.verbosity < 1) asked.verbosity = 1;
  if (level != NULL && (strcasecmp(level, "DEBUG") == 0 || strcasecmp(level, "TRACE") == 0)) {
    asked.verbosity = 2;
  }
  poprun_set_verbosity(asked.verbosity);
  code = check_options(options);
  if (code == 0 && options->export_config[0] != '\0') code = export_config(options);
  return code;
}
