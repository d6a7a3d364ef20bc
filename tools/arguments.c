/* Owns: small helpers for command lines and messages. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

/* Messages are one line, for scripts; control characters of file names do not reach a terminal. */
static void print_line(const char *text) {
  fputs("tremula: ", stderr);
  for (; *text != '\0'; ++text) {
    const bool is_control = (unsigned char)*text < 0x20 || *text == 0x7f;
    fputc(is_control ? ' ' : *text, stderr);
  }
  fputc('\n', stderr);
}

int complain(const trm_error *error) {
  fflush(stdout);
  if (error->message[0] != '\0') print_line(error->message);
  return EXIT_FAILED;
}

int complain_usage(const char *command, const char *format, ...) {
  char text[TRM_ERROR_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  char line[TRM_ERROR_SIZE + 64];
  snprintf(line, sizeof line, "%s (see tremula %s%s--help)", text, command,
           *command != '\0' ? " " : "");
  fflush(stdout);
  print_line(line);
  return EXIT_USAGE;
}

trm_status fail(trm_error *error, trm_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (error != NULL) {
    error->status = status;
    vsnprintf(error->message, sizeof error->message, format, args);
  }
  va_end(args);
  return status;
}

static bool may_be_repeated(const option_reader *reader, int option) {
  if (option == OPTION_FEED || option == OPTION_FETCH || option == OPTION_SHAPE) return true;
  for (const int *often = reader->often; often != NULL && *often != 0; ++often) {
    if (*often == option) return true;
  }
  return false;
}

static void refuse(const option_reader *reader, int option, const char *argument) {
  bool is_long = optopt == 0; /* an unknown one; else one of `longs`, or the letter */
  for (int i = 0; reader->longs[i].name != NULL; ++i) is_long |= reader->longs[i].val == optopt;
  const char letter[] = {'-', (char)optopt, '\0'};
  complain_usage(reader->command,
                 option == ':'            ? "%s wants a value"
                 : is_long && optopt != 0 ? "%s takes no value"
                                          : "unknown option %s",
                 is_long ? argument : letter);
}

int next_option(option_reader *reader, int argc, char **argv) {
  const int option = getopt_long(argc, argv, reader->letters, reader->longs, NULL);
  if (option == -1) return option;
  if (option == ':' || option == '?') {
    refuse(reader, option, argv[optind - 1]);
    return '?';
  }
  if (may_be_repeated(reader, option)) return option;
  for (int i = 0; reader->longs[i].name != NULL; ++i) {
    if (reader->longs[i].val != option || reader->longs[i].has_arg == no_argument) continue;
    if (reader->given >> i & 1) {
      complain_usage(reader->command, "--%s is given twice", reader->longs[i].name);
      return '?';
    }
    reader->given |= UINT64_C(1) << i;
  }
  return option;
}

const char *set_again(const trm_option *options, size_t count) {
  for (size_t o = 0; o < count; ++o) {
    for (size_t p = 0; p < o; ++p) {
      if (strcmp(options[o].key, options[p].key) == 0) return options[o].key;
    }
  }
  return NULL;
}

char *split_assignment(char *text) {
  char *equals = strchr(text, '=');
  if (equals == NULL || equals == text) return NULL;
  *equals = '\0';
  return equals + 1;
}

bool parse_count(const char *text, long most, long *out_count) {
  char *end;
  errno = 0;
  const long count = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || count < 1 || count > most) return false;
  *out_count = count;
  return true;
}

const char *type_text(trm_dtype dtype, int32_t rank, const int64_t *dims, char *buffer,
                      size_t size) {
  int used = snprintf(buffer, size, "%s[", trm_dtype_name(dtype));
  for (int32_t d = 0; d < rank && used > 0 && (size_t)used < size; ++d) {
    used += snprintf(buffer + used, size - (size_t)used, "%s%lld", d > 0 ? "," : "",
                     (long long)dims[d]);
  }
  if (used > 0 && (size_t)used < size) snprintf(buffer + used, size - (size_t)used, "]");
  return buffer;
}

bool string_list_add(string_list *list, char *item) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity == 0 ? 8 : 2 * list->capacity;
    char **items = realloc(list->items, capacity * sizeof *items);
    if (items == NULL) return false;
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = item;
  return true;
}

int count_profiles(char *const *paths) {
  int count = 0;
  for (; *paths != NULL; ++paths) {
    const size_t length = strlen(*paths);
    count += length < 5 || strcmp(*paths + length - 5, ".pvti") != 0;
  }
  return count;
}
