/* Names of programs, and folders. */
#define _GNU_SOURCE
#include "names.h"

#include <ctype.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_LENGTH = 128 };

/* A name that is taken. */
typedef struct name_count {
  char name[MOST_LENGTH + 12];
  unsigned count; /* how many have asked for it */
} name_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *counts; /* a tree of name_counts */

static int by_name(const void *a, const void *b) {
  return strcmp(((const name_count *)a)->name, ((const name_count *)b)->name);
}

/* Takes the name, or, where it is taken, the next one with a number. NULL when memory has run
 * out. */
static const char *take_name(const name_count *wanted) {
  name_count *const *found = tfind(wanted, &counts, by_name);
  name_count numbered = *wanted;
  while (found && tfind(&numbered, &counts, by_name))
    snprintf(numbered.name, sizeof numbered.name, "%s_%u", wanted->name, ++(*found)->count);
  name_count *one = malloc(sizeof *one);
  if (!one) return NULL;
  *one = numbered;
  if (tsearch(one, &counts, by_name)) return one->name;
  free(one);
  return NULL;
}

char *names_claim(const char *module) {
  name_count wanted = {.count = 1};
  for (size_t i = 0; module[i] && i + 1 < MOST_LENGTH; ++i) {
    const unsigned char c = (unsigned char)module[i];
    const bool fits = isalnum(c) || c == '_' || c == '-' || (c == '.' && i > 0);
    wanted.name[i] = fits ? (char)c : '_';
  }
  pthread_mutex_lock(&lock);
  const char *taken = take_name(&wanted);
  pthread_mutex_unlock(&lock);
  return taken ? strdup(taken) : NULL; /* what is taken stays */
}

bool names_make_folder(const char *path) {
  char *part = strdup(path);
  if (!part) return false;
  for (char *slash = *part ? strchr(part + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(part, 0777);
    *slash = '/';
  }
  struct stat info;
  mkdir(part, 0777);
  const bool is_there = stat(part, &info) == 0 && S_ISDIR(info.st_mode);
  free(part);
  return is_there;
}
