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

typedef struct name_count {
  char name[MOST_LENGTH];
  unsigned count;
} name_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *counts; /* a tree of name_counts */

static int by_name(const void *a, const void *b) {
  return strcmp(((const name_count *)a)->name, ((const name_count *)b)->name);
}

/* How many programs have had this name, this one included; 0 when memory has run out. */
static unsigned count_name(const name_count *wanted) {
  name_count *const *found = tfind(wanted, &counts, by_name);
  name_count *one = found ? *found : NULL;
  if (!one) {
    one = malloc(sizeof *one);
    if (!one) return 0;
    *one = *wanted;
    if (!tsearch(one, &counts, by_name)) {
      free(one);
      return 0;
    }
  }
  return ++one->count;
}

char *names_claim(const char *module) {
  name_count wanted = {.count = 0};
  for (size_t i = 0; module[i] && i + 1 < sizeof wanted.name; i++) {
    const unsigned char c = (unsigned char)module[i];
    const bool fits = isalnum(c) || c == '_' || c == '-' || (c == '.' && i > 0);
    wanted.name[i] = fits ? (char)c : '_';
  }
  pthread_mutex_lock(&lock);
  const unsigned count = count_name(&wanted);
  pthread_mutex_unlock(&lock);
  char *name = NULL;
  if (count == 1) return strdup(wanted.name);
  if (count == 0 || asprintf(&name, "%s_%u", wanted.name, count) < 0) return NULL;
  return name;
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
