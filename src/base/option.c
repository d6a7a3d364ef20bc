/* Owns: the values of options, from text. */
#include "base/option.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"

enum { MAX_ROWS = 128 };

int trm_option_find(const trm_option_table *table, const char *key, const char **out_nearest) {
  const char *keys[MAX_ROWS];
  const int count = table->num_rows < MAX_ROWS ? table->num_rows : MAX_ROWS;
  for (int i = 0; i < count; ++i) {
    keys[i] = table->rows[i].key;
    if (strcmp(key, keys[i]) == 0) return i;
  }
  *out_nearest = trm_nearest_name(key, keys, (size_t)count);
  return -1;
}

static bool parse_whole(const char *text, long least, long most, long *out_number) {
  char *end;
  errno = 0;
  *out_number = strtol(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && *out_number >= least && *out_number <= most;
}

static bool parse_real(const char *text, double most, double *out_number) {
  char *end;
  errno = 0;
  *out_number = strtod(text, &end);
  return errno == 0 && end != text && *end == '\0' && *out_number >= 0 && *out_number <= most;
}

static bool find_word(const trm_option_table *table, const char *key, const char *text,
                      size_t length, int *out_value) {
  for (int i = 0; i < table->num_words; ++i) {
    const trm_option_word *word = &table->words[i];
    if (strcmp(word->key, key) != 0 || strlen(word->word) != length ||
        memcmp(word->word, text, length) != 0) {
      continue;
    }
    *out_value = word->value;
    return true;
  }
  return false;
}

static bool parse_words(const trm_option_table *table, const char *key, const char *text,
                        uint32_t *out_bits) {
  *out_bits = 0;
  while (*text != '\0') {
    const size_t length = strcspn(text, ",");
    int bit;
    if (!find_word(table, key, text, length, &bit)) return false;
    *out_bits |= (uint32_t)bit;
    text += length + (text[length] == ',');
  }
  return true;
}

/* The whole numbers that a kind takes. */
static void bounds_of(trm_option_kind kind, long *out_least, long *out_most) {
  *out_least = kind == OPTION_KIND_COUNT ? 1 : 0;
  *out_most = kind == OPTION_KIND_BYTES    ? LONG_MAX
              : kind == OPTION_KIND_NUMBER ? 1000000000
                                           : 65536;
}

bool trm_option_set(const trm_option_table *table, int row, const char *text, void *options) {
  const trm_option_row *r = &table->rows[row];
  void *place = (char *)options + r->place;
  long number, least, most;
  bounds_of(r->kind, &least, &most);
  switch (r->kind) {
    case OPTION_KIND_FLAG:
      if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) return false;
      *(bool *)place = text[0] == 't';
      return true;
    case OPTION_KIND_TEXT: *(const char **)place = text; return true;
    case OPTION_KIND_COUNT:
    case OPTION_KIND_TILES:
    case OPTION_KIND_NUMBER:
      if (!parse_whole(text, least, most, &number)) return false;
      *(uint32_t *)place = (uint32_t)number;
      return true;
    case OPTION_KIND_BYTES:
      if (!parse_whole(text, least, most, &number)) return false;
      *(int64_t *)place = number;
      return true;
    case OPTION_KIND_PROPORTION: return parse_real(text, 1, place);
    case OPTION_KIND_SHARE: return parse_real(text, INFINITY, place);
    case OPTION_KIND_WORD: return find_word(table, r->key, text, strlen(text), place);
    case OPTION_KIND_WORDS: return parse_words(table, r->key, text, place);
  }
  return false;
}

void trm_option_set_defaults(const trm_option_table *table, void *options) {
  for (int i = 0; i < table->num_rows; ++i) {
    (void)trm_option_set(table, i, table->rows[i].value, options); /* a default fits */
  }
}

const char *trm_option_expected(const trm_option_table *table, int row,
                                char buffer[OPTION_EXPECTED_SIZE]) {
  const trm_option_row *r = &table->rows[row];
  const bool is_list = r->kind == OPTION_KIND_WORDS;
  long least, most;
  bounds_of(r->kind, &least, &most);
  switch (r->kind) {
    case OPTION_KIND_FLAG: return "true or false";
    case OPTION_KIND_TEXT: return "text";
    case OPTION_KIND_PROPORTION: return "a number from 0 to 1";
    case OPTION_KIND_SHARE: return "a number from 0 on";
    case OPTION_KIND_WORD:
    case OPTION_KIND_WORDS: break;
    default:
      snprintf(buffer, OPTION_EXPECTED_SIZE, "a number from %ld to %ld", least, most);
      return buffer;
  }
  int others = 0;
  for (int i = 0; i < table->num_words; ++i) others += strcmp(table->words[i].key, r->key) == 0;
  size_t used = (size_t)snprintf(buffer, OPTION_EXPECTED_SIZE, "%s", is_list ? "a list of " : "");
  for (int i = 0; i < table->num_words && used < OPTION_EXPECTED_SIZE; ++i) {
    if (strcmp(table->words[i].key, r->key) != 0) continue;
    --others;
    const char *comma = others > 1 ? ", " : others == 0 ? "" : is_list ? " and " : " or ";
    used += (size_t)snprintf(buffer + used, OPTION_EXPECTED_SIZE - used, "%s%s",
                             table->words[i].word, comma);
  }
  return buffer;
}
